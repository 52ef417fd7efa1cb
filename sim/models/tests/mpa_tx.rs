// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::tx`: FPDUs and parts of them against FPDUs made by `ironwarp_wire` and the worked examples, from items of any kind, with a host and regions that
//! are slow and sometimes refuse.
mod net;
use ironwarp_abi::work::access;
use ironwarp_models::bench::{self, Memory, ReadHost};
use ironwarp_models::{mpa_tx::Model, Dut};
use ironwarp_wire::{ddp, fpdu};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

const CONNECTIONS: u16 = 32;
/// Octets of payload in the largest FPDU of these tests.
const MOST: usize = 1446;

/// Host memory by IOVA.
fn host_octet(addr: u64) -> u8 {
    (addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8
}

/// Where the regions of these tests are.
fn iova(stag: u32, to: u64) -> u64 {
    to.wrapping_add(u64::from(stag) << 20 | 5)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sge {
    len: u32,
    stag: u32,
    to: u64,
}

#[derive(Clone, Debug, Default)]
struct Item {
    opcode: u8,
    remote: bool,
    pd: u16,
    qpn: u16,
    stag: u32,
    target: u64,
    markers: bool,
    crc: bool,
    sges: [Sge; 4],
    in_line: Option<Vec<u8>>,
}

impl Item {
    fn tagged(&self) -> bool {
        self.opcode == 0 || self.opcode == 2
    }
    fn words(&self, rng: &mut ChaCha8Rng) -> [u64; 12] {
        let mut words: [u64; 12] = rng.random();
        let spare = rng.random::<u8>() & 0xfc;
        let flags = u8::from(self.in_line.is_some()) | u8::from(self.remote) << 1 | spare;
        words[0] = u64::from(self.opcode) | u64::from(flags) << 8 | u64::from(self.pd) << 16 | u64::from(self.stag) << 32;
        words[1] = self.target;
        let bits = u64::from(self.markers) | u64::from(self.crc) << 1 | u64::from(spare) << 2;
        words[2] = u64::from(self.len()) | u64::from(self.qpn) << 32 | bits << 48;
        if let Some(octets) = &self.in_line {
            for (i, octet) in octets.iter().enumerate() {
                let at = 8 * (i % 8);
                words[4 + i / 8] = words[4 + i / 8] & !(0xff << at) | u64::from(*octet) << at;
            }
        } else {
            for (k, sge) in self.sges.iter().enumerate() {
                words[4 + 2 * k] = u64::from(sge.len) | u64::from(sge.stag) << 32;
                words[5 + 2 * k] = sge.to;
            }
        }
        words
    }
    fn len(&self) -> u32 {
        self.in_line.as_ref().map_or(self.sges.iter().map(|s| s.len).sum(), |o| o.len() as u32)
    }
    /// The pieces of host memory that hold octets `offset..offset + len` of the message.
    fn pieces(&self, offset: u32, len: usize) -> Vec<Sge> {
        let (mut start, mut pieces) = (0u64, vec![]);
        let (from, to) = (u64::from(offset), u64::from(offset) + len as u64);
        for sge in self.sges.iter().filter(|_| self.in_line.is_none()) {
            let end = start + u64::from(sge.len);
            let (first, last) = (from.max(start), to.min(end));
            if first < last {
                pieces.push(Sge { len: (last - first) as u32, to: sge.to.wrapping_add(first - start), ..*sge });
            }
            start = end;
        }
        pieces
    }
}

/// What is asked of the block.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    index: u16,
    item: u8,
    offset: u32,
    len: usize,
    last: bool,
    phase: usize,
    skip: usize,
    take: usize,
}

/// What is known of an FPDU that the block was asked for.
struct Order {
    part: Part,
    item: Item,
    pieces: Vec<Sge>,
    /// Pieces asked for; the check that failed; the block needs more than there is; a read failed.
    asked: usize,
    denied: bool,
    short: bool,
    broken: bool,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: ReadHost,
    /// Octets of the host that are not as `host_octet` has them.
    special: HashMap<u64, u8>,
    store: HashMap<(u16, u8), [u64; 12]>,
    items: HashMap<(u16, u8), Item>,
    /// Clocks from a question to its answer; chance that it is refused.
    region: Range<u64>,
    deny: f64,
    /// Chances that `out`, `fault` and `ask` are not ready, and that no FPDU is offered.
    stall: f64,
    fault_busy: f64,
    ask_busy: f64,
    pause: f64,
    to_ask: VecDeque<Part>,
    orders: Vec<Order>,
    /// The order whose pieces are being asked for; the question without an answer; what may be read; whose reads are under way.
    at: usize,
    question: Option<(u64, Sge)>,
    allowed: VecDeque<(u64, u16)>,
    reads: VecDeque<usize>,
    out: Vec<u8>,
    ended: Vec<(Vec<u8>, bool)>,
    faults: Vec<u16>,
    clocks: u64,
    /// Clock of the first and of the last beat of each; in which it was asked for.
    times: Vec<(u64, u64)>,
    first_beat: Option<u64>,
    began: Vec<u64>,
    offered: Option<Vec<u64>>,
}

impl Bench {
    fn new(latency: Range<u64>, busy: f64) -> Self {
        let seed = bench::seed("mpa_tx");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            host: ReadHost::new(latency, busy),
            special: HashMap::new(),
            store: HashMap::new(),
            items: HashMap::new(),
            region: 1..2,
            deny: 0.0,
            stall: 0.0,
            fault_busy: 0.0,
            ask_busy: 0.0,
            pause: 0.0,
            to_ask: VecDeque::new(),
            orders: vec![],
            at: 0,
            question: None,
            allowed: VecDeque::new(),
            reads: VecDeque::new(),
            out: vec![],
            ended: vec![],
            faults: vec![],
            clocks: 0,
            times: vec![],
            first_beat: None,
            began: vec![],
            offered: None,
        };
        b.reset();
        b
    }
    /// A bench that is as slow and unreliable as can be.
    fn rough() -> Self {
        let mut b = Bench::new(0..60, 0.2);
        b.region = 1..12;
        b.stall = 0.3;
        b.fault_busy = 0.5;
        b.ask_busy = 0.3;
        b.pause = 0.3;
        b
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.fpdu_valid.set(false);
        self.m.answer_valid.set(false);
        self.m.rd_beat_valid.set(false);
        self.host = ReadHost::new(self.host.latency.clone(), self.host.busy);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.to_ask.clear();
        self.question = None;
        self.allowed.clear();
        self.reads.clear();
        self.offered = None;
        self.forget();
    }
    fn forget(&mut self) {
        self.orders.clear();
        self.at = 0;
        self.out.clear();
        self.ended.clear();
        self.faults.clear();
        self.times.clear();
        self.first_beat = None;
        self.began.clear();
    }
    fn put(&mut self, index: u16, place: u8, item: Item) {
        self.store.insert((index, place), item.words(&mut self.rng));
        self.items.insert((index, place), item);
    }
    fn clock(&mut self) {
        let (ready, beat) = self.host.offer(&self.memory, &mut self.rng);
        let m = &mut self.m;
        m.rd_req_ready.set(ready);
        m.rd_beat_valid.set(beat.is_some());
        if let Some(beat) = beat {
            m.rd_beat_data_data.set(beat.data);
            m.rd_beat_data_last.set(u64::from(beat.last));
            m.rd_beat_data_error.set(u64::from(beat.error));
        }
        m.out_ready.set(!self.rng.random_bool(self.stall));
        m.fault_ready.set(!self.rng.random_bool(self.fault_busy));
        m.ask_ready.set(self.question.is_none() && !self.rng.random_bool(self.ask_busy));
        let mut denies = false;
        let answer = self.question.filter(|(due, _)| *due <= self.clocks).map(|(_, piece)| piece);
        m.answer_valid.set(answer.is_some());
        if let Some(piece) = answer {
            denies = self.rng.random_bool(self.deny);
            m.answer_data_status.set(if denies { self.rng.random_range(1..6) } else { 0 });
            m.answer_data_addr.set(iova(piece.stag, piece.to));
        }
        if !m.fpdu_valid.get() && !self.rng.random_bool(self.pause) {
            if let Some(part) = self.to_ask.front() {
                m.fpdu_data_index.set(u64::from(part.index));
                m.fpdu_data_fpdu_item.set(u64::from(part.item));
                m.fpdu_data_fpdu_offset.set(u64::from(part.offset));
                m.fpdu_data_fpdu_len.set(part.len as u64);
                m.fpdu_data_fpdu_last.set(u64::from(part.last));
                m.fpdu_data_fpdu_phase.set(part.phase as u64);
                m.fpdu_data_skip.set(part.skip as u64);
                m.fpdu_data_take.set(part.take as u64);
                m.fpdu_valid.set(true);
            }
        }
        m.eval();
        let address = m.item_address.get();
        let (index, place, word) = (address >> 8, (address >> 4 & 15) as u8, usize::from(address & 15));
        assert!(m.rd_beat_ready.get(), "the host never waits");
        let used = m.out_valid.get() || m.rd_req_valid.get() || m.fault_valid.get() || m.ask_valid.get() || self.host.outstanding() > 0;
        assert!(m.busy.get() || !used, "busy while anything goes on");
        let busy = self.ended.len() < self.orders.len();
        assert_eq!(m.busy.get(), busy, "busy while an FPDU is made");

        let reads = !self.allowed.is_empty() || self.host.outstanding() > 0;
        let in_line = self.orders.iter().skip(self.ended.len()).any(|o| o.item.in_line.is_some());
        assert!(m.quiet.get() != reads || !m.quiet.get() && in_line, "quiet while nothing is read");

        let taken = m.fpdu_valid.get() && m.fpdu_ready.get();
        if taken {
            let part = self.to_ask.pop_front().expect("offered");
            let item = self.items[&(part.index, part.item)].clone();
            let pieces = item.pieces(part.offset, part.len);
            let short = item.in_line.is_none() && pieces.iter().map(|p| p.len as usize).sum::<usize>() < part.len;
            self.orders.push(Order { part, item, pieces, asked: 0, denied: false, short, broken: false });
            self.began.push(self.clocks);
        }
        if m.ask_valid.get() && m.ask_ready.get() {
            while self.orders[self.at].denied || self.orders[self.at].asked == self.orders[self.at].pieces.len() {
                self.at += 1;
            }
            let order = &mut self.orders[self.at];
            let piece = order.pieces[order.asked];
            order.asked += 1;
            assert_eq!(
                (m.ask_data_stag.get(), m.ask_data_to.get(), m.ask_data_len.get()),
                (u64::from(piece.stag), piece.to, u64::from(piece.len))
            );
            let need = if order.item.remote { access::REMOTE_READ } else { 0 };
            assert_eq!((m.ask_data_op.get(), m.ask_data_need.get()), (0, u64::from(need)));
            assert_eq!((m.ask_data_pd.get(), m.ask_data_qpn.get()), (u64::from(order.item.pd), u64::from(order.item.qpn)));
            self.question = Some((self.clocks + self.rng.random_range(self.region.clone()), piece));
        } else if answer.is_some() && m.answer_ready.get() {
            let (_, piece) = self.question.take().expect("asked");
            if denies {
                self.orders[self.at].denied = true;
            } else {
                self.allowed.push_back((iova(piece.stag, piece.to), piece.len as u16));
                self.reads.push_back(self.at);
            }
        }
        let request = (m.rd_req_valid.get() && ready).then(|| (m.rd_req_data_addr.get(), m.rd_req_data_len.get() as u16));
        if let Some((addr, len)) = request {
            assert_eq!(self.allowed.pop_front(), Some((addr, len)), "only what was allowed is read");
            for at in (addr..addr + u64::from(len)).step_by(8) {
                let word = std::array::from_fn(|i| {
                    let at = at + i as u64;
                    self.special.get(&at).copied().unwrap_or_else(|| host_octet(at))
                });
                self.memory.0.insert(at, u64::from_le_bytes(word));
            }
        }
        if let Some(beat) = beat.filter(|b| b.last) {
            let order = self.reads.pop_front().expect("asked for");
            self.orders[order].broken |= beat.error;
        }

        let offer = vec![m.out_beat_data.get(), m.out_beat_keep.get(), m.out_beat_last.get(), m.out_beat_error.get()];
        if let Some(before) = self.offered.take() {
            assert!(m.out_valid.get());
            assert_eq!(before, offer, "what is offered stays");
        }
        if m.out_valid.get() {
            let keep = m.out_beat_keep.get();
            if m.out_ready.get() {
                self.first_beat.get_or_insert(self.clocks);
                net::push(&mut self.out, m.out_beat_data.get(), keep);
                if m.out_beat_last.bit() {
                    self.ended.push((std::mem::take(&mut self.out), m.out_beat_error.bit()));
                    self.times.push((self.first_beat.take().expect("began"), self.clocks));
                } else {
                    assert_eq!(keep, 0xff);
                }
            } else {
                self.offered = Some(offer);
            }
        }
        if m.fault_valid.get() && m.fault_ready.get() {
            assert_eq!(self.faults.len(), self.ended.iter().filter(|(_, error)| *error).count(), "told before the end");
            self.faults.push(m.fault_data.get());
        }
        self.host.step(request, beat.is_some(), &mut self.rng);
        self.m.tick();
        if taken {
            self.m.fpdu_valid.set(false);
        }
        let data = self.store.get(&(index, place)).map_or(0, |words| words.get(word).copied().unwrap_or(0));
        self.m.item_data.set(data);
        self.clocks += 1;
    }
    /// The payload of `order`, in plain Rust; 0 from the first octet on that could not be read.
    fn payload(&self, order: &Order) -> Vec<u8> {
        let (part, item) = (&order.part, &order.item);
        if let Some(octets) = &item.in_line {
            return octets[..part.len].to_vec();
        }
        let known = if order.denied { order.asked - 1 } else { order.pieces.len() };
        let mut payload: Vec<u8> = order.pieces[..known]
            .iter()
            .flat_map(|p| (0..u64::from(p.len)).map(|i| iova(p.stag, p.to).wrapping_add(i)))
            .map(|at| self.special.get(&at).copied().unwrap_or_else(|| host_octet(at)))
            .collect();
        payload.resize(part.len, 0);
        payload
    }
    /// The FPDU of `order`.
    fn whole(&self, order: &Order) -> Vec<u8> {
        octets(&order.part, &order.item, &self.payload(order))
    }
    /// All that was asked for is made and is right.
    fn finish(&mut self) {
        let end = self.clocks + 50_000 + 20 * self.to_ask.iter().map(|p| p.len as u64).sum::<u64>();
        while !self.to_ask.is_empty() || self.ended.len() < self.orders.len() || self.m.fpdu_valid.get() {
            assert!(self.clocks < end, "comes to an end");
            self.clock();
        }
        self.clock();
        assert!(!self.m.busy.get() && self.m.quiet.get() && self.host.outstanding() == 0 && self.reads.is_empty());
        let mut faults = vec![];
        for (order, (got, error)) in self.orders.iter().zip(&self.ended) {
            let part = order.part;
            let failed = order.denied || order.short || order.broken;
            assert_eq!(got.len(), part.take, "{part:?}");
            assert_eq!(*error, failed, "{part:?}");
            if !order.denied {
                assert_eq!(order.asked, order.pieces.len(), "{part:?}");
            }
            if failed {
                faults.push(part.index);
            }
            if !order.broken {
                let whole = self.whole(order);
                assert_eq!(got[..], whole[part.skip..part.skip + part.take], "{part:?} {:?}", order.item);
            }
        }
        assert_eq!(self.faults, faults);
    }
    fn wire_len(&self, part: &Part) -> usize {
        let item = &self.items[&(part.index, part.item)];
        let header = if item.tagged() { ddp::TAGGED_OCTETS } else { ddp::UNTAGGED_OCTETS };
        fpdu::wire_len(header + part.len, item.markers.then_some(part.phase))
    }
    /// Asks for all of the FPDU of `part`.
    fn ask(&mut self, part: Part) {
        let take = self.wire_len(&part);
        self.to_ask.push_back(Part { skip: 0, take, ..part });
    }
    fn random_sge(&mut self, len: u32) -> Sge {
        let to =
            if self.rng.random_bool(0.1) { u64::from(u32::MAX) - self.rng.random_range(0..2000) } else { self.rng.random::<u64>() >> 8 };
        Sge { len, stag: self.rng.random(), to }
    }
    /// An item of `len` octets, cut into SGEs anyhow.
    fn random_item(&mut self, len: u32, markers: bool) -> Item {
        let mut sges = [Sge::default(); 4];
        let used = self.rng.random_range(1..5usize);
        let mut left = len;
        for (k, sge) in sges.iter_mut().enumerate() {
            let most = left.min([8, 64, 2000, u32::MAX][self.rng.random_range(0..4usize)]);
            let n = if k + 1 == used { left } else { self.rng.random_range(0..=most) };
            *sge = self.random_sge(n);
            left -= n;
        }
        let in_line = (len <= 64 && self.rng.random_bool(0.3)).then(|| (0..len).map(|_| self.rng.random()).collect());
        Item {
            opcode: self.rng.random_range(0..8),
            remote: self.rng.random(),
            pd: self.rng.random(),
            qpn: self.rng.random(),
            stag: self.rng.random(),
            target: self.rng.random(),
            markers,
            crc: self.rng.random_bool(0.8),
            sges,
            in_line,
        }
    }
    /// An FPDU of a new item anywhere in the store, of a message of any length.
    fn random_part(&mut self) -> Part {
        let (index, place) = (self.rng.random_range(0..CONNECTIONS), self.rng.random_range(0..16));
        let most = [20, 70, MOST as u32, 100_000, (1 << 31) - 1][self.rng.random_range(0..5usize)];
        let len = self.rng.random_range(0..=most);
        let markers = self.rng.random();
        let item = self.random_item(len, markers);
        let (offset, octets) = if item.in_line.is_some() || len == 0 {
            (0, len as usize)
        } else {
            let offset = self.rng.random_range(0..len);
            let most = (len - offset).min(MOST as u32);
            (offset, if self.rng.random() { most } else { self.rng.random_range(1..=most) } as usize)
        };
        let (markers, phase) = (item.markers, self.rng.random_range(0..128) * 4);
        // an item that FPDUs to come belong to stays
        if self.to_ask.iter().any(|p| (p.index, p.item) == (index, place)) {
            return self.random_part();
        }
        self.put(index, place, item);
        Part {
            index,
            item: place,
            offset,
            len: octets,
            last: self.rng.random(),
            phase: if markers { phase } else { self.rng.random_range(0..512) },
            skip: 0,
            take: 0,
        }
    }
}

