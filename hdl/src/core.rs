// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter core: everything between the MAC's frames and the host's DMA. Wiring only; what the wires mean is in the blocks.
//!
//! Flat ports, so that hand-written Verilog, C++ and pin constraints can reach them. The pin `reset` is the power-up and PCI reset; a
//! reset by CONTROL keeps the DMA port's handshakes and the frame that is being sent whole (`reset_seq`, `dma_read`, `dma_write`, `tx_mux`) and
//! clears all other blocks by `clear`.
//!
//! DMA read clients: 0 command ring, 1 L2 tx descriptors, 2 L2 tx frames, 3 L2 rx descriptors, 4 private data of connections. DMA write
//! clients: 0 events, 1 L2 rx, 2 L2 tx, 3 private data. MAC sources: 0 ARP, 1 ICMP, 2 L2 tx, 3 TCP.
use crate::cm::cmd_split::CmdSplit;
use crate::cm::engine::Engine;
use crate::cm::messages::*;
use crate::cm::port_db::PortDb;
use crate::cm::port_share::PortShare;
use crate::cm::port_types::*;
use crate::cm::rules::RuleSet;
use crate::connections::Connections;
use crate::host::{
    cmd_ring::CmdRing, counters::Counters, dma::*, dma_read::DmaRead, dma_write::DmaWrite, evt_ring::EvtRing, irq::Irq,
    pulse_merge::PulseMerge, pulses::*, regs::Regs, reset_seq::ResetSeq, time::Time,
};
use crate::net::{
    arp::Arp, icmp::Icmp, l2_rx::L2Rx, l2_tx::L2Tx, loopback::Loopback, neighbor_share::NeighborShare, neighbor_types::*,
    rx_buffer::RxBuffer, rx_parser::RxParser, rx_router::RxRouter, tx_mux::TxMux, types::*,
};
use crate::rdma::data_path::DataPath;
use crate::rdma::types::*;
use crate::stream::*;
use crate::tcp::types::PayloadIn;
use rust_hdl::prelude::*;

const ADDRESSES: u64 = 4;
const NEIGHBORS: u64 = 32;

/// The `ecp5` profile: 32 connections, 16 listeners, IRD and ORD 8, MTU 1500.
pub type CoreEcp5 = Core<
    5,
    6,
    7,
    8,
    10,
    14,
    32,
    4,
    16,
    8,
    8,
    9,
    192,
    11,
    11,
    10,
    11,
    11,
    12,
    6,
    64,
    9,
    12,
    13,
    6,
    7,
    8,
    9,
    64,
    128,
    9,
    3,
    9,
    4,
    11,
    12,
    8,
    6,
    9,
    10,
>;
/// The `large` profile: 1024 connections, 64 listeners, IRD and ORD 32, MTU 9000. It is elaborated and linted; `make large` builds and tries it.
pub type CoreLarge = Core<
    10,
    11,
    12,
    13,
    15,
    19,
    1024,
    6,
    64,
    32,
    11,
    12,
    1152,
    14,
    14,
    12,
    13,
    13,
    14,
    11,
    2048,
    14,
    17,
    18,
    10,
    11,
    12,
    13,
    1024,
    2048,
    12,
    5,
    16,
    6,
    14,
    17,
    11,
    7,
    12,
    13,
>;

/// As `Connections`; and 2^U use slots of the port database (one for each connection and TIME-WAIT entry), a receive buffer of 2^B beats, L2 buffers of 8 * 2^S octets and 2^R beats on the way to them;
/// `XN` = 2^X, `Xn` = X + n.
#[derive(LogicBlock)]
pub struct Core<
    const C: usize,
    const C1: usize,
    const C2: usize,
    const C3: usize,
    const C5: usize,
    const C9: usize,
    const CN: usize,
    const L: usize,
    const LN: usize,
    const D: usize,
    const S: usize,
    const S1: usize,
    const W: usize,
    const P: usize,
    const S3: usize,
    const R: usize,
    const R1: usize,
    const B: usize,
    const B1: usize,
    const U: usize,
    const UN: usize,
    const C4: usize,
    const C7: usize,
    const C8: usize,
    const Q: usize,
    const Q1: usize,
    const Q2: usize,
    const Q3: usize,
    const QN: usize,
    const BELLS: usize,
    const M: usize,
    const I: usize,
    const CI1: usize,
    const DP: usize,
    const DS: usize,
    const DW: usize,
    const DSB: usize,
    const DST: usize,
    const DB: usize,
    const DB1: usize,
> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    // function level reset, a pulse; `ready` is low from the clock after it until the adapter can be set up anew
    pub flr: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    // BAR0: a request (read or write) is taken when mmio_ready; one read at a time, answered by mmio_rvalid.
    pub mmio_addr: Signal<In, Bits<16>>,
    pub mmio_wdata: Signal<In, Bits<32>>,
    pub mmio_write: Signal<In, Bit>,
    pub mmio_read: Signal<In, Bit>,
    pub mmio_ready: Signal<Out, Bit>,
    pub mmio_rvalid: Signal<Out, Bit>,
    pub mmio_rdata: Signal<Out, Bits<32>>,
    // DMA reads, see host::dma
    pub rd_req_addr: Signal<Out, Bits<64>>,
    pub rd_req_len: Signal<Out, Bits<16>>,
    pub rd_req_valid: Signal<Out, Bit>,
    pub rd_req_ready: Signal<In, Bit>,
    pub rd_data: Signal<In, Bits<64>>,
    pub rd_data_last: Signal<In, Bit>,
    pub rd_data_error: Signal<In, Bit>,
    pub rd_data_valid: Signal<In, Bit>,
    pub rd_data_ready: Signal<Out, Bit>,
    // DMA writes
    pub wr_req_addr: Signal<Out, Bits<64>>,
    pub wr_req_len: Signal<Out, Bits<16>>,
    pub wr_req_valid: Signal<Out, Bit>,
    pub wr_req_ready: Signal<In, Bit>,
    pub wr_data: Signal<Out, Bits<64>>,
    pub wr_data_last: Signal<Out, Bit>,
    pub wr_data_valid: Signal<Out, Bit>,
    pub wr_data_ready: Signal<In, Bit>,
    pub wr_done_valid: Signal<In, Bit>,
    pub wr_done_error: Signal<In, Bit>,
    // MSI-X: the vector to raise
    pub irq_vector: Signal<Out, Bits<5>>,
    pub irq_valid: Signal<Out, Bit>,
    pub irq_ready: Signal<In, Bit>,
    // MAC: frames without preamble and FCS; receive has no ready
    pub rx_data: Signal<In, Bits<64>>,
    pub rx_keep: Signal<In, Bits<8>>,
    pub rx_last: Signal<In, Bit>,
    pub rx_error: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub tx_data: Signal<Out, Bits<64>>,
    pub tx_keep: Signal<Out, Bits<8>>,
    pub tx_last: Signal<Out, Bit>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    regs: Regs,
    time_base: Time,
    reset_seq: ResetSeq,
    irq: Irq,
    counters: Counters<48, 55, 32, 16>,
    dma_read: DmaRead<8>,
    dma_write: DmaWrite<6>,
    cmd_ring: CmdRing<4, 5>,
    evt_ring: EvtRing<C, C1>,
    cmd_split: CmdSplit,
    engine: Engine<L, LN>,
    evt_merge: ChanMerge2<EventOut>,
    evt_join: ChanMerge2<EventOut>,
    data_path: DataPath<C, C1, C2, C3, C4, C5, C7, C8, CN, Q, Q1, Q2, Q3, QN, BELLS, M, I, CI1, DP, DS, DW, DSB, DST, DB, DB1>,
    port_share: PortShare,
    port_db: PortDb<16, 10, 4, 6, 64, 16, L, LN, U, UN>,
    arp_ignored: PulseMerge<2>,
    meta_dropped: PulseMerge<2>,
    doorbell_errors: PulseMerge<5>,
    ip4_out_pkts: PulseMerge<2>,
    cmd_done: PulseMerge<3>,
    cmd_errors: PulseMerge<3>,
    cmd_unknown: PulseMerge<2>,
    stale_handles: PulseMerge<2>,
    rx_parser: RxParser,
    rx_buffer: RxBuffer<B, B1, 8, 9>,
    rx_router: RxRouter,
    icmp: Icmp<S, S1>,
    arp: Arp<5>,
    l2_rx: L2Rx<R, R1>,
    l2_tx: L2Tx<S, S3, 4>,
    tx_mux: TxMux<4>,
    loopback: Loopback<S, S1>,
    neighbor_share: NeighborShare,
    connections: Connections<C, C1, C2, C3, C5, C9, CN, L, D, S, S1, W, P>,
    mac: Signal<Local, Bits<48>>,
    mtu: Signal<Local, Bits<16>>,
    ttl: Signal<Local, Bits<8>>,
    tries: Signal<Local, Bits<8>>,
    l2_control: Signal<Local, Bits<32>>,
    l2rx_log2: Signal<Local, Bits<4>>,
    l2tx_log2: Signal<Local, Bits<4>>,
    doorbell: Signal<Local, Bits<16>>,
    word: Signal<Local, Bits<32>>,
    clear: Signal<Local, Bit>,
    enabled: Signal<Local, Bit>,
    pulses: Signal<Local, CounterPulses>,
    causes: Signal<Local, Bits<4>>,
    port_range: Signal<Local, Bits<32>>,
    magic: Constant<Bits<32>>,
    version: Constant<Bits<32>>,
    caps: Constant<Bits<32>>,
    caps2: Constant<Bits<32>>,
    caps3: Constant<Bits<32>>,
    most_mtu: Constant<Bits<16>>,
}

impl<
        const C: usize,
        const C1: usize,
        const C2: usize,
        const C3: usize,
        const C5: usize,
        const C9: usize,
        const CN: usize,
        const L: usize,
        const LN: usize,
        const D: usize,
        const S: usize,
        const S1: usize,
        const W: usize,
        const P: usize,
        const S3: usize,
        const R: usize,
        const R1: usize,
        const B: usize,
        const B1: usize,
        const U: usize,
        const UN: usize,
        const C4: usize,
        const C7: usize,
        const C8: usize,
        const Q: usize,
        const Q1: usize,
        const Q2: usize,
        const Q3: usize,
        const QN: usize,
        const BELLS: usize,
        const M: usize,
        const I: usize,
        const CI1: usize,
        const DP: usize,
        const DS: usize,
        const DW: usize,
        const DSB: usize,
        const DST: usize,
        const DB: usize,
        const DB1: usize,
    > Default
    for Core<
        C,
        C1,
        C2,
        C3,
        C5,
        C9,
        CN,
        L,
        LN,
        D,
        S,
        S1,
        W,
        P,
        S3,
        R,
        R1,
        B,
        B1,
        U,
        UN,
        C4,
        C7,
        C8,
        Q,
        Q1,
        Q2,
        Q3,
        QN,
        BELLS,
        M,
        I,
        CI1,
        DP,
        DS,
        DW,
        DSB,
        DST,
        DB,
        DB1,
    >
{
    fn default() -> Self {
        assert!(8 * W <= (1 << (DS - 1)) + (8 << DST));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            flr: Default::default(),
            ready: Default::default(),
            mmio_addr: Default::default(),
            mmio_wdata: Default::default(),
            mmio_write: Default::default(),
            mmio_read: Default::default(),
            mmio_ready: Default::default(),
            mmio_rvalid: Default::default(),
            mmio_rdata: Default::default(),
            rd_req_addr: Default::default(),
            rd_req_len: Default::default(),
            rd_req_valid: Default::default(),
            rd_req_ready: Default::default(),
            rd_data: Default::default(),
            rd_data_last: Default::default(),
            rd_data_error: Default::default(),
            rd_data_valid: Default::default(),
            rd_data_ready: Default::default(),
            wr_req_addr: Default::default(),
            wr_req_len: Default::default(),
            wr_req_valid: Default::default(),
            wr_req_ready: Default::default(),
            wr_data: Default::default(),
            wr_data_last: Default::default(),
            wr_data_valid: Default::default(),
            wr_data_ready: Default::default(),
            wr_done_valid: Default::default(),
            wr_done_error: Default::default(),
            irq_vector: Default::default(),
            irq_valid: Default::default(),
            irq_ready: Default::default(),
            rx_data: Default::default(),
            rx_keep: Default::default(),
            rx_last: Default::default(),
            rx_error: Default::default(),
            rx_valid: Default::default(),
            tx_data: Default::default(),
            tx_keep: Default::default(),
            tx_last: Default::default(),
            tx_valid: Default::default(),
            tx_ready: Default::default(),
            regs: Default::default(),
            time_base: Default::default(),
            reset_seq: Default::default(),
            irq: Default::default(),
            counters: Default::default(),
            dma_read: Default::default(),
            dma_write: Default::default(),
            cmd_ring: Default::default(),
            evt_ring: Default::default(),
            cmd_split: Default::default(),
            engine: Default::default(),
            evt_merge: Default::default(),
            evt_join: Default::default(),
            data_path: Default::default(),
            port_share: Default::default(),
            port_db: Default::default(),
            arp_ignored: Default::default(),
            meta_dropped: Default::default(),
            doorbell_errors: Default::default(),
            ip4_out_pkts: Default::default(),
            cmd_done: Default::default(),
            cmd_errors: Default::default(),
            cmd_unknown: Default::default(),
            stale_handles: Default::default(),
            rx_parser: Default::default(),
            rx_buffer: Default::default(),
            rx_router: Default::default(),
            icmp: Default::default(),
            arp: Default::default(),
            l2_rx: Default::default(),
            l2_tx: Default::default(),
            tx_mux: Default::default(),
            loopback: Default::default(),
            neighbor_share: Default::default(),
            connections: Default::default(),
            mac: Default::default(),
            mtu: Default::default(),
            ttl: Default::default(),
            tries: Default::default(),
            l2_control: Default::default(),
            l2rx_log2: Default::default(),
            l2tx_log2: Default::default(),
            doorbell: Default::default(),
            word: Default::default(),
            clear: Default::default(),
            enabled: Default::default(),
            pulses: Default::default(),
            causes: Default::default(),
            port_range: Default::default(),
            magic: Constant::new(u64::from(ironwarp_abi::MAGIC).to_bits()),
            version: Constant::new(u64::from(ironwarp_abi::ABI_VERSION).to_bits()),
            caps: Constant::new((LN as u64 | (CN as u64) << 16).to_bits()),
            caps3: Constant::new(((M << 8 | Q << 4 | Q) as u64).to_bits()),
            most_mtu: Constant::new((8 * W as u64 + 40).to_bits()),
            caps2: Constant::new((ADDRESSES | NEIGHBORS << 8 | (S3 as u64) << 24).to_bits()),
        }
    }
}

