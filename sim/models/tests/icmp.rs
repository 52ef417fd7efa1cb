// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::icmp`: echo requests in, echo replies out, read with `etherparse`.
mod net;
use etherparse::{Ethernet2Header, Icmpv4Header, Icmpv4Type, Ipv4Header};
use ironwarp_models::{icmp::Model, Dut};
use net::*;
use rand::{Rng, SeedableRng};

struct Bench {
    m: Model,
    frame: Vec<u8>,
    replies: Vec<Vec<u8>>,
    /// Echo replies, datagrams, rate-limited requests.
    counted: [u64; 3],
    ready: f64,
    gaps: u64,
}

impl Bench {
    fn new() -> Self {
        let mut m = Model::new(5);
        m.mac.set(mac_number(MAC));
        m.ip_ttl.set(64);
        m.icmp_rate.set(0);
        m.tick_us.set(0);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        Bench { m, frame: vec![], replies: vec![], counted: [0; 3], ready: 1.0, gaps: 0 }
    }

    fn clock(&mut self, beat: Option<(Octets, usize)>, rng: &mut impl Rng) {
        let m = &mut self.m;
        m.inp_valid.set(beat.is_some());
        if let Some((b, len)) = beat {
            m.inp_beat_data.set(b.data);
            m.inp_beat_keep.set(b.keep);
            m.inp_beat_last.set(u64::from(b.last));
            m.meta_len.set(len as u64);
        }
        let ready = rng.random_bool(self.ready);
        m.out_ready.set(ready);
        m.eval();
        assert!(m.inp_ready.get(), "takes at the pace of the wire");
        for (n, pulse) in [&m.cnt_icmp_out_echo_reps, &m.cnt_ip4_out_pkts, &m.cnt_icmp_in_rate_limited].iter().enumerate() {
            self.counted[n] += u64::from(pulse.get());
        }
        if m.out_valid.get() && ready {
            push(&mut self.frame, m.out_beat_data.get(), m.out_beat_keep.get());
            let used = m.out_beat_keep.get().count_ones() * 8;
            assert!(used == 64 || m.out_beat_data.get() >> used == 0, "nothing of the request leaks behind the end");
            if m.out_beat_last.bit() {
                self.replies.push(std::mem::take(&mut self.frame));
            }
        } else if !self.frame.is_empty() && ready {
            self.gaps += 1;
        }
        m.tick();
    }

    fn send(&mut self, request: &[u8], rng: &mut impl Rng) {
        for b in beats(request) {
            self.clock(Some((b, request.len())), rng);
        }
    }

    fn idle(&mut self, clocks: usize, rng: &mut impl Rng) {
        for _ in 0..clocks {
            self.clock(None, rng);
        }
    }
}

/// Checks all of ICMP-1; returns the identification.
fn check(request: &[u8], reply: &[u8], ttl: u8) -> u16 {
    let (q, q_rest) = Ethernet2Header::from_slice(request).expect("ours");
    let (a, a_rest) = Ethernet2Header::from_slice(reply).expect("Ethernet");
    assert_eq!((a.destination, a.source, a.ether_type), (q.source, q.destination, q.ether_type));
    let (q, q_rest) = Ipv4Header::from_slice(q_rest).expect("ours");
    let (a, a_rest) = Ipv4Header::from_slice(a_rest).expect("IPv4");
    assert_eq!((a.source, a.destination), (q.destination, q.source), "from the address that was asked");
    assert_eq!(a.header_checksum, a.calc_header_checksum());
    assert_eq!((a.total_len, a.protocol, a.time_to_live), (q.total_len, q.protocol, ttl));
    assert!(a.dont_fragment && !a.is_fragmenting_payload() && a.options.is_empty());
    assert_eq!((a.dscp, a.ecn.value()), (q.dscp, 0));
    assert_eq!(reply.len(), 14 + usize::from(a.total_len), "the frame ends with the datagram");
    let q_rest = &q_rest[..usize::from(q.total_len) - 20];
    let (q, q_data) = Icmpv4Header::from_slice(q_rest).expect("ours");
    let (icmp, data) = Icmpv4Header::from_slice(a_rest).expect("ICMP");
    assert_eq!(checksum(&[a_rest]), 0, "right as the receiver adds it up");
    let canonical = icmp.icmp_type.calc_checksum(data);
    assert!(icmp.checksum == canonical || (icmp.checksum, canonical) == (0xffff, 0), "{:#x} for {canonical:#x}", icmp.checksum);
    match (q.icmp_type, icmp.icmp_type) {
        (Icmpv4Type::EchoRequest(q), Icmpv4Type::EchoReply(a)) => assert_eq!(q, a, "id and sequence"),
        other => panic!("{other:?}"),
    }
    assert!(data == q_data, "same data");
    a.identification
}

