// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::completions` in front of rings in host memory, which drivers read by phase bit, arm and sleep on.
use ironwarp_abi::event::asynchronous::CQ_ERROR;
use ironwarp_abi::work::{arm, cq_head, Completion, COMPLETION_OCTETS};
use ironwarp_abi::{Command, EventKind, Status};
use ironwarp_models::bench::{self, Memory, WriteHost};
use ironwarp_models::{rdma_completions_small::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Queues of the model.
const QUEUES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Reply { context: u32, status: i32 },
    Wake(u16),
    Lost(u16),
}

/// A ring as its owner sees it.
#[derive(Clone, Default)]
struct Ring {
    base: u64,
    log2: u16,
    consumer: u16,
    /// Completions that were given to the block and not read yet.
    owed: VecDeque<Completion>,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    now: u64,
    /// No test takes longer.
    limit: u64,
    memory: Memory,
    host: WriteHost,
    rings: Vec<Ring>,
    /// What is offered by rx and sq, and what waits to be.
    offers: [Option<(u16, Completion)>; 2],
    inputs: [VecDeque<(u16, Completion)>; 2],
    taken: u64,
    command: Option<Command>,
    doorbell: Option<u32>,
    evt_ready: f64,
    events: Vec<Event>,
    standing: Option<Event>,
    written: u64,
    lost: u64,
    doorbell_errors: u64,
    done: u64,
    errors: u64,
}

