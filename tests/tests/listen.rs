// SPDX-License-Identifier: MIT OR Apache-2.0
//! LISTEN and its answers: the production driver on the generated Verilog.
use ironwarp_rnic::{Config, Rnic};
use ironwarp_sim::{InProcessBus, World};
use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn adapter() -> Rnic<InProcessBus> {
    let mut world = World::new(0);
    let id = world.add(&ironwarp_sim::AdapterConfig::new("a", 1));
    let world = Arc::new(Mutex::new(world));
    Rnic::attach(InProcessBus::new(&world, id), Config::default()).expect("attach")
}

/// Covers: PDB-1, CM-21, CM-33
#[test]
fn port_zero_is_chosen_by_the_adapter() {
    let mut a = adapter();
    let listener = a.create_listen(ANY, 0, 8).expect("LISTEN_REPLY");
    assert!(listener.port >= 49152, "{listener:?}");
    a.destroy_listen(listener).expect("FREED");
}
