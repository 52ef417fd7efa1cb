// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the blocks of TCP tell each other, and what the connection manager hears of them.
//!
//! A connection has one index everywhere: `0..C`; the entries of the TIME-WAIT table follow, `C..C + T`. Its state is in two halves: `tcp::rx`
//! owns what arrives (RCV.NXT, the peer's window, who the peer is), `tcp::tx` owns what leaves (SND.UNA, SND.NXT, congestion, timers).
//! They know of each other only by [`RxToTx`] and [`TxToRx`].
//!
//! Life of an index: `rx` takes it from its free list, for a command of `cm::conn` ([`CmToRx`] `Open`) or a SYN to a listener; tells `tx`
//! (`Open`), then `cm::conn`. Whatever ends the connection, `cm::conn` ends the index: first in `tx` (`Free` or `Abort`, answered by `Freed`),
//! then in `rx` (`Free`). Messages of one sender to one receiver keep their order, and what `tx` or `rx` said before `cm::conn` spoke is taken before
//! what `cm::conn` said, so that no late message can meet the next user of an index.
//!
//! Sequence numbers are modulo 2^32; `a` is before `b` if bit 31 of `a - b` is set.
use crate::rdma::types::FpduRef;
use rust_hdl::prelude::*;

/// The two ends of a connection, from the adapter's side. Addresses and ports are plain numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Tuple {
    pub local_ip: Bits<32>,
    pub remote_ip: Bits<32>,
    pub local_port: Bits<16>,
    pub remote_port: Bits<16>,
}

/// What `tcp::lookup` is asked.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum LookupOp {
    /// Which index has this tuple?
    Find,
    /// From now on `index` has this tuple. The asker knows that nobody has it yet, and that `index` has none.
    Insert,
    /// `index` has no tuple any more.
    Remove,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LookupRequest {
    pub op: LookupOp,
    pub tuple: Tuple,
    pub index: Bits<16>,
}

/// One a request, in order.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LookupReply {
    /// Find: somebody has it. Insert, Remove: false.
    pub found: Bit,
    pub index: Bits<16>,
}

/// A verified segment: header fields and what its options said. From `tcp::seg_rx` through `tcp::reassembly` to `tcp::rx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SegmentIn {
    pub tuple: Tuple,
    pub seq: Bits<32>,
    pub ack: Bits<32>,
    /// CWR ECE URG ACK PSH RST SYN FIN, FIN in bit 0.
    pub flags: Bits<8>,
    /// As it stands in the header, not scaled.
    pub window: Bits<16>,
    /// Octets of payload.
    pub len: Bits<16>,
    /// MSS option; 0 = none (an option with the value 0 counts as 1).
    pub mss: Bits<16>,
    /// Options that cannot be walked (TCP-2): drop and count.
    pub bad_options: Bit,
    /// Came as link broadcast or multicast (TCP-27).
    pub link_broadcast: Bit,
    /// What the port look-up said: a listener hears this address and port.
    pub listening: Bit,
    pub listener: Bits<16>,
    /// A segment of connection `index` that was held, and that begins where its payload may be wanted now: only `seq`, `len` and FIN mean
    /// something. With neither payload nor FIN: all that was held and can be used has been offered again; now acknowledge (TCP-52).
    pub replay: Bit,
    pub index: Bits<16>,
    /// Without payload and FIN: something of `index` is still held.
    pub more: Bit,
}

/// What becomes of the payload of a [`SegmentIn`]; one a segment, in order, also for those without payload.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Verdict {
    /// Give `take` octets (not 0) from octet `skip` on to the receiver of `index`; else drop all.
    pub keep: Bit,
    /// Not with `keep`, not for a replay: what the segment has of payload and FIN is ahead of RCV.NXT; keep it for later if there is room (TCP-19).
    pub hold: Bit,
    pub index: Bits<16>,
    pub skip: Bits<16>,
    pub take: Bits<16>,
    /// The first of these octets is the first that the peer sends in this connection.
    pub first: Bit,
    /// The peer has opened the connection: it must send an MPA Request; else a Reply.
    pub passive: Bit,
    /// In full operation: it is for `mpa::rx`, not for `mpa::start_rx`.
    pub full: Bit,
}

