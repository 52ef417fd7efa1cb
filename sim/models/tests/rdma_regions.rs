// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::regions` beside a plain table: checks of three askers, commands, revocation under way.
use ironwarp_abi::work::access;
use ironwarp_abi::{Command, EventKind, Status};
use ironwarp_models::{bench, rdma_regions_small::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{btree_map::Entry, BTreeMap};

/// log2 of the entries of the model.
const M: u32 = 3;

const OK: u64 = 0;
const INVALID: u64 = 1;
const ASSOCIATION: u64 = 2;
const RIGHT: u64 = 3;
const WRAP: u64 = 4;
const BOUNDS: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ask {
    invalidate: bool,
    stag: u32,
    to: u64,
    len: u32,
    pd: u16,
    qpn: u16,
    need: u8,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    stag: u32,
    pd: u16,
    rights: u8,
    base: u64,
    iova: u64,
    length: u64,
    bound: Option<u16>,
    valid: bool,
}

/// The table in plain form, by entry.
#[derive(Clone, Default)]
struct Table(BTreeMap<u32, Region>);

fn entry(stag: u32) -> u32 {
    (stag >> 8) % (1 << M)
}

impl Table {
    fn valid(&self, stag: u32) -> Option<&Region> {
        self.0.get(&entry(stag)).filter(|r| r.stag == stag && r.valid)
    }
    /// Status, and address if it is Ok.
    fn judge(&self, a: &Ask) -> (u64, u64) {
        let Some(r) = self.valid(a.stag) else { return (INVALID, 0) };
        if r.pd != a.pd || r.bound.is_some_and(|qpn| qpn != a.qpn) {
            return (ASSOCIATION, 0);
        }
        if a.invalidate {
            return (if r.bound.is_some() && r.rights & access::REMOTE_INVALIDATE != 0 { OK } else { RIGHT }, 0);
        }
        let (first, last) = (u128::from(a.to), u128::from(a.to) + u128::from(a.len) - 1);
        if a.need & !r.rights != 0 {
            (RIGHT, 0)
        } else if last >= 1 << 64 {
            (WRAP, 0)
        } else if first < u128::from(r.base) || last >= u128::from(r.base) + u128::from(r.length) {
            (BOUNDS, 0)
        } else {
            (OK, r.iova.wrapping_add(a.to - r.base))
        }
    }
    fn invalidate(&mut self, stag: u32) {
        if let Some(r) = self.0.get_mut(&entry(stag)).filter(|r| r.stag == stag) {
            r.valid = false;
        }
    }
    fn command(&mut self, c: &Command) -> Status {
        let (stag, place) = (c.local_addr, entry(c.local_addr));
        if c.opcode & 1 == 1 {
            return match self.0.get(&place) {
                _ if c.flags != 0 => Status::Invalid,
                Some(r) if r.stag == stag => {
                    self.0.remove(&place);
                    Status::Ok
                }
                _ => Status::NoEntry,
            };
        }
        let region = Region {
            stag,
            pd: c.local_port,
            rights: c.flags & 15,
            base: u64::from(c.gateway) << 32 | u64::from(c.remote_addr),
            iova: c.data_addr,
            length: u64::from(c.data_len) << 32 | u64::from(c.timeout_us),
            bound: (c.flags & 16 != 0).then_some(c.qpn as u16),
            valid: true,
        };
        let passes = |from: u64| u128::from(from) + u128::from(region.length) > 1 << 64;
        let wide = region.bound.is_some() && c.qpn >> 16 != 0;
        if c.flags >> 5 != 0 || stag >> 8 == 0 || region.length == 0 || passes(region.base) || passes(region.iova) || wide {
            Status::Invalid
        } else if let Entry::Vacant(free) = self.0.entry(place) {
            free.insert(region);
            Status::Ok
        } else {
            Status::Exists
        }
    }
}

/// An asker's side: what it asks, and the accesses that it has under way.
#[derive(Default)]
struct Asker {
    offer: Option<Ask>,
    /// Taken and not answered; clock in which it was taken.
    asked: Option<(Ask, u64)>,
    /// Answers that it may have heard: what the table said while it was looked up.
    may: Vec<(u64, u64)>,
    takes: bool,
    /// STag and clock of the end of each access.
    open: Vec<(u32, u64)>,
    /// What stood on `answer` and was not taken.
    standing: Option<(u64, u64)>,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    now: u64,
    /// No test takes longer.
    limit: u64,
    table: Table,
    askers: [Asker; 3],
    command: Option<Command>,
    /// Its status.
    expected: Option<Status>,
    replies: Vec<(Command, i32)>,
    evt_ready: f64,
    taking: f64,
    /// Longest access.
    access: u64,
    /// A command was judged, so that its effect shows at some time from `since` on and until its reply; the table before.
    changing: Option<Table>,
    invalidated: u64,
    statuses: [u64; 6],
    latencies: BTreeMap<u64, u64>,
    done: u64,
    errors: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            now: 0,
            limit: 2_000_000,
            table: Table::default(),
            askers: Default::default(),
            command: None,
            expected: None,
            replies: vec![],
            evt_ready: 0.5,
            taking: 0.5,
            access: 40,
            changing: None,
            invalidated: 0,
            statuses: [0; 6],
            latencies: BTreeMap::new(),
            done: 0,
            errors: 0,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.ask_0_valid.set(false);
        self.m.ask_1_valid.set(false);
        self.m.ask_2_valid.set(false);
        self.m.cmd_valid.set(false);
        self.m.eval();
        self.m.tick();
        self.m.reset.set(false);
        self.table = Table::default();
        self.askers = Default::default();
        (self.command, self.changing) = (None, None);
        let mut clocks = 0;
        self.m.eval();
        while !self.m.ready.get() {
            self.m.tick();
            clocks += 1;
        }
        assert_eq!(clocks, 1 << M, "ready after a clock an entry");
    }
    fn busy(&self) -> bool {
        self.command.is_some() || self.askers.iter().any(|a| a.offer.is_some() || a.asked.is_some() || !a.open.is_empty())
    }
    fn step(&mut self) {
        assert!(self.now < self.limit, "it comes to an end");
        for (i, a) in self.askers.iter_mut().enumerate() {
            a.takes = a.standing.is_some() && self.rng.random_bool(self.taking) || self.rng.random_bool(self.taking);
            a.open.retain(|(_, end)| *end > self.now);
            let quiet = a.open.is_empty();
            let m = &mut self.m;
            macro_rules! drive {
                ($valid:ident, $op:ident, $stag:ident, $to:ident, $len:ident, $pd:ident, $qpn:ident, $need:ident, $ready:ident, $quiet:ident) => {{
                    m.$valid.set(a.offer.is_some());
                    if let Some(q) = a.offer {
                        m.$op.set(u64::from(q.invalidate));
                        m.$stag.set(q.stag.into());
                        m.$to.set(q.to);
                        m.$len.set(q.len.into());
                        m.$pd.set(q.pd.into());
                        m.$qpn.set(q.qpn.into());
                        m.$need.set(q.need.into());
                    }
                    m.$ready.set(a.takes);
                    m.$quiet.set(quiet);
                }};
            }
            match i {
                0 => drive!(
                    ask_0_valid,
                    ask_0_data_op,
                    ask_0_data_stag,
                    ask_0_data_to,
                    ask_0_data_len,
                    ask_0_data_pd,
                    ask_0_data_qpn,
                    ask_0_data_need,
                    answer_0_ready,
                    quiet_0
                ),
                1 => drive!(
                    ask_1_valid,
                    ask_1_data_op,
                    ask_1_data_stag,
                    ask_1_data_to,
                    ask_1_data_len,
                    ask_1_data_pd,
                    ask_1_data_qpn,
                    ask_1_data_need,
                    answer_1_ready,
                    quiet_1
                ),
                _ => drive!(
                    ask_2_valid,
                    ask_2_data_op,
                    ask_2_data_stag,
                    ask_2_data_to,
                    ask_2_data_len,
                    ask_2_data_pd,
                    ask_2_data_qpn,
                    ask_2_data_need,
                    answer_2_ready,
                    quiet_2
                ),
            }
        }
        let m = &mut self.m;
        m.cmd_valid.set(self.command.is_some());
        if let Some(c) = self.command {
            m.cmd_data_opcode.set(c.opcode.into());
            m.cmd_data_flags.set(c.flags.into());
            m.cmd_data_context.set(c.context.into());
            m.cmd_data_local_addr.set(c.local_addr.into());
            m.cmd_data_local_port.set(c.local_port.into());
            m.cmd_data_remote_addr.set(c.remote_addr.into());
            m.cmd_data_gateway.set(c.gateway.into());
            m.cmd_data_qpn.set(c.qpn.into());
            m.cmd_data_data_addr.set(c.data_addr);
            m.cmd_data_data_len.set(c.data_len.into());
            m.cmd_data_timeout_us.set(c.timeout_us.into());
        }
        m.evt_ready.set(self.rng.random_bool(self.evt_ready));
        m.eval();

        self.done += u64::from(m.cnt_cmd_done.get());
        self.errors += u64::from(m.cnt_cmd_errors.get());
        if m.evt_valid.get() && self.changing.is_some() {
            // nothing can touch the region any more once the end is told
            let c = self.command.expect("a reply to it");
            if c.opcode & 1 == 1 && m.evt_data_status.get() == 0 {
                self.no_access(c.local_addr);
            }
            self.changing = None;
        }
        let m = &self.m;
        if m.evt_valid.get() && m.evt_ready.get() {
            assert!(m.cmd_ready.get());
            let c = self.command.take().expect("a reply to it");
            assert_eq!((m.evt_data_kind.get(), m.evt_data_context.get()), (EventKind::CmdReply as u64, c.context.into()));
            let status = m.evt_data_status.get() as u32 as i32;
            assert_eq!(Some(status), self.expected.map(|s| s as i32), "{c:x?}");
            self.replies.push((c, status));
        } else {
            assert!(!m.cmd_ready.get());
        }
        let ready = [m.ask_0_ready.get(), m.ask_1_ready.get(), m.ask_2_ready.get()];
        let answers = [
            m.answer_0_valid.get().then(|| (m.answer_0_data_status.get(), m.answer_0_data_addr.get())),
            m.answer_1_valid.get().then(|| (m.answer_1_data_status.get(), m.answer_1_data_addr.get())),
            m.answer_2_valid.get().then(|| (m.answer_2_data_status.get(), m.answer_2_data_addr.get())),
        ];
        let mut asked = false;
        for i in 0..3 {
            assert!(self.askers[i].standing.is_none() || self.askers[i].standing == answers[i], "what is offered stays");
            let fresh = answers[i].is_some() && self.askers[i].standing.is_none();
            if fresh {
                self.heard(i, answers[i].expect("seen"));
            }
            let a = &mut self.askers[i];
            a.standing = answers[i].filter(|_| !a.takes);
            if let (Some((status, _)), true) = (answers[i], a.takes) {
                let (q, _) = a.asked.take().expect("an answer to a question");
                if status == OK && !q.invalidate {
                    a.open.push((q.stag, self.now + self.rng.random_range(2..=self.access)));
                }
            }
            if ready[i] && a.offer.is_some() {
                assert!(a.asked.is_none(), "one question at a time");
                let q = a.offer.take().expect("seen");
                a.asked = Some((q, self.now));
                a.may.clear();
                asked = true;
            }
        }
        if asked {
            self.look();
        }
        self.m.tick();
        self.now += 1;
    }
    /// An answer of asker `i` has come up: it must be what the table said at some time between question and answer.
    fn heard(&mut self, i: usize, answer: (u64, u64)) {
        let (q, since) = self.askers[i].asked.expect("an answer to a question");
        let a = &self.askers[i];
        let same = |may: &(u64, u64)| may.0 == answer.0 && (answer.0 != OK || q.invalidate || may.1 == answer.1);
        assert!(a.may.iter().any(same), "asker {i}: {q:x?} -> {answer:x?}, not of {:x?}", a.may);
        self.statuses[answer.0 as usize] += 1;
        if !q.invalidate {
            *self.latencies.entry(self.now - since).or_default() += 1;
        } else if answer.0 == OK {
            self.invalidated += 1;
            self.no_access(q.stag);
            self.table.invalidate(q.stag);
            if let Some(before) = &mut self.changing {
                before.invalidate(q.stag);
            }
        }
    }
    /// Adds to each question that is under way what the table may say to it now: the command and an `Invalidate` under way have shown, or have not.
    fn look(&mut self) {
        let mut tables: Vec<Table> = self.changing.iter().chain([&self.table]).cloned().collect();
        for i in 0..3 {
            if let Some((q, _)) = self.askers[i].asked {
                let may = tables.iter().map(|t| t.judge(&q));
                self.askers[i].may.extend(may);
                if q.invalidate {
                    let gone = tables.iter().filter(|t| t.judge(&q).0 == OK).cloned().map(|mut t| {
                        t.invalidate(q.stag);
                        t
                    });
                    let gone: Vec<_> = gone.collect();
                    tables.extend(gone);
                }
            }
        }
    }
    /// No access through `stag` that an answer allowed is under way, and none can begin.
    fn no_access(&self, stag: u32) {
        for (i, a) in self.askers.iter().enumerate() {
            assert!(a.open.iter().all(|(s, _)| *s != stag), "asker {i} is still at {stag:#x}");
            assert!(
                !a.standing.is_some_and(|s| s.0 == OK && a.asked.is_some_and(|(q, _)| !q.invalidate && q.stag == stag)),
                "asker {i} may begin"
            );
        }
    }
    fn post(&mut self, c: Command) {
        assert!(self.command.is_none());
        self.changing = Some(self.table.clone());
        self.expected = Some(self.table.command(&c));
        self.command = Some(Command { context: self.now as u32 ^ 0x5a5a_5a5a, ..c });
        self.look();
    }
    /// Carries a command out; its status must be the plain table's. Gives the clocks to the reply.
    fn run(&mut self, c: Command) -> (i32, u64) {
        let start = self.now;
        self.post(c);
        while self.command.is_some() {
            self.step();
            assert!(self.now < start + 5000, "it comes to an end");
        }
        let (_, status) = *self.replies.last().expect("one");
        (status, self.now - start)
    }
    fn ask(&mut self, i: usize, q: Ask) -> (u64, u64) {
        let start = self.now;
        self.askers[i].offer = Some(q);
        let takes = std::mem::replace(&mut self.taking, 1.0);
        loop {
            let answered = match i {
                0 => self.m.answer_0_valid.get(),
                1 => self.m.answer_1_valid.get(),
                _ => self.m.answer_2_valid.get(),
            };
            if answered {
                break;
            }
            self.step();
            assert!(self.now < start + 1000, "it is answered");
        }
        let answer = match i {
            0 => (self.m.answer_0_data_status.get(), self.m.answer_0_data_addr.get()),
            1 => (self.m.answer_1_data_status.get(), self.m.answer_1_data_addr.get()),
            _ => (self.m.answer_2_data_status.get(), self.m.answer_2_data_addr.get()),
        };
        self.step();
        self.taking = takes;
        answer
    }
}

