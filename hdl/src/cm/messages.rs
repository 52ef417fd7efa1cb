// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands and events inside the adapter: the fields of `ironwarp_abi::{command, event}` as structs of wires.
use ironwarp_abi::{EventKind, Opcode, Status};
use rust_hdl::prelude::*;

/// A command as it left the ring; fields and widths as in [`ironwarp_abi::command`].
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CommandIn {
    pub opcode: Bits<8>,
    pub flags: Bits<8>,
    pub context: Bits<32>,
    pub index: Bits<16>,
    pub kind: Bits<8>,
    pub generation: Bits<32>,
    pub local_addr: Bits<32>,
    pub local_port: Bits<16>,
    pub remote_port: Bits<16>,
    pub remote_addr: Bits<32>,
    pub gateway: Bits<32>,
    pub backlog_half_open: Bits<16>,
    pub backlog_accept: Bits<16>,
    pub qpn: Bits<24>,
    pub data_addr: Bits<64>,
    pub data_len: Bits<16>,
    pub ird: Bits<16>,
    pub ord: Bits<16>,
    pub tos: Bits<8>,
    pub timeout_us: Bits<32>,
}

/// An event on its way to the ring; fields and widths as in [`ironwarp_abi::event`], time and phase are added by the ring.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct EventOut {
    pub kind: Bits<8>,
    pub flags: Bits<8>,
    pub status: Bits<32>,
    pub context: Bits<32>,
    pub detail: Bits<32>,
    pub index: Bits<16>,
    pub handle_kind: Bits<8>,
    pub generation: Bits<32>,
    pub local_addr: Bits<32>,
    pub local_port: Bits<16>,
    pub remote_port: Bits<16>,
    pub remote_addr: Bits<32>,
    pub own_ird: Bits<16>,
    pub own_ord: Bits<16>,
    pub peer_ird: Bits<16>,
    pub peer_ord: Bits<16>,
    pub data_len: Bits<16>,
    pub listener_index: Bits<16>,
    pub listener_generation: Bits<32>,
}

/// What `cm::engine` tells `cm::conn` about a listener: it was made, or (`live` false) it is to end. `conn` answers the latter when the listener's half-open
/// connections are reset and no CONNECT_REQUEST of it can follow any more (CM-22); only then FREED is sent.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ListenerUpdate {
    pub slot: Bits<16>,
    pub live: Bit,
    pub generation: Bits<32>,
    /// Context of the LISTEN command.
    pub context: Bits<32>,
    /// Limits of LISTEN as they came; 0 = 256 (CM-20).
    pub backlog_half_open: Bits<16>,
    pub backlog_accept: Bits<16>,
}

/// Opcode as a constant of the hardware.
pub(crate) fn opcode(op: Opcode) -> Constant<Bits<8>> {
    Constant::new((op as u64).to_bits())
}

/// Event kind as a constant of the hardware.
pub(crate) fn kind(kind: EventKind) -> Constant<Bits<8>> {
    Constant::new((kind as u64).to_bits())
}

/// Status as a constant of the hardware.
pub(crate) fn errno(status: Status) -> Constant<Bits<32>> {
    Constant::new(u64::from(status as i32 as u32).to_bits())
}
