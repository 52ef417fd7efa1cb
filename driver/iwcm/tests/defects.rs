// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defects that other connection managers and their providers have had, and that this layer could have: each has a test here.
mod scripted;

use ironwarp_iwcm::{
    id::{CHILD_ITEMS, CONNECT_ITEMS},
    CmId, DeviceChange, Errno, Event, EventKind, IwCm, PrivateData, Provider, State, Verdict,
};
use ironwarp_verbs::QpState;
use scripted::{address, assert_nothing_left, drain, param, pumped, Call, Client, Rig, Scripted, Verb, LOCAL, REMOTE};
use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc, Arc, Mutex,
    },
    time::{Duration, Instant},
};

/// How often a long test goes round; the variable makes it long.
fn cycles() -> u64 {
    std::env::var("IWCM_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

fn counter(cm: &IwCm, name: &str) -> u64 {
    cm.counters().rows().iter().find(|row| row.0 == name).expect("a counter").1
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

/// Queue pair ids leaked, since destroying a queue pair did not wait for those who referred to it: here every connect and accept takes one reference,
/// gives it back once whatever happens, and not before CLOSE was told.
/// Covers: DEF-1, CM-30
#[test]
fn def_1_the_reference_to_a_queue_pair_is_held_from_connect_to_close() {
    let rig = Rig::new();
    let id = rig.id();
    assert_eq!(rig.provider.qp_refs(1), 0);
    id.connect(&param(1)).unwrap();
    assert_eq!(rig.provider.qp_refs(1), 1);
    let connection = rig.provider.connection_of(1);
    rig.provider.raise(connection, EventKind::ConnectReply, Ok(())).unwrap();
    rig.provider.raise(connection, EventKind::Disconnect, Ok(())).unwrap();
    drain(&rig.cm);
    assert_eq!(rig.provider.qp_refs(1), 1);
    assert_eq!(counter(&rig.cm, "cmQpRefs"), 1);
    rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
    assert_eq!(rig.provider.qp_refs(1), 1, "raised, not told");
    drain(&rig.cm);
    assert_eq!(rig.provider.qp_refs(1), 0);
    assert_eq!(rig.destroy(id), Ok(()));
    rig.end();
}

/// A connect that fails at any step, or names a queue pair that is gone, left things behind.
/// Covers: DEF-2, CM-3
#[test]
fn def_2_a_connect_that_fails_at_any_step_leaves_nothing() {
    let rig = Rig::new();
    let id = rig.id();
    assert_eq!(id.connect(&param(99)), Err(Errno::Invalid), "no such queue pair");
    rig.provider.add_qp(1 << 24);
    for wrong in [
        ironwarp_iwcm::ConnParam { qpn: 1 << 24, ..param(1) },
        ironwarp_iwcm::ConnParam { ird: 0x4000, ..param(1) },
        ironwarp_iwcm::ConnParam { ord: 0x4000, ..param(1) },
    ] {
        assert_eq!(id.connect(&wrong), Err(Errno::Invalid));
    }
    assert_eq!(rig.provider.calls(), [], "the provider was not asked");
    rig.provider.fail(Verb::Connect, Errno::HostUnreachable);
    assert_eq!(id.connect(&param(1)), Err(Errno::HostUnreachable));
    rig.cm.set_most_items(CONNECT_ITEMS as usize - 1);
    assert_eq!(id.connect(&param(1)), Err(Errno::NoMemory), "no work items");
    rig.cm.set_most_items(CONNECT_ITEMS as usize);
    assert_eq!((id.state(), rig.provider.qp_refs(1), rig.provider.held()), (State::Idle, 0, 0));
    let no_remote = rig.cm.create_id(rig.device, rig.client.handler()).unwrap();
    assert_eq!(no_remote.connect(&param(1)), Err(Errno::Invalid));
    drain(&rig.cm);
    assert_eq!(rig.client.told(), []);
    // the largest values that fit
    let largest = ironwarp_iwcm::ConnParam { ird: 0x3fff, ord: 0x3fff, ..param(1) };
    // again: with the work items that it has
    for _ in 0..2 {
        id.connect(&largest).unwrap();
        rig.provider.end(rig.provider.connection_of(1), EventKind::ConnectReply, Err(Errno::TimedOut)).unwrap();
        drain(&rig.cm);
    }
    drop((no_remote, id));
    rig.end();
}

/// Locks were taken in both orders, by a provider that was called under the id's lock. Every verb of the scripted provider takes the id's lock; it would
/// not return. Events are raised by it within the verb, too. The model checker does the same in `tests/loom.rs`.
/// Covers: DEF-6, CM-6, CM-31, DEF-55
#[test]
fn def_6_no_verb_is_called_with_the_lock_of_the_id_held() {
    let rig = Rig::new();
    let reply = |kind, status| {
        move |id: &ironwarp_iwcm::IdRef| {
            id.event(Event { status, ..Event::new(kind, address(LOCAL), address(REMOTE)) })?;
            id.set_local_addr(id.local_addr());
            drop(id.clone());
            Ok(())
        }
    };
    let listener = rig.listener(7000, 4);
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    let child = rig.client.child();
    // before accept has returned
    rig.provider.plan(Verb::Accept, reply(EventKind::Established, Ok(())));
    child.accept(&param(1)).unwrap();
    // before connect has returned
    let id = rig.id();
    rig.provider.plan(Verb::Connect, reply(EventKind::ConnectReply, Ok(())));
    id.connect(&param(2)).unwrap();
    drain(&rig.cm);
    assert_eq!((child.state(), id.state()), (State::Established, State::Established));
    // within disconnect
    rig.provider.plan(Verb::ModifyQp, reply(EventKind::Disconnect, Ok(())));
    id.disconnect(false).unwrap();
    rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
    rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    let other = rig.client.child();
    rig.provider.plan(Verb::Reject, |id| {
        let _ = id.local_addr();
        Ok(())
    });
    other.reject(&PrivateData::default()).unwrap();
    for id in [child, id, other, listener] {
        assert_eq!(rig.destroy(id), Ok(()));
    }
    rig.end();
}

/// A listener whose work items could not be had was half made.
/// Covers: DEF-7, CM-20, CM-21
#[test]
fn def_7_a_listen_that_fails_leaves_the_id_idle() {
    let rig = Rig::new();
    rig.cm.set_most_items(256);
    let id = rig.id();
    assert_eq!(id.listen(257), Err(Errno::NoMemory));
    assert_eq!(id.listen(u32::MAX), Err(Errno::NoMemory));
    assert_eq!((id.state(), id.free_items()), (State::Idle, 0));
    assert_eq!(rig.provider.calls(), []);
    rig.provider.fail(Verb::CreateListen, Errno::AddressInUse);
    assert_eq!(id.listen(1), Err(Errno::AddressInUse));
    assert_eq!(id.state(), State::Idle);
    // 0 is 256, and all of it is there
    id.listen(0).unwrap();
    assert_eq!(id.free_items(), 256);
    assert_eq!(rig.provider.calls(), [Call::CreateListen(any(40_000), 256)]);
    assert_eq!(rig.destroy(id), Ok(()));
    // and is given back
    rig.listener(7000, 256);
    rig.end();
}

/// A wildcard listener took a lock of all devices for its work. Here: one listener a device, each at its own device, and a handler may listen, too.
/// Covers: DEF-8, CM-39
#[test]
fn def_8_a_listener_on_every_device() {
    let cm = IwCm::new();
    let providers = [Scripted::new(), Scripted::choosing(50_000)];
    let devices: Vec<_> = providers.iter().map(|p| cm.add_device(p.clone())).collect();
    let client = Client::new();
    let (done, finished) = mpsc::channel();
    let (done, weak) = (Mutex::new(done), Arc::downgrade(&cm));
    client.act(move |_, event| {
        // from within a handler, on all devices
        let cm = weak.upgrade().expect("the manager is there");
        let inner = cm.listen_any(any(9000), 1, Arc::new(|_, _| Verdict::Keep));
        let _ = done.lock().unwrap().send((event.kind, inner.map(|i| i.local_addr())));
        Verdict::Keep
    });
    let listener = cm.listen_any(any(0), 8, client.handler()).unwrap();
    assert_eq!(listener.local_addr().port(), 40_000, "the first device chooses");
    assert_eq!(listener.ids().iter().map(CmId::device).collect::<Vec<_>>(), devices);
    for provider in &providers {
        provider.request(40_000, b"x").unwrap();
        let told = finished.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(told, (EventKind::ConnectRequest, Ok(any(9000))));
    }
    // waits for the handlers
    drop(listener);
    drop(client.children());
    for provider in &providers {
        provider.assert_clean();
    }
    assert_nothing_left(&cm);
}

/// A reference was given back twice when a reset came at a bad moment: whatever the moment, and whatever is in the queue then, one goes back.
/// Covers: DEF-13, DEF-15, CM-30
#[test]
fn def_13_a_reset_at_any_moment_gives_everything_back_once() {
    // for each number of events told before the reset
    for told in 0..=3 {
        for destroyed in [false, true] {
            let rig = Rig::new();
            let id = rig.id();
            id.connect(&param(1)).unwrap();
            let connection = rig.provider.connection_of(1);
            let events = [EventKind::ConnectReply, EventKind::Disconnect];
            for kind in &events[..told.min(2)] {
                rig.provider.raise(connection, *kind, Ok(())).unwrap();
            }
            if told < 3 {
                rig.cm.progress();
            } else {
                drain(&rig.cm);
            }
            let last = if told == 0 { EventKind::ConnectReply } else { EventKind::Close };
            rig.provider.end(connection, last, Err(Errno::ConnectionReset)).unwrap();
            if destroyed {
                assert_eq!(rig.destroy(id), Ok(()));
            } else {
                drain(&rig.cm);
                assert_eq!((id.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
                drop(id);
            }
            rig.end();
        }
    }
}

/// What an error path had counted up was counted down twice, or not: the balance after every kind of failure of accept.
/// Covers: DEF-15, DEF-36, CM-5, DEF-42
#[test]
fn def_15_and_36_an_accept_that_fails_anywhere_is_in_balance() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 4);
    let ask = || {
        rig.provider.request(7000, b"").unwrap();
        drain(&rig.cm);
        rig.client.child()
    };
    // no such queue pair: it can still be answered
    let child = ask();
    assert_eq!(child.accept(&param(99)), Err(Errno::Invalid));
    assert_eq!(child.state(), State::ConnRecv);
    assert_eq!(rig.provider.qp_refs(1), 0);
    child.reject(&PrivateData::default()).unwrap();
    // the provider refuses: the stream is gone (CM-27)
    let refused = ask();
    rig.provider.fail(Verb::Accept, Errno::ConnectionReset);
    assert_eq!(refused.accept(&param(1)), Err(Errno::ConnectionReset));
    assert_eq!((refused.state(), rig.provider.qp_refs(1), rig.provider.held()), (State::Idle, 0, 1));
    // it raises what it may not, then refuses
    let broken = ask();
    rig.provider.plan(Verb::Accept, |id| {
        id.event(Event::new(EventKind::Established, address(LOCAL), address(REMOTE)))?;
        Err(Errno::NoMemory)
    });
    rig.client.told();
    assert_eq!(broken.accept(&param(1)), Err(Errno::NoMemory));
    drain(&rig.cm);
    assert_eq!(rig.client.told(), [], "an error means no event");
    assert_eq!((broken.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
    // or it was told even, by another thread, before accept failed
    let worse = ask();
    let cm = rig.cm.clone();
    rig.provider.plan(Verb::Accept, move |id| {
        id.event(Event::new(EventKind::Established, address(LOCAL), address(REMOTE)))?;
        drain(&cm);
        Err(Errno::NoMemory)
    });
    assert_eq!(worse.accept(&param(1)), Err(Errno::NoMemory));
    assert_eq!((worse.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
    // no work items for a child: rejected, not told
    rig.client.told();
    // those whose accept has failed have given theirs back
    let used = 4 + CHILD_ITEMS as usize;
    rig.cm.set_most_items(used + CHILD_ITEMS as usize - 1);
    rig.provider.calls();
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    assert_eq!(rig.client.told(), []);
    assert_eq!(rig.provider.calls(), [Call::Reject(connection, vec![])]);
    assert_eq!(counter(&rig.cm, "cmRejected"), 1);
    for id in [child, refused, broken, worse, listener] {
        assert_eq!(rig.destroy(id), Ok(()));
    }
    rig.end();
}

/// A connection came up while its listener went away: whatever was announced lives on, whatever was not is rejected.
/// Covers: DEF-18, CM-9, CM-22
#[test]
fn def_18_a_listener_ends_while_requests_wait() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 8);
    let announced = rig.provider.request(7000, b"a").unwrap();
    rig.cm.progress();
    let child = rig.client.child();
    let waiting = [rig.provider.request(7000, b"b").unwrap(), rig.provider.request(7000, b"c").unwrap()];
    rig.provider.calls();
    let reference = rig.provider.listener(7000);
    rig.cm.set_bound(Duration::from_millis(5));
    rig.client.told();
    assert_eq!(rig.destroy_untold(listener), Err(Errno::TimedOut), "a reference is held");
    assert_eq!(rig.client.told(), []);
    let rejected = waiting.map(|c| Call::Reject(c, vec![]));
    assert_eq!(rig.provider.calls(), [&[Call::DestroyListen(any(7000))], &rejected[..]].concat());
    // going away: not taken, so the provider refuses it
    let request = Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE));
    assert_eq!(reference.event(request), Err(Errno::Invalid));
    assert_eq!(counter(&rig.cm, "cmRefused"), 1);
    child.accept(&param(1)).unwrap();
    rig.provider.raise(announced, EventKind::Established, Ok(())).unwrap();
    drain(&rig.cm);
    assert_eq!(child.state(), State::Established, "lives on");
    drop(reference);
    rig.cm.set_bound(Duration::from_secs(5));
    assert_eq!(rig.destroy(child), Ok(()));
    rig.end();
}

/// An id was freed while an event of it was in the queue.
/// Covers: DEF-25, CM-18
#[test]
fn def_25_an_id_is_destroyed_while_an_event_waits() {
    for events in [vec![], vec![EventKind::Disconnect], vec![EventKind::Disconnect, EventKind::Close]] {
        let rig = Rig::new();
        let (id, connection) = rig.connected(1);
        for kind in &events {
            rig.provider.raise(connection, *kind, Ok(())).unwrap();
        }
        rig.client.told();
        // nothing is told once it has returned, and, here, nothing before
        assert_eq!(rig.destroy_untold(id), Ok(()));
        assert_eq!(rig.client.told(), []);
        assert_eq!(rig.provider.calls().last(), Some(&Call::ModifyQp(1, QpState::Error)));
        assert_eq!(counter(&rig.cm, "cmEventsSwallowed"), events.len() as u64 + 1);
        rig.end();
    }
}

/// An event was being told while another thread destroyed its id: destroy waits for the handler.
/// Covers: DEF-26, CM-18
#[test]
fn def_26_destroy_waits_for_the_handler_that_runs() {
    // of a connected id, and of a child that is being announced
    for announced in [false, true] {
        let rig = Rig::new();
        let (entered, enter) = mpsc::channel();
        let (leave, left) = mpsc::channel::<()>();
        let (entered, left) = (Mutex::new(entered), Mutex::new(left));
        let running = Arc::new(AtomicBool::new(false));
        let in_handler = running.clone();
        let (id, connection) = rig.connected(1);
        let listener = rig.listener(7000, 1);
        rig.client.act(move |id, _| {
            in_handler.store(true, Ordering::SeqCst);
            entered.lock().unwrap().send(id.clone()).unwrap();
            left.lock().unwrap().recv().unwrap();
            in_handler.store(false, Ordering::SeqCst);
            Verdict::Keep
        });
        if announced {
            rig.provider.request(7000, b"").unwrap();
        } else {
            rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| drain(&rig.cm));
            let target = enter.recv().unwrap();
            let destroy = scope.spawn({
                let running = running.clone();
                move || (target.destroy(), running.load(Ordering::SeqCst))
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!destroy.is_finished(), "a handler of it runs");
            leave.send(()).unwrap();
            assert_eq!(destroy.join().unwrap(), (Ok(()), false));
        });
        rig.client.act(|_, _| Verdict::Keep);
        drop((id, listener));
        drain(&rig.cm);
        drop(rig.client.children());
        assert_eq!(pumped(&rig.cm, || 0), 0);
        rig.end();
    }
}

/// The last reference to an id went away in its own handler, and with it the work item that was being told.
/// Covers: DEF-27
#[test]
fn def_27_the_last_owner_goes_away_in_the_handler() {
    let rig = Rig::new();
    let (id, connection) = rig.connected(1);
    let slot = Arc::new(Mutex::new(Some(id)));
    rig.client.act(move |id, _| {
        drop(slot.lock().unwrap().take());
        // alive as long as the handler is in it
        assert_eq!(id.state(), State::Idle);
        Verdict::Keep
    });
    rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
    drain(&rig.cm);
    assert_eq!(rig.client.kinds(), [EventKind::ConnectReply, EventKind::Close]);
    rig.end();
}

/// The manager and all handles go away in a handler: the thread that runs it ends by itself.
/// Covers: DEF-27
#[test]
fn def_27_the_manager_goes_away_in_a_handler() {
    let cm = IwCm::new();
    let provider = Scripted::new();
    let device = cm.add_device(provider.clone());
    let slot = Arc::new(Mutex::new(None));
    let (done, finished) = mpsc::channel();
    let (inside, done) = (slot.clone(), Mutex::new(done));
    let id = cm
        .create_id(
            device,
            Arc::new(move |_, event| {
                drop(inside.lock().unwrap().take());
                let _ = done.lock().unwrap().send(event.kind);
                Verdict::Destroy
            }),
        )
        .unwrap();
    id.set_remote(address(REMOTE)).unwrap();
    id.connect(&param(1)).unwrap();
    *slot.lock().unwrap() = Some((cm, id));
    provider.end(provider.connection_of(1), EventKind::ConnectReply, Err(Errno::TimedOut)).unwrap();
    assert_eq!(finished.recv_timeout(Duration::from_secs(10)), Ok(EventKind::ConnectReply));
    let until = Instant::now() + Duration::from_secs(10);
    while provider.qp_refs(1) != 0 {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    provider.assert_clean();
}

/// Work items were put back into a list twice after very many connections. `IWCM_CYCLES` says how often; the list of free ones never grows or shrinks.
/// Covers: DEF-28, DEF-57
#[test]
fn def_28_work_items_are_recycled_for_ever() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 2);
    let id = rig.id();
    for n in 0..cycles() {
        // the same id again and again, and a new child each time
        id.connect(&param(1)).unwrap();
        let active = rig.provider.connection_of(1);
        let passive = rig.provider.request(7000, b"").unwrap();
        if n % 7 == 0 {
            rig.provider.end(active, EventKind::ConnectReply, Err(Errno::ConnectionRefused)).unwrap();
            drain(&rig.cm);
            rig.client.child().reject(&PrivateData::default()).unwrap();
        } else {
            rig.provider.raise(active, EventKind::ConnectReply, Ok(())).unwrap();
            drain(&rig.cm);
            let child = rig.client.child();
            child.accept(&param(2)).unwrap();
            rig.provider.raise(passive, EventKind::Established, Ok(())).unwrap();
            drain(&rig.cm);
            // a second time by a provider that is wrong, and left in the queue for the next life of the id
            if n % 5 == 0 {
                rig.provider.raise(active, EventKind::ConnectReply, Ok(())).unwrap();
            }
            child.disconnect(n % 2 == 0).unwrap();
            rig.provider.end(active, EventKind::Close, Ok(())).unwrap();
            drain(&rig.cm);
            assert_eq!(child.free_items(), CHILD_ITEMS);
        }
        assert_eq!((id.state(), id.free_items(), listener.free_items()), (State::Idle, CONNECT_ITEMS, 2), "round {n}");
        rig.client.told();
        rig.provider.calls();
    }
    assert_eq!(counter(&rig.cm, "cmIds"), 2);
    for id in [id, listener] {
        assert_eq!(rig.destroy(id), Ok(()));
    }
    rig.end();
}

/// An event of an earlier life of an id, that a wrong provider left in the queue, is not taken for the reply of the next.
/// Covers: DEF-28, DEF-30
#[test]
fn def_28_events_of_an_earlier_life_are_nobodys() {
    let rig = Rig::new();
    let id = rig.id();
    id.connect(&param(1)).unwrap();
    let first = rig.provider.connection_of(1);
    let reference = rig.provider.id_of(first);
    rig.provider.end(first, EventKind::ConnectReply, Err(Errno::TimedOut)).unwrap();
    rig.cm.progress();
    // queued in IDLE, told in CONN_SENT
    reference.event(Event::new(EventKind::ConnectReply, address(LOCAL), address(REMOTE))).unwrap();
    id.connect(&param(2)).unwrap();
    // raised in CONN_SENT, through the reference of the first
    reference.event(Event::new(EventKind::ConnectReply, address(LOCAL), address(REMOTE))).unwrap();
    drain(&rig.cm);
    assert_eq!((id.state(), id.free_items()), (State::ConnSent, CONNECT_ITEMS));
    assert_eq!(counter(&rig.cm, "cmEventsOdd"), 2);
    drop(reference);
    rig.provider.raise(rig.provider.connection_of(2), EventKind::ConnectReply, Ok(())).unwrap();
    drain(&rig.cm);
    assert_eq!(id.state(), State::Established);
    assert_eq!(rig.destroy(id), Ok(()));
    rig.end();
}

/// The thread that tells events waited for work that itself waited for it. What a handler may wait for comes without that thread; the rest is refused.
/// Covers: DEF-29, CM-4, CM-21
#[test]
fn def_29_a_handler_never_waits_for_its_own_thread() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 4);
    let (answer, ask) = mpsc::channel::<()>();
    let (ask, answer) = (Mutex::new(ask), Mutex::new(answer));
    // the device's listen reply comes from another thread, which raises an event first
    let request = rig.provider.listener(7000);
    let pending = rig.id();
    pending.connect(&param(3)).unwrap();
    let other = rig.id();
    let (second, waiting) = (other.clone(), pending.clone());
    let own = listener.clone();
    rig.provider.plan(Verb::CreateListen, move |_| {
        let device = std::thread::spawn(move || {
            let event = Event { provider_data: 7, ..Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE)) };
            let taken = request.event(event);
            answer.lock().unwrap().send(()).unwrap();
            taken
        });
        ask.lock().unwrap().recv_timeout(Duration::from_secs(10)).expect("the reply does not need this thread");
        device.join().expect("no panic")
    });
    let results = Arc::new(Mutex::new(vec![]));
    let seen = results.clone();
    let once = AtomicBool::new(false);
    rig.client.act(move |id, event| {
        if event.kind == EventKind::ConnectRequest && !once.swap(true, Ordering::SeqCst) {
            let mut seen = seen.lock().unwrap();
            seen.push(("listen", second.listen(1)));
            seen.push(("destroy the child that is announced", id.destroy()));
            seen.push(("destroy its listener", own.destroy()));
            seen.push(("destroy an id whose reply would have to be told", waiting.destroy()));
            seen.push(("disconnect it", waiting.disconnect(true)));
            seen.push(("accept", id.accept(&param(1))));
            seen.push(("disconnect before ESTABLISHED", id.disconnect(true)));
        }
        Verdict::Keep
    });
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    assert_eq!(
        *results.lock().unwrap(),
        [
            ("listen", Ok(())),
            ("destroy the child that is announced", Err(Errno::Deadlock)),
            ("destroy its listener", Err(Errno::Deadlock)),
            ("destroy an id whose reply would have to be told", Err(Errno::Deadlock)),
            ("disconnect it", Err(Errno::Deadlock)),
            ("accept", Ok(())),
            ("disconnect before ESTABLISHED", Err(Errno::Deadlock)),
        ]
    );
    assert_eq!(rig.client.kinds(), [EventKind::ConnectRequest, EventKind::ConnectRequest], "also the one that was raised meanwhile");
    rig.client.act(|_, _| Verdict::Keep);
    rig.provider.raise(connection, EventKind::Established, Ok(())).unwrap();
    drain(&rig.cm);
    rig.provider.end(rig.provider.connection_of(3), EventKind::ConnectReply, Err(Errno::TimedOut)).unwrap();
    let children = rig.client.children();
    for id in children.into_iter().chain([other, pending, listener]) {
        assert_eq!(rig.destroy(id), Ok(()));
    }
    rig.end();
}

