// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::seg_tx`: segments in, frames out, read with `etherparse` and by tshark.
mod net;
use etherparse::{EtherType, Ethernet2Header, Ipv4Header, TcpHeader, TcpOptionElement};
use ironwarp_models::{bench, seg_tx::Model, Dut};
use net::{beats, checksum, mac_number, octets, push, Octets};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{collections::VecDeque, fs, path::Path, process::Command};

#[derive(Clone, Debug)]
struct Segment {
    own_mac: [u8; 6],
    mac: [u8; 6],
    local: ([u8; 4], u16),
    remote: ([u8; 4], u16),
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    mss: u16,
    tos: u8,
    payload: Vec<u8>,
    error: bool,
}

const OWN_MAC: [u8; 6] = [2, 0xab, 0xcd, 0xef, 0x12, 0x34];
const RST: u8 = 4;

/// All fields by chance.
fn segment(rng: &mut ChaCha8Rng, mss: u16, payload: Vec<u8>) -> Segment {
    Segment {
        own_mac: OWN_MAC,
        mac: rng.random(),
        local: (rng.random(), rng.random()),
        remote: (rng.random(), rng.random()),
        seq: rng.random(),
        ack: rng.random(),
        flags: rng.random(),
        window: rng.random(),
        mss,
        tos: rng.random(),
        payload,
        error: false,
    }
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    segments: VecDeque<Segment>,
    words: VecDeque<(Octets, bool)>,
    segment_on: bool,
    word_on: bool,
    /// Chances: a segment is offered, a beat of payload is offered, the multiplexer takes.
    given: f64,
    filled: f64,
    ready: f64,
    frame: Vec<u8>,
    frames: Vec<Vec<u8>>,
    now: u64,
    /// When a segment was taken, and when a frame's first and last beat were.
    taken: Vec<u64>,
    began: Vec<u64>,
    ended: Vec<u64>,
    /// Segments, resets, datagrams, drops.
    counted: [u64; 4],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut m = Model::new(seed);
        m.own_mac.set(mac_number(OWN_MAC));
        m.ip_ttl.set(64);
        m.reset.set(true);
        m.tick();
        m.reset.set(false);
        Bench {
            m,
            rng: ChaCha8Rng::seed_from_u64(seed),
            segments: VecDeque::new(),
            words: VecDeque::new(),
            segment_on: false,
            word_on: false,
            given: 1.0,
            filled: 1.0,
            ready: 1.0,
            frame: vec![],
            frames: vec![],
            now: 0,
            taken: vec![],
            began: vec![],
            ended: vec![],
            counted: [0; 4],
        }
    }

    fn give(&mut self, s: &Segment) {
        self.words.extend(beats(&s.payload).into_iter().map(|w| (w, w.last && s.error)));
        self.segments.push_back(s.clone());
    }

    fn clock(&mut self) {
        let (m, rng) = (&mut self.m, &mut self.rng);
        self.segment_on |= !self.segments.is_empty() && rng.random_bool(self.given);
        m.segment_valid.set(self.segment_on);
        if let Some(s) = self.segments.front() {
            m.segment_data_mac.set(mac_number(s.mac));
            m.segment_data_tuple_local_ip.set(u32::from_be_bytes(s.local.0).into());
            m.segment_data_tuple_remote_ip.set(u32::from_be_bytes(s.remote.0).into());
            m.segment_data_tuple_local_port.set(s.local.1.into());
            m.segment_data_tuple_remote_port.set(s.remote.1.into());
            m.segment_data_seq.set(s.seq.into());
            m.segment_data_ack.set(s.ack.into());
            m.segment_data_flags.set(s.flags.into());
            m.segment_data_window.set(s.window.into());
            m.segment_data_mss.set(s.mss.into());
            m.segment_data_tos.set(s.tos.into());
            m.segment_data_len.set(s.payload.len() as u64);
        }
        self.word_on |= !self.words.is_empty() && rng.random_bool(self.filled);
        m.payload_valid.set(self.word_on);
        if let Some((w, error)) = self.words.front() {
            // what is beyond `keep` is anything
            let beyond = if w.keep == 0xff { 0 } else { rng.random::<u64>() << (8 * w.keep.count_ones()) };
            m.payload_beat_data.set(w.data | beyond);
            m.payload_beat_keep.set(w.keep);
            m.payload_beat_last.set(w.last.into());
            m.payload_beat_error.set((*error).into());
        }
        let ready = rng.random_bool(self.ready);
        m.out_ready.set(ready);
        m.eval();
        for (n, pulse) in [&m.cnt_tcp_out_segs, &m.cnt_tcp_out_rsts, &m.cnt_ip4_out_pkts, &m.dropped].iter().enumerate() {
            self.counted[n] += u64::from(pulse.get());
        }
        if self.segment_on && m.segment_ready.get() {
            self.segments.pop_front();
            self.segment_on = false;
            self.taken.push(self.now);
        }
        if self.word_on && m.payload_ready.get() {
            self.words.pop_front();
            self.word_on = false;
        }
        assert!(self.frame.is_empty() || m.out_valid.get(), "a gap in a frame");
        if m.out_valid.get() && ready {
            if self.frame.is_empty() {
                self.began.push(self.now);
            }
            push(&mut self.frame, m.out_beat_data.get(), m.out_beat_keep.get());
            assert!(m.out_beat_last.bit() || m.out_beat_keep.get() == 0xff);
            if m.out_beat_last.bit() {
                self.frames.push(std::mem::take(&mut self.frame));
                self.ended.push(self.now);
            }
        }
        m.tick();
        self.now += 1;
    }

    /// Runs until `frames` have left and all was taken.
    fn run(&mut self, frames: usize) {
        let limit = self.now + 20_000 + 60 * (self.words.len() + self.segments.len()) as u64;
        while self.frames.len() < frames || !self.segments.is_empty() || !self.words.is_empty() {
            assert!(self.now < limit, "stuck with {} frames of {frames}", self.frames.len());
            self.clock();
        }
        for _ in 0..40 {
            self.clock();
        }
        assert_eq!(self.frames.len(), frames, "none too many");
    }
}

