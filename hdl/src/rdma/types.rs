// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the blocks of the data path tell each other; `docs/data-path.md` has the picture.
//!
//! A connection has the index that it has in TCP (`tcp::types`), a queue pair the number (QPN) that the driver gave it. A queue pair is *bound* to an index
//! from the end of the start-up to `Unbind`; the engines know indices only. Octet counts of messages are 32 bits, those of FPDUs 16.
use rust_hdl::prelude::*;

/// What a queue pair is, for the engines. `sq_base` and `rq_base` are 64-octet aligned; `*_log2` is the log2 of the number of entries.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QpContext {
    pub qpn: Bits<16>,
    pub pd: Bits<16>,
    pub send_cqn: Bits<16>,
    pub recv_cqn: Bits<16>,
    pub sq_base: Bits<64>,
    pub rq_base: Bits<64>,
    pub sq_log2: Bits<4>,
    pub rq_log2: Bits<4>,
    /// `work::qp_flag::ALL_SIGNALED`: each send work request makes a completion.
    pub all_signaled: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum BindOp {
    /// The start-up of `index` is over; it belongs to queue pair `qp` from here on. Not answered.
    Bind,
    /// The connection is over or ends: no new DMA for `index`. Answered by `Unbound` when what was under way has ended and no completion of it can follow.
    Unbind,
}

/// To `rdma::rx`, `rdma::sq` and `mpa::rx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Bind {
    pub op: BindOp,
    pub index: Bits<16>,
    pub qp: QpContext,
    /// CRC is checked and made (MPA-24).
    pub crc: Bit,
    /// The peer asked for markers: we insert them (MRK-9).
    pub markers: Bit,
    /// May not send before the first FPDU of the peer came (MPA-6).
    pub responder: Bit,
    /// Read requests of the peer that we hold / that we may have outstanding, 0..=2^I.
    pub ird: Bits<8>,
    pub ord: Bits<8>,
    /// RTR that we owe as the first FPDU, or wait for: zero-length Write, zero-length Read (ENH-5).
    pub rtr_write: Bit,
    pub rtr_read: Bit,
    /// Not 0: the start-up has failed here. The first and only FPDU is a Terminate 2/0/`terminate`, and what comes is not looked at.
    pub terminate: Bits<8>,
}

/// What `cm::conn` asks of `rdma::qps`: see [`Bind`]. Both operations are answered by a [`QpBound`]; the next is taken after it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QpBindIn {
    pub op: BindOp,
    pub index: Bits<16>,
    /// As it stands in the command.
    pub qpn: Bits<24>,
    // the rest with `Bind` only
    pub crc: Bit,
    pub markers: Bit,
    pub responder: Bit,
    pub ird: Bits<8>,
    pub ord: Bits<8>,
    pub rtr_write: Bit,
    pub rtr_read: Bit,
    pub terminate: Bits<8>,
}

/// Answer of `mpa::rx` to `Unbind`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct MpaUnbound {
    pub index: Bits<16>,
    /// Of the peer's last FPDU a part had come, and nothing was wrong before.
    pub torn: Bit,
}

/// To `cm::conn`. `Bind`: the engines have taken it; or (`refused`) there is no such queue pair, or it belongs to a connection. `Unbind`: the engines have ended what was
/// under way, and the queue pair is free; or (`refused`) it is not that of `index`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QpBound {
    pub index: Bits<16>,
    pub refused: Bit,
    /// `Unbind`: as in [`MpaUnbound`].
    pub torn: Bit,
}

/// A doorbell of a bound queue pair: `posted` is the free-running producer index of its send or receive queue.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Posted {
    pub index: Bits<16>,
    pub posted: Bits<16>,
}

// ---- mpa::rx -> rdma::rx

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum FpduNote {
    /// A whole FPDU, its CRC good or not asked for.
    Whole,
    /// Its CRC is wrong: nothing follows of this index (MPA-37).
    BadCrc,
    /// ULPDU_Length above what a slot holds, or below the shortest header of its kind: nothing follows (MPA-26).
    BadLength,
}

/// An FPDU that stands in slot `slot` from its first octet (ULPDU_Length) on. The receiver gives the slot back by `free`; one note without a
/// slot (`BadCrc`, `BadLength`) has none to give back.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduIn {
    pub note: FpduNote,
    pub index: Bits<16>,
    pub slot: Bits<8>,
    /// ULPDU_Length.
    pub len: Bits<16>,
}

