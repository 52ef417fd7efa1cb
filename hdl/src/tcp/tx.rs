// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending half of TCP: what leaves, when, and when it leaves again (RFC 9293, 6298, 5681).
//!
//! **Interface.** `from_rx` and `from_cm` bring what changes a connection (see [`super::types`]), `expired` the end of its one deadline,
//! `notice` the end of a neighbour's resolution. What this makes necessary puts the connection into a queue of its own; segments and messages to
//! `to_rx` and `to_cm` come only from there, one segment a turn, so an ACK rides on whatever leaves anyway. A turn starts only when `to_rx` and
//! `to_cm` have room: neither can ever stall the engine. It may stall for `isn`, `answer` and `deadline` (a fixed time each; `deadlines` must take a
//! `set` while it offers an expiry), for `segment` and `payload` (until the segment before has left), and before `Freed` for the end of
//! `payload_busy`, which must be high from the clock after a `payload` was taken. An expiry that a later `set` has overtaken is ignored.
//! `from_rx` goes first, but after each message of it the queue and an expiry have a turn, and after the 31st that `from_cm` had to wait for it has one: more
//! than the queue on the way here can hold, so all that `rx` said before the manager spoke is known by then.
//!
//! **The octets of a connection**: SYN at ISS; a start-up frame of `frame_len` octets (0 until `Send`), given by `mpa::start_tx` as often as it
//! is asked; FPDUs, of which `rdma::sq` tells by `from_sq`, at most 32 that are not acknowledged; FIN. The states `Plan1..Plan6`, for FPDUs `Data1..Data5`, find the next
//! piece from SND.NXT; nothing else knows what octets there are. An FPDU is known by its length and a reference that goes to who makes it; it leaves as one segment, and is
//! repeated as one. `to_sq` says, in a turn, what EMSS is and how many FPDUs were acknowledged to their last octet.
//!
//! **Rules.** Effective send size: min(peer's MSS, 536 without one, MTU - 40), at least 1 (TCP-11). A piece is sent within SND.UNA +
//! min(cwnd, SND.WND) if it is full, or all there is, or half of the largest window, or after the time-out (TCP-20); PSH on the last octet of the frame,
//! FIN with it if it fits. Pure ACKs have SEQ = the largest SND.NXT, but not beyond the peer's window.
//! * An FPDU that does not fit (window, EMSS) is cut only if nothing is in flight, at a multiple of 8 octets, and never in its last 11, where PAD, CRC and
//!   a marker between them are (SEG-11). What is repeated from the middle begins at a multiple of 8 too.
//! * Third duplicate (RFC 5681, 6582, 3042): the FPDU at SND.UNA goes out of turn (`resend`), SND.NXT stays; a partial acknowledgement does the same. For the start-up
//!   frame there is only the time-out.
//! * Time-out: everything from SND.UNA on is sent again as cwnd = 1 segment lets it, RTO doubles; ssthresh falls once a loss (TCP-39, 41).
//!   The R1-th retransmission polls the neighbour again. R2 counts from the first transmission of the earliest unacknowledged octets, or from
//!   the last ACK that acknowledged a part, or from the first attempt if there is no neighbour.
//! * Window zero: empty segments at SND.UNA - 1, spaced RTO, 2 RTO, ..; R2 counts from the first one without an answer (TCP-21).
//! * After `Stop` and after giving up nothing is sent any more, no RST either.
//! * The deadline of unacknowledged octets, of probes, of the override of TCP-20 and of a missing neighbour is one: a connection has only one of
//!   these troubles at a time.
//! * Neighbour missing: the connection waits, `notice` sends it on. Resolution failed or no route: `Unreachable` before the handshake is complete,
//!   else the retransmission timer goes on. A stateless segment or RST is dropped. A destination of our own has `own_mac`.
//! * The way is asked for once while one connection is at hand; again after `neighbors_changed` (ARP-9), for a `recheck`, and after 1024 clocks, for addresses of our own may change too.
//! * Payload in order that asks for an ACK (`soft`) has it with the second such segment, with what leaves anyway, 64 clocks later, or as soon as another connection is worked on (TCP-18).
//!
//! **States**: a job is Load (the numbers of the connection before go to memory, this one's come; nothing is done if it is the same one), then by its kind Rx, Cm, Timer, Notice or Send, then Finish. `Keep` is a Load
//! whose numbers nobody wants: before a stateless segment and a search for who waits, which need the registers. What memory has of the connection at hand is old, but for the few bits in `quick`.
//! **Timing** in clocks, from one Idle to the next, 5 more if it is another connection than the last: Update 7, 3 more for each FPDU that it acknowledges, with an RTT sample up to 11 more, 2 or 3 when cwnd grows, 3 when the
//! timer changes; Answer 3, Open 6 and the ISN's time, a command 3, a time-out 5 or 6. A segment 13, a whole FPDU 10, 3 more if it starts the timer, 9 and the neighbour's time more (6 from a query where ARP finds it in its own
//! place) if the way is not known: in a row one every 14, or 11. An FPDU is queued in 2. A turn with nothing to send 10. A notice visits all connections, 3 clocks each and 15 more for each that waits, but only if one does.
//! **Memory**: 2^CP2 x (160 + 56) bits and 2^CP5 x 79 bits of block RAM (C = 5: 7 and 5 DP16KD), 2^C x 14 bits, the queue of 2^C entries; `ready` is low for 4 * 2^C clocks after
//! reset, in which all connections become free. CP1 = C + 1 and so on.
use super::types::*;
use crate::net::neighbor_types::*;
use crate::net::next_hop::{NextHop, Route};
use crate::net::types::LocalAddress;
use crate::rdma::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TcpTxState {
    /// Nobody's.
    Free,
    SynSent,
    SynReceived,
    /// Any state after the handshake.
    Open,
    /// Given up or stopped: waits for `Free` or `Abort`.
    Dead,
    /// `Free` or `Abort` came: RST if `reset`, then `Freed`.
    Ending,
}

/// What of a connection is more than a number.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxControl {
    pub state: TcpTxState,
    /// FIN after the frame.
    pub close: Bit,
    /// In the queue.
    pub queued: Bit,
    pub ack_due: Bit,
    /// The neighbour at `hop` is being resolved.
    pub waiting: Bit,
    /// The next query polls the neighbour (ARP-11).
    pub recheck: Bit,
    pub timer_on: Bit,
    /// A window probe is due.
    pub probe: Bit,
    /// The next piece may be a small one.
    pub small: Bit,
    /// RTT is being measured.
    pub timed: Bit,
    /// SRTT holds.
    pub sampled: Bit,
    pub syn_lost: Bit,
    /// `first_tx` holds.
    pub since: Bit,
    /// RST is owed; with ACK if `reset_ack`.
    pub reset: Bit,
    pub reset_ack: Bit,
    pub tell_timed_out: Bit,
    pub tell_unreachable: Bit,
    /// Duplicate acknowledgements, 0..=2; fast recovery; the FPDU at SND.UNA is to be sent again out of turn (RFC 6582).
    pub duplicates: Bits<2>,
    pub recovering: Bit,
    pub resend: Bit,
    /// `rdma::sq` does not know `emss` yet.
    pub tell_emss: Bit,
    /// Retransmissions since the last progress, or probes.
    pub backoff: Bits<8>,
    pub tos: Bits<8>,
    /// Effective send size.
    pub emss: Bits<16>,
    pub frame_len: Bits<16>,
    pub hop: Bits<32>,
}

/// The FPDUs of a connection that are not acknowledged: a ring of 32, indices free-running.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxRing {
    /// Oldest, next to send, next to come.
    pub head: Bits<6>,
    pub unsent: Bits<6>,
    pub tail: Bits<6>,
    /// Acknowledged and not yet told.
    pub acked: Bits<6>,
    /// Sequence number of the first octet of `head` and of `unsent`. Both are behind the start-up frame while there is no FPDU.
    pub head_seq: Bits<32>,
    pub unsent_seq: Bits<32>,
    /// RFC 6582: what was sent when the loss was seen; while duplicates are counted, when the first of them came.
    pub recover: Bits<32>,
}

/// What can be had without the rest of a connection, and must be: `queued` and `tail`, which an FPDU changes, stand nowhere else.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxQuick {
    pub open: Bit,
    pub waiting: Bit,
    pub queued: Bit,
    pub tail: Bits<6>,
    /// Place of the FPDU that is sent next.
    pub send_at: Bits<5>,
}

/// An FPDU of the ring.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxFpdu {
    pub fpdu: FpduRef,
    pub wire_len: Bits<16>,
    pub push: Bit,
}

/// A fourth of the numbers of a connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxLine {
    pub a: Bits<32>,
    pub b: Bits<32>,
    pub c: Bits<32>,
    pub d: Bits<32>,
    pub e: Bits<32>,
}

