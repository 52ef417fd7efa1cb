// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passed the ports of both adapters, in which cycle: marks, and stages between them.
use super::pair::{Areas, End};
use crate::Failure;
use ironwarp_abi::{reg, EventKind, ENTRY_OCTETS};
use ironwarp_sim::{
    wire::{Frame, Link, SentFrame, Wire},
    Record, World,
};
use ironwarp_wire::{ethernet, ipv4, tcp};
use serde::Serialize;
use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

/// What a frame is, by its TCP flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Syn,
    SynAck,
    /// Carries octets: an MPA start-up frame, with FIN or without.
    Payload,
    Ack,
    Fin,
    Reset,
    Other,
}

fn kind(frame: &[u8]) -> Kind {
    let tcp = || {
        let ethernet = ethernet::View::new(frame).ok().filter(|e| e.ethertype() == ethernet::TYPE_IPV4)?;
        let datagram = ipv4::View::new(ethernet.payload()).ok().filter(|d| d.protocol() == ipv4::PROTOCOL_TCP)?;
        let segment = tcp::View::new(datagram.payload()).ok()?;
        Some((segment.flags(), segment.payload().is_empty()))
    };
    match tcp() {
        None => Kind::Other,
        Some((flags, _)) if flags & tcp::flag::RST != 0 => Kind::Reset,
        Some((flags, _)) if flags & tcp::flag::SYN != 0 && flags & tcp::flag::ACK != 0 => Kind::SynAck,
        Some((flags, _)) if flags & tcp::flag::SYN != 0 => Kind::Syn,
        Some((_, false)) => Kind::Payload,
        Some((flags, _)) if flags & tcp::flag::FIN != 0 => Kind::Fin,
        Some((_, true)) => Kind::Ack,
    }
}

struct Sent {
    end: End,
    kind: Kind,
    first: u64,
    last: u64,
}

/// What is known of a [`Watched`] wire, and whom it holds frames back from.
#[derive(Default)]
pub(super) struct Watch {
    sent: Vec<Sent>,
    /// By receiving end.
    arrived: [Vec<Kind>; 2],
    held: [bool; 2],
}

pub(super) type SharedWatch = Arc<Mutex<Watch>>;

fn look(watch: &SharedWatch) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(|e| e.into_inner())
}

/// Holds back what goes to an adapter, or lets it pass.
pub(super) fn hold(watch: &SharedWatch, to_a: bool, to_b: bool) {
    look(watch).held = [to_a, to_b];
}

/// A cable without length that knows what its frames are.
pub(super) struct Watched {
    link: Link,
    watch: SharedWatch,
}

impl Watched {
    pub(super) fn new() -> (Self, SharedWatch) {
        let watch = SharedWatch::default();
        (Watched { link: Link::new(0), watch: watch.clone() }, watch)
    }
}

impl Wire for Watched {
    fn ends(&self) -> usize {
        2
    }
    fn send(&mut self, end: usize, sent: SentFrame) {
        let seen = Sent { end, kind: kind(&sent.frame.octets), first: sent.first, last: sent.last };
        look(&self.watch).sent.push(seen);
        self.link.send(end, sent);
    }
    fn receive(&mut self, end: usize, now: u64) -> Option<Frame> {
        let mut watch = look(&self.watch);
        if watch.held[end] {
            return None;
        }
        let frame = self.link.receive(end, now)?;
        watch.arrived[end].push(kind(&frame.octets));
        Some(frame)
    }
    fn idle(&self) -> bool {
        self.link.idle()
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The core took the write of CMD_TAIL.
    Doorbell,
    /// Request and last beat of the DMA read of a command.
    CommandAsked,
    CommandRead,
    /// The core took the write of SQ_TAIL.
    Posted,
    /// Request and last beat of the DMA read of a send work request.
    WorkAsked,
    WorkRead,
    /// Last beat of a completion of a send work request, of a receive.
    Completed,
    Received,
    /// Request and last beat of the DMA read of private data, or of what a work request sends.
    DataAsked,
    DataRead,
    /// Last beat of a DMA write of private data, or of what a peer sent.
    DataWritten,
    /// Last beat of the DMA write of an event.
    Event(EventKind),
    /// First and last beat of a frame, out of the core and into it.
    OutFirst(Kind),
    OutLast(Kind),
    InFirst(Kind),
    InLast(Kind),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) cycle: u64,
    pub(super) end: End,
    pub(super) what: What,
}

