// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues of the adapter. Entries stand in shared memory with a phase bit, so a poll touches no register but the doorbell that gives them back.
//!
//! What a queue pair had posted when its connection ended completes here as flushed, after everything that the adapter wrote: it writes nothing after CLOSE, so when the ring is
//! found empty behind a CLOSE, what is still posted is exactly what is to be flushed.
use super::{lock, qp::QpEntry, Shared};
use crate::{dma::DmaMemory, queues::CompletionRing};
use ironwarp_abi::{
    reg,
    work::{arm, cq_head, Completion, CompletionOpcode, CompletionStatus},
};
use ironwarp_verbs::{Cq, Errno, Wc, WcStatus};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::{
    collections::VecDeque,
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, Weak,
    },
    time::{Duration, Instant},
};

/// Which of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Send,
    Recv,
}

struct State {
    ring: CompletionRing,
    /// Index of the next entry, as the adapter knows it.
    told: u16,
    /// Completions that the driver made.
    own: VecDeque<Wc>,
}

/// What those who must not own a queue tell it.
#[derive(Debug)]
pub(super) struct CqNotice {
    event: OwnedFd,
    overflown: AtomicBool,
}

impl CqNotice {
    /// COMPLETION came, or something else that a waiter wants to see.
    pub(super) fn wake(&self) {
        // full means that it is readable anyhow
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
    /// The adapter has lost a completion (RDM-36).
    pub(super) fn lost(&self) {
        self.overflown.store(true, Ordering::Release);
        self.wake();
    }
}

/// A completion queue.
pub(super) struct OffloadCq {
    shared: Weak<Shared>,
    cqn: u16,
    iova: u64,
    state: Mutex<State>,
    /// Queues whose connection is over. Apart, because they are told under the adapter's lock, which a poll takes.
    flushing: Mutex<Vec<(Weak<QpEntry>, Side)>>,
    notice: Arc<CqNotice>,
}

impl OffloadCq {
    pub(super) fn new(shared: &Arc<Shared>, cqn: u16, iova: u64, memory: Arc<DmaMemory>, log2: u16) -> Result<Self, Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        let notice = Arc::new(CqNotice { event, overflown: AtomicBool::new(false) });
        let state = Mutex::new(State { ring: CompletionRing::new(memory, log2), told: 0, own: VecDeque::new() });
        Ok(OffloadCq { shared: Arc::downgrade(shared), cqn, iova, state, flushing: Mutex::default(), notice })
    }
    pub(super) fn cqn(&self) -> u16 {
        self.cqn
    }
    pub(super) fn notice(&self) -> Arc<CqNotice> {
        self.notice.clone()
    }
    /// The connection of `qp` is over: what is left in its queue is to be flushed.
    pub(super) fn flush(&self, qp: &Arc<QpEntry>, side: Side) {
        lock(&self.flushing).push((Arc::downgrade(qp), side));
        self.notice.wake();
    }
    fn doorbell(&self, state: &mut State, arm: u32) -> Result<(), Errno> {
        let shared = self.shared.upgrade().ok_or(Errno::NoDevice)?;
        state.told = state.ring.head();
        shared.ring(reg::CQ_HEAD, cq_head(self.cqn, state.told, arm))
    }
    /// What an entry of the adapter says; None if no queue pair knows of it.
    fn judge(&self, shared: &Shared, completion: &Completion) -> Option<Wc> {
        let Completion { wqe, opcode, status, len, invalidated, solicited, stag, .. } = *completion;
        let qpn = u32::from(completion.qpn);
        let receive = opcode == CompletionOpcode::Receive as u8;
        let entry = shared.qps.get(qpn)?;
        let posted = entry.complete(if receive { Side::Recv } else { Side::Send }, wqe)?;
        let status = match status {
            s if s == CompletionStatus::Success as u8 => WcStatus::Success,
            s if s == CompletionStatus::LocalLength as u8 => WcStatus::LocLenErr,
            s if s == CompletionStatus::LocalQpOperation as u8 => WcStatus::LocQpOpErr,
            s if s == CompletionStatus::LocalProtection as u8 => WcStatus::LocProtErr,
            s if s == CompletionStatus::Flushed as u8 => WcStatus::WrFlushErr,
            s if s == CompletionStatus::RemoteAccess as u8 => WcStatus::RemAccessErr,
            s if s == CompletionStatus::RemoteOperation as u8 => WcStatus::RemOpErr,
            _ => WcStatus::GeneralErr,
        };
        Some(Wc {
            wr_id: posted.wr_id,
            status,
            opcode: posted.opcode,
            byte_len: len,
            qp_num: qpn,
            invalidated: (receive && invalidated).then_some(stag),
            solicited: receive && solicited,
        })
    }
}