impl Bench {
    fn new(host: WriteHost) -> Self {
        let seed = bench::seed("rdma_completions");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            limit: 2_000_000,
            memory: Memory::default(),
            host,
            rings: vec![Ring::default(); QUEUES],
            offers: [None; 2],
            inputs: Default::default(),
            taken: 0,
            command: None,
            doorbell: None,
            evt_ready: 1.0,
            events: vec![],
            standing: None,
            written: 0,
            lost: 0,
            doorbell_errors: 0,
            done: 0,
            errors: 0,
        };
        b.reset();
        b
    }
    fn quick() -> Self {
        Bench::new(WriteHost::new(1..2, 0.0))
    }
    fn reset(&mut self) {
        let m = &mut self.m;
        m.reset.set(true);
        m.from_rx_valid.set(false);
        m.from_sq_valid.set(false);
        m.cmd_valid.set(false);
        m.cq_head.set(false);
        m.done_valid.set(false);
        m.eval();
        m.tick();
        m.reset.set(false);
        m.eval();
        let mut clocks = 0;
        while !m.ready.get() {
            m.tick();
            clocks += 1;
        }
        assert_eq!(clocks, 4 * QUEUES, "ready after four clocks a queue");
        let failing = self.host.failing;
        self.host = WriteHost::new(self.host.latency.clone(), self.host.busy);
        self.host.failing = failing;
        (self.offers, self.inputs, self.command, self.doorbell, self.standing) = ([None; 2], Default::default(), None, None, None);
    }
    fn step(&mut self) {
        assert!(self.now < self.limit, "it comes to an end");
        for i in 0..2 {
            if self.offers[i].is_none() {
                self.offers[i] = self.inputs[i].pop_front();
            }
        }
        let m = &mut self.m;
        macro_rules! drive {
            ($offer:expr, $valid:ident, $cqn:ident, $qpn:ident, $wqe:ident, $op:ident, $status:ident, $len:ident, $stag:ident, $inv:ident, $sol:ident) => {{
                m.$valid.set($offer.is_some());
                if let Some((cqn, c)) = $offer {
                    m.$cqn.set(cqn.into());
                    m.$qpn.set(c.qpn.into());
                    m.$wqe.set(c.wqe.into());
                    m.$op.set(c.opcode.into());
                    m.$status.set(c.status.into());
                    m.$len.set(c.len.into());
                    m.$stag.set(c.stag.into());
                    m.$inv.set(c.invalidated.into());
                    m.$sol.set(c.solicited.into());
                }
            }};
        }
        drive!(
            self.offers[0],
            from_rx_valid,
            from_rx_data_cqn,
            from_rx_data_qpn,
            from_rx_data_wqe,
            from_rx_data_opcode,
            from_rx_data_status,
            from_rx_data_len,
            from_rx_data_stag,
            from_rx_data_invalidated,
            from_rx_data_solicited
        );
        drive!(
            self.offers[1],
            from_sq_valid,
            from_sq_data_cqn,
            from_sq_data_qpn,
            from_sq_data_wqe,
            from_sq_data_opcode,
            from_sq_data_status,
            from_sq_data_len,
            from_sq_data_stag,
            from_sq_data_invalidated,
            from_sq_data_solicited
        );
        m.cmd_valid.set(self.command.is_some());
        if let Some(c) = self.command {
            m.cmd_data_opcode.set(c.opcode.into());
            m.cmd_data_flags.set(c.flags.into());
            m.cmd_data_context.set(c.context.into());
            m.cmd_data_backlog_half_open.set(c.backlog_half_open.into());
            m.cmd_data_qpn.set(c.qpn.into());
            m.cmd_data_data_addr.set(c.data_addr);
        }
        m.cq_head.set(self.doorbell.is_some());
        m.cq_head_value.set(self.doorbell.take().unwrap_or(0xffff_ffff));
        m.evt_ready.set(self.rng.random_bool(self.evt_ready));
        let (req_ready, beat_ready, end) = self.host.offer(&mut self.memory, &mut self.rng);
        m.req_ready.set(req_ready);
        m.beat_ready.set(beat_ready);
        m.done_valid.set(end.is_some());
        m.done_error.set(end.unwrap_or(false));
        m.eval();

        let event = m.evt_valid.get().then(|| {
            let (kind, detail) = (m.evt_data_kind.get() as u8, m.evt_data_detail.get() as u32);
            match EventKind::from_raw(kind) {
                Some(EventKind::CmdReply) => {
                    Event::Reply { context: m.evt_data_context.get() as u32, status: m.evt_data_status.get() as u32 as i32 }
                }
                Some(EventKind::Completion) => Event::Wake(u16::try_from(detail).expect("a CQN")),
                Some(EventKind::Async) => {
                    assert_eq!(detail & 0xffff_0000, CQ_ERROR);
                    Event::Lost(detail as u16)
                }
                _ => panic!("event of kind {kind}"),
            }
        });
        assert!(self.standing.is_none() || self.standing == event, "what is offered stays");
        let evt_taken = m.evt_ready.get();
        self.standing = event.filter(|_| !evt_taken);
        let cmd_taken = m.cmd_ready.get() && m.cmd_valid.get();
        for (i, ready) in [m.from_rx_ready.get(), m.from_sq_ready.get()].into_iter().enumerate() {
            if let (true, Some((cqn, c))) = (ready, self.offers[i]) {
                self.offers[i] = None;
                self.taken += 1;
                if m.cnt_completions.get() {
                    self.rings[usize::from(cqn)].owed.push_back(c);
                } else {
                    assert!(m.cnt_completions_lost.get(), "written or lost");
                }
            }
        }
        self.written += u64::from(m.cnt_completions.get());
        self.lost += u64::from(m.cnt_completions_lost.get());
        self.doorbell_errors += u64::from(m.cnt_doorbell_errors.get());
        self.done += u64::from(m.cnt_cmd_done.get());
        self.errors += u64::from(m.cnt_cmd_errors.get());
        let request = (m.req_valid.get() && req_ready).then(|| (m.req_data_addr.get(), m.req_data_len.get() as u16));
        let beat = (m.beat_valid.get() && beat_ready).then(|| (m.beat_data_data.get(), m.beat_data_last.bit()));
        self.host.step(request, beat, &mut self.rng);
        if let (Some(event), true) = (event, evt_taken) {
            self.events.push(event);
            assert_eq!(cmd_taken, matches!(event, Event::Reply { .. }));
        } else {
            assert!(!cmd_taken);
        }
        if cmd_taken {
            self.command = None;
        }
        self.m.tick();
        self.now += 1;
    }
    fn steps(&mut self, clocks: usize) {
        for _ in 0..clocks {
            self.step();
        }
    }
    fn idle(&self) -> bool {
        self.offers == [None; 2] && self.inputs.iter().all(VecDeque::is_empty) && self.host.outstanding() == 0 && self.command.is_none()
    }
    fn settle(&mut self) {
        let start = self.now;
        while !self.idle() {
            self.step();
            assert!(self.now < start + 20_000, "it comes to an end");
        }
        self.steps(40);
    }
    /// Carries a command out and gives its status.
    fn run(&mut self, c: Command) -> i32 {
        let context = self.rng.random();
        self.command = Some(Command { context, ..c });
        let (start, before) = (self.now, self.events.len());
        while self.command.is_some() {
            self.step();
            assert!(self.now < start + 5000, "it comes to an end");
        }
        assert_eq!(self.events[before..].iter().filter(|e| matches!(e, Event::Reply { .. })).count(), 1);
        match *self.events.last().expect("the reply") {
            Event::Reply { context: echoed, status } => {
                assert_eq!(echoed, context);
                status
            }
            other => panic!("{other:?} is not the reply"),
        }
    }
    /// Makes queue `cqn`, in clean memory.
    fn create(&mut self, cqn: u16, base: u64, log2: u16) {
        for i in 0..1u64 << log2 {
            self.memory.put(base + 32 * i, &[0; 8]);
        }
        self.rings[usize::from(cqn)] = Ring { base, log2, ..Ring::default() };
        assert_eq!(self.run(Command::create_cq(0, cqn.into(), base, log2)), 0);
    }
    fn completion(&mut self) -> Completion {
        let rng = &mut self.rng;
        Completion {
            wqe: rng.random(),
            opcode: rng.random(),
            status: 0,
            len: rng.random(),
            qpn: rng.random(),
            invalidated: rng.random(),
            solicited: false,
            stag: rng.random(),
            phase: false,
        }
    }
    fn give(&mut self, from: usize, cqn: u16, change: impl Fn(&mut Completion)) {
        let mut c = self.completion();
        change(&mut c);
        self.inputs[from].push_back((cqn, c));
    }
    /// The next entry of queue `cqn`, if its phase says that it is there.
    fn poll(&mut self, cqn: u16) -> Option<Completion> {
        let ring = &mut self.rings[usize::from(cqn)];
        let size = 1u32 << ring.log2;
        let at = ring.base + COMPLETION_OCTETS as u64 * u64::from(u32::from(ring.consumer) % size);
        let words: Vec<u32> = (0..4).map(|i| self.memory.word(at + 8 * i)).flat_map(|w| [w as u32, (w >> 32) as u32]).collect();
        let got = Completion::decode(&words.clone().try_into().expect("8 dwords"));
        if got.phase == (u32::from(ring.consumer) / size % 2 == 1) {
            return None;
        }
        assert_eq!(&got.encode()[..], &words[..], "unused bits are 0");
        let want = ring.owed.pop_front().expect("an entry that was given");
        assert_eq!(Completion { phase: false, ..got }, want);
        ring.consumer = ring.consumer.wrapping_add(1);
        Some(got)
    }
    fn drain(&mut self, cqn: u16) -> usize {
        std::iter::from_fn(|| self.poll(cqn)).count()
    }
    fn ring(&mut self, cqn: u16, armed: u32) {
        self.doorbell = Some(cq_head(cqn, self.rings[usize::from(cqn)].consumer, armed));
        self.step();
    }
    fn wakes(&self) -> Vec<u16> {
        self.events.iter().filter_map(|e| if let Event::Wake(n) = e { Some(*n) } else { None }).collect()
    }
    fn losses(&self) -> Vec<u16> {
        self.events.iter().filter_map(|e| if let Event::Lost(n) = e { Some(*n) } else { None }).collect()
    }
}

