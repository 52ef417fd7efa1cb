// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assembles FPDUs from the octets that TCP brings, whatever its segments are, checks their CRC, and keeps each in a slot of memory for `rdma::rx`
//! (RFC 5044 sections 4, 6 and 8). There are never markers in what we receive (CH-16).
//!
//! **Interface.** `payload_meta` goes before each payload on `inp`; each payload is answered on `consumed` by the number of octets taken over from its front: before
//! its first octet, if it is sure that all will be; else after all that it said was offered on `fpdu`. What is not taken over comes again from the peer, from exactly there. `bind`: with `Bind`, index `index` is live and what comes next of it is
//! the first octet of an FPDU; with `Unbind` it is forgotten, and `unbound` says so, and whether that was in the middle of an FPDU, when all that was ever told of it on `fpdu` was taken. Of an index that is not
//! bound nothing is taken over. `fpdu` tells of whole FPDUs, of an index in their order. Slot `s` is words `s * 2^(S-3)` and following of the slot memory: `slot_data` is the word at
//! `slot_address` in the clock after. `free` gives a slot back. `ready` is low after reset until the memories are cleared (2^C or 2^P clocks).
//!
//! **Rules.** An FPDU is ULPDU_Length, ULPDU, 0 to 3 octets of pad, CRC; its start is known from the lengths before it alone (MPA-29).
//! * Nothing is told of an FPDU before all of it is there and its CRC is good (MPA-28): then `Whole`. Without CRC its field is not looked at (MPA-23).
//! * `BadCrc`, or `BadLength` as soon as 8 octets are there, if the FPDU is larger than a slot or ULPDU_Length below 14 with T, 18 without it (MPA-26).
//!   After either, all of that index is taken over and forgotten (MPA-37) until `Unbind`.
//!
//! **Slots.** 2^P of 2^(S-1) + 2^(T+3) octets. An FPDU gets one when its first 8 octets are there and has it until it is whole and `free`, or bad, or its index unbound. At the end of a payload a
//! *started* FPDU stays in its slot, but one slot is never left so: if 2^P - 1 are, an FPDU that began to fill its slot in this payload is taken back, the payload is taken over only to
//! its start, or to where it was before (`cnt_mpa_no_slot`). So when an FPDU needs a slot and none is free, at least one holds an FPDU that was told, and the block waits for `free`.
//! So a payload is taken over as a whole, and that is said at once, if its connection has an FPDU started or fewer than 2^P - 1 have: it can leave started the one at its end.
//! What follows: it never waits for a peer. An FPDU that comes whole in one segment is always taken, however many peers stop in the middle of theirs. All FPDUs in pieces are
//! taken (MPA-32) if there are more slots than connections; with fewer, those in pieces when 2^P - 1 are in pieces already must be sent again until one of these is whole or unbound.
//!
//! **Waits.** The input waits for `fpdu`, `free` and `consumed`; who takes `fpdu` must give its slots back without more payload and without an answer of `unbound`. `free` is taken in all
//! clocks but single ones. `unbound` waits for `fpdu`.
//!
//! **How.** Octets go through `held`, an aligner of 15 octets that takes a beat at any place and gives steps of an FPDU, 8 octets, or 4 at its end; behind a register each step goes to memory and into the CRC,
//! of which the field itself is part. What is left of a payload behind the last step, up to 7 octets, stays with the connection.
//! **States.** `Clear` after reset; `Idle`; `Half`, `Load` a connection; `Begin`: await 8 octets of an FPDU and a slot; `Steps`; `Check`, `Verdict` behind the last step; `Finish` a payload;
//! `Drain` what is not wanted; `Answer`, `Save` the connection; `Rebind`, `Unbound`.
//! **Timing.** A payload takes 6 clocks, 2 more if it ends within an FPDU, and each FPDU 3 beside its steps, of which there is one a clock: one FPDU in one payload, from one
//! `payload_meta` to the next, 13 clocks with a ULPDU of 22 octets, 18 of 64, 191 of 1446, 192 of 1454 (1460 octets; the wire brings them in 192.25). An FPDU of 28 octets behind others 7.
//! `consumed` comes 3 clocks behind `payload_meta` if it comes at once.
//! **Memory.** Slots of 1536 octets: 12 block RAMs (P = 4, S = 11, T = 6); 2^C x 2 words of 71 bits (2 block RAMs); 2^P slot numbers. `W` = P + S - 3, `B` = S - 3.
use super::crc32c::{Crc32c, GOOD};
use super::slot_ram::SlotRam;
use crate::rdma::types::*;
use crate::stream::*;
use crate::tcp::types::PayloadIn;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum MpaRxState {
    Clear,
    Idle,
    Half,
    Load,
    Begin,
    Steps,
    Check,
    Verdict,
    Finish,
    Drain,
    Answer,
    Save,
    Rebind,
    Unbound,
}

