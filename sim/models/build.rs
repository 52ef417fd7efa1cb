// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust-HDL -> Verilog -> Verilator -> static library and Rust binding, for every block of the catalog that is simulated, or for
//! those named in IRONWARP_ONLY (separated by commas): a quicker build for work on one block and its test.
use ironwarp_hdl::catalog::CATALOG;

fn main() {
    println!("cargo:rerun-if-env-changed=IRONWARP_ONLY");
    let only = std::env::var("IRONWARP_ONLY").unwrap_or_default();
    let wanted = move |name: &str| only.is_empty() || only.split(',').any(|n| n == name);
    // elaboration of wide values needs more stack than the main thread has
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || ironwarp_vbuild::build(CATALOG.iter().filter(|e| e.simulate && wanted(e.name)).map(|e| e.emit()).collect()))
        .expect("thread")
        .join()
        .expect("models were built");
}
