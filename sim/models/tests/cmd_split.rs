// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::cmd_split`: every opcode goes where it belongs.
use ironwarp_models::{cmd_split::Model, Dut};

#[test]
fn opcodes_8_to_15_are_for_connections_16_to_21_for_the_data_path_and_all_others_for_the_engine() {
    let mut m = Model::new(1);
    for opcode in 0..=255u64 {
        for pins in 0..16u64 {
            let [valid, engine, conn, data] = [1, 2, 4, 8].map(|pin| pins & pin != 0);
            m.cmd_valid.set(valid);
            m.cmd_data_opcode.set(opcode);
            m.cmd_data_context.set(opcode * 0x0101_0101);
            m.cmd_data_timeout_us.set(!opcode & 0xffff_ffff);
            m.engine_ready.set(engine);
            m.conn_ready.set(conn);
            m.data_ready.set(data);
            m.eval();
            let of_conn = (8..16).contains(&opcode);
            let of_data = (16..22).contains(&opcode);
            let of_engine = !of_conn && !of_data;
            let valids = [m.conn_valid.get(), m.data_valid.get(), m.engine_valid.get()];
            assert_eq!(valids, [of_conn, of_data, of_engine].map(|of| valid && of), "opcode {opcode}");
            assert_eq!(m.cmd_ready.get(), of_conn && conn || of_data && data || of_engine && engine, "opcode {opcode}");
            for (o, context, timeout) in [
                (m.conn_data_opcode.get(), m.conn_data_context.get(), m.conn_data_timeout_us.get()),
                (m.data_data_opcode.get(), m.data_data_context.get(), m.data_data_timeout_us.get()),
                (m.engine_data_opcode.get(), m.engine_data_context.get(), m.engine_data_timeout_us.get()),
            ] {
                assert_eq!((o, context, timeout), (opcode, opcode * 0x0101_0101, !opcode & 0xffff_ffff));
            }
        }
    }
}
