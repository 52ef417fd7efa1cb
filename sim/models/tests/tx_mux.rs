// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::tx_mux` with four sources: frames stay whole and in order, short ones are filled up, the turn goes round.
mod net;
use ironwarp_models::{tx_mux::Model, Dut};
use net::{octets, push};
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

/// A source: frames not yet offered in full, as octets, and how much of the first one is gone.
#[derive(Default)]
struct Source {
    frames: VecDeque<Vec<u8>>,
    done: usize,
    offers: bool,
}

struct Bench {
    m: Model,
    sources: [Source; 4],
    frame: Vec<u8>,
    out: Vec<Vec<u8>>,
    /// `to_own` of each frame in `out`.
    own: Vec<bool>,
    counted: (u64, u64),
}

macro_rules! offer {
    ($m:expr, $source:expr, $garbage:expr, $valid:ident, $data:ident, $keep:ident, $last:ident) => {{
        $m.$valid.set($source.offers);
        if let (true, Some(f)) = ($source.offers, $source.frames.front()) {
            let part = &f[$source.done..f.len().min($source.done + 8)];
            let mut word: [u8; 8] = $garbage;
            word[..part.len()].copy_from_slice(part);
            $m.$data.set(u64::from_le_bytes(word));
            $m.$keep.set((1 << part.len()) - 1);
            $m.$last.set(u64::from($source.done + part.len() == f.len()));
        }
    }};
}

impl Bench {
    fn new() -> Self {
        let mut m = Model::new(3);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        m.own_mac.set(net::mac_number(net::MAC));
        Bench { m, sources: Default::default(), frame: vec![], out: vec![], own: vec![], counted: (0, 0) }
    }

    fn clock(&mut self, rng: &mut impl Rng, offering: f64, ready: bool) {
        let m = &mut self.m;
        for s in &mut self.sources {
            s.offers |= !s.frames.is_empty() && rng.random_bool(offering);
        }
        let s = &self.sources;
        offer!(m, s[0], rng.random(), inp_0_valid, inp_0_beat_data, inp_0_beat_keep, inp_0_beat_last);
        offer!(m, s[1], rng.random(), inp_1_valid, inp_1_beat_data, inp_1_beat_keep, inp_1_beat_last);
        offer!(m, s[2], rng.random(), inp_2_valid, inp_2_beat_data, inp_2_beat_keep, inp_2_beat_last);
        offer!(m, s[3], rng.random(), inp_3_valid, inp_3_beat_data, inp_3_beat_keep, inp_3_beat_last);
        m.out_ready.set(ready);
        m.eval();
        let taken = [m.inp_0_ready.get(), m.inp_1_ready.get(), m.inp_2_ready.get(), m.inp_3_ready.get()];
        for (s, taken) in self.sources.iter_mut().zip(taken) {
            if taken && s.offers {
                s.offers = false;
                s.done += 8;
                if s.done >= s.frames[0].len() {
                    s.frames.pop_front();
                    s.done = 0;
                }
            }
        }
        self.counted.0 += u64::from(m.cnt_eth_out_frames.get());
        self.counted.1 += u64::from(m.cnt_eth_out_underrun.get());
        if m.out_valid.get() && ready {
            let (data, keep, last) = (m.out_beat_data.get(), m.out_beat_keep.get(), m.out_beat_last.bit());
            assert!(last || keep == 0xff, "keep is all ones before the last beat");
            push(&mut self.frame, data, keep);
            let used = keep.count_ones() * 8;
            assert!(used == 64 || data >> used == 0, "octets outside keep are zero");
            if self.frame.len() <= 8 {
                self.own.push(m.to_own.get());
            }
            assert_eq!(self.own.last(), Some(&m.to_own.get()), "the same for the whole frame");
            if last {
                self.out.push(std::mem::take(&mut self.frame));
            }
        }
        m.tick();
    }
}

fn filled_up(frame: &[u8]) -> Vec<u8> {
    net::padded(frame.to_vec())
}

/// Covers: ETH-2
#[test]
fn every_length_is_filled_up_with_zeros_to_60() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut b = Bench::new();
    for len in 1..=130 {
        let frame = octets(&mut rng, len);
        b.sources[len % 4].frames.push_back(frame.clone());
        for _ in 0..40 {
            b.clock(&mut rng, 1.0, true);
        }
        assert_eq!(b.out.pop().expect("sent"), filled_up(&frame), "{len} octets");
        assert!(b.out.is_empty());
    }
    assert_eq!(b.counted, (130, 0));
}

#[test]
fn frames_stay_whole_and_in_order_of_their_source() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test tx_mux");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new();
    let mut expect: [VecDeque<Vec<u8>>; 4] = Default::default();
    for round in 0..60 {
        let (offering, taking) = ([1.0, 0.2, 0.8][round % 3], [1.0, 0.3][round % 2]);
        for (i, expect) in expect.iter_mut().enumerate() {
            for _ in 0..rng.random_range(0..6) {
                let n = if rng.random() { rng.random_range(14..70) } else { rng.random_range(14..=1514) };
                let mut frame = octets(&mut rng, n);
                frame[0] = i as u8;
                expect.push_back(frame.clone());
                b.sources[i].frames.push_back(frame);
            }
        }
        let mut clocks = 0;
        while b.sources.iter().any(|s| !s.frames.is_empty()) || clocks % 100 != 0 {
            let ready = rng.random_bool(taking);
            b.clock(&mut rng, offering, ready);
            clocks += 1;
            assert!(clocks < 200_000, "stuck");
        }
        for _ in 0..60 {
            b.clock(&mut rng, 1.0, true);
        }
        for frame in b.out.drain(..) {
            let want = expect[usize::from(frame[0])].pop_front().expect("no frame twice");
            assert!(frame == filled_up(&want), "round {round}: {} octets became {}", want.len(), frame.len());
        }
        assert!(expect.iter().all(VecDeque::is_empty), "round {round}: a frame is missing");
    }
}

