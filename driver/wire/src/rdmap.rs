// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of RDMAP (RFC 5040 s4): the control octet, Read Request, Terminate.
use crate::{
    ddp,
    octets::{put, room, u16_at, u32_at, u64_at},
    Error,
};

/// Value of RV.
pub const VERSION: u8 = 1;
/// Queue of Sends.
pub const QN_SEND: u32 = 0;
/// Queue of Read Requests.
pub const QN_READ: u32 = 1;
/// Queue of Terminates.
pub const QN_TERMINATE: u32 = 2;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSolicited = 5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 6,
    /// Terminate.
    Terminate = 7,
}

impl Opcode {
    /// All.
    pub const ALL: [Opcode; 8] = [
        Opcode::Write,
        Opcode::ReadRequest,
        Opcode::ReadResponse,
        Opcode::Send,
        Opcode::SendInvalidate,
        Opcode::SendSolicited,
        Opcode::SendSolicitedInvalidate,
        Opcode::Terminate,
    ];
    /// Of a control octet; none for one that RFC 5040 does not know.
    pub fn of(control: u8) -> Option<Self> {
        Self::ALL.get(usize::from(control & 0x0f)).copied()
    }
    /// The control octet.
    pub const fn control(self) -> u8 {
        VERSION << 6 | self as u8
    }
    /// Goes in tagged segments.
    pub const fn is_tagged(self) -> bool {
        matches!(self, Opcode::Write | Opcode::ReadResponse)
    }
    /// Queue of an untagged one.
    pub const fn qn(self) -> Option<u32> {
        match self {
            Opcode::Write | Opcode::ReadResponse => None,
            Opcode::ReadRequest => Some(QN_READ),
            Opcode::Terminate => Some(QN_TERMINATE),
            _ => Some(QN_SEND),
        }
    }
    /// Takes a key of the receiver away.
    pub const fn invalidates(self) -> bool {
        matches!(self, Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate)
    }
    /// Asks for a solicited event.
    pub const fn solicits(self) -> bool {
        matches!(self, Opcode::SendSolicited | Opcode::SendSolicitedInvalidate)
    }
}

/// RV of a control octet.
pub const fn version(control: u8) -> u8 {
    control >> 6
}

/// Payload of a Read Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadRequest {
    /// SinkSTag.
    pub sink_stag: u32,
    /// SinkTO.
    pub sink_to: u64,
    /// RDMARDSZ.
    pub size: u32,
    /// SrcSTag.
    pub source_stag: u32,
    /// SrcTO.
    pub source_to: u64,
}

impl ReadRequest {
    /// Octets.
    pub const OCTETS: usize = 28;
    /// From exactly so many octets.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        match octets.len() {
            Self::OCTETS => Ok(ReadRequest {
                sink_stag: u32_at(octets, 0),
                sink_to: u64_at(octets, 4),
                size: u32_at(octets, 12),
                source_stag: u32_at(octets, 16),
                source_to: u64_at(octets, 20),
            }),
            0..Self::OCTETS => Err(Error::Truncated),
            _ => Err(Error::Malformed),
        }
    }
    /// Writes it.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, Self::OCTETS)?;
        put(out, 0, &self.sink_stag.to_be_bytes());
        put(out, 4, &self.sink_to.to_be_bytes());
        put(out, 12, &self.size.to_be_bytes());
        put(out, 16, &self.source_stag.to_be_bytes());
        put(out, 20, &self.source_to.to_be_bytes());
        Ok(Self::OCTETS)
    }
}

/// Payload of a Terminate (RDM-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terminate<'a> {
    /// 0 RDMAP, 1 DDP, 2 LLP.
    pub layer: u8,
    /// Error type, 4 bits.
    pub etype: u8,
    /// Error code.
    pub code: u8,
    /// ULPDU_Length and DDP header of the segment at fault.
    pub segment: Option<(u16, &'a [u8])>,
    /// The Read Request at fault.
    pub read: Option<ReadRequest>,
}

impl<'a> Terminate<'a> {
    const MORE: u8 = 0x80;
    const DDP: u8 = 0x40;
    const READ: u8 = 0x20;
    /// Octets of the longest.
    pub const MAX_OCTETS: usize = 6 + ddp::UNTAGGED_OCTETS + ReadRequest::OCTETS;
    /// Octets of the shortest.
    pub const MIN_OCTETS: usize = 4;
    /// What follows the parts that its bits name is ignored (CH-11).
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        if octets.len() < Self::MIN_OCTETS {
            return Err(Error::Truncated);
        }
        let bits = octets[2];
        let mut terminate = Terminate { layer: octets[0] >> 4, etype: octets[0] & 15, code: octets[1], segment: None, read: None };
        let mut rest = &octets[4..];
        if bits & Self::DDP != 0 {
            let after = rest.get(2..).ok_or(Error::Truncated)?;
            let view = ddp::View::new(after)?;
            terminate.segment = Some((u16_at(rest, 0), view.header()));
            rest = view.payload();
        }
        if bits & Self::READ != 0 {
            terminate.read = Some(ReadRequest::parse(rest.get(..ReadRequest::OCTETS).ok_or(Error::Truncated)?)?);
        }
        Ok(terminate)
    }
    /// Octets that [`Terminate::emit`] writes.
    pub fn len(&self) -> usize {
        4 + self.segment.map_or(0, |(_, header)| 2 + header.len()) + if self.read.is_some() { ReadRequest::OCTETS } else { 0 }
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes it.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        if self.layer > 15 || self.etype > 15 {
            return Err(Error::Malformed);
        }
        let len = self.len();
        let out = room(out, len)?;
        let mut bits = 0;
        let mut at = 4;
        if let Some((length, header)) = self.segment {
            bits |= Self::MORE | Self::DDP;
            put(out, at, &length.to_be_bytes());
            put(out, at + 2, header);
            at += 2 + header.len();
        }
        if let Some(read) = self.read {
            bits |= Self::READ;
            read.emit(&mut out[at..])?;
        }
        put(out, 0, &[self.layer << 4 | self.etype, self.code, bits, 0]);
        Ok(len)
    }
}
