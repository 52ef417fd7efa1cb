// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a bit's number to masks of a word, and back. A number is split into its upper and its lower three bits: each bit of a word of up to 64 bits
//! then depends on three of 24 wires, where a shift would make it depend on all of the number.
//!
//! [`BitPlace`]: `one` is bit `index`, `from` that and all above it, `beyond` all above it. In the same clock.
//!
//! [`LowestBit`]: the number of the lowest bit set in `bits`, one clock later; any number if there is none. Eights of bits are weighed in the first
//! clock, the bits of the lowest eight that has one in the second.
use rust_hdl::prelude::*;

/// `N` = bits of a word.
#[derive(LogicBlock)]
pub struct BitPlace<const N: usize> {
    pub index: Signal<In, Bits<6>>,
    pub one: Signal<Out, Bits<N>>,
    pub from: Signal<Out, Bits<N>>,
    pub beyond: Signal<Out, Bits<N>>,
    single: Signal<Local, Bits<N>>,
    higher: Signal<Local, Bits<N>>,
    upper: Signal<Local, Bits<3>>,
    lower: Signal<Local, Bits<3>>,
    upper_is: Signal<Local, Bits<8>>,
    upper_below: Signal<Local, Bits<8>>,
    lower_is: Signal<Local, Bits<8>>,
    lower_below: Signal<Local, Bits<8>>,
    bit_of_eight: [Constant<Bits<8>>; 8],
    number: [Constant<Bits<3>>; 8],
    bit: [Constant<Bits<N>>; N],
    eight: [Constant<Bits<3>>; N],
    lows: [Constant<Bits<3>>; N],
}

impl<const N: usize> Default for BitPlace<N> {
    fn default() -> Self {
        assert!(N <= 64);
        Self {
            index: Default::default(),
            one: Default::default(),
            from: Default::default(),
            beyond: Default::default(),
            single: Default::default(),
            higher: Default::default(),
            upper: Default::default(),
            lower: Default::default(),
            upper_is: Default::default(),
            upper_below: Default::default(),
            lower_is: Default::default(),
            lower_below: Default::default(),
            bit_of_eight: std::array::from_fn(|n| Constant::new((1u64 << n).to_bits())),
            number: std::array::from_fn(|n| Constant::new((n as u64).to_bits())),
            bit: std::array::from_fn(|n| Constant::new((1u64 << n).to_bits())),
            eight: std::array::from_fn(|n| Constant::new((n as u64 >> 3).to_bits())),
            lows: std::array::from_fn(|n| Constant::new((n as u64 & 7).to_bits())),
        }
    }
}

impl<const N: usize> Logic for BitPlace<N> {
    #[hdl_gen]
    fn update(&mut self) {
        self.upper.next = self.index.val().get_bits::<3>(3);
        self.lower.next = self.index.val().get_bits::<3>(0);
        self.upper_is.next = 0.into();
        self.upper_below.next = 0.into();
        self.lower_is.next = 0.into();
        self.lower_below.next = 0.into();
        for i in 0..8 {
            if self.upper.val() == self.number[i].val() {
                self.upper_is.next = self.upper_is.val() | self.bit_of_eight[i].val();
            }
            if self.lower.val() == self.number[i].val() {
                self.lower_is.next = self.lower_is.val() | self.bit_of_eight[i].val();
            }
        }
        for i in 1..8 {
            if self.upper.val() < self.number[i].val() {
                self.upper_below.next = self.upper_below.val() | self.bit_of_eight[i].val();
            }
            if self.lower.val() < self.number[i].val() {
                self.lower_below.next = self.lower_below.val() | self.bit_of_eight[i].val();
            }
        }
        self.single.next = 0.into();
        self.higher.next = 0.into();
        for i in 0..N {
            if self.upper_is.val().get_bit(self.eight[i].val().index()) {
                if self.lower_is.val().get_bit(self.lows[i].val().index()) {
                    self.single.next = self.single.val() | self.bit[i].val();
                }
                if self.lower_below.val().get_bit(self.lows[i].val().index()) {
                    self.higher.next = self.higher.val() | self.bit[i].val();
                }
            }
            if self.upper_below.val().get_bit(self.eight[i].val().index()) {
                self.higher.next = self.higher.val() | self.bit[i].val();
            }
        }
        self.one.next = self.single.val();
        self.from.next = self.single.val() | self.higher.val();
        self.beyond.next = self.higher.val();
    }
}

/// `N` = bits of a word.
#[derive(LogicBlock)]
pub struct LowestBit<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub bits: Signal<In, Bits<N>>,
    pub index: Signal<Out, Bits<6>>,
    upper: DFF<Bits<3>>,
    eight: DFF<Bits<8>>,
    word: Signal<Local, Bits<64>>,
    here: Signal<Local, Bits<8>>,
    chosen: Signal<Local, Bits<8>>,
    chosen_upper: Signal<Local, Bits<3>>,
    lower: Signal<Local, Bits<3>>,
    number: [Constant<Bits<3>>; 8],
    three: Constant<Bits<6>>,
}

impl<const N: usize> Default for LowestBit<N> {
    fn default() -> Self {
        assert!(N <= 64);
        Self {
            clock: Default::default(),
            bits: Default::default(),
            index: Default::default(),
            upper: Default::default(),
            eight: Default::default(),
            word: Default::default(),
            here: Default::default(),
            chosen: Default::default(),
            chosen_upper: Default::default(),
            lower: Default::default(),
            number: std::array::from_fn(|n| Constant::new((7 - n as u64).to_bits())),
            three: Constant::new(3u64.to_bits()),
        }
    }
}

impl<const N: usize> Logic for LowestBit<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, upper, eight);
        self.word.next = bit_cast::<64, N>(self.bits.val());
        // the last assignment wins, so the loops go down
        self.chosen.next = 0.into();
        self.chosen_upper.next = 0.into();
        for i in 0..8 {
            self.here.next = self.word.val().get_bits::<8>(self.number[i].val().index() * 8);
            if self.here.val().any() {
                self.chosen.next = self.here.val();
                self.chosen_upper.next = self.number[i].val();
            }
        }
        self.eight.d.next = self.chosen.val();
        self.upper.d.next = self.chosen_upper.val();
        self.lower.next = 0.into();
        for i in 0..8 {
            if self.eight.q.val().get_bit(self.number[i].val().index()) {
                self.lower.next = self.number[i].val();
            }
        }
        self.index.next = (bit_cast::<6, 3>(self.upper.q.val()) << self.three.val()) | bit_cast::<6, 3>(self.lower.val());
    }
}
