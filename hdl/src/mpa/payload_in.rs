// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload that TCP lets through goes to `mpa::start_rx`, or in full operation to `mpa::rx`; the answer, how much was taken over, comes back from there.
//!
//! `payload_meta` with `full` decides; `inp` follows, and the next `payload_meta` comes after `consumed`. No clock is added. A choice stands in one flip-flop.
use crate::stream::*;
use crate::tcp::types::PayloadIn;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct PayloadInSplit {
    pub clock: Signal<In, Clock>,
    pub payload_meta: ChanSink<PayloadIn>,
    pub inp: StreamSink,
    pub consumed: ChanSrc<Bits<16>>,
    pub start_meta: ChanSrc<PayloadIn>,
    pub start: StreamSrc,
    pub start_consumed: ChanSink<Bits<16>>,
    pub full_meta: ChanSrc<PayloadIn>,
    pub full: StreamSrc,
    pub full_consumed: ChanSink<Bits<16>>,
    of_full: DFF<Bit>,
    asks_full: Signal<Local, Bit>,
}

impl Logic for PayloadInSplit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, of_full);
        self.asks_full.next = self.payload_meta.data.val().full;
        self.start_meta.data.next = self.payload_meta.data.val();
        self.full_meta.data.next = self.payload_meta.data.val();
        self.start_meta.valid.next = self.payload_meta.valid.val() & !self.asks_full.val();
        self.full_meta.valid.next = self.payload_meta.valid.val() & self.asks_full.val();
        self.payload_meta.ready.next = self.start_meta.ready.val();
        if self.asks_full.val() {
            self.payload_meta.ready.next = self.full_meta.ready.val();
        }
        if self.payload_meta.valid.val() {
            self.of_full.d.next = self.asks_full.val();
        }
        self.start.beat.next = self.inp.beat.val();
        self.full.beat.next = self.inp.beat.val();
        self.start.valid.next = self.inp.valid.val() & !self.of_full.q.val();
        self.full.valid.next = self.inp.valid.val() & self.of_full.q.val();
        self.inp.ready.next = self.start.ready.val();
        self.consumed.valid.next = self.start_consumed.valid.val();
        self.consumed.data.next = self.start_consumed.data.val();
        self.start_consumed.ready.next = self.consumed.ready.val() & !self.of_full.q.val();
        self.full_consumed.ready.next = self.consumed.ready.val() & self.of_full.q.val();
        if self.of_full.q.val() {
            self.inp.ready.next = self.full.ready.val();
            self.consumed.valid.next = self.full_consumed.valid.val();
            self.consumed.data.next = self.full_consumed.data.val();
        }
    }
}
