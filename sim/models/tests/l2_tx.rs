// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::l2_tx` (with `hold`, `l2_ring`, `next_hop` inside): descriptors and frames in a host's memory, a neighbour service of a few lines,
//! and what comes out on the wire.
use ironwarp_abi::l2::*;
use ironwarp_models::bench::{Memory, ReadHost, WriteHost};
use ironwarp_models::{bench, l2_tx::Model, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{HashMap, HashSet, VecDeque};

const OWN_MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const OWN_IP: u32 = 0xc000_0201;
const MASK: u32 = 0xffff_ff00;
const GATEWAY: u32 = 0xc000_02fe;
const MTU: u16 = 1500;
const RING: u64 = 0x7_1234_5670;
const WAITING: usize = 4;

fn mac_of(ip: u32) -> [u8; 6] {
    let o = ip.to_be_bytes();
    [0x06, o[0], o[1], o[2], o[3], 0x99]
}

fn mac_bits(mac: [u8; 6]) -> u64 {
    mac.iter().rev().fold(0, |bits, octet| bits << 8 | u64::from(*octet))
}

/// What the neighbour service knows of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Neighbor {
    Known([u8; 6]),
    /// Nothing will come until the test says so.
    Silent,
    Busy,
    /// The resolution ends so many clocks after the first question: well or badly.
    Soon(u64, bool),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    frames: u64,
    errors: u64,
    no_neighbor: u64,
    replaced: u64,
    doorbell_errors: u64,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    ring_host: ReadHost,
    frame_host: ReadHost,
    write_host: WriteHost,
    log2: u32,
    tail: u16,
    next_buffer: u64,
    clocks: u64,
    /// Chance that the wire takes a beat, and that the neighbour service does its next step.
    taking: f64,
    neighbors: HashMap<u32, Neighbor>,
    asked: Vec<(u32, u32)>,
    answer: Option<(bool, bool, u64)>,
    resolving: VecDeque<(u64, u32, bool)>,
    notice: Option<(u32, Option<[u8; 6]>)>,
    building: Vec<u8>,
    stalled: Option<(u64, u64, u64)>,
    frames: Vec<Vec<u8>>,
    interrupts: u64,
    counts: Counts,
}

