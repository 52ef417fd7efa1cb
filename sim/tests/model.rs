// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Verilated core in its surroundings: nothing of its protocols, only that it is reached and that runs repeat.
use ironwarp_abi::reg;
use ironwarp_rnic::Bus;
use ironwarp_sim::{wire::Queue, AdapterConfig, DmaConfig, InProcessBus, Latency, World};
use rand::{Rng, SeedableRng};
use std::sync::{Arc, Mutex};

fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-sim --test model");
    seed
}

#[test]
fn the_magic_is_read_through_the_in_process_bus() {
    let world = Arc::new(Mutex::new(World::pair(seed(), 0, 0)));
    for id in 0..2 {
        let mut bus = InProcessBus::new(&world, id);
        assert_eq!(bus.read32(reg::MAGIC).unwrap(), ironwarp_abi::MAGIC);
    }
    world.lock().unwrap().assert_clean();
}

/// Frames from both ends and register accesses at random; the digest of all beats at the end.
fn random_run(seed: u64) -> (u64, u64) {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(3);
    let dma =
        DmaConfig { read_latency: Latency::Range(1, 50), write_latency: Latency::Range(1, 50), stall_percent: 10, ..Default::default() };
    let mut tests = Vec::new();
    for name in ["a", "b"] {
        let id = world.add(&AdapterConfig { dma, ..AdapterConfig::new(name, rng.random()) });
        let (queue, test) = Queue::new();
        world.connect(Box::new(queue), &[id]);
        tests.push(test);
    }
    for _ in 0..300 {
        let id = rng.random_range(0..2);
        match rng.random_range(0..4) {
            0 => tests[id].send((0..rng.random_range(60..200)).map(|_| rng.random()).collect::<Vec<u8>>()),
            1 => world.write32(id, 4 * rng.random_range(8..0x20), rng.random()).expect("taken"),
            2 => drop(world.read32(id, 4 * rng.random_range(0..0x20)).expect("answered")),
            _ => world.run(rng.random_range(0..100)),
        }
    }
    (world.digest(), world.cycle())
}

#[test]
fn equal_seeds_and_calls_make_equal_runs_cycle_for_cycle() {
    let seed = seed();
    let first = random_run(seed);
    assert_eq!(first, random_run(seed));
    assert_ne!(first.0, random_run(seed + 1).0);
}
