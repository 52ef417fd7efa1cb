// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::rx`: rules of RFC 9293 and RFC 5961 one by one, at both sides of each boundary, and random traffic; whatever a test does, a plain
//! model of the rules does it too and must say the same.
use ironwarp_models::{bench, tcp_rx::Model, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

const CONNECTIONS: u16 = 32;
const WAITS: u16 = 32;
const LISTENERS: usize = 16;
/// Clocks in which every TIME-WAIT entry is looked at.
const SWEEP: u32 = 129 * WAITS as u32;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Tuple {
    local_ip: u32,
    remote_ip: u32,
    local_port: u16,
    remote_port: u16,
}

/// The `n`-th of many; all bits differ between them.
fn tuple(n: u32) -> Tuple {
    let mix = |by: u32| (n + 1).wrapping_mul(by).rotate_right(15);
    let ports = mix(0x85eb_ca6b);
    Tuple { local_ip: mix(0x9e37_79b9), remote_ip: mix(0xc2b2_ae35), local_port: ports as u16, remote_port: (ports >> 16) as u16 }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seg {
    tuple: Tuple,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    len: u16,
    mss: u16,
    bad_options: bool,
    link_broadcast: bool,
    listener: Option<u16>,
    /// It was held: of this connection; more is held.
    replay: Option<(u16, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ToTx {
    Open { index: u16, tuple: Tuple },
    OpenPassive { index: u16, tuple: Tuple, rcv_nxt: u32, window: u32, mss: u16 },
    Syn { index: u16, rcv_nxt: u32, ack: u32, window: u32, mss: u16 },
    Update { index: u16, rcv_nxt: u32, ack: u32, window: u32, ack_now: bool, duplicate: bool },
    Answer { index: u16, challenge: bool },
    Stop { index: u16 },
    Reply { tuple: Tuple, seq: u32, ack: u32, flags: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ToCm {
    Opened { index: u16 },
    Exists,
    NoSlot,
    Reopened { index: u16, refused: bool },
    Passive { index: u16, tuple: Tuple, listener: u16 },
    Synced { index: u16 },
    Fin { index: u16 },
    Reset { index: u16, refused: bool },
    Closed { index: u16, wait: Option<u16> },
    WaitEnd { wait: u16 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FromCm {
    Open(Tuple),
    Free(u16),
    HalfDone(u16),
    Full(u16),
    Limit(u16, u16),
    Reopen(u16),
    Discard(u16),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    index: u16,
    start: bool,
    max: u32,
    fin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Keep {
    index: u16,
    skip: u16,
    take: u16,
    first: bool,
    passive: bool,
    full: bool,
}

/// What one input made the block, or the model of the rules, say.
#[derive(Clone, Debug, Default, PartialEq)]
struct Said {
    tx: Vec<ToTx>,
    cm: Vec<ToCm>,
    keep: Option<Keep>,
    /// To be held, of this connection.
    hold: Option<u16>,
    /// RCV.NXT, when something held may be used now.
    advanced: Option<u32>,
    counts: BTreeMap<&'static str, u32>,
}

impl Said {
    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }
    fn is_silent(&self) -> bool {
        self.tx.is_empty() && self.cm.is_empty() && self.keep.is_none() && self.hold.is_none() && self.advanced.is_none()
    }
    fn update(&self) -> (u32, u32, u32, bool, bool) {
        match self.tx[..] {
            [ToTx::Update { rcv_nxt, ack, window, ack_now, duplicate, .. }, ..] => (rcv_nxt, ack, window, ack_now, duplicate),
            _ => panic!("an update was expected: {self:?}"),
        }
    }
    fn is_answer(&self, with_challenge: bool) -> bool {
        matches!(self.tx[..], [ToTx::Answer { challenge, .. }] if challenge == with_challenge) && self.cm.is_empty() && self.keep.is_none()
    }
    fn is_reset_of(&self, sequence: u32) -> bool {
        matches!(self.tx[..], [ToTx::Reply { seq, flags: RST, .. }] if seq == sequence) && self.cm.is_empty() && self.keep.is_none()
    }
}

#[derive(Clone, Copy, Debug)]
struct Registers {
    time: u32,
    two_msl: u32,
    spare: u16,
    window: u16,
}

// ---- the rules, in the order of RFC 9293 section 3.10.7 ----

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    SynSent,
    SynReceived,
    Open,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Conn {
    state: State,
    passive: bool,
    half_open: Option<u16>,
    tuple: Tuple,
    snd_known: bool,
    any_payload: bool,
    full: bool,
    fin_sent: bool,
    discard: bool,
    fin_rcvd: bool,
    closed_first: bool,
    /// Some may be held.
    held: bool,
    rcv_nxt: u32,
    right_edge: u32,
    snd_una: u32,
    snd_nxt: u32,
    snd_wnd: u16,
    max_snd_wnd: u16,
    wl1: u32,
    wl2: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tuple: Tuple,
    snd_nxt: u32,
    rcv_nxt: u32,
    right_edge: u32,
    end: u32,
}

struct Rules {
    conns: Vec<Option<Conn>>,
    waits: Vec<Option<Waiting>>,
    free: VecDeque<u16>,
    limits: [u16; LISTENERS],
    half_open: [u16; LISTENERS],
    next_wait: u16,
}

/// a < b, modulo 2^32.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn not_after(a: u32, b: u32) -> bool {
    !before(b, a)
}

impl Seg {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    /// SEG.LEN.
    fn seg_len(&self) -> u32 {
        u32::from(self.len) + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
    fn acceptable(&self, rcv_nxt: u32, wnd: u32) -> bool {
        let inside = |at: u32| at.wrapping_sub(rcv_nxt) < wnd;
        match (self.seg_len(), wnd) {
            (0, 0) => self.seq == rcv_nxt,
            (0, _) => inside(self.seq),
            (_, 0) => false,
            (len, _) => inside(self.seq) || inside(self.seq.wrapping_add(len - 1)),
        }
    }
    fn reset_with_its_ack(&self) -> ToTx {
        ToTx::Reply { tuple: self.tuple, seq: self.ack, ack: 0, flags: RST }
    }
}

impl Rules {
    fn new() -> Self {
        Rules {
            conns: vec![None; CONNECTIONS.into()],
            waits: vec![None; WAITS.into()],
            free: (0..CONNECTIONS).collect(),
            limits: [0; LISTENERS],
            half_open: [0; LISTENERS],
            next_wait: 0,
        }
    }
    fn connection_of(&self, tuple: Tuple) -> Option<u16> {
        (0..CONNECTIONS).find(|i| self.conns[usize::from(*i)].is_some_and(|c| c.state != State::Dead && c.tuple == tuple))
    }
    fn wait_of(&self, tuple: Tuple) -> Option<u16> {
        (0..WAITS).find(|i| self.waits[usize::from(*i)].is_some_and(|w| w.tuple == tuple))
    }

    fn command(&mut self, command: FromCm, r: &Registers) -> Said {
        let mut said = Said::default();
        match command {
            FromCm::Open(tuple) => {
                if self.connection_of(tuple).is_some() || self.wait_of(tuple).is_some() {
                    said.cm.push(ToCm::Exists);
                } else if let Some(index) = self.free.pop_front() {
                    self.conns[usize::from(index)] = Some(Conn::syn_sent(tuple, r));
                    said.tx.push(ToTx::Open { index, tuple });
                    said.cm.push(ToCm::Opened { index });
                    said.count("active_opens");
                } else {
                    said.cm.push(ToCm::NoSlot);
                }
            }
            FromCm::Free(index) => {
                if let Some(c) = self.conns[usize::from(index)].take() {
                    if let Some(listener) = c.half_open {
                        self.half_open[usize::from(listener)] -= 1;
                    }
                    c.count_end(&mut said);
                    self.free.push_back(index);
                }
            }
            FromCm::HalfDone(index) => {
                if let Some(listener) = self.conns[usize::from(index)].as_mut().and_then(|c| c.half_open.take()) {
                    self.half_open[usize::from(listener)] -= 1;
                }
            }
            FromCm::Full(index) => {
                if let Some(c) = &mut self.conns[usize::from(index)] {
                    c.full = true;
                }
            }
            FromCm::Discard(index) => {
                if let Some(c) = &mut self.conns[usize::from(index)] {
                    c.discard = true;
                }
            }
            FromCm::Reopen(index) => {
                if let Some(c) = self.conns[usize::from(index)] {
                    c.count_end(&mut said);
                    let refused = c.state == State::Dead && (self.connection_of(c.tuple).is_some() || self.wait_of(c.tuple).is_some());
                    said.cm.push(ToCm::Reopened { index, refused });
                    if !refused {
                        self.conns[usize::from(index)] = Some(Conn::syn_sent(c.tuple, r));
                        said.tx.push(ToTx::Open { index, tuple: c.tuple });
                        said.count("active_opens");
                    }
                }
            }
            FromCm::Limit(listener, limit) => self.limits[usize::from(listener)] = limit,
        }
        said
    }

    fn sent(&mut self, sent: Sent) -> Said {
        if let Some(c) = &mut self.conns[usize::from(sent.index)] {
            c.snd_nxt = sent.max;
            c.fin_sent |= sent.fin;
            if sent.start {
                c.snd_known = true;
                c.snd_una = sent.max.wrapping_sub(1);
            }
        }
        Said::default()
    }

    fn pass_time(&mut self, r: &Registers) -> Said {
        let mut said = Said::default();
        for wait in 0..WAITS {
            if self.waits[usize::from(wait)].is_some_and(|w| not_after(w.end, r.time)) {
                self.waits[usize::from(wait)] = None;
                said.cm.push(ToCm::WaitEnd { wait });
            }
        }
        said
    }

    fn segment(&mut self, s: &Seg, eat: u16, r: &Registers) -> Said {
        let mut said = Said::default();
        if let Some((index, more)) = s.replay {
            self.replayed(index, more, s, eat, r, &mut said);
        } else if s.bad_options {
            said.count("in_errs");
        } else if !s.link_broadcast {
            if let Some(index) = self.connection_of(s.tuple) {
                self.connection(index, s, eat, r, &mut said);
            } else if let Some(wait) = self.wait_of(s.tuple) {
                self.time_wait(wait, s, r, &mut said);
            } else {
                self.nobody(s, r, &mut said);
            }
        }
        said
    }

    /// CLOSED and LISTEN.
    fn nobody(&mut self, s: &Seg, r: &Registers, said: &mut Said) {
        if s.has(RST) {
            return;
        }
        if s.has(ACK) {
            said.tx.push(s.reset_with_its_ack());
        } else if s.listener.is_some() {
            if s.has(SYN) {
                self.passive_open(s, None, r, said);
            }
        } else {
            said.tx.push(ToTx::Reply { tuple: s.tuple, seq: 0, ack: s.seq.wrapping_add(s.seg_len()), flags: RST | ACK });
        }
    }

    fn passive_open(&mut self, s: &Seg, wait: Option<u16>, r: &Registers, said: &mut Said) {
        let listener = s.listener.expect("only for a listener");
        let l = usize::from(listener);
        if self.half_open[l] >= self.limits[l] || self.free.len() <= r.spare.into() {
            said.count("syn_dropped");
            return;
        }
        if let Some(wait) = wait {
            self.waits[usize::from(wait)] = None;
            said.cm.push(ToCm::WaitEnd { wait });
            said.count("wait_reused");
        }
        self.half_open[l] += 1;
        let index = self.free.pop_front().expect("more than the spare ones are free");
        let rcv_nxt = s.seq.wrapping_add(1);
        self.conns[usize::from(index)] = Some(Conn {
            state: State::SynReceived,
            passive: true,
            half_open: Some(listener),
            rcv_nxt,
            right_edge: rcv_nxt.wrapping_add(r.window.into()),
            snd_wnd: s.window,
            max_snd_wnd: s.window,
            wl1: s.seq,
            ..Conn::syn_sent(s.tuple, r)
        });
        said.tx.push(ToTx::OpenPassive { index, tuple: s.tuple, rcv_nxt, window: s.window.into(), mss: s.mss });
        said.cm.push(ToCm::Passive { index, tuple: s.tuple, listener });
        said.count("passive_opens");
    }

    fn time_wait(&mut self, wait: u16, s: &Seg, r: &Registers, said: &mut Said) {
        let w = self.waits[usize::from(wait)].as_mut().expect("looked up");
        if s.has(RST) {
            return;
        }
        if s.has(SYN) && !s.has(ACK) && s.listener.is_some() && before(w.rcv_nxt, s.seq) {
            return self.passive_open(s, Some(wait), r, said);
        }
        let edge = w.rcv_nxt.wrapping_add(r.window.into());
        let edge = if before(edge, w.right_edge) { w.right_edge } else { edge };
        if !s.has(SYN) && s.acceptable(w.rcv_nxt, edge.wrapping_sub(w.rcv_nxt)) && (s.seg_len() == 0 || !s.has(ACK)) {
            return;
        }
        if s.has(FIN) && s.seq.wrapping_add(s.len.into()).wrapping_add(1) == w.rcv_nxt {
            w.end = r.time.wrapping_add(r.two_msl);
        }
        said.tx.push(ToTx::Reply { tuple: s.tuple, seq: w.snd_nxt, ack: w.rcv_nxt, flags: ACK });
    }

    fn connection(&mut self, index: u16, s: &Seg, eat: u16, r: &Registers, said: &mut Said) {
        let c = self.conns[usize::from(index)].as_mut().expect("looked up");
        if !c.snd_known {
            return;
        }
        let acks_new = before(c.snd_una, s.ack) && not_after(s.ack, c.snd_nxt);
        if c.state == State::SynSent {
            if s.has(ACK) && !acks_new {
                if !s.has(RST) {
                    said.tx.push(s.reset_with_its_ack());
                }
            } else if s.has(RST) {
                if s.has(ACK) {
                    said.count("attempt_fails");
                    c.reset(index, true, said);
                }
            } else if s.has(SYN) {
                c.rcv_nxt = s.seq.wrapping_add(1);
                c.right_edge = c.rcv_nxt.wrapping_add(r.window.into());
                (c.snd_wnd, c.max_snd_wnd, c.wl1, c.wl2) = (s.window, s.window, s.seq, s.ack);
                c.state = State::SynReceived;
                if s.has(ACK) {
                    c.snd_una = s.ack;
                    c.state = State::Open;
                    said.cm.push(ToCm::Synced { index });
                }
                said.tx.push(ToTx::Syn { index, rcv_nxt: c.rcv_nxt, ack: c.snd_una, window: s.window.into(), mss: s.mss });
            }
            return;
        }
        let offered = c.rcv_nxt.wrapping_add(r.window.into());
        let right_edge = if before(c.right_edge, offered) { offered } else { c.right_edge };
        let wnd = right_edge.wrapping_sub(c.rcv_nxt);
        let in_window = s.seq.wrapping_sub(c.rcv_nxt) < wnd;
        let acceptable = s.acceptable(c.rcv_nxt, wnd);
        let unacceptable = |said: &mut Said| {
            if !acceptable {
                said.count("in_unacceptable");
            }
        };
        let answer = |challenge: bool, said: &mut Said| said.tx.push(ToTx::Answer { index, challenge });
        // RFC 5961 section 3.2
        if s.has(RST) {
            if s.seq == c.rcv_nxt {
                match c.state {
                    State::SynReceived => said.count("attempt_fails"),
                    _ if !c.fin_sent => said.count("estab_resets"),
                    _ => {}
                }
                c.reset(index, c.state == State::SynReceived, said);
            } else if in_window {
                answer(true, said);
            } else {
                said.count("in_unacceptable");
            }
            return;
        }
        let crossing =
            c.state == State::SynReceived && !c.passive && s.has(SYN) && s.has(ACK) && acks_new && s.seq.wrapping_add(1) == c.rcv_nxt;
        if !crossing {
            // RFC 5961 section 4.2
            if s.has(SYN) {
                if c.state == State::SynReceived && c.passive && in_window {
                    said.count("attempt_fails");
                    c.reset(index, true, said);
                } else {
                    unacceptable(said);
                    answer(true, said);
                }
                return;
            }
            if !acceptable {
                unacceptable(said);
                answer(false, said);
                return;
            }
            if !s.has(ACK) {
                return;
            }
        }
        let old_wnd = c.snd_wnd;
        let duplicate = s.ack == c.snd_una && c.snd_una != c.snd_nxt && s.seg_len() == 0 && s.window == old_wnd;
        let opens = c.state == State::SynReceived;
        if opens {
            if !acks_new {
                said.tx.push(s.reset_with_its_ack());
                return;
            }
            c.state = State::Open;
            said.cm.push(ToCm::Synced { index });
        } else if before(c.snd_nxt, s.ack) || before(s.ack, c.snd_una.wrapping_sub(c.max_snd_wnd.into())) {
            answer(true, said);
            return;
        }
        if opens || not_after(c.snd_una, s.ack) && (before(c.wl1, s.seq) || c.wl1 == s.seq && not_after(c.wl2, s.ack)) {
            (c.snd_wnd, c.wl1, c.wl2) = (s.window, s.seq, s.ack);
            c.max_snd_wnd = c.max_snd_wnd.max(s.window);
        }
        if acks_new {
            c.snd_una = s.ack;
        }
        if crossing {
            said.tx.push(ToTx::Update { index, rcv_nxt: c.rcv_nxt, ack: c.snd_una, window: c.snd_wnd.into(), ack_now: true, duplicate });
        } else {
            self.text(index, s, right_edge, duplicate, eat, r, said);
        }
    }

    /// What was held comes again, without ACK and window; in the end an empty one.
    fn replayed(&mut self, index: u16, more: bool, s: &Seg, eat: u16, r: &Registers, said: &mut Said) {
        let Some(c) = self.conns[usize::from(index)].as_mut().filter(|c| c.state == State::Open) else { return };
        let offered = c.rcv_nxt.wrapping_add(r.window.into());
        let right_edge = if before(c.right_edge, offered) { offered } else { c.right_edge };
        if s.seg_len() == 0 {
            c.held = more;
            if !c.fin_rcvd {
                let (rcv_nxt, ack, window) = (c.rcv_nxt, c.snd_una, c.snd_wnd.into());
                said.tx.push(ToTx::Update { index, rcv_nxt, ack, window, ack_now: true, duplicate: false });
            }
        } else if s.acceptable(c.rcv_nxt, right_edge.wrapping_sub(c.rcv_nxt)) {
            self.text(index, s, right_edge, false, eat, r, said);
        }
    }

    /// Seventh and eighth, of an acceptable segment.
    #[allow(clippy::too_many_arguments)]
    fn text(&mut self, index: u16, s: &Seg, right_edge: u32, duplicate: bool, eat: u16, r: &Registers, said: &mut Said) {
        let c = self.conns[usize::from(index)].as_mut().expect("looked up");
        let mut ack_now = false;
        // seventh: the octets of the text that are new
        let text_end = s.seq.wrapping_add(s.len.into());
        let in_text = s.len > 0 && before(c.rcv_nxt, text_end) && !c.fin_rcvd;
        let mut consumed = 0;
        if in_text && c.fin_sent && !c.discard {
            said.tx.push(ToTx::Stop { index });
            said.tx.push(ToTx::Reply { tuple: c.tuple, seq: c.snd_nxt, ack: c.rcv_nxt, flags: RST | ACK });
            said.cm.push(ToCm::Reset { index, refused: false });
            c.state = State::Dead;
            return;
        }
        let late = before(c.rcv_nxt, s.seq);
        if in_text && !late {
            let end = if before(right_edge, text_end) { right_edge } else { text_end };
            let skip = c.rcv_nxt.wrapping_sub(s.seq) as u16;
            let take = end.wrapping_sub(c.rcv_nxt) as u16;
            said.keep = Some(Keep { index, skip, take, first: !c.any_payload, passive: c.passive, full: c.full });
            consumed = take.min(eat);
        } else if late && s.seg_len() > 0 {
            ack_now = true;
            if !c.fin_rcvd {
                said.hold = Some(index);
                c.held = true;
            }
        }
        c.rcv_nxt = c.rcv_nxt.wrapping_add(consumed.into());
        c.any_payload |= consumed > 0;
        if consumed > 0 && c.held {
            // the ACK is that of the last which was held
            said.advanced = Some(c.rcv_nxt);
        } else {
            ack_now |= consumed > 0 && (s.has(PSH) || c.full);
        }
        // eighth
        if s.has(FIN) && !c.fin_rcvd && text_end == c.rcv_nxt && c.rcv_nxt != right_edge {
            c.rcv_nxt = c.rcv_nxt.wrapping_add(1);
            c.fin_rcvd = true;
            c.closed_first = c.fin_sent;
            ack_now = true;
            said.advanced = None;
            said.cm.push(ToCm::Fin { index });
        }
        let offered = c.rcv_nxt.wrapping_add(r.window.into());
        c.right_edge = if before(right_edge, offered) { offered } else { right_edge };
        let finished = c.fin_sent && c.fin_rcvd && c.snd_una == c.snd_nxt;
        let waits = finished && c.closed_first;
        let (rcv_nxt, ack, window) = (c.rcv_nxt, c.snd_una, c.snd_wnd.into());
        said.tx.push(ToTx::Update { index, rcv_nxt, ack, window, ack_now: ack_now && !waits, duplicate });
        if finished {
            c.state = State::Dead;
            said.tx.push(ToTx::Stop { index });
            let mut wait = None;
            if waits {
                if ack_now {
                    said.tx.push(ToTx::Reply { tuple: c.tuple, seq: c.snd_nxt, ack: c.rcv_nxt, flags: ACK });
                }
                let end = r.time.wrapping_add(r.two_msl);
                let w = Waiting { tuple: c.tuple, snd_nxt: c.snd_nxt, rcv_nxt: c.rcv_nxt, right_edge: c.right_edge, end };
                wait = Some(self.enter_time_wait(w, r, said));
            }
            said.cm.push(ToCm::Closed { index, wait });
        }
    }

    /// The first free place from where the last search ended, else that of the entry which would end first.
    fn enter_time_wait(&mut self, w: Waiting, r: &Registers, said: &mut Said) -> u16 {
        let order: Vec<u16> = (0..WAITS).map(|n| (self.next_wait + n) % WAITS).collect();
        let place = match order.iter().find(|n| self.waits[usize::from(**n)].is_none()) {
            Some(place) => {
                self.next_wait = (place + 1) % WAITS;
                *place
            }
            None => {
                let left = |n: &u16| self.waits[usize::from(*n)].map(|w| w.end.wrapping_sub(r.time) as i32);
                let place = *order.iter().min_by_key(|n| left(n)).expect("there are entries");
                said.count("wait_overflow");
                said.cm.insert(0, ToCm::WaitEnd { wait: place });
                place
            }
        };
        self.waits[usize::from(place)] = Some(w);
        place
    }
}

impl Conn {
    fn syn_sent(tuple: Tuple, r: &Registers) -> Self {
        Conn {
            state: State::SynSent,
            passive: false,
            half_open: None,
            tuple,
            snd_known: false,
            any_payload: false,
            full: false,
            fin_sent: false,
            discard: false,
            fin_rcvd: false,
            closed_first: false,
            held: false,
            rcv_nxt: 0,
            right_edge: u32::from(r.window),
            snd_una: 0,
            snd_nxt: 0,
            snd_wnd: 0,
            max_snd_wnd: 0,
            wl1: 0,
            wl2: 0,
        }
    }
    /// What RFC 4022 counts when we end it without a peer.
    fn count_end(&self, said: &mut Said) {
        match self.state {
            State::SynSent | State::SynReceived => said.count("attempt_fails"),
            State::Open if !self.fin_sent => said.count("estab_resets"),
            _ => {}
        }
    }
    fn reset(&mut self, index: u16, refused: bool, said: &mut Said) {
        self.state = State::Dead;
        said.tx.push(ToTx::Stop { index });
        said.cm.push(ToCm::Reset { index, refused });
    }
}

// ---- the bench ----

/// A channel that the block offers: what is offered must stay.
#[derive(Default)]
struct Offer(Option<Vec<u64>>);

impl Offer {
    fn check(&mut self, valid: bool, taken: bool, value: Vec<u64>) {
        if let Some(before) = &self.0 {
            assert!(valid, "an offer is not withdrawn");
            assert_eq!(*before, value, "an offer does not change");
        }
        self.0 = (valid && !taken).then_some(value);
    }
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    rules: Rules,
    r: Registers,
    /// Neither back pressure nor latency.
    calm: bool,
    /// The start-up parser takes over at most so many octets of a payload.
    eat: u16,
    tuples: HashMap<Tuple, u16>,
    found: Option<(bool, u16, u32)>,
    consumed: Option<(u16, u32)>,
    segments: VecDeque<Seg>,
    sents: VecDeque<Sent>,
    commands: VecDeque<FromCm>,
    verdicts: u32,
    /// Notes that a segment is dealt with.
    settled: u32,
    /// Connections of which something may be held: `hold` and no `forget` since.
    holding: BTreeSet<u16>,
    said: Said,
    offers: [Offer; 4],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            rules: Rules::new(),
            r: Registers { time: 0xffff_f000, two_msl: 240_000, spare: 4, window: 1000 },
            calm: false,
            eat: u16::MAX,
            tuples: HashMap::new(),
            found: None,
            consumed: None,
            segments: VecDeque::new(),
            sents: VecDeque::new(),
            commands: VecDeque::new(),
            verdicts: 0,
            settled: 0,
            holding: BTreeSet::new(),
            said: Said::default(),
            offers: Default::default(),
        };
        b.reset();
        b
    }

    /// Resets the block and all around it.
    fn reset(&mut self) {
        self.rules = Rules::new();
        self.tuples.clear();
        (self.found, self.consumed) = (None, None);
        self.segments.clear();
        self.sents.clear();
        self.commands.clear();
        self.said = Said::default();
        self.holding.clear();
        self.settled = self.verdicts;
        self.offers = Default::default();
        self.drive();
        self.m.reset.set(true);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        for _ in 0..2 * CONNECTIONS {
            self.m.eval();
            assert!(!self.m.ready.get(), "the memory is being cleared");
            self.clock();
        }
        assert!(self.m.ready.get());
    }

    fn drive(&mut self) {
        let chance = if self.calm { 1.0 } else { 0.7 };
        let m = &mut self.m;
        m.time_us.set(self.r.time);
        m.two_msl.set(self.r.two_msl);
        m.spare_slots.set(self.r.spare);
        m.window.set(self.r.window);
        m.verdict_ready.set(self.rng.random_bool(chance));
        m.lookup_ready.set(self.rng.random_bool(chance));
        m.to_tx_ready.set(self.rng.random_bool(chance));
        m.to_cm_ready.set(self.rng.random_bool(chance));
        m.segment_valid.set(!self.segments.is_empty());
        if let Some(s) = self.segments.front() {
            m.segment_data_tuple_local_ip.set(s.tuple.local_ip.into());
            m.segment_data_tuple_remote_ip.set(s.tuple.remote_ip.into());
            m.segment_data_tuple_local_port.set(s.tuple.local_port.into());
            m.segment_data_tuple_remote_port.set(s.tuple.remote_port.into());
            m.segment_data_seq.set(s.seq.into());
            m.segment_data_ack.set(s.ack.into());
            m.segment_data_flags.set(s.flags.into());
            m.segment_data_window.set(s.window.into());
            m.segment_data_len.set(s.len.into());
            m.segment_data_mss.set(s.mss.into());
            m.segment_data_bad_options.set(s.bad_options.into());
            m.segment_data_link_broadcast.set(s.link_broadcast.into());
            m.segment_data_listening.set(s.listener.is_some().into());
            m.segment_data_listener.set(s.listener.unwrap_or(7).into());
            m.segment_data_replay.set(s.replay.is_some().into());
            m.segment_data_index.set(s.replay.map_or(0, |(index, _)| index.into()));
            m.segment_data_more.set(s.replay.is_some_and(|(_, more)| more).into());
        }
        m.from_tx_valid.set(!self.sents.is_empty());
        if let Some(s) = self.sents.front() {
            m.from_tx_data_index.set(s.index.into());
            m.from_tx_data_start.set(s.start.into());
            m.from_tx_data_max.set(s.max.into());
            m.from_tx_data_fin.set(s.fin.into());
        }
        m.from_cm_valid.set(!self.commands.is_empty());
        if let Some(c) = self.commands.front() {
            let (op, index, tuple, limit) = match *c {
                FromCm::Open(tuple) => (0, 0, tuple, 0),
                FromCm::Free(index) => (1, index, Tuple::default(), 0),
                FromCm::HalfDone(index) => (2, index, Tuple::default(), 0),
                FromCm::Full(index) => (3, index, Tuple::default(), 0),
                FromCm::Limit(listener, limit) => (4, listener, Tuple::default(), limit),
                FromCm::Reopen(index) => (5, index, Tuple::default(), 0),
                FromCm::Discard(index) => (6, index, Tuple::default(), 0),
            };
            m.from_cm_data_op.set(op);
            m.from_cm_data_index.set(index.into());
            m.open_tuple_local_ip.set(tuple.local_ip.into());
            m.open_tuple_remote_ip.set(tuple.remote_ip.into());
            m.open_tuple_local_port.set(tuple.local_port.into());
            m.open_tuple_remote_port.set(tuple.remote_port.into());
            m.from_cm_data_limit.set(limit.into());
        }
        let found = self.found.filter(|(_, _, wait)| *wait == 0);
        m.found_valid.set(found.is_some());
        if let Some((hit, index, _)) = found {
            m.found_data_found.set(hit.into());
            m.found_data_index.set(index.into());
        }
        let consumed = self.consumed.filter(|(_, wait)| *wait == 0);
        m.consumed_valid.set(consumed.is_some());
        if let Some((octets, _)) = consumed {
            m.consumed_data.set(octets);
        }
        m.eval();
    }

    fn clock(&mut self) {
        self.drive();
        let m = &self.m;
        let delay = |rng: &mut ChaCha8Rng, calm: bool| if calm { 0 } else { rng.random_range(0..8) };
        if let Some((_, _, wait)) = &mut self.found {
            *wait = wait.saturating_sub(1);
        }
        if let Some((_, wait)) = &mut self.consumed {
            *wait = wait.saturating_sub(1);
        }
        if m.found_valid.get() && m.found_ready.get() {
            self.found = None;
        }
        if m.consumed_valid.get() && m.consumed_ready.get() {
            self.consumed = None;
        }
        if m.segment_valid.get() && m.segment_ready.get() {
            self.segments.pop_front();
        }
        if m.from_tx_valid.get() && m.from_tx_ready.get() {
            self.sents.pop_front();
        }
        if m.from_cm_valid.get() && m.from_cm_ready.get() {
            self.commands.pop_front();
        }

        let taken = m.lookup_valid.get() && m.lookup_ready.get();
        let asked = Tuple {
            local_ip: m.lookup_data_tuple_local_ip.get() as u32,
            remote_ip: m.lookup_data_tuple_remote_ip.get() as u32,
            local_port: m.lookup_data_tuple_local_port.get() as u16,
            remote_port: m.lookup_data_tuple_remote_port.get() as u16,
        };
        let (op, index) = (m.lookup_data_op.get(), m.lookup_data_index.get() as u16);
        let key = u64::from(asked.remote_ip) << 32 | u64::from(asked.remote_port) << 16 | u64::from(asked.local_port);
        self.offers[0].check(m.lookup_valid.get(), taken, vec![op, index.into(), key]);
        if taken {
            assert!(self.found.is_none(), "one question at a time");
            let hit = match op {
                0 => self.tuples.get(&asked).copied(),
                1 => {
                    assert!(self.tuples.values().all(|i| *i != index), "index {index} has a tuple already");
                    assert!(self.tuples.insert(asked, index).is_none(), "{asked:?} is somebody's");
                    None
                }
                _ => {
                    assert_eq!(self.tuples.remove(&asked), Some(index), "only what is in it is removed");
                    None
                }
            };
            self.found = Some((hit.is_some(), hit.unwrap_or(0), delay(&mut self.rng, self.calm)));
        }

        let taken = m.verdict_valid.get() && m.verdict_ready.get();
        let keep = Keep {
            index: m.verdict_data_index.get() as u16,
            skip: m.verdict_data_skip.get() as u16,
            take: m.verdict_data_take.get() as u16,
            first: m.verdict_data_first.bit(),
            passive: m.verdict_data_passive.bit(),
            full: m.verdict_data_full.bit(),
        };
        let value = vec![m.verdict_data_keep.get(), keep.skip.into(), keep.take.into(), keep.index.into(), keep.first.into()];
        self.offers[1].check(m.verdict_valid.get(), taken, value);
        if taken {
            self.verdicts += 1;
            if m.verdict_data_hold.bit() {
                assert!(!m.verdict_data_keep.bit());
                self.said.hold = Some(keep.index);
                self.holding.insert(keep.index);
            }
            if m.verdict_data_keep.bit() {
                assert!(self.consumed.is_none() && self.said.keep.is_none());
                assert_ne!(keep.take, 0, "nothing is no payload");
                self.said.keep = Some(keep);
                self.consumed = Some((keep.take.min(self.eat), delay(&mut self.rng, self.calm)));
            }
        }

        let taken = m.to_tx_valid.get() && m.to_tx_ready.get();
        let tuple = Tuple {
            local_ip: m.to_tx_data_tuple_local_ip.get() as u32,
            remote_ip: m.to_tx_data_tuple_remote_ip.get() as u32,
            local_port: m.to_tx_data_tuple_local_port.get() as u16,
            remote_port: m.to_tx_data_tuple_remote_port.get() as u16,
        };
        let (note, index) = (m.to_tx_data_note.get(), m.to_tx_data_index.get() as u16);
        let (rcv_nxt, ack) = (m.to_tx_data_rcv_nxt.get() as u32, m.to_tx_data_ack.get() as u32);
        let (window, mss) = (m.to_tx_data_window.get() as u32, m.to_tx_data_mss.get() as u16);
        let (ack_now, duplicate) = (m.to_tx_data_ack_now.bit(), m.to_tx_data_duplicate.bit());
        let (seq, flags) = (m.to_tx_data_seq.get() as u32, m.to_tx_data_flags.get() as u8);
        let value = vec![note, index.into(), rcv_nxt.into(), ack.into(), window.into(), seq.into(), flags.into(), mss.into()];
        self.offers[2].check(m.to_tx_valid.get(), taken, value);
        if taken {
            self.said.tx.push(match note {
                0 if m.to_tx_data_passive.bit() => ToTx::OpenPassive { index, tuple, rcv_nxt, window, mss },
                0 => ToTx::Open { index, tuple },
                1 => ToTx::Syn { index, rcv_nxt, ack, window, mss },
                2 => ToTx::Update { index, rcv_nxt, ack, window, ack_now, duplicate },
                3 => ToTx::Answer { index, challenge: m.to_tx_data_challenge.bit() },
                4 => ToTx::Stop { index },
                5 => ToTx::Reply { tuple, seq, ack, flags },
                other => panic!("note {other}"),
            });
        }

        let taken = m.to_cm_valid.get() && m.to_cm_ready.get();
        let tuple = Tuple {
            local_ip: m.to_cm_data_tuple_local_ip.get() as u32,
            remote_ip: m.to_cm_data_tuple_remote_ip.get() as u32,
            local_port: m.to_cm_data_tuple_local_port.get() as u16,
            remote_port: m.to_cm_data_tuple_remote_port.get() as u16,
        };
        let (note, index, wait) = (m.to_cm_data_note.get(), m.to_cm_data_index.get() as u16, m.to_cm_data_wait.get() as u16);
        self.offers[3].check(m.to_cm_valid.get(), taken, vec![note, index.into(), wait.into()]);
        if taken {
            self.said.cm.push(match note {
                0 => ToCm::Opened { index },
                1 => ToCm::Exists,
                2 => ToCm::NoSlot,
                3 => ToCm::Reopened { index, refused: m.to_cm_data_refused.bit() },
                4 => ToCm::Passive { index, tuple, listener: m.to_cm_data_listener.get() as u16 },
                5 => ToCm::Synced { index },
                6 => ToCm::Fin { index },
                7 => ToCm::Reset { index, refused: m.to_cm_data_refused.bit() },
                8 => ToCm::Closed { index, wait: m.to_cm_data_waiting.bit().then_some(wait) },
                9 => ToCm::WaitEnd { wait },
                other => panic!("note {other}"),
            });
        }

        if m.note_forget.bit() {
            let index = m.note_index.get() as u16;
            assert!(index < CONNECTIONS, "nothing of TIME-WAIT is held");
            self.holding.remove(&index);
        }
        if m.note_settled.bit() {
            self.settled += 1;
            assert_eq!(self.settled, self.verdicts, "after the verdict");
            if m.note_advanced.bit() {
                self.said.advanced = Some(m.note_rcv_nxt.get() as u32);
            }
        }
        for (pulse, name) in [
            (&m.cnt_tcp_in_errs, "in_errs"),
            (&m.cnt_tcp_active_opens, "active_opens"),
            (&m.cnt_tcp_passive_opens, "passive_opens"),
            (&m.cnt_tcp_attempt_fails, "attempt_fails"),
            (&m.cnt_tcp_estab_resets, "estab_resets"),
            (&m.cnt_tcp_syn_dropped, "syn_dropped"),
            (&m.cnt_tcp_in_unacceptable, "in_unacceptable"),
            (&m.cnt_tcp_wait_overflow, "wait_overflow"),
            (&m.cnt_tcp_wait_reused, "wait_reused"),
        ] {
            if pulse.get() {
                *self.said.counts.entry(name).or_default() += 1;
            }
        }
        self.m.tick();
    }

    /// Until all that was given is done. With nothing to do the block is ready for a segment.
    fn settle(&mut self) -> Said {
        let mut clocks = 0;
        loop {
            self.clock();
            clocks += 1;
            assert!(clocks < 2000, "the block hangs; it said {:?}", self.said);
            self.m.eval();
            let given = self.segments.is_empty() && self.sents.is_empty() && self.commands.is_empty();
            if given && self.found.is_none() && self.consumed.is_none() {
                self.drive();
                if self.m.segment_ready.get() {
                    return std::mem::take(&mut self.said);
                }
            }
        }
    }

    fn segment(&mut self, s: Seg) -> Said {
        let verdicts = self.verdicts;
        self.segments.push_back(s);
        let said = self.settle();
        assert_eq!((self.verdicts, self.settled), (verdicts + 1, verdicts + 1), "one verdict and one end for {s:?}");
        if let Some((index, false)) = s.replay.filter(|_| s.seg_len() == 0) {
            self.holding.remove(&index);
        }
        let rules = self.rules.segment(&s, self.eat, &self.r);
        assert_eq!(said, rules, "block and rules, for {s:?}");
        self.check();
        said
    }
    fn command(&mut self, c: FromCm) -> Said {
        self.commands.push_back(c);
        let said = self.settle();
        let rules = self.rules.command(c, &self.r);
        assert_eq!(said, rules, "block and rules, for {c:?}");
        self.check();
        said
    }
    fn sent(&mut self, index: u16, start: bool, max: u32, fin: bool) {
        let sent = Sent { index, start, max, fin };
        self.sents.push_back(sent);
        assert_eq!(self.settle(), self.rules.sent(sent), "block and rules, for {sent:?}");
    }
    fn pass(&mut self, micros: u32) -> Said {
        self.r.time = self.r.time.wrapping_add(micros);
        for _ in 0..SWEEP {
            self.clock();
        }
        let mut said = self.settle();
        said.cm.sort_by_key(|m| if let ToCm::WaitEnd { wait } = m { *wait } else { panic!("{m:?}") });
        assert_eq!(said, self.rules.pass_time(&self.r), "block and rules, after {micros} microseconds");
        self.check();
        said
    }
    /// What is in the look-up.
    fn check(&self) {
        let mut expected = HashMap::new();
        for i in 0..CONNECTIONS {
            if let Some(c) = self.rules.conns[usize::from(i)].filter(|c| c.state != State::Dead) {
                expected.insert(c.tuple, i);
            }
        }
        for i in 0..WAITS {
            if let Some(w) = self.rules.waits[usize::from(i)] {
                expected.insert(w.tuple, CONNECTIONS + i);
            }
        }
        assert_eq!(self.tuples, expected, "the look-up");
        let conn = |i: &u16| self.rules.conns[usize::from(*i)];
        let holding: BTreeSet<_> =
            (0..CONNECTIONS).filter(|i| conn(i).is_some_and(|c| c.held && c.state == State::Open && !c.fin_rcvd)).collect();
        assert_eq!(self.holding, holding, "what may be held");
    }
}

/// A peer: what it and we have agreed on.
#[derive(Clone, Copy, Debug)]
struct Peer {
    index: u16,
    tuple: Tuple,
    /// Its next sequence number, and ours.
    seq: u32,
    ack: u32,
    window: u16,
}

impl Peer {
    fn segment(&self, flags: u8, len: u16) -> Seg {
        Seg { tuple: self.tuple, seq: self.seq, ack: self.ack, flags, window: self.window, len, ..Seg::default() }
    }
    /// What was held of it: no ACK, no window that means anything.
    fn replay(&self, flags: u8, len: u16) -> Seg {
        let replay = Some((self.index, false));
        Seg { seq: self.seq, ack: 0x1234_5678, window: 9, flags, len, replay, tuple: tuple(77), ..Seg::default() }
    }
    /// `by` octets beyond (or before) what is next.
    fn at(&self, by: i64) -> Self {
        Peer { seq: self.seq.wrapping_add(by as u32), ..*self }
    }
    fn acking(&self, ack: u32) -> Self {
        Peer { ack, ..*self }
    }
}

impl Bench {
    fn open(&mut self, tuple: Tuple) -> u16 {
        match self.command(FromCm::Open(tuple)).cm[..] {
            [ToCm::Opened { index }] => index,
            ref other => panic!("{other:?}"),
        }
    }
    /// Active open up to SYN-SENT.
    fn syn_sent(&mut self, tuple: Tuple, iss: u32) -> u16 {
        let index = self.open(tuple);
        self.sent(index, true, iss.wrapping_add(1), false);
        index
    }
    fn active(&mut self, tuple: Tuple, iss: u32, irs: u32) -> Peer {
        let index = self.syn_sent(tuple, iss);
        let mut p = Peer { index, tuple, seq: irs, ack: iss.wrapping_add(1), window: 8192 };
        let said = self.segment(Seg { mss: 1460, ..p.segment(SYN | ACK, 0) });
        p.seq = irs.wrapping_add(1);
        assert_eq!(said.tx, [ToTx::Syn { index, rcv_nxt: p.seq, ack: p.ack, window: 8192, mss: 1460 }]);
        assert_eq!(said.cm, [ToCm::Synced { index }]);
        p
    }
    /// Passive open up to SYN-RECEIVED, of listener 3.
    fn syn_received(&mut self, tuple: Tuple, iss: u32, irs: u32) -> Peer {
        let p = Peer { index: 0, tuple, seq: irs, ack: 0, window: 8192 };
        let said = self.segment(Seg { mss: 1460, listener: Some(3), ..p.segment(SYN, 0) });
        let rcv_nxt = irs.wrapping_add(1);
        let [ToCm::Passive { index, listener: 3, .. }] = said.cm[..] else { panic!("{said:?}") };
        assert_eq!(said.tx, [ToTx::OpenPassive { index, tuple, rcv_nxt, window: 8192, mss: 1460 }]);
        self.sent(index, true, iss.wrapping_add(1), false);
        Peer { index, seq: rcv_nxt, ack: iss.wrapping_add(1), ..p }
    }
    fn passive(&mut self, tuple: Tuple, iss: u32, irs: u32) -> Peer {
        self.command(FromCm::Limit(3, 8));
        let p = self.syn_received(tuple, iss, irs);
        let said = self.segment(p.segment(ACK, 0));
        assert_eq!(said.cm, [ToCm::Synced { index: p.index }]);
        assert_eq!(said.update(), (p.seq, p.ack, 8192, false, false));
        p
    }
    /// We send FIN; the peer has not acknowledged it yet.
    fn close(&mut self, p: &Peer) {
        self.sent(p.index, false, p.ack.wrapping_add(1), true);
    }
    /// TIME-WAIT after the whole exchange; the entry.
    fn time_wait(&mut self, p: &mut Peer) -> u16 {
        self.close(p);
        p.ack = p.ack.wrapping_add(1);
        let said = self.segment(p.segment(FIN | ACK, 0));
        let ack = p.seq.wrapping_add(1);
        assert_eq!(said.tx[1..], [ToTx::Stop { index: p.index }, ToTx::Reply { tuple: p.tuple, seq: p.ack, ack, flags: ACK }]);
        let Some(ToCm::Closed { wait: Some(wait), .. }) = said.cm.last() else { panic!("{said:?}") };
        p.seq = ack;
        *wait
    }
}

const HIGH: u32 = 0xffff_fffe;

// ---- RFC 9293 figures 6 to 13 ----

/// Covers: TCP-4
#[test]
fn figure_6_three_way_handshake_opens_from_both_sides() {
    let mut b = Bench::new(1);
    let a = b.active(tuple(0), 100, 300);
    assert!(b.segment(a.segment(ACK, 0)).cm.is_empty());
    let p = b.passive(tuple(1), 300, 100);
    let said = b.segment(p.segment(ACK | PSH, 10));
    assert_eq!(said.keep, Some(Keep { index: p.index, skip: 0, take: 10, first: true, passive: true, full: false }));
    assert_eq!(said.update(), (111, 301, 8192, true, false));
}

/// Covers: TCP-4
#[test]
fn figure_7_simultaneous_open() {
    let mut b = Bench::new(2);
    for (n, last) in [SYN | ACK, ACK].into_iter().enumerate() {
        let index = b.syn_sent(tuple(n as u32), 100);
        let p = Peer { index, tuple: tuple(n as u32), seq: 300, ack: 0, window: 500 };
        let said = b.segment(p.segment(SYN, 0));
        assert_eq!(said.tx, [ToTx::Syn { index, rcv_nxt: 301, ack: 100, window: 500, mss: 0 }]);
        assert!(said.cm.is_empty());
        // the SYN again changes nothing
        assert!(b.segment(p.segment(SYN, 0)).is_answer(true));
        // an old ACK in it does not open
        assert!(!b.segment(p.acking(100).segment(SYN | ACK, 0)).cm.contains(&ToCm::Synced { index }));
        let p = Peer { seq: if last == ACK { 301 } else { 300 }, ack: 101, ..p };
        let said = b.segment(p.segment(last, 0));
        assert_eq!(said.cm, [ToCm::Synced { index }]);
        assert_eq!(said.update(), (301, 101, 500, last != ACK, false));
    }
}

/// Covers: TCP-4, TCP-5
#[test]
fn figure_8_old_duplicate_syn_is_recovered_from() {
    let mut b = Bench::new(3);
    // we are A: SYN 100 is out, an answer to the old SYN 90 comes
    let index = b.syn_sent(tuple(0), 100);
    let p = Peer { index, tuple: tuple(0), seq: 300, ack: 91, window: 500 };
    assert!(b.segment(p.segment(SYN | ACK, 0)).is_reset_of(91));
    assert_eq!(b.segment(p.acking(101).segment(SYN | ACK, 0)).cm, [ToCm::Synced { index }]);
    // we are B
    b.command(FromCm::Limit(3, 8));
    let p = b.syn_received(tuple(1), 300, 90);
    let said = b.segment(p.segment(RST, 0));
    assert_eq!(said.tx, [ToTx::Stop { index: p.index }]);
    assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: true }]);
    b.command(FromCm::Free(p.index));
    let p = b.syn_received(tuple(1), 400, 100);
    assert_eq!(b.segment(p.segment(ACK, 0)).cm, [ToCm::Synced { index: p.index }]);
}

/// Covers: TCP-4, TCP-8, TCP-38
#[test]
fn figure_9_and_10_half_open_connections_are_discovered() {
    let mut b = Bench::new(4);
    // B still knows the connection, A opens again
    let p = b.active(tuple(0), 299, 99);
    assert!(b.segment(Peer { seq: 400, ..p }.segment(SYN, 0)).is_answer(true));
    let said = b.segment(p.segment(RST, 0));
    assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: false }]);
    assert_eq!(said.counts["estab_resets"], 1);
    // we are A, in SYN-SENT at 400
    b.syn_sent(tuple(1), 400);
    let old = Peer { index: 0, tuple: tuple(1), seq: 300, ack: 100, window: 500 };
    assert!(b.segment(old.segment(ACK, 0)).is_reset_of(100));
    // figure 10: we know nothing
    assert!(b.segment(Peer { tuple: tuple(2), ..old }.segment(ACK, 10)).is_reset_of(100));
}