/// What is known of a connection between two payloads.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct MpaRxConn {
    /// Bound.
    pub live: Bit,
    /// An FPDU was bad.
    pub deaf: Bit,
    pub crc_on: Bit,
    /// An FPDU is started: it has `slot`, and `beat` words of it are written.
    pub started: Bit,
    pub slot: Bits<8>,
    pub beat: Bits<11>,
    /// Fours of octets behind those.
    pub left: Bits<13>,
    /// `left` is 1.
    pub half: Bit,
    pub len: Bits<14>,
    /// CRC over what is written.
    pub crc: Bits<32>,
    /// `count` octets that follow.
    pub count: Bits<3>,
    pub octets: Bits<56>,
}

#[derive(LogicBlock)]
pub struct MpaRx<const C: usize, const P: usize, const S: usize, const W: usize, const B: usize, const T: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub payload_meta: ChanSink<PayloadIn>,
    pub inp: StreamSink,
    pub consumed: ChanSrc<Bits<16>>,
    pub bind: ChanSink<Bind>,
    pub unbound: ChanSrc<MpaUnbound>,
    pub fpdu: ChanSrc<FpduIn>,
    pub slot_address: Signal<In, Bits<W>>,
    pub slot_data: Signal<Out, Bits<64>>,
    pub free: ChanSink<Bits<8>>,
    pub cnt_mpa_fpdus_in: Signal<Out, Bit>,
    pub cnt_mpa_crc_errors: Signal<Out, Bit>,
    pub cnt_mpa_bad_length: Signal<Out, Bit>,
    pub cnt_mpa_no_slot: Signal<Out, Bit>,
    slots: SlotRam<W, B, T>,
    conns: RowWords<MpaRxConn, C, 1, 71>,
    crc32c: Crc32c,
    state: DFF<MpaRxState>,
    index: DFF<Bits<16>>,
    len: DFF<Bits<16>>,
    conn: DFF<MpaRxConn>,
    // binding
    binding: DFF<Bit>,
    unbind: DFF<Bit>,
    bind_crc: DFF<Bit>,
    // payload
    /// Its last beat was taken.
    ended: DFF<Bit>,
    /// Octets of it in steps so far.
    stepped: DFF<Bits<16>>,
    /// Octets of it before the FPDU in work.
    start_at: DFF<Bits<16>>,
    /// The FPDU in work began in it.
    began: DFF<Bit>,
    /// The FPDU in work was started before it.
    old: DFF<Bit>,
    /// The connection is to stay as it was.
    keep_row: DFF<Bit>,
    answer: DFF<Bits<16>>,
    /// `answer` was known before the first octet / and was not taken yet.
    sure: DFF<Bit>,
    owes: DFF<Bit>,
    // aligner; octets beyond `count` are 0
    held: DFF<Bits<120>>,
    count: DFF<Bits<4>>,
    // step on its way to memory and CRC
    step: DFF<Bits<64>>,
    step_half: DFF<Bit>,
    step_there: DFF<Bit>,
    step_address: DFF<Bits<W>>,
    crc: DFF<Bits<32>>,
    told: DFF<FpduIn>,
    offered: DFF<Bit>,
    // slots that are free: numbers from `head` on, `stock` of them
    numbers: RAM<Bits<P>, P>,
    head: DFF<Bits<P>>,
    tail: DFF<Bits<P>>,
    stock: DFF<Bits<9>>,
    /// The number at `head` can be read.
    warm: DFF<Bit>,
    /// FPDUs that are started and not in work.
    started: DFF<Bits<9>>,
    sweep: DFF<Bits<16>>,
    /// What is unbound had a part of an FPDU.
    torn: DFF<Bit>,
    asked: Signal<Local, Bits<16>>,
    row: Signal<Local, MpaRxConn>,
    room: Signal<Local, Bit>,
    running: Signal<Local, Bit>,
    emit: Signal<Local, Bit>,
    after: Signal<Local, Bits<4>>,
    accept: Signal<Local, Bit>,
    octets: Signal<Local, Bits<64>>,
    number: Signal<Local, Bits<4>>,
    shifted: Signal<Local, Bits<120>>,
    shift: Signal<Local, Bits<7>>,
    placed: Signal<Local, Bits<120>>,
    keep: Signal<Local, Bits<8>>,
    high_octet: Signal<Local, Bits<8>>,
    low_octet: Signal<Local, Bits<8>>,
    ulpdu: Signal<Local, Bits<16>>,
    rounded: Signal<Local, Bits<16>>,
    bad_length: Signal<Local, Bit>,
    good: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    give: Signal<Local, Bit>,
    put: Signal<Local, Bit>,
    address: Signal<Local, Bits<W>>,
    slot: Signal<Local, Bits<8>>,
    begins: Signal<Local, Bits<16>>,
    answers: Signal<Local, Bit>,
    certain: Signal<Local, Bit>,
    ones: Constant<Bits<32>>,
    right: Constant<Bits<32>>,
    most_ulpdu: Constant<Bits<16>>,
    all_slots: Constant<Bits<9>>,
    most_started: Constant<Bits<9>>,
    last_row: Constant<Bits<16>>,
    slot_shift: Constant<Bits<4>>,
    /// Octets up to and with each lane, and how many they are.
    lanes: [Constant<Bits<64>>; 8],
    amounts: [Constant<Bits<4>>; 8],
}

