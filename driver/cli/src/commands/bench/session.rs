// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection between both adapters that moves data: queues, a region and a completion queue at each end, worked by the driver's own rings.
use super::{
    pair::{expect, to, Adapter, End, Pair, A, B, PORT},
    stamps::DataAreas,
};
use crate::Failure;
use ironwarp_abi::{
    reg,
    work::{access, arm, cq_head, queue_tail, CompletionStatus},
    Command,
};
use ironwarp_rnic::{
    queues::{CompletionRing, WorkQueue},
    AcceptParam, ConnectParam, Connection, DmaMemory, Event,
};
use ironwarp_sim::bus::lock;
use ironwarp_verbs::{RecvWr, SendFlags, SendOp, SendWr, Sge};
use std::sync::Arc;

/// Numbers of the objects at either end.
const QPN: u16 = 1;
const SEND_CQN: u16 = 1;
const RECV_CQN: u16 = 2;
const PD: u16 = 1;
const STAG: u32 = 0x1234_5100;
/// log2 of the entries of a queue: nothing that is measured waits for one.
const QUEUE_LOG2: u16 = 10;
/// Reads that may be outstanding.
const DEPTH: u16 = 8;
/// Octets of a region.
pub(super) const REGION: usize = 1 << 20;
/// Cycles without any completion after which a run is given up.
const PATIENCE: u64 = 1_000_000;

/// What is done with how many octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Write,
    Read,
    Send,
}

struct Side {
    end: End,
    send: Queue,
    recv: Queue,
    /// Address of the region, which is its TO as well.
    region: u64,
    memory: Arc<DmaMemory>,
    areas: DataAreas,
}

/// A work queue, and where it completes.
struct Queue {
    work: WorkQueue,
    ring: CompletionRing,
    cqn: u16,
    /// Index of `ring` that the adapter was told.
    told: u16,
    iova: u64,
    ring_iova: u64,
}

impl Queue {
    fn new(rnic: &mut Adapter, cqn: u16, octets: usize, make: fn(Arc<DmaMemory>, u64, u16) -> WorkQueue) -> Result<Self, Failure> {
        let (ring_iova, ring) = rnic.share(CompletionRing::octets(QUEUE_LOG2))?;
        let (iova, work) = rnic.share(octets)?;
        rnic.object(Command::create_cq(0, cqn.into(), ring_iova, QUEUE_LOG2))?;
        let (work, ring) = (make(work, iova, QUEUE_LOG2), CompletionRing::new(ring, QUEUE_LOG2));
        Ok(Queue { work, ring, cqn, told: 0, iova, ring_iova })
    }
    /// Takes what has completed, which must be a success, and gives the entries back; whether there was anything.
    fn poll(&mut self, rnic: &mut Adapter) -> Result<bool, Failure> {
        let before = self.ring.head();
        while let Some(completion) = self.ring.take() {
            if completion.status != CompletionStatus::Success as u8 {
                return Err(format!("{completion:?}").into());
            }
            self.work.complete(completion.wqe).ok_or_else(|| format!("of no work request: {completion:?}"))?;
        }
        let head = self.ring.head();
        // a quarter of the ring at a time
        if head.wrapping_sub(self.told) >= 1 << (QUEUE_LOG2 - 2) {
            self.told = head;
            rnic.ring(reg::CQ_HEAD, cq_head(self.cqn, head, arm::NOT))?;
        }
        Ok(head != before)
    }
    fn destroy(self, rnic: &mut Adapter) -> Result<(), Failure> {
        rnic.object(Command::destroy_cq(0, self.cqn.into()))?;
        rnic.unshare(self.ring_iova)?;
        Ok(rnic.unshare(self.iova)?)
    }
}

impl Side {
    fn new(pair: &mut Pair, end: End) -> Result<Self, Failure> {
        let rnic = pair.rnic(end);
        let send = Queue::new(rnic, SEND_CQN, WorkQueue::send_octets(QUEUE_LOG2), WorkQueue::send)?;
        let recv = Queue::new(rnic, RECV_CQN, WorkQueue::recv_octets(QUEUE_LOG2), WorkQueue::recv)?;
        let (region, memory) = rnic.share(REGION)?;
        let queues = [&send, &recv].map(|queue| (queue.iova, QUEUE_LOG2, queue.cqn));
        rnic.object(Command::create_qp(0, QPN.into(), 0, PD, queues[0], queues[1]))?;
        let rights = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ;
        rnic.object(Command::register_mr(0, STAG, PD, rights, region, region, REGION as u64, None))?;
        let range = |iova: u64, octets: usize| iova..iova + octets as u64;
        let areas = DataAreas {
            sends: range(send.iova, WorkQueue::send_octets(QUEUE_LOG2)),
            receives: range(recv.iova, WorkQueue::recv_octets(QUEUE_LOG2)),
            completed: range(send.ring_iova, CompletionRing::octets(QUEUE_LOG2)),
            received: range(recv.ring_iova, CompletionRing::octets(QUEUE_LOG2)),
        };
        Ok(Side { end, send, recv, region, memory, areas })
    }
    fn destroy(self, pair: &mut Pair) -> Result<(), Failure> {
        let rnic = pair.rnic(self.end);
        rnic.object(Command::destroy_qp(0, QPN.into()))?;
        rnic.object(Command::deregister_mr(0, STAG))?;
        rnic.unshare(self.region)?;
        self.send.destroy(rnic)?;
        self.recv.destroy(rnic)
    }
}

