// SPDX-License-Identifier: MIT OR Apache-2.0
//! Model cycles per second of processor time (which other work on the machine does not change): one core and two, without traffic and with frames of 64 octets back to back.
//! `cargo run --release -p ironwarp-sim --example speed`
use ironwarp_sim::{wire::Queue, AdapterConfig, World};
use rustix::time::{clock_gettime, ClockId};

const CYCLES: u64 = 200_000;

/// Processor time of this thread, seconds.
fn used() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn speed(cores: usize, traffic: bool) -> f64 {
    let mut world = World::new(0);
    let mut tests = Vec::new();
    for n in 0..cores {
        let id = world.add(&AdapterConfig::new(&format!("core{n}"), n as u64));
        let (queue, test) = Queue::new();
        world.connect(Box::new(queue), &[id]);
        tests.push(test);
    }
    world.run(1000);
    let start = used();
    for _ in 0..CYCLES / 1000 {
        if traffic {
            // 11 cycles a frame
            tests.iter().for_each(|t| (0..91).for_each(|_| t.send(vec![0xff; 64])));
        }
        world.run(1000);
        tests.iter().for_each(|t| drop(t.drain()));
    }
    CYCLES as f64 / (used() - start)
}

fn main() {
    for cores in [1, 2] {
        for traffic in [false, true] {
            println!("{cores} core(s), traffic {traffic}: {:.0} cycles/s", speed(cores, traffic));
        }
    }
}
