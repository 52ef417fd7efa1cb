// SPDX-License-Identifier: MIT OR Apache-2.0
//! 128 counters in RAM, of W = LOW + HIGH bits: 48 = 32 + 16 in the adapter (tests take narrow halves to see the carry); UPPER = W - 8. The
//! table of the ABI has fewer; what it lacks stays 0.
//!
//! Interface: `pulses` adds 1 to each counter whose bit is high, in every clock. `read_*` reads one half of a counter: `read` stays high
//! with its index until `read_done`, `read_data` is valid with it. Reading the low half freezes the high half: if the next read is the
//! high half of the same counter it gets what belonged to that low half, any other read of a high half gets its present value.
//!
//! How: the low 8 bits of each counter are flip-flops that count the pulses; RAM holds the whole value as it was seen last. A sweep visits
//! one counter a clock: if its low bits are below the ones seen last, they have wrapped, and the upper bits in RAM grow by 1. A counter is
//! visited every 128 clocks and so grows by at most 128 between two visits: it never wraps unseen, and nothing is lost at a pulse a clock.
//! The RAM has one read port, which belongs to the sweep; a host read waits until the sweep comes by (at most 128 + 5 clocks).
//!
//! `reset` clears everything: `ready` is low from its second clock until 128 words are cleared (130 clocks), however short the reset was, and
//! pulses do not count while it is low; reads are dropped while `reset` is high and wait while `ready` is low.
//!
//! Timing: a pulse is in the value that a read started later gives. Memory: 128 x 48 bits of RAM, 8 flip-flops a counter.
use crate::host::pulses::CounterPulses;
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct Counters<const W: usize, const UPPER: usize, const LOW: usize, const HIGH: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub pulses: Signal<In, CounterPulses>,
    pub read: Signal<In, Bit>,
    pub read_index: Signal<In, Bits<7>>,
    pub read_high: Signal<In, Bit>,
    pub read_done: Signal<Out, Bit>,
    pub read_data: Signal<Out, Bits<32>>,
    ram: RAM<Bits<W>, 7>,
    low: [DFF<Bits<8>>; 128],
    // the sweep: slot read now, and in the three stages after it
    slot: DFF<Bits<7>>,
    slot1: DFF<Bits<7>>,
    slot2: DFF<Bits<7>>,
    slot3: DFF<Bits<7>>,
    /// Stage 1: the low bits of each group's member with the slot's low three bits.
    group: [DFF<Bits<8>>; 16],
    /// Stage 2: the low bits now, and the value seen last.
    now: DFF<Bits<8>>,
    stored: DFF<Bits<W>>,
    /// Stage 3: the new value, written to RAM.
    value: DFF<Bits<W>>,
    /// Stages hold real slots, not what was in them before a reset.
    valid1: DFF<Bit>,
    valid2: DFF<Bit>,
    valid3: DFF<Bit>,
    /// Words cleared since the reset; bit 7: all.
    cleared: DFF<Bits<8>>,
    was_reset: DFF<Bit>,
    // the host's read
    hit: DFF<Bit>,
    done: DFF<Bit>,
    data: DFF<Bits<32>>,
    frozen: DFF<Bit>,
    frozen_index: DFF<Bits<7>>,
    frozen_high: DFF<Bits<HIGH>>,
    running: Signal<Local, Bit>,
    restart: Signal<Local, Bit>,
    pulse: Signal<Local, Bits<128>>,
    /// Multiplexer of the sweep: pairs and fours before `group`, then groups in fours.
    pair: [Signal<Local, Bits<8>>; 64],
    four: [Signal<Local, Bits<8>>; 32],
    of_groups: [Signal<Local, Bits<8>>; 4],
    upper: Signal<Local, Bits<UPPER>>,
    shifted: Signal<Local, Bits<W>>,
    eight: Constant<Bits<6>>,
    low_bits: Constant<Bits<6>>,
}

impl<const W: usize, const UPPER: usize, const LOW: usize, const HIGH: usize> Default for Counters<W, UPPER, LOW, HIGH> {
    fn default() -> Self {
        assert!(W == LOW + HIGH && W == UPPER + 8);
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
            low: std::array::from_fn(|_| Default::default()),
            slot: Default::default(),
            slot1: Default::default(),
            slot2: Default::default(),
            slot3: Default::default(),
            group: Default::default(),
            now: Default::default(),
            stored: Default::default(),
            value: Default::default(),
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
            pair: std::array::from_fn(|_| Default::default()),
            four: Default::default(),
            of_groups: Default::default(),
            upper: Default::default(),
            shifted: Default::default(),
            eight: Constant::new(8u64.to_bits()),
            low_bits: Constant::new((LOW as u64).to_bits()),
        }
    }
}

