// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read Responses that are owed: a ring of 2^R for each of 2^C connections. `put` writes place `put_at` of `index`, `read` is place `read_at` of it in the clock after; both modulo 2^R.
//!
//! Memory: 2^CR x 224 bits of block RAM (CR = C + R).
use crate::stream::BlockRam;
use rust_hdl::prelude::*;

/// What the peer asked to read.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct OwedRead {
    pub stag: Bits<32>,
    pub to: Bits<64>,
    pub len: Bits<32>,
    pub sink_stag: Bits<32>,
    pub sink_to: Bits<64>,
}

#[derive(LogicBlock)]
pub struct OwedReads<const C: usize, const R: usize, const CR: usize> {
    pub clock: Signal<In, Clock>,
    pub index: Signal<In, Bits<C>>,
    pub put: Signal<In, Bit>,
    pub put_at: Signal<In, Bits<6>>,
    pub value: Signal<In, OwedRead>,
    pub read_at: Signal<In, Bits<6>>,
    pub read: Signal<Out, OwedRead>,
    ram: BlockRam<OwedRead, CR>,
    base: Signal<Local, Bits<CR>>,
    shift: Constant<Bits<8>>,
}

impl<const C: usize, const R: usize, const CR: usize> Default for OwedReads<C, R, CR> {
    fn default() -> Self {
        assert!(R <= 6 && C + R == CR);
        Self {
            clock: Default::default(),
            index: Default::default(),
            put: Default::default(),
            put_at: Default::default(),
            value: Default::default(),
            read_at: Default::default(),
            read: Default::default(),
            ram: Default::default(),
            base: Default::default(),
            shift: Constant::new((R as u64).to_bits()),
        }
    }
}

impl<const C: usize, const R: usize, const CR: usize> Logic for OwedReads<C, R, CR> {
    #[hdl_gen]
    fn update(&mut self) {
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.base.next = bit_cast::<CR, C>(self.index.val()) << self.shift.val();
        self.ram.write_address.next = self.base.val() | bit_cast::<CR, R>(self.put_at.val().get_bits::<R>(0));
        self.ram.write_data.next = self.value.val();
        self.ram.write_enable.next = self.put.val();
        self.ram.read_address.next = self.base.val() | bit_cast::<CR, R>(self.read_at.val().get_bits::<R>(0));
        self.read.next = self.ram.read_data.val();
    }
}
