// SPDX-License-Identifier: MIT OR Apache-2.0
//! 2^N values of a wide type in block RAM, in two halves each: a value wider than 36 bits takes fewer block RAMs so than at full width if there are no more than 256 of them.
//!
//! `write` puts `write_value` at `write_index`, its upper half a clock later: `write` must not be high in two clocks one after the other. Reading goes through a register of the user, `value`, in two clocks: `read_index` with
//! `read_half` low, then with it high; in the clock after each of them the register becomes `turned`. A half that is written in the clock of its address must not be used.
//!
//! Memory: 2^(N+1) words of half a value. Written as Verilog because a struct cannot be cut; it is not simulated in Rust.
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct HalvedRam<D: Synth, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub write: Signal<In, Bit>,
    pub write_index: Signal<In, Bits<N>>,
    pub write_value: Signal<In, D>,
    pub read_index: Signal<In, Bits<N>>,
    pub read_half: Signal<In, Bit>,
    pub value: Signal<In, D>,
    pub turned: Signal<Out, D>,
}

impl<D: Synth, const N: usize> Logic for HalvedRam<D, N> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.turned.connect();
    }
    fn hdl(&self) -> Verilog {
        // of an odd value the lower half is a bit shorter, and stands one up
        let (upper, lower) = (D::BITS.div_ceil(2), D::BITS / 2);
        let first =
            if upper == lower { format!("write_value[{}:0]", lower - 1) } else { format!("{{write_value[{}:0], 1'b0}}", lower - 1) };
        Verilog::Custom(format!(
            "(* no_rw_check, ram_style = \"block\" *) reg [{half_top}:0] mem [{top}:0];\n\
             reg [{half_top}:0] read;\n\
             reg [{half_top}:0] late;\n\
             reg [{index_top}:0] late_index;\n\
             reg second;\n\
             always @(*) turned = {{read, value[{value_top}:{upper}]}};\n\
             always @(posedge clock) read <= mem[{{read_index, read_half}}];\n\
             always @(posedge clock) begin\n\
             second <= write;\n\
             late <= write_value[{value_top}:{lower}];\n\
             late_index <= write_index;\n\
             end\n\
             always @(posedge clock) if (write || second) mem[{{second ? late_index : write_index, second}}] <= second ? late : {first};\n",
            half_top = upper - 1,
            top = (2usize << N) - 1,
            index_top = N - 1,
            value_top = D::BITS - 1,
        ))
    }
}
