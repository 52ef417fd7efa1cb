// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver against scripts: what an adapter that is wrong, slow, gone or silent makes of it.
#[allow(dead_code)] // each test file uses a part
mod mock;

use ironwarp_abi::{
    command::flag,
    l2,
    reg::{self, control, status_bits},
    Command, Counter, Event as RawEvent, EventKind, Handle, HandleKind, Opcode, Status, RING_LOG2_RANGE,
};
use ironwarp_rnic::{BusError, Config, Context, Device, Error, Event, Refusal, Rnic, Rule, TcpSettings};
use mock::{reply, yes, Mock, MockBus};
use proptest::prelude::*;
use std::{net::Ipv4Addr, time::Duration};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const MS: Duration = Duration::from_millis(1);

fn attach(mock: &Mock, config: Config) -> Rnic<MockBus> {
    Rnic::attach(mock.bus(), config).expect("attach")
}

/// Every test of waiting runs by interrupt and by looking at the ring.
fn both_ways(test: impl Fn(Config)) {
    for interrupts in [true, false] {
        test(Config { interrupts, command_timeout: 50 * MS, ..Config::default() });
    }
}

fn written(mock: &Mock, offset: u32) -> Vec<u32> {
    mock.state().written.iter().filter(|w| w.0 == offset).map(|w| w.1).collect()
}

// ---- attach and detach

#[test]
fn attach_gives_the_adapter_rings_settings_and_starts_it_last() {
    let mock = Mock::new();
    let config = Config { port_range: (50_000, 50_010), random: Some(7), mtu: 1400, ip_ttl: Some(9), share: true, ..Config::default() };
    let rnic = attach(&mock, config.clone());
    let state = mock.state();
    for base in [reg::CMD_BASE_LO, reg::EVT_BASE_LO, reg::L2RX_BASE_LO, reg::L2TX_BASE_LO, reg::PDATA_BASE_LO] {
        let iova = u64::from(state.regs[&base]) | u64::from(state.regs[&(base + 4)]) << 32;
        assert!(iova >= 0x1_0000_0000 && state.maps.contains_key(&iova), "{base:#x}");
    }
    assert_eq!(state.maps.len(), 8);
    for (offset, value) in [
        (reg::PORT_RANGE, 50_000 | 50_010 << 16),
        (reg::RANDOM, 7),
        (reg::MTU, 1400),
        (reg::IP_TTL, 9),
        (reg::MAC_LO, 0x00ad_1b02),
        (reg::MAC_HI, 0x0100),
        (reg::L2_CONTROL, reg::l2_control::SHARE),
        (reg::IRQ_MASK, 0xf),
        (reg::CMD_LOG2, config.cmd_log2),
    ] {
        assert_eq!(state.regs[&offset], value, "{offset:#x}");
    }
    let enable = state.written.iter().position(|w| *w == (reg::CONTROL, control::ENABLE)).expect("enabled");
    let after: Vec<_> = state.written[enable + 1..].to_vec();
    assert_eq!(after, [(reg::L2RX_TAIL, 1 << config.l2rx_log2)], "only the doorbell of the receive ring after ENABLE");
    assert_eq!(state.resets, 1);
    drop(state);
    drop(rnic);
    let state = mock.state();
    assert_eq!((state.resets, state.maps.len()), (2, 0), "stopped, then unmapped");
}

#[test]
fn the_timebase_is_that_of_the_clock_unless_one_is_given() {
    for (clock, given, expected) in [(None, None, 0x400), (Some(500_000), None, 2 << 16), (Some(500_000), Some(7), 7)] {
        let mock = Mock::new();
        mock.state().clocks_per_second = clock;
        let _rnic = attach(&mock, Config { timebase: given, ..Config::default() });
        assert_eq!(mock.state().regs[&reg::TIMEBASE], expected);
    }
}

#[test]
fn every_attach_has_another_random_seed() {
    let seeds: Vec<u32> = (0..4)
        .map(|_| {
            let mock = Mock::new();
            drop(attach(&mock, Config::default()));
            written(&mock, reg::RANDOM)[0]
        })
        .collect();
    assert!(seeds.windows(2).any(|w| w[0] != w[1]), "{seeds:?}");
}

