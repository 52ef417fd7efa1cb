// SPDX-License-Identifier: MIT OR Apache-2.0
//! Races, in every order that they can have: `make loom`. Threads are those of a model checker, which runs each test once for every order of
//! what its threads do to locks and waits, up to a number of preemptions. A wait that nobody ends, or a lock taken twice, stops the model and is reported.
//!
//! The provider takes the id's lock in every verb: a verb called under it would stop the model, too.
#![cfg(loom)]
mod scripted;

use ironwarp_iwcm::{CmId, Errno, Event, EventKind, IwCm, PrivateData, State, Verdict};
use ironwarp_verbs::QpState;
use loom::thread;
use scripted::{address, assert_nothing_left, param, Call, Rig, Verb, LOCAL, REMOTE};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

/// Every order with up to so many preemptions; the variable of the model checker overrides it.
fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.max_branches = 20_000;
    builder.check(test);
}

/// Tells `count` events, waiting for each.
fn tell(cm: &IwCm, count: usize) {
    for _ in 0..count {
        assert!(cm.progress_within(Duration::MAX));
    }
}

fn end(rig: Rig) {
    drop(rig.client.children());
    while rig.cm.progress() {}
    rig.provider.assert_clean();
    assert_nothing_left(&rig.cm);
}

fn reply(rig: &Rig, qpn: u32, status: Result<(), Errno>) {
    let connection = rig.provider.connection_of(qpn);
    if status.is_ok() {
        rig.provider.raise(connection, EventKind::ConnectReply, status).unwrap();
    } else {
        rig.provider.end(connection, EventKind::ConnectReply, status).unwrap();
    }
}

/// Covers: DEF-25, DEF-26, CM-18
#[test]
fn an_event_in_flight_against_destroy() {
    model(|| {
        let rig = Rig::new();
        let (id, connection) = rig.connected(1);
        rig.client.told();
        let destroyed = Arc::new(AtomicBool::new(false));
        let seen = destroyed.clone();
        rig.client.act(move |_, _| {
            assert!(!seen.load(Ordering::SeqCst), "told after destroy has returned");
            Verdict::Keep
        });
        // the peer's close, or the reset of destroy: one CLOSE whatever the order, since the provider ends a connection once
        let provider = rig.provider.clone();
        provider.set_obliging(false);
        let raiser = thread::spawn(move || provider.end(connection, EventKind::Close, Ok(())).unwrap());
        let cm = rig.cm.clone();
        let teller = thread::spawn(move || tell(&cm, 1));
        assert_eq!(id.destroy(), Ok(()));
        destroyed.store(true, Ordering::SeqCst);
        raiser.join().unwrap();
        teller.join().unwrap();
        assert!(rig.client.told().len() <= 1);
        rig.client.act(|_, _| Verdict::Keep);
        drop(id);
        end(rig);
    });
}

/// Covers: DEF-27
#[test]
fn a_handler_has_enough_while_another_thread_destroys() {
    model(|| {
        let rig = Rig::new();
        let id = rig.id();
        id.connect(&param(1)).unwrap();
        reply(&rig, 1, Err(Errno::ConnectionRefused));
        rig.client.act(|id, _| {
            assert_eq!(id.destroy(), Err(Errno::Deadlock), "in its own handler");
            Verdict::Destroy
        });
        let cm = rig.cm.clone();
        let teller = thread::spawn(move || tell(&cm, 1));
        // it waits for the reply; then one of the two destroys it
        let destroyed = id.destroy();
        assert!(matches!(destroyed, Ok(()) | Err(Errno::Invalid)), "{destroyed:?}");
        teller.join().unwrap();
        assert_eq!(id.state(), State::Destroying);
        rig.client.act(|_, _| Verdict::Keep);
        drop(id);
        end(rig);
    });
}