/// Covers: TCP-4, TCP-5, TCP-28
#[test]
fn figure_11_old_duplicate_syn_between_two_listeners() {
    let mut b = Bench::new(5);
    // A listens and gets SYN, ACK
    let p = Peer { index: 0, tuple: tuple(0), seq: 500, ack: 91, window: 500 };
    assert!(b.segment(Seg { listener: Some(3), ..p.segment(SYN | ACK, 0) }).is_reset_of(91));
    // B made a connection of the old SYN and forgets it without a word to the user
    b.command(FromCm::Limit(3, 1));
    let p = b.syn_received(tuple(1), 500, 90);
    assert_eq!(b.segment(p.segment(RST, 0)).cm, [ToCm::Reset { index: p.index, refused: true }]);
    b.command(FromCm::Free(p.index));
    b.syn_received(tuple(1), 500, 100);
}

/// Covers: TCP-9, TCP-10, TCP-37
#[test]
fn figure_12_normal_close_sequence() {
    let mut b = Bench::new(6);
    // we close first
    let a = b.active(tuple(0), HIGH - 1, HIGH);
    b.close(&a);
    let a2 = a.acking(a.ack.wrapping_add(1));
    assert_eq!(b.segment(a2.segment(ACK, 0)).update(), (a.seq, a2.ack, 8192, false, false));
    let said = b.segment(a2.segment(FIN | ACK, 0));
    let last = ToTx::Reply { tuple: a.tuple, seq: a2.ack, ack: a.seq.wrapping_add(1), flags: ACK };
    assert_eq!(said.tx[1..], [ToTx::Stop { index: a.index }, last]);
    assert_eq!(said.cm, [ToCm::Fin { index: a.index }, ToCm::Closed { index: a.index, wait: Some(0) }]);
    // the peer closes first
    let p = b.active(tuple(1), 300, 100);
    let said = b.segment(p.segment(FIN | ACK, 0));
    assert_eq!(said.cm, [ToCm::Fin { index: p.index }]);
    assert_eq!(said.update(), (p.seq + 1, p.ack, 8192, true, false));
    let p = p.at(1);
    b.close(&p);
    assert!(b.segment(p.segment(ACK, 0)).cm.is_empty(), "not yet acknowledged");
    let said = b.segment(p.acking(p.ack + 1).segment(ACK, 0));
    assert_eq!(said.cm, [ToCm::Closed { index: p.index, wait: None }]);
    assert_eq!(said.tx[1..], [ToTx::Stop { index: p.index }]);
    assert!(b.segment(p.segment(ACK, 0)).is_reset_of(p.ack), "nobody any more");
}

