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
