// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad hosts and bad moments on the whole core: full rings, nonsense, stale handles, DMA errors, resets in the middle of everything.
use ironwarp_abi::{Command, Counter, Opcode};
use ironwarp_rnic::{Config, Error, Event, Refusal, Rnic};
use ironwarp_sim::{bus::lock, AdapterConfig, DmaConfig, InProcessBus, Latency, World};
use ironwarp_tests::{assert_clean, config, counter, echo_request, seed, single, ANY};
use rand::{rngs::StdRng, Rng, SeedableRng};
use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Refused { refusal, .. } => refusal,
        other => panic!("{other}"),
    }
}

/// Rings of four entries under 200 commands, posted as fast as the ring takes them: each has its one answer, none is lost.
///
/// Covers: CM-44
#[test]
fn rings_of_four_entries_lose_nothing() {
    let small = Config { cmd_log2: 2, evt_log2: 2, l2rx_log2: 2, l2tx_log2: 2, ..config(1, 1) };
    let (world, mut a) = single(1, small);
    let (mut out, mut full) = (BTreeSet::new(), 0);
    let mut posted = 0;
    while posted < 200 || !out.is_empty() {
        while posted < 200 {
            match a.post_nop() {
                Ok(context) => assert!(out.insert(context.0)),
                Err(Error::CommandRingFull) => {
                    full += 1;
                    break;
                }
                Err(other) => panic!("{other}"),
            }
            posted += 1;
        }
        // the host looks away until the event ring is full, now and then
        if posted % 3 == 0 {
            lock(&world).run(2000);
        }
        let event = a.wait_event(Duration::from_millis(5)).expect("adapter").expect("an answer");
        let Event::Done { context, .. } = event else { panic!("{event:?}") };
        assert!(out.remove(&context.0), "answered twice: {context:?}");
    }
    assert!(full > 10, "the command ring was full {full} times");
    assert_eq!(counter(&mut a, Counter::CmdDone), 200);
    assert_clean(&world);
}

/// Random commands, most of them nonsense: a status for each, the adapter works on and reaches for nothing that is not its own.
///
/// Covers: CM-32
#[test]
fn garbage_commands_get_a_status() {
    let seed = seed("--test robust garbage", 1);
    let (world, mut a) = single(seed, config(1, seed));
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..2000 {
        let words: [u32; 16] = std::array::from_fn(|_| rng.random());
        let mut command = Command::decode(&words);
        if rng.random_ratio(1, 2) {
            command.opcode = rng.random_range(0..14);
            command.flags = 0;
        }
        a.call_raw(command).expect("every command has an answer");
    }
    assert!(counter(&mut a, Counter::CmdUnknown) > 100);
    assert!(counter(&mut a, Counter::StaleHandles) > 10);
    assert_eq!(counter(&mut a, Counter::CmdDone) + counter(&mut a, Counter::CmdErrors), 2000);
    a.nop().expect("still alive");
    assert_clean(&world);
}

/// A handle dies with its FREED; the next listener of the slot has another one.
///
/// Covers: CM-32, CM-43, DEF-9
#[test]
fn stale_handles_are_counted_and_ignored() {
    let (world, mut a) = single(3, config(1, 3));
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        let listener = a.create_listen(ANY, 0, 8).expect("LISTEN_REPLY");
        assert!(seen.insert(listener.handle.0), "handle given twice");
        a.destroy_listen(listener).expect("FREED");
    }
    let stale = *seen.iter().next_back().expect("made above");
    let event = a.call_raw(Command { opcode: Opcode::Unlisten as u8, handle: ironwarp_abi::Handle(stale), ..Command::default() });
    assert!(matches!(event, Ok(Event::Refused { refusal: Refusal::NoEntry, .. })), "{event:?}");
    assert_eq!(counter(&mut a, Counter::StaleHandles), 1);
    assert_eq!(counter(&mut a, Counter::ListenCreated), 300);
    assert_eq!(counter(&mut a, Counter::ListenDestroyed), 300);
    assert_clean(&world);
}