fn check(stag: u32, to: u64, len: u32) -> Ask {
    Ask { invalidate: false, stag, to, len, pd: 7, qpn: 9, need: access::REMOTE_WRITE }
}

const ALL_RIGHTS: u8 = 15;

/// Covers: DDP-2, DDP-27
#[test]
fn checks_are_made_in_their_order_and_to_the_octet() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    b.access = 2;
    let (stag, base, length) = (0x00ab_cd12, 0xffff_fff0_u64, 0x1_0000_0011_u64);
    b.run(Command::register_mr(0, stag, 7, access::REMOTE_WRITE, base, 0x7777_0000_0003, length, Some(9)));
    let high = 0x00ab_ce01;
    b.run(Command::register_mr(0, high, 7, access::REMOTE_WRITE, u64::MAX - 99, 0x1000, 100, None));
    let end = base + length;
    let mut table = vec![];
    for (to, len, status) in [
        (base, 1, OK),
        (end - 1, 1, OK),
        (base, u32::MAX, OK),
        (end - 0xffff, 0xffff, OK),
        (base - 1, 1, BOUNDS),
        (base - 1, 2, BOUNDS),
        (end, 1, BOUNDS),
        (end - 1, 2, BOUNDS),
        (end - 0xffff, 0x1_0000, BOUNDS),
        (u64::MAX, 1, BOUNDS),
        (u64::MAX, 2, WRAP),
        (u64::MAX - 8, 10, WRAP),
        (0, 1, BOUNDS),
    ] {
        table.push((check(stag, to, len), status));
    }
    table.push((check(high, u64::MAX, 1), OK));
    table.push((check(high, u64::MAX - 99, 100), OK));
    table.push((check(high, u64::MAX - 99, 101), WRAP));
    table.push((check(high, u64::MAX - 100, 100), BOUNDS));
    // each with all later ones wrong as well
    let wrong = check(stag ^ 1, u64::MAX, 2);
    let wrong = Ask { pd: 8, qpn: 8, need: access::REMOTE_READ, ..wrong };
    table.push((wrong, INVALID));
    let wrong = Ask { stag, ..wrong };
    table.push((wrong, ASSOCIATION));
    table.push((Ask { pd: 7, ..wrong }, ASSOCIATION));
    table.push((Ask { qpn: 9, ..wrong }, ASSOCIATION));
    let wrong = Ask { pd: 7, qpn: 9, ..wrong };
    table.push((wrong, RIGHT));
    table.push((Ask { need: access::REMOTE_READ | access::REMOTE_WRITE, ..wrong }, RIGHT));
    table.push((Ask { need: 0, ..wrong }, WRAP));
    for (i, (q, status)) in table.into_iter().enumerate() {
        let answer = b.ask(i % 3, q);
        assert_eq!(answer.0, status, "{q:x?}");
        if status == OK {
            let (base, iova) = if q.stag == stag { (base, 0x7777_0000_0003) } else { (u64::MAX - 99, 0x1000) };
            assert_eq!(answer.1, iova + (q.to - base));
        }
    }
}

