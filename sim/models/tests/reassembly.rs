// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::reassembly` between a plain `seg_rx`, a plain `rx` and a receiver that checks every octet: what is held, what is dropped, what is played
//! again, against a pool that is a list.
use ironwarp_models::{bench, reassembly::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const CONNECTIONS: usize = 32;
const SLOTS: usize = 8;
/// Octets of payload that a slot has room for.
const ROOM: usize = 8 * 191;
const WINDOW: u32 = 4000;

/// What `seg_rx` brings.
#[derive(Clone, Debug, PartialEq)]
struct Seg {
    index: usize,
    seq: u32,
    len: usize,
    fin: bool,
    /// It opens the connection: RCV.NXT is this.
    opens: Option<u32>,
}

/// An entry of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    index: usize,
    seq: u32,
    len: usize,
    fin: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Conn {
    open: bool,
    /// Which life of this index it is: all octets of its stream depend on it.
    life: u32,
    rcv_nxt: u32,
    /// Where its FIN is.
    end: u32,
    may_hold: bool,
}

/// Octet `seq` of the stream of connection `index` in its `life`.
fn octet(index: usize, life: u32, seq: u32) -> u8 {
    (seq.wrapping_mul(0x9e37_79b1) ^ (index as u32 + 32 * life).wrapping_mul(0x85eb_ca77)).wrapping_mul(0xc2b2_ae3d).to_be_bytes()[0]
}

fn stream(index: usize, life: u32, seq: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| octet(index, life, seq.wrapping_add(i))).collect()
}

/// a - b, if a is not before b.
fn beyond(a: u32, b: u32) -> Option<u32> {
    let d = a.wrapping_sub(b);
    (d < 1 << 31).then_some(d)
}

enum Up {
    /// Nothing is offered yet.
    Idle,
    Offered(Seg),
    /// Taken; the verdict is missing.
    Waits(Seg, Vec<u8>),
}

/// The payload that `seg_rx` gives, while the next segment is offered already.
enum Pass {
    Nothing,
    Meta(Vec<u8>, [u64; 5]),
    Stream(Vec<u8>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Verdict {
    keep: bool,
    hold: bool,
    index: usize,
    skip: usize,
    take: usize,
    first: bool,
    passive: bool,
    full: bool,
}

#[derive(Clone, Copy, Debug)]
enum Rx {
    Idle,
    /// Clocks to the verdict.
    Thinks(u32, Verdict, Held, bool),
    Verdict(Verdict, Held, bool),
    /// Until the receiver has it all.
    Consumes(Verdict, Held),
    /// Clocks to the note; what was consumed, and of which segment.
    Ends(u32, usize, Option<Held>),
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    queue: VecDeque<Seg>,
    up: Up,
    pass: Pass,
    rx: Rx,
    conns: [Conn; CONNECTIONS],
    pool: Vec<Held>,
    /// A segment to be held, between the verdict and its count; forget came for its connection; for any.
    holding: Option<(Held, bool, bool)>,
    /// The connection whose slots are gone through; forget came for it since.
    due: Option<usize>,
    stale: bool,
    /// Payload the receiver was promised, and what it has.
    meta: Option<(usize, usize)>,
    got: Vec<u8>,
    /// What is still to come to it, a payload each.
    expected: VecDeque<Vec<u8>>,
    /// It answers for a payload `full` as soon as that is announced.
    early: bool,
    /// Replays that were wanted while a payload passed.
    waited: u32,
    /// To be forgotten in this clock.
    forget: Option<usize>,
    /// Octets that the receiver takes over, at most.
    eat: usize,
    /// What `rx` holds is less than so far ahead of RCV.NXT.
    window: u32,
    /// A segment is to be held: the next verdict for `seg_rx` is of the block itself.
    own_verdict: Option<Held>,
    /// Chances of `valid`, `ready`.
    flow: f64,
    slow: u32,
    in_ooo: u32,
    dropped: u32,
    acks: u32,
    replays: u32,
    clocks: u64,
    /// What was offered and not taken: must stay.
    offers: [Option<Vec<u64>>; 4],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            queue: VecDeque::new(),
            up: Up::Idle,
            pass: Pass::Nothing,
            rx: Rx::Idle,
            conns: [Conn::default(); CONNECTIONS],
            pool: vec![],
            holding: None,
            due: None,
            stale: false,
            meta: None,
            got: vec![],
            expected: VecDeque::new(),
            early: false,
            waited: 0,
            forget: None,
            eat: usize::MAX,
            window: WINDOW,
            own_verdict: None,
            flow: 1.0,
            slow: 0,
            in_ooo: 0,
            dropped: 0,
            acks: 0,
            replays: 0,
            clocks: 0,
            offers: Default::default(),
        };
        b.reset();
        b
    }

    fn reset(&mut self) {
        self.queue.clear();
        (self.up, self.pass, self.rx) = (Up::Idle, Pass::Nothing, Rx::Idle);
        self.expected.clear();
        for c in &mut self.conns {
            c.open = false;
            c.life += 1;
        }
        self.pool.clear();
        (self.holding, self.due, self.stale, self.meta, self.forget) = (None, None, false, None, None);
        self.own_verdict = None;
        self.got.clear();
        self.offers = Default::default();
        let m = &mut self.m;
        m.segment_valid.set(false);
        m.payload_meta_valid.set(false);
        m.inp_valid.set(false);
        m.judged_valid.set(false);
        m.note_settled.set(0);
        m.note_forget.set(0);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
    }

