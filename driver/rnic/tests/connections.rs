// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs and events of connections against scripts: what is posted, what is told, and exactly how often.
#[allow(dead_code)] // each test file uses a part
mod mock;

use ironwarp_abi::{command::flag, Command, Event as RawEvent, EventKind, Handle, HandleKind, Opcode, Status};
use ironwarp_rnic::{
    start_flag, AcceptParam, Backlog, Config, ConnectParam, Connection, ConnectionState, Error, Event, Listener, Refusal, Rnic, StartUp,
};
use mock::{connection, reply, yes, Mock, MockBus, CONNECTIONS};
use proptest::prelude::*;
use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

const MS: Duration = Duration::from_millis(1);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 4791);

fn attach(mock: &Mock) -> Rnic<MockBus> {
    let mut rnic = Rnic::attach(mock.bus(), Config { command_timeout: 50 * MS, ..Config::default() }).expect("attach");
    rnic.address_add(OWN, 24, None).expect("address");
    rnic
}

fn param(data: &[u8]) -> ConnectParam {
    ConnectParam { private_data: data.to_vec(), ..ConnectParam::new(PEER) }
}

/// An event of a connection with status 0.
fn event(kind: EventKind, handle: Handle) -> RawEvent {
    RawEvent { kind: kind as u8, handle, ..RawEvent::default() }
}

fn tell(mock: &Mock, raw: RawEvent) {
    let now = mock.state().now;
    mock.state().deliver(now, raw);
}

fn next(rnic: &mut Rnic<MockBus>) -> Option<Event> {
    rnic.poll_event().expect("adapter")
}

fn commands(mock: &Mock, opcode: Opcode) -> Vec<Command> {
    mock.state().commands.iter().filter(|c| c.opcode == opcode as u8).copied().collect()
}

fn odd(rnic: &Rnic<MockBus>) -> (u64, u64) {
    let odd = rnic.oddities();
    assert_eq!(odd.unknown_kind + odd.unknown_context + odd.duplicate_reply + odd.bad_reply, 0, "{odd:?}");
    (odd.unknown_handle, odd.unexpected_event)
}

/// A listener, and a CONNECT_REQUEST for it with this data; not yet taken.
fn request(mock: &Mock, listener: &Listener, n: u32, data: &[u8], change: impl FnOnce(&mut RawEvent)) -> Handle {
    let handle = connection(n);
    mock.state().inbound(handle, data);
    let mut raw = RawEvent {
        detail: 1,
        flags: start_flag::CRC,
        local_addr: OWN.into(),
        local_port: listener.port,
        remote_addr: (*PEER.ip()).into(),
        remote_port: 1000 + n as u16,
        data_len: data.len() as u16,
        listener: listener.handle,
        ..event(EventKind::ConnectRequest, handle)
    };
    change(&mut raw);
    tell(mock, raw);
    handle
}

fn requested(mock: &Mock, rnic: &mut Rnic<MockBus>, listener: &Listener, n: u32) -> Connection {
    request(mock, listener, n, b"", |_| {});
    match next(rnic) {
        Some(Event::ConnectRequest { connection, .. }) => connection,
        other => panic!("{other:?}"),
    }
}

// ---- CONNECT

/// Covers: CM-3, CM-26, CM-38
#[test]
fn connect_posts_what_was_asked_and_its_reply_tells_what_came() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let asked = ConnectParam {
        qpn: 0xab_cdef,
        private_data: b"hello".to_vec(),
        ird: 3,
        ord: 0x3fff,
        enhanced: true,
        retry: true,
        no_crc: true,
        tos: 0x28,
        timeout: Some(7 * MS),
        ..ConnectParam::new(PEER)
    };
    let connected = rnic.connect(&asked).expect("taken");
    let command = commands(&mock, Opcode::Connect)[0];
    assert_eq!(mock.state().read_memory(command.data_addr, 5), b"hello");
    let expected = Command {
        opcode: Opcode::Connect as u8,
        flags: flag::ENHANCED | flag::RETRY | flag::NO_CRC,
        context: command.context,
        local_addr: OWN.into(),
        remote_addr: (*PEER.ip()).into(),
        remote_port: PEER.port(),
        qpn: 0xab_cdef,
        data_addr: command.data_addr,
        data_len: 5,
        ird: 3,
        ord: 0x3fff,
        tos: 0x28,
        timeout_us: 7000,
        ..Command::default()
    };
    assert_eq!(command, expected);
    assert_eq!((*connected.local.ip(), connected.remote), (OWN, PEER));
    assert!(connected.local.port() >= 60_000, "the port is the one that the adapter chose");
    assert_eq!(rnic.connection_rows()[0].state, ConnectionState::Connecting);

    mock.state().inbound(connected.handle, b"welcome");
    let raw = RawEvent {
        detail: 2,
        flags: start_flag::CRC | start_flag::ENHANCED,
        own_ird: 3,
        own_ord: 5,
        peer_ird: 7,
        peer_ord: 9,
        data_len: 7,
        ..event(EventKind::ConnectReply, connected.handle)
    };
    tell(&mock, raw);
    let start =
        StartUp { revision: 2, flags: raw.flags, own_ird: 3, own_ord: 5, peer_ird: 7, peer_ord: 9, private_data: b"welcome".to_vec() };
    assert!(start.enhanced());
    assert_eq!(next(&mut rnic), Some(Event::ConnectReply { connection: connected, result: Ok(()), start }));
    // what the adapter writes there later is another's
    mock.state().inbound(connected.handle, b"poison!");
    for kind in [EventKind::Disconnect, EventKind::Close, EventKind::Freed] {
        tell(&mock, event(kind, connected.handle));
    }
    assert_eq!(next(&mut rnic), Some(Event::Disconnect { connection: connected }));
    assert_eq!(next(&mut rnic), Some(Event::Close { connection: connected, result: Ok(()) }));
    assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection: connected }));
    assert_eq!((next(&mut rnic), rnic.connections(), odd(&rnic)), (None, 0, (0, 0)));
}

