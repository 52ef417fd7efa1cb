// SPDX-License-Identifier: MIT OR Apache-2.0
//! As [`super::RowWords`], 2^N rows of a wide type in 2^K words each for an engine that has one row in a register of its own, but for one that keeps it there until it needs another: the one goes while
//! the other comes.
//!
//! Reading: `word` 0..2^K of row `index`, one in each clock; in the clock after each of them the register (`value`) becomes `turned`. With `write` in that clock the lowest word of the register, which falls
//! out, goes to `write_word` of row `write_index`: so words 0..2^K one after the other are the row that was in the register. What is read must not be what is written in the clock of its address.
//! Nothing is cleared.
//!
//! Memory: 2^(N + K) words. Written as Verilog because a struct cannot be shifted; it is not simulated in Rust.
use rust_hdl::prelude::*;

/// `W`: bits of a word, 2^K of them are a row to the bit.
#[derive(LogicBlock)]
pub struct RowSwap<D: Synth, const N: usize, const K: usize, const W: usize> {
    pub clock: Signal<In, Clock>,
    pub index: Signal<In, Bits<N>>,
    pub word: Signal<In, Bits<K>>,
    pub write: Signal<In, Bit>,
    pub write_index: Signal<In, Bits<N>>,
    pub write_word: Signal<In, Bits<K>>,
    pub value: Signal<In, D>,
    pub turned: Signal<Out, D>,
}

impl<D: Synth, const N: usize, const K: usize, const W: usize> Default for RowSwap<D, N, K, W> {
    fn default() -> Self {
        assert_eq!(D::BITS, W << K);
        Self {
            clock: Default::default(),
            index: Default::default(),
            word: Default::default(),
            write: Default::default(),
            write_index: Default::default(),
            write_word: Default::default(),
            value: Default::default(),
            turned: Default::default(),
        }
    }
}

impl<D: Synth, const N: usize, const K: usize, const W: usize> Logic for RowSwap<D, N, K, W> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.turned.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "(* no_rw_check, ram_style = \"block\" *) reg [{word_top}:0] mem [{words}:0];\n\
             reg [{word_top}:0] read;\n\
             always @(posedge clock) read <= mem[{{index, word}}];\n\
             always @(posedge clock) if (write) mem[{{write_index, write_word}}] <= value[{word_top}:0];\n\
             always @(*) turned = {{read, value[{row_top}:{W}]}};\n",
            word_top = W - 1,
            words = (1usize << (N + K)) - 1,
            row_top = D::BITS - 1,
        ))
    }
}
