// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversations behind their start-up, captured or worked out by hand, played against a device in the place of either side.
//!
//! `tests/golden/siw-streams.tsv` and `data-examples.tsv` hold what both sides send; `data-expected.tsv` what the device does in the place of one of them. The device's user posts what makes that
//! side's messages, and regions and receives for those of the other side; the peer sends the octets of the other side, cut as they were. Where a device can give regions their STags and TOs all octets are
//! those of the table; else STags and TOs of its regions are exchanged on the way. Each conversation has a connection of its own.
//!
//! A side of a conversation is a list of segments with "+" between them, the start-up frame first. A segment is hex; "req:" and "rep:" are the keys of RFC 5044, "(00,07*64)" 64 octets of which the
//! first is 00 and each other by 07 more than the one before, `@name` an example of `fpdu.tsv`, `~name` its FPDUs without their markers.
//!
//! Columns of `data-expected.tsv`:
//! * the conversation; the place of the device, `initiator` or `responder`; which devices, `all`, `adapter` or `soft`; `not` is no device, `not-adapter` all but that one, and the last column says why.
//! * what its user prepares: `recv:NxLEN`; `region:STAG/TO/LEN/RIGHTS` with l, w, r, i for the rights to write locally, write, read and invalidate remotely; `mss:N`. What a Read of the peer asks for stands in its region; what
//!   an own Read asks for goes to a region of its own.
//! * completions of the work requests in order, `send`, `write`, `read:LEN`, then `/`, then those of the receives: `LEN`, `s` behind it if solicited, `i` if a key was invalidated. `!` is one that was flushed, `len` too long.
//! * CRC32C of what then stands in the regions, in those of the own Reads, and in the receives, `-` for nothing. Around them nothing changes.
//! * FPDUs of the device: `=N` the next N that this side sends in the conversation, octet by octet, `=` all that are left; `~` its messages, cut otherwise; hex; `term:LAYER/TYPE/CODE` a Terminate with the headers of
//!   what it is about. Read Responses and other messages may take turns as they like.
//! * how it ends: `ok` in order, by the initiator; `said` after the device's Terminate, `heard:LAYER/TYPE/CODE` after the peer's, `heard` after one that cannot be read; `cut` by the peer, while work is left; `reset` by the device; `refused`: the device finds that it cannot be connected.
//! * where that differs from what the side does in the conversation, and why.
use crate::{
    stage::{framed, framed_at, until, Ear, End, Stage},
    wrong::{parse_terminate, Manners},
};
use ironwarp_iwcm::{ConnParam, EventKind, MpaOptions, PrivateData};
use ironwarp_verbs::{Access, Cq, Mr, Pd, QpState, RecvWr, SendFlags, SendOp, SendWr, Terminate, Wc, WcOpcode, WcStatus};
use ironwarp_wire::{ddp, fpdu, mpa, rdmap};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Segments that a TCP over Ethernet takes.
const MSS: u16 = 1460;
/// Steps in which what must not come does not.
const SILENCE: usize = 20;

// ---- conversations

/// An FPDU as it stands in a stream.
#[derive(Clone, Debug)]
struct Fpdu {
    /// Place of its first octet.
    at: usize,
    octets: Vec<u8>,
    ulpdu: Vec<u8>,
}

/// What one side sends.
struct Side {
    frame: Vec<u8>,
    segments: Vec<Vec<u8>>,
    fpdus: Vec<Fpdu>,
}

/// Both sides.
struct Conversation {
    opener: Side,
    other: Side,
    crc: bool,
}

fn columns<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let rows = text.lines().filter(|l| !l.starts_with('#'));
    rows.map(|l| l.split('\t').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("not {N} columns: {l}")))
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("{text}"))
}

/// Hex with runs.
fn hex(mut text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    while !text.is_empty() {
        if let Some(run) = text.strip_prefix('(') {
            let (run, rest) = run.split_once(')').expect("an end");
            let (first, run) = run.split_once(',').expect("a step");
            let (step, count) = run.split_once('*').expect("a count");
            let (first, step) = (number(first) as u8, number(step) as u8);
            octets.extend((0..count.parse().expect("a number")).map(|n: usize| first.wrapping_add(step.wrapping_mul(n as u8))));
            text = rest;
        } else {
            let (digits, rest) = text.split_at(2);
            octets.push(number(digits) as u8);
            text = rest;
        }
    }
    octets
}

/// The FPDUs of a stream, as far as their lengths tell.
fn fpdus(stream: &[u8], markers: bool) -> Vec<Fpdu> {
    let mut list = Vec::new();
    let mut at = 0;
    while let Ok(n) = fpdu::len(&stream[at..], markers.then_some(at)) {
        let Some(octets) = stream.get(at..at + n) else { break };
        let ulpdu = fpdu::open(&mut octets.to_vec(), markers.then_some(at), false).expect("whole").to_vec();
        list.push(Fpdu { at, octets: octets.to_vec(), ulpdu });
        at += n;
    }
    list
}

