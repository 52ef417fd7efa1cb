// SPDX-License-Identifier: MIT OR Apache-2.0
//! The surroundings of a core, tried with a scripted core that copies host memory and echoes frames.
mod common;
use common::{Copier, DONE, GO, LENGTH, SOURCE, TARGET};
use ironwarp_rnic::{Bus, BusError, DmaMemory};
use ironwarp_sim::{
    adapter::{Adapter, AdapterConfig},
    dma::{DmaConfig, Latency},
    monitor::Rule,
    record::Record,
    wire::{Frame, Queue},
    InProcessBus, LineRate, World,
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("replay: SEED={seed} cargo test -p ironwarp-sim --test scripted");
    seed
}

struct Bench {
    world: Arc<Mutex<World>>,
    bus: InProcessBus,
    memory: Arc<DmaMemory>,
}

const IOVA: u32 = 0x4000_0000;

fn bench(dma: DmaConfig, core: Copier) -> Bench {
    let config = AdapterConfig { dma, ..AdapterConfig::new("copier", seed()) };
    let mut world = World::new(0);
    let mut adapter = Adapter::with_core(&config, Box::new(core));
    adapter.recorder_mut().keep(100_000);
    world.insert(adapter);
    let world = Arc::new(Mutex::new(world));
    let mut bus = InProcessBus::new(&world, 0);
    let memory = Arc::new(DmaMemory::new(1 << 16).unwrap());
    memory.write(0, &(0..1 << 15).map(|k: u32| (k.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect::<Vec<_>>());
    bus.map(IOVA.into(), &memory).unwrap();
    Bench { world, bus, memory }
}

impl Bench {
    fn copy(&mut self, source: u32, target: u32, len: u32) -> u32 {
        self.bus.write32(SOURCE, source).unwrap();
        self.bus.write32(TARGET, target).unwrap();
        self.bus.write32(LENGTH, len).unwrap();
        self.bus.write32(GO, 1).unwrap();
        assert_eq!(self.bus.wait(0b1100, Duration::from_millis(10)).unwrap(), 0b100);
        self.bus.read32(DONE).unwrap()
    }
    fn octets(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.memory.read(offset, &mut out);
        out
    }
    fn records(&self) -> Vec<Record> {
        self.world.lock().unwrap().adapter_mut(0).recorder_mut().take()
    }
}

#[test]
fn any_address_and_length_is_served_whatever_the_latency() {
    for dma in [
        DmaConfig::default(),
        DmaConfig { read_latency: Latency::Fixed(100), write_latency: Latency::Fixed(50), ..Default::default() },
        DmaConfig {
            read_latency: Latency::Range(0, 90),
            write_latency: Latency::Range(0, 90),
            write_burst: Some((4, 7)),
            stall_percent: 40,
            reads: 1,
            writes: 1,
        },
    ] {
        let mut b = bench(dma, Copier::default());
        for (n, (source, len)) in [(0, 1), (3, 7), (5, 8), (1, 9), (4095, 64), (7, 1500), (2, 9000)].into_iter().enumerate() {
            let done = b.copy(IOVA + source, IOVA + 0x8000 + source, len);
            assert_eq!(done, n as u32 + 1);
            assert_eq!(b.octets(source as usize, len as usize), b.octets(0x8000 + source as usize, len as usize), "{source} {len}");
        }
        b.world.lock().unwrap().assert_clean();
    }
}

#[test]
fn latencies_are_kept_to_the_cycle() {
    let mut b =
        bench(DmaConfig { read_latency: Latency::Fixed(100), write_latency: Latency::Fixed(40), ..Default::default() }, Copier::default());
    b.copy(IOVA, IOVA + 0x8000, 64);
    let records = b.records();
    let at = |pick: &dyn Fn(&Record) -> Option<u64>| records.iter().find_map(pick).expect("recorded");
    let asked = at(&|r| if let Record::ReadRequest { cycle, .. } = r { Some(*cycle) } else { None });
    let read = at(&|r| if let Record::ReadDone { cycle, .. } = r { Some(*cycle) } else { None });
    let last = at(&|r| if let Record::WriteBeat { cycle, last: true, .. } = r { Some(*cycle) } else { None });
    let done = at(&|r| if let Record::WriteDone { cycle, error: false, .. } = r { Some(*cycle) } else { None });
    assert_eq!(read - asked, 1 + 100 + 7, "first beat after the latency, 8 beats");
    assert_eq!(done - last, 40 + 1);
    let doorbell = at(&|r| match r {
        Record::MmioWrite { cycle, offset, .. } if u32::from(*offset) == GO => Some(*cycle),
        _ => None,
    });
    assert_eq!(asked - doorbell, 1);
    let interrupt = at(&|r| if let Record::Interrupt { cycle, vector: 2 } = r { Some(*cycle) } else { None });
    assert_eq!(interrupt - done, 1);
}

#[test]
fn an_access_outside_of_the_windows_is_answered_with_error_and_kept_as_a_fault() {
    let mut b = bench(DmaConfig::default(), Copier::default());
    assert_eq!(b.copy(IOVA - 8, IOVA + 0x8000, 16) >> 16, 1, "read error");
    assert_eq!(b.copy(IOVA, IOVA + 0xfff8, 64) >> 16, 2, "write error");
    b.bus.unmap(IOVA.into(), 1 << 16).unwrap();
    assert_eq!(b.copy(IOVA, IOVA, 8) >> 16, 4, "both");
    let mut world = b.world.lock().unwrap();
    let faults = world.adapter_mut(0).take_dma_faults();
    let seen: Vec<_> = faults.iter().map(|f| (f.write, f.iova)).collect();
    let iova = u64::from(IOVA);
    assert_eq!(seen, [(false, iova - 8), (true, iova + 0x1_0000), (false, iova), (true, iova)]);
    assert!(faults.iter().all(|f| f.cycle > 0));
    world.assert_clean();
}

#[test]
fn a_write_without_last_is_reported_and_answered_with_error() {
    let mut b = bench(DmaConfig::default(), Copier::forgetting_last());
    assert_eq!(b.copy(IOVA, IOVA + 0x8000, 16) >> 16, 1);
    let rules: Vec<_> = b.world.lock().unwrap().adapter(0).violations().iter().map(|v| v.rule).collect();
    assert_eq!(rules, [Rule::WriteLastMissing]);
}

#[test]
fn a_reset_in_the_middle_of_dma_leaves_nothing_under_way() {
    for cycles in 0..60 {
        let dma = DmaConfig { read_latency: Latency::Fixed(10), write_latency: Latency::Fixed(20), ..Default::default() };
        let mut b = bench(dma, Copier::default());
        b.bus.write32(SOURCE, IOVA).unwrap();
        b.bus.write32(TARGET, IOVA + 0x8000).unwrap();
        b.bus.write32(LENGTH, 64).unwrap();
        b.bus.write32(GO, 1).unwrap();
        b.world.lock().unwrap().run(cycles);
        b.bus.reset().unwrap();
        assert_eq!(b.bus.wait(!0, Duration::from_micros(20)).unwrap(), 0, "after {cycles} cycles");
        assert_eq!(b.copy(IOVA, IOVA + 0x9000, 64), 1);
        b.world.lock().unwrap().assert_clean();
    }
}

#[test]
fn frames_pass_both_ways_and_damage_is_seen_by_the_core() {
    let mut world = World::new(0);
    let config = AdapterConfig { line: LineRate::GIGABIT_AT_62_5_MHZ, ..AdapterConfig::new("echo", seed()) };
    let id = world.insert(Adapter::with_core(&config, Box::new(Copier::default())));
    let (queue, test) = Queue::new();
    world.connect(Box::new(queue), &[id]);
    let frames: Vec<Vec<u8>> = (60..=80).chain([1500, 1514]).map(|len| (0..len).map(|k| (k ^ len) as u8).collect()).collect();
    for frame in &frames {
        test.send(frame.clone());
        test.send_damaged(frame.clone());
    }
    test.send_at(40_000, Frame::good(vec![0xee; 60]));
    assert!(world.run_until(100_000, |w| w.quiet(100) && test.pending() == 0));
    let mut back = test.drain();
    let late = back.pop().expect("the late frame");
    assert_eq!(late.frame.octets, [0xee; 60]);
    assert!(late.first > 40_000);
    assert_eq!(back.iter().map(|s| s.frame.octets.clone()).collect::<Vec<_>>(), frames);
    for sent in &back {
        let octets = sent.frame.octets.len() as u64;
        assert_eq!(sent.last - sent.first, (octets.div_ceil(8) - 1) * 4, "2 octets a cycle");
        assert_eq!(sent.end - sent.first, (octets + 12).div_ceil(2));
    }
    world.assert_clean();
}

#[test]
fn waiting_is_bounded_in_adapter_time_and_in_cycles() {
    let mut b = bench(DmaConfig::default(), Copier::default());
    let cycle = |b: &Bench| b.world.lock().unwrap().cycle();
    let before = cycle(&b);
    assert_eq!(b.bus.wait(1, Duration::from_micros(100)).unwrap(), 0);
    assert_eq!(cycle(&b) - before, 6400, "64 MHz by the reset value of TIMEBASE");
    b.bus.write32(ironwarp_abi::reg::TIMEBASE, 10 << 16).unwrap();
    let before = cycle(&b);
    assert_eq!(b.bus.wait(1, Duration::from_micros(100)).unwrap(), 0);
    assert_eq!(cycle(&b) - before, 10, "10 microseconds a clock");
    let mut bounded = InProcessBus::new(&b.world, 0).with_wait_bound(50);
    assert!(matches!(bounded.wait(1, Duration::from_secs(3600)), Err(BusError::Timeout { .. })));
}

#[test]
fn the_turnaround_passes_when_the_host_learns_something() {
    let mut b = bench(DmaConfig::default(), Copier::default());
    b.world.lock().unwrap().set_host_turnaround(1000);
    let cycle = |b: &Bench| b.world.lock().unwrap().cycle();
    let before = cycle(&b);
    b.bus.write32(SOURCE, 1).unwrap();
    assert!(cycle(&b) - before < 20, "a write teaches nothing");
    b.bus.read32(SOURCE).unwrap();
    assert!((1000..1020).contains(&(cycle(&b) - before)));
}

#[test]
fn neither_an_interrupt_nor_a_read_answer_overtakes_dma_writes() {
    let dma = DmaConfig { write_latency: Latency::Fixed(500), ..Default::default() };
    let core = Copier::hasty();
    let mut b = bench(dma, core);
    b.bus.write32(TARGET, IOVA + 0x8000).unwrap();
    b.bus.write32(LENGTH, 64).unwrap();
    b.bus.write32(SOURCE, IOVA).unwrap();
    b.bus.write32(GO, 1).unwrap();
    assert_eq!(b.bus.wait(0b100, Duration::from_millis(1)).unwrap(), 0b100);
    assert_eq!(b.octets(0, 64), b.octets(0x8000, 64), "by the interrupt");
    b.bus.write32(TARGET, IOVA + 0x9000).unwrap();
    b.bus.write32(GO, 1).unwrap();
    b.world.lock().unwrap().run(50);
    assert_ne!(b.octets(0, 64), b.octets(0x9000, 64), "still on its way");
    b.bus.read32(DONE).unwrap();
    assert_eq!(b.octets(0, 64), b.octets(0x9000, 64), "by the answer");
}

#[test]
fn a_bad_offset_is_refused() {
    let mut b = bench(DmaConfig::default(), Copier::default());
    for offset in [1, 0x1_0000, u32::MAX] {
        assert!(matches!(b.bus.read32(offset), Err(BusError::Refused(_))), "{offset:#x}");
    }
}
