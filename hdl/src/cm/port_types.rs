// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the port database is asked and what it says. Addresses and ports are plain numbers; slots are indices from 0.
use rust_hdl::prelude::*;

/// What a request asks for.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum PortOp {
    /// Make a listener on `addr` (0 = any) and `port` (0 = choose a free one). Answers `listener` and `port`.
    Listen,
    /// End listener `slot`. Passive connections on its port live on.
    Unlisten,
    /// An active connection from `port` (0 = choose). Answers `user`, `port` and `shared`.
    Open,
    /// A passive connection on the port of listener `slot`. Answers `user` and `port`.
    Join,
    /// The active connection `slot` (from `Open` or `Join`) ends without TIME-WAIT.
    Close,
    /// The active connection `slot` becomes a TIME-WAIT entry; it keeps its slot.
    Wait,
    /// The TIME-WAIT entry `slot` ends.
    WaitEnd,
    /// Reserve the ports `port..=last` for the host. Idempotent. Refused as a whole when one of them has a listener or an
    /// active connection; `port` of the reply is such a one.
    Reserve,
    /// Give the ports `port..=last` back. Idempotent.
    Unreserve,
}

/// How a request ended. Every status but `Ok` leaves the database as it was.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum PortStatus {
    Ok,
    /// Listen: an overlapping listener has the port. Reserve: the port that is told has a user.
    InUse,
    /// Listen, Open: the host has reserved the port.
    Reserved,
    /// The range has no port that may be chosen.
    NoPorts,
    /// No free listener slot or use slot.
    NoSlot,
    /// Slot out of range, not in use or in another state; range empty or with port 0; no such operation.
    Invalid,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PortRequest {
    pub op: PortOp,
    pub addr: Bits<32>,
    /// Port, or first port of a range.
    pub port: Bits<16>,
    /// Last port of a range.
    pub last: Bits<16>,
    /// Listener slot (Unlisten, Join) or use slot (Close, Wait, WaitEnd).
    pub slot: Bits<16>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PortReply {
    pub status: PortStatus,
    /// The port granted, or the one that stands in the way of Reserve.
    pub port: Bits<16>,
    /// Listen: the new listener's slot.
    pub listener: Bits<16>,
    /// Open, Join: the new connection's use slot.
    pub user: Bits<16>,
    /// Open: other users have the port too; whoever asked has to compare 4-tuples.
    pub shared: Bit,
}

/// Who has this port at this local address?
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PortQuery {
    pub addr: Bits<32>,
    pub port: Bits<16>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PortAnswer {
    /// A listener on this address or on any has the port: it is in slot `listener`.
    pub listening: Bit,
    pub listener: Bits<16>,
    /// A listener (on any address), an active connection or a TIME-WAIT entry has the port.
    pub used: Bit,
    /// The host has reserved the port.
    pub reserved: Bit,
}
