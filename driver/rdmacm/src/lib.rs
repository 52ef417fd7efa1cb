// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rdma_cm calls in Rust: the same verbs, the same events, over any connection manager.
//!
//! | librdmacm | here |
//! |---|---|
//! | `rdma_create_event_channel`, `rdma_get_cm_event`, `rdma_ack_cm_event` | [`EventChannel`], [`Event`] (dropped = acknowledged) |
//! | `rdma_create_id`, `rdma_destroy_id`, `rdma_migrate_id` | [`Cm::create_id`], [`Id::destroy_id`], [`Id::migrate_id`] |
//! | `rdma_bind_addr`, `rdma_resolve_addr`, `rdma_resolve_route` | [`Id::bind_addr`], [`Id::resolve_addr`], [`Id::resolve_route`] |
//! | `rdma_create_qp`, `rdma_destroy_qp`, `rdma_init_qp_attr` | [`Id::create_qp`], [`Id::destroy_qp`], [`Id::init_qp_attr`] |
//! | `rdma_listen`, `rdma_accept`, `rdma_reject` | [`Id::listen`], [`Id::accept`], [`Id::reject`] |
//! | `rdma_connect`, `rdma_establish`, `rdma_disconnect`, `rdma_notify` | [`Id::connect`], [`Id::establish`], [`Id::disconnect`], [`Id::notify`] |
//! | `rdma_create_ep`, `rdma_get_request` | [`Endpoint`] |
//!
//! Events are values, read from a channel by the client's own threads: there is no callback, so nothing of the client runs under a lock or on a
//! thread of a device. Every wait ends.
//!
//! Below stands a [`Transport`]. [`IwTransport`] is iWARP's, over `ironwarp-iwcm`.
#![deny(unsafe_code)]

mod channel;
mod cm;
mod connect;
mod core;
mod device;
mod endpoint;
mod event;
mod id;
mod iwarp;
mod listen;
mod param;
mod ports;
mod resolve;
mod state;
mod transport;
mod upcall;

pub use channel::EventChannel;
pub use cm::{Cm, Counts, Stat};
pub use device::{CmDevice, DeviceKey, Network};
pub use endpoint::{ConnectFailure, Endpoint};
pub use event::{Event, EventKind, Payload};
pub use id::{Id, IdRow};
pub use ironwarp_iwcm::{MpaOptions, PrivateData};
pub use ironwarp_verbs::Errno;
pub use iwarp::IwTransport;
pub use listen::DEFAULT_BACKLOG;
pub use param::{ConnParam, InitQpAttr, Notify, Opt, Options, Prepared, Received, MAX_DEPTH};
pub use state::{Call, State, Upcalled};
pub use transport::{Request, Resolver, Transport, TransportAttr, TransportEvent, TransportId, Upcall};

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/programmers-guide.md")]
mod guide {}
