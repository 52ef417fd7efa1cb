// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive side of DDP and RDMAP (RFC 5040, 5041): FPDUs become placements, completions, requests for `rdma::sq`; the first error of a stream becomes a Terminate.
//!
//! **Interface.** 2^C connections, whose indices are below that.
//! * `fpdu`: FPDUs of each index in order, each in a slot that `free` gives back. `slot_address`, `slot_data`: the slots as in [`Placer`].
//! * `bind`, `unbound`: an index belongs to a queue pair from `Bind` to `Unbind`. What comes for another one is freed unseen. `mpa::rx` must be told after this block and `rdma::sq`.
//! * `posted`, `issued`, `responded`: the doorbell of the receive queue, Reads that were sent (at most 2^I outstanding an index), and Read Responses that have left, whose place in IRD is free
//!   again. They are taken in a few clocks, whatever else goes on; only in the clock in which a Bind comes they wait. The counts of an index begin with its Bind.
//! * `ask`, `answer`: one question to `rdma::regions` at a time. `quiet`: nothing that an answer allowed is under way; never waits for an answer.
//! * `rd_req`, `rd_beat`: entries of receive queues. `wr_req`, `wr_beat`, `wr_done`: placement.
//! * `completion`, `to_sq`, `event`, `unbound` come out of one queue, in order, each when all placements before it have ended (RDM-4).
//!
//! **Rules.** Checks are made in this order, and the first that fails makes the Terminate: note of `mpa::rx`, length, DV, RV, QN, opcode with T and QN (CH-9); then of a tagged
//! segment: kind of the message that is not at its end (CH-8), of a Read Response the oldest Read (RDM-3), the region if it has octets (DDP-2, DDP-9); of an untagged: length of a Read Request, MSN, buffer,
//! MO (DDP-3, DDP-22), opcode (CH-8), length, regions. After a Terminate, ours or the peer's, the index is deaf until it is bound anew: what comes is freed unseen (DDP-10, MPA-37). A Terminate of the
//! peer that is none makes none of ours (RDM-32). A write to host memory that fails ends the stream with 0/2/0x07, and no message is delivered that may have lost octets.
//! A Send that is longer than its receive, and one whose receive may not be written, complete it with an error. An RTR (ENH-5) is a Write or a Read like all others.
//!
//! **Receive queue.** Up to 4 entries of an index are here. When its first segment finds none, and ahead, when a receive completes and 2 are left or fewer, those that are posted are fetched in one read.
//! One that cannot be read ends the stream with 0/2/0x07.
//!
//! **IRD.** A place is free when the last FPDU of the response is cut, not when it is acknowledged: a peer that has the response may send its next request with an acknowledgement that it made before, or in a segment
//! that overtakes it, and to wait here for that acknowledgement, which stands behind FPDUs that wait for this engine, would have no end. `responded` comes long before a request that follows the
//! response, so one that finds no place is one too many (ENH-22, RDM-2). `rdma::sq` has at most three responses that are not acknowledged: of a peer that does not keep within IRD three more are taken.
//!
//! **States.** See [`RxState`]. Beside the engine work the placer, the fetch of a receive queue entry, the queue of what is delivered, and the counts of what others tell.
//!
//! **Timing.** With an answer of `regions` in n clocks a Write takes 8 + n clocks, or its beats + 6 in the placer, which works while the next FPDU is checked: 13, 13 and 187 clocks for 8, 64 and 1446
//! octets at n = 5. A Send of one segment into one SGE takes 17 + n, 3 more if receives are fetched ahead, 6 + n more
//! for each further SGE: 25, 25 and 192 clocks. A change of connection costs no clock: it goes on while the header
//! is read. Ready 4 * 2^C clocks after a reset.
//!
//! **Memory.** Rows of 2^C, 2^(C+5) words of SGEs, 2^(C+I) outstanding Reads, two words each, in block RAM (3, 4, 2 DP16KD in `ecp5`); counts and queues in distributed RAM.
//!
//! The engine waits for `regions`, the host's reads, the placer and the takers of what is delivered; nothing that they need waits for the engine.
use super::placer::Placer;
use super::types::*;
use crate::host::dma::*;
use crate::stream::{BlockRam, ChanFifo, ChanSink, ChanSrc, RowStore};
use rust_hdl::prelude::*;

/// What the engine does.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxState {
    /// After reset: all rows become 0.
    Clear,
    Idle,
    /// A write of the row's connection has failed.
    Broken,
    /// The row of a Bind or Unbind is fetched, then changed.
    Bind,
    Bound,
    /// The first three words of the slot and the row are fetched.
    Head,
    /// What is it?
    Judge,
    /// Untagged: numbers and lengths are known.
    Match,
    /// Read Response: the oldest Read is fetched, what is expected is computed, compared, judged.
    Oldest,
    Expect,
    Compare,
    ResponseJudge,
    Responded,
    /// Read Request: the rest of its words, the question, the request.
    More,
    RequestSure,
    RequestGive,
    /// Send: its receive is fetched, its room compared.
    Fetch,
    FetchWait,
    Room,
    Fit,
    Fits,
    /// The next piece: SGE, address, length.
    Piece,
    PieceStag,
    PieceAddress,
    PieceLength,
    PieceAsk,
    SendEnd,
    InvalidateSure,
    Receive,
    /// The next receives are counted and fetched ahead.
    AheadCount,
    AheadFetch,
    /// The receive ends in an error, and the stream with it.
    SendFail,
    Ask,
    Answer,
    Placing,
    /// Word by word of a Terminate: read, kept, given.
    TermRead,
    TermWord,
    TermPush,
    TermGive,
    /// The peer's Terminate: nothing more is sent.
    Stop,
    TermEvent,
    FreeSlot,
}

/// What an FPDU is, or what is wrong with it.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxKind {
    Short,
    BadDv,
    BadRv,
    BadQn,
    BadOpcode,
    Write,
    Response,
    Request,
    Send,
    Terminate,
}

/// What an answer of `regions` is for.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxThen {
    Place,
    Request,
    Invalidate,
}

/// What becomes of something that is delivered.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxWhat {
    /// A Bind was taken: completions may be told.
    Bound,
    Sq,
    Completion,
    Event,
    Unbound,
}

/// Who counts what others tell.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxCountState {
    Idle,
    Issued,
    IssuedRest,
    Responded,
}

/// A connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxRow {
    pub bound: Bit,
    pub deaf: Bit,
    pub heard: Bit,
    pub qpn: Bits<16>,
    pub pd: Bits<16>,
    pub cqn: Bits<16>,
    pub rq_base: Bits<64>,
    pub rq_log2: Bits<4>,
    pub ird: Bits<8>,
    /// Next MSN of QN 0 and 1.
    pub msn_send: Bits<32>,
    pub msn_read: Bits<32>,
    /// Receive at hand, or next one; how many entries from it on were asked for; whether a Send is under way.
    pub consumer: Bits<16>,
    pub asked: Bits<3>,
    pub open: Bit,
    pub opcode: Bits<4>,
    pub stag: Bits<32>,
    /// Octets of the Send; its SGE, octets in that.
    pub mo: Bits<32>,
    pub sge: Bits<2>,
    pub sge_done: Bits<32>,
    /// A tagged message is not at its end, and is a Read Response.
    pub tagged: Bit,
    pub tagged_response: Bit,
    /// Read Requests taken; Reads answered, octets of the next.
    pub requests: Bits<8>,
    pub responses: Bits<8>,
    pub read_done: Bits<32>,
}

/// On its way out.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxDelivery {
    pub what: RxWhat,
    pub note: RxSqNote,
    pub index: Bits<16>,
    /// Completion: CQN, QPN, WQE, status, `invalidated`, `solicited`; event: kind, layer and type, code from bit 0 on.
    pub to: Bits<64>,
    pub stag: Bits<32>,
    pub len: Bits<32>,
    pub sink_stag: Bits<32>,
    pub sink_to: Bits<64>,
    /// Placements that were begun before it.
    pub after: Bits<8>,
}