impl Bench {
    fn new(log2: u32) -> Self {
        let seed = bench::seed("l2_tx");
        let mut m = Model::new(seed);
        m.own_mac.set(mac_bits(OWN_MAC));
        m.mtu.set(MTU);
        m.ring_base.set(RING);
        m.ring_log2.set(log2 as u8);
        for valid in [&mut m.local_0_valid, &mut m.local_2_valid, &mut m.local_3_valid] {
            valid.set(0);
        }
        m.local_1_valid.set(1);
        m.local_1_ip.set(u64::from(OWN_IP));
        m.local_1_mask.set(u64::from(MASK));
        m.local_1_gateway.set(u64::from(GATEWAY));
        let mut b = Bench {
            m,
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            ring_host: ReadHost::new(1..40, 0.2),
            frame_host: ReadHost::new(1..40, 0.2),
            write_host: WriteHost::new(1..40, 0.2),
            log2,
            tail: 0,
            next_buffer: 0x10_0000_0000,
            clocks: 0,
            taking: 0.8,
            neighbors: HashMap::new(),
            asked: vec![],
            answer: None,
            resolving: VecDeque::new(),
            notice: None,
            building: vec![],
            stalled: None,
            frames: vec![],
            interrupts: 0,
            counts: Counts::default(),
        };
        b.reset();
        b
    }
    /// As the reset sequence does it: nothing is outstanding afterwards.
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.doorbell_valid.set(false);
        self.ring_host = ReadHost::new(self.ring_host.latency.clone(), self.ring_host.busy);
        self.frame_host = ReadHost::new(self.frame_host.latency.clone(), self.frame_host.busy);
        self.write_host = WriteHost::new(self.write_host.latency.clone(), self.write_host.busy);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.tail = 0;
        self.answer = None;
        self.resolving.clear();
        self.notice = None;
        self.building.clear();
        self.stalled = None;
        self.frames.clear();
    }
    fn slot(&self, index: u16) -> u64 {
        RING + 16 * (u64::from(index) & ((1 << self.log2) - 1))
    }
    fn descriptor(&self, index: u16) -> L2Descriptor {
        let at = self.slot(index);
        let (a, b) = (self.memory.word(at), self.memory.word(at + 8));
        L2Descriptor::decode(&[a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
    }
    /// Writes frame and descriptor; no doorbell. Any alignment of the buffer.
    fn post(&mut self, frame: &[u8], len: u16, flags: u16) {
        let addr = self.next_buffer + self.rng.random_range(0..64);
        self.next_buffer += 0x1_0000;
        for (i, chunk) in frame.chunks(8).enumerate() {
            let mut word = [0xee; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.memory.0.insert(addr + 8 * i as u64, u64::from_le_bytes(word));
        }
        let at = self.slot(self.tail);
        self.memory.put(at, &L2Descriptor { addr, len, flags, ..L2Descriptor::default() }.encode());
        self.tail = self.tail.wrapping_add(1);
    }
    fn ring_doorbell(&mut self, value: u16) {
        self.m.doorbell.set(value);
        self.m.doorbell_valid.set(true);
        self.clock();
        self.m.doorbell_valid.set(false);
    }
    /// Posts one frame and waits until its descriptor is done.
    fn send(&mut self, frame: &[u8], flags: u16) -> L2Descriptor {
        let index = self.tail;
        self.post(frame, frame.len() as u16, flags);
        self.ring_doorbell(self.tail);
        self.until_completed();
        self.descriptor(index)
    }
    fn until_completed(&mut self) {
        let mut clocks = 0;
        while self.m.head.get() != self.tail {
            self.clock();
            clocks += 1;
            assert!(clocks < 200_000, "descriptors are completed: {} of {}", self.m.head.get(), self.tail);
        }
    }
    fn settle(&mut self) {
        for _ in 0..3000 {
            self.clock();
        }
    }
    fn tell(&mut self, ip: u32, mac: Option<[u8; 6]>) {
        if let Some(mac) = mac {
            self.neighbors.insert(ip, Neighbor::Known(mac));
        } else {
            self.neighbors.remove(&ip);
        }
        self.notice = Some((ip, mac));
        self.clock();
    }
    fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }
    fn clock(&mut self) {
        // the host
        let (ready, beat) = self.ring_host.offer(&self.memory, &mut self.rng);
        self.m.ring_rd_req_ready.set(ready);
        self.m.ring_rd_data_valid.set(beat.is_some());
        if let Some(beat) = beat {
            self.m.ring_rd_data_data_data.set(beat.data);
            self.m.ring_rd_data_data_last.set(u64::from(beat.last));
            self.m.ring_rd_data_data_error.set(u64::from(beat.error));
        }
        let (ready, beat) = self.frame_host.offer(&self.memory, &mut self.rng);
        self.m.frame_rd_req_ready.set(ready);
        self.m.frame_rd_data_valid.set(beat.is_some());
        if let Some(beat) = beat {
            self.m.frame_rd_data_data_data.set(beat.data);
            self.m.frame_rd_data_data_last.set(u64::from(beat.last));
            self.m.frame_rd_data_data_error.set(u64::from(beat.error));
        }
        let (ready, beat_ready, end) = self.write_host.offer(&mut self.memory, &mut self.rng);
        self.m.wr_req_ready.set(ready);
        self.m.wr_data_ready.set(beat_ready);
        self.m.wr_done_valid.set(end.is_some());
        self.m.wr_done_error.set(end == Some(true));
        // the neighbour service
        if self.notice.is_none() && self.resolving.front().is_some_and(|(due, ..)| *due <= self.clocks) {
            if let Some((_, ip, ok)) = self.resolving.pop_front() {
                self.neighbors.insert(ip, if ok { Neighbor::Known(mac_of(ip)) } else { Neighbor::Soon(20, false) });
                self.notice = Some((ip, ok.then(|| mac_of(ip))));
            }
        }
        let notice = self.notice.take();
        self.m.notice_valid.set(notice.is_some());
        if let Some((ip, mac)) = notice {
            self.m.notice_ip.set(u64::from(ip));
            self.m.notice_ok.set(u64::from(mac.is_some()));
            self.m.notice_mac.set(mac.map_or(0x5555_5555_5555, mac_bits));
        }
        self.m.query_ready.set(self.answer.is_none() && self.rng.random_bool(0.3));
        self.m.answer_valid.set(false);
        if let Some((found, busy, mac)) = self.answer {
            self.m.answer_valid.set(true);
            self.m.answer_data_found.set(u64::from(found));
            self.m.answer_data_busy.set(u64::from(busy));
            self.m.answer_data_mac.set(mac);
        }
        // the wire
        self.m.out_ready.set(self.rng.random_bool(self.taking));
        self.m.eval();

        let m = &self.m;
        if m.out_valid.get() {
            let beat = (m.out_beat_data.get(), m.out_beat_keep.get(), m.out_beat_last.get());
            assert!(self.stalled.is_none_or(|before| before == beat), "an offered beat stays until it is taken");
            assert!(!m.out_beat_error.bit());
            self.stalled = Some(beat);
            if m.out_ready.get() {
                self.stalled = None;
                let octets = beat.1.count_ones() as usize;
                assert_eq!(beat.1, (1u64 << octets) - 1);
                assert!(octets == 8 || beat.2 == 1);
                self.building.extend(&beat.0.to_le_bytes()[..octets]);
                if beat.2 == 1 {
                    self.frames.push(std::mem::take(&mut self.building));
                }
            }
        } else {
            assert!(self.stalled.is_none() && self.building.is_empty(), "a frame is never interrupted");
        }
        let request = |valid: bool, ready: bool, addr: u64, len: u64| (valid && ready).then_some((addr, len as u16));
        let ring =
            request(m.ring_rd_req_valid.get(), m.ring_rd_req_ready.get(), m.ring_rd_req_data_addr.get(), m.ring_rd_req_data_len.get());
        let frame =
            request(m.frame_rd_req_valid.get(), m.frame_rd_req_ready.get(), m.frame_rd_req_data_addr.get(), m.frame_rd_req_data_len.get());
        let write = request(m.wr_req_valid.get(), m.wr_req_ready.get(), m.wr_req_data_addr.get(), m.wr_req_data_len.get());
        let beat = (m.wr_data_valid.get() && m.wr_data_ready.get()).then(|| (m.wr_data_data_data.get(), m.wr_data_data_last.bit()));
        let ring_taken = m.ring_rd_data_valid.get() && m.ring_rd_data_ready.get();
        let frame_taken = m.frame_rd_data_valid.get() && m.frame_rd_data_ready.get();
        self.interrupts += u64::from(m.irq.get());
        let c = &mut self.counts;
        for (pulse, count) in [
            (&m.cnt_l2_out_frames, &mut c.frames),
            (&m.cnt_l2_out_errors, &mut c.errors),
            (&m.cnt_l2_out_no_neighbor, &mut c.no_neighbor),
            (&m.cnt_l2_out_replaced, &mut c.replaced),
            (&m.cnt_doorbell_errors, &mut c.doorbell_errors),
        ] {
            *count += u64::from(pulse.get());
        }
        if self.answer.is_some() && m.answer_ready.get() {
            self.answer = None;
        }
        if m.query_valid.get() && m.query_ready.get() {
            let ip = m.query_data_ip.get() as u32;
            assert!(!m.query_data_recheck.bit());
            self.asked.push((ip, m.query_data_source.get() as u32));
            self.answer = Some(match self.neighbors.get(&ip).copied().unwrap_or(Neighbor::Silent) {
                Neighbor::Known(mac) => (true, false, mac_bits(mac)),
                Neighbor::Silent => (false, false, 0x4444_4444_4444),
                Neighbor::Busy => (false, true, 0x4444_4444_4444),
                Neighbor::Soon(clocks, ok) => {
                    self.resolving.push_back((self.clocks + clocks, ip, ok));
                    self.neighbors.insert(ip, Neighbor::Silent);
                    (false, false, 0x4444_4444_4444)
                }
            });
        }
        self.ring_host.step(ring, ring_taken, &mut self.rng);
        self.frame_host.step(frame, frame_taken, &mut self.rng);
        self.write_host.step(write, beat, &mut self.rng);
        self.clocks += 1;
        self.m.tick();
    }
    fn random_frame(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.rng.random()).collect()
    }
    /// An IPv4 datagram to `dst` in an Ethernet frame of `len` octets whose MAC addresses are still to be filled in.
    fn datagram(&mut self, dst: u32, len: usize) -> Vec<u8> {
        let mut f = self.random_frame(len);
        f[..12].fill(0);
        f[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        f[26..30].copy_from_slice(&OWN_IP.to_be_bytes());
        f[30..34].copy_from_slice(&dst.to_be_bytes());
        f
    }
}

fn with_macs(frame: &[u8], dst: [u8; 6]) -> Vec<u8> {
    [&dst, &OWN_MAC, &frame[12..]].concat()
}

/// Covers: ETH-5
#[test]
fn frames_go_out_as_they_are_and_every_descriptor_is_completed_in_order() {
    let mut b = Bench::new(2);
    let mut sent = vec![];
    let lens: Vec<usize> = (14..=80).chain([127, 128, 129, 1513, 1514, 1515, 1516, 1517, 1518]).collect();
    let mut next = 0;
    while next < lens.len() {
        let room = 4 - outstanding(&b);
        for _ in 0..b.rng.random_range(0..=room).min(lens.len() - next) {
            let frame = b.random_frame(lens[next]);
            b.post(&frame, frame.len() as u16, 0);
            sent.push(frame);
            next += 1;
        }
        b.ring_doorbell(b.tail);
        for _ in 0..b.rng.random_range(0..60) {
            b.clock();
        }
    }
    b.until_completed();
    b.settle();
    assert_eq!(b.take_frames(), sent);
    assert_eq!(b.interrupts, lens.len() as u64);
    let written: Vec<_> = b.write_host.ended.iter().map(|w| (w.addr, w.len, w.beats[0])).collect();
    let expect: Vec<_> = lens.iter().enumerate().map(|(i, len)| (b.slot(i as u16) + 8, 8, *len as u64 | 1 << 63)).collect();
    assert_eq!(written, expect, "dwords 2 and 3 of each descriptor, in order, over the end of the ring of four");
    assert_eq!(b.counts, Counts { frames: lens.len() as u64, ..Counts::default() });
    assert!(b.asked.is_empty());
}

fn outstanding(b: &Bench) -> usize {
    usize::from(b.tail.wrapping_sub(b.m.head.get()))
}

/// An interrupt is raised only after the completion is in memory.
#[test]
fn the_completion_is_in_memory_before_the_interrupt() {
    let mut b = Bench::new(3);
    for n in 0..50 {
        let frame = b.random_frame(64);
        b.post(&frame, 64, 0);
        b.ring_doorbell(b.tail);
        let before = b.interrupts;
        while b.interrupts == before {
            b.clock();
        }
        assert!(b.descriptor(n).done, "descriptor {n}");
    }
}

/// Covers: ETH-5
#[test]
fn bad_lengths_are_refused_without_reading_the_frame() {
    let mut b = Bench::new(4);
    let mut wrong = 0;
    for (mtu, len, good) in [
        (1500, 0, false),
        (1500, 13, false),
        (1500, 14, true),
        (1500, 1518, true),
        (1500, 1519, false),
        (1500, u16::MAX, false),
        (576, 594, true),
        (576, 595, false),
        (9000, 2048, true),
        (9000, 2049, false),
    ] {
        b.m.mtu.set(mtu);
        let before = b.frame_host.requests.len();
        let index = b.tail;
        let frame = b.random_frame(usize::from(len));
        b.post(&frame, len, 0);
        b.ring_doorbell(b.tail);
        b.until_completed();
        b.settle();
        let d = b.descriptor(index);
        assert_eq!((d.done, d.len, d.done_flags), (true, len, if good { 0 } else { DONE_LENGTH_ERROR }), "{len} at MTU {mtu}");
        assert_eq!(b.frame_host.requests.len() - before, usize::from(good));
        assert_eq!(b.take_frames(), if good { vec![frame] } else { vec![] });
        wrong += u64::from(!good);
    }
    assert_eq!(b.counts.errors, wrong);
}

/// Covers: ARP-10, ARP-9
#[test]
fn resolve_writes_both_mac_addresses_of_the_next_hop() {
    let mut b = Bench::new(4);
    let (near, far) = (0xc000_0209, 0x0808_0808);
    b.neighbors.insert(near, Neighbor::Known(mac_of(near)));
    b.neighbors.insert(GATEWAY, Neighbor::Known(mac_of(GATEWAY)));
    for (dst, mac, asked) in [
        (near, mac_of(near), Some(near)),
        (far, mac_of(GATEWAY), Some(GATEWAY)),
        (0xc000_02ff, [0xff; 6], None),
        (0xffff_ffff, [0xff; 6], None),
        (0xe000_00fb, [1, 0, 0x5e, 0, 0, 0xfb], None),
        (OWN_IP, OWN_MAC, None),
    ] {
        for len in [34, 42, 60, 1514] {
            b.asked.clear();
            let frame = b.datagram(dst, len);
            let d = b.send(&frame, TX_RESOLVE);
            b.settle();
            assert_eq!((d.done_flags, d.len, d.flags), (0, len as u16, TX_RESOLVE));
            assert_eq!(b.take_frames(), [with_macs(&frame, mac)]);
            assert_eq!(b.asked, asked.iter().map(|ip| (*ip, OWN_IP)).collect::<Vec<_>>());
        }
    }
    // asked anew for each frame: a new MAC address counts at once
    for n in 0..5 {
        let mac = [2, 0, 0, 0, 0, n];
        b.neighbors.insert(near, Neighbor::Known(mac));
        let frame = b.datagram(near, 60);
        b.send(&frame, TX_RESOLVE);
        b.settle();
        assert_eq!(b.take_frames(), [with_macs(&frame, mac)]);
    }
    assert_eq!(b.counts, Counts { frames: 29, ..Counts::default() });
}

/// Covers: ARP-10
#[test]
fn what_has_no_next_hop_is_refused() {
    let mut b = Bench::new(4);
    let mut not_ip = b.datagram(0xc000_0209, 60);
    not_ip[12..14].copy_from_slice(&[0x86, 0xdd]);
    let mut swapped = b.datagram(0xc000_0209, 60);
    swapped[12..14].copy_from_slice(&[0x00, 0x08]);
    let frames = [not_ip, swapped, b.datagram(0xc000_0209, 60)[..33].to_vec(), b.datagram(0x7f00_0001, 60), b.datagram(0, 60)];
    for frame in &frames {
        let d = b.send(frame, TX_RESOLVE);
        assert_eq!((d.done, d.done_flags), (true, DONE_NO_ROUTE));
    }
    b.m.local_1_gateway.set(0);
    let off_link = b.datagram(0x0808_0808, 60);
    assert_eq!(b.send(&off_link, TX_RESOLVE).done_flags, DONE_NO_ROUTE);
    b.settle();
    assert!(b.frames.is_empty() && b.asked.is_empty());
    assert_eq!(b.counts, Counts { errors: 6, ..Counts::default() });
}

/// Covers: ARP-6, ARP-7
#[test]
fn a_frame_waits_for_its_next_hop_while_later_ones_pass() {
    let mut b = Bench::new(4);
    let (slow, quick) = (0xc000_0210, 0xc000_0211);
    b.neighbors.insert(quick, Neighbor::Known(mac_of(quick)));
    let waiting = b.datagram(slow, 1514);
    assert_eq!(b.send(&waiting, TX_RESOLVE).done_flags, DONE_PENDING);
    assert_eq!(b.asked, [(slow, OWN_IP); 2], "and once more when it waits");
    let passing = b.datagram(quick, 200);
    assert_eq!(b.send(&passing, TX_RESOLVE).done_flags, 0);
    let raw = b.random_frame(99);
    b.send(&raw, 0);
    b.settle();
    assert_eq!(b.take_frames(), [with_macs(&passing, mac_of(quick)), raw]);
    b.tell(0xc000_0212, Some([9; 6]));
    b.settle();
    assert!(b.frames.is_empty(), "a notice for another address");
    b.tell(slow, Some(mac_of(slow)));
    b.settle();
    assert_eq!(b.take_frames(), [with_macs(&waiting, mac_of(slow))]);
    b.tell(slow, Some(mac_of(slow)));
    b.settle();
    assert!(b.frames.is_empty(), "once");
    assert_eq!(b.counts, Counts { frames: 3, ..Counts::default() });
}

/// Covers: ARP-6
#[test]
fn the_latest_frame_for_an_unresolved_next_hop_is_kept() {
    let mut b = Bench::new(4);
    let hops: Vec<u32> = (0..WAITING as u32).map(|n| 0xc000_0220 + n).collect();
    let mut latest = HashMap::new();
    for round in 0..5 {
        for hop in &hops {
            let len = b.rng.random_range(34..1515);
            let frame = b.datagram(*hop, len);
            assert_eq!(b.send(&frame, TX_RESOLVE).done_flags, DONE_PENDING, "round {round}");
            latest.insert(*hop, with_macs(&frame, mac_of(*hop)));
        }
    }
    assert_eq!(b.counts.replaced, 4 * WAITING as u64);
    // one more next hop has no room
    let more = b.datagram(0xc000_0230, 60);
    assert_eq!(b.send(&more, TX_RESOLVE).done_flags, DONE_NO_ROOM);
    assert_eq!(b.counts.errors, 1);
    // frames that do not wait still pass
    let raw = b.random_frame(1518);
    b.send(&raw, 0);
    b.settle();
    assert_eq!(b.take_frames(), [raw]);
    // one fails, the others come, in any order
    b.tell(hops[1], None);
    for hop in [2, 0, 3] {
        b.tell(hops[hop], Some(mac_of(hops[hop])));
    }
    b.settle();
    let got: HashSet<_> = b.take_frames().into_iter().collect();
    assert_eq!(got, [0, 2, 3].iter().map(|k| latest[&hops[*k]].clone()).collect());
    assert_eq!((b.counts.no_neighbor, b.counts.frames), (1, 4));
    // and all places are free again
    for n in 0..WAITING as u32 {
        let frame = b.datagram(0xc000_0240 + n, 60);
        assert_eq!(b.send(&frame, TX_RESOLVE).done_flags, DONE_PENDING);
    }
}

/// Covers: ARP-6
#[test]
fn a_neighbour_that_resolves_between_question_and_waiting_is_not_missed() {
    let mut b = Bench::new(4);
    b.taking = 0.95;
    for clocks in 1..120 {
        for ok in [true, false] {
            let ip = 0xc000_0210;
            b.neighbors.insert(ip, Neighbor::Soon(clocks, ok));
            let before = b.counts;
            let frame = b.datagram(ip, 60);
            b.send(&frame, TX_RESOLVE);
            for _ in 0..400 {
                b.clock();
            }
            let (sent, lost) = (b.counts.frames - before.frames, b.counts.no_neighbor - before.no_neighbor);
            if ok {
                assert_eq!((sent, lost), (1, 0), "{clocks} clocks");
                assert_eq!(b.take_frames(), [with_macs(&frame, mac_of(ip))]);
            } else {
                assert_eq!((sent, lost), (0, 1), "{clocks} clocks");
            }
        }
    }
    assert_eq!(b.counts.errors, 0);
}

/// Covers: ARP-7
#[test]
fn a_busy_neighbour_service_refuses_the_frame() {
    let mut b = Bench::new(2);
    b.neighbors.insert(0xc000_0210, Neighbor::Busy);
    let frame = b.datagram(0xc000_0210, 60);
    assert_eq!(b.send(&frame, TX_RESOLVE).done_flags, DONE_NO_ROOM);
    b.settle();
    assert_eq!((b.frames.len(), b.counts), (0, Counts { errors: 1, ..Counts::default() }));
}

/// Reads and writes that fail complete the descriptor, lose no other frame and send nothing damaged.
#[test]
fn dma_errors_complete_the_descriptor_and_spare_the_others() {
    let mut b = Bench::new(3);
    b.ring_host.failing = 0.1;
    b.frame_host.failing = 0.2;
    b.write_host.failing = 0.1;
    let mut posted = vec![];
    for _ in 0..400 {
        while outstanding(&b) == 8 {
            b.clock();
        }
        let len = b.rng.random_range(14..300);
        let frame = b.random_frame(len);
        b.post(&frame, len as u16, 0);
        posted.push(frame);
        b.ring_doorbell(b.tail);
    }
    b.until_completed();
    b.settle();
    let written = &b.write_host.ended;
    assert_eq!(written.len(), posted.len());
    assert!(written.iter().enumerate().all(|(i, w)| w.addr == b.slot(i as u16) + 8), "in order, whatever failed");
    let flags = |beat: u64| (beat >> 32) as u16;
    let good: Vec<_> = posted.iter().zip(written).filter(|(_, w)| flags(w.beats[0]) == 0).map(|(f, _)| f.clone()).collect();
    assert!(written.iter().all(|w| w.beats[0] >> 63 == 1 && [0, DONE_DMA_ERROR].contains(&flags(w.beats[0]))));
    let failed = b.ring_host.failed + b.frame_host.failed;
    assert!(failed > 50);
    assert_eq!((good.len() as u64 + failed, b.counts.errors), (400, failed));
    assert_eq!(b.take_frames(), good);
    assert_eq!(b.interrupts, 400);
}

/// Doorbells behind the last one or further than the ring is long are counted and do nothing.
#[test]
fn nonsense_doorbells_are_ignored() {
    let mut b = Bench::new(2);
    for round in 0..20u16 {
        for _ in 0..3 {
            let frame = b.random_frame(60);
            b.post(&frame, 60, 0);
        }
        let good = b.tail;
        b.ring_host.busy = 1.0; // keeps the ring as it is
        b.ring_doorbell(good);
        let before = b.counts.doorbell_errors;
        for bad in [good.wrapping_sub(1), good.wrapping_add(2), good.wrapping_add(0x8000), good.wrapping_sub(4)] {
            b.ring_doorbell(bad);
        }
        b.ring_doorbell(good); // again is no error
        b.clock();
        assert_eq!(b.counts.doorbell_errors - before, 4, "round {round}");
        b.ring_host.busy = 0.1;
        b.until_completed();
        b.settle();
        assert_eq!(b.take_frames().len(), 3);
    }
}

/// Indices wrap at 2^16 and rings may start anywhere.
#[test]
fn free_running_indices_wrap() {
    let mut b = Bench::new(2);
    b.taking = 1.0;
    b.ring_host = ReadHost::new(1..2, 0.0);
    b.frame_host = ReadHost::new(1..2, 0.0);
    b.write_host = WriteHost::new(1..2, 0.0);
    let frame = b.random_frame(14);
    for _ in 0..66_000 / 4 {
        for _ in 0..4 {
            b.post(&frame, 14, 0);
        }
        b.ring_doorbell(b.tail);
        b.until_completed();
        b.memory.0.retain(|at, _| (RING..RING + 64).contains(at));
    }
    b.settle();
    assert_eq!(b.counts, Counts { frames: 66_000, ..Counts::default() });
    assert_eq!(b.m.head.get(), 66_000u32 as u16);
}

/// A reset at any moment leaves empty rings and no waiting frame.
#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::new(3);
    for round in 0..150u32 {
        let (known, silent) = (0xc000_0210, 0xc000_0220 + round % 6);
        b.neighbors.insert(known, Neighbor::Known(mac_of(known)));
        b.neighbors.remove(&silent);
        for dst in [silent, known, silent + 1, known] {
            let frame = b.datagram(dst, 200);
            b.post(&frame, 200, TX_RESOLVE);
        }
        b.ring_doorbell(b.tail);
        for _ in 0..b.rng.random_range(0..800) {
            b.clock();
        }
        b.reset();
        b.clock();
        assert_eq!(b.m.head.get(), 0);
        b.tell(silent, Some(mac_of(silent)));
        b.settle();
        assert!(b.frames.is_empty(), "round {round}: nothing waits");
        let frame = b.random_frame(64);
        b.send(&frame, 0);
        b.settle();
        assert_eq!(b.take_frames(), [frame], "round {round}");
    }
}

