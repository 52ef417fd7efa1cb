// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random traffic between two devices, in both directions of many connections at once, against a plain model of their memory.
//!
//! Each side of a connection has two regions: one for everything, and a *window* that the peer may invalidate. What an operation reads or writes is held while it is under way, with
//! [`GUARD`] octets around it, so that at any moment the model knows every octet that is not held. When an operation is over, all that it held is compared; in the end, all memory is.
//! Two kinds of operations share what they hold, because the RFCs order them: a fenced one may send what a Read before it brings, and a Read may fetch what a Write before it brings.
//!
//! That a Write has completed says nothing of its octets at the peer: they are compared when a Send or a Read behind it has been delivered (RFC 5040 section 5.5).
//!
//! Kinds, lengths and flags of the operations are those of the seed; places in memory and the interleaving depend on how fast the devices are.
use crate::{
    conformance::{param, Pair, Rig, Side, BOUND},
    served::{Served, Setup},
};
use ironwarp_iwcm::{ConnParam, MpaOptions};
use ironwarp_verbs::{Access, Cq, Mr, Qp, QpAttr, QpCap, QpInitAttr, QpState, RecvWr, SendFlags, SendOp, SendWr, Wc, WcOpcode, WcStatus};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

/// Octets around what is held that nobody may change.
const GUARD: usize = 32;
/// Octets of a window.
const WINDOW: usize = 20_000;
/// Longest message that has a place in a window.
const IN_WINDOW: usize = 5000;
/// Operations of one direction that are known ahead.
const AHEAD: usize = 12;
/// Places tried before an operation waits for room.
const TRIES: usize = 12;
const PAGE: usize = 4096;

/// What traffic there is.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Everything random.
    pub seed: u64,
    /// At once.
    pub connections: usize,
    /// Of all connections and both directions.
    pub operations: usize,
    /// Octets of a message.
    pub longest: usize,
    /// Depths of the queues are among these.
    pub depths: &'static [u32],
    /// Largest IRD and ORD.
    pub max_depth: u16,
    /// How each side starts MPA; none: as its device is set up.
    pub mpa: [Option<MpaOptions>; 2],
    /// Lengths around which something ends; 1/3 of the messages have about one of them.
    pub edges: &'static [usize],
    /// Connections may fail: then what they had posted is flushed, and nothing but what was held is undefined.
    pub fragile: bool,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic {
            seed: 1,
            connections: 1,
            operations: 100,
            longest: 1 << 16,
            depths: &[1, 2, 5, 16, 64],
            max_depth: 8,
            mpa: [None; 2],
            edges: &EDGES,
            fragile: false,
        }
    }
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Octets of their messages.
    pub octets: u64,
    /// Completions that were polled.
    pub completions: u64,
    /// Most work requests of one queue pair that were under way.
    pub deepest: usize,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.octets += other.octets;
        self.completions += other.completions;
        self.deepest = self.deepest.max(other.deepest);
    }
}

/// Lengths around which something ends: beats, inline data, FPDUs at an MTU of 576 and 1500, tagged and not, with markers and without, pages.
const EDGES: [usize; 16] = [0, 1, 4, 8, 16, 64, 128, 512, 516, 500, 1436, 1440, 1424, 1428, 4096, 8192];

/// 9 of 10 messages have at most 4 KB; 2 KB on average.
fn length(rng: &mut ChaCha8Rng, longest: usize, edges: &[usize]) -> usize {
    let evenly = |rng: &mut ChaCha8Rng, low: f64, high: f64| (low * (high / low).powf(rng.random())) as usize;
    let octets = match rng.random_range(0..1000) {
        0..350 => {
            let edge = edges[rng.random_range(0..edges.len())] * if rng.random_bool(0.2) { 2 } else { 1 };
            (edge + rng.random_range(0..3)).saturating_sub(1)
        }
        350..900 => evenly(rng, 1.0, 4097.0),
        900..980 => rng.random_range(4097..8192),
        980..999 => evenly(rng, 8192.0, 65_536.0),
        _ => evenly(rng, 65_536.0, 1_048_577.0),
    };
    octets.min(longest)
}

/// `total` in `parts`, some of which may be empty.
fn split(rng: &mut ChaCha8Rng, total: usize, parts: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..parts).map(|_| rng.random_range(0..=total)).chain([0, total]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|w| w[1] - w[0]).collect()
}

/// What is held, guards included.
struct Hold {
    start: usize,
    end: usize,
    users: u32,
}

/// A part of a region.
#[derive(Clone, Debug)]
struct Place {
    /// 0: the region for everything, 1: the window.
    region: usize,
    offset: usize,
    length: usize,
    /// None: of no octets.
    hold: Option<u32>,
}

