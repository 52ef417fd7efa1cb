// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mpa::crc32c` against known octets and against `ironwarp-wire`, which has its CRC from elsewhere.
use ironwarp_models::{bench, crc32c::Model, Dut};
use ironwarp_wire::fpdu;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

struct Bench {
    m: Model,
    rng: ChaCha8Rng,
}

impl Bench {
    fn new() -> Self {
        let seed = bench::seed("crc32c");
        Bench { m: Model::new(seed), rng: ChaCha8Rng::seed_from_u64(seed) }
    }
    /// CRC of a multiple of 4 octets, of which any pair of fours goes in one step; what is not looked at is random.
    fn crc(&mut self, octets: &[u8]) -> u32 {
        self.m.start.set(true);
        self.m.go.set(self.rng.random());
        self.m.tick();
        self.m.start.set(false);
        let mut rest = octets;
        while !rest.is_empty() {
            let half = rest.len() == 4 || self.rng.random_bool(0.3);
            let go = self.rng.random_bool(0.8);
            let n = if half { 4 } else { 8 };
            let mut word: [u8; 8] = self.rng.random();
            word[..n].copy_from_slice(&rest[..n]);
            self.m.data.set(u64::from_le_bytes(word));
            self.m.half.set(half);
            self.m.go.set(go);
            self.m.tick();
            if go {
                rest = &rest[n..];
            }
        }
        self.m.go.set(false);
        self.m.eval();
        !self.m.crc.get()
    }
}

/// The four figures of RFC 3720 B.4, in steps of 4 and 8; least significant octet first behind what it covers, it makes the checker's end value.
/// Covers: MPA-21
#[test]
fn known_octets_have_the_known_crc() {
    let mut b = Bench::new();
    for (octets, value) in [
        (vec![0; 32], 0x8a91_36aa_u32),
        (vec![0xff; 32], 0x62a8_ab43),
        ((0..32).collect(), 0x46dd_794e),
        ((0..32).rev().collect(), 0x113f_db5c),
        (vec![], 0),
    ] {
        assert_eq!(b.crc(&octets), value, "{octets:x?}");
        assert_eq!(b.crc(&[&octets[..], &value.to_le_bytes()].concat()), 0x4867_4bc7, "{octets:x?}");
        assert!(b.m.good.get());
        assert_ne!(b.crc(&[&octets[..], &value.to_be_bytes()].concat()), if value == 0 { 0 } else { 0x4867_4bc7 });
    }
}

/// Each of the 96 input bits, alone, in both kinds of step, and random octets; a wrong bit anywhere is no good end.
/// Covers: MPA-21
#[test]
fn any_octets_have_the_crc_of_another_implementation() {
    let mut b = Bench::new();
    for bit in 0..128 {
        for len in [4, 8, 12, 16] {
            let mut octets = vec![0; len];
            if bit / 8 < len {
                octets[bit / 8] = 1 << (bit % 8);
            }
            assert_eq!(b.crc(&octets), fpdu::crc32c(&octets), "bit {bit} of {len} octets");
        }
    }
    for _ in 0..300 {
        let len = b.rng.random_range(0..100) * 4;
        let mut octets: Vec<u8> = (0..len).map(|_| b.rng.random()).collect();
        let value = fpdu::crc32c(&octets);
        assert_eq!(b.crc(&octets), value);
        octets.extend(value.to_le_bytes());
        b.crc(&octets);
        assert!(b.m.good.get());
        let bit = b.rng.random_range(0..8 * octets.len());
        octets[bit / 8] ^= 1 << (bit % 8);
        b.crc(&octets);
        assert!(!b.m.good.get());
    }
}
