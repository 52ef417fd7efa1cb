// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::arp`: the neighbour cache against rules written out as frames, and against a plain model under random traffic.
use ironwarp_models::{arp::Model, bench, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

const ENTRIES: usize = 32;
const OWN_MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const OWN_IP: u32 = 0xc000_0201;
const OTHER_OWN_IP: u32 = 0x0a00_0001;
const PEER: [u8; 6] = [0x0a, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5];
const PEER_IP: u32 = 0xc000_0207;
const TIMEOUT: u32 = 60_000_000;
const RETRY: u32 = 1_000_000;
/// Clocks in which every entry is visited twice.
const SWEEPS: u32 = 2 * 16 * ENTRIES as u32;

fn mac_bits(mac: [u8; 6]) -> u64 {
    mac.iter().rev().fold(0, |bits, octet| bits << 8 | u64::from(*octet))
}

fn peer(n: u32) -> (u32, [u8; 6]) {
    (0xc000_0300 + n, [0x02, 0, 0, 0, (n >> 8) as u8, n as u8])
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Packet {
    request: bool,
    sender_mac: [u8; 6],
    sender_ip: u32,
    target_ip: u32,
}

impl Packet {
    fn request(sender_mac: [u8; 6], sender_ip: u32, target_ip: u32) -> Self {
        Packet { request: true, sender_mac, sender_ip, target_ip }
    }
    fn reply(sender_mac: [u8; 6], sender_ip: u32, target_ip: u32) -> Self {
        Packet { request: false, sender_mac, sender_ip, target_ip }
    }
}

fn ours(ip: u32) -> bool {
    ip == OWN_IP || ip == OTHER_OWN_IP
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Found([u8; 6]),
    Pending,
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Notice {
    ip: u32,
    mac: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    in_requests: u64,
    in_replies: u64,
    in_ignored: u64,
    conflicts: u64,
    out_requests: u64,
    out_replies: u64,
    timeouts: u64,
    expired: u64,
    evictions: u64,
    dropped: u64,
}

/// An ARP frame as RFC 826 lays it out, padded to 60 octets.
fn frame(dst: [u8; 6], opcode: u8, sender_ip: u32, target_mac: [u8; 6], target_ip: u32) -> Vec<u8> {
    let mut f = vec![];
    f.extend(dst);
    f.extend(OWN_MAC);
    f.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, opcode]);
    f.extend(OWN_MAC);
    f.extend(sender_ip.to_be_bytes());
    f.extend(target_mac);
    f.extend(target_ip.to_be_bytes());
    f.resize(60, 0);
    f
}

fn request_frame(source: u32, ip: u32) -> Vec<u8> {
    frame([0xff; 6], 1, source, [0; 6], ip)
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    /// Chance that the transmit side takes a beat.
    taking: f64,
    time: u32,
    frames: Vec<Vec<u8>>,
    building: Vec<u8>,
    stalled: Option<(u64, u64, bool)>,
    notices: Vec<Notice>,
    counts: Counts,
    /// Clocks with `changed`; what was answered last about an address, and how many there were then.
    changes: u64,
    known: HashMap<u32, (Answer, u64)>,
    /// Clocks since something was seen.
    quiet: u32,
}

impl Bench {
    fn new(test_seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(test_seed),
            rng: ChaCha8Rng::seed_from_u64(test_seed),
            taking: 0.9,
            time: 0xffff_0000,
            frames: vec![],
            building: vec![],
            stalled: None,
            notices: vec![],
            counts: Counts::default(),
            changes: 0,
            known: HashMap::new(),
            quiet: 0,
        };
        b.m.own_mac.set(mac_bits(OWN_MAC));
        b.configure(TIMEOUT, RETRY, 3);
        b.reset();
        b
    }
    fn configure(&mut self, timeout: u32, retry: u32, tries: u8) {
        self.m.arp_timeout.set(timeout);
        self.m.arp_retry.set(retry);
        self.m.arp_tries.set(tries);
    }
    fn reset(&mut self) {
        self.m.packet_valid.set(false);
        self.m.query_valid.set(false);
        self.m.answer_ready.set(true);
        self.m.reset.set(true);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.building.clear();
        self.known.clear();
        self.stalled = None;
        let mut clocks = 0;
        while !self.m.ready.get() {
            self.clock();
            clocks += 1;
            assert!(clocks <= ENTRIES + 2, "the cache is cleared within {ENTRIES} clocks");
        }
    }
    /// One clock. What else is driven stays.
    fn clock(&mut self) {
        self.m.time_us.set(self.time);
        self.m.out_ready.set(self.rng.random_bool(self.taking));
        self.m.eval();
        self.quiet += 1;
        let m = &self.m;
        if m.out_valid.get() {
            self.quiet = 0;
            let beat = (m.out_beat_data.get(), m.out_beat_keep.get(), m.out_beat_last.get() != 0);
            if let Some(before) = self.stalled {
                assert_eq!(beat, before, "an offered beat stays until it is taken");
            }
            assert!(!m.out_beat_error.bit());
            self.stalled = Some(beat);
            if m.out_ready.get() {
                self.stalled = None;
                let octets = beat.1.count_ones() as usize;
                assert_eq!(beat.1, (1u64 << octets) - 1);
                assert!(octets == 8 || beat.2);
                self.building.extend(&beat.0.to_le_bytes()[..octets]);
                if beat.2 {
                    self.frames.push(std::mem::take(&mut self.building));
                }
            }
        } else {
            assert!(self.stalled.is_none() && self.building.is_empty(), "a frame has no gaps");
        }
        if m.notice_valid.get() {
            self.quiet = 0;
            let mac = m.notice_ok.bit().then(|| m.notice_mac.get());
            self.notices.push(Notice { ip: m.notice_ip.get() as u32, mac });
        }
        self.changes += u64::from(m.changed.get());
        let c = &mut self.counts;
        for (pulse, count) in [
            (&m.cnt_arp_in_requests, &mut c.in_requests),
            (&m.cnt_arp_in_replies, &mut c.in_replies),
            (&m.cnt_arp_in_ignored, &mut c.in_ignored),
            (&m.cnt_arp_conflicts, &mut c.conflicts),
            (&m.cnt_arp_out_requests, &mut c.out_requests),
            (&m.cnt_arp_out_replies, &mut c.out_replies),
            (&m.cnt_arp_timeouts, &mut c.timeouts),
            (&m.cnt_arp_expired, &mut c.expired),
            (&m.cnt_arp_evictions, &mut c.evictions),
            (&m.cnt_rx_meta_dropped, &mut c.dropped),
        ] {
            *count += u64::from(pulse.get());
        }
        self.m.tick();
    }
    fn offer(&mut self, p: &Packet) {
        self.offer_as(p, ours(p.target_ip), ours(p.sender_ip));
    }
    fn offer_as(&mut self, p: &Packet, target_is_ours: bool, sender_is_ours: bool) {
        assert!(self.m.packet_ready.get(), "packets are always taken");
        self.m.packet_valid.set(true);
        self.m.packet_data_request.set(u64::from(p.request));
        self.m.packet_data_sender_mac.set(mac_bits(p.sender_mac));
        self.m.packet_data_sender_ip.set(u64::from(p.sender_ip));
        self.m.packet_data_target_ip.set(u64::from(p.target_ip));
        self.m.packet_data_target_is_ours.set(u64::from(target_is_ours));
        self.m.packet_data_sender_is_ours.set(u64::from(sender_is_ours));
        self.clock();
        self.m.packet_valid.set(false);
    }
    fn packet(&mut self, p: Packet) {
        self.offer(&p);
        self.settle();
    }
    /// Asks, and gives the answer with the clocks that it took.
    fn ask(&mut self, ip: u32, source: u32, recheck: bool) -> (Answer, u32) {
        self.m.query_valid.set(true);
        self.m.query_data_ip.set(u64::from(ip));
        self.m.query_data_source.set(u64::from(source));
        self.m.query_data_recheck.set(u64::from(recheck));
        self.m.answer_ready.set(false);
        let (mut clocks, mut asked, mut patience) = (0, false, self.rng.random_range(0..4));
        loop {
            self.m.eval();
            let taken = self.m.query_ready.get() && !asked;
            let answered = self.m.answer_valid.get();
            if answered {
                assert!(asked, "the answer comes after the question was taken");
                if patience == 0 {
                    let (found, busy) = (self.m.answer_data_found.bit(), self.m.answer_data_busy.bit());
                    let mac = self.m.answer_data_mac.get().to_le_bytes();
                    self.m.answer_ready.set(true);
                    self.clock();
                    assert!(!self.m.answer_valid.get(), "one answer a question");
                    assert!(!(found && busy));
                    let mac = [mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]];
                    let answer = if found {
                        Answer::Found(mac)
                    } else if busy {
                        Answer::Busy
                    } else {
                        Answer::Pending
                    };
                    if let Some((before, changes)) = self.known.insert(ip, (answer, self.changes)) {
                        let untold = matches!(before, Answer::Found(_)) && before != answer && changes == self.changes;
                        assert!(!untold, "{before:?} became {answer:?} untold");
                    }
                    return (answer, clocks);
                }
                patience -= 1;
            } else {
                clocks += 1;
            }
            self.clock();
            if taken {
                asked = true;
                self.m.query_valid.set(false);
            }
            assert!(clocks < 200, "an answer comes");
        }
    }
    fn query(&mut self, ip: u32) -> Answer {
        self.ask(ip, OWN_IP, false).0
    }
    /// Runs until two sweeps brought nothing.
    fn settle(&mut self) {
        self.quiet = 0;
        let mut clocks = 0;
        while self.quiet < SWEEPS {
            self.clock();
            clocks += 1;
            assert!(clocks < 200_000, "it comes to rest");
        }
    }
    fn pass(&mut self, us: u32) {
        self.time = self.time.wrapping_add(us);
        self.settle();
    }
    fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }
    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
    /// Learns `peer(n)` from a request to us.
    fn learn(&mut self, n: u32) {
        let (ip, mac) = peer(n);
        self.packet(Packet::request(mac, ip, OWN_IP));
    }
}