/// Covers: TCP-3
#[test]
fn every_attach_has_another_secret_of_sequence_numbers() {
    let key = |random| {
        let mock = Mock::new();
        drop(attach(&mock, Config { random, ..Config::default() }));
        [reg::ISN_KEY0, reg::ISN_KEY1, reg::ISN_KEY2, reg::ISN_KEY3].map(|word| written(&mock, word)[0])
    };
    let (first, second) = (key(None), key(None));
    assert!(first.iter().zip(&second).filter(|(a, b)| a != b).count() >= 3, "{first:x?} {second:x?}");
    let mut words = first.to_vec();
    words.extend(second);
    words.sort_unstable();
    words.dedup();
    assert!(words.len() >= 7, "the words of a key are not each other's copies: {words:x?}");
    // a run that must repeat has a seed, and then its secret repeats
    assert_eq!(key(Some(7)), key(Some(7)));
    assert_ne!(key(Some(7)), key(Some(8)));
}

#[test]
fn settings_of_tcp_are_written_and_the_others_left_alone() {
    let mock = Mock::new();
    let mut tcp = TcpSettings { two_msl_us: Some(1000), r1: Some(9), ..TcpSettings::default() };
    tcp.set("challenges", 0).expect("by its name");
    assert!(matches!(tcp.set("window", 65536), Err(Error::Config(_))));
    tcp.window = None;
    assert!(tcp.set("luck", 1).unwrap_err().to_string().contains("two_msl_us"));
    let _rnic = attach(&mock, Config { tcp, ..Config::default() });
    assert_eq!(
        (written(&mock, reg::TCP_2MSL), written(&mock, reg::TCP_R1), written(&mock, reg::TCP_CHALLENGES)),
        (vec![1000], vec![9], vec![0])
    );
    for left in [reg::TCP_WINDOW, reg::TCP_RTO_INIT, reg::TCP_R2, reg::MPA_TIMEOUT, reg::CONNECT_TIMEOUT, reg::SPARE_SLOTS] {
        assert!(written(&mock, left).is_empty(), "{left:#x}");
    }
}

#[test]
fn what_is_no_adapter_is_refused_and_told() {
    let with = |offset, value| {
        let mock = Mock::new();
        mock.state().regs.insert(offset, value);
        Rnic::attach(mock.bus(), Config::default()).map(drop).unwrap_err()
    };
    assert!(matches!(with(reg::MAGIC, 0), Error::NotIronwarp { found: 0, .. }));
    assert!(matches!(with(reg::MAGIC, u32::MAX), Error::NotIronwarp { found: u32::MAX, .. }));
    assert!(matches!(with(reg::VERSION, 0x0002_0000), Error::Version { found: 0x0002_0000 }));
    assert!(with(reg::VERSION, 0x0002_0000).to_string().contains("ABI 2.0, this driver 1.0"));
}

#[test]
fn a_reset_that_never_ends_is_given_up() {
    let mock = Mock::new();
    mock.state().resets_finish = false;
    let error = Rnic::attach(mock.bus(), Config { reset_timeout: 200 * MS, ..Config::default() }).map(drop).unwrap_err();
    assert!(matches!(error, Error::ResetTimeout { status: status_bits::RESETTING, .. }), "{error}");
    let state = mock.state();
    assert!(state.now < 3000 * MS);
    assert_eq!(state.function_resets, 1, "what does not follow its own reset gets one of the function");
}

