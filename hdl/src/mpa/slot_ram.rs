// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots of `mpa::rx`: block RAM for slots whose length is no power of two. An address of W bits is a slot and, in its lower bits, a word of the slot: of 2^B words the first half
//! is there, and 2^T of the second. What is beyond them is not written, and what is read there is anything. Read data in the clock after the address, not of a word that is written in
//! the clock of the address.
//!
//! Memory: two RAMs of 64-bit words. It is not simulated in Rust.
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct SlotRam<const W: usize, const B: usize, const T: usize> {
    pub clock: Signal<In, Clock>,
    pub read_address: Signal<In, Bits<W>>,
    pub read_data: Signal<Out, Bits<64>>,
    pub write_address: Signal<In, Bits<W>>,
    pub write_data: Signal<In, Bits<64>>,
    pub write_enable: Signal<In, Bit>,
}

impl<const W: usize, const B: usize, const T: usize> Default for SlotRam<W, B, T> {
    fn default() -> Self {
        assert!((2..W).contains(&B) && (1..B).contains(&T));
        Self {
            clock: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            write_enable: Default::default(),
        }
    }
}

impl<const W: usize, const B: usize, const T: usize> Logic for SlotRam<W, B, T> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        let place = |address: &str, bits: usize| format!("{{{address}[{}:{B}], {address}[{}:0]}}", W - 1, bits - 1);
        // all of the second half, or the part of it that is there
        let inside = if T + 1 < B { format!(" && write_address[{}:{T}] == 0", B - 2) } else { String::new() };
        Verilog::Custom(format!(
            "(* no_rw_check, ram_style = \"block\" *) reg [63:0] front [{front}:0];\n\
             (* no_rw_check, ram_style = \"block\" *) reg [63:0] back [{back}:0];\n\
             reg [63:0] of_front;\n\
             reg [63:0] of_back;\n\
             reg behind;\n\
             always @(*) read_data = behind ? of_back : of_front;\n\
             always @(posedge clock) behind <= read_address[{half}];\n\
             always @(posedge clock) of_front <= front[{read_front}];\n\
             always @(posedge clock) of_back <= back[{read_back}];\n\
             always @(posedge clock) if (write_enable && !write_address[{half}]) front[{write_front}] <= write_data;\n\
             always @(posedge clock) if (write_enable && write_address[{half}]{inside}) back[{write_back}] <= write_data;\n",
            front = (1usize << (W - 1)) - 1,
            back = (1usize << (W - B + T)) - 1,
            half = B - 1,
            read_front = place("read_address", B - 1),
            read_back = place("read_address", T),
            write_front = place("write_address", B - 1),
            write_back = place("write_address", T),
        ))
    }
}
