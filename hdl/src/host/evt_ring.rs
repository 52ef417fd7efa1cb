// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event ring: `EventOut` -> one DMA write of 64 octets with time and phase -> interrupt.
//!
//! Interface: `base_lo`, `base_hi`, `log2` are the registers (a `log2` outside 2..=12 counts as 2, the low 6 bits of the base as 0); `head`
//! with `head_value` the strobe of EVT_HEAD, by which the host gives room back. `req`, `beat`, `done` is a client of the DMA write
//! arbiter. `tail` is register EVT_TAIL: events that are in host memory. Indices are free-running modulo 2^16. The ring is full when tail -
//! head = entries. `irq` pulses after the write of an event has ended, so the interrupt never overtakes the data.
//!
//! An event stays on the input channel until it is in host memory; only then `event.ready` is high, for one clock. So without room in the
//! ring, and while not `enabled`, the input is simply not taken (`cnt_evt_ring_full` pulses once for each event that had to wait for room),
//! and nothing is ever lost: a write that failed is tried again after 255 clocks, at the same index with the same phase, until it
//! succeeds or the adapter is reset. `cnt_dma_write_errors` of the arbiter counts the failures and STATUS shows them.
//!
//! EVT_HEAD must lie between its last value and tail, or tail + 1 while a write is under way (the host may see the event before its end is
//! told here), else it is ignored and `cnt_doorbell_errors` pulses.
//!
//! `freed_read` gives the index of each connection whose FREED the host has read, in order: EVT_HEAD has passed it, so the host has seen also
//! all that was told of the connection before, and the private data with it. An index has at most one FREED here, so with 2^F of them the
//! queue never fills (`FP1` = F + 1).
//!
//! States: idle -> request -> 8 beats -> wait for the end -> idle, or -> pause -> request. Timing: event valid to request 1 clock, then
//! 8 beats, 1 clock from the end to `ready` and `irq`: an event each 12 clocks beside the DMA. EVT_HEAD to `freed_read` 3 clocks. Memory: 2^F x 32
//! bits; 32 flip-flops for the time.
use crate::cm::messages::EventOut;
use crate::host::dma::{DmaBeat, DmaDoneSink, DmaRequest};
use crate::stream::{ChanFifo, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

/// An entry as it stands in the ring: the layout of [`ironwarp_abi::event`].
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct EventEntry {
    pub kind: Bits<8>,
    pub flags: Bits<8>,
    pub zero0: Bits<16>,
    pub status: Bits<32>,
    pub context: Bits<32>,
    pub detail: Bits<32>,
    pub index: Bits<16>,
    pub handle_kind: Bits<8>,
    pub zero4: Bits<8>,
    pub generation: Bits<32>,
    pub local_addr: Bits<32>,
    pub local_port: Bits<16>,
    pub remote_port: Bits<16>,
    pub remote_addr: Bits<32>,
    pub own_ird: Bits<16>,
    pub own_ord: Bits<16>,
    pub peer_ird: Bits<16>,
    pub peer_ord: Bits<16>,
    pub data_len: Bits<16>,
    pub zero11: Bits<16>,
    pub listener_index: Bits<16>,
    pub listener_kind: Bits<8>,
    pub zero12: Bits<8>,
    pub listener_generation: Bits<32>,
    pub time_us: Bits<32>,
    pub phase: Bit,
    pub zero15: Bits<31>,
}

/// A FREED of a connection that is in the ring.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FreedInRing {
    pub index: Bits<16>,
    /// EVT_HEAD when the host has read it.
    pub head: Bits<16>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum EvtRingState {
    Idle,
    Request,
    Beats,
    End,
    Pause,
}

#[derive(LogicBlock)]
pub struct EvtRing<const F: usize, const FP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub enabled: Signal<In, Bit>,
    pub base_lo: Signal<In, Bits<32>>,
    pub base_hi: Signal<In, Bits<32>>,
    pub log2: Signal<In, Bits<32>>,
    pub head: Signal<In, Bit>,
    pub head_value: Signal<In, Bits<32>>,
    pub time_us: Signal<In, Bits<32>>,
    pub event: ChanSink<EventOut>,
    pub req: ChanSrc<DmaRequest>,
    pub beat: ChanSrc<DmaBeat>,
    pub done: DmaDoneSink,
    pub freed_read: ChanSrc<Bits<16>>,
    pub tail: Signal<Out, Bits<16>>,
    pub irq: Signal<Out, Bit>,
    pub cnt_evt_written: Signal<Out, Bit>,
    pub cnt_evt_ring_full: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    state: DFF<EvtRingState>,
    size: DFF<Bits<16>>,
    mask: DFF<Bits<16>>,
    written: DFF<Bits<16>>,
    freed: DFF<Bits<16>>,
    rung: DFF<Bit>,
    rung_index: DFF<Bits<16>>,
    bad: DFF<Bit>,
    address: DFF<Bits<64>>,
    phase: DFF<Bit>,
    stamp: DFF<Bits<32>>,
    count: DFF<Bits<3>>,
    pause: DFF<Bits<8>>,
    /// This event was counted as one that had to wait.
    waited: DFF<Bit>,
    full: DFF<Bit>,
    finished: DFF<Bit>,
    /// FREED of connections, until the host has read them.
    unread: ChanFifo<FreedInRing, F, FP1>,
    /// How far EVT_HEAD is beyond the oldest of them, modulo 2^16.
    beyond: DFF<Bits<16>>,
    measured: DFF<Bit>,
    freed_now: Signal<Local, FreedInRing>,
    oldest: Signal<Local, FreedInRing>,
    room: Signal<Local, Bit>,
    used: Signal<Local, Bits<16>>,
    allowed: Signal<Local, Bits<16>>,
    wanted: Signal<Local, Bits<16>>,
    slot: Signal<Local, Bits<16>>,
    lap: Signal<Local, Bits<16>>,
    base: Signal<Local, Bits<64>>,
    entry: Signal<Local, EventEntry>,
    flat: Signal<Local, Bits<512>>,
    one: Constant<Bits<16>>,
    entry_octets: Constant<Bits<16>>,
    listener: Constant<Bits<8>>,
    connection: Constant<Bits<8>>,
    connect_request: Constant<Bits<8>>,
    freed_kind: Constant<Bits<8>>,
}

