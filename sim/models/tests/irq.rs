// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::irq`: its rule one by one, and drivers of several kinds that must never sleep on work.
use ironwarp_models::{bench, irq::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

struct Bench {
    m: Model,
    vectors: Vec<u8>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        m.vector_ready.set(true);
        Bench { m, vectors: vec![] }
    }
    fn clock(&mut self, causes: u8, ack: Option<u32>) {
        self.m.causes.set(causes);
        self.m.ack.set(ack.is_some());
        self.m.ack_value.set(ack.unwrap_or(0));
        self.m.eval();
        if self.m.vector_valid.get() && self.m.vector_ready.get() {
            self.vectors.push(self.m.vector_data.get());
        }
        self.m.tick();
    }
    fn idle(&mut self, clocks: usize) {
        for _ in 0..clocks {
            self.clock(0, None);
        }
    }
    /// Vectors of the next 20 clocks.
    fn raised(&mut self) -> Vec<u8> {
        self.vectors.clear();
        self.idle(20);
        let mut v = std::mem::take(&mut self.vectors);
        v.sort();
        v
    }
}

#[test]
fn one_vector_until_the_acknowledge() {
    let mut b = Bench::new(1);
    b.m.mask.set(0xf);
    for cause in 0..4u8 {
        b.clock(1 << cause, None);
        assert_eq!(b.raised(), [cause]);
        assert_eq!(b.m.pending.get(), 1 << cause);
        assert_eq!(b.raised(), []);
        b.clock(0, Some(1 << cause));
        assert_eq!(b.m.pending.get(), 0);
        assert_eq!(b.raised(), []);
        b.clock(1 << cause, None);
        assert_eq!(b.raised(), [cause], "acknowledged: may be raised again");
        b.clock(0, Some(0xf));
    }
    b.clock(0xf, None);
    assert_eq!(b.raised(), [0, 1, 2, 3]);
}

#[test]
fn what_fires_after_the_vector_left_is_raised_again_after_the_acknowledge() {
    let mut b = Bench::new(1);
    b.m.mask.set(0xf);
    b.clock(4, None);
    assert_eq!(b.raised(), [2]);
    b.clock(4, None);
    b.clock(4, None);
    assert_eq!(b.raised(), [], "not before the acknowledge");
    b.clock(0, Some(4));
    assert_eq!(b.m.pending.get(), 4);
    assert_eq!(b.raised(), [2]);
    b.clock(4, Some(4));
    assert_eq!(b.raised(), [2], "in the clock of the acknowledge");
    b.clock(0, Some(4));
    assert_eq!((b.m.pending.get(), b.raised()), (0, vec![]));
}

#[test]
fn a_masked_cause_waits_and_is_raised_at_unmasking_or_cleared_by_an_acknowledge() {
    let mut b = Bench::new(1);
    b.m.mask.set(0b1011);
    b.clock(0xf, None);
    assert_eq!(b.raised(), [0, 1, 3]);
    assert_eq!(b.m.pending.get(), 0xf);
    b.m.mask.set(0xf);
    assert_eq!(b.raised(), [2]);
    b.clock(0, Some(0xffff_ffff));
    b.m.mask.set(0);
    b.clock(0xf, None);
    b.clock(0, Some(0b0011));
    assert_eq!(b.m.pending.get(), 0b1100);
    b.m.mask.set(0xffff_ffff);
    assert_eq!(b.raised(), [2, 3]);
}

#[test]
fn a_vector_that_is_offered_stays_and_an_early_acknowledge_does_not_take_it_back() {
    let mut b = Bench::new(1);
    b.m.mask.set(0xf);
    b.m.vector_ready.set(false);
    b.clock(2, None);
    b.idle(6);
    for _ in 0..20 {
        assert!(b.m.vector_valid.get());
        assert_eq!(b.m.vector_data.get(), 1);
        b.clock(0, Some(2));
        assert_eq!(b.m.pending.get(), 2, "not handed over yet: nothing to acknowledge");
    }
    b.m.vector_ready.set(true);
    assert_eq!(b.raised(), [1]);
    b.clock(0, Some(2));
    assert_eq!(b.m.pending.get(), 0);
}

