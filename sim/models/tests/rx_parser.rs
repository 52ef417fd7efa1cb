// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::rx_parser` against `net::judge`: sweeps of single fields, and random frames back to back.
mod net;
use ironwarp_models::{rx_parser::Model, Dut};
use net::Verdict::{self, Arp, Drop, Pass};
use net::*;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

const COUNTERS: [&str; 15] = [
    "eth_in_frames",
    "eth_in_fcs_errors",
    "eth_in_runts",
    "eth_in_oversize",
    "eth_in_other_mac",
    "eth_in_multicast",
    "arp_in_ignored",
    "ip4_in_hdr_errors",
    "ip4_in_csum_errors",
    "ip4_in_addr_errors",
    "ip4_in_src_errors",
    "icmp_in_csum_errors",
    "icmp_in_broadcast",
    "icmp_in_unknown",
    "tcp_in_csum_errors",
];

/// What the block said at the end of a frame.
#[derive(Clone, Debug, Default)]
struct Seen {
    passed: bool,
    frame: Vec<u8>,
    counters: Vec<&'static str>,
    class: Vec<&'static str>,
    arp: Option<[u64; 6]>,
    /// link_broadcast, len, src_ip, dst_ip, ip_len, src_port, dst_port, seq, ack, tcp_flags, data_offset, window
    meta: [u64; 12],
}

struct Bench {
    m: Model,
    setup: Setup,
    frame: Vec<u8>,
    seen: VecDeque<Seen>,
}

impl Bench {
    fn new() -> Self {
        let mut b = Bench { m: Model::new(1), setup: Setup::default(), frame: vec![], seen: VecDeque::new() };
        b.apply();
        b.m.enable.set(true);
        b.m.reset.set(true);
        b.m.tick();
        b.m.reset.set(false);
        b
    }

    fn with(setup: Setup) -> Self {
        let mut b = Bench::new();
        b.setup = setup;
        b.apply();
        b
    }

    fn apply(&mut self) {
        let m = &mut self.m;
        m.mac.set(mac_number(MAC));
        m.mtu.set(self.setup.mtu);
        m.multicast.set(self.setup.multicast);
        m.promiscuous.set(self.setup.promiscuous);
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
    }

    /// One clock with a beat or without.
    fn clock(&mut self, beat: Option<(Octets, bool)>) {
        let m = &mut self.m;
        m.valid.set(beat.is_some());
        if let Some((b, damaged)) = beat {
            m.beat_data.set(b.data);
            m.beat_keep.set(b.keep);
            m.beat_last.set(u64::from(b.last));
            m.beat_error.set(u64::from(damaged && b.last));
        }
        m.eval();
        let pulses = [
            m.cnt_eth_in_frames.get(),
            m.cnt_eth_in_fcs_errors.get(),
            m.cnt_eth_in_runts.get(),
            m.cnt_eth_in_oversize.get(),
            m.cnt_eth_in_other_mac.get(),
            m.cnt_eth_in_multicast.get(),
            m.cnt_arp_in_ignored.get(),
            m.cnt_ip4_in_hdr_errors.get(),
            m.cnt_ip4_in_csum_errors.get(),
            m.cnt_ip4_in_addr_errors.get(),
            m.cnt_ip4_in_src_errors.get(),
            m.cnt_icmp_in_csum_errors.get(),
            m.cnt_icmp_in_broadcast.get(),
            m.cnt_icmp_in_unknown.get(),
            m.cnt_tcp_in_csum_errors.get(),
        ];
        let counters: Vec<_> = COUNTERS.iter().zip(pulses).filter(|(_, p)| *p).map(|(n, _)| *n).collect();
        let arp = m.arp_valid.get().then(|| {
            [
                m.arp_data_request.get(),
                m.arp_data_sender_mac.get(),
                m.arp_data_sender_ip.get(),
                m.arp_data_target_ip.get(),
                m.arp_data_target_is_ours.get(),
                m.arp_data_sender_is_ours.get(),
            ]
        });
        let at_end = m.out_valid.get() && m.out_last.bit();
        assert!(at_end || counters.is_empty() && arp.is_none(), "{counters:?} outside the last beat");
        if m.out_valid.get() {
            push(&mut self.frame, m.out_data.get(), m.out_keep.get());
        }
        if at_end {
            let class = [
                ("echo", &m.meta_echo),
                ("tcp", &m.meta_tcp),
                ("icmp", &m.meta_icmp),
                ("options", &m.meta_options),
                ("fragment", &m.meta_fragment),
                ("other_proto", &m.meta_other_proto),
                ("vlan", &m.meta_vlan),
                ("other_type", &m.meta_other_type),
                ("foreign", &m.meta_foreign),
                ("ip", &m.meta_ip),
            ];
            self.seen.push_back(Seen {
                passed: !m.out_error.bit(),
                frame: std::mem::take(&mut self.frame),
                counters,
                class: class.iter().filter(|(_, b)| b.bit()).map(|(n, _)| *n).collect(),
                arp,
                meta: [
                    m.meta_link_broadcast.get(),
                    m.meta_len.get(),
                    m.meta_src_ip.get(),
                    m.meta_dst_ip.get(),
                    m.meta_ip_len.get(),
                    m.meta_src_port.get(),
                    m.meta_dst_port.get(),
                    m.meta_seq.get(),
                    m.meta_ack.get(),
                    m.meta_tcp_flags.get(),
                    m.meta_data_offset.get(),
                    m.meta_window.get(),
                ],
            });
        }
        m.tick();
    }