    fn open(&mut self, index: usize, rcv_nxt: u32) {
        self.queue.push_back(Seg { index, seq: rcv_nxt.wrapping_sub(1), len: 0, fin: false, opens: Some(rcv_nxt) });
    }

    fn send(&mut self, index: usize, seq: u32, len: usize, fin: bool) {
        self.queue.push_back(Seg { index, seq, len, fin, opens: None });
    }

    fn chance(&mut self) -> bool {
        self.flow == 1.0 || self.rng.random_bool(self.flow)
    }

    fn delay(&mut self) -> u32 {
        if self.slow == 0 {
            0
        } else {
            self.rng.random_range(0..=self.slow)
        }
    }

    /// What `rx` says of a segment: the rules of its `Judge`, `Text` and `Fin`, as far as they matter here.
    fn judge(&mut self, s: &Held, replay: bool) -> Verdict {
        let (window, c) = (self.window, &mut self.conns[s.index]);
        let junk = self.rng.random::<u16>();
        let nothing =
            Verdict { index: if replay { s.index } else { (junk % 64).into() }, skip: junk.into(), take: 77, ..Verdict::default() };
        let end = s.seq.wrapping_add(s.len as u32);
        let size = s.len + usize::from(s.fin);
        if !c.open || size == 0 {
            return nothing;
        }
        match beyond(s.seq, c.rcv_nxt) {
            Some(ahead) if ahead > 0 => {
                assert!(!replay, "only what can be used is offered again");
                if ahead >= window {
                    return nothing;
                }
                c.may_hold = true;
                Verdict { hold: true, index: s.index, skip: junk.into(), ..Verdict::default() }
            }
            _ => match beyond(end, c.rcv_nxt) {
                Some(take) if take > 0 => Verdict {
                    keep: true,
                    hold: false,
                    index: s.index,
                    skip: c.rcv_nxt.wrapping_sub(s.seq) as usize,
                    take: take.min(window) as usize,
                    first: junk & 1 != 0,
                    passive: junk & 2 != 0,
                    full: junk & 4 != 0,
                },
                _ => nothing,
            },
        }
    }

    /// Whether the pool takes it, by the rules; and what it replaces.
    fn takes(&self, s: &Held) -> (bool, Option<usize>) {
        let own = self.pool.iter().filter(|h| h.index == s.index).count();
        let same = self.pool.iter().position(|h| h.index == s.index && h.seq == s.seq);
        let longer = |h: &Held| (s.len, s.fin) > (h.len, h.fin);
        let fits = s.len <= ROOM;
        (fits && same.map_or(own < SLOTS - self.pool.len(), |n| longer(&self.pool[n])), same)
    }

