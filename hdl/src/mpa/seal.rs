// SPDX-License-Identifier: MIT OR Apache-2.0
//! Seals an FPDU with its CRC (MPA-21, MPA-22), and gives what is wanted of it.
//!
//! **Interface.** `inp` brings an FPDU as `mpa::framer` makes it, `cut` says what is wanted of it. `out` has exactly `take` octets from beat `skip` on;
//! `error` with the last if something of the FPDU could not be read. Before that, `fault` has told the index. The last wanted beat waits until the FPDU
//! has come to its end, because only then is it known what could be read. `done` for one clock when that beat is taken, or when nothing of the FPDU is
//! wanted: then nothing is left of it.
//!
//! **Rules.** The CRC is over all words before it, markers included. Without `crc` the field is 0.
//! **States.** `Idle` for the first beat of an FPDU; `Run`: a beat goes through the CRC into the register of `out`, or nowhere if it is not wanted;
//! `Close`: `fault`, then the last beat.
//! **Waiting.** For `out`, and for `fault`, which wants a queue behind it. **Timing.** A beat a clock, 1 clock to `out`; 2 clocks between two FPDUs.
//! **Memory:** registers.
use super::crc32c::Crc32c;
use super::framer::{FpduCut, FramerBeat};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SealState {
    Idle,
    Run,
    Close,
}

#[derive(LogicBlock)]
pub struct Seal {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub inp: ChanSink<FramerBeat>,
    pub cut: Signal<In, FpduCut>,
    pub out: StreamSrc,
    pub fault: ChanSrc<Bits<16>>,
    pub done: Signal<Out, Bit>,
    state: DFF<SealState>,
    crc32c: Crc32c,
    crc: DFF<Bits<32>>,
    with_crc: DFF<Bit>,
    index: DFF<Bits<16>>,
    /// Beats to leave out, octets still wanted behind them.
    skip: DFF<Bits<13>>,
    take: DFF<Bits<16>>,
    failed: DFF<Bit>,
    told: DFF<Bit>,
    data: DFF<Bits<64>>,
    keep: DFF<Bits<8>>,
    /// There is a beat for `out`; it is the last.
    held: DFF<Bit>,
    final_beat: DFF<Bit>,
    free: Signal<Local, Bit>,
    wanted: Signal<Local, Bit>,
    ends: Signal<Local, Bit>,
    ready: Signal<Local, Bit>,
    field: Signal<Local, Bits<32>>,
    word: Signal<Local, Bits<64>>,
    low: Signal<Local, Bits<32>>,
    high: Signal<Local, Bits<32>>,
    unsure: Signal<Local, Bit>,
    ones: Constant<Bits<32>>,
    /// `keep` of 0 (which stands for 8) to 7 octets.
    keeps: [Constant<Bits<8>>; 8],
}

impl Default for Seal {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            inp: Default::default(),
            cut: Default::default(),
            out: Default::default(),
            fault: Default::default(),
            done: Default::default(),
            state: Default::default(),
            crc32c: Default::default(),
            crc: Default::default(),
            with_crc: Default::default(),
            index: Default::default(),
            skip: Default::default(),
            take: Default::default(),
            failed: Default::default(),
            told: Default::default(),
            data: Default::default(),
            keep: Default::default(),
            held: Default::default(),
            final_beat: Default::default(),
            free: Default::default(),
            wanted: Default::default(),
            ends: Default::default(),
            ready: Default::default(),
            field: Default::default(),
            word: Default::default(),
            low: Default::default(),
            high: Default::default(),
            unsure: Default::default(),
            ones: Constant::new(u64::from(u32::MAX).to_bits()),
            keeps: std::array::from_fn(|i| Constant::new(if i == 0 { 0xff } else { (1u64 << i) - 1 }.to_bits())),
        }
    }
}