/// Covers: DDP-26
#[test]
fn a_region_is_for_its_protection_domain_and_if_bound_for_one_queue_pair_of_it() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, None));
    b.run(Command::register_mr(0, 0x200, 7, ALL_RIGHTS, 0, 0, 100, Some(9)));
    for (stag, pd, qpn, status) in [
        (0x100, 7, 9, OK),
        (0x100, 7, 10, OK),
        (0x100, 8, 9, ASSOCIATION),
        (0x100, 0x107, 9, ASSOCIATION),
        (0x200, 7, 9, OK),
        (0x200, 7, 10, ASSOCIATION),
        (0x200, 7, 0x8009, ASSOCIATION),
        (0x200, 8, 9, ASSOCIATION),
    ] {
        assert_eq!(b.ask(1, Ask { pd, qpn, ..check(stag, 0, 1) }).0, status, "{stag:#x} {pd} {qpn}");
    }
}

#[test]
fn every_bit_of_the_numbers_that_a_region_belongs_to_counts() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    for (stag, pd, qpn) in [(0x100, 0x5a3c, 0xc3a5), (0x200, !0x5a3c, !0xc3a5)] {
        b.run(Command::register_mr(0, stag, pd, ALL_RIGHTS, 0, 0, 100, Some(qpn)));
        for bit in 0..16 {
            let good = Ask { pd, qpn, ..check(stag, 0, 1) };
            assert_eq!(b.ask(bit % 3, good).0, OK);
            assert_eq!(b.ask(bit % 3, Ask { pd: pd ^ 1 << bit, ..good }).0, ASSOCIATION, "bit {bit} of the domain");
            assert_eq!(b.ask(bit % 3, Ask { qpn: qpn ^ 1 << bit, ..good }).0, ASSOCIATION, "bit {bit} of the queue pair");
            let invalidate = Ask { invalidate: true, ..good };
            assert_eq!(b.ask(0, Ask { pd: pd ^ 1 << bit, ..invalidate }).0, ASSOCIATION, "bit {bit} of the domain");
            assert_eq!(b.ask(0, Ask { qpn: qpn ^ 1 << bit, ..invalidate }).0, ASSOCIATION, "bit {bit} of the queue pair");
        }
        assert_eq!(b.ask(0, Ask { invalidate: true, pd, qpn, ..check(stag, 0, 1) }).0, OK);
    }
}

