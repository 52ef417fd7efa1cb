// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every block that is emitted on its own: what lint, synthesis, formal and the Verilated models go through.
use crate::cm::port_db::{PortDbFull, PortDbSmall, PortDbTiny};
use crate::elaborate::{elaborate, Emitted};
use crate::net::arp::Arp;
use crate::stream::*;

/// One row: a module name and how to elaborate it.
pub struct Entry {
    pub name: &'static str,
    /// Build a Verilated model of it for tests.
    pub simulate: bool,
    /// Show it in the synthesis report (a size that the `ecp5` profile has).
    pub synthesize: bool,
    emit: fn(&'static str) -> Emitted,
}

impl Entry {
    pub fn emit(&self) -> Emitted {
        self.emit_as(self.name)
    }
    /// Under the name of another row, in whose place it stands.
    pub fn emit_as(&self, name: &'static str) -> Emitted {
        (self.emit)(name)
    }
}

const fn both(name: &'static str, emit: fn(&'static str) -> Emitted) -> Entry {
    Entry { name, simulate: true, synthesize: true, emit }
}

/// Blocks put together for a test.
const fn model(name: &'static str, emit: fn(&'static str) -> Emitted) -> Entry {
    Entry { name, simulate: true, synthesize: false, emit }
}

/// A block that is tested inside those that use it.
const fn part(name: &'static str, emit: fn(&'static str) -> Emitted) -> Entry {
    Entry { name, simulate: false, synthesize: true, emit }
}

/// A size for `formal/` only.
const fn proof(name: &'static str, emit: fn(&'static str) -> Emitted) -> Entry {
    Entry { name, simulate: false, synthesize: false, emit }
}

/// A size that is only elaborated and linted.
const fn lint(name: &'static str, emit: fn(&'static str) -> Emitted) -> Entry {
    Entry { name, simulate: false, synthesize: false, emit }
}

