// SPDX-License-Identifier: MIT OR Apache-2.0
//! The production driver in another process's place: registers, DMA memory and interrupts through a vfio-user socket.
use ironwarp_abi::Counter;
use ironwarp_rnic::{Config, Rnic, SocketBus};
use ironwarp_sim::{server::Pace, SimServer, World};
use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const BOUND: Duration = Duration::from_secs(20);

/// Covers: CM-33
#[test]
fn listen_is_answered_through_the_socket_and_the_next_driver_finds_a_fresh_adapter() {
    let directory = tempfile::tempdir().expect("directory");
    let paths = [directory.path().join("a.sock"), directory.path().join("b.sock")];
    let server = SimServer::start(World::pair(1, 0, 0), &[&paths[0], &paths[1]], Pace::Free).expect("served");
    for round in 0..2 {
        for path in &paths {
            let bus = SocketBus::connect(path, BOUND).expect("connected");
            let mut rnic = Rnic::attach(bus, Config::default()).expect("attach");
            let listener = rnic.create_listen(ANY, 4791, 8).expect("the port is free in every round");
            assert_eq!(listener.port, 4791);
            let start = Instant::now();
            let chosen = rnic.create_listen(ANY, 0, 8).expect("LISTEN_REPLY");
            println!("round {round}: LISTEN to LISTEN_REPLY in {:?}", start.elapsed());
            assert!(chosen.port >= 49152, "{chosen:?}");
            assert_eq!(rnic.device().counter(Counter::ListenCreated).expect("counter"), 2);
            rnic.destroy_listen(chosen).expect("FREED");
        }
    }
    server.stop().assert_clean();
}
