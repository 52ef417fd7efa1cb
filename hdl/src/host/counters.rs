// SPDX-License-Identifier: MIT OR Apache-2.0
//! 64 counters in block RAM, of W = LOW + HIGH bits: 48 = 32 + 16 in the adapter (tests take narrow halves to see the carry).
//!
//! Interface: `pulses` adds 1 to each counter whose bit is high, in every clock. `read_*` reads one half of a counter: `read` stays high
//! with its index until `read_done`, `read_data` is valid with it. Reading the low half freezes the high half: if the next read is the
//! high half of the same counter it gets what belonged to that low half, any other read of a high half gets its present value.
//!
//! How: each counter has a 7-bit accumulator in flip-flops; a sweep visits one counter a clock, adds its accumulator to RAM and clears it.
//! A counter is visited every 64 clocks, so an accumulator never holds more than 64 and nothing is lost at a pulse a clock. The RAM has one
//! read port, which belongs to the sweep; a host read waits until the sweep comes by (at most 64 + 5 clocks) and takes the sum.
//!
//! `reset` clears everything: `ready` is low from its second clock until 64 words are cleared (66 clocks), however short the reset was, and
//! pulses do not count while it is low; reads are dropped while `reset` is high and wait while `ready` is low.
//!
//! Timing: a pulse is in the value that a read started 66 clocks later gives. Memory: 64 x 48 bits of block RAM, 64 x 7 flip-flops.
use crate::host::pulses::CounterPulses;
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct Counters<const W: usize, const LOW: usize, const HIGH: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub pulses: Signal<In, CounterPulses>,
    pub read: Signal<In, Bit>,
    pub read_index: Signal<In, Bits<6>>,
    pub read_high: Signal<In, Bit>,
    pub read_done: Signal<Out, Bit>,
    pub read_data: Signal<Out, Bits<32>>,
    ram: RAM<Bits<W>, 6>,
    pending: [DFF<Bits<7>>; 64],
    // the sweep: slot read now, and in the three stages after it
    slot: DFF<Bits<6>>,
    slot1: DFF<Bits<6>>,
    slot2: DFF<Bits<6>>,
    slot3: DFF<Bits<6>>,
    /// Stage 1: the accumulator of each group's member with the slot's low three bits.
    group: [DFF<Bits<7>>; 8],
    /// Stage 2: the accumulator and the stored value.
    add: DFF<Bits<7>>,
    stored: DFF<Bits<W>>,
    /// Stage 3: the new value, written to RAM.
    sum: DFF<Bits<W>>,
    /// Stages hold real slots, not what was in them before a reset.
    valid1: DFF<Bit>,
    valid2: DFF<Bit>,
    valid3: DFF<Bit>,
    /// Words cleared since the reset; bit 6: all.
    cleared: DFF<Bits<7>>,
    was_reset: DFF<Bit>,
    // the host's read
    hit: DFF<Bit>,
    done: DFF<Bit>,
    data: DFF<Bits<32>>,
    frozen: DFF<Bit>,
    frozen_index: DFF<Bits<6>>,
    frozen_high: DFF<Bits<HIGH>>,
    running: Signal<Local, Bit>,
    restart: Signal<Local, Bit>,
    pulse: Signal<Local, Bits<64>>,
    visited: Signal<Local, Bit>,
    upper: Signal<Local, Bits<W>>,
    low_bits: Constant<Bits<6>>,
}

impl<const W: usize, const LOW: usize, const HIGH: usize> Default for Counters<W, LOW, HIGH> {
    fn default() -> Self {
        assert_eq!(W, LOW + HIGH);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            pulses: Default::default(),
            read: Default::default(),
            read_index: Default::default(),
            read_high: Default::default(),
            read_done: Default::default(),
            read_data: Default::default(),
            ram: Default::default(),
            pending: std::array::from_fn(|_| Default::default()),
            slot: Default::default(),
            slot1: Default::default(),
            slot2: Default::default(),
            slot3: Default::default(),
            group: Default::default(),
            add: Default::default(),
            stored: Default::default(),
            sum: Default::default(),
            valid1: Default::default(),
            valid2: Default::default(),
            valid3: Default::default(),
            cleared: Default::default(),
            was_reset: Default::default(),
            hit: Default::default(),
            done: Default::default(),
            data: Default::default(),
            frozen: Default::default(),
            frozen_index: Default::default(),
            frozen_high: Default::default(),
            running: Default::default(),
            restart: Default::default(),
            pulse: Default::default(),
            visited: Default::default(),
            upper: Default::default(),
            low_bits: Constant::new((LOW as u64).to_bits()),
        }
    }
}

