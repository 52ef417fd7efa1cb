// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter core: everything between the MAC's frames and the host's DMA. Wiring only; what the wires mean is in the blocks.
//!
//! Flat ports, so that hand-written Verilog, C++ and pin constraints can reach them. The pin `reset` is the power-up and PCI reset; a
//! reset by CONTROL keeps the DMA port's handshakes whole (`reset_seq`, `dma_read`, `dma_write`) and clears all other blocks by `clear`.
//!
//! DMA read clients: 0 command ring, 1 L2 tx descriptors, 2 L2 tx frames, 3 L2 rx descriptors. DMA write clients: 0 events, 1 L2 rx frames,
//! 2 L2 rx write-backs, 3 L2 tx write-backs. MAC sources: 0 ARP, 1 ICMP, 2 L2 tx, 3 L2 tx frames that waited for their next hop.
use crate::cm::engine::Engine;
use crate::cm::messages::*;
use crate::cm::port_db::PortDbFull;
use crate::cm::port_types::*;
use crate::host::{
    cmd_ring::CmdRing, counters::Counters, dma::*, dma_read::DmaRead, dma_write::DmaWrite, evt_ring::EvtRing, irq::Irq, pulses::*,
    regs::Regs, reset_seq::ResetSeq, time::Time,
};
use crate::stream::*;
use rust_hdl::prelude::*;

// What CAPS and CAPS2 say of the `ecp5` profile.
const LISTENERS: u64 = 16;
const CONNECTIONS: u64 = 0;
const ADDRESSES: u64 = 4;
const NEIGHBORS: u64 = 32;
const BUFFER_LOG2: u64 = 11;

#[derive(LogicBlock)]
pub struct Core {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
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
    counters: Counters<48, 41, 32, 16>,
    dma_read: DmaRead<1>,
    dma_write: DmaWrite<1>,
    cmd_ring: CmdRing<4, 5>,
    evt_ring: EvtRing,
    engine: Engine<4, 16>,
    port_db: PortDbFull,
    clear: Signal<Local, Bit>,
    enabled: Signal<Local, Bit>,
    pulses: Signal<Local, CounterPulses>,
    causes: Signal<Local, Bits<4>>,
    zero16: Signal<Local, Bits<16>>,
    port_range: Signal<Local, Bits<32>>,
    magic: Constant<Bits<32>>,
    version: Constant<Bits<32>>,
    caps: Constant<Bits<32>>,
    caps2: Constant<Bits<32>>,
}

impl Default for Core {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
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
            engine: Default::default(),
            port_db: Default::default(),
            clear: Default::default(),
            enabled: Default::default(),
            pulses: Default::default(),
            causes: Default::default(),
            zero16: Default::default(),
            port_range: Default::default(),
            magic: Constant::new(u64::from(ironwarp_abi::MAGIC).to_bits()),
            version: Constant::new(u64::from(ironwarp_abi::ABI_VERSION).to_bits()),
            caps: Constant::new((LISTENERS | CONNECTIONS << 16).to_bits()),
            caps2: Constant::new((ADDRESSES | NEIGHBORS << 8 | BUFFER_LOG2 << 24).to_bits()),
        }
    }
}

