// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of states, tried: an id is brought into every state it can be in, gets every stimulus there is, and must answer as the contract says.
//!
//! What the contract says is written here once more, as an independent copy. Beside the seven states there are those that differ by an event that is
//! owed: an accept under way is CONN_RECV still. Before accept a provider has no reference to a child, so no event of a child can be
//! raised there: the types do not let it.
mod scripted;

use ironwarp_iwcm::{transition, CmId, Errno, EventKind, IdRef, Outcome, PrivateData, State, Stimulus, ROWS};
use ironwarp_verbs::QpState;
use scripted::{drain, param, pumped, Call, Rig, Verb};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// Where an id is, and what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Idle,
    Listen,
    ConnRecv,
    /// CONN_RECV, ESTABLISHED owed.
    Accepting,
    ConnSent,
    /// By connect.
    Established,
    /// By accept.
    Accepted,
    /// The peer's FIN has come.
    PeerClosing,
    /// By disconnect.
    Closing,
    /// With a reference of the provider still held.
    Destroying,
}

const PLACES: [Place; 10] = [
    Place::Idle,
    Place::Listen,
    Place::ConnRecv,
    Place::Accepting,
    Place::ConnSent,
    Place::Established,
    Place::Accepted,
    Place::PeerClosing,
    Place::Closing,
    Place::Destroying,
];

impl Place {
    fn state(self) -> State {
        match self {
            Place::Idle => State::Idle,
            Place::Listen => State::Listen,
            Place::ConnRecv | Place::Accepting => State::ConnRecv,
            Place::ConnSent => State::ConnSent,
            Place::Established | Place::Accepted => State::Established,
            Place::PeerClosing | Place::Closing => State::Closing,
            Place::Destroying => State::Destroying,
        }
    }
}

/// An id in a place, with what the provider raises its events by.
struct Case {
    rig: Rig,
    id: CmId,
    /// Kept to clean up: a listener whose child `id` is.
    _listener: Option<CmId>,
    reference: Option<Arc<IdRef>>,
}

fn case(place: Place) -> Case {
    let rig = Rig::new();
    rig.cm.set_bound(Duration::from_millis(2));
    let mut listener = None;
    let (id, reference) = match place {
        Place::Idle => {
            // the reference of a connect that failed: the provider keeps it longer than it may
            let id = rig.id();
            id.connect(&param(1)).unwrap();
            let connection = rig.provider.connection_of(1);
            let reference = rig.provider.id_of(connection);
            rig.provider.end(connection, EventKind::ConnectReply, Err(Errno::TimedOut)).unwrap();
            drain(&rig.cm);
            (id, Some(reference))
        }
        Place::Listen => (rig.listener(7000, 2), Some(rig.provider.listener(7000))),
        Place::ConnRecv | Place::Accepting | Place::Accepted => {
            listener = Some(rig.listener(7000, 2));
            let connection = rig.provider.request(7000, b"").unwrap();
            drain(&rig.cm);
            let id = rig.client.child();
            if place == Place::ConnRecv {
                (id, None)
            } else {
                id.accept(&param(1)).unwrap();
                if place == Place::Accepted {
                    rig.provider.raise(connection, EventKind::Established, Ok(())).unwrap();
                    drain(&rig.cm);
                }
                (id, Some(rig.provider.id_of(connection)))
            }
        }
        Place::ConnSent => {
            let id = rig.id();
            id.connect(&param(1)).unwrap();
            (id, Some(rig.provider.id_of(rig.provider.connection_of(1))))
        }
        Place::Established | Place::PeerClosing | Place::Closing => {
            let (id, connection) = rig.connected(1);
            rig.provider.set_obliging(false);
            match place {
                Place::PeerClosing => rig.provider.raise(connection, EventKind::Disconnect, Ok(())).unwrap(),
                Place::Closing => id.disconnect(false).unwrap(),
                _ => {}
            }
            drain(&rig.cm);
            (id, Some(rig.provider.id_of(connection)))
        }
        Place::Destroying => {
            let (id, connection) = rig.connected(1);
            rig.provider.set_obliging(false);
            assert_eq!(id.destroy(), Err(Errno::TimedOut), "the provider holds a reference");
            (id, Some(rig.provider.id_of(connection)))
        }
    };
    assert_eq!(id.state(), place.state(), "{place:?}");
    rig.client.told();
    rig.provider.calls();
    rig.provider.set_obliging(false);
    Case { rig, id, _listener: listener, reference }
}

/// What must come of it: the call's or the raiser's result, the state that follows, events told, and calls of the provider.
#[derive(Debug, PartialEq)]
struct Expected {
    result: Result<(), Errno>,
    state: State,
    told: bool,
    odd: u64,
    verb: Option<&'static str>,
}

