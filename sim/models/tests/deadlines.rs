// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::deadlines` against a list of deadlines.
use ironwarp_models::{bench, deadlines::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const TIMERS: usize = 64;
/// Clocks of a round of the sweep, with a `set` between any two visits.
const ROUND: u64 = 5 * TIMERS as u64;
/// What the sweep adds after a round, and for each expiry that was in its way.
const STEP: u64 = 8;

#[derive(Clone, Copy)]
struct Deadline {
    at: u32,
    /// Clock in which its time had come.
    since: Option<u64>,
}

struct Bench {
    m: Model,
    now: u64,
    time: u32,
    deadlines: [Option<Deadline>; TIMERS],
    /// Clocks in which an expiry waited to be taken, and expiries, since the beginning of all.
    waited: u64,
    expiries: u64,
    /// The same, when each deadline's time had come.
    before: [(u64, u64); TIMERS],
    /// What waits to be set: index, deadline, clocks so far.
    setting: Option<(usize, Option<u32>, u64)>,
    /// Index offered and not taken.
    offered: Option<usize>,
    withdrawn: u64,
    latest: u64,
}

impl Bench {
    fn new(seed: u64, time: u32) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            now: 0,
            time,
            deadlines: [None; TIMERS],
            waited: 0,
            expiries: 0,
            before: [(0, 0); TIMERS],
            setting: None,
            offered: None,
            withdrawn: 0,
            latest: 0,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.deadlines = [None; TIMERS];
        self.offered = None;
        self.m.reset.set(true);
        self.m.tick();
        self.m.reset.set(false);
        let mut clocks = 0;
        while !self.m.ready.get() {
            assert!(!self.m.set_ready.get() && !self.m.expired_valid.get());
            self.m.tick();
            clocks += 1;
            assert!(clocks <= TIMERS, "cleared in time");
        }
        assert_eq!(clocks, TIMERS);
    }
    fn set(&mut self, index: usize, at: Option<u32>) {
        assert!(self.setting.is_none());
        self.setting = Some((index, at, 0));
    }
    /// One clock: time goes on by `step`, the user takes an expiry if `take`. Returns what was taken.
    fn clock(&mut self, step: u32, take: bool) -> Option<usize> {
        let m = &mut self.m;
        m.time_us.set(self.time);
        m.set_valid.set(self.setting.is_some());
        if let Some((index, at, _)) = self.setting {
            m.set_data_index.set(index as u64);
            m.set_data_on.set(u64::from(at.is_some()));
            m.set_data_at.set(u64::from(at.unwrap_or(0xdead_beef)));
        }
        m.expired_ready.set(take);
        m.eval();
        for (i, d) in self.deadlines.iter_mut().enumerate() {
            if let Some(d) = d.as_mut().filter(|d| d.since.is_none() && self.time.wrapping_sub(d.at) < 1 << 31) {
                d.since = Some(self.now);
                self.before[i] = (self.waited, self.expiries);
            }
        }
        let offered = m.expired_valid.get().then(|| usize::from(m.expired_data.get()));
        if let Some(before) = self.offered {
            assert_eq!(offered, Some(before), "what is offered stays, but for a set");
        }
        let mut taken = None;
        if let Some(i) = offered {
            let d = self.deadlines[i].expect("an expiry of a deadline that is set, and not told yet");
            let since = d.since.expect("an expiry whose time has come");
            if self.offered.is_none() {
                let late = self.now - since;
                self.latest = self.latest.max(late);
                let (waited, expiries) = self.before[i];
                let bound = ROUND + STEP + (self.waited - waited) + STEP * (self.expiries - expiries);
                assert!(late <= bound, "{late} clocks late, bound {bound}");
            }
            self.waited += 1;
            self.expiries += u64::from(self.offered.is_none());
            if take {
                self.deadlines[i] = None;
                taken = Some(i);
            }
        }
        self.offered = offered.filter(|_| !take);
        if let Some((index, at, clocks)) = &mut self.setting {
            *clocks += 1;
            assert!(*clocks <= 5, "a set is taken within 5 clocks");
            if m.set_ready.get() {
                self.deadlines[*index] = at.map(|at| Deadline { at, since: None });
                self.withdrawn += u64::from(self.offered == Some(*index));
                self.offered = self.offered.filter(|i| i != index);
                self.setting = None;
            }
        }
        m.tick();
        self.now += 1;
        self.time = self.time.wrapping_add(step);
        taken
    }
    /// Until no deadline is left whose time has come.
    fn settle(&mut self) {
        for _ in 0..TIMERS as u64 * (STEP + 2) + 2 * ROUND {
            self.clock(0, true);
        }
        assert!(self.deadlines.iter().flatten().all(|d| d.since.is_none()), "none is lost");
    }
}

/// Random sets and expiries; `step` gives how far time goes in a clock, `ahead` how far deadlines lie.
fn random(b: &mut Bench, rng: &mut ChaCha8Rng, clocks: usize, step: impl Fn(&mut ChaCha8Rng) -> u32, ahead: u32) {
    let mut taken = 0;
    for k in 0..clocks {
        let lazy = k / 2000 % 2 == 1;
        if b.setting.is_none() && rng.random_bool(if lazy { 0.02 } else { 0.15 }) {
            let index = match b.offered {
                Some(i) if rng.random_bool(0.6) => i,
                _ => rng.random_range(0..TIMERS),
            };
            // a few in the past
            let at = b.time.wrapping_add(rng.random_range(0..ahead)).wrapping_sub(ahead / 20);
            b.set(index, rng.random_bool(0.8).then_some(at));
        }
        let take = rng.random_bool(if lazy { 0.05 } else { 0.7 });
        let step = step(rng);
        taken += usize::from(b.clock(step, take).is_some());
    }
    b.settle();
    assert!(taken > clocks / 200, "{taken} expiries");
}