#[test]
fn entries_stand_in_order_with_the_phase_of_their_lap() {
    // each bit of the address is 1 in one, 0 in another
    for (log2, base) in [(0, 0x5555_5555_5555_5540), (1, 0x1_0000_0040 * 3), (3, 0xaaaa_aaaa_aaaa_aa80)] {
        let mut b = Bench::new(WriteHost::new(1..30, 0.2));
        b.create(1, base, log2);
        let mut given = 0;
        for _ in 0..5 * (2 << log2) {
            for _ in 0..b.rng.random_range(1..=1 << log2) {
                let (from, status) = (b.rng.random_range(0..2), b.rng.random());
                b.give(from, 1, |c| c.status = status);
                given += 1;
            }
            b.settle();
            b.drain(1);
            b.ring(1, arm::NOT);
            b.steps(20);
        }
        assert!(b.rings[1].owed.is_empty());
        assert_eq!((b.written, b.lost, b.doorbell_errors), (given, 0, 0));
        assert_eq!(b.wakes(), [0; 0], "nobody has asked");
    }
}

/// The free-running indices wrap at 2^16.
#[test]
fn indices_wrap() {
    let mut b = Bench::quick();
    b.create(2, 0x40, 5);
    for _ in 0..66_000 / 32 {
        for _ in 0..32 {
            b.give(1, 2, |_| ());
        }
        while b.rings[2].owed.len() < 32 {
            b.step();
        }
        b.steps(10);
        assert_eq!(b.drain(2), 32);
        b.ring(2, arm::NOT);
        b.steps(10);
    }
    assert_eq!((b.lost, b.doorbell_errors), (0, 0));
}