/// What is kept of a notice.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct TcpTxNotice {
    pub ip: Bits<32>,
    pub ok: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TcpTxJob {
    Rx,
    Cm,
    Timer,
    Notice,
    Send,
    /// The row at hand goes to memory.
    Keep,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum TcpTxStep {
    Clear,
    Idle,
    ScanRead,
    ScanLook,
    ScanTest,
    ScanNext,
    Load,
    RxAct,
    Isn,
    IsnWait,
    Ack1,
    Ack2,
    Ack3,
    Rtt1,
    Rtt2,
    Rtt3,
    Rtt4,
    Rtt5,
    Rtt6,
    Rtt7,
    ClampLow,
    ClampHigh,
    Grow1,
    Grow2,
    Grow3,
    Dup1,
    Dup2,
    Dup3,
    Dup4,
    Rec1,
    Rec2,
    Rec3,
    Rec4,
    Rec5,
    Pop1,
    Pop2,
    Pop3,
    Pop4,
    AckTimer,
    CmAct,
    NoticeAct,
    TimerAct,
    Expire1,
    Expire2,
    SendAct,
    FpduAct,
    Plan1,
    Plan2,
    Plan3,
    Whole,
    Data1,
    Data2,
    Data3,
    Data4,
    Data5,
    Plan4,
    Plan5,
    Plan6,
    RouteStart,
    Route,
    Query,
    Answer,
    Tell,
    Emit,
    Sent,
    NotSent,
    FreeWait,
    ArmShift,
    ArmAt,
    SetTimer,
    Finish,
}

#[derive(LogicBlock, Default)]
pub struct TcpTx<const C: usize, const CP1: usize, const CP2: usize, const CP5: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub time_us: Signal<In, Bits<32>>,
    pub own_mac: Signal<In, Bits<48>>,
    pub mtu: Signal<In, Bits<16>>,
    pub local: [Signal<In, LocalAddress>; 4],
    pub tcp_window: Signal<In, Bits<16>>,
    pub tcp_rto_init: Signal<In, Bits<32>>,
    pub tcp_rto_min: Signal<In, Bits<32>>,
    pub tcp_rto_max: Signal<In, Bits<32>>,
    pub tcp_r1: Signal<In, Bits<8>>,
    pub tcp_r2: Signal<In, Bits<32>>,
    pub tcp_r2_syn: Signal<In, Bits<32>>,
    pub tcp_challenges: Signal<In, Bits<8>>,
    pub from_rx: ChanSink<RxToTx>,
    pub to_rx: ChanSrc<TxToRx>,
    pub from_cm: ChanSink<CmToTx>,
    pub to_cm: ChanSrc<TxToCm>,
    pub from_sq: ChanSink<FpduQueued>,
    pub to_sq: ChanSrc<TxToSq>,
    pub segment: ChanSrc<SegmentOut>,
    pub payload: ChanSrc<PayloadOut>,
    pub payload_busy: Signal<In, Bit>,
    pub isn_req: ChanSrc<Tuple>,
    pub isn: ChanSink<Bits<32>>,
    pub query: ChanSrc<NeighborQuery>,
    pub answer: ChanSink<NeighborAnswer>,
    pub notice: Signal<In, NeighborNotice>,
    pub notice_valid: Signal<In, Bit>,
    /// Something of what the neighbour service knows has changed.
    pub neighbors_changed: Signal<In, Bit>,
    pub deadline: ChanSrc<DeadlineSet>,
    pub expired: ChanSink<Bits<16>>,
    pub cnt_tcp_retrans_segs: Signal<Out, Bit>,
    pub cnt_tcp_timeouts: Signal<Out, Bit>,
    pub cnt_tcp_give_ups: Signal<Out, Bit>,
    pub cnt_tcp_challenge_acks: Signal<Out, Bit>,
    pub cnt_tcp_no_neighbor: Signal<Out, Bit>,
    next_hop: NextHop,
    control: RowSwap<TcpTxControl, C, 2, 26>,
    lines: BlockRam<TcpTxLine, CP2>,
    rings: RowSwap<TcpTxRing, C, 2, 30>,
    quick: RAM<TcpTxQuick, C>,
    fpdus: BlockRam<TcpTxFpdu, CP5>,
    /// Connections that have something to do; each at most once (`queued`), so there is always room.
    queue: ChanFifo<Bits<C>, C, CP1>,
    notices: ChanFifo<TcpTxNotice, 4, 5>,
    step: DFF<TcpTxStep>,
    job: DFF<TcpTxJob>,
    /// Whose numbers are in the registers, if `held`; of whom they are wanted.
    index: DFF<Bits<C>>,
    held: DFF<Bit>,
    wanted: DFF<Bits<C>>,
    line: DFF<Bits<3>>,
    /// The connection is to be queued when it is stored.
    push: DFF<Bit>,
    /// After a message of `rx` the queue has a turn, and a deadline that has run out has one.
    turn: DFF<Bit>,
    timer_turn: DFF<Bit>,
    /// Messages of `rx` that were taken while the manager's waits: it is its turn after the 31st.
    patience: DFF<Bits<5>>,
    // scan for a notice: a notice was lost, some connection waits
    scanning: DFF<Bit>,
    scan_all: DFF<Bit>,
    scan_at: DFF<Bits<C>>,
    lost: DFF<Bit>,
    some_wait: DFF<Bit>,
    /// The connection at hand has had payload in order that is not acknowledged; clocks since.
    owing: DFF<Bit>,
    owing_age: DFF<Bits<6>>,
    // the connection at hand
    ctl: DFF<TcpTxControl>,
    ring: DFF<TcpTxRing>,
    /// The FPDU at `unsent`, or the one that is looked at.
    piece: DFF<TcpTxFpdu>,
    tuple: DFF<Tuple>,
    rcv_nxt: DFF<Bits<32>>,
    timer_at: DFF<Bits<32>>,
    iss: DFF<Bits<32>>,
    una: DFF<Bits<32>>,
    nxt: DFF<Bits<32>>,
    /// Largest `nxt`: SND.NXT as the peer knows it.
    max: DFF<Bits<32>>,
    wnd: DFF<Bits<32>>,
    max_wnd: DFF<Bits<32>>,
    cwnd: DFF<Bits<32>>,
    ssthresh: DFF<Bits<32>>,
    /// Octets acknowledged in congestion avoidance that cwnd has not grown for yet.
    acc: DFF<Bits<32>>,
    first_tx: DFF<Bits<32>>,
    rtt_seq: DFF<Bits<32>>,
    rtt_start: DFF<Bits<32>>,
    rto: DFF<Bits<32>>,
    srtt: DFF<Bits<32>>,
    rttvar: DFF<Bits<32>>,
    // intermediate results of an acknowledgement
    gained: DFF<Bits<32>>,
    left: DFF<Bits<32>>,
    behind: DFF<Bits<32>>,
    untimed: DFF<Bits<32>>,
    peer_mss: DFF<Bits<16>>,
    fresh: DFF<Bit>,
    turned: DFF<Bit>,
    same_wnd: DFF<Bit>,
    outstanding: DFF<Bit>,
    grow: DFF<Bit>,
    slow: DFF<Bit>,
    over: DFF<Bit>,
    work: DFF<Bits<32>>,
    negative: DFF<Bit>,
    doublings: DFF<Bits<8>>,
    old: DFF<Bit>,
    // the plan
    flight: DFF<Bits<32>>,
    limit: DFF<Bits<32>>,
    offset: DFF<Bits<32>>,
    in_flight: DFF<Bits<32>>,
    room: DFF<Bits<32>>,
    rest: DFF<Bits<32>>,
    len: DFF<Bits<32>>,
    beyond: DFF<Bit>,
    again: DFF<Bit>,
    more: DFF<Bit>,
    at_end: DFF<Bit>,
    can_data: DFF<Bit>,
    can_fin: DFF<Bit>,
    can_syn: DFF<Bit>,
    whole: DFF<Bit>,
    /// The FPDU fits into a segment; it is at its first octet; there is room for it.
    fits: DFF<Bit>,
    first_octet: DFF<Bit>,
    enough: DFF<Bit>,
    fin_rides: DFF<Bit>,
    want: DFF<Bit>,
    /// The piece is of an FPDU. Octets of it before NXT; its last place for a cut; how much may be sent up to that place; nothing of it may be cut.
    data: DFF<Bit>,
    beyond_start: DFF<Bits<32>>,
    last_cut: DFF<Bits<16>>,
    cut_room: DFF<Bits<32>>,
    idle: DFF<Bit>,
    // the segment
    seq: DFF<Bits<32>>,
    after: DFF<Bits<32>>,
    ahead: DFF<Bits<32>>,
    flags: DFF<Bits<8>>,
    skip: DFF<Bits<16>>,
    /// It takes sequence numbers: `octet`, one for SYN or FIN.
    takes: DFF<Bit>,
    octet: DFF<Bit>,
    probing: DFF<Bit>,
    no_route: DFF<Bit>,
    hop: DFF<Bits<32>>,
    source: DFF<Bits<32>>,
    mac: DFF<Bits<48>>,
    /// `mac` is the way of the connection at hand; for so many clocks. Nothing has changed since it was asked for.
    way_known: DFF<Bit>,
    way_age: DFF<Bits<10>>,
    way_fresh: DFF<Bit>,
    /// An FPDU is perhaps being made once more.
    remaking: DFF<Bit>,
    segment_done: DFF<Bit>,
    payload_done: DFF<Bit>,
    // challenge ACKs
    spent: DFF<Bits<8>>,
    period: DFF<Bits<32>>,
    period_age: DFF<Bits<32>>,
    own_mss: DFF<Bits<16>>,
    // combinational
    rx: Signal<Local, RxToTx>,
    cm: Signal<Local, CmToTx>,
    rx_index: Signal<Local, Bits<16>>,
    cm_index: Signal<Local, Bits<16>>,
    sq: Signal<Local, FpduQueued>,
    sq_index: Signal<Local, Bits<16>>,
    some_fpdu: Signal<Local, Bit>,
    /// Where the piece begins that is sent next, and its FPDU.
    from: Signal<Local, Bits<32>>,
    piece_seq: Signal<Local, Bits<32>>,
    none_left: Signal<Local, Bit>,
    fpdu_slot: Signal<Local, Bits<6>>,
    send_slot: Signal<Local, Bits<6>>,
    head_next: Signal<Local, Bits<6>>,
    fpdu_low: Signal<Local, Bits<5>>,
    send_low: Signal<Local, Bits<5>>,
    ring_head: Signal<Local, Bits<6>>,
    ring_unsent: Signal<Local, Bits<6>>,
    ring_tail: Signal<Local, Bits<6>>,
    wire_len: Signal<Local, Bits<16>>,
    cut_at: Signal<Local, Bits<16>>,
    beyond_low: Signal<Local, Bits<16>>,
    start_at: Signal<Local, Bits<16>>,
    cut_len: Signal<Local, Bits<32>>,
    even_len: Signal<Local, Bits<32>>,
    owed: Signal<Local, Bit>,
    behind_frame: Signal<Local, Bits<32>>,
    timer_index: Signal<Local, Bits<16>>,
    is_syn: Signal<Local, Bit>,
    is_open: Signal<Local, Bit>,
    may_send: Signal<Local, Bit>,
    scan_due: Signal<Local, Bit>,
    head: Signal<Local, TcpTxNotice>,
    noted: Signal<Local, TcpTxNotice>,
    cleared: Signal<Local, TcpTxControl>,
    known: Signal<Local, TcpTxQuick>,
    read: Signal<Local, TcpTxLine>,
    ports: Signal<Local, Bits<32>>,
    write: Signal<Local, TcpTxLine>,
    line_bits: Signal<Local, Bits<2>>,
    store_bits: Signal<Local, Bits<2>>,
    store: Signal<Local, Bit>,
    store_index: Signal<Local, Bits<C>>,
    next_job: Signal<Local, TcpTxJob>,
    next_index: Signal<Local, Bits<C>>,
    chosen: Signal<Local, Bit>,
    starts: Signal<Local, Bit>,
    way_ok: Signal<Local, Bit>,
    own_fpdu: Signal<Local, Bit>,
    ack_waits: Signal<Local, Bit>,
    pay: Signal<Local, Bit>,
    known_low: Signal<Local, Bits<6>>,
    emss: Signal<Local, Bits<32>>,
    window_first: Signal<Local, Bits<32>>,
    send_size: Signal<Local, Bits<16>>,
    challenge_ok: Signal<Local, Bit>,
    all_timed: Signal<Local, Bit>,
    still_out: Signal<Local, Bit>,
    more_backoff: Signal<Local, Bits<8>>,
    half: Signal<Local, Bits<32>>,
    twice: Signal<Local, Bits<32>>,
    r2: Signal<Local, Bits<32>>,
    negated: Signal<Local, Bits<32>>,
    quarter: Signal<Local, Bits<32>>,
    eighth: Signal<Local, Bits<32>>,
    spread: Signal<Local, Bits<32>>,
    frame_skip: Signal<Local, Bits<32>>,
    grows: Signal<Local, Bit>,
    segment_ok: Signal<Local, Bit>,
    payload_ok: Signal<Local, Bit>,
    route: Signal<Local, Route>,
    length: Signal<Local, Bits<16>>,
    telling: Signal<Local, Bit>,
    timer_stop: Signal<Local, Bit>,
    arm: Signal<Local, Bit>,
    probed: Signal<Local, Bit>,
}

