// SPDX-License-Identifier: MIT OR Apache-2.0
//! Big-endian fields at fixed places. Callers checked the length when they made the view.
use crate::Error;
use core::net::Ipv4Addr;

pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) << 32 | u64::from(u32_at(b, at + 4))
}

pub(crate) fn ipv4_at(b: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32_at(b, at))
}

pub(crate) fn put(b: &mut [u8], at: usize, octets: &[u8]) {
    b[at..at + octets.len()].copy_from_slice(octets);
}

/// The first `len` octets to be written.
pub(crate) fn room(b: &mut [u8], len: usize) -> Result<&mut [u8], Error> {
    b.get_mut(..len).ok_or(Error::NoSpace)
}
