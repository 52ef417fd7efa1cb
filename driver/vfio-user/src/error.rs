// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong between the two sides.
use crate::Errno;
use std::time::Duration;

/// Why a request was not carried out, or why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The other side closed the socket, or its process ended.
    #[error("the other side closed the vfio-user socket")]
    Disconnected,
    /// No answer in time. Give a slow device a longer bound.
    #[error("no answer to {what} within {after:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The bound.
        after: Duration,
    },
    /// The device answered with an error.
    #[error("the device refused {what}: {errno}")]
    Refused {
        /// The request.
        what: &'static str,
        /// The device's reason; `EIO` where it gave none.
        errno: Errno,
    },
    /// The other side broke the protocol, or speaks another version.
    #[error("vfio-user protocol: {0}")]
    Protocol(String),
    /// The request cannot be sent: it is beyond what the two sides agreed on.
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// An operating system error while doing `what`.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Error::Io { what: what.into(), source: source.into() }
    }
}