impl Place {
    fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.length
    }
}

/// A region and what must be in it.
struct Memory {
    mr: Arc<dyn Mr>,
    region: usize,
    model: Vec<u8>,
    holds: BTreeMap<u32, Hold>,
    next: u32,
    /// Its key was given to the peer to invalidate.
    closed: bool,
}

impl Memory {
    fn new(mr: Arc<dyn Mr>, region: usize, rng: &mut ChaCha8Rng) -> Self {
        let mut model = vec![0; mr.length()];
        rng.fill(&mut model[..]);
        mr.write(0, &model).expect("inside");
        Memory { mr, region, model, holds: BTreeMap::new(), next: 0, closed: false }
    }
    /// Holds `length` octets somewhere; none if there is no room now.
    fn place(&mut self, rng: &mut ChaCha8Rng, length: usize) -> Option<Place> {
        let size = self.model.len();
        if length == 0 {
            return Some(Place { region: self.region, offset: rng.random_range(0..size), length, hold: None });
        }
        for _ in 0..TRIES {
            let any = rng.random_range(0..size);
            let page = any & !(PAGE - 1);
            let offset = match rng.random_range(0..8) {
                0 => page,
                1 => (page + rng.random_range(0..3)).wrapping_sub(length + 1),
                2 => page.wrapping_sub(rng.random_range(1..64)),
                3 => any & !7,
                _ => any,
            };
            let inside = offset >= GUARD && offset.checked_add(length + GUARD).is_some_and(|end| end <= size);
            let (start, end) = (offset.wrapping_sub(GUARD), offset.wrapping_add(length + GUARD));
            if inside && self.holds.values().all(|h| h.end <= start || end <= h.start) {
                self.next += 1;
                self.holds.insert(self.next, Hold { start, end, users: 1 });
                return Some(Place { region: self.region, offset, length, hold: Some(self.next) });
            }
        }
        None
    }
    /// A part of what is held already.
    fn share(&mut self, whole: &Place, rng: &mut ChaCha8Rng, most: usize) -> Place {
        let length = rng.random_range(1..=whole.length.min(most));
        let offset = whole.offset + rng.random_range(0..=whole.length - length);
        let hold = whole.hold.expect("it has octets");
        self.holds.get_mut(&hold).expect("held").users += 1;
        Place { region: self.region, offset, length, hold: Some(hold) }
    }
    fn release(&mut self, place: &Place) {
        let Some(id) = place.hold else { return };
        let hold = self.holds.get_mut(&id).expect("held");
        hold.users -= 1;
        if hold.users == 0 {
            self.holds.remove(&id);
        }
    }
    /// New octets that the device is to send.
    fn refresh(&mut self, place: &Place, rng: &mut ChaCha8Rng) {
        rng.fill(&mut self.model[place.range()]);
        self.mr.write(place.offset, &self.model[place.range()]).expect("inside");
    }
    fn sge(&self, place: &Place) -> ironwarp_verbs::Sge {
        self.mr.sge(place.offset, place.length)
    }
    /// What the place and its guards hold is what they must.
    fn check(&self, place: &Place, what: &dyn Fn() -> String) {
        if place.length > 0 {
            self.compare(place.offset - GUARD, place.offset + place.length + GUARD, place.range(), what);
        }
    }
    /// All that is not held.
    fn check_rest(&self, what: &dyn Fn() -> String) {
        let mut holds: Vec<_> = self.holds.values().map(|hold| (hold.start + GUARD, hold.end - GUARD)).collect();
        holds.sort_unstable();
        let mut start = 0;
        for (held, end) in holds {
            self.compare(start, held, 0..0, what);
            start = end;
        }
        self.compare(start, self.model.len(), 0..0, what);
    }
    fn compare(&self, start: usize, end: usize, inner: std::ops::Range<usize>, what: &dyn Fn() -> String) {
        let mut got = vec![0; end - start];
        self.mr.read(start, &mut got).expect("inside");
        let wanted = &self.model[start..end];
        if got == wanted {
            return;
        }
        let wrong: Vec<usize> = (0..got.len()).filter(|n| got[*n] != wanted[*n]).map(|n| start + n).collect();
        let (first, last) = (wrong[0], wrong[wrong.len() - 1]);
        // where else in the region is what was found?
        let sample = &got[first - start..(first - start + 16).min(got.len())];
        let elsewhere = self.model.windows(sample.len()).position(|w| w == sample);
        panic!(
            "{}: region {} of {} octets at {:#x}, {inner:?}: {} octets differ, {first}..={last}; there {:02x?}, not {:02x?}; the model has that at {elsewhere:?}",
            what(),
            self.region,
            self.model.len(),
            self.mr.addr(),
            wrong.len(),
            sample,
            &wanted[first - start..(first - start + 16).min(wanted.len())]
        );
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Write,
    Read,
}

/// An operation as the seed has it.
#[derive(Clone, Debug)]
struct Op {
    kind: Kind,
    length: usize,
    pieces: Vec<usize>,
    /// Of the receive, which may be longer.
    receive: Vec<usize>,
    inline: bool,
    fence: bool,
    signaled: bool,
    solicited: bool,
    invalidate: bool,
    /// Takes what an earlier operation brings, if there is one.
    chained: bool,
    /// In the window, if that may be.
    window: bool,
}

impl Op {
    fn new(rng: &mut ChaCha8Rng, longest: usize, edges: &[usize]) -> Self {
        let kind = [Kind::Send, Kind::Write, Kind::Read][rng.random_range(0..3)];
        let length = length(rng, longest, edges);
        let parts = rng.random_range(1..=4);
        let pieces = split(rng, length, parts);
        let more = if rng.random_bool(0.3) { rng.random_range(0..200) } else { 0 };
        let parts = rng.random_range(1..=4);
        let receive = split(rng, length + more, parts);
        Op {
            kind,
            length,
            pieces,
            receive,
            inline: kind != Kind::Read && length <= 64 && rng.random_bool(0.4),
            fence: rng.random_bool(0.15),
            signaled: rng.random_bool(0.6),
            solicited: kind == Kind::Send && rng.random_bool(0.3),
            invalidate: kind == Kind::Send && rng.random_bool(0.15),
            chained: rng.random_bool(0.4),
            window: length <= IN_WINDOW && rng.random_bool(0.2),
        }
    }
}

enum What {
    Send,
    Write,
    Read { sink: Place, source: Place },
}

/// A send work request under way.
struct Posted {
    number: u64,
    signaled: bool,
    opcode: WcOpcode,
    length: usize,
    sources: Vec<Place>,
    what: What,
}

/// A receive under way at the peer.
struct Receive {
    number: u64,
    places: Vec<Place>,
    expect: Option<Expect>,
}

/// The Send that a receive waits for.
struct Expect {
    number: u64,
    length: usize,
    solicited: bool,
    invalidated: Option<u32>,
}

/// One direction of a connection.
struct Way {
    /// The send queue, the receive queue at the peer has flushed: nothing else comes of it any more.
    flushing: [bool; 2],
    plan: ChaCha8Rng,
    left: usize,
    upcoming: VecDeque<Op>,
    posted: VecDeque<Posted>,
    /// Targets of Writes of which nobody knows yet that they are placed.
    writes: VecDeque<(u64, Place)>,
    receives: VecDeque<Receive>,
    number: u64,
    receive_number: u64,
}

impl Way {
    fn done(&self) -> bool {
        self.left == 0 && self.upcoming.is_empty() && self.posted.is_empty() && self.writes.is_empty() && self.receives.is_empty()
    }
}

/// A connection with all that belongs to it.
struct Line {
    name: usize,
    pair: Pair,
    qps: [Arc<dyn Qp>; 2],
    caps: [QpCap; 2],
    /// By side: the region for everything, the window.
    memory: [[Memory; 2]; 2],
    /// By sending side.
    ways: [Way; 2],
    edges: &'static [usize],
    /// [`Side::read`].
    read: [Option<Arc<dyn Fn() + Send + Sync>>; 2],
    fragile: bool,
    /// It has failed.
    broken: bool,
}

/// All rights but the last, which only a window has.
const RIGHTS: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);
const WINDOW_RIGHTS: Access = RIGHTS.union(Access::REMOTE_INVALIDATE);

