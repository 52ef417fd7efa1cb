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

/// What the receive parser found out about a frame. Addresses as numbers: 192.0.2.1 = 0xC0000201; MAC with the first octet on
/// the wire in bits 7:0.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxMeta {
    /// Where to: 0 host, 1 ICMP echo, 2 TCP. (ARP is consumed by the parser itself.)
    pub route: Bits<2>,
    /// Octets of the frame without FCS.
    pub len: Bits<16>,
    /// Sent to the link broadcast or a multicast address (ETH-6).
    pub link_broadcast: Bit,
    pub src_mac: Bits<48>,
    pub src_ip: Bits<32>,
    pub dst_ip: Bits<32>,
    /// IP Total Length and header length in octets.
    pub ip_len: Bits<16>,
    pub ip_header_len: Bits<6>,
    pub src_port: Bits<16>,
    pub dst_port: Bits<16>,
    pub tcp_flags: Bits<8>,
    pub seq: Bits<32>,
    pub ack: Bits<32>,
}
