// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two clients of the neighbour service: the queue of the host and TCP. [`ChanShare2`] under the service's own names; `notice` goes to both without it.
use super::neighbor_types::{NeighborAnswer, NeighborQuery};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct NeighborShare {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub a_query: ChanSink<NeighborQuery>,
    pub a_answer: ChanSrc<NeighborAnswer>,
    pub b_query: ChanSink<NeighborQuery>,
    pub b_answer: ChanSrc<NeighborAnswer>,
    pub query: ChanSrc<NeighborQuery>,
    pub answer: ChanSink<NeighborAnswer>,
    share: ChanShare2<NeighborQuery, NeighborAnswer>,
}

impl Logic for NeighborShare {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, share);
        self.share.reset.next = self.reset.val();
        ChanSink::<NeighborQuery>::link(&mut self.a_query, &mut self.share.a_req);
        ChanSrc::<NeighborAnswer>::link(&mut self.a_answer, &mut self.share.a_rsp);
        ChanSink::<NeighborQuery>::link(&mut self.b_query, &mut self.share.b_req);
        ChanSrc::<NeighborAnswer>::link(&mut self.b_answer, &mut self.share.b_rsp);
        ChanSrc::<NeighborQuery>::link(&mut self.query, &mut self.share.req);
        ChanSink::<NeighborAnswer>::link(&mut self.answer, &mut self.share.rsp);
    }
}