/// The frame says what the segment is, and every checksum is right; returns the identification.
fn check(s: &Segment, frame: &[u8], ttl: u8) -> u16 {
    let (ethernet, rest) = Ethernet2Header::from_slice(frame).expect("Ethernet II");
    assert_eq!((ethernet.destination, ethernet.source, ethernet.ether_type), (s.mac, s.own_mac, EtherType::IPV4));
    let (ip, rest) = Ipv4Header::from_slice(rest).expect("IPv4");
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    assert_eq!((ip.source, ip.destination, ip.protocol.0, ip.time_to_live), (s.local.0, s.remote.0, 6, ttl));
    assert!(ip.dont_fragment && !ip.is_fragmenting_payload() && ip.options.is_empty());
    assert_eq!(ip.dscp.value() << 2 | ip.ecn.value(), s.tos, "carried unchanged");
    assert_eq!(frame.len(), 14 + usize::from(ip.total_len), "the frame ends with the datagram");
    assert_eq!(rest[12] & 15, 0, "reserved bits");
    let (tcp, payload) = TcpHeader::from_slice(rest).expect("TCP");
    assert_eq!(payload, s.payload);
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).expect("short enough"), "{} octets", payload.len());
    // once more, as the receiver adds it up
    let pseudo = [&ip.source[..], &ip.destination, &[0, 6], &(rest.len() as u16).to_be_bytes()].concat();
    assert_eq!(checksum(&[&pseudo, rest]), 0);
    assert_eq!((tcp.source_port, tcp.destination_port), (s.local.1, s.remote.1));
    assert_eq!((tcp.sequence_number, tcp.acknowledgment_number), (s.seq, s.ack));
    assert_eq!((rest[13], tcp.window_size, tcp.urgent_pointer), (s.flags, s.window, 0));
    let options: Vec<_> = tcp.options_iterator().map(|o| o.expect("walks")).collect();
    if s.mss == 0 {
        assert_eq!(tcp.data_offset(), 5);
    } else {
        assert_eq!((tcp.data_offset(), options), (6, vec![TcpOptionElement::MaximumSegmentSize(s.mss)]));
    }
    ip.identification
}

/// Covers: TCP-1, TCP-31, TCP-47, IP-2, IP-8, IP-10, IP-12
#[test]
fn every_length_of_payload_with_and_without_mss() {
    let seed = bench::seed("seg_tx every_length");
    let mut b = Bench::new(seed);
    let mut last = None::<u16>;
    for (round, len) in (0..=1480).flat_map(|len| [(0, len), (1, len)]) {
        (b.given, b.filled, b.ready) = [(1.0, 1.0, 1.0), (1.0, 0.5, 1.0), (0.5, 1.0, 0.5)][len % 3];
        let mss = if round == 0 { 0 } else { b.rng.random_range(1..=u16::MAX) };
        let payload = octets(&mut b.rng, len);
        let s = segment(&mut b.rng, mss, payload);
        b.give(&s);
        b.run(1);
        let ident = check(&s, &b.frames.pop().expect("sent"), 64);
        assert!(last.is_none_or(|l| l.wrapping_add(1) == ident), "identification counts");
        last = Some(ident);
    }
    assert_eq!(b.counted[0], 2 * 1481);
    assert_eq!((b.counted[2], b.counted[3]), (b.counted[0], 0));
}

