// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path as a whole (`net::rx_chain`): from the MAC's beats to the host, the TCP engine and the replies on the wire.
mod net;
use etherparse::{Icmpv4Type, PacketHeaders, TransportHeader};
use ironwarp_models::{rx_chain::Model, Dut};
use net::Verdict::{Arp, Drop, Pass};
use net::*;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

macro_rules! counters { ($m:expr, $map:expr, $($port:ident $name:literal),*) => {
    $(if $m.$port.get() { *$map.entry($name).or_insert(0u64) += 1; })*
} }

struct Bench {
    m: Model,
    rng: rand_chacha::ChaCha8Rng,
    host: Vec<Vec<u8>>,
    tcp: Vec<Vec<u8>>,
    out: Vec<Vec<u8>>,
    arps: usize,
    building: [Vec<u8>; 3],
    counted: BTreeMap<&'static str, u64>,
    lookups: VecDeque<(u16, u64)>,
    now: u64,
    /// Chance that the host, or the MAC, takes a beat.
    host_ready: f64,
    mac_ready: f64,
}

/// Ports that the adapter holds.
fn held(port: u16) -> bool {
    matches!(port % 3, 0)
}

/// Ports of them that have a listener, and which.
fn listening(port: u16) -> bool {
    matches!(port % 6, 0)
}
fn listener(port: u16) -> u64 {
    if listening(port) {
        u64::from(port) / 6
    } else {
        0
    }
}

impl Bench {
    fn new(setup: Setup, share: bool, seed: u64) -> Self {
        let mut m = Model::new(seed);
        m.mac.set(mac_number(MAC));
        m.mtu.set(setup.mtu);
        m.multicast.set(setup.multicast);
        m.promiscuous.set(setup.promiscuous);
        m.share.set(share);
        m.enable.set(true);
        m.ip_ttl.set(64);
        m.icmp_rate.set(0);
        m.tick_us.set(0);
        m.tx_valid.set(false);
        m.arp_ready.set(true);
        m.tcp_ready.set(true);
        let ports = [
            (&mut m.addresses_0_valid, &mut m.addresses_0_ip, &mut m.addresses_0_mask),
            (&mut m.addresses_1_valid, &mut m.addresses_1_ip, &mut m.addresses_1_mask),
            (&mut m.addresses_2_valid, &mut m.addresses_2_ip, &mut m.addresses_2_mask),
            (&mut m.addresses_3_valid, &mut m.addresses_3_ip, &mut m.addresses_3_mask),
        ];
        for (i, (valid, ip, m)) in ports.into_iter().enumerate() {
            valid.set(u64::from(i < VALID));
            ip.set(number(ADDRESSES[i].0));
            m.set(mask(ADDRESSES[i].1));
        }
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        Bench {
            m,
            rng: rand_chacha::ChaCha8Rng::seed_from_u64(seed),
            host: vec![],
            tcp: vec![],
            out: vec![],
            arps: 0,
            building: Default::default(),
            counted: BTreeMap::new(),
            lookups: VecDeque::new(),
            now: 0,
            host_ready: 1.0,
            mac_ready: 1.0,
        }
    }

