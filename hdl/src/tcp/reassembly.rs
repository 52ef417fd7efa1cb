// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reassembly: keeps segments that are ahead of RCV.NXT until the hole before them is filled (TCP-19). Between `seg_rx` on one side, `rx` and the
//! receiver of payload on the other; all else passes through.
//!
//! **Interface.** `segment`, `verdict`, `payload_meta`, `inp` are those of `seg_rx`, where `segment.data` stays until the verdict was taken; `offer`,
//! `judged` go to and come from `rx`, `announce` and `out` to the receiver. After each segment taken from `offer` comes one verdict on `judged` and
//! after that one `note` with `settled`. With `hold` in the verdict, the payload goes from `seg_rx` into a slot of the pool, or nowhere if there is
//! none. When `rx` notes that RCV.NXT of a connection `advanced`, its slots are gone through before anything new: each that begins at or before
//! RCV.NXT is offered as a `replay`, whose verdict says what of the payload goes to the receiver, and is free then; again until none is left that can
//! be used; then `rx` hears so by an empty replay, at which it acknowledges (TCP-52). Slots of a connection that `forget` names are free at once,
//! also while they are written. The receiver may have answered `rx` for a payload that is still on its way to it: one that was held waits until it has passed.
//!
//! **Rules.** A segment that is held already, with the same SEQ and at least as long (FIN counts), is not held twice; a longer one takes its place. Else
//! a connection gets a slot only while more are free than it has, so that one, with a hole that is never filled, gets half of the pool, the next
//! half of what is left, and so on. What gets none (the newest) is dropped, and is not acknowledged, as nothing in a slot is: what is
//! held may be lost by a reset or `forget` without harm (TCP-51). What is longer than a slot is dropped.
//! `cnt_tcp_in_ooo`: a segment goes into a slot; `cnt_tcp_ooo_dropped`: it does not.
//!
//! **States.** `Pass` a segment on, `Judge` it, `Settle` until `rx` has dealt with it. To hold it: `Scan` the slots, with `Fetch`, `Weigh` and `Compare` for one
//! of the same connection; `Enter` what it is, `Answer` the verdict of `seg_rx`, then, with payload, `Meta`, `Fill`. To replay: `Scan` likewise, `Offer`; if some is
//! wanted `Announce` it, `Load` the first word, `Play`.
//!
//! **No circle.** The block waits for `rx` to take, to judge and to settle what it was offered, for `seg_rx` to give a payload that it was asked for,
//! for the receiver to take one that `rx` has promised. `rx` needs nothing from here for any of it, because notes are always taken; and it comes to
//! an end with each segment as it did without this block between. Between two segments of `seg_rx` there are at most S replays and an empty one.
//!
//! **Timing.** What passes through is not a clock later than without the block. Holding: 1 clock a slot and 3 more for each of the same connection, 3,
//! and 1 a beat. Replay: the scan likewise, then 10 clocks for 8 octets: the receiver of start-up frames takes an octet a clock.
//!
//! **Memory.** S slots of W words of 64 bits, the first of which is SEQ, length and flags; 2^A words at most. `ecp5`: 8 x 192 words, 6 DP16KD. For each slot
//! whose it is, in registers. No word is read that was not written.
use super::types::{PayloadIn, ReassemblyNote, SegmentIn, Verdict};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ReassemblyState {
    Pass,
    Judge,
    Settle,
    Scan,
    Fetch,
    Weigh,
    Compare,
    Enter,
    Answer,
    Meta,
    Fill,
    Offer,
    Announce,
    Load,
    Play,
}

