// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving half of TCP (RFC 9293 section 3.10.7 with RFC 5961): who a segment belongs to, what it may change, what is said about it.
//!
//! **Interface.** Every `segment` gets one `verdict`, in order; after a verdict with `keep` the engine waits for `consumed`, the number of octets
//! from `skip` on that somebody now answers for: only they are acknowledged (TCP-51). A verdict with `hold` leaves the segment to `tcp::reassembly`,
//! to which the pulses of `note` say what it needs to know, and which brings it again as a replay. `from_tx` says how far we have sent, `from_cm` are the
//! manager's wishes; `to_tx` and `to_cm` say what came of it. `lookup` and `found`: tuple to index, one question at a time. Indices of connections
//! are `0..2^C`, entry `n` of the TIME-WAIT table is index `2^C + n`. A listener is an index below 2^L with a limit of half-open connections.
//! `ready` is low after reset until the memory is clear (2^A clocks).
//!
//! **Rules.** What the text of section 3.10.7 leaves open:
//! - RCV.WND is the register `window`; what was offered when the last segment was accepted stays acceptable when the register is lowered (the right
//!   edge never moves left).
//! - An index is in the look-up exactly while it is SynSent, SynReceived, Open or Wait: one that was reset or closed (Dead) is nobody at once.
//! - RST: SEQ = RCV.NXT resets, elsewhere in the window is challenged, else nothing. SYN is challenged whatever its SEQ, but one in the window
//!   of a passive SynReceived sends that back to LISTEN: `Stop`, and `Reset` with `refused`, which a manager takes for a passive one as "free it, say nothing".
//! - Figure 7: SYN and ACK with SEQ = IRS and an acceptable ACK opens an active SynReceived; what it may carry is left for the retransmission.
//! - An ACK that SynReceived cannot take is answered by RST; in Open, one outside SND.UNA - MAX.SND.WND ..= SND.NXT by a challenge (TCP-35).
//! - Payload and FIN out of order are held and answered at once, by the duplicate ACK of RFC 5681; its ACK and window count when it comes first,
//!   a replay has none. While something may be held of a connection (`held`), what moves RCV.NXT is acknowledged when all is used that was held:
//!   by the empty replay, with one ACK (TCP-52). Nothing is answered to a replay that means nothing any more.
//! - Payload in full operation goes to `mpa::rx`, and each segment of it is acknowledged at once. FIN counts when all before
//!   it was consumed and it lies in the window itself. PSH on payload that was taken asks for an ACK at once.
//! - New payload after our FIN was sent: nobody will take it. RST (SEQ = SND.NXT, ACK = RCV.NXT), `Stop`, `Reset`, whatever the state (TCP-10). But after `Discard` it is taken as before:
//!   RST would overtake the Terminate in a peer that is amid a long message, which then would not learn what was wrong.
//! - We sent our FIN before theirs was taken: TIME-WAIT, else closed with the ACK of our FIN. The last ACK of a connection that goes to TIME-WAIT is a `Reply`.
//! - TIME-WAIT: RST is ignored; a repeated FIN restarts it and is acknowledged; SYN without ACK beyond RCV.NXT, for a listener with room, ends it and
//!   opens a connection; an empty segment in the window is the end of an exchange and is not answered; anything else is, by an ACK.
//! - An active open never takes over a TIME-WAIT: `Exists`. `Reopen` of an index whose tuple is somebody else's by now is `Reopened` with `refused`.
//!   A SYN may take an index while more than `spare_slots` are free.
//! - A segment for LISTEN with neither RST, ACK nor SYN is dropped; anything for nobody is answered as TCP-28 says.
//!
//! **States.** `Idle` takes, in this order, `from_tx`, `from_cm`, every 128 clocks one step of the sweep of the TIME-WAIT table, a segment. A segment goes
//! `Ask`, `Found`, `Decide`, `Read`, `Latch`, `Measure` (differences), `Compare`, `Classify` (what they mean), `Judge` (RFC 9293: first to fourth check), `Ack` (fifth),
//! `Text` (seventh), `Rule` (verdict), `Consumed`, `Fin` (eighth), `Settle`, `Advance` (did it close?), `Store`, `Tell`. A replay says whose it is: it starts at
//! `Read`, and goes from `Judge` to `Text`.
//!
//! **Timing.** From taking a segment to the offer of its verdict 13 clocks and the look-up's time, until the next can be taken 21 (22 with FIN) and the look-up's with
//! one message to tell, and what `consumed` takes; 4 less if the job before was of the same index, and neither `Found`, `Decide`, `Read` nor the look-up if that index is open and has its
//! tuple: 16 from one segment of a connection to the next, and what `consumed` takes. The first message to `to_tx` is offered 5 clocks before the end, in `Store`, which waits for it. A connection that goes to TIME-WAIT: 3 clocks for each entry looked at (a rotating pointer meets a free one at once until
//! the table is nearly full), 3 * 2^T when it overflows. `from_tx`: 12 clocks, or 8.
//!
//! **Stalls.** `verdict`, `to_tx` and `to_cm` may hold the engine up, and `consumed`, whose parser (`mpa::start_rx`) may wait for the manager's queue. `connections`
//! says why none of them waits for this engine meanwhile.
//!
//! **Memory.** One RAM of 2^A = 2^(C + 1) rows of 4 words of 96 bits (C = 5: 3 DP16KD), connections below, TIME-WAIT above; a queue of the free indices; limit and count of each listener.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// What an index is. The states after ESTABLISHED are `Open` with `fin_sent`, `fin_rcvd` and what is acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RxConnState {
    Free,
    SynSent,
    SynReceived,
    Open,
    /// Over; the manager still has the index.
    Dead,
    /// An entry of the TIME-WAIT table.
    Wait,
}

