// SPDX-License-Identifier: MIT OR Apache-2.0
//! First-in first-out queue between two channels, 2^N values deep; `NP1` must be `N + 1`.
//!
//! Timing: one value a clock; 2 clocks from in to out when empty (the RAM is written, then read through its output
//! register). Memory: 2^N values, which yosys maps to DPR16X4 up to N = 4 and to block RAM above. `reset` empties it.
//! The read address is the *next* head, so that the RAM's registered output always shows the current head;
//! what it reads while that place is written is read again in the next clock, before `seen` counts it.
use super::{BlockRam, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct ChanFifo<T: Synth, const N: usize, const NP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<T>,
    pub out: ChanSrc<T>,
    ram: BlockRam<T, N>,
    /// Values written / visible at the RAM's output / taken, free-running modulo 2^NP1.
    wr: DFF<Bits<NP1>>,
    seen: DFF<Bits<NP1>>,
    rd: DFF<Bits<NP1>>,
    fill: Signal<Local, Bits<NP1>>,
    full: Signal<Local, Bit>,
    some: Signal<Local, Bit>,
    rd_next: Signal<Local, Bits<NP1>>,
    depth: Constant<Bits<NP1>>,
}

impl<T: Synth, const N: usize, const NP1: usize> Default for ChanFifo<T, N, NP1> {
    fn default() -> Self {
        assert_eq!(N + 1, NP1);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            inp: Default::default(),
            out: Default::default(),
            ram: BlockRam::of_any_kind(),
            wr: Default::default(),
            seen: Default::default(),
            rd: Default::default(),
            fill: Default::default(),
            full: Default::default(),
            some: Default::default(),
            rd_next: Default::default(),
            depth: Constant::new((1u64 << N).to_bits()),
        }
    }
}

impl<T: Synth, const N: usize, const NP1: usize> Logic for ChanFifo<T, N, NP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, wr, seen, rd);
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.fill.next = self.wr.q.val() - self.rd.q.val();
        self.full.next = self.fill.val() == self.depth.val();
        self.some.next = self.seen.q.val() != self.rd.q.val();
        self.inp.ready.next = !self.full.val();
        self.ram.write_enable.next = self.inp.valid.val() & !self.full.val();
        self.ram.write_address.next = self.wr.q.val().get_bits::<N>(0);
        self.ram.write_data.next = self.inp.data.val();
        if self.inp.valid.val() & !self.full.val() {
            self.wr.d.next = self.wr.q.val() + 1;
        }
        self.seen.d.next = self.wr.q.val();
        self.rd_next.next = self.rd.q.val();
        if self.some.val() & self.out.ready.val() {
            self.rd_next.next = self.rd.q.val() + 1;
        }
        self.rd.d.next = self.rd_next.val();
        self.ram.read_address.next = self.rd_next.val().get_bits::<N>(0);
        self.out.data.next = self.ram.read_data.val();
        self.out.valid.next = self.some.val();
        if self.reset.val() {
            self.wr.d.next = 0.into();
            self.seen.d.next = 0.into();
            self.rd.d.next = 0.into();
        }
    }
}
