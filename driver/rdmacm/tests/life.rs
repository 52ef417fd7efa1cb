// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lives of ids: channels that close, backlogs that are full, devices that come and go, events that nobody acknowledges, threads that
//! meet on one id, and ten thousand lives after which nothing is left.
mod common;

use common::{add, own, param, peer, received, rejected, verbs::FakeDevice, Fixture, Handle, Scripted, OWN, WAIT};
use ironwarp_rdmacm::{
    Cm, CmDevice, ConnParam, Errno, EventChannel, EventKind, Network, Opt, Payload, PrivateData, Stat, State, TransportEvent,
};
use ironwarp_verbs::{Access, QpState};
use rand::{Rng, SeedableRng};
use rustix::event::{poll, PollFd, PollFlags};
use std::{
    os::fd::AsFd,
    sync::{atomic::Ordering::SeqCst, Arc},
    thread,
    time::{Duration, Instant},
};

fn readable(channel: &EventChannel) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&now)).unwrap() == 1
}

#[test]
fn the_descriptor_is_readable_while_an_event_is_there() {
    let f = Fixture::new();
    assert!(!readable(&f.channel));
    let (a, b) = (f.id(), f.id());
    a.resolve_addr(None, peer(1), WAIT).unwrap();
    b.resolve_addr(None, peer(1), WAIT).unwrap();
    assert!(readable(&f.channel));
    drop(f.event(EventKind::AddrResolved));
    assert!(readable(&f.channel));
    drop(b);
    assert!(!readable(&f.channel), "what a destroyed id had said is gone");
    f.no_event();
}

#[test]
fn destroying_waits_until_the_ids_events_are_acknowledged() {
    let f = Fixture::new();
    let id = f.id();
    id.resolve_addr(None, peer(7), WAIT).unwrap();
    let event = f.event(EventKind::AddrResolved);
    assert_eq!(id.destroy_id_within(Duration::from_millis(20)), Err(Errno::TimedOut), "a bounded wait");
    let slow = thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        let at = Instant::now();
        drop(event);
        at
    });
    id.destroy_id().unwrap();
    assert!(Instant::now() >= slow.join().unwrap());
    drop(id);
    f.at_rest();
}

#[test]
fn an_id_lives_as_long_as_somebody_has_it() {
    let f = Fixture::new();
    let id = f.id();
    id.resolve_addr(None, peer(7), WAIT).unwrap();
    let event = f.event(EventKind::AddrResolved);
    drop(id);
    assert_eq!(event.id().state(), State::AddrResolved, "its event has it");
    drop(event);
    f.at_rest();
}

/// The request that nobody read when a process, or its channel, goes away.
///
/// Covers: DEF-52
#[test]
fn a_channel_that_closes_rejects_the_requests_that_nobody_read() {
    let mut f = Fixture::new();
    let listener = f.listening(4);
    let child = f.transport.request(received(b"")).unwrap();
    assert!(!child.destroyed.load(SeqCst));
    f.channel = EventChannel::new().unwrap();
    assert!(child.destroyed.load(SeqCst), "destroyed, so rejected");
    assert_eq!(f.transport.request(received(b"")).err(), Some(Errno::Invalid), "the listener lives, but nobody would know");
    assert_eq!(f.cm.stat(Stat::RequestsRefused), 1);
    assert_eq!(f.cm.counts().waiting, 0);
    listener.destroy_id().unwrap();
    drop(listener);
    f.at_rest();
}

#[test]
fn a_listener_that_is_destroyed_rejects_what_is_queued_and_keeps_what_was_read() {
    let f = Fixture::new();
    let listener = f.listening(4);
    let read = f.requested();
    let queued: Vec<_> = (0..3).map(|_| f.transport.request(received(b"")).unwrap()).collect();
    assert_eq!(f.cm.counts().waiting, 4);
    listener.destroy_id().unwrap();
    assert!(queued.iter().all(|id| id.destroyed.load(SeqCst)));
    f.no_event();
    read.accept(Some(&param())).unwrap();
    f.transport.last().established();
    drop(f.event(EventKind::Established));
    drop((read, listener));
    f.at_rest();
}