// ---- regions: what may be touched

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RegionOp {
    /// May `len` octets (not 0) from `to` on be touched through `stag`?
    Check,
    /// Send with Invalidate: revoke `stag` (RDM-5). Only a region that is bound to the one stream `qpn` can be (RDM-37). From `rdma::rx` alone.
    Invalidate,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RegionAsk {
    pub op: RegionOp,
    pub stag: Bits<32>,
    pub to: Bits<64>,
    pub len: Bits<32>,
    pub pd: Bits<16>,
    pub qpn: Bits<16>,
    /// Rights that are needed, `ironwarp_abi::work::access`; 0 for a local source.
    pub need: Bits<4>,
}

/// Checks are made in the order of this list; the first that fails is told (DDP-2).
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RegionStatus {
    Ok,
    /// Index, key or state.
    Invalid,
    /// Other protection domain, or bound to another stream.
    Association,
    /// A right is missing; of Invalidate: it may not be invalidated from afar.
    Right,
    /// `to` + `len` passes 2^64.
    Wrap,
    Bounds,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RegionAnswer {
    pub status: RegionStatus,
    /// Where octet `to` is in host memory (IOVA).
    pub addr: Bits<64>,
}

// ---- completions

/// A completion, on its way to completion queue `cqn`; fields as in `ironwarp_abi::work::Completion`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CompletionOut {
    pub cqn: Bits<16>,
    pub qpn: Bits<16>,
    /// Free-running index of the work request in its queue.
    pub wqe: Bits<16>,
    pub opcode: Bits<8>,
    pub status: Bits<8>,
    pub len: Bits<32>,
    /// STag that the peer invalidated, with `invalidated`.
    pub stag: Bits<32>,
    pub invalidated: Bit,
    /// Raises an armed queue that waits for solicited completions only.
    pub solicited: Bit,
}

// ---- rdma::rx -> rdma::sq

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxSqNote {
    /// The peer asks for a read: `stag`, `to`, `len` are the source (checked), `sink_stag`, `sink_to` go into the response.
    ReadRequest,
    /// The oldest outstanding Read of this index is complete.
    ReadDone,
    /// First FPDU of the peer came: a responder may send.
    Heard,
    /// Word `len` (0..=6) of the payload of a Terminate is `to`, octet 0 in bits 7:0.
    TermWord,
    /// Send a Terminate whose payload are `len` octets of the words told before, then nothing more.
    Terminate,
    /// The peer sent a Terminate: send nothing more.
    Stop,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxToSq {
    pub note: RxSqNote,
    pub index: Bits<16>,
    pub stag: Bits<32>,
    pub to: Bits<64>,
    pub len: Bits<32>,
    pub sink_stag: Bits<32>,
    pub sink_to: Bits<64>,
}

/// `rdma::sq` has sent (or is about to send) a Read Request: the response that `rdma::rx` must see (RDM-3).
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ReadIssued {
    pub index: Bits<16>,
    /// Sink, as checked when the work request was taken; `len` 0: nothing is placed.
    pub stag: Bits<32>,
    pub to: Bits<64>,
    pub len: Bits<32>,
}

// ---- rdma::sq <-> tcp::tx

/// One more FPDU of `index`, behind all that was told before. `rdma::sq` never has more than 32 of an index that were not `Acked`, and tells
/// of the first after `Emss` came.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduQueued {
    pub index: Bits<16>,
    pub fpdu: FpduRef,
    /// Octets of the FPDU in the stream, markers and CRC included; a multiple of 4.
    pub wire_len: Bits<16>,
    /// PSH on its last segment: it ends a message.
    pub push: Bit,
}

/// How an FPDU is made anew: which item of the item store, and which octets of its message.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduRef {
    /// Place in the item store: entries of an index are a ring.
    pub item: Bits<4>,
    /// Octets of the message before this FPDU, and in it.
    pub offset: Bits<32>,
    pub len: Bits<16>,
    /// L bit: last of its message.
    pub last: Bit,
    /// Place of its first octet (of a marker, if one stands there) in the stream, from SeqStart, modulo 512.
    pub phase: Bits<9>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TxSqNote {
    /// Octets of payload in a full segment of `index`; before its first FPDU can be sent, and when it changes. MULPDU follows from it (SEG-1).
    Emss,
    /// The `count` oldest FPDUs of `index` are acknowledged to their last octet.
    Acked,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TxToSq {
    pub note: TxSqNote,
    pub index: Bits<16>,
    pub emss: Bits<16>,
    /// Not 0.
    pub count: Bits<8>,
}

/// What `mpa::tx` shall give as one payload: `take` octets from octet `skip` on of the FPDU. `skip` is a multiple of 8, and no cut is
/// inside PAD and CRC (SEG-11). From `tcp::tx`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduOut {
    pub index: Bits<16>,
    pub fpdu: FpduRef,
    pub skip: Bits<16>,
    /// Not 0.
    pub take: Bits<16>,
}

// ---- connection manager <-> data path

/// What `cm::conn` asks of the data path.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum QpOp {
    /// The start-up of `index` is over: it belongs to queue pair `qpn`, if there is such a one and it is free. Answered if not: `Heard`, with `terminate` `Failed`.
    Bind,
    /// Send all that was posted, take nothing new. Answered by `Drained`.
    Close,
    /// The peer has closed. Answered by `Drained` if nothing was left to send or to be acknowledged, else by `Cut`.
    Stop,
    /// As `BindOp::Unbind`; also if nothing is bound. Answered by `Unbound` or `Torn`.
    Unbind,
}