impl Logic for Seal {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, crc, with_crc, index, skip, take, failed, told, data, keep, held, final_beat);

        // the last word of the last beat is the CRC of all before it
        self.crc32c.crc.next = self.crc.q.val();
        self.crc32c.data.next = self.inp.data.val().data;
        self.crc32c.half.next = self.inp.data.val().last;
        self.field.next = self.crc.q.val() ^ self.ones.val();
        if self.inp.data.val().full {
            self.field.next = self.crc32c.out.val() ^ self.ones.val();
        }
        if !self.with_crc.q.val() {
            self.field.next = 0.into();
        }
        self.word.next = self.inp.data.val().data;
        self.low.next = self.word.val().get_bits::<32>(0);
        self.high.next = self.word.val().get_bits::<32>(32);
        if self.inp.data.val().last {
            self.high.next = self.field.val();
            if !self.inp.data.val().full {
                self.low.next = self.field.val();
            }
        }

        self.unsure.next = self.failed.q.val() & !self.told.q.val();
        self.out.beat.next.data = self.data.q.val();
        self.out.beat.next.keep = self.keep.q.val();
        self.out.beat.next.last = self.final_beat.q.val();
        self.out.beat.next.error = self.failed.q.val();
        self.out.valid.next = false;
        self.fault.data.next = self.index.q.val();
        self.fault.valid.next = false;
        self.done.next = false;
        self.ready.next = false;
        self.ends.next = self.take.q.val() <= 8;
        self.wanted.next = (self.skip.q.val() == 0) & (self.take.q.val() != 0);
        self.free.next = !self.held.q.val() | (self.out.ready.val() & !self.final_beat.q.val());

        match self.state.q.val() {
            SealState::Idle => {
                self.crc.d.next = self.ones.val();
                self.with_crc.d.next = self.cut.val().crc;
                self.index.d.next = self.cut.val().index;
                self.skip.d.next = self.cut.val().skip;
                self.take.d.next = self.cut.val().take;
                self.failed.d.next = false;
                self.told.d.next = false;
                self.held.d.next = false;
                self.final_beat.d.next = false;
                if self.inp.valid.val() {
                    self.state.d.next = SealState::Run;
                }
            }
            SealState::Run => {
                self.out.valid.next = self.held.q.val() & !self.final_beat.q.val();
                if self.free.val() {
                    self.held.d.next = false;
                }
                self.ready.next = self.free.val() | !self.wanted.val();
                if self.inp.valid.val() & self.ready.val() {
                    self.crc.d.next = self.crc32c.out.val();
                    if self.skip.q.val() != 0 {
                        self.skip.d.next = self.skip.q.val() - 1;
                    }
                    if self.wanted.val() {
                        self.data.d.next = (bit_cast::<64, 32>(self.high.val()) << 32) | bit_cast::<64, 32>(self.low.val());
                        self.held.d.next = true;
                        self.final_beat.d.next = self.ends.val();
                        self.keep.d.next = 0xff.into();
                        self.take.d.next = self.take.q.val() - 8;
                        if self.ends.val() {
                            self.take.d.next = 0.into();
                            for i in 0..8 {
                                if self.take.q.val().get_bits::<3>(0).index() == i {
                                    self.keep.d.next = self.keeps[i].val();
                                }
                            }
                        }
                    }
                    if self.inp.data.val().last {
                        self.failed.d.next = self.inp.data.val().failed;
                        self.state.d.next = SealState::Close;
                    }
                }
            }
            SealState::Close => {
                self.fault.valid.next = self.unsure.val();
                if self.fault.ready.val() {
                    self.told.d.next = true;
                }
                self.out.beat.next.last = true;
                self.out.valid.next = self.held.q.val() & !self.unsure.val();
                if (self.out.ready.val() | !self.held.q.val()) & !self.unsure.val() {
                    self.done.next = true;
                    self.state.d.next = SealState::Idle;
                }
            }
            _ => {
                self.state.d.next = SealState::Idle;
            }
        }
        self.inp.ready.next = self.ready.val();

        if self.reset.val() {
            self.state.d.next = SealState::Idle;
        }
    }
}
