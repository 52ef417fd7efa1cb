// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::rx` against [`World`], the receive side of DDP and RDMAP in plain Rust, which sees each FPDU at once and whole.
//!
//! The bench does one thing after the other ([`Action`]), and the world says what must come of it: writes to host memory, octet by octet and in order; what is
//! delivered, in order, and how many writes must have ended before; slots that come back.
use ironwarp_models::bench::{Memory, ReadHost, WriteHost};
use ironwarp_models::{bench, rdma_rx::Model, Dut};
use ironwarp_wire::ddp::{Header, View};
use ironwarp_wire::rdmap::{self, Opcode, ReadRequest};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

const SLOT_OCTETS: usize = 2048;
const SLOTS: usize = 16;
const LOCAL_WRITE: u8 = 1;
const REMOTE_WRITE: u8 = 2;
const REMOTE_READ: u8 = 4;
const REMOTE_INVALIDATE: u8 = 8;

/// Order of `FpduNote`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Note {
    Whole,
    BadCrc,
    BadLength,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sge {
    len: u32,
    stag: u32,
    to: u64,
}

#[derive(Clone, Copy, Debug)]
struct Qp {
    qpn: u16,
    pd: u16,
    cqn: u16,
    rq_base: u64,
    rq_log2: u8,
    ird: u8,
    terminate: u8,
}

#[derive(Clone, Debug)]
enum Action {
    Bind(usize, Qp),
    Unbind(usize),
    Posted(usize, u16),
    Issued(usize, Sge),
    Responded(usize),
    Fpdu(usize, Note, Vec<u8>),
    /// When all before it is over.
    Revoke(u32),
}

/// What is delivered.
#[derive(Clone, Debug, PartialEq)]
enum Out {
    Heard(usize),
    ReadRequest { index: usize, stag: u32, to: u64, len: u32, sink_stag: u32, sink_to: u64 },
    ReadDone(usize),
    Stop(usize),
    Terminate(usize, Vec<u8>),
    Completion { cqn: u16, qpn: u16, wqe: u16, status: u8, len: u32, invalidated: Option<u32>, solicited: bool },
    Event { kind: u8, index: usize, code: (u8, u8, u8) },
    Unbound(usize),
}

/// Order of `RegionStatus`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Invalid = 1,
    Association,
    Right,
    Wrap,
    Bounds,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    base: u64,
    len: u64,
    /// IOVA of octet `base`.
    addr: u64,
    rights: u8,
    pd: u16,
    qpn: Option<u16>,
    valid: bool,
}

#[derive(Clone, Default)]
struct Regions(BTreeMap<u32, Region>);

impl Regions {
    fn check(&self, stag: u32, (pd, qpn): (u16, u16), need: u8, to: u64, len: u64) -> Result<u64, Fault> {
        let r = self.0.get(&stag).filter(|r| r.valid).ok_or(Fault::Invalid)?;
        if r.pd != pd || r.qpn.is_some_and(|q| q != qpn) {
            return Err(Fault::Association);
        }
        if r.rights & need != need {
            return Err(Fault::Right);
        }
        if u128::from(to) + u128::from(len) > 1 << 64 {
            return Err(Fault::Wrap);
        }
        if to < r.base || u128::from(to) + u128::from(len) > u128::from(r.base) + u128::from(r.len) {
            return Err(Fault::Bounds);
        }
        Ok(r.addr.wrapping_add(to - r.base))
    }
    fn invalidate(&mut self, stag: u32, (pd, qpn): (u16, u16)) -> Result<u64, Fault> {
        let r = self.0.get_mut(&stag).filter(|r| r.valid).ok_or(Fault::Invalid)?;
        if r.pd != pd || r.qpn.is_some_and(|q| q != qpn) {
            return Err(Fault::Association);
        }
        if r.rights & REMOTE_INVALIDATE == 0 || r.qpn.is_none() {
            return Err(Fault::Right);
        }
        r.valid = false;
        Ok(0)
    }
}

#[derive(Clone, Debug)]
struct Conn {
    qp: Qp,
    deaf: bool,
    heard: bool,
    msn: [u32; 2],
    send: Option<(Opcode, u32)>,
    mo: u64,
    posted: Vec<[Sge; 4]>,
    consumer: usize,
    tagged: Option<Opcode>,
    in_use: u8,
    reads: VecDeque<Sge>,
    read_done: u64,
}

/// A Terminate that is due: layer, type, code; with the DDP header; with the Read Request.
struct Error(u8, u8, u8, bool, bool);

#[derive(Default)]
struct World {
    conns: BTreeMap<usize, Conn>,
    regions: Regions,
    out: VecDeque<(usize, Out)>,
    writes: VecDeque<(u64, Vec<u8>)>,
    written: usize,
}

impl World {
    fn tell(&mut self, out: Out) {
        self.out.push_back((self.written, out));
    }
    fn write(&mut self, addr: u64, octets: &[u8]) {
        self.written += 1;
        self.writes.push_back((addr, octets.to_vec()));
    }
    fn bind(&mut self, index: usize, qp: Qp) {
        let conn = Conn {
            qp,
            deaf: qp.terminate != 0,
            heard: false,
            msn: [1; 2],
            send: None,
            mo: 0,
            posted: vec![],
            consumer: 0,
            tagged: None,
            in_use: 0,
            reads: VecDeque::new(),
            read_done: 0,
        };
        assert!(self.conns.insert(index, conn).is_none());
    }
    fn unbind(&mut self, index: usize) {
        self.conns.remove(&index).expect("bound");
        self.tell(Out::Unbound(index));
    }
    fn fpdu(&mut self, index: usize, note: Note, ulpdu: &[u8]) {
        let Some(conn) = self.conns.get_mut(&index).filter(|c| !c.deaf) else { return };
        if note == Note::Whole && !conn.heard {
            conn.heard = true;
            self.tell(Out::Heard(index));
        }
        let result = match note {
            Note::Whole => self.segment(index, ulpdu),
            Note::BadCrc => Err(Error(2, 0, 2, false, false)),
            Note::BadLength => Err(Error(2, 0, 3, false, false)),
        };
        if let Err(Error(layer, etype, code, header, request)) = result {
            let segment = header.then(|| (ulpdu.len() as u16, View::new(ulpdu).expect("has one").header()));
            let read = request.then(|| ReadRequest::parse(&ulpdu[18..]).expect("is one"));
            let terminate = rdmap::Terminate { layer, etype, code, segment, read };
            let mut octets = [0; rdmap::Terminate::MAX_OCTETS];
            let len = terminate.emit(&mut octets).expect("room");
            self.tell(Out::Terminate(index, octets[..len].to_vec()));
            self.tell(Out::Event { kind: 2, index, code: (layer, etype, code) });
            self.conns.get_mut(&index).expect("bound").deaf = true;
        }
    }
    fn segment(&mut self, index: usize, ulpdu: &[u8]) -> Result<(), Error> {
        let view = View::new(ulpdu).map_err(|_| Error(2, 0, 3, false, false))?;
        if view.version() != 1 {
            return Err(if view.is_tagged() { Error(1, 1, 4, false, false) } else { Error(1, 2, 6, false, false) });
        }
        if rdmap::version(view.rdmap()) != 1 {
            return Err(Error(0, 2, 5, false, false));
        }
        if view.qn().is_some_and(|qn| qn > 2) {
            return Err(Error(1, 2, 1, true, false));
        }
        let opcode = Opcode::of(view.rdmap()).filter(|o| o.is_tagged() == view.is_tagged() && o.qn() == view.qn());
        match opcode.ok_or(Error(0, 2, 6, true, false))? {
            opcode @ (Opcode::Write | Opcode::ReadResponse) => self.tagged(index, opcode, view),
            Opcode::ReadRequest => self.request(index, view),
            Opcode::Terminate => {
                let good = view.msn() == Some(1) && view.mo() == Some(0) && view.is_last() && ulpdu.len() >= 22;
                let code = if good { (ulpdu[18] >> 4, ulpdu[18] & 15, ulpdu[19]) } else { (0, 0, 0) };
                self.tell(Out::Stop(index));
                self.tell(Out::Event { kind: u8::from(!good), index, code });
                self.conns.get_mut(&index).expect("bound").deaf = true;
                Ok(())
            }
            opcode => self.send(index, opcode, view),
        }
    }
    fn tagged(&mut self, index: usize, opcode: Opcode, view: View<'_>) -> Result<(), Error> {
        let conn = self.conns.get_mut(&index).expect("bound");
        if conn.tagged.is_some_and(|before| before != opcode) {
            return Err(Error(0, 2, 6, true, false));
        }
        conn.tagged = (!view.is_last()).then_some(opcode);
        let who = (conn.qp.pd, conn.qp.qpn);
        let (payload, to) = (view.payload(), view.to().expect("tagged"));
        let mut need = REMOTE_WRITE;
        let mut done = false;
        if opcode == Opcode::ReadResponse {
            need = LOCAL_WRITE;
            let sink = *conn.reads.front().ok_or(Error(0, 2, 6, true, false))?;
            let end = conn.read_done + payload.len() as u64;
            if !payload.is_empty() && view.stag() != sink.stag {
                return Err(Error(1, 1, 0, true, false));
            }
            let misplaced = !payload.is_empty() && to != sink.to.wrapping_add(conn.read_done);
            if misplaced || end > u64::from(sink.len) || view.is_last() != (end == u64::from(sink.len)) {
                return Err(Error(1, 1, 1, true, false));
            }
            conn.read_done = end;
            done = view.is_last();
            if done {
                conn.read_done = 0;
                conn.reads.pop_front();
            }
        }
        if !payload.is_empty() {
            let addr = self.regions.check(view.stag(), who, need, to, payload.len() as u64).map_err(|fault| {
                let code = match fault {
                    Fault::Invalid | Fault::Right => 0,
                    Fault::Bounds => 1,
                    Fault::Association => 2,
                    Fault::Wrap => 3,
                };
                Error(1, 1, code, true, false)
            })?;
            self.write(addr, payload);
        }
        if done {
            self.tell(Out::ReadDone(index));
        }
        Ok(())
    }
    fn request(&mut self, index: usize, view: View<'_>) -> Result<(), Error> {
        let conn = self.conns.get_mut(&index).expect("bound");
        let who = (conn.qp.pd, conn.qp.qpn);
        if view.octets().len() < 46 {
            return Err(Error(2, 0, 3, false, false));
        }
        if view.msn() != Some(conn.msn[1]) {
            return Err(Error(1, 2, 3, true, false));
        }
        if conn.in_use >= conn.qp.ird {
            return Err(Error(1, 2, 2, true, false));
        }
        if view.mo() != Some(0) {
            return Err(Error(1, 2, 4, true, false));
        }
        let request = ReadRequest::parse(view.payload()).ok().filter(|_| view.is_last()).ok_or(Error(1, 2, 5, true, false))?;
        let (stag, to, len) = (request.source_stag, request.source_to, request.size);
        if len > 0 {
            self.regions.check(stag, who, REMOTE_READ, to, u64::from(len)).map_err(|fault| {
                let code = match fault {
                    Fault::Invalid => 0,
                    Fault::Bounds => 1,
                    Fault::Right => 2,
                    Fault::Association => 3,
                    Fault::Wrap => 4,
                };
                Error(0, 1, code, true, true)
            })?;
        }
        conn.msn[1] = conn.msn[1].wrapping_add(1);
        conn.in_use += 1;
        self.tell(Out::ReadRequest { index, stag, to, len, sink_stag: request.sink_stag, sink_to: request.sink_to });
        Ok(())
    }
    fn send(&mut self, index: usize, opcode: Opcode, view: View<'_>) -> Result<(), Error> {
        let conn = self.conns.get_mut(&index).expect("bound");
        let Qp { qpn, cqn, pd, .. } = conn.qp;
        let wqe = conn.consumer as u16;
        if view.msn() != Some(conn.msn[0]) {
            return Err(Error(1, 2, 3, true, false));
        }
        let sges = *conn.posted.get(conn.consumer).ok_or(Error(1, 2, 2, true, false))?;
        if u64::from(view.mo().expect("untagged")) != conn.mo {
            return Err(Error(1, 2, 4, true, false));
        }
        if conn.send.is_some_and(|(before, stag)| before != opcode || opcode.invalidates() && stag != view.stag()) {
            return Err(Error(0, 2, 6, true, false));
        }
        let payload = view.payload();
        let fail = |status| Out::Completion { cqn, qpn, wqe, status, len: 0, invalidated: None, solicited: true };
        if conn.mo + payload.len() as u64 > sges.iter().map(|s| u64::from(s.len)).sum() {
            self.tell(fail(1));
            return Err(Error(1, 2, 5, true, false));
        }
        let (mut skip, mut rest) = (conn.mo, payload);
        conn.send = Some((opcode, view.stag()));
        conn.mo += payload.len() as u64;
        let len = conn.mo as u32;
        for sge in sges {
            let now = rest.len().min(u64::from(sge.len).saturating_sub(skip) as usize);
            if now > 0 {
                let Ok(addr) = self.regions.check(sge.stag, (pd, qpn), LOCAL_WRITE, sge.to.wrapping_add(skip), now as u64) else {
                    self.tell(fail(4));
                    return Err(Error(0, 2, 7, false, false));
                };
                self.write(addr, &rest[..now]);
                rest = &rest[now..];
            }
            skip = skip.saturating_sub(u64::from(sge.len));
        }
        if !view.is_last() {
            return Ok(());
        }
        if opcode.invalidates() {
            self.regions.invalidate(view.stag(), (pd, qpn)).map_err(|fault| match fault {
                Fault::Association => Error(0, 1, 9, true, false),
                _ => Error(0, 2, 9, true, false),
            })?;
        }
        let conn = self.conns.get_mut(&index).expect("bound");
        conn.send = None;
        conn.mo = 0;
        conn.consumer += 1;
        conn.msn[0] = conn.msn[0].wrapping_add(1);
        let invalidated = opcode.invalidates().then_some(view.stag());
        self.tell(Out::Completion { cqn, qpn, wqe, status: 0, len, invalidated, solicited: opcode.solicits() });
        Ok(())
    }
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    world: World,
    /// What the regions are for the block, at this clock.
    regions: Regions,
    actions: VecDeque<Action>,
    slots: Vec<u64>,
    free: Vec<usize>,
    to_free: VecDeque<usize>,
    reads: ReadHost,
    writes: WriteHost,
    memory: Memory,
    scratch: Memory,
    /// Chance that a taker is busy, and that the bench does nothing.
    busy: f64,
    pause: f64,
    /// Chance that a taker takes nothing for a while.
    sleepy: f64,
    asleep: [u64; 6],
    /// What was offered and not taken in the last clock.
    kept: [Option<[u64; 7]>; 9],
    /// Clocks that `regions` takes.
    latency: Range<u64>,
    asked: Option<(u64, u64, u64)>,
    seen: usize,
    allowed: usize,
    ended: usize,
    words: Vec<u64>,
    /// Read Requests that `rdma::sq` holds, by index.
    owed: BTreeMap<usize, usize>,
    /// Receives that were completed, and what the block has to do with, by index.
    received: BTreeMap<usize, usize>,
    busy_with: BTreeMap<usize, Qp>,
    fetches: VecDeque<usize>,
    clocks: u64,
    counts: [u64; 7],
}

