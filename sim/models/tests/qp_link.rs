// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::qp_link`: who hears of an order, what the manager and the host hear, and that nobody is held up.
use ironwarp_abi::{event::asynchronous, EventKind};
use ironwarp_models::{qp_link::Model, Dut};
use std::collections::VecDeque;

const BIND: u64 = 0;
const CLOSE: u64 = 1;
const STOP: u64 = 2;
const UNBIND: u64 = 3;
const UNBOUND: u64 = 0;
const DRAINED: u64 = 1;
const HEARD: u64 = 3;
const TERMINATED: u64 = 4;
const FAILED: u64 = 5;

struct Bench {
    m: Model,
    /// Op, index, QPN.
    orders: VecDeque<(u64, u16, u32)>,
    /// Note, index.
    of_sq: VecDeque<(u64, u16)>,
    /// Kind, index, layer, type, code.
    of_rx: VecDeque<(u64, u16, u8, u8, u8)>,
    heard: Option<u16>,
    refuse: bool,
    terminate: u8,
    /// `rdma::qps` does not answer yet.
    hold_bound: bool,
    hold_evt: bool,
    /// Clocks that the order on `bind` is looked at.
    looked: u32,
    binds: Vec<(u64, u16, u32)>,
    closes: Vec<u16>,
    news: Vec<(u64, u16)>,
    /// Detail, Terminate.
    events: Vec<(u32, u16)>,
}

impl Bench {
    fn new() -> Self {
        let mut b = Bench {
            m: Model::new(1),
            orders: VecDeque::new(),
            of_sq: VecDeque::new(),
            of_rx: VecDeque::new(),
            heard: None,
            refuse: false,
            terminate: 0,
            hold_bound: false,
            hold_evt: false,
            looked: 0,
            binds: vec![],
            closes: vec![],
            news: vec![],
            events: vec![],
        };
        b.m.reset.set(true);
        for _ in 0..3 {
            b.m.tick();
        }
        b.m.reset.set(false);
        b
    }
    fn clock(&mut self) {
        let m = &mut self.m;
        m.order_valid.set(!self.orders.is_empty());
        if let Some((op, index, qpn)) = self.orders.front() {
            m.order_data_op.set(*op);
            m.order_data_index.set((*index).into());
            m.order_data_qpn.set((*qpn).into());
            m.order_data_ird.set(0x1203);
            m.order_data_ord.set(0x3407);
            m.order_data_crc.set(1);
            m.order_data_rtr_read.set(1);
            m.order_data_terminate.set(self.terminate.into());
        }
        m.of_sq_valid.set(!self.of_sq.is_empty());
        if let Some((note, index)) = self.of_sq.front() {
            m.of_sq_data_note.set(*note);
            m.of_sq_data_index.set((*index).into());
        }
        m.of_rx_valid.set(!self.of_rx.is_empty());
        if let Some((kind, index, layer, etype, code)) = self.of_rx.front() {
            m.of_rx_data_kind.set(*kind);
            m.of_rx_data_index.set((*index).into());
            m.of_rx_data_layer.set((*layer).into());
            m.of_rx_data_etype.set((*etype).into());
            m.of_rx_data_code.set((*code).into());
        }
        let heard = self.heard.take();
        m.heard.set(heard.is_some());
        m.heard_index.set(heard.unwrap_or(0));
        m.close_ready.set(true);
        m.news_ready.set(true);
        m.evt_ready.set(!self.hold_evt);
        // `rdma::qps` takes it together with its answer
        let answers = self.looked > 5 && !self.hold_bound;
        m.bound_valid.set(answers);
        m.bind_ready.set(answers);
        m.bound_data_refused.set(self.refuse.into());
        m.eval();
        if m.order_valid.get() && m.order_ready.get() {
            self.orders.pop_front();
        }
        if m.of_sq_valid.get() && m.of_sq_ready.get() {
            self.of_sq.pop_front();
        }
        if m.of_rx_valid.get() && m.of_rx_ready.get() {
            self.of_rx.pop_front();
        }
        self.looked = if m.bind_valid.get() && !answers { self.looked + 1 } else { 0 };
        if m.bind_valid.get() && answers {
            assert!(m.bound_ready.get());
            assert_eq!((m.bind_data_ird.get(), m.bind_data_ord.get()), (3, 7));
            assert_eq!(m.bind_data_terminate.get(), u64::from(self.terminate));
            assert!(m.bind_data_crc.bit() && !m.bind_data_markers.bit() && m.bind_data_rtr_read.bit() && !m.bind_data_rtr_write.bit());
            self.binds.push((m.bind_data_op.get(), m.bind_data_index.get() as u16, m.bind_data_qpn.get() as u32));
        }
        if m.close_valid.get() {
            self.closes.push(m.close_data.get());
        }
        if m.news_valid.get() {
            self.news.push((m.news_data_note.get(), m.news_data_index.get() as u16));
        }
        if m.evt_valid.get() && m.evt_ready.get() {
            assert_eq!(m.evt_data_kind.get(), EventKind::Async as u64);
            self.events.push((m.evt_data_detail.get() as u32, m.evt_data_own_ird.get() as u16));
        }
        m.tick();
    }
    fn settle(&mut self) {
        for _ in 0..120 {
            self.clock();
        }
    }
    fn order(&mut self, op: u64, index: u16, qpn: u32) {
        self.orders.push_back((op, index, qpn));
        self.settle();
    }
    fn news(&mut self) -> Vec<(u64, u16)> {
        std::mem::take(&mut self.news)
    }
}

