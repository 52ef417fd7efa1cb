// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells of 2^N queues: the latest value of each, and which ones rang. None is lost, whatever the speed at which they come.
//!
//! **Interface.** `ring`: queue `number` has the value `value` from here on; one a clock. `out` gives each number that rang since it was last taken from there, once. `seen` is the value of
//! the number that was on `look` in the clock before: from the clock after a number was taken from `out` on, `look` finds all that had rung up to then; what rings later makes
//! the number come again. `forget` makes the value of `look` 0, in the clock in which `forgotten` is high: one without a doorbell.
//!
//! **Timing.** `ring` to `out` 2 clocks. **Memory.** 2^N x 16 bits of values, 2^N x N of numbers in the order of ringing, 2^N flip-flops. Not cleared: a value
//! means something when its number has rung or was forgotten.
use crate::stream::{ChanFifo, ChanSrc};
use rust_hdl::prelude::*;

/// `NP1` = N + 1, `NUMBERS` = 2^N.
#[derive(LogicBlock)]
pub struct Doorbells<const N: usize, const NP1: usize, const NUMBERS: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ring: Signal<In, Bit>,
    pub number: Signal<In, Bits<N>>,
    pub value: Signal<In, Bits<16>>,
    pub out: ChanSrc<Bits<N>>,
    pub look: Signal<In, Bits<N>>,
    pub seen: Signal<Out, Bits<16>>,
    pub forget: Signal<In, Bit>,
    pub forgotten: Signal<Out, Bit>,
    /// The stock RAM: what is read while it is written is the old value.
    values: RAM<Bits<16>, N>,
    queue: ChanFifo<Bits<N>, N, NP1>,
    /// In the queue.
    waiting: DFF<Bits<NUMBERS>>,
    taken: DFF<Bit>,
    taken_number: DFF<Bits<N>>,
    rest: Signal<Local, Bits<NUMBERS>>,
    fresh: Signal<Local, Bit>,
}

impl<const N: usize, const NP1: usize, const NUMBERS: usize> Default for Doorbells<N, NP1, NUMBERS> {
    fn default() -> Self {
        assert_eq!((N + 1, 1 << N), (NP1, NUMBERS));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ring: Default::default(),
            number: Default::default(),
            value: Default::default(),
            out: Default::default(),
            look: Default::default(),
            seen: Default::default(),
            forget: Default::default(),
            forgotten: Default::default(),
            values: Default::default(),
            queue: Default::default(),
            waiting: Default::default(),
            taken: Default::default(),
            taken_number: Default::default(),
            rest: Default::default(),
            fresh: Default::default(),
        }
    }
}

impl<const N: usize, const NP1: usize, const NUMBERS: usize> Logic for Doorbells<N, NP1, NUMBERS> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, waiting, taken, taken_number);
        clock!(self, clock, queue);
        self.queue.reset.next = self.reset.val();
        self.values.read_clock.next = self.clock.val();
        self.values.write_clock.next = self.clock.val();
        self.values.read_address.next = self.look.val();
        self.seen.next = self.values.read_data.val();
        self.values.write_enable.next = self.ring.val() | self.forget.val();
        self.values.write_address.next = self.look.val();
        self.values.write_data.next = 0.into();
        self.forgotten.next = self.forget.val() & !self.ring.val();
        if self.ring.val() {
            self.values.write_address.next = self.number.val();
            self.values.write_data.next = self.value.val();
        }

        // a number leaves `waiting` in the clock after it has left the queue, so there is always room for those that do not wait
        self.taken.d.next = self.queue.out.valid.val() & self.out.ready.val();
        self.taken_number.d.next = self.queue.out.data.val();
        self.rest.next = self.waiting.q.val();
        if self.taken.q.val() {
            self.rest.next = self.rest.val().replace_bit(self.taken_number.q.val().index(), false);
        }
        self.fresh.next = self.ring.val() & !self.rest.val().get_bit(self.number.val().index());
        self.queue.inp.data.next = self.number.val();
        self.queue.inp.valid.next = self.fresh.val();
        if self.ring.val() {
            self.rest.next = self.rest.val().replace_bit(self.number.val().index(), true);
        }
        self.waiting.d.next = self.rest.val();
        self.out.data.next = self.queue.out.data.val();
        self.out.valid.next = self.queue.out.valid.val();
        self.queue.out.ready.next = self.out.ready.val();
        if self.reset.val() {
            self.waiting.d.next = 0.into();
            self.taken.d.next = false;
        }
    }
}
