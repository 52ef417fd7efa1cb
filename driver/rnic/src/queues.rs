// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rings of the data path in memory that host and adapter share, for one user at a time: work queues that the adapter reads, with what the driver keeps of each entry
//! until it completes, and completion queues. [`crate::Offload`] makes verbs of them.
//!
//! Indices run freely modulo 2^16, as in the adapter. Completions come in the order of posting, so one that comes ends all entries before it: those that asked for
//! no completion have succeeded (`ironwarp_abi::work`). What is left when the connection is over is flushed, once, in order (TD-5).
use crate::dma::DmaMemory;
use ironwarp_abi::work::{send_flag, Completion, SendOpcode, COMPLETION_OCTETS, INLINE_OCTETS, RECV_OCTETS, SEND_OCTETS, SGES};
use ironwarp_verbs::{Errno, RecvWr, SendFlags, SendOp, SendWr, Sge, WcOpcode};
use std::{collections::VecDeque, sync::Arc};

/// Octets of SGE `n` in an entry, from the front of the list on.
const SGE_OCTETS: usize = 16;
/// Where the list begins in a send entry.
const SEND_SGES: usize = 32;

/// What is kept of an entry.
#[derive(Clone, Debug)]
pub struct Posted {
    /// Its user's number of it.
    pub wr_id: u64,
    /// What it does.
    pub opcode: WcOpcode,
    /// As it stands in the ring, for a ring that is laid anew.
    entry: Vec<u8>,
}

/// One work queue.
#[derive(Debug)]
pub struct WorkQueue {
    memory: Arc<DmaMemory>,
    pub(crate) iova: u64,
    pub(crate) log2: u16,
    octets: usize,
    /// Index of the next entry to post.
    tail: u16,
    posted: VecDeque<Posted>,
}

