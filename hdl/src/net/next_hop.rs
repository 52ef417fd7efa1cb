// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where does a datagram go on the link? From its destination and the adapter's own addresses to the next hop (ARP-10).
//!
//! **Interface.** Hold `dst` and `src` from the clock of `start` on until `done`, 2 clocks later, shows `route` for one clock. `route` has
//! at most one of `resolve`, `group`, `own`; none of them = no route. Of several matching own addresses the last one counts.
//!
//! **Rules**, the first that applies: 0.0.0.0/8 and 127.0.0.0/8 have no route (RFC 1122 section 3.2.1.3); one of our own addresses is
//! `own`; 255.255.255.255 and the broadcast address of a subnet of ours (masks of 31 and 32 bits have none) go to ff:ff:ff:ff:ff:ff;
//! 224.0.0.0/4 goes to 01:00:5e and the lower 23 bits (RFC 1112 section 6.4); a destination in a subnet of ours is its own next hop;
//! else the gateway of the own address that is `src`, else that of any own address; else there is no route.
//!
//! **Memory:** none; two steps of registers.
use super::types::LocalAddress;
use rust_hdl::prelude::*;

/// Answer of [`NextHop`].
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Route {
    /// Ask the neighbour service for `ip`, with `source` as the sender.
    pub resolve: Bit,
    /// Broadcast or multicast: `mac` is the destination.
    pub group: Bit,
    /// The destination is one of our addresses.
    pub own: Bit,
    pub ip: Bits<32>,
    pub source: Bits<32>,
    pub mac: Bits<48>,
}

/// What a destination and a source are to one own address, one clock later.
#[derive(LogicBlock, Default)]
pub struct LocalMatch {
    pub clock: Signal<In, Clock>,
    pub address: Signal<In, LocalAddress>,
    pub dst: Signal<In, Bits<32>>,
    pub src: Signal<In, Bits<32>>,
    pub on_link: Signal<Out, Bit>,
    pub broadcast: Signal<Out, Bit>,
    pub own: Signal<Out, Bit>,
    pub has_gateway: Signal<Out, Bit>,
    pub sender: Signal<Out, Bit>,
    pub ip: Signal<Out, Bits<32>>,
    pub gateway: Signal<Out, Bits<32>>,
    on_link_reg: DFF<Bit>,
    broadcast_reg: DFF<Bit>,
    own_reg: DFF<Bit>,
    gateway_reg: DFF<Bit>,
    sender_reg: DFF<Bit>,
    mask: Signal<Local, Bits<32>>,
    ones: Signal<Local, Bits<32>>,
}

impl Logic for LocalMatch {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, on_link_reg, broadcast_reg, own_reg, gateway_reg, sender_reg);
        self.mask.next = self.address.val().mask;
        self.ones.next = self.dst.val() | self.address.val().mask;
        self.on_link_reg.d.next = self.address.val().valid & (((self.dst.val() ^ self.address.val().ip) & self.address.val().mask) == 0);
        // a mask of 31 or 32 bits leaves no broadcast address (RFC 3021)
        self.broadcast_reg.d.next = self.ones.val().all() & !self.mask.val().get_bit(1);
        self.own_reg.d.next = self.address.val().valid & (self.dst.val() == self.address.val().ip);
        self.gateway_reg.d.next = self.address.val().valid & (self.address.val().gateway != 0);
        self.sender_reg.d.next = self.src.val() == self.address.val().ip;
        self.on_link.next = self.on_link_reg.q.val();
        self.broadcast.next = self.broadcast_reg.q.val() & self.on_link_reg.q.val();
        self.own.next = self.own_reg.q.val();
        self.has_gateway.next = self.gateway_reg.q.val();
        self.sender.next = self.sender_reg.q.val();
        self.ip.next = self.address.val().ip;
        self.gateway.next = self.address.val().gateway;
    }
}

#[derive(LogicBlock, Default)]
pub struct NextHop {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub local: [Signal<In, LocalAddress>; 4],
    pub start: Signal<In, Bit>,
    pub dst: Signal<In, Bits<32>>,
    pub src: Signal<In, Bits<32>>,
    pub done: Signal<Out, Bit>,
    pub route: Signal<Out, Route>,
    near: [LocalMatch; 4],
    nowhere: DFF<Bit>,
    multicast: DFF<Bit>,
    all_ones: DFF<Bit>,
    step: DFF<Bit>,
    finished: DFF<Bit>,
    result: DFF<Route>,
    broad: Signal<Local, Bit>,
    mine: Signal<Local, Bit>,
    next: Signal<Local, Route>,
}

impl Logic for NextHop {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, nowhere, multicast, all_ones, step, finished, result);
        self.step.d.next = self.start.val();
        self.finished.d.next = self.step.q.val();
        for i in 0..4 {
            self.near[i].clock.next = self.clock.val();
            self.near[i].address.next = self.local[i].val();
            self.near[i].dst.next = self.dst.val();
            self.near[i].src.next = self.src.val();
        }
        self.nowhere.d.next = (self.dst.val().get_bits::<8>(24) == 0) | (self.dst.val().get_bits::<8>(24) == 127);
        self.multicast.d.next = self.dst.val().get_bits::<4>(28) == 14;
        self.all_ones.d.next = self.dst.val().all();

        // later assignments win
        self.broad.next = self.all_ones.q.val();
        self.mine.next = false;
        self.next.next.resolve = false;
        self.next.next.group = false;
        self.next.next.own = false;
        self.next.next.ip = self.dst.val();
        self.next.next.source = 0.into();
        self.next.next.mac = 0xFFFF_FFFF_FFFF_u64.into();
        for i in 0..4 {
            if self.near[i].has_gateway.val() {
                self.next.next.resolve = true;
                self.next.next.ip = self.near[i].gateway.val();
                self.next.next.source = self.near[i].ip.val();
            }
        }
        for i in 0..4 {
            if self.near[i].has_gateway.val() & self.near[i].sender.val() {
                self.next.next.ip = self.near[i].gateway.val();
                self.next.next.source = self.near[i].ip.val();
            }
        }
        for i in 0..4 {
            if self.near[i].on_link.val() {
                self.next.next.resolve = true;
                self.next.next.ip = self.dst.val();
                self.next.next.source = self.near[i].ip.val();
            }
            if self.near[i].broadcast.val() {
                self.broad.next = true;
            }
            if self.near[i].own.val() {
                self.mine.next = true;
            }
        }
        if self.multicast.q.val() {
            self.next.next.mac = bits::<48>(0x5e_0001)
                | (bit_cast::<48, 7>(self.dst.val().get_bits::<7>(16)) << 24)
                | (bit_cast::<48, 8>(self.dst.val().get_bits::<8>(8)) << 32)
                | (bit_cast::<48, 8>(self.dst.val().get_bits::<8>(0)) << 40);
        }
        if self.multicast.q.val() | self.broad.val() {
            self.next.next.resolve = false;
            self.next.next.group = true;
        }
        if self.mine.val() {
            self.next.next.resolve = false;
            self.next.next.group = false;
            self.next.next.own = true;
        }
        if self.nowhere.q.val() {
            self.next.next.resolve = false;
            self.next.next.group = false;
            self.next.next.own = false;
        }
        if self.step.q.val() {
            self.result.d.next = self.next.val();
        }
        self.done.next = self.finished.q.val();
        self.route.next = self.result.q.val();
        if self.reset.val() {
            self.step.d.next = false;
            self.finished.d.next = false;
        }
    }
}
