// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust-HDL -> Verilog -> Verilator -> static library and Rust binding, for every block of the catalog that is simulated.
use ironwarp_hdl::catalog::CATALOG;

fn main() {
    // elaboration of wide values needs more stack than the main thread has
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(|| ironwarp_vbuild::build(CATALOG.iter().filter(|e| e.simulate).map(|e| e.emit()).collect()))
        .expect("thread")
        .join()
        .expect("models were built");
}
