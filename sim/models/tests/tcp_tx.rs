// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::tx`: the sending half of TCP between stand-ins for all its neighbours, each segment and deadline checked against a plain model
//! of RFC 6298 and RFC 5681. Time stands still while the block works and then jumps, so hours take milliseconds.
use ironwarp_models::{bench, tcp_tx::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};

const CONNECTIONS: u16 = 32;
const OWN_MAC: u64 = 0x0605_0403_0202;
const PEER_MAC: u64 = 0x0101_0101_0102;
const OWN_IP: u32 = 0xc000_0201;
const PEER_IP: u32 = 0xc000_0207;
const FAR_IP: u32 = 0x0808_0808;
const GATEWAY: u32 = 0xc000_02fe;
const WINDOW: u16 = 32768;
const RTO_INIT: u32 = 1_000_000;
const RTO_MIN: u32 = 200_000;
const RTO_MAX: u32 = 60_000_000;
const R2: u32 = 100_000_000;
const R2_SYN: u32 = 180_000_000;
const ISN: u32 = 0xffff_ff00;
const RCV: u32 = 0x7000_0000;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Is `a` before `b`?
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tuple {
    local_ip: u32,
    remote_ip: u32,
    local_port: u16,
    remote_port: u16,
}

fn tuple(index: u16, remote_ip: u32) -> Tuple {
    Tuple { local_ip: OWN_IP, remote_ip, local_port: 1000 + index, remote_port: 4420 }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Open,
    Syn,
    Update,
    Answer,
    Stop,
    Reply,
}

#[derive(Clone, Copy, Debug)]
struct Rx {
    note: Note,
    index: u16,
    tuple: Tuple,
    passive: bool,
    rcv_nxt: u32,
    ack: u32,
    window: u32,
    mss: u16,
    ack_now: bool,
    soft: bool,
    duplicate: bool,
    challenge: bool,
    seq: u32,
    flags: u8,
}

impl Rx {
    fn of(self, index: u16) -> Self {
        Rx { index, ..self }
    }
}

