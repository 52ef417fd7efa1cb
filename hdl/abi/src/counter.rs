// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of 48 bits, in block RAM, read at [`crate::reg::COUNTERS`]. They wrap; a reset clears them.

macro_rules! counter_enum { ($($variant:ident $field:ident $name:literal $doc:literal;)*) => {
    /// One counter; its number is `as usize`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Counter { $(#[doc = $doc] $variant),* }
    impl Counter {
        /// Every counter, in order of number.
        pub const ALL: &'static [Counter] = &[$(Counter::$variant),*];
        /// Name as tools show it (irdma's and `ethtool -S` style).
        pub const fn name(self) -> &'static str { match self { $(Counter::$variant => $name),* } }
        /// One-line meaning.
        pub const fn doc(self) -> &'static str { match self { $(Counter::$variant => $doc),* } }
    }
} }
for_each_counter!(counter_enum);

impl Counter {
    /// Byte offset of the low dword in BAR0.
    pub const fn offset(self) -> u32 {
        crate::reg::COUNTERS + 8 * self as u32
    }
}

pub use crate::counter_list::COUNTERS;
const _: () = assert!(Counter::ALL.len() == COUNTERS);
