// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every call in every state, and after it every event, on a scripted three-way transport; against tables that are written here once more.
mod common;

use common::{own, param, peer, received, rejected, Fixture, ScriptId, WAIT};
use ironwarp_rdmacm::{
    Call, Errno, EventChannel, EventKind, Id, Notify, Opt, PrivateData, Request, State, TransportEvent, TransportId, Upcalled,
};
use ironwarp_verbs::QpState;
use std::sync::{atomic::Ordering::SeqCst, Arc};

/// What each call does: the next state, `=` for the same, `-` for EINVAL.
const CALLS: &str = "
         bind addr route qp dqp attr listen connect accept reject estab disc notify migr opt bopt destroy
    I    B    AQ   -     -  =   -    L      -       -      -      -     -    -      =    =   =    X
    B    -    AQ   -     =  =   =    L      -       -      -      -     -    -      =    =   =    X
    AQ   -    -    -     -  =   -    -      -       -      -      -     -    -      =    =   -    X
    AR   -    -    RQ    =  =   =    -      -       -      -      -     -    -      =    =   -    X
    RQ   -    -    -     =  =   =    -      -       -      -      -     -    -      =    =   -    X
    RR   -    -    -     =  =   =    -      CG      -      -      -     -    -      =    =   -    X
    L    -    -    -     -  =   -    -      -       -      -      -     -    -      =    -   -    X
    CG   -    -    -     -  =   =    -      -       -      -      -     =    -      =    -   -    X
    RP   -    -    -     -  =   =    -      -       -      F      CO    DG   =      =    -   -    X
    RE   -    -    -     =  =   =    -      -       AC     F      -     =    -      =    =   -    X
    AC   -    -    -     -  =   =    -      -       -      -      -     =    =      =    -   -    X
    CO   -    -    -     -  =   =    -      -       -      -      -     DG   =      =    -   -    X
    DG   -    -    -     -  =   =    -      -       -      -      -     =    -      =    -   -    X
    DD   -    -    -     -  =   =    -      -       -      -      -     =    -      =    -   -    X
    F    -    -    -     -  =   -    -      -       -      -      -     =    -      =    -   -    X
    DR   -    -    -     -  =   -    -      -       -      -      -     =    -      =    -   -    X
    X    -    -    -     -  -   -    -      -       -      -      -     -    -      -    -   -    =
";

/// What each event of the transport does: the next state, with the event told above; `.` = nothing, and nobody is told. States
/// without an id of the transport are left out: nothing can be told to them.
const EVENTS: &str = "
         request response established rejected unreachable error disconnected timewait
    L    L       .        .           .        .           .     .            .
    CG   .       RP       CO          F        F           F     .            .
    RP   .       .        .           F        F           F     DD           .
    RE   .       .        .           .        .           .     .            .
    AC   .       .        CO          F        F           F     .            .
    CO   .       .        .           .        .           .     DD           .
    DG   .       .        .           .        .           .     DD           .
    DD   .       .        .           .        .           .     .            DD
    F    .       .        .           .        .           .     .            .
    DR   .       .        .           .        .           .     .            .
    X    .       .        .           .        .           .     .            .
";

const CODES: [(&str, State); 17] = [
    ("I", State::Idle),
    ("B", State::AddrBound),
    ("AQ", State::AddrQuery),
    ("AR", State::AddrResolved),
    ("RQ", State::RouteQuery),
    ("RR", State::RouteResolved),
    ("L", State::Listen),
    ("CG", State::Connecting),
    ("RP", State::Responded),
    ("RE", State::Request),
    ("AC", State::Accepting),
    ("CO", State::Connected),
    ("DG", State::Disconnecting),
    ("DD", State::Disconnected),
    ("F", State::Failed),
    ("DR", State::DeviceRemoval),
    ("X", State::Destroying),
];

const KINDS: [EventKind; 8] = [
    EventKind::ConnectRequest,
    EventKind::ConnectResponse,
    EventKind::Established,
    EventKind::Rejected,
    EventKind::Unreachable,
    EventKind::ConnectError,
    EventKind::Disconnected,
    EventKind::TimewaitExit,
];

