// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes FPDUs, or parts of them, as often as TCP needs them: from an item of the item store and host memory.
//!
//! **Interface.** `fpdu` names an FPDU and the part that is wanted; `out` gives exactly these octets, in the order of asking. The next `fpdu` is taken
//! while the one before is still made. `item_address` = index, item, word reads the item store, `item_data` is there in the clock after. `ask` and
//! `answer`: each piece of host memory is asked for of `rdma::regions`, one at a time, and then read by `rd_req`, `rd_beat`. `quiet`: nothing that was
//! allowed is still to be read; low from the clock after an answer `Ok`, and high again without another answer. `fault`: the index of an FPDU that could
//! not be made because a check or a read failed, once each time. `busy` from the clock after a `fpdu` was taken until all are made: then nothing is read
//! any more. An item must stay in the store until then.
//!
//! **Rules.** ULPDU_Length, DDP and RDMAP header from the item, `offset` and `len` (MPA-25, DDP-5, DDP-6, DDP-17); payload: `len` octets from octet
//! `offset` of the message, which is the octets of the SGEs one behind the other, or the item's inline words (then `offset` is 0: 64 octets are never
//! cut); PAD, CRC, markers: [`super::framer`], [`super::seal`]. Each time the whole FPDU is made, and what is not wanted is left out. Only octets that
//! are needed are asked for and read. If a check fails, or the SGEs are too short, nothing more is read for this FPDU and the rest is zeros; if a read
//! fails it is what the host gave. Either way the last beat has `error`, and the segment must not be sent. `len` is at most 8 * 2^B.
//!
//! **What may wait.** For `out`, and for `fault`, which wants a queue behind it. `rd_beat` never: a read is asked for when there is room for all of it.
//!
//! **How.** This block walks through the items and is ahead of the others: [`super::gather`] packs what comes to beats, `framer` puts the FPDU together,
//! `seal` adds the CRC and cuts.
//! **States.** `Idle`; `Len` and `Addr` of an SGE arrive; `Head`, `Size` of the item; later SGEs: `Piece`, meanwhile what they are needed for is
//! computed. `Check`: `ask`, or the next SGE; `Answer`; `Read`: `rd_req`; `Fail`: the rest is zeros; `Inline`: waits for what is being read, then
//! `Words`.
//! **Timing.** `ask` 5 clocks after `fpdu`, `rd_req` one after `answer`; `out` begins 10 clocks after `fpdu`, its first octets of payload 6 after they
//! came. Then a beat a clock. From one FPDU to the next, with an answer in the clock after `ask`: beats + 2, or 8 if that is more; each SGE more takes 6
//! of the time ahead. So FPDUs of 8, 64 and 1446 octets in one SGE take 8, 13 and 186 clocks each; alone, with a host that answers at once, the last beat
//! is there after 14, 21 and 194. A host that answers late changes nothing in a row of them as long as 2^B beats bridge it.
//! **Memory.** 2^B beats from the host (B = 9: 2 block RAMs). `A` = C + 8, `BP1` = B + 1.
use super::framer::{FpduCut, Framer, FramerBeat};
use super::gather::{Gather, GatherBeat};
use super::seal::Seal;
use crate::host::dma::*;
use crate::rdma::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum MpaTxState {
    Idle,
    Len,
    Addr,
    Head,
    Size,
    Piece,
    Check,
    Answer,
    Read,
    Fail,
    Inline,
    Words,
}

