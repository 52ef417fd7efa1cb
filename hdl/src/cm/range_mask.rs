// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ports of a bitmap word lie in a range? Bit b of `mask` is port word * 2^W + b; it is set if first <= port <= last.
//!
//! `mask` belongs to the inputs of two clocks before. An empty range (first > last) has no port. P = A + W, WN = 2^W, W at most 6.
//!
//! The first clock compares the words, and the upper and the lower three bits of the ends' places in a word with each of 8 numbers; in the second
//! each bit looks at the three results that are about it, from either end. A range that begins before the word begins before all its eights.
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct RangeMask<const P: usize, const A: usize, const W: usize, const WN: usize> {
    pub clock: Signal<In, Clock>,
    pub first: Signal<In, Bits<P>>,
    pub last: Signal<In, Bits<P>>,
    pub word: Signal<In, Bits<A>>,
    pub mask: Signal<Out, Bits<WN>>,
    /// Eights of bits of which all, or some, are not before `first`; bits of that eight which are not.
    all_from: DFF<Bits<8>>,
    some_from: DFF<Bits<8>>,
    bits_from: DFF<Bits<8>>,
    /// The same of those not behind `last`.
    all_to: DFF<Bits<8>>,
    some_to: DFF<Bits<8>>,
    bits_to: DFF<Bits<8>>,
    held: DFF<Bits<WN>>,
    first_word: Signal<Local, Bits<A>>,
    last_word: Signal<Local, Bits<A>>,
    first_bit: Signal<Local, Bits<6>>,
    last_bit: Signal<Local, Bits<6>>,
    first_upper: Signal<Local, Bits<3>>,
    first_lower: Signal<Local, Bits<3>>,
    last_upper: Signal<Local, Bits<3>>,
    last_lower: Signal<Local, Bits<3>>,
    above: Signal<Local, Bits<8>>,
    here: Signal<Local, Bits<8>>,
    lows: Signal<Local, Bits<8>>,
    is_from: Signal<Local, Bits<WN>>,
    is_to: Signal<Local, Bits<WN>>,
    eight_ones: Constant<Bits<8>>,
    bit_of_eight: [Constant<Bits<8>>; 8],
    number: [Constant<Bits<3>>; 8],
    bit: [Constant<Bits<WN>>; WN],
    eight: [Constant<Bits<3>>; WN],
    place: [Constant<Bits<3>>; WN],
    log_word: Constant<Bits<5>>,
}

impl<const P: usize, const A: usize, const W: usize, const WN: usize> Default for RangeMask<P, A, W, WN> {
    fn default() -> Self {
        assert!(P == A + W && W <= 6 && WN == 1 << W);
        Self {
            clock: Default::default(),
            first: Default::default(),
            last: Default::default(),
            word: Default::default(),
            mask: Default::default(),
            all_from: Default::default(),
            some_from: Default::default(),
            bits_from: Default::default(),
            all_to: Default::default(),
            some_to: Default::default(),
            bits_to: Default::default(),
            held: Default::default(),
            first_word: Default::default(),
            last_word: Default::default(),
            first_bit: Default::default(),
            last_bit: Default::default(),
            first_upper: Default::default(),
            first_lower: Default::default(),
            last_upper: Default::default(),
            last_lower: Default::default(),
            above: Default::default(),
            here: Default::default(),
            lows: Default::default(),
            is_from: Default::default(),
            is_to: Default::default(),
            eight_ones: Constant::new(0xffu64.to_bits()),
            bit_of_eight: std::array::from_fn(|n| Constant::new((1u64 << n).to_bits())),
            number: std::array::from_fn(|n| Constant::new((n as u64).to_bits())),
            bit: std::array::from_fn(|n| Constant::new((1u64 << n).to_bits())),
            eight: std::array::from_fn(|n| Constant::new((n as u64 >> 3).to_bits())),
            place: std::array::from_fn(|n| Constant::new((n as u64 & 7).to_bits())),
            log_word: Constant::new((W as u64).into()),
        }
    }
}

