// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::note_queue`: what comes out against what went in. Each message that comes out is the last one of a run that went in, and only of runs that may be one.
use ironwarp_models::{bench, note_queue::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const SYN: u64 = 1;
const UPDATE: u64 = 2;
const ANSWER: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    note: u64,
    index: u64,
    rcv_nxt: u64,
    ack: u64,
    window: u64,
    ack_now: bool,
    soft: bool,
    duplicate: bool,
}

fn update(index: u64, ack: u64) -> Note {
    Note { note: UPDATE, index, rcv_nxt: 7 * ack, ack, window: 1000 + ack, ack_now: false, soft: false, duplicate: false }
}

/// May it be one with another?
fn plain(n: &Note) -> bool {
    n.note == UPDATE && !n.duplicate && n.window != 0 && (n.soft || !n.ack_now)
}

struct Bench {
    m: Model,
    inp: VecDeque<Note>,
    ready: bool,
    out: Vec<Note>,
    offered: Option<Note>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench { m: Model::new(seed), inp: VecDeque::new(), ready: false, out: vec![], offered: None };
        b.m.reset.set(true);
        b.m.tick();
        b.m.reset.set(false);
        b
    }
    /// Returns what was taken.
    fn clock(&mut self, valid: bool) -> Option<Note> {
        let m = &mut self.m;
        m.out_ready.set(self.ready);
        m.inp_valid.set(valid && !self.inp.is_empty());
        if let Some(n) = self.inp.front() {
            m.inp_data_note.set(n.note);
            m.inp_data_index.set(n.index);
            m.inp_data_rcv_nxt.set(n.rcv_nxt);
            m.inp_data_ack.set(n.ack);
            m.inp_data_window.set(n.window);
            m.inp_data_ack_now.set(u64::from(n.ack_now));
            m.inp_data_soft.set(u64::from(n.soft));
            m.inp_data_duplicate.set(u64::from(n.duplicate));
            // goes with the rest
            m.inp_data_seq.set(n.ack);
        }
        m.eval();
        let out = m.out_valid.get().then(|| Note {
            note: m.out_data_note.get(),
            index: m.out_data_index.get(),
            rcv_nxt: m.out_data_rcv_nxt.get(),
            ack: m.out_data_ack.get(),
            window: m.out_data_window.get(),
            ack_now: m.out_data_ack_now.bit(),
            soft: m.out_data_soft.bit(),
            duplicate: m.out_data_duplicate.bit(),
        });
        if let Some(before) = self.offered {
            assert_eq!(out, Some(before), "what is offered stays");
        }
        self.offered = out.filter(|_| !self.ready);
        if let Some(n) = out.filter(|_| self.ready) {
            assert_eq!(m.out_data_seq.get(), n.ack);
            self.out.push(n);
        }
        let taken = m.inp_valid.get() && m.inp_ready.get();
        m.tick();
        taken.then(|| self.inp.pop_front().expect("offered"))
    }
    /// All of `notes` goes in while nothing is taken, as far as there is room; then what is left, and all comes out.
    fn through(&mut self, notes: &[Note]) -> Vec<Note> {
        self.inp.extend(notes);
        self.ready = false;
        for _ in 0..40 {
            self.clock(true);
        }
        self.ready = true;
        for _ in 0..60 {
            self.clock(true);
        }
        assert!(self.inp.is_empty());
        std::mem::take(&mut self.out)
    }
}

#[test]
fn what_waits_becomes_the_latest() {
    let mut b = Bench::new(1);
    let all: Vec<_> = (1..=9).map(|ack| update(3, ack)).collect();
    assert_eq!(b.through(&all), [all[0], all[8]], "the first is being worked on");
    // of another connection
    let mixed = [update(3, 1), update(3, 2), update(4, 3)];
    assert_eq!(b.through(&mixed), mixed);
    let mixed = [update(0x103, 1), update(0x103, 2), update(0x003, 3)];
    assert_eq!(b.through(&mixed), mixed, "an index has 16 bits");
}

/// Covers: TCP-18
#[test]
fn one_ack_is_for_two_segments_and_no_more() {
    let mut b = Bench::new(1);
    let soft = |ack| Note { ack_now: true, soft: true, ..update(3, ack) };
    // of two that are one nothing waits for a third
    let hard = |ack| Note { ack_now: true, ..update(3, ack) };
    let all: Vec<_> = (1..=5).map(soft).collect();
    assert_eq!(b.through(&all), [soft(1), hard(3), soft(4), soft(5)], "the last two did not wait");
    let all = [soft(1), update(3, 2), update(3, 3), soft(4), update(3, 5), soft(6)];
    assert_eq!(b.through(&all), [soft(1), hard(6)]);
    let all = [soft(1), soft(2), update(3, 3), soft(4), update(3, 5)];
    assert_eq!(b.through(&all), [soft(1), hard(4), update(3, 5)]);
    let all = [soft(1), soft(2), soft(3), update(3, 4), update(3, 5)];
    assert_eq!(b.through(&all), [soft(1), hard(3), update(3, 4), update(3, 5)]);
}

/// Covers: TCP-17, TCP-18
#[test]
fn what_somebody_counts_is_not_merged() {
    let mut b = Bench::new(1);
    let u = update(3, 1);
    for odd in [
        Note { duplicate: true, ..u },
        Note { ack_now: true, ..u },
        Note { window: 0, ..u },
        Note { note: SYN, ..u },
        Note { note: ANSWER, ..u },
    ] {
        for pair in [[u, odd, odd], [u, u, odd], [u, odd, u]] {
            assert_eq!(b.through(&pair), pair);
        }
    }
}

#[test]
fn nothing_is_lost_or_out_of_order() {
    let seed = bench::seed("note_queue");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new(seed);
    let mut waiting: VecDeque<Note> = VecDeque::new();
    let (mut merged, mut count) = (0, 0);
    for cycle in 0..60_000u64 {
        if b.inp.is_empty() {
            let kind = rng.random_range(0..10);
            let mut n = Note { note: if kind == 0 { rng.random_range(0..6) } else { UPDATE }, ..update(rng.random_range(0..2), cycle) };
            n.ack_now = rng.random_bool(0.4);
            n.soft = n.ack_now && rng.random_bool(0.8);
            n.duplicate = kind == 1;
            if kind == 2 {
                n.window = 0;
            }
            b.inp.push_back(n);
            count += 1;
        }
        b.ready = rng.random_bool([0.03, 0.3, 1.0][(cycle / 500 % 3) as usize]);
        let valid = rng.random_bool([0.9, 0.2][(cycle / 700 % 2) as usize]);
        waiting.extend(b.clock(valid));
        for out in std::mem::take(&mut b.out) {
            let run = waiting.iter().position(|n| n.ack == out.ack).expect("it went in") + 1;
            let run: Vec<_> = waiting.drain(..run).collect();
            let last = *run.last().expect("one");
            let acks = run.iter().filter(|n| n.ack_now).count();
            assert_eq!(out, Note { ack_now: acks > 0, soft: acks == 1 && run.iter().any(|n| n.soft), ..last });
            if run.len() > 1 {
                assert!(run.iter().all(|n| plain(n) && n.index == out.index) && acks <= 2, "{run:?}");
                merged += 1;
            }
        }
        assert!(waiting.len() < 100);
    }
    assert!(count > 2000 && merged > 200, "{count} {merged}");
}
