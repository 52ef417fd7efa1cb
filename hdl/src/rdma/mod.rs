// SPDX-License-Identifier: MIT OR Apache-2.0
//! DDP and RDMAP: work queues, memory regions, completions, placement (RFC 5040, 5041). `docs/data-path.md` says how the blocks work together.
pub mod ack_spread;
pub mod completions;
pub mod data_path;
pub mod doorbells;
pub mod item_store;
pub mod owed_reads;
pub mod placer;
pub mod plain_event;
pub mod qps;
pub mod regions;
pub mod rx;
pub mod send_fetch;
pub mod sq;
pub mod types;
