// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tcp::lookup` against a map, in the adapter's size and with two chains for all.
use ironwarp_models::{bench, lookup, lookup_small, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tuple {
    local_ip: u32,
    remote_ip: u32,
    local_port: u16,
    remote_port: u16,
}

/// As `LookupOp` is numbered.
#[derive(Clone, Copy, Debug)]
enum Op {
    Find = 0,
    Insert = 1,
    Remove = 2,
}

/// From few values, so that tuples differ in one field only.
fn tuple(rng: &mut impl Rng) -> Tuple {
    Tuple {
        local_ip: *[0xc000_0201, 0xc000_0202].choose(rng).expect("some"),
        remote_ip: 0xc633_6400 + rng.random_range(0..4),
        local_port: *[4420, 0x8000].choose(rng).expect("some"),
        remote_port: 1024 + rng.random_range(0..8),
    }
}

const ANY: Tuple = Tuple { local_ip: 0, remote_ip: 0, local_port: 0, remote_port: 0 };

macro_rules! bench {
    ($name:ident, $model:ident) => {
        struct $name {
            m: $model::Model,
            /// Clocks from taking the request to offering the reply.
            clocks: u32,
        }
        impl $name {
            fn new(seed: u64, secret: u32) -> Self {
                let mut b = $name { m: $model::Model::new(seed), clocks: 0 };
                b.m.secret.set(secret);
                b.reset();
                b
            }
            /// Until it is ready; in how many clocks?
            fn reset(&mut self) -> u32 {
                self.m.request_valid.set(false);
                self.m.reset.set(true);
                self.m.tick();
                self.m.reset.set(false);
                let mut clocks = 0;
                while !self.m.ready.get() {
                    assert!(!self.m.request_ready.get() && !self.m.reply_valid.get());
                    self.m.tick();
                    clocks += 1;
                    assert!(clocks < 1000, "ready some time");
                }
                clocks
            }
            fn offer(&mut self, op: Op, tuple: Tuple, index: u16) {
                self.m.request_valid.set(true);
                self.m.request_data_op.set(op as u64);
                self.m.request_data_tuple_local_ip.set(tuple.local_ip.into());
                self.m.request_data_tuple_remote_ip.set(tuple.remote_ip.into());
                self.m.request_data_tuple_local_port.set(tuple.local_port.into());
                self.m.request_data_tuple_remote_port.set(tuple.remote_port.into());
                self.m.request_data_index.set(index.into());
                self.m.eval();
                assert!(self.m.request_ready.get(), "idle");
                self.m.tick();
                self.m.request_valid.set(false);
            }
            /// One request; the reply is left waiting for `wait` clocks.
            fn ask(&mut self, op: Op, tuple: Tuple, index: u16, wait: u32) -> Option<u16> {
                self.offer(op, tuple, index);
                self.clocks = 1;
                self.m.reply_ready.set(false);
                self.m.eval();
                while !self.m.reply_valid.get() {
                    self.m.tick();
                    self.clocks += 1;
                    assert!(self.clocks < 200, "every request is answered");
                }
                let reply = |m: &$model::Model| (m.reply_data_found.bit(), m.reply_data_index.get() as u16);
                let (found, who) = reply(&self.m);
                for _ in 0..wait {
                    self.m.tick();
                    assert!(self.m.reply_valid.get() && reply(&self.m) == (found, who) && !self.m.request_ready.get(), "stays");
                }
                self.m.reply_ready.set(true);
                self.m.tick();
                found.then_some(who)
            }
            fn find(&mut self, tuple: Tuple) -> Option<u16> {
                self.ask(Op::Find, tuple, 0, 0)
            }
            /// Random requests against a map; `indices` there are. Returns the longest Find in clocks.
            fn random(&mut self, rng: &mut ChaCha8Rng, indices: u16, requests: usize) -> u32 {
                let mut map: HashMap<Tuple, u16> = HashMap::new();
                let mut longest = 0;
                for step in 0..requests {
                    let filling = step / 400 % 2 == 0;
                    let (t, index) = (tuple(rng), rng.random_range(0..indices));
                    let owner = map.iter().find(|(_, i)| **i == index).map(|(t, _)| *t);
                    let wait = if rng.random_bool(0.2) { rng.random_range(0..4) } else { 0 };
                    match rng.random_range(0..if filling { 4 } else { 6 }) {
                        0 | 1 => {
                            assert_eq!(self.ask(Op::Find, t, index, wait), map.get(&t).copied(), "step {step}: {t:x?}");
                            assert!(self.clocks <= 6 + 2 * u32::from(indices), "bounded: {} clocks", self.clocks);
                            longest = longest.max(self.clocks);
                        }
                        2 | 3 if !map.contains_key(&t) => {
                            assert_eq!(self.ask(Op::Insert, t, index, wait), None);
                            assert_eq!(self.clocks, 7);
                            // an index that has a tuple keeps it
                            if owner.is_none() {
                                map.insert(t, index);
                            }
                        }
                        _ => {
                            assert_eq!(self.ask(Op::Remove, ANY, index, wait), None);
                            assert!(self.clocks <= 7 + 2 * u32::from(indices), "bounded: {} clocks", self.clocks);
                            owner.and_then(|t| map.remove(&t));
                        }
                    }
                }
                longest
            }
        }
    };
}
bench!(Full, lookup);
bench!(Small, lookup_small);

#[test]
fn answers_as_a_map_does() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for secret in [0, 1, u32::MAX, rng.random()] {
        let mut b = Full::new(seed, secret);
        b.random(&mut rng, 64, 4000);
    }
}