/// The receiving half of a connection, in words of 96 bits: what the search for the oldest TIME-WAIT entry looks at comes first, the tuple is the second.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxConn {
    pub state: RxConnState,
    /// SND.WL1; in TIME-WAIT its end.
    pub wl1: Bits<32>,
    pub passive: Bit,
    /// Counts with its listener.
    pub half_open: Bit,
    pub listener: Bits<8>,
    /// SND.UNA and SND.NXT are known.
    pub started: Bit,
    /// Payload was consumed.
    pub begun: Bit,
    pub full: Bit,
    pub fin_sent: Bit,
    /// Payload after our FIN is taken.
    pub discard: Bit,
    pub fin_rcvd: Bit,
    /// Our FIN was sent when theirs was taken.
    pub closed_first: Bit,
    /// Segments of it may be held.
    pub held: Bit,
    pub rcv_nxt: Bits<32>,
    pub spare: Bits<11>,
    pub tuple: Tuple,
    pub snd_una: Bits<32>,
    pub snd_max: Bits<32>,
    pub wl2: Bits<32>,
    pub rcv_wnd: Bits<16>,
    pub wnd: Bits<16>,
    pub max_wnd: Bits<16>,
    pub more_spare: Bits<48>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct HalfOpen {
    pub limit: Bits<16>,
    pub count: Bits<16>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TcpRxJob {
    /// Message of `tcp::tx`.
    Sent,
    /// The manager opens.
    Open,
    /// The manager sets a listener's limit.
    Limit,
    /// The manager changes a connection.
    Change,
    Sweep,
    Segment,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TcpRxStep {
    Clear,
    Idle,
    /// Offer a question to the look-up.
    Ask,
    /// Wait for the answer, then go to `after`.
    Found,
    /// Somebody or nobody has the tuple.
    Decide,
    Read,
    Latch,
    /// Apply a message of `tcp::tx` or the manager.
    Change,
    /// The manager opens a connection again.
    Again,
    Measure,
    Compare,
    Classify,
    Judge,
    Ack,
    Text,
    /// Offer the verdict, then go to `after`.
    Rule,
    Consumed,
    Fin,
    Settle,
    Advance,
    /// Nobody has the segment's tuple.
    Nobody,
    /// A listener's count.
    CountRead,
    CountAct,
    /// TIME-WAIT entry that a SYN takes over: it is free.
    Vacate,
    /// A SYN makes a connection.
    Admit,
    /// The index leaves the look-up.
    Bury,
    ScanRead,
    ScanLatch,
    ScanCheck,
    /// The oldest TIME-WAIT entry makes room.
    EvictRead,
    EvictLatch,
    /// The tuple goes from the connection to the TIME-WAIT entry.
    Move,
    MoveIn,
    MoveStore,
    Store,
    Tell,
    SweepRead,
    SweepLatch,
    SweepAge,
    SweepAct,
    SweepEnd,
}

/// `C`, `T`, `L`: log2 of connections, TIME-WAIT entries (not more) and listeners; `A` = C + 1.
#[derive(LogicBlock)]
pub struct TcpRx<const C: usize, const T: usize, const L: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub time_us: Signal<In, Bits<32>>,
    pub two_msl: Signal<In, Bits<32>>,
    pub spare_slots: Signal<In, Bits<16>>,
    pub window: Signal<In, Bits<16>>,
    pub segment: ChanSink<SegmentIn>,
    pub verdict: ChanSrc<Verdict>,
    pub consumed: ChanSink<Bits<16>>,
    pub lookup: ChanSrc<LookupRequest>,
    pub found: ChanSink<LookupReply>,
    pub from_tx: ChanSink<TxToRx>,
    pub from_cm: ChanSink<CmToRx>,
    /// What `Open` opens.
    pub open_tuple: Signal<In, Tuple>,
    pub to_tx: ChanSrc<RxToTx>,
    pub to_cm: ChanSrc<RxToCm>,
    pub note: Signal<Out, ReassemblyNote>,
    pub cnt_tcp_in_errs: Signal<Out, Bit>,
    pub cnt_tcp_active_opens: Signal<Out, Bit>,
    pub cnt_tcp_passive_opens: Signal<Out, Bit>,
    pub cnt_tcp_attempt_fails: Signal<Out, Bit>,
    pub cnt_tcp_estab_resets: Signal<Out, Bit>,
    pub cnt_tcp_syn_dropped: Signal<Out, Bit>,
    pub cnt_tcp_in_unacceptable: Signal<Out, Bit>,
    pub cnt_tcp_wait_overflow: Signal<Out, Bit>,
    pub cnt_tcp_wait_reused: Signal<Out, Bit>,
    rows: RowWords<RxConn, A, 2, 96>,
    /// Words of the row that were asked for or written.
    line: DFF<Bits<3>>,
    /// What is in `row` is what stands in memory of index `loaded`.
    same: DFF<Bit>,
    loaded: DFF<Bits<16>>,
    half_open: RAM<HalfOpen, L>,
    free: RAM<Bits<C>, C>,
    free_head: DFF<Bits<C>>,
    free_tail: DFF<Bits<C>>,
    free_count: DFF<Bits<16>>,
    /// More than `spare_slots` are free / one is.
    room: DFF<Bit>,
    clear_at: DFF<Bits<A>>,
    state: DFF<TcpRxStep>,
    after: DFF<TcpRxStep>,
    job: DFF<TcpRxJob>,
    // what is worked on
    index: DFF<Bits<16>>,
    key: DFF<Tuple>,
    row: DFF<RxConn>,
    seg: DFF<SegmentIn>,
    lis: DFF<Bits<L>>,
    ask_op: DFF<LookupOp>,
    ask_index: DFF<Bits<16>>,
    hit: DFF<Bit>,
    // of the segment alone; always valid two clocks after it was taken
    seg_len: DFF<Bits<32>>,
    seg_end: DFF<Bits<32>>,
    seq_next: DFF<Bits<32>>,
    // Measure
    d_seq: DFF<Bits<32>>,
    d_una: DFF<Bits<32>>,
    n_una: DFF<Bits<32>>,
    d_max: DFF<Bits<32>>,
    d_wl1: DFF<Bits<32>>,
    d_wl2: DFF<Bits<32>>,
    wnd: DFF<Bits<16>>,
    // Compare
    d_data: DFF<Bits<32>>,
    d_end: DFF<Bits<32>>,
    seq_in: DFF<Bit>,
    seq_exact: DFF<Bit>,
    seq_prev: DFF<Bit>,
    seq_ahead: DFF<Bit>,
    ack_new: DFF<Bit>,
    ack_same: DFF<Bit>,
    ack_bad: DFF<Bit>,
    wl_ok: DFF<Bit>,
    outstanding: DFF<Bit>,
    // Classify
    acceptable: DFF<Bit>,
    new_data: DFF<Bit>,
    data_over: DFF<Bit>,
    fin_fits: DFF<Bit>,
    fin_again: DFF<Bit>,
    // Judge and on
    opened: DFF<Bit>,
    crossed: DFF<Bit>,
    keep: DFF<Bit>,
    hold: DFF<Bit>,
    skip: DFF<Bits<16>>,
    take: DFF<Bits<16>>,
    got: DFF<Bits<16>>,
    got_next: DFF<Bits<17>>,
    fin_now: DFF<Bit>,
    left: DFF<Bits<17>>,
    all_acked: DFF<Bit>,
    // TIME-WAIT
    deadline: DFF<Bits<32>>,
    age: DFF<Bits<32>>,
    pace: DFF<Bits<7>>,
    due: DFF<Bit>,
    sweep: DFF<Bits<T>>,
    /// Where the search for a free entry is, and how many it has still to see.
    scan: DFF<Bits<T>>,
    scan_left: DFF<Bits<T>>,
    scan_first: DFF<Bit>,
    scan_used: DFF<Bit>,
    scan_deadline: DFF<Bits<32>>,
    slot: DFF<Bits<T>>,
    slot_deadline: DFF<Bits<32>>,
    // to be told
    tell_note: DFF<Bit>,
    tell_stop: DFF<Bit>,
    tell_reply: DFF<Bit>,
    tell_wait_end: DFF<Bit>,
    tell_synced: DFF<Bit>,
    tell_fin: DFF<Bit>,
    tell_cm: DFF<Bit>,
    tx_note: DFF<RxNote>,
    cm_note: DFF<RxCmNote>,
    ack_now: DFF<Bit>,
    /// Only because of payload in order.
    ack_soft: DFF<Bit>,
    /// RCV.NXT moved, and segments may be held that can be used now.
    advanced: DFF<Bit>,
    duplicate: DFF<Bit>,
    challenge: DFF<Bit>,
    refused: DFF<Bit>,
    waiting: DFF<Bit>,
    reply_seq: DFF<Bits<32>>,
    reply_ack: DFF<Bits<32>>,
    reply_flags: DFF<Bits<8>>,
    // combinational
    is: Signal<Local, RxConnState>,
    flags: Signal<Local, Bits<8>>,
    fin: Signal<Local, Bit>,
    syn: Signal<Local, Bit>,
    rst: Signal<Local, Bit>,
    psh: Signal<Local, Bit>,
    ack: Signal<Local, Bit>,
    fresh: Signal<Local, RxConn>,
    from_listener: Signal<Local, Bit>,
    seg_listener: Signal<Local, Bits<16>>,
    row_listener: Signal<Local, Bits<8>>,
    is_wait_index: Signal<Local, Bit>,
    wait_index: Signal<Local, Bits<16>>,
    scan_index: Signal<Local, Bits<16>>,
    sweep_index: Signal<Local, Bits<16>>,
    free_index: Signal<Local, Bits<16>>,
    cm_index: Signal<Local, Bits<16>>,
    address: Signal<Local, Bits<16>>,
    write_row: Signal<Local, Bit>,
    known: Signal<Local, Bit>,
    /// The segment is of the connection whose row is at hand, which is in the look-up.
    again: Signal<Local, Bit>,
    there: Signal<Local, Bit>,
    /// There is something to tell beside a note to `tcp::tx` / all was told.
    tells_more: Signal<Local, Bit>,
    told: Signal<Local, Bit>,
    scan_latch: Signal<Local, Bit>,
    count: Signal<Local, HalfOpen>,
    new_count: Signal<Local, HalfOpen>,
    count_write: Signal<Local, Bit>,
    count_up: Signal<Local, Bits<16>>,
    count_down: Signal<Local, Bits<16>>,
    pop: Signal<Local, Bit>,
    push: Signal<Local, Bit>,
    controls: Signal<Local, Bits<32>>,
    wide_wnd: Signal<Local, Bits<32>>,
    wide_max_wnd: Signal<Local, Bits<32>>,
    wide_got: Signal<Local, Bits<32>>,
    step: Signal<Local, Bits<17>>,
    back: Signal<Local, Bits<32>>,
    older: Signal<Local, Bits<32>>,
    isn: Signal<Local, Bits<32>>,
    in_text: Signal<Local, Bit>,
    answer: Signal<Local, Bit>,
    reset_peer: Signal<Local, Bit>,
    bury: Signal<Local, Bit>,
    may_hold: Signal<Local, Bit>,
    last_clear: Constant<Bits<A>>,
    last_scan: Constant<Bits<T>>,
    minus_one: Constant<Bits<32>>,
    first_wait: Constant<Bits<16>>,
}

impl<const C: usize, const T: usize, const L: usize, const A: usize> Default for TcpRx<C, T, L, A> {
    fn default() -> Self {
        assert!(A == C + 1 && T <= C && L <= A && L <= 8 && A <= 16);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            time_us: Default::default(),
            two_msl: Default::default(),
            spare_slots: Default::default(),
            window: Default::default(),
            segment: Default::default(),
            verdict: Default::default(),
            consumed: Default::default(),
            lookup: Default::default(),
            found: Default::default(),
            from_tx: Default::default(),
            from_cm: Default::default(),
            open_tuple: Default::default(),
            to_tx: Default::default(),
            to_cm: Default::default(),
            note: Default::default(),
            cnt_tcp_in_errs: Default::default(),
            cnt_tcp_active_opens: Default::default(),
            cnt_tcp_passive_opens: Default::default(),
            cnt_tcp_attempt_fails: Default::default(),
            cnt_tcp_estab_resets: Default::default(),
            cnt_tcp_syn_dropped: Default::default(),
            cnt_tcp_in_unacceptable: Default::default(),
            cnt_tcp_wait_overflow: Default::default(),
            cnt_tcp_wait_reused: Default::default(),
            rows: Default::default(),
            half_open: Default::default(),
            free: Default::default(),
            free_head: Default::default(),
            free_tail: Default::default(),
            free_count: Default::default(),
            room: Default::default(),
            clear_at: Default::default(),
            state: Default::default(),
            after: Default::default(),
            job: Default::default(),
            index: Default::default(),
            key: Default::default(),
            row: Default::default(),
            seg: Default::default(),
            lis: Default::default(),
            ask_op: Default::default(),
            ask_index: Default::default(),
            hit: Default::default(),
            seg_len: Default::default(),
            seg_end: Default::default(),
            seq_next: Default::default(),
            d_seq: Default::default(),
            d_una: Default::default(),
            n_una: Default::default(),
            d_max: Default::default(),
            d_wl1: Default::default(),
            d_wl2: Default::default(),
            wnd: Default::default(),
            d_data: Default::default(),
            d_end: Default::default(),
            seq_in: Default::default(),
            seq_exact: Default::default(),
            seq_prev: Default::default(),
            seq_ahead: Default::default(),
            ack_new: Default::default(),
            ack_same: Default::default(),
            ack_bad: Default::default(),
            wl_ok: Default::default(),
            outstanding: Default::default(),
            acceptable: Default::default(),
            new_data: Default::default(),
            data_over: Default::default(),
            fin_fits: Default::default(),
            fin_again: Default::default(),
            opened: Default::default(),
            crossed: Default::default(),
            keep: Default::default(),
            hold: Default::default(),
            skip: Default::default(),
            take: Default::default(),
            got: Default::default(),
            got_next: Default::default(),
            fin_now: Default::default(),
            left: Default::default(),
            all_acked: Default::default(),
            deadline: Default::default(),
            age: Default::default(),
            pace: Default::default(),
            due: Default::default(),
            sweep: Default::default(),
            scan: Default::default(),
            scan_left: Default::default(),
            scan_first: Default::default(),
            scan_used: Default::default(),
            scan_deadline: Default::default(),
            slot: Default::default(),
            slot_deadline: Default::default(),
            tell_note: Default::default(),
            tell_stop: Default::default(),
            tell_reply: Default::default(),
            tell_wait_end: Default::default(),
            tell_synced: Default::default(),
            tell_fin: Default::default(),
            tell_cm: Default::default(),
            tx_note: Default::default(),
            cm_note: Default::default(),
            ack_now: Default::default(),
            ack_soft: Default::default(),
            advanced: Default::default(),
            duplicate: Default::default(),
            challenge: Default::default(),
            refused: Default::default(),
            waiting: Default::default(),
            reply_seq: Default::default(),
            reply_ack: Default::default(),
            reply_flags: Default::default(),
            is: Default::default(),
            flags: Default::default(),
            fin: Default::default(),
            syn: Default::default(),
            rst: Default::default(),
            psh: Default::default(),
            ack: Default::default(),
            fresh: Default::default(),
            from_listener: Default::default(),
            seg_listener: Default::default(),
            row_listener: Default::default(),
            is_wait_index: Default::default(),
            wait_index: Default::default(),
            scan_index: Default::default(),
            sweep_index: Default::default(),
            free_index: Default::default(),
            cm_index: Default::default(),
            address: Default::default(),
            write_row: Default::default(),
            known: Default::default(),
            again: Default::default(),
            there: Default::default(),
            tells_more: Default::default(),
            told: Default::default(),
            scan_latch: Default::default(),
            line: Default::default(),
            same: Default::default(),
            loaded: Default::default(),
            count: Default::default(),
            new_count: Default::default(),
            count_write: Default::default(),
            count_up: Default::default(),
            count_down: Default::default(),
            pop: Default::default(),
            push: Default::default(),
            controls: Default::default(),
            wide_wnd: Default::default(),
            wide_max_wnd: Default::default(),
            wide_got: Default::default(),
            step: Default::default(),
            back: Default::default(),
            older: Default::default(),
            isn: Default::default(),
            in_text: Default::default(),
            answer: Default::default(),
            reset_peer: Default::default(),
            bury: Default::default(),
            may_hold: Default::default(),
            last_clear: Constant::new(((1u64 << A) - 1).to_bits()),
            last_scan: Constant::new(((1u64 << T) - 1).to_bits()),
            minus_one: Constant::new(0xffff_ffffu64.to_bits()),
            first_wait: Constant::new((1u64 << C).to_bits()),
        }
    }
}

