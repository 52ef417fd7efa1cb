// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one description of registers, doorbells, ring entries, events, counters and handles.
//!
//! The hardware decode, the driver, the firmware and `docs/registers.md` are all made from this crate. Lists that the
//! hardware needs as identifiers are exported as *callback macros* (`for_each_*!`): a macro that is handed the whole
//! list, so that a LogicStruct, a register block or a table is made from the same rows.
//!
//! Everything in host memory is little-endian; addresses inside entries (IPv4) are plain numbers, so 192.0.2.1 is
//! `0xC000_0201`. Ring entries are 64 octets = 16 dwords = 8 beats of the 64-bit DMA stream; L2 descriptors are 16 octets.
#![no_std]
#![deny(unsafe_code)]

#[macro_use]
mod counter_list;
#[macro_use]
mod register_list;

pub mod command;
pub mod counter;
pub mod event;
pub mod handle;
pub mod l2;
pub mod pci;
pub mod reg;
pub mod status;
pub mod work;

pub use command::{Command, Opcode, RULES};
pub use counter::Counter;
pub use event::{Event, EventKind};
pub use handle::{Handle, HandleKind};
pub use l2::L2Descriptor;
pub use status::Status;

/// Version of this description; register `VERSION` reads it. The driver refuses another major number (upper 16 bits).
pub const ABI_VERSION: u32 = 0x0001_0000;
/// Register `MAGIC`: "IWRP" read as little-endian ASCII.
pub const MAGIC: u32 = u32::from_le_bytes(*b"IWRP");
/// Octets of a command or event ring entry.
pub const ENTRY_OCTETS: usize = 64;
/// Dwords of a command or event ring entry.
pub const ENTRY_DWORDS: usize = ENTRY_OCTETS / 4;
/// Smallest and largest log2 of the number of entries of a ring.
pub const RING_LOG2_RANGE: core::ops::RangeInclusive<u32> = 2..=12;
/// PCI vendor and device number that the simulated PCI function shows (vendor: a number never assigned by the PCI-SIG).
pub const PCI_VENDOR: u16 = 0x1bad;
/// PCI device number.
pub const PCI_DEVICE: u16 = 0x1c0a;
/// Octets of BAR0. Registers fill the first 16 KiB; the MSI-X table and PBA, which belong to the PCIe layer, follow.
pub const BAR0_OCTETS: u32 = 0x1_0000;
/// Offset of the MSI-X table in BAR0 (owned by the PCIe layer, never seen by the core).
pub const MSIX_TABLE: u32 = 0x8000;
/// Offset of the MSI-X pending bit array in BAR0.
pub const MSIX_PBA: u32 = 0x9000;
/// MSI-X vectors: one for each interrupt cause, vector number = cause number.
pub const VECTORS: usize = 4;

/// Interrupt causes: bit number in `IRQ_MASK`/`IRQ_PENDING` and MSI-X vector.
pub mod irq {
    /// An entry was written to the event ring.
    pub const EVENT: u32 = 0;
    /// A frame was written to the L2 receive ring.
    pub const L2_RX: u32 = 1;
    /// A descriptor of the L2 transmit ring was completed.
    pub const L2_TX: u32 = 2;
    /// DMA error, reset finished: look at `STATUS`.
    pub const ERROR: u32 = 3;
}