fn bench_for(name: &str) -> Bench {
    println!("test {name}");
    Bench::new(bench::seed("arp"))
}

/// Covers: ARP-3, ARP-1, ETH-2
#[test]
fn a_request_for_us_is_answered_by_unicast_with_every_octet_right() {
    let mut b = bench_for("reply");
    for (target, request) in [(OWN_IP, true), (OTHER_OWN_IP, true), (OWN_IP, false)] {
        b.packet(Packet { request, sender_mac: PEER, sender_ip: PEER_IP, target_ip: target });
        let expect = if request { vec![frame(PEER, 2, target, PEER, PEER_IP)] } else { vec![] };
        assert_eq!(b.take_frames(), expect);
    }
    b.packet(Packet::request(PEER, PEER_IP, 0xc000_0209));
    assert!(b.take_frames().is_empty(), "a request for another host is not answered");
    let c = b.counts;
    assert_eq!((c.in_requests, c.in_replies, c.out_replies, c.out_requests, c.in_ignored, c.conflicts), (3, 1, 2, 0, 0, 0));
}

/// Covers: ARP-3, ARP-5
#[test]
fn every_bit_of_every_address_is_carried() {
    let mut b = bench_for("bits");
    for _ in 0..300 {
        let mut mac: [u8; 6] = b.rng.random();
        mac[0] &= 0xfe;
        let (ip, target, source, dead): (u32, u32, u32, u32) = b.rng.random();
        let p = Packet::request(mac, ip | 1, target);
        b.offer_as(&p, true, false);
        b.settle();
        assert_eq!(b.ask(ip | 1, source, false).0, Answer::Found(mac));
        assert_eq!(b.ask(dead & !1, source, false).0, Answer::Pending);
        b.settle();
        assert_eq!(b.take_frames(), [frame(mac, 2, target, mac, ip | 1), request_frame(source, dead & !1)]);
        b.offer_as(&Packet::reply(mac, dead & !1, target), true, false);
        b.settle();
        assert_eq!(b.take_notices(), [Notice { ip: dead & !1, mac: Some(mac_bits(mac)) }]);
    }
}

