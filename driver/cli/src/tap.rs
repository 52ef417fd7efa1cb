// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TAP interface that stands for the adapter in the host's own network stack: its MAC address, its IPv4 address, and no ARP, as
//! the adapter resolves next hops itself. It lives as long as the value does.
#![allow(unsafe_code)] // interface ioctls have no safe wrapper
use crate::device::Network;
use ironwarp_wire::MacAddr;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    net::{Ipv4Addr, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
};

/// Why there is no interface.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// Not a possible name.
    #[error("{0:?} is no interface name (1 to 15 characters)")]
    Name(String),
    /// `/dev/net/tun`.
    #[error("/dev/net/tun cannot be opened ({0}); it needs the tun module, and in a container the device")]
    Device(#[source] io::Error),
    /// An ioctl failed.
    #[error("{what} of interface {name}: {source}; this needs root or CAP_NET_ADMIN, and a name that no other program uses")]
    SetUp {
        /// Interface.
        name: String,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// See the module.
pub struct Tap {
    file: File,
}

/// An interface request, and the socket that carries it.
struct Interface<'a> {
    name: &'a str,
    socket: UdpSocket,
}

impl Interface<'_> {
    fn request(&self) -> libc::ifreq {
        // SAFETY: plain octets; all zero is an empty request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }
    fn ioctl(&self, fd: BorrowedFd<'_>, number: libc::c_ulong, what: &'static str, request: &mut libc::ifreq) -> Result<(), TapError> {
        // SAFETY: every number used here takes a pointer to an ifreq, which `request` is.
        if unsafe { libc::ioctl(fd.as_raw_fd(), number as _, std::ptr::from_mut(request)) } < 0 {
            return Err(TapError::SetUp { name: self.name.into(), what, source: io::Error::last_os_error() });
        }
        Ok(())
    }
    fn set(&self, number: libc::c_ulong, what: &'static str, fill: impl FnOnce(&mut libc::ifreq)) -> Result<(), TapError> {
        let mut request = self.request();
        fill(&mut request);
        self.ioctl(self.socket.as_fd(), number, what, &mut request)
    }
}

/// `struct sockaddr_in` in the octets of a `sockaddr`.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0 as libc::c_char; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

impl Tap {
    /// Makes the interface and brings it up.
    pub fn create(name: &str, mac: MacAddr, network: Network, mtu: u32) -> Result<Self, TapError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
            return Err(TapError::Name(name.into()));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(TapError::Device)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(TapError::Device)?;
        let interface = Interface { name, socket };
        let mut request = interface.request();
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        interface.ioctl(file.as_fd(), libc::TUNSETIFF as _, "creation", &mut request)?;
        // no IPv6 on it: the adapter knows none. Where /proc has no such file there is nothing to switch off.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        interface.set(libc::SIOCSIFHWADDR as _, "MAC address", |r| {
            let mut data = [0 as libc::c_char; 14];
            for (to, from) in data.iter_mut().zip(mac.0) {
                *to = from as libc::c_char;
            }
            r.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
        })?;
        interface.set(libc::SIOCSIFMTU as _, "MTU", |r| r.ifr_ifru.ifru_mtu = mtu as libc::c_int)?;
        interface.set(libc::SIOCSIFFLAGS as _, "bringing up", |r| {
            r.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_NOARP) as libc::c_short;
        })?;
        interface.set(libc::SIOCSIFADDR as _, "address", |r| r.ifr_ifru.ifru_addr = socket_address(network.address))?;
        interface.set(libc::SIOCSIFNETMASK as _, "mask", |r| r.ifr_ifru.ifru_netmask = socket_address(network.mask()))?;
        Ok(Tap { file })
    }
    /// The next frame of the host's stack; none if there is none at the moment.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.file.read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }
    /// Gives a frame to the host's stack; false if it took it not.
    pub fn write(&mut self, frame: &[u8]) -> bool {
        self.file.write(frame).is_ok()
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