/// What is posted at one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) verb: Verb,
    pub(super) octets: usize,
    pub(super) count: u16,
    /// One in so many asks for a completion, the last in any case.
    pub(super) signalled: u16,
    /// The octets stand in the work request.
    pub(super) inline: bool,
}

/// See the module.
pub(super) struct Session {
    sides: [Side; 2],
    ends: (Connection, Connection),
}

impl Session {
    /// Connected, and the first message, which is the client's, has been sent.
    pub(super) fn open(pair: &mut Pair) -> Result<Self, Failure> {
        let sides = [Side::new(pair, A)?, Side::new(pair, B)?];
        (0..2).for_each(|end| pair.set_data_areas(end, sides[end].areas.clone()));
        let param = ConnectParam { qpn: QPN.into(), ird: DEPTH, ord: DEPTH, enhanced: true, ..to(PORT, 0) };
        pair.a.post_connect(&param)?;
        let (at_b, _) = pair.requested()?;
        let answer = AcceptParam { qpn: QPN.into(), ird: DEPTH, ord: DEPTH, ..AcceptParam::default() };
        pair.b.post_accept(&at_b, &answer)?;
        let at_a = expect(&mut pair.a, |event| match event {
            Event::ConnectReply { connection, result: Ok(()), .. } => Some(connection),
            _ => None,
        })?;
        expect(&mut pair.b, |event| matches!(event, Event::Established { .. }).then_some(()))?;
        let mut session = Session { sides, ends: (at_a, at_b) };
        let hello = Batch { verb: Verb::Write, octets: 8, count: 1, signalled: 1, inline: true };
        session.post(pair, A, hello)?;
        session.complete(pair, [1, 0])?;
        Ok(session)
    }
    /// Posts, with one doorbell; the receives of Sends at the other end come first.
    pub(super) fn post(&mut self, pair: &mut Pair, end: End, batch: Batch) -> Result<(), Failure> {
        let [here, there] = match &mut self.sides {
            [a, b] if end == A => [a, b],
            [a, b] => [b, a],
        };
        let sge = |region, octets| Sge { addr: region, length: octets as u32, lkey: STAG };
        if batch.verb == Verb::Send {
            let list = vec![sge(there.region, batch.octets.max(1))];
            (0..u64::from(batch.count)).try_for_each(|wr_id| there.recv.work.post_recv(&RecvWr { wr_id, sg_list: list.clone() }))?;
            pair.rnic(there.end).ring(reg::RQ_TAIL, queue_tail(QPN, there.recv.work.tail()))?;
            // they are in the adapter's hands
            lock(&pair.world).run(RECEIVES);
        }
        let (remote_addr, rkey) = (there.region, STAG);
        for n in 1..=batch.count {
            let op = match batch.verb {
                Verb::Write => SendOp::Write { remote_addr, rkey },
                Verb::Read => SendOp::Read { remote_addr, rkey },
                Verb::Send => SendOp::Send,
            };
            let signalled = n.is_multiple_of(batch.signalled) || n == batch.count;
            let flags = if signalled { SendFlags::SIGNALED } else { SendFlags::empty() };
            let inline = batch.inline.then(|| vec![n as u8; batch.octets]);
            let sg_list = if batch.inline { Vec::new() } else { vec![sge(here.region, batch.octets)] };
            here.send.work.post_send(&SendWr { wr_id: n.into(), op, sg_list, inline, flags })?;
        }
        Ok(pair.rnic(end).ring(reg::SQ_TAIL, queue_tail(QPN, here.send.work.tail()))?)
    }
    /// Clocks pass until so many work requests of the send queues are complete; receives complete meanwhile.
    pub(super) fn complete(&mut self, pair: &mut Pair, counts: [u16; 2]) -> Result<(), Failure> {
        let left = |sides: &[Side; 2]| [A, B].map(|end| sides[end].send.work.len() as u16);
        if left(&self.sides) != counts {
            return Err(format!("{:?} work requests wait, not {counts:?}", left(&self.sides)).into());
        }
        let mut silent = 0;
        while self.sides.iter().any(|side| side.send.work.len() + side.recv.work.len() > 0) {
            silent += 1;
            for side in &mut self.sides {
                let rnic = pair.rnic(side.end);
                let of = |e| format!("adapter {}: {e}", side.end);
                if side.send.poll(rnic).map_err(of)? | side.recv.poll(rnic).map_err(of)? {
                    silent = 0;
                }
            }
            if silent > PATIENCE {
                return Err(format!("no completion for {PATIENCE} cycles; left are {:?}", left(&self.sides)).into());
            }
            lock(&pair.world).step();
        }
        Ok(())
    }
    /// The octets at an end.
    pub(super) fn fill(&self, end: End, octets: &[u8]) {
        self.sides[end].memory.write(0, octets);
    }
    /// What is there now.
    pub(super) fn contents(&self, end: End, octets: usize) -> Vec<u8> {
        let mut found = vec![0; octets];
        self.sides[end].memory.read(0, &mut found);
        found
    }
    /// Aborts the connection and gives everything back.
    pub(super) fn close(self, pair: &mut Pair) -> Result<(), Failure> {
        pair.abort(self.ends)?;
        (0..2).for_each(|end| pair.set_data_areas(end, DataAreas::default()));
        self.sides.into_iter().try_for_each(|side| side.destroy(pair))
    }
}

/// Until receives that were rung for are known to the adapter.
const RECEIVES: u64 = 64;
