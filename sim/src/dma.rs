// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of the DMA seam (`hdl/src/host/dma.rs`): serves reads and writes from a [`DmaTable`] with a settable latency.
//!
//! * A read is answered in order; its data are taken from memory when the first beat of the answer is put up.
//! * A beat of a write reaches memory `write_latency` after it was taken, beats in order; the answer follows in the clock after the
//!   last one did.
//! * An access outside of the windows is answered with `error` and kept as a [`Fault`].
use crate::{
    memory::{DmaFault, DmaTable},
    monitor::{Monitor, Rule},
    pins::{Inputs, Outputs},
    record::{Record, Recorder},
};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::{
    collections::VecDeque,
    sync::{Arc, RwLock},
};

/// A time in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// Always this.
    Fixed(u32),
    /// Drawn evenly from this range, ends included, by the adapter's seed.
    Range(u32, u32),
}

impl Latency {
    fn draw(self, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            Latency::Fixed(cycles) => cycles.into(),
            Latency::Range(low, high) => rng.random_range(low.min(high)..=low.max(high)).into(),
        }
    }
}

/// How the host serves DMA.
#[derive(Clone, Copy, Debug)]
pub struct DmaConfig {
    /// From a read request to the first beat of its answer; with 0 it comes in the next clock.
    pub read_latency: Latency,
    /// From a write beat to its arrival in memory; with 0 it is there after the clock in which it was taken.
    pub write_latency: Latency,
    /// Reads that may be under way, at least 1.
    pub reads: usize,
    /// Writes that may be under way (until answered), at least 1.
    pub writes: usize,
    /// Longest burst of write beats, and the clocks of pause after it; none: no bound.
    pub write_burst: Option<(u32, u32)>,
    /// Percentage of clocks in which the host is, at random, not ready on each channel of its own.
    pub stall_percent: u8,
}

impl Default for DmaConfig {
    /// A quick host: 0 cycles, 8 reads and 8 writes under way, no pauses.
    fn default() -> Self {
        DmaConfig {
            read_latency: Latency::Fixed(0),
            write_latency: Latency::Fixed(0),
            reads: 8,
            writes: 8,
            write_burst: None,
            stall_percent: 0,
        }
    }
}

/// A DMA access that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Cycle of the adapter.
    pub cycle: u64,
    /// A write.
    pub write: bool,
    /// First address of the request (of the beat, for a write).
    pub iova: u64,
    /// Octets of the request (of the beat, for a write).
    pub len: u32,
    /// Why.
    pub why: DmaFault,
}

/// Faults kept; further ones are counted.
const KEPT: usize = 64;

#[derive(Clone, Copy)]
struct Request {
    iova: u64,
    len: u16,
    due: u64,
}

/// A write beat on its way to memory.
#[derive(Clone, Copy)]
struct Flying {
    due: u64,
    iova: u64,
    data: u64,
    octets: u8,
    /// First address of its write, when it is the last beat.
    ends: Option<u64>,
    /// Its write broke the rules of the seam and is answered with `error`.
    spoilt: bool,
}

/// See the module.
pub struct HostDma {
    config: DmaConfig,
    table: Arc<RwLock<DmaTable>>,
    rng: ChaCha8Rng,
    reads: VecDeque<Request>,
    answer: Vec<u8>,
    /// Position in `answer` of the beat that is put up.
    at: usize,
    answering: Option<Request>,
    answer_failed: bool,
    /// The beat at `at` is on offer, and stays so until it is taken.
    offered: bool,
    writes: VecDeque<Request>,
    /// Writes taken and not answered.
    unanswered: usize,
    /// Octets of `writes[0]` that were taken.
    taken: u16,
    burst: u32,
    pause: u32,
    flying: VecDeque<Flying>,
    last_arrival: u64,
    write_failed: bool,
    done: VecDeque<(u64, bool)>,
    faults: Vec<Fault>,
    fault_count: u64,
}