#[test]
fn a_request_event_that_is_dropped_rejects_its_peer() {
    let f = Fixture::new();
    let _listener = f.listening(1);
    let child = f.transport.request(received(b"")).unwrap();
    drop(f.event(EventKind::ConnectRequest));
    assert!(child.destroyed.load(SeqCst));
    f.requested();
}

/// Covers: CM-19
#[test]
fn a_full_backlog_is_answered_as_busy_until_a_place_is_free() {
    let f = Fixture::new();
    let _listener = f.listening(2);
    assert_eq!(f.transport.take_calls(), ["listen 192.0.2.1:7 2"], "half-open peers are the device's to count");
    let (first, second) = (f.requested(), f.requested());
    assert_eq!(f.transport.request(received(b"")).err(), Some(Errno::NoMemory), "refused, not dropped");
    assert_eq!((f.cm.stat(Stat::BacklogDrops), f.transport.busy_rejects.load(SeqCst)), (1, 1));
    assert_eq!(f.cm.stat(Stat::Rejects), 0, "not the application's reject");
    f.no_event();
    first.accept(Some(&param())).unwrap();
    let third = f.requested();
    second.reject(&PrivateData::default()).unwrap();
    let fourth = f.requested();
    fourth.destroy_id().unwrap();
    let _fifth = f.requested();
    assert_eq!(f.transport.request(received(b"")).err(), Some(Errno::NoMemory));
    drop(third);
    f.requested();
}

/// Covers: CM-20
#[test]
fn backlog_0_is_256() {
    let f = Fixture::new();
    let _listener = f.listening(0);
    assert_eq!(f.transport.take_calls(), ["listen 192.0.2.1:7 256"]);
    let waiting: Vec<_> = (0..256).map(|_| f.requested()).collect();
    assert_eq!(f.transport.request(received(b"")).err(), Some(Errno::NoMemory));
    drop(waiting);
}

fn two_devices() -> (Fixture, Arc<Scripted>, Arc<FakeDevice>) {
    let f = Fixture::new();
    let (second, verbs) = (Scripted::new(2, &[[198, 51, 100, 1]]), FakeDevice::new());
    add(&f.cm, &second, &verbs);
    (f, second, verbs)
}

/// Covers: CM-39
#[test]
fn a_wildcard_listener_listens_on_every_device_or_on_none() {
    let (f, second, _) = two_devices();
    let id = f.id();
    id.bind_addr("0.0.0.0:7".parse().unwrap()).unwrap();
    second.fail("listen", Errno::AddressInUse);
    assert_eq!(id.listen(3), Err(Errno::AddressInUse));
    assert_eq!(f.transport.take_calls(), ["listen 0.0.0.0:7 3", "destroy listener"], "rolled back");
    assert_eq!((id.state(), f.cm.counts().transport_ids), (State::AddrBound, 0));
    second.mend("listen");
    id.listen(3).unwrap();
    assert_eq!((f.transport.live.load(SeqCst), second.live.load(SeqCst)), (1, 1));
    // the request is for the device where it came
    second.request(received(b"")).unwrap();
    let child = f.event(EventKind::ConnectRequest).ack().0;
    assert_eq!(child.device().map(|d| d.0), Some(2));
}

/// Device k of n fails to listen.
///
/// Covers: DEF-50
#[test]
fn whichever_device_refuses_nothing_stays() {
    for refuses in 0..4u64 {
        let (cm, channel) = (Cm::new(), EventChannel::new().unwrap());
        let devices: Vec<_> = (0..4).map(|n| Scripted::new(n, &[[10, 0, n as u8, 1]])).collect();
        for device in &devices {
            add(&cm, device, &FakeDevice::new());
        }
        devices[refuses as usize].fail("listen", Errno::NoMemory);
        let id = cm.create_id(&channel);
        assert_eq!(id.listen(3), Err(Errno::NoMemory));
        assert!(devices.iter().all(|d| d.live.load(SeqCst) == 0));
        assert_eq!((cm.counts().transport_ids, id.state()), (0, State::Idle));
    }
}

