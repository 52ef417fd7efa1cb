// SPDX-License-Identifier: MIT OR Apache-2.0
//! The item store: 16 items for each of 2^C connections, 12 words an item (`rdma::types::ItemHead` says what they are).
//!
//! `head_put` writes word 0..=2, `data_put` word 4 + 0..=7 of an item, both in one clock if need be; an item is `index * 16 + number` there. `data` is the word
//! at `address` (item, word 0..=11) in the clock after; not one that was written in the clock of the address. Nothing is cleared: what was never written is anything.
//!
//! Of words 0 to 2 no more is kept than tells one item from another: what is the connection's (protection domain, queue pair, markers, CRC) is kept once for each connection, as the last
//! item said it; OPCODE is 0..=7, and `remote` follows from it.
//!
//! Memory: 2^C4 x (36 + 64 + 32) and 2^C7 x 64 bits (C = 5: 4 and 16 DP16KD), 2^C x 34 bits. C4 = C + 4 and so on.
use super::types::{ItemHead, ItemSize};
use crate::stream::BlockRam;
use rust_hdl::prelude::*;

/// What is left of `ItemHead`.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct KeptHead {
    pub opcode: Bits<3>,
    pub in_line: Bit,
    pub stag: Bits<32>,
}

#[derive(LogicBlock)]
pub struct ItemStore<const C: usize, const C4: usize, const C7: usize, const C8: usize> {
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
    heads: BlockRam<KeptHead, C4>,
    targets: BlockRam<Bits<64>, C4>,
    sizes: BlockRam<Bits<32>, C4>,
    rest: BlockRam<Bits<64>, C7>,
    domains: BlockRam<Bits<16>, C>,
    /// QPN, markers, CRC.
    streams: BlockRam<Bits<18>, C>,
    shown: DFF<Bits<4>>,
    word: Signal<Local, Bits<4>>,
    rest_word: Signal<Local, Bits<3>>,
    item: Signal<Local, Bits<C4>>,
    index: Signal<Local, Bits<C>>,
    put_index: Signal<Local, Bits<C>>,
    head: Signal<Local, KeptHead>,
    stream: Signal<Local, Bits<18>>,
    item_head: Signal<Local, ItemHead>,
    item_size: Signal<Local, ItemSize>,
}

impl<const C: usize, const C4: usize, const C7: usize, const C8: usize> Default for ItemStore<C, C4, C7, C8> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            head_put: Default::default(),
            head_item: Default::default(),
            head_word: Default::default(),
            head_data: Default::default(),
            data_put: Default::default(),
            data_item: Default::default(),
            data_word: Default::default(),
            data_data: Default::default(),
            address: Default::default(),
            data: Default::default(),
            heads: Default::default(),
            targets: Default::default(),
            sizes: Default::default(),
            rest: Default::default(),
            domains: BlockRam::of_any_kind(),
            streams: BlockRam::of_any_kind(),
            shown: Default::default(),
            word: Default::default(),
            rest_word: Default::default(),
            item: Default::default(),
            index: Default::default(),
            put_index: Default::default(),
            head: Default::default(),
            stream: Default::default(),
            item_head: Default::default(),
            item_size: Default::default(),
        }
    }
}

impl<const C: usize, const C4: usize, const C7: usize, const C8: usize> Logic for ItemStore<C, C4, C7, C8> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, shown);
        self.heads.read_clock.next = self.clock.val();
        self.heads.write_clock.next = self.clock.val();
        self.targets.read_clock.next = self.clock.val();
        self.targets.write_clock.next = self.clock.val();
        self.sizes.read_clock.next = self.clock.val();
        self.sizes.write_clock.next = self.clock.val();
        self.rest.read_clock.next = self.clock.val();
        self.rest.write_clock.next = self.clock.val();
        self.domains.read_clock.next = self.clock.val();
        self.domains.write_clock.next = self.clock.val();
        self.streams.read_clock.next = self.clock.val();
        self.streams.write_clock.next = self.clock.val();

        self.put_index.next = self.head_item.val().get_bits::<C>(4);
        self.heads.write_enable.next = self.head_put.val() & (self.head_word.val() == 0);
        self.heads.write_address.next = self.head_item.val();
        self.heads.write_data.next.opcode = self.head_data.val().get_bits::<3>(0);
        self.heads.write_data.next.in_line = self.head_data.val().get_bit(8);
        self.heads.write_data.next.stag = self.head_data.val().get_bits::<32>(32);
        self.domains.write_enable.next = self.head_put.val() & (self.head_word.val() == 0);
        self.domains.write_address.next = self.put_index.val();
        self.domains.write_data.next = self.head_data.val().get_bits::<16>(16);
        self.targets.write_enable.next = self.head_put.val() & (self.head_word.val() == 1);
        self.targets.write_address.next = self.head_item.val();
        self.targets.write_data.next = self.head_data.val();
        self.sizes.write_enable.next = self.head_put.val() & (self.head_word.val() == 2);
        self.sizes.write_address.next = self.head_item.val();
        self.sizes.write_data.next = self.head_data.val().get_bits::<32>(0);
        self.streams.write_enable.next = self.head_put.val() & (self.head_word.val() == 2);
        self.streams.write_address.next = self.put_index.val();
        self.streams.write_data.next = self.head_data.val().get_bits::<18>(32);
        self.rest.write_enable.next = self.data_put.val();
        self.rest.write_address.next = (bit_cast::<C7, C4>(self.data_item.val()) << 3) | bit_cast::<C7, 3>(self.data_word.val());
        self.rest.write_data.next = self.data_data.val();

        self.word.next = self.address.val().get_bits::<4>(0);
        self.item.next = self.address.val().get_bits::<C4>(4);
        self.index.next = self.address.val().get_bits::<C>(8);
        self.heads.read_address.next = self.item.val();
        self.targets.read_address.next = self.item.val();
        self.sizes.read_address.next = self.item.val();
        self.domains.read_address.next = self.index.val();
        self.streams.read_address.next = self.index.val();
        // modulo 8, word - 4 is this
        self.rest_word.next = self.word.val().get_bits::<3>(0) ^ 4;
        self.rest.read_address.next = (bit_cast::<C7, C4>(self.item.val()) << 3) | bit_cast::<C7, 3>(self.rest_word.val());
        self.shown.d.next = self.word.val();
        self.head.next = self.heads.read_data.val();
        self.item_head.next.opcode = bit_cast::<8, 3>(self.head.val().opcode);
        self.item_head.next.in_line = self.head.val().in_line;
        // the source of a Read Response was named by the peer
        self.item_head.next.remote = self.head.val().opcode == 2;
        self.item_head.next.spare = 0.into();
        self.item_head.next.pd = self.domains.read_data.val();
        self.item_head.next.stag = self.head.val().stag;
        self.stream.next = self.streams.read_data.val();
        self.item_size.next.len = self.sizes.read_data.val();
        self.item_size.next.qpn = self.stream.val().get_bits::<16>(0);
        self.item_size.next.markers = self.stream.val().get_bit(16);
        self.item_size.next.crc = self.stream.val().get_bit(17);
        self.item_size.next.spare = 0.into();
        self.data.next = self.rest.read_data.val();
        if self.shown.q.val() == 0 {
            self.data.next = bit_cast::<64, 64>(self.item_head.val().into());
        } else if self.shown.q.val() == 1 {
            self.data.next = self.targets.read_data.val();
        } else if self.shown.q.val() == 2 {
            self.data.next = bit_cast::<64, 64>(self.item_size.val().into());
        }
    }
}
