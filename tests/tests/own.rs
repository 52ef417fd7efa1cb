// SPDX-License-Identifier: MIT OR Apache-2.0
//! An adapter that connects to itself: what it sends to its own MAC address comes back on its receive side and never reaches the wire.
use ironwarp_abi::{Command, Counter, Handle, Opcode};
use ironwarp_rnic::{AcceptParam, Config, ConnectParam, Connection, Error, Event, Refusal, StartUp, TcpSettings};
use ironwarp_sim::{bus::lock, wire::Link, SharedWorld};
use ironwarp_tests::{address, assert_clean, config, counter, counters, mac, pair_over, Attached, ANY};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

const PORT: u16 = 4791;
const RTO_US: u32 = 500;
const CONNECT_TIMEOUT_US: u32 = 5_000;
const TWO_MSL_US: u32 = 1_000;
/// Bound of every wait for what must come, adapter time.
const BOUND: Duration = Duration::from_millis(20);

/// The adapter, and another on the same wire that must hear nothing of it.
struct Own {
    world: SharedWorld,
    a: Attached,
    other: Attached,
}

impl Own {
    /// `share`: frames for nobody go to the host; else its connections are refused by RST.
    fn new(seed: u64, share: bool) -> Self {
        let tcp = TcpSettings {
            rto_init_us: Some(RTO_US),
            rto_min_us: Some(RTO_US),
            two_msl_us: Some(TWO_MSL_US),
            connect_timeout_us: Some(CONNECT_TIMEOUT_US),
            close_timeout_us: Some(CONNECT_TIMEOUT_US),
            spare_slots: Some(0),
            ..TcpSettings::default()
        };
        let settings = |n| Config { tcp: tcp.clone(), share, arp_retry_us: Some(300), ..config(n, seed) };
        let (world, a, other) = pair_over(seed, Box::new(Link::new(10)), settings);
        Own { world, a, other }
    }
    fn next(&mut self) -> Event {
        match self.a.wait_event(BOUND).expect("adapter") {
            Some(event) => event,
            None => panic!("no event within {BOUND:?}: {:?} {:?}", self.a.connection_rows(), counters(&mut self.a)),
        }
    }
    fn requested(&mut self) -> (Connection, StartUp) {
        match self.next() {
            Event::ConnectRequest { connection, start, .. } => (connection, start),
            other => panic!("{other:?}"),
        }
    }
    /// The next `n` events of two ends, each end's apart: their order between the ends is free.
    fn told(&mut self, n: usize, ends: [Connection; 2]) -> [Vec<Event>; 2] {
        let mut told = [vec![], vec![]];
        for _ in 0..n {
            let event = self.next();
            let end = ends.iter().position(|c| event.connection() == Some(*c));
            told[end.unwrap_or_else(|| panic!("{event:?}"))].push(event);
        }
        told
    }
    /// A connection in full operation: the end that opened it and the other.
    fn established(&mut self) -> [Connection; 2] {
        let opened = self.a.connect(&to_own()).expect("taken");
        let (accepted, _) = self.requested();
        self.a.accept(&accepted, &AcceptParam::default()).expect("taken");
        let told = self.told(2, [opened, accepted]);
        assert!(matches!(told[0][..], [Event::ConnectReply { result: Ok(()), .. }]), "{told:?}");
        assert!(matches!(told[1][..], [Event::Established { .. }]), "{told:?}");
        [opened, accepted]
    }
    /// Nothing lives, nothing was sent twice for lack of an answer, and the wire is silent.
    fn assert_over(&mut self) {
        lock(&self.world).run(64 * u64::from(TWO_MSL_US) * 2);
        assert_eq!(self.a.poll_event().expect("adapter"), None);
        let odd: u64 = self.a.oddities().rows().iter().map(|row| row.1).sum();
        assert_eq!((self.a.connections(), odd), (0, 0), "{:?}", self.a.oddities());
        let a = &mut self.a;
        assert_eq!(counter(a, Counter::ConnCreated), counter(a, Counter::ConnFreed));
        assert_eq!((counter(a, Counter::EthOutFrames), counter(a, Counter::ArpOutRequests)), (0, 0), "{:?}", counters(a));
        let heard: u64 = [Counter::EthInFrames, Counter::EthInOtherMac].iter().map(|c| counter(&mut self.other, *c)).sum();
        assert_eq!(heard, 0, "the other adapter hears nothing");
        assert_clean(&self.world);
    }
}