impl<const P: usize, const A: usize, const W: usize, const WN: usize> Logic for RangeMask<P, A, W, WN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, all_from, some_from, bits_from, all_to, some_to, bits_to, held);
        self.first_word.next = bit_cast::<A, P>(self.first.val() >> self.log_word.val());
        self.last_word.next = bit_cast::<A, P>(self.last.val() >> self.log_word.val());
        self.first_bit.next = bit_cast::<6, W>(self.first.val().get_bits::<W>(0));
        self.last_bit.next = bit_cast::<6, W>(self.last.val().get_bits::<W>(0));
        self.first_upper.next = self.first_bit.val().get_bits::<3>(3);
        self.first_lower.next = self.first_bit.val().get_bits::<3>(0);
        self.last_upper.next = self.last_bit.val().get_bits::<3>(3);
        self.last_lower.next = self.last_bit.val().get_bits::<3>(0);

        self.above.next = 0.into();
        self.here.next = 0.into();
        self.lows.next = self.bit_of_eight[7].val();
        for i in 0..8 {
            if self.number[i].val() == self.first_upper.val() {
                self.here.next = self.here.val() | self.bit_of_eight[i].val();
            }
        }
        for i in 0..7 {
            if self.number[i + 1].val() > self.first_upper.val() {
                self.above.next = self.above.val() | self.bit_of_eight[i + 1].val();
            }
            if self.number[i].val() >= self.first_lower.val() {
                self.lows.next = self.lows.val() | self.bit_of_eight[i].val();
            }
        }
        self.bits_from.d.next = self.lows.val();
        self.all_from.d.next = 0.into();
        self.some_from.d.next = 0.into();
        if self.word.val() > self.first_word.val() {
            self.all_from.d.next = self.eight_ones.val();
        } else if self.word.val() == self.first_word.val() {
            self.all_from.d.next = self.above.val();
            self.some_from.d.next = self.here.val();
        }

        self.above.next = 0.into();
        self.here.next = 0.into();
        self.lows.next = self.bit_of_eight[0].val();
        for i in 0..8 {
            if self.number[i].val() == self.last_upper.val() {
                self.here.next = self.here.val() | self.bit_of_eight[i].val();
            }
        }
        for i in 0..7 {
            if self.number[i].val() < self.last_upper.val() {
                self.above.next = self.above.val() | self.bit_of_eight[i].val();
            }
            if self.number[i + 1].val() <= self.last_lower.val() {
                self.lows.next = self.lows.val() | self.bit_of_eight[i + 1].val();
            }
        }
        self.bits_to.d.next = self.lows.val();
        self.all_to.d.next = 0.into();
        self.some_to.d.next = 0.into();
        if self.word.val() < self.last_word.val() {
            self.all_to.d.next = self.eight_ones.val();
        } else if self.word.val() == self.last_word.val() {
            self.all_to.d.next = self.above.val();
            self.some_to.d.next = self.here.val();
        }

        self.is_from.next = 0.into();
        self.is_to.next = 0.into();
        for i in 0..WN {
            if self.all_from.q.val().get_bit(self.eight[i].val().index())
                | (self.some_from.q.val().get_bit(self.eight[i].val().index())
                    & self.bits_from.q.val().get_bit(self.place[i].val().index()))
            {
                self.is_from.next = self.is_from.val() | self.bit[i].val();
            }
            if self.all_to.q.val().get_bit(self.eight[i].val().index())
                | (self.some_to.q.val().get_bit(self.eight[i].val().index()) & self.bits_to.q.val().get_bit(self.place[i].val().index()))
            {
                self.is_to.next = self.is_to.val() | self.bit[i].val();
            }
        }
        self.held.d.next = self.is_from.val() & self.is_to.val();
        self.mask.next = self.held.q.val();
    }
}