#[test]
fn all_devices_of_a_wildcard_listener_have_the_port_that_the_first_chose() {
    let (f, second, _) = two_devices();
    let id = f.id();
    id.listen(3).unwrap();
    assert_eq!(id.get_src_port(), 40000);
    assert_eq!(second.take_calls(), ["listen 0.0.0.0:40000 3"]);
    // a port that the second has in use is chosen anew, not for ever
    second.fail("listen", Errno::AddressInUse);
    let other = f.id();
    assert_eq!(other.listen(3), Err(Errno::AddressInUse));
    assert_eq!(second.take_calls().iter().filter(|c| c.starts_with("listen")).count(), 16);
    assert_eq!(Cm::new().create_id(&f.channel).listen(1), Err(Errno::NoDevice), "nobody to choose one");
}

#[test]
fn a_device_that_comes_joins_the_wildcard_listeners_and_one_that_goes_leaves() {
    let f = Fixture::new();
    let (wild, bound) = (f.id(), f.listening(1));
    wild.bind_addr("0.0.0.0:9".parse().unwrap()).unwrap();
    wild.listen(3).unwrap();
    let (second, verbs) = (Scripted::new(2, &[[198, 51, 100, 1]]), FakeDevice::new());
    let key = add(&f.cm, &second, &verbs);
    assert_eq!(second.take_calls(), ["listen 0.0.0.0:9 3"], "the wildcard listener alone, once");
    let device = CmDevice { verbs, transport: Arc::new(Handle(second.clone())), networks: vec![] };
    assert_eq!(f.cm.add_device(device).err(), Some(Errno::Exists));
    second.request(received(b"")).unwrap();
    let child = f.event(EventKind::ConnectRequest).ack().0;
    assert_eq!(f.cm.remove_device(key), Ok(1));
    assert_eq!(f.cm.remove_device(key), Err(Errno::NoDevice));
    let event = f.event(EventKind::DeviceRemoval);
    assert!(*event.id() == child);
    drop(event);
    f.no_event();
    assert_eq!(f.cm.counts().waiting, 0);
    assert_eq!(child.accept(Some(&param())), Err(Errno::Invalid));
    assert_eq!(wild.state(), State::Listen);
    // the device of a bound listener goes: it is told, once
    assert_eq!(f.cm.remove_device(f.key), Ok(1));
    assert!(*f.event(EventKind::DeviceRemoval).id() == bound);
    f.no_event();
    drop((wild, bound, child));
    assert_eq!(second.live.load(SeqCst), 0);
    f.at_rest();
}

#[test]
fn removal_is_the_last_that_each_id_hears() {
    let f = Fixture::new();
    let ids: Vec<_> = (0..64).map(|n| if n % 2 == 0 { f.connected() } else { f.connecting() }).collect();
    let below = f.transport.ids.lock().unwrap().clone();
    assert_eq!(f.cm.remove_device(f.key), Ok(64));
    for id in &below {
        let _ = id.raise(rejected(b""));
        let _ = id.raise(TransportEvent::Disconnected(Err(Errno::ConnectionReset)));
    }
    for _ in &ids {
        drop(f.event(EventKind::DeviceRemoval));
    }
    f.no_event();
    assert_eq!(f.cm.stat(Stat::EventsUnexpected), 0);
    drop(ids);
    f.at_rest();
}

