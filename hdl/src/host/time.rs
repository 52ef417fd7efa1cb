// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapter time from `TIMEBASE` (microseconds per clock, 16.16 fixed point, at most 1000; a larger value counts as 1000).
//!
//! Interface: `tick_us` is the number of whole microseconds that passed in this clock (0..=1000), `time_us` the running sum of all
//! `tick_us` before this clock, modulo 2^32, `cycles` the clocks since power-up. None of them is touched by a reset: time goes on, and
//! after a reset the register `TIMEBASE` has its reset value.
//!
//! Timing: a new timebase counts from the second clock on. Memory: flip-flops only.
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct Time {
    pub clock: Signal<In, Clock>,
    pub timebase: Signal<In, Bits<32>>,
    pub tick_us: Signal<Out, Bits<10>>,
    pub time_us: Signal<Out, Bits<32>>,
    pub cycles: Signal<Out, Bits<32>>,
    step: DFF<Bits<26>>,
    /// Fraction of a microsecond in bits 15:0, the whole microseconds of the last clock above.
    sum: DFF<Bits<26>>,
    running: DFF<Bits<32>>,
    count: DFF<Bits<32>>,
    whole: Signal<Local, Bits<10>>,
    largest: Constant<Bits<32>>,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            timebase: Default::default(),
            tick_us: Default::default(),
            time_us: Default::default(),
            cycles: Default::default(),
            step: Default::default(),
            sum: Default::default(),
            running: Default::default(),
            count: Default::default(),
            whole: Default::default(),
            largest: Constant::new((1000u64 << 16).to_bits()),
        }
    }
}

impl Logic for Time {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, step, sum, running, count);
        self.step.d.next = self.timebase.val().get_bits::<26>(0);
        if self.timebase.val() > self.largest.val() {
            self.step.d.next = self.largest.val().get_bits::<26>(0);
        }
        self.sum.d.next = bit_cast::<26, 16>(self.sum.q.val().get_bits::<16>(0)) + self.step.q.val();
        self.whole.next = self.sum.q.val().get_bits::<10>(16);
        self.tick_us.next = self.whole.val();
        self.running.d.next = self.running.q.val() + bit_cast::<32, 10>(self.whole.val());
        self.time_us.next = self.running.q.val();
        self.count.d.next = self.count.q.val() + 1;
        self.cycles.next = self.count.q.val();
    }
}