/// Where the queues of a connection are that moves data.
#[derive(Clone, Debug, Default)]
pub(super) struct DataAreas {
    pub(super) sends: Range<u64>,
    pub(super) receives: Range<u64>,
    pub(super) completed: Range<u64>,
    pub(super) received: Range<u64>,
}

/// Forgets what was seen, and sees from now on.
pub(super) fn start(world: &mut World, watch: &SharedWatch) {
    (0..2).for_each(|end| world.adapter_mut(end).recorder_mut().keep(RECORDS));
    let mut watch = look(watch);
    watch.sent.clear();
    watch.arrived.iter_mut().for_each(Vec::clear);
}

/// Records kept from [`start`] on, at most.
const RECORDS: usize = 1 << 20;

/// Takes the records of both ends; fails if there were more than are kept.
pub(super) fn records(world: &mut World) -> Result<[Vec<Record>; 2], Failure> {
    if (0..2).any(|end| world.adapter(end).recorder().forgotten() > 0) {
        return Err(format!("more than {RECORDS} records").into());
    }
    Ok([0, 1].map(|end| world.adapter_mut(end).recorder_mut().take()))
}

/// What was seen since [`start`], in order. Nothing may have been on its way into a core then. Events are read from the rings.
pub(super) fn marks(world: &mut World, watch: &SharedWatch, areas: &[Areas; 2]) -> Result<Vec<Mark>, Failure> {
    let records = records(world)?;
    let (sent, arrived) = {
        let mut watch = look(watch);
        (std::mem::take(&mut watch.sent), std::mem::take(&mut watch.arrived))
    };
    let mut marks = Vec::new();
    let mut mark = |cycle, end, what| marks.push(Mark { cycle, end, what });
    for frame in &sent {
        mark(frame.first, frame.end, What::OutFirst(frame.kind));
        mark(frame.last, frame.end, What::OutLast(frame.kind));
    }
    for (end, records) in records.iter().enumerate() {
        let area = &areas[end];
        let mut arriving = arrived[end].iter();
        for record in records {
            match *record {
                Record::MmioWrite { cycle, offset, .. } if u32::from(offset) == reg::CMD_TAIL => mark(cycle, end, What::Doorbell),
                Record::MmioWrite { cycle, offset, .. } if u32::from(offset) == reg::SQ_TAIL => mark(cycle, end, What::Posted),
                Record::ReadRequest { iova, .. } | Record::ReadDone { iova, .. } if area.data.receives.contains(&iova) => {}
                Record::ReadRequest { cycle, iova, .. } if area.data.sends.contains(&iova) => mark(cycle, end, What::WorkAsked),
                Record::ReadDone { cycle, iova, .. } if area.data.sends.contains(&iova) => mark(cycle, end, What::WorkRead),
                Record::WriteBeat { cycle, iova, last: true } if area.data.completed.contains(&iova) => mark(cycle, end, What::Completed),
                Record::WriteBeat { cycle, iova, last: true } if area.data.received.contains(&iova) => mark(cycle, end, What::Received),
                Record::ReadRequest { cycle, iova, .. } => {
                    mark(cycle, end, if area.commands.contains(&iova) { What::CommandAsked } else { What::DataAsked });
                }
                Record::ReadDone { cycle, iova, .. } => {
                    mark(cycle, end, if area.commands.contains(&iova) { What::CommandRead } else { What::DataRead });
                }
                Record::WriteBeat { cycle, iova, last: true } if area.events.contains(&iova) => {
                    let entry = iova - (iova - area.events.start) % ENTRY_OCTETS as u64;
                    mark(cycle, end, What::Event(event(world, end, entry)?));
                }
                Record::WriteBeat { cycle, last: true, .. } => mark(cycle, end, What::DataWritten),
                Record::FrameIn { first, last, .. } => {
                    let kind = *arriving.next().ok_or("a frame went in that the wire did not bring")?;
                    mark(first, end, What::InFirst(kind));
                    mark(last, end, What::InLast(kind));
                }
                _ => {}
            }
        }
    }
    marks.sort_by_key(|m| m.cycle);
    Ok(marks)
}