#[test]
fn the_device_is_found_by_address_network_and_default() {
    let (cm, channel) = (Cm::new(), EventChannel::new().unwrap());
    let id = || cm.create_id(&channel);
    let resolve = |source: Option<&str>, to: &str| -> Result<u64, Errno> {
        let id = id();
        id.resolve_addr(source.map(|s| s.parse().unwrap()), to.parse().unwrap(), WAIT)?;
        let (_, payload) = channel.get_event(WAIT)?.ack();
        payload.status()?;
        Ok(id.device().unwrap().0)
    };
    assert_eq!(resolve(None, "10.0.0.9:1"), Err(Errno::NoDevice));
    let near = Scripted::new(1, &[[10, 0, 0, 1]]);
    add(&cm, &near, &FakeDevice::new());
    assert_eq!(resolve(None, "203.0.113.9:1"), Ok(1), "its gateway may know");
    let networks = vec![Network { address: [10, 1, 0, 0].into(), prefix: 16 }];
    let far = Scripted::new(2, &[[10, 1, 0, 1]]);
    cm.add_device(CmDevice { verbs: FakeDevice::new(), transport: Arc::new(Handle(far)), networks }).unwrap();
    add(&cm, &Scripted::new(3, &[]), &FakeDevice::new());
    assert_eq!(resolve(None, "10.1.7.7:1"), Ok(2), "its network");
    assert_eq!(resolve(None, "203.0.113.9:1"), Ok(3), "the one that takes any");
    assert_eq!(resolve(None, "10.0.0.1:1"), Ok(1), "its own address");
    assert_eq!(resolve(Some("10.0.0.1:0"), "203.0.113.9:1"), Ok(1), "the source decides");
    assert_eq!(resolve(Some("10.0.0.1:0"), "[2001:db8::1]:1"), Err(Errno::Invalid), "families");
    assert_eq!(resolve(None, "0.0.0.0:1"), Err(Errno::Invalid));
    let bound = id();
    bound.bind_addr("10.0.0.1:5".parse().unwrap()).unwrap();
    assert_eq!(bound.device().map(|d| d.0), Some(1));
    assert_eq!(bound.resolve_addr(Some("10.1.0.1:5".parse().unwrap()), "10.0.0.2:1".parse().unwrap(), WAIT), Err(Errno::Invalid));
}

#[test]
fn an_address_query_ends_once_whatever_becomes_of_it() {
    let f = Fixture::new();
    f.transport.hold.store(true, SeqCst);
    let id = f.id();
    id.resolve_addr(None, peer(7), WAIT).unwrap();
    f.transport.drop_addr();
    assert_eq!(f.event(EventKind::AddrError).status(), Err(Errno::TimedOut), "a question that is lost is answered");
    assert_eq!((id.state(), id.get_peer_addr()), (State::Idle, None));
    id.bind_addr(own(3)).unwrap();
    id.resolve_addr(None, peer(7), WAIT).unwrap();
    f.transport.answer_addr(Err(Errno::HostUnreachable));
    assert_eq!(f.event(EventKind::AddrError).status(), Err(Errno::HostUnreachable));
    assert_eq!((id.state(), id.get_local_addr()), (State::AddrBound, Some(own(3))));
    id.resolve_addr(None, peer(7), WAIT).unwrap();
    f.transport.answer_addr(Ok(OWN.into()));
    drop(f.event(EventKind::AddrResolved));
    id.resolve_route(WAIT).unwrap();
    f.transport.answer_route(Err(Errno::NetworkUnreachable));
    assert_eq!(f.event(EventKind::RouteError).status(), Err(Errno::NetworkUnreachable));
    assert_eq!(id.state(), State::AddrResolved);
    id.resolve_route(WAIT).unwrap();
    id.destroy_id().unwrap();
    f.transport.answer_route(Ok(()));
    f.no_event();
}

