// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which connection has this 4-tuple? Hash chains in RAM: 2^A indices in 2^AP buckets.
//!
//! **Interface.** One request at a time, each answered once, in order; the next is taken when the reply to the last was. Indices are below
//! 2^A. `Find` answers who has the tuple. `Insert` gives the tuple to an index; the asker knows that nobody has the tuple, and an index that has one
//! already keeps it. `Remove` takes its tuple from an index; without one nothing happens. `secret` must not change from `ready` on. A Find waits
//! for nobody but the taker of its reply.
//!
//! **Hash.** A tuple's bucket depends on `secret` in a way that whoever does not know it cannot steer: three rounds of SipHash's
//! mixing on words of 32 bits, of the remote address, the ports and the local address, in this order: the last round follows what a peer
//! can choose. So no peer can aim its tuples at one chain; and if a chain is long all the same, a walk ends after 2^A steps.
//!
//! **States.** See [`LookupState`].
//!
//! | request | path |
//! |---|---|
//! | Find | Idle, Mix x 3, Head, Fetch, Row, Compare (Row, Compare)*, Answer |
//! | Insert | Idle, Mix x 3, Head, Fetch, Put, Answer |
//! | Remove | Idle, Own, OwnLatch, Head, Fetch, First (Link, Unlink)*, Gone, Answer |
//!
//! **Timing.** From the clock in which a request is taken to the one in which its reply is offered: Find 8 clocks if the first of the chain has
//! the tuple and 2 more for each further one, 6 if the chain is empty; Insert 7; Remove 7, and 2 for each one before it. Ready
//! max(2^A, 2^AP) clocks after a reset.
//!
//! **Memory.** By index, 2^A words each: `rows` in block RAM, the tuple and, so that Remove needs no hash, its bucket; `links`, whether the index has a tuple and
//! the rest of its chain. By bucket, 2^AP words in block RAM: `heads`, in the low bits the first of its chain, in bit 15 whether there
//! is one. `links` and `heads` are cleared after a reset.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// Where a request is.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum LookupState {
    /// After reset: `links` and `heads` are cleared.
    Clear,
    Idle,
    /// Three clocks, one round of the hash each.
    Mix,
    /// The bucket is known: its head is read; for Insert and Remove also what follows the index.
    Head,
    /// The head is at the output of its RAM, and goes on as the address of the first entry.
    Fetch,
    /// Find: an entry is at the output of its RAM.
    Row,
    /// Find: has it the tuple?
    Compare,
    /// Insert: write.
    Put,
    /// Remove: what is known of the index is read.
    Own,
    /// Remove: they are at the outputs of their RAMs.
    OwnLatch,
    /// Remove: is it the first of its chain?
    First,
    /// Remove: what follows one before it is at the output of its RAM.
    Link,
    /// Remove: is it the one after this?
    Unlink,
    /// Remove: it has no tuple any more.
    Gone,
    Answer,
}

/// The tuple of an index, and its bucket.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LookupRow {
    pub tuple: Tuple,
    pub bucket: Bits<16>,
}

/// The place of an index in its chain.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LookupLink {
    /// It has a tuple, so it is in one.
    pub present: Bit,
    /// `follower` comes after it.
    pub more: Bit,
    pub follower: Bits<16>,
}

