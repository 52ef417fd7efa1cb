// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::isn` against SipHash-2-4 of another maker and a clock of 4 microseconds.
use ironwarp_models::{bench, isn::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Clocks from taking a tuple to offering its ISN.
const CLOCKS: u32 = 19;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Tuple {
    local_ip: u32,
    remote_ip: u32,
    local_port: u16,
    remote_port: u16,
}

impl Tuple {
    fn random(rng: &mut impl Rng) -> Self {
        Tuple { local_ip: rng.random(), remote_ip: rng.random(), local_port: rng.random(), remote_port: rng.random() }
    }
}

struct Bench {
    m: Model,
    key: u128,
    /// Adapter time; it does not wrap here.
    time: u64,
}

impl Bench {
    fn new(seed: u64, key: u128, time: u64) -> Self {
        let mut b = Bench { m: Model::new(seed), key, time };
        b.m.key0.set(key as u32);
        b.m.key1.set((key >> 32) as u32);
        b.m.key2.set((key >> 64) as u32);
        b.m.key3.set((key >> 96) as u32);
        b.m.reset.set(true);
        b.go(3, 0);
        b.m.reset.set(false);
        b
    }
    fn go(&mut self, clocks: u32, step: u64) {
        for _ in 0..clocks {
            self.m.time_us.set(self.time as u32);
            self.m.tick();
            self.time += step;
        }
    }
    fn function(&self, t: Tuple) -> u32 {
        let mut h = SipHasher24::new_with_key(&self.key.to_le_bytes());
        let octets = [&t.local_ip.to_le_bytes()[..], &t.remote_ip.to_le_bytes(), &t.local_port.to_le_bytes(), &t.remote_port.to_le_bytes()];
        h.write(&octets.concat());
        h.finish() as u32
    }
    /// The ISN; time stands still meanwhile.
    fn isn(&mut self, t: Tuple, wait: u32) -> u32 {
        self.m.request_data_local_ip.set(t.local_ip.into());
        self.m.request_data_remote_ip.set(t.remote_ip.into());
        self.m.request_data_local_port.set(t.local_port.into());
        self.m.request_data_remote_port.set(t.remote_port.into());
        self.m.request_valid.set(true);
        self.m.isn_ready.set(false);
        self.m.eval();
        assert!(self.m.request_ready.get());
        self.go(1, 0);
        self.m.request_valid.set(false);
        self.m.eval();
        let mut clocks = 1;
        while !self.m.isn_valid.get() {
            self.go(1, 0);
            clocks += 1;
            assert!(clocks <= CLOCKS);
        }
        assert_eq!(clocks, CLOCKS);
        let isn = self.m.isn_data.get();
        for _ in 0..wait {
            self.go(1, 0);
            assert!(self.m.isn_valid.get() && self.m.isn_data.get() == isn && !self.m.request_ready.get(), "stays");
        }
        self.m.isn_ready.set(true);
        self.go(1, 0);
        isn
    }
    /// The part of the clock.
    fn ticks(&mut self, t: Tuple) -> u32 {
        self.isn(t, 0).wrapping_sub(self.function(t))
    }
}

/// Covers: TCP-3
#[test]
fn is_siphash_of_the_tuple_plus_the_clock() {
    let seed = bench::seed("isn");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for key in [0, u128::MAX, 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100, rng.random()] {
        let mut b = Bench::new(seed, key, 0);
        let t = Tuple { local_ip: 0, remote_ip: 0, local_port: 0, remote_port: 0 };
        let clock = b.ticks(t);
        for _ in 0..100 {
            let t = Tuple::random(&mut rng);
            let isn = b.isn(t, rng.random_range(0..3));
            assert_eq!(isn, b.function(t).wrapping_add(clock), "{t:x?}");
        }
    }
}

/// Covers: TCP-3
#[test]
fn the_clock_goes_on_by_1_in_4_microseconds_also_when_adapter_time_wraps() {
    let seed = bench::seed("isn");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let t = Tuple::random(&mut rng);
    // ready for the wrap of adapter time, in steps of 0 to 1000 microseconds
    let mut b = Bench::new(seed, rng.random(), (1 << 32) - 200_000);
    let (start, first) = (b.time, b.ticks(t));
    let mut before = 0;
    for k in 0..200 {
        let step = if k % 2 == 0 { 1 } else { rng.random_range(0..=1000) };
        b.go(rng.random_range(1..10), step);
        let passed = b.ticks(t).wrapping_sub(first);
        let expect = ((b.time - start) / 4) as u32;
        assert!(passed == expect || passed == expect + 1, "{passed} ticks in {} microseconds", b.time - start);
        assert!(passed >= before, "never back");
        before = passed;
    }
    assert!(b.time > 1 << 32, "adapter time has wrapped");
    // a whole round of adapter time: the sequence clock is at a quarter of its own
    let (start, first) = (b.time, b.ticks(t));
    for step in [0x3fff_ffff, 0x7fff_ffff, 0x1234, 0x4000_0000] {
        b.go(1, step);
    }
    b.go(1, 0);
    let (passed, expect) = (b.ticks(t).wrapping_sub(first), ((b.time - start) / 4) as u32);
    assert!(passed == expect || passed == expect + 1);
    // a reset does not take it back
    b.m.reset.set(true);
    b.go(20, 4);
    b.m.reset.set(false);
    let passed = b.ticks(t).wrapping_sub(first);
    assert!((expect + 20..=expect + 21).contains(&passed));
}

/// Covers: TCP-3
#[test]
fn neighbours_have_nothing_in_common() {
    let seed = bench::seed("isn");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed, rng.random(), 0);
    let t = Tuple::random(&mut rng);
    let isn = b.isn(t, 0);
    let (mut differing, mut neighbours) = (0, vec![]);
    for bit in 0..96 {
        let mut n = t;
        match bit {
            0..32 => n.local_ip ^= 1 << bit,
            32..64 => n.remote_ip ^= 1 << (bit - 32),
            64..80 => n.local_port ^= 1 << (bit - 64),
            _ => n.remote_port ^= 1 << (bit - 80),
        }
        let other = b.isn(n, 0);
        differing += (other ^ isn).count_ones();
        neighbours.push(other.wrapping_sub(isn));
    }
    assert!((96 * 14..96 * 18).contains(&differing), "about half the bits differ: {} of 32", differing / 96);
    neighbours.sort_unstable();
    neighbours.dedup();
    assert_eq!(neighbours.len(), 96);
    // and another key gives others
    let mut c = Bench::new(seed, b.key ^ 1 << 100, 0);
    assert!((c.isn(t, 0) ^ isn).count_ones() > 4);
}

#[test]
fn a_reset_at_any_time_ends_the_request() {
    let seed = bench::seed("isn");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed, rng.random(), 0);
    for clocks in 0..CLOCKS + 2 {
        b.m.isn_ready.set(false);
        b.m.request_valid.set(true);
        b.go(1, 0);
        b.m.request_valid.set(false);
        b.go(clocks, 0);
        b.m.reset.set(true);
        b.go(1, 0);
        b.m.reset.set(false);
        b.m.eval();
        assert!(!b.m.isn_valid.get() && b.m.request_ready.get());
        let t = Tuple::random(&mut rng);
        assert_eq!(b.isn(t, 0), b.function(t).wrapping_add(b.ticks(t)));
    }
}
