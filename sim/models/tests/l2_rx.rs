// SPDX-License-Identifier: MIT OR Apache-2.0
//! `net::l2_rx` (with `l2_ring` inside): frames in, and what a host finds in its buffers and descriptors.
use ironwarp_abi::l2::*;
use ironwarp_models::bench::{Memory, ReadHost, WriteHost};
use ironwarp_models::{bench, l2_rx::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const RING: u64 = 0x9_8765_4320;
/// Octets that the block's memory holds.
const MEMORY: usize = 8 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    frames: u64,
    no_buffer: u64,
    doorbell_errors: u64,
}

/// A completed descriptor as the host sees it.
#[derive(Clone, Debug, PartialEq)]
struct Received {
    index: u16,
    flags: u16,
    frame: Vec<u8>,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    ring_host: ReadHost,
    write_host: WriteHost,
    log2: u32,
    tail: u16,
    head: u16,
    next_buffer: u64,
    received: Vec<Received>,
    interrupts: u64,
    counts: Counts,
}

impl Bench {
    fn new(log2: u32) -> Self {
        let seed = bench::seed("l2_rx");
        let mut m = Model::new(seed);
        m.ring_base.set(RING);
        m.ring_log2.set(log2 as u8);
        let mut b = Bench {
            m,
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            ring_host: ReadHost::new(1..40, 0.2),
            write_host: WriteHost::new(1..40, 0.2),
            log2,
            tail: 0,
            head: 0,
            next_buffer: 0x20_0000_0000,
            received: vec![],
            interrupts: 0,
            counts: Counts::default(),
        };
        b.reset();
        b
    }
    /// As the reset sequence does it: nothing is outstanding afterwards.
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.inp_valid.set(false);
        self.m.doorbell_valid.set(false);
        self.ring_host = ReadHost::new(self.ring_host.latency.clone(), self.ring_host.busy);
        self.write_host = WriteHost::new(self.write_host.latency.clone(), self.write_host.busy);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.tail = 0;
        self.head = 0;
        self.received.clear();
    }
    fn slot(&self, index: u16) -> u64 {
        RING + 16 * (u64::from(index) & ((1 << self.log2) - 1))
    }
    fn descriptor(&self, index: u16) -> L2Descriptor {
        let at = self.slot(index);
        let (a, b) = (self.memory.word(at), self.memory.word(at + 8));
        L2Descriptor::decode(&[a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32])
    }
    fn room(&self) -> usize {
        (1 << self.log2) - usize::from(self.tail.wrapping_sub(self.head))
    }
    fn post(&mut self, len: u16) {
        let addr = self.next_buffer + self.rng.random_range(0..64);
        self.next_buffer += 0x1_0000;
        let at = self.slot(self.tail);
        self.memory.put(at, &L2Descriptor { addr, len, ..L2Descriptor::default() }.encode());
        self.tail = self.tail.wrapping_add(1);
    }
    fn ring_doorbell(&mut self, value: u16) {
        self.m.doorbell.set(value);
        self.m.doorbell_valid.set(true);
        self.clock();
        self.m.doorbell_valid.set(false);
    }
    fn post_all(&mut self, len: u16) {
        for _ in 0..self.room() {
            self.post(len);
        }
        self.ring_doorbell(self.tail);
    }
    /// Puts a frame on the input, a beat a clock with chance `pace`.
    fn arrive(&mut self, frame: &[u8], error: bool, pace: f64) {
        let beats = frame.len().div_ceil(8);
        for (i, chunk) in frame.chunks(8).enumerate() {
            while !self.rng.random_bool(pace) {
                self.clock();
            }
            let mut word = [0xdd; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.m.inp_valid.set(true);
            self.m.inp_beat_data.set(u64::from_le_bytes(word));
            self.m.inp_beat_keep.set((1u64 << chunk.len()) - 1);
            self.m.inp_beat_last.set(u64::from(i + 1 == beats));
            self.m.inp_beat_error.set(u64::from(error && i + 1 == beats));
            self.clock();
            self.m.inp_valid.set(false);
        }
    }
    fn settle(&mut self) {
        for _ in 0..3000 {
            self.clock();
        }
    }
    /// One clock; the host looks at its descriptors when it is interrupted.
    fn clock(&mut self) {
        let (ready, beat) = self.ring_host.offer(&self.memory, &mut self.rng);
        self.m.ring_rd_req_ready.set(ready);
        self.m.ring_rd_data_valid.set(beat.is_some());
        if let Some(beat) = beat {
            self.m.ring_rd_data_data_data.set(beat.data);
            self.m.ring_rd_data_data_last.set(u64::from(beat.last));
            self.m.ring_rd_data_data_error.set(u64::from(beat.error));
        }
        let (ready, beat_ready, end) = self.write_host.offer(&mut self.memory, &mut self.rng);
        self.m.wr_req_ready.set(ready);
        self.m.wr_data_ready.set(beat_ready);
        self.m.wr_done_valid.set(end.is_some());
        self.m.wr_done_error.set(end == Some(true));
        self.m.eval();
        let m = &self.m;
        assert!(m.inp_ready.get(), "the router never waits");
        let request = |valid: bool, ready: bool, addr: u64, len: u64| (valid && ready).then_some((addr, len as u16));
        let ring =
            request(m.ring_rd_req_valid.get(), m.ring_rd_req_ready.get(), m.ring_rd_req_data_addr.get(), m.ring_rd_req_data_len.get());
        let write = request(m.wr_req_valid.get(), m.wr_req_ready.get(), m.wr_req_data_addr.get(), m.wr_req_data_len.get());
        let beat = (m.wr_data_valid.get() && m.wr_data_ready.get()).then(|| (m.wr_data_data_data.get(), m.wr_data_data_last.bit()));
        let ring_taken = m.ring_rd_data_valid.get() && m.ring_rd_data_ready.get();
        let interrupt = m.irq.get();
        let c = &mut self.counts;
        for (pulse, count) in [
            (&m.cnt_l2_in_frames, &mut c.frames),
            (&m.cnt_l2_in_no_buffer, &mut c.no_buffer),
            (&m.cnt_doorbell_errors, &mut c.doorbell_errors),
        ] {
            *count += u64::from(pulse.get());
        }
        self.ring_host.step(ring, ring_taken, &mut self.rng);
        self.write_host.step(write, beat, &mut self.rng);
        self.m.tick();
        if interrupt {
            self.interrupts += 1;
            self.look();
        }
    }
    /// Takes the oldest descriptor, which must be done unless its write failed.
    fn look(&mut self) {
        let d = self.descriptor(self.head);
        assert!(d.done || self.write_host.failing > 0.0, "descriptor {} is in memory before the interrupt", self.head);
        if d.done {
            let frame = (0..u64::from(d.len).div_ceil(8)).flat_map(|i| self.memory.word(d.addr + 8 * i).to_le_bytes());
            let frame = frame.take(usize::from(d.len)).collect();
            self.received.push(Received { index: self.head, flags: d.done_flags, frame });
        }
        self.head = self.head.wrapping_add(1);
        assert_eq!(self.m.head.get(), self.head);
    }
    fn random_frame(&mut self, len: usize) -> Vec<u8> {
        let mut f: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
        f[0] &= 0xfe;
        f
    }
    fn frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.received).into_iter().map(|r| r.frame).collect()
    }
}

