// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up frames of MPA (RFC 5044 s7.1) and their enhanced form (RFC 6581 s6).
use crate::{
    octets::{put, room, u16_at},
    Error,
};

/// Octets before the private data.
pub const HEADER_OCTETS: usize = 20;
/// Most octets behind the header, the two words of the enhanced form among them.
pub const MAX_DATA_OCTETS: usize = 512;
/// Octets of the two words of the enhanced form.
pub const ENHANCED_OCTETS: usize = 4;
/// Revision of the plain form.
pub const REVISION_PLAIN: u8 = 1;
/// Revision that knows the enhanced form.
pub const REVISION_ENHANCED: u8 = 2;
/// First octets of a Request.
pub const REQUEST_KEY: [u8; 16] = *b"MPA ID Req Frame";
/// First octets of a Reply.
pub const REPLY_KEY: [u8; 16] = *b"MPA ID Rep Frame";

/// Flag bits as they stand in octet 16; the others are reserved.
pub mod flag {
    /// M: the sender wants markers in what it receives.
    pub const MARKERS: u8 = 0x80;
    /// C: the sender wants CRC.
    pub const CRC: u8 = 0x40;
    /// R: the connection is refused.
    pub const REJECT: u8 = 0x20;
    /// S: the enhanced words are there; reserved in revision 1.
    pub const ENHANCED: u8 = 0x10;
}

/// Parts of the enhanced words.
pub mod word {
    /// A, in the IRD word: peer-to-peer.
    pub const PEER_TO_PEER: u16 = 0x8000;
    /// B, in the IRD word: a Send may be the first message.
    pub const RTR_SEND: u16 = 0x4000;
    /// C, in the ORD word: a Write of no octets may be the first message.
    pub const RTR_WRITE: u16 = 0x8000;
    /// D, in the ORD word: a Read of no octets may be the first message.
    pub const RTR_READ: u16 = 0x4000;
    /// The number in either word.
    pub const DEPTH: u16 = 0x3fff;
    /// The number that means "do not negotiate".
    pub const NO_NEGOTIATION: u16 = 0x3fff;
}

/// A Request or a Reply?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From the initiator.
    Request,
    /// From the responder.
    Reply,
}

impl Kind {
    /// First octets of such a frame.
    pub const fn key(self) -> [u8; 16] {
        match self {
            Kind::Request => REQUEST_KEY,
            Kind::Reply => REPLY_KEY,
        }
    }
}

/// Borrowed frame, complete, with a right key and a right length; any revision.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// From the first octets of a stream; what follows the frame is left out. `Truncated`: more octets may make it a frame. `Malformed`:
    /// they cannot any more.
    pub fn new(octets: &'a [u8]) -> Result<Self, Error> {
        let key = &octets[..octets.len().min(REQUEST_KEY.len())];
        if !REQUEST_KEY.starts_with(key) && !REPLY_KEY.starts_with(key) {
            return Err(Error::Malformed);
        }
        if octets.len() < HEADER_OCTETS {
            return Err(Error::Truncated);
        }
        let view = View(octets);
        let data = usize::from(view.data_len());
        if data > MAX_DATA_OCTETS || view.is_enhanced() && data < ENHANCED_OCTETS {
            return Err(Error::Malformed);
        }
        octets.get(..HEADER_OCTETS + data).map(View).ok_or(Error::Truncated)
    }
    /// Octets of the whole frame.
    pub fn octets(&self) -> &'a [u8] {
        self.0
    }
    /// Which key?
    pub fn kind(&self) -> Kind {
        if self.0.starts_with(&REPLY_KEY) {
            Kind::Reply
        } else {
            Kind::Request
        }
    }
    /// Bits of [`flag`], and reserved ones.
    pub fn flags(&self) -> u8 {
        self.0[16]
    }
    /// Rev.
    pub fn revision(&self) -> u8 {
        self.0[17]
    }
    /// PD_Length.
    pub fn data_len(&self) -> u16 {
        u16_at(self.0, 18)
    }
    /// Does the frame have the enhanced words? S means nothing in revision 1 (ENH-18).
    pub fn is_enhanced(&self) -> bool {
        self.flags() & flag::ENHANCED != 0 && self.revision() >= REVISION_ENHANCED
    }
    /// The enhanced words.
    pub fn enhanced(&self) -> Option<Enhanced> {
        self.is_enhanced().then(|| Enhanced { ird_word: u16_at(self.0, HEADER_OCTETS), ord_word: u16_at(self.0, HEADER_OCTETS + 2) })
    }
    /// Private data without the enhanced words.
    pub fn private_data(&self) -> &'a [u8] {
        let words = if self.is_enhanced() { ENHANCED_OCTETS } else { 0 };
        &self.0[HEADER_OCTETS + words..]
    }
}