/// An FPDU as `ironwarp_wire` writes it.
fn octets(part: &Part, item: &Item, payload: &[u8]) -> Vec<u8> {
    let rdmap = 0x40 | item.opcode;
    let header = if item.tagged() {
        ddp::Header::Tagged { last: part.last, rdmap, stag: item.stag, to: item.target.wrapping_add(u64::from(part.offset)) }
    } else {
        let (qn, msn) = (item.target as u32, (item.target >> 32) as u32);
        ddp::Header::Untagged { last: part.last, rdmap, stag: item.stag, qn, msn, mo: part.offset }
    };
    let mut front = [0; 18];
    let front_len = header.emit(&mut front).expect("room");
    let mut out = vec![0; payload.len() + 256];
    let mut writer = fpdu::Writer::new(&mut out, front_len + payload.len(), item.markers.then_some(part.phase)).expect("room");
    writer.put(&front[..front_len]).expect("announced");
    writer.put(payload).expect("announced");
    let len = writer.finish(item.crc).expect("all there");
    out.truncate(len);
    out
}

/// The worked FPDUs: name, place of the first octet in the stream, octets.
fn examples() -> Vec<(String, Option<usize>, Vec<u8>)> {
    let text = include_str!("../../../tests/golden/fpdu.tsv");
    let rows = text.lines().filter(|l| !l.starts_with('#')).map(|line| {
        let column: Vec<_> = line.split('\t').collect();
        let octets = (0..column[2].len()).step_by(2).map(|i| u8::from_str_radix(&column[2][i..i + 2], 16).expect("hex")).collect();
        (column[0].to_string(), column[1].parse().ok(), octets)
    });
    rows.collect()
}