/// The contract, written down once more.
fn expected(place: Place, stimulus: Stimulus) -> Expected {
    let stay = place.state();
    let expect = |result, state, told, odd, verb| Expected { result, state, told, odd, verb };
    let call = |state, verb| expect(Ok(()), state, false, 0, verb);
    let invalid = expect(Err(Errno::Invalid), stay, false, 0, None);
    let odd = expect(Ok(()), stay, false, 1, None);
    let told = |state| expect(Ok(()), state, true, 0, None);
    // no work items are set aside for what has not begun, or is going away
    match (stimulus, place) {
        (Stimulus::Listen, Place::Idle) => call(State::Listen, Some("CreateListen")),
        (Stimulus::Connect, Place::Idle) => call(State::ConnSent, Some("Connect")),
        (Stimulus::Accept, Place::ConnRecv) => call(State::ConnRecv, Some("Accept")),
        (Stimulus::Reject, Place::ConnRecv) => call(State::Idle, Some("Reject")),
        (Stimulus::Listen | Stimulus::Connect | Stimulus::Accept | Stimulus::Reject, _) => invalid,
        (Stimulus::Disconnect, Place::Established | Place::Accepted) => call(State::Closing, Some("ModifyQp")),
        (Stimulus::Disconnect, Place::Closing | Place::PeerClosing | Place::Idle | Place::ConnRecv) => call(stay, None),
        // waits for the event that is owed
        (Stimulus::Disconnect, Place::ConnSent | Place::Accepting) => expect(Err(Errno::TimedOut), stay, false, 0, None),
        (Stimulus::Disconnect, Place::Listen | Place::Destroying) => invalid,
        (Stimulus::Destroy, Place::Destroying) => invalid,
        (Stimulus::Destroy, Place::ConnRecv) => call(State::Destroying, Some("Reject")),
        // their references are held by the test: the wait for them ends by its bound
        (Stimulus::Destroy, Place::Listen) => expect(Err(Errno::TimedOut), State::Destroying, false, 0, Some("DestroyListen")),
        (Stimulus::Destroy, Place::Idle) => expect(Err(Errno::TimedOut), State::Destroying, false, 0, None),
        // closing in order, until the bound: then reset
        (Stimulus::Destroy, _) => expect(Err(Errno::TimedOut), State::Destroying, false, 0, Some("ModifyQp")),
        (Stimulus::InitQpAttr, Place::Destroying) => invalid,
        (Stimulus::InitQpAttr, _) => call(stay, None),
        (Stimulus::Event(EventKind::ConnectRequest, true), Place::Listen) => told(State::Listen),
        (Stimulus::Event(EventKind::ConnectRequest, _), _) => invalid,
        // swallowed
        (Stimulus::Event(..), Place::Destroying) => call(State::Destroying, None),
        (Stimulus::Event(EventKind::ConnectReply, true), Place::ConnSent) => told(State::Established),
        (Stimulus::Event(EventKind::ConnectReply, false), Place::ConnSent) => told(State::Idle),
        (Stimulus::Event(EventKind::Established, _), Place::Accepting) => told(State::Established),
        (Stimulus::Event(EventKind::Disconnect, _), Place::Established | Place::Accepted) => call(State::Closing, None),
        (Stimulus::Event(EventKind::Disconnect, _), _) => call(stay, None),
        (Stimulus::Event(EventKind::Close, _), Place::Established | Place::Accepted | Place::Closing | Place::PeerClosing) => {
            told(State::Idle)
        }
        (Stimulus::Event(..), _) => odd,
    }
}

fn apply(case: &Case, stimulus: Stimulus) -> Option<Result<(), Errno>> {
    let id = &case.id;
    Some(match stimulus {
        Stimulus::Listen => id.listen(1),
        Stimulus::Connect => id.connect(&param(2)),
        Stimulus::Accept => id.accept(&param(2)),
        Stimulus::Reject => id.reject(&PrivateData::default()),
        Stimulus::Disconnect => id.disconnect(false),
        Stimulus::Destroy => pumped(&case.rig.cm, || id.destroy()),
        Stimulus::InitQpAttr => id.init_qp_attr(QpState::Init).map(|_| ()),
        Stimulus::Event(kind, success) => {
            let reference = case.reference.as_ref()?;
            let status = if success { Ok(()) } else { Err(Errno::ConnectionReset) };
            let ends = (scripted::address(scripted::LOCAL), scripted::address(scripted::REMOTE));
            reference.event(ironwarp_iwcm::Event { status, ..ironwarp_iwcm::Event::new(kind, ends.0, ends.1) })
        }
    })
}

fn name(call: &Call) -> &'static str {
    match call {
        Call::Connect(_) => "Connect",
        Call::Accept(_) => "Accept",
        Call::Reject(..) => "Reject",
        Call::CreateListen(..) => "CreateListen",
        Call::DestroyListen(_) => "DestroyListen",
        Call::ModifyQp(..) => "ModifyQp",
    }
}