/// Covers: CM-4, CM-16
#[test]
fn two_threads_disconnect_and_destroy_one_id_that_connects() {
    model(|| {
        let rig = Rig::new();
        let id = rig.id();
        id.connect(&param(1)).unwrap();
        let (cm, provider) = (rig.cm.clone(), rig.provider.clone());
        let connection = provider.connection_of(1);
        let other = id.clone();
        let disconnecter = thread::spawn(move || other.disconnect(true));
        let teller = thread::spawn(move || {
            provider.raise(connection, EventKind::ConnectReply, Ok(())).unwrap();
            // the reply, and the CLOSE of whoever ended it
            tell(&cm, 2);
        });
        assert_eq!(id.destroy(), Ok(()));
        let disconnected = disconnecter.join().unwrap();
        assert!(matches!(disconnected, Ok(()) | Err(Errno::Invalid)), "{disconnected:?}");
        teller.join().unwrap();
        assert_eq!(rig.provider.qp_state(1), QpState::Error);
        assert!(rig.client.kinds().iter().filter(|kind| **kind == EventKind::ConnectReply).count() <= 1);
        drop(id);
        end(rig);
    });
}

#[test]
fn two_threads_connect_one_id() {
    model(|| {
        let rig = Rig::new();
        let id = rig.id();
        let other = id.clone();
        let second = thread::spawn(move || other.connect(&param(2)));
        let first = id.connect(&param(1));
        let second = second.join().unwrap();
        assert!(matches!((first, second), (Ok(()), Err(Errno::Invalid)) | (Err(Errno::Invalid), Ok(()))));
        let (won, lost) = if first.is_ok() { (1, 2) } else { (2, 1) };
        assert_eq!((rig.provider.qp_refs(won), rig.provider.qp_refs(lost)), (1, 0));
        reply(&rig, won, Err(Errno::TimedOut));
        tell(&rig.cm, 1);
        drop(id);
        end(rig);
    });
}

/// Covers: DEF-31
#[test]
fn a_queue_pair_is_destroyed_before_its_id() {
    model(|| {
        let rig = Rig::new();
        let (id, connection) = rig.connected(1);
        rig.provider.set_obliging(false);
        let (cm, provider) = (rig.cm.clone(), rig.provider.clone());
        // what destroying a queue pair does: reset, CLOSE, wait for the references
        let destroyer = thread::spawn(move || {
            provider.end(connection, EventKind::Close, Err(Errno::ConnectionReset)).unwrap();
            tell(&cm, 1);
        });
        // crosses it
        let disconnected = id.disconnect(false);
        assert_eq!(disconnected, Ok(()));
        destroyer.join().unwrap();
        assert_eq!((id.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
        rig.provider.remove_qp(1);
        assert_eq!(id.destroy(), Ok(()));
        drop(id);
        end(rig);
    });
}

/// Covers: DEF-31, CM-17
#[test]
fn an_id_is_destroyed_before_its_queue_pair() {
    model(|| {
        let rig = Rig::new();
        let (id, _) = rig.connected(1);
        let cm = rig.cm.clone();
        let teller = thread::spawn(move || tell(&cm, 1));
        assert_eq!(id.destroy(), Ok(()));
        assert_eq!(rig.provider.qp_refs(1), 0, "given back before destroy has returned");
        rig.provider.remove_qp(1);
        teller.join().unwrap();
        drop(id);
        end(rig);
    });
}

/// Covers: DEF-18, CM-22
#[test]
fn a_listener_is_destroyed_while_a_request_comes() {
    model(|| {
        let rig = Rig::new();
        let listener = rig.listener(7000, 1);
        let reference = rig.provider.listener(7000);
        let cm = rig.cm.clone();
        let raiser = thread::spawn(move || {
            let event = Event { provider_data: 77, ..Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE)) };
            let taken = reference.event(event);
            drop(reference);
            if taken.is_ok() {
                tell(&cm, 1);
            }
            taken
        });
        assert_eq!(listener.destroy(), Ok(()));
        let told_then = rig.client.told().len();
        let taken = raiser.join().unwrap();
        assert_eq!(rig.client.told().len(), 0, "nothing after destroy has returned");
        drop(rig.client.children());
        let rejected = rig.provider.calls().iter().filter(|call| matches!(call, Call::Reject(77, _))).count();
        match taken {
            // told and let go, or rejected in its place: once
            Ok(()) => assert_eq!(rejected, 1, "told: {told_then}"),
            Err(why) => assert_eq!((why, rejected, told_then), (Errno::Invalid, 0, 0)),
        }
        drop(listener);
        end(rig);
    });
}

