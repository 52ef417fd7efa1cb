// SPDX-License-Identifier: MIT OR Apache-2.0
//! L2 queue: frames of the host's own stack beside the adapter's. One buffer a descriptor, descriptors completed in place.
use crate::{
    bus::{Bus, BusError},
    device::Device,
    dma::DmaMemory,
    error::Error,
};
use ironwarp_abi::{
    l2::{self, DESCRIPTOR_OCTETS},
    reg, L2Descriptor,
};
use std::sync::Arc;

/// Octets of a buffer for frames of IP datagrams up to `mtu` octets: Ethernet header and one tag, rounded to whole cache lines.
pub(crate) const fn buffer_octets(mtu: u32) -> usize {
    (mtu as usize + 18).next_multiple_of(64)
}

/// Shared by both directions: descriptors, buffers, their addresses.
pub(crate) struct Queue {
    pub(crate) descriptors: Arc<DmaMemory>,
    pub(crate) buffers: Arc<DmaMemory>,
    pub(crate) buffers_iova: u64,
    pub(crate) buffer_octets: usize,
    pub(crate) entries: u16,
}

impl Queue {
    fn slot(&self, index: u16) -> usize {
        usize::from(index % self.entries)
    }
    fn post(&self, index: u16, len: u16, flags: u16) {
        let slot = self.slot(index);
        let addr = self.buffers_iova + (slot * self.buffer_octets) as u64;
        let dwords = L2Descriptor { addr, len, flags, done_flags: 0, done: false }.encode();
        for (i, dword) in dwords.into_iter().enumerate() {
            self.descriptors.write_u32(slot * DESCRIPTOR_OCTETS + 4 * i, dword);
        }
    }
    /// Length and flags of a completed descriptor.
    fn completed(&self, index: u16) -> Option<(usize, u16)> {
        let at = self.slot(index) * DESCRIPTOR_OCTETS;
        let last = self.descriptors.read_u32(at + 12);
        (last & l2::DONE != 0).then(|| (self.descriptors.read_u32(at + 8) as u16 as usize, last as u16))
    }
}

/// What became of frames, counted by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L2Counts {
    /// Frames received.
    pub received: u64,
    /// Receive descriptors that came back with an error flag or an impossible length.
    pub receive_errors: u64,
    /// Transmit descriptors completed without error.
    pub sent: u64,
    /// Of `sent`: the frame waits in the adapter for its next hop.
    pub pending: u64,
    /// Not sent: no waiting room for another unresolved next hop.
    pub no_room: u64,
    /// Not sent: bad length or DMA error.
    pub send_errors: u64,
}

/// A frame taken from the receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Octets, without FCS.
    pub len: usize,
    /// Was it sent to the link broadcast address (ETH-6)?
    pub broadcast: bool,
}

/// Receive ring.
pub(crate) struct RxRing {
    queue: Queue,
    head: u16,
    tail: u16,
    told: u16,
}

impl RxRing {
    pub(crate) fn new(queue: Queue) -> Self {
        RxRing { queue, head: 0, tail: 0, told: 0 }
    }
    /// Posts every buffer.
    pub(crate) fn fill<B: Bus>(&mut self, device: &mut Device<B>) -> Result<(), BusError> {
        while self.tail.wrapping_sub(self.head) < self.queue.entries {
            self.post();
        }
        self.release(device)
    }
    fn post(&mut self) {
        self.queue.post(self.tail, self.queue.buffer_octets as u16, 0);
        self.tail = self.tail.wrapping_add(1);
    }
    fn release<B: Bus>(&mut self, device: &mut Device<B>) -> Result<(), BusError> {
        if self.told != self.tail {
            device.write(reg::L2RX_TAIL, u32::from(self.tail))?;
            self.told = self.tail;
        }
        Ok(())
    }
    /// Copies the next frame into `out` (which it replaces) and posts its buffer again; the doorbell is rung once a quarter of the
    /// ring, or when the ring is dry.
    pub(crate) fn pop<B: Bus>(
        &mut self,
        device: &mut Device<B>,
        counts: &mut L2Counts,
        out: &mut Vec<u8>,
    ) -> Result<Option<Received>, BusError> {
        // bounded: each turn takes one descriptor of a ring's worth
        for _ in 0..self.queue.entries {
            let Some((len, flags)) = self.queue.completed(self.head) else { break };
            let good = flags & (l2::DONE_LENGTH_ERROR | l2::DONE_DMA_ERROR) == 0 && (14..=self.queue.buffer_octets).contains(&len);
            if good {
                out.resize(len, 0);
                self.queue.buffers.read(self.queue.slot(self.head) * self.queue.buffer_octets, out);
                counts.received += 1;
            } else {
                counts.receive_errors += 1;
            }
            self.head = self.head.wrapping_add(1);
            self.post();
            if self.tail.wrapping_sub(self.told) >= self.queue.entries / 4 {
                self.release(device)?;
            }
            if good {
                return Ok(Some(Received { len, broadcast: flags & l2::RX_BROADCAST != 0 }));
            }
        }
        self.release(device)?;
        Ok(None)
    }
}

/// Transmit ring.
pub(crate) struct TxRing {
    queue: Queue,
    max_frame: usize,
    head: u16,
    tail: u16,
}

impl TxRing {
    /// `mtu` bounds the frames.
    pub(crate) fn new(queue: Queue, mtu: u32) -> Self {
        TxRing { queue, max_frame: mtu as usize + 18, head: 0, tail: 0 }
    }
    /// Takes completed descriptors back.
    pub(crate) fn reclaim(&mut self, counts: &mut L2Counts) {
        while self.head != self.tail {
            let Some((_, flags)) = self.queue.completed(self.head) else { break };
            if flags & (l2::DONE_LENGTH_ERROR | l2::DONE_DMA_ERROR) != 0 {
                counts.send_errors += 1;
            } else if flags & l2::DONE_NO_ROOM != 0 {
                counts.no_room += 1;
            } else {
                counts.sent += 1;
                counts.pending += u64::from(flags & l2::DONE_PENDING != 0);
            }
            self.head = self.head.wrapping_add(1);
        }
    }
    /// Frames not yet completed.
    pub(crate) fn outstanding(&self) -> u16 {
        self.tail.wrapping_sub(self.head)
    }
    pub(crate) fn push<B: Bus>(&mut self, device: &mut Device<B>, counts: &mut L2Counts, frame: &[u8], resolve: bool) -> Result<(), Error> {
        if !(14..=self.max_frame).contains(&frame.len()) {
            return Err(Error::FrameLength { len: frame.len(), max: self.max_frame });
        }
        self.reclaim(counts);
        if self.outstanding() >= self.queue.entries {
            return Err(Error::TransmitRingFull);
        }
        self.queue.buffers.write(self.queue.slot(self.tail) * self.queue.buffer_octets, frame);
        self.queue.post(self.tail, frame.len() as u16, if resolve { l2::TX_RESOLVE } else { 0 });
        self.tail = self.tail.wrapping_add(1);
        Ok(device.write(reg::L2TX_TAIL, u32::from(self.tail))?)
    }
}
