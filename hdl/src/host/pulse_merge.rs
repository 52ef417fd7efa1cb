// SPDX-License-Identifier: MIT OR Apache-2.0
//! N blocks that move one counter: every pulse of `inp` becomes a pulse of `out`, also when several come in one clock.
//!
//! Timing: `out` one clock later, later ones one after the other. Memory: a count of pulses still owed, up to 15: the inputs together
//! may not pulse more often than `out` can, one a clock, for longer than that. `reset` forgets what is owed, as it clears the counter.
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct PulseMerge<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: [Signal<In, Bit>; N],
    pub out: Signal<Out, Bit>,
    owed: DFF<Bits<4>>,
    sum: Signal<Local, Bits<4>>,
}

impl<const N: usize> Default for PulseMerge<N> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            inp: std::array::from_fn(|_| Default::default()),
            out: Default::default(),
            owed: Default::default(),
            sum: Default::default(),
        }
    }
}

impl<const N: usize> Logic for PulseMerge<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, owed);
        self.out.next = self.owed.q.val().any();
        self.sum.next = self.owed.q.val();
        if self.owed.q.val().any() {
            self.sum.next = self.owed.q.val() - 1;
        }
        for i in 0..N {
            if self.inp[i].val() {
                self.sum.next = self.sum.val() + 1;
            }
        }
        self.owed.d.next = self.sum.val();
        if self.reset.val() {
            self.owed.d.next = 0.into();
        }
    }
}
