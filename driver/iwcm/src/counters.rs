// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the connection manager counts.
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters; all but `ids` only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Ids that live: created, or announced by a request, and not yet forgotten by everybody.
    pub ids: AtomicU64,
    /// Events told to clients.
    pub delivered: AtomicU64,
    /// Events of ids that are being destroyed.
    pub swallowed: AtomicU64,
    /// Events that an id cannot have in its state, second replies among them.
    pub odd: AtomicU64,
    /// Events that were not taken because the id's work items were used up.
    pub no_item: AtomicU64,
    /// CONNECT_REQUESTs rejected here: their listener was going away, or the client did not take them.
    pub rejected: AtomicU64,
    /// Waits that ended by their bound.
    pub bounded: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    /// Names and values, in a fixed order.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("cmIds", get(&self.ids)),
            ("cmEventsDelivered", get(&self.delivered)),
            ("cmEventsSwallowed", get(&self.swallowed)),
            ("cmEventsOdd", get(&self.odd)),
            ("cmNoWorkItem", get(&self.no_item)),
            ("cmRejected", get(&self.rejected)),
            ("cmWaitsBounded", get(&self.bounded)),
        ]
    }
}