fn to_own() -> ConnectParam {
    ConnectParam::new(SocketAddrV4::new(address(1), PORT))
}

/// What an end was told, in short.
fn words(events: &[Event]) -> Vec<&'static str> {
    let word = |event: &Event| match event {
        Event::ConnectReply { result: Ok(()), .. } => "connected",
        Event::ConnectReply { result: Err(Refusal::Refused), .. } => "refused",
        Event::ConnectReply { result: Err(Refusal::Reset), .. } => "reset",
        Event::ConnectReply { result: Err(Refusal::TimedOut), .. } => "timed out",
        Event::Established { .. } => "established",
        Event::Disconnect { .. } => "disconnect",
        Event::Close { result: Ok(()), .. } => "closed",
        Event::Close { result: Err(Refusal::Reset), .. } => "reset",
        Event::ConnectionFreed { .. } => "freed",
        other => panic!("{other:?}"),
    };
    events.iter().map(word).collect()
}

/// Accepted with private data both ways, and closed in order by either end.
#[test]
fn an_adapter_connects_to_its_own_listener() {
    let mut own = Own::new(1, false);
    own.a.create_listen(ANY, PORT, 8).expect("listener");
    for opener_first in [true, false] {
        let param = ConnectParam { private_data: vec![0x5a; 500], enhanced: true, ird: 3, ord: 4, ..to_own() };
        let opened = own.a.connect(&param).expect("taken");
        let (accepted, start) = own.requested();
        assert_eq!((start.private_data, start.peer_ird, start.peer_ord), (vec![0x5a; 500], 3, 4));
        assert_eq!((accepted.local, accepted.remote), (opened.remote, opened.local));
        assert_eq!((*opened.local.ip(), *opened.remote.ip()), (address(1), address(1)));
        let answer = AcceptParam { private_data: b"me".to_vec(), ird: 5, ord: 2, ..AcceptParam::default() };
        own.a.accept(&accepted, &answer).expect("taken");
        let ends = [opened, accepted];
        let [at_opener, at_acceptor] = own.told(2, ends);
        match &at_opener[..] {
            [Event::ConnectReply { result: Ok(()), start, .. }] => assert_eq!(start.private_data, b"me"),
            other => panic!("{other:?}"),
        }
        assert_eq!(words(&at_acceptor), ["established"]);
        let closer = usize::from(!opener_first);
        own.a.disconnect(&ends[closer]).expect("posted");
        let told = own.told(5, ends);
        assert_eq!(words(&told[closer]), ["closed", "freed"]);
        assert_eq!(words(&told[1 - closer]), ["disconnect", "closed", "freed"]);
    }
    // both at once
    let ends = own.established();
    for end in &ends {
        own.a.post_disconnect(end).expect("posted");
    }
    let mut left = 4;
    while left > 0 {
        match own.next() {
            Event::Close { result, .. } => assert_eq!(result, Ok(())),
            Event::ConnectionFreed { .. } => {}
            Event::Done { .. } | Event::Disconnect { .. } => continue,
            other => panic!("{other:?}"),
        }
        left -= 1;
    }
    let a = &mut own.a;
    let (sent, looped) = (counter(a, Counter::TcpOutSegs), counter(a, Counter::EthLoopFrames));
    assert_eq!((looped, counter(a, Counter::TcpInSegs)), (sent, sent), "every segment once: {:?}", counters(a));
    assert_eq!((counter(a, Counter::TcpRetransSegs), counter(a, Counter::EthLoopDropped)), (0, 0));
    own.assert_over();
}

