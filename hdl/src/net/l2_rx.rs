// SPDX-License-Identifier: MIT OR Apache-2.0
//! The L2 queue from the wire to the host.
//!
//! **Interface.** `inp` always takes (frames of at least two beats). A descriptor ring in host memory (`l2_ring`: base, size, doorbell,
//! `head`, and `irq`, a pulse after each completion was written), DMA read client `ring_rd_*`, write client `wr_*` for frames and completions.
//!
//! **Rules.** A frame is kept if, at its end, it is whole, fits, and a descriptor is posted for it; else it is dropped as a whole. It goes to
//! the next descriptor's buffer; then the descriptor is completed with the frame's length and RX_BROADCAST if it was sent to
//! ff:ff:ff:ff:ff:ff. A buffer that is too small drops the frame and stays for the next. All drops count in `cnt_l2_in_no_buffer`.
//! A descriptor that cannot be read is completed with DONE_DMA_ERROR and length 0, the frame goes to the next one; a frame that
//! cannot be written completes its descriptor with DONE_DMA_ERROR.
//!
//! **States.** In: frame after frame into a ring of words, committed or taken back at the end. Out: wait for a frame and a
//! descriptor, request, data, wait for the end of the write, complete, wait for its end; one frame at a time.
//! **Timing.** One beat a clock in; 6 clocks from the last beat to the DMA request if the descriptor is there.
//! **Memory:** 2^A words of 64 bits (A = 10: 4 block RAMs), 16 frames of 17 bits distributed. `AP1` = A + 1.
use super::l2_ring::{L2Completion, L2Ring};
use crate::host::dma::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// A frame that waits for the host.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct L2Waiting {
    pub len: Bits<16>,
    pub broadcast: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum L2RxState {
    Idle,
    Choose,
    Request,
    Data,
    Written,
    Finish,
    Completed,
}

#[derive(LogicBlock)]
pub struct L2Rx<const A: usize, const AP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ring_base: Signal<In, Bits<64>>,
    pub ring_log2: Signal<In, Bits<4>>,
    pub doorbell: Signal<In, Bits<16>>,
    pub doorbell_valid: Signal<In, Bit>,
    pub head: Signal<Out, Bits<16>>,
    pub irq: Signal<Out, Bit>,
    pub inp: StreamSink,
    pub ring_rd_req: ChanSrc<DmaRequest>,
    pub ring_rd_data: ChanSink<DmaBeat>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_data: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub cnt_l2_in_frames: Signal<Out, Bit>,
    pub cnt_l2_in_no_buffer: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    ring: L2Ring,
    words: BlockRam<Bits<64>, A>,
    reader: FrameReader<A>,
    frames: ChanFifo<L2Waiting, 4, 5>,
    state: DFF<L2RxState>,
    // in
    wr: DFF<Bits<AP1>>,
    first: DFF<Bits<AP1>>,
    rd: DFF<Bits<AP1>>,
    spill: DFF<Bit>,
    started: DFF<Bit>,
    broadcast: DFF<Bit>,
    beats_in: DFF<Bits<13>>,
    /// Frames kept and not yet completed or dropped.
    kept: DFF<Bits<6>>,
    lost_in: DFF<Bit>,
    // out
    broken: DFF<Bit>,
    unread: DFF<Bit>,
    data: Signal<Local, Bits<64>>,
    keep: Signal<Local, Bits<8>>,
    to_all: Signal<Local, Bits<48>>,
    tail: Signal<Local, Bits<4>>,
    count: Signal<Local, Bits<16>>,
    fill: Signal<Local, Bits<AP1>>,
    full: Signal<Local, Bit>,
    good: Signal<Local, Bit>,
    store: Signal<Local, Bit>,
    kept_here: Signal<Local, Bit>,
    released: Signal<Local, Bit>,
    wr_next: Signal<Local, Bits<AP1>>,
    beats: Signal<Local, Bits<16>>,
    too_small: Signal<Local, Bit>,
    pop: Signal<Local, Bit>,
    own_write: Signal<Local, Bit>,
    arrived: Signal<Local, L2Waiting>,
    completion: Signal<Local, L2Completion>,
    capacity: Constant<Bits<AP1>>,
    number: [Constant<Bits<4>>; 8],
}