fn rx(note: Note, index: u16) -> Rx {
    Rx {
        note,
        index,
        tuple: tuple(index, PEER_IP),
        passive: false,
        rcv_nxt: RCV,
        ack: 0,
        window: 0,
        mss: 0,
        ack_now: false,
        soft: false,
        duplicate: false,
        challenge: false,
        seq: 0,
        flags: 0,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Send,
    Close,
    Abort,
    Free,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Freed,
    TimedOut,
    Unreachable,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Segment {
    mac: u64,
    tuple: Tuple,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    mss: u16,
    tos: u8,
    len: u16,
    skip: u16,
    /// Of this FPDU; else of the start-up frame.
    fpdu: Option<u32>,
}

impl Segment {
    /// SEQ after it.
    fn end(&self) -> u32 {
        self.seq.wrapping_add(u32::from(self.len) + u32::from(self.flags & (SYN | FIN) != 0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Max {
    index: u16,
    start: bool,
    max: u32,
    fin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbor {
    Found(u64),
    Missing,
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Query {
    ip: u32,
    source: u32,
    recheck: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    retrans: u64,
    timeouts: u64,
    give_ups: u64,
    challenges: u64,
    no_neighbor: u64,
}

/// RFC 6298 and RFC 5681 for one connection, in plain words.
#[derive(Clone, Debug, Default)]
struct Reference {
    open: bool,
    una: u32,
    max: u32,
    wnd: u32,
    emss: u32,
    cwnd: u32,
    ssthresh: u32,
    acc: u32,
    srtt: u32,
    rttvar: u32,
    rto: u32,
    sampled: bool,
    syn_lost: bool,
    timed: Option<(u32, u32)>,
    losses: u32,
    probes: u32,
    /// RFC 6582.
    duplicates: u32,
    first_duplicate: u32,
    recover: Option<u32>,
    recovering: bool,
}

impl Reference {
    fn new(isn: u32, window: u32, emss: u32, rto: u32) -> Self {
        Reference { una: isn, max: isn, wnd: window, emss, ssthresh: u32::MAX, rto, ..Self::default() }
    }
    fn initial_window(&self) -> u32 {
        match self.emss {
            e if self.syn_lost => e,
            e if e > 2190 => 2 * e,
            e if e > 1095 => 3 * e,
            e => 4 * e,
        }
    }
    fn update(&mut self, now: u32, ack: u32, window: u32, limits: (u32, u32)) {
        let gained = ack.wrapping_sub(self.una);
        let opened = (self.wnd == 0) != (window == 0);
        self.wnd = window;
        if opened {
            self.probes = 0;
            self.losses = 0;
        }
        if gained == 0 || before(ack, self.una) || before(self.max, ack) {
            return;
        }
        self.una = ack;
        self.duplicates = 0;
        self.losses = 0;
        self.probes = 0;
        if let Some((seq, start)) = self.timed {
            if !before(ack, seq) {
                self.timed = None;
                self.sample(now.wrapping_sub(start), limits);
            }
        }
        if !self.open {
            self.open = true;
            self.cwnd = self.initial_window();
            if self.syn_lost {
                self.rto = self.rto.max(3_000_000).min(limits.1);
            }
        } else if self.recovering {
            let flight = self.max.wrapping_sub(ack);
            if !before(ack, self.recover.expect("in recovery")) {
                self.recovering = false;
                self.cwnd = self.ssthresh.min(flight.max(self.emss) + self.emss);
            } else {
                self.cwnd =
                    if gained > self.cwnd { self.emss } else { self.cwnd - gained + if gained >= self.emss { self.emss } else { 0 } };
            }
            self.acc = 0;
        } else if self.cwnd < self.ssthresh {
            self.cwnd += gained.min(self.emss);
            self.acc = 0;
        } else {
            self.acc += gained;
            if self.acc >= self.cwnd {
                self.acc -= self.cwnd;
                self.cwnd += self.emss;
            }
        }
    }
    fn duplicate(&mut self) {
        if self.recovering {
            self.cwnd += self.emss;
            return;
        }
        if self.duplicates == 0 {
            if self.recover.is_some_and(|r| !before(r, self.una)) {
                return;
            }
            self.first_duplicate = self.max;
        }
        self.duplicates += 1;
        if self.duplicates == 3 {
            self.duplicates = 0;
            self.recovering = true;
            self.recover = Some(self.max);
            self.ssthresh = (self.first_duplicate.wrapping_sub(self.una) / 2).max(2 * self.emss);
            self.cwnd = self.ssthresh + 3 * self.emss;
        }
    }
    fn sample(&mut self, r: u32, limits: (u32, u32)) {
        if self.sampled {
            let delta = self.srtt.abs_diff(r);
            self.rttvar = self.rttvar - self.rttvar / 4 + delta / 4;
            self.srtt = if r > self.srtt { self.srtt + delta / 8 } else { self.srtt - delta / 8 };
        } else {
            self.sampled = true;
            self.srtt = r;
            self.rttvar = r / 2;
        }
        self.rto = (self.srtt + (4 * self.rttvar).max(1)).clamp(limits.0, limits.1);
    }
    fn timeout(&mut self, rto_max: u32) {
        let flight = self.max.wrapping_sub(self.una);
        if self.open && self.losses == 0 {
            self.ssthresh = (flight / 2).max(2 * self.emss);
        }
        self.losses += 1;
        self.duplicates = 0;
        self.recovering = false;
        self.recover = Some(self.max);
        self.cwnd = self.emss;
        self.acc = 0;
        self.timed = None;
        self.syn_lost |= !self.open;
        self.rto = (2 * self.rto).min(rto_max);
    }
    /// A segment with sequence numbers leaves; is it a retransmission?
    fn sent(&mut self, now: u32, s: &Segment) -> bool {
        let again = before(s.seq, self.max);
        if again {
            self.timed = None;
        } else if self.timed.is_none() {
            self.timed = Some((s.end(), now));
        }
        if before(self.max, s.end()) {
            self.max = s.end();
        }
        again
    }
    /// What a deadline set now must be.
    fn interval(&self, rto_max: u32) -> u32 {
        if self.una != self.max && (self.wnd != 0 || !self.open) {
            return self.rto;
        }
        (u64::from(self.rto) << self.probes.min(31)).min(u64::from(rto_max)) as u32
    }
}

/// A message of `rdma::sq`; `id` stands in the reference that goes to `mpa::tx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fpdu {
    index: u16,
    id: u32,
    wire_len: u16,
    push: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToSq {
    Emss(u16, u16),
    Acked(u16, u8),
}

/// A payload that was asked for: of which index, from where on, how much, and of which FPDU.
type Asked = (u16, u16, u16, Option<u32>);

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    now: u32,
    /// Chance that an output is taken in a clock.
    taking: f64,
    /// These are not taken at all.
    hold_to_rx: bool,
    hold_to_cm: bool,
    hold_to_sq: bool,
    payload_busy: bool,
    rto_limits: (u32, u32),
    mss_own: u32,
    rx_in: VecDeque<Rx>,
    cm_in: VecDeque<(Op, u16, u16, u8)>,
    sq_in: VecDeque<Fpdu>,
    to_sq: Vec<ToSq>,
    isn: u32,
    isn_due: Option<u32>,
    isn_tuples: Vec<Tuple>,
    neighbors: HashMap<u32, Neighbor>,
    /// What `neighbors` was in the clock before.
    told_neighbors: HashMap<u32, Neighbor>,
    answer_due: Option<Neighbor>,
    queries: Vec<Query>,
    notices: VecDeque<(u32, bool)>,
    deadlines: BTreeMap<u16, u32>,
    expiry: Option<u16>,
    /// An expiry that nobody set.
    stray: Option<u16>,
    expired: u16,
    half: (Option<Segment>, Option<Asked>),
    /// What was offered and not taken: it must stay.
    offered: [Option<[u64; 6]>; 8],
    segments: Vec<Segment>,
    to_rx: Vec<Max>,
    told: Vec<(u16, Told)>,
    counts: Counts,
    retrans_expected: u64,
    reference: HashMap<u16, Reference>,
    /// A deadline to compare: index, how far ahead it was set, clock. A message that is being worked on is taken in the clock after.
    set: Option<(u16, u32, u64)>,
    /// Chance that a neighbour is not known; then a notice follows.
    flaky: f64,
    /// Clocks without anything to see after which the block is at rest.
    rest: u32,
    quiet: u32,
    clocks: u64,
}

impl Bench {
    fn new(test_seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(test_seed),
            rng: ChaCha8Rng::seed_from_u64(test_seed),
            now: 0xfff0_0000,
            taking: 1.0,
            hold_to_rx: false,
            hold_to_cm: false,
            hold_to_sq: false,
            payload_busy: false,
            rto_limits: (RTO_MIN, RTO_MAX),
            mss_own: 1460,
            rx_in: VecDeque::new(),
            cm_in: VecDeque::new(),
            sq_in: VecDeque::new(),
            to_sq: vec![],
            isn: ISN,
            isn_due: None,
            isn_tuples: vec![],
            neighbors: HashMap::from([(PEER_IP, Neighbor::Found(PEER_MAC)), (GATEWAY, Neighbor::Found(PEER_MAC))]),
            told_neighbors: HashMap::new(),
            answer_due: None,
            queries: vec![],
            notices: VecDeque::new(),
            deadlines: BTreeMap::new(),
            expiry: None,
            stray: None,
            expired: 0,
            half: (None, None),
            offered: Default::default(),
            segments: vec![],
            to_rx: vec![],
            told: vec![],
            counts: Counts::default(),
            retrans_expected: 0,
            reference: HashMap::new(),
            set: None,
            flaky: 0.0,
            rest: 250,
            quiet: 0,
            clocks: 0,
        };
        let m = &mut b.m;
        m.own_mac.set(OWN_MAC);
        m.local_0_valid.set(1);
        m.local_0_ip.set(u64::from(OWN_IP));
        m.local_0_mask.set(0xffff_ff00);
        m.local_0_gateway.set(u64::from(GATEWAY));
        m.tcp_window.set(WINDOW);
        m.tcp_rto_init.set(RTO_INIT);
        m.tcp_r1.set(3);
        m.tcp_r2.set(R2);
        m.tcp_r2_syn.set(R2_SYN);
        m.tcp_challenges.set(10);
        b.limits(RTO_MIN, RTO_MAX);
        b.mtu(1500);
        b.reset();
        b
    }
    fn limits(&mut self, min: u32, max: u32) {
        self.rto_limits = (min, max);
        self.m.tcp_rto_min.set(min);
        self.m.tcp_rto_max.set(max);
    }
    fn mtu(&mut self, mtu: u16) {
        self.mss_own = u32::from(mtu) - 40;
        self.m.mtu.set(mtu);
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.rx_in.clear();
        self.cm_in.clear();
        self.sq_in.clear();
        self.isn_due = None;
        self.answer_due = None;
        self.notices.clear();
        self.deadlines.clear();
        self.expiry = None;
        self.half = (None, None);
        self.offered = Default::default();
        self.set = None;
        self.reference.clear();
        self.forget();
        for clocks in 0.. {
            self.m.eval();
            if self.m.ready.get() {
                assert_eq!(clocks, 4 * CONNECTIONS, "nothing is taken before");
                break;
            }
            assert!(clocks <= 4 * CONNECTIONS, "cleared within 4 clocks each");
            self.m.tick();
        }
    }
    /// Drops what was recorded.
    fn forget(&mut self) {
        self.segments.clear();
        self.to_rx.clear();
        self.to_sq.clear();
        self.told.clear();
        self.queries.clear();
        self.isn_tuples.clear();
    }
    fn take(&mut self) -> bool {
        self.taking >= 1.0 || self.rng.random_bool(self.taking)
    }

    fn drive(&mut self) {
        if self.expiry.is_none() {
            self.expiry = self.stray.take().or_else(|| {
                let now = self.now;
                let due = self.deadlines.iter().find(|(_, at)| !before(now, **at)).map(|(index, _)| *index);
                due.inspect(|index| {
                    self.deadlines.remove(index);
                })
            });
        }
        let (to_rx, to_cm) = (!self.hold_to_rx && self.take(), !self.hold_to_cm && self.take());
        let to_sq = !self.hold_to_sq;
        let (segment, payload, query, deadline, isn) = (self.take(), self.take(), self.take(), self.take(), self.take());
        let isn_valid = self.isn_due.is_some() && self.take();
        let answer_valid = self.answer_due.is_some() && self.take();
        let m = &mut self.m;
        m.time_us.set(self.now);
        m.payload_busy.set(self.payload_busy);
        m.to_rx_ready.set(to_rx);
        m.to_cm_ready.set(to_cm);
        m.to_sq_ready.set(to_sq);
        m.segment_ready.set(segment);
        m.payload_ready.set(payload);
        m.query_ready.set(query);
        m.deadline_ready.set(deadline);
        m.isn_req_ready.set(isn);
        m.isn_valid.set(isn_valid);
        m.isn_data.set(self.isn_due.unwrap_or(0xdead_beef));
        m.answer_valid.set(answer_valid);
        let (found, busy, mac) = match self.answer_due {
            Some(Neighbor::Found(mac)) => (1, 0, mac),
            Some(Neighbor::Busy) => (0, 1, 0x1357),
            _ => (0, 0, 0x1357),
        };
        m.answer_data_found.set(found);
        m.answer_data_busy.set(busy);
        m.answer_data_mac.set(mac);
        m.expired_valid.set(self.expiry.is_some());
        m.expired_data.set(self.expiry.unwrap_or(0));
        let notice = if self.answer_due.is_none() { self.notices.pop_front() } else { None };
        m.notice_valid.set(notice.is_some());
        m.neighbors_changed.set(self.told_neighbors != self.neighbors);
        self.told_neighbors.clone_from(&self.neighbors);
        if let Some((ip, ok)) = notice {
            m.notice_ip.set(u64::from(ip));
            m.notice_ok.set(u64::from(ok));
        }
        m.from_cm_valid.set(!self.cm_in.is_empty());
        if let Some((op, index, len, tos)) = self.cm_in.front() {
            m.from_cm_data_op.set(*op as u64);
            m.from_cm_data_index.set(u64::from(*index));
            m.from_cm_data_len.set(u64::from(*len));
            m.from_cm_data_tos.set(u64::from(*tos));
        }
        m.from_sq_valid.set(!self.sq_in.is_empty());
        if let Some(f) = self.sq_in.front() {
            m.from_sq_data_index.set(u64::from(f.index));
            m.from_sq_data_fpdu_offset.set(u64::from(f.id));
            m.from_sq_data_fpdu_item.set(u64::from(f.id & 15));
            m.from_sq_data_fpdu_len.set(u64::from(!f.wire_len));
            m.from_sq_data_fpdu_last.set(u64::from(f.push));
            m.from_sq_data_fpdu_phase.set(u64::from(f.id >> 3 & 511));
            m.from_sq_data_wire_len.set(u64::from(f.wire_len));
            m.from_sq_data_push.set(u64::from(f.push));
        }
        m.from_rx_valid.set(!self.rx_in.is_empty());
        if let Some(r) = self.rx_in.front() {
            m.from_rx_data_note.set(r.note as u64);
            m.from_rx_data_index.set(u64::from(r.index));
            m.from_rx_data_tuple_local_ip.set(u64::from(r.tuple.local_ip));
            m.from_rx_data_tuple_remote_ip.set(u64::from(r.tuple.remote_ip));
            m.from_rx_data_tuple_local_port.set(u64::from(r.tuple.local_port));
            m.from_rx_data_tuple_remote_port.set(u64::from(r.tuple.remote_port));
            m.from_rx_data_passive.set(u64::from(r.passive));
            m.from_rx_data_rcv_nxt.set(u64::from(r.rcv_nxt));
            m.from_rx_data_ack.set(u64::from(r.ack));
            m.from_rx_data_window.set(u64::from(r.window));
            m.from_rx_data_mss.set(u64::from(r.mss));
            m.from_rx_data_ack_now.set(u64::from(r.ack_now));
            m.from_rx_data_challenge.set(u64::from(r.challenge));
            m.from_rx_data_soft.set(u64::from(r.soft));
            m.from_rx_data_duplicate.set(u64::from(r.duplicate));
            m.from_rx_data_seq.set(u64::from(r.seq));
            m.from_rx_data_flags.set(u64::from(r.flags));
        }
        m.eval();
    }

    /// One clock.
    fn clock(&mut self) {
        self.drive();
        assert!(self.m.ready.get());
        self.quiet += 1;
        self.clocks += 1;
        let m = &self.m;
        let busy = [&m.from_rx_valid, &m.from_cm_valid, &m.from_sq_valid, &m.notice_valid, &m.expired_valid, &m.isn_valid, &m.answer_valid];
        let offers = [
            &m.segment_valid,
            &m.payload_valid,
            &m.query_valid,
            &m.deadline_valid,
            &m.isn_req_valid,
            &m.to_rx_valid,
            &m.to_cm_valid,
            &m.to_sq_valid,
        ];
        if busy.iter().chain(&offers).any(|v| v.get()) {
            self.quiet = 0;
        }
        let words = [
            [
                m.segment_data_mac.get(),
                m.segment_data_tuple_local_ip.get() << 32 | m.segment_data_tuple_remote_ip.get(),
                m.segment_data_tuple_local_port.get() << 16 | m.segment_data_tuple_remote_port.get(),
                m.segment_data_seq.get() << 32 | m.segment_data_ack.get(),
                m.segment_data_flags.get() << 32 | m.segment_data_window.get() << 16 | m.segment_data_mss.get(),
                m.segment_data_tos.get() << 16 | m.segment_data_len.get(),
            ],
            [
                m.payload_data_index.get(),
                m.payload_data_skip.get(),
                m.payload_data_take.get(),
                m.payload_data_data.get(),
                m.payload_data_fpdu_offset.get(),
                0,
            ],
            [m.query_data_ip.get(), m.query_data_source.get(), m.query_data_recheck.get(), 0, 0, 0],
            [m.deadline_data_index.get(), m.deadline_data_on.get(), m.deadline_data_at.get(), 0, 0, 0],
            [
                m.isn_req_data_local_ip.get() << 32 | m.isn_req_data_remote_ip.get(),
                m.isn_req_data_local_port.get() << 16 | m.isn_req_data_remote_port.get(),
                0,
                0,
                0,
                0,
            ],
            [m.to_rx_data_index.get(), m.to_rx_data_start.get(), m.to_rx_data_max.get(), m.to_rx_data_fin.get(), 0, 0],
            [m.to_cm_data_index.get(), m.to_cm_data_note.get(), 0, 0, 0, 0],
            [m.to_sq_data_index.get(), m.to_sq_data_note.get(), m.to_sq_data_emss.get(), m.to_sq_data_count.get(), 0, 0],
        ];
        let readys = [
            &m.segment_ready,
            &m.payload_ready,
            &m.query_ready,
            &m.deadline_ready,
            &m.isn_req_ready,
            &m.to_rx_ready,
            &m.to_cm_ready,
            &m.to_sq_ready,
        ];
        for (((offered, words), valid), ready) in self.offered.iter_mut().zip(words).zip(offers).zip(readys) {
            if let Some(before) = offered {
                assert!(valid.get() && *before == words, "what is offered stays: {before:x?}, {words:x?}");
            }
            *offered = (valid.get() && !ready.get()).then_some(words);
        }
        if m.from_cm_ready.get() && m.from_cm_valid.get() {
            self.cm_in.pop_front();
        }
        if m.from_sq_ready.get() && m.from_sq_valid.get() {
            self.sq_in.pop_front();
        }
        if m.to_sq_valid.get() && m.to_sq_ready.get() {
            let index = m.to_sq_data_index.get() as u16;
            self.to_sq.push(match m.to_sq_data_note.get() {
                0 => ToSq::Emss(index, m.to_sq_data_emss.get() as u16),
                _ => ToSq::Acked(index, m.to_sq_data_count.get() as u8),
            });
        }
        if m.expired_ready.get() && m.expired_valid.get() {
            self.expired = self.expiry.take().expect("offered");
        }
        if m.isn_req_valid.get() && m.isn_req_ready.get() {
            self.isn_tuples.push(Tuple {
                local_ip: m.isn_req_data_local_ip.get() as u32,
                remote_ip: m.isn_req_data_remote_ip.get() as u32,
                local_port: m.isn_req_data_local_port.get() as u16,
                remote_port: m.isn_req_data_remote_port.get() as u16,
            });
            self.isn_due = Some(self.isn);
        } else if m.isn_valid.get() && m.isn_ready.get() {
            self.isn_due = None;
        }
        if m.query_valid.get() && m.query_ready.get() {
            let ip = m.query_data_ip.get() as u32;
            self.queries.push(Query { ip, source: m.query_data_source.get() as u32, recheck: m.query_data_recheck.bit() });
            assert!(self.answer_due.is_none(), "one query at a time");
            self.answer_due = Some(*self.neighbors.get(&ip).unwrap_or(&Neighbor::Missing));
            let flaky = self.rng.random_bool(self.flaky);
            if m.query_data_recheck.bit() || flaky {
                self.answer_due = Some(Neighbor::Missing);
                if self.flaky > 0.0 {
                    self.notices.push_back((ip, true));
                }
            }
        } else if m.answer_valid.get() && m.answer_ready.get() {
            self.answer_due = None;
        }
        if m.to_rx_valid.get() && m.to_rx_ready.get() {
            self.to_rx.push(Max {
                index: m.to_rx_data_index.get() as u16,
                start: m.to_rx_data_start.bit(),
                max: m.to_rx_data_max.get() as u32,
                fin: m.to_rx_data_fin.bit(),
            });
        }
        if m.to_cm_valid.get() && m.to_cm_ready.get() {
            let note = [Told::Freed, Told::TimedOut, Told::Unreachable][m.to_cm_data_note.get() as usize];
            self.told.push((m.to_cm_data_index.get() as u16, note));
        }
        if m.segment_valid.get() && m.segment_ready.get() {
            assert!(self.half.0.is_none(), "a segment whose payload was not asked for");
            self.half.0 = Some(Segment {
                mac: m.segment_data_mac.get(),
                tuple: Tuple {
                    local_ip: m.segment_data_tuple_local_ip.get() as u32,
                    remote_ip: m.segment_data_tuple_remote_ip.get() as u32,
                    local_port: m.segment_data_tuple_local_port.get() as u16,
                    remote_port: m.segment_data_tuple_remote_port.get() as u16,
                },
                seq: m.segment_data_seq.get() as u32,
                ack: m.segment_data_ack.get() as u32,
                flags: m.segment_data_flags.get() as u8,
                window: m.segment_data_window.get() as u16,
                mss: m.segment_data_mss.get() as u16,
                tos: m.segment_data_tos.get() as u8,
                len: m.segment_data_len.get() as u16,
                skip: 0,
                fpdu: None,
            });
        }
        if m.payload_valid.get() && m.payload_ready.get() {
            assert!(self.half.1.is_none(), "a payload whose segment was not sent");
            let fpdu = m.payload_data_data.bit().then(|| m.payload_data_fpdu_offset.get() as u32);
            if let Some(id) = fpdu {
                assert_eq!(
                    (m.payload_data_fpdu_item.get(), m.payload_data_fpdu_phase.get()),
                    (u64::from(id & 15), u64::from(id >> 3 & 511))
                );
            }
            let (index, skip) = (m.payload_data_index.get() as u16, m.payload_data_skip.get() as u16);
            self.half.1 = Some((index, skip, m.payload_data_take.get() as u16, fpdu));
        }
        let c = &mut self.counts;
        for (pulse, count) in [
            (&m.cnt_tcp_retrans_segs, &mut c.retrans),
            (&m.cnt_tcp_timeouts, &mut c.timeouts),
            (&m.cnt_tcp_give_ups, &mut c.give_ups),
            (&m.cnt_tcp_challenge_acks, &mut c.challenges),
            (&m.cnt_tcp_no_neighbor, &mut c.no_neighbor),
        ] {
            *count += u64::from(pulse.get());
        }
        if m.cnt_tcp_timeouts.get() {
            let max = self.rto_limits.1;
            self.reference.get_mut(&self.expired).expect("a connection").timeout(max);
        }
        if m.deadline_valid.get() && m.deadline_ready.get() {
            let index = m.deadline_data_index.get() as u16;
            self.deadlines.remove(&index);
            if self.expiry == Some(index) {
                self.expiry = None;
            }
            if m.deadline_data_on.bit() {
                let at = m.deadline_data_at.get() as u32;
                self.set = Some((index, at.wrapping_sub(self.now), self.clocks));
                self.deadlines.insert(index, at);
            }
        }
        let done = m.from_rx_ready.get() && m.from_rx_valid.get();
        let index = match (self.half.0, self.half.1) {
            (Some(s), None) if s.len == 0 => Some(None),
            (Some(_), Some((index, ..))) => Some(Some(index)),
            _ => None,
        };
        if let Some(payload_of) = index {
            let mut s = self.half.0.take().expect("seen");
            if let Some((_, skip, take, fpdu)) = self.half.1.take() {
                assert_eq!(take, s.len, "the payload of this segment");
                s.skip = skip;
                s.fpdu = fpdu;
            }
            self.segment(s, payload_of);
        }
        if done {
            let r = self.rx_in.pop_front().expect("offered");
            self.taken(&r);
        }
        if self.set.is_some_and(|(_, _, clock)| clock + 2 == self.clocks) {
            let (index, ahead, _) = self.set.take().expect("seen");
            assert_eq!(ahead, self.reference[&index].interval(self.rto_limits.1), "{:?}", self.reference[&index]);
        }
        self.m.tick();
    }

    /// A segment has left: what is true of all of them.
    fn segment(&mut self, s: Segment, payload_of: Option<u16>) {
        assert_eq!(s.mss != 0, s.flags & SYN != 0, "the MSS option belongs to SYN (TCP-47)");
        assert_eq!(s.window, WINDOW);
        assert!(s.flags & ACK != 0 || s.ack == 0);
        assert_eq!(s.flags & !(FIN | SYN | RST | PSH | ACK), 0, "no ECN, no URG");
        let index = s.tuple.local_port.wrapping_sub(1000);
        if let (Some(r), true) = (self.reference.get_mut(&index), s.end() != s.seq) {
            assert!(payload_of.is_none_or(|i| i == index), "the payload of this connection");
            self.retrans_expected += u64::from(r.sent(self.now, &s));
            if r.open {
                assert!(s.len == 0 || u32::from(s.len) <= r.emss, "not above the effective send size");
                let allowed = r.una.wrapping_add((r.cwnd + r.duplicates * r.emss).min(r.wnd));
                assert!(!before(allowed, s.end()), "beyond SND.UNA + min(cwnd {}, window {}): {s:?} {r:?}", r.cwnd, r.wnd);
            }
        } else if let (Some(r), true) = (self.reference.get_mut(&index), s.flags == ACK) {
            r.probes += u32::from(s.seq == r.una.wrapping_sub(1));
        }
        self.segments.push(s);
    }
    /// The block has taken a message of `rx`.
    fn taken(&mut self, r: &Rx) {
        let mss = u32::from(if r.mss == 0 { 536 } else { r.mss });
        let emss = mss.min(self.mss_own);
        match r.note {
            Note::Open => {
                let rto = self.m.tcp_rto_init.get().min(self.rto_limits.1);
                self.reference.insert(r.index, Reference::new(self.isn, if r.passive { r.window } else { 0 }, emss, rto));
            }
            Note::Syn | Note::Update => {
                let (now, limits) = (self.now, self.rto_limits);
                if let Some(reference) = self.reference.get_mut(&r.index) {
                    if r.note == Note::Syn {
                        reference.emss = emss;
                        if r.ack == reference.una {
                            reference.timed = None;
                        }
                    }
                    if r.duplicate && reference.una != reference.max {
                        reference.duplicate();
                    }
                    reference.update(now, r.ack, r.window, limits);
                }
            }
            _ => {}
        }
    }

    /// Runs until nothing happens any more.
    fn settle(&mut self) {
        self.quiet = 0;
        let mut left = 200_000;
        while self.quiet < self.rest || self.half != (None, None) {
            self.clock();
            left -= 1;
            assert!(left > 0, "it does not come to rest");
        }
        assert_eq!(self.counts.retrans, self.retrans_expected);
    }
    /// Lets `us` pass, stopping at every deadline on the way.
    fn pass(&mut self, us: u32) {
        let end = self.now.wrapping_add(us);
        while let Some(at) = self.deadlines.values().copied().filter(|at| !before(end, *at)).min_by_key(|at| at.wrapping_sub(self.now)) {
            self.now = at;
            self.settle();
        }
        self.now = end;
        self.settle();
    }
    /// Jumps to the next deadline of `index`; returns how far that was.
    fn expire(&mut self, index: u16) -> u32 {
        let at = *self.deadlines.get(&index).expect("a deadline");
        let waited = at.wrapping_sub(self.now);
        self.now = at.wrapping_sub(1);
        self.settle();
        self.now = at;
        self.settle();
        waited
    }
    fn rx(&mut self, r: Rx) {
        self.rx_in.push_back(r);
        self.settle();
    }
    fn cm(&mut self, op: Op, index: u16, len: u16) {
        self.cm_in.push_back((op, index, len, 0x28));
        self.settle();
    }
    fn update(&mut self, index: u16, ack: u32, window: u32) {
        self.rx(Rx { ack, window, ..rx(Note::Update, index) });
    }
    /// An open connection, nothing recorded yet.
    fn opened(&mut self, index: u16, mss: u16, window: u32) {
        // in an active open these fields mean nothing
        self.rx(Rx { window: 65535, mss: 1, ack: 0x1234_5678, ..rx(Note::Open, index) });
        self.rx(Rx { ack: self.isn.wrapping_add(1), window, mss, ..rx(Note::Syn, index) });
        self.forget();
    }
    fn lens(&self) -> Vec<u16> {
        self.segments.iter().map(|s| s.len).collect()
    }
    /// Frees `index` and sees that nothing is left.
    fn free(&mut self, index: u16) {
        self.cm(Op::Free, index, 0);
        assert_eq!(self.told.pop(), Some((index, Told::Freed)));
        assert_eq!(self.deadlines.get(&index), None, "no timer runs");
        self.reference.remove(&index);
    }
    fn seq(&self, offset: u32) -> u32 {
        self.isn.wrapping_add(offset)
    }
}

/// Covers: TCP-47
#[test]
fn an_active_open_sends_syn_and_acknowledges_the_answer() {
    let mut b = Bench::new(1);
    b.rx(rx(Note::Open, 7));
    assert_eq!(b.isn_tuples, [tuple(7, PEER_IP)], "the ISN belongs to the tuple");
    assert_eq!(b.queries, [Query { ip: PEER_IP, source: OWN_IP, recheck: false }]);
    assert_eq!(b.to_rx, [Max { index: 7, start: true, max: b.seq(1), fin: false }]);
    let syn = Segment { mac: PEER_MAC, tuple: tuple(7, PEER_IP), seq: ISN, flags: SYN, window: WINDOW, mss: 1460, ..Default::default() };
    assert_eq!(b.segments, [syn]);
    assert_eq!(b.deadlines[&7], b.now.wrapping_add(RTO_INIT));
    b.forget();
    b.rx(Rx { ack: b.seq(1), window: 5000, mss: 1000, ..rx(Note::Syn, 7) });
    assert_eq!(b.segments, [Segment { seq: b.seq(1), ack: RCV, flags: ACK, mss: 0, ..syn }]);
    assert!(b.deadlines.is_empty(), "all is acknowledged");
    assert!(b.to_rx.is_empty() && b.told.is_empty());
    b.free(7);
}

/// The flags are exactly these: neither ECE nor CWR.
///
/// Covers: TCP-29, DEF-66
#[test]
fn a_passive_open_sends_syn_and_ack_and_waits_for_the_answer() {
    let mut b = Bench::new(1);
    b.mtu(576);
    b.rx(Rx { passive: true, window: 5000, mss: 1000, ..rx(Note::Open, 3) });
    let s = b.segments[0];
    assert_eq!((b.segments.len(), s.seq, s.ack, s.flags, s.mss, s.len), (1, ISN, RCV, SYN | ACK, 536, 0));
    assert_eq!(b.to_rx, [Max { index: 3, start: true, max: b.seq(1), fin: false }]);
    b.cm(Op::Send, 3, 100);
    assert_eq!(b.segments.len(), 1, "no data before the handshake is complete");
    b.update(3, b.seq(1), 5000);
    let s = b.segments[1];
    assert_eq!((b.segments.len(), s.seq, s.ack, s.flags, s.tos, s.len, s.skip), (2, b.seq(1), RCV, PSH | ACK, 0x28, 100, 0));
    assert_eq!(b.to_rx[1..], [Max { index: 3, start: false, max: b.seq(101), fin: false }]);
    b.update(3, b.seq(101), 5000);
    assert!(b.told.is_empty() && b.deadlines.is_empty());
}

/// Covers: TCP-4
#[test]
fn a_simultaneous_open_sends_syn_again_with_ack() {
    let mut b = Bench::new(1);
    b.rx(rx(Note::Open, 3));
    b.rx(Rx { ack: ISN, window: 5000, mss: 1000, ..rx(Note::Syn, 3) });
    let s = b.segments[1];
    assert_eq!((b.segments.len(), s.seq, s.ack, s.flags, s.mss), (2, ISN, RCV, SYN | ACK, 1460));
    assert_eq!(b.to_rx.len(), 1, "SND.NXT has not grown");
    b.pass(RTO_INIT);
    assert_eq!(b.segments[2].flags, SYN | ACK);
    b.update(3, b.seq(1), 5000);
    assert!(b.deadlines.is_empty());
}

/// Covers: TCP-11, TCP-32, IP-10
#[test]
fn the_frame_is_cut_at_the_effective_send_size() {
    let mut b = Bench::new(1);
    for mtu in [576, 1500, 9000] {
        b.mtu(mtu);
        for mss in [0, 1, 2, 7, 64, 535, 536, 1460, 8960, 65535] {
            for len in [1, 20, 64, 535, 536, 537] {
                let size = if mss == 0 { 536 } else { mss }.min(mtu - 40);
                b.opened(1, mss, 60000);
                b.cm(Op::Send, 1, len);
                let mut got = 0;
                for turn in 0.. {
                    for s in std::mem::take(&mut b.segments) {
                        assert_eq!((s.skip, s.seq), (got, b.seq(1 + u32::from(got))));
                        assert_eq!(s.len, size.min(len - got), "MTU {mtu} MSS {mss}");
                        got += s.len;
                        assert_eq!(s.flags, if got == len { PSH | ACK } else { ACK }, "PSH on the last octet");
                        assert_eq!(s.tos, 0x28);
                    }
                    b.update(1, b.seq(1 + u32::from(got)), 60000);
                    if got == len {
                        break;
                    }
                    assert!(turn < len, "never comes to the end");
                }
                b.free(1);
            }
        }
    }
}

/// Covers: TCP-14, TCP-39, TCP-40, CH-22
#[test]
fn rto_follows_the_samples() {
    let mut b = Bench::new(1);
    // SYN answered after 100 ms: SRTT 100, RTTVAR 50; then 200 ms: RTTVAR 62.5, SRTT 112.5
    b.rx(rx(Note::Open, 1));
    b.pass(100_000);
    b.rx(Rx { ack: b.seq(1), window: 1, mss: 1, ..rx(Note::Syn, 1) });
    b.cm(Op::Send, 1, 500);
    assert_eq!(b.deadlines[&1].wrapping_sub(b.now), 300_000);
    b.pass(200_000);
    assert_eq!(b.deadlines[&1].wrapping_sub(b.now), 100_000, "runs on");
    b.update(1, b.seq(2), 1);
    assert_eq!(b.deadlines[&1].wrapping_sub(b.now), 362_500, "started anew by the ACK and the next octet");
    // any samples, among them some longer than RTO: then Karn's rule; the bench compares each deadline
    for sent in 3..=480 {
        let r = match b.rng.random_range(0..8) {
            0 => b.rng.random_range(0..20),
            1 => b.rng.random_range(0..3_000_000),
            _ => b.rng.random_range(0..400_000),
        };
        b.pass(r);
        b.update(1, b.seq(sent), 1);
    }
    assert!(b.counts.timeouts > 10, "some were longer");
    // without bounds: the granularity counts when all samples are equal
    b.limits(0, RTO_MAX);
    for sent in 481..=501 {
        b.update(1, b.seq(sent), 1);
    }
    b.free(1);
}

/// Covers: TCP-14, TCP-15, ARP-11
#[test]
fn a_silent_peer_is_polled_at_r1_and_given_up_at_r2() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 60000);
    b.cm(Op::Send, 1, 300);
    let start = b.now;
    let frame = b.segments[0];
    let mut waits = vec![];
    for n in 1.. {
        b.forget();
        waits.push(b.expire(1));
        if !b.told.is_empty() {
            break;
        }
        assert_eq!(b.queries.iter().any(|q| q.recheck), n == 3, "the R1-th retransmission polls the neighbour again");
        if n == 3 {
            assert!(b.segments.is_empty(), "that waits for the answer");
            b.notices.push_back((PEER_IP, true));
            b.settle();
        }
        assert_eq!(b.segments, [frame], "the same octets");
    }
    // the handshake took no time, so RTO was at its lower bound
    assert_eq!(waits, [200_000, 400_000, 800_000, 1_600_000, 3_200_000, 6_400_000, 12_800_000, 25_600_000, 51_200_000]);
    assert_eq!(b.now.wrapping_sub(start), 102_200_000, "the first time-out after R2");
    assert_eq!((b.told.clone(), b.segments.len()), (vec![(1, Told::TimedOut)], 0));
    assert_eq!((b.counts.give_ups, b.counts.timeouts), (1, 8));
    b.forget();
    b.update(1, b.seq(301), 60000);
    b.cm(Op::Close, 1, 0);
    b.pass(1_000_000_000);
    assert!(b.segments.is_empty() && b.told.is_empty(), "nothing but `Freed` follows");
    b.free(1);
}

/// Covers: TCP-15
#[test]
fn r2_counts_from_the_last_progress() {
    let mut b = Bench::new(1);
    b.m.tcp_r1.set(255);
    b.opened(1, 100, 60000);
    b.cm(Op::Send, 1, 300);
    b.pass(90_000_000);
    b.update(1, b.seq(101), 60000);
    let progress = b.now;
    while b.told.is_empty() {
        b.expire(1);
    }
    let silent = b.now.wrapping_sub(progress);
    assert!((R2..R2 + RTO_MAX).contains(&silent), "{silent}");
    b.free(1);
    // and anew for what is sent after all was acknowledged
    b.opened(2, 100, 60000);
    b.cm(Op::Send, 2, 100);
    b.pass(90_000_000);
    b.update(2, b.seq(101), 60000);
    b.pass(90_000_000);
    b.cm(Op::Close, 2, 0);
    b.told.clear();
    b.pass(R2 - 10);
    assert!(b.told.is_empty(), "FIN is young");
    b.pass(RTO_MAX + 10);
    assert_eq!(b.told, [(2, Told::TimedOut)]);
}

/// An ACK that acknowledges nothing is no progress, however many come.
///
/// Covers: TCP-15
#[test]
fn old_acks_do_not_put_r2_off() {
    let mut b = Bench::new(1);
    b.m.tcp_r1.set(255);
    b.opened(1, 1460, 60000);
    b.cm(Op::Send, 1, 300);
    let start = b.now;
    while b.told.is_empty() {
        b.expire(1);
        b.update(1, b.seq(1), 60000);
    }
    assert_eq!(b.told, [(1, Told::TimedOut)]);
    assert_eq!(b.now.wrapping_sub(start), 102_200_000, "the first time-out after R2");
}

/// Covers: TCP-15
#[test]
fn an_unanswered_syn_is_given_up_at_its_own_r2() {
    for passive in [false, true] {
        let mut b = Bench::new(1);
        b.rx(Rx { passive, window: 5000, ..rx(Note::Open, 1) });
        let (start, mut waits) = (b.now, vec![]);
        while b.told.is_empty() {
            waits.push(b.expire(1));
            if !b.deadlines.contains_key(&1) {
                break;
            }
            if waits.len() == 3 {
                b.notices.push_back((PEER_IP, true));
                b.settle();
            }
        }
        let s = 1_000_000;
        assert_eq!(waits, [s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s]);
        assert_eq!(b.now.wrapping_sub(start), 183 * s);
        assert_eq!(b.told, [(1, Told::TimedOut)]);
        assert!(b.segments.iter().all(|t| t.seq == ISN && t.flags == b.segments[0].flags));
        assert_eq!((b.segments.len(), b.to_rx.len(), b.counts.retrans), (8, 1, 7));
        b.free(1);
    }
}

/// Covers: TCP-14, TCP-16
#[test]
fn after_a_lost_syn_rto_is_3_s_and_the_initial_window_one_segment() {
    for (passive, lost, rto) in [(false, 1, 3_000_000), (true, 1, 3_000_000), (false, 3, 8_000_000)] {
        let mut b = Bench::new(1);
        b.rx(Rx { passive, window: 5000, mss: 100, ..rx(Note::Open, 1) });
        for _ in 0..lost {
            b.expire(1);
            b.notices.push_back((PEER_IP, true));
        }
        b.forget();
        let note = if passive { Note::Update } else { Note::Syn };
        b.rx(Rx { ack: b.seq(1), window: 5000, mss: 100, ..rx(note, 1) });
        b.forget();
        b.cm(Op::Send, 1, 500);
        assert_eq!(b.lens(), [100]);
        assert_eq!(b.deadlines[&1].wrapping_sub(b.now), rto);
    }
}

/// Covers: TCP-16
#[test]
fn the_initial_window_is_2_3_or_4_segments_and_doubles() {
    let mut b = Bench::new(1);
    b.mtu(9000);
    for (mss, first) in [(8960, 2), (2191, 2), (2190, 3), (1096, 3), (1095, 4), (10, 4)] {
        b.opened(1, mss, 65535);
        b.cm(Op::Send, 1, 20_000);
        assert_eq!(b.segments.len(), first, "MSS {mss}");
        // an ACK of each segment: two more each
        b.forget();
        b.update(1, b.seq(1 + u32::from(mss)), 65535);
        let left = 20_000 - first as u32 * u32::from(mss);
        let expected = [u32::from(mss).min(left), u32::from(mss).min(left.saturating_sub(u32::from(mss)))];
        assert_eq!(b.lens().iter().map(|l| u32::from(*l)).collect::<Vec<_>>(), expected.into_iter().filter(|l| *l > 0).collect::<Vec<_>>());
        // an ACK of two segments: at most one segment more than these
        b.forget();
        b.update(1, b.seq(1 + 3 * u32::from(mss)), 65535);
        assert!(b.segments.len() <= 3);
        b.free(1);
    }
}

/// Covers: TCP-16, TCP-41, TCP-42
#[test]
fn after_a_loss_cwnd_grows_to_ssthresh_and_then_by_a_segment_a_window() {
    let mut b = Bench::new(1);
    b.opened(1, 10, 60000);
    b.cm(Op::Send, 1, 5000);
    let mut una = 1;
    // 4, 8, 16 segments in flight
    for n in [4, 8] {
        for _ in 0..n {
            una += 10;
            b.update(1, b.seq(una), 60000);
        }
    }
    let flight = |b: &Bench, una| (b.reference[&1].max.wrapping_sub(b.seq(una))) / 10;
    assert_eq!(flight(&b, una), 16);
    // two time-outs of the same segment: half of 16 segments, once
    for _ in 0..2 {
        b.forget();
        b.expire(1);
        assert_eq!(b.lens(), [10], "one segment, whatever the initial window was");
        assert_eq!(b.segments[0].seq, b.seq(una));
    }
    let growth = |b: &mut Bench, una: &mut u32, rounds: usize| -> Vec<usize> {
        let mut seen = vec![];
        let mut flying = 1;
        for _ in 0..rounds {
            b.forget();
            for _ in 0..flying {
                *una += 10;
                b.update(1, b.seq(*una), 60000);
            }
            flying = b.segments.len();
            seen.push(flying);
        }
        seen
    };
    assert_eq!(growth(&mut b, &mut una, 6), [2, 4, 8, 9, 10, 11], "slow start to 8 segments, then congestion avoidance");
    // loss in the next window: lowered again
    b.forget();
    b.expire(1);
    assert_eq!(growth(&mut b, &mut una, 5), [2, 4, 6, 7, 8], "half of 11 segments");
    assert_eq!(b.counts.timeouts, 3);
    b.free(1);
}

/// Covers: TCP-20
#[test]
fn a_window_that_shrinks_stops_new_octets_but_not_old_ones() {
    for shrunk in [250, 199, 100, 37, 1] {
        let mut b = Bench::new(1);
        b.opened(1, 100, 300);
        b.cm(Op::Send, 1, 1000);
        assert_eq!(b.lens(), [100; 3]);
        b.forget();
        b.update(1, b.seq(1), shrunk);
        assert!(b.segments.is_empty(), "the usable window is negative");
        b.expire(1);
        assert_eq!(b.lens(), [100.min(shrunk as u16)], "old octets, but none beyond the window");
        assert_eq!(b.segments[0].seq, b.seq(1));
        // what an ACK says is inside the window that the peer has
        b.forget();
        b.rx(Rx { ..rx(Note::Answer, 1) });
        assert_eq!(b.segments[0].seq, b.seq(1 + shrunk));
        b.forget();
        b.update(1, b.seq(301), 300);
        assert!(b.segments.len() >= 2 && b.segments[0].seq == b.seq(301), "goes on where it was");
        b.free(1);
    }
}

/// Covers: TCP-20
#[test]
fn small_segments_wait_for_the_override() {
    let mut b = Bench::new(1);
    b.opened(1, 100, 400);
    b.cm(Op::Send, 1, 1000);
    b.update(1, b.seq(401), 99);
    b.forget();
    b.update(1, b.seq(401), 60);
    assert!(b.segments.is_empty(), "neither full nor all nor half of 400");
    assert_eq!(b.expire(1), RTO_MIN);
    assert_eq!(b.lens(), [60], "the time-out overrides");
    b.forget();
    b.update(1, b.seq(461), 200);
    assert_eq!(b.lens(), [100, 100]);
    b.free(1);
    // half of the largest window is enough
    b.opened(1, 1000, 150);
    b.cm(Op::Send, 1, 600);
    assert_eq!(b.lens(), [150]);
    b.forget();
    b.update(1, b.seq(151), 74);
    assert!(b.segments.is_empty());
    b.update(1, b.seq(151), 75);
    assert_eq!(b.lens(), [75]);
    // and so is all that is left
    b.forget();
    b.update(1, b.seq(226), 60000);
    assert_eq!(b.lens(), [375]);
    b.free(1);
}

/// Covers: TCP-21
#[test]
fn a_zero_window_is_probed_for_hours_while_probes_are_answered() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 0);
    b.cm(Op::Send, 1, 300);
    assert!(b.segments.is_empty());
    let mut passed = 0u64;
    let mut expected = RTO_MIN;
    while passed < 2 * 3_600_000_000 {
        b.forget();
        let waited = b.expire(1);
        assert_eq!(waited, expected);
        expected = (2 * expected).min(RTO_MAX);
        passed += u64::from(waited);
        let probe = b.segments[0];
        assert_eq!((b.segments.len(), probe.seq, probe.ack, probe.flags, probe.len), (1, b.seq(0), RCV, ACK, 0));
        b.update(1, b.seq(1), 0);
        assert_eq!(b.segments.len(), 1);
    }
    assert_eq!((b.counts.timeouts, b.counts.retrans), (0, 0));
    b.forget();
    b.update(1, b.seq(1), 5000);
    assert_eq!(b.lens(), [300], "at once when the window opens");
    assert_eq!(b.deadlines[&1].wrapping_sub(b.now), RTO_MIN);
    // closed with octets in flight that are then acknowledged, with FIN to come
    b.cm(Op::Close, 1, 0);
    b.update(1, b.seq(301), 0);
    b.forget();
    b.expire(1);
    assert_eq!((b.segments[0].seq, b.segments[0].flags, b.segments[0].len), (b.seq(300), ACK, 0), "FIN also waits for the window");
    b.update(1, b.seq(301), 1);
    b.forget();
    assert_eq!(b.expire(1), RTO_MIN);
    assert_eq!((b.segments[0].seq, b.segments[0].flags), (b.seq(301), FIN | ACK));
    b.free(1);
}

/// Covers: TCP-15, TCP-21
#[test]
fn unanswered_probes_end_at_r2() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 0);
    b.cm(Op::Send, 1, 300);
    let mut first = None;
    while b.told.is_empty() {
        b.expire(1);
        first = first.or(Some(b.now));
    }
    assert_eq!(b.told, [(1, Told::TimedOut)]);
    let silent = b.now.wrapping_sub(first.expect("a probe"));
    assert!((R2..R2 + RTO_MAX).contains(&silent), "{silent}");
    b.free(1);
}