/// A worked example: its FPDUs.
fn example(name: &str) -> (usize, Vec<u8>) {
    let row = columns::<4>(include_str!("../golden/fpdu.tsv")).find(|row| row[0] == name).unwrap_or_else(|| panic!("no example {name}"));
    (row[1].parse().unwrap_or(0), hex(row[2]))
}

fn segment(text: &str) -> Vec<u8> {
    if let Some(name) = text.strip_prefix('@') {
        return example(name).1;
    }
    if let Some(name) = text.strip_prefix('~') {
        let (at, octets) = example(name);
        assert_eq!(at, 0, "{name}");
        return fpdus(&octets, true).iter().flat_map(|f| framed(&f.ulpdu)).collect();
    }
    match text.split_at_checked(4) {
        Some(("req:", rest)) => [&mpa::REQUEST_KEY[..], &hex(rest)].concat(),
        Some(("rep:", rest)) => [&mpa::REPLY_KEY[..], &hex(rest)].concat(),
        _ => hex(text),
    }
}

fn side(text: &str) -> Side {
    let mut segments: VecDeque<_> = text.split('+').map(segment).collect();
    let mut frame = Vec::new();
    while frame.len() < 20 || frame.len() < 20 + usize::from(u16::from_be_bytes([frame[18], frame[19]])) {
        frame.extend(segments.pop_front().unwrap_or_else(|| panic!("{text}: no start-up frame")));
    }
    let beyond = frame.split_off(20 + usize::from(u16::from_be_bytes([frame[18], frame[19]])));
    if !beyond.is_empty() {
        segments.push_front(beyond);
    }
    Side { frame, segments: segments.into(), fpdus: vec![] }
}

/// What is said of a start-up frame.
fn parsed(frame: &[u8]) -> mpa::Frame<'_> {
    mpa::Frame::parse(frame).unwrap_or_else(|e| panic!("{e}: {frame:02x?}")).0
}

fn conversations() -> BTreeMap<&'static str, Conversation> {
    let tables = [include_str!("../golden/siw-streams.tsv"), include_str!("../golden/data-examples.tsv")];
    let rows = tables.into_iter().flat_map(columns::<3>);
    rows.map(|[name, opener, other]| {
        let (mut opener, mut other) = (side(opener), side(other));
        // flags, since not every frame is one for us
        let flags = [&opener, &other].map(|side| side.frame[16]);
        opener.fpdus = fpdus(&opener.segments.concat(), flags[1] & mpa::flag::MARKERS != 0);
        other.fpdus = fpdus(&other.segments.concat(), flags[0] & mpa::flag::MARKERS != 0);
        (name, Conversation { opener, other, crc: (flags[0] | flags[1]) & mpa::flag::CRC != 0 })
    })
    .collect()
}

// ---- rows

/// A row of the table.
pub struct Row {
    name: &'static str,
    initiator: bool,
    devices: &'static str,
    prepares: &'static str,
    completes: &'static str,
    lands: &'static str,
    sends: &'static str,
    ends: &'static str,
    why: &'static str,
    /// How the device is set up for it.
    pub setup: Setup,
}

/// How a device is set up as a whole that does not know it of each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// It asks for markers.
    pub markers: bool,
    /// It asks for CRC.
    pub crc: bool,
    /// Longest ULPDU.
    pub mulpdu: usize,
}

/// All rows.
pub fn rows() -> Vec<Row> {
    let conversations = conversations();
    let rows = columns::<9>(include_str!("../golden/data-expected.tsv"));
    rows.map(|[name, place, devices, prepares, completes, lands, sends, ends, why]| {
        assert!(["initiator", "responder"].contains(&place), "{name}: {place}");
        let initiator = place == "initiator";
        let mut row = Row { name, initiator, devices, prepares, completes, lands, sends, ends, why, setup: Setup::default() };
        let talk = conversations.get(name).unwrap_or_else(|| panic!("{name}: no such conversation"));
        let (own, theirs) = if initiator { (&talk.opener, &talk.other) } else { (&talk.other, &talk.opener) };
        let flag = |side: &Side, flag| side.frame[16] & flag != 0;
        row.setup = Setup {
            markers: flag(own, mpa::flag::MARKERS),
            crc: flag(own, mpa::flag::CRC),
            mulpdu: fpdu::mulpdu(row.mss().into(), flag(theirs, mpa::flag::MARKERS)),
        };
        row
    })
    .collect()
}

