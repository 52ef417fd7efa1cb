// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why something failed, in the names of Linux.
use std::io;

macro_rules! errnos {
    ($($name:ident = $number:ident, $text:literal;)*) => {
        /// Why a verb or a connection failed. Numbers and names are those of Linux.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
        pub enum Errno {
            $(#[doc = concat!(stringify!($number), ": ", $text, ".")] #[error("{} ({})", $text, stringify!($number))] $name,)*
            /// Any other number.
            #[error("errno {0}")]
            Other(i32),
        }

        impl Errno {
            /// All that have a name.
            pub const ALL: &'static [Errno] = &[$(Errno::$name),*];
            /// Positive number, as in `errno`.
            pub const fn raw(self) -> i32 {
                match self {
                    $(Errno::$name => libc::$number,)*
                    Errno::Other(raw) => raw,
                }
            }
            /// From a number of either sign.
            pub const fn from_raw(raw: i32) -> Self {
                match raw.wrapping_abs() {
                    $(libc::$number => Errno::$name,)*
                    raw => Errno::Other(raw),
                }
            }
            /// As in a manual page.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Errno::$name => stringify!($number),)*
                    Errno::Other(_) => "E?",
                }
            }
        }
    };
}

errnos! {
    NotPermitted = EPERM, "not permitted";
    NoEntry = ENOENT, "no such object";
    Io = EIO, "the device failed";
    Again = EAGAIN, "nothing there yet";
    NoMemory = ENOMEM, "no memory or no slot left";
    Access = EACCES, "reserved, or no right to it";
    Fault = EFAULT, "outside of its memory";
    Busy = EBUSY, "still in use";
    Exists = EEXIST, "exists already";
    NoDevice = ENODEV, "no such device";
    Invalid = EINVAL, "not in this state, or a value that may not be";
    NotSupported = EOPNOTSUPP, "this device cannot do that";
    Deadlock = EDEADLK, "would wait for itself";
    NoSystemCall = ENOSYS, "the device does not know the request";
    Overflow = EOVERFLOW, "more came than there was room for";
    Protocol = EPROTO, "the peer's frame is not as the RFCs have it";
    MessageSize = EMSGSIZE, "too long";
    AddressInUse = EADDRINUSE, "address in use";
    AddressNotAvailable = EADDRNOTAVAIL, "not an address of this device";
    NetworkDown = ENETDOWN, "the network is down";
    NetworkUnreachable = ENETUNREACH, "no route to that network";
    ConnectionAborted = ECONNABORTED, "connection aborted";
    ConnectionReset = ECONNRESET, "connection reset";
    NoBuffers = ENOBUFS, "no port or buffer left";
    IsConnected = EISCONN, "connected already";
    NotConnected = ENOTCONN, "not connected";
    TimedOut = ETIMEDOUT, "no answer in time";
    ConnectionRefused = ECONNREFUSED, "connection refused";
    HostUnreachable = EHOSTUNREACH, "no way to that host";
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(raw) => Errno::from_raw(raw),
            None => match error.kind() {
                io::ErrorKind::TimedOut => Errno::TimedOut,
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Errno::ConnectionReset,
                io::ErrorKind::WouldBlock => Errno::Again,
                io::ErrorKind::OutOfMemory => Errno::NoMemory,
                io::ErrorKind::InvalidInput => Errno::Invalid,
                _ => Errno::Io,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_belong_together() {
        for &errno in Errno::ALL {
            assert_eq!(Errno::from_raw(errno.raw()), errno);
            assert_eq!(Errno::from_raw(-errno.raw()), errno);
            assert!(errno.to_string().ends_with(&format!("({})", errno.name())), "{errno}");
        }
        assert_eq!(Errno::from_raw(i32::MIN), Errno::Other(i32::MIN), "no overflow");
        assert_eq!(Errno::from(io::Error::from(io::ErrorKind::UnexpectedEof)), Errno::ConnectionReset);
    }
}