    fn clock(&mut self) {
        self.clocks += 1;
        let chances: [bool; 8] = std::array::from_fn(|_| self.chance());
        if matches!(self.up, Up::Idle) && chances[0] {
            if let Some(s) = self.queue.pop_front() {
                self.up = Up::Offered(s);
            }
        }
        let m = &mut self.m;
        let junk = self.rng.random::<u64>();
        // seg_rx
        m.segment_valid.set(matches!(self.up, Up::Offered(_)));
        m.segment_data_seq.set(junk & 0xffff_ffff);
        m.segment_data_len.set(junk >> 48);
        m.segment_data_flags.set(junk >> 40 & 0xff);
        if let Up::Offered(s) | Up::Waits(s, _) = &self.up {
            m.segment_data_seq.set(s.seq.into());
            m.segment_data_len.set(s.len as u64);
            m.segment_data_flags.set(0x18 | u64::from(s.fin));
            m.segment_data_tuple_remote_port.set(s.index as u64);
            m.segment_data_listener.set(s.opens.is_some().into());
            m.segment_data_bad_options.set(u64::from(s.seq & 1));
            m.segment_data_link_broadcast.set(u64::from(s.seq >> 1 & 1));
        }
        m.verdict_ready.set(matches!((&self.up, &self.pass), (Up::Waits(..), Pass::Nothing)) && chances[1]);
        m.payload_meta_valid.set(false);
        if let Pass::Meta(_, [index, len, first, passive, full]) = self.pass {
            m.payload_meta_valid.set(true);
            m.payload_meta_data_index.set(index);
            m.payload_meta_data_len.set(len);
            m.payload_meta_data_first.set(first);
            m.payload_meta_data_passive.set(passive);
            m.payload_meta_data_full.set(full);
        }
        m.inp_beat_data.set(junk);
        let mut offered = 0;
        if let Pass::Stream(data) = &self.pass {
            if chances[2] || m.inp_valid.get() {
                offered = data.len().min(8);
                let mut word = [0xa5; 8];
                word[..offered].copy_from_slice(&data[..offered]);
                m.inp_beat_data.set(u64::from_le_bytes(word));
                m.inp_beat_keep.set((1 << offered) - 1);
                m.inp_beat_last.set((data.len() <= 8).into());
            }
        }
        m.inp_valid.set(offered > 0);
        // rx
        // it forgets while it does something else
        m.offer_ready.set(matches!(self.rx, Rx::Idle) && self.forget.is_none() && chances[3]);
        let mut verdict = Verdict { keep: junk & 1 != 0, hold: junk & 2 != 0, ..Verdict::default() };
        if let Rx::Verdict(v, ..) = self.rx {
            verdict = v;
        }
        m.judged_valid.set(matches!(self.rx, Rx::Verdict(..)));
        m.judged_data_keep.set(verdict.keep.into());
        m.judged_data_hold.set(verdict.hold.into());
        m.judged_data_index.set(verdict.index as u64);
        m.judged_data_skip.set(verdict.skip as u64);
        m.judged_data_take.set(verdict.take as u64);
        m.judged_data_first.set(verdict.first.into());
        m.judged_data_passive.set(verdict.passive.into());
        m.judged_data_full.set(verdict.full.into());
        m.note_settled.set(0);
        m.note_advanced.set(junk >> 3 & 1);
        m.note_rcv_nxt.set(junk >> 32);
        if let Rx::Ends(0, got, of) = self.rx {
            m.note_settled.set(1);
            let mut advanced = false;
            if let Some(s) = of {
                let c = &mut self.conns[s.index];
                c.rcv_nxt = c.rcv_nxt.wrapping_add(got as u32);
                m.note_rcv_nxt.set(c.rcv_nxt.into());
                advanced = got > 0 && c.may_hold && c.open;
                if s.fin && c.open && c.rcv_nxt == s.seq.wrapping_add(s.len as u32) {
                    assert_eq!(c.rcv_nxt, c.end);
                    // `rx` forgets some clocks before it settles; here in the same one
                    self.forget = Some(s.index);
                    advanced = false;
                }
                if advanced {
                    self.due = Some(s.index);
                    self.stale = false;
                }
            }
            m.note_advanced.set(advanced.into());
            self.rx = Rx::Idle;
        }
        m.note_forget.set(self.forget.is_some().into());
        m.note_index.set(self.forget.map_or(junk & 31, |i| i as u64));
        // receiver
        m.announce_ready.set(self.meta.is_none() && chances[4]);
        // so slow, if it answers early, that a scan takes less
        m.out_ready.set(self.meta.is_some() && chances[5] && (!self.early || junk >> 20 & 3 == 0));
        m.eval();
        self.look();
        self.m.tick();
    }