/// Fields after `qpn` for `Bind` only, as in [`Bind`].
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QpOrder {
    pub op: QpOp,
    pub index: Bits<16>,
    pub qpn: Bits<24>,
    pub crc: Bit,
    pub markers: Bit,
    pub responder: Bit,
    pub ird: Bits<16>,
    pub ord: Bits<16>,
    pub rtr_write: Bit,
    pub rtr_read: Bit,
    pub terminate: Bits<8>,
}

/// What the data path tells `cm::conn`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum QpNote {
    /// Answer to `Unbind`, the last of this index.
    Unbound,
    /// The same, and the stream ended in the middle of an FPDU of the peer (TD-2).
    Torn,
    /// Answer to `Close` and `Stop`.
    Drained,
    /// Answer to `Stop`.
    Cut,
    /// The first FPDU of the peer came, in a connection that waits for an RTR; also if there is no queue pair that could see it.
    Heard,
    /// The peer's Terminate came, or ours is acknowledged: nothing is sent any more, FIN may follow.
    Terminated,
    /// The stream cannot go on (a source was revoked, a DMA access failed), and no Terminate can be sent: RST.
    Failed,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QpNews {
    pub note: QpNote,
    pub index: Bits<16>,
}

// ---- the item store

/// First word (8 octets) of an item. An item is what one message is made of, and stands in the store from when its work request was fetched
/// until all its FPDUs are acknowledged. 12 words: this, `ItemTarget`, `ItemSize`, one that is not used, then 8 words: 4 SGEs or up to 64 octets of inline data.
///
/// An SGE has two words: length 31:0, STag 63:32; address (TO) 63:0. Unused ones have length 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ItemHead {
    /// RDMAP opcode 0..=7.
    pub opcode: Bits<8>,
    /// Payload is in the item itself.
    pub in_line: Bit,
    /// The source was named by the peer (Read Response): it needs the remote-read right.
    pub remote: Bit,
    pub spare: Bits<6>,
    pub pd: Bits<16>,
    /// Tagged: STag. Untagged: STag to invalidate, or 0.
    pub stag: Bits<32>,
}

/// Second word: tagged: TO of the message's first octet. Untagged: QN in 31:0, MSN in 63:32.
pub type ItemTarget = Bits<64>;

/// Third word.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ItemSize {
    /// Octets of the message.
    pub len: Bits<32>,
    pub qpn: Bits<16>,
    /// Markers are inserted / CRC is made.
    pub markers: Bit,
    pub crc: Bit,
    pub spare: Bits<14>,
}

// ---- rdma::rx -> rdma::placer

/// `len` octets from octet `offset` of slot `slot` on go to host memory at `addr` (an IOVA).
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Place {
    pub slot: Bits<8>,
    pub offset: Bits<16>,
    /// 0: nothing is written.
    pub len: Bits<16>,
    pub addr: Bits<64>,
    /// The slot is not needed any more when this has been read.
    pub free: Bit,
}

// ---- rdma::rx -> manager

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxAsyncKind {
    /// The peer sent a Terminate; it is not answered (RDM-8).
    Terminated,
    /// The peer sent what has the place of a Terminate and is none (RDM-32); nor is that.
    Malformed,
    /// We found an error, and told `rdma::sq` to send a Terminate.
    Failed,
}

/// The stream of `index` is over: nothing that comes is looked at any more. Once between Bind and Unbind.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxAsync {
    pub kind: RxAsyncKind,
    pub index: Bits<16>,
    /// What the Terminate says; of `Malformed` whatever stands there.
    pub layer: Bits<4>,
    pub etype: Bits<4>,
    pub code: Bits<8>,
}

// ---- rdma::sq -> connection manager

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SqAsyncNote {
    /// A work request failed here: a Terminate without headers leaves behind what was before it, nothing after it (RDM-27).
    LocalError,
    /// Memory that a message half sent is made of was revoked (RDM-28), or a Terminate would be the first that a responder sends (RDM-34): nothing more is sent, the connection must be
    /// reset.
    SourceLost,
    /// Our Terminate is acknowledged.
    Terminated,
    /// After `close`: all that was posted is complete, all that is owed to the peer is acknowledged (TD-1).
    Drained,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqAsync {
    pub index: Bits<16>,
    pub note: SqAsyncNote,
}
