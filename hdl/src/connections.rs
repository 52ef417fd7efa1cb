// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: TCP, MPA start-up and the connection manager, wired together. Wiring only; what the wires mean is in the blocks and in
//! `tcp::types`, `mpa::types`, `cm::messages`.
//!
//! ```text
//!   inp, meta --> seg_rx --SegmentIn--> syn_guard --> rx <--> lookup      rules <-- syn_guard, conn
//!                    |   <--Verdict---  | ^  ^
//!                reassembly      RxToTx | |  | RxToCm, CmToRx
//!                    | payload          | |  |
//!                 start_rx --results----|-|--+----> conn <-- cmd, listener_update
//!                    |                  | | TxToRx  | |      --> evt;  <--> port database, cm_deadlines
//!                DMA write              v |         | |
//!    isn, ARP, tx_deadlines <--------->  tx <-------+ | CmToTx, TxToCm
//!                                       | |           |
//!                            SegmentOut | | PayloadOut| StartTxFrame
//!                                       v v           v
//!                    out <-- seg_tx <-------------- start_tx <-- DMA read
//! ```
//!
//! **No deadlock.** An engine may wait for room on its way to another one, so nobody may wait in a circle:
//! * `tx_to_cm`, `faults`: the manager may wait for the port database for thousands of clocks. A connection has at most 3 notes of `tx` (one that it is given up,
//!   and `Freed`, for each attempt) and one fault for each of its two start-up frames until the manager frees it: with 4 * 2^C and 2 * 2^C places `tx` and `start_tx` never wait for the manager.
//! * What `rx` and `start_rx` tell the manager stands in one queue, inside `conn`, because its order matters. When it is full they wait, and frames wait in the receive
//!   buffer behind them. The manager serves that queue before all that makes it tell `rx` something of its own accord, at most two messages a job; each job makes room
//!   for one message, with which `rx` goes on to its next input, and that is the manager's before any segment. So `cm_to_rx` never holds more than
//!   2 x 16 messages while `rx` waits: 32 places.
//! * `seg_rx` takes the verdict for a segment when the payload before it has passed, and `rx` waits for that. A payload under way is `mpa::rx`'s, which needs nothing of `rx` for it: it was answered for
//!   before its first octet, and goes to slots and to `rdma::rx`, which has queues for all that it tells the manager. A payload of `start_rx` is answered at its end, so `rx` is still at its segment.
//! * `reassembly` lets everything through between `seg_rx` and `rx`. When it offers again what it has held, it stands in the place of `seg_rx`: nobody
//!   waits for it who would not wait for `seg_rx`. What `rx` tells it are pulses, which are never refused.
//! * `rules` answer within 20 clocks, and who has asked takes the answer whatever else it waits for.
//! * `segment_out` is one place for a segment, so that `tx` goes on while `seg_tx` is at the one before; its payload is asked for as soon as it is known.
//! * `rx_to_tx`: `tx` takes it before all but what has waited for 31 of its messages, and waits for nothing that `rx` must do: its own notes to `rx` are at most one for each note of `rx` and
//!   the one in hand, so the 32 places of `tx_to_rx` behind the three of `rx_to_tx` never fill while `rx` waits. Three are enough: one holds what `tx` is at, two what
//!   one segment makes `rx` say; what `rx` has no room for waits as frames in the receive buffer, which has 256 places of its own.
//! * `cm_to_tx`: `tx` never waits for the manager.
//!
//! **Memory.** Block RAM: `tx_to_rx` (32 x 50 bits), `tx_to_cm` (4 * 2^C x 18), `cm_to_rx` (32 x 34), `faults` (2 * 2^C x 16), one or two each; the pool of `reassembly` (6), the beats of `seg_rx` (2). `cm_to_tx` is
//! distributed, `rx_to_tx` three registers in a row, `segment_out` one.
use crate::cm::conn::Conn;
use crate::cm::messages::*;
use crate::cm::port_types::{PortReply, PortRequest};
use crate::cm::rules::*;
use crate::host::{dma::*, pulse_merge::PulseMerge};
use crate::mpa::payload_in::PayloadInSplit;
use crate::mpa::payload_out::PayloadOutMerge;
use crate::mpa::start_rx::StartRx;
use crate::mpa::start_tx::StartTx;
use crate::mpa::types::*;
use crate::net::neighbor_types::*;
use crate::net::types::*;
use crate::rdma::types::*;
use crate::stream::*;
use crate::tcp::deadlines::Deadlines;
use crate::tcp::isn::Isn;
use crate::tcp::lookup::Lookup;
use crate::tcp::note_queue::NoteQueue;
use crate::tcp::reassembly::Reassembly;
use crate::tcp::rx::TcpRx;
use crate::tcp::seg_rx::SegRx;
use crate::tcp::seg_tx::SegTx;
use crate::tcp::syn_guard::SynGuard;
use crate::tcp::tx::TcpTx;
use crate::tcp::types::*;
use rust_hdl::prelude::*;