fn rng(seed: u64) -> rand_chacha::ChaCha8Rng {
    rand_chacha::ChaCha8Rng::seed_from_u64(seed)
}

/// Covers: ICMP-1, IP-2, IP-12
#[test]
fn every_length_is_answered() {
    let mut r = rng(1);
    let mut b = Bench::new();
    let mut last = None;
    for n in 0..=1472 {
        b.ready = [1.0, 0.5][n % 2];
        let mut request = echo(OWN, r.random(), r.random(), &octets(&mut r, n));
        // MAC addresses, DSCP and ECN, IP addresses
        for (at, len) in [(0, 6), (6, 6), (15, 1), (26, 8)] {
            let value = octets(&mut r, len);
            request[at..at + len].copy_from_slice(&value);
        }
        let request = fix_ip(request);
        b.m.mac.set(mac_number(request[..6].try_into().expect("6 octets")));
        b.send(&request, &mut r);
        b.idle(if n % 2 == 0 { 240 } else { 500 }, &mut r);
        let reply = b.replies.pop().unwrap_or_else(|| panic!("{n} octets: no reply"));
        let ident = check(&request, &reply, 64);
        assert!(last.is_none_or(|l: u16| l.wrapping_add(1) == ident), "identification counts");
        last = Some(ident);
    }
    assert_eq!((b.counted, b.gaps), ([1473, 1473, 0], 0));
}

/// Covers: ICMP-1
#[test]
fn sums_at_the_edges_of_ones_complement() {
    let mut r = rng(2);
    let mut b = Bench::new();
    let mut idents = 0..=u64::MAX;
    // all zeros; then the sequence number goes through all values, and with it the checksum and the identification
    for seq in 0..=u16::MAX {
        for data in [&[][..], &[0xff, 0xff, 8]].into_iter().take(if !(300..=65_000).contains(&seq) { 2 } else { 1 }) {
            let request = echo(OWN, 0, seq, data);
            b.send(&request, &mut r);
            b.idle(32, &mut r);
            let ident = check(&request, &b.replies.pop().expect("answered"), 64);
            assert_eq!(Some(u64::from(ident)), idents.next().map(|i| i & 0xffff), "counts the datagrams since power-up");
        }
    }
}

/// Covers: IP-9
#[test]
fn ttl_is_the_registers_and_never_zero() {
    let mut r = rng(3);
    let mut b = Bench::new();
    for ttl in 0..=255 {
        b.m.ip_ttl.set(ttl);
        let request = echo(OWN, 1, 2, b"ttl");
        b.send(&request, &mut r);
        b.idle(40, &mut r);
        check(&request, &b.replies.pop().expect("answered"), if ttl == 0 { 64 } else { ttl });
    }
}