/// `RDMA_OPTION_ID_REUSEADDR`.
#[test]
fn a_port_is_one_ids_unless_all_who_have_it_share_it() {
    let f = Fixture::new();
    let (a, b, c, d) = (f.id(), f.id(), f.id(), f.id());
    a.bind_addr(own(5)).unwrap();
    assert_eq!(b.bind_addr(own(5)), Err(Errno::AddressInUse));
    assert_eq!(b.bind_addr("0.0.0.0:5".parse().unwrap()), Err(Errno::AddressInUse));
    assert_eq!((b.state(), b.get_local_addr()), (State::Idle, None), "refused, so nothing has changed");
    b.set_option(Opt::ReuseAddr(true)).unwrap();
    assert_eq!(b.bind_addr(own(5)), Err(Errno::AddressInUse), "one alone cannot share");
    a.set_option(Opt::ReuseAddr(true)).unwrap();
    b.bind_addr(own(5)).unwrap();
    assert_eq!(a.set_option(Opt::ReuseAddr(false)), Err(Errno::Invalid), "b has it");
    // a listener is alone
    assert_eq!(a.listen(1), Err(Errno::AddressInUse));
    assert_eq!((a.state(), f.transport.take_calls().len()), (State::AddrBound, 0), "the device was not asked");
    // an address query binds, too
    assert_eq!(c.resolve_addr(Some(own(5)), peer(7), WAIT), Err(Errno::AddressInUse));
    assert_eq!((c.state(), c.get_local_addr(), c.get_peer_addr()), (State::Idle, None, None));
    c.set_option(Opt::ReuseAddr(true)).unwrap();
    f.transport.hold.store(true, SeqCst);
    c.resolve_addr(Some(own(5)), peer(7), WAIT).unwrap();
    b.destroy_id().unwrap();
    assert_eq!(a.listen(1), Err(Errno::AddressInUse), "c has it still");
    f.transport.drop_addr();
    drop(f.event(EventKind::AddrError));
    a.listen(1).unwrap();
    d.set_option(Opt::ReuseAddr(true)).unwrap();
    assert_eq!(d.bind_addr(own(5)), Err(Errno::AddressInUse), "nobody shares with a listener");
    a.destroy_id().unwrap();
    d.bind_addr(own(5)).unwrap();
    // what a device refuses is bound as before, and what it chose is taken
    f.transport.fail("listen", Errno::NoMemory);
    assert_eq!(d.listen(1), Err(Errno::NoMemory));
    let e = f.id();
    e.set_option(Opt::ReuseAddr(true)).unwrap();
    e.bind_addr(own(5)).unwrap();
    f.transport.mend("listen");
    let chosen = f.id();
    chosen.listen(1).unwrap();
    assert_eq!(f.id().bind_addr(own(chosen.get_src_port())), Err(Errno::AddressInUse));
}

/// A refused call must not have changed the addresses.
///
/// Covers: DEF-51
#[test]
fn a_second_resolve_or_connect_changes_nothing() {
    let f = Fixture::new();
    let id = f.connecting();
    assert_eq!(id.resolve_addr(Some(own(9)), peer(99), WAIT), Err(Errno::Invalid));
    assert_eq!(id.bind_addr(own(9)), Err(Errno::Invalid));
    assert_eq!(id.connect(&param()), Err(Errno::Invalid));
    assert_eq!((id.get_local_addr(), id.get_peer_addr()), (Some(own(0)), Some(peer(7))));
    assert_eq!(f.cm.counts().transport_ids, 1);
    f.transport.last().established();
    drop(f.event(EventKind::Established));
    assert_eq!(f.transport.take_calls().iter().filter(|c| c.starts_with("connect")).count(), 1);
}

#[test]
fn a_connect_that_fails_can_be_repeated() {
    let f = Fixture::new();
    let id = f.resolved();
    assert_eq!(id.connect(&ConnParam::default()), Err(Errno::Invalid), "no queue pair");
    for (step, errno) in [("create_id", Errno::NoMemory), ("connect", Errno::AddressInUse)] {
        f.transport.fail(step, errno);
        assert_eq!(id.connect(&param()), Err(errno));
        assert_eq!((id.state(), f.transport.live.load(SeqCst), f.cm.counts().transport_ids), (State::RouteResolved, 0, 0));
        f.transport.mend(step);
    }
    f.no_event();
    id.connect(&param()).unwrap();
}