/// Covers: ARP-8
#[test]
fn addresses_that_only_resemble_a_forbidden_one_are_learnt() {
    let mut b = bench_for("near");
    for bit in 0..48 {
        let mut mac = OWN_MAC;
        mac[bit / 8] ^= 1 << (bit % 8);
        if bit != 0 {
            b.packet(Packet::reply(mac, PEER_IP, OWN_IP));
            assert_eq!(b.query(PEER_IP), Answer::Found(mac), "bit {bit}");
        }
    }
    for bit in 0..32 {
        b.packet(Packet::reply(PEER, 1 << bit, OWN_IP));
        assert_eq!(b.query(1 << bit), Answer::Found(PEER), "bit {bit}");
    }
    assert_eq!((b.counts.in_ignored, b.counts.conflicts), (0, 0));
}

/// Covers: ARP-4, ARP-5
#[test]
fn times_are_kept_to_the_microsecond_over_the_whole_range() {
    let mut b = bench_for("times");
    for bit in 3..31 {
        let (timeout, retry) = ((1 << bit) + b.rng.random_range(0..1 << bit) / 2, (1 << bit) + b.rng.random_range(0..1 << bit) / 2);
        b.configure(timeout, retry, 2);
        let (ip, mac) = peer(bit);
        b.learn(bit);
        b.pass(timeout - 1);
        assert_eq!(b.query(ip), Answer::Found(mac), "timeout {timeout:#x}");
        b.pass(1);
        b.take_frames();
        assert_eq!(b.query(ip), Answer::Pending, "timeout {timeout:#x}");
        b.settle();
        assert_eq!(b.take_frames().len(), 1);
        b.pass(retry - 1);
        assert_eq!(b.take_frames().len(), 0, "retry {retry:#x}");
        b.pass(1);
        assert_eq!(b.take_frames().len(), 1, "retry {retry:#x}");
        b.packet(Packet::reply(mac, ip, OWN_IP));
        b.take_notices();
    }
}