/// The two words of the enhanced form; each is a number and two bits of [`word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Enhanced {
    /// A, B, and how many Reads the sender can serve at a time.
    pub ird_word: u16,
    /// C, D, and how many Reads the sender wants to have open at a time.
    pub ord_word: u16,
}

impl Enhanced {
    /// IRD.
    pub const fn ird(self) -> u16 {
        self.ird_word & word::DEPTH
    }
    /// ORD.
    pub const fn ord(self) -> u16 {
        self.ord_word & word::DEPTH
    }
}

/// Frame in plain form; its private data stays borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// Key.
    pub kind: Kind,
    /// M.
    pub markers: bool,
    /// C.
    pub crc: bool,
    /// R.
    pub reject: bool,
    /// Rev: [`REVISION_PLAIN`] or [`REVISION_ENHANCED`].
    pub revision: u8,
    /// The enhanced words, in revision 2 only.
    pub enhanced: Option<Enhanced>,
    /// Without the enhanced words; at most [`MAX_DATA_OCTETS`] with them.
    pub private_data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Frame and what follows it in the stream. Reserved flags are ignored (MPA-16).
    pub fn parse(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let view = View::new(octets)?;
        if !matches!(view.revision(), REVISION_PLAIN | REVISION_ENHANCED) {
            return Err(Error::Malformed);
        }
        let is = |bit| view.flags() & bit != 0;
        let frame = Frame {
            kind: view.kind(),
            markers: is(flag::MARKERS),
            crc: is(flag::CRC),
            reject: is(flag::REJECT),
            revision: view.revision(),
            enhanced: view.enhanced(),
            private_data: view.private_data(),
        };
        Ok((frame, &octets[view.octets().len()..]))
    }
    const fn words(&self) -> usize {
        if self.enhanced.is_some() {
            ENHANCED_OCTETS
        } else {
            0
        }
    }
    /// Octets that [`Frame::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_OCTETS + self.words() + self.private_data.len()
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes the frame.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let data_len = self.words() + self.private_data.len();
        let revision_ok = match self.revision {
            REVISION_PLAIN => self.enhanced.is_none(),
            REVISION_ENHANCED => true,
            _ => false,
        };
        if data_len > MAX_DATA_OCTETS || !revision_ok {
            return Err(Error::Malformed);
        }
        let out = room(out, self.len())?;
        let bit = |on, bit| if on { bit } else { 0 };
        let flags = bit(self.markers, flag::MARKERS)
            | bit(self.crc, flag::CRC)
            | bit(self.reject, flag::REJECT)
            | bit(self.enhanced.is_some(), flag::ENHANCED);
        put(out, 0, &self.kind.key());
        put(out, 16, &[flags, self.revision]);
        put(out, 18, &(data_len as u16).to_be_bytes());
        if let Some(words) = self.enhanced {
            put(out, HEADER_OCTETS, &words.ird_word.to_be_bytes());
            put(out, HEADER_OCTETS + 2, &words.ord_word.to_be_bytes());
        }
        put(out, HEADER_OCTETS + self.words(), self.private_data);
        Ok(self.len())
    }
}