/// Covers: RDM-36
#[test]
fn a_queue_that_overflows_hurts_nobody_else() {
    let mut b = Bench::new(WriteHost::new(1..30, 0.2));
    for cqn in 0..3 {
        b.create(cqn, 0x1000 * u64::from(cqn + 1), 2);
    }
    for _ in 0..7 {
        b.give(0, 1, |_| ());
        b.give(1, 0, |_| ());
        b.settle();
        assert_eq!(b.drain(0), 1);
        b.ring(0, arm::NOT);
    }
    assert_eq!((b.written, b.lost, b.losses()), (7 + 4, 3, vec![1]), "four fit, three are lost, told once");
    // what was written before is good, and nothing follows, also when there is room
    assert_eq!(b.drain(1), 4);
    b.ring(1, arm::NEXT);
    b.give(0, 1, |_| ());
    b.give(0, 2, |_| ());
    b.settle();
    assert_eq!((b.drain(1), b.drain(2), b.losses().len(), b.lost), (0, 1, 1, 4));
    assert_eq!(b.wakes(), [0; 0]);
    // a new life
    assert_eq!(b.run(Command::destroy_cq(0, 1)), 0);
    b.create(1, 0x8000, 2);
    for _ in 0..5 {
        b.give(0, 1, |_| ());
    }
    b.settle();
    assert_eq!((b.drain(1), b.losses()), (4, vec![1, 1]));
}

#[test]
fn a_write_that_fails_breaks_the_queue_once() {
    let mut b = Bench::quick();
    b.create(3, 0x1000, 4);
    b.host.failing = 1.0;
    b.give(0, 3, |_| ());
    b.give(1, 3, |_| ());
    b.settle();
    b.host.failing = 0.0;
    b.give(1, 3, |_| ());
    b.settle();
    assert_eq!((b.drain(3), b.losses()), (0, vec![3]), "the reader does not pass the gap");
}

