// SPDX-License-Identifier: MIT OR Apache-2.0
//! 2^N rows of a wide type, of which one at a time is in registers: for an engine that works on one row after the other.
//!
//! `row` is row `number` of the last change; `set` makes `value` of it, `erase` makes it 0. `open`: change to row `index`, which holds until `there`. All rows are
//! in block RAM in four words each; a change writes the row that was there while it reads the next, a word a clock, through one shift. So a row wider
//! than 36 bits takes a quarter of the block RAMs that it would take at full width, and there is no multiplexer before the RAM.
//!
//! `clear` high sets every row to 0, a word a clock; `row_cleared` is high in the last clock of each row, in order of their numbers. `reset` must come before it;
//! after the last row it is row 0 that is in the registers.
//!
//! Timing: `there` 4 clocks after `open`, in the clock after it if the row is there already. `set` and `erase` count while no change is under way.
//! Memory: 2^N x 4 words of a quarter of the row. Written as Verilog because a struct cannot be shifted; it is not simulated in Rust.
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct RowStore<D: Synth, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub clear: Signal<In, Bit>,
    pub row_cleared: Signal<Out, Bit>,
    pub index: Signal<In, Bits<N>>,
    pub open: Signal<In, Bit>,
    pub there: Signal<Out, Bit>,
    pub set: Signal<In, Bit>,
    pub erase: Signal<In, Bit>,
    pub value: Signal<In, D>,
    pub row: Signal<Out, D>,
}

impl<D: Synth, const N: usize> Logic for RowStore<D, N> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.row_cleared.connect();
        self.there.connect();
        self.row.connect();
    }
    fn hdl(&self) -> Verilog {
        let word = D::BITS.div_ceil(4);
        Verilog::Custom(format!(
            "(* no_rw_check, ram_style = \"block\" *) reg [{word_top}:0] mem [{words}:0];\n\
             reg [{word_top}:0] read;\n\
             reg [{held_top}:0] held;\n\
             reg [{number_top}:0] number;\n\
             reg [2:0] step;\n\
             wire [1:0] written = clear ? step[1:0] : step[1:0] - 2'd1;\n\
             always @(*) row = held[{row_top}:0];\n\
             always @(*) there = step == 3'd4 || step == 3'd0 && number == index;\n\
             always @(*) row_cleared = step == 3'd3;\n\
             always @(posedge clock) read <= mem[{{index, step[1:0]}}];\n\
             always @(posedge clock) if (clear || step != 3'd0) mem[{{number, written}}] <= held[{word_top}:0];\n\
             always @(posedge clock)\n\
             if (reset || erase) held <= 0;\n\
             else if (step != 3'd0 && !clear) held <= {{read, held[{held_top}:{word}]}};\n\
             else if (set) held[{row_top}:0] <= value;\n\
             always @(posedge clock)\n\
             if (reset) begin step <= 3'd0; number <= 0; end\n\
             else if (clear) begin\n\
             step <= step == 3'd3 ? 3'd0 : step + 3'd1;\n\
             if (step == 3'd3) number <= number + 1'd1;\n\
             end else if (step == 3'd4) begin step <= 3'd0; number <= index; end\n\
             else if (step != 3'd0 || open && number != index) step <= step + 3'd1;\n",
            word_top = word - 1,
            words = (4usize << N) - 1,
            held_top = 4 * word - 1,
            number_top = N - 1,
            row_top = D::BITS - 1,
        ))
    }
}
