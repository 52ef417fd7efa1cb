// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive router: who gets the next frame of the receive buffer.
//!
//! Interface: `meta_in` and `inp` from the buffer; `lookup`/`answer` to the port database; `host`, `icmp` and `tcp` out. `meta` describes the
//! frame from its first `valid` on the chosen output until its last beat was taken; so do, for a frame on `tcp`, `listening` and `listener`: the
//! listener that the port database named, if any. `host` and `icmp` promise to take at the pace of the wire (they drop themselves what they
//! have no room for); `tcp` may wait for the engine behind it. A frame waits for the one before it.
//!
//! Rules: echo requests go to `icmp`. TCP segments whose port has a listener on their address, or any user, go to `tcp`. Segments for a port that
//! nobody holds go to the host if `share`; else they are the adapter's to answer with RST (TCP-28): they go to `tcp` without a listener, and
//! tcpInNoPort moves. All other frames go to the host if `share`, else they are dropped and l2InNotShared moves. The classes
//! (ip4InPkts, tcpInSegs, icmpInEchos, ...) are counted here, so that frames which found no room in the buffer are not in them.
//!
//! States: `Empty`, `Decide`, `Ask`, `Wait` and `Ready` of the frame to come; meanwhile the frame before it passes (`busy`, `to_*`).
//!
//! Timing: beats pass in the same clock, one a clock. A frame is decided 2 clocks after its meta (TCP: 3 + the look-up's 3), one idle clock
//! between frames. Memory: none; two metas in flip-flops.
use super::types::RxMeta;
use crate::cm::port_types::{PortAnswer, PortQuery};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RouteState {
    Empty,
    Decide,
    Ask,
    Wait,
    Ready,
}

/// Destination; none of them: drop.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RouteTo {
    pub host: Bit,
    pub icmp: Bit,
    pub tcp: Bit,
}

#[derive(LogicBlock, Default)]
pub struct RxRouter {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub share: Signal<In, Bit>,
    pub meta_in: ChanSink<RxMeta>,
    pub inp: StreamSink,
    pub lookup: ChanSrc<PortQuery>,
    pub answer: ChanSink<PortAnswer>,
    pub meta: Signal<Out, RxMeta>,
    pub host: StreamSrc,
    pub icmp: StreamSrc,
    pub tcp: StreamSrc,
    pub listening: Signal<Out, Bit>,
    pub listener: Signal<Out, Bits<16>>,
    pub cnt_ip4_in_pkts: Signal<Out, Bit>,
    pub cnt_ip4_in_options: Signal<Out, Bit>,
    pub cnt_ip4_in_fragments: Signal<Out, Bit>,
    pub cnt_ip4_in_other_proto: Signal<Out, Bit>,
    pub cnt_eth_in_other_type: Signal<Out, Bit>,
    pub cnt_rx_vlan_errors: Signal<Out, Bit>,
    pub cnt_icmp_in_echos: Signal<Out, Bit>,
    pub cnt_icmp_in_to_host: Signal<Out, Bit>,
    pub cnt_tcp_in_segs: Signal<Out, Bit>,
    pub cnt_tcp_in_no_port: Signal<Out, Bit>,
    pub cnt_l2_in_not_shared: Signal<Out, Bit>,
    state: DFF<RouteState>,
    /// The frame to come.
    next_meta: DFF<RxMeta>,
    next_to: DFF<RouteTo>,
    next_answer: DFF<PortAnswer>,
    /// The frame that passes.
    busy: DFF<Bit>,
    now_meta: DFF<RxMeta>,
    now_to: DFF<RouteTo>,
    now_answer: DFF<PortAnswer>,
    decide: Signal<Local, Bit>,
    ready: Signal<Local, Bit>,
    ends: Signal<Local, Bit>,
}

