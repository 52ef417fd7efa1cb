// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite of the connection manager on two simulated adapters, by the driver over their sockets.
use ironwarp_tests::{
    conformance::{lives, SUITE},
    served::Served,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Covers: CM-3, CM-5, CM-7, CM-8, CM-11, CM-12, CM-14, CM-16, CM-17, CM-18, CM-21, CM-22, CM-26, CM-27, CM-38
#[test]
fn the_adapter_passes_the_suite_of_the_connection_manager() {
    let served = Served::start();
    let only = std::env::var("ONLY").ok();
    for (name, test) in SUITE {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("{name}");
        let rig = served.rig();
        test(&rig);
        rig.assert_empty();
        served.assert_empty(name);
    }
    served.stop();
}

#[test]
fn the_adapter_passes_the_suite_of_the_data_path() {
    let served = Served::start();
    let only = std::env::var("ONLY").ok();
    for (name, test) in ironwarp_tests::data::SUITE {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("{name}");
        let rig = served.rig();
        test(&rig);
        rig.assert_empty();
        served.assert_empty(name);
    }
    served.stop();
}

/// CM_LIVES for the long form.
///
/// Covers: CM-12, CM-18, CM-30
#[test]
fn lives_of_every_kind_leave_nothing_behind() {
    let count = ironwarp_tests::count("CM_LIVES", 40);
    let seed = ironwarp_tests::seed("lives_of_every_kind", 1);
    let served = Served::start();
    let established = lives(&served.rig(), count, &mut ChaCha8Rng::seed_from_u64(seed));
    served.assert_empty("lives");
    println!("{count} lives, {established} of them established");
    assert!(established > count / 2, "{established}");
    served.stop();
}
