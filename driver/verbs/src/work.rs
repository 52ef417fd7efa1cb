// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work requests and their completions.

bitflags::bitflags! {
    /// How a send is done (`ibv_send_flags`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SendFlags: u32 {
        /// Not before all Reads that were posted before it are complete.
        const FENCE = 1;
        /// Its success completes visibly; errors always do.
        const SIGNALED = 2;
        /// Send only: wakes a peer that armed its queue for solicited events.
        const SOLICITED = 4;
    }
}

/// A part of a memory region (`ibv_sge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sge {
    /// First octet.
    pub addr: u64,
    /// Octets.
    pub length: u32,
    /// Key of the region.
    pub lkey: u32,
}

/// What a send work request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendOp {
    /// Send.
    Send,
    /// Send with Invalidate: the peer's key that dies with it.
    SendWithInvalidate(u32),
    /// RDMA Write.
    Write {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// RDMA Read. The sink is one scatter-gather entry with LOCAL_WRITE; the device makes it reachable for the response alone.
    Read {
        /// The peer's address.
        remote_addr: u64,
        /// The peer's key.
        rkey: u32,
    },
    /// Takes the rights of an own key away, in order with the other requests.
    LocalInvalidate(u32),
}

/// A send work request (`ibv_send_wr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What is done.
    pub op: SendOp,
    /// What is sent, or where a Read goes to. Unused if `inline` is there.
    pub sg_list: Vec<Sge>,
    /// What is sent, copied at posting; up to the queue pair's `max_inline_data`. Not for Read.
    pub inline: Option<Vec<u8>>,
    /// How.
    pub flags: SendFlags,
}

/// A receive work request (`ibv_recv_wr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the next Send goes to.
    pub sg_list: Vec<Sge>,
}

/// How a work request ended (`ibv_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WcStatus {
    /// Done.
    Success,
    /// The peer's message is longer than the receive's buffer.
    LocLenErr,
    /// The queue pair failed inside.
    LocQpOpErr,
    /// An own scatter-gather entry is not in a region of the domain, or without the right.
    LocProtErr,
    /// Not done: the queue pair left RTS first.
    WrFlushErr,
    /// The peer's answer is not as asked for.
    BadRespErr,
    /// The peer refused the access (its Terminate says why).
    RemAccessErr,
    /// The peer could not do it (its Terminate says why).
    RemOpErr,
    /// Anything else.
    GeneralErr,
}

impl WcStatus {
    /// As `ibv_wc_status_str` has it.
    pub const fn text(self) -> &'static str {
        match self {
            WcStatus::Success => "success",
            WcStatus::LocLenErr => "local length error",
            WcStatus::LocQpOpErr => "local QP operation error",
            WcStatus::LocProtErr => "local protection error",
            WcStatus::WrFlushErr => "Work Request Flushed Error",
            WcStatus::BadRespErr => "bad response error",
            WcStatus::RemAccessErr => "remote access error",
            WcStatus::RemOpErr => "remote operation error",
            WcStatus::GeneralErr => "general error",
        }
    }
}

/// What completed (`ibv_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WcOpcode {
    /// Send of either kind.
    Send,
    /// RDMA Write.
    RdmaWrite,
    /// RDMA Read.
    RdmaRead,
    /// Local invalidate.
    LocalInv,
    /// Receive.
    Recv,
}

/// A completion (`ibv_wc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wc {
    /// Of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Octets that a receive or a Read brought.
    pub byte_len: u32,
    /// Of whom.
    pub qp_num: u32,
    /// Receive only: the own key that the peer's message invalidated.
    pub invalidated: Option<u32>,
    /// Receive only: the message asked for a solicited event.
    pub solicited: bool,
}
