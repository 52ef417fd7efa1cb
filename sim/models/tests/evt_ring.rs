// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host::evt_ring` in front of a ring in host memory, which a driver reads by phase bit.
use ironwarp_abi::{Event, EventKind, Handle, HandleKind};
use ironwarp_models::bench::{Memory, WriteHost};
use ironwarp_models::{bench, evt_ring::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

/// Connections that can be freed at the same time.
const INDICES: u16 = 32;

fn is_freed_connection(event: &Event) -> bool {
    event.kind == EventKind::Freed as u8 && event.handle.kind() == Some(HandleKind::Connection)
}

fn random_event(rng: &mut ChaCha8Rng) -> Event {
    // the listener's handle is whole in a CONNECT_REQUEST; elsewhere it has no kind
    let kind = if rng.random_bool(0.5) { EventKind::ConnectRequest as u8 } else { rng.random() };
    let listener = if kind == EventKind::ConnectRequest as u8 { HandleKind::Listener } else { HandleKind::None };
    let event = Event {
        kind,
        flags: rng.random(),
        status: rng.random(),
        context: rng.random(),
        detail: rng.random(),
        handle: Handle(rng.random::<u64>() & !0xff00_0000),
        local_addr: rng.random(),
        local_port: rng.random(),
        remote_port: rng.random(),
        remote_addr: rng.random(),
        own_ird: rng.random(),
        own_ord: rng.random(),
        peer_ird: rng.random(),
        peer_ord: rng.random(),
        data_len: rng.random(),
        listener: Handle::new(listener, rng.random(), rng.random()),
        ..Event::default()
    };
    // FREED of a connection needs an index that has none under way
    if is_freed_connection(&event) {
        return Event { kind: EventKind::Close as u8, ..event };
    }
    event
}

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
    memory: Memory,
    host: WriteHost,
    base: u64,
    log2: u32,
    /// The event on offer, and those that the driver has not seen.
    offer: Option<Event>,
    expect: VecDeque<Event>,
    /// Indices without a FREED under way; those with one in the ring, and EVT_HEAD behind it.
    idle: Vec<u16>,
    freed: VecDeque<(u16, u16)>,
    told_back: u64,
    /// EVT_HEAD, as far as it was right.
    rung: u16,
    offering: f64,
    /// Driver: index of the next entry that it looks at; whether it gives room back.
    next: u16,
    /// Chance that the driver looks at the ring in a clock.
    looking: f64,
    freeing: bool,
    doorbell: Option<u32>,
    time: u32,
    irqs: u64,
    written: u64,
    full: u64,
    errors: u64,
    seen: u64,
}

