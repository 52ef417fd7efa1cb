// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::start_tx`: parts of start-up frames against frames made in plain Rust, from a host that is slow and sometimes fails; and
//! the way back through `mpa::start_rx`.
mod mpa;
mod net;
use ironwarp_models::bench::{Memory, ReadHost};
use ironwarp_models::{bench, start_rx, start_tx::Model, Dut};
use mpa::{examples, Frame, S};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

const CONNECTIONS: u16 = 32;

/// Host memory octet by octet, for addresses that are no multiple of 8.
fn host_octet(addr: u64) -> u8 {
    (addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8
}

/// What one payload request gave.
#[derive(Debug, PartialEq)]
struct Payload {
    octets: Vec<u8>,
    error: bool,
    fault: Option<u16>,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: ReadHost,
    /// Chances that TCP takes no beat, and that the manager takes no fault.
    stall: f64,
    fault_busy: f64,
    out: Vec<u8>,
    ended: Option<bool>,
    faults: Vec<u16>,
    clocks: u64,
    /// What the block holds.
    frames: Vec<(Frame, u64)>,
    frame_taken: bool,
}

impl Bench {
    fn new(latency: Range<u64>, busy: f64) -> Self {
        let seed = bench::seed("start_tx");
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            host: ReadHost::new(latency, busy),
            stall: 0.0,
            fault_busy: 0.0,
            out: vec![],
            ended: None,
            faults: vec![],
            clocks: 0,
            frames: vec![Default::default(); usize::from(CONNECTIONS)],
            frame_taken: false,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.frame_valid.set(false);
        self.m.payload_valid.set(false);
        self.m.out_ready.set(false);
        self.m.fault_ready.set(false);
        self.host = ReadHost::new(self.host.latency.clone(), self.host.busy);
        for _ in 0..3 {
            self.m.rd_beat_valid.set(false);
            self.m.tick();
        }
        self.m.reset.set(false);
        self.out.clear();
        self.ended = None;
        self.faults.clear();
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
        m.eval();
        self.frame_taken = m.frame_valid.get() && m.frame_ready.get();
        assert!(m.rd_beat_ready.get(), "the host never waits for TCP");
        let request = (m.rd_req_valid.get() && ready).then(|| (m.rd_req_data_addr.get(), m.rd_req_data_len.get() as u16));
        if let Some((addr, len)) = request {
            for at in (addr..addr + u64::from(len)).step_by(8) {
                let word = std::array::from_fn(|i| host_octet(at + i as u64));
                self.memory.0.insert(at, u64::from_le_bytes(word));
            }
        }
        let used = m.out_valid.get() || m.rd_req_valid.get() || m.fault_valid.get() || self.host.outstanding() > 0;
        assert!(m.busy.get() || !used, "busy while anything goes on");
        if m.out_valid.get() && m.out_ready.get() {
            assert_eq!(self.ended, None, "one payload a request");
            let keep = m.out_beat_keep.get();
            net::push(&mut self.out, m.out_beat_data.get(), keep);
            if m.out_beat_last.bit() {
                self.ended = Some(m.out_beat_error.bit());
            } else {
                assert_eq!(keep, 0xff);
                assert!(!m.out_beat_error.bit());
            }
        }
        if m.fault_valid.get() && m.fault_ready.get() {
            assert_eq!(self.ended, None, "told before the end");
            self.faults.push(m.fault_data.get());
        }
        self.host.step(request, beat.is_some(), &mut self.rng);
        m.tick();
        self.clocks += 1;
    }
    fn frame(&mut self, index: u16, frame: Frame, data_addr: u64) {
        let m = &mut self.m;
        m.frame_data_index.set(u64::from(index));
        m.frame_data_frame_reply.set(u64::from(frame.reply));
        m.frame_data_frame_flags.set(u64::from(frame.flags));
        m.frame_data_frame_rev.set(u64::from(frame.rev));
        m.frame_data_frame_data_len.set(u64::from(frame.data_len));
        m.frame_data_frame_ird_word.set(u64::from(frame.ird_word));
        m.frame_data_frame_ord_word.set(u64::from(frame.ord_word));
        m.frame_data_data_addr.set(data_addr);
        m.frame_valid.set(true);
        let end = self.clocks + 8;
        self.clock();
        while !self.frame_taken {
            assert!(self.clocks < end, "a frame is taken while no payload is given");
            self.clock();
        }
        self.m.frame_valid.set(false);
        self.frames[usize::from(index)] = (frame, data_addr);
    }
    /// All octets of the frame of `index`, in plain Rust.
    fn model(&self, index: u16) -> Vec<u8> {
        let (frame, addr) = self.frames[usize::from(index)];
        let meaning = if frame.rev == 2 { 0xf0 } else { 0xe0 };
        let data: Vec<u8> = (0..u64::from(frame.data_len)).map(|i| host_octet(addr + i)).collect();
        Frame { flags: frame.flags & meaning, ..frame }.octets(&data)
    }
    fn payload(&mut self, index: u16, skip: usize, take: usize) -> Payload {
        self.m.payload_data_index.set(u64::from(index));
        self.m.payload_data_skip.set(skip as u64);
        self.m.payload_data_take.set(take as u64);
        self.m.payload_valid.set(true);
        let end = self.clocks + 20_000;
        while self.ended.is_none() {
            assert!(self.clocks < end, "a payload ends");
            self.m.eval();
            let taken = self.m.payload_valid.get() && self.m.payload_ready.get();
            self.clock();
            if taken {
                self.m.payload_valid.set(false);
            }
        }
        self.m.eval();
        assert!(!self.m.busy.get() && self.host.outstanding() == 0, "nothing goes on afterwards");
        assert!(self.faults.len() <= 1, "told once");
        let octets = std::mem::take(&mut self.out);
        Payload { octets, error: self.ended.take().expect("ended"), fault: self.faults.pop() }
    }
    /// A part of the frame that arrives whole; what is read of the host is what is needed.
    fn part(&mut self, index: u16, skip: usize, take: usize) {
        let before = self.host.requests.len();
        let octets = self.model(index)[skip..skip + take].to_vec();
        assert_eq!(self.payload(index, skip, take), Payload { octets, error: false, fault: None }, "{index}: {take} from {skip}");
        let (frame, addr) = self.frames[usize::from(index)];
        let header = if frame.enhanced() { 24 } else { 20 };
        let (start, end) = (skip.max(header), skip + take);
        let expect = if end > start { vec![(addr + (start - header) as u64, (end - start) as u16)] } else { vec![] };
        assert_eq!(self.host.requests[before..], expect);
    }
    fn random_frame(&mut self, most: u16) -> (Frame, u64) {
        let frame = Frame {
            reply: self.rng.random(),
            flags: self.rng.random(),
            rev: self.rng.random_range(1..3),
            data_len: self.rng.random_range(0..=most),
            ird_word: self.rng.random(),
            ord_word: self.rng.random(),
        };
        (frame, self.rng.random())
    }
}

/// Covers: MPA-15, MPA-18, ENH-1, ENH-20
#[test]
fn frames_are_laid_out_as_the_examples() {
    let mut b = Bench::new(1..40, 0.2);
    for (i, e) in examples().iter().enumerate() {
        let index = i as u16;
        b.frame(index, e.frame, 0x1_0000_0003);
        let (data, front) = (usize::from(e.frame.data_len), e.octets.len() - usize::from(e.frame.data_len));
        let got = b.payload(index, 0, e.octets.len());
        assert_eq!(got.octets[..front], e.octets[..front]);
        assert_eq!(got.octets[front..], (0..data as u64).map(|i| host_octet(0x1_0000_0003 + i)).collect::<Vec<_>>());
        assert_eq!(got, Payload { octets: b.model(index), error: false, fault: None });
    }
}

/// The key and the fields of each form, with every length of private data that its rules know.
/// Covers: MPA-15, MPA-18, ENH-20
#[test]
fn pd_length_counts_the_enhanced_words() {
    let mut b = Bench::new(1..5, 0.0);
    for reply in [false, true] {
        for (flags, rev) in [(0x40, 1), (0x40, 2), (0x50, 2)] {
            for data_len in [0, 1, 3, 4, 5, 7, 8, 9, 255, 256, 508, 509, 511, 512] {
                let frame = Frame { reply, flags, rev, data_len, ird_word: 0x8123, ord_word: 0x4567 };
                if frame.enhanced() && data_len > 508 {
                    continue;
                }
                b.frame(4, frame, 0xabc0);
                let len = b.model(4).len();
                b.part(4, 0, len);
                let got = b.payload(4, 16, 4).octets;
                let pd_length = u16::from_be_bytes([got[2], got[3]]);
                assert_eq!(usize::from(pd_length), len - 20);
            }
        }
    }
}

/// Bits without a meaning leave as 0: 0x0F always, S in revision 1.
/// Covers: MPA-16
#[test]
fn reserved_bits_leave_as_zero() {
    let mut b = Bench::new(1..5, 0.0);
    for flags in 0..=255 {
        for rev in [1, 2] {
            b.frame(1, Frame { reply: flags % 3 == 0, flags, rev, data_len: 6, ird_word: 0x1234, ord_word: 0x5678 }, 0x55);
            let got = b.payload(1, 0, 26).octets;
            assert_eq!(got[16], flags & if rev == 2 { 0xf0 } else { 0xe0 });
            assert_eq!(got, b.model(1)[..26]);
        }
    }
}

/// However TCP cuts it, and as often as it asks.
#[test]
fn any_part_of_a_frame_can_be_had_any_number_of_times() {
    let mut b = Bench::new(0..10, 0.1);
    for (flags, rev, data_len, addr) in [(0x40, 1, 13, 0x7ffe), (0x50, 2, 0, 0), (0x70, 2, 10, 0xffff_ffff_fff9 - 16)] {
        let frame = Frame { reply: true, flags, rev, data_len, ird_word: 0xc0de, ord_word: 0xf00d };
        b.frame(17, frame, addr);
        let len = b.model(17).len();
        for skip in 0..len {
            for take in 1..=len - skip {
                b.stall = if take % 2 == 0 { 0.0 } else { 0.3 };
                b.part(17, skip, take);
            }
        }
    }
    // the largest, octet by octet and in two parts
    b.frame(18, Frame { reply: false, flags: 0x50, rev: 2, data_len: 508, ird_word: 4, ord_word: 4 }, 0x1_2345_6789);
    for skip in 0..532 {
        b.part(18, skip, 1);
    }
    for skip in (1..532).step_by(7) {
        b.part(18, 0, skip);
        b.part(18, skip, 532 - skip);
    }
}

/// Frames of many connections are kept apart, and each until its next, whatever host and TCP do.
#[test]
fn connections_do_not_mix() {
    for (latency, busy, stall) in [(0..1, 0.0, 0.0), (1..60, 0.3, 0.3), (100..200, 0.0, 0.8)] {
        let mut b = Bench::new(latency, busy);
        b.stall = stall;
        let mut held = vec![false; usize::from(CONNECTIONS)];
        for _ in 0..600 {
            let index = b.rng.random_range(0..CONNECTIONS);
            if !held[usize::from(index)] || b.rng.random_bool(0.3) {
                let (frame, addr) = b.random_frame(488);
                b.frame(index, frame, addr);
                held[usize::from(index)] = true;
            }
            let len = b.model(index).len();
            let skip = b.rng.random_range(0..len);
            let take = b.rng.random_range(1..=len - skip);
            b.part(index, skip, take);
        }
    }
}

/// The payload has its length, an error at its end, and the manager was told whose it is before TCP hears of it.
#[test]
fn a_failed_read_is_told_once_and_spoils_only_its_payload() {
    let mut b = Bench::new(1..30, 0.2);
    b.stall = 0.2;
    b.fault_busy = 0.9;
    let (mut failed, mut good) = (0, 0);
    for _ in 0..600 {
        let index = b.rng.random_range(0..CONNECTIONS);
        let (frame, addr) = b.random_frame(60);
        b.frame(index, frame, addr);
        let len = b.model(index).len();
        let skip = b.rng.random_range(0..len);
        let take = b.rng.random_range(1..=len - skip);
        b.host.failing = 0.4;
        let before = b.host.failed;
        let got = b.payload(index, skip, take);
        if b.host.failed > before {
            failed += 1;
            assert_eq!((got.octets.len(), got.error, got.fault), (take, true, Some(index)));
        } else {
            good += 1;
            let octets = b.model(index)[skip..skip + take].to_vec();
            assert_eq!(got, Payload { octets, error: false, fault: None });
        }
        b.host.failing = 0.0;
        b.part(index, skip, take);
    }
    assert!(failed > 100 && good > 100, "{failed} {good}");
}

/// TCP asks for a frame as often as it likes; the manager hears of a read that fails once a frame, and the queue on the way to it is bounded by that.
#[test]
fn a_fault_is_told_once_a_frame() {
    let mut b = Bench::new(1..3, 0.0);
    let frame = |b: &mut Bench, index| {
        let (frame, addr) = b.random_frame(60);
        b.frame(index, Frame { data_len: 40, ..frame }, addr);
        b.model(index).len()
    };
    for round in 0..3 {
        for index in [0, 5, CONNECTIONS - 1] {
            let len = frame(&mut b, index);
            b.host.failing = 1.0;
            for turn in 0..4 {
                let got = b.payload(index, 0, len);
                assert_eq!((got.error, got.fault), (true, Some(index).filter(|_| turn == 0)), "{index} in round {round}");
            }
            b.host.failing = 0.0;
            b.part(index, 0, len);
        }
    }
    // and a new frame of another index is no new frame of this one
    for index in 0..CONNECTIONS {
        let other = (index + 1) % CONNECTIONS;
        let len = frame(&mut b, index);
        frame(&mut b, other);
        b.host.failing = 1.0;
        assert_eq!(b.payload(index, 0, len).fault, Some(index));
        frame(&mut b, other);
        assert_eq!(b.payload(index, 0, len).fault, None);
    }
    // reset forgets
    b.reset();
    b.host.failing = 1.0;
    let len = frame(&mut b, 2);
    assert_eq!(b.payload(2, 0, len).fault, Some(2));
}

/// The clocks that the module doc promises, with a host that answers at once and nobody in the way.
#[test]
fn a_beat_takes_ten_clocks() {
    let mut b = Bench::new(0..1, 0.0);
    b.frame(0, Frame { flags: 0x50, rev: 2, data_len: 508, ..Frame::default() }, 0);
    let clocks = |b: &mut Bench, skip, take| {
        let before = b.clocks;
        b.part(0, skip, take);
        b.clocks - before
    };
    assert_eq!(clocks(&mut b, 0, 24), 10 + 3 * 10);
    assert_eq!(clocks(&mut b, 8, 16), 10 + 8 + 2 * 10);
    let data = clocks(&mut b, 24, 508);
    assert!(data <= 14 + 64 * 11, "{data}");
}

#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::new(1..30, 0.2);
    b.fault_busy = 0.5;
    for _ in 0..300 {
        b.frame(2, Frame { flags: 0x50, rev: 2, data_len: 300, ..Frame::default() }, 0x1000);
        b.host.failing = 0.3;
        b.m.payload_data_index.set(2);
        b.m.payload_data_skip.set(21);
        b.m.payload_data_take.set(100);
        b.m.payload_valid.set(true);
        for _ in 0..b.rng.random_range(1..250) {
            b.m.eval();
            let taken = b.m.payload_ready.get();
            b.clock();
            if taken {
                b.m.payload_valid.set(false);
            }
        }
        b.reset();
        for _ in 0..5 {
            b.clock();
        }
        assert!(b.out.is_empty() && b.faults.is_empty());
        b.part(2, 3, 200);
    }
}

