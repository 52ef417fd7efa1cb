// SPDX-License-Identifier: MIT OR Apache-2.0
//! One value between two channels, in flip-flops: what a queue costs when nobody needs more than one place. A few in a row are a short queue without multiplexers.
//!
//! Timing: 1 clock from in to out, a value every 2 clocks. Memory: the value and a flip-flop. `reset` empties it.
use super::{ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct ChanSlot<T: Synth> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<T>,
    pub out: ChanSrc<T>,
    value: DFF<T>,
    full: DFF<Bit>,
}

impl<T: Synth> Default for ChanSlot<T> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            inp: Default::default(),
            out: Default::default(),
            value: Default::default(),
            full: Default::default(),
        }
    }
}

impl<T: Synth> Logic for ChanSlot<T> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, value, full);
        self.inp.ready.next = !self.full.q.val();
        self.out.valid.next = self.full.q.val();
        self.out.data.next = self.value.q.val();
        if self.full.q.val() {
            self.full.d.next = !self.out.ready.val();
        } else {
            self.value.d.next = self.inp.data.val();
            self.full.d.next = self.inp.valid.val();
        }
        if self.reset.val() {
            self.full.d.next = false;
        }
    }
}
