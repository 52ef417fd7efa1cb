// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ironwarp adapter in Rust-HDL: one hardware block is one file; the emitted Verilog is the product.
//!
//! Read `docs/architecture.md` first. Verilator on the emitted Verilog is the reference; the Rust simulation of a block
//! is only for quick looks, because rust-hdl gives the two a different meaning in places (`lint` finds those places).
#![deny(unsafe_code)]
// Fields of rust-hdl blocks are wires; their names are documented by the block's header.
#![allow(missing_docs, clippy::new_without_default)]

pub mod catalog;
pub mod cm;
pub mod connections;
pub mod core;
pub mod elaborate;
pub mod host;
pub mod lint;
pub mod mpa;
pub mod net;
pub mod rdma;
pub mod stream;
pub mod tcp;