/// Covers: TCP-20, TCP-21
#[test]
fn a_window_that_shrinks_to_zero_is_probed_and_does_not_end_the_connection() {
    let mut b = Bench::new(1);
    b.opened(1, 100, 300);
    b.cm(Op::Send, 1, 1000);
    b.update(1, b.seq(1), 0);
    for _ in 0..20 {
        b.forget();
        b.expire(1);
        let probe = b.segments[0];
        assert_eq!((b.segments.len(), probe.seq, probe.flags, probe.len), (1, b.seq(0), ACK, 0));
        b.update(1, b.seq(1), 0);
    }
    assert_eq!((b.counts.timeouts, b.told.len()), (0, 0));
    b.forget();
    b.update(1, b.seq(1), 300);
    assert!(b.segments.is_empty(), "what is in flight is sent again by the timer");
    b.expire(1);
    assert_eq!((b.segments[0].seq, b.segments[0].len), (b.seq(1), 100));
    b.free(1);
}

/// Covers: TCP-18
#[test]
fn an_ack_leaves_at_once_and_rides_on_what_leaves_anyway() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    let update = |rcv_nxt, ack_now| Rx { rcv_nxt, ack_now, ack: ISN.wrapping_add(1), window: 5000, ..rx(Note::Update, 1) };
    b.rx(update(RCV + 20, false));
    assert!(b.segments.is_empty(), "not asked for");
    b.rx(update(RCV + 40, true));
    let s = b.segments[0];
    assert_eq!((b.segments.len(), s.seq, s.ack, s.flags, s.len), (1, b.seq(1), RCV + 40, ACK, 0));
    b.forget();
    // the block is kept busy until all three are there
    b.hold_to_rx = true;
    b.rx_in.extend([update(RCV + 60, true), update(RCV + 80, true)]);
    b.cm_in.push_back((Op::Send, 1, 300, 0));
    b.settle();
    b.hold_to_rx = false;
    b.settle();
    let s = b.segments[0];
    assert_eq!((b.segments.len(), s.ack, s.flags, s.len), (1, RCV + 80, PSH | ACK, 300), "one segment for two ACKs and the frame");
    b.free(1);
}