/// A region may end where all addresses end, and not behind, here and there.
#[test]
fn regions_end_with_the_addresses_whatever_their_length() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    let lengths = (0..48).flat_map(|bit| [1 << bit, (1u64 << bit) + 1, (1 << 48) - (1 << bit)]);
    for length in lengths.filter(|length| *length < 1 << 48) {
        let last = u64::MAX - (length - 1);
        for (base, iova, status) in
            [(last, last, 0), (last.wrapping_add(1), 0, Status::Invalid as i32), (0, last.wrapping_add(1), Status::Invalid as i32)]
        {
            // beginning at 0 it does not end there
            let status = if length == 1 { 0 } else { status };
            assert_eq!(
                b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, base, iova, length, None)).0,
                status,
                "{length:#x} {base:#x} {iova:#x}"
            );
            if status == 0 {
                b.run(Command::deregister_mr(0, 0x100));
            }
        }
    }
}

/// Every other key, and every index that shares the entry, is none; STag 0 and its keys cannot be had.
///
/// Covers: DDP-11
#[test]
fn every_bit_of_an_stag_counts() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    let stag = 0x5a00_0342_u32;
    b.run(Command::register_mr(0, stag, 7, ALL_RIGHTS, 0, 0, 100, None));
    for key in 0..256 {
        let status = b.ask(key as usize % 3, check(stag & !255 | key, 0, 1)).0;
        assert_eq!(status == OK, key == stag & 255, "key {key:#x}");
    }
    for bit in 0..32 {
        assert_eq!(b.ask(2, check(stag ^ 1 << bit, 0, 1)).0, INVALID, "bit {bit}");
        assert_eq!(b.run(Command::deregister_mr(0, stag ^ 1 << bit)).0, Status::NoEntry as i32, "bit {bit}");
    }
    assert_eq!(b.ask(2, check(stag, 0, 1)).0, OK);
    for stag in [0, 1, 255] {
        assert_eq!(b.run(Command::register_mr(0, stag, 7, ALL_RIGHTS, 0, 0, 100, None)).0, Status::Invalid as i32);
        assert_eq!(b.ask(0, check(stag, 0, 1)).0, INVALID);
    }
    // entry 0 is free all the same
    assert_eq!(b.run(Command::register_mr(0, 8 << 8, 7, ALL_RIGHTS, 0, 0, 100, None)).0, 0);
    assert_eq!(b.ask(0, check(8 << 8, 0, 1)).0, OK);
}

