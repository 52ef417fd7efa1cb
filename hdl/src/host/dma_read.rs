// SPDX-License-Identifier: MIT OR Apache-2.0
//! N clients on the one DMA read port.
//!
//! Interface: client k asks on `req[k]` and gets its beats on `beat[k]`, in the order of its requests; `rd_req`, `rd_beat` is the port of
//! the core (`host::dma` says what an answer looks like). A client asks only for what it has room for: beats that it does not take hold
//! up every other client.
//!
//! Requests are granted round robin and go through a register; the numbers of the clients whose answers are still to come wait in a
//! queue of 8, so up to 8 answers are outstanding. Beats pass without a register.
//!
//! `quiesce` (the whole of a reset sequence): no request is taken, and all beats that come are taken and thrown away. `idle` tells that no
//! answer is outstanding. If answers were still outstanding when `quiesce` ended, they are thrown away too before the next request is
//! taken, so a late answer never reaches a client that did not ask for it. `reset` is the pin alone: it forgets what is outstanding,
//! because the other side of the port is reset with it. Clients may be reset while `quiesce` is high, at any time.
//!
//! `error` is sticky from the first failed read until `quiesce`; `cnt_dma_read_errors` pulses for each.
//!
//! Timing: 1 clock from request to port, a request every clock. Memory: registers for one request, 8 x 4 bits of distributed RAM.
use crate::host::dma::{DmaBeat, DmaRequest};
use crate::stream::{ChanFifo, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct DmaRead<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub quiesce: Signal<In, Bit>,
    pub idle: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
    pub cnt_dma_read_errors: Signal<Out, Bit>,
    pub req: [ChanSink<DmaRequest>; N],
    pub beat: [ChanSrc<DmaBeat>; N],
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    owners: ChanFifo<Bits<4>, 3, 4>,
    request: DFF<DmaRequest>,
    offered: DFF<Bit>,
    /// Requests granted and not yet answered in full.
    outstanding: DFF<Bits<4>>,
    drain: DFF<Bit>,
    last: DFF<Bits<4>>,
    failed: DFF<Bit>,
    pulse: DFF<Bit>,
    grant: Signal<Local, Bits<4>>,
    found: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    granted: Signal<Local, Bit>,
    ended: Signal<Local, Bit>,
    after: Signal<Local, Bit>,
    discard: Signal<Local, Bit>,
    none: Signal<Local, Bit>,
    number: [Constant<Bits<4>>; N],
}

impl<const N: usize> Default for DmaRead<N> {
    fn default() -> Self {
        assert!(N <= 16, "client numbers have 4 bits");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            quiesce: Default::default(),
            idle: Default::default(),
            error: Default::default(),
            cnt_dma_read_errors: Default::default(),
            req: std::array::from_fn(|_| Default::default()),
            beat: std::array::from_fn(|_| Default::default()),
            rd_req: Default::default(),
            rd_beat: Default::default(),
            owners: Default::default(),
            request: Default::default(),
            offered: Default::default(),
            outstanding: Default::default(),
            drain: Default::default(),
            last: Default::default(),
            failed: Default::default(),
            pulse: Default::default(),
            grant: Default::default(),
            found: Default::default(),
            free: Default::default(),
            granted: Default::default(),
            ended: Default::default(),
            after: Default::default(),
            discard: Default::default(),
            none: Default::default(),
            number: std::array::from_fn(|k| Constant::new((k as u64).to_bits())),
        }
    }
}

impl<const N: usize> Logic for DmaRead<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, request, offered, outstanding, drain, last, failed, pulse);
        clock!(self, clock, owners);
        self.owners.reset.next = self.reset.val();

        // grant: the first client after the last one granted
        self.grant.next = 0.into();
        self.found.next = false;
        for i in 0..N {
            if !self.found.val() & self.req[i].valid.val() {
                self.grant.next = self.number[i].val();
                self.found.next = true;
            }
        }
        self.after.next = false;
        for i in 0..N {
            if !self.after.val() & self.req[i].valid.val() & (self.last.q.val().index() < i) {
                self.grant.next = self.number[i].val();
                self.after.next = true;
            }
        }
        self.none.next = self.outstanding.q.val() == 0;
        self.discard.next = self.quiesce.val() | self.drain.q.val();
        self.free.next = (!self.offered.q.val() | self.rd_req.ready.val()) & self.owners.inp.ready.val() & !self.discard.val();
        self.granted.next = self.free.val() & self.found.val();
        self.owners.inp.data.next = self.grant.val();
        self.owners.inp.valid.next = self.granted.val();
        if self.rd_req.ready.val() {
            self.offered.d.next = false;
        }
        for i in 0..N {
            self.req[i].ready.next = self.free.val() & (self.grant.val().index() == i);
            if self.granted.val() & (self.grant.val().index() == i) {
                self.request.d.next = self.req[i].data.val();
            }
        }
        if self.granted.val() {
            self.offered.d.next = true;
            self.last.d.next = self.grant.val();
        }
        self.rd_req.data.next = self.request.q.val();
        self.rd_req.valid.next = self.offered.q.val();

        // answers
        self.rd_beat.ready.next = self.owners.out.valid.val() & self.discard.val();
        for i in 0..N {
            self.beat[i].data.next = self.rd_beat.data.val();
            self.beat[i].valid.next = false;
            if (self.owners.out.data.val().index() == i) & self.owners.out.valid.val() & !self.discard.val() {
                self.beat[i].valid.next = self.rd_beat.valid.val();
                self.rd_beat.ready.next = self.beat[i].ready.val();
            }
        }
        self.ended.next = self.rd_beat.valid.val() & self.rd_beat.ready.val() & self.rd_beat.data.val().last;
        self.owners.out.ready.next = self.ended.val();
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
        self.pulse.d.next = self.ended.val() & self.rd_beat.data.val().error;
        if self.pulse.q.val() {
            self.failed.d.next = true;
        }
        if self.quiesce.val() {
            self.failed.d.next = false;
        }
        self.error.next = self.failed.q.val();
        self.cnt_dma_read_errors.next = self.pulse.q.val();
        if self.reset.val() {
            self.offered.d.next = false;
            self.outstanding.d.next = 0.into();
            self.drain.d.next = false;
            self.failed.d.next = false;
            self.pulse.d.next = false;
        }
    }
}