/// Covers: RDM-22
#[test]
fn an_armed_queue_wakes_once_for_what_it_was_armed_for() {
    let mut b = Bench::new(WriteHost::new(1..30, 0.0));
    b.create(1, 0x1000, 4);
    b.create(2, 0x2000, 4);
    let plain = |_: &mut Completion| ();
    let solicited = |c: &mut Completion| c.solicited = true;
    let failed = |c: &mut Completion| c.status = 4;
    let mut want = vec![];
    let mut is = |b: &mut Bench, more: &[u16], what: &str| {
        b.settle();
        want.extend_from_slice(more);
        assert_eq!(b.wakes(), want, "{what}");
    };
    b.give(0, 1, solicited);
    is(&mut b, &[], "not armed");
    b.ring(1, arm::NEXT);
    is(&mut b, &[1], "armed behind the producer");
    b.give(0, 1, plain);
    is(&mut b, &[], "once");
    b.drain(1);
    b.ring(1, arm::NEXT);
    is(&mut b, &[], "empty");
    b.ring(2, arm::SOLICITED);
    b.give(0, 2, plain);
    is(&mut b, &[], "another queue, and not solicited");
    b.give(1, 1, plain);
    b.give(1, 1, plain);
    is(&mut b, &[1], "the next");
    b.give(0, 2, solicited);
    is(&mut b, &[2], "solicited");
    b.drain(1);
    b.drain(2);
    b.ring(1, arm::SOLICITED);
    b.ring(2, arm::SOLICITED);
    b.give(1, 1, plain);
    b.give(1, 2, failed);
    is(&mut b, &[2], "an error wakes who waits for solicited ones");
    // armed with unread entries, none of which is wanted; then with one that is
    b.drain(2);
    b.ring(1, arm::SOLICITED);
    is(&mut b, &[], "plain entries are no reason");
    b.give(1, 1, solicited);
    is(&mut b, &[1], "still armed");
    b.ring(1, arm::SOLICITED);
    is(&mut b, &[1], "a solicited one is unread");
    b.drain(1);
    b.give(1, 1, plain);
    b.settle();
    b.ring(1, arm::SOLICITED);
    is(&mut b, &[], "the solicited one was read");
    // a later doorbell takes no arming back, and NEXT comes before SOLICITED
    b.drain(1);
    b.ring(1, arm::NEXT);
    b.steps(20);
    b.ring(1, arm::SOLICITED);
    b.steps(20);
    b.ring(1, arm::NOT);
    b.steps(20);
    b.give(1, 1, plain);
    is(&mut b, &[1], "armed once is armed");
    // an index in the past arms nothing
    b.drain(1);
    b.ring(1, arm::NOT);
    b.steps(20);
    assert_eq!(b.doorbell_errors, 0);
    b.doorbell = Some(cq_head(1, b.rings[1].consumer.wrapping_sub(1), arm::NEXT));
    b.give(1, 1, plain);
    is(&mut b, &[], "ignored");
    assert_eq!(b.doorbell_errors, 1);
}

/// Doorbells in consecutive clocks: the last index counts, and every arming.
#[test]
fn no_doorbell_is_lost() {
    for round in 0..300 {
        let mut b = Bench::quick();
        for cqn in 0..4 {
            b.create(cqn, 0x1000 * u64::from(cqn + 1), 3);
            for _ in 0..8 {
                b.give(cqn as usize % 2, cqn, |_| ());
            }
        }
        b.settle();
        // all are full; each entry is given back by a doorbell of its own, one of which arms
        let arming: Vec<u32> = (0..4).map(|_| b.rng.random_range(0..8)).collect();
        let mut left: Vec<u16> = (0..32).map(|i| i % 4).collect();
        while !left.is_empty() {
            let cqn = left.swap_remove(b.rng.random_range(0..left.len()));
            b.poll(cqn).expect("an entry");
            let consumer = b.rings[usize::from(cqn)].consumer;
            let armed = if u32::from(consumer) == arming[usize::from(cqn)] + 1 { arm::NEXT } else { arm::NOT };
            b.doorbell = Some(cq_head(cqn, consumer, armed));
            b.step();
            if round % 3 == 1 && b.rng.random_bool(0.5) {
                b.steps(1);
            }
        }
        b.steps(60);
        // an arming that was looked at before the last entry was given back has found the queue not empty
        let early = b.wakes();
        for cqn in 0..4 {
            for _ in 0..8 {
                b.give(1, cqn, |_| ());
            }
        }
        b.settle();
        assert_eq!((b.lost, b.doorbell_errors), (0, 0), "all room was given back");
        let mut wakes = b.wakes();
        wakes.sort_unstable();
        assert_eq!(wakes, [0, 1, 2, 3], "each has woken once; {early:?} early");
    }
}