/// Rejected, refused because nobody listens, and short of slots for the other ends.
#[test]
fn an_adapter_refuses_itself() {
    let mut own = Own::new(2, false);
    let opened = own.a.connect(&to_own()).expect("taken");
    assert_eq!(words(&own.told(2, [opened; 2])[0]), ["refused", "freed"], "nobody listens");
    assert_eq!(counter(&mut own.a, Counter::TcpOutRsts), 1);
    let listener = own.a.create_listen(ANY, PORT, 8).expect("listener");
    let opened = own.a.connect(&to_own()).expect("taken");
    let (rejected, _) = own.requested();
    own.a.reject(&rejected, b"not me").expect("taken");
    let told = own.told(3, [opened, rejected]);
    match &told[0][..] {
        [Event::ConnectReply { result: Err(Refusal::Refused), start, .. }, _] => assert_eq!(start.private_data, b"not me"),
        other => panic!("{other:?}"),
    }
    assert_eq!(words(&told[1]), ["freed"]);
    // as many as there are slots, for which the other ends compete: one without a slot has its SYN dropped, and in the end times out or finds one
    let mut opened = vec![];
    let refusal = loop {
        match own.a.connect(&to_own()) {
            Ok(connection) => opened.push(connection),
            Err(error) => break error.refusal(),
        }
    };
    let slots = usize::from(own.a.devinfo().expect("registers").max_connections);
    assert!(refusal == Some(Refusal::NoMemory) && opened.len() >= slots / 2, "{refusal:?} after {}", opened.len());
    let mut told = vec![];
    while own.a.connections() > 0 {
        match own.next() {
            Event::ConnectRequest { connection, .. } => own.a.reject(&connection, b"").expect("taken"),
            event => told.push(event),
        }
    }
    for end in opened {
        let of_end: Vec<_> = told.iter().filter(|e| e.connection() == Some(end)).cloned().collect();
        assert!([["timed out", "freed"], ["refused", "freed"]].iter().any(|w| words(&of_end) == w), "{of_end:?}");
    }
    assert!(counter(&mut own.a, Counter::TcpSynDropped) > 0, "a SYN found no slot");
    own.a.destroy_listen(listener).expect("freed");
    own.assert_over();
}

#[test]
fn either_end_of_a_connection_to_oneself_is_reset() {
    let mut own = Own::new(3, false);
    own.a.create_listen(ANY, PORT, 8).expect("listener");
    for first in [0, 1] {
        let ends = own.established();
        own.a.abort(&ends[first]).expect("posted");
        let told = own.told(4, ends);
        assert_eq!((words(&told[0]), words(&told[1])), (vec!["reset", "freed"], vec!["reset", "freed"]));
    }
    // before the answer: by the end that is asked, and by the one that asks
    let opened = own.a.connect(&to_own()).expect("taken");
    let (asked, _) = own.requested();
    own.a.abort(&asked).expect("posted");
    let told = own.told(3, [opened, asked]);
    assert_eq!((words(&told[0]), words(&told[1])), (vec!["reset", "freed"], vec!["freed"]));
    let opened = own.a.connect(&to_own()).expect("taken");
    let (asked, _) = own.requested();
    own.a.abort(&opened).expect("posted");
    assert_eq!(words(&own.told(2, [opened; 2])[0]), ["reset", "freed"]);
    lock(&own.world).run(2000);
    assert_eq!(own.a.accept(&asked, &AcceptParam::default()).unwrap_err().refusal(), Some(Refusal::Reset));
    assert_eq!(words(&own.told(1, [asked; 2])[0]), ["freed"]);
    own.assert_over();
}

