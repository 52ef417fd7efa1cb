// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetches send queue entries from host memory, up to four at a time, while `rdma::sq` does other work.
//!
//! **Interface.** `start` (only while `room`): fetch the first 96 octets at `base` + 128 * `number` for item `item` (`index` * 16 + its number). Words 4..=11 go
//! through `put` into the item store as they come, except in clocks with `hold`; the length of an SGE that the entry does not use goes there as 0, whatever the host wrote.
//! All words stay here until the entry is done with: `here` tells that the oldest entry is complete, which item it is and whether its read failed; `data` is its word `word`, two
//! clocks after `word` (the first that counts is that of the first clock with `here`); `pop` forgets it.
//!
//! **Timing.** `rd_req` is offered in the clock after `start`; a beat a clock; `here` in the clock after the last beat. It takes every beat, except in clocks with `hold`.
//! **Memory.** 64 x 64 bits of block RAM, four tags twice.
use crate::host::dma::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct SendFetch<const C4: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub room: Signal<Out, Bit>,
    pub start: Signal<In, Bit>,
    pub item: Signal<In, Bits<C4>>,
    pub base: Signal<In, Bits<64>>,
    pub number: Signal<In, Bits<16>>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub hold: Signal<In, Bit>,
    pub put: Signal<Out, Bit>,
    pub put_item: Signal<Out, Bits<C4>>,
    pub put_word: Signal<Out, Bits<3>>,
    pub put_data: Signal<Out, Bits<64>>,
    pub here: Signal<Out, Bit>,
    pub here_item: Signal<Out, Bits<C4>>,
    pub here_failed: Signal<Out, Bit>,
    pub word: Signal<In, Bits<4>>,
    pub data: Signal<Out, Bits<64>>,
    pub pop: Signal<In, Bit>,
    words: BlockRam<Bits<64>, 6>,
    /// Whose the four places are, for what arrives and for what is here.
    coming_tags: RAM<Bits<C4>, 2>,
    here_tags: RAM<Bits<C4>, 2>,
    /// Place of the next to ask for, to arrive, to forget.
    asked: DFF<Bits<2>>,
    coming: DFF<Bits<2>>,
    head: DFF<Bits<2>>,
    /// Places in use, and of these complete.
    used: DFF<Bits<3>>,
    whole: DFF<Bits<3>>,
    failed: DFF<Bits<4>>,
    request: DFF<DmaRequest>,
    offered: DFF<Bit>,
    /// Word of the entry that arrives next.
    at: DFF<Bits<4>>,
    in_line: DFF<Bit>,
    sges: DFF<Bits<8>>,
    out: DFF<Bits<64>>,
    beat: Signal<Local, DmaBeat>,
    beat_data: Signal<Local, Bits<64>>,
    taken: Signal<Local, Bit>,
    ended: Signal<Local, Bit>,
    /// SGE that word `at` is a part of.
    sge: Signal<Local, Bits<8>>,
    rest_at: Signal<Local, Bits<4>>,
    coming_next: Signal<Local, Bits<2>>,
    head_next: Signal<Local, Bits<2>>,
}

