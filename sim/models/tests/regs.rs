// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::regs` against the register lists of `ironwarp_abi`.
use ironwarp_abi::{reg, Counter};
use ironwarp_models::{bench, regs::Model, Dut};
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

/// Clocks of a read of a register, from taking to answer.
const READ: u32 = 3;

struct Bench {
    m: Model,
    /// Strobes that were seen: name and value.
    strobes: Vec<(&'static str, u32)>,
    /// Counter reads that were served, and the clocks each takes.
    counters: Vec<(u8, bool)>,
    counter_latency: u32,
    counter_wait: u32,
}

macro_rules! strobe_seen { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    fn strobes(m: &Model) -> Vec<&'static str> {
        let mut seen = vec![];
        $(if m.$field.get() { seen.push(stringify!($name)); })*
        seen
    }
} }
ironwarp_abi::for_each_strobe_register!(strobe_seen);
macro_rules! config_output { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    fn output(m: &Model, offset: u32) -> u32 {
        match offset { $($offset => m.$field.get(),)* _ => panic!("no configuration register at {offset:#x}") }
    }
} }
ironwarp_abi::for_each_config_register!(config_output);
macro_rules! status_input { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    fn drive(m: &mut Model, offset: u32, value: u32) {
        match offset { $($offset => m.$field.set(value),)* _ => panic!("no status register at {offset:#x}") }
    }
} }
ironwarp_abi::for_each_status_register!(status_input);

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench { m: Model::new(seed), strobes: vec![], counters: vec![], counter_latency: 1, counter_wait: 0 };
        // an access in progress would outlive the reset
        b.m.mmio_read.set(false);
        b.m.mmio_write.set(false);
        b.m.reset.set(true);
        b.clock();
        b.m.reset.set(false);
        b.clock();
        b
    }
    fn clock(&mut self) {
        self.m.eval();
        let reading = self.m.counter_read.get();
        self.counter_wait = if reading { self.counter_wait + 1 } else { 0 };
        let done = reading && self.counter_wait >= self.counter_latency;
        self.m.counter_done.set(done);
        self.m.counter_data.set(if done { counter_word(self.m.counter_index.get(), self.m.counter_high.get()) } else { 0xdead_beef });
        if done {
            self.counters.push((self.m.counter_index.get(), self.m.counter_high.get()));
            self.counter_wait = 0;
        }
        self.m.tick();
        for name in strobes(&self.m) {
            self.strobes.push((name, self.m.strobe_value.get()));
        }
    }
    fn write(&mut self, addr: u32, value: u32) {
        self.m.mmio_addr.set(addr as u16);
        self.m.mmio_wdata.set(value);
        self.m.mmio_write.set(true);
        self.m.eval();
        assert!(self.m.mmio_ready.get(), "writes are taken every clock");
        self.clock();
        self.m.mmio_write.set(false);
    }
    /// Value and clocks.
    fn read_timed(&mut self, addr: u32) -> (u32, u32) {
        self.m.mmio_addr.set(addr as u16);
        self.m.mmio_read.set(true);
        self.m.eval();
        assert!(self.m.mmio_ready.get());
        self.clock();
        self.m.mmio_read.set(false);
        for clocks in 1..1000 {
            self.m.eval();
            if self.m.mmio_rvalid.get() {
                let value = self.m.mmio_rdata.get();
                self.clock();
                assert!(!self.m.mmio_rvalid.get(), "one answer a read");
                return (value, clocks);
            }
            assert!(!self.m.mmio_ready.get(), "nothing is taken between a read and its answer");
            self.clock();
        }
        panic!("no answer to a read of {addr:#x}")
    }
    fn read(&mut self, addr: u32) -> u32 {
        self.read_timed(addr).0
    }
}

fn counter_word(index: u8, high: bool) -> u32 {
    0x1000_0000 + 2 * u32::from(index) + u32::from(high)
}

#[test]
fn every_register_of_the_list_answers_with_its_reset_value_and_keeps_what_is_written() {
    let seed = bench::seed("regs");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed);
    for r in reg::CONFIG {
        assert_eq!(b.read_timed(r.offset), (r.reset, READ), "{} after reset", r.name);
        assert_eq!(output(&b.m, r.offset), r.reset, "{} as output", r.name);
    }
    let mut model: HashMap<u32, u32> = reg::CONFIG.iter().map(|r| (r.offset, r.reset)).collect();
    for _ in 0..2000 {
        let r = &reg::CONFIG[rng.random_range(0..reg::CONFIG.len())];
        let value = rng.random();
        b.write(r.offset, value);
        model.insert(r.offset, value);
        if rng.random_bool(0.3) {
            // right behind the write
            let r = &reg::CONFIG[rng.random_range(0..reg::CONFIG.len())];
            assert_eq!(b.read(r.offset), model[&r.offset], "{}", r.name);
        }
    }
    b.clock();
    for r in reg::CONFIG {
        assert_eq!(output(&b.m, r.offset), model[&r.offset], "{} as output", r.name);
        assert_eq!(b.read(r.offset), model[&r.offset], "{}", r.name);
    }
    assert!(b.strobes.is_empty(), "configuration gives no strobe");
    b.m.reset.set(true);
    b.clock();
    b.m.reset.set(false);
    for r in reg::CONFIG {
        assert_eq!(b.read(r.offset), r.reset, "{} after a second reset", r.name);
    }
}

