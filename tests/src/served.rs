// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two simulated adapters behind vfio-user sockets, each attached by the driver and offered as a provider.
use ironwarp_rnic::{Bus, Config, Offload, OffloadConfig, Rnic, SocketBus, TcpSettings};
use ironwarp_sim::{
    server::{Pace, SimServer},
    wire::{FaultHandle, FaultRates, Faulty, Link, Wire},
    AdapterConfig, World,
};
use ironwarp_verbs::{Access, Device, QpCap, QpInitAttr};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::conformance::{Rig, Side};

/// Longest wait for an adapter; a simulated one on a busy machine is slow.
const BOUND: Duration = Duration::from_secs(60);

/// How two adapters are set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Content of memories at power-up, and faults of the wire.
    pub seed: u64,
    /// Largest IP datagram of each.
    pub mtu: [u32; 2],
    /// Largest IRD and ORD.
    pub depth: u16,
    /// The wire has faults.
    pub faults: Option<FaultRates>,
    /// Microseconds a clock in 16.16 fixed point; none: adapter time is about wall time.
    pub timebase: Option<u32>,
    /// Time between two ARP requests; none: as the adapter has it.
    pub arp_retry_us: Option<u32>,
    /// Time-outs.
    pub tcp: TcpSettings,
}

impl Default for Setup {
    fn default() -> Self {
        // a listener may have 30 connections at once
        let tcp = TcpSettings { two_msl_us: Some(1000), spare_slots: Some(2), ..TcpSettings::default() };
        Setup { seed: 1, mtu: [1500; 2], depth: OffloadConfig::default().max_ird, faults: None, timebase: None, arp_retry_us: None, tcp }
    }
}

impl Setup {
    /// For a wire with faults: a clock is 16 microseconds, so that no wait of TCP takes long. After a lost SYN it is 3 seconds (RFC 6298), else what is lost is sent again
    /// after 10 000 clocks.
    pub fn faulty(seed: u64, rates: FaultRates) -> Self {
        let setup = Setup::default();
        // TIME-WAIT outlives a FIN that is sent again
        let tcp = TcpSettings {
            rto_init_us: Some(480_000),
            rto_min_us: Some(160_000),
            rto_max_us: Some(4_800_000),
            two_msl_us: Some(6_400_000),
            ..setup.tcp
        };
        Setup { seed, faults: Some(rates), timebase: Some(16 << 16), arp_retry_us: Some(160_000), tcp, ..setup }
    }
    fn adapter(&self, path: &Path, n: u8) -> Arc<Offload> {
        let bus: Box<dyn Bus> = Box::new(SocketBus::connect(path, BOUND).expect("connected"));
        let config = Config {
            mac: ironwarp_wire::MacAddr(crate::mac(n)),
            mtu: self.mtu[usize::from(n) - 1],
            timebase: self.timebase,
            arp_retry_us: self.arp_retry_us,
            tcp: self.tcp.clone(),
            command_timeout: BOUND,
            reset_timeout: BOUND,
            ..Config::default()
        };
        let mut rnic = Rnic::attach(bus, config).expect("attach");
        rnic.address_add(crate::address(n), 24, None).expect("address");
        let offload = OffloadConfig { name: format!("adapter{n}"), max_ird: self.depth, max_ord: self.depth, ..OffloadConfig::default() };
        Offload::start(rnic, offload).expect("started")
    }
}

/// Two adapters back to back: 192.0.2.1 and 192.0.2.2, /24.
pub struct Served {
    server: SimServer,
    /// The adapters.
    pub adapters: [Arc<Offload>; 2],
    /// The hand on the wire, if it has faults.
    pub faults: Option<FaultHandle>,
    _directory: tempfile::TempDir,
}

impl Served {
    /// Starts both.
    pub fn start() -> Self {
        Self::with(&Setup::default())
    }
    /// Starts both as they are wanted. CAPTURE=file: what the wire carries.
    pub fn with(setup: &Setup) -> Self {
        let mut world = World::new(0);
        let ids = [("a", setup.seed), ("b", setup.seed.wrapping_add(1))].map(|(name, seed)| world.add(&AdapterConfig::new(name, seed)));
        let mut wire: Box<dyn Wire> = Box::new(Link::new(0));
        let mut faults = None;
        if let Some(rates) = setup.faults {
            let (faulty, handle) = Faulty::new(wire, rates, setup.seed);
            (wire, faults) = (Box::new(faulty), Some(handle));
        }
        world.connect(crate::captured(wire), &ids);
        let directory = tempfile::tempdir().expect("directory");
        let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
        let server = SimServer::start(world, &[&paths[0], &paths[1]], Pace::Free).expect("served");
        let adapters = [setup.adapter(&paths[0], 1), setup.adapter(&paths[1], 2)];
        Served { server, adapters, faults, _directory: directory }
    }
    /// The first connects, the second listens.
    pub fn rig(&self) -> Rig {
        let side = |n: usize| Side::adapter(&self.adapters[n]);
        Rig { client: side(0), server: side(1) }
    }
    /// Cycles run so far.
    pub fn cycles(&self) -> u64 {
        self.server.cycles()
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
    /// The adapters have not met anything that may not be.
    pub fn assert_well(&self) {
        for adapter in &self.adapters {
            let stats = adapter.stats();
            let odd =
                ["drvStrayCompletions", "cqOverflows", "doorbellErrors", "dmaReadErrors", "dmaWriteErrors", "tcpGiveUps", "ethOutUnderrun"];
            let odd: Vec<_> = stats.iter().filter(|(name, count)| odd.contains(name) && *count > 0).collect();
            assert!(odd.is_empty(), "{odd:?}");
        }
    }
    /// The adapters' tables of completion queues, queue pairs and regions are empty: they take as many as they should, and no more.
    pub fn assert_room(&self) {
        for adapter in &self.adapters {
            let most = Device::query(&**adapter);
            let pd = adapter.alloc_pd().expect("a protection domain");
            let cqs: Vec<_> =
                (0..most.max_cq).map(|n| adapter.create_cq(4).unwrap_or_else(|e| panic!("completion queue {n}: {e}"))).collect();
            assert!(adapter.create_cq(4).is_err(), "no more");
            let init = QpInitAttr { send_cq: cqs[0].clone(), recv_cq: cqs[0].clone(), cap: QpCap::default(), sq_sig_all: false };
            let qps: Vec<_> =
                (0..most.max_qp).map(|n| adapter.create_qp(&pd, &init).unwrap_or_else(|e| panic!("queue pair {n}: {e}"))).collect();
            assert!(adapter.create_qp(&pd, &init).is_err(), "no more");
            let region = |n| pd.alloc_mr(64, Access::LOCAL_WRITE).unwrap_or_else(|e| panic!("region {n}: {e}"));
            let regions: Vec<_> = (0..most.max_mr).map(region).collect();
            assert!(pd.alloc_mr(64, Access::LOCAL_WRITE).is_err(), "no more");
            for qp in qps {
                qp.destroy().expect("destroyed");
            }
            drop(regions);
        }
    }
    /// Detaches both; no rule of their ports was broken.
    pub fn stop(self) {
        let Served { server, adapters, .. } = self;
        drop(adapters);
        server.stop().assert_clean();
    }
}
