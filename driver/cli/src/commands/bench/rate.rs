// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set-ups a second, and what each half of the way costs when it is all that is done.
use super::{
    pair::{to, Pair, A, B, PORT},
    stamps::{self, each, hold, Kind, What},
};
use crate::Failure;
use ironwarp_abi::{EventKind, ENTRY_OCTETS};
use ironwarp_rnic::{AcceptParam, Connection, Event};
use ironwarp_sim::{bus::lock, Record};
use serde::Serialize;

/// Octets of a beat.
const BEAT: usize = 8;
/// Cycles that one set-up may take before the run is given up.
const BOUND: u64 = 100_000;

/// What passed the ports of one adapter for each set-up.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Passed {
    pub(super) mmio_writes: f64,
    pub(super) commands: f64,
    pub(super) events: f64,
    pub(super) dma_read_beats: f64,
    pub(super) dma_write_beats: f64,
    pub(super) frames_out: f64,
    pub(super) wire_beats_out: f64,
}

/// One sustained run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rate {
    pub(super) in_flight: u64,
    pub(super) dma_latency: u32,
    pub(super) set_ups: u64,
    pub(super) cycles_per_set_up: f64,
    pub(super) per_second_at_62_5_mhz: u64,
    pub(super) per_second_at_156_25_mhz: u64,
    /// Per set-up.
    pub(super) a: Passed,
    pub(super) b: Passed,
}

/// Figures with one digit after the point.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Passed {
    fn new(records: &[Record], set_ups: u64) -> Self {
        let each = |count: usize| tenths(count as f64 / set_ups as f64);
        let sum = |of: &dyn Fn(&Record) -> usize| each(records.iter().map(of).sum());
        Passed {
            mmio_writes: sum(&|r| usize::from(matches!(r, Record::MmioWrite { .. }))),
            // nothing else is read in these runs: there are no private data
            commands: sum(&|r| usize::from(matches!(r, Record::ReadRequest { .. }))),
            events: sum(&|r| usize::from(matches!(r, Record::WriteRequest { len, .. } if usize::from(*len) == ENTRY_OCTETS))),
            dma_read_beats: sum(&|r| if let Record::ReadRequest { len, .. } = r { usize::from(*len).div_ceil(BEAT) } else { 0 }),
            dma_write_beats: sum(&|r| usize::from(matches!(r, Record::WriteBeat { .. }))),
            frames_out: sum(&|r| usize::from(matches!(r, Record::FrameOut { .. }))),
            wire_beats_out: sum(&|r| if let Record::FrameOut { len, .. } = r { (*len as usize).div_ceil(BEAT) } else { 0 }),
        }
    }
}

#[derive(Default)]
struct Progress {
    begun: u64,
    freed: [u64; 2],
}

impl Progress {
    /// Ended on both sides.
    fn done(&self) -> u64 {
        self.freed[A].min(self.freed[B])
    }
}

/// Takes every event, answers at once: hosts without turnaround. True if there was one.
fn serve(pair: &mut Pair, progress: &mut Progress) -> Result<bool, Failure> {
    let mut any = false;
    while let Some(event) = pair.a.poll_event()? {
        any = true;
        match event {
            Event::ConnectReply { connection, result: Ok(()), .. } => {
                pair.a.post_abort(&connection)?;
            }
            Event::ConnectionFreed { .. } => progress.freed[A] += 1,
            Event::Connecting { .. } | Event::Done { .. } | Event::Close { .. } => {}
            other => return Err(format!("A: {other:?}").into()),
        }
    }
    while let Some(event) = pair.b.poll_event()? {
        any = true;
        match event {
            Event::ConnectRequest { connection, .. } => {
                pair.b.post_accept(&connection, &AcceptParam::default())?;
            }
            Event::ConnectionFreed { .. } => progress.freed[B] += 1,
            Event::Done { .. } | Event::Established { .. } | Event::Close { .. } => {}
            other => return Err(format!("B: {other:?}").into()),
        }
    }
    Ok(any)
}

