// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::loopback` between a transmitter, a MAC in both directions and a parser: whose frames come where, whole and in order.
mod net;
use ironwarp_models::{bench, loopback::Model, Dut};
use net::{beats, octets, push, Octets};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Beats of the longest frame that is looped.
const LONGEST: usize = 248;
/// First octets: what the transmitter sends to others, to itself, and what the wire brings.
const OTHERS: u8 = 0xa0;
const OWN: u8 = 0xa1;
const WIRE: u8 = 0xb0;

#[derive(Default)]
struct Counts {
    looped: u64,
    dropped: u64,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    /// What is to be sent, beat by beat, and whether the first beat is on offer.
    tx: VecDeque<(bool, Octets)>,
    offered: bool,
    wire: VecDeque<(Octets, bool)>,
    /// The wire is inside a frame.
    arriving_frame: bool,
    /// Clocks before the next frame of the wire.
    pause: u32,
    /// Chances of a beat in a clock, inside frames, and clocks between two frames of the wire.
    offering: f64,
    taking: f64,
    arriving: f64,
    gap: u32,
    out_frame: Vec<u8>,
    rx_frame: Vec<u8>,
    /// The parser is inside a frame.
    inside: bool,
    out: Vec<Vec<u8>>,
    rx: Vec<(Vec<u8>, bool)>,
    counts: Counts,
    clocks: u64,
    /// Clock of the last beat that was taken of `tx`, that came on `rx`, and of the first of that frame.
    sent: u64,
    seen: u64,
    began: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            tx: VecDeque::new(),
            offered: false,
            wire: VecDeque::new(),
            arriving_frame: false,
            pause: 0,
            offering: 1.0,
            taking: 1.0,
            arriving: 1.0,
            gap: 3,
            out_frame: vec![],
            rx_frame: vec![],
            inside: false,
            out: vec![],
            rx: vec![],
            counts: Counts::default(),
            clocks: 0,
            sent: 0,
            seen: 0,
            began: 0,
        };
        b.reset(1);
        b
    }

    fn frame(&mut self, kind: u8, len: usize) -> Vec<u8> {
        let mut frame = octets(&mut self.rng, len);
        frame[0] = kind;
        frame
    }

    fn send(&mut self, frame: &[u8]) {
        self.tx.extend(beats(frame).into_iter().map(|b| (frame[0] == OWN, b)));
    }

    fn arrive(&mut self, frame: &[u8], damaged: bool) {
        self.wire.extend(beats(frame).into_iter().map(|b| (b, damaged && b.last)));
    }

    /// The transmitter has ended its frame, the wire has not.
    fn reset(&mut self, clocks: usize) {
        self.tx.clear();
        self.offered = false;
        self.m.reset.set(true);
        for _ in 0..clocks {
            self.clock();
        }
        self.m.reset.set(false);
        self.out_frame.clear();
        self.rx_frame.clear();
        assert!(!self.inside, "the parser begins with a frame");
        self.out.clear();
        self.rx.clear();
        self.counts = Counts::default();
    }

    fn clock(&mut self) {
        self.offered |= !self.tx.is_empty() && self.rng.random_bool(self.offering);
        let m = &mut self.m;
        m.tx_valid.set(self.offered);
        let offer = self.tx.front().copied().filter(|_| self.offered);
        if let Some((own, beat)) = offer {
            m.to_own.set(own);
            m.tx_beat_data.set(beat.data);
            m.tx_beat_keep.set(beat.keep);
            m.tx_beat_last.set(beat.last.into());
        }
        let ready = self.rng.random_bool(self.taking);
        m.out_ready.set(ready);
        let arrival = if self.pause > 0 || !self.rng.random_bool(self.arriving) { None } else { self.wire.pop_front() };
        self.pause = self.pause.saturating_sub(1);
        m.from_mac_valid.set(arrival.is_some());
        let (beat, error) = arrival.unwrap_or((Octets { data: self.rng.random(), keep: self.rng.random_range(0..256), last: true }, true));
        m.from_mac_data.set(beat.data);
        m.from_mac_keep.set(beat.keep);
        m.from_mac_last.set(beat.last.into());
        m.from_mac_error.set(error.into());
        if arrival.is_some() {
            self.arriving_frame = !beat.last;
            self.pause = if beat.last { self.gap } else { 0 };
        }
        m.eval();
        let own = offer.is_some_and(|o| o.0);
        assert!(!own || m.tx_ready.get(), "the transmitter waits for the receive side");
        assert!(!own || !m.out_valid.get(), "what goes to the own address is not for the wire");
        if offer.is_some() && m.tx_ready.get() {
            self.tx.pop_front();
            self.offered = false;
            self.sent = self.clocks;
        }
        if m.out_valid.get() && ready {
            push(&mut self.out_frame, m.out_beat_data.get(), m.out_beat_keep.get());
            if m.out_beat_last.bit() {
                self.out.push(std::mem::take(&mut self.out_frame));
            }
        }
        let in_reset = m.reset.get();
        if m.rx_valid.get() {
            if !self.inside {
                self.began = self.clocks;
            }
            self.inside = !m.rx_last.bit();
            self.seen = self.clocks;
            if !in_reset {
                push(&mut self.rx_frame, m.rx_data.get(), m.rx_keep.get());
                assert!(m.rx_last.bit() || m.rx_keep.get() == 0xff);
                if m.rx_last.bit() {
                    self.rx.push((std::mem::take(&mut self.rx_frame), m.rx_error.bit()));
                }
            }
        }
        self.counts.looped += u64::from(m.cnt_eth_loop_frames.get());
        self.counts.dropped += u64::from(m.cnt_eth_loop_dropped.get());
        m.tick();
        self.clocks += 1;
    }

    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..400_000 {
            self.clock();
            let busy = !self.tx.is_empty() || !self.wire.is_empty() || self.clocks - self.seen < 600;
            quiet = if busy { 0 } else { quiet + 1 };
            if quiet > 20 {
                return;
            }
        }
        panic!("does not come to rest");
    }

    /// Every frame of the wire came, and of the transmitter's own those that were not dropped; each once, whole, in its order.
    fn assert_came(&mut self, others: &[Vec<u8>], own: &[Vec<u8>], wire: &[(Vec<u8>, bool)]) {
        assert!(self.out == others, "{} of {} frames for others", self.out.len(), others.len());
        let (from_wire, looped): (Vec<_>, Vec<_>) = self.rx.drain(..).partition(|(frame, _)| frame[0] == WIRE);
        assert!(from_wire == wire, "{} of {} frames of the wire", from_wire.len(), wire.len());
        assert_eq!((looped.len() as u64, looped.len() as u64 + self.counts.dropped), (self.counts.looped, own.len() as u64));
        let mut rest = own.iter();
        for (frame, error) in &looped {
            assert!(!error && rest.any(|f| f == frame), "a frame that was not sent, or not in this order");
        }
        self.out.clear();
        self.counts = Counts::default();
    }
}