/// Panics unless every conversation has a row for each side and each device, a row that differs has a reason, and every worked FPDU is in a conversation, those with a reason aside.
pub fn assert_complete() {
    let (conversations, rows) = (conversations(), rows());
    for name in conversations.keys() {
        for (initiator, no_siw) in [(true, "probe"), (false, "iprobe")] {
            for device in ["adapter", "soft"] {
                let of = |row: &&Row| row.name == *name && row.initiator == initiator;
                let count = rows.iter().filter(of).filter(|row| row.is_for(device)).count();
                assert_eq!(count, usize::from(!name.starts_with(no_siw)), "{name}: rows of the {} for {device}", row_place(initiator));
            }
        }
    }
    for row in &rows {
        let same = row.devices == "soft" || row.devices == "all" && row.sends == "=";
        assert!(same || !row.why.is_empty(), "{}: differs, and the table has no reason", row.name);
    }
    let text = include_str!("../golden/data-examples.tsv");
    for [name, ..] in columns::<4>(include_str!("../golden/fpdu.tsv")) {
        let played = text.split(['\t', '+', '\n']).any(|segment| segment.strip_prefix('@') == Some(name));
        assert!(played, "{name} is in no conversation");
    }
}

fn row_place(initiator: bool) -> &'static str {
    if initiator {
        "initiator"
    } else {
        "responder"
    }
}

// ---- messages

fn opcode(ulpdu: &[u8]) -> Option<rdmap::Opcode> {
    ulpdu.get(1).and_then(|control| rdmap::Opcode::of(*control))
}

fn is_response(ulpdu: &[u8]) -> bool {
    opcode(ulpdu) == Some(rdmap::Opcode::ReadResponse)
}

fn asked(ulpdu: &[u8]) -> Option<rdmap::ReadRequest> {
    let payload = ulpdu.get(ddp::UNTAGGED_OCTETS..)?;
    (opcode(ulpdu) == Some(rdmap::Opcode::ReadRequest)).then(|| rdmap::ReadRequest::parse(payload).ok())?
}

/// Messages of whole segments: the header of the first, and all payload.
fn messages<'a>(list: impl Iterator<Item = &'a [u8]>) -> Vec<(ddp::Header, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open: Option<(ddp::Header, Vec<u8>)> = None;
    for ulpdu in list {
        let Ok((header, payload)) = ddp::Header::parse(ulpdu) else { continue };
        let (first, last) = match header {
            ddp::Header::Tagged { last, rdmap, stag, to } => (ddp::Header::Tagged { last: true, rdmap, stag, to }, last),
            ddp::Header::Untagged { last, rdmap, stag, qn, msn, mo } => {
                (ddp::Header::Untagged { last: true, rdmap, stag, qn, msn, mo }, last)
            }
        };
        open.get_or_insert_with(|| (first, Vec::new())).1.extend(payload);
        if last {
            found.extend(open.take());
        }
    }
    found
}

/// A region as the conversation has it, and as the device does.
struct Place {
    stag: u32,
    to: u64,
    mr: Arc<dyn Mr>,
}

/// All of a connection.
struct Places(Vec<Place>);

impl Places {
    /// STag and TO of a conversation, in terms of the device.
    fn inward(&self, stag: u32, to: u64) -> (u32, u64) {
        let place = self.0.iter().find(|p| p.stag >> 8 == stag >> 8);
        place.map_or((stag, to), |p| (stag ^ p.stag ^ p.mr.rkey(), to.wrapping_sub(p.to).wrapping_add(p.mr.addr())))
    }
    fn outward(&self, stag: u32, to: u64) -> (u32, u64) {
        let place = self.0.iter().find(|p| p.mr.rkey() == stag);
        place.map_or((stag, to), |p| (p.stag, to.wrapping_sub(p.mr.addr()).wrapping_add(p.to)))
    }
    /// STags and TOs are those of the conversation.
    fn are_exact(&self) -> bool {
        self.0.iter().all(|p| (p.stag, p.to) == (p.mr.rkey(), p.mr.addr()))
    }
    /// What of a ULPDU names regions of the device, in its own terms.
    fn to_device(&self, ulpdu: &[u8]) -> Vec<u8> {
        let mut own = ulpdu.to_vec();
        let mut put = |stag_at: usize, to_at: Option<usize>| {
            let Some(stag) = own.get(stag_at..stag_at + 4).map(|o| u32::from_be_bytes(o.try_into().expect("four"))) else { return };
            let to = to_at.map_or(0, |at| u64::from_be_bytes(own[at..at + 8].try_into().expect("eight")));
            let (stag, to) = self.inward(stag, to);
            own[stag_at..stag_at + 4].copy_from_slice(&stag.to_be_bytes());
            if let Some(at) = to_at {
                own[at..at + 8].copy_from_slice(&to.to_be_bytes());
            }
        };
        match opcode(ulpdu) {
            Some(rdmap::Opcode::Write | rdmap::Opcode::ReadResponse) => put(2, Some(6)),
            Some(rdmap::Opcode::SendInvalidate | rdmap::Opcode::SendSolicitedInvalidate) => put(2, None),
            Some(rdmap::Opcode::ReadRequest) if asked(ulpdu).is_some() => put(34, Some(38)),
            _ => {}
        }
        own
    }
    /// The same of what the device says of its own regions: the sink of a Read Request, and the source in one that a Terminate gives back.
    fn for_table(&self, ulpdu: &[u8]) -> Vec<u8> {
        let mut own = ulpdu.to_vec();
        let asked = |octets: &[u8]| rdmap::ReadRequest::parse(octets).expect("28 octets");
        let last = ulpdu.len().saturating_sub(rdmap::ReadRequest::OCTETS);
        match opcode(ulpdu) {
            Some(rdmap::Opcode::ReadRequest) => {
                let request = asked(&own[last..]);
                let (sink_stag, sink_to) = self.outward(request.sink_stag, request.sink_to);
                rdmap::ReadRequest { sink_stag, sink_to, ..request }.emit(&mut own[last..]).expect("room");
            }
            Some(rdmap::Opcode::Terminate) if own.len() == ddp::UNTAGGED_OCTETS + rdmap::Terminate::MAX_OCTETS => {
                let request = asked(&own[last..]);
                let (source_stag, source_to) = self.outward(request.source_stag, request.source_to);
                rdmap::ReadRequest { source_stag, source_to, ..request }.emit(&mut own[last..]).expect("room");
            }
            _ => {}
        }
        own
    }
}