    fn clock(&mut self, beat: Option<(Octets, bool)>) {
        let m = &mut self.m;
        m.valid.set(beat.is_some());
        if let Some((b, damaged)) = beat {
            m.beat_data.set(b.data);
            m.beat_keep.set(b.keep);
            m.beat_last.set(u64::from(b.last));
            m.beat_error.set(u64::from(damaged && b.last));
        }
        let (host, mac) = (self.rng.random_bool(self.host_ready), self.rng.random_bool(self.mac_ready));
        m.host_ready.set(host);
        m.out_ready.set(mac);
        // the port database answers 3 clocks after the question
        m.lookup_ready.set(true);
        let answer = self.lookups.front().filter(|(_, at)| *at <= self.now).map(|(p, _)| *p);
        m.answer_valid.set(answer.is_some());
        m.answer_data_used.set(u64::from(answer.is_some_and(held)));
        m.answer_data_listening.set(u64::from(answer.is_some_and(listening)));
        m.answer_data_listener.set(answer.map_or(0, listener));
        m.answer_data_reserved.set(0);
        m.eval();
        if answer.is_some() && m.answer_ready.get() {
            self.lookups.pop_front();
        }
        if m.lookup_valid.get() {
            self.lookups.push_back((m.lookup_data_port.get() as u16, self.now + 3));
        }
        self.arps += usize::from(m.arp_valid.get());
        let ends = [
            (m.host_valid.get() && host, m.host_beat_data.get(), m.host_beat_keep.get(), m.host_beat_last.bit()),
            (m.tcp_valid.get(), m.tcp_beat_data.get(), m.tcp_beat_keep.get(), m.tcp_beat_last.bit()),
            (m.out_valid.get() && mac, m.out_beat_data.get(), m.out_beat_keep.get(), m.out_beat_last.bit()),
        ];
        if m.tcp_valid.get() {
            let port = m.meta_dst_port.get() as u16;
            assert_eq!((m.listening.get(), u64::from(m.listener.get())), (listening(port), listener(port)), "port {port}");
        }
        let lists = [&mut self.host, &mut self.tcp, &mut self.out];
        for (((valid, data, keep, last), list), building) in ends.into_iter().zip(lists).zip(&mut self.building) {
            if valid {
                push(building, data, keep);
                if last {
                    list.push(std::mem::take(building));
                }
            }
        }
        let map = &mut self.counted;
        counters!(m, map,
            cnt_eth_in_frames "eth_in_frames", cnt_eth_in_fcs_errors "eth_in_fcs_errors", cnt_eth_in_runts "eth_in_runts",
            cnt_eth_in_oversize "eth_in_oversize", cnt_eth_in_other_mac "eth_in_other_mac", cnt_eth_in_multicast "eth_in_multicast",
            cnt_arp_in_ignored "arp_in_ignored", cnt_ip4_in_hdr_errors "ip4_in_hdr_errors", cnt_ip4_in_csum_errors "ip4_in_csum_errors",
            cnt_ip4_in_addr_errors "ip4_in_addr_errors", cnt_ip4_in_src_errors "ip4_in_src_errors",
            cnt_icmp_in_csum_errors "icmp_in_csum_errors", cnt_icmp_in_broadcast "icmp_in_broadcast",
            cnt_icmp_in_unknown "icmp_in_unknown", cnt_tcp_in_csum_errors "tcp_in_csum_errors",
            cnt_eth_in_overflow "eth_in_overflow", cnt_rx_meta_dropped "rx_meta_dropped", cnt_ip4_in_pkts "ip4_in_pkts",
            cnt_ip4_in_options "ip4_in_options", cnt_ip4_in_fragments "ip4_in_fragments",
            cnt_ip4_in_other_proto "ip4_in_other_proto", cnt_eth_in_other_type "eth_in_other_type",
            cnt_rx_vlan_errors "rx_vlan_errors", cnt_icmp_in_echos "icmp_in_echos", cnt_icmp_in_to_host "icmp_in_to_host",
            cnt_tcp_in_segs "tcp_in_segs", cnt_tcp_in_no_port "tcp_in_no_port", cnt_l2_in_not_shared "l2_in_not_shared",
            cnt_icmp_out_echo_reps "icmp_out_echo_reps", cnt_icmp_in_rate_limited "icmp_in_rate_limited",
            cnt_ip4_out_pkts "ip4_out_pkts", cnt_eth_out_frames "eth_out_frames", cnt_eth_out_underrun "eth_out_underrun");
        m.tick();
        self.now += 1;
    }

    fn send(&mut self, frame: &[u8], damaged: bool) {
        for b in beats(frame) {
            self.clock(Some((b, damaged)));
        }
    }
    fn idle(&mut self, clocks: usize) {
        for _ in 0..clocks {
            self.clock(None);
        }
    }
    fn count(&self, name: &str) -> u64 {
        self.counted.get(name).copied().unwrap_or(0)
    }
}