/// Covers: TCP-8
#[test]
fn challenge_acks_are_limited_over_all_connections() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.opened(2, 1460, 5000);
    b.now = b.now.wrapping_add(10_000_000);
    b.settle();
    for round in 1..=3 {
        b.forget();
        for n in 0..30 {
            b.rx(Rx { challenge: true, ..rx(Note::Answer, 1 + n % 2) });
        }
        assert_eq!(b.segments.len(), 10);
        assert!(b.segments.iter().all(|s| s.flags == ACK && s.seq == b.seq(1) && s.ack == RCV));
        assert_eq!(b.counts.challenges, 10 * round);
        b.rx(rx(Note::Answer, 1));
        assert_eq!(b.segments.len(), 11, "other answers are not limited");
        b.now = b.now.wrapping_add(4_999_990);
        b.rx(Rx { challenge: true, ..rx(Note::Answer, 1) });
        assert_eq!(b.segments.len(), 11, "5 seconds are not over");
        b.now = b.now.wrapping_add(10);
        b.settle();
    }
    b.m.tcp_challenges.set(3);
    b.forget();
    for _ in 0..5 {
        b.rx(Rx { challenge: true, ..rx(Note::Answer, 1) });
    }
    assert_eq!(b.segments.len(), 3);
}

#[test]
fn fin_follows_the_frame_and_is_sent_again() {
    let mut b = Bench::new(1);
    // Close after Send, in one go: FIN rides
    b.opened(1, 1460, 5000);
    b.hold_to_rx = true;
    b.cm_in.extend([(Op::Send, 1, 300, 0), (Op::Close, 1, 0, 0)]);
    b.settle();
    b.hold_to_rx = false;
    b.settle();
    let s = b.segments[0];
    assert_eq!((b.segments.len(), s.flags, s.len, s.end()), (1, FIN | PSH | ACK, 300, b.seq(302)));
    assert_eq!(b.to_rx, [Max { index: 1, start: false, max: b.seq(302), fin: true }]);
    b.forget();
    b.update(1, b.seq(301), 5000);
    b.expire(1);
    let s = b.segments[0];
    assert_eq!((b.segments.len(), s.seq, s.flags, s.len), (1, b.seq(301), FIN | ACK, 0), "only FIN is missing");
    b.update(1, b.seq(302), 5000);
    assert!(b.deadlines.is_empty());
    assert!(b.told.is_empty());
    b.rx(rx(Note::Answer, 1));
    assert_eq!(b.segments[1].seq, b.seq(302));
    b.free(1);
    // no frame; window for the frame, but not for FIN
    b.opened(2, 1460, 300);
    b.cm(Op::Close, 2, 0);
    assert_eq!((b.segments[0].seq, b.segments[0].flags), (b.seq(1), FIN | ACK));
    b.free(2);
    b.opened(3, 1460, 300);
    b.cm_in.extend([(Op::Send, 3, 300, 0), (Op::Close, 3, 0, 0)]);
    b.settle();
    assert_eq!((b.segments.len(), b.segments[0].flags), (1, PSH | ACK));
    b.update(3, b.seq(301), 300);
    assert_eq!(b.segments[1].flags, FIN | ACK);
    assert_eq!(b.to_rx.last(), Some(&Max { index: 3, start: false, max: b.seq(302), fin: true }));
}

