// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::start_rx` against [`Receiver`], a model that looks at all octets of a connection at once.
mod mpa;
mod net;
use ironwarp_models::bench::{Memory, WriteHost};
use ironwarp_models::{bench, start_rx::Model, Dut};
use mpa::{examples, key, Frame, S};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const BASE: u64 = 0x12_3456_7000;
const CONNECTIONS: u16 = 32;

/// In the order of `StartRxNote`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Frame,
    Malformed,
    WrongRevision,
    Excess,
    Delivered,
    Failed,
}
const NOTES: [Note; 6] = [Note::Frame, Note::Malformed, Note::WrongRevision, Note::Excess, Note::Delivered, Note::Failed];

/// What a result says; `frame` only where it means something, and only what means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    note: Note,
    index: u16,
    frame: Frame,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    requests: u64,
    replies: u64,
    malformed: u64,
}

/// What the first octets of a connection are.
enum Judgement {
    Incomplete,
    Malformed,
    WrongRevision(u8),
    Frame(Frame),
}

fn judge(passive: bool, octets: &[u8]) -> Judgement {
    let n = octets.len().min(16);
    if octets[..n] != key(!passive)[..n] {
        return Judgement::Malformed;
    }
    let &[flags, rev, ..] = &octets[n..] else { return Judgement::Incomplete };
    if rev != 1 && rev != 2 {
        return Judgement::WrongRevision(rev);
    }
    if octets.get(18).is_some_and(|o| *o > 2) {
        return Judgement::Malformed;
    }
    if octets.len() < 20 {
        return Judgement::Incomplete;
    }
    let length = u16::from_be_bytes([octets[18], octets[19]]);
    let enhanced = rev == 2 && flags & S != 0;
    if length > 512 || enhanced && length < 4 {
        return Judgement::Malformed;
    }
    if octets.len() < 20 + usize::from(length) {
        return Judgement::Incomplete;
    }
    let word = |at| if enhanced { u16::from_be_bytes([octets[at], octets[at + 1]]) } else { 0 };
    Judgement::Frame(Frame {
        reply: !passive,
        flags: flags & if enhanced { 0xf0 } else { 0xe0 },
        rev,
        data_len: if enhanced { length - 4 } else { length },
        ird_word: word(20),
        ord_word: word(22),
    })
}

/// One connection of the model.
#[derive(Clone, Default)]
struct Receiver {
    passive: bool,
    octets: Vec<u8>,
    frame: Option<Frame>,
    deaf: bool,
}

impl Receiver {
    /// Octets taken over, and results.
    fn payload(&mut self, index: u16, payload: &[u8]) -> (u16, Vec<Told>) {
        let mut told = vec![];
        for (i, &octet) in payload.iter().enumerate() {
            if self.deaf {
                break;
            }
            let mut tell = |note, frame| told.push(Told { note, index, frame });
            if self.frame.is_some() {
                if !self.passive {
                    return (i as u16, told);
                }
                tell(Note::Excess, Frame::default());
                self.deaf = true;
                break;
            }
            self.octets.push(octet);
            match judge(self.passive, &self.octets) {
                Judgement::Incomplete => {}
                Judgement::Malformed => {
                    tell(Note::Malformed, Frame::default());
                    self.deaf = true;
                }
                Judgement::WrongRevision(rev) => {
                    tell(Note::WrongRevision, Frame { rev, ..Frame::default() });
                    self.deaf = true;
                }
                Judgement::Frame(frame) => {
                    tell(Note::Frame, frame);
                    self.frame = Some(frame);
                }
            }
        }
        (payload.len() as u16, told)
    }
    fn data(&self) -> &[u8] {
        let frame = self.frame.expect("complete");
        &self.octets[self.octets.len() - usize::from(frame.data_len)..]
    }
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: WriteHost,
    /// Chances that the readers of results and answers are busy, and that a beat is late.
    busy: f64,
    pause: f64,
    told: Vec<Told>,
    /// Answers to `deliver`.
    delivered: Vec<(u16, Note)>,
    counts: Counts,
    clocks: u64,
    model: Vec<Receiver>,
}