impl<const C: usize, const P: usize, const S: usize, const W: usize, const B: usize, const T: usize> Default for MpaRx<C, P, S, W, B, T> {
    fn default() -> Self {
        assert!(W == P + S - 3 && B == S - 3 && (1..=8).contains(&P) && (6..=14).contains(&S) && (1..=16).contains(&C));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            payload_meta: Default::default(),
            inp: Default::default(),
            consumed: Default::default(),
            bind: Default::default(),
            unbound: Default::default(),
            fpdu: Default::default(),
            slot_address: Default::default(),
            slot_data: Default::default(),
            free: Default::default(),
            cnt_mpa_fpdus_in: Default::default(),
            cnt_mpa_crc_errors: Default::default(),
            cnt_mpa_bad_length: Default::default(),
            cnt_mpa_no_slot: Default::default(),
            slots: Default::default(),
            conns: Default::default(),
            crc32c: Default::default(),
            state: Default::default(),
            index: Default::default(),
            len: Default::default(),
            conn: Default::default(),
            binding: Default::default(),
            unbind: Default::default(),
            bind_crc: Default::default(),
            ended: Default::default(),
            stepped: Default::default(),
            start_at: Default::default(),
            began: Default::default(),
            old: Default::default(),
            keep_row: Default::default(),
            answer: Default::default(),
            sure: Default::default(),
            owes: Default::default(),
            held: Default::default(),
            count: Default::default(),
            step: Default::default(),
            step_half: Default::default(),
            step_there: Default::default(),
            step_address: Default::default(),
            crc: Default::default(),
            told: Default::default(),
            offered: Default::default(),
            numbers: Default::default(),
            head: Default::default(),
            tail: Default::default(),
            stock: Default::default(),
            warm: Default::default(),
            started: Default::default(),
            sweep: Default::default(),
            torn: Default::default(),
            asked: Default::default(),
            row: Default::default(),
            room: Default::default(),
            running: Default::default(),
            emit: Default::default(),
            after: Default::default(),
            accept: Default::default(),
            octets: Default::default(),
            number: Default::default(),
            shifted: Default::default(),
            shift: Default::default(),
            placed: Default::default(),
            keep: Default::default(),
            high_octet: Default::default(),
            low_octet: Default::default(),
            ulpdu: Default::default(),
            rounded: Default::default(),
            bad_length: Default::default(),
            good: Default::default(),
            take: Default::default(),
            give: Default::default(),
            put: Default::default(),
            address: Default::default(),
            slot: Default::default(),
            begins: Default::default(),
            answers: Default::default(),
            certain: Default::default(),
            ones: Constant::new(u64::from(u32::MAX).to_bits()),
            right: Constant::new(u64::from(GOOD).to_bits()),
            // a slot is a multiple of 4 octets, so the pad makes no difference
            most_ulpdu: Constant::new(((1u64 << (S - 1)) + (8u64 << T) - 6).to_bits()),
            all_slots: Constant::new((1u64 << P).to_bits()),
            most_started: Constant::new(((1u64 << P) - 1).to_bits()),
            last_row: Constant::new(((1u64 << C.max(P)) - 1).to_bits()),
            slot_shift: Constant::new((S as u64 - 3).to_bits()),
            lanes: std::array::from_fn(|i| Constant::new((u64::MAX >> (56 - 8 * i)).to_bits())),
            amounts: std::array::from_fn(|i| Constant::new((i as u64 + 1).to_bits())),
        }
    }
}