fn tagged(last: bool, opcode: Opcode, stag: u32, to: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 14];
    Header::Tagged { last, rdmap: opcode.control(), stag, to }.emit(&mut out).expect("room");
    out.extend(payload);
    out
}

fn untagged(last: bool, opcode: Opcode, stag: u32, qn: u32, msn: u32, mo: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 18];
    Header::Untagged { last, rdmap: opcode.control(), stag, qn, msn, mo }.emit(&mut out).expect("room");
    out.extend(payload);
    out
}

fn read_request(msn: u32, request: ReadRequest) -> Vec<u8> {
    let mut octets = [0; 28];
    request.emit(&mut octets).expect("room");
    untagged(true, Opcode::ReadRequest, 0, 1, msn, 0, &octets)
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            world: World::default(),
            regions: Regions::default(),
            actions: VecDeque::new(),
            slots: vec![0; SLOTS * SLOT_OCTETS / 8],
            free: (0..SLOTS).collect(),
            to_free: VecDeque::new(),
            reads: ReadHost::new(1..10, 0.0),
            writes: WriteHost::new(1..10, 0.0),
            memory: Memory::default(),
            scratch: Memory::default(),
            busy: 0.0,
            pause: 0.0,
            sleepy: 0.0,
            asleep: [0; 6],
            kept: [None; 9],
            latency: 4..5,
            asked: None,
            seen: 0,
            allowed: 0,
            ended: 0,
            words: vec![],
            owed: BTreeMap::new(),
            received: BTreeMap::new(),
            busy_with: BTreeMap::new(),
            fetches: VecDeque::new(),
            clocks: 0,
            counts: [0; 7],
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        let m = &mut self.m;
        m.reset.set(true);
        m.fpdu_valid.set(false);
        m.bind_valid.set(false);
        m.posted_valid.set(false);
        m.issued_valid.set(false);
        m.responded_valid.set(false);
        m.answer_valid.set(false);
        m.rd_beat_valid.set(false);
        m.wr_done_valid.set(false);
        m.tick();
        m.reset.set(false);
        self.world = World { regions: std::mem::take(&mut self.regions), ..World::default() };
        self.regions = self.world.regions.clone();
        self.actions.clear();
        self.kept = [None; 9];
        self.free = (0..SLOTS).collect();
        self.to_free.clear();
        self.reads = ReadHost::new(self.reads.latency.clone(), self.reads.busy);
        self.writes = WriteHost::new(self.writes.latency.clone(), self.writes.busy);
        self.asked = None;
        self.seen = 0;
        self.allowed = 0;
        self.ended = 0;
        self.words.clear();
        self.owed.clear();
        self.received.clear();
        self.busy_with.clear();
        self.fetches.clear();
        let mut wait = 0;
        while !self.m.ready.get() {
            self.m.tick();
            wait += 1;
            assert!(wait <= 4 * 32 + 1, "ready");
        }
    }
    /// A queue pair for `index`; all bits of its numbers differ between indices.
    fn qp(index: usize) -> Qp {
        let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Qp {
            qpn: (mixed >> 13) as u16 & !0x1f | index as u16,
            pd: (mixed >> 29) as u16,
            cqn: (mixed >> 45) as u16,
            rq_base: mixed.rotate_left(23) & !0x3f,
            rq_log2: 2 + index as u8 % 3,
            ird: [1, 2, 8, 16, 33, 64, 130, 255][index % 8],
            terminate: 0,
        }
    }
    fn region(&mut self, stag: u32, region: Region) {
        self.regions.0.insert(stag, region);
        self.world.regions.0.insert(stag, region);
    }
    fn act(&mut self, action: Action) {
        match &action {
            Action::Bind(index, qp) => self.world.bind(*index, *qp),
            Action::Unbind(index) => self.world.unbind(*index),
            Action::Issued(index, sge) => self.world.conns.get_mut(index).expect("bound").reads.push_back(*sge),
            Action::Responded(index) => self.world.conns.get_mut(index).expect("bound").in_use -= 1,
            Action::Fpdu(index, note, octets) => self.world.fpdu(*index, *note, octets),
            Action::Revoke(stag) => self.world.regions.0.get_mut(stag).expect("is one").valid = false,
            Action::Posted(..) => {}
        }
        self.actions.push_back(action);
    }
    fn bind(&mut self, index: usize) {
        self.act(Action::Bind(index, Self::qp(index)));
    }
    /// A receive queue entry, in host memory and in the world, and its doorbell.
    fn post(&mut self, index: usize, sges: &[Sge]) {
        let conn = self.world.conns.get_mut(&index).expect("bound");
        let mut entry = [Sge::default(); 4];
        entry[..sges.len()].copy_from_slice(sges);
        let at = conn.qp.rq_base + 64 * (conn.posted.len() as u64 % (1 << conn.qp.rq_log2));
        conn.posted.push(entry);
        let posted = conn.posted.len() as u16;
        for (n, sge) in entry.iter().enumerate() {
            let dwords = [sge.len, sge.stag, sge.to as u32, (sge.to >> 32) as u32];
            self.memory.put(at + 16 * n as u64, &dwords);
        }
        self.act(Action::Posted(index, posted));
    }
    fn fpdu(&mut self, index: usize, octets: Vec<u8>) {
        self.act(Action::Fpdu(index, Note::Whole, octets));
    }
    fn settled(&self) -> bool {
        self.to_free.is_empty() && self.writes.outstanding() == 0 && self.reads.outstanding() == 0
    }
    fn clock(&mut self) {
        let now = self.clocks;
        let (rd_ready, rd_beat) = self.reads.offer(&self.memory, &mut self.rng);
        let (wr_ready, beat_ready, end) = self.writes.offer(&mut self.scratch, &mut self.rng);
        let settled = self.settled() && self.m.quiet.get();
        for asleep in &mut self.asleep {
            if self.sleepy > 0.0 && self.rng.random_bool(self.sleepy) {
                *asleep = now + self.rng.random_range(20..500);
            }
        }
        let ready: [bool; 6] = std::array::from_fn(|k| !self.rng.random_bool(self.busy) && self.asleep[k] <= now);
        let m = &mut self.m;

        // what is done next
        let offered = m.fpdu_valid.get() || m.bind_valid.get() || m.posted_valid.get() || m.issued_valid.get() || m.responded_valid.get();
        if !offered && !self.rng.random_bool(self.pause) {
            match self.actions.front() {
                Some(Action::Bind(index, qp)) => {
                    m.bind_valid.set(true);
                    m.bind_data_op.set(0);
                    m.bind_data_index.set(*index as u64);
                    m.bind_data_qp_qpn.set(u64::from(qp.qpn));
                    m.bind_data_qp_pd.set(u64::from(qp.pd));
                    m.bind_data_qp_recv_cqn.set(u64::from(qp.cqn));
                    m.bind_data_qp_rq_base.set(qp.rq_base);
                    m.bind_data_qp_rq_log2.set(u64::from(qp.rq_log2));
                    m.bind_data_ird.set(u64::from(qp.ird));
                    m.bind_data_terminate.set(u64::from(qp.terminate));
                }
                Some(Action::Unbind(index)) => {
                    m.bind_valid.set(true);
                    m.bind_data_op.set(1);
                    m.bind_data_index.set(*index as u64);
                }
                Some(Action::Posted(index, posted)) => {
                    m.posted_valid.set(true);
                    m.posted_data_index.set(*index as u64);
                    m.posted_data_posted.set(u64::from(*posted));
                }
                Some(Action::Issued(index, sge)) => {
                    m.issued_valid.set(true);
                    m.issued_data_index.set(*index as u64);
                    m.issued_data_stag.set(u64::from(sge.stag));
                    m.issued_data_to.set(sge.to);
                    m.issued_data_len.set(u64::from(sge.len));
                }
                Some(Action::Responded(index)) => {
                    m.responded_valid.set(true);
                    m.responded_data.set(*index as u16);
                }
                Some(Action::Fpdu(index, note, octets)) => {
                    if let Some(slot) = (*note != Note::Whole).then_some(0).or_else(|| self.free.pop()) {
                        if *note == Note::Whole {
                            let mut all = (octets.len() as u16).to_be_bytes().to_vec();
                            all.extend(octets);
                            for (n, lane) in all.chunks(8).enumerate() {
                                let mut word = self.rng.random::<u64>().to_le_bytes();
                                word[..lane.len()].copy_from_slice(lane);
                                self.slots[slot * SLOT_OCTETS / 8 + n] = u64::from_le_bytes(word);
                            }
                            self.to_free.push_back(slot);
                        }
                        m.fpdu_valid.set(true);
                        m.fpdu_data_note.set(*note as u64);
                        m.fpdu_data_index.set(*index as u64);
                        m.fpdu_data_slot.set(slot as u64);
                        m.fpdu_data_len.set(octets.len() as u64);
                    }
                }
                Some(Action::Revoke(stag)) if settled => {
                    self.regions.0.get_mut(stag).expect("is one").valid = false;
                    self.actions.pop_front();
                }
                Some(Action::Revoke(_)) | None => {}
            }
        }
        m.rd_req_ready.set(rd_ready);
        m.rd_beat_valid.set(rd_beat.is_some());
        if let Some(beat) = rd_beat {
            m.rd_beat_data_data.set(beat.data);
            m.rd_beat_data_last.set(u64::from(beat.last));
            m.rd_beat_data_error.set(u64::from(beat.error));
        }
        m.wr_req_ready.set(wr_ready);
        m.wr_beat_ready.set(beat_ready);
        m.wr_done_valid.set(end.is_some());
        m.wr_done_error.set(end == Some(true));
        m.free_ready.set(ready[0]);
        m.completion_ready.set(ready[1]);
        m.to_sq_ready.set(ready[2]);
        m.event_ready.set(ready[3]);
        m.unbound_ready.set(ready[4]);
        m.ask_ready.set(ready[5] && self.asked.is_none());
        m.answer_valid.set(self.asked.is_some_and(|(due, ..)| due <= now));
        if let Some((_, status, addr)) = self.asked {
            m.answer_data_status.set(status & 15);
            m.answer_data_addr.set(addr);
        }
        m.eval();

        let takers = [ready[0], ready[1], ready[2], ready[3], ready[4], m.ask_ready.get(), rd_ready, wr_ready, beat_ready];
        for (k, (offer, taken)) in Self::offers(m).into_iter().zip(takers).enumerate() {
            assert!(self.kept[k].is_none() || self.kept[k] == offer, "what is offered stays: {k}");
            self.kept[k] = offer.filter(|_| !taken);
        }

        // regions
        assert!(!m.answer_valid.get() || m.answer_ready.get(), "an answer is taken at once: the end of a region waits for that");
        assert!(self.allowed <= self.ended || !m.quiet.get(), "an access is under way");
        self.ended += usize::from(end.is_some());
        if m.answer_valid.get() && m.answer_ready.get() {
            let (_, status, _) = self.asked.take().expect("offered");
            self.allowed += usize::from(status == 0);
        } else if m.ask_valid.get() && m.ask_ready.get() {
            let who = (m.ask_data_pd.get() as u16, m.ask_data_qpn.get() as u16);
            let (stag, need) = (m.ask_data_stag.get() as u32, m.ask_data_need.get() as u8);
            let check = m.ask_data_op.get() == 0;
            let result = if check {
                assert!(m.ask_data_len.get() > 0);
                self.regions.check(stag, who, need, m.ask_data_to.get(), m.ask_data_len.get())
            } else {
                self.regions.invalidate(stag, who)
            };
            // 16: allowed, and nothing is placed for it
            let (status, addr) = match result {
                Ok(addr) => (if check && need != REMOTE_READ { 0 } else { 16 }, addr),
                Err(fault) => (fault as u64, self.rng.random()),
            };
            self.asked = Some((now + self.rng.random_range(self.latency.clone()), status, addr));
        }

        // memory
        let request = (m.rd_req_valid.get() && rd_ready).then(|| (m.rd_req_data_addr.get(), m.rd_req_data_len.get() as u16));
        if let Some((addr, len)) = request {
            let is_of = |qp: &Qp| {
                let left = (64u64 << qp.rq_log2).checked_sub(addr.wrapping_sub(qp.rq_base));
                left.is_some_and(|left| left >= u64::from(len))
            };
            let index = self.busy_with.iter().find(|(_, qp)| is_of(qp)).map(|(index, _)| *index);
            assert!(len > 0 && len % 64 == 0 && addr % 64 == 0, "whole entries");
            self.fetches.push_back(index.expect("entries of the ring of an index that is bound"));
        }
        if rd_beat.is_some_and(|beat| beat.last) {
            self.fetches.pop_front();
        }
        assert!(m.rd_beat_ready.get(), "the host never waits");
        self.reads.step(request, rd_beat.is_some(), &mut self.rng);
        let request = (m.wr_req_valid.get() && wr_ready).then(|| (m.wr_req_data_addr.get(), m.wr_req_data_len.get() as u16));
        let beat = (m.wr_beat_valid.get() && beat_ready).then(|| (m.wr_beat_data_data.get(), m.wr_beat_data_last.bit()));
        self.writes.step(request, beat, &mut self.rng);
        for write in &self.writes.ended[self.seen..] {
            let (addr, octets) = self.world.writes.pop_front().expect("a write that nobody asked for");
            assert_eq!((write.addr, usize::from(write.len)), (addr, octets.len()));
            let got: Vec<u8> = write.beats.iter().flat_map(|b| b.to_le_bytes()).take(octets.len()).collect();
            assert_eq!(got, octets);
        }
        self.seen = self.writes.ended.len();

        // what is delivered
        let mut outs = vec![];
        if m.completion_valid.get() && m.completion_ready.get() {
            assert_eq!(m.completion_data_opcode.get(), 128);
            let of = self.busy_with.iter().find(|(_, qp)| u64::from(qp.qpn) == m.completion_data_qpn.get());
            *self.received.entry(*of.expect("a queue pair that is bound").0).or_default() += 1;
            outs.push(Out::Completion {
                cqn: m.completion_data_cqn.get() as u16,
                qpn: m.completion_data_qpn.get() as u16,
                wqe: m.completion_data_wqe.get() as u16,
                status: m.completion_data_status.get() as u8,
                len: m.completion_data_len.get() as u32,
                invalidated: m.completion_data_invalidated.bit().then(|| m.completion_data_stag.get() as u32),
                solicited: m.completion_data_solicited.bit(),
            });
        }
        if m.to_sq_valid.get() && m.to_sq_ready.get() {
            let index = m.to_sq_data_index.get() as usize;
            let (stag, to, len) = (m.to_sq_data_stag.get() as u32, m.to_sq_data_to.get(), m.to_sq_data_len.get() as u32);
            match m.to_sq_data_note.get() {
                0 => {
                    *self.owed.entry(index).or_default() += 1;
                    let (sink_stag, sink_to) = (m.to_sq_data_sink_stag.get() as u32, m.to_sq_data_sink_to.get());
                    outs.push(Out::ReadRequest { index, stag, to, len, sink_stag, sink_to });
                }
                1 => outs.push(Out::ReadDone(index)),
                2 => outs.push(Out::Heard(index)),
                3 => {
                    assert_eq!(len as usize, self.words.len());
                    self.words.push(to);
                }
                4 => {
                    let octets: Vec<u8> = self.words.drain(..).flat_map(u64::to_le_bytes).collect();
                    assert_eq!(octets.len().div_ceil(8), (len as usize).div_ceil(8), "as many words as it takes");
                    outs.push(Out::Terminate(index, octets[..len as usize].to_vec()));
                }
                _ => outs.push(Out::Stop(index)),
            }
        }
        if m.event_valid.get() && m.event_ready.get() {
            let kind = m.event_data_kind.get() as u8;
            let code = (m.event_data_layer.get() as u8, m.event_data_etype.get() as u8, m.event_data_code.get() as u8);
            let code = if kind == 1 { (0, 0, 0) } else { code };
            outs.push(Out::Event { kind, index: m.event_data_index.get() as usize, code });
        }
        if m.unbound_valid.get() && m.unbound_ready.get() {
            let index = usize::from(m.unbound_data.get());
            self.owed.remove(&index);
            self.received.remove(&index);
            self.busy_with.remove(&index);
            assert!(!self.fetches.contains(&index), "still reads for it");
            outs.push(Out::Unbound(index));
        }
        assert!(outs.len() <= 1);
        for out in outs {
            let (after, expected) = self.world.out.pop_front().unwrap_or_else(|| panic!("{out:?} came of nothing"));
            assert_eq!(out, expected);
            assert!(self.seen >= after, "{out:?} before its octets: {} of {after}", self.seen);
        }

        for (count, pulse) in self.counts.iter_mut().zip([
            m.cnt_rdma_in_writes.get(),
            m.cnt_rdma_in_sends.get(),
            m.cnt_rdma_in_reads.get(),
            m.cnt_rdma_in_responses.get(),
            m.cnt_rdma_terminates_in.get(),
            m.cnt_rdma_terminates_out.get(),
            m.cnt_rdma_write_without_right.get(),
        ]) {
            *count += u64::from(pulse);
        }
        let at = m.slot_address.get() as usize;
        let freed = (m.free_valid.get() && m.free_ready.get()).then(|| m.free_data.get() as usize);
        let taken = [
            m.fpdu_valid.get() && m.fpdu_ready.get(),
            m.bind_valid.get() && m.bind_ready.get(),
            m.posted_valid.get() && m.posted_ready.get(),
            m.issued_valid.get() && m.issued_ready.get(),
            m.responded_valid.get() && m.responded_ready.get(),
        ];
        m.tick();
        m.slot_data.set(self.slots[at]);
        if taken.contains(&true) {
            if let Some(Action::Bind(index, qp)) = self.actions.pop_front() {
                self.busy_with.insert(index, qp);
            }
            m.fpdu_valid.set(false);
            m.bind_valid.set(false);
            m.posted_valid.set(false);
            m.issued_valid.set(false);
            m.responded_valid.set(false);
        }
        if let Some(slot) = freed {
            assert_eq!(Some(slot), self.to_free.pop_front(), "slots come back in order");
            for word in &mut self.slots[slot * SLOT_OCTETS / 8..][..SLOT_OCTETS / 8] {
                *word = self.rng.random();
            }
            self.free.insert(0, slot);
        }
        self.clocks += 1;
    }
    /// What is offered to each taker.
    fn offers(m: &Model) -> [Option<[u64; 7]>; 9] {
        [
            m.free_valid.get().then(|| [u64::from(m.free_data.get()), 0, 0, 0, 0, 0, 0]),
            m.completion_valid.get().then(|| {
                let names = m.completion_data_cqn.get() | m.completion_data_qpn.get() << 16 | m.completion_data_wqe.get() << 32;
                let flags = m.completion_data_invalidated.get() | m.completion_data_solicited.get() << 1;
                [names, flags, m.completion_data_status.get(), m.completion_data_len.get(), m.completion_data_stag.get(), 0, 0]
            }),
            m.to_sq_valid.get().then(|| {
                let (index, note, len) = (m.to_sq_data_index.get(), m.to_sq_data_note.get(), m.to_sq_data_len.get());
                let (sink_stag, sink_to) = (m.to_sq_data_sink_stag.get(), m.to_sq_data_sink_to.get());
                [index, note, m.to_sq_data_stag.get(), m.to_sq_data_to.get(), len, sink_stag, sink_to]
            }),
            m.event_valid.get().then(|| {
                let (layer, etype, code) = (m.event_data_layer.get(), m.event_data_etype.get(), m.event_data_code.get());
                [m.event_data_kind.get(), m.event_data_index.get(), layer, etype, code, 0, 0]
            }),
            m.unbound_valid.get().then(|| [u64::from(m.unbound_data.get()), 0, 0, 0, 0, 0, 0]),
            m.ask_valid.get().then(|| {
                let (op, need) = (m.ask_data_op.get(), m.ask_data_need.get());
                let (stag, to, len) = (m.ask_data_stag.get(), m.ask_data_to.get(), m.ask_data_len.get());
                [op, need, stag, to, len, m.ask_data_pd.get(), m.ask_data_qpn.get()]
            }),
            m.rd_req_valid.get().then(|| [m.rd_req_data_addr.get(), m.rd_req_data_len.get(), 0, 0, 0, 0, 0]),
            m.wr_req_valid.get().then(|| [m.wr_req_data_addr.get(), m.wr_req_data_len.get(), 0, 0, 0, 0, 0]),
            m.wr_beat_valid.get().then(|| [m.wr_beat_data_data.get(), m.wr_beat_data_last.get(), 0, 0, 0, 0, 0]),
        ]
    }
    fn idle(&self) -> bool {
        self.actions.is_empty() && self.settled() && self.world.out.is_empty() && self.world.writes.is_empty()
    }
    fn run(&mut self) {
        let end = self.clocks + 500_000;
        while !self.idle() {
            assert!(self.clocks < end, "hangs: {:?}, {:?}, {:?}", self.actions.front(), self.world.out.front(), self.world.writes.len());
            self.clock();
        }
        for _ in 0..80 {
            self.clock();
        }
        self.m.eval();
        assert!(self.m.quiet.get(), "nothing is under way");
    }
    fn octets(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.random()).collect()
    }
}

