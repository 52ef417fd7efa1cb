// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host-integrated iWARP provider: the verbs of [`ironwarp_verbs`] and the [`ironwarp_iwcm::Provider`] in software, over the TCP of the
//! host. It speaks what the adapter speaks (MPA revisions 1 and 2, DDP, RDMAP), so either can be the peer of the other, and both of any
//! other iWARP RNIC.
//!
//! [`Soft`] is a device. Its port space is the host's. A connection has two threads, one that receives and places, one that sends; a listener has
//! one. Nothing polls: every thread waits for its socket or is woken, and each wait ends by a deadline. If the process dies, the host's TCP
//! closes its connections (CM-42).
//!
//! What differs from an adapter: a send is complete when the host's TCP has taken its octets, since the copy it then has is the source of
//! retransmission; and the cut into TCP segments is the host's, which gets one FPDU a call, marked as one record.
#![deny(unsafe_code)]

mod config;
mod connection;
mod counters;
mod cq;
mod device;
mod listener;
mod memory;
mod provider;
mod qp;
mod receive;
mod startup;
mod sync;
mod transmit;

pub use config::SoftConfig;
pub use device::Soft;