/// Covers: TCP-10
#[test]
fn figure_13_simultaneous_close_sequence() {
    let mut b = Bench::new(7);
    let p = b.active(tuple(0), 99, 299);
    b.close(&p);
    let said = b.segment(p.segment(FIN | ACK, 0));
    assert_eq!(said.cm, [ToCm::Fin { index: p.index }]);
    assert_eq!(said.update(), (301, 100, 8192, true, false));
    let said = b.segment(p.at(1).acking(101).segment(ACK, 0));
    assert_eq!(said.cm, [ToCm::Closed { index: p.index, wait: Some(0) }]);
    assert_eq!(said.tx[1..], [ToTx::Stop { index: p.index }], "an ACK is not answered");
}

// ---- one rule after the other ----

/// Covers: TCP-28, TCP-37
#[test]
fn every_combination_of_flags_for_nobody() {
    let mut b = Bench::new(8);
    for listening in [false, true] {
        for flags in 0..64u8 {
            let s = Seg { tuple: tuple(9), seq: HIGH, ack: 77, flags, len: 3, listener: listening.then_some(2), ..Seg::default() };
            let controls = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
            let said = b.segment(s);
            if flags & RST != 0 {
                assert!(said.is_silent(), "flags {flags:#x}: RST is never answered");
            } else if flags & ACK != 0 {
                assert!(said.is_reset_of(77), "flags {flags:#x}");
            } else if listening {
                assert!(said.is_silent(), "flags {flags:#x}: the limit is 0");
                assert_eq!(said.counts.contains_key("syn_dropped"), flags & SYN != 0);
            } else {
                let ack = HIGH.wrapping_add(3 + controls);
                assert_eq!(said.tx, [ToTx::Reply { tuple: s.tuple, seq: 0, ack, flags: RST | ACK }], "flags {flags:#x}");
            }
        }
    }
}