/// Taken, reserved, exhausted, no slot: each refusal has its status and counter, and all is as before when its users are gone.
///
/// Covers: PDB-1, PDB-2, PDB-3, CM-33
#[test]
fn every_refusal_of_a_port() {
    let (world, mut a) = single(4, Config { port_range: (50000, 50003), ..config(1, 4) });
    for _ in 0..3 {
        let taken = a.create_listen(ANY, 7, 1).expect("free");
        assert!(matches!(refusal(a.create_listen(ANY, 7, 1).unwrap_err()), Refusal::AddressInUse { .. }));
        assert!(matches!(refusal(a.reserve_ports(5, 9).unwrap_err()), Refusal::AddressInUse { port: 7 }));
        a.reserve_ports(100, 200).expect("nobody there");
        assert!(matches!(refusal(a.create_listen(ANY, 150, 1).unwrap_err()), Refusal::Reserved { .. }));
        a.reserve_ports(50002, 50002).expect("free");
        let mut chosen: Vec<_> = (0..3).map(|_| a.create_listen(ANY, 0, 1).expect("a port of the range")).collect();
        let ports: BTreeSet<u16> = chosen.iter().map(|l| l.port).collect();
        assert_eq!(ports, BTreeSet::from([50000, 50001, 50003]));
        assert!(matches!(refusal(a.create_listen(ANY, 0, 1).unwrap_err()), Refusal::NoPorts));
        chosen.extend((0..12).map(|i| a.create_listen(ANY, 1000 + i, 1).expect("slots are left")));
        assert!(matches!(refusal(a.create_listen(ANY, 999, 1).unwrap_err()), Refusal::NoMemory));
        a.unreserve_ports(100, 200).expect("reserved above");
        a.unreserve_ports(50002, 50002).expect("reserved above");
        for listener in chosen.into_iter().chain([taken]) {
            a.destroy_listen(listener).expect("FREED");
        }
    }
    for (which, count) in
        [(Counter::PortsExhausted, 3), (Counter::ListenersExhausted, 3), (Counter::ListenCreated, 48), (Counter::ListenDestroyed, 48)]
    {
        assert_eq!(counter(&mut a, which), count, "{}", which.name());
    }
    assert_clean(&world);
}

/// The command ring vanishes: the driver gets an error within its bound, the adapter says why, and a new attach works.
#[test]
fn a_dma_error_stops_the_command_ring_until_a_reset() {
    let (world, mut a) = single(5, Config { command_timeout: Duration::from_millis(5), ..config(1, 5) });
    a.nop().expect("alive");
    lock(&world).adapter(0).dma_table().write().expect("not poisoned").clear();
    let error = a.nop().expect_err("its ring cannot be read");
    println!("{error}");
    let status = a.device().read(ironwarp_abi::reg::STATUS).expect("registers work");
    assert_ne!(status & ironwarp_abi::reg::status_bits::CMD_STOPPED, 0, "{status:#x}");
    assert_eq!(counter(&mut a, Counter::DmaReadErrors), 1);
    assert!(!lock(&world).adapter_mut(0).take_dma_faults().is_empty());
    drop(a);
    let mut again = Rnic::attach(InProcessBus::new(&world, 0), config(1, 5)).expect("a reset mends it");
    again.nop().expect("alive");
    assert_eq!(counter(&mut again, Counter::DmaReadErrors), 0, "counters start anew");
    assert_clean(&world);
}

/// Detach (a reset) after a random number of clocks of commands and frames under random DMA latency: nothing hangs, no DMA comes after
/// the reset (its memory is gone then, so that it would be a fault), and the next attach finds an adapter as new.
///
/// Covers: CM-35, PDB-3
#[test]
fn reset_in_the_middle_of_everything() {
    let seed = seed("--test robust reset", 6);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(0);
    let dma = DmaConfig {
        read_latency: Latency::Range(0, 200),
        write_latency: Latency::Range(0, 200),
        stall_percent: 10,
        ..DmaConfig::default()
    };
    let ids = [("a", seed), ("b", seed + 1)].map(|(name, seed)| world.add(&AdapterConfig { dma, ..AdapterConfig::new(name, seed) }));
    world.connect(Box::new(ironwarp_sim::wire::Link::new(5)), &ids);
    let world = Arc::new(Mutex::new(world));
    let attach = |n: usize| {
        let mut rnic = Rnic::attach(InProcessBus::new(&world, n), config(n as u8 + 1, seed)).expect("attach");
        rnic.address_add(Ipv4Addr::new(192, 0, 2, n as u8 + 1), 24, None).expect("a fresh adapter takes its address");
        rnic
    };
    let mut b = attach(1);
    for round in 0..40 {
        let mut a = attach(0);
        assert_eq!(counter(&mut a, Counter::ListenCreated), 0, "round {round}");
        // the port database is as at first: nobody has a port
        a.reserve_ports(1, 65535).expect("no port has a listener");
        a.unreserve_ports(1, 65535).expect("all are given back");
        for seq in 0..rng.random_range(1..8) {
            a.post_listen(ANY, 80 + seq, 1).expect("room");
            a.post_reserve(1000, 9000).expect("room");
            let data = vec![round as u8; rng.random_range(0..1400)];
            a.send(&echo_request(1, Ipv4Addr::new(192, 0, 2, 2), 1, seq, &data), true).expect("room");
            b.send(&echo_request(2, Ipv4Addr::new(192, 0, 2, 1), 2, seq, &data), true).expect("room");
        }
        lock(&world).run(rng.random_range(1..3000));
        drop(a);
        let (faults, _) = {
            let world = lock(&world);
            let (f, n) = world.adapter(0).dma_faults();
            (f.to_vec(), n)
        };
        assert!(faults.is_empty(), "round {round}: DMA after the reset: {faults:?}");
        let mut frame = vec![];
        while b.recv(&mut frame).expect("b lives").is_some() {}
    }
    b.nop().expect("b was never disturbed");
    // also: no frame was cut on the wire
    ironwarp_tests::assert_clean(&world);
}