/// Covers: DEF-26
#[test]
fn a_child_is_destroyed_while_it_is_announced() {
    model(|| {
        let rig = Rig::new();
        let listener = rig.listener(7000, 1);
        // a lock of the model: whoever comes first takes it
        let slot = Arc::new(loom::sync::Mutex::new(None::<CmId>));
        let (inside, running) = (slot.clone(), Arc::new(AtomicBool::new(false)));
        let in_handler = running.clone();
        rig.client.act(move |id, _| {
            in_handler.store(true, Ordering::SeqCst);
            *inside.lock().unwrap() = Some(id.clone());
            let _ = id.state();
            in_handler.store(false, Ordering::SeqCst);
            Verdict::Destroy
        });
        rig.provider.request(7000, b"").unwrap();
        let cm = rig.cm.clone();
        let teller = thread::spawn(move || tell(&cm, 1));
        let taken = slot.lock().unwrap().take();
        if let Some(child) = taken {
            let destroyed = child.destroy();
            assert!(matches!(destroyed, Ok(()) | Err(Errno::Invalid)), "{destroyed:?}");
            assert!(destroyed.is_err() || !running.load(Ordering::SeqCst), "its handler runs still");
        }
        teller.join().unwrap();
        let left = slot.lock().unwrap().take();
        drop(left);
        rig.client.act(|_, _| Verdict::Keep);
        assert_eq!(listener.destroy(), Ok(()));
        drop(listener);
        end(rig);
    });
}

/// Covers: CM-5, CM-6
#[test]
fn established_comes_before_accept_has_returned_and_close_after_it() {
    model(|| {
        let rig = Rig::new();
        let listener = rig.listener(7000, 1);
        let connection = rig.provider.request(7000, b"").unwrap();
        tell(&rig.cm, 1);
        let child = rig.client.child();
        rig.client.told();
        let cm = rig.cm.clone();
        let teller = thread::spawn(move || tell(&cm, 2));
        rig.provider.plan(Verb::Accept, |id| id.event(Event::new(EventKind::Established, address(LOCAL), address(REMOTE))));
        child.accept(&param(1)).unwrap();
        rig.provider.end(connection, EventKind::Close, Err(Errno::ConnectionReset)).unwrap();
        teller.join().unwrap();
        assert_eq!(rig.client.kinds(), [EventKind::Established, EventKind::Close]);
        assert_eq!((child.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
        drop((child, listener));
        end(rig);
    });
}

#[test]
fn accept_and_reject_of_one_child() {
    model(|| {
        let rig = Rig::new();
        let listener = rig.listener(7000, 1);
        rig.provider.request(7000, b"").unwrap();
        tell(&rig.cm, 1);
        let child = rig.client.child();
        let other = child.clone();
        let rejecter = thread::spawn(move || other.reject(&PrivateData::default()));
        let accepted = child.accept(&param(1));
        let rejected = rejecter.join().unwrap();
        assert!(accepted.is_ok() != rejected.is_ok(), "{accepted:?} {rejected:?}");
        if accepted.is_ok() {
            let connection = rig.provider.connection_of(1);
            rig.provider.raise(connection, EventKind::Established, Ok(())).unwrap();
            rig.provider.end(connection, EventKind::Close, Ok(())).unwrap();
            tell(&rig.cm, 2);
        }
        assert_eq!((child.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
        drop((child, listener));
        end(rig);
    });
}

/// Covers: DEF-45, CM-35
#[test]
fn a_device_goes_away_while_an_id_connects() {
    model(|| {
        let rig = Rig::new();
        let id = rig.id();
        let (cm, device) = (rig.cm.clone(), rig.device);
        let remover = thread::spawn(move || cm.remove_device(device));
        let connected = id.connect(&param(1));
        remover.join().unwrap().unwrap();
        while rig.cm.progress() {}
        let kinds = rig.client.kinds();
        match connected {
            Ok(()) => assert_eq!(kinds, [EventKind::ConnectReply], "one, and it is there"),
            Err(why) => assert_eq!((why, kinds), (Errno::NoDevice, vec![])),
        }
        assert_eq!((id.state(), rig.provider.qp_refs(1)), (State::Idle, 0));
        drop(id);
        end(rig);
    });
}
