// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::sq` between stand-ins for all its neighbours: each FPDU is checked against its item as it stands in the item store, and each message, completion and event against
//! a plain model of what was posted.
use ironwarp_abi::work::{access, send_flag, CompletionOpcode, CompletionStatus};
use ironwarp_models::bench::{Memory, ReadHost};
use ironwarp_models::{bench, rdma_sq::Model, Dut};
use ironwarp_wire::{ddp, fpdu, rdmap};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

const WRITE: u8 = 0;
const READ: u8 = 1;
const RESPONSE: u8 = 2;
const SEND: u8 = 3;
const SEND_INVALIDATE: u8 = 4;
const SEND_SOLICITED_INVALIDATE: u8 = 6;
const TERMINATE: u8 = 7;
/// Key of the STags that the stand-in for `rdma::regions` refuses.
const REFUSED: u32 = 0xbd;
/// Numbers of the enums, in their order.
const BIND: u64 = 0;
const UNBIND: u64 = 1;
const READ_REQUEST: u64 = 0;
const READ_DONE: u64 = 1;
const HEARD: u64 = 2;
const TERM_WORD: u64 = 3;
const TERM: u64 = 4;
const STOP: u64 = 5;
const LOCAL_ERROR: u64 = 0;
const SOURCE_LOST: u64 = 1;
const TERMINATED: u64 = 2;
const DRAINED: u64 = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sge {
    len: u32,
    stag: u32,
    addr: u64,
}

/// A send queue entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wr {
    opcode: u8,
    flags: u8,
    sge_count: u8,
    inline_len: u8,
    stag: u32,
    to: u64,
    sges: [Sge; 4],
    data: Vec<u8>,
}

impl Wr {
    fn gather(opcode: u8, stag: u32, to: u64, sges: &[Sge]) -> Self {
        let mut all = [Sge { len: 0x5555, stag: 0x6666_7777, addr: 0x9999 }; 4];
        all[..sges.len()].copy_from_slice(sges);
        Wr { opcode, stag, to, sge_count: sges.len() as u8, sges: all, flags: send_flag::SIGNALED, ..Wr::default() }
    }
    fn in_line(opcode: u8, stag: u32, to: u64, data: &[u8]) -> Self {
        let flags = send_flag::SIGNALED | send_flag::INLINE;
        Wr { opcode, stag, to, inline_len: data.len() as u8, data: data.to_vec(), flags, ..Wr::default() }
    }
    fn flag(mut self, flag: u8) -> Self {
        self.flags |= flag;
        self
    }
    fn unsignaled(mut self) -> Self {
        self.flags &= !send_flag::SIGNALED;
        self
    }
    fn is_inline(&self) -> bool {
        self.flags & send_flag::INLINE != 0
    }
    fn used(&self) -> &[Sge] {
        if self.is_inline() {
            &[]
        } else {
            &self.sges[..usize::from(self.sge_count).min(4)]
        }
    }
    /// Octets of the message; of a Read, those that are read.
    fn len(&self) -> u64 {
        if self.is_inline() {
            u64::from(self.inline_len)
        } else {
            self.used().iter().map(|s| u64::from(s.len)).sum()
        }
    }
    /// How it ends here.
    fn status(&self, ord: u8) -> u8 {
        let known = matches!(self.opcode, 0 | 1 | 3..=6);
        let bad_inline = self.is_inline() && self.inline_len > 64;
        let bad_read = self.opcode == READ && (self.is_inline() || self.sge_count > 1 || ord == 0);
        if !known || self.sge_count > 4 || bad_inline || bad_read {
            CompletionStatus::LocalQpOperation as u8
        } else if self.used().iter().any(|s| s.len > 0 && s.stag & 0xff == REFUSED) {
            CompletionStatus::LocalProtection as u8
        } else if self.len() >= 1 << 31 {
            CompletionStatus::LocalLength as u8
        } else {
            0
        }
    }
    fn words(&self) -> [u64; 12] {
        let mut w = [0xdead_beef_0bad_f00d; 12];
        w[0] = u64::from(self.opcode)
            | u64::from(self.flags) << 8
            | u64::from(self.sge_count) << 16
            | u64::from(self.inline_len) << 24
            | u64::from(self.stag) << 32;
        w[1] = self.to;
        if self.is_inline() {
            for (i, chunk) in self.data.chunks(8).take(8).enumerate() {
                w[4 + i] = word(chunk);
            }
        } else {
            for (i, s) in self.sges.iter().enumerate() {
                w[4 + 2 * i] = u64::from(s.len) | u64::from(s.stag) << 32;
                w[5 + 2 * i] = s.addr;
            }
        }
        w
    }
    fn sink(&self) -> (u32, u64, u32) {
        match self.used() {
            [s] => (s.stag, s.addr, s.len),
            _ => (1, 0, 0),
        }
    }
}

fn word(octets: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..octets.len()].copy_from_slice(octets);
    u64::from_le_bytes(all)
}

#[derive(Clone, Copy, Debug)]
struct Params {
    qpn: u16,
    pd: u16,
    cqn: u16,
    base: u64,
    log2: u8,
    all_signaled: bool,
    crc: bool,
    markers: bool,
    responder: bool,
    ord: u8,
    rtr_write: bool,
    rtr_read: bool,
    terminate: u8,
}

const PLAIN: Params = Params {
    qpn: 0x1234,
    pd: 0x4321,
    cqn: 0x0777,
    base: 0x1_0000_0040,
    log2: 6,
    all_signaled: false,
    crc: true,
    markers: false,
    responder: false,
    ord: 8,
    rtr_write: false,
    rtr_read: false,
    terminate: 0,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    stag: u32,
    to: u64,
    len: u32,
    sink_stag: u32,
    sink_to: u64,
}

/// What an FPDU belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Work(usize),
    Response,
    Rtr,
    Terminate,
}

/// A message as the item must have it.
#[derive(Clone, Debug)]
struct Message {
    of: Of,
    opcode: u8,
    stag: u32,
    target: u64,
    len: u32,
    payload: Payload,
    remote: bool,
}

