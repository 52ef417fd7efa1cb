// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for private data. Inbound: one place for each index, which the adapter writes and the driver copies out of before the event goes up;
//! the adapter uses the index again when EVT_HEAD has passed FREED, which the driver writes after it. Outbound: a pool; a buffer that a command
//! names is the adapter's until FREED of the connection (CM-43), as retransmission reads it again.
use crate::{connection::PRIVATE_DATA_MAX, dma::DmaMemory};
use std::sync::Arc;

/// A buffer of the pool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(u16);

/// See the module.
pub(crate) struct PrivateData {
    inbound: Arc<DmaMemory>,
    outbound: Arc<DmaMemory>,
    outbound_iova: u64,
    free: Vec<u16>,
}

impl PrivateData {
    /// `slots` buffers of 512 octets in `outbound`.
    pub(crate) fn new(inbound: Arc<DmaMemory>, outbound: Arc<DmaMemory>, outbound_iova: u64, slots: u16) -> Self {
        PrivateData { inbound, outbound, outbound_iova, free: (0..slots).rev().collect() }
    }
    /// A copy that the adapter can read, and its address; none while all buffers are in use.
    pub(crate) fn place(&mut self, data: &[u8]) -> Option<(Slot, u64)> {
        let slot = self.free.pop()?;
        let offset = usize::from(slot) * PRIVATE_DATA_MAX;
        self.outbound.write(offset, data);
        Some((Slot(slot), self.outbound_iova + offset as u64))
    }
    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.free.push(slot.0);
    }
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }
    /// What the adapter wrote for connection `index`; none if there is no such place or it does not hold `len` octets.
    pub(crate) fn copy_out(&self, index: u16, len: u16) -> Option<Vec<u8>> {
        let mut data = vec![0; len.into()];
        let offset = usize::from(index) * PRIVATE_DATA_MAX;
        if data.len() > PRIVATE_DATA_MAX || offset + data.len() > self.inbound.len() {
            return None;
        }
        self.inbound.read(offset, &mut data);
        Some(data)
    }
}
