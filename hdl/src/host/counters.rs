// SPDX-License-Identifier: MIT OR Apache-2.0
//! 120 counters of W = LOW + HIGH bits: 48 = 32 + 16 in the adapter (tests take narrow halves to see the carry). The table of the ABI has
//! fewer; what it lacks stays 0.
//!
//! Interface: `pulses` adds 1 to each counter whose bit is high, in every clock. `read_*` reads one half of a counter: `read` stays high
//! with its index (below 120) until `read_done`, `read_data` is valid with it. Reading the low half freezes the high half: if the next read is the
//! high half of the same counter it gets what belonged to that low half, any other read of a high half gets its present value.
//!
//! How: each counter has a shift register of 7 bits with feedback (x^7 + x^6 + 1, inverted so that 0 belongs to it), which a pulse moves on: one
//! look-up table where an adder needs seven. It has 127 states; `positions` says the how-manieth one it is in. RAM holds the counter and the
//! position seen last. A sweep visits one counter a clock and adds what the position has moved. A counter is
//! visited every 120 clocks and so moves by at most 120 between two visits: it never comes round unseen, and nothing is lost at a pulse a clock.
//! The RAM has one read port, which belongs to the sweep; a host read waits until the sweep comes by (at most 120 + 7 clocks).
//!
//! `reset` clears everything: `ready` is low from its second clock until 128 words are cleared (130 clocks), however short the reset was, and
//! pulses do not count while it is low; reads are dropped while `reset` is high and wait while `ready` is low.
//!
//! Timing: a pulse is in the value that a read gives which starts 5 clocks later or more. Memory: 128 x 55 bits of block RAM (2 DP16KD), 7 flip-flops
//! a counter. `WS` = W + 7.
use crate::host::pulses::CounterPulses;
use crate::stream::BlockRam;
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct Counters<const W: usize, const WS: usize, const LOW: usize, const HIGH: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub pulses: Signal<In, CounterPulses>,
    pub read: Signal<In, Bit>,
    pub read_index: Signal<In, Bits<7>>,
    pub read_high: Signal<In, Bit>,
    pub read_done: Signal<Out, Bit>,
    pub read_data: Signal<Out, Bits<32>>,
    /// Position seen last in the low 7 bits, the counter above.
    ram: BlockRam<Bits<WS>, 7>,
    lfsr: [DFF<Bits<7>>; 120],
    positions: ROM<Bits<7>, 7>,
    // the sweep: slot read now, and in the five stages after it
    slot: DFF<Bits<7>>,
    slot1: DFF<Bits<7>>,
    slot2: DFF<Bits<7>>,
    slot3: DFF<Bits<7>>,
    slot4: DFF<Bits<7>>,
    slot5: DFF<Bits<7>>,
    /// Stage 1: the slot's shift register in its group, 0 in the others.
    group: [DFF<Bits<7>>; 15],
    /// Stage 2: the shift register, and what RAM holds.
    now: DFF<Bits<7>>,
    stored2: DFF<Bits<WS>>,
    /// Stage 3: the position.
    position3: DFF<Bits<7>>,
    stored3: DFF<Bits<WS>>,
    /// Stage 4: how far it has moved.
    position4: DFF<Bits<7>>,
    moved: DFF<Bits<7>>,
    count4: DFF<Bits<W>>,
    /// Stage 5: the new value, written to RAM.
    position5: DFF<Bits<7>>,
    value: DFF<Bits<W>>,
    /// Stages hold real slots, not what was in them before a reset.
    valid1: DFF<Bit>,
    valid2: DFF<Bit>,
    valid3: DFF<Bit>,
    valid4: DFF<Bit>,
    valid5: DFF<Bit>,
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
    state: [Signal<Local, Bits<7>>; 120],
    /// Multiplexer of the sweep: pairs, fours and eights before `group`.
    pair: [Signal<Local, Bits<7>>; 60],
    four: [Signal<Local, Bits<7>>; 30],
    eight: [Signal<Local, Bits<7>>; 15],
    merged: Signal<Local, Bits<7>>,
    seen3: Signal<Local, Bits<7>>,
    distance: Signal<Local, Bits<7>>,
    shifted: Signal<Local, Bits<W>>,
    last_slot: Constant<Bits<7>>,
    seven: Constant<Bits<6>>,
    low_bits: Constant<Bits<6>>,
}

/// The state of the shift register after this one.
fn after(state: u64) -> u64 {
    (state << 1 & 0x7f) | (!(state >> 6 ^ state >> 5) & 1)
}

/// How many pulses lead from state 0 to each state; the last one, 127, is on nobody's way.
fn positions() -> [u64; 128] {
    let mut positions = [0; 128];
    let mut state = 0;
    for position in 0..127 {
        positions[state as usize] = position;
        state = after(state);
    }
    assert_eq!(state, 0, "127 states");
    positions
}

