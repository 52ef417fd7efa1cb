// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between the connection manager and the data path: orders go to those whom they concern, what comes of them goes back, and the host hears of Terminates.
//!
//! **Interface.** `order` from `cm::conn`, `news` to it. `bind`, `bound`: `rdma::qps`, which answers each. `close`: index whose send queue shall become empty, to `rdma::sq`. `of_sq`, `of_rx`: what
//! happens to streams. `heard`, `heard_index`: for one clock, the first FPDU of a connection came. `evt`: ASYNC, see `ironwarp_abi::event::asynchronous`; its first word of numbers is the
//! queue pair, and where a Terminate is told, its two first octets stand in the place of the own IRD.
//!
//! **Rules.** An index without a queue pair (CONNECT or ACCEPT named none that is free) is answered here: at once `Heard` to `Bind`, as nobody would see an RTR, or `Failed` if it was bound for a Terminate, `Drained` to `Close` and `Stop`, `Unbound` to `Unbind`. `Stop` is carried out as
//! `Close`: what the peer does not acknowledge any more ends by the manager's deadline.
//!
//! **Waiting.** Neither the manager nor the host holds anything up here: `news` and `evt` have queues with room for all that an index can say in its life (at most 6 news, 2 events; the manager frees an
//! index only after it has read `Unbound`, and the host's FREED is behind its events). `order` waits for `rdma::qps`, whose answer to `Unbind` may need `of_sq` and `of_rx` to be taken:
//! orders and events are two engines.
//!
//! **States.** Orders: `Idle`, `Bind`, `Close`, `Tell`. Events: `Idle`, `Read`, `Raise`, `Tell`.
//! **Timing.** An order 3 clocks and the others' time, an event 3 or 4. **Memory.** News 2^(C+3) x 19, events 2^(C+2) x 34, QPNs 2^C x 16; two flip-flops an index. `Cn` = C + n, `CN` = 2^C.
use super::messages::{kind, EventOut};
use crate::rdma::types::*;
use crate::stream::{ChanFifo, ChanMerge2, ChanSink, ChanSrc};
use ironwarp_abi::{event::asynchronous, EventKind};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum LinkOrderState {
    Idle,
    Bind,
    Close,
    Tell,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum LinkEventState {
    Idle,
    Read,
    Raise,
    Tell,
}

/// An ASYNC that waits for the host's ring.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LinkAsync {
    pub what: Bits<2>,
    pub qpn: Bits<16>,
    /// Octets 0 and 1 of a Terminate, the first in 15:8.
    pub terminate: Bits<16>,
}

#[derive(LogicBlock)]
pub struct QpLink<const C: usize, const C2: usize, const C3: usize, const C4: usize, const CN: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub order: ChanSink<QpOrder>,
    pub news: ChanSrc<QpNews>,
    pub bind: ChanSrc<QpBindIn>,
    pub bound: ChanSink<QpBound>,
    pub close: ChanSrc<Bits<16>>,
    pub of_sq: ChanSink<SqAsync>,
    pub of_rx: ChanSink<RxAsync>,
    pub heard: Signal<In, Bit>,
    pub heard_index: Signal<In, Bits<16>>,
    pub evt: ChanSrc<EventOut>,
    merge: ChanMerge2<QpNews>,
    queue: ChanFifo<QpNews, C3, C4>,
    events: ChanFifo<LinkAsync, C2, C3>,
    qpns: RAM<Bits<16>, C>,
    /// Has a queue pair.
    live: DFF<Bits<CN>>,
    /// Its first FPDU came, and the manager does not know yet.
    fresh: DFF<Bits<CN>>,
    // orders
    state: DFF<LinkOrderState>,
    answer: DFF<QpNote>,
    // events
    event_state: DFF<LinkEventState>,
    index: DFF<Bits<16>>,
    note: DFF<QpNote>,
    /// An event is to be raised / news are to be told.
    raise: DFF<Bit>,
    tell: DFF<Bit>,
    what: DFF<Bits<2>>,
    terminate: DFF<Bits<16>>,
    scan: DFF<Bits<C>>,
    // combinational
    asked: Signal<Local, QpOrder>,
    asked_index: Signal<Local, Bits<16>>,
    asked_qpn: Signal<Local, Bits<24>>,
    ird: Signal<Local, Bits<16>>,
    ord: Signal<Local, Bits<16>>,
    place: Signal<Local, Bits<C>>,
    has: Signal<Local, Bit>,
    live_next: Signal<Local, Bits<CN>>,
    fresh_next: Signal<Local, Bits<CN>>,
    sq_event: Signal<Local, SqAsync>,
    sq_note: Signal<Local, SqAsyncNote>,
    rx_event: Signal<Local, RxAsync>,
    rx_kind: Signal<Local, RxAsyncKind>,
    fresh_place: Signal<Local, Bits<C>>,
    qpn_place: Signal<Local, Bits<16>>,
    waiting: Signal<Local, LinkAsync>,
    message: Signal<Local, EventOut>,
    kind_async: Constant<Bits<8>>,
    codes: [Constant<Bits<32>>; 4],
}

