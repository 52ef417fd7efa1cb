// SPDX-License-Identifier: MIT OR Apache-2.0
//! L2 queue descriptors: 16 octets, the same for both directions, completed in place.
//!
//! | dword | bits | field |
//! |---|---|---|
//! | 0, 1 | | buffer address, any alignment |
//! | 2 | 15:0 | tx: frame length without FCS, 14..=MTU+18; rx: buffer length, completed with the frame length |
//! | 2 | 31:16 | flags of the host (below) |
//! | 3 | 15:0 | flags of the adapter, 0 when posted |
//! | 3 | 31 | DONE; 0 when posted, set by the adapter with its write-back of dwords 2 and 3 (one 8-octet write) |
//!
//! The host posts descriptors by writing the free-running producer index to the doorbell; the adapter completes them in order.

/// Octets of a descriptor.
pub const DESCRIPTOR_OCTETS: usize = 16;
/// tx: the adapter writes both MAC addresses: own as source, that of the IPv4 next hop (dwords of the frame's IP header) as destination, resolving it by ARP.
pub const TX_RESOLVE: u16 = 1 << 0;
/// Completed: nothing was sent; bad length.
pub const DONE_LENGTH_ERROR: u16 = 1 << 0;
/// Completed: a DMA access failed.
pub const DONE_DMA_ERROR: u16 = 1 << 1;
/// Completed, tx with RESOLVE: the frame waits in the adapter for its next hop (at most one a next hop, the latest; ARP-6).
pub const DONE_PENDING: u16 = 1 << 2;
/// Completed, tx with RESOLVE: no waiting room for another unresolved next hop; nothing was sent.
pub const DONE_NO_ROOM: u16 = 1 << 3;
/// Completed, tx with RESOLVE: not an IPv4 datagram, or there is no way to its destination; nothing was sent.
pub const DONE_NO_ROUTE: u16 = 1 << 5;
/// Completed, rx: the frame was sent to the link broadcast address.
pub const RX_BROADCAST: u16 = 1 << 4;
/// DONE bit of dword 3.
pub const DONE: u32 = 1 << 31;

/// A descriptor in plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct L2Descriptor {
    /// Buffer address.
    pub addr: u64,
    /// Length in octets.
    pub len: u16,
    /// Flags of the host.
    pub flags: u16,
    /// Flags of the adapter.
    pub done_flags: u16,
    /// Completed.
    pub done: bool,
}

impl L2Descriptor {
    /// As it stands in the ring.
    pub fn encode(&self) -> [u32; 4] {
        [
            self.addr as u32,
            (self.addr >> 32) as u32,
            u32::from(self.len) | u32::from(self.flags) << 16,
            u32::from(self.done_flags) | if self.done { DONE } else { 0 },
        ]
    }
    /// From the ring.
    pub fn decode(w: &[u32; 4]) -> Self {
        L2Descriptor {
            addr: u64::from(w[0]) | u64::from(w[1]) << 32,
            len: w[2] as u16,
            flags: (w[2] >> 16) as u16,
            done_flags: w[3] as u16,
            done: w[3] & DONE != 0,
        }
    }
}