/// A connection with a region of each kind: STag `kind | index`.
const WRITE: u32 = 0x9a35_c100;
const READ: u32 = 0x65ca_3200;
const LOCAL: u32 = 0xc3f0_a300;
const LOCAL_2: u32 = 0x3c0f_5400;
const WINDOW: u32 = 0xa5a5_9500;
const ALIEN: u32 = 0x5a5a_6600;
const SMALL: u64 = 0x4000;

fn connect(b: &mut Bench, index: usize) {
    let Qp { pd, qpn, .. } = Bench::qp(index);
    let at = |kind: u32| kind | index as u32;
    for (kind, rights, qpn) in [
        (WRITE, REMOTE_WRITE, None),
        (READ, REMOTE_READ, None),
        (LOCAL, LOCAL_WRITE, None),
        (LOCAL_2, LOCAL_WRITE, Some(qpn)),
        (WINDOW, REMOTE_WRITE | REMOTE_INVALIDATE, Some(qpn)),
    ] {
        let base = base(at(kind));
        b.region(at(kind), Region { base, len: SMALL, addr: base ^ 0x5555_0000_1001, rights, pd, qpn, valid: true });
    }
    let other = Some(qpn ^ 1 << (index % 16));
    b.region(at(ALIEN), Region { base: base(at(ALIEN)), len: SMALL, addr: 0, rights: 15, pd, qpn: other, valid: true });
    b.bind(index);
}