#[derive(Clone, Debug)]
enum Payload {
    Inline(Vec<u8>),
    Gather([Sge; 4]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fpdu {
    index: u16,
    item: u8,
    offset: u32,
    len: u16,
    last: bool,
    phase: u16,
    wire_len: u16,
    push: bool,
    /// What was so when it was offered: Reads that `rdma::rx` knew of, Reads that had ended.
    issued: usize,
    ended: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Completion {
    wqe: u16,
    opcode: u8,
    status: u8,
    len: u32,
}

/// The plain model of an index.
#[derive(Default)]
struct Line {
    params: Option<Params>,
    wrs: Vec<Wr>,
    /// Next to begin / complete.
    begun: usize,
    done: usize,
    acked: Vec<bool>,
    read_done: Vec<bool>,
    heard: bool,
    emss: Vec<u16>,
    /// Reads that are outstanding, `None` the RTR.
    reads: VecDeque<Option<usize>>,
    most_reads: usize,
    issued: usize,
    issue_at: usize,
    reads_begun: usize,
    reads_ended: usize,
    rtr: bool,
    msn_send: u32,
    msn_read: u32,
    owed: VecDeque<Owed>,
    /// Responses that have left, those told.
    answered: usize,
    responded: usize,
    terminate: Option<Vec<u8>>,
    stopped: bool,
    current: Option<(Message, u8, u32)>,
    place: usize,
    /// Checked FPDUs that are not acknowledged: of what, item, its words.
    fpdus: VecDeque<(Of, bool, u8, [u64; 12])>,
    sent: usize,
    completions: Vec<Completion>,
    events: Vec<u64>,
    /// Unbind was offered, its answer has not come.
    ending: bool,
}

impl Line {
    fn message_of(&self, n: usize) -> Message {
        let wr = &self.wrs[n];
        let tagged = wr.opcode == WRITE;
        let invalidates = matches!(wr.opcode, SEND_INVALIDATE | SEND_SOLICITED_INVALIDATE);
        let target = match wr.opcode {
            WRITE => wr.to,
            READ => 1 | u64::from(self.msn_read) << 32,
            _ => u64::from(self.msn_send) << 32,
        };
        let payload = if wr.opcode == READ {
            let (sink_stag, sink_to, len) = wr.sink();
            Payload::Inline(read_request(sink_stag, sink_to, len, wr.stag, wr.to))
        } else if wr.is_inline() {
            Payload::Inline(wr.data.clone())
        } else {
            let mut sges = [Sge::default(); 4];
            sges[..wr.used().len()].copy_from_slice(wr.used());
            Payload::Gather(sges)
        };
        let len = if wr.opcode == READ { 28 } else { wr.len() as u32 };
        let stag = if tagged || invalidates { wr.stag } else { 0 };
        Message { of: Of::Work(n), opcode: wr.opcode, stag, target, len, payload, remote: false }
    }
    fn caps(&self, tagged: bool) -> impl Iterator<Item = usize> + '_ {
        let header = if tagged { ddp::TAGGED_OCTETS } else { ddp::UNTAGGED_OCTETS };
        let markers = self.params.expect("bound").markers;
        self.emss.iter().map(move |emss| fpdu::mulpdu(usize::from(*emss), markers) - header)
    }
    fn signaled(&self, n: usize) -> bool {
        let p = self.params.expect("bound");
        p.all_signaled || self.wrs[n].flags & send_flag::SIGNALED != 0
    }
    fn idle(&self) -> bool {
        self.done == self.wrs.len() && self.owed.is_empty() && self.fpdus.is_empty() && self.current.is_none()
    }
}

fn read_request(sink_stag: u32, sink_to: u64, len: u32, stag: u32, to: u64) -> Vec<u8> {
    let mut out = vec![0; 28];
    rdmap::ReadRequest { sink_stag, sink_to, size: len, source_stag: stag, source_to: to }.emit(&mut out).expect("fits");
    out
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: ReadHost,
    /// Chance that a neighbour does not take, or waits before it offers.
    stall: f64,
    /// Chance that a taker takes nothing for a while.
    sleepy: f64,
    asleep: [u64; 7],
    /// What was offered and not taken in the last clock.
    kept: [Option<[u64; 6]>; 8],
    /// How long `from_tx` and `posted` have waited, and at most.
    waits: [(u64, u64); 2],
    binds: VecDeque<(u64, u16, Params)>,
    posted: VecDeque<(u16, u16)>,
    closes: VecDeque<u16>,
    faults: VecDeque<u16>,
    from_tx: VecDeque<(bool, u16, u16)>,
    from_rx: VecDeque<(u64, u16, Owed)>,
    answers: VecDeque<(u64, bool)>,
    asks: Vec<(u32, u64, u32, u64)>,
    /// FPDUs that came, whose items are still to be read, and words of the first of them.
    arrived: VecDeque<Fpdu>,
    reading: Vec<u64>,
    lines: BTreeMap<u16, Line>,
    unbound: Vec<u16>,
    clocks: u64,
    /// When FPDUs came.
    fpdu_clocks: Vec<u64>,
    completion_clocks: Vec<u64>,
}

impl Bench {
    fn new(latency: std::ops::Range<u64>, busy: f64, stall: f64) -> Self {
        let seed = bench::seed("rdma_sq");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            host: ReadHost::new(latency, busy),
            stall,
            sleepy: 0.0,
            asleep: [0; 7],
            kept: [None; 8],
            waits: [(0, 0); 2],
            binds: VecDeque::new(),
            posted: VecDeque::new(),
            closes: VecDeque::new(),
            faults: VecDeque::new(),
            from_tx: VecDeque::new(),
            from_rx: VecDeque::new(),
            answers: VecDeque::new(),
            asks: vec![],
            arrived: VecDeque::new(),
            reading: vec![],
            lines: BTreeMap::new(),
            unbound: vec![],
            clocks: 0,
            fpdu_clocks: vec![],
            completion_clocks: vec![],
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.rd_beat_valid.set(false);
        for _ in 0..2 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.host = ReadHost::new(self.host.latency.clone(), self.host.busy);
        self.binds.clear();
        self.posted.clear();
        self.closes.clear();
        self.faults.clear();
        self.from_tx.clear();
        self.from_rx.clear();
        self.answers.clear();
        self.arrived.clear();
        self.reading.clear();
        self.lines.clear();
        self.unbound.clear();
        self.kept = [None; 8];
        self.m.bind_valid.set(false);
        self.m.posted_valid.set(false);
        self.m.close_valid.set(false);
        self.m.fault_valid.set(false);
        self.m.from_tx_valid.set(false);
        self.m.from_rx_valid.set(false);
        self.m.answer_valid.set(false);
        self.m.eval();
        while !self.m.ready.get() {
            self.m.tick();
        }
    }
    fn line(&mut self, index: u16) -> &mut Line {
        self.lines.get_mut(&index).expect("bound")
    }
    fn lucky(&mut self, stall: f64) -> bool {
        stall == 0.0 || !self.rng.random_bool(stall)
    }

    fn clock(&mut self) {
        let (rd_ready, beat) = self.host.offer(&self.memory, &mut self.rng);
        self.m.rd_req_ready.set(rd_ready);
        self.m.rd_beat_valid.set(beat.is_some());
        if let Some(beat) = beat {
            self.m.rd_beat_data_data.set(beat.data);
            self.m.rd_beat_data_last.set(u64::from(beat.last));
            self.m.rd_beat_data_error.set(u64::from(beat.error));
        }
        // what is offered stays: an offer begins by luck
        macro_rules! offer {
            ($queue:ident, $valid:ident, $set:expr) => {
                if let Some(&head) = self.$queue.front() {
                    if self.m.$valid.get() || self.lucky(self.stall) {
                        self.m.$valid.set(true);
                        let set: fn(&mut Model, _) = $set;
                        set(&mut self.m, head);
                    }
                } else {
                    self.m.$valid.set(false);
                }
            };
        }
        offer!(binds, bind_valid, |m: &mut Model, (op, index, p): (u64, u16, Params)| {
            m.bind_data_op.set(op);
            m.bind_data_index.set(index.into());
            m.bind_data_qp_qpn.set(p.qpn.into());
            m.bind_data_qp_pd.set(p.pd.into());
            m.bind_data_qp_send_cqn.set(p.cqn.into());
            m.bind_data_qp_sq_base.set(p.base);
            m.bind_data_qp_sq_log2.set(p.log2.into());
            m.bind_data_qp_all_signaled.set(p.all_signaled.into());
            m.bind_data_crc.set(p.crc.into());
            m.bind_data_markers.set(p.markers.into());
            m.bind_data_responder.set(p.responder.into());
            m.bind_data_ord.set(p.ord.into());
            m.bind_data_rtr_write.set(p.rtr_write.into());
            m.bind_data_rtr_read.set(p.rtr_read.into());
            m.bind_data_terminate.set(p.terminate.into());
        });
        offer!(posted, posted_valid, |m: &mut Model, (index, posted): (u16, u16)| {
            m.posted_data_index.set(index.into());
            m.posted_data_posted.set(posted.into());
        });
        offer!(closes, close_valid, |m: &mut Model, index: u16| m.close_data.set(index));
        offer!(faults, fault_valid, |m: &mut Model, index: u16| m.fault_data.set(index));
        offer!(from_tx, from_tx_valid, |m: &mut Model, (acked, index, emss): (bool, u16, u16)| {
            m.from_tx_data_note.set(acked.into());
            m.from_tx_data_index.set(index.into());
            m.from_tx_data_emss.set(emss.into());
        });
        offer!(from_rx, from_rx_valid, |m: &mut Model, (note, index, owed): (u64, u16, Owed)| {
            m.from_rx_data_note.set(note);
            m.from_rx_data_index.set(index.into());
            m.from_rx_data_stag.set(owed.stag.into());
            m.from_rx_data_to.set(owed.to);
            m.from_rx_data_len.set(owed.len.into());
            m.from_rx_data_sink_stag.set(owed.sink_stag.into());
            m.from_rx_data_sink_to.set(owed.sink_to);
        });
        let answer = self.answers.front().copied().filter(|(due, _)| *due <= self.clocks);
        self.m.answer_valid.set(answer.is_some());
        if let Some((_, refused)) = answer {
            self.m.answer_data_status.set(if refused { self.rng.random_range(1..6) } else { 0 });
        }
        let mut ready = [true; 7];
        for (k, ready) in ready.iter_mut().enumerate() {
            if self.sleepy > 0.0 && self.rng.random_bool(self.sleepy) {
                self.asleep[k] = self.clocks + self.rng.random_range(20..300);
            }
            *ready = self.lucky(self.stall) && self.asleep[k] <= self.clocks;
        }
        self.m.unbound_ready.set(ready[0]);
        self.m.to_tx_ready.set(ready[1]);
        self.m.issued_ready.set(ready[2]);
        self.m.responded_ready.set(ready[3]);
        self.m.event_ready.set(ready[4]);
        self.m.ask_ready.set(ready[5]);
        self.m.completion_ready.set(ready[6]);
        // items are read a word a clock
        let addressed = !self.arrived.is_empty();
        if let Some(fpdu) = self.arrived.front() {
            self.m.item_address.set(fpdu.index << 8 | u16::from(fpdu.item) << 4 | self.reading.len().min(11) as u16);
        }
        self.m.eval();

        let offers = self.offers();
        for (k, offer) in offers.iter().enumerate() {
            assert!(self.kept[k].is_none() || self.kept[k] == *offer, "what is offered stays: {k}");
            let taken = if k == 7 { rd_ready } else { ready[k] };
            self.kept[k] = offer.filter(|_| !taken);
        }
        let m = &self.m;
        for (wait, waits) in
            self.waits.iter_mut().zip([m.from_tx_valid.get() && !m.from_tx_ready.get(), m.posted_valid.get() && !m.posted_ready.get()])
        {
            wait.0 = if waits { wait.0 + 1 } else { 0 };
            wait.1 = wait.1.max(wait.0);
        }
        let now = self.clocks;
        let request = (m.rd_req_valid.get() && rd_ready).then(|| (m.rd_req_data_addr.get(), m.rd_req_data_len.get() as u16));
        let beat_taken = beat.is_some() && m.rd_beat_ready.get();
        macro_rules! taken {
            ($queue:ident, $valid:ident, $ready:ident) => {
                if self.m.$valid.get() && self.m.$ready.get() {
                    self.$queue.pop_front();
                    true
                } else {
                    false
                }
            };
        }
        let ask = (m.ask_valid.get() && m.ask_ready.get()).then(|| {
            assert_eq!(m.ask_data_op.get(), 0, "nothing is invalidated");
            let who = (m.ask_data_pd.get() as u16, m.ask_data_qpn.get() as u16);
            (m.ask_data_stag.get() as u32, m.ask_data_to.get(), m.ask_data_len.get() as u32, m.ask_data_need.get(), who)
        });
        assert!(m.quiet.get(), "regions wait for nobody here, else the end of a region would wait for this check and this check for it");
        let came = (m.to_tx_valid.get() && m.to_tx_ready.get()).then(|| Fpdu {
            index: m.to_tx_data_index.get() as u16,
            item: m.to_tx_data_fpdu_item.get() as u8,
            offset: m.to_tx_data_fpdu_offset.get() as u32,
            len: m.to_tx_data_fpdu_len.get() as u16,
            last: m.to_tx_data_fpdu_last.bit(),
            phase: m.to_tx_data_fpdu_phase.get() as u16,
            wire_len: m.to_tx_data_wire_len.get() as u16,
            push: m.to_tx_data_push.bit(),
            issued: 0,
            ended: 0,
        });
        let issued = (m.issued_valid.get() && m.issued_ready.get()).then(|| {
            let d = (m.issued_data_stag.get() as u32, m.issued_data_to.get(), m.issued_data_len.get() as u32);
            (m.issued_data_index.get() as u16, d)
        });
        let responded = (m.responded_valid.get() && m.responded_ready.get()).then(|| m.responded_data.get());
        let unbound = (m.unbound_valid.get() && m.unbound_ready.get()).then(|| m.unbound_data.get());
        let event = (m.event_valid.get() && m.event_ready.get()).then(|| (m.event_data_index.get() as u16, m.event_data_note.get()));
        let completion = (m.completion_valid.get() && m.completion_ready.get()).then(|| {
            assert_eq!((m.completion_data_invalidated.get(), m.completion_data_solicited.get(), m.completion_data_stag.get()), (0, 0, 0));
            let c = Completion {
                wqe: m.completion_data_wqe.get() as u16,
                opcode: m.completion_data_opcode.get() as u8,
                status: m.completion_data_status.get() as u8,
                len: m.completion_data_len.get() as u32,
            };
            (m.completion_data_qpn.get() as u16, m.completion_data_cqn.get() as u16, c)
        });
        // what the block takes counts from here on
        if self.m.bind_valid.get() && self.m.bind_ready.get() {
            let (op, index, params) = self.binds.pop_front().expect("offered");
            self.m.bind_valid.set(false);
            if op == BIND {
                let line = self.lines.entry(index).or_default();
                line.params = Some(params);
                line.heard = !params.responder;
                line.rtr = !params.responder && (params.rtr_write || params.rtr_read);
                line.terminate = (params.terminate != 0).then(|| vec![0x20, params.terminate, 0, 0]);
                line.msn_send = 1;
                line.msn_read = 1;
            }
        }
        if taken!(posted, posted_valid, posted_ready) {
            self.m.posted_valid.set(false);
        }
        if taken!(closes, close_valid, close_ready) {
            self.m.close_valid.set(false);
        }
        if taken!(faults, fault_valid, fault_ready) {
            self.m.fault_valid.set(false);
        }
        if let Some(&head) = self.from_tx.front() {
            if taken!(from_tx, from_tx_valid, from_tx_ready) {
                self.m.from_tx_valid.set(false);
                self.told_by_tx(head);
            }
        }
        if let Some(&head) = self.from_rx.front() {
            if taken!(from_rx, from_rx_valid, from_rx_ready) {
                self.m.from_rx_valid.set(false);
                self.told_by_rx(head);
            }
        }
        if answer.is_some() && self.m.answer_ready.get() {
            self.answers.pop_front();
        }
        if let Some((addr, len)) = request {
            let n = self.lines.iter().filter(|(_, l)| l.params.is_some_and(|p| (0..128u64 << p.log2).contains(&addr.wrapping_sub(p.base))));
            assert_eq!(n.count(), 1, "a fetch at {addr:#x} is of a bound queue");
            assert_eq!(len, 96);
        }
        if let Some((stag, to, len, need, who)) = ask {
            assert!(len > 0, "nothing is not checked");
            assert!(self.lines.values().any(|l| l.params.is_some_and(|p| (p.pd, p.qpn) == who)));
            self.asks.push((stag, to, len, need));
            let due = now + 1 + if self.stall == 0.0 { 2 } else { self.rng.random_range(0..12) };
            self.answers.push_back((due, stag & 0xff == REFUSED));
        }
        if let Some(fpdu) = came {
            assert!(self.lines.contains_key(&fpdu.index), "an FPDU of a bound index");
            self.fpdu_clocks.push(now);
            let line = self.line(fpdu.index);
            line.sent += 1;
            assert!(line.sent <= 32, "not more than 32 FPDUs in tcp::tx");
            assert!(line.heard, "a responder is silent before it heard");
            let fpdu = Fpdu { issued: line.issued, ended: line.reads_ended, ..fpdu };
            self.arrived.push_back(fpdu);
        }
        if let Some((index, sink)) = issued {
            self.told_issued(index, sink);
        }
        if let Some(index) = responded {
            // one is perhaps offered, and some not read yet
            let ahead = 1 + self.arrived.iter().filter(|f| f.index == index).count();
            let line = self.line(index);
            line.responded += 1;
            assert!(line.responded <= line.answered + ahead, "a response has left before it is told");
        }
        if let Some((index, note)) = event {
            self.line(index).events.push(note);
        }
        if let Some((qpn, cqn, c)) = completion {
            self.completion_clocks.push(now);
            self.completed(qpn, cqn, c);
        }
        self.host.step(request, beat_taken, &mut self.rng);
        self.m.tick();
        self.clocks += 1;
        if let Some(index) = unbound {
            // nothing of it may come afterwards
            assert!(!self.arrived.iter().any(|f| f.index == index) || self.line(index).ending);
            self.arrived.retain(|f| f.index != index);
            self.reading.clear();
            assert!(self.lines.remove(&index).is_some());
            // what its neighbours still had to say of it is gone, except what they offer already: that stays
            macro_rules! forget {
                ($queue:ident, $valid:ident, $index:tt) => {
                    let mut offered = self.m.$valid.get();
                    self.$queue.retain(|said| std::mem::take(&mut offered) || said.$index != index);
                };
            }
            forget!(from_tx, from_tx_valid, 1);
            forget!(from_rx, from_rx_valid, 1);
            forget!(posted, posted_valid, 0);
            self.unbound.push(index);
        } else if addressed {
            // the model's output is that of the address driven above
            let count = self.reading.len();
            if count < 12 {
                self.reading.push(self.m.item_data.get());
            }
            if count == 11 {
                let fpdu = self.arrived.pop_front().expect("there");
                let words: Vec<u64> = std::mem::take(&mut self.reading);
                self.check(fpdu, words.try_into().expect("12 words"));
            }
        }
    }

    /// What is offered to each taker.
    fn offers(&self) -> [Option<[u64; 6]>; 8] {
        let m = &self.m;
        let fpdu = u64::from(m.to_tx_data_fpdu_last.bit()) | u64::from(m.to_tx_data_push.bit()) << 1 | m.to_tx_data_fpdu_phase.get() << 2;
        let lens = m.to_tx_data_fpdu_len.get() | m.to_tx_data_wire_len.get() << 16;
        let completion = m.completion_data_cqn.get() | m.completion_data_qpn.get() << 16 | m.completion_data_wqe.get() << 32;
        [
            m.unbound_valid.get().then(|| [m.unbound_data.get().into(), 0, 0, 0, 0, 0]),
            m.to_tx_valid
                .get()
                .then(|| [m.to_tx_data_index.get(), m.to_tx_data_fpdu_item.get(), m.to_tx_data_fpdu_offset.get(), fpdu, lens, 0]),
            m.issued_valid
                .get()
                .then(|| [m.issued_data_index.get(), m.issued_data_stag.get(), m.issued_data_to.get(), m.issued_data_len.get(), 0, 0]),
            m.responded_valid.get().then(|| [m.responded_data.get().into(), 0, 0, 0, 0, 0]),
            m.event_valid.get().then(|| [m.event_data_index.get(), m.event_data_note.get(), 0, 0, 0, 0]),
            m.ask_valid.get().then(|| {
                let who = m.ask_data_pd.get() << 16 | m.ask_data_qpn.get();
                [m.ask_data_stag.get(), m.ask_data_to.get(), m.ask_data_len.get(), m.ask_data_need.get(), who, m.ask_data_op.get()]
            }),
            m.completion_valid.get().then(|| {
                let what = m.completion_data_opcode.get() << 8 | m.completion_data_status.get();
                [completion, what, m.completion_data_len.get(), 0, 0, 0]
            }),
            m.rd_req_valid.get().then(|| [m.rd_req_data_addr.get(), m.rd_req_data_len.get(), 0, 0, 0, 0]),
        ]
    }

    fn told_by_tx(&mut self, (acked, index, emss): (bool, u16, u16)) {
        let Some(line) = self.lines.get_mut(&index) else { return };
        if !acked {
            line.emss.push(emss);
            if line.emss.len() > 2 {
                line.emss.remove(0);
            }
            return;
        }
        let (of, last, ..) = line.fpdus.pop_front().expect("only what is checked is acknowledged");
        line.sent -= 1;
        if last {
            match of {
                Of::Work(n) => line.acked[n] = true,
                Of::Response | Of::Rtr | Of::Terminate => {}
            }
        }
        self.skip(index);
    }
    fn told_by_rx(&mut self, (note, index, owed): (u64, u16, Owed)) {
        let Some(line) = self.lines.get_mut(&index) else { return };
        match note {
            READ_REQUEST => line.owed.push_back(owed),
            READ_DONE => {
                line.reads_ended += 1;
                if let Some(n) = line.reads.pop_front().expect("outstanding") {
                    line.read_done[n] = true;
                }
                self.skip(index);
            }
            HEARD => line.heard = true,
            _ => {}
        }
    }
    /// Completes what makes no completion.
    fn skip(&mut self, index: u16) {
        let line = self.line(index);
        while line.done < line.wrs.len() && !line.signaled(line.done) && line.is_complete(line.done) {
            line.done += 1;
        }
    }
    fn told_issued(&mut self, index: u16, sink: (u32, u64, u32)) {
        let line = self.line(index);
        line.issued += 1;
        let read = if line.issued == 1 && line.params.is_some_and(|p| p.rtr_read && !p.rtr_write && !p.responder) {
            assert_eq!(sink, (1, 0, 0));
            None
        } else {
            let n = (line.issue_at..line.wrs.len()).find(|n| line.wrs[*n].opcode == READ).expect("a Read was posted");
            assert_eq!(sink, line.wrs[n].sink(), "sink of {n}");
            line.issue_at = n + 1;
            Some(n)
        };
        line.reads.push_back(read);
        line.most_reads = line.most_reads.max(line.reads.len());
        let ord = usize::from(line.params.expect("bound").ord);
        assert!(line.reads.len() <= ord.max(1), "{} Reads outstanding, ORD {ord}", line.reads.len());
    }
    fn completed(&mut self, qpn: u16, cqn: u16, c: Completion) {
        let (&index, line) = self.lines.iter_mut().find(|(_, l)| l.params.is_some_and(|p| p.qpn == qpn)).expect("a bound queue pair");
        let p = line.params.expect("found by it");
        assert_eq!(cqn, p.cqn);
        let n = line.done;
        assert!(n < line.wrs.len(), "{index}: nothing to complete: {c:?}");
        let wr = &line.wrs[n];
        let status = wr.status(p.ord);
        assert!(status != 0 || line.is_complete(n), "{index}: {n} is not complete: {c:?}");
        assert!(status != 0 || line.signaled(n));
        let opcode = match wr.opcode {
            WRITE => CompletionOpcode::Write,
            READ => CompletionOpcode::Read,
            _ => CompletionOpcode::Send,
        };
        let len = if status == 0 { wr.len() as u32 } else { c.len };
        let opcode = if status == CompletionStatus::LocalQpOperation as u8 { c.opcode } else { opcode as u8 };
        assert_eq!(c, Completion { wqe: n as u16, opcode, status, len });
        line.completions.push(c);
        line.done += 1;
        self.skip(index);
    }

    /// An FPDU and its item against what was posted.
    fn check(&mut self, f: Fpdu, words: [u64; 12]) {
        let line = self.lines.get_mut(&f.index).expect("bound");
        let p = line.params.expect("bound");
        assert!(!line.stopped, "nothing follows a Terminate");
        let opcode = words[0] as u8;
        let (message, item, sent) = match line.current.take() {
            Some(current) => current,
            None => (line.next_message(opcode, p, f), f.item, 0),
        };
        assert_eq!(f.item, item);
        // the item
        assert_eq!(opcode, message.opcode);
        assert_eq!(words[0] >> 9 & 1 != 0, message.remote);
        assert_eq!((words[0] >> 16) as u16, p.pd);
        assert_eq!((words[0] >> 32) as u32, message.stag, "STag of {message:?}");
        assert_eq!(words[1], message.target, "target of {message:?}");
        assert_eq!(words[2] as u32, message.len, "length of {message:?}");
        assert_eq!((words[2] >> 32) as u16, p.qpn);
        assert_eq!((words[2] >> 48 & 1 != 0, words[2] >> 49 & 1 != 0), (p.markers, p.crc));
        assert_eq!((words[0] >> 10 & 0x3f, words[2] >> 50), (0, 0), "spare bits");
        match &message.payload {
            Payload::Inline(data) => {
                assert!(words[0] >> 8 & 1 != 0, "inline");
                for (i, chunk) in data.chunks(8).enumerate() {
                    assert_eq!(&words[4 + i].to_le_bytes()[..chunk.len()], chunk, "octets {} of {message:?}", 8 * i);
                }
            }
            Payload::Gather(sges) => {
                assert!(words[0] >> 8 & 1 == 0, "not inline");
                for (i, s) in sges.iter().enumerate() {
                    assert_eq!(words[4 + 2 * i] as u32, s.len, "length of SGE {i} of {message:?}");
                    if s.len > 0 {
                        assert_eq!(((words[4 + 2 * i] >> 32) as u32, words[5 + 2 * i]), (s.stag, s.addr));
                    }
                }
            }
        }
        // the FPDU
        assert_eq!(f.offset, sent);
        let tagged = matches!(opcode, WRITE | RESPONSE);
        let left = message.len - sent;
        let len = usize::from(f.len);
        if f.last {
            assert_eq!(f.len as u32, left);
            assert!(line.caps(tagged).any(|cap| len <= cap), "{f:?}");
        } else {
            assert!(line.caps(tagged).any(|cap| len == cap && left as usize > cap), "{f:?} {left}");
        }
        let header = if tagged { ddp::TAGGED_OCTETS } else { ddp::UNTAGGED_OCTETS };
        assert_eq!(usize::from(f.phase), line.place % 512);
        let wire = fpdu::wire_len(header + len, p.markers.then_some(line.place));
        assert_eq!(usize::from(f.wire_len), wire, "{f:?}");
        assert_eq!(f.push, f.last);
        line.place += wire;
        line.fpdus.push_back((message.of, f.last, f.item, words));
        if f.last {
            line.stopped = message.of == Of::Terminate;
            line.answered += usize::from(message.of == Of::Response);
        } else {
            line.current = Some((message, item, sent + u32::from(f.len)));
        }
    }

    // ---- what the neighbours do
    fn bind(&mut self, index: u16, params: Params, emss: u16) {
        self.lines.insert(index, Line::default());
        self.from_tx.push_back((false, index, emss));
        self.until(|b| b.from_tx.is_empty());
        self.bind_before_emss(index, params);
    }
    fn bind_before_emss(&mut self, index: u16, params: Params) {
        self.lines.entry(index).or_default();
        self.binds.push_back((BIND, index, params));
        self.until(|b| b.binds.is_empty());
    }
    fn unbind(&mut self, index: u16) {
        let p = self.line(index).params.expect("bound");
        self.line(index).ending = true;
        self.binds.push_back((UNBIND, index, p));
    }
    fn put(&mut self, index: u16, wr: Wr) {
        let line = self.lines.get_mut(&index).expect("bound");
        let p = line.params.expect("bound");
        let at = p.base + 128 * (line.wrs.len() as u64 & ((1 << p.log2) - 1));
        for (i, word) in wr.words().iter().enumerate() {
            self.memory.0.insert(at + 8 * i as u64, *word);
        }
        line.wrs.push(wr);
        line.acked.push(false);
        line.read_done.push(false);
    }
    fn ring(&mut self, index: u16) {
        let posted = self.line(index).wrs.len() as u16;
        self.posted.push_back((index, posted));
    }
    fn post(&mut self, index: u16, wr: Wr) {
        self.put(index, wr);
        self.ring(index);
    }
    /// The oldest FPDU of `index` is acknowledged, if there is one that is not.
    fn ack(&mut self, index: u16) {
        let asked = self.from_tx.iter().filter(|(acked, i, _)| *acked && *i == index).count();
        if self.line(index).fpdus.len() > asked {
            self.from_tx.push_back((true, index, 0));
        }
    }
    fn ack_all(&mut self) {
        let indices: Vec<u16> = self.lines.keys().copied().collect();
        for index in indices {
            self.ack(index);
        }
    }
    fn rx(&mut self, note: u64, index: u16) {
        self.from_rx.push_back((note, index, Owed { stag: 0, to: 0, len: 0, sink_stag: 0, sink_to: 0 }));
    }
    fn terminate(&mut self, index: u16, octets: &[u8]) {
        for (i, chunk) in octets.chunks(8).enumerate() {
            self.from_rx.push_back((TERM_WORD, index, Owed { stag: 0, to: word(chunk), len: i as u32, sink_stag: 0, sink_to: 0 }));
        }
        self.from_rx.push_back((TERM, index, Owed { stag: 0, to: 0, len: octets.len() as u32, sink_stag: 0, sink_to: 0 }));
        self.line(index).terminate = Some(octets.to_vec());
    }
    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        let end = self.clocks + 50_000;
        while !done(self) {
            assert!(self.clocks < end, "it ends");
            self.clock();
        }
    }
    /// Everything is acknowledged as it comes, Reads end as they are asked, until nothing is left to do.
    fn settle(&mut self) {
        let end = self.clocks + 200_000;
        while !self.lines.values().all(Line::idle) || !self.arrived.is_empty() {
            assert!(
                self.clocks < end,
                "all ends: {:?}",
                self.lines.iter().map(|(i, l)| (i, l.begun, l.done, l.wrs.len(), l.owed.len(), l.fpdus.len())).collect::<Vec<_>>()
            );
            self.ack_all();
            self.end_reads();
            self.clock();
        }
    }
    /// The Reads whose requests were seen end.
    fn end_reads(&mut self) {
        let due: Vec<u16> =
            self.lines.iter().filter(|(i, l)| l.reads_begun > l.reads_ended + self.done_asked(**i)).map(|(i, _)| *i).collect();
        for index in due {
            self.rx(READ_DONE, index);
        }
    }
    fn done_asked(&self, index: u16) -> usize {
        self.from_rx.iter().filter(|(note, i, _)| *note == READ_DONE && *i == index).count()
    }
    fn run(&mut self, clocks: u64) {
        for _ in 0..clocks {
            self.clock();
        }
    }
    fn events(&self, index: u16) -> &[u64] {
        &self.lines[&index].events
    }
}

impl Line {
    fn is_complete(&self, n: usize) -> bool {
        self.acked[n] && (self.wrs[n].opcode != READ || self.read_done[n])
    }
    /// The message that begins with an item of `opcode`.
    fn next_message(&mut self, opcode: u8, p: Params, f: Fpdu) -> Message {
        if self.rtr {
            self.rtr = false;
            let read = !p.rtr_write;
            assert_eq!(opcode, u8::from(read), "the RTR is first");
            if read {
                self.msn_read = 2;
                self.reads_begun += 1;
                assert!(f.issued >= self.reads_begun);
            }
            let payload = if read { Payload::Inline(read_request(1, 0, 0, 1, 0)) } else { Payload::Inline(vec![]) };
            let (stag, target) = if read { (0, 1 | 1 << 32) } else { (1, 0) };
            return Message { of: Of::Rtr, opcode, stag, target, len: if read { 28 } else { 0 }, payload, remote: false };
        }
        match opcode {
            RESPONSE => {
                let o = self.owed.pop_front().expect("a response that is owed");
                let mut sges = [Sge::default(); 4];
                sges[0] = Sge { len: o.len, stag: o.stag, addr: o.to };
                Message {
                    of: Of::Response,
                    opcode,
                    stag: o.sink_stag,
                    target: o.sink_to,
                    len: o.len,
                    payload: Payload::Gather(sges),
                    remote: true,
                }
            }
            TERMINATE => {
                let octets = self.terminate.clone().unwrap_or(vec![2, 7, 0, 0]);
                let len = octets.len() as u32;
                Message { of: Of::Terminate, opcode, stag: 0, target: 2 | 1 << 32, len, payload: Payload::Inline(octets), remote: false }
            }
            _ => {
                let n = self.begun;
                let message = self.message_of(n);
                assert_eq!(self.wrs[n].status(p.ord), 0, "what failed is not sent");
                if self.wrs[n].flags & send_flag::FENCE != 0 {
                    let earlier = self.wrs[..n].iter().filter(|wr| wr.opcode == READ).count();
                    let rtr = usize::from(p.rtr_read && !p.rtr_write && !p.responder);
                    assert!(f.ended >= earlier + rtr, "{n} is fenced");
                }
                self.begun += 1;
                if opcode == READ {
                    self.msn_read += 1;
                    self.reads_begun += 1;
                    assert!(f.issued >= self.reads_begun, "rdma::rx knows of a Read before it can be sent");
                } else if opcode != WRITE {
                    self.msn_send += 1;
                }
                message
            }
        }
    }
}

fn sge(len: u32) -> Sge {
    Sge { len, stag: 0x1122_3301, addr: 0xffff_fff0 }
}

/// An acknowledgement, and nothing else, completes a Write or a Send.
/// Covers: RDM-7, CH-12
#[test]
fn a_write_completes_when_it_is_acknowledged() {
    let mut b = Bench::new(1..20, 0.1, 0.2);
    b.bind(3, PLAIN, 1460);
    b.post(3, Wr::in_line(WRITE, 0xabcd_ef01, 0x1234_5678_9abc_def0, &[1, 2, 3, 4, 5]));
    b.post(3, Wr::gather(SEND, 0x99, 0, &[sge(4000)]));
    b.until(|b| b.lines[&3].fpdus.len() == 4);
    b.run(500);
    assert_eq!(b.lines[&3].completions, []);
    for (acks, completions) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        b.ack(3);
        b.run(100);
        assert_eq!(b.lines[&3].completions.len(), completions, "after {acks}");
    }
    assert_eq!(b.asks, [(0x1122_3301, 0xffff_fff0, 4000, 0)]);
}

