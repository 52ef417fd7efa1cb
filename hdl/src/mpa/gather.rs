// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packs the pieces of an FPDU's payload into beats without gaps.
//!
//! **Interface.** A *piece* is some octets of a payload that stand together in host memory. `push` with `piece` announces the next one, while `room` is
//! high: there is a place in the queue of pieces and, if its octets come from outside, room for `beats` beats, `piece.len` / 8 rounded up. Its octets
//! come afterwards, packed from lane 0: by `rd_beat`, which is always ready, or by `word` with `put`, for inline data; not both at once: `quiet` says
//! that all beats announced so far are here. `out` has the octets of the pieces one behind the other; `last` with the beat that holds the last octet of a
//! `last` piece, all behind it 0 (so the PAD is there); the next piece begins a new beat. An empty payload has no piece.
//!
//! **Rules.** What the host puts behind the end of a piece is left out. A piece with `zero` stands for octets that may not be read: none comes from
//! outside. `failed` with the last beat: a piece was `zero`, or its read failed. Nobody waits for the reader of `out` but itself.
//!
//! **How.** The next beat is turned by the octets that are held already; together they give a beat, and what is over is held. No states but the place in
//! the piece; `flush`: a held rest is the last beat.
//! **Timing.** 3 clocks from a beat's arrival to its octets on `out`; a beat a clock, one more clock a piece and for a rest. **Memory.** 2^B beats (B =
//! 9: 2 block RAMs), output registered; 16 pieces. `BP1` = B + 1.
use crate::host::dma::DmaBeat;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Piece {
    /// Not 0.
    pub len: Bits<16>,
    pub zero: Bit,
    pub last: Bit,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct GatherBeat {
    pub data: Bits<64>,
    pub last: Bit,
    pub failed: Bit,
}

#[derive(LogicBlock)]
pub struct Gather<const B: usize, const BP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub piece: Signal<In, Piece>,
    pub beats: Signal<In, Bits<BP1>>,
    pub push: Signal<In, Bit>,
    pub room: Signal<Out, Bit>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub word: Signal<In, Bits<64>>,
    pub put: Signal<In, Bit>,
    pub quiet: Signal<Out, Bit>,
    pub out: ChanSrc<GatherBeat>,
    pieces: ChanFifo<Piece, 4, 5>,
    ram: BlockRam<DmaBeat, B>,
    /// Beats written / visible at the RAM's output / taken, free-running.
    wr: DFF<Bits<BP1>>,
    seen: DFF<Bits<BP1>>,
    rd: DFF<Bits<BP1>>,
    /// Beats that nothing was announced for; announced and not here yet.
    free: DFF<Bits<BP1>>,
    due: DFF<Bits<BP1>>,
    /// The piece in work, its octets that are left.
    active: DFF<Bit>,
    zero: DFF<Bit>,
    last: DFF<Bit>,
    left: DFF<Bits<16>>,
    /// Octets held, from lane 0, and how many.
    held: DFF<Bits<64>>,
    fill: DFF<Bits<3>>,
    flush: DFF<Bit>,
    failed: DFF<Bit>,
    beat: DFF<GatherBeat>,
    offered: DFF<Bit>,
    arrived: Signal<Local, Bit>,
    announced: Signal<Local, Bits<BP1>>,
    pop: Signal<Local, Bit>,
    come: Signal<Local, Bits<BP1>>,
    gone: Signal<Local, Bits<BP1>>,
    rd_next: Signal<Local, Bits<BP1>>,
    next_piece: Signal<Local, Piece>,
    source: Signal<Local, Bits<64>>,
    source_error: Signal<Local, Bit>,
    turned1: Signal<Local, Bits<64>>,
    turned2: Signal<Local, Bits<64>>,
    turned: Signal<Local, Bits<64>>,
    count: Signal<Local, Bits<5>>,
    filled: Signal<Local, Bits<5>>,
    /// Lanes that are held / that are held or new.
    old_lanes: Signal<Local, Bits<64>>,
    lanes: Signal<Local, Bits<64>>,
    together: Signal<Local, Bits<64>>,
    ends: Signal<Local, Bit>,
    finish: Signal<Local, Bit>,
    whole: Signal<Local, Bit>,
    bad: Signal<Local, Bit>,
    free_out: Signal<Local, Bit>,
    depth: Constant<Bits<BP1>>,
    zeros: Constant<Bits<64>>,
    /// The first 0 to 7 lanes.
    masks: [Constant<Bits<64>>; 8],
}