/// Where the region of `stag` begins: not far below a multiple of 2^32.
fn base(stag: u32) -> u64 {
    (u64::from(stag).wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x7fff_ffff_0000_0000) + 0xffff_f123 + u64::from(stag & 0x1f)
}

fn sge(stag: u32, at: u64, len: u32) -> Sge {
    Sge { len, stag, to: base(stag) + at }
}

/// Its sink is one that nobody has, in other bits each time.
fn request(stag: u32, to: u64, size: u32) -> ReadRequest {
    let mixed = (to ^ u64::from(size)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(stag) << 21;
    ReadRequest { sink_stag: !(mixed >> 17) as u32, sink_to: mixed, size, source_stag: stag, source_to: to }
}

/// One of each kind, in one segment and in several, with the edges of each.
///
/// Covers: DDP-5, DDP-6, DDP-7, DDP-9, DDP-19, DDP-20, RDM-4, RDM-12, RDM-13, RDM-14, RDM-15, RDM-17, RDM-21, RDM-23
#[test]
fn each_message_does_what_it_is_for() {
    let mut b = Bench::new(1);
    let i = 3;
    connect(&mut b, i);
    let (w, r, l, l2) = (WRITE | 3, READ | 3, LOCAL | 3, LOCAL_2 | 3);
    // Writes; one without octets looks at no STag; reserved bits mean nothing
    for (at, len) in [(0, 1), (7, 8), (1, 9), (100, 1446), (SMALL - 5, 5)] {
        let payload = b.octets(len);
        let mut octets = tagged(true, Opcode::Write, w, base(w) + at, &payload);
        octets[0] |= 0x3c;
        octets[1] |= 0x30;
        b.fpdu(i, octets);
    }
    b.fpdu(i, tagged(true, Opcode::Write, 0xffff_ffff, u64::MAX, &[]));
    b.run();
    // Sends over four SGEs, some of them empty
    b.post(i, &[sge(l, 0, 10), sge(l2, 5, 0), sge(l2, 50, 7), sge(l, 100, 3000)]);
    b.post(i, &[]);
    let data = b.octets(3017);
    for (from, to) in [(0, 4), (4, 18), (18, 18), (18, 1500), (1500, 3017)] {
        b.fpdu(i, untagged(to == 3017, Opcode::Send, 77, 0, 1, from as u32, &data[from..to]));
        // a tagged message goes between its segments
        b.fpdu(i, tagged(to == 3017, Opcode::Write, w, base(w) + from as u64, &data[from..to]));
    }
    b.fpdu(i, untagged(true, Opcode::SendSolicited, 0, 0, 2, 0, &[]));
    b.run();
    // a Read Request, and one of nothing of nowhere
    b.fpdu(i, read_request(1, request(r, base(r), SMALL as u32)));
    b.fpdu(i, read_request(2, request(0, u64::MAX, 0)));
    b.run();
    // the responses to ours
    for len in [5, 0, 2000] {
        let to = 3;
        b.act(Action::Issued(i, sge(l, to, len)));
        let data = b.octets(len as usize);
        let mut from = 0;
        loop {
            let n = data.len().min(from + 900);
            let (stag, to) = if len == 0 { (0, 0) } else { (l, base(l) + to + from as u64) };
            b.fpdu(i, tagged(n == data.len(), Opcode::ReadResponse, stag, to, &data[from..n]));
            from = n;
            if n == data.len() {
                break;
            }
        }
    }
    b.run();
    // a Send that takes a window away
    b.post(i, &[sge(l, 0, 4)]);
    b.fpdu(i, untagged(true, Opcode::SendSolicitedInvalidate, WINDOW | 3, 0, 3, 0, &[1, 2, 3, 4]));
    b.run();
    assert!(!b.regions.0[&(WINDOW | 3)].valid);
    assert_eq!(b.counts[..6], [7, 3, 2, 3, 0, 0]);
    // the peer's Terminate
    b.fpdu(i, untagged(true, Opcode::Terminate, 0, 2, 1, 0, &[0x12, 0x34, 0, 0]));
    b.fpdu(i, tagged(true, Opcode::Write, w, base(w), &[1]));
    b.act(Action::Unbind(i));
    b.run();
}

/// The first octets of the Terminate, and how long it is.
fn terminate_of(b: &Bench, index: usize) -> Option<([u8; 3], usize)> {
    b.world.out.iter().find_map(|(_, out)| match out {
        Out::Terminate(i, octets) if *i == index => Some(([octets[0], octets[1], octets[2]], octets.len())),
        _ => None,
    })
}

/// What is wrong, what comes, and the Terminate.
type Row<'a> = (&'a str, Box<dyn Fn(&mut Bench, usize)>, [u8; 3], usize);

fn row<'a>(name: &'a str, code: [u8; 3], len: usize, what: impl Fn(&mut Bench, usize) + 'static) -> Row<'a> {
    (name, Box::new(what), code, len)
}