/// `C`: log2 of connections.
#[derive(LogicBlock, Default)]
pub struct MpaTx<const C: usize, const A: usize, const B: usize, const BP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub fpdu: ChanSink<FpduOut>,
    pub item_address: Signal<Out, Bits<A>>,
    pub item_data: Signal<In, Bits<64>>,
    pub ask: ChanSrc<RegionAsk>,
    pub answer: ChanSink<RegionAnswer>,
    pub quiet: Signal<Out, Bit>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub out: StreamSrc,
    pub fault: ChanSrc<Bits<16>>,
    pub busy: Signal<Out, Bit>,
    gather: Gather<B, BP1>,
    framer: Framer,
    seal: Seal,
    state: DFF<MpaTxState>,
    /// FPDUs that are being made.
    count: DFF<Bits<2>>,
    at_hand: DFF<FpduOut>,
    opcode: DFF<Bits<8>>,
    in_line: DFF<Bit>,
    remote: DFF<Bit>,
    pd: DFF<Bits<16>>,
    stag: DFF<Bits<32>>,
    qpn: DFF<Bits<16>>,
    markers: DFF<Bit>,
    crc: DFF<Bit>,
    target: DFF<Bits<64>>,
    /// The item's own words are still to come; `framer` has not taken the job yet.
    first: DFF<Bit>,
    pending: DFF<Bit>,
    /// Next word of the item.
    word: DFF<Bits<4>>,
    /// Octets before those wanted, from the SGE at hand on; octets wanted from there on.
    skip: DFF<Bits<32>>,
    want: DFF<Bits<16>>,
    // the SGE at hand
    sge_len: DFF<Bits<32>>,
    sge_stag: DFF<Bits<32>>,
    sge_addr: DFF<Bits<64>>,
    /// Octets in it behind `skip`; negative: none.
    behind: DFF<Bits<33>>,
    reaches: DFF<Bit>,
    /// Its piece: place and octets; all that is wanted.
    to: DFF<Bits<64>>,
    len: DFF<Bits<16>>,
    last: DFF<Bit>,
    beats: DFF<Bits<BP1>>,
    addr: DFF<Bits<64>>,
    asked: Signal<Local, FpduOut>,
    asked_ref: Signal<Local, FpduRef>,
    hand_ref: Signal<Local, FpduRef>,
    index: Signal<Local, Bits<16>>,
    item: Signal<Local, Bits<4>>,
    read_word: Signal<Local, Bits<4>>,
    data: Signal<Local, Bits<64>>,
    offset: Signal<Local, Bits<64>>,
    is_tagged: Signal<Local, Bit>,
    place: Signal<Local, Bits<64>>,
    part: Signal<Local, FpduCut>,
    phase: Signal<Local, Bits<9>>,
    part_skip: Signal<Local, Bits<16>>,
    behind_now: Signal<Local, Bits<33>>,
    plenty: Signal<Local, Bit>,
    rounded: Signal<Local, Bits<17>>,
    next_sge: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    reply: Signal<Local, RegionAnswer>,
}

