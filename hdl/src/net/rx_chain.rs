// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path as the core wires it, for tests of the whole: parser, buffer, router, ICMP echo and transmit multiplexer.
//!
//! Interface: the MAC's beats in (`beat`, `valid`) and out (`out`); `arp`, `host`, `tcp` with `meta`, `listening` and `listener`, and
//! `lookup`/`answer` as in the blocks; `tx` is another source of frames. Timing and memory are those of the blocks; an echo reply starts about 40 clocks after the
//! last beat of its request.
use super::icmp::Icmp;
use super::neighbor_types::ArpPacket;
use super::rx_buffer::RxBuffer;
use super::rx_parser::RxParser;
use super::rx_router::RxRouter;
use super::tx_mux::TxMux;
use super::types::{LocalAddress, RxMeta};
use crate::cm::port_types::{PortAnswer, PortQuery};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct RxChain {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub enable: Signal<In, Bit>,
    pub mac: Signal<In, Bits<48>>,
    pub mtu: Signal<In, Bits<16>>,
    pub share: Signal<In, Bit>,
    pub multicast: Signal<In, Bit>,
    pub promiscuous: Signal<In, Bit>,
    pub ip_ttl: Signal<In, Bits<8>>,
    pub icmp_rate: Signal<In, Bits<32>>,
    pub tick_us: Signal<In, Bits<10>>,
    pub addresses: [Signal<In, LocalAddress>; 4],
    pub beat: Signal<In, Beat>,
    pub valid: Signal<In, Bit>,
    pub arp: ChanSrc<ArpPacket>,
    pub lookup: ChanSrc<PortQuery>,
    pub answer: ChanSink<PortAnswer>,
    pub meta: Signal<Out, RxMeta>,
    pub host: StreamSrc,
    pub tcp: StreamSrc,
    pub listening: Signal<Out, Bit>,
    pub listener: Signal<Out, Bits<16>>,
    pub tx: StreamSink,
    pub out: StreamSrc,
    pub cnt_eth_in_frames: Signal<Out, Bit>,
    pub cnt_eth_in_fcs_errors: Signal<Out, Bit>,
    pub cnt_eth_in_runts: Signal<Out, Bit>,
    pub cnt_eth_in_oversize: Signal<Out, Bit>,
    pub cnt_eth_in_other_mac: Signal<Out, Bit>,
    pub cnt_eth_in_multicast: Signal<Out, Bit>,
    pub cnt_arp_in_ignored: Signal<Out, Bit>,
    pub cnt_ip4_in_hdr_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_csum_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_addr_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_src_errors: Signal<Out, Bit>,
    pub cnt_icmp_in_csum_errors: Signal<Out, Bit>,
    pub cnt_icmp_in_broadcast: Signal<Out, Bit>,
    pub cnt_icmp_in_unknown: Signal<Out, Bit>,
    pub cnt_tcp_in_csum_errors: Signal<Out, Bit>,
    pub cnt_eth_in_overflow: Signal<Out, Bit>,
    pub cnt_rx_meta_dropped: Signal<Out, Bit>,
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
    pub cnt_icmp_out_echo_reps: Signal<Out, Bit>,
    pub cnt_icmp_in_rate_limited: Signal<Out, Bit>,
    pub cnt_ip4_out_pkts: Signal<Out, Bit>,
    pub cnt_eth_out_frames: Signal<Out, Bit>,
    pub cnt_eth_out_underrun: Signal<Out, Bit>,
    parser: RxParser,
    buffer: RxBuffer<11, 12, 8, 9>,
    router: RxRouter,
    echo: Icmp<8, 9>,
    mux: TxMux<2>,
}