#[test]
fn an_attach_that_fails_halfway_leaves_nothing_mapped() {
    for maps in 0..8 {
        let mock = Mock::new();
        mock.state().maps_left = maps;
        assert!(matches!(Rnic::attach(mock.bus(), Config::default()), Err(Error::Bus(BusError::Refused(_)))));
        assert!(mock.state().maps.is_empty(), "after {maps} maps");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_written() {
    let mock = Mock::new();
    let base = Config::default();
    for config in [
        Config { mtu: 575, ..base.clone() },
        Config { mtu: 9000, ..base.clone() },
        Config { port_range: (0, 10), ..base.clone() },
        Config { port_range: (11, 10), ..base.clone() },
        Config { cmd_log2: RING_LOG2_RANGE.end() + 1, ..base.clone() },
        Config { evt_log2: RING_LOG2_RANGE.start() - 1, ..base.clone() },
        Config { mac: "01:00:00:00:00:00".parse().unwrap(), ..base.clone() },
        Config { ip_ttl: Some(0), ..base.clone() },
        Config { tcp: TcpSettings { window: Some(65536), ..TcpSettings::default() }, ..base.clone() },
        Config { tcp: TcpSettings { r2_syn_us: Some(1 << 31), ..TcpSettings::default() }, ..base.clone() },
    ] {
        assert!(matches!(Rnic::attach(mock.bus(), config), Err(Error::Config(_))));
    }
    assert!(mock.state().written.iter().all(|w| w.0 == reg::CONTROL), "nothing but resets");
}

#[test]
fn looking_at_an_adapter_changes_nothing_in_it() {
    let mock = Mock::new();
    let low = Counter::CmdDone.offset();
    mock.state().regs.extend([(low, 0xffff_fffe), (low + 4, 0x1234)]);
    let mut device = Device::open(mock.bus()).unwrap();
    let info = device.info().unwrap();
    assert_eq!((info.max_listeners, info.max_addresses, info.max_neighbors, info.max_mtu), (16, 4, 64, 2030));
    let stats = device.stats().unwrap();
    assert_eq!(stats.len(), ironwarp_abi::counter::COUNTERS);
    assert!(stats.contains(&(Counter::CmdDone, 0x1234_ffff_fffe)));
    drop(device);
    assert!(mock.state().written.is_empty());
}

// ---- verbs

/// Covers: CM-21, CM-43
#[test]
fn listen_and_unlisten_end_with_the_adapters_own_word() {
    both_ways(|config| {
        let mock = Mock::new();
        mock.script(|c| vec![(5 * MS, reply(c, 0))]);
        let mut rnic = attach(&mock, config);
        let listener = rnic.create_listen(Ipv4Addr::new(192, 0, 2, 1), 0, 8).unwrap();
        assert!(listener.port >= 50_000);
        assert_eq!(rnic.listeners(), 1);
        rnic.destroy_listen(listener).unwrap();
        assert_eq!((rnic.listeners(), rnic.outstanding()), (0, 0));
        let commands = mock.state().commands.clone();
        let expected = Command {
            opcode: Opcode::Listen as u8,
            context: commands[0].context,
            local_addr: 0xc000_0201,
            backlog_half_open: 8,
            backlog_accept: 8,
            ..Command::default()
        };
        assert_eq!(commands[0], expected);
        assert_eq!((commands[1].opcode, commands[1].handle), (Opcode::Unlisten as u8, listener.handle));
    });
}

/// Covers: CM-32
#[test]
fn a_handle_is_used_only_while_it_lives() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config::default());
    let listener = rnic.create_listen(ANY, 0, 1).unwrap();
    let mut other = listener;
    other.handle = Handle::new(HandleKind::Listener, listener.handle.index(), listener.handle.generation() + 1);
    assert!(matches!(rnic.destroy_listen(other), Err(Error::StaleHandle)));
    let context = rnic.post_unlisten(&listener).unwrap();
    assert!(matches!(rnic.post_unlisten(&listener), Err(Error::StaleHandle)), "UNLISTEN is under way");
    assert_eq!(rnic.wait_event(MS).unwrap(), Some(Event::Freed { context, handle: listener.handle }));
    assert!(matches!(rnic.destroy_listen(listener), Err(Error::StaleHandle)));
    assert_eq!(mock.state().commands.len(), 2, "stale handles never reach the adapter");
}