/// Every message length near the edges of FPDUs, with and without markers, for EMSS below, at and above what has a MULPDU of its own.
/// Covers: SEG-1, SEG-2, SEG-7, SEG-8, DDP-4, DDP-5, DDP-6, DDP-14, DDP-15, DDP-16, DDP-17, DDP-18, RDM-14
#[test]
fn messages_are_cut_to_mulpdu() {
    let mut b = Bench::new(1..4, 0.0, 0.0);
    for markers in [false, true] {
        for emss in [
            1u16, 100, 127, 128, 134, 138, 142, 146, 147, 148, 149, 511, 512, 513, 536, 1447, 1448, 1459, 1460, 2600, 4000, 8960, 15_000,
            32_000, 65495, 65535,
        ] {
            let p = Params { markers, ..PLAIN };
            b.bind(1, p, emss);
            let mulpdu = fpdu::mulpdu(emss.into(), markers) as u32;
            for opcode in [WRITE, SEND] {
                let cap = mulpdu - if opcode == WRITE { 14 } else { 18 };
                for len in [0, 1, cap - 1, cap, cap + 1, 2 * cap, 3 * cap + 2] {
                    b.post(1, Wr::gather(opcode, 7, u64::from(u32::MAX) - 5, &[sge(len)]));
                }
            }
            b.settle();
            assert_eq!(b.lines[&1].completions.len(), 14);
            b.unbind(1);
            b.until(|b| b.lines.is_empty());
        }
    }
}

