// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of blocks share: seeds, and the host's side of the DMA ports with random latency, back pressure and errors.
use rand::{Rng, RngCore};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The seed of this run: `SEED` from the environment, else 1. Prints how to run `test` (file of the test) again.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test {test}");
    seed
}

/// Host memory in words of 8 octets, by address; what was never written reads as a function of its address.
#[derive(Default)]
pub struct Memory(pub HashMap<u64, u64>);

impl Memory {
    /// The word at `addr`, a multiple of 8.
    pub fn word(&self, addr: u64) -> u64 {
        self.0.get(&addr).copied().unwrap_or(addr.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
    /// Puts dwords at `addr`, a multiple of 8; an even number of them.
    pub fn put(&mut self, addr: u64, dwords: &[u32]) {
        for (i, pair) in dwords.chunks_exact(2).enumerate() {
            self.0.insert(addr + 8 * i as u64, u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
    }
}

/// One beat that the host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReadBeat {
    pub data: u64,
    pub last: bool,
    pub error: bool,
}

/// The host's side of the DMA read port. Each clock: [`ReadHost::offer`], drive the ports, `eval`, [`ReadHost::step`], `tick`.
pub struct ReadHost {
    /// Clocks from a request to the first beat of its answer.
    pub latency: Range<u64>,
    /// Chance that the host is busy (no `ready`, no beat) in a clock.
    pub busy: f64,
    /// Chance that a read fails.
    pub failing: f64,
    /// Requests seen: address and length.
    pub requests: Vec<(u64, u16)>,
    /// Reads that failed, told to the block.
    pub failed: u64,
    now: u64,
    pending: VecDeque<(u64, u64, u64, bool)>,
    offered: Option<ReadBeat>,
}

impl ReadHost {
    /// A host that never fails.
    pub fn new(latency: Range<u64>, busy: f64) -> Self {
        ReadHost { latency, busy, failing: 0.0, requests: vec![], failed: 0, now: 0, pending: VecDeque::new(), offered: None }
    }
    /// Answers not yet given in full.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }
    /// What to drive: `ready` for requests, and the beat.
    pub fn offer(&mut self, memory: &Memory, rng: &mut impl RngCore) -> (bool, Option<ReadBeat>) {
        if self.offered.is_none() && !rng.random_bool(self.busy) {
            if let Some(&(due, addr, left, fails)) = self.pending.front() {
                if due <= self.now {
                    let data = if fails { rng.random() } else { memory.word(addr) };
                    self.offered = Some(ReadBeat { data, last: left == 1, error: left == 1 && fails });
                }
            }
        }
        (!rng.random_bool(self.busy), self.offered)
    }
    /// What happened in this clock: the request taken, and whether the beat was taken.
    pub fn step(&mut self, request: Option<(u64, u16)>, beat_taken: bool, rng: &mut impl RngCore) {
        if beat_taken {
            let beat = self.offered.take().expect("only an offered beat can be taken");
            let front = self.pending.front_mut().expect("offered from it");
            front.1 += 8;
            front.2 -= 1;
            if beat.last {
                self.failed += u64::from(beat.error);
                self.pending.pop_front();
            }
        }
        if let Some((addr, len)) = request {
            assert!(len > 0, "a read of nothing");
            self.requests.push((addr, len));
            let due = self.now + rng.random_range(self.latency.clone());
            self.pending.push_back((due, addr, u64::from(len).div_ceil(8), rng.random_bool(self.failing)));
        }
        self.now += 1;
    }
}

/// A write that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Write {
    pub addr: u64,
    pub len: u16,
    pub beats: Vec<u64>,
    pub failed: bool,
}

/// The host's side of the DMA write port. Each clock: [`WriteHost::offer`], drive the ports, `eval`, [`WriteHost::step`], `tick`.
pub struct WriteHost {
    /// Clocks from the last beat to the end.
    pub latency: Range<u64>,
    /// Chance that the host is busy (no `ready`) in a clock.
    pub busy: f64,
    /// Chance that a write fails; then memory is not changed.
    pub failing: f64,
    /// Writes in the order in which their ends were told.
    pub ended: Vec<Write>,
    now: u64,
    requests: VecDeque<(u64, u16)>,
    beats: Vec<u64>,
    /// Ends to come: clock at which the data is in memory, clock of the end.
    pending: VecDeque<(u64, u64, Write)>,
}

impl WriteHost {
    /// A host that never fails.
    pub fn new(latency: Range<u64>, busy: f64) -> Self {
        WriteHost { latency, busy, failing: 0.0, ended: vec![], now: 0, requests: VecDeque::new(), beats: vec![], pending: VecDeque::new() }
    }
    /// Writes whose end was not told yet.
    pub fn outstanding(&self) -> usize {
        self.requests.len() + self.pending.len()
    }
    /// What to drive: `ready` for requests, `ready` for beats, and the end (`true`: failed). The data of a write that succeeds is in
    /// memory some clocks before its end is told, or in the clock in which it is.
    pub fn offer(&mut self, memory: &mut Memory, rng: &mut impl RngCore) -> (bool, bool, Option<bool>) {
        let mut end = None;
        for (_, _, write) in self.pending.iter().filter(|(visible, _, write)| *visible == self.now && !write.failed) {
            for (i, word) in write.beats.iter().enumerate() {
                memory.0.insert(write.addr + 8 * i as u64, *word);
            }
        }
        if self.pending.front().is_some_and(|(_, due, _)| *due <= self.now) {
            let (_, _, write) = self.pending.pop_front().expect("seen");
            end = Some(write.failed);
            self.ended.push(write);
        }
        (!rng.random_bool(self.busy), !rng.random_bool(self.busy), end)
    }
    /// What happened in this clock: the request taken, and the beat taken with its `last`.
    pub fn step(&mut self, request: Option<(u64, u16)>, beat: Option<(u64, bool)>, rng: &mut impl RngCore) {
        if let Some((data, last)) = beat {
            let &(addr, len) = self.requests.front().expect("a beat comes after its request was taken");
            self.beats.push(data);
            let complete = self.beats.len() == usize::from(len).div_ceil(8);
            assert_eq!(last, complete, "`last` is on the final beat of {len} octets");
            if complete {
                self.requests.pop_front();
                let write = Write { addr, len, beats: std::mem::take(&mut self.beats), failed: rng.random_bool(self.failing) };
                // in order, and one end a clock
                let (visible, due) = self.pending.back().map_or((0, 0), |(visible, due, _)| (*visible, *due + 1));
                let due = due.max(self.now + 1 + rng.random_range(self.latency.clone()));
                let visible = visible.max(rng.random_range(self.now + 1..=due));
                self.pending.push_back((visible, due, write));
            }
        }
        if let Some((addr, len)) = request {
            assert!(len > 0, "a write of nothing");
            self.requests.push_back((addr, len));
        }
        self.now += 1;
    }
}