/// Covers: ARP-2
#[test]
fn the_cache_is_updated_whatever_the_opcode_but_grows_only_for_packets_to_us() {
    let mut b = bench_for("order");
    for request in [true, false] {
        // not known, not for us: not added
        let other = 0xc000_0299;
        b.packet(Packet { request, sender_mac: PEER, sender_ip: PEER_IP, target_ip: other });
        assert_eq!(b.query(PEER_IP), Answer::Pending);
        b.reset();
        // for us: added
        b.packet(Packet { request, sender_mac: PEER, sender_ip: PEER_IP, target_ip: OWN_IP });
        assert_eq!(b.query(PEER_IP), Answer::Found(PEER));
        // known: overwritten, though the packet is for another host
        for other_request in [true, false] {
            let new = [2, 9, 9, 9, 9, u8::from(other_request)];
            b.packet(Packet { request: other_request, sender_mac: new, sender_ip: PEER_IP, target_ip: other });
            assert_eq!(b.query(PEER_IP), Answer::Found(new));
        }
        b.reset();
    }
    assert_eq!(b.take_notices(), [], "nobody waited");
}

/// Covers: ARP-4
#[test]
fn entries_end_at_their_time_out_unless_refreshed() {
    let mut b = bench_for("ageing");
    b.learn(1);
    let (ip, mac) = peer(1);
    b.pass(TIMEOUT - 1);
    assert_eq!(b.query(ip), Answer::Found(mac));
    // a packet for another host refreshes as well
    b.packet(Packet::reply(mac, ip, 0xc000_0299));
    b.pass(TIMEOUT - 1);
    assert_eq!((b.query(ip), b.counts.expired), (Answer::Found(mac), 0));
    b.take_frames();
    b.pass(1);
    assert_eq!(b.counts.expired, 1);
    assert_eq!(b.query(ip), Answer::Pending);
    b.settle();
    assert_eq!(b.take_frames(), [request_frame(OWN_IP, ip)], "the next packet asks anew");
    assert_eq!((b.counts.timeouts, b.counts.evictions), (0, 0));
    // the register takes effect
    b.configure(5000, RETRY, 3);
    b.packet(Packet::reply(mac, ip, OWN_IP));
    b.pass(4999);
    assert_eq!(b.query(ip), Answer::Found(mac));
    b.pass(1);
    assert_eq!(b.query(ip), Answer::Pending);
}

/// Covers: ARP-5, ARP-7
#[test]
fn a_thousand_questions_for_a_dead_address_make_one_request_a_second_and_one_notice() {
    let mut b = bench_for("flood");
    let dead = 0xc000_02fe;
    let mut sent = vec![];
    for millisecond in 0..10_500u32 {
        if millisecond % 10 == 0 {
            assert_eq!(b.ask(dead, OTHER_OWN_IP, false).0, Answer::Pending, "a miss is not unreachable");
        }
        for _ in 0..(if millisecond % 100 == 99 { 3 * SWEEPS / 2 } else { 20 }) {
            b.clock();
        }
        for f in b.take_frames() {
            assert_eq!(f, request_frame(OTHER_OWN_IP, dead));
            sent.push(millisecond);
        }
        b.time = b.time.wrapping_add(1000);
    }
    assert!((10..=11).contains(&sent.len()), "{sent:?}");
    // a sweep may be late by the time that passes in it
    assert!(sent.windows(2).all(|w| (1000..1100).contains(&(w[1] - w[0]))), "{sent:?}");
    let notices = b.take_notices();
    assert_eq!(notices.len(), 3, "one after each three requests: {notices:?}");
    assert!(notices.iter().all(|n| *n == Notice { ip: dead, mac: None }));
    assert_eq!((b.counts.timeouts, b.counts.out_requests), (3, sent.len() as u64));
}

/// Covers: ARP-7
#[test]
fn the_number_of_tries_is_a_register_and_failure_comes_one_interval_after_the_last() {
    let mut b = bench_for("tries");
    for tries in [1u8, 2, 5, 255] {
        b.configure(TIMEOUT, 10, tries);
        let begin = b.counts;
        assert_eq!(b.query(PEER_IP), Answer::Pending);
        b.settle();
        for n in 1..=u64::from(tries) {
            assert_eq!((b.counts.out_requests - begin.out_requests, b.take_notices()), (n, vec![]));
            b.pass(9);
            assert_eq!((b.counts.out_requests - begin.out_requests, b.take_notices()), (n, vec![]));
            b.pass(1);
        }
        assert_eq!(b.take_notices(), [Notice { ip: PEER_IP, mac: None }]);
        assert_eq!(b.counts.timeouts - begin.timeouts, 1);
        b.pass(1000);
        assert_eq!(b.take_notices(), []);
        assert_eq!(b.counts.out_requests - begin.out_requests, u64::from(tries), "nobody asks, nothing is sent");
    }
}