fn both(memory: &mut [[Memory; 2]; 2], from: usize) -> (&mut [Memory; 2], &mut [Memory; 2]) {
    let (client, server) = memory.split_at_mut(1);
    match from {
        0 => (&mut client[0], &mut server[0]),
        _ => (&mut server[0], &mut client[0]),
    }
}

/// A place in the window if it is wanted and possible, else in the region for everything.
fn place(memory: &mut [Memory; 2], rng: &mut ChaCha8Rng, length: usize, window: bool) -> Option<Place> {
    if window && length > 0 && length <= IN_WINDOW && !memory[1].closed {
        if let Some(place) = memory[1].place(rng, length) {
            return Some(place);
        }
    }
    memory[0].place(rng, length)
}

fn release(memory: &mut [Memory; 2], places: &[Place]) {
    for place in places {
        memory[place.region].release(place);
    }
}

/// Places for all parts, or none.
fn place_all(memory: &mut [Memory; 2], rng: &mut ChaCha8Rng, lengths: &[usize], window: bool) -> Option<Vec<Place>> {
    let mut places = Vec::new();
    for length in lengths {
        match place(memory, rng, *length, window) {
            Some(place) => places.push(place),
            None => {
                release(memory, &places);
                return None;
            }
        }
    }
    Some(places)
}