/// Covers: ARP-6, ARP-9
#[test]
fn what_waits_for_its_neighbor_leaves_when_it_is_known() {
    let mut b = Bench::new(1);
    // a notice visits all connections
    b.rest = 1000;
    b.neighbors.remove(&PEER_IP);
    for index in 0..CONNECTIONS {
        b.rx(rx(Note::Open, index));
    }
    assert_eq!(b.queries.len(), usize::from(CONNECTIONS));
    assert!(b.segments.is_empty() && b.to_rx.is_empty());
    b.notices.push_back((PEER_IP ^ 1, true));
    b.notices.push_back((PEER_IP ^ 1, false));
    b.settle();
    assert!(b.segments.is_empty() && b.told.is_empty(), "not their neighbour");
    let mac = 0x9988_7766_5544;
    b.neighbors.insert(PEER_IP, Neighbor::Found(mac));
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert_eq!(b.segments.len(), usize::from(CONNECTIONS));
    assert!(b.segments.iter().all(|s| s.mac == mac && s.flags == SYN));
    // a MAC address that changes counts from the next segment on
    b.neighbors.insert(PEER_IP, Neighbor::Found(mac + 1));
    b.forget();
    b.rx(Rx { ack: b.seq(1), window: 5000, mss: 1000, ..rx(Note::Syn, 4) });
    assert_eq!((b.segments[0].mac, b.segments[0].flags), (mac + 1, ACK));
    // data and an ACK wait as well
    b.neighbors.remove(&PEER_IP);
    b.forget();
    b.cm(Op::Send, 4, 200);
    b.rx(Rx { rcv_nxt: RCV + 9, ack_now: true, ack: b.seq(1), window: 5000, ..rx(Note::Update, 4) });
    assert!(b.segments.is_empty());
    b.neighbors.insert(PEER_IP, Neighbor::Found(mac));
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert_eq!((b.segments.len(), b.segments[0].len, b.segments[0].ack), (1, 200, RCV + 9));
    assert_eq!(b.counts, Counts::default());
}

/// Covers: TCP-39
#[test]
fn the_timer_counts_from_when_a_segment_really_left() {
    let mut b = Bench::new(1);
    // the neighbour answers late: SYN, then a retransmission that had polled it
    b.neighbors.remove(&PEER_IP);
    b.rx(rx(Note::Open, 1));
    b.pass(900_000);
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert_eq!((b.segments.len(), b.deadlines[&1].wrapping_sub(b.now)), (1, RTO_INIT));
    b.expire(1);
    b.expire(1);
    b.expire(1);
    assert_eq!(b.segments.len(), 3, "the third waits for the poll");
    b.pass(2_000_000);
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert_eq!((b.segments.len(), b.deadlines[&1].wrapping_sub(b.now)), (4, 8_000_000));
    b.free(1);
    // the override is near when the window opens
    b.opened(2, 100, 400);
    b.cm(Op::Send, 2, 1000);
    b.update(2, b.seq(401), 60);
    b.pass(RTO_MIN - 10);
    b.forget();
    b.update(2, b.seq(401), 400);
    assert_eq!((b.segments.len(), b.deadlines[&2].wrapping_sub(b.now)), (4, RTO_MIN));
    b.free(2);
}

/// Covers: ARP-7, DEF-5
#[test]
fn a_neighbor_that_does_not_answer_ends_a_handshake_but_no_connection() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.neighbors.remove(&PEER_IP);
    b.rx(rx(Note::Open, 2));
    b.rx(Rx { passive: true, ..rx(Note::Open, 3) });
    b.cm(Op::Send, 1, 200);
    b.notices.push_back((PEER_IP, false));
    b.settle();
    b.told.sort_by_key(|t| t.0);
    assert_eq!(b.told, [(2, Told::Unreachable), (3, Told::Unreachable)]);
    assert_eq!(b.counts, Counts { no_neighbor: 3, ..Counts::default() });
    assert_eq!(b.deadlines.keys().collect::<Vec<_>>(), [&1], "only the open connection goes on");
    b.forget();
    b.notices.push_back((PEER_IP, false));
    b.rx(Rx { ack: b.seq(1), window: 5000, ..rx(Note::Syn, 2) });
    b.pass(500_000_000);
    assert!(b.segments.is_empty());
    assert_eq!(b.told, [(1, Told::TimedOut)], "the open one at R2, the others are told once");
    assert!(b.queries.len() > 3, "it asks again at each time-out");
    for index in [1, 2, 3] {
        b.free(index);
    }
}

#[test]
fn an_ack_waits_for_its_neighbor_without_a_timer() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.neighbors.remove(&PEER_IP);
    b.rx(rx(Note::Answer, 1));
    assert!(b.deadlines.is_empty() && b.segments.is_empty());
    b.notices.push_back((PEER_IP, false));
    b.settle();
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert!(b.segments.is_empty(), "given up: the peer will ask again");
    assert_eq!(b.counts.no_neighbor, 1);
    b.cm(Op::Send, 1, 10);
    assert_eq!(b.segments.len(), 1);
}

/// Covers: ARP-7
#[test]
fn an_open_connection_survives_a_neighbor_that_is_away_for_a_while() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.neighbors.remove(&PEER_IP);
    b.cm(Op::Send, 1, 200);
    for _ in 0..5 {
        b.notices.push_back((PEER_IP, false));
        b.expire(1);
    }
    assert!(b.segments.is_empty() && b.told.is_empty());
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    b.expire(1);
    assert_eq!(b.lens(), [200]);
    b.update(1, b.seq(201), 5000);
    assert_eq!(b.counts.retrans, 0, "it never left before");
}

#[test]
fn no_notice_is_missed_though_more_come_than_can_be_kept() {
    let mut b = Bench::new(1);
    // each notice visits all connections
    b.rest = 5000;
    b.neighbors.remove(&PEER_IP);
    b.rx(rx(Note::Open, 5));
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    // the queue overflows with notices of others, ours is among those without room
    b.notices.extend((0..60).map(|n| (0x0a00_0000 + n, false)));
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert_eq!(b.segments.len(), 1);
    b.free(5);
    // busy: no notice will come, the timer asks again
    b.neighbors.insert(PEER_IP, Neighbor::Busy);
    b.forget();
    b.rx(rx(Note::Open, 6));
    assert!(b.segments.is_empty());
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    b.pass(RTO_INIT);
    assert_eq!(b.segments.len(), 1);
    assert_eq!(b.counts.timeouts, 0, "nothing was lost");
    assert_eq!(b.deadlines[&6].wrapping_sub(b.now), RTO_INIT);
}

/// Covers: TCP-48
#[test]
fn no_segment_leaves_to_where_no_host_can_be() {
    let mut b = Bench::new(1);
    for ip in [0, 0x7f00_0001, 0xffff_ffff, 0xc000_02ff, 0xe000_0001, 0xefff_ffff] {
        for passive in [false, true] {
            b.rx(Rx { passive, tuple: tuple(9, ip), ..rx(Note::Open, 9) });
            assert_eq!(b.told.pop(), Some((9, Told::Unreachable)), "{ip:x}");
            assert!(b.segments.is_empty() && b.queries.is_empty() && b.to_rx.is_empty() && b.deadlines.is_empty());
            b.free(9);
        }
    }
    // beyond the gateway, and ourselves
    b.rx(Rx { tuple: tuple(9, FAR_IP), ..rx(Note::Open, 9) });
    assert_eq!((b.queries[0].ip, b.segments[0].mac), (GATEWAY, PEER_MAC));
    b.rx(Rx { tuple: tuple(10, OWN_IP), ..rx(Note::Open, 10) });
    assert_eq!((b.queries.len(), b.segments[1].mac), (1, OWN_MAC));
    // the gateway is gone
    b.m.local_0_gateway.set(0);
    b.rx(Rx { tuple: tuple(11, FAR_IP), ..rx(Note::Open, 11) });
    assert_eq!(b.told, [(11, Told::Unreachable)]);
    b.rx(Rx { ack: b.seq(1), window: 5000, ..rx(Note::Syn, 9) });
    assert_eq!((b.segments.len(), b.told.len()), (2, 1), "an open connection only counts it");
}

#[test]
fn abort_sends_rst_if_the_peer_may_know_of_the_connection() {
    let mut b = Bench::new(1);
    let rst = |b: &Bench| (b.segments.last().map(|s| (s.flags, s.seq, s.ack, s.len)), b.segments.len());
    let end = |b: &mut Bench| {
        b.forget();
        b.cm(Op::Abort, 1, 0);
        assert_eq!(b.told, [(1, Told::Freed)]);
        assert!(b.deadlines.is_empty());
    };
    // SYN-SENT: the peer has told us nothing to acknowledge
    b.rx(rx(Note::Open, 1));
    end(&mut b);
    assert_eq!(rst(&b), (Some((RST, b.seq(1), 0, 0)), 1));
    // SYN-SENT, waiting for the neighbour: nobody has heard of us
    b.neighbors.remove(&PEER_IP);
    b.rx(rx(Note::Open, 1));
    end(&mut b);
    assert_eq!(rst(&b), (None, 0));
    // SYN-RECEIVED without a neighbour: dropped, counted
    let before = b.counts.no_neighbor;
    b.rx(Rx { passive: true, ..rx(Note::Open, 1) });
    end(&mut b);
    assert_eq!((rst(&b), b.counts.no_neighbor - before), ((None, 0), 1));
    b.neighbors.insert(PEER_IP, Neighbor::Found(PEER_MAC));
    // SYN-RECEIVED
    b.rx(Rx { passive: true, window: 5000, ..rx(Note::Open, 1) });
    end(&mut b);
    assert_eq!(rst(&b), (Some((RST | ACK, b.seq(1), RCV, 0)), 1));
    // open, idle; then with octets in flight; then after FIN
    b.opened(1, 1460, 5000);
    end(&mut b);
    assert_eq!(rst(&b), (Some((RST | ACK, b.seq(1), RCV, 0)), 1));
    b.opened(1, 1460, 5000);
    b.cm(Op::Send, 1, 200);
    b.expire(1);
    end(&mut b);
    assert_eq!(rst(&b), (Some((RST | ACK, b.seq(201), RCV, 0)), 1));
    b.opened(1, 1460, 5000);
    b.cm(Op::Close, 1, 0);
    end(&mut b);
    assert_eq!(rst(&b), (Some((RST | ACK, b.seq(2), RCV, 0)), 1));
    // stopped by `rx`
    b.opened(1, 1460, 5000);
    b.cm(Op::Send, 1, 200);
    b.rx(rx(Note::Stop, 1));
    assert!(b.deadlines.is_empty());
    end(&mut b);
    assert_eq!(rst(&b), (None, 0));
    // Free says nothing to the peer
    b.opened(1, 1460, 5000);
    b.free(1);
    assert!(b.segments.is_empty());
}

#[test]
fn freed_means_that_the_frame_is_not_read_any_more() {
    let mut b = Bench::new(1);
    for op in [Op::Free, Op::Abort] {
        b.opened(1, 1460, 5000);
        b.cm(Op::Send, 1, 200);
        b.payload_busy = true;
        b.cm(op, 1, 0);
        assert!(b.told.is_empty());
        b.payload_busy = false;
        b.settle();
        assert_eq!(b.told, [(1, Told::Freed)]);
        b.forget();
        // nothing but Open counts now
        for note in [Note::Syn, Note::Update, Note::Answer, Note::Stop] {
            b.rx(Rx { ack: b.seq(1), window: 5000, ack_now: true, ..rx(note, 1) });
        }
        for op in [Op::Send, Op::Close, Op::Abort, Op::Free] {
            b.cm(op, 1, 100);
        }
        b.stray = Some(1);
        b.pass(1_000_000_000);
        assert!(b.segments.is_empty() && b.told.is_empty() && b.to_rx.is_empty() && b.deadlines.is_empty());
    }
}

/// While `tcp::rx` has something to say in every clock, a retransmission leaves on time, and the manager's wish waits for 31 messages, not for ever; but
/// not for less, because what was said before it must be known before it.
///
/// Covers: TCP-39
#[test]
fn a_flood_of_segments_holds_up_neither_timers_nor_the_manager() {
    let mut b = Bench::new(1);
    for index in 1..=3 {
        b.opened(index, 1460, 5000);
    }
    b.cm(Op::Send, 3, 100);
    b.forget();
    const FLOOD: usize = 200;
    let ack = b.seq(1);
    b.rx_in.extend(std::iter::repeat_n(Rx { ack, window: 5000, ..rx(Note::Update, 1) }, FLOOD));
    b.cm_in.push_back((Op::Abort, 2, 0, 0));
    b.now = b.deadlines[&3];
    let (mut retransmitted, mut told) = (None, None);
    while !b.rx_in.is_empty() {
        b.clock();
        let taken = FLOOD - b.rx_in.len();
        if retransmitted.is_none() && b.segments.iter().any(|s| s.tuple == tuple(3, PEER_IP) && s.len == 100) {
            retransmitted = Some(taken);
        }
        if told.is_none() && b.cm_in.is_empty() {
            told = Some(taken);
        }
    }
    assert!(retransmitted.is_some_and(|taken| taken <= 4), "{retransmitted:?}");
    assert_eq!(told, Some(31));
    b.settle();
    assert_eq!(b.told, [(2, Told::Freed)]);
}

#[test]
fn stop_ends_all_sending() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.cm(Op::Send, 1, 200);
    b.rx(rx(Note::Stop, 1));
    b.forget();
    b.rx(Rx { ack: b.seq(1), window: 5000, ack_now: true, ..rx(Note::Update, 1) });
    b.rx(rx(Note::Answer, 1));
    b.cm(Op::Close, 1, 0);
    b.stray = Some(1);
    b.pass(1_000_000_000);
    assert!(b.segments.is_empty() && b.told.is_empty() && b.deadlines.is_empty());
    b.free(1);
}

#[test]
fn a_stateless_segment_is_sent_or_dropped_but_never_waits() {
    let mut b = Bench::new(1);
    let reply = Rx { tuple: tuple(40, PEER_IP), seq: 5, ack: 77, flags: RST | ACK, ..rx(Note::Reply, 31) };
    b.rx(reply);
    let expected =
        Segment { mac: PEER_MAC, tuple: tuple(40, PEER_IP), seq: 5, ack: 77, flags: RST | ACK, window: WINDOW, ..Segment::default() };
    assert_eq!(b.segments, [expected]);
    b.rx(Rx { flags: RST, ..reply });
    assert_eq!(b.segments[1], Segment { flags: RST, ack: 0, ..expected });
    b.forget();
    b.rx(Rx { tuple: tuple(40, 0xffff_ffff), ..reply });
    b.neighbors.remove(&PEER_IP);
    b.rx(reply);
    b.notices.push_back((PEER_IP, true));
    b.settle();
    assert!(b.segments.is_empty());
    assert_eq!(b.counts.no_neighbor, 2);
}

#[test]
fn an_expiry_that_was_overtaken_is_ignored() {
    let mut b = Bench::new(1);
    b.rx(rx(Note::Open, 1));
    b.stray = Some(1);
    b.pass(RTO_INIT - 1);
    assert_eq!(b.segments.len(), 1);
    b.rx(Rx { ack: b.seq(1), window: 5000, mss: 1000, ..rx(Note::Syn, 1) });
    b.forget();
    b.stray = Some(1);
    b.pass(RTO_INIT);
    assert!(b.segments.is_empty());
    assert_eq!(b.counts, Counts::default());
}