/// Covers: ARP-6, ARP-7
#[test]
fn a_reply_ends_the_resolution_with_one_notice() {
    let mut b = bench_for("resolve");
    for target in [OWN_IP, 0xc000_0299] {
        assert_eq!(b.query(PEER_IP), Answer::Pending);
        assert_eq!(b.query(PEER_IP), Answer::Pending);
        b.settle();
        assert_eq!(b.take_frames(), [request_frame(OWN_IP, PEER_IP)]);
        // also an announcement to others tells it: the entry is there, step 1 of RFC 826
        b.packet(Packet::reply(PEER, PEER_IP, target));
        assert_eq!(b.take_notices(), [Notice { ip: PEER_IP, mac: Some(mac_bits(PEER)) }]);
        b.packet(Packet::reply(PEER, PEER_IP, OWN_IP));
        assert_eq!(b.take_notices(), [], "once");
        assert_eq!(b.query(PEER_IP), Answer::Found(PEER));
        b.pass(RETRY);
        assert_eq!(b.take_frames(), Vec::<Vec<u8>>::new(), "no more requests");
        b.reset();
    }
}

/// Covers: ARP-8
#[test]
fn hostile_and_unnamed_senders_are_never_learnt() {
    let mut b = bench_for("hostile");
    b.learn(1);
    b.take_frames();
    let (ip, mac) = peer(1);
    let group = [0x03, 0, 0, 0, 0, 1];
    // sender MAC, sender IP, target; answered, ignored, conflict
    let table: [([u8; 6], u32, u32, bool, bool, bool); 9] = [
        (PEER, 0, OWN_IP, true, false, false), // a probe for our address
        (PEER, 0, ip, false, true, false),     // a probe for another
        (PEER, OWN_IP, ip, false, false, true),
        (PEER, OTHER_OWN_IP, OWN_IP, true, false, true),
        ([0xff; 6], ip, OWN_IP, false, true, false),
        (group, ip, OWN_IP, false, true, false),
        (group, OWN_IP, OWN_IP, false, true, false),
        (OWN_MAC, ip, OWN_IP, false, true, false), // our own frame, or one that claims to be
        (OWN_MAC, OWN_IP, OWN_IP, false, true, false),
    ];
    for request in [true, false] {
        for (sender_mac, sender_ip, target_ip, answered, ignored, conflict) in table {
            let answered = answered && request;
            let ignored = ignored || (sender_ip == 0 && !answered);
            let before = b.counts;
            b.packet(Packet { request, sender_mac, sender_ip, target_ip });
            let expect = if answered { vec![frame(sender_mac, 2, target_ip, sender_mac, sender_ip)] } else { vec![] };
            assert_eq!(b.take_frames(), expect, "{sender_mac:x?} {sender_ip:x} {target_ip:x}");
            assert_eq!(b.counts.in_ignored - before.in_ignored, u64::from(ignored), "{sender_mac:x?} {sender_ip:x} {target_ip:x}");
            assert_eq!(b.counts.conflicts - before.conflicts, u64::from(conflict), "{sender_mac:x?} {sender_ip:x} {target_ip:x}");
            assert_eq!(b.query(ip), Answer::Found(mac), "what was known stays");
        }
    }
    for never in [0, OWN_IP, OTHER_OWN_IP] {
        assert_eq!(b.query(never), Answer::Pending);
    }
    // a pending entry is not completed by such a packet either
    b.take_notices();
    assert_eq!(b.query(PEER_IP), Answer::Pending);
    b.packet(Packet::reply(group, PEER_IP, OWN_IP));
    b.packet(Packet::reply(OWN_MAC, PEER_IP, OWN_IP));
    assert_eq!((b.query(PEER_IP), b.take_notices()), (Answer::Pending, vec![]));
}

#[test]
fn a_question_about_a_known_neighbour_changes_nothing() {
    let mut b = bench_for("question");
    b.learn(1);
    let before = b.changes;
    for _ in 0..20 {
        assert_eq!(b.query(peer(1).0), Answer::Found(peer(1).1));
    }
    assert_eq!(b.changes, before);
    b.learn(1);
    assert!(b.changes > before);
}