#[test]
fn the_other_verbs_say_what_their_tables_say() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config::default());
    rnic.nop().unwrap();
    rnic.reserve_ports(80, 90).unwrap();
    rnic.unreserve_ports(80, 80).unwrap();
    rnic.address_add(Ipv4Addr::new(10, 1, 2, 3), 20, Some(Ipv4Addr::new(10, 1, 0, 1))).unwrap();
    rnic.address_add(Ipv4Addr::new(10, 9, 9, 9), 0, None).unwrap();
    rnic.address_delete(Ipv4Addr::new(10, 1, 2, 3)).unwrap();
    let rule: Rule = "deny both 10.2.0.0/16 4791-4800".parse().unwrap();
    rnic.rule_set(15, &rule).unwrap();
    rnic.rule_clear(2).unwrap();
    assert!(matches!(rnic.rule_set(16, &rule), Err(Error::Config(_))));
    assert!(matches!(rnic.rule_clear(16), Err(Error::Config(_))));
    let commands = mock.state().commands.clone();
    assert_eq!((commands[6].flags, commands[6].backlog_half_open), (flag::DENY | flag::INBOUND | flag::OUTBOUND, 15));
    assert_eq!((commands[7].flags, commands[7].backlog_half_open), (0, 2));
    let fields: Vec<_> = commands.iter().map(|c| (c.opcode, c.local_addr, c.local_port, c.remote_port, c.remote_addr, c.gateway)).collect();
    assert_eq!(
        fields,
        [
            (Opcode::Nop as u8, 0, 0, 0, 0, 0),
            (Opcode::Reserve as u8, 0, 80, 90, 0, 0),
            (Opcode::Unreserve as u8, 0, 80, 80, 0, 0),
            (Opcode::AddressAdd as u8, 0x0a01_0203, 0, 0, 0xffff_f000, 0x0a01_0001),
            (Opcode::AddressAdd as u8, 0x0a09_0909, 0, 0, 0, 0),
            (Opcode::AddressDelete as u8, 0x0a01_0203, 0, 0, 0, 0),
            (Opcode::Rule as u8, 0x0a02_0000, 4791, 4800, 0xffff_0000, 0),
            (Opcode::Rule as u8, 0, 0, 0, 0, 0),
        ]
    );
    let mut contexts: Vec<_> = commands.iter().map(|c| c.context).collect();
    contexts.dedup();
    assert_eq!(contexts.len(), commands.len());
    assert!(matches!(rnic.reserve_ports(0, 5), Err(Error::Config(_))));
    assert!(matches!(rnic.reserve_ports(6, 5), Err(Error::Config(_))));
    assert!(matches!(rnic.address_add(ANY, 33, None), Err(Error::Config(_))));
}

#[test]
fn every_status_is_an_error_of_its_own() {
    for status in Status::ALL.iter().copied().filter(|s| *s != Status::Ok) {
        let mock = Mock::new();
        mock.script(move |c| vec![(Duration::ZERO, RawEvent { detail: 84, ..reply(c, status as i32) })]);
        let mut rnic = attach(&mock, Config::default());
        let refusal = rnic.create_listen(ANY, 1234, 1).unwrap_err().refusal().expect("refused");
        assert_eq!(refusal.status(), status as i32);
        assert!(!matches!(refusal, Refusal::Unknown(_)), "{status:?}");
        let port = match refusal {
            Refusal::Reserved { port } | Refusal::AddressInUse { port } => port,
            _ => continue,
        };
        assert_eq!(port, 1234, "LISTEN names the port asked for");
        match rnic.reserve_ports(80, 90).unwrap_err().refusal() {
            Some(Refusal::Reserved { port } | Refusal::AddressInUse { port }) => assert_eq!(port, 84, "RESERVE the one it stumbled over"),
            other => panic!("{other:?}"),
        }
        assert_eq!((rnic.listeners(), rnic.oddities().unknown_status), (0, 0));
    }
    let mock = Mock::new();
    mock.script(|c| vec![(Duration::ZERO, reply(c, -77))]);
    let mut rnic = attach(&mock, Config::default());
    assert_eq!(rnic.nop().unwrap_err().refusal(), Some(Refusal::Unknown(-77)));
    assert_eq!(rnic.oddities().unknown_status, 1);
}

#[test]
fn messages_say_what_to_do_next() {
    let mock = Mock::new();
    mock.script(|c| vec![(Duration::ZERO, reply(c, Status::AddressInUse as i32))]);
    let mut rnic = attach(&mock, Config::default());
    let text = rnic.create_listen(ANY, 80, 1).unwrap_err().to_string();
    assert_eq!(text, "LISTEN refused: port 80 is in use (EADDRINUSE): take another, or port 0 and the adapter chooses");
}

// ---- replies that are late, lost, wrong