/// What `tcp::rx` tells `tcp::reassembly` beside the verdicts: pulses of one clock, for which nobody waits.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ReassemblyNote {
    /// The segment taken last is dealt with.
    pub settled: Bit,
    /// With `settled`: RCV.NXT of its connection moved to `rcv_nxt`, and something of this connection may be held.
    pub advanced: Bit,
    pub rcv_nxt: Bits<32>,
    /// Connection `index` needs nothing any more that is held of it.
    pub forget: Bit,
    pub index: Bits<16>,
}

/// Goes before the payload stream of a kept segment. From `tcp::seg_rx` to `mpa::start_rx` or, with `full`, `mpa::rx`, which answers `tcp::rx` with the number of octets that
/// it took over, from the front: only these are acknowledged (TCP-51). The stream starts in lane 0 and has `len` octets.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PayloadIn {
    pub index: Bits<16>,
    pub len: Bits<16>,
    pub first: Bit,
    pub passive: Bit,
    pub full: Bit,
}

/// What `tcp::rx` tells `tcp::tx`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxNote {
    /// A new connection in a free index: choose an ISN and send SYN, or, if `passive`, SYN and ACK. Fields: `passive`, `tuple`; if passive also
    /// `rcv_nxt`, `window`, `mss`.
    Open,
    /// Active open: the peer's SYN came. With `ack` beyond the ISN: the connection is open, acknowledge. Else simultaneous open: send SYN and ACK.
    /// Fields: `rcv_nxt`, `ack`, `window`, `mss`.
    Syn,
    /// An acceptable segment: `rcv_nxt`, `ack` (SND.UNA is to be this), `window`, `duplicate`; `ack_now`: acknowledge at once.
    Update,
    /// A segment that must be answered by an ACK but changes nothing (TCP-7, TCP-8); `challenge`: within the limit of RFC 5961.
    Answer,
    /// The peer has reset it, or it went to TIME-WAIT: send nothing more, stop the timers. Only `Free` or `Abort` of the manager follow.
    Stop,
    /// Belongs to no connection: send one segment with `tuple`, `seq`, `ack`, `flags` and no payload (TCP-28, TIME-WAIT). `index` means nothing.
    Reply,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxToTx {
    pub note: RxNote,
    pub index: Bits<16>,
    pub tuple: Tuple,
    pub passive: Bit,
    /// RCV.NXT: what our next ACK says.
    pub rcv_nxt: Bits<32>,
    /// SND.UNA.
    pub ack: Bits<32>,
    /// The peer's window in octets.
    pub window: Bits<32>,
    /// Peer's MSS option, 0 = none.
    pub mss: Bits<16>,
    pub ack_now: Bit,
    /// With `ack_now`: nothing but payload in order asks for it, so one ACK is enough for two segments (RFC 5681 section 4.2).
    pub soft: Bit,
    /// A duplicate ACK in the sense of RFC 5681 section 2.
    pub duplicate: Bit,
    pub challenge: Bit,
    /// `Reply` only.
    pub seq: Bits<32>,
    pub flags: Bits<8>,
}

/// How far `tcp::tx` has sent: what an ACK may acknowledge.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TxToRx {
    pub index: Bits<16>,
    /// First of this connection: `max` - 1 is the ISN and SND.UNA.
    pub start: Bit,
    /// Largest SND.NXT so far (SYN and FIN count).
    pub max: Bits<32>,
    /// `max` - 1 is our FIN.
    pub fin: Bit,
}

/// What `cm::conn` asks of `tcp::rx`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CmRxOp {
    /// Active open of the tuple that the manager holds on `open_tuple` from here to the answer. Answered by `Opened`, `Exists` or `NoSlot`.
    Open,
    /// The index is free again (after `Freed` of `tcp::tx`). Not answered.
    Free,
    /// The connection's start-up is over on the receive side: it no longer counts as half-open with its listener. Not answered.
    HalfDone,
    /// Payload that follows is for full operation. Not answered.
    Full,
    /// Listener `listener` (in `index`) now has the half-open limit `limit`; its count of half-open connections goes on. 0 while there is none.
    Limit,
    /// Instead of `Free`, after `Freed` of `tcp::tx`: `index`, which was opened by `Open`, opens its tuple anew from the SYN on (ENH-2). Answered by
    /// `Reopened`; `Synced`, `Reset` and so on follow as after `Opened`, nothing of the first attempt does.
    Reopen,
    /// The stream has ended by a Terminate: payload that comes after our FIN is still taken, as `mpa::rx` or who is behind it does not look at it any more. Not answered.
    Discard,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CmToRx {
    pub op: CmRxOp,
    pub index: Bits<16>,
    pub limit: Bits<16>,
}