/// Covers: ETH-6, ETH-1
#[test]
fn frames_reach_the_host_whole_in_order_and_marked_if_broadcast() {
    let mut b = Bench::new(2);
    let mut expect = vec![];
    for len in (60..140).chain([1500, 1513, 1514, 1515, 1516, 1517, 1518]) {
        b.post_all(2048);
        let mut frame = b.random_frame(len);
        let flags = match len % 3 {
            0 => RX_BROADCAST,
            1 => 0,
            _ => {
                // a group address is not the broadcast address
                frame[..6].copy_from_slice(&[0x01, 0xff, 0xff, 0xff, 0xff, 0xff]);
                0
            }
        };
        if flags != 0 {
            frame[..6].fill(0xff);
        }
        b.arrive(&frame, false, 0.9);
        for _ in 0..b.rng.random_range(0..600) {
            b.clock();
        }
        expect.push(Received { index: expect.len() as u16, flags, frame });
    }
    b.settle();
    assert_eq!(b.received, expect);
    assert_eq!(b.counts, Counts { frames: expect.len() as u64, ..Counts::default() });
    assert_eq!(b.interrupts, expect.len() as u64);
    // each frame is written before its completion
    for pair in b.write_host.ended.chunks(2) {
        assert_eq!((pair[1].len, pair[1].addr % 16, usize::from(pair[0].len)), (8, 8, pair[1].beats[0] as usize & 0xffff));
    }
}