/// Low bits of an STag's index, which choose its entry in a device's table.
const ENTRY: u32 = 0x1ff;
/// Octets for all that is received in a conversation, and for all that is sent.
const ROOM: usize = 1 << 17;

/// What all connections of a device use.
struct Common {
    pd: Arc<dyn Pd>,
    cq: Arc<dyn Cq>,
    recv_cq: Arc<dyn Cq>,
    receives: Arc<dyn Mr>,
    source: Arc<dyn Mr>,
}

impl Common {
    fn new(stage: &mut dyn Stage, rows: &[Row], conversations: &BTreeMap<&str, Conversation>) -> Self {
        let verbs = stage.side().verbs.clone();
        let pd = verbs.alloc_pd().expect("domain");
        let (cq, recv_cq) = (verbs.create_cq(64).expect("queue"), verbs.create_cq(64).expect("queue"));
        // two entries that no conversation uses
        let all = rows.iter().flat_map(|row| row.regions(&conversations[row.name]));
        let used: BTreeSet<_> = all.map(|region| region.stag >> 8 & ENTRY).collect();
        let mut free = (1..=ENTRY).filter(|entry| !used.contains(entry)).map(|entry| entry << 8 | 0x5a);
        let mut region = |to, rights| stage.region(&pd, free.next().expect("few regions"), to, ROOM, rights, None);
        let receives = region(0x7000_0000, Access::LOCAL_WRITE);
        let source = region(0xffff_f000, Access::empty());
        Common { pd, cq, recv_cq, receives, source }
    }
}

/// A region of a conversation.
#[derive(Clone, Copy)]
struct Region {
    stag: u32,
    to: u64,
    length: usize,
    rights: Access,
    /// For one queue pair alone.
    bound: bool,
}

// ---- the play

/// What the device must send.
enum Say {
    Exactly(Fpdu),
    Terminate((u8, u8, u8)),
}

impl Row {
    fn prepared(&self, what: &str) -> impl Iterator<Item = &'static str> + '_ {
        let what = what.to_owned();
        self.prepares.split(' ').filter_map(move |token| token.strip_prefix(what.as_str()))
    }
    fn sends_done(&self) -> impl Iterator<Item = &'static str> {
        self.completes.split_once('/').expect("sends and receives").0.split_whitespace()
    }
    fn receives(&self) -> impl Iterator<Item = &'static str> {
        self.completes.split_once('/').expect("sends and receives").1.split_whitespace()
    }
    fn mss(&self) -> u16 {
        self.prepared("mss:").next().map_or(MSS, |n| n.parse().expect("a number"))
    }
    /// Regions that the peer may know, and those of own Reads.
    fn regions(&self, talk: &Conversation) -> Vec<Region> {
        let mut list: Vec<Region> = Vec::new();
        for token in self.prepared("region:") {
            let [stag, to, length, rights]: [&str; 4] = token.split('/').collect::<Vec<_>>().try_into().expect("four");
            let all =
                [('l', Access::LOCAL_WRITE), ('w', Access::REMOTE_WRITE), ('r', Access::REMOTE_READ), ('i', Access::REMOTE_INVALIDATE)];
            let rights = all.into_iter().filter(|(c, _)| rights.contains(*c)).fold(Access::empty(), |all, (_, right)| all | right);
            let (stag, to, length) = (number(stag) as u32, number(to), length.parse().expect("a number"));
            list.push(Region { stag, to, length, rights, bound: rights.contains(Access::REMOTE_INVALIDATE) });
        }
        let own = if self.initiator { &talk.opener } else { &talk.other };
        for asked in own.fpdus.iter().filter_map(|f| asked(&f.ulpdu)).filter(|asked| asked.size > 0) {
            let end = asked.sink_to + u64::from(asked.size);
            if let Some(region) = list.iter_mut().find(|region| region.stag == asked.sink_stag) {
                let end = end.max(region.to + region.length as u64);
                region.to = region.to.min(asked.sink_to);
                region.length = (end - region.to) as usize;
            } else {
                let rights = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);
                list.push(Region { stag: asked.sink_stag, to: asked.sink_to, length: asked.size as usize, rights, bound: false });
            }
        }
        list
    }
    /// FPDUs that must come, Read Responses apart; none if only the messages must be the same.
    fn expected(&self, own: &Side) -> Option<[VecDeque<Say>; 2]> {
        let mut left = own.fpdus.iter().cloned();
        let mut list = [VecDeque::new(), VecDeque::new()];
        for token in self.sends.split(' ').filter(|token| *token != "-") {
            let more: Vec<Say> = if token == "~" {
                return None;
            } else if let Some(n) = token.strip_prefix('=') {
                let n = if n.is_empty() { usize::MAX } else { n.parse().expect("a number") };
                left.by_ref().take(n).map(Say::Exactly).collect()
            } else if let Some(code) = token.strip_prefix("term:") {
                vec![Say::Terminate(codes(code))]
            } else {
                // in place of one of this side
                left.next();
                fpdus(&segment(token), false).into_iter().map(Say::Exactly).collect()
            };
            for say in more {
                let response = matches!(&say, Say::Exactly(fpdu) if is_response(&fpdu.ulpdu));
                list[usize::from(response)].push_back(say);
            }
        }
        Some(list)
    }
}

