// SPDX-License-Identifier: MIT OR Apache-2.0
//! The neighbour service (ARP) as the rest of the adapter sees it.
use rust_hdl::prelude::*;

/// A well-formed ARP packet for Ethernet/IPv4 (ARP-1 already checked).
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ArpPacket {
    /// Opcode 1; else opcode 2.
    pub request: Bit,
    /// MACs with the first octet on the wire in bits 7:0.
    pub sender_mac: Bits<48>,
    pub sender_ip: Bits<32>,
    pub target_ip: Bits<32>,
    pub target_is_ours: Bit,
    pub sender_is_ours: Bit,
}

/// Question: which MAC does this next hop have? On a miss the service starts to resolve it by itself.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct NeighborQuery {
    pub ip: Bits<32>,
    /// Own address to name as the sender of a request.
    pub source: Bits<32>,
    /// What was sent there did not arrive (ARP-11): if the address is resolved, make it unresolved and ask again.
    pub recheck: Bit,
}

/// Answer, one a question, in order.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct NeighborAnswer {
    pub found: Bit,
    /// Not found, and no room to resolve it now: nothing will follow, ask again.
    pub busy: Bit,
    pub mac: Bits<48>,
}

/// Sent to all users when the resolution of a missed address ends.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct NeighborNotice {
    pub ip: Bits<32>,
    /// Resolved; else ARP_TRIES requests were not answered.
    pub ok: Bit,
    pub mac: Bits<48>,
}