    /// Sends a frame alone and checks that the block says what [`judge`] says: IP-13 holds for each one.
    fn send(&mut self, frame: &[u8], damaged: bool) -> Verdict {
        for b in beats(frame) {
            self.clock(Some((b, damaged)));
        }
        for _ in 0..8 {
            self.clock(None);
        }
        let seen = self.seen.pop_front().expect("a frame went in");
        assert!(self.seen.is_empty());
        self.check(frame, damaged, &seen)
    }

    fn check(&self, frame: &[u8], damaged: bool, seen: &Seen) -> Verdict {
        let verdict = judge(&self.setup, frame, damaged);
        assert!(seen.frame == frame, "beats are passed on unchanged");
        let start = &frame[..frame.len().min(80)];
        let seen = Seen { frame: vec![], ..seen.clone() };
        let say = || format!("{verdict:?} expected, {seen:x?} for {} octets {start:02x?}", frame.len());
        let link_bad = matches!(verdict, Drop("eth_in_fcs_errors" | "eth_in_runts" | "eth_in_oversize"));
        let mut counters = vec![];
        if !link_bad {
            counters.push("eth_in_frames");
        }
        if let Drop(counter) = verdict {
            counters.push(counter);
        }
        assert_eq!(seen.counters, counters, "{}", say());
        assert_eq!(seen.passed, matches!(verdict, Pass(_)), "{}", say());
        assert_eq!(seen.arp.is_some(), verdict == Arp, "{}", say());
        if let Pass(class) = verdict {
            let ip = matches!(class, "echo" | "tcp" | "icmp" | "options" | "fragment" | "other_proto");
            assert_eq!(seen.class, if ip { vec![class, "ip"] } else { vec![class] }, "{}", say());
            assert_eq!(seen.meta[..2], [u64::from(frame[0] & 1), frame.len() as u64], "{}", say());
            let be = |at: usize, n: usize| frame[at..at + n].iter().fold(0, |v, &o| v << 8 | u64::from(o));
            if ip {
                assert_eq!(seen.meta[2..5], [be(26, 4), be(30, 4), be(16, 2)], "{}", say());
            }
            if class == "tcp" {
                let want = [be(34, 2), be(36, 2), be(38, 4), be(42, 4), be(47, 1), be(46, 1) >> 4, be(48, 2)];
                assert_eq!(seen.meta[5..], want, "{}", say());
            }
        } else {
            assert!(seen.class.is_empty(), "{}", say());
        }
        if let Some(arp) = seen.arp {
            let be = |at: usize| frame[at..at + 4].iter().fold(0, |v, &o| v << 8 | u64::from(o));
            let mac = mac_number(frame[22..28].try_into().expect("6 octets"));
            let ours = |ip| u64::from(ADDRESSES[..VALID].iter().any(|a| number(a.0) == ip));
            assert_eq!(arp, [u64::from(frame[21] == 1), mac, be(28), be(38), ours(be(38)), ours(be(28))], "{}", say());
        }
        verdict
    }
}