/// 2^C connections and as many TIME-WAIT entries (`CN` = 2^C, `Cn` = C + n), 2^L listeners, IRD and ORD up to `D`, frames of 8 * 2^S octets (`S1` = S + 1),
/// 8 segments out of order of up to `W` beats in a pool of 2^P.
#[derive(LogicBlock, Default)]
pub struct Connections<
    const C: usize,
    const C1: usize,
    const C2: usize,
    const C3: usize,
    const C5: usize,
    const C9: usize,
    const CN: usize,
    const L: usize,
    const D: usize,
    const S: usize,
    const S1: usize,
    const W: usize,
    const P: usize,
> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub time_us: Signal<In, Bits<32>>,
    // registers
    pub own_mac: Signal<In, Bits<48>>,
    pub mtu: Signal<In, Bits<16>>,
    pub ip_ttl: Signal<In, Bits<8>>,
    pub random: Signal<In, Bits<32>>,
    pub tcp_window: Signal<In, Bits<32>>,
    pub tcp_rto_init: Signal<In, Bits<32>>,
    pub tcp_rto_min: Signal<In, Bits<32>>,
    pub tcp_rto_max: Signal<In, Bits<32>>,
    pub tcp_r1: Signal<In, Bits<32>>,
    pub tcp_r2: Signal<In, Bits<32>>,
    pub tcp_r2_syn: Signal<In, Bits<32>>,
    pub tcp_2msl: Signal<In, Bits<32>>,
    pub tcp_challenges: Signal<In, Bits<32>>,
    pub mpa_timeout: Signal<In, Bits<32>>,
    pub connect_timeout: Signal<In, Bits<32>>,
    pub close_timeout: Signal<In, Bits<32>>,
    pub refusal_timeout: Signal<In, Bits<32>>,
    pub isn_key0: Signal<In, Bits<32>>,
    pub isn_key1: Signal<In, Bits<32>>,
    pub isn_key2: Signal<In, Bits<32>>,
    pub isn_key3: Signal<In, Bits<32>>,
    pub pdata_base: Signal<In, Bits<64>>,
    pub spare_slots: Signal<In, Bits<32>>,
    pub addresses: [Signal<In, LocalAddress>; 4],
    // host
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub freed_read: ChanSink<Bits<16>>,
    pub shutdown: Signal<In, Bit>,
    pub shut: Signal<Out, Bit>,
    pub listener_update: ChanSink<ListenerUpdate>,
    pub listener_done: Signal<Out, Bit>,
    pub port_req: ChanSrc<PortRequest>,
    pub port_rsp: ChanSink<PortReply>,
    pub rule: ChanSink<RuleSet>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_beat: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub connections_live: Signal<Out, Bits<16>>,
    // data path
    pub order: ChanSrc<QpOrder>,
    pub news: ChanSink<QpNews>,
    pub from_sq: ChanSink<FpduQueued>,
    pub to_sq: ChanSrc<TxToSq>,
    pub full_meta: ChanSrc<PayloadIn>,
    pub full: StreamSrc,
    pub full_consumed: ChanSink<Bits<16>>,
    pub fpdu_ask: ChanSrc<FpduOut>,
    pub fpdu: StreamSink,
    pub fpdu_busy: Signal<In, Bit>,
    // wire
    pub meta: Signal<In, RxMeta>,
    pub listening: Signal<In, Bit>,
    pub listener: Signal<In, Bits<16>>,
    pub inp: StreamSink,
    pub out: StreamSrc,
    pub query: ChanSrc<NeighborQuery>,
    pub answer: ChanSink<NeighborAnswer>,
    pub notice: Signal<In, NeighborNotice>,
    pub notice_valid: Signal<In, Bit>,
    pub neighbors_changed: Signal<In, Bit>,
    pub cnt_tcp_out_segs: Signal<Out, Bit>,
    pub cnt_tcp_out_rsts: Signal<Out, Bit>,
    pub cnt_ip4_out_pkts: Signal<Out, Bit>,
    pub cnt_tcp_in_errs: Signal<Out, Bit>,
    pub cnt_tcp_active_opens: Signal<Out, Bit>,
    pub cnt_tcp_passive_opens: Signal<Out, Bit>,
    pub cnt_tcp_attempt_fails: Signal<Out, Bit>,
    pub cnt_tcp_estab_resets: Signal<Out, Bit>,
    pub cnt_tcp_syn_dropped: Signal<Out, Bit>,
    pub cnt_tcp_in_unacceptable: Signal<Out, Bit>,
    pub cnt_tcp_in_ooo: Signal<Out, Bit>,
    pub cnt_tcp_ooo_dropped: Signal<Out, Bit>,
    pub cnt_tcp_wait_overflow: Signal<Out, Bit>,
    pub cnt_tcp_wait_reused: Signal<Out, Bit>,
    pub cnt_tcp_retrans_segs: Signal<Out, Bit>,
    pub cnt_tcp_timeouts: Signal<Out, Bit>,
    pub cnt_tcp_give_ups: Signal<Out, Bit>,
    pub cnt_tcp_challenge_acks: Signal<Out, Bit>,
    pub cnt_tcp_no_neighbor: Signal<Out, Bit>,
    pub cnt_mpa_in_requests: Signal<Out, Bit>,
    pub cnt_mpa_in_replies: Signal<Out, Bit>,
    pub cnt_mpa_malformed: Signal<Out, Bit>,
    pub cnt_mpa_timeouts: Signal<Out, Bit>,
    pub cnt_mpa_rejects_in: Signal<Out, Bit>,
    pub cnt_mpa_rejects_out: Signal<Out, Bit>,
    pub cnt_mpa_non_peer_rejects: Signal<Out, Bit>,
    pub cnt_mpa_retries: Signal<Out, Bit>,
    pub cnt_conn_created: Signal<Out, Bit>,
    pub cnt_conn_freed: Signal<Out, Bit>,
    pub cnt_conn_established: Signal<Out, Bit>,
    pub cnt_conn_denied: Signal<Out, Bit>,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    pub cnt_cmd_unknown: Signal<Out, Bit>,
    pub cnt_stale_handles: Signal<Out, Bit>,
    seg_rx: SegRx,
    reassembly: Reassembly<C, 8, W, P>,
    syn_guard: SynGuard,
    rules: Rules<4, 16>,
    rule_share: RuleShare,
    conn_denied: PulseMerge<2>,
    lookup: Lookup<C1, C2>,
    rx: TcpRx<C, C, L, C1>,
    tx: TcpTx<C, C1, C2, C5>,
    isn: Isn,
    tx_deadlines: Deadlines<C>,
    seg_tx: SegTx<S, S1>,
    start_rx: StartRx<C, C9>,
    start_tx: StartTx<C, CN>,
    payload_in: PayloadInSplit,
    payload_out: PayloadOutMerge,
    conn: Conn<C, C1, CN, L, C, CN, D>,
    cm_deadlines: Deadlines<C>,
    rx_to_tx: NoteQueue,
    segment_out: ChanSlot<SegmentOut>,
    tx_to_rx: ChanFifo<TxToRx, 5, 6>,
    tx_to_cm: ChanFifo<TxToCm, C2, C3>,
    cm_to_rx: ChanFifo<CmToRx, 5, 6>,
    cm_to_tx: ChanFifo<CmToTx, 4, 5>,
    faults: ChanFifo<Bits<16>, C1, C2>,
    word: Signal<Local, Bits<32>>,
}

