// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust-HDL -> Verilog -> Verilator -> static library and Rust binding, for every block of the catalog that is simulated, or for
//! those named in IRONWARP_ONLY (separated by commas): a quicker build for work on one block and its test.
//!
//! IRONWARP_PROFILE=large: `ironwarp_core` is the core of that profile, of which nobody else sees a difference but more of everything.
use ironwarp_hdl::catalog::{Entry, CATALOG};

fn main() {
    println!("cargo:rerun-if-env-changed=IRONWARP_ONLY");
    println!("cargo:rerun-if-env-changed=IRONWARP_PROFILE");
    let only = std::env::var("IRONWARP_ONLY").unwrap_or_default();
    let wanted = move |name: &str| only.is_empty() || only.split(',').any(|n| n == name);
    let large = match std::env::var("IRONWARP_PROFILE").as_deref() {
        Ok("large") => true,
        Ok("" | "ecp5") | Err(_) => false,
        Ok(other) => panic!("IRONWARP_PROFILE={other}: there are ecp5 and large"),
    };
    let emit = move |entry: &Entry| match CATALOG.iter().find(|e| large && e.name == format!("{}_large", entry.name)) {
        Some(grown) if entry.name == "ironwarp_core" => grown.emit_as(entry.name),
        _ => entry.emit(),
    };
    // elaboration of wide values needs more stack than the main thread has
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || ironwarp_vbuild::build(CATALOG.iter().filter(|e| e.simulate && wanted(e.name)).map(emit).collect()))
        .expect("thread")
        .join()
        .expect("models were built");
}