/// Covers: CM-15
#[test]
fn every_status_of_a_connect_reply_is_told_as_it_is() {
    for status in Status::ALL.iter().copied().filter(|s| *s != Status::Ok) {
        let mock = Mock::new();
        let mut rnic = attach(&mock);
        let connection = rnic.connect(&param(b"")).expect("taken");
        tell(&mock, RawEvent { status: status as i32, ..event(EventKind::ConnectReply, connection.handle) });
        tell(&mock, event(EventKind::Freed, connection.handle));
        match next(&mut rnic) {
            Some(Event::ConnectReply { result: Err(refusal), .. }) => assert_eq!(refusal.status(), status as i32),
            other => panic!("{status:?}: {other:?}"),
        }
        assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }));
        assert_eq!(odd(&rnic), (0, 0));
    }
}

/// Covers: CM-3
#[test]
fn a_connect_that_fails_has_no_event_and_keeps_no_buffer() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    mock.script(|c| vec![(Duration::ZERO, reply(c, Status::NoMemory as i32))]);
    assert_eq!(rnic.connect(&param(b"data")).unwrap_err().refusal(), Some(Refusal::NoMemory));
    assert_eq!((next(&mut rnic), rnic.connections(), rnic.private_data_buffers_free()), (None, 0, free));
    // so does an answer that makes no sense
    for change in [
        (|e| e.handle = Handle::NONE) as fn(&mut RawEvent),
        |e| e.handle = Handle::new(HandleKind::Listener, 0, 1),
        |e| e.handle = Handle::new(HandleKind::Connection, CONNECTIONS, 1),
        |e| e.handle.0 |= 1 << 24,
        |e| e.local_port = 0,
        |e| e.kind = EventKind::ListenReply as u8,
    ] {
        mock.script(move |c| {
            let mut raw = reply(c, 0);
            change(&mut raw);
            vec![(Duration::ZERO, raw)]
        });
        let error = rnic.connect(&param(b"data")).unwrap_err();
        assert!(matches!(error, Error::BadReply { .. }), "{error}");
        assert_eq!((next(&mut rnic), rnic.connections(), rnic.private_data_buffers_free()), (None, 0, free));
    }
}

/// Covers: TCP-48
#[test]
fn what_cannot_be_connected_to_is_refused_before_anything_is_posted() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let posted = mock.state().commands.len();
    let to = |text: &str| ConnectParam::new(text.parse().expect("address"));
    let good = to("192.0.2.2:1");
    for bad in [
        to("0.0.0.0:1"),
        to("224.0.0.1:1"),
        to("255.255.255.255:1"),
        to("192.0.2.2:0"),
        ConnectParam { local: "192.0.2.1:5".parse().unwrap(), ..to("192.0.2.1:5") },
        ConnectParam { peer_to_peer: true, ..good.clone() },
        ConnectParam { retry: true, ..good.clone() },
        ConnectParam { retry: true, enhanced: true, peer_to_peer: true, ..good.clone() },
        ConnectParam { ird: 0x4000, ..good.clone() },
        ConnectParam { ord: 0x4000, ..good.clone() },
        ConnectParam { qpn: 1 << 24, ..good.clone() },
        ConnectParam { tos: 1, ..good.clone() },
        ConnectParam { timeout: Some(Duration::from_secs(1 << 20)), ..good.clone() },
    ] {
        assert!(matches!(rnic.connect(&bad), Err(Error::Config(_))), "{bad:?}");
    }
    assert_eq!(rnic.connect(&to("198.51.100.1:1")).unwrap_err().refusal(), Some(Refusal::HostUnreachable), "no route");
    assert_eq!(mock.state().commands.len(), posted);
    rnic.connect(&good).expect("the good one");
}

