// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending side of DDP and RDMAP: takes work requests and Read Responses that are owed, cuts them into FPDUs, completes what is acknowledged.
//!
//! **Interface.** `rdma::types` says what each message means, `docs/data-path.md` where it goes. `item_address` (index, item, word), `item_data`: the item store for `mpa::tx`, the word in the clock
//! after its address. `close`: the manager wants `Drained`. `fault`: index whose source `mpa::tx` may not read any more. `quiet` for `rdma::regions` is always high: nothing is ever
//! touched here by the right of a check, `mpa::tx` and `rdma::rx` ask again. `ready` is low for 4 * 2^C clocks after reset; nothing is taken before.
//!
//! **Items.** Of the 16 items of an index, 0..=11 are a ring of work requests, from the fetch of each to its completion; 12..=14 a ring of Read Responses and the RTR; 15 is
//! the Terminate. One message of an index is cut at a time, and FPDUs leave in the order of the cut, so messages are never interleaved (DDP-7, RDM-24).
//!
//! **What is next**, at the end of a message: RTR; Terminate (of an index that is bound with one: that and nothing else); then Read Responses and work requests in turn. With the last FPDU of a Read
//! Response `responded` is told. A work request waits for `Heard` (MPA-6), for room, with FENCE for the end of all
//! Reads, as a Read for one of `ord` to end (RDM-2); a Read Response never waits for it. After a Terminate, `Stop` and `fault` nothing is begun. A Terminate of a responder that may not
//! send ends like a lost source (RDM-34).
//! FPDU: at most MULPDU = EMSS - (6 + EMSS mod 4), with markers 4 * ceil(EMSS / 512) less, within 128..=64768 (SEG-1, 2, 8); at most 32 of an index in `tcp::tx`.
//!
//! **Errors of a work request.** Opcode, SGEs, inline length, an entry that cannot be read, a Read without ORD: `LocalQpOperation`; 2^31 octets or more: `LocalLength`; a source or sink that
//! `rdma::regions` refuses: `LocalProtection`. Nothing is taken behind it. When its turn comes `LocalError` is told and a Terminate 0/2/0x07 is sent (RDM-27); its completion comes in its
//! place, when all before it are complete. Entries behind it are the driver's to flush.
//!
//! **Completions** in the order of posting: an item that is acknowledged, for a Read also `ReadDone`.
//!
//! **Scheduling.** One engine, one job at a time: Bind first, then faults, then in turn a message of `from_rx`, else `from_tx`; a fetched entry; `close`, else `posted`. After each job the
//! queue of indices with something to do has a turn. A turn starts one fetch and cuts one FPDU; if there is more, the index goes to the end of the queue, where it is at most once.
//! A fetched entry that is the next to send, without FENCE and not a Read, is begun by its own job while no Read Response is owed: its first FPDU, and the next fetch, cost it no turn.
//!
//! **What may wait.** The engine waits for `completion` and for a region check; both must end without its help. What goes to `to_tx`, `issued`, `responded`, `event`, `unbound`, `rd_req` stands in a
//! register, and a job starts only when those that it may need are free; so `from_rx` is taken whatever `rdma::rx` leaves in `issued` and `responded`. An FPDU is not offered before `issued`
//! was taken. `Unbind` is answered when no fetch of the index is under way and all registers are free, so `event` must be taken without waiting for that answer. What comes for an index that
//! is not bound is ignored, except EMSS. A `posted` further than the ring is long reads entries of the ring again, nothing else.
//!
//! **Timing** in clocks, without stalls and with a host that answers at once; a job of another index than the last takes 4 more, of an acknowledgement 6. Doorbell to FPDU of an inline Write 31. An entry
//! 8, for each SGE 6 and the check more, for a Read 1 more, its FPDU 3 more if it is begun at once; an FPDU of a turn 8, the first of a message 9, with markers 2 and one for each marker more;
//! acknowledgement 4, completion 1 more. In all, an 8-octet inline Write every 16, an FPDU of a long message every 12, with three markers every 16.
//!
//! **Memory** (C = 5, in DP16KD): item store 20, work requests 4, read requests of the peer 2^R for each index 4, FPDUs 1, rows 3, entries that were fetched 2.
//! C1 = C + 1 and so on, CR1 = C + R + 1; 2^R is the largest IRD.
use super::item_store::ItemStore;
use super::owed_reads::{OwedHalf, OwedReads};
use super::send_fetch::SendFetch;
use super::types::*;
use crate::host::dma::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// Whose an FPDU is.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SqKind {
    Work,
    Response,
    Rtr,
    Terminate,
}

/// An FPDU that is not acknowledged.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqFpdu {
    pub last: Bit,
    pub kind: SqKind,
}

/// A work request that was taken; sink of a Read.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqWork {
    pub len: Bits<32>,
    pub stag: Bits<32>,
    pub to: Bits<64>,
    pub opcode: Bits<3>,
    pub signaled: Bit,
    pub fence: Bit,
    /// `ironwarp_abi::work::CompletionStatus`; not 0: failed here.
    pub status: Bits<3>,
}

/// A connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqRow {
    pub bound: Bit,
    /// In the queue.
    pub queued: Bit,
    /// May send.
    pub heard: Bit,
    pub crc: Bit,
    pub markers: Bit,
    pub all_signaled: Bit,
    /// No work request is taken / nothing but RTR and Terminate is begun / no FPDU is cut any more.
    pub no_take: Bit,
    pub no_start: Bit,
    pub stopped: Bit,
    /// A work request that failed had its turn, and is not complete.
    pub failed: Bit,
    /// The next work request waits for a Read to end.
    pub blocked: Bit,
    pub closing: Bit,
    pub drained: Bit,
    /// RTR that is owed.
    pub rtr_write: Bit,
    pub rtr_read: Bit,
    /// The oldest Read is the RTR.
    pub rtr_out: Bit,
    pub terminate: Bit,
    pub terminate_len: Bits<6>,
    /// A Read Response was last.
    pub favor_work: Bit,
    pub qpn: Bits<16>,
    pub pd: Bits<16>,
    pub cqn: Bits<16>,
    /// Upper bits of its address: it begins at a multiple of 64.
    pub base: Bits<58>,
    pub log2: Bits<4>,
    pub ord: Bits<5>,
    /// Indices in the send queue: behind the last, next to fetch; next to complete is `fetch` - `open`.
    pub posted: Bits<16>,
    pub fetch: Bits<16>,
    /// Items of the next to fetch, to send, to complete.
    pub fetch_item: Bits<4>,
    pub send_item: Bits<4>,
    pub done_item: Bits<4>,
    /// Work requests fetched or being fetched and not complete / being fetched / taken and not begun / acknowledged and not complete.
    pub open: Bits<4>,
    pub fetching: Bits<3>,
    pub taken: Bits<4>,
    pub acked: Bits<4>,
    /// Reads that are outstanding / that ended and are not complete.
    pub reads: Bits<5>,
    pub reads_done: Bits<4>,
    /// The message that is being cut.
    pub cutting: Bit,
    pub kind: SqKind,
    pub item: Bits<4>,
    pub untagged: Bit,
    pub left: Bits<32>,
    pub offset: Bits<32>,
    /// Place in the stream modulo 512.
    pub phase: Bits<9>,
    pub emss: Bits<16>,
    /// Most payload of an FPDU; 0 while EMSS is not known.
    pub most_tagged: Bits<16>,
    pub most_untagged: Bits<16>,
    /// FPDUs that are not acknowledged, place of the next.
    pub fpdus: Bits<6>,
    pub fpdu_at: Bits<5>,
    /// Items 12..=14: in use, next.
    pub others: Bits<2>,
    pub other_item: Bits<4>,
    pub owed: Bits<7>,
    pub owed_at: Bits<6>,
    pub msn_send: Bits<32>,
    pub msn_read: Bits<32>,
}