/// Rows of a segment that is alone.
fn wrong_segment(name: &str, code: [u8; 3], len: usize, what: impl Fn(u32) -> Vec<u8> + 'static) -> Row<'_> {
    row(name, code, len, move |b, i| b.fpdu(i, what(i as u32)))
}

fn table() -> Vec<Row<'static>> {
    let mut rows: Vec<Row<'static>> = vec![
        row("CRC", [0x20, 2, 0], 4, |b, i| b.act(Action::Fpdu(i, Note::BadCrc, vec![]))),
        row("length", [0x20, 3, 0], 4, |b, i| b.act(Action::Fpdu(i, Note::BadLength, vec![]))),
        wrong_segment("Read Request of 45 octets", [0x20, 3, 0], 4, |i| {
            read_request(1, request(READ | i, base(READ | i), 8))[..45].to_vec()
        }),
        wrong_segment("QN 3", [0x12, 1, 0xc0], 24, |_| untagged(true, Opcode::Send, 0, 3, 1, 0, &[1])),
        wrong_segment("QN 2^31", [0x12, 1, 0xc0], 24, |_| untagged(true, Opcode::Terminate, 0, 1 << 31, 1, 0, &[1, 2, 3, 4])),
        wrong_segment("Write, key", [0x11, 0, 0xc0], 20, |i| tagged(true, Opcode::Write, (WRITE | i) ^ 0x8000_0000, base(WRITE | i), &[1])),
        row("Write, state", [0x11, 0, 0xc0], 20, |b, i| {
            b.act(Action::Revoke(WRITE | i as u32));
            b.fpdu(i, tagged(true, Opcode::Write, WRITE | i as u32, base(WRITE | i as u32), &[1]));
        }),
        wrong_segment("Write, stream", [0x11, 2, 0xc0], 20, |i| tagged(true, Opcode::Write, ALIEN | i, base(ALIEN | i), &[1])),
        row("Write, PD", [0x11, 2, 0xc0], 20, |b, i| {
            let other = *b.regions.0.get(&(WRITE | i as u32)).expect("its own");
            b.region(0x77, Region { pd: other.pd ^ 1 << (i % 16), ..other });
            b.fpdu(i, tagged(true, Opcode::Write, 0x77, other.base, &[1]));
        }),
        wrong_segment("Write, right", [0x11, 0, 0xc0], 20, |i| tagged(true, Opcode::Write, READ | i, base(READ | i), &[1])),
        wrong_segment("Write, base - 1", [0x11, 1, 0xc0], 20, |i| tagged(true, Opcode::Write, WRITE | i, base(WRITE | i) - 1, &[1])),
        wrong_segment("Write, end", [0x11, 1, 0xc0], 20, |i| tagged(false, Opcode::Write, WRITE | i, base(WRITE | i) + SMALL, &[1])),
        wrong_segment("Write, end + 1", [0x11, 1, 0xc0], 20, |i| {
            tagged(false, Opcode::Write, WRITE | i, base(WRITE | i) + SMALL - 8, &[1; 9])
        }),
        wrong_segment("Write, wrap", [0x11, 3, 0xc0], 20, |i| tagged(true, Opcode::Write, WRITE | i, u64::MAX, &[1; 2])),
        wrong_segment("no receive", [0x12, 2, 0xc0], 24, |_| untagged(true, Opcode::Send, 0, 0, 1, 0, &[1])),
        wrong_segment("no receive for nothing", [0x12, 2, 0xc0], 24, |_| untagged(true, Opcode::SendSolicited, 0, 0, 1, 0, &[])),
        row("second receive missing", [0x12, 2, 0xc0], 24, |b, i| {
            b.post(i, &[]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 0, &[]));
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 2, 0, &[]));
        }),
        row("IRD", [0x12, 2, 0xc0], 24, |b, i| {
            for msn in 1..=u32::from(Bench::qp(i).ird) + 1 {
                b.fpdu(i, read_request(msn, request(0, 0, 0)));
            }
        }),
        row("MO of a first segment", [0x12, 4, 0xc0], 24, |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 50)]);
            b.fpdu(i, untagged(false, Opcode::Send, 0, 0, 1, 8, &[1; 8]));
        }),
        wrong_segment("MO of a Read Request", [0x12, 4, 0xc0], 24, |_| {
            let mut octets = read_request(1, request(0, 0, 0));
            octets[17] = 1;
            octets
        }),
        wrong_segment("Read Request of 47 octets", [0x12, 5, 0xc0], 24, |_| {
            let mut octets = read_request(1, request(0, 0, 0));
            octets.push(0);
            octets
        }),
        wrong_segment("Read Request without L", [0x12, 5, 0xc0], 24, |_| {
            let mut octets = read_request(1, request(0, 0, 0));
            octets[0] &= !0x40;
            octets
        }),
        row("too long by 1", [0x12, 5, 0xc0], 24, |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 5), sge(LOCAL_2 | i as u32, 0, 4)]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 0, &[1; 10]));
        }),
        row("too long in its second segment", [0x12, 5, 0xc0], 24, |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 9)]);
            b.fpdu(i, untagged(false, Opcode::Send, 0, 0, 1, 0, &[1; 9]));
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 9, &[1]));
        }),
        row("opcode of a second segment", [2, 6, 0xc0], 24, |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 9)]);
            b.fpdu(i, untagged(false, Opcode::Send, 0, 0, 1, 0, &[1; 3]));
            b.fpdu(i, untagged(true, Opcode::SendSolicited, 0, 0, 1, 3, &[1]));
        }),
        row("STag of a second segment", [2, 6, 0xc0], 24, |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 9)]);
            b.fpdu(i, untagged(false, Opcode::SendInvalidate, 8, 0, 1, 0, &[1; 3]));
            b.fpdu(i, untagged(true, Opcode::SendInvalidate, 9, 0, 1, 3, &[1]));
        }),
        row("Read Response inside a Write", [2, 6, 0xc0], 20, |b, i| {
            b.act(Action::Issued(i, sge(LOCAL | i as u32, 0, 9)));
            b.fpdu(i, tagged(false, Opcode::Write, 0, 0, &[]));
            b.fpdu(i, tagged(true, Opcode::ReadResponse, LOCAL | i as u32, base(LOCAL | i as u32), &[1; 9]));
        }),
        row("Write inside a Read Response", [2, 6, 0xc0], 20, |b, i| {
            b.act(Action::Issued(i, sge(LOCAL | i as u32, 0, 9)));
            b.fpdu(i, tagged(false, Opcode::ReadResponse, LOCAL | i as u32, base(LOCAL | i as u32), &[1; 3]));
            b.fpdu(i, tagged(true, Opcode::Write, WRITE | i as u32, base(WRITE | i as u32), &[1]));
        }),
        wrong_segment("Read, key", [1, 0, 0xe0], 52, |i| read_request(1, request((READ | i) + 0x1000_0000, base(READ | i), 8))),
        wrong_segment("Read, bounds", [1, 1, 0xe0], 52, |i| read_request(1, request(READ | i, base(READ | i) + 1, SMALL as u32))),
        wrong_segment("Read, base - 1", [1, 1, 0xe0], 52, |i| read_request(1, request(READ | i, base(READ | i) - 1, 1))),
        wrong_segment("Read, right", [1, 2, 0xe0], 52, |i| read_request(1, request(WRITE | i, base(WRITE | i), 8))),
        wrong_segment("Read, stream", [1, 3, 0xe0], 52, |i| read_request(1, request(ALIEN | i, base(ALIEN | i), 8))),
        wrong_segment("Read, wrap", [1, 4, 0xe0], 52, |i| read_request(1, request(READ | i, u64::MAX - 1, 3))),
        wrong_segment("Read Response, none", [2, 6, 0xc0], 20, |i| tagged(true, Opcode::ReadResponse, LOCAL | i, base(LOCAL | i), &[1])),
        wrong_segment("empty Read Response, none", [2, 6, 0xc0], 20, |_| tagged(true, Opcode::ReadResponse, 0, 0, &[])),
    ];
    for len in [0, 1, 2, 13] {
        rows.push(wrong_segment("tagged too short", [0x20, 3, 0], 4, move |_| tagged(true, Opcode::Write, 0, 0, &[])[..len].to_vec()));
    }
    for len in [2, 14, 17] {
        rows.push(wrong_segment("untagged too short", [0x20, 3, 0], 4, move |_| {
            untagged(true, Opcode::Send, 0, 0, 1, 0, &[])[..len].to_vec()
        }));
    }
    for version in [0, 2, 3] {
        rows.push(wrong_segment("DV, tagged", [0x11, 4, 0], 4, move |i| {
            let mut octets = tagged(true, Opcode::Write, WRITE | i, base(WRITE | i), &[1]);
            octets[0] = octets[0] & 0xfc | version;
            octets
        }));
        rows.push(wrong_segment("DV, untagged", [0x12, 6, 0], 4, move |_| {
            let mut octets = untagged(true, Opcode::Send, 0, 0, 1, 0, &[1]);
            octets[0] = octets[0] & 0xfc | version;
            octets
        }));
        for t in [false, true] {
            rows.push(wrong_segment("RV", [2, 5, 0], 4, move |i| {
                let mut octets = untagged(true, Opcode::Send, 0, 0, 1, 0, &[1]);
                if t {
                    octets = tagged(true, Opcode::Write, WRITE | i, base(WRITE | i), &[1]);
                }
                octets[1] = octets[1] & 0x3f | version << 6;
                octets
            }));
        }
    }
    for opcode in 0..16 {
        if opcode != 0 && opcode != 2 {
            rows.push(wrong_segment("opcode, tagged", [2, 6, 0xc0], 20, move |i| {
                let mut octets = tagged(true, Opcode::Write, WRITE | i, base(WRITE | i), &[1]);
                octets[1] = 0x40 | opcode;
                octets
            }));
        }
        for qn in 0..3 {
            if !matches!((opcode, qn), (3..=6, 0) | (1, 1) | (7, 2)) {
                rows.push(wrong_segment("opcode, untagged", [2, 6, 0xc0], 24, move |_| {
                    let mut octets = untagged(true, Opcode::Send, 0, qn, 1, 0, &[1; 28]);
                    octets[1] = 0x40 | opcode;
                    octets
                }));
            }
        }
    }
    for msn in [0, 2, 3, 0xffff_ffff, 0x1_0001] {
        rows.push(row("MSN of a Send", [0x12, 3, 0xc0], 24, move |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 50)]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, msn, 0, &[1; 8]));
        }));
        rows.push(wrong_segment("MSN of a Read Request", [0x12, 3, 0xc0], 24, move |_| read_request(msn, request(0, 0, 0))));
    }
    for bit in 0..32 {
        // the lowest make the STag of another connection
        if bit > 4 {
            rows.push(wrong_segment("a bit of the STag of a Write", [0x11, 0, 0xc0], 20, move |i| {
                tagged(true, Opcode::Write, (WRITE | i) ^ 1 << bit, base(WRITE | i), &[1])
            }));
            rows.push(wrong_segment("a bit of the source of a Read", [1, 0, 0xe0], 52, move |i| {
                read_request(1, request((READ | i) ^ 1 << bit, base(READ | i), 8))
            }));
            rows.push(row("a bit of the STag of a receive", [2, 7, 0], 4, move |b, i| {
                let whole = sge(LOCAL | i as u32, 0, 5);
                b.post(i, &[Sge { stag: whole.stag ^ 1 << bit, ..whole }]);
                b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 0, &[1; 5]));
            }));
        }
        rows.push(row("a bit of the STag of a second segment", [2, 6, 0xc0], 24, move |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 9)]);
            b.fpdu(i, untagged(false, Opcode::SendInvalidate, WINDOW, 0, 1, 0, &[1; 3]));
            b.fpdu(i, untagged(true, Opcode::SendInvalidate, WINDOW ^ 1 << bit, 0, 1, 3, &[1]));
        }));
        rows.push(row("a bit of the STag of a Read Response", [0x11, 0, 0xc0], 20, move |b, i| {
            let own = LOCAL | i as u32;
            b.act(Action::Issued(i, sge(own, 0, 100)));
            b.fpdu(i, tagged(true, Opcode::ReadResponse, own ^ 1 << bit, base(own), &[1; 100]));
        }));
        rows.push(row("a bit of the MSN of a Send", [0x12, 3, 0xc0], 24, move |b, i| {
            b.post(i, &[]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1 ^ 1 << bit, 0, &[]));
        }));
        rows.push(wrong_segment("a bit of the MSN of a Read Request", [0x12, 3, 0xc0], 24, move |_| {
            read_request(1 ^ 1 << bit, request(0, 0, 0))
        }));
        rows.push(row("a bit of the MO of a Send", [0x12, 4, 0xc0], 24, move |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 50)]);
            b.fpdu(i, untagged(false, Opcode::Send, 0, 0, 1, 0, &[1; 8]));
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 8 ^ 1 << bit, &[1; 8]));
        }));
        rows.push(wrong_segment("a bit of the MO of a Read Request", [0x12, 4, 0xc0], 24, move |_| {
            let mut octets = read_request(1, request(0, 0, 0));
            octets[14..18].copy_from_slice(&(1u32 << bit).to_be_bytes());
            octets
        }));
        if bit > 1 {
            rows.push(wrong_segment("a bit of the QN", [0x12, 1, 0xc0], 24, move |_| {
                untagged(true, Opcode::Send, 0, 1 << bit, 1, 0, &[1])
            }));
        }
    }
    for bit in 0..64 {
        rows.push(row("a bit of the TO of a Read Response", [0x11, 1, 0xc0], 20, move |b, i| {
            let own = LOCAL | i as u32;
            b.act(Action::Issued(i, sge(own, 0, 100)));
            b.fpdu(i, tagged(true, Opcode::ReadResponse, own, base(own) ^ 1 << bit, &[1; 100]));
        }));
    }
    for mo in [0, 7, 9, 0x1_0008] {
        rows.push(row("MO of a second segment", [0x12, 4, 0xc0], 24, move |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 50)]);
            b.fpdu(i, untagged(false, Opcode::Send, 0, 0, 1, 0, &[1; 8]));
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, mo, &[1; 8]));
        }));
    }
    for (stag, code) in [(0x999, 2), (WRITE, 2), (ALIEN, 1)] {
        for opcode in [Opcode::SendInvalidate, Opcode::SendSolicitedInvalidate] {
            rows.push(row("Send with Invalidate", [code, 9, 0xc0], 24, move |b, i| {
                b.post(i, &[sge(LOCAL | i as u32, 0, 50)]);
                b.fpdu(i, untagged(true, opcode, stag | i as u32, 0, 1, 0, &[1; 8]));
            }));
        }
    }
    rows.push(row("Send with Invalidate, twice", [2, 9, 0xc0], 24, |b, i| {
        for msn in [1, 2] {
            b.post(i, &[]);
            b.fpdu(i, untagged(true, Opcode::SendInvalidate, WINDOW | i as u32, 0, msn, 0, &[]));
        }
    }));
    // (STag, TO, octets, L): of a Read of 100 octets of which 40 are there
    for (code, stag, at, len, last) in [
        (0, LOCAL_2, 40, 60, true),
        (0, LOCAL | 0x1000, 40, 20, false),
        (1, LOCAL, 41, 59, true),
        (1, LOCAL, 0, 60, true),
        (1, LOCAL, 40, 61, true),
        (1, LOCAL, 40, 61, false),
        (1, LOCAL, 40, 59, true),
        (1, LOCAL, 40, 60, false),
        (1, LOCAL, 40, 0, true),
    ] {
        rows.push(row("Read Response", [0x11, code, 0xc0], 20, move |b, i| {
            let own = LOCAL | i as u32;
            b.act(Action::Issued(i, sge(own, 0, 100)));
            b.fpdu(i, tagged(false, Opcode::ReadResponse, own, base(own), &[1; 40]));
            b.fpdu(i, tagged(last, Opcode::ReadResponse, stag | i as u32, base(own) + at, &vec![2; len]));
        }));
    }
    for (code, stag) in [(0, READ), (2, ALIEN)] {
        rows.push(row("Read Response, sink", [0x11, code, 0xc0], 20, move |b, i| {
            let stag = stag | i as u32;
            b.act(Action::Issued(i, sge(stag, 0, 10)));
            b.fpdu(i, tagged(true, Opcode::ReadResponse, stag, base(stag), &[1; 10]));
        }));
    }
    for (stag, at) in [(0x999, 0), (READ, 0), (ALIEN, 0), (LOCAL, SMALL - 9)] {
        rows.push(row("local protection", [2, 7, 0], 4, move |b, i| {
            b.post(i, &[sge(LOCAL | i as u32, 0, 5), sge(stag | i as u32, at, 30)]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 0, &[1; 20]));
        }));
    }
    rows
}

