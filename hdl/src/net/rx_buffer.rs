// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive buffer: frames from the wire, which cannot wait, until the router takes them; whole good frames or nothing.
//!
//! Interface: `beat`/`valid` from the parser, without ready, one a clock; in the last beat of a frame `beat.error` = forget it, else
//! `meta` describes it. Out: one `meta` a frame, then its beats on `out`, in the order of arrival. The reader takes the meta first
//! and then beats up to `last`; metas and beats may also run ahead of each other.
//!
//! States (write side): beats go to `wr`; a good last beat moves `committed` up to it, a bad one takes `wr` back. When the RAM is full
//! inside a frame, `spill` drops the rest of it and the frame (`cnt_eth_in_overflow`); a good frame that finds the meta queue full is
//! taken back as well (`cnt_rx_meta_dropped`). Only committed beats can be read.
//!
//! Timing: one beat a clock in and out; 5 clocks from the good last beat to the first beat out; one meta every 4 clocks. A good frame has two beats or more.
//! Memory: 2^N beats of 68 bits (N = 11: 8 block RAMs) and 2^M metas of 231 bits in halves (up to M = 8: 4 block RAMs), outputs registered,
//! and 8 beats of distributed RAM behind them. No address is read in the clock in which it is written. `NP1` = N + 1, `MP1` = M + 1.
use super::types::RxMeta;
use crate::stream::*;
use rust_hdl::prelude::*;

/// A beat as it is stored: `last`, and in a last beat the number of octets, 0 meaning 8.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StoredBeat {
    pub data: Bits<64>,
    pub octets: Bits<3>,
    pub last: Bit,
}

#[derive(LogicBlock)]
pub struct RxBuffer<const N: usize, const NP1: usize, const M: usize, const MP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub beat: Signal<In, Beat>,
    pub valid: Signal<In, Bit>,
    pub meta_in: Signal<In, RxMeta>,
    pub meta: ChanSrc<RxMeta>,
    pub out: StreamSrc,
    pub cnt_eth_in_overflow: Signal<Out, Bit>,
    pub cnt_rx_meta_dropped: Signal<Out, Bit>,
    ram: BlockRam<StoredBeat, N>,
    metas: HalvedRam<RxMeta, M>,
    /// Next place to write, end of what may be read, next place to read; free-running modulo 2^NP1.
    wr: DFF<Bits<NP1>>,
    committed: DFF<Bits<NP1>>,
    rd: DFF<Bits<NP1>>,
    spill: DFF<Bit>,
    meta_wr: DFF<Bits<MP1>>,
    meta_rd: DFF<Bits<MP1>>,
    /// The first half of a meta, its second half is at the output of `metas` / all of it is in `meta_reg`.
    meta_read: DFF<Bit>,
    meta_second: DFF<Bit>,
    meta_full: DFF<Bit>,
    meta_reg: DFF<RxMeta>,
    /// A read of `ram` is at its output / in `word`.
    read1: DFF<Bit>,
    read2: DFF<Bit>,
    word: DFF<StoredBeat>,
    /// Beats read and not yet taken from `queue`: at most 8, its depth.
    ahead: DFF<Bits<4>>,
    queue: ChanFifo<StoredBeat, 3, 4>,
    fill: Signal<Local, Bits<NP1>>,
    meta_fill: Signal<Local, Bits<MP1>>,
    fits: Signal<Local, Bit>,
    meta_fits: Signal<Local, Bit>,
    wr_next: Signal<Local, Bits<NP1>>,
    good_end: Signal<Local, Bit>,
    keep: Signal<Local, Bits<8>>,
    issue: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    depth: Constant<Bits<NP1>>,
    meta_depth: Constant<Bits<MP1>>,
    keeps: [Constant<Bits<8>>; 8],
    counts: [Constant<Bits<3>>; 8],
}

impl<const N: usize, const NP1: usize, const M: usize, const MP1: usize> Default for RxBuffer<N, NP1, M, MP1> {
    fn default() -> Self {
        assert!(N + 1 == NP1 && M + 1 == MP1);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            beat: Default::default(),
            valid: Default::default(),
            meta_in: Default::default(),
            meta: Default::default(),
            out: Default::default(),
            cnt_eth_in_overflow: Default::default(),
            cnt_rx_meta_dropped: Default::default(),
            ram: Default::default(),
            metas: Default::default(),
            wr: Default::default(),
            committed: Default::default(),
            rd: Default::default(),
            spill: Default::default(),
            meta_wr: Default::default(),
            meta_rd: Default::default(),
            meta_read: Default::default(),
            meta_second: Default::default(),
            meta_full: Default::default(),
            meta_reg: Default::default(),
            read1: Default::default(),
            read2: Default::default(),
            word: Default::default(),
            ahead: Default::default(),
            queue: Default::default(),
            fill: Default::default(),
            meta_fill: Default::default(),
            fits: Default::default(),
            meta_fits: Default::default(),
            wr_next: Default::default(),
            good_end: Default::default(),
            keep: Default::default(),
            issue: Default::default(),
            taken: Default::default(),
            depth: Constant::new((1u64 << N).to_bits()),
            meta_depth: Constant::new((1u64 << M).to_bits()),
            keeps: std::array::from_fn(|n| Constant::new(if n == 0 { 0xffu64 } else { (1 << n) - 1 }.to_bits())),
            counts: std::array::from_fn(|n| Constant::new((n as u64).to_bits())),
        }
    }
}

