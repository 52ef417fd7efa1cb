// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wires: what frames travel on between an adapter's MAC and something else.
//!
//! | wire | other side |
//! |---|---|
//! | [`Link`] | another adapter, after a delay |
//! | [`Queue`] | a test, through a [`QueueHandle`] |
//! | [`TapDevice`] | the network stack of this machine |
//! | [`Captured`] | any of these; writes pcapng |
//! | [`Faulty`] | any of these; loses, doubles, reorders, delays and damages frames |
//!
//! Line pace and the 24 octets of overhead a frame are the MAC's ([`crate::mac`]); a wire carries whole frames.
mod capture;
mod faulty;
mod link;
mod queue;
mod tap;

pub use capture::{Captured, Timestamps, View};
pub use faulty::{Fault, FaultCounts, FaultHandle, FaultRates, Faulty};
pub use link::Link;
pub use queue::{Queue, QueueHandle};
pub use tap::{TapDevice, TapError};

use std::os::fd::BorrowedFd;

/// A frame without preamble and FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// From the first octet of the destination address.
    pub octets: Vec<u8>,
    /// Damaged on the way: the receiving MAC finds a wrong FCS.
    pub error: bool,
}

impl Frame {
    /// An undamaged frame.
    pub fn good(octets: Vec<u8>) -> Self {
        Frame { octets, error: false }
    }
}

/// A frame that a core gave to its MAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFrame {
    /// The frame.
    pub frame: Frame,
    /// Cycle of its first beat.
    pub first: u64,
    /// Cycle of its last beat.
    pub last: u64,
    /// First cycle at which the line has carried all of it, FCS included.
    pub end: u64,
}

/// A wire with one or more ends at which adapters are attached.
pub trait Wire: Send {
    /// Number of ends for adapters.
    fn ends(&self) -> usize;
    /// The adapter at `end` has sent a frame.
    fn send(&mut self, end: usize, sent: SentFrame);
    /// A frame that has arrived at `end` by cycle `now`, oldest first. Called in every cycle in which the adapter has room.
    fn receive(&mut self, end: usize, now: u64) -> Option<Frame>;
    /// No frame is on its way inside.
    fn idle(&self) -> bool;
    /// Becomes readable when a frame enters from outside of the model.
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Nothing happens for a while: a good moment to write buffers out.
    fn rest(&mut self) {}
}