impl Bench {
    fn new() -> Self {
        let seed = bench::seed("start_rx");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            host: WriteHost::new(1..40, 0.2),
            busy: 0.0,
            pause: 0.0,
            told: vec![],
            delivered: vec![],
            counts: Counts::default(),
            clocks: 0,
            model: vec![Receiver::default(); usize::from(CONNECTIONS)],
        };
        b.m.pdata_base.set(BASE);
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.payload_meta_valid.set(false);
        self.m.inp_valid.set(false);
        self.m.deliver_valid.set(false);
        self.m.consumed_ready.set(false);
        self.host = WriteHost::new(self.host.latency.clone(), self.host.busy);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.told.clear();
        self.delivered.clear();
    }
    fn clock(&mut self) {
        let (ready, beat_ready, end) = self.host.offer(&mut self.memory, &mut self.rng);
        let m = &mut self.m;
        m.wr_req_ready.set(ready);
        m.wr_beat_ready.set(beat_ready);
        m.wr_done_valid.set(end.is_some());
        m.wr_done_error.set(end == Some(true));
        m.result_ready.set(!self.rng.random_bool(self.busy));
        m.eval();
        assert!(m.ready.get());
        let request = (m.wr_req_valid.get() && ready).then(|| (m.wr_req_data_addr.get(), m.wr_req_data_len.get() as u16));
        let beat = (m.wr_beat_valid.get() && beat_ready).then(|| (m.wr_beat_data_data.get(), m.wr_beat_data_last.bit()));
        if m.result_valid.get() && m.result_ready.get() {
            let note = NOTES[m.result_data_note.get() as usize];
            let index = m.result_data_index.get() as u16;
            let frame = Frame {
                reply: m.result_data_frame_reply.bit(),
                flags: m.result_data_frame_flags.get() as u8,
                rev: m.result_data_frame_rev.get() as u8,
                data_len: m.result_data_frame_data_len.get() as u16,
                ird_word: m.result_data_frame_ird_word.get() as u16,
                ord_word: m.result_data_frame_ord_word.get() as u16,
            };
            match note {
                Note::Delivered | Note::Failed => self.delivered.push((index, note)),
                Note::Frame => self.told.push(Told { note, index, frame }),
                Note::WrongRevision => self.told.push(Told { note, index, frame: Frame { rev: frame.rev, ..Frame::default() } }),
                Note::Malformed | Note::Excess => self.told.push(Told { note, index, frame: Frame::default() }),
            }
        }
        self.counts.requests += u64::from(m.cnt_mpa_in_requests.get());
        self.counts.replies += u64::from(m.cnt_mpa_in_replies.get());
        self.counts.malformed += u64::from(m.cnt_mpa_malformed.get());
        self.host.step(request, beat, &mut self.rng);
        m.tick();
        self.clocks += 1;
    }
    /// Brings a payload; returns what was taken over and told. Results come before the answer.
    fn raw_payload(&mut self, index: u16, payload: &[u8], first: bool, passive: bool) -> (u16, Vec<Told>) {
        assert_eq!(self.told, [], "nothing is told but for a payload");
        self.m.payload_meta_data_index.set(u64::from(index));
        self.m.payload_meta_data_len.set(payload.len() as u64);
        self.m.payload_meta_data_first.set(u64::from(first));
        self.m.payload_meta_data_passive.set(u64::from(passive));
        self.m.payload_meta_valid.set(true);
        let mut beats = net::beats(payload).into_iter().peekable();
        let end = self.clocks + 20_000;
        loop {
            assert!(self.clocks < end, "a payload is answered");
            if let Some(beat) = beats.peek() {
                self.m.inp_beat_data.set(beat.data);
                self.m.inp_beat_keep.set(beat.keep);
                self.m.inp_beat_last.set(u64::from(beat.last));
                // what is offered stays
                if !self.m.inp_valid.get() {
                    self.m.inp_valid.set(!self.rng.random_bool(self.pause));
                }
            }
            self.m.consumed_ready.set(!self.rng.random_bool(self.busy));
            self.m.eval();
            let meta_taken = self.m.payload_meta_valid.get() && self.m.payload_meta_ready.get();
            let beat_taken = self.m.inp_valid.get() && self.m.inp_ready.get();
            let consumed = (self.m.consumed_valid.get() && self.m.consumed_ready.get()).then(|| self.m.consumed_data.get());
            if let Some(consumed) = consumed {
                assert!(beats.peek().is_none(), "answered before its end");
                // a result that is still offered is late, unless it is an answer of the deliverer
                let told = std::mem::take(&mut self.told);
                self.clock();
                self.m.consumed_ready.set(false);
                return (consumed, told);
            }
            self.clock();
            if meta_taken {
                self.m.payload_meta_valid.set(false);
            }
            if beat_taken {
                beats.next();
                self.m.inp_valid.set(false);
            }
        }
    }
    /// Brings a payload to the block and to the model, and compares.
    fn payload(&mut self, index: u16, payload: &[u8], first: bool) {
        let model = &mut self.model[usize::from(index)];
        let passive = model.passive;
        let expect = model.payload(index, payload);
        let got = self.raw_payload(index, payload, first, passive);
        assert_eq!(got, expect, "index {index}, passive {passive}, payload {payload:02x?}");
    }
    /// A new connection whose peer sends `pieces`.
    fn connection(&mut self, index: u16, passive: bool, pieces: &[&[u8]]) {
        self.model[usize::from(index)] = Receiver { passive, ..Receiver::default() };
        for (i, piece) in pieces.iter().enumerate() {
            self.payload(index, piece, i == 0);
        }
    }
    fn counted(&mut self, scenario: impl FnOnce(&mut Self)) -> Counts {
        let c = self.counts;
        scenario(self);
        let d = self.counts;
        Counts { requests: d.requests - c.requests, replies: d.replies - c.replies, malformed: d.malformed - c.malformed }
    }
    /// Asks for the private data of `index`.
    fn ask(&mut self, index: u16) {
        self.m.deliver_data.set(index);
        self.m.deliver_valid.set(true);
        let mut taken = false;
        while !taken {
            self.m.eval();
            taken = self.m.deliver_ready.get();
            self.clock();
        }
        self.m.deliver_valid.set(false);
    }
    /// As [`Bench::ask`], and waits for the answer.
    fn deliver(&mut self, index: u16) -> Note {
        self.ask(index);
        let end = self.clocks + 20_000;
        while self.delivered.is_empty() {
            assert!(self.clocks < end, "a delivery is answered");
            self.clock();
        }
        let answers = std::mem::take(&mut self.delivered);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].0, index);
        answers[0].1
    }
    /// The private data of `index` as the host finds it.
    fn in_memory(&self, index: u16, len: usize) -> Vec<u8> {
        let at = BASE + 512 * u64::from(index);
        let octets = (0..len.div_ceil(8) as u64).flat_map(|i| self.memory.word(at + 8 * i).to_le_bytes());
        octets.take(len).collect()
    }
    fn delivers_what_came(&mut self, index: u16) {
        let data = self.model[usize::from(index)].data().to_vec();
        let before = self.host.ended.len();
        assert_eq!(self.deliver(index), Note::Delivered);
        assert_eq!(self.in_memory(index, data.len()), data);
        let writes: Vec<_> = self.host.ended[before..].iter().map(|w| (w.addr, usize::from(w.len))).collect();
        let expect = if data.is_empty() { vec![] } else { vec![(BASE + 512 * u64::from(index), data.len())] };
        assert_eq!(writes, expect, "one write of as many octets as came, or none");
    }
}