/// `set_ups` connections, each aborted when it is connected, so many under way at any time. Those under way at begin and end do not count.
pub(super) fn sustained(pair: &mut Pair, in_flight: u64, set_ups: u64, dma_latency: u32) -> Result<Rate, Failure> {
    pair.rest()?;
    pair.set_dma_latency(dma_latency);
    let param = to(PORT, 0);
    let mut progress = Progress::default();
    let mut begin = None;
    let limit = lock(&pair.world).cycle() + (set_ups + 2 * in_flight) * BOUND;
    let end = loop {
        let any = serve(pair, &mut progress)?;
        while progress.begun - progress.done() < in_flight {
            pair.a.post_connect(&param)?;
            progress.begun += 1;
        }
        let cycle = lock(&pair.world).cycle();
        if begin.is_none() && progress.done() >= in_flight {
            begin = Some((cycle, progress.done()));
            stamps::start(&mut lock(&pair.world), &pair.watch);
        }
        if let Some((began, done)) = begin.filter(|(_, done)| progress.done() >= done + set_ups) {
            tracing::info!(in_flight, dma_latency, began, cycle, "sustained");
            break (cycle - began, progress.done() - done);
        }
        if cycle > limit {
            return Err(
                format!("{} set-ups in flight: {} of {} done after {cycle} cycles", in_flight, progress.done(), progress.begun).into()
            );
        }
        if !any {
            lock(&pair.world).step();
        }
    };
    let records = stamps::records(&mut lock(&pair.world))?;
    while progress.done() < progress.begun {
        if !serve(pair, &mut progress)? {
            lock(&pair.world).step();
        }
        if lock(&pair.world).cycle() > limit {
            return Err("the last set-ups do not end".into());
        }
    }
    let (cycles, set_ups) = end;
    let each = cycles as f64 / set_ups as f64;
    Ok(Rate {
        in_flight,
        dma_latency,
        set_ups,
        cycles_per_set_up: tenths(each),
        per_second_at_62_5_mhz: (62.5e6 / each) as u64,
        per_second_at_156_25_mhz: (156.25e6 / each) as u64,
        a: Passed::new(&records[A], set_ups),
        b: Passed::new(&records[B], set_ups),
    })
}

/// A part of the way, done for all connections at once while the wire holds back what would follow.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) of: &'static str,
    /// From the first thing that passed a port to the last that is counted, for each connection.
    pub(super) cycles_each: f64,
}

/// The parts of `count` set-ups and their aborts, one part after the other.
pub(super) fn phases(pair: &mut Pair, count: usize) -> Result<Vec<Phase>, Failure> {
    pair.set_dma_latency(0);
    let mut phases = Vec::new();
    let mut phase = |pair: &mut Pair, name, end, what, work: &mut dyn FnMut(&mut Pair) -> Result<(), Failure>| -> Result<(), Failure> {
        let ((), marks) = pair.seen(|p| work(p))?;
        let (seen, cycles) = each(&marks, end, what);
        if seen != count {
            return Err(format!("{name}: {seen} of {count}").into());
        }
        phases.push(Phase { name, of: ["A", "B"][end], cycles_each: tenths(cycles) });
        Ok(())
    };
    let command = What::Event(EventKind::CmdReply);
    phase(pair, "NOP: command ring, engine, event ring", A, command, &mut |p| {
        (0..count).try_for_each(|_| Ok(p.a.post_nop().map(drop)?))
    })?;
    let (to_a, to_b) = (true, true);
    hold(&pair.watch, to_a, to_b);
    let param = to(PORT, 0);
    phase(pair, "CONNECT to SYN", A, What::OutFirst(Kind::Syn), &mut |p| {
        (0..count).try_for_each(|_| Ok(p.a.post_connect(&param).map(drop)?))
    })?;
    phase(pair, "SYN to SYN, ACK", B, What::OutFirst(Kind::SynAck), &mut |p| pass(p, false, true))?;
    phase(pair, "SYN, ACK to MPA Request", A, What::OutFirst(Kind::Payload), &mut |p| pass(p, true, false))?;
    phase(pair, "MPA Request to CONNECT_REQUEST", B, What::Event(EventKind::ConnectRequest), &mut |p| pass(p, false, true))?;
    let asked = connections(pair, B)?;
    phase(pair, "ACCEPT to MPA Reply", B, What::OutFirst(Kind::Payload), &mut |p| {
        asked.iter().try_for_each(|c| Ok(p.b.post_accept(c, &AcceptParam::default()).map(drop)?))
    })?;
    phase(pair, "MPA Reply to CONNECT_REPLY", A, What::Event(EventKind::ConnectReply), &mut |p| pass(p, true, false))?;
    let opened = connections(pair, A)?;
    phase(pair, "ABORT to FREED", A, What::Event(EventKind::Freed), &mut |p| {
        opened.iter().try_for_each(|c| Ok(p.a.post_abort(c).map(drop)?))
    })?;
    phase(pair, "RST to FREED", B, What::Event(EventKind::Freed), &mut |p| pass(p, false, true))?;
    hold(&pair.watch, false, false);
    connections(pair, A)?;
    connections(pair, B)?;
    Ok(phases)
}

/// Lets what the wire held back pass to A, to B; what comes of it is held back again.
fn pass(pair: &mut Pair, to_a: bool, to_b: bool) -> Result<(), Failure> {
    hold(&pair.watch, !to_a, !to_b);
    pair.rest()
}

/// Takes the events of one side; the connections to answer or to end.
fn connections(pair: &mut Pair, end: usize) -> Result<Vec<Connection>, Failure> {
    let rnic = if end == A { &mut pair.a } else { &mut pair.b };
    let mut connections = Vec::new();
    while let Some(event) = rnic.poll_event()? {
        match event {
            Event::ConnectRequest { connection, .. } | Event::ConnectReply { connection, result: Ok(()), .. } => {
                connections.push(connection)
            }
            Event::Refused { .. } | Event::BadReply { .. } | Event::ConnectReply { .. } => return Err(format!("{event:?}").into()),
            _ => {}
        }
    }
    Ok(connections)
}