/// A second CONNECT_REPLY brought the kernel down. Here it is counted.
/// Covers: DEF-30, CM-3
#[test]
fn def_30_a_second_reply_is_counted_and_ignored() {
    let statuses = [Ok(()), Err(Errno::ConnectionRefused)];
    for first in statuses {
        for second in statuses {
            let rig = Rig::new();
            let id = rig.id();
            id.connect(&param(1)).unwrap();
            let connection = rig.provider.connection_of(1);
            rig.provider.raise(connection, EventKind::ConnectReply, first).unwrap();
            rig.provider.raise(connection, EventKind::ConnectReply, second).unwrap();
            drain(&rig.cm);
            let state = if first.is_ok() { State::Established } else { State::Idle };
            assert_eq!(rig.client.told(), [(state, EventKind::ConnectReply, first, vec![])]);
            assert_eq!(id.state(), state);
            assert_eq!(counter(&rig.cm, "cmDuplicateReplies"), 1);
            assert_eq!(rig.provider.qp_refs(1), i64::from(first.is_ok()));
            if first.is_err() {
                rig.provider.forget(connection);
            }
            assert_eq!(rig.destroy(id), Ok(()));
            rig.end();
        }
    }
}

/// Destroying a queue pair did not wait, or waited for ever. Either may go first: the reference tells the provider when.
/// Covers: DEF-31
#[test]
fn def_31_queue_pair_and_id_die_in_either_order() {
    // the queue pair first: the provider resets, raises CLOSE, and waits until nobody refers to it
    let rig = Rig::new();
    let (id, connection) = rig.connected(1);
    rig.provider.end(connection, EventKind::Close, Err(Errno::ConnectionReset)).unwrap();
    assert_eq!(rig.provider.qp_refs(1), 1);
    drain(&rig.cm);
    assert_eq!(rig.provider.qp_refs(1), 0);
    rig.provider.remove_qp(1);
    id.disconnect(true).unwrap();
    assert_eq!(id.connect(&param(1)), Err(Errno::Invalid), "it is gone");
    assert_eq!(rig.destroy(id), Ok(()));
    // the id first, while it is connected, while it closes, and while it has not come to it
    for step in 0..3 {
        let (id, connection) = rig.connected(2);
        if step == 1 {
            rig.provider.raise(connection, EventKind::Disconnect, Ok(())).unwrap();
            drain(&rig.cm);
            // closing in order goes on to close, and is waited for
            let destroyed = std::thread::scope(|scope| {
                let destroy = scope.spawn(|| id.destroy());
                while id.state() != State::Destroying {
                    std::thread::yield_now();
                }
                rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
                while !destroy.is_finished() {
                    rig.cm.progress_within(Duration::from_millis(1));
                }
                destroy.join().unwrap()
            });
            assert_eq!(destroyed, Ok(()));
            assert_eq!(rig.provider.qp_state(2), QpState::Rts, "nobody has reset it");
        } else {
            assert_eq!(rig.destroy(id), Ok(()));
            assert_eq!(rig.provider.qp_state(2), QpState::Error);
        }
        assert_eq!(rig.provider.qp_refs(2), 0);
        rig.provider.remove_qp(2);
        rig.provider.add_qp(2);
    }
    rig.end();
}