impl WorkQueue {
    /// log2 of the entries of a ring for `work` requests.
    pub fn log2_for(work: u32) -> u16 {
        work.max(1).next_power_of_two().trailing_zeros() as u16
    }
    /// Octets of a send queue of 2^`log2` entries.
    pub fn send_octets(log2: u16) -> usize {
        SEND_OCTETS << log2
    }
    /// Octets of a receive queue of 2^`log2` entries.
    pub fn recv_octets(log2: u16) -> usize {
        RECV_OCTETS << log2
    }
    fn new(memory: Arc<DmaMemory>, iova: u64, log2: u16, octets: usize) -> Self {
        WorkQueue { memory, iova, log2, octets, tail: 0, posted: VecDeque::new() }
    }
    /// An empty send queue in `memory`, which the adapter reaches at `iova`.
    pub fn send(memory: Arc<DmaMemory>, iova: u64, log2: u16) -> Self {
        Self::new(memory, iova, log2, SEND_OCTETS)
    }
    /// An empty receive queue.
    pub fn recv(memory: Arc<DmaMemory>, iova: u64, log2: u16) -> Self {
        Self::new(memory, iova, log2, RECV_OCTETS)
    }
    /// Entries that are not complete.
    #[allow(clippy::len_without_is_empty)] // a number among others
    pub fn len(&self) -> usize {
        self.posted.len()
    }
    /// Index of the next entry to post: what the doorbell says.
    pub fn tail(&self) -> u16 {
        self.tail
    }
    fn lay(&mut self, entry: &[u8]) {
        let at = usize::from(self.tail) % (1 << self.log2) * self.octets;
        self.memory.write(at, entry);
        self.tail = self.tail.wrapping_add(1);
    }
    fn push(&mut self, wr_id: u64, opcode: WcOpcode, entry: Vec<u8>) -> Result<(), Errno> {
        if self.posted.len() >= 1 << self.log2 {
            return Err(Errno::NoMemory);
        }
        self.lay(&entry);
        self.posted.push_back(Posted { wr_id, opcode, entry });
        Ok(())
    }
    /// Adds a send; the doorbell is the caller's.
    pub fn post_send(&mut self, wr: &SendWr) -> Result<(), Errno> {
        let (opcode, entry) = send_entry(wr)?;
        self.push(wr.wr_id, opcode, entry)
    }
    /// Adds a receive.
    pub fn post_recv(&mut self, wr: &RecvWr) -> Result<(), Errno> {
        let mut entry = vec![0; RECV_OCTETS];
        lay_sges(&mut entry, &wr.sg_list)?;
        self.push(wr.wr_id, WcOpcode::Recv, entry)
    }
    /// The entry with index `wqe` has completed, and all before it: it. None if there is no such entry.
    pub fn complete(&mut self, wqe: u16) -> Option<Posted> {
        let head = self.tail.wrapping_sub(self.posted.len() as u16);
        let before = usize::from(wqe.wrapping_sub(head));
        if before >= self.posted.len() {
            return None;
        }
        self.posted.drain(..before);
        self.posted.pop_front()
    }
    /// All that is left.
    pub(crate) fn flush(&mut self) -> Vec<Posted> {
        self.posted.drain(..).collect()
    }
    /// From index 0 again, for an adapter that has forgotten the queue.
    pub(crate) fn restart(&mut self) {
        self.tail = 0;
        for entry in self.posted.iter().map(|p| p.entry.clone()).collect::<Vec<_>>() {
            self.lay(&entry);
        }
    }
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionRing {
    memory: Arc<DmaMemory>,
    pub(crate) log2: u16,
    head: u16,
}

impl CompletionRing {
    /// Octets of a queue of 2^`log2` entries.
    pub fn octets(log2: u16) -> usize {
        COMPLETION_OCTETS << log2
    }
    /// An empty queue in `memory`.
    pub fn new(memory: Arc<DmaMemory>, log2: u16) -> Self {
        CompletionRing { memory, log2, head: 0 }
    }
    /// Index of the next entry to take: what the doorbell says.
    pub fn head(&self) -> u16 {
        self.head
    }
    /// Takes the next entry, if it is there.
    pub fn take(&mut self) -> Option<Completion> {
        let at = usize::from(self.head) % (1 << self.log2) * COMPLETION_OCTETS;
        let phase = self.head >> self.log2 & 1 == 0;
        let last = self.memory.read_u32(at + 4 * Completion::PHASE_DWORD);
        if (last & 1 == 1) != phase {
            return None;
        }
        self.head = self.head.wrapping_add(1);
        Some(Completion::decode(&std::array::from_fn(|i| self.memory.read_u32(at + 4 * i))))
    }
}

fn lay_sges(to: &mut [u8], sges: &[Sge]) -> Result<(), Errno> {
    if sges.len() > SGES {
        return Err(Errno::Invalid);
    }
    for (at, sge) in to.chunks_exact_mut(SGE_OCTETS).zip(sges) {
        at[0..4].copy_from_slice(&sge.length.to_le_bytes());
        at[4..8].copy_from_slice(&sge.lkey.to_le_bytes());
        at[8..16].copy_from_slice(&sge.addr.to_le_bytes());
    }
    Ok(())
}

fn send_entry(wr: &SendWr) -> Result<(WcOpcode, Vec<u8>), Errno> {
    let mut entry = vec![0; SEND_OCTETS];
    let solicited = wr.flags.contains(SendFlags::SOLICITED);
    let (code, opcode, stag, to) = match wr.op {
        SendOp::Send if solicited => (SendOpcode::SendSolicited, WcOpcode::Send, 0, 0),
        SendOp::Send => (SendOpcode::Send, WcOpcode::Send, 0, 0),
        SendOp::SendWithInvalidate(stag) if solicited => (SendOpcode::SendSolicitedInvalidate, WcOpcode::Send, stag, 0),
        SendOp::SendWithInvalidate(stag) => (SendOpcode::SendInvalidate, WcOpcode::Send, stag, 0),
        SendOp::Write { remote_addr, rkey } => (SendOpcode::Write, WcOpcode::RdmaWrite, rkey, remote_addr),
        SendOp::Read { remote_addr, rkey } => (SendOpcode::Read, WcOpcode::RdmaRead, rkey, remote_addr),
        SendOp::LocalInvalidate(_) => return Err(Errno::NotSupported),
    };
    entry[0] = code as u8;
    if wr.flags.contains(SendFlags::SIGNALED) {
        entry[1] |= send_flag::SIGNALED;
    }
    if wr.flags.contains(SendFlags::FENCE) {
        entry[1] |= send_flag::FENCE;
    }
    entry[4..8].copy_from_slice(&stag.to_le_bytes());
    entry[8..16].copy_from_slice(&to.to_le_bytes());
    match &wr.inline {
        Some(data) if data.len() <= INLINE_OCTETS => {
            entry[1] |= send_flag::INLINE;
            entry[3] = data.len() as u8;
            entry[SEND_SGES..SEND_SGES + data.len()].copy_from_slice(data);
        }
        Some(_) => return Err(Errno::Invalid),
        None => {
            entry[2] = wr.sg_list.len() as u8;
            lay_sges(&mut entry[SEND_SGES..], &wr.sg_list)?;
        }
    }
    Ok((opcode, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(log2: u16) -> WorkQueue {
        WorkQueue::send(Arc::new(DmaMemory::new(WorkQueue::send_octets(log2)).unwrap()), 0x1000, log2)
    }
    fn send(wr_id: u64) -> SendWr {
        SendWr { wr_id, op: SendOp::Send, sg_list: vec![], inline: Some(vec![wr_id as u8; 3]), flags: SendFlags::SIGNALED }
    }

    #[test]
    fn a_completion_ends_all_before_it() {
        let mut q = queue(2);
        q.tail = 0xfffe;
        for n in 0..4 {
            q.post_send(&send(n)).unwrap();
        }
        assert_eq!(q.post_send(&send(9)), Err(Errno::NoMemory));
        assert_eq!(q.complete(0).unwrap().wr_id, 2);
        assert!(q.complete(0).is_none(), "twice");
        assert!(q.complete(0xffff).is_none(), "long complete");
        assert_eq!(q.len(), 1);
        assert_eq!(q.flush().iter().map(|p| p.wr_id).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_restarted_queue_begins_at_0_with_what_was_posted() {
        let mut q = queue(2);
        for n in 0..3 {
            q.post_send(&send(n)).unwrap();
        }
        q.complete(1);
        q.restart();
        assert_eq!(q.tail(), 1);
        let mut entry = [0; 40];
        q.memory.read(0, &mut entry);
        assert_eq!((entry[0], entry[1], entry[3], &entry[32..36]), (3, 5, 3, [2, 2, 2, 0].as_slice()));
        assert_eq!(q.complete(0).unwrap().wr_id, 2);
    }

    #[test]
    fn what_the_adapter_cannot_do_is_refused() {
        let mut q = queue(2);
        let sge = Sge { addr: 1, length: 2, lkey: 3 };
        assert_eq!(q.post_send(&SendWr { inline: None, sg_list: vec![sge; 5], ..send(0) }), Err(Errno::Invalid));
        assert_eq!(q.post_send(&SendWr { inline: Some(vec![0; 65]), ..send(0) }), Err(Errno::Invalid));
        assert_eq!(q.post_send(&SendWr { op: SendOp::LocalInvalidate(1), ..send(0) }), Err(Errno::NotSupported));
        assert_eq!((q.len(), q.tail()), (0, 0));
    }
}
