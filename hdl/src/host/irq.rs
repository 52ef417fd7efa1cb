// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: four causes, each with a vector of its own.
//!
//! Interface: a bit of `causes` is high for one clock when its cause fires (after what it announces is in host memory). `mask` is register
//! IRQ_MASK (1 = enabled), `ack` with `ack_value` the strobe of IRQ_ACK, `pending` register IRQ_PENDING. `vector` hands the vectors over.
//!
//! The rule, for each cause:
//! * `pending` is set when the cause fires. A cause that is pending and enabled is offered as a vector, once until the next acknowledge.
//!   A cause that became pending while masked is offered at unmasking.
//! * An acknowledge after the vector was handed over clears `pending`, unless the cause fired at or after the clock of the handing over:
//!   then the cause stays pending and is offered again. The same if the cause fires in the clock of the acknowledge.
//! * An acknowledge of a cause that is enabled and whose vector was not handed over yet does nothing: the vector comes. If the cause is
//!   masked, the acknowledge clears it.
//!
//! So a driver that, woken by a vector, writes IRQ_ACK and reads its ring until it is empty never sleeps on work, in whichever order the
//! posted write and its reads of memory become visible: what was announced before the vector left is in memory when the vector arrives,
//! what is announced later raises another vector. The price is at most one vector too many. One acknowledge a vector. A driver that polls
//! with the cause masked must acknowledge, read any register (which pushes the acknowledge), and only then look at its ring and unmask.
//!
//! Timing: the causes are looked at in turn, one a clock; 2 to 5 clocks from cause to offer. Memory: flip-flops. `reset` forgets everything.
use crate::stream::ChanSrc;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Irq {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub causes: Signal<In, Bits<4>>,
    pub mask: Signal<In, Bits<32>>,
    pub ack: Signal<In, Bit>,
    pub ack_value: Signal<In, Bits<32>>,
    pub pending: Signal<Out, Bits<32>>,
    pub vector: ChanSrc<Bits<5>>,
    waiting: DFF<Bits<4>>,
    /// The vector was handed over and not acknowledged.
    raised: DFF<Bits<4>>,
    /// Fired since it was handed over.
    again: DFF<Bits<4>>,
    turn: DFF<Bits<2>>,
    offer: DFF<Bit>,
    offered: DFF<Bits<2>>,
    given: Signal<Local, Bits<4>>,
    acked: Signal<Local, Bits<4>>,
    eligible: Signal<Local, Bits<4>>,
    now_raised: Signal<Local, Bits<4>>,
    masked: Signal<Local, Bits<4>>,
    kept: Signal<Local, Bits<4>>,
    not_acked: Signal<Local, Bits<4>>,
}

impl Logic for Irq {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, waiting, raised, again, turn, offer, offered);
        self.given.next = 0.into();
        for i in 0..4 {
            if self.offer.q.val() & self.vector.ready.val() & (self.offered.q.val().index() == i) {
                self.given.next = self.given.val().replace_bit(i, true);
            }
        }
        self.masked.next = self.mask.val().get_bits::<4>(0) ^ bits::<4>(15);
        self.acked.next = 0.into();
        if self.ack.val() {
            self.acked.next = self.ack_value.val().get_bits::<4>(0) & (self.raised.q.val() | self.masked.val());
        }
        self.not_acked.next = self.acked.val() ^ bits::<4>(15);

        // an acknowledge ends the episode of a vector that was handed over before it
        self.kept.next = self.again.q.val() | self.causes.val();
        self.waiting.d.next = (self.waiting.q.val() & self.not_acked.val()) | self.kept.val();
        self.now_raised.next =
            (self.raised.q.val() & self.not_acked.val()) | (self.given.val() & self.waiting.q.val() & self.not_acked.val());
        self.again.d.next = (self.again.q.val() & self.not_acked.val()) | (self.causes.val() & self.now_raised.val());
        self.raised.d.next = self.now_raised.val();

        self.eligible.next =
            self.waiting.q.val() & self.mask.val().get_bits::<4>(0) & (self.raised.q.val() ^ bits::<4>(15)) & self.not_acked.val();
        self.turn.d.next = self.turn.q.val() + 1;
        if !self.offer.q.val() {
            for i in 0..4 {
                if (self.turn.q.val().index() == i) & self.eligible.val().get_bit(i) {
                    self.offer.d.next = true;
                    self.offered.d.next = self.turn.q.val();
                }
            }
        } else if self.vector.ready.val() {
            self.offer.d.next = false;
        }
        self.vector.valid.next = self.offer.q.val();
        self.vector.data.next = bit_cast::<5, 2>(self.offered.q.val());
        self.pending.next = bit_cast::<32, 4>(self.waiting.q.val());
        if self.reset.val() {
            self.waiting.d.next = 0.into();
            self.raised.d.next = 0.into();
            self.again.d.next = 0.into();
            self.offer.d.next = false;
        }
    }
}