fn rng(n: u64) -> rand_chacha::ChaCha8Rng {
    rand_chacha::ChaCha8Rng::seed_from_u64(n)
}

/// Covers: ETH-1, ETH-8, ETH-9, DEF-41
#[test]
fn every_ethertype_has_its_class() {
    let mut b = Bench::new();
    let body = tcp(REMOTE, OWN, 80, b"x")[14..].to_vec();
    for kind in 0..=u16::MAX {
        let want = match kind {
            0x0800 => Pass("tcp"),
            0x0806 => Drop("arp_in_ignored"),
            0x8100 | 0x88a8 => Pass("vlan"),
            _ => Pass("other_type"), // SNAP: lengths up to 1500
        };
        assert_eq!(b.send(&ethertype(kind, &body), false), want, "{kind:#06x}");
    }
    // a tagged SYN is not a SYN
    assert_eq!(b.send(&tagged(&syn(REMOTE, OWN, 80), 0x8100), false), Pass("vlan"));
}

/// Covers: ETH-4, ETH-5
#[test]
fn damaged_short_and_long_frames_are_dropped() {
    for mtu in [576u16, 1500, 9000] {
        let mut b = Bench::with(Setup { mtu, ..Default::default() });
        let most = usize::from(mtu) + 14;
        for len in (1..200).chain(most - 20..most + 30).chain([65_000, 66_000]) {
            let mut f = ethertype(0x1234, &[7; 70_000]);
            f.truncate(len);
            let want = match len {
                0..=59 => Drop("eth_in_runts"),
                _ if len <= most => Pass("other_type"),
                _ => Drop("eth_in_oversize"),
            };
            assert_eq!(b.send(&f, false), want, "{len} octets");
            assert_eq!(b.send(&f, true), Drop("eth_in_fcs_errors"), "{len} octets");
            let mut t = ethertype(0x8100, &[7; 70_000]);
            t.truncate(len);
            let want = match len {
                0..=59 => Drop("eth_in_runts"),
                _ if len <= most + 4 => Pass("vlan"),
                _ => Drop("eth_in_oversize"),
            };
            assert_eq!(b.send(&t, false), want, "{len} octets, tagged");
        }
        // the largest datagram that the MTU allows is received
        assert_eq!(b.send(&tcp(REMOTE, OWN, 80, &vec![9; usize::from(mtu) - 40]), false), Pass("tcp"));
    }
}

/// Covers: ETH-3
#[test]
fn what_follows_the_datagram_is_not_part_of_it() {
    let (mut b, mut r) = (Bench::new(), rng(3));
    for payload in 0..20 {
        for trailer in 0..30 {
            let mut f = tcp(REMOTE, OWN, 80, &vec![5; payload]);
            f.truncate(54 + payload);
            let garbage = octets(&mut r, trailer.max(6_usize.saturating_sub(payload)));
            f.extend(garbage);
            assert_eq!(b.send(&f, false), Pass("tcp"), "the sum ends with the datagram; ip_len tells its end");
        }
    }
}