impl<const C: usize, const T: usize, const L: usize, const A: usize> Logic for TcpRx<C, T, L, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, free_head, free_tail, free_count, room, clear_at, state, after, job, index, key, row, seg);
        dff_setup!(self, clock, lis, ask_op, ask_index, hit, seg_len, seg_end, seq_next, d_seq, d_una, n_una, d_max, d_wl1);
        dff_setup!(self, clock, d_wl2, wnd, d_data, d_end, seq_in, seq_exact, seq_prev, seq_ahead, ack_new, ack_same, ack_bad, wl_ok);
        dff_setup!(self, clock, outstanding, acceptable, new_data, data_over, fin_fits, fin_again, opened, crossed, keep, skip, take, got);
        dff_setup!(self, clock, got_next, fin_now, left, all_acked, deadline, age, pace, due, sweep, scan, scan_left, scan_first);
        dff_setup!(self, clock, scan_used, scan_deadline, slot, slot_deadline, tell_note, tell_stop, tell_reply, tell_wait_end);
        dff_setup!(
            self,
            clock,
            tell_synced,
            tell_fin,
            tell_cm,
            tx_note,
            cm_note,
            ack_now,
            ack_soft,
            duplicate,
            challenge,
            refused,
            waiting
        );
        dff_setup!(self, clock, reply_seq, reply_ack, reply_flags, hold, advanced, line, same, loaded);
        clock!(self, clock, rows);
        self.half_open.read_clock.next = self.clock.val();
        self.half_open.write_clock.next = self.clock.val();
        self.free.read_clock.next = self.clock.val();
        self.free.write_clock.next = self.clock.val();

        // names for parts of the working registers
        self.is.next = self.row.q.val().state;
        self.flags.next = self.seg.q.val().flags;
        self.fin.next = self.flags.val().get_bit(0);
        self.syn.next = self.flags.val().get_bit(1);
        self.rst.next = self.flags.val().get_bit(2);
        self.psh.next = self.flags.val().get_bit(3);
        self.ack.next = self.flags.val().get_bit(4);
        self.seg_listener.next = self.seg.q.val().listener;
        self.row_listener.next = self.row.q.val().listener;
        self.cm_index.next = self.from_cm.data.val().index;
        self.count.next = self.half_open.read_data.val();
        self.is_wait_index.next = self.index.q.val() >= self.first_wait.val();
        self.wait_index.next = self.first_wait.val() + bit_cast::<16, T>(self.slot.q.val());
        self.scan_index.next = self.first_wait.val() + bit_cast::<16, T>(self.scan.q.val());
        self.sweep_index.next = self.first_wait.val() + bit_cast::<16, T>(self.sweep.q.val());
        self.free_index.next = bit_cast::<16, C>(self.free.read_data.val());

        // sums that are always under way
        self.controls.next = bit_cast::<32, 16>(self.seg.q.val().len);
        if self.syn.val() {
            self.controls.next = self.controls.val() + 1;
        }
        if self.fin.val() {
            self.controls.next = self.controls.val() + 1;
        }
        self.seg_len.d.next = self.controls.val();
        self.seg_end.d.next = self.seg.q.val().seq + self.seg_len.q.val();
        self.seq_next.d.next = self.seg.q.val().seq + 1;
        self.deadline.d.next = self.time_us.val() + self.two_msl.val();
        self.room.d.next = self.free_count.q.val() > self.spare_slots.val();
        self.wide_wnd.next = bit_cast::<32, 16>(self.wnd.q.val());
        self.wide_max_wnd.next = bit_cast::<32, 16>(self.row.q.val().max_wnd);
        self.wide_got.next = bit_cast::<32, 16>(self.got.q.val());
        self.isn.next = self.from_tx.data.val().max - 1;
        self.back.next = self.row.q.val().rcv_nxt - self.seg.q.val().seq;
        self.older.next = self.scan_deadline.q.val() - self.slot_deadline.q.val();
        self.count_up.next = self.count.val().count + 1;
        self.count_down.next = self.count.val().count - 1;
        self.step.next = bit_cast::<17, 16>(self.got.q.val());
        if self.fin_now.q.val() {
            self.step.next = self.got_next.q.val();
        }
        self.pace.d.next = self.pace.q.val() + 1;
        if self.pace.q.val() == 0 {
            self.due.d.next = true;
        }

        // what a segment means to the connection: three clocks of always the same questions, whose answers are looked at when row and segment
        // have been at rest for as long
        self.d_seq.d.next = self.seg.q.val().seq - self.row.q.val().rcv_nxt;
        self.d_una.d.next = self.seg.q.val().ack - self.row.q.val().snd_una;
        self.n_una.d.next = self.row.q.val().snd_una - self.seg.q.val().ack;
        self.d_max.d.next = self.row.q.val().snd_max - self.seg.q.val().ack;
        self.d_wl1.d.next = self.seg.q.val().seq - self.row.q.val().wl1;
        self.d_wl2.d.next = self.seg.q.val().ack - self.row.q.val().wl2;
        self.d_data.d.next = self.d_seq.q.val() + bit_cast::<32, 16>(self.seg.q.val().len);
        self.d_end.d.next = self.d_seq.q.val() + self.seg_len.q.val();
        self.seq_in.d.next = self.d_seq.q.val() < self.wide_wnd.val();
        self.seq_exact.d.next = !self.d_seq.q.val().any();
        self.seq_prev.d.next = self.d_seq.q.val() == self.minus_one.val();
        self.seq_ahead.d.next = self.d_seq.q.val().any() & !self.d_seq.q.val().get_bit(31);
        self.ack_new.d.next = self.d_una.q.val().any() & !self.d_una.q.val().get_bit(31) & !self.d_max.q.val().get_bit(31);
        self.ack_same.d.next = !self.d_una.q.val().any();
        self.ack_bad.d.next =
            self.d_max.q.val().get_bit(31) | (self.d_una.q.val().get_bit(31) & (self.n_una.q.val() > self.wide_max_wnd.val()));
        self.wl_ok.d.next =
            (self.d_wl1.q.val().any() & !self.d_wl1.q.val().get_bit(31)) | (!self.d_wl1.q.val().any() & !self.d_wl2.q.val().get_bit(31));
        self.outstanding.d.next = self.d_max.q.val().any();
        // table 6, with the last octet inside if the end is beyond RCV.NXT and not beyond the window
        self.acceptable.d.next = self.seq_in.q.val()
            | (self.seg_len.q.val().any() & self.d_end.q.val().any() & (self.d_end.q.val() <= self.wide_wnd.val()))
            | (!self.seg_len.q.val().any() & !self.wnd.q.val().any() & self.seq_exact.q.val());
        self.new_data.d.next = self.d_data.q.val().any() & !self.d_data.q.val().get_bit(31);
        self.data_over.d.next = self.d_data.q.val() > self.wide_wnd.val();
        self.fin_fits.d.next = self.d_data.q.val() < self.wide_wnd.val();
        self.fin_again.d.next = self.fin.val() & (self.d_data.q.val() == self.minus_one.val());
        self.fin_now.d.next =
            self.fin.val() & !self.row.q.val().fin_rcvd & self.fin_fits.q.val() & (self.d_data.q.val() == self.wide_got.val());
        self.got_next.d.next = bit_cast::<17, 16>(self.got.q.val()) + 1;
        self.all_acked.d.next = self.row.q.val().snd_una == self.row.q.val().snd_max;
        self.left.d.next = bit_cast::<17, 16>(self.wnd.q.val()) - self.step.val();
        self.age.d.next = self.time_us.val() - self.scan_deadline.q.val();

        // a new connection: of a SYN, else of the manager
        self.from_listener.next = self.job.q.val() == TcpRxJob::Segment;
        self.fresh.next.state = RxConnState::SynSent;
        if self.from_listener.val() {
            self.fresh.next.state = RxConnState::SynReceived;
        }
        self.fresh.next.passive = self.from_listener.val();
        self.fresh.next.half_open = self.from_listener.val();
        self.fresh.next.listener = self.seg_listener.val().get_bits::<8>(0);
        self.fresh.next.tuple = self.key.q.val();
        self.fresh.next.started = false;
        self.fresh.next.begun = false;
        self.fresh.next.full = false;
        self.fresh.next.fin_sent = false;
        self.fresh.next.discard = false;
        self.fresh.next.fin_rcvd = false;
        self.fresh.next.closed_first = false;
        self.fresh.next.held = false;
        self.fresh.next.rcv_nxt = self.seq_next.q.val();
        self.fresh.next.rcv_wnd = self.window.val();
        self.fresh.next.snd_una = 0.into();
        self.fresh.next.snd_max = 0.into();
        self.fresh.next.wnd = self.seg.q.val().window;
        self.fresh.next.max_wnd = self.seg.q.val().window;
        self.fresh.next.wl1 = self.seg.q.val().seq;
        self.fresh.next.wl2 = 0.into();
        self.fresh.next.spare = 0.into();
        self.fresh.next.more_spare = 0.into();

        // what is said
        self.lookup.valid.next = false;
        self.lookup.data.next.op = self.ask_op.q.val();
        self.lookup.data.next.tuple = self.key.q.val();
        self.lookup.data.next.index = self.ask_index.q.val();
        self.verdict.valid.next = false;
        self.verdict.data.next.keep = self.keep.q.val();
        self.verdict.data.next.hold = self.hold.q.val();
        self.verdict.data.next.index = self.index.q.val();
        self.verdict.data.next.skip = self.skip.q.val();
        self.verdict.data.next.take = self.take.q.val();
        self.verdict.data.next.first = !self.row.q.val().begun;
        self.verdict.data.next.passive = self.row.q.val().passive;
        self.verdict.data.next.full = self.row.q.val().full;
        self.to_tx.valid.next = false;
        self.to_tx.data.next.note = self.tx_note.q.val();
        self.to_tx.data.next.index = self.index.q.val();
        self.to_tx.data.next.tuple = self.key.q.val();
        self.to_tx.data.next.passive = self.row.q.val().passive;
        self.to_tx.data.next.rcv_nxt = self.row.q.val().rcv_nxt;
        self.to_tx.data.next.ack = self.row.q.val().snd_una;
        self.to_tx.data.next.window = bit_cast::<32, 16>(self.row.q.val().wnd);
        self.to_tx.data.next.mss = self.seg.q.val().mss;
        self.to_tx.data.next.ack_now = self.ack_now.q.val();
        self.to_tx.data.next.soft = self.ack_soft.q.val();
        self.to_tx.data.next.duplicate = self.duplicate.q.val();
        self.to_tx.data.next.challenge = self.challenge.q.val();
        self.to_tx.data.next.seq = self.reply_seq.q.val();
        self.to_tx.data.next.flags = self.reply_flags.q.val();
        self.to_cm.valid.next = false;
        self.to_cm.data.next.note = self.cm_note.q.val();
        self.to_cm.data.next.index = self.index.q.val();
        self.to_cm.data.next.tuple = self.key.q.val();
        self.to_cm.data.next.listener = self.seg_listener.val();
        self.to_cm.data.next.refused = self.refused.q.val();
        self.to_cm.data.next.waiting = self.waiting.q.val();
        self.to_cm.data.next.wait = bit_cast::<16, T>(self.slot.q.val());
        self.note.next.settled = false;
        self.note.next.advanced = self.advanced.q.val();
        self.note.next.rcv_nxt = self.row.q.val().rcv_nxt;
        self.note.next.forget = false;
        self.note.next.index = self.index.q.val();
        self.ready.next = self.state.q.val() != TcpRxStep::Clear;
        self.segment.ready.next = false;
        self.consumed.ready.next = false;
        self.found.ready.next = false;
        self.from_tx.ready.next = false;
        self.from_cm.ready.next = false;
        self.cnt_tcp_in_errs.next = false;
        self.cnt_tcp_active_opens.next = false;
        self.cnt_tcp_passive_opens.next = false;
        self.cnt_tcp_attempt_fails.next = false;
        self.cnt_tcp_estab_resets.next = false;
        self.cnt_tcp_syn_dropped.next = false;
        self.cnt_tcp_in_unacceptable.next = false;
        self.cnt_tcp_wait_overflow.next = false;
        self.cnt_tcp_wait_reused.next = false;

        // what is done in several places
        self.answer.next = false;
        self.reset_peer.next = false;
        self.bury.next = false;
        self.in_text.next = false;
        self.pop.next = false;
        self.push.next = false;
        self.may_hold.next = (self.is.val() == RxConnState::Open) & !self.row.q.val().fin_rcvd;
        self.write_row.next = false;
        self.count_write.next = false;
        self.new_count.next.limit = self.count.val().limit;
        self.new_count.next.count = self.count.val().count;
        self.address.next = self.index.q.val();
        self.rows.word.next = self.line.q.val().get_bits::<2>(0);
        self.again.next = self.same.q.val()
            & (self.is.val() == RxConnState::Open)
            & (self.job.q.val() == TcpRxJob::Segment)
            & (self.ask_op.q.val() == LookupOp::Find)
            & (self.key.q.val() == self.row.q.val().tuple);
        self.known.next = self.same.q.val() & (self.loaded.q.val() == self.index.q.val());
        self.told.next = false;
        self.tells_more.next = self.tell_stop.q.val()
            | self.tell_reply.q.val()
            | self.tell_wait_end.q.val()
            | self.tell_synced.q.val()
            | self.tell_fin.q.val()
            | self.tell_cm.q.val();
        self.there.next = false;
        self.scan_latch.next = false;

        match self.state.q.val() {
            TcpRxStep::Clear => {
                self.write_row.next = true;
                // its first word says that it is free
                self.address.next = bit_cast::<16, A>(self.clear_at.q.val());
                self.count_write.next = true;
                self.new_count.next.limit = 0.into();
                self.new_count.next.count = 0.into();
                self.clear_at.d.next = self.clear_at.q.val() + 1;
                if self.clear_at.q.val() == self.last_clear.val() {
                    self.state.d.next = TcpRxStep::Idle;
                }
            }
            TcpRxStep::Idle => {
                self.keep.d.next = false;
                self.hold.d.next = false;
                self.got.d.next = 0.into();
                self.opened.d.next = false;
                self.crossed.d.next = false;
                self.ack_now.d.next = false;
                self.ack_soft.d.next = false;
                self.advanced.d.next = false;
                self.duplicate.d.next = false;
                self.challenge.d.next = false;
                self.refused.d.next = false;
                self.waiting.d.next = false;
                self.ask_op.d.next = LookupOp::Find;
                self.after.d.next = TcpRxStep::Decide;
                if self.from_tx.valid.val() {
                    self.job.d.next = TcpRxJob::Sent;
                    self.index.d.next = self.from_tx.data.val().index;
                    self.state.d.next = TcpRxStep::Read;
                } else if self.from_cm.valid.val() {
                    self.index.d.next = self.cm_index.val();
                    self.key.d.next = self.open_tuple.val();
                    if self.from_cm.data.val().op == CmRxOp::Open {
                        self.job.d.next = TcpRxJob::Open;
                        self.state.d.next = TcpRxStep::Ask;
                    } else if self.from_cm.data.val().op == CmRxOp::Limit {
                        self.job.d.next = TcpRxJob::Limit;
                        self.lis.d.next = bit_cast::<L, 16>(self.cm_index.val());
                        self.state.d.next = TcpRxStep::CountRead;
                    } else {
                        self.job.d.next = TcpRxJob::Change;
                        self.state.d.next = TcpRxStep::Read;
                    }
                } else if self.due.q.val() {
                    self.due.d.next = false;
                    self.job.d.next = TcpRxJob::Sweep;
                    self.index.d.next = self.sweep_index.val();
                    self.slot.d.next = self.sweep.q.val();
                    self.sweep.d.next = self.sweep.q.val() + 1;
                    self.state.d.next = TcpRxStep::SweepRead;
                } else {
                    self.segment.ready.next = true;
                    if self.segment.valid.val() {
                        self.job.d.next = TcpRxJob::Segment;
                        self.seg.d.next = self.segment.data.val();
                        self.key.d.next = self.segment.data.val().tuple;
                        self.state.d.next = TcpRxStep::Ask;
                        self.cnt_tcp_in_errs.next = self.segment.data.val().bad_options;
                        if self.segment.data.val().bad_options | self.segment.data.val().link_broadcast {
                            self.after.d.next = TcpRxStep::Tell;
                            self.state.d.next = TcpRxStep::Rule;
                        }
                        if self.segment.data.val().replay {
                            self.index.d.next = self.segment.data.val().index;
                            self.state.d.next = TcpRxStep::Read;
                        }
                    }
                }
            }
            TcpRxStep::Ask => {
                self.lookup.valid.next = !self.again.val();
                if self.again.val() {
                    self.hit.d.next = true;
                    self.index.d.next = self.loaded.q.val();
                    self.same.d.next = false;
                    self.there.next = true;
                } else if self.lookup.ready.val() {
                    self.state.d.next = TcpRxStep::Found;
                }
            }
            TcpRxStep::Found => {
                self.found.ready.next = true;
                if self.found.valid.val() {
                    self.hit.d.next = self.found.data.val().found;
                    if self.found.data.val().found {
                        self.index.d.next = self.found.data.val().index;
                    }
                    self.state.d.next = self.after.q.val();
                }
            }
            TcpRxStep::Decide => {
                if self.job.q.val() == TcpRxJob::Segment {
                    self.state.d.next = TcpRxStep::Nobody;
                    if self.hit.q.val() {
                        self.state.d.next = TcpRxStep::Read;
                    }
                } else {
                    self.from_cm.ready.next = true;
                    self.tell_cm.d.next = true;
                    self.state.d.next = TcpRxStep::Tell;
                    if self.hit.q.val() {
                        self.cm_note.d.next = RxCmNote::Exists;
                    } else if !self.free_count.q.val().any() {
                        self.cm_note.d.next = RxCmNote::NoSlot;
                    } else {
                        self.cm_note.d.next = RxCmNote::Opened;
                        self.cnt_tcp_active_opens.next = true;
                        self.pop.next = true;
                    }
                }
            }
            TcpRxStep::Read => {
                self.same.d.next = false;
                self.there.next = self.known.val();
                self.line.d.next = 1.into();
                self.state.d.next = TcpRxStep::Latch;
            }
            TcpRxStep::Latch => {
                self.row.d.next = self.rows.turned.val();
                self.there.next = self.line.q.val() == 4;
                self.line.d.next = self.line.q.val() + 1;
            }
            TcpRxStep::Change => {
                self.state.d.next = TcpRxStep::Store;
                self.ask_op.d.next = LookupOp::Remove;
                self.ask_index.d.next = self.index.q.val();
                if self.job.q.val() == TcpRxJob::Sent {
                    self.from_tx.ready.next = true;
                    self.row.d.next.snd_max = self.from_tx.data.val().max;
                    if self.from_tx.data.val().fin {
                        self.row.d.next.fin_sent = true;
                    }
                    if self.from_tx.data.val().start {
                        self.row.d.next.started = true;
                        self.row.d.next.snd_una = self.isn.val();
                    }
                } else {
                    self.from_cm.ready.next = true;
                    self.key.d.next = self.row.q.val().tuple;
                    self.lis.d.next = bit_cast::<L, 8>(self.row_listener.val());
                    if self.from_cm.data.val().op == CmRxOp::Full {
                        self.row.d.next.full = true;
                    } else if self.from_cm.data.val().op == CmRxOp::Discard {
                        self.row.d.next.discard = true;
                    } else if self.is.val() != RxConnState::Free {
                        self.after.d.next = TcpRxStep::Store;
                        if self.row.q.val().half_open {
                            self.row.d.next.half_open = false;
                            self.after.d.next = TcpRxStep::CountRead;
                            self.state.d.next = TcpRxStep::CountRead;
                        }
                        if (self.from_cm.data.val().op == CmRxOp::Free) | (self.from_cm.data.val().op == CmRxOp::Reopen) {
                            self.cnt_tcp_attempt_fails.next =
                                (self.is.val() == RxConnState::SynSent) | (self.is.val() == RxConnState::SynReceived);
                            self.cnt_tcp_estab_resets.next = (self.is.val() == RxConnState::Open) & !self.row.q.val().fin_sent;
                        }
                        if self.from_cm.data.val().op == CmRxOp::Free {
                            self.push.next = true;
                            self.row.d.next.state = RxConnState::Free;
                            if self.is.val() != RxConnState::Dead {
                                self.state.d.next = TcpRxStep::Ask;
                            }
                        } else if self.from_cm.data.val().op == CmRxOp::Reopen {
                            // its tuple may have become somebody else's if it was over
                            self.from_cm.ready.next = false;
                            self.ask_op.d.next = LookupOp::Find;
                            self.after.d.next = TcpRxStep::Again;
                            self.state.d.next = TcpRxStep::Again;
                            if self.is.val() == RxConnState::Dead {
                                self.state.d.next = TcpRxStep::Ask;
                            }
                        }
                    }
                }
            }
            TcpRxStep::Again => {
                self.from_cm.ready.next = true;
                self.index.d.next = self.cm_index.val();
                self.tell_cm.d.next = true;
                self.cm_note.d.next = RxCmNote::Reopened;
                if (self.is.val() == RxConnState::Dead) & self.hit.q.val() {
                    self.refused.d.next = true;
                    self.state.d.next = TcpRxStep::Tell;
                } else {
                    self.cnt_tcp_active_opens.next = true;
                    self.row.d.next = self.fresh.val();
                    self.tell_note.d.next = true;
                    self.tx_note.d.next = RxNote::Open;
                    self.ask_op.d.next = LookupOp::Insert;
                    self.ask_index.d.next = self.cm_index.val();
                    self.after.d.next = TcpRxStep::Store;
                    self.state.d.next = TcpRxStep::Store;
                    if self.is.val() == RxConnState::Dead {
                        self.state.d.next = TcpRxStep::Ask;
                    }
                }
            }
            TcpRxStep::Measure => {
                self.wnd.d.next = self.row.q.val().rcv_wnd;
                if self.window.val() > self.row.q.val().rcv_wnd {
                    self.wnd.d.next = self.window.val();
                }
                self.skip.d.next = self.back.val().get_bits::<16>(0);
                // a replay has come without
                self.key.d.next = self.row.q.val().tuple;
                self.state.d.next = TcpRxStep::Compare;
            }
            TcpRxStep::Compare => {
                self.state.d.next = TcpRxStep::Classify;
            }
            TcpRxStep::Classify => {
                self.state.d.next = TcpRxStep::Judge;
            }
            TcpRxStep::Judge => {
                // unless said otherwise: dropped, and nothing changes
                self.state.d.next = TcpRxStep::Rule;
                self.after.d.next = TcpRxStep::Tell;
                self.lis.d.next = bit_cast::<L, 16>(self.seg_listener.val());
                if self.seg.q.val().replay {
                    if self.is.val() == RxConnState::Open {
                        self.tx_note.d.next = RxNote::Update;
                        if self.seg_len.q.val().any() {
                            self.tell_note.d.next = self.acceptable.q.val();
                            if self.acceptable.q.val() {
                                self.state.d.next = TcpRxStep::Text;
                            }
                        } else {
                            self.tell_note.d.next = !self.row.q.val().fin_rcvd;
                            self.ack_now.d.next = true;
                            self.row.d.next.held = self.seg.q.val().more;
                            self.after.d.next = TcpRxStep::Store;
                        }
                    }
                } else if self.is.val() == RxConnState::Wait {
                    if self.rst.val() {
                        self.after.d.next = TcpRxStep::Tell;
                    } else if self.syn.val() & !self.ack.val() & self.seq_ahead.q.val() & self.seg.q.val().listening {
                        self.after.d.next = TcpRxStep::CountRead;
                    } else if !self.acceptable.q.val() | self.syn.val() | (self.ack.val() & self.seg_len.q.val().any()) {
                        self.tell_reply.d.next = true;
                        self.reply_seq.d.next = self.row.q.val().snd_max;
                        self.reply_ack.d.next = self.row.q.val().rcv_nxt;
                        self.reply_flags.d.next = 0x10.into();
                        if self.fin_again.q.val() {
                            self.row.d.next.wl1 = self.deadline.q.val();
                            self.after.d.next = TcpRxStep::Store;
                        }
                    }
                } else if !self.row.q.val().started {
                    self.after.d.next = TcpRxStep::Tell;
                } else if self.is.val() == RxConnState::SynSent {
                    if self.ack.val() & !self.ack_new.q.val() {
                        self.reset_peer.next = !self.rst.val();
                    } else if self.rst.val() {
                        if self.ack.val() {
                            self.bury.next = true;
                            self.refused.d.next = true;
                            self.cnt_tcp_attempt_fails.next = true;
                        }
                    } else if self.syn.val() {
                        self.row.d.next.state = RxConnState::SynReceived;
                        self.row.d.next.rcv_nxt = self.seq_next.q.val();
                        self.row.d.next.rcv_wnd = self.window.val();
                        self.row.d.next.wnd = self.seg.q.val().window;
                        self.row.d.next.max_wnd = self.seg.q.val().window;
                        self.row.d.next.wl1 = self.seg.q.val().seq;
                        self.row.d.next.wl2 = self.seg.q.val().ack;
                        self.tell_note.d.next = true;
                        self.tx_note.d.next = RxNote::Syn;
                        self.after.d.next = TcpRxStep::Store;
                        if self.ack.val() {
                            self.row.d.next.state = RxConnState::Open;
                            self.row.d.next.snd_una = self.seg.q.val().ack;
                            self.tell_synced.d.next = true;
                        }
                    }
                } else if self.rst.val() {
                    if self.seq_exact.q.val() {
                        self.bury.next = true;
                        self.refused.d.next = self.is.val() == RxConnState::SynReceived;
                        self.cnt_tcp_attempt_fails.next = self.is.val() == RxConnState::SynReceived;
                        self.cnt_tcp_estab_resets.next = (self.is.val() == RxConnState::Open) & !self.row.q.val().fin_sent;
                    } else if self.seq_in.q.val() {
                        self.answer.next = true;
                        self.challenge.d.next = true;
                    } else {
                        self.cnt_tcp_in_unacceptable.next = true;
                    }
                } else if (self.is.val() == RxConnState::SynReceived)
                    & !self.row.q.val().passive
                    & self.syn.val()
                    & self.ack.val()
                    & self.ack_new.q.val()
                    & self.seq_prev.q.val()
                {
                    self.crossed.d.next = true;
                    self.ack_now.d.next = true;
                    self.opened.d.next = true;
                    self.state.d.next = TcpRxStep::Ack;
                } else if self.syn.val() {
                    if (self.is.val() == RxConnState::SynReceived) & self.row.q.val().passive & self.seq_in.q.val() {
                        self.bury.next = true;
                        self.refused.d.next = true;
                        self.cnt_tcp_attempt_fails.next = true;
                    } else {
                        self.answer.next = true;
                        self.challenge.d.next = true;
                        self.cnt_tcp_in_unacceptable.next = !self.acceptable.q.val();
                    }
                } else if !self.acceptable.q.val() {
                    self.answer.next = true;
                    self.cnt_tcp_in_unacceptable.next = true;
                } else if self.ack.val() {
                    if self.is.val() == RxConnState::SynReceived {
                        if self.ack_new.q.val() {
                            self.opened.d.next = true;
                            self.state.d.next = TcpRxStep::Ack;
                        } else {
                            self.reset_peer.next = true;
                        }
                    } else if self.ack_bad.q.val() {
                        self.answer.next = true;
                        self.challenge.d.next = true;
                    } else {
                        self.state.d.next = TcpRxStep::Ack;
                    }
                }
            }
            TcpRxStep::Ack => {
                self.tell_note.d.next = true;
                self.tx_note.d.next = RxNote::Update;
                if self.opened.q.val() {
                    self.row.d.next.state = RxConnState::Open;
                    self.tell_synced.d.next = true;
                }
                if self.ack_new.q.val() {
                    self.row.d.next.snd_una = self.seg.q.val().ack;
                }
                if self.opened.q.val() | (self.wl_ok.q.val() & (self.ack_new.q.val() | self.ack_same.q.val())) {
                    self.row.d.next.wnd = self.seg.q.val().window;
                    self.row.d.next.wl1 = self.seg.q.val().seq;
                    self.row.d.next.wl2 = self.seg.q.val().ack;
                    if self.seg.q.val().window > self.row.q.val().max_wnd {
                        self.row.d.next.max_wnd = self.seg.q.val().window;
                    }
                }
                self.duplicate.d.next = self.ack_same.q.val()
                    & self.outstanding.q.val()
                    & !self.seg_len.q.val().any()
                    & (self.seg.q.val().window == self.row.q.val().wnd);
                self.state.d.next = TcpRxStep::Text;
                if self.crossed.q.val() {
                    self.after.d.next = TcpRxStep::Store;
                    self.state.d.next = TcpRxStep::Rule;
                }
            }
            TcpRxStep::Text => {
                self.state.d.next = TcpRxStep::Rule;
                // whether a FIN counts is known a clock after what was consumed
                self.after.d.next = TcpRxStep::Settle;
                if self.fin.val() {
                    self.after.d.next = TcpRxStep::Fin;
                }
                self.take.d.next = self.d_data.q.val().get_bits::<16>(0);
                if self.data_over.q.val() {
                    self.take.d.next = self.wnd.q.val();
                }
                self.in_text.next = (self.seg.q.val().len != 0) & self.new_data.q.val() & !self.row.q.val().fin_rcvd;
                if self.in_text.val() & self.row.q.val().fin_sent & !self.row.q.val().discard {
                    self.bury.next = true;
                    self.tell_note.d.next = false;
                    self.tell_reply.d.next = true;
                    self.reply_seq.d.next = self.row.q.val().snd_max;
                    self.reply_ack.d.next = self.row.q.val().rcv_nxt;
                    self.reply_flags.d.next = 0x14.into();
                } else if self.in_text.val() & !self.seq_ahead.q.val() {
                    self.keep.d.next = true;
                } else if self.seq_ahead.q.val() & self.seg_len.q.val().any() {
                    self.ack_now.d.next = true;
                    if self.may_hold.val() {
                        self.hold.d.next = true;
                        self.row.d.next.held = true;
                    }
                }
            }
            TcpRxStep::Rule => {
                self.verdict.valid.next = true;
                if self.verdict.ready.val() {
                    self.state.d.next = self.after.q.val();
                    if self.keep.q.val() {
                        self.state.d.next = TcpRxStep::Consumed;
                    }
                }
            }
            TcpRxStep::Consumed => {
                self.consumed.ready.next = true;
                if self.consumed.valid.val() {
                    self.got.d.next = self.consumed.data.val();
                    self.state.d.next = self.after.q.val();
                }
            }
            TcpRxStep::Fin => {
                self.state.d.next = TcpRxStep::Settle;
            }
            TcpRxStep::Settle => {
                self.row.d.next.rcv_nxt = self.row.q.val().rcv_nxt + bit_cast::<32, 17>(self.step.val());
                if self.got.q.val().any() {
                    self.row.d.next.begun = true;
                    if self.row.q.val().held {
                        self.advanced.d.next = !self.fin_now.q.val();
                    } else if self.psh.val() | self.row.q.val().full {
                        self.ack_now.d.next = true;
                        self.ack_soft.d.next = self.row.q.val().full & !self.ack_now.q.val() & !self.fin_now.q.val();
                    }
                }
                if self.fin_now.q.val() {
                    self.row.d.next.fin_rcvd = true;
                    self.row.d.next.closed_first = self.row.q.val().fin_sent;
                    self.tell_fin.d.next = true;
                    self.ack_now.d.next = true;
                }
                self.state.d.next = TcpRxStep::Advance;
            }
            TcpRxStep::Advance => {
                self.row.d.next.rcv_wnd = self.left.q.val().get_bits::<16>(0);
                if self.window.val() > self.left.q.val().get_bits::<16>(0) {
                    self.row.d.next.rcv_wnd = self.window.val();
                }
                self.state.d.next = TcpRxStep::Store;
                if self.row.q.val().fin_sent & self.row.q.val().fin_rcvd & self.all_acked.q.val() {
                    self.tell_stop.d.next = true;
                    self.tell_cm.d.next = true;
                    self.cm_note.d.next = RxCmNote::Closed;
                    if self.row.q.val().closed_first {
                        self.waiting.d.next = true;
                        // the connection's own ACK would die with it
                        self.tell_reply.d.next = self.ack_now.q.val();
                        self.ack_now.d.next = false;
                        self.reply_seq.d.next = self.row.q.val().snd_max;
                        self.reply_ack.d.next = self.row.q.val().rcv_nxt;
                        self.reply_flags.d.next = 0x10.into();
                        self.scan_left.d.next = self.last_scan.val();
                        self.scan_first.d.next = true;
                        self.state.d.next = TcpRxStep::ScanRead;
                    } else {
                        self.row.d.next.state = RxConnState::Dead;
                        self.state.d.next = TcpRxStep::Bury;
                    }
                }
            }
            TcpRxStep::Nobody => {
                self.state.d.next = TcpRxStep::Rule;
                self.after.d.next = TcpRxStep::Tell;
                self.lis.d.next = bit_cast::<L, 16>(self.seg_listener.val());
                if self.rst.val() {
                    self.after.d.next = TcpRxStep::Tell;
                } else if self.ack.val() {
                    self.reset_peer.next = true;
                } else if self.seg.q.val().listening {
                    if self.syn.val() {
                        self.after.d.next = TcpRxStep::CountRead;
                    }
                } else {
                    self.tell_reply.d.next = true;
                    self.reply_seq.d.next = 0.into();
                    self.reply_ack.d.next = self.seg_end.q.val();
                    self.reply_flags.d.next = 0x14.into();
                }
            }
            TcpRxStep::CountRead => {
                self.state.d.next = TcpRxStep::CountAct;
            }
            TcpRxStep::CountAct => {
                if self.job.q.val() == TcpRxJob::Limit {
                    self.from_cm.ready.next = true;
                    self.count_write.next = true;
                    self.new_count.next.limit = self.from_cm.data.val().limit;
                    self.state.d.next = TcpRxStep::Tell;
                } else if self.job.q.val() == TcpRxJob::Change {
                    self.count_write.next = true;
                    self.new_count.next.count = self.count_down.val();
                    self.state.d.next = TcpRxStep::Store;
                } else if self.room.q.val() & (self.count.val().count < self.count.val().limit) {
                    self.count_write.next = true;
                    self.new_count.next.count = self.count_up.val();
                    self.state.d.next = TcpRxStep::Admit;
                    if self.hit.q.val() {
                        self.cnt_tcp_wait_reused.next = true;
                        self.tell_wait_end.d.next = true;
                        self.row.d.next.state = RxConnState::Free;
                        self.ask_op.d.next = LookupOp::Remove;
                        self.ask_index.d.next = self.index.q.val();
                        self.after.d.next = TcpRxStep::Vacate;
                        self.state.d.next = TcpRxStep::Ask;
                    }
                } else {
                    self.cnt_tcp_syn_dropped.next = true;
                    self.state.d.next = TcpRxStep::Tell;
                }
            }
            TcpRxStep::Vacate => {
                self.write_row.next = true;
                self.slot.d.next = bit_cast::<T, 16>(self.index.q.val());
                self.state.d.next = TcpRxStep::Admit;
            }
            TcpRxStep::Admit => {
                self.tell_cm.d.next = true;
                self.cm_note.d.next = RxCmNote::Passive;
                self.cnt_tcp_passive_opens.next = true;
                self.pop.next = true;
            }
            TcpRxStep::Bury => {
                self.ask_op.d.next = LookupOp::Remove;
                self.ask_index.d.next = self.index.q.val();
                self.after.d.next = TcpRxStep::Store;
                self.state.d.next = TcpRxStep::Ask;
            }
            TcpRxStep::ScanRead => {
                self.address.next = self.scan_index.val();
                self.state.d.next = TcpRxStep::ScanLatch;
            }
            TcpRxStep::ScanLatch => {
                self.scan_latch.next = true;
                self.state.d.next = TcpRxStep::ScanCheck;
            }
            TcpRxStep::ScanCheck => {
                self.scan.d.next = self.scan.q.val() + 1;
                self.scan_left.d.next = self.scan_left.q.val() - 1;
                self.scan_first.d.next = false;
                self.state.d.next = TcpRxStep::ScanRead;
                if !self.scan_used.q.val() {
                    self.slot.d.next = self.scan.q.val();
                    self.state.d.next = TcpRxStep::Move;
                } else {
                    if self.scan_first.q.val() | self.older.val().get_bit(31) {
                        self.slot.d.next = self.scan.q.val();
                        self.slot_deadline.d.next = self.scan_deadline.q.val();
                    }
                    if self.scan_left.q.val() == 0 {
                        self.state.d.next = TcpRxStep::EvictRead;
                    }
                }
            }
            TcpRxStep::EvictRead => {
                self.address.next = self.wait_index.val();
                self.rows.word.next = 1.into();
                self.state.d.next = TcpRxStep::EvictLatch;
            }
            TcpRxStep::EvictLatch => {
                self.cnt_tcp_wait_overflow.next = true;
                self.tell_wait_end.d.next = true;
                self.key.d.next.local_ip = self.rows.read.val().get_bits::<32>(0);
                self.key.d.next.remote_ip = self.rows.read.val().get_bits::<32>(32);
                self.key.d.next.local_port = self.rows.read.val().get_bits::<16>(64);
                self.key.d.next.remote_port = self.rows.read.val().get_bits::<16>(80);
                self.ask_op.d.next = LookupOp::Remove;
                self.ask_index.d.next = self.wait_index.val();
                self.after.d.next = TcpRxStep::Move;
                self.state.d.next = TcpRxStep::Ask;
            }
            TcpRxStep::Move => {
                self.key.d.next = self.row.q.val().tuple;
                self.row.d.next.state = RxConnState::Wait;
                self.row.d.next.wl1 = self.deadline.q.val();
                self.ask_op.d.next = LookupOp::Remove;
                self.ask_index.d.next = self.index.q.val();
                self.after.d.next = TcpRxStep::MoveIn;
                self.state.d.next = TcpRxStep::Ask;
            }
            TcpRxStep::MoveIn => {
                self.ask_op.d.next = LookupOp::Insert;
                self.ask_index.d.next = self.wait_index.val();
                self.after.d.next = TcpRxStep::MoveStore;
                self.state.d.next = TcpRxStep::Ask;
            }
            TcpRxStep::MoveStore => {
                self.address.next = self.wait_index.val();
                self.write_row.next = true;
                self.row.d.next = self.rows.turned.val();
                self.line.d.next = self.line.q.val() + 1;
                if self.line.q.val() == 3 {
                    self.line.d.next = 0.into();
                    self.row.d.next.state = RxConnState::Dead;
                    self.state.d.next = TcpRxStep::Store;
                }
            }
            // the first word of an entry says whether there is more to do
            TcpRxStep::SweepRead => {
                self.state.d.next = TcpRxStep::SweepLatch;
            }
            TcpRxStep::SweepLatch => {
                self.scan_latch.next = true;
                self.state.d.next = TcpRxStep::SweepAge;
            }
            TcpRxStep::SweepAge => {
                self.state.d.next = TcpRxStep::SweepAct;
            }
            TcpRxStep::SweepAct => {
                self.state.d.next = TcpRxStep::Tell;
                if self.scan_used.q.val() & !self.age.q.val().get_bit(31) {
                    self.state.d.next = TcpRxStep::Read;
                }
            }
            TcpRxStep::SweepEnd => {
                self.row.d.next.state = RxConnState::Free;
                self.key.d.next = self.row.q.val().tuple;
                self.tell_wait_end.d.next = true;
                self.state.d.next = TcpRxStep::Bury;
            }
            TcpRxStep::Store => {
                // the row is whole in the first clock: what most segments tell is told then
                self.to_tx.valid.next = self.tell_note.q.val();
                if !self.tell_note.q.val() | self.to_tx.ready.val() {
                    self.tell_note.d.next = false;
                    self.write_row.next = true;
                    self.note.next.forget = (self.line.q.val() == 0) & !self.may_hold.val() & !self.is_wait_index.val();
                    self.row.d.next = self.rows.turned.val();
                    self.line.d.next = self.line.q.val() + 1;
                    if self.line.q.val() == 3 {
                        self.line.d.next = 0.into();
                        self.same.d.next = true;
                        self.loaded.d.next = self.index.q.val();
                        self.state.d.next = TcpRxStep::Tell;
                    }
                }
            }
            TcpRxStep::Tell => {
                if self.tell_note.q.val() {
                    self.to_tx.valid.next = true;
                    self.tell_note.d.next = !self.to_tx.ready.val();
                    self.told.next = self.to_tx.ready.val() & !self.tells_more.val();
                } else if self.tell_stop.q.val() {
                    self.to_tx.valid.next = true;
                    self.to_tx.data.next.note = RxNote::Stop;
                    self.tell_stop.d.next = !self.to_tx.ready.val();
                } else if self.tell_reply.q.val() {
                    self.to_tx.valid.next = true;
                    self.to_tx.data.next.note = RxNote::Reply;
                    self.to_tx.data.next.ack = self.reply_ack.q.val();
                    self.tell_reply.d.next = !self.to_tx.ready.val();
                } else if self.tell_wait_end.q.val() {
                    self.to_cm.valid.next = true;
                    self.to_cm.data.next.note = RxCmNote::WaitEnd;
                    self.tell_wait_end.d.next = !self.to_cm.ready.val();
                } else if self.tell_synced.q.val() {
                    self.to_cm.valid.next = true;
                    self.to_cm.data.next.note = RxCmNote::Synced;
                    self.tell_synced.d.next = !self.to_cm.ready.val();
                } else if self.tell_fin.q.val() {
                    self.to_cm.valid.next = true;
                    self.to_cm.data.next.note = RxCmNote::Fin;
                    self.tell_fin.d.next = !self.to_cm.ready.val();
                } else if self.tell_cm.q.val() {
                    self.to_cm.valid.next = true;
                    self.tell_cm.d.next = !self.to_cm.ready.val();
                } else {
                    self.told.next = true;
                }
            }
            _ => {
                self.state.d.next = TcpRxStep::Clear;
            }
        }

        if self.told.val() {
            self.note.next.settled = self.job.q.val() == TcpRxJob::Segment;
            self.state.d.next = TcpRxStep::Idle;
        }
        // an entry of the TIME-WAIT table, whose state is any but Free, and its end
        if self.scan_latch.val() {
            self.scan_used.d.next = self.rows.read.val().get_bits::<3>(0).any();
            self.scan_deadline.d.next = self.rows.read.val().get_bits::<32>(3);
        }
        // the row has been read
        if self.there.val() {
            self.line.d.next = 0.into();
            self.state.d.next = TcpRxStep::Change;
            if self.job.q.val() == TcpRxJob::Segment {
                self.state.d.next = TcpRxStep::Measure;
            } else if self.job.q.val() == TcpRxJob::Sweep {
                self.state.d.next = TcpRxStep::SweepEnd;
            }
        }
        // a segment that is answered by an ACK
        if self.answer.val() {
            self.tell_note.d.next = true;
            self.tx_note.d.next = RxNote::Answer;
        }
        // and one that is answered by RST: its ACK says what its sender expects
        if self.reset_peer.val() {
            self.tell_reply.d.next = true;
            self.reply_seq.d.next = self.seg.q.val().ack;
            self.reply_ack.d.next = 0.into();
            self.reply_flags.d.next = 0x04.into();
        }
        // the connection is over by a reset, of the peer or ours
        if self.bury.val() {
            self.row.d.next.state = RxConnState::Dead;
            self.tell_stop.d.next = true;
            self.tell_cm.d.next = true;
            self.cm_note.d.next = RxCmNote::Reset;
            self.after.d.next = TcpRxStep::Bury;
        }
        // a new connection in the oldest free index
        if self.pop.val() {
            self.index.d.next = self.free_index.val();
            self.same.d.next = false;
            self.row.d.next = self.fresh.val();
            self.ask_op.d.next = LookupOp::Insert;
            self.ask_index.d.next = self.free_index.val();
            self.after.d.next = TcpRxStep::Store;
            self.state.d.next = TcpRxStep::Ask;
            self.tell_note.d.next = true;
            self.tx_note.d.next = RxNote::Open;
            self.free_head.d.next = self.free_head.q.val() + 1;
            self.free_count.d.next = self.free_count.q.val() - 1;
        }

        // memory
        self.rows.index.next = bit_cast::<A, 16>(self.address.val());
        self.rows.write.next = self.write_row.val();
        self.rows.value.next = self.row.q.val();
        self.half_open.read_address.next = self.lis.q.val();
        self.half_open.write_address.next = self.lis.q.val();
        self.half_open.write_enable.next = self.count_write.val();
        self.half_open.write_data.next = self.new_count.val();
        self.free.read_address.next = self.free_head.q.val();
        self.free.write_address.next = self.free_tail.q.val();
        self.free.write_enable.next = self.push.val();
        self.free.write_data.next = bit_cast::<C, 16>(self.index.q.val());
        if self.push.val() {
            self.free_tail.d.next = self.free_tail.q.val() + 1;
            self.free_count.d.next = self.free_count.q.val() + 1;
        }
        if self.state.q.val() == TcpRxStep::Clear {
            self.half_open.write_address.next = bit_cast::<L, A>(self.clear_at.q.val());
            self.free.write_enable.next = true;
            self.free.write_address.next = bit_cast::<C, A>(self.clear_at.q.val());
            self.free.write_data.next = bit_cast::<C, A>(self.clear_at.q.val());
        }

        if self.reset.val() {
            self.state.d.next = TcpRxStep::Clear;
            self.row.d.next = self.fresh.val();
            self.row.d.next.state = RxConnState::Free;
            self.line.d.next = 0.into();
            self.same.d.next = false;
            self.clear_at.d.next = 0.into();
            self.free_head.d.next = 0.into();
            self.free_tail.d.next = 0.into();
            self.free_count.d.next = self.first_wait.val();
            self.pace.d.next = 0.into();
            self.due.d.next = false;
            self.sweep.d.next = 0.into();
            self.scan.d.next = 0.into();
            self.tell_note.d.next = false;
            self.tell_stop.d.next = false;
            self.tell_reply.d.next = false;
            self.tell_wait_end.d.next = false;
            self.tell_synced.d.next = false;
            self.tell_fin.d.next = false;
            self.tell_cm.d.next = false;
        }
    }
}
