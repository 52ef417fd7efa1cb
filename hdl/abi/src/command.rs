// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands, host to adapter. One layout for all opcodes, so that the hardware decodes by position.
//!
//! | dword | bits | field |
//! |---|---|---|
//! | 0 | 7:0 | opcode |
//! | 0 | 15:8 | flags |
//! | 1 | 31:0 | context, echoed in every event that follows from the command |
//! | 2, 3 | | handle |
//! | 4 | 31:0 | local address |
//! | 5 | 15:0 | local port, or first port of a range |
//! | 5 | 31:16 | remote port, or last port of a range |
//! | 6 | 31:0 | remote address, or address mask |
//! | 7 | 31:0 | gateway |
//! | 8 | 15:0 | backlog, half-open limit |
//! | 8 | 31:16 | backlog, waiting-for-accept limit |
//! | 9 | 23:0 | QPN |
//! | 10, 11 | | private data address |
//! | 12 | 15:0 | private data length in octets |
//! | 13 | 15:0, 31:16 | IRD, ORD |
//! | 14, 15 | | 0 |
use crate::{Handle, ENTRY_DWORDS};

/// What the adapter is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Does nothing and answers; for drivers' self tests.
    Nop = 0,
    /// Listen on local address (0 = any) and port (0 = the adapter chooses). Answer: LISTEN_REPLY.
    Listen = 1,
    /// Stop the listener `handle`. Answer: FREED, or CMD_REPLY with a status if the handle is stale.
    Unlisten = 2,
    /// Reserve the ports first..=last for the host. Answer: CMD_REPLY; refused as a whole, `detail` tells the port.
    Reserve = 3,
    /// Give reserved ports back. Answer: CMD_REPLY.
    Unreserve = 4,
    /// Add a local address with mask and gateway (0 = none). Answer: CMD_REPLY.
    AddressAdd = 5,
    /// Remove a local address. Answer: CMD_REPLY. Listeners on it stay, but hear nothing.
    AddressDelete = 6,
    /// Open a connection.
    Connect = 8,
    /// Accept an announced connection.
    Accept = 9,
    /// Reject an announced connection.
    Reject = 10,
    /// Close in order.
    Disconnect = 11,
    /// Reset.
    Abort = 12,
}

impl Opcode {
    /// Every opcode that this version of the adapter carries out.
    pub const ALL: &'static [Opcode] =
        &[Opcode::Nop, Opcode::Listen, Opcode::Unlisten, Opcode::Reserve, Opcode::Unreserve, Opcode::AddressAdd, Opcode::AddressDelete];
}

/// A command in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the module's table says what each field is
pub struct Command {
    pub opcode: u8,
    pub flags: u8,
    pub context: u32,
    pub handle: Handle,
    pub local_addr: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub remote_addr: u32,
    pub gateway: u32,
    pub backlog_half_open: u16,
    pub backlog_accept: u16,
    pub qpn: u32,
    pub data_addr: u64,
    pub data_len: u16,
    pub ird: u16,
    pub ord: u16,
}

impl Command {
    /// As it stands in the ring.
    pub fn encode(&self) -> [u32; ENTRY_DWORDS] {
        let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
        [
            u32::from(self.opcode) | u32::from(self.flags) << 8,
            self.context,
            self.handle.0 as u32,
            (self.handle.0 >> 32) as u32,
            self.local_addr,
            pair(self.local_port, self.remote_port),
            self.remote_addr,
            self.gateway,
            pair(self.backlog_half_open, self.backlog_accept),
            self.qpn,
            self.data_addr as u32,
            (self.data_addr >> 32) as u32,
            u32::from(self.data_len),
            pair(self.ird, self.ord),
            0,
            0,
        ]
    }
    /// From the ring; every bit pattern is a command (the adapter answers nonsense with a status).
    pub fn decode(w: &[u32; ENTRY_DWORDS]) -> Self {
        Command {
            opcode: w[0] as u8,
            flags: (w[0] >> 8) as u8,
            context: w[1],
            handle: Handle(u64::from(w[2]) | u64::from(w[3]) << 32),
            local_addr: w[4],
            local_port: w[5] as u16,
            remote_port: (w[5] >> 16) as u16,
            remote_addr: w[6],
            gateway: w[7],
            backlog_half_open: w[8] as u16,
            backlog_accept: (w[8] >> 16) as u16,
            qpn: w[9] & 0x00ff_ffff,
            data_addr: u64::from(w[10]) | u64::from(w[11]) << 32,
            data_len: w[12] as u16,
            ird: w[13] as u16,
            ord: (w[13] >> 16) as u16,
        }
    }
}