/// Without a descriptor nothing is kept, so that the host never gets frames from the past.
#[test]
fn frames_without_a_descriptor_are_dropped_and_counted() {
    let mut b = Bench::new(2);
    for _ in 0..10 {
        let frame = b.random_frame(100);
        b.arrive(&frame, false, 1.0);
    }
    b.settle();
    assert_eq!(b.counts.no_buffer, 10);
    for _ in 0..3 {
        b.post(2048);
    }
    b.ring_doorbell(b.tail);
    b.settle();
    assert_eq!(b.received, []);
    let frames: Vec<_> = (0..7).map(|_| b.random_frame(100)).collect();
    for frame in &frames {
        b.arrive(frame, false, 1.0);
    }
    b.settle();
    assert_eq!(b.frames(), frames[..3], "as many as there are descriptors");
    assert_eq!(b.counts, Counts { frames: 3, no_buffer: 14, doorbell_errors: 0 });
}

/// A buffer that is too small costs the frame, not the descriptor.
#[test]
fn a_small_buffer_drops_the_frame_and_stays_for_the_next() {
    let mut b = Bench::new(2);
    for len in [100, 2048, 99, 60] {
        b.post(len);
    }
    b.ring_doorbell(b.tail);
    let mut kept = vec![];
    for (len, fits) in [(101, false), (1518, false), (100, true), (1518, true), (100, false), (99, true), (61, false), (60, true)] {
        let frame = b.random_frame(len);
        b.arrive(&frame, false, 1.0);
        b.settle();
        if fits {
            kept.push(frame);
        }
    }
    assert_eq!(b.frames(), kept);
    assert_eq!(b.counts, Counts { frames: 4, no_buffer: 4, doorbell_errors: 0 });
}

/// A damaged frame, a frame longer than the memory, and frames that find it full are taken back as a whole.
#[test]
fn what_is_damaged_or_does_not_fit_leaves_no_trace() {
    let mut b = Bench::new(5);
    b.post_all(9100);
    let good = b.random_frame(200);
    let bad = b.random_frame(300);
    let long = b.random_frame(MEMORY + 1);
    let longest = b.random_frame(MEMORY);
    for (frame, error) in [(&bad, true), (&good, false), (&long, false), (&good, false)] {
        b.arrive(frame, error, 1.0);
        b.settle();
    }
    b.arrive(&longest, false, 1.0);
    b.settle();
    assert_eq!(b.frames(), [good.clone(), good, longest]);
    assert_eq!(b.counts.no_buffer, 2);
    // the host sleeps while frames come
    b.write_host.busy = 1.0;
    let frames: Vec<_> = (0..12).map(|_| b.random_frame(1514)).collect();
    for frame in &frames {
        b.arrive(frame, false, 1.0);
    }
    b.write_host.busy = 0.0;
    for _ in 0..5 {
        b.settle();
    }
    assert_eq!(b.frames(), frames[..MEMORY / 1520]);
    // and small ones: the list of frames has 16 places
    b.write_host.busy = 1.0;
    b.post_all(2048);
    let frames: Vec<_> = (0..30).map(|_| b.random_frame(60)).collect();
    for frame in &frames {
        b.arrive(frame, false, 1.0);
    }
    b.write_host.busy = 0.0;
    for _ in 0..5 {
        b.settle();
    }
    let got = b.frames();
    assert!((16..=17).contains(&got.len()), "{}", got.len());
    assert_eq!(got, frames[..got.len()]);
    assert_eq!(b.counts.frames + b.counts.no_buffer, 5 + 12 + 30);
}

