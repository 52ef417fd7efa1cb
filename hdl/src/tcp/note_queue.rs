// SPDX-License-Identifier: MIT OR Apache-2.0
//! Three places between `tcp::rx` and `tcp::tx`, in which what acknowledges more takes the place of what acknowledges less.
//!
//! **Interface.** `out` brings what came by `inp`, in its order. An `Update` that meets the one before it, of the same connection and still waiting, makes one of both: the later's numbers, and ACK at
//! once if either wanted it. That is as if the peer's earlier segment had been lost on its way behind having been acknowledged, and TCP is made for it. Never merged: one that `tcp::tx` counts as a duplicate (TCP-17);
//! one that is to be acknowledged at once for another reason than payload in order (`soft` is not set: the peer may count our ACKs, TCP-18); one with a window of 0; and of those that are to be
//! acknowledged no more than two, so that each second segment has its ACK (TCP-18). What is offered at `out` stays as it is.
//!
//! **Timing.** 3 clocks from in to out, a message every 2 clocks. **Memory:** three messages in registers.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct NoteQueue {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<RxToTx>,
    pub out: ChanSrc<RxToTx>,
    first: DFF<RxToTx>,
    second: DFF<RxToTx>,
    third: DFF<RxToTx>,
    first_full: DFF<Bit>,
    second_full: DFF<Bit>,
    third_full: DFF<Bit>,
    f: Signal<Local, RxToTx>,
    s: Signal<Local, RxToTx>,
    f_window: Signal<Local, Bits<32>>,
    s_window: Signal<Local, Bits<32>>,
    f_index: Signal<Local, Bits<16>>,
    s_index: Signal<Local, Bits<16>>,
    f_plain: Signal<Local, Bit>,
    s_plain: Signal<Local, Bit>,
    joins: Signal<Local, Bit>,
}

impl Logic for NoteQueue {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, first, second, third, first_full, second_full, third_full);
        self.f.next = self.first.q.val();
        self.s.next = self.second.q.val();
        self.f_window.next = self.f.val().window;
        self.s_window.next = self.s.val().window;
        self.f_index.next = self.f.val().index;
        self.s_index.next = self.s.val().index;
        self.f_plain.next = (self.f.val().note == RxNote::Update)
            & !self.f.val().duplicate
            & self.f_window.val().any()
            & (self.f.val().soft | !self.f.val().ack_now);
        self.s_plain.next = (self.s.val().note == RxNote::Update)
            & !self.s.val().duplicate
            & self.s_window.val().any()
            & (self.s.val().soft | !self.s.val().ack_now);
        self.joins.next = self.f_plain.val() & self.s_plain.val() & (self.f_index.val() == self.s_index.val());

        self.inp.ready.next = !self.first_full.q.val();
        self.out.valid.next = self.third_full.q.val();
        self.out.data.next = self.third.q.val();
        if self.third_full.q.val() {
            self.third_full.d.next = !self.out.ready.val();
        } else {
            self.third.d.next = self.second.q.val();
            self.third_full.d.next = self.second_full.q.val();
        }
        if self.second_full.q.val() {
            if !self.third_full.q.val() {
                self.second_full.d.next = false;
            } else if self.first_full.q.val() & self.joins.val() {
                self.second.d.next = self.first.q.val();
                self.second.d.next.ack_now = self.f.val().ack_now | self.s.val().ack_now;
                // of two that are to be acknowledged nothing waits any more
                self.second.d.next.soft = self.f.val().soft != self.s.val().soft;
                self.first_full.d.next = false;
            }
        } else {
            self.second.d.next = self.first.q.val();
            self.second_full.d.next = self.first_full.q.val();
            self.first_full.d.next = false;
        }
        if !self.first_full.q.val() {
            self.first.d.next = self.inp.data.val();
            self.first_full.d.next = self.inp.valid.val();
        }
        if self.reset.val() {
            self.first_full.d.next = false;
            self.second_full.d.next = false;
            self.third_full.d.next = false;
        }
    }
}