fn pieces<'a>(octets: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let ends = cuts.iter().copied().chain([octets.len()]);
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    starts.zip(ends).map(|(a, b)| &octets[a..b]).collect()
}

/// The model's own octets are those of the examples, so that both tests of start-up frames stand on the same ground.
/// Covers: MPA-10, MPA-15, MPA-19, DEF-12
#[test]
fn frames_are_understood_however_tcp_cuts_them() {
    let mut b = Bench::new();
    for (number, e) in examples().iter().enumerate() {
        assert_eq!(e.frame.octets(&e.data), e.octets);
        let n = e.octets.len();
        let index = number as u16 * 3 % CONNECTIONS;
        let passive = !e.frame.reply;
        let mut cuts: Vec<Vec<usize>> = vec![vec![], (1..n).collect()];
        cuts.extend((1..n).map(|a| vec![a]));
        if n < 100 {
            cuts.extend((1..n).flat_map(|a| (a + 1..n).map(move |b| vec![a, b])));
        }
        let times = cuts.len() as u64;
        let counts = b.counted(|b| {
            for (i, cut) in cuts.iter().enumerate() {
                b.busy = if i % 2 == 0 { 0.0 } else { 0.4 };
                b.pause = if i % 3 == 0 { 0.0 } else { 0.4 };
                b.connection(index, passive, &pieces(&e.octets, cut));
                assert_eq!(b.model[usize::from(index)].frame, Some(e.frame), "the model is right");
                if i < 3 {
                    b.delivers_what_came(index);
                }
            }
        });
        let (requests, replies) = if passive { (times, 0) } else { (0, times) };
        assert_eq!(counts, Counts { requests, replies, malformed: 0 });
    }
}