impl<const C: usize, const CP1: usize, const CP2: usize, const CP5: usize> Logic for TcpTx<C, CP1, CP2, CP5> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, step, job, index, held, wanted, line, push, turn, timer_turn, patience, scanning, scan_all, scan_at, lost,
            some_wait
        );
        dff_setup!(self, clock, ctl, tuple, rcv_nxt, timer_at, iss, una, nxt, max, wnd, max_wnd, cwnd, ssthresh, acc);
        dff_setup!(self, clock, first_tx, rtt_seq, rtt_start, rto, srtt, rttvar, gained, left, behind, untimed);
        dff_setup!(self, clock, peer_mss, fresh, turned, outstanding, grow, slow, over, work, negative, doublings, old);
        dff_setup!(self, clock, remaking, ring, piece, data, beyond_start, last_cut, cut_room, idle);
        dff_setup!(self, clock, flight, limit, offset, in_flight, room, rest, len, beyond, again, more, at_end);
        dff_setup!(self, clock, owing, owing_age, same_wnd);
        dff_setup!(self, clock, way_known, way_age, way_fresh, fits, first_octet, enough);
        dff_setup!(self, clock, can_data, can_fin, can_syn, whole, fin_rides, want, seq, after, ahead, flags, skip, takes, octet);
        dff_setup!(self, clock, probing, no_route, hop, source, mac, segment_done, payload_done, spent, period, period_age, own_mss);
        clock!(self, clock, next_hop, queue, notices, control, rings);
        self.quick.read_clock.next = self.clock.val();
        self.quick.write_clock.next = self.clock.val();
        self.lines.read_clock.next = self.clock.val();
        self.lines.write_clock.next = self.clock.val();
        self.fpdus.read_clock.next = self.clock.val();
        self.fpdus.write_clock.next = self.clock.val();
        self.queue.reset.next = self.reset.val();
        self.notices.reset.next = self.reset.val();
        self.next_hop.reset.next = self.reset.val();
        for i in 0..4 {
            self.next_hop.local[i].next = self.local[i].val();
        }

        // inputs
        self.rx.next = self.from_rx.data.val();
        self.rx_index.next = self.rx.val().index;
        self.cm.next = self.from_cm.data.val();
        self.cm_index.next = self.cm.val().index;
        self.timer_index.next = self.expired.data.val();
        self.from_rx.ready.next = false;
        self.from_cm.ready.next = false;
        self.sq.next = self.from_sq.data.val();
        self.sq_index.next = self.sq.val().index;
        self.from_sq.ready.next = false;
        self.expired.ready.next = false;
        self.isn.ready.next = false;
        self.answer.ready.next = false;
        self.queue.out.ready.next = false;
        self.notices.out.ready.next = false;
        self.head.next = self.notices.out.data.val();
        self.noted.next.ip = self.notice.val().ip;
        self.noted.next.ok = self.notice.val().ok;
        self.notices.inp.data.next = self.noted.val();
        self.notices.inp.valid.next = self.notice_valid.val();
        self.may_send.next = self.queue.out.valid.val() & self.to_rx.ready.val() & self.to_cm.ready.val() & self.to_sq.ready.val();
        self.scan_due.next = self.some_wait.q.val() & (self.notices.out.valid.val() | self.lost.q.val());

        // outputs
        self.ready.next = self.step.q.val() != TcpTxStep::Clear;
        self.to_rx.valid.next = false;
        self.to_rx.data.next.index = bit_cast::<16, C>(self.index.q.val());
        self.to_rx.data.next.start = self.max.q.val() == self.iss.q.val();
        self.to_rx.data.next.max = self.after.q.val();
        self.to_rx.data.next.fin = self.flags.q.val().get_bit(0);
        self.to_cm.valid.next = false;
        self.to_cm.data.next.index = bit_cast::<16, C>(self.index.q.val());
        self.to_cm.data.next.note = TxCmNote::Freed;
        self.ring_head.next = self.ring.q.val().head;
        self.ring_unsent.next = self.ring.q.val().unsent;
        self.ring_tail.next = self.ring.q.val().tail;
        self.none_left.next = self.ring_head.val() == self.ring_tail.val();
        self.to_sq.valid.next = false;
        self.to_sq.data.next.note = TxSqNote::Acked;
        self.to_sq.data.next.index = bit_cast::<16, C>(self.index.q.val());
        self.to_sq.data.next.emss = self.ctl.q.val().emss;
        self.to_sq.data.next.count = bit_cast::<8, 6>(self.ring.q.val().acked);
        self.length.next = self.len.q.val().get_bits::<16>(0);
        self.segment.valid.next = false;
        self.segment.data.next.mac = self.mac.q.val();
        self.segment.data.next.tuple = self.tuple.q.val();
        self.segment.data.next.seq = self.seq.q.val();
        self.segment.data.next.ack = 0.into();
        if self.flags.q.val().get_bit(4) {
            self.segment.data.next.ack = self.rcv_nxt.q.val();
        }
        self.segment.data.next.flags = self.flags.q.val();
        self.segment.data.next.window = self.tcp_window.val();
        self.segment.data.next.mss = 0.into();
        if self.flags.q.val().get_bit(1) {
            self.segment.data.next.mss = self.own_mss.q.val();
        }
        self.segment.data.next.tos = self.ctl.q.val().tos;
        self.segment.data.next.len = self.length.val();
        self.payload.valid.next = false;
        self.payload.data.next.index = bit_cast::<16, C>(self.index.q.val());
        self.payload.data.next.skip = self.skip.q.val();
        self.payload.data.next.take = self.length.val();
        self.payload.data.next.data = self.data.q.val();
        self.payload.data.next.fpdu = self.piece.q.val().fpdu;
        self.isn_req.valid.next = false;
        self.isn_req.data.next = self.rx.val().tuple;
        self.query.valid.next = false;
        self.query.data.next.ip = self.hop.q.val();
        self.query.data.next.source = self.source.q.val();
        self.query.data.next.recheck = self.ctl.q.val().recheck;
        self.deadline.valid.next = false;
        self.deadline.data.next.index = bit_cast::<16, C>(self.index.q.val());
        self.deadline.data.next.on = self.ctl.q.val().timer_on;
        self.deadline.data.next.at = self.timer_at.q.val();
        self.next_hop.start.next = false;
        self.next_hop.dst.next = self.tuple.q.val().remote_ip;
        self.next_hop.src.next = self.tuple.q.val().local_ip;
        self.route.next = self.next_hop.route.val();
        self.cnt_tcp_retrans_segs.next = false;
        self.cnt_tcp_timeouts.next = false;
        self.cnt_tcp_give_ups.next = false;
        self.cnt_tcp_challenge_acks.next = false;
        self.cnt_tcp_no_neighbor.next = false;

        // effective send size (TCP-11)
        self.own_mss.d.next = self.mtu.val() - 40;
        if self.mtu.val() <= 40 {
            self.own_mss.d.next = 1.into();
        }
        self.send_size.next = self.own_mss.q.val();
        if self.peer_mss.q.val() < self.own_mss.q.val() {
            self.send_size.next = self.peer_mss.q.val();
        }

        // memory: the row that goes, a word a clock behind the one that comes
        self.line_bits.next = self.line.q.val().get_bits::<2>(0);
        self.store_bits.next = self.line_bits.val() - 1;
        self.store.next = false;
        self.store_index.next = self.index.q.val();
        self.read.next = self.lines.read_data.val();
        self.ports.next = self.read.val().c;
        self.lines.read_address.next = (bit_cast::<CP2, C>(self.wanted.q.val()) << 2) | bit_cast::<CP2, 2>(self.line_bits.val());
        self.write.next.a = self.tuple.q.val().local_ip;
        self.write.next.b = self.tuple.q.val().remote_ip;
        self.write.next.c = bit_cast::<32, 16>(self.tuple.q.val().local_port) | (bit_cast::<32, 16>(self.tuple.q.val().remote_port) << 16);
        self.write.next.d = self.rcv_nxt.q.val();
        self.write.next.e = self.timer_at.q.val();
        if self.line.q.val() == 2 {
            self.write.next.a = self.iss.q.val();
            self.write.next.b = self.una.q.val();
            self.write.next.c = self.nxt.q.val();
            self.write.next.d = self.max.q.val();
            self.write.next.e = self.wnd.q.val();
        } else if self.line.q.val() == 3 {
            self.write.next.a = self.max_wnd.q.val();
            self.write.next.b = self.cwnd.q.val();
            self.write.next.c = self.ssthresh.q.val();
            self.write.next.d = self.acc.q.val();
            self.write.next.e = self.first_tx.q.val();
        } else if self.line.q.val() == 4 {
            self.write.next.a = self.rtt_seq.q.val();
            self.write.next.b = self.rtt_start.q.val();
            self.write.next.c = self.rto.q.val();
            self.write.next.d = self.srtt.q.val();
            self.write.next.e = self.rttvar.q.val();
        }
        self.lines.write_data.next = self.write.val();
        // FPDUs: `fpdu_slot` of the ring is read and written
        self.rings.index.next = self.wanted.q.val();
        self.rings.word.next = self.line_bits.val();
        self.rings.value.next = self.ring.q.val();
        self.known.next = self.quick.read_data.val();
        self.quick.read_address.next = self.wanted.q.val();
        self.quick.write_address.next = self.index.q.val();
        self.quick.write_data.next.open = self.ctl.q.val().state == TcpTxState::Open;
        self.quick.write_data.next.waiting = self.ctl.q.val().waiting;
        self.quick.write_data.next.queued = self.ctl.q.val().queued | self.push.q.val();
        self.quick.write_data.next.tail = self.ring_tail.val();
        self.quick.write_enable.next = false;
        self.send_slot.next = self.ring_unsent.val();
        self.piece_seq.next = self.ring.q.val().unsent_seq;
        self.from.next = self.nxt.q.val();
        self.some_fpdu.next = self.ring_unsent.val() != self.ring_tail.val();
        if self.ctl.q.val().resend {
            self.send_slot.next = self.ring_head.val();
            self.piece_seq.next = self.ring.q.val().head_seq;
            self.from.next = self.una.q.val();
            self.some_fpdu.next = !self.none_left.val();
        }
        self.send_low.next = self.send_slot.val().get_bits::<5>(0);
        self.head_next.next = self.ring_head.val() + 1;
        self.fpdu_slot.next = self.send_slot.val();
        if self.job.q.val() == TcpTxJob::Rx {
            self.fpdu_slot.next = self.ring_head.val();
        }
        self.quick.write_data.next.send_at = self.send_low.val();
        self.fpdus.write_enable.next = false;
        self.fpdus.write_data.next.fpdu = self.sq.val().fpdu;
        self.fpdus.write_data.next.wire_len = self.sq.val().wire_len;
        self.fpdus.write_data.next.push = self.sq.val().push;
        self.wire_len.next = self.piece.q.val().wire_len;
        // PAD and CRC, and a marker between them, are the last 11 octets at most (SEG-11)
        self.cut_at.next = self.wire_len.val() - 12;
        self.beyond_low.next = self.beyond_start.q.val().get_bits::<16>(0) & 0xfff8;
        self.start_at.next = self.beyond_low.val();
        if self.last_cut.q.val() < self.beyond_low.val() {
            self.start_at.next = self.last_cut.q.val();
        }
        self.cut_len.next = self.len.q.val();
        if self.cut_room.q.val() < self.len.q.val() {
            self.cut_len.next = self.cut_room.q.val();
        }
        self.even_len.next = self.cut_len.val() & 0xFFFF_FFF8_u64;
        self.behind_frame.next = self.iss.q.val() + bit_cast::<32, 16>(self.cm.val().len);
        self.cleared.next.state = TcpTxState::Free;
        self.cleared.next.close = false;
        self.cleared.next.queued = false;
        self.cleared.next.ack_due = false;
        self.cleared.next.waiting = false;
        self.cleared.next.recheck = false;
        self.cleared.next.timer_on = false;
        self.cleared.next.probe = false;
        self.cleared.next.small = false;
        self.cleared.next.timed = false;
        self.cleared.next.sampled = false;
        self.cleared.next.syn_lost = false;
        self.cleared.next.since = false;
        self.cleared.next.reset = false;
        self.cleared.next.reset_ack = false;
        self.cleared.next.tell_timed_out = false;
        self.cleared.next.tell_unreachable = false;
        self.cleared.next.duplicates = 0.into();
        self.cleared.next.recovering = false;
        self.cleared.next.resend = false;
        self.cleared.next.tell_emss = false;
        self.cleared.next.backoff = 0.into();
        self.cleared.next.tos = 0.into();
        self.cleared.next.emss = self.send_size.val();
        self.cleared.next.frame_len = 0.into();
        self.cleared.next.hop = 0.into();
        self.control.index.next = self.wanted.q.val();
        self.control.word.next = self.line_bits.val();
        self.control.value.next = self.ctl.q.val();
        self.queue.inp.data.next = self.index.q.val();
        self.queue.inp.valid.next = false;

        // what several states use
        self.is_syn.next = (self.ctl.q.val().state == TcpTxState::SynSent) | (self.ctl.q.val().state == TcpTxState::SynReceived);
        self.is_open.next = self.ctl.q.val().state == TcpTxState::Open;
        self.emss.next = bit_cast::<32, 16>(self.ctl.q.val().emss);
        self.twice.next = self.emss.val() << 1;
        // initial window (RFC 5681 equation 1)
        self.window_first.next = self.emss.val() << 2;
        if self.ctl.q.val().syn_lost {
            self.window_first.next = self.emss.val();
        } else if self.ctl.q.val().emss > 2190 {
            self.window_first.next = self.twice.val();
        } else if self.ctl.q.val().emss > 1095 {
            self.window_first.next = self.twice.val() + self.emss.val();
        }
        self.more_backoff.next = self.ctl.q.val().backoff;
        if !self.ctl.q.val().backoff.all() {
            self.more_backoff.next = self.ctl.q.val().backoff + 1;
        }
        self.r2.next = self.tcp_r2.val();
        if self.is_syn.val() {
            self.r2.next = self.tcp_r2_syn.val();
        }
        self.half.next = self.work.q.val() >> 1;
        self.quarter.next = self.work.q.val() >> 2;
        self.eighth.next = self.work.q.val() >> 3;
        self.negated.next = bits::<32>(0) - self.work.q.val();
        self.spread.next = self.rttvar.q.val() << 2;
        self.all_timed.next = self.ctl.q.val().timed & !self.untimed.q.val().get_bit(31);
        self.still_out.next = self.una.q.val() != self.max.q.val();
        if self.fresh.q.val() {
            self.still_out.next = self.left.q.val() != 0;
        }
        self.frame_skip.next = self.offset.q.val() - 1;
        self.ahead.d.next = self.after.q.val() - self.max.q.val();
        self.grows.next = self.takes.q.val() & !self.ahead.q.val().get_bit(31) & (self.ahead.q.val() != 0);
        self.segment_ok.next = self.segment_done.q.val() | self.segment.ready.val();
        self.payload_ok.next = self.payload_done.q.val() | self.payload.ready.val() | (self.length.val() == 0);
        // the item of an FPDU that is being made once more must not be given to another message yet
        self.owed.next = self.ctl.q.val().tell_emss | ((self.ring.q.val().acked != 0) & !self.remaking.q.val());
        self.way_ok.next = self.way_known.q.val() & !self.ctl.q.val().recheck;
        self.own_fpdu.next = self.held.q.val() & (self.sq_index.val().get_bits::<C>(0) == self.index.q.val());
        self.next_job.next = self.job.q.val();
        self.next_index.next = self.sq_index.val().get_bits::<C>(0);
        self.chosen.next = false;
        self.pay.next = false;
        self.ack_waits.next = self.rx.val().soft & !self.owing.q.val() & !self.ctl.q.val().ack_due;
        self.starts.next = false;
        self.telling.next = false;
        self.timer_stop.next = false;
        self.arm.next = false;
        self.probed.next = false;

        if !self.payload_busy.val() {
            self.remaking.d.next = false;
        }
        if !self.owing_age.q.val().all() {
            self.owing_age.d.next = self.owing_age.q.val() + 1;
        }
        self.way_age.d.next = self.way_age.q.val() + 1;
        if self.neighbors_changed.val() {
            self.way_fresh.d.next = false;
        }
        if self.neighbors_changed.val() | self.way_age.q.val().all() {
            self.way_known.d.next = false;
        }

        // challenge ACKs: the count starts anew every 5 seconds
        self.challenge_ok.next = self.spent.q.val() < self.tcp_challenges.val();
        self.period_age.d.next = self.time_us.val() - self.period.q.val();
        if self.period_age.q.val() >= 5_000_000 {
            self.spent.d.next = 0.into();
            self.period.d.next = self.time_us.val();
            self.period_age.d.next = 0.into();
        }

        match self.step.q.val() {
            TcpTxStep::Clear => {
                // all words of it are 0
                self.ctl.d.next = self.cleared.val();
                self.store.next = true;
                self.store_index.next = self.scan_at.q.val();
                self.quick.write_address.next = self.scan_at.q.val();
                self.quick.write_data.next.open = false;
                self.quick.write_data.next.waiting = false;
                self.quick.write_data.next.queued = false;
                self.quick.write_enable.next = true;
                self.line.d.next = self.line.q.val() + 1;
                if self.line.q.val() == 3 {
                    self.line.d.next = 0.into();
                    self.scan_at.d.next = self.scan_at.q.val() + 1;
                    if self.scan_at.q.val().all() {
                        self.step.d.next = TcpTxStep::Idle;
                    }
                }
            }
            TcpTxStep::Idle => {
                self.line.d.next = 0.into();
                self.push.d.next = false;
                self.takes.d.next = false;
                self.octet.d.next = false;
                self.probing.d.next = false;
                self.data.d.next = false;
                self.grow.d.next = false;
                // whatever it is: an FPDU needs no more of its connection than this, what is sent next of the one at hand is wanted in the clock after
                self.quick.read_address.next = self.sq_index.val().get_bits::<C>(0);
                self.fpdu_slot.next = self.send_slot.val();
                if !self.some_wait.q.val() {
                    self.notices.out.ready.next = true;
                    self.lost.d.next = false;
                }
                if self.owing.q.val() & self.owing_age.q.val().all() {
                    self.pay.next = true;
                } else if self.scan_due.val() {
                    if self.held.q.val() {
                        self.job.d.next = TcpTxJob::Keep;
                        self.step.d.next = TcpTxStep::Load;
                    } else {
                        self.some_wait.d.next = false;
                        self.scanning.d.next = true;
                        self.scan_at.d.next = 0.into();
                        self.scan_all.d.next = !self.notices.out.valid.val();
                        if !self.notices.out.valid.val() {
                            self.lost.d.next = false;
                        }
                        self.step.d.next = TcpTxStep::ScanRead;
                    }
                } else if self.turn.q.val() & self.may_send.val() {
                    self.next_job.next = TcpTxJob::Send;
                    self.chosen.next = true;
                } else if self.timer_turn.q.val() & self.expired.valid.val() {
                    self.next_job.next = TcpTxJob::Timer;
                    self.chosen.next = true;
                } else if self.from_sq.valid.val() {
                    // before the manager: nothing of an index that it frees can still wait here
                    self.step.d.next = TcpTxStep::FpduAct;
                } else if self.from_rx.valid.val() & !(self.from_cm.valid.val() & self.patience.q.val().all()) {
                    if (self.rx.val().note == RxNote::Reply) & self.held.q.val() {
                        // it needs the registers
                        self.job.d.next = TcpTxJob::Keep;
                        self.step.d.next = TcpTxStep::Load;
                    } else {
                        self.turn.d.next = true;
                        self.timer_turn.d.next = true;
                        self.patience.d.next = self.patience.q.val() + 1;
                        if !self.from_cm.valid.val() {
                            self.patience.d.next = 0.into();
                        }
                        self.next_job.next = TcpTxJob::Rx;
                        self.chosen.next = self.rx.val().note != RxNote::Reply;
                        if self.rx.val().note == RxNote::Reply {
                            self.job.d.next = TcpTxJob::Rx;
                            self.tuple.d.next = self.rx.val().tuple;
                            self.rcv_nxt.d.next = self.rx.val().ack;
                            self.seq.d.next = self.rx.val().seq;
                            self.flags.d.next = self.rx.val().flags;
                            self.len.d.next = 0.into();
                            self.ctl.d.next.tos = 0.into();
                            self.ctl.d.next.recheck = false;
                            self.step.d.next = TcpTxStep::RouteStart;
                        }
                    }
                } else if self.from_cm.valid.val() {
                    self.patience.d.next = 0.into();
                    self.next_job.next = TcpTxJob::Cm;
                    self.chosen.next = true;
                } else if self.expired.valid.val() {
                    self.next_job.next = TcpTxJob::Timer;
                    self.chosen.next = true;
                } else if self.may_send.val() {
                    self.next_job.next = TcpTxJob::Send;
                    self.chosen.next = true;
                }
                if self.next_job.val() == TcpTxJob::Rx {
                    self.next_index.next = self.rx_index.val().get_bits::<C>(0);
                } else if self.next_job.val() == TcpTxJob::Cm {
                    self.next_index.next = self.cm_index.val().get_bits::<C>(0);
                } else if self.next_job.val() == TcpTxJob::Timer {
                    self.next_index.next = self.timer_index.val().get_bits::<C>(0);
                } else {
                    self.next_index.next = self.queue.out.data.val();
                }
                if self.chosen.val() {
                    self.wanted.d.next = self.next_index.val();
                    self.job.d.next = self.next_job.val();
                    self.step.d.next = TcpTxStep::Load;
                    self.starts.next = self.held.q.val() & (self.next_index.val() == self.index.q.val());
                    if self.next_job.val() == TcpTxJob::Send {
                        self.turn.d.next = false;
                        self.queue.out.ready.next = true;
                    }
                    if self.next_job.val() == TcpTxJob::Timer {
                        self.timer_turn.d.next = false;
                        self.expired.ready.next = true;
                    }
                }
            }
            // a notice: who waits for it?
            TcpTxStep::ScanRead => {
                self.quick.read_address.next = self.scan_at.q.val();
                self.line.d.next = 0.into();
                self.step.d.next = TcpTxStep::ScanLook;
            }
            TcpTxStep::ScanLook => {
                self.control.index.next = self.scan_at.q.val();
                self.quick.read_address.next = self.scan_at.q.val();
                self.ctl.d.next = self.control.turned.val();
                self.line.d.next = self.line.q.val() + 1;
                if !self.known.val().waiting {
                    self.step.d.next = TcpTxStep::ScanNext;
                } else if self.line.q.val() == 4 {
                    self.step.d.next = TcpTxStep::ScanTest;
                }
            }
            TcpTxStep::ScanTest => {
                self.line.d.next = 0.into();
                self.push.d.next = false;
                self.step.d.next = TcpTxStep::ScanNext;
                if self.scan_all.q.val() | (self.ctl.q.val().hop == self.head.val().ip) {
                    self.wanted.d.next = self.scan_at.q.val();
                    self.job.d.next = TcpTxJob::Notice;
                    self.step.d.next = TcpTxStep::Load;
                } else {
                    self.some_wait.d.next = true;
                }
            }
            TcpTxStep::ScanNext => {
                self.scan_at.d.next = self.scan_at.q.val() + 1;
                self.step.d.next = TcpTxStep::ScanRead;
                if self.scan_at.q.val().all() {
                    self.scanning.d.next = false;
                    self.notices.out.ready.next = !self.scan_all.q.val();
                    self.step.d.next = TcpTxStep::Idle;
                }
            }
            TcpTxStep::Load => {
                self.line.d.next = self.line.q.val() + 1;
                self.way_known.d.next = false;
                if self.line.q.val() == 0 {
                    self.pay.next = self.owing.q.val();
                } else {
                    self.store.next = self.held.q.val();
                    self.ctl.d.next = self.control.turned.val();
                    self.ring.d.next = self.rings.turned.val();
                }
                if self.line.q.val() == 1 {
                    self.tuple.d.next.local_ip = self.read.val().a;
                    self.tuple.d.next.remote_ip = self.read.val().b;
                    self.tuple.d.next.local_port = self.ports.val().get_bits::<16>(0);
                    self.tuple.d.next.remote_port = self.ports.val().get_bits::<16>(16);
                    self.rcv_nxt.d.next = self.read.val().d;
                    self.timer_at.d.next = self.read.val().e;
                } else if self.line.q.val() == 2 {
                    self.iss.d.next = self.read.val().a;
                    self.una.d.next = self.read.val().b;
                    self.nxt.d.next = self.read.val().c;
                    self.max.d.next = self.read.val().d;
                    self.wnd.d.next = self.read.val().e;
                } else if self.line.q.val() == 3 {
                    self.max_wnd.d.next = self.read.val().a;
                    self.cwnd.d.next = self.read.val().b;
                    self.ssthresh.d.next = self.read.val().c;
                    self.acc.d.next = self.read.val().d;
                    self.first_tx.d.next = self.read.val().e;
                } else if self.line.q.val() == 4 {
                    self.rtt_seq.d.next = self.read.val().a;
                    self.rtt_start.d.next = self.read.val().b;
                    self.rto.d.next = self.read.val().c;
                    self.srtt.d.next = self.read.val().d;
                    self.rttvar.d.next = self.read.val().e;
                    self.ctl.d.next.queued = self.known.val().queued;
                    self.ring.d.next.tail = self.known.val().tail;
                    self.line.d.next = 0.into();
                    self.index.d.next = self.wanted.q.val();
                    self.held.d.next = self.job.q.val() != TcpTxJob::Keep;
                    self.starts.next = self.job.q.val() != TcpTxJob::Keep;
                    self.step.d.next = TcpTxStep::Idle;
                    if self.scanning.q.val() {
                        self.step.d.next = TcpTxStep::ScanNext;
                    }
                }
            }

            // messages of tcp::rx
            TcpTxStep::RxAct => {
                self.peer_mss.d.next = self.rx.val().mss;
                if self.rx.val().mss == 0 {
                    self.peer_mss.d.next = 536.into();
                }
                self.gained.d.next = self.rx.val().ack - self.una.q.val();
                self.left.d.next = self.max.q.val() - self.rx.val().ack;
                self.behind.d.next = self.nxt.q.val() - self.rx.val().ack;
                self.untimed.d.next = self.rx.val().ack - self.rtt_seq.q.val();
                self.step.d.next = TcpTxStep::Finish;
                if self.rx.val().note == RxNote::Open {
                    self.step.d.next = TcpTxStep::Isn;
                } else if self.rx.val().note == RxNote::Syn {
                    if self.ctl.q.val().state == TcpTxState::SynSent {
                        self.step.d.next = TcpTxStep::Ack1;
                    }
                } else if self.rx.val().note == RxNote::Update {
                    if (self.ctl.q.val().state == TcpTxState::SynReceived) | self.is_open.val() {
                        self.rcv_nxt.d.next = self.rx.val().rcv_nxt;
                        self.step.d.next = TcpTxStep::Ack2;
                    }
                } else if self.rx.val().note == RxNote::Answer {
                    if ((self.ctl.q.val().state == TcpTxState::SynReceived) | self.is_open.val())
                        & (!self.rx.val().challenge | self.challenge_ok.val())
                    {
                        self.ctl.d.next.ack_due = true;
                        self.push.d.next = true;
                        if self.rx.val().challenge {
                            self.spent.d.next = self.spent.q.val() + 1;
                            self.cnt_tcp_challenge_acks.next = true;
                        }
                        self.step.d.next = TcpTxStep::Finish;
                    }
                } else if (self.rx.val().note == RxNote::Stop) & (self.is_syn.val() | self.is_open.val()) {
                    self.ctl.d.next.state = TcpTxState::Dead;
                    self.ctl.d.next.waiting = false;
                    self.timer_stop.next = true;
                }
            }
            TcpTxStep::Isn => {
                self.isn_req.valid.next = true;
                if self.isn_req.ready.val() {
                    self.step.d.next = TcpTxStep::IsnWait;
                }
            }
            TcpTxStep::IsnWait => {
                self.isn.ready.next = true;
                if self.isn.valid.val() {
                    self.ctl.d.next = self.cleared.val();
                    self.ctl.d.next.queued = self.ctl.q.val().queued;
                    self.way_known.d.next = false;
                    self.owing.d.next = false;
                    self.ctl.d.next.state = TcpTxState::SynSent;
                    if self.rx.val().passive {
                        self.ctl.d.next.state = TcpTxState::SynReceived;
                    }
                    self.tuple.d.next = self.rx.val().tuple;
                    self.rcv_nxt.d.next = self.rx.val().rcv_nxt;
                    self.iss.d.next = self.isn.data.val();
                    self.una.d.next = self.isn.data.val();
                    self.nxt.d.next = self.isn.data.val();
                    self.max.d.next = self.isn.data.val();
                    self.ring.d.next.head = 0.into();
                    self.ring.d.next.unsent = 0.into();
                    self.ring.d.next.tail = 0.into();
                    self.ring.d.next.acked = 0.into();
                    self.ring.d.next.head_seq = self.isn.data.val() + 1;
                    self.ring.d.next.unsent_seq = self.isn.data.val() + 1;
                    self.ring.d.next.recover = self.isn.data.val();
                    // in an active open the peer has not said anything yet
                    self.wnd.d.next = 0.into();
                    self.max_wnd.d.next = 0.into();
                    if self.rx.val().passive {
                        self.wnd.d.next = self.rx.val().window;
                        self.max_wnd.d.next = self.rx.val().window;
                    }
                    self.ssthresh.d.next = 0xFFFF_FFFF_u64.into();
                    self.acc.d.next = 0.into();
                    self.rto.d.next = self.tcp_rto_init.val();
                    self.push.d.next = true;
                    self.step.d.next = TcpTxStep::ClampHigh;
                }
            }
            TcpTxStep::Ack1 => {
                self.rcv_nxt.d.next = self.rx.val().rcv_nxt;
                self.ctl.d.next.emss = self.send_size.val();
                self.step.d.next = TcpTxStep::Ack2;
            }
            TcpTxStep::Ack2 => {
                self.fresh.d.next = (self.gained.q.val() != 0) & !self.gained.q.val().get_bit(31) & !self.left.q.val().get_bit(31);
                self.turned.d.next = (self.wnd.q.val() == 0) != (self.rx.val().window == 0);
                self.same_wnd.d.next = self.wnd.q.val() == self.rx.val().window;
                self.wnd.d.next = self.rx.val().window;
                self.step.d.next = TcpTxStep::Ack3;
            }
            TcpTxStep::Ack3 => {
                self.push.d.next = true;
                self.outstanding.d.next = self.still_out.val();
                self.grow.d.next = self.fresh.q.val() & self.is_open.val();
                self.step.d.next = TcpTxStep::Pop1;
                // one ACK for two segments
                if (self.rx.val().ack_now & !self.ack_waits.val()) | (self.rx.val().note == RxNote::Syn) {
                    self.ctl.d.next.ack_due = true;
                } else {
                    if self.rx.val().ack_now {
                        self.owing.d.next = true;
                        self.owing_age.d.next = 0.into();
                    }
                    // if so, there is nothing that a turn could do
                    self.push.d.next = self.fresh.q.val() | self.rx.val().duplicate | !self.same_wnd.q.val();
                }
                if self.max_wnd.q.val() < self.wnd.q.val() {
                    self.max_wnd.d.next = self.wnd.q.val();
                }
                if self.turned.q.val() {
                    self.ctl.d.next.backoff = 0.into();
                    self.ctl.d.next.probe = false;
                }
                if self.fresh.q.val() {
                    if self.ctl.q.val().duplicates != 0 {
                        self.ctl.d.next.duplicates = 0.into();
                        self.ring.d.next.recover = self.una.q.val();
                    }
                    self.ctl.d.next.backoff = 0.into();
                    self.ctl.d.next.since = self.left.q.val() != 0;
                    self.first_tx.d.next = self.time_us.val();
                    self.una.d.next = self.rx.val().ack;
                    if self.behind.q.val().get_bit(31) {
                        self.nxt.d.next = self.rx.val().ack;
                    }
                    if self.all_timed.val() {
                        self.ctl.d.next.timed = false;
                        self.step.d.next = TcpTxStep::Rtt1;
                    } else if self.is_open.val() {
                        self.step.d.next = TcpTxStep::Grow1;
                    } else if self.ctl.q.val().syn_lost & (self.rto.q.val() < 3_000_000) {
                        // RFC 6298 (5.7)
                        self.rto.d.next = 3_000_000.into();
                        self.step.d.next = TcpTxStep::ClampHigh;
                    }
                    if self.is_syn.val() {
                        self.ctl.d.next.state = TcpTxState::Open;
                        self.ctl.d.next.tell_emss = true;
                        self.cwnd.d.next = self.window_first.val();
                    }
                } else if self.rx.val().note == RxNote::Syn {
                    // simultaneous open: SYN again, now with ACK
                    self.ctl.d.next.state = TcpTxState::SynReceived;
                    self.ctl.d.next.timed = false;
                    self.nxt.d.next = self.iss.q.val();
                } else if !self.still_out.val() | (self.wnd.q.val() == 0) {
                    self.ctl.d.next.since = false;
                } else if self.rx.val().duplicate & self.is_open.val() & !self.none_left.val() {
                    self.step.d.next = TcpTxStep::Dup1;
                }
            }
            TcpTxStep::Rtt1 => {
                self.work.d.next = self.time_us.val() - self.rtt_start.q.val();
                self.step.d.next = TcpTxStep::Rtt2;
            }
            TcpTxStep::Rtt2 => {
                // no sum below can then pass 2^31
                if self.work.q.val().get_bits::<4>(28) != 0 {
                    self.work.d.next = 0x0FFF_FFFF.into();
                }
                self.step.d.next = TcpTxStep::Rtt3;
            }
            TcpTxStep::Rtt3 => {
                self.ctl.d.next.sampled = true;
                if self.ctl.q.val().sampled {
                    self.work.d.next = self.srtt.q.val() - self.work.q.val();
                    self.step.d.next = TcpTxStep::Rtt4;
                } else {
                    self.srtt.d.next = self.work.q.val();
                    self.rttvar.d.next = self.half.val();
                    self.step.d.next = TcpTxStep::Rtt7;
                }
            }
            TcpTxStep::Rtt4 => {
                self.negative.d.next = self.work.q.val().get_bit(31);
                if self.work.q.val().get_bit(31) {
                    self.work.d.next = self.negated.val();
                }
                self.step.d.next = TcpTxStep::Rtt5;
            }
            TcpTxStep::Rtt5 => {
                self.rttvar.d.next = self.rttvar.q.val() - (self.rttvar.q.val() >> 2);
                self.srtt.d.next = self.srtt.q.val() - self.eighth.val();
                if self.negative.q.val() {
                    self.srtt.d.next = self.srtt.q.val() + self.eighth.val();
                }
                self.step.d.next = TcpTxStep::Rtt6;
            }
            TcpTxStep::Rtt6 => {
                self.rttvar.d.next = self.rttvar.q.val() + self.quarter.val();
                self.step.d.next = TcpTxStep::Rtt7;
            }
            TcpTxStep::Rtt7 => {
                // the clock's granularity is 1 us
                self.rto.d.next = self.srtt.q.val() + self.spread.val();
                if self.spread.val() == 0 {
                    self.rto.d.next = self.srtt.q.val() + 1;
                }
                self.step.d.next = TcpTxStep::ClampLow;
            }
            TcpTxStep::ClampLow => {
                if self.rto.q.val() < self.tcp_rto_min.val() {
                    self.rto.d.next = self.tcp_rto_min.val();
                }
                self.step.d.next = TcpTxStep::ClampHigh;
            }
            TcpTxStep::ClampHigh => {
                if self.tcp_rto_max.val() < self.rto.q.val() {
                    self.rto.d.next = self.tcp_rto_max.val();
                }
                self.step.d.next = TcpTxStep::Finish;
                if (self.job.q.val() == TcpTxJob::Rx) & (self.rx.val().note != RxNote::Open) {
                    self.step.d.next = TcpTxStep::Pop1;
                    if self.grow.q.val() {
                        self.step.d.next = TcpTxStep::Grow1;
                    }
                }
            }
            TcpTxStep::Grow1 => {
                self.slow.d.next = self.cwnd.q.val() < self.ssthresh.q.val();
                self.acc.d.next = self.acc.q.val() + self.gained.q.val();
                self.work.d.next = self.gained.q.val();
                if self.emss.val() < self.gained.q.val() {
                    self.work.d.next = self.emss.val();
                }
                self.step.d.next = TcpTxStep::Grow2;
                if self.ctl.q.val().recovering {
                    self.acc.d.next = 0.into();
                    self.step.d.next = TcpTxStep::Rec1;
                }
            }
            TcpTxStep::Grow2 => {
                self.over.d.next = self.acc.q.val() >= self.cwnd.q.val();
                self.step.d.next = TcpTxStep::Grow3;
                if self.slow.q.val() {
                    self.acc.d.next = 0.into();
                    // larger than any window is large enough
                    if !self.cwnd.q.val().get_bit(30) {
                        self.cwnd.d.next = self.cwnd.q.val() + self.work.q.val();
                    }
                    self.step.d.next = TcpTxStep::Pop1;
                }
            }
            TcpTxStep::Grow3 => {
                if self.over.q.val() {
                    self.acc.d.next = self.acc.q.val() - self.cwnd.q.val();
                    if !self.cwnd.q.val().get_bit(30) {
                        self.cwnd.d.next = self.cwnd.q.val() + self.emss.val();
                    }
                }
                self.step.d.next = TcpTxStep::Pop1;
            }
            // RFC 5681 section 3.2, RFC 3042: a duplicate
            TcpTxStep::Dup1 => {
                self.behind.d.next = self.una.q.val() - self.ring.q.val().recover;
                self.work.d.next = self.ring.q.val().recover - self.una.q.val();
                self.step.d.next = TcpTxStep::Dup2;
            }
            TcpTxStep::Dup2 => {
                self.step.d.next = TcpTxStep::Pop1;
                if self.ctl.q.val().recovering {
                    if !self.cwnd.q.val().get_bit(30) {
                        self.cwnd.d.next = self.cwnd.q.val() + self.emss.val();
                    }
                } else if self.ctl.q.val().duplicates == 0 {
                    // not for what was sent before the loss that was repaired last
                    if !self.behind.q.val().get_bit(31) & (self.behind.q.val() != 0) {
                        self.ctl.d.next.duplicates = 1.into();
                        self.ring.d.next.recover = self.max.q.val();
                    }
                } else if self.ctl.q.val().duplicates == 1 {
                    self.ctl.d.next.duplicates = 2.into();
                } else {
                    // `work` is what was in flight at the first duplicate: without what limited transmit has sent
                    self.ctl.d.next.duplicates = 0.into();
                    self.ctl.d.next.recovering = true;
                    self.ctl.d.next.resend = true;
                    self.ring.d.next.recover = self.max.q.val();
                    self.ssthresh.d.next = self.twice.val();
                    if self.twice.val() < self.half.val() {
                        self.ssthresh.d.next = self.half.val();
                    }
                    self.step.d.next = TcpTxStep::Dup3;
                }
            }
            TcpTxStep::Dup3 => {
                self.cwnd.d.next = self.ssthresh.q.val() + self.twice.val();
                self.step.d.next = TcpTxStep::Dup4;
            }
            TcpTxStep::Dup4 => {
                self.cwnd.d.next = self.cwnd.q.val() + self.emss.val();
                self.step.d.next = TcpTxStep::Pop1;
            }
            // RFC 6582: new octets are acknowledged in fast recovery, all of it or a part
            TcpTxStep::Rec1 => {
                self.behind.d.next = self.una.q.val() - self.ring.q.val().recover;
                self.over.d.next = self.gained.q.val() < self.emss.val();
                self.work.d.next = self.left.q.val();
                if self.left.q.val() < self.emss.val() {
                    self.work.d.next = self.emss.val();
                }
                self.step.d.next = TcpTxStep::Rec2;
            }
            TcpTxStep::Rec2 => {
                self.step.d.next = TcpTxStep::Rec3;
                if self.behind.q.val().get_bit(31) {
                    self.ctl.d.next.resend = true;
                    self.cwnd.d.next = self.cwnd.q.val() - self.gained.q.val();
                    self.step.d.next = TcpTxStep::Rec5;
                } else {
                    self.ctl.d.next.recovering = false;
                    self.work.d.next = self.work.q.val() + self.emss.val();
                }
            }
            TcpTxStep::Rec3 => {
                self.slow.d.next = self.work.q.val() < self.ssthresh.q.val();
                self.step.d.next = TcpTxStep::Rec4;
            }
            TcpTxStep::Rec4 => {
                self.cwnd.d.next = self.ssthresh.q.val();
                if self.slow.q.val() {
                    self.cwnd.d.next = self.work.q.val();
                }
                self.step.d.next = TcpTxStep::Pop1;
            }
            TcpTxStep::Rec5 => {
                if self.cwnd.q.val().get_bit(31) {
                    self.cwnd.d.next = self.emss.val();
                } else if !self.over.q.val() {
                    self.cwnd.d.next = self.cwnd.q.val() + self.emss.val();
                }
                self.step.d.next = TcpTxStep::Pop1;
            }

            // FPDUs that are acknowledged to their last octet
            TcpTxStep::Pop1 => {
                self.piece.d.next = self.fpdus.read_data.val();
                self.step.d.next = TcpTxStep::Pop2;
                if !self.fresh.q.val() | self.none_left.val() {
                    self.step.d.next = TcpTxStep::AckTimer;
                }
            }
            TcpTxStep::Pop2 => {
                self.after.d.next = self.ring.q.val().head_seq + bit_cast::<32, 16>(self.wire_len.val());
                self.fpdu_slot.next = self.head_next.val();
                self.step.d.next = TcpTxStep::Pop3;
            }
            TcpTxStep::Pop3 => {
                // the one behind it
                self.piece.d.next = self.fpdus.read_data.val();
                self.behind.d.next = self.una.q.val() - self.after.q.val();
                self.step.d.next = TcpTxStep::Pop4;
            }
            TcpTxStep::Pop4 => {
                self.step.d.next = TcpTxStep::AckTimer;
                if !self.behind.q.val().get_bit(31) {
                    self.ring.d.next.head = self.head_next.val();
                    self.ring.d.next.head_seq = self.after.q.val();
                    self.ring.d.next.acked = self.ring.q.val().acked + 1;
                    if self.ring_unsent.val() == self.ring_head.val() {
                        self.ring.d.next.unsent = self.head_next.val();
                        self.ring.d.next.unsent_seq = self.after.q.val();
                    }
                    if self.head_next.val() != self.ring_tail.val() {
                        self.step.d.next = TcpTxStep::Pop2;
                    }
                }
            }
            TcpTxStep::AckTimer => {
                self.step.d.next = TcpTxStep::Finish;
                if self.fresh.q.val() | self.turned.q.val() {
                    if self.outstanding.q.val() {
                        self.arm.next = true;
                    } else {
                        self.timer_stop.next = true;
                    }
                }
            }

            // requests of the connection manager
            TcpTxStep::CmAct => {
                self.step.d.next = TcpTxStep::Finish;
                if (self.cm.val().op == CmTxOp::Send) | (self.cm.val().op == CmTxOp::Close) {
                    if self.is_syn.val() | self.is_open.val() {
                        self.push.d.next = true;
                        self.step.d.next = TcpTxStep::Finish;
                        if self.cm.val().op == CmTxOp::Send {
                            self.ctl.d.next.frame_len = self.cm.val().len;
                            self.ctl.d.next.tos = self.cm.val().tos;
                            self.ring.d.next.head_seq = self.behind_frame.val() + 1;
                            self.ring.d.next.unsent_seq = self.behind_frame.val() + 1;
                        } else {
                            self.ctl.d.next.close = true;
                        }
                    }
                } else if (self.ctl.q.val().state != TcpTxState::Free) & (self.ctl.q.val().state != TcpTxState::Ending) {
                    // in SYN-SENT the peer may know us if our SYN has left; it has told us nothing to acknowledge
                    self.ctl.d.next.reset_ack = self.ctl.q.val().state != TcpTxState::SynSent;
                    self.ctl.d.next.reset = (self.cm.val().op == CmTxOp::Abort)
                        & (self.is_open.val()
                            | (self.ctl.q.val().state == TcpTxState::SynReceived)
                            | (self.is_syn.val() & (self.max.q.val() != self.iss.q.val())));
                    self.ctl.d.next.state = TcpTxState::Ending;
                    self.ctl.d.next.waiting = false;
                    self.ctl.d.next.tell_timed_out = false;
                    self.ctl.d.next.tell_unreachable = false;
                    self.push.d.next = true;
                    self.timer_stop.next = true;
                }
            }

            // the neighbour that it waits for
            TcpTxStep::NoticeAct => {
                self.step.d.next = TcpTxStep::Finish;
                if self.scan_all.q.val() | self.head.val().ok {
                    // `waiting` until its turn
                    self.push.d.next = true;
                } else {
                    self.ctl.d.next.waiting = false;
                    self.cnt_tcp_no_neighbor.next = true;
                    self.ctl.d.next.ack_due = false;
                    if self.is_syn.val() {
                        self.ctl.d.next.state = TcpTxState::Dead;
                        self.ctl.d.next.tell_unreachable = true;
                        self.push.d.next = true;
                        self.timer_stop.next = true;
                    }
                }
            }

            // its deadline
            TcpTxStep::TimerAct => {
                self.work.d.next = self.max.q.val() - self.una.q.val();
                self.flight.d.next = self.time_us.val() - self.timer_at.q.val();
                self.limit.d.next = self.time_us.val() - self.first_tx.q.val();
                self.step.d.next = TcpTxStep::Expire1;
                if !self.ctl.q.val().timer_on {
                    self.step.d.next = TcpTxStep::Finish;
                }
            }
            TcpTxStep::Expire1 => {
                self.old.d.next = self.ctl.q.val().since & (self.limit.q.val() >= self.r2.val());
                self.outstanding.d.next = self.work.q.val() != 0;
                self.step.d.next = TcpTxStep::Expire2;
                if self.flight.q.val().get_bit(31) {
                    self.step.d.next = TcpTxStep::Finish;
                }
            }
            TcpTxStep::Expire2 => {
                self.ctl.d.next.timer_on = false;
                self.push.d.next = true;
                self.step.d.next = TcpTxStep::Finish;
                if self.old.q.val() {
                    self.cnt_tcp_give_ups.next = true;
                    self.ctl.d.next.state = TcpTxState::Dead;
                    self.ctl.d.next.waiting = false;
                    self.ctl.d.next.tell_timed_out = true;
                } else if self.outstanding.q.val() & (self.is_syn.val() | (self.wnd.q.val() != 0)) {
                    self.cnt_tcp_timeouts.next = true;
                    self.nxt.d.next = self.una.q.val();
                    self.ring.d.next.recover = self.max.q.val();
                    self.ctl.d.next.duplicates = 0.into();
                    self.ctl.d.next.recovering = false;
                    self.ctl.d.next.resend = false;
                    self.ring.d.next.unsent = self.ring_head.val();
                    self.ring.d.next.unsent_seq = self.ring.q.val().head_seq;
                    self.ctl.d.next.timed = false;
                    self.ctl.d.next.small = true;
                    self.ctl.d.next.syn_lost = self.is_syn.val();
                    self.ctl.d.next.backoff = self.more_backoff.val();
                    self.ctl.d.next.recheck = self.more_backoff.val() == self.tcp_r1.val();
                    self.cwnd.d.next = self.emss.val();
                    self.acc.d.next = 0.into();
                    if self.is_open.val() & (self.ctl.q.val().backoff == 0) {
                        self.ssthresh.d.next = self.twice.val();
                        if self.twice.val() < self.half.val() {
                            self.ssthresh.d.next = self.half.val();
                        }
                    }
                    self.rto.d.next = self.rto.q.val() << 1;
                    self.step.d.next = TcpTxStep::ClampHigh;
                } else if self.is_open.val() {
                    self.ctl.d.next.small = self.wnd.q.val() != 0;
                    self.ctl.d.next.probe = self.wnd.q.val() == 0;
                }
            }

            // one more FPDU: nothing of the connection is needed but that it is open
            TcpTxStep::FpduAct => {
                self.from_sq.ready.next = true;
                self.step.d.next = TcpTxStep::Idle;
                self.quick.write_address.next = self.sq_index.val().get_bits::<C>(0);
                self.quick.write_data.next = self.known.val();
                self.quick.write_data.next.queued = true;
                self.quick.write_data.next.tail = self.known.val().tail + 1;
                self.queue.inp.data.next = self.sq_index.val().get_bits::<C>(0);
                if self.known.val().open {
                    self.fpdus.write_enable.next = true;
                    self.quick.write_enable.next = true;
                    self.queue.inp.valid.next = !self.known.val().queued;
                    if self.own_fpdu.val() {
                        self.ctl.d.next.queued = true;
                        self.ring.d.next.tail = self.known.val().tail + 1;
                    }
                }
            }

            // a turn of the queue
            TcpTxStep::SendAct => {
                self.piece.d.next = self.fpdus.read_data.val();
                // limited transmit (RFC 3042)
                self.work.d.next = self.cwnd.q.val();
                if self.ctl.q.val().duplicates == 1 {
                    self.work.d.next = self.cwnd.q.val() + self.emss.val();
                } else if self.ctl.q.val().duplicates == 2 {
                    self.work.d.next = self.cwnd.q.val() + self.twice.val();
                }
                self.to_sq.valid.next = self.owed.val();
                if self.ctl.q.val().tell_emss {
                    self.to_sq.data.next.note = TxSqNote::Emss;
                    self.ctl.d.next.tell_emss = false;
                    // what else is owed in the next turn
                    self.push.d.next = self.ring.q.val().acked != 0;
                } else if self.owed.val() {
                    self.ring.d.next.acked = 0.into();
                } else {
                    self.push.d.next = self.ring.q.val().acked != 0;
                }
                self.telling.next = self.ctl.q.val().tell_timed_out | self.ctl.q.val().tell_unreachable;
                self.to_cm.valid.next = self.telling.val();
                self.to_cm.data.next.note = TxCmNote::Unreachable;
                if self.ctl.q.val().tell_timed_out {
                    self.to_cm.data.next.note = TxCmNote::TimedOut;
                }
                if !self.telling.val() | self.to_cm.ready.val() {
                    self.ctl.d.next.queued = false;
                    self.ctl.d.next.tell_timed_out = false;
                    self.ctl.d.next.tell_unreachable = false;
                    self.step.d.next = TcpTxStep::Finish;
                    if self.is_syn.val() | self.is_open.val() {
                        self.step.d.next = TcpTxStep::Plan1;
                    } else if self.ctl.q.val().state == TcpTxState::Ending {
                        self.len.d.next = 0.into();
                        self.seq.d.next = self.max.q.val();
                        self.flags.d.next = 0x04.into();
                        if self.ctl.q.val().reset_ack {
                            self.flags.d.next = 0x14.into();
                        }
                        self.step.d.next = TcpTxStep::FreeWait;
                        if self.ctl.q.val().reset {
                            self.step.d.next = TcpTxStep::RouteStart;
                        }
                    }
                }
            }
            // `offset` 0 is SYN, 1..=frame_len the frame, then FPDUs, then FIN
            TcpTxStep::Plan1 => {
                self.flight.d.next = self.from.val() - self.una.q.val();
                self.limit.d.next = self.wnd.q.val();
                if self.work.q.val() < self.wnd.q.val() {
                    self.limit.d.next = self.work.q.val();
                }
                self.offset.d.next = self.nxt.q.val() - self.iss.q.val();
                self.in_flight.d.next = self.max.q.val() - self.una.q.val();
                self.behind.d.next = self.from.val() - self.max.q.val();
                self.rest.d.next = bit_cast::<32, 16>(self.ctl.q.val().frame_len) + 1;
                self.beyond_start.d.next = self.from.val() - self.piece_seq.val();
                self.last_cut.d.next = self.cut_at.val() & 0xfff8;
                self.fits.d.next = self.wire_len.val() <= self.ctl.q.val().emss;
                self.step.d.next = TcpTxStep::Plan2;
            }
            TcpTxStep::Plan2 => {
                self.over.d.next = self.limit.q.val() > self.flight.q.val();
                self.room.d.next = self.limit.q.val() - self.flight.q.val();
                self.rest.d.next = self.rest.q.val() - self.offset.q.val();
                self.skip.d.next = self.frame_skip.val().get_bits::<16>(0);
                self.beyond.d.next = self.in_flight.q.val() > self.wnd.q.val();
                self.outstanding.d.next = self.in_flight.q.val() != 0;
                self.again.d.next = self.behind.q.val().get_bit(31);
                self.first_octet.d.next = self.is_open.val() & self.fits.q.val() & (self.beyond_start.q.val() == 0);
                self.step.d.next = TcpTxStep::Plan3;
            }
            TcpTxStep::Plan3 => {
                if !self.over.q.val() {
                    self.room.d.next = 0.into();
                }
                self.len.d.next = self.emss.val();
                if self.rest.q.val() < self.emss.val() {
                    self.len.d.next = self.rest.q.val();
                }
                // octets of the frame are left
                self.more.d.next = self.beyond_start.q.val().get_bit(31) & !self.rest.q.val().get_bit(31) & (self.rest.q.val() != 0);
                self.at_end.d.next = !self.some_fpdu.val() & (self.beyond_start.q.val() == 0);
                self.step.d.next = TcpTxStep::Plan4;
                if self.some_fpdu.val() & !self.beyond_start.q.val().get_bit(31) {
                    self.data.d.next = true;
                    self.skip.d.next = self.start_at.val();
                    self.step.d.next = TcpTxStep::Data1;
                    if self.first_octet.q.val() {
                        self.step.d.next = TcpTxStep::Whole;
                    }
                }
                self.enough.d.next = self.over.q.val() & (self.room.q.val() >= bit_cast::<32, 16>(self.wire_len.val()));
                self.after.d.next = self.piece_seq.val() + bit_cast::<32, 16>(self.wire_len.val());
            }
            // an FPDU from its first octet on, and there is room for all of it: what most are; the states behind this one would come to the same
            TcpTxStep::Whole => {
                self.step.d.next = TcpTxStep::Data1;
                if self.enough.q.val() {
                    self.takes.d.next = true;
                    self.whole.d.next = true;
                    self.seq.d.next = self.piece_seq.val();
                    self.len.d.next = bit_cast::<32, 16>(self.wire_len.val());
                    self.flags.d.next = 0x10.into();
                    if self.piece.q.val().push {
                        self.flags.d.next = 0x18.into();
                    }
                    self.step.d.next = TcpTxStep::RouteStart;
                    if self.way_ok.val() {
                        self.step.d.next = TcpTxStep::Tell;
                    }
                }
            }
            // an FPDU, from `skip` on: whole, or, as the only thing in flight, up to a place where it may be cut
            TcpTxStep::Data1 => {
                self.rest.d.next = bit_cast::<32, 16>(self.wire_len.val()) - bit_cast::<32, 16>(self.skip.q.val());
                self.cut_room.d.next = bit_cast::<32, 16>(self.last_cut.q.val()) - bit_cast::<32, 16>(self.skip.q.val());
                self.more.d.next = true;
                self.idle.d.next = self.flight.q.val() == 0;
                self.step.d.next = TcpTxStep::Data2;
            }
            TcpTxStep::Data2 => {
                self.len.d.next = self.emss.val();
                if self.rest.q.val() < self.emss.val() {
                    self.len.d.next = self.rest.q.val();
                }
                self.step.d.next = TcpTxStep::Data3;
            }
            TcpTxStep::Data3 => {
                if self.room.q.val() < self.len.q.val() {
                    self.len.d.next = self.room.q.val();
                }
                self.step.d.next = TcpTxStep::Data4;
            }
            TcpTxStep::Data4 => {
                self.whole.d.next = self.len.q.val() == self.rest.q.val();
                self.step.d.next = TcpTxStep::Data5;
            }
            TcpTxStep::Data5 => {
                if !self.whole.q.val() {
                    self.len.d.next = self.even_len.val();
                    if !self.idle.q.val() {
                        self.len.d.next = 0.into();
                    }
                }
                self.step.d.next = TcpTxStep::Plan5;
            }
            TcpTxStep::Plan4 => {
                if self.room.q.val() < self.len.q.val() {
                    self.len.d.next = self.room.q.val();
                }
                self.step.d.next = TcpTxStep::Plan5;
            }
            TcpTxStep::Plan5 => {
                self.whole.d.next = self.len.q.val() == self.rest.q.val();
                self.fin_rides.d.next = self.ctl.q.val().close & !self.some_fpdu.val() & (self.room.q.val() > self.len.q.val());
                self.can_data.d.next = self.is_open.val()
                    & self.more.q.val()
                    & (self.len.q.val() != 0)
                    & ((self.len.q.val() == self.emss.val())
                        | (self.len.q.val() == self.rest.q.val())
                        | (self.len.q.val() >= (self.max_wnd.q.val() >> 1))
                        | self.ctl.q.val().small);
                self.can_fin.d.next = self.is_open.val() & self.at_end.q.val() & self.ctl.q.val().close & (self.room.q.val() != 0);
                self.can_syn.d.next = self.is_syn.val() & (self.offset.q.val() == 0);
                self.want.d.next = self.is_open.val() & (self.more.q.val() | (self.at_end.q.val() & self.ctl.q.val().close));
                self.step.d.next = TcpTxStep::Plan6;
            }
            TcpTxStep::Plan6 => {
                self.seq.d.next = self.nxt.q.val();
                self.after.d.next = self.nxt.q.val();
                self.len.d.next = 0.into();
                self.flags.d.next = 0x10.into();
                self.step.d.next = TcpTxStep::RouteStart;
                if self.ctl.q.val().probe & (self.wnd.q.val() == 0) & (self.want.q.val() | self.outstanding.q.val()) {
                    self.seq.d.next = self.una.q.val() - 1;
                    self.probing.d.next = true;
                } else if self.can_syn.q.val() {
                    self.takes.d.next = true;
                    self.octet.d.next = true;
                    self.flags.d.next = 0x02.into();
                    if self.ctl.q.val().state == TcpTxState::SynReceived {
                        self.flags.d.next = 0x12.into();
                    }
                } else if self.can_data.q.val() {
                    self.takes.d.next = true;
                    self.len.d.next = self.len.q.val();
                    self.after.d.next = self.nxt.q.val() + self.len.q.val();
                    if self.data.q.val() {
                        self.seq.d.next = self.piece_seq.val() + bit_cast::<32, 16>(self.skip.q.val());
                        self.after.d.next = self.piece_seq.val() + bit_cast::<32, 16>(self.skip.q.val()) + self.len.q.val();
                    }
                    if self.whole.q.val() & (!self.data.q.val() | self.piece.q.val().push) {
                        self.flags.d.next = 0x18.into();
                        if self.fin_rides.q.val() {
                            self.octet.d.next = true;
                            self.flags.d.next = 0x19.into();
                        }
                    }
                } else if self.can_fin.q.val() {
                    self.takes.d.next = true;
                    self.octet.d.next = true;
                    self.flags.d.next = 0x11.into();
                } else if self.ctl.q.val().ack_due & (self.ctl.q.val().state != TcpTxState::SynSent) {
                    self.seq.d.next = self.max.q.val();
                    if self.beyond.q.val() & self.is_open.val() {
                        self.seq.d.next = self.una.q.val() + self.wnd.q.val();
                    }
                } else {
                    // blocked by the window with nothing in flight: probes, or the override of TCP-20
                    self.step.d.next = TcpTxStep::Finish;
                    self.ctl.d.next.waiting = false;
                    if self.want.q.val() & !self.outstanding.q.val() & !self.ctl.q.val().timer_on {
                        self.arm.next = true;
                    }
                }
            }

            // one segment: next hop, neighbour, out
            TcpTxStep::RouteStart => {
                if self.octet.q.val() {
                    self.after.d.next = self.after.q.val() + 1;
                }
                self.way_fresh.d.next = !self.neighbors_changed.val();
                self.step.d.next = TcpTxStep::Tell;
                if self.octet.q.val() | !self.way_ok.val() {
                    self.next_hop.start.next = true;
                    self.step.d.next = TcpTxStep::Route;
                }
            }
            TcpTxStep::Route => {
                self.hop.d.next = self.route.val().ip;
                self.source.d.next = self.route.val().source;
                self.mac.d.next = self.own_mac.val();
                self.no_route.d.next = true;
                if self.next_hop.done.val() {
                    self.step.d.next = TcpTxStep::NotSent;
                    if self.route.val().resolve {
                        self.step.d.next = TcpTxStep::Query;
                    } else if self.route.val().own {
                        self.way_known.d.next = self.held.q.val();
                        self.way_age.d.next = 0.into();
                        self.step.d.next = TcpTxStep::Tell;
                    }
                }
            }
            TcpTxStep::Query => {
                self.query.valid.next = true;
                self.no_route.d.next = false;
                if self.query.ready.val() {
                    self.step.d.next = TcpTxStep::Answer;
                }
            }
            TcpTxStep::Answer => {
                self.answer.ready.next = true;
                self.mac.d.next = self.answer.data.val().mac;
                if self.answer.valid.val() {
                    self.step.d.next = TcpTxStep::NotSent;
                    if self.answer.data.val().found {
                        self.way_known.d.next = self.held.q.val() & self.way_fresh.q.val() & !self.neighbors_changed.val();
                        self.way_age.d.next = 0.into();
                        self.step.d.next = TcpTxStep::Tell;
                    }
                }
            }
            TcpTxStep::Tell => {
                self.to_rx.valid.next = self.grows.val();
                if !self.grows.val() | self.to_rx.ready.val() {
                    self.step.d.next = TcpTxStep::Emit;
                }
            }
            TcpTxStep::Emit => {
                self.segment.valid.next = !self.segment_done.q.val();
                self.payload.valid.next = !self.payload_done.q.val() & (self.length.val() != 0);
                self.segment_done.d.next = self.segment_ok.val() & !self.payload_ok.val();
                self.payload_done.d.next = self.payload_ok.val() & !self.segment_ok.val();
                if self.data.q.val() & self.again.q.val() {
                    self.remaking.d.next = true;
                }
                if self.segment_ok.val() & self.payload_ok.val() {
                    self.step.d.next = TcpTxStep::Sent;
                }
            }
            TcpTxStep::Sent => {
                self.step.d.next = TcpTxStep::Finish;
                self.ctl.d.next.waiting = false;
                self.ctl.d.next.recheck = false;
                if self.flags.q.val().get_bit(4) {
                    self.ctl.d.next.ack_due = false;
                    self.owing.d.next = false;
                }
                if self.takes.q.val() {
                    self.ctl.d.next.resend = false;
                    if !self.ctl.q.val().resend {
                        self.nxt.d.next = self.after.q.val();
                        if self.data.q.val() & self.whole.q.val() {
                            self.ring.d.next.unsent = self.ring_unsent.val() + 1;
                            self.ring.d.next.unsent_seq = self.after.q.val();
                        }
                    }
                    self.ctl.d.next.small = false;
                    // there may be more
                    self.push.d.next = self.is_open.val();
                    if self.grows.val() {
                        self.max.d.next = self.after.q.val();
                    }
                    if self.again.q.val() {
                        self.ctl.d.next.timed = false;
                        self.cnt_tcp_retrans_segs.next = true;
                    } else if !self.ctl.q.val().timed {
                        self.ctl.d.next.timed = true;
                        self.rtt_seq.d.next = self.after.q.val();
                        self.rtt_start.d.next = self.time_us.val();
                    }
                }
                if self.probing.q.val() {
                    self.probed.next = true;
                    self.ctl.d.next.probe = false;
                    self.ctl.d.next.backoff = self.more_backoff.val();
                }
                if self.takes.q.val() | self.probing.q.val() {
                    self.ctl.d.next.since = true;
                    if !self.ctl.q.val().since {
                        self.first_tx.d.next = self.time_us.val();
                    }
                    // a deadline of the override, or of a neighbour that was missing, is too early for what has just left
                    self.arm.next = !self.ctl.q.val().timer_on | !self.outstanding.q.val() | self.ctl.q.val().waiting;
                }
                if self.job.q.val() == TcpTxJob::Rx {
                    self.step.d.next = TcpTxStep::Finish;
                } else if self.ctl.q.val().state == TcpTxState::Ending {
                    self.step.d.next = TcpTxStep::FreeWait;
                }
            }
            TcpTxStep::NotSent => {
                self.step.d.next = TcpTxStep::Finish;
                self.ctl.d.next.recheck = false;
                if self.job.q.val() == TcpTxJob::Rx {
                    self.cnt_tcp_no_neighbor.next = true;
                    self.step.d.next = TcpTxStep::Finish;
                } else if self.ctl.q.val().state == TcpTxState::Ending {
                    self.cnt_tcp_no_neighbor.next = true;
                    self.step.d.next = TcpTxStep::FreeWait;
                } else {
                    if self.takes.q.val() | self.probing.q.val() {
                        self.ctl.d.next.since = true;
                        if !self.ctl.q.val().since {
                            self.first_tx.d.next = self.time_us.val();
                        }
                        self.arm.next = !self.ctl.q.val().timer_on;
                    }
                    if self.no_route.q.val() {
                        self.cnt_tcp_no_neighbor.next = true;
                        self.ctl.d.next.waiting = false;
                        self.ctl.d.next.ack_due = false;
                        if self.is_syn.val() {
                            self.ctl.d.next.state = TcpTxState::Dead;
                            self.ctl.d.next.tell_unreachable = true;
                            self.push.d.next = true;
                            self.arm.next = false;
                            self.timer_stop.next = true;
                        }
                    } else {
                        self.ctl.d.next.waiting = true;
                        self.ctl.d.next.hop = self.hop.q.val();
                        self.some_wait.d.next = true;
                    }
                }
            }
            TcpTxStep::FreeWait => {
                // it stays low: payloads are asked for here alone
                self.to_cm.valid.next = !self.payload_busy.val();
                if !self.payload_busy.val() & self.to_cm.ready.val() {
                    self.ctl.d.next.state = TcpTxState::Free;
                    self.step.d.next = TcpTxStep::Finish;
                }
            }

            // the deadline, and back to memory
            TcpTxStep::ArmShift => {
                self.doublings.d.next = self.doublings.q.val() - 1;
                self.work.d.next = self.work.q.val() << 1;
                if self.work.q.val() >= self.tcp_rto_max.val() {
                    self.work.d.next = self.tcp_rto_max.val();
                    self.step.d.next = TcpTxStep::ArmAt;
                } else if self.doublings.q.val() == 0 {
                    self.work.d.next = self.work.q.val();
                    self.step.d.next = TcpTxStep::ArmAt;
                }
            }
            TcpTxStep::ArmAt => {
                self.timer_at.d.next = self.time_us.val() + self.work.q.val();
                self.ctl.d.next.timer_on = true;
                self.step.d.next = TcpTxStep::SetTimer;
            }
            TcpTxStep::SetTimer => {
                self.deadline.valid.next = true;
                if self.deadline.ready.val() {
                    self.step.d.next = TcpTxStep::Finish;
                }
            }
            TcpTxStep::Finish => {
                self.from_rx.ready.next = self.job.q.val() == TcpTxJob::Rx;
                self.from_cm.ready.next = self.job.q.val() == TcpTxJob::Cm;
                // a stateless segment is nobody's
                self.quick.write_enable.next = self.held.q.val();
                self.push.d.next = false;
                self.step.d.next = TcpTxStep::Idle;
                if self.scanning.q.val() {
                    self.job.d.next = TcpTxJob::Keep;
                    self.step.d.next = TcpTxStep::Load;
                }
            }
            _ => {
                self.step.d.next = TcpTxStep::Clear;
            }
        }
        if self.starts.val() {
            match self.next_job.val() {
                TcpTxJob::Rx => {
                    self.step.d.next = TcpTxStep::RxAct;
                }
                TcpTxJob::Cm => {
                    self.step.d.next = TcpTxStep::CmAct;
                }
                TcpTxJob::Timer => {
                    self.step.d.next = TcpTxStep::TimerAct;
                }
                TcpTxJob::Notice => {
                    self.step.d.next = TcpTxStep::NoticeAct;
                }
                _ => {
                    self.step.d.next = TcpTxStep::SendAct;
                }
            }
        }
        self.lines.write_enable.next = self.store.val();
        self.lines.write_address.next = (bit_cast::<CP2, C>(self.store_index.val()) << 2) | bit_cast::<CP2, 2>(self.store_bits.val());
        self.control.write.next = self.store.val();
        self.control.write_index.next = self.store_index.val();
        self.control.write_word.next = self.store_bits.val();
        self.rings.write.next = self.store.val();
        self.rings.write_index.next = self.store_index.val();
        self.rings.write_word.next = self.store_bits.val();
        self.fpdu_low.next = self.fpdu_slot.val().get_bits::<5>(0);
        self.fpdus.read_address.next = (bit_cast::<CP5, C>(self.index.q.val()) << 5) | bit_cast::<CP5, 5>(self.fpdu_low.val());
        if self.step.q.val() == TcpTxStep::Load {
            self.fpdus.read_address.next = (bit_cast::<CP5, C>(self.wanted.q.val()) << 5) | bit_cast::<CP5, 5>(self.known.val().send_at);
        }
        self.known_low.next = self.known.val().tail;
        self.fpdus.write_address.next =
            (bit_cast::<CP5, C>(self.sq_index.val().get_bits::<C>(0)) << 5) | bit_cast::<CP5, 5>(self.known_low.val().get_bits::<5>(0));
        // as early as possible, so that it has the turn that follows if nobody else waits
        if self.push.q.val() & self.held.q.val() & !self.ctl.q.val().queued {
            self.queue.inp.valid.next = true;
            self.ctl.d.next.queued = true;
        }
        // the second segment has not come in time, or the registers are wanted
        if self.pay.val() {
            self.owing.d.next = false;
            if self.is_open.val() {
                self.ctl.d.next.ack_due = true;
                self.ctl.d.next.queued = true;
                self.quick.write_enable.next = true;
                self.quick.write_data.next.queued = true;
                self.queue.inp.valid.next = !self.ctl.q.val().queued;
            }
        }
        if self.timer_stop.val() {
            self.step.d.next = TcpTxStep::Finish;
            if self.ctl.q.val().timer_on {
                self.ctl.d.next.timer_on = false;
                self.step.d.next = TcpTxStep::SetTimer;
            }
        } else if self.arm.val() {
            self.work.d.next = self.rto.q.val();
            self.doublings.d.next = self.ctl.q.val().backoff;
            if self.probed.val() {
                self.doublings.d.next = self.more_backoff.val();
            }
            // only probes are spaced by doubling here; a time-out has doubled RTO itself
            if self.takes.q.val() | (self.job.q.val() == TcpTxJob::Rx) {
                self.doublings.d.next = 0.into();
            }
            self.step.d.next = TcpTxStep::ArmShift;
        }
        if self.notice_valid.val() & !self.notices.inp.ready.val() {
            self.lost.d.next = true;
        }
        if self.reset.val() {
            self.step.d.next = TcpTxStep::Clear;
            self.line.d.next = 0.into();
            self.ctl.d.next = self.cleared.val();
            self.scan_at.d.next = 0.into();
            self.scanning.d.next = false;
            self.held.d.next = false;
            self.owing.d.next = false;
            self.way_known.d.next = false;
            self.some_wait.d.next = false;
            self.lost.d.next = false;
            self.turn.d.next = false;
            self.timer_turn.d.next = false;
            self.patience.d.next = 0.into();
            self.remaking.d.next = false;
            self.segment_done.d.next = false;
            self.payload_done.d.next = false;
            self.spent.d.next = 0.into();
        }
    }
}