impl Bench {
    fn new(seed: u64, base: u64, log2: u32, host: WriteHost) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: ChaCha8Rng::seed_from_u64(seed),
            memory: Memory::default(),
            host,
            base,
            log2,
            offer: None,
            expect: VecDeque::new(),
            idle: (0..INDICES).collect(),
            freed: VecDeque::new(),
            told_back: 0,
            rung: 0,
            offering: 0.5,
            next: 0,
            looking: 0.2,
            freeing: true,
            doorbell: None,
            time: 0xffff_ff00,
            irqs: 0,
            written: 0,
            full: 0,
            errors: 0,
            seen: 0,
        };
        b.m.base_lo.set(base as u32);
        b.m.base_hi.set((base >> 32) as u32);
        b.m.log2.set(log2);
        b.reset();
        b.m.enabled.set(true);
        b
    }
    /// The driver clears the ring, because phase 0 is what it finds on the first pass.
    fn reset(&mut self) {
        self.m.reset.set(true);
        self.m.event_valid.set(false);
        self.m.done_valid.set(false);
        self.m.head.set(false);
        // the size of the ring is there one clock after `log2`
        self.m.eval();
        self.m.tick();
        self.m.tick();
        self.m.reset.set(false);
        let failing = self.host.failing;
        self.host = WriteHost::new(self.host.latency.clone(), self.host.busy);
        self.host.failing = failing;
        (self.offer, self.next, self.doorbell, self.rung) = (None, 0, None, 0);
        self.expect.clear();
        self.idle = (0..INDICES).collect();
        self.freed.clear();
        for i in 0..self.size() {
            let addr = self.slot(i);
            self.memory.put(addr, &[0; 16]);
        }
        self.m.eval();
        assert_eq!((self.m.tail.get(), self.m.req_valid.get(), self.m.event_ready.get()), (0, false, false));
    }
    fn size(&self) -> u16 {
        1 << self.log2
    }
    fn slot(&self, index: u16) -> u64 {
        (self.base & !63) + 64 * u64::from(index % self.size())
    }
    fn entry(&self, index: u16) -> Event {
        let words: Vec<u64> = (0..8).map(|i| self.memory.word(self.slot(index) + 8 * i)).collect();
        let dwords: Vec<u32> = words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect();
        let event = Event::decode(&dwords.clone().try_into().expect("16 dwords"));
        assert_eq!(&event.encode()[..], &dwords[..], "unused bits are 0");
        event
    }
    /// A driver's step: reads the entry that comes next if its phase says so.
    fn look(&mut self) -> bool {
        let event = self.entry(self.next);
        let phase = (self.next / self.size()) & 1 == 0;
        if event.phase != phase {
            return false;
        }
        let want = self.expect.pop_front().or(self.offer).expect("an event that was never given");
        let age = self.time.wrapping_sub(event.time_us);
        assert!(age < 100_000, "time {:#x} at {:#x}", event.time_us, self.time);
        assert_eq!(Event { time_us: 0, phase: false, ..event }, want, "event {}", self.seen);
        self.next = self.next.wrapping_add(1);
        self.seen += 1;
        true
    }
    fn clock(&mut self) {
        if self.offer.is_none() && self.rng.random_bool(self.offering) {
            let event = random_event(&mut self.rng);
            self.offer = Some(event);
            if self.rng.random_bool(0.3) && !self.idle.is_empty() {
                let index = self.idle.swap_remove(self.rng.random_range(0..self.idle.len()));
                let handle = Handle::new(HandleKind::Connection, index, event.handle.generation());
                self.offer = Some(Event { kind: EventKind::Freed as u8, handle, listener: Handle::new(HandleKind::None, 0, 0), ..event });
            }
        }
        self.m.event_valid.set(self.offer.is_some());
        if let Some(e) = &self.offer {
            let m = &mut self.m;
            m.event_data_kind.set(e.kind.into());
            m.event_data_flags.set(e.flags.into());
            m.event_data_status.set(u64::from(e.status as u32));
            m.event_data_context.set(e.context.into());
            m.event_data_detail.set(e.detail.into());
            m.event_data_index.set(e.handle.index().into());
            m.event_data_handle_kind.set(e.handle.kind_octet().into());
            m.event_data_generation.set(e.handle.generation().into());
            m.event_data_local_addr.set(e.local_addr.into());
            m.event_data_local_port.set(e.local_port.into());
            m.event_data_remote_port.set(e.remote_port.into());
            m.event_data_remote_addr.set(e.remote_addr.into());
            m.event_data_own_ird.set(e.own_ird.into());
            m.event_data_own_ord.set(e.own_ord.into());
            m.event_data_peer_ird.set(e.peer_ird.into());
            m.event_data_peer_ord.set(e.peer_ord.into());
            m.event_data_data_len.set(e.data_len.into());
            m.event_data_listener_index.set(e.listener.index().into());
            m.event_data_listener_generation.set(e.listener.generation().into());
        }
        self.m.time_us.set(self.time);
        let (ready, beat_ready, end) = self.host.offer(&mut self.memory, &mut self.rng);
        self.m.req_ready.set(ready);
        self.m.beat_ready.set(beat_ready);
        self.m.done_valid.set(end.is_some());
        self.m.done_error.set(end == Some(true));
        let doorbell = self.doorbell.take();
        self.m.head.set(doorbell.is_some());
        self.m.head_value.set(doorbell.unwrap_or(0xffff_ffff));
        if let Some(head) = doorbell.map(|d| d as u16).filter(|d| d.wrapping_sub(self.rung) <= self.next.wrapping_sub(self.rung)) {
            self.rung = head;
        }
        self.m.freed_read_ready.set(self.rng.random_bool(0.5));
        self.m.eval();
        if self.m.freed_read_valid.get() && self.m.freed_read_ready.get() {
            let (index, head) = self.freed.pop_front().expect("a FREED in the ring");
            assert_eq!(self.m.freed_read_data.get(), index);
            assert!(self.rung.wrapping_sub(head) <= self.size(), "FREED before {head}, EVT_HEAD {}", self.rung);
            self.idle.push(index);
            self.told_back += 1;
        }
        let request = (self.m.req_valid.get() && ready).then(|| (self.m.req_data_addr.get(), self.m.req_data_len.get() as u16));
        if let Some((addr, len)) = request {
            assert_eq!((addr, len), (self.slot(self.m.tail.get()), 64));
        }
        let beat = (self.m.beat_valid.get() && beat_ready).then(|| (self.m.beat_data_data.get(), self.m.beat_data_last.get() != 0));
        self.irqs += u64::from(self.m.irq.get());
        self.written += u64::from(self.m.cnt_evt_written.get());
        self.full += u64::from(self.m.cnt_evt_ring_full.get());
        self.errors += u64::from(self.m.cnt_doorbell_errors.get());
        if self.m.irq.get() {
            let tail = self.m.tail.get();
            let old = self.entry(tail.wrapping_sub(1)).phase;
            assert_eq!(old, (tail.wrapping_sub(1) / self.size()) & 1 == 0, "the interrupt never overtakes the data");
        }
        let took = self.m.event_valid.get() && self.m.event_ready.get();
        self.host.step(request, beat, &mut self.rng);
        self.m.tick();
        if took {
            let event = self.offer.take().expect("valid");
            if is_freed_connection(&event) {
                self.freed.push_back((event.handle.index(), self.m.tail.get()));
            }
            // the driver may have seen it before its end was told here
            if self.seen < self.written {
                self.expect.push_back(event);
            }
        }
        self.time = self.time.wrapping_add(3);
        if self.rng.random_bool(self.looking) && self.look() && self.freeing {
            let junk: u16 = self.rng.random();
            self.doorbell = Some(u32::from(junk) << 16 | u32::from(self.next));
        }
    }
    fn clocks(&mut self, n: usize) {
        for _ in 0..n {
            self.clock();
        }
    }
    fn drain(&mut self) {
        self.offering = 0.0;
        self.looking = 0.5;
        for _ in 0..100_000 {
            if self.offer.is_none() && self.expect.is_empty() && self.freed.is_empty() {
                self.clocks(20);
                assert_eq!((self.m.tail.get(), self.irqs), (self.next, self.written));
                return;
            }
            self.clock();
        }
        panic!("events were not written");
    }
}