/// None: refused, or not told.
fn look_up(table: &str, state: State, column: usize) -> Option<State> {
    let code = |state| CODES.iter().find(|(_, s)| *s == state).expect("all states have a code").0;
    let row = table.lines().find(|l| l.split_whitespace().next() == Some(code(state)))?;
    match row.split_whitespace().nth(column + 1).expect("a full row") {
        "=" => Some(state),
        "-" | "." => None,
        to => Some(CODES.iter().find(|(c, _)| *c == to).expect("a code").1),
    }
}

struct Case {
    fixture: Fixture,
    id: Id,
    _listener: Option<Id>,
}

fn reach(state: State) -> Case {
    let f = Fixture::three_way();
    let mut listener = None;
    let mut passive = |f: &Fixture| {
        listener = Some(f.listening(8));
        f.requested()
    };
    let id = match state {
        State::Idle => f.id(),
        State::AddrBound => {
            let id = f.id();
            id.bind_addr(own(7)).unwrap();
            id
        }
        State::AddrQuery => {
            f.transport.hold.store(true, SeqCst);
            let id = f.id();
            id.resolve_addr(None, peer(7), WAIT).unwrap();
            id
        }
        State::AddrResolved | State::RouteQuery => {
            let id = f.id();
            id.resolve_addr(None, peer(7), WAIT).unwrap();
            drop(f.event(EventKind::AddrResolved));
            f.transport.hold.store(true, SeqCst);
            if state == State::RouteQuery {
                id.resolve_route(WAIT).unwrap();
            }
            id
        }
        State::RouteResolved => f.resolved(),
        State::Listen => f.listening(8),
        State::Connecting => f.connecting(),
        State::Responded => {
            let id = f.connecting();
            f.transport.last().raise(TransportEvent::Response(received(b""))).unwrap();
            drop(f.event(EventKind::ConnectResponse));
            id
        }
        State::Request => passive(&f),
        State::Accepting => {
            let id = passive(&f);
            id.accept(Some(&param())).unwrap();
            id
        }
        State::Connected => f.connected(),
        State::Disconnecting | State::Disconnected => {
            let id = f.connected();
            id.disconnect().unwrap();
            if state == State::Disconnected {
                f.transport.last().disconnected();
                drop(f.event(EventKind::Disconnected));
            }
            id
        }
        State::Failed => {
            let id = f.connecting();
            f.transport.last().raise(rejected(b"")).unwrap();
            drop(f.event(EventKind::Rejected));
            id
        }
        State::DeviceRemoval => {
            let id = f.connected();
            assert_eq!(f.cm.remove_device(f.key), Ok(1));
            drop(f.event(EventKind::DeviceRemoval));
            id
        }
        State::Destroying => {
            let id = f.connected();
            id.destroy_id().unwrap();
            id
        }
    };
    assert_eq!(id.state(), state);
    f.transport.hold.store(true, SeqCst);
    Case { fixture: f, id, _listener: listener }
}

fn call(case: &Case, call: Call) -> Result<(), Errno> {
    let (id, f) = (&case.id, &case.fixture);
    match call {
        Call::BindAddr => id.bind_addr(own(0)),
        Call::ResolveAddr => id.resolve_addr(None, peer(7), WAIT),
        Call::ResolveRoute => id.resolve_route(WAIT),
        Call::CreateQp => id.create_qp(&f.verbs.pd(), &f.verbs.init()).map(|_| ()),
        Call::DestroyQp => id.destroy_qp(),
        Call::InitQpAttr => id.init_qp_attr(QpState::Init).map(|_| ()),
        Call::Listen => id.listen(8),
        Call::Connect => id.connect(&param()),
        Call::Accept => id.accept(Some(&param())),
        Call::Reject => id.reject(&PrivateData::default()),
        Call::Establish => id.establish(),
        Call::Disconnect => id.disconnect(),
        Call::Notify => id.notify(Notify::CommEst),
        Call::MigrateId => id.migrate_id(&f.channel),
        Call::SetOption => id.set_option(Opt::Tos(8)),
        Call::SetBindOption => id.set_option(Opt::ReuseAddr(true)),
        Call::DestroyId => id.destroy_id(),
    }
}