/// An echo reply to `request` as the requester would see it.
fn check_reply(request: &[u8], reply: &[u8]) {
    let (q, a) = (PacketHeaders::from_ethernet_slice(request).expect("ours"), PacketHeaders::from_ethernet_slice(reply).expect("a packet"));
    let (Some(TransportHeader::Icmpv4(q4)), Some(TransportHeader::Icmpv4(a4))) = (&q.transport, &a.transport) else {
        panic!("no ICMP: {a:?}");
    };
    match (&q4.icmp_type, &a4.icmp_type) {
        (Icmpv4Type::EchoRequest(x), Icmpv4Type::EchoReply(y)) => assert_eq!(x, y),
        other => panic!("{other:?}"),
    }
    assert_eq!(a.payload.slice(), q.payload.slice());
    let end = 14 + usize::from(reply[16]) * 256 + usize::from(reply[17]);
    assert_eq!(reply.len(), end.max(60));
    assert!(reply[end..].iter().all(|&o| o == 0), "filled up with zeros");
    assert_eq!(reply[..6], request[6..12]);
    assert_eq!(reply[6..12], MAC);
    assert_eq!((&reply[26..30], &reply[30..34]), (&request[30..34], &request[26..30]));
    assert_eq!((checksum(&[&reply[14..34]]), checksum(&[&reply[34..end]])), (0, 0));
}

/// Covers: ICMP-1, ETH-2, ETH-3
#[test]
fn pings_of_all_kinds_of_length_are_answered() {
    let mut b = Bench::new(Setup::default(), true, 1);
    for n in [0, 1, 2, 17, 18, 19, 56, 57, 64, 1000, 1471, 1472] {
        for seq in 0..20 {
            let data = octets(&mut b.rng, n);
            let request = echo(OWN, 77, seq, &data);
            b.send(&request, false);
            // three times through: out of the buffer, out of the slot, and on the wire
            b.idle(80 + 3 * n / 8);
            let reply = b.out.pop().unwrap_or_else(|| panic!("{n} octets: no reply"));
            check_reply(&request, &reply);
        }
    }
    assert_eq!(b.count("icmp_out_echo_reps"), 240);
    assert_eq!((b.count("icmp_in_echos"), b.count("ip4_in_pkts"), b.count("eth_out_underrun")), (240, 240, 0));
    assert!(b.host.is_empty() && b.tcp.is_empty());
}

/// Covers: ICMP-1, ICMP-12
#[test]
fn ten_thousand_pings_at_the_pace_of_the_wire() {
    let mut b = Bench::new(Setup::default(), true, 2);
    let requests: Vec<_> = (0..10_000u16).map(|seq| echo(OWN, seq ^ 0x5555, seq, &octets(&mut b.rng, usize::from(seq % 57)))).collect();
    for q in &requests {
        b.send(q, false);
        // preamble, FCS and gap on the wire; and the reader of the slots needs about 25 clocks beside its beats
        b.idle(3 + 26);
    }
    b.idle(200);
    assert_eq!(b.count("icmp_in_rate_limited"), 0);
    assert_eq!(b.out.len(), requests.len());
    for (q, a) in requests.iter().zip(&b.out) {
        check_reply(q, a);
    }
}

