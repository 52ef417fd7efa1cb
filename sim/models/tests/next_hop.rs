// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::next_hop` against the rules in plain Rust.
use ironwarp_models::{bench, next_hop::Model, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::net::Ipv4Addr;

#[derive(Clone, Copy, Debug, Default)]
struct Local {
    valid: bool,
    ip: u32,
    mask: u32,
    gateway: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    None,
    Own,
    Group([u8; 6]),
    Hop { ip: u32, source: u32 },
}

fn plain(locals: &[Local; 4], dst: u32, src: u32) -> Route {
    let ip = Ipv4Addr::from(dst);
    let valid = || locals.iter().filter(|l| l.valid).rev();
    let on_link = |l: &&Local| (l.ip ^ dst) & l.mask == 0;
    let hop = |l: &Local, ip| Route::Hop { ip, source: l.ip };
    if ip.octets()[0] == 0 || ip.is_loopback() {
        return Route::None;
    }
    if valid().any(|l| l.ip == dst) {
        return Route::Own;
    }
    if ip.is_multicast() {
        let o = ip.octets();
        return Route::Group([0x01, 0x00, 0x5e, o[1] & 0x7f, o[2], o[3]]);
    }
    let subnet_broadcast = valid().filter(on_link).any(|l| l.mask.count_zeros() >= 2 && dst == l.ip | !l.mask);
    if ip.is_broadcast() || subnet_broadcast {
        return Route::Group([0xff; 6]);
    }
    if let Some(l) = valid().find(on_link) {
        return hop(l, dst);
    }
    let gateways = || valid().filter(|l| l.gateway != 0);
    gateways().find(|l| l.ip == src).or(gateways().next()).map_or(Route::None, |l| hop(l, l.gateway))
}

fn ask(m: &mut Model, locals: &[Local; 4], dst: u32, src: u32) -> Route {
    for (l, (valid, ip, mask, gateway)) in locals.iter().zip([
        (&mut m.local_0_valid, &mut m.local_0_ip, &mut m.local_0_mask, &mut m.local_0_gateway),
        (&mut m.local_1_valid, &mut m.local_1_ip, &mut m.local_1_mask, &mut m.local_1_gateway),
        (&mut m.local_2_valid, &mut m.local_2_ip, &mut m.local_2_mask, &mut m.local_2_gateway),
        (&mut m.local_3_valid, &mut m.local_3_ip, &mut m.local_3_mask, &mut m.local_3_gateway),
    ]) {
        valid.set(u64::from(l.valid));
        ip.set(u64::from(l.ip));
        mask.set(u64::from(l.mask));
        gateway.set(u64::from(l.gateway));
    }
    m.dst.set(dst);
    m.src.set(src);
    m.start.set(true);
    m.tick();
    m.start.set(false);
    for _ in 1..6 {
        m.eval();
        assert!(!m.done.get(), "not before 6 clocks");
        m.tick();
    }
    assert!(m.done.get(), "after 6 clocks");
    let mac = m.route_mac.get().to_le_bytes();
    let route = match (m.route_resolve.bit(), m.route_group.bit(), m.route_own.bit()) {
        (false, false, false) => Route::None,
        (false, false, true) => Route::Own,
        (false, true, false) => Route::Group([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]]),
        (true, false, false) => Route::Hop { ip: m.route_ip.get() as u32, source: m.route_source.get() as u32 },
        several => panic!("{several:?}"),
    };
    m.tick();
    assert!(!m.done.get(), "for one clock");
    route
}

fn ip(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().expect("an address").into()
}

fn model() -> Model {
    let mut m = Model::new(1);
    m.reset.set(true);
    m.tick();
    m.reset.set(false);
    m
}