/// `C`: log2 of the connections, `S`: log2 of the octets of a slot, `W`: log2 of the words of all slots, `I`: log2 of the outstanding Reads of an index; `CI1` = C + I + 1, `C2` = C + 2, `C5` = C + 5.
#[derive(LogicBlock)]
pub struct RdmaRx<const C: usize, const S: usize, const W: usize, const I: usize, const CI1: usize, const C2: usize, const C5: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub fpdu: ChanSink<FpduIn>,
    pub free: ChanSrc<Bits<8>>,
    pub slot_address: Signal<Out, Bits<W>>,
    pub slot_data: Signal<In, Bits<64>>,
    pub bind: ChanSink<Bind>,
    pub unbound: ChanSrc<Bits<16>>,
    pub posted: ChanSink<Posted>,
    pub issued: ChanSink<ReadIssued>,
    pub responded: ChanSink<Bits<16>>,
    pub ask: ChanSrc<RegionAsk>,
    pub answer: ChanSink<RegionAnswer>,
    pub quiet: Signal<Out, Bit>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_beat: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub completion: ChanSrc<CompletionOut>,
    pub to_sq: ChanSrc<RxToSq>,
    pub event: ChanSrc<RxAsync>,
    pub cnt_rdma_in_writes: Signal<Out, Bit>,
    pub cnt_rdma_in_sends: Signal<Out, Bit>,
    pub cnt_rdma_in_reads: Signal<Out, Bit>,
    pub cnt_rdma_in_responses: Signal<Out, Bit>,
    pub cnt_rdma_terminates_in: Signal<Out, Bit>,
    pub cnt_rdma_terminates_out: Signal<Out, Bit>,
    pub cnt_rdma_write_without_right: Signal<Out, Bit>,
    placer: Placer<S, W>,
    rows: RowStore<RxRow, C>,
    sges: BlockRam<Bits<64>, C5>,
    reads: BlockRam<Bits<64>, CI1>,
    deliveries: ChanFifo<RxDelivery, 4, 5>,
    /// Whose the placements under way are, and whose failed.
    owners: ChanFifo<Bits<C>, 4, 5>,
    failures: ChanFifo<Bits<C>, 5, 6>,
    // what others tell, each for the engine and for who counts
    producer: RAM<Bits<16>, C>,
    issues: RAM<Bits<8>, C>,
    issues_again: RAM<Bits<8>, C>,
    answers: RAM<Bits<8>, C>,
    answers_again: RAM<Bits<8>, C>,
    counting: DFF<RxCountState>,
    bind_seen: DFF<Bit>,
    turn: DFF<Bit>,
    // the engine
    state: DFF<RxState>,
    cleared: DFF<Bits<C>>,
    index: DFF<Bits<C>>,
    here: DFF<Bit>,
    note: DFF<FpduNote>,
    slot: DFF<Bits<8>>,
    has_slot: DFF<Bit>,
    len: DFF<Bits<16>>,
    step: DFF<Bits<3>>,
    /// Words of the slot, first octet in the highest bits.
    h0: DFF<Bits<64>>,
    h1: DFF<Bits<64>>,
    h2: DFF<Bits<64>>,
    sink_to: DFF<Bits<64>>,
    kind: DFF<RxKind>,
    payload: DFF<Bits<16>>,
    msn_ok: DFF<Bit>,
    mo_ok: DFF<Bit>,
    mo_zero: DFF<Bit>,
    same: DFF<Bit>,
    ird_full: DFF<Bit>,
    /// Receives that are posted and not asked for; the next of them in the ring; how many stand there up to its end, and how many of them are to be asked for.
    posts: DFF<Bits<16>>,
    entry_at: DFF<Bits<16>>,
    to_end: DFF<Bits<16>>,
    amount: DFF<Bits<3>>,
    request_short: DFF<Bit>,
    request_exact: DFF<Bit>,
    terminate_long: DFF<Bit>,
    end_at: DFF<Bits<34>>,
    /// A word of the oldest Read: TO in `Expect`, length and STag in `Compare`.
    oldest: DFF<Bits<64>>,
    none: DFF<Bit>,
    expected: DFF<Bits<64>>,
    stag_ok: DFF<Bit>,
    to_ok: DFF<Bit>,
    over: DFF<Bit>,
    whole: DFF<Bit>,
    has: DFF<Bits<34>>,
    too_long: DFF<Bit>,
    left: DFF<Bits<32>>,
    sge_len: DFF<Bits<32>>,
    used_up: DFF<Bit>,
    fits: DFF<Bit>,
    offset: DFF<Bits<16>>,
    rest: DFF<Bits<16>>,
    op: DFF<RegionOp>,
    stag: DFF<Bits<32>>,
    to: DFF<Bits<64>>,
    size: DFF<Bits<32>>,
    need: DFF<Bits<4>>,
    then: DFF<RxThen>,
    verdict: DFF<RegionAnswer>,
    /// An answer allowed what is not yet with the placer.
    held: DFF<Bit>,
    invalidated: DFF<Bit>,
    status: DFF<Bits<8>>,
    /// Layer, type, code; with the DDP header, with that of the Read Request.
    error: DFF<Bits<16>>,
    with_header: DFF<Bit>,
    with_request: DFF<Bit>,
    event_kind: DFF<RxAsyncKind>,
    carry: DFF<Bits<32>>,
    term_word: DFF<Bits<64>>,
    // placements begun and ended
    begun: DFF<Bits<8>>,
    ended: DFF<Bits<8>>,
    // the fetch of a receive queue entry
    fetching: DFF<Bit>,
    fetch_asking: DFF<Bit>,
    fetch_index: DFF<Bits<C>>,
    fetch_addr: DFF<Bits<64>>,
    fetch_len: DFF<Bits<16>>,
    /// First entry of the batch (modulo 4), how many, the one that comes, its word.
    fetch_first: DFF<Bits<2>>,
    fetch_count: DFF<Bits<3>>,
    fetch_at: DFF<Bits<2>>,
    fetch_beat: DFF<Bits<3>>,
    fetch_octets: DFF<Bits<34>>,
    rooms: RAM<Bits<34>, C2>,
    /// An entry of the index could not be read.
    spoiled: RAM<Bit, C>,
    // deliveries: `alive`: no write of the index has failed
    giving: DFF<Bit>,
    looked: DFF<Bit>,
    lost_then: DFF<Bit>,
    alive: RAM<Bit, C>,
    row: Signal<Local, RxRow>,
    new_row: Signal<Local, RxRow>,
    set: Signal<Local, Bit>,
    there: Signal<Local, Bit>,
    judged: Signal<Local, RegionStatus>,
    what: Signal<Local, RxWhat>,
    flags: Signal<Local, Bits<8>>,
    beat_data: Signal<Local, Bits<64>>,
    lane: Signal<Local, Bits<8>>,
    swapped: Signal<Local, Bits<64>>,
    arrived: Signal<Local, FpduIn>,
    arrived_index: Signal<Local, Bits<16>>,
    bound: Signal<Local, Bind>,
    bound_qp: Signal<Local, QpContext>,
    bound_index: Signal<Local, Bits<16>>,
    fresh: Signal<Local, Bit>,
    reading: Signal<Local, Bit>,
    word: Signal<Local, Bits<3>>,
    control: Signal<Local, Bits<8>>,
    rdmap: Signal<Local, Bits<8>>,
    opcode: Signal<Local, Bits<4>>,
    sends: Signal<Local, Bit>,
    invalidates: Signal<Local, Bit>,
    solicits: Signal<Local, Bit>,
    is_tagged: Signal<Local, Bit>,
    last: Signal<Local, Bit>,
    qn: Signal<Local, Bits<32>>,
    msn: Signal<Local, Bits<32>>,
    mo: Signal<Local, Bits<32>>,
    header_stag: Signal<Local, Bits<32>>,
    header_len: Signal<Local, Bits<16>>,
    msn_expected: Signal<Local, Bits<32>>,
    in_use: Signal<Local, Bits<8>>,
    base: Signal<Local, Bits<32>>,
    ahead: Signal<Local, Bits<34>>,
    oldest_len: Signal<Local, Bits<34>>,
    oldest_stag: Signal<Local, Bits<32>>,
    /// Word of the ring of Reads that is written, that is read.
    read_put: Signal<Local, Bits<CI1>>,
    read_look: Signal<Local, Bits<CI1>>,
    ring_count: Signal<Local, Bits<8>>,
    consumer: Signal<Local, Bits<16>>,
    entry: Signal<Local, Bits<16>>,
    ring: Signal<Local, Bits<16>>,
    beyond: Signal<Local, Bits<16>>,
    room: Signal<Local, Bits<3>>,
    wanted: Signal<Local, Bits<3>>,
    ending: Signal<Local, Bits<3>>,
    place_in_batch: Signal<Local, Bits<2>>,
    fetch_ours: Signal<Local, Bit>,
    fetch_ends: Signal<Local, Bit>,
    sge_at: Signal<Local, Bits<C5>>,
    fetch: Signal<Local, Bit>,
    fetch_mine: Signal<Local, Bit>,
    fetched: Signal<Local, Bit>,
    sge_high: Signal<Local, Bit>,
    raise: Signal<Local, Bit>,
    bare: Signal<Local, Bit>,
    full: Signal<Local, Bit>,
    fault: Signal<Local, Bits<16>>,
    bits: Signal<Local, Bits<8>>,
    give: Signal<Local, Bit>,
    delivery: Signal<Local, RxDelivery>,
    given: Signal<Local, Bit>,
    last_word: Signal<Local, Bits<3>>,
    term_octets: Signal<Local, Bits<32>>,
    free_only: Signal<Local, Bit>,
    put: Signal<Local, Bit>,
    putting: Signal<Local, Bit>,
    begins: Signal<Local, Bit>,
    count_index: Signal<Local, Bits<16>>,
    counted: Signal<Local, Bits<8>>,
    issued_index: Signal<Local, Bits<16>>,
    responded_index: Signal<Local, Bits<16>>,
    posted_index: Signal<Local, Bits<16>>,
    count_issue: Signal<Local, Bit>,
    count_answer: Signal<Local, Bit>,
    head: Signal<Local, RxDelivery>,
    head_index: Signal<Local, Bits<16>>,
    head_to: Signal<Local, Bits<64>>,
    head_len: Signal<Local, Bits<32>>,
    distance: Signal<Local, Bits<8>>,
    reached: Signal<Local, Bit>,
    lost: Signal<Local, Bit>,
    took: Signal<Local, Bit>,
    fails: Signal<Local, Bit>,
    slot_shift: Constant<Bits<4>>,
    ring_shift: Constant<Bits<4>>,
    ones: Constant<Bits<16>>,
    four: Constant<Bits<3>>,
    solicited: Constant<Bits<2>>,
    last_index: Constant<Bits<C>>,
}

