// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast a served model runs.
use std::time::{Duration, Instant};

/// Cycles in a row before messages and the clock on the wall are looked at again.
pub const BATCH: u64 = 16;
/// Without work, the model rests so long at a time.
const REST: Duration = Duration::from_millis(4);
/// Shortest sleep.
const NAP: Duration = Duration::from_millis(1);
/// With work, adapter time may be so far ahead of wall time: an answer need not wait for the wall.
const LEAD: Duration = Duration::from_millis(20);
/// What the machine could not run in time beyond this is left out, not made up for.
const LAG: Duration = Duration::from_millis(100);
/// Cycles that a freely running model makes between two rests without work.
const FREE_IDLE: u64 = 1000;

/// How fast a served model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it can while there is work, and hardly at all without. Adapter time is no wall time.
    Free,
    /// So many cycles in a second of wall time on average, so that with a `TIMEBASE` of `ironwarp_abi::pci::timebase(rate)` adapter
    /// time is wall time. Work is done at full speed up to 20 ms ahead of the wall; without work the machine is used for no more
    /// than the rate needs.
    Wall {
        /// Cycles per second.
        rate: u32,
    },
    /// [`Pace::Wall`] at a quarter of the speed that is measured at the start.
    Auto,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run so many cycles.
    Run(u64),
    /// Sleep, unless something comes.
    Sleep(Duration),
}

/// Keeps the pace. Times are those since the start of the server.
pub struct Pacer {
    /// Cycles per second; none: free.
    rate: Option<u64>,
    /// Cycle that belongs to time 0.
    origin: i128,
    idle_left: u64,
}

impl Pacer {
    /// `rate`: cycles per second; none: free. `cycle` is the present one.
    pub fn new(rate: Option<u32>, cycle: u64) -> Self {
        Pacer { rate: rate.map(|r| r.max(1).into()), origin: cycle.into(), idle_left: 0 }
    }
    /// `now`: time since the start, `cycle`: the next one, `busy`: there is work.
    pub fn next(&mut self, now: Duration, cycle: u64, busy: bool) -> Next {
        let Some(rate) = self.rate else { return self.next_free(busy) };
        let cycles = |time: Duration| (time.as_nanos() * u128::from(rate) / 1_000_000_000) as i128;
        let due = self.origin + cycles(now);
        let behind = due - i128::from(cycle);
        if behind > cycles(LAG) {
            self.origin -= behind - cycles(LAG);
        }
        if behind > 0 || busy && -behind < cycles(LEAD) {
            return Next::Run(BATCH);
        }
        let ahead = Duration::from_nanos(u64::try_from((-behind) as u128 * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX));
        Next::Sleep(ahead.clamp(NAP, if busy { NAP } else { REST }))
    }
    fn next_free(&mut self, busy: bool) -> Next {
        if busy {
            self.idle_left = FREE_IDLE;
            return Next::Run(BATCH);
        }
        if self.idle_left == 0 {
            self.idle_left = FREE_IDLE;
            return Next::Sleep(REST);
        }
        let run = self.idle_left.min(BATCH);
        self.idle_left -= run;
        Next::Run(run)
    }
}

/// Rate for [`Pace::Auto`]: a quarter of `speed` (cycles per second) in two significant digits, at least 1000.
pub fn auto_rate(speed: f64) -> u32 {
    let quarter = (speed / 4.0).clamp(1000.0, 1e9) as u32;
    let unit = 10_u32.pow(quarter.ilog10() - 1);
    quarter / unit * unit
}

/// Measures how long a piece of work takes.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for `wall`, each batch taking `batch`; work as `busy` says. Cycles run, and time slept.
    fn run(rate: Option<u32>, wall: Duration, batch: Duration, busy: impl Fn(Duration) -> bool) -> (u64, Duration) {
        let mut pacer = Pacer::new(rate, 0);
        let (mut now, mut cycle, mut slept) = (Duration::ZERO, 0, Duration::ZERO);
        while now < wall {
            match pacer.next(now, cycle, busy(now)) {
                Next::Run(n) => {
                    cycle += n;
                    now += batch;
                }
                Next::Sleep(time) => {
                    slept += time;
                    now += time;
                }
            }
        }
        (cycle, slept)
    }

    #[test]
    fn the_rate_is_kept_with_and_without_work() {
        let second = Duration::from_secs(1);
        // 16 us a batch: a million cycles a second at full speed
        for (busy, tolerance) in [(false, 0.01), (true, 0.03)] {
            let (cycles, slept) = run(Some(100_000), second, Duration::from_micros(16), |_| busy);
            assert!((cycles as f64 / 100_000.0 - 1.0).abs() < tolerance, "busy {busy}: {cycles}");
            assert!(slept > second * 8 / 10, "{slept:?}");
        }
    }

    #[test]
    fn work_runs_ahead_of_the_wall_and_no_further_than_the_lead() {
        let (cycles, _) = run(Some(100_000), Duration::from_millis(2), Duration::from_micros(16), |_| true);
        assert!(cycles > 1900, "full speed: {cycles}");
        let (cycles, _) = run(Some(100_000), Duration::from_millis(10), Duration::from_micros(16), |_| true);
        assert!((2800..3200).contains(&cycles), "20 ms ahead of 10 ms: {cycles}");
    }

    #[test]
    fn a_machine_that_is_too_slow_does_not_pile_up_a_debt() {
        let mut pacer = Pacer::new(Some(100_000), 0);
        assert_eq!(pacer.next(Duration::from_secs(3600), 0, false), Next::Run(BATCH));
        let (cycles, _) = (0..)
            .map(|n| n * BATCH)
            .map(|c| (c, pacer.next(Duration::from_secs(3600), c, false)))
            .find(|(_, n)| matches!(n, Next::Sleep(_)))
            .expect("rests");
        assert!((9_900..10_100).contains(&cycles), "100 ms made up for: {cycles}");
    }

    #[test]
    fn free_running_rests_without_work() {
        let second = Duration::from_secs(1);
        let (cycles, slept) = run(None, second, Duration::from_micros(16), |_| true);
        assert!(cycles > 990_000 && slept.is_zero());
        let (_, slept) = run(None, second, Duration::from_micros(16), |_| false);
        assert!(slept > second * 7 / 10, "{slept:?}");
    }

    #[test]
    fn the_automatic_rate_is_a_round_quarter() {
        assert_eq!(auto_rate(1_234_567.0), 300_000);
        assert_eq!(auto_rate(1_300_000.0), 320_000);
        assert_eq!(auto_rate(10.0), 1000);
    }
}
