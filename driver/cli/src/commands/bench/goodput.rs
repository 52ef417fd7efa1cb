// SPDX-License-Identifier: MIT OR Apache-2.0
//! Octets and messages a second of one connection, beside what the line could carry, and what each half of the way takes when it is alone.
//!
//! The ceiling is the line: 8 octets a clock, of which a frame takes its own and 24 more. So it is a number of cycles for each message: those that its frames occupy the line for if
//! each is as long as can be. Messages are all posted at once with one doorbell; cycles are counted from completion to completion, without those of the first quarter.
use super::{
    pair::{End, Pair, A, B},
    session::{Batch, Session, Verb},
    stamps::{self, hold, Kind, Mark, What},
};
use crate::Failure;
use ironwarp_abi::Counter;
use ironwarp_sim::bus::lock;
use serde::Serialize;

/// Octets that the line carries in a clock, and what a frame takes beside its own: preamble, FCS, gap.
const LINE: f64 = 8.0;
const FRAME_OVERHEAD: usize = 24;
/// Ethernet, IPv4 and TCP headers; the largest segment at an MTU of 1500.
const HEADERS: usize = 54;
const SEGMENT: usize = 1460;
/// MPA: length in front, CRC behind.
const LENGTH: usize = 2;
const CRC: usize = 4;
/// DDP headers.
const TAGGED: usize = 14;
const UNTAGGED: usize = 18;

/// What is measured.
pub(super) struct Case {
    name: &'static str,
    verb: Verb,
    octets: usize,
    inline: bool,
    /// One in so many is signalled.
    signalled: u16,
    both_ways: bool,
    dma_latency: u32,
    /// Receive window of both ends. The adapter's own is what the buffer behind the MAC can hold, which is 16 KiB for all connections; with a larger one a sender at line rate fills the buffer when
    /// the receiver is slower, and frames are lost.
    pub(super) window: Option<u32>,
}

/// Octets of a large message.
const LARGE: usize = 65_536;

const fn large(name: &'static str, verb: Verb, both_ways: bool, dma_latency: u32) -> Case {
    Case { name, verb, octets: LARGE, inline: false, signalled: 1, both_ways, dma_latency, window: None }
}
const fn small(name: &'static str, verb: Verb, octets: usize, inline: bool, signalled: u16, both_ways: bool) -> Case {
    Case { name, verb, octets, inline, signalled, both_ways, dma_latency: 0, window: None }
}

pub(super) const CASES: [Case; 17] = [
    large("Write, 65536 octets", Verb::Write, false, 0),
    large("Read, 65536 octets", Verb::Read, false, 0),
    large("Send, 65536 octets", Verb::Send, false, 0),
    large("Write, 65536 octets, both ways", Verb::Write, true, 0),
    large("Read, 65536 octets, both ways", Verb::Read, true, 0),
    large("Send, 65536 octets, both ways", Verb::Send, true, 0),
    large("Write, 65536 octets, DMA latency 100", Verb::Write, false, 100),
    large("Read, 65536 octets, DMA latency 100", Verb::Read, false, 100),
    large("Send, 65536 octets, DMA latency 100", Verb::Send, false, 100),
    small("Write, 8 octets inline, 1 in 16 signalled", Verb::Write, 8, true, 16, false),
    small("Write, 8 octets inline, each signalled", Verb::Write, 8, true, 1, false),
    small("Write, 8 octets by DMA, each signalled", Verb::Write, 8, false, 1, false),
    small("Write, 8 octets inline, both ways", Verb::Write, 8, true, 16, true),
    small("Send, 64 octets inline, 1 in 16 signalled", Verb::Send, 64, true, 16, false),
    small("Send, 64 octets by DMA, each signalled", Verb::Send, 64, false, 1, false),
    small("Send, 64 octets inline, both ways", Verb::Send, 64, true, 16, true),
    // last: it needs adapters of its own
    Case { window: Some(32_768), ..large("Write, 65536 octets, window 32768", Verb::Write, false, 0) },
];

impl Case {
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }
    const fn is_large(&self) -> bool {
        self.octets >= LARGE
    }
}

