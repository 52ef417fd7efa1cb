// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::payload_in`: a payload, and the answer to it, belong to whom its announcement says.
use ironwarp_models::{payload_in::Model, Dut};

#[test]
fn payloads_and_answers_go_where_the_announcement_says() {
    let mut m = Model::new(1);
    for (n, full) in [false, true, true, false, true].into_iter().enumerate() {
        let n = n as u64;
        m.payload_meta_valid.set(true);
        m.payload_meta_data_full.set(full.into());
        m.payload_meta_data_index.set(n);
        m.start_meta_ready.set(true);
        m.full_meta_ready.set(false);
        m.eval();
        assert_eq!((m.start_meta_valid.get(), m.full_meta_valid.get()), (!full, full));
        assert_eq!(m.payload_meta_ready.get(), !full);
        m.full_meta_ready.set(true);
        m.eval();
        assert!(m.payload_meta_ready.get());
        assert_eq!([m.start_meta_data_index.get(), m.full_meta_data_index.get()], [n, n]);
        m.tick();
        m.payload_meta_valid.set(false);
        // a beat
        m.inp_valid.set(true);
        m.inp_beat_data.set(0x1111 * n);
        m.start_ready.set(!full);
        m.full_ready.set(full);
        m.eval();
        assert_eq!((m.start_valid.get(), m.full_valid.get(), m.inp_ready.get()), (!full, full, true));
        m.start_ready.set(full);
        m.full_ready.set(!full);
        m.eval();
        assert!(!m.inp_ready.get(), "the other one's readiness means nothing");
        m.tick();
        m.inp_valid.set(false);
        // both have an answer; one is asked
        m.start_consumed_valid.set(true);
        m.full_consumed_valid.set(true);
        m.start_consumed_data.set(100 + n as u16);
        m.full_consumed_data.set(200 + n as u16);
        m.consumed_ready.set(true);
        m.eval();
        assert_eq!((m.consumed_valid.get(), m.consumed_data.get()), (true, if full { 200 } else { 100 } + n as u16));
        assert_eq!((m.start_consumed_ready.get(), m.full_consumed_ready.get()), (!full, full));
        m.tick();
        m.start_consumed_valid.set(false);
        m.full_consumed_valid.set(false);
    }
}
