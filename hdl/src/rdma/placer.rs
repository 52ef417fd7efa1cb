// SPDX-License-Identifier: MIT OR Apache-2.0
//! Octets of a slot go to host memory.
//!
//! **Interface.** `place`: what goes where ([`Place`]); up to 16 wait in a queue. Each that has octets is one write on the DMA port (`wr_req`, `wr_beat`, `wr_done`, `host::dma`), in
//! order, whatever the offset in the slot and the address are; `done` passes on the end of each, in order. `free` gives a slot back when the last octet of a `place` that says
//! so has been read, in order with the others, also when it has no octets.
//!
//! `slot_address`, `slot_data`: the slots, 2^S octets each, as 2^W words of 8; the word comes in the clock after its address. A word is not read in a clock in which
//! `hold` is high, when somebody else has the port. A write is asked for when its octets stand in their slot, so it waits for nothing but clocks of `hold`.
//!
//! **How.** Words are read one a clock and shifted into beats that are packed from lane 0: an offset that is no multiple of 8 needs the word before. Beats go through a queue of 16,
//! which holds what the host does not take at once; a word is read only if its beat has room there. The next `place` is begun when all words of this were read and its request was taken.
//!
//! **States.** See [`PlacerState`].
//!
//! **Timing.** A `place` of n beats takes n + 2 clocks from its start to the next one's, one more if the offset is no multiple of 8, and one more if it gives the slot back: 4, 11 and
//! 184 clocks for 8, 64 and 1446 octets of a tagged segment. Memory: two queues of 16 in distributed RAM.
//!
//! Nothing here waits for `done`. `free`, `wr_req` and `wr_beat` may stall it.
use super::types::*;
use crate::host::dma::{DmaBeat, DmaDoneSink, DmaDoneSrc, DmaRequest};
use crate::stream::{ChanFifo, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum PlacerState {
    /// The next of the queue is taken.
    Idle,
    /// Its size in words and beats is known; the request is offered.
    Plan,
    /// Words are read.
    Read,
    /// The slot is given back.
    Free,
}

/// `S`: log2 of the octets of a slot; `W`: log2 of the words of all.
#[derive(LogicBlock)]
pub struct Placer<const S: usize, const W: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub place: ChanSink<Place>,
    pub free: ChanSrc<Bits<8>>,
    pub hold: Signal<In, Bit>,
    pub slot_address: Signal<Out, Bits<W>>,
    pub slot_data: Signal<In, Bits<64>>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_beat: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub done: DmaDoneSrc,
    queue: ChanFifo<Place, 4, 5>,
    beats: ChanFifo<DmaBeat, 4, 5>,
    state: DFF<PlacerState>,
    at: DFF<Place>,
    asking: DFF<Bit>,
    address: DFF<Bits<W>>,
    /// Words still to read, beats still to come of them.
    words: DFF<Bits<14>>,
    left: DFF<Bits<14>>,
    /// The word before, and whether one comes in this clock. `first`: it only goes before the next.
    prior: DFF<Bits<64>>,
    comes: DFF<Bit>,
    first: DFF<Bit>,
    /// Beats in the queue or on the way to it.
    used: DFF<Bits<5>>,
    /// Writes that were asked for and have beats to come.
    granted: DFF<Bits<6>>,
    shift: Signal<Local, Bits<3>>,
    octets: Signal<Local, Bits<17>>,
    beat_count: Signal<Local, Bits<14>>,
    offset: Signal<Local, Bits<16>>,
    both: Signal<Local, Bits<128>>,
    read: Signal<Local, Bit>,
    prologue: Signal<Local, Bit>,
    pushed: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    asked: Signal<Local, Bit>,
    ended: Signal<Local, Bit>,
    charge: Signal<Local, Bit>,
    slot_shift: Constant<Bits<4>>,
}

impl<const S: usize, const W: usize> Default for Placer<S, W> {
    fn default() -> Self {
        assert!((6..=16).contains(&S) && W + 3 >= S && W + 3 <= S + 8, "slots are numbered in 8 bits");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            place: Default::default(),
            free: Default::default(),
            hold: Default::default(),
            slot_address: Default::default(),
            slot_data: Default::default(),
            wr_req: Default::default(),
            wr_beat: Default::default(),
            wr_done: Default::default(),
            done: Default::default(),
            queue: Default::default(),
            beats: Default::default(),
            state: Default::default(),
            at: Default::default(),
            asking: Default::default(),
            address: Default::default(),
            words: Default::default(),
            left: Default::default(),
            prior: Default::default(),
            comes: Default::default(),
            first: Default::default(),
            used: Default::default(),
            granted: Default::default(),
            shift: Default::default(),
            octets: Default::default(),
            beat_count: Default::default(),
            offset: Default::default(),
            both: Default::default(),
            read: Default::default(),
            prologue: Default::default(),
            pushed: Default::default(),
            taken: Default::default(),
            asked: Default::default(),
            ended: Default::default(),
            charge: Default::default(),
            slot_shift: Constant::new((S as u64 - 3).to_bits()),
        }
    }
}