/// `A`: log2 of the indices; `AP`: log2 of the buckets.
#[derive(LogicBlock)]
pub struct Lookup<const A: usize, const AP: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub secret: Signal<In, Bits<32>>,
    pub request: ChanSink<LookupRequest>,
    pub reply: ChanSrc<LookupReply>,
    rows: BlockRam<LookupRow, A>,
    links: RAM<LookupLink, A>,
    heads: BlockRam<Bits<16>, AP>,
    state: DFF<LookupState>,
    cleared: DFF<Bits<16>>,
    // the request
    op: DFF<LookupOp>,
    key: DFF<Tuple>,
    index: DFF<Bits<A>>,
    // the hash
    round: DFF<Bits<2>>,
    v0: DFF<Bits<32>>,
    v1: DFF<Bits<32>>,
    v2: DFF<Bits<32>>,
    v3: DFF<Bits<32>>,
    bucket: DFF<Bits<AP>>,
    // the chain: the entry at hand, and what was read of it
    cursor: DFF<Bits<A>>,
    cursor_some: DFF<Bit>,
    row: DFF<Tuple>,
    row_more: DFF<Bit>,
    row_next: DFF<Bits<A>>,
    steps: DFF<Bits<A>>,
    // Remove, Insert: the link of `index`
    own_present: DFF<Bit>,
    own_more: DFF<Bit>,
    own_next: DFF<Bits<A>>,
    found: DFF<Bit>,
    asked_tuple: Signal<Local, Tuple>,
    asked_index: Signal<Local, Bits<16>>,
    secret_turned: Signal<Local, Bits<32>>,
    ports: Signal<Local, Bits<32>>,
    a0: Signal<Local, Bits<32>>,
    a0_turned: Signal<Local, Bits<32>>,
    a1: Signal<Local, Bits<32>>,
    a2: Signal<Local, Bits<32>>,
    a3: Signal<Local, Bits<32>>,
    b0: Signal<Local, Bits<32>>,
    b1: Signal<Local, Bits<32>>,
    b2: Signal<Local, Bits<32>>,
    b3: Signal<Local, Bits<32>>,
    hash: Signal<Local, Bits<32>>,
    slot: Signal<Local, Bits<AP>>,
    /// Address of what is read by index.
    at: Signal<Local, Bits<A>>,
    /// What was read, and what is written.
    row_here: Signal<Local, LookupRow>,
    own_bucket: Signal<Local, Bits<16>>,
    new_row: Signal<Local, LookupRow>,
    link_here: Signal<Local, LookupLink>,
    next_here: Signal<Local, Bits<16>>,
    new_link: Signal<Local, LookupLink>,
    hit: Signal<Local, Bit>,
    at_end: Signal<Local, Bit>,
    head_word: Signal<Local, Bits<16>>,
    head_some: Signal<Local, Bit>,
    head_first: Signal<Local, Bits<A>>,
    new_some: Signal<Local, Bit>,
    new_first: Signal<Local, Bits<A>>,
    new_head: Signal<Local, Bits<16>>,
    some_bit: Constant<Bits<16>>,
    first_constant: Constant<Bits<32>>,
    second_constant: Constant<Bits<32>>,
    last_clear: Constant<Bits<16>>,
    last_step: Constant<Bits<A>>,
}

impl<const A: usize, const AP: usize> Default for Lookup<A, AP> {
    fn default() -> Self {
        assert!((1..=15).contains(&A) && (1..=15).contains(&AP));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            secret: Default::default(),
            request: Default::default(),
            reply: Default::default(),
            rows: Default::default(),
            links: Default::default(),
            heads: Default::default(),
            state: Default::default(),
            cleared: Default::default(),
            op: Default::default(),
            key: Default::default(),
            index: Default::default(),
            round: Default::default(),
            v0: Default::default(),
            v1: Default::default(),
            v2: Default::default(),
            v3: Default::default(),
            bucket: Default::default(),
            cursor: Default::default(),
            cursor_some: Default::default(),
            row: Default::default(),
            row_more: Default::default(),
            row_next: Default::default(),
            steps: Default::default(),
            own_present: Default::default(),
            own_more: Default::default(),
            own_next: Default::default(),
            found: Default::default(),
            asked_tuple: Default::default(),
            asked_index: Default::default(),
            secret_turned: Default::default(),
            ports: Default::default(),
            a0: Default::default(),
            a0_turned: Default::default(),
            a1: Default::default(),
            a2: Default::default(),
            a3: Default::default(),
            b0: Default::default(),
            b1: Default::default(),
            b2: Default::default(),
            b3: Default::default(),
            hash: Default::default(),
            slot: Default::default(),
            at: Default::default(),
            row_here: Default::default(),
            own_bucket: Default::default(),
            new_row: Default::default(),
            link_here: Default::default(),
            next_here: Default::default(),
            new_link: Default::default(),
            hit: Default::default(),
            at_end: Default::default(),
            head_word: Default::default(),
            head_some: Default::default(),
            head_first: Default::default(),
            new_some: Default::default(),
            new_first: Default::default(),
            new_head: Default::default(),
            some_bit: Constant::new(0x8000u64.to_bits()),
            first_constant: Constant::new(0x6c79_6765u64.to_bits()),
            second_constant: Constant::new(0x7465_6462u64.to_bits()),
            last_clear: Constant::new(((1u64 << A.max(AP)) - 1).to_bits()),
            last_step: Constant::new(((1u64 << A) - 1).to_bits()),
        }
    }
}

