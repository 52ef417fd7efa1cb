// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every frame format once: Ethernet II, ARP, IPv4, ICMP, the TCP header with its options, the start-up frames and the FPDUs of MPA, the
//! headers of DDP and of RDMAP.
//!
//! Each module has a *view* (borrowed octets whose length was checked once, with a getter a field) and a *plain struct* with
//! [`parse`](ethernet::Header::parse) and `emit` that undo each other. Nothing is allocated; nothing panics on octets from the wire.
//! Numbers are in host order, addresses are [`core::net::Ipv4Addr`] and [`MacAddr`].
#![no_std]
#![deny(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod ddp;
pub mod ethernet;
pub mod fpdu;
pub mod icmp;
pub mod ipv4;
mod mac;
pub mod mpa;
mod octets;
pub mod rdmap;
pub mod tcp;

pub use mac::{MacAddr, ParseMacError};

/// Why octets are not what a module describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Fewer octets than the format needs, or than its own length field says.
    Truncated,
    /// A field has a value that the format does not allow.
    Malformed,
    /// The checksum does not fit the octets.
    Checksum,
    /// The buffer that was to be written is too small.
    NoSpace,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "cut short",
            Error::Malformed => "a field has a value that it may not have",
            Error::Checksum => "checksum wrong",
            Error::NoSpace => "buffer too small",
        })
    }
}

impl core::error::Error for Error {}
