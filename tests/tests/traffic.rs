// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random traffic on two simulated adapters, over a wire without and with faults. OPS: operations of each test, for the long form (100000 move some 200 MB).
use ironwarp_sim::wire::{Fault, FaultRates};
use ironwarp_tests::{
    count, seed,
    served::{Served, Setup},
    traffic::{rounds, run, Traffic, PLAN},
};
use ironwarp_verbs::{QpState, Terminate};

fn clean(name: &str, mtu: [u32; 2]) {
    let (operations, seed) = (count("OPS", 90), seed(&format!("--test traffic {name}"), 1));
    let traffic = Traffic { seed, operations, ..Traffic::default() };
    rounds(&format!("MTU {mtu:?}"), &Setup { seed, mtu, ..Setup::default() }, &traffic, &PLAN);
}

fn faulty(name: &str, mtu: [u32; 2]) {
    let (operations, seed) = (count("OPS", 90), seed(&format!("--test traffic {name}"), 1));
    let rates = FaultRates {
        loss: 0.01,
        duplication: 0.01,
        reorder: 0.01,
        delay: 0.005,
        corruption: 0.002,
        unseen_corruption: 0.002,
        ..FaultRates::default()
    };
    let traffic = Traffic { seed, operations, ..Traffic::default() };
    rounds(&format!("faulty, MTU {mtu:?}"), &Setup { mtu, ..Setup::faulty(seed, rates) }, &traffic, &PLAN);
}

#[test]
fn adapters_move_what_they_are_asked_to() {
    clean("what_they_are_asked_to", [1500; 2]);
}

#[test]
fn adapters_of_unlike_mtu_move_what_they_are_asked_to() {
    clean("unlike_mtu", [576, 1500]);
}

#[test]
fn adapters_move_it_over_a_wire_that_loses_doubles_and_reorders() {
    faulty("loses_doubles", [1500; 2]);
}

#[test]
fn small_segments_are_lost_doubled_and_reordered_as_well() {
    faulty("small_segments", [576; 2]);
}

/// Octets of an Ethernet, an IPv4 and a TCP header.
const HEADERS: usize = 54;

/// Covers: MPA-36
#[test]
fn damage_that_no_checksum_finds_ends_in_a_terminate_and_the_others_go_on() {
    let seed = seed("--test traffic no_checksum_finds", 1);
    let served = Served::with(&Setup::faulty(seed, FaultRates::default()));
    let faults = served.faults.clone().expect("a wire with faults");
    for (round, direction) in [0, 1].into_iter().enumerate() {
        // in the payload of a message, some way into the traffic
        faults.on_match(direction, 40, Fault::Swap(HEADERS + 60), |frame| frame.len() > HEADERS + 150);
        let rig = served.rig();
        let traffic =
            Traffic { seed: seed + round as u64, connections: 3, operations: 300, longest: 8000, fragile: true, ..Traffic::default() };
        let (tally, failed) = run(&rig, &traffic);
        println!("{tally:?} {failed:?}");
        assert_eq!((failed.len(), faults.rules_left()), (1, 0));
        let crc = Some(Terminate { layer: 2, etype: 0, code: 2 });
        let (victim, finder) = (&failed[0][direction], &failed[0][1 - direction]);
        assert_eq!((finder.terminate_out, victim.terminate_in), (crc, crc));
        assert_eq!((finder.state, victim.state), (QpState::Error, QpState::Error));
        rig.assert_empty();
        drop(rig);
        served.assert_empty("damaged");
    }
    served.assert_room();
    served.stop();
}
