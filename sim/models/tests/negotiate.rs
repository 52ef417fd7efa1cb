// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::negotiate` against RFC 6581 section 9 in plain words, for every combination of the values that matter.
use ironwarp_models::{bench, negotiate::Model, Dut};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const D: u16 = 8;
const OPEN: u16 = 0x3fff;
const REQUEST: u8 = 0;
const JUDGE: u8 = 1;
const ANSWER: u8 = 2;

#[derive(Debug, PartialEq, Clone, Copy)]
struct Out {
    ird: u16,
    ord: u16,
    no_ird: bool,
    above: bool,
    no_rtr: bool,
}

struct Bench(Model);

impl Bench {
    fn run(&mut self, op: u8, p2p: bool, own: (u16, u16), peer: (u16, u16)) -> (Out, (u16, u16), u16) {
        let m = &mut self.0;
        m.op.set(op);
        m.peer_to_peer.set(p2p);
        m.own_ird.set(own.0);
        m.own_ord.set(own.1);
        m.peer_ird_word.set(peer.0);
        m.peer_ord_word.set(peer.1);
        m.tick();
        m.tick();
        let out = Out { ird: m.ird.get(), ord: m.ord.get(), no_ird: m.no_ird.get(), above: m.above.get(), no_rtr: m.no_rtr.get() };
        (out, (m.ird_word.get(), m.ord_word.get()), m.reject_ord_word.get())
    }
}

const VALUES: [u16; 9] = [0, 1, 2, D - 1, D, D + 1, 0x3ffe, OPEN, 0x100];

fn pairs() -> impl Iterator<Item = (u16, u16)> {
    VALUES.into_iter().flat_map(|first| VALUES.map(|second| (first, second)))
}

/// A number of this many bits: small, large, one bit alone, one bit away from 0x3FFF, or any.
fn any(rng: &mut ChaCha8Rng, bits: u32) -> u16 {
    let bit = 1 << rng.random_range(0..bits);
    let any = rng.random::<u16>() >> (16 - bits);
    [any % (2 * D), any % (2 * D), bit, OPEN ^ bit, any][rng.random_range(0..5)]
}

/// What the peer asks or says, with these four bits before it, against what we ask or have said.
fn check_against_a_peer(b: &mut Bench, (own_ird, own_ord): (u16, u16), (peer_ird, peer_ord): (u16, u16), bits: u16) {
    let (a, offer_b, c, d) = (bits & 8 != 0, bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
    let words = (peer_ird | u16::from(a) << 15 | u16::from(offer_b) << 14, peer_ord | u16::from(c) << 15 | u16::from(d) << 14);
    // as Responder
    let (out, said, rejected) = b.run(ANSWER, false, (own_ird, own_ord), words);
    let case = format!("own {own_ird:x} {own_ord:x} peer {words:x?}");
    let (mut ird, mut ord) = (own_ird.min(D), own_ord.min(D));
    let asked = ord;
    if peer_ord != OPEN {
        ird = ird.max(peer_ord);
    }
    if peer_ird != OPEN {
        ord = ord.min(peer_ird);
    }
    let read_rtr = a && !c && d;
    if read_rtr {
        ird = ird.max(1);
    }
    assert_eq!((out.no_ird, out.above), (ird > D, peer_ird != OPEN && asked > peer_ird), "{case}");
    assert_eq!((out.ird, out.ord), (ird.min(D), ord), "{case}");
    let number = |theirs, ours| if theirs == OPEN { OPEN } else { ours };
    assert_eq!((said.0 & 0x3fff, said.1 & 0x3fff), (number(peer_ord, ird.min(D)), number(peer_ird, ord)), "{case}");
    assert_eq!(rejected & 0x3fff, number(peer_ird, asked));
    assert_eq!(
        (said.0 >> 14, said.1 >> 14, rejected >> 14),
        match (a, read_rtr) {
            (false, _) => (0, 0, 0),
            (true, true) => (2, 1, 1),
            (true, false) => (2, 2, 2),
        }
    );
    // as Initiator
    for p2p in [false, true] {
        let (mut ird, mut ord) = (own_ird.min(D), own_ord.min(D));
        let (out, ..) = b.run(JUDGE, p2p, (ird, ord), words);
        if peer_ord != OPEN {
            ird = ird.max(peer_ord);
        }
        if peer_ird != OPEN {
            ord = ord.min(peer_ird);
        }
        assert_eq!((out.ird, out.ord, out.no_ird), (ird.min(D), ord, ird > D), "{case}");
        assert_eq!(out.no_rtr, p2p && !(a && (c || d && ord > 0)), "{case}");
    }
}

/// After a start-up that succeeds, neither side's ORD is above the other's IRD; what cannot be is said; 0x3FFF is no number.
///
/// Covers: ENH-3, ENH-4, ENH-7, ENH-8, ENH-10, ENH-14, ENH-15, ENH-23, CM-28, DEF-11, DEF-62, CH-5, CH-18, CH-19
#[test]
fn answer_and_judge_follow_the_rules() {
    let mut b = Bench(Model::new(1));
    for own in pairs() {
        for peer in pairs() {
            (0..16).for_each(|bits| check_against_a_peer(&mut b, own, peer, bits));
        }
    }
    // and any numbers: a host may ask for more than a word can say
    let mut rng = ChaCha8Rng::seed_from_u64(bench::seed("negotiate"));
    for _ in 0..40_000 {
        let (own, peer) = ((any(&mut rng, 16), any(&mut rng, 16)), (any(&mut rng, 14), any(&mut rng, 14)));
        check_against_a_peer(&mut b, own, peer, rng.random_range(0..16));
    }
}

/// What CONNECT asks is clamped, 0x3FFF goes out as it is, and peer to peer offers Write and Read, never Send.
///
/// Covers: ENH-4, ENH-8, ENH-11, ENH-15, ENH-21, DEF-58
#[test]
fn a_request_says_what_the_adapter_can() {
    let mut b = Bench(Model::new(2));
    let mut rng = ChaCha8Rng::seed_from_u64(bench::seed("negotiate"));
    let random: Vec<_> = (0..10_000).map(|_| (any(&mut rng, 16), any(&mut rng, 16))).collect();
    for (own_ird, own_ord) in pairs().chain(random) {
        for p2p in [false, true] {
            let (out, said, _) = b.run(REQUEST, p2p, (own_ird, own_ord), (0x1234, 0x5678));
            let least = u16::from(p2p);
            assert_eq!((out.ird, out.ord), (own_ird.min(D), own_ord.min(D).max(least)));
            let number = |asked, have| if asked == OPEN { OPEN } else { have };
            assert_eq!((said.0 & 0x3fff, said.1 & 0x3fff), (number(own_ird, out.ird), number(own_ord, out.ord)));
            assert_eq!((said.0 >> 14, said.1 >> 14), if p2p { (2, 3) } else { (0, 0) });
            assert!(!out.no_ird && !out.above);
            assert_eq!((b.0.open_ird.get(), b.0.open_ord.get()), (own_ird == OPEN, own_ord == OPEN));
        }
    }
}