#[test]
fn an_index_without_a_queue_pair_is_answered_at_once() {
    let mut b = Bench::new();
    for op in [CLOSE, STOP] {
        b.order(op, 5, 0);
        assert_eq!(b.news(), [(DRAINED, 5)]);
    }
    b.order(UNBIND, 5, 0);
    assert_eq!(b.news(), [(UNBOUND, 5)]);
    assert!(b.binds.is_empty() && b.closes.is_empty());
    // one that was refused is as none
    b.refuse = true;
    b.order(BIND, 5, 9);
    assert_eq!(b.news(), [(HEARD, 5)]);
    assert_eq!(b.binds, [(0, 5, 9)]);
    b.order(CLOSE, 5, 0);
    assert_eq!(b.news(), [(DRAINED, 5)]);
    // but whoever was to say a Terminate there must know
    b.terminate = 0x87;
    b.order(BIND, 5, 9);
    assert_eq!(b.news(), [(FAILED, 5)]);
    b.order(UNBIND, 5, 9);
    assert_eq!(b.news(), [(UNBOUND, 5)]);
    assert_eq!(b.binds.len(), 2, "none was bound");
}

#[test]
fn a_bound_index_goes_its_way() {
    let mut b = Bench::new();
    b.order(BIND, 31, 0x00ab_cdef);
    assert_eq!(b.binds, [(0, 31, 0x00ab_cdef)]);
    for op in [CLOSE, STOP] {
        b.order(op, 31, 0);
        assert_eq!(b.news(), [], "the send queue answers");
    }
    assert_eq!(b.closes, [31, 31]);
    b.of_sq.push_back((3, 31));
    b.settle();
    assert_eq!(b.news(), [(DRAINED, 31)]);
    b.hold_bound = true;
    b.order(UNBIND, 31, 0);
    assert_eq!(b.news(), []);
    // what the engines have to say meanwhile is taken
    b.of_sq.push_back((2, 31));
    b.of_rx.push_back((0, 31, 1, 2, 3));
    b.settle();
    assert!(b.of_sq.is_empty() && b.of_rx.is_empty());
    b.hold_bound = false;
    b.settle();
    assert_eq!(b.news(), [(TERMINATED, 31), (TERMINATED, 31), (UNBOUND, 31)]);
    b.order(UNBIND, 31, 0);
    assert_eq!(b.news(), [(UNBOUND, 31)]);
    assert_eq!(b.binds.len(), 2, "nothing is bound any more");
}

#[test]
fn the_host_hears_of_terminates_with_the_queue_pair() {
    let mut b = Bench::new();
    for (index, qpn) in [(3, 0x11), (4, 0x22)] {
        b.order(BIND, index, qpn);
    }
    for (sq, rx, news, event) in [
        (Some((0, 3)), None, vec![], vec![(asynchronous::LOCAL_ERROR | 0x11, 0)]),
        (Some((1, 4)), None, vec![(FAILED, 4)], vec![]),
        (Some((2, 4)), None, vec![(TERMINATED, 4)], vec![]),
        (None, Some((0, 4, 1, 2, 0x34)), vec![(TERMINATED, 4)], vec![(asynchronous::TERMINATE_RECEIVED | 0x22, 0x1234)]),
        (None, Some((1, 3, 15, 14, 0xdc)), vec![(TERMINATED, 3)], vec![(asynchronous::TERMINATE_MALFORMED | 0x11, 0xfedc)]),
        (None, Some((2, 3, 0, 1, 0x09)), vec![], vec![(asynchronous::TERMINATE_SENT | 0x11, 0x0109)]),
    ] {
        b.of_sq.extend(sq);
        b.of_rx.extend(rx);
        b.settle();
        assert_eq!((b.news(), std::mem::take(&mut b.events)), (news, event), "{sq:?} {rx:?}");
    }
}

/// Covers: CM-44
#[test]
fn a_host_that_makes_no_room_holds_nobody_up() {
    let mut b = Bench::new();
    b.hold_evt = true;
    for index in 0..32 {
        b.order(BIND, index, u32::from(index) + 1);
        b.of_sq.push_back((0, index));
        b.of_rx.push_back((0, index, 0, 0, index as u8));
    }
    b.settle();
    assert!(b.of_sq.is_empty() && b.of_rx.is_empty());
    assert_eq!(b.news().len(), 32);
    b.hold_evt = false;
    b.settle();
    let mut told: Vec<_> = b.events.iter().map(|(detail, _)| detail & 0xffff).collect();
    told.sort_unstable();
    assert_eq!(told, (1..=32).flat_map(|qpn| [qpn, qpn]).collect::<Vec<_>>());
}

#[test]
fn first_fpdus_are_told_however_close_they_come() {
    let mut b = Bench::new();
    for index in [7, 0, 31] {
        b.heard = Some(index);
        b.clock();
    }
    b.settle();
    let mut news = b.news();
    news.sort_unstable();
    assert_eq!(news, [(HEARD, 0), (HEARD, 7), (HEARD, 31)]);
}
