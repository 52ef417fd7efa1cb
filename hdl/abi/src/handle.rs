// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles: (index, generation), never pointers (CM-32, CM-45).

/// What a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HandleKind {
    /// No object.
    None = 0,
    /// A listener.
    Listener = 1,
    /// A connection.
    Connection = 2,
}

/// 64 bits: index 15:0, kind 23:16, zero 31:24, generation 63:32. A slot's generation grows by one at each use and
/// wraps from 2^32-1 to 0; at 10^6 set-ups/s in one slot a generation comes back after 71 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Handle(pub u64);

impl Handle {
    /// Not a handle; generation 0 is never handed out for index 0 before a wrap.
    pub const NONE: Handle = Handle(0);
    /// Puts a handle together.
    pub const fn new(kind: HandleKind, index: u16, generation: u32) -> Self {
        Handle((generation as u64) << 32 | (kind as u64) << 16 | index as u64)
    }
    /// Slot number.
    pub const fn index(self) -> u16 {
        self.0 as u16
    }
    /// Kind octet as it came.
    pub const fn kind_octet(self) -> u8 {
        (self.0 >> 16) as u8
    }
    /// Generation.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Kind, if it is one of ours.
    pub const fn kind(self) -> Option<HandleKind> {
        match self.kind_octet() {
            1 => Some(HandleKind::Listener),
            2 => Some(HandleKind::Connection),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: CM-45
    #[test]
    fn a_generation_has_at_least_24_bits_and_wraps_within_its_field() {
        let last = Handle::new(HandleKind::Listener, 7, u32::MAX);
        assert!(last.generation() >= (1 << 24) - 1);
        let next = Handle::new(HandleKind::Listener, last.index(), last.generation().wrapping_add(1));
        assert_ne!(last, next);
        assert_eq!((next.index(), next.kind(), next.generation()), (7, Some(HandleKind::Listener), 0));
        // all generations of a slot differ in bits 63:32 only
        assert_eq!(last.0 ^ next.0, 0xffff_ffff_0000_0000);
    }
}