impl<const A: usize, const AP1: usize> Default for L2Rx<A, AP1> {
    fn default() -> Self {
        assert!(AP1 == A + 1 && A <= 12);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ring_base: Default::default(),
            ring_log2: Default::default(),
            doorbell: Default::default(),
            doorbell_valid: Default::default(),
            head: Default::default(),
            irq: Default::default(),
            inp: Default::default(),
            ring_rd_req: Default::default(),
            ring_rd_data: Default::default(),
            wr_req: Default::default(),
            wr_data: Default::default(),
            wr_done: Default::default(),
            cnt_l2_in_frames: Default::default(),
            cnt_l2_in_no_buffer: Default::default(),
            cnt_doorbell_errors: Default::default(),
            ring: Default::default(),
            words: Default::default(),
            reader: Default::default(),
            frames: Default::default(),
            state: Default::default(),
            wr: Default::default(),
            first: Default::default(),
            rd: Default::default(),
            spill: Default::default(),
            started: Default::default(),
            broadcast: Default::default(),
            beats_in: Default::default(),
            kept: Default::default(),
            lost_in: Default::default(),
            broken: Default::default(),
            unread: Default::default(),
            data: Default::default(),
            keep: Default::default(),
            to_all: Default::default(),
            tail: Default::default(),
            count: Default::default(),
            fill: Default::default(),
            full: Default::default(),
            good: Default::default(),
            store: Default::default(),
            kept_here: Default::default(),
            released: Default::default(),
            wr_next: Default::default(),
            beats: Default::default(),
            too_small: Default::default(),
            pop: Default::default(),
            own_write: Default::default(),
            arrived: Default::default(),
            completion: Default::default(),
            capacity: Constant::new((1u64 << A).to_bits()),
            number: std::array::from_fn(|i| Constant::new((i as u64 + 1).to_bits())),
        }
    }
}