impl<const C4: usize> Logic for SendFetch<C4> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, asked, coming, head, used, whole, failed, request, offered, at, in_line, sges, out);
        self.words.read_clock.next = self.clock.val();
        self.words.write_clock.next = self.clock.val();
        self.coming_tags.read_clock.next = self.clock.val();
        self.coming_tags.write_clock.next = self.clock.val();
        self.here_tags.read_clock.next = self.clock.val();
        self.here_tags.write_clock.next = self.clock.val();

        // asking
        self.room.next = !self.used.q.val().get_bit(2) & !self.offered.q.val();
        self.coming_tags.write_address.next = self.asked.q.val();
        self.coming_tags.write_data.next = self.item.val();
        self.coming_tags.write_enable.next = self.start.val();
        self.here_tags.write_address.next = self.asked.q.val();
        self.here_tags.write_data.next = self.item.val();
        self.here_tags.write_enable.next = self.start.val();
        self.rd_req.data.next = self.request.q.val();
        self.rd_req.valid.next = self.offered.q.val();
        if self.rd_req.ready.val() {
            self.offered.d.next = false;
        }
        if self.start.val() {
            self.request.d.next.addr = self.base.val() + (bit_cast::<64, 16>(self.number.val()) << 7);
            self.request.d.next.len = 96.into();
            self.offered.d.next = true;
            self.asked.d.next = self.asked.q.val() + 1;
        }

        // arriving
        self.beat.next = self.rd_beat.data.val();
        self.beat_data.next = self.beat.val().data;
        self.rd_beat.ready.next = !self.hold.val();
        self.taken.next = self.rd_beat.valid.val() & !self.hold.val();
        self.ended.next = self.taken.val() & (self.at.q.val() == 11);
        self.words.write_address.next = (bit_cast::<6, 2>(self.coming.q.val()) << 4) | bit_cast::<6, 4>(self.at.q.val());
        self.words.write_data.next = self.beat_data.val();
        self.words.write_enable.next = self.taken.val();
        self.rest_at.next = self.at.q.val() - 4;
        self.sge.next = bit_cast::<8, 3>(self.rest_at.val().get_bits::<3>(1));
        self.put.next = self.taken.val() & (self.at.q.val() >= 4);
        self.put_item.next = self.coming_tags.read_data.val();
        self.put_word.next = self.rest_at.val().get_bits::<3>(0);
        self.put_data.next = self.beat_data.val();
        if !self.in_line.q.val() & !self.rest_at.val().get_bit(0) & (self.sge.val() >= self.sges.q.val()) {
            self.put_data.next = 0.into();
        }
        self.coming_next.next = self.coming.q.val();
        if self.taken.val() {
            self.at.d.next = self.at.q.val() + 1;
            if self.at.q.val() == 0 {
                self.in_line.d.next = self.beat_data.val().get_bit(10);
                self.sges.d.next = self.beat_data.val().get_bits::<8>(16);
            }
        }
        if self.ended.val() {
            self.at.d.next = 0.into();
            self.coming_next.next = self.coming.q.val() + 1;
            self.failed.d.next = self.failed.q.val().replace_bit(self.coming.q.val().index(), self.beat.val().error);
        }
        self.coming.d.next = self.coming_next.val();
        self.coming_tags.read_address.next = self.coming_next.val();

        // what is here
        self.head_next.next = self.head.q.val();
        if self.pop.val() {
            self.head_next.next = self.head.q.val() + 1;
        }
        self.head.d.next = self.head_next.val();
        self.here_tags.read_address.next = self.head_next.val();
        self.here.next = self.whole.q.val() != 0;
        self.here_item.next = self.here_tags.read_data.val();
        self.here_failed.next = self.failed.q.val().get_bit(self.head.q.val().index());
        self.words.read_address.next = (bit_cast::<6, 2>(self.head.q.val()) << 4) | bit_cast::<6, 4>(self.word.val());
        self.out.d.next = self.words.read_data.val();
        self.data.next = self.out.q.val();
        if self.start.val() & !self.pop.val() {
            self.used.d.next = self.used.q.val() + 1;
        } else if self.pop.val() & !self.start.val() {
            self.used.d.next = self.used.q.val() - 1;
        }
        if self.ended.val() & !self.pop.val() {
            self.whole.d.next = self.whole.q.val() + 1;
        } else if self.pop.val() & !self.ended.val() {
            self.whole.d.next = self.whole.q.val() - 1;
        }

        if self.reset.val() {
            self.asked.d.next = 0.into();
            self.coming.d.next = 0.into();
            self.head.d.next = 0.into();
            self.used.d.next = 0.into();
            self.whole.d.next = 0.into();
            self.offered.d.next = false;
            self.at.d.next = 0.into();
        }
    }
}