#[test]
fn doorbells_of_nothing_are_counted_and_ignored() {
    let mut b = Bench::quick();
    b.create(0, 0x1000, 2);
    b.give(0, 0, |_| ());
    b.settle();
    for (value, counts) in [
        (cq_head(1, 0, arm::NEXT), 1),
        (cq_head(4, 0, arm::NEXT), 1),
        (cq_head(0x2000, 0, arm::NEXT), 1),
        (cq_head(0, 2, arm::NEXT), 1),
        (cq_head(0, 0xffff, arm::NEXT), 1),
        (cq_head(0, 0, arm::NOT), 0),
        (cq_head(0, 1, arm::NOT), 0),
        (cq_head(0, 0, arm::NOT), 1),
    ] {
        let before = b.doorbell_errors;
        b.doorbell = Some(value);
        b.steps(30);
        assert_eq!(b.doorbell_errors - before, counts, "{value:#x}");
    }
    for _ in 0..20 {
        b.doorbell = Some(cq_head(9, 0, arm::NOT));
        b.step();
    }
    b.steps(30);
    assert_eq!((b.doorbell_errors, b.wakes()), (6 + 20, vec![]));
}

#[test]
fn commands_are_checked_and_a_destroyed_queue_is_quiet() {
    let mut b = Bench::new(WriteHost::new(20..60, 0.2));
    let [invalid, exists, none] = [Status::Invalid as i32, Status::Exists as i32, Status::NoEntry as i32];
    let good = Command::create_cq(0, 2, 0x1_0000_0040, 3);
    for bad in [
        Command { qpn: 4, ..good },
        Command { qpn: 0x80_0002, ..good },
        Command { flags: 1, ..good },
        Command { data_addr: 0x1_0000_0020, ..good },
        Command { backlog_half_open: 16, ..good },
        Command { qpn: 4, ..Command::destroy_cq(0, 0) },
        Command { flags: 1, ..Command::destroy_cq(0, 2) },
    ] {
        assert_eq!(b.run(bad), invalid, "{bad:x?}");
    }
    assert_eq!(b.run(Command::destroy_cq(0, 2)), none);
    assert_eq!(b.run(good), 0);
    assert_eq!(b.run(good), exists);
    b.rings[2] = Ring { base: good.data_addr, log2: 3, ..Ring::default() };
    // writes and a wake-up under way when it is destroyed: the reply is behind them
    b.ring(2, arm::NEXT);
    b.steps(20);
    for _ in 0..6 {
        b.give(1, 2, |_| ());
    }
    while b.written < 6 {
        b.step();
    }
    assert!(b.host.outstanding() > 0);
    assert_eq!(b.run(Command::destroy_cq(0, 2)), 0);
    assert_eq!((b.host.outstanding(), b.wakes()), (0, vec![2]));
    b.give(1, 2, |_| ());
    b.inputs[0].push_back((4, Completion::default()));
    b.inputs[0].push_back((0x8002, Completion::default()));
    b.settle();
    assert_eq!((b.written, b.lost), (6, 3), "queues that do not live");
    assert_eq!((b.done, b.errors), (2, 9));
    assert_eq!(b.run(good), 0);
    b.reset();
    assert_eq!(b.run(Command::destroy_cq(0, 2)), none, "a reset ends all");
}