impl<const B: usize, const BP1: usize> Default for Gather<B, BP1> {
    fn default() -> Self {
        assert_eq!(B + 1, BP1);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            piece: Default::default(),
            beats: Default::default(),
            push: Default::default(),
            room: Default::default(),
            rd_beat: Default::default(),
            word: Default::default(),
            put: Default::default(),
            quiet: Default::default(),
            out: Default::default(),
            pieces: Default::default(),
            ram: Default::default(),
            wr: Default::default(),
            seen: Default::default(),
            rd: Default::default(),
            free: Default::default(),
            due: Default::default(),
            active: Default::default(),
            zero: Default::default(),
            last: Default::default(),
            left: Default::default(),
            held: Default::default(),
            fill: Default::default(),
            flush: Default::default(),
            failed: Default::default(),
            beat: Default::default(),
            offered: Default::default(),
            arrived: Default::default(),
            announced: Default::default(),
            pop: Default::default(),
            come: Default::default(),
            gone: Default::default(),
            rd_next: Default::default(),
            next_piece: Default::default(),
            source: Default::default(),
            source_error: Default::default(),
            turned1: Default::default(),
            turned2: Default::default(),
            turned: Default::default(),
            count: Default::default(),
            filled: Default::default(),
            old_lanes: Default::default(),
            lanes: Default::default(),
            together: Default::default(),
            ends: Default::default(),
            finish: Default::default(),
            whole: Default::default(),
            bad: Default::default(),
            free_out: Default::default(),
            depth: Constant::new((1u64 << B).to_bits()),
            zeros: Constant::new(0u64.to_bits()),
            masks: std::array::from_fn(|i| Constant::new(((1u64 << (8 * i)) - 1).to_bits())),
        }
    }
}

