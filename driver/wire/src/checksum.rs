// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071): ones' complement of the ones' complement sum of 16-bit words.
use core::net::Ipv4Addr;

/// Running sum. Octets are added in pieces; every piece but the last must have an even length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// An empty sum.
    pub const fn new() -> Self {
        Sum(0)
    }
    /// Adds octets; an odd last one is padded with a zero octet for the sum only.
    pub fn octets(mut self, octets: &[u8]) -> Self {
        let mut words = octets.chunks_exact(2);
        for word in &mut words {
            self.0 += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            self.0 += u64::from(*last) << 8;
        }
        self
    }
    /// Adds the pseudo-header of TCP and UDP over IPv4; `len` is that of header and text in octets.
    pub fn add_pseudo_header(self, source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u16) -> Self {
        self.octets(&source.octets()).octets(&destination.octets()).octets(&[0, protocol]).octets(&len.to_be_bytes())
    }
    /// The checksum field; 0 when the sum covered a correct one.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// Checksum of one run of octets.
pub fn checksum(octets: &[u8]) -> u16 {
    Sum::new().octets(octets).finish()
}