#[test]
fn commands_are_checked_as_a_whole() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    let good = Command::register_mr(0, 0x0a00_0101, 7, ALL_RIGHTS, 0x1000, 0x2000, 0xffff_ffff_ffff, Some(0xffff));
    let [invalid, exists, none] = [Status::Invalid as i32, Status::Exists as i32, Status::NoEntry as i32];
    for bad in [
        Command { flags: good.flags | 0x20, ..good },
        Command { flags: good.flags | 0x80, ..good },
        Command { qpn: 0x1_0000, ..good },
        Command { data_len: 0, timeout_us: 0, ..good },
        Command { local_addr: 0x01, ..good },
        Command { remote_addr: 0x0000_0002, gateway: 0xffff_0000, ..good },
        Command { data_addr: 0xffff_0000_0000_0002, ..good },
    ] {
        assert_eq!(b.run(bad).0, invalid, "{bad:x?}");
        assert_eq!(b.run(Command::deregister_mr(0, bad.local_addr)).0, none, "nothing was made");
    }
    // the last octet may be the last that there is; without BOUND nobody looks at the QPN
    assert_eq!(b.run(Command { remote_addr: 1, gateway: 0xffff_0000, data_addr: 0xffff_0000_0000_0001, ..good }).0, 0);
    assert_eq!(b.run(Command { flags: 1, qpn: 0xff_ffff, local_addr: 0x0a00_0201, ..good }).0, 0);
    assert_eq!(b.run(good).0, exists);
    assert_eq!(b.run(Command { local_addr: good.local_addr ^ 0x8000_0000, ..good }).0, exists, "shares the entry");
    assert_eq!(b.run(Command { flags: 1, ..Command::deregister_mr(0, good.local_addr) }).0, invalid);
    assert_eq!(b.run(Command::deregister_mr(0, good.local_addr)).0, 0);
    assert_eq!(b.run(Command::deregister_mr(0, good.local_addr)).0, none);
    assert_eq!(b.run(good).0, 0);
    b.reset();
    assert_eq!(b.run(Command::deregister_mr(0, good.local_addr)).0, none, "a reset ends all regions");
    let errors = b.replies.iter().filter(|(_, status)| *status != 0).count() as u64;
    assert_eq!((b.done, b.errors), (b.replies.len() as u64 - errors, errors));
}

