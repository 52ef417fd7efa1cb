// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite of the connection manager between the two models: a simulated adapter on one side, the host's own TCP on the other, over a TAP. `make tap` runs it
//! (`tests/tap/cross.sh` makes the namespace, the TAP and the adapter). OPS: operations of the random traffic in each direction, with and without markers.
use ironwarp_iwcm::MpaOptions;
use ironwarp_rnic::{Config, Offload, OffloadConfig, Rnic, SocketBus, TcpSettings};
use ironwarp_soft::{Soft, SoftConfig};
use ironwarp_tests::{
    conformance::{lives, Rig, Side, SUITE},
    traffic::{self, run, Traffic},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(60);
const ADAPTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn adapter(socket: &str) -> Arc<Offload> {
    let bus: Box<dyn ironwarp_rnic::Bus> = Box::new(SocketBus::connect(socket, BOUND).expect("connected"));
    // where the wire has faults TIME-WAIT must outlive a FIN that is sent again
    let two_msl_us = if std::env::var_os("CROSS_FAULTS").is_some_and(|faults| !faults.is_empty()) { 60_000_000 } else { 1000 };
    // a listener may have 30 connections at once
    let tcp = TcpSettings { two_msl_us: Some(two_msl_us), spare_slots: Some(2), ..TcpSettings::default() };
    let config = Config { tcp, command_timeout: BOUND, reset_timeout: BOUND, ..Config::default() };
    let mut rnic = Rnic::attach(bus, config).expect("attach");
    rnic.address_add(ADAPTER, 24, None).expect("address");
    Offload::start(rnic, OffloadConfig::default()).expect("started")
}

/// Covers: CM-26, CM-38
#[test]
#[ignore = "needs a TAP: make tap"]
fn adapter_and_host_tcp_pass_the_suite_against_each_other() {
    let socket = std::env::var("IRONWARP_CROSS").expect("IRONWARP_CROSS: the adapter's socket; run tests/tap/cross.sh");
    let adapter = adapter(&socket);
    let soft = Soft::new(SoftConfig::default());
    let offloaded = || Side::adapter(&adapter);
    let integrated = || Side::new(&soft, IpAddr::V4(HOST));
    let count = ironwarp_tests::count("CM_LIVES", 40);
    let only = std::env::var("ONLY").ok();
    for (direction, rig) in [
        ("the adapter connects", &(|| Rig { client: offloaded(), server: integrated() }) as &dyn Fn() -> Rig),
        ("the host connects", &|| Rig { client: integrated(), server: offloaded() }),
    ] {
        for (name, test) in SUITE.iter().chain(ironwarp_tests::data::SUITE) {
            if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            println!("{direction}: {name}");
            let rig = rig();
            test(&rig);
            rig.assert_empty();
        }
        let seed = ironwarp_tests::seed("adapter_and_host", 3);
        let established = lives(&rig(), count, &mut ChaCha8Rng::seed_from_u64(seed));
        println!("{direction}: {count} lives, {established} of them established");
        let start = Instant::now();
        while adapter.ids() != (0, 0) {
            assert!(start.elapsed() < BOUND, "{direction}: {:?} ids are left", adapter.ids());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The adapter inserts markers where the peer asks; it never asks itself.
#[test]
#[ignore = "needs a TAP: make tap"]
fn adapter_and_host_tcp_move_what_they_are_asked_to() {
    let socket = std::env::var("IRONWARP_CROSS").expect("IRONWARP_CROSS: the adapter's socket; run tests/tap/cross.sh");
    let adapter = adapter(&socket);
    let seed = ironwarp_tests::seed("move_what_they_are_asked_to", 1);
    let operations = ironwarp_tests::count("OPS", 200);
    for (n, markers) in [false, true].into_iter().enumerate() {
        let mpa = MpaOptions { markers, ..MpaOptions::default() };
        // a FIN that a slow wire loses is sent again only after seconds
        let soft = Soft::new(SoftConfig { mpa, close_timeout: BOUND, ..SoftConfig::default() });
        let offloaded = || Side::adapter(&adapter);
        let integrated = || Side::new(&soft, IpAddr::V4(HOST));
        for (direction, rig) in [
            ("the adapter connects", Rig { client: offloaded(), server: integrated() }),
            ("the host connects", Rig { client: integrated(), server: offloaded() }),
        ] {
            for (connections, longest) in traffic::PLAN {
                let traffic = Traffic { seed: seed + n as u64, connections, operations, longest, ..Traffic::default() };
                let (tally, _) = run(&rig, &traffic);
                println!("{direction}, markers {markers}: {tally:?}");
                rig.assert_empty();
            }
        }
        drop(soft);
    }
}