impl Cq for OffloadCq {
    fn handle(&self) -> u32 {
        self.cqn.into()
    }
    fn poll(&self, max: usize, to: &mut Vec<Wc>) -> Result<usize, Errno> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let before = to.len();
        // before the ring is looked at: only then does an empty ring mean that nothing of theirs is left in it
        let flushing = std::mem::take(&mut *lock(&self.flushing));
        let shared = self.shared.upgrade();
        while to.len() - before < max && state.own.is_empty() {
            let (Some(shared), Some(entry)) = (&shared, state.ring.take()) else { break };
            match self.judge(shared, &entry) {
                Some(wc) => to.push(wc),
                None => shared.counts.stray_completion(),
            }
        }
        let empty = to.len() - before < max;
        if empty {
            // nothing of the adapter's is left: the rest of queues whose connection is over
            for (qp, side) in flushing {
                let Some(qp) = qp.upgrade() else { continue };
                let flushed = qp.flushed(side).into_iter().map(|posted| Wc {
                    wr_id: posted.wr_id,
                    status: WcStatus::WrFlushErr,
                    opcode: posted.opcode,
                    byte_len: 0,
                    qp_num: qp.qpn(),
                    invalidated: None,
                    solicited: false,
                });
                state.own.extend(flushed);
            }
        } else {
            lock(&self.flushing).extend(flushing);
        }
        while to.len() - before < max {
            let Some(wc) = state.own.pop_front() else { break };
            to.push(wc);
        }
        // entries are given back in time: a quarter of the ring, or all when there is nothing else to do
        let used = state.ring.head().wrapping_sub(state.told);
        if used > 0 && (empty || used >= 1 << state.ring.log2.saturating_sub(2)) && shared.is_some() {
            match self.doorbell(state, arm::NOT) {
                Ok(()) | Err(Errno::NoDevice) => {}
                Err(e) => return Err(e),
            }
        }
        if to.len() == before && self.notice.overflown.load(Ordering::Acquire) {
            return Err(Errno::Overflow);
        }
        Ok(to.len() - before)
    }
    fn req_notify(&self, solicited_only: bool) -> Result<(), Errno> {
        if self.notice.overflown.load(Ordering::Acquire) {
            return Err(Errno::Overflow);
        }
        let mut state = lock(&self.state);
        if !lock(&self.flushing).is_empty() || !state.own.is_empty() {
            self.notice.wake();
        }
        self.doorbell(&mut state, if solicited_only { arm::SOLICITED } else { arm::NEXT })
    }
    fn wait(&self, timeout: Duration) -> Result<bool, Errno> {
        let until = Instant::now() + timeout;
        loop {
            if rustix::io::read(&self.notice.event, &mut [0u8; 8]).is_ok() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let left = Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.notice.event, PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(std::io::Error::from(e).into()),
            }
        }
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.notice.event.as_fd()
    }
}

impl Drop for OffloadCq {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.cq_gone(self.cqn, self.iova);
        }
    }
}

impl fmt::Debug for OffloadCq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffloadCq").field("cqn", &self.cqn).finish_non_exhaustive()
    }
}
