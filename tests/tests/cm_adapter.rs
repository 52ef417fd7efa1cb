// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite of the connection manager on two simulated adapters, by the driver over their sockets.
use ironwarp_iwcm::Provider;
use ironwarp_rnic::{Config, Offload, OffloadConfig, Rnic, SocketBus, TcpSettings};
use ironwarp_sim::{server::Pace, SimServer, World};
use ironwarp_tests::conformance::{lives, Rig, Side, SUITE};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{
    net::Ipv4Addr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(60);

fn adapter(path: &Path, n: u8) -> Arc<Offload> {
    let bus: Box<dyn ironwarp_rnic::Bus> = Box::new(SocketBus::connect(path, BOUND).expect("connected"));
    let tcp = TcpSettings { two_msl_us: Some(1000), ..TcpSettings::default() };
    let config = Config { mac: ironwarp_wire::MacAddr(ironwarp_tests::mac(n)), tcp, command_timeout: BOUND, ..Config::default() };
    let mut rnic = Rnic::attach(bus, config).expect("attach");
    rnic.address_add(Ipv4Addr::new(192, 0, 2, n), 24, None).expect("address");
    Offload::start(rnic, OffloadConfig { name: format!("adapter{n}"), ..OffloadConfig::default() }).expect("started")
}

/// Two adapters behind sockets.
struct Served {
    server: SimServer,
    adapters: [Arc<Offload>; 2],
    _directory: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
        let server = SimServer::start(World::pair(1, 0, 0), &[&paths[0], &paths[1]], Pace::Free).expect("served");
        let adapters = [adapter(&paths[0], 1), adapter(&paths[1], 2)];
        Served { server, adapters, _directory: directory }
    }
    fn rig(&self) -> Rig {
        let side = |n: usize| Side::new(&self.adapters[n], Provider::query(&*self.adapters[n]).addresses[0]);
        Rig { client: side(0), server: side(1) }
    }
    /// The adapters know of no id and hold no connection any more.
    fn assert_empty(&self, name: &str) {
        for adapter in &self.adapters {
            let start = Instant::now();
            let left = || (adapter.ids(), adapter.with_rnic(|rnic| (rnic.listeners(), rnic.connections(), rnic.outstanding())));
            while left() != ((0, 0), Ok((0, 0, 0))) {
                assert!(start.elapsed() < BOUND, "{name}: left are {:?}", left());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    fn stop(self) {
        let Served { server, adapters, .. } = self;
        drop(adapters);
        server.stop().assert_clean();
    }
}

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
