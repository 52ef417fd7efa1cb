// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offloaded provider: the driver of the ironwarp adapter.
#![deny(unsafe_code)]

pub mod bus;
pub mod dma;

pub use bus::{Bus, BusError};
pub use dma::DmaMemory;
