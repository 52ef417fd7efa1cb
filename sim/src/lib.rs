// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Verilated adapter with a host and wires around it. Nothing here knows a protocol: it moves beats, frames, DMA words and
//! interrupts. Everything the adapter does is in the Verilog.
//!
//! ```text
//!  driver (ironwarp-rnic)
//!    | Bus
//!  InProcessBus (bus)                 vfio-user server (server)
//!    |                                  |
//!  World (world): adapters in lock-step with wires between them
//!    |- Adapter (adapter): one core and what is around its ports
//!    |    |- pins     ports as plain values; the Verilated model
//!    |    |- dma      host side of the DMA seam, over memory (IOVA windows)
//!    |    |- mac      beats <-> frames at the pace of the line
//!    |    |- monitor  invariants of the ports
//!    |    `- record   stamps of what passed, digest of the run
//!    `- Wire (wire): Link, Queue, TapDevice, Captured (pcapng)
//! ```
//!
//! A test in a few lines:
//! ```
//! use ironwarp_rnic::Bus;
//! use ironwarp_sim::{InProcessBus, World};
//! use std::sync::{Arc, Mutex};
//!
//! let world = Arc::new(Mutex::new(World::pair(1, 0, 0)));
//! let mut a = InProcessBus::new(&world, 0);
//! assert_eq!(a.read32(ironwarp_abi::reg::MAGIC).unwrap(), ironwarp_abi::MAGIC);
//! ```
#![deny(unsafe_code)]

pub mod adapter;
pub mod bus;
pub mod dma;
pub mod mac;
pub mod memory;
pub mod monitor;
pub mod pins;
pub mod record;
pub mod server;
pub mod waves;
pub mod wire;
pub mod world;

pub use adapter::{Adapter, AdapterConfig, Mmio};
pub use bus::{InProcessBus, SharedWorld};
pub use dma::{DmaConfig, Latency};
pub use mac::LineRate;
pub use record::Record;
pub use server::SimServer;
pub use world::{AdapterId, World};
