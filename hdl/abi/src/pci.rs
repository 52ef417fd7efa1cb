// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PCI configuration space says beside vendor and device number: the rate of the core clock, from which the driver makes
//! `TIMEBASE`. A model runs thousands of times slower than a card, and so does its clock.
//!
//! It is a vendor-specific capability (ID 0x09):
//!
//! | octets | field |
//! |---|---|
//! | 0 | 0x09 |
//! | 1 | next capability |
//! | 2 | length, 16 |
//! | 3 | version, 1 |
//! | 7:4 | `MAGIC` |
//! | 11:8 | core clocks per second of wall time |
//! | 15:12 | 0 |
use crate::MAGIC;

/// PCI class: network controller (0x02), InfiniBand controller (0x07), as bits 23:0 of class, subclass and interface.
pub const CLASS: u32 = 0x02_07_00;
/// Octets of the clock capability.
pub const CLOCK_CAPABILITY_OCTETS: usize = 16;

/// The clock capability as it stands in configuration space.
pub fn clock_capability(next: u8, clocks_per_second: u32) -> [u8; CLOCK_CAPABILITY_OCTETS] {
    let mut c = [0; CLOCK_CAPABILITY_OCTETS];
    c[..4].copy_from_slice(&[0x09, next, CLOCK_CAPABILITY_OCTETS as u8, 1]);
    c[4..8].copy_from_slice(&MAGIC.to_le_bytes());
    c[8..12].copy_from_slice(&clocks_per_second.to_le_bytes());
    c
}

/// Core clocks per second, out of the first 256 octets of configuration space; none if the capability is not there.
pub fn clocks_per_second(config: &[u8]) -> Option<u32> {
    let mut at = usize::from(*config.get(0x34)? & !3);
    // as many capabilities as there is room for: a chain that loops ends, too
    for _ in 0..64 {
        let c = config.get(at..at + CLOCK_CAPABILITY_OCTETS).filter(|_| at >= 0x40)?;
        if c[0] == 0x09 && c[3] == 1 && c[4..8] == MAGIC.to_le_bytes() {
            let clocks = u32::from_le_bytes([c[8], c[9], c[10], c[11]]);
            return (clocks > 0).then_some(clocks);
        }
        at = usize::from(c[1] & !3);
    }
    None
}

/// The value of `TIMEBASE` for so many clocks per second, kept within its range of 1/256 to 1000 microseconds a clock.
pub fn timebase(clocks_per_second: u32) -> u32 {
    let exact = (1_000_000_u64 << 16) / u64::from(clocks_per_second.max(1));
    exact.clamp(1 << 8, 1000 << 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_found_behind_other_capabilities_and_a_loop_ends() {
        let mut config = [0; 256];
        assert_eq!(clocks_per_second(&config), None);
        config[0x34] = 0x40;
        config[0x40..0x42].copy_from_slice(&[0x11, 0x60]);
        config[0x60..0x62].copy_from_slice(&[0x10, 0xa0]);
        config[0xa0..0xb0].copy_from_slice(&clock_capability(0, 500_000));
        assert_eq!(clocks_per_second(&config), Some(500_000));
        config[0x61] = 0x40;
        assert_eq!(clocks_per_second(&config), None);
        config[0x41] = 0xff;
        assert_eq!(clocks_per_second(&config), None, "points past the end");
    }

    #[test]
    fn the_timebase_fits_the_clock_and_its_range() {
        assert_eq!(timebase(64_000_000), 0x400);
        assert_eq!(timebase(62_500_000), 0x418);
        assert_eq!(timebase(500_000), 2 << 16);
        assert_eq!(timebase(1), 1000 << 16);
        assert_eq!(timebase(u32::MAX), 1 << 8);
    }
}