#[test]
fn answers_as_a_map_does_when_all_collide() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut longest = 0;
    for secret in [0, 1, u32::MAX, rng.random(), rng.random()] {
        let mut b = Small::new(seed, secret);
        longest = longest.max(b.random(&mut rng, 16, 4000));
    }
    assert!(longest >= 6 + 2 * 8, "long chains were walked: {longest} clocks");
}

#[test]
fn a_find_takes_6_clocks_for_an_empty_chain_8_for_its_first_and_2_more_for_each_further() {
    let mut b = Small::new(bench::seed("lookup"), 0x1234_5678);
    let t = |n: u16| Tuple { local_ip: 1, remote_ip: 2, local_port: 3, remote_port: n };
    assert_eq!((b.find(t(0)), b.clocks), (None, 6));
    for n in 0..16 {
        b.ask(Op::Insert, t(n), n, 0);
    }
    // two chains, the latest first
    let mut seen = HashMap::<u32, u32>::new();
    for n in 0..16 {
        assert_eq!(b.find(t(n)), Some(n));
        *seen.entry(b.clocks).or_default() += 1;
    }
    let (longest, all) = (seen.keys().max().expect("some"), seen.values().sum::<u32>());
    assert_eq!(all, 16);
    for clocks in 8..=*longest {
        let expect = if clocks % 2 == 1 { 0..=0 } else { 1..=2 };
        assert!(expect.contains(&seen.get(&clocks).copied().unwrap_or(0)), "{seen:?}");
    }
    // neighbours of a tuple that is there are not taken for it
    for other in [Tuple { local_ip: 0, ..t(1) }, Tuple { remote_ip: 3, ..t(1) }, Tuple { local_port: 2, ..t(1) }, t(16)] {
        assert_eq!(b.find(other), None);
    }
}

/// The chain of a tuple among `chains`: three rounds of HalfSipHash's mixing, one a word.
fn chain(secret: u32, t: Tuple, chains: usize) -> usize {
    let turned = secret.rotate_left(16);
    let [mut v0, mut v1, mut v2, mut v3] = [secret, turned, secret ^ 0x6c79_6765, turned ^ 0x7465_6462];
    for word in [t.remote_ip, u32::from(t.local_port) << 16 | u32::from(t.remote_port), t.local_ip] {
        v3 ^= word;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(5) ^ v0;
        v0 = v0.rotate_left(16);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(8) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(7) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v2;
        v2 = v2.rotate_left(16);
        v0 ^= word;
    }
    (v1 ^ v3) as usize % chains
}