/// Covers: TCP-50
#[test]
fn the_local_address_is_that_of_the_way_to_the_peer() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let (near, gate) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(203, 0, 113, 1));
    rnic.address_add(near, 8, None).expect("address");
    rnic.address_add(gate, 24, Some(Ipv4Addr::new(203, 0, 113, 254))).expect("address");
    let mut local = |to: [u8; 4]| *rnic.connect(&ConnectParam::new(SocketAddrV4::new(to.into(), 9))).expect("taken").local.ip();
    assert_eq!(local([192, 0, 2, 77]), OWN);
    assert_eq!(local([10, 200, 0, 1]), near);
    assert_eq!(local([198, 51, 100, 1]), gate);
    rnic.address_delete(gate).expect("there");
    assert_eq!(rnic.connect(&ConnectParam::new("198.51.100.1:9".parse().unwrap())).unwrap_err().refusal(), Some(Refusal::HostUnreachable));
}

/// Covers: CM-3
#[test]
fn a_reply_to_connect_that_comes_too_late_ends_the_connection_unseen() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    mock.script(|c| if c.opcode == Opcode::Connect as u8 { vec![(80 * MS, reply(c, 0))] } else { yes(c) });
    assert!(matches!(rnic.connect(&param(b"x")), Err(Error::Timeout { .. })));
    assert_eq!(rnic.wait_event(100 * MS).expect("adapter"), None);
    let handle = reply(&commands(&mock, Opcode::Connect)[0], 0).handle;
    assert_eq!(commands(&mock, Opcode::Abort)[0].handle, handle);
    assert_eq!(rnic.private_data_buffers_free(), free - 1, "the adapter may still read it");
    tell(&mock, RawEvent { status: Status::Reset as i32, ..event(EventKind::ConnectReply, handle) });
    tell(&mock, event(EventKind::Freed, handle));
    assert_eq!((next(&mut rnic), rnic.connections(), rnic.private_data_buffers_free()), (None, 0, free));
    assert_eq!(odd(&rnic), (0, 0));
}

// ---- private data

/// Covers: CM-24, ENH-20
#[test]
fn private_data_is_limited_to_what_the_start_up_frame_can_carry() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    let mut n = 100;
    for len in [0, 1, 3, 4, 251, 252, 255, 256, 257, 508, 509, 512, 513, 4096] {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        for enhanced in [false, true] {
            let fits = len <= if enhanced { 508 } else { 512 };
            let check = |what: &str, opcode, result: Result<(), Error>| match result {
                Ok(()) if fits => {
                    let command = *commands(&mock, opcode).last().expect("posted");
                    assert_eq!(usize::from(command.data_len), len);
                    assert!(len == 0 || mock.state().read_memory(command.data_addr, len) == data, "{what} {len}");
                }
                Err(Error::PrivateDataLength { len: l, .. }) if !fits => assert_eq!(l, len),
                other => panic!("{what} {len} {enhanced}: {other:?}"),
            };
            let connected = rnic.connect(&ConnectParam { enhanced, ..param(&data) });
            if let Ok(connection) = &connected {
                tell(&mock, RawEvent { status: -111, ..event(EventKind::ConnectReply, connection.handle) });
                tell(&mock, event(EventKind::Freed, connection.handle));
            }
            check("connect", Opcode::Connect, connected.map(drop));
            while next(&mut rnic).is_some() {}
            for accept in [true, false] {
                n += 1;
                // inbound: the enhanced words are not part of it, so every length up to 512 can come in revision 1
                let inbound = &data[..len.min(512)];
                let handle = request(&mock, &listener, n, inbound, |raw| {
                    if enhanced {
                        (raw.detail, raw.flags) = (2, start_flag::ENHANCED);
                    }
                });
                let Some(Event::ConnectRequest { connection, start, .. }) = next(&mut rnic) else { panic!("no request") };
                assert_eq!((start.private_data.as_slice(), start.enhanced()), (inbound, enhanced));
                if accept {
                    let answer = AcceptParam { private_data: data.clone(), ..AcceptParam::default() };
                    check("accept", Opcode::Accept, rnic.accept(&connection, &answer));
                } else {
                    check("reject", Opcode::Reject, rnic.reject(&connection, &data));
                }
                tell(&mock, event(EventKind::Freed, handle));
                while next(&mut rnic).is_some() {}
            }
        }
    }
    assert_eq!(rnic.connections(), 0);
}

