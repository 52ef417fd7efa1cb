// SPDX-License-Identifier: MIT OR Apache-2.0
//! The little of PCI configuration space that a driver touches.

/// Offset of the command register, 16 bits.
pub(crate) const COMMAND: u64 = 0x04;
/// The function answers memory accesses.
pub(crate) const MEMORY_SPACE: u16 = 1 << 1;
/// The function may do DMA and send MSI-X; off until a driver turns it on.
pub(crate) const BUS_MASTER: u16 = 1 << 2;
/// Octets of configuration space in which capabilities lie.
pub(crate) const CAPABILITIES_END: usize = 256;