impl<const C: usize, const C2: usize, const C3: usize, const C4: usize, const CN: usize> Default for QpLink<C, C2, C3, C4, CN> {
    fn default() -> Self {
        assert_eq!((C + 2, C + 3, C + 4, 1 << C), (C2, C3, C4, CN));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            order: Default::default(),
            news: Default::default(),
            bind: Default::default(),
            bound: Default::default(),
            close: Default::default(),
            of_sq: Default::default(),
            of_rx: Default::default(),
            heard: Default::default(),
            heard_index: Default::default(),
            evt: Default::default(),
            merge: Default::default(),
            queue: Default::default(),
            events: Default::default(),
            qpns: Default::default(),
            live: Default::default(),
            fresh: Default::default(),
            state: Default::default(),
            answer: Default::default(),
            event_state: Default::default(),
            index: Default::default(),
            note: Default::default(),
            raise: Default::default(),
            tell: Default::default(),
            what: Default::default(),
            terminate: Default::default(),
            scan: Default::default(),
            asked: Default::default(),
            asked_index: Default::default(),
            asked_qpn: Default::default(),
            ird: Default::default(),
            ord: Default::default(),
            place: Default::default(),
            has: Default::default(),
            live_next: Default::default(),
            fresh_next: Default::default(),
            sq_event: Default::default(),
            sq_note: Default::default(),
            rx_event: Default::default(),
            rx_kind: Default::default(),
            fresh_place: Default::default(),
            qpn_place: Default::default(),
            waiting: Default::default(),
            message: Default::default(),
            kind_async: kind(EventKind::Async),
            codes: [
                asynchronous::LOCAL_ERROR,
                asynchronous::TERMINATE_RECEIVED,
                asynchronous::TERMINATE_MALFORMED,
                asynchronous::TERMINATE_SENT,
            ]
            .map(|code| Constant::new(u64::from(code).to_bits())),
        }
    }
}