/// `C`: log2 of connections; `S` slots of `W` words; 2^A >= S * W.
#[derive(LogicBlock)]
pub struct Reassembly<const C: usize, const S: usize, const W: usize, const A: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub segment: ChanSink<SegmentIn>,
    pub verdict: ChanSrc<Verdict>,
    pub payload_meta: ChanSink<PayloadIn>,
    pub inp: StreamSink,
    pub offer: ChanSrc<SegmentIn>,
    pub judged: ChanSink<Verdict>,
    pub announce: ChanSrc<PayloadIn>,
    pub out: StreamSrc,
    pub note: Signal<In, ReassemblyNote>,
    pub cnt_tcp_in_ooo: Signal<Out, Bit>,
    pub cnt_tcp_ooo_dropped: Signal<Out, Bit>,
    pool: BlockRam<Bits<64>, A>,
    used: [DFF<Bit>; S],
    owner: [DFF<Bits<C>>; S],
    state: DFF<ReassemblyState>,
    /// `rx` has not settled what it took.
    busy: DFF<Bit>,
    /// A payload of `seg_rx` is on its way to the receiver.
    flows: DFF<Bit>,
    /// RCV.NXT of `index` advanced, and the slots were not gone through to the end since.
    due: DFF<Bit>,
    /// What is under way is a replay.
    replay: DFF<Bit>,
    /// The empty one.
    empty: DFF<Bit>,
    more: DFF<Bit>,
    /// Whose segment is under way.
    index: DFF<Bits<16>>,
    /// `forget` came for it while it is being held.
    lost: DFF<Bit>,
    /// SEQ to be held, or RCV.NXT.
    key: DFF<Bits<32>>,
    // the scan
    slot: DFF<Bits<8>>,
    own: DFF<Bits<8>>,
    free: DFF<Bits<8>>,
    free_slot: DFF<Bits<8>>,
    same: DFF<Bit>,
    same_slot: DFF<Bits<8>>,
    covered: DFF<Bit>,
    /// First word of a slot; in `Play` what is left of a word of payload.
    word: DFF<Bits<64>>,
    distance: DFF<Bits<32>>,
    reaches: DFF<Bit>,
    store: DFF<Bit>,
    at: DFF<Bits<A>>,
    // the replay
    skip: DFF<Bits<16>>,
    left: DFF<Bits<16>>,
    first: DFF<Bit>,
    passive: DFF<Bit>,
    full: DFF<Bit>,
    /// Octets that `word` has still.
    lanes: DFF<Bits<4>>,
    /// Octets to be dropped from its front.
    surplus: DFF<Bits<3>>,
    put: DFF<Bits<64>>,
    fill: DFF<Bits<4>>,
    mine: Signal<Local, Bits<C>>,
    forgotten: Signal<Local, Bits<C>>,
    forgotten_index: Signal<Local, Bits<16>>,
    forgets_mine: Signal<Local, Bit>,
    slot_used: Signal<Local, Bit>,
    slot_own: Signal<Local, Bit>,
    base: Signal<Local, Bits<A>>,
    flags: Signal<Local, Bits<8>>,
    len: Signal<Local, Bits<16>>,
    size: Signal<Local, Bits<17>>,
    held_len: Signal<Local, Bits<16>>,
    held_size: Signal<Local, Bits<17>>,
    has_payload: Signal<Local, Bit>,
    fits: Signal<Local, Bit>,
    takes: Signal<Local, Bit>,
    scan: Signal<Local, Bit>,
    next: Signal<Local, Bit>,
    enter: Signal<Local, Bit>,
    leave: Signal<Local, Bit>,
    octet: Signal<Local, Bits<64>>,
    lane_shift: Constant<Bits<64>>,
    slots: Constant<Bits<8>>,
    bases: [Constant<Bits<A>>; S],
    keeps: [Constant<Bits<8>>; 8],
    room: Constant<Bits<16>>,
}