/// Covers: ARP-9
#[test]
fn a_changed_mac_address_is_in_the_very_next_answer() {
    let mut b = bench_for("move");
    for n in 0..200u32 {
        let mac = [2, 1, 2, 3, 4, n as u8];
        b.offer(&Packet::reply(mac, PEER_IP, OWN_IP));
        // the packet is at most one job ahead of the question
        for _ in 0..60 {
            b.clock();
        }
        assert_eq!(b.query(PEER_IP), Answer::Found(mac));
    }
}

/// Covers: ARP-11
#[test]
fn delivery_trouble_makes_an_entry_unresolved_and_polls_it() {
    let mut b = bench_for("recheck");
    b.learn(1);
    b.take_frames();
    let (ip, mac) = peer(1);
    assert_eq!(b.ask(ip, OTHER_OWN_IP, true).0, Answer::Pending);
    b.settle();
    assert_eq!(b.take_frames(), [request_frame(OTHER_OWN_IP, ip)]);
    for _ in 0..10 {
        assert_eq!(b.ask(ip, OTHER_OWN_IP, true).0, Answer::Pending);
        b.settle();
    }
    assert_eq!(b.take_frames(), Vec::<Vec<u8>>::new(), "one poll, though many complain");
    b.packet(Packet::reply(mac, ip, OWN_IP));
    assert_eq!(b.take_notices(), [Notice { ip, mac: Some(mac_bits(mac)) }]);
    assert_eq!(b.query(ip), Answer::Found(mac));
}

/// Covers: ARP-4, ARP-7
#[test]
fn a_full_cache_gives_up_the_oldest_resolved_entry_and_never_an_unresolved_one() {
    let mut b = bench_for("full");
    let all = ENTRIES as u32;
    for n in 0..all {
        b.learn(n);
        b.pass(10);
    }
    assert_eq!(b.counts.evictions, 0);
    for n in 0..all {
        assert_eq!(b.query(peer(n).0), Answer::Found(peer(n).1), "entry {n} of {all}");
    }
    // the oldest but one becomes the youngest
    b.learn(1);
    b.pass(10);
    let mut gone = vec![];
    for n in [0, 2, 3] {
        b.learn(100 + n);
        b.pass(10);
        gone.push(n);
        assert_eq!(b.counts.evictions, gone.len() as u64);
    }
    // all that is resolved makes room for questions, in order of age
    for k in 0..all {
        assert_eq!(b.query(0x0b00_0000 + k), Answer::Pending, "question {k}");
    }
    b.settle();
    assert_eq!(b.counts.evictions, 3 + u64::from(all));
    // only unresolved entries: busy, and packets teach nothing
    assert_eq!(b.query(0x0b00_00ff), Answer::Busy);
    b.learn(5);
    assert_eq!(b.query(peer(5).0), Answer::Busy);
    assert_eq!(b.counts.evictions, 3 + u64::from(all));
    // a busy answer has no notice
    b.configure(TIMEOUT, RETRY, 1);
    b.pass(RETRY);
    let mut failed: Vec<_> = b.take_notices().iter().map(|n| n.ip).collect();
    failed.sort_unstable();
    assert_eq!(failed, (0..all).map(|k| 0x0b00_0000 + k).collect::<Vec<_>>());
    assert_eq!(b.query(0x0b00_00ff), Answer::Pending, "there is room again");
}

/// A hit in its own place takes 6 clocks and a miss 2^A + 5, beside at most one packet and two steps of the sweep (4 clocks each).
#[test]
fn answers_come_within_the_documented_clocks() {
    let mut b = bench_for("clocks");
    b.learn(1);
    let (mut best, mut worst) = (u32::MAX, 0);
    for _ in 0..500 {
        let (answer, clocks) = b.ask(peer(1).0, OWN_IP, false);
        assert_eq!(answer, Answer::Found(peer(1).1));
        best = best.min(clocks);
        worst = worst.max(clocks);
    }
    assert_eq!(best, 6, "hit in its own place");
    assert!(worst <= 6 + 8, "hit behind steps of the sweep: {worst}");
    let mut misses = vec![];
    for n in 0..ENTRIES as u32 + 40 {
        misses.push(b.ask(0x0b00_0000 + 7 * n, OWN_IP, false).1);
        for _ in 0..b.rng.random_range(0..40) {
            b.clock();
        }
    }
    let miss = ENTRIES as u32 + 5;
    assert_eq!(misses.iter().filter(|c| **c >= miss).min(), Some(&miss));
    assert!(misses.iter().all(|c| *c <= miss + 8), "{misses:?}");
}

