// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::ack_spread`: a message that counts n goes out n times, each other message once, all in order.
use ironwarp_models::{ack_spread::Model, bench, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

#[test]
fn a_message_goes_out_as_often_as_it_counts() {
    let seed = bench::seed("ack_spread");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut m = Model::new(seed);
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    // note (0 EMSS, 1 acknowledged), index, EMSS, count
    let all: Vec<(u64, u64, u64, u64)> = (0..300)
        .map(|_| (rng.random_range(0..2), rng.random_range(0..32), rng.random_range(0..1500), [1, 2, 31, 32][rng.random_range(0..4)]))
        .collect();
    let mut expected: VecDeque<(u64, u64, u64)> = VecDeque::new();
    for (note, index, emss, count) in &all {
        for _ in 0..if *note == 0 { 1 } else { *count } {
            expected.push_back((*note, *index, *emss));
        }
    }
    let mut waiting: VecDeque<_> = all.into();
    let mut clocks = 0;
    while !expected.is_empty() {
        let front = waiting.front().filter(|_| rng.random_bool(0.8)).copied();
        m.inp_valid.set(front.is_some());
        if let Some((note, index, emss, count)) = front {
            m.inp_data_note.set(note);
            m.inp_data_index.set(index);
            m.inp_data_emss.set(emss);
            m.inp_data_count.set(count);
        }
        m.out_ready.set(rng.random_bool(0.7));
        m.eval();
        if m.out_valid.get() && m.out_ready.get() {
            let got = (m.out_data_note.get(), m.out_data_index.get(), m.out_data_emss.get());
            assert_eq!(Some(got), expected.pop_front());
            assert_eq!(m.out_data_count.get(), 1);
        }
        if m.inp_valid.get() && m.inp_ready.get() {
            waiting.pop_front();
        }
        m.tick();
        clocks += 1;
        assert!(clocks < 100_000);
    }
    assert!(waiting.is_empty(), "each is taken with the last of it");
}