/// With any tuple and any secret. A mistake in the hash changes no answer, only how long a chain is: so the clocks of each request are foretold.
#[test]
fn each_tuple_is_in_the_chain_that_the_hash_says_and_costs_its_clocks() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..4 {
        let secret = rng.random();
        let mut b = Full::new(seed, secret);
        // latest first, as they are walked
        let mut chains = vec![vec![]; 128];
        let mut owned: HashMap<u16, Tuple> = HashMap::new();
        for _ in 0..3000 {
            let any = Tuple { local_ip: rng.random(), remote_ip: rng.random(), local_port: rng.random(), remote_port: rng.random() };
            let index = rng.random_range(0..64);
            let known = owned.get(&index).copied();
            match (rng.random_range(0..8), known) {
                (0, Some(t)) => {
                    b.ask(Op::Remove, ANY, index, 0);
                    let its = &mut chains[chain(secret, t, 128)];
                    let before = its.iter().position(|i| *i == index).expect("in its chain");
                    assert_eq!(b.clocks, 7 + 2 * before as u32, "Remove");
                    its.remove(before);
                    owned.remove(&index);
                }
                (_, None) => {
                    b.ask(Op::Insert, any, index, 0);
                    chains[chain(secret, any, 128)].insert(0, index);
                    owned.insert(index, any);
                }
                (n, Some(t)) => {
                    let t = if n < 5 { t } else { any };
                    let its = &chains[chain(secret, t, 128)];
                    let before = its.iter().position(|i| owned[i] == t);
                    assert_eq!(b.find(t), before.map(|n| its[n]));
                    assert_eq!(b.clocks, before.map_or(6 + 2 * its.len(), |n| 8 + 2 * n) as u32, "Find");
                }
            }
        }
    }
}

/// The longest chain that there can be: all indices in one. Its end is found, and passed by no walk.
#[test]
fn a_chain_of_all_indices_is_walked_to_its_end() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let secret = rng.random();
    let mut any = || Tuple { local_ip: rng.random(), remote_ip: rng.random(), local_port: rng.random(), remote_port: rng.random() };
    let aimed: Vec<Tuple> = std::iter::from_fn(|| Some(any())).filter(|t| chain(secret, *t, 128) == 77).take(65).collect();
    let mut b = Full::new(seed, secret);
    for index in 0..64 {
        b.ask(Op::Insert, aimed[usize::from(index)], index, 0);
    }
    // the latest is the first
    for index in 0..64 {
        assert_eq!(b.find(aimed[usize::from(index)]), Some(index));
        assert_eq!(b.clocks, 8 + 2 * (63 - u32::from(index)));
    }
    assert_eq!((b.find(aimed[64]), b.clocks), (None, 6 + 2 * 64));
    for index in 0..64 {
        b.ask(Op::Remove, ANY, index, 0);
        assert_eq!(b.clocks, 7 + 2 * (63 - u32::from(index)), "always the last");
        assert_eq!(b.find(aimed[usize::from(index)]), None);
        assert_eq!(b.find(aimed[63]), Some(63).filter(|_| index < 63));
    }
}

#[test]
fn which_tuples_collide_depends_on_the_secret() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // 512 connections of one peer: only the port is its own to choose
    let t = |n: u16| Tuple { local_ip: 0xc000_0201, remote_ip: 0xc633_6401, local_port: 4420, remote_port: 1024 + n };
    let with_first = |secret: u32| -> Vec<u16> {
        let mut b = Full::new(seed, secret);
        b.ask(Op::Insert, t(0), 0, 0);
        (1..512)
            .filter(|n| {
                assert_eq!(b.find(t(*n)), None);
                b.clocks == 8
            })
            .collect()
    };
    let aimed = with_first(rng.random());
    assert!((1..=14).contains(&aimed.len()), "about 4 of 511 share one of 128 chains: {aimed:?}");
    let (mut again, mut all) = (0, 0);
    for _ in 0..20 {
        let now = with_first(rng.random());
        all += now.len();
        again += now.iter().filter(|n| aimed.contains(n)).count();
    }
    assert!((40..140).contains(&all), "about 80: {all}");
    assert!(again <= 5, "collisions do not carry over: {again} of {}", 20 * aimed.len());
}

#[test]
fn a_reset_at_any_time_forgets_all() {
    let seed = bench::seed("lookup");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut b = Full::new(seed, rng.random());
    for round in 0..40 {
        for index in 0..8 {
            let t = Tuple { remote_port: index, ..tuple(&mut rng) };
            b.ask(Op::Insert, t, index, 0);
            assert_eq!(b.find(t), Some(index));
        }
        let op = [Op::Find, Op::Insert, Op::Remove][round % 3];
        b.offer(op, tuple(&mut rng), rng.random_range(0..16));
        for _ in 0..rng.random_range(0..12) {
            b.m.tick();
        }
        assert_eq!(b.reset(), 128);
        for index in 0..16 {
            assert_eq!(b.ask(Op::Remove, ANY, index, 0), None);
            assert_eq!(b.clocks, 6, "nothing to remove");
        }
        for _ in 0..8 {
            assert_eq!(b.find(tuple(&mut rng)), None);
        }
    }
}