/// Every FPDU of the worked examples, payload from the host or, if it fits, from the item.
/// Covers: MPA-21, MPA-22, MPA-25, MPA-27, MRK-1, MRK-2, MRK-3, MRK-5, MRK-7, MRK-9, DDP-1, DDP-6, DDP-17
#[test]
fn the_worked_examples_are_made_bit_by_bit() {
    for in_line in [false, true] {
        let mut b = Bench::new(0..10, 0.0);
        let mut made = 0;
        for (name, start, stream) in examples() {
            let (mut at, mut offset) = (0, 0);
            while at < stream.len() {
                let position = start.map(|start| start + at);
                let len = fpdu::len(&stream[at..], position).expect("whole");
                let expect = stream[at..at + len].to_vec();
                let mut opened = expect.clone();
                let ulpdu = fpdu::open(&mut opened, position, true).expect("good");
                let (header, payload) = ddp::Header::parse(ulpdu).expect("good");
                let sge = Sge { len: offset + payload.len() as u32, stag: 0x77, to: 0x1_0000_0003 + 0x10000 * made };
                for (i, octet) in payload.iter().enumerate() {
                    b.special.insert(iova(sge.stag, sge.to) + u64::from(offset) + i as u64, *octet);
                }
                let inside = in_line && payload.len() <= 64 && offset == 0;
                let mut item = Item {
                    markers: start.is_some(),
                    crc: true,
                    sges: [Sge::default(), sge, Sge::default(), Sge::default()],
                    in_line: inside.then(|| payload.to_vec()),
                    ..Item::default()
                };
                let last = match header {
                    ddp::Header::Tagged { last, rdmap, stag, to } => {
                        (item.opcode, item.stag, item.target) = (rdmap & 15, stag, to - u64::from(offset));
                        last
                    }
                    ddp::Header::Untagged { last, rdmap, stag, qn, msn, mo } => {
                        assert_eq!(mo, offset);
                        (item.opcode, item.stag, item.target) = (rdmap & 15, stag, u64::from(msn) << 32 | u64::from(qn));
                        last
                    }
                };
                b.put(made as u16 % CONNECTIONS, 3, item);
                let part = Part {
                    index: made as u16 % CONNECTIONS,
                    item: 3,
                    offset,
                    len: payload.len(),
                    last,
                    phase: position.unwrap_or(0) % 512,
                    skip: 0,
                    take: len,
                };
                b.to_ask.push_back(part);
                b.finish();
                assert_eq!(b.ended, [(expect, false)], "{name} at {at}");
                b.forget();
                offset = if last { 0 } else { offset + payload.len() as u32 };
                at += len;
                made += 1;
            }
        }
        assert!(made >= 33, "{made}");
    }
}

