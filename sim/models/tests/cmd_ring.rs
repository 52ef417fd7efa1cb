// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::cmd_ring` behind a ring in host memory, with a host of random latency.
use ironwarp_abi::{Command, Handle};
use ironwarp_models::bench::{Memory, ReadHost};
use ironwarp_models::{bench, cmd_ring::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: ReadHost,
    base: u64,
    log2: u32,
    /// Commands in the ring that the engine has not taken.
    expect: VecDeque<Command>,
    tail: u16,
    taken: u64,
    /// Chance that the engine is not ready.
    busy: f64,
    doorbell: Option<u32>,
    errors: u64,
    shown: bool,
}

fn random_command(rng: &mut ChaCha8Rng) -> Command {
    Command {
        opcode: rng.random(),
        flags: rng.random(),
        context: rng.random(),
        handle: Handle(rng.random::<u64>() & !0xff00_0000),
        local_addr: rng.random(),
        local_port: rng.random(),
        remote_port: rng.random(),
        remote_addr: rng.random(),
        gateway: rng.random(),
        backlog_half_open: rng.random(),
        backlog_accept: rng.random(),
        qpn: rng.random_range(0..1 << 24),
        data_addr: rng.random(),
        data_len: rng.random(),
        ird: rng.random(),
        ord: rng.random(),
        tos: rng.random(),
        timeout_us: rng.random(),
    }
}

