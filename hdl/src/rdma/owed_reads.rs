// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read Responses that are owed: a ring of 2^R for each of 2^C connections. `put` writes half a place `put_at` of `index`, `read` is half of place `read_at` of it in the clock after; both
//! modulo 2^R. The half is the sink, with `second` the source.
//!
//! Memory: 2^CR1 x 112 bits of block RAM (CR1 = C + R + 1): in halves because a whole would take 7 DP16KD where these take 4.
use crate::stream::BlockRam;
use rust_hdl::prelude::*;

/// Half of what the peer asked to read: where to, or from where.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct OwedHalf {
    pub stag: Bits<32>,
    pub to: Bits<64>,
    /// Lower half of the length; upper half in the second.
    pub len: Bits<16>,
}

#[derive(LogicBlock)]
pub struct OwedReads<const C: usize, const R: usize, const CR1: usize> {
    pub clock: Signal<In, Clock>,
    pub index: Signal<In, Bits<C>>,
    pub put: Signal<In, Bit>,
    pub put_at: Signal<In, Bits<6>>,
    pub second: Signal<In, Bit>,
    pub value: Signal<In, OwedHalf>,
    pub read_at: Signal<In, Bits<6>>,
    pub read: Signal<Out, OwedHalf>,
    ram: BlockRam<OwedHalf, CR1>,
    base: Signal<Local, Bits<CR1>>,
    shift: Constant<Bits<8>>,
}

impl<const C: usize, const R: usize, const CR1: usize> Default for OwedReads<C, R, CR1> {
    fn default() -> Self {
        assert!(R <= 6 && C + R + 1 == CR1);
        Self {
            clock: Default::default(),
            index: Default::default(),
            put: Default::default(),
            put_at: Default::default(),
            second: Default::default(),
            value: Default::default(),
            read_at: Default::default(),
            read: Default::default(),
            ram: Default::default(),
            base: Default::default(),
            shift: Constant::new((R as u64 + 1).to_bits()),
        }
    }
}

impl<const C: usize, const R: usize, const CR1: usize> Logic for OwedReads<C, R, CR1> {
    #[hdl_gen]
    fn update(&mut self) {
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.base.next = bit_cast::<CR1, C>(self.index.val()) << self.shift.val();
        if self.second.val() {
            self.base.next = (bit_cast::<CR1, C>(self.index.val()) << self.shift.val()) | 1;
        }
        self.ram.write_address.next = self.base.val() | (bit_cast::<CR1, R>(self.put_at.val().get_bits::<R>(0)) << 1);
        self.ram.write_data.next = self.value.val();
        self.ram.write_enable.next = self.put.val();
        self.ram.read_address.next = self.base.val() | (bit_cast::<CR1, R>(self.read_at.val().get_bits::<R>(0)) << 1);
        self.read.next = self.ram.read_data.val();
    }
}
