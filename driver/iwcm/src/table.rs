// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state machine of an id as a table: [`transition`] is what the code asks, [`ROWS`] is what documents and tests read.
//!
//! | row | stimulus | from | to | elsewhere |
//! |---|---|---|---|---|
//! | T1 | listen | IDLE | LISTEN | EINVAL |
//! | T2 | connect | IDLE | CONN_SENT | EINVAL |
//! | T3 | CONNECT_REQUEST | LISTEN | stays, a child starts in CONN_RECV | not taken: the provider rejects |
//! | T4 | accept | CONN_RECV | stays until its event; IDLE if the provider refuses | EINVAL |
//! | T5 | reject | CONN_RECV | IDLE | EINVAL |
//! | T6 | ESTABLISHED | CONN_RECV | ESTABLISHED | counted, ignored |
//! | T7 | CONNECT_REPLY, success | CONN_SENT | ESTABLISHED | counted, ignored |
//! | T8 | CONNECT_REPLY, error | CONN_SENT | IDLE | counted, ignored |
//! | T9 | DISCONNECT | ESTABLISHED | CLOSING, not told | ignored |
//! | T10 | CLOSE | ESTABLISHED, CLOSING | IDLE | swallowed in DESTROYING; else counted, ignored |
//! | T11 | disconnect | ESTABLISHED | CLOSING | CLOSING, IDLE, CONN_RECV: success, nothing; else EINVAL |
//! | T12 | destroy | any | DESTROYING | twice: EINVAL |
//! | T13 | init_qp_attr | any but DESTROYING | stays | EINVAL |
use crate::EventKind;
use ironwarp_verbs::Errno;

/// State of an id (`iw_cm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is under way.
    Idle,
    /// It listens.
    Listen,
    /// A peer asks; accept or reject answers.
    ConnRecv,
    /// CONNECT_REPLY is awaited.
    ConnSent,
    /// Connected.
    Established,
    /// The end is under way; CLOSE is awaited.
    Closing,
    /// Its user wants no more of it.
    Destroying,
}

impl State {
    /// All.
    pub const ALL: [State; 7] =
        [State::Idle, State::Listen, State::ConnRecv, State::ConnSent, State::Established, State::Closing, State::Destroying];
    /// As tables show it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "IDLE",
            State::Listen => "LISTEN",
            State::ConnRecv => "CONN_RECV",
            State::ConnSent => "CONN_SENT",
            State::Established => "ESTABLISHED",
            State::Closing => "CLOSING",
            State::Destroying => "DESTROYING",
        }
    }
}

/// What can happen to an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stimulus {
    /// Call.
    Listen,
    /// Call.
    Connect,
    /// Call.
    Accept,
    /// Call.
    Reject,
    /// Call, orderly or abrupt.
    Disconnect,
    /// Call.
    Destroy,
    /// Call.
    InitQpAttr,
    /// Event; `bool`: with success.
    Event(EventKind, bool),
}

impl Stimulus {
    /// All: seven calls, and five events with success and without.
    pub const ALL: [Stimulus; 17] = [
        Stimulus::Listen,
        Stimulus::Connect,
        Stimulus::Accept,
        Stimulus::Reject,
        Stimulus::Disconnect,
        Stimulus::Destroy,
        Stimulus::InitQpAttr,
        Stimulus::Event(EventKind::ConnectRequest, true),
        Stimulus::Event(EventKind::ConnectRequest, false),
        Stimulus::Event(EventKind::ConnectReply, true),
        Stimulus::Event(EventKind::ConnectReply, false),
        Stimulus::Event(EventKind::Established, true),
        Stimulus::Event(EventKind::Established, false),
        Stimulus::Event(EventKind::Disconnect, true),
        Stimulus::Event(EventKind::Disconnect, false),
        Stimulus::Event(EventKind::Close, true),
        Stimulus::Event(EventKind::Close, false),
    ];
}

/// What comes of a stimulus in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state that follows.
    To(State),
    /// As `To`, but the client hears nothing of the event.
    Quiet(State),
    /// A call that succeeds and does nothing.
    Nothing,
    /// A call that is refused.
    Refused(Errno),
    /// An event that may come then and means nothing.
    Ignored,
    /// An event that may not come then: counted and ignored.
    Odd,
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name in the contract.
    pub name: &'static str,
    /// Which stimuli.
    pub stimuli: &'static [Stimulus],
    /// What comes of them where.
    pub outcomes: &'static [(&'static [State], Outcome)],
    /// In all other states.
    pub elsewhere: Outcome,
}