impl<const C: usize, const S: usize, const W: usize, const I: usize, const CI1: usize, const C2: usize, const C5: usize> Default
    for RdmaRx<C, S, W, I, CI1, C2, C5>
{
    fn default() -> Self {
        assert!(CI1 == C + I + 1 && C2 == C + 2 && C5 == C + 5 && I <= 7);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            fpdu: Default::default(),
            free: Default::default(),
            slot_address: Default::default(),
            slot_data: Default::default(),
            bind: Default::default(),
            unbound: Default::default(),
            posted: Default::default(),
            issued: Default::default(),
            responded: Default::default(),
            ask: Default::default(),
            answer: Default::default(),
            quiet: Default::default(),
            rd_req: Default::default(),
            rd_beat: Default::default(),
            wr_req: Default::default(),
            wr_beat: Default::default(),
            wr_done: Default::default(),
            completion: Default::default(),
            to_sq: Default::default(),
            event: Default::default(),
            cnt_rdma_in_writes: Default::default(),
            cnt_rdma_in_sends: Default::default(),
            cnt_rdma_in_reads: Default::default(),
            cnt_rdma_in_responses: Default::default(),
            cnt_rdma_terminates_in: Default::default(),
            cnt_rdma_terminates_out: Default::default(),
            cnt_rdma_write_without_right: Default::default(),
            placer: Default::default(),
            rows: Default::default(),
            sges: Default::default(),
            reads: Default::default(),
            deliveries: Default::default(),
            owners: Default::default(),
            failures: Default::default(),
            producer: Default::default(),
            issues: Default::default(),
            issues_again: Default::default(),
            answers: Default::default(),
            answers_again: Default::default(),
            counting: Default::default(),
            bind_seen: Default::default(),
            turn: Default::default(),
            state: Default::default(),
            cleared: Default::default(),
            index: Default::default(),
            here: Default::default(),
            note: Default::default(),
            slot: Default::default(),
            has_slot: Default::default(),
            len: Default::default(),
            step: Default::default(),
            h0: Default::default(),
            h1: Default::default(),
            h2: Default::default(),
            sink_to: Default::default(),
            kind: Default::default(),
            payload: Default::default(),
            msn_ok: Default::default(),
            mo_ok: Default::default(),
            mo_zero: Default::default(),
            same: Default::default(),
            ird_full: Default::default(),
            posts: Default::default(),
            entry_at: Default::default(),
            to_end: Default::default(),
            amount: Default::default(),
            request_short: Default::default(),
            request_exact: Default::default(),
            terminate_long: Default::default(),
            end_at: Default::default(),
            oldest: Default::default(),
            none: Default::default(),
            expected: Default::default(),
            stag_ok: Default::default(),
            to_ok: Default::default(),
            over: Default::default(),
            whole: Default::default(),
            has: Default::default(),
            too_long: Default::default(),
            left: Default::default(),
            sge_len: Default::default(),
            used_up: Default::default(),
            fits: Default::default(),
            offset: Default::default(),
            rest: Default::default(),
            op: Default::default(),
            stag: Default::default(),
            to: Default::default(),
            size: Default::default(),
            need: Default::default(),
            then: Default::default(),
            verdict: Default::default(),
            held: Default::default(),
            invalidated: Default::default(),
            status: Default::default(),
            error: Default::default(),
            with_header: Default::default(),
            with_request: Default::default(),
            event_kind: Default::default(),
            carry: Default::default(),
            term_word: Default::default(),
            begun: Default::default(),
            ended: Default::default(),
            fetching: Default::default(),
            fetch_asking: Default::default(),
            fetch_index: Default::default(),
            fetch_addr: Default::default(),
            fetch_len: Default::default(),
            fetch_first: Default::default(),
            fetch_count: Default::default(),
            fetch_at: Default::default(),
            fetch_beat: Default::default(),
            fetch_octets: Default::default(),
            rooms: Default::default(),
            spoiled: Default::default(),
            giving: Default::default(),
            looked: Default::default(),
            lost_then: Default::default(),
            alive: Default::default(),
            row: Default::default(),
            new_row: Default::default(),
            set: Default::default(),
            there: Default::default(),
            judged: Default::default(),
            what: Default::default(),
            flags: Default::default(),
            beat_data: Default::default(),
            lane: Default::default(),
            swapped: Default::default(),
            arrived: Default::default(),
            arrived_index: Default::default(),
            bound: Default::default(),
            bound_qp: Default::default(),
            bound_index: Default::default(),
            fresh: Default::default(),
            reading: Default::default(),
            word: Default::default(),
            control: Default::default(),
            rdmap: Default::default(),
            opcode: Default::default(),
            sends: Default::default(),
            invalidates: Default::default(),
            solicits: Default::default(),
            is_tagged: Default::default(),
            last: Default::default(),
            qn: Default::default(),
            msn: Default::default(),
            mo: Default::default(),
            header_stag: Default::default(),
            header_len: Default::default(),
            msn_expected: Default::default(),
            in_use: Default::default(),
            base: Default::default(),
            ahead: Default::default(),
            oldest_len: Default::default(),
            oldest_stag: Default::default(),
            read_put: Default::default(),
            read_look: Default::default(),
            ring_count: Default::default(),
            consumer: Default::default(),
            entry: Default::default(),
            ring: Default::default(),
            beyond: Default::default(),
            room: Default::default(),
            wanted: Default::default(),
            ending: Default::default(),
            place_in_batch: Default::default(),
            fetch_ours: Default::default(),
            fetch_ends: Default::default(),
            sge_at: Default::default(),
            fetch: Default::default(),
            fetch_mine: Default::default(),
            fetched: Default::default(),
            sge_high: Default::default(),
            raise: Default::default(),
            bare: Default::default(),
            full: Default::default(),
            fault: Default::default(),
            bits: Default::default(),
            give: Default::default(),
            delivery: Default::default(),
            given: Default::default(),
            last_word: Default::default(),
            term_octets: Default::default(),
            free_only: Default::default(),
            put: Default::default(),
            putting: Default::default(),
            begins: Default::default(),
            count_index: Default::default(),
            counted: Default::default(),
            issued_index: Default::default(),
            responded_index: Default::default(),
            posted_index: Default::default(),
            count_issue: Default::default(),
            count_answer: Default::default(),
            head: Default::default(),
            head_index: Default::default(),
            head_to: Default::default(),
            head_len: Default::default(),
            distance: Default::default(),
            reached: Default::default(),
            lost: Default::default(),
            took: Default::default(),
            fails: Default::default(),
            slot_shift: Constant::new((S as u64 - 3).to_bits()),
            ring_shift: Constant::new((I as u64 + 1).to_bits()),
            ones: Constant::new(0xffff_u64.to_bits()),
            four: Constant::new(4u64.to_bits()),
            solicited: Constant::new(2u64.to_bits()),
            last_index: Constant::new(((1u64 << C) - 1).to_bits()),
        }
    }
}