impl<const C: usize, const A: usize, const B: usize, const BP1: usize> Logic for MpaTx<C, A, B, BP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, count, at_hand, opcode, in_line, remote, pd, stag, qpn, markers, crc, target, first, pending, word);
        dff_setup!(self, clock, skip, want, sge_len, sge_stag, sge_addr, behind, reaches, to, len, last, beats, addr);
        clock!(self, clock, gather, framer, seal);
        self.gather.reset.next = self.reset.val();
        self.framer.reset.next = self.reset.val();
        self.seal.reset.next = self.reset.val();

        ChanSrc::<GatherBeat>::join(&mut self.gather.out, &mut self.framer.payload);
        ChanSrc::<FramerBeat>::join(&mut self.framer.out, &mut self.seal.inp);
        ChanSink::<DmaBeat>::link(&mut self.rd_beat, &mut self.gather.rd_beat);
        StreamSrc::link(&mut self.out, &mut self.seal.out);
        ChanSrc::<Bits<16>>::link(&mut self.fault, &mut self.seal.fault);
        self.seal.cut.next = self.framer.cut.val();
        self.quiet.next = self.gather.quiet.val() & (self.state.q.val() != MpaTxState::Read);

        self.asked.next = self.fpdu.data.val();
        self.asked_ref.next = self.asked.val().fpdu;
        self.hand_ref.next = self.at_hand.q.val().fpdu;
        self.data.next = self.item_data.val();

        // the job: TO of this FPDU, or QN, MSN and MO
        self.offset.next = bit_cast::<64, 32>(self.hand_ref.val().offset);
        self.is_tagged.next = (self.opcode.q.val() == 0) | (self.opcode.q.val() == 2);
        self.place.next = (self.target.q.val() << 32) | (self.target.q.val() >> 32);
        if self.is_tagged.val() {
            self.place.next = self.target.q.val() + self.offset.val();
        }
        self.phase.next = self.hand_ref.val().phase;
        self.part_skip.next = self.at_hand.q.val().skip;
        self.part.next.index = self.at_hand.q.val().index;
        self.part.next.skip = self.part_skip.val().get_bits::<13>(3);
        self.part.next.take = self.at_hand.q.val().take;
        self.part.next.crc = self.crc.q.val();
        self.framer.job.data.next.cut = self.part.val();
        self.framer.job.data.next.tagged = self.is_tagged.val();
        self.framer.job.data.next.last = self.hand_ref.val().last;
        self.framer.job.data.next.opcode = self.opcode.q.val().get_bits::<4>(0);
        self.framer.job.data.next.stag = self.stag.q.val();
        self.framer.job.data.next.second = self.place.val().get_bits::<32>(32);
        self.framer.job.data.next.third = self.place.val().get_bits::<32>(0);
        self.framer.job.data.next.mo = self.hand_ref.val().offset;
        self.framer.job.data.next.len = self.hand_ref.val().len;
        self.framer.job.data.next.markers = self.markers.q.val();
        self.framer.job.data.next.place = self.phase.val().get_bits::<7>(2);
        self.framer.job.valid.next = self.pending.q.val();
        if self.framer.job.ready.val() {
            self.pending.d.next = false;
        }

        // what of the SGE at hand is wanted; the states leave the clocks for it
        self.behind_now.next = self.behind.q.val();
        self.behind.d.next = bit_cast::<33, 32>(self.sge_len.q.val()) - bit_cast::<33, 32>(self.skip.q.val());
        self.to.d.next = self.sge_addr.q.val() + bit_cast::<64, 32>(self.skip.q.val());
        self.reaches.d.next = !self.behind_now.val().get_bit(32) & (self.behind_now.val() != 0);
        self.plenty.next = self.in_line.q.val() | (bit_cast::<33, 16>(self.want.q.val()) <= self.behind_now.val());
        self.last.d.next = self.plenty.val();
        self.len.d.next = self.behind_now.val().get_bits::<16>(0);
        if self.plenty.val() {
            self.len.d.next = self.want.q.val();
        }
        self.rounded.next = bit_cast::<17, 16>(self.len.q.val()) + 7;
        self.beats.d.next = bit_cast::<BP1, 14>(self.rounded.val().get_bits::<14>(3));

        self.ask.valid.next = false;
        self.ask.data.next.op = RegionOp::Check;
        self.ask.data.next.stag = self.sge_stag.q.val();
        self.ask.data.next.to = self.to.q.val();
        self.ask.data.next.len = bit_cast::<32, 16>(self.len.q.val());
        self.ask.data.next.pd = self.pd.q.val();
        self.ask.data.next.qpn = self.qpn.q.val();
        self.ask.data.next.need = 0.into();
        if self.remote.q.val() {
            // work::access::REMOTE_READ
            self.ask.data.next.need = 4.into();
        }
        self.answer.ready.next = false;
        self.reply.next = self.answer.data.val();
        self.rd_req.valid.next = false;
        self.rd_req.data.next.addr = self.addr.q.val();
        self.rd_req.data.next.len = self.len.q.val();
        self.gather.piece.next.len = self.len.q.val();
        self.gather.piece.next.zero = false;
        self.gather.piece.next.last = self.last.q.val();
        self.gather.beats.next = self.beats.q.val();
        self.gather.push.next = false;
        self.gather.word.next = self.data.val();
        self.gather.put.next = false;

        self.fpdu.ready.next = false;
        self.taken.next = false;
        self.index.next = self.at_hand.q.val().index;
        self.item.next = self.hand_ref.val().item;
        self.read_word.next = self.word.q.val();
        self.next_sge.next = false;

        match self.state.q.val() {
            MpaTxState::Idle => {
                self.index.next = self.asked.val().index;
                self.item.next = self.asked_ref.val().item;
                self.read_word.next = 4.into();
                self.word.d.next = 5.into();
                self.first.d.next = true;
                if !self.pending.q.val() {
                    self.fpdu.ready.next = true;
                    self.at_hand.d.next = self.asked.val();
                    self.skip.d.next = self.asked_ref.val().offset;
                    self.want.d.next = self.asked_ref.val().len;
                    if self.fpdu.valid.val() {
                        self.taken.next = true;
                        self.state.d.next = MpaTxState::Len;
                    }
                }
            }
            MpaTxState::Len => {
                self.sge_len.d.next = self.data.val().get_bits::<32>(0);
                self.sge_stag.d.next = self.data.val().get_bits::<32>(32);
                self.word.d.next = self.word.q.val() + 1;
                self.state.d.next = MpaTxState::Addr;
            }
            MpaTxState::Addr => {
                self.sge_addr.d.next = self.data.val();
                self.read_word.next = 0.into();
                self.state.d.next = MpaTxState::Piece;
                if self.first.q.val() {
                    self.state.d.next = MpaTxState::Head;
                }
            }
            MpaTxState::Head => {
                // fields as in `ItemHead`
                self.opcode.d.next = self.data.val().get_bits::<8>(0);
                self.in_line.d.next = self.data.val().get_bit(8);
                self.remote.d.next = self.data.val().get_bit(9);
                self.pd.d.next = self.data.val().get_bits::<16>(16);
                self.stag.d.next = self.data.val().get_bits::<32>(32);
                self.read_word.next = 2.into();
                self.state.d.next = MpaTxState::Size;
            }
            MpaTxState::Size => {
                // fields as in `ItemSize`
                self.qpn.d.next = self.data.val().get_bits::<16>(32);
                self.markers.d.next = self.data.val().get_bit(48);
                self.crc.d.next = self.data.val().get_bit(49);
                self.read_word.next = 1.into();
                self.state.d.next = MpaTxState::Check;
            }
            MpaTxState::Piece => {
                self.state.d.next = MpaTxState::Check;
            }
            MpaTxState::Check => {
                self.first.d.next = false;
                if self.first.q.val() {
                    self.target.d.next = self.data.val();
                    self.pending.d.next = true;
                }
                if self.want.q.val() == 0 {
                    self.state.d.next = MpaTxState::Idle;
                } else if self.in_line.q.val() {
                    self.state.d.next = MpaTxState::Inline;
                } else if self.reaches.q.val() {
                    self.ask.valid.next = true;
                    if self.ask.ready.val() {
                        self.state.d.next = MpaTxState::Answer;
                    }
                } else {
                    self.skip.d.next = self.skip.q.val() - self.sge_len.q.val();
                    self.next_sge.next = true;
                }
            }
            MpaTxState::Answer => {
                self.answer.ready.next = true;
                self.addr.d.next = self.reply.val().addr;
                if self.answer.valid.val() {
                    self.state.d.next = MpaTxState::Fail;
                    if self.reply.val().status == RegionStatus::Ok {
                        self.state.d.next = MpaTxState::Read;
                    }
                }
            }
            MpaTxState::Read => {
                self.rd_req.valid.next = self.gather.room.val();
                if self.gather.room.val() & self.rd_req.ready.val() {
                    self.gather.push.next = true;
                    self.want.d.next = self.want.q.val() - self.len.q.val();
                    self.skip.d.next = 0.into();
                    self.next_sge.next = !self.last.q.val();
                    self.state.d.next = MpaTxState::Idle;
                }
            }
            MpaTxState::Fail => {
                self.gather.piece.next.len = self.want.q.val();
                self.gather.piece.next.zero = true;
                self.gather.piece.next.last = true;
                if self.gather.room.val() {
                    self.gather.push.next = true;
                    self.state.d.next = MpaTxState::Idle;
                }
            }
            MpaTxState::Inline => {
                self.read_word.next = 4.into();
                self.word.d.next = 5.into();
                if self.gather.room.val() & self.gather.quiet.val() {
                    self.gather.push.next = true;
                    self.state.d.next = MpaTxState::Words;
                }
            }
            MpaTxState::Words => {
                self.gather.put.next = true;
                self.word.d.next = self.word.q.val() + 1;
                self.want.d.next = self.want.q.val() - 8;
                if self.want.q.val() <= 8 {
                    self.state.d.next = MpaTxState::Idle;
                }
            }
            _ => {
                self.state.d.next = MpaTxState::Idle;
            }
        }
        if self.next_sge.val() {
            self.word.d.next = self.word.q.val() + 1;
            self.state.d.next = MpaTxState::Len;
            if self.word.q.val() == 12 {
                self.state.d.next = MpaTxState::Fail;
            }
        }
        self.item_address.next = (bit_cast::<A, C>(self.index.val().get_bits::<C>(0)) << 8)
            | (bit_cast::<A, 4>(self.item.val()) << 4)
            | bit_cast::<A, 4>(self.read_word.val());

        self.busy.next = self.count.q.val() != 0;
        if self.taken.val() & !self.seal.done.val() {
            self.count.d.next = self.count.q.val() + 1;
        }
        if !self.taken.val() & self.seal.done.val() {
            self.count.d.next = self.count.q.val() - 1;
        }

        if self.reset.val() {
            self.state.d.next = MpaTxState::Idle;
            self.count.d.next = 0.into();
            self.pending.d.next = false;
        }
    }
}