/// All 128 places of the first word, and lengths around those that end beside a marker.
/// Covers: MRK-1, MRK-2, MRK-5, MRK-7, MRK-8, MPA-22
#[test]
fn markers_stand_where_they_belong_in_every_phase() {
    let mut b = Bench::new(0..3, 0.0);
    let mut edges: Vec<usize> = (0..10).chain([12, 13, 16, 20, 24, 31]).collect();
    for edge in [1, 2] {
        // FPDUs of 504 to 516 octets and twice that
        edges.extend((edge * 512 - 36)..=(edge * 512 - 12));
    }
    edges.push(MOST);
    for phase in 0..128 {
        for (i, len) in edges.iter().enumerate() {
            let untagged = (i + phase) % 2 == 0;
            // not each length in each phase, but each distance from the end to a marker
            if *len > 31 && (len / 4 + phase) % 8 > 1 && *len % 4 != 0 {
                continue;
            }
            let sge = b.random_sge(*len as u32);
            let item = Item {
                opcode: if untagged { 3 } else { 0 },
                markers: true,
                crc: true,
                sges: [sge, Sge::default(), Sge::default(), Sge::default()],
                ..Item::default()
            };
            let (index, place) = ((i % 32) as u16, (phase % 16) as u8);
            b.put(index, place, item);
            b.ask(Part { index, item: place, len: *len, last: true, phase: 4 * phase, ..Part::default() });
            if b.to_ask.len() == 30 {
                b.finish();
                b.forget();
            }
        }
    }
    b.finish();
}

