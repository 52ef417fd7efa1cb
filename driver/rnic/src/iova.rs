// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses that the adapter sees: first fit from [`FIRST`] up, with an unmapped page behind every range, so that an adapter that
//! runs over the end of its memory is stopped by the IOMMU and noticed.
use crate::dma::PAGE;
use std::collections::BTreeMap;

/// Lowest address given out: above 32 bits, so that an adapter that loses the upper half of an address is noticed too.
pub const FIRST: u64 = 0x1_0000_0000;
/// Addresses stay below this: 39 bits are the least that IOMMUs translate.
pub const LIMIT: u64 = 1 << 39;

/// The ranges in use.
#[derive(Debug, Default)]
pub struct IovaAllocator {
    /// Start -> length with its guard page.
    used: BTreeMap<u64, u64>,
}

impl IovaAllocator {
    /// Reserves room for `len` octets, rounded up to pages; none when the space is exhausted.
    pub fn allocate(&mut self, len: u64) -> Option<u64> {
        let page = PAGE as u64;
        let len = len.max(1).checked_next_multiple_of(page)?.checked_add(page)?;
        let mut start = FIRST;
        for (&used, &used_len) in &self.used {
            if used - start >= len {
                break;
            }
            start = used + used_len;
        }
        if start.checked_add(len)? > LIMIT {
            return None;
        }
        self.used.insert(start, len);
        Some(start)
    }
    /// Gives a range back; false if it was not given out.
    pub fn free(&mut self, start: u64) -> bool {
        self.used.remove(&start).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn ranges_never_touch(steps in proptest::collection::vec((any::<bool>(), 1..100_000u64, any::<prop::sample::Index>()), 1..200)) {
            let mut allocator = IovaAllocator::default();
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (take, len, which) in steps {
                if take || live.is_empty() {
                    let start = allocator.allocate(len).unwrap();
                    prop_assert_eq!(start % PAGE as u64, 0);
                    prop_assert!(start >= FIRST);
                    for &(other, other_len) in &live {
                        prop_assert!(start + len < other || other + other_len < start, "guard page between {start:#x} and {other:#x}");
                    }
                    live.push((start, len));
                } else {
                    let (start, _) = live.swap_remove(which.index(live.len()));
                    prop_assert!(allocator.free(start));
                    prop_assert!(!allocator.free(start));
                }
            }
        }
    }

    #[test]
    fn exhaustion_is_an_answer() {
        let mut allocator = IovaAllocator::default();
        assert_eq!(allocator.allocate(LIMIT), None);
        assert_eq!(allocator.allocate(u64::MAX), None);
        let all = LIMIT - FIRST - PAGE as u64;
        assert_eq!(allocator.allocate(all), Some(FIRST));
        assert_eq!(allocator.allocate(1), None);
        assert!(allocator.free(FIRST));
        assert_eq!(allocator.allocate(1), Some(FIRST));
    }
}
