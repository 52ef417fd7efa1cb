// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block RAM however small it is: one write and one read port, read data in the clock after the address. What is read at an address that is
//! written in the same clock must not be used (`no_rw_check`: a DP16KD does not say what it is); the stock `RAM` promises the old data
//! there, which costs a register and a multiplexer a bit. `of_depth` makes one of fewer than 2^N words; what is read beyond them is anything.
//! `of_any_kind` may become distributed RAM where that is smaller.
//! The Rust simulation keeps the contents in a map.
use rust_hdl::prelude::*;
use std::collections::BTreeMap;

#[derive(LogicBlock, Default)]
pub struct BlockRam<D: Synth, const N: usize> {
    pub read_address: Signal<In, Bits<N>>,
    pub read_clock: Signal<In, Clock>,
    pub read_data: Signal<Out, D>,
    pub write_address: Signal<In, Bits<N>>,
    pub write_clock: Signal<In, Clock>,
    pub write_data: Signal<In, D>,
    pub write_enable: Signal<In, bool>,
    _contents: BTreeMap<Bits<N>, D>,
    _depth: Option<usize>,
    _any_kind: bool,
}

impl<D: Synth, const N: usize> BlockRam<D, N> {
    pub fn of_depth(words: usize) -> Self {
        assert!(words <= 1 << N);
        Self { _depth: Some(words), ..Self::default() }
    }

    pub fn of_any_kind() -> Self {
        Self { _any_kind: true, ..Self::default() }
    }
}

impl<D: Synth, const N: usize> Logic for BlockRam<D, N> {
    fn update(&mut self) {
        if self.read_clock.pos_edge() {
            self.read_data.next = self._contents.get(&self.read_address.val()).copied().unwrap_or_default();
        }
        if self.write_clock.pos_edge() && self.write_enable.val() {
            self._contents.insert(self.write_address.val(), self.write_data.val());
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "(* no_rw_check{style} *) reg [{width}:0] mem [{top}:0];\n\
             always @(posedge read_clock) read_data <= mem[read_address];\n\
             always @(posedge write_clock) if (write_enable) mem[write_address] <= write_data;\n",
            style = if self._any_kind { "" } else { ", ram_style = \"block\"" },
            width = D::BITS - 1,
            top = self._depth.unwrap_or(1 << N) - 1,
        ))
    }
}
