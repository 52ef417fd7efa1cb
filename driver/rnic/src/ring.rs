// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command ring (host produces) and event ring (adapter produces, phase bit). Indices run freely modulo 2^16, as the registers do.
use crate::{
    bus::{Bus, BusError},
    device::{gone, Device, ALL_ONES},
    dma::DmaMemory,
    error::Error,
};
use ironwarp_abi::{reg, Command, Event, ENTRY_DWORDS, ENTRY_OCTETS};
use std::sync::Arc;

/// Octets of a ring of 2^`log2` entries.
pub(crate) const fn ring_octets(log2: u32) -> usize {
    ENTRY_OCTETS << log2
}

/// Producer side of the command ring.
pub(crate) struct CommandRing {
    memory: Arc<DmaMemory>,
    entries: u16,
    tail: u16,
    /// CMD_HEAD as last read: read again only when the ring looks full.
    head: u16,
}

impl CommandRing {
    pub(crate) fn new(memory: Arc<DmaMemory>, log2: u32) -> Self {
        CommandRing { memory, entries: 1 << log2, tail: 0, head: 0 }
    }
    fn full(&self) -> bool {
        self.tail.wrapping_sub(self.head) >= self.entries
    }
    /// Looks at CMD_HEAD if the ring seems full; false if it is.
    pub(crate) fn has_room<B: Bus>(&mut self, device: &mut Device<B>) -> Result<bool, Error> {
        if self.full() {
            let raw = device.read(reg::CMD_HEAD)?;
            if raw == ALL_ONES {
                return Err(gone().into());
            }
            let head = raw as u16;
            if self.tail.wrapping_sub(head) > self.entries {
                return Err(Error::Stopped("CMD_HEAD is outside the ring"));
            }
            self.head = head;
        }
        Ok(!self.full())
    }
    /// Writes the command and rings the doorbell; the caller saw that there is room.
    pub(crate) fn push<B: Bus>(&mut self, device: &mut Device<B>, command: &Command) -> Result<(), BusError> {
        debug_assert!(!self.full());
        let at = usize::from(self.tail % self.entries) * ENTRY_OCTETS;
        for (i, dword) in command.encode().into_iter().enumerate() {
            self.memory.write_u32(at + 4 * i, dword);
        }
        self.tail = self.tail.wrapping_add(1);
        device.write(reg::CMD_TAIL, u32::from(self.tail))
    }
}

/// Consumer side of the event ring.
pub(crate) struct EventRing {
    memory: Arc<DmaMemory>,
    log2: u32,
    head: u16,
    /// EVT_HEAD as last written.
    told: u16,
}

impl EventRing {
    /// `memory` is zeroed: the first pass has phase 1.
    pub(crate) fn new(memory: Arc<DmaMemory>, log2: u32) -> Self {
        EventRing { memory, log2, head: 0, told: 0 }
    }
    /// The next event, if the adapter has written it.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let at = usize::from(self.head & ((1 << self.log2) - 1)) * ENTRY_OCTETS;
        // an even number of passes fits into 2^16, so the parity of the pass survives the wrap of the index
        let phase = u32::from(self.head >> self.log2 & 1 == 0);
        let last = self.memory.read_u32(at + 4 * Event::PHASE_DWORD);
        if last & 1 != phase {
            return None;
        }
        let mut dwords = [0; ENTRY_DWORDS];
        for (i, dword) in dwords.iter_mut().enumerate() {
            *dword = self.memory.read_u32(at + 4 * i);
        }
        self.head = self.head.wrapping_add(1);
        Some(Event::decode(&dwords))
    }
    /// Most events that one pass over the ring can give.
    pub(crate) fn entries(&self) -> u32 {
        1 << self.log2
    }
    /// Lets the adapter write over what was taken.
    pub(crate) fn release<B: Bus>(&mut self, device: &mut Device<B>) -> Result<(), BusError> {
        if self.told != self.head {
            device.write(reg::EVT_HEAD, u32::from(self.head))?;
            self.told = self.head;
        }
        Ok(())
    }
}