/// Failed reads and writes are completed with a flag; frames are not mixed up.
#[test]
fn dma_errors_complete_the_descriptor() {
    let mut b = Bench::new(3);
    b.ring_host.failing = 0.15;
    b.write_host.failing = 0.1;
    let mut sent = vec![];
    for _ in 0..400 {
        b.post_all(2048);
        let len = b.rng.random_range(60..300);
        let frame = b.random_frame(len);
        b.arrive(&frame, false, 1.0);
        sent.push(frame);
        while b.room() > 4 {
            b.post_all(2048);
        }
        for _ in 0..b.rng.random_range(0..300) {
            b.clock();
        }
    }
    b.settle();
    // what the completions say, written or not, in order
    let mut completions = vec![];
    let mut data_failed = 0;
    for w in &b.write_host.ended {
        let in_ring = w.len == 8 && (RING..RING + 16 * 8).contains(&w.addr);
        if in_ring {
            assert_eq!(w.addr, b.slot(completions.len() as u16) + 8);
            completions.push((w.beats[0] as u16, (w.beats[0] >> 32) as u16));
        } else {
            data_failed += u64::from(w.failed);
        }
    }
    let unread = completions.iter().filter(|c| **c == (0, DONE_DMA_ERROR)).count() as u64;
    // the descriptor fetched ahead at the end is completed with the next frame
    assert!(b.ring_host.failed - unread <= 1);
    let broken = completions.iter().filter(|(len, flags)| *len > 0 && flags & DONE_DMA_ERROR != 0).count() as u64;
    assert_eq!(broken, data_failed);
    let good = completions.iter().filter(|(_, flags)| flags & DONE_DMA_ERROR == 0).count() as u64;
    assert_eq!((b.counts.frames, good + broken + b.counts.no_buffer), (good, 400));
    assert!(unread > 30 && broken > 20 && good > 200, "{unread} {broken} {good}");
    // every good frame is one that was sent, in order
    let mut rest = sent.iter();
    for r in b.received.iter().filter(|r| r.flags & DONE_DMA_ERROR == 0) {
        assert!(rest.any(|f| *f == r.frame), "descriptor {}", r.index);
    }
}

/// A reset at any moment leaves an empty queue that works.
#[test]
fn a_reset_in_the_middle_of_anything_forgets_everything() {
    let mut b = Bench::new(3);
    for round in 0..150 {
        b.post_all(2048);
        for _ in 0..b.rng.random_range(0..5) {
            let frame = b.random_frame(100);
            b.arrive(&frame, false, 1.0);
        }
        let partial = b.random_frame(64);
        b.arrive(&partial, false, 1.0);
        for _ in 0..b.rng.random_range(0..200) {
            b.clock();
        }
        // leave a frame half way
        b.m.inp_valid.set(round % 2 == 0);
        b.m.inp_beat_last.set(0);
        b.clock();
        b.reset();
        b.settle();
        assert_eq!(b.received, [], "round {round}");
        let before = b.counts.frames;
        b.post_all(2048);
        let frame = b.random_frame(77);
        b.arrive(&frame, false, 1.0);
        b.settle();
        assert_eq!(b.frames(), [frame], "round {round}");
        assert_eq!(b.counts.frames - before, 1);
        b.reset();
    }
}

/// Covers: ETH-1
#[test]
fn under_random_traffic_frames_arrive_in_order_or_are_counted() {
    let mut b = Bench::new(4);
    let mut sent = vec![];
    for _ in 0..4000 {
        if b.rng.random_bool(0.3) {
            for _ in 0..b.rng.random_range(0..=b.room()) {
                let len = if b.rng.random_bool(0.9) { 1518 } else { b.rng.random_range(60..1518) };
                b.post(len);
            }
            b.ring_doorbell(b.tail);
        }
        let len = if b.rng.random() { 60 } else { b.rng.random_range(60..1519) };
        let frame = b.random_frame(len);
        let pace = if b.rng.random_bool(0.8) { 1.0 } else { 0.5 };
        b.arrive(&frame, false, pace);
        sent.push(frame);
        if b.rng.random_bool(0.8) {
            for _ in 0..b.rng.random_range(0..800) {
                b.clock();
            }
        }
    }
    b.settle();
    let received = b.frames();
    assert_eq!(received.len() as u64, b.counts.frames);
    assert_eq!(b.counts.frames + b.counts.no_buffer, sent.len() as u64, "every frame is accounted for");
    let mut rest = sent.iter();
    assert!(received.iter().all(|f| rest.any(|s| s == f)), "in order, none twice, none damaged");
    assert!(b.counts.frames > 1000 && b.counts.no_buffer > 100, "{:?}", b.counts);
}