/// What there is to do for a connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqWants {
    pub fetch: Bit,
    pub cut: Bit,
    pub rtr: Bit,
    pub terminate: Bit,
    pub response: Bit,
    pub work: Bit,
    /// A Terminate is owed by a responder that may not send.
    pub mute: Bit,
    pub drain: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SqJob {
    Bind,
    Fault,
    Rx,
    Tx,
    Take,
    Close,
    Posted,
    Turn,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SqStep {
    Clear,
    Idle,
    Load,
    Bind,
    Unbound,
    Fault,
    Rx,
    RxRequest,
    Tx,
    Close,
    Posted,
    Mulpdu1,
    Mulpdu2,
    Mulpdu3,
    Mulpdu4,
    Ack2,
    Ack3,
    DoneRead,
    DoneWait,
    Done,
    Take1,
    Take2,
    SgeRead,
    SgeWait,
    Sge1,
    Sge2,
    Ask,
    Answer,
    SgeNext,
    Sum,
    Make,
    Turn1,
    Turn2,
    Turn3,
    Owed,
    OwedSource,
    Cut1,
    Cut2,
    Marker1,
    Marker2,
    Emit,
    Settle,
}

/// A word of 8 octets, the first one lowest.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SqOctets {
    pub a: Bits<8>,
    pub b: Bits<8>,
    pub c: Bits<8>,
    pub d: Bits<8>,
    pub e: Bits<8>,
    pub f: Bits<8>,
    pub g: Bits<8>,
    pub h: Bits<8>,
}

#[derive(LogicBlock, Default)]
pub struct SendQueue<
    const C: usize,
    const C1: usize,
    const C4: usize,
    const C5: usize,
    const C7: usize,
    const C8: usize,
    const R: usize,
    const CR1: usize,
> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub bind: ChanSink<Bind>,
    pub unbound: ChanSrc<Bits<16>>,
    pub posted: ChanSink<Posted>,
    pub close: ChanSink<Bits<16>>,
    pub event: ChanSrc<SqAsync>,
    pub from_tx: ChanSink<TxToSq>,
    pub to_tx: ChanSrc<FpduQueued>,
    pub from_rx: ChanSink<RxToSq>,
    pub issued: ChanSrc<ReadIssued>,
    pub responded: ChanSrc<Bits<16>>,
    pub fault: ChanSink<Bits<16>>,
    pub item_address: Signal<In, Bits<C8>>,
    pub item_data: Signal<Out, Bits<64>>,
    pub ask: ChanSrc<RegionAsk>,
    pub answer: ChanSink<RegionAnswer>,
    pub quiet: Signal<Out, Bit>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub completion: ChanSrc<CompletionOut>,
    items: ItemStore<C, C4, C7, C8>,
    fetcher: SendFetch<C4>,
    rows: RowStore<SqRow, C>,
    works: BlockRam<SqWork, C4>,
    fpdus: BlockRam<SqFpdu, C5>,
    owed: OwedReads<C, R, CR1>,
    queue: ChanFifo<Bits<C>, C, C1>,
    step: DFF<SqStep>,
    job: DFF<SqJob>,
    index: DFF<Bits<C>>,
    cleared: DFF<Bits<C>>,
    /// The queue has a turn.
    turn: DFF<Bit>,
    /// Whose turn it is: what is told, an entry that was fetched, what is ordered.
    prefer: DFF<Bits<2>>,
    /// An Unbind waits for a fetch.
    unbind_wait: DFF<Bit>,
    was_queued: DFF<Bit>,
    /// A job has just ended, `wants` is what is left to do.
    settled: DFF<Bit>,
    /// The row at hand is of the job before, so what is read of the memories for it stands already.
    at_hand: DFF<Bit>,
    /// The FPDU at hand was begun by its entry, not by a turn.
    at_once: DFF<Bit>,
    wants: DFF<SqWants>,
    // outputs that wait
    tx_full: DFF<Bit>,
    tx_out: DFF<FpduQueued>,
    issued_full: DFF<Bit>,
    issued_out: DFF<ReadIssued>,
    responded_full: DFF<Bit>,
    responded_out: DFF<Bits<16>>,
    event_full: DFF<Bit>,
    event_out: DFF<SqAsync>,
    unbound_full: DFF<Bit>,
    unbound_out: DFF<Bits<16>>,
    // MULPDU
    mulpdu: DFF<Bits<18>>,
    marker_octets: DFF<Bits<18>>,
    // memories' outputs
    work: DFF<SqWork>,
    fpdu: DFF<SqFpdu>,
    /// Index in the ring of send queue entries.
    masked: DFF<Bits<16>>,
    /// Index of the next to complete, two clocks after it changed.
    done: DFF<Bits<16>>,
    ord_full: DFF<Bit>,
    // the work request, or other message, at hand
    entry: DFF<Bits<64>>,
    kind: DFF<SqKind>,
    item: DFF<Bits<4>>,
    opcode: DFF<Bits<8>>,
    in_line: DFF<Bit>,
    status: DFF<Bits<3>>,
    stag: DFF<Bits<32>>,
    to: DFF<Bits<64>>,
    /// Octets of the message; of a Read those that are read.
    total: DFF<Bits<36>>,
    sge: DFF<Bits<8>>,
    sge_len: DFF<Bits<32>>,
    sge_stag: DFF<Bits<32>>,
    sge_to: DFF<Bits<64>>,
    word: DFF<Bits<3>>,
    // the FPDU at hand
    last: DFF<Bit>,
    take: DFF<Bits<16>>,
    wire_len: DFF<Bits<16>>,
    rest: DFF<Bits<17>>,
    // combinational
    r: Signal<Local, SqRow>,
    n: Signal<Local, SqRow>,
    b: Signal<Local, Bind>,
    qp: Signal<Local, QpContext>,
    sq_base: Signal<Local, Bits<64>>,
    b_ord: Signal<Local, Bits<8>>,
    b_index: Signal<Local, Bits<16>>,
    rx: Signal<Local, RxToSq>,
    rx_index: Signal<Local, Bits<16>>,
    rx_len: Signal<Local, Bits<32>>,
    tx: Signal<Local, TxToSq>,
    tx_index: Signal<Local, Bits<16>>,
    post: Signal<Local, Posted>,
    post_index: Signal<Local, Bits<16>>,
    close_index: Signal<Local, Bits<16>>,
    fault_index: Signal<Local, Bits<16>>,
    here_item: Signal<Local, Bits<C4>>,
    next_index: Signal<Local, Bits<C>>,
    index16: Signal<Local, Bits<16>>,
    chosen: Signal<Local, Bit>,
    bind_ok: Signal<Local, Bit>,
    /// Something is told / ordered; the latter goes first.
    news: Signal<Local, Bit>,
    orders: Signal<Local, Bit>,
    orders_first: Signal<Local, Bit>,
    turn_now: Signal<Local, Bit>,
    directly: Signal<Local, Bit>,
    /// The index at hand goes (back) into the queue.
    again: Signal<Local, Bit>,
    turn_ok: Signal<Local, Bit>,
    some: Signal<Local, Bit>,
    fpdu_room: Signal<Local, Bit>,
    fpdus_now: Signal<Local, Bits<6>>,
    fetching_now: Signal<Local, Bits<3>>,
    other_room: Signal<Local, Bit>,
    rtr: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    may_begin: Signal<Local, Bit>,
    /// The work request at hand is the next to send, and waits for nothing.
    begins_at_once: Signal<Local, Bit>,
    /// A fetch starts in this clock.
    fetch_now: Signal<Local, Bit>,
    log2: Signal<Local, Bits<4>>,
    ones: Signal<Local, Bits<16>>,
    above: Signal<Local, Bits<16>>,
    below: Signal<Local, Bits<16>>,
    item_base: Signal<Local, Bits<C4>>,
    work_item: Signal<Local, Bits<4>>,
    fetch_next: Signal<Local, Bits<4>>,
    send_next: Signal<Local, Bits<4>>,
    done_next: Signal<Local, Bits<4>>,
    other_next: Signal<Local, Bits<4>>,
    fpdu_oldest: Signal<Local, Bits<5>>,
    fpdu_place: Signal<Local, Bits<5>>,
    owed_oldest: Signal<Local, Bits<6>>,
    owed_at: Signal<Local, Bits<6>>,
    owed_count: Signal<Local, Bits<6>>,
    owed_half: Signal<Local, OwedHalf>,
    emss: Signal<Local, Bits<16>>,
    emss_low: Signal<Local, Bits<16>>,
    emss_up: Signal<Local, Bits<17>>,
    mul16: Signal<Local, Bits<16>>,
    e_opcode: Signal<Local, Bits<8>>,
    e_flags: Signal<Local, Bits<8>>,
    e_sges: Signal<Local, Bits<8>>,
    e_inline: Signal<Local, Bits<8>>,
    e_is_inline: Signal<Local, Bit>,
    e_read: Signal<Local, Bit>,
    bad: Signal<Local, Bit>,
    sge_next: Signal<Local, Bits<8>>,
    sge_word: Signal<Local, Bits<4>>,
    size: Signal<Local, Bits<32>>,
    is_read: Signal<Local, Bit>,
    is_response: Signal<Local, Bit>,
    is_tagged: Signal<Local, Bit>,
    end_word: Signal<Local, Bits<3>>,
    invalidates: Signal<Local, Bit>,
    head: Signal<Local, ItemHead>,
    item_size: Signal<Local, ItemSize>,
    qn: Signal<Local, Bits<32>>,
    msn: Signal<Local, Bits<32>>,
    big: Signal<Local, Bits<64>>,
    big_low: Signal<Local, Bits<32>>,
    big_all: Signal<Local, Bits<64>>,
    swapped: Signal<Local, SqOctets>,
    data_put: Signal<Local, Bit>,
    data_item: Signal<Local, Bits<4>>,
    data_word: Signal<Local, Bits<3>>,
    data_data: Signal<Local, Bits<64>>,
    ok_fail: Signal<Local, Bit>,
    complete: Signal<Local, Bit>,
    tell: Signal<Local, Bit>,
    work_opcode: Signal<Local, Bits<3>>,
    wait_read: Signal<Local, Bit>,
    most: Signal<Local, Bits<32>>,
    framed: Signal<Local, Bits<16>>,
    ahead: Signal<Local, Bits<9>>,
    event_note: Signal<Local, SqAsyncNote>,
    event_put: Signal<Local, Bit>,
    reference: Signal<Local, FpduRef>,
    begun: Signal<Local, Bit>,
    begun_kind: Signal<Local, SqKind>,
}

