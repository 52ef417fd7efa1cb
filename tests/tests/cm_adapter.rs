// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite of the connection manager on two simulated adapters, by the driver over their sockets.
use ironwarp_iwcm::Provider;
use ironwarp_rnic::{Config, Offload, OffloadConfig, Rnic, SocketBus, TcpSettings};
use ironwarp_sim::{server::Pace, SimServer, World};
use ironwarp_tests::conformance::{Rig, Side, SUITE};
use std::{net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

const BOUND: Duration = Duration::from_secs(60);

fn adapter(path: &Path, n: u8) -> Arc<Offload> {
    let bus: Box<dyn ironwarp_rnic::Bus> = Box::new(SocketBus::connect(path, BOUND).expect("connected"));
    let tcp = TcpSettings { two_msl_us: Some(1000), ..TcpSettings::default() };
    let config = Config { mac: ironwarp_wire::MacAddr(ironwarp_tests::mac(n)), tcp, command_timeout: BOUND, ..Config::default() };
    let mut rnic = Rnic::attach(bus, config).expect("attach");
    rnic.address_add(Ipv4Addr::new(192, 0, 2, n), 24, None).expect("address");
    Offload::start(rnic, OffloadConfig { name: format!("adapter{n}"), ..OffloadConfig::default() }).expect("started")
}

/// Covers: CM-3, CM-5, CM-7, CM-8, CM-11, CM-12, CM-14, CM-16, CM-17, CM-18, CM-21, CM-22, CM-26, CM-27, CM-38
#[test]
fn the_adapter_passes_the_suite_of_the_connection_manager() {
    let directory = tempfile::tempdir().expect("directory");
    let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
    let server = SimServer::start(World::pair(1, 0, 0), &[&paths[0], &paths[1]], Pace::Free).expect("served");
    let adapters = [adapter(&paths[0], 1), adapter(&paths[1], 2)];
    let only = std::env::var("ONLY").ok();
    for (name, test) in SUITE {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("{name}");
        let side = |n: usize| Side::new(&adapters[n], Provider::query(&*adapters[n]).addresses[0]);
        let rig = Rig { client: side(0), server: side(1) };
        test(&rig);
        rig.assert_empty();
        for adapter in &adapters {
            let start = std::time::Instant::now();
            while adapter.ids() != (0, 0) {
                assert!(start.elapsed() < BOUND, "{name}: {:?} ids are left", adapter.ids());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    drop(adapters);
    server.stop().assert_clean();
}
