// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TAP interface of this machine: its network stack is the peer.
//!
//! Frames from the stack are padded to 60 octets, as a MAC does that sends them (ETH-4). The interface gets its addresses and its
//! "up" from whoever owns it (`ip addr`, `ip link`).
#![allow(unsafe_code)] // TUNSETIFF has no safe wrapper
use super::{Frame, SentFrame, Wire};
use crate::monitor::MIN_FRAME;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

/// Cycles between two looks at an interface that had no frame.
const LOOK_EVERY: u64 = 64;

/// Why there is no TAP interface. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// Not a possible name.
    #[error("{0:?} is no interface name (1 to 15 characters)")]
    Name(String),
    /// Not there, and nobody asked to create it.
    #[error("there is no interface {0}; make it with `sudo ip tuntap add dev {0} mode tap user $USER`, or ask for it to be created")]
    Missing(String),
    /// `/dev/net/tun` cannot be opened.
    #[error("/dev/net/tun cannot be opened ({0}); it needs the tun module, and in a container the device")]
    Device(#[source] io::Error),
    /// No right to it.
    #[error(
        "no right to use {name} ({source}); run as root, or give it to this user with `sudo ip tuntap add dev {name} mode tap user $USER`"
    )]
    Denied {
        /// Interface.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another program has it.
    #[error("{0} is in use by another program, or is not a TAP interface")]
    Busy(String),
    /// Anything else.
    #[error("{name}: {source}")]
    Io {
        /// Interface.
        name: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// See the module.
pub struct TapDevice {
    file: File,
    name: String,
    buffer: Vec<u8>,
    next_look: u64,
    lost: u64,
}

impl TapDevice {
    /// Attaches to the TAP interface `name`. With `create` it is made if it is not there, and then lives as long as this value does.
    pub fn open(name: &str, create: bool) -> Result<Self, TapError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
            return Err(TapError::Name(name.into()));
        }
        if !create && !Path::new("/sys/class/net").join(name).exists() {
            return Err(TapError::Missing(name.into()));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(TapError::Device)?;
        // SAFETY: ifreq is plain data; all zeros is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is open, the request is a live ifreq as TUNSETIFF wants it.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } < 0 {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => TapError::Denied { name: name.into(), source },
                Some(libc::EBUSY | libc::EINVAL) => TapError::Busy(name.into()),
                _ => TapError::Io { name: name.into(), source },
            });
        }
        Ok(TapDevice { file, name: name.into(), buffer: vec![0; 1 << 16], next_look: 0, lost: 0 })
    }
    /// Interface name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Frames of the adapter that the interface did not take: it was down, or its queue full.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl Wire for TapDevice {
    fn ends(&self) -> usize {
        1
    }
    fn send(&mut self, _end: usize, sent: SentFrame) {
        if let Err(error) = self.file.write_all(&sent.frame.octets) {
            if self.lost == 0 {
                tracing::warn!(interface = self.name, %error, "a frame was lost (is the interface up?)");
            }
            self.lost += 1;
        }
    }
    fn receive(&mut self, _end: usize, now: u64) -> Option<Frame> {
        if now < self.next_look {
            return None;
        }
        // an error is an empty queue, or an interface that is gone: nothing comes either way
        let len = self.file.read(&mut self.buffer).unwrap_or(0);
        if len == 0 {
            self.next_look = now + LOOK_EVERY;
            return None;
        }
        let mut octets = self.buffer[..len].to_vec();
        octets.resize(len.max(MIN_FRAME), 0);
        Some(Frame::good(octets))
    }
    fn idle(&self) -> bool {
        true
    }
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
    fn rest(&mut self) {
        // the world slept, maybe because a frame woke it
        self.next_look = 0;
    }
}
