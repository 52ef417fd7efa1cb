// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives TCP the octets of MPA start-up frames (RFC 5044 section 7.1.1, RFC 6581 section 6), any part of them and as often as it needs.
//!
//! **Interface.** `frame` is kept by its index until the next for that index; it is taken in 4 clocks, between payloads, and must be
//! before TCP is told to send it. Each `payload` is answered by a stream of exactly `take` octets on `out`, from octet `skip` of the frame on,
//! which must lie within the frame. `rd_req` and `rd_beat` read the host. `busy` is high from the clock in which a `payload` is offered and
//! taken until its last beat is taken, its read has ended and its `fault`, if any, is told: then host memory is not read any more for it.
//!
//! **Rules.** A frame is the key (Reply if `reply`, else Request), flags, Rev, PD_Length, the two enhanced words if S is set in revision 2
//! (they count in PD_Length), and `data_len` octets at `data_addr`, read again for each payload; only the octets needed are read.
//! Bits without a meaning leave as 0 whatever `flags` says: 0x0F, and in revision 1 S (MPA-16).
//! If the read fails, the payload has its length all the same and `error` in its last beat, which waits until the index was taken on `fault`: once
//! for each `frame`, however often the payload is asked for again.
//!
//! **What may wait.** `frame` and `payload` wait for the payload before them. `out` may wait for as long as it likes without holding the host's answers
//! up: there is room for all of them. `fault` wants a queue behind it; until it is taken, the last beat waits, nothing else.
//!
//! **States.** `Idle` for a frame or a payload, `Keep` a frame, `Load` the frame, `Plan` and `Locate` what comes from where, `Request` the read, `Skip` header octets, `Octets`
//! one by one from the top into a beat, `Align` the last, `Fault`, `Beat` offers it.
//! **Timing.** 10 clocks and one for each header octet skipped before the first; 10 clocks a beat, 11 with octets of the host, beside what it takes.
//! **Memory.** 2^C frames of 4 words of 33 bits (C = 5: 1 block RAM), 64 beats from the host (2 block RAMs).
use super::types::*;
use crate::host::dma::*;
use crate::stream::*;
use crate::tcp::types::PayloadOut;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum StartTxState {
    Idle,
    Keep,
    Load,
    Plan,
    Locate,
    Request,
    Skip,
    Octets,
    Align,
    Fault,
    Beat,
}

/// What is kept for an index.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartTxKept {
    pub frame: StartFrame,
    pub data_addr: Bits<64>,
    /// Fills the words.
    pub spare: Bits<3>,
}

/// Octets of a frame up to the private data, first octet lowest.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartHeader {
    pub key: Bits<128>,
    pub flags: Bits<8>,
    pub rev: Bits<8>,
    pub len_high: Bits<8>,
    pub len_low: Bits<8>,
    pub ird_high: Bits<8>,
    pub ird_low: Bits<8>,
    pub ord_high: Bits<8>,
    pub ord_low: Bits<8>,
}

