// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `cm::conn` keeps of a connection and of a listener, and what it does with one message.
use super::messages::errno;
use crate::mpa::types::StartRxResult;
use crate::tcp::types::{RxToCm, Tuple};
use ironwarp_abi::Status;
use rust_hdl::prelude::*;

/// Where a connection is; the table in `cm::conn` says what each input does in each phase.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ConnPhase {
    /// The index is not in use; the whole entry is 0.
    Free,
    /// Active: SYN is out.
    SynSent,
    /// Active: the Request was given to TCP.
    WaitReply,
    /// Active: a Reply came, its private data is on its way to the host.
    ReplyData,
    /// Passive: SYN and ACK are out.
    WaitSync,
    /// Passive: the handshake is complete, the MPA Request is not.
    WaitRequest,
    /// Passive: a Request came, its private data is on its way to the host.
    RequestData,
    /// Passive: the host is to decide.
    Requested,
    /// Passive: the host is to decide, but the peer has gone (CM-27).
    Gone,
    /// As `Gone`, and TCP has forgotten the connection.
    GoneFreed,
    /// MPA start-up is over.
    Established,
    /// The send queue is to become empty before FIN.
    Emptying,
    /// Passive: R = 1 was sent, and our FIN waits for the peer's.
    Lingering,
    /// FIN is given to TCP; the end of both directions is awaited.
    Closing,
    /// TCP is told to forget it (`Free`, `Abort`); `Freed` is awaited.
    Freeing,
    /// TCP is told to open it again, in revision 1; `Reopened` is awaited.
    Reopening,
    /// TCP has forgotten it, but private data is still on its way to the host.
    Draining,
    /// Only owed events are left.
    Done,
}

/// Status as `cm::conn` keeps it; [`StatusCode`] makes the errno.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ConnStatus {
    Ok,
    NoEntry,
    NoMemory,
    Reserved,
    Denied,
    Fault,
    Invalid,
    UnknownOpcode,
    Protocol,
    AddressInUse,
    AddressNotAvailable,
    Reset,
    NoPorts,
    TimedOut,
    Refused,
    HostUnreachable,
}

/// The number that stands in an event for a status (`ironwarp_abi::status`).
#[derive(LogicBlock)]
pub struct StatusCode {
    pub status: Signal<In, ConnStatus>,
    pub code: Signal<Out, Bits<32>>,
    no_entry: Constant<Bits<32>>,
    no_memory: Constant<Bits<32>>,
    reserved: Constant<Bits<32>>,
    denied: Constant<Bits<32>>,
    fault: Constant<Bits<32>>,
    invalid: Constant<Bits<32>>,
    unknown_opcode: Constant<Bits<32>>,
    protocol: Constant<Bits<32>>,
    address_in_use: Constant<Bits<32>>,
    address_not_available: Constant<Bits<32>>,
    reset: Constant<Bits<32>>,
    no_ports: Constant<Bits<32>>,
    timed_out: Constant<Bits<32>>,
    refused: Constant<Bits<32>>,
    host_unreachable: Constant<Bits<32>>,
}

impl Default for StatusCode {
    fn default() -> Self {
        Self {
            status: Default::default(),
            code: Default::default(),
            no_entry: errno(Status::NoEntry),
            no_memory: errno(Status::NoMemory),
            reserved: errno(Status::Reserved),
            denied: errno(Status::Denied),
            fault: errno(Status::Fault),
            invalid: errno(Status::Invalid),
            unknown_opcode: errno(Status::UnknownOpcode),
            protocol: errno(Status::Protocol),
            address_in_use: errno(Status::AddressInUse),
            address_not_available: errno(Status::AddressNotAvailable),
            reset: errno(Status::Reset),
            no_ports: errno(Status::NoPorts),
            timed_out: errno(Status::TimedOut),
            refused: errno(Status::Refused),
            host_unreachable: errno(Status::HostUnreachable),
        }
    }
}

impl Logic for StatusCode {
    #[hdl_gen]
    fn update(&mut self) {
        self.code.next = 0.into();
        match self.status.val() {
            ConnStatus::NoEntry => {
                self.code.next = self.no_entry.val();
            }
            ConnStatus::NoMemory => {
                self.code.next = self.no_memory.val();
            }
            ConnStatus::Reserved => {
                self.code.next = self.reserved.val();
            }
            ConnStatus::Denied => {
                self.code.next = self.denied.val();
            }
            ConnStatus::Fault => {
                self.code.next = self.fault.val();
            }
            ConnStatus::Invalid => {
                self.code.next = self.invalid.val();
            }
            ConnStatus::UnknownOpcode => {
                self.code.next = self.unknown_opcode.val();
            }
            ConnStatus::Protocol => {
                self.code.next = self.protocol.val();
            }
            ConnStatus::AddressInUse => {
                self.code.next = self.address_in_use.val();
            }
            ConnStatus::AddressNotAvailable => {
                self.code.next = self.address_not_available.val();
            }
            ConnStatus::Reset => {
                self.code.next = self.reset.val();
            }
            ConnStatus::NoPorts => {
                self.code.next = self.no_ports.val();
            }
            ConnStatus::TimedOut => {
                self.code.next = self.timed_out.val();
            }
            ConnStatus::Refused => {
                self.code.next = self.refused.val();
            }
            ConnStatus::HostUnreachable => {
                self.code.next = self.host_unreachable.val();
            }
            _ => {
                self.code.next = 0.into();
            }
        }
    }
}