/// Every row of the table of Terminates that is the receive side's: its octets, nothing of what comes after it, and others unharmed.
///
/// Covers: MPA-26, MPA-37, MPA-38, DDP-1, DDP-2, DDP-3, DDP-10, DDP-22, RDM-1, RDM-2, RDM-3, RDM-5, RDM-6, RDM-8, RDM-9, RDM-10, RDM-18, RDM-19, RDM-21, RDM-27, RDM-40
#[test]
fn every_error_makes_its_terminate_and_makes_the_stream_deaf() {
    let mut b = Bench::new(2);
    let other = 31;
    connect(&mut b, other);
    b.run();
    for (n, (name, what, code, len)) in table().into_iter().enumerate() {
        let i = n % 31;
        (b.busy, b.pause, b.latency) = [(0.0, 0.0, 1..2), (0.5, 0.2, 0..20)][n % 2].clone();
        connect(&mut b, i);
        what(&mut b, i);
        assert_eq!(terminate_of(&b, i), Some((code, len)), "{name}");
        let (own, others) = (WRITE | i as u32, WRITE | other as u32);
        b.fpdu(i, tagged(true, Opcode::Write, own, base(own), &[9; 20]));
        b.fpdu(other, tagged(true, Opcode::Write, others, base(others), &[8; 20]));
        b.fpdu(i, untagged(true, Opcode::Terminate, 0, 2, 1, 0, &[0; 4]));
        b.act(Action::Fpdu(i, Note::BadCrc, vec![]));
        b.run();
        b.act(Action::Unbind(i));
        b.run();
    }
    assert_eq!(b.counts[5], b.counts[5].max(100), "Terminates");
    assert_eq!(b.counts[6], 1, "a Write without the right is counted");
}

/// Covers: RDM-8, RDM-32, RDM-33
#[test]
fn a_terminate_is_told_and_not_answered_whatever_it_says() {
    let mut b = Bench::new(3);
    for n in 0..120 {
        let i = n % 32;
        connect(&mut b, i);
        let payload = b.octets(n % 60);
        let (msn, mo) = [(1, 0), (1, 0), (2, 0), (1, 4)][n % 4];
        b.fpdu(i, untagged(n % 7 != 0, Opcode::Terminate, 0, 2, msn, mo, &payload));
        b.fpdu(i, tagged(true, Opcode::Write, WRITE | i as u32, 0, &[1]));
        b.run();
        b.act(Action::Unbind(i));
        b.run();
    }
    assert_eq!((b.counts[4], b.counts[5]), (120, 0));
}

/// The peer's first FPDU: an RTR of either kind, or anything else; each lets a responder speak and completes nothing.
///
/// Covers: ENH-5, MPA-6
#[test]
fn the_first_fpdu_is_heard_once_and_an_rtr_makes_no_completion() {
    let mut b = Bench::new(4);
    for n in 0..6 {
        connect(&mut b, n);
        b.post(n, &[]);
        match n {
            0 => b.fpdu(n, tagged(true, Opcode::Write, 1, 0, &[])),
            1 => b.fpdu(n, read_request(1, request(1, 0, 0))),
            2 => b.fpdu(n, untagged(true, Opcode::Send, 0, 0, 1, 0, &[])),
            3 => b.act(Action::Fpdu(n, Note::BadCrc, vec![])),
            4 => b.fpdu(n, vec![0; 5]),
            _ => {}
        }
        let heard = b.world.out.iter().filter(|(_, out)| *out == Out::Heard(n)).count();
        assert_eq!(heard, usize::from(n != 3 && n != 5), "only what was validated");
        let completions = b.world.out.iter().filter(|(_, out)| matches!(out, Out::Completion { .. })).count();
        assert_eq!(completions, usize::from(n == 2));
        b.run();
    }
    // the next Read has MSN 2
    b.fpdu(1, read_request(2, request(0, 0, 0)));
    b.run();
}

/// An index that is bound for a Terminate alone hears nothing, and the next one does.
///
/// Covers: ENH-4
#[test]
fn what_comes_to_a_start_up_that_failed_is_not_looked_at() {
    let mut b = Bench::new(5);
    b.act(Action::Bind(0, Qp { terminate: 6, ..Bench::qp(0) }));
    b.post(0, &[]);
    b.fpdu(0, untagged(true, Opcode::Send, 0, 0, 1, 0, &[]));
    b.act(Action::Fpdu(0, Note::BadCrc, vec![]));
    b.fpdu(0, vec![0; 5]);
    assert!(b.world.out.is_empty());
    b.run();
    b.act(Action::Unbind(0));
    b.run();
    connect(&mut b, 0);
    b.fpdu(0, tagged(true, Opcode::Write, 1, 0, &[]));
    assert!(b.world.out.contains(&(b.world.out[0].0, Out::Heard(0))));
    b.run();
}

/// A write that fails: the stream ends, what may have lost octets is not delivered, others go on.
#[test]
fn a_failed_write_ends_its_stream_only() {
    for seed in 0..20 {
        let mut b = Bench::new(100 + seed);
        b.latency = 0..6;
        connect(&mut b, 1);
        connect(&mut b, 2);
        b.post(1, &[sge(LOCAL | 1, 0, 100)]);
        b.post(2, &[sge(LOCAL | 2, 0, 100)]);
        b.run();
        b.writes.failing = 1.0;
        b.fpdu(1, tagged(true, Opcode::Write, WRITE | 1, base(WRITE | 1), &[1; 100]));
        if seed % 2 == 0 {
            b.fpdu(1, untagged(true, Opcode::Send, 0, 0, 1, 0, &[2; 60]));
            assert!(matches!(b.world.out.pop_back(), Some((_, Out::Completion { .. }))));
        }
        broken(&mut b, 1);
        b.run();
        b.writes.failing = 0.0;
        b.fpdu(1, untagged(true, Opcode::Send, 0, 0, 2, 0, &[2; 60]));
        b.fpdu(2, untagged(true, Opcode::Send, 0, 0, 1, 0, &[2; 60]));
        b.act(Action::Unbind(1));
        b.run();
        connect(&mut b, 1);
        b.post(1, &[sge(LOCAL | 1, 0, 100)]);
        b.fpdu(1, untagged(true, Opcode::Send, 0, 0, 1, 0, &[3; 60]));
        b.run();
    }
}

/// The world takes a stream for ended by a write that failed.
fn broken(b: &mut Bench, index: usize) {
    b.world.tell(Out::Terminate(index, vec![2, 7, 0, 0]));
    b.world.tell(Out::Event { kind: 2, index, code: (0, 2, 7) });
    b.world.conns.get_mut(&index).expect("bound").deaf = true;
}