use EventKind::{Close, ConnectReply, ConnectRequest, Disconnect, Established};
const EINVAL: Outcome = Outcome::Refused(Errno::Invalid);

/// The whole table.
pub const ROWS: [Row; 13] = [
    Row { name: "T1", stimuli: &[Stimulus::Listen], outcomes: &[(&[State::Idle], Outcome::To(State::Listen))], elsewhere: EINVAL },
    Row { name: "T2", stimuli: &[Stimulus::Connect], outcomes: &[(&[State::Idle], Outcome::To(State::ConnSent))], elsewhere: EINVAL },
    Row {
        name: "T3",
        // one with a status other than success is not taken in the first place (CM-8)
        stimuli: &[Stimulus::Event(ConnectRequest, true), Stimulus::Event(ConnectRequest, false)],
        outcomes: &[(&[State::Listen], Outcome::To(State::Listen))],
        elsewhere: EINVAL,
    },
    Row { name: "T4", stimuli: &[Stimulus::Accept], outcomes: &[(&[State::ConnRecv], Outcome::To(State::ConnRecv))], elsewhere: EINVAL },
    Row { name: "T5", stimuli: &[Stimulus::Reject], outcomes: &[(&[State::ConnRecv], Outcome::To(State::Idle))], elsewhere: EINVAL },
    Row {
        name: "T6",
        stimuli: &[Stimulus::Event(Established, true), Stimulus::Event(Established, false)],
        outcomes: &[(&[State::ConnRecv], Outcome::To(State::Established))],
        elsewhere: Outcome::Odd,
    },
    Row {
        name: "T7",
        stimuli: &[Stimulus::Event(ConnectReply, true)],
        outcomes: &[(&[State::ConnSent], Outcome::To(State::Established))],
        elsewhere: Outcome::Odd,
    },
    Row {
        name: "T8",
        stimuli: &[Stimulus::Event(ConnectReply, false)],
        outcomes: &[(&[State::ConnSent], Outcome::To(State::Idle))],
        elsewhere: Outcome::Odd,
    },
    Row {
        name: "T9",
        stimuli: &[Stimulus::Event(Disconnect, true), Stimulus::Event(Disconnect, false)],
        outcomes: &[(&[State::Established], Outcome::Quiet(State::Closing))],
        elsewhere: Outcome::Ignored,
    },
    Row {
        name: "T10",
        stimuli: &[Stimulus::Event(Close, true), Stimulus::Event(Close, false)],
        outcomes: &[
            (&[State::Established, State::Closing], Outcome::To(State::Idle)),
            (&[State::Destroying], Outcome::Quiet(State::Destroying)),
        ],
        elsewhere: Outcome::Odd,
    },
    Row {
        name: "T11",
        stimuli: &[Stimulus::Disconnect],
        outcomes: &[
            (&[State::Established], Outcome::To(State::Closing)),
            (&[State::Closing, State::Idle, State::ConnRecv], Outcome::Nothing),
        ],
        elsewhere: EINVAL,
    },
    Row {
        name: "T12",
        stimuli: &[Stimulus::Destroy],
        outcomes: &[(
            &[State::Idle, State::Listen, State::ConnRecv, State::ConnSent, State::Established, State::Closing],
            Outcome::To(State::Destroying),
        )],
        elsewhere: EINVAL,
    },
    Row {
        name: "T13",
        stimuli: &[Stimulus::InitQpAttr],
        outcomes: &[(
            &[State::Idle, State::Listen, State::ConnRecv, State::ConnSent, State::Established, State::Closing],
            Outcome::Nothing,
        )],
        elsewhere: EINVAL,
    },
];

/// What comes of `stimulus` in `state`.
pub fn transition(state: State, stimulus: Stimulus) -> Outcome {
    let Some(row) = ROWS.iter().find(|row| row.stimuli.contains(&stimulus)) else { return Outcome::Odd };
    let found = row.outcomes.iter().find(|(from, _)| from.contains(&state));
    found.map_or(row.elsewhere, |(_, outcome)| *outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stimulus_has_one_row_and_every_state_one_outcome() {
        for stimulus in Stimulus::ALL {
            let rows: Vec<_> = ROWS.iter().filter(|row| row.stimuli.contains(&stimulus)).collect();
            assert_eq!(rows.len(), 1, "{stimulus:?}");
            for state in State::ALL {
                assert!(rows[0].outcomes.iter().filter(|(from, _)| from.contains(&state)).count() <= 1, "{stimulus:?} in {state:?}");
            }
        }
    }
}