/// A listener was removed with another key than it was made with.
/// Covers: DEF-39, CM-23
#[test]
fn def_39_a_listener_is_removed_with_the_key_it_was_made_with() {
    let rig = Rig::new();
    for bound in ["0.0.0.0:0", "10.0.0.1:7000", "[::]:7001", "[fe80::1]:0"] {
        let id = rig.id();
        id.bind(address(bound)).unwrap();
        id.listen(1).unwrap();
        let Some(Call::CreateListen(at, 1)) = rig.provider.calls().pop() else { panic!("no listener") };
        assert_eq!((id.local_addr(), at.ip()), (at, address(bound).ip()));
        assert_eq!(id.bind(address(LOCAL)), Err(Errno::Invalid));
        assert_eq!(rig.destroy(id), Ok(()));
        assert_eq!(rig.provider.calls(), [Call::DestroyListen(at)]);
    }
    rig.end();
}

/// The code of a listen reply was looked up in the wrong place, so that success was told. Every error comes out as it went in; so does that of a reject.
/// Covers: DEF-40
#[test]
fn def_40_an_error_of_the_provider_is_the_callers() {
    for &why in Errno::ALL {
        let rig = Rig::new();
        let id = rig.listener(7000, 2);
        let other = rig.id();
        rig.provider.fail(Verb::CreateListen, why);
        assert_eq!(other.listen(1), Err(why));
        rig.provider.request(7000, b"").unwrap();
        drain(&rig.cm);
        rig.provider.fail(Verb::Reject, why);
        assert_eq!(rig.client.child().reject(&PrivateData::default()), Err(why));
        // one of destroying does not keep the id
        rig.provider.fail(Verb::DestroyListen, why);
        assert_eq!(rig.destroy(id), Ok(()));
        drop(other);
        rig.end();
    }
}

