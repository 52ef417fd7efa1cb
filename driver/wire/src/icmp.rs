// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP (RFC 792): echo, and every other type as it came.
use crate::{
    checksum::checksum,
    octets::{put, room, u16_at},
    Error,
};

/// Octets before the data.
pub const HEADER_OCTETS: usize = 8;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;

/// Borrowed message of at least [`HEADER_OCTETS`] octets.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length, not the checksum.
    pub fn new(octets: &'a [u8]) -> Result<Self, Error> {
        if octets.len() < HEADER_OCTETS {
            return Err(Error::Truncated);
        }
        Ok(View(octets))
    }
    /// Is the checksum right?
    pub fn checksum_ok(&self) -> bool {
        checksum(self.0) == 0
    }
    /// Type.
    pub fn kind(&self) -> u8 {
        self.0[0]
    }
    /// Code.
    pub fn code(&self) -> u8 {
        self.0[1]
    }
    /// The four octets whose meaning depends on the type.
    pub fn rest(&self) -> [u8; 4] {
        [self.0[4], self.0[5], self.0[6], self.0[7]]
    }
    /// Data.
    pub fn data(&self) -> &'a [u8] {
        &self.0[HEADER_OCTETS..]
    }
}

/// Message in plain form; its data stays borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // fields as RFC 792 names them
pub enum Message<'a> {
    /// Echo request, code 0.
    EchoRequest { identifier: u16, sequence: u16, data: &'a [u8] },
    /// Echo reply, code 0.
    EchoReply { identifier: u16, sequence: u16, data: &'a [u8] },
    /// Anything else.
    Other { kind: u8, code: u8, rest: [u8; 4], data: &'a [u8] },
}

impl<'a> Message<'a> {
    /// From the payload of a datagram; the checksum must be right.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let view = View::new(octets)?;
        if !view.checksum_ok() {
            return Err(Error::Checksum);
        }
        let rest = view.rest();
        let (identifier, sequence, data) = (u16_at(&rest, 0), u16_at(&rest, 2), view.data());
        Ok(match (view.kind(), view.code()) {
            (ECHO_REQUEST, 0) => Message::EchoRequest { identifier, sequence, data },
            (ECHO_REPLY, 0) => Message::EchoReply { identifier, sequence, data },
            (kind, code) => Message::Other { kind, code, rest, data },
        })
    }
    /// Data of any message.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            Message::EchoRequest { data, .. } | Message::EchoReply { data, .. } | Message::Other { data, .. } => data,
        }
    }
    /// Octets that [`Message::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_OCTETS + self.data().len()
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes header, checksum and data.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, self.len())?;
        let echo = |identifier: u16, sequence: u16| {
            let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Message::EchoRequest { identifier, sequence, .. } => (ECHO_REQUEST, 0, echo(identifier, sequence)),
            Message::EchoReply { identifier, sequence, .. } => (ECHO_REPLY, 0, echo(identifier, sequence)),
            Message::Other { kind, code, rest, .. } => (kind, code, rest),
        };
        put(out, 0, &[kind, code, 0, 0]);
        put(out, 4, &rest);
        put(out, HEADER_OCTETS, self.data());
        let sum = checksum(out);
        put(out, 2, &sum.to_be_bytes());
        Ok(self.len())
    }
}
