// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::payload_out`: payloads of two makers leave in the order in which they were asked for, whoever is faster.
use ironwarp_models::{bench, payload_out::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// A stand-in for `start_tx` (0) or `mpa::tx` (1): makes its payloads in its own time.
#[derive(Default)]
struct Maker {
    todo: VecDeque<(u64, u64)>,
    beat: u64,
    offering: bool,
}

#[test]
fn payloads_leave_in_the_order_of_asking() {
    let seed = bench::seed("payload_out");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for speed in [[1.0, 1.0], [0.9, 0.1], [0.1, 0.9]] {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        // whose, and how many beats
        let asks: Vec<(bool, u64)> = (0..200).map(|_| (rng.random(), rng.random_range(1..6))).collect();
        let mut waiting: VecDeque<(u64, (bool, u64))> = (0..).zip(asks.clone()).collect();
        let mut makers = [Maker::default(), Maker::default()];
        let (mut at, mut beat, mut open, mut clocks) = (0usize, 0, 0u64, 0);
        while at < asks.len() {
            let front = waiting.front().copied();
            m.ask_valid.set(front.is_some());
            if let Some((id, (of_fpdu, beats))) = front {
                m.ask_data_data.set(of_fpdu.into());
                m.ask_data_index.set(id);
                m.ask_data_take.set(beats);
                m.ask_data_skip.set(8 * id);
                m.ask_data_fpdu_offset.set(id * 1000);
            }
            let ready: [bool; 2] = std::array::from_fn(|k| makers[k].todo.len() < 3 && rng.random_bool(0.8));
            m.start_ask_ready.set(ready[0]);
            m.fpdu_ask_ready.set(ready[1]);
            let busy: [bool; 2] = std::array::from_fn(|k| !makers[k].todo.is_empty());
            m.start_busy.set(busy[0]);
            m.fpdu_busy.set(busy[1]);
            for k in 0..2 {
                let maker = &mut makers[k];
                maker.offering = maker.offering || !maker.todo.is_empty() && rng.random_bool(speed[k]);
                let (id, beats) = maker.todo.front().copied().unwrap_or_default();
                let (data, last) = (id << 8 | maker.beat, maker.beat + 1 == beats);
                if k == 0 {
                    m.start_valid.set(maker.offering);
                    m.start_beat_data.set(data);
                    m.start_beat_last.set(last.into());
                } else {
                    m.fpdu_valid.set(maker.offering);
                    m.fpdu_beat_data.set(data);
                    m.fpdu_beat_last.set(last.into());
                }
            }
            m.out_ready.set(rng.random_bool(0.8));
            m.eval();
            assert_eq!(m.busy.get(), open > 0 || busy[0] || busy[1]);
            let taken = [m.start_valid.get() && m.start_ready.get(), m.fpdu_valid.get() && m.fpdu_ready.get()];
            assert!(!(taken[0] && taken[1]), "one at a time");
            if m.out_valid.get() && m.out_ready.get() {
                let (of_fpdu, beats) = asks[at];
                assert!(taken[usize::from(of_fpdu)], "payload {at} is not its maker's");
                assert_eq!(m.out_beat_data.get(), (at as u64) << 8 | beat);
                beat += 1;
                assert_eq!(m.out_beat_last.bit(), beat == beats);
                if beat == beats {
                    (at, beat, open) = (at + 1, 0, open - 1);
                }
            } else {
                assert_eq!(taken, [false, false]);
            }
            for k in 0..2 {
                if taken[k] {
                    let maker = &mut makers[k];
                    maker.offering = false;
                    maker.beat += 1;
                    if Some(maker.beat) == maker.todo.front().map(|t| t.1) {
                        maker.beat = 0;
                        maker.todo.pop_front();
                    }
                }
            }
            if m.ask_valid.get() && m.ask_ready.get() {
                let (id, (of_fpdu, beats)) = waiting.pop_front().expect("offered");
                assert!(if of_fpdu { m.fpdu_ask_valid.get() } else { m.start_ask_valid.get() });
                if of_fpdu {
                    assert_eq!((m.fpdu_ask_data_index.get(), m.fpdu_ask_data_fpdu_offset.get()), (id, id * 1000));
                    assert_eq!((m.fpdu_ask_data_skip.get(), m.fpdu_ask_data_take.get()), (8 * id, beats));
                }
                makers[usize::from(of_fpdu)].todo.push_back((id, beats));
                open += 1;
            }
            m.tick();
            clocks += 1;
            assert!(clocks < 100_000);
        }
    }
}
