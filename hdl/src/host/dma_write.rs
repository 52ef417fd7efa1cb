// SPDX-License-Identifier: MIT OR Apache-2.0
//! N clients on the one DMA write port.
//!
//! Interface: client k asks on `req[k]`, then gives all beats of that write on `beat[k]` (`error` of a beat is not looked at, `last` is
//! made here from the length), and hears of its end on `done[k]`, in the order of its requests. `wr_req`, `wr_beat`, `wr_done` is the port of the core. A client asks
//! only when it can give all its beats without waiting for anything else.
//!
//! States: free -> (grant, round robin) request offered -> beats of that client, until all have passed -> free. Ends are routed by a
//! queue of client numbers, up to 8 writes are outstanding.
//!
//! `quiesce` (the whole of a reset sequence): no request is taken, the write under way is finished, ends are no longer told to the
//! clients. `clear` (its second phase) tells that the clients are being reset: if a write is still under way then, the rest of it is
//! filled with zeros, because the port cannot take a request back. `idle` tells that no end is outstanding. If ends were still
//! outstanding when `quiesce` ended, they are thrown away before the next request is taken. `reset` is the pin alone: it forgets what is
//! outstanding, because the other side of the port is reset with it.
//!
//! `error` is sticky from the first failed write until `quiesce`; `cnt_dma_write_errors` pulses for each.
//!
//! Timing: 1 clock from request to port, first beat in the clock after the port took the request, beats pass without a register; a write
//! of n beats takes n + 2 clocks. Memory: registers for one request, 8 x 4 bits of distributed RAM.
use crate::host::dma::{DmaBeat, DmaDoneSink, DmaDoneSrc, DmaRequest};
use crate::stream::{ChanFifo, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct DmaWrite<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub quiesce: Signal<In, Bit>,
    pub clear: Signal<In, Bit>,
    pub idle: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
    pub cnt_dma_write_errors: Signal<Out, Bit>,
    pub req: [ChanSink<DmaRequest>; N],
    pub beat: [ChanSink<DmaBeat>; N],
    pub done: [DmaDoneSrc; N],
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_beat: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    owners: ChanFifo<Bits<4>, 3, 4>,
    request: DFF<DmaRequest>,
    offered: DFF<Bit>,
    /// Beats of the write under way that are still to pass.
    left: DFF<Bits<14>>,
    /// The client whose write is under way was reset: zeros instead of its beats.
    filling: DFF<Bit>,
    owner: DFF<Bits<4>>,
    outstanding: DFF<Bits<4>>,
    drain: DFF<Bit>,
    failed: DFF<Bit>,
    pulse: DFF<Bit>,
    grant: Signal<Local, Bits<4>>,
    found: Signal<Local, Bit>,
    after: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    granted: Signal<Local, Bit>,
    ended: Signal<Local, Bit>,
    passing: Signal<Local, Bit>,
    fill: Signal<Local, Bit>,
    moved: Signal<Local, Bit>,
    discard: Signal<Local, Bit>,
    none: Signal<Local, Bit>,
    picked: Signal<Local, DmaBeat>,
    number: [Constant<Bits<4>>; N],
    asked: Signal<Local, DmaRequest>,
    octets: Signal<Local, Bits<17>>,
}

impl<const N: usize> Default for DmaWrite<N> {
    fn default() -> Self {
        assert!(N <= 16, "client numbers have 4 bits");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            quiesce: Default::default(),
            clear: Default::default(),
            idle: Default::default(),
            error: Default::default(),
            cnt_dma_write_errors: Default::default(),
            req: std::array::from_fn(|_| Default::default()),
            beat: std::array::from_fn(|_| Default::default()),
            done: std::array::from_fn(|_| Default::default()),
            wr_req: Default::default(),
            wr_beat: Default::default(),
            wr_done: Default::default(),
            owners: Default::default(),
            request: Default::default(),
            offered: Default::default(),
            left: Default::default(),
            filling: Default::default(),
            owner: Default::default(),
            outstanding: Default::default(),
            drain: Default::default(),
            failed: Default::default(),
            pulse: Default::default(),
            grant: Default::default(),
            found: Default::default(),
            after: Default::default(),
            free: Default::default(),
            granted: Default::default(),
            ended: Default::default(),
            passing: Default::default(),
            fill: Default::default(),
            moved: Default::default(),
            discard: Default::default(),
            none: Default::default(),
            picked: Default::default(),
            number: std::array::from_fn(|k| Constant::new((k as u64).to_bits())),
            asked: Default::default(),
            octets: Default::default(),
        }
    }
}

