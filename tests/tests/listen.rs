// SPDX-License-Identifier: MIT OR Apache-2.0
//! LISTEN and its answers: the production driver on the generated Verilog.
use ironwarp_tests::{assert_clean, config, single, ANY};

/// Covers: PDB-1, CM-21, CM-33
#[test]
fn port_zero_is_chosen_by_the_adapter() {
    let (world, mut a) = single(1, config(1, 1));
    let listener = a.create_listen(ANY, 0, 8).expect("LISTEN_REPLY");
    assert!(listener.port >= 49152, "{listener:?}");
    a.destroy_listen(listener).expect("FREED");
    assert_clean(&world);
}
