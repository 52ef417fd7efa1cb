// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II (RFC 894), without preamble and FCS; an 802.1Q tag is recognised.
use crate::{
    octets::{put, room, u16_at},
    Error, MacAddr,
};

/// Octets of a header without tag.
pub const HEADER_OCTETS: usize = 14;
/// Octets that a tag adds.
pub const TAG_OCTETS: usize = 4;
/// Shortest frame without FCS; senders pad with zero octets (ETH-2).
pub const MIN_FRAME_OCTETS: usize = 60;
/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const TYPE_ARP: u16 = 0x0806;
/// EtherType of an 802.1Q tag.
pub const TYPE_VLAN: u16 = 0x8100;

/// Borrowed frame.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks the length of the header, tag included.
    pub fn new(frame: &'a [u8]) -> Result<Self, Error> {
        if frame.len() < HEADER_OCTETS {
            return Err(Error::Truncated);
        }
        let view = View(frame);
        if view.tagged() && frame.len() < HEADER_OCTETS + TAG_OCTETS {
            return Err(Error::Truncated);
        }
        Ok(view)
    }
    /// Destination address.
    pub fn destination(&self) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.0[..6]);
        MacAddr(mac)
    }
    /// Source address.
    pub fn source(&self) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.0[6..12]);
        MacAddr(mac)
    }
    /// Does an 802.1Q tag follow the addresses?
    pub fn tagged(&self) -> bool {
        u16_at(self.0, 12) == TYPE_VLAN
    }
    /// Tag control information: priority 15:13, drop eligible 12, VLAN 11:0.
    pub fn tag(&self) -> Option<u16> {
        self.tagged().then(|| u16_at(self.0, 14))
    }
    /// EtherType behind the tag, if there is one.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0, self.header_len() - 2)
    }
    /// Octets before the payload.
    pub fn header_len(&self) -> usize {
        HEADER_OCTETS + if self.tagged() { TAG_OCTETS } else { 0 }
    }
    /// Everything behind the header, pad included.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

/// Header in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// Tag control information, if tagged.
    pub tag: Option<u16>,
    /// EtherType of the payload. Not [`TYPE_VLAN`]: of stacked tags only the first is looked at.
    pub ethertype: u16,
}

impl Header {
    /// Header and payload of a frame.
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), Error> {
        let view = View::new(frame)?;
        let header = Header { destination: view.destination(), source: view.source(), tag: view.tag(), ethertype: view.ethertype() };
        Ok((header, view.payload()))
    }
    /// Octets that [`Header::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_OCTETS + if self.tag.is_some() { TAG_OCTETS } else { 0 }
    }
    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }
    /// Writes the header; the payload goes behind it.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, self.len())?;
        put(out, 0, &self.destination.0);
        put(out, 6, &self.source.0);
        if let Some(tag) = self.tag {
            put(out, 12, &TYPE_VLAN.to_be_bytes());
            put(out, 14, &tag.to_be_bytes());
        }
        put(out, self.len() - 2, &self.ethertype.to_be_bytes());
        Ok(self.len())
    }
}