/// All rows. Add a block here and it is linted, synthesised and can be used in a test as `ironwarp_models::<name>::Model`.
pub static CATALOG: &[Entry] = &[
    both("ironwarp_core", |n| elaborate(n, Box::<crate::core::CoreEcp5>::default())),
    lint("ironwarp_core_large", |n| elaborate(n, Box::<crate::core::CoreLarge>::default())),
    both("connections", |n| elaborate(n, Box::<crate::connections::Connections<5, 6, 7, 8, 10, 14, 32, 4, 8, 8, 9, 192, 11>>::default())),
    both("arp", |n| elaborate(n, Box::<Arp<5>>::default())),
    both("engine", |n| elaborate(n, Box::<crate::cm::engine::Engine<4, 16>>::default())),
    both("conn", |n| elaborate(n, Box::<crate::cm::conn::Conn<5, 6, 32, 4, 5, 32, 8>>::default())),
    both("port_db", |n| elaborate(n, Box::<PortDbFull>::default())),
    model("port_db_small", |n| elaborate(n, Box::<PortDbSmall>::default())),
    proof("port_db_tiny", |n| elaborate(n, Box::<PortDbTiny>::default())),
    both("chan_fifo", |n| elaborate(n, Box::<ChanFifo<Beat, 4, 5>>::default())),
    both("chan_slot", |n| elaborate(n, Box::<ChanSlot<Beat>>::default())),
    both("icmp", |n| elaborate(n, Box::<crate::net::icmp::Icmp<8, 9>>::default())),
    part("frame_reader", |n| elaborate(n, Box::<FrameReader<8>>::default())),
    part("hold", |n| elaborate(n, Box::<crate::net::hold::Hold<8, 11, 4>>::default())),
    part("l2_ring", |n| elaborate(n, Box::<crate::net::l2_ring::L2Ring>::default())),
    both("l2_rx", |n| elaborate(n, Box::<crate::net::l2_rx::L2Rx<10, 11>>::default())),
    both("l2_tx", |n| elaborate(n, Box::<crate::net::l2_tx::L2Tx<8, 11, 4>>::default())),
    both("loopback", |n| elaborate(n, Box::<crate::net::loopback::Loopback<8, 9>>::default())),
    both("mpa_rx", |n| elaborate(n, Box::<crate::mpa::rx::MpaRx<5, 4, 11, 12, 8, 6>>::default())),
    model("mpa_rx_small", |n| elaborate(n, Box::<crate::mpa::rx::MpaRx<3, 2, 8, 7, 5, 4>>::default())),
    lint("mpa_rx_large", |n| elaborate(n, Box::<crate::mpa::rx::MpaRx<10, 6, 14, 17, 11, 7>>::default())),
    both("start_rx", |n| elaborate(n, Box::<crate::mpa::start_rx::StartRx<5, 14>>::default())),
    both("start_tx", |n| elaborate(n, Box::<crate::mpa::start_tx::StartTx<5, 32>>::default())),
    both("crc32c", |n| elaborate(n, Box::<crate::mpa::crc32c::Crc32cStage>::default())),
    both("mpa_tx", |n| elaborate(n, Box::<crate::mpa::tx::MpaTx<5, 13, 9, 10>>::default())),
    lint("mpa_tx_large", |n| elaborate(n, Box::<crate::mpa::tx::MpaTx<10, 18, 12, 13>>::default())),
    both("negotiate", |n| elaborate(n, Box::<crate::mpa::negotiate::Negotiate<8>>::default())),
    both("next_hop", |n| elaborate(n, Box::<crate::net::next_hop::NextHop>::default())),
    both("rx_buffer", |n| elaborate(n, Box::<crate::net::rx_buffer::RxBuffer<11, 12, 8, 9>>::default())),
    both("rx_parser", |n| elaborate(n, Box::<crate::net::rx_parser::RxParser>::default())),
    both("rx_router", |n| elaborate(n, Box::<crate::net::rx_router::RxRouter>::default())),
    model("rx_chain", |n| elaborate(n, Box::<crate::net::rx_chain::RxChain>::default())),
    both("ack_spread", |n| elaborate(n, Box::<crate::rdma::ack_spread::AckSpread>::default())),
    both("payload_in", |n| elaborate(n, Box::<crate::mpa::payload_in::PayloadInSplit>::default())),
    both("payload_out", |n| elaborate(n, Box::<crate::mpa::payload_out::PayloadOutMerge>::default())),
    both("qp_link", |n| elaborate(n, Box::<crate::cm::qp_link::QpLink<5, 7, 8, 9, 32>>::default())),
    both("rdma_placer", |n| elaborate(n, Box::<crate::rdma::placer::Placer<11, 12>>::default())),
    both("rdma_rx", |n| elaborate(n, Box::<crate::rdma::rx::RdmaRx<5, 11, 12, 3, 9, 7, 10>>::default())),
    lint("rdma_rx_large", |n| elaborate(n, Box::<crate::rdma::rx::RdmaRx<10, 14, 17, 5, 16, 12, 15>>::default())),
    both("reassembly", |n| elaborate(n, Box::<crate::tcp::reassembly::Reassembly<5, 8, 192, 11>>::default())),
    both("seg_rx", |n| elaborate(n, Box::<crate::tcp::seg_rx::SegRx>::default())),
    both("rdma_sq", |n| elaborate(n, Box::<crate::rdma::sq::SendQueue<5, 6, 9, 10, 12, 13, 3, 9>>::default())),
    lint("rdma_sq_large", |n| elaborate(n, Box::<crate::rdma::sq::SendQueue<10, 11, 14, 15, 17, 18, 5, 16>>::default())),
    both("syn_guard", |n| elaborate(n, Box::<crate::tcp::syn_guard::SynGuard>::default())),
    both("rules", |n| elaborate(n, Box::<crate::cm::rules::Rules<4, 16>>::default())),
    both("seg_tx", |n| elaborate(n, Box::<crate::tcp::seg_tx::SegTx<8, 9>>::default())),
    both("tcp_rx", |n| elaborate(n, Box::<crate::tcp::rx::TcpRx<5, 5, 4, 6>>::default())),
    both("tcp_tx", |n| elaborate(n, Box::<crate::tcp::tx::TcpTx<5, 6, 7, 10>>::default())),
    both("note_queue", |n| elaborate(n, Box::<crate::tcp::note_queue::NoteQueue>::default())),
    both("tx_mux", |n| elaborate(n, Box::<crate::net::tx_mux::TxMux<4>>::default())),
    both("deadlines", |n| elaborate(n, Box::<crate::tcp::deadlines::Deadlines<6>>::default())),
    both("isn", |n| elaborate(n, Box::<crate::tcp::isn::Isn>::default())),
    model("chan_merge", |n| elaborate(n, Box::<ChanMerge2<rust_hdl::prelude::Bits<32>>>::default())),
    model("cmd_split", |n| elaborate(n, Box::<crate::cm::cmd_split::CmdSplit>::default())),
    model("port_share", |n| elaborate(n, Box::<crate::cm::port_share::PortShare>::default())),
    model("neighbor_share", |n| elaborate(n, Box::<crate::net::neighbor_share::NeighborShare>::default())),
    both("lookup", |n| elaborate(n, Box::<crate::tcp::lookup::Lookup<6, 7>>::default())),
    model("lookup_small", |n| elaborate(n, Box::<crate::tcp::lookup::Lookup<4, 1>>::default())),
    both("rdma_completions", |n| elaborate(n, Box::<crate::rdma::completions::Completions<6, 7, 64, 8, 9>>::default())),
    model("rdma_completions_small", |n| elaborate(n, Box::<crate::rdma::completions::Completions<2, 3, 4, 4, 5>>::default())),
    lint("rdma_completions_large", |n| elaborate(n, Box::<crate::rdma::completions::Completions<10, 11, 1024, 12, 13>>::default())),
    both("rdma_qps", |n| elaborate(n, Box::<crate::rdma::qps::Qps<6, 7, 8, 128>>::default())),
    model("rdma_qps_small", |n| elaborate(n, Box::<crate::rdma::qps::Qps<2, 3, 4, 8>>::default())),
    lint("rdma_qps_large", |n| elaborate(n, Box::<crate::rdma::qps::Qps<10, 11, 12, 2048>>::default())),
    both("rdma_regions", |n| elaborate(n, Box::<crate::rdma::regions::Regions<9>>::default())),
    model("rdma_regions_small", |n| elaborate(n, Box::<crate::rdma::regions::Regions<3>>::default())),
    lint("rdma_regions_large", |n| elaborate(n, Box::<crate::rdma::regions::Regions<12>>::default())),
    both("regs", |n| elaborate(n, Box::<crate::host::regs::Regs>::default())),
    both("time_base", |n| elaborate(n, Box::<crate::host::time::Time>::default())),
    both("counters", |n| elaborate(n, Box::<crate::host::counters::Counters<48, 55, 32, 16>>::default())),
    Entry {
        name: "counters_narrow",
        simulate: true,
        synthesize: false,
        emit: |n| elaborate(n, Box::<crate::host::counters::Counters<12, 19, 4, 8>>::default()),
    },
    both("irq", |n| elaborate(n, Box::<crate::host::irq::Irq>::default())),
    both("dma_read", |n| elaborate(n, Box::<crate::host::dma_read::DmaRead<4>>::default())),
    both("dma_write", |n| elaborate(n, Box::<crate::host::dma_write::DmaWrite<3>>::default())),
    both("cmd_ring", |n| elaborate(n, Box::<crate::host::cmd_ring::CmdRing<4, 5>>::default())),
    both("evt_ring", |n| elaborate(n, Box::<crate::host::evt_ring::EvtRing<5, 6>>::default())),
    both("pulse_merge", |n| elaborate(n, Box::<crate::host::pulse_merge::PulseMerge<4>>::default())),
    both("reset_seq", |n| elaborate(n, Box::<crate::host::reset_seq::ResetSeq>::default())),
];