/// Random frames both ways, at every speed of the three sides.
#[test]
fn each_frame_comes_where_it_belongs_once_whole_and_in_order() {
    let mut b = Bench::new(bench::seed("loopback"));
    let (mut looped, mut dropped) = (0, 0);
    for round in 0..120 {
        b.offering = [1.0, 0.9, 0.2][round % 3];
        b.taking = [1.0, 0.3][round % 2];
        b.arriving = [0.0, 1.0, 0.5, 0.1][round % 4];
        b.gap = b.rng.random_range(3..20);
        let (mut others, mut own, mut wire) = (vec![], vec![], vec![]);
        let share = b.rng.random_range(0.0..1.0);
        for _ in 0..40 {
            let long = b.rng.random();
            let len = b.rng.random_range(if long { 60..=1518 } else { 60..=130 });
            let kind = if b.rng.random_bool(share) { OWN } else { OTHERS };
            let frame = b.frame(kind, len);
            b.send(&frame);
            if kind == OWN { &mut own } else { &mut others }.push(frame);
            if b.arriving > 0.0 {
                let len = b.rng.random_range(if long { 1..=1600 } else { 14..=130 });
                let (frame, damaged) = (b.frame(WIRE, len), b.rng.random_bool(0.2));
                b.arrive(&frame, damaged);
                wire.push((frame, damaged));
            }
        }
        b.settle();
        (looped, dropped) = (looped + b.counts.looped, dropped + b.counts.dropped);
        b.assert_came(&others, &own, &wire);
    }
    println!("{looped} looped, {dropped} dropped");
    assert!(looped > 1000 && dropped > 50);
}

/// The wire is never idle but for the gap that Ethernet has between frames: it loses nothing, and what goes to the own address comes, as long
/// as it is not more than the gaps can carry.
#[test]
fn a_full_wire_loses_nothing_and_leaves_the_loop_its_share() {
    let mut b = Bench::new(bench::seed("loopback"));
    let (mut own, mut wire) = (vec![], vec![]);
    for n in 0..3000 {
        let len = b.rng.random_range(60..=1514);
        let frame = b.frame(WIRE, len);
        b.arrive(&frame, false);
        wire.push((frame, false));
        if n % 60 == 0 {
            let frame = b.frame(OWN, [60, 500][n / 60 % 2]);
            own.push(frame);
        }
    }
    // one at a time, evenly
    let mut sent = own.iter();
    while !b.wire.is_empty() {
        if let Some(frame) = sent.next() {
            b.send(frame);
        }
        for _ in 0..6000 {
            b.clock();
        }
    }
    b.settle();
    assert_eq!(b.counts.dropped, 0);
    b.assert_came(&[], &own, &wire);
}

