// SPDX-License-Identifier: MIT OR Apache-2.0
//! The port database: who may have a port, who has it, and a free one for whoever does not care (requirements.md 7.0).
//!
//! # Interface
//! `request` and `reply`: one request at a time, the next is taken when the reply to the last was. `lookup` and `answer`: a
//! pipeline of its own, one look-up a clock, answered in order; it has a port of the memories to itself and never waits for a request.
//! A change of `first`, `last` is seen at once: requests wait for a sweep, look-ups do not. Ports outside the range can be
//! asked for by number. `first` = 0 means 1; `first` > `last` means that no port can be chosen. See [`port_types`](super::port_types).
//!
//! # State
//! * `used`, `taken`: a bit for each port, in use by a listener, an active connection or a TIME-WAIT entry; reserved.
//!   2^A words of 2^W bits each (1024 x 64), `BitRam`, 4 DP16KD each.
//! * `full`: a bit for each word, set if none of its ports can be chosen; 2^T words of 2^W bits; `top`: a bit for each word of `full`.
//! * listeners: keys in `ListenerCam` for look-ups and in a small memory for requests, `listening` says which are valid.
//! * users: a use slot (port, TIME-WAIT or not, sole) for each active connection and TIME-WAIT entry, `live` says which are valid.
//!   `sole`: nobody else has the port; its end frees the port without a search. Whoever joins a used port clears it.
//!
//! # Steps
//! Every request goes `Idle`, `Start` (checks its form), `Read2` (its bitmap word, listener and user arrive). Then
//! * a number given: `Test`, `Decide`; a used port is searched for overlapping listeners (`Listener*`) and sole users (`User*`);
//! * port 0: cyclically the next free port from a random one on: rest of its word, else the next word that is not full by `full`,
//!   by `top` (`Choose` .. `WordGo`); Open only: none free, then the first user's port without a listener;
//! * end of a use: drop the slot; unless sole, search for others on the port; the last one clears the bit;
//! * a range: search for users in the way, then a sweep over its words; the same sweep clears at reset and follows a new range.
//!
//! Each change of a word is `Write`, `Sum`, `Top`: bitmap, `full`, `top`.
//!
//! # Clocks, from the one in which a request is taken to the one in which its reply is there
//! Choice 8, 13 or 18 (word, group, top; bounded by 20); number that is free 6; join, wait 4; end of a sole use 7; a search 4 for
//! each valid slot and 1 for each other (at most 4 x (2^L + 2^S)); range: search and 5 for each word; Open with no free port: a
//! search of the listeners for each user at most. Ready 5 x 2^A clocks after a reset; a new range takes as long. A look-up taken in
//! clock n has its answer in clock n + 3; it is taken in the clock in which it is offered, or in the next one if the word that it
//! reads is being written.
use crate::cm::bit_place::{BitPlace, LowestBit};
use crate::cm::bit_ram::BitRam;
use crate::cm::listener_cam::{ListenerCam, ListenerKey};
use crate::cm::port_types::*;
use crate::cm::range_mask::RangeMask;
use crate::stream::*;
use rust_hdl::prelude::*;

/// The size of the product: 65536 ports, 16 listeners, 64 use slots.
pub type PortDbFull = PortDb<16, 10, 4, 6, 64, 16, 4, 16, 6, 64>;
/// Small enough for proofs: 8 ports in words of 2, 2 listeners, 2 use slots.
pub type PortDbTiny = PortDb<3, 2, 1, 1, 2, 2, 1, 2, 1, 2>;
/// Small enough for random tests to come everywhere often: 16 ports in words of 2, 2 listeners, 4 use slots.
pub type PortDbSmall = PortDb<4, 3, 2, 1, 2, 4, 1, 2, 2, 4>;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum PortDbState {
    Idle,
    Start,
    Read1,
    Read2,
    Named,
    Test,
    Decide,
    Choose,
    Any,
    Isolate,
    ChooseGo,
    Group1,
    Group2,
    GroupMask,
    GroupIsolate,
    GroupGo,
    Word1,
    Word2,
    WordMask,
    WordIsolate,
    WordGo,
    Listener1,
    Listener2,
    Listener3,
    Listener4,
    User1,
    User2,
    User3,
    User4,
    Write,
    Sum,
    Top,
}

/// What is known of an active connection or TIME-WAIT entry.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PortUser {
    pub port: Bits<16>,
    pub waiting: Bit,
    pub sole: Bit,
}

/// P = log2 ports, W = log2 bits of a bitmap word, A = P - W, T = A - W, L = log2 listeners, S = log2 use slots; XN = 2^X.
#[derive(LogicBlock)]
pub struct PortDb<
    const P: usize,
    const A: usize,
    const T: usize,
    const W: usize,
    const WN: usize,
    const TN: usize,
    const L: usize,
    const LN: usize,
    const S: usize,
    const SN: usize,
> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    /// The memories are clear; requests and look-ups are taken from now on.
    pub ready: Signal<Out, Bit>,
    /// Range that port 0 chooses from (PORT_RANGE).
    pub first: Signal<In, Bits<16>>,
    pub last: Signal<In, Bits<16>>,
    /// Seed (RANDOM), taken over when it changes.
    pub random: Signal<In, Bits<32>>,
    pub request: ChanSink<PortRequest>,
    pub reply: ChanSrc<PortReply>,
    pub lookup: ChanSink<PortQuery>,
    pub answer: ChanSrc<PortAnswer>,
    pub listeners_live: Signal<Out, Bits<16>>,
    pub cnt_port_in_use: Signal<Out, Bit>,
    pub cnt_port_reserved: Signal<Out, Bit>,
    pub cnt_ports_exhausted: Signal<Out, Bit>,

    // memories
    used: BitRam<A, WN>,
    taken: BitRam<A, WN>,
    full: RAM<Bits<WN>, T>,
    users: RAM<PortUser, S>,
    listeners: RAM<ListenerKey, L>,
    cam: ListenerCam<L, LN>,
    top: DFF<Bits<TN>>,
    live: DFF<Bits<SN>>,
    listening: DFF<Bits<LN>>,
    listener_count: DFF<Bits<16>>,
    alive: DFF<Bit>,

    // requests
    state: DFF<PortDbState>,
    req: DFF<PortRequest>,
    rep: DFF<PortReply>,
    rep_valid: DFF<Bit>,
    port: DFF<Bits<P>>,
    word: DFF<Bits<A>>,
    end_word: DFF<Bits<A>>,
    sweeping: DFF<Bit>,
    clearing: DFF<Bit>,
    rebuilding: DFF<Bit>,
    /// `Read2` goes on to `Write`.
    writing: DFF<Bit>,
    user_index: DFF<Bits<S>>,
    users_left: DFF<Bits<S>>,
    listener_index: DFF<Bits<L>>,

    // what the memories said, one clock later
    used_word: DFF<Bits<WN>>,
    taken_word: DFF<Bits<WN>>,
    full_word: DFF<Bits<WN>>,
    user: DFF<PortUser>,
    listener: DFF<ListenerKey>,
    range: RangeMask<P, A, W, WN>,
    asked: RangeMask<P, A, W, WN>,
    port_place: BitPlace<WN>,
    word_place: BitPlace<WN>,
    group_place: BitPlace<TN>,
    port_bit: DFF<Bits<WN>>,
    word_bit: DFF<Bits<WN>>,
    group_bit: DFF<Bits<TN>>,
    from_port: DFF<Bits<WN>>,
    after_word: DFF<Bits<WN>>,
    after_group: DFF<Bits<TN>>,
    is_used: DFF<Bit>,
    is_taken: DFF<Bit>,
    word_full: DFF<Bit>,
    full_sum: DFF<Bits<WN>>,
    user_here: DFF<Bit>,
    user_in_range: DFF<Bit>,
    listener_here: DFF<Bit>,
    listener_overlaps: DFF<Bit>,
    listener_in_range: DFF<Bit>,

    // choice
    in_word: DFF<Bits<WN>>,
    in_top: DFF<Bits<TN>>,
    by_word: DFF<Bit>,
    by_group: DFF<Bit>,
    none: DFF<Bit>,
    candidates: DFF<Bits<WN>>,
    top_candidates: DFF<Bits<TN>>,
    lowest: LowestBit<WN>,
    top_lowest: LowestBit<TN>,

    // free slots
    free_user: DFF<Bits<SN>>,
    free_user_index: DFF<Bits<S>>,
    free_listener: DFF<Bits<LN>>,
    free_listener_index: DFF<Bits<L>>,

    // range and random start
    range_first: DFF<Bits<P>>,
    range_last: DFF<Bits<P>>,
    span: DFF<Bits<16>>,
    seed: DFF<Bits<32>>,
    lfsr: DFF<Bits<32>>,
    draw: DFF<Bits<16>>,
    product: DFF<Bits<32>>,
    scaled: DFF<Bits<32>>,
    start_port: DFF<Bits<P>>,

    // look-ups
    bit1: DFF<Bits<W>>,
    bit2: DFF<Bits<W>>,
    stage1: DFF<Bit>,
    stage2: DFF<Bit>,
    stage3: DFF<Bit>,
    looked_used: DFF<Bits<WN>>,
    looked_taken: DFF<Bits<WN>>,
    found: DFF<PortAnswer>,

    advance: Signal<Local, Bit>,
    look: Signal<Local, Bit>,
    query_word: Signal<Local, Bits<A>>,
    word_changes: Signal<Local, Bit>,
    is_idle: Signal<Local, Bit>,
    range_changed: Signal<Local, Bit>,
    first_asked: Signal<Local, Bits<P>>,
    last_asked: Signal<Local, Bits<P>>,
    first_span: Signal<Local, Bits<P>>,
    feedback: Signal<Local, Bit>,
    req_port: Signal<Local, Bits<P>>,
    req_last: Signal<Local, Bits<P>>,
    port16: Signal<Local, Bits<16>>,
    last16: Signal<Local, Bits<16>>,
    here16: Signal<Local, Bits<16>>,
    range_first16: Signal<Local, Bits<16>>,
    range_last16: Signal<Local, Bits<16>>,
    low: Signal<Local, Bits<16>>,
    high: Signal<Local, Bits<16>>,
    user_live: Signal<Local, Bit>,
    slot_user16: Signal<Local, Bits<16>>,
    listener_live: Signal<Local, Bit>,
    slot_listener16: Signal<Local, Bits<16>>,
    user_known: Signal<Local, Bit>,
    listener_known: Signal<Local, Bit>,
    users_full: Signal<Local, Bit>,
    listeners_full: Signal<Local, Bit>,
    group: Signal<Local, Bits<T>>,
    in_word_bit: Signal<Local, Bits<W>>,
    in_group_bit: Signal<Local, Bits<W>>,
    target: Signal<Local, Bits<P>>,
    go: Signal<Local, Bit>,
    opening: Signal<Local, Bit>,
    refuse: Signal<Local, Bit>,
    refusal: Signal<Local, PortStatus>,
    done: Signal<Local, Bit>,
    next_user: Signal<Local, Bit>,
    all_users: Signal<Local, Bit>,
    next_listener: Signal<Local, Bit>,
    not_sole: Signal<Local, Bit>,
    reply_now: Signal<Local, Bit>,
    replied: Signal<Local, Bit>,
    lfsr_low: Signal<Local, Bits<31>>,
    change_used: Signal<Local, Bit>,
    change_taken: Signal<Local, Bit>,
    reserving: Signal<Local, Bit>,
    used_code: Signal<Local, Bits<2>>,
    taken_code: Signal<Local, Bits<2>>,
    free_now: Signal<Local, Bits<WN>>,
    in_group: Signal<Local, Bits<WN>>,
    used_new: Signal<Local, Bits<WN>>,
    taken_new: Signal<Local, Bits<WN>>,
    blocked: Signal<Local, Bits<WN>>,
    full_new: Signal<Local, Bits<WN>>,
    user_value: Signal<Local, PortUser>,
    key: Signal<Local, ListenerKey>,
    user_bit: Signal<Local, Bits<SN>>,
    listener_bit: Signal<Local, Bits<LN>>,
    live_plus: Signal<Local, Bits<SN>>,
    listening_plus: Signal<Local, Bits<LN>>,
    lowest_index: Signal<Local, Bits<W>>,
    top_lowest_index: Signal<Local, Bits<T>>,
    free_user_number: Signal<Local, Bits<S>>,
    free_listener_number: Signal<Local, Bits<L>>,
    found_port: Signal<Local, Bits<P>>,
    found_word: Signal<Local, Bits<A>>,

    ones: Constant<Bits<WN>>,
    user_one: Constant<Bits<SN>>,
    listener_one: Constant<Bits<LN>>,
    last_word: Constant<Bits<A>>,
    last_user: Constant<Bits<S>>,
    last_listener: Constant<Bits<L>>,
    log_word: Constant<Bits<5>>,
    user_number: [Constant<Bits<S>>; SN],
    listener_number: [Constant<Bits<L>>; LN],
}