#[test]
fn messages_are_taken_though_nobody_takes_ours() {
    let mut b = Bench::new(1);
    b.opened(1, 1460, 5000);
    b.hold_to_rx = true;
    b.hold_to_cm = true;
    for index in 2..10 {
        b.rx_in.push_back(rx(Note::Open, index));
    }
    b.cm_in.extend([(Op::Send, 1, 300, 0), (Op::Close, 1, 0, 0)]);
    for _ in 0..50 {
        b.rx_in.push_back(Rx { ack: b.seq(1), window: 5000, ack_now: true, ..rx(Note::Update, 1) });
    }
    b.rx_in.push_back(Rx { tuple: tuple(40, PEER_IP), flags: RST, ..rx(Note::Reply, 0) });
    b.settle();
    assert!(b.rx_in.is_empty() && b.cm_in.is_empty());
    assert_eq!(b.segments.len(), 1, "only the stateless one");
    b.hold_to_rx = false;
    b.settle();
    assert_eq!(b.segments.len(), 1);
    b.hold_to_cm = false;
    b.settle();
    assert_eq!(b.segments.len(), 1 + 1 + 8);
}

#[test]
fn a_reset_frees_everything_at_any_time() {
    let mut b = Bench::new(1);
    for clocks in 0..120 {
        b.taking = 0.5;
        for index in [1, 2] {
            b.rx_in.push_back(rx(Note::Open, index));
        }
        for _ in 0..clocks {
            b.clock();
        }
        b.taking = 1.0;
        b.retrans_expected = b.counts.retrans;
        b.reset();
        b.cm(Op::Free, 1, 0);
        assert!(b.told.is_empty() && b.segments.is_empty(), "free already");
        b.opened(1, 1460, 5000);
        b.cm(Op::Send, 1, 200);
        assert_eq!(b.lens(), [200]);
        b.reset();
    }
}

/// A peer that receives, and the receiving half of the adapter, for one connection.
struct Peer {
    index: u16,
    passive: bool,
    mss: u16,
    frame: u32,
    /// Octets of the sequence, from SYN on, that have arrived; FIN is the last.
    arrived: Vec<bool>,
    fin: Option<u32>,
    window: u32,
    serial: u32,
    seen_serial: u32,
    una: u32,
    synced: bool,
    closing: bool,
}

impl Peer {
    fn next(&self) -> u32 {
        self.arrived.iter().position(|a| !a).unwrap_or(self.arrived.len()) as u32
    }
    fn acknowledge(&mut self, at: usize, due: u32, window: u32) -> Carried {
        self.serial += 1;
        Carried { due, at, what: Carry::Ack(self.serial, self.next(), window) }
    }
    fn receive(&mut self, s: &Segment, isn: u32) {
        let offset = s.seq.wrapping_sub(isn);
        if s.flags & SYN != 0 {
            self.arrived[0] = true;
        }
        if s.len > 0 {
            assert_eq!(u32::from(s.skip) + 1, offset, "the octets that belong to the sequence number");
            assert!(u32::from(s.skip + s.len) <= self.frame);
            self.arrived[offset as usize..][..usize::from(s.len)].fill(true);
            assert_eq!(s.flags & PSH != 0, u32::from(s.skip + s.len) == self.frame);
        }
        if s.flags & FIN != 0 {
            let fin = offset + u32::from(s.len);
            assert_eq!(fin, self.frame + 1, "FIN after the last octet");
            self.fin = Some(fin);
            self.arrived[fin as usize] = true;
        }
    }
}

enum Carry {
    Segment(Segment),
    /// Its number, what it acknowledges (from the ISN), window.
    Ack(u32, u32, u32),
}

/// Something under way to, or from, peer `at`.
struct Carried {
    due: u32,
    at: usize,
    what: Carry,
}

/// Covers: TCP-16, TCP-33, TCP-39
#[test]
fn the_frame_arrives_whole_whatever_the_net_loses() {
    let test_seed = bench::seed("tcp_tx");
    let mut b = Bench::new(test_seed);
    let mut rng = ChaCha8Rng::seed_from_u64(test_seed);
    b.m.tcp_r2.set(2_000_000_000);
    b.m.tcp_r2_syn.set(2_000_000_000);
    for round in 0..12 {
        b.isn = [rng.random(), 0xffff_fff0, 0x7fff_ffff][round % 3];
        b.taking = [1.0, 0.4][round % 2];
        b.flaky = 0.05;
        let loss = [0.0, 0.1, 0.3][round % 3];
        b.forget();
        let mut peers: Vec<Peer> = (0..6u16)
            .map(|n| {
                let frame = rng.random_range(20..=536);
                Peer {
                    index: n * 5 + 1,
                    passive: rng.random(),
                    mss: [0, 1, 30, 100, 200, 1460][rng.random_range(0..6)].max(if loss > 0.2 { 30 } else { 0 }),
                    frame,
                    arrived: vec![false; frame as usize + 2],
                    fin: None,
                    window: rng.random_range(0..2000),
                    serial: 0,
                    seen_serial: 0,
                    una: 0,
                    synced: false,
                    closing: false,
                }
            })
            .collect();
        // what is under way: when, to whom, what
        let mut wire: Vec<Carried> = vec![];
        for p in &peers {
            b.rx_in.push_back(Rx { passive: p.passive, window: 1000, mss: p.mss, ..rx(Note::Open, p.index) });
            b.cm_in.push_back((Op::Send, p.index, p.frame as u16, 0x28));
        }
        b.settle();
        let mut steps = 0;
        while peers.iter().any(|p| p.una < p.frame + 2) {
            steps += 1;
            assert!(steps < 60_000, "it comes to an end");
            for s in std::mem::take(&mut b.segments) {
                let at = peers.iter().position(|p| p.index == s.tuple.local_port - 1000).expect("one of ours");
                if !rng.random_bool(loss) {
                    let due = b.now.wrapping_add(rng.random_range(10..60_000));
                    wire.push(Carried { due, at, what: Carry::Segment(s) });
                }
            }
            assert!(b.told.is_empty(), "{:?}", b.told);
            if rng.random_bool(0.02) {
                b.stray = Some(peers[rng.random_range(0..6)].index);
            }
            // the next thing that happens
            let now = b.now;
            let timer = b.deadlines.values().copied().min_by_key(|at| at.wrapping_sub(now));
            let first = (0..wire.len()).min_by_key(|n| wire[*n].due.wrapping_sub(now));
            match (timer, first) {
                (Some(at), None) => b.now = at,
                (Some(at), Some(n)) if at.wrapping_sub(now) < wire[n].due.wrapping_sub(now) => b.now = at,
                (_, Some(n)) => {
                    let Carried { due, at, what } = wire.swap_remove(n);
                    b.now = due;
                    let isn = b.isn;
                    let p = &mut peers[at];
                    let (serial, ack, window) = match what {
                        Carry::Segment(s) => {
                            p.receive(&s, isn);
                            p.window = [0, 1, 50, 200, 1000, 3000][rng.random_range(0..6)];
                            if !rng.random_bool(loss) && p.next() > 0 {
                                wire.push(p.acknowledge(at, due.wrapping_add(rng.random_range(10..60_000)), p.window));
                            }
                            // a window that was closed opens again some time
                            if p.window < 200 {
                                wire.push(p.acknowledge(at, due.wrapping_add(rng.random_range(10..3_000_000)), 1000));
                            }
                            continue;
                        }
                        Carry::Ack(serial, ack, window) => (serial, ack, window),
                    };
                    if serial > p.seen_serial && ack >= p.una && ack > 0 {
                        p.seen_serial = serial;
                        p.una = ack;
                        let note = if p.synced || p.passive { Note::Update } else { Note::Syn };
                        p.synced = true;
                        let ack = isn.wrapping_add(ack);
                        b.rx_in.push_back(Rx { ack, window, mss: p.mss, ack_now: rng.random_bool(0.1), ..rx(note, p.index) });
                        if !p.closing && (p.una > p.frame || rng.random_bool(0.1)) {
                            p.closing = true;
                            b.cm_in.push_back((Op::Close, p.index, 0, 0));
                        }
                    }
                }
                (None, None) => panic!("nothing will ever happen again"),
            }
            b.settle();
        }
        for p in &peers {
            assert!(p.arrived.iter().all(|a| *a) && p.fin == Some(p.frame + 1));
        }
        b.settle();
        assert!(b.told.is_empty(), "{:?}", b.told);
        assert!(b.deadlines.is_empty(), "all is acknowledged");
        for p in &peers {
            b.free(p.index);
        }
    }
    assert!(b.counts.timeouts > 20 && b.counts.retrans > 20, "{:?}", b.counts);
}

#[test]
fn the_clocks_that_the_manual_names() {
    let mut b = Bench::new(1);
    b.opened(1, 100, 60000);
    b.cm(Op::Send, 1, 1000);
    // from the offer of a message to the clock in which it is taken
    let message = |b: &mut Bench, r: Rx| {
        b.rx_in.push_back(r);
        let from = b.clocks;
        while !b.rx_in.is_empty() {
            b.clock();
        }
        let clocks = b.clocks - from;
        b.settle();
        clocks
    };
    let update = |ack| Rx { ack, window: 60000, ..rx(Note::Update, 1) };
    let nothing = update(b.seq(1));
    assert_eq!(message(&mut b, nothing), 7);
    let sampled = update(b.seq(101));
    assert_eq!(message(&mut b, sampled), 21);
    let grown = update(b.seq(201));
    assert_eq!(message(&mut b, grown), 12);
    assert_eq!(message(&mut b, rx(Note::Answer, 1)), 3);
    // the row of another connection comes first
    assert_eq!(message(&mut b, rx(Note::Open, 2)), 11);
    assert_eq!(message(&mut b, rx(Note::Answer, 1)), 8);
    // segments in a row, the neighbour known in the clock after the query; the first starts the timer
    let every = |b: &mut Bench, many: usize| {
        let mut left = vec![];
        for _ in 0..400 {
            b.clock();
            if b.segments.len() > left.len() {
                left.push(b.clocks);
            }
        }
        assert_eq!(left.len(), many);
        left.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>()
    };
    b.opened(3, 100, 60000);
    b.cm_in.push_back((Op::Send, 3, 600, 0));
    assert_eq!(every(&mut b, 4), [16, 14, 14]);
    in_full_operation(&mut b, 4, 100, 60000);
    burst(&mut b, &[4], 4, 0);
    assert_eq!(every(&mut b, 4), [13, 11, 11]);
    // five acknowledged by one
    in_full_operation(&mut b, 5, 1000, 60000);
    burst(&mut b, &[5], 5, 5);
    b.settle();
    let end = b.segments[4].end();
    let sampled = message(&mut b, update(end).of(5));
    in_full_operation(&mut b, 6, 1000, 60000);
    burst(&mut b, &[6], 4, 4);
    b.settle();
    let end = b.segments[3].end();
    assert_eq!(sampled - message(&mut b, update(end).of(6)), 3, "for each FPDU");
}

#[test]
fn every_bit_of_every_number_counts() {
    let mut b = Bench::new(1);
    b.mtu(9000);
    for _ in 0..60 {
        let (own, gateway): (u32, u32) = (b.rng.random(), b.rng.random());
        let mac = b.rng.random::<u64>() >> 16;
        let remote_ip = b.rng.random_range(0x0100_0000..0x7f00_0000) ^ (b.rng.random::<u32>() & 0x8000_0000);
        let remote_ip = if remote_ip >> 24 >= 224 { remote_ip - 0x4000_0000 } else { remote_ip };
        b.m.local_0_ip.set(u64::from(own));
        b.m.local_0_mask.set(0xffff_fffe);
        b.m.local_0_gateway.set(u64::from(gateway));
        if gateway == 0 || (remote_ip ^ own) & 0xffff_fffe == 0 {
            continue;
        }
        b.neighbors = HashMap::from([(gateway, Neighbor::Found(mac))]);
        b.isn = b.rng.random();
        let index = b.rng.random_range(0..CONNECTIONS);
        let local_ip = b.rng.random();
        let t = Tuple { local_ip, remote_ip, local_port: 1000 + index, remote_port: b.rng.random() };
        let (rcv_nxt, mss, window, len) =
            (b.rng.random(), b.rng.random_range(100..=65535), b.rng.random::<u32>() >> 1, b.rng.random_range(1..=65535));
        b.rx(Rx { passive: true, tuple: t, rcv_nxt, mss, window, ..rx(Note::Open, index) });
        assert_eq!(b.isn_tuples, [t]);
        assert_eq!(b.queries, [Query { ip: gateway, source: own, recheck: false }]);
        assert_eq!(b.to_rx, [Max { index, start: true, max: b.seq(1), fin: false }]);
        let syn = Segment { mac, tuple: t, seq: b.isn, ack: rcv_nxt, flags: SYN | ACK, window: WINDOW, mss: 8960, ..Segment::default() };
        assert_eq!(b.segments, [syn]);
        b.forget();
        let rcv_nxt: u32 = b.rng.random();
        let update = |ack| Rx { rcv_nxt, ack, window, ..rx(Note::Update, index) };
        b.rx(update(b.isn.wrapping_add(1)));
        let tos = b.rng.random::<u8>() & 0xfc;
        b.cm_in.push_back((Op::Send, index, len, tos));
        b.settle();
        let mut got = 0u32;
        while got < u32::from(len) {
            let s = b.segments.remove(0);
            assert_eq!((s.mac, s.tuple, s.ack, s.tos), (mac, t, rcv_nxt, tos));
            assert_eq!((s.seq, u32::from(s.skip)), (b.seq(1 + got), got));
            got += u32::from(s.len);
            assert_eq!(b.to_rx.remove(0), Max { index, start: false, max: b.seq(1 + got), fin: false });
            b.now = b.now.wrapping_add(b.rng.random_range(0..150_000));
            b.rx(update(b.isn.wrapping_add(1 + got)));
        }
        b.forget();
        let reply = Rx {
            tuple: Tuple { remote_port: !t.remote_port, ..t },
            seq: b.rng.random(),
            ack: b.rng.random(),
            flags: ACK,
            ..rx(Note::Reply, 0)
        };
        b.rx(reply);
        let s = b.segments[0];
        assert_eq!((s.tuple, s.seq, s.ack, s.flags, s.tos), (reply.tuple, reply.seq, reply.ack, ACK, 0));
        // to ourselves
        b.m.local_0_ip.set(u64::from(remote_ip));
        let own_mac = b.rng.random::<u64>() >> 16;
        b.m.own_mac.set(own_mac);
        b.rx(reply);
        assert_eq!(b.segments[1], Segment { mac: own_mac, ..s });
        b.free(index);
        b.forget();
    }
}

