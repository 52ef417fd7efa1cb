// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command ring: doorbell -> DMA read of 64-octet entries -> `CommandIn` to the command engine.
//!
//! Interface: `base_lo`, `base_hi`, `log2` are the registers (a `log2` outside 2..=12 counts as 2, the low 6 bits of the base as 0);
//! `tail` with `tail_value` the strobe of CMD_TAIL. `req`, `beat` is a client of the DMA read arbiter. `command` offers one command after
//! the other; when the engine takes one, `head` (register CMD_HEAD) grows by 1. Indices are free-running modulo 2^16.
//!
//! A handle with other bits than index, kind and generation is none that was ever given out: its kind is 0.
//!
//! A doorbell must lie between the last one and head + entries of the ring, else it is ignored and `cnt_doorbell_errors` pulses: an index
//! further than the ring is long, or one that goes back. So nothing outside the ring is ever read. Doorbells count at any time, but
//! fetching starts when `enabled`.
//!
//! States: running, and `stopped` after an entry whose read failed: neither that one nor any later one is offered, nothing more is
//! fetched until `reset`. Up to 2^(N - 3) entries are asked for ahead of the one that is offered; their beats wait in a FIFO that has room
//! for all of them, so the ring never holds up the read port.
//!
//! Timing: doorbell strobe to request 2 clocks; last beat of an entry to command offered 2 clocks; then one command each 9 clocks.
//! Memory: FIFO of 2^N beats (N = 4: distributed RAM), 512 flip-flops for the entry that is offered.
use crate::cm::messages::CommandIn;
use crate::host::dma::{DmaBeat, DmaRequest};
use crate::stream::{ChanFifo, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct CmdRing<const N: usize, const NP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub enabled: Signal<In, Bit>,
    pub base_lo: Signal<In, Bits<32>>,
    pub base_hi: Signal<In, Bits<32>>,
    pub log2: Signal<In, Bits<32>>,
    pub tail: Signal<In, Bit>,
    pub tail_value: Signal<In, Bits<32>>,
    pub req: ChanSrc<DmaRequest>,
    pub beat: ChanSink<DmaBeat>,
    pub command: ChanSrc<CommandIn>,
    pub head: Signal<Out, Bits<16>>,
    pub stopped: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    fifo: ChanFifo<DmaBeat, N, NP1>,
    size: DFF<Bits<16>>,
    mask: DFF<Bits<16>>,
    /// Producer; next entry to ask for; entries put together; entries taken.
    producer: DFF<Bits<16>>,
    asked: DFF<Bits<16>>,
    built: DFF<Bits<16>>,
    taken: DFF<Bits<16>>,
    // a doorbell on its way through the check
    rung: DFF<Bit>,
    rung_index: DFF<Bits<16>>,
    bad: DFF<Bit>,
    request: DFF<DmaRequest>,
    offered: DFF<Bit>,
    /// Shift register: the entry's beat 0 is in `word[0]` once all 8 are in.
    word: [DFF<Bits<64>>; 8],
    count: DFF<Bits<3>>,
    complete: DFF<Bit>,
    halt: DFF<Bit>,
    shift: Signal<Local, Bit>,
    room: Signal<Local, Bit>,
    ahead: Signal<Local, Bits<16>>,
    known: Signal<Local, Bits<16>>,
    wanted: Signal<Local, Bits<16>>,
    slot: Signal<Local, Bits<16>>,
    w0: Signal<Local, Bits<64>>,
    w1: Signal<Local, Bits<64>>,
    /// Bits of the handle that are 0 in every handle.
    stray: Signal<Local, Bits<8>>,
    w2: Signal<Local, Bits<64>>,
    w3: Signal<Local, Bits<64>>,
    w4: Signal<Local, Bits<64>>,
    w5: Signal<Local, Bits<64>>,
    w6: Signal<Local, Bits<64>>,
    w7: Signal<Local, Bits<64>>,
    base: Signal<Local, Bits<64>>,
    most: Constant<Bits<16>>,
    one: Constant<Bits<16>>,
    entry_octets: Constant<Bits<16>>,
}