impl Line {
    fn name(&self, from: usize) -> String {
        format!("connection {} {}", self.name, ["to the server", "to the client"][from])
    }
    fn done(&self) -> bool {
        if self.broken {
            return self.ways.iter().all(|way| way.posted.is_empty() && way.receives.is_empty());
        }
        self.ways.iter().all(Way::done)
    }
    /// Posts what there is room for in one direction; was there anything?
    fn post(&mut self, from: usize, rng: &mut ChaCha8Rng, longest: usize, tally: &mut Tally) -> bool {
        self.broken |= self.fragile && self.qps.iter().any(|qp| qp.query().state != QpState::Rts);
        if self.broken {
            return false;
        }
        let way = &mut self.ways[from];
        while way.left > 0 && way.upcoming.len() < AHEAD {
            way.upcoming.push_back(Op::new(&mut way.plan, longest, self.edges));
            way.left -= 1;
        }
        let receives = self.post_receives(from, rng, longest);
        let sends = self.post_sends(from, rng, tally);
        receives || sends || self.flush(from)
    }
    /// Receives for the Sends that come next, but none that would hold memory for which a long operation before its Send waits.
    fn post_receives(&mut self, from: usize, rng: &mut ChaCha8Rng, longest: usize) -> bool {
        let way = &mut self.ways[from];
        let waiting = way.receives.iter().filter(|r| r.expect.is_none()).count();
        let mut list = Vec::new();
        let long = |op: &Op| op.length > longest / 8;
        let ahead = if way.upcoming.front().is_some_and(long) { Some(1) } else { way.upcoming.iter().position(long) };
        let ahead = ahead.unwrap_or(way.upcoming.len());
        for op in way.upcoming.iter().take(ahead).filter(|op| op.kind == Kind::Send).skip(waiting) {
            if way.receives.len() >= self.caps[1 - from].max_recv_wr as usize {
                break;
            }
            let memory = &mut self.memory[1 - from];
            // not in the window: it may be invalidated before the Send comes
            let Some(places) = place_all(memory, rng, &op.receive, false) else { break };
            let sg_list = places.iter().map(|place| memory[place.region].sge(place)).collect();
            way.receive_number += 1;
            list.push(RecvWr { wr_id: way.receive_number, sg_list });
            way.receives.push_back(Receive { number: way.receive_number, places, expect: None });
        }
        self.qps[1 - from].post_recv(&list).unwrap_or_else(|e| panic!("{}: receives: {e:?}", self.name(from)));
        if let Some(read) = self.read[1 - from].as_ref().filter(|_| !list.is_empty()) {
            read();
        }
        !list.is_empty()
    }
    fn post_sends(&mut self, from: usize, rng: &mut ChaCha8Rng, tally: &mut Tally) -> bool {
        let mut list = Vec::new();
        for _ in 0..rng.random_range(1..=8) {
            if self.ways[from].posted.len() >= self.caps[from].max_send_wr as usize {
                break;
            }
            let Some(op) = self.ways[from].upcoming.front().cloned() else { break };
            let Some(wr) = self.prepare(from, op, rng) else { break };
            self.ways[from].upcoming.pop_front();
            tally.operations += 1;
            tally.octets += self.ways[from].posted.back().map_or(0, |p| p.length as u64);
            list.push(wr);
        }
        tally.deepest = tally.deepest.max(self.ways[from].posted.len());
        self.qps[from].post_send(&list).unwrap_or_else(|e| panic!("{}: {e:?}", self.name(from)));
        !list.is_empty()
    }
    /// Makes the next operation a work request, and the model what it will be afterwards; none if there is no room now.
    fn prepare(&mut self, from: usize, op: Op, rng: &mut ChaCha8Rng) -> Option<SendWr> {
        let way = &mut self.ways[from];
        let (local, remote) = both(&mut self.memory, from);
        let unmatched = way.receives.iter().position(|r| r.expect.is_none());
        let (mut pieces, mut fence) = (op.pieces.clone(), op.fence);
        if op.kind == Kind::Send && unmatched.is_none() {
            return None;
        }
        let number = way.number + 1;
        let (mut inline, mut sources, mut remote_place) = (None, Vec::new(), None);
        let (send_op, opcode, what, length);
        if op.kind == Kind::Read {
            let earlier: Vec<_> = way.writes.iter().filter(|(_, place)| place.length > 0).map(|(_, place)| place.clone()).collect();
            let source = if op.chained && op.length > 0 && !earlier.is_empty() {
                let whole = &earlier[rng.random_range(0..earlier.len())];
                Some(remote[whole.region].share(whole, rng, op.length))
            } else {
                place(remote, rng, op.length, op.window).inspect(|place| {
                    if rng.random_bool(0.5) {
                        remote[place.region].refresh(place, rng);
                    }
                })
            }?;
            length = source.length;
            let Some(sink) = place(local, rng, length, op.window) else {
                release(remote, &[source]);
                return None;
            };
            let octets = remote[source.region].model[source.range()].to_vec();
            local[sink.region].model[sink.range()].copy_from_slice(&octets);
            pieces = vec![length];
            let region = &remote[source.region].mr;
            send_op = SendOp::Read { remote_addr: region.addr() + source.offset as u64, rkey: region.rkey() };
            sources.push(sink.clone());
            opcode = WcOpcode::RdmaRead;
            what = What::Read { sink, source };
        } else {
            let sinks: Vec<_> = way
                .posted
                .iter()
                .filter_map(|p| match &p.what {
                    What::Read { sink, .. } if sink.length > 0 => Some(sink.clone()),
                    _ => None,
                })
                .collect();
            let octets = if op.inline {
                let mut octets = vec![0; op.length];
                rng.fill(&mut octets[..]);
                inline = Some(octets.clone());
                octets
            } else {
                if op.chained && op.length > 0 && !sinks.is_empty() {
                    let whole = &sinks[rng.random_range(0..sinks.len())];
                    sources.push(local[whole.region].share(whole, rng, op.length));
                    // nothing but the fence makes this right
                    fence = true;
                } else {
                    sources = place_all(local, rng, &pieces, op.window)?;
                    sources.iter().for_each(|place| local[place.region].refresh(place, rng));
                }
                sources.iter().flat_map(|place| local[place.region].model[place.range()].to_vec()).collect()
            };
            pieces = sources.iter().map(|place| place.length).collect();
            length = octets.len();
            if op.kind == Kind::Write {
                let Some(target) = place(remote, rng, length, op.window) else {
                    release(local, &sources);
                    return None;
                };
                remote[target.region].model[target.range()].copy_from_slice(&octets);
                let region = &remote[target.region].mr;
                send_op = SendOp::Write { remote_addr: region.addr() + target.offset as u64, rkey: region.rkey() };
                remote_place = Some(target);
                (opcode, what) = (WcOpcode::RdmaWrite, What::Write);
            } else {
                let receive = &mut way.receives[unmatched?];
                let mut rest = &octets[..];
                for place in &receive.places {
                    let now = rest.len().min(place.length);
                    remote[place.region].model[place.offset..place.offset + now].copy_from_slice(&rest[..now]);
                    rest = &rest[now..];
                }
                assert!(rest.is_empty(), "the receive is long enough");
                let window = &mut remote[1];
                let invalidated = (op.invalidate && !window.closed && window.holds.is_empty()).then(|| {
                    window.closed = true;
                    window.mr.rkey()
                });
                send_op = invalidated.map_or(SendOp::Send, SendOp::SendWithInvalidate);
                receive.expect = Some(Expect { number, length, solicited: op.solicited, invalidated });
                (opcode, what) = (WcOpcode::Send, What::Send);
            }
        }
        way.number = number;
        let last = way.upcoming.len() == 1 && way.left == 0;
        let signaled = op.signaled || last || way.posted.len() + 1 >= self.caps[from].max_send_wr as usize;
        let sg_list: Vec<_> = sources.iter().map(|place| local[place.region].sge(place)).collect();
        assert_eq!(pieces.len(), sg_list.len());
        if matches!(what, What::Read { .. }) {
            // the sink is released with its Read
            sources.clear();
        }
        way.writes.extend(remote_place.map(|place| (number, place)));
        way.posted.push_back(Posted { number, signaled, opcode, length, sources, what });
        let flags = [(signaled, SendFlags::SIGNALED), (fence, SendFlags::FENCE), (op.solicited, SendFlags::SOLICITED)];
        let flags = flags.into_iter().filter(|(on, _)| *on).fold(SendFlags::empty(), |all, (_, flag)| all | flag);
        Some(SendWr { wr_id: number, op: send_op, sg_list, inline, flags })
    }
    /// When nothing goes on by itself: a Read of nothing says that all before it is over.
    fn flush(&mut self, from: usize) -> bool {
        let way = &mut self.ways[from];
        let silent = way.posted.iter().all(|p| !p.signaled) && (!way.posted.is_empty() || !way.writes.is_empty());
        if !silent {
            return false;
        }
        let nothing = |memory: &[Memory; 2]| Place { region: 0, offset: memory[0].model.len() / 2, length: 0, hold: None };
        let (sink, source) = (nothing(&self.memory[from]), nothing(&self.memory[1 - from]));
        let region = &self.memory[1 - from][0].mr;
        let op = SendOp::Read { remote_addr: region.addr(), rkey: region.rkey() };
        way.number += 1;
        let wr = SendWr { wr_id: way.number, op, sg_list: vec![], inline: None, flags: SendFlags::SIGNALED };
        let what = What::Read { sink, source };
        way.posted.push_back(Posted { number: way.number, signaled: true, opcode: WcOpcode::RdmaRead, length: 0, sources: vec![], what });
        self.qps[from].post_send(&[wr]).unwrap_or_else(|e| panic!("{}: {e:?}", self.name(from)));
        true
    }
    /// A completion of `side`'s queue pair.
    fn completed(&mut self, side: usize, wc: &Wc) {
        let receive = wc.opcode == WcOpcode::Recv;
        let from = if receive { 1 - side } else { side };
        let name = self.name(from);
        let flushing = &mut self.ways[from].flushing[usize::from(receive)];
        assert!(!*flushing || wc.status != WcStatus::Success, "{name}: {wc:?} behind one that failed");
        if self.fragile && wc.status != WcStatus::Success {
            *flushing = true;
            self.broken = true;
            return self.flushed(from, wc);
        }
        assert_eq!(wc.status, WcStatus::Success, "{name}: {wc:?}; {:?}", self.qps.each_ref().map(|qp| qp.query()));
        if receive {
            return self.received(side, wc);
        }
        loop {
            let posted = self.ways[side].posted.pop_front().unwrap_or_else(|| panic!("{name}: nothing is posted: {wc:?}"));
            let this = posted.number == wc.wr_id;
            self.sent(side, &posted);
            if this {
                assert!(posted.signaled, "{name}: nobody asked for {wc:?}");
                assert_eq!(wc.opcode, posted.opcode, "{name}: {wc:?}");
                assert!(
                    posted.opcode != WcOpcode::RdmaRead || wc.byte_len as usize == posted.length,
                    "{name}: {wc:?}, not {}",
                    posted.length
                );
                return;
            }
            assert!(!posted.signaled, "{name}: {wc:?} overtakes number {} or comes twice", posted.number);
        }
    }
    /// A work request of a connection that has failed. What it held stays held: who knows what is there?
    fn flushed(&mut self, from: usize, wc: &Wc) {
        let way = &mut self.ways[from];
        let name = format!("connection {} from {from}: {wc:?}", self.name);
        if wc.opcode == WcOpcode::Recv {
            let receive = way.receives.pop_front().unwrap_or_else(|| panic!("{name}: no receive is posted"));
            assert_eq!(wc.wr_id, receive.number, "{name}: in order");
            return;
        }
        loop {
            let posted = way.posted.pop_front().unwrap_or_else(|| panic!("{name}: nothing is posted"));
            if posted.number == wc.wr_id {
                assert_eq!(posted.opcode, wc.opcode, "{name}");
                return;
            }
            // without a completion of its own it may have succeeded
            assert!(!posted.signaled, "{name} overtakes number {}", posted.number);
        }
    }
    fn sent(&mut self, from: usize, posted: &Posted) {
        let (local, remote) = both(&mut self.memory, from);
        release(local, &posted.sources);
        if let What::Read { sink, source } = &posted.what {
            local[sink.region].check(sink, &|| format!("connection {} from {from}: Read {}", self.name, posted.number));
            release(local, std::slice::from_ref(sink));
            release(remote, std::slice::from_ref(source));
            self.placed(from, posted.number);
        }
    }
    /// All Writes before `number` are placed.
    fn placed(&mut self, from: usize, number: u64) {
        let way = &mut self.ways[from];
        let remote = &mut self.memory[1 - from];
        while way.writes.front().is_some_and(|(write, _)| *write < number) {
            let Some((write, place)) = way.writes.pop_front() else { break };
            remote[place.region]
                .check(&place, &|| format!("connection {} from {from}: Write {write}, behind which {number} is over", self.name));
            release(remote, &[place]);
        }
    }
    fn received(&mut self, side: usize, wc: &Wc) {
        let from = 1 - side;
        let name = self.name(from);
        let receive = self.ways[from].receives.pop_front().unwrap_or_else(|| panic!("{name}: no receive is posted: {wc:?}"));
        let expect = receive.expect.unwrap_or_else(|| panic!("{name}: nothing was sent: {wc:?}"));
        assert_eq!(wc.wr_id, receive.number, "{name}: receives complete in order: {wc:?}");
        let wanted = (expect.length, expect.solicited, expect.invalidated);
        assert_eq!((wc.byte_len as usize, wc.solicited, wc.invalidated), wanted, "{name}: Send {}: {wc:?}", expect.number);
        let memory = &mut self.memory[side];
        for place in &receive.places {
            memory[place.region].check(place, &|| format!("{name}: Send {} of {} octets", expect.number, expect.length));
        }
        release(memory, &receive.places);
        if expect.invalidated.is_some() {
            memory[1].mr.rekey(WINDOW_RIGHTS).expect("a new key");
            memory[1].closed = false;
        }
        self.placed(from, expect.number);
    }
    fn state(&self) -> String {
        let mut text = String::new();
        for (from, way) in self.ways.iter().enumerate() {
            if way.done() {
                continue;
            }
            let next = way.upcoming.front().map(|op| (op.kind, op.length));
            let posted: Vec<_> = way.posted.iter().take(4).map(|p| (p.number, p.opcode, p.length, p.signaled)).collect();
            let waiting = way.receives.iter().filter(|r| r.expect.is_some()).count();
            let _ = writeln!(
                text,
                "{}: {:?}; next {next:?}, {} to plan; {} posted, first {posted:?}; {} receives, {waiting} of them with a Send; {} Writes not proven",
                self.name(from),
                self.qps[from].query(),
                way.left,
                way.posted.len(),
                way.receives.len(),
                way.writes.len()
            );
        }
        text
    }
}