/// Worked values of the specification.
/// Covers: SEG-7
#[test]
fn worked_mulpdus() {
    let mut b = Bench::new(1..4, 0.0, 0.0);
    for (emss, markers, mulpdu) in [(1460, false, 1454), (1460, true, 1442), (1448, false, 1442), (1448, true, 1430)] {
        b.bind(0, Params { markers, ..PLAIN }, emss);
        b.post(0, Wr::gather(WRITE, 7, 0, &[sge(mulpdu - 14)]));
        b.post(0, Wr::gather(SEND, 7, 0, &[sge(mulpdu - 18)]));
        b.post(0, Wr::gather(WRITE, 7, 0, &[sge(mulpdu - 13)]));
        b.until(|b| b.lines[&0].fpdus.len() == 4);
        b.settle();
        b.unbind(0);
        b.until(|b| b.lines.is_empty());
    }
}

/// All kinds of Send: what the item says of STag, MSN and opcode.
/// Covers: DDP-4, DDP-14
#[test]
fn sends_of_all_kinds() {
    let mut b = Bench::new(1..9, 0.1, 0.1);
    b.bind(31, PLAIN, 1000);
    for opcode in [3, 4, 5, 6, 0, 3, 6] {
        b.post(
            31,
            Wr::gather(opcode, 0x5a5a_0000 + u32::from(opcode), 0x77, &[sge(3), Sge { len: 0, stag: REFUSED, addr: 9 }, sge(2000), sge(1)]),
        );
        b.post(31, Wr::in_line(opcode, 0x6b6b_0000 + u32::from(opcode), 0x78, &[opcode; 64]));
    }
    b.settle();
    assert_eq!(b.lines[&31].completions.len(), 14);
    assert_eq!(b.lines[&31].msn_send, 13);
}