impl Bench {
    fn new(seed: u64, base: u64, log2: u32, host: ReadHost, busy: f64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut b = Bench {
            m: Model::new(seed),
            rng,
            memory: Memory::default(),
            host,
            base,
            log2,
            expect: VecDeque::new(),
            tail: 0,
            taken: 0,
            busy,
            doorbell: None,
            errors: 0,
            shown: false,
        };
        b.m.base_lo.set(base as u32);
        b.m.base_hi.set((base >> 32) as u32);
        b.m.log2.set(log2);
        b.reset();
        b.m.enabled.set(true);
        b
    }
    /// The ring and what stands around it: the arbiter throws late answers away.
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.tail.set(false);
        self.m.beat_valid.set(false);
        self.m.tick();
        self.m.reset.set(false);
        self.m.eval();
        let failing = self.host.failing;
        self.host = ReadHost::new(self.host.latency.clone(), self.host.busy);
        self.host.failing = failing;
        self.expect.clear();
        (self.tail, self.shown) = (0, false);
        assert_eq!((self.m.head.get(), self.m.stopped.get(), self.m.command_valid.get()), (0, false, false));
    }
    fn size(&self) -> u16 {
        1 << self.log2
    }
    /// The address of entry `index`.
    fn slot(&self, index: u16) -> u64 {
        (self.base & !63) + 64 * u64::from(index % self.size())
    }
    fn room(&self) -> u16 {
        self.size() - self.expect.len() as u16
    }
    /// Puts a random command in the ring, without a doorbell.
    fn produce(&mut self) {
        let mut c = random_command(&mut self.rng);
        let mut entry = c;
        if self.rng.random_ratio(1, 4) {
            // one of the bits that are 0 in every handle
            entry.handle.0 |= 1 << self.rng.random_range(24..32);
            c.handle.0 &= !0xff_0000;
        }
        self.memory.put(self.slot(self.tail), &entry.encode());
        self.expect.push_back(c);
        self.tail = self.tail.wrapping_add(1);
    }
    /// As the module's outputs have it; only while `command_valid`.
    fn command(&self) -> Command {
        let m = &self.m;
        Command {
            opcode: m.command_data_opcode.get() as u8,
            flags: m.command_data_flags.get() as u8,
            context: m.command_data_context.get() as u32,
            handle: Handle(m.command_data_index.get() | m.command_data_kind.get() << 16 | m.command_data_generation.get() << 32),
            local_addr: m.command_data_local_addr.get() as u32,
            local_port: m.command_data_local_port.get() as u16,
            remote_port: m.command_data_remote_port.get() as u16,
            remote_addr: m.command_data_remote_addr.get() as u32,
            gateway: m.command_data_gateway.get() as u32,
            backlog_half_open: m.command_data_backlog_half_open.get() as u16,
            backlog_accept: m.command_data_backlog_accept.get() as u16,
            qpn: m.command_data_qpn.get() as u32,
            data_addr: m.command_data_data_addr.get(),
            data_len: m.command_data_data_len.get() as u16,
            ird: m.command_data_ird.get() as u16,
            ord: m.command_data_ord.get() as u16,
            tos: m.command_data_tos.get() as u8,
            timeout_us: m.command_data_timeout_us.get() as u32,
        }
    }
    fn clock(&mut self) {
        let (ready, beat) = self.host.offer(&self.memory, &mut self.rng);
        self.m.req_ready.set(ready);
        self.m.beat_valid.set(beat.is_some());
        if let Some(b) = beat {
            self.m.beat_data_data.set(b.data);
            self.m.beat_data_last.set(b.last.into());
            self.m.beat_data_error.set(b.error.into());
        }
        let doorbell = self.doorbell.take();
        self.m.tail.set(doorbell.is_some());
        self.m.tail_value.set(doorbell.unwrap_or(0xffff_ffff));
        self.m.command_ready.set(!self.rng.random_bool(self.busy));
        self.m.eval();
        assert!(!self.shown || self.m.command_valid.get(), "what is offered stays");
        if self.m.command_valid.get() {
            // every clock, so that what is offered does not change either
            assert_eq!(Some(&self.command()), self.expect.front(), "command {}", self.taken);
        }
        let took = self.m.command_valid.get() && self.m.command_ready.get();
        self.shown = self.m.command_valid.get() && !took;
        let request = (self.m.req_valid.get() && ready).then(|| (self.m.req_data_addr.get(), self.m.req_data_len.get() as u16));
        if let Some((addr, len)) = request {
            let end = (self.base & !63) + 64 * u64::from(self.size());
            assert!(addr % 64 == 0 && len == 64 && addr >= self.base & !63 && addr + 64 <= end, "read of {addr:#x}: outside the ring");
        }
        assert!(beat.is_none() || self.m.beat_ready.get(), "the ring never holds up the read port");
        self.host.step(request, beat.is_some(), &mut self.rng);
        self.m.tick();
        if took {
            self.expect.pop_front();
            self.taken += 1;
        }
        self.errors += u64::from(self.m.cnt_doorbell_errors.get());
    }
    fn clocks(&mut self, n: usize) {
        for _ in 0..n {
            self.clock();
        }
    }
    fn ring(&mut self, index: u32) {
        self.doorbell = Some(index);
        self.clock();
    }
    fn drain(&mut self) {
        for _ in 0..200_000 {
            if self.expect.is_empty() {
                self.clocks(20);
                assert_eq!(self.m.head.get(), self.tail);
                return;
            }
            self.clock();
        }
        panic!("{} commands never came", self.expect.len());
    }
}