fn codes(text: &str) -> (u8, u8, u8) {
    let codes: Vec<u8> = text.split('/').map(|n| number(n) as u8).collect();
    (codes[0], codes[1], codes[2])
}

/// A work request for each message of a side that its user makes; octets are taken from `source`.
fn work(own: &Side, peer_to_peer: bool, places: &Places, source: &Arc<dyn Mr>) -> Vec<SendWr> {
    let mut at = 0;
    let mut list = Vec::new();
    let ours = messages(own.fpdus.iter().map(|f| &f.ulpdu[..]));
    // an RTR is the device's own
    for (header, payload) in ours.iter().skip(peer_to_peer.into()) {
        let (control, stag, to) = match *header {
            ddp::Header::Tagged { rdmap, stag, to, .. } => (rdmap, stag, to),
            ddp::Header::Untagged { rdmap, stag, .. } => (rdmap, stag, 0),
        };
        let op = match rdmap::Opcode::of(control) {
            Some(rdmap::Opcode::Write) => SendOp::Write { remote_addr: to, rkey: stag },
            Some(rdmap::Opcode::Send | rdmap::Opcode::SendSolicited) => SendOp::Send,
            Some(rdmap::Opcode::SendInvalidate | rdmap::Opcode::SendSolicitedInvalidate) => SendOp::SendWithInvalidate(stag),
            Some(rdmap::Opcode::ReadRequest) => {
                let asked = rdmap::ReadRequest::parse(payload).expect("28 octets");
                let (lkey, addr) = places.inward(asked.sink_stag, asked.sink_to);
                let sge = ironwarp_verbs::Sge { addr, length: asked.size, lkey };
                let op = SendOp::Read { remote_addr: asked.source_to, rkey: asked.source_stag };
                let sg_list = if asked.size == 0 { vec![] } else { vec![sge] };
                list.push(SendWr { wr_id: list.len() as u64, op, sg_list, inline: None, flags: SendFlags::empty() });
                continue;
            }
            _ => continue,
        };
        let solicited = matches!(control & 15, 5 | 6);
        let flags = if solicited { SendFlags::SOLICITED } else { SendFlags::empty() };
        source.write(at, payload).expect("inside");
        let sg_list = if payload.is_empty() { vec![] } else { vec![source.sge(at, payload.len())] };
        list.push(SendWr { wr_id: list.len() as u64, op, sg_list, inline: None, flags });
        at += payload.len();
    }
    list
}