/// With the first wrong octet; a Request where a Reply is due and a Reply where a Request is due are wrong like any other.
/// Covers: MPA-7, MPA-15
#[test]
fn a_wrong_octet_of_the_key_is_malformed_at_once() {
    let mut b = Bench::new();
    for passive in [false, true] {
        let good = Frame { reply: !passive, flags: 0x40, rev: 1, data_len: 3, ..Frame::default() }.octets(b"abc");
        let mut bad: Vec<_> = (0..128).map(|bit| (bit / 8, good[bit / 8] ^ 1 << (bit % 8))).collect();
        bad.push((9, key(passive)[9]));
        for (at, octet) in bad {
            let mut octets = good.clone();
            octets[at] = octet;
            let before = b.counts.malformed;
            // what follows the wrong octet is taken over without a word
            let parts = [&octets[..at], &octets[at..=at], &octets[at + 1..], &good];
            b.connection(5, passive, &parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>());
            assert!(b.model[5].deaf);
            assert_eq!(b.counts.malformed, before + 1);
            b.connection(5, passive, &[&octets]);
            assert_eq!(b.counts.malformed, before + 2);
        }
        // the index is as good as new for the next connection
        b.connection(5, passive, &[&good]);
        assert!(b.model[5].frame.is_some());
    }
}

/// Covers: MPA-17
#[test]
fn revisions_other_than_1_and_2_are_told_with_their_number() {
    let mut b = Bench::new();
    for passive in [false, true] {
        for rev in 0..=255 {
            let octets = Frame { reply: !passive, flags: 0x40, rev, data_len: 2, ..Frame::default() }.octets(b"xy");
            let counts = b.counted(|b| b.connection(8, passive, &[&octets[..17], &octets[17..18], &octets[18..]]));
            let good = u64::from(rev == 1 || rev == 2);
            let expect = Counts { requests: good * u64::from(passive), replies: good * u64::from(!passive), malformed: 1 - good };
            assert_eq!(counts, expect, "{rev}");
        }
    }
}

/// All flag octets in both revisions and both frames: only M, C, R, and S in revision 2 come out; nothing else changes what is
/// understood. S in revision 1 is a reserved bit, the words are private data.
/// Covers: MPA-16, ENH-1, ENH-18
#[test]
fn flags_with_a_meaning_are_told_and_reserved_bits_are_not_looked_at() {
    let mut b = Bench::new();
    for passive in [false, true] {
        for rev in [1, 2] {
            for flags in 0..=255 {
                let body = [0xff, 0xee, 0x80, 0x01, b'd'];
                let octets = [&key(!passive)[..], &[flags, rev, 0, 5], &body].concat();
                b.connection(9, passive, &[&octets]);
                let frame = b.model[9].frame.expect("complete");
                if rev == 2 && flags & S != 0 {
                    assert_eq!((frame.data_len, frame.ird_word, frame.ord_word), (1, 0xffee, 0x8001));
                    assert_eq!(frame.flags, flags & 0xf0);
                } else {
                    assert_eq!((frame.data_len, frame.ird_word, frame.ord_word), (5, 0, 0));
                    assert_eq!(frame.flags, flags & 0xe0);
                }
                b.delivers_what_came(9);
            }
        }
    }
}