/// Covers: TCP-2, TCP-27
#[test]
fn bad_options_and_link_broadcasts_are_dropped() {
    let mut b = Bench::new(9);
    let p = b.active(tuple(0), 100, 300);
    for s in [p.segment(ACK, 5), p.segment(RST, 0), Seg { tuple: tuple(1), ..p.segment(ACK, 0) }] {
        let said = b.segment(Seg { bad_options: true, ..s });
        assert!(said.is_silent());
        assert_eq!(said.counts["in_errs"], 1);
        let said = b.segment(Seg { link_broadcast: true, ..s });
        assert!(said.is_silent() && said.counts.is_empty());
    }
    b.command(FromCm::Limit(3, 8));
    assert!(b.segment(Seg { link_broadcast: true, listener: Some(3), tuple: tuple(1), ..p.segment(SYN, 0) }).is_silent());
    assert!(b.segment(p.segment(ACK, 5)).keep.is_some());
}

/// Covers: TCP-7, TCP-33
#[test]
fn table_6_at_every_boundary() {
    for (wnd, irs) in [(1000, 500), (1000, HIGH), (1000, HIGH - 999), (1, HIGH), (65535, HIGH - 30000), (0, HIGH)] {
        let mut b = Bench::new(10);
        b.r.window = wnd;
        b.eat = 0;
        let p = b.active(tuple(0), 100, irs);
        let w = i64::from(wnd);
        for len in [0, 1, 2, 1000] {
            for at in [-1001, -1000, -999, -2, -1, 0, 1, w - 2, w - 1, w, w + 1, 1 << 31, (1 << 31) - 1] {
                let first = (0..w).contains(&at);
                let last = (0..w).contains(&(at + i64::from(len) - 1));
                let right = match (len, w) {
                    (0, 0) => at == 0,
                    (0, _) => first,
                    (_, 0) => false,
                    _ => first || last,
                };
                let said = b.segment(p.at(at).segment(ACK, len));
                assert_eq!(said.is_answer(false), !right, "SEQ = RCV.NXT + {at}, {len} octets, window {wnd}");
                assert_eq!(said.counts.contains_key("in_unacceptable"), !right);
            }
        }
        // FIN counts
        assert!(b.segment(p.at(-1).segment(ACK | FIN, 0)).is_answer(false));
        assert!(b.segment(p.at(w).segment(ACK | FIN, 0)).is_answer(false));
    }
}