impl Logic for RxChain {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, parser, buffer, router, echo, mux);
        self.parser.reset.next = self.reset.val();
        self.buffer.reset.next = self.reset.val();
        self.router.reset.next = self.reset.val();
        self.echo.reset.next = self.reset.val();
        self.mux.reset.next = self.reset.val();
        self.mux.stop.next = false;
        self.mux.own_mac.next = self.mac.val();
        self.parser.enable.next = self.enable.val();
        self.parser.mac.next = self.mac.val();
        self.parser.mtu.next = self.mtu.val();
        self.parser.multicast.next = self.multicast.val();
        self.parser.promiscuous.next = self.promiscuous.val();
        for i in 0..4 {
            self.parser.addresses[i].next = self.addresses[i].val();
        }
        self.parser.beat.next = self.beat.val();
        self.parser.valid.next = self.valid.val();
        ChanSrc::<ArpPacket>::link(&mut self.arp, &mut self.parser.arp);
        self.buffer.beat.next = self.parser.out.val();
        self.buffer.valid.next = self.parser.out_valid.val();
        self.buffer.meta_in.next = self.parser.meta.val();
        ChanSrc::<RxMeta>::join(&mut self.buffer.meta, &mut self.router.meta_in);
        StreamSrc::join(&mut self.buffer.out, &mut self.router.inp);
        self.router.share.next = self.share.val();
        ChanSrc::<PortQuery>::link(&mut self.lookup, &mut self.router.lookup);
        ChanSink::<PortAnswer>::link(&mut self.answer, &mut self.router.answer);
        self.meta.next = self.router.meta.val();
        StreamSrc::link(&mut self.host, &mut self.router.host);
        StreamSrc::link(&mut self.tcp, &mut self.router.tcp);
        self.listening.next = self.router.listening.val();
        self.listener.next = self.router.listener.val();
        self.echo.mac.next = self.mac.val();
        self.echo.ip_ttl.next = self.ip_ttl.val();
        self.echo.icmp_rate.next = self.icmp_rate.val();
        self.echo.tick_us.next = self.tick_us.val();
        self.echo.meta.next = self.router.meta.val();
        StreamSrc::join(&mut self.router.icmp, &mut self.echo.inp);
        StreamSrc::join(&mut self.echo.out, &mut self.mux.inp[0]);
        StreamSink::link(&mut self.tx, &mut self.mux.inp[1]);
        StreamSrc::link(&mut self.out, &mut self.mux.out);
        self.cnt_eth_in_frames.next = self.parser.cnt_eth_in_frames.val();
        self.cnt_eth_in_fcs_errors.next = self.parser.cnt_eth_in_fcs_errors.val();
        self.cnt_eth_in_runts.next = self.parser.cnt_eth_in_runts.val();
        self.cnt_eth_in_oversize.next = self.parser.cnt_eth_in_oversize.val();
        self.cnt_eth_in_other_mac.next = self.parser.cnt_eth_in_other_mac.val();
        self.cnt_eth_in_multicast.next = self.parser.cnt_eth_in_multicast.val();
        self.cnt_arp_in_ignored.next = self.parser.cnt_arp_in_ignored.val();
        self.cnt_ip4_in_hdr_errors.next = self.parser.cnt_ip4_in_hdr_errors.val();
        self.cnt_ip4_in_csum_errors.next = self.parser.cnt_ip4_in_csum_errors.val();
        self.cnt_ip4_in_addr_errors.next = self.parser.cnt_ip4_in_addr_errors.val();
        self.cnt_ip4_in_src_errors.next = self.parser.cnt_ip4_in_src_errors.val();
        self.cnt_icmp_in_csum_errors.next = self.parser.cnt_icmp_in_csum_errors.val();
        self.cnt_icmp_in_broadcast.next = self.parser.cnt_icmp_in_broadcast.val();
        self.cnt_icmp_in_unknown.next = self.parser.cnt_icmp_in_unknown.val();
        self.cnt_tcp_in_csum_errors.next = self.parser.cnt_tcp_in_csum_errors.val();
        self.cnt_eth_in_overflow.next = self.buffer.cnt_eth_in_overflow.val();
        self.cnt_rx_meta_dropped.next = self.buffer.cnt_rx_meta_dropped.val();
        self.cnt_ip4_in_pkts.next = self.router.cnt_ip4_in_pkts.val();
        self.cnt_ip4_in_options.next = self.router.cnt_ip4_in_options.val();
        self.cnt_ip4_in_fragments.next = self.router.cnt_ip4_in_fragments.val();
        self.cnt_ip4_in_other_proto.next = self.router.cnt_ip4_in_other_proto.val();
        self.cnt_eth_in_other_type.next = self.router.cnt_eth_in_other_type.val();
        self.cnt_rx_vlan_errors.next = self.router.cnt_rx_vlan_errors.val();
        self.cnt_icmp_in_echos.next = self.router.cnt_icmp_in_echos.val();
        self.cnt_icmp_in_to_host.next = self.router.cnt_icmp_in_to_host.val();
        self.cnt_tcp_in_segs.next = self.router.cnt_tcp_in_segs.val();
        self.cnt_tcp_in_no_port.next = self.router.cnt_tcp_in_no_port.val();
        self.cnt_l2_in_not_shared.next = self.router.cnt_l2_in_not_shared.val();
        self.cnt_icmp_out_echo_reps.next = self.echo.cnt_icmp_out_echo_reps.val();
        self.cnt_icmp_in_rate_limited.next = self.echo.cnt_icmp_in_rate_limited.val();
        self.cnt_ip4_out_pkts.next = self.echo.cnt_ip4_out_pkts.val();
        self.cnt_eth_out_frames.next = self.mux.cnt_eth_out_frames.val();
        self.cnt_eth_out_underrun.next = self.mux.cnt_eth_out_underrun.val();
    }
}