/// Covers: ICMP-12
#[test]
fn replies_keep_the_distance_of_the_register() {
    let mut r = rng(4);
    for tick in [1u16, 7] {
        let mut b = Bench::new();
        b.m.icmp_rate.set(1000);
        b.m.tick_us.set(tick);
        let (mut accepted, mut clocks, mut last) = (0, 0u64, None::<u64>);
        for seq in 0..2000u16 {
            let request = echo(OWN, 9, seq, b"flood");
            let limited = b.counted[2];
            b.send(&request, &mut r);
            let due = last.is_none_or(|l| (clocks - l - 1) * u64::from(tick) >= 1000);
            assert_eq!(b.counted[2] == limited, due, "request {seq} at clock {clocks}, last accepted at {last:?}");
            if due {
                accepted += 1;
                last = Some(clocks);
            }
            let pause = r.random_range(20..60);
            b.idle(pause, &mut r);
            clocks += 8 + pause as u64;
        }
        b.idle(100, &mut r);
        assert_eq!(b.replies.len(), accepted);
        assert_eq!(b.counted[2], 2000 - accepted as u64, "each one that is not answered is counted");
        assert!(accepted > 20 && accepted < 2000);
        // a lower limit counts at once
        b.m.icmp_rate.set(0);
        b.idle(2, &mut r);
        b.send(&echo(OWN, 9, 0, b"flood"), &mut r);
        b.send(&echo(OWN, 9, 0, b"flood"), &mut r);
        b.idle(100, &mut r);
        assert_eq!(b.replies.len(), accepted + 2);
    }
}

/// Covers: ICMP-12, IP-13
#[test]
fn two_requests_wait_others_are_dropped_whole() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-models --test icmp");
    let mut r = rng(seed);
    let mut b = Bench::new();
    b.ready = 0.0;
    let requests: Vec<_> = (0..5).map(|seq| echo(OWN, 1, seq, &octets(&mut r, 100))).collect();
    for q in &requests {
        b.send(q, &mut r);
    }
    b.idle(100, &mut r);
    assert_eq!(b.counted, [0, 0, 3]);
    b.ready = 1.0;
    b.idle(100, &mut r);
    assert_eq!(b.replies.len(), 2);
    for (q, a) in requests.iter().zip(&b.replies) {
        check(q, a, 64);
    }
    // random: what is answered is right and in order, what is not is counted
    b.replies.clear();
    b.counted = [0; 3];
    let mut sent = vec![];
    for seq in 0..3000 {
        b.ready = [1.0, 0.2, 0.7][seq / 40 % 3];
        let most = if r.random() { 64 } else { 1473 };
        let n = r.random_range(0..most);
        let q = echo(OWN, 3, seq as u16, &octets(&mut r, n));
        let limited = b.counted[2];
        b.send(&q, &mut r);
        if limited == b.counted[2] {
            sent.push(q);
        }
        b.idle([0, 0, 20, 300][r.random_range(0..4)], &mut r);
    }
    b.ready = 1.0;
    b.idle(1000, &mut r);
    assert_eq!((sent.len(), b.counted[0]), (b.replies.len(), b.replies.len() as u64));
    for (q, a) in sent.iter().zip(&b.replies) {
        check(q, a, 64);
    }
    assert!(sent.len() > 500 && b.counted[2] > 500, "{:?}", b.counted);
}

#[test]
fn a_request_longer_than_a_slot_is_dropped_and_reset_empties_both() {
    let mut r = rng(6);
    let mut b = Bench::new();
    let longest = echo(OWN, 1, 1, &octets(&mut r, 2048 - 42));
    b.send(&longest, &mut r);
    b.idle(400, &mut r);
    check(&longest, &b.replies.pop().expect("fits"), 64);
    b.send(&echo(OWN, 1, 1, &octets(&mut r, 2049 - 42)), &mut r);
    b.idle(400, &mut r);
    assert_eq!((b.replies.len(), b.counted[2]), (0, 1));
    for cut in 0..80 {
        let mut b = Bench::new();
        b.ready = 0.5;
        let q = echo(OWN, 1, 1, &octets(&mut r, 60));
        for beat in beats(&q).into_iter().chain(beats(&q)).chain(beats(&q)).chain(beats(&q)).take(cut) {
            b.clock(Some((beat, q.len())), &mut r);
        }
        b.m.reset.set(true);
        b.clock(None, &mut r);
        b.m.reset.set(false);
        (b.ready, b.counted) = (1.0, [0; 3]);
        b.frame.clear();
        b.replies.clear();
        b.idle(60, &mut r);
        assert!(b.replies.is_empty());
        b.send(&q, &mut r);
        b.idle(60, &mut r);
        check(&q, &b.replies.pop().expect("answered after a reset"), 64);
        assert_eq!(b.counted, [1, 1, 0]);
    }
}