/// Covers: ARP-6, ARP-7, ARP-10
#[test]
fn under_random_traffic_every_frame_is_sent_replaced_or_accounted_for() {
    let mut b = Bench::new(4);
    let mut posted: Vec<(Vec<u8>, u16, Option<u32>)> = vec![];
    let hops: Vec<u32> = (0..12).map(|n| 0xc000_0210 + n).collect();
    for step in 0..3000 {
        while outstanding(&b) >= 16 {
            b.clock();
        }
        // neighbours come, move and go
        if b.rng.random_bool(0.2) {
            let ip = *hops.choose(&mut b.rng).expect("not empty");
            if !b.resolving.iter().any(|(_, other, _)| *other == ip) && b.neighbors.get(&ip) != Some(&Neighbor::Silent) {
                let soon = Neighbor::Soon(b.rng.random_range(1..3000), b.rng.random_bool(0.7));
                b.neighbors.insert(ip, soon);
            }
        }
        let len = if b.rng.random() { b.rng.random_range(46..100) } else { b.rng.random_range(46..1519) };
        let (mut frame, flags, hop) = match b.rng.random_range(0..10) {
            0..=5 => {
                let ip = *hops.choose(&mut b.rng).expect("not empty");
                b.neighbors.entry(ip).or_insert(Neighbor::Soon(500, true));
                (b.datagram(ip, len), TX_RESOLVE, Some(ip))
            }
            6 => (b.datagram(0xc000_02ff, len), TX_RESOLVE, None),
            _ => (b.random_frame(len), 0, None),
        };
        frame[38..42].copy_from_slice(&(step as u32).to_be_bytes());
        b.post(&frame, len as u16, flags);
        posted.push((frame, flags, hop));
        b.ring_doorbell(b.tail);
        for _ in 0..b.rng.random_range(0..100) {
            b.clock();
        }
    }
    b.until_completed();
    for _ in 0..10 {
        b.settle();
    }
    let frames = b.take_frames();
    let number = |f: &[u8]| u32::from_be_bytes([f[38], f[39], f[40], f[41]]) as usize;
    let order: Vec<_> = frames.iter().map(|f| number(f)).collect();
    let mut pending = vec![];
    let mut refused = 0;
    let flags: Vec<_> = b.write_host.ended.iter().map(|w| (w.beats[0] >> 32) as u16).collect();
    for (n, (frame, _, hop)) in posted.iter().enumerate() {
        let at = order.iter().position(|k| *k == n);
        match flags[n] {
            0 => {
                let sent = &frames[at.unwrap_or_else(|| panic!("frame {n} was sent"))];
                match hop {
                    Some(ip) => assert_eq!(*sent, with_macs(frame, mac_of(*ip)), "frame {n}"),
                    None if posted[n].1 == TX_RESOLVE => assert_eq!(*sent, with_macs(frame, [0xff; 6])),
                    None => assert_eq!(sent, frame),
                }
            }
            DONE_PENDING => pending.push((n, at)),
            DONE_NO_ROOM => {
                refused += 1;
                assert_eq!(at, None);
            }
            other => panic!("frame {n}: {other:#x}"),
        }
    }
    let direct: Vec<_> = order.iter().filter(|n| flags[**n] == 0).collect();
    assert!(direct.is_sorted(), "frames that do not wait keep their order");
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), order.len(), "none twice");
    let late = pending.iter().filter(|(_, at)| at.is_some()).count() as u64;
    for (n, at) in &pending {
        if let Some(at) = at {
            assert_eq!(frames[*at], with_macs(&posted[*n].0, mac_of(posted[*n].2.expect("it had a next hop"))));
        }
    }
    let c = b.counts;
    assert_eq!(c.frames, frames.len() as u64);
    assert_eq!(c.errors, refused);
    assert_eq!(pending.len() as u64, late + c.replaced + c.no_neighbor);
    assert!(late > 50 && c.replaced > 50 && c.no_neighbor > 10 && refused > 10, "{late} late, {refused} refused, {c:?}");
}