impl<const W: usize, const LOW: usize, const HIGH: usize> Logic for Counters<W, LOW, HIGH> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            slot,
            slot1,
            slot2,
            slot3,
            add,
            stored,
            sum,
            valid1,
            valid2,
            valid3,
            cleared,
            was_reset,
            hit,
            done,
            data,
            frozen,
            frozen_index,
            frozen_high
        );
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.running.next = self.cleared.q.val().get_bit(6);
        self.was_reset.d.next = self.reset.val();
        self.restart.next = self.reset.val() & !self.was_reset.q.val();
        self.ready.next = self.running.val();
        self.pulse.next = bit_cast::<64, 64>(self.pulses.val().into());

        // stage 0: read address out, accumulators of the slot's column in
        self.slot.d.next = self.slot.q.val() + 1;
        self.ram.read_address.next = self.slot.q.val();
        self.slot1.d.next = self.slot.q.val();
        self.valid1.d.next = self.running.val();
        for i in 0..64 {
            self.pending[i].clock.next = self.clock.val();
            self.pending[i].d.next = self.pending[i].q.val();
            self.visited.next = self.slot.q.val().index() == i;
            if self.visited.val() {
                self.pending[i].d.next = 0.into();
                if self.pulse.val().get_bit(i) {
                    self.pending[i].d.next = 1.into();
                }
            } else if self.pulse.val().get_bit(i) {
                self.pending[i].d.next = self.pending[i].q.val() + 1;
            }
            if !self.running.val() | self.reset.val() {
                self.pending[i].d.next = 0.into();
            }
        }
        for j in 0..8 {
            self.group[j].clock.next = self.clock.val();
            self.group[j].d.next = self.pending[j * 8].q.val();
            for i in 1..8 {
                if self.slot.q.val().get_bits::<3>(0).index() == i {
                    self.group[j].d.next = self.pending[j * 8 + i].q.val();
                }
            }
        }
        // stage 1: the RAM's word is there
        self.slot2.d.next = self.slot1.q.val();
        self.valid2.d.next = self.valid1.q.val() & self.running.val();
        self.stored.d.next = self.ram.read_data.val();
        self.add.d.next = self.group[0].q.val();
        for i in 1..8 {
            if self.slot1.q.val().get_bits::<3>(3).index() == i {
                self.add.d.next = self.group[i].q.val();
            }
        }
        // stage 2: add
        self.slot3.d.next = self.slot2.q.val();
        self.valid3.d.next = self.valid2.q.val() & self.running.val();
        self.sum.d.next = self.stored.q.val() + bit_cast::<W, 7>(self.add.q.val());
        self.hit.d.next = self.read.val() & self.valid2.q.val() & (self.slot2.q.val() == self.read_index.val());
        // stage 3: write back; before that, clear
        self.ram.write_enable.next = self.valid3.q.val();
        self.ram.write_address.next = self.slot3.q.val();
        self.ram.write_data.next = self.sum.q.val();
        if !self.running.val() {
            self.ram.write_enable.next = true;
            self.ram.write_address.next = self.cleared.q.val().get_bits::<6>(0);
            self.ram.write_data.next = 0.into();
            self.cleared.d.next = self.cleared.q.val() + 1;
        }

        self.upper.next = self.sum.q.val() >> self.low_bits.val();
        self.done.d.next = false;
        self.data.d.next = bit_cast::<32, LOW>(self.sum.q.val().get_bits::<LOW>(0));
        if self.read_high.val() {
            self.data.d.next = bit_cast::<32, HIGH>(self.upper.val().get_bits::<HIGH>(0));
            if self.frozen.q.val() & (self.frozen_index.q.val() == self.read_index.val()) {
                self.data.d.next = bit_cast::<32, HIGH>(self.frozen_high.q.val());
            }
        }
        if self.hit.q.val() & self.read.val() & !self.done.q.val() {
            self.done.d.next = true;
            self.frozen.d.next = !self.read_high.val();
            if !self.read_high.val() {
                self.frozen_index.d.next = self.read_index.val();
                self.frozen_high.d.next = self.upper.val().get_bits::<HIGH>(0);
            }
        }
        self.read_done.next = self.done.q.val() & self.read.val();
        self.read_data.next = self.data.q.val();
        if self.restart.val() {
            self.cleared.d.next = 0.into();
        }
        if self.reset.val() {
            self.done.d.next = false;
            self.hit.d.next = false;
            self.frozen.d.next = false;
        }
    }
}