/// Covers: CM-43
#[test]
fn a_buffer_is_the_adapters_until_freed() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    let first = rnic.connect(&param(b"first")).expect("taken");
    let address = commands(&mock, Opcode::Connect)[0].data_addr;
    tell(&mock, event(EventKind::ConnectReply, first.handle));
    tell(&mock, event(EventKind::Close, first.handle));
    for _ in 0..20 {
        let other = rnic.connect(&param(b"other")).expect("taken");
        assert_ne!(commands(&mock, Opcode::Connect).last().expect("posted").data_addr, address, "retransmission may still read it");
        tell(&mock, RawEvent { status: -111, ..event(EventKind::ConnectReply, other.handle) });
        tell(&mock, event(EventKind::Freed, other.handle));
        while next(&mut rnic).is_some() {}
        assert_eq!(rnic.private_data_buffers_free(), free - 1);
    }
    assert_eq!(mock.state().read_memory(address, 5), b"first");
    tell(&mock, event(EventKind::Freed, first.handle));
    while next(&mut rnic).is_some() {}
    assert_eq!(rnic.private_data_buffers_free(), free);
}

#[test]
fn when_every_buffer_is_in_use_connect_waits_for_one() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    mock.script(|_| Vec::new());
    // commands without an answer hold theirs
    mock.state().fetching = true;
    for _ in 0..free {
        rnic.post_connect(&param(b"x")).expect("a buffer");
        mock.state().fetch();
        let head = mock.state().commands.len() as u32;
        mock.state().regs.insert(ironwarp_abi::reg::CMD_HEAD, head);
    }
    assert!(matches!(rnic.post_connect(&param(b"x")), Err(Error::PrivateDataBuffers)));
    rnic.post_connect(&param(b"")).expect("without data none is needed");
    let error = rnic.connect(&param(b"x")).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let one = commands(&mock, Opcode::Connect)[3];
    tell(&mock, reply(&one, Status::NoPorts as i32));
    mock.script(yes);
    rnic.connect(&param(b"x")).expect("a buffer came back");
}

#[test]
fn more_private_data_than_there_can_be_is_not_believed() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    request(&mock, &listener, 1, b"", |raw| raw.data_len = 513);
    request(&mock, &listener, 2, b"", |raw| raw.data_len = u16::MAX);
    assert_eq!((next(&mut rnic), odd(&rnic)), (None, (0, 2)));
}

// ---- CONNECT_REQUEST and its answers

/// Covers: CM-8, CM-13
#[test]
fn accept_and_reject_answer_the_request_once() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen_with(OWN, 7, Backlog { half_open: 3, accept: 4 }).expect("listener");
    let listen = commands(&mock, Opcode::Listen)[0];
    assert_eq!((listen.backlog_half_open, listen.backlog_accept), (3, 4));
    request(&mock, &listener, 5, b"who", |raw| (raw.own_ird, raw.own_ord, raw.peer_ird, raw.peer_ord) = (1, 2, 3, 4));
    let Some(Event::ConnectRequest { listener: asked, connection: accepted, start }) = next(&mut rnic) else { panic!() };
    assert_eq!((asked, start.private_data.as_slice()), (listener, b"who".as_slice()));
    assert_eq!((start.revision, start.own_ird, start.own_ord, start.peer_ird, start.peer_ord), (1, 1, 2, 3, 4));
    assert_eq!((accepted.local, accepted.remote), (SocketAddrV4::new(OWN, 7), SocketAddrV4::new(*PEER.ip(), 1005)));
    let rejected = requested(&mock, &mut rnic, &listener, 6);

    assert!(matches!(rnic.disconnect(&accepted), Err(Error::WrongState { state: ConnectionState::Requested, .. })));
    let answer = AcceptParam { qpn: 9, private_data: b"yes".to_vec(), ird: 5, ord: 6, strict: true, tos: 4, ..AcceptParam::default() };
    rnic.accept(&accepted, &answer).expect("taken");
    let command = commands(&mock, Opcode::Accept)[0];
    assert_eq!(
        (command.handle, command.flags, command.qpn, command.ird, command.ord, command.tos),
        (accepted.handle, flag::STRICT, 9, 5, 6, 4)
    );
    assert_eq!(mock.state().read_memory(command.data_addr, 3), b"yes");
    for again in [rnic.accept(&accepted, &answer), rnic.reject(&accepted, b"")] {
        assert!(matches!(again, Err(Error::WrongState { state: ConnectionState::Accepting, .. })), "{again:?}");
    }
    tell(&mock, RawEvent { own_ird: 5, own_ord: 3, ..event(EventKind::Established, accepted.handle) });
    match next(&mut rnic) {
        Some(Event::Established { connection, start }) => assert_eq!((connection, start.own_ird, start.own_ord), (accepted, 5, 3)),
        other => panic!("{other:?}"),
    }
    assert_eq!(rnic.connection_rows()[0].qpn, 9);

    rnic.reject(&rejected, b"no").expect("taken");
    let command = commands(&mock, Opcode::Reject)[0];
    assert_eq!(mock.state().read_memory(command.data_addr, 2), b"no");
    assert!(matches!(rnic.accept(&rejected, &answer), Err(Error::WrongState { state: ConnectionState::Leaving, .. })));
    // the adapter closes it in order, and the peer may take its time: ABORT makes it quick, once
    rnic.disconnect(&rejected).expect("is closed already");
    assert!(commands(&mock, Opcode::Disconnect).is_empty());
    for _ in 0..2 {
        rnic.abort(&rejected).expect("posted");
        assert_eq!(commands(&mock, Opcode::Abort).iter().map(|c| c.handle).collect::<Vec<_>>(), [rejected.handle]);
    }
    tell(&mock, event(EventKind::Freed, rejected.handle));
    assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection: rejected }));
    assert!(matches!(rnic.accept(&rejected, &answer), Err(Error::StaleHandle)));
    assert_eq!((rnic.connections(), odd(&rnic)), (1, (0, 0)));
}