/// Covers: RDM-2, RDM-38
#[test]
fn reads_outstanding_never_pass_ord() {
    for ord in [1u8, 2, 3, 8, 16] {
        let mut b = Bench::new(1..20, 0.1, 0.1);
        b.bind(2, Params { ord, ..PLAIN }, 1460);
        for n in 0..20 {
            b.post(
                2,
                Wr::gather(
                    READ,
                    0x100 + n,
                    0x7000_0000_0000_0000 + u64::from(n),
                    &[Sge { len: n * 1000, stag: 0x2200 + n, addr: 1 << 40 }],
                ),
            );
        }
        b.run(3000);
        let line = &b.lines[&2];
        assert_eq!((line.reads.len(), line.completions.len()), (usize::from(ord).min(12), 0), "ORD {ord}");
        while b.lines[&2].done < 20 {
            b.ack_all();
            if b.rng.random_bool(0.02) {
                b.end_reads();
            }
            b.clock();
        }
        assert_eq!(b.lines[&2].most_reads, usize::from(ord).min(12));
        assert!(b.asks.iter().all(|(.., need)| *need == u64::from(access::LOCAL_WRITE)));
    }
}

/// A Read Request is one untagged FPDU on QN 1 with MSN from 1, whatever the Read's size; its source is not looked at.
/// Covers: RDM-15, RDM-17
#[test]
fn a_read_request_is_one_fpdu() {
    let mut b = Bench::new(1..5, 0.0, 0.0);
    b.bind(2, PLAIN, 100);
    b.post(2, Wr::gather(READ, 0, u64::MAX, &[Sge { len: 0, stag: REFUSED, addr: 5 }]));
    b.post(2, Wr::gather(READ, 0xffff_ffff, u64::MAX, &[]));
    b.post(2, Wr::gather(READ, 1, 2, &[Sge { len: 0x7fff_ffff, stag: 0x3300, addr: 5 }]));
    b.until(|b| b.lines[&2].fpdus.len() == 3);
    assert_eq!(b.asks, [(0x3300, 5, 0x7fff_ffff, 1)]);
    b.settle();
    assert_eq!(b.lines[&2].completions.iter().map(|c| c.len).collect::<Vec<_>>(), [0, 0, 0x7fff_ffff]);
}

/// A Read is complete when its response is, and nothing behind it before.
/// Covers: RDM-7
#[test]
fn completions_come_in_the_order_of_posting() {
    let mut b = Bench::new(1..5, 0.0, 0.0);
    b.bind(2, PLAIN, 1460);
    b.post(2, Wr::gather(READ, 1, 2, &[sge(10)]));
    b.post(2, Wr::in_line(WRITE, 1, 2, &[1]));
    b.post(2, Wr::in_line(SEND, 1, 2, &[2]).unsignaled());
    b.post(2, Wr::in_line(SEND, 1, 2, &[3]));
    for _ in 0..500 {
        b.ack_all();
        b.clock();
    }
    assert_eq!((b.lines[&2].completions.len(), b.lines[&2].fpdus.len()), (0, 0));
    b.end_reads();
    b.run(50);
    assert_eq!(b.lines[&2].completions.iter().map(|c| (c.wqe, c.opcode)).collect::<Vec<_>>(), [(0, 1), (1, 0), (3, 3)]);
}

/// With FENCE a work request waits for all Reads before it, and only then.
/// Covers: RDM-4
#[test]
fn a_fence_waits_for_reads() {
    let mut b = Bench::new(1..5, 0.0, 0.0);
    b.bind(2, PLAIN, 1460);
    b.post(2, Wr::gather(READ, 1, 2, &[sge(10)]));
    b.post(2, Wr::in_line(WRITE, 1, 2, &[1]));
    b.post(2, Wr::in_line(WRITE, 1, 2, &[2]).flag(send_flag::FENCE));
    b.post(2, Wr::in_line(WRITE, 1, 2, &[3]));
    b.run(1000);
    assert_eq!(b.lines[&2].begun, 2);
    // a response of ours does not wait
    b.from_rx.push_back((READ_REQUEST, 2, Owed { stag: 5, to: 6, len: 7, sink_stag: 8, sink_to: 9 }));
    b.run(100);
    assert_eq!((b.lines[&2].begun, b.lines[&2].fpdus.len()), (2, 3));
    b.end_reads();
    b.run(100);
    assert_eq!(b.lines[&2].begun, 4);
    b.settle();
}

/// Read Responses: all fields, the order of the requests, between messages of our own; each is told.
/// Covers: RDM-3, RDM-16, RDM-24
#[test]
fn responses_leave_in_order_between_messages() {
    for stall in [0.0, 0.3] {
        let mut b = Bench::new(1..9, 0.1, stall);
        b.bind(7, PLAIN, 536);
        let mut count = 0u32;
        for round in 0..30 {
            b.post(7, Wr::gather(WRITE, 3, 4, &[sge(round * 100)]));
            while b.lines[&7].owed.len() + b.from_rx.len() < 8 {
                count += 1;
                let len = [0, 1, 522, 523, 3000][count as usize % 5];
                b.from_rx.push_back((
                    READ_REQUEST,
                    7,
                    Owed {
                        stag: 0x8000_0000 + count,
                        to: u64::MAX - 9,
                        len,
                        sink_stag: 0xffff_0000 + count,
                        sink_to: u64::from(count) << 32,
                    },
                ));
            }
            for _ in 0..400 {
                if b.rng.random_bool(0.1) {
                    b.ack_all();
                }
                b.clock();
            }
        }
        b.settle();
        b.run(100);
        assert_eq!(b.lines[&7].responded as u32, count);
        assert_eq!(b.lines[&7].completions.len(), 30);
    }
}

/// The place of a Read Request is free when the last FPDU of its response has left, acknowledged or not; the fourth response waits for an item.
/// Covers: ENH-22
#[test]
fn a_response_that_has_left_is_told() {
    let mut b = Bench::new(1..9, 0.0, 0.0);
    b.bind(7, PLAIN, 536);
    for n in 0..4 {
        b.from_rx.push_back((READ_REQUEST, 7, Owed { stag: n, to: 0, len: 600, sink_stag: n, sink_to: 0 }));
    }
    b.run(400);
    assert_eq!((b.lines[&7].answered, b.lines[&7].responded, b.lines[&7].fpdus.len()), (3, 3, 6));
    b.ack(7);
    b.run(400);
    assert_eq!(b.lines[&7].responded, 3);
    b.ack(7);
    b.run(400);
    assert_eq!((b.lines[&7].answered, b.lines[&7].responded), (4, 4));
    b.settle();
}

