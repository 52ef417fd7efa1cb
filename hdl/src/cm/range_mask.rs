// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ports of a bitmap word lie in a range? Bit b of `mask` is port word * 2^W + b; it is set if first <= port <= last.
//!
//! `mask` belongs to the inputs of two clocks before. An empty range (first > last) has no port. P = A + W, WN = 2^W.
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct RangeMask<const P: usize, const A: usize, const W: usize, const WN: usize> {
    pub clock: Signal<In, Clock>,
    pub first: Signal<In, Bits<P>>,
    pub last: Signal<In, Bits<P>>,
    pub word: Signal<In, Bits<A>>,
    pub mask: Signal<Out, Bits<WN>>,
    from_first: DFF<Bits<WN>>,
    to_last: DFF<Bits<WN>>,
    held: DFF<Bits<WN>>,
    first_word: Signal<Local, Bits<A>>,
    last_word: Signal<Local, Bits<A>>,
    above_last: Signal<Local, Bits<W>>,
    ones: Constant<Bits<WN>>,
    log_word: Constant<Bits<5>>,
}

impl<const P: usize, const A: usize, const W: usize, const WN: usize> Default for RangeMask<P, A, W, WN> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            first: Default::default(),
            last: Default::default(),
            word: Default::default(),
            mask: Default::default(),
            from_first: Default::default(),
            to_last: Default::default(),
            held: Default::default(),
            first_word: Default::default(),
            last_word: Default::default(),
            above_last: Default::default(),
            ones: Constant::new(Bits::<WN>::mask()),
            log_word: Constant::new((W as u64).into()),
        }
    }
}

impl<const P: usize, const A: usize, const W: usize, const WN: usize> Logic for RangeMask<P, A, W, WN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, from_first, to_last, held);
        self.first_word.next = bit_cast::<A, P>(self.first.val() >> self.log_word.val());
        self.last_word.next = bit_cast::<A, P>(self.last.val() >> self.log_word.val());
        self.above_last.next = !bit_cast::<W, P>(self.last.val());
        self.from_first.d.next = 0.into();
        if self.word.val() > self.first_word.val() {
            self.from_first.d.next = self.ones.val();
        } else if self.word.val() == self.first_word.val() {
            self.from_first.d.next = self.ones.val() << bit_cast::<W, P>(self.first.val());
        }
        self.to_last.d.next = 0.into();
        if self.word.val() < self.last_word.val() {
            self.to_last.d.next = self.ones.val();
        } else if self.word.val() == self.last_word.val() {
            self.to_last.d.next = self.ones.val() >> self.above_last.val();
        }
        self.held.d.next = self.from_first.q.val() & self.to_last.q.val();
        self.mask.next = self.held.q.val();
    }
}