    fn look(&mut self) {
        let offers = [
            (
                self.m.offer_valid.get(),
                self.m.offer_ready.get(),
                vec![
                    self.m.offer_data_seq.get(),
                    self.m.offer_data_len.get(),
                    self.m.offer_data_flags.get(),
                    self.m.offer_data_index.get(),
                ],
            ),
            (
                self.m.verdict_valid.get(),
                self.m.verdict_ready.get(),
                vec![self.m.verdict_data_keep.get(), self.m.verdict_data_skip.get(), self.m.verdict_data_take.get()],
            ),
            (
                self.m.announce_valid.get(),
                self.m.announce_ready.get(),
                vec![self.m.announce_data_index.get(), self.m.announce_data_len.get()],
            ),
            (
                self.m.out_valid.get(),
                self.m.out_ready.get(),
                vec![self.m.out_beat_data.get(), self.m.out_beat_keep.get(), self.m.out_beat_last.get()],
            ),
        ];
        for (before, (valid, ready, now)) in self.offers.iter_mut().zip(offers) {
            if let Some(before) = before {
                assert!(valid && *before == now, "what is offered stays: {before:x?} {now:x?}");
            }
            *before = (valid && !ready).then_some(now);
        }
        assert!(!self.m.announce_valid.get() || self.meta.is_none(), "announced while a payload passes");
        // the pool
        assert!(!(self.m.cnt_tcp_in_ooo.get() && self.m.cnt_tcp_ooo_dropped.get()));
        if self.m.cnt_tcp_in_ooo.get() || self.m.cnt_tcp_ooo_dropped.get() {
            let (s, lost, any) = self.holding.take().expect("a count for each segment to be held");
            let took = self.m.cnt_tcp_in_ooo.get();
            let (takes, same) = self.takes(&s);
            assert!(any || takes == took, "{s:?} with {:?} held", self.pool);
            if took {
                self.in_ooo += 1;
                if let Some(n) = same {
                    self.pool.remove(n);
                }
                if !lost {
                    self.pool.push(s);
                }
            } else {
                self.dropped += 1;
            }
        }
        // rx
        self.rx = match self.rx {
            Rx::Idle if self.m.offer_valid.get() && self.m.offer_ready.get() => {
                let replay = self.m.offer_data_replay.bit();
                let (seq, len) = (self.m.offer_data_seq.get() as u32, self.m.offer_data_len.get() as usize);
                let flags = self.m.offer_data_flags.get();
                let fin = flags & 1 != 0;
                assert_eq!(flags & !1, if replay && len == 0 && !fin { 0 } else { 0x18 }, "flags as they came");
                let odd = [self.m.offer_data_bad_options.bit(), self.m.offer_data_link_broadcast.bit()];
                if replay {
                    let index = self.m.offer_data_index.get() as usize;
                    let more = self.m.offer_data_more.bit();
                    assert_eq!(self.due, Some(index), "only after RCV.NXT advanced");
                    assert_eq!(odd, [false; 2]);
                    let s = Held { index, seq, len, fin };
                    let c = &mut self.conns[index];
                    if len == 0 && !fin {
                        let left = self.pool.iter().filter(|h| h.index == index);
                        if !self.stale {
                            assert!(left.clone().all(|h| beyond(c.rcv_nxt, h.seq).is_none()), "one more could be used");
                            assert_eq!(more, left.count() > 0);
                            c.may_hold = more;
                        }
                        self.acks += 1;
                        self.due = None;
                    } else {
                        assert!(self.stale || self.pool.contains(&s), "{s:?} is not held: {:?}", self.pool);
                        self.replays += 1;
                    }
                    let verdict = self.judge(&s, true);
                    Rx::Thinks(self.delay(), verdict, s, true)
                } else {
                    let Up::Offered(s) = std::mem::replace(&mut self.up, Up::Idle) else { panic!("it was not offered") };
                    assert_eq!(self.due, None, "what is held goes before what is new");
                    assert!(self.m.segment_ready.get());
                    let told = (self.m.offer_data_tuple_remote_port.get() as usize, self.m.offer_data_listener.get() != 0);
                    assert_eq!((seq, len, fin, told), (s.seq, s.len, s.fin, (s.index, s.opens.is_some())));
                    assert_eq!(odd, [s.seq & 1 != 0, s.seq & 2 != 0]);
                    let c = &mut self.conns[s.index];
                    if let Some(rcv_nxt) = s.opens.filter(|_| !c.open) {
                        let end = rcv_nxt.wrapping_add(self.rng.random_range(0..3000));
                        *c = Conn { open: true, life: c.life, rcv_nxt, end, may_hold: false };
                    }
                    let payload = stream(s.index, c.life, s.seq, s.len);
                    let held = Held { index: s.index, seq: s.seq, len: s.len, fin: s.fin };
                    let verdict = self.judge(&held, false);
                    self.up = Up::Waits(s, payload);
                    Rx::Thinks(self.delay(), verdict, held, false)
                }
            }
            Rx::Thinks(0, v, s, replay) => Rx::Verdict(v, s, replay),
            Rx::Thinks(n, v, s, replay) => Rx::Thinks(n - 1, v, s, replay),
            Rx::Verdict(v, s, replay) if self.m.judged_ready.get() => {
                if replay {
                    self.pool.retain(|h| *h != s);
                }
                if v.hold {
                    self.holding = Some((s, false, false));
                    self.own_verdict = Some(s);
                }
                if v.keep {
                    self.waited += u32::from(replay && self.meta.is_some());
                    self.expected.push_back(stream(s.index, self.conns[s.index].life, s.seq, s.len)[v.skip..v.skip + v.take].to_vec());
                    Rx::Consumes(v, s)
                } else {
                    // FIN alone, in order
                    let fin = s.fin && !v.hold && self.conns[s.index].open;
                    Rx::Ends(self.delay(), 0, fin.then_some(s))
                }
            }
            Rx::Consumes(v, s) if self.expected.is_empty() => {
                let eaten = v.take.min(self.eat);
                Rx::Ends(self.delay(), eaten, Some(s))
            }
            Rx::Ends(n, got, of) if n > 0 => Rx::Ends(n - 1, got, of),
            other => other,
        };
        // receiver
        if self.m.out_valid.get() && self.m.out_ready.get() {
            let (index, left) = self.meta.expect("announced");
            let n = self.m.out_beat_keep.get().count_ones() as usize;
            assert_eq!(n, left.min(8));
            assert_eq!(self.m.out_beat_keep.get(), (1u64 << n) - 1);
            assert_eq!(self.m.out_beat_last.bit(), left <= 8);
            assert!(!self.m.out_beat_error.bit());
            self.got.extend(&self.m.out_beat_data.get().to_le_bytes()[..n]);
            self.meta = (left > 8).then(|| (index, left - 8));
            if self.meta.is_none() {
                assert!(Some(&self.got) == self.expected.front(), "octets for {index}");
                self.got.clear();
                self.expected.pop_front();
            }
        }
        if self.m.announce_valid.get() && self.m.announce_ready.get() {
            let Rx::Consumes(v, s) = self.rx else { panic!("nothing is to be consumed") };
            assert_eq!(self.m.announce_data_index.get() as usize, s.index);
            assert_eq!(self.m.announce_data_len.get() as usize, v.take);
            let a = &self.m;
            assert_eq!(
                (a.announce_data_first.bit(), a.announce_data_passive.bit(), a.announce_data_full.bit()),
                (v.first, v.passive, v.full)
            );
            assert!(self.meta.is_none() && self.got.is_empty());
            self.meta = Some((s.index, v.take));
            if self.early && v.full && self.eat == usize::MAX {
                self.rx = Rx::Ends(self.delay(), v.take, Some(s));
            }
        }
        // seg_rx
        self.pass = match std::mem::replace(&mut self.pass, Pass::Nothing) {
            Pass::Meta(payload, _) if self.m.payload_meta_ready.get() => Pass::Stream(payload),
            Pass::Stream(mut data) if self.m.inp_valid.get() && self.m.inp_ready.get() => {
                data.drain(..data.len().min(8));
                if data.is_empty() {
                    Pass::Nothing
                } else {
                    Pass::Stream(data)
                }
            }
            other => other,
        };
        self.up = match std::mem::replace(&mut self.up, Up::Idle) {
            Up::Waits(_, payload) if self.m.verdict_valid.get() && self.m.verdict_ready.get() => {
                let own = self.own_verdict.take();
                if self.m.verdict_data_keep.bit() {
                    assert!(!self.m.verdict_data_hold.bit());
                    let (skip, take) = (self.m.verdict_data_skip.get() as usize, self.m.verdict_data_take.get() as usize);
                    assert!(take > 0);
                    let meta = [
                        self.m.verdict_data_index.get(),
                        take as u64,
                        self.m.verdict_data_first.get(),
                        self.m.verdict_data_passive.get(),
                        self.m.verdict_data_full.get(),
                    ];
                    if let Some(held) = own {
                        assert_eq!((skip, meta), (0, [held.index as u64, held.len as u64, 0, 0, 0]), "all of it goes into the pool");
                    }
                    self.pass = Pass::Meta(payload[skip..skip + take].to_vec(), meta);
                }
                Up::Idle
            }
            other => other,
        };
        if let Some(index) = self.forget.take() {
            self.pool.retain(|h| h.index != index);
            if let Some((s, lost, any)) = &mut self.holding {
                *lost |= s.index == index;
                *any = true;
            }
            self.stale |= self.due == Some(index);
            self.conns[index].open = false;
            self.conns[index].life += 1;
        }
    }

