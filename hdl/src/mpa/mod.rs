// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPA: the start-up frames of a connection.
pub mod crc32c;
pub mod framer;
pub mod gather;
pub mod negotiate;
pub mod payload_in;
pub mod payload_out;
pub mod rx;
pub mod seal;
pub mod slot_ram;
pub mod start_rx;
pub mod start_tx;
pub mod tx;
pub mod types;