/// Plays a row.
#[allow(clippy::too_many_lines)] // from the start-up to the end
fn play(stage: &mut dyn Stage, ear: &Ear, common: &Common, manners: Manners, row: &Row, talk: &Conversation) {
    let name = &format!("{} as {}", row.name, row_place(row.initiator));
    let (own, theirs) = if row.initiator { (&talk.opener, &talk.other) } else { (&talk.other, &talk.opener) };
    stage.limit(row.mss());
    let mut end = End::of(stage, common.pd.clone(), common.cq.clone(), common.recv_cq.clone());
    let frames = [parsed(&own.frame), parsed(&theirs.frame)];
    let peer_to_peer = frames[0].enhanced.is_some_and(|w| w.ird_word & mpa::word::PEER_TO_PEER != 0);

    let mut places = Places(vec![]);
    for Region { stag, to, length, rights, bound } in row.regions(talk) {
        let bound = bound.then(|| end.qp.qp_num());
        let mr = stage.region(&end.pd, stag, to, length, rights, bound);
        places.0.push(Place { stag, to, mr });
    }
    // what the peer's Reads must bring is there
    let mut responses = messages(own.fpdus.iter().map(|f| &f.ulpdu[..]).filter(|u| is_response(u))).into_iter();
    for request in theirs.fpdus.iter().filter_map(|f| asked(&f.ulpdu)) {
        let Some((_, octets)) = responses.next() else { break };
        if let Some(place) = places.0.iter().find(|p| p.stag == request.source_stag).filter(|_| !octets.is_empty()) {
            place.mr.write((request.source_to - place.to) as usize, &octets).expect("inside");
        }
    }
    let (count, room) = row.prepared("recv:").next().map_or((0, 0), |token| {
        let (count, room) = token.split_once('x').expect("a number of receives");
        (count.parse::<usize>().expect("a number"), room.parse::<usize>().expect("a number"))
    });
    let (receives, source) = (&common.receives, &common.source);
    receives.write(0, &vec![0; count * room]).expect("inside");
    let list: Vec<_> = (0..count)
        .map(|n| RecvWr { wr_id: n as u64, sg_list: if room == 0 { vec![] } else { vec![receives.sge(n * room, room)] } })
        .collect();
    end.qp.post_recv(&list).expect("posted");

    // the start-up
    let words = frames[0].enhanced;
    let param = ConnParam {
        qpn: end.qp.qp_num(),
        ird: words.map_or(4, |w| w.ird()),
        ord: words.map_or(4, |w| w.ord()),
        private_data: PrivateData::new(frames[0].private_data).expect("short"),
        mpa: Some(MpaOptions {
            enhanced: words.is_some(),
            peer_to_peer: row.initiator && peer_to_peer,
            retry: false,
            crc: frames[0].crc,
            markers: frames[0].markers,
        }),
        timeout: None,
    };
    let todo = work(own, row.initiator && peer_to_peer, &places, source);
    let fails = row.ends == "refused";
    if row.initiator {
        end.connect(stage, &param);
        stage.send(end.peer, &theirs.frame);
        // a device may tell of a refusal only when the connection is over
        if !fails {
            let status = end.event(stage, EventKind::ConnectReply).status;
            assert_eq!(status, Ok(()), "{name}");
            end.qp.post_send(&todo).expect("posted");
        }
    } else {
        end.accept(stage, ear, &theirs.frame, &param);
        if !peer_to_peer {
            end.event(stage, EventKind::Established);
            end.qp.post_send(&todo).expect("posted");
        }
    }

    // segments of the peer, each with what it waits for: Read Requests of the device that were heard, or all; and its own Read Requests
    let same = theirs.fpdus.iter().all(|f| places.to_device(&f.ulpdu) == f.ulpdu);
    let mut ours_to_hear = row.expected(own);
    let mut at = 0;
    let mut feed = VecDeque::new();
    let mut answered = 0;
    for octets in &theirs.segments {
        let begun: Vec<_> = theirs.fpdus.iter().filter(|f| (at..at + octets.len()).contains(&f.at)).collect();
        at += octets.len();
        answered += begun.iter().filter(|f| is_response(&f.ulpdu) && f.ulpdu[0] & ddp::control::LAST != 0).count();
        let first = begun.first().filter(|f| is_response(&f.ulpdu));
        let needs = match first {
            Some(f) if f.ulpdu[0] & ddp::control::LAST != 0 => answered,
            Some(_) => answered + 1,
            None if row.initiator => usize::MAX,
            None => 0,
        };
        let reads = begun.iter().filter(|f| asked(&f.ulpdu).is_some()).count();
        // each FPDU anew, whole where it begins
        let octets =
            if same { octets.clone() } else { begun.iter().flat_map(|f| reframed(f, &places, talk.crc, row.setup.markers)).collect() };
        feed.push_back((octets, needs, reads));
    }
    let markers = frames[1].markers;
    let (mut place, mut heard_reads, mut open_reads) = (0, 0, 0);
    let mut heard = Vec::new();
    let whole = messages(own.fpdus.iter().map(|f| &f.ulpdu[..]));
    let peer = end.peer;
    let mut posted = row.initiator || !peer_to_peer;
    until(stage, name, |stage| {
        // what may go goes, one segment at a time
        let all_heard = match &ours_to_hear {
            Some(list) => list.iter().all(VecDeque::is_empty),
            None => messages(heard.iter().map(|u: &Vec<u8>| &u[..])).len() == whole.len(),
        };
        let may = feed.front().is_some_and(|(_, needs, reads)| {
            let in_turn = if *needs == usize::MAX { all_heard } else { heard_reads >= *needs };
            in_turn && (*reads == 0 || open_reads < 4)
        });
        if may {
            let (octets, _, reads) = feed.pop_front().expect("there");
            open_reads += reads;
            stage.send(peer, &octets);
        }
        if !posted {
            posted = true;
            end.event(stage, EventKind::Established);
            end.qp.post_send(&todo).expect("posted");
        }
        let crc = talk.crc;
        while let Some((octets, ulpdu)) = stage.heard(peer).fpdu(markers.then_some(place), crc) {
            place += octets.len();
            heard_reads += usize::from(asked(&ulpdu).is_some());
            if is_response(&ulpdu) && ulpdu[0] & ddp::control::LAST != 0 {
                open_reads -= 1;
            }
            let plain = places.for_table(&ulpdu);
            if let Some(list) = &mut ours_to_hear {
                let say = list[usize::from(is_response(&ulpdu))].pop_front();
                match say.unwrap_or_else(|| panic!("{name}: nothing more was expected than {ulpdu:02x?}")) {
                    Say::Exactly(fpdu) if places.are_exact() => assert_eq!(octets, fpdu.octets, "{name}"),
                    Say::Exactly(fpdu) => assert_eq!(plain, fpdu.ulpdu, "{name}"),
                    Say::Terminate(says) => {
                        let terminate = parse_terminate(name, &ulpdu);
                        assert_eq!((terminate.layer, terminate.etype, terminate.code), says, "{name}: {ulpdu:02x?}");
                        if let Some((length, header)) = terminate.segment {
                            let of = |f: &Fpdu| f.ulpdu.len() == usize::from(length) && places.to_device(&f.ulpdu).starts_with(header);
                            assert!(theirs.fpdus.iter().any(of), "{name}: of what the peer sent: {ulpdu:02x?}");
                        }
                    }
                }
            }
            heard.push(plain);
        }
        let over = stage.heard(peer).fin || stage.heard(peer).reset;
        (over || all_heard && feed.is_empty()).then_some(())
    });
    if let Some(list) = &ours_to_hear {
        let left = list.iter().map(VecDeque::len).sum::<usize>();
        assert_eq!(left, 0, "{name}: FPDUs that did not come: {}", stage.explain());
    } else {
        assert!(messages(heard.iter().map(|u| &u[..])) == whole, "{name}: other messages");
    }
    // what comes behind our FIN ends in a reset, so all must be there before an orderly end
    let count = if row.ends == "ok" { row.receives().count() } else { 0 };
    let received: Vec<_> = (0..count).map(|_| End::completion(stage, &end.recv_cq)).collect();
    finish(stage, manners, row, name, &end, place);
    judge(stage, row, name, &end, &places, receives, room, todo.len(), received);
    end.assert_silent();
    for mr in places.0.iter().map(|p| &p.mr).chain([receives, source]) {
        assert!(stage.behind(&**mr).iter().all(|o| *o == 0), "{name}: octets beside a region changed");
    }
    for place in &places.0 {
        // one that the peer invalidated is given back as well
        place.mr.dereg().expect("deregistered");
    }
    end.end();
}