impl<const B: usize, const BP1: usize> Logic for Gather<B, BP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, wr, seen, rd, free, due, active, zero, last, left, held, fill, flush, failed, beat, offered);
        clock!(self, clock, pieces);
        self.pieces.reset.next = self.reset.val();
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();

        // announcing
        self.room.next = self.pieces.inp.ready.val() & (self.piece.val().zero | (self.beats.val() <= self.free.q.val()));
        self.pieces.inp.data.next = self.piece.val();
        self.pieces.inp.valid.next = self.push.val();
        self.announced.next = 0.into();
        if self.push.val() & !self.piece.val().zero {
            self.announced.next = self.beats.val();
        }

        // what comes
        self.rd_beat.ready.next = true;
        self.arrived.next = self.rd_beat.valid.val() | self.put.val();
        self.ram.write_address.next = self.wr.q.val().get_bits::<B>(0);
        self.ram.write_data.next = self.rd_beat.data.val();
        if self.put.val() {
            self.ram.write_data.next.data = self.word.val();
            self.ram.write_data.next.error = false;
        }
        self.ram.write_enable.next = self.arrived.val();
        self.come.next = 0.into();
        if self.arrived.val() {
            self.come.next = 1.into();
        }
        self.wr.d.next = self.wr.q.val() + self.come.val();
        self.seen.d.next = self.wr.q.val();
        self.due.d.next = self.due.q.val() + self.announced.val() - self.come.val();
        self.quiet.next = self.due.q.val() == 0;

        // the next beat of the piece in work, turned behind what is held
        self.source.next = self.ram.read_data.val().data;
        self.source_error.next = self.ram.read_data.val().error;
        if self.zero.q.val() {
            self.source.next = 0.into();
        }
        self.turned1.next = self.source.val();
        if self.fill.q.val().get_bit(0) {
            self.turned1.next = (self.source.val() << 8) | (self.source.val() >> 56);
        }
        self.turned2.next = self.turned1.val();
        if self.fill.q.val().get_bit(1) {
            self.turned2.next = (self.turned1.val() << 16) | (self.turned1.val() >> 48);
        }
        self.turned.next = self.turned2.val();
        if self.fill.q.val().get_bit(2) {
            self.turned.next = (self.turned2.val() << 32) | (self.turned2.val() >> 32);
        }
        self.ends.next = self.left.q.val() <= 8;
        self.count.next = 8.into();
        if self.ends.val() {
            self.count.next = bit_cast::<5, 4>(self.left.q.val().get_bits::<4>(0));
        }
        self.filled.next = bit_cast::<5, 3>(self.fill.q.val()) + self.count.val();
        self.whole.next = self.filled.val() >= 8;
        self.old_lanes.next = self.zeros.val();
        self.lanes.next = !self.zeros.val();
        for i in 1..8 {
            if self.fill.q.val().index() == i {
                self.old_lanes.next = self.masks[i].val();
            }
            if self.filled.val().index() == i {
                self.lanes.next = self.masks[i].val();
            }
        }
        self.together.next = (self.held.q.val() & self.old_lanes.val()) | (self.turned.val() & !self.old_lanes.val());
        self.finish.next = self.ends.val() & self.last.q.val();
        self.bad.next = self.failed.q.val() | self.zero.q.val() | self.source_error.val();

        self.out.data.next = self.beat.q.val();
        self.out.valid.next = self.offered.q.val();
        self.free_out.next = !self.offered.q.val() | self.out.ready.val();
        if self.out.ready.val() {
            self.offered.d.next = false;
        }
        self.pop.next = false;
        if self.flush.q.val() {
            if self.free_out.val() {
                self.beat.d.next.data = self.held.q.val() & self.old_lanes.val();
                self.beat.d.next.last = true;
                self.beat.d.next.failed = self.failed.q.val();
                self.offered.d.next = true;
                self.flush.d.next = false;
                self.failed.d.next = false;
                self.fill.d.next = 0.into();
            }
        } else if self.active.q.val() & self.free_out.val() & (self.zero.q.val() | (self.seen.q.val() != self.rd.q.val())) {
            self.pop.next = !self.zero.q.val();
            self.left.d.next = self.left.q.val() - 8;
            self.active.d.next = !self.ends.val();
            self.failed.d.next = self.bad.val();
            self.fill.d.next = self.filled.val().get_bits::<3>(0);
            self.held.d.next = self.together.val();
            if self.whole.val() {
                self.held.d.next = self.turned.val();
            }
            self.beat.d.next.data = self.together.val() & self.lanes.val();
            self.beat.d.next.last = false;
            self.beat.d.next.failed = self.bad.val();
            self.offered.d.next = self.whole.val() | self.finish.val();
            if self.finish.val() {
                if self.filled.val() <= 8 {
                    self.beat.d.next.last = true;
                    self.failed.d.next = false;
                    self.fill.d.next = 0.into();
                } else {
                    self.flush.d.next = true;
                }
            }
        }

        self.next_piece.next = self.pieces.out.data.val();
        self.pieces.out.ready.next = !self.active.q.val();
        if !self.active.q.val() & self.pieces.out.valid.val() {
            self.active.d.next = true;
            self.left.d.next = self.next_piece.val().len;
            self.zero.d.next = self.next_piece.val().zero;
            self.last.d.next = self.next_piece.val().last;
        }

        self.gone.next = 0.into();
        if self.pop.val() {
            self.gone.next = 1.into();
        }
        self.rd_next.next = self.rd.q.val() + self.gone.val();
        self.rd.d.next = self.rd_next.val();
        self.ram.read_address.next = self.rd_next.val().get_bits::<B>(0);
        self.free.d.next = self.free.q.val() + self.gone.val() - self.announced.val();

        if self.reset.val() {
            self.wr.d.next = 0.into();
            self.seen.d.next = 0.into();
            self.rd.d.next = 0.into();
            self.free.d.next = self.depth.val();
            self.due.d.next = 0.into();
            self.active.d.next = false;
            self.fill.d.next = 0.into();
            self.flush.d.next = false;
            self.failed.d.next = false;
            self.offered.d.next = false;
        }
    }
}