impl<const N: usize, const NP1: usize> Default for CmdRing<N, NP1> {
    fn default() -> Self {
        assert!(N >= 3, "the FIFO holds at least one entry");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            enabled: Default::default(),
            base_lo: Default::default(),
            base_hi: Default::default(),
            log2: Default::default(),
            tail: Default::default(),
            tail_value: Default::default(),
            req: Default::default(),
            beat: Default::default(),
            command: Default::default(),
            head: Default::default(),
            stopped: Default::default(),
            cnt_doorbell_errors: Default::default(),
            fifo: Default::default(),
            size: Default::default(),
            mask: Default::default(),
            producer: Default::default(),
            asked: Default::default(),
            built: Default::default(),
            taken: Default::default(),
            rung: Default::default(),
            rung_index: Default::default(),
            bad: Default::default(),
            request: Default::default(),
            offered: Default::default(),
            word: Default::default(),
            count: Default::default(),
            complete: Default::default(),
            halt: Default::default(),
            shift: Default::default(),
            room: Default::default(),
            ahead: Default::default(),
            known: Default::default(),
            wanted: Default::default(),
            slot: Default::default(),
            w0: Default::default(),
            w1: Default::default(),
            stray: Default::default(),
            w2: Default::default(),
            w3: Default::default(),
            w4: Default::default(),
            w5: Default::default(),
            w6: Default::default(),
            w7: Default::default(),
            base: Default::default(),
            most: Constant::new((1u64 << (N - 3)).to_bits()),
            one: Constant::new(1u64.to_bits()),
            entry_octets: Constant::new((ironwarp_abi::ENTRY_OCTETS as u64).to_bits()),
        }
    }
}

