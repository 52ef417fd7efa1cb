// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where does a datagram go on the link? From its destination and the adapter's own addresses to the next hop (ARP-10).
//!
//! **Interface.** Hold `dst` and `src` from the clock of `start` on until `done`, 6 clocks later, shows `route` for one clock. `route` has
//! at most one of `resolve`, `group`, `own`; none of them = no route. Of several matching own addresses the last one counts.
//!
//! **Rules**, the first that applies: 0.0.0.0/8 and 127.0.0.0/8 have no route (RFC 1122 section 3.2.1.3); one of our own addresses is
//! `own`; 255.255.255.255 and the broadcast address of a subnet of ours (masks of 31 and 32 bits have none) go to ff:ff:ff:ff:ff:ff;
//! 224.0.0.0/4 goes to 01:00:5e and the lower 23 bits (RFC 1112 section 6.4); a destination in a subnet of ours is its own next hop;
//! else the gateway of the own address that is `src`, else that of any own address; else there is no route.
//!
//! **States.** One own address a clock: `index` chooses it into `near`, the clock after it is compared and replaces the best one so far
//! if it ranks as high. **Memory:** none.
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
    index: DFF<Bits<2>>,
    busy: DFF<Bit>,
    near: DFF<LocalAddress>,
    near_valid: DFF<Bit>,
    finished: DFF<Bit>,
    /// Best so far: 0 none, 1 a gateway, 2 the gateway of `src`, 3 on the link.
    rank: DFF<Bits<2>>,
    ip: DFF<Bits<32>>,
    source: DFF<Bits<32>>,
    own: DFF<Bit>,
    broadcast: DFF<Bit>,
    mask: Signal<Local, Bits<32>>,
    ones: Signal<Local, Bits<32>>,
    on_link: Signal<Local, Bit>,
    near_rank: Signal<Local, Bits<2>>,
    nowhere: Signal<Local, Bit>,
    multicast: Signal<Local, Bit>,
    group: Signal<Local, Bit>,
}

impl Logic for NextHop {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, index, busy, near, near_valid, finished, rank, ip, source, own, broadcast);
        self.near_valid.d.next = self.busy.q.val();
        self.finished.d.next = self.near_valid.q.val() & !self.busy.q.val();
        for i in 0..4 {
            if self.index.q.val().index() == i {
                self.near.d.next = self.local[i].val();
            }
        }
        if self.busy.q.val() {
            self.index.d.next = self.index.q.val() + 1;
            if self.index.q.val() == 3 {
                self.busy.d.next = false;
            }
        }

        self.mask.next = self.near.q.val().mask;
        self.ones.next = self.dst.val() | self.near.q.val().mask;
        self.on_link.next = ((self.dst.val() ^ self.near.q.val().ip) & self.near.q.val().mask) == 0;
        self.near_rank.next = 0.into();
        if self.on_link.val() {
            self.near_rank.next = 3.into();
        } else if self.near.q.val().gateway != 0 {
            self.near_rank.next = 1.into();
            if self.src.val() == self.near.q.val().ip {
                self.near_rank.next = 2.into();
            }
        }
        if self.near_valid.q.val() & self.near.q.val().valid {
            // a mask of 31 or 32 bits leaves no broadcast address (RFC 3021)
            if self.on_link.val() & self.ones.val().all() & !self.mask.val().get_bit(1) {
                self.broadcast.d.next = true;
            }
            if self.dst.val() == self.near.q.val().ip {
                self.own.d.next = true;
            }
            if (self.near_rank.val() != 0) & (self.near_rank.val() >= self.rank.q.val()) {
                self.rank.d.next = self.near_rank.val();
                self.source.d.next = self.near.q.val().ip;
                self.ip.d.next = self.near.q.val().gateway;
                if self.on_link.val() {
                    self.ip.d.next = self.dst.val();
                }
            }
        }

        self.nowhere.next = (self.dst.val().get_bits::<8>(24) == 0) | (self.dst.val().get_bits::<8>(24) == 127);
        self.multicast.next = self.dst.val().get_bits::<4>(28) == 14;
        self.group.next = self.broadcast.q.val() | self.multicast.val() | self.dst.val().all();
        self.done.next = self.finished.q.val();
        self.route.next.resolve = !self.nowhere.val() & !self.own.q.val() & !self.group.val() & (self.rank.q.val() != 0);
        self.route.next.group = !self.nowhere.val() & !self.own.q.val() & self.group.val();
        self.route.next.own = !self.nowhere.val() & self.own.q.val();
        self.route.next.ip = self.ip.q.val();
        self.route.next.source = self.source.q.val();
        self.route.next.mac = 0xFFFF_FFFF_FFFF_u64.into();
        if self.multicast.val() {
            self.route.next.mac = bits::<48>(0x5e_0001)
                | (bit_cast::<48, 7>(self.dst.val().get_bits::<7>(16)) << 24)
                | (bit_cast::<48, 8>(self.dst.val().get_bits::<8>(8)) << 32)
                | (bit_cast::<48, 8>(self.dst.val().get_bits::<8>(0)) << 40);
        }
        if self.start.val() {
            self.busy.d.next = true;
            self.index.d.next = 0.into();
            self.rank.d.next = 0.into();
            self.own.d.next = false;
            self.broadcast.d.next = false;
        }
        if self.reset.val() {
            self.busy.d.next = false;
            self.near_valid.d.next = false;
            self.finished.d.next = false;
        }
    }
}