/// From one own address to another, and as many at once as there are slots for both ends.
///
/// Covers: DEF-47
#[test]
fn every_own_address_is_reached_from_every_other_at_once() {
    let mut own = Own::new(4, false);
    let second = Ipv4Addr::new(198, 51, 100, 7);
    own.a.address_add(second, 24, None).expect("ADDRESS_ADD");
    own.a.create_listen(ANY, PORT, 32).expect("listener");
    let slots = usize::from(own.a.devinfo().expect("registers").max_connections);
    let mut opened = vec![];
    for n in 0..slots / 2 {
        let (from, to) = ([address(1), second][n % 2], [address(1), second][n / 2 % 2]);
        let param = ConnectParam { local: SocketAddrV4::new(from, 0), ..ConnectParam::new(SocketAddrV4::new(to, PORT)) };
        let connection = own.a.connect(&param).expect("a slot");
        assert_eq!((connection.local.ip(), connection.remote.ip()), (&from, &to));
        opened.push(connection);
    }
    let (mut connected, mut established) = (0, 0);
    while connected + established < slots {
        match own.next() {
            Event::ConnectRequest { connection, .. } => own.a.accept(&connection, &AcceptParam::default()).expect("taken"),
            Event::ConnectReply { result: Ok(()), .. } => connected += 1,
            Event::Established { .. } => established += 1,
            other => panic!("{other:?}"),
        }
    }
    for connection in &opened {
        own.a.disconnect(connection).expect("posted");
    }
    let mut freed = 0;
    while freed < slots {
        match own.next() {
            Event::Close { result, .. } => assert_eq!(result, Ok(())),
            Event::ConnectionFreed { .. } => freed += 1,
            Event::Disconnect { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    own.assert_over();
}

/// Connections to itself and with another adapter at the same time, opened and closed again and again: the looped frames and those of the
/// wire do not hurt each other.
#[test]
fn an_adapter_talks_to_itself_and_to_another_at_once() {
    let mut own = Own::new(7, false);
    own.a.create_listen(ANY, PORT, 32).expect("listener");
    let (mut opened, mut freed_a, mut freed_other) = (0, 0, 0);
    let lives = 30;
    // ends of each life: two here, or one here and one there
    while freed_a + freed_other < 2 * lives {
        if opened < lives && own.a.connections() < 20 {
            let param = ConnectParam { private_data: vec![opened as u8; 300], ..to_own() };
            if opened % 2 == 0 { own.a.connect(&param) } else { own.other.connect(&param) }.expect("a slot");
            opened += 1;
        }
        while let Some(event) = own.a.poll_event().expect("adapter") {
            match event {
                Event::ConnectRequest { connection, start, .. } => {
                    assert!(start.private_data.len() == 300 && start.private_data.iter().all(|o| *o == start.private_data[0]));
                    let answer = AcceptParam { private_data: start.private_data, ..AcceptParam::default() };
                    own.a.accept(&connection, &answer).expect("taken");
                }
                Event::ConnectReply { connection, result: Ok(()), start } => {
                    assert_eq!(start.private_data.len(), 300);
                    own.a.disconnect(&connection).expect("posted");
                }
                Event::Close { result, .. } => assert_eq!(result, Ok(())),
                Event::ConnectionFreed { .. } => freed_a += 1,
                Event::Established { .. } | Event::Disconnect { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        match own.other.wait_event(Duration::from_micros(20)).expect("adapter") {
            Some(Event::ConnectReply { connection, result: Ok(()), .. }) => own.other.disconnect(&connection).expect("posted"),
            Some(Event::ConnectionFreed { .. }) => freed_other += 1,
            Some(Event::Close { result: Ok(()), .. } | Event::Disconnect { .. }) | None => {}
            Some(other) => panic!("{other:?}"),
        }
        assert!(lock(&own.world).adapter(0).time() < 20 * BOUND, "{freed_a} and {freed_other} of {lives}: {:?}", own.a.connection_rows());
    }
    assert_eq!((freed_a, freed_other), (lives + lives / 2, lives / 2));
    for rnic in [&mut own.a, &mut own.other] {
        let counts = [Counter::EthLoopDropped, Counter::EthInOverflow, Counter::TcpRetransSegs].map(|c| counter(rnic, c));
        assert_eq!(counts, [0; 3], "{:?}", counters(rnic));
    }
    assert_clean(&own.world);
}

/// The same address and port at both ends: refused by the driver, and by the adapter if it is asked.
///
/// Covers: TCP-48
#[test]
fn a_socket_does_not_connect_to_itself() {
    let mut own = Own::new(5, false);
    let param = ConnectParam { local: SocketAddrV4::new(address(1), PORT), ..to_own() };
    assert!(matches!(own.a.connect(&param), Err(Error::Config(_))));
    let command = Command {
        opcode: Opcode::Connect as u8,
        handle: Handle::NONE,
        local_addr: address(1).into(),
        local_port: PORT,
        remote_addr: address(1).into(),
        remote_port: PORT,
        ..Command::default()
    };
    match own.a.call_raw(command).expect("an answer") {
        Event::Refused { refusal: Refusal::Invalid, .. } => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(counter(&mut own.a, Counter::TcpOutSegs), 0);
    own.a.create_listen(ANY, PORT, 1).expect("its port was given back");
    own.assert_over();
}

/// The host's own frames to the own MAC address come back to the host, with a destination given or looked up.
#[test]
fn frames_of_the_host_to_the_own_address_come_back_to_the_host() {
    let mut own = Own::new(6, true);
    let mut raw = [&mac(1)[..], &mac(1), &[0x88, 0xb5]].concat();
    raw.resize(200, 7);
    let builder = etherparse::PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(address(1).octets(), address(1).octets(), 64).udp(9, 9);
    let mut datagram = vec![];
    builder.write(&mut datagram, &[3; 100]).expect("Vec");
    for (frame, resolve) in [(raw, false), (datagram, true)] {
        own.a.send_wait(&frame, resolve, BOUND).expect("sent");
        let mut came = vec![];
        own.a.recv_wait(&mut came, BOUND).expect("adapter").expect("a frame");
        assert_eq!(came[..12], [mac(1), mac(1)].concat());
        assert!(came[12..] == frame[12..]);
    }
    assert_eq!(counter(&mut own.a, Counter::EthLoopFrames), 2);
    own.assert_over();
}
