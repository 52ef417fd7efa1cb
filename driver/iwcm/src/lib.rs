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
//!
//! # Example
//!
//! An echo of the set-up: a client and a server over any provider that can reach itself. This one here knows nothing but a listener and one connection to
//! it; `ironwarp-soft` and `ironwarp-rnic` bring real ones.
//!
//! ```
//! use ironwarp_iwcm::*;
//! use ironwarp_verbs::QpState;
//! use std::sync::{mpsc, Arc, Mutex};
//! # #[derive(Default)]
//! # struct Loopback(Mutex<(Option<IdRef>, Option<IdRef>)>);
//! # fn event(kind: EventKind) -> Event {
//! #     let address = "127.0.0.1:7471".parse().unwrap();
//! #     Event::new(kind, address, address)
//! # }
//! # impl Provider for Loopback {
//! #     fn query(&self) -> ProviderAttr {
//! #         ProviderAttr { name: "lo".into(), node_guid: 0, addresses: vec![], max_ird: 1, max_ord: 1 }
//! #     }
//! #     fn get_qp(&self, qpn: u32) -> Option<QpHandle> { Some(QpHandle(qpn.into())) }
//! #     fn add_ref(&self, _: QpHandle) {}
//! #     fn rem_ref(&self, _: QpHandle) {}
//! #     fn modify_qp(&self, _: QpHandle, _: QpState) -> Result<(), Errno> {
//! #         let active = self.0.lock().unwrap().1.take();
//! #         active.map_or(Ok(()), |id| id.event(event(EventKind::Close)))
//! #     }
//! #     fn connect(&self, id: IdRef, _: &ConnParam) -> Result<(), Errno> {
//! #         let listener = self.0.lock().unwrap().0.clone().ok_or(Errno::ConnectionRefused)?;
//! #         self.0.lock().unwrap().1 = Some(id);
//! #         listener.event(event(EventKind::ConnectRequest))
//! #     }
//! #     fn accept(&self, id: IdRef, _: &ConnParam) -> Result<(), Errno> {
//! #         id.event(event(EventKind::Established))?;
//! #         let active = self.0.lock().unwrap().1.clone();
//! #         active.map_or(Ok(()), |id| id.event(event(EventKind::ConnectReply)))?;
//! #         id.event(event(EventKind::Close))
//! #     }
//! #     fn reject(&self, _: IdRef, _: &PrivateData) -> Result<(), Errno> { Ok(()) }
//! #     fn create_listen(&self, id: IdRef, _: u32) -> Result<(), Errno> {
//! #         self.0.lock().unwrap().0 = Some(id);
//! #         Ok(())
//! #     }
//! #     fn destroy_listen(&self, _: IdRef) -> Result<(), Errno> {
//! #         let gone = self.0.lock().unwrap().0.take();
//! #         drop(gone);
//! #         Ok(())
//! #     }
//! # }
//!
//! let cm = IwCm::new();
//! let device = cm.add_device(Arc::new(Loopback::default()));
//!
//! // the server accepts with queue pair 2 whatever comes; a clone keeps its child
//! let children = Mutex::new(vec![]);
//! let listener = cm.create_id(device, Arc::new(move |child, event| {
//!     if event.kind != EventKind::ConnectRequest {
//!         return Verdict::Keep;
//!     }
//!     children.lock().unwrap().push(child.clone());
//!     match child.accept(&ConnParam { qpn: 2, ..ConnParam::default() }) {
//!         Ok(()) => Verdict::Keep,
//!         Err(_) => Verdict::Destroy,
//!     }
//! }))?;
//! listener.bind("127.0.0.1:7471".parse().unwrap())?;
//! listener.listen(16)?;
//!
//! // the client connects, is told of it, and hangs up
//! let (tell, told) = mpsc::channel();
//! let tell = Mutex::new(tell);
//! let id = cm.create_id(device, Arc::new(move |id, event| {
//!     let _ = tell.lock().unwrap().send((event.kind, event.status, id.state()));
//!     Verdict::Keep
//! }))?;
//! id.set_remote("127.0.0.1:7471".parse().unwrap())?;
//! id.connect(&ConnParam { qpn: 1, ..ConnParam::default() })?;
//! assert_eq!(told.recv().unwrap(), (EventKind::ConnectReply, Ok(()), State::Established));
//! id.disconnect(false)?;
//! assert_eq!(told.recv().unwrap(), (EventKind::Close, Ok(()), State::Idle));
//! id.destroy()?;
//! listener.destroy()?;
//! # Ok::<(), Errno>(())
//! ```
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