/// Covers: CM-20
#[test]
fn backlog_0_is_the_default() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    rnic.create_listen(OWN, 0, 0).expect("listener");
    let listen = commands(&mock, Opcode::Listen)[0];
    assert_eq!((listen.backlog_half_open, listen.backlog_accept), (256, 256));
}

/// If the adapter sends a Reply with R = 1 by itself, no reset overtakes it.
///
/// Covers: CM-5, CM-27, CM-28
#[test]
fn an_accept_that_fails_has_no_event_and_the_connection_is_ended() {
    for (status, aborts) in [(Status::Reset, 0), (Status::NoMemory, 0), (Status::Invalid, 1)] {
        let mock = Mock::new();
        let mut rnic = attach(&mock);
        let free = rnic.private_data_buffers_free();
        let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
        let connection = requested(&mock, &mut rnic, &listener, 1);
        mock.script(move |c| if c.opcode == Opcode::Accept as u8 { vec![(MS, reply(c, status as i32))] } else { yes(c) });
        let answer = AcceptParam { private_data: b"x".to_vec(), ..AcceptParam::default() };
        assert_eq!(rnic.accept(&connection, &answer).unwrap_err().refusal().map(Refusal::status), Some(status as i32));
        assert_eq!(next(&mut rnic), None);
        assert_eq!(commands(&mock, Opcode::Abort).len(), aborts, "{status:?}");
        assert!(matches!(rnic.reject(&connection, b""), Err(Error::WrongState { .. })));
        tell(&mock, event(EventKind::Freed, connection.handle));
        assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }), "which tells of the handle, not of a connection");
        assert_eq!((rnic.connections(), rnic.private_data_buffers_free(), odd(&rnic)), (0, free, (0, 0)));
    }
}

/// Covers: CM-5
#[test]
fn an_accept_that_is_answered_too_late_ends_unseen() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    let connection = requested(&mock, &mut rnic, &listener, 1);
    mock.script(move |c| if c.opcode == Opcode::Accept as u8 { vec![(80 * MS, reply(c, 0))] } else { yes(c) });
    assert!(matches!(rnic.accept(&connection, &AcceptParam::default()), Err(Error::Timeout { .. })));
    assert_eq!(rnic.wait_event(100 * MS).expect("adapter"), None);
    assert_eq!(commands(&mock, Opcode::Abort)[0].handle, connection.handle);
    for kind in [EventKind::Established, EventKind::Close, EventKind::Freed] {
        tell(&mock, event(kind, connection.handle));
    }
    assert_eq!((next(&mut rnic), rnic.connections(), odd(&rnic)), (None, 0, (0, 0)));
}

/// A create_listen that has failed leaves nothing behind: what its listener announces before it ends is reset, and told to nobody.
///
/// Covers: CM-21
#[test]
fn a_listener_that_is_answered_too_late_announces_nothing() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    mock.script(|c| if c.opcode == Opcode::Listen as u8 { vec![(80 * MS, reply(c, 0))] } else { yes(c) });
    assert!(matches!(rnic.create_listen(OWN, 7, 1), Err(Error::Timeout { .. })));
    // UNLISTEN takes its time
    mock.script(|c| if c.opcode == Opcode::Unlisten as u8 { vec![] } else { yes(c) });
    let listen = commands(&mock, Opcode::Listen)[0];
    let late = reply(&listen, 0);
    let listener = Listener { handle: late.handle, address: OWN, port: late.local_port };
    // one in the same look at the ring as LISTEN_REPLY, one after it
    mock.state().now += 40 * MS;
    let first = request(&mock, &listener, 1, b"who", |_| {});
    assert_eq!(next(&mut rnic), None);
    let second = request(&mock, &listener, 2, b"", |_| {});
    assert_eq!(rnic.wait_event(40 * MS).expect("adapter"), None);
    assert_eq!(commands(&mock, Opcode::Unlisten).iter().map(|c| c.handle).collect::<Vec<_>>(), [listener.handle]);
    assert_eq!(commands(&mock, Opcode::Abort).iter().map(|c| c.handle).collect::<Vec<_>>(), [first, second]);
    assert!(matches!(rnic.destroy_listen(listener), Err(Error::StaleHandle)), "its end is under way");
    for handle in [first, second] {
        let rows = rnic.connection_rows();
        let connection = rows.iter().find(|row| row.connection.handle == handle).expect("until FREED").connection;
        assert!(matches!(rnic.accept(&connection, &AcceptParam::default()), Err(Error::StaleHandle)));
        tell(&mock, event(EventKind::Freed, handle));
    }
    tell(&mock, reply(&commands(&mock, Opcode::Unlisten)[0], 0));
    assert_eq!(next(&mut rnic), None);
    assert_eq!((rnic.listeners(), rnic.connections(), rnic.private_data_buffers_free(), odd(&rnic)), (0, 0, free, (0, 0)));
}