impl<
        const C: usize,
        const C1: usize,
        const C2: usize,
        const C3: usize,
        const C5: usize,
        const C9: usize,
        const CN: usize,
        const L: usize,
        const D: usize,
        const S: usize,
        const S1: usize,
        const W: usize,
        const P: usize,
    > Logic for Connections<C, C1, C2, C3, C5, C9, CN, L, D, S, S1, W, P>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, syn_guard, rules, rule_share, conn_denied);
        clock!(self, clock, seg_rx, reassembly, lookup, rx, tx, isn, tx_deadlines, seg_tx, start_rx, start_tx, conn, cm_deadlines);
        clock!(self, clock, rx_to_tx, segment_out, tx_to_rx, tx_to_cm, cm_to_rx, cm_to_tx, faults);
        clock!(self, clock, payload_in, payload_out);
        self.payload_out.reset.next = self.reset.val();
        self.seg_rx.reset.next = self.reset.val();
        self.reassembly.reset.next = self.reset.val();
        self.syn_guard.reset.next = self.reset.val();
        self.rules.reset.next = self.reset.val();
        self.rule_share.reset.next = self.reset.val();
        self.conn_denied.reset.next = self.reset.val();
        self.lookup.reset.next = self.reset.val();
        self.rx.reset.next = self.reset.val();
        self.tx.reset.next = self.reset.val();
        self.isn.reset.next = self.reset.val();
        self.tx_deadlines.reset.next = self.reset.val();
        self.seg_tx.reset.next = self.reset.val();
        self.start_rx.reset.next = self.reset.val();
        self.start_tx.reset.next = self.reset.val();
        self.conn.reset.next = self.reset.val();
        self.cm_deadlines.reset.next = self.reset.val();
        self.rx_to_tx.reset.next = self.reset.val();
        self.segment_out.reset.next = self.reset.val();
        self.tx_to_rx.reset.next = self.reset.val();
        self.tx_to_cm.reset.next = self.reset.val();
        self.cm_to_rx.reset.next = self.reset.val();
        self.cm_to_tx.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();
        self.ready.next = self.lookup.ready.val()
            & self.rx.ready.val()
            & self.tx.ready.val()
            & self.tx_deadlines.ready.val()
            & self.start_rx.ready.val()
            & self.conn.ready.val()
            & self.cm_deadlines.ready.val();

        // registers
        self.lookup.secret.next = self.random.val();
        self.rx.time_us.next = self.time_us.val();
        self.rx.two_msl.next = self.tcp_2msl.val();
        self.word.next = self.spare_slots.val();
        self.rx.spare_slots.next = self.word.val().get_bits::<16>(0);
        self.word.next = self.tcp_window.val();
        self.rx.window.next = self.word.val().get_bits::<16>(0);
        self.tx.tcp_window.next = self.word.val().get_bits::<16>(0);
        self.word.next = self.tcp_r1.val();
        self.tx.tcp_r1.next = self.word.val().get_bits::<8>(0);
        self.word.next = self.tcp_challenges.val();
        self.tx.tcp_challenges.next = self.word.val().get_bits::<8>(0);
        self.tx.time_us.next = self.time_us.val();
        self.tx.own_mac.next = self.own_mac.val();
        self.tx.mtu.next = self.mtu.val();
        self.tx.tcp_rto_init.next = self.tcp_rto_init.val();
        self.tx.tcp_rto_min.next = self.tcp_rto_min.val();
        self.tx.tcp_rto_max.next = self.tcp_rto_max.val();
        self.tx.tcp_r2.next = self.tcp_r2.val();
        self.tx.tcp_r2_syn.next = self.tcp_r2_syn.val();
        self.isn.key0.next = self.isn_key0.val();
        self.isn.key1.next = self.isn_key1.val();
        self.isn.key2.next = self.isn_key2.val();
        self.isn.key3.next = self.isn_key3.val();
        self.isn.time_us.next = self.time_us.val();
        self.tx_deadlines.time_us.next = self.time_us.val();
        self.cm_deadlines.time_us.next = self.time_us.val();
        self.seg_tx.own_mac.next = self.own_mac.val();
        self.seg_tx.ip_ttl.next = self.ip_ttl.val();
        self.start_rx.pdata_base.next = self.pdata_base.val();
        self.conn.time_us.next = self.time_us.val();
        self.conn.mpa_timeout.next = self.mpa_timeout.val();
        self.conn.connect_timeout.next = self.connect_timeout.val();
        self.conn.close_timeout.next = self.close_timeout.val();
        self.conn.refusal_timeout.next = self.refusal_timeout.val();
        for i in 0..4 {
            self.tx.local[i].next = self.addresses[i].val();
            self.conn.addresses[i].next = self.addresses[i].val();
        }

        // wire -> segments -> RX half, start-up frames
        self.seg_rx.meta.next = self.meta.val();
        self.seg_rx.listening.next = self.listening.val();
        self.seg_rx.listener.next = self.listener.val();
        StreamSink::link(&mut self.inp, &mut self.seg_rx.inp);
        ChanSrc::<SegmentIn>::join(&mut self.seg_rx.segment, &mut self.syn_guard.inp);
        ChanSrc::<SegmentIn>::join(&mut self.syn_guard.out, &mut self.reassembly.segment);
        ChanSrc::<Verdict>::join(&mut self.reassembly.verdict, &mut self.seg_rx.verdict);
        ChanSrc::<PayloadIn>::join(&mut self.seg_rx.payload_meta, &mut self.reassembly.payload_meta);
        StreamSrc::join(&mut self.seg_rx.out, &mut self.reassembly.inp);
        ChanSrc::<SegmentIn>::join(&mut self.reassembly.offer, &mut self.rx.segment);
        ChanSrc::<Verdict>::join(&mut self.rx.verdict, &mut self.reassembly.judged);
        self.reassembly.note.next = self.rx.note.val();
        ChanSrc::<PayloadIn>::join(&mut self.reassembly.announce, &mut self.payload_in.payload_meta);
        StreamSrc::join(&mut self.reassembly.out, &mut self.payload_in.inp);
        ChanSrc::<Bits<16>>::join(&mut self.payload_in.consumed, &mut self.rx.consumed);
        ChanSrc::<PayloadIn>::join(&mut self.payload_in.start_meta, &mut self.start_rx.payload_meta);
        StreamSrc::join(&mut self.payload_in.start, &mut self.start_rx.inp);
        ChanSrc::<Bits<16>>::join(&mut self.start_rx.consumed, &mut self.payload_in.start_consumed);
        ChanSrc::<PayloadIn>::link(&mut self.full_meta, &mut self.payload_in.full_meta);
        StreamSrc::link(&mut self.full, &mut self.payload_in.full);
        ChanSink::<Bits<16>>::link(&mut self.full_consumed, &mut self.payload_in.full_consumed);
        ChanSrc::<LookupRequest>::join(&mut self.rx.lookup, &mut self.lookup.request);
        ChanSrc::<LookupReply>::join(&mut self.lookup.reply, &mut self.rx.found);

        // the engines among themselves
        ChanSrc::<RxToTx>::join(&mut self.rx.to_tx, &mut self.rx_to_tx.inp);
        ChanSrc::<RxToTx>::join(&mut self.rx_to_tx.out, &mut self.tx.from_rx);
        ChanSrc::<TxToRx>::join(&mut self.tx.to_rx, &mut self.tx_to_rx.inp);
        ChanSrc::<TxToRx>::join(&mut self.tx_to_rx.out, &mut self.rx.from_tx);
        ChanSrc::<RxToCm>::join(&mut self.rx.to_cm, &mut self.conn.from_rx);
        ChanSrc::<TxToCm>::join(&mut self.tx.to_cm, &mut self.tx_to_cm.inp);
        ChanSrc::<TxToCm>::join(&mut self.tx_to_cm.out, &mut self.conn.from_tx);
        self.rx.open_tuple.next = self.conn.opens.val();
        ChanSrc::<CmToRx>::join(&mut self.conn.to_rx, &mut self.cm_to_rx.inp);
        ChanSrc::<CmToRx>::join(&mut self.cm_to_rx.out, &mut self.rx.from_cm);
        ChanSrc::<CmToTx>::join(&mut self.conn.to_tx, &mut self.cm_to_tx.inp);
        ChanSrc::<CmToTx>::join(&mut self.cm_to_tx.out, &mut self.tx.from_cm);
        ChanSrc::<StartRxResult>::join(&mut self.start_rx.result, &mut self.conn.result);
        ChanSrc::<Bits<16>>::join(&mut self.start_tx.fault, &mut self.faults.inp);
        ChanSrc::<Bits<16>>::join(&mut self.faults.out, &mut self.conn.fault);
        ChanSrc::<Bits<16>>::join(&mut self.conn.deliver, &mut self.start_rx.deliver);
        ChanSrc::<StartTxFrame>::join(&mut self.conn.frame, &mut self.start_tx.frame);
        ChanSrc::<DeadlineSet>::join(&mut self.conn.deadline, &mut self.cm_deadlines.set);
        ChanSrc::<Bits<16>>::join(&mut self.cm_deadlines.expired, &mut self.conn.expired);

        // set-up rules
        ChanSink::<RuleSet>::link(&mut self.rule, &mut self.rules.set);
        ChanSrc::<RuleQuery>::join(&mut self.syn_guard.query, &mut self.rule_share.a_req);
        ChanSrc::<RuleAnswer>::join(&mut self.rule_share.a_rsp, &mut self.syn_guard.answer);
        ChanSrc::<RuleQuery>::join(&mut self.conn.rule_query, &mut self.rule_share.b_req);
        ChanSrc::<RuleAnswer>::join(&mut self.rule_share.b_rsp, &mut self.conn.rule_answer);
        ChanSrc::<RuleQuery>::join(&mut self.rule_share.req, &mut self.rules.query);
        ChanSrc::<RuleAnswer>::join(&mut self.rules.answer, &mut self.rule_share.rsp);
        self.conn_denied.inp[0].next = self.syn_guard.cnt_conn_denied.val();
        self.conn_denied.inp[1].next = self.conn.cnt_conn_denied.val();
        self.cnt_conn_denied.next = self.conn_denied.out.val();

        // TX half -> segments -> wire
        ChanSrc::<Tuple>::join(&mut self.tx.isn_req, &mut self.isn.request);
        ChanSrc::<Bits<32>>::join(&mut self.isn.isn, &mut self.tx.isn);
        ChanSrc::<DeadlineSet>::join(&mut self.tx.deadline, &mut self.tx_deadlines.set);
        ChanSrc::<Bits<16>>::join(&mut self.tx_deadlines.expired, &mut self.tx.expired);
        ChanSrc::<NeighborQuery>::link(&mut self.query, &mut self.tx.query);
        ChanSink::<NeighborAnswer>::link(&mut self.answer, &mut self.tx.answer);
        self.tx.notice.next = self.notice.val();
        self.tx.notice_valid.next = self.notice_valid.val();
        self.tx.neighbors_changed.next = self.neighbors_changed.val();
        ChanSrc::<SegmentOut>::join(&mut self.tx.segment, &mut self.segment_out.inp);
        ChanSrc::<SegmentOut>::join(&mut self.segment_out.out, &mut self.seg_tx.segment);
        ChanSrc::<PayloadOut>::join(&mut self.tx.payload, &mut self.payload_out.ask);
        ChanSrc::<PayloadOut>::join(&mut self.payload_out.start_ask, &mut self.start_tx.payload);
        StreamSrc::join(&mut self.start_tx.out, &mut self.payload_out.start);
        self.payload_out.start_busy.next = self.start_tx.busy.val();
        ChanSrc::<FpduOut>::link(&mut self.fpdu_ask, &mut self.payload_out.fpdu_ask);
        StreamSink::link(&mut self.fpdu, &mut self.payload_out.fpdu);
        self.payload_out.fpdu_busy.next = self.fpdu_busy.val();
        StreamSrc::join(&mut self.payload_out.out, &mut self.seg_tx.payload);
        self.tx.payload_busy.next = self.payload_out.busy.val();

        // data path
        ChanSrc::<QpOrder>::link(&mut self.order, &mut self.conn.to_qp);
        ChanSink::<QpNews>::link(&mut self.news, &mut self.conn.from_qp);
        ChanSink::<FpduQueued>::link(&mut self.from_sq, &mut self.tx.from_sq);
        ChanSrc::<TxToSq>::link(&mut self.to_sq, &mut self.tx.to_sq);
        StreamSrc::link(&mut self.out, &mut self.seg_tx.out);

        // host
        ChanSink::<CommandIn>::link(&mut self.cmd, &mut self.conn.cmd);
        ChanSrc::<EventOut>::link(&mut self.evt, &mut self.conn.evt);
        ChanSink::<Bits<16>>::link(&mut self.freed_read, &mut self.conn.freed_read);
        self.conn.shutdown.next = self.shutdown.val();
        self.shut.next = self.conn.shut.val();
        ChanSink::<ListenerUpdate>::link(&mut self.listener_update, &mut self.conn.listener);
        self.listener_done.next = self.conn.listener_done.val();
        ChanSrc::<PortRequest>::link(&mut self.port_req, &mut self.conn.port_req);
        ChanSink::<PortReply>::link(&mut self.port_rsp, &mut self.conn.port_rsp);
        ChanSrc::<DmaRequest>::link(&mut self.rd_req, &mut self.start_tx.rd_req);
        ChanSink::<DmaBeat>::link(&mut self.rd_beat, &mut self.start_tx.rd_beat);
        ChanSrc::<DmaRequest>::link(&mut self.wr_req, &mut self.start_rx.wr_req);
        ChanSrc::<DmaBeat>::link(&mut self.wr_beat, &mut self.start_rx.wr_beat);
        DmaDoneSink::link(&mut self.wr_done, &mut self.start_rx.wr_done);
        self.connections_live.next = self.conn.connections_live.val();

        // counters
        self.cnt_tcp_out_segs.next = self.seg_tx.cnt_tcp_out_segs.val();
        self.cnt_tcp_out_rsts.next = self.seg_tx.cnt_tcp_out_rsts.val();
        self.cnt_ip4_out_pkts.next = self.seg_tx.cnt_ip4_out_pkts.val();
        self.cnt_tcp_in_errs.next = self.rx.cnt_tcp_in_errs.val();
        self.cnt_tcp_active_opens.next = self.rx.cnt_tcp_active_opens.val();
        self.cnt_tcp_passive_opens.next = self.rx.cnt_tcp_passive_opens.val();
        self.cnt_tcp_attempt_fails.next = self.rx.cnt_tcp_attempt_fails.val();
        self.cnt_tcp_estab_resets.next = self.rx.cnt_tcp_estab_resets.val();
        self.cnt_tcp_syn_dropped.next = self.rx.cnt_tcp_syn_dropped.val();
        self.cnt_tcp_in_unacceptable.next = self.rx.cnt_tcp_in_unacceptable.val();
        self.cnt_tcp_in_ooo.next = self.reassembly.cnt_tcp_in_ooo.val();
        self.cnt_tcp_ooo_dropped.next = self.reassembly.cnt_tcp_ooo_dropped.val();
        self.cnt_tcp_wait_overflow.next = self.rx.cnt_tcp_wait_overflow.val();
        self.cnt_tcp_wait_reused.next = self.rx.cnt_tcp_wait_reused.val();
        self.cnt_tcp_retrans_segs.next = self.tx.cnt_tcp_retrans_segs.val();
        self.cnt_tcp_timeouts.next = self.tx.cnt_tcp_timeouts.val();
        self.cnt_tcp_give_ups.next = self.tx.cnt_tcp_give_ups.val();
        self.cnt_tcp_challenge_acks.next = self.tx.cnt_tcp_challenge_acks.val();
        self.cnt_tcp_no_neighbor.next = self.tx.cnt_tcp_no_neighbor.val();
        self.cnt_mpa_in_requests.next = self.start_rx.cnt_mpa_in_requests.val();
        self.cnt_mpa_in_replies.next = self.start_rx.cnt_mpa_in_replies.val();
        self.cnt_mpa_malformed.next = self.start_rx.cnt_mpa_malformed.val();
        self.cnt_mpa_timeouts.next = self.conn.cnt_mpa_timeouts.val();
        self.cnt_mpa_rejects_in.next = self.conn.cnt_mpa_rejects_in.val();
        self.cnt_mpa_rejects_out.next = self.conn.cnt_mpa_rejects_out.val();
        self.cnt_mpa_non_peer_rejects.next = self.conn.cnt_mpa_non_peer_rejects.val();
        self.cnt_mpa_retries.next = self.conn.cnt_mpa_retries.val();
        self.cnt_conn_created.next = self.conn.cnt_conn_created.val();
        self.cnt_conn_freed.next = self.conn.cnt_conn_freed.val();
        self.cnt_conn_established.next = self.conn.cnt_conn_established.val();
        self.cnt_cmd_done.next = self.conn.cnt_cmd_done.val();
        self.cnt_cmd_errors.next = self.conn.cnt_cmd_errors.val();
        self.cnt_cmd_unknown.next = self.conn.cnt_cmd_unknown.val();
        self.cnt_stale_handles.next = self.conn.cnt_stale_handles.val();
    }
}
