// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two clients of one service that answers every request once, in order: requests of `a` and `b` go to `req` in turn, the reply that comes in `rsp` goes
//! to the client whose request it answers.
//!
//! The choice is held from the clock in which a request is offered until its reply was taken; only then may the next request go out, so the service
//! is asked one thing at a time. A client waits for at most one request of the other, and for as long as the other leaves its reply: every client must
//! take its reply without waiting for anything that the other must do.
//!
//! **States.** Idle; `held`: a request is offered; `busy`: the service has taken it and owes the reply. Timing: no clock is added to a request or a reply, one
//! clock lies between the end of a reply and the next request. Memory: three flip-flops.
use super::{ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct ChanShare2<Q: Synth, R: Synth> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a_req: ChanSink<Q>,
    pub a_rsp: ChanSrc<R>,
    pub b_req: ChanSink<Q>,
    pub b_rsp: ChanSrc<R>,
    pub req: ChanSrc<Q>,
    pub rsp: ChanSink<R>,
    held: DFF<Bit>,
    busy: DFF<Bit>,
    /// The last choice was `b`.
    last_b: DFF<Bit>,
    of_b: Signal<Local, Bit>,
    offer: Signal<Local, Bit>,
    to_a: Signal<Local, Bit>,
    to_b: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
}

impl<Q: Synth, R: Synth> Default for ChanShare2<Q, R> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            a_req: Default::default(),
            a_rsp: Default::default(),
            b_req: Default::default(),
            b_rsp: Default::default(),
            req: Default::default(),
            rsp: Default::default(),
            held: Default::default(),
            busy: Default::default(),
            last_b: Default::default(),
            of_b: Default::default(),
            offer: Default::default(),
            to_a: Default::default(),
            to_b: Default::default(),
            taken: Default::default(),
        }
    }
}

impl<Q: Synth, R: Synth> Logic for ChanShare2<Q, R> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, held, busy, last_b);
        self.of_b.next = self.b_req.valid.val() & (!self.a_req.valid.val() | !self.last_b.q.val());
        if self.held.q.val() {
            self.of_b.next = self.last_b.q.val();
        }
        self.offer.next = !self.busy.q.val() & (self.a_req.valid.val() | self.b_req.valid.val());
        self.req.valid.next = self.offer.val();
        self.req.data.next = self.a_req.data.val();
        if self.of_b.val() {
            self.req.data.next = self.b_req.data.val();
        }
        self.a_req.ready.next = self.req.ready.val() & !self.busy.q.val() & !self.of_b.val();
        self.b_req.ready.next = self.req.ready.val() & !self.busy.q.val() & self.of_b.val();
        self.held.d.next = self.offer.val() & !self.req.ready.val();
        if self.offer.val() {
            self.last_b.d.next = self.of_b.val();
            self.busy.d.next = self.req.ready.val();
        }

        self.to_a.next = self.busy.q.val() & !self.last_b.q.val();
        self.to_b.next = self.busy.q.val() & self.last_b.q.val();
        self.a_rsp.data.next = self.rsp.data.val();
        self.b_rsp.data.next = self.rsp.data.val();
        self.a_rsp.valid.next = self.rsp.valid.val() & self.to_a.val();
        self.b_rsp.valid.next = self.rsp.valid.val() & self.to_b.val();
        self.taken.next = (self.to_a.val() & self.a_rsp.ready.val()) | (self.to_b.val() & self.b_rsp.ready.val());
        self.rsp.ready.next = self.taken.val();
        if self.rsp.valid.val() & self.taken.val() {
            self.busy.d.next = false;
        }
        if self.reset.val() {
            self.held.d.next = false;
            self.busy.d.next = false;
        }
    }
}