/// Covers: TCP-8
#[test]
fn rst_and_syn_at_every_boundary() {
    for irs in [500, HIGH - 1, HIGH - 500] {
        let mut b = Bench::new(11);
        for (at, exact, inside) in [(-1, false, false), (0, true, true), (1, false, true), (999, false, true), (1000, false, false)] {
            for len in [0, 7] {
                let p = b.active(tuple(0), 100, irs);
                assert!(b.segment(p.at(at).segment(SYN, len)).is_answer(true), "SYN at {at}");
                assert!(b.segment(p.at(at).segment(SYN | ACK, len)).is_answer(true), "SYN, ACK at {at}");
                let said = b.segment(p.at(at).segment(RST, len));
                if exact {
                    assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: false }]);
                    assert_eq!(said.tx, [ToTx::Stop { index: p.index }]);
                } else if inside {
                    assert!(said.is_answer(true), "RST at {at}");
                } else {
                    assert!(said.is_silent(), "RST at {at}");
                }
                b.command(FromCm::Free(p.index));
            }
        }
    }
}

/// Covers: TCP-4, TCP-35
#[test]
fn ack_at_every_boundary_while_opening() {
    for iss in [100, HIGH - 1, HIGH, HIGH + 1] {
        let mut b = Bench::new(12);
        b.command(FromCm::Limit(3, 8));
        for by in [0u32, 1, 2, 1 << 31, u32::MAX] {
            let right = by == 1;
            let ack = iss.wrapping_add(by);
            // SYN-SENT
            let index = b.syn_sent(tuple(0), iss);
            let p = Peer { index, tuple: tuple(0), seq: 500, ack, window: 500 };
            let said = b.segment(p.segment(ACK, 0));
            assert!(if right { said.is_silent() } else { said.is_reset_of(ack) });
            let said = b.segment(p.segment(RST | ACK, 0));
            assert_eq!(said.cm == [ToCm::Reset { index, refused: true }], right, "RST counts only with a good ACK");
            assert_eq!(said.counts.contains_key("attempt_fails"), right);
            if !right {
                assert!(said.is_silent() && b.segment(p.segment(RST, 0)).is_silent());
                assert!(b.segment(p.segment(SYN | ACK, 0)).is_reset_of(ack));
            }
            b.command(FromCm::Free(index));
            // SYN-RECEIVED
            let p = b.syn_received(tuple(1), iss, 500).acking(ack);
            let said = b.segment(p.segment(ACK, 0));
            assert!(if right { said.cm == [ToCm::Synced { index: p.index }] } else { said.is_reset_of(ack) });
            b.command(FromCm::Free(p.index));
        }
    }
}

/// Covers: TCP-35, TCP-33
#[test]
fn ack_at_every_boundary_when_open() {
    for iss in [100_000, HIGH - 500, HIGH] {
        let mut b = Bench::new(13);
        let mut p = b.active(tuple(0), iss, 500);
        // MAX.SND.WND is 8192; now a smaller window, 1000 octets in flight of which 400 are acknowledged
        p.window = 100;
        b.sent(p.index, false, p.ack.wrapping_add(1000), false);
        let una = p.ack.wrapping_add(400);
        assert_eq!(b.segment(p.acking(una).segment(ACK, 0)).update().1, una);
        for (by, right) in [(-8193, false), (-8192, true), (-1, true), (0, true), (601, false), (1 << 31, false), (1 << 30, false)] {
            let said = b.segment(p.acking(una.wrapping_add(by as i64 as u32)).segment(ACK, 0));
            if right {
                assert_eq!(said.update().1, una, "ACK = SND.UNA + {by} is old");
            } else {
                assert!(said.is_answer(true), "ACK = SND.UNA + {by}");
            }
        }
        // also with payload: dropped with the segment; an old one is no reason to drop it
        assert!(b.segment(p.acking(una.wrapping_add(601)).segment(ACK, 4)).keep.is_none());
        assert!(b.segment(p.acking(una.wrapping_sub(8192)).segment(ACK, 4)).keep.is_some());
        p = p.at(4);
        assert_eq!(b.segment(p.acking(una.wrapping_add(600)).segment(ACK, 0)).update().1, una.wrapping_add(600));
        // and without ACK it is nothing
        assert!(b.segment(p.segment(PSH, 4)).is_silent());
    }
}

/// Covers: TCP-34
#[test]
fn window_is_taken_from_the_newest_segment_only() {
    for iss in [HIGH, HIGH >> 1, 0x5555_5555, 0xaaaa_aaaa, 0xcccc_cccc] {
        let mut b = Bench::new(14);
        let mut p = b.active(tuple(0), iss, !iss);
        b.sent(p.index, false, p.ack.wrapping_add(100), false);
        let window = |p: Peer, window: u16| Peer { window, ..p };
        // SEQ newer
        assert_eq!(b.segment(window(p.at(5), 10).segment(ACK, 0)).update().2, 10);
        // SEQ older: not
        assert_eq!(b.segment(window(p.at(4), 20).segment(ACK, 0)).update().2, 10);
        // same SEQ, newer ACK
        p.ack = p.ack.wrapping_add(10);
        assert_eq!(b.segment(window(p.at(5), 30).segment(ACK, 0)).update().2, 30);
        // same SEQ, same ACK
        assert_eq!(b.segment(window(p.at(5), 40).segment(ACK, 0)).update().2, 40);
        // same SEQ, older ACK; newer SEQ, older ACK
        assert_eq!(b.segment(window(p.at(5), 50).acking(p.ack.wrapping_sub(1)).segment(ACK, 0)).update().2, 40);
        assert_eq!(b.segment(window(p.at(6), 50).acking(p.ack.wrapping_sub(1)).segment(ACK, 0)).update().2, 40);
        // older SEQ, newer ACK: the ACK counts, the window not
        let said = b.segment(window(p.at(4), 60).acking(p.ack.wrapping_add(1)).segment(ACK, 0));
        assert_eq!((said.update().1, said.update().2), (p.ack.wrapping_add(1), 40));
        assert_eq!(b.segment(window(p.at(7), 65535).acking(p.ack.wrapping_add(1)).segment(ACK, 0)).update().2, 65535);
    }
}

/// Covers: TCP-44
#[test]
fn duplicate_ack_is_what_rfc_5681_says() {
    let mut b = Bench::new(15);
    let p = b.active(tuple(0), 100, 300);
    assert!(!b.segment(p.segment(ACK, 0)).update().4, "nothing is outstanding");
    b.sent(p.index, false, p.ack + 50, false);
    assert!(b.segment(p.segment(ACK, 0)).update().4);
    assert!(!b.segment(Peer { window: 8193, ..p }.segment(ACK, 0)).update().4, "a window update");
    assert!(b.segment(Peer { window: 8193, ..p }.segment(ACK, 0)).update().4);
    let p = Peer { window: 8193, ..p };
    assert!(!b.segment(p.segment(ACK, 1)).update().4, "payload");
    let p = p.at(1);
    assert!(!b.segment(p.acking(p.ack + 1).segment(ACK, 0)).update().4, "new");
    assert!(!b.segment(p.segment(ACK, 0)).update().4, "old");
    assert!(!b.segment(p.acking(p.ack + 1).segment(ACK | FIN, 0)).update().4, "FIN");
}

/// Covers: TCP-36, TCP-51
#[test]
fn payload_is_trimmed_to_what_is_new_and_in_the_window() {
    let mut b = Bench::new(16);
    let p = b.passive(tuple(0), 100, HIGH - 20);
    let keep = |skip, take, first| Some(Keep { index: p.index, skip, take, first, passive: true, full: false });
    // not taken over: not acknowledged, and still the first
    b.eat = 0;
    let said = b.segment(p.segment(ACK | PSH, 20));
    assert_eq!((said.keep, said.update().0, said.update().3), (keep(0, 20, true), p.seq, false));
    b.eat = 12;
    let said = b.segment(p.segment(ACK | PSH, 20));
    assert_eq!((said.keep, said.update().0, said.update().3), (keep(0, 20, true), p.seq.wrapping_add(12), true));
    b.eat = u16::MAX;
    // straddles RCV.NXT
    let said = b.segment(p.segment(ACK, 20));
    assert_eq!((said.keep, said.update().0, said.update().3), (keep(12, 8, false), p.seq.wrapping_add(20), false));
    let p2 = p.at(20);
    // straddles both edges of what may come: first octet old, last beyond the window, which is not acceptable
    assert!(b.segment(p2.at(-1).segment(ACK, 1002)).is_answer(false));
    // up to the edge, one beyond, many beyond
    for (len, take) in [(999, 999), (1000, 1000), (1001, 1000), (65535, 1000)] {
        b.eat = 0;
        assert_eq!(b.segment(p2.segment(ACK, len)).keep, keep(0, take, false));
    }
    // a window register that falls takes nothing back, and what was consumed uses the old offer up
    b.r.window = 10;
    assert_eq!(b.segment(p2.segment(ACK, 1001)).keep, keep(0, 1000, false));
    b.eat = 985;
    assert_eq!(b.segment(p2.segment(ACK, 1001)).update().0, p2.seq.wrapping_add(985));
    b.eat = 0;
    let p3 = p2.at(985);
    assert_eq!(b.segment(p3.segment(ACK, 100)).keep, keep(0, 15, false));
    b.eat = 10;
    b.segment(p3.segment(ACK, 100));
    assert_eq!(b.segment(p3.at(10).segment(ACK, 100)).keep, keep(0, 10, false));
}

/// Covers: TCP-36
#[test]
fn payload_of_any_length_is_payload() {
    let mut b = Bench::new(37);
    b.r.window = u16::MAX;
    b.eat = 0;
    let p = b.active(tuple(0), 100, HIGH);
    for len in (0..16).map(|bit| 1 << bit) {
        let keep = Keep { index: p.index, skip: 0, take: len, first: true, passive: false, full: false };
        assert_eq!(b.segment(p.segment(ACK, len)).keep, Some(keep));
    }
}

/// Covers: TCP-19, TCP-37, DEF-66
#[test]
fn payload_and_fin_out_of_order_are_answered_and_held() {
    let mut b = Bench::new(17);
    let p = b.active(tuple(0), 100, HIGH);
    let said = b.segment(p.at(1).segment(ACK, 5));
    assert_eq!((said.keep, said.hold, said.update()), (None, Some(p.index), (p.seq, p.ack, 8192, true, false)));
    // FIN beyond a hole waits
    let said = b.segment(p.at(1).segment(ACK | FIN, 0));
    assert!(said.cm.is_empty() && said.update().3 && said.hold.is_some());
    let said = b.segment(p.at(1).segment(ACK | FIN, 5));
    assert!(said.cm.is_empty() && said.update().3 && said.hold.is_some());
    // FIN after payload that was not all taken over
    b.eat = 4;
    let said = b.segment(p.segment(ACK | FIN, 5));
    assert!(said.cm.is_empty());
    assert_eq!(said.update().0, p.seq.wrapping_add(4));
    // now it is; the payload goes first
    b.eat = u16::MAX;
    let said = b.segment(p.segment(ACK | FIN, 5));
    assert_eq!(said.keep.map(|k| (k.skip, k.take)), Some((4, 1)));
    assert_eq!(said.cm, [ToCm::Fin { index: p.index }]);
    assert_eq!(said.update().0, p.seq.wrapping_add(6));
    // again: once is enough; and nothing can follow it
    assert!(b.segment(p.segment(ACK | FIN, 5)).is_answer(false));
    let after = p.at(6);
    let said = b.segment(after.segment(ACK, 5));
    assert_eq!((said.keep, said.update().0, said.cm.len()), (None, after.seq, 0));
    let said = b.segment(after.segment(ACK | FIN, 0));
    assert_eq!((said.keep, said.update().0, said.cm.len()), (None, after.seq, 0));
    assert_eq!(b.segment(after.at(1).segment(ACK, 5)).hold, None, "nor wait for anything");
}

/// The hole is filled; what fills it and what was held say nothing of an ACK, the empty replay says it once.
///
/// Covers: TCP-19, TCP-51, TCP-52
#[test]
fn a_filled_hole_is_acknowledged_once_with_all_that_was_held() {
    for push in [0, PSH] {
        let mut b = Bench::new(40);
        let p = b.active(tuple(0), 100, HIGH);
        for n in 1..6 {
            let said = b.segment(p.at(10 * n).segment(ACK | push, 10));
            assert_eq!((said.hold, said.update().0, said.update().3), (Some(p.index), p.seq, true));
        }
        let said = b.segment(p.segment(ACK | push, 10));
        assert_eq!((said.advanced, said.update().3), (Some(p.at(10).seq), false));
        for n in 1..6 {
            // ACK and window of what was held are not looked at again
            let said = b.segment(p.at(10 * n).replay(ACK | push, 10));
            assert_eq!(said.keep.map(|k| (k.index, k.skip, k.take)), Some((p.index, 0, 10)));
            assert_eq!(said.update(), (p.at(10 * n + 10).seq, p.ack, 8192, false, false));
            assert_eq!(said.advanced, Some(p.at(10 * n + 10).seq));
        }
        let said = b.segment(p.replay(0, 0));
        assert_eq!(
            said.tx,
            [ToTx::Update { index: p.index, rcv_nxt: p.at(60).seq, ack: p.ack, window: 8192, ack_now: true, duplicate: false }]
        );
        // nothing is held any more: all is as it was
        let said = b.segment(p.at(60).segment(ACK | push, 1));
        assert_eq!((said.advanced, said.update().3), (None, push != 0));
    }
}