/// Covers: ETH-6, IP-4
#[test]
fn broadcast_frames_are_marked_and_never_reach_tcp() {
    let mut b = Bench::new();
    for dst in [OWN, [255; 4], [192, 0, 2, 255], [10, 255, 255, 255]] {
        let want = if dst == OWN { Pass("tcp") } else { Pass("other_proto") };
        assert_eq!(b.send(&syn(REMOTE, dst, 80), false), want, "broadcast IP address in a unicast frame");
        assert_eq!(b.send(&to_mac(syn(REMOTE, dst, 80), BROADCAST), false), Pass("other_proto"), "marked: checked in `check`");
        assert_eq!(b.send(&to_mac(udp(REMOTE, dst, b"dhcp"), BROADCAST), false), Pass("other_proto"));
    }
    // a group address as the source is not to be answered
    let mut f = syn(REMOTE, OWN, 80);
    f[6] |= 1;
    assert_eq!(b.send(&f, false), Pass("other_proto"));
}

/// Covers: ETH-7, ETH-6
#[test]
fn other_mac_addresses_are_for_the_host_only_if_it_asked() {
    for (multicast, promiscuous) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut b = Bench::with(Setup { multicast, promiscuous, ..Default::default() });
        for bit in 0..48 {
            let mut mac = MAC;
            mac[bit / 8] ^= 1 << (bit % 8);
            let want = match (mac[0] & 1 == 1, multicast, promiscuous) {
                (true, true, _) | (false, _, true) => Pass("foreign"),
                (true, false, _) => Drop("eth_in_multicast"),
                (false, _, false) => Drop("eth_in_other_mac"),
            };
            assert_eq!(b.send(&to_mac(syn(REMOTE, OWN, 80), mac), false), want, "{mac:02x?}");
            assert_eq!(b.send(&to_mac(arp(1, REMOTE, OWN), mac), false), want, "{mac:02x?}");
            let mut near = BROADCAST;
            near[bit / 8] ^= 1 << (bit % 8);
            b.send(&to_mac(arp(1, REMOTE, OWN), near), false);
        }
        let want = if multicast { Pass("foreign") } else { Drop("eth_in_multicast") };
        assert_eq!(b.send(&to_mac(udp(REMOTE, [224, 0, 0, 251], b"mdns"), [1, 0, 0x5e, 0, 0, 251]), false), want);
    }
}