/// Budgets, percent of the ceiling.
pub(super) const LARGE_BUDGET: (u64, u64) = (90, 99);
pub(super) const SMALL_BUDGET: (u64, u64) = (50, 95);

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Direction {
    pub(super) cycles_per_message: f64,
    /// Of the ceiling, percent.
    pub(super) share: f64,
    pub(super) messages_per_second_at_156_25_mhz: u64,
    pub(super) gbit_per_second_at_156_25_mhz: f64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Flow {
    pub(super) name: &'static str,
    pub(super) octets: usize,
    pub(super) dma_latency: u32,
    pub(super) messages: u16,
    /// Cycles for which a message occupies the line.
    pub(super) line_cycles_per_message: f64,
    /// Percent of the ceiling.
    pub(super) budget: (u64, u64),
    /// From A, and from B where both ways are used.
    pub(super) directions: Vec<Direction>,
    /// What TCP repeated, and what had no room in a receiver.
    pub(super) retransmissions: u64,
    pub(super) dropped: u64,
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Cycles for which a message occupies the line.
pub(super) fn line_cycles(verb: Verb, octets: usize) -> f64 {
    let header = if verb == Verb::Send { UNTAGGED } else { TAGGED };
    let most = SEGMENT - LENGTH - CRC - header;
    let frame = |payload: usize| HEADERS + (LENGTH + header + payload).next_multiple_of(4) + CRC + FRAME_OVERHEAD;
    let rest = octets % most;
    let last = if rest > 0 || octets == 0 { frame(rest) } else { 0 };
    (octets / most * frame(most) + last) as f64 / LINE
}

/// What could explain a figure: both ends together.
fn troubles(pair: &mut Pair) -> Result<[u64; 2], Failure> {
    let mut sums = [0, 0];
    for end in [A, B] {
        let device = pair.rnic(end).device();
        sums[0] += device.counter(Counter::TcpRetransSegs)?;
        for counter in [Counter::EthInOverflow, Counter::RxMetaDropped, Counter::TcpOooDropped] {
            sums[1] += device.counter(counter)?;
        }
    }
    Ok(sums)
}

/// From completion to completion, for each message; `signalled` of them a completion.
fn pace(marks: &[Mark], end: End, batch: Batch) -> Result<f64, Failure> {
    let cycles: Vec<_> = marks.iter().filter(|m| m.end == end && m.what == What::Completed).map(|m| m.cycle).collect();
    let done = |completion: usize| ((completion as u16 + 1) * batch.signalled).min(batch.count);
    let (first, last) = (cycles.len() / 4, cycles.len().saturating_sub(1));
    if last <= first || done(last) != batch.count {
        return Err(format!("{} completions of {} messages", cycles.len(), batch.count).into());
    }
    Ok((cycles[last] - cycles[first]) as f64 / f64::from(done(last) - done(first)))
}

pub(super) fn flow(pair: &mut Pair, case: &Case, messages: u16) -> Result<Flow, Failure> {
    let count = if case.is_large() { messages } else { messages.saturating_mul(SMALL_FOR_LARGE).min(SMALL_MOST) };
    let batch = Batch { verb: case.verb, octets: case.octets, count, signalled: case.signalled, inline: case.inline };
    let ends: &[End] = if case.both_ways { &[A, B] } else { &[A] };
    let mut session = Session::open(pair)?;
    let pattern: Vec<u8> = (0..case.octets).map(|n| (n * 7 + n / 256) as u8).collect();
    if !case.inline {
        session.fill(if case.verb == Verb::Read { B } else { A }, &pattern);
    }
    pair.set_dma_latency(case.dma_latency);
    pair.rest()?;
    let before = troubles(pair)?;
    stamps::start(&mut lock(&pair.world), &pair.watch);
    ends.iter().try_for_each(|&end| session.post(pair, end, batch))?;
    session.complete(pair, [A, B].map(|end| if ends.contains(&end) { count } else { 0 }))?;
    pair.rest()?;
    let marks = pair.marks()?;
    let after = troubles(pair)?;
    pair.set_dma_latency(0);
    // both ways the regions overwrite each other
    if !case.inline && !case.both_ways && session.contents(if case.verb == Verb::Read { A } else { B }, case.octets) != pattern {
        return Err("other octets came than were sent".into());
    }
    session.close(pair)?;
    let line = line_cycles(case.verb, case.octets);
    tracing::info!(case.name, count, line, "flow");
    let direction = |end: &End| -> Result<Direction, Failure> {
        let cycles = pace(&marks, *end, batch)?;
        Ok(Direction {
            cycles_per_message: tenths(cycles),
            share: tenths(100.0 * line / cycles),
            messages_per_second_at_156_25_mhz: (156.25e6 / cycles) as u64,
            gbit_per_second_at_156_25_mhz: (case.octets as f64 * 8.0 * 156.25e6 / cycles / 1e6).round() / 1e3,
        })
    };
    Ok(Flow {
        name: case.name,
        octets: case.octets,
        dma_latency: case.dma_latency,
        messages: count,
        line_cycles_per_message: tenths(line),
        budget: if case.is_large() { LARGE_BUDGET } else { SMALL_BUDGET },
        directions: ends.iter().map(direction).collect::<Result<_, _>>()?,
        retransmissions: after[0] - before[0],
        dropped: after[1] - before[1],
    })
}

/// So many small messages for each large one, at most as many as a queue holds.
const SMALL_FOR_LARGE: u16 = 16;
const SMALL_MOST: u16 = 512;

/// One half of the way alone: the sender while the wire holds its frames back, then the receiver when they come one behind the other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Half {
    pub(super) name: &'static str,
    /// Frames that the sender had made when it stopped to wait for an acknowledgement.
    pub(super) frames: usize,
    pub(super) line_cycles_per_frame: f64,
    /// From first beat to first beat, when nothing is waited for.
    pub(super) sender_cycles_per_frame: f64,
    /// From the end of one placement to the next, when all frames are there.
    pub(super) receiver_cycles_per_frame: f64,
}

pub(super) const HALVES: [(&str, Verb, usize); 4] = [
    ("Write, full frames", Verb::Write, 32 * 1440),
    ("Send, full frames", Verb::Send, 32 * 1436),
    ("Write, 8 octets", Verb::Write, 8),
    ("Send, 64 octets", Verb::Send, 64),
];

pub(super) fn half(pair: &mut Pair, name: &'static str, verb: Verb, octets: usize) -> Result<Half, Failure> {
    let is_small = octets <= 64;
    let batch = Batch { verb, octets, count: if is_small { 64 } else { 1 }, signalled: 1, inline: is_small };
    let mut session = Session::open(pair)?;
    // the window opens
    let opener = Batch { verb, octets: LARGE, count: 4, signalled: 1, inline: false };
    session.post(pair, A, opener)?;
    session.complete(pair, [opener.count, 0])?;
    pair.rest()?;
    hold(&pair.watch, false, true);
    stamps::start(&mut lock(&pair.world), &pair.watch);
    session.post(pair, A, batch)?;
    pair.rest()?;
    // what the wire held back is seen as it goes in
    let sent = pair.marks()?;
    stamps::start(&mut lock(&pair.world), &pair.watch);
    hold(&pair.watch, false, false);
    session.complete(pair, [batch.count, 0])?;
    pair.rest()?;
    let came = pair.marks()?;
    session.close(pair)?;
    let times = |marks: &[Mark], end: End, what: What| -> Vec<u64> {
        marks.iter().filter(|m| m.end == end && m.what == what).map(|m| m.cycle).collect()
    };
    let frames = times(&sent, A, What::OutFirst(Kind::Payload));
    // a placement is one write or, at the end of a page, two: they end when the next begins
    let mut placed = times(&came, B, if verb == Verb::Send && is_small { What::Received } else { What::DataWritten });
    placed.truncate(frames.len());
    let each = |times: &[u64]| match times {
        [first, .., last] => Ok(tenths((last - first) as f64 / (times.len() - 1) as f64)),
        _ => Err(Failure::from(format!("{name}: {} frames", times.len()))),
    };
    let line = line_cycles(verb, if is_small { octets } else { octets / 32 });
    Ok(Half {
        name,
        frames: frames.len(),
        line_cycles_per_frame: tenths(line),
        sender_cycles_per_frame: each(&frames)?,
        receiver_cycles_per_frame: each(&placed)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_the_line_as_long_as_its_frames() {
        // 82 octets and 24
        assert_eq!(line_cycles(Verb::Write, 8), 13.25);
        assert_eq!(line_cycles(Verb::Send, 64), 20.75);
        assert_eq!(line_cycles(Verb::Write, 1440), (1514.0 + 24.0) / 8.0);
        assert_eq!(line_cycles(Verb::Send, 2 * 1436), 2.0 * (1514.0 + 24.0) / 8.0);
        assert_eq!(line_cycles(Verb::Read, 1441), (1514.0 + 24.0 + 54.0 + 24.0 + 24.0) / 8.0);
        assert_eq!(line_cycles(Verb::Write, 0), (54.0 + 16.0 + 4.0 + 24.0) / 8.0);
    }
}