/// What `tcp::rx` tells `cm::conn`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxCmNote {
    /// Answer to `Open`: it has this index, and SYN will go out.
    Opened,
    /// Answer to `Open`: the 4-tuple lives or is in TIME-WAIT (TCP-49).
    Exists,
    /// Answer to `Open`: no index is free.
    NoSlot,
    /// Answer to `Reopen`: SYN will go out. `refused`: the tuple is somebody else's by now, and the index stays without one.
    Reopened,
    /// A SYN for `listener` has made `index`, with `tuple`; SYN and ACK will go out.
    Passive,
    /// The three-way handshake is complete.
    Synced,
    /// The peer's FIN, in order; no payload follows.
    Fin,
    /// The peer has reset the connection. `refused`: it was our SYN that got the RST.
    Reset,
    /// Both FINs are sent and acknowledged. `waiting`: TIME-WAIT entry `wait` has taken the tuple over, its end will be told.
    Closed,
    /// TIME-WAIT entry `wait` has ended.
    WaitEnd,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxToCm {
    pub note: RxCmNote,
    pub index: Bits<16>,
    pub tuple: Tuple,
    pub listener: Bits<16>,
    pub refused: Bit,
    pub waiting: Bit,
    /// TIME-WAIT entry, from 0.
    pub wait: Bits<16>,
}

/// What `cm::conn` asks of `tcp::tx`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CmTxOp {
    /// Send the start-up frame of `len` octets that `mpa::start_tx` holds for this index; once a connection.
    Send,
    /// FIN after all that was given.
    Close,
    /// RST if the peer may know of the connection, then as `Free`.
    Abort,
    /// Forget it. Answered by `Freed`.
    Free,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CmToTx {
    pub op: CmTxOp,
    pub index: Bits<16>,
    pub len: Bits<16>,
    /// DSCP and zero ECN bits of all segments; looked at with `Send`.
    pub tos: Bits<8>,
}

/// What `tcp::tx` tells `cm::conn`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TxCmNote {
    /// Answer to `Free` and `Abort`: no segment of it leaves any more, no timer runs, the private data of the host is not read again.
    Freed,
    /// Given up (TCP-15): nothing is sent any more.
    TimedOut,
    /// The next hop does not answer, or there is no route: nothing is sent any more.
    Unreachable,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TxToCm {
    pub note: TxCmNote,
    pub index: Bits<16>,
}

/// A segment to send, complete but for checksums, lengths, and its payload. From `tcp::tx` to `tcp::seg_tx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SegmentOut {
    pub mac: Bits<48>,
    pub tuple: Tuple,
    pub seq: Bits<32>,
    pub ack: Bits<32>,
    pub flags: Bits<8>,
    pub window: Bits<16>,
    /// MSS option to add; 0 = no options.
    pub mss: Bits<16>,
    pub tos: Bits<8>,
    /// Octets of payload. 0: none is taken from the payload stream.
    pub len: Bits<16>,
}

/// Which octets shall be given as one payload: of the start-up frame, by `mpa::start_tx`, or, with `data`, of an FPDU, by `mpa::tx`. From `tcp::tx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PayloadOut {
    pub index: Bits<16>,
    pub skip: Bits<16>,
    /// Not 0.
    pub take: Bits<16>,
    pub data: Bit,
    pub fpdu: FpduRef,
}

/// Sets or clears a deadline of `tcp::deadlines`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct DeadlineSet {
    pub index: Bits<16>,
    /// False: there is none any more.
    pub on: Bit,
    /// Adapter time in microseconds, less than 2^31 ahead.
    pub at: Bits<32>,
}