fn event(transport_id: &ScriptId, child: Arc<dyn TransportId>, kind: Upcalled) -> Result<(), Errno> {
    transport_id.raise(match kind {
        Upcalled::Request => TransportEvent::Request(Request { id: child, local: own(7), remote: peer(9), received: received(b"") }),
        Upcalled::Response => TransportEvent::Response(received(b"")),
        Upcalled::Established => TransportEvent::Established { ends: None, received: received(b"") },
        Upcalled::Rejected => rejected(b"no"),
        Upcalled::Unreachable => TransportEvent::Unreachable(Errno::TimedOut),
        Upcalled::ConnectError => TransportEvent::ConnectError(Errno::Protocol),
        Upcalled::Disconnected => TransportEvent::Disconnected(Ok(())),
        Upcalled::TimewaitExit => TransportEvent::TimewaitExit,
    })
}

#[test]
fn every_call_in_every_state_and_then_every_event() {
    for state in State::ALL {
        for (column, &what) in Call::ALL.iter().enumerate() {
            for (n, &kind) in Upcalled::ALL.iter().enumerate() {
                let case = reach(state);
                let told = format!("{what:?} in {state:?}, then {kind:?}");
                let before = (case.id.get_local_addr(), case.id.get_peer_addr());
                let expected = look_up(CALLS, state, column);
                assert_eq!(call(&case, what), if expected.is_some() { Ok(()) } else { Err(Errno::Invalid) }, "{told}");
                let state = expected.unwrap_or(state);
                assert_eq!(case.id.state(), state, "{told}");
                if expected.is_none() {
                    assert_eq!((case.id.get_local_addr(), case.id.get_peer_addr()), before, "{told}: a refused call changes nothing");
                }
                assert!(case.fixture.channel.try_get_event().is_none(), "{told}: no call makes an event by itself here");
                let ids = case.fixture.transport.ids.lock().unwrap().clone();
                let Some(transport_id) = ids.last() else { continue };
                let child = case.fixture.transport.child();
                let raised = event(transport_id, child.clone(), kind);
                let expected = look_up(EVENTS, state, n);
                assert_eq!(case.id.state(), expected.unwrap_or(state), "{told}");
                let seen = case.fixture.channel.try_get_event();
                assert_eq!(seen.as_ref().map(|e| e.kind()), expected.map(|_| KINDS[n]), "{told}");
                if kind == Upcalled::Request {
                    assert_eq!(raised.is_ok(), expected.is_some(), "{told}: what is not announced is refused below");
                }
                if let Some(event) = seen {
                    assert_eq!(*event.id() == case.id, kind != Upcalled::Request, "{told}");
                }
                assert!(case.fixture.channel.try_get_event().is_none(), "{told}: one event");
            }
        }
    }
}

#[test]
fn what_was_reached_is_given_back() {
    for state in State::ALL {
        let case = reach(state);
        let Case { fixture, id, _listener } = case;
        id.destroy_id().unwrap();
        id.destroy_id().unwrap();
        drop((id, _listener));
        fixture.at_rest();
        // and by giving up the handle alone
        let Case { fixture, id, _listener } = reach(state);
        drop((id, _listener));
        fixture.at_rest();
    }
}

#[test]
fn no_call_makes_trouble_when_its_channel_is_gone() {
    for state in State::ALL {
        for what in Call::ALL {
            let mut case = reach(state);
            case.fixture.channel = EventChannel::new().unwrap();
            let expected = look_up(CALLS, state, Call::ALL.iter().position(|&c| c == what).unwrap());
            assert_eq!(call(&case, what).is_ok(), expected.is_some(), "{what:?} in {state:?}");
        }
    }
}
