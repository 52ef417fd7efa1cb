// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event that is kind, status, context and detail, with 0 in all other fields. Wires only.
use crate::cm::messages::EventOut;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct PlainEvent {
    pub kind: Signal<In, Bits<8>>,
    pub status: Signal<In, Bits<32>>,
    pub echo: Signal<In, Bits<32>>,
    pub detail: Signal<In, Bits<32>>,
    pub out: Signal<Out, EventOut>,
}

impl Logic for PlainEvent {
    #[hdl_gen]
    fn update(&mut self) {
        self.out.next.kind = self.kind.val();
        self.out.next.flags = 0.into();
        self.out.next.status = self.status.val();
        self.out.next.context = self.echo.val();
        self.out.next.detail = self.detail.val();
        self.out.next.index = 0.into();
        self.out.next.handle_kind = 0.into();
        self.out.next.generation = 0.into();
        self.out.next.local_addr = 0.into();
        self.out.next.local_port = 0.into();
        self.out.next.remote_port = 0.into();
        self.out.next.remote_addr = 0.into();
        self.out.next.own_ird = 0.into();
        self.out.next.own_ord = 0.into();
        self.out.next.peer_ird = 0.into();
        self.out.next.peer_ord = 0.into();
        self.out.next.data_len = 0.into();
        self.out.next.listener_index = 0.into();
        self.out.next.listener_generation = 0.into();
    }
}
