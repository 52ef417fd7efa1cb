// SPDX-License-Identifier: MIT OR Apache-2.0
//! ARP for IPv4 over Ethernet (RFC 826).
use crate::{
    ethernet,
    octets::{ipv4_at, put, room, u16_at},
    Error, MacAddr,
};
use core::net::Ipv4Addr;

/// Octets of a packet.
pub const PACKET_OCTETS: usize = 28;
/// Hardware type 1, protocol 0x0800, lengths 6 and 4: the only combination that is ours.
const FIXED: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// What a packet wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Operation {
    /// Who has the target address?
    Request = 1,
    /// The sender has its address.
    Reply = 2,
}

/// Borrowed packet of the right kind and length; what follows it (the pad) is left out.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Checks length and types; any operation passes.
    pub fn new(packet: &'a [u8]) -> Result<Self, Error> {
        let packet = packet.get(..PACKET_OCTETS).ok_or(Error::Truncated)?;
        if packet[..6] != FIXED {
            return Err(Error::Malformed);
        }
        Ok(View(packet))
    }
    fn mac_at(&self, at: usize) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.0[at..at + 6]);
        MacAddr(mac)
    }
    /// The operation, if it is one of ours.
    pub fn operation(&self) -> Option<Operation> {
        match u16_at(self.0, 6) {
            1 => Some(Operation::Request),
            2 => Some(Operation::Reply),
            _ => None,
        }
    }
    /// MAC address of the sender.
    pub fn sender_mac(&self) -> MacAddr {
        self.mac_at(8)
    }
    /// IPv4 address of the sender.
    pub fn sender_ip(&self) -> Ipv4Addr {
        ipv4_at(self.0, 14)
    }
    /// MAC address of the target; anything in a request.
    pub fn target_mac(&self) -> MacAddr {
        self.mac_at(18)
    }
    /// IPv4 address of the target.
    pub fn target_ip(&self) -> Ipv4Addr {
        ipv4_at(self.0, 24)
    }
}

/// Packet in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// MAC address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// MAC address of the target.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// From the payload of a frame; an unknown operation is malformed (ARP-1).
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        let view = View::new(packet)?;
        Ok(Packet {
            operation: view.operation().ok_or(Error::Malformed)?,
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        })
    }
    /// Writes [`PACKET_OCTETS`] octets.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, PACKET_OCTETS)?;
        put(out, 0, &FIXED);
        put(out, 6, &(self.operation as u16).to_be_bytes());
        put(out, 8, &self.sender_mac.0);
        put(out, 14, &self.sender_ip.octets());
        put(out, 18, &self.target_mac.0);
        put(out, 24, &self.target_ip.octets());
        Ok(PACKET_OCTETS)
    }
    /// Writes the whole frame that carries the packet, padded; `destination` is the frame's.
    pub fn emit_frame(&self, destination: MacAddr, out: &mut [u8]) -> Result<usize, Error> {
        let out = room(out, ethernet::MIN_FRAME_OCTETS)?;
        out.fill(0);
        let header = ethernet::Header { destination, source: self.sender_mac, tag: None, ethertype: ethernet::TYPE_ARP };
        let at = header.emit(out)?;
        self.emit(&mut out[at..])?;
        Ok(ethernet::MIN_FRAME_OCTETS)
    }
}
