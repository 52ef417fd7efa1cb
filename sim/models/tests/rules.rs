// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::rules::Rules` against a plain list of rules.
use ironwarp_models::{bench, rules::Model, Dut};
use rand::{rngs::StdRng, seq::IndexedRandom, Rng, SeedableRng};

const RULES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Rule {
    deny: bool,
    inbound: bool,
    outbound: bool,
    network: u32,
    mask: u32,
    first: u16,
    last: u16,
}

#[derive(Clone, Copy, Debug)]
struct Query {
    outbound: bool,
    peer: u32,
    port: u16,
}

impl Rule {
    fn matches(&self, q: Query) -> bool {
        (if q.outbound { self.outbound } else { self.inbound })
            && (q.peer ^ self.network) & self.mask == 0
            && (self.first..=self.last).contains(&q.port)
    }
}

struct Bench {
    m: Model,
    plain: [Option<Rule>; RULES],
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench { m: Model::new(seed), plain: [None; RULES] };
        b.reset();
        b
    }
    fn reset(&mut self) {
        self.m.set_valid.set(false);
        self.m.query_valid.set(false);
        self.m.answer_ready.set(false);
        self.m.reset.set(true);
        self.m.tick();
        self.m.reset.set(false);
        self.plain = [None; RULES];
    }
    fn offer_rule(&mut self, number: usize, rule: Option<Rule>) {
        let m = &mut self.m;
        let r = rule.unwrap_or(Rule { deny: true, inbound: true, outbound: true, network: 0, mask: 0, first: 0, last: 0xffff });
        m.set_data_number.set(number as u64);
        m.set_data_live.set(rule.is_some().into());
        m.set_data_rule_deny.set(r.deny.into());
        m.set_data_rule_inbound.set(r.inbound.into());
        m.set_data_rule_outbound.set(r.outbound.into());
        m.set_data_rule_network.set(r.network.into());
        m.set_data_rule_mask.set(r.mask.into());
        m.set_data_rule_first.set(r.first.into());
        m.set_data_rule_last.set(r.last.into());
        m.set_valid.set(true);
    }
    fn set(&mut self, number: usize, rule: Option<Rule>) {
        self.offer_rule(number, rule);
        self.m.eval();
        assert!(self.m.set_ready.get(), "idle");
        self.m.tick();
        self.m.set_valid.set(false);
        self.plain[number] = rule;
    }
    fn begin(&mut self, q: Query) {
        self.m.query_data_outbound.set(q.outbound.into());
        self.m.query_data_peer.set(q.peer.into());
        self.m.query_data_port.set(q.port.into());
        self.m.query_valid.set(true);
        self.m.eval();
        assert!(self.m.query_ready.get(), "idle");
        self.m.tick();
        self.m.query_valid.set(false);
    }
    /// Answer and clocks from the query to it; the asker takes it after `wait`.
    fn ask(&mut self, q: Query, wait: u32) -> (bool, u32) {
        self.begin(q);
        let mut clocks = 1;
        loop {
            self.m.eval();
            if self.m.answer_valid.get() {
                break;
            }
            assert!(!self.m.query_ready.get() && !self.m.set_ready.get(), "one thing at a time");
            self.m.tick();
            clocks += 1;
            assert!(clocks < 40, "no answer");
        }
        let denied = self.m.answer_data.get();
        for _ in 0..wait {
            self.m.tick();
            self.m.eval();
            assert!(self.m.answer_valid.get() && self.m.answer_data.get() == denied, "what is offered stays");
        }
        self.m.answer_ready.set(true);
        self.m.tick();
        self.m.answer_ready.set(false);
        self.m.eval();
        assert!(!self.m.answer_valid.get(), "once");
        (denied, clocks)
    }
    fn check(&mut self, q: Query, wait: u32) -> bool {
        let decides = self.plain.iter().position(|r| r.is_some_and(|r| r.matches(q)));
        let denied = decides.is_some_and(|n| self.plain[n].is_some_and(|r| r.deny));
        let none = self.plain.iter().all(Option::is_none);
        let clocks = if none { 1 } else { decides.unwrap_or(RULES - 1) as u32 + 4 };
        let (got, took) = self.ask(q, wait);
        assert_eq!(got, denied, "{q:?} by {decides:?} of {:?}", self.plain);
        assert_eq!(took, clocks, "{decides:?}");
        denied
    }
}

/// Few peers, networks and ports, so that rules overlap; values at and beside every edge.
#[test]
fn the_lowest_rule_that_matches_decides() {
    let mut rng = StdRng::seed_from_u64(bench::seed("rules"));
    let mut b = Bench::new(1);
    let peers = [0x0a00_0001_u32, 0x0a00_0002, 0x0a01_0001, 0xc000_0201, 0xffff_fffe];
    let ports = [0_u16, 1, 4790, 4791, 4792, 0xfffe, 0xffff];
    let (mut denied, mut asked) = (0, 0);
    for _ in 0..20_000 {
        if rng.random_ratio(1, 3) {
            let mask = (u64::from(u32::MAX) << *[0, 1, 8, 16, 24, 32].choose(&mut rng).expect("some")) as u32;
            let mut range = [*ports.choose(&mut rng).expect("some"), *ports.choose(&mut rng).expect("some")];
            range.sort_unstable();
            let rule = Rule {
                deny: rng.random(),
                inbound: rng.random(),
                outbound: rng.random(),
                network: peers.choose(&mut rng).expect("some") & mask,
                mask,
                first: range[0],
                last: range[1],
            };
            b.set(rng.random_range(0..RULES), Some(rule).filter(|_| rng.random_ratio(1, 3)));
        } else if rng.random_ratio(1, 500) {
            b.reset();
        } else {
            let peer = peers.choose(&mut rng).expect("some") ^ u32::from(rng.random_ratio(1, 4)) << rng.random_range(0..32);
            let q = Query { outbound: rng.random(), peer, port: *ports.choose(&mut rng).expect("some") };
            asked += 1;
            denied += u32::from(b.check(q, rng.random_range(0..3)));
        }
    }
    assert!(denied > asked / 20 && denied < asked, "{denied} of {asked}");
}

/// A rule waits for a question under way, which is answered by the rules as they were; a reset at any time leaves none.
#[test]
fn a_rule_waits_for_a_question_and_a_reset_for_nobody() {
    let all = Rule { deny: true, inbound: true, outbound: true, network: 0, mask: 0, first: 0, last: 0xffff };
    let q = Query { outbound: false, peer: 1, port: 1 };
    let mut b = Bench::new(2);
    b.set(15, Some(Rule { deny: false, ..all }));
    b.begin(q);
    b.offer_rule(0, Some(all));
    b.m.answer_ready.set(true);
    let mut answered = false;
    for clocks in 0.. {
        b.m.eval();
        if b.m.answer_valid.get() {
            assert!(!b.m.answer_data.get(), "the rule came later");
            answered = true;
        }
        if b.m.set_ready.get() {
            break;
        }
        assert!(clocks < 40);
        b.m.tick();
    }
    assert!(answered);
    b.m.tick();
    b.m.set_valid.set(false);
    b.m.answer_ready.set(false);
    b.plain[0] = Some(all);
    assert!(b.check(q, 0));
    for clocks in 0..24 {
        b.set(3, Some(all));
        b.begin(q);
        for _ in 0..clocks {
            b.m.tick();
        }
        b.reset();
        assert!(!b.check(q, 1));
    }
}