impl<const N: usize> Logic for DmaWrite<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, request, offered, left, filling, owner, outstanding, drain, failed, pulse);
        clock!(self, clock, owners);
        self.owners.reset.next = self.reset.val();

        // grant: the first client after the last one granted
        self.grant.next = 0.into();
        self.found.next = false;
        self.after.next = false;
        for i in 0..N {
            if !self.found.val() & self.req[i].valid.val() {
                self.grant.next = self.number[i].val();
                self.found.next = true;
            }
        }
        for i in 0..N {
            if !self.after.val() & self.req[i].valid.val() & (self.owner.q.val().index() < i) {
                self.grant.next = self.number[i].val();
                self.after.next = true;
            }
        }
        self.none.next = self.outstanding.q.val() == 0;
        self.discard.next = self.quiesce.val() | self.drain.q.val();
        self.free.next = !self.offered.q.val() & (self.left.q.val() == 0) & self.owners.inp.ready.val() & !self.discard.val();
        self.granted.next = self.free.val() & self.found.val();
        self.owners.inp.data.next = self.grant.val();
        self.owners.inp.valid.next = self.granted.val();
        self.asked.next = self.request.q.val();
        for i in 0..N {
            self.req[i].ready.next = self.free.val() & (self.grant.val().index() == i);
            if self.grant.val().index() == i {
                self.asked.next = self.req[i].data.val();
            }
        }
        self.octets.next = bit_cast::<17, 16>(self.asked.val().len) + 7;
        if self.granted.val() {
            self.request.d.next = self.asked.val();
            self.offered.d.next = true;
            self.owner.d.next = self.grant.val();
            self.left.d.next = self.octets.val().get_bits::<14>(3);
        }
        self.wr_req.data.next = self.request.q.val();
        self.wr_req.valid.next = self.offered.q.val();
        if self.offered.q.val() & self.wr_req.ready.val() {
            self.offered.d.next = false;
        }

        // beats of the owner, or zeros if it was reset
        self.passing.next = !self.offered.q.val() & (self.left.q.val() != 0);
        self.fill.next = self.filling.q.val();
        if self.clear.val() & (self.left.q.val() != 0) {
            self.filling.d.next = true;
        }
        self.picked.next = self.beat[0].data.val();
        self.wr_beat.data.next.last = self.left.q.val() == 1;
        self.wr_beat.data.next.error = false;
        self.wr_beat.valid.next = self.passing.val() & self.fill.val();
        for i in 0..N {
            self.beat[i].ready.next = false;
            if self.passing.val() & !self.fill.val() & (self.owner.q.val().index() == i) {
                self.picked.next = self.beat[i].data.val();
                self.wr_beat.valid.next = self.beat[i].valid.val();
                self.beat[i].ready.next = self.wr_beat.ready.val();
            }
        }
        self.wr_beat.data.next.data = self.picked.val().data;
        if self.fill.val() {
            self.wr_beat.data.next.data = 0.into();
        }
        self.moved.next = self.wr_beat.valid.val() & self.wr_beat.ready.val();
        if self.moved.val() {
            self.left.d.next = self.left.q.val() - 1;
            if self.left.q.val() == 1 {
                self.filling.d.next = false;
            }
        }

        // ends
        self.ended.next = self.wr_done.valid.val() & self.owners.out.valid.val();
        self.owners.out.ready.next = self.ended.val();
        for i in 0..N {
            self.done[i].valid.next = self.ended.val() & !self.discard.val() & (self.owners.out.data.val().index() == i);
            self.done[i].error.next = self.wr_done.error.val();
        }
        if self.granted.val() & !self.ended.val() {
            self.outstanding.d.next = self.outstanding.q.val() + 1;
        } else if self.ended.val() & !self.granted.val() {
            self.outstanding.d.next = self.outstanding.q.val() - 1;
        }
        self.idle.next = self.none.val();
        if self.quiesce.val() {
            self.drain.d.next = true;
        } else if self.none.val() {
            self.drain.d.next = false;
        }
        self.pulse.d.next = self.ended.val() & self.wr_done.error.val();
        if self.pulse.q.val() {
            self.failed.d.next = true;
        }
        if self.quiesce.val() {
            self.failed.d.next = false;
        }
        self.error.next = self.failed.q.val();
        self.cnt_dma_write_errors.next = self.pulse.q.val();
        if self.reset.val() {
            self.offered.d.next = false;
            self.left.d.next = 0.into();
            self.filling.d.next = false;
            self.outstanding.d.next = 0.into();
            self.drain.d.next = false;
            self.failed.d.next = false;
            self.pulse.d.next = false;
        }
    }
}