/// The layout of the ring entry on both sides: fields at the engine, `Event::decode` in host memory.
///
/// Covers: DEF-37
#[test]
fn every_event_is_in_memory_once_in_order_before_its_interrupt() {
    let seed = bench::seed("evt_ring");
    for (round, (base, log2, latency, busy, offering, looking)) in [
        (0x1000, 2, 0..1, 0.0, 1.0, 1.0),
        (0xffff_ffff_f000, 2, 0..40, 0.3, 0.5, 0.1),
        (0xffff_ff80, 5, 10..200, 0.1, 0.1, 0.5),
        (0x7f, 8, 0..3, 0.0, 0.9, 0.03),
        (0x1234_5678_0000, 12, 0..9, 0.0, 1.0, 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let mut b = Bench::new(seed + round as u64, base, log2, WriteHost::new(latency, busy));
        (b.offering, b.looking) = (offering, looking);
        b.clocks(100_000);
        b.drain();
        assert!(b.seen > 500, "{} events", b.seen);
        assert_eq!((b.seen, b.errors), (b.written, 0));
        assert_eq!(b.host.ended.len() as u64, b.written, "one write an event");
        assert!(b.told_back > 100 && b.idle.len() == usize::from(INDICES), "{} indices came back", b.told_back);
    }
}

/// The host reads at once and says so late, or in two steps: an index comes back when EVT_HEAD has passed its FREED, neither before nor
/// later.
///
/// Covers: CM-43
#[test]
fn an_index_comes_back_when_the_host_has_read_its_freed() {
    let mut b = Bench::new(bench::seed("evt_ring"), 0x4000, 5, WriteHost::new(0..20, 0.1));
    (b.offering, b.looking) = (1.0, 0.0);
    for _ in 0..200 {
        b.clocks(800);
        let in_ring: Vec<_> = b.freed.iter().map(|f| f.1).collect();
        assert!(!in_ring.is_empty() && b.m.tail.get().wrapping_sub(b.next) == 32);
        while b.next != b.m.tail.get() {
            assert!(b.look());
        }
        for head in in_ring {
            let (before, back) = (b.told_back, b.rung);
            b.doorbell = Some(head.wrapping_sub(1).into());
            b.clocks(30);
            assert_eq!(b.told_back, before, "EVT_HEAD {} after {back}", head.wrapping_sub(1));
            b.doorbell = Some(head.into());
            b.clocks(30);
            assert_eq!(b.told_back, before + 1, "EVT_HEAD {head}");
        }
        b.doorbell = Some(b.next.into());
        b.clocks(2);
    }
    b.looking = 0.5;
    b.drain();
}

/// Covers: CM-44
#[test]
fn a_full_ring_of_4_holds_the_event_at_the_input_and_loses_none() {
    let mut b = Bench::new(bench::seed("evt_ring"), 0x4000, 2, WriteHost::new(0..20, 0.1));
    b.offering = 1.0;
    for round in 0..200 {
        // the driver does not look: exactly four are written, the fifth waits, and is counted once
        (b.looking, b.full) = (0.0, 0);
        b.clocks(400);
        assert_eq!(b.m.tail.get().wrapping_sub(b.next), 4);
        assert!(b.offer.is_some() && !b.m.req_valid.get());
        assert_eq!(b.full, 1, "round {round}");
        // it reads all of them and gives room back in one or in single steps
        b.freeing = round % 2 == 0;
        if b.freeing {
            (0..4).for_each(|_| {
                assert!(b.look());
                b.doorbell = Some(b.next.into());
                b.clock();
            });
        } else {
            (0..4).for_each(|_| assert!(b.look()));
            b.doorbell = Some(b.next.into());
        }
    }
    (b.freeing, b.looking) = (true, 0.5);
    b.drain();
    assert_eq!(b.errors, 0);
}

#[test]
fn a_head_beyond_what_was_written_or_back_is_ignored_and_counted() {
    let seed = bench::seed("evt_ring");
    for log2 in [2, 5] {
        let mut b = Bench::new(seed, 0x4000, log2, WriteHost::new(0..20, 0.1));
        for _ in 0..400 {
            b.clocks(30);
            // let a write end, so that `tail` is all that the host can have seen
            let offering = std::mem::replace(&mut b.offering, 0.0);
            let looking = std::mem::replace(&mut b.looking, 0.0);
            b.clocks(80);
            let wrong: Vec<u16> = {
                let tail = b.m.tail.get();
                let random: u16 = b.rng.random();
                [tail.wrapping_add(1), tail.wrapping_add(2), b.next.wrapping_sub(1), random]
                    .into_iter()
                    .filter(|w| w.wrapping_sub(b.next) > tail.wrapping_sub(b.next))
                    .collect()
            };
            // the driver tells what it has read, then nonsense
            b.doorbell = Some(b.next.into());
            b.clocks(80);
            let errors = b.errors;
            for w in &wrong {
                if b.offer.is_some() {
                    break;
                }
                b.doorbell = Some(u32::from(*w));
                b.clocks(3);
                assert_eq!(b.errors, errors + 1, "head {w}, tail {}", b.m.tail.get());
                b.errors = errors;
            }
            (b.offering, b.looking) = (offering, looking);
        }
        b.drain();
    }
}

#[test]
fn garbage_heads_never_block_the_ring() {
    let mut b = Bench::new(bench::seed("evt_ring"), 0x4000, 3, WriteHost::new(0..5, 0.1));
    b.looking = 1.0;
    for _ in 0..2000 {
        let garbage: u32 = b.rng.random();
        // what a correct driver could not have written
        if (garbage as u16).wrapping_sub(b.next) > 8 && b.next.wrapping_sub(garbage as u16) > 8 {
            b.doorbell = Some(garbage);
        }
        b.clocks(10);
    }
    // a doorbell of the driver may have been replaced by garbage above: it rings once more
    b.doorbell = Some(b.next.into());
    b.drain();
    assert!(b.errors > 500 && b.seen > 500);
}

#[test]
fn a_failed_write_is_tried_again_at_the_same_entry_until_it_succeeds() {
    let mut host = WriteHost::new(0..10, 0.1);
    host.failing = 0.4;
    let mut b = Bench::new(bench::seed("evt_ring"), 0x4000, 2, host);
    b.clocks(200_000);
    b.drain();
    let failed = b.host.ended.iter().filter(|w| w.failed).count() as u64;
    assert!(failed > 100, "{failed}");
    assert_eq!(b.host.ended.len() as u64, b.written + failed);
    assert_eq!((b.seen, b.irqs), (b.written, b.written), "no interrupt for a failed write");
}

#[test]
fn nothing_is_written_before_enable_and_the_wait_is_not_counted_as_a_full_ring() {
    let mut b = Bench::new(bench::seed("evt_ring"), 0x4000, 2, WriteHost::new(0..1, 0.0));
    b.m.enabled.set(false);
    b.offering = 1.0;
    b.clocks(100);
    assert!(!b.m.req_valid.get() && b.offer.is_some());
    b.m.enabled.set(true);
    b.clocks(100);
    b.drain();
    assert_eq!(b.full, 0);
}

#[test]
fn reset_in_the_middle_of_anything_starts_from_an_empty_ring() {
    let seed = bench::seed("evt_ring");
    let mut host = WriteHost::new(0..10, 0.1);
    host.failing = 0.1;
    let mut b = Bench::new(seed, 0x4000, 2, host);
    for _ in 0..500 {
        let n = b.rng.random_range(0..150);
        b.clocks(n);
        b.reset();
        (b.seen, b.written, b.irqs) = (0, 0, 0);
    }
    b.clocks(5000);
    b.drain();
    assert!(b.seen > 50);
}

#[test]
fn an_event_costs_12_clocks_beside_the_dma() {
    let mut b = Bench::new(1, 0x4000, 8, WriteHost::new(0..1, 0.0));
    (b.offering, b.looking) = (1.0, 1.0);
    b.clocks(1200);
    assert!((99..=101).contains(&b.written), "{} events in 1200 clocks", b.written);
}
