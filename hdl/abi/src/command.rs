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
//! # Objects of the data path
//! Their numbers (STag, CQN, QPN) are the driver's choice; what they are for stands in `docs/data-path.md`. Dwords that a row does not name are not looked at, bits of a
//! named field beyond its width must be 0. Every one of them is answered by a CMD_REPLY.
//!
//! | command | flags | 4 | 5 | 6, 7 | 8 | 9 | 10, 11 | 12 | 13 | 15 |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | REGISTER_MR | rights in 3:0 ([`access`](crate::work::access)), BOUND | STag | PD 15:0 | TO of the first octet | | QPN 15:0, looked at with BOUND | IOVA of the first octet | length 47:32 | | length 31:0 |
//! | DEREGISTER_MR | | STag | | | | | | | | |
//! | CREATE_CQ | | | | | log2 of the entries 3:0 | CQN | address of the ring | | | |
//! | DESTROY_CQ | | | | | | CQN | | | | |
//! | CREATE_QP | [`qp_flag`](crate::work::qp_flag) | | PD 15:0 | address of the receive queue | log2 of the entries: send queue 3:0, receive queue 19:16 | QPN | address of the send queue | | CQN: send 15:0, receive 31:16 | |
//! | DESTROY_QP | | | | | | QPN | | | | |
//!
//! Queues are 64-octet aligned. The low bits of the index of an STag choose its entry in the adapter, so two regions that agree in them cannot live at the same time
//! (-EEXIST); index 0 is none. A region has at least one octet, and neither its TOs nor its IOVAs pass 2^64. What makes a command wrong is -EINVAL, also a number beyond what
//! the adapter holds; a number that lives already is -EEXIST, one that does not -ENOENT. DEREGISTER_MR is answered when nothing can touch the region any more
//! (DDP-12), also if the peer has invalidated it before. DESTROY_CQ: nothing is written to the queue any more, and no event of it follows. DESTROY_QP of a queue pair that
//! belongs to a connection: -EBUSY.
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
    /// Make a memory region.
    RegisterMr = 16,
    /// End it.
    DeregisterMr = 17,
    /// Make a completion queue.
    CreateCq = 18,
    /// End it.
    DestroyCq = 19,
    /// Make a queue pair.
    CreateQp = 20,
    /// End it.
    DestroyQp = 21,
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
        Opcode::RegisterMr,
        Opcode::DeregisterMr,
        Opcode::CreateCq,
        Opcode::DestroyCq,
        Opcode::CreateQp,
        Opcode::DestroyQp,
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
    /// REGISTER_MR: only the queue pair that is named may use it; without, all of its protection domain.
    pub const BOUND: u8 = 1 << 4;
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
    /// REGISTER_MR: `length` octets of which the first has TO `base` and stands at `iova`; `rights` of [`access`](crate::work::access).
    #[allow(clippy::too_many_arguments)] // a region is what it is
    pub fn register_mr(context: u32, stag: u32, pd: u16, rights: u8, base: u64, iova: u64, length: u64, bound: Option<u16>) -> Self {
        Command {
            opcode: Opcode::RegisterMr as u8,
            flags: rights | if bound.is_some() { flag::BOUND } else { 0 },
            context,
            local_addr: stag,
            local_port: pd,
            remote_addr: base as u32,
            gateway: (base >> 32) as u32,
            qpn: bound.unwrap_or(0).into(),
            data_addr: iova,
            data_len: (length >> 32) as u16,
            timeout_us: length as u32,
            ..Command::default()
        }
    }
    /// DEREGISTER_MR.
    pub fn deregister_mr(context: u32, stag: u32) -> Self {
        Command { opcode: Opcode::DeregisterMr as u8, context, local_addr: stag, ..Command::default() }
    }
    /// CREATE_CQ: 2^`log2` entries at `ring`.
    pub fn create_cq(context: u32, cqn: u32, ring: u64, log2: u16) -> Self {
        Command { opcode: Opcode::CreateCq as u8, context, qpn: cqn, data_addr: ring, backlog_half_open: log2, ..Command::default() }
    }
    /// DESTROY_CQ.
    pub fn destroy_cq(context: u32, cqn: u32) -> Self {
        Command { opcode: Opcode::DestroyCq as u8, context, qpn: cqn, ..Command::default() }
    }
    /// CREATE_QP: address and log2 of the entries of the send and of the receive queue, and the CQNs of both.
    pub fn create_qp(context: u32, qpn: u32, flags: u8, pd: u16, send: (u64, u16, u16), receive: (u64, u16, u16)) -> Self {
        Command {
            opcode: Opcode::CreateQp as u8,
            flags,
            context,
            qpn,
            local_port: pd,
            data_addr: send.0,
            remote_addr: receive.0 as u32,
            gateway: (receive.0 >> 32) as u32,
            backlog_half_open: send.1,
            backlog_accept: receive.1,
            ird: send.2,
            ord: receive.2,
            ..Command::default()
        }
    }
    /// DESTROY_QP.
    pub fn destroy_qp(context: u32, qpn: u32) -> Self {
        Command { opcode: Opcode::DestroyQp as u8, context, qpn, ..Command::default() }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_the_data_path_stand_where_the_table_says() {
        let w = Command::register_mr(
            7,
            0x1234_5678,
            0xabcd,
            0x0f,
            0x1111_2222_3333_4444,
            0x5555_6666_7777_8888,
            0x9999_aaaa_bbbb,
            Some(0x4321),
        )
        .encode();
        assert_eq!(
            w,
            [
                0x1f10,
                7,
                0,
                0,
                0x1234_5678,
                0xabcd,
                0x3333_4444,
                0x1111_2222,
                0,
                0x4321,
                0x7777_8888,
                0x5555_6666,
                0x9999,
                0,
                0,
                0xaaaa_bbbb
            ]
        );
        let w = Command::deregister_mr(8, 0x1234_5678).encode();
        assert_eq!((w[0], w[1], w[4]), (17, 8, 0x1234_5678));
        let w = Command::create_cq(9, 5, 0x1_0000_0040, 12).encode();
        assert_eq!((w[0], w[8], w[9], w[10], w[11]), (18, 12, 5, 0x40, 1));
        assert_eq!(Command::destroy_cq(9, 5).encode()[9], 5);
        let w = Command::create_qp(10, 6, 1, 0xabcd, (0x1_0000_0040, 7, 2), (0x2_0000_0080, 8, 3)).encode();
        assert_eq!(w, [0x114, 10, 0, 0, 0, 0xabcd, 0x80, 2, 0x0008_0007, 6, 0x40, 1, 0, 0x0003_0002, 0, 0]);
        assert_eq!(Command::destroy_qp(10, 6).encode()[9], 6);
    }

    #[test]
    fn no_two_opcodes_are_the_same() {
        let mut numbers = [0u8; 256];
        for opcode in Opcode::ALL {
            numbers[*opcode as usize] += 1;
            assert_eq!(numbers[*opcode as usize], 1, "{opcode:?}");
        }
    }
}