impl<const C: usize, const P: usize, const S: usize, const W: usize, const B: usize, const T: usize> Logic for MpaRx<C, P, S, W, B, T> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, index, len, conn, binding, unbind, bind_crc, ended, stepped, start_at, began, old, keep_row, answer, sure,
            owes
        );
        dff_setup!(self, clock, held, count, step, step_half, step_there, step_address, crc, told, offered);
        dff_setup!(self, clock, head, tail, stock, warm, started, sweep, torn);
        clock!(self, clock, slots);
        clock!(self, clock, conns);
        self.numbers.read_clock.next = self.clock.val();
        self.numbers.write_clock.next = self.clock.val();
        self.ready.next = self.state.q.val() != MpaRxState::Clear;
        self.payload_meta.ready.next = false;
        self.bind.ready.next = false;
        self.cnt_mpa_fpdus_in.next = false;
        self.cnt_mpa_crc_errors.next = false;
        self.cnt_mpa_bad_length.next = false;
        self.cnt_mpa_no_slot.next = false;
        self.take.next = false;
        self.give.next = false;

        self.slots.read_address.next = self.slot_address.val();
        self.slot_data.next = self.slots.read_data.val();

        self.room.next = !self.offered.q.val() | self.fpdu.ready.val();
        self.fpdu.valid.next = self.offered.q.val();
        self.fpdu.data.next = self.told.q.val();
        if self.fpdu.ready.val() {
            self.offered.d.next = false;
        }

        // a step is given, and a beat is taken behind what is then held
        self.running.next = (self.state.q.val() == MpaRxState::Begin)
            | (self.state.q.val() == MpaRxState::Steps)
            | (self.state.q.val() == MpaRxState::Check)
            | (self.state.q.val() == MpaRxState::Verdict);
        self.emit.next = (self.state.q.val() == MpaRxState::Steps)
            & (self.count.q.val().get_bit(3) | (self.conn.q.val().half & self.count.q.val().get_bit(2)));
        self.after.next = self.count.q.val();
        self.shifted.next = self.held.q.val();
        if self.emit.val() {
            self.after.next = self.count.q.val() - 8;
            self.shifted.next = self.held.q.val() >> 64;
            if self.conn.q.val().half {
                self.after.next = self.count.q.val() - 4;
                self.shifted.next = self.held.q.val() >> 32;
            }
        }
        self.accept.next = self.running.val() & !self.ended.q.val() & !self.after.val().get_bit(3);
        self.keep.next = self.inp.beat.val().keep;
        self.octets.next = 0.into();
        self.number.next = 0.into();
        for i in 0..8 {
            if self.keep.val().get_bit(i) {
                self.octets.next = self.inp.beat.val().data & self.lanes[i].val();
                self.number.next = self.amounts[i].val();
            }
        }
        self.shift.next = bit_cast::<7, 3>(self.after.val().get_bits::<3>(0)) << 3;
        self.placed.next = bit_cast::<120, 64>(self.octets.val()) << self.shift.val();
        self.held.d.next = self.shifted.val();
        self.count.d.next = self.after.val();
        if self.accept.val() & self.inp.valid.val() {
            self.held.d.next = self.shifted.val() | self.placed.val();
            self.count.d.next = self.after.val() + self.number.val();
        }
        self.inp.ready.next = self.accept.val() | ((self.state.q.val() == MpaRxState::Drain) & !self.ended.q.val());
        if (self.accept.val() | (self.state.q.val() == MpaRxState::Drain)) & self.inp.valid.val() & self.inp.beat.val().last {
            self.ended.d.next = true;
        }

        // memory and CRC
        self.slot.next = self.conn.q.val().slot;
        self.address.next = (bit_cast::<W, 8>(self.slot.val()) << self.slot_shift.val()) | bit_cast::<W, 11>(self.conn.q.val().beat);
        self.step.d.next = self.held.q.val().get_bits::<64>(0);
        self.step_half.d.next = self.conn.q.val().half;
        self.step_there.d.next = self.emit.val();
        self.step_address.d.next = self.address.val();
        self.slots.write_address.next = self.step_address.q.val();
        self.slots.write_data.next = self.step.q.val();
        self.slots.write_enable.next = self.step_there.q.val();
        self.crc32c.crc.next = self.crc.q.val();
        self.crc32c.data.next = self.step.q.val();
        self.crc32c.half.next = self.step_half.q.val();
        if self.step_there.q.val() {
            self.crc.d.next = self.crc32c.out.val();
        }
        self.good.next = (self.crc.q.val() == self.right.val()) | !self.conn.q.val().crc_on;

        // an FPDU that begins with what is held
        self.high_octet.next = self.held.q.val().get_bits::<8>(0);
        self.low_octet.next = self.held.q.val().get_bits::<8>(8);
        self.ulpdu.next = (bit_cast::<16, 8>(self.high_octet.val()) << 8) | bit_cast::<16, 8>(self.low_octet.val());
        self.rounded.next = self.ulpdu.val() + 9;
        self.bad_length.next = (self.ulpdu.val() > self.most_ulpdu.val())
            | (self.ulpdu.val() < 14)
            | ((self.ulpdu.val() < 18) & !self.held.q.val().get_bit(23));

        self.asked.next = self.payload_meta.data.val().index;
        if self.bind.valid.val() {
            self.asked.next = self.bind.data.val().index;
        }
        // the state of the connection as it is to be kept, a half of it in each of two clocks
        self.conns.index.next = self.index.q.val().get_bits::<C>(0);
        self.conns.word.next = 0.into();
        self.conns.write.next = false;
        self.conns.value.next = self.conn.q.val();
        if (self.state.q.val() == MpaRxState::Answer) | (self.state.q.val() == MpaRxState::Rebind) {
            self.conns.value.next.crc = self.crc.q.val();
            self.conns.value.next.count = self.count.q.val().get_bits::<3>(0);
            self.conns.value.next.octets = self.held.q.val().get_bits::<56>(0);
        }
        if self.state.q.val() == MpaRxState::Rebind {
            self.conns.value.next.live = !self.unbind.q.val();
            self.conns.value.next.deaf = false;
            self.conns.value.next.crc_on = self.bind_crc.q.val();
            self.conns.value.next.started = false;
            self.conns.value.next.count = 0.into();
            self.conns.value.next.octets = 0.into();
        } else if self.state.q.val() == MpaRxState::Clear {
            self.conns.value.next.live = false;
            self.conns.value.next.started = false;
        }
        self.row.next = self.conns.turned.val();
        self.begins.next = bits::<16>(0) - bit_cast::<16, 3>(self.row.val().count);
        self.answers.next = self.owes.q.val() | ((self.state.q.val() == MpaRxState::Answer) & !self.sure.q.val());
        self.consumed.valid.next = self.answers.val();
        self.consumed.data.next = self.answer.q.val();
        if self.consumed.ready.val() {
            self.owes.d.next = false;
        }
        // nothing of the payload can be left over: it may leave an FPDU started, or is dropped
        self.certain.next =
            self.row.val().started | self.row.val().deaf | !self.row.val().live | (self.started.q.val() != self.most_started.val());
        self.unbound.valid.next = (self.state.q.val() == MpaRxState::Unbound) & !self.offered.q.val();
        self.unbound.data.next.index = self.index.q.val();
        self.unbound.data.next.torn = self.torn.q.val();
        match self.state.q.val() {
            MpaRxState::Clear => {
                // what must be 0 is in the first half
                self.conns.index.next = self.sweep.q.val().get_bits::<C>(0);
                self.conns.write.next = true;
                self.sweep.d.next = self.sweep.q.val() + 1;
                self.head.d.next = 0.into();
                self.tail.d.next = 0.into();
                self.started.d.next = 0.into();
                if self.sweep.q.val() == self.last_row.val() {
                    self.state.d.next = MpaRxState::Idle;
                }
            }
            MpaRxState::Idle => {
                self.bind.ready.next = true;
                self.payload_meta.ready.next = !self.bind.valid.val();
                self.conns.index.next = self.asked.val().get_bits::<C>(0);
                self.index.d.next = self.asked.val();
                self.len.d.next = self.payload_meta.data.val().len;
                self.binding.d.next = self.bind.valid.val();
                self.unbind.d.next = self.bind.data.val().op == BindOp::Unbind;
                self.bind_crc.d.next = self.bind.data.val().crc;
                self.ended.d.next = false;
                self.start_at.d.next = 0.into();
                self.keep_row.d.next = false;
                if self.bind.valid.val() | self.payload_meta.valid.val() {
                    self.state.d.next = MpaRxState::Half;
                }
            }
            MpaRxState::Half => {
                self.conns.word.next = 1.into();
                self.conn.d.next = self.conns.turned.val();
                self.state.d.next = MpaRxState::Load;
            }
            MpaRxState::Load => {
                self.conn.d.next = self.row.val();
                self.crc.d.next = self.row.val().crc;
                self.held.d.next = bit_cast::<120, 56>(self.row.val().octets);
                self.count.d.next = bit_cast::<4, 3>(self.row.val().count);
                self.stepped.d.next = self.begins.val();
                self.began.d.next = self.row.val().count == 0;
                self.old.d.next = self.row.val().started;
                self.answer.d.next = self.len.q.val();
                self.sure.d.next = self.certain.val();
                self.owes.d.next = self.certain.val() & !self.binding.q.val();
                self.state.d.next = MpaRxState::Begin;
                if self.row.val().started {
                    self.state.d.next = MpaRxState::Steps;
                }
                if self.row.val().deaf {
                    self.state.d.next = MpaRxState::Drain;
                }
                if !self.row.val().live {
                    self.answer.d.next = 0.into();
                    self.keep_row.d.next = true;
                    self.state.d.next = MpaRxState::Drain;
                }
                if self.binding.q.val() {
                    self.state.d.next = MpaRxState::Rebind;
                }
            }
            MpaRxState::Begin => {
                self.crc.d.next = self.ones.val();
                if self.count.q.val().get_bit(3) {
                    self.conn.d.next.slot = bit_cast::<8, P>(self.numbers.read_data.val());
                    self.conn.d.next.beat = 0.into();
                    self.conn.d.next.left = self.rounded.val().get_bits::<13>(2);
                    self.conn.d.next.half = false;
                    self.conn.d.next.len = self.ulpdu.val().get_bits::<14>(0);
                    if self.bad_length.val() {
                        if self.room.val() {
                            self.told.d.next.note = FpduNote::BadLength;
                            self.told.d.next.index = self.index.q.val();
                            self.told.d.next.len = self.ulpdu.val();
                            self.offered.d.next = true;
                            self.cnt_mpa_bad_length.next = true;
                            self.conn.d.next.deaf = true;
                            self.state.d.next = MpaRxState::Drain;
                        }
                    } else if self.warm.q.val() {
                        self.take.next = true;
                        self.conn.d.next.started = true;
                        self.state.d.next = MpaRxState::Steps;
                    }
                } else if self.ended.q.val() {
                    self.state.d.next = MpaRxState::Finish;
                }
            }
            MpaRxState::Steps => {
                if self.emit.val() {
                    self.conn.d.next.beat = self.conn.q.val().beat + 1;
                    self.conn.d.next.left = self.conn.q.val().left - 2;
                    self.conn.d.next.half = self.conn.q.val().left == 3;
                    self.stepped.d.next = self.stepped.q.val() + 8;
                    if self.conn.q.val().half {
                        self.stepped.d.next = self.stepped.q.val() + 4;
                    }
                    if self.conn.q.val().half | (self.conn.q.val().left == 2) {
                        self.state.d.next = MpaRxState::Check;
                    }
                } else if self.ended.q.val() {
                    self.state.d.next = MpaRxState::Finish;
                }
            }
            MpaRxState::Check => {
                self.state.d.next = MpaRxState::Verdict;
            }
            MpaRxState::Verdict => {
                if self.room.val() {
                    self.told.d.next.index = self.index.q.val();
                    self.told.d.next.slot = self.slot.val();
                    self.told.d.next.len = bit_cast::<16, 14>(self.conn.q.val().len);
                    self.offered.d.next = true;
                    self.conn.d.next.started = false;
                    if self.old.q.val() {
                        self.started.d.next = self.started.q.val() - 1;
                    }
                    self.old.d.next = false;
                    self.start_at.d.next = self.stepped.q.val();
                    self.began.d.next = true;
                    if self.good.val() {
                        self.told.d.next.note = FpduNote::Whole;
                        self.cnt_mpa_fpdus_in.next = true;
                        self.state.d.next = MpaRxState::Begin;
                        if self.ended.q.val() & (self.count.q.val() == 0) {
                            self.state.d.next = MpaRxState::Answer;
                        }
                    } else {
                        self.told.d.next.note = FpduNote::BadCrc;
                        self.cnt_mpa_crc_errors.next = true;
                        self.give.next = true;
                        self.conn.d.next.deaf = true;
                        self.state.d.next = MpaRxState::Drain;
                    }
                }
            }
            MpaRxState::Finish => {
                if self.conn.q.val().started & !self.old.q.val() {
                    if self.started.q.val() == self.most_started.val() {
                        self.cnt_mpa_no_slot.next = true;
                        self.give.next = true;
                        self.conn.d.next.started = false;
                        self.count.d.next = 0.into();
                        self.held.d.next = 0.into();
                        self.answer.d.next = self.start_at.q.val();
                        self.keep_row.d.next = !self.began.q.val();
                    } else {
                        self.started.d.next = self.started.q.val() + 1;
                    }
                }
                self.state.d.next = MpaRxState::Answer;
            }
            MpaRxState::Drain => {
                if self.ended.q.val() {
                    self.state.d.next = MpaRxState::Answer;
                }
            }
            MpaRxState::Answer => {
                self.conns.write.next = !self.keep_row.q.val();
                if !self.answers.val() | self.consumed.ready.val() {
                    self.conn.d.next = self.conns.turned.val();
                    self.state.d.next = MpaRxState::Save;
                    if self.keep_row.q.val() {
                        self.state.d.next = MpaRxState::Idle;
                    }
                }
            }
            MpaRxState::Save => {
                self.conns.word.next = 1.into();
                self.conns.write.next = true;
                self.state.d.next = MpaRxState::Idle;
                if self.binding.q.val() & self.unbind.q.val() {
                    self.state.d.next = MpaRxState::Unbound;
                }
            }
            MpaRxState::Rebind => {
                self.conns.write.next = true;
                self.conn.d.next = self.conns.turned.val();
                self.torn.d.next =
                    self.conn.q.val().live & !self.conn.q.val().deaf & (self.conn.q.val().started | self.count.q.val().any());
                if self.conn.q.val().started {
                    self.give.next = true;
                    self.started.d.next = self.started.q.val() - 1;
                }
                self.state.d.next = MpaRxState::Save;
            }
            MpaRxState::Unbound => {
                if !self.offered.q.val() & self.unbound.ready.val() {
                    self.state.d.next = MpaRxState::Idle;
                }
            }
            _ => {
                self.state.d.next = MpaRxState::Clear;
            }
        }

        // slots that are free
        self.free.ready.next = !self.give.val() & (self.state.q.val() != MpaRxState::Clear);
        self.put.next = self.give.val() | (self.free.valid.val() & (self.state.q.val() != MpaRxState::Clear));
        self.numbers.read_address.next = self.head.q.val();
        self.numbers.write_address.next = self.tail.q.val();
        self.numbers.write_data.next = self.free.data.val().get_bits::<P>(0);
        self.numbers.write_enable.next = self.put.val();
        if self.give.val() {
            self.numbers.write_data.next = self.slot.val().get_bits::<P>(0);
        }
        if self.put.val() {
            self.tail.d.next = self.tail.q.val() + 1;
        }
        if self.take.val() {
            self.head.d.next = self.head.q.val() + 1;
        }
        if self.put.val() & !self.take.val() {
            self.stock.d.next = self.stock.q.val() + 1;
        }
        if self.take.val() & !self.put.val() {
            self.stock.d.next = self.stock.q.val() - 1;
        }
        self.warm.d.next = (self.stock.q.val() != 0) & !self.take.val();
        if self.state.q.val() == MpaRxState::Clear {
            self.numbers.write_address.next = self.sweep.q.val().get_bits::<P>(0);
            self.numbers.write_data.next = self.sweep.q.val().get_bits::<P>(0);
            self.numbers.write_enable.next = true;
            self.stock.d.next = self.all_slots.val();
            self.warm.d.next = false;
        }

        if self.reset.val() {
            self.state.d.next = MpaRxState::Clear;
            self.sweep.d.next = 0.into();
            self.offered.d.next = false;
            self.owes.d.next = false;
            self.step_there.d.next = false;
        }
    }
}
