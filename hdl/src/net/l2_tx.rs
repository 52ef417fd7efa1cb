// SPDX-License-Identifier: MIT OR Apache-2.0
//! The L2 queue from the host to the wire.
//!
//! **Interface.** A descriptor ring in host memory (`l2_ring`: base, size, doorbell, `head`, and `irq`, a pulse after each completion was
//! written), DMA read client `ring_rd_*` for descriptors, `frame_rd_*` for frames, write client `wr_*` for completions; the neighbour
//! service; `out` to the transmit multiplexer. Frames on `out` come from a complete buffer and are never interrupted by the host.
//!
//! **Rules.** A descriptor is completed with
//! * DONE_LENGTH_ERROR: length outside 14..=MTU + 18 (or a place of `hold`); nothing is read;
//! * DONE_DMA_ERROR: descriptor or frame could not be read;
//! * with TX_RESOLVE, DONE_NO_ROUTE: not an IPv4 datagram, or no next hop; DONE_NO_ROOM: no room to resolve or to wait; DONE_PENDING: the
//!   frame waits in `hold` for its next hop, and later ones pass it;
//! * no flag: the frame is being sent.
//!
//! All but the last two count in `cnt_l2_out_errors`. With TX_RESOLVE the next hop is looked up for each frame just before it is sent
//! (ARP-9), broadcast and multicast destinations get their group MAC address without a look-up (ARP-10), own addresses the own one. After a frame was put to wait, its
//! next hop is looked up once more, so that a notice that came between is not missed.
//!
//! **States.** One frame at a time is read and decided upon while the one before is sent; the next descriptor is fetched meanwhile.
//! **Timing.** From the last beat read to the first beat sent 4 clocks, with TX_RESOLVE about 20 (the neighbour in its own place).
//! **Memory:** that of `hold`. `A` = log2 of the words of a place, `AS` = A + 3, `W` frames can wait.
use super::hold::{Hold, HoldPut};
use super::l2_ring::{L2Completion, L2Ring};
use super::neighbor_types::*;
use super::next_hop::NextHop;
use super::types::LocalAddress;
use crate::host::dma::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum L2TxState {
    Idle,
    Request,
    Load,
    Parse,
    Route,
    Query,
    Answer,
    Send,
    Wait,
    Settle,
    Finish,
}

#[derive(LogicBlock)]
pub struct L2Tx<const A: usize, const AS: usize, const W: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub own_mac: Signal<In, Bits<48>>,
    pub local: [Signal<In, LocalAddress>; 4],
    pub mtu: Signal<In, Bits<16>>,
    pub ring_base: Signal<In, Bits<64>>,
    pub ring_log2: Signal<In, Bits<4>>,
    pub doorbell: Signal<In, Bits<16>>,
    pub doorbell_valid: Signal<In, Bit>,
    pub head: Signal<Out, Bits<16>>,
    pub irq: Signal<Out, Bit>,
    pub ring_rd_req: ChanSrc<DmaRequest>,
    pub ring_rd_data: ChanSink<DmaBeat>,
    pub frame_rd_req: ChanSrc<DmaRequest>,
    pub frame_rd_data: ChanSink<DmaBeat>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_data: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub query: ChanSrc<NeighborQuery>,
    pub answer: ChanSink<NeighborAnswer>,
    pub notice: Signal<In, NeighborNotice>,
    pub notice_valid: Signal<In, Bit>,
    pub out: StreamSrc,
    pub cnt_l2_out_frames: Signal<Out, Bit>,
    pub cnt_l2_out_errors: Signal<Out, Bit>,
    pub cnt_l2_out_no_neighbor: Signal<Out, Bit>,
    pub cnt_l2_out_replaced: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    ring: L2Ring,
    hold: Hold<A, AS, W>,
    next_hop: NextHop,
    state: DFF<L2TxState>,
    len: DFF<Bits<16>>,
    flags: DFF<Bits<16>>,
    done_flags: DFF<Bits<15>>,
    failed: DFF<Bit>,
    place: DFF<Bits<3>>,
    word: DFF<Bits<A>>,
    /// From the frame: EtherType as it stands on the wire (first octet low), addresses as numbers.
    kind: DFF<Bits<16>>,
    src: DFF<Bits<32>>,
    dst: DFF<Bits<32>>,
    // what is put into `hold`
    rewrite: DFF<Bit>,
    ip: DFF<Bits<32>>,
    source: DFF<Bits<32>>,
    mac: DFF<Bits<48>>,
    waiting: DFF<Bit>,
    settle_ok: DFF<Bit>,
    limit: Signal<Local, Bits<16>>,
    data: Signal<Local, Bits<64>>,
    posted_len: Signal<Local, Bits<16>>,
    flag_bits: Signal<Local, Bits<16>>,
    put: Signal<Local, HoldPut>,
    settle: Signal<Local, NeighborNotice>,
    completion: Signal<Local, L2Completion>,
    largest: Constant<Bits<16>>,
}