impl<
        const C: usize,
        const C1: usize,
        const C4: usize,
        const C5: usize,
        const C7: usize,
        const C8: usize,
        const R: usize,
        const CR1: usize,
    > Logic for SendQueue<C, C1, C4, C5, C7, C8, R, CR1>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, step, job, index, cleared, turn, prefer, unbind_wait, was_queued, settled, wants, tx_full, tx_out);
        dff_setup!(self, clock, at_hand, at_once);
        dff_setup!(self, clock, issued_full, issued_out, responded_full, responded_out, event_full, event_out, unbound_full, unbound_out);
        dff_setup!(self, clock, mulpdu, marker_octets, work, fpdu, masked, done, ord_full, entry, kind, item, opcode, in_line, status);
        dff_setup!(self, clock, stag, to, total, sge, sge_len, sge_stag, sge_to, word, last, take, wire_len, rest);
        clock!(self, clock, items, fetcher, rows, owed, queue);
        self.works.read_clock.next = self.clock.val();
        self.works.write_clock.next = self.clock.val();
        self.fpdus.read_clock.next = self.clock.val();
        self.fpdus.write_clock.next = self.clock.val();
        self.fetcher.reset.next = self.reset.val();
        self.rows.reset.next = self.reset.val();
        self.queue.reset.next = self.reset.val();

        // ---- inputs
        self.b.next = self.bind.data.val();
        self.qp.next = self.b.val().qp;
        self.sq_base.next = self.qp.val().sq_base;
        self.b_ord.next = self.b.val().ord;
        self.b_index.next = self.b.val().index;
        self.rx.next = self.from_rx.data.val();
        self.rx_index.next = self.rx.val().index;
        self.rx_len.next = self.rx.val().len;
        self.tx.next = self.from_tx.data.val();
        self.tx_index.next = self.tx.val().index;
        self.post.next = self.posted.data.val();
        self.post_index.next = self.post.val().index;
        self.close_index.next = self.close.data.val();
        self.fault_index.next = self.fault.data.val();
        self.here_item.next = self.fetcher.here_item.val();
        self.bind.ready.next = false;
        self.from_rx.ready.next = false;
        self.from_tx.ready.next = false;
        self.posted.ready.next = false;
        self.close.ready.next = false;
        self.fault.ready.next = false;
        self.answer.ready.next = false;
        self.index16.next = bit_cast::<16, C>(self.index.q.val());

        // ---- outputs
        self.ready.next = self.step.q.val() != SqStep::Clear;
        self.quiet.next = true;
        self.to_tx.data.next = self.tx_out.q.val();
        self.to_tx.valid.next = self.tx_full.q.val() & !self.issued_full.q.val();
        if self.to_tx.ready.val() & !self.issued_full.q.val() {
            self.tx_full.d.next = false;
        }
        self.issued.data.next = self.issued_out.q.val();
        self.issued.valid.next = self.issued_full.q.val();
        if self.issued.ready.val() {
            self.issued_full.d.next = false;
        }
        self.responded.data.next = self.responded_out.q.val();
        self.responded.valid.next = self.responded_full.q.val();
        if self.responded.ready.val() {
            self.responded_full.d.next = false;
        }
        self.event.data.next = self.event_out.q.val();
        self.event.valid.next = self.event_full.q.val();
        if self.event.ready.val() {
            self.event_full.d.next = false;
        }
        self.unbound.data.next = self.unbound_out.q.val();
        self.unbound.valid.next = self.unbound_full.q.val();
        if self.unbound.ready.val() {
            self.unbound_full.d.next = false;
        }
        self.rd_req.data.next = self.fetcher.rd_req.data.val();
        self.rd_req.valid.next = self.fetcher.rd_req.valid.val();
        self.fetcher.rd_req.ready.next = self.rd_req.ready.val();
        self.fetcher.rd_beat.data.next = self.rd_beat.data.val();
        self.fetcher.rd_beat.valid.next = self.rd_beat.valid.val();
        self.rd_beat.ready.next = self.fetcher.rd_beat.ready.val();
        self.event_note.next = SqAsyncNote::LocalError;
        self.event_put.next = false;

        // ---- the row, and what there is to do for it
        self.r.next = self.rows.row.val();
        self.n.next = self.r.val();
        self.rows.index.next = self.index.q.val();
        self.rows.open.next = false;
        self.rows.set.next = true;
        self.rows.erase.next = false;
        self.rows.clear.next = false;
        self.fpdus_now.next = self.r.val().fpdus;
        self.fpdu_room.next = !self.fpdus_now.val().get_bit(5);
        self.fetching_now.next = self.r.val().fetching;
        self.other_room.next = self.r.val().others != 3;
        self.rtr.next = self.r.val().rtr_write | self.r.val().rtr_read;
        self.free.next =
            self.r.val().heard & (self.r.val().most_tagged != 0) & !self.r.val().stopped & !self.r.val().cutting & self.fpdu_room.val();
        self.may_begin.next = self.free.val() & !self.rtr.val() & !self.r.val().no_start;
        self.fetch_now.next = false;
        self.wants.d.next.fetch = self.r.val().bound
            & !self.r.val().no_take
            & (self.r.val().posted != self.r.val().fetch)
            & (self.r.val().open != 12)
            & !self.fetching_now.val().get_bit(2);
        self.wants.d.next.cut = self.r.val().cutting & !self.r.val().stopped & self.fpdu_room.val();
        self.wants.d.next.rtr = self.free.val() & self.rtr.val() & self.other_room.val();
        self.wants.d.next.terminate = self.free.val() & !self.rtr.val() & self.r.val().terminate;
        self.wants.d.next.response = self.may_begin.val() & (self.r.val().owed != 0) & self.other_room.val();
        self.wants.d.next.work = self.may_begin.val() & (self.r.val().taken != 0) & !self.r.val().blocked;
        self.wants.d.next.mute = self.r.val().terminate & !self.r.val().heard & !self.r.val().stopped;
        self.wants.d.next.drain = self.r.val().closing
            & !self.r.val().drained
            & (self.r.val().posted == self.r.val().fetch)
            & (self.r.val().open == 0)
            & (self.r.val().owed == 0)
            & (self.r.val().fpdus == 0)
            & !self.r.val().cutting
            & !self.rtr.val();
        self.some.next = self.wants.q.val().fetch
            | self.wants.q.val().cut
            | self.wants.q.val().rtr
            | self.wants.q.val().terminate
            | self.wants.q.val().response
            | self.wants.q.val().work
            | self.wants.q.val().mute
            | self.wants.q.val().drain;
        self.settled.d.next = false;
        self.queue.inp.data.next = self.index.q.val();
        self.queue.inp.valid.next = false;
        self.queue.out.ready.next = false;
        self.turn_ok.next = !self.tx_full.q.val() & !self.issued_full.q.val() & !self.responded_full.q.val() & !self.event_full.q.val();
        self.next_index.next = self.index.q.val();
        self.chosen.next = false;
        self.news.next = self.from_rx.valid.val() | (self.from_tx.valid.val() & !self.event_full.q.val());
        self.bind_ok.next = self.bind.valid.val() & !self.unbind_wait.q.val();
        if self.b.val().op == BindOp::Unbind {
            self.bind_ok.next = self.bind.valid.val() & !self.unbind_wait.q.val() & self.turn_ok.val() & !self.unbound_full.q.val();
        }
        self.orders.next = self.close.valid.val() | self.posted.valid.val();
        self.orders_first.next = (self.prefer.q.val() == 2) | ((self.prefer.q.val() == 1) & !self.fetcher.here.val());
        self.turn_now.next = false;
        self.directly.next = false;
        self.again.next = self.settled.q.val() & self.some.val() & !self.r.val().queued;

        // ---- places
        self.item_base.next = bit_cast::<C4, C>(self.index.q.val()) << 4;
        self.fetch_next.next = self.r.val().fetch_item + 1;
        if self.r.val().fetch_item == 11 {
            self.fetch_next.next = 0.into();
        }
        self.send_next.next = self.r.val().send_item + 1;
        if self.r.val().send_item == 11 {
            self.send_next.next = 0.into();
        }
        self.done_next.next = self.r.val().done_item + 1;
        if self.r.val().done_item == 11 {
            self.done_next.next = 0.into();
        }
        self.other_next.next = self.r.val().other_item + 1;
        if self.r.val().other_item == 14 {
            self.other_next.next = 12.into();
        }
        self.work_item.next = self.r.val().done_item;
        if self.step.q.val() == SqStep::Turn1 {
            self.work_item.next = self.r.val().send_item;
        }
        self.works.read_address.next = self.item_base.val() | bit_cast::<C4, 4>(self.work_item.val());
        self.works.write_address.next = self.item_base.val() | bit_cast::<C4, 4>(self.item.q.val());
        self.works.write_enable.next = false;
        self.work.d.next = self.works.read_data.val();
        self.work_opcode.next = self.work.q.val().opcode;
        self.fpdu_oldest.next = self.r.val().fpdu_at - self.fpdus_now.val().get_bits::<5>(0);
        self.fpdu_place.next = self.r.val().fpdu_at;
        self.fpdus.read_address.next = (bit_cast::<C5, C>(self.index.q.val()) << 5) | bit_cast::<C5, 5>(self.fpdu_oldest.val());
        self.fpdus.write_address.next = (bit_cast::<C5, C>(self.index.q.val()) << 5) | bit_cast::<C5, 5>(self.fpdu_place.val());
        self.fpdus.write_data.next.last = self.last.q.val();
        self.fpdus.write_data.next.kind = self.r.val().kind;
        self.fpdus.write_enable.next = false;
        self.fpdu.d.next = self.fpdus.read_data.val();
        self.owed_at.next = self.r.val().owed_at;
        self.owed_count.next = bit_cast::<6, 7>(self.r.val().owed);
        self.owed_oldest.next = self.owed_at.val() - self.owed_count.val();
        self.owed.index.next = self.index.q.val();
        self.owed.read_at.next = self.owed_oldest.val();
        self.owed.put_at.next = self.owed_at.val();
        self.owed.second.next = (self.step.q.val() == SqStep::RxRequest) | (self.step.q.val() == SqStep::Owed);
        self.owed.value.next.stag = self.rx.val().sink_stag;
        self.owed.value.next.to = self.rx.val().sink_to;
        self.owed.value.next.len = self.rx_len.val().get_bits::<16>(0);
        if self.step.q.val() == SqStep::RxRequest {
            self.owed.value.next.stag = self.rx.val().stag;
            self.owed.value.next.to = self.rx.val().to;
            self.owed.value.next.len = self.rx_len.val().get_bits::<16>(16);
        }
        self.owed.put.next = false;
        self.owed_half.next = self.owed.read.val();

        // ---- the send queue entry, and what is made of it
        self.log2.next = self.r.val().log2;
        self.ones.next = 0xffff_u64.into();
        self.above.next = self.ones.val() << self.log2.val();
        self.below.next = !self.above.val();
        self.masked.d.next = self.r.val().fetch & self.below.val();
        self.fetcher.start.next = false;
        self.fetcher.item.next = self.item_base.val() | bit_cast::<C4, 4>(self.r.val().fetch_item);
        self.fetcher.base.next = bit_cast::<64, 58>(self.r.val().base) << 6;
        self.fetcher.number.next = self.masked.q.val();
        self.fetcher.word.next = 0.into();
        self.fetcher.pop.next = false;
        self.e_opcode.next = self.entry.q.val().get_bits::<8>(0);
        self.e_flags.next = self.entry.q.val().get_bits::<8>(8);
        self.e_sges.next = self.entry.q.val().get_bits::<8>(16);
        self.e_inline.next = self.entry.q.val().get_bits::<8>(24);
        self.e_is_inline.next = self.e_flags.val().get_bit(2);
        self.e_read.next = self.e_opcode.val() == 1;
        self.bad.next = self.fetcher.here_failed.val()
            | (self.e_opcode.val() > 6)
            | (self.e_opcode.val() == 2)
            | (self.e_sges.val() > 4)
            | (self.e_is_inline.val() & (self.e_inline.val() > 64))
            | (self.e_read.val() & (self.e_is_inline.val() | (self.e_sges.val() > 1) | (self.r.val().ord == 0)));
        self.sge_next.next = self.sge.q.val() + 1;
        self.sge_word.next = (bit_cast::<4, 8>(self.sge.q.val()) << 1) + 4;
        self.size.next = self.total.q.val().get_bits::<32>(0);
        self.ask.valid.next = false;
        self.ask.data.next.op = RegionOp::Check;
        self.ask.data.next.stag = self.sge_stag.q.val();
        self.ask.data.next.to = self.sge_to.q.val();
        self.ask.data.next.len = self.sge_len.q.val();
        self.ask.data.next.pd = self.r.val().pd;
        self.ask.data.next.qpn = self.r.val().qpn;
        self.ask.data.next.need = 0.into();
        if self.e_read.val() {
            self.ask.data.next.need = 1.into();
        }
        self.works.write_data.next.len = self.size.val();
        self.works.write_data.next.stag = self.sge_stag.q.val();
        self.works.write_data.next.to = self.sge_to.q.val();
        self.works.write_data.next.opcode = self.opcode.q.val().get_bits::<3>(0);
        self.works.write_data.next.signaled = self.e_flags.val().get_bit(0);
        self.works.write_data.next.fence = self.e_flags.val().get_bit(1);
        self.works.write_data.next.status = self.status.q.val();

        self.begins_at_once.next = self.may_begin.val()
            & self.turn_ok.val()
            & (self.status.q.val() == 0)
            & (self.r.val().taken == 0)
            & (self.r.val().owed == 0)
            & !self.e_read.val()
            & !self.e_flags.val().get_bit(1);

        // ---- an item
        self.is_read.next = self.opcode.q.val() == 1;
        self.is_response.next = self.opcode.q.val() == 2;
        self.is_tagged.next = (self.opcode.q.val() == 0) | self.is_response.val();
        self.invalidates.next = (self.opcode.q.val() == 4) | (self.opcode.q.val() == 6);
        self.head.next.opcode = self.opcode.q.val();
        self.head.next.in_line = self.in_line.q.val();
        self.head.next.remote = self.is_response.val();
        self.head.next.spare = 0.into();
        self.head.next.pd = self.r.val().pd;
        self.head.next.stag = 0.into();
        if self.is_tagged.val() | self.invalidates.val() {
            self.head.next.stag = self.stag.q.val();
        }
        self.qn.next = 0.into();
        self.msn.next = self.r.val().msn_send;
        if self.kind.q.val() == SqKind::Terminate {
            self.qn.next = 2.into();
            self.msn.next = 1.into();
        } else if self.is_read.val() {
            self.qn.next = 1.into();
            self.msn.next = self.r.val().msn_read;
            if self.kind.q.val() == SqKind::Rtr {
                self.msn.next = 1.into();
            }
        }
        self.item_size.next.len = self.size.val();
        if self.is_read.val() {
            self.item_size.next.len = 28.into();
        }
        self.item_size.next.qpn = self.r.val().qpn;
        self.item_size.next.markers = self.r.val().markers;
        self.item_size.next.crc = self.r.val().crc;
        self.item_size.next.spare = 0.into();
        self.items.head_put.next = false;
        self.items.head_item.next = self.item_base.val() | bit_cast::<C4, 4>(self.item.q.val());
        self.items.head_word.next = self.word.q.val().get_bits::<2>(0);
        self.items.head_data.next = bit_cast::<64, 64>(self.head.val().into());
        if self.word.q.val() == 1 {
            self.items.head_data.next = (bit_cast::<64, 32>(self.msn.val()) << 32) | bit_cast::<64, 32>(self.qn.val());
            if self.is_tagged.val() {
                self.items.head_data.next = self.to.q.val();
            }
        } else if self.word.q.val() == 2 {
            self.items.head_data.next = bit_cast::<64, 64>(self.item_size.val().into());
        }
        // payload of a Read Request, as a number whose highest octet leaves first
        self.big.next = bit_cast::<64, 32>(self.sge_stag.q.val()) << 32;
        self.big_low.next = self.sge_to.q.val().get_bits::<32>(32);
        if self.word.q.val() == 1 {
            self.big.next = self.sge_to.q.val() << 32;
            self.big_low.next = self.size.val();
        } else if self.word.q.val() == 2 {
            self.big.next = bit_cast::<64, 32>(self.stag.q.val()) << 32;
            self.big_low.next = self.to.q.val().get_bits::<32>(32);
        } else if self.word.q.val() == 3 {
            self.big.next = self.to.q.val() << 32;
            self.big_low.next = 0.into();
        }
        self.big_all.next = self.big.val() | bit_cast::<64, 32>(self.big_low.val());
        self.swapped.next.a = self.big_all.val().get_bits::<8>(56);
        self.swapped.next.b = self.big_all.val().get_bits::<8>(48);
        self.swapped.next.c = self.big_all.val().get_bits::<8>(40);
        self.swapped.next.d = self.big_all.val().get_bits::<8>(32);
        self.swapped.next.e = self.big_all.val().get_bits::<8>(24);
        self.swapped.next.f = self.big_all.val().get_bits::<8>(16);
        self.swapped.next.g = self.big_all.val().get_bits::<8>(8);
        self.swapped.next.h = self.big_all.val().get_bits::<8>(0);
        self.end_word.next = 2.into();
        if self.status.q.val() != 0 {
            self.end_word.next = 0.into();
        } else if self.is_read.val() {
            self.end_word.next = 3.into();
        } else if self.is_response.val() {
            self.end_word.next = 4.into();
        }
        self.data_put.next = false;
        self.data_item.next = self.item.q.val();
        self.data_word.next = self.word.q.val();
        self.data_data.next = bit_cast::<64, 64>(self.swapped.val().into());

        // ---- completion
        self.ok_fail.next = self.r.val().failed & (self.work.q.val().status != 0);
        self.complete.next =
            self.ok_fail.val() | ((self.r.val().acked != 0) & ((self.work_opcode.val() != 1) | (self.r.val().reads_done != 0)));
        self.tell.next = self.complete.val() & (self.work.q.val().signaled | self.r.val().all_signaled | self.ok_fail.val());
        self.completion.valid.next = false;
        self.completion.data.next.cqn = self.r.val().cqn;
        self.completion.data.next.qpn = self.r.val().qpn;
        self.done.d.next = self.r.val().fetch - bit_cast::<16, 4>(self.r.val().open);
        self.completion.data.next.wqe = self.done.q.val();
        self.completion.data.next.opcode = bit_cast::<8, 3>(self.work_opcode.val());
        if self.work_opcode.val() > 2 {
            self.completion.data.next.opcode = 3.into();
        }
        self.completion.data.next.status = bit_cast::<8, 3>(self.work.q.val().status);
        self.completion.data.next.len = self.work.q.val().len;
        self.completion.data.next.stag = 0.into();
        self.completion.data.next.invalidated = false;
        self.completion.data.next.solicited = false;

        // ---- MULPDU and FPDUs
        self.emss.next = self.r.val().emss;
        self.emss_low.next = self.emss.val() & 0xfffc;
        self.emss_up.next = bit_cast::<17, 16>(self.emss.val()) + 511;
        self.mul16.next = self.mulpdu.q.val().get_bits::<16>(0);
        self.ord_full.d.next = self.r.val().reads >= self.r.val().ord;
        self.wait_read.next =
            ((self.work_opcode.val() == 1) & self.ord_full.q.val()) | (self.work.q.val().fence & (self.r.val().reads != 0));
        self.most.next = bit_cast::<32, 16>(self.r.val().most_tagged);
        self.framed.next = self.take.q.val() + 23;
        if self.r.val().untagged {
            self.most.next = bit_cast::<32, 16>(self.r.val().most_untagged);
            self.framed.next = self.take.q.val() + 27;
        }
        self.ahead.next = bits::<9>(0) - self.r.val().phase;
        self.reference.next.item = self.r.val().item;
        self.reference.next.offset = self.r.val().offset;
        self.reference.next.len = self.take.q.val();
        self.reference.next.last = self.last.q.val();
        self.reference.next.phase = self.r.val().phase;
        self.begun.next = false;
        self.begun_kind.next = self.kind.q.val();

        match self.step.q.val() {
            SqStep::Clear => {
                self.rows.clear.next = true;
                if self.rows.row_cleared.val() {
                    self.cleared.d.next = self.cleared.q.val() + 1;
                    if self.cleared.q.val().all() {
                        self.step.d.next = SqStep::Idle;
                    }
                }
            }
            SqStep::Idle => {
                if self.bind_ok.val() {
                    self.chosen.next = true;
                    self.job.d.next = SqJob::Bind;
                    self.next_index.next = self.b_index.val().get_bits::<C>(0);
                } else if self.turn.q.val() & self.queue.out.valid.val() & self.turn_ok.val() {
                    self.turn_now.next = true;
                } else if self.fault.valid.val() & !self.event_full.q.val() {
                    self.chosen.next = true;
                    self.job.d.next = SqJob::Fault;
                    self.next_index.next = self.fault_index.val().get_bits::<C>(0);
                } else if self.orders.val() & (self.orders_first.val() | (!self.news.val() & !self.fetcher.here.val())) {
                    self.chosen.next = true;
                    self.prefer.d.next = 0.into();
                    self.job.d.next = SqJob::Posted;
                    self.next_index.next = self.post_index.val().get_bits::<C>(0);
                    if self.close.valid.val() {
                        self.job.d.next = SqJob::Close;
                        self.next_index.next = self.close_index.val().get_bits::<C>(0);
                    }
                } else if self.fetcher.here.val() & ((self.prefer.q.val() == 1) | !self.news.val()) {
                    self.chosen.next = true;
                    self.prefer.d.next = 2.into();
                    self.job.d.next = SqJob::Take;
                    self.next_index.next = self.here_item.val().get_bits::<C>(4);
                } else if self.news.val() {
                    self.chosen.next = true;
                    self.prefer.d.next = 1.into();
                    self.job.d.next = SqJob::Tx;
                    self.next_index.next = self.tx_index.val().get_bits::<C>(0);
                    if self.from_rx.valid.val() {
                        self.job.d.next = SqJob::Rx;
                        self.next_index.next = self.rx_index.val().get_bits::<C>(0);
                    }
                } else if self.queue.out.valid.val() & self.turn_ok.val() {
                    self.turn_now.next = true;
                } else if self.again.val() & self.turn_ok.val() {
                    // nobody else waits
                    self.directly.next = true;
                    self.job.d.next = SqJob::Turn;
                }
                self.turn.d.next = self.turn.q.val() | self.chosen.val();
                if self.turn_now.val() {
                    self.turn.d.next = false;
                    self.queue.out.ready.next = true;
                    self.job.d.next = SqJob::Turn;
                    self.next_index.next = self.queue.out.data.val();
                }
                if self.again.val() & !self.directly.val() {
                    self.queue.inp.valid.next = true;
                    self.n.next.queued = true;
                }
                self.index.d.next = self.next_index.val();
                self.at_hand.d.next = self.next_index.val() == self.index.q.val();
                self.rows.index.next = self.next_index.val();
                if self.chosen.val() | self.turn_now.val() | self.directly.val() {
                    self.rows.open.next = true;
                    self.step.d.next = SqStep::Load;
                }
            }
            SqStep::Load => {
                self.rows.open.next = true;
                self.item.d.next = self.here_item.val().get_bits::<4>(0);
                if self.rows.there.val() {
                    self.fetcher.word.next = 1.into();
                    match self.job.q.val() {
                        SqJob::Bind => {
                            self.step.d.next = SqStep::Bind;
                        }
                        SqJob::Fault => {
                            self.step.d.next = SqStep::Fault;
                        }
                        SqJob::Rx => {
                            self.step.d.next = SqStep::Rx;
                        }
                        SqJob::Tx => {
                            self.step.d.next = SqStep::Tx;
                            if self.at_hand.q.val() & (self.tx.val().note == TxSqNote::Acked) {
                                self.from_tx.ready.next = true;
                                self.step.d.next = SqStep::Ack3;
                            }
                        }
                        SqJob::Take => {
                            self.step.d.next = SqStep::Take1;
                        }
                        SqJob::Close => {
                            self.step.d.next = SqStep::Close;
                        }
                        SqJob::Posted => {
                            self.step.d.next = SqStep::Posted;
                        }
                        _ => {
                            self.step.d.next = SqStep::Turn1;
                        }
                    }
                }
            }

            // what others tell
            SqStep::Bind => {
                self.step.d.next = SqStep::Settle;
                if self.b.val().op == BindOp::Bind {
                    self.bind.ready.next = true;
                    self.n.next.bound = true;
                    self.n.next.heard = !self.b.val().responder;
                    self.n.next.crc = self.b.val().crc;
                    self.n.next.markers = self.b.val().markers;
                    self.n.next.all_signaled = self.qp.val().all_signaled;
                    self.n.next.rtr_write = self.b.val().rtr_write & !self.b.val().responder;
                    self.n.next.rtr_read = self.b.val().rtr_read & !self.b.val().rtr_write & !self.b.val().responder;
                    self.n.next.qpn = self.qp.val().qpn;
                    self.n.next.pd = self.qp.val().pd;
                    self.n.next.cqn = self.qp.val().send_cqn;
                    self.n.next.base = self.sq_base.val().get_bits::<58>(6);
                    self.n.next.log2 = self.qp.val().sq_log2;
                    self.n.next.ord = self.b_ord.val().get_bits::<5>(0);
                    if self.b_ord.val() > 31 {
                        self.n.next.ord = 31.into();
                    }
                    self.n.next.other_item = 12.into();
                    self.n.next.msn_send = 1.into();
                    self.n.next.msn_read = 1.into();
                    // MSN 1 is the RTR's
                    if self.b.val().rtr_read & !self.b.val().rtr_write & !self.b.val().responder {
                        self.n.next.msn_read = 2.into();
                    }
                    if self.b.val().terminate.any() {
                        self.n.next.terminate = true;
                        self.n.next.terminate_len = 4.into();
                        self.n.next.no_take = true;
                        self.n.next.no_start = true;
                        self.data_put.next = true;
                        self.data_item.next = 15.into();
                        self.data_word.next = 0.into();
                        self.data_data.next = (bit_cast::<64, 8>(self.b.val().terminate) << 8) | 0x20;
                    }
                    self.step.d.next = SqStep::Mulpdu1;
                } else if self.r.val().fetching != 0 {
                    self.n.next.no_take = true;
                    self.n.next.no_start = true;
                    self.n.next.stopped = true;
                    self.unbind_wait.d.next = true;
                } else {
                    self.bind.ready.next = true;
                    self.was_queued.d.next = self.r.val().queued;
                    self.rows.erase.next = true;
                    self.step.d.next = SqStep::Unbound;
                }
            }
            SqStep::Unbound => {
                self.n.next.queued = self.was_queued.q.val();
                self.unbound_out.d.next = self.index16.val();
                self.unbound_full.d.next = true;
                self.step.d.next = SqStep::Idle;
            }
            SqStep::Fault => {
                self.fault.ready.next = true;
                if self.r.val().bound {
                    self.n.next.no_take = true;
                    self.n.next.no_start = true;
                    self.n.next.stopped = true;
                    self.event_note.next = SqAsyncNote::SourceLost;
                    self.event_put.next = true;
                }
                self.step.d.next = SqStep::Settle;
            }
            SqStep::Close => {
                self.close.ready.next = true;
                self.n.next.closing = self.r.val().bound;
                self.step.d.next = SqStep::Settle;
            }
            SqStep::Posted => {
                self.posted.ready.next = true;
                if self.r.val().bound {
                    self.n.next.posted = self.post.val().posted;
                }
                self.step.d.next = SqStep::Settle;
            }
            SqStep::Rx => {
                self.from_rx.ready.next = true;
                self.step.d.next = SqStep::Settle;
                if self.r.val().bound {
                    match self.rx.val().note {
                        RxSqNote::ReadRequest => {
                            self.from_rx.ready.next = false;
                            self.owed.put.next = true;
                            self.step.d.next = SqStep::RxRequest;
                        }
                        RxSqNote::ReadDone => {
                            self.n.next.blocked = false;
                            self.n.next.reads = self.r.val().reads - 1;
                            if self.r.val().rtr_out {
                                self.n.next.rtr_out = false;
                            } else {
                                self.n.next.reads_done = self.r.val().reads_done + 1;
                                self.step.d.next = SqStep::DoneRead;
                            }
                        }
                        RxSqNote::Heard => {
                            self.n.next.heard = true;
                        }
                        RxSqNote::TermWord => {
                            self.data_put.next = !self.r.val().terminate;
                            self.data_item.next = 15.into();
                            self.data_word.next = self.rx_len.val().get_bits::<3>(0);
                            self.data_data.next = self.rx.val().to;
                        }
                        RxSqNote::Terminate => {
                            if !self.r.val().terminate {
                                self.n.next.terminate = true;
                                self.n.next.terminate_len = self.rx_len.val().get_bits::<6>(0);
                                self.n.next.no_take = true;
                                self.n.next.no_start = true;
                            }
                        }
                        _ => {
                            self.n.next.no_take = true;
                            self.n.next.no_start = true;
                            self.n.next.stopped = true;
                        }
                    }
                }
            }
            // the other half of a Read Request
            SqStep::RxRequest => {
                self.from_rx.ready.next = true;
                self.owed.put.next = true;
                self.n.next.owed = self.r.val().owed + 1;
                self.n.next.owed_at = self.r.val().owed_at + 1;
                self.step.d.next = SqStep::Settle;
            }
            SqStep::Tx => {
                self.from_tx.ready.next = true;
                self.step.d.next = SqStep::Ack2;
                if self.tx.val().note == TxSqNote::Emss {
                    self.n.next.emss = self.tx.val().emss;
                    self.step.d.next = SqStep::Mulpdu1;
                }
            }

            // MULPDU (SEG-1, 2, 8)
            SqStep::Mulpdu1 => {
                self.mulpdu.d.next = bit_cast::<18, 16>(self.emss_low.val()) - 6;
                self.marker_octets.d.next = 0.into();
                if self.r.val().markers {
                    self.marker_octets.d.next = bit_cast::<18, 8>(self.emss_up.val().get_bits::<8>(9)) << 2;
                }
                self.step.d.next = SqStep::Mulpdu2;
            }
            SqStep::Mulpdu2 => {
                self.mulpdu.d.next = self.mulpdu.q.val() - self.marker_octets.q.val();
                self.step.d.next = SqStep::Mulpdu3;
            }
            SqStep::Mulpdu3 => {
                if self.mulpdu.q.val().get_bit(17) | (self.mulpdu.q.val() < 128) {
                    self.mulpdu.d.next = 128.into();
                } else if self.mulpdu.q.val() > 64768 {
                    self.mulpdu.d.next = 64768.into();
                }
                self.step.d.next = SqStep::Mulpdu4;
            }
            SqStep::Mulpdu4 => {
                if self.emss.val() != 0 {
                    self.n.next.most_tagged = self.mul16.val() - 14;
                    self.n.next.most_untagged = self.mul16.val() - 18;
                }
                self.step.d.next = SqStep::Settle;
            }

            // an FPDU is acknowledged
            SqStep::Ack2 => {
                self.step.d.next = SqStep::Ack3;
            }
            SqStep::Ack3 => {
                self.step.d.next = SqStep::Settle;
                if self.r.val().fpdus != 0 {
                    self.n.next.fpdus = self.r.val().fpdus - 1;
                    if self.fpdu.q.val().last {
                        match self.fpdu.q.val().kind {
                            SqKind::Work => {
                                self.n.next.acked = self.r.val().acked + 1;
                                self.step.d.next = SqStep::Done;
                            }
                            SqKind::Response => {
                                self.n.next.others = self.r.val().others - 1;
                            }
                            SqKind::Rtr => {
                                self.n.next.others = self.r.val().others - 1;
                            }
                            _ => {
                                self.event_note.next = SqAsyncNote::Terminated;
                                self.event_put.next = true;
                            }
                        }
                    }
                }
            }

            // completions, the oldest first
            SqStep::DoneRead => {
                self.step.d.next = SqStep::DoneWait;
            }
            SqStep::DoneWait => {
                self.step.d.next = SqStep::Done;
            }
            SqStep::Done => {
                self.completion.valid.next = self.tell.val();
                if !self.complete.val() {
                    self.step.d.next = SqStep::Settle;
                } else if !self.tell.val() | self.completion.ready.val() {
                    self.n.next.done_item = self.done_next.val();
                    self.n.next.open = self.r.val().open - 1;
                    self.step.d.next = SqStep::DoneRead;
                    if self.ok_fail.val() {
                        self.n.next.failed = false;
                        self.step.d.next = SqStep::Settle;
                    } else {
                        self.n.next.acked = self.r.val().acked - 1;
                        if self.work_opcode.val() == 1 {
                            self.n.next.reads_done = self.r.val().reads_done - 1;
                        }
                        if (self.r.val().acked == 1) & !self.r.val().failed {
                            self.step.d.next = SqStep::Settle;
                        }
                    }
                }
            }

            // a send queue entry has come
            SqStep::Take1 => {
                self.entry.d.next = self.fetcher.data.val();
                self.kind.d.next = SqKind::Work;
                self.status.d.next = 0.into();
                self.total.d.next = 0.into();
                self.sge.d.next = 0.into();
                self.sge_stag.d.next = 1.into();
                self.sge_to.d.next = 0.into();
                self.word.d.next = 0.into();
                self.fetcher.word.next = 4.into();
                self.step.d.next = SqStep::Take2;
            }
            SqStep::Take2 => {
                self.to.d.next = self.fetcher.data.val();
                self.opcode.d.next = self.e_opcode.val();
                self.in_line.d.next = self.e_is_inline.val() | self.e_read.val();
                self.stag.d.next = self.entry.q.val().get_bits::<32>(32);
                self.fetcher.word.next = 5.into();
                self.step.d.next = SqStep::Make;
                if self.r.val().no_take {
                    self.fetcher.pop.next = true;
                    self.unbind_wait.d.next = false;
                    self.n.next.fetching = self.r.val().fetching - 1;
                    self.step.d.next = SqStep::Settle;
                } else if self.bad.val() {
                    self.status.d.next = 2.into();
                } else if self.e_is_inline.val() {
                    self.total.d.next = bit_cast::<36, 8>(self.e_inline.val());
                } else if self.e_sges.val() != 0 {
                    self.step.d.next = SqStep::Sge1;
                }
            }
            SqStep::SgeRead => {
                self.fetcher.word.next = self.sge_word.val();
                self.step.d.next = SqStep::SgeWait;
            }
            SqStep::SgeWait => {
                self.fetcher.word.next = self.sge_word.val() + 1;
                self.step.d.next = SqStep::Sge1;
            }
            SqStep::Sge1 => {
                self.sge_len.d.next = self.fetcher.data.val().get_bits::<32>(0);
                self.sge_stag.d.next = self.fetcher.data.val().get_bits::<32>(32);
                self.step.d.next = SqStep::Sge2;
            }
            SqStep::Sge2 => {
                self.sge_to.d.next = self.fetcher.data.val();
                self.total.d.next = self.total.q.val() + bit_cast::<36, 32>(self.sge_len.q.val());
                self.step.d.next = SqStep::Ask;
                if self.sge_len.q.val() == 0 {
                    self.step.d.next = SqStep::SgeNext;
                }
            }
            SqStep::Ask => {
                self.ask.valid.next = true;
                if self.ask.ready.val() {
                    self.step.d.next = SqStep::Answer;
                }
            }
            SqStep::Answer => {
                self.answer.ready.next = true;
                if self.answer.valid.val() {
                    self.step.d.next = SqStep::SgeNext;
                    if self.answer.data.val().status != RegionStatus::Ok {
                        self.status.d.next = 4.into();
                        self.step.d.next = SqStep::Make;
                    }
                }
            }
            SqStep::SgeNext => {
                self.sge.d.next = self.sge_next.val();
                self.step.d.next = SqStep::SgeRead;
                if self.sge_next.val() == self.e_sges.val() {
                    self.step.d.next = SqStep::Sum;
                }
            }
            SqStep::Sum => {
                if self.total.q.val().get_bits::<5>(31) != 0 {
                    self.status.d.next = 1.into();
                }
                self.step.d.next = SqStep::Make;
            }

            // words of an item
            SqStep::Make => {
                self.word.d.next = self.word.q.val() + 1;
                self.items.head_put.next = (self.word.q.val() < 3) & (self.status.q.val() == 0);
                if self.is_response.val() {
                    self.data_put.next = true;
                    if self.word.q.val() == 0 {
                        self.data_data.next = bit_cast::<64, 32>(self.size.val()) | (bit_cast::<64, 32>(self.sge_stag.q.val()) << 32);
                    } else if self.word.q.val() == 1 {
                        self.data_data.next = self.sge_to.q.val();
                    } else {
                        // the other SGEs are not used
                        self.data_word.next = (self.word.q.val() << 1) - 2;
                        self.data_data.next = 0.into();
                    }
                } else {
                    self.data_put.next = self.is_read.val() & (self.status.q.val() == 0);
                }
                if self.word.q.val() == self.end_word.val() {
                    if self.kind.q.val() == SqKind::Work {
                        self.works.write_enable.next = true;
                        self.fetcher.pop.next = true;
                        self.unbind_wait.d.next = false;
                        self.n.next.fetching = self.r.val().fetching - 1;
                        if self.status.q.val() != 0 {
                            self.n.next.no_take = true;
                        } else if self.is_read.val() {
                            self.n.next.msn_read = self.r.val().msn_read + 1;
                        } else if !self.is_tagged.val() {
                            self.n.next.msn_send = self.r.val().msn_send + 1;
                        }
                        if self.begins_at_once.val() {
                            self.begun.next = true;
                            self.at_once.d.next = true;
                            self.n.next.favor_work = false;
                            self.n.next.send_item = self.send_next.val();
                            self.n.next.item = self.item.q.val();
                            self.n.next.untagged = !self.is_tagged.val();
                            self.n.next.left = self.size.val();
                        } else {
                            self.n.next.taken = self.r.val().taken + 1;
                            self.step.d.next = SqStep::Settle;
                        }
                    } else {
                        self.begun.next = true;
                        self.n.next.item = self.item.q.val();
                        self.n.next.untagged = !self.is_tagged.val();
                        self.n.next.left = self.item_size.val().len;
                        if self.kind.q.val() != SqKind::Terminate {
                            self.n.next.others = self.r.val().others + 1;
                            self.n.next.other_item = self.other_next.val();
                        }
                        if self.kind.q.val() == SqKind::Rtr {
                            self.n.next.rtr_write = false;
                            self.n.next.rtr_read = false;
                            if self.is_read.val() {
                                self.n.next.rtr_out = true;
                                self.n.next.reads = self.r.val().reads + 1;
                                self.issued_out.d.next.index = self.index16.val();
                                self.issued_out.d.next.stag = self.sge_stag.q.val();
                                self.issued_out.d.next.to = self.sge_to.q.val();
                                self.issued_out.d.next.len = self.size.val();
                                self.issued_full.d.next = true;
                            }
                        }
                    }
                }
            }

            // a turn: start a fetch, cut an FPDU
            SqStep::Turn1 => {
                // the index came from the queue, or was not in it
                self.n.next.queued = false;
                self.at_once.d.next = false;
                self.step.d.next = SqStep::Turn2;
            }
            SqStep::Turn2 => {
                self.fetch_now.next = self.wants.q.val().fetch & self.fetcher.room.val();
                self.word.d.next = 0.into();
                self.status.d.next = 0.into();
                self.item.d.next = self.r.val().other_item;
                self.in_line.d.next = true;
                self.stag.d.next = 1.into();
                self.to.d.next = 0.into();
                self.sge_stag.d.next = 1.into();
                self.sge_to.d.next = 0.into();
                self.total.d.next = 0.into();
                self.step.d.next = SqStep::Settle;
                if self.wants.q.val().cut {
                    self.step.d.next = SqStep::Cut1;
                } else if self.wants.q.val().rtr {
                    self.kind.d.next = SqKind::Rtr;
                    self.opcode.d.next = 0.into();
                    if self.r.val().rtr_read {
                        self.opcode.d.next = 1.into();
                    }
                    self.step.d.next = SqStep::Make;
                } else if self.wants.q.val().terminate {
                    self.kind.d.next = SqKind::Terminate;
                    self.opcode.d.next = 7.into();
                    self.item.d.next = 15.into();
                    self.total.d.next = bit_cast::<36, 6>(self.r.val().terminate_len);
                    self.step.d.next = SqStep::Make;
                } else if self.wants.q.val().response & (!self.wants.q.val().work | !self.r.val().favor_work) {
                    self.step.d.next = SqStep::Owed;
                } else if self.wants.q.val().work {
                    self.step.d.next = SqStep::Turn3;
                } else if self.wants.q.val().mute {
                    self.n.next.stopped = true;
                    self.event_note.next = SqAsyncNote::SourceLost;
                    self.event_put.next = true;
                } else if self.wants.q.val().drain {
                    self.n.next.drained = true;
                    self.event_note.next = SqAsyncNote::Drained;
                    self.event_put.next = true;
                }
            }
            SqStep::Turn3 => {
                if self.work.q.val().status != 0 {
                    self.n.next.taken = self.r.val().taken - 1;
                    self.n.next.send_item = self.send_next.val();
                    self.n.next.failed = true;
                    self.n.next.no_start = true;
                    self.n.next.terminate = true;
                    self.n.next.terminate_len = 4.into();
                    self.data_put.next = true;
                    self.data_item.next = 15.into();
                    self.data_word.next = 0.into();
                    self.data_data.next = 0x0702.into();
                    self.event_note.next = SqAsyncNote::LocalError;
                    self.event_put.next = true;
                    self.step.d.next = SqStep::DoneRead;
                } else if self.wait_read.val() {
                    self.n.next.blocked = true;
                    self.step.d.next = SqStep::Settle;
                    if self.wants.q.val().response {
                        self.step.d.next = SqStep::Owed;
                    }
                } else {
                    self.begun.next = true;
                    self.begun_kind.next = SqKind::Work;
                    self.n.next.favor_work = false;
                    self.n.next.taken = self.r.val().taken - 1;
                    self.n.next.send_item = self.send_next.val();
                    self.n.next.item = self.r.val().send_item;
                    self.n.next.untagged = self.work_opcode.val() != 0;
                    self.n.next.left = self.work.q.val().len;
                    if self.work_opcode.val() == 1 {
                        self.n.next.left = 28.into();
                        self.n.next.reads = self.r.val().reads + 1;
                        self.issued_out.d.next.index = self.index16.val();
                        self.issued_out.d.next.stag = self.work.q.val().stag;
                        self.issued_out.d.next.to = self.work.q.val().to;
                        self.issued_out.d.next.len = self.work.q.val().len;
                        self.issued_full.d.next = true;
                    }
                }
            }
            SqStep::Owed => {
                self.kind.d.next = SqKind::Response;
                self.opcode.d.next = 2.into();
                self.in_line.d.next = false;
                self.stag.d.next = self.owed_half.val().stag;
                self.to.d.next = self.owed_half.val().to;
                self.total.d.next = bit_cast::<36, 16>(self.owed_half.val().len);
                self.step.d.next = SqStep::OwedSource;
            }
            SqStep::OwedSource => {
                self.sge_stag.d.next = self.owed_half.val().stag;
                self.sge_to.d.next = self.owed_half.val().to;
                self.total.d.next = self.total.q.val() | (bit_cast::<36, 16>(self.owed_half.val().len) << 16);
                self.n.next.owed = self.r.val().owed - 1;
                self.n.next.favor_work = true;
                self.step.d.next = SqStep::Make;
            }

            // one FPDU
            SqStep::Cut1 => {
                self.take.d.next = self.most.val().get_bits::<16>(0);
                self.last.d.next = false;
                if self.r.val().left <= self.most.val() {
                    self.take.d.next = bit_cast::<16, 32>(self.r.val().left);
                    self.last.d.next = true;
                }
                self.step.d.next = SqStep::Cut2;
            }
            SqStep::Cut2 => {
                // what a turn does for the next entry (`wants` is of the row as Make left it)
                self.fetch_now.next = self.at_once.q.val() & self.wants.q.val().fetch & self.fetcher.room.val();
                // length field, header, payload, PAD, CRC
                self.wire_len.d.next = self.framed.val() & 0xfffc;
                self.step.d.next = SqStep::Emit;
                if self.r.val().markers {
                    self.step.d.next = SqStep::Marker1;
                }
            }
            SqStep::Marker1 => {
                self.rest.d.next = bit_cast::<17, 16>(self.wire_len.q.val()) - bit_cast::<17, 9>(self.ahead.val());
                self.step.d.next = SqStep::Marker2;
            }
            SqStep::Marker2 => {
                // 508 octets between two markers
                if self.rest.q.val().get_bit(16) | (self.rest.q.val() == 0) {
                    self.step.d.next = SqStep::Emit;
                } else {
                    self.rest.d.next = self.rest.q.val() - 508;
                    self.wire_len.d.next = self.wire_len.q.val() + 4;
                }
            }
            SqStep::Emit => {
                self.tx_out.d.next.index = self.index16.val();
                self.tx_out.d.next.fpdu = self.reference.val();
                self.tx_out.d.next.wire_len = self.wire_len.q.val();
                self.tx_out.d.next.push = self.last.q.val();
                self.tx_full.d.next = true;
                self.fpdus.write_enable.next = true;
                self.n.next.fpdus = self.r.val().fpdus + 1;
                self.n.next.fpdu_at = self.r.val().fpdu_at + 1;
                self.n.next.left = self.r.val().left - bit_cast::<32, 16>(self.take.q.val());
                self.n.next.offset = self.r.val().offset + bit_cast::<32, 16>(self.take.q.val());
                self.n.next.phase = self.r.val().phase + self.wire_len.q.val().get_bits::<9>(0);
                self.n.next.cutting = !self.last.q.val();
                if self.r.val().kind == SqKind::Terminate {
                    self.n.next.stopped = true;
                }
                if self.last.q.val() & (self.r.val().kind == SqKind::Response) {
                    self.responded_out.d.next = self.index16.val();
                    self.responded_full.d.next = true;
                }
                self.step.d.next = SqStep::Settle;
            }
            SqStep::Settle => {
                self.settled.d.next = true;
                self.step.d.next = SqStep::Idle;
            }
            _ => {
                self.step.d.next = SqStep::Clear;
            }
        }
        if self.fetch_now.val() {
            self.fetcher.start.next = true;
            self.n.next.fetch = self.r.val().fetch + 1;
            self.n.next.fetch_item = self.fetch_next.val();
            self.n.next.fetching = self.r.val().fetching + 1;
            self.n.next.open = self.r.val().open + 1;
        }
        if self.begun.val() {
            self.n.next.cutting = true;
            self.n.next.kind = self.begun_kind.val();
            self.n.next.offset = 0.into();
            self.step.d.next = SqStep::Cut1;
        }
        if self.event_put.val() {
            self.event_out.d.next.index = self.index16.val();
            self.event_out.d.next.note = self.event_note.val();
            self.event_full.d.next = true;
        }
        self.items.data_put.next = self.fetcher.put.val();
        self.items.data_item.next = self.fetcher.put_item.val();
        self.items.data_word.next = self.fetcher.put_word.val();
        self.items.data_data.next = self.fetcher.put_data.val();
        self.fetcher.hold.next = self.data_put.val();
        if self.data_put.val() {
            self.items.data_put.next = true;
            self.items.data_item.next = self.item_base.val() | bit_cast::<C4, 4>(self.data_item.val());
            self.items.data_word.next = self.data_word.val();
            self.items.data_data.next = self.data_data.val();
        }
        self.items.address.next = self.item_address.val();
        self.item_data.next = self.items.data.val();
        self.rows.value.next = self.n.val();
        if self.reset.val() {
            self.step.d.next = SqStep::Clear;
            self.cleared.d.next = 0.into();
            self.index.d.next = 0.into();
            self.turn.d.next = false;
            self.prefer.d.next = 0.into();
            self.unbind_wait.d.next = false;
            self.settled.d.next = false;
            self.tx_full.d.next = false;
            self.issued_full.d.next = false;
            self.responded_full.d.next = false;
            self.event_full.d.next = false;
            self.unbound_full.d.next = false;
        }
    }
}