/// Covers: ARP-10
#[test]
fn on_link_goes_direct_and_the_rest_to_the_gateway() {
    let mut m = model();
    let lan = Local { valid: true, ip: ip("192.0.2.1"), mask: ip("255.255.255.0"), gateway: ip("192.0.2.254") };
    let side = Local { valid: true, ip: ip("10.1.0.1"), mask: ip("255.255.0.0"), gateway: 0 };
    let line = Local { valid: true, ip: ip("198.51.100.2"), mask: ip("255.255.255.254"), gateway: ip("198.51.100.3") };
    let off = Local { valid: false, ip: ip("203.0.113.1"), mask: 0, gateway: ip("203.0.113.2") };
    let locals = [lan, side, line, off];
    let hop = |to: &str, l: Local| Route::Hop { ip: ip(to), source: l.ip };
    let all = Route::Group([0xff; 6]);
    for (dst, src, expect) in [
        ("192.0.2.7", "192.0.2.1", hop("192.0.2.7", lan)),
        ("10.1.200.7", "192.0.2.1", hop("10.1.200.7", side)),
        ("10.2.0.7", "192.0.2.1", hop("192.0.2.254", lan)),
        ("10.2.0.7", "198.51.100.2", hop("198.51.100.3", line)),
        ("10.2.0.7", "10.1.0.1", hop("198.51.100.3", line)),
        ("198.51.100.3", "192.0.2.1", hop("198.51.100.3", line)),
        ("192.0.2.255", "192.0.2.1", all),
        ("10.1.255.255", "192.0.2.1", all),
        ("255.255.255.255", "192.0.2.1", all),
        ("224.0.0.251", "192.0.2.1", Route::Group([1, 0, 0x5e, 0, 0, 251])),
        ("239.255.1.2", "192.0.2.1", Route::Group([1, 0, 0x5e, 0x7f, 1, 2])),
        ("192.0.2.1", "192.0.2.1", Route::Own),
        ("10.1.0.1", "192.0.2.1", Route::Own),
        ("127.0.0.1", "192.0.2.1", Route::None),
        ("0.0.0.0", "192.0.2.1", Route::None),
        ("0.1.2.3", "192.0.2.1", Route::None),
    ] {
        assert_eq!(ask(&mut m, &locals, ip(dst), ip(src)), expect, "{dst} from {src}");
        assert_eq!(plain(&locals, ip(dst), ip(src)), expect, "model: {dst} from {src}");
    }
    assert_eq!(ask(&mut m, &[off, side, off, off], ip("10.2.0.7"), ip("10.1.0.1")), Route::None, "no gateway");
    assert_eq!(ask(&mut m, &[off; 4], ip("192.0.2.7"), 0), Route::None, "no address");
    assert_eq!(ask(&mut m, &[off; 4], u32::MAX, 0), all, "but broadcast needs none");
}

/// Covers: ARP-10
#[test]
fn random_routes_are_those_of_the_plain_rules() {
    let seed = bench::seed("next_hop");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut m = model();
    let mut seen = [0; 4];
    for n in 0..100_000 {
        let near = |rng: &mut ChaCha8Rng| -> u32 {
            let base = *[0xc000_0200, 0x0a01_0000, 0xe000_0000, 0x7f00_0000, 0, 0xffff_ff00].choose(rng).expect("not empty");
            base ^ if rng.random_bool(0.8) { rng.random_range(0..4) } else { rng.random::<u32>() >> rng.random_range(0..31) }
        };
        let locals: [Local; 4] = std::array::from_fn(|_| Local {
            valid: rng.random_bool(0.7),
            ip: near(&mut rng),
            mask: u32::MAX.checked_shl(rng.random_range(0..=32)).unwrap_or(0),
            gateway: if rng.random() { 0 } else { near(&mut rng) },
        });
        let any = locals[rng.random_range(0..4)];
        let dst = match rng.random_range(0..6) {
            0 => rng.random(),
            1 => any.ip | !any.mask,
            2 => any.ip,
            3 => (any.ip & any.mask) | (rng.random::<u32>() & !any.mask),
            _ => near(&mut rng),
        };
        let src = if rng.random() { locals[rng.random_range(0..4)].ip } else { rng.random() };
        let (got, want) = (ask(&mut m, &locals, dst, src), plain(&locals, dst, src));
        assert_eq!(got, want, "case {n}: {dst:x} from {src:x} with {locals:x?}");
        seen[match got {
            Route::None => 0,
            Route::Own => 1,
            Route::Group(_) => 2,
            Route::Hop { .. } => 3,
        }] += 1;
    }
    assert!(seen.iter().all(|n| *n > 1000), "{seen:?}");
}