/// Two slots: one is built while the other leaves.
///
/// Covers: TCP-1, IP-12
#[test]
fn segments_of_all_sizes_leave_in_order() {
    let seed = bench::seed("seg_tx in_order");
    let mut b = Bench::new(seed);
    let (mut ident, mut resets) = (0u16, 0);
    for round in 0..60 {
        (b.given, b.filled, b.ready) = [(1.0, 1.0, 1.0), (0.1, 0.9, 0.3), (1.0, 0.6, 1.0), (0.3, 1.0, 0.8)][round % 4];
        let list: Vec<_> = (0..40)
            .map(|_| {
                let most = [1, 20, 200, 1461][b.rng.random_range(0..4)];
                let len = b.rng.random_range(0..most);
                let payload = [octets(&mut b.rng, len), vec![0xff; len], vec![0; len]][b.rng.random_range(0..3)].clone();
                let mss = if b.rng.random() { 0 } else { 1460 };
                segment(&mut b.rng, mss, payload)
            })
            .collect();
        for s in &list {
            b.give(s);
            resets += u64::from(s.flags & RST != 0);
        }
        b.run(list.len());
        for (s, frame) in list.iter().zip(std::mem::take(&mut b.frames)) {
            assert_eq!(check(s, &frame, 64), ident);
            ident = ident.wrapping_add(1);
        }
    }
    assert_eq!(b.counted, [2400, resets, 2400, 0]);
}

/// Both sums go through all their values.
///
/// Covers: TCP-1, IP-2
#[test]
fn sums_at_the_edges_of_ones_complement() {
    let mut b = Bench::new(1);
    let mut seen = [(u16::MAX, 0); 2];
    for seq in 0..=u16::MAX {
        let data: &[u8] = if !(300..=65_200).contains(&seq) { &[0xff, 0xff, 0xff] } else { &[] };
        let mut s = segment(&mut b.rng, 0, data.to_vec());
        (s.mac, s.local, s.remote) = ([2; 6], ([0xff; 4], 0xffff), ([0xff; 4], 0));
        (s.seq, s.ack, s.flags, s.window, s.tos) = (seq.into(), 0, 0, 0, 0);
        b.give(&s);
        while b.frames.is_empty() {
            b.clock();
        }
        let frame = b.frames.pop().expect("there");
        assert_eq!(check(&s, &frame, 64), seq);
        for (seen, at) in seen.iter_mut().zip([24, 50]) {
            let sum = u16::from_be_bytes([frame[at], frame[at + 1]]);
            *seen = (seen.0.min(sum), seen.1.max(sum));
        }
    }
    assert_eq!(seen, [(0, 0xfffe); 2], "0xffff would mean a sum of nothing but zeros");
}

/// Covers: IP-9
#[test]
fn ttl_is_the_registers_and_never_zero() {
    let mut b = Bench::new(2);
    for ttl in 0..=255 {
        b.m.ip_ttl.set(ttl);
        let s = segment(&mut b.rng, 1460, vec![]);
        b.give(&s);
        b.run(1);
        check(&s, &b.frames.pop().expect("sent"), if ttl == 0 { 64 } else { ttl });
    }
    // changed in the middle of one: the old or the new, and the sum fits
    for clocks in 0..30 {
        b.m.ip_ttl.set(1);
        let s = segment(&mut b.rng, 0, vec![1; 9]);
        b.give(&s);
        for _ in 0..clocks {
            b.clock();
        }
        b.m.ip_ttl.set(200);
        b.run(1);
        let frame = b.frames.pop().expect("sent");
        check(&s, &frame, frame[22]);
    }
}

#[test]
fn what_cannot_be_sent_is_dropped_and_the_next_leaves() {
    let mut b = Bench::new(3);
    for len in [1, 7, 8, 9, 600, 1994, 1995, 3000, 10_000] {
        for mss in [0, 536] {
            for error in [true, false] {
                let mut bad = segment(&mut b.rng, mss, vec![0x5a; len]);
                bad.error = error;
                let good = segment(&mut b.rng, 0, vec![7; 33]);
                b.counted = [0; 4];
                b.give(&bad);
                b.give(&good);
                let fits = 54 + if mss == 0 { 0 } else { 4 } + len <= 2048;
                let sent = usize::from(fits && !error);
                b.run(1 + sent);
                check(&good, &b.frames.pop().expect("sent"), 64);
                if let Some(frame) = b.frames.pop() {
                    check(&bad, &frame, 64);
                }
                assert_eq!((b.counted[0], b.counted[2], b.counted[3]), (1 + sent as u64, 1 + sent as u64, 1 - sent as u64));
            }
        }
    }
}