/// Covers: CM-5
#[test]
fn an_accept_whose_connection_is_freed_first_has_failed() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let free = rnic.private_data_buffers_free();
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    let [accepted, rejected] = [1, 2].map(|n| requested(&mock, &mut rnic, &listener, n));
    mock.script(|c| vec![(Duration::ZERO, event(EventKind::Freed, c.handle)), (MS, reply(c, 0))]);
    let answer = AcceptParam { private_data: b"x".to_vec(), ..AcceptParam::default() };
    assert_eq!(rnic.accept(&accepted, &answer).unwrap_err().refusal(), Some(Refusal::Reset));
    rnic.reject(&rejected, b"x").expect("it is gone, as was wanted");
    for connection in [accepted, rejected] {
        assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }));
    }
    assert!(commands(&mock, Opcode::Abort).is_empty());
    assert_eq!((next(&mut rnic), rnic.connections(), rnic.private_data_buffers_free(), odd(&rnic)), (None, 0, free, (0, 0)));
}

/// Covers: CM-22
#[test]
fn a_destroyed_listener_announces_nothing_and_its_announced_children_live_on() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let (listener, other) = (rnic.create_listen(OWN, 7, 1).expect("listener"), rnic.create_listen(OWN, 8, 1).expect("listener"));
    let child = requested(&mock, &mut rnic, &listener, 1);
    let unseen = request(&mock, &listener, 2, b"", |_| {});
    let others = request(&mock, &other, 3, b"", |_| {});
    rnic.destroy_listen(listener).expect("freed");
    match next(&mut rnic) {
        Some(Event::ConnectRequest { connection, .. }) => assert_eq!(connection.handle, others),
        other => panic!("{other:?}"),
    }
    assert_eq!(commands(&mock, Opcode::Abort).iter().map(|c| c.handle).collect::<Vec<_>>(), [unseen], "nobody else would end it");
    tell(&mock, event(EventKind::Freed, unseen));
    // one that comes after FREED is nobody's
    request(&mock, &listener, 4, b"", |_| {});
    assert_eq!((next(&mut rnic), odd(&rnic)), (None, (1, 0)));
    rnic.accept(&child, &AcceptParam::default()).expect("it lives on");
}

// ---- the end

/// Covers: CM-16
#[test]
fn ending_twice_or_what_is_gone_does_nothing() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let connection = rnic.connect(&param(b"")).expect("taken");
    assert!(matches!(rnic.disconnect(&connection), Err(Error::WrongState { state: ConnectionState::Connecting, .. })));
    tell(&mock, event(EventKind::ConnectReply, connection.handle));
    assert!(matches!(next(&mut rnic), Some(Event::ConnectReply { .. })));
    rnic.disconnect(&connection).expect("posted");
    rnic.disconnect(&connection).expect("the adapter takes it twice");
    // a crossing: the adapter has forgotten it
    mock.script(|c| vec![(Duration::ZERO, reply(c, Status::NoEntry as i32))]);
    rnic.disconnect(&connection).expect("gone already");
    rnic.abort(&connection).expect("gone already");
    tell(&mock, event(EventKind::Close, connection.handle));
    assert!(matches!(next(&mut rnic), Some(Event::Close { .. })));
    let posted = mock.state().commands.len();
    rnic.disconnect(&connection).expect("after CLOSE");
    rnic.abort(&connection).expect("after CLOSE");
    tell(&mock, event(EventKind::Freed, connection.handle));
    rnic.disconnect(&connection).expect("while FREED is in the ring");
    assert!(matches!(next(&mut rnic), Some(Event::ConnectionFreed { .. })));
    rnic.disconnect(&connection).expect("after FREED");
    assert_eq!(mock.state().commands.len(), posted, "nothing was posted for what is gone");
}