/// The longest looped frame against a wire without any gap: the queue holds what comes meanwhile.
#[test]
fn the_longest_frame_holds_up_the_wire_without_loss() {
    let mut b = Bench::new(bench::seed("loopback"));
    for start in 0..40 {
        let own = b.frame(OWN, 8 * LONGEST);
        b.send(&own);
        while !b.tx.is_empty() {
            b.clock();
        }
        for _ in 0..start {
            b.clock();
        }
        b.gap = 0;
        let mut wire = vec![];
        for len in [8, 8, 1514, 64, 1514, 9000] {
            let frame = b.frame(WIRE, len);
            b.arrive(&frame, false);
            wire.push((frame, false));
        }
        b.settle();
        assert_eq!(b.counts.looped, 1);
        b.assert_came(&[], &[own], &wire);
    }
}

#[test]
fn a_frame_too_long_or_without_room_is_dropped_whole_and_counted() {
    let mut b = Bench::new(bench::seed("loopback"));
    for (len, fits) in [(8 * LONGEST, true), (8 * LONGEST + 1, false), (60, true), (9014, false), (61, true), (8 * LONGEST - 7, true)] {
        let frame = b.frame(OWN, len);
        b.send(&frame);
        b.settle();
        assert_eq!((b.counts.looped, b.counts.dropped), (u64::from(fits), u64::from(!fits)), "{len} octets");
        b.assert_came(&[], &[frame], &[]);
    }
    // behind a long frame of the wire the store fills up: 32 frames of 8 beats
    let long = b.frame(WIRE, 4000);
    b.arrive(&long, false);
    b.clock();
    let own: Vec<_> = (0..40).map(|_| b.frame(OWN, 64)).collect();
    for frame in &own {
        b.send(frame);
    }
    b.settle();
    assert_eq!((b.counts.looped, b.counts.dropped), (32, 8));
    b.assert_came(&[], &own, &[(long, false)]);
}

/// After a reset at any moment the next whole frame of either side is the first that the parser sees.
#[test]
fn a_reset_at_any_moment_leaves_only_whole_frames() {
    let mut b = Bench::new(bench::seed("loopback"));
    for round in 0..400 {
        b.gap = b.rng.random_range(0..5);
        b.arriving = if round % 3 == 0 { 0.5 } else { 1.0 };
        for _ in 0..4 {
            let len = b.rng.random_range(60..400);
            let frame = b.frame(OWN, len);
            b.send(&frame);
            let frame = b.frame(WIRE, len);
            b.arrive(&frame, false);
        }
        for _ in 0..b.rng.random_range(0..300) {
            b.clock();
        }
        let clocks = b.rng.random_range(1..20);
        b.reset(clocks);
        // what of the wire begins after it
        let mut whole = vec![];
        let rest = if b.arriving_frame { b.wire.iter().position(|w| w.0.last).expect("its end") + 1 } else { 0 };
        let mut frame = vec![];
        for (beat, _) in b.wire.iter().skip(rest) {
            push(&mut frame, beat.data, beat.keep);
            if beat.last {
                whole.push((std::mem::take(&mut frame), false));
            }
        }
        let own = b.frame(OWN, 100);
        b.send(&own);
        b.settle();
        b.assert_came(&[], &[own], &whole);
    }
}

#[test]
fn timing_is_as_documented() {
    let mut b = Bench::new(1);
    let own = b.frame(OWN, 64);
    b.send(&own);
    b.settle();
    assert_eq!((b.began - b.sent, b.seen - b.began), (4, 7));
    // the wire passes in the same clock
    let wire = b.frame(WIRE, 64);
    b.arrive(&wire, false);
    b.clock();
    assert_eq!(b.began, b.clocks - 1);
    b.settle();
    // and in two when a looped frame is before it
    b.send(&own);
    b.settle();
    b.assert_came(&[], &[own.clone(), own.clone()], &[(wire.clone(), false)]);
    b.send(&own);
    while b.counts.looped == 0 {
        b.clock();
    }
    b.arrive(&wire, false);
    b.clock();
    let arrived = b.clocks - 1;
    b.settle();
    assert_eq!(b.began - arrived, 2);
}
