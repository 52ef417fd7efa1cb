// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::dma_write`: three clients with random writes and pauses against a host with random latency and errors.
use ironwarp_models::bench::{Memory, WriteHost};
use ironwarp_models::port::{Bit, Slice};
use ironwarp_models::{bench, dma_write::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const CLIENTS: usize = 3;

/// Address, length, valid, ready of each client's requests.
fn requests(m: &mut Model) -> [(&mut Slice, &mut Slice, &mut Bit, &Bit); CLIENTS] {
    [
        (&mut m.req_0_data_addr, &mut m.req_0_data_len, &mut m.req_0_valid, &m.req_0_ready),
        (&mut m.req_1_data_addr, &mut m.req_1_data_len, &mut m.req_1_valid, &m.req_1_ready),
        (&mut m.req_2_data_addr, &mut m.req_2_data_len, &mut m.req_2_valid, &m.req_2_ready),
    ]
}

/// Data, valid, ready of each client's beats.
fn beats(m: &mut Model) -> [(&mut Slice, &mut Bit, &Bit); CLIENTS] {
    [
        (&mut m.beat_0_data_data, &mut m.beat_0_valid, &m.beat_0_ready),
        (&mut m.beat_1_data_data, &mut m.beat_1_valid, &m.beat_1_ready),
        (&mut m.beat_2_data_data, &mut m.beat_2_valid, &m.beat_2_ready),
    ]
}

/// Valid, error of each client's ends.
fn ends(m: &Model) -> [(bool, bool); CLIENTS] {
    [
        (m.done_0_valid.get(), m.done_0_error.get()),
        (m.done_1_valid.get(), m.done_1_error.get()),
        (m.done_2_valid.get(), m.done_2_error.get()),
    ]
}

type Job = (u64, Vec<u64>, u16);

/// A client: the write that it asks for, beats still to give of the one that was granted, writes whose end it waits for.
#[derive(Default)]
struct Client {
    offer: Option<Job>,
    giving: VecDeque<u64>,
    /// The beat on offer must stay.
    shown: bool,
    waiting: VecDeque<Job>,
    granted: u64,
    waited: u64,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: WriteHost,
    clients: [Client; CLIENTS],
    asking: f64,
    pause: f64,
    errors: u64,
}

impl Bench {
    fn new(seed: u64, host: WriteHost, asking: f64, pause: f64) -> Self {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.quiesce.set(false);
        m.clear.set(false);
        m.tick();
        m.reset.set(false);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Bench { m, rng, memory: Memory::default(), host, clients: Default::default(), asking, pause, errors: 0 }
    }
    fn clock(&mut self) {
        for (k, (client, (addr, len, valid, _))) in self.clients.iter_mut().zip(requests(&mut self.m)).enumerate() {
            if client.offer.is_none() && client.giving.is_empty() && self.rng.random_bool(self.asking) {
                let len: u16 = self.rng.random_range(1..120);
                // the client's number is in the address, so that the end shows whose it was
                let addr = self.rng.random::<u64>() & !0xff | (k as u64) << 4;
                let words = (0..len.div_ceil(8)).map(|_| self.rng.random()).collect();
                client.offer = Some((addr, words, len));
            }
            let (a, _, l) = client.offer.clone().unwrap_or_default();
            valid.set(client.offer.is_some());
            addr.set(a);
            len.set(l.into());
        }
        for (client, (data, valid, _)) in self.clients.iter_mut().zip(beats(&mut self.m)) {
            client.shown = !client.giving.is_empty() && (client.shown || !self.rng.random_bool(self.pause));
            valid.set(client.shown);
            data.set(client.giving.front().copied().unwrap_or(0xbad));
        }
        let (ready, beat_ready, end) = self.host.offer(&mut self.memory, &mut self.rng);
        self.m.wr_req_ready.set(ready);
        self.m.wr_beat_ready.set(beat_ready);
        self.m.wr_done_valid.set(end.is_some());
        self.m.wr_done_error.set(end == Some(true));
        self.m.eval();
        let quiesce = self.m.quiesce.get();
        let ends = ends(&self.m);
        assert!(end.is_some() || ends.iter().all(|(valid, _)| !valid));
        assert!(!quiesce || ends.iter().all(|(valid, _)| !valid), "no end is told while quiesce is high");
        for (client, (valid, error)) in self.clients.iter_mut().zip(ends) {
            if valid {
                let (addr, beats, len) = client.waiting.pop_front().expect("the end of a write that nobody asked for");
                let write = self.host.ended.last().expect("one ended");
                assert_eq!((write.addr, &write.beats, write.len, write.failed), (addr, &beats, len, error));
            }
        }
        let granting = requests(&mut self.m).map(|(.., valid, ready)| valid.get() && ready.get());
        let giving = beats(&mut self.m).map(|(_, valid, ready)| valid.get() && ready.get());
        for (i, client) in self.clients.iter_mut().enumerate() {
            if giving[i] {
                client.giving.pop_front();
                client.shown = false;
            }
            if granting[i] {
                assert!(!quiesce, "no request is taken while quiesce is high");
                let job = client.offer.take().expect("valid");
                client.giving = job.1.iter().copied().collect();
                client.waiting.push_back(job);
                client.granted += 1;
                client.waited = 0;
            } else if client.offer.is_some() && granting.contains(&true) {
                client.waited += 1;
                assert!(client.waited < CLIENTS as u64, "round robin: at most {} others first", CLIENTS - 1);
            }
        }
        let request = (self.m.wr_req_valid.get() && ready).then(|| (self.m.wr_req_data_addr.get(), self.m.wr_req_data_len.get() as u16));
        let beat =
            (self.m.wr_beat_valid.get() && beat_ready).then(|| (self.m.wr_beat_data_data.get(), self.m.wr_beat_data_last.get() != 0));
        self.host.step(request, beat, &mut self.rng);
        self.m.tick();
        self.errors += u64::from(self.m.cnt_dma_write_errors.get());
    }
    fn clocks(&mut self, n: usize) {
        for _ in 0..n {
            self.clock();
        }
    }
    fn finish(&mut self) {
        self.asking = 0.0;
        for _ in 0..20_000 {
            if self.clients.iter().all(|c| c.offer.is_none() && c.waiting.is_empty()) {
                self.clocks(2);
                assert!(self.m.idle.get());
                return;
            }
            self.clock();
        }
        panic!("not all writes ended");
    }
}

#[test]
fn every_write_is_whole_and_its_end_reaches_its_client() {
    let seed = bench::seed("dma_write");
    for (round, (latency, busy, asking, pause)) in
        [(0..1, 0.0, 1.0, 0.0), (0..1, 0.0, 0.05, 0.5), (0..30, 0.3, 0.5, 0.3), (100..200, 0.1, 0.9, 0.0)].into_iter().enumerate()
    {
        let mut b = Bench::new(seed + round as u64, WriteHost::new(latency.clone(), busy), asking, pause);
        b.clocks(20_000);
        b.finish();
        let granted: Vec<u64> = b.clients.iter().map(|c| c.granted).collect();
        assert!(granted.iter().all(|g| *g > 50), "granted {granted:?} at latency {latency:?}");
        assert_eq!((b.errors, b.m.error.get()), (0, false));
    }
}

#[test]
fn a_write_of_n_beats_takes_n_plus_2_clocks() {
    let mut b = Bench::new(bench::seed("dma_write"), WriteHost::new(0..1, 0.0), 1.0, 0.0);
    b.clocks(10_000);
    let clocks: usize = b.host.ended.iter().map(|w| w.beats.len() + 2).sum();
    assert!((9_900..=10_000).contains(&clocks), "{clocks} clocks for {} writes", b.host.ended.len());
}

#[test]
fn eight_ends_are_outstanding_at_most_and_idle_tells_when_none_is() {
    let mut b = Bench::new(bench::seed("dma_write"), WriteHost::new(900..901, 0.0), 1.0, 0.0);
    let mut most = 0;
    for _ in 0..5000 {
        b.clock();
        most = most.max(b.host.outstanding());
        assert!(!(b.m.idle.get() && b.host.outstanding() > 0));
    }
    assert_eq!(most, 8);
    b.finish();
}

#[test]
fn failed_writes_are_passed_on_counted_and_shown_until_quiesce() {
    let mut host = WriteHost::new(0..9, 0.1);
    host.failing = 0.2;
    let mut b = Bench::new(bench::seed("dma_write"), host, 0.5, 0.1);
    b.clocks(20_000);
    b.finish();
    b.clocks(2);
    assert_eq!(b.errors, b.host.ended.iter().filter(|w| w.failed).count() as u64);
    assert!(b.errors > 20 && b.m.error.get());
    b.m.quiesce.set(true);
    b.clocks(3);
    assert!(!b.m.error.get());
}

/// The DMA half of CM-35: it stops before a reset completes.
#[test]
fn quiesce_finishes_the_write_under_way_and_clear_fills_what_its_client_can_no_longer_give() {
    let seed = bench::seed("dma_write");
    let mut b = Bench::new(seed, WriteHost::new(0..60, 0.2), 0.7, 0.3);
    let mut filled = 0;
    for round in 0..300 {
        let n = b.rng.random_range(0..100);
        b.clocks(n);
        b.m.quiesce.set(true);
        let patience = if round % 3 == 0 { b.rng.random_range(0..8) } else { 5000 };
        for _ in 0..patience {
            b.clock();
            if b.m.idle.get() {
                break;
            }
        }
        assert!(round % 3 == 0 || b.m.idle.get(), "idle once the host has ended all writes");
        b.m.clear.set(true);
        filled += b.clients.iter().filter(|c| !c.giving.is_empty()).count();
        // the clients are reset, and ask for nothing while clear is high
        for c in &mut b.clients {
            *c = Client { granted: c.granted, ..Client::default() };
        }
        let asking = std::mem::replace(&mut b.asking, 0.0);
        b.clocks(16);
        b.asking = asking;
        b.m.clear.set(false);
        b.m.quiesce.set(false);
    }
    b.finish();
    assert!(filled > 20, "a write was under way at clear {filled} times");
    assert!(b.clients.iter().all(|c| c.granted > 100));
}

#[test]
fn the_pin_forgets_what_is_outstanding() {
    let seed = bench::seed("dma_write");
    let mut b = Bench::new(seed, WriteHost::new(0..60, 0.2), 0.7, 0.3);
    for _ in 0..200 {
        let n = b.rng.random_range(0..100);
        b.clocks(n);
        b.m.reset.set(true);
        b.m.wr_done_valid.set(false);
        b.m.tick();
        b.m.reset.set(false);
        b.host = WriteHost::new(0..60, 0.2);
        for c in &mut b.clients {
            *c = Client { granted: c.granted, ..Client::default() };
        }
        b.m.eval();
        assert!(b.m.idle.get());
    }
    b.finish();
}