impl<const A: usize, const AP: usize> Logic for Lookup<A, AP> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, cleared, op, key, index, round, v0, v1, v2, v3, bucket);
        dff_setup!(self, clock, cursor, cursor_some, row, row_more, row_next, steps, own_present, own_more, own_next, found);
        self.rows.read_clock.next = self.clock.val();
        self.rows.write_clock.next = self.clock.val();
        self.links.read_clock.next = self.clock.val();
        self.links.write_clock.next = self.clock.val();
        self.heads.read_clock.next = self.clock.val();
        self.heads.write_clock.next = self.clock.val();

        self.asked_tuple.next = self.request.data.val().tuple;
        self.asked_index.next = self.request.data.val().index;

        // one round of the hash
        self.secret_turned.next = (self.secret.val() << 16) | (self.secret.val() >> 16);
        self.ports.next = bit_cast::<32, 16>(self.key.q.val().remote_port) | (bit_cast::<32, 16>(self.key.q.val().local_port) << 16);
        self.a0.next = self.v0.q.val() + self.v1.q.val();
        self.a0_turned.next = (self.a0.val() << 16) | (self.a0.val() >> 16);
        self.a1.next = ((self.v1.q.val() << 5) | (self.v1.q.val() >> 27)) ^ self.a0.val();
        self.a2.next = self.v2.q.val() + self.v3.q.val();
        self.a3.next = ((self.v3.q.val() << 8) | (self.v3.q.val() >> 24)) ^ self.a2.val();
        self.b0.next = self.a0_turned.val() + self.a3.val();
        self.b3.next = ((self.a3.val() << 7) | (self.a3.val() >> 25)) ^ self.b0.val();
        self.b2.next = self.a2.val() + self.a1.val();
        self.b1.next = ((self.a1.val() << 13) | (self.a1.val() >> 19)) ^ self.b2.val();
        self.hash.next = self.v1.q.val() ^ self.v3.q.val();
        // Remove has found its bucket in RAM
        self.slot.next = self.hash.val().get_bits::<AP>(0);
        if self.op.q.val() == LookupOp::Remove {
            self.slot.next = self.bucket.q.val();
        }

        // defaults
        self.ready.next = self.state.q.val() != LookupState::Clear;
        self.request.ready.next = false;
        self.reply.valid.next = false;
        self.reply.data.next.found = self.found.q.val();
        self.reply.data.next.index = bit_cast::<16, A>(self.cursor.q.val());
        self.hit.next = self.row.q.val() == self.key.q.val();
        self.at_end.next = !self.row_more.q.val() | (self.steps.q.val() == self.last_step.val());
        self.at.next = self.index.q.val();
        self.row_here.next = self.rows.read_data.val();
        self.rows.write_enable.next = false;
        self.rows.write_address.next = self.index.q.val();
        self.own_bucket.next = self.row_here.val().bucket;
        self.new_row.next.tuple = self.key.q.val();
        self.new_row.next.bucket = bit_cast::<16, AP>(self.bucket.q.val());
        self.link_here.next = self.links.read_data.val();
        self.next_here.next = self.link_here.val().follower;
        self.links.write_enable.next = false;
        self.links.write_address.next = self.index.q.val();
        self.new_link.next.present = true;
        self.new_link.next.more = self.cursor_some.q.val();
        self.new_link.next.follower = bit_cast::<16, A>(self.cursor.q.val());
        self.head_word.next = self.heads.read_data.val();
        self.head_some.next = self.head_word.val().get_bit(15);
        self.head_first.next = self.head_word.val().get_bits::<A>(0);
        self.heads.write_enable.next = false;
        self.heads.write_address.next = self.bucket.q.val();
        self.new_some.next = true;
        self.new_first.next = self.index.q.val();

        match self.state.q.val() {
            LookupState::Clear => {
                self.links.write_enable.next = true;
                self.links.write_address.next = self.cleared.q.val().get_bits::<A>(0);
                self.new_link.next.present = false;
                self.heads.write_enable.next = true;
                self.heads.write_address.next = self.cleared.q.val().get_bits::<AP>(0);
                self.new_some.next = false;
                self.cleared.d.next = self.cleared.q.val() + 1;
                if self.cleared.q.val() == self.last_clear.val() {
                    self.state.d.next = LookupState::Idle;
                }
            }
            LookupState::Idle => {
                self.request.ready.next = true;
                self.op.d.next = self.request.data.val().op;
                self.key.d.next = self.asked_tuple.val();
                self.index.d.next = self.asked_index.val().get_bits::<A>(0);
                self.round.d.next = 0.into();
                self.v0.d.next = self.secret.val();
                self.v1.d.next = self.secret_turned.val();
                self.v2.d.next = self.secret.val() ^ self.first_constant.val();
                self.v3.d.next = self.secret_turned.val() ^ self.second_constant.val() ^ self.asked_tuple.val().remote_ip;
                self.steps.d.next = 0.into();
                self.found.d.next = false;
                if self.request.valid.val() {
                    self.state.d.next = LookupState::Mix;
                    if self.request.data.val().op == LookupOp::Remove {
                        self.state.d.next = LookupState::Own;
                    }
                }
            }
            LookupState::Mix => {
                self.round.d.next = self.round.q.val() + 1;
                self.v0.d.next = self.b0.val() ^ self.key.q.val().remote_ip;
                self.v1.d.next = self.b1.val();
                self.v2.d.next = (self.b2.val() << 16) | (self.b2.val() >> 16);
                self.v3.d.next = self.b3.val() ^ self.ports.val();
                if self.round.q.val() == 1 {
                    self.v0.d.next = self.b0.val() ^ self.ports.val();
                    self.v3.d.next = self.b3.val() ^ self.key.q.val().local_ip;
                }
                if self.round.q.val() == 2 {
                    self.v3.d.next = self.b3.val();
                    self.state.d.next = LookupState::Head;
                }
            }
            LookupState::Own => {
                self.state.d.next = LookupState::OwnLatch;
            }
            LookupState::OwnLatch => {
                self.bucket.d.next = self.own_bucket.val().get_bits::<AP>(0);
                self.state.d.next = LookupState::Head;
            }
            LookupState::Head => {
                self.bucket.d.next = self.slot.val();
                self.state.d.next = LookupState::Fetch;
            }
            LookupState::Fetch => {
                self.own_present.d.next = self.link_here.val().present;
                self.own_more.d.next = self.link_here.val().more;
                self.own_next.d.next = self.next_here.val().get_bits::<A>(0);
                self.cursor.d.next = self.head_first.val();
                self.cursor_some.d.next = self.head_some.val();
                self.at.next = self.head_first.val();
                if self.op.q.val() == LookupOp::Insert {
                    self.state.d.next = LookupState::Put;
                } else if self.op.q.val() == LookupOp::Remove {
                    self.state.d.next = LookupState::First;
                } else {
                    self.state.d.next = LookupState::Row;
                    if !self.head_some.val() {
                        self.state.d.next = LookupState::Answer;
                    }
                }
            }
            LookupState::Row => {
                self.row.d.next = self.row_here.val().tuple;
                self.row_more.d.next = self.link_here.val().more;
                self.row_next.d.next = self.next_here.val().get_bits::<A>(0);
                self.state.d.next = LookupState::Compare;
            }
            LookupState::Compare => {
                self.at.next = self.row_next.q.val();
                self.found.d.next = self.hit.val();
                self.state.d.next = LookupState::Row;
                if self.hit.val() | self.at_end.val() {
                    self.state.d.next = LookupState::Answer;
                } else {
                    self.cursor.d.next = self.row_next.q.val();
                    self.steps.d.next = self.steps.q.val() + 1;
                }
            }
            LookupState::Put => {
                if !self.own_present.q.val() {
                    self.rows.write_enable.next = true;
                    self.links.write_enable.next = true;
                    self.heads.write_enable.next = true;
                }
                self.state.d.next = LookupState::Answer;
            }
            LookupState::First => {
                self.at.next = self.cursor.q.val();
                self.new_some.next = self.own_more.q.val();
                self.new_first.next = self.own_next.q.val();
                if !self.own_present.q.val() {
                    self.state.d.next = LookupState::Answer;
                } else if self.cursor.q.val() == self.index.q.val() {
                    self.heads.write_enable.next = true;
                    self.state.d.next = LookupState::Gone;
                } else {
                    self.state.d.next = LookupState::Link;
                }
            }
            LookupState::Link => {
                self.row_more.d.next = self.link_here.val().more;
                self.row_next.d.next = self.next_here.val().get_bits::<A>(0);
                self.state.d.next = LookupState::Unlink;
            }
            LookupState::Unlink => {
                self.at.next = self.row_next.q.val();
                self.links.write_address.next = self.cursor.q.val();
                self.new_link.next.more = self.own_more.q.val();
                self.new_link.next.follower = bit_cast::<16, A>(self.own_next.q.val());
                self.cursor.d.next = self.row_next.q.val();
                self.steps.d.next = self.steps.q.val() + 1;
                self.state.d.next = LookupState::Link;
                if self.row_more.q.val() & (self.row_next.q.val() == self.index.q.val()) {
                    self.links.write_enable.next = true;
                    self.state.d.next = LookupState::Gone;
                } else if self.at_end.val() {
                    self.state.d.next = LookupState::Gone;
                }
            }
            LookupState::Gone => {
                self.links.write_enable.next = true;
                self.new_link.next.present = false;
                self.state.d.next = LookupState::Answer;
            }
            LookupState::Answer => {
                self.reply.valid.next = true;
                if self.reply.ready.val() {
                    self.state.d.next = LookupState::Idle;
                }
            }
            _ => {
                self.state.d.next = LookupState::Clear;
            }
        }
        self.rows.read_address.next = self.at.val();
        self.rows.write_data.next = self.new_row.val();
        self.links.read_address.next = self.at.val();
        self.links.write_data.next = self.new_link.val();
        self.heads.read_address.next = self.slot.val();
        self.new_head.next = bit_cast::<16, A>(self.new_first.val());
        if self.new_some.val() {
            self.new_head.next = self.new_head.val() | self.some_bit.val();
        }
        self.heads.write_data.next = self.new_head.val();
        if self.reset.val() {
            self.state.d.next = LookupState::Clear;
            self.cleared.d.next = 0.into();
        }
    }
}
