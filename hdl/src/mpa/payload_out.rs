// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payloads that `tcp::tx` asks for come from `mpa::start_tx` or, with `data`, from `mpa::tx`, and leave in the order in which they were asked for.
//!
//! `ask` goes to one of both, which may begin with it while the one before still leaves; whose turn it is stands in a queue of 4. No clock is added to a stream, 2 to the first
//! beat after an idle time. `busy` from the clock after a payload was asked for until its last beat has left, and while one of both is busy.
use crate::rdma::types::FpduOut;
use crate::stream::*;
use crate::tcp::types::PayloadOut;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct PayloadOutMerge {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ask: ChanSink<PayloadOut>,
    pub out: StreamSrc,
    pub busy: Signal<Out, Bit>,
    pub start_ask: ChanSrc<PayloadOut>,
    pub start: StreamSink,
    pub start_busy: Signal<In, Bit>,
    pub fpdu_ask: ChanSrc<FpduOut>,
    pub fpdu: StreamSink,
    pub fpdu_busy: Signal<In, Bit>,
    turns: ChanFifo<Bit, 2, 3>,
    /// Payloads that were asked for and have not left.
    open: DFF<Bits<3>>,
    of_fpdu: Signal<Local, Bit>,
    asked: Signal<Local, Bit>,
    begun: Signal<Local, Bit>,
    left: Signal<Local, Bit>,
    take: Signal<Local, PayloadOut>,
}

impl Logic for PayloadOutMerge {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, open);
        clock!(self, clock, turns);
        self.turns.reset.next = self.reset.val();
        self.take.next = self.ask.data.val();
        self.of_fpdu.next = self.take.val().data;
        self.start_ask.data.next = self.take.val();
        self.fpdu_ask.data.next.index = self.take.val().index;
        self.fpdu_ask.data.next.fpdu = self.take.val().fpdu;
        self.fpdu_ask.data.next.skip = self.take.val().skip;
        self.fpdu_ask.data.next.take = self.take.val().take;
        self.start_ask.valid.next = self.ask.valid.val() & !self.of_fpdu.val() & self.turns.inp.ready.val();
        self.fpdu_ask.valid.next = self.ask.valid.val() & self.of_fpdu.val() & self.turns.inp.ready.val();
        self.asked.next = self.start_ask.ready.val() & self.turns.inp.ready.val();
        if self.of_fpdu.val() {
            self.asked.next = self.fpdu_ask.ready.val() & self.turns.inp.ready.val();
        }
        self.ask.ready.next = self.asked.val();
        self.turns.inp.data.next = self.of_fpdu.val();
        self.begun.next = self.ask.valid.val() & self.asked.val();
        self.turns.inp.valid.next = self.begun.val();

        self.out.beat.next = self.start.beat.val();
        self.out.valid.next = self.start.valid.val() & self.turns.out.valid.val();
        self.start.ready.next = self.out.ready.val() & self.turns.out.valid.val() & !self.turns.out.data.val();
        self.fpdu.ready.next = self.out.ready.val() & self.turns.out.valid.val() & self.turns.out.data.val();
        self.left.next = self.start.beat.val().last & self.start.valid.val() & self.start.ready.val();
        if self.turns.out.data.val() {
            self.out.beat.next = self.fpdu.beat.val();
            self.out.valid.next = self.fpdu.valid.val() & self.turns.out.valid.val();
            self.left.next = self.fpdu.beat.val().last & self.fpdu.valid.val() & self.fpdu.ready.val();
        }
        self.turns.out.ready.next = self.left.val();
        if self.begun.val() & !self.left.val() {
            self.open.d.next = self.open.q.val() + 1;
        } else if !self.begun.val() & self.left.val() {
            self.open.d.next = self.open.q.val() - 1;
        }
        self.busy.next = (self.open.q.val() != 0) | self.start_busy.val() | self.fpdu_busy.val();
        if self.reset.val() {
            self.open.d.next = 0.into();
        }
    }
}