/// The same while FPDUs of another stream keep the engine busy, one that goes on or one that has ended; a second write that fails makes no second Terminate.
#[test]
fn a_failed_write_is_not_forgotten_while_others_are_at_work() {
    for k in 0..16 {
        let (ended, fails) = (k % 2 == 1, 1 + k / 2 % 2);
        let mut b = Bench::new(200 + k as u64);
        b.latency = 15..30;
        b.writes = WriteHost::new(300..301, 0.0);
        connect(&mut b, 1);
        connect(&mut b, 2);
        b.fpdu(2, tagged(true, Opcode::Write, 1, 0, &[]));
        if ended {
            b.act(Action::Fpdu(2, Note::BadCrc, vec![]));
        }
        b.run();
        b.writes.failing = 1.0;
        for _ in 0..fails {
            b.fpdu(1, tagged(true, Opcode::Write, WRITE | 1, base(WRITE | 1), &[1; 20]));
        }
        while b.writes.outstanding() < fails {
            b.clock();
        }
        for _ in 0..20 {
            b.clock();
        }
        b.writes.failing = 0.0;
        broken(&mut b, 1);
        for _ in 0..60 {
            b.fpdu(2, tagged(true, Opcode::Write, WRITE | 2, base(WRITE | 2), &[2; 20]));
        }
        b.run();
    }
}

/// However many writes are under way, it is known whose each is.
#[test]
fn a_failed_write_ends_the_stream_that_it_is_of() {
    let mut b = Bench::new(14);
    b.writes = WriteHost::new(3000..3001, 0.0);
    connect(&mut b, 1);
    connect(&mut b, 2);
    for _ in 0..40 {
        b.fpdu(1, tagged(true, Opcode::Write, WRITE | 1, base(WRITE | 1), &[1; 8]));
    }
    while b.seen + b.writes.outstanding() < 40 {
        b.clock();
    }
    for _ in 0..20 {
        b.clock();
    }
    b.writes.failing = 1.0;
    b.fpdu(2, tagged(true, Opcode::Write, WRITE | 2, base(WRITE | 2), &[2; 8]));
    broken(&mut b, 2);
    b.run();
}

/// As many receives are posted at once as a queue has room for.
#[test]
fn every_bit_of_the_number_of_receives_counts() {
    let mut b = Bench::new(13);
    for bit in 0..16 {
        let qp = Qp { rq_log2: 15, ..Bench::qp(6) };
        b.act(Action::Bind(6, qp));
        for at in (0..1024).step_by(8) {
            b.memory.0.insert(qp.rq_base + at, 0);
        }
        b.world.conns.get_mut(&6).expect("bound").posted = vec![[Sge::default(); 4]; 1 << bit];
        b.act(Action::Posted(6, 1 << bit));
        b.fpdu(6, untagged(true, Opcode::Send, 0, 0, 1, 0, &[]));
        b.run();
        b.act(Action::Unbind(6));
        b.run();
    }
}

#[test]
fn a_receive_that_cannot_be_read_is_a_local_failure() {
    let mut b = Bench::new(5);
    connect(&mut b, 6);
    for _ in 0..4 {
        b.post(6, &[sge(LOCAL | 6, 0, 100)]);
    }
    for msn in 1..=3 {
        b.fpdu(6, untagged(true, Opcode::Send, 0, 0, msn, 0, &[2; 60]));
    }
    b.run();
    assert_eq!(b.reads.requests.len(), 1, "the next are fetched ahead");
    b.post(6, &[sge(LOCAL | 6, 0, 100)]);
    b.fpdu(6, untagged(true, Opcode::Send, 0, 0, 4, 0, &[2; 60]));
    b.run();
    assert_eq!(b.reads.requests.len(), 2);
    b.act(Action::Unbind(6));
    b.run();
    b.reads.failing = 1.0;
    connect(&mut b, 6);
    b.post(6, &[sge(LOCAL | 6, 0, 100)]);
    b.run();
    b.actions.push_back(Action::Fpdu(6, Note::Whole, untagged(true, Opcode::Send, 0, 0, 1, 0, &[2; 60])));
    b.world.tell(Out::Heard(6));
    b.world.tell(Out::Terminate(6, vec![2, 7, 0, 0]));
    b.world.tell(Out::Event { kind: 2, index: 6, code: (0, 2, 7) });
    b.run();
}

/// A place of IRD is taken from the request to the end of its response; one request more ends the stream.
///
/// Covers: ENH-22, RDM-2
#[test]
fn a_place_is_free_when_the_response_has_left() {
    let mut b = Bench::new(6);
    for beyond in [false, true] {
        connect(&mut b, 4);
        let ird = u32::from(Bench::qp(4).ird);
        for msn in 1..=ird {
            b.fpdu(4, read_request(msn, request(0, 0, 0)));
        }
        for msn in ird + 1..=ird + 40 {
            // what is answered was told before
            b.run();
            b.act(Action::Responded(4));
            b.fpdu(4, read_request(msn, request(0, 0, 0)));
        }
        if beyond {
            // the model tells the Terminate
            b.fpdu(4, read_request(ird + 41, request(0, 0, 0)));
        }
        b.run();
        b.act(Action::Unbind(4));
        b.run();
    }
}

/// A receive has room for all the octets of its SGEs, a Read for all that it asked for, a source for all that is asked of it.
///
/// Covers: RDM-15, RDM-21
#[test]
fn every_bit_of_a_length_counts() {
    let mut b = Bench::new(7);
    let Qp { pd, .. } = Bench::qp(11);
    let whole = Region { base: 0, len: u64::MAX, addr: 0x1234_5678_9abc_def0, rights: 15, pd, qpn: None, valid: true };
    b.region(0x8765_4321, whole);
    for bit in 5..32 {
        connect(&mut b, 11);
        let len = 1 << bit;
        let own = |to: u64, len| Sge { len, stag: 0x8765_4321, to };
        b.post(11, &[own(1 << bit, len)]);
        b.fpdu(11, untagged(true, Opcode::Send, 0, 0, 1, 0, &[1; 32]));
        // together they have one bit more, or two
        b.post(11, &[own(1 << bit, 20), own(7, len - 20), own(5, len)]);
        b.fpdu(11, untagged(true, Opcode::Send, 0, 0, 2, 0, &[2; 32]));
        b.post(11, &[own(1 << bit, 20), own(7, len - 20), own(5, len), own(5, len)]);
        b.fpdu(11, untagged(true, Opcode::Send, 0, 0, 3, 0, &[3; 32]));
        b.post(11, &[own(1 << bit, 20), own(7, len), own(5, len), own(5, len - 20)]);
        b.fpdu(11, untagged(true, Opcode::Send, 0, 0, 4, 0, &[4; 32]));
        b.post(11, &[own(1 << bit, len), own(7, len), own(5, len), own(5, len)]);
        b.fpdu(11, untagged(true, Opcode::Send, 0, 0, 5, 0, &[5; 32]));
        b.fpdu(11, read_request(1, request(0x8765_4321, 1 << bit, len)));
        b.act(Action::Issued(11, own(1 << bit, len)));
        b.fpdu(11, tagged(len == 32, Opcode::ReadResponse, 0x8765_4321, 1 << bit, &[6; 32]));
        assert!(terminate_of(&b, 11).is_none());
        b.run();
        b.act(Action::Unbind(11));
        b.run();
    }
}

/// Messages of many segments: a Send over SGEs that are long, and a Read Response.
///
/// Covers: DDP-19, RDM-15
#[test]
fn long_messages_are_placed_to_their_end() {
    const LEN: usize = 600_000;
    let mut b = Bench::new(8);
    b.writes = WriteHost::new(1..2, 0.0);
    connect(&mut b, 9);
    let Qp { pd, .. } = Bench::qp(9);
    let whole = Region { base: 0, len: u64::MAX, addr: 0, rights: LOCAL_WRITE, pd, qpn: None, valid: true };
    b.region(0x8765_4321, whole);
    let own = |to: u64, len| Sge { len, stag: 0x8765_4321, to };
    b.post(9, &[own(0xffff_0000, 300_000), own(77, 1), own(0xff_ffff_0000, 299_999)]);
    b.act(Action::Issued(9, own(0xffff_ff00, LEN as u32)));
    let data = b.octets(LEN);
    for (n, piece) in data.chunks(1900).enumerate() {
        let (from, last) = (1900 * n, 1900 * (n + 1) >= LEN);
        b.fpdu(9, untagged(last, Opcode::Send, 0, 0, 1, from as u32, piece));
        b.fpdu(9, tagged(last, Opcode::ReadResponse, 0x8765_4321, 0xffff_ff00 + from as u64, piece));
    }
    b.run();
    assert_eq!(b.counts[..4], [0, 1, 0, 1]);
}

/// The indices of the receive queue come round at 2^16, the sequence numbers of messages do not.
///
/// Covers: DDP-4
#[test]
fn a_queue_goes_on_when_its_indices_come_round() {
    const COUNT: u32 = 66_000;
    let mut b = Bench::new(9);
    b.act(Action::Bind(15, Qp { rq_log2: 6, ..Bench::qp(15) }));
    for n in 1..=COUNT {
        b.post(15, &[]);
        b.fpdu(15, untagged(true, Opcode::Send, 0, 0, n, 0, &[]));
        if n % 32 == 0 {
            b.fpdu(15, read_request(n / 32, request(n, 0, 0)));
            b.act(Action::Issued(15, Sge::default()));
            b.fpdu(15, tagged(true, Opcode::ReadResponse, 0, 0, &[]));
            // one that is posted later than it is asked for waits for the last
            while b.actions.len() > 4 || b.owed.get(&15).is_none_or(|owed| *owed == 0) {
                b.clock();
            }
            b.owed.clear();
            b.act(Action::Responded(15));
        }
    }
    b.run();
    assert_eq!(b.counts[1..4], [u64::from(COUNT), u64::from(COUNT / 32), u64::from(COUNT / 32)]);
}

/// A Terminate that finds no room to be told waits for it and stays what it is.
///
/// Covers: RDM-9
#[test]
fn a_terminate_waits_for_room() {
    let mut b = Bench::new(12);
    connect(&mut b, 30);
    connect(&mut b, 31);
    for i in 0..30 {
        connect(&mut b, i);
        for _ in 0..8 {
            b.act(Action::Issued(30, Sge::default()));
            b.act(Action::Issued(31, Sge::default()));
        }
        b.run();
        // these are as many as are kept
        for _ in 0..8 {
            b.fpdu(30, tagged(true, Opcode::ReadResponse, 0, 0, &[]));
            b.fpdu(31, tagged(true, Opcode::ReadResponse, 0, 0, &[]));
        }
        let (short, long) = if i % 2 == 0 { (!0, !0) } else { (0, 0) };
        let what = ReadRequest { sink_stag: short, sink_to: long, size: 1 | short, source_stag: short, source_to: long };
        let mut octets = read_request(1, what);
        octets[2..6].copy_from_slice(&short.to_be_bytes());
        b.fpdu(i, octets);
        b.busy = 0.95;
        b.run();
        b.busy = 0.0;
        assert_eq!(b.counts[5], i as u64 + 1);
    }
}

