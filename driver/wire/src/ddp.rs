// SPDX-License-Identifier: MIT OR Apache-2.0
//! Headers of DDP (RFC 5041 s4), with the octets that it carries for RDMAP.
use crate::{
    octets::{put, room, u32_at, u64_at},
    Error,
};

/// Octets of a tagged header.
pub const TAGGED_OCTETS: usize = 14;
/// Octets of an untagged header.
pub const UNTAGGED_OCTETS: usize = 18;
/// Value of DV.
pub const VERSION: u8 = 1;

/// Bits of the first octet; the others are reserved.
pub mod control {
    /// T: tagged.
    pub const TAGGED: u8 = 0x80;
    /// L: last segment of its message.
    pub const LAST: u8 = 0x40;
    /// DV.
    pub const VERSION: u8 = 0x03;
}

/// Borrowed segment whose header is whole; any version.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length against T.
    pub fn new(octets: &'a [u8]) -> Result<Self, Error> {
        let Some(first) = octets.first() else { return Err(Error::Truncated) };
        let need = if first & control::TAGGED != 0 { TAGGED_OCTETS } else { UNTAGGED_OCTETS };
        if octets.len() < need {
            return Err(Error::Truncated);
        }
        Ok(View(octets))
    }
    /// T.
    pub fn is_tagged(&self) -> bool {
        self.0[0] & control::TAGGED != 0
    }
    /// L.
    pub fn is_last(&self) -> bool {
        self.0[0] & control::LAST != 0
    }
    /// DV.
    pub fn version(&self) -> u8 {
        self.0[0] & control::VERSION
    }
    /// The octet that is RDMAP's.
    pub fn rdmap(&self) -> u8 {
        self.0[1]
    }
    /// Octets 2 to 5: the STag if tagged, else RDMAP's Invalidate STag.
    pub fn stag(&self) -> u32 {
        u32_at(self.0, 2)
    }
    /// Tagged: TO.
    pub fn to(&self) -> Option<u64> {
        self.is_tagged().then(|| u64_at(self.0, 6))
    }
    /// Untagged: QN.
    pub fn qn(&self) -> Option<u32> {
        (!self.is_tagged()).then(|| u32_at(self.0, 6))
    }
    /// Untagged: MSN.
    pub fn msn(&self) -> Option<u32> {
        (!self.is_tagged()).then(|| u32_at(self.0, 10))
    }
    /// Untagged: MO.
    pub fn mo(&self) -> Option<u32> {
        (!self.is_tagged()).then(|| u32_at(self.0, 14))
    }
    fn header_len(&self) -> usize {
        if self.is_tagged() {
            TAGGED_OCTETS
        } else {
            UNTAGGED_OCTETS
        }
    }
    /// The header, as a Terminate returns it.
    pub fn header(&self) -> &'a [u8] {
        &self.0[..self.header_len()]
    }
    /// Behind the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
    /// The whole segment.
    pub fn octets(&self) -> &'a [u8] {
        self.0
    }
}

/// Header in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Names its place.
    Tagged {
        /// L.
        last: bool,
        /// RDMAP's octet.
        rdmap: u8,
        /// STag.
        stag: u32,
        /// TO.
        to: u64,
    },
    /// Goes to a queue.
    Untagged {
        /// L.
        last: bool,
        /// RDMAP's octet.
        rdmap: u8,
        /// RDMAP's Invalidate STag, else 0.
        stag: u32,
        /// QN.
        qn: u32,
        /// MSN.
        msn: u32,
        /// MO.
        mo: u32,
    },
}

impl Header {
    /// Header and payload. Reserved bits are ignored (DDP-20); another version is `Malformed`.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Error> {
        let view = View::new(octets)?;
        if view.version() != VERSION {
            return Err(Error::Malformed);
        }
        let (last, rdmap, stag) = (view.is_last(), view.rdmap(), view.stag());
        let header = match (view.to(), view.qn(), view.msn(), view.mo()) {
            (Some(to), ..) => Header::Tagged { last, rdmap, stag, to },
            (None, Some(qn), Some(msn), Some(mo)) => Header::Untagged { last, rdmap, stag, qn, msn, mo },
            _ => return Err(Error::Malformed),
        };
        Ok((header, view.payload()))
    }
    /// Octets that [`Header::emit`] writes.
    pub const fn len(&self) -> usize {
        match self {
            Header::Tagged { .. } => TAGGED_OCTETS,
            Header::Untagged { .. } => UNTAGGED_OCTETS,
        }
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes the header.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, self.len())?;
        let first = |last, tagged| VERSION | if last { control::LAST } else { 0 } | tagged;
        match *self {
            Header::Tagged { last, rdmap, stag, to } => {
                put(out, 0, &[first(last, control::TAGGED), rdmap]);
                put(out, 2, &stag.to_be_bytes());
                put(out, 6, &to.to_be_bytes());
            }
            Header::Untagged { last, rdmap, stag, qn, msn, mo } => {
                put(out, 0, &[first(last, 0), rdmap]);
                put(out, 2, &stag.to_be_bytes());
                put(out, 6, &qn.to_be_bytes());
                put(out, 10, &msn.to_be_bytes());
                put(out, 14, &mo.to_be_bytes());
            }
        }
        Ok(self.len())
    }
}
