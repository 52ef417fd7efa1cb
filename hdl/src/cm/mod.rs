// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection management: commands, events, port database, listeners.
pub mod bit_place;
pub mod bit_ram;
pub mod cmd_split;
pub mod conn;
pub mod conn_types;
pub mod engine;
pub mod listener_cam;
pub mod messages;
pub mod port_db;
pub mod port_share;
pub mod port_types;
pub mod qp_link;
pub mod range_mask;
pub mod rules;
