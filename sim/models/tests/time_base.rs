// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::time` against exact arithmetic.
use ironwarp_models::{bench, time_base::Model, Dut};
use rand::{Rng, SeedableRng};

#[test]
fn time_is_the_sum_of_the_ticks_and_loses_no_fraction() {
    let seed = bench::seed("time_base");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut m = Model::new(seed);
    let mut all = vec![0x400, 0x418, 1, 0x1_0000, 0x1_8000, 1000 << 16, (1000 << 16) + 1, u32::MAX, 0];
    all.extend((0..20).map(|_| rng.random_range(0..1000u32 << 16)));
    m.eval();
    let mut cycles = m.cycles.get();
    for timebase in all {
        m.timebase.set(timebase);
        m.tick();
        m.tick();
        let (start, mut ticks) = (m.time_us.get(), 0u64);
        let clocks = 20_000;
        for _ in 0..clocks {
            assert_eq!(m.time_us.get(), start.wrapping_add(ticks as u32), "time_us is the sum of the ticks before");
            assert!(m.tick_us.get() <= 1000);
            ticks += u64::from(m.tick_us.get());
            m.tick();
        }
        let exact = (u64::from(timebase.min(1000 << 16)) * clocks) >> 16;
        assert!(ticks.abs_diff(exact) <= 1, "timebase {timebase:#x}: {ticks} us in {clocks} clocks, exact {exact}");
        cycles += 2 + clocks as u32;
        assert_eq!(m.cycles.get(), cycles);
    }
}
