// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port database. This is its port list only; the logic follows.
use crate::cm::port_types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// The size of the product: 65536 ports, 16 listeners, 64 use slots.
pub type PortDbFull = PortDb<16>;

#[derive(LogicBlock, Default)]
pub struct PortDb<const P: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    /// The memories are clear; requests and look-ups are taken from now on.
    pub ready: Signal<Out, Bit>,
    /// Range that port 0 chooses from (PORT_RANGE). May change at any time; requests then wait for a sweep.
    pub first: Signal<In, Bits<16>>,
    pub last: Signal<In, Bits<16>>,
    /// Seed (RANDOM), taken over when it changes.
    pub random: Signal<In, Bits<32>>,
    /// One request at a time: the next is taken when the reply to the last was.
    pub request: ChanSink<PortRequest>,
    pub reply: ChanSrc<PortReply>,
    /// One look-up a clock, answered in order 3 clocks later unless the answer before it was not taken.
    pub lookup: ChanSink<PortQuery>,
    pub answer: ChanSrc<PortAnswer>,
    pub listeners_live: Signal<Out, Bits<16>>,
    pub cnt_port_in_use: Signal<Out, Bit>,
    pub cnt_port_reserved: Signal<Out, Bit>,
    pub cnt_ports_exhausted: Signal<Out, Bit>,
    alive: DFF<Bit>,
}

impl<const P: usize> Logic for PortDb<P> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, alive);
        self.alive.d.next = !self.reset.val();
        self.ready.next = self.alive.q.val();
        self.request.ready.next = false;
        self.reply.valid.next = false;
        self.reply.data.next.status = PortStatus::Invalid;
        self.reply.data.next.port = 0.into();
        self.reply.data.next.listener = 0.into();
        self.reply.data.next.user = 0.into();
        self.reply.data.next.shared = false;
        self.lookup.ready.next = false;
        self.answer.valid.next = false;
        self.answer.data.next.listening = false;
        self.answer.data.next.listener = 0.into();
        self.answer.data.next.used = false;
        self.answer.data.next.reserved = false;
        self.listeners_live.next = 0.into();
        self.cnt_port_in_use.next = false;
        self.cnt_port_reserved.next = false;
        self.cnt_ports_exhausted.next = false;
    }
}