impl Logic for RxRouter {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, next_meta, next_to, next_answer, busy, now_meta, now_to, now_answer);
        self.meta_in.ready.next = false;
        self.lookup.valid.next = false;
        self.lookup.data.next.addr = self.next_meta.q.val().dst_ip;
        self.lookup.data.next.port = self.next_meta.q.val().dst_port;
        self.answer.ready.next = false;
        self.decide.next = false;
        self.cnt_tcp_in_no_port.next = false;
        self.cnt_l2_in_not_shared.next = false;

        // the frame that passes
        self.meta.next = self.now_meta.q.val();
        self.listening.next = self.now_answer.q.val().listening;
        self.listener.next = self.now_answer.q.val().listener;
        self.host.beat.next = self.inp.beat.val();
        self.icmp.beat.next = self.inp.beat.val();
        self.tcp.beat.next = self.inp.beat.val();
        self.host.valid.next = self.busy.q.val() & self.now_to.q.val().host & self.inp.valid.val();
        self.icmp.valid.next = self.busy.q.val() & self.now_to.q.val().icmp & self.inp.valid.val();
        self.tcp.valid.next = self.busy.q.val() & self.now_to.q.val().tcp & self.inp.valid.val();
        self.ready.next = true;
        if self.now_to.q.val().host {
            self.ready.next = self.host.ready.val();
        }
        if self.now_to.q.val().icmp {
            self.ready.next = self.icmp.ready.val();
        }
        if self.now_to.q.val().tcp {
            self.ready.next = self.tcp.ready.val();
        }
        self.inp.ready.next = self.busy.q.val() & self.ready.val();
        self.ends.next = self.busy.q.val() & self.ready.val() & self.inp.valid.val() & self.inp.beat.val().last;
        if self.ends.val() {
            self.busy.d.next = false;
        }

        // the frame to come
        match self.state.q.val() {
            RouteState::Empty => {
                self.meta_in.ready.next = true;
                if self.meta_in.valid.val() {
                    self.next_meta.d.next = self.meta_in.data.val();
                    self.state.d.next = RouteState::Decide;
                }
            }
            RouteState::Decide => {
                self.decide.next = true;
                self.next_to.d.next.host = false;
                self.next_to.d.next.icmp = false;
                self.next_to.d.next.tcp = false;
                self.state.d.next = RouteState::Ready;
                if self.next_meta.q.val().tcp {
                    self.state.d.next = RouteState::Ask;
                } else if self.next_meta.q.val().echo {
                    self.next_to.d.next.icmp = true;
                } else {
                    self.next_to.d.next.host = self.share.val();
                    self.cnt_l2_in_not_shared.next = !self.share.val();
                }
            }
            RouteState::Ask => {
                self.lookup.valid.next = true;
                if self.lookup.ready.val() {
                    self.state.d.next = RouteState::Wait;
                }
            }
            RouteState::Wait => {
                self.answer.ready.next = true;
                if self.answer.valid.val() {
                    self.state.d.next = RouteState::Ready;
                    self.next_answer.d.next = self.answer.data.val();
                    self.next_to.d.next.tcp = true;
                    if !self.answer.data.val().listening & !self.answer.data.val().used {
                        self.next_to.d.next.tcp = !self.share.val();
                        self.next_to.d.next.host = self.share.val();
                        self.cnt_tcp_in_no_port.next = !self.share.val();
                    }
                }
            }
            RouteState::Ready => {
                if !self.busy.q.val() | self.ends.val() {
                    self.now_meta.d.next = self.next_meta.q.val();
                    self.now_to.d.next = self.next_to.q.val();
                    self.now_answer.d.next = self.next_answer.q.val();
                    self.busy.d.next = true;
                    self.state.d.next = RouteState::Empty;
                }
            }
            _ => {
                self.state.d.next = RouteState::Empty;
            }
        }
        self.cnt_ip4_in_pkts.next = self.decide.val() & self.next_meta.q.val().ip;
        self.cnt_ip4_in_options.next = self.decide.val() & self.next_meta.q.val().options;
        self.cnt_ip4_in_fragments.next = self.decide.val() & self.next_meta.q.val().fragment;
        self.cnt_ip4_in_other_proto.next = self.decide.val() & self.next_meta.q.val().other_proto;
        self.cnt_eth_in_other_type.next = self.decide.val() & self.next_meta.q.val().other_type;
        self.cnt_rx_vlan_errors.next = self.decide.val() & self.next_meta.q.val().vlan;
        self.cnt_icmp_in_echos.next = self.decide.val() & self.next_meta.q.val().echo;
        self.cnt_icmp_in_to_host.next = self.decide.val() & self.next_meta.q.val().icmp;
        self.cnt_tcp_in_segs.next = self.decide.val() & self.next_meta.q.val().tcp;
        if self.reset.val() {
            self.state.d.next = RouteState::Empty;
            self.busy.d.next = false;
        }
    }
}
