// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two simulated adapters of the profile `large`: frames of 9000 octets, more connections, queues, regions and reads at once than `ecp5` has. OPS: operations of each run of random traffic.
//!
//! Not in `make test`: their core is built in place of that of `ecp5`, by `make large`.
use ironwarp_sim::wire::{Fault, FaultRates};
use ironwarp_tests::{
    count, data, seed,
    served::{Served, Setup},
    traffic::{rounds, run, Traffic},
};
use ironwarp_verbs::Device;

/// The largest datagram; a frame with it.
const MTU: u32 = 9000;
const FULL: usize = 14 + MTU as usize;
/// Reads that a connection may have outstanding, here and there.
const DEPTH: u16 = 31;
/// Lengths at which an FPDU is full, tagged and not, at this MTU and at 1500, once and several times; what fills a beat, a page, a slot of the receiver.
const EDGES: [usize; 14] = [0, 1, 8, 64, 1436, 1440, 4096, 8192, 8936, 8940, 9216, 17_880, 26_820, 65_536];

fn setup(mtu: [u32; 2]) -> Setup {
    Setup { mtu, depth: DEPTH, ..Setup::default() }
}

fn traffic(test: &str) -> Traffic {
    let (seed, operations) = (seed(&format!("--test large -- --ignored {test}"), 1), count("OPS", 300));
    Traffic { seed, operations, max_depth: DEPTH, edges: &EDGES, ..Traffic::default() }
}

/// Connections and the longest message of each round.
const PLAN: [(usize, usize); 3] = [(3, 1 << 17), (1, 1 << 20), (30, 1 << 15)];

fn assert_large(served: &Served) {
    for adapter in &served.adapters {
        let port = adapter.query_port();
        assert_eq!((port.max_mtu, Device::query(&**adapter).max_qp), (MTU, 1023), "the core is built with IRONWARP_PROFILE=large");
    }
}

#[test]
#[ignore = "needs the core of the profile large: make large"]
fn large_frames_pass_the_suite_of_the_data_path() {
    let served = Served::with(&setup([MTU; 2]));
    assert_large(&served);
    for (name, test) in data::SUITE {
        println!("{name}");
        let rig = served.rig();
        test(&rig);
        rig.assert_empty();
        served.assert_empty(name);
    }
    served.assert_room();
    served.stop();
}

#[test]
#[ignore = "needs the core of the profile large: make large"]
fn large_frames_move_what_they_are_asked_to() {
    rounds("MTU 9000", &setup([MTU; 2]), &traffic("large_frames_move"), &PLAN);
}

#[test]
#[ignore = "needs the core of the profile large: make large"]
fn the_smaller_mtu_rules() {
    rounds("MTU 9000 and 1500", &setup([MTU, 1500]), &traffic("the_smaller_mtu"), &PLAN);
}

#[test]
#[ignore = "needs the core of the profile large: make large"]
fn a_wire_loses_doubles_and_reorders_large_frames() {
    let traffic = traffic("a_wire_loses");
    let rates = FaultRates {
        loss: 0.01,
        duplication: 0.01,
        reorder: 0.01,
        delay: 0.005,
        corruption: 0.002,
        unseen_corruption: 0.002,
        ..FaultRates::default()
    };
    let faulty = Setup::faulty(traffic.seed, rates);
    rounds("faulty, MTU 9000", &Setup { mtu: [MTU; 2], depth: DEPTH, ..faulty }, &traffic, &PLAN);
}

/// A message that is longer than a full frame goes in full ones, each way; one of them is lost.
#[test]
#[ignore = "needs the core of the profile large: make large"]
fn frames_are_as_large_as_they_may_be() {
    let traffic = Traffic { operations: 60, longest: 1 << 17, edges: &[17_880, 65_536, 100_000], ..traffic("as_large_as") };
    let served = Served::with(&Setup { mtu: [MTU; 2], depth: DEPTH, ..Setup::faulty(traffic.seed, FaultRates::default()) });
    assert_large(&served);
    let faults = served.faults.clone().expect("a wire with faults");
    for direction in [0, 1] {
        faults.on_match(direction, 5, Fault::Drop, |frame| frame.len() == FULL);
    }
    let rig = served.rig();
    println!("{:?}", run(&rig, &traffic).0);
    assert_eq!(faults.rules_left(), 0, "there were some");
    rig.assert_empty();
    drop(rig);
    served.assert_empty("full frames");
    served.stop();
}

/// Six times as many as `ecp5` has. All of them at once are more than the receive buffer holds, so there is loss; a clock is 16 microseconds, so that no wait of TCP takes long, however slow the model is.
#[test]
#[ignore = "needs the core of the profile large: make large"]
fn two_hundred_connections_at_once() {
    let traffic = Traffic { depths: &[1, 2, 5], ..traffic("two_hundred") };
    let quick = Setup::faulty(traffic.seed, FaultRates::default());
    let setup = Setup { mtu: [MTU; 2], depth: DEPTH, ..quick };
    rounds("200 connections", &setup, &Traffic { operations: traffic.operations.max(1000), ..traffic }, &[(200, 1 << 14)]);
}
