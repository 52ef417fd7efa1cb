// SPDX-License-Identifier: MIT OR Apache-2.0
//! 2^N rows of a wide type in 2^K words each, for an engine that has the row it works on in a register of its own. A row wider than 36 bits takes fewer block RAMs so than at full width.
//!
//! The register (`value`) is filled and emptied a word at a time: `turned` is what it must become. Reading: `word` 0..2^K of row `index`, one in each clock; in the clock after each of them the register
//! becomes `turned`. Writing: `write` with `word` 0..2^K, the register becoming `turned` in each of these clocks; after the last it is what it was. `read` is the word that was read, lowest bits of
//! the row in word 0; not one that was written in the clock of the address. Nothing is cleared.
//!
//! [`super::RowStore`] has the register and the counting in itself, and keeps the row until another one is wanted; here the engine may change the row and not write it, or write it elsewhere.
//!
//! Memory: 2^(N + K) words. Written as Verilog because a struct cannot be shifted; it is not simulated in Rust.
use rust_hdl::prelude::*;

/// `W`: bits of a word, 2^K of them are a row to the bit.
#[derive(LogicBlock)]
pub struct RowWords<D: Synth, const N: usize, const K: usize, const W: usize> {
    pub clock: Signal<In, Clock>,
    pub index: Signal<In, Bits<N>>,
    pub word: Signal<In, Bits<K>>,
    pub write: Signal<In, Bit>,
    pub value: Signal<In, D>,
    pub turned: Signal<Out, D>,
    pub read: Signal<Out, Bits<W>>,
}

impl<D: Synth, const N: usize, const K: usize, const W: usize> Default for RowWords<D, N, K, W> {
    fn default() -> Self {
        assert_eq!(D::BITS, W << K);
        Self {
            clock: Default::default(),
            index: Default::default(),
            word: Default::default(),
            write: Default::default(),
            value: Default::default(),
            turned: Default::default(),
            read: Default::default(),
        }
    }
}

impl<D: Synth, const N: usize, const K: usize, const W: usize> Logic for RowWords<D, N, K, W> {
    fn update(&mut self) {}
    fn connect(&mut self) {
        self.turned.connect();
        self.read.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "(* no_rw_check, ram_style = \"block\" *) reg [{word_top}:0] mem [{words}:0];\n\
             always @(posedge clock) read <= mem[{{index, word}}];\n\
             always @(posedge clock) if (write) mem[{{index, word}}] <= value[{word_top}:0];\n\
             always @(*) turned = {{write ? value[{word_top}:0] : read, value[{row_top}:{W}]}};\n",
            word_top = W - 1,
            words = (1usize << (N + K)) - 1,
            row_top = D::BITS - 1,
        ))
    }
}
