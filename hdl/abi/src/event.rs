// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events, adapter to host. One DMA write of 64 octets in ascending order; the phase bit is in the last dword.
//!
//! | dword | bits | field |
//! |---|---|---|
//! | 0 | 7:0 | kind |
//! | 0 | 15:8 | flags: of the peer's start-up frame in CONNECT_REQUEST, CONNECT_REPLY, ESTABLISHED |
//! | 1 | 31:0 | status, 0 or negative errno |
//! | 2 | 31:0 | context of the command (of the listener for CONNECT_REQUEST) |
//! | 3 | 31:0 | detail: the port that RESERVE stumbled over, code and subject of an ASYNC, CQN of a COMPLETION, MPA revision of the peer (CONNECT_REQUEST, CONNECT_REPLY) |
//! | 4, 5 | | handle |
//! | 6 | 31:0 | local address |
//! | 7 | 15:0, 31:16 | local port, remote port |
//! | 8 | 31:0 | remote address |
//! | 9 | 15:0, 31:16 | own IRD, own ORD |
//! | 10 | 15:0, 31:16 | peer IRD, peer ORD |
//! | 11 | 15:0 | private data length; the data is at PDATA_BASE + 512 x index, until EVT_HEAD passes FREED of this handle |
//! | 12, 13 | | handle of the listener (CONNECT_REQUEST) |
//! | 14 | 31:0 | adapter time in microseconds |
//! | 15 | 0 | phase: 1 on the first pass over the ring, then toggles with each pass |
use crate::{Handle, ENTRY_DWORDS};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventKind {
    /// Answer to a command that has no event of its own, or that failed before it had a handle.
    CmdReply = 1,
    /// Answer to LISTEN: status, handle, address and port chosen.
    ListenReply = 2,
    /// Last event of a handle; its buffers return to the host (CM-43).
    Freed = 3,
    /// Something that no command asked for; `detail` is an [`asynchronous`] code and what it is about.
    Async = 4,
    /// Completion queue `detail` was armed and has the completion that it was armed for.
    Completion = 5,
    /// A peer asks for a connection.
    ConnectRequest = 8,
    /// Answer to CONNECT.
    ConnectReply = 9,
    /// Answer to a successful ACCEPT.
    Established = 10,
    /// Peer sent FIN.
    Disconnect = 11,
    /// Connection is gone.
    Close = 12,
}

impl EventKind {
    /// Every kind.
    pub const ALL: &'static [EventKind] = &[
        EventKind::CmdReply,
        EventKind::ListenReply,
        EventKind::Freed,
        EventKind::Async,
        EventKind::Completion,
        EventKind::ConnectRequest,
        EventKind::ConnectReply,
        EventKind::Established,
        EventKind::Disconnect,
        EventKind::Close,
    ];
    /// The kind with this number, if there is one.
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| *k as u8 == raw)
    }
}

/// What `detail` of an ASYNC says: the code in 31:16, what it is about in 15:0.
pub mod asynchronous {
    /// Completion queue 15:0 has lost a completion: it was full, or a write to it failed. It gets no more completions; all that use it are to be ended. Once
    /// in the life of a queue.
    pub const CQ_ERROR: u32 = 1 << 16;
    /// A work request of queue pair 15:0 failed in the adapter; it completes with an error, and a Terminate 0/2/0x07 is sent (RDM-27).
    pub const LOCAL_ERROR: u32 = 2 << 16;
    /// The peer of queue pair 15:0 sent a Terminate (RDM-8), of which octets 0 and 1 stand in 15:8 and 7:0 of the place of the own IRD.
    pub const TERMINATE_RECEIVED: u32 = 3 << 16;
    /// The peer of queue pair 15:0 sent what is not a Terminate in its place (RDM-32).
    pub const TERMINATE_MALFORMED: u32 = 4 << 16;
    /// What the peer of queue pair 15:0 sent was wrong: a Terminate with these octets 0 and 1 is sent (RDM-27).
    pub const TERMINATE_SENT: u32 = 5 << 16;
}

/// An event in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the module's table says what each field is
pub struct Event {
    pub kind: u8,
    pub flags: u8,
    pub status: i32,
    pub context: u32,
    pub detail: u32,
    pub handle: Handle,
    pub local_addr: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub remote_addr: u32,
    pub own_ird: u16,
    pub own_ord: u16,
    pub peer_ird: u16,
    pub peer_ord: u16,
    pub data_len: u16,
    pub listener: Handle,
    pub time_us: u32,
    pub phase: bool,
}

impl Event {
    /// Dword that holds the phase bit: read it first, and the rest only when it has the expected value.
    pub const PHASE_DWORD: usize = ENTRY_DWORDS - 1;
    /// From the ring.
    pub fn decode(w: &[u32; ENTRY_DWORDS]) -> Self {
        Event {
            kind: w[0] as u8,
            flags: (w[0] >> 8) as u8,
            status: w[1] as i32,
            context: w[2],
            detail: w[3],
            handle: Handle(u64::from(w[4]) | u64::from(w[5]) << 32),
            local_addr: w[6],
            local_port: w[7] as u16,
            remote_port: (w[7] >> 16) as u16,
            remote_addr: w[8],
            own_ird: w[9] as u16,
            own_ord: (w[9] >> 16) as u16,
            peer_ird: w[10] as u16,
            peer_ord: (w[10] >> 16) as u16,
            data_len: w[11] as u16,
            listener: Handle(u64::from(w[12]) | u64::from(w[13]) << 32),
            time_us: w[14],
            phase: w[15] & 1 == 1,
        }
    }
    /// As it stands in the ring.
    pub fn encode(&self) -> [u32; ENTRY_DWORDS] {
        let pair = |lo: u16, hi: u16| u32::from(lo) | u32::from(hi) << 16;
        [
            u32::from(self.kind) | u32::from(self.flags) << 8,
            self.status as u32,
            self.context,
            self.detail,
            self.handle.0 as u32,
            (self.handle.0 >> 32) as u32,
            self.local_addr,
            pair(self.local_port, self.remote_port),
            self.remote_addr,
            pair(self.own_ird, self.own_ord),
            pair(self.peer_ird, self.peer_ord),
            u32::from(self.data_len),
            self.listener.0 as u32,
            (self.listener.0 >> 32) as u32,
            self.time_us,
            u32::from(self.phase),
        ]
    }
}