impl<const S: usize, const W: usize> Logic for Placer<S, W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, at, asking, address, words, left, prior, comes, first, used, granted);
        clock!(self, clock, queue, beats);
        self.queue.reset.next = self.reset.val();
        self.beats.reset.next = self.reset.val();
        ChanSink::<Place>::link(&mut self.place, &mut self.queue.inp);

        self.offset.next = self.at.q.val().offset;
        self.shift.next = self.offset.val().get_bits::<3>(0);
        self.octets.next = bit_cast::<17, 16>(self.at.q.val().len) + 7;
        self.beat_count.next = self.octets.val().get_bits::<14>(3);

        self.queue.out.ready.next = false;
        self.free.valid.next = false;
        self.free.data.next = self.at.q.val().slot;
        self.read.next = false;
        self.prologue.next = false;
        match self.state.q.val() {
            PlacerState::Idle => {
                self.queue.out.ready.next = !self.asking.q.val();
                if self.queue.out.valid.val() & !self.asking.q.val() {
                    self.at.d.next = self.queue.out.data.val();
                    self.state.d.next = PlacerState::Plan;
                }
            }
            PlacerState::Plan => {
                self.address.d.next = (bit_cast::<W, 8>(self.at.q.val().slot) << self.slot_shift.val())
                    | bit_cast::<W, 13>(self.offset.val().get_bits::<13>(3));
                self.left.d.next = self.beat_count.val();
                self.words.d.next = self.beat_count.val();
                self.first.d.next = self.shift.val().any();
                if self.shift.val().any() {
                    self.words.d.next = self.beat_count.val() + 1;
                }
                if self.at.q.val().len.any() {
                    self.asking.d.next = true;
                    self.state.d.next = PlacerState::Read;
                } else if self.at.q.val().free {
                    self.state.d.next = PlacerState::Free;
                } else {
                    self.state.d.next = PlacerState::Idle;
                }
            }
            PlacerState::Read => {
                // the word that is read in the first clock goes before the next and makes no beat
                self.prologue.next = self.first.q.val() & !self.comes.q.val();
                self.read.next = !self.hold.val() & !self.used.q.val().get_bit(4);
                if self.read.val() {
                    self.address.d.next = self.address.q.val() + 1;
                    self.words.d.next = self.words.q.val() - 1;
                    if self.words.q.val() == 1 {
                        self.state.d.next = PlacerState::Idle;
                        if self.at.q.val().free {
                            self.state.d.next = PlacerState::Free;
                        }
                    }
                }
            }
            PlacerState::Free => {
                self.free.valid.next = true;
                if self.free.ready.val() {
                    self.state.d.next = PlacerState::Idle;
                }
            }
            _ => {
                self.state.d.next = PlacerState::Idle;
            }
        }
        self.slot_address.next = self.address.q.val();

        // what was read becomes a beat
        self.comes.d.next = self.read.val();
        self.both.next = bit_cast::<128, 64>(self.prior.q.val()) | (bit_cast::<128, 64>(self.slot_data.val()) << 64);
        if !self.shift.val().any() {
            self.both.next = bit_cast::<128, 64>(self.slot_data.val());
        }
        self.pushed.next = self.comes.q.val() & !self.first.q.val();
        self.beats.inp.valid.next = self.pushed.val();
        self.beats.inp.data.next.data = self.both.val().get_bits::<64>(self.shift.val().index() * 8);
        self.beats.inp.data.next.last = self.left.q.val() == 1;
        self.beats.inp.data.next.error = false;
        if self.comes.q.val() {
            self.prior.d.next = self.slot_data.val();
            self.first.d.next = false;
        }
        if self.pushed.val() {
            self.left.d.next = self.left.q.val() - 1;
        }

        // the port
        self.wr_req.valid.next = self.asking.q.val();
        self.wr_req.data.next.addr = self.at.q.val().addr;
        self.wr_req.data.next.len = self.at.q.val().len;
        self.asked.next = self.asking.q.val() & self.wr_req.ready.val();
        if self.asked.val() {
            self.asking.d.next = false;
        }
        self.wr_beat.data.next = self.beats.out.data.val();
        self.wr_beat.valid.next = self.beats.out.valid.val() & self.granted.q.val().any();
        self.beats.out.ready.next = self.wr_beat.ready.val() & self.granted.q.val().any();
        self.taken.next = self.wr_beat.valid.val() & self.wr_beat.ready.val();
        self.ended.next = self.taken.val() & self.beats.out.data.val().last;
        if self.asked.val() & !self.ended.val() {
            self.granted.d.next = self.granted.q.val() + 1;
        } else if self.ended.val() & !self.asked.val() {
            self.granted.d.next = self.granted.q.val() - 1;
        }
        self.charge.next = self.read.val() & !self.prologue.val();
        if self.charge.val() & !self.taken.val() {
            self.used.d.next = self.used.q.val() + 1;
        } else if self.taken.val() & !self.charge.val() {
            self.used.d.next = self.used.q.val() - 1;
        }
        self.done.valid.next = self.wr_done.valid.val();
        self.done.error.next = self.wr_done.error.val();

        if self.reset.val() {
            self.state.d.next = PlacerState::Idle;
            self.asking.d.next = false;
            self.comes.d.next = false;
            self.used.d.next = 0.into();
            self.granted.d.next = 0.into();
        }
    }
}