impl Logic for Core {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, regs, time_base, reset_seq, irq, counters, dma_read, dma_write, cmd_ring, evt_ring, engine, port_db);
        self.clear.next = self.reset_seq.clear.val();
        self.enabled.next = self.reset_seq.enabled.val();
        self.zero16.next = 0.into();

        // resets
        self.reset_seq.reset.next = self.reset.val();
        self.dma_read.reset.next = self.reset.val();
        self.dma_write.reset.next = self.reset.val();
        self.regs.reset.next = self.clear.val();
        self.irq.reset.next = self.clear.val();
        self.counters.reset.next = self.clear.val();
        self.cmd_ring.reset.next = self.clear.val();
        self.evt_ring.reset.next = self.clear.val();
        self.engine.reset.next = self.clear.val();
        self.port_db.reset.next = self.clear.val();
        self.reset_seq.blocks_ready.next = self.counters.ready.val() & self.port_db.ready.val();
        self.dma_read.quiesce.next = self.reset_seq.quiesce.val();
        self.dma_write.quiesce.next = self.reset_seq.quiesce.val();
        self.dma_write.clear.next = self.clear.val();
        self.reset_seq.read_idle.next = self.dma_read.idle.val();
        self.reset_seq.write_idle.next = self.dma_write.idle.val();
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
        self.regs.status.next = self.reset_seq.status.val();
        self.regs.time_lo.next = self.time_base.time_us.val();
        self.regs.cycles_lo.next = self.time_base.cycles.val();
        self.regs.irq_pending.next = self.irq.pending.val();
        self.regs.cmd_head.next = bit_cast::<32, 16>(self.cmd_ring.head.val());
        self.regs.evt_tail.next = bit_cast::<32, 16>(self.evt_ring.tail.val());
        self.regs.l2rx_head.next = bit_cast::<32, 16>(self.zero16.val());
        self.regs.l2tx_head.next = bit_cast::<32, 16>(self.zero16.val());
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
        ChanSrc::<CommandIn>::join(&mut self.cmd_ring.command, &mut self.engine.cmd);
        ChanSrc::<EventOut>::join(&mut self.engine.evt, &mut self.evt_ring.event);
        ChanSrc::<DmaRequest>::join(&mut self.evt_ring.req, &mut self.dma_write.req[0]);
        ChanSrc::<DmaBeat>::join(&mut self.evt_ring.beat, &mut self.dma_write.beat[0]);
        DmaDoneSrc::join(&mut self.dma_write.done[0], &mut self.evt_ring.done);

        // engine <-> port database
        ChanSrc::<PortRequest>::join(&mut self.engine.port_req, &mut self.port_db.request);
        ChanSrc::<PortReply>::join(&mut self.port_db.reply, &mut self.engine.port_rsp);
        self.port_range.next = self.regs.port_range.val();
        self.port_db.first.next = self.port_range.val().get_bits::<16>(0);
        self.port_db.last.next = self.port_range.val().get_bits::<16>(16);
        self.port_db.random.next = self.regs.random.val();

        self.port_db.lookup.valid.next = false;
        self.port_db.lookup.data.next.addr = 0.into();
        self.port_db.lookup.data.next.port = 0.into();
        self.port_db.answer.ready.next = true;

        // the wire
        self.tx_data.next = 0.into();
        self.tx_keep.next = 0.into();
        self.tx_last.next = false;
        self.tx_valid.next = false;
        // one wire a counter; two blocks of one counter never pulse in the same clock for one cause
        self.pulses.next.eth_in_frames = false;
        self.pulses.next.eth_out_frames = false;
        self.pulses.next.eth_in_fcs_errors = false;
        self.pulses.next.eth_in_runts = false;
        self.pulses.next.eth_in_oversize = false;
        self.pulses.next.eth_in_overflow = false;
        self.pulses.next.eth_in_other_mac = false;
        self.pulses.next.eth_in_multicast = false;
        self.pulses.next.eth_in_other_type = false;
        self.pulses.next.rx_vlan_errors = false;
        self.pulses.next.arp_in_requests = false;
        self.pulses.next.arp_in_replies = false;
        self.pulses.next.arp_in_ignored = false;
        self.pulses.next.arp_conflicts = false;
        self.pulses.next.arp_out_requests = false;
        self.pulses.next.arp_out_replies = false;
        self.pulses.next.arp_timeouts = false;
        self.pulses.next.arp_expired = false;
        self.pulses.next.arp_evictions = false;
        self.pulses.next.ip4_in_pkts = false;
        self.pulses.next.ip4_in_hdr_errors = false;
        self.pulses.next.ip4_in_csum_errors = false;
        self.pulses.next.ip4_in_addr_errors = false;
        self.pulses.next.ip4_in_src_errors = false;
        self.pulses.next.ip4_in_options = false;
        self.pulses.next.ip4_in_fragments = false;
        self.pulses.next.ip4_in_other_proto = false;
        self.pulses.next.icmp_in_echos = false;
        self.pulses.next.icmp_out_echo_reps = false;
        self.pulses.next.icmp_in_csum_errors = false;
        self.pulses.next.icmp_in_broadcast = false;
        self.pulses.next.icmp_in_rate_limited = false;
        self.pulses.next.icmp_in_unknown = false;
        self.pulses.next.icmp_in_to_host = false;
        self.pulses.next.tcp_in_segs = false;
        self.pulses.next.tcp_in_csum_errors = false;
        self.pulses.next.tcp_in_no_port = false;
        self.pulses.next.tcp_in_unhandled = false;
        self.pulses.next.l2_in_frames = false;
        self.pulses.next.l2_in_no_buffer = false;
        self.pulses.next.l2_in_not_shared = false;
        self.pulses.next.l2_out_frames = false;
        self.pulses.next.l2_out_errors = false;
        self.pulses.next.l2_out_no_neighbor = false;
        self.pulses.next.l2_out_replaced = false;
        self.pulses.next.cmd_done = self.engine.cnt_cmd_done.val();
        self.pulses.next.cmd_errors = self.engine.cnt_cmd_errors.val();
        self.pulses.next.cmd_unknown = self.engine.cnt_cmd_unknown.val();
        self.pulses.next.stale_handles = self.engine.cnt_stale_handles.val();
        self.pulses.next.dma_read_errors = self.dma_read.cnt_dma_read_errors.val();
        self.pulses.next.dma_write_errors = self.dma_write.cnt_dma_write_errors.val();
        self.pulses.next.evt_written = self.evt_ring.cnt_evt_written.val();
        self.pulses.next.evt_ring_full = self.evt_ring.cnt_evt_ring_full.val();
        self.pulses.next.doorbell_errors = self.cmd_ring.cnt_doorbell_errors.val() | self.evt_ring.cnt_doorbell_errors.val();
        self.pulses.next.listen_created = self.engine.cnt_listen_created.val();
        self.pulses.next.listen_destroyed = self.engine.cnt_listen_destroyed.val();
        self.pulses.next.port_in_use = self.port_db.cnt_port_in_use.val();
        self.pulses.next.port_reserved = self.port_db.cnt_port_reserved.val();
        self.pulses.next.ports_exhausted = self.port_db.cnt_ports_exhausted.val();
        self.pulses.next.listeners_exhausted = self.engine.cnt_listeners_exhausted.val();
        self.pulses.next.rx_meta_dropped = false;
        self.pulses.next.eth_out_underrun = false;
        self.pulses.next.ip4_out_pkts = false;
        self.pulses.next.spare_63 = false;
        self.counters.pulses.next = self.pulses.val();
    }
}
