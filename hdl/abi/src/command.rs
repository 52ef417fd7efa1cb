// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands, host to adapter. One layout for all opcodes, so that the hardware decodes by position.
//!
//! | dword | bits | field |
//! |---|---|---|
//! | 0 | 7:0 | opcode |
//! | 0 | 15:8 | flags |
//! | 1 | 31:0 | context, echoed in every event that follows from the command |
//! | 2, 3 | | handle |
//! | 4 | 31:0 | local address, or network |
//! | 5 | 15:0 | local port, or first port of a range |
//! | 5 | 31:16 | remote port, or last port of a range |
//! | 6 | 31:0 | remote address, or address mask |
//! | 7 | 31:0 | gateway |
//! | 8 | 15:0 | backlog, half-open limit; or number of a rule |
//! | 8 | 31:16 | backlog, waiting-for-accept limit |
//! | 9 | 23:0 | QPN |
//! | 10, 11 | | private data address |
//! | 12 | 15:0 | private data length in octets |
//! | 13 | 15:0, 31:16 | IRD, ORD |
//! | 14 | 7:0 | DSCP in bits 7:2 (CONNECT, ACCEPT, REJECT) |
//! | 15 | 31:0 | time-out in microseconds, 0 = the register's (CONNECT) |
//!
//! # Connections
//! | command | handle | fields | answer | later |
//! |---|---|---|---|---|
//! | CONNECT | - | addresses, ports (local 0 = choose), QPN, private data, IRD, ORD, DSCP, time-out | CMD_REPLY: status; if 0 the handle and the local port | CONNECT_REPLY, once; if its status is 0, DISCONNECT at most once and CLOSE once; FREED |
//! | ACCEPT | from CONNECT_REQUEST | QPN, private data, IRD, ORD, DSCP | CMD_REPLY | ESTABLISHED, once; DISCONNECT, CLOSE, FREED |
//! | REJECT | from CONNECT_REQUEST | private data, DSCP | CMD_REPLY | FREED |
//! | DISCONNECT | of an established connection | | CMD_REPLY | CLOSE, FREED |
//! | ABORT | any connection | | CMD_REPLY | CONNECT_REPLY (-ECONNRESET) if it is still owed, CLOSE if established, FREED |
//!
//! A CMD_REPLY with another status than 0 means that nothing else follows from the command; flag QUIET leaves out a CMD_REPLY with
//! status 0. A CONNECT_REQUEST that nobody answers lives until ACCEPT, REJECT or ABORT; if the peer has gone by then, ACCEPT answers
//! -ECONNRESET (CM-27) and FREED follows; REJECT answers 0. An ACCEPT that answers -ENOMEM (its IRD or ORD is not possible, CM-28) has rejected
//! the peer, and FREED follows.
//!
//! # Set-up rules
//! RULE puts rule 0..15 into its place: `flags` say which set-ups it is for and whether it denies them, network and mask which peers (network & !mask must be 0),
//! first..=last which ports: the local one of a SYN that comes, the remote one of CONNECT. Without INBOUND and OUTBOUND the rule is taken out. Of the rules that
//! match the lowest number decides; what none matches is allowed. A SYN that is denied is answered as if nobody listened, a CONNECT by
//! -EPERM; both count in connDenied. A rule counts for every set-up after its CMD_REPLY and changes nothing in connections that exist. A reset takes all out.
use crate::{Handle, ENTRY_DWORDS};

/// Set-up rules that the adapter holds.
pub const RULES: u16 = 16;

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
    /// Set or take out a set-up rule. Answer: CMD_REPLY.
    Rule = 7,
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
    pub const ALL: &'static [Opcode] = &[
        Opcode::Nop,
        Opcode::Listen,
        Opcode::Unlisten,
        Opcode::Reserve,
        Opcode::Unreserve,
        Opcode::AddressAdd,
        Opcode::AddressDelete,
        Opcode::Rule,
        Opcode::Connect,
        Opcode::Accept,
        Opcode::Reject,
        Opcode::Disconnect,
        Opcode::Abort,
    ];
}

/// Bits of `flags`; a bit that the opcode does not know is refused with -EINVAL.
pub mod flag {
    /// RULE: the set-ups that it matches are denied; else allowed.
    pub const DENY: u8 = 1 << 0;
    /// RULE: it is for SYNs to our listeners.
    pub const INBOUND: u8 = 1 << 1;
    /// RULE: it is for CONNECT.
    pub const OUTBOUND: u8 = 1 << 2;
    /// CONNECT: MPA revision 2 with IRD, ORD (RFC 6581); else revision 1.
    pub const ENHANCED: u8 = 1 << 0;
    /// CONNECT, with ENHANCED: peer-to-peer (RFC 6581 A bit).
    pub const PEER_TO_PEER: u8 = 1 << 1;
    /// CONNECT, with ENHANCED and without PEER_TO_PEER: if the peer resets or closes on our Request, once again in revision 1 (ENH-2).
    pub const RETRY: u8 = 1 << 2;
    /// CONNECT, ACCEPT: do not ask for CRC (MPA-14); it is used if the peer asks.
    pub const NO_CRC: u8 = 1 << 3;
    /// ACCEPT: refuse, instead of lowering, an ORD above the peer's IRD (ENH-14).
    pub const STRICT: u8 = 1 << 4;
    /// All commands on connections: no CMD_REPLY if the status is 0.
    pub const QUIET: u8 = 1 << 7;
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
    pub tos: u8,
    pub timeout_us: u32,
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
            u32::from(self.tos),
            self.timeout_us,
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
            tos: w[14] as u8,
            timeout_us: w[15],
        }
    }
}
