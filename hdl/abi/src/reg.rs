// SPDX-License-Identifier: MIT OR Apache-2.0
//! BAR0 offsets and the table behind `docs/registers.md`. Accesses are 32 bits wide and aligned; others read 0 and write nothing.

/// How a register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Keeps what was written.
    ReadWrite,
    /// A write is an action; reads 0.
    Strobe,
    /// Writes are ignored.
    ReadOnly,
}

/// One row of the register table.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Name as in the code.
    pub name: &'static str,
    /// Byte offset in BAR0.
    pub offset: u32,
    /// Value after reset.
    pub reset: u32,
    /// Read-write, strobe or read-only.
    pub access: Access,
    /// Meaning, with units.
    pub doc: &'static str,
}

macro_rules! offsets { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    $(#[doc = $doc] pub const $name: u32 = $offset;)*
} }
for_each_config_register!(offsets);
for_each_strobe_register!(offsets);
for_each_status_register!(offsets);

macro_rules! config_rows { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    /// Read-write registers.
    pub const CONFIG: &[Register] = &[$(Register { name: stringify!($name), offset: $offset, reset: $reset, access: Access::ReadWrite, doc: $doc }),*];
} }
for_each_config_register!(config_rows);
macro_rules! strobe_rows { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    /// Write-only registers.
    pub const STROBES: &[Register] = &[$(Register { name: stringify!($name), offset: $offset, reset: $reset, access: Access::Strobe, doc: $doc }),*];
} }
for_each_strobe_register!(strobe_rows);
macro_rules! status_rows { ($($name:ident $field:ident $offset:literal $reset:literal $doc:literal;)*) => {
    /// Read-only registers.
    pub const STATUSES: &[Register] = &[$(Register { name: stringify!($name), offset: $offset, reset: $reset, access: Access::ReadOnly, doc: $doc }),*];
} }
for_each_status_register!(status_rows);

/// First counter: counter n is 8 octets at `COUNTERS + 8 * n`. Reading the low dword freezes the high dword of that counter for the next read.
pub const COUNTERS: u32 = 0x2000;

/// Bits of `CONTROL`.
pub mod control {
    /// Start work.
    pub const ENABLE: u32 = 1 << 0;
    /// Start the two-phase reset.
    pub const RESET: u32 = 1 << 1;
}

/// Bits of `STATUS`.
pub mod status_bits {
    /// The reset sequence has finished; registers may be configured.
    pub const READY: u32 = 1 << 0;
    /// `CONTROL.ENABLE` was written since the last reset.
    pub const ENABLED: u32 = 1 << 1;
    /// A reset is under way.
    pub const RESETTING: u32 = 1 << 2;
    /// A DMA read failed since the last reset.
    pub const DMA_READ_ERROR: u32 = 1 << 3;
    /// A DMA write failed since the last reset.
    pub const DMA_WRITE_ERROR: u32 = 1 << 4;
    /// The command ring stopped because a command could not be fetched.
    pub const CMD_STOPPED: u32 = 1 << 5;
}

/// Bits of `L2_CONTROL`.
pub mod l2_control {
    /// Frames that nobody in the adapter uses go to the host.
    pub const SHARE: u32 = 1 << 0;
    /// Multicast frames too.
    pub const MULTICAST: u32 = 1 << 1;
    /// Frames to other unicast addresses too.
    pub const PROMISCUOUS: u32 = 1 << 2;
}
