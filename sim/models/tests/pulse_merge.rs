// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::PulseMerge`: as many pulses out as in.
use ironwarp_models::{bench::seed, pulse_merge::Model, Dut};
use rand::{rngs::StdRng, Rng, SeedableRng};

/// Covers: IP-13
#[test]
fn pulses_of_one_clock_are_all_counted() {
    let mut rng = StdRng::seed_from_u64(seed("pulse_merge"));
    let mut m = Model::new(1);
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    let (mut sent, mut seen, mut together) = (0, 0, 0);
    for clock in 0..10_000 {
        // bursts in which all pulse, then rest
        let chance = if clock % 20 < 3 { 0.8 } else { 0.1 };
        let pulses: [bool; 4] = std::array::from_fn(|_| rng.random_bool(chance));
        let [a, b, c, d] = pulses;
        m.inp_0.set(a);
        m.inp_1.set(b);
        m.inp_2.set(c);
        m.inp_3.set(d);
        m.eval();
        let n = pulses.iter().filter(|p| **p).count();
        sent += n;
        together += usize::from(n > 1);
        seen += usize::from(m.out.get());
        m.tick();
    }
    for pin in [&mut m.inp_0, &mut m.inp_1, &mut m.inp_2, &mut m.inp_3] {
        pin.set(false);
    }
    for _ in 0..20 {
        m.eval();
        seen += usize::from(m.out.get());
        m.tick();
    }
    assert_eq!(seen, sent);
    assert!(together > 1000, "{together}");
}