/// Covers: ARP-1
#[test]
fn arp_packets_with_a_wrong_field_are_ignored() {
    let mut b = Bench::new();
    for (op, sender, target) in [(1, REMOTE, OWN), (2, REMOTE, OWN), (1, OWN, REMOTE), (2, [10, 1, 2, 3], [198, 51, 100, 9])] {
        assert_eq!(b.send(&arp(op, sender, target), false), Arp);
        assert_eq!(b.send(&to_mac(arp(op, sender, target), MAC), false), Arp);
    }
    for bit in 8 * 14..8 * 22 {
        let mut f = arp(1, REMOTE, OWN);
        f[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(b.send(&f, false), Drop("arp_in_ignored"), "bit {bit}");
    }
    for op in 0..=u16::MAX {
        let want = if op == 1 || op == 2 { Arp } else { Drop("arp_in_ignored") };
        if op < 300 || op % 251 == 0 {
            assert_eq!(b.send(&arp(op, REMOTE, OWN), false), want, "opcode {op}");
        }
    }
}

/// Covers: IP-1, IP-3
#[test]
fn version_header_length_and_total_length() {
    let mut b = Bench::new();
    let good = tcp(REMOTE, OWN, 80, &[3; 20]);
    for octet in 0..=255u8 {
        let mut f = good.clone();
        f[14] = octet;
        let f = fix_ip(f);
        let verdict = b.send(&f, false);
        if octet >> 4 != 4 || octet & 15 < 5 {
            assert_eq!(verdict, Drop("ip4_in_hdr_errors"), "version {}, IHL {}", octet >> 4, octet & 15);
        }
    }
    for words in 5..16u8 {
        for total in (0..=good.len() as u16).chain([good.len() as u16 + 1, 0x7fff, 0x8000, 0xfff2, 0xffff]) {
            let mut f = good.clone();
            f[14] = 0x40 | words;
            f[16..18].copy_from_slice(&total.to_be_bytes());
            let bad = total < 4 * u16::from(words) || usize::from(total) + 14 > f.len();
            let verdict = b.send(&fix_ip(f), false);
            assert_eq!(verdict == Drop("ip4_in_hdr_errors"), bad, "IHL {words}, Total Length {total}: {verdict:?}");
        }
    }
    // frame lengths around the datagram's
    for len in 60..good.len() {
        assert_eq!(b.send(&good[..len], false), Drop("ip4_in_hdr_errors"), "{len} of {} octets", good.len());
    }
}

/// Covers: IP-2, IP-6, IP-14
#[test]
fn each_single_bit_error_in_an_ip_header_is_seen() {
    let mut b = Bench::new();
    for words in 0..=10 {
        let good = datagram(MAC, with_options(ip(REMOTE, OWN, 6), words), &[1; 40]);
        let want = if words == 0 { Drop("tcp_in_csum_errors") } else { Pass("options") };
        assert_eq!(b.send(&good, false), want);
        for bit in 8 * 14..8 * (34 + 4 * words) {
            let mut f = good.clone();
            f[bit / 8] ^= 1 << (bit % 8);
            let verdict = b.send(&f, false);
            assert!(matches!(verdict, Drop("ip4_in_hdr_errors" | "ip4_in_csum_errors")), "bit {bit}: {verdict:?}");
        }
    }
    // sums that meet 0xffff and 0x0000
    for ident in 0..=u16::MAX {
        if !(64..65_472).contains(&ident) || ident % 97 == 0 {
            let mut f = tcp(REMOTE, OWN, 80, &[]);
            f[18..20].copy_from_slice(&ident.to_be_bytes());
            assert_eq!(b.send(&fix_ip(f), false), Pass("tcp"));
        }
    }
}

/// Covers: IP-4, IP-15
#[test]
fn datagrams_to_other_addresses_are_dropped() {
    let mut b = Bench::new();
    for (i, (ip, _)) in ADDRESSES.into_iter().enumerate() {
        let want = if i < VALID { Pass("tcp") } else { Drop("ip4_in_addr_errors") };
        assert_eq!(b.send(&syn(REMOTE, ip, 80), false), want, "{ip:?}");
        for bit in 0..32 {
            let mut near = ip;
            near[bit / 8] ^= 1 << (bit % 8);
            b.send(&syn(REMOTE, near, 80), false);
            b.send(&echo(near, 1, 2, &[]), false);
        }
    }
    for other in [[192, 0, 2, 2], [192, 0, 3, 1], [0; 4], [127, 0, 0, 1], [198, 51, 100, 255], [224, 0, 0, 1], [192, 0, 2, 0]] {
        assert_eq!(b.send(&syn(REMOTE, other, 80), false), Drop("ip4_in_addr_errors"), "{other:?}");
    }
    let mut b = Bench::with(Setup { multicast: true, ..Default::default() });
    assert_eq!(b.send(&to_mac(udp(REMOTE, [224, 0, 0, 1], b"igmp"), BROADCAST), false), Pass("other_proto"));
    assert_eq!(b.send(&udp(REMOTE, [240, 0, 0, 1], b"no"), false), Drop("ip4_in_addr_errors"));
}

/// Covers: IP-5
#[test]
fn sources_that_no_host_may_have_are_dropped() {
    let mut b = Bench::new();
    for src in [[255; 4], [224, 0, 0, 1], [239, 255, 255, 255], [240, 0, 0, 1], [127, 0, 0, 1], [127, 255, 255, 255], [192, 0, 2, 255]] {
        assert_eq!(b.send(&syn(src, OWN, 80), false), Drop("ip4_in_src_errors"), "{src:?}");
        assert_eq!(b.send(&udp(src, OWN, b""), false), Drop("ip4_in_src_errors"), "{src:?}");
    }
    for src in [[0; 4], [0, 1, 2, 3]] {
        assert_eq!(b.send(&syn(src, OWN, 80), false), Drop("ip4_in_src_errors"), "{src:?}");
        assert_eq!(b.send(&udp(src, OWN, b"dhcp"), false), Pass("other_proto"), "a host may ask for its address");
    }
    for first in 1..=255u8 {
        let bad = first == 127 || first >= 224;
        assert_eq!(b.send(&syn([first, 7, 8, 9], OWN, 80), false) == Drop("ip4_in_src_errors"), bad, "{first}.7.8.9");
    }
}

/// Covers: IP-6, IP-7, IP-14
#[test]
fn options_and_fragments_go_to_the_host() {
    let mut b = Bench::new();
    for words in 1..=10 {
        for protocol in [1, 6, 17] {
            assert_eq!(b.send(&datagram(MAC, with_options(ip(REMOTE, OWN, protocol), words), &[0; 33]), false), Pass("options"));
        }
    }
    for offset in (0..13).map(|i| 1 << i).chain([0, 0x1fff]) {
        for more in [false, true] {
            let f = datagram(MAC, fragment(ip(REMOTE, OWN, 6), more, offset), &[0xee; 64]);
            let want = if more || offset > 0 { Pass("fragment") } else { Drop("tcp_in_csum_errors") };
            assert_eq!(b.send(&f, false), want, "offset {offset}, more {more}");
        }
    }
    // DF and the reserved bit are no fragment
    for flags in [0x40, 0x80, 0xc0] {
        let mut f = tcp(REMOTE, OWN, 80, b"data");
        f[20] = flags;
        assert_eq!(b.send(&fix_ip(f), false), Pass("tcp"));
    }
}

/// Covers: IP-9, IP-11
#[test]
fn any_ttl_is_received_and_the_protocol_decides() {
    let mut b = Bench::new();
    for ttl in 0..=255 {
        let mut f = syn(REMOTE, OWN, 80);
        f[22] = ttl;
        assert_eq!(b.send(&fix_ip(f), false), Pass("tcp"), "TTL {ttl}");
    }
    for protocol in 0..=255 {
        let want = match protocol {
            1 => Drop("icmp_in_csum_errors"),
            6 => Drop("tcp_in_csum_errors"),
            _ => Pass("other_proto"),
        };
        assert_eq!(b.send(&datagram(MAC, ip(REMOTE, OWN, protocol), &[0x55; 40]), false), want, "protocol {protocol}");
    }
}

/// Covers: ICMP-2, ICMP-3, ICMP-6, ICMP-11
#[test]
fn every_icmp_type_has_its_way() {
    let mut b = Bench::new();
    for kind in 0..=255 {
        for code in 0..4 {
            for dst in [OWN, [192, 0, 2, 255]] {
                let want = match (kind, code) {
                    (8, 0) if dst == OWN => Pass("echo"),
                    (8, 0) => Drop("icmp_in_broadcast"),
                    (0 | 3 | 5 | 11 | 12 | 14 | 16 | 18, _) => Pass("icmp"),
                    _ => Drop("icmp_in_unknown"),
                };
                assert_eq!(b.send(&icmp(dst, kind, code, &[1, 2, 3, 4, 5]), false), want, "type {kind} code {code} to {dst:?}");
            }
        }
    }
    assert_eq!(b.send(&to_mac(echo(OWN, 1, 2, &[9; 8]), BROADCAST), false), Drop("icmp_in_broadcast"));
    assert_eq!(b.send(&to_mac(echo([255; 4], 1, 2, &[9; 8]), BROADCAST), false), Drop("icmp_in_broadcast"));
}

/// Covers: ICMP-9
#[test]
fn icmp_errors_cut_at_any_octet_are_verified_and_passed() {
    let mut b = Bench::new();
    let quoted = tcp(OWN, REMOTE, 80, b"12345678");
    for kind in [3, 4, 5, 11, 12] {
        for cut in 0..=60 {
            let rest = [&[0; 4], &quoted[14..14 + cut.min(quoted.len() - 14)]].concat();
            let good = icmp(OWN, kind, 1, &rest);
            let want = if kind == 4 { Drop("icmp_in_unknown") } else { Pass("icmp") };
            assert_eq!(b.send(&good, false), want);
            let last = 14 + usize::from(good[16]) * 256 + usize::from(good[17]) - 1;
            let mut f = good;
            f[last] ^= 0x10;
            assert_eq!(b.send(&f, false), Drop("icmp_in_csum_errors"), "type {kind}, {cut} octets quoted");
        }
    }
    // fewer than the 8 octets of an ICMP header
    for n in 0..8 {
        let mut message = [3, 1, 0, 0, 0, 0, 0, 0];
        let sum = checksum(&[&message[..n]]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(b.send(&datagram(MAC, ip(REMOTE, OWN, 1), &message[..n]), false), Drop("icmp_in_csum_errors"), "{n} octets");
    }
    // a message of zeros sums up to zero, which no right checksum does
    assert_eq!(b.send(&datagram(MAC, ip(REMOTE, OWN, 1), &[0; 8]), false), Drop("icmp_in_csum_errors"));
}

/// Covers: TCP-1
#[test]
fn each_single_bit_error_in_a_segment_is_seen() {
    let (mut b, mut r) = (Bench::new(), rng(5));
    for n in (0..40).chain([535, 536, 1459, 1460]) {
        let good = tcp(REMOTE, OWN, 80, &octets(&mut r, n));
        assert_eq!(b.send(&good, false), Pass("tcp"), "{n} octets of text");
        let bits: Vec<usize> =
            if n < 40 { (8 * 34..8 * (54 + n)).collect() } else { (0..64).map(|_| r.random_range(8 * 34..8 * (54 + n))).collect() };
        for bit in bits {
            let mut f = good.clone();
            f[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(b.send(&f, false), Drop("tcp_in_csum_errors"), "bit {bit} with {n} octets of text");
        }
    }
    // the addresses are in the sum: right in the IP header, wrong in the pseudo header
    let mut f = syn(REMOTE, OWN, 80);
    f[29] ^= 1;
    assert_eq!(b.send(&fix_ip(f), false), Drop("tcp_in_csum_errors"));
    // and so is the length: one zero octet more of text
    let mut f = tcp(REMOTE, OWN, 80, &[1, 2]);
    f[17] += 1;
    assert_eq!(b.send(&fix_ip(f), false), Drop("tcp_in_csum_errors"));
}

/// Covers: TCP-1
#[test]
fn both_forms_of_zero_are_right_in_the_tcp_checksum_field() {
    let mut b = Bench::new();
    for n in [2, 3, 18, 19] {
        let mut text = vec![0x5a; n];
        text[..2].fill(0);
        let with_zero = tcp(REMOTE, OWN, 80, &text);
        // the text's first word takes over the value of the checksum field, which becomes 0
        text[..2].copy_from_slice(&with_zero[50..52]);
        let mut f = tcp(REMOTE, OWN, 80, &text);
        assert_eq!(f[50..52], [0, 0]);
        assert_eq!(b.send(&f, false), Pass("tcp"));
        f[50..52].fill(0xff);
        assert_eq!(b.send(&f, false), Pass("tcp"));
        f[50..52].copy_from_slice(&[0xff, 0xfe]);
        assert_eq!(b.send(&f, false), Drop("tcp_in_csum_errors"));
        f[50..52].copy_from_slice(&[0, 1]);
        assert_eq!(b.send(&f, false), Drop("tcp_in_csum_errors"));
    }
}

/// Covers: TCP-1
#[test]
fn a_tcp_header_has_to_lie_within_the_datagram() {
    let mut b = Bench::new();
    for n in 0..=60usize {
        for words in 0..16u8 {
            let mut segment = vec![0; n];
            if n > 13 {
                segment[12] = words << 4;
                segment[13] = 0x10;
            }
            if n > 17 {
                let pseudo = [&REMOTE[..], &OWN, &[0, 6, 0, n as u8]].concat();
                let sum = checksum(&[&pseudo, &segment]);
                segment[16..18].copy_from_slice(&sum.to_be_bytes());
            }
            let good = n >= 20 && words >= 5 && 4 * usize::from(words) <= n;
            let want = if good { Pass("tcp") } else { Drop("tcp_in_csum_errors") };
            assert_eq!(b.send(&datagram(MAC, ip(REMOTE, OWN, 6), &segment), false), want, "{n} octets, data offset {words}");
        }
    }
}

/// Covers: IP-13, TCP-1, IP-2
#[test]
fn random_frames_back_to_back() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test rx_parser random");
    let mut r = rng(seed);
    let mut kinds = std::collections::BTreeMap::new();
    for round in 0..20u64 {
        let setup = Setup { mtu: [576, 1500][round as usize % 2], multicast: round % 3 == 0, promiscuous: round % 5 == 0 };
        let mut b = Bench::with(setup);
        let mut sent = VecDeque::new();
        let (gap, inner) = ([0.0, 0.0, 0.3, 0.8][round as usize % 4], [0.0, 0.0, 0.1][round as usize % 3]);
        for _ in 0..1000 {
            let frame = any_frame(&mut r, usize::from(setup.mtu));
            let damaged = r.random_bool(0.03);
            for beat in beats(&frame) {
                while r.random_bool(inner) {
                    b.clock(None);
                }
                b.clock(Some((beat, damaged)));
            }
            sent.push_back((frame, damaged));
            while r.random_bool(gap) {
                b.clock(None);
            }
            while let Some(seen) = b.seen.pop_front() {
                let (frame, damaged) = sent.pop_front().expect("no more out than in");
                *kinds.entry(b.check(&frame, damaged, &seen)).or_insert(0) += 1;
            }
        }
        for _ in 0..8 {
            b.clock(None);
        }
        assert_eq!(b.seen.len(), sent.len(), "every frame has an end");
        for (seen, (frame, damaged)) in b.seen.iter().zip(&sent) {
            b.check(frame, *damaged, seen);
        }
    }
    println!("{kinds:?}");
    assert_eq!(kinds.len(), 14 + 9 + 1, "each verdict was met: {kinds:?}");
}

/// Covers: IP-13
#[test]
fn a_frame_that_a_reset_or_the_start_cut_does_not_exist() {
    for cut in 0..12 {
        for hold in [1, 3, 20] {
            let mut b = Bench::new();
            let frame = tcp(REMOTE, OWN, 80, &[1; 40]);
            let all = beats(&frame);
            for (i, beat) in all.iter().enumerate() {
                b.m.reset.set((cut..cut + hold).contains(&i));
                b.clock(Some((*beat, false)));
            }
            b.m.reset.set(false);
            for _ in 0..10 {
                b.clock(None);
            }
            assert!(b.seen.is_empty(), "reset in beats {cut}..{}: {:x?}", cut + hold, b.seen);
            b.frame.clear();
            assert_eq!(b.send(&frame, false), Pass("tcp"));
            // not enabled when it began
            b.m.enable.set(false);
            for (i, beat) in all.iter().enumerate() {
                b.m.enable.set(i > cut);
                b.clock(Some((*beat, false)));
            }
            b.m.enable.set(true);
            for _ in 0..10 {
                b.clock(None);
            }
            assert!(b.seen.is_empty());
            assert_eq!(b.send(&frame, false), Pass("tcp"));
        }
    }
}
