// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the set-up rules about each SYN that would make a connection; one that is denied goes on as if nobody listened (RST, TCP-28).
//!
//! **Interface.** `inp` are the segments of `tcp::seg_rx`, `out` the same ones in the same order; `listening` of a SYN without ACK and RST is false
//! if the rules deny it, and then `cnt_conn_denied` pulses. All other segments pass.
//!
//! **States.** `Pass`, `Ask` offers the question, `Wait` for its answer, `Offer` the segment with what was answered. `inp` holds what it offers, so nothing
//! is kept of it. **Timing.** No clock is added but for a SYN to a listener: 3 and the rules' time. **Waiting.** The rules answer within bounded time.
use super::types::SegmentIn;
use crate::cm::rules::{RuleAnswer, RuleQuery};
use crate::stream::{ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SynGuardState {
    Pass,
    Ask,
    Wait,
    Offer,
}

#[derive(LogicBlock, Default)]
pub struct SynGuard {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<SegmentIn>,
    pub out: ChanSrc<SegmentIn>,
    pub query: ChanSrc<RuleQuery>,
    pub answer: ChanSink<RuleAnswer>,
    pub cnt_conn_denied: Signal<Out, Bit>,
    state: DFF<SynGuardState>,
    denied: DFF<Bit>,
    tuple: Signal<Local, super::types::Tuple>,
    flags: Signal<Local, Bits<8>>,
    opens: Signal<Local, Bit>,
    seg: Signal<Local, SegmentIn>,
}

impl Logic for SynGuard {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, denied);
        self.seg.next = self.inp.data.val();
        self.tuple.next = self.seg.val().tuple;
        self.flags.next = self.seg.val().flags;
        self.opens.next =
            self.seg.val().listening & self.flags.val().get_bit(1) & !self.flags.val().get_bit(2) & !self.flags.val().get_bit(4);
        self.query.valid.next = false;
        self.query.data.next.outbound = false;
        self.query.data.next.peer = self.tuple.val().remote_ip;
        self.query.data.next.port = self.tuple.val().local_port;
        self.answer.ready.next = false;
        self.out.valid.next = false;
        self.out.data.next = self.seg.val();
        self.inp.ready.next = false;
        self.cnt_conn_denied.next = false;
        match self.state.q.val() {
            SynGuardState::Pass => {
                self.out.valid.next = self.inp.valid.val() & !self.opens.val();
                self.inp.ready.next = self.out.ready.val() & !self.opens.val();
                if self.inp.valid.val() & self.opens.val() {
                    self.state.d.next = SynGuardState::Ask;
                }
            }
            SynGuardState::Ask => {
                self.query.valid.next = true;
                if self.query.ready.val() {
                    self.state.d.next = SynGuardState::Wait;
                }
            }
            SynGuardState::Wait => {
                self.answer.ready.next = true;
                self.denied.d.next = self.answer.data.val();
                if self.answer.valid.val() {
                    self.cnt_conn_denied.next = self.answer.data.val();
                    self.state.d.next = SynGuardState::Offer;
                }
            }
            SynGuardState::Offer => {
                self.out.valid.next = true;
                self.seg.next.listening = !self.denied.q.val();
                self.out.data.next = self.seg.val();
                self.inp.ready.next = self.out.ready.val();
                if self.out.ready.val() {
                    self.state.d.next = SynGuardState::Pass;
                }
            }
            _ => {
                self.state.d.next = SynGuardState::Pass;
            }
        }
        if self.reset.val() {
            self.state.d.next = SynGuardState::Pass;
        }
    }
}