/// Covers: MPA-9, MPA-18, ENH-18, ENH-20
#[test]
fn pd_length_is_0_to_512_and_at_least_4_with_s() {
    let mut b = Bench::new();
    let lengths = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 255, 256, 257, 507, 508, 509, 511, 512, 513, 514, 767, 768, 1024, 0x8000, 65535];
    for passive in [false, true] {
        for (flags, rev) in [(0x40, 1), (0x50, 1), (0x40, 2), (0x50, 2)] {
            for length in lengths {
                let enhanced = rev == 2 && flags & S != 0;
                let good = length <= 512 && (!enhanced || length >= 4);
                let body: Vec<u8> = (0..length.min(600)).map(|_| b.rng.random()).collect();
                let front = [&key(!passive)[..], &[flags, rev], &(length as u16).to_be_bytes()].concat();
                let octets = [front, body].concat();
                let index = b.rng.random_range(0..CONNECTIONS);
                // PD_Length in one piece, its octets apart
                for cuts in [vec![], vec![19], vec![18, 20].into_iter().filter(|c| *c < octets.len()).collect()] {
                    let counts = b.counted(|b| b.connection(index, passive, &pieces(&octets, &cuts)));
                    assert_eq!(counts.malformed, u64::from(!good), "{flags:#x} {rev} {length}");
                    if good {
                        let frame = b.model[usize::from(index)].frame.expect("complete");
                        assert_eq!(u64::from(frame.data_len) + if enhanced { 4 } else { 0 }, length);
                        b.delivers_what_came(index);
                    }
                }
            }
        }
    }
}

/// Covers: MPA-10
#[test]
fn octets_after_a_request_are_excess_and_after_a_reply_are_left_to_the_data_path() {
    let mut b = Bench::new();
    for e in examples().iter().filter(|e| e.octets.len() < 100) {
        let passive = !e.frame.reply;
        let frame = e.octets.len();
        let more: Vec<u8> = (0..40).map(|_| b.rng.random()).collect();
        let all = [&e.octets[..], &more].concat();
        for len in frame + 1..all.len() {
            let all = &all[..len];
            for cut in 1..len {
                b.connection(30, passive, &[&all[..cut], &all[cut..], &more]);
                assert_eq!(b.model[30].deaf, passive);
            }
        }
        // in numbers, once
        if passive {
            let excess = |index| Told { note: Note::Excess, index, frame: Frame::default() };
            let complete = Told { note: Note::Frame, index: 3, frame: e.frame };
            assert_eq!(b.raw_payload(3, &all, true, true), (all.len() as u16, vec![complete, excess(3)]));
            assert_eq!(b.raw_payload(3, &all, false, true), (all.len() as u16, vec![]));
        } else {
            let complete = Told { note: Note::Frame, index: 3, frame: e.frame };
            assert_eq!(b.raw_payload(3, &all, true, false), (frame as u16, vec![complete]));
            assert_eq!(b.raw_payload(3, &more, false, false), (0, vec![]));
        }
        b.connection(3, passive, &[&e.octets]);
        b.delivers_what_came(3);
    }
}

/// The clocks that the module doc promises, with nobody in the way.
#[test]
fn a_payload_takes_a_clock_an_octet_and_little_more() {
    let mut b = Bench::new();
    let clocks = |b: &mut Bench, payload: &[u8], first, passive| {
        let before = b.clocks;
        b.raw_payload(0, payload, first, passive);
        b.clocks - before
    };
    let request = &examples()[5].octets;
    assert_eq!(clocks(&mut b, &request[..16], true, true), 5 + 2 * 9);
    assert_eq!(clocks(&mut b, &request[16..], false, true), 5 + 9 + 5 + 1);
    let excess = clocks(&mut b, &[7; 1460], false, true);
    assert!(excess <= 183 + 10, "{excess}");
    assert_eq!(clocks(&mut b, &[7; 1460], false, true), 5 + 183);
}