impl<const W: usize, const WS: usize, const LOW: usize, const HIGH: usize> Default for Counters<W, WS, LOW, HIGH> {
    fn default() -> Self {
        assert!(W == LOW + HIGH && WS == W + 7);
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
            lfsr: std::array::from_fn(|_| Default::default()),
            positions: ROM::from(positions().into_iter().map(|p| p.to_bits::<7>())),
            slot: Default::default(),
            slot1: Default::default(),
            slot2: Default::default(),
            slot3: Default::default(),
            slot4: Default::default(),
            slot5: Default::default(),
            group: Default::default(),
            now: Default::default(),
            stored2: Default::default(),
            position3: Default::default(),
            stored3: Default::default(),
            position4: Default::default(),
            moved: Default::default(),
            count4: Default::default(),
            position5: Default::default(),
            value: Default::default(),
            valid1: Default::default(),
            valid2: Default::default(),
            valid3: Default::default(),
            valid4: Default::default(),
            valid5: Default::default(),
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
            state: std::array::from_fn(|_| Default::default()),
            pair: std::array::from_fn(|_| Default::default()),
            four: Default::default(),
            eight: Default::default(),
            merged: Default::default(),
            seen3: Default::default(),
            distance: Default::default(),
            shifted: Default::default(),
            last_slot: Constant::new(119u64.to_bits()),
            seven: Constant::new(7u64.to_bits()),
            low_bits: Constant::new((LOW as u64).to_bits()),
        }
    }
}

impl<const W: usize, const WS: usize, const LOW: usize, const HIGH: usize> Logic for Counters<W, WS, LOW, HIGH> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, slot, slot1, slot2, slot3, slot4, slot5, now, stored2, position3, stored3, position4, moved, count4);
        dff_setup!(self, clock, position5, value, valid1, valid2, valid3, valid4, valid5, cleared, was_reset);
        dff_setup!(self, clock, hit, done, data, frozen, frozen_index, frozen_high);
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.running.next = self.cleared.q.val().get_bit(7);
        self.was_reset.d.next = self.reset.val();
        self.restart.next = self.reset.val() & !self.was_reset.q.val();
        self.ready.next = self.running.val();
        self.pulse.next = bit_cast::<128, 107>(self.pulses.val().into());
        for i in 0..120 {
            self.lfsr[i].clock.next = self.clock.val();
            self.state[i].next = self.lfsr[i].q.val();
            self.lfsr[i].d.next = self.state[i].val();
            if self.pulse.val().get_bit(i) {
                self.lfsr[i].d.next = self.state[i].val() << 1;
                if self.state[i].val().get_bit(6) == self.state[i].val().get_bit(5) {
                    self.lfsr[i].d.next = (self.state[i].val() << 1) | 1;
                }
            }
            if !self.running.val() | self.reset.val() {
                self.lfsr[i].d.next = 0.into();
            }
        }

        // stage 0: read address out, the slot's shift register in
        self.slot.d.next = self.slot.q.val() + 1;
        if self.slot.q.val() == self.last_slot.val() {
            self.slot.d.next = 0.into();
        }
        self.ram.read_address.next = self.slot.q.val();
        self.slot1.d.next = self.slot.q.val();
        self.valid1.d.next = self.running.val();
        for i in 0..60 {
            self.pair[i].next = self.state[i * 2].val();
            if self.slot.q.val().get_bit(0) {
                self.pair[i].next = self.state[i * 2 + 1].val();
            }
        }
        for i in 0..30 {
            self.four[i].next = self.pair[i * 2].val();
            if self.slot.q.val().get_bit(1) {
                self.four[i].next = self.pair[i * 2 + 1].val();
            }
        }
        for i in 0..15 {
            self.eight[i].next = self.four[i * 2].val();
            if self.slot.q.val().get_bit(2) {
                self.eight[i].next = self.four[i * 2 + 1].val();
            }
            self.group[i].clock.next = self.clock.val();
            self.group[i].d.next = 0.into();
            if self.slot.q.val().get_bits::<4>(3).index() == i {
                self.group[i].d.next = self.eight[i].val();
            }
        }
        // stage 1: the RAM's word is there
        self.slot2.d.next = self.slot1.q.val();
        self.valid2.d.next = self.valid1.q.val() & self.running.val();
        self.stored2.d.next = self.ram.read_data.val();
        self.merged.next = self.group[0].q.val();
        for i in 1..15 {
            self.merged.next = self.merged.val() | self.group[i].q.val();
        }
        self.now.d.next = self.merged.val();
        // stage 2: where on its way that is
        self.slot3.d.next = self.slot2.q.val();
        self.valid3.d.next = self.valid2.q.val() & self.running.val();
        self.stored3.d.next = self.stored2.q.val();
        self.positions.address.next = self.now.q.val();
        self.position3.d.next = self.positions.data.val();
        // stage 3: how far it has moved, modulo 127
        self.slot4.d.next = self.slot3.q.val();
        self.valid4.d.next = self.valid3.q.val() & self.running.val();
        self.seen3.next = self.stored3.q.val().get_bits::<7>(0);
        self.distance.next = self.position3.q.val() - self.seen3.val();
        self.moved.d.next = self.distance.val();
        if self.position3.q.val() < self.seen3.val() {
            self.moved.d.next = self.distance.val() - 1;
        }
        self.count4.d.next = self.stored3.q.val().get_bits::<W>(7);
        self.position4.d.next = self.position3.q.val();
        // stage 4: the new value
        self.slot5.d.next = self.slot4.q.val();
        self.valid5.d.next = self.valid4.q.val() & self.running.val();
        self.value.d.next = self.count4.q.val() + bit_cast::<W, 7>(self.moved.q.val());
        self.position5.d.next = self.position4.q.val();
        self.hit.d.next = self.read.val() & self.valid4.q.val() & (self.slot4.q.val() == self.read_index.val());
        // stage 5: write back; before that, clear
        self.ram.write_enable.next = self.valid5.q.val();
        self.ram.write_address.next = self.slot5.q.val();
        self.ram.write_data.next = (bit_cast::<WS, W>(self.value.q.val()) << self.seven.val()) | bit_cast::<WS, 7>(self.position5.q.val());
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
