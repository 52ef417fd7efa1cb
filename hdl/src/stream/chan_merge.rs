// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two sources of one channel: values of `a` and `b` go to `out`, in turn when both have one.
//!
//! A value that is offered at `out` stays until it is taken, also if the other source comes up meanwhile. Timing: no clock is added, one
//! value a clock. A source waits for at most one value of the other. Memory: two flip-flops.
use super::{ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct ChanMerge2<T: Synth> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a: ChanSink<T>,
    pub b: ChanSink<T>,
    pub out: ChanSrc<T>,
    /// Offered and not taken: the choice stands.
    held: DFF<Bit>,
    /// The last choice was `b`.
    last_b: DFF<Bit>,
    of_b: Signal<Local, Bit>,
    offer: Signal<Local, Bit>,
}

impl<T: Synth> Default for ChanMerge2<T> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            a: Default::default(),
            b: Default::default(),
            out: Default::default(),
            held: Default::default(),
            last_b: Default::default(),
            of_b: Default::default(),
            offer: Default::default(),
        }
    }
}

impl<T: Synth> Logic for ChanMerge2<T> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, held, last_b);
        self.of_b.next = self.b.valid.val() & (!self.a.valid.val() | !self.last_b.q.val());
        if self.held.q.val() {
            self.of_b.next = self.last_b.q.val();
        }
        self.offer.next = self.a.valid.val() | self.b.valid.val();
        self.out.valid.next = self.offer.val();
        self.out.data.next = self.a.data.val();
        if self.of_b.val() {
            self.out.data.next = self.b.data.val();
        }
        self.a.ready.next = self.out.ready.val() & !self.of_b.val();
        self.b.ready.next = self.out.ready.val() & self.of_b.val();
        self.held.d.next = self.offer.val() & !self.out.ready.val();
        if self.offer.val() {
            self.last_b.d.next = self.of_b.val();
        }
        if self.reset.val() {
            self.held.d.next = false;
        }
    }
}