impl<const C: usize, const S: usize, const W: usize, const A: usize> Default for Reassembly<C, S, W, A> {
    fn default() -> Self {
        assert!(C <= 16 && S < 256 && W > 1 && S * W <= 1 << A && A <= 16);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            segment: Default::default(),
            verdict: Default::default(),
            payload_meta: Default::default(),
            inp: Default::default(),
            offer: Default::default(),
            judged: Default::default(),
            announce: Default::default(),
            out: Default::default(),
            note: Default::default(),
            cnt_tcp_in_ooo: Default::default(),
            cnt_tcp_ooo_dropped: Default::default(),
            pool: BlockRam::of_depth(S * W),
            used: std::array::from_fn(|_| Default::default()),
            owner: std::array::from_fn(|_| Default::default()),
            state: Default::default(),
            busy: Default::default(),
            flows: Default::default(),
            due: Default::default(),
            replay: Default::default(),
            empty: Default::default(),
            more: Default::default(),
            index: Default::default(),
            lost: Default::default(),
            key: Default::default(),
            slot: Default::default(),
            own: Default::default(),
            free: Default::default(),
            free_slot: Default::default(),
            same: Default::default(),
            same_slot: Default::default(),
            covered: Default::default(),
            word: Default::default(),
            distance: Default::default(),
            reaches: Default::default(),
            store: Default::default(),
            at: Default::default(),
            skip: Default::default(),
            left: Default::default(),
            first: Default::default(),
            passive: Default::default(),
            full: Default::default(),
            lanes: Default::default(),
            surplus: Default::default(),
            put: Default::default(),
            fill: Default::default(),
            mine: Default::default(),
            forgotten: Default::default(),
            forgotten_index: Default::default(),
            forgets_mine: Default::default(),
            slot_used: Default::default(),
            slot_own: Default::default(),
            base: Default::default(),
            flags: Default::default(),
            len: Default::default(),
            size: Default::default(),
            held_len: Default::default(),
            held_size: Default::default(),
            has_payload: Default::default(),
            fits: Default::default(),
            takes: Default::default(),
            scan: Default::default(),
            next: Default::default(),
            enter: Default::default(),
            leave: Default::default(),
            octet: Default::default(),
            lane_shift: Constant::new(56u64.to_bits()),
            slots: Constant::new((S as u64).to_bits()),
            bases: std::array::from_fn(|n| Constant::new(((n * W) as u64).to_bits())),
            // octets of the last beat as a function of their number modulo 8
            keeps: std::array::from_fn(|n| Constant::new(if n == 0 { 0xff } else { (1u64 << n) - 1 }.to_bits())),
            room: Constant::new((8 * (W as u64 - 1)).to_bits()),
        }
    }
}