    fn idle(&self) -> bool {
        self.queue.is_empty()
            && matches!((&self.up, &self.pass, &self.rx), (Up::Idle, Pass::Nothing, Rx::Idle))
            && self.expected.is_empty()
            && self.due.is_none()
            && self.holding.is_none()
    }

    /// Until all is done that was asked for.
    fn run(&mut self) {
        let mut rest = 3;
        for _ in 0..200_000 {
            self.clock();
            rest = if self.idle() { rest - 1 } else { 3 };
            if rest == 0 {
                return;
            }
        }
        panic!("hangs");
    }

    /// What the counts have been since the last call: held, dropped, acknowledgements, replays.
    fn counts(&mut self) -> [u32; 4] {
        [&mut self.in_ooo, &mut self.dropped, &mut self.acks, &mut self.replays].map(std::mem::take)
    }
}

/// One connection alone gets half of the pool, whatever the order in which it comes; what is beyond that is dropped.
///
/// Covers: TCP-19, DEF-66
#[test]
fn reorder_of_every_depth_to_one_more_than_is_held() {
    let mut b = Bench::new(1);
    let most = SLOTS / 2;
    for depth in 1..=most + 1 {
        for backwards in [false, true] {
            b.reset();
            b.open(3, 0xffff_ff00);
            b.run();
            b.conns[3].end = 0xffff_ff00u32.wrapping_add(1000);
            let at = |n: usize| 0xffff_ff00u32.wrapping_add(100 * n as u32);
            let order: Vec<_> = if backwards { (1..=depth).rev().collect() } else { (1..=depth).collect() };
            for n in &order {
                b.send(3, at(*n), 100, false);
            }
            b.run();
            let held = depth.min(most);
            assert_eq!(b.counts(), [held as u32, (depth - held) as u32, 0, 0]);
            assert_eq!(b.conns[3].rcv_nxt, at(0), "held is not taken over");
            b.send(3, at(0), 100, false);
            b.run();
            // the newest is missing: when it is the nearest, all others must wait for it
            let missing = (depth > most).then(|| order[most]);
            let reached = missing.unwrap_or(depth + 1);
            assert_eq!(b.conns[3].rcv_nxt, at(reached), "depth {depth}, backwards {backwards}");
            assert_eq!(b.counts(), [0, 0, 1, reached as u32 - 1], "one empty replay for the hole");
            if let Some(n) = missing {
                b.send(3, at(n), 100, false);
                b.run();
                assert_eq!(b.conns[3].rcv_nxt, at(depth + 1));
            }
            assert!(b.pool.is_empty());
            b.counts();
        }
    }
}

/// Covers: TCP-19
#[test]
fn a_connection_leaves_half_of_what_is_free_to_others() {
    let mut b = Bench::new(2);
    for index in 0..6 {
        b.open(index, 0);
        for n in 1..=5 {
            b.send(index, 700 * n, 10, false);
        }
    }
    b.run();
    let held: Vec<_> = (0..6).map(|index| b.pool.iter().filter(|h| h.index == index).count()).collect();
    assert_eq!(held, [4, 2, 1, 1, 0, 0]);
    assert_eq!(b.counts(), [8, 22, 0, 0]);
    // room that comes back is given away again
    b.forget = Some(0);
    b.clock();
    b.send(5, 700, 10, false);
    b.send(1, 2100, 10, false);
    b.send(1, 2800, 10, false);
    b.run();
    let held: Vec<_> = (0..6).map(|index| b.pool.iter().filter(|h| h.index == index).count()).collect();
    assert_eq!(held, [0, 3, 1, 1, 0, 1]);
}