impl<const A: usize, const AP1: usize> Logic for L2Rx<A, AP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, wr, first, rd, spill, started, broadcast, beats_in, kept, lost_in, broken, unread);
        clock!(self, clock, ring, reader, frames);
        self.ring.reset.next = self.reset.val();
        self.reader.reset.next = self.reset.val();
        self.frames.reset.next = self.reset.val();
        self.words.read_clock.next = self.clock.val();
        self.words.write_clock.next = self.clock.val();

        self.ring.ring_base.next = self.ring_base.val();
        self.ring.ring_log2.next = self.ring_log2.val();
        self.ring.doorbell.next = self.doorbell.val();
        self.ring.doorbell_valid.next = self.doorbell_valid.val();
        self.head.next = self.ring.head.val();
        self.irq.next = self.ring.completed.val();
        self.cnt_doorbell_errors.next = self.ring.cnt_doorbell_errors.val();
        ChanSrc::<DmaRequest>::link(&mut self.ring_rd_req, &mut self.ring.rd_req);
        ChanSink::<DmaBeat>::link(&mut self.ring_rd_data, &mut self.ring.rd_data);

        // in
        self.inp.ready.next = true;
        self.data.next = self.inp.beat.val().data;
        self.keep.next = self.inp.beat.val().keep;
        self.to_all.next = self.data.val().get_bits::<48>(0);
        self.tail.next = 0.into();
        for i in 0..8 {
            if self.keep.val().get_bit(i) {
                self.tail.next = self.number[i].val();
            }
        }
        self.count.next = (bit_cast::<16, 13>(self.beats_in.q.val()) << 3) + bit_cast::<16, 4>(self.tail.val());
        self.fill.next = self.wr.q.val() - self.rd.q.val();
        self.full.next = self.fill.val() == self.capacity.val();
        self.store.next = self.inp.valid.val() & !self.full.val() & !self.spill.q.val();
        self.good.next = self.store.val()
            & !self.inp.beat.val().error
            & self.frames.inp.ready.val()
            & (self.ring.posted.val() > bit_cast::<16, 6>(self.kept.q.val()));
        self.kept_here.next = self.good.val() & self.inp.beat.val().last;
        self.frames.inp.valid.next = self.kept_here.val();
        self.arrived.next.len = self.count.val();
        self.arrived.next.broadcast = self.broadcast.q.val();
        self.frames.inp.data.next = self.arrived.val();
        self.words.write_address.next = self.wr.q.val().get_bits::<A>(0);
        self.words.write_data.next = self.data.val();
        self.words.write_enable.next = self.store.val();
        self.wr_next.next = self.wr.q.val() + 1;
        self.lost_in.d.next = false;
        if self.inp.valid.val() {
            self.beats_in.d.next = self.beats_in.q.val() + 1;
            self.started.d.next = true;
            if !self.started.q.val() {
                self.broadcast.d.next = self.to_all.val().all();
            }
            if self.full.val() {
                self.spill.d.next = true;
            }
            if self.store.val() {
                self.wr.d.next = self.wr_next.val();
            }
            if self.inp.beat.val().last {
                self.beats_in.d.next = 0.into();
                self.started.d.next = false;
                self.spill.d.next = false;
                if self.good.val() {
                    self.first.d.next = self.wr_next.val();
                } else {
                    self.wr.d.next = self.first.q.val();
                    self.lost_in.d.next = true;
                }
            }
        }

        // out
        self.ring.desc.ready.next = false;
        self.ring.finish.valid.next = false;
        self.completion.next.len = self.frames.out.data.val().len;
        self.completion.next.flags = self.ring.desc.data.val().flags;
        self.completion.next.done_flags = 0.into();
        if self.frames.out.data.val().broadcast {
            self.completion.next.done_flags = 16.into();
        }
        if self.broken.q.val() {
            self.completion.next.done_flags = 2.into();
        }
        if self.unread.q.val() {
            self.completion.next.len = 0.into();
            self.completion.next.flags = 0.into();
        }
        self.ring.finish.data.next = self.completion.val();
        self.reader.start.next = false;
        self.reader.base.next = self.rd.q.val().get_bits::<A>(0);
        self.reader.len.next = self.frames.out.data.val().len;
        self.reader.read_data.next = self.words.read_data.val();
        self.words.read_address.next = self.reader.read_address.val();
        self.reader.out.ready.next = false;
        self.beats.next = self.frames.out.data.val().len + 7;
        self.too_small.next = self.ring.desc.data.val().len < self.frames.out.data.val().len;
        self.pop.next = false;
        self.cnt_l2_in_frames.next = false;
        self.cnt_l2_in_no_buffer.next = self.lost_in.q.val();
        // completions go through the same write client, but never at the same time; known before anything of this clock is looked
        // at, so that no wire seems to depend on itself
        self.own_write.next = self.state.q.val() != L2RxState::Completed;
        self.ring.wr_done.valid.next = self.wr_done.valid.val() & !self.own_write.val();
        self.ring.wr_done.error.next = self.wr_done.error.val();
        self.wr_req.valid.next = false;
        self.wr_req.data.next.addr = self.ring.desc.data.val().addr;
        self.wr_req.data.next.len = self.frames.out.data.val().len;
        self.wr_data.valid.next = false;
        self.wr_data.data.next.data = self.reader.out.beat.val().data;
        self.wr_data.data.next.last = self.reader.out.beat.val().last;
        self.wr_data.data.next.error = false;
        match self.state.q.val() {
            L2RxState::Idle => {
                self.broken.d.next = false;
                self.unread.d.next = false;
                if self.frames.out.valid.val() & self.ring.desc.valid.val() {
                    self.state.d.next = L2RxState::Choose;
                }
            }
            L2RxState::Choose => {
                if self.ring.desc.data.val().error {
                    self.broken.d.next = true;
                    self.unread.d.next = true;
                    self.state.d.next = L2RxState::Finish;
                } else if self.too_small.val() {
                    if !self.lost_in.q.val() {
                        self.cnt_l2_in_no_buffer.next = true;
                        self.pop.next = true;
                        self.state.d.next = L2RxState::Idle;
                    }
                } else {
                    self.reader.start.next = true;
                    self.state.d.next = L2RxState::Request;
                }
            }
            L2RxState::Request => {
                self.wr_req.valid.next = true;
                if self.wr_req.ready.val() {
                    self.state.d.next = L2RxState::Data;
                }
            }
            L2RxState::Data => {
                self.wr_data.valid.next = self.reader.out.valid.val();
                self.reader.out.ready.next = self.wr_data.ready.val();
                if self.reader.out.valid.val() & self.wr_data.ready.val() & self.reader.out.beat.val().last {
                    self.state.d.next = L2RxState::Written;
                }
            }
            L2RxState::Written => {
                self.broken.d.next = self.wr_done.error.val();
                if self.wr_done.valid.val() {
                    self.state.d.next = L2RxState::Finish;
                }
            }
            L2RxState::Finish => {
                self.ring.finish.valid.next = true;
                if self.ring.finish.ready.val() {
                    self.ring.desc.ready.next = true;
                    self.state.d.next = L2RxState::Completed;
                }
            }
            L2RxState::Completed => {
                if self.ring.completed.val() {
                    self.cnt_l2_in_frames.next = !self.broken.q.val();
                    self.pop.next = !self.unread.q.val();
                    self.state.d.next = L2RxState::Idle;
                }
            }
            _ => {
                self.state.d.next = L2RxState::Idle;
            }
        }

        self.ring.wr_req.ready.next = false;
        self.ring.wr_data.ready.next = false;
        if !self.own_write.val() {
            self.wr_req.valid.next = self.ring.wr_req.valid.val();
            self.wr_req.data.next = self.ring.wr_req.data.val();
            self.ring.wr_req.ready.next = self.wr_req.ready.val();
            self.wr_data.valid.next = self.ring.wr_data.valid.val();
            self.wr_data.data.next = self.ring.wr_data.data.val();
            self.ring.wr_data.ready.next = self.wr_data.ready.val();
        }

        self.frames.out.ready.next = self.pop.val();
        self.released.next = self.pop.val();
        if self.pop.val() {
            self.rd.d.next = self.rd.q.val() + bit_cast::<AP1, 13>(self.beats.val().get_bits::<13>(3));
        }
        if self.kept_here.val() & !self.released.val() {
            self.kept.d.next = self.kept.q.val() + 1;
        }
        if self.released.val() & !self.kept_here.val() {
            self.kept.d.next = self.kept.q.val() - 1;
        }

        if self.reset.val() {
            self.state.d.next = L2RxState::Idle;
            self.wr.d.next = 0.into();
            self.first.d.next = 0.into();
            self.rd.d.next = 0.into();
            self.spill.d.next = false;
            self.started.d.next = false;
            self.beats_in.d.next = 0.into();
            self.kept.d.next = 0.into();
            self.lost_in.d.next = false;
        }
    }
}
