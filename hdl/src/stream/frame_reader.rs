// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads one frame out of a RAM of 2^A words of 64 bits and offers it as a stream.
//!
//! **Interface.** `start` (only while `busy` is low) with the frame's first word `base` and its length `len` in octets (not 0);
//! `read_address` and `read_data` belong to a RAM with one clock from address to data. `index` is the number of the beat that `out`
//! shows, saturating at 2. `busy` falls with the last beat taken. Addresses wrap modulo 2^A. In the last beat, octets outside `keep` are
//! what the RAM holds.
//!
//! **Timing.** First beat 2 clocks after `start`, then one a clock; the RAM's output goes to a register. **Memory:** none.
use super::StreamSrc;
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct FrameReader<const A: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub start: Signal<In, Bit>,
    pub base: Signal<In, Bits<A>>,
    pub len: Signal<In, Bits<16>>,
    pub busy: Signal<Out, Bit>,
    pub read_address: Signal<Out, Bits<A>>,
    pub read_data: Signal<In, Bits<64>>,
    pub index: Signal<Out, Bits<2>>,
    pub out: StreamSrc,
    /// Word at the RAM's output, and whether it is one of the frame.
    ptr: DFF<Bits<A>>,
    valid: DFF<Bit>,
    /// Words that follow the one at the RAM's output.
    left: DFF<Bits<13>>,
    tail: DFF<Bits<3>>,
    at: DFF<Bits<2>>,
    data: DFF<Bits<64>>,
    keep: DFF<Bits<8>>,
    last: DFF<Bit>,
    index_reg: DFF<Bits<2>>,
    offered: DFF<Bit>,
    advance: Signal<Local, Bit>,
    ptr_next: Signal<Local, Bits<A>>,
    less: Signal<Local, Bits<16>>,
    above: Signal<Local, Bits<8>>,
    below: Signal<Local, Bits<8>>,
    full: Constant<Bits<8>>,
}

impl<const A: usize> Default for FrameReader<A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            start: Default::default(),
            base: Default::default(),
            len: Default::default(),
            busy: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            index: Default::default(),
            out: Default::default(),
            ptr: Default::default(),
            valid: Default::default(),
            left: Default::default(),
            tail: Default::default(),
            at: Default::default(),
            data: Default::default(),
            keep: Default::default(),
            last: Default::default(),
            index_reg: Default::default(),
            offered: Default::default(),
            advance: Default::default(),
            ptr_next: Default::default(),
            less: Default::default(),
            above: Default::default(),
            below: Default::default(),
            full: Constant::new(0xff_u64.to_bits()),
        }
    }
}

impl<const A: usize> Logic for FrameReader<A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, ptr, valid, left, tail, at, data, keep, last, index_reg, offered);
        self.advance.next = !self.offered.q.val() | self.out.ready.val();
        self.ptr_next.next = self.ptr.q.val();
        self.less.next = self.len.val() - 1;
        self.above.next = self.full.val() << self.tail.q.val();
        self.below.next = !self.above.val();
        if self.tail.q.val() == 0 {
            self.below.next = self.full.val();
        }
        if self.advance.val() {
            self.offered.d.next = self.valid.q.val();
            self.data.d.next = self.read_data.val();
            self.keep.d.next = self.full.val();
            self.last.d.next = false;
            self.index_reg.d.next = self.at.q.val();
            if self.valid.q.val() {
                self.ptr_next.next = self.ptr.q.val() + 1;
                self.left.d.next = self.left.q.val() - 1;
                if self.at.q.val() != 2 {
                    self.at.d.next = self.at.q.val() + 1;
                }
                if self.left.q.val() == 0 {
                    self.valid.d.next = false;
                    self.last.d.next = true;
                    self.keep.d.next = self.below.val();
                }
            }
        }
        if self.start.val() {
            self.ptr_next.next = self.base.val();
            self.valid.d.next = true;
            self.left.d.next = self.less.val().get_bits::<13>(3);
            self.tail.d.next = self.len.val().get_bits::<3>(0);
            self.at.d.next = 0.into();
        }
        self.ptr.d.next = self.ptr_next.val();
        self.read_address.next = self.ptr_next.val();
        self.busy.next = self.valid.q.val() | self.offered.q.val();
        self.index.next = self.index_reg.q.val();
        self.out.beat.next.data = self.data.q.val();
        self.out.beat.next.keep = self.keep.q.val();
        self.out.beat.next.last = self.last.q.val();
        self.out.beat.next.error = false;
        self.out.valid.next = self.offered.q.val();
        if self.reset.val() {
            self.valid.d.next = false;
            self.offered.d.next = false;
        }
    }
}