#[test]
fn three_messages_with_the_ids_own_queue_pair_are_established_by_themselves() {
    let f = Fixture::three_way();
    for errno in [None, Some(Errno::Protocol)] {
        let id = f.resolved();
        let qp = id.create_qp(&f.verbs.pd(), &f.verbs.init()).unwrap();
        id.connect(&ConnParam::default()).unwrap();
        errno.inspect(|&errno| f.transport.fail("establish", errno));
        f.transport.last().raise(TransportEvent::Response(received(b"ok"))).unwrap();
        if errno.is_none() {
            let event = f.event(EventKind::Established);
            assert_eq!(&event.payload().private_data().unwrap()[..], b"ok");
            assert_eq!(id.state(), State::Connected);
        } else {
            assert_eq!(f.event(EventKind::ConnectError).status(), Err(Errno::Protocol));
            assert_eq!((id.state(), qp.query().state), (State::Failed, QpState::Error));
        }
    }
}

#[test]
fn three_messages_without_it_wait_for_establish() {
    let f = Fixture::three_way();
    let id = f.connecting();
    f.transport.last().raise(TransportEvent::Response(received(b""))).unwrap();
    drop(f.event(EventKind::ConnectResponse));
    id.establish().unwrap();
    assert_eq!(id.state(), State::Connected);
    assert_eq!(id.establish(), Err(Errno::Invalid));
    // the passive side: accepted, but connected only with the third message; it may do without parameters
    let _listener = f.listening(1);
    let child = f.requested();
    child.accept(None).unwrap();
    assert_eq!(child.state(), State::Accepting);
    f.transport.last().established();
    drop(f.event(EventKind::Established));
    f.transport.last().disconnected();
    drop(f.event(EventKind::Disconnected));
    f.transport.last().raise(TransportEvent::TimewaitExit).unwrap();
    drop(f.event(EventKind::TimewaitExit));
    let too_much = ConnParam { private_data: PrivateData::new(&[0; 57]).unwrap(), ..param() };
    assert_eq!(f.resolved().connect(&too_much), Err(Errno::Invalid), "what the transport can carry");
}

/// Covers: CM-29
#[test]
fn attributes_for_those_who_drive_their_queue_pair() {
    let f = Fixture::new();
    let id = f.resolved();
    let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    assert_eq!(id.init_qp_attr(QpState::Init).unwrap().access, Some(all));
    assert_eq!(id.init_qp_attr(QpState::Rts).unwrap().access, None);
    assert_eq!(id.init_qp_attr(QpState::Sqd), Err(Errno::Invalid));
    assert_eq!(f.id().init_qp_attr(QpState::Init), Err(Errno::Invalid), "no device yet");
}

#[test]
fn a_queue_pair_belongs_to_one_id_and_ends_with_it() {
    let f = Fixture::new();
    let id = f.resolved();
    let mut none = f.verbs.init();
    none.cap.max_send_wr = 0;
    assert_eq!(id.create_qp(&f.verbs.pd(), &none).err(), Some(Errno::Invalid));
    let qp = id.create_qp(&f.verbs.pd(), &f.verbs.init()).unwrap();
    assert_eq!(id.create_qp(&f.verbs.pd(), &f.verbs.init()).err(), Some(Errno::Invalid));
    id.connect(&ConnParam::default()).unwrap();
    assert!(f.transport.take_calls().contains(&format!("connect 192.0.2.2:7 qp {} ird 1 ord 1", qp.qp_num())));
    f.transport.last().raise(rejected(b"")).unwrap();
    assert_eq!(qp.query().state, QpState::Init, "not from the transport's thread");
    drop(f.event(EventKind::Rejected));
    assert_eq!(qp.query().state, QpState::Error);
    id.destroy_qp().unwrap();
    id.destroy_qp().unwrap();
    assert!(id.qp().is_none());
    drop((qp, id));
    assert_eq!(f.verbs.qps.load(SeqCst), 0);
}

