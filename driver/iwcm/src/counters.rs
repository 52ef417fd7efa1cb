// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the connection manager counts.
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters. `ids`, `id_refs` and `qp_refs` go up and down and are zero when all is over; the others only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Ids that live: created, or announced by a request, and not yet forgotten by everybody.
    pub ids: AtomicU64,
    /// References to ids that providers hold.
    pub id_refs: AtomicU64,
    /// References to queue pairs that ids hold.
    pub qp_refs: AtomicU64,
    /// Events told to clients.
    pub delivered: AtomicU64,
    /// Events of ids that are being destroyed, or whose device is gone.
    pub swallowed: AtomicU64,
    /// Events that an id cannot have in its state, second replies among them.
    pub odd: AtomicU64,
    /// Second replies: CONNECT_REPLY for an id that awaits none.
    pub duplicate_replies: AtomicU64,
    /// Events that were not taken because the id's work items were used up.
    pub no_item: AtomicU64,
    /// CONNECT_REQUESTs that were not taken: the listener was going away, or they had a status.
    pub refused: AtomicU64,
    /// CONNECT_REQUESTs rejected here: their listener was going away, or the client did not take them.
    pub rejected: AtomicU64,
    /// Waits that ended by their bound.
    pub bounded: AtomicU64,
    /// Handlers that panicked; their ids were destroyed.
    pub panics: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn sub(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }
    /// Names and values, in a fixed order.
    pub fn rows(&self) -> [(&'static str, u64); 12] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("cmIds", get(&self.ids)),
            ("cmIdRefs", get(&self.id_refs)),
            ("cmQpRefs", get(&self.qp_refs)),
            ("cmEventsDelivered", get(&self.delivered)),
            ("cmEventsSwallowed", get(&self.swallowed)),
            ("cmEventsOdd", get(&self.odd)),
            ("cmDuplicateReplies", get(&self.duplicate_replies)),
            ("cmNoWorkItem", get(&self.no_item)),
            ("cmRefused", get(&self.refused)),
            ("cmRejected", get(&self.rejected)),
            ("cmWaitsBounded", get(&self.bounded)),
            ("cmHandlerPanics", get(&self.panics)),
        ]
    }
}