/// Covers: CM-2, CM-11, CM-12, CM-16
#[test]
fn every_stimulus_in_every_state_does_what_the_contract_says() {
    let mut rows = BTreeSet::new();
    for place in PLACES {
        for stimulus in Stimulus::ALL {
            let what = format!("{stimulus:?} in {place:?}");
            let case = case(place);
            let counters = case.rig.cm.counters();
            let odd = counters.rows();
            let odd = odd.iter().find(|row| row.0 == "cmEventsOdd").unwrap().1;
            let Some(result) = apply(&case, stimulus) else {
                assert_eq!(place, Place::ConnRecv, "{what}: a provider has a reference everywhere else");
                continue;
            };
            drain(&case.rig.cm);
            let told = !case.rig.client.told().is_empty();
            let calls = case.rig.provider.calls();
            let found = Expected {
                result,
                state: case.id.state(),
                told,
                odd: counters.odd.load(std::sync::atomic::Ordering::Relaxed) - odd,
                verb: calls.first().map(name),
            };
            assert_eq!(found, expected(place, stimulus), "{what}");
            assert!(calls.len() <= 1, "{what}: {calls:?}");

            // the table that the code asks says the same, where an event that is owed makes no difference
            let row = ROWS.iter().find(|row| row.stimuli.contains(&stimulus)).unwrap();
            rows.insert(row.name);
            match transition(place.state(), stimulus) {
                Outcome::To(next) | Outcome::Quiet(next) => {
                    if result.is_ok() && found.odd == 0 && place != Place::Destroying {
                        assert_eq!(next, found.state, "{what}");
                    }
                }
                Outcome::Refused(why) => assert!(result == Err(why) || result == Err(Errno::TimedOut), "{what}"),
                Outcome::Nothing | Outcome::Ignored | Outcome::Odd => assert_eq!(found.state, place.state(), "{what}"),
            }
            finish(case);
        }
    }
    let names: BTreeSet<_> = (1..=13).map(|n| format!("T{n}")).collect();
    assert_eq!(rows.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), names, "all rows were tried");
}

/// Whatever the id is in, destroying it and letting go leaves nothing.
fn finish(case: Case) {
    let Case { rig, id, _listener, reference } = case;
    drop(reference);
    rig.provider.set_obliging(true);
    rig.cm.set_bound(Duration::from_millis(5));
    let _ = rig.destroy(id);
    for qpn in 1..=2 {
        if let Some(connection) = rig.provider.find_connection(qpn) {
            rig.provider.forget(connection);
        }
    }
    drop(_listener);
    rig.end();
}

/// A second accept, or a reject, while the first accept waits for its event.
#[test]
fn an_accept_under_way_is_not_answered_twice() {
    let case = case(Place::Accepting);
    assert_eq!(case.id.accept(&param(2)), Err(Errno::Invalid));
    assert_eq!(case.id.reject(&PrivateData::default()), Err(Errno::Invalid));
    assert_eq!(case.rig.provider.calls(), []);
    assert_eq!(case.rig.provider.qp_refs(2), 0);
    finish(case);
}

/// Every call that a provider refuses leaves the id as it was, or IDLE, and takes nothing.
///
/// Covers: CM-3, CM-5, CM-21
#[test]
fn a_verb_that_fails_raises_nothing_and_keeps_nothing() {
    for why in [Errno::NoMemory, Errno::AddressInUse, Errno::HostUnreachable, Errno::Io, Errno::Other(200)] {
        let case1 = case(Place::ConnRecv);
        case1.rig.provider.fail(Verb::Accept, why);
        assert_eq!(case1.id.accept(&param(1)), Err(why));
        assert_eq!(case1.id.state(), State::Idle, "T4");
        assert_eq!(case1.id.reject(&PrivateData::default()), Err(Errno::Invalid), "it is idle already");
        let rig = Rig::new();
        let id = rig.id();
        rig.provider.fail(Verb::Connect, why);
        assert_eq!(id.connect(&param(1)), Err(why));
        assert_eq!(id.state(), State::Idle, "T2");
        rig.provider.fail(Verb::CreateListen, why);
        assert_eq!(id.listen(1), Err(why));
        assert_eq!(id.state(), State::Idle, "T1");
        assert_eq!((rig.provider.qp_refs(1), case1.rig.provider.qp_refs(1)), (0, 0));
        for rig in [&rig, &case1.rig] {
            drain(&rig.cm);
            assert_eq!(rig.client.told(), []);
        }
        // and it can be tried again
        id.connect(&param(1)).unwrap();
        rig.provider.end(rig.provider.connection_of(1), EventKind::ConnectReply, Err(why)).unwrap();
        assert_eq!(rig.destroy(id), Ok(()));
        rig.end();
        finish(case1);
    }
}

/// Covers: CM-29
#[test]
fn attributes_for_a_queue_pair() {
    let rig = Rig::new();
    let id = rig.id();
    let init = id.init_qp_attr(QpState::Init).unwrap();
    assert_eq!(init.state, Some(QpState::Init));
    let access = ironwarp_verbs::Access::LOCAL_WRITE | ironwarp_verbs::Access::REMOTE_WRITE | ironwarp_verbs::Access::REMOTE_READ;
    assert_eq!(init.access, access);
    let rts = id.init_qp_attr(QpState::Rts).unwrap();
    assert_eq!((rts.state, rts.access), (None, ironwarp_verbs::Access::empty()));
    for state in [QpState::Sqd, QpState::Terminate, QpState::Error] {
        assert_eq!(id.init_qp_attr(state), Err(Errno::Invalid));
    }
    drop(id);
    rig.end();
}
