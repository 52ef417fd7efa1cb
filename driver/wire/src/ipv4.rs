// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 (RFC 791). Options are skipped on receipt and never sent.
use crate::{
    checksum::checksum,
    octets::{ipv4_at, put, room, u16_at},
    Error,
};
use core::net::Ipv4Addr;

/// Octets of a header without options.
pub const HEADER_OCTETS: usize = 20;
/// Protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
const DONT_FRAGMENT: u16 = 1 << 14;
const MORE_FRAGMENTS: u16 = 1 << 13;
const OFFSET: u16 = 0x1fff;

/// Borrowed datagram: version 4, both lengths inside the octets. What follows Total Length (the pad) is left out (ETH-3).
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks version and lengths (IP-1, IP-3), not the checksum.
    pub fn new(octets: &'a [u8]) -> Result<Self, Error> {
        if octets.len() < HEADER_OCTETS {
            return Err(Error::Truncated);
        }
        let header = usize::from(octets[0] & 0xf) * 4;
        let total = usize::from(u16_at(octets, 2));
        if octets[0] >> 4 != 4 || header < HEADER_OCTETS || total < header {
            return Err(Error::Malformed);
        }
        Ok(View(octets.get(..total).ok_or(Error::Truncated)?))
    }
    /// Octets of the header, options included.
    pub fn header_len(&self) -> usize {
        usize::from(self.0[0] & 0xf) * 4
    }
    /// Is the header checksum right (IP-2)?
    pub fn checksum_ok(&self) -> bool {
        checksum(&self.0[..self.header_len()]) == 0
    }
    /// DSCP 7:2 and ECN 1:0.
    pub fn traffic_class(&self) -> u8 {
        self.0[1]
    }
    /// Octets of the datagram.
    pub fn total_len(&self) -> u16 {
        u16_at(self.0, 2)
    }
    /// Identification.
    pub fn identification(&self) -> u16 {
        u16_at(self.0, 4)
    }
    /// DF bit.
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.0, 6) & DONT_FRAGMENT != 0
    }
    /// MF bit.
    pub fn more_fragments(&self) -> bool {
        u16_at(self.0, 6) & MORE_FRAGMENTS != 0
    }
    /// Fragment offset in units of 8 octets.
    pub fn fragment_offset(&self) -> u16 {
        u16_at(self.0, 6) & OFFSET
    }
    /// A part of a datagram (IP-7)?
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }
    /// TTL.
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }
    /// Protocol of the payload.
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }
    /// Source address.
    pub fn source(&self) -> Ipv4Addr {
        ipv4_at(self.0, 12)
    }
    /// Destination address.
    pub fn destination(&self) -> Ipv4Addr {
        ipv4_at(self.0, 16)
    }
    /// Options with their pad.
    pub fn options(&self) -> &'a [u8] {
        &self.0[HEADER_OCTETS..self.header_len()]
    }
    /// What the datagram carries.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

/// Header in plain form, without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// DSCP 7:2 and ECN 1:0.
    pub traffic_class: u8,
    /// Identification.
    pub identification: u16,
    /// DF bit.
    pub dont_fragment: bool,
    /// MF bit.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 octets, 0..=8191.
    pub fragment_offset: u16,
    /// TTL.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Octets of payload, 0..=65515.
    pub payload_len: u16,
}

impl Header {
    /// A whole datagram with DF set and TTL 64.
    pub const fn new(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload_len: u16) -> Self {
        Header {
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            source,
            destination,
            payload_len,
        }
    }
    /// Header and payload; the checksum must be right.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Error> {
        let view = View::new(octets)?;
        if !view.checksum_ok() {
            return Err(Error::Checksum);
        }
        let header = Header {
            traffic_class: view.traffic_class(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            payload_len: view.payload().len() as u16,
        };
        Ok((header, view.payload()))
    }
    /// Writes the header with its checksum; the payload goes behind it.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let total = self.payload_len.checked_add(HEADER_OCTETS as u16).ok_or(Error::Malformed)?;
        if self.fragment_offset > OFFSET {
            return Err(Error::Malformed);
        }
        let out = room(out, HEADER_OCTETS)?;
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 } | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        put(out, 0, &[0x45, self.traffic_class]);
        put(out, 2, &total.to_be_bytes());
        put(out, 4, &self.identification.to_be_bytes());
        put(out, 6, &(flags | self.fragment_offset).to_be_bytes());
        put(out, 8, &[self.ttl, self.protocol, 0, 0]);
        put(out, 12, &self.source.octets());
        put(out, 16, &self.destination.octets());
        let sum = checksum(out);
        put(out, 10, &sum.to_be_bytes());
        Ok(HEADER_OCTETS)
    }
}