/// What one block sends in random segments, the other understands as it was meant. Needs both models.
/// Covers: MPA-15, MPA-19
#[test]
fn what_is_sent_is_understood() {
    let mut b = Bench::new(1..20, 0.1);
    let mut rx = start_rx::Model::new(bench::seed("start_tx"));
    rx.reset.set(true);
    rx.tick();
    rx.reset.set(false);
    for round in 0..200 {
        let index = round % CONNECTIONS;
        let (frame, addr) = b.random_frame(if round % 4 == 0 { 508 } else { 40 });
        b.frame(index, frame, addr);
        let len = b.model(index).len();
        let mut skip = 0;
        let mut results = vec![];
        while skip < len {
            let take = b.rng.random_range(1..=len - skip);
            let segment = b.payload(index, skip, take).octets;
            rx.payload_meta_data_index.set(u64::from(index));
            rx.payload_meta_data_len.set(take as u64);
            rx.payload_meta_data_first.set(u64::from(skip == 0));
            rx.payload_meta_data_passive.set(u64::from(!frame.reply));
            rx.payload_meta_valid.set(true);
            rx.result_ready.set(true);
            rx.consumed_ready.set(true);
            let mut beats = net::beats(&segment).into_iter().peekable();
            let mut consumed = None;
            for _ in 0..2000 {
                rx.inp_valid.set(beats.peek().is_some());
                if let Some(beat) = beats.peek() {
                    rx.inp_beat_data.set(beat.data);
                    rx.inp_beat_keep.set(beat.keep);
                    rx.inp_beat_last.set(u64::from(beat.last));
                }
                rx.eval();
                let meta_taken = rx.payload_meta_valid.get() && rx.payload_meta_ready.get();
                if rx.inp_valid.get() && rx.inp_ready.get() {
                    beats.next();
                }
                if rx.result_valid.get() {
                    results.push(Frame {
                        reply: rx.result_data_frame_reply.bit(),
                        flags: rx.result_data_frame_flags.get() as u8,
                        rev: rx.result_data_frame_rev.get() as u8,
                        data_len: rx.result_data_frame_data_len.get() as u16,
                        ird_word: rx.result_data_frame_ird_word.get() as u16,
                        ord_word: rx.result_data_frame_ord_word.get() as u16,
                    });
                }
                if rx.consumed_valid.get() {
                    consumed = Some(rx.consumed_data.get());
                }
                rx.tick();
                if meta_taken {
                    rx.payload_meta_valid.set(false);
                }
                if consumed.is_some() {
                    break;
                }
            }
            assert_eq!(consumed, Some(take as u16));
            skip += take;
        }
        let expect = if frame.enhanced() {
            Frame { flags: frame.flags & 0xf0, ..frame }
        } else {
            Frame { flags: frame.flags & 0xe0 & !S, ird_word: 0, ord_word: 0, ..frame }
        };
        assert_eq!(results, [expect], "round {round}");
    }
}
