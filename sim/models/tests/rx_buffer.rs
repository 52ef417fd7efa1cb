// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::rx_buffer` against a queue of whole frames, with a reader that stalls.
mod net;
use ironwarp_models::{rx_buffer::Model, Dut};
use net::{beats, field, octets, push};
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

const BEATS: usize = 2048;
const METAS: usize = 256;

struct Bench {
    m: Model,
    /// Good frames stored and not yet read: number and octets.
    expect: VecDeque<(u64, Vec<u8>)>,
    metas: VecDeque<u64>,
    frame: Vec<u8>,
    /// Beats of `expect` that did not come out yet.
    beats: usize,
    /// Metas not yet taken.
    waiting: usize,
    read: usize,
    overflow: usize,
    no_meta: usize,
}

impl Bench {
    fn new() -> Self {
        let mut m = Model::new(3);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        Bench { m, expect: VecDeque::new(), metas: VecDeque::new(), frame: vec![], beats: 0, waiting: 0, read: 0, overflow: 0, no_meta: 0 }
    }

    /// One clock; returns whether overflow or a full meta queue was counted.
    fn clock(&mut self, beat: Option<(net::Octets, bool, u64)>, take_meta: bool, take: bool) -> (bool, bool) {
        let m = &mut self.m;
        m.valid.set(beat.is_some());
        if let Some((b, bad, number)) = beat {
            m.beat_data.set(b.data);
            m.beat_keep.set(b.keep);
            m.beat_last.set(u64::from(b.last));
            m.beat_error.set(u64::from(bad));
            m.meta_in_seq.set(number);
            let fields = [
                (&mut m.meta_in_echo, 1),
                (&mut m.meta_in_tcp, 1),
                (&mut m.meta_in_icmp, 1),
                (&mut m.meta_in_options, 1),
                (&mut m.meta_in_fragment, 1),
                (&mut m.meta_in_other_proto, 1),
                (&mut m.meta_in_vlan, 1),
                (&mut m.meta_in_other_type, 1),
                (&mut m.meta_in_foreign, 1),
                (&mut m.meta_in_ip, 1),
                (&mut m.meta_in_link_broadcast, 1),
                (&mut m.meta_in_len, 16),
                (&mut m.meta_in_src_ip, 32),
                (&mut m.meta_in_dst_ip, 32),
                (&mut m.meta_in_ip_len, 16),
                (&mut m.meta_in_src_port, 16),
                (&mut m.meta_in_dst_port, 16),
                (&mut m.meta_in_ack, 32),
                (&mut m.meta_in_tcp_flags, 8),
                (&mut m.meta_in_data_offset, 4),
                (&mut m.meta_in_window, 16),
            ];
            for (i, (port, bits)) in fields.into_iter().enumerate() {
                port.set(field(number, i as u64, bits));
            }
        }
        m.meta_ready.set(take_meta);
        m.out_ready.set(take);
        m.eval();
        if m.meta_valid.get() && take_meta {
            let number = m.meta_data_seq.get();
            let fields = [
                (&m.meta_data_echo, 1),
                (&m.meta_data_tcp, 1),
                (&m.meta_data_icmp, 1),
                (&m.meta_data_options, 1),
                (&m.meta_data_fragment, 1),
                (&m.meta_data_other_proto, 1),
                (&m.meta_data_vlan, 1),
                (&m.meta_data_other_type, 1),
                (&m.meta_data_foreign, 1),
                (&m.meta_data_ip, 1),
                (&m.meta_data_link_broadcast, 1),
                (&m.meta_data_len, 16),
                (&m.meta_data_src_ip, 32),
                (&m.meta_data_dst_ip, 32),
                (&m.meta_data_ip_len, 16),
                (&m.meta_data_src_port, 16),
                (&m.meta_data_dst_port, 16),
                (&m.meta_data_ack, 32),
                (&m.meta_data_tcp_flags, 8),
                (&m.meta_data_data_offset, 4),
                (&m.meta_data_window, 16),
            ];
            for (i, (port, bits)) in fields.into_iter().enumerate() {
                assert_eq!(port.get(), field(number, i as u64, bits), "field {i} of frame {number}");
            }
            self.metas.push_back(number);
            self.waiting -= 1;
        }
        if m.out_valid.get() && take {
            self.beats -= 1;
            push(&mut self.frame, m.out_beat_data.get(), m.out_beat_keep.get());
            assert!(!m.out_beat_error.bit());
            if m.out_beat_last.bit() {
                let (_, want) = self.expect.pop_front().expect("only committed frames come out");
                assert!(self.frame == want, "{:02x?} for {want:02x?}", self.frame);
                self.frame.clear();
                self.read += 1;
            }
        }
        let counted = (m.cnt_eth_in_overflow.get(), m.cnt_rx_meta_dropped.get());
        m.tick();
        counted
    }

