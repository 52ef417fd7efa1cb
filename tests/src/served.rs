// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two simulated adapters behind vfio-user sockets, each attached by the driver and offered as a provider.
use ironwarp_rnic::{Bus, Config, Offload, OffloadConfig, Rnic, SocketBus, TcpSettings};
use ironwarp_sim::{server::Pace, SimServer, World};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Longest wait for an adapter; a simulated one on a busy machine is slow.
const BOUND: Duration = Duration::from_secs(60);

fn adapter(path: &Path, n: u8) -> Arc<Offload> {
    let bus: Box<dyn Bus> = Box::new(SocketBus::connect(path, BOUND).expect("connected"));
    let tcp = TcpSettings { two_msl_us: Some(1000), ..TcpSettings::default() };
    let config = Config { mac: ironwarp_wire::MacAddr(crate::mac(n)), tcp, command_timeout: BOUND, ..Config::default() };
    let mut rnic = Rnic::attach(bus, config).expect("attach");
    rnic.address_add(crate::address(n), 24, None).expect("address");
    Offload::start(rnic, OffloadConfig { name: format!("adapter{n}"), ..OffloadConfig::default() }).expect("started")
}

/// Two adapters back to back: 192.0.2.1 and 192.0.2.2, /24.
pub struct Served {
    server: SimServer,
    /// The adapters.
    pub adapters: [Arc<Offload>; 2],
    _directory: tempfile::TempDir,
}

impl Served {
    /// Starts both.
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
        let server = SimServer::start(World::pair(1, 0, 0), &[&paths[0], &paths[1]], Pace::Free).expect("served");
        let adapters = [adapter(&paths[0], 1), adapter(&paths[1], 2)];
        Served { server, adapters, _directory: directory }
    }
    /// The adapters know of no id and hold no connection any more.
    pub fn assert_empty(&self, name: &str) {
        for adapter in &self.adapters {
            let start = Instant::now();
            let left = || (adapter.ids(), adapter.with_rnic(|rnic| (rnic.listeners(), rnic.connections(), rnic.outstanding())));
            while left() != ((0, 0), Ok((0, 0, 0))) {
                assert!(start.elapsed() < BOUND, "{name}: left are {:?}", left());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    /// Detaches both; no rule of their ports was broken.
    pub fn stop(self) {
        let Served { server, adapters, .. } = self;
        drop(adapters);
        server.stop().assert_clean();
    }
}