/// The device went away with connections alive, and everybody waited for everybody.
/// Covers: DEF-45, CM-35
#[test]
fn def_45_a_device_goes_away_with_everything_alive() {
    for obliging in [true, false] {
        let rig = Rig::new();
        rig.provider.set_obliging(obliging);
        let seen = Arc::new(Mutex::new(vec![]));
        let changes = seen.clone();
        let observing = rig.cm.observe(Arc::new(move |change| changes.lock().unwrap().push(change)));
        let idle = rig.id();
        let listener = rig.listener(7000, 8);
        let (established, _) = rig.connected(1);
        let (closing, closing_connection) = rig.connected(2);
        rig.provider.raise(closing_connection, EventKind::Disconnect, Ok(())).unwrap();
        let connecting = rig.id();
        connecting.connect(&param(3)).unwrap();
        rig.provider.request(7000, b"").unwrap();
        drain(&rig.cm);
        let accepting = rig.client.child();
        accepting.accept(&param(4)).unwrap();
        rig.provider.request(7000, b"").unwrap();
        drain(&rig.cm);
        let asked = rig.client.child();
        // one that nobody has been told of
        rig.provider.request(7000, b"").unwrap();
        rig.client.told();

        rig.cm.remove_device(rig.device).unwrap();
        assert_eq!(*seen.lock().unwrap(), [DeviceChange::Removed(rig.device)]);
        assert_eq!(rig.cm.remove_device(rig.device), Err(Errno::NoDevice));
        drain(&rig.cm);
        let mut told: Vec<_> = rig.client.told().into_iter().map(|told| (told.1 as u32, told.2)).collect();
        told.sort();
        let reset = Err(Errno::ConnectionReset);
        // REPLY of the one, ESTABLISHED of the other; CLOSE of that, of the one connected and of the one closing
        assert_eq!(told, [(2, reset), (3, reset), (5, reset), (5, reset), (5, reset)], "obliging: {obliging}");
        for id in [&idle, &established, &closing, &connecting, &accepting, &asked] {
            assert_eq!(id.state(), State::Idle);
            assert_eq!(id.connect(&param(5)), Err(Errno::NoDevice));
            assert_eq!(id.listen(1), Err(Errno::NoDevice));
        }
        assert_eq!(rig.cm.create_id(rig.device, rig.client.handler()).unwrap_err(), Errno::NoDevice);
        // late events of the provider change nothing, and are no fault of its
        if !obliging {
            for (qpn, kind) in [(1, EventKind::Close), (2, EventKind::Close), (3, EventKind::ConnectReply), (4, EventKind::Established)] {
                rig.provider.end(rig.provider.connection_of(qpn), kind, Ok(())).unwrap();
            }
            drain(&rig.cm);
            assert_eq!(rig.client.told(), []);
            assert_eq!(counter(&rig.cm, "cmEventsSwallowed"), 4);
        }
        assert_eq!(counter(&rig.cm, "cmEventsOdd"), 0);
        for id in [idle, listener, established, closing, connecting, accepting, asked] {
            assert_eq!(rig.destroy(id), Ok(()));
        }
        let again = rig.cm.add_device(rig.provider.clone());
        drop(observing);
        rig.cm.remove_device(again).unwrap();
        let changes = [DeviceChange::Removed(rig.device), DeviceChange::Added(again)];
        assert_eq!(*seen.lock().unwrap(), changes, "who observes no more hears no more");
        rig.end();
    }
}