/// Messages of any length, cut anyhow, gathered from SGEs of any length (0 too) or inline, one behind the other without a pause or with.
/// Covers: MPA-23, MPA-25, MPA-27, DDP-5, DDP-6, DDP-17, MRK-9, DDP-13, RDM-25
#[test]
fn any_part_of_any_message_can_be_sent() {
    for mut b in [Bench::new(0..1, 0.0), Bench::new(20..90, 0.0), Bench::rough()] {
        for _ in 0..20 {
            for _ in 0..40 {
                let part = b.random_part();
                b.ask(part);
            }
            b.finish();
            b.forget();
        }
    }
}

/// Every SGE boundary against every octet, for short pieces.
#[test]
fn short_pieces_are_packed_without_gaps() {
    let mut b = Bench::new(0..4, 0.0);
    let mut n = 0;
    for first in 0..10 {
        for second in 0..10 {
            for third in [0, 1, 7, 8, 9, 16, 17] {
                let lens = [first, second, third, (first + second) % 4];
                let sges = lens.map(|len| b.random_sge(len));
                let total: u32 = lens.iter().sum();
                let offset = if total == 0 { 0 } else { n % total };
                let item = Item { opcode: (n % 7) as u8, crc: true, markers: n % 3 == 0, sges, ..Item::default() };
                let (index, place) = ((n % 32) as u16, (n / 32 % 16) as u8);
                b.put(index, place, item);
                b.ask(Part {
                    index,
                    item: place,
                    offset,
                    len: (total - offset) as usize,
                    last: true,
                    phase: (n as usize % 128) * 4,
                    ..Part::default()
                });
                n += 1;
                if n % 500 == 0 {
                    b.finish();
                    b.forget();
                }
            }
        }
    }
    b.finish();
}