fn event(world: &World, end: End, iova: u64) -> Result<EventKind, Failure> {
    let mut octets = [0; 4];
    let table = world.adapter(end).dma_table().read().unwrap_or_else(|e| e.into_inner());
    table.read(iova, &mut octets).map_err(|e| format!("event at {iova:#x}: {e:?}"))?;
    EventKind::from_raw(octets[0]).ok_or_else(|| format!("event of kind {} at {iova:#x}", octets[0]).into())
}

/// Whose time a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Owner {
    /// The hardware of the adapter that began.
    A,
    /// The hardware of the other.
    B,
    /// From the first beat out of one core to the last beat into the other.
    Wire,
    /// A host, between an event in its memory and its doorbell.
    Host,
}

/// From one mark to the next.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) of: Owner,
    pub(super) cycles: u64,
}

/// Stages in a row: each begins where the one before ended.
pub(super) struct Chain<'a> {
    marks: &'a [Mark],
    begin: u64,
    at: u64,
    stages: Vec<Stage>,
}

impl<'a> Chain<'a> {
    /// Begins with the first of `what` at `end`.
    pub(super) fn from(marks: &'a [Mark], end: End, what: What) -> Result<Self, Failure> {
        let begin = find(marks, 0, end, what)?;
        Ok(Chain { marks, begin, at: begin, stages: Vec::new() })
    }
    fn stage(mut self, name: &'static str, of: Owner, cycle: u64) -> Self {
        self.stages.push(Stage { name, of, cycles: cycle - self.at });
        self.at = cycle;
        self
    }
    /// A stage up to the next `what` at `end`.
    pub(super) fn to(self, name: &'static str, of: Owner, end: End, what: What) -> Result<Self, Failure> {
        let cycle = find(self.marks, self.at, end, what).map_err(|e| format!("{name}: {e}"))?;
        Ok(self.stage(name, of, cycle))
    }
    /// A stage up to the last `what` at `end` before the next `before`; none if there is none.
    pub(super) fn through(self, name: &'static str, of: Owner, end: End, what: What, before: What) -> Result<Self, Failure> {
        let limit = find(self.marks, self.at, end, before).map_err(|e| format!("{name}: {e}"))?;
        let on_the_way = |m: &&Mark| m.end == end && m.what == what && (self.at..=limit).contains(&m.cycle);
        match self.marks.iter().rev().find(on_the_way).map(|m| m.cycle) {
            Some(cycle) => Ok(self.stage(name, of, cycle)),
            None => Ok(self),
        }
    }
    /// Cycles from the begin to the first `what` at `end`: for what is not on the way.
    pub(super) fn aside(&self, end: End, what: What) -> Result<u64, Failure> {
        Ok(find(self.marks, self.begin, end, what)? - self.begin)
    }
    pub(super) fn stages(self) -> Vec<Stage> {
        self.stages
    }
}

fn find(marks: &[Mark], from: u64, end: End, what: What) -> Result<u64, Failure> {
    let found = marks.iter().find(|m| m.end == end && m.what == what && m.cycle >= from).map(|m| m.cycle);
    found.ok_or_else(|| format!("no {what:?} at adapter {end} from cycle {from} on").into())
}

/// How many of `what` there were at `end`, and the cycles from the first thing of all to the last of them, for each.
pub(super) fn each(marks: &[Mark], end: End, what: What) -> (usize, f64) {
    let cycles: Vec<_> = marks.iter().filter(|m| m.end == end && m.what == what).map(|m| m.cycle).collect();
    match (marks.first(), cycles.last()) {
        (Some(first), Some(last)) => (cycles.len(), (last - first.cycle) as f64 / cycles.len() as f64),
        _ => (0, 0.0),
    }
}