#[test]
fn reset_forgets_everything() {
    let mut b = Bench::new(1);
    b.m.mask.set(0xf);
    b.m.vector_ready.set(false);
    b.clock(0xf, None);
    b.idle(9);
    b.m.reset.set(true);
    b.clock(0, None);
    b.m.reset.set(false);
    b.m.vector_ready.set(true);
    assert_eq!((b.m.pending.get(), b.raised()), (0, vec![]));
    b.clock(0xf, None);
    assert_eq!(b.raised(), [0, 1, 2, 3]);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    /// Woken: acknowledge, drain, sleep. Writes are posted and may arrive long after the drain.
    AckDrain,
    /// Woken: drain, acknowledge, sleep.
    DrainAck,
    /// Woken: mask, acknowledge, drain, unmask, sleep.
    MaskAckDrainUnmask,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ack,
    Mask,
    Unmask,
    Drain,
}

/// Four drivers, one a cause. Work is put in memory in the clock in which the cause fires; a driver sleeps until a vector arrives.
#[test]
fn no_driver_ever_sleeps_on_work() {
    let seed = bench::seed("irq");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..400 {
        let mut b = Bench::new(seed + round);
        let styles: [Style; 4] =
            std::array::from_fn(|_| [Style::AckDrain, Style::DrainAck, Style::MaskAckDrainUnmask][rng.random_range(0..3)]);
        let rate = [0.001, 0.02, 0.2, 0.9][rng.random_range(0..4)];
        let busy = [0.0, 0.5, 0.97][rng.random_range(0..3)];
        let slowest = [1, 4, 40][rng.random_range(0..3)];
        let (mut made, mut done, mut vectors) = ([0u64; 4], [0u64; 4], [0u64; 4]);
        let mut mask = 0xfu32;
        // vectors on their way to the host; steps that the woken drivers still take; writes on their way (in order)
        let mut wire: VecDeque<(u64, u8)> = VecDeque::new();
        let mut steps: [VecDeque<Step>; 4] = Default::default();
        let mut posted: VecDeque<(u64, u32, bool)> = VecDeque::new();
        let clocks = 3000;
        let mut ending = 0;
        for now in 0u64.. {
            let mut causes = 0;
            for (i, m) in made.iter_mut().enumerate() {
                if now < clocks && rng.random_bool(rate) {
                    *m += 1;
                    causes |= 1 << i;
                }
            }
            let mut ack = None;
            if posted.front().is_some_and(|(due, ..)| *due <= now) {
                let (_, value, is_ack) = posted.pop_front().expect("seen");
                if is_ack {
                    ack = Some(value);
                } else {
                    b.m.mask.set(value);
                }
            }
            if now == 0 {
                b.m.mask.set(mask);
            }
            b.m.vector_ready.set(!rng.random_bool(busy));
            b.clock(causes, ack);
            for v in b.vectors.drain(..) {
                vectors[usize::from(v)] += 1;
                let due = (now + rng.random_range(0..slowest)).max(wire.back().map_or(0, |w| w.0));
                wire.push_back((due, v));
            }
            while wire.front().is_some_and(|(due, _)| *due <= now) {
                let (_, v) = wire.pop_front().expect("seen");
                use Step::*;
                steps[usize::from(v)].extend(match styles[usize::from(v)] {
                    Style::AckDrain => &[Ack, Drain][..],
                    Style::DrainAck => &[Drain, Ack],
                    Style::MaskAckDrainUnmask => &[Mask, Ack, Drain, Unmask],
                });
            }
            for i in 0..4 {
                if !steps[i].is_empty() && rng.random_bool(0.3) {
                    let due = (now + 1 + rng.random_range(0..slowest)).max(posted.back().map_or(0, |p| p.0));
                    match steps[i].pop_front().expect("seen") {
                        Step::Ack => posted.push_back((due, 1 << i, true)),
                        Step::Mask => {
                            mask &= !(1 << i);
                            posted.push_back((due, mask, false));
                        }
                        Step::Unmask => {
                            mask |= 1 << i;
                            posted.push_back((due, mask, false));
                        }
                        Step::Drain => done[i] = made[i],
                    }
                }
            }
            if now >= clocks {
                let quiet = steps.iter().all(|s| s.is_empty()) && posted.is_empty() && wire.is_empty();
                ending = if quiet { ending + 1 } else { 0 };
                if ending > 400 {
                    break;
                }
                assert!(now < clocks + 20_000, "round {round}: vectors without end");
            }
        }
        assert_eq!(done, made, "round {round}: work left behind by drivers {styles:?}, vectors {vectors:?}");
    }
}