/// Covers: TCP-19, TCP-52
#[test]
fn while_more_is_held_each_octet_that_fills_is_acknowledged() {
    let mut b = Bench::new(41);
    let p = b.active(tuple(0), 100, HIGH);
    assert!(b.segment(p.at(30).segment(ACK, 10)).hold.is_some());
    for n in 0..2 {
        assert_eq!(b.segment(p.at(10 * n).segment(ACK, 10)).advanced, Some(p.at(10 * n + 10).seq));
        let said = b.segment(Seg { replay: Some((p.index, true)), ..p.replay(0, 0) });
        assert_eq!((said.update().0, said.update().3), (p.at(10 * n + 10).seq, true));
    }
    // only octets that were taken over count, of a replay too
    b.eat = 3;
    assert_eq!(b.segment(p.at(15).replay(0, 10)).update().0, p.at(23).seq);
    b.eat = 0;
    let said = b.segment(p.at(20).replay(FIN, 10));
    assert_eq!((said.update().0, said.advanced, said.cm.len()), (p.at(23).seq, None, 0));
    // the FIN ends it, and is acknowledged itself
    b.eat = u16::MAX;
    let said = b.segment(p.at(20).replay(FIN, 10));
    assert_eq!((said.update().0, said.update().3, said.advanced), (p.at(31).seq, true, None));
    assert_eq!(said.cm, [ToCm::Fin { index: p.index }]);
    assert!(b.segment(p.at(31).replay(0, 0)).is_silent());
}

/// Our FIN is sent between what filled the hole and what was held: that is new payload after our FIN as any.
///
/// Covers: TCP-10
#[test]
fn a_replay_after_our_fin_is_answered_by_rst() {
    let mut b = Bench::new(44);
    let p = b.active(tuple(0), 100, HIGH);
    assert!(b.segment(p.at(10).segment(ACK, 10)).hold.is_some());
    assert!(b.segment(p.segment(ACK, 10)).advanced.is_some());
    b.close(&p);
    let said = b.segment(p.at(10).replay(0, 10));
    let rst = ToTx::Reply { tuple: p.tuple, seq: p.ack + 1, ack: p.at(10).seq, flags: RST | ACK };
    assert_eq!(said.tx, [ToTx::Stop { index: p.index }, rst]);
    assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: false }]);
    assert!(b.segment(p.replay(0, 0)).is_silent());
}

/// A replay that nothing comes of is not answered, whatever it says.
///
/// Covers: TCP-19
#[test]
fn a_replay_that_means_nothing_any_more_is_not_answered() {
    let mut b = Bench::new(42);
    let p = b.active(tuple(0), 100, HIGH);
    b.segment(p.segment(ACK, 100));
    let p = p.at(100);
    assert!(b.segment(p.at(-10).replay(0, 10)).is_silent(), "old");
    assert!(b.segment(p.at(-10).replay(FIN, 5)).is_silent(), "old");
    b.command(FromCm::Full(p.index));
    assert!(b.segment(p.replay(0, 10)).keep.is_some_and(|k| k.full));
    assert_eq!(b.segment(p.at(25).segment(ACK, 10)).hold, Some(p.index));
    let p = p.at(10);
    b.segment(p.segment(RST, 0));
    for (flags, len) in [(0, 10), (FIN, 0), (0, 0)] {
        assert!(b.segment(p.replay(flags, len)).is_silent(), "dead");
    }
    b.command(FromCm::Free(p.index));
    let q = Peer { index: b.syn_sent(tuple(1), 100), ..p };
    let r = {
        b.command(FromCm::Limit(3, 8));
        b.syn_received(tuple(2), 100, 300)
    };
    for (flags, len) in [(0, 10), (FIN, 0), (0, 0)] {
        for index in [p.index, q.index, r.index] {
            assert!(b.segment(Peer { index, ..r }.replay(flags, len)).is_silent(), "not open");
        }
    }
}

/// What ends a connection gives back what is held (`Bench::check` compares the notes with the rules).
#[test]
fn what_is_held_is_forgotten_when_it_can_serve_no_more() {
    for end in 0..5 {
        let mut b = Bench::new(43);
        let p = b.active(tuple(0), 100, HIGH);
        assert!(b.segment(p.at(10).segment(ACK, 10)).hold.is_some());
        assert_eq!(b.holding.len(), 1);
        match end {
            0 => drop(b.segment(p.segment(RST, 0))),
            1 => drop(b.command(FromCm::Free(p.index))),
            2 => drop(b.command(FromCm::Reopen(p.index))),
            3 => drop(b.segment(p.segment(ACK | FIN, 0))),
            _ => {
                // payload after our FIN
                b.close(&p);
                drop(b.segment(p.segment(ACK, 1)));
            }
        }
        assert!(b.holding.is_empty(), "end {end}");
    }
}

/// Covers: TCP-37
#[test]
fn fin_must_lie_in_the_window() {
    let mut b = Bench::new(18);
    let p = b.active(tuple(0), 100, HIGH);
    assert!(b.segment(p.segment(ACK | FIN, 1000)).cm.is_empty());
    let p = p.at(1000);
    let said = b.segment(p.segment(ACK | FIN, 999));
    assert_eq!(said.cm, [ToCm::Fin { index: p.index }]);
    assert_eq!(said.update().0, p.seq.wrapping_add(1000));
}

/// Covers: TCP-5
#[test]
fn passive_syn_received_returns_to_listen_without_a_word() {
    let mut b = Bench::new(19);
    b.command(FromCm::Limit(3, 8));
    for (at, flags, returns) in [
        (0, RST, true),
        (0, RST | ACK, true),
        (1, RST, false),
        (-1, RST, false),
        (0, SYN, true),
        (999, SYN, true),
        (999, SYN | ACK, true),
        (1000, SYN, false),
        (-1, SYN, false),
    ] {
        let p = b.syn_received(tuple(0), HIGH, HIGH - 400);
        let said = b.segment(Seg { listener: Some(3), ..p.at(at).segment(flags, 0) });
        if returns {
            assert_eq!(said.tx, [ToTx::Stop { index: p.index }]);
            assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: true }]);
            assert_eq!(said.counts["attempt_fails"], 1);
        } else {
            assert!(said.cm.is_empty(), "flags {flags:#x} at {at}");
            assert_eq!(b.segment(p.segment(ACK, 0)).cm, [ToCm::Synced { index: p.index }]);
        }
        b.command(FromCm::Free(p.index));
    }
}

/// Covers: TCP-5, TCP-38
#[test]
fn active_syn_received_is_refused_by_rst_and_challenges_syn() {
    let mut b = Bench::new(20);
    let index = b.syn_sent(tuple(0), 100);
    let p = Peer { index, tuple: tuple(0), seq: 300, ack: 101, window: 500 };
    b.segment(p.segment(SYN, 0));
    assert!(b.segment(p.at(2).segment(SYN, 0)).is_answer(true));
    assert!(b.segment(p.at(2).segment(RST, 0)).is_answer(true));
    assert!(b.segment(p.segment(RST, 0)).is_silent());
    let said = b.segment(p.at(1).segment(RST, 9));
    assert_eq!(said.cm, [ToCm::Reset { index, refused: true }]);
    assert_eq!(said.counts["attempt_fails"], 1);
}

/// Covers: TCP-30
#[test]
fn half_open_limit_and_spare_slots_drop_syns_silently() {
    let mut b = Bench::new(21);
    b.command(FromCm::Limit(3, 2));
    let syn = |n: u32| Seg { tuple: tuple(n), seq: 9, flags: SYN, listener: Some(3), ..Seg::default() };
    let dropped = |b: &mut Bench, s: Seg| {
        let said = b.segment(s);
        assert!(!said.counts.contains_key("syn_dropped") || said.is_silent());
        said.counts.contains_key("syn_dropped")
    };
    let p = b.syn_received(tuple(0), 100, 9);
    assert!(!dropped(&mut b, syn(1)));
    assert!(dropped(&mut b, syn(2)));
    // open is not enough
    b.segment(p.segment(ACK, 0));
    assert!(dropped(&mut b, syn(2)));
    // the start-up is; and it counts once
    b.command(FromCm::HalfDone(p.index));
    b.command(FromCm::HalfDone(p.index));
    assert!(!dropped(&mut b, syn(2)));
    assert!(dropped(&mut b, syn(3)));
    b.command(FromCm::Free(p.index));
    assert!(dropped(&mut b, syn(3)), "the freed one counted no more");
    // the end of one that does count
    b.command(FromCm::Free(p.index + 1));
    assert!(!dropped(&mut b, syn(3)));
    // limits are a listener's own
    b.command(FromCm::Limit(4, 1));
    assert!(!dropped(&mut b, Seg { listener: Some(4), ..syn(4) }));
    assert!(dropped(&mut b, Seg { listener: Some(4), ..syn(5) }));
    // lowered below what is there
    b.command(FromCm::Limit(3, 0));
    assert!(dropped(&mut b, syn(5)));
    // spare slots
    b.command(FromCm::Limit(3, 100));
    let taken = (10..50).filter(|n| !dropped(&mut b, syn(*n))).count();
    assert_eq!(b.rules.free.len(), 4, "after {taken} more");
    b.r.spare = 0;
    let taken = (50..60).filter(|n| !dropped(&mut b, syn(*n))).count();
    assert_eq!(taken, 4);
    assert_eq!(b.command(FromCm::Open(tuple(99))).cm, [ToCm::NoSlot]);
    // any number is a limit
    for bit in 0..16 {
        b.command(FromCm::Free(bit));
        b.command(FromCm::Limit(5 + bit % 8, 1 << bit));
        assert!(!dropped(&mut b, Seg { listener: Some(5 + bit % 8), ..syn(200 + u32::from(bit)) }), "1 << {bit}");
    }
    // all ends, all is free again
    for index in 0..CONNECTIONS {
        b.command(FromCm::Free(index));
    }
    b.command(FromCm::Limit(3, 33));
    assert_eq!((100..140).filter(|n| !dropped(&mut b, syn(*n))).count(), 32);
}

/// Covers: TCP-53, CH-23
#[test]
fn payload_with_syn_is_left_for_a_retransmission() {
    let mut b = Bench::new(22);
    b.command(FromCm::Limit(3, 8));
    let p = Peer { index: 0, tuple: tuple(0), seq: 500, ack: 0, window: 100 };
    let said = b.segment(Seg { listener: Some(3), ..p.segment(SYN, 20) });
    assert!(said.keep.is_none());
    assert!(matches!(said.tx[..], [ToTx::OpenPassive { rcv_nxt: 501, .. }]));
    // SYN and ACK with payload and FIN
    let index = b.syn_sent(tuple(1), 100);
    let p = Peer { index, tuple: tuple(1), seq: 500, ack: 101, window: 100 };
    let said = b.segment(p.segment(SYN | ACK | FIN, 20));
    assert!(said.keep.is_none());
    assert_eq!(said.tx, [ToTx::Syn { index, rcv_nxt: 501, ack: 101, window: 100, mss: 0 }]);
    assert_eq!(said.cm, [ToCm::Synced { index }]);
    // payload with the ACK that opens is taken
    b.sent(0, true, 78, false);
    let said = b.segment(Peer { seq: 501, ack: 78, ..Peer { index: 0, tuple: tuple(0), ..p } }.segment(ACK | FIN, 20));
    assert!(said.keep.is_some());
    let index = said.keep.expect("kept").index;
    assert_eq!(said.cm, [ToCm::Synced { index }, ToCm::Fin { index }]);
}

/// Covers: TCP-6
#[test]
fn connections_and_listeners_do_not_disturb_each_other() {
    let mut b = Bench::new(23);
    b.command(FromCm::Limit(3, 8));
    // one of ours in SYN-SENT and one in SYN-RECEIVED from the port that listener 3 hears
    let sent = b.syn_sent(tuple(0), 100);
    let received = b.syn_received(tuple(1), 200, 300);
    let p = b.syn_received(tuple(2), 400, 500);
    assert_eq!(b.segment(p.segment(ACK, 0)).cm, [ToCm::Synced { index: p.index }]);
    assert_eq!(b.segment(received.segment(ACK, 0)).cm, [ToCm::Synced { index: received.index }]);
    let q = Peer { index: sent, tuple: tuple(0), seq: 700, ack: 101, window: 9 };
    assert_eq!(b.segment(q.segment(SYN | ACK, 0)).cm, [ToCm::Synced { index: sent }]);
    let said = b.segment(p.segment(ACK, 7));
    assert_eq!(said.keep.map(|k| k.index), Some(p.index));
}

/// Covers: TCP-49
#[test]
fn an_open_tuple_cannot_be_opened_again() {
    let mut b = Bench::new(24);
    let mut p = b.active(tuple(0), 100, 300);
    assert_eq!(b.command(FromCm::Open(tuple(0))).cm, [ToCm::Exists]);
    assert!(b.segment(p.segment(ACK, 5)).keep.is_some(), "unchanged");
    p = p.at(5);
    b.time_wait(&mut p);
    assert_eq!(b.command(FromCm::Open(tuple(0))).cm, [ToCm::Exists], "in TIME-WAIT");
    b.pass(b.r.two_msl);
    b.open(tuple(0));
}