#[test]
fn an_id_moves_with_its_events_and_its_unread_requests() {
    let f = Fixture::new();
    let listener = f.listening(4);
    f.transport.request(received(b"")).unwrap();
    let other = EventChannel::new().unwrap();
    listener.migrate_id(&other).unwrap();
    f.no_event();
    let child = other.try_get_event().unwrap().ack().0;
    child.accept(Some(&param())).unwrap();
    f.transport.last().established();
    assert_eq!(other.try_get_event().unwrap().kind(), EventKind::Established, "the child's events come where its request was read");
    child.migrate_id(&f.channel).unwrap();
    f.transport.last().disconnected();
    drop(f.event(EventKind::Disconnected));
    assert!(other.try_get_event().is_none());
}

#[test]
fn an_address_that_a_device_loses_is_told_to_those_who_have_it() {
    let f = Fixture::new();
    let (_with, _without) = (f.resolved(), f.id());
    f.cm.addresses_changed(f.key).unwrap();
    f.no_event();
    f.transport.attr.lock().unwrap().addresses = vec![[192, 0, 2, 77].into()];
    f.cm.addresses_changed(f.key).unwrap();
    drop(f.event(EventKind::AddrChange));
    f.no_event();
}

#[test]
fn a_v6_wildcard_takes_v4_devices_unless_told_otherwise() {
    let f = Fixture::new();
    let id = f.id();
    id.bind_addr("[::]:7".parse().unwrap()).unwrap();
    id.listen(1).unwrap();
    assert_eq!(f.transport.take_calls(), ["listen 0.0.0.0:7 1"]);
    let id = f.id();
    id.set_option(Opt::AfOnly(true)).unwrap();
    id.bind_addr("[::]:8".parse().unwrap()).unwrap();
    id.listen(1).unwrap();
    assert!(f.transport.take_calls().is_empty());
}

#[test]
fn a_failed_listen_leaves_no_peer_behind() {
    let f = Fixture::new();
    f.transport.fail("listen", Errno::AddressInUse);
    let id = f.id();
    id.bind_addr(own(7)).unwrap();
    assert_eq!(id.listen(1), Err(Errno::AddressInUse));
    assert_eq!(id.state(), State::AddrBound);
    f.transport.mend("listen");
    id.listen(1).unwrap();
}

/// An event is told by a thread of the transport while another destroys its id.
#[test]
fn destroying_meets_events_under_way() {
    for round in 0..300 {
        let f = Fixture::new();
        let id = f.connecting();
        let below = f.transport.last();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _ = below.raise(TransportEvent::Established { ends: None, received: received(b"") });
                let _ = below.raise(TransportEvent::Disconnected(Ok(())));
            });
            scope.spawn(|| {
                if round % 2 == 0 {
                    thread::yield_now();
                }
                id.destroy_id().unwrap();
            });
            scope.spawn(|| while f.channel.try_get_event().is_some() {});
        });
        f.no_event();
        drop(id);
        f.at_rest();
    }
}

#[test]
fn requests_meet_a_listener_that_is_destroyed() {
    for _ in 0..300 {
        let f = Fixture::new();
        let listener = f.listening(64);
        let below = f.transport.listener();
        let taken = thread::scope(|scope| {
            let peers = scope.spawn(|| (0..8).filter(|_| f.transport.request_at(&below, received(b"")).is_ok()).count());
            scope.spawn(|| listener.destroy_id().unwrap());
            scope.spawn(|| while f.channel.try_get_event().is_some() {});
            peers.join().unwrap()
        });
        assert!(taken <= 8);
        f.no_event();
        drop(listener);
        f.at_rest();
    }
}

