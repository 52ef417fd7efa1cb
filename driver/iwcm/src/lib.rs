// SPDX-License-Identifier: MIT OR Apache-2.0
//! The iWARP connection manager (`iw_cm`): ids, events and their state machine over a [`Provider`]. It has no handshake and no port space of
//! its own: both are the provider's, be it an adapter (offloaded) or the host's TCP (host integrated).
//!
//! ```text
//!  client:   CmId::{bind, listen, connect, accept, reject, disconnect, destroy}      Handler(&CmId, &Event) -> Verdict
//!                    |  at once, no lock held                                              ^ one thread, in order
//!            [ state and flags of the id: table.rs ]  <------- transition when told ------ [ queue: cm.rs ]
//!                    v                                                                     ^ never waits, calls nobody
//!  provider: Provider::{create_listen, connect, accept, reject, modify_qp, ...}        IdRef::event(Event)
//! ```
//!
//! References go both ways and make no circle: the connection manager holds a queue pair by [`Provider::get_qp`] and [`Provider::rem_ref`] from connect or
//! accept to CLOSE; the provider holds an id by [`IdRef`] from a verb to its last event. Either may be destroyed first: destroying a
//! queue pair waits for the one, destroying an id for the other.
//!
//! Rules for clients: events may come before the call that causes them has returned. In a handler nothing may be waited for that is itself an event; what
//! would is refused with EDEADLK. After [`CmId::destroy`] has returned no handler of that id runs. Work items are set aside when a call is made
//! ([`id::CONNECT_ITEMS`], [`id::CHILD_ITEMS`], a listener's backlog), so that raising an event never needs memory that may not be there; a listener whose items
//! are used up makes its provider reject.
#![deny(unsafe_code)]

mod any;
mod cm;
mod counters;
mod event;
pub mod id;
mod inner;
mod provider;
mod queue;
mod sync;
mod table;

pub use any::AnyListener;
pub use cm::{DeviceChange, DeviceId, IwCm, Observer, Observing};
pub use counters::Counters;
pub use event::{Depths, Event, EventKind, PrivateData};
pub use id::{CmId, Handler, IdRef, InitQpAttr, Verdict};
pub use ironwarp_verbs::Errno;
pub use provider::{ConnParam, MpaOptions, Provider, ProviderAttr, QpHandle};
pub use table::{transition, Outcome, Row, State, Stimulus, ROWS};