impl<const A: usize, const AS: usize, const W: usize> Default for L2Tx<A, AS, W> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            own_mac: Default::default(),
            local: Default::default(),
            mtu: Default::default(),
            ring_base: Default::default(),
            ring_log2: Default::default(),
            doorbell: Default::default(),
            doorbell_valid: Default::default(),
            head: Default::default(),
            irq: Default::default(),
            ring_rd_req: Default::default(),
            ring_rd_data: Default::default(),
            frame_rd_req: Default::default(),
            frame_rd_data: Default::default(),
            wr_req: Default::default(),
            wr_data: Default::default(),
            wr_done: Default::default(),
            query: Default::default(),
            answer: Default::default(),
            notice: Default::default(),
            notice_valid: Default::default(),
            out: Default::default(),
            cnt_l2_out_frames: Default::default(),
            cnt_l2_out_errors: Default::default(),
            cnt_l2_out_no_neighbor: Default::default(),
            cnt_l2_out_replaced: Default::default(),
            cnt_doorbell_errors: Default::default(),
            ring: Default::default(),
            hold: Default::default(),
            next_hop: Default::default(),
            state: Default::default(),
            len: Default::default(),
            flags: Default::default(),
            done_flags: Default::default(),
            failed: Default::default(),
            place: Default::default(),
            word: Default::default(),
            kind: Default::default(),
            src: Default::default(),
            dst: Default::default(),
            rewrite: Default::default(),
            ip: Default::default(),
            source: Default::default(),
            mac: Default::default(),
            waiting: Default::default(),
            settle_ok: Default::default(),
            limit: Default::default(),
            data: Default::default(),
            posted_len: Default::default(),
            flag_bits: Default::default(),
            put: Default::default(),
            settle: Default::default(),
            completion: Default::default(),
            largest: Constant::new((8u64 << A).to_bits()),
        }
    }
}