impl<const N: usize, const NP1: usize> Logic for CmdRing<N, NP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, size, mask, producer, asked, built, taken, rung, rung_index, bad, request, offered, count, complete, halt);
        clock!(self, clock, fifo);
        self.fifo.reset.next = self.reset.val();

        self.size.d.next = 4.into();
        if (self.log2.val() >= 2) & (self.log2.val() < 13) {
            self.size.d.next = self.one.val() << bit_cast::<16, 4>(self.log2.val().get_bits::<4>(0));
        }
        self.mask.d.next = self.size.q.val() - 1;

        // doorbell: between the last one and head + size
        self.rung.d.next = self.tail.val();
        self.rung_index.d.next = self.tail_value.val().get_bits::<16>(0);
        self.known.next = self.producer.q.val() - self.taken.q.val();
        self.wanted.next = self.rung_index.q.val() - self.taken.q.val();
        self.bad.d.next = false;
        if self.rung.q.val() {
            if (self.wanted.val() >= self.known.val()) & (self.wanted.val() <= self.size.q.val()) {
                self.producer.d.next = self.rung_index.q.val();
            } else {
                self.bad.d.next = true;
            }
        }
        self.cnt_doorbell_errors.next = self.bad.q.val();

        // one request an entry
        self.ahead.next = self.asked.q.val() - self.built.q.val();
        self.room.next = self.ahead.val() < self.most.val();
        self.slot.next = self.asked.q.val() & self.mask.q.val();
        self.base.next = (bit_cast::<64, 32>(self.base_hi.val()) << 32) | bit_cast::<64, 32>(self.base_lo.val() & 0xffff_ffc0_u64);
        if self.offered.q.val() & self.req.ready.val() {
            self.offered.d.next = false;
        }
        if !self.offered.q.val() & self.enabled.val() & !self.halt.q.val() & self.room.val() & (self.asked.q.val() != self.producer.q.val())
        {
            self.offered.d.next = true;
            self.request.d.next.addr = self.base.val() + (bit_cast::<64, 16>(self.slot.val()) << 6);
            self.request.d.next.len = self.entry_octets.val();
            self.asked.d.next = self.asked.q.val() + 1;
        }
        self.req.data.next = self.request.q.val();
        self.req.valid.next = self.offered.q.val();

        // beats -> entry
        self.fifo.inp.data.next = self.beat.data.val();
        self.fifo.inp.valid.next = self.beat.valid.val();
        self.beat.ready.next = self.fifo.inp.ready.val();
        self.shift.next = self.fifo.out.valid.val() & !self.complete.q.val() & !self.halt.q.val();
        self.fifo.out.ready.next = !self.complete.q.val() | self.halt.q.val();
        for i in 0..8 {
            self.word[i].clock.next = self.clock.val();
            self.word[i].d.next = self.word[i].q.val();
        }
        if self.shift.val() {
            self.count.d.next = self.count.q.val() + 1;
            for i in 0..7 {
                self.word[i].d.next = self.word[i + 1].q.val();
            }
            self.word[7].d.next = self.fifo.out.data.val().data;
            if self.count.q.val() == 7 {
                self.built.d.next = self.built.q.val() + 1;
                if self.fifo.out.data.val().error {
                    self.halt.d.next = true;
                } else {
                    self.complete.d.next = true;
                }
            }
        }

        // the layout of ironwarp_abi::command
        self.w0.next = self.word[0].q.val();
        self.w1.next = self.word[1].q.val();
        self.w2.next = self.word[2].q.val();
        self.w3.next = self.word[3].q.val();
        self.w4.next = self.word[4].q.val();
        self.w5.next = self.word[5].q.val();
        self.w6.next = self.word[6].q.val();
        self.w7.next = self.word[7].q.val();
        self.command.data.next.opcode = self.w0.val().get_bits::<8>(0);
        self.command.data.next.flags = self.w0.val().get_bits::<8>(8);
        self.command.data.next.context = self.w0.val().get_bits::<32>(32);
        self.command.data.next.index = self.w1.val().get_bits::<16>(0);
        self.stray.next = self.w1.val().get_bits::<8>(24);
        self.command.data.next.kind = 0.into();
        if !self.stray.val().any() {
            self.command.data.next.kind = self.w1.val().get_bits::<8>(16);
        }
        self.command.data.next.generation = self.w1.val().get_bits::<32>(32);
        self.command.data.next.local_addr = self.w2.val().get_bits::<32>(0);
        self.command.data.next.local_port = self.w2.val().get_bits::<16>(32);
        self.command.data.next.remote_port = self.w2.val().get_bits::<16>(48);
        self.command.data.next.remote_addr = self.w3.val().get_bits::<32>(0);
        self.command.data.next.gateway = self.w3.val().get_bits::<32>(32);
        self.command.data.next.backlog_half_open = self.w4.val().get_bits::<16>(0);
        self.command.data.next.backlog_accept = self.w4.val().get_bits::<16>(16);
        self.command.data.next.qpn = self.w4.val().get_bits::<24>(32);
        self.command.data.next.data_addr = self.w5.val();
        self.command.data.next.data_len = self.w6.val().get_bits::<16>(0);
        self.command.data.next.ird = self.w6.val().get_bits::<16>(32);
        self.command.data.next.ord = self.w6.val().get_bits::<16>(48);
        self.command.data.next.tos = self.w7.val().get_bits::<8>(0);
        self.command.data.next.timeout_us = self.w7.val().get_bits::<32>(32);
        self.command.valid.next = self.complete.q.val();
        if self.complete.q.val() & self.command.ready.val() {
            self.complete.d.next = false;
            self.taken.d.next = self.taken.q.val() + 1;
        }
        self.head.next = self.taken.q.val();
        self.stopped.next = self.halt.q.val();
        if self.reset.val() {
            self.producer.d.next = 0.into();
            self.asked.d.next = 0.into();
            self.built.d.next = 0.into();
            self.taken.d.next = 0.into();
            self.rung.d.next = false;
            self.bad.d.next = false;
            self.offered.d.next = false;
            self.count.d.next = 0.into();
            self.complete.d.next = false;
            self.halt.d.next = false;
        }
    }
}