impl<
        const P: usize,
        const A: usize,
        const T: usize,
        const W: usize,
        const WN: usize,
        const TN: usize,
        const L: usize,
        const LN: usize,
        const S: usize,
        const SN: usize,
    > Default for PortDb<P, A, T, W, WN, TN, L, LN, S, SN>
{
    fn default() -> Self {
        assert!(P == A + W && A == T + W && WN == 1 << W && TN == 1 << T && LN == 1 << L && SN == 1 << S);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            first: Default::default(),
            last: Default::default(),
            random: Default::default(),
            request: Default::default(),
            reply: Default::default(),
            lookup: Default::default(),
            answer: Default::default(),
            listeners_live: Default::default(),
            cnt_port_in_use: Default::default(),
            cnt_port_reserved: Default::default(),
            cnt_ports_exhausted: Default::default(),
            used: Default::default(),
            taken: Default::default(),
            full: Default::default(),
            users: Default::default(),
            listeners: Default::default(),
            cam: Default::default(),
            top: Default::default(),
            live: Default::default(),
            listening: Default::default(),
            listener_count: Default::default(),
            alive: Default::default(),
            state: Default::default(),
            req: Default::default(),
            rep: Default::default(),
            rep_valid: Default::default(),
            port: Default::default(),
            word: Default::default(),
            end_word: Default::default(),
            sweeping: Default::default(),
            clearing: Default::default(),
            rebuilding: Default::default(),
            writing: Default::default(),
            user_index: Default::default(),
            users_left: Default::default(),
            listener_index: Default::default(),
            used_word: Default::default(),
            taken_word: Default::default(),
            full_word: Default::default(),
            user: Default::default(),
            listener: Default::default(),
            range: Default::default(),
            asked: Default::default(),
            port_place: Default::default(),
            word_place: Default::default(),
            group_place: Default::default(),
            port_bit: Default::default(),
            word_bit: Default::default(),
            group_bit: Default::default(),
            from_port: Default::default(),
            after_word: Default::default(),
            after_group: Default::default(),
            is_used: Default::default(),
            is_taken: Default::default(),
            word_full: Default::default(),
            full_sum: Default::default(),
            user_here: Default::default(),
            user_in_range: Default::default(),
            listener_here: Default::default(),
            listener_overlaps: Default::default(),
            listener_in_range: Default::default(),
            in_word: Default::default(),
            in_top: Default::default(),
            by_word: Default::default(),
            by_group: Default::default(),
            none: Default::default(),
            candidates: Default::default(),
            top_candidates: Default::default(),
            lowest: Default::default(),
            top_lowest: Default::default(),
            free_user: Default::default(),
            free_user_index: Default::default(),
            free_listener: Default::default(),
            free_listener_index: Default::default(),
            range_first: Default::default(),
            range_last: Default::default(),
            span: Default::default(),
            seed: Default::default(),
            lfsr: Default::default(),
            draw: Default::default(),
            product: Default::default(),
            scaled: Default::default(),
            start_port: Default::default(),
            bit1: Default::default(),
            bit2: Default::default(),
            stage1: Default::default(),
            stage2: Default::default(),
            stage3: Default::default(),
            looked_used: Default::default(),
            looked_taken: Default::default(),
            found: Default::default(),
            advance: Default::default(),
            look: Default::default(),
            query_word: Default::default(),
            word_changes: Default::default(),
            is_idle: Default::default(),
            range_changed: Default::default(),
            first_asked: Default::default(),
            last_asked: Default::default(),
            first_span: Default::default(),
            feedback: Default::default(),
            req_port: Default::default(),
            req_last: Default::default(),
            port16: Default::default(),
            last16: Default::default(),
            here16: Default::default(),
            range_first16: Default::default(),
            range_last16: Default::default(),
            low: Default::default(),
            high: Default::default(),
            user_live: Default::default(),
            slot_user16: Default::default(),
            listener_live: Default::default(),
            slot_listener16: Default::default(),
            user_known: Default::default(),
            listener_known: Default::default(),
            users_full: Default::default(),
            listeners_full: Default::default(),
            group: Default::default(),
            in_word_bit: Default::default(),
            in_group_bit: Default::default(),
            target: Default::default(),
            go: Default::default(),
            opening: Default::default(),
            refuse: Default::default(),
            refusal: Default::default(),
            done: Default::default(),
            next_user: Default::default(),
            all_users: Default::default(),
            next_listener: Default::default(),
            not_sole: Default::default(),
            reply_now: Default::default(),
            replied: Default::default(),
            lfsr_low: Default::default(),
            change_used: Default::default(),
            change_taken: Default::default(),
            reserving: Default::default(),
            used_code: Default::default(),
            taken_code: Default::default(),
            free_now: Default::default(),
            in_group: Default::default(),
            used_new: Default::default(),
            taken_new: Default::default(),
            blocked: Default::default(),
            full_new: Default::default(),
            user_value: Default::default(),
            key: Default::default(),
            user_bit: Default::default(),
            listener_bit: Default::default(),
            live_plus: Default::default(),
            listening_plus: Default::default(),
            lowest_index: Default::default(),
            top_lowest_index: Default::default(),
            free_user_number: Default::default(),
            free_listener_number: Default::default(),
            found_port: Default::default(),
            found_word: Default::default(),
            ones: Constant::new(Bits::<WN>::mask()),
            user_one: Constant::new(1u64.into()),
            listener_one: Constant::new(1u64.into()),
            last_word: Constant::new(Bits::<A>::mask()),
            last_user: Constant::new(Bits::<S>::mask()),
            last_listener: Constant::new(Bits::<L>::mask()),
            log_word: Constant::new((W as u64).into()),
            user_number: std::array::from_fn(|n| Constant::new((n as u64).into())),
            listener_number: std::array::from_fn(|n| Constant::new((n as u64).into())),
        }
    }
}

