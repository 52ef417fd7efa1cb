// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::cmd_split`: every opcode goes where it belongs.
use ironwarp_models::{cmd_split::Model, Dut};

#[test]
fn opcodes_8_to_15_are_for_connections_and_all_others_for_the_engine() {
    let mut m = Model::new(1);
    for opcode in 0..=255u64 {
        for pins in 0..8u64 {
            let [valid, engine, conn] = [pins & 1 != 0, pins & 2 != 0, pins & 4 != 0];
            m.cmd_valid.set(valid);
            m.cmd_data_opcode.set(opcode);
            m.cmd_data_context.set(opcode * 0x0101_0101);
            m.cmd_data_timeout_us.set(!opcode & 0xffff_ffff);
            m.engine_ready.set(engine);
            m.conn_ready.set(conn);
            m.eval();
            let of_conn = (8..16).contains(&opcode);
            assert_eq!((m.conn_valid.get(), m.engine_valid.get()), (valid && of_conn, valid && !of_conn), "opcode {opcode}");
            assert_eq!(m.cmd_ready.get(), if of_conn { conn } else { engine }, "opcode {opcode}");
            for (o, context, timeout) in [
                (m.conn_data_opcode.get(), m.conn_data_context.get(), m.conn_data_timeout_us.get()),
                (m.engine_data_opcode.get(), m.engine_data_context.get(), m.engine_data_timeout_us.get()),
            ] {
                assert_eq!((o, context, timeout), (opcode, opcode * 0x0101_0101, !opcode & 0xffff_ffff));
            }
        }
    }
}