/// Covers: CM-21
#[test]
fn a_lost_reply_is_given_up_and_a_late_listener_is_destroyed() {
    both_ways(|config| {
        let mock = Mock::new();
        mock.script(|c| if c.opcode == Opcode::Listen as u8 { vec![(80 * MS, reply(c, 0))] } else { yes(c) });
        let mut rnic = attach(&mock, config);
        let start = mock.state().now;
        let error = rnic.create_listen(ANY, 0, 1).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        let took = mock.state().now - start;
        assert!(took >= 50 * MS && took < 60 * MS, "{took:?}");
        assert_eq!(rnic.wait_event(100 * MS).unwrap(), None, "nobody is told of the late reply");
        let commands = mock.state().commands.clone();
        assert_eq!(commands[1].opcode, Opcode::Unlisten as u8);
        assert_eq!(commands[1].handle, reply(&commands[0], 0).handle);
        assert_eq!((rnic.listeners(), rnic.outstanding(), rnic.oddities().late_reply), (0, 0, 1), "the driver's own UNLISTEN is none");
        rnic.nop().unwrap();
    });
}

#[test]
fn a_lost_interrupt_only_costs_time() {
    let mock = Mock::new();
    mock.state().raising = false;
    let mut rnic = attach(&mock, Config { command_timeout: Duration::from_secs(5), ..Config::default() });
    mock.script(|c| vec![(MS, reply(c, 0))]);
    rnic.nop().unwrap();
    assert!(mock.state().now <= Duration::from_millis(600));
}

/// Covers: CM-32
#[test]
fn what_should_not_have_come_is_counted_and_changes_nothing() {
    both_ways(|config| {
        let mock = Mock::new();
        mock.script(|c| {
            let good = reply(c, 0);
            let mut events = vec![
                RawEvent { context: c.context.wrapping_add(77), ..good },
                RawEvent { kind: 0, ..good },
                RawEvent { kind: 255, ..good },
                RawEvent { kind: EventKind::Established as u8, ..good },
                good,
                good,
                RawEvent { status: -98, ..good },
            ];
            events.drain(..).map(|e| (Duration::ZERO, e)).collect()
        });
        let mut rnic = attach(&mock, config);
        rnic.nop().unwrap();
        let listener = rnic.create_listen(ANY, 0, 1).unwrap();
        rnic.destroy_listen(listener).unwrap();
        assert_eq!(rnic.poll_event().unwrap(), None);
        let odd = rnic.oddities();
        assert_eq!((odd.unknown_context, odd.unknown_kind, odd.duplicate_reply, odd.bad_reply), (3, 6, 6, 0));
        assert_eq!((odd.unknown_handle, odd.unexpected_event), (3, 0));
        assert_eq!((rnic.listeners(), rnic.outstanding()), (0, 0));
    });
}

#[test]
fn replies_that_contradict_their_command_are_errors() {
    let listen = |change: fn(&mut RawEvent)| {
        let mock = Mock::new();
        mock.script(move |c| {
            let mut event = reply(c, 0);
            change(&mut event);
            vec![(Duration::ZERO, event)]
        });
        let mut rnic = attach(&mock, Config::default());
        let result = rnic.create_listen(ANY, 4000, 1);
        assert_eq!((rnic.listeners(), rnic.oddities().bad_reply), (0, 1));
        result.unwrap_err()
    };
    for change in [
        (|e| e.handle = Handle::NONE) as fn(&mut RawEvent),
        |e| e.handle = Handle::new(HandleKind::Connection, 0, 1),
        |e| e.handle = Handle::new(HandleKind::Listener, 16, 1),
        |e| e.handle.0 |= 1 << 24,
        |e| e.local_port = 0,
        |e| e.local_port = 4001,
        |e| e.kind = EventKind::CmdReply as u8,
        |e| e.kind = EventKind::Freed as u8,
    ] {
        let error = listen(change);
        assert!(matches!(error, Error::BadReply { .. }), "{error}");
    }
    // the same handle twice
    let mock = Mock::new();
    mock.script(|c| {
        let handle = Handle::new(HandleKind::Listener, 3, 9);
        vec![(Duration::ZERO, RawEvent { handle, ..reply(c, 0) })]
    });
    let mut rnic = attach(&mock, Config::default());
    rnic.create_listen(ANY, 0, 1).unwrap();
    assert!(matches!(rnic.create_listen(ANY, 0, 1), Err(Error::BadReply { .. })));
    assert_eq!(rnic.listeners(), 1);
}