impl<const C: usize, const C2: usize, const C3: usize, const C4: usize, const CN: usize> Logic for QpLink<C, C2, C3, C4, CN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, live, fresh, state, answer, event_state, index, note, raise, tell, what, terminate, scan);
        clock!(self, clock, merge, queue, events);
        self.merge.reset.next = self.reset.val();
        self.queue.reset.next = self.reset.val();
        self.events.reset.next = self.reset.val();
        self.qpns.read_clock.next = self.clock.val();
        self.qpns.write_clock.next = self.clock.val();
        ChanSrc::<QpNews>::join(&mut self.merge.out, &mut self.queue.inp);
        ChanSrc::<QpNews>::link(&mut self.news, &mut self.queue.out);

        // orders
        self.asked.next = self.order.data.val();
        self.asked_index.next = self.asked.val().index;
        self.asked_qpn.next = self.asked.val().qpn;
        self.ird.next = self.asked.val().ird;
        self.ord.next = self.asked.val().ord;
        self.place.next = self.asked_index.val().get_bits::<C>(0);
        self.has.next = self.live.q.val().get_bit(self.place.val().index());
        self.live_next.next = self.live.q.val();
        self.qpns.write_address.next = self.place.val();
        self.qpns.write_data.next = self.asked_qpn.val().get_bits::<16>(0);
        self.qpns.write_enable.next = false;
        self.order.ready.next = false;
        self.bind.valid.next = false;
        self.bind.data.next.op = BindOp::Bind;
        if self.asked.val().op == QpOp::Unbind {
            self.bind.data.next.op = BindOp::Unbind;
        }
        self.bind.data.next.index = self.asked_index.val();
        self.bind.data.next.qpn = self.asked_qpn.val();
        self.bind.data.next.crc = self.asked.val().crc;
        self.bind.data.next.markers = self.asked.val().markers;
        self.bind.data.next.responder = self.asked.val().responder;
        self.bind.data.next.ird = self.ird.val().get_bits::<8>(0);
        self.bind.data.next.ord = self.ord.val().get_bits::<8>(0);
        self.bind.data.next.rtr_write = self.asked.val().rtr_write;
        self.bind.data.next.rtr_read = self.asked.val().rtr_read;
        self.bind.data.next.terminate = self.asked.val().terminate;
        self.bound.ready.next = self.state.q.val() == LinkOrderState::Bind;
        self.close.valid.next = false;
        self.close.data.next = self.asked_index.val();
        self.merge.a.valid.next = false;
        self.merge.a.data.next.note = self.answer.q.val();
        self.merge.a.data.next.index = self.asked_index.val();
        match self.state.q.val() {
            LinkOrderState::Idle => {
                if self.order.valid.val() {
                    if self.asked.val().op == QpOp::Bind {
                        self.qpns.write_enable.next = true;
                        self.state.d.next = LinkOrderState::Bind;
                    } else if self.asked.val().op == QpOp::Unbind {
                        self.answer.d.next = QpNote::Unbound;
                        self.state.d.next = LinkOrderState::Tell;
                        if self.has.val() {
                            self.state.d.next = LinkOrderState::Bind;
                        }
                    } else {
                        self.answer.d.next = QpNote::Drained;
                        self.state.d.next = LinkOrderState::Tell;
                        if self.has.val() {
                            self.state.d.next = LinkOrderState::Close;
                        }
                    }
                }
            }
            LinkOrderState::Bind => {
                // it is taken together with its answer
                self.bind.valid.next = true;
                if self.bound.valid.val() {
                    if self.asked.val().op == QpOp::Bind {
                        // nobody will see an RTR, nor send a Terminate
                        self.answer.d.next = QpNote::Heard;
                        if self.asked.val().terminate.any() {
                            self.answer.d.next = QpNote::Failed;
                        }
                        self.state.d.next = LinkOrderState::Tell;
                        if !self.bound.data.val().refused {
                            self.live_next.next = self.live.q.val().replace_bit(self.place.val().index(), true);
                            self.order.ready.next = true;
                            self.state.d.next = LinkOrderState::Idle;
                        }
                    } else {
                        if self.bound.data.val().torn {
                            self.answer.d.next = QpNote::Torn;
                        }
                        self.live_next.next = self.live.q.val().replace_bit(self.place.val().index(), false);
                        self.state.d.next = LinkOrderState::Tell;
                    }
                }
            }
            LinkOrderState::Close => {
                self.close.valid.next = true;
                if self.close.ready.val() {
                    self.order.ready.next = true;
                    self.state.d.next = LinkOrderState::Idle;
                }
            }
            LinkOrderState::Tell => {
                self.merge.a.valid.next = true;
                if self.merge.a.ready.val() {
                    self.order.ready.next = true;
                    self.state.d.next = LinkOrderState::Idle;
                }
            }
            _ => {
                self.state.d.next = LinkOrderState::Idle;
            }
        }
        self.live.d.next = self.live_next.val();

        // events
        self.sq_event.next = self.of_sq.data.val();
        self.sq_note.next = self.sq_event.val().note;
        self.rx_event.next = self.of_rx.data.val();
        self.rx_kind.next = self.rx_event.val().kind;
        self.of_sq.ready.next = false;
        self.of_rx.ready.next = false;
        self.fresh_next.next = self.fresh.q.val();
        self.fresh_place.next = self.heard_index.val().get_bits::<C>(0);
        if self.heard.val() {
            self.fresh_next.next = self.fresh.q.val().replace_bit(self.fresh_place.val().index(), true);
        }
        self.qpn_place.next = self.index.q.val();
        self.qpns.read_address.next = self.qpn_place.val().get_bits::<C>(0);
        self.merge.b.valid.next = false;
        self.merge.b.data.next.note = self.note.q.val();
        self.merge.b.data.next.index = self.index.q.val();
        self.events.inp.valid.next = false;
        self.events.inp.data.next.what = self.what.q.val();
        self.events.inp.data.next.qpn = self.qpns.read_data.val();
        self.events.inp.data.next.terminate = self.terminate.q.val();
        match self.event_state.q.val() {
            LinkEventState::Idle => {
                self.raise.d.next = false;
                self.tell.d.next = false;
                self.terminate.d.next = 0.into();
                if self.of_sq.valid.val() {
                    self.of_sq.ready.next = true;
                    self.index.d.next = self.sq_event.val().index;
                    self.event_state.d.next = LinkEventState::Read;
                    self.tell.d.next = true;
                    match self.sq_note.val() {
                        SqAsyncNote::LocalError => {
                            self.raise.d.next = true;
                            self.what.d.next = 0.into();
                            self.tell.d.next = false;
                        }
                        SqAsyncNote::SourceLost => {
                            self.note.d.next = QpNote::Failed;
                        }
                        SqAsyncNote::Terminated => {
                            self.note.d.next = QpNote::Terminated;
                        }
                        _ => {
                            self.note.d.next = QpNote::Drained;
                        }
                    }
                } else if self.of_rx.valid.val() {
                    self.of_rx.ready.next = true;
                    self.index.d.next = self.rx_event.val().index;
                    self.event_state.d.next = LinkEventState::Read;
                    self.raise.d.next = true;
                    self.note.d.next = QpNote::Terminated;
                    self.terminate.d.next = (bit_cast::<16, 4>(self.rx_event.val().layer) << 12)
                        | (bit_cast::<16, 4>(self.rx_event.val().etype) << 8)
                        | bit_cast::<16, 8>(self.rx_event.val().code);
                    match self.rx_kind.val() {
                        RxAsyncKind::Terminated => {
                            self.what.d.next = 1.into();
                            self.tell.d.next = true;
                        }
                        RxAsyncKind::Malformed => {
                            self.what.d.next = 2.into();
                            self.tell.d.next = true;
                        }
                        _ => {
                            // what follows comes from the send queue, when the Terminate is acknowledged
                            self.what.d.next = 3.into();
                        }
                    }
                } else if self.fresh.q.val().any() {
                    self.scan.d.next = self.scan.q.val() + 1;
                    if self.fresh.q.val().get_bit(self.scan.q.val().index()) {
                        self.fresh_next.next = self.fresh_next.val().replace_bit(self.scan.q.val().index(), false);
                        self.index.d.next = bit_cast::<16, C>(self.scan.q.val());
                        self.note.d.next = QpNote::Heard;
                        self.tell.d.next = true;
                        self.event_state.d.next = LinkEventState::Read;
                    }
                }
            }
            LinkEventState::Read => {
                self.event_state.d.next = LinkEventState::Tell;
                if self.raise.q.val() {
                    self.event_state.d.next = LinkEventState::Raise;
                }
            }
            LinkEventState::Raise => {
                self.events.inp.valid.next = true;
                if self.events.inp.ready.val() {
                    self.event_state.d.next = LinkEventState::Idle;
                    if self.tell.q.val() {
                        self.event_state.d.next = LinkEventState::Tell;
                    }
                }
            }
            LinkEventState::Tell => {
                self.merge.b.valid.next = true;
                if self.merge.b.ready.val() {
                    self.event_state.d.next = LinkEventState::Idle;
                }
            }
            _ => {
                self.event_state.d.next = LinkEventState::Idle;
            }
        }
        self.fresh.d.next = self.fresh_next.val();

        // to the host
        self.waiting.next = self.events.out.data.val();
        self.message.next.kind = self.kind_async.val();
        self.message.next.flags = 0.into();
        self.message.next.status = 0.into();
        self.message.next.context = 0.into();
        self.message.next.detail = bit_cast::<32, 16>(self.waiting.val().qpn);
        for i in 0..4 {
            if self.waiting.val().what.index() == i {
                self.message.next.detail = self.codes[i].val() | bit_cast::<32, 16>(self.waiting.val().qpn);
            }
        }
        self.message.next.index = 0.into();
        self.message.next.handle_kind = 0.into();
        self.message.next.generation = 0.into();
        self.message.next.local_addr = 0.into();
        self.message.next.local_port = 0.into();
        self.message.next.remote_port = 0.into();
        self.message.next.remote_addr = 0.into();
        self.message.next.own_ird = self.waiting.val().terminate;
        self.message.next.own_ord = 0.into();
        self.message.next.peer_ird = 0.into();
        self.message.next.peer_ord = 0.into();
        self.message.next.data_len = 0.into();
        self.message.next.listener_index = 0.into();
        self.message.next.listener_generation = 0.into();
        self.evt.data.next = self.message.val();
        self.evt.valid.next = self.events.out.valid.val();
        self.events.out.ready.next = self.evt.ready.val();

        if self.reset.val() {
            self.state.d.next = LinkOrderState::Idle;
            self.event_state.d.next = LinkEventState::Idle;
            self.live.d.next = 0.into();
            self.fresh.d.next = 0.into();
        }
    }
}
