// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::reset_seq`: order and bounds of the phases, ENABLE, STATUS.
use ironwarp_abi::reg::{control, status_bits};
use ironwarp_models::{bench, reset_seq::Model, Dut};
use rand::{Rng, SeedableRng};

/// Microseconds that both phases may take together.
const LIMIT_US: u64 = 100_000;

struct Bench {
    m: Model,
    finished: u32,
    timeouts: u32,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut m = Model::new(seed);
        m.reset.set(false);
        m.flr.set(false);
        m.shut.set(true);
        m.tick_us.set(0);
        m.dma_read_error.set(false);
        m.dma_write_error.set(false);
        m.cmd_stopped.set(false);
        m.read_idle.set(true);
        m.write_idle.set(true);
        m.tx_idle.set(true);
        m.blocks_ready.set(true);
        m.eval();
        Bench { m, finished: 0, timeouts: 0 }
    }
    fn clock(&mut self, control: Option<u32>) {
        self.m.control.set(control.is_some());
        self.m.control_value.set(control.unwrap_or(0));
        self.m.eval();
        assert!(self.m.quiesce.get() || !self.m.clear.get() || self.m.reset.get(), "DMA is quiet before anything is cleared");
        self.m.tick();
        self.finished += u32::from(self.m.finished.get());
        self.timeouts += u32::from(self.m.cnt_reset_timeouts.get());
    }
    fn clocks(&mut self, n: usize) {
        for _ in 0..n {
            self.clock(None);
        }
    }
    fn status(&self) -> u32 {
        self.m.status.get()
    }
    /// Clocks until `done`.
    fn until(&mut self, done: impl Fn(&Model) -> bool) -> u64 {
        for clocks in 0..200_000 {
            if done(&self.m) {
                return clocks;
            }
            self.clock(None);
        }
        panic!("a wait without bound")
    }
    fn ready() -> Self {
        let mut b = Self::new(1);
        b.until(|m| m.status.get() == status_bits::READY);
        b.clocks(3);
        b.finished = 0;
        b
    }
}

#[test]
fn power_up_and_the_pin_end_in_ready() {
    let mut b = Bench::new(bench::seed("reset_seq"));
    assert!(b.m.quiesce.get(), "no DMA before the first reset");
    b.until(|m| m.status.get() == status_bits::READY);
    b.clocks(2);
    assert_eq!(b.finished, 1);
    b.clock(Some(control::ENABLE));
    b.m.reset.set(true);
    for _ in 0..50 {
        b.clock(None);
        assert!(b.m.clear.get() && b.m.quiesce.get() && !b.m.enabled.get());
    }
    b.m.reset.set(false);
    let clocks = b.until(|m| m.status.get() == status_bits::READY);
    assert!((16..50).contains(&clocks), "{clocks}");
    b.clocks(2);
    assert_eq!(b.finished, 2);
}

#[test]
fn enable_is_set_by_the_write_and_cleared_by_reset_only() {
    let mut b = Bench::ready();
    b.clock(Some(0));
    b.clock(Some(!(control::ENABLE | control::RESET)));
    assert_eq!(b.status(), status_bits::READY);
    b.clock(Some(control::ENABLE));
    assert_eq!(b.status(), status_bits::READY | status_bits::ENABLED);
    assert!(b.m.enabled.get());
    b.clock(Some(0));
    assert!(b.m.enabled.get());
    b.clock(Some(control::ENABLE | control::RESET));
    assert_eq!(b.status(), status_bits::RESETTING, "RESET wins; ENABLED and READY go at once");
    for _ in 0..10 {
        b.clock(Some(control::ENABLE | control::RESET));
        assert!(!b.m.enabled.get(), "ignored during a reset");
    }
    b.until(|m| m.status.get() == status_bits::READY);
    assert!(!b.m.enabled.get());
}

#[test]
fn status_shows_the_errors() {
    let mut b = Bench::ready();
    for bits in 0..8 {
        b.m.dma_read_error.set(bits & 1 != 0);
        b.m.dma_write_error.set(bits & 2 != 0);
        b.m.cmd_stopped.set(bits & 4 != 0);
        b.m.eval();
        let flag = |bit: u32, flag: u32| if bits & bit != 0 { flag } else { 0 };
        let expect = flag(1, status_bits::DMA_READ_ERROR) | flag(2, status_bits::DMA_WRITE_ERROR) | flag(4, status_bits::CMD_STOPPED);
        assert_eq!(b.status(), status_bits::READY | expect);
    }
}