#[test]
fn an_unlisten_that_fails_leaves_the_listener_as_the_adapter_says() {
    for (status, left) in [(Status::NoEntry, 0), (Status::Invalid, 1)] {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config::default());
        let listener = rnic.create_listen(ANY, 0, 1).unwrap();
        mock.script(move |c| vec![(Duration::ZERO, reply(c, status as i32))]);
        assert_eq!(rnic.destroy_listen(listener).unwrap_err().refusal().unwrap().status(), status as i32);
        assert_eq!(rnic.listeners(), left);
    }
}

#[test]
fn events_that_others_wait_for_stay() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config::default());
    let first = rnic.post_nop().unwrap();
    mock.state().deliver(Duration::ZERO, RawEvent { kind: EventKind::Async as u8, detail: 5, ..RawEvent::default() });
    let listener = rnic.create_listen(ANY, 0, 1).unwrap();
    let nop = |context| Event::Done { context, opcode: Opcode::Nop.into() };
    assert_eq!(rnic.poll_event().unwrap(), Some(nop(first)));
    assert_eq!(rnic.poll_event().unwrap(), Some(Event::Async { code: 5, terminate: 0, handle: Handle::NONE }));
    assert_eq!(rnic.poll_event().unwrap(), None);
    rnic.destroy_listen(listener).unwrap();
}

#[test]
fn a_flood_of_async_events_is_bounded() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config::default());
    for code in 0..5000 {
        mock.state().deliver(Duration::ZERO, RawEvent { kind: EventKind::Async as u8, detail: code, ..RawEvent::default() });
        if code % 100 == 0 {
            rnic.nop().unwrap();
        }
    }
    rnic.nop().unwrap();
    let mut codes = Vec::new();
    while let Some(Event::Async { code, .. }) = rnic.poll_event().unwrap() {
        codes.push(code);
    }
    assert_eq!(codes.len(), 1024);
    assert_eq!(codes.last(), Some(&4999), "the latest stay");
    assert_eq!(rnic.oddities().async_dropped, 5000 - 1024);
}

// ---- rings at their edges

#[test]
fn phase_and_indices_wrap() {
    both_ways(|config| {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config { cmd_log2: 2, evt_log2: 2, ..config });
        for _ in 0..70_000 {
            let context = rnic.post_nop().unwrap();
            assert_eq!(rnic.poll_event().unwrap(), Some(Event::Done { context, opcode: Opcode::Nop.into() }));
        }
        assert_eq!(rnic.oddities(), Default::default());
    });
}

/// Covers: CM-44
#[test]
fn an_event_ring_of_four_takes_the_replies_of_many_commands() {
    both_ways(|config| {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config { cmd_log2: 6, evt_log2: 2, ..config });
        let posted: Vec<Context> = (0..64).map(|_| rnic.post_nop().unwrap()).collect();
        let mut answered = Vec::new();
        while let Some(event) = rnic.wait_event(MS).unwrap() {
            answered.push(event.context().unwrap());
        }
        assert_eq!(answered, posted);
        let heads = written(&mock, reg::EVT_HEAD);
        assert!(heads.len() <= 17, "EVT_HEAD is written once a pass, not once an event: {}", heads.len());
    });
}

#[test]
fn a_full_command_ring_is_told_and_waited_for() {
    both_ways(|config| {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config { cmd_log2: 2, ..config });
        mock.state().fetching = false;
        let posted: Vec<Context> = (0..4).map(|_| rnic.post_nop().unwrap()).collect();
        assert!(matches!(rnic.post_nop(), Err(Error::CommandRingFull)));
        let error = rnic.nop().unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        {
            let mut state = mock.state();
            state.fetching = true;
            state.fetch();
        }
        for context in posted {
            assert_eq!(rnic.wait_event(MS).unwrap().and_then(|e| e.context()), Some(context));
        }
        rnic.nop().unwrap();
        assert_eq!(mock.state().commands.len(), 5, "what was refused was never posted");
        assert_eq!(rnic.outstanding(), 0);
    });
}

