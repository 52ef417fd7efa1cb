// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that net blocks hand to each other.
use rust_hdl::prelude::*;

/// One of the adapter's own addresses. The core has four of them, set by ADDRESS_ADD.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LocalAddress {
    pub valid: Bit,
    pub ip: Bits<32>,
    pub mask: Bits<32>,
    /// Next hop for what is off-link; 0 = none.
    pub gateway: Bits<32>,
}

/// What the receive parser found out about a frame that it let pass. Addresses as numbers: 192.0.2.1 = 0xC0000201.
///
/// At most one of the class bits (`echo` to `foreign`) is set. `echo` and `tcp` decide where the frame goes, the others only
/// which counter moves; frames with neither go to the host. Of the IPv4 fields, `src_ip`, `dst_ip` and `ip_len` hold in frames with
/// `ip`; ports and TCP fields hold in frames with `tcp`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxMeta {
    /// ICMP echo request to one of our addresses, for the adapter to answer.
    pub echo: Bit,
    /// TCP segment to one of our addresses, all of it verified.
    pub tcp: Bit,
    /// ICMP message for the host, checksum good.
    pub icmp: Bit,
    /// IPv4 with options.
    pub options: Bit,
    /// IPv4 fragment.
    pub fragment: Bit,
    /// IPv4, neither TCP nor ICMP (or TCP that only a host may look at: sent to a broadcast address).
    pub other_proto: Bit,
    /// 802.1Q or 802.1ad tag.
    pub vlan: Bit,
    /// Neither IPv4 nor ARP nor tagged.
    pub other_type: Bit,
    /// Multicast, or unicast to another MAC address: the host asked for it, and nothing behind the MAC addresses was looked at.
    pub foreign: Bit,
    /// IPv4 datagram to us that passed every check (ip4InPkts).
    pub ip: Bit,
    /// Sent to the link broadcast or a multicast address (ETH-6).
    pub link_broadcast: Bit,
    /// Octets of the frame without FCS.
    pub len: Bits<16>,
    pub src_ip: Bits<32>,
    pub dst_ip: Bits<32>,
    /// IP Total Length.
    pub ip_len: Bits<16>,
    pub src_port: Bits<16>,
    pub dst_port: Bits<16>,
    pub seq: Bits<32>,
    pub ack: Bits<32>,
    /// CWR ECE URG ACK PSH RST SYN FIN, FIN in bit 0.
    pub tcp_flags: Bits<8>,
    /// TCP header length in units of 4 octets; 5..=15 and within the datagram.
    pub data_offset: Bits<4>,
    pub window: Bits<16>,
}