/// A device goes away while a verb of one of its ids is under way: the end of the verb sees it.
/// Covers: DEF-45, CM-35
#[test]
fn def_45_a_device_goes_away_within_a_verb() {
    // listen, connect, and connect that fails for it
    for verb in 0..3 {
        let rig = Rig::new();
        let id = rig.id();
        let (cm, device) = (rig.cm.clone(), rig.device);
        let remove = move |id: &ironwarp_iwcm::IdRef| {
            cm.remove_device(device)?;
            if verb == 0 {
                // rejected, not told
                id.event(Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE)))?;
            }
            // whatever is told now, the call has not returned
            drain(&cm);
            if verb == 2 {
                Err(Errno::Io)
            } else {
                Ok(())
            }
        };
        if verb == 0 {
            rig.provider.plan(Verb::CreateListen, remove);
            assert_eq!(id.listen(1), Ok(()));
        } else {
            rig.provider.plan(Verb::Connect, remove);
            assert_eq!(id.connect(&param(1)), if verb == 2 { Err(Errno::Io) } else { Ok(()) });
        }
        drain(&rig.cm);
        let told = if verb == 1 { vec![EventKind::ConnectReply] } else { vec![] };
        assert_eq!(rig.client.kinds(), told);
        assert_eq!(id.state(), State::Idle);
        assert_eq!(rig.destroy(id), Ok(()));
        rig.end();
    }
}