/// Completion queues of a side, for sends and for receives; perhaps one for both.
struct Queues {
    send: Arc<dyn Cq>,
    recv: Arc<dyn Cq>,
}

impl Queues {
    fn new(side: &Side, entries: u32, one: bool) -> Self {
        let cq = || side.verbs.create_cq(entries).expect("a completion queue");
        let send = cq();
        let recv = if one { send.clone() } else { cq() };
        Queues { send, recv }
    }
    fn qp(&self, side: &Side, cap: QpCap) -> Arc<dyn Qp> {
        let init = QpInitAttr { send_cq: self.send.clone(), recv_cq: self.recv.clone(), cap, sq_sig_all: false };
        side.verbs.create_qp(&side.pd, &init).expect("a queue pair")
    }
}

fn connect(rig: &Rig, traffic: &Traffic, queues: &[Queues; 2], caps: [QpCap; 2], name: usize, rng: &mut ChaCha8Rng) -> Line {
    let sides = [&rig.client, &rig.server];
    let qps = [0, 1].map(|n| queues[n].qp(sides[n], caps[n]));
    let terms = [0, 1].map(|n| {
        let depths = [0, 1].map(|_: i32| rng.random_range(1..=traffic.max_depth));
        ConnParam { ird: depths[0], ord: depths[1], mpa: traffic.mpa[n], ..param(&qps[n], b"traffic") }
    });
    let mut pair = rig.pair_of(qps[0].clone(), qps[1].clone(), &terms[0], &terms[1]);
    pair.stop_listening();
    // two of the longest messages find room
    let size = (3 * traffic.longest + (1 << 16)).next_multiple_of(PAGE) + rng.random_range(0..64);
    let memory = [0, 1].map(|n: usize| {
        let window = sides[n].region(WINDOW, WINDOW_RIGHTS);
        window.restrict(Some(qps[n].qp_num())).expect("good for one stream");
        [Memory::new(sides[n].region(size, RIGHTS), 0, rng), Memory::new(window, 1, rng)]
    });
    let each = traffic.operations.div_ceil(2 * traffic.connections);
    let ways = [0, 1].map(|_: i32| Way {
        plan: ChaCha8Rng::seed_from_u64(rng.random()),
        left: each,
        upcoming: VecDeque::new(),
        posted: VecDeque::new(),
        writes: VecDeque::new(),
        receives: VecDeque::new(),
        flushing: [false; 2],
        number: 0,
        receive_number: 0,
    });
    Line {
        name,
        pair,
        qps,
        caps,
        memory,
        ways,
        edges: traffic.edges,
        read: sides.map(|side| side.read.clone()),
        fragile: traffic.fragile,
        broken: false,
    }
}