/// An FPDU of the conversation in the device's terms.
fn reframed(fpdu: &Fpdu, places: &Places, crc: bool, markers: bool) -> Vec<u8> {
    let position = markers.then_some(fpdu.at);
    let mut octets = framed_at(&places.to_device(&fpdu.ulpdu), position);
    let good = fpdu.octets == framed_at(&fpdu.ulpdu, position);
    if crc && !good {
        *octets.last_mut().expect("CRC") ^= 1;
    }
    octets
}

/// The end of the connection, as the row says.
fn finish(stage: &mut dyn Stage, manners: Manners, row: &Row, name: &str, end: &End, place: usize) {
    let peer = end.peer;
    let over = |stage: &mut dyn Stage| {
        until(stage, "FIN or RST", |stage| (stage.heard(peer).fin || stage.heard(peer).reset).then_some(()));
        assert!(stage.heard(peer).octets.is_empty(), "{name}: nothing behind octet {place}: {:02x?}", stage.heard(peer).octets);
    };
    let (how, what) = row.ends.split_once(':').unwrap_or((row.ends, ""));
    match how {
        "ok" => {
            if row.initiator {
                end.id().disconnect(false).expect("closes");
            } else {
                stage.finish(peer);
            }
            over(stage);
            assert!(!stage.heard(peer).reset, "{name}: in order");
            stage.finish(peer);
            assert_eq!(end.event(stage, EventKind::Close).status, Ok(()), "{name}");
            assert_eq!(end.qp.query().state, QpState::Init, "{name}");
        }
        "said" | "heard" => {
            over(stage);
            assert!(!stage.heard(peer).reset, "{name}: the end is graceful");
            stage.finish(peer);
            assert_eq!(end.event(stage, EventKind::Close).status, manners.close, "{name}");
            let attr = end.qp.query();
            assert_eq!(attr.state, QpState::Error, "{name}");
            if how == "said" {
                assert!(attr.terminate_in.is_none() && attr.terminate_out.is_some(), "{name}: {attr:?}");
            } else {
                let told = (!what.is_empty()).then(|| codes(what)).map(|(layer, etype, code)| Terminate { layer, etype, code });
                assert_eq!((attr.terminate_in, attr.terminate_out), (told, None), "{name}");
            }
        }
        "cut" => {
            for _ in 0..SILENCE {
                stage.pass();
            }
            assert!(stage.heard(peer).octets.is_empty() && !stage.heard(peer).fin, "{name}: sends nothing");
            stage.finish(peer);
            assert!(end.event(stage, EventKind::Close).status.is_err(), "{name}");
        }
        "reset" => {
            over(stage);
            assert!(stage.heard(peer).reset, "{name}");
            assert!(end.event(stage, EventKind::Close).status.is_err(), "{name}");
        }
        "refused" => {
            over(stage);
            stage.finish(peer);
            assert!(end.event(stage, EventKind::ConnectReply).status.is_err(), "{name}");
        }
        _ => panic!("{name}: {}", row.ends),
    }
}