#[test]
fn each_write_of_a_strobe_register_gives_one_strobe_with_the_value() {
    let mut b = Bench::new(1);
    let mut expect = vec![];
    for (i, r) in reg::STROBES.iter().cycle().take(40).enumerate() {
        b.write(r.offset, 0x5a00_0000 + i as u32);
        expect.push((r.name, 0x5a00_0000 + i as u32));
    }
    for _ in 0..4 {
        b.clock();
    }
    assert_eq!(b.strobes, expect);
    for r in reg::STROBES {
        assert_eq!(b.read(r.offset), 0, "{} reads 0", r.name);
    }
    assert_eq!(b.strobes.len(), expect.len(), "a read is no strobe");
}

#[test]
fn status_registers_show_the_inputs_and_ignore_writes() {
    let mut b = Bench::new(1);
    for (i, r) in reg::STATUSES.iter().enumerate() {
        drive(&mut b.m, r.offset, 0xa5a5_0000 + i as u32);
    }
    for r in reg::STATUSES {
        b.write(r.offset, 0xffff_ffff);
    }
    for (i, r) in reg::STATUSES.iter().enumerate() {
        assert_eq!(b.read_timed(r.offset), (0xa5a5_0000 + i as u32, READ), "{}", r.name);
    }
    for r in reg::CONFIG {
        assert_eq!(b.read(r.offset), r.reset, "{} untouched", r.name);
    }
    assert!(b.strobes.is_empty());
}

#[test]
fn unlisted_and_unaligned_addresses_read_0_and_write_nothing() {
    let mut b = Bench::new(1);
    for r in reg::STATUSES {
        drive(&mut b.m, r.offset, 0xffff_ffff);
    }
    let listed: Vec<u32> = reg::CONFIG.iter().chain(reg::STROBES).chain(reg::STATUSES).map(|r| r.offset).collect();
    let in_counters = |a: u32| (reg::COUNTERS..reg::COUNTERS + 1024).contains(&a);
    for addr in (0..0x1_0000).filter(|a| a % 4 != 0 || !(listed.contains(a) || in_counters(*a))) {
        // all of the first 4 pages, a sample of the rest
        if addr < 0x4000 || addr % 61 == 0 {
            b.write(addr, 0xffff_ffff);
            assert_eq!(b.read(addr), 0, "address {addr:#x}");
        }
    }
    assert!(b.counters.is_empty() && b.strobes.is_empty());
    for r in reg::CONFIG {
        assert_eq!(b.read(r.offset), r.reset, "{} untouched", r.name);
    }
}

#[test]
fn the_counter_window_asks_for_the_right_half_and_waits_for_it() {
    let mut b = Bench::new(1);
    for latency in [1, 2, 7, 100] {
        b.counter_latency = latency;
        b.counters.clear();
        for c in Counter::ALL {
            assert_eq!(b.read(c.offset()), counter_word(*c as u8, false), "{c:?} low");
            assert_eq!(b.read(c.offset() + 4), counter_word(*c as u8, true), "{c:?} high");
        }
        let expect: Vec<_> = Counter::ALL.iter().flat_map(|c| [(*c as u8, false), (*c as u8, true)]).collect();
        assert_eq!(b.counters, expect, "each half is asked for once");
    }
}

#[test]
fn a_counter_read_that_a_reset_interrupts_is_answered_with_0() {
    let mut b = Bench::new(1);
    b.counter_latency = 1_000_000;
    for wait in 0..12 {
        b.m.mmio_addr.set(reg::COUNTERS as u16);
        b.m.mmio_read.set(true);
        b.clock();
        b.m.mmio_read.set(false);
        for _ in 0..wait {
            assert!(!b.m.mmio_rvalid.get());
            b.clock();
        }
        b.m.reset.set(true);
        let mut answers = vec![];
        for _ in 0..8 {
            b.clock();
            if b.m.mmio_rvalid.get() {
                answers.push(b.m.mmio_rdata.get());
            }
        }
        assert_eq!(answers, [0], "one answer");
        drive(&mut b.m, reg::STATUS, 0x4444);
        assert_eq!(b.read(reg::STATUS), 0x4444, "STATUS can be read while reset is high");
        b.m.reset.set(false);
        b.clock();
    }
}