/// Covers: RDM-5, RDM-37
#[test]
fn only_the_queue_pair_that_a_region_is_bound_to_can_invalidate_it_and_only_with_the_right() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    let (own, free, fixed) = (0x100, 0x200, 0x300);
    b.run(Command::register_mr(0, own, 7, ALL_RIGHTS, 0, 0, 100, Some(9)));
    b.run(Command::register_mr(0, free, 7, ALL_RIGHTS, 0, 0, 100, None));
    b.run(Command::register_mr(0, fixed, 7, ALL_RIGHTS & !access::REMOTE_INVALIDATE, 0, 0, 100, Some(9)));
    let invalidate = |stag| Ask { invalidate: true, ..check(stag, 0, 1) };
    assert_eq!(b.ask(0, invalidate(own | 1)).0, INVALID);
    assert_eq!(b.ask(0, Ask { qpn: 10, ..invalidate(own) }).0, ASSOCIATION);
    assert_eq!(b.ask(0, Ask { pd: 8, ..invalidate(own) }).0, ASSOCIATION);
    assert_eq!(b.ask(0, Ask { pd: 8, ..invalidate(free) }).0, ASSOCIATION);
    assert_eq!(b.ask(0, invalidate(free)).0, RIGHT);
    assert_eq!(b.ask(0, invalidate(fixed)).0, RIGHT);
    for stag in [own, free, fixed] {
        assert_eq!(b.ask(1, check(stag, 0, 1)).0, OK, "nothing has changed");
    }
    assert_eq!(b.ask(0, invalidate(own)).0, OK);
    assert_eq!(b.ask(0, invalidate(own)).0, INVALID, "once");
    for i in 0..3 {
        assert_eq!(b.ask(i, check(own, 0, 1)).0, INVALID);
    }
    // the host still has the number, until it gives it back
    assert_eq!(b.run(Command::register_mr(0, own | 1, 7, ALL_RIGHTS, 0, 0, 100, None)).0, Status::Exists as i32);
    assert_eq!(b.run(Command::deregister_mr(0, own)).0, 0);
    assert_eq!(b.run(Command::register_mr(0, own | 1, 7, ALL_RIGHTS, 0, 0, 100, None)).0, 0);
    assert_eq!(b.ask(1, check(own | 1, 0, 1)).0, OK);
}

