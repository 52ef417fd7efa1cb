// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set-up rules: who may connect to us, and to whom we may connect.
//!
//! **Interface.** `set` puts a rule into its place or takes it out; from the clock in which it is taken on it counts for every `query` that is taken.
//! `query` is a set-up: the peer's address, and the port that is connected to (for a SYN to us the local one, for CONNECT the remote one); each is
//! answered on `answer`, in order, one at a time.
//!
//! **Rules.** Of the rules that match (direction, peer within network, port within range) the one with the lowest number decides; a set-up that none
//! matches is allowed. `reset` takes all rules out.
//!
//! **States.** `Idle` takes `set` before `query`; `Look` reads one rule a clock and compares the one before; `Answer`.
//! **Waiting.** `set` waits for a query under way. `answer` waits for the asker, who must take it whatever else it waits for.
//! **Timing.** Without any rule the answer comes in the clock after the query; with rule n deciding n + 4 clocks after it, with none 2^R + 3.
//! **Memory.** 2^R x 99 bits, distributed; a flip-flop a rule says whether there is one. `RN` = 2^R.
use crate::stream::{ChanShare2, ChanSink, ChanSrc};
use rust_hdl::prelude::*;

/// `live` false: there is no such rule any more.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RuleSet {
    pub number: Bits<8>,
    pub live: Bit,
    pub rule: SetupRule,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SetupRule {
    /// Else it allows.
    pub deny: Bit,
    /// Counts for SYNs to our listeners / for CONNECT.
    pub inbound: Bit,
    pub outbound: Bit,
    pub network: Bits<32>,
    pub mask: Bits<32>,
    pub first: Bits<16>,
    pub last: Bits<16>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RuleQuery {
    pub outbound: Bit,
    pub peer: Bits<32>,
    pub port: Bits<16>,
}

/// High: denied. (Not a struct: a struct of one bit has no bit 0 to select in Verilog.)
pub type RuleAnswer = Bit;

/// The two who ask: SYNs (`tcp::syn_guard`) and CONNECT (`cm::conn`).
pub type RuleShare = ChanShare2<RuleQuery, RuleAnswer>;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RulesState {
    Idle,
    Look,
    Answer,
}

/// `R`: log2 of the rules.
#[derive(LogicBlock)]
pub struct Rules<const R: usize, const RN: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub set: ChanSink<RuleSet>,
    pub query: ChanSink<RuleQuery>,
    pub answer: ChanSrc<RuleAnswer>,
    rules: RAM<SetupRule, R>,
    live: DFF<Bits<RN>>,
    state: DFF<RulesState>,
    asked: DFF<RuleQuery>,
    /// Rule whose address is at the RAM / whose word is at its output / that was compared; the last two may not hold yet.
    at: DFF<Bits<R>>,
    last_read: DFF<Bit>,
    read: DFF<Bit>,
    read_live: DFF<Bit>,
    read_last: DFF<Bit>,
    compared: DFF<Bit>,
    compared_last: DFF<Bit>,
    hit: DFF<Bit>,
    hit_denies: DFF<Bit>,
    denied: DFF<Bit>,
    number: Signal<Local, Bits<8>>,
    rule: Signal<Local, SetupRule>,
    in_network: Signal<Local, Bit>,
    in_range: Signal<Local, Bit>,
    in_direction: Signal<Local, Bit>,
    last_rule: Constant<Bits<R>>,
}

impl<const R: usize, const RN: usize> Default for Rules<R, RN> {
    fn default() -> Self {
        assert_eq!(1 << R, RN);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            set: Default::default(),
            query: Default::default(),
            answer: Default::default(),
            rules: Default::default(),
            live: Default::default(),
            state: Default::default(),
            asked: Default::default(),
            at: Default::default(),
            last_read: Default::default(),
            read: Default::default(),
            read_live: Default::default(),
            read_last: Default::default(),
            compared: Default::default(),
            compared_last: Default::default(),
            hit: Default::default(),
            hit_denies: Default::default(),
            denied: Default::default(),
            number: Default::default(),
            rule: Default::default(),
            in_network: Default::default(),
            in_range: Default::default(),
            in_direction: Default::default(),
            last_rule: Constant::new((RN as u64 - 1).to_bits()),
        }
    }
}

impl<const R: usize, const RN: usize> Logic for Rules<R, RN> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, live, state, asked, at, last_read, read, read_live, read_last);
        dff_setup!(self, clock, compared, compared_last, hit, hit_denies, denied);
        self.rules.read_clock.next = self.clock.val();
        self.rules.write_clock.next = self.clock.val();
        self.number.next = self.set.data.val().number;
        self.rules.read_address.next = self.at.q.val();
        self.rules.write_address.next = self.number.val().get_bits::<R>(0);
        self.rules.write_data.next = self.set.data.val().rule;
        self.rules.write_enable.next = false;
        self.set.ready.next = false;
        self.query.ready.next = false;
        self.answer.valid.next = false;
        self.answer.data.next = self.denied.q.val();

        // read, compare, decide: three rules are under way
        self.rule.next = self.rules.read_data.val();
        self.in_network.next = ((self.asked.q.val().peer ^ self.rule.val().network) & self.rule.val().mask) == 0;
        self.in_range.next = (self.asked.q.val().port >= self.rule.val().first) & (self.asked.q.val().port <= self.rule.val().last);
        self.in_direction.next = self.rule.val().inbound;
        if self.asked.q.val().outbound {
            self.in_direction.next = self.rule.val().outbound;
        }
        self.read.d.next = false;
        self.read_live.d.next = self.live.q.val().get_bit(self.at.q.val().index());
        self.read_last.d.next = self.at.q.val() == self.last_rule.val();
        self.compared.d.next = self.read.q.val();
        self.compared_last.d.next = self.read_last.q.val();
        self.hit.d.next = self.read_live.q.val() & self.in_network.val() & self.in_range.val() & self.in_direction.val();
        self.hit_denies.d.next = self.rule.val().deny;

        match self.state.q.val() {
            RulesState::Idle => {
                self.at.d.next = 0.into();
                self.last_read.d.next = false;
                self.compared.d.next = false;
                self.denied.d.next = false;
                if self.set.valid.val() {
                    self.set.ready.next = true;
                    self.rules.write_enable.next = true;
                    self.live.d.next = self.live.q.val().replace_bit(self.number.val().get_bits::<R>(0).index(), self.set.data.val().live);
                } else {
                    self.query.ready.next = true;
                    self.asked.d.next = self.query.data.val();
                    if self.query.valid.val() {
                        self.state.d.next = RulesState::Look;
                        if !self.live.q.val().any() {
                            self.state.d.next = RulesState::Answer;
                        }
                    }
                }
            }
            RulesState::Look => {
                if !self.last_read.q.val() {
                    self.read.d.next = true;
                    self.at.d.next = self.at.q.val() + 1;
                    self.last_read.d.next = self.at.q.val() == self.last_rule.val();
                }
                if self.compared.q.val() & (self.hit.q.val() | self.compared_last.q.val()) {
                    self.denied.d.next = self.hit.q.val() & self.hit_denies.q.val();
                    self.read.d.next = false;
                    self.state.d.next = RulesState::Answer;
                }
            }
            RulesState::Answer => {
                self.answer.valid.next = true;
                self.compared.d.next = false;
                if self.answer.ready.val() {
                    self.state.d.next = RulesState::Idle;
                }
            }
            _ => {
                self.state.d.next = RulesState::Idle;
            }
        }
        if self.reset.val() {
            self.state.d.next = RulesState::Idle;
            self.live.d.next = 0.into();
        }
    }
}