impl<const C: usize, const S: usize, const W: usize, const I: usize, const CI1: usize, const C2: usize, const C5: usize> Logic
    for RdmaRx<C, S, W, I, CI1, C2, C5>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, counting, bind_seen, turn, state, cleared, index, note, slot);
        dff_setup!(self, clock, has_slot, len, step, h0, h1, h2, sink_to, kind, payload, msn_ok);
        dff_setup!(self, clock, mo_ok, mo_zero, same, ird_full, posts, entry_at, to_end, amount);
        dff_setup!(self, clock, request_short, request_exact, terminate_long, end_at);
        dff_setup!(self, clock, oldest, none, expected, stag_ok, to_ok, over, whole, has, too_long);
        dff_setup!(self, clock, left, sge_len, used_up, fits, offset, rest, op, stag, to, size);
        dff_setup!(self, clock, need, then, verdict, held, invalidated, status, error, with_header);
        dff_setup!(self, clock, with_request, event_kind, carry, term_word, begun, ended, fetching);
        dff_setup!(self, clock, fetch_asking, fetch_index, fetch_addr, fetch_len, fetch_first);
        dff_setup!(self, clock, fetch_count, fetch_at, fetch_beat, fetch_octets, giving, looked);
        dff_setup!(self, clock, lost_then, here);
        clock!(self, clock, placer, rows, deliveries, owners, failures);
        self.placer.reset.next = self.reset.val();
        self.rows.reset.next = self.reset.val();
        self.deliveries.reset.next = self.reset.val();
        self.owners.reset.next = self.reset.val();
        self.failures.reset.next = self.reset.val();
        self.sges.read_clock.next = self.clock.val();
        self.sges.write_clock.next = self.clock.val();
        self.reads.read_clock.next = self.clock.val();
        self.reads.write_clock.next = self.clock.val();
        self.producer.read_clock.next = self.clock.val();
        self.producer.write_clock.next = self.clock.val();
        self.issues.read_clock.next = self.clock.val();
        self.issues.write_clock.next = self.clock.val();
        self.issues_again.read_clock.next = self.clock.val();
        self.issues_again.write_clock.next = self.clock.val();
        self.answers.read_clock.next = self.clock.val();
        self.answers.write_clock.next = self.clock.val();
        self.answers_again.read_clock.next = self.clock.val();
        self.answers_again.write_clock.next = self.clock.val();
        self.rooms.read_clock.next = self.clock.val();
        self.rooms.write_clock.next = self.clock.val();
        self.spoiled.read_clock.next = self.clock.val();
        self.spoiled.write_clock.next = self.clock.val();
        self.alive.read_clock.next = self.clock.val();
        self.alive.write_clock.next = self.clock.val();
        ChanSrc::<Bits<8>>::link(&mut self.free, &mut self.placer.free);
        ChanSrc::<DmaRequest>::link(&mut self.wr_req, &mut self.placer.wr_req);
        ChanSrc::<DmaBeat>::link(&mut self.wr_beat, &mut self.placer.wr_beat);
        self.placer.wr_done.valid.next = self.wr_done.valid.val();
        self.placer.wr_done.error.next = self.wr_done.error.val();
        self.placer.slot_data.next = self.slot_data.val();

        // ---- what others tell
        self.bound.next = self.bind.data.val();
        self.bound_qp.next = self.bound.val().qp;
        self.bound_index.next = self.bound.val().index;
        self.issued_index.next = self.issued.data.val().index;
        self.responded_index.next = self.responded.data.val();
        self.posted_index.next = self.posted.data.val().index;
        self.fresh.next = self.bind.valid.val() & (self.bound.val().op == BindOp::Bind) & !self.bind_seen.q.val();
        self.posted.ready.next = false;
        self.issued.ready.next = false;
        self.responded.ready.next = false;
        self.count_issue.next = false;
        self.count_answer.next = false;
        self.count_index.next = self.bound_index.val();
        self.counted.next = 0.into();
        self.producer.write_enable.next = false;
        self.producer.write_address.next = self.posted_index.val().get_bits::<C>(0);
        self.producer.write_data.next = self.posted.data.val().posted;
        self.reads.write_enable.next = false;
        self.reads.write_data.next = self.issued.data.val().to;
        match self.counting.q.val() {
            RxCountState::Idle => {
                self.turn.d.next = false;
                if self.fresh.val() {
                    self.bind_seen.d.next = true;
                    self.count_issue.next = true;
                    self.count_answer.next = true;
                    self.producer.write_enable.next = true;
                    self.producer.write_address.next = self.bound_index.val().get_bits::<C>(0);
                    self.producer.write_data.next = 0.into();
                } else if self.posted.valid.val() & !self.turn.q.val() {
                    self.posted.ready.next = true;
                    self.producer.write_enable.next = true;
                    self.turn.d.next = true;
                } else if self.issued.valid.val() {
                    self.counting.d.next = RxCountState::Issued;
                } else if self.responded.valid.val() {
                    self.counting.d.next = RxCountState::Responded;
                }
            }
            RxCountState::Issued => {
                self.reads.write_enable.next = true;
                self.counting.d.next = RxCountState::IssuedRest;
            }
            RxCountState::IssuedRest => {
                self.issued.ready.next = true;
                self.reads.write_enable.next = true;
                self.reads.write_data.next =
                    bit_cast::<64, 32>(self.issued.data.val().len) | (bit_cast::<64, 32>(self.issued.data.val().stag) << 32);
                self.count_issue.next = true;
                self.count_index.next = self.issued_index.val();
                self.counted.next = self.issues_again.read_data.val() + 1;
                self.counting.d.next = RxCountState::Idle;
            }
            RxCountState::Responded => {
                self.responded.ready.next = true;
                self.count_answer.next = true;
                self.count_index.next = self.responded_index.val();
                self.counted.next = self.answers_again.read_data.val() + 1;
                self.counting.d.next = RxCountState::Idle;
            }
            _ => {
                self.counting.d.next = RxCountState::Idle;
            }
        }
        self.ring_count.next = self.issues_again.read_data.val();
        self.read_put.next = (bit_cast::<CI1, C>(self.issued_index.val().get_bits::<C>(0)) << self.ring_shift.val())
            | (bit_cast::<CI1, I>(self.ring_count.val().get_bits::<I>(0)) << 1);
        self.reads.write_address.next = self.read_put.val();
        if self.counting.q.val() == RxCountState::IssuedRest {
            self.reads.write_address.next = self.read_put.val() | 1;
        }
        self.issues_again.read_address.next = self.issued_index.val().get_bits::<C>(0);
        self.answers_again.read_address.next = self.responded_index.val().get_bits::<C>(0);
        self.issues.write_enable.next = self.count_issue.val();
        self.issues.write_address.next = self.count_index.val().get_bits::<C>(0);
        self.issues.write_data.next = self.counted.val();
        self.issues_again.write_enable.next = self.count_issue.val();
        self.issues_again.write_address.next = self.count_index.val().get_bits::<C>(0);
        self.issues_again.write_data.next = self.counted.val();
        self.answers.write_enable.next = self.count_answer.val();
        self.answers.write_address.next = self.count_index.val().get_bits::<C>(0);
        self.answers.write_data.next = self.counted.val();
        self.answers_again.write_enable.next = self.count_answer.val();
        self.answers_again.write_address.next = self.count_index.val().get_bits::<C>(0);
        self.answers_again.write_data.next = self.counted.val();
        self.producer.read_address.next = self.index.q.val();
        self.issues.read_address.next = self.index.q.val();
        self.answers.read_address.next = self.index.q.val();
        self.spoiled.read_address.next = self.index.q.val();

        // ---- the header
        self.row.next = self.rows.row.val();
        self.new_row.next = self.rows.row.val();
        self.there.next = self.rows.there.val();
        self.here.d.next = false;
        self.judged.next = self.verdict.q.val().status;
        self.swapped.next = 0.into();
        for i in 0..8 {
            self.lane.next = self.slot_data.val().get_bits::<8>(i * 8);
            self.swapped.next = (self.swapped.val() << 8) | bit_cast::<64, 8>(self.lane.val());
        }
        self.control.next = self.h0.q.val().get_bits::<8>(40);
        self.rdmap.next = self.h0.q.val().get_bits::<8>(32);
        self.header_stag.next = self.h0.q.val().get_bits::<32>(0);
        self.is_tagged.next = self.control.val().get_bit(7);
        self.last.next = self.control.val().get_bit(6);
        self.opcode.next = self.rdmap.val().get_bits::<4>(0);
        self.qn.next = self.h1.q.val().get_bits::<32>(32);
        self.msn.next = self.h1.q.val().get_bits::<32>(0);
        self.mo.next = self.h2.q.val().get_bits::<32>(32);
        self.sends.next = (self.opcode.val() >= 3) & (self.opcode.val() <= 6);
        self.invalidates.next = (self.opcode.val() == 4) | (self.opcode.val() == 6);
        self.solicits.next = (self.opcode.val() == 5) | (self.opcode.val() == 6);
        self.header_len.next = 18.into();
        if self.is_tagged.val() {
            self.header_len.next = 14.into();
        }
        self.kind.d.next = RxKind::BadOpcode;
        if self.is_tagged.val() {
            if self.opcode.val() == 0 {
                self.kind.d.next = RxKind::Write;
            }
            if self.opcode.val() == 2 {
                self.kind.d.next = RxKind::Response;
            }
        } else {
            if self.sends.val() & (self.qn.val() == 0) {
                self.kind.d.next = RxKind::Send;
            }
            if (self.opcode.val() == 1) & (self.qn.val() == 1) {
                self.kind.d.next = RxKind::Request;
            }
            if (self.opcode.val() == 7) & (self.qn.val() == 2) {
                self.kind.d.next = RxKind::Terminate;
            }
            if self.qn.val() > 2 {
                self.kind.d.next = RxKind::BadQn;
            }
        }
        if self.rdmap.val().get_bits::<2>(6) != 1 {
            self.kind.d.next = RxKind::BadRv;
        }
        if self.control.val().get_bits::<2>(0) != 1 {
            self.kind.d.next = RxKind::BadDv;
        }
        if self.len.q.val() < self.header_len.val() {
            self.kind.d.next = RxKind::Short;
        }
        self.payload.d.next = self.len.q.val() - self.header_len.val();

        // against the row, a clock after both are there
        self.msn_expected.next = self.row.val().msn_send;
        if self.kind.q.val() == RxKind::Request {
            self.msn_expected.next = self.row.val().msn_read;
        }
        if self.kind.q.val() == RxKind::Terminate {
            self.msn_expected.next = 1.into();
        }
        self.msn_ok.d.next = self.msn.val() == self.msn_expected.val();
        self.mo_ok.d.next = self.mo.val() == self.row.val().mo;
        self.mo_zero.d.next = !self.mo.val().any();
        self.same.d.next =
            (self.opcode.val() == self.row.val().opcode) & ((self.header_stag.val() == self.row.val().stag) | !self.invalidates.val());
        self.in_use.next = self.row.val().requests - self.answers.read_data.val();
        self.ird_full.d.next = self.in_use.val() >= self.row.val().ird;
        self.consumer.next = self.row.val().consumer;
        self.entry.next = self.consumer.val() + bit_cast::<16, 3>(self.row.val().asked);
        self.beyond.next = self.ones.val() << self.row.val().rq_log2;
        self.ring.next = self.beyond.val() ^ self.ones.val();
        self.posts.d.next = self.producer.read_data.val() - self.entry.val();
        self.entry_at.d.next = self.entry.val() & self.ring.val();
        self.to_end.d.next = self.ring.val() - (self.entry.val() & self.ring.val());
        self.room.next = self.four.val() - self.row.val().asked;
        self.wanted.next = self.room.val();
        if self.posts.q.val() < bit_cast::<16, 3>(self.room.val()) {
            self.wanted.next = self.posts.q.val().get_bits::<3>(0);
        }
        self.ending.next = self.to_end.q.val().get_bits::<3>(0) + 1;
        self.amount.d.next = self.wanted.val();
        if (self.to_end.q.val() < 3) & (self.ending.val() < self.wanted.val()) {
            self.amount.d.next = self.ending.val();
        }
        self.rooms.read_address.next =
            (bit_cast::<C2, C>(self.index.q.val()) << 2) | bit_cast::<C2, 2>(self.consumer.val().get_bits::<2>(0));
        self.request_short.d.next = self.len.q.val() < 46;
        self.request_exact.d.next = self.len.q.val() == 46;
        self.terminate_long.d.next = self.len.q.val() >= 22;
        self.base.next = self.row.val().mo;
        if self.is_tagged.val() {
            self.base.next = self.row.val().read_done;
        }
        self.ahead.next = bit_cast::<34, 32>(self.base.val());
        self.end_at.d.next = self.ahead.val() + bit_cast::<34, 16>(self.payload.q.val());
        self.ring_count.next = self.row.val().responses;
        self.read_look.next = (bit_cast::<CI1, C>(self.index.q.val()) << self.ring_shift.val())
            | (bit_cast::<CI1, I>(self.ring_count.val().get_bits::<I>(0)) << 1);
        self.reads.read_address.next = self.read_look.val();
        if self.state.q.val() == RxState::Oldest {
            self.reads.read_address.next = self.read_look.val() | 1;
        }
        self.oldest.d.next = self.reads.read_data.val();
        self.oldest_len.next = bit_cast::<34, 32>(self.oldest.q.val().get_bits::<32>(0));
        self.oldest_stag.next = self.oldest.q.val().get_bits::<32>(32);

        // ---- defaults
        self.flags.next = 0.into();
        if self.invalidated.q.val() {
            self.flags.next = 1.into();
        }
        if self.solicits.val() {
            self.flags.next = self.flags.val() | 2;
        }
        self.arrived.next = self.fpdu.data.val();
        self.arrived_index.next = self.arrived.val().index;
        self.fpdu.ready.next = false;
        self.bind.ready.next = false;
        self.failures.out.ready.next = false;
        self.rows.clear.next = false;
        self.rows.open.next = false;
        self.rows.erase.next = false;
        self.rows.index.next = self.index.q.val();
        self.set.next = false;
        self.reading.next = false;
        self.word.next = self.step.q.val();
        self.fetch.next = false;
        self.fetch_mine.next = self.fetching.q.val() & (self.fetch_index.q.val() == self.index.q.val());
        self.fetched.next = self.rd_beat.valid.val() & self.fetching.q.val();
        self.fetch_ends.next = self.fetched.val() & self.rd_beat.data.val().last;
        self.place_in_batch.next = self.consumer.val().get_bits::<2>(0) - self.fetch_first.q.val();
        self.fetch_ours.next = self.fetch_mine.val() & (bit_cast::<3, 2>(self.place_in_batch.val()) < self.fetch_count.q.val());
        self.sge_high.next = false;
        self.raise.next = false;
        self.bare.next = false;
        self.full.next = false;
        self.fault.next = 0.into();
        self.ask.valid.next = false;
        self.ask.data.next.op = self.op.q.val();
        self.ask.data.next.stag = self.stag.q.val();
        self.ask.data.next.to = self.to.q.val();
        self.ask.data.next.len = self.size.q.val();
        self.ask.data.next.pd = self.row.val().pd;
        self.ask.data.next.qpn = self.row.val().qpn;
        self.ask.data.next.need = self.need.q.val();
        self.answer.ready.next = false;
        self.put.next = false;
        self.free_only.next = false;
        self.give.next = false;
        self.delivery.next.what = RxWhat::Sq;
        self.delivery.next.note = RxSqNote::Heard;
        self.delivery.next.index = bit_cast::<16, C>(self.index.q.val());
        self.delivery.next.to = self.to.q.val();
        self.delivery.next.stag = self.stag.q.val();
        self.delivery.next.len = self.size.q.val();
        self.delivery.next.sink_stag = self.h2.q.val().get_bits::<32>(0);
        self.delivery.next.sink_to = self.sink_to.q.val();
        self.delivery.next.after = self.begun.q.val();
        self.given.next = self.deliveries.inp.ready.val();
        self.putting.next = self.placer.place.ready.val() & self.owners.inp.ready.val();
        self.last_word.next = 0.into();
        self.term_octets.next = 4.into();
        if self.with_request.q.val() {
            self.last_word.next = 6.into();
            self.term_octets.next = 52.into();
        } else if self.with_header.q.val() {
            self.last_word.next = 2.into();
            self.term_octets.next = 24.into();
            if self.is_tagged.val() {
                self.term_octets.next = 20.into();
            }
        }
        self.ready.next = true;
        self.cnt_rdma_in_writes.next = false;
        self.cnt_rdma_in_sends.next = false;
        self.cnt_rdma_in_reads.next = false;
        self.cnt_rdma_in_responses.next = false;
        self.cnt_rdma_terminates_in.next = false;
        self.cnt_rdma_terminates_out.next = false;
        self.cnt_rdma_write_without_right.next = false;

        match self.state.q.val() {
            RxState::Clear => {
                self.ready.next = false;
                self.rows.clear.next = true;
                if self.rows.row_cleared.val() {
                    self.cleared.d.next = self.cleared.q.val() + 1;
                    if self.cleared.q.val() == self.last_index.val() {
                        self.state.d.next = RxState::Idle;
                    }
                }
            }
            RxState::Idle => {
                self.step.d.next = 0.into();
                self.invalidated.d.next = false;
                self.note.d.next = self.arrived.val().note;
                self.slot.d.next = self.arrived.val().slot;
                self.len.d.next = self.arrived.val().len;
                self.has_slot.d.next = false;
                if self.failures.out.valid.val() {
                    self.failures.out.ready.next = true;
                    self.index.d.next = self.failures.out.data.val();
                    self.state.d.next = RxState::Broken;
                } else if self.bind.valid.val() {
                    self.index.d.next = self.bound_index.val().get_bits::<C>(0);
                    if !self.fresh.val() {
                        self.state.d.next = RxState::Bind;
                    }
                } else if self.fpdu.valid.val() {
                    self.fpdu.ready.next = true;
                    self.index.d.next = self.arrived_index.val().get_bits::<C>(0);
                    self.has_slot.d.next = self.arrived.val().note == FpduNote::Whole;
                    self.rows.open.next = true;
                    self.rows.index.next = self.arrived_index.val().get_bits::<C>(0);
                    self.state.d.next = RxState::Head;
                }
            }
            RxState::Broken => {
                self.rows.open.next = true;
                self.here.d.next = self.there.val();
                if self.here.q.val() {
                    self.state.d.next = RxState::Idle;
                    if self.row.val().bound & !self.row.val().deaf {
                        self.raise.next = true;
                        self.bare.next = true;
                        self.fault.next = 0x0207.into();
                    }
                }
            }
            RxState::Bind => {
                self.rows.open.next = true;
                if self.there.val() {
                    self.state.d.next = RxState::Bound;
                }
            }
            RxState::Bound => {
                self.delivery.next.what = RxWhat::Unbound;
                if self.bound.val().op == BindOp::Bind {
                    self.delivery.next.what = RxWhat::Bound;
                    self.new_row.next.bound = true;
                    self.new_row.next.deaf = self.bound.val().terminate.any();
                    self.new_row.next.heard = false;
                    self.new_row.next.qpn = self.bound_qp.val().qpn;
                    self.new_row.next.pd = self.bound_qp.val().pd;
                    self.new_row.next.cqn = self.bound_qp.val().recv_cqn;
                    self.new_row.next.rq_base = self.bound_qp.val().rq_base;
                    self.new_row.next.rq_log2 = self.bound_qp.val().rq_log2;
                    self.new_row.next.ird = self.bound.val().ird;
                    self.new_row.next.msn_send = 1.into();
                    self.new_row.next.msn_read = 1.into();
                    self.new_row.next.consumer = 0.into();
                    self.new_row.next.asked = 0.into();
                    self.new_row.next.open = false;
                    self.new_row.next.opcode = 0.into();
                    self.new_row.next.stag = 0.into();
                    self.new_row.next.mo = 0.into();
                    self.new_row.next.sge = 0.into();
                    self.new_row.next.sge_done = 0.into();
                    self.new_row.next.tagged = false;
                    self.new_row.next.tagged_response = false;
                    self.new_row.next.requests = 0.into();
                    self.new_row.next.responses = 0.into();
                    self.new_row.next.read_done = 0.into();
                }
                // entries that are being fetched for it come first; the end of any takes the port of `spoiled`
                self.give.next = !self.fetch_mine.val() & !self.fetch_ends.val();
                if self.give.val() & self.given.val() {
                    self.set.next = self.bound.val().op == BindOp::Bind;
                    self.rows.erase.next = self.bound.val().op == BindOp::Unbind;
                    self.bind.ready.next = true;
                    self.bind_seen.d.next = false;
                    self.state.d.next = RxState::Idle;
                }
            }
            RxState::Head => {
                self.reading.next = self.step.q.val() != 3;
                self.step.d.next = self.step.q.val() + 1;
                if self.step.q.val() == 1 {
                    self.h0.d.next = self.swapped.val();
                }
                if self.step.q.val() == 2 {
                    self.h1.d.next = self.swapped.val();
                }
                if self.step.q.val() == 3 {
                    self.h2.d.next = self.swapped.val();
                    self.step.d.next = 0.into();
                    self.state.d.next = RxState::Judge;
                }
            }
            RxState::Judge => {
                // the row is there since this clock
                self.op.d.next = RegionOp::Check;
                self.stag.d.next = self.header_stag.val();
                self.to.d.next = self.h1.q.val();
                self.size.d.next = bit_cast::<32, 16>(self.payload.q.val());
                // work::access: LOCAL_WRITE, for a Write REMOTE_WRITE
                self.need.d.next = 1.into();
                self.then.d.next = RxThen::Place;
                if !self.row.val().bound | self.row.val().deaf {
                    self.state.d.next = RxState::FreeSlot;
                } else if self.note.q.val() == FpduNote::BadCrc {
                    self.raise.next = true;
                    self.bare.next = true;
                    self.fault.next = 0x2002.into();
                } else if self.note.q.val() == FpduNote::BadLength {
                    self.raise.next = true;
                    self.bare.next = true;
                    self.fault.next = 0x2003.into();
                } else if !self.row.val().heard {
                    self.give.next = true;
                    self.new_row.next.heard = true;
                    self.set.next = self.given.val();
                } else {
                    match self.kind.q.val() {
                        RxKind::Short => {
                            self.raise.next = true;
                            self.bare.next = true;
                            self.fault.next = 0x2003.into();
                        }
                        RxKind::BadDv => {
                            self.raise.next = true;
                            self.bare.next = true;
                            self.fault.next = 0x1206.into();
                            if self.is_tagged.val() {
                                self.fault.next = 0x1104.into();
                            }
                        }
                        RxKind::BadRv => {
                            self.raise.next = true;
                            self.bare.next = true;
                            self.fault.next = 0x0205.into();
                        }
                        RxKind::BadQn => {
                            self.raise.next = true;
                            self.fault.next = 0x1201.into();
                        }
                        RxKind::Write => {
                            self.need.d.next = 2.into();
                            self.new_row.next.tagged = !self.last.val();
                            self.new_row.next.tagged_response = false;
                            if self.row.val().tagged & self.row.val().tagged_response {
                                self.raise.next = true;
                                self.fault.next = 0x0206.into();
                            } else {
                                self.set.next = true;
                                self.cnt_rdma_in_writes.next = self.last.val();
                                self.state.d.next = RxState::FreeSlot;
                                if self.payload.q.val().any() {
                                    self.state.d.next = RxState::Ask;
                                }
                            }
                        }
                        RxKind::Response => {
                            self.new_row.next.tagged = !self.last.val();
                            self.new_row.next.tagged_response = true;
                            if self.row.val().tagged & !self.row.val().tagged_response {
                                self.raise.next = true;
                                self.fault.next = 0x0206.into();
                            } else {
                                self.set.next = true;
                                self.state.d.next = RxState::Oldest;
                            }
                        }
                        RxKind::Request => {
                            self.state.d.next = RxState::Match;
                        }
                        RxKind::Send => {
                            self.state.d.next = RxState::Match;
                        }
                        RxKind::Terminate => {
                            self.state.d.next = RxState::Match;
                        }
                        _ => {
                            self.raise.next = true;
                            self.fault.next = 0x0206.into();
                        }
                    }
                }
            }
            RxState::Match => {
                self.rest.d.next = self.payload.q.val();
                self.offset.d.next = 20.into();
                if self.kind.q.val() == RxKind::Terminate {
                    self.cnt_rdma_terminates_in.next = true;
                    self.error.d.next = self.h2.q.val().get_bits::<16>(16);
                    self.event_kind.d.next = RxAsyncKind::Malformed;
                    if self.msn_ok.q.val() & self.mo_zero.q.val() & self.last.val() & self.terminate_long.q.val() {
                        self.event_kind.d.next = RxAsyncKind::Terminated;
                    }
                    self.state.d.next = RxState::Stop;
                } else if self.kind.q.val() == RxKind::Request {
                    self.need.d.next = 4.into();
                    self.then.d.next = RxThen::Request;
                    self.raise.next = true;
                    if self.request_short.q.val() {
                        self.bare.next = true;
                        self.fault.next = 0x2003.into();
                    } else if !self.msn_ok.q.val() {
                        self.fault.next = 0x1203.into();
                    } else if self.ird_full.q.val() {
                        self.fault.next = 0x1202.into();
                    } else if !self.mo_zero.q.val() {
                        self.fault.next = 0x1204.into();
                    } else if !self.request_exact.q.val() | !self.last.val() {
                        self.fault.next = 0x1205.into();
                    } else {
                        self.raise.next = false;
                        self.state.d.next = RxState::More;
                    }
                } else {
                    self.raise.next = true;
                    if !self.msn_ok.q.val() {
                        self.fault.next = 0x1203.into();
                    } else if !self.row.val().asked.any() & !self.posts.q.val().any() {
                        self.fault.next = 0x1202.into();
                    } else if !self.mo_ok.q.val() {
                        self.fault.next = 0x1204.into();
                    } else if self.row.val().open & !self.same.q.val() {
                        self.fault.next = 0x0206.into();
                    } else {
                        self.raise.next = false;
                        self.state.d.next = RxState::FetchWait;
                        if !self.row.val().asked.any() {
                            self.state.d.next = RxState::Fetch;
                        }
                    }
                }
            }

            // ---- Read Response
            RxState::Oldest => {
                self.none.d.next = self.issues.read_data.val() == self.row.val().responses;
                self.state.d.next = RxState::Expect;
            }
            RxState::Expect => {
                self.expected.d.next = self.oldest.q.val() + bit_cast::<64, 32>(self.row.val().read_done);
                self.state.d.next = RxState::Compare;
            }
            RxState::Compare => {
                self.stag_ok.d.next = self.oldest_stag.val() == self.header_stag.val();
                self.over.d.next = self.end_at.q.val() > self.oldest_len.val();
                self.whole.d.next = self.end_at.q.val() == self.oldest_len.val();
                self.to_ok.d.next = self.expected.q.val() == self.h1.q.val();
                self.state.d.next = RxState::ResponseJudge;
            }
            RxState::ResponseJudge => {
                self.new_row.next.read_done = self.end_at.q.val().get_bits::<32>(0);
                if self.last.val() {
                    self.new_row.next.read_done = 0.into();
                    self.new_row.next.responses = self.row.val().responses + 1;
                }
                self.raise.next = true;
                if self.none.q.val() {
                    self.fault.next = 0x0206.into();
                } else if self.payload.q.val().any() & !self.stag_ok.q.val() {
                    self.fault.next = 0x1100.into();
                } else if (self.payload.q.val().any() & !self.to_ok.q.val()) | self.over.q.val() | (self.whole.q.val() != self.last.val()) {
                    self.fault.next = 0x1101.into();
                } else {
                    self.raise.next = false;
                    self.set.next = true;
                    self.state.d.next = RxState::Responded;
                    if self.payload.q.val().any() {
                        self.state.d.next = RxState::Ask;
                    }
                }
            }
            RxState::Responded => {
                self.give.next = self.last.val();
                self.delivery.next.note = RxSqNote::ReadDone;
                if !self.last.val() | self.given.val() {
                    self.cnt_rdma_in_responses.next = self.last.val();
                    self.state.d.next = RxState::Idle;
                    if !self.payload.q.val().any() {
                        self.state.d.next = RxState::FreeSlot;
                    }
                }
            }

            // ---- Read Request
            RxState::More => {
                self.reading.next = self.step.q.val() != 3;
                self.word.next = self.step.q.val() + 3;
                self.step.d.next = self.step.q.val() + 1;
                if self.step.q.val() == 1 {
                    self.sink_to.d.next = self.swapped.val();
                }
                if self.step.q.val() == 2 {
                    self.size.d.next = self.swapped.val().get_bits::<32>(32);
                    self.stag.d.next = self.swapped.val().get_bits::<32>(0);
                }
                if self.step.q.val() == 3 {
                    self.to.d.next = self.swapped.val();
                    self.state.d.next = RxState::RequestGive;
                    if self.size.q.val().any() {
                        self.state.d.next = RxState::Ask;
                    }
                }
            }
            RxState::RequestSure => {
                self.raise.next = true;
                self.full.next = true;
                match self.judged.val() {
                    RegionStatus::Ok => {
                        self.raise.next = false;
                        self.state.d.next = RxState::RequestGive;
                    }
                    RegionStatus::Association => {
                        self.fault.next = 0x0103.into();
                    }
                    RegionStatus::Right => {
                        self.fault.next = 0x0102.into();
                    }
                    RegionStatus::Wrap => {
                        self.fault.next = 0x0104.into();
                    }
                    RegionStatus::Bounds => {
                        self.fault.next = 0x0101.into();
                    }
                    _ => {
                        self.fault.next = 0x0100.into();
                    }
                }
            }
            RxState::RequestGive => {
                self.give.next = true;
                self.delivery.next.note = RxSqNote::ReadRequest;
                self.new_row.next.msn_read = self.row.val().msn_read + 1;
                self.new_row.next.requests = self.row.val().requests + 1;
                if self.given.val() {
                    self.set.next = true;
                    self.cnt_rdma_in_reads.next = true;
                    self.state.d.next = RxState::FreeSlot;
                }
            }

            // ---- Send
            RxState::Fetch => {
                self.new_row.next.asked = self.amount.q.val();
                if !self.fetching.q.val() {
                    self.fetch.next = true;
                    self.set.next = true;
                    self.state.d.next = RxState::FetchWait;
                }
            }
            RxState::FetchWait => {
                if !self.fetch_ours.val() {
                    self.state.d.next = RxState::Room;
                }
            }
            RxState::Room => {
                self.has.d.next = self.rooms.read_data.val();
                // and the first words of the SGE that is next
                self.sge_high.next = true;
                self.sge_len.d.next = self.sges.read_data.val().get_bits::<32>(0);
                self.stag.d.next = self.sges.read_data.val().get_bits::<32>(32);
                self.state.d.next = RxState::Fit;
            }
            RxState::Fit => {
                self.to.d.next = self.sges.read_data.val();
                self.left.d.next = self.sge_len.q.val() - self.row.val().sge_done;
                self.too_long.d.next = self.end_at.q.val() > self.has.q.val();
                self.state.d.next = RxState::Fits;
            }
            RxState::Fits => {
                self.to.d.next = self.to.q.val() + bit_cast::<64, 32>(self.row.val().sge_done);
                self.used_up.d.next = !self.left.q.val().any();
                self.fits.d.next = bit_cast::<32, 16>(self.rest.q.val()) <= self.left.q.val();
                self.new_row.next.open = true;
                self.new_row.next.opcode = self.opcode.val();
                self.new_row.next.stag = self.header_stag.val();
                self.new_row.next.mo = self.end_at.q.val().get_bits::<32>(0);
                // CompletionStatus::LocalLength
                self.status.d.next = 1.into();
                if self.spoiled.read_data.val() {
                    self.raise.next = true;
                    self.bare.next = true;
                    self.fault.next = 0x0207.into();
                } else if self.too_long.q.val() {
                    self.state.d.next = RxState::SendFail;
                } else {
                    self.set.next = true;
                    self.state.d.next = RxState::PieceAsk;
                    if !self.rest.q.val().any() {
                        self.state.d.next = RxState::SendEnd;
                    }
                }
            }
            RxState::Piece => {
                self.state.d.next = RxState::PieceStag;
            }
            RxState::PieceStag => {
                self.sge_high.next = true;
                self.sge_len.d.next = self.sges.read_data.val().get_bits::<32>(0);
                self.stag.d.next = self.sges.read_data.val().get_bits::<32>(32);
                self.state.d.next = RxState::PieceAddress;
            }
            RxState::PieceAddress => {
                self.to.d.next = self.sges.read_data.val();
                self.left.d.next = self.sge_len.q.val() - self.row.val().sge_done;
                self.state.d.next = RxState::PieceLength;
            }
            RxState::PieceLength => {
                self.to.d.next = self.to.q.val() + bit_cast::<64, 32>(self.row.val().sge_done);
                self.used_up.d.next = !self.left.q.val().any();
                self.fits.d.next = bit_cast::<32, 16>(self.rest.q.val()) <= self.left.q.val();
                self.state.d.next = RxState::PieceAsk;
            }
            RxState::PieceAsk => {
                self.size.d.next = bit_cast::<32, 16>(self.rest.q.val());
                if !self.fits.q.val() {
                    self.size.d.next = self.left.q.val();
                }
                self.state.d.next = RxState::Ask;
                if self.used_up.q.val() {
                    self.new_row.next.sge = self.row.val().sge + 1;
                    self.new_row.next.sge_done = 0.into();
                    self.set.next = true;
                    self.state.d.next = RxState::Piece;
                }
            }
            RxState::SendEnd => {
                self.op.d.next = RegionOp::Invalidate;
                self.then.d.next = RxThen::Invalidate;
                self.stag.d.next = self.header_stag.val();
                self.state.d.next = RxState::FreeSlot;
                if self.last.val() {
                    self.state.d.next = RxState::Receive;
                    if self.invalidates.val() {
                        self.state.d.next = RxState::Ask;
                    }
                }
            }
            RxState::InvalidateSure => {
                self.invalidated.d.next = true;
                self.state.d.next = RxState::Receive;
                if self.judged.val() != RegionStatus::Ok {
                    self.raise.next = true;
                    self.fault.next = 0x0209.into();
                    if self.judged.val() == RegionStatus::Association {
                        self.fault.next = 0x0109.into();
                    }
                }
            }
            RxState::Receive => {
                self.give.next = true;
                self.delivery.next.what = RxWhat::Completion;
                self.delivery.next.len = self.row.val().mo;
                self.delivery.next.to = bit_cast::<64, 16>(self.row.val().cqn)
                    | (bit_cast::<64, 16>(self.row.val().qpn) << 16)
                    | (bit_cast::<64, 16>(self.row.val().consumer) << 32)
                    | (bit_cast::<64, 8>(self.flags.val()) << 56);
                self.new_row.next.open = false;
                self.new_row.next.asked = self.row.val().asked - 1;
                self.new_row.next.mo = 0.into();
                self.new_row.next.sge = 0.into();
                self.new_row.next.sge_done = 0.into();
                self.new_row.next.msn_send = self.row.val().msn_send + 1;
                self.new_row.next.consumer = self.row.val().consumer + 1;
                if self.given.val() {
                    self.set.next = true;
                    self.cnt_rdma_in_sends.next = true;
                    self.state.d.next = RxState::FreeSlot;
                    if self.posts.q.val().any() & (self.row.val().asked != 4) & !self.fetching.q.val() {
                        self.state.d.next = RxState::AheadCount;
                    }
                }
            }
            RxState::AheadCount => {
                self.state.d.next = RxState::AheadFetch;
            }
            RxState::AheadFetch => {
                self.new_row.next.asked = self.row.val().asked + self.amount.q.val();
                self.fetch.next = true;
                self.set.next = true;
                self.state.d.next = RxState::FreeSlot;
            }
            RxState::SendFail => {
                self.give.next = true;
                self.delivery.next.what = RxWhat::Completion;
                self.delivery.next.len = 0.into();
                self.delivery.next.to = bit_cast::<64, 16>(self.row.val().cqn)
                    | (bit_cast::<64, 16>(self.row.val().qpn) << 16)
                    | (bit_cast::<64, 16>(self.row.val().consumer) << 32)
                    | (bit_cast::<64, 8>(self.status.q.val()) << 48)
                    | (bit_cast::<64, 2>(self.solicited.val()) << 56);
                if self.given.val() {
                    self.raise.next = true;
                    self.fault.next = 0x1205.into();
                    if self.status.q.val() != 1 {
                        self.bare.next = true;
                        self.fault.next = 0x0207.into();
                    }
                }
            }

            // ---- regions and the placer
            RxState::Ask => {
                self.ask.valid.next = true;
                if self.ask.ready.val() {
                    self.state.d.next = RxState::Answer;
                }
            }
            RxState::Answer => {
                self.answer.ready.next = true;
                self.verdict.d.next = self.answer.data.val();
                if self.answer.valid.val() {
                    match self.then.q.val() {
                        RxThen::Request => {
                            self.state.d.next = RxState::RequestSure;
                        }
                        RxThen::Invalidate => {
                            self.state.d.next = RxState::InvalidateSure;
                        }
                        _ => {
                            self.held.d.next = self.answer.data.val().status == RegionStatus::Ok;
                            self.state.d.next = RxState::Placing;
                        }
                    }
                }
            }
            RxState::Placing => {
                // CompletionStatus::LocalProtection
                self.status.d.next = 4.into();
                self.new_row.next.sge_done = self.row.val().sge_done + self.size.q.val();
                if self.judged.val() != RegionStatus::Ok {
                    if self.kind.q.val() == RxKind::Send {
                        self.state.d.next = RxState::SendFail;
                    } else {
                        self.raise.next = true;
                        self.fault.next = 0x1100.into();
                        if self.judged.val() == RegionStatus::Association {
                            self.fault.next = 0x1102.into();
                        }
                        if self.judged.val() == RegionStatus::Wrap {
                            self.fault.next = 0x1103.into();
                        }
                        if self.judged.val() == RegionStatus::Bounds {
                            self.fault.next = 0x1101.into();
                        }
                        self.cnt_rdma_write_without_right.next =
                            (self.kind.q.val() == RxKind::Write) & (self.judged.val() == RegionStatus::Right);
                    }
                } else {
                    self.put.next = true;
                    if self.putting.val() {
                        self.held.d.next = false;
                        self.state.d.next = RxState::Idle;
                        if self.kind.q.val() == RxKind::Response {
                            self.state.d.next = RxState::Responded;
                        }
                        if self.kind.q.val() == RxKind::Send {
                            self.set.next = true;
                            self.offset.d.next = self.offset.q.val() + self.size.q.val().get_bits::<16>(0);
                            self.rest.d.next = self.rest.q.val() - self.size.q.val().get_bits::<16>(0);
                            self.state.d.next = RxState::Piece;
                            if self.fits.q.val() {
                                self.has_slot.d.next = self.last.val() & self.invalidates.val();
                                self.state.d.next = RxState::Idle;
                                if self.last.val() {
                                    self.state.d.next = RxState::Receive;
                                    if self.invalidates.val() {
                                        self.state.d.next = RxState::SendEnd;
                                    }
                                }
                            }
                        }
                    }
                }
            }

            // ---- Terminates
            RxState::TermRead => {
                self.reading.next = true;
                self.state.d.next = RxState::TermWord;
            }
            RxState::TermWord => {
                self.term_word.d.next = bit_cast::<64, 32>(self.carry.q.val()) | (self.slot_data.val() << 32);
                self.carry.d.next = self.slot_data.val().get_bits::<32>(32);
                self.state.d.next = RxState::TermPush;
            }
            RxState::TermPush => {
                self.give.next = true;
                self.delivery.next.note = RxSqNote::TermWord;
                self.delivery.next.to = self.term_word.q.val();
                self.delivery.next.len = bit_cast::<32, 3>(self.step.q.val());
                if self.given.val() {
                    self.step.d.next = self.step.q.val() + 1;
                    self.state.d.next = RxState::TermRead;
                    if self.step.q.val() == self.last_word.val() {
                        self.state.d.next = RxState::TermGive;
                    }
                }
            }
            RxState::TermGive => {
                self.give.next = true;
                self.delivery.next.note = RxSqNote::Terminate;
                self.delivery.next.len = self.term_octets.val();
                if self.given.val() {
                    self.cnt_rdma_terminates_out.next = true;
                    self.state.d.next = RxState::TermEvent;
                }
            }
            RxState::Stop => {
                self.give.next = true;
                self.delivery.next.note = RxSqNote::Stop;
                if self.given.val() {
                    self.state.d.next = RxState::TermEvent;
                }
            }
            RxState::TermEvent => {
                self.give.next = true;
                self.delivery.next.what = RxWhat::Event;
                self.delivery.next.to = bit_cast::<64, 16>(self.error.q.val());
                self.delivery.next.len = 2.into();
                if self.event_kind.q.val() == RxAsyncKind::Malformed {
                    self.delivery.next.len = 1.into();
                }
                if self.event_kind.q.val() == RxAsyncKind::Terminated {
                    self.delivery.next.len = 0.into();
                }
                self.new_row.next.deaf = true;
                if self.given.val() {
                    self.set.next = true;
                    self.state.d.next = RxState::FreeSlot;
                }
            }
            RxState::FreeSlot => {
                self.free_only.next = self.has_slot.q.val();
                if !self.has_slot.q.val() | self.placer.place.ready.val() {
                    self.state.d.next = RxState::Idle;
                }
            }
            _ => {
                self.state.d.next = RxState::Clear;
            }
        }

        // the first error: octets 0, 1, 2 of the Terminate go before the first word of the slot
        self.bits.next = 0.into();
        if self.full.val() {
            self.bits.next = 0xe0.into();
        } else if !self.bare.val() {
            self.bits.next = 0xc0.into();
        }
        if self.raise.val() {
            self.error.d.next = self.fault.val();
            self.with_header.d.next = !self.bare.val();
            self.with_request.d.next = self.full.val();
            self.event_kind.d.next = RxAsyncKind::Failed;
            self.carry.d.next = bit_cast::<32, 8>(self.fault.val().get_bits::<8>(8))
                | (bit_cast::<32, 8>(self.fault.val().get_bits::<8>(0)) << 8)
                | (bit_cast::<32, 8>(self.bits.val()) << 16);
            self.step.d.next = 0.into();
            self.state.d.next = RxState::TermRead;
        }
        self.rows.set.next = self.set.val();
        self.rows.value.next = self.new_row.val();

        // ---- the slots: the engine goes first
        self.placer.hold.next = self.reading.val();
        self.slot_address.next = self.placer.slot_address.val();
        if self.reading.val() {
            self.slot_address.next = (bit_cast::<W, 8>(self.slot.q.val()) << self.slot_shift.val()) | bit_cast::<W, 3>(self.word.val());
        }
        self.begins.next = self.put.val() & self.putting.val();
        self.placer.place.valid.next = self.begins.val() | self.free_only.val();
        self.placer.place.data.next.slot = self.slot.q.val();
        self.placer.place.data.next.offset = 16.into();
        self.placer.place.data.next.len = self.size.q.val().get_bits::<16>(0);
        self.placer.place.data.next.addr = self.verdict.q.val().addr;
        self.placer.place.data.next.free = true;
        if self.kind.q.val() == RxKind::Send {
            self.placer.place.data.next.offset = self.offset.q.val();
            // a Terminate may need the slot after an Invalidate
            self.placer.place.data.next.free = self.fits.q.val() & !(self.last.val() & self.invalidates.val());
        }
        if self.free_only.val() {
            self.placer.place.data.next.len = 0.into();
            self.placer.place.data.next.free = true;
        }
        self.owners.inp.data.next = self.index.q.val();
        self.owners.inp.valid.next = self.begins.val();
        if self.begins.val() {
            self.begun.d.next = self.begun.q.val() + 1;
        }
        self.quiet.next = (self.begun.q.val() == self.ended.q.val()) & !self.held.q.val();

        // ---- a placement has ended
        self.owners.out.ready.next = self.placer.done.valid.val();
        if self.placer.done.valid.val() {
            self.ended.d.next = self.ended.q.val() + 1;
        }
        self.fails.next = self.placer.done.valid.val() & self.placer.done.error.val();
        self.failures.inp.valid.next = self.fails.val();
        self.failures.inp.data.next = self.owners.out.data.val();

        // ---- the fetch of receive queue entries
        if self.fetch.val() {
            self.fetching.d.next = true;
            self.fetch_asking.d.next = true;
            self.fetch_index.d.next = self.index.q.val();
            self.fetch_addr.d.next = self.row.val().rq_base + (bit_cast::<64, 16>(self.entry_at.q.val()) << 6);
            self.fetch_len.d.next = bit_cast::<16, 3>(self.amount.q.val()) << 6;
            self.fetch_first.d.next = self.entry.val().get_bits::<2>(0);
            self.fetch_count.d.next = self.amount.q.val();
            self.fetch_at.d.next = self.entry.val().get_bits::<2>(0);
            self.fetch_beat.d.next = 0.into();
            self.fetch_octets.d.next = 0.into();
        }
        self.rd_req.valid.next = self.fetch_asking.q.val();
        self.rd_req.data.next.addr = self.fetch_addr.q.val();
        self.rd_req.data.next.len = self.fetch_len.q.val();
        if self.fetch_asking.q.val() & self.rd_req.ready.val() {
            self.fetch_asking.d.next = false;
        }
        self.rd_beat.ready.next = true;
        self.beat_data.next = self.rd_beat.data.val().data;
        self.sges.write_enable.next = self.fetched.val();
        self.sges.write_address.next = (bit_cast::<C5, C>(self.fetch_index.q.val()) << 5)
            | (bit_cast::<C5, 2>(self.fetch_at.q.val()) << 3)
            | bit_cast::<C5, 3>(self.fetch_beat.q.val());
        self.sges.write_data.next = self.beat_data.val();
        self.sge_at.next = (bit_cast::<C5, C>(self.index.q.val()) << 5)
            | (bit_cast::<C5, 2>(self.consumer.val().get_bits::<2>(0)) << 3)
            | (bit_cast::<C5, 2>(self.row.val().sge) << 1);
        self.sges.read_address.next = self.sge_at.val();
        if self.sge_high.val() {
            self.sges.read_address.next = self.sge_at.val() | 1;
        }
        self.rooms.write_enable.next = self.fetched.val() & self.fetch_beat.q.val().all();
        self.rooms.write_address.next = (bit_cast::<C2, C>(self.fetch_index.q.val()) << 2) | bit_cast::<C2, 2>(self.fetch_at.q.val());
        self.rooms.write_data.next = self.fetch_octets.q.val();
        if self.fetched.val() {
            self.fetch_beat.d.next = self.fetch_beat.q.val() + 1;
            if !self.fetch_beat.q.val().get_bit(0) {
                self.fetch_octets.d.next = self.fetch_octets.q.val() + bit_cast::<34, 32>(self.beat_data.val().get_bits::<32>(0));
            }
            if self.fetch_beat.q.val().all() {
                self.fetch_at.d.next = self.fetch_at.q.val() + 1;
                self.fetch_octets.d.next = 0.into();
            }
        }
        if self.fetch_ends.val() {
            self.fetching.d.next = false;
        }
        self.spoiled.write_enable.next = self.fetch_ends.val() & self.rd_beat.data.val().error;
        self.spoiled.write_address.next = self.fetch_index.q.val();
        self.spoiled.write_data.next = true;
        if !self.fetch_ends.val() & self.set.val() & (self.state.q.val() == RxState::Bound) {
            self.spoiled.write_enable.next = true;
            self.spoiled.write_address.next = self.index.q.val();
            self.spoiled.write_data.next = false;
        }

        // ---- what is delivered
        self.deliveries.inp.valid.next = self.give.val();
        self.deliveries.inp.data.next = self.delivery.val();
        self.head.next = self.deliveries.out.data.val();
        self.head_index.next = self.head.val().index;
        self.head_to.next = self.head.val().to;
        self.head_len.next = self.head.val().len;
        self.distance.next = self.ended.q.val() - self.head.val().after;
        self.reached.next = self.deliveries.out.valid.val() & !self.distance.val().get_bit(7);
        self.alive.read_address.next = self.head_index.val().get_bits::<C>(0);
        self.lost.next = !self.alive.read_data.val();
        if self.looked.q.val() {
            self.lost.next = self.lost_then.q.val();
        }
        self.what.next = self.head.val().what;
        self.completion.valid.next = false;
        self.completion.data.next.cqn = self.head_to.val().get_bits::<16>(0);
        self.completion.data.next.qpn = self.head_to.val().get_bits::<16>(16);
        self.completion.data.next.wqe = self.head_to.val().get_bits::<16>(32);
        // CompletionOpcode::Receive
        self.completion.data.next.opcode = 128.into();
        self.completion.data.next.status = self.head_to.val().get_bits::<8>(48);
        self.completion.data.next.len = self.head_len.val();
        self.completion.data.next.stag = self.head.val().stag;
        self.completion.data.next.invalidated = self.head_to.val().get_bit(56);
        self.completion.data.next.solicited = self.head_to.val().get_bit(57);
        self.to_sq.valid.next = false;
        self.to_sq.data.next.note = self.head.val().note;
        self.to_sq.data.next.index = self.head_index.val();
        self.to_sq.data.next.stag = self.head.val().stag;
        self.to_sq.data.next.to = self.head_to.val();
        self.to_sq.data.next.len = self.head_len.val();
        self.to_sq.data.next.sink_stag = self.head.val().sink_stag;
        self.to_sq.data.next.sink_to = self.head.val().sink_to;
        self.event.valid.next = false;
        self.event.data.next.kind = RxAsyncKind::Failed;
        if self.head_len.val().get_bits::<2>(0) == 1 {
            self.event.data.next.kind = RxAsyncKind::Malformed;
        }
        if self.head_len.val().get_bits::<2>(0) == 0 {
            self.event.data.next.kind = RxAsyncKind::Terminated;
        }
        self.event.data.next.index = self.head_index.val();
        self.event.data.next.layer = self.head_to.val().get_bits::<4>(12);
        self.event.data.next.etype = self.head_to.val().get_bits::<4>(8);
        self.event.data.next.code = self.head_to.val().get_bits::<8>(0);
        self.unbound.valid.next = false;
        self.unbound.data.next = self.head_index.val();
        self.took.next = false;
        self.alive.write_enable.next = self.fails.val();
        self.alive.write_address.next = self.owners.out.data.val();
        self.alive.write_data.next = false;
        // what was offered stays, whatever fails meanwhile
        self.lost_then.d.next = self.lost.val();
        self.looked.d.next = self.giving.q.val();
        if !self.giving.q.val() {
            self.giving.d.next = self.reached.val();
        } else {
            match self.what.val() {
                RxWhat::Bound => {
                    self.took.next = !self.fails.val();
                    if !self.fails.val() {
                        self.alive.write_enable.next = true;
                        self.alive.write_address.next = self.head_index.val().get_bits::<C>(0);
                        self.alive.write_data.next = true;
                    }
                }
                RxWhat::Completion => {
                    self.completion.valid.next = !self.lost.val();
                    self.took.next = self.lost.val() | self.completion.ready.val();
                }
                RxWhat::Event => {
                    self.event.valid.next = true;
                    self.took.next = self.event.ready.val();
                }
                RxWhat::Unbound => {
                    self.unbound.valid.next = true;
                    self.took.next = self.unbound.ready.val();
                }
                _ => {
                    if self.lost.val() & ((self.head.val().note == RxSqNote::ReadRequest) | (self.head.val().note == RxSqNote::ReadDone)) {
                        self.took.next = true;
                    } else {
                        self.to_sq.valid.next = true;
                        self.took.next = self.to_sq.ready.val();
                    }
                }
            }
            if self.took.val() {
                self.giving.d.next = false;
                self.looked.d.next = false;
            }
        }
        self.deliveries.out.ready.next = self.took.val();

        if self.reset.val() {
            self.state.d.next = RxState::Clear;
            self.cleared.d.next = 0.into();
            self.counting.d.next = RxCountState::Idle;
            self.bind_seen.d.next = false;
            self.begun.d.next = 0.into();
            self.ended.d.next = 0.into();
            self.held.d.next = false;
            self.fetching.d.next = false;
            self.fetch_asking.d.next = false;
            self.giving.d.next = false;
            self.looked.d.next = false;
        }
    }
}