impl<const N: usize, const NP1: usize, const M: usize, const MP1: usize> Logic for RxBuffer<N, NP1, M, MP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            wr,
            committed,
            rd,
            spill,
            meta_wr,
            meta_rd,
            meta_read,
            meta_second,
            meta_full,
            meta_reg,
            read1,
            read2,
            word,
            ahead
        );
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        clock!(self, clock, queue, metas);
        self.queue.reset.next = self.reset.val();

        // write side
        self.fill.next = self.wr.q.val() - self.rd.q.val();
        self.fits.next = (self.fill.val() != self.depth.val()) & !self.spill.q.val();
        self.meta_fill.next = self.meta_wr.q.val() - self.meta_rd.q.val();
        self.meta_fits.next = self.meta_fill.val() != self.meta_depth.val();
        self.wr_next.next = self.wr.q.val() + 1;
        self.good_end.next = self.valid.val() & self.beat.val().last & !self.beat.val().error;
        self.cnt_eth_in_overflow.next = self.good_end.val() & !self.fits.val();
        self.cnt_rx_meta_dropped.next = self.good_end.val() & self.fits.val() & !self.meta_fits.val();
        self.ram.write_address.next = self.wr.q.val().get_bits::<N>(0);
        self.ram.write_enable.next = self.valid.val() & self.fits.val();
        self.ram.write_data.next.data = self.beat.val().data;
        self.ram.write_data.next.last = self.beat.val().last;
        self.ram.write_data.next.octets = 0.into();
        self.keep.next = self.beat.val().keep;
        for i in 1..8 {
            if self.keep.val() == self.keeps[i].val() {
                self.ram.write_data.next.octets = self.counts[i].val();
            }
        }
        self.metas.write_index.next = self.meta_wr.q.val().get_bits::<M>(0);
        self.metas.write_value.next = self.meta_in.val();
        self.metas.write.next = false;
        if self.valid.val() {
            if self.fits.val() {
                self.wr.d.next = self.wr_next.val();
            } else {
                self.spill.d.next = true;
            }
            if self.beat.val().last {
                self.spill.d.next = false;
                if self.good_end.val() & self.fits.val() & self.meta_fits.val() {
                    self.committed.d.next = self.wr_next.val();
                    self.metas.write.next = true;
                    self.meta_wr.d.next = self.meta_wr.q.val() + 1;
                } else {
                    self.wr.d.next = self.committed.q.val();
                }
            }
        }

        // metas: address, RAM, register, a half after the other
        self.metas.read_index.next = self.meta_rd.q.val().get_bits::<M>(0);
        self.metas.read_half.next = self.meta_read.q.val();
        self.metas.value.next = self.meta_reg.q.val();
        self.meta.data.next = self.meta_reg.q.val();
        self.meta.valid.next = self.meta_full.q.val();
        if self.meta_full.q.val() & self.meta.ready.val() {
            self.meta_full.d.next = false;
        }
        self.meta_read.d.next = false;
        self.meta_second.d.next = self.meta_read.q.val();
        if self.meta_read.q.val() | self.meta_second.q.val() {
            self.meta_reg.d.next = self.metas.turned.val();
        }
        if self.meta_second.q.val() {
            self.meta_full.d.next = true;
            self.meta_rd.d.next = self.meta_rd.q.val() + 1;
        } else if !self.meta_read.q.val()
            & (self.meta_rd.q.val() != self.meta_wr.q.val())
            & (!self.meta_full.q.val() | self.meta.ready.val())
        {
            self.meta_read.d.next = true;
        }

        // beats: address, RAM, register, queue
        self.ram.read_address.next = self.rd.q.val().get_bits::<N>(0);
        self.taken.next = self.queue.out.valid.val() & self.out.ready.val();
        self.issue.next = (self.rd.q.val() != self.committed.q.val()) & !self.ahead.q.val().get_bit(3);
        if self.issue.val() {
            self.rd.d.next = self.rd.q.val() + 1;
        }
        if self.issue.val() & !self.taken.val() {
            self.ahead.d.next = self.ahead.q.val() + 1;
        }
        if !self.issue.val() & self.taken.val() {
            self.ahead.d.next = self.ahead.q.val() - 1;
        }
        self.read1.d.next = self.issue.val();
        self.read2.d.next = self.read1.q.val();
        self.word.d.next = self.ram.read_data.val();
        self.queue.inp.data.next = self.word.q.val();
        self.queue.inp.valid.next = self.read2.q.val();
        self.queue.out.ready.next = self.out.ready.val();
        self.out.valid.next = self.queue.out.valid.val();
        self.out.beat.next.data = self.queue.out.data.val().data;
        self.out.beat.next.last = self.queue.out.data.val().last;
        self.out.beat.next.error = false;
        self.out.beat.next.keep = 0xff.into();
        for i in 1..8 {
            if self.queue.out.data.val().octets.index() == i {
                self.out.beat.next.keep = self.keeps[i].val();
            }
        }

        if self.reset.val() {
            self.wr.d.next = 0.into();
            self.committed.d.next = 0.into();
            self.rd.d.next = 0.into();
            self.spill.d.next = false;
            self.meta_wr.d.next = 0.into();
            self.meta_rd.d.next = 0.into();
            self.meta_read.d.next = false;
            self.meta_second.d.next = false;
            self.meta_full.d.next = false;
            self.read1.d.next = false;
            self.read2.d.next = false;
            self.ahead.d.next = 0.into();
        }
    }
}
