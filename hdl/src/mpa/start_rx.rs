// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives the MPA start-up frames of all connections (RFC 5044 section 7.1, RFC 6581 section 6), in whatever pieces TCP brings them, and
//! puts private data into host memory when it is asked to.
//!
//! **Interface.** `payload_meta` goes before each payload on `inp`; each payload is answered on `consumed` by the number of octets taken over
//! from its front, after all that it said went out on `result`. `deliver` (an index): write the private data to `pdata_base` + 512 * index;
//! answered on `result` by `Delivered` or `Failed`, at once if there is none. To be asked only after `Frame`, and an
//! index has no payload for its next connection before its answer came. `ready` is always true: no memory is read before it was written.
//!
//! **Rules.** The side that opened the connection sends a Request, the other a Reply; the other key is as wrong as any (MPA-7).
//! * `Malformed` with the first octet that shows it: a wrong octet of the key, PD_Length over 512 (the buffer), S in revision 2 with
//!   PD_Length below 4. `WrongRevision` with the Rev octet if it is not 1 or 2. After either, all that follows is taken over and forgotten.
//! * `Frame` with the last octet. Its flags have only the bits that mean something: M, C, R, and S in revision 2. S in revision 1 is a
//!   reserved bit: all is private data. Reserved bits and R in a Request are not looked at.
//! * Octets after a Request: `Excess` (MPA-10), then as after `Malformed`. Octets after a Reply are the peer's first FPDUs: not taken over, so TCP
//!   does not acknowledge them.
//!
//! `cnt_mpa_in_requests`, `cnt_mpa_in_replies`: with `Frame`; `cnt_mpa_malformed`: with `Malformed`, `WrongRevision` and `Excess`.
//!
//! **What may wait.** The input waits for `consumed` and `result`; never for the host. `deliver` waits for the delivery before, which ends when
//! the host's write does and `result` has room. An index has at most 2 results that were not taken (`Frame` and `Excess`, or `Excess` and `Delivered`), and they
//! must be taken before that index is used again. Whoever takes them may make this block wait (`connections` says why that ends).
//!
//! **States.** Receiver: `Idle` for a meta, `Load` the connection, `Octets` one by one, `Tell` a result, `Settle` until it was taken, `Answer`.
//! Deliverer, beside it: `Idle`, `Look` up the length, `Decide`, `Request`, `Gather` eight octets, `Beat`, `Written`, `Tell`.
//! **Timing.** A payload takes 5 clocks, 1 a beat, 1 an octet that is looked at, and 1 a result.
//! A delivery takes 11 clocks a beat beside what the host takes.
//! **Memory.** 2^C x 512 octets of private data (C = 5: 8 block RAMs), 2^C x 70 bits of state (2 block RAMs), 2^C lengths. `CP9` = C + 9.
use super::types::*;
use crate::host::dma::*;
use crate::stream::*;
use crate::tcp::types::PayloadIn;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum StartRxState {
    Idle,
    Load,
    Octets,
    Tell,
    Settle,
    Answer,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum DeliverState {
    Idle,
    Look,
    Decide,
    Request,
    Gather,
    Beat,
    Written,
    Tell,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum StartRxPhase {
    /// Octets of the frame are missing.
    Partial,
    Complete,
    /// Whatever comes is forgotten.
    Deaf,
}

/// What is known of the frame of one connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartRxConn {
    pub phase: StartRxPhase,
    /// Place of the next octet in the frame; 20..=23 are the enhanced words, 24 stands for all private data.
    pub at: Bits<5>,
    /// Octets of private data so far.
    pub put: Bits<9>,
    /// Upper half of the flag octet.
    pub flags: Bits<4>,
    pub rev: Bits<8>,
    /// Length of the private data without the enhanced words; after octet 18 only its upper part.
    pub data_len: Bits<10>,
    pub ird: Bits<16>,
    pub ord: Bits<16>,
}

#[derive(LogicBlock)]
pub struct StartRx<const C: usize, const CP9: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub pdata_base: Signal<In, Bits<64>>,
    pub payload_meta: ChanSink<PayloadIn>,
    pub inp: StreamSink,
    pub consumed: ChanSrc<Bits<16>>,
    pub deliver: ChanSink<Bits<16>>,
    pub result: ChanSrc<StartRxResult>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_beat: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub cnt_mpa_in_requests: Signal<Out, Bit>,
    pub cnt_mpa_in_replies: Signal<Out, Bit>,
    pub cnt_mpa_malformed: Signal<Out, Bit>,
    conns: BlockRam<StartRxConn, C>,
    private: BlockRam<Bits<8>, CP9>,
    /// Length of the private data of complete frames, for the deliverer.
    lengths: RAM<Bits<10>, C>,
    // receiver
    state: DFF<StartRxState>,
    meta: DFF<PayloadIn>,
    conn: DFF<StartRxConn>,
    /// Rest of the beat in work, next octet lowest.
    word: DFF<Bits<64>>,
    keep: DFF<Bits<8>>,
    last: DFF<Bit>,
    /// Octets of this payload that belong to the frame.
    count: DFF<Bits<16>>,
    note: DFF<StartRxNote>,
    told: DFF<StartRxResult>,
    offered: DFF<Bit>,
    // deliverer
    deliver_state: DFF<DeliverState>,
    deliver_index: DFF<Bits<16>>,
    /// Octets that were not yet given to the host.
    left: DFF<Bits<10>>,
    addr: DFF<Bits<64>>,
    get: DFF<Bits<9>>,
    step: DFF<Bits<4>>,
    fetched: DFF<Bits<8>>,
    gathered: DFF<Bits<64>>,
    failed: DFF<Bit>,
    partial: Signal<Local, Bit>,
    dull: Signal<Local, Bit>,
    octet: Signal<Local, Bits<8>>,
    upper: Signal<Local, Bits<2>>,
    at: Signal<Local, Bits<5>>,
    expected: Signal<Local, Bits<8>>,
    flags: Signal<Local, Bits<4>>,
    enhanced: Signal<Local, Bit>,
    pd_len: Signal<Local, Bits<10>>,
    final_put: Signal<Local, Bits<10>>,
    bad: Signal<Local, Bit>,
    complete: Signal<Local, Bit>,
    room: Signal<Local, Bit>,
    frame: Signal<Local, StartFrame>,
    index: Signal<Local, Bits<16>>,
    asked: Signal<Local, Bits<16>>,
    wanted: Signal<Local, Bits<16>>,
    write_address: Signal<Local, Bits<CP9>>,
    read_address: Signal<Local, Bits<CP9>>,
    reply_octet: Constant<Bits<8>>,
    key: [Constant<Bits<8>>; 16],
}