/// A host that makes no room for events holds up no completion, and hears later what it has missed: of each queue one wake-up and one loss.
#[test]
fn events_without_room_hold_up_nothing() {
    let mut b = Bench::quick();
    for cqn in 0..4 {
        b.create(cqn, 0x1000 * u64::from(cqn + 1), 2);
    }
    b.evt_ready = 0.0;
    b.events.clear();
    for _ in 0..40 {
        for cqn in 0..4 {
            b.drain(cqn);
            b.ring(cqn, arm::NEXT);
            b.give(0, cqn, |_| ());
        }
        b.settle();
    }
    assert_eq!(b.written, 160);
    for cqn in 0..4 {
        for _ in 0..8 {
            b.give(0, cqn, |_| ());
        }
    }
    b.settle();
    assert!(b.events.is_empty());
    b.evt_ready = 1.0;
    b.settle();
    let (mut wakes, mut losses) = (b.wakes(), b.losses());
    wakes.sort_unstable();
    losses.sort_unstable();
    assert_eq!((wakes, losses), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
}

/// Clocks of the module's description.
#[test]
fn times_are_those_of_the_description() {
    let mut b = Bench::quick();
    for cqn in 0..2 {
        b.create(cqn, 0x10000 * u64::from(cqn + 1), 8);
    }
    b.run(Command::destroy_cq(0, 3));
    for (cqn, want) in [(0, 8), (0, 4), (1, 8), (1, 4)] {
        b.give(0, cqn, |_| ());
        let start = b.now;
        while !b.m.req_valid.get() {
            b.step();
        }
        assert_eq!(b.now - start, want, "to the request");
        b.settle();
    }
    for (queues, most) in [(1, 6), (2, 8)] {
        b.settle();
        let (start, before) = (b.now, b.written);
        for i in 0..100 {
            b.give(0, i % queues, |_| ());
        }
        while b.written < before + 100 {
            b.step();
        }
        let clocks = (b.now - start) / 100;
        println!("{queues} queue(s): a completion each {clocks} clocks");
        assert!(clocks <= most, "{clocks}");
    }
    b.settle();
    b.drain(0);
    b.ring(0, arm::NEXT);
    b.steps(20);
    b.give(0, 0, |_| ());
    let ended = b.host.ended.len();
    while b.host.ended.len() == ended {
        b.step();
    }
    let start = b.now - 1;
    while !b.m.evt_valid.get() {
        b.step();
    }
    println!("end of the write to COMPLETION: {} clocks", b.now - start);
    assert!(b.now - start <= 6);
}

/// What the reader of a queue is at.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Reader {
    /// It polls.
    Awake,
    /// It has armed and looks once more.
    Armed(u32),
    /// Only COMPLETION wakes it, since this clock.
    Asleep(u32, u64),
}