/// Several connections at once, right, wrong and followed by more, cut anywhere, indices used again; private data is asked for while
/// others receive, from a host that is slow and sometimes fails.
/// Covers: MPA-9, MPA-10, MPA-15, MPA-17, MPA-18
#[test]
fn connections_do_not_mix() {
    let mut b = Bench::new();
    b.busy = 0.2;
    b.pause = 0.1;
    b.host.failing = 0.1;
    let mut sending: Vec<Option<Vec<u8>>> = vec![None; usize::from(CONNECTIONS)];
    let mut first = vec![true; sending.len()];
    let mut asked: Option<u16> = None;
    let mut frames = [0u32; 3];
    for _ in 0..6000 {
        if let (Some(index), Some((answered, note))) = (asked, b.delivered.pop()) {
            assert_eq!(answered, index);
            let data = b.model[usize::from(index)].data().to_vec();
            let failed = !data.is_empty() && b.host.ended.last().expect("written").failed;
            assert_eq!(note, if failed { Note::Failed } else { Note::Delivered });
            if !failed {
                assert_eq!(b.in_memory(index, data.len()), data);
            }
            frames[usize::from(failed)] += 1;
            asked = None;
        }
        let index = b.rng.random_range(0..CONNECTIONS);
        let i = usize::from(index);
        if asked == Some(index) {
            // is not used again before the answer
            b.clock();
            continue;
        }
        match sending[i].take() {
            None => {
                if first[i] || b.rng.random_bool(0.5) || b.model[i].frame.is_none() {
                    let passive: bool = b.rng.random();
                    let flags = b.rng.random();
                    let rev = b.rng.random_range(1..3);
                    let most = if b.rng.random_bool(0.8) { 40 } else { 509 };
                    let data: Vec<u8> = (0..b.rng.random_range(0..most)).map(|_| b.rng.random()).collect();
                    let (ird_word, ord_word) = (b.rng.random(), b.rng.random());
                    let frame = Frame { reply: !passive, flags, rev, data_len: data.len() as u16, ird_word, ord_word };
                    let mut octets = frame.octets(&data);
                    if b.rng.random_bool(0.2) {
                        let at = b.rng.random_range(0..20);
                        octets[at] ^= 1 << b.rng.random_range(0..8);
                    }
                    if b.rng.random_bool(0.2) {
                        octets.extend_from_slice(b"more");
                    }
                    sending[i] = Some(octets);
                    first[i] = true;
                    b.model[i] = Receiver { passive, ..Receiver::default() };
                } else if asked.is_none() {
                    b.ask(index);
                    asked = Some(index);
                }
            }
            Some(octets) => {
                let cut = if b.rng.random_bool(0.5) { octets.len() } else { b.rng.random_range(1..=octets.len().min(40)) };
                let (now, later) = octets.split_at(cut);
                b.payload(index, now, first[i]);
                first[i] = false;
                if !later.is_empty() {
                    sending[i] = Some(later.to_vec());
                }
                frames[2] += 1;
            }
        }
    }
    assert!(frames[0] > 100 && frames[1] > 10 && frames[2] > 1500, "{frames:?}");
}

/// A delivery that fails is told and can be asked for again.
#[test]
fn private_data_that_cannot_be_written_is_told() {
    let mut b = Bench::new();
    let e = &examples()[0];
    b.connection(31, true, &[&e.octets]);
    b.host.failing = 1.0;
    assert_eq!(b.deliver(31), Note::Failed);
    b.host.failing = 0.0;
    b.delivers_what_came(31);
}

#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::new();
    let e = &examples()[5];
    for round in 0..200 {
        b.connection(7, true, &[&e.octets]);
        b.ask(7);
        // half of a payload, until the reset
        b.m.payload_meta_data_index.set(u64::from(b.rng.random_range(0..CONNECTIONS)));
        b.m.payload_meta_data_len.set(16);
        b.m.payload_meta_data_first.set(1);
        b.m.payload_meta_data_passive.set(round % 2);
        b.m.payload_meta_valid.set(true);
        b.m.inp_beat_last.set(0);
        b.m.inp_valid.set(true);
        for _ in 0..b.rng.random_range(0..60) {
            b.clock();
        }
        b.reset();
        for _ in 0..50 {
            b.clock();
        }
        assert_eq!((b.told.len(), b.delivered.len(), b.host.outstanding()), (0, 0, 0));
        b.connection(7, true, &[&e.octets[..9], &e.octets[9..]]);
        b.delivers_what_came(7);
    }
}