/// `CN` = 2^C.
#[derive(LogicBlock)]
pub struct StartTx<const C: usize, const CN: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub frame: ChanSink<StartTxFrame>,
    pub payload: ChanSink<PayloadOut>,
    pub out: StreamSrc,
    pub busy: Signal<Out, Bit>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_beat: ChanSink<DmaBeat>,
    pub fault: ChanSrc<Bits<16>>,
    frames: RowWords<StartTxKept, C, 2, 33>,
    /// Words of `kept` that were asked for or written.
    line: DFF<Bits<3>>,
    beats: ChanFifo<DmaBeat, 6, 7>,
    state: DFF<StartTxState>,
    ask: DFF<PayloadOut>,
    kept: DFF<StartTxKept>,
    /// Header octets that are left, first octet lowest.
    header: DFF<Bits<192>>,
    /// Header octets from `skip` on; if `skip` is behind the header, by how much.
    unskipped: DFF<Bits<16>>,
    beyond: DFF<Bits<16>>,
    in_header: DFF<Bit>,
    /// Header octets to leave out / to send.
    skip: DFF<Bits<5>>,
    send: DFF<Bits<5>>,
    /// Octets of this payload that come from the host / that are not yet in a beat.
    read: DFF<Bits<16>>,
    left: DFF<Bits<16>>,
    addr: DFF<Bits<64>>,
    /// Rest of the host's beat in work, and octets in it.
    word: DFF<Bits<64>>,
    have: DFF<Bits<4>>,
    failed: DFF<Bit>,
    /// Indices of which `fault` was told.
    told: DFF<Bits<CN>>,
    /// Beat that is being filled, and its octets modulo 8.
    filling: DFF<Bits<64>>,
    filled: DFF<Bits<3>>,
    keep: DFF<Bits<8>>,
    arrived: Signal<Local, StartTxFrame>,
    store_at: Signal<Local, Bits<16>>,
    ask_skip: Signal<Local, Bits<16>>,
    ask_take: Signal<Local, Bits<16>>,
    stored: Signal<Local, StartFrame>,
    flags: Signal<Local, Bits<8>>,
    enhanced: Signal<Local, Bit>,
    header_len: Signal<Local, Bits<16>>,
    pd_len: Signal<Local, Bits<16>>,
    ird: Signal<Local, Bits<16>>,
    ord: Signal<Local, Bits<16>>,
    built: Signal<Local, StartHeader>,
    short: Signal<Local, Bit>,
    octet: Signal<Local, Bits<8>>,
    put: Signal<Local, Bit>,
    done: Signal<Local, Bit>,
    told_now: Signal<Local, Bits<CN>>,
    told_index: Signal<Local, Bits<C>>,
    ask_index: Signal<Local, Bits<16>>,
    reply_key: Constant<Bits<128>>,
    request_key: Constant<Bits<128>>,
}

impl<const C: usize, const CN: usize> Default for StartTx<C, CN> {
    fn default() -> Self {
        assert_eq!(1 << C, CN);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            frame: Default::default(),
            payload: Default::default(),
            out: Default::default(),
            busy: Default::default(),
            rd_req: Default::default(),
            rd_beat: Default::default(),
            fault: Default::default(),
            frames: Default::default(),
            line: Default::default(),
            beats: Default::default(),
            state: Default::default(),
            ask: Default::default(),
            kept: Default::default(),
            header: Default::default(),
            unskipped: Default::default(),
            beyond: Default::default(),
            in_header: Default::default(),
            skip: Default::default(),
            send: Default::default(),
            read: Default::default(),
            left: Default::default(),
            addr: Default::default(),
            word: Default::default(),
            have: Default::default(),
            failed: Default::default(),
            told: Default::default(),
            filling: Default::default(),
            filled: Default::default(),
            keep: Default::default(),
            arrived: Default::default(),
            store_at: Default::default(),
            ask_skip: Default::default(),
            ask_take: Default::default(),
            stored: Default::default(),
            flags: Default::default(),
            enhanced: Default::default(),
            header_len: Default::default(),
            pd_len: Default::default(),
            ird: Default::default(),
            ord: Default::default(),
            built: Default::default(),
            short: Default::default(),
            octet: Default::default(),
            put: Default::default(),
            done: Default::default(),
            told_now: Default::default(),
            told_index: Default::default(),
            ask_index: Default::default(),
            reply_key: Constant::new(u128::from_le_bytes(*b"MPA ID Rep Frame").to_bits()),
            request_key: Constant::new(u128::from_le_bytes(*b"MPA ID Req Frame").to_bits()),
        }
    }
}

