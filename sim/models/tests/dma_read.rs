// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::dma_read`: four clients with random requests and back pressure against a host with random latency and errors.
use ironwarp_models::bench::{Memory, ReadHost};
use ironwarp_models::port::{Bit, Slice};
use ironwarp_models::{bench, dma_read::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const CLIENTS: usize = 4;

/// Address, length, valid, ready of each client's requests.
fn requests(m: &mut Model) -> [(&mut Slice, &mut Slice, &mut Bit, &Bit); CLIENTS] {
    [
        (&mut m.req_0_data_addr, &mut m.req_0_data_len, &mut m.req_0_valid, &m.req_0_ready),
        (&mut m.req_1_data_addr, &mut m.req_1_data_len, &mut m.req_1_valid, &m.req_1_ready),
        (&mut m.req_2_data_addr, &mut m.req_2_data_len, &mut m.req_2_valid, &m.req_2_ready),
        (&mut m.req_3_data_addr, &mut m.req_3_data_len, &mut m.req_3_valid, &m.req_3_ready),
    ]
}

/// Data, last, error, valid, ready of each client's beats.
fn beats(m: &mut Model) -> [(&Slice, &Slice, &Slice, &Bit, &mut Bit); CLIENTS] {
    [
        (&m.beat_0_data_data, &m.beat_0_data_last, &m.beat_0_data_error, &m.beat_0_valid, &mut m.beat_0_ready),
        (&m.beat_1_data_data, &m.beat_1_data_last, &m.beat_1_data_error, &m.beat_1_valid, &mut m.beat_1_ready),
        (&m.beat_2_data_data, &m.beat_2_data_last, &m.beat_2_data_error, &m.beat_2_valid, &mut m.beat_2_ready),
        (&m.beat_3_data_data, &m.beat_3_data_last, &m.beat_3_data_error, &m.beat_3_valid, &mut m.beat_3_ready),
    ]
}

/// A client: what it offers, and the beats that it still waits for (address of each, last of its read).
#[derive(Default)]
struct Client {
    offer: Option<(u64, u16)>,
    expect: VecDeque<(u64, bool)>,
    granted: u64,
    waited: u64,
    errors: u64,
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: ReadHost,
    clients: [Client; CLIENTS],
    asking: f64,
    stall: f64,
    errors: u64,
    offered: Option<(u64, u64)>,
}

impl Bench {
    fn new(seed: u64, host: ReadHost, asking: f64, stall: f64) -> Self {
        let mut m = Model::new(seed);
        m.reset.set(true);
        m.quiesce.set(false);
        m.tick();
        m.reset.set(false);
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Bench { m, rng, memory: Memory::default(), host, clients: Default::default(), asking, stall, errors: 0, offered: None }
    }
    fn clock(&mut self) {
        for (client, (addr, len, valid, _)) in self.clients.iter_mut().zip(requests(&mut self.m)) {
            if client.offer.is_none() && self.rng.random_bool(self.asking) {
                client.offer = Some((self.rng.random::<u64>() & !7, self.rng.random_range(1..200)));
            }
            let offer = client.offer.unwrap_or_default();
            valid.set(client.offer.is_some());
            addr.set(offer.0);
            len.set(offer.1.into());
        }
        for (.., ready) in beats(&mut self.m) {
            ready.set(!self.rng.random_bool(self.stall));
        }
        let (ready, beat) = self.host.offer(&self.memory, &mut self.rng);
        self.m.rd_req_ready.set(ready);
        self.m.rd_beat_valid.set(beat.is_some());
        if let Some(b) = beat {
            self.m.rd_beat_data_data.set(b.data);
            self.m.rd_beat_data_last.set(b.last.into());
            self.m.rd_beat_data_error.set(b.error.into());
        }
        self.m.eval();
        let request = self.m.rd_req_valid.get().then(|| (self.m.rd_req_data_addr.get(), self.m.rd_req_data_len.get()));
        if let Some(o) = self.offered {
            assert_eq!(request, Some(o), "a request that was offered stays");
        }
        self.offered = request.filter(|_| !ready);
        let took = self.m.rd_beat_ready.get() && beat.is_some();
        let quiesce = self.m.quiesce.get();
        for (client, (data, last, error, valid, ready)) in self.clients.iter_mut().zip(beats(&mut self.m)) {
            if valid.get() {
                assert!(!quiesce, "no beat reaches a client while quiesce is high");
                assert_eq!(ready.get(), took, "the host's beat moves when the client's does");
                if took {
                    let (addr, is_last) = client.expect.pop_front().expect("a beat that nobody asked for");
                    let bad = error.get() != 0;
                    client.errors += u64::from(bad);
                    assert_eq!(last.get() != 0, is_last);
                    assert!(bad || self.host.failing > 0.0 || data.get() == self.memory.word(addr));
                }
            }
        }
        let granting = requests(&mut self.m).map(|(.., valid, ready)| valid.get() && ready.get());
        assert!(granting.iter().filter(|g| **g).count() <= 1);
        for (i, client) in self.clients.iter_mut().enumerate() {
            if granting[i] {
                assert!(!quiesce, "no request is taken while quiesce is high");
                let (addr, len) = client.offer.take().expect("valid");
                let n = u64::from(len).div_ceil(8);
                client.expect.extend((0..n).map(|k| (addr + 8 * k, k + 1 == n)));
                client.granted += 1;
                client.waited = 0;
            } else if client.offer.is_some() && granting.contains(&true) {
                client.waited += 1;
                assert!(client.waited < CLIENTS as u64, "round robin: at most {} others first", CLIENTS - 1);
            }
        }
        self.host.step(request.filter(|_| ready).map(|(a, l)| (a, l as u16)), took, &mut self.rng);
        self.m.tick();
        self.errors += u64::from(self.m.cnt_dma_read_errors.get());
    }
    fn clocks(&mut self, n: usize) {
        for _ in 0..n {
            self.clock();
        }
    }
    fn finish(&mut self) {
        self.asking = 0.0;
        for _ in 0..20_000 {
            if self.clients.iter().all(|c| c.offer.is_none() && c.expect.is_empty()) {
                self.clock();
                self.clock();
                assert!(self.m.idle.get());
                return;
            }
            self.clock();
        }
        panic!("not all reads were answered");
    }
}

#[test]
fn every_answer_reaches_its_client_in_order_whatever_the_latency() {
    let seed = bench::seed("dma_read");
    for (round, (latency, busy, asking, stall)) in
        [(0..1, 0.0, 1.0, 0.0), (0..1, 0.0, 0.05, 0.5), (0..30, 0.3, 0.5, 0.3), (100..200, 0.1, 0.9, 0.1)].into_iter().enumerate()
    {
        let mut b = Bench::new(seed + round as u64, ReadHost::new(latency.clone(), busy), asking, stall);
        b.clocks(20_000);
        b.finish();
        let granted: Vec<u64> = b.clients.iter().map(|c| c.granted).collect();
        assert!(granted.iter().all(|g| *g > 50), "granted {granted:?} at latency {latency:?}");
        assert_eq!((b.errors, b.m.error.get()), (0, false));
    }
}

#[test]
fn eight_answers_are_outstanding_at_most_and_idle_tells_when_none_is() {
    let mut b = Bench::new(bench::seed("dma_read"), ReadHost::new(500..501, 0.0), 1.0, 0.0);
    assert!(b.m.idle.get());
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
fn failed_reads_are_passed_on_counted_and_shown_until_quiesce() {
    let mut host = ReadHost::new(0..9, 0.1);
    host.failing = 0.2;
    let mut b = Bench::new(bench::seed("dma_read"), host, 0.5, 0.1);
    b.clocks(20_000);
    b.finish();
    let told: u64 = b.clients.iter().map(|c| c.errors).sum();
    assert_eq!((b.host.failed, b.host.failed), (told, b.errors));
    assert!(told > 20 && b.m.error.get());
    b.m.quiesce.set(true);
    b.clocks(3);
    assert!(!b.m.error.get());
}

/// The DMA half of CM-35: it stops before a reset completes, and a late answer reaches nobody.
#[test]
fn quiesce_takes_no_request_and_throws_answers_away_even_those_that_come_after_it() {
    let seed = bench::seed("dma_read");
    let mut b = Bench::new(seed, ReadHost::new(0..60, 0.2), 0.7, 0.3);
    for round in 0..300 {
        let n = b.rng.random_range(0..100);
        b.clocks(n);
        b.m.quiesce.set(true);
        // sometimes the bound of the reset sequence is hit before the host has answered
        let patience = if round % 3 == 0 { 5 } else { 5000 };
        let before: Vec<u64> = b.clients.iter().map(|c| c.granted).collect();
        for _ in 0..patience {
            b.clock();
            if b.m.idle.get() {
                break;
            }
        }
        assert!(round % 3 == 0 || b.m.idle.get(), "idle once the host has answered");
        // the clients are reset
        for c in &mut b.clients {
            *c = Client { granted: c.granted, ..Client::default() };
        }
        assert_eq!(before, b.clients.iter().map(|c| c.granted).collect::<Vec<_>>());
        b.m.quiesce.set(false);
    }
    b.finish();
    assert!(b.clients.iter().all(|c| c.granted > 100));
}

#[test]
fn the_pin_forgets_what_is_outstanding() {
    let seed = bench::seed("dma_read");
    let mut b = Bench::new(seed, ReadHost::new(0..60, 0.2), 0.7, 0.3);
    for _ in 0..200 {
        let n = b.rng.random_range(0..100);
        b.clocks(n);
        b.m.reset.set(true);
        b.m.rd_beat_valid.set(false);
        b.m.tick();
        b.m.reset.set(false);
        // the other side is reset too
        b.host = ReadHost::new(0..60, 0.2);
        b.offered = None;
        for c in &mut b.clients {
            *c = Client { granted: c.granted, ..Client::default() };
        }
        b.m.eval();
        assert!(b.m.idle.get());
    }
    b.finish();
}