impl<const C: usize, const S: usize, const W: usize, const A: usize> Logic for Reassembly<C, S, W, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, busy, flows, due, replay, empty, more, index, lost, key, slot, own, free, free_slot, same, same_slot
        );
        dff_setup!(self, clock, covered, word, distance, reaches, store, at, skip, left, first, passive, full, lanes, surplus, put, fill);
        for i in 0..S {
            self.used[i].clock.next = self.clock.val();
            self.used[i].d.next = self.used[i].q.val();
            self.owner[i].clock.next = self.clock.val();
            self.owner[i].d.next = self.owner[i].q.val();
        }
        self.pool.read_clock.next = self.clock.val();
        self.pool.write_clock.next = self.clock.val();

        self.mine.next = self.index.q.val().get_bits::<C>(0);
        self.forgotten_index.next = self.note.val().index;
        self.forgotten.next = self.forgotten_index.val().get_bits::<C>(0);
        self.forgets_mine.next = self.note.val().forget & (self.forgotten.val() == self.mine.val());
        self.slot_used.next = false;
        self.slot_own.next = false;
        self.base.next = 0.into();
        for i in 0..S {
            if self.slot.q.val().index() == i {
                self.slot_used.next = self.used[i].q.val();
                self.slot_own.next = self.owner[i].q.val() == self.mine.val();
                self.base.next = self.bases[i].val();
            }
        }

        // the segment at hand, and the one in a slot: octets, and twice that with FIN as one more
        self.flags.next = self.segment.data.val().flags;
        self.len.next = self.segment.data.val().len;
        self.has_payload.next = self.len.val().any();
        self.size.next = bit_cast::<17, 16>(self.len.val()) << 1;
        if self.flags.val().get_bit(0) {
            self.size.next = self.size.val() + 1;
        }
        self.held_len.next = self.word.q.val().get_bits::<16>(32);
        self.held_size.next = bit_cast::<17, 16>(self.held_len.val()) << 1;
        if self.word.q.val().get_bit(48) {
            self.held_size.next = self.held_size.val() + 1;
        }
        self.fits.next = self.len.val() <= self.room.val();
        self.takes.next = self.fits.val() & (self.own.q.val() < self.free.q.val());
        if self.same.q.val() {
            self.takes.next = self.fits.val() & !self.covered.q.val();
        }
        self.distance.d.next = self.key.q.val() - self.word.q.val().get_bits::<32>(0);
        self.reaches.d.next = self.held_size.val() >= self.size.val();

        // all that is not said otherwise below passes through, except segments and verdicts
        self.offer.data.next = self.segment.data.val();
        self.offer.valid.next = false;
        self.segment.ready.next = false;
        self.judged.ready.next = false;
        self.verdict.valid.next = false;
        self.verdict.data.next = self.judged.data.val();
        self.announce.data.next = self.payload_meta.data.val();
        self.announce.valid.next = self.payload_meta.valid.val();
        self.payload_meta.ready.next = self.announce.ready.val();
        self.out.beat.next = self.inp.beat.val();
        self.out.valid.next = self.inp.valid.val();
        self.inp.ready.next = self.out.ready.val();
        self.cnt_tcp_in_ooo.next = false;
        self.cnt_tcp_ooo_dropped.next = false;

        self.scan.next = false;
        self.next.next = false;
        self.enter.next = false;
        self.leave.next = false;
        self.octet.next = self.word.q.val() << self.lane_shift.val();
        self.pool.read_address.next = self.at.q.val();
        self.pool.write_address.next = self.at.q.val();
        self.pool.write_data.next = self.inp.beat.val().data;
        self.pool.write_enable.next = false;

        if self.inp.valid.val() & self.out.ready.val() & self.inp.beat.val().last {
            self.flows.d.next = false;
        }
        if self.payload_meta.valid.val() & self.announce.ready.val() {
            self.flows.d.next = true;
        }

        if self.note.val().settled {
            self.busy.d.next = false;
            if self.note.val().advanced {
                self.due.d.next = true;
                self.key.d.next = self.note.val().rcv_nxt;
            }
        }
        if self.forgets_mine.val() {
            self.lost.d.next = true;
        }

        match self.state.q.val() {
            ReassemblyState::Pass => {
                self.replay.d.next = false;
                self.empty.d.next = false;
                self.offer.valid.next = self.segment.valid.val();
                self.segment.ready.next = self.offer.ready.val();
                if self.segment.valid.val() & self.offer.ready.val() {
                    self.busy.d.next = true;
                    self.key.d.next = self.segment.data.val().seq;
                    self.state.d.next = ReassemblyState::Judge;
                }
            }
            ReassemblyState::Judge => {
                self.skip.d.next = self.judged.data.val().skip;
                self.left.d.next = self.judged.data.val().take;
                self.first.d.next = self.judged.data.val().first;
                self.passive.d.next = self.judged.data.val().passive;
                self.full.d.next = self.judged.data.val().full;
                if self.replay.q.val() {
                    self.judged.ready.next = true;
                    if self.judged.valid.val() {
                        // nobody's after an empty one: `slot` is beyond the last
                        self.leave.next = true;
                        self.state.d.next = ReassemblyState::Settle;
                        if self.judged.data.val().keep {
                            self.state.d.next = ReassemblyState::Announce;
                        }
                    }
                } else if self.judged.data.val().hold {
                    self.judged.ready.next = true;
                    if self.judged.valid.val() {
                        self.lost.d.next = false;
                        self.scan.next = true;
                    }
                } else {
                    self.verdict.valid.next = self.judged.valid.val();
                    self.judged.ready.next = self.verdict.ready.val();
                    if self.judged.valid.val() & self.verdict.ready.val() {
                        self.state.d.next = ReassemblyState::Settle;
                    }
                }
                if self.judged.valid.val() {
                    self.index.d.next = self.judged.data.val().index;
                }
            }
            ReassemblyState::Settle => {
                if self.note.val().settled | !self.busy.q.val() {
                    self.state.d.next = ReassemblyState::Pass;
                    if self.due.q.val() | (self.note.val().settled & self.note.val().advanced) {
                        self.replay.d.next = true;
                        self.scan.next = true;
                    }
                }
            }
            ReassemblyState::Scan => {
                self.pool.read_address.next = self.base.val();
                if self.slot.q.val() == self.slots.val() {
                    if self.replay.q.val() {
                        // even if the connection is over by now: `rx` knows
                        self.empty.d.next = true;
                        self.more.d.next = self.own.q.val().any();
                        self.state.d.next = ReassemblyState::Offer;
                    } else {
                        self.store.d.next = self.takes.val();
                        self.slot.d.next = self.free_slot.q.val();
                        if self.same.q.val() {
                            self.slot.d.next = self.same_slot.q.val();
                        }
                        self.cnt_tcp_in_ooo.next = self.takes.val();
                        self.cnt_tcp_ooo_dropped.next = !self.takes.val();
                        self.state.d.next = ReassemblyState::Answer;
                        if self.takes.val() {
                            self.state.d.next = ReassemblyState::Enter;
                        }
                    }
                } else if self.slot_used.val() & self.slot_own.val() {
                    self.own.d.next = self.own.q.val() + 1;
                    self.state.d.next = ReassemblyState::Fetch;
                } else {
                    self.next.next = true;
                    if !self.slot_used.val() {
                        self.free.d.next = self.free.q.val() + 1;
                        self.free_slot.d.next = self.slot.q.val();
                    }
                }
            }
            ReassemblyState::Fetch => {
                self.word.d.next = self.pool.read_data.val();
                self.state.d.next = ReassemblyState::Weigh;
            }
            ReassemblyState::Weigh => {
                self.state.d.next = ReassemblyState::Compare;
            }
            ReassemblyState::Compare => {
                self.next.next = true;
                self.state.d.next = ReassemblyState::Scan;
                if self.replay.q.val() {
                    if !self.distance.q.val().get_bit(31) {
                        self.next.next = false;
                        self.state.d.next = ReassemblyState::Offer;
                    }
                } else if !self.distance.q.val().any() {
                    self.same.d.next = true;
                    self.same_slot.d.next = self.slot.q.val();
                    self.covered.d.next = self.reaches.q.val();
                }
            }
            ReassemblyState::Enter => {
                self.pool.write_address.next = self.base.val();
                self.pool.write_data.next = bit_cast::<64, 32>(self.key.q.val())
                    | (bit_cast::<64, 16>(self.len.val()) << 32)
                    | (bit_cast::<64, 8>(self.flags.val()) << 48);
                self.pool.write_enable.next = true;
                self.at.d.next = self.base.val() + 1;
                self.enter.next = !self.lost.q.val() & !self.forgets_mine.val();
                self.state.d.next = ReassemblyState::Answer;
            }
            ReassemblyState::Answer => {
                self.verdict.valid.next = true;
                self.verdict.data.next.keep = self.store.q.val() & self.has_payload.val();
                self.verdict.data.next.index = self.index.q.val();
                self.verdict.data.next.skip = 0.into();
                self.verdict.data.next.take = self.len.val();
                self.verdict.data.next.hold = false;
                self.verdict.data.next.first = false;
                self.verdict.data.next.passive = false;
                self.verdict.data.next.full = false;
                if self.verdict.ready.val() {
                    self.state.d.next = ReassemblyState::Settle;
                    if self.store.q.val() & self.has_payload.val() {
                        self.state.d.next = ReassemblyState::Meta;
                    }
                }
            }
            ReassemblyState::Meta => {
                self.flows.d.next = false;
                self.announce.valid.next = false;
                self.payload_meta.ready.next = true;
                if self.payload_meta.valid.val() {
                    self.state.d.next = ReassemblyState::Fill;
                }
            }
            ReassemblyState::Fill => {
                self.out.valid.next = false;
                self.inp.ready.next = true;
                self.pool.write_enable.next = self.inp.valid.val();
                if self.inp.valid.val() {
                    self.at.d.next = self.at.q.val() + 1;
                    if self.inp.beat.val().last {
                        self.state.d.next = ReassemblyState::Settle;
                    }
                }
            }
            ReassemblyState::Offer => {
                self.offer.valid.next = true;
                self.offer.data.next.seq = self.word.q.val().get_bits::<32>(0);
                self.offer.data.next.len = self.held_len.val();
                self.offer.data.next.flags = self.word.q.val().get_bits::<8>(48);
                if self.empty.q.val() {
                    self.offer.data.next.len = 0.into();
                    self.offer.data.next.flags = 0.into();
                }
                self.offer.data.next.bad_options = false;
                self.offer.data.next.link_broadcast = false;
                self.offer.data.next.replay = true;
                self.offer.data.next.index = self.index.q.val();
                self.offer.data.next.more = self.more.q.val();
                if self.offer.ready.val() {
                    self.busy.d.next = true;
                    if self.empty.q.val() {
                        self.due.d.next = false;
                    }
                    self.state.d.next = ReassemblyState::Judge;
                }
            }
            ReassemblyState::Announce => {
                self.payload_meta.ready.next = false;
                self.announce.valid.next = !self.flows.q.val();
                self.announce.data.next.index = self.index.q.val();
                self.announce.data.next.len = self.left.q.val();
                self.announce.data.next.first = self.first.q.val();
                self.announce.data.next.passive = self.passive.q.val();
                self.announce.data.next.full = self.full.q.val();
                self.at.d.next = self.base.val() + bit_cast::<A, 13>(self.skip.q.val().get_bits::<13>(3)) + 1;
                self.surplus.d.next = self.skip.q.val().get_bits::<3>(0);
                self.lanes.d.next = 0.into();
                self.fill.d.next = 0.into();
                if self.announce.ready.val() & !self.flows.q.val() {
                    self.state.d.next = ReassemblyState::Load;
                }
            }
            ReassemblyState::Load => {
                self.state.d.next = ReassemblyState::Play;
            }
            ReassemblyState::Play => {
                // an octet a clock; the last beat is filled up with anything
                self.inp.ready.next = false;
                self.out.valid.next = self.fill.q.val().get_bit(3);
                self.out.beat.next.data = self.put.q.val();
                self.out.beat.next.last = self.left.q.val() <= 8;
                self.out.beat.next.error = false;
                self.out.beat.next.keep = 0xff.into();
                if self.left.q.val() <= 8 {
                    for i in 0..8 {
                        if self.left.q.val().get_bits::<3>(0).index() == i {
                            self.out.beat.next.keep = self.keeps[i].val();
                        }
                    }
                }
                if self.fill.q.val().get_bit(3) {
                    if self.out.ready.val() {
                        self.fill.d.next = 0.into();
                        self.left.d.next = self.left.q.val() - 8;
                        if self.left.q.val() <= 8 {
                            self.state.d.next = ReassemblyState::Settle;
                        }
                    }
                } else if self.lanes.q.val() == 0 {
                    self.word.d.next = self.pool.read_data.val();
                    self.lanes.d.next = 8.into();
                    self.at.d.next = self.at.q.val() + 1;
                } else {
                    self.word.d.next = self.word.q.val() >> 8;
                    self.lanes.d.next = self.lanes.q.val() - 1;
                    if self.surplus.q.val().any() {
                        self.surplus.d.next = self.surplus.q.val() - 1;
                    } else {
                        self.put.d.next = (self.put.q.val() >> 8) | self.octet.val();
                        self.fill.d.next = self.fill.q.val() + 1;
                    }
                }
            }
            _ => {
                self.state.d.next = ReassemblyState::Pass;
            }
        }

        if self.scan.val() {
            self.slot.d.next = 0.into();
            self.own.d.next = 0.into();
            self.free.d.next = 0.into();
            self.same.d.next = false;
            self.state.d.next = ReassemblyState::Scan;
        }
        if self.next.val() {
            self.slot.d.next = self.slot.q.val() + 1;
        }
        for i in 0..S {
            if self.slot.q.val().index() == i {
                if self.enter.val() {
                    self.used[i].d.next = true;
                    self.owner[i].d.next = self.mine.val();
                }
                if self.leave.val() {
                    self.used[i].d.next = false;
                }
            }
            if self.note.val().forget & (self.owner[i].q.val() == self.forgotten.val()) {
                self.used[i].d.next = self.enter.val() & (self.slot.q.val().index() == i);
            }
        }

        if self.reset.val() {
            self.state.d.next = ReassemblyState::Pass;
            self.busy.d.next = false;
            self.flows.d.next = false;
            self.due.d.next = false;
            for i in 0..S {
                self.used[i].d.next = false;
            }
        }
    }
}
