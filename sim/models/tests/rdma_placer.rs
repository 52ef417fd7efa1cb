// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma::placer`: what reaches the host is what stood in the slots, whoever else has their port and however slow the host is.
use ironwarp_models::bench::{Memory, WriteHost};
use ironwarp_models::{bench, rdma_placer::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::ops::Range;

const SLOT_WORDS: usize = 256;
const SLOTS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Place {
    slot: usize,
    offset: usize,
    len: usize,
    addr: u64,
    free: bool,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    slots: Vec<u64>,
    host: WriteHost,
    memory: Memory,
    /// Chances that the port is somebody else's, and that nobody takes a free slot.
    hold: f64,
    free_busy: f64,
    queue: VecDeque<Place>,
    expected: VecDeque<(u64, Vec<u8>)>,
    to_free: VecDeque<usize>,
    seen: usize,
    dones: usize,
    failed: usize,
    clocks: u64,
}

impl Bench {
    fn new(seed: u64, latency: Range<u64>, busy: f64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let slots = (0..SLOT_WORDS * SLOTS).map(|_| rng.random()).collect();
        let mut b = Bench {
            m: Model::new(seed),
            rng,
            slots,
            host: WriteHost::new(latency, busy),
            memory: Memory::default(),
            hold: 0.0,
            free_busy: 0.0,
            queue: VecDeque::new(),
            expected: VecDeque::new(),
            to_free: VecDeque::new(),
            seen: 0,
            dones: 0,
            failed: 0,
            clocks: 0,
        };
        b.reset();
        b
    }
    fn reset(&mut self) {
        let m = &mut self.m;
        m.reset.set(true);
        m.place_valid.set(false);
        m.wr_done_valid.set(false);
        m.tick();
        m.reset.set(false);
        self.host = WriteHost::new(self.host.latency.clone(), self.host.busy);
        self.queue.clear();
        self.expected.clear();
        self.to_free.clear();
        self.seen = 0;
        self.dones = 0;
        self.failed = 0;
    }
    fn octets(&self, slot: usize, offset: usize, len: usize) -> Vec<u8> {
        let all = self.slots[slot * SLOT_WORDS..][..SLOT_WORDS].iter().flat_map(|w| w.to_le_bytes());
        all.skip(offset).take(len).collect()
    }
    fn place(&mut self, p: Place) {
        if p.len > 0 {
            self.expected.push_back((p.addr, self.octets(p.slot, p.offset, p.len)));
        }
        if p.free {
            self.to_free.push_back(p.slot);
        }
        self.queue.push_back(p);
    }
    fn clock(&mut self) {
        let (req_ready, beat_ready, end) = self.host.offer(&mut self.memory, &mut self.rng);
        let m = &mut self.m;
        let next = self.queue.front().copied();
        m.place_valid.set(next.is_some());
        if let Some(p) = next {
            m.place_data_slot.set(p.slot as u64);
            m.place_data_offset.set(p.offset as u64);
            m.place_data_len.set(p.len as u64);
            m.place_data_addr.set(p.addr);
            m.place_data_free.set(u64::from(p.free));
        }
        let hold = self.rng.random_bool(self.hold);
        m.hold.set(hold);
        m.free_ready.set(!self.rng.random_bool(self.free_busy));
        m.wr_req_ready.set(req_ready);
        m.wr_beat_ready.set(beat_ready);
        m.wr_done_valid.set(end.is_some());
        m.wr_done_error.set(end == Some(true));
        m.eval();
        if next.is_some() && m.place_ready.get() {
            self.queue.pop_front();
        }
        assert_eq!(m.done_valid.get(), end.is_some());
        if let Some(failed) = end {
            assert_eq!(m.done_error.get(), failed);
            self.dones += 1;
            self.failed += usize::from(failed);
        }
        let request = (m.wr_req_valid.get() && req_ready).then(|| (m.wr_req_data_addr.get(), m.wr_req_data_len.get() as u16));
        let beat = (m.wr_beat_valid.get() && beat_ready).then(|| (m.wr_beat_data_data.get(), m.wr_beat_data_last.bit()));
        self.host.step(request, beat, &mut self.rng);
        for write in &self.host.ended[self.seen..] {
            let (addr, octets) = self.expected.pop_front().expect("a write that nobody asked for");
            assert_eq!((write.addr, usize::from(write.len)), (addr, octets.len()));
            let got: Vec<u8> = write.beats.iter().flat_map(|b| b.to_le_bytes()).take(octets.len()).collect();
            assert_eq!(got, octets);
        }
        self.seen = self.host.ended.len();
        let at = m.slot_address.get() as usize;
        let freed = (m.free_valid.get() && m.free_ready.get()).then(|| m.free_data.get() as usize);
        m.tick();
        let data = if hold { self.rng.random() } else { self.slots[at] };
        self.m.slot_data.set(data);
        if let Some(slot) = freed {
            assert_eq!(Some(slot), self.to_free.pop_front(), "in order");
            // somebody writes to it at once
            for word in &mut self.slots[slot * SLOT_WORDS..][..SLOT_WORDS] {
                *word = self.rng.random();
            }
        }
        self.clocks += 1;
    }
    fn idle(&self) -> bool {
        self.queue.is_empty() && self.expected.is_empty() && self.to_free.is_empty()
    }
    fn run(&mut self) {
        let end = self.clocks + 100_000;
        while !self.idle() {
            assert!(self.clocks < end, "hangs: {:?} {:?}", self.queue.len(), self.expected.len());
            self.clock();
        }
        for _ in 0..20 {
            self.clock();
        }
    }
}

#[test]
fn every_offset_and_length_arrives_as_it_stood() {
    let mut b = Bench::new(1, 1..5, 0.0);
    for offset in 0..24 {
        for len in 0..50 {
            b.place(Place { slot: (offset + len) % SLOTS, offset, len, addr: 0xffff_ffff_0000_0000 + 3 * len as u64, free: len % 3 == 0 });
            b.run();
        }
    }
    for (offset, len) in [(0, 2048), (1, 2047), (7, 2041), (16, 1446), (20, 1446), (2047, 1), (2040, 8)] {
        for slot in [0, SLOTS - 1] {
            b.place(Place { slot, offset, len, addr: 5, free: true });
        }
        b.run();
    }
}

/// Slots are filled anew as soon as they are given back, and the port is somebody else's in some clocks.
#[test]
fn random_pieces_from_busy_slots_to_a_slow_host() {
    let seed = bench::seed("rdma_placer random");
    for (round, (latency, busy, hold, free_busy)) in
        [(1..3, 0.0, 0.0, 0.0), (0..1, 0.0, 0.3, 0.0), (1..40, 0.3, 0.2, 0.3), (100..200, 0.6, 0.8, 0.9)].into_iter().enumerate()
    {
        let mut b = Bench::new(seed + round as u64, latency, busy);
        (b.hold, b.free_busy) = (hold, free_busy);
        b.host.failing = 0.05;
        let mut places = 0;
        let mut writes = 0;
        for _ in 0..400 {
            let slot = b.rng.random_range(0..SLOTS);
            while b.to_free.contains(&slot) || b.queue.len() > 6 {
                b.clock();
            }
            let mut offset = b.rng.random_range(0..40);
            let pieces = b.rng.random_range(1..5);
            for n in 1..=pieces {
                let most = [9, 80, 500][b.rng.random_range(0..3)];
                let len = b.rng.random_range(0..most);
                let addr = b.rng.random();
                b.place(Place { slot, offset, len, addr, free: n == pieces });
                offset += len;
                places += 1;
                writes += usize::from(len > 0);
            }
        }
        b.run();
        assert_eq!(b.dones, writes);
        assert!(b.failed > 0);
        println!("{places} pieces in {} clocks", b.clocks);
    }
}

/// The clocks of the module doc, with a host that is always ready.
#[test]
fn a_beat_a_clock_after_a_short_prologue() {
    for (offset, len, free, expected) in
        [(16, 8, true, 4), (16, 64, true, 11), (16, 1446, true, 184), (20, 64, false, 11), (20, 1446, false, 184), (16, 1446, false, 183)]
    {
        let mut b = Bench::new(2, 1..2, 0.0);
        let n = 40;
        for _ in 0..n {
            b.place(Place { slot: 3, offset, len, addr: 64, free: false });
        }
        if free {
            // its contents do not change under a slot that is given back again and again
            b.slots.iter_mut().for_each(|w| *w = 0);
            b.queue.iter_mut().for_each(|p| p.free = true);
            b.to_free.extend([3; 40]);
            b.expected.iter_mut().for_each(|(_, o)| o.iter_mut().for_each(|o| *o = 0));
        }
        let mut starts = vec![];
        let mut asked = false;
        while starts.len() < n {
            b.clock();
            b.m.eval();
            if b.m.wr_req_valid.get() && !asked {
                starts.push(b.clocks);
            }
            asked = b.m.wr_req_valid.get();
            if free {
                b.slots.iter_mut().for_each(|w| *w = 0);
            }
        }
        let clocks = (starts[n - 1] - starts[0]) as f64 / (n - 1) as f64;
        println!("{len} octets from {offset}, free {free}: {clocks} clocks");
        assert!(clocks <= f64::from(expected), "{clocks}");
    }
}

#[test]
fn reset_at_any_time_leaves_nothing_behind() {
    let mut b = Bench::new(3, 1..8, 0.2);
    b.hold = 0.2;
    for clocks in 0..150 {
        for n in 0..4 {
            b.place(Place { slot: n, offset: 16 + n, len: 70 * n, addr: 999, free: n % 2 == 0 });
        }
        for _ in 0..clocks {
            b.clock();
        }
        b.reset();
        b.place(Place { slot: 9, offset: 3, len: 77, addr: 1, free: true });
        b.place(Place { slot: 8, offset: 0, len: 0, addr: 1, free: true });
        b.run();
        assert_eq!(b.dones, 1);
        b.reset();
    }
}