/// Covers: CM-3, CM-11, CM-12, CM-32
#[test]
fn each_event_once_and_only_in_its_state() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    let opened = rnic.connect(&param(b"")).expect("taken");
    let all = [EventKind::ConnectReply, EventKind::Established, EventKind::Disconnect, EventKind::Close];
    let mut expected = 0;
    let mut step = |rnic: &mut Rnic<MockBus>, handle, good: Option<EventKind>, bad: &[EventKind]| {
        for kind in bad {
            tell(&mock, event(*kind, handle));
            assert_eq!(next(rnic), None, "{kind:?} instead of {good:?}");
            expected += 1;
        }
        if let Some(kind) = good {
            tell(&mock, event(kind, handle));
            assert!(next(rnic).is_some_and(|e| e.connection().is_some()), "{kind:?}");
        }
        assert_eq!(odd(rnic), (0, expected));
    };
    let but = |kinds: &[EventKind]| all.into_iter().filter(|k| !kinds.contains(k)).collect::<Vec<_>>();
    step(&mut rnic, opened.handle, Some(EventKind::ConnectReply), &but(&[EventKind::ConnectReply]));
    step(&mut rnic, opened.handle, Some(EventKind::Disconnect), &but(&[EventKind::Disconnect, EventKind::Close]));
    step(&mut rnic, opened.handle, Some(EventKind::Close), &but(&[EventKind::Close]));
    step(&mut rnic, opened.handle, None, &all);
    let announced = requested(&mock, &mut rnic, &listener, 77);
    step(&mut rnic, announced.handle, None, &all);
    request(&mock, &listener, 77, b"", |_| {});
    expected += 1;
    assert_eq!((next(&mut rnic), odd(&rnic)), (None, (0, expected)), "announced twice");
    rnic.accept(&announced, &AcceptParam::default()).expect("taken");
    let mut step = |rnic: &mut Rnic<MockBus>, handle, good: EventKind, bad: &[EventKind]| {
        for kind in bad {
            tell(&mock, event(*kind, handle));
            assert_eq!(next(rnic), None, "{kind:?} instead of {good:?}");
            expected += 1;
        }
        tell(&mock, event(good, handle));
        assert!(next(rnic).is_some());
    };
    step(&mut rnic, announced.handle, EventKind::Established, &but(&[EventKind::Established]));
    step(&mut rnic, announced.handle, EventKind::Close, &but(&[EventKind::Disconnect, EventKind::Close]));
    for connection in [opened, announced] {
        tell(&mock, event(EventKind::Freed, connection.handle));
        assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }));
    }
    assert_eq!(odd(&rnic), (0, expected));
    // replayed after their end: counted, nothing told
    for kind in all.into_iter().chain([EventKind::Freed]) {
        tell(&mock, event(kind, opened.handle));
        tell(&mock, event(kind, Handle::new(HandleKind::Connection, opened.handle.index(), opened.handle.generation() + 1)));
    }
    assert_eq!((next(&mut rnic), odd(&rnic)), (None, (10, expected)));
}

/// Covers: CM-3, CM-12
#[test]
fn a_final_event_that_the_adapter_forgets_is_told_in_its_place() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let connection = rnic.connect(&param(b"")).expect("taken");
    tell(&mock, event(EventKind::Freed, connection.handle));
    assert!(matches!(next(&mut rnic), Some(Event::ConnectReply { result: Err(Refusal::Reset), .. })));
    assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }));
    let connection = rnic.connect(&param(b"")).expect("taken");
    tell(&mock, event(EventKind::ConnectReply, connection.handle));
    tell(&mock, event(EventKind::Freed, connection.handle));
    assert!(matches!(next(&mut rnic), Some(Event::ConnectReply { result: Ok(()), .. })));
    assert_eq!(next(&mut rnic), Some(Event::Close { connection, result: Err(Refusal::Reset) }));
    assert_eq!(next(&mut rnic), Some(Event::ConnectionFreed { connection }));
    assert_eq!(odd(&rnic), (0, 2));
}