/// The RTR is first, makes no completion; as a Read it takes MSN 1 and a place of ORD.
/// Covers: ENH-5, ENH-6, CH-25
#[test]
fn the_rtr_is_first() {
    for (rtr_write, rtr_read) in [(true, false), (false, true)] {
        let mut b = Bench::new(1..5, 0.0, 0.1);
        b.bind_before_emss(2, Params { rtr_write, rtr_read, ord: 1, ..PLAIN });
        b.post(2, Wr::gather(READ, 1, 2, &[sge(10)]));
        b.post(2, Wr::in_line(WRITE, 1, 2, &[1]));
        b.run(300);
        assert_eq!(b.lines[&2].sent, 0, "MULPDU is not known");
        b.from_tx.push_back((false, 2, 1460));
        b.run(500);
        let line = &b.lines[&2];
        assert!(!line.rtr, "sent");
        assert_eq!(line.begun, if rtr_read { 0 } else { 2 });
        if rtr_read {
            b.end_reads();
        }
        for _ in 0..500 {
            b.ack_all();
            b.clock();
        }
        assert_eq!((b.lines[&2].begun, b.lines[&2].done), (2, 0), "the end of the RTR is not that of the Read");
        b.settle();
        assert_eq!(b.lines[&2].completions.len(), 2);
        assert_eq!(b.lines[&2].msn_read, if rtr_read { 3 } else { 2 });
        // without anything posted too
        b.bind(4, Params { rtr_write, rtr_read, qpn: 9, base: 1 << 60, ..PLAIN }, 1460);
        b.until(|b| b.lines[&4].fpdus.len() == 1);
        b.settle();
    }
}

/// Of an index that is bound for it, the Terminate is the only FPDU, whatever is posted.
/// Covers: ENH-4, ENH-13, ENH-17
#[test]
fn a_start_up_that_failed_sends_its_terminate_and_nothing_else() {
    for terminate in [5, 6, 7] {
        let mut b = Bench::new(1..5, 0.0, 0.1);
        b.bind_before_emss(2, Params { terminate, ..PLAIN });
        b.post(2, Wr::in_line(SEND, 1, 2, &[1]));
        b.from_tx.push_back((false, 2, 1460));
        b.until(|b| b.lines[&2].fpdus.len() == 1);
        assert!(b.lines[&2].stopped);
        while b.events(2).is_empty() {
            b.ack_all();
            b.clock();
        }
        assert_eq!(b.events(2), [TERMINATED]);
        b.run(300);
        let line = &b.lines[&2];
        assert_eq!((line.sent, line.begun, line.completions.len(), b.host.requests.len()), (0, 0, 0, 0));
    }
}

/// Covers: MPA-6
#[test]
fn a_responder_is_silent_until_it_heard() {
    let mut b = Bench::new(1..5, 0.0, 0.1);
    b.bind(2, Params { responder: true, rtr_read: true, ..PLAIN }, 1460);
    b.post(2, Wr::in_line(SEND, 1, 2, &[1]));
    b.run(1000);
    assert_eq!(b.lines[&2].sent, 0);
    b.rx(HEARD, 2);
    b.until(|b| b.lines[&2].fpdus.len() == 1);
    b.settle();
}

/// What ends a stream before its responder may send: not even the Terminate is sent, the connection must be reset, whether or not it is being closed.
/// Covers: RDM-34
#[test]
fn a_responder_that_may_not_send_is_reset_instead_of_its_terminate() {
    for closing in [false, true] {
        let mut b = Bench::new(1..5, 0.0, 0.1);
        b.bind(2, Params { responder: true, ..PLAIN }, 1460);
        b.post(2, Wr::in_line(SEND, 1, 2, &[1]));
        b.terminate(2, &[0x20, 2, 0, 0]);
        b.until(|b| !b.events(2).is_empty());
        if closing {
            b.closes.push_back(2);
        }
        b.rx(HEARD, 2);
        b.run(500);
        assert_eq!((b.events(2), b.lines[&2].sent), (&[SOURCE_LOST][..], 0));
    }
}

/// Each way in which a work request can be wrong: what was before it is sent and completes, then comes its status in its place, and a Terminate of the
/// local error without headers, which is the last FPDU.
/// Covers: RDM-27
#[test]
fn a_wrong_work_request_ends_the_stream() {
    let refused = Sge { len: 5, stag: 0x4400_0000 + REFUSED, addr: 1 };
    let long = Sge { len: 0x8000_0000, stag: 1, addr: 0 };
    let wrong = [
        Wr::gather(2, 0, 0, &[]),
        Wr::gather(7, 0, 0, &[]),
        Wr::gather(0x83, 0, 0, &[]),
        Wr { sge_count: 5, ..Wr::gather(SEND, 0, 0, &[sge(1)]) },
        Wr { inline_len: 65, ..Wr::in_line(WRITE, 0, 0, &[0; 64]) },
        Wr::in_line(READ, 0, 0, &[1]),
        Wr::gather(READ, 0, 0, &[sge(1), sge(1)]),
        Wr::gather(SEND, 0, 0, &[refused]).unsignaled(),
        Wr::gather(WRITE, 0, 0, &[sge(1), sge(2), sge(0), refused]),
        Wr::gather(READ, 0, 0, &[refused]),
        Wr::gather(WRITE, 0, 0, &[long]),
        Wr::gather(SEND, 0, 0, &[sge(0x7fff_ffff), sge(1)]),
        Wr::gather(SEND, 0, 0, &[Sge { len: u32::MAX, ..long }; 4]),
    ];
    for (k, wr) in wrong.into_iter().enumerate() {
        let mut b = Bench::new(1..20, 0.1, 0.2);
        let index = k as u16;
        b.bind(index, PLAIN, 1460);
        b.bind(31, Params { qpn: 1, base: 1 << 40, ..PLAIN }, 1460);
        let status = wr.status(8);
        assert_ne!(status, 0);
        b.put(index, Wr::gather(WRITE, 1, 2, &[sge(5000)]));
        b.put(index, Wr::gather(READ, 1, 2, &[sge(5)]));
        b.put(index, wr);
        b.put(index, Wr::in_line(WRITE, 1, 2, &[2]));
        b.ring(index);
        b.until(|b| !b.events(index).is_empty());
        assert_eq!(b.events(index), [LOCAL_ERROR]);
        b.until(|b| b.lines[&index].stopped);
        assert_eq!(b.lines[&index].completions, []);
        while b.lines[&index].done < 3 {
            b.ack_all();
            b.end_reads();
            b.clock();
        }
        let statuses: Vec<(u16, u8)> = b.lines[&index].completions.iter().map(|c| (c.wqe, c.status)).collect();
        assert_eq!(statuses, [(0, 0), (1, 0), (2, status)]);
        for _ in 0..500 {
            b.ack_all();
            b.clock();
        }
        assert_eq!(b.events(index), [LOCAL_ERROR, TERMINATED]);
        assert_eq!(b.lines[&index].done, 3);
        // another connection is not touched
        b.post(31, Wr::in_line(SEND, 1, 2, &[1]));
        b.until(|b| b.lines[&31].fpdus.len() == 1);
    }
}

/// A Read where none may be outstanding; an entry that cannot be read.
#[test]
fn a_read_without_ord_and_an_entry_that_cannot_be_read() {
    let mut b = Bench::new(1..20, 0.1, 0.2);
    b.bind(5, Params { ord: 0, ..PLAIN }, 1460);
    b.post(5, Wr::gather(READ, 0, 0, &[sge(1)]));
    b.until(|b| b.lines[&5].done == 1);
    assert_eq!(b.lines[&5].completions[0].status, CompletionStatus::LocalQpOperation as u8);
    let mut b = Bench::new(1..20, 0.1, 0.2);
    b.bind(5, PLAIN, 1460);
    b.host.failing = 1.0;
    // the model calls it an opcode that is not known
    b.post(5, Wr::gather(WRITE, 0, 0, &[]));
    b.lines.get_mut(&5).expect("bound").wrs[0].opcode = 15;
    b.until(|b| b.lines[&5].done == 1);
    assert_eq!(b.lines[&5].completions[0].status, CompletionStatus::LocalQpOperation as u8);
    b.until(|b| b.lines[&5].stopped);
}

/// A Terminate leaves at the end of the message that is being cut, before all that waits, and is the last.
/// Covers: RDM-28
#[test]
fn a_terminate_leaves_at_the_next_message_boundary() {
    for len in 1..=52u8 {
        let mut b = Bench::new(1..20, 0.1, 0.2);
        b.bind(5, PLAIN, 1460);
        b.post(5, Wr::gather(SEND, 0, 0, &[sge(100_000)]));
        b.post(5, Wr::in_line(SEND, 0, 0, &[9]));
        b.until(|b| b.lines[&5].fpdus.len() == 5);
        let octets: Vec<u8> = (1..=len).collect();
        b.from_rx.push_back((READ_REQUEST, 5, Owed { stag: 5, to: 6, len: 7, sink_stag: 8, sink_to: 9 }));
        b.terminate(5, &octets);
        // what comes later counts no more
        b.from_rx.push_back((TERM_WORD, 5, Owed { stag: 0, to: u64::MAX, len: 0, sink_stag: 0, sink_to: 0 }));
        b.rx(TERM, 5);
        while b.events(5).is_empty() {
            b.ack_all();
            b.clock();
        }
        assert_eq!(b.events(5), [TERMINATED]);
        let line = &b.lines[&5];
        assert_eq!((line.begun, line.done, line.stopped, line.owed.len()), (1, 1, true, 1));
        let fetched = b.host.requests.len();
        b.post(5, Wr::in_line(SEND, 0, 0, &[9]));
        b.run(300);
        assert_eq!((b.lines[&5].sent, b.host.requests.len()), (0, fetched));
    }
}

/// After the peer's Terminate, and when the source of what is half sent is gone, no FPDU is cut any more.
#[test]
fn stop_and_fault_end_the_stream() {
    for stop in [false, true] {
        let mut b = Bench::new(1..20, 0.1, 0.2);
        b.bind(5, PLAIN, 1460);
        b.post(5, Wr::gather(SEND, 0, 0, &[sge(100_000)]));
        b.until(|b| b.lines[&5].fpdus.len() == 5);
        if stop {
            b.rx(STOP, 5);
            b.until(|b| b.from_rx.is_empty());
        } else {
            b.faults.push_back(5);
            b.until(|b| !b.events(5).is_empty());
        }
        b.run(200);
        let fetched = b.host.requests.len();
        b.post(5, Wr::in_line(SEND, 0, 0, &[9]));
        b.terminate(5, &[1]);
        for _ in 0..500 {
            b.ack_all();
            b.clock();
        }
        assert_eq!((b.lines[&5].sent, b.host.requests.len()), (0, fetched));
        assert_eq!(b.events(5), if stop { &[][..] } else { &[SOURCE_LOST][..] });
    }
}