#[test]
fn a_segment_is_held_once_and_a_longer_one_takes_its_place() {
    let mut b = Bench::new(3);
    b.open(9, 500);
    b.run();
    b.conns[9].end = 700;
    for (len, fin, taken) in
        [(20, false, true), (20, false, false), (19, false, false), (19, true, false), (20, true, true), (20, false, false)]
    {
        b.conns[9].end = 600 + len as u32;
        b.send(9, 600, len, fin);
        b.run();
        assert_eq!(b.counts()[..2], [u32::from(taken), u32::from(!taken)], "{len} octets, FIN {fin}");
    }
    assert_eq!(b.pool, [Held { index: 9, seq: 600, len: 20, fin: true }]);
    // the same SEQ of another connection is another segment
    b.open(10, 500);
    b.send(10, 600, 20, false);
    b.send(10, 600, 50, false);
    b.run();
    assert_eq!(b.counts()[..2], [2, 0]);
    b.conns[9].end = 620;
    b.send(9, 500, 100, false);
    b.send(10, 500, 100, false);
    b.run();
    assert_eq!((b.conns[9].rcv_nxt, b.conns[9].open), (620, false), "FIN was played");
    assert_eq!(b.conns[10].rcv_nxt, 650);
}

/// Also what overlaps what came before it, from every octet on and with every length.
#[test]
fn a_replay_gives_what_is_wanted_of_it_and_nothing_else() {
    let mut b = Bench::new(4);
    b.flow = 0.8;
    for skip in 0..20u32 {
        for take in 1..20u32 {
            b.open(1, 7000);
            b.send(1, 7010, (skip + take) as usize, false);
            b.send(1, 7000, (10 + skip) as usize, false);
            b.run();
            assert_eq!(b.conns[1].rcv_nxt, 7010 + skip + take);
            b.forget = Some(1);
            b.clock();
        }
    }
    for (len, fits) in [(ROOM - 1, true), (ROOM, true), (ROOM + 1, false)] {
        b.counts();
        b.open(1, 7000);
        b.send(1, 7001, len, false);
        b.send(1, 7000, 1, false);
        b.run();
        assert_eq!(b.counts()[..2], [u32::from(fits), u32::from(!fits)]);
        assert_eq!(b.conns[1].rcv_nxt, 7001 + if fits { len as u32 } else { 0 });
        b.forget = Some(1);
        b.clock();
    }
}

#[test]
fn what_has_become_old_is_given_back() {
    let mut b = Bench::new(5);
    b.open(1, 0);
    for n in [300, 100, 200] {
        b.send(1, n, 50, false);
    }
    // sent again in another cut
    b.send(1, 0, 240, false);
    b.run();
    assert_eq!(b.conns[1].rcv_nxt, 250);
    assert_eq!(b.pool, [Held { index: 1, seq: 300, len: 50, fin: false }]);
    assert_eq!(b.counts(), [3, 0, 1, 2]);
    assert!(b.conns[1].may_hold);
    b.send(1, 250, 1250, false);
    b.run();
    assert!(b.pool.is_empty() && !b.conns[1].may_hold);
    assert_eq!(b.counts(), [0, 0, 1, 1]);
}

/// Two segments whose SEQ differ in one bit are two, in whichever order they come, and one that is as long as a slot is told from all longer ones.
///
/// Covers: TCP-19
#[test]
fn every_bit_of_a_sequence_number_counts() {
    let mut b = Bench::new(10);
    // the largest window
    b.window = 1 << 17;
    let far = |n: u32| 0x7fff_f000u32.wrapping_add(n);
    for bit in 0..17 {
        for backwards in [false, true] {
            b.reset();
            b.open(6, far(0));
            b.run();
            b.conns[6].end = far(1 << 18);
            let mut two = [far(16), far(16 + (1 << bit))];
            if backwards {
                two.reverse();
            }
            for seq in two {
                b.send(6, seq, 1, false);
                b.run();
                assert_eq!(b.counts(), [1, 0, 0, 0], "bit {bit}");
            }
            // the same again
            for seq in two {
                b.send(6, seq, 1, false);
                b.run();
                assert_eq!(b.counts(), [0, 1, 0, 0], "bit {bit}");
            }
            // RCV.NXT goes to just before each, and then over it: no other is played
            for ahead in [16, 16 + (1 << bit)] {
                while b.conns[6].rcv_nxt != far(ahead) {
                    let left = far(ahead).wrapping_sub(b.conns[6].rcv_nxt);
                    if left > 1 << 31 {
                        break;
                    }
                    let rcv_nxt = b.conns[6].rcv_nxt;
                    b.send(6, rcv_nxt, left.min(60_000) as usize, false);
                    b.run();
                }
                assert!(!b.pool.iter().any(|h| h.seq == far(ahead)), "bit {bit}");
            }
            assert!(b.pool.is_empty());
            b.counts();
        }
    }
    b.reset();
    b.open(6, 0);
    b.run();
    b.conns[6].end = 1 << 17;
    for len in [1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, ROOM + 1] {
        b.counts();
        b.send(6, 8, len, false);
        b.run();
        assert_eq!(b.counts(), [0, 1, 0, 0], "{len} octets");
    }
}

