// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP: connections, their two halves, and what segments are made of. `types` says who tells whom what.
pub mod deadlines;
pub mod isn;
pub mod lookup;
pub mod note_queue;
pub mod reassembly;
pub mod rx;
pub mod seg_rx;
pub mod seg_tx;
pub mod syn_guard;
pub mod tx;
pub mod types;
