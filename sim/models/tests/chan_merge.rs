// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stream::ChanMerge2`: nothing is lost, doubled or out of order, what is offered stays, and nobody starves.
use ironwarp_models::{bench, chan_merge::Model, Dut};
use rand::{Rng, SeedableRng};

#[test]
fn both_sources_come_through_in_order_and_in_turn() {
    let seed = bench::seed("chan_merge");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut m = Model::new(seed);
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    // values: source in bit 31, then a count
    let (mut sent, mut got) = ([0u32; 2], [0u32; 2]);
    let mut offering = [false; 2];
    let mut standing: Option<u32> = None;
    // values of the other that went by while this source offered one
    let mut passed = [0; 2];
    let mut full = 0;
    for cycle in 0..20_000 {
        let busy = [0.9, 0.1, 1.0][cycle / 1000 % 3];
        for o in &mut offering {
            *o |= rng.random_bool(busy);
        }
        let ready = rng.random_bool(if cycle / 1000 % 3 == 2 { 1.0 } else { 0.5 });
        m.a_valid.set(offering[0]);
        m.a_data.set(sent[0]);
        m.b_valid.set(offering[1]);
        m.b_data.set(1 << 31 | sent[1]);
        m.out_ready.set(ready);
        m.eval();
        let out = m.out_valid.get().then(|| m.out_data.get());
        assert_eq!(out.is_some(), offering[0] || offering[1], "no clock is lost");
        if let Some(before) = standing {
            assert_eq!(out, Some(before), "cycle {cycle}: what is offered stays");
        }
        standing = out.filter(|_| !ready);
        let taken = [offering[0] && m.a_ready.get(), offering[1] && m.b_ready.get()];
        let expect = out.filter(|_| ready).map(|v| (v >> 31) as usize);
        assert_eq!([expect == Some(0), expect == Some(1)], taken, "taken where it goes on");
        if let (Some(s), Some(v)) = (expect, out) {
            assert_eq!(v & 0x7fff_ffff, got[s], "in order");
            got[s] += 1;
            sent[s] += 1;
            offering[s] = false;
            passed[s] = 0;
            passed[1 - s] += u32::from(offering[1 - s]);
            assert!(passed[1 - s] <= 1, "at most one of the other goes first");
            full += u32::from(cycle / 1000 % 3 == 2);
        }
        m.tick();
    }
    assert!(got[0] > 2000 && got[1] > 2000, "{got:?}");
    assert_eq!(full, 6000, "a value a clock");
}