/// Whichever bits of their lengths two segments of the same SEQ differ in, the longer one stays.
#[test]
fn every_bit_of_a_length_counts() {
    let mut b = Bench::new(11);
    let pairs = (1..=10).flat_map(|high| (0..high).map(move |low| (1 << high, (1 << high) + (1 << low))));
    let ends = (1..=10).map(|high| ((1 << high) - 1, 1 << high));
    for (short, long) in pairs.chain(ends).filter(|(_, long)| *long <= ROOM) {
        for backwards in [false, true] {
            b.reset();
            b.open(2, 70);
            b.run();
            b.conns[2].end = 5000;
            let order = if backwards { [long, short] } else { [short, long] };
            for (n, len) in order.into_iter().enumerate() {
                b.send(2, 100, len, false);
                b.run();
                let taken = n == 0 || !backwards;
                assert_eq!(b.counts(), [u32::from(taken), u32::from(!taken), 0, 0], "{len} behind {}", order[0]);
            }
            b.send(2, 70, 30, false);
            b.run();
            assert_eq!(b.conns[2].rcv_nxt, 100 + long as u32);
            b.counts();
        }
    }
}

/// All slots are full, each of another connection, whose indices differ from those of all others in two bits at least. What comes for any index that differs in one touches none
/// of them; what comes for one of them, its own.
///
/// Covers: TCP-19
#[test]
fn every_bit_of_a_connection_counts_in_each_slot() {
    let mut b = Bench::new(12);
    let (even, odd): (Vec<usize>, Vec<usize>) = (0..CONNECTIONS).partition(|index| index.count_ones() % 2 == 0);
    for (round, owners) in [&even[..SLOTS], &even[SLOTS..], &odd[..SLOTS], &odd[SLOTS..]].into_iter().enumerate() {
        b.reset();
        let others = if round < 2 { &odd } else { &even };
        for index in 0..CONNECTIONS {
            b.open(index, 100);
        }
        b.run();
        b.conns.iter_mut().for_each(|c| c.end = 1000);
        for index in owners {
            b.send(*index, 150, 20 + index, false);
        }
        b.run();
        assert_eq!(b.counts(), [SLOTS as u32, 0, 0, 0]);
        for index in others {
            // there is no room, and nothing of theirs
            b.send(*index, 150, 90, false);
            b.send(*index, 100, 60, false);
            b.run();
            assert_eq!(b.counts(), [0, 1, 1, 0]);
            b.forget = Some(*index);
            b.clock();
        }
        assert_eq!(b.pool.len(), SLOTS);
        for (n, index) in owners.iter().enumerate() {
            if n % 2 == round % 2 {
                b.forget = Some(*index);
                b.clock();
                // its slot is for anybody
                b.open(others[n], 100);
                b.run();
                b.conns[others[n]].end = 1000;
                b.send(others[n], 150, 7, false);
                b.send(others[n], 160, 7, false);
                b.run();
                assert_eq!(b.counts(), [1, 1, 0, 0]);
                b.forget = Some(others[n]);
                b.clock();
                b.open(*index, 100);
                b.run();
                b.conns[*index].end = 1000;
                b.send(*index, 150, 20 + index, false);
                b.run();
                assert_eq!(b.counts(), [1, 0, 0, 0]);
            }
        }
        for index in owners {
            b.send(*index, 100, 50, false);
            b.run();
            assert_eq!(b.conns[*index].rcv_nxt, 170 + *index as u32);
            assert_eq!(b.counts(), [0, 0, 1, 1]);
        }
        assert!(b.pool.is_empty());
    }
}

/// Only octets that the receiver took over count: of what it left, nothing is kept.
#[test]
fn what_the_receiver_leaves_of_a_replay_is_not_kept() {
    let mut b = Bench::new(6);
    b.open(1, 0);
    b.send(1, 100, 100, false);
    b.send(1, 200, 100, false);
    b.run();
    b.eat = 50;
    b.send(1, 50, 50, false);
    b.send(1, 0, 50, false);
    b.run();
    assert_eq!(b.conns[1].rcv_nxt, 150);
    assert_eq!(b.pool, [Held { index: 1, seq: 200, len: 100, fin: false }]);
    b.eat = usize::MAX;
    b.send(1, 100, 100, false);
    b.run();
    assert_eq!(b.conns[1].rcv_nxt, 300);
}

#[test]
fn forget_empties_slots_at_any_time() {
    let mut b = Bench::new(7);
    for clocks in 0..130 {
        for whom in [1, 2] {
            b.reset();
            b.open(1, 0);
            b.open(2, 0);
            b.send(2, 100, 40, false);
            b.send(1, 100, 80, false);
            b.send(1, 200, 80, false);
            b.send(1, 0, 100, false);
            b.run_for(20 + clocks);
            // `rx` does it while it deals with no other segment
            while !matches!(b.rx, Rx::Idle) {
                b.clock();
            }
            b.forget = Some(whom);
            b.run();
            assert!(b.pool.iter().all(|h| h.index != whom) || !b.conns[whom].open);
            // it lives again, and the pool has its places
            b.open(whom, 0);
            for n in 1..=4 {
                b.send(whom, 100 * n, 100, false);
            }
            b.run();
            b.send(whom, 0, 100, false);
            b.run();
            assert_eq!(b.conns[whom].rcv_nxt, 500);
        }
    }
}