/// Covers: ICMP-2, ICMP-10, IP-15, IP-4
#[test]
fn nothing_but_echo_replies_is_ever_sent() {
    for share in [true, false] {
        let mut b = Bench::new(Setup { multicast: true, promiscuous: true, ..Default::default() }, share, 3);
        let mut frames = vec![
            to_mac(echo([192, 0, 2, 255], 1, 2, b"smurf"), BROADCAST),
            to_mac(echo([255; 4], 1, 2, b"smurf"), BROADCAST),
            to_mac(echo(OWN, 1, 2, b"smurf"), BROADCAST),
            to_mac(echo([224, 0, 0, 1], 1, 2, b"smurf"), [1, 0, 0x5e, 0, 0, 1]),
            echo([192, 0, 2, 255], 1, 2, b"smurf"),
            syn(REMOTE, [203, 0, 113, 77], 80),
            udp(REMOTE, [203, 0, 113, 77], b"forward me"),
            udp(REMOTE, OWN, b"closed port"),
            datagram(MAC, fragment(ip(REMOTE, OWN, 17), true, 8), &[0; 64]),
            datagram(MAC, ip(REMOTE, OWN, 200), b"unknown protocol"),
        ];
        for kind in (0..=255).filter(|k| *k != 8) {
            frames.push(icmp(OWN, kind, 0, &[0; 40]));
        }
        for source in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [192, 0, 2, 255]] {
            let mut f = echo(OWN, 1, 2, b"answer them");
            f[26..30].copy_from_slice(&source);
            frames.push(fix_ip(f));
        }
        for f in &frames {
            b.send(f, false);
            b.idle(20);
        }
        b.idle(100);
        assert_eq!((b.out.len(), b.count("eth_out_frames")), (0, 0));
    }
}

/// Covers: PDB-4, TCP-28, TCP-1, IP-13
#[test]
fn segments_go_where_their_port_says() {
    for share in [true, false] {
        let mut b = Bench::new(Setup::default(), share, 4);
        for port in 1..600 {
            let f = tcp(REMOTE, OWN, port, b"segment");
            b.send(&f, false);
            b.idle(40);
            let (host, engine) = (b.host.pop(), b.tcp.pop());
            assert_eq!(engine.as_ref() == Some(&f), !share || held(port), "port {port}");
            assert_eq!(host.as_ref() == Some(&f), share && !held(port), "port {port}");
        }
        assert_eq!(b.count("tcp_in_segs"), 599);
        assert_eq!(b.count("tcp_in_no_port"), if share { 0 } else { 400 });
        assert_eq!(b.count("l2_in_not_shared"), 0);
    }
}

/// Covers: IP-13, ETH-1, IP-11
#[test]
fn random_traffic_against_the_plain_model() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test rx_chain random");
    for round in 0..8u64 {
        let setup = Setup { mtu: 1500, multicast: round & 1 != 0, promiscuous: round & 2 != 0 };
        let share = round % 3 != 0;
        let mut b = Bench::new(setup, share, seed + round);
        (b.host_ready, b.mac_ready) = ([1.0, 0.9][round as usize % 2], [1.0, 0.5][round as usize / 2 % 2]);
        let (mut host, mut engine, mut echoes, mut arps) = (vec![], vec![], vec![], 0);
        let mut want: BTreeMap<&'static str, u64> = BTreeMap::new();
        for _ in 0..1500 {
            let mut rng = b.rng.clone();
            let f = any_frame(&mut rng, 1500);
            b.rng = rng;
            let damaged = b.rng.random_bool(0.02);
            let verdict = judge(&setup, &f, damaged);
            let mut add = |name| *want.entry(name).or_insert(0) += 1;
            if !matches!(verdict, Drop("eth_in_fcs_errors" | "eth_in_runts" | "eth_in_oversize")) {
                add("eth_in_frames");
            }
            let class = match verdict {
                Drop(counter) => {
                    add(counter);
                    ""
                }
                Arp => {
                    arps += 1;
                    ""
                }
                Pass(class) => class,
            };
            let own = match class {
                "echo" => "icmp_in_echos",
                "tcp" => "tcp_in_segs",
                "icmp" => "icmp_in_to_host",
                "options" => "ip4_in_options",
                "fragment" => "ip4_in_fragments",
                "other_proto" => "ip4_in_other_proto",
                "vlan" => "rx_vlan_errors",
                "other_type" => "eth_in_other_type",
                _ => "",
            };
            if !own.is_empty() {
                add(own);
            }
            if !matches!(class, "" | "vlan" | "other_type" | "foreign") {
                add("ip4_in_pkts");
            }
            b.send(&f, damaged);
            match class {
                "" => {}
                "echo" => echoes.push(f),
                "tcp" if held(u16::from_be_bytes([f[36], f[37]])) => engine.push(f),
                _ if share => host.push(f),
                "tcp" => {
                    add("tcp_in_no_port");
                    engine.push(f);
                }
                _ => add("l2_in_not_shared"),
            }
            // the replies must keep pace, or some would be missing: that is another test's subject
            b.idle(if class == "echo" { 250 } else { 3 });
        }
        b.idle(3000);
        assert!(b.host == host, "round {round}: host");
        assert!(b.tcp == engine, "round {round}: TCP");
        assert_eq!(b.arps, arps);
        assert_eq!(b.out.len() + b.count("icmp_in_rate_limited") as usize, echoes.len());
        if b.mac_ready == 1.0 {
            assert_eq!(b.out.len(), echoes.len());
            for (q, a) in echoes.iter().zip(&b.out) {
                check_reply(q, a);
            }
        }
        for name in ["icmp_out_echo_reps", "icmp_in_rate_limited", "ip4_out_pkts", "eth_out_frames", "eth_out_underrun"] {
            b.counted.remove(name);
        }
        assert_eq!(b.counted, want, "round {round}");
    }
}