impl HostDma {
    pub(crate) fn new(config: DmaConfig, table: Arc<RwLock<DmaTable>>, rng: ChaCha8Rng) -> Self {
        HostDma {
            config: DmaConfig { reads: config.reads.max(1), writes: config.writes.max(1), ..config },
            table,
            rng,
            reads: VecDeque::new(),
            answer: Vec::with_capacity(1 << 16),
            at: 0,
            answering: None,
            answer_failed: false,
            offered: false,
            writes: VecDeque::new(),
            unanswered: 0,
            taken: 0,
            burst: 0,
            pause: 0,
            flying: VecDeque::new(),
            last_arrival: 0,
            write_failed: false,
            done: VecDeque::new(),
            faults: Vec::new(),
            fault_count: 0,
        }
    }
    pub(crate) fn set_config(&mut self, config: DmaConfig) {
        self.config = DmaConfig { reads: config.reads.max(1), writes: config.writes.max(1), ..config };
    }
    pub(crate) fn config(&self) -> DmaConfig {
        self.config
    }
    pub(crate) fn table(&self) -> &Arc<RwLock<DmaTable>> {
        &self.table
    }
    pub(crate) fn faults(&self) -> (&[Fault], u64) {
        (&self.faults, self.fault_count)
    }
    pub(crate) fn take_faults(&mut self) -> Vec<Fault> {
        self.fault_count = 0;
        std::mem::take(&mut self.faults)
    }
    /// Cycle after which every beat taken so far is in memory (in the past, if all are).
    pub(crate) fn arrival_of_last_write(&self) -> u64 {
        self.last_arrival
    }
    /// Nothing under way.
    pub(crate) fn idle(&self) -> bool {
        self.answering.is_none() && self.reads.is_empty() && self.unanswered == 0
    }
    fn stalls(&mut self) -> bool {
        self.config.stall_percent > 0 && self.rng.random_range(0..100) < self.config.stall_percent
    }
    fn fault(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < KEPT {
            self.faults.push(fault);
        }
        tracing::debug!(?fault, "DMA fault");
    }

    /// Fills in this clock's inputs.
    pub(crate) fn drive(&mut self, now: u64, i: &mut Inputs) {
        i.rd_req_ready = self.reads.len() + usize::from(self.answering.is_some()) < self.config.reads && !self.stalls();
        i.wr_req_ready = self.unanswered < self.config.writes && !self.stalls();
        if self.pause > 0 {
            self.pause -= 1;
        }
        i.wr_data_ready = !self.writes.is_empty() && self.pause == 0 && !self.stalls();
        if self.answering.is_none() && self.reads.front().is_some_and(|r| r.due <= now) {
            self.start_answer(now);
        }
        self.offered = self.answering.is_some() && (self.offered || !self.stalls());
        if self.offered {
            let mut beat = [0; 8];
            let octets = &self.answer[self.at..self.answer.len().min(self.at + 8)];
            beat[..octets.len()].copy_from_slice(octets);
            i.rd_data = u64::from_le_bytes(beat);
            i.rd_data_last = self.at + 8 >= self.answer.len();
            i.rd_data_error = i.rd_data_last && self.answer_failed;
            i.rd_data_valid = true;
        }
        if let Some((_, error)) = self.done.front() {
            i.wr_done_valid = true;
            i.wr_done_error = *error;
        }
    }
    fn start_answer(&mut self, now: u64) {
        let Some(request) = self.reads.pop_front() else { return };
        self.answer.clear();
        self.answer.resize(usize::from(request.len), 0);
        let read = self.table.read().unwrap_or_else(|e| e.into_inner()).read(request.iova, &mut self.answer);
        if let Err(why) = read {
            self.fault(Fault { cycle: now, write: false, iova: request.iova, len: request.len.into(), why });
        }
        self.answer_failed = read.is_err() || request.len == 0;
        self.at = 0;
        self.answering = Some(request);
    }