impl<
        const P: usize,
        const A: usize,
        const T: usize,
        const W: usize,
        const WN: usize,
        const TN: usize,
        const L: usize,
        const LN: usize,
        const S: usize,
        const SN: usize,
    > Logic for PortDb<P, A, T, W, WN, TN, L, LN, S, SN>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            top,
            live,
            listening,
            listener_count,
            alive,
            state,
            req,
            rep,
            rep_valid,
            port,
            word,
            end_word,
            sweeping,
            clearing,
            rebuilding,
            writing,
            user_index,
            users_left,
            listener_index,
            used_word,
            taken_word,
            full_word,
            user,
            listener,
            port_bit,
            word_bit,
            group_bit,
            from_port,
            after_word,
            after_group,
            is_used,
            is_taken,
            word_full,
            full_sum,
            user_here,
            user_in_range,
            listener_here,
            listener_overlaps,
            listener_in_range,
            in_word,
            in_top,
            by_word,
            by_group,
            none,
            candidates,
            top_candidates,
            free_user,
            free_user_index,
            free_listener,
            free_listener_index,
            range_first,
            range_last,
            span,
            seed,
            lfsr,
            draw,
            product,
            scaled,
            start_port,
            bit1,
            bit2,
            stage1,
            stage2,
            stage3,
            looked_used,
            looked_taken,
            found
        );
        clock!(self, clock, used, taken, cam, range, asked, lowest, top_lowest);
        self.full.read_clock.next = self.clock.val();
        self.full.write_clock.next = self.clock.val();
        self.users.read_clock.next = self.clock.val();
        self.users.write_clock.next = self.clock.val();
        self.listeners.read_clock.next = self.clock.val();
        self.listeners.write_clock.next = self.clock.val();

        // ---- range and random start
        self.first_asked.next = bit_cast::<P, 16>(self.first.val());
        if !self.first.val().any() {
            self.first_asked.next = 1.into();
        }
        self.last_asked.next = bit_cast::<P, 16>(self.last.val());
        self.range_changed.next = (self.range_first.q.val() != self.first_asked.val()) | (self.range_last.q.val() != self.last_asked.val());
        self.first_span.next = self.range_last.q.val() - self.range_first.q.val();
        self.span.d.next = bit_cast::<16, P>(self.first_span.val());
        // all 2^32 states in one cycle: x^32 + x^22 + x^2 + x + 1 with the zero state let in
        self.lfsr_low.next = bit_cast::<31, 32>(self.lfsr.q.val());
        self.feedback.next = self.lfsr.q.val().get_bit(31)
            ^ self.lfsr.q.val().get_bit(21)
            ^ self.lfsr.q.val().get_bit(1)
            ^ self.lfsr.q.val().get_bit(0)
            ^ !self.lfsr_low.val().any();
        self.lfsr.d.next = (self.lfsr.q.val() << 1) | bit_cast::<32, 1>(self.feedback.val().into());
        self.seed.d.next = self.random.val();
        if self.seed.q.val() != self.random.val() {
            self.lfsr.d.next = self.random.val();
        }
        // start_port = first + draw * (span + 1) / 2^16: every port of the range can be the first one tried
        self.draw.d.next = self.lfsr.q.val().get_bits::<16>(0);
        self.product.d.next = self.lfsr.q.val().get_bits::<16>(0) * self.span.q.val();
        self.scaled.d.next = self.product.q.val() + bit_cast::<32, 16>(self.draw.q.val());
        self.start_port.d.next = self.range_first.q.val() + bit_cast::<P, 16>(self.scaled.q.val().get_bits::<16>(16));

        // ---- look-ups
        self.query_word.next = bit_cast::<A, 16>(self.lookup.data.val().port >> self.log_word.val());
        self.word_changes.next = self.state.q.val() == PortDbState::Write;
        // the memory cannot read what it writes: a look-up of the very word that changes is taken one clock later
        self.advance.next = !self.stage3.q.val() | self.answer.ready.val();
        self.look.next =
            self.advance.val() & self.alive.q.val() & !(self.word_changes.val() & (self.query_word.val() == self.word.q.val()));
        self.lookup.ready.next = self.look.val();
        self.used.a_address.next = self.query_word.val();
        self.taken.a_address.next = self.query_word.val();
        self.used.a_enable.next = self.look.val();
        self.taken.a_enable.next = self.look.val();
        self.cam.query.next = self.lookup.data.val();
        self.cam.take.next = self.look.val();
        self.cam.advance.next = self.advance.val();
        self.cam.valid.next = self.listening.q.val();
        if self.advance.val() {
            self.bit1.d.next = bit_cast::<W, 16>(self.lookup.data.val().port);
            self.stage1.d.next = self.lookup.valid.val() & self.look.val();
            self.stage2.d.next = self.stage1.q.val();
            self.stage3.d.next = self.stage2.q.val();
            self.bit2.d.next = self.bit1.q.val();
            self.looked_used.d.next = self.used.a_data.val();
            self.looked_taken.d.next = self.taken.a_data.val();
            self.found.d.next.listening = self.cam.hit.val();
            self.found.d.next.listener = bit_cast::<16, L>(self.cam.index.val());
            self.found.d.next.used = self.looked_used.q.val().get_bit(self.bit2.q.val().index());
            self.found.d.next.reserved = self.looked_taken.q.val().get_bit(self.bit2.q.val().index());
        }
        self.answer.valid.next = self.stage3.q.val();
        self.answer.data.next = self.found.q.val();

        // ---- a free use slot, a free listener slot: the lowest
        self.live_plus.next = self.live.q.val() + 1;
        self.free_user.d.next = self.live_plus.val() & !self.live.q.val();
        self.users_full.next = self.live.q.val().all();
        self.free_user_number.next = 0.into();
        for i in 0..SN {
            if self.free_user.q.val().get_bit(i) {
                self.free_user_number.next = self.free_user_number.val() | self.user_number[i].val();
            }
        }
        self.free_user_index.d.next = self.free_user_number.val();
        self.listening_plus.next = self.listening.q.val() + 1;
        self.free_listener.d.next = self.listening_plus.val() & !self.listening.q.val();
        self.listeners_full.next = self.listening.q.val().all();
        self.free_listener_number.next = 0.into();
        for i in 0..LN {
            if self.free_listener.q.val().get_bit(i) {
                self.free_listener_number.next = self.free_listener_number.val() | self.listener_number[i].val();
            }
        }
        self.free_listener_index.d.next = self.free_listener_number.val();

        // ---- what belongs to the request, the port and the word that are worked on
        self.opening.next = (self.req.q.val().op == PortOp::Listen) | (self.req.q.val().op == PortOp::Open);
        self.req_port.next = bit_cast::<P, 16>(self.req.q.val().port);
        self.req_last.next = bit_cast::<P, 16>(self.req.q.val().last);
        self.port16.next = bit_cast::<16, P>(self.req_port.val());
        self.last16.next = bit_cast::<16, P>(self.req_last.val());
        self.here16.next = bit_cast::<16, P>(self.port.q.val());
        // in `Start` both indices are the slot of the request
        self.slot_user16.next = bit_cast::<16, S>(self.user_index.q.val());
        self.user_live.next = self.live.q.val().get_bit(self.user_index.q.val().index());
        self.user_known.next = (self.slot_user16.val() == self.req.q.val().slot) & self.user_live.val();
        self.slot_listener16.next = bit_cast::<16, L>(self.listener_index.q.val());
        self.listener_live.next = self.listening.q.val().get_bit(self.listener_index.q.val().index());
        self.listener_known.next = (self.slot_listener16.val() == self.req.q.val().slot) & self.listener_live.val();
        self.group.next = bit_cast::<T, A>(self.word.q.val() >> self.log_word.val());
        self.in_word_bit.next = bit_cast::<W, P>(self.port.q.val());
        self.in_group_bit.next = bit_cast::<W, A>(self.word.q.val());
        self.port_place.index.next = bit_cast::<6, W>(self.in_word_bit.val());
        if (self.state.q.val() == PortDbState::ChooseGo) | (self.state.q.val() == PortDbState::WordGo) {
            // the port that is chosen
            self.port_place.index.next = self.lowest.index.val();
        }
        self.port_bit.d.next = self.port_place.one.val();
        self.from_port.d.next = self.port_place.from.val();
        if self.state.q.val() == PortDbState::Word2 {
            // a word that is chosen by `full` counts from its first port on
            self.from_port.d.next = self.ones.val();
        }
        self.word_place.index.next = bit_cast::<6, W>(self.in_group_bit.val());
        self.word_bit.d.next = self.word_place.one.val();
        self.after_word.d.next = self.word_place.beyond.val();
        if self.state.q.val() == PortDbState::Group2 {
            // a group that is chosen by `top` counts from its first word on
            self.after_word.d.next = self.ones.val();
        }
        self.group_place.index.next = bit_cast::<6, T>(self.group.val());
        self.group_bit.d.next = self.group_place.one.val();
        self.after_group.d.next = self.group_place.beyond.val();
        self.range.first.next = self.range_first.q.val();
        self.range.last.next = self.range_last.q.val();
        self.range.word.next = self.word.q.val();
        self.asked.first.next = self.req_port.val();
        self.asked.last.next = self.req_last.val();
        self.asked.word.next = self.word.q.val();
        self.used.b_address.next = self.word.q.val();
        self.taken.b_address.next = self.word.q.val();
        self.full.read_address.next = self.group.val();
        self.full.write_address.next = self.group.val();
        self.used_word.d.next = self.used.b_data.val();
        self.taken_word.d.next = self.taken.b_data.val();
        self.full_word.d.next = self.full.read_data.val();
        self.is_used.d.next = (self.used_word.q.val() & self.port_bit.q.val()).any();
        self.is_taken.d.next = (self.taken_word.q.val() & self.port_bit.q.val()).any();

        // ---- searches
        self.users.read_address.next = self.user_index.q.val();
        self.listeners.read_address.next = self.listener_index.q.val();
        self.user.d.next = self.users.read_data.val();
        self.listener.d.next = self.listeners.read_data.val();
        self.range_first16.next = bit_cast::<16, P>(self.range_first.q.val());
        self.range_last16.next = bit_cast::<16, P>(self.range_last.q.val());
        self.low.next = self.req.q.val().port;
        self.high.next = self.req.q.val().last;
        if self.req.q.val().op == PortOp::Open {
            self.low.next = self.range_first16.val();
            self.high.next = self.range_last16.val();
        }
        self.user_here.d.next = self.user.q.val().port == self.here16.val();
        self.user_in_range.d.next = (self.user.q.val().port >= self.low.val()) & (self.user.q.val().port <= self.high.val());
        self.listener_here.d.next = self.listener.q.val().port == self.here16.val();
        self.listener_overlaps.d.next = (self.listener.q.val().port == self.here16.val())
            & (self.listener.q.val().any | !self.req.q.val().addr.any() | (self.listener.q.val().addr == self.req.q.val().addr));
        self.listener_in_range.d.next = (self.listener.q.val().port >= self.low.val()) & (self.listener.q.val().port <= self.high.val());
        self.user_bit.next = self.user_one.val() << self.user_index.q.val();
        self.listener_bit.next = self.listener_one.val() << self.listener_index.q.val();

        // ---- changes
        self.change_used.next = !self.sweeping.q.val() & !self.clearing.q.val();
        self.change_taken.next = self.sweeping.q.val() & !self.clearing.q.val() & !self.rebuilding.q.val();
        self.reserving.next = self.req.q.val().op == PortOp::Reserve;
        self.used_code.next = (bit_cast::<2, 1>(self.change_used.val().into()) << 1) | bit_cast::<2, 1>(self.opening.val().into());
        self.taken_code.next = (bit_cast::<2, 1>(self.change_taken.val().into()) << 1) | bit_cast::<2, 1>(self.reserving.val().into());
        if self.clearing.q.val() {
            self.used_code.next = 0.into();
            self.taken_code.next = 0.into();
        } else {
            if !self.change_used.val() {
                self.used_code.next = 1.into();
            }
            if !self.change_taken.val() {
                self.taken_code.next = 1.into();
            }
        }
        // codes: 0 clear the word, 1 keep it, 2 take bits away, 3 set them
        self.used_new.next = 0.into();
        self.taken_new.next = 0.into();
        if self.used_code.val() == 1 {
            self.used_new.next = self.used_word.q.val();
        }
        if self.used_code.val() == 2 {
            self.used_new.next = self.used_word.q.val() & !self.port_bit.q.val();
        }
        if self.used_code.val() == 3 {
            self.used_new.next = self.used_word.q.val() | self.port_bit.q.val();
        }
        if self.taken_code.val() == 1 {
            self.taken_new.next = self.taken_word.q.val();
        }
        if self.taken_code.val() == 2 {
            self.taken_new.next = self.taken_word.q.val() & !self.asked.mask.val();
        }
        if self.taken_code.val() == 3 {
            self.taken_new.next = self.taken_word.q.val() | self.asked.mask.val();
        }
        self.blocked.next = self.used_new.val() | self.taken_new.val() | !self.range.mask.val();
        self.word_full.d.next = self.blocked.val().all();
        self.used.b_value.next = self.used_new.val();
        self.taken.b_value.next = self.taken_new.val();
        self.used.b_write.next = self.word_changes.val();
        self.taken.b_write.next = self.word_changes.val();
        self.full_new.next = self.full_word.q.val() & !self.word_bit.q.val();
        if self.word_full.q.val() {
            self.full_new.next = self.full_word.q.val() | self.word_bit.q.val();
        }
        self.full_sum.d.next = self.full_new.val();
        self.full.write_data.next = self.full_new.val();
        self.full.write_enable.next = false;
        self.key.next.any = !self.req.q.val().addr.any();
        self.key.next.addr = self.req.q.val().addr;
        self.key.next.port = self.here16.val();
        self.listeners.write_address.next = self.free_listener_index.q.val();
        self.listeners.write_data.next = self.key.val();
        self.listeners.write_enable.next = false;
        self.cam.select.next = self.free_listener.q.val();
        self.cam.key.next = self.key.val();
        self.cam.write.next = false;
        self.users.write_address.next = self.free_user_index.q.val();
        self.user_value.next.port = self.here16.val();
        self.user_value.next.waiting = false;
        self.user_value.next.sole = false;
        self.users.write_enable.next = false;

        // ---- choice
        self.free_now.next = !(self.used_word.q.val() | self.taken_word.q.val()) & self.range.mask.val() & self.from_port.q.val();
        self.in_word.d.next = self.free_now.val();
        self.in_group.next = !self.full_word.q.val() & self.after_word.q.val();
        self.in_top.d.next = !self.top.q.val() & self.after_group.q.val();
        self.lowest.bits.next = self.candidates.q.val();
        self.lowest_index.next = bit_cast::<W, 6>(self.lowest.index.val());
        self.top_lowest.bits.next = self.top_candidates.q.val();
        self.top_lowest_index.next = bit_cast::<T, 6>(self.top_lowest.index.val());
        self.found_port.next = (bit_cast::<P, A>(self.word.q.val()) << self.log_word.val()) | bit_cast::<P, W>(self.lowest_index.val());
        self.found_word.next = (bit_cast::<A, T>(self.group.val()) << self.log_word.val()) | bit_cast::<A, W>(self.lowest_index.val());

        // ---- one request
        self.is_idle.next = false;
        self.target.next = self.port.q.val();
        self.go.next = false;
        self.refuse.next = false;
        self.refusal.next = PortStatus::Invalid;
        self.done.next = false;
        self.next_user.next = false;
        self.all_users.next = false;
        self.next_listener.next = false;
        self.not_sole.next = false;
        self.reply_now.next = false;

        match self.state.q.val() {
            PortDbState::Idle => {
                self.writing.d.next = false;
                self.sweeping.d.next = false;
                self.rebuilding.d.next = false;
                self.clearing.d.next = false;
                if self.range_changed.val() {
                    self.range_first.d.next = self.first_asked.val();
                    self.range_last.d.next = self.last_asked.val();
                    self.word.d.next = 0.into();
                    self.end_word.d.next = self.last_word.val();
                    self.writing.d.next = true;
                    self.sweeping.d.next = true;
                    self.rebuilding.d.next = true;
                    self.state.d.next = PortDbState::Read1;
                } else if !self.rep_valid.q.val() {
                    self.is_idle.next = true;
                    if self.request.valid.val() {
                        self.req.d.next = self.request.data.val();
                        self.user_index.d.next = bit_cast::<S, 16>(self.request.data.val().slot);
                        self.listener_index.d.next = bit_cast::<L, 16>(self.request.data.val().slot);
                        self.rep.d.next.status = PortStatus::Ok;
                        self.rep.d.next.port = 0.into();
                        self.rep.d.next.listener = 0.into();
                        self.rep.d.next.user = 0.into();
                        self.rep.d.next.shared = false;
                        self.target.next = bit_cast::<P, 16>(self.request.data.val().port);
                        if !self.request.data.val().port.any() {
                            self.target.next = self.start_port.q.val();
                        }
                        self.go.next = true;
                        self.state.d.next = PortDbState::Start;
                    }
                }
            }
            PortDbState::Start => {
                self.state.d.next = PortDbState::Read2;
                match self.req.q.val().op {
                    PortOp::Listen => {
                        if self.listeners_full.val() {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::NoSlot;
                        }
                        if self.port16.val() != self.req.q.val().port {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::Invalid;
                        }
                    }
                    PortOp::Open => {
                        if self.users_full.val() {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::NoSlot;
                        }
                        if self.port16.val() != self.req.q.val().port {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::Invalid;
                        }
                    }
                    PortOp::Join => {
                        if self.users_full.val() {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::NoSlot;
                        }
                        if !self.listener_known.val() {
                            self.refuse.next = true;
                            self.refusal.next = PortStatus::Invalid;
                        }
                    }
                    PortOp::Unlisten => {
                        self.refuse.next = !self.listener_known.val();
                    }
                    PortOp::Close => {
                        self.refuse.next = !self.user_known.val();
                    }
                    PortOp::Wait => {
                        self.refuse.next = !self.user_known.val();
                    }
                    PortOp::WaitEnd => {
                        self.refuse.next = !self.user_known.val();
                    }
                    PortOp::Reserve => {
                        self.refuse.next = !self.req.q.val().port.any()
                            | (self.req.q.val().port > self.req.q.val().last)
                            | (self.last16.val() != self.req.q.val().last);
                    }
                    PortOp::Unreserve => {
                        self.refuse.next = !self.req.q.val().port.any()
                            | (self.req.q.val().port > self.req.q.val().last)
                            | (self.last16.val() != self.req.q.val().last);
                    }
                    _ => {
                        self.refuse.next = true;
                    }
                }
            }
            PortDbState::Read1 => {
                self.state.d.next = PortDbState::Read2;
            }
            PortDbState::Read2 => {
                self.state.d.next = PortDbState::Named;
                if self.writing.q.val() {
                    self.state.d.next = PortDbState::Write;
                } else if self.opening.val() {
                    self.state.d.next = PortDbState::Test;
                    // the candidate of an exhausted range comes here with a user, a choice without
                    if !self.req.q.val().port.any() & !self.rep.q.val().shared {
                        self.state.d.next = PortDbState::Choose;
                    }
                }
            }
            PortDbState::Named => match self.req.q.val().op {
                PortOp::Unlisten => {
                    self.listening.d.next = self.listening.q.val() & !self.listener_bit.val();
                    self.listener_count.d.next = self.listener_count.q.val() - 1;
                    self.target.next = bit_cast::<P, 16>(self.listener.q.val().port);
                    self.go.next = true;
                    self.rep.d.next.port = self.listener.q.val().port;
                    self.listener_index.d.next = 0.into();
                    self.state.d.next = PortDbState::Listener1;
                }
                PortOp::Join => {
                    self.user_value.next.port = self.listener.q.val().port;
                    self.users.write_enable.next = true;
                    self.live.d.next = self.live.q.val() | self.free_user.q.val();
                    self.rep.d.next.port = self.listener.q.val().port;
                    self.rep.d.next.user = bit_cast::<16, S>(self.free_user_index.q.val());
                    self.done.next = true;
                }
                PortOp::Wait => {
                    if self.user.q.val().waiting {
                        self.refuse.next = true;
                    } else {
                        self.users.write_address.next = self.user_index.q.val();
                        self.user_value.next.port = self.user.q.val().port;
                        self.user_value.next.waiting = true;
                        self.user_value.next.sole = self.user.q.val().sole;
                        self.users.write_enable.next = true;
                        self.rep.d.next.port = self.user.q.val().port;
                        self.done.next = true;
                    }
                }
                PortOp::Reserve => {
                    self.listener_index.d.next = 0.into();
                    self.state.d.next = PortDbState::Listener1;
                }
                PortOp::Unreserve => {
                    self.end_word.d.next = bit_cast::<A, P>(self.req_last.val() >> self.log_word.val());
                    self.sweeping.d.next = true;
                    self.writing.d.next = true;
                    self.state.d.next = PortDbState::Read1;
                }
                _ => {
                    // Close, WaitEnd
                    if self.user.q.val().waiting != (self.req.q.val().op == PortOp::WaitEnd) {
                        self.refuse.next = true;
                    } else {
                        self.live.d.next = self.live.q.val() & !self.user_bit.val();
                        self.target.next = bit_cast::<P, 16>(self.user.q.val().port);
                        self.go.next = true;
                        self.rep.d.next.port = self.user.q.val().port;
                        self.listener_index.d.next = 0.into();
                        self.state.d.next = PortDbState::Listener1;
                        if self.user.q.val().sole {
                            self.writing.d.next = true;
                            self.state.d.next = PortDbState::Read1;
                        }
                    }
                }
            },

            // ---- a given port, or the candidate of an exhausted range
            PortDbState::Test => {
                self.state.d.next = PortDbState::Decide;
            }
            PortDbState::Decide => {
                self.listener_index.d.next = 0.into();
                if self.rep.q.val().shared {
                    self.state.d.next = PortDbState::Listener1;
                    self.next_user.next = self.is_taken.q.val();
                } else if self.is_taken.q.val() {
                    self.refuse.next = true;
                    self.refusal.next = PortStatus::Reserved;
                } else if !self.is_used.q.val() {
                    self.state.d.next = PortDbState::Write;
                } else if self.req.q.val().op == PortOp::Open {
                    self.rep.d.next.shared = true;
                    self.all_users.next = true;
                } else {
                    self.state.d.next = PortDbState::Listener1;
                }
            }

            // ---- choice
            PortDbState::Choose => {
                self.state.d.next = PortDbState::Any;
            }
            PortDbState::Any => {
                self.by_word.d.next = self.in_word.q.val().any();
                self.by_group.d.next = self.in_group.val().any();
                self.none.d.next = self.top.q.val().all();
                self.candidates.d.next = self.in_group.val();
                if self.in_word.q.val().any() {
                    self.candidates.d.next = self.in_word.q.val();
                }
                self.top_candidates.d.next = !self.top.q.val();
                if self.in_top.q.val().any() {
                    self.top_candidates.d.next = self.in_top.q.val();
                }
                self.state.d.next = PortDbState::Isolate;
            }
            PortDbState::Isolate => {
                self.state.d.next = PortDbState::ChooseGo;
            }
            PortDbState::ChooseGo => {
                if self.none.q.val() {
                    if self.req.q.val().op == PortOp::Open {
                        // every port of the range has a user or is reserved: share one
                        self.rep.d.next.shared = true;
                        self.all_users.next = true;
                    } else {
                        self.refuse.next = true;
                        self.refusal.next = PortStatus::NoPorts;
                    }
                } else if self.by_word.q.val() {
                    self.port.d.next = self.found_port.val();
                    self.state.d.next = PortDbState::Write;
                } else if self.by_group.q.val() {
                    self.word.d.next = self.found_word.val();
                    self.state.d.next = PortDbState::Word1;
                } else {
                    self.word.d.next = bit_cast::<A, T>(self.top_lowest_index.val()) << self.log_word.val();
                    self.state.d.next = PortDbState::Group1;
                }
            }
            PortDbState::Group1 => {
                self.state.d.next = PortDbState::Group2;
            }
            PortDbState::Group2 => {
                self.state.d.next = PortDbState::GroupMask;
            }
            PortDbState::GroupMask => {
                self.candidates.d.next = self.in_group.val();
                self.state.d.next = PortDbState::GroupIsolate;
            }
            PortDbState::GroupIsolate => {
                self.state.d.next = PortDbState::GroupGo;
            }
            PortDbState::GroupGo => {
                self.word.d.next = self.found_word.val();
                self.state.d.next = PortDbState::Word1;
            }
            PortDbState::Word1 => {
                self.state.d.next = PortDbState::Word2;
            }
            PortDbState::Word2 => {
                self.state.d.next = PortDbState::WordMask;
            }
            PortDbState::WordMask => {
                self.candidates.d.next = self.free_now.val();
                self.state.d.next = PortDbState::WordIsolate;
            }
            PortDbState::WordIsolate => {
                self.state.d.next = PortDbState::WordGo;
            }
            PortDbState::WordGo => {
                self.port.d.next = self.found_port.val();
                self.state.d.next = PortDbState::Write;
            }

            // ---- search of the listeners
            PortDbState::Listener1 => {
                self.state.d.next = PortDbState::Listener2;
                self.next_listener.next = !self.listener_live.val();
            }
            PortDbState::Listener2 => {
                self.state.d.next = PortDbState::Listener3;
            }
            PortDbState::Listener3 => {
                self.state.d.next = PortDbState::Listener4;
            }
            PortDbState::Listener4 => match self.req.q.val().op {
                PortOp::Listen => {
                    self.refuse.next = self.listener_overlaps.q.val();
                    self.refusal.next = PortStatus::InUse;
                    self.next_listener.next = true;
                }
                PortOp::Reserve => {
                    self.next_listener.next = true;
                    self.refusal.next = PortStatus::InUse;
                    if self.listener_in_range.q.val() {
                        self.refuse.next = true;
                        self.rep.d.next.port = self.listener.q.val().port;
                    }
                }
                PortOp::Open => {
                    self.next_user.next = self.listener_here.q.val();
                    self.next_listener.next = !self.listener_here.q.val();
                }
                _ => {
                    self.done.next = self.listener_here.q.val();
                    self.next_listener.next = true;
                }
            },

            // ---- search of the users
            PortDbState::User1 => {
                self.state.d.next = PortDbState::User2;
                self.next_user.next = !self.user_live.val();
            }
            PortDbState::User2 => {
                self.state.d.next = PortDbState::User3;
            }
            PortDbState::User3 => {
                self.state.d.next = PortDbState::User4;
            }
            PortDbState::User4 => {
                self.next_user.next = true;
                if self.opening.val() {
                    if self.req.q.val().port.any() {
                        self.not_sole.next = self.user_here.q.val();
                    } else if self.user_in_range.q.val() {
                        self.target.next = bit_cast::<P, 16>(self.user.q.val().port);
                        self.go.next = true;
                        self.next_user.next = false;
                        self.state.d.next = PortDbState::Read1;
                    }
                } else if self.req.q.val().op == PortOp::Reserve {
                    self.refusal.next = PortStatus::InUse;
                    if self.user_in_range.q.val() & !self.user.q.val().waiting {
                        self.refuse.next = true;
                        self.rep.d.next.port = self.user.q.val().port;
                    }
                } else {
                    self.done.next = self.user_here.q.val();
                }
            }

            // ---- change of a word
            PortDbState::Write => {
                self.state.d.next = PortDbState::Sum;
                if !self.sweeping.q.val() {
                    self.reply_now.next = true;
                    if self.req.q.val().op == PortOp::Listen {
                        self.cam.write.next = true;
                        self.listeners.write_enable.next = true;
                        self.listening.d.next = self.listening.q.val() | self.free_listener.q.val();
                        self.listener_count.d.next = self.listener_count.q.val() + 1;
                        self.rep.d.next.port = self.here16.val();
                        self.rep.d.next.listener = bit_cast::<16, L>(self.free_listener_index.q.val());
                    } else if self.req.q.val().op == PortOp::Open {
                        self.users.write_enable.next = true;
                        self.user_value.next.sole = !self.rep.q.val().shared;
                        self.live.d.next = self.live.q.val() | self.free_user.q.val();
                        self.rep.d.next.port = self.here16.val();
                        self.rep.d.next.user = bit_cast::<16, S>(self.free_user_index.q.val());
                    }
                }
            }
            PortDbState::Sum => {
                self.full.write_enable.next = true;
                self.state.d.next = PortDbState::Top;
            }
            PortDbState::Top => {
                self.top.d.next = self.top.q.val() & !self.group_bit.q.val();
                if self.full_sum.q.val().all() {
                    self.top.d.next = self.top.q.val() | self.group_bit.q.val();
                }
                self.state.d.next = PortDbState::Idle;
                if self.sweeping.q.val() {
                    if self.word.q.val() != self.end_word.q.val() {
                        self.word.d.next = self.word.q.val() + 1;
                        self.state.d.next = PortDbState::Read1;
                    } else if self.clearing.q.val() {
                        self.alive.d.next = true;
                    } else {
                        self.reply_now.next = !self.rebuilding.q.val();
                    }
                }
            }
            _ => {
                self.state.d.next = PortDbState::Idle;
            }
        }

        // ---- what several steps have in common
        if self.next_listener.val() {
            self.state.d.next = PortDbState::Listener1;
            self.listener_index.d.next = self.listener_index.q.val() + 1;
            if self.listener_index.q.val() == self.last_listener.val() {
                self.listener_index.d.next = 0.into();
                if self.req.q.val().op == PortOp::Open {
                    // no listener has the candidate of an exhausted range: share it
                    self.not_sole.next = true;
                    self.state.d.next = PortDbState::Write;
                } else {
                    self.all_users.next = true;
                }
            }
        }
        if self.next_user.val() {
            self.state.d.next = PortDbState::User1;
            self.user_index.d.next = self.user_index.q.val() + 1;
            self.users_left.d.next = self.users_left.q.val() - 1;
            self.listener_index.d.next = 0.into();
            if !self.users_left.q.val().any() {
                if self.opening.val() {
                    self.state.d.next = PortDbState::Write;
                    if !self.req.q.val().port.any() {
                        self.refuse.next = true;
                        self.refusal.next = PortStatus::NoPorts;
                    }
                } else {
                    // nobody else has the port: its bit goes; or nobody is in the way of the range
                    self.sweeping.d.next = self.req.q.val().op == PortOp::Reserve;
                    self.end_word.d.next = bit_cast::<A, P>(self.req_last.val() >> self.log_word.val());
                    self.writing.d.next = true;
                    self.state.d.next = PortDbState::Read1;
                }
            }
        }
        if self.all_users.val() {
            self.user_index.d.next = 0.into();
            if self.state.q.val() == PortDbState::ChooseGo {
                // the first one tried is random: who asks again may get another
                self.user_index.d.next = bit_cast::<S, 32>(self.lfsr.q.val());
            }
            self.users_left.d.next = self.last_user.val();
            self.state.d.next = PortDbState::User1;
        }
        if self.not_sole.val() {
            self.users.write_address.next = self.user_index.q.val();
            self.user_value.next.port = self.user.q.val().port;
            self.user_value.next.waiting = self.user.q.val().waiting;
            self.users.write_enable.next = true;
        }
        self.users.write_data.next = self.user_value.val();
        if self.go.val() {
            self.port.d.next = self.target.val();
            self.word.d.next = bit_cast::<A, P>(self.target.val() >> self.log_word.val());
        }
        if self.rep_valid.q.val() & self.reply.ready.val() {
            self.rep_valid.d.next = false;
        }
        if self.refuse.val() {
            self.rep.d.next.status = self.refusal.val();
            self.rep.d.next.shared = false;
        }
        if self.refuse.val() | self.done.val() {
            self.state.d.next = PortDbState::Idle;
        }
        if self.refuse.val() | self.done.val() | self.reply_now.val() {
            self.rep_valid.d.next = true;
        }

        self.ready.next = self.alive.q.val();
        self.request.ready.next = self.is_idle.val();
        self.reply.valid.next = self.rep_valid.q.val();
        self.reply.data.next = self.rep.q.val();
        self.listeners_live.next = self.listener_count.q.val();
        self.replied.next = self.rep_valid.q.val() & self.reply.ready.val();
        self.cnt_port_in_use.next = self.replied.val() & (self.rep.q.val().status == PortStatus::InUse);
        self.cnt_port_reserved.next = self.replied.val() & (self.rep.q.val().status == PortStatus::Reserved);
        self.cnt_ports_exhausted.next = self.replied.val() & (self.rep.q.val().status == PortStatus::NoPorts);

        if self.reset.val() {
            self.state.d.next = PortDbState::Read1;
            self.word.d.next = 0.into();
            self.end_word.d.next = self.last_word.val();
            self.writing.d.next = true;
            self.sweeping.d.next = true;
            self.clearing.d.next = true;
            self.rebuilding.d.next = false;
            self.range_first.d.next = self.first_asked.val();
            self.range_last.d.next = self.last_asked.val();
            self.live.d.next = 0.into();
            self.listening.d.next = 0.into();
            self.listener_count.d.next = 0.into();
            self.alive.d.next = false;
            self.rep_valid.d.next = false;
            self.stage1.d.next = false;
            self.stage2.d.next = false;
            self.stage3.d.next = false;
        }
    }
}
