// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::qps` between a driver that rings in every clock, a manager that binds, and three engines that take their time.
use ironwarp_abi::work::{qp_flag, queue_tail};
use ironwarp_abi::{Command, EventKind, Status};
use ironwarp_models::{bench, rdma_qps_small::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Queue pairs of the model.
const PAIRS: usize = 4;

/// What the manager asks.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
struct BindIn {
    unbind: bool,
    index: u16,
    qpn: u32,
    crc: bool,
    markers: bool,
    responder: bool,
    ird: u8,
    ord: u8,
    rtr_write: bool,
    rtr_read: bool,
    terminate: u8,
}

/// What an engine hears: the question, and the queue pair's context as it was made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bind {
    ask: BindIn,
    context: [u64; 9],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Heard {
    /// Engine 0 sq, 1 rx, 2 mpa::rx.
    Bind(usize, Bind),
    /// An engine has said that it has ended.
    Ended(usize),
    Posted {
        receive: bool,
        index: u16,
        posted: u16,
    },
    Bound {
        index: u16,
        refused: bool,
    },
    Reply {
        context: u32,
        status: i32,
    },
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    now: u64,
    /// No test takes longer.
    limit: u64,
    command: Option<Command>,
    bind: Option<BindIn>,
    /// Word, and receive queue.
    doorbell: Option<(u32, bool)>,
    evt_ready: f64,
    taking: f64,
    /// Longest time that an engine needs to end.
    ending: u64,
    ends: [Option<(u64, u16)>; 3],
    /// Clock and what was heard in it.
    log: Vec<(u64, Heard)>,
    standing: [Option<Heard>; 6],
    /// What `mpa_rx` says with its answer.
    torn: bool,
    errors: u64,
    cmd_done: u64,
    cmd_errors: u64,
}

impl Bench {
    fn new() -> Self {
        let seed = bench::seed("rdma_qps");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            limit: 2_000_000,
            command: None,
            bind: None,
            doorbell: None,
            evt_ready: 1.0,
            taking: 1.0,
            ending: 1,
            ends: [None; 3],
            log: vec![],
            standing: [None; 6],
            torn: false,
            errors: 0,
            cmd_done: 0,
            cmd_errors: 0,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        let m = &mut self.m;
        m.reset.set(true);
        m.cmd_valid.set(false);
        m.bind_in_valid.set(false);
        m.sq_tail.set(false);
        m.rq_tail.set(false);
        m.unbound_sq_valid.set(false);
        m.unbound_rx_valid.set(false);
        m.unbound_mpa_rx_valid.set(false);
        m.eval();
        m.tick();
        m.reset.set(false);
        m.eval();
        let mut clocks = 0;
        while !m.ready.get() {
            m.tick();
            clocks += 1;
        }
        assert_eq!(clocks, 4 * PAIRS, "ready after four clocks a queue pair");
        (self.command, self.bind, self.doorbell, self.ends, self.standing) = (None, None, None, [None; 3], [None; 6]);
    }
    fn step(&mut self) {
        assert!(self.now < self.limit, "it comes to an end");
        let m = &mut self.m;
        m.cmd_valid.set(self.command.is_some());
        if let Some(c) = self.command {
            m.cmd_data_opcode.set(c.opcode.into());
            m.cmd_data_flags.set(c.flags.into());
            m.cmd_data_context.set(c.context.into());
            m.cmd_data_local_port.set(c.local_port.into());
            m.cmd_data_remote_addr.set(c.remote_addr.into());
            m.cmd_data_gateway.set(c.gateway.into());
            m.cmd_data_backlog_half_open.set(c.backlog_half_open.into());
            m.cmd_data_backlog_accept.set(c.backlog_accept.into());
            m.cmd_data_qpn.set(c.qpn.into());
            m.cmd_data_data_addr.set(c.data_addr);
            m.cmd_data_ird.set(c.ird.into());
            m.cmd_data_ord.set(c.ord.into());
        }
        m.bind_in_valid.set(self.bind.is_some());
        if let Some(b) = self.bind {
            m.bind_in_data_op.set(b.unbind.into());
            m.bind_in_data_index.set(b.index.into());
            m.bind_in_data_qpn.set(b.qpn.into());
            m.bind_in_data_crc.set(b.crc.into());
            m.bind_in_data_markers.set(b.markers.into());
            m.bind_in_data_responder.set(b.responder.into());
            m.bind_in_data_ird.set(b.ird.into());
            m.bind_in_data_ord.set(b.ord.into());
            m.bind_in_data_rtr_write.set(b.rtr_write.into());
            m.bind_in_data_rtr_read.set(b.rtr_read.into());
            m.bind_in_data_terminate.set(b.terminate.into());
        }
        let doorbell = self.doorbell.take();
        m.sq_tail.set(doorbell.is_some_and(|(_, receive)| !receive));
        m.rq_tail.set(doorbell.is_some_and(|(_, receive)| receive));
        m.tail_value.set(doorbell.map_or(0xffff_ffff, |(word, _)| word));
        let ended: [Option<u16>; 3] = std::array::from_fn(|i| self.ends[i].filter(|(at, _)| *at <= self.now).map(|(_, index)| index));
        m.unbound_sq_valid.set(ended[0].is_some());
        m.unbound_sq_data.set(ended[0].unwrap_or(0xffff));
        m.unbound_rx_valid.set(ended[1].is_some());
        m.unbound_rx_data.set(ended[1].unwrap_or(0xffff));
        m.unbound_mpa_rx_valid.set(ended[2].is_some());
        m.unbound_mpa_rx_data_index.set(ended[2].unwrap_or(0xffff).into());
        if ended[2].is_some() {
            self.torn = self.rng.random();
        }
        m.unbound_mpa_rx_data_torn.set(self.torn.into());
        let takes: [bool; 6] = std::array::from_fn(|_| self.rng.random_bool(self.taking));
        m.to_sq_ready.set(takes[0]);
        m.to_rx_ready.set(takes[1]);
        m.to_mpa_rx_ready.set(takes[2]);
        m.sq_posted_ready.set(takes[3]);
        m.rq_posted_ready.set(takes[4]);
        m.bound_ready.set(takes[5]);
        let evt_takes = self.rng.random_bool(self.evt_ready);
        m.evt_ready.set(evt_takes);
        m.eval();

        macro_rules! bind {
            ($valid:ident, $($field:ident)*) => {
                m.$valid.get().then(|| [$(m.$field.get()),*])
            };
        }
        let binds = [
            bind!(to_sq_valid, to_sq_data_op to_sq_data_index to_sq_data_crc to_sq_data_markers to_sq_data_responder to_sq_data_ird to_sq_data_ord
                to_sq_data_rtr_write to_sq_data_rtr_read to_sq_data_terminate to_sq_data_qp_qpn to_sq_data_qp_pd to_sq_data_qp_send_cqn to_sq_data_qp_recv_cqn
                to_sq_data_qp_sq_base to_sq_data_qp_rq_base to_sq_data_qp_sq_log2 to_sq_data_qp_rq_log2 to_sq_data_qp_all_signaled),
            bind!(to_rx_valid, to_rx_data_op to_rx_data_index to_rx_data_crc to_rx_data_markers to_rx_data_responder to_rx_data_ird to_rx_data_ord
                to_rx_data_rtr_write to_rx_data_rtr_read to_rx_data_terminate to_rx_data_qp_qpn to_rx_data_qp_pd to_rx_data_qp_send_cqn to_rx_data_qp_recv_cqn
                to_rx_data_qp_sq_base to_rx_data_qp_rq_base to_rx_data_qp_sq_log2 to_rx_data_qp_rq_log2 to_rx_data_qp_all_signaled),
            bind!(to_mpa_rx_valid, to_mpa_rx_data_op to_mpa_rx_data_index to_mpa_rx_data_crc to_mpa_rx_data_markers to_mpa_rx_data_responder
                to_mpa_rx_data_ird to_mpa_rx_data_ord to_mpa_rx_data_rtr_write to_mpa_rx_data_rtr_read to_mpa_rx_data_terminate to_mpa_rx_data_qp_qpn to_mpa_rx_data_qp_pd
                to_mpa_rx_data_qp_send_cqn to_mpa_rx_data_qp_recv_cqn to_mpa_rx_data_qp_sq_base to_mpa_rx_data_qp_rq_base
                to_mpa_rx_data_qp_sq_log2 to_mpa_rx_data_qp_rq_log2 to_mpa_rx_data_qp_all_signaled),
        ];
        let mut offered: [Option<Heard>; 6] = [None; 6];
        for (i, words) in binds.into_iter().enumerate() {
            offered[i] = words.map(|w| {
                let context: [u64; 9] = w[10..].try_into().expect("nine");
                let ask = BindIn {
                    unbind: w[0] == 1,
                    index: w[1] as u16,
                    qpn: context[0] as u32,
                    crc: w[2] == 1,
                    markers: w[3] == 1,
                    responder: w[4] == 1,
                    ird: w[5] as u8,
                    ord: w[6] as u8,
                    rtr_write: w[7] == 1,
                    rtr_read: w[8] == 1,
                    terminate: w[9] as u8,
                };
                Heard::Bind(i, Bind { ask, context })
            });
        }
        offered[3] = m.sq_posted_valid.get().then(|| Heard::Posted {
            receive: false,
            index: m.sq_posted_data_index.get() as u16,
            posted: m.sq_posted_data_posted.get() as u16,
        });
        offered[4] = m.rq_posted_valid.get().then(|| Heard::Posted {
            receive: true,
            index: m.rq_posted_data_index.get() as u16,
            posted: m.rq_posted_data_posted.get() as u16,
        });
        offered[5] =
            m.bound_valid.get().then(|| Heard::Bound { index: m.bound_data_index.get() as u16, refused: m.bound_data_refused.bit() });
        for (i, ended) in ended.into_iter().enumerate().filter(|(_, e)| e.is_some()) {
            assert!([m.unbound_sq_ready.get(), m.unbound_rx_ready.get(), m.unbound_mpa_rx_ready.get()][i]);
            let _ = ended;
            self.ends[i] = None;
            self.log.push((self.now, Heard::Ended(i)));
        }
        for i in 0..6 {
            assert!(self.standing[i].is_none() || self.standing[i] == offered[i], "what is offered stays");
            self.standing[i] = offered[i].filter(|_| !takes[i]);
            if let Some(heard) = offered[i].filter(|_| takes[i]) {
                self.log.push((self.now, heard));
                if let Heard::Bind(_, Bind { ask: BindIn { unbind: true, index, .. }, .. }) = heard {
                    self.ends[i] = Some((self.now + self.rng.random_range(1..=self.ending), index));
                }
            }
        }
        if let (Some(Heard::Bound { refused, .. }), Some(BindIn { unbind: true, .. })) = (offered[5], self.bind) {
            assert_eq!(m.bound_data_torn.bit(), self.torn && !refused, "as mpa_rx has said");
        }
        let answered = offered[5].is_some() && takes[5];
        assert_eq!(m.bind_in_ready.get(), answered);
        if answered {
            self.bind = None;
        }
        self.errors += u64::from(m.cnt_doorbell_errors.get());
        self.cmd_done += u64::from(m.cnt_cmd_done.get());
        self.cmd_errors += u64::from(m.cnt_cmd_errors.get());
        let replied = m.evt_valid.get() && evt_takes;
        assert_eq!(m.cmd_ready.get(), replied);
        if replied {
            assert_eq!(m.evt_data_kind.get(), EventKind::CmdReply as u64);
            self.log
                .push((self.now, Heard::Reply { context: m.evt_data_context.get() as u32, status: m.evt_data_status.get() as u32 as i32 }));
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
    fn run(&mut self, c: Command) -> i32 {
        let context = self.rng.random();
        self.command = Some(Command { context, ..c });
        let start = self.now;
        while self.command.is_some() {
            self.step();
            assert!(self.now < start + 2000, "it comes to an end");
        }
        match self.log.last() {
            Some((_, Heard::Reply { context: echoed, status })) => {
                assert_eq!(*echoed, context);
                *status
            }
            other => panic!("{other:?}"),
        }
    }
    /// Gives `refused`, and what was heard meanwhile.
    fn ask(&mut self, bind: BindIn) -> (bool, Vec<Heard>) {
        let before = self.log.len();
        self.bind = Some(bind);
        let start = self.now;
        while self.bind.is_some() {
            self.step();
            assert!(self.now < start + 5000, "it comes to an end");
        }
        let heard: Vec<Heard> = self.log[before..].iter().map(|(_, h)| *h).collect();
        match heard.last() {
            Some(Heard::Bound { index, refused }) => {
                assert_eq!(*index, bind.index);
                (*refused, heard)
            }
            other => panic!("{other:?}"),
        }
    }
    fn ring(&mut self, qpn: u16, receive: bool, index: u16) {
        self.doorbell = Some((queue_tail(qpn, index), receive));
        self.step();
    }
    fn posted(&self, from: usize) -> Vec<(bool, u16, u16)> {
        let posted = |h: &(u64, Heard)| match h.1 {
            Heard::Posted { receive, index, posted } => Some((receive, index, posted)),
            _ => None,
        };
        self.log[from..].iter().filter_map(posted).collect()
    }
}

/// A queue pair with fields of its own, every bit of which is set in one and not in another.
fn create(qpn: u32) -> Command {
    let number = u64::from(qpn / 2 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = if qpn.is_multiple_of(2) { number } else { !number };
    let turned = number.rotate_left(23);
    let log2 = number as u16 % 16;
    Command::create_qp(
        0,
        qpn,
        number as u8 & qp_flag::ALL_SIGNALED,
        (number >> 8) as u16,
        (number & !0x3f, log2, (number >> 24) as u16),
        (turned & !0x3f, 15 - log2, (turned >> 24) as u16),
    )
}

fn context(c: &Command) -> [u64; 9] {
    [
        c.qpn.into(),
        c.local_port.into(),
        c.ird.into(),
        c.ord.into(),
        c.data_addr,
        u64::from(c.gateway) << 32 | u64::from(c.remote_addr),
        c.backlog_half_open.into(),
        c.backlog_accept.into(),
        c.flags.into(),
    ]
}

fn bind(index: u16, qpn: u32) -> BindIn {
    BindIn { index, qpn, ..BindIn::default() }
}

fn unbind(index: u16, qpn: u32) -> BindIn {
    BindIn { unbind: true, ..bind(index, qpn) }
}

#[test]
fn engines_hear_of_a_queue_pair_before_its_indices_and_these_before_the_manager() {
    let mut b = Bench::new();
    for round in 0..100 {
        b.taking = [1.0, 0.3][round % 2];
        let qpn = b.rng.random_range(0..PAIRS as u32);
        let made = create(qpn);
        assert_eq!(b.run(made), 0);
        let [send, receive] = [b.rng.random(), b.rng.random()];
        b.ring(qpn as u16, false, send);
        b.ring(qpn as u16, true, receive);
        b.steps(40);
        let rng = &mut b.rng;
        let ask = BindIn {
            unbind: false,
            index: rng.random(),
            qpn,
            crc: rng.random(),
            markers: rng.random(),
            responder: rng.random(),
            ird: rng.random(),
            ord: rng.random(),
            rtr_write: rng.random(),
            rtr_read: rng.random(),
            terminate: rng.random(),
        };
        let (refused, mut heard) = b.ask(ask);
        assert!(!refused);
        heard[..3].sort_by_key(|h| if let Heard::Bind(i, _) = h { *i } else { panic!("{h:?} before Bind") });
        let message = Bind { ask, context: context(&made) };
        let want = [
            Heard::Bind(0, message),
            Heard::Bind(1, message),
            Heard::Bind(2, message),
            Heard::Posted { receive: false, index: ask.index, posted: send },
            Heard::Posted { receive: true, index: ask.index, posted: receive },
            Heard::Bound { index: ask.index, refused: false },
        ];
        assert_eq!(heard, want);
        assert_eq!(b.run(Command::destroy_qp(0, qpn)), Status::Busy as i32);
        b.ending = 50;
        let (refused, heard) = b.ask(unbind(ask.index, qpn));
        assert!(!refused);
        let ends = heard.iter().filter(|h| matches!(h, Heard::Ended(_))).count();
        assert_eq!((ends, heard.len()), (3, 7), "three messages, three answers, one to the manager: {heard:?}");
        assert_eq!(b.run(Command::destroy_qp(0, qpn)), 0);
    }
    assert_eq!(b.errors, 0);
}

#[test]
fn what_cannot_be_bound_is_refused_and_nobody_hears_of_it() {
    let mut b = Bench::new();
    assert_eq!(b.run(create(1)), 0);
    assert_eq!(b.run(create(2)), 0);
    let refused = |b: &mut Bench, ask: BindIn| {
        let (refused, heard) = b.ask(ask);
        assert_eq!((refused, heard.len()), (true, 1), "{ask:?}: {heard:?}");
    };
    for qpn in [0, 3, 4, 5, 0x1_0001, 0x80_0001] {
        refused(&mut b, bind(7, qpn));
        refused(&mut b, unbind(7, qpn));
    }
    refused(&mut b, unbind(7, 1));
    assert!(!b.ask(bind(7, 1)).0);
    refused(&mut b, bind(7, 1));
    refused(&mut b, bind(8, 1));
    refused(&mut b, unbind(8, 1));
    refused(&mut b, unbind(7, 2));
    refused(&mut b, unbind(7, 5));
    assert!(!b.ask(bind(8, 2)).0);
    assert!(!b.ask(unbind(7, 1)).0);
    refused(&mut b, unbind(7, 1));
    assert!(!b.ask(bind(9, 1)).0);
    // a reset ends all
    b.reset();
    refused(&mut b, unbind(9, 1));
    assert_eq!(b.run(Command::destroy_qp(0, 1)), Status::NoEntry as i32);
}

#[test]
fn commands_are_checked() {
    let mut b = Bench::new();
    let [invalid, exists, none] = [Status::Invalid as i32, Status::Exists as i32, Status::NoEntry as i32];
    let good = create(3);
    for bad in [
        Command { qpn: 4, ..good },
        Command { qpn: 0x80_0003, ..good },
        Command { flags: 2, ..good },
        Command { flags: 0x80, ..good },
        Command { data_addr: good.data_addr | 0x20, ..good },
        Command { remote_addr: good.remote_addr | 1, ..good },
        Command { backlog_half_open: 16, ..good },
        Command { backlog_accept: 0x8000, ..good },
        Command { qpn: 4, ..Command::destroy_qp(0, 0) },
        Command { flags: 1, ..Command::destroy_qp(0, 3) },
    ] {
        assert_eq!(b.run(bad), invalid, "{bad:x?}");
    }
    assert_eq!(b.run(Command::destroy_qp(0, 3)), none);
    assert_eq!(b.run(good), 0);
    assert_eq!(b.run(good), exists);
    assert_eq!(b.run(Command::destroy_qp(0, 3)), 0);
    assert_eq!((b.cmd_done, b.cmd_errors), (2, 12));
    // the second life has no index of the first
    b.evt_ready = 0.5;
    b.run(good);
    b.ring(3, false, 77);
    b.ring(3, true, 78);
    b.steps(40);
    assert_eq!(b.run(Command::destroy_qp(0, 3)), 0);
    b.run(good);
    let before = b.log.len();
    b.ask(bind(5, 3));
    assert_eq!(b.posted(before), [(false, 5, 0), (true, 5, 0)]);
}

#[test]
fn doorbells_of_nothing_are_counted_and_ignored() {
    let mut b = Bench::new();
    b.run(create(1));
    b.ask(bind(5, 1));
    let before = b.log.len();
    let far = (2..16).map(|bit| (1 << bit | 1, 1));
    for (qpn, counts) in [(0, 1), (2, 1), (4, 1), (1, 0)].into_iter().chain(far) {
        let errors = b.errors;
        b.ring(qpn, false, 9);
        b.steps(30);
        assert_eq!(b.errors - errors, counts, "{qpn:#x}");
    }
    for _ in 0..20 {
        b.ring(4, true, 9);
    }
    b.steps(30);
    assert_eq!((b.errors, b.posted(before)), (37, vec![(false, 5, 9)]));
}

/// A host without room for events holds up neither doorbells nor the manager.
#[test]
fn only_commands_wait_for_the_host() {
    let mut b = Bench::new();
    b.run(create(1));
    b.evt_ready = 0.0;
    b.command = Some(create(2));
    b.steps(100);
    assert!(b.command.is_some());
    let before = b.log.len();
    assert!(!b.ask(bind(5, 1)).0);
    b.ring(1, true, 3);
    b.steps(30);
    assert_eq!(b.posted(before), [(false, 5, 0), (true, 5, 0), (true, 5, 3)]);
    assert!(!b.ask(unbind(5, 1)).0);
}

/// Clocks of the module's description.
#[test]
fn times_are_those_of_the_description() {
    let mut b = Bench::new();
    for qpn in 0..2 {
        b.run(create(qpn));
        let start = b.now;
        b.ask(bind(qpn as u16 + 8, qpn));
        println!("Bind of another queue pair to its answer: {} clocks", b.now - start);
    }
    b.run(Command::destroy_qp(0, 3));
    for (qpn, want) in [(0, 10), (0, 6), (1, 10), (1, 6)] {
        let start = b.now;
        b.ring(qpn, false, 1);
        while !b.m.sq_posted_valid.get() {
            b.step();
        }
        assert_eq!(b.now - start, want, "doorbell of {qpn} to Posted");
        b.steps(20);
    }
    let (start, before) = (b.now, b.log.len());
    while b.now < start + 400 {
        let (qpn, receive, index) = (b.now as u16 % 2, b.now / 2 % 2 == 1, b.now as u16);
        b.ring(qpn, receive, index);
    }
    println!("{} Posted in 400 clocks, doorbells in each", b.posted(before).len());
    b.steps(40);
    assert_eq!(b.errors, 0);
}

/// All at once at random. Of each queue of a bound queue pair the engine hears, in the order of ringing, some of the indices and always the last; never one of a
/// queue pair that is not bound, or no longer.
#[test]
fn random_no_doorbell_is_lost() {
    let clocks: u64 = std::env::var("CLOCKS").ok().and_then(|c| c.parse().ok()).unwrap_or(200_000);
    let mut b = Bench::new();
    b.limit += clocks;
    let mut rng = ChaCha8Rng::seed_from_u64(bench::seed("rdma_qps") ^ 0x5eed);
    /// A queue pair as the driver and the manager know it.
    #[derive(Default, Clone)]
    struct Pair {
        live: bool,
        index: Option<u16>,
        /// Indices rung, by queue; how many of them the engine may have heard of.
        rung: [Vec<u16>; 2],
        heard: [usize; 2],
        last: [Option<u16>; 2],
        /// Engines that have taken `Bind`.
        engines: usize,
    }
    let mut pairs = vec![Pair::default(); PAIRS];
    let (mut told, mut lives, mut binds, mut refusals, mut busy) = (0u64, 0, 0, 0, 0);
    let mut asking: Option<BindIn> = None;
    let mut running: Option<Command> = None;
    let mut pace = 1.0;
    while b.now < clocks {
        if b.now.is_multiple_of(2000) {
            pace = [1.0, 0.3, 0.02][rng.random_range(0..3)];
            (b.taking, b.evt_ready) = ([1.0, 0.5, 0.1][rng.random_range(0..3)], [1.0, 0.3][rng.random_range(0..2)]);
            b.ending = [3, 200][rng.random_range(0..2)];
        }
        let resting = b.now % 5000 >= 4000;
        if !resting && running.is_none() && rng.random_bool(0.01) {
            let qpn = rng.random_range(0..PAIRS as u32);
            // the driver rings no queue pair that it is about to make or end
            let c = if pairs[qpn as usize].live { Command::destroy_qp(0, qpn) } else { create(qpn) };
            if c.opcode & 1 == 0 || rng.random_bool(0.3) {
                // it may be bound before its maker hears that it lives
                if c.opcode & 1 == 0 {
                    pairs[qpn as usize] = Pair { rung: [vec![0], vec![0]], ..Pair::default() };
                }
                b.command = Some(c);
                running = Some(c);
            }
        }
        if !resting && asking.is_none() && rng.random_bool(0.02) {
            let qpn = rng.random_range(0..PAIRS as u32);
            let ask = match pairs[qpn as usize].index {
                Some(index) if rng.random_bool(0.7) => unbind(index, qpn),
                _ => bind(rng.random_range(0..8) | (qpn as u16) << 4, qpn),
            };
            b.bind = Some(ask);
            asking = Some(ask);
        }
        if !resting && rng.random_bool(pace) {
            let qpn = rng.random_range(0..PAIRS);
            let changing = running.is_some_and(|c| c.qpn as usize == qpn);
            if pairs[qpn].live && !changing {
                let (receive, index) = (rng.random(), rng.random());
                pairs[qpn].rung[usize::from(receive)].push(index);
                b.doorbell = Some((queue_tail(qpn as u16, index), receive));
            }
        }
        b.step();
        for (_, heard) in std::mem::take(&mut b.log) {
            match heard {
                Heard::Reply { status, .. } => {
                    let c = running.take().expect("a command");
                    let p = &mut pairs[c.qpn as usize];
                    if c.opcode & 1 == 0 {
                        assert_eq!(status, 0);
                        p.live = true;
                        lives += 1;
                    } else if status == 0 {
                        assert!(p.index.is_none());
                        *p = Pair::default();
                    } else {
                        assert_eq!(status, Status::Busy as i32);
                        busy += 1;
                    }
                }
                Heard::Bind(_, m) => {
                    let ask = asking.expect("asked");
                    assert_eq!(m.ask, ask);
                    assert_eq!(m.context, context(&create(ask.qpn)));
                    let p = &mut pairs[ask.qpn as usize];
                    if ask.unbind {
                        p.engines = 0;
                    } else {
                        p.index = Some(ask.index);
                        p.engines += 1;
                        p.last = [None; 2];
                    }
                }
                Heard::Posted { receive, index, posted } => {
                    let q = usize::from(index >> 4);
                    let p = &mut pairs[q];
                    assert!(p.index == Some(index) && p.engines == 3, "index {index} is not bound");
                    let r = usize::from(receive);
                    let from = p.heard[r];
                    let at = (from..p.rung[r].len()).rev().find(|i| p.rung[r][*i] == posted);
                    p.heard[r] = at.unwrap_or_else(|| panic!("{posted} of {:?}", &p.rung[r][from..]));
                    p.last[r] = Some(posted);
                    told += 1;
                }
                Heard::Bound { index, refused } => {
                    let ask = asking.take().expect("asked");
                    assert_eq!(index, ask.index);
                    let p = &mut pairs[ask.qpn as usize];
                    if refused {
                        refusals += 1;
                        let holds = p.index.is_some();
                        assert!(if ask.unbind { !holds } else { !p.live || holds || running.is_some() }, "{ask:?}");
                    } else if ask.unbind {
                        p.index = None;
                    } else {
                        assert!(p.last[0].is_some() && p.last[1].is_some(), "both indices come before the answer");
                        binds += 1;
                    }
                }
                Heard::Ended(_) => {}
            }
        }
        // at rest the last index of each bound queue was heard
        if b.now % 5000 == 4999 {
            assert!(asking.is_none() && running.is_none(), "all comes to an end");
            for (q, p) in pairs.iter().enumerate().filter(|(_, p)| p.index.is_some()) {
                for r in 0..2 {
                    assert_eq!(p.last[r].as_ref(), p.rung[r].last(), "queue {r} of {q}");
                }
            }
        }
    }
    println!("{told} told, {lives} made, {binds} bound, {refusals} refused, {busy} busy");
    // what was rung last in a life may come after its end, once a queue
    assert!(b.errors <= 2 * lives);
    assert!(told > 5000 && lives > 20 && binds > 100 && refusals > 100 && busy > 5);
}
