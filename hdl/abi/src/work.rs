// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work queues and completion queues: what stands in host memory for the data path. Little-endian; rings of 2^n entries, indices free-running modulo 2^16.
//!
//! # Send queue entry, 128 octets, 64-octet aligned
//! | octets | field |
//! |---|---|
//! | 0 | [`SendOpcode`] |
//! | 1 | flags, [`send_flag`] |
//! | 2 | SGEs in use, 0..=4 |
//! | 3 | octets of inline data, 0..=64 (flag INLINE) |
//! | 4..8 | remote STag (Write, Read), STag to invalidate (Send with Invalidate) |
//! | 8..16 | remote TO (Write, Read) |
//! | 16..32 | 0 |
//! | 32..96 | four SGEs, or inline data |
//! | 96..128 | not read by the adapter |
//!
//! # Receive queue entry, 64 octets: four SGEs; one that is not used has length 0
//!
//! # SGE, 16 octets
//! length (4), STag (4), address (8). The address is the TO of the first octet in the region that the STag names; the adapter checks both.
//!
//! # Completion queue entry, 32 octets
//! | dword | bits | field |
//! |---|---|---|
//! | 0 | 15:0 | index of the work request in its queue |
//! | 0 | 23:16 | [`CompletionOpcode`] |
//! | 0 | 31:24 | [`CompletionStatus`] |
//! | 1 | 31:0 | octets of the message (Receive, Read) |
//! | 2 | 15:0 | QPN |
//! | 2 | 16 | the peer invalidated the STag in dword 3 |
//! | 2 | 17 | solicited |
//! | 3 | 31:0 | STag that was invalidated |
//! | 4..=6 | | 0 |
//! | 7 | 0 | phase: 1 on the first pass over the ring, then toggles with each pass |
//!
//! A queue that is full, or that a write failed of, is broken ([`asynchronous::CQ_ERROR`](crate::event::asynchronous::CQ_ERROR)): the entries before
//! the completion that was lost are good, nothing follows.
//!
//! # Doorbells
//! | register | 15:0 | 31:16 |
//! |---|---|---|
//! | SQ_TAIL | producer index of the send queue | QPN |
//! | RQ_TAIL | producer index of the receive queue | QPN |
//! | CQ_HEAD | consumer index of the completion queue | CQN in 29:16, [`arm`] in 31:30 |
//!
//! CQ_HEAD gives entries back and arms: COMPLETION is raised once, for the next completion; at once, if one is already there at or after the consumer index. So a
//! consumer that arms and then finds the queue empty is woken by whatever comes. Arming twice is arming for the one that comes first. An index that is not between
//! the last one and the producer is ignored as a whole and counted.
//!
//! A work request without a completion of its own is complete when a later one of its queue is (completions come in the order of posting).
//! When the connection is gone the driver completes what is left as flushed: after CLOSE the adapter writes no completion of that queue pair.

/// Octets of a send queue entry, of a receive queue entry, of a completion queue entry.
pub const SEND_OCTETS: usize = 128;
/// Octets of a receive queue entry.
pub const RECV_OCTETS: usize = 64;
/// Octets of a completion queue entry.
pub const COMPLETION_OCTETS: usize = 32;
/// SGEs of a work request.
pub const SGES: usize = 4;
/// Octets of inline data.
pub const INLINE_OCTETS: usize = 64;

/// What a send work request does. The numbers of Sends, Write and Read are RDMAP's opcodes (RFC 5040 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum SendOpcode {
    Write = 0,
    Read = 1,
    Send = 3,
    SendInvalidate = 4,
    SendSolicited = 5,
    SendSolicitedInvalidate = 6,
}

/// Flags of a send work request.
pub mod send_flag {
    /// A completion is wanted.
    pub const SIGNALED: u8 = 1 << 0;
    /// Not before all earlier Reads of the queue are complete.
    pub const FENCE: u8 = 1 << 1;
    /// The payload stands in the entry.
    pub const INLINE: u8 = 1 << 2;
}

/// Flags of a queue pair.
pub mod qp_flag {
    /// Every send work request makes a completion (`sq_sig_all`).
    pub const ALL_SIGNALED: u8 = 1 << 0;
}

