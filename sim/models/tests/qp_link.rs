// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::qp_link`: who hears of an order, what the manager and the host hear, and that nobody is held up.
use ironwarp_abi::{event::asynchronous, EventKind};
use ironwarp_models::{bench, qp_link::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const BIND: u64 = 0;
const CLOSE: u64 = 1;
const STOP: u64 = 2;
const UNBIND: u64 = 3;
const UNBOUND: u64 = 0;
const TORN: u64 = 1;
const DRAINED: u64 = 2;
const HEARD: u64 = 4;
const TERMINATED: u64 = 5;
const FAILED: u64 = 6;

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
    torn: bool,
    terminate: u8,
    /// `rdma::qps` does not answer yet.
    hold_bound: bool,
    hold_evt: bool,
    hold_news: bool,
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
            torn: false,
            terminate: 0,
            hold_bound: false,
            hold_evt: false,
            hold_news: false,
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
        m.news_ready.set(!self.hold_news);
        m.evt_ready.set(!self.hold_evt);
        // `rdma::qps` takes it together with its answer
        let answers = self.looked > 5 && !self.hold_bound;
        m.bound_valid.set(answers);
        m.bind_ready.set(answers);
        m.bound_data_refused.set(self.refuse.into());
        m.bound_data_torn.set(self.torn.into());
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
        if m.news_valid.get() && m.news_ready.get() {
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
    // a stream that ended in the middle of an FPDU; what comes with the answer to a Bind means nothing
    b.torn = true;
    b.order(BIND, 31, 7);
    assert_eq!(b.news(), []);
    b.order(UNBIND, 31, 7);
    assert_eq!(b.news(), [(TORN, 31)]);
    b.order(UNBIND, 31, 7);
    assert_eq!(b.news(), [(UNBOUND, 31)]);
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

/// Longer queues than a life of all indices makes: what has no room waits, nothing is lost or changes places.
#[test]
fn queues_that_are_full_lose_nothing() {
    let mut b = Bench::new();
    for index in 0..32 {
        b.order(BIND, index, index.into());
    }
    b.hold_evt = true;
    for n in 0..140 {
        b.of_rx.push_back((2, n % 32, 0, 0, n as u8));
    }
    for _ in 0..6 {
        b.settle();
    }
    assert!(!b.of_rx.is_empty() && b.events.is_empty());
    b.hold_evt = false;
    for _ in 0..6 {
        b.settle();
    }
    let wanted: Vec<_> = (0..140).map(|n| (asynchronous::TERMINATE_SENT | u32::from(n % 32), n)).collect();
    assert_eq!(b.events, wanted);
    b.hold_news = true;
    for n in 0..270 {
        b.of_sq.push_back((1 + u64::from(n / 32 % 2), n % 32));
    }
    for _ in 0..10 {
        b.settle();
    }
    assert!(!b.of_sq.is_empty() && b.news.is_empty());
    b.hold_news = false;
    for _ in 0..10 {
        b.settle();
    }
    let wanted: Vec<_> = (0..270).map(|n| ([FAILED, TERMINATED][usize::from(n / 32 % 2)], n % 32)).collect();
    assert_eq!(b.news(), wanted);
}

/// Random orders and events of all indices, with everybody slow at times, against the rules.
#[test]
fn random_orders_and_events() {
    let mut rng = ChaCha8Rng::seed_from_u64(bench::seed("qp_link"));
    let mut m = Model::new(rng.random());
    m.reset.set(true);
    // what came before a reset is forgotten, and nothing comes of what stands on the wires in it
    for _ in 0..3 {
        m.heard.set(rng.random());
        m.heard_index.set(rng.random_range(0..32));
        m.tick();
    }
    m.reset.set(false);
    let mut qps: [Option<u32>; 32] = [None; 32];
    let mut order: Option<(u64, u16, u32)> = None;
    let mut of_sq: Option<(u64, u16)> = None;
    let mut of_rx: Option<(u64, u16, u16)> = None;
    let mut refuse = false;
    // `rdma::qps` answers in this clock; it has answered, but the order is not over
    let (mut answers, mut answered) = (false, false);
    let mut heard_wait = [0u32; 32];
    let (mut events, mut news) = (VecDeque::new(), Vec::new());
    let mut flags = 0u32;
    let mut quiet = 0;
    let mut counts = [0; 4];
    let cycles = 60_000;
    for now in 0.. {
        let more = now < cycles;
        if order.is_none() && more && rng.random_bool(0.1) {
            let mut index: u16 = rng.random_range(0..32);
            while of_sq.is_some_and(|event| event.1 == index) || of_rx.is_some_and(|event| event.1 == index) {
                index = rng.random_range(0..32);
            }
            let op = if qps[usize::from(index)].is_none() && rng.random_bool(0.7) { BIND } else { rng.random_range(CLOSE..=UNBIND) };
            order = Some((op, index, rng.random_range(0..1 << 24)));
            refuse = rng.random_bool(0.2);
            flags = rng.random();
        }
        let other = |rng: &mut ChaCha8Rng, order: &Option<(u64, u16, u32)>| {
            let index: u16 = rng.random_range(0..32);
            (qps[usize::from(index)].is_some() && order.is_none_or(|o| o.1 != index)).then_some(index)
        };
        if of_sq.is_none() && more && rng.random_bool(0.06) {
            of_sq = other(&mut rng, &order).map(|index| (rng.random_range(0..4), index));
        }
        if of_rx.is_none() && more && rng.random_bool(0.06) {
            of_rx = other(&mut rng, &order).map(|index| (rng.random_range(0..3), index, rng.random()));
        }
        m.order_valid.set(order.is_some());
        let (op, index, qpn) = order.unwrap_or((rng.random_range(0..4), rng.random_range(0..32), rng.random_range(0..1 << 24)));
        m.order_data_op.set(op);
        m.order_data_index.set(index.into());
        m.order_data_qpn.set(qpn.into());
        m.order_data_ird.set((flags & 0xff).into());
        m.order_data_ord.set((flags >> 8 & 0xff).into());
        m.order_data_crc.set((flags >> 16 & 1).into());
        m.order_data_markers.set((flags >> 17 & 1).into());
        m.order_data_responder.set((flags >> 18 & 1).into());
        m.order_data_rtr_write.set((flags >> 19 & 1).into());
        m.order_data_rtr_read.set((flags >> 20 & 1).into());
        let terminate = if flags >> 21 & 1 == 1 { u64::from(flags >> 22 & 0xff) } else { 0 };
        m.order_data_terminate.set(terminate);
        m.of_sq_valid.set(of_sq.is_some());
        let (note, index) = of_sq.unwrap_or((rng.random_range(0..4), rng.random_range(0..32)));
        m.of_sq_data_note.set(note);
        m.of_sq_data_index.set(index.into());
        m.of_rx_valid.set(of_rx.is_some());
        let (kind, index, octets) = of_rx.unwrap_or((rng.random_range(0..3), rng.random_range(0..32), rng.random()));
        m.of_rx_data_kind.set(kind);
        m.of_rx_data_index.set(index.into());
        m.of_rx_data_layer.set((octets >> 12).into());
        m.of_rx_data_etype.set((octets >> 8 & 0xf).into());
        m.of_rx_data_code.set((octets & 0xff).into());
        let first = (more && rng.random_bool(0.03)).then(|| rng.random_range(0..32u16));
        // the manager knows of the one before
        let first = first.filter(|index| heard_wait[usize::from(*index)] == 0);
        m.heard.set(first.is_some());
        m.heard_index.set(first.unwrap_or_else(|| rng.random_range(0..32)));
        if let Some(index) = first {
            heard_wait[usize::from(index)] = 1;
        }
        m.news_ready.set(!more || rng.random_bool(0.4));
        m.evt_ready.set(!more || rng.random_bool(0.3));
        m.close_ready.set(rng.random_bool(0.3));
        answers |= m.bind_valid.get() && rng.random_bool(0.2);
        m.bound_valid.set(answers);
        m.bind_ready.set(answers);
        m.bound_data_refused.set(if answers { refuse.into() } else { rng.random_range(0..2) });
        m.bound_data_index.set(rng.random_range(0..32));
        m.eval();
        let taken = order.filter(|_| m.order_ready.get());
        if m.bind_valid.get() {
            let (op, index, qpn) = order.expect("an order");
            assert!(op == BIND || op == UNBIND && qps[usize::from(index)].is_some(), "{op} {index}");
            if answers {
                assert!(m.bound_ready.get());
                counts[0] += 1;
                let got =
                    [m.bind_data_op.get(), m.bind_data_index.get(), m.bind_data_qpn.get(), m.bind_data_ird.get(), m.bind_data_ord.get()];
                assert_eq!(got, [u64::from(op == UNBIND), index.into(), qpn.into(), (flags & 0xff).into(), (flags >> 8 & 0xff).into()]);
                let bits = [&m.bind_data_crc, &m.bind_data_markers, &m.bind_data_responder, &m.bind_data_rtr_write, &m.bind_data_rtr_read];
                assert_eq!(bits.map(|bit| bit.get()), [16, 17, 18, 19, 20].map(|n| u64::from(flags >> n & 1)));
                assert_eq!(m.bind_data_terminate.get(), terminate);
                (answers, answered) = (false, true);
                if op == BIND && !refuse {
                    assert!(taken.is_some(), "nobody waits for more");
                    qps[usize::from(index)] = Some(qpn);
                } else if op == UNBIND {
                    qps[usize::from(index)] = None;
                    news.push((UNBOUND, index));
                } else {
                    news.push((if terminate == 0 { HEARD } else { FAILED }, index));
                }
            }
        } else if m.close_valid.get() {
            let (op, index, _) = order.expect("an order");
            assert!((op == CLOSE || op == STOP) && qps[usize::from(index)].is_some() && m.close_data.get() == index);
            assert_eq!(taken.is_some(), m.close_ready.get());
            counts[1] += u32::from(m.close_ready.get());
        } else if let Some((op, index, _)) = taken {
            if op == CLOSE || op == STOP {
                assert!(qps[usize::from(index)].is_none(), "one with a queue pair goes to the send queue");
                news.push((DRAINED, index));
            } else if op == UNBIND && !answered {
                assert!(qps[usize::from(index)].is_none());
                news.push((UNBOUND, index));
            }
        }
        if taken.is_some() {
            (order, answered) = (None, false);
        }
        assert!(!(m.of_sq_ready.get() && m.of_rx_ready.get() && of_sq.is_some() && of_rx.is_some()), "one after the other");
        let at = |qps: &[Option<u32>; 32], index: u16| qps[usize::from(index)].expect("bound") & 0xffff;
        if let Some((note, index)) = of_sq.filter(|_| m.of_sq_ready.get()) {
            of_sq = None;
            match note {
                0 => events.push_back((asynchronous::LOCAL_ERROR | at(&qps, index), 0)),
                1 => news.push((FAILED, index)),
                2 => news.push((TERMINATED, index)),
                _ => news.push((DRAINED, index)),
            }
        } else if let Some((kind, index, octets)) = of_rx.filter(|_| m.of_rx_ready.get()) {
            of_rx = None;
            let codes = [asynchronous::TERMINATE_RECEIVED, asynchronous::TERMINATE_MALFORMED, asynchronous::TERMINATE_SENT];
            events.push_back((codes[kind as usize] | at(&qps, index), octets));
            if kind < 2 {
                news.push((TERMINATED, index));
            }
        }
        if m.news_valid.get() && m.news_ready.get() {
            counts[2] += 1;
            let got = (m.news_data_note.get(), m.news_data_index.get() as u16);
            if let Some(place) = news.iter().position(|n| *n == got) {
                news.remove(place);
            } else {
                assert_eq!((got.0, heard_wait[usize::from(got.1)] > 0), (HEARD, true), "clock {now}: {got:?}");
                heard_wait[usize::from(got.1)] = 0;
            }
        }
        if m.evt_valid.get() && m.evt_ready.get() {
            counts[3] += 1;
            let got = (m.evt_data_detail.get() as u32, m.evt_data_own_ird.get() as u16);
            assert_eq!((m.evt_data_kind.get(), Some(got)), (EventKind::Async as u64, events.pop_front()), "clock {now}");
        }
        m.tick();
        quiet =
            if m.news_valid.get() || m.evt_valid.get() || order.is_some() || of_sq.is_some() || of_rx.is_some() { 0 } else { quiet + 1 };
        if quiet > 100 && !more {
            break;
        }
        assert!(now < 2 * cycles, "it ends");
    }
    println!("{counts:?}");
    assert!(news.is_empty() && events.is_empty() && heard_wait == [0; 32], "{news:?} {events:?} {heard_wait:?}");
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
}