/// Covers: ARP-2
#[test]
fn a_burst_of_packets_is_queued_and_what_overflows_is_counted() {
    let mut b = bench_for("burst");
    b.taking = 0.01;
    for n in 0..100 {
        let (ip, mac) = peer(n);
        b.offer(&Packet::request(mac, ip, OWN_IP));
    }
    b.taking = 1.0;
    b.settle();
    let c = b.counts;
    assert!((16..=20).contains(&c.in_requests), "{c:?}");
    assert_eq!(c.in_requests + c.dropped, 100);
    let kept: Vec<u32> = (0..100).filter(|n| b.query(peer(*n).0) == Answer::Found(peer(*n).1)).collect();
    let replies: Vec<_> = kept.iter().map(|n| frame(peer(*n).1, 2, OWN_IP, peer(*n).1, peer(*n).0)).collect();
    let mut frames = b.take_frames();
    frames.truncate(c.in_requests as usize);
    assert_eq!(frames, replies, "in order of arrival");
    assert_eq!(kept[..16], (0..16).collect::<Vec<_>>(), "the queue holds 16");
}

/// Questions go on while packets flood in, and the other way round.
#[test]
fn packets_and_questions_take_turns() {
    let mut b = bench_for("turns");
    b.learn(1);
    let (ip, mac) = peer(1);
    b.m.query_valid.set(true);
    b.m.query_data_ip.set(u64::from(ip));
    b.m.query_data_recheck.set(0);
    b.m.answer_ready.set(true);
    let (mut answers, before) = (0, b.counts);
    for n in 0..20_000u32 {
        b.m.eval();
        answers += u64::from(b.m.answer_valid.get());
        if n % 5 == 0 {
            b.offer(&Packet::request(mac, ip, 0xc000_0299));
        } else {
            b.clock();
        }
    }
    let packets = b.counts.in_requests - before.in_requests;
    assert!(answers.abs_diff(packets) <= 2, "{answers} answers, {packets} packets");
    assert!(answers > 500);
}

/// A reset at any moment leaves an empty cache that works.
#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = bench_for("reset");
    for round in 0..200u32 {
        b.taking = 0.3;
        let (ip, mac) = peer(round);
        b.offer(&Packet::request(mac, ip, OWN_IP));
        b.m.query_data_ip.set(u64::from(PEER_IP));
        b.m.query_valid.set(round % 2 == 0);
        for _ in 0..b.rng.random_range(0..90) {
            b.clock();
        }
        b.reset();
        b.take_frames();
        b.take_notices();
        assert_eq!(b.query(ip), Answer::Pending);
        b.taking = 1.0;
        b.settle();
        assert_eq!(b.take_frames(), [request_frame(OWN_IP, ip)], "round {round}");
        assert_eq!(b.take_notices(), []);
        b.reset();
    }
}

/// The rules once more, as plainly as possible.
#[derive(Default)]
struct Plain {
    entries: Vec<Entry>,
    counts: Counts,
    frames: Vec<Vec<u8>>,
    notices: Vec<Notice>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ip: u32,
    mac: Option<[u8; 6]>,
    source: u32,
    sent: u32,
    deadline: u32,
}

impl Plain {
    fn room(&mut self) -> bool {
        if self.entries.len() == ENTRIES {
            let base = self.entries[0].deadline;
            let age = |e: &Entry| e.deadline.wrapping_sub(base) as i32;
            let Some(oldest) = self.entries.iter().filter(|e| e.mac.is_some()).map(age).min() else { return false };
            self.entries.retain(|e| e.mac.is_none() || age(e) != oldest);
            self.counts.evictions += 1;
        }
        true
    }
    fn packet(&mut self, p: &Packet, now: u32) {
        let c = &mut self.counts;
        *(if p.request { &mut c.in_requests } else { &mut c.in_replies }) += 1;
        let bad_mac = p.sender_mac[0] & 1 == 1 || p.sender_mac == OWN_MAC;
        let answer = p.request && ours(p.target_ip) && !bad_mac;
        c.conflicts += u64::from(ours(p.sender_ip) && !bad_mac);
        c.in_ignored += u64::from(bad_mac || (p.sender_ip == 0 && !answer));
        if !bad_mac && p.sender_ip != 0 && !ours(p.sender_ip) {
            let fresh = Entry { ip: p.sender_ip, mac: Some(p.sender_mac), source: 0, sent: 0, deadline: now.wrapping_add(TIMEOUT) };
            if let Some(e) = self.entries.iter_mut().find(|e| e.ip == p.sender_ip) {
                if e.mac.is_none() {
                    self.notices.push(Notice { ip: e.ip, mac: Some(mac_bits(p.sender_mac)) });
                }
                *e = fresh;
            } else if ours(p.target_ip) && self.room() {
                self.entries.push(fresh);
            }
        }
        if answer {
            self.counts.out_replies += 1;
            self.frames.push(frame(p.sender_mac, 2, p.target_ip, p.sender_mac, p.sender_ip));
        }
    }
    fn query(&mut self, ip: u32, source: u32, recheck: bool, now: u32) -> Answer {
        let fresh = Entry { ip, mac: None, source, sent: 0, deadline: now };
        if let Some(e) = self.entries.iter_mut().find(|e| e.ip == ip) {
            match e.mac {
                Some(mac) if !recheck => return Answer::Found(mac),
                Some(_) => *e = fresh,
                None => {}
            }
            Answer::Pending
        } else if self.room() {
            self.entries.push(fresh);
            Answer::Pending
        } else {
            Answer::Busy
        }
    }
    fn sweep(&mut self, now: u32) {
        let (counts, frames, notices) = (&mut self.counts, &mut self.frames, &mut self.notices);
        self.entries.retain_mut(|e| {
            if (now.wrapping_sub(e.deadline) as i32) < 0 {
                return true;
            }
            if e.mac.is_some() {
                counts.expired += 1;
                return false;
            }
            if e.sent >= 3 {
                counts.timeouts += 1;
                notices.push(Notice { ip: e.ip, mac: None });
                return false;
            }
            e.sent += 1;
            e.deadline = now.wrapping_add(RETRY);
            counts.out_requests += 1;
            frames.push(request_frame(e.source, e.ip));
            true
        });
    }
}