impl<
        const C: usize,
        const C1: usize,
        const C2: usize,
        const C3: usize,
        const C5: usize,
        const C9: usize,
        const CN: usize,
        const L: usize,
        const LN: usize,
        const D: usize,
        const S: usize,
        const S1: usize,
        const W: usize,
        const P: usize,
        const S3: usize,
        const R: usize,
        const R1: usize,
        const B: usize,
        const B1: usize,
        const U: usize,
        const UN: usize,
        const C4: usize,
        const C7: usize,
        const C8: usize,
        const Q: usize,
        const Q1: usize,
        const Q2: usize,
        const Q3: usize,
        const QN: usize,
        const BELLS: usize,
        const M: usize,
        const I: usize,
        const CI1: usize,
        const DP: usize,
        const DS: usize,
        const DW: usize,
        const DSB: usize,
        const DST: usize,
        const DB: usize,
        const DB1: usize,
    > Logic
    for Core<
        C,
        C1,
        C2,
        C3,
        C5,
        C9,
        CN,
        L,
        LN,
        D,
        S,
        S1,
        W,
        P,
        S3,
        R,
        R1,
        B,
        B1,
        U,
        UN,
        C4,
        C7,
        C8,
        Q,
        Q1,
        Q2,
        Q3,
        QN,
        BELLS,
        M,
        I,
        CI1,
        DP,
        DS,
        DW,
        DSB,
        DST,
        DB,
        DB1,
    >
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, regs, time_base, reset_seq, irq, counters, dma_read, dma_write, cmd_ring, evt_ring, engine, port_db);
        clock!(self, clock, arp_ignored, meta_dropped, doorbell_errors, ip4_out_pkts, cmd_done, cmd_errors, cmd_unknown, stale_handles);
        clock!(self, clock, evt_join, data_path, cmd_split, evt_merge, port_share, neighbor_share, connections);
        clock!(self, clock, rx_parser, rx_buffer, rx_router, icmp, arp, l2_rx, l2_tx, tx_mux, loopback);
        self.clear.next = self.reset_seq.clear.val();
        self.enabled.next = self.reset_seq.enabled.val();

        // resets
        self.reset_seq.reset.next = self.reset.val();
        self.reset_seq.flr.next = self.flr.val();
        self.reset_seq.shut.next = self.connections.shut.val();
        self.connections.shutdown.next = self.reset_seq.shutdown.val();
        self.ready.next = self.reset_seq.ready.val();
        self.dma_read.reset.next = self.reset.val();
        self.dma_write.reset.next = self.reset.val();
        self.regs.reset.next = self.clear.val();
        self.irq.reset.next = self.clear.val();
        self.counters.reset.next = self.clear.val();
        self.cmd_ring.reset.next = self.clear.val();
        self.evt_ring.reset.next = self.clear.val();
        self.engine.reset.next = self.clear.val();
        self.port_db.reset.next = self.clear.val();
        self.rx_parser.reset.next = self.clear.val();
        self.rx_buffer.reset.next = self.clear.val();
        self.rx_router.reset.next = self.clear.val();
        self.icmp.reset.next = self.clear.val();
        self.arp.reset.next = self.clear.val();
        self.l2_rx.reset.next = self.clear.val();
        self.l2_tx.reset.next = self.clear.val();
        self.tx_mux.reset.next = self.clear.val();
        self.loopback.reset.next = self.clear.val();
        self.evt_merge.reset.next = self.clear.val();
        self.evt_join.reset.next = self.clear.val();
        self.data_path.reset.next = self.clear.val();
        self.port_share.reset.next = self.clear.val();
        self.neighbor_share.reset.next = self.clear.val();
        self.connections.reset.next = self.clear.val();
        self.reset_seq.blocks_ready.next = self.counters.ready.val()
            & self.port_db.ready.val()
            & self.arp.ready.val()
            & self.connections.ready.val()
            & self.data_path.ready.val();
        self.dma_read.quiesce.next = self.reset_seq.quiesce.val();
        self.dma_write.quiesce.next = self.reset_seq.quiesce.val();
        self.dma_write.clear.next = self.clear.val();
        self.reset_seq.read_idle.next = self.dma_read.idle.val();
        self.reset_seq.write_idle.next = self.dma_write.idle.val();
        self.tx_mux.stop.next = self.reset_seq.quiesce.val();
        self.reset_seq.tx_idle.next = self.tx_mux.idle.val();
        self.reset_seq.dma_read_error.next = self.dma_read.error.val();
        self.reset_seq.dma_write_error.next = self.dma_write.error.val();
        self.reset_seq.cmd_stopped.next = self.cmd_ring.stopped.val();
        self.reset_seq.control.next = self.regs.control.val();
        self.reset_seq.control_value.next = self.regs.strobe_value.val();
        self.reset_seq.tick_us.next = self.time_base.tick_us.val();

        // BAR0
        self.regs.mmio_addr.next = self.mmio_addr.val();
        self.regs.mmio_wdata.next = self.mmio_wdata.val();
        self.regs.mmio_write.next = self.mmio_write.val();
        self.regs.mmio_read.next = self.mmio_read.val();
        self.mmio_ready.next = self.regs.mmio_ready.val();
        self.mmio_rvalid.next = self.regs.mmio_rvalid.val();
        self.mmio_rdata.next = self.regs.mmio_rdata.val();
        self.regs.magic.next = self.magic.val();
        self.regs.version.next = self.version.val();
        self.regs.caps.next = self.caps.val();
        self.regs.caps2.next = self.caps2.val();
        self.regs.caps3.next = self.caps3.val();
        self.regs.status.next = self.reset_seq.status.val();
        self.regs.time_lo.next = self.time_base.time_us.val();
        self.regs.cycles_lo.next = self.time_base.cycles.val();
        self.regs.irq_pending.next = self.irq.pending.val();
        self.regs.cmd_head.next = bit_cast::<32, 16>(self.cmd_ring.head.val());
        self.regs.evt_tail.next = bit_cast::<32, 16>(self.evt_ring.tail.val());
        self.regs.l2rx_head.next = bit_cast::<32, 16>(self.l2_rx.head.val());
        self.regs.l2tx_head.next = bit_cast::<32, 16>(self.l2_tx.head.val());
        self.regs.listeners_live.next = bit_cast::<32, 16>(self.port_db.listeners_live.val());
        self.time_base.timebase.next = self.regs.timebase.val();

        // counters
        self.regs.counter_done.next = self.counters.read_done.val();
        self.regs.counter_data.next = self.counters.read_data.val();
        self.counters.read.next = self.regs.counter_read.val();
        self.counters.read_index.next = self.regs.counter_index.val();
        self.counters.read_high.next = self.regs.counter_high.val();

        // interrupts
        self.causes.next = 0.into();
        if self.evt_ring.irq.val() {
            self.causes.next = self.causes.val() | 1;
        }
        if self.l2_rx.irq.val() {
            self.causes.next = self.causes.val() | 2;
        }
        if self.l2_tx.irq.val() {
            self.causes.next = self.causes.val() | 4;
        }
        if self.reset_seq.finished.val() | self.dma_read.cnt_dma_read_errors.val() | self.dma_write.cnt_dma_write_errors.val() {
            self.causes.next = self.causes.val() | 8;
        }
        self.irq.causes.next = self.causes.val();
        self.irq.mask.next = self.regs.irq_mask.val();
        self.irq.ack.next = self.regs.irq_ack.val();
        self.irq.ack_value.next = self.regs.strobe_value.val();
        self.irq_vector.next = self.irq.vector.data.val();
        self.irq_valid.next = self.irq.vector.valid.val();
        self.irq.vector.ready.next = self.irq_ready.val();

        // DMA ports
        self.rd_req_addr.next = self.dma_read.rd_req.data.val().addr;
        self.rd_req_len.next = self.dma_read.rd_req.data.val().len;
        self.rd_req_valid.next = self.dma_read.rd_req.valid.val();
        self.dma_read.rd_req.ready.next = self.rd_req_ready.val();
        self.dma_read.rd_beat.data.next.data = self.rd_data.val();
        self.dma_read.rd_beat.data.next.last = self.rd_data_last.val();
        self.dma_read.rd_beat.data.next.error = self.rd_data_error.val();
        self.dma_read.rd_beat.valid.next = self.rd_data_valid.val();
        self.rd_data_ready.next = self.dma_read.rd_beat.ready.val();
        self.wr_req_addr.next = self.dma_write.wr_req.data.val().addr;
        self.wr_req_len.next = self.dma_write.wr_req.data.val().len;
        self.wr_req_valid.next = self.dma_write.wr_req.valid.val();
        self.dma_write.wr_req.ready.next = self.wr_req_ready.val();
        self.wr_data.next = self.dma_write.wr_beat.data.val().data;
        self.wr_data_last.next = self.dma_write.wr_beat.data.val().last;
        self.wr_data_valid.next = self.dma_write.wr_beat.valid.val();
        self.dma_write.wr_beat.ready.next = self.wr_data_ready.val();
        self.dma_write.wr_done.valid.next = self.wr_done_valid.val();
        self.dma_write.wr_done.error.next = self.wr_done_error.val();

        // command ring -> engine -> event ring
        self.cmd_ring.enabled.next = self.enabled.val();
        self.cmd_ring.base_lo.next = self.regs.cmd_base_lo.val();
        self.cmd_ring.base_hi.next = self.regs.cmd_base_hi.val();
        self.cmd_ring.log2.next = self.regs.cmd_log2.val();
        self.cmd_ring.tail.next = self.regs.cmd_tail.val();
        self.cmd_ring.tail_value.next = self.regs.strobe_value.val();
        self.evt_ring.enabled.next = self.enabled.val();
        self.evt_ring.base_lo.next = self.regs.evt_base_lo.val();
        self.evt_ring.base_hi.next = self.regs.evt_base_hi.val();
        self.evt_ring.log2.next = self.regs.evt_log2.val();
        self.evt_ring.head.next = self.regs.evt_head.val();
        self.evt_ring.head_value.next = self.regs.strobe_value.val();
        self.evt_ring.time_us.next = self.time_base.time_us.val();
        ChanSrc::<DmaRequest>::join(&mut self.cmd_ring.req, &mut self.dma_read.req[0]);
        ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[0], &mut self.cmd_ring.beat);
        ChanSrc::<CommandIn>::join(&mut self.cmd_ring.command, &mut self.cmd_split.cmd);
        ChanSrc::<CommandIn>::join(&mut self.cmd_split.engine, &mut self.engine.cmd);
        ChanSrc::<CommandIn>::join(&mut self.cmd_split.conn, &mut self.connections.cmd);
        ChanSrc::<EventOut>::join(&mut self.engine.evt, &mut self.evt_merge.a);
        ChanSrc::<EventOut>::join(&mut self.connections.evt, &mut self.evt_merge.b);
        ChanSrc::<EventOut>::join(&mut self.evt_merge.out, &mut self.evt_join.a);
        ChanSrc::<EventOut>::join(&mut self.data_path.evt, &mut self.evt_join.b);
        ChanSrc::<EventOut>::join(&mut self.evt_join.out, &mut self.evt_ring.event);
        ChanSrc::<CommandIn>::join(&mut self.cmd_split.data, &mut self.data_path.cmd);

        // data path
        self.data_path.sq_tail.next = self.regs.sq_tail.val();
        self.data_path.rq_tail.next = self.regs.rq_tail.val();
        self.data_path.cq_head.next = self.regs.cq_head.val();
        self.data_path.strobe_value.next = self.regs.strobe_value.val();
        for i in 0..3 {
            ChanSrc::<DmaRequest>::join(&mut self.data_path.rd_req[i], &mut self.dma_read.req[i + 5]);
            ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[i + 5], &mut self.data_path.rd_beat[i]);
        }
        for i in 0..2 {
            ChanSrc::<DmaRequest>::join(&mut self.data_path.wr_req[i], &mut self.dma_write.req[i + 4]);
            ChanSrc::<DmaBeat>::join(&mut self.data_path.wr_beat[i], &mut self.dma_write.beat[i + 4]);
            DmaDoneSrc::join(&mut self.dma_write.done[i + 4], &mut self.data_path.wr_done[i]);
        }
        ChanSrc::<QpOrder>::join(&mut self.connections.order, &mut self.data_path.order);
        ChanSrc::<QpNews>::join(&mut self.data_path.news, &mut self.connections.news);
        ChanSrc::<FpduQueued>::join(&mut self.data_path.to_tx, &mut self.connections.from_sq);
        ChanSrc::<TxToSq>::join(&mut self.connections.to_sq, &mut self.data_path.from_tx);
        ChanSrc::<PayloadIn>::join(&mut self.connections.full_meta, &mut self.data_path.payload_meta);
        StreamSrc::join(&mut self.connections.full, &mut self.data_path.inp);
        ChanSrc::<Bits<16>>::join(&mut self.data_path.consumed, &mut self.connections.full_consumed);
        ChanSrc::<FpduOut>::join(&mut self.connections.fpdu_ask, &mut self.data_path.fpdu);
        StreamSrc::join(&mut self.data_path.out, &mut self.connections.fpdu);
        self.connections.fpdu_busy.next = self.data_path.busy.val();
        ChanSrc::<ListenerUpdate>::join(&mut self.engine.listener, &mut self.connections.listener_update);
        ChanSrc::<RuleSet>::join(&mut self.engine.rule, &mut self.connections.rule);
        self.engine.listener_done.next = self.connections.listener_done.val();
        ChanSrc::<DmaRequest>::join(&mut self.evt_ring.req, &mut self.dma_write.req[0]);
        ChanSrc::<DmaBeat>::join(&mut self.evt_ring.beat, &mut self.dma_write.beat[0]);
        DmaDoneSrc::join(&mut self.dma_write.done[0], &mut self.evt_ring.done);
        ChanSrc::<Bits<16>>::join(&mut self.evt_ring.freed_read, &mut self.connections.freed_read);

        // engine <-> port database
        ChanSrc::<PortRequest>::join(&mut self.engine.port_req, &mut self.port_share.a_req);
        ChanSrc::<PortReply>::join(&mut self.port_share.a_rsp, &mut self.engine.port_rsp);
        ChanSrc::<PortRequest>::join(&mut self.connections.port_req, &mut self.port_share.b_req);
        ChanSrc::<PortReply>::join(&mut self.port_share.b_rsp, &mut self.connections.port_rsp);
        ChanSrc::<PortRequest>::join(&mut self.port_share.req, &mut self.port_db.request);
        ChanSrc::<PortReply>::join(&mut self.port_db.reply, &mut self.port_share.rsp);
        self.port_range.next = self.regs.port_range.val();
        self.port_db.first.next = self.port_range.val().get_bits::<16>(0);
        self.port_db.last.next = self.port_range.val().get_bits::<16>(16);
        self.port_db.random.next = self.regs.random.val();

        // what the net blocks read of the registers
        self.mac.next = bit_cast::<48, 32>(self.regs.mac_lo.val()) | (bit_cast::<48, 32>(self.regs.mac_hi.val()) << 32);
        self.word.next = self.regs.mtu.val();
        self.mtu.next = self.word.val().get_bits::<16>(0);
        self.word.next = self.regs.ip_ttl.val();
        self.ttl.next = self.word.val().get_bits::<8>(0);
        self.word.next = self.regs.arp_tries.val();
        self.tries.next = self.word.val().get_bits::<8>(0);
        self.word.next = self.regs.l2rx_log2.val();
        self.l2rx_log2.next = self.word.val().get_bits::<4>(0);
        self.word.next = self.regs.l2tx_log2.val();
        self.l2tx_log2.next = self.word.val().get_bits::<4>(0);
        self.l2_control.next = self.regs.l2_control.val();
        self.word.next = self.regs.strobe_value.val();
        self.doorbell.next = self.word.val().get_bits::<16>(0);

        // MAC, loop -> parser -> buffer -> router
        self.rx_parser.enable.next = self.enabled.val();
        self.rx_parser.mac.next = self.mac.val();
        self.rx_parser.mtu.next = self.mtu.val();
        self.rx_parser.multicast.next = self.l2_control.val().get_bit(1);
        self.rx_parser.promiscuous.next = self.l2_control.val().get_bit(2);
        self.loopback.from_mac.next.data = self.rx_data.val();
        self.loopback.from_mac.next.keep = self.rx_keep.val();
        self.loopback.from_mac.next.last = self.rx_last.val();
        self.loopback.from_mac.next.error = self.rx_error.val();
        self.loopback.from_mac_valid.next = self.rx_valid.val();
        self.rx_parser.beat.next = self.loopback.rx.val();
        self.rx_parser.valid.next = self.loopback.rx_valid.val();
        for i in 0..4 {
            self.rx_parser.addresses[i].next = self.engine.addresses[i].val();
            self.l2_tx.local[i].next = self.engine.addresses[i].val();
        }
        self.rx_buffer.beat.next = self.rx_parser.out.val();
        self.rx_buffer.valid.next = self.rx_parser.out_valid.val();
        self.rx_buffer.meta_in.next = self.rx_parser.meta.val();
        ChanSrc::<RxMeta>::join(&mut self.rx_buffer.meta, &mut self.rx_router.meta_in);
        StreamSrc::join(&mut self.rx_buffer.out, &mut self.rx_router.inp);
        self.rx_router.share.next = self.l2_control.val().get_bit(0);
        ChanSrc::<PortQuery>::join(&mut self.rx_router.lookup, &mut self.port_db.lookup);
        ChanSrc::<PortAnswer>::join(&mut self.port_db.answer, &mut self.rx_router.answer);
        StreamSrc::join(&mut self.rx_router.host, &mut self.l2_rx.inp);
        StreamSrc::join(&mut self.rx_router.icmp, &mut self.icmp.inp);
        // connections
        StreamSrc::join(&mut self.rx_router.tcp, &mut self.connections.inp);
        self.connections.meta.next = self.rx_router.meta.val();
        self.connections.listening.next = self.rx_router.listening.val();
        self.connections.listener.next = self.rx_router.listener.val();
        self.connections.time_us.next = self.time_base.time_us.val();
        self.connections.own_mac.next = self.mac.val();
        // a segment must fit where it is kept
        self.connections.mtu.next = self.mtu.val();
        if self.mtu.val() > self.most_mtu.val() {
            self.connections.mtu.next = self.most_mtu.val();
        }
        self.connections.ip_ttl.next = self.ttl.val();
        self.connections.tcp_window.next = self.regs.tcp_window.val();
        self.connections.tcp_rto_init.next = self.regs.tcp_rto_init.val();
        self.connections.tcp_rto_min.next = self.regs.tcp_rto_min.val();
        self.connections.tcp_rto_max.next = self.regs.tcp_rto_max.val();
        self.connections.tcp_r1.next = self.regs.tcp_r1.val();
        self.connections.tcp_r2.next = self.regs.tcp_r2.val();
        self.connections.tcp_r2_syn.next = self.regs.tcp_r2_syn.val();
        self.connections.tcp_2msl.next = self.regs.tcp_2msl.val();
        self.connections.tcp_challenges.next = self.regs.tcp_challenges.val();
        self.connections.mpa_timeout.next = self.regs.mpa_timeout.val();
        self.connections.connect_timeout.next = self.regs.connect_timeout.val();
        self.connections.close_timeout.next = self.regs.close_timeout.val();
        self.connections.refusal_timeout.next = self.regs.refusal_timeout.val();
        self.connections.isn_key0.next = self.regs.isn_key0.val();
        self.connections.isn_key1.next = self.regs.isn_key1.val();
        self.connections.isn_key2.next = self.regs.isn_key2.val();
        self.connections.isn_key3.next = self.regs.isn_key3.val();
        self.connections.spare_slots.next = self.regs.spare_slots.val();
        self.connections.random.next = self.regs.random.val();
        self.connections.pdata_base.next =
            bit_cast::<64, 32>(self.regs.pdata_base_lo.val()) | (bit_cast::<64, 32>(self.regs.pdata_base_hi.val()) << 32);
        for i in 0..4 {
            self.connections.addresses[i].next = self.engine.addresses[i].val();
        }
        self.connections.notice.next = self.arp.notice.val();
        self.connections.notice_valid.next = self.arp.notice_valid.val();
        self.connections.neighbors_changed.next = self.arp.changed.val();
        ChanSrc::<DmaRequest>::join(&mut self.connections.rd_req, &mut self.dma_read.req[4]);
        ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[4], &mut self.connections.rd_beat);
        ChanSrc::<DmaRequest>::join(&mut self.connections.wr_req, &mut self.dma_write.req[3]);
        ChanSrc::<DmaBeat>::join(&mut self.connections.wr_beat, &mut self.dma_write.beat[3]);
        DmaDoneSrc::join(&mut self.dma_write.done[3], &mut self.connections.wr_done);
        self.regs.connections_live.next = bit_cast::<32, 16>(self.connections.connections_live.val());

        // echo, neighbours
        self.icmp.mac.next = self.mac.val();
        self.icmp.ip_ttl.next = self.ttl.val();
        self.icmp.icmp_rate.next = self.regs.icmp_rate.val();
        self.icmp.tick_us.next = self.time_base.tick_us.val();
        self.icmp.meta.next = self.rx_router.meta.val();
        self.arp.own_mac.next = self.mac.val();
        self.arp.time_us.next = self.time_base.time_us.val();
        self.arp.arp_timeout.next = self.regs.arp_timeout.val();
        self.arp.arp_retry.next = self.regs.arp_retry.val();
        self.arp.arp_tries.next = self.tries.val();
        ChanSrc::<ArpPacket>::join(&mut self.rx_parser.arp, &mut self.arp.packet);

        // L2 queue
        self.l2_rx.ring_base.next =
            bit_cast::<64, 32>(self.regs.l2rx_base_lo.val()) | (bit_cast::<64, 32>(self.regs.l2rx_base_hi.val()) << 32);
        self.l2_rx.ring_log2.next = self.l2rx_log2.val();
        self.l2_rx.doorbell.next = self.doorbell.val();
        self.l2_rx.doorbell_valid.next = self.regs.l2rx_tail.val();
        self.l2_tx.own_mac.next = self.mac.val();
        self.l2_tx.mtu.next = self.mtu.val();
        self.l2_tx.ring_base.next =
            bit_cast::<64, 32>(self.regs.l2tx_base_lo.val()) | (bit_cast::<64, 32>(self.regs.l2tx_base_hi.val()) << 32);
        self.l2_tx.ring_log2.next = self.l2tx_log2.val();
        self.l2_tx.doorbell.next = self.doorbell.val();
        self.l2_tx.doorbell_valid.next = self.regs.l2tx_tail.val();
        self.l2_tx.notice.next = self.arp.notice.val();
        self.l2_tx.notice_valid.next = self.arp.notice_valid.val();
        ChanSrc::<NeighborQuery>::join(&mut self.l2_tx.query, &mut self.neighbor_share.a_query);
        ChanSrc::<NeighborAnswer>::join(&mut self.neighbor_share.a_answer, &mut self.l2_tx.answer);
        ChanSrc::<NeighborQuery>::join(&mut self.connections.query, &mut self.neighbor_share.b_query);
        ChanSrc::<NeighborAnswer>::join(&mut self.neighbor_share.b_answer, &mut self.connections.answer);
        ChanSrc::<NeighborQuery>::join(&mut self.neighbor_share.query, &mut self.arp.query);
        ChanSrc::<NeighborAnswer>::join(&mut self.arp.answer, &mut self.neighbor_share.answer);
        ChanSrc::<DmaRequest>::join(&mut self.l2_tx.ring_rd_req, &mut self.dma_read.req[1]);
        ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[1], &mut self.l2_tx.ring_rd_data);
        ChanSrc::<DmaRequest>::join(&mut self.l2_tx.frame_rd_req, &mut self.dma_read.req[2]);
        ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[2], &mut self.l2_tx.frame_rd_data);
        ChanSrc::<DmaRequest>::join(&mut self.l2_rx.ring_rd_req, &mut self.dma_read.req[3]);
        ChanSrc::<DmaBeat>::join(&mut self.dma_read.beat[3], &mut self.l2_rx.ring_rd_data);
        ChanSrc::<DmaRequest>::join(&mut self.l2_rx.wr_req, &mut self.dma_write.req[1]);
        ChanSrc::<DmaBeat>::join(&mut self.l2_rx.wr_data, &mut self.dma_write.beat[1]);
        ChanSrc::<DmaRequest>::join(&mut self.l2_tx.wr_req, &mut self.dma_write.req[2]);
        ChanSrc::<DmaBeat>::join(&mut self.l2_tx.wr_data, &mut self.dma_write.beat[2]);
        DmaDoneSrc::join(&mut self.dma_write.done[1], &mut self.l2_rx.wr_done);
        DmaDoneSrc::join(&mut self.dma_write.done[2], &mut self.l2_tx.wr_done);

        // sources -> MAC, loop
        StreamSrc::join(&mut self.arp.out, &mut self.tx_mux.inp[0]);
        StreamSrc::join(&mut self.icmp.out, &mut self.tx_mux.inp[1]);
        StreamSrc::join(&mut self.l2_tx.out, &mut self.tx_mux.inp[2]);
        StreamSrc::join(&mut self.connections.out, &mut self.tx_mux.inp[3]);
        self.tx_mux.own_mac.next = self.mac.val();
        self.loopback.to_own.next = self.tx_mux.to_own.val();
        StreamSrc::join(&mut self.tx_mux.out, &mut self.loopback.tx);
        self.tx_data.next = self.loopback.out.beat.val().data;
        self.tx_keep.next = self.loopback.out.beat.val().keep;
        self.tx_last.next = self.loopback.out.beat.val().last;
        self.tx_valid.next = self.loopback.out.valid.val();
        self.loopback.out.ready.next = self.tx_ready.val();
        // counters that several blocks move
        self.arp_ignored.reset.next = self.clear.val();
        self.arp_ignored.inp[0].next = self.rx_parser.cnt_arp_in_ignored.val();
        self.arp_ignored.inp[1].next = self.arp.cnt_arp_in_ignored.val();
        self.meta_dropped.reset.next = self.clear.val();
        self.meta_dropped.inp[0].next = self.rx_buffer.cnt_rx_meta_dropped.val();
        self.meta_dropped.inp[1].next = self.arp.cnt_rx_meta_dropped.val();
        self.doorbell_errors.reset.next = self.clear.val();
        self.doorbell_errors.inp[0].next = self.cmd_ring.cnt_doorbell_errors.val();
        self.doorbell_errors.inp[1].next = self.evt_ring.cnt_doorbell_errors.val();
        self.doorbell_errors.inp[2].next = self.l2_rx.cnt_doorbell_errors.val();
        self.doorbell_errors.inp[3].next = self.l2_tx.cnt_doorbell_errors.val();
        self.doorbell_errors.inp[4].next = self.data_path.cnt_doorbell_errors.val();

        self.ip4_out_pkts.reset.next = self.clear.val();
        self.ip4_out_pkts.inp[0].next = self.icmp.cnt_ip4_out_pkts.val();
        self.ip4_out_pkts.inp[1].next = self.connections.cnt_ip4_out_pkts.val();
        self.cmd_done.reset.next = self.clear.val();
        self.cmd_done.inp[0].next = self.engine.cnt_cmd_done.val();
        self.cmd_done.inp[1].next = self.connections.cnt_cmd_done.val();
        self.cmd_done.inp[2].next = self.data_path.cnt_cmd_done.val();
        self.cmd_errors.reset.next = self.clear.val();
        self.cmd_errors.inp[0].next = self.engine.cnt_cmd_errors.val();
        self.cmd_errors.inp[1].next = self.connections.cnt_cmd_errors.val();
        self.cmd_errors.inp[2].next = self.data_path.cnt_cmd_errors.val();
        self.cmd_unknown.reset.next = self.clear.val();
        self.cmd_unknown.inp[0].next = self.engine.cnt_cmd_unknown.val();
        self.cmd_unknown.inp[1].next = self.connections.cnt_cmd_unknown.val();
        self.stale_handles.reset.next = self.clear.val();
        self.stale_handles.inp[0].next = self.engine.cnt_stale_handles.val();
        self.stale_handles.inp[1].next = self.connections.cnt_stale_handles.val();

        // one wire a counter
        self.pulses.next.eth_in_frames = self.rx_parser.cnt_eth_in_frames.val();
        self.pulses.next.eth_out_frames = self.tx_mux.cnt_eth_out_frames.val();
        self.pulses.next.eth_in_fcs_errors = self.rx_parser.cnt_eth_in_fcs_errors.val();
        self.pulses.next.eth_in_runts = self.rx_parser.cnt_eth_in_runts.val();
        self.pulses.next.eth_in_oversize = self.rx_parser.cnt_eth_in_oversize.val();
        self.pulses.next.eth_in_overflow = self.rx_buffer.cnt_eth_in_overflow.val();
        self.pulses.next.eth_in_other_mac = self.rx_parser.cnt_eth_in_other_mac.val();
        self.pulses.next.eth_in_multicast = self.rx_parser.cnt_eth_in_multicast.val();
        self.pulses.next.eth_in_other_type = self.rx_router.cnt_eth_in_other_type.val();
        self.pulses.next.rx_vlan_errors = self.rx_router.cnt_rx_vlan_errors.val();
        self.pulses.next.arp_in_requests = self.arp.cnt_arp_in_requests.val();
        self.pulses.next.arp_in_replies = self.arp.cnt_arp_in_replies.val();
        self.pulses.next.arp_in_ignored = self.arp_ignored.out.val();
        self.pulses.next.arp_conflicts = self.arp.cnt_arp_conflicts.val();
        self.pulses.next.arp_out_requests = self.arp.cnt_arp_out_requests.val();
        self.pulses.next.arp_out_replies = self.arp.cnt_arp_out_replies.val();
        self.pulses.next.arp_timeouts = self.arp.cnt_arp_timeouts.val();
        self.pulses.next.arp_expired = self.arp.cnt_arp_expired.val();
        self.pulses.next.arp_evictions = self.arp.cnt_arp_evictions.val();
        self.pulses.next.ip4_in_pkts = self.rx_router.cnt_ip4_in_pkts.val();
        self.pulses.next.ip4_in_hdr_errors = self.rx_parser.cnt_ip4_in_hdr_errors.val();
        self.pulses.next.ip4_in_csum_errors = self.rx_parser.cnt_ip4_in_csum_errors.val();
        self.pulses.next.ip4_in_addr_errors = self.rx_parser.cnt_ip4_in_addr_errors.val();
        self.pulses.next.ip4_in_src_errors = self.rx_parser.cnt_ip4_in_src_errors.val();
        self.pulses.next.ip4_in_options = self.rx_router.cnt_ip4_in_options.val();
        self.pulses.next.ip4_in_fragments = self.rx_router.cnt_ip4_in_fragments.val();
        self.pulses.next.ip4_in_other_proto = self.rx_router.cnt_ip4_in_other_proto.val();
        self.pulses.next.icmp_in_echos = self.rx_router.cnt_icmp_in_echos.val();
        self.pulses.next.icmp_out_echo_reps = self.icmp.cnt_icmp_out_echo_reps.val();
        self.pulses.next.icmp_in_csum_errors = self.rx_parser.cnt_icmp_in_csum_errors.val();
        self.pulses.next.icmp_in_broadcast = self.rx_parser.cnt_icmp_in_broadcast.val();
        self.pulses.next.icmp_in_rate_limited = self.icmp.cnt_icmp_in_rate_limited.val();
        self.pulses.next.icmp_in_unknown = self.rx_parser.cnt_icmp_in_unknown.val();
        self.pulses.next.icmp_in_to_host = self.rx_router.cnt_icmp_in_to_host.val();
        self.pulses.next.tcp_in_segs = self.rx_router.cnt_tcp_in_segs.val();
        self.pulses.next.tcp_in_csum_errors = self.rx_parser.cnt_tcp_in_csum_errors.val();
        self.pulses.next.tcp_in_no_port = self.rx_router.cnt_tcp_in_no_port.val();
        self.pulses.next.l2_in_frames = self.l2_rx.cnt_l2_in_frames.val();
        self.pulses.next.l2_in_no_buffer = self.l2_rx.cnt_l2_in_no_buffer.val();
        self.pulses.next.l2_in_not_shared = self.rx_router.cnt_l2_in_not_shared.val();
        self.pulses.next.l2_out_frames = self.l2_tx.cnt_l2_out_frames.val();
        self.pulses.next.l2_out_errors = self.l2_tx.cnt_l2_out_errors.val();
        self.pulses.next.l2_out_no_neighbor = self.l2_tx.cnt_l2_out_no_neighbor.val();
        self.pulses.next.l2_out_replaced = self.l2_tx.cnt_l2_out_replaced.val();
        self.pulses.next.mpa_in_fpdus = self.data_path.cnt_mpa_in_fpdus.val();
        self.pulses.next.mpa_crc_errors = self.data_path.cnt_mpa_crc_errors.val();
        self.pulses.next.mpa_bad_length = self.data_path.cnt_mpa_bad_length.val();
        self.pulses.next.mpa_no_slot = self.data_path.cnt_mpa_no_slot.val();
        self.pulses.next.rdma_in_writes = self.data_path.cnt_rdma_in_writes.val();
        self.pulses.next.rdma_in_sends = self.data_path.cnt_rdma_in_sends.val();
        self.pulses.next.rdma_in_reads = self.data_path.cnt_rdma_in_reads.val();
        self.pulses.next.rdma_in_responses = self.data_path.cnt_rdma_in_responses.val();
        self.pulses.next.rdma_terminates_in = self.data_path.cnt_rdma_terminates_in.val();
        self.pulses.next.rdma_terminates_out = self.data_path.cnt_rdma_terminates_out.val();
        self.pulses.next.cq_completions = self.data_path.cnt_completions.val();
        self.pulses.next.cq_overflows = self.data_path.cnt_completions_lost.val();
        self.pulses.next.cmd_done = self.cmd_done.out.val();
        self.pulses.next.cmd_errors = self.cmd_errors.out.val();
        self.pulses.next.cmd_unknown = self.cmd_unknown.out.val();
        self.pulses.next.stale_handles = self.stale_handles.out.val();
        self.pulses.next.dma_read_errors = self.dma_read.cnt_dma_read_errors.val();
        self.pulses.next.dma_write_errors = self.dma_write.cnt_dma_write_errors.val();
        self.pulses.next.evt_written = self.evt_ring.cnt_evt_written.val();
        self.pulses.next.evt_ring_full = self.evt_ring.cnt_evt_ring_full.val();
        self.pulses.next.doorbell_errors = self.doorbell_errors.out.val();
        self.pulses.next.listen_created = self.engine.cnt_listen_created.val();
        self.pulses.next.listen_destroyed = self.engine.cnt_listen_destroyed.val();
        self.pulses.next.port_in_use = self.port_db.cnt_port_in_use.val();
        self.pulses.next.port_reserved = self.port_db.cnt_port_reserved.val();
        self.pulses.next.ports_exhausted = self.port_db.cnt_ports_exhausted.val();
        self.pulses.next.listeners_exhausted = self.engine.cnt_listeners_exhausted.val();
        self.pulses.next.rx_meta_dropped = self.meta_dropped.out.val();
        self.pulses.next.eth_out_underrun = self.tx_mux.cnt_eth_out_underrun.val();
        self.pulses.next.ip4_out_pkts = self.ip4_out_pkts.out.val();
        self.pulses.next.reset_timeouts = self.reset_seq.cnt_reset_timeouts.val();
        self.pulses.next.tcp_active_opens = self.connections.cnt_tcp_active_opens.val();
        self.pulses.next.tcp_passive_opens = self.connections.cnt_tcp_passive_opens.val();
        self.pulses.next.tcp_attempt_fails = self.connections.cnt_tcp_attempt_fails.val();
        self.pulses.next.tcp_estab_resets = self.connections.cnt_tcp_estab_resets.val();
        self.pulses.next.tcp_out_segs = self.connections.cnt_tcp_out_segs.val();
        self.pulses.next.tcp_retrans_segs = self.connections.cnt_tcp_retrans_segs.val();
        self.pulses.next.tcp_in_errs = self.connections.cnt_tcp_in_errs.val();
        self.pulses.next.tcp_out_rsts = self.connections.cnt_tcp_out_rsts.val();
        self.pulses.next.tcp_syn_dropped = self.connections.cnt_tcp_syn_dropped.val();
        self.pulses.next.tcp_challenge_acks = self.connections.cnt_tcp_challenge_acks.val();
        self.pulses.next.tcp_in_unacceptable = self.connections.cnt_tcp_in_unacceptable.val();
        self.pulses.next.tcp_in_ooo = self.connections.cnt_tcp_in_ooo.val();
        self.pulses.next.tcp_ooo_dropped = self.connections.cnt_tcp_ooo_dropped.val();
        self.pulses.next.tcp_timeouts = self.connections.cnt_tcp_timeouts.val();
        self.pulses.next.tcp_give_ups = self.connections.cnt_tcp_give_ups.val();
        self.pulses.next.tcp_wait_overflow = self.connections.cnt_tcp_wait_overflow.val();
        self.pulses.next.tcp_wait_reused = self.connections.cnt_tcp_wait_reused.val();
        self.pulses.next.tcp_no_neighbor = self.connections.cnt_tcp_no_neighbor.val();
        self.pulses.next.mpa_in_requests = self.connections.cnt_mpa_in_requests.val();
        self.pulses.next.mpa_in_replies = self.connections.cnt_mpa_in_replies.val();
        self.pulses.next.mpa_malformed = self.connections.cnt_mpa_malformed.val();
        self.pulses.next.mpa_timeouts = self.connections.cnt_mpa_timeouts.val();
        self.pulses.next.mpa_rejects_in = self.connections.cnt_mpa_rejects_in.val();
        self.pulses.next.mpa_rejects_out = self.connections.cnt_mpa_rejects_out.val();
        self.pulses.next.mpa_non_peer_rejects = self.connections.cnt_mpa_non_peer_rejects.val();
        self.pulses.next.mpa_retries = self.connections.cnt_mpa_retries.val();
        self.pulses.next.conn_created = self.connections.cnt_conn_created.val();
        self.pulses.next.conn_freed = self.connections.cnt_conn_freed.val();
        self.pulses.next.conn_denied = self.connections.cnt_conn_denied.val();
        self.pulses.next.conn_established = self.connections.cnt_conn_established.val();
        self.pulses.next.eth_loop_frames = self.loopback.cnt_eth_loop_frames.val();
        self.pulses.next.eth_loop_dropped = self.loopback.cnt_eth_loop_dropped.val();
        self.counters.pulses.next = self.pulses.val();
    }
}