/// Covers: TCP-15
#[test]
fn r2_is_compared_exactly() {
    // ages of the segment at its time-outs: 0.2 s, 0.6 s, 1.4 s, ..
    let mut limits: Vec<u32> = (1..10).map(|n| RTO_MIN * ((1 << n) - 1)).flat_map(|age| [age, age + 1]).collect();
    limits.extend((0..31).map(|bit| 1 << bit));
    let mut b = Bench::new(1);
    b.limits(RTO_MIN, 1 << 29);
    b.m.tcp_r1.set(255);
    for r2 in limits {
        b.m.tcp_r2.set(r2);
        b.opened(1, 1460, 60000);
        b.cm(Op::Send, 1, 300);
        let start = b.now;
        loop {
            b.forget();
            b.expire(1);
            let old = b.now.wrapping_sub(start) >= r2;
            assert_eq!((b.told.len(), b.segments.len()), (usize::from(old), usize::from(!old)), "R2 {r2}");
            if old {
                break;
            }
        }
        b.free(1);
    }
}

/// Sequence number of the first octet after a start-up frame of `FRAME` octets, and a connection that has it behind it.
const FRAME: u16 = 20;
fn in_full_operation(b: &mut Bench, index: u16, mss: u16, window: u32) {
    b.opened(index, mss, window);
    b.cm(Op::Send, index, FRAME);
    b.update(index, b.seq(1 + u32::from(FRAME)), window);
    b.forget();
}
fn fpdu(index: u16, id: u32, wire_len: u16, push: bool) -> Fpdu {
    Fpdu { index, id, wire_len, push }
}

/// Covers: SEG-3, SEG-9, DDP-30
#[test]
fn each_fpdu_is_a_segment_and_is_told_when_it_is_acknowledged() {
    let mut b = Bench::new(1);
    b.rx(rx(Note::Open, 4));
    assert!(b.to_sq.is_empty());
    b.rx(Rx { ack: b.seq(1), window: 60000, mss: 1000, ..rx(Note::Syn, 4) });
    assert_eq!(b.to_sq, [ToSq::Emss(4, 1000)], "once, when it is known");
    b.cm(Op::Send, 4, FRAME);
    b.update(4, b.seq(21), 60000);
    b.forget();
    for (id, len, push) in [(100, 40, false), (101, 1000, false), (102, 24, true)] {
        b.sq_in.push_back(fpdu(4, id, len, push));
    }
    b.settle();
    let sent: Vec<_> = b.segments.iter().map(|s| (s.fpdu, s.seq, s.skip, s.len, s.flags)).collect();
    let isn = b.isn;
    let at = |n: u32| isn.wrapping_add(21 + n);
    assert_eq!(
        sent,
        [(Some(100), at(0), 0, 40, ACK), (Some(101), at(40), 0, 1000, ACK), (Some(102), at(1040), 0, 24, PSH | ACK)],
        "PSH where a message ends"
    );
    assert_eq!(b.to_rx.iter().map(|m| m.max).collect::<Vec<_>>(), [at(40), at(1040), at(1064)]);
    b.update(4, at(39), 60000);
    assert_eq!(b.to_sq, [], "not to its last octet");
    b.update(4, at(1041), 60000);
    assert_eq!(b.to_sq, [ToSq::Acked(4, 2)]);
    b.update(4, at(1064), 60000);
    assert_eq!(b.to_sq, [ToSq::Acked(4, 2), ToSq::Acked(4, 1)]);
    assert!(b.deadlines.is_empty());
    // FIN is behind all FPDUs
    b.forget();
    b.sq_in.push_back(fpdu(4, 103, 400, false));
    b.cm(Op::Close, 4, 0);
    assert_eq!(b.segments.iter().map(|s| (s.fpdu, s.flags)).collect::<Vec<_>>(), [(Some(103), ACK), (None, FIN | ACK)]);
    assert_eq!(b.segments[1].seq, at(1464));
    b.update(4, at(1465), 60000);
    assert_eq!(b.to_sq, [ToSq::Acked(4, 1)]);
    b.free(4);
}

#[test]
fn an_fpdu_for_a_connection_that_is_not_open_is_dropped() {
    let mut b = Bench::new(1);
    b.sq_in.push_back(fpdu(9, 1, 100, true));
    b.settle();
    in_full_operation(&mut b, 9, 1460, 60000);
    b.free(9);
    b.sq_in.push_back(fpdu(9, 1, 100, true));
    b.settle();
    in_full_operation(&mut b, 9, 1460, 60000);
    assert!(b.segments.is_empty(), "the next connection of the index knows nothing of it");
    b.sq_in.push_back(fpdu(9, 2, 100, true));
    b.settle();
    assert_eq!(b.segments[0].fpdu, Some(2));
}

/// Covers: SEG-5
#[test]
fn a_time_out_sends_whole_fpdus_again() {
    let mut b = Bench::new(1);
    in_full_operation(&mut b, 2, 1460, 60000);
    for id in 0..3 {
        b.sq_in.push_back(fpdu(2, id, 1000, false));
    }
    b.settle();
    b.update(2, b.seq(21 + 1300), 60000);
    assert_eq!(b.to_sq, [ToSq::Acked(2, 1)]);
    b.forget();
    b.expire(2);
    let s = b.segments[0];
    assert_eq!(
        (b.segments.len(), s.fpdu, s.seq, s.skip, s.len),
        (1, Some(1), b.seq(21 + 1296), 296, 704),
        "from an octet that is a multiple of 8"
    );
    // the ACK covers what was lost and what was not: nothing is sent a third time
    b.forget();
    b.update(2, b.seq(21 + 3000), 60000);
    assert_eq!((b.to_sq.as_slice(), b.segments.len()), ([ToSq::Acked(2, 2)].as_slice(), 0));
    b.sq_in.push_back(fpdu(2, 3, 200, false));
    b.settle();
    assert_eq!((b.segments[0].fpdu, b.segments[0].seq), (Some(3), b.seq(21 + 3000)));
}

/// Covers: SEG-4, SEG-11, SEG-6
#[test]
fn an_fpdu_is_cut_only_alone_and_never_in_its_last_octets() {
    let mut b = Bench::new(1);
    for (window, first) in [(1000, 1000), (999, 992), (601, 600), (1447, 1440), (1448, 1448), (1455, 1448), (1460, 1460)] {
        in_full_operation(&mut b, 2, 1460, window);
        b.sq_in.push_back(fpdu(2, 7, 1460, true));
        b.settle();
        let s = b.segments[0];
        assert_eq!((s.fpdu, s.skip, s.len), (Some(7), 0, first), "window {window}");
        assert_eq!(s.flags & PSH != 0, first == 1460);
        if first < 1460 {
            // the rest waits for the acknowledgement
            b.update(2, b.seq(21 + u32::from(first)), window);
            let s = b.segments[1];
            assert_eq!((s.fpdu, s.skip, s.seq), (Some(7), first, b.seq(21 + u32::from(first))), "window {window}");
        }
        b.free(2);
    }
    // a window with room for a part, and something in flight: nothing
    in_full_operation(&mut b, 2, 1460, 1000);
    b.sq_in.push_back(fpdu(2, 1, 600, false));
    b.sq_in.push_back(fpdu(2, 2, 600, false));
    b.settle();
    assert_eq!(b.lens(), [600]);
    b.update(2, b.seq(621), 1000);
    assert_eq!(b.lens(), [600, 600]);
    b.free(2);
}

/// `each` FPDUs of 100 octets of each of `indices`, at hand at once; returns when `sent` of them have left.
fn burst(b: &mut Bench, indices: &[u16], each: u32, sent: usize) {
    b.hold_to_rx = true;
    for id in 0..each {
        b.sq_in.extend(indices.iter().map(|index| fpdu(*index, id, 100, true)));
    }
    b.settle();
    b.hold_to_rx = false;
    until(b, |b| b.segments.len() >= sent);
}
fn until(b: &mut Bench, seen: impl Fn(&Bench) -> bool) {
    for _ in 0..1000 {
        if seen(b) {
            return;
        }
        b.clock();
    }
    panic!("it does not come");
}
fn indices(b: &Bench) -> Vec<u16> {
    b.segments.iter().map(|s| s.tuple.local_port - 1000).collect()
}

/// Payload in order may wait for the next segment of its connection, for 64 clocks, if nothing else comes between.
///
/// Covers: TCP-18
#[test]
fn each_second_segment_is_acknowledged_and_the_last_one_soon() {
    let soft = |index, octets| Rx {
        rcv_nxt: RCV + octets,
        ack_now: true,
        soft: true,
        ack: ISN.wrapping_add(21),
        window: 60000,
        ..rx(Note::Update, index)
    };
    let fresh = || {
        let mut b = Bench::new(1);
        for index in [1, 2] {
            in_full_operation(&mut b, index, 1460, 60000);
        }
        b
    };
    let acks =
        |b: &Bench| b.segments.iter().map(|s| (s.tuple.local_port - 1000, s.ack.wrapping_sub(RCV), s.flags, s.len)).collect::<Vec<_>>();
    // clocks from the offer of the last message to the first segment
    let waits = |b: &mut Bench| {
        until(b, |b| b.rx_in.is_empty());
        let from = b.clocks;
        until(b, |b| !b.segments.is_empty());
        b.clocks - from
    };
    // alone: later
    let mut b = fresh();
    b.rx_in.push_back(soft(1, 40));
    let waited = waits(&mut b);
    assert!((60..=110).contains(&waited), "{waited}");
    b.settle();
    assert_eq!(acks(&b), [(1, 40, ACK, 0)]);
    // two, and many: one for two
    for many in [2, 6, 7] {
        let mut b = fresh();
        b.rx_in.extend((1..=many).map(|n| soft(1, 40 * n)));
        let mut last = 0;
        while b.clocks < last + 200 || !b.rx_in.is_empty() {
            let (sent, before) = (b.segments.len(), b.rx_in.len());
            b.clock();
            if b.rx_in.len() != before {
                last = b.clocks;
            }
            if b.segments.len() != sent && (many - b.rx_in.len() as u32).is_multiple_of(2) {
                assert!(b.clocks - last < 40, "at once");
            }
        }
        let expected: Vec<_> = (1..=many).filter(|n| n % 2 == 0 || *n == many).map(|n| (1, 40 * n, ACK, 0)).collect();
        assert_eq!(acks(&b), expected);
    }
    // what does not wait takes along what does
    let mut b = fresh();
    b.rx_in.extend([soft(1, 40), Rx { soft: false, ..soft(1, 40) }]);
    assert!(waits(&mut b) < 40);
    b.settle();
    assert_eq!(acks(&b), [(1, 40, ACK, 0)]);
    // it rides on what leaves
    let mut b = fresh();
    b.rx_in.push_back(soft(1, 40));
    until(&mut b, |b| b.rx_in.is_empty());
    b.sq_in.push_back(fpdu(1, 1, 100, true));
    assert!(waits(&mut b) < 40);
    b.settle();
    assert_eq!(acks(&b), [(1, 40, PSH | ACK, 100)]);
    // and does not wait any more when somebody else comes up
    for other in [soft(2, 80), Rx { tuple: tuple(40, PEER_IP), flags: RST, ..rx(Note::Reply, 0) }] {
        let mut b = fresh();
        b.rx_in.extend([soft(1, 40), other]);
        assert!(waits(&mut b) < 40);
        b.settle();
        assert!(acks(&b).contains(&(1, 40, ACK, 0)), "{:?}", acks(&b));
        assert_eq!(b.segments.len(), 2);
    }
    let mut b = fresh();
    b.rx_in.push_back(soft(1, 40));
    until(&mut b, |b| b.rx_in.is_empty());
    b.sq_in.push_back(fpdu(2, 1, 100, true));
    b.settle();
    assert_eq!(b.segments.len(), 2);
    assert!(acks(&b).contains(&(1, 40, ACK, 0)));
    // nothing of it is left when the connection ends
    for (end, left) in [(Op::Abort, vec![(1, 40, RST | ACK, 0)]), (Op::Free, vec![])] {
        let mut b = fresh();
        b.rx_in.push_back(soft(1, 40));
        until(&mut b, |b| b.rx_in.is_empty());
        b.cm(end, 1, 0);
        assert_eq!(acks(&b), left);
        assert_eq!(b.told, [(1, Told::Freed)]);
        b.forget();
        in_full_operation(&mut b, 1, 1460, 60000);
        b.settle();
        assert!(b.segments.is_empty());
    }
}

#[test]
fn connections_that_have_much_to_send_take_turns() {
    let mut b = Bench::new(1);
    for index in [1, 2, 3] {
        // cwnd must have room for all
        in_full_operation(&mut b, index, 1460, 60000);
    }
    burst(&mut b, &[1, 2], 10, 6);
    // a third comes up amid it
    b.sq_in.push_back(fpdu(3, 77, 100, true));
    b.settle();
    let all = indices(&b);
    assert_eq!(all.len(), 21);
    assert!(all[..6].iter().step_by(2).all(|i| *i == all[0]) && all[0] != all[1], "{all:?}");
    assert!(all[..10].contains(&3), "after two of each other at most: {all:?}");
    for index in [1, 2] {
        let ids: Vec<_> = b.segments.iter().filter(|s| s.tuple == tuple(index, PEER_IP)).map(|s| s.fpdu).collect();
        assert_eq!(ids, (0..10).map(Some).collect::<Vec<_>>());
    }
}