/// Takes completions of both sides; how many.
fn poll(queues: &[Queues; 2], lines: &mut [Line], rng: &mut ChaCha8Rng) -> u64 {
    let mut count = 0;
    for (side, queues) in queues.iter().enumerate() {
        for cq in [&queues.send, &queues.recv] {
            let mut found = Vec::new();
            cq.poll(rng.random_range(1..=32), &mut found).expect("polled");
            for wc in &found {
                let line = lines.iter_mut().find(|line| line.qps[side].qp_num() == wc.qp_num);
                line.unwrap_or_else(|| panic!("a completion of nobody: {wc:?}")).completed(side, wc);
            }
            count += found.len() as u64;
        }
    }
    count
}

/// Runs the traffic, and ends all connections in order. Panics at the first octet or completion that is not right. Also answers what the queue pairs of connections say that failed,
/// client first.
pub fn run(rig: &Rig, traffic: &Traffic) -> (Tally, Vec<[QpAttr; 2]>) {
    println!("{traffic:?}");
    let mut rng = ChaCha8Rng::seed_from_u64(traffic.seed);
    let caps: Vec<_> = (0..traffic.connections)
        .map(|_| {
            [0, 1].map(|_: i32| {
                let mut depth = || traffic.depths[rng.random_range(0..traffic.depths.len())];
                QpCap { max_send_wr: depth(), max_recv_wr: depth(), ..QpCap::default() }
            })
        })
        .collect();
    let one = rng.random_bool(0.5);
    let queues = [&rig.client, &rig.server].map(|side| {
        let entries = caps.iter().flatten().map(|cap| cap.max_send_wr + cap.max_recv_wr).sum();
        Queues::new(side, entries, one)
    });
    let mut lines: Vec<_> = caps.iter().enumerate().map(|(n, caps)| connect(rig, traffic, &queues, *caps, n, &mut rng)).collect();
    let mut tally = Tally::default();
    let mut last = Instant::now();
    while !lines.iter().all(Line::done) {
        let mut moved = false;
        let first = rng.random_range(0..lines.len());
        for n in 0..lines.len() {
            let n = (first + n) % lines.len();
            for from in 0..2 {
                moved |= lines[n].post(from, &mut rng, traffic.longest, &mut tally);
            }
        }
        let completions = poll(&queues, &mut lines, &mut rng);
        tally.completions += completions;
        if moved || completions > 0 {
            last = Instant::now();
        } else {
            assert!(last.elapsed() < BOUND, "nothing goes on:\n{}", lines.iter().map(Line::state).collect::<String>());
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    for line in &lines {
        for memory in line.memory.iter().flatten() {
            assert!(line.broken || memory.holds.is_empty() && !memory.closed);
            memory.check_rest(&|| format!("connection {}, in the end", line.name));
        }
    }
    let mut failed = Vec::new();
    for (n, line) in lines.into_iter().enumerate() {
        let Line { pair, qps, memory, broken, .. } = line;
        if broken {
            pair.failed();
            failed.push(qps.each_ref().map(|qp| qp.query()));
        } else {
            pair.close(n % 2);
            assert_eq!(qps.each_ref().map(|qp| qp.query().state), [QpState::Init; 2]);
        }
        drop(qps);
        pair.end();
        for memory in memory.iter().flatten() {
            memory.mr.dereg().expect("deregistered");
            memory.check_rest(&|| format!("connection {n}, when it is over"));
        }
    }
    for queues in &queues {
        for cq in [&queues.send, &queues.recv] {
            assert_eq!(cq.poll(100, &mut Vec::new()), Ok(0), "every completion came once");
        }
    }
    (tally, failed)
}

/// Connections and the longest message of each round: long messages want much memory, which many connections do not have.
pub const PLAN: [(usize, usize); 3] = [(3, 1 << 17), (1, 1 << 20), (30, 1 << 13)];

/// Runs rounds of traffic on two simulated adapters until there were so many operations, each with other connections, and as much of them and messages as long as the next of `plan` says. The
/// adapters are empty after each.
pub fn rounds(name: &str, setup: &Setup, traffic: &Traffic, plan: &[(usize, usize)]) -> Tally {
    let start = Instant::now();
    let served = Served::with(setup);
    let mut rng = ChaCha8Rng::seed_from_u64(traffic.seed);
    let mut all = Tally::default();
    let mut round = 0;
    while all.operations < traffic.operations as u64 {
        let (connections, longest) = plan[round % plan.len()];
        let left = traffic.operations - all.operations as usize;
        let operations = left.min((traffic.operations / 20).max(1000).min(traffic.operations / plan.len()));
        let traffic = Traffic { seed: rng.random(), connections, operations, longest, ..traffic.clone() };
        let rig = served.rig();
        all += run(&rig, &traffic).0;
        rig.assert_empty();
        drop(rig);
        served.assert_empty(name);
        served.assert_well();
        round += 1;
    }
    if traffic.operations > 5000 {
        served.assert_room();
    }
    let cycles = served.cycles();
    println!("{name}: {all:?} in {round} rounds, {cycles} cycles, {:.1} s", start.elapsed().as_secs_f64());
    if let Some(faults) = &served.faults {
        println!("faults: {:?}", [0, 1].map(|direction| faults.counts(direction)));
    }
    served.stop();
    all
}