impl<const F: usize, const FP1: usize> Default for EvtRing<F, FP1> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            enabled: Default::default(),
            base_lo: Default::default(),
            base_hi: Default::default(),
            log2: Default::default(),
            head: Default::default(),
            head_value: Default::default(),
            time_us: Default::default(),
            event: Default::default(),
            req: Default::default(),
            beat: Default::default(),
            done: Default::default(),
            freed_read: Default::default(),
            tail: Default::default(),
            irq: Default::default(),
            cnt_evt_written: Default::default(),
            cnt_evt_ring_full: Default::default(),
            cnt_doorbell_errors: Default::default(),
            state: Default::default(),
            size: Default::default(),
            mask: Default::default(),
            written: Default::default(),
            freed: Default::default(),
            rung: Default::default(),
            rung_index: Default::default(),
            bad: Default::default(),
            address: Default::default(),
            phase: Default::default(),
            stamp: Default::default(),
            count: Default::default(),
            pause: Default::default(),
            waited: Default::default(),
            full: Default::default(),
            finished: Default::default(),
            unread: Default::default(),
            beyond: Default::default(),
            measured: Default::default(),
            freed_now: Default::default(),
            oldest: Default::default(),
            room: Default::default(),
            used: Default::default(),
            allowed: Default::default(),
            wanted: Default::default(),
            slot: Default::default(),
            lap: Default::default(),
            base: Default::default(),
            entry: Default::default(),
            flat: Default::default(),
            one: Constant::new(1u64.to_bits()),
            entry_octets: Constant::new((ironwarp_abi::ENTRY_OCTETS as u64).to_bits()),
            listener: Constant::new((ironwarp_abi::HandleKind::Listener as u64).to_bits()),
            connection: Constant::new((ironwarp_abi::HandleKind::Connection as u64).to_bits()),
            connect_request: Constant::new((ironwarp_abi::EventKind::ConnectRequest as u64).to_bits()),
            freed_kind: Constant::new((ironwarp_abi::EventKind::Freed as u64).to_bits()),
        }
    }
}

