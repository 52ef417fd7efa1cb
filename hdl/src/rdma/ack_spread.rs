// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::tx` tells of several acknowledged FPDUs in one message, `rdma::sq` takes them one by one: a message with `count` n goes out n times with 1.
//!
//! No clock is added; a message is taken together with the last of what it becomes. Memory: how many went out already.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct AckSpread {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<TxToSq>,
    pub out: ChanSrc<TxToSq>,
    gone: DFF<Bits<8>>,
    message: Signal<Local, TxToSq>,
    next_gone: Signal<Local, Bits<8>>,
    last: Signal<Local, Bit>,
}

impl Logic for AckSpread {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, gone);
        self.message.next = self.inp.data.val();
        self.next_gone.next = self.gone.q.val() + 1;
        self.last.next = (self.message.val().note == TxSqNote::Emss) | (self.next_gone.val() >= self.message.val().count);
        self.out.valid.next = self.inp.valid.val();
        self.out.data.next.note = self.message.val().note;
        self.out.data.next.index = self.message.val().index;
        self.out.data.next.emss = self.message.val().emss;
        self.out.data.next.count = 1.into();
        self.inp.ready.next = self.out.ready.val() & self.last.val();
        if self.inp.valid.val() & self.out.ready.val() {
            self.gone.d.next = self.next_gone.val();
            if self.last.val() {
                self.gone.d.next = 0.into();
            }
        }
        if self.reset.val() {
            self.gone.d.next = 0.into();
        }
    }
}
