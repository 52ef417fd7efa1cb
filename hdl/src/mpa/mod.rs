// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPA: the start-up frames of a connection.
pub mod crc32c;
pub mod negotiate;
pub mod rx;
pub mod start_rx;
pub mod start_tx;
pub mod types;