#[test]
fn frames_to_the_own_address_are_marked_and_not_counted() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let mut b = Bench::new();
    for _ in 0..300 {
        let len = rng.random_range(14..200);
        let mut frame = octets(&mut rng, len);
        frame[..6].copy_from_slice(&net::MAC);
        if rng.random() {
            frame[rng.random_range(0..6)] ^= 1 << rng.random_range(0..8);
        }
        let source = rng.random_range(0..4);
        b.sources[source].frames.push_back(frame);
    }
    while b.sources.iter().any(|s| !s.frames.is_empty()) {
        let ready = rng.random_bool(0.7);
        b.clock(&mut rng, 0.9, ready);
    }
    for _ in 0..60 {
        b.clock(&mut rng, 1.0, true);
    }
    assert_eq!(b.out.len(), 300);
    let marked: Vec<_> = b.out.iter().map(|frame| frame[..6] == net::MAC).collect();
    assert!(b.own == marked && marked.contains(&true) && marked.contains(&false));
    assert_eq!(b.counted.0, marked.iter().filter(|own| !**own).count() as u64);
}

/// As a reset by CONTROL needs it: stop, wait for idle, then nothing is cut.
#[test]
fn after_stop_the_frame_that_has_begun_ends_and_none_begins() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test tx_mux stop");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let (mut between, mut inside) = (0, 0);
    for round in 0..300 {
        let mut b = Bench::new();
        for s in &mut b.sources {
            let len = rng.random_range(1..200);
            // some rounds run out of frames before the stop
            let count = rng.random_range(0..3);
            s.frames.extend((0..count).map(|_| octets(&mut rng, len)));
        }
        for _ in 0..rng.random_range(0..60) {
            b.clock(&mut rng, 1.0, true);
        }
        b.m.stop.set(true);
        b.m.eval();
        let (sent, idle) = (b.out.len(), b.m.idle.get());
        let mut clocks = 0;
        while !b.m.idle.get() {
            assert!(clocks < 200, "round {round}: never idle");
            clocks += 1;
            let ready = rng.random_bool(0.6);
            b.clock(&mut rng, 1.0, ready);
            b.m.eval();
        }
        assert!(b.frame.is_empty() && b.out.len() <= sent + 1, "round {round}: idle inside a frame, or more than one ended");
        for _ in 0..50 {
            b.clock(&mut rng, 1.0, true);
            b.m.eval();
            assert!(b.m.idle.get() && !b.m.out_valid.get(), "round {round}: a frame began");
        }
        between += u32::from(idle);
        inside += u32::from(!idle);
        b.m.stop.set(false);
        b.clock(&mut rng, 1.0, true);
        b.m.eval();
        assert!(!b.m.idle.get() || b.sources.iter().all(|s| s.frames.is_empty()), "round {round}: it goes on");
    }
    assert!(between > 10 && inside > 100, "{between} {inside}");
}

#[test]
fn the_turn_goes_round_at_full_rate() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let mut b = Bench::new();
    for i in 0..4u8 {
        b.sources[usize::from(i)].frames.extend(std::iter::repeat_n(vec![i; 64], 50));
    }
    for _ in 0..200 * 9 + 10 {
        b.clock(&mut rng, 1.0, true);
    }
    let order: Vec<u8> = b.out.iter().map(|f| f[0]).collect();
    assert_eq!(order.len(), 200, "8 beats and one idle clock a frame");
    for four in order.chunks(4) {
        assert_eq!(four, [0, 1, 2, 3], "each source once in each round");
    }
    assert_eq!(b.counted, (200, 0));
}

#[test]
fn a_gap_inside_a_frame_is_counted_once_for_that_frame() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let mut b = Bench::new();
    let mut late = 0;
    for gaps in [0usize, 1, 2, 5, 0, 3] {
        b.sources[2].frames.push_back(vec![7; 100]);
        for clock in 0..60 {
            let hold = (4..4 + gaps).contains(&clock);
            b.clock(&mut rng, if hold { 0.0 } else { 1.0 }, true);
        }
        late += u64::from(gaps > 0);
        assert_eq!(b.counted.1, late, "{gaps} gaps");
        // a stall of the MAC is no gap
        b.sources[2].frames.push_back(vec![7; 100]);
        for clock in 0..80 {
            b.clock(&mut rng, 1.0, clock % 3 == 0);
        }
        assert_eq!(b.counted.1, late);
    }
    assert_eq!(b.counted.0, 12);
}

#[test]
fn reset_in_a_frame_leaves_nothing_behind() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    for cut in 0..30 {
        let mut b = Bench::new();
        b.sources[1].frames.push_back(vec![1; 40]);
        for _ in 0..cut {
            b.clock(&mut rng, 1.0, true);
        }
        b.m.reset.set(true);
        b.clock(&mut rng, 0.0, true);
        b.m.reset.set(false);
        b.sources = Default::default();
        b.frame.clear();
        b.out.clear();
        b.sources[3].frames.push_back(vec![9; 61]);
        for _ in 0..30 {
            b.clock(&mut rng, 1.0, true);
        }
        assert_eq!(b.out, [vec![9; 61]], "reset after {cut} clocks");
    }
}