/// An event was used after it was freed. What a client is told is its own copy, whatever the provider does meanwhile.
/// Covers: DEF-48, CM-25
#[test]
fn def_48_an_event_is_the_clients_own() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 4);
    let mut buffer = *b"first";
    rig.provider.request(7000, &buffer).unwrap();
    buffer.copy_from_slice(b"other");
    rig.provider.request(7000, &buffer).unwrap();
    drain(&rig.cm);
    let told: Vec<_> = rig.client.told().into_iter().map(|told| told.3).collect();
    assert_eq!(told, [b"first", b"other"]);
    drop(rig.client.children());
    assert_eq!(rig.destroy(listener), Ok(()));
    rig.end();
}

/// One of several devices could not listen, and the listeners of the others were forgotten.
/// Covers: DEF-50, CM-39
#[test]
fn def_50_a_wildcard_listen_that_fails_on_one_device_is_rolled_back() {
    let cm = IwCm::without_thread();
    let client = Client::new();
    assert_eq!(cm.listen_any(any(0), 1, client.handler()).unwrap_err(), Errno::NoDevice);
    let providers: Vec<_> = (0..4).map(|_| Scripted::new()).collect();
    for provider in &providers {
        cm.add_device(provider.clone());
    }
    for failing in 0..4 {
        for (port, why) in [(0, Errno::NoMemory), (7000, Errno::NoMemory), (7000, Errno::AddressInUse)] {
            providers[failing].fail(Verb::CreateListen, why);
            assert_eq!(cm.listen_any(any(port), 1, client.handler()).unwrap_err(), why);
            for provider in &providers {
                provider.assert_clean();
            }
        }
    }
    // a port that one of them has in use already: others are tried, and not the same again
    let used = cm.create_id(cm.devices()[2].0, client.handler()).unwrap();
    used.bind(any(40_000)).unwrap();
    used.listen(1).unwrap();
    let listener = cm.listen_any(any(0), 1, client.handler()).unwrap();
    assert_eq!(listener.local_addr(), any(40_001));
    assert_eq!(listener.ids().len(), 4);
    for provider in &providers[..2] {
        assert_eq!(provider.held(), 1, "the listeners at 40000 are gone");
    }
    // one that comes later joins, unless it cannot; one that goes leaves
    let (late, busy) = (Scripted::new(), Scripted::new());
    busy.fail(Verb::CreateListen, Errno::AddressInUse);
    let device = cm.add_device(late.clone());
    cm.add_device(busy.clone());
    assert_eq!((late.held(), busy.held(), listener.ids().len()), (1, 0, 5));
    cm.remove_device(device).unwrap();
    assert_eq!((late.held(), listener.ids().len()), (0, 4));
    drop(listener);
    drop(used);
    // nobody listens any more: nobody joins
    let later = Scripted::new();
    cm.add_device(later.clone());
    assert_eq!(later.held(), 0);
    for provider in providers.iter().chain([&late, &busy, &later]) {
        provider.assert_clean();
    }
    assert_nothing_left(&cm);
    // every try fails: bounded
    for _ in 0..64 {
        providers[3].fail(Verb::CreateListen, Errno::AddressInUse);
    }
    assert_eq!(cm.listen_any(any(0), 1, client.handler()).unwrap_err(), Errno::AddressInUse);
    providers[0].assert_clean();
}

/// Dropping a wildcard listener waits for the handler that runs, as destroying one listener does.
/// Covers: CM-22
#[test]
fn a_wildcard_listener_waits_for_its_handler() {
    let rig = Rig::new();
    let listener = rig.cm.listen_any(any(7000), 1, rig.client.handler()).unwrap();
    assert!(format!("{listener:?}").contains("7000"));
    let (entered, enter) = mpsc::channel();
    let entered = Mutex::new(entered);
    let left = Arc::new(AtomicBool::new(false));
    let leaves = left.clone();
    rig.client.act(move |_, _| {
        entered.lock().unwrap().send(()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        leaves.store(true, Ordering::SeqCst);
        Verdict::Destroy
    });
    rig.provider.request(7000, b"").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drain(&rig.cm));
        enter.recv().unwrap();
        drop(listener);
        assert!(left.load(Ordering::SeqCst), "its handler runs still");
    });
    rig.client.act(|_, _| Verdict::Keep);
    rig.end();
}

/// A second connect changed the addresses of the first.
/// Covers: DEF-51
#[test]
fn def_51_a_second_connect_changes_nothing() {
    let rig = Rig::new();
    let id = rig.id();
    id.bind(address(LOCAL)).unwrap();
    id.connect(&param(1)).unwrap();
    rig.provider.calls();
    for _ in 0..2 {
        assert_eq!(id.connect(&param(2)), Err(Errno::Invalid));
        assert_eq!(id.listen(9), Err(Errno::Invalid));
        assert_eq!(id.bind(any(1)), Err(Errno::Invalid));
        assert_eq!(id.set_remote(any(2)), Err(Errno::Invalid));
        assert_eq!((id.local_addr(), id.remote_addr(), id.free_items()), (address(LOCAL), address(REMOTE), CONNECT_ITEMS));
        assert_eq!((rig.provider.qp_refs(2), rig.provider.calls()), (0, vec![]));
        rig.provider.raise(rig.provider.connection_of(1), EventKind::ConnectReply, Ok(())).unwrap();
        drain(&rig.cm);
    }
    assert_eq!(rig.destroy(id), Ok(()));
    rig.end();
}