/// `Drained` is told once, when the last work request is complete and the last response acknowledged, whichever comes last.
/// Covers: TD-1
#[test]
fn drained_is_told_when_nothing_is_left() {
    let mut b = Bench::new(1..20, 0.1, 0.2);
    for index in 4..8 {
        b.bind(index, Params { qpn: index, base: u64::from(index) << 40, rtr_write: index == 7, ..PLAIN }, 1460);
    }
    b.closes.push_back(6);
    b.until(|b| b.events(6) == [DRAINED]);
    // a Read is last
    b.post(4, Wr::gather(SEND, 0, 0, &[sge(10_000)]));
    b.post(4, Wr::gather(READ, 0, 0, &[sge(1)]));
    b.until(|b| b.lines[&4].begun == 2);
    b.closes.push_back(4);
    while !b.lines[&4].fpdus.is_empty() {
        b.ack(4);
        b.clock();
    }
    b.run(300);
    assert_eq!(b.events(4), []);
    b.end_reads();
    b.until(|b| b.events(4) == [DRAINED]);
    // a response is last
    b.post(5, Wr::in_line(SEND, 0, 0, &[1]));
    while b.lines[&5].done == 0 {
        b.ack(5);
        b.clock();
    }
    b.from_rx.push_back((READ_REQUEST, 5, Owed { stag: 5, to: 6, len: 7, sink_stag: 8, sink_to: 9 }));
    b.until(|b| b.from_rx.is_empty());
    b.closes.push_back(5);
    b.until(|b| b.lines[&5].fpdus.len() == 1);
    b.run(300);
    assert_eq!(b.events(5), []);
    b.ack(5);
    b.until(|b| b.events(5) == [DRAINED]);
    // a response is last that has not begun
    b.bind_before_emss(8, Params { qpn: 8, base: 8 << 40, ..PLAIN });
    b.from_rx.push_back((READ_REQUEST, 8, Owed { stag: 5, to: 6, len: 7, sink_stag: 8, sink_to: 9 }));
    b.until(|b| b.from_rx.is_empty());
    b.closes.push_back(8);
    b.run(300);
    assert_eq!(b.events(8), []);
    b.from_tx.push_back((false, 8, 1460));
    b.until(|b| b.lines[&8].fpdus.len() == 1);
    b.ack(8);
    b.until(|b| b.events(8) == [DRAINED]);
    // the RTR is last
    b.until(|b| b.lines[&7].fpdus.len() == 1);
    b.closes.push_back(7);
    b.run(300);
    assert_eq!(b.events(7), []);
    b.ack(7);
    b.until(|b| b.events(7) == [DRAINED]);
    b.closes.push_back(7);
    b.run(300);
    assert!((4..9).all(|index| b.events(index) == [DRAINED]));
}

/// Work that is posted and cannot be fetched yet is left too.
/// Covers: TD-1
#[test]
fn drained_is_not_told_while_an_entry_waits_to_be_fetched() {
    let mut b = Bench::new(500..501, 0.0, 0.0);
    b.bind(1, PLAIN, 1460);
    b.bind(2, Params { qpn: 2, base: 1 << 40, ..PLAIN }, 1460);
    for _ in 0..4 {
        b.put(1, Wr::in_line(SEND, 0, 0, &[9]));
    }
    b.ring(1);
    b.until(|b| b.host.outstanding() == 4);
    b.post(2, Wr::in_line(SEND, 0, 0, &[9]));
    b.until(|b| b.posted.is_empty());
    b.closes.push_back(2);
    b.run(200);
    assert_eq!((b.host.outstanding(), b.events(2)), (4, &[][..]));
    b.settle();
    b.until(|b| b.events(2) == [DRAINED]);
    assert_eq!(b.lines[&2].done, 1);
}

/// One FPDU a turn: a small Write does not wait for a long message of another connection.
#[test]
fn a_long_message_does_not_hold_up_others() {
    let mut b = Bench::new(1..2, 0.0, 0.0);
    b.bind(1, PLAIN, 1460);
    b.bind(2, Params { qpn: 2, base: 1 << 40, ..PLAIN }, 1460);
    b.post(1, Wr::gather(WRITE, 0, 0, &[sge(1 << 20)]));
    for _ in 0..2000 {
        b.ack_all();
        b.clock();
    }
    let before = b.fpdu_clocks.len();
    b.post(2, Wr::in_line(WRITE, 0, 0, &[1]));
    while b.lines[&2].fpdus.is_empty() {
        b.ack_all();
        b.clock();
    }
    assert!(b.fpdu_clocks.len() - before < 8, "{} FPDUs of the other first", b.fpdu_clocks.len() - before);
}

/// A long message goes on by itself: nothing else is told of its connection, whatever comes for another one meanwhile, and when.
#[test]
fn a_long_message_goes_on_whatever_comes_for_others() {
    for delay in 0..80 {
        let mut b = Bench::new(1..2, 0.0, 0.0);
        b.bind(1, PLAIN, 1460);
        b.bind(2, Params { qpn: 2, base: 1 << 40, ..PLAIN }, 1460);
        b.post(1, Wr::gather(WRITE, 0, 0, &[sge(1440 * 30)]));
        b.until(|b| b.lines[&1].sent == 2);
        b.run(delay);
        b.post(2, Wr::in_line(WRITE, 0, 0, &[1]));
        b.until(|b| b.lines[&1].fpdus.len() == 30 && b.lines[&2].fpdus.len() == 1);
    }
}

/// Of all connections together four entries are fetched at a time.
#[test]
fn four_entries_are_fetched_at_a_time() {
    let mut b = Bench::new(300..301, 0.0, 0.0);
    // none is forgotten while the host takes nothing
    b.host.busy = 1.0;
    for index in 0..6u16 {
        b.bind(index, Params { qpn: index, base: u64::from(index) << 40, ..PLAIN }, 1460);
        for n in 0..5 {
            b.put(index, Wr::gather(SEND, 0, 0, &[Sge { len: 1 + u32::from(index), stag: 0x100 * n, addr: index.into() }]));
        }
        b.ring(index);
    }
    b.run(500);
    b.host.busy = 0.0;
    let mut most = 0;
    while !b.lines.values().all(Line::idle) {
        most = most.max(b.host.outstanding());
        b.ack_all();
        b.clock();
    }
    assert_eq!(most, 4);
}

/// Who tells something, and who orders, waits for a few jobs, however many entries have come.
#[test]
fn nobody_waits_for_all_the_entries_that_come() {
    let mut b = Bench::new(0..1, 0.0, 0.0);
    for index in 0..8u16 {
        b.bind(index, Params { qpn: index, base: u64::from(index) << 40, ..PLAIN }, 1460);
        for _ in 0..12 {
            b.put(index, Wr::in_line(WRITE, 0, 0, &[7; 8]));
        }
    }
    b.waits = [(0, 0); 2];
    for index in 0..8 {
        b.ring(index);
    }
    while !b.lines.values().all(Line::idle) {
        b.ack_all();
        if b.posted.is_empty() {
            b.ring(3);
        }
        b.clock();
    }
    println!("from_tx waited {}, posted {}", b.waits[0].1, b.waits[1].1);
    assert!(b.waits.iter().all(|(_, most)| *most < 150));
}

/// What comes for an index that is bound to nobody changes nothing for the next connection there, and nobody hears of it.
#[test]
fn what_comes_for_an_index_that_is_not_bound_is_ignored() {
    let mut b = Bench::new(1..5, 0.0, 0.1);
    b.bind(4, Params { qpn: 4, base: 1 << 40, ..PLAIN }, 1460);
    for _ in 0..2 {
        b.post(4, Wr::gather(SEND, 1, 2, &[sge(20_000)]));
        b.post(4, Wr::gather(READ, 1, 2, &[sge(1)]));
        b.until(|b| b.lines[&4].reads.len() == 1);
        for _ in 0..3 {
            b.from_tx.push_back((true, 9, 0));
        }
        b.posted.push_back((9, 40));
        b.closes.push_back(9);
        b.faults.push_back(9);
        for note in [READ_REQUEST, READ_DONE, TERM_WORD, TERM, STOP, HEARD] {
            b.rx(note, 9);
        }
        b.until(|b| b.from_tx.is_empty() && b.from_rx.is_empty() && b.posted.is_empty() && b.closes.is_empty() && b.faults.is_empty());
        b.run(200);
        b.bind(9, Params { responder: true, ..PLAIN }, 1460);
        b.post(9, Wr::gather(WRITE, 1, 2, &[sge(1440 * 40)]));
        b.run(1000);
        assert_eq!((b.lines[&9].sent, b.events(9)), (0, &[][..]));
        b.rx(HEARD, 9);
        b.run(2000);
        assert_eq!(b.lines[&9].fpdus.len(), 32);
        b.settle();
        b.closes.push_back(9);
        b.until(|b| !b.events(9).is_empty());
        assert_eq!(b.events(9), [DRAINED]);
        b.unbind(9);
        b.until(|b| !b.lines.contains_key(&9));
    }
    assert_eq!((b.lines[&4].done, b.events(4)), (4, &[][..]));
}

/// Covers: DDP-5, DDP-17
#[test]
fn the_longest_message_is_cut_to_its_end() {
    let mut b = Bench::new(0..1, 0.0, 0.0);
    b.bind(6, PLAIN, 65535);
    b.post(6, Wr::gather(WRITE, 1, u64::MAX, &[sge(0x7fff_ffff)]));
    while b.lines[&6].done == 0 {
        b.ack(6);
        b.clock();
    }
}

/// The queue of indices has room for all of them, however often one is bound anew while it stands there.
#[test]
fn an_index_that_is_bound_anew_does_not_take_the_place_of_another() {
    let mut b = Bench::new(1..2, 0.0, 0.0);
    let params = |index: u16| Params { qpn: index, base: u64::from(index) << 40, ..PLAIN };
    for index in 0..32 {
        b.bind(index, params(index), 1460);
    }
    b.post(0, Wr::gather(WRITE, 0, 0, &[sge(1440 * 20)]));
    // while an FPDU is not taken nobody has a turn
    b.until(|b| b.lines[&0].sent == 1);
    b.asleep[1] = u64::MAX;
    b.run(100);
    for index in 1..31 {
        b.post(index, Wr::in_line(SEND, 0, 0, &[9]));
    }
    b.unbind(5);
    b.run(500);
    b.asleep[1] = 0;
    b.until(|b| b.lines[&0].sent == 2);
    b.asleep[1] = u64::MAX;
    b.until(|b| b.unbound == [5]);
    b.run(100);
    b.bind(5, params(5), 1460);
    b.post(5, Wr::in_line(SEND, 0, 0, &[9]));
    b.run(100);
    b.post(31, Wr::in_line(SEND, 0, 0, &[9]));
    b.run(100);
    assert_eq!(b.lines[&0].sent, 2);
    b.asleep[1] = 0;
    b.settle();
}