/// Readers that poll, arm, look again and sleep; queues that come and go; one that is allowed to overflow. No wake-up is ever missing.
#[test]
fn random_readers_never_oversleep() {
    let clocks: u64 = std::env::var("CLOCKS").ok().and_then(|c| c.parse().ok()).unwrap_or(300_000);
    let mut b = Bench::new(WriteHost::new(1..40, 0.2));
    b.limit += clocks;
    let log2 = [1, 3, 2, 2];
    let mut readers = [Reader::Awake; QUEUES];
    // entries that are surely given back, and those on their way: (clock, consumer index)
    let mut back = [0u16; QUEUES];
    let mut rung: Vec<VecDeque<(u64, u16)>> = vec![VecDeque::new(); QUEUES];
    let mut given = [0u16; QUEUES];
    let mut dead = false;
    let (mut slept, mut lives, mut read) = (0u64, 0, [0u64; QUEUES]);
    for cqn in 0..4 {
        b.create(cqn, 0x1000 * u64::from(cqn + 1), log2[usize::from(cqn)]);
    }
    b.events.clear();
    while b.now < clocks {
        if b.now.is_multiple_of(5000) {
            b.evt_ready = [1.0, 0.3, 0.05][b.rng.random_range(0..3)];
        }
        for cqn in 0..4u16 {
            let i = usize::from(cqn);
            while rung[i].front().is_some_and(|(at, _)| at + 100 < b.now) {
                back[i] = rung[i].pop_front().expect("seen").1;
            }
            // queue 3 has nobody who counts
            let room = given[i].wrapping_sub(back[i]) < 1 << log2[i] || cqn == 3;
            let from = b.rng.random_range(0..2);
            if room && b.inputs[from].len() < 2 && b.rng.random_bool(0.02) {
                let (solicited, failed) = (b.rng.random_bool(0.2), b.rng.random_bool(0.1));
                b.give(from, cqn, |c| {
                    c.solicited = solicited;
                    c.status = u8::from(failed) * 7;
                });
                given[i] = given[i].wrapping_add(1);
            }
            let looks = b.rng.random_bool(0.05);
            match readers[i] {
                Reader::Awake if looks && b.doorbell.is_none() => {
                    if b.poll(cqn).is_some() {
                        read[i] += 1;
                        if b.rng.random_bool(0.5) {
                            b.doorbell = Some(cq_head(cqn, b.rings[i].consumer, arm::NOT));
                        }
                    } else if cqn != 3 || !dead {
                        let armed = if b.rng.random_bool(0.5) { arm::NEXT } else { arm::SOLICITED };
                        b.doorbell = Some(cq_head(cqn, b.rings[i].consumer, armed));
                        readers[i] = Reader::Armed(armed);
                    }
                    if b.doorbell.is_some() {
                        rung[i].push_back((b.now, b.rings[i].consumer));
                    }
                }
                Reader::Armed(armed) if looks => {
                    readers[i] = if b.poll(cqn).is_some() {
                        read[i] += 1;
                        Reader::Awake
                    } else {
                        slept += 1;
                        Reader::Asleep(armed, b.now)
                    };
                }
                Reader::Asleep(armed, since) => {
                    // what is in memory and unread for long must have woken it
                    let wanted = b.rings[i].owed.iter().any(|c| armed == arm::NEXT || c.solicited || c.status != 0);
                    let broken = cqn == 3 && dead;
                    assert!(!wanted || broken || b.now < since + 100_000);
                    if !wanted {
                        readers[i] = Reader::Asleep(armed, b.now);
                    } else if b.now > since + 3000 && !broken {
                        panic!("queue {cqn} sleeps over {:?}", b.rings[i].owed);
                    }
                    if cqn == 3 && dead || !wanted && b.rng.random_bool(0.0005) {
                        readers[i] = Reader::Awake;
                    }
                }
                _ => {}
            }
        }
        if dead && b.command.is_none() && b.rng.random_bool(0.01) {
            // what was written is read, then the queue is made anew
            b.settle();
            read[3] += b.drain(3) as u64;
            assert!(b.rings[3].owed.is_empty());
            assert_eq!(b.run(Command::destroy_cq(0, 3)), 0);
            b.settle();
            b.events.retain(|e| !matches!(e, Event::Wake(3) | Event::Lost(3)));
            b.create(3, 0x4000, log2[3]);
            (dead, readers[3], given[3], back[3]) = (false, Reader::Awake, 0, 0);
            rung[3].clear();
            lives += 1;
        }
        b.step();
        for event in std::mem::take(&mut b.events) {
            match event {
                Event::Wake(n) => readers[usize::from(n)] = Reader::Awake,
                Event::Lost(n) => {
                    assert!(n == 3 && !dead, "only queue 3 may lose something, once in a life");
                    dead = true;
                }
                Event::Reply { status, .. } => assert_eq!(status, 0),
            }
        }
    }
    println!("read {read:?}, slept {slept}, lives {lives}, written {}, lost {}", b.written, b.lost);
    assert_eq!(b.doorbell_errors, 0);
    assert!(slept > 500 && lives > 5 && read.iter().all(|n| *n > 300));
}