impl<const C: usize, const CP9: usize> Default for StartRx<C, CP9> {
    fn default() -> Self {
        assert!(CP9 == C + 9);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            pdata_base: Default::default(),
            payload_meta: Default::default(),
            inp: Default::default(),
            consumed: Default::default(),
            deliver: Default::default(),
            result: Default::default(),
            wr_req: Default::default(),
            wr_beat: Default::default(),
            wr_done: Default::default(),
            cnt_mpa_in_requests: Default::default(),
            cnt_mpa_in_replies: Default::default(),
            cnt_mpa_malformed: Default::default(),
            conns: Default::default(),
            private: Default::default(),
            lengths: Default::default(),
            state: Default::default(),
            meta: Default::default(),
            conn: Default::default(),
            word: Default::default(),
            keep: Default::default(),
            last: Default::default(),
            count: Default::default(),
            note: Default::default(),
            told: Default::default(),
            offered: Default::default(),
            deliver_state: Default::default(),
            deliver_index: Default::default(),
            left: Default::default(),
            addr: Default::default(),
            get: Default::default(),
            step: Default::default(),
            fetched: Default::default(),
            gathered: Default::default(),
            failed: Default::default(),
            partial: Default::default(),
            dull: Default::default(),
            octet: Default::default(),
            upper: Default::default(),
            at: Default::default(),
            expected: Default::default(),
            flags: Default::default(),
            enhanced: Default::default(),
            pd_len: Default::default(),
            final_put: Default::default(),
            bad: Default::default(),
            complete: Default::default(),
            room: Default::default(),
            frame: Default::default(),
            index: Default::default(),
            asked: Default::default(),
            wanted: Default::default(),
            write_address: Default::default(),
            read_address: Default::default(),
            // what tells a Request from a Reply is one octet of the key, 9
            reply_octet: Constant::new(u64::from(b'p').to_bits()),
            key: std::array::from_fn(|i| Constant::new(u64::from(b"MPA ID Req Frame"[i]).to_bits())),
        }
    }
}