impl<const A: usize, const AS: usize, const W: usize> Logic for L2Tx<A, AS, W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, len, flags, done_flags, failed, place, word, kind, src, dst);
        dff_setup!(self, clock, rewrite, ip, source, mac, waiting, settle_ok);
        clock!(self, clock, ring, hold, next_hop);
        self.ring.reset.next = self.reset.val();
        self.hold.reset.next = self.reset.val();
        self.next_hop.reset.next = self.reset.val();

        self.ring.ring_base.next = self.ring_base.val();
        self.ring.ring_log2.next = self.ring_log2.val();
        self.ring.doorbell.next = self.doorbell.val();
        self.ring.doorbell_valid.next = self.doorbell_valid.val();
        self.head.next = self.ring.head.val();
        self.irq.next = self.ring.completed.val();
        self.cnt_doorbell_errors.next = self.ring.cnt_doorbell_errors.val();
        ChanSrc::<DmaRequest>::link(&mut self.ring_rd_req, &mut self.ring.rd_req);
        ChanSink::<DmaBeat>::link(&mut self.ring_rd_data, &mut self.ring.rd_data);
        ChanSrc::<DmaRequest>::link(&mut self.wr_req, &mut self.ring.wr_req);
        ChanSrc::<DmaBeat>::link(&mut self.wr_data, &mut self.ring.wr_data);
        DmaDoneSink::link(&mut self.wr_done, &mut self.ring.wr_done);

        self.hold.own_mac.next = self.own_mac.val();
        self.hold.notice.next = self.notice.val();
        self.hold.notice_valid.next = self.notice_valid.val();
        StreamSrc::link(&mut self.out, &mut self.hold.out);
        self.cnt_l2_out_frames.next = self.hold.cnt_l2_out_frames.val();
        self.cnt_l2_out_no_neighbor.next = self.hold.cnt_l2_out_no_neighbor.val();
        self.cnt_l2_out_replaced.next = self.hold.cnt_l2_out_replaced.val();
        for i in 0..4 {
            self.next_hop.local[i].next = self.local[i].val();
        }
        self.next_hop.dst.next = self.dst.q.val();
        self.next_hop.src.next = self.src.q.val();
        self.next_hop.start.next = false;

        self.frame_rd_req.valid.next = false;
        self.frame_rd_req.data.next.addr = self.ring.desc.data.val().addr;
        self.frame_rd_req.data.next.len = self.ring.desc.data.val().len;
        self.frame_rd_data.ready.next = true;
        self.data.next = self.frame_rd_data.data.val().data;
        self.hold.write_place.next = self.place.q.val();
        self.hold.write_word.next = self.word.q.val();
        self.hold.write_data.next = self.data.val();
        self.hold.write_enable.next = false;
        self.ring.desc.ready.next = false;
        self.posted_len.next = self.ring.desc.data.val().len;
        self.flag_bits.next = self.flags.q.val();
        self.limit.next = self.mtu.val() + 18;
        self.query.valid.next = false;
        self.query.data.next.ip = self.ip.q.val();
        self.query.data.next.source = self.source.q.val();
        self.query.data.next.recheck = false;
        self.answer.ready.next = false;
        self.hold.put.valid.next = false;
        self.put.next.place = self.place.q.val();
        self.put.next.len = self.len.q.val();
        self.put.next.wait = self.waiting.q.val();
        self.put.next.rewrite = self.rewrite.q.val();
        self.put.next.ip = self.ip.q.val();
        self.put.next.mac = self.mac.q.val();
        self.hold.settle.valid.next = false;
        self.settle.next.ip = self.ip.q.val();
        self.settle.next.ok = self.settle_ok.q.val();
        self.settle.next.mac = self.mac.q.val();
        self.ring.finish.valid.next = false;
        self.completion.next.len = self.len.q.val();
        self.completion.next.flags = self.flags.q.val();
        self.completion.next.done_flags = self.done_flags.q.val();
        self.hold.put.data.next = self.put.val();
        self.hold.settle.data.next = self.settle.val();
        self.ring.finish.data.next = self.completion.val();
        self.cnt_l2_out_errors.next = false;

        match self.state.q.val() {
            L2TxState::Idle => {
                self.len.d.next = self.posted_len.val();
                self.flags.d.next = self.ring.desc.data.val().flags;
                self.done_flags.d.next = 0.into();
                self.rewrite.d.next = false;
                self.waiting.d.next = false;
                self.word.d.next = 0.into();
                self.place.d.next = self.hold.free_place.val();
                if self.ring.desc.valid.val() {
                    self.state.d.next = L2TxState::Request;
                    if self.ring.desc.data.val().error {
                        self.len.d.next = 0.into();
                        self.flags.d.next = 0.into();
                        self.done_flags.d.next = 2.into();
                        self.ring.desc.ready.next = true;
                        self.state.d.next = L2TxState::Finish;
                    } else if (self.posted_len.val() < 14)
                        | (self.posted_len.val() > self.limit.val())
                        | (self.posted_len.val() > self.largest.val())
                    {
                        self.done_flags.d.next = 1.into();
                        self.ring.desc.ready.next = true;
                        self.state.d.next = L2TxState::Finish;
                    }
                }
            }
            L2TxState::Request => {
                self.frame_rd_req.valid.next = true;
                if self.frame_rd_req.ready.val() {
                    self.ring.desc.ready.next = true;
                    self.state.d.next = L2TxState::Load;
                }
            }
            L2TxState::Load => {
                self.failed.d.next = self.frame_rd_data.data.val().error;
                if self.frame_rd_data.valid.val() {
                    self.hold.write_enable.next = true;
                    self.word.d.next = self.word.q.val() + 1;
                    if self.word.q.val() == 1 {
                        self.kind.d.next = self.data.val().get_bits::<16>(32);
                    }
                    if self.word.q.val() == 3 {
                        self.src.d.next = (bit_cast::<32, 8>(self.data.val().get_bits::<8>(16)) << 24)
                            | (bit_cast::<32, 8>(self.data.val().get_bits::<8>(24)) << 16)
                            | (bit_cast::<32, 8>(self.data.val().get_bits::<8>(32)) << 8)
                            | bit_cast::<32, 8>(self.data.val().get_bits::<8>(40));
                        self.dst.d.next = (bit_cast::<32, 8>(self.data.val().get_bits::<8>(48)) << 24)
                            | (bit_cast::<32, 8>(self.data.val().get_bits::<8>(56)) << 16);
                    }
                    if self.word.q.val() == 4 {
                        self.dst.d.next = self.dst.q.val()
                            | (bit_cast::<32, 8>(self.data.val().get_bits::<8>(0)) << 8)
                            | bit_cast::<32, 8>(self.data.val().get_bits::<8>(8));
                    }
                    if self.frame_rd_data.data.val().last {
                        self.state.d.next = L2TxState::Parse;
                    }
                }
            }
            L2TxState::Parse => {
                self.next_hop.start.next = true;
                self.state.d.next = L2TxState::Route;
                if self.failed.q.val() {
                    self.done_flags.d.next = 2.into();
                    self.state.d.next = L2TxState::Finish;
                } else if !self.flag_bits.val().get_bit(0) {
                    self.state.d.next = L2TxState::Send;
                } else if (self.kind.q.val() != 8) | (self.len.q.val() < 34) {
                    self.done_flags.d.next = 32.into();
                    self.state.d.next = L2TxState::Finish;
                }
            }
            L2TxState::Route => {
                self.rewrite.d.next = true;
                self.ip.d.next = self.next_hop.route.val().ip;
                self.source.d.next = self.next_hop.route.val().source;
                self.mac.d.next = self.next_hop.route.val().mac;
                if self.next_hop.done.val() {
                    if self.next_hop.route.val().resolve {
                        self.state.d.next = L2TxState::Query;
                    } else if self.next_hop.route.val().group {
                        self.state.d.next = L2TxState::Send;
                    } else if self.next_hop.route.val().own {
                        self.mac.d.next = self.own_mac.val();
                        self.state.d.next = L2TxState::Send;
                    } else {
                        self.done_flags.d.next = 32.into();
                        self.state.d.next = L2TxState::Finish;
                    }
                }
            }
            L2TxState::Query => {
                self.query.valid.next = true;
                if self.query.ready.val() {
                    self.state.d.next = L2TxState::Answer;
                }
            }
            L2TxState::Answer => {
                self.answer.ready.next = true;
                self.mac.d.next = self.answer.data.val().mac;
                self.settle_ok.d.next = self.answer.data.val().found;
                if self.answer.valid.val() {
                    if self.waiting.q.val() {
                        // the second look
                        self.done_flags.d.next = 4.into();
                        self.state.d.next = L2TxState::Finish;
                        if self.answer.data.val().found | self.answer.data.val().busy {
                            self.state.d.next = L2TxState::Settle;
                        }
                    } else if self.answer.data.val().found {
                        self.state.d.next = L2TxState::Send;
                    } else if self.answer.data.val().busy {
                        self.done_flags.d.next = 8.into();
                        self.state.d.next = L2TxState::Finish;
                    } else {
                        self.waiting.d.next = true;
                        self.state.d.next = L2TxState::Wait;
                    }
                }
            }
            L2TxState::Send => {
                self.hold.put.valid.next = true;
                if self.hold.put.ready.val() {
                    self.state.d.next = L2TxState::Finish;
                }
            }
            L2TxState::Wait => {
                self.hold.put.valid.next = true;
                if self.hold.put.ready.val() {
                    self.state.d.next = L2TxState::Query;
                    if self.hold.refused.val() {
                        self.done_flags.d.next = 8.into();
                        self.state.d.next = L2TxState::Finish;
                    }
                }
            }
            L2TxState::Settle => {
                self.hold.settle.valid.next = true;
                if self.hold.settle.ready.val() {
                    self.state.d.next = L2TxState::Finish;
                }
            }
            L2TxState::Finish => {
                self.ring.finish.valid.next = true;
                if self.ring.finish.ready.val() {
                    self.cnt_l2_out_errors.next = (self.done_flags.q.val() != 0) & (self.done_flags.q.val() != 4);
                    self.state.d.next = L2TxState::Idle;
                }
            }
            _ => {
                self.state.d.next = L2TxState::Idle;
            }
        }
        if self.reset.val() {
            self.state.d.next = L2TxState::Idle;
        }
    }
}
