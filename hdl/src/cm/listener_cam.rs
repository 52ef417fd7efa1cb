// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which listener hears this address and port? Compares a query with all listeners at once, in registers.
//!
//! `query` is compared while `take` is high, the results of all compares become `hit` and `index` in the next clock in which
//! `advance` is high. Whoever writes the keys makes sure that no
//! two valid ones overlap, so at most one matches and an exact address needs no precedence over any. `write` puts `key` into the
//! slots named by the one-hot `select`.
//!
//! State: 2^L keys of 49 bits and two compare results each. No reset: `valid` comes from outside.
use crate::cm::port_types::PortQuery;
use rust_hdl::prelude::*;

/// Where a listener listens.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ListenerKey {
    pub any: Bit,
    pub addr: Bits<32>,
    pub port: Bits<16>,
}

#[derive(LogicBlock)]
pub struct ListenerCam<const L: usize, const LN: usize> {
    pub clock: Signal<In, Clock>,
    pub write: Signal<In, Bit>,
    pub select: Signal<In, Bits<LN>>,
    pub key: Signal<In, ListenerKey>,
    pub valid: Signal<In, Bits<LN>>,
    pub query: Signal<In, PortQuery>,
    pub take: Signal<In, Bit>,
    pub advance: Signal<In, Bit>,
    pub hit: Signal<Out, Bit>,
    pub index: Signal<Out, Bits<L>>,
    any: [DFF<Bit>; LN],
    addr: [DFF<Bits<32>>; LN],
    port: [DFF<Bits<16>>; LN],
    port_equal: [DFF<Bit>; LN],
    addr_equal: [DFF<Bit>; LN],
    found: DFF<Bit>,
    place: DFF<Bits<L>>,
    match_any: Signal<Local, Bit>,
    match_index: Signal<Local, Bits<L>>,
    number: [Constant<Bits<L>>; LN],
}

impl<const L: usize, const LN: usize> Default for ListenerCam<L, LN> {
    fn default() -> Self {
        assert_eq!(1 << L, LN, "listener slots");
        Self {
            clock: Default::default(),
            write: Default::default(),
            select: Default::default(),
            key: Default::default(),
            valid: Default::default(),
            query: Default::default(),
            take: Default::default(),
            advance: Default::default(),
            hit: Default::default(),
            index: Default::default(),
            any: std::array::from_fn(|_| Default::default()),
            addr: std::array::from_fn(|_| Default::default()),
            port: std::array::from_fn(|_| Default::default()),
            port_equal: std::array::from_fn(|_| Default::default()),
            addr_equal: std::array::from_fn(|_| Default::default()),
            found: Default::default(),
            place: Default::default(),
            match_any: Default::default(),
            match_index: Default::default(),
            number: std::array::from_fn(|n| Constant::new((n as u64).into())),
        }
    }
}

impl<const L: usize, const LN: usize> Logic for ListenerCam<L, LN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, found, place);
        self.match_any.next = false;
        self.match_index.next = 0.into();
        for i in 0..LN {
            self.any[i].clock.next = self.clock.val();
            self.addr[i].clock.next = self.clock.val();
            self.port[i].clock.next = self.clock.val();
            self.port_equal[i].clock.next = self.clock.val();
            self.addr_equal[i].clock.next = self.clock.val();
            self.any[i].d.next = self.any[i].q.val();
            self.addr[i].d.next = self.addr[i].q.val();
            self.port[i].d.next = self.port[i].q.val();
            self.port_equal[i].d.next = self.port_equal[i].q.val();
            self.addr_equal[i].d.next = self.addr_equal[i].q.val();
            if self.write.val() & self.select.val().get_bit(i) {
                self.any[i].d.next = self.key.val().any;
                self.addr[i].d.next = self.key.val().addr;
                self.port[i].d.next = self.key.val().port;
            }
            if self.take.val() {
                self.port_equal[i].d.next = self.valid.val().get_bit(i) & (self.port[i].q.val() == self.query.val().port);
                self.addr_equal[i].d.next = self.any[i].q.val() | (self.addr[i].q.val() == self.query.val().addr);
            }
            if self.port_equal[i].q.val() & self.addr_equal[i].q.val() {
                self.match_any.next = true;
                self.match_index.next = self.match_index.val() | self.number[i].val();
            }
        }
        if self.advance.val() {
            self.found.d.next = self.match_any.val();
            self.place.d.next = self.match_index.val();
        }
        self.hit.next = self.found.q.val();
        self.index.next = self.place.q.val();
    }
}