/// Covers: TCP-4
#[test]
fn a_connection_opens_again_under_its_index() {
    let mut b = Bench::new(35);
    // from each state; the second is over already
    for reset in [false, true] {
        let p = b.active(tuple(0), 100, 300);
        b.segment(p.segment(ACK, 20));
        b.command(FromCm::Full(p.index));
        if reset {
            b.segment(p.at(20).segment(RST, 0));
        }
        let index = p.index;
        let said = b.command(FromCm::Reopen(index));
        assert_eq!((said.tx, said.cm), (vec![ToTx::Open { index, tuple: tuple(0) }], vec![ToCm::Reopened { index, refused: false }]));
        assert_eq!(b.command(FromCm::Reopen(index)).counts["attempt_fails"], 1);
        assert!(b.segment(p.segment(SYN | ACK, 0)).is_silent(), "the ISN is not chosen yet");
        b.sent(index, true, 901, false);
        let q = Peer { seq: 700, ack: 901, ..p };
        assert_eq!(b.segment(q.segment(SYN | ACK, 0)).cm, [ToCm::Synced { index }]);
        assert_eq!(
            b.segment(q.at(1).segment(ACK, 9)).keep,
            Some(Keep { index, skip: 0, take: 9, first: true, passive: false, full: false })
        );
        b.command(FromCm::Free(index));
    }
    // its tuple is somebody else's by now
    let p = b.active(tuple(0), 100, 300);
    b.segment(p.segment(RST, 0));
    let other = b.open(tuple(0));
    let said = b.command(FromCm::Reopen(p.index));
    assert_eq!((said.cm, said.tx), (vec![ToCm::Reopened { index: p.index, refused: true }], vec![]));
    b.command(FromCm::Free(p.index));
    b.command(FromCm::Free(other));
    assert!(b.command(FromCm::Reopen(other)).is_silent(), "a free index is nothing");
    assert!(b.tuples.is_empty());
}

/// ECN is not used: an ECN-setup SYN (ECE and CWR) opens a connection as any SYN does, and the bits mean nothing in any other segment.
///
/// Covers: TCP-29
#[test]
fn ecn_bits_have_no_effect() {
    const ECE: u8 = 0x40;
    const CWR: u8 = 0x80;
    let life = |ecn: u8| {
        let mut b = Bench::new(61);
        b.command(FromCm::Limit(3, 8));
        let syn = Peer { index: 0, tuple: tuple(0), seq: 300, ack: 0, window: 8192 };
        let opened = b.segment(Seg { mss: 1460, listener: Some(3), ..syn.segment(SYN | ecn, 0) });
        let [ToCm::Passive { index, .. }] = opened.cm[..] else { panic!("{opened:?}") };
        b.sent(index, true, 101, false);
        let p = Peer { index, seq: 301, ack: 101, ..syn };
        let mut said = vec![opened];
        said.push(b.segment(p.segment(ACK | ecn, 0)));
        said.push(b.segment(p.segment(ACK | PSH | ecn, 40)));
        said.push(b.segment(p.at(40).segment(FIN | ACK | ecn, 0)));
        b.close(&p);
        said.push(b.segment(p.at(41).acking(102).segment(ACK | ecn, 0)));
        said
    };
    let plain = life(0);
    for ecn in [ECE, CWR, ECE | CWR] {
        assert_eq!(life(ecn), plain, "{ecn:#x}");
    }
}

/// Covers: TCP-9
#[test]
fn time_wait_lasts_two_msl_and_restarts_with_each_fin() {
    // across the wrap of time, and with all its bits
    for start in [0xffff_f000, 0x5555_5555, 0xaaaa_aaaa] {
        time_wait_from(start);
    }
}

fn time_wait_from(start: u32) {
    let mut b = Bench::new(25);
    b.r.time = start;
    let mut p = b.active(tuple(0), HIGH, HIGH);
    let wait = b.time_wait(&mut p);
    let last = b.r.two_msl - 1;
    assert!(b.pass(last).is_silent());
    // the FIN again, also with payload before it: acknowledged, restarts
    for (at, len) in [(-1, 0), (-6, 5)] {
        let said = b.segment(p.at(at).segment(FIN | ACK, len));
        assert_eq!(said.tx, [ToTx::Reply { tuple: p.tuple, seq: p.ack, ack: p.seq, flags: ACK }]);
        assert!(b.pass(last).is_silent());
    }
    // other things do not restart it
    assert!(b.segment(p.segment(ACK, 0)).is_silent(), "the end of an exchange");
    assert_eq!(b.segment(p.segment(ACK, 1)).tx.len(), 1);
    assert_eq!(b.segment(p.at(-2).segment(ACK | FIN, 0)).tx.len(), 1);
    assert_eq!(b.pass(1).cm, [ToCm::WaitEnd { wait }]);
    assert!(b.segment(p.segment(ACK, 0)).is_reset_of(p.ack));
}

/// Covers: TCP-57
#[test]
fn rst_does_not_end_time_wait() {
    let mut b = Bench::new(26);
    let mut p = b.active(tuple(0), 100, HIGH);
    b.time_wait(&mut p);
    for at in [-1, 0, 1] {
        assert!(b.segment(p.at(at).segment(RST, 0)).is_silent());
        assert!(b.segment(p.at(at).segment(RST | ACK, 0)).is_silent());
    }
    assert_eq!(b.segment(p.at(-1).segment(FIN | ACK, 0)).tx.len(), 1, "still there");
}

/// Covers: TCP-9, DEF-67
#[test]
fn a_new_syn_may_end_time_wait() {
    let mut b = Bench::new(27);
    b.command(FromCm::Limit(3, 1));
    let mut p = b.active(tuple(0), 100, HIGH);
    let wait = b.time_wait(&mut p);
    let heard = |s: Seg| Seg { listener: Some(3), ..s };
    // not new enough; nobody listens; with ACK
    for s in [heard(p.segment(SYN, 0)), heard(p.at(-1).segment(SYN, 0)), p.at(1).segment(SYN, 0), heard(p.at(1).segment(SYN | ACK, 0))] {
        assert_eq!(b.segment(s).tx, [ToTx::Reply { tuple: p.tuple, seq: p.ack, ack: p.seq, flags: ACK }]);
    }
    // no room: it stays
    b.command(FromCm::Limit(3, 0));
    assert_eq!(b.segment(heard(p.at(1).segment(SYN, 0))).counts["syn_dropped"], 1);
    b.command(FromCm::Limit(3, 1));
    let said = b.segment(heard(p.at(1).segment(SYN, 0)));
    assert_eq!(said.counts["wait_reused"], 1);
    assert!(matches!(said.cm[..], [ToCm::WaitEnd { wait: w }, ToCm::Passive { .. }] if w == wait));
    // many times over the same tuple
    b.command(FromCm::Limit(3, 8));
    for round in 0..100 {
        let Some(index) = b.rules.connection_of(tuple(0)) else { panic!("round {round}") };
        b.sent(index, true, 1000 * round + 1, false);
        let mut q = Peer { index, seq: b.rules.conns[usize::from(index)].expect("there").rcv_nxt, ack: 1000 * round + 1, ..p };
        assert_eq!(b.segment(q.segment(ACK, 0)).cm, [ToCm::Synced { index }]);
        b.time_wait(&mut q);
        b.command(FromCm::Free(index));
        assert_eq!(b.segment(heard(q.at(1 + i64::from(round)).segment(SYN, 0))).counts["wait_reused"], 1);
    }
}

/// Covers: TCP-9
#[test]
fn the_oldest_leaves_a_full_time_wait_table() {
    let mut b = Bench::new(28);
    let mut peers = vec![];
    for n in 0..u32::from(WAITS) {
        let mut p = b.active(tuple(n), 1000 * n, 77 * n);
        let wait = b.time_wait(&mut p);
        b.command(FromCm::Free(p.index));
        peers.push((p, wait));
        b.r.time = b.r.time.wrapping_add(100);
    }
    // the first restarts: the second is the oldest now
    let first = peers[0].0;
    assert_eq!(b.segment(first.at(-1).segment(FIN | ACK, 0)).tx.len(), 1);
    b.r.time = b.r.time.wrapping_add(100);
    for n in [1, 2, 3] {
        let mut p = b.active(tuple(100 + n), 5, 6);
        b.close(&p);
        p.ack += 1;
        let said = b.segment(p.segment(FIN | ACK, 0));
        let wait = peers[n as usize].1;
        assert_eq!(said.counts["wait_overflow"], 1);
        assert_eq!(said.cm, [ToCm::WaitEnd { wait }, ToCm::Fin { index: p.index }, ToCm::Closed { index: p.index, wait: Some(wait) }]);
        b.r.time = b.r.time.wrapping_add(100);
        b.command(FromCm::Free(p.index));
    }
    assert_eq!(b.pass(b.r.two_msl).cm.len(), usize::from(WAITS));
    assert!(b.tuples.is_empty());
}

/// Covers: TCP-10
#[test]
fn payload_after_our_fin_is_answered_by_rst() {
    let mut b = Bench::new(29);
    for fin_acked in [false, true] {
        for at in [0, 1, 999] {
            let mut p = b.active(tuple(0), HIGH - 3, 300);
            b.close(&p);
            let end = p.ack.wrapping_add(1);
            if fin_acked {
                p.ack = end;
                b.segment(p.segment(ACK, 0));
            }
            // old octets are only answered
            assert!(b.segment(p.at(-3).segment(ACK, 3)).is_answer(false));
            let said = b.segment(p.at(at).segment(ACK | FIN, 1));
            let reset = ToTx::Reply { tuple: p.tuple, seq: end, ack: p.seq, flags: RST | ACK };
            assert_eq!(said.tx, [ToTx::Stop { index: p.index }, reset]);
            assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: false }]);
            assert!(said.keep.is_none());
            b.command(FromCm::Free(p.index));
        }
    }
    // CLOSING and LAST-ACK: beyond the peer's FIN there is nothing, whatever it sends
    for close_first in [false, true] {
        let p = b.active(tuple(1), 100, 300);
        if close_first {
            b.close(&p);
        }
        b.segment(p.segment(FIN | ACK, 0));
        let p = p.at(1);
        if !close_first {
            b.close(&p);
        }
        let said = b.segment(p.segment(ACK, 5));
        assert_eq!((said.keep, said.update().0, said.cm.len()), (None, p.seq, 0));
        let said = b.segment(p.acking(p.ack + 1).segment(ACK, 0));
        assert_eq!(said.cm, [ToCm::Closed { index: p.index, wait: close_first.then_some(0) }]);
        b.command(FromCm::Free(p.index));
    }
}

/// Covers: TCP-38, DEF-3
#[test]
fn rst_is_told_apart_from_fin_in_every_state() {
    let mut b = Bench::new(30);
    for (fin_sent, fin_rcvd) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut p = b.active(tuple(0), 100, 300);
        if fin_rcvd {
            assert_eq!(b.segment(p.segment(FIN | ACK, 0)).cm, [ToCm::Fin { index: p.index }]);
            p = p.at(1);
        }
        if fin_sent {
            b.close(&p);
        }
        let said = b.segment(p.segment(RST, 40));
        assert_eq!(said.cm, [ToCm::Reset { index: p.index, refused: false }]);
        assert_eq!(said.tx, [ToTx::Stop { index: p.index }]);
        assert!(said.keep.is_none());
        assert_eq!(said.counts.contains_key("estab_resets"), !fin_sent);
        // it is nobody, though the index is not free yet
        assert!(b.segment(p.segment(ACK, 0)).is_reset_of(p.ack));
        let index = b.open(tuple(0));
        assert_ne!(index, p.index);
        b.command(FromCm::Free(p.index));
        b.command(FromCm::Free(index));
    }
}

/// Covers: TCP-51
#[test]
fn payload_in_full_operation_is_marked_and_acknowledged_as_far_as_it_was_taken() {
    let mut b = Bench::new(31);
    let p = b.active(tuple(0), 100, 300);
    assert!(b.segment(p.segment(ACK, 20)).keep.is_some_and(|k| !k.full));
    let p = p.at(20);
    b.command(FromCm::Full(p.index));
    b.eat = 3;
    let said = b.segment(p.segment(ACK, 8));
    assert!(said.keep.is_some_and(|k| k.full && k.take == 8));
    assert_eq!((said.update().0, said.update().3), (p.at(3).seq, true), "at once, without PSH");
    b.eat = 0;
    let said = b.segment(p.at(3).segment(ACK, 8));
    assert_eq!((said.update().0, said.update().3), (p.at(3).seq, false));
}

/// After a Terminate what the peer still sends is taken and acknowledged behind our FIN, so that the peer reads the Terminate before an end.
///
/// Covers: TCP-10, RDM-31
#[test]
fn payload_after_our_fin_is_taken_behind_a_terminate() {
    let mut b = Bench::new(33);
    let p = b.active(tuple(0), 100, 300);
    b.command(FromCm::Full(p.index));
    b.command(FromCm::Discard(p.index));
    b.close(&p);
    let said = b.segment(p.segment(ACK, 8));
    assert!(said.keep.is_some_and(|k| k.full && k.take == 8));
    assert_eq!((said.update().0, said.update().3, said.cm.len()), (p.at(8).seq, true, 0));
    let said = b.segment(p.at(8).acking(p.ack + 1).segment(FIN | ACK, 0));
    assert_eq!(said.cm.last(), Some(&ToCm::Closed { index: p.index, wait: Some(0) }));
    b.command(FromCm::Free(p.index));
    // the next one of the index begins without
    let p = b.active(tuple(1), 100, 300);
    b.close(&p);
    assert_eq!(b.segment(p.segment(ACK, 8)).cm, [ToCm::Reset { index: p.index, refused: false }]);
}