impl<const C: usize, const CN: usize> Logic for StartTx<C, CN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, ask, kept, header, unskipped, beyond, in_header, skip, send, read, left, addr);
        dff_setup!(self, clock, line, word, have, failed, told, filling, filled, keep);
        clock!(self, clock, beats, frames);
        self.beats.reset.next = self.reset.val();

        self.frame.ready.next = false;
        self.arrived.next = self.frame.data.val();
        self.store_at.next = self.arrived.val().index;
        self.ask_index.next = self.ask.q.val().index;
        self.told_now.next = self.told.q.val();
        self.told_index.next = self.ask_index.val().get_bits::<C>(0);

        ChanSink::<DmaBeat>::link(&mut self.rd_beat, &mut self.beats.inp);
        self.beats.out.ready.next = false;

        // the frame's front
        self.ask_skip.next = self.ask.q.val().skip;
        self.ask_take.next = self.ask.q.val().take;
        self.stored.next = self.kept.q.val().frame;
        self.flags.next = self.stored.val().flags;
        self.enhanced.next = self.flags.val().get_bit(4) & (self.stored.val().rev == 2);
        self.header_len.next = 20.into();
        self.pd_len.next = self.stored.val().data_len;
        if self.enhanced.val() {
            self.header_len.next = 24.into();
            self.pd_len.next = self.stored.val().data_len + 4;
        }
        self.ird.next = self.stored.val().ird_word;
        self.ord.next = self.stored.val().ord_word;
        self.built.next.key = self.request_key.val();
        if self.stored.val().reply {
            self.built.next.key = self.reply_key.val();
        }
        self.built.next.flags = self.flags.val() & 0xe0;
        if self.enhanced.val() {
            self.built.next.flags = self.flags.val() & 0xf0;
        }
        self.built.next.rev = self.stored.val().rev;
        self.built.next.len_high = self.pd_len.val().get_bits::<8>(8);
        self.built.next.len_low = self.pd_len.val().get_bits::<8>(0);
        self.built.next.ird_high = self.ird.val().get_bits::<8>(8);
        self.built.next.ird_low = self.ird.val().get_bits::<8>(0);
        self.built.next.ord_high = self.ord.val().get_bits::<8>(8);
        self.built.next.ord_low = self.ord.val().get_bits::<8>(0);

        self.busy.next = self.payload.valid.val() | (self.state.q.val() != StartTxState::Idle);
        self.payload.ready.next = false;
        self.frames.index.next = self.ask_index.val().get_bits::<C>(0);
        self.frames.word.next = self.line.q.val().get_bits::<2>(0);
        self.frames.write.next = self.state.q.val() == StartTxState::Keep;
        self.frames.value.next = self.kept.q.val();
        self.rd_req.valid.next = false;
        self.rd_req.data.next.addr = self.addr.q.val();
        self.rd_req.data.next.len = self.read.q.val();
        self.fault.valid.next = false;
        self.fault.data.next = self.ask.q.val().index;
        self.done.next = self.left.q.val() == 0;
        self.out.valid.next = false;
        self.out.beat.next.data = self.filling.q.val();
        self.out.beat.next.keep = self.keep.q.val();
        self.out.beat.next.last = self.done.val();
        self.out.beat.next.error = self.done.val() & self.failed.q.val();
        self.short.next = self.ask_take.val() <= self.unskipped.q.val();
        self.octet.next = self.word.q.val().get_bits::<8>(0);
        if self.send.q.val() != 0 {
            self.octet.next = self.header.q.val().get_bits::<8>(0);
        }
        self.put.next = false;

        match self.state.q.val() {
            StartTxState::Idle => {
                self.payload.ready.next = !self.frame.valid.val();
                self.ask.d.next = self.payload.data.val();
                self.line.d.next = 0.into();
                self.have.d.next = 0.into();
                self.failed.d.next = false;
                self.filled.d.next = 0.into();
                self.keep.d.next = 0.into();
                if self.frame.valid.val() {
                    self.ask.d.next.index = self.store_at.val();
                    self.kept.d.next.frame = self.arrived.val().frame;
                    self.kept.d.next.data_addr = self.arrived.val().data_addr;
                    self.kept.d.next.spare = 0.into();
                    self.state.d.next = StartTxState::Keep;
                } else if self.payload.valid.val() {
                    self.state.d.next = StartTxState::Load;
                }
            }
            // a new frame of the index
            StartTxState::Keep => {
                self.kept.d.next = self.frames.turned.val();
                self.line.d.next = self.line.q.val() + 1;
                if self.line.q.val() == 3 {
                    self.frame.ready.next = true;
                    self.told_now.next = self.told_now.val().replace_bit(self.told_index.val().index(), false);
                    self.state.d.next = StartTxState::Idle;
                }
            }
            StartTxState::Load => {
                self.kept.d.next = self.frames.turned.val();
                self.line.d.next = self.line.q.val() + 1;
                self.left.d.next = self.ask_take.val();
                if self.line.q.val() == 4 {
                    self.state.d.next = StartTxState::Plan;
                }
            }
            StartTxState::Plan => {
                self.header.d.next = bit_cast::<192, 192>(self.built.val().into());
                self.unskipped.d.next = self.header_len.val() - self.ask_skip.val();
                self.beyond.d.next = self.ask_skip.val() - self.header_len.val();
                self.in_header.d.next = self.ask_skip.val() < self.header_len.val();
                self.state.d.next = StartTxState::Locate;
            }
            StartTxState::Locate => {
                self.skip.d.next = 0.into();
                self.send.d.next = 0.into();
                self.read.d.next = self.ask_take.val();
                self.addr.d.next = self.kept.q.val().data_addr + bit_cast::<64, 16>(self.beyond.q.val());
                if self.in_header.q.val() {
                    self.skip.d.next = self.ask_skip.val().get_bits::<5>(0);
                    self.send.d.next = self.unskipped.q.val().get_bits::<5>(0);
                    self.read.d.next = self.ask_take.val() - self.unskipped.q.val();
                    self.addr.d.next = self.kept.q.val().data_addr;
                    if self.short.val() {
                        self.send.d.next = self.ask_take.val().get_bits::<5>(0);
                        self.read.d.next = 0.into();
                    }
                }
                self.state.d.next = StartTxState::Request;
            }
            StartTxState::Request => {
                self.rd_req.valid.next = self.read.q.val() != 0;
                if self.rd_req.ready.val() | (self.read.q.val() == 0) {
                    self.state.d.next = StartTxState::Skip;
                }
            }
            StartTxState::Skip => {
                if self.skip.q.val() == 0 {
                    self.state.d.next = StartTxState::Octets;
                } else {
                    self.skip.d.next = self.skip.q.val() - 1;
                    self.header.d.next = self.header.q.val() >> 8;
                }
            }
            StartTxState::Octets => {
                if self.send.q.val() != 0 {
                    self.put.next = true;
                    self.send.d.next = self.send.q.val() - 1;
                    self.header.d.next = self.header.q.val() >> 8;
                } else if self.have.q.val() != 0 {
                    self.put.next = true;
                    self.have.d.next = self.have.q.val() - 1;
                    self.word.d.next = self.word.q.val() >> 8;
                } else {
                    self.beats.out.ready.next = true;
                    self.word.d.next = self.beats.out.data.val().data;
                    if self.beats.out.valid.val() {
                        self.have.d.next = 8.into();
                        self.failed.d.next = self.beats.out.data.val().error;
                    }
                }
                if self.put.val() {
                    self.filling.d.next = (self.filling.q.val() >> 8) | (bit_cast::<64, 8>(self.octet.val()) << 56);
                    self.filled.d.next = self.filled.q.val() + 1;
                    self.keep.d.next = (self.keep.q.val() << 1) | 1;
                    self.left.d.next = self.left.q.val() - 1;
                    if (self.left.q.val() == 1) | (self.filled.q.val() == 7) {
                        self.state.d.next = StartTxState::Align;
                    }
                }
            }
            StartTxState::Align => {
                if self.filled.q.val() != 0 {
                    self.filling.d.next = self.filling.q.val() >> 8;
                    self.filled.d.next = self.filled.q.val() + 1;
                } else if self.done.val() & self.failed.q.val() & !self.told.q.val().get_bit(self.told_index.val().index()) {
                    self.state.d.next = StartTxState::Fault;
                } else {
                    self.state.d.next = StartTxState::Beat;
                }
            }
            StartTxState::Fault => {
                self.fault.valid.next = true;
                if self.fault.ready.val() {
                    self.told_now.next = self.told_now.val().replace_bit(self.told_index.val().index(), true);
                    self.state.d.next = StartTxState::Beat;
                }
            }
            StartTxState::Beat => {
                self.out.valid.next = true;
                if self.out.ready.val() {
                    self.keep.d.next = 0.into();
                    self.state.d.next = StartTxState::Octets;
                    if self.done.val() {
                        self.state.d.next = StartTxState::Idle;
                    }
                }
            }
            _ => {
                self.state.d.next = StartTxState::Idle;
            }
        }

        self.told.d.next = self.told_now.val();
        if self.reset.val() {
            self.state.d.next = StartTxState::Idle;
            self.told.d.next = 0.into();
        }
    }
}
