// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TCP header (RFC 9293 s3.1), with options as octets.
use crate::{
    checksum::Sum,
    ipv4::PROTOCOL_TCP,
    octets::{put, room, u16_at, u32_at},
    Error,
};
use core::net::Ipv4Addr;

/// Octets of a header without options.
pub const HEADER_OCTETS: usize = 20;
/// Most octets of options.
pub const MAX_OPTION_OCTETS: usize = 40;

/// Flag bits as they stand in octet 13.
pub mod flag {
    #![allow(missing_docs)] // names of RFC 9293
    pub const FIN: u8 = 1 << 0;
    pub const SYN: u8 = 1 << 1;
    pub const RST: u8 = 1 << 2;
    pub const PSH: u8 = 1 << 3;
    pub const ACK: u8 = 1 << 4;
    pub const URG: u8 = 1 << 5;
    pub const ECE: u8 = 1 << 6;
    pub const CWR: u8 = 1 << 7;
}

/// Kinds of options; all others have a length octet.
pub mod option {
    #![allow(missing_docs)] // names of RFC 9293
    pub const END: u8 = 0;
    pub const NO_OPERATION: u8 = 1;
    pub const MSS: u8 = 2;
    /// Octets of the MSS option.
    pub const MSS_OCTETS: usize = 4;
}

/// The MSS option with this value.
pub const fn mss_option(value: u16) -> [u8; option::MSS_OCTETS] {
    let [high, low] = value.to_be_bytes();
    [option::MSS, option::MSS_OCTETS as u8, high, low]
}

/// One option with a length: its kind and the octets behind the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpOption<'a> {
    /// Kind.
    pub kind: u8,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// Walks options with their pad (TCP-2). Ends at the end-of-options octet, or after the error `Malformed`: a length that is 0, 1, not there,
/// or beyond the header.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The octets between the fixed header and the text.
    pub const fn new(octets: &'a [u8]) -> Self {
        Options(octets)
    }
    /// Value of the last MSS option of 4 octets; kind 2 with another length is none. An error if the options cannot be walked.
    pub fn mss(self) -> Result<Option<u16>, Error> {
        let mut mss = None;
        for option in self {
            if let TcpOption { kind: option::MSS, data: &[high, low] } = option? {
                mss = Some(u16::from_be_bytes([high, low]));
            }
        }
        Ok(mss)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, rest) = self.0.split_first()?;
            self.0 = match kind {
                option::END => &[],
                option::NO_OPERATION => rest,
                _ => {
                    let whole = self.0;
                    self.0 = &[];
                    let len = rest.first().map_or(0, |len| usize::from(*len));
                    if len < 2 || len > whole.len() {
                        return Some(Err(Error::Malformed));
                    }
                    self.0 = &whole[len..];
                    return Some(Ok(TcpOption { kind, data: &whole[2..len] }));
                }
            };
        }
    }
}

/// Borrowed segment: header, options and text.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length against Data Offset, not the checksum.
    pub fn new(octets: &'a [u8]) -> Result<Self, Error> {
        if octets.len() < HEADER_OCTETS {
            return Err(Error::Truncated);
        }
        let view = View(octets);
        if view.header_len() < HEADER_OCTETS {
            return Err(Error::Malformed);
        }
        if view.header_len() > octets.len() {
            return Err(Error::Truncated);
        }
        Ok(view)
    }
    /// Octets of header and options.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }
    /// Is the checksum right between these addresses (TCP-1)?
    pub fn checksum_ok(&self, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        u16::try_from(self.0.len())
            .is_ok_and(|len| Sum::new().add_pseudo_header(source, destination, PROTOCOL_TCP, len).octets(self.0).finish() == 0)
    }
    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.0, 0)
    }
    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0, 2)
    }
    /// Sequence number.
    pub fn sequence(&self) -> u32 {
        u32_at(self.0, 4)
    }
    /// Acknowledgment number.
    pub fn acknowledgment(&self) -> u32 {
        u32_at(self.0, 8)
    }
    /// Bits of [`flag`].
    pub fn flags(&self) -> u8 {
        self.0[13]
    }
    /// Window as it stands, not scaled.
    pub fn window(&self) -> u16 {
        u16_at(self.0, 14)
    }
    /// Urgent pointer.
    pub fn urgent_pointer(&self) -> u16 {
        u16_at(self.0, 18)
    }
    /// Options with their pad.
    pub fn options(&self) -> &'a [u8] {
        &self.0[HEADER_OCTETS..self.header_len()]
    }
    /// Text.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

/// Header in plain form; options stay borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header<'a> {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Window as it stands, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent_pointer: u16,
    /// Options with their pad: a multiple of 4 octets, at most [`MAX_OPTION_OCTETS`].
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Header and text of a segment between these addresses; the checksum must be right. Reserved bits are ignored (TCP-31).
    pub fn parse(octets: &'a [u8], source: Ipv4Addr, destination: Ipv4Addr) -> Result<(Self, &'a [u8]), Error> {
        let view = View::new(octets)?;
        if !view.checksum_ok(source, destination) {
            return Err(Error::Checksum);
        }
        let header = Header {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
            flags: view.flags(),
            window: view.window(),
            urgent_pointer: view.urgent_pointer(),
            options: view.options(),
        };
        Ok((header, view.payload()))
    }
    /// Octets of header and options.
    pub const fn len(&self) -> usize {
        HEADER_OCTETS + self.options.len()
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes header, checksum and `payload`.
    pub fn emit(&self, source: Ipv4Addr, destination: Ipv4Addr, payload: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        if self.options.len() > MAX_OPTION_OCTETS || self.options.len() & 3 != 0 {
            return Err(Error::Malformed);
        }
        let len = self.len() + payload.len();
        let total = u16::try_from(len).map_err(|_| Error::Malformed)?;
        let out = room(out, len)?;
        put(out, 0, &self.source_port.to_be_bytes());
        put(out, 2, &self.destination_port.to_be_bytes());
        put(out, 4, &self.sequence.to_be_bytes());
        put(out, 8, &self.acknowledgment.to_be_bytes());
        put(out, 12, &[(self.len() as u8 / 4) << 4, self.flags]);
        put(out, 14, &self.window.to_be_bytes());
        put(out, 16, &[0, 0]);
        put(out, 18, &self.urgent_pointer.to_be_bytes());
        put(out, HEADER_OCTETS, self.options);
        put(out, self.len(), payload);
        let sum = Sum::new().add_pseudo_header(source, destination, PROTOCOL_TCP, total).octets(out).finish();
        put(out, 16, &sum.to_be_bytes());
        Ok(len)
    }
}
