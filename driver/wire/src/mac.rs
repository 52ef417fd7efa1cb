// SPDX-License-Identifier: MIT OR Apache-2.0
//! MAC addresses.
use core::{fmt, str::FromStr};

/// Six octets in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// All ones?
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }
    /// Group bit set (broadcast included)?
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
    /// As the adapter's registers and the core hold it: first octet in bits 7:0.
    pub const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
    /// Undoes [`MacAddr::to_bits`]; bits 63:48 are ignored.
    pub const fn from_bits(bits: u64) -> Self {
        let [a, b, c, d, e, f, ..] = bits.to_le_bytes();
        MacAddr([a, b, c, d, e, f])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Not six octets in hexadecimal with colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write six octets in hexadecimal with colons, as in 02:00:00:00:00:01")
    }
}

impl core::error::Error for ParseMacError {}

impl FromStr for MacAddr {
    type Err = ParseMacError;
    fn from_str(s: &str) -> Result<Self, ParseMacError> {
        let mut octets = [0; 6];
        let mut parts = s.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|p| (1..=2).contains(&p.len())).ok_or(ParseMacError)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
        }
        parts.next().map_or(Ok(MacAddr(octets)), |_| Err(ParseMacError))
    }
}