#[derive(Clone, Default)]
struct Talker {
    msn: [u32; 2],
    tagged: VecDeque<Vec<u8>>,
    untagged: VecDeque<Vec<u8>>,
    /// Our Reads that it has not begun to answer.
    reads: VecDeque<Sge>,
}

impl Talker {
    fn new() -> Self {
        Talker { msn: [1; 2], ..Self::default() }
    }
}

fn cut(rng: &mut ChaCha8Rng, data: &[u8], mut each: impl FnMut(bool, usize, &[u8])) {
    let most = [30, 200, 1400, 1900][rng.random_range(0..4)];
    let mut from = 0;
    loop {
        let n = data.len().min(from + rng.random_range(1..most));
        each(n == data.len(), from, &data[from..n]);
        from = n;
        if n == data.len() {
            return;
        }
    }
}

/// The next thing that `i` does.
fn talk(b: &mut Bench, talkers: &mut [Talker], i: usize, faults: f64) {
    let Some(conn) = b.world.conns.get(&i) else {
        if !b.world.out.iter().any(|(_, out)| *out == Out::Unbound(i)) {
            talkers[i] = Talker::new();
            connect(b, i);
        }
        return;
    };
    let end = if conn.deaf { 0.05 } else { 0.003 };
    if b.rng.random_bool(end) {
        b.act(Action::Unbind(i));
        talkers[i] = Talker::default();
        return;
    }
    let posted = conn.posted.len() - b.received.get(&i).copied().unwrap_or(0);
    let (ahead, depth) = (conn.posted.len() - conn.consumer, 1 << conn.qp.rq_log2);
    let reads = conn.reads.len();
    let (ird, deaf) = (conn.in_use < conn.qp.ird, conn.deaf);
    if !deaf && b.rng.random_bool(0.3) && b.owed.get(&i).is_some_and(|n| *n > 0) {
        *b.owed.get_mut(&i).expect("owed") -= 1;
        return b.act(Action::Responded(i));
    }
    let t = &mut talkers[i];
    let lane = if b.rng.random() { &mut t.tagged } else { &mut t.untagged };
    if let Some(mut octets) = lane.pop_front() {
        let mut note = Note::Whole;
        if b.rng.random_bool(faults) {
            match b.rng.random_range(0..8) {
                0 => note = Note::BadCrc,
                1 => note = Note::BadLength,
                2 => octets.truncate(b.rng.random_range(0..60)),
                _ => {
                    let header = octets.len().min(46);
                    let at = b.rng.random_range(0..header);
                    octets[at] ^= 1 << b.rng.random_range(0..8);
                }
            }
        }
        return b.act(Action::Fpdu(i, note, octets));
    }
    let index = i as u32;
    let most = [40, 300, 300, 4000][b.rng.random_range(0..4)];
    let len = b.rng.random_range(0..most);
    let data: Vec<u8> = (0..len).map(|_| b.rng.random()).collect();
    let at = b.rng.random_range(0..SMALL - 4000);
    match b.rng.random_range(0..6) {
        0 if t.tagged.is_empty() => {
            let stag = index | if b.rng.random() { WRITE } else { WINDOW };
            let valid = b.world.regions.0[&stag].valid;
            if valid || b.rng.random_bool(faults) {
                let lane = &mut t.tagged;
                cut(&mut b.rng, &data, |last, from, piece| {
                    lane.push_back(tagged(last, Opcode::Write, stag, base(stag) + at + from as u64, piece))
                });
            }
        }
        1 if t.tagged.is_empty() && !t.reads.is_empty() => {
            let sink = t.reads.pop_front().expect("one");
            let data: Vec<u8> = (0..sink.len).map(|_| b.rng.random()).collect();
            let lane = &mut t.tagged;
            cut(&mut b.rng, &data, |last, from, piece| {
                lane.push_back(tagged(last, Opcode::ReadResponse, sink.stag, sink.to + from as u64, piece));
            });
        }
        1 if !deaf && reads < 8 => {
            let sink = sge(LOCAL | index, at, len as u32);
            t.reads.push_back(sink);
            b.act(Action::Issued(i, sink));
        }
        2 if t.untagged.is_empty() && ird => {
            let what = if b.rng.random_bool(0.2) { request(0, 5, 0) } else { request(READ | index, base(READ | index) + at, len as u32) };
            t.untagged.push_back(read_request(t.msn[1], what));
            t.msn[1] += 1;
        }
        3 if t.untagged.is_empty() && ahead > 0 && !deaf => {
            let room: u64 = b.world.conns[&i].posted[b.world.conns[&i].consumer].iter().map(|s| u64::from(s.len)).sum();
            let data = &data[..len.min(room as usize)];
            let kinds = [Opcode::Send, Opcode::SendSolicited, Opcode::SendInvalidate, Opcode::SendSolicitedInvalidate];
            let mut opcode = kinds[b.rng.random_range(0..4)];
            if !b.world.regions.0[&(WINDOW | index)].valid {
                opcode = Opcode::Send;
            }
            let (msn, lane) = (t.msn[0], &mut t.untagged);
            cut(&mut b.rng, data, |last, from, piece| {
                lane.push_back(untagged(last, opcode, WINDOW | index, 0, msn, from as u32, piece));
            });
            t.msn[0] += 1;
        }
        4 if !deaf && posted < depth => {
            let sges: Vec<Sge> = (0..b.rng.random_range(0..5))
                .map(|_| {
                    let len = [b.rng.random_range(0..20), b.rng.random_range(0..2000), 0, 0][b.rng.random_range(0..4)];
                    let stag = if b.rng.random() { LOCAL } else { LOCAL_2 };
                    sge(stag | index, b.rng.random_range(0..SMALL - 2000), len)
                })
                .collect();
            b.post(i, &sges);
        }
        5 if b.rng.random_bool(0.02) && b.world.regions.0[&(WINDOW | index)].valid => b.act(Action::Revoke(WINDOW | index)),
        _ => {}
    }
}

fn traffic(b: &mut Bench, talkers: &mut [Talker], clocks: u64, faults: f64) {
    let end = b.clocks + clocks;
    while b.clocks < end {
        while b.actions.len() < 8 {
            let i = b.rng.random_range(0..talkers.len());
            talk(b, talkers, i, faults);
            if b.rng.random_bool(0.1) {
                break;
            }
        }
        b.clock();
    }
}

/// All kinds of messages of several connections, mixed; connections end at any time; some FPDUs are wrong in a bit.
///
/// Covers: DDP-7, DDP-8, DDP-12, MPA-37, RDM-3, RDM-4, RDM-15, RDM-23, RDM-27, ENH-22
#[test]
fn random_traffic_does_what_the_model_says() {
    let seed = bench::seed("rdma_rx random");
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut sums = [0; 7];
    for round in 0..rounds {
        let mut b = Bench::new(seed + round as u64);
        (b.busy, b.pause, b.latency) = [(0.0, 0.0, 3..6), (0.3, 0.1, 0..12), (0.8, 0.3, 0..60)][round % 3].clone();
        b.writes = WriteHost::new([1..6, 1..80, 60..200][round % 3].clone(), [0.0, 0.2, 0.6][round % 3]);
        b.reads = ReadHost::new([1..6, 1..80, 60..200][round % 3].clone(), [0.0, 0.2, 0.6][round % 3]);
        let faults = [0.0, 0.02][round / 3 % 2];
        b.sleepy = [0.0, 0.005][round / 2 % 2];
        let mut talkers = vec![Talker::default(); 1 + 5 * (round % 2) + 3];
        traffic(&mut b, &mut talkers, 40_000, faults);
        b.run();
        println!("{:?}: {} writes to memory", b.counts, b.seen);
        for (sum, n) in sums.iter_mut().zip(b.counts) {
            *sum += n;
        }
    }
    assert!(sums[..4].iter().all(|n| *n > 200) && (rounds < 6 || sums[5] > 30), "{sums:?}");
}

#[test]
fn reset_at_any_time_leaves_nothing_behind() {
    let mut b = Bench::new(9);
    b.latency = 0..9;
    for round in 0..100 {
        (b.busy, b.pause) = [(0.0, 0.0), (0.4, 0.2)][round % 2];
        let mut talkers = vec![Talker::default(); 4];
        let clocks = b.rng.random_range(100..700);
        traffic(&mut b, &mut talkers, clocks, 0.0);
        b.reset();
        for i in [0, 1, 5] {
            connect(&mut b, i);
            b.post(i, &[sge(LOCAL | i as u32, 0, 60)]);
            b.fpdu(i, untagged(true, Opcode::Send, 0, 0, 1, 0, &[2; 60]));
            b.act(Action::Unbind(i));
        }
        b.run();
        b.reset();
    }
}

/// The clocks of the module doc.
#[test]
fn fpdus_take_the_clocks_promised() {
    let mut b = Bench::new(10);
    b.latency = 5..6;
    connect(&mut b, 0);
    connect(&mut b, 1);
    b.run();
    let mut measure = |name: &str, n: u64, most: u64, octets: &mut dyn FnMut(u64) -> (usize, Vec<u8>)| {
        for k in 0..n {
            let (i, octets) = octets(k);
            b.fpdu(i, octets);
        }
        let before = b.clocks;
        while !b.actions.is_empty() || !b.to_free.is_empty() {
            b.clock();
        }
        let clocks = (b.clocks - before) as f64 / n as f64;
        println!("{name}: {clocks:.1} clocks an FPDU");
        assert!(clocks <= most as f64, "{name}");
        b.run();
    };
    for (len, most) in [(8, 14), (64, 14), (1446, 187)] {
        measure(&format!("Write of {len}"), 100, most, &mut |_| (0, tagged(true, Opcode::Write, WRITE, base(WRITE), &vec![7; len])));
        measure(&format!("Write of {len}, two connections in turn"), 100, most, &mut |k| {
            let stag = WRITE | (k as u32 & 1);
            (k as usize % 2, tagged(true, Opcode::Write, stag, base(stag), &vec![7; len]))
        });
    }
    let mut b = Bench::new(11);
    b.latency = 5..6;
    b.reads = ReadHost::new(1..2, 0.0);
    connect(&mut b, 2);
    for len in [8u32, 64, 1446] {
        b.run();
        let base_msn = b.world.conns[&2].msn[0];
        for _ in 0..16 {
            b.post(2, &[sge(LOCAL | 2, 0, len)]);
        }
        b.run();
        for k in 0..16 {
            b.fpdu(2, untagged(true, Opcode::Send, 0, 0, base_msn + k, 0, &vec![1; len as usize]));
        }
        let before = b.clocks;
        while !b.actions.is_empty() || !b.to_free.is_empty() {
            b.clock();
        }
        let clocks = (b.clocks - before) as f64 / 16.0;
        println!("Send of {len}: {clocks:.1} clocks an FPDU");
        assert!(clocks <= [25.0, 192.0][usize::from(len > 64)]);
        b.run();
    }
}