impl<const F: usize, const FP1: usize> Logic for EvtRing<F, FP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, size, mask, written, freed, rung, rung_index, bad, address, phase, stamp, count, pause, waited, full,
            finished, beyond, measured
        );
        clock!(self, clock, unread);
        self.unread.reset.next = self.reset.val();
        self.size.d.next = 4.into();
        if (self.log2.val() >= 2) & (self.log2.val() < 13) {
            self.size.d.next = self.one.val() << bit_cast::<16, 4>(self.log2.val().get_bits::<4>(0));
        }
        self.mask.d.next = self.size.q.val() - 1;

        // doorbell: between its last value and what the host can have seen
        self.used.next = self.written.q.val() - self.freed.q.val();
        self.room.next = self.used.val() != self.size.q.val();
        self.allowed.next = self.used.val();
        if (self.state.q.val() == EvtRingState::Beats)
            | (self.state.q.val() == EvtRingState::End)
            | (self.state.q.val() == EvtRingState::Pause)
        {
            self.allowed.next = self.used.val() + 1;
        }
        self.rung.d.next = self.head.val();
        self.rung_index.d.next = self.head_value.val().get_bits::<16>(0);
        self.wanted.next = self.rung_index.q.val() - self.freed.q.val();
        self.bad.d.next = false;
        if self.rung.q.val() {
            if self.wanted.val() <= self.allowed.val() {
                self.freed.d.next = self.rung_index.q.val();
            } else {
                self.bad.d.next = true;
            }
        }
        self.cnt_doorbell_errors.next = self.bad.q.val();

        // FREED of connections: `written` is behind the event in the clock of `finished`
        self.freed_now.next.index = self.event.data.val().index;
        self.freed_now.next.head = self.written.q.val();
        self.unread.inp.data.next = self.freed_now.val();
        self.unread.inp.valid.next = self.finished.q.val()
            & (self.event.data.val().kind == self.freed_kind.val())
            & (self.event.data.val().handle_kind == self.connection.val());
        self.oldest.next = self.unread.out.data.val();
        self.beyond.d.next = self.freed.q.val() - self.oldest.val().head;
        self.measured.d.next = self.unread.out.valid.val();
        self.freed_read.valid.next = self.measured.q.val() & !self.beyond.q.val().get_bit(15);
        self.freed_read.data.next = self.oldest.val().index;
        self.unread.out.ready.next = false;
        if self.measured.q.val() & !self.beyond.q.val().get_bit(15) & self.freed_read.ready.val() {
            self.unread.out.ready.next = true;
            self.measured.d.next = false;
        }

        self.slot.next = self.written.q.val() & self.mask.q.val();
        self.lap.next = self.written.q.val() & self.size.q.val();
        self.base.next = (bit_cast::<64, 32>(self.base_hi.val()) << 32) | bit_cast::<64, 32>(self.base_lo.val() & 0xffff_ffc0_u64);
        self.address.d.next = self.base.val() + (bit_cast::<64, 16>(self.slot.val()) << 6);
        self.phase.d.next = !self.lap.val().any();
        self.event.ready.next = false;
        self.full.d.next = false;
        self.finished.d.next = false;
        match self.state.q.val() {
            EvtRingState::Idle => {
                self.count.d.next = 0.into();
                self.stamp.d.next = self.time_us.val();
                if self.event.valid.val() & self.enabled.val() & !self.finished.q.val() {
                    if self.room.val() {
                        self.state.d.next = EvtRingState::Request;
                        self.waited.d.next = false;
                    } else {
                        self.full.d.next = !self.waited.q.val();
                        self.waited.d.next = true;
                    }
                }
            }
            EvtRingState::Request => {
                if self.req.ready.val() {
                    self.state.d.next = EvtRingState::Beats;
                }
            }
            EvtRingState::Beats => {
                if self.beat.ready.val() {
                    self.count.d.next = self.count.q.val() + 1;
                    if self.count.q.val() == 7 {
                        self.state.d.next = EvtRingState::End;
                    }
                }
            }
            EvtRingState::End => {
                if self.done.valid.val() {
                    if self.done.error.val() {
                        self.state.d.next = EvtRingState::Pause;
                    } else {
                        self.state.d.next = EvtRingState::Idle;
                        self.finished.d.next = true;
                        self.written.d.next = self.written.q.val() + 1;
                    }
                }
            }
            EvtRingState::Pause => {
                self.pause.d.next = self.pause.q.val() + 1;
                if self.pause.q.val().all() {
                    self.state.d.next = EvtRingState::Request;
                }
            }
            _ => {
                self.state.d.next = EvtRingState::Idle;
            }
        }
        self.event.ready.next = self.finished.q.val();
        self.irq.next = self.finished.q.val();
        self.cnt_evt_written.next = self.finished.q.val();
        self.cnt_evt_ring_full.next = self.full.q.val();
        self.tail.next = self.written.q.val();
        self.req.data.next.addr = self.address.q.val();
        self.req.data.next.len = self.entry_octets.val();
        self.req.valid.next = self.state.q.val() == EvtRingState::Request;

        self.entry.next.kind = self.event.data.val().kind;
        self.entry.next.flags = self.event.data.val().flags;
        self.entry.next.zero0 = 0.into();
        self.entry.next.status = self.event.data.val().status;
        self.entry.next.context = self.event.data.val().context;
        self.entry.next.detail = self.event.data.val().detail;
        self.entry.next.index = self.event.data.val().index;
        self.entry.next.handle_kind = self.event.data.val().handle_kind;
        self.entry.next.zero4 = 0.into();
        self.entry.next.generation = self.event.data.val().generation;
        self.entry.next.local_addr = self.event.data.val().local_addr;
        self.entry.next.local_port = self.event.data.val().local_port;
        self.entry.next.remote_port = self.event.data.val().remote_port;
        self.entry.next.remote_addr = self.event.data.val().remote_addr;
        self.entry.next.own_ird = self.event.data.val().own_ird;
        self.entry.next.own_ord = self.event.data.val().own_ord;
        self.entry.next.peer_ird = self.event.data.val().peer_ird;
        self.entry.next.peer_ord = self.event.data.val().peer_ord;
        self.entry.next.data_len = self.event.data.val().data_len;
        self.entry.next.zero11 = 0.into();
        self.entry.next.listener_index = self.event.data.val().listener_index;
        // the other events name no listener
        self.entry.next.listener_kind = 0.into();
        if self.event.data.val().kind == self.connect_request.val() {
            self.entry.next.listener_kind = self.listener.val();
        }
        self.entry.next.zero12 = 0.into();
        self.entry.next.listener_generation = self.event.data.val().listener_generation;
        self.entry.next.time_us = self.stamp.q.val();
        self.entry.next.phase = self.phase.q.val();
        self.entry.next.zero15 = 0.into();
        self.flat.next = bit_cast::<512, 512>(self.entry.val().into());
        self.beat.data.next.data = self.flat.val().get_bits::<64>(self.count.q.val().index() * 64);
        self.beat.data.next.last = self.count.q.val() == 7;
        self.beat.data.next.error = false;
        self.beat.valid.next = self.state.q.val() == EvtRingState::Beats;
        if self.reset.val() {
            self.state.d.next = EvtRingState::Idle;
            self.written.d.next = 0.into();
            self.freed.d.next = 0.into();
            self.rung.d.next = false;
            self.bad.d.next = false;
            self.pause.d.next = 0.into();
            self.waited.d.next = false;
            self.full.d.next = false;
            self.finished.d.next = false;
            self.measured.d.next = false;
        }
    }
}