#[test]
fn a_command_head_outside_the_ring_is_an_error() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config { cmd_log2: 2, ..Config::default() });
    mock.state().fetching = false;
    for _ in 0..4 {
        rnic.post_nop().unwrap();
    }
    mock.state().regs.insert(reg::CMD_HEAD, 9);
    assert!(matches!(rnic.post_nop(), Err(Error::Stopped(_))));
}

// ---- adapters that go away

#[test]
fn an_adapter_that_goes_away_during_a_wait_ends_the_wait() {
    both_ways(|config| {
        let config = Config { command_timeout: Duration::from_secs(60), ..config };
        let gone = |error: Error| assert!(matches!(error, Error::Bus(BusError::Gone(_))), "{error}");

        let mock = Mock::new();
        let mut rnic = attach(&mock, config.clone());
        mock.script(|_| Vec::new());
        rnic.post_nop().unwrap();
        mock.state().gone = true; // socket closed
        gone(rnic.nop().unwrap_err());

        for (status, check) in [
            (u32::MAX, gone as fn(Error)), // card pulled
            (status_bits::READY, |e| assert!(matches!(e, Error::Reset), "{e}")),
            (status_bits::READY | status_bits::ENABLED | status_bits::CMD_STOPPED, |e| assert!(matches!(e, Error::Stopped(_)), "{e}")),
        ] {
            let mock = Mock::new();
            let mut rnic = attach(&mock, config.clone());
            mock.script(|_| Vec::new());
            mock.state().regs.insert(reg::STATUS, status);
            check(rnic.nop().unwrap_err());
            assert!(mock.state().now < Duration::from_secs(1), "noticed long before the bound");
        }
    });
}

#[test]
fn a_failed_dma_write_explains_a_reply_that_is_missing() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config { command_timeout: 50 * MS, ..Config::default() });
    let status = status_bits::READY | status_bits::ENABLED | status_bits::DMA_WRITE_ERROR;
    mock.state().regs.insert(reg::STATUS, status);
    rnic.nop().expect("a reply that came is good");
    mock.script(|_| Vec::new());
    assert!(matches!(rnic.nop(), Err(Error::Stopped(_))));
}

// ---- L2

#[test]
fn frames_come_in_order_and_buffers_go_back() {
    both_ways(|config| {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config { l2rx_log2: 3, ..config });
        let mut frame = Vec::new();
        let mut expected = 0u64;
        for round in 0..10_000u32 {
            let octets = [round.to_be_bytes(); 16].concat();
            assert!(mock.state().l2_receive(&octets, 64, if round % 3 == 0 { l2::RX_BROADCAST } else { 0 }));
            let received = rnic.recv_wait(&mut frame, MS).unwrap().expect("a frame");
            assert_eq!((received.len, received.broadcast, &frame), (64, round % 3 == 0, &octets));
            expected += 1;
        }
        assert_eq!(rnic.recv_wait(&mut frame, MS).unwrap(), None);
        assert_eq!(rnic.l2_counts().received, expected);
        let doorbells = written(&mock, reg::L2RX_TAIL).len();
        assert!(doorbells <= 10_001, "{doorbells}");
        // a burst fills every buffer, and no more
        let burst = (0..20).filter(|i| mock.state().l2_receive(&[*i; 60], 60, 0)).count();
        assert_eq!(burst, 8);
        for i in 0..8u8 {
            rnic.recv(&mut frame).unwrap().expect("a frame");
            assert_eq!(frame, [i; 60]);
        }
    });
}

#[test]
fn lengths_and_flags_from_the_adapter_are_not_believed() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config { l2rx_log2: 3, ..Config::default() });
    for (len, flags) in [(0, 0), (13, 0), (u16::MAX, 0), (1537, 0), (60, l2::DONE_DMA_ERROR), (60, l2::DONE_LENGTH_ERROR)] {
        assert!(mock.state().l2_receive(&[1; 60], len, flags));
    }
    assert!(mock.state().l2_receive(&[2; 60], 60, 0));
    let mut frame = Vec::new();
    rnic.recv(&mut frame).unwrap().expect("the good one");
    assert_eq!(frame, [2; 60]);
    let counts = rnic.l2_counts();
    assert_eq!((counts.received, counts.receive_errors), (1, 6));
}