/// Covers: IP-13
#[test]
fn what_has_no_room_is_dropped_whole_and_counted() {
    let mut b = Bench::new(Setup::default(), true, 5);
    b.host_ready = 0.0;
    let mut sent = vec![];
    for i in 0..400u32 {
        let n = if i % 3 == 0 { 1400 } else { 30 };
        let f = udp(REMOTE, OWN, &[&i.to_be_bytes()[..], &octets(&mut b.rng, n)].concat());
        b.send(&f, false);
        sent.push(f);
        b.idle(3);
    }
    b.host_ready = 1.0;
    b.idle(10_000);
    assert_eq!(b.count("eth_in_frames"), 400);
    let lost = b.count("eth_in_overflow") + b.count("rx_meta_dropped");
    assert!(lost > 200, "{lost}");
    assert_eq!(b.host.len() as u64 + lost, 400);
    assert_eq!(b.count("ip4_in_pkts"), b.host.len() as u64, "only what was not lost");
    let mut rest = sent.iter();
    for f in &b.host {
        assert!(rest.any(|s| s == f), "whole frames, in order");
    }
    // and then everything works again
    let f = udp(REMOTE, OWN, b"after");
    b.send(&f, false);
    b.idle(30);
    assert_eq!(b.host.last(), Some(&f));
}

/// A reset in the middle of anything.
#[test]
fn reset_at_any_time_leaves_a_working_path() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test rx_chain reset");
    let mut b = Bench::new(Setup::default(), true, seed);
    for _ in 0..300 {
        (b.host_ready, b.mac_ready) = (b.rng.random_range(0.1..1.0), b.rng.random_range(0.1..1.0));
        let frames: Vec<_> = (0..6).map(|_| any_frame(&mut b.rng.clone(), 300)).collect();
        let all: Vec<_> = frames.iter().flat_map(|f| beats(f)).collect();
        let cut = b.rng.random_range(0..all.len());
        let hold = b.rng.random_range(1..20);
        for (i, beat) in all.iter().enumerate() {
            b.m.reset.set((cut..cut + hold).contains(&i));
            b.clock(Some((*beat, false)));
        }
        for _ in 0..hold {
            b.m.reset.set(b.now & 1 == 0);
            b.clock(None);
        }
        b.m.reset.set(true);
        b.clock(None);
        b.m.reset.set(false);
        (b.host_ready, b.mac_ready) = (1.0, 1.0);
        b.building = Default::default();
        b.lookups.clear();
        (b.host, b.tcp, b.out) = Default::default();
        let (q, u, t) = (echo(OWN, 1, 2, b"alive?"), udp(REMOTE, OWN, b"host"), tcp(REMOTE, OWN, 300, b"engine"));
        for f in [&q, &u, &t] {
            b.send(f, false);
        }
        b.idle(80);
        assert_eq!((&b.host, &b.tcp, b.out.len()), (&vec![u], &vec![t], 1));
        check_reply(&q, &b.out[0]);
    }
}