#[test]
fn a_bare_segment_starts_in_time_and_full_ones_follow_each_other() {
    let mut b = Bench::new(4);
    for (mss, most) in [(0, 12), (1460, 12)] {
        let s = segment(&mut b.rng, mss, vec![]);
        b.give(&s);
        b.run(1);
        check(&s, &b.frames.pop().expect("sent"), 64);
        let clocks = b.began.pop().expect("began") - b.taken.pop().expect("taken");
        println!("MSS {mss}: first beat {clocks} clocks after the segment");
        assert!(clocks <= most);
    }
    for len in [0, 1, 1460] {
        b.ended.clear();
        let list: Vec<_> = (0..20).map(|_| segment(&mut b.rng, 0, vec![3; len])).collect();
        list.iter().for_each(|s| b.give(s));
        b.run(20);
        list.iter().zip(std::mem::take(&mut b.frames)).for_each(|(s, frame)| {
            check(s, &frame, 64);
        });
        let clocks = (b.ended[19] - b.ended[9]) as f64 / 10.0;
        println!("{len} octets: a frame each {clocks} clocks");
        assert!(clocks <= (len as f64 / 8.0).ceil().max(7.0) + 10.0);
    }
}

#[test]
fn a_reset_at_any_time_leaves_a_working_block() {
    let seed = bench::seed("seg_tx reset");
    for cut in 1..100 {
        let mut b = Bench::new(seed + cut);
        (b.filled, b.ready) = [(1.0, 1.0), (0.7, 0.3)][cut as usize % 2];
        for len in [5, 0, 100, 40] {
            let s = segment(&mut b.rng, len as u16, vec![9; len]);
            b.give(&s);
        }
        for _ in 0..cut {
            b.clock();
        }
        b.m.reset.set(true);
        b.m.segment_valid.set(false);
        b.m.payload_valid.set(false);
        b.m.tick();
        b.m.reset.set(false);
        b.segments.clear();
        b.words.clear();
        (b.segment_on, b.word_on) = (false, false);
        b.frame.clear();
        b.frames.clear();
        let list: Vec<_> = (0..3).map(|n| segment(&mut b.rng, n, vec![1; 50 * n as usize])).collect();
        list.iter().for_each(|s| b.give(s));
        b.run(3);
        list.iter().zip(&b.frames).for_each(|(s, frame)| {
            check(s, frame, 64);
        });
    }
}

/// What another reader of frames says to them.
///
/// Covers: TCP-1, IP-2
#[test]
fn tshark_finds_nothing_wrong() {
    let seed = bench::seed("seg_tx tshark");
    let mut b = Bench::new(seed);
    let list: Vec<_> = (0..600)
        .map(|n: usize| {
            let len = if n.is_multiple_of(4) { 0 } else { b.rng.random_range(0..=1460) };
            let payload = octets(&mut b.rng, len);
            let mut s = segment(&mut b.rng, if n.is_multiple_of(3) { 1460 } else { 0 }, payload);
            // as a connection has them: private addresses, no port that means a protocol, SYN or ACK
            (s.local, s.remote) = (([10, 0, 0, 1], 50_000 + n as u16), ([10, 0, 0, 2], 60_000));
            (s.mac, s.flags) = ([2, 0, 0, 0, 0, 9], if s.mss != 0 { 0x02 } else { 0x18 });
            s
        })
        .collect();
    list.iter().for_each(|s| b.give(s));
    b.run(list.len());
    let mut capture = vec![];
    // classic pcap: magic, version 2.4, snapshot length, Ethernet
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        capture.extend(word.to_le_bytes());
    }
    for (n, frame) in b.frames.iter().enumerate() {
        for word in [n as u32, 0, frame.len() as u32, frame.len() as u32] {
            capture.extend(word.to_le_bytes());
        }
        capture.extend(frame);
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seg_tx.pcap");
    fs::write(&file, capture).expect("written");
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields"]);
    for field in ["ip.checksum.status", "tcp.checksum.status", "tcp.len", "tcp.options.mss_val", "_ws.malformed"] {
        command.args(["-e", field]);
    }
    let output = command.output().expect("tshark runs (`make setup` installs it)");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count(), list.len());
    for (s, line) in list.iter().zip(text.lines()) {
        let mss = if s.mss == 0 { String::new() } else { s.mss.to_string() };
        assert_eq!(line, format!("1\t1\t{}\t{mss}\t", s.payload.len()), "1 = good");
    }
}
