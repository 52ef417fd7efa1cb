// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verilated blocks: `ironwarp_models::<block>::Model`, with a typed field for each port, and the [`Dut`] trait to clock them.
//!
//! The `verilated` crate brings Verilator's runtime and its global calls ([`verilator_version`]); the binding of each model is our
//! own, made by `ironwarp-vbuild`: the crate's macro for models expects Verilator 4.
pub mod bench;
pub mod port;
pub use port::Dut;

include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// Version of Verilator that made the models.
pub fn verilator_version() -> String {
    verilated::product_version().to_string_lossy().into_owned()
}