#[test]
fn a_connection_whose_isn_is_not_chosen_yet_hears_nothing() {
    let mut b = Bench::new(32);
    b.command(FromCm::Limit(3, 8));
    let index = b.open(tuple(0));
    for flags in 0..64 {
        assert!(b.segment(Seg { tuple: tuple(0), flags, ..Seg::default() }).is_silent());
    }
    b.segment(Seg { tuple: tuple(1), flags: SYN, listener: Some(3), ..Seg::default() });
    for flags in 0..64 {
        assert!(b.segment(Seg { tuple: tuple(1), seq: 1, flags, listener: Some(3), ..Seg::default() }).is_silent());
    }
    assert_eq!(b.command(FromCm::Free(index)).counts["attempt_fails"], 1);
}

/// What `tcp::tx` and then the manager say comes before the next segment.
#[test]
fn inputs_are_taken_in_their_order_of_rank() {
    let mut b = Bench::new(36);
    b.command(FromCm::Limit(3, 8));
    let p = b.active(tuple(0), 100, 300);
    let next = *b.rules.free.front().expect("one is free");
    b.segments.push_back(p.segment(ACK, 0));
    b.segments.push_back(Seg { tuple: tuple(1), flags: SYN, listener: Some(3), ..Seg::default() });
    b.segments.push_back(Seg { listener: Some(3), ..p.at(7).segment(SYN, 0) });
    b.commands.push_back(FromCm::Free(p.index));
    b.commands.push_back(FromCm::Open(tuple(1)));
    b.commands.push_back(FromCm::Open(tuple(2)));
    b.sents.push_back(Sent { index: p.index, start: false, max: p.ack + 1, fin: true });
    let said = b.settle();
    let (index, rcv_nxt) = (next + 2, p.seq.wrapping_add(8));
    let expected = [
        ToTx::Open { index: next, tuple: tuple(1) },
        ToTx::Open { index: next + 1, tuple: tuple(2) },
        p.segment(ACK, 0).reset_with_its_ack(),
        ToTx::OpenPassive { index, tuple: tuple(0), rcv_nxt, window: 8192, mss: 0 },
    ];
    assert_eq!(said.tx, expected);
    assert!(!said.counts.contains_key("estab_resets"), "our FIN was sent before the index was freed");
}

#[test]
fn a_segment_takes_no_more_clocks_than_promised() {
    let mut b = Bench::new(33);
    b.calm = true;
    let p = b.active(tuple(0), 100, 300);
    b.segment(p.segment(ACK, 0));
    while b.m.segment_ready.get() {
        // a step of the sweep goes before
        b.clock();
        b.drive();
    }
    b.settle();
    // of which the last after `tcp::tx` was told: the row goes to memory behind it
    let clocks = |b: &mut Bench, of: &Peer| {
        let (mut clocks, mut told) = (0, None);
        b.segments.push_back(of.segment(ACK, 0));
        loop {
            b.clock();
            b.drive();
            if b.m.segment_ready.get() {
                break;
            }
            clocks += 1;
            told = told.or(b.m.to_tx_valid.get().then_some(clocks));
        }
        b.settle();
        let told = clocks - told.expect("an Update");
        assert!(told >= 4, "{told} clocks behind what is told");
        clocks
    };
    // nobody asks for the connection whose row is at hand; with the look-up's two clocks, then with the row's four
    let again = clocks(&mut b, &p);
    let q = b.active(tuple(1), 100, 300);
    while b.m.segment_ready.get() {
        b.clock();
        b.drive();
    }
    b.settle();
    let other = clocks(&mut b, &p);
    let back = clocks(&mut b, &q);
    println!("{again}, {other} and {back} clocks for a segment");
    assert!(again <= 15 && other <= 22 && back <= 22, "{again}, {other} and {back} clocks");
}

#[test]
fn reset_forgets_everything_at_any_time() {
    let mut b = Bench::new(34);
    for clocks in 0..60 {
        b.command(FromCm::Limit(3, 8));
        let p = b.active(tuple(0), 100, 300);
        b.syn_received(tuple(1), 100, 300);
        let mut q = b.active(tuple(2), 100, 300);
        b.time_wait(&mut q);
        b.segments.push_back(p.segment(ACK | PSH, 10));
        b.commands.push_back(FromCm::Open(tuple(4)));
        b.sents.push_back(Sent { index: p.index, start: false, max: 200, fin: false });
        for _ in 0..clocks {
            b.clock();
        }
        b.reset();
        assert!(b.segment(p.segment(ACK, 0)).is_reset_of(p.ack));
        let syn = Seg { listener: Some(3), ..p.segment(SYN, 0) };
        assert_eq!(b.segment(syn).counts["syn_dropped"], 1, "no limit, no room");
        for n in 0..u32::from(CONNECTIONS) {
            assert_eq!(u32::from(b.open(tuple(n))), n);
        }
        assert_eq!(b.command(FromCm::Open(tuple(99))).cm, [ToCm::NoSlot]);
        b.reset();
    }
}

/// Covers: TCP-4, TCP-5, TCP-7, TCP-8, TCP-9, TCP-10, TCP-28, TCP-30, TCP-33, TCP-34, TCP-35, TCP-36, TCP-37, TCP-44
#[test]
fn random_traffic_does_what_the_rules_say() {
    let seed = bench::seed("tcp_rx");
    let mut b = Bench::new(seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7263_7632);
    let mut seen: BTreeMap<&'static str, u32> = BTreeMap::new();
    let mut note = |said: Said| {
        for (name, n) in [("hold", said.hold.is_some()), ("advanced", said.advanced.is_some())] {
            *seen.entry(name).or_default() += u32::from(n);
        }
        for (name, n) in said.counts {
            *seen.entry(name).or_default() += n;
        }
        for m in said.cm {
            let name = match m {
                ToCm::Opened { .. } => "opened",
                ToCm::Exists => "exists",
                ToCm::NoSlot => "no slot",
                ToCm::Reopened { .. } => "reopened",
                ToCm::Passive { .. } => "passive",
                ToCm::Synced { .. } => "synced",
                ToCm::Fin { .. } => "fin",
                ToCm::Reset { refused: true, .. } => "refused",
                ToCm::Reset { .. } => "reset",
                ToCm::Closed { wait: Some(_), .. } => "waiting",
                ToCm::Closed { .. } => "closed",
                ToCm::WaitEnd { .. } => "wait end",
            };
            *seen.entry(name).or_default() += 1;
        }
    };
    let near = |rng: &mut ChaCha8Rng, wnd: u32| -> u32 {
        match rng.random_range(0..20) {
            0..=12 => 0,
            13 => rng.random_range(1..8),
            14 | 15 => 0u32.wrapping_sub(rng.random_range(1..8)),
            16 => wnd.wrapping_add(rng.random_range(0..4)).wrapping_sub(2),
            17 => rng.random_range(0..wnd.max(1)),
            18 => 0u32.wrapping_sub(rng.random_range(0..20_000)),
            _ => rng.random(),
        }
    };
    for l in 0..4 {
        b.command(FromCm::Limit(l, 6));
    }
    // what `tcp::reassembly` would have
    let mut held: Vec<(u16, Seg)> = vec![];
    for _ in 0..40_000 {
        let crowd = if rng.random_bool(0.2) { 60 } else { 12 };
        let n = rng.random_range(0..crowd);
        let t = tuple(n);
        let index = b.rules.connection_of(t);
        let some = rng.random_range(0..CONNECTIONS);
        match rng.random_range(0..100) {
            0..=2 => note(b.command(FromCm::Open(t))),
            3 if rng.random_bool(0.3) => note(b.command(FromCm::Free(some))),
            4 => note(b.command(FromCm::HalfDone(some))),
            5 if rng.random_bool(0.3) => {
                // only what the manager opened is opened again
                if b.rules.conns[usize::from(some)].is_some_and(|c| !c.passive) {
                    note(b.command(FromCm::Reopen(some)));
                }
            }
            5 if rng.random_bool(0.5) => note(b.command(FromCm::Full(some))),
            5 if rng.random_bool(0.2) => note(b.command(FromCm::Discard(some))),
            6 => {
                let c = FromCm::Limit(rng.random_range(0..4), *[0, 1, 6, 8].choose(&mut rng).expect("some"));
                note(b.command(c));
            }
            7..=10 => {
                // what is over is freed in the end
                if let Some(i) = (0..CONNECTIONS).find(|i| b.rules.conns[usize::from(*i)].is_some_and(|c| c.state == State::Dead)) {
                    note(b.command(FromCm::Free(i)));
                }
            }
            11 if rng.random_bool(0.3) => {
                let by = *[1, 1000, rng.random_range(0..b.r.two_msl), b.r.two_msl - 1, b.r.two_msl].choose(&mut rng).expect("some");
                note(b.pass(by));
            }
            12 => {
                b.r.spare = rng.random_range(0..6);
                b.r.two_msl = 1 << rng.random_range(10..31);
                b.r.window = *[0, 1, 7, 1000, 1000, 1000, 65535].choose(&mut rng).expect("some");
                b.eat = *[0, 1, 5, u16::MAX, u16::MAX].choose(&mut rng).expect("some");
            }
            13..=30 => {
                // tcp::tx
                if let Some(i) = index {
                    let c = b.rules.conns[usize::from(i)].expect("there");
                    if !c.snd_known {
                        let iss = *[HIGH - 1, HIGH, HIGH + 1, rng.random(), rng.random()].choose(&mut rng).expect("some");
                        b.sent(i, true, iss.wrapping_add(1), false);
                    } else if c.state != State::SynSent && !c.fin_sent {
                        let fin = rng.random_bool(0.3);
                        b.sent(i, false, c.snd_nxt.wrapping_add(rng.random_range(0..10) + u32::from(fin)), fin);
                    }
                }
            }
            _ => {
                let any: [u8; 12] = [SYN, SYN, SYN | ACK, ACK, ACK, ACK, ACK | PSH, ACK | FIN, RST, RST | ACK, rng.random(), rng.random()];
                let usual = [ACK, ACK, ACK, ACK | PSH, ACK | FIN];
                let opened = index.is_some_and(|i| b.rules.conns[usize::from(i)].is_some_and(|c| c.state != State::SynSent));
                let flags = *if opened && rng.random_bool(0.92) { &usual[..] } else { &any[..] }.choose(&mut rng).expect("some");
                let waits = b.rules.wait_of(t).and_then(|w| b.rules.waits[usize::from(w)]);
                let (rcv_nxt, una, nxt) = match (index.and_then(|i| b.rules.conns[usize::from(i)]), waits) {
                    (Some(c), _) => (c.rcv_nxt, c.snd_una, c.snd_nxt),
                    (_, Some(w)) => (w.rcv_nxt, w.snd_nxt, w.snd_nxt),
                    _ => (*[HIGH, 5, rng.random()].choose(&mut rng).expect("some"), 0, rng.random()),
                };
                let wnd = b.r.window.into();
                let seq = rcv_nxt.wrapping_add(near(&mut rng, wnd));
                let again = waits.is_some() && rng.random_bool(0.3);
                let (seq, flags) = if again { (rcv_nxt.wrapping_add(rng.random_range(0..4)), SYN) } else { (seq, flags) };
                // payload after our FIN ends it: rather let it close
                let closing = index.is_some_and(|i| b.rules.conns[usize::from(i)].is_some_and(|c| c.fin_sent)) && rng.random_bool(0.8);
                let ack = if closing || rng.random_bool(0.7) { nxt } else { una }.wrapping_add(near(&mut rng, 1000));
                let s = Seg {
                    tuple: t,
                    // the peer's SYN comes before its payload
                    seq: if flags & SYN != 0 && !again && rng.random_bool(0.5) { seq.wrapping_sub(1) } else { seq },
                    ack,
                    flags,
                    window: *[0, 500, 500, 500, 65535, rng.random(), rng.random()].choose(&mut rng).expect("some"),
                    len: if closing { 0 } else { *[0, 0, 0, 1, 2, 6, 500, 1460, 65000].choose(&mut rng).expect("some") },
                    mss: rng.random_range(0..1461),
                    bad_options: rng.random_bool(0.01),
                    link_broadcast: rng.random_bool(0.01),
                    listener: (n % 3 != 0).then_some((n % 4) as u16),
                    replay: None,
                };
                let mut said = b.segment(s);
                if let Some(index) = said.hold {
                    held.push((index, s));
                }
                held.retain(|(index, _)| b.holding.contains(index));
                if let (Some(index), true) = (index, said.advanced.is_some()) {
                    let mut rcv_nxt = said.advanced;
                    while let Some(at) = held.iter().position(|(i, s)| *i == index && rcv_nxt.is_some_and(|n| not_after(s.seq, n))) {
                        let (_, s) = held.remove(at);
                        note(said);
                        said = b.segment(Seg { replay: Some((index, false)), tuple: tuple(99), ack: rng.random(), ..s });
                        rcv_nxt = said.advanced.or(rcv_nxt).filter(|_| b.holding.contains(&index));
                    }
                    note(said);
                    held.retain(|(index, _)| b.holding.contains(index));
                    let more = held.iter().any(|(i, _)| *i == index);
                    said = b.segment(Seg { replay: Some((index, more)), tuple: tuple(99), ..Seg::default() });
                }
                note(said);
            }
        }
    }
    println!("{seen:?}");
    for name in ["opened", "exists", "passive", "synced", "fin", "refused", "reset", "waiting", "closed", "wait end", "no slot"] {
        assert!(seen.get(name).is_some_and(|n| *n >= 3), "{name} is hardly met: {seen:?}");
    }
    for name in ["syn_dropped", "in_unacceptable", "hold", "advanced", "wait_reused", "attempt_fails", "estab_resets"] {
        assert!(seen.get(name).is_some_and(|n| *n >= 3), "{name} is hardly met: {seen:?}");
    }
}
