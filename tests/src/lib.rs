// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers shared by the tests that cross parts: adapters in one world, attached by the production driver.
pub mod conformance;
pub mod data;
pub mod ends;
pub mod golden;
pub mod peer;
pub mod served;
pub mod stage;
pub mod traffic;
pub mod wrong;

use etherparse::{Icmpv4Type, PacketBuilder};
use ironwarp_abi::Counter;
use ironwarp_rnic::{Config, Rnic};
use ironwarp_sim::{
    bus::lock,
    wire::{Captured, FaultHandle, FaultRates, Faulty, Link, Timestamps, View, Wire},
    AdapterConfig, InProcessBus, SharedWorld, World,
};
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    str::FromStr,
    sync::{Arc, Mutex},
};

/// The wildcard address.
pub const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// An attached adapter of an in-process world.
pub type Attached = Rnic<InProcessBus>;

/// A number of the environment, or `default`.
pub fn count<T: FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// SEED of the environment, or `default`; printed with the way to repeat the run.
pub fn seed(test: &str, default: u64) -> u64 {
    let seed = count("SEED", default);
    println!("replay: SEED={seed} cargo test -p ironwarp-tests {test}");
    seed
}

/// MAC address of the n-th adapter of a test.
pub const fn mac(n: u8) -> [u8; 6] {
    [0x02, 0x1b, 0xad, 0, 0, n]
}

/// Settings of the n-th adapter: equal runs for equal seeds.
pub fn config(n: u8, seed: u64) -> Config {
    Config { mac: ironwarp_wire::MacAddr(mac(n)), random: Some(seed as u32 ^ u32::from(n) << 24), share: true, ..Config::default() }
}

/// One adapter without a wire.
pub fn single(seed: u64, config: Config) -> (SharedWorld, Attached) {
    let mut world = World::new(0);
    let id = world.add(&AdapterConfig::new("a", seed));
    let world = Arc::new(Mutex::new(world));
    let rnic = Rnic::attach(InProcessBus::new(&world, id), config).expect("attach");
    (world, rnic)
}

/// Two adapters back to back: 192.0.2.1 and 192.0.2.2, /24.
pub fn pair(seed: u64) -> (SharedWorld, Attached, Attached) {
    pair_over(seed, Box::new(Link::new(10)), |n| config(n, seed))
}

/// The same over another wire, with other settings for adapters 1 and 2.
pub fn pair_over(seed: u64, wire: Box<dyn Wire>, config: impl Fn(u8) -> Config) -> (SharedWorld, Attached, Attached) {
    let mut world = World::new(0);
    let ids = [("a", seed), ("b", seed.wrapping_add(1))].map(|(name, seed)| world.add(&AdapterConfig::new(name, seed)));
    world.connect(wire, &ids);
    let world = Arc::new(Mutex::new(world));
    let [a, b] = [1u8, 2].map(|n| {
        let mut rnic = Rnic::attach(InProcessBus::new(&world, ids[usize::from(n) - 1]), config(n)).expect("attach");
        rnic.address_add(address(n), 24, None).expect("ADDRESS_ADD");
        rnic
    });
    (world, a, b)
}

/// `wire` as it is, or with CAPTURE=file in the environment written to that file, so that a failure can be looked at with Wireshark.
fn captured(wire: Box<dyn Wire>) -> Box<dyn Wire> {
    let Some(file) = std::env::var_os("CAPTURE") else { return wire };
    let stamps = Timestamps::Cycles { picoseconds: 16_000 };
    Box::new(Captured::new(wire, file.as_ref(), &["a", "b"], View::Sent, stamps).expect("CAPTURE can be written"))
}

/// The same over a wire with faults. Frames that it loses are in a capture, too.
pub fn faulty_pair(seed: u64, rates: FaultRates, config: impl Fn(u8) -> Config) -> (SharedWorld, Attached, Attached, FaultHandle) {
    let (wire, faults) = Faulty::new(Box::new(Link::new(10)), rates, seed);
    let (world, a, b) = pair_over(seed, captured(Box::new(wire)), config);
    (world, a, b, faults)
}

/// Address of the n-th adapter of a test.
pub const fn address(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n)
}

/// Every counter by name, those at 0 left out.
pub fn counters(rnic: &mut Attached) -> BTreeMap<&'static str, u64> {
    rnic.stats().expect("counters").into_iter().filter(|(_, v)| *v != 0).map(|(c, v)| (c.name(), v)).collect()
}

/// One counter.
pub fn counter(rnic: &mut Attached, which: Counter) -> u64 {
    rnic.device().counter(which).expect("counters")
}

/// Panics when a port of an adapter was used against its rules or the adapter reached for memory that it was not given.
pub fn assert_clean(world: &SharedWorld) {
    lock(world).assert_clean();
}

/// An echo request from `from` to `to`, made by an encoder that shares no code with the adapter or its driver.
pub fn echo_request(from: u8, to: Ipv4Addr, id: u16, seq: u16, data: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(mac(from), [0; 6])
        .ipv4([192, 0, 2, from], to.octets(), 64)
        .icmpv4(Icmpv4Type::EchoRequest(etherparse::IcmpEchoHeader { id, seq }));
    let mut frame = Vec::with_capacity(builder.size(data.len()));
    builder.write(&mut frame, data).expect("Vec");
    frame
}