/// A connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ConnEntry {
    pub phase: ConnPhase,
    pub passive: Bit,
    /// The host has its handle, so FREED is its last event.
    pub announced: Bit,
    /// It was established at some time.
    pub established: Bit,
    /// CLOSE will be owed.
    pub close_due: Bit,
    // events that are owed, in this order
    pub owe_request: Bit,
    pub owe_reply: Bit,
    pub owe_disconnect: Bit,
    pub owe_close: Bit,
    pub owe_freed: Bit,
    /// Of CONNECT_REPLY.
    pub status: ConnStatus,
    /// Of CLOSE.
    pub close_status: ConnStatus,
    pub context: Bits<32>,
    /// Which queue pair the host wants it for; the data path's.
    pub qpn: Bits<24>,
    pub tuple: Tuple,
    // port use
    pub has_user: Bit,
    pub user: Bits<12>,
    // passive: its listener
    pub listener: Bits<8>,
    pub listener_generation: Bits<32>,
    /// It counts against the listener's limit of those waiting for the host.
    pub counted: Bit,
    // deadline
    pub timer: Bit,
    pub at: Bits<32>,
    // what the host wants (active)
    pub enhanced: Bit,
    pub peer_to_peer: Bit,
    pub retry: Bit,
    pub no_crc: Bit,
    /// The one retry was made, or is on its way.
    pub retried: Bit,
    /// `Freed` is to be followed by the retry.
    pub again: Bit,
    pub open_ird: Bit,
    pub open_ord: Bit,
    pub tos: Bits<8>,
    pub data_addr: Bits<64>,
    pub data_out: Bits<10>,
    pub own_ird: Bits<8>,
    pub own_ord: Bits<8>,
    // what the peer said
    /// The peer's frame had the enhanced words.
    pub peer_enhanced: Bit,
    pub flags: Bits<8>,
    pub rev: Bits<8>,
    pub ird_word: Bits<16>,
    pub ord_word: Bits<16>,
    pub data_in: Bits<10>,
    /// Private data is on its way to the host.
    pub delivering: Bit,
    // what came while it was, or (`dead`) while it was reopened
    pub fin: Bit,
    pub dead: Bit,
    // the queue pair
    /// It has one: CLOSE waits for the end of that.
    pub bound: Bit,
    /// ESTABLISHED waits for the peer's RTR (CM-10).
    pub await_rtr: Bit,
    /// The stream ended in a Terminate.
    pub broken: Bit,
}

/// A listener, as far as its connections need it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ConnListener {
    pub live: Bit,
    pub generation: Bits<32>,
    pub context: Bits<32>,
    /// Most connections that may wait for the host's decision.
    pub limit: Bits<16>,
    /// How many do.
    pub waiting: Bits<16>,
}

/// A message of `tcp::rx`, or (`start`) of `mpa::start_rx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ConnMessage {
    pub start: Bit,
    pub rx: RxToCm,
    pub result: StartRxResult,
}

/// What the engine is at.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ConnJob {
    /// Raise an owed event.
    Event,
    Command,
    /// `tcp::rx` has an index for CONNECT.
    Opened,
    /// It has none, or the 4-tuple lives.
    NotOpened,
    Passive,
    Synced,
    Fin,
    /// RST.
    Reset,
    /// `tcp::rx` has opened it again, or could not.
    Reopened,
    Closed,
    WaitEnd,
    Frame,
    /// What came is no MPA start-up.
    Broken,
    Delivered,
    Fault,
    Expired,
    /// TCP has given up.
    GivenUp,
    Freed,
    /// Nothing touches memory for the queue pair any more.
    Unbound,
    /// The send queue is empty.
    Drained,
    /// The send queue had work when the peer closed.
    Cut,
    /// The peer's first FPDU came.
    Heard,
    /// A Terminate came, or was sent and acknowledged.
    Terminated,
    /// The stream cannot go on, and a Terminate cannot be sent.
    Failed,
    /// The host has read FREED: the index goes back to `tcp::rx`.
    FreedRead,
    /// A listener was made or ends.
    Listener,
    /// A connection of a listener that ends.
    Sweep,
    /// All connections end.
    Shutdown,
}

/// Where a job is.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ConnState {
    /// After reset: entries and listeners are cleared.
    Clear,
    /// Choose the next job.
    Idle,
    /// The entry is asked for.
    Read,
    /// Until it is there; if it was not the last one, that one is written back.
    Load,
    /// The listener is asked for; negotiation, first stage.
    Listener,
    /// Until it is there; negotiation, second stage; handle and deadline are compared.
    Settle,
    /// Everything is known: decide.
    Act,
    /// CONNECT: choose a local address.
    Scan,
    /// CONNECT: ask the set-up rules.
    Rule,
    /// Wait for their answer.
    Ruled,
    /// Offer what is to be told to the neighbours until all is taken, and wait for the port database.
    Out,
    /// The port database has answered and the job goes on.
    Ported,
    /// Raise an event, if one is owed and there is room.
    Tail,
    /// The end of a job: an entry of which nothing is left is emptied.
    Store,
}