/// Requests that nobody had read were leaked when their process ended.
/// Covers: DEF-52, CM-9
#[test]
fn def_52_requests_that_nobody_keeps_are_rejected() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 4);
    // the client refuses, does not keep the child, panics, or loses all handles later
    let handlers: [ironwarp_iwcm::Handler; 3] =
        [Arc::new(|_, _| Verdict::Destroy), Arc::new(|_, _| Verdict::Keep), Arc::new(|_, _| panic!("a client's fault"))];
    for handler in handlers {
        listener.set_handler(handler);
        rig.provider.calls();
        let connection = rig.provider.request(7000, b"").unwrap();
        drain(&rig.cm);
        assert_eq!(rig.provider.calls(), [Call::Reject(connection, vec![])]);
        assert_eq!(counter(&rig.cm, "cmIds"), 1);
    }
    assert_eq!(counter(&rig.cm, "cmHandlerPanics"), 1);
    assert_eq!(counter(&rig.cm, "cmRejected"), 2, "without the one that was told and forgotten");
    listener.set_handler(rig.client.handler());
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    rig.provider.calls();
    drop(rig.client.children());
    assert_eq!(rig.provider.calls(), [Call::Reject(connection, vec![])]);
    // one whose accept is under way is reset
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    let child = rig.client.child();
    child.accept(&param(1)).unwrap();
    rig.provider.calls();
    rig.client.told();
    drop(child);
    drain(&rig.cm);
    assert_eq!(rig.provider.calls(), [Call::ModifyQp(1, QpState::Error)]);
    assert_eq!(rig.client.told(), [], "connection {connection}: nobody is there to be told");
    drop(listener);
    rig.end();
}

/// Memory leaked with every listener.
/// Covers: DEF-53
#[test]
fn def_53_a_thousand_listeners_leave_nothing() {
    let rig = Rig::new();
    for n in 0..1_000 {
        let listener = rig.listener(if n % 2 == 0 { 0 } else { 7000 }, 1 + n % 3);
        if n % 4 == 0 {
            drop(listener);
        } else {
            assert_eq!(listener.destroy(), Ok(()), "nothing to wait for");
            assert_eq!(listener.destroy(), Err(Errno::Invalid));
            drop(listener);
        }
        assert_eq!((counter(&rig.cm, "cmIds"), counter(&rig.cm, "cmIdRefs")), (0, 0));
    }
    // a handler that owns its own id makes no circle that outlives destroy
    let id = rig.id();
    let own = id.clone();
    id.set_handler(Arc::new(move |_, _| if own.state() == State::Idle { Verdict::Keep } else { Verdict::Destroy }));
    assert_eq!(id.destroy(), Ok(()));
    drop(id);
    rig.end();
}

/// Many connections at once and again, by many threads, with the manager's own thread.
/// Covers: DEF-56, DEF-57, CM-13
#[test]
fn def_56_a_storm_of_connections() {
    let cm = IwCm::new();
    let provider = Scripted::new();
    let device = cm.add_device(provider.clone());
    let refused = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for qpn in 1..=4 {
            let (cm, provider, refused) = (&cm, &provider, &refused);
            scope.spawn(move || {
                let client = Client::new();
                for n in 0..cycles() / 8 {
                    let id = cm.create_id(device, client.handler()).unwrap();
                    id.set_remote(address(REMOTE)).unwrap();
                    id.connect(&param(qpn)).unwrap();
                    let connection = provider.connection_of(qpn);
                    let status = if n % 3 == 0 { Err(Errno::ConnectionRefused) } else { Ok(()) };
                    if status.is_ok() {
                        provider.raise(connection, EventKind::ConnectReply, status).unwrap();
                        if n % 2 == 0 {
                            // waits for the reply; the provider closes at once
                            id.disconnect(n % 4 == 0).unwrap();
                        }
                    } else {
                        provider.end(connection, EventKind::ConnectReply, status).unwrap();
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(id.destroy(), Ok(()));
                    let kinds = client.kinds();
                    assert!(kinds.is_sorted_by_key(|kind| *kind as u32), "{kinds:?}");
                    assert!(kinds.iter().filter(|kind| **kind == EventKind::ConnectReply).count() <= 1);
                    assert_eq!(provider.qp_refs(qpn), 0);
                }
            });
        }
    });
    provider.assert_clean();
    assert_nothing_left(&cm);
    assert!(refused.into_inner() > 0);
    assert_eq!(counter(&cm, "cmEventsOdd"), 0);
}

/// Lengths of private data were kept in eight bits.
/// Covers: DEF-63, DEF-64, CM-24
#[test]
fn def_63_and_64_private_data_of_every_length() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 1);
    for length in [0, 1, 3, 4, 251, 252, 253, 254, 255, 256, 257, 508, 509, 512] {
        let data: Vec<_> = (0..length).map(|n| n as u8).collect();
        let connection = rig.provider.request(7000, &data).unwrap();
        drain(&rig.cm);
        assert_eq!(rig.client.told().pop().unwrap().3, data);
        rig.provider.calls();
        rig.client.child().reject(&PrivateData::new(&data).unwrap()).unwrap();
        assert_eq!(rig.provider.calls(), [Call::Reject(connection, data)]);
    }
    for length in [513, 0xffff, 0x1_0000] {
        assert_eq!(PrivateData::new(&vec![0; length]), Err(Errno::Invalid));
    }
    drop(listener);
    rig.end();
}

/// The private data of a reject was dropped on the way.
/// Covers: DEF-65, CM-7
#[test]
fn def_65_the_private_data_of_a_reject_reaches_the_provider() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 1);
    let connection = rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    rig.provider.calls();
    let child = rig.client.child();
    child.reject(&PrivateData::new(b"not today").unwrap()).unwrap();
    assert_eq!(rig.provider.calls(), [Call::Reject(connection, b"not today".to_vec())]);
    assert_eq!(child.reject(&PrivateData::default()), Err(Errno::Invalid), "once");
    rig.client.told();
    drop((child, listener));
    drain(&rig.cm);
    assert_eq!(rig.client.told(), [], "no event follows");
    rig.end();
}