#[test]
fn clear_waits_for_dma_and_the_frame_to_end_and_ready_for_every_block() {
    let seed = bench::seed("reset_seq");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::ready();
    for round in 0..50 {
        b.finished = 0;
        b.m.read_idle.set(false);
        b.m.write_idle.set(false);
        b.m.tx_idle.set(false);
        b.m.blocks_ready.set(false);
        b.clock(Some(control::RESET));
        assert!(b.m.shutdown.get() && !b.m.quiesce.get(), "connections first");
        b.clock(None);
        for _ in 0..rng.random_range(10..500) {
            b.clock(None);
            assert!(b.m.quiesce.get() && !b.m.clear.get());
        }
        b.m.read_idle.set(round % 3 != 0);
        b.m.write_idle.set(round % 3 != 1);
        b.m.tx_idle.set(round % 3 != 2);
        b.clocks(20);
        assert!(!b.m.clear.get(), "all must be idle");
        b.m.read_idle.set(true);
        b.m.write_idle.set(true);
        b.m.tx_idle.set(true);
        b.clock(None);
        assert!(b.m.clear.get());
        let blocks = rng.random_range(1..500);
        for clock in 0..blocks {
            assert!(b.m.clear.get() == (clock < 16) && b.m.quiesce.get(), "clear is 16 clocks long, blocks clear after it");
            assert_eq!(b.status(), status_bits::RESETTING);
            b.clock(None);
        }
        b.m.blocks_ready.set(true);
        let clocks = b.until(|m| m.status.get() == status_bits::READY);
        assert_eq!(clocks, 16u64.saturating_sub(blocks) + 1, "at least 16 clocks of clear");
        assert!(!b.m.quiesce.get() && !b.m.clear.get());
        b.clocks(3);
        assert_eq!((b.finished, b.timeouts), (1, 0));
    }
}

/// The streams are reset while DMA still works; it waits until they are, but not for ever; a function level reset is the same reset.
///
/// Covers: CM-35
#[test]
fn connections_are_reset_before_dma_stops() {
    for by_flr in [false, true] {
        let mut b = Bench::ready();
        b.clock(Some(control::ENABLE));
        for wait in [1, 2, 500, 1 << 15] {
            b.m.shut.set(false);
            b.m.flr.set(by_flr);
            b.clock((!by_flr).then_some(control::RESET));
            b.m.flr.set(false);
            assert_eq!(b.status(), status_bits::RESETTING);
            let (before, mut waited) = (b.timeouts, 0);
            while b.m.shutdown.get() {
                assert!(!b.m.quiesce.get() && !b.m.clear.get() && !b.m.enabled.get() && !b.m.ready.get());
                waited += 1;
                b.m.shut.set(waited == wait);
                // a second one changes nothing
                b.m.flr.set(waited % 3 == 0);
                b.clock(Some(control::RESET));
            }
            b.m.flr.set(false);
            assert_eq!(waited, wait.min((1 << 14) + 1));
            b.m.shut.set(true);
            assert!(b.m.quiesce.get());
            b.until(|m| m.ready.get());
            assert_eq!(b.status(), status_bits::READY);
            b.clocks(3);
            assert_eq!(b.timeouts - before, u32::from(wait > 1 << 14));
        }
    }
}

#[test]
fn a_host_that_never_answers_delays_a_reset_by_less_than_100_ms() {
    for (timebase, blocks_ready) in [(1u64 << 10, true), (1000 << 16, true), (1 << 16, true), (1 << 8, true), (1 << 10, false)] {
        let mut b = Bench::ready();
        b.m.read_idle.set(false);
        b.m.write_idle.set(true);
        b.m.blocks_ready.set(blocks_ready);
        b.clock(Some(control::RESET));
        let (mut time, mut clocks, mut cleared) = (0u64, 0u64, false);
        while b.status() != status_bits::READY {
            // TIMEBASE has its reset value of 1/64 us from clear on
            cleared |= b.m.clear.get();
            let step = if cleared { 1 << 10 } else { timebase };
            b.m.tick_us.set((((time + step) >> 16) - (time >> 16)) as u16);
            time += step;
            clocks += 1;
            b.clock(None);
            assert!(clocks < 200_000, "a wait without bound");
        }
        assert!(time >> 16 < LIMIT_US, "{} us", time >> 16);
        assert_eq!(b.timeouts, 0);
        b.clocks(3);
        assert_eq!(b.timeouts, 1, "counted once, when the counters count again");
        // the next one is not late
        b.m.read_idle.set(true);
        b.m.blocks_ready.set(true);
        b.clock(Some(control::RESET));
        b.until(|m| m.status.get() == status_bits::READY);
        b.clocks(3);
        assert_eq!(b.timeouts, 1);
    }
}