#[test]
fn of_two_threads_that_make_the_same_call_one_succeeds() {
    for _ in 0..200 {
        let f = Fixture::new();
        let id = f.resolved();
        let done = |call: &(dyn Fn() -> Result<(), Errno> + Sync)| {
            thread::scope(|scope| {
                let both = [scope.spawn(call), scope.spawn(call)];
                both.map(|t| t.join().unwrap()).iter().filter(|r| r.is_ok()).count()
            })
        };
        assert_eq!(done(&|| id.connect(&param())), 1);
        f.transport.last().established();
        assert_eq!(done(&|| id.disconnect()), 2, "idempotent");
        assert_eq!(f.transport.take_calls().iter().filter(|c| *c == "disconnect").count(), 1);
        let _listener = f.listening(1);
        f.transport.request(received(b"")).unwrap();
        let child = loop {
            let (id, payload) = f.channel.try_get_event().unwrap().ack();
            if matches!(payload, Payload::ConnectRequest { .. }) {
                break id;
            }
        };
        assert_eq!(done(&|| child.accept(Some(&param())).or_else(|_| child.reject(&PrivateData::default()))), 1);
        assert_eq!(done(&|| child.destroy_id()), 2);
    }
}

/// Short by default; RDMACM_LIVES sets the number, SEED the order.
///
/// Covers: DEF-57
#[test]
fn thousands_of_lives_of_all_kinds_leave_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (lives, seed) = (number("RDMACM_LIVES").unwrap_or(10_000), number("SEED").unwrap_or(1));
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let f = Fixture::new();
    let listener = f.listening(8);
    for life in 0..lives {
        let fate = rng.random_range(0..12);
        match fate {
            0 => drop(f.id()),
            1 => f.connecting().destroy_id().unwrap(),
            2 => f.connected().destroy_id().unwrap(),
            3 => {
                let id = f.connected();
                id.disconnect().unwrap();
                f.transport.last().disconnected();
                drop(f.event(EventKind::Disconnected));
            }
            4 => {
                let id = f.connecting();
                f.transport.last().raise(rejected(b"no")).unwrap();
                drop((f.event(EventKind::Rejected), id));
            }
            5 => {
                let id = f.connecting();
                f.transport.last().raise(TransportEvent::Unreachable(Errno::TimedOut)).unwrap();
                drop(id);
                f.no_event();
            }
            6 => f.requested().reject(&PrivateData::default()).unwrap(),
            7 => drop(f.requested()),
            8 => {
                let id = f.requested();
                id.accept(Some(&param())).unwrap();
                f.transport.last().established();
                drop((id, f.event(EventKind::Established)));
            }
            9 => {
                let id = f.requested();
                f.transport.fail("accept", Errno::ConnectionReset);
                assert!(id.accept(Some(&param())).is_err());
                f.transport.mend("accept");
            }
            10 => {
                let id = f.resolved();
                f.transport.fail("connect", Errno::NoMemory);
                assert!(id.connect(&param()).is_err());
                f.transport.mend("connect");
            }
            _ => {
                let other = EventChannel::new().unwrap();
                let id = f.connecting();
                id.migrate_id(&other).unwrap();
                f.transport.last().established();
                drop(other);
                drop(id);
            }
        }
        f.transport.take_calls();
        let left = f.cm.counts();
        assert_eq!((left.ids, left.transport_ids, left.unacked, left.waiting), (1, 1, 0, 0), "life {life}, fate {fate}; SEED={seed}");
    }
    drop(listener);
    f.at_rest();
    assert_eq!(f.cm.stat(Stat::IdsCreated), f.cm.stat(Stat::IdsDestroyed));
    assert_eq!(f.cm.stat(Stat::ListenCreated), f.cm.stat(Stat::ListenDestroyed));
}