/// Covers: ARP-2, ARP-3, ARP-4, ARP-5, ARP-7, ARP-8, ARP-9
#[test]
fn random_traffic_does_what_the_plain_model_does() {
    let mut b = bench_for("random");
    b.time = b.rng.random();
    let mut plain = Plain::default();
    let before = b.counts;
    let mut busy = 0;
    for step in 0..8000 {
        // few addresses: mostly hits; many: evictions; now and then all are questions
        let span: u32 = [6, 40, 200, 200][step / 100 % 4];
        let asking = if step / 400 % 2 == 1 { 0.8 } else { 0.3 };
        let any_ip = |rng: &mut ChaCha8Rng| match rng.random_range(0..12) {
            0 => OWN_IP,
            1 => OTHER_OWN_IP,
            2 => 0,
            _ => 0xc000_0300 ^ (rng.random_range(0..span) * 0x0101),
        };
        if b.rng.random_bool(asking) {
            let ip = any_ip(&mut b.rng);
            let source = *[OWN_IP, OTHER_OWN_IP].choose(&mut b.rng).expect("not empty");
            let recheck = b.rng.random_bool(0.1);
            let answer = b.ask(ip, source, recheck).0;
            assert_eq!(answer, plain.query(ip, source, recheck, b.time), "step {step}: question for {ip:x}");
            busy += u32::from(answer == Answer::Busy);
        } else {
            let p = Packet {
                request: b.rng.random(),
                sender_mac: match b.rng.random_range(0..16) {
                    0 => [0xff; 6],
                    1 => OWN_MAC,
                    _ => std::array::from_fn(|i| if i == 0 { b.rng.random::<u8>() & 0xfe } else { b.rng.random() }),
                },
                sender_ip: any_ip(&mut b.rng),
                target_ip: *[OWN_IP, OTHER_OWN_IP, 0xc000_0299].choose(&mut b.rng).expect("not empty"),
            };
            b.offer(&p);
            plain.packet(&p, b.time);
        }
        b.settle();
        plain.sweep(b.time);
        let (mut frames, mut notices) = (b.take_frames(), b.take_notices());
        let (mut want_frames, mut want_notices) = (std::mem::take(&mut plain.frames), std::mem::take(&mut plain.notices));
        for f in [&mut frames, &mut want_frames] {
            f.sort();
        }
        for n in [&mut notices, &mut want_notices] {
            n.sort();
        }
        assert_eq!(frames, want_frames, "step {step}");
        assert_eq!(notices, want_notices, "step {step}");
        // times differ by step, so that the order of age is one
        let us = match b.rng.random_range(0..200) {
            0 | 1 => b.rng.random_range(1..2 * TIMEOUT),
            2..=5 => b.rng.random_range(1..2 * RETRY),
            _ => b.rng.random_range(1..1000),
        };
        b.pass(us);
        plain.sweep(b.time);
    }
    let mut seen = b.counts;
    for (s, b) in [(&mut seen.in_requests, before.in_requests), (&mut seen.out_requests, before.out_requests)] {
        *s -= b;
    }
    assert_eq!(seen, plain.counts);
    assert!(seen.evictions > 20 && seen.expired > 20 && seen.timeouts > 20 && busy > 20, "{seen:?} busy {busy}");
}