#[test]
fn frames_go_out_and_their_outcome_is_counted() {
    let mock = Mock::new();
    let mut rnic = attach(&mock, Config { l2tx_log2: 2, ..Config::default() });
    assert!(matches!(rnic.send(&[0; 13], false), Err(Error::FrameLength { len: 13, max: 1518 })));
    assert!(matches!(rnic.send(&[0; 1519], false), Err(Error::FrameLength { .. })));
    for i in 0..4 {
        rnic.send(&vec![i; 14 + usize::from(i) * 501], i % 2 == 0).unwrap();
    }
    assert!(matches!(rnic.send(&[0; 60], false), Err(Error::TransmitRingFull)));
    assert!(matches!(rnic.send_wait(&[0; 60], false, MS), Err(Error::TransmitRingFull)));
    for (i, flags) in [0, l2::DONE_PENDING, l2::DONE_NO_ROOM, l2::DONE_DMA_ERROR].into_iter().enumerate() {
        let (frame, host_flags) = mock.state().l2_transmit(flags).expect("posted");
        assert_eq!(frame, vec![i as u8; 14 + i * 501]);
        assert_eq!(host_flags, if i % 2 == 0 { l2::TX_RESOLVE } else { 0 });
    }
    assert_eq!(mock.state().l2_transmit(0), None);
    assert_eq!(rnic.sends_outstanding(), 0);
    let counts = rnic.l2_counts();
    assert_eq!((counts.sent, counts.pending, counts.no_room, counts.send_errors), (2, 1, 1, 1));
    for round in 0..70_000u32 {
        rnic.send(&[round as u8; 60], false).unwrap();
        assert_eq!(mock.state().l2_transmit(0).map(|f| f.0[0]), Some(round as u8));
    }
}

// ---- anything at all

fn raw_event() -> impl Strategy<Value = RawEvent> {
    let small = |max: u8| prop_oneof![0..max, any::<u8>()];
    (
        small(14),
        prop_oneof![Just(0), Just(-2), Just(-98), any::<i32>()],
        prop_oneof![0..40u32, any::<u32>()],
        (0..20u16, small(4), prop_oneof![0..40u32, any::<u32>()], any::<bool>()),
        prop_oneof![Just(0u16), Just(4000), any::<u16>()],
        any::<u32>(),
    )
        .prop_map(|(kind, status, context, (index, handle_kind, generation, listener), local_port, detail)| {
            let handle_kind = if listener { HandleKind::Listener as u8 } else { handle_kind };
            let handle = Handle(u64::from(generation) << 32 | u64::from(handle_kind) << 16 | u64::from(index));
            RawEvent { kind, status, context, detail, handle, local_port, ..RawEvent::default() }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in the event ring: no panic, at most one event a command, and no listener that was not asked for.
    #[test]
    fn garbage_in_the_event_ring_harms_nothing(
        steps in proptest::collection::vec((0..4u8, proptest::collection::vec(raw_event(), 0..4)), 1..60),
        interrupts: bool,
    ) {
        let mock = Mock::new();
        let mut rnic = attach(&mock, Config { interrupts, evt_log2: 3, ..Config::default() });
        mock.script(|_| Vec::new());
        let mut open = std::collections::HashSet::new();
        let (mut asked, mut live) = (0usize, Vec::new());
        for (step, events) in steps {
            match step {
                0 => { open.insert(rnic.post_nop().unwrap()); }
                1 => { open.insert(rnic.post_listen(ANY, 4000, 1).unwrap()); asked += 1; }
                2 => if let Some(listener) = live.pop() { open.insert(rnic.post_unlisten(&listener).unwrap()); },
                _ => { open.insert(rnic.post_reserve(1, 2).unwrap()); }
            }
            for event in events {
                let now = mock.state().now;
                mock.state().deliver(now, event);
            }
            while let Some(event) = rnic.poll_event().unwrap() {
                if let Some(context) = event.context() {
                    prop_assert!(open.remove(&context), "one event for {context:?}");
                }
                if let Event::Listening { listener, .. } = event {
                    live.push(listener);
                }
            }
            prop_assert!(rnic.listeners() <= asked);
            prop_assert_eq!(rnic.outstanding(), open.len());
        }
    }
}