/// Parts that TCP asks for make up the whole, however it cuts and as often as it asks.
/// Covers: MRK-10
#[test]
fn the_parts_of_an_fpdu_make_up_the_whole() {
    for mut b in [Bench::new(0..1, 0.0), Bench::rough()] {
        for round in 0..60 {
            let part = b.random_part();
            let whole = b.wire_len(&part);
            let mut at = 0;
            while at < whole {
                let beats = (whole - at).div_ceil(8);
                // the last part and only it may end anywhere; each may be asked for more than once
                let take = if round % 2 == 0 { 8 * b.rng.random_range(1..=beats) } else { whole }.min(whole - at);
                b.to_ask.push_back(Part { skip: at, take, ..part });
                if round % 3 == 0 {
                    let short = b.rng.random_range(1..=take);
                    b.to_ask.push_back(Part { skip: at, take: short, ..part });
                }
                at += take;
            }
            b.finish();
            b.forget();
        }
    }
}

/// A check that fails: the FPDU has its length, zeros from there on, and an error; nothing more is read for it; its index is told. A read that fails: the same but for
/// the octets. FPDUs beside it are as they should be.
#[test]
fn what_may_not_or_cannot_be_read_spoils_only_its_own_fpdu() {
    for mut b in [Bench::new(0..1, 0.0), Bench::rough()] {
        b.fault_busy = 0.7;
        let mut count = [0; 4];
        for round in 0..60 {
            b.deny = [0.3, 0.0, 0.1][round % 3];
            b.host.failing = [0.0, 0.3, 0.1][round % 3];
            for _ in 0..20 {
                let mut part = b.random_part();
                // some messages are longer than their SGEs
                let item = &b.items[&(part.index, part.item)];
                if item.in_line.is_none() && b.rng.random_bool(0.1) {
                    part.offset = item.len().saturating_sub(b.rng.random_range(0..20));
                    part.len = b.rng.random_range(20..100);
                }
                let whole = b.wire_len(&part);
                let skip = if b.rng.random() { 0 } else { 8 * b.rng.random_range(0..whole.div_ceil(8)) };
                let take = if b.rng.random() { whole - skip } else { b.rng.random_range(1..=whole - skip) };
                b.to_ask.push_back(Part { skip, take, ..part });
            }
            b.finish();
            for order in &b.orders {
                let kind = [order.denied, order.broken, order.short].iter().position(|x| *x).unwrap_or(3);
                count[kind] += 1;
            }
            b.forget();
        }
        assert!(count.iter().all(|n| *n > 30), "{count:?}");
    }
}