impl Bench {
    fn run_for(&mut self, clocks: u32) {
        for _ in 0..clocks {
            self.clock();
        }
    }

    /// A segment anywhere near RCV.NXT of some connection, or one that opens it.
    fn invent(&mut self, connections: usize) {
        let index = self.rng.random_range(0..connections) * 5 % CONNECTIONS;
        let c = self.conns[index];
        let rcv_nxt = self.rng.random::<u32>();
        if !c.open && self.rng.random_bool(0.7) {
            return self.open(index, rcv_nxt);
        }
        let by = *[0, 0, self.rng.random_range(-40..120), self.rng.random_range(-40..120), self.rng.random_range(-2000..5000)]
            .get(self.rng.random_range(0..5))
            .expect("one of five");
        let most = [12, 60, 60, 60, 1600][self.rng.random_range(0..5)];
        let seq = c.rcv_nxt.wrapping_add(by as u32);
        let mut len = self.rng.random_range(0..most);
        let mut fin = false;
        // nothing is beyond the end of the stream
        if c.open {
            match beyond(c.end, seq) {
                Some(left) if left as usize <= len => (len, fin) = (left as usize, true),
                Some(_) => {}
                None => return,
            }
        }
        self.send(index, seq, len, fin);
    }
}

/// Covers: TCP-19, DDP-31
#[test]
fn random_segments_come_out_in_order_and_whole() {
    let seed = bench::seed("reassembly random");
    let mut b = Bench::new(seed);
    let mut sums = [0u64; 5];
    for round in 0..300usize {
        (b.flow, b.slow) = [(1.0, 0), (0.5, 6), (0.8, 0), (1.0, 20)][round % 4];
        b.early = round % 8 > 2;
        let connections = 1 + round % 6;
        let forgetful = [0.0, 0.002, 0.02][round % 3];
        for _ in 0..3000 {
            if b.queue.is_empty() && matches!(b.up, Up::Idle) {
                b.eat = if b.rng.random_bool(0.1) { b.rng.random_range(0..30) } else { usize::MAX };
                b.invent(connections);
            }
            let free_to_forget = matches!(b.rx, Rx::Idle) || matches!(b.rx, Rx::Ends(n, _, _) if n > 0);
            if free_to_forget && b.rng.random_bool(forgetful) {
                let of = if let Rx::Ends(_, _, Some(s)) = b.rx { s.index } else { b.rng.random_range(0..connections) * 5 % CONNECTIONS };
                b.forget = Some(of);
            }
            b.clock();
        }
        if round % 10 == 9 {
            b.reset();
        }
        for (sum, n) in sums.iter_mut().zip(b.counts()) {
            *sum += u64::from(n);
        }
    }
    println!("held {}, dropped {}, holes filled {}, replays {}, {} of them behind a payload", sums[0], sums[1], sums[2], sums[3], b.waited);
    assert!(b.waited > 50 && sums[..4].iter().all(|n| *n > 300), "{sums:?}");
}

#[test]
fn what_passes_through_is_not_delayed_and_a_replay_takes_the_clocks_promised() {
    let mut b = Bench::new(8);
    let m = &mut b.m;
    m.segment_valid.set(true);
    m.offer_ready.set(true);
    m.eval();
    assert!(m.offer_valid.get() && m.segment_ready.get(), "in the same clock");
    b.reset();
    b.open(1, 0);
    b.run();
    let clocks = |b: &mut Bench| {
        let start = b.clocks;
        b.run();
        b.clocks - start - 2
    };
    b.send(1, 0, 800, false);
    let passed = clocks(&mut b);
    b.send(1, 1600, 800, false);
    let held = clocks(&mut b);
    b.send(1, 800, 800, false);
    let filled = clocks(&mut b);
    println!("800 octets: passed on {passed}, held {held}, passed on and as many played {filled} clocks");
    assert!(held <= passed + 8 + 4);
    assert!(filled <= passed + 2 * (8 + 3) + 1000 + 30);
}

#[test]
fn reset_at_any_time_leaves_an_empty_block() {
    let mut b = Bench::new(9);
    for clocks in 0..300 {
        (b.flow, b.slow) = [(1.0, 0), (0.6, 3)][clocks as usize % 2];
        for index in [1, 2] {
            b.open(index, 0);
            for n in (1..4).rev() {
                b.send(index, 100 * n, 50, false);
            }
            b.send(index, 0, 310, false);
        }
        b.run_for(clocks);
        b.reset();
        b.open(4, 0);
        for n in 1..=4 {
            b.send(4, 100 * n, 100, false);
        }
        b.run();
        b.counts();
        b.send(4, 0, 100, false);
        b.run();
        assert_eq!(b.conns[4].rcv_nxt, 500);
        assert_eq!(b.counts(), [0, 0, 1, 4]);
        b.reset();
    }
}