    /// A frame at full rate.
    fn send(&mut self, number: u64, frame: &[u8], bad: bool, rng: &mut impl Rng, take_meta: f64, take: f64) {
        let all = beats(frame);
        let held = self.beats;
        // the beats count from the moment at which they may come out
        for b in &all {
            if b.last && !bad {
                self.expect.push_back((number, frame.to_vec()));
                self.beats += all.len();
                self.waiting += 1;
            }
            let counted = self.clock(Some((*b, bad && b.last, number)), rng.random_bool(take_meta), rng.random_bool(take));
            if !b.last || bad {
                assert_eq!(counted, (false, false), "only a good frame's last beat counts");
            } else if counted != (false, false) {
                assert_eq!(self.expect.pop_back().map(|e| e.0), Some(number));
                self.beats -= all.len();
                self.waiting -= 1;
                self.overflow += usize::from(counted.0);
                self.no_meta += usize::from(counted.1);
                assert!(!counted.0 || held + all.len() > BEATS, "overflow with {held} + {} beats", all.len());
                assert!(!counted.1 || self.waiting >= METAS, "meta dropped with {} frames", self.waiting);
                assert!(!(counted.0 && counted.1), "one counter");
            }
        }
        assert!(self.beats <= BEATS + 12 && self.waiting <= METAS + 2, "more was stored than there is room for");
    }

    fn drain(&mut self) {
        for _ in 0..BEATS + 8 * METAS {
            self.clock(None, true, true);
        }
        assert!(self.expect.is_empty() && self.beats == 0, "everything committed comes out");
        assert!(!self.m.meta_valid.get() && !self.m.out_valid.get());
    }
}

/// Covers: IP-13
#[test]
fn whole_good_frames_or_nothing() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test rx_buffer");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut b = Bench::new();
    let (mut number, mut sent) = (0, vec![]);
    for round in 0..40 {
        let take = [1.0, 0.5, 0.05, 0.0][round % 4];
        let (take_meta, longest) = (if round % 8 == 7 { 0.0 } else { [1.0, 0.3][round % 2] }, [70, 1518, 400, 1518, 12_000][round % 5]);
        for _ in 0..if take == 0.0 { 600 } else { 150 } {
            // the parser lets through no good frame of one beat
            let n = rng.random_range(9..=longest);
            let frame = octets(&mut rng, n);
            let bad = rng.random_bool(0.2);
            let lost = b.overflow + b.no_meta;
            b.send(number, &frame, bad, &mut rng, take_meta, take);
            if !bad && lost == b.overflow + b.no_meta {
                sent.push(number);
            }
            number += 1;
            while rng.random_bool(0.3) {
                b.clock(None, rng.random_bool(take_meta), rng.random_bool(take));
            }
        }
        if take < 0.1 {
            b.drain();
            assert_eq!(std::mem::take(&mut b.metas), std::mem::take(&mut sent), "a meta for each frame, in order");
        }
    }
    println!("{} frames read, {} overflowed, {} without a meta", b.read, b.overflow, b.no_meta);
    assert!(b.read > 2000 && b.overflow > 100 && b.no_meta > 5);
}

#[test]
fn one_beat_a_clock_in_and_out() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    let mut b = Bench::new();
    for number in 0..2000 {
        b.send(number, &octets(&mut rng, 64), false, &mut rng, 1.0, 1.0);
        assert!(b.beats <= 16, "the reader keeps pace");
    }
    assert_eq!((b.overflow, b.no_meta), (0, 0));
    // exactly full: 2048 beats fit, one more does not
    b.drain();
    for number in 0..8 {
        b.send(number, &octets(&mut rng, 2048), false, &mut rng, 0.0, 0.0);
    }
    assert_eq!(b.overflow, 0);
    b.send(8, &octets(&mut rng, 8 * 16), false, &mut rng, 0.0, 0.0);
    assert_eq!(b.overflow, 1);
    b.drain();
}

#[test]
fn reset_empties_it() {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    for cut in 0..40 {
        let mut b = Bench::new();
        for number in 0..3 {
            b.send(number, &octets(&mut rng, 100), false, &mut rng, 0.5, 0.5);
        }
        for beat in beats(&[1; 200]).into_iter().take(cut) {
            b.clock(Some((beat, false, 9)), false, false);
        }
        b.m.reset.set(true);
        b.m.valid.set(false);
        b.m.tick();
        b.m.reset.set(false);
        let mut fresh = Bench { m: b.m, ..Bench::new() };
        for _ in 0..20 {
            fresh.clock(None, true, true);
        }
        assert!(fresh.metas.is_empty());
        fresh.send(77, &octets(&mut rng, 90), false, &mut rng, 1.0, 1.0);
        fresh.drain();
        assert_eq!((fresh.metas.pop_front(), fresh.read), (Some(77), 1));
    }
}
