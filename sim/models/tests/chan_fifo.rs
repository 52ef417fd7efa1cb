// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stream::ChanFifo` and `stream::ChanSlot` against a `VecDeque`, with random back pressure on both sides.
use ironwarp_models::{chan_fifo, chan_slot, Dut};
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

/// `last`, `error` and `keep` that go with `data`, so that every bit of a beat is checked.
fn side_bits(data: u64) -> [u64; 3] {
    [data & 1, data >> 1 & 1, data >> 2 & 0xff]
}

/// `$block` keeps order and loses nothing, and holds `$depth` values.
macro_rules! keeps_order {
    ($name:ident, $block:ident, $depth:expr) => {
        #[test]
        fn $name() {
            let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
            println!("replay: SEED={seed} cargo test -p ironwarp-models --test chan_fifo");
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let (mut m, mut expect, mut taken) = ($block::Model::new(seed), VecDeque::new(), 0);
            m.reset.set(true);
            m.tick();
            m.reset.set(false);
            let mut offered: Option<u64> = None;
            for cycle in 0..50_000 {
                let (push_bias, pop_bias) = if cycle / 1000 % 2 == 0 { (0.9, 0.3) } else { (0.3, 0.9) };
                if offered.is_none() && rng.random_bool(push_bias) {
                    offered = Some(rng.random());
                }
                m.inp_valid.set(offered.is_some());
                m.inp_data_data.set(offered.unwrap_or(0));
                let [last, error, keep] = side_bits(offered.unwrap_or(0));
                m.inp_data_last.set(last);
                m.inp_data_error.set(error);
                m.inp_data_keep.set(keep);
                m.out_ready.set(rng.random_bool(pop_bias));
                m.eval();
                let push = m.inp_ready.get() && offered.is_some();
                if m.out_valid.get() && m.out_ready.get() {
                    let want = expect.pop_front().expect("a value came out that never went in");
                    assert_eq!(m.out_data_data.get(), want, "cycle {cycle}");
                    let side = [m.out_data_last.get(), m.out_data_error.get(), m.out_data_keep.get()];
                    assert_eq!(side, side_bits(want), "cycle {cycle}");
                    taken += 1;
                }
                m.tick();
                if push {
                    expect.extend(offered.take());
                }
                assert!(expect.len() <= $depth);
            }
            assert!(taken > 10_000, "{taken} values went through");
        }
    };
}

keeps_order!(a_queue_keeps_order_and_loses_nothing, chan_fifo, 16);
keeps_order!(a_slot_keeps_order_and_loses_nothing, chan_slot, 1);