impl<const C: usize, const CP9: usize> Logic for StartRx<C, CP9> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, meta, conn, word, keep, last, count, note, told, offered);
        dff_setup!(self, clock, deliver_state, deliver_index, left, addr, get, step, fetched, gathered, failed);
        self.conns.read_clock.next = self.clock.val();
        self.conns.write_clock.next = self.clock.val();
        self.private.read_clock.next = self.clock.val();
        self.private.write_clock.next = self.clock.val();
        self.lengths.read_clock.next = self.clock.val();
        self.lengths.write_clock.next = self.clock.val();
        self.ready.next = true;

        // one result at a time, the receiver's first
        self.room.next = !self.offered.q.val() | self.result.ready.val();
        self.result.valid.next = self.offered.q.val();
        self.result.data.next = self.told.q.val();
        if self.result.ready.val() {
            self.offered.d.next = false;
        }

        // receiver
        self.index.next = self.meta.q.val().index;
        self.partial.next = self.conn.q.val().phase == StartRxPhase::Partial;
        self.dull.next = (self.conn.q.val().phase == StartRxPhase::Deaf)
            | ((self.conn.q.val().phase == StartRxPhase::Complete) & !self.meta.q.val().passive);
        self.octet.next = self.word.q.val().get_bits::<8>(0);
        self.upper.next = self.octet.val().get_bits::<2>(0);
        self.at.next = self.conn.q.val().at;
        self.expected.next = 0.into();
        for i in 0..16 {
            if self.at.val().index() == i {
                self.expected.next = self.key[i].val();
            }
        }
        if !self.meta.q.val().passive & (self.at.val() == 9) {
            self.expected.next = self.reply_octet.val();
        }
        self.flags.next = self.conn.q.val().flags;
        self.enhanced.next = self.flags.val().get_bit(0) & (self.conn.q.val().rev == 2);
        self.pd_len.next = self.conn.q.val().data_len | bit_cast::<10, 8>(self.octet.val());
        self.final_put.next = self.conn.q.val().data_len - 1;
        self.bad.next = false;
        self.complete.next = false;

        self.frame.next.reply = !self.meta.q.val().passive;
        self.frame.next.flags = bit_cast::<8, 4>(self.flags.val()) << 4;
        if !self.enhanced.val() {
            self.frame.next.flags = bit_cast::<8, 3>(self.flags.val().get_bits::<3>(1)) << 5;
        }
        self.frame.next.rev = self.conn.q.val().rev;
        self.frame.next.data_len = bit_cast::<16, 10>(self.conn.q.val().data_len);
        self.frame.next.ird_word = self.conn.q.val().ird;
        self.frame.next.ord_word = self.conn.q.val().ord;

        self.payload_meta.ready.next = false;
        self.inp.ready.next = false;
        self.consumed.valid.next = false;
        self.consumed.data.next = self.meta.q.val().len;
        if !self.meta.q.val().passive & (self.conn.q.val().phase == StartRxPhase::Complete) {
            self.consumed.data.next = self.count.q.val();
        }
        self.asked.next = self.payload_meta.data.val().index;
        self.conns.read_address.next = self.asked.val().get_bits::<C>(0);
        self.conns.write_address.next = self.index.val().get_bits::<C>(0);
        self.conns.write_data.next = self.conn.q.val();
        self.conns.write_enable.next = false;
        self.write_address.next = (bit_cast::<CP9, C>(self.index.val().get_bits::<C>(0)) << 9) | bit_cast::<CP9, 9>(self.conn.q.val().put);
        self.private.write_address.next = self.write_address.val();
        self.private.write_data.next = self.octet.val();
        self.private.write_enable.next = false;
        self.lengths.write_address.next = self.index.val().get_bits::<C>(0);
        self.lengths.write_data.next = self.conn.q.val().data_len;
        self.lengths.write_enable.next = false;
        self.cnt_mpa_in_requests.next = false;
        self.cnt_mpa_in_replies.next = false;
        self.cnt_mpa_malformed.next = false;

        match self.state.q.val() {
            StartRxState::Idle => {
                self.payload_meta.ready.next = true;
                self.meta.d.next = self.payload_meta.data.val();
                self.keep.d.next = 0.into();
                self.last.d.next = false;
                self.count.d.next = 0.into();
                if self.payload_meta.valid.val() {
                    self.state.d.next = StartRxState::Load;
                }
            }
            StartRxState::Load => {
                self.conn.d.next = self.conns.read_data.val();
                if self.meta.q.val().first {
                    self.conn.d.next.phase = StartRxPhase::Partial;
                    self.conn.d.next.at = 0.into();
                    self.conn.d.next.put = 0.into();
                    self.conn.d.next.flags = 0.into();
                    self.conn.d.next.rev = 0.into();
                    self.conn.d.next.data_len = 0.into();
                    self.conn.d.next.ird = 0.into();
                    self.conn.d.next.ord = 0.into();
                }
                self.state.d.next = StartRxState::Octets;
            }
            StartRxState::Octets => {
                if self.keep.q.val().get_bit(0) & !self.dull.val() {
                    self.word.d.next = self.word.q.val() >> 8;
                    self.keep.d.next = self.keep.q.val() >> 1;
                    if self.partial.val() {
                        self.count.d.next = self.count.q.val() + 1;
                        self.conn.d.next.at = self.at.val() + 1;
                        if self.at.val() < 16 {
                            self.bad.next = self.octet.val() != self.expected.val();
                        }
                        if self.at.val() == 16 {
                            self.conn.d.next.flags = self.octet.val().get_bits::<4>(4);
                        }
                        if self.at.val() == 17 {
                            self.conn.d.next.rev = self.octet.val();
                            if (self.octet.val() != 1) & (self.octet.val() != 2) {
                                self.note.d.next = StartRxNote::WrongRevision;
                                self.conn.d.next.phase = StartRxPhase::Deaf;
                                self.state.d.next = StartRxState::Tell;
                            }
                        }
                        if self.at.val() == 18 {
                            self.conn.d.next.data_len = bit_cast::<10, 2>(self.upper.val()) << 8;
                            self.bad.next = self.octet.val() > 2;
                        }
                        if self.at.val() == 19 {
                            self.conn.d.next.data_len = self.pd_len.val();
                            self.bad.next = self.pd_len.val() > 512;
                            self.complete.next = self.pd_len.val() == 0;
                            if self.enhanced.val() {
                                self.conn.d.next.data_len = self.pd_len.val() - 4;
                                self.bad.next = (self.pd_len.val() > 512) | (self.pd_len.val() < 4);
                            } else {
                                self.conn.d.next.at = 24.into();
                            }
                        }
                        if (self.at.val() == 20) | (self.at.val() == 21) {
                            self.conn.d.next.ird = (self.conn.q.val().ird << 8) | bit_cast::<16, 8>(self.octet.val());
                        }
                        if (self.at.val() == 22) | (self.at.val() == 23) {
                            self.conn.d.next.ord = (self.conn.q.val().ord << 8) | bit_cast::<16, 8>(self.octet.val());
                        }
                        if self.at.val() == 23 {
                            self.complete.next = self.conn.q.val().data_len == 0;
                        }
                        if self.at.val() == 24 {
                            self.conn.d.next.at = 24.into();
                            self.conn.d.next.put = self.conn.q.val().put + 1;
                            self.private.write_enable.next = true;
                            self.complete.next = bit_cast::<10, 9>(self.conn.q.val().put) == self.final_put.val();
                        }
                        if self.complete.val() {
                            self.note.d.next = StartRxNote::Frame;
                            self.conn.d.next.phase = StartRxPhase::Complete;
                            self.state.d.next = StartRxState::Tell;
                        }
                        if self.bad.val() {
                            self.note.d.next = StartRxNote::Malformed;
                            self.conn.d.next.phase = StartRxPhase::Deaf;
                            self.state.d.next = StartRxState::Tell;
                        }
                    } else {
                        self.note.d.next = StartRxNote::Excess;
                        self.conn.d.next.phase = StartRxPhase::Deaf;
                        self.state.d.next = StartRxState::Tell;
                    }
                } else if self.last.q.val() {
                    self.state.d.next = StartRxState::Settle;
                } else {
                    self.inp.ready.next = true;
                    if self.inp.valid.val() {
                        self.word.d.next = self.inp.beat.val().data;
                        self.keep.d.next = self.inp.beat.val().keep;
                        self.last.d.next = self.inp.beat.val().last;
                    }
                }
            }
            StartRxState::Tell => {
                self.lengths.write_enable.next = self.note.q.val() == StartRxNote::Frame;
                if self.room.val() {
                    self.told.d.next.note = self.note.q.val();
                    self.told.d.next.index = self.index.val();
                    self.told.d.next.frame = self.frame.val();
                    self.offered.d.next = true;
                    self.cnt_mpa_malformed.next = self.note.q.val() != StartRxNote::Frame;
                    self.cnt_mpa_in_requests.next = (self.note.q.val() == StartRxNote::Frame) & self.meta.q.val().passive;
                    self.cnt_mpa_in_replies.next = (self.note.q.val() == StartRxNote::Frame) & !self.meta.q.val().passive;
                    self.state.d.next = StartRxState::Octets;
                }
            }
            StartRxState::Settle => {
                self.conns.write_enable.next = true;
                if !self.offered.q.val() {
                    self.state.d.next = StartRxState::Answer;
                }
            }
            StartRxState::Answer => {
                self.consumed.valid.next = true;
                if self.consumed.ready.val() {
                    self.state.d.next = StartRxState::Idle;
                }
            }
            _ => {
                self.state.d.next = StartRxState::Idle;
            }
        }

        // deliverer
        self.wanted.next = self.deliver.data.val();
        self.lengths.read_address.next = self.wanted.val().get_bits::<C>(0);
        self.read_address.next =
            (bit_cast::<CP9, C>(self.deliver_index.q.val().get_bits::<C>(0)) << 9) | bit_cast::<CP9, 9>(self.get.q.val());
        self.private.read_address.next = self.read_address.val();
        self.fetched.d.next = self.private.read_data.val();
        self.deliver.ready.next = false;
        self.wr_req.valid.next = false;
        self.wr_req.data.next.addr = self.addr.q.val();
        self.wr_req.data.next.len = bit_cast::<16, 10>(self.left.q.val());
        self.wr_beat.valid.next = false;
        self.wr_beat.data.next.data = self.gathered.q.val();
        self.wr_beat.data.next.last = self.left.q.val() <= 8;
        self.wr_beat.data.next.error = false;
        match self.deliver_state.q.val() {
            DeliverState::Idle => {
                self.deliver.ready.next = true;
                self.deliver_index.d.next = self.deliver.data.val();
                self.get.d.next = 0.into();
                self.step.d.next = 0.into();
                self.failed.d.next = false;
                if self.deliver.valid.val() {
                    self.deliver_state.d.next = DeliverState::Look;
                }
            }
            DeliverState::Look => {
                self.left.d.next = self.lengths.read_data.val();
                self.addr.d.next = self.pdata_base.val() + (bit_cast::<64, 16>(self.deliver_index.q.val()) << 9);
                self.deliver_state.d.next = DeliverState::Decide;
            }
            DeliverState::Decide => {
                self.deliver_state.d.next = DeliverState::Request;
                if self.left.q.val() == 0 {
                    self.deliver_state.d.next = DeliverState::Tell;
                }
            }
            DeliverState::Request => {
                self.wr_req.valid.next = true;
                if self.wr_req.ready.val() {
                    self.deliver_state.d.next = DeliverState::Gather;
                }
            }
            DeliverState::Gather => {
                // address, RAM, register: an octet is there two clocks after its address
                self.step.d.next = self.step.q.val() + 1;
                if self.step.q.val() < 8 {
                    self.get.d.next = self.get.q.val() + 1;
                }
                self.gathered.d.next = (self.gathered.q.val() >> 8) | (bit_cast::<64, 8>(self.fetched.q.val()) << 56);
                if self.step.q.val() == 9 {
                    self.step.d.next = 0.into();
                    self.deliver_state.d.next = DeliverState::Beat;
                }
            }
            DeliverState::Beat => {
                self.wr_beat.valid.next = true;
                if self.wr_beat.ready.val() {
                    self.left.d.next = self.left.q.val() - 8;
                    self.deliver_state.d.next = DeliverState::Gather;
                    if self.left.q.val() <= 8 {
                        self.deliver_state.d.next = DeliverState::Written;
                    }
                }
            }
            DeliverState::Written => {
                self.failed.d.next = self.wr_done.error.val();
                if self.wr_done.valid.val() {
                    self.deliver_state.d.next = DeliverState::Tell;
                }
            }
            DeliverState::Tell => {
                if self.room.val() & (self.state.q.val() != StartRxState::Tell) {
                    self.told.d.next.note = StartRxNote::Delivered;
                    if self.failed.q.val() {
                        self.told.d.next.note = StartRxNote::Failed;
                    }
                    self.told.d.next.index = self.deliver_index.q.val();
                    self.offered.d.next = true;
                    self.deliver_state.d.next = DeliverState::Idle;
                }
            }
            _ => {
                self.deliver_state.d.next = DeliverState::Idle;
            }
        }

        if self.reset.val() {
            self.state.d.next = StartRxState::Idle;
            self.deliver_state.d.next = DeliverState::Idle;
            self.offered.d.next = false;
        }
    }
}