impl<const W: usize, const UPPER: usize, const LOW: usize, const HIGH: usize> Logic for Counters<W, UPPER, LOW, HIGH> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            slot,
            slot1,
            slot2,
            slot3,
            now,
            stored,
            value,
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
        self.running.next = self.cleared.q.val().get_bit(7);
        self.was_reset.d.next = self.reset.val();
        self.restart.next = self.reset.val() & !self.was_reset.q.val();
        self.ready.next = self.running.val();
        self.pulse.next = bit_cast::<128, 96>(self.pulses.val().into());
        for i in 0..128 {
            self.low[i].clock.next = self.clock.val();
            self.low[i].d.next = self.low[i].q.val();
            if self.pulse.val().get_bit(i) {
                self.low[i].d.next = self.low[i].q.val() + 1;
            }
            if !self.running.val() | self.reset.val() {
                self.low[i].d.next = 0.into();
            }
        }

        // stage 0: read address out, low bits of the slot's column in
        self.slot.d.next = self.slot.q.val() + 1;
        self.ram.read_address.next = self.slot.q.val();
        self.slot1.d.next = self.slot.q.val();
        self.valid1.d.next = self.running.val();
        for i in 0..64 {
            self.pair[i].next = self.low[i * 2].q.val();
            if self.slot.q.val().get_bit(0) {
                self.pair[i].next = self.low[i * 2 + 1].q.val();
            }
        }
        for i in 0..32 {
            self.four[i].next = self.pair[i * 2].val();
            if self.slot.q.val().get_bit(1) {
                self.four[i].next = self.pair[i * 2 + 1].val();
            }
        }
        for i in 0..16 {
            self.group[i].clock.next = self.clock.val();
            self.group[i].d.next = self.four[i * 2].val();
            if self.slot.q.val().get_bit(2) {
                self.group[i].d.next = self.four[i * 2 + 1].val();
            }
        }
        // stage 1: the RAM's word is there
        self.slot2.d.next = self.slot1.q.val();
        self.valid2.d.next = self.valid1.q.val() & self.running.val();
        self.stored.d.next = self.ram.read_data.val();
        for i in 0..4 {
            self.of_groups[i].next = self.group[i * 4].q.val();
            for j in 1..4 {
                if self.slot1.q.val().get_bits::<2>(3).index() == j {
                    self.of_groups[i].next = self.group[i * 4 + j].q.val();
                }
            }
        }
        self.now.d.next = self.of_groups[0].val();
        for i in 1..4 {
            if self.slot1.q.val().get_bits::<2>(5).index() == i {
                self.now.d.next = self.of_groups[i].val();
            }
        }
        // stage 2: the new value
        self.slot3.d.next = self.slot2.q.val();
        self.valid3.d.next = self.valid2.q.val() & self.running.val();
        self.upper.next = self.stored.q.val().get_bits::<UPPER>(8);
        if self.now.q.val() < self.stored.q.val().get_bits::<8>(0) {
            self.upper.next = self.stored.q.val().get_bits::<UPPER>(8) + 1;
        }
        self.value.d.next = (bit_cast::<W, UPPER>(self.upper.val()) << self.eight.val()) | bit_cast::<W, 8>(self.now.q.val());
        self.hit.d.next = self.read.val() & self.valid2.q.val() & (self.slot2.q.val() == self.read_index.val());
        // stage 3: write back; before that, clear
        self.ram.write_enable.next = self.valid3.q.val();
        self.ram.write_address.next = self.slot3.q.val();
        self.ram.write_data.next = self.value.q.val();
        if !self.running.val() {
            self.ram.write_enable.next = true;
            self.ram.write_address.next = self.cleared.q.val().get_bits::<7>(0);
            self.ram.write_data.next = 0.into();
            self.cleared.d.next = self.cleared.q.val() + 1;
        }

        self.shifted.next = self.value.q.val() >> self.low_bits.val();
        self.done.d.next = false;
        self.data.d.next = bit_cast::<32, LOW>(self.value.q.val().get_bits::<LOW>(0));
        if self.read_high.val() {
            self.data.d.next = bit_cast::<32, HIGH>(self.shifted.val().get_bits::<HIGH>(0));
            if self.frozen.q.val() & (self.frozen_index.q.val() == self.read_index.val()) {
                self.data.d.next = bit_cast::<32, HIGH>(self.frozen_high.q.val());
            }
        }
        if self.hit.q.val() & self.read.val() & !self.done.q.val() {
            self.done.d.next = true;
            self.frozen.d.next = !self.read_high.val();
            if !self.read_high.val() {
                self.frozen_index.d.next = self.read_index.val();
                self.frozen_high.d.next = self.shifted.val().get_bits::<HIGH>(0);
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