/// While an asker has an access under way that was allowed, the end of the region is not told: not to the host, not to the asker that invalidates.
///
/// Covers: DDP-12
#[test]
fn the_end_of_a_region_is_told_when_every_access_has_ended() {
    for (asker, remote) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
        let mut b = Bench::new(bench::seed("rdma_regions"));
        b.evt_ready = 1.0;
        b.access = 2;
        b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, Some(9)));
        assert_eq!(b.ask(asker, check(0x100, 0, 1)).0, OK);
        let end = b.now + 300;
        b.askers[asker].open[0].1 = end;
        if remote {
            assert_eq!(b.ask(0, Ask { invalidate: true, ..check(0x100, 0, 1) }).0, OK);
        } else {
            b.run(Command::deregister_mr(0, 0x100));
        }
        assert!((end..end + 12).contains(&b.now), "asker {asker}: told {} clocks after the end", b.now as i64 - end as i64);
    }
}

/// An answer that the asker has not taken yet, and a question that is being looked up, count as well.
///
/// Covers: DDP-12
#[test]
fn an_answer_under_way_is_an_access() {
    for wait in 0..20 {
        for asker in 0..3 {
            let mut b = Bench::new(bench::seed("rdma_regions"));
            (b.evt_ready, b.taking) = (1.0, 0.0);
            b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, None));
            b.post(Command::deregister_mr(0, 0x100));
            for _ in 0..wait {
                b.step();
            }
            b.askers[asker].offer = Some(check(0x100, 0, 1));
            for _ in 0..100 {
                b.step();
            }
            // the questions that came before the entry was written are held up by the taker, and hold up the end
            let allowed = b.askers[asker].standing.is_some_and(|s| s.0 == OK);
            assert_eq!(b.command.is_some(), allowed, "asker {asker} after {wait}");
            b.taking = 1.0;
            while b.busy() {
                b.step();
            }
        }
    }
}

/// Askers that always have something under way and always ask for more cannot keep a region alive.
///
/// Covers: DDP-12
#[test]
fn revocation_ends_while_everybody_goes_on_asking() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    (b.evt_ready, b.taking, b.access) = (1.0, 1.0, 40);
    let mut worst = 0;
    for round in 0..200 {
        b.post(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, Some(9)));
        let start = b.now;
        let mut begun = None;
        loop {
            for i in 0..3 {
                if b.askers[i].offer.is_none() && b.askers[i].asked.is_none() {
                    b.askers[i].offer = Some(check(0x100, 0, 1));
                }
            }
            b.step();
            if b.command.is_none() && b.now == start + 100 + round % 7 {
                b.post(Command::deregister_mr(0, 0x100));
                begun = Some(b.now);
            }
            if let (Some(t), None) = (begun, b.command) {
                worst = worst.max(b.now - t);
                break;
            }
            assert!(b.now < start + 1000, "it comes to an end");
        }
    }
    println!("DEREGISTER_MR under load: at most {worst} clocks, accesses of at most 40");
    assert!(worst <= 40 + 25, "{worst}");
}