/// Every bit of a length is in the item, in what is cut, and in what is told of a Read.
/// Covers: RDM-15
#[test]
fn every_bit_of_a_length_counts() {
    let mut b = Bench::new(1..4, 0.0, 0.0);
    for bit in 5..31 {
        for part in 0..4u32 {
            b.bind(6, PLAIN, 1460);
            let len = 1 << bit;
            match part {
                0 => b.post(6, Wr::gather(SEND, 1, 2, &[sge(len)])),
                1 => b.post(6, Wr::gather(WRITE, 1, 2, &[sge(len - 20), sge(20)])),
                2 => b.post(6, Wr::gather(READ, 1, 2, &[sge(len)])),
                _ => b.from_rx.push_back((READ_REQUEST, 6, Owed { stag: 5, to: 6, len, sink_stag: 8, sink_to: 9 })),
            }
            let fpdus = if part == 2 { 1 } else { len.div_ceil(1440).min(3) as usize };
            b.until(|b| b.lines[&6].fpdus.len() >= fpdus);
            b.unbind(6);
            b.until(|b| b.lines.is_empty());
        }
    }
}

/// The indices of the send queue come round at 2^16, the sequence numbers of its messages do not.
/// Covers: DDP-4
#[test]
fn a_queue_goes_on_when_its_indices_come_round() {
    let mut b = Bench::new(0..1, 0.0, 0.0);
    b.bind(17, Params { log2: 6, ..PLAIN }, 1460);
    let mut posted = 0;
    while b.lines[&17].done < 66_000 {
        // nothing is left to fetch at times
        if posted == b.lines[&17].done {
            for _ in 0..[7, 32, 33][posted % 3] {
                let opcode = if posted % 16 == 3 { READ } else { SEND };
                b.put(17, Wr::gather(opcode, 1, 2, &[]));
                posted += 1;
            }
            b.ring(17);
        }
        b.ack(17);
        b.end_reads();
        b.clock();
    }
}

fn random_wr(b: &mut Bench) -> Wr {
    let rng = &mut b.rng;
    let opcode = [0, 0, 1, 1, 3, 4, 5, 6][rng.random_range(0..8)];
    let (stag, to) = (rng.random(), rng.random());
    let mut wr = if opcode != READ && rng.random_bool(0.4) {
        let len = rng.random_range(0..=64);
        let data: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        Wr::in_line(opcode, stag, to, &data)
    } else {
        let count = if opcode == READ { rng.random_range(0..=1) } else { rng.random_range(0..=4) };
        let sges: Vec<Sge> = (0..count)
            .map(|_| {
                let len = [0, 1, rng.random_range(0..200), rng.random_range(0..5000)][rng.random_range(0..4)];
                Sge { len, stag: rng.random::<u32>() & !0xff | 0x11, addr: rng.random() }
            })
            .collect();
        Wr::gather(opcode, stag, to, &sges)
    };
    if rng.random_bool(0.5) {
        wr = wr.unsignaled();
    }
    if rng.random_bool(0.1) {
        wr = wr.flag(send_flag::FENCE);
    }
    wr
}

fn random_params(b: &mut Bench, index: u16, round: u64) -> Params {
    let rng = &mut b.rng;
    let rtr = rng.random_range(0..4);
    Params {
        qpn: index + 100 * (round % 500) as u16,
        pd: rng.random(),
        cqn: rng.random(),
        base: (u64::from(index) + 1) << 56 | rng.random::<u64>() >> 8 & !0x3f,
        log2: rng.random_range(6..10),
        all_signaled: rng.random(),
        crc: rng.random(),
        markers: rng.random(),
        responder: rng.random(),
        ord: rng.random_range(1..=16),
        rtr_write: rtr == 1,
        rtr_read: rtr == 2,
        terminate: 0,
    }
}

/// `clocks` of everything at once on the indices of `b`.
fn traffic(b: &mut Bench, clocks: u64, round: u64, ends: bool) {
    let indices = [0u16, 1, 5, 31];
    for step in 0..clocks {
        if step % 4 == 0 {
            let index = indices[b.rng.random_range(0..4)];
            match b.lines.get(&index) {
                // nobody speaks of the one before any more
                None if b.binds.is_empty()
                    && b.from_tx.is_empty()
                    && b.from_rx.iter().all(|(_, i, _)| *i != index)
                    && b.posted.iter().all(|(i, _)| *i != index) =>
                {
                    let p = random_params(b, index, round + step);
                    let emss = b.rng.random_range(100..3000);
                    b.bind(index, p, emss);
                }
                Some(line) if line.params.is_some() && !line.ending => {
                    let open = line.wrs.len() - line.done;
                    let requests = line.owed.len() + b.from_rx.iter().filter(|(n, i, _)| *n == READ_REQUEST && *i == index).count();
                    match b.rng.random_range(0..if ends { 2000 } else { 1999 }) {
                        0..250 if open < 32 => {
                            let wr = random_wr(b);
                            b.put(index, wr);
                            if b.rng.random_bool(0.6) {
                                b.ring(index);
                            }
                        }
                        250..400 if requests < 8 => {
                            let len = if b.rng.random() { b.rng.random_range(0..4000) } else { 0 };
                            let owed =
                                Owed { stag: b.rng.random(), to: b.rng.random(), len, sink_stag: b.rng.random(), sink_to: b.rng.random() };
                            b.from_rx.push_back((READ_REQUEST, index, owed));
                        }
                        400..1100 => b.ack(index),
                        1100..1500 if line.reads_begun > line.reads_ended + b.done_asked(index) => b.rx(READ_DONE, index),
                        // the model knows two values, so not while an FPDU of an earlier one may be on its way
                        1500..1510 if b.arrived.is_empty() && !b.m.to_tx_valid.get() && b.from_tx.iter().all(|(acked, ..)| *acked) => {
                            let emss = b.rng.random_range(100..3000);
                            b.from_tx.push_back((false, index, emss));
                        }
                        1510..1560 if !b.lines[&index].heard => b.rx(HEARD, index),
                        1999 => b.unbind(index),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        b.clock();
    }
}

/// Random work of all kinds on several connections, with every neighbour slow at times; at the end all is complete.
/// Covers: RDM-7, DDP-4, DDP-5, DDP-6
#[test]
fn random_work() {
    let clocks = std::env::var("SQ_CLOCKS").ok().and_then(|s| s.parse().ok()).unwrap_or(60_000);
    for (stall, sleepy) in [(0.0, 0.0), (0.2, 0.0), (0.7, 0.0), (0.0, 0.005)] {
        let mut b = Bench::new(1..60, 0.1, stall);
        b.sleepy = sleepy;
        traffic(&mut b, clocks, 0, false);
        let indices: Vec<u16> = b.lines.keys().copied().collect();
        for index in indices {
            if !b.lines[&index].heard {
                b.rx(HEARD, index);
            }
            b.ring(index);
        }
        b.settle();
        let done: usize = b.lines.values().map(|l| l.done).sum();
        println!("{done} work requests");
        assert!(done > 40);
    }
}

/// `Unbind` at any time: nothing of the index follows its answer, and the next user of it begins anew.
#[test]
fn unbind_at_any_time() {
    let mut b = Bench::new(1..60, 0.1, 0.2);
    traffic(&mut b, 300_000, 0, true);
    println!("{} times", b.unbound.len());
    assert!(b.unbound.len() > 5);
}

/// An Unbind waits for the entry that is being fetched.
#[test]
fn unbind_waits_for_a_fetch() {
    let mut b = Bench::new(300..301, 0.0, 0.0);
    b.bind(1, PLAIN, 1460);
    b.bind(2, Params { qpn: 2, base: 1 << 40, ..PLAIN }, 1460);
    b.post(1, Wr::in_line(SEND, 0, 0, &[9]));
    b.until(|b| b.host.outstanding() == 1);
    b.unbind(1);
    b.run(200);
    assert_eq!(b.unbound, []);
    b.until(|b| !b.unbound.is_empty());
    assert_eq!(b.host.outstanding(), 0);
    b.post(2, Wr::in_line(SEND, 0, 0, &[9]));
    b.settle();
    b.unbind(2);
    b.until(|b| b.lines.is_empty());
}

#[test]
fn reset_at_any_time() {
    let mut b = Bench::new(1..60, 0.1, 0.2);
    for round in 0..12 {
        let clocks = b.rng.random_range(100..3000);
        traffic(&mut b, clocks, round << 12, true);
        b.reset();
    }
    b.bind(1, PLAIN, 1460);
    b.post(1, Wr::in_line(SEND, 0, 0, &[9]));
    b.settle();
}

/// Clocks of the paths that count.
#[test]
fn clocks() {
    let mut b = Bench::new(0..1, 0.0, 0.0);
    b.bind(1, PLAIN, 1460);
    b.run(20);
    b.post(1, Wr::in_line(WRITE, 0, 0, &[7; 64]));
    let start = b.clocks;
    b.until(|b| !b.fpdu_clocks.is_empty());
    let latency = b.fpdu_clocks[0] - start;
    println!("doorbell to FPDU of an inline Write: {latency}");
    b.settle();
    for _ in 0..60 {
        b.put(1, Wr::in_line(WRITE, 0, 0, &[7; 8]));
    }
    b.ring(1);
    b.settle();
    let rate = (b.fpdu_clocks[55] - b.fpdu_clocks[15]) / 40;
    println!("an inline Write every {rate}");
    let before = b.fpdu_clocks.len();
    b.post(1, Wr::gather(WRITE, 0, 0, &[sge(1440 * 60)]));
    b.settle();
    let long = (b.fpdu_clocks[before + 55] - b.fpdu_clocks[before + 15]) / 40;
    println!("an FPDU of a long message every {long}");
    b.unbind(1);
    b.until(|b| b.lines.is_empty());
    b.bind(1, Params { markers: true, ..PLAIN }, 1460);
    let before = b.fpdu_clocks.len();
    b.post(1, Wr::gather(WRITE, 0, 0, &[sge(1440 * 60)]));
    b.settle();
    let marked = (b.fpdu_clocks[before + 55] - b.fpdu_clocks[before + 15]) / 40;
    println!("with markers every {marked}");
    assert!(latency <= 33 && rate <= 18 && long <= 14 && marked <= 18);
}
