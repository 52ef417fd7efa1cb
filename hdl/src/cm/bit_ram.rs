// SPDX-License-Identifier: MIT OR Apache-2.0
//! One bitmap of the port database: 2^A words of N bits in a true dual-port memory.
//!
//! Port A only reads: a word is at `a_data` one clock after `a_address` when `a_enable` was high, else the old one stays.
//! Port B reads or, with `b_write`, writes; `b_data` keeps its value while it writes. Port A must not be enabled for the word that
//! port B writes in that clock: DP16KD does not say what it reads then (`no_rw_check` tells synthesis that it will not happen).
//! No reset: contents are undefined until they are written.
//!
//! Memory: 1024 words of 64 bits are four DP16KD (1024 x 18 each, the widest form with two full ports).
//! Written as Verilog because the stock `RAM` has one read port; it is not simulated in Rust.
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct BitRam<const A: usize, const N: usize> {
    pub clock: Signal<In, Clock>,
    pub a_address: Signal<In, Bits<A>>,
    pub a_enable: Signal<In, Bit>,
    pub a_data: Signal<Out, Bits<N>>,
    pub b_address: Signal<In, Bits<A>>,
    pub b_write: Signal<In, Bit>,
    pub b_value: Signal<In, Bits<N>>,
    pub b_data: Signal<Out, Bits<N>>,
}

impl<const A: usize, const N: usize> Logic for BitRam<A, N> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.a_data.connect();
        self.b_data.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "(* no_rw_check *) reg [{high}:0] mem [0:{words}];\n\
             always @(posedge clock) if (a_enable) a_data <= mem[a_address];\n\
             always @(posedge clock) if (b_write) mem[b_address] <= b_value; else b_data <= mem[b_address];\n",
            high = N - 1,
            words = (1usize << A) - 1,
        ))
    }
}
