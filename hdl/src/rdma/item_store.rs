// SPDX-License-Identifier: MIT OR Apache-2.0
//! The item store: 16 items for each of 2^C connections, 12 words an item (`rdma::types::ItemHead` says what they are).
//!
//! `head_put` writes word 0..=3, `data_put` word 4 + 0..=7 of an item, both in one clock if need be; an item is `index * 16 + number` there. `data` is the word
//! at `address` (item, word 0..=11) in the clock after; not one that was written in the clock of the address. Nothing is cleared: what was never written is anything.
//!
//! Memory: two block RAMs, so that 12 of 16 words cost no waste: 2^C6 and 2^C7 x 64 bits (C = 5: 8 and 16 DP16KD). C4 = C + 4 and so on.
use crate::stream::BlockRam;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct ItemStore<const C4: usize, const C6: usize, const C7: usize, const C8: usize> {
    pub clock: Signal<In, Clock>,
    pub head_put: Signal<In, Bit>,
    pub head_item: Signal<In, Bits<C4>>,
    pub head_word: Signal<In, Bits<2>>,
    pub head_data: Signal<In, Bits<64>>,
    pub data_put: Signal<In, Bit>,
    pub data_item: Signal<In, Bits<C4>>,
    pub data_word: Signal<In, Bits<3>>,
    pub data_data: Signal<In, Bits<64>>,
    pub address: Signal<In, Bits<C8>>,
    pub data: Signal<Out, Bits<64>>,
    head: BlockRam<Bits<64>, C6>,
    rest: BlockRam<Bits<64>, C7>,
    is_head: DFF<Bit>,
    word: Signal<Local, Bits<4>>,
    rest_word: Signal<Local, Bits<3>>,
    item: Signal<Local, Bits<C4>>,
}

impl<const C4: usize, const C6: usize, const C7: usize, const C8: usize> Logic for ItemStore<C4, C6, C7, C8> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, is_head);
        self.head.read_clock.next = self.clock.val();
        self.head.write_clock.next = self.clock.val();
        self.rest.read_clock.next = self.clock.val();
        self.rest.write_clock.next = self.clock.val();
        self.head.write_enable.next = self.head_put.val();
        self.head.write_address.next = (bit_cast::<C6, C4>(self.head_item.val()) << 2) | bit_cast::<C6, 2>(self.head_word.val());
        self.head.write_data.next = self.head_data.val();
        self.rest.write_enable.next = self.data_put.val();
        self.rest.write_address.next = (bit_cast::<C7, C4>(self.data_item.val()) << 3) | bit_cast::<C7, 3>(self.data_word.val());
        self.rest.write_data.next = self.data_data.val();
        self.word.next = self.address.val().get_bits::<4>(0);
        self.item.next = self.address.val().get_bits::<C4>(4);
        self.head.read_address.next = (bit_cast::<C6, C4>(self.item.val()) << 2) | bit_cast::<C6, 2>(self.word.val().get_bits::<2>(0));
        // modulo 8, word - 4 is this
        self.rest_word.next = self.word.val().get_bits::<3>(0) ^ 4;
        self.rest.read_address.next = (bit_cast::<C7, C4>(self.item.val()) << 3) | bit_cast::<C7, 3>(self.rest_word.val());
        self.is_head.d.next = self.word.val() < 4;
        self.data.next = self.rest.read_data.val();
        if self.is_head.q.val() {
            self.data.next = self.head.read_data.val();
        }
    }
}