/// Not one of the catalogue's, but its kin: a provider that loses what it owes does not hang its process for ever, and one that stops halfway through
/// is said to have.
/// Covers: CM-4
#[test]
fn a_reply_that_is_lost_ends_every_wait() {
    let rig = Rig::new();
    rig.cm.set_bound(Duration::from_millis(20));
    rig.provider.set_obliging(false);
    let id = rig.id();
    id.connect(&param(1)).unwrap();
    let start = Instant::now();
    assert_eq!(id.disconnect(false), Err(Errno::TimedOut));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!((id.state(), counter(&rig.cm, "cmWaitsBounded")), (State::ConnSent, 1));
    assert_eq!(rig.provider.calls().len(), 1, "the queue pair was not touched");
    // dead all the same; what it may still use is there
    assert_eq!(rig.destroy(id.clone()), Err(Errno::TimedOut));
    assert_eq!((id.state(), counter(&rig.cm, "cmWaitsBounded")), (State::Destroying, 3));
    assert_eq!(rig.provider.calls(), [Call::ModifyQp(1, QpState::Error)]);
    rig.provider.end(rig.provider.connection_of(1), EventKind::ConnectReply, Ok(())).unwrap();
    drain(&rig.cm);
    assert_eq!(rig.client.told(), []);
    drop(id);
    // one that closes and does not come to its end is reset when the bound comes
    let (id, connection) = rig.connected(2);
    id.disconnect(false).unwrap();
    rig.provider.set_obliging(true);
    rig.provider.calls();
    assert_eq!(rig.destroy(id), Ok(()));
    assert_eq!(rig.provider.calls(), [Call::ModifyQp(2, QpState::Error)], "connection {connection}");
    rig.end();
}

/// Covers: CM-9, CM-19
#[test]
fn a_full_queue_makes_the_provider_refuse() {
    let rig = Rig::new();
    let listener = rig.listener(7000, 2);
    rig.provider.request(7000, b"").unwrap();
    rig.provider.request(7000, b"").unwrap();
    assert_eq!(rig.provider.request(7000, b""), Err(Errno::NoMemory));
    assert_eq!((listener.free_items(), counter(&rig.cm, "cmNoWorkItem")), (0, 1));
    // an item is free as soon as its event is being told
    rig.cm.progress();
    assert_eq!(listener.free_items(), 1);
    rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    assert_eq!(rig.client.kinds().len(), 3);
    // a request with a status is none
    let request = Event { status: Err(Errno::Io), ..Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE)) };
    assert_eq!(rig.provider.listener(7000).event(request), Err(Errno::Invalid));
    drop(rig.client.children());
    drop(listener);
    rig.end();
}

/// What was bound is what a later connect starts from, not what an earlier one was given; a reply says where it is.
/// Covers: CM-38
#[test]
fn addresses_are_the_real_ones() {
    let rig = Rig::new();
    let id = rig.id();
    id.bind(any(0)).unwrap();
    for n in 0..2u16 {
        rig.provider.plan(Verb::Connect, move |id| {
            assert_eq!(id.local_addr(), any(0));
            id.set_local_addr(any(2000 + n));
            Ok(())
        });
        id.connect(&param(1)).unwrap();
        assert_eq!(id.local_addr(), any(2000 + n));
        let connection = rig.provider.connection_of(1);
        assert_eq!((id.provider_data(), id.provider_refs()), (connection, 1));
        let second = rig.provider.id_of(connection).as_ref().clone();
        assert_eq!(id.provider_refs(), 2);
        drop(second);
        let status = if n == 0 { Err(Errno::TimedOut) } else { Ok(()) };
        rig.provider.raise(connection, EventKind::ConnectReply, status).unwrap();
        drain(&rig.cm);
        let local = if n == 0 { any(2000) } else { address(LOCAL) };
        assert_eq!((id.local_addr(), id.remote_addr()), (local, address(REMOTE)));
        if n == 0 {
            rig.provider.forget(connection);
        }
    }
    assert_eq!(rig.destroy(id), Ok(()));
    rig.end();
}

/// A client sets the octet, its provider asks for it; and a listener's child has the listener's device and handler.
#[test]
fn what_a_client_sets_its_provider_finds() {
    let rig = Rig::new();
    let id = rig.id();
    let tos = Arc::new(Mutex::new(vec![]));
    let seen = tos.clone();
    let ask = move |id: &ironwarp_iwcm::IdRef| {
        seen.lock().unwrap().push((id.tos(), id.remote_addr()));
        Err(Errno::Io)
    };
    rig.provider.plan(Verb::Connect, ask.clone());
    assert_eq!(id.connect(&param(1)), Err(Errno::Io));
    id.set_tos(0x68);
    rig.provider.plan(Verb::Connect, ask);
    assert_eq!(id.connect(&param(1)), Err(Errno::Io));
    assert_eq!(*tos.lock().unwrap(), [(None, address(REMOTE)), (Some(0x68), address(REMOTE))]);
    let listener = rig.listener(7000, 1);
    rig.provider.request(7000, b"").unwrap();
    drain(&rig.cm);
    let child = rig.client.child();
    assert_eq!((child.device(), child.local_addr(), child.remote_addr()), (rig.device, address(LOCAL), address(REMOTE)));
    assert!(child != listener && child == child.clone());
    assert_eq!(rig.cm.provider(rig.device).unwrap().query(), rig.provider.query());
    assert!(format!("{child:?} {:?} {listener:?}", rig.cm).contains("ConnRecv"));
    drop((child, listener, id));
    rig.end();
}

/// CONNECT_REPLY that refuses, and a handler that has had enough: each end of the id gives the queue pair back before the client hears of it, so that it can use
/// it again at once.
#[test]
fn a_client_may_connect_again_within_the_handler_that_says_no() {
    let rig = Rig::new();
    let id = rig.id();
    let provider = rig.provider.clone();
    let tries = AtomicU64::new(0);
    rig.client.act(move |id, _| {
        assert_eq!(provider.qp_refs(1), 0);
        match tries.fetch_add(1, Ordering::SeqCst) {
            0..3 => {
                id.connect(&param(1)).unwrap();
                Verdict::Keep
            }
            _ => Verdict::Destroy,
        }
    });
    id.connect(&param(1)).unwrap();
    for _ in 0..4 {
        rig.provider.end(rig.provider.connection_of(1), EventKind::ConnectReply, Err(Errno::ConnectionRefused)).unwrap();
        drain(&rig.cm);
    }
    assert_eq!(id.state(), State::Destroying);
    assert_eq!(id.destroy(), Err(Errno::Invalid), "the handler has");
    drop(id);
    rig.end();
}