    /// Takes what passed at this clock's edge.
    pub(crate) fn edge(&mut self, now: u64, i: &Inputs, o: &Outputs, monitor: &mut Monitor, recorder: &mut Recorder) {
        if o.rd_req_valid && i.rd_req_ready {
            if o.rd_req_len == 0 {
                monitor.report(now, Rule::EmptyDma);
            }
            let due = now + 1 + self.config.read_latency.draw(&mut self.rng);
            self.reads.push_back(Request { iova: o.rd_req_addr, len: o.rd_req_len, due });
            recorder.mix(now ^ o.rd_req_addr.rotate_left(16) ^ u64::from(o.rd_req_len) << 48);
            recorder.add(Record::ReadRequest { cycle: now, iova: o.rd_req_addr, len: o.rd_req_len });
        }
        if i.rd_data_valid && o.rd_data_ready {
            recorder.mix(now ^ i.rd_data.rotate_left(7));
            self.at += 8;
            self.offered = false;
            if i.rd_data_last {
                if let Some(request) = self.answering.take() {
                    recorder.add(Record::ReadDone { cycle: now, iova: request.iova, error: self.answer_failed });
                }
            }
        }
        if i.wr_done_valid {
            if let Some((iova, error)) = self.done.pop_front() {
                self.unanswered -= 1;
                recorder.mix(now ^ u64::from(error) << 63);
                recorder.add(Record::WriteDone { cycle: now, iova, error });
            }
        }
        if o.wr_data_valid && i.wr_data_ready {
            self.take_beat(now, o, monitor, recorder);
        }
        if o.wr_req_valid && i.wr_req_ready {
            if o.wr_req_len == 0 {
                monitor.report(now, Rule::EmptyDma);
            }
            self.writes.push_back(Request { iova: o.wr_req_addr, len: o.wr_req_len, due: 0 });
            self.unanswered += 1;
            recorder.mix(now ^ o.wr_req_addr.rotate_left(24) ^ u64::from(o.wr_req_len) << 48);
            recorder.add(Record::WriteRequest { cycle: now, iova: o.wr_req_addr, len: o.wr_req_len });
        }
        while self.flying.front().is_some_and(|b| b.due <= now) {
            self.land_beat(now);
        }
    }
    fn take_beat(&mut self, now: u64, o: &Outputs, monitor: &mut Monitor, recorder: &mut Recorder) {
        let Some(&request) = self.writes.front() else { return };
        let octets = (request.len - self.taken).min(8);
        let final_beat = request.len - self.taken <= 8;
        let iova = request.iova.wrapping_add(self.taken.into());
        if o.wr_data_last && !final_beat {
            monitor.report(now, Rule::WriteLastEarly);
        } else if final_beat && !o.wr_data_last {
            monitor.report(now, Rule::WriteLastMissing);
        }
        recorder.mix(now ^ o.wr_data.rotate_left(11) ^ u64::from(o.wr_data_last) << 63);
        recorder.add(Record::WriteBeat { cycle: now, iova, last: o.wr_data_last });
        let ends = final_beat || o.wr_data_last;
        self.last_arrival = self.last_arrival.max(now + self.config.write_latency.draw(&mut self.rng));
        self.flying.push_back(Flying {
            due: self.last_arrival,
            iova,
            data: o.wr_data,
            octets: octets as u8,
            ends: ends.then_some(request.iova),
            spoilt: o.wr_data_last != final_beat || request.len == 0,
        });
        self.taken += octets;
        if ends {
            self.taken = 0;
            self.writes.pop_front();
        }
        if let Some((longest, pause)) = self.config.write_burst {
            self.burst += 1;
            if self.burst >= longest {
                self.burst = 0;
                // counted down before it is looked at
                self.pause = pause + 1;
            }
        }
    }
    fn land_beat(&mut self, now: u64) {
        let Some(beat) = self.flying.pop_front() else { return };
        let octets = beat.data.to_le_bytes();
        let written = self.table.read().unwrap_or_else(|e| e.into_inner()).write(beat.iova, &octets[..usize::from(beat.octets)]);
        if let Err(why) = written {
            if !self.write_failed {
                self.fault(Fault { cycle: now, write: true, iova: beat.iova, len: beat.octets.into(), why });
            }
        }
        self.write_failed |= written.is_err() || beat.spoilt;
        if let Some(iova) = beat.ends {
            self.done.push_back((iova, self.write_failed));
            self.write_failed = false;
        }
    }
    /// The core was reset: beats that it had given away reach memory, and everything else is forgotten.
    pub(crate) fn reset(&mut self, now: u64) {
        while !self.flying.is_empty() {
            self.land_beat(now);
        }
        self.reads.clear();
        self.writes.clear();
        self.done.clear();
        self.answering = None;
        self.offered = false;
        self.unanswered = 0;
        self.taken = 0;
        self.burst = 0;
        self.pause = 0;
        self.write_failed = false;
        self.last_arrival = 0;
    }
}