/// Covers: CM-35
#[test]
fn a_detach_ends_every_connection_once() {
    let mock = Mock::new();
    let mut rnic = attach(&mock);
    let listener = rnic.create_listen(OWN, 0, 1).expect("listener");
    requested(&mock, &mut rnic, &listener, 20);
    let accepting = requested(&mock, &mut rnic, &listener, 21);
    rnic.accept(&accepting, &AcceptParam::default()).expect("taken");
    let connecting = rnic.connect(&param(b"")).expect("taken");
    let open = rnic.connect(&param(b"")).expect("taken");
    tell(&mock, event(EventKind::ConnectReply, open.handle));
    let closed = rnic.connect(&param(b"")).expect("taken");
    tell(&mock, event(EventKind::ConnectReply, closed.handle));
    tell(&mock, event(EventKind::Close, closed.handle));
    let resets = mock.state().resets;
    let events = rnic.detach();
    let state = mock.state();
    assert_eq!((state.resets, state.maps.len()), (resets + 1, 0), "told when the adapter has stopped");
    drop(state);
    let of = |which: Connection| -> Vec<_> {
        events
            .iter()
            .filter(|e| e.connection() == Some(which))
            .map(|e| match e {
                Event::ConnectReply { result, .. } => ("reply", *result),
                Event::Established { .. } => ("established", Ok(())),
                Event::Close { result, .. } => ("close", *result),
                Event::ConnectionFreed { .. } => ("freed", Ok(())),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let reset = Err(Refusal::Reset);
    assert_eq!(of(connecting), [("reply", reset), ("freed", Ok(()))]);
    assert_eq!(of(open), [("reply", Ok(())), ("close", reset), ("freed", Ok(()))]);
    assert_eq!(of(closed), [("reply", Ok(())), ("close", Ok(())), ("freed", Ok(()))]);
    assert_eq!(of(accepting), [("established", Ok(())), ("close", reset), ("freed", Ok(()))]);
    assert_eq!(events.iter().filter(|e| matches!(e, Event::ConnectionFreed { .. })).count(), 5);
}

// ---- anything at all

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the adapter says about connections: no panic, no buffer lost or given twice, and to the user each life is REPLY or
    /// REQUEST, ESTABLISHED; at most one DISCONNECT; CLOSE exactly if it was established; FREED last.
    ///
    /// Covers: CM-3, CM-12, CM-13, CM-32
    #[test]
    fn any_sequence_of_events_is_told_as_a_proper_life(
        steps in proptest::collection::vec((0..9u8, 0..4u32, 0..8u8, prop_oneof![Just(0), Just(-104), any::<i32>()]), 1..120),
    ) {
        let mock = Mock::new();
        let mut rnic = attach(&mock);
        let buffers = rnic.private_data_buffers_free();
        let listener = rnic.create_listen(OWN, 0, 4).expect("listener");
        let mut known: Vec<Connection> = Vec::new();
        // 0 nothing yet, 1 established, 2 disconnected, 3 ended
        let mut lives: HashMap<Handle, u8> = HashMap::new();
        for (step, n, kind, status) in steps {
            let chosen = known.get(n as usize).copied();
            match step {
                0 => if let Ok(connection) = rnic.connect(&param(b"abc")) { known.insert(0, connection); lives.insert(connection.handle, 0); },
                1 => { request(&mock, &listener, 500 + n, b"data", |raw| raw.status = if status == 0 { 0 } else { 1 }); }
                2 => if let Some(c) = chosen { let _ = rnic.accept(&c, &AcceptParam { private_data: b"yes".to_vec(), ..AcceptParam::default() }); },
                3 => if let Some(c) = chosen { let _ = rnic.reject(&c, b"no"); },
                4 => if let Some(c) = chosen { let _ = rnic.disconnect(&c); },
                5 => if let Some(c) = chosen { let _ = rnic.abort(&c); },
                _ => if let Some(c) = chosen {
                    let kind = [EventKind::ConnectReply, EventKind::Established, EventKind::Disconnect, EventKind::Close, EventKind::Freed][usize::from(kind % 5)];
                    tell(&mock, RawEvent { status, data_len: u16::from(kind as u8) * 40, ..event(kind, c.handle) });
                },
            }
            while let Some(event) = next(&mut rnic) {
                let Some(connection) = event.connection() else { continue };
                if let Event::ConnectRequest { .. } = event {
                    prop_assert!(lives.insert(connection.handle, 0).is_none(), "announced while it lives");
                    known.insert(0, connection);
                    continue;
                }
                let life = lives.get_mut(&connection.handle).expect("only of what lives");
                match (&event, *life) {
                    (Event::ConnectReply { result: Ok(()), .. } | Event::Established { .. }, 0) => *life = 1,
                    (Event::ConnectReply { result: Err(_), .. }, 0) => *life = 3,
                    (Event::Disconnect { .. }, 1) => *life = 2,
                    (Event::Close { .. }, 1 | 2) => *life = 3,
                    (Event::ConnectionFreed { .. }, 0 | 3) => { lives.remove(&connection.handle); }
                    (other, life) => prop_assert!(false, "{other:?} in {life}"),
                }
            }
            prop_assert_eq!(rnic.connections(), lives.len());
        }
        for handle in lives.keys() {
            tell(&mock, event(EventKind::Freed, *handle));
        }
        while next(&mut rnic).is_some() {}
        prop_assert_eq!((rnic.connections(), rnic.private_data_buffers_free()), (0, buffers));
    }
}