/// What comes amid a row of segments of one connection counts at once, for it and for others.
///
/// Covers: TCP-39
#[test]
fn a_burst_holds_up_nothing() {
    // an expiry of another connection, and its own
    let mut b = Bench::new(1);
    for index in [1, 2] {
        in_full_operation(&mut b, index, 1460, 60000);
    }
    b.sq_in.push_back(fpdu(2, 5, 200, false));
    b.settle();
    b.forget();
    burst(&mut b, &[1], 20, 3);
    b.now = b.deadlines[&2];
    until(&mut b, |b| b.expiry.is_none() && b.counts.timeouts == 1);
    let so_far = b.segments.len();
    until(&mut b, |b| indices(b).contains(&2));
    assert!(b.segments.len() - so_far <= 3, "{:?}", indices(&b));

    let mut b = Bench::new(1);
    in_full_operation(&mut b, 1, 1460, 60000);
    burst(&mut b, &[1], 20, 3);
    b.now = b.deadlines[&1];
    until(&mut b, |b| b.counts.timeouts == 1);
    let before = b.segments.len();
    b.settle();
    let after: Vec<_> = b.segments[before..].iter().map(|s| s.fpdu).collect();
    assert_eq!(after.first(), Some(&Some(0)), "from the oldest on, after {before}");
    assert_eq!(after.len(), 14, "cwnd is a segment of 1460 octets");

    // an acknowledgement: what it frees is told while more leaves
    let mut b = Bench::new(1);
    in_full_operation(&mut b, 1, 1460, 60000);
    burst(&mut b, &[1], 20, 4);
    b.rx_in.push_back(Rx { ack: b.seq(221), rcv_nxt: RCV + 40, window: 60000, ack_now: true, ..rx(Note::Update, 1) });
    until(&mut b, |b| !b.to_sq.is_empty());
    assert!(b.segments.len() <= 7);
    assert_eq!(b.to_sq, [ToSq::Acked(1, 2)]);
    b.settle();
    assert_eq!(b.segments.len(), 20, "the ACK rides");
    assert_eq!(b.segments[8].ack, RCV + 40);

    // a window that closes
    let mut b = Bench::new(1);
    in_full_operation(&mut b, 1, 1460, 60000);
    burst(&mut b, &[1], 20, 4);
    b.update(1, b.seq(121), 500);
    let sent = b.segments.len();
    assert!((5..=7).contains(&sent), "{sent}");
    b.update(1, b.seq(21 + 100 * sent as u32), 60000);
    assert_eq!(b.segments.iter().map(|s| s.fpdu).collect::<Vec<_>>(), (0..20).map(Some).collect::<Vec<_>>());

    // RST of the peer, and ours
    let mut b = Bench::new(1);
    in_full_operation(&mut b, 1, 1460, 60000);
    burst(&mut b, &[1], 20, 4);
    b.rx_in.push_back(rx(Note::Stop, 1));
    until(&mut b, |b| b.rx_in.is_empty());
    let sent = b.segments.len();
    b.settle();
    assert_eq!(b.segments.len(), sent, "nothing is sent after it was taken");
    assert!(sent <= 7 && b.deadlines.is_empty());
    b.free(1);
    b.forget();
    in_full_operation(&mut b, 1, 1460, 60000);
    burst(&mut b, &[1], 20, 4);
    b.cm(Op::Abort, 1, 0);
    let last = b.segments.len() - 1;
    assert!(last <= 7);
    let rst = b.segments[last];
    assert_eq!((rst.flags, rst.seq), (RST | ACK, b.seq(21 + 100 * last as u32)));
    assert_eq!(b.told, [(1, Told::Freed)]);
    assert!(b.deadlines.is_empty());
}

/// The way is asked for once in a row of segments, and again as soon as something may have changed.
///
/// Covers: ARP-9
#[test]
fn a_neighbour_that_moves_is_followed_from_the_next_segment_on() {
    let mut b = Bench::new(1);
    for index in [1, 2] {
        in_full_operation(&mut b, index, 1460, 60000);
    }
    const MOVED: u64 = 0x0707_0707_0702;
    burst(&mut b, &[1], 20, 4);
    assert_eq!(b.queries.len(), 1);
    b.neighbors.insert(PEER_IP, Neighbor::Found(MOVED));
    let sent = b.segments.len();
    b.settle();
    let macs: Vec<_> = b.segments.iter().map(|s| s.mac).collect();
    assert!(macs[sent + 1..].iter().all(|m| *m == MOVED), "the one under way is the last one to the old place");
    assert_eq!((macs.len(), b.queries.len()), (20, 2));
    // a change while it is asked for: what was answered counts for one segment
    for clocks in 0..30 {
        b.forget();
        b.update(2, b.seq(21), 60000);
        b.sq_in.push_back(fpdu(1, 50 + clocks, 100, true));
        until(&mut b, |b| !b.queries.is_empty());
        for _ in 0..clocks {
            b.clock();
        }
        b.neighbors.insert(PEER_IP, Neighbor::Found(MOVED + 0x10000 * u64::from(clocks + 1)));
        b.settle();
        b.sq_in.push_back(fpdu(1, 500, 100, true));
        b.settle();
        assert_eq!(b.segments[1].mac, MOVED + 0x10000 * u64::from(clocks + 1), "{clocks}");
        b.update(1, b.segments[1].end(), 60000);
    }
    // for a while only, whatever is told
    b.forget();
    let (mut asked, start) = (vec![], b.clocks);
    while b.clocks < start + 5000 {
        b.sq_in.push_back(fpdu(1, 1, 100, true));
        until(&mut b, |b| b.sq_in.is_empty() && !b.segments.is_empty());
        b.update(1, b.segments[0].end(), 60000);
        if !b.queries.is_empty() {
            asked.push(b.clocks);
        }
        b.forget();
    }
    assert!(asked.len() >= 4 && asked.windows(2).all(|w| w[1] - w[0] < 1024 + 400), "{asked:?}");
}

/// A peer that takes what comes in order; what it must see is all FPDUs, whole and in order, each once.
///
/// Covers: TCP-16, SEG-11
#[test]
fn fpdus_arrive_whole_whatever_the_net_loses() {
    let test_seed = bench::seed("tcp_tx_data");
    let mut b = Bench::new(test_seed);
    let mut rng = ChaCha8Rng::seed_from_u64(test_seed);
    b.m.tcp_r2.set(2_000_000_000);
    let (mut cuts, mut duplicates) = (0, 0);
    for round in 0..24 {
        b.isn = [rng.random(), 0xffff_fff0, 0x7fff_ffff][round % 3];
        b.taking = [1.0, 0.4][round % 2];
        let loss = [0.0, 0.1, 0.3][round / 2 % 3];
        let indices = [3u16, 17];
        let mss = [1460, 536, 100][round % 3];
        for index in indices {
            in_full_operation(&mut b, index, mss, 8000);
        }
        b.forget();
        let top = mss / 4 * 4;
        let all: Vec<Vec<(u32, u16)>> = indices
            .iter()
            .map(|_| {
                let mut start = 0;
                (0..60)
                    .map(|_| {
                        let len = [top, 20, 4 * rng.random_range(5..=u16::max(top / 4, 6))][rng.random_range(0..3)];
                        let at = start;
                        start += u32::from(len);
                        (at, len)
                    })
                    .collect()
            })
            .collect();
        let mut queued = [0usize; 2];
        let mut acked = [0usize; 2];
        let mut next = [0u32; 2];
        let mut una = [0u32; 2];
        let mut steps = 0;
        while (0..2).any(|n| acked[n] < 60) {
            steps += 1;
            assert!(steps < 20_000, "it comes to an end: {acked:?} {next:?}");
            for n in 0..2 {
                while queued[n] < 60 && queued[n] - acked[n] < 32 && rng.random_bool(0.7) {
                    b.sq_in.push_back(fpdu(indices[n], queued[n] as u32, all[n][queued[n]].1, rng.random()));
                    queued[n] += 1;
                }
            }
            b.settle();
            for s in std::mem::take(&mut b.segments) {
                let n = indices.iter().position(|i| *i + 1000 == s.tuple.local_port).expect("one of ours");
                let Some(id) = s.fpdu else {
                    assert_eq!(s.len, 0);
                    continue;
                };
                let (start, len) = all[n][id as usize];
                let place = s.seq.wrapping_sub(b.isn).wrapping_sub(21);
                assert_eq!(place, start + u32::from(s.skip), "FPDU {id} in its place");
                assert_eq!(s.skip % 8, 0);
                let end = s.skip + s.len;
                assert!(end == len || end + 12 <= len, "cut at {end} of {len}");
                cuts += u32::from(end < len);
                if rng.random_bool(loss) {
                    continue;
                }
                if place <= next[n] {
                    next[n] = next[n].max(place + u32::from(s.len));
                } else if una[n] == next[n] {
                    let r = &b.reference[&indices[n]];
                    let (ack, window) = (b.seq(21 + una[n]), r.wnd);
                    b.rx_in.push_back(Rx { ack, window, duplicate: r.wnd != 0, ..rx(Note::Update, indices[n]) });
                    duplicates += 1;
                }
            }
            for n in 0..2 {
                if una[n] < next[n] && !rng.random_bool(loss) {
                    // now and then only a part
                    una[n] = if rng.random_bool(0.1) { rng.random_range(una[n]..=next[n]) } else { next[n] };
                    let window = [0, 30, 200, 1000, 8000][rng.random_range(0..5)];
                    b.update(indices[n], b.seq(21 + una[n]), window);
                    if window < 1000 {
                        b.now = b.now.wrapping_add(rng.random_range(0..300_000));
                        b.update(indices[n], b.seq(21 + una[n]), 8000);
                    }
                }
            }
            for told in std::mem::take(&mut b.to_sq) {
                let ToSq::Acked(index, count) = told else { panic!("{told:?}") };
                let n = indices.iter().position(|i| *i == index).expect("one of ours");
                acked[n] += usize::from(count);
                let end = all[n][acked[n] - 1];
                assert!(end.0 + u32::from(end.1) <= una[n], "told too early");
            }
            let now = b.now;
            if let Some(at) = b.deadlines.values().copied().min_by_key(|at| at.wrapping_sub(now)) {
                if rng.random_bool(0.5) {
                    b.now = at;
                }
            }
            b.settle();
        }
        for n in 0..2 {
            assert_eq!(next[n], all[n].last().map(|(at, len)| at + u32::from(*len)).expect("some"));
            b.free(indices[n]);
        }
    }
    assert!(cuts > 20 && duplicates > 100 && b.counts.timeouts > 20, "{cuts} {duplicates} {:?}", b.counts);
}

#[test]
fn what_is_owed_to_the_send_queue_waits_for_room() {
    let mut b = Bench::new(1);
    in_full_operation(&mut b, 2, 1460, 60000);
    for id in 0..32 {
        b.sq_in.push_back(fpdu(2, id, 20, false));
    }
    b.settle();
    assert_eq!(b.segments.len(), 32);
    b.hold_to_sq = true;
    for n in 1..=32 {
        b.rx_in.push_back(Rx { ack: b.seq(21 + 20 * n), window: 60000, ..rx(Note::Update, 2) });
    }
    b.settle();
    assert!(b.to_sq.is_empty() && b.rx_in.is_empty(), "nobody else waits");
    b.hold_to_sq = false;
    b.settle();
    assert_eq!(b.to_sq, [ToSq::Acked(2, 32)]);
}

/// Ten FPDUs of 1000 octets are under way of index 2, cwnd is large.
fn ten_under_way(b: &mut Bench) {
    in_full_operation(b, 2, 1000, 60000);
    for id in 0..10 {
        b.sq_in.push_back(fpdu(2, id, 1000, false));
        b.settle();
        b.update(2, b.seq(21 + 1000 * (id + 1)), 60000);
    }
    b.forget();
    for id in 10..20 {
        b.sq_in.push_back(fpdu(2, id, 1000, false));
    }
    b.settle();
    assert_eq!(b.segments.len(), 10);
    b.forget();
}
fn duplicate(b: &mut Bench, octets: u32) {
    b.rx(Rx { ack: b.seq(21 + octets), window: 60000, duplicate: true, ..rx(Note::Update, 2) });
}
fn ids(b: &mut Bench) -> Vec<u32> {
    std::mem::take(&mut b.segments).iter().filter_map(|s| s.fpdu).collect()
}

/// Covers: TCP-17
#[test]
fn the_third_duplicate_sends_the_oldest_again() {
    let mut b = Bench::new(1);
    ten_under_way(&mut b);
    // limited transmit: cwnd was 14 000 by now; make it full first
    for id in 20..26 {
        b.sq_in.push_back(fpdu(2, id, 1000, false));
    }
    b.settle();
    assert_eq!(ids(&mut b), [20, 21, 22, 23]);
    duplicate(&mut b, 10_000);
    assert_eq!(ids(&mut b), [24]);
    duplicate(&mut b, 10_000);
    assert_eq!(ids(&mut b), [25]);
    duplicate(&mut b, 10_000);
    let s = b.segments.clone();
    assert_eq!((ids(&mut b), s[0].seq, s[0].skip), (vec![10], b.seq(10_021), 0));
    let r = &b.reference[&2];
    assert_eq!((r.ssthresh, r.cwnd), (7000, 10_000), "half of the 14 000 in flight without what limited transmit sent");
    b.sq_in.push_back(fpdu(2, 26, 1000, false));
    for n in 4..=9 {
        duplicate(&mut b, 10_000);
        assert_eq!(ids(&mut b), [], "16 in flight, cwnd {}", n + 7);
    }
    duplicate(&mut b, 10_000);
    assert_eq!(ids(&mut b), [26], "cwnd is 17 000");
    b.update(2, b.seq(21 + 27_000), 60000);
    assert_eq!(b.reference[&2].cwnd, 2000, "nothing is in flight");
    assert_eq!(b.counts.timeouts, 0);
}

/// Covers: TCP-43
#[test]
fn a_partial_acknowledgement_sends_the_next_hole() {
    let mut b = Bench::new(1);
    ten_under_way(&mut b);
    for _ in 0..3 {
        duplicate(&mut b, 10_000);
    }
    assert_eq!(ids(&mut b), [10]);
    b.update(2, b.seq(21 + 13_000), 60000);
    assert_eq!(ids(&mut b), [13], "the next hole, at once");
    b.update(2, b.seq(21 + 13_500), 60000);
    let s = b.segments.clone();
    assert_eq!((ids(&mut b), s[0].skip, s[0].len), (vec![13], 496, 504));
    b.update(2, b.seq(21 + 20_000), 60000);
    assert!(!b.reference[&2].recovering);
    assert_eq!(ids(&mut b), []);
    // after a time-out duplicates of what was sent before mean nothing
    for id in 20..22 {
        b.sq_in.push_back(fpdu(2, id, 1000, false));
    }
    b.settle();
    b.forget();
    b.expire(2);
    assert_eq!(ids(&mut b), [20]);
    for _ in 0..5 {
        duplicate(&mut b, 20_000);
    }
    assert_eq!(ids(&mut b), []);
}