/// The layout of the ring entry on both sides: `Command::encode` in host memory, fields at the engine. A handle that has more than index,
/// kind and generation comes without a kind, so that it is nobody's.
///
/// Covers: CM-32, DEF-37
#[test]
fn every_field_of_every_command_arrives_in_order() {
    let seed = bench::seed("cmd_ring");
    for (round, (base, log2, latency, host_busy, busy)) in [
        (0x1000, 2, 0..1, 0.0, 0.0),
        (0xffff_ffff_f000, 2, 0..40, 0.3, 0.5),
        (0xffff_ff80, 5, 10..200, 0.1, 0.1),
        (0x7f, 8, 0..3, 0.0, 0.9),
        (0x1234_5678_0000, 12, 0..60, 0.0, 0.0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut b = Bench::new(seed + round as u64, base, log2, ReadHost::new(latency, host_busy), busy);
        for _ in 0..300 {
            let n = b.rng.random_range(0..=b.room().min(40));
            (0..n).for_each(|_| b.produce());
            // bits 31:16 of the register are not looked at
            let junk: u16 = b.rng.random();
            b.ring(u32::from(junk) << 16 | u32::from(b.tail));
            let wait = b.rng.random_range(0..300);
            b.clocks(wait);
        }
        b.drain();
        assert!(b.taken > 500);
        assert_eq!(b.errors, 0);
        assert_eq!(b.host.requests.len() as u64, b.taken, "each entry is read once");
    }
}

#[test]
fn the_index_wraps_at_2_to_the_16() {
    let mut b = Bench::new(bench::seed("cmd_ring"), 0x4_0000, 12, ReadHost::new(0..1, 0.0), 0.0);
    for _ in 0..17 {
        let n = b.room();
        (0..n).for_each(|_| b.produce());
        b.ring(b.tail.into());
        b.drain();
    }
    assert_eq!(b.taken, 17 << 12, "more than 2^16");
}

#[test]
fn a_full_ring_is_taken_whole() {
    let mut b = Bench::new(bench::seed("cmd_ring"), 0x4000, 2, ReadHost::new(20..21, 0.0), 0.0);
    for _ in 0..100 {
        (0..4).for_each(|_| b.produce());
        b.ring(b.tail.into());
        b.drain();
    }
    assert_eq!((b.taken, b.errors), (400, 0));
}

#[test]
fn a_doorbell_out_of_range_or_back_is_ignored_and_counted() {
    let seed = bench::seed("cmd_ring");
    for log2 in [2, 4, 12] {
        let mut b = Bench::new(seed, 0x10_0000, log2, ReadHost::new(0..10, 0.2), 0.99);
        for _ in 0..600 {
            let n = b.rng.random_range(0..=b.room().min(9));
            (0..n).for_each(|_| b.produce());
            b.ring(b.tail.into());
            b.clocks(4);
            let head = b.m.head.get();
            let pending = b.tail.wrapping_sub(head);
            let index: u16 = b.rng.random();
            let ahead = index.wrapping_sub(head);
            let errors = b.errors;
            // the engine must not take anything while the doorbell is judged
            let busy = std::mem::replace(&mut b.busy, 1.0);
            if ahead > b.size() || ahead < pending {
                b.ring(index.into());
                b.clocks(4);
                assert_eq!(b.errors, errors + 1, "doorbell {index}, head {head}, tail {}", b.tail);
            }
            // the nearest wrong ones
            for wrong in [head.wrapping_add(b.size()).wrapping_add(1), b.tail.wrapping_sub(1)] {
                if wrong.wrapping_sub(head) > b.size() || wrong.wrapping_sub(head) < pending {
                    let errors = b.errors;
                    b.ring(wrong.into());
                    b.clocks(4);
                    assert_eq!(b.errors, errors + 1, "doorbell {wrong}, head {head}, tail {}", b.tail);
                }
            }
            b.busy = busy;
            // `clock` finds out if anything but the commands in the ring comes
            b.clocks(100);
        }
        b.busy = 0.0;
        b.drain();
        assert_eq!(b.host.requests.len() as u64, b.taken, "nothing else was read");
    }
}

#[test]
fn garbage_doorbells_never_lead_outside_the_ring() {
    let seed = bench::seed("cmd_ring");
    let mut b = Bench::new(seed, 0x10_0000, 3, ReadHost::new(0..10, 0.2), 1.0);
    // whatever the entries hold: only addresses are checked here, by `clock`
    for log2 in [0, 1, 13, 14, 31, 32, 0x102, u32::MAX, 3] {
        b.m.log2.set(log2);
        b.log2 = if (2..=12).contains(&log2) { log2 } else { 2 };
        b.reset();
        b.m.tick();
        // the engine takes nothing, so what it sees is the first entry
        let words: Vec<u64> = (0..8).map(|i| b.memory.word(b.slot(0) + 8 * i)).collect();
        let dwords: Vec<u32> = words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect();
        let c = Command::decode(&dwords.try_into().expect("16 dwords"));
        b.expect.push_back(Command { handle: Handle(c.handle.0 & !0xff00_0000), ..c });
        for _ in 0..200 {
            b.doorbell = Some(b.rng.random());
            b.clock();
        }
        b.clocks(500);
        assert!(b.errors > 0);
    }
}

#[test]
fn nothing_is_fetched_before_enable() {
    let mut b = Bench::new(bench::seed("cmd_ring"), 0x4000, 2, ReadHost::new(0..1, 0.0), 0.0);
    b.m.enabled.set(false);
    (0..3).for_each(|_| b.produce());
    b.ring(b.tail.into());
    b.clocks(100);
    assert!(b.host.requests.is_empty());
    b.m.enabled.set(true);
    b.drain();
    assert_eq!(b.taken, 3);
}

#[test]
fn a_failed_read_stops_the_ring_until_a_reset() {
    let seed = bench::seed("cmd_ring");
    let mut b = Bench::new(seed, 0x4000, 4, ReadHost::new(0..30, 0.2), 0.3);
    for round in 0..200 {
        b.host.failing = 0.05;
        let before = b.taken;
        for _ in 0..400 {
            let n = b.rng.random_range(0..=b.room());
            (0..n).for_each(|_| b.produce());
            b.ring(b.tail.into());
            b.clocks(20);
            if b.m.stopped.get() {
                break;
            }
        }
        assert!(b.m.stopped.get(), "round {round}");
        let taken = b.taken - before;
        b.clocks(500);
        assert!(!b.m.command_valid.get() && b.m.stopped.get());
        assert_eq!(b.taken - before, taken, "the entries before the failed one were taken, nothing after it");
        assert_eq!(u64::from(b.m.head.get()), taken & 0xffff);
        let requests = b.host.requests.len();
        b.ring(b.tail.into());
        b.clocks(200);
        assert_eq!(b.host.requests.len(), requests, "nothing more is fetched");
        assert_eq!(b.host.outstanding(), 0);
        b.reset();
    }
    b.host.failing = 0.0;
    (0..16).for_each(|_| b.produce());
    b.ring(16);
    b.drain();
}

#[test]
fn reset_in_the_middle_of_anything_starts_from_an_empty_ring() {
    let seed = bench::seed("cmd_ring");
    let mut b = Bench::new(seed, 0x4000, 4, ReadHost::new(0..30, 0.2), 0.3);
    for _ in 0..500 {
        let n = b.rng.random_range(0..=16);
        (0..n).for_each(|_| b.produce());
        b.ring(b.tail.into());
        let wait = b.rng.random_range(0..120);
        b.clocks(wait);
        b.reset();
    }
    (0..16).for_each(|_| b.produce());
    b.ring(16);
    b.drain();
}

/// The figures of the module's header, and how many DMA latencies are hidden.
#[test]
fn doorbell_to_command_costs_few_clocks_beside_the_dma() {
    let mut b = Bench::new(1, 0x4000, 4, ReadHost::new(0..1, 0.0), 1.0);
    b.produce();
    b.ring(1);
    let mut clocks = 0;
    while b.host.requests.is_empty() && clocks < 100 {
        b.clock();
        clocks += 1;
    }
    // `clocks` counts the one in which the request was taken
    assert_eq!(clocks, 3, "strobe to request");
    b.clocks(8);
    assert_eq!(b.host.outstanding(), 0, "one beat a clock");
    let mut clocks = 0;
    while !b.m.command_valid.get() && clocks < 100 {
        b.clock();
        clocks += 1;
    }
    assert_eq!(clocks, 2, "last beat to command");
    let mut b = Bench::new(1, 0x4000, 4, ReadHost::new(0..1, 0.0), 0.0);
    (0..16).for_each(|_| b.produce());
    b.ring(16);
    let mut clocks = 0;
    while b.taken < 16 && clocks < 1000 {
        b.clock();
        clocks += 1;
    }
    println!("16 commands in {clocks} clocks without latency");
    assert!(clocks <= 16 * 9 + 12, "{clocks}");
}