/// Completions and memory, as the row says.
#[allow(clippy::too_many_arguments)] // all that a connection had
fn judge(
    stage: &mut dyn Stage,
    row: &Row,
    name: &str,
    end: &End,
    places: &Places,
    receives: &Arc<dyn Mr>,
    room: usize,
    work: usize,
    received: Vec<Wc>,
) {
    let told = |wc: &Wc| match (wc.status, wc.opcode) {
        (WcStatus::Success, WcOpcode::Send) => "send".into(),
        (WcStatus::Success, WcOpcode::RdmaWrite) => "write".into(),
        (WcStatus::Success, WcOpcode::RdmaRead) => format!("read:{}", wc.byte_len),
        (WcStatus::Success, WcOpcode::Recv) => {
            let (s, i) = (if wc.solicited { "s" } else { "" }, if wc.invalidated.is_some() { "i" } else { "" });
            format!("{}{s}{i}", wc.byte_len)
        }
        (WcStatus::LocLenErr, _) => "len".into(),
        // what failed because of the peer's Terminate is flushed, too
        (WcStatus::WrFlushErr | WcStatus::RemAccessErr | WcStatus::RemOpErr, _) => "!".into(),
        _ => format!("{wc:?}"),
    };
    let mut octets = Vec::new();
    let contents = |mr: &Arc<dyn Mr>, at: usize, n: usize| {
        let mut some = vec![0; n];
        mr.read(at, &mut some).expect("inside");
        some
    };
    for place in &places.0 {
        octets.extend(contents(&place.mr, 0, place.mr.length()));
    }
    assert_eq!(row.sends_done().count(), work, "{name}: work requests");
    for (n, expected) in row.sends_done().enumerate() {
        let wc = End::completion(stage, &end.cq);
        assert_eq!((wc.wr_id, told(&wc).as_str()), (n as u64, expected), "{name}: {wc:?}");
    }
    let mut received = received.into_iter();
    for (n, expected) in row.receives().enumerate() {
        let wc = received.next().unwrap_or_else(|| End::completion(stage, &end.recv_cq));
        assert_eq!((wc.wr_id, told(&wc).as_str()), (n as u64, expected), "{name}: {wc:?}");
        if wc.status == WcStatus::Success {
            octets.extend(contents(receives, n * room, wc.byte_len as usize));
            assert!(contents(receives, n * room, room)[wc.byte_len as usize..].iter().all(|o| *o == 0), "{name}: more than came");
        }
        if let Some(stag) = wc.invalidated {
            assert!(places.0.iter().any(|p| p.mr.rkey() == stag), "{name}: {stag:08x}");
        }
    }
    let lands = if octets.is_empty() { "-".into() } else { format!("{:08x}", fpdu::crc32c(&octets)) };
    assert_eq!(lands, row.lands, "{name}: what landed");
}

/// Plays the rows of a device that `which` takes, those whose name contains ONLY of the environment if it is there. How many.
pub fn play_all(stage: &mut dyn Stage, device: &str, manners: Manners, which: impl Fn(&Row) -> bool) -> usize {
    let only = std::env::var("ONLY").ok();
    let conversations = conversations();
    let rows = rows();
    let ear = Ear::new(stage);
    let common = Common::new(stage, &rows, &conversations);
    let mut count = 0;
    for row in rows.iter().filter(|row| row.plays(device) && which(row)) {
        if only.as_ref().is_some_and(|only| !row.name.contains(only.as_str())) {
            continue;
        }
        println!("{} as {} at {}", row.name, row_place(row.initiator), stage.now());
        play(stage, &ear, &common, manners, row, &conversations[row.name]);
        count += 1;
    }
    for mr in [&common.receives, &common.source] {
        mr.dereg().expect("deregistered");
    }
    ear.end();
    count
}

impl Row {
    fn plays(&self, device: &str) -> bool {
        ["all", device].contains(&self.devices)
    }
    /// Says what that device does, or why it is not played.
    fn is_for(&self, device: &str) -> bool {
        self.plays(device) || self.devices == "not" || self.devices.strip_prefix("not-") == Some(device)
    }
    /// Of a worked example.
    pub fn is_example(&self) -> bool {
        self.name.starts_with("example-")
    }
}
