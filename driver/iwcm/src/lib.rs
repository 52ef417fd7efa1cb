// SPDX-License-Identifier: MIT OR Apache-2.0
//! The iWARP connection manager (`iw_cm`): ids, events and their state machine over a [`Provider`]. It has no handshake and no port space of
//! its own: both are the provider's, be it an adapter (offloaded) or the host's TCP (host integrated).
#![deny(unsafe_code)]

mod event;
mod id;
mod provider;

pub use event::{Depths, Event, EventKind, PrivateData};
pub use id::IdRef;
pub use ironwarp_verbs::Errno;
pub use provider::{ConnParam, MpaOptions, Provider, ProviderAttr, QpHandle};