/// Covers: MPA-42
#[test]
fn every_deadline_expires_once_never_early_and_never_after_it_was_set_anew() {
    let seed = bench::seed("deadlines");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // across the wrap of adapter time
    let mut b = Bench::new(seed, u32::MAX - 300);
    random(&mut b, &mut rng, 40_000, |rng| u32::from(rng.random_bool(1.0 / 62.5)), 60);
    random(&mut b, &mut rng, 20_000, |rng| rng.random_range(0..3), 2000);
    assert!(b.withdrawn > 30, "{} expiries were withdrawn", b.withdrawn);
}

#[test]
fn deadlines_that_time_jumps_over_expire() {
    let seed = bench::seed("deadlines");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed, 0x7fff_f000);
    random(&mut b, &mut rng, 20_000, |rng| if rng.random_bool(0.5) { 1000 } else { 0 }, 60_000);
    random(&mut b, &mut rng, 20_000, |_| 1000, 100_000);
}

/// Covers: MPA-42, DEF-43
#[test]
fn a_set_withdraws_the_expiry_that_was_not_taken() {
    let mut b = Bench::new(bench::seed("deadlines"), 1000);
    for at in [None, Some(5000)] {
        b.set(7, Some(b.time));
        while b.offered.is_none() {
            b.clock(0, false);
        }
        // the deadline of another index does not touch it
        b.set(8, None);
        for _ in 0..20 {
            b.clock(0, false);
            assert_eq!(b.offered, Some(7));
        }
        b.set(7, at);
        while b.setting.is_some() {
            b.clock(0, false);
        }
        for _ in 0..2 * ROUND {
            assert_eq!(b.clock(0, true), None);
        }
    }
    b.time = 5000;
    let expired: Vec<_> = (0..2 * ROUND).filter_map(|_| b.clock(0, true)).collect();
    assert_eq!(expired, [7]);
}

/// Covers: MPA-42, DEF-43
#[test]
fn all_at_once_expire_once_each_and_sets_go_on() {
    let mut b = Bench::new(bench::seed("deadlines"), 0);
    for i in 0..TIMERS {
        b.set(i, Some(100));
        while b.setting.is_some() {
            b.clock(0, true);
        }
    }
    for _ in 0..2 * ROUND {
        assert_eq!(b.clock(0, true), None, "not before its time");
    }
    b.time = 99;
    for _ in 0..2 * ROUND {
        assert_eq!(b.clock(0, true), None, "not before its time");
    }
    b.time = 100;
    // the last one is taken away while the others expire
    b.set(TIMERS - 1, None);
    let mut expired: Vec<_> = (0..2 * ROUND).filter_map(|_| b.clock(0, true)).collect();
    expired.sort_unstable();
    assert_eq!(expired, (0..TIMERS - 1).collect::<Vec<_>>());
    // set and expiry of one index in the same clock: the expiry came first, the new deadline holds
    b.set(3, Some(100));
    while b.offered.is_none() {
        b.clock(0, false);
    }
    b.set(3, Some(200));
    let mut taken = None;
    while b.setting.is_some() {
        b.m.expired_ready.set(false);
        b.m.set_valid.set(true);
        b.m.eval();
        let last = b.m.set_ready.get();
        taken = b.clock(0, last);
    }
    assert_eq!(taken, Some(3));
    b.time = 200;
    let expired: Vec<_> = (0..2 * ROUND).filter_map(|_| b.clock(0, true)).collect();
    assert_eq!(expired, [3]);
}

/// Covers: MPA-42
#[test]
fn sets_without_a_pause_do_not_keep_a_deadline_from_expiring() {
    let mut b = Bench::new(bench::seed("deadlines"), 1000);
    for index in [0, 7, TIMERS - 1] {
        b.set(index, Some(b.time));
        for k in 0..ROUND + STEP {
            if b.setting.is_none() {
                b.set((index + 1 + k as usize % (TIMERS - 1)) % TIMERS, Some(b.time + 50_000));
            }
            b.clock(0, false);
        }
        assert_eq!(b.clock(0, true), Some(index), "a visit goes between two sets");
        b.setting = None;
    }
}

#[test]
fn a_reset_at_any_time_clears_all() {
    let seed = bench::seed("deadlines");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed, 0);
    for _ in 0..30 {
        for _ in 0..rng.random_range(1..300) {
            if b.setting.is_none() {
                let at = b.time.wrapping_add(rng.random_range(0..40));
                b.set(rng.random_range(0..TIMERS), Some(at));
            }
            let take = rng.random_bool(0.1);
            b.clock(1, take);
        }
        b.setting = None;
        b.m.set_valid.set(false);
        b.reset();
        b.time += 1000;
        for _ in 0..2 * ROUND {
            assert_eq!(b.clock(0, true), None);
        }
    }
}
