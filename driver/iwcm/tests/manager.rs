// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manager's own thread and its observers; and what an event says in the fields of the kernel.
mod scripted;

use ironwarp_iwcm::{Depths, DeviceChange, Event, EventKind, IwCm, State};
use scripted::{address, Client, Scripted, LOCAL, REMOTE};
use std::sync::{Arc, Mutex};

/// The thread owns the manager's inside, and with it the providers: when the last owner is gone, so is the thread, at once.
#[test]
fn the_thread_ends_with_its_last_owner() {
    for _ in 0..200 {
        let provider = Scripted::new();
        let cm = IwCm::new();
        let device = cm.add_device(provider.clone());
        let id = cm.create_id(device, Client::new().handler()).unwrap();
        // an id keeps it
        drop(cm);
        assert!(Arc::strong_count(&provider) > 1);
        id.destroy().unwrap();
        drop(id);
        assert_eq!(Arc::strong_count(&provider), 1);
    }
}

#[test]
fn all_observers_hear_of_a_device() {
    let cm = IwCm::without_thread();
    let seen: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(vec![]))).collect();
    let observing: Vec<_> = seen
        .iter()
        .map(|seen| {
            let seen = seen.clone();
            cm.observe(Arc::new(move |change| seen.lock().unwrap().push(change)))
        })
        .collect();
    let devices = [cm.add_device(Scripted::new()), cm.add_device(Scripted::new())];
    assert_ne!(devices[0], devices[1]);
    cm.remove_device(devices[0]).unwrap();
    assert_eq!(cm.devices().iter().map(|(device, _)| *device).collect::<Vec<_>>(), [devices[1]]);
    assert!(cm.provider(devices[0]).is_none() && cm.provider(devices[1]).is_some());
    let changes = [DeviceChange::Added(devices[0]), DeviceChange::Added(devices[1]), DeviceChange::Removed(devices[0])];
    for seen in &seen {
        assert_eq!(*seen.lock().unwrap(), changes);
    }
    assert!(format!("{observing:?}").contains("Observing"));
}

/// Covers: CM-26
#[test]
fn depths_in_the_fields_of_the_kernel() {
    let depths = Depths { own_ird: 3, own_ord: 5, peer_ird: 7, peer_ord: 9 };
    for kind in EventKind::ALL {
        let event = Event { depths, ..Event::new(kind, address(LOCAL), address(REMOTE)) };
        let expected = if kind == EventKind::ConnectRequest { (7, 9) } else { (5, 3) };
        assert_eq!((event.iw_ird(), event.iw_ord()), expected, "{}", kind.name());
    }
    for (depth, octet) in [(0, 0), (254, 254), (255, 255), (256, 255), (0x3fff, 255)] {
        let depths = Depths { own_ird: depth, own_ord: depth, ..Depths::default() };
        let event = Event { depths, ..Event::new(EventKind::ConnectReply, address(LOCAL), address(REMOTE)) };
        assert_eq!((event.iw_ird(), event.iw_ord()), (octet, octet));
    }
}

/// Covers: CM-2
#[test]
fn numbers_and_names_are_the_kernels() {
    let names: Vec<_> = EventKind::ALL.map(|kind| format!("{} {}", kind.name(), kind as u32)).into();
    assert_eq!(names, ["CONNECT_REQUEST 1", "CONNECT_REPLY 2", "ESTABLISHED 3", "DISCONNECT 4", "CLOSE 5"]);
    let states = State::ALL.map(State::name);
    assert_eq!(states, ["IDLE", "LISTEN", "CONN_RECV", "CONN_SENT", "ESTABLISHED", "CLOSING", "DESTROYING"]);
}