/// Clocks of the module's description.
#[test]
fn times_are_those_of_the_description() {
    let mut b = Bench::new(bench::seed("rdma_regions"));
    (b.evt_ready, b.taking, b.access) = (1.0, 1.0, 2);
    println!("REGISTER_MR {} clocks", b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, Some(9))).1);
    // three askers that ask whenever they may
    let (start, before) = (b.now, b.statuses[0]);
    for _ in 0..600 {
        for i in 0..3 {
            if b.askers[i].offer.is_none() && b.askers[i].asked.is_none() {
                b.askers[i].offer = Some(check(0x100, 0, 1));
            }
        }
        b.step();
    }
    let answers = b.statuses[0] - before;
    println!("{answers} answers in {} clocks; {:?}", b.now - start, b.latencies);
    assert!(answers >= 3 * 600 / 7 - 3);
    assert_eq!(b.latencies.keys().collect::<Vec<_>>(), [&5]);
    while b.busy() {
        b.step();
    }
    let before = b.now;
    b.ask(0, Ask { invalidate: true, ..check(0x100, 0, 1) });
    println!("Invalidate {} clocks", b.now - before);
    let clocks = b.run(Command::deregister_mr(0, 0x100)).1;
    println!("DEREGISTER_MR {clocks} clocks");
    // a slow taker holds up nobody else
    b.run(Command::register_mr(0, 0x100, 7, ALL_RIGHTS, 0, 0, 100, Some(9)));
    b.taking = 0.0;
    b.askers[0].offer = Some(check(0x100, 0, 1));
    for _ in 0..20 {
        b.step();
    }
    assert_eq!(b.ask(1, check(0x100, 0, 1)).0, OK);
}

/// All at once, at random, against the plain table.
#[test]
fn random_questions_and_commands() {
    let seed = bench::seed("rdma_regions");
    let mut b = Bench::new(seed);
    let clocks = std::env::var("CLOCKS").ok().and_then(|c| c.parse().ok()).unwrap_or(200_000);
    b.limit += clocks as u64;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let bases = [0u64, 0x1000, 0xffff_fff0, u64::MAX - 0xfff];
    for clock in 0..clocks {
        if clock % 1000 == 0 {
            (b.evt_ready, b.taking) = (*[0.05, 0.5, 1.0].get(clock / 1000 % 3).expect("one"), [0.2, 1.0, 0.6, 1.0][clock / 3000 % 4]);
            b.access = [3, 40, 150][clock / 2000 % 3];
            if clock % 50_000 == 49_000 {
                b.reset();
            }
        }
        let stag = |rng: &mut ChaCha8Rng| rng.random_range(0u32..16) << 8 | rng.random_range(0..2);
        if b.command.is_none() && rng.random_bool(0.05) {
            let c = if rng.random_bool(0.6) {
                let bound = rng.random_bool(0.7).then(|| rng.random_range(0..3));
                let length = if rng.random_bool(0.05) { rng.random_range(0..1 << 48) } else { rng.random_range(1..0x2000) };
                let [base, iova] =
                    [bases[rng.random_range(0..4)] + rng.random_range(0..16), rng.random::<u64>() >> rng.random_range(0..48)];
                Command::register_mr(0, stag(&mut rng), rng.random_range(0..2), rng.random_range(0..16), base, iova, length, bound)
            } else {
                Command::deregister_mr(0, stag(&mut rng))
            };
            b.post(c);
        }
        for i in 0..3 {
            if b.askers[i].offer.is_some() || b.askers[i].asked.is_some() || !rng.random_bool(0.5) {
                continue;
            }
            let known: Vec<Region> = b.table.0.values().copied().collect();
            let mut q = Ask {
                invalidate: i == 0 && rng.random_bool(0.05),
                stag: stag(&mut rng),
                to: bases[rng.random_range(0..4)].wrapping_add(rng.random_range(0..0x1000)),
                len: rng.random_range(1..0x1800),
                pd: rng.random_range(0..2),
                qpn: rng.random_range(0..3),
                need: 1 << rng.random_range(0..4),
            };
            if !known.is_empty() && rng.random_bool(0.8) {
                let r = known[rng.random_range(0..known.len())];
                let to = r.base.wrapping_add(rng.random_range(0..r.length));
                let left = (r.length - (to - r.base)).min(u32::MAX.into()) as u32;
                q = Ask { stag: r.stag, to, len: rng.random_range(1..=left.max(1)), pd: r.pd, ..q };
                q.qpn = r.bound.unwrap_or(q.qpn);
                if rng.random_bool(0.1) {
                    q.len = left.saturating_add(1);
                }
                if rng.random_bool(0.8) {
                    q.need &= r.rights;
                }
            }
            b.askers[i].offer = Some(q);
        }
        b.step();
    }
    while b.busy() {
        b.step();
    }
    println!("{:?} invalidated {}, commands {} ok {} refused", b.statuses, b.invalidated, b.done, b.errors);
    assert!(b.statuses.iter().all(|n| *n > 20), "{:?}", b.statuses);
    assert!(b.invalidated > 20 && b.done > 200);
}
