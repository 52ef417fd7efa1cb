// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::counters` against an array of numbers.
use ironwarp_abi::counter::COUNTERS;
use ironwarp_models::{bench, counters::Model, counters_narrow, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Clocks between a pulse and a read that has it.
const SETTLED: usize = 4;
/// Clocks from the end of a reset of one clock until all is cleared.
const CLEARED: usize = 130;
/// Clocks within which a read is answered.
const ANSWERED: usize = 144;
/// A pulse of every counter.
const ALL: u128 = (1 << COUNTERS) - 1;

/// What the pins of `pulses` take.
fn words(pulses: u128) -> Vec<u32> {
    (0..COUNTERS.div_ceil(32)).map(|i| (pulses >> (32 * i)) as u32).collect()
}

struct Bench {
    m: Model,
    counts: [u64; COUNTERS],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench { m: Model::new(seed), counts: [0; COUNTERS] };
        b.reset(1);
        b
    }
    fn reset(&mut self, clocks: usize) {
        self.m.pulses.set(&words(ALL));
        self.m.reset.set(true);
        let mut needed = 0;
        for _ in 0..clocks {
            self.m.tick();
            needed += 1;
        }
        self.m.reset.set(false);
        while !self.m.ready.get() {
            assert!(needed < CLEARED + 4, "cleared in time");
            self.m.tick();
            needed += 1;
        }
        self.m.pulses.set(&words(0));
        self.counts = [0; COUNTERS];
    }
    fn clock(&mut self, pulses: u128) {
        self.m.pulses.set(&words(pulses));
        for (i, count) in self.counts.iter_mut().enumerate() {
            *count = (*count + (pulses >> i & 1) as u64) & 0xffff_ffff_ffff;
        }
        self.m.tick();
    }
    fn read(&mut self, index: usize, high: bool, mut pulses: impl FnMut() -> u128) -> u32 {
        self.m.read.set(true);
        self.m.read_index.set(index as u8);
        self.m.read_high.set(high);
        for _ in 0..ANSWERED {
            let p = pulses();
            self.m.pulses.set(&words(p));
            self.m.eval();
            let done = self.m.read_done.get();
            let data = self.m.read_data.get();
            self.clock(p);
            if done {
                self.m.read.set(false);
                return data;
            }
        }
        panic!("no answer in time")
    }
    fn value(&mut self, index: usize) -> u64 {
        let low = self.read(index, false, || 0);
        u64::from(low) | u64::from(self.read(index, true, || 0)) << 32
    }
    fn settle(&mut self) {
        for _ in 0..SETTLED {
            self.clock(0);
        }
    }
    fn check_all(&mut self) {
        self.settle();
        for i in 0..COUNTERS {
            assert_eq!(self.value(i), self.counts[i], "counter {i}");
        }
    }
}

#[test]
fn a_pulse_in_every_clock_of_every_counter_is_counted() {
    let mut b = Bench::new(bench::seed("counters"));
    b.check_all();
    for _ in 0..10_000 {
        b.clock(ALL);
    }
    b.check_all();
    assert!(b.counts.iter().all(|c| *c == 10_000));
}

#[test]
fn random_pulses_are_counted_exactly_also_during_reads() {
    let seed = bench::seed("counters");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed);
    for _ in 0..30 {
        for _ in 0..rng.random_range(0..300) {
            let p = rng.random::<u128>() & rng.random::<u128>() & ALL;
            b.clock(p);
        }
        let index = rng.random_range(0..COUNTERS);
        let before = b.counts[index];
        let low = u64::from(b.read(index, false, || rng.random::<u128>() & ALL));
        let after = b.counts[index];
        assert!(low <= after && low + SETTLED as u64 >= before, "counter {index}: {low} while it went from {before} to {after}");
        b.check_all();
    }
}

/// With halves of 4 and 8 bits a carry crosses them every 16 pulses.
#[test]
fn low_freezes_high_for_the_next_read_of_that_counter_only() {
    let mut m = counters_narrow::Model::new(bench::seed("counters"));
    let clear = |m: &mut counters_narrow::Model| {
        m.pulses.set(&words(0));
        m.read.set(false);
        m.reset.set(true);
        for _ in 0..CLEARED + 4 {
            m.tick();
        }
        m.reset.set(false);
        assert!(m.ready.get());
    };
    clear(&mut m);
    let add = |m: &mut counters_narrow::Model, index: usize, count: usize| {
        m.pulses.set(&words(1 << index));
        for _ in 0..count {
            m.tick();
        }
        m.pulses.set(&words(0));
        for _ in 0..SETTLED {
            m.tick();
        }
    };
    let read = |m: &mut counters_narrow::Model, index: u8, high: bool| {
        m.read.set(true);
        m.read_index.set(index);
        m.read_high.set(high);
        for _ in 0..ANSWERED {
            m.eval();
            let (done, data) = (m.read_done.get(), m.read_data.get());
            m.tick();
            if done {
                m.read.set(false);
                return data;
            }
        }
        panic!("no answer")
    };
    for index in 0..COUNTERS as u8 {
        let (i, other) = (usize::from(index), (index + 1) % COUNTERS as u8);
        let of_other = read(&mut m, other, true);
        let low = read(&mut m, index, false) as usize;
        add(&mut m, i, 31 - low);
        let frozen = read(&mut m, index, true);
        let high = read(&mut m, index, true);
        assert_eq!((high, read(&mut m, index, false)), (frozen + 1, 15));
        add(&mut m, i, 1);
        assert_eq!(read(&mut m, index, true), high, "frozen by the read of the low half");
        assert_eq!(read(&mut m, index, true), high + 1, "once");
        assert_eq!(read(&mut m, index, false), 0);
        add(&mut m, i, 16);
        assert_eq!(read(&mut m, other, true), of_other, "another counter is not frozen");
        assert_eq!(read(&mut m, index, true), high + 2, "and that read ended the freeze");
        assert_eq!(read(&mut m, other, false), 0);
        assert_eq!(read(&mut m, index, true), high + 2, "a low half freezes its own counter only");
        add(&mut m, i, 16);
        let low = read(&mut m, index, false);
        assert_eq!((low, read(&mut m, index, true)), (0, high + 3));
    }
    // a reset ends a freeze
    assert_eq!((read(&mut m, 63, true) > 0, read(&mut m, 63, false)), (true, 0));
    clear(&mut m);
    assert_eq!(read(&mut m, 63, true), 0);
}

#[test]
fn a_reset_at_any_time_clears_all_and_pulses_during_it_do_not_count() {
    let seed = bench::seed("counters");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed);
    for round in 0..40 {
        for _ in 0..rng.random_range(1..200) {
            let p = rng.random::<u128>() & ALL;
            b.clock(p);
        }
        if round % 2 == 0 {
            // a read is under way
            b.m.read.set(true);
            b.m.read_index.set(rng.random_range(0..COUNTERS as u8));
            for _ in 0..rng.random_range(1..ANSWERED) {
                b.clock(0);
            }
            b.m.read.set(false);
        }
        b.reset(rng.random_range(1..CLEARED));
        if round % 3 == 0 {
            b.check_all();
        }
    }
    b.check_all();
}