/// The clocks that the module doc promises.
#[test]
fn an_fpdu_takes_its_beats_and_little_more() {
    let clocks = |b: &mut Bench, len: usize, n: u16| {
        for index in 0..n {
            let sge = b.random_sge(len as u32);
            let item = Item { opcode: 0, crc: true, sges: [sge, Sge::default(), Sge::default(), Sge::default()], ..Item::default() };
            b.put(index, 0, item);
            b.ask(Part { index, len, last: true, ..Part::default() });
        }
        b.finish();
        let (first, last) = (b.began[0], b.times.clone());
        b.forget();
        (first, last)
    };
    let mut b = Bench::new(0..1, 0.0);
    for (len, alone, each) in [(8, 14, 8), (64, 21, 13), (MOST, 194, 186)] {
        let (began, times) = clocks(&mut b, len, 1);
        println!("{len}: first beat {}, last {} clocks after it was asked for", times[0].0 - began, times[0].1 - began);
        assert!(times[0].1 - began <= alone, "{len}");
        let (_, times) = clocks(&mut b, len, 12);
        let period = (times[11].1 - times[1].1) as f64 / 10.0;
        println!("{len}: one each {period} clocks");
        assert!(period <= f64::from(each), "{len}");
    }
    // the wire stays full when the host answers late
    let mut b = Bench::new(100..101, 0.0);
    let (_, times) = clocks(&mut b, MOST, 12);
    let period = (times[11].1 - times[1].1) as f64 / 10.0;
    println!("{MOST}, 100 clocks from the host: one each {period} clocks");
    assert!(period <= 186.0);
}

#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::rough();
    for _ in 0..150 {
        b.deny = 0.1;
        b.host.failing = 0.1;
        for _ in 0..4 {
            let part = b.random_part();
            b.ask(part);
        }
        for _ in 0..b.rng.random_range(1..400) {
            b.clock();
        }
        b.reset();
        b.deny = 0.0;
        for _ in 0..5 {
            b.clock();
        }
        assert!(b.out.is_empty() && b.ended.is_empty());
        let part = b.random_part();
        b.ask(part);
        b.finish();
        b.forget();
    }
}