/// Rights of a region.
pub mod access {
    /// The adapter may write to it for a receive or a Read of the owner.
    pub const LOCAL_WRITE: u8 = 1 << 0;
    /// Target of a peer's RDMA Write.
    pub const REMOTE_WRITE: u8 = 1 << 1;
    /// Source of a peer's RDMA Read.
    pub const REMOTE_READ: u8 = 1 << 2;
    /// May be invalidated by the peer of the queue pair that it is bound to.
    pub const REMOTE_INVALIDATE: u8 = 1 << 3;
}

/// CQ_HEAD, bits 31:30.
pub mod arm {
    /// Leaves it as it is.
    pub const NOT: u32 = 0;
    /// The next completion whose message was solicited, or that is not a success.
    pub const SOLICITED: u32 = 1 << 30;
    /// The next completion.
    pub const NEXT: u32 = 2 << 30;
}

/// Word of SQ_TAIL, RQ_TAIL.
pub fn queue_tail(qpn: u16, producer: u16) -> u32 {
    u32::from(qpn) << 16 | u32::from(producer)
}

/// Word of CQ_HEAD; `arm` of [`arm`].
pub fn cq_head(cqn: u16, consumer: u16, arm: u32) -> u32 {
    arm | u32::from(cqn & 0x3fff) << 16 | u32::from(consumer)
}

/// What completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum CompletionOpcode {
    Write = 0,
    Read = 1,
    Send = 3,
    Receive = 128,
}

/// How it ended; the numbers are those of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum CompletionStatus {
    Success = 0,
    LocalLength = 1,
    LocalQpOperation = 2,
    LocalProtection = 4,
    Flushed = 5,
    RemoteAccess = 10,
    RemoteOperation = 11,
}

/// A completion queue entry in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the module's table says what each field is
pub struct Completion {
    pub wqe: u16,
    pub opcode: u8,
    pub status: u8,
    pub len: u32,
    pub qpn: u16,
    pub invalidated: bool,
    pub solicited: bool,
    pub stag: u32,
    pub phase: bool,
}

impl Completion {
    /// Dword that holds the phase bit: read it first, and the rest only when it has the expected value.
    pub const PHASE_DWORD: usize = COMPLETION_OCTETS / 4 - 1;
    /// As it stands in the ring.
    pub fn encode(&self) -> [u32; COMPLETION_OCTETS / 4] {
        [
            u32::from(self.wqe) | u32::from(self.opcode) << 16 | u32::from(self.status) << 24,
            self.len,
            u32::from(self.qpn) | u32::from(self.invalidated) << 16 | u32::from(self.solicited) << 17,
            self.stag,
            0,
            0,
            0,
            u32::from(self.phase),
        ]
    }
    /// From the ring.
    pub fn decode(w: &[u32; COMPLETION_OCTETS / 4]) -> Self {
        Completion {
            wqe: w[0] as u16,
            opcode: (w[0] >> 16) as u8,
            status: (w[0] >> 24) as u8,
            len: w[1],
            qpn: w[2] as u16,
            invalidated: w[2] >> 16 & 1 == 1,
            solicited: w[2] >> 17 & 1 == 1,
            stag: w[3],
            phase: w[7] & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_what_stands_in_the_ring() {
        let c = Completion {
            wqe: 0x1234,
            opcode: 3,
            status: 10,
            len: 99,
            qpn: 0x5678,
            invalidated: true,
            solicited: false,
            stag: 0xdead_beef,
            phase: true,
        };
        assert_eq!(c.encode(), [0x0a03_1234, 99, 0x0001_5678, 0xdead_beef, 0, 0, 0, 1]);
        assert_eq!(Completion::decode(&c.encode()), c);
    }

    #[test]
    fn doorbells_keep_their_fields_apart() {
        assert_eq!(queue_tail(0xabcd, 0x1234), 0xabcd_1234);
        assert_eq!(cq_head(0xffff, 0x1234, arm::NOT), 0x3fff_1234);
        assert_eq!(cq_head(5, 6, arm::SOLICITED), 0x4005_0006);
        assert_eq!(cq_head(5, 6, arm::NEXT), 0x8005_0006);
    }
}
