// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues: completions in the order they came, and one wake-up for those who armed it.
use crate::sync::{lock, wait, Wake};
use crate::{config::MAX_CQE, counters::Counters};
use ironwarp_verbs::{Cq, Errno, Wc, WcStatus};
use rustix::event::PollFlags;
use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

#[derive(Debug, PartialEq)]
enum Armed {
    No,
    Solicited,
    Any,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Wc>,
    armed: Armed,
    /// More came than there was room for: of no use any more.
    overflown: bool,
}

#[derive(Debug)]
pub(crate) struct SoftCq {
    handle: u32,
    size: usize,
    state: Mutex<State>,
    wake: Wake,
    counters: Arc<Counters>,
}

impl SoftCq {
    pub(crate) fn new(handle: u32, cqe: u32, counters: Arc<Counters>) -> Result<Self, Errno> {
        if cqe == 0 || cqe > MAX_CQE {
            return Err(Errno::Invalid);
        }
        let state = Mutex::new(State { queue: VecDeque::new(), armed: Armed::No, overflown: false });
        let wake = Wake::new()?;
        counters.cqs_live.add();
        Ok(SoftCq { handle, size: cqe as usize, state, wake, counters })
    }
    /// False: no room. Then the queue is lost, and whoever uses it (RDM-36).
    pub(crate) fn push(&self, wc: Wc) -> bool {
        let mut state = lock(&self.state);
        let room = state.queue.len() < self.size && !state.overflown;
        if room {
            state.queue.push_back(wc);
        } else if !state.overflown {
            state.overflown = true;
            self.counters.cq_overflows.add();
        }
        let wakes = match state.armed {
            Armed::No => false,
            Armed::Solicited => wc.solicited || wc.status != WcStatus::Success || !room,
            Armed::Any => true,
        };
        if wakes {
            state.armed = Armed::No;
            self.wake.set();
        }
        room
    }
}

impl Drop for SoftCq {
    fn drop(&mut self) {
        self.counters.cqs_live.sub();
    }
}

impl Cq for SoftCq {
    fn handle(&self) -> u32 {
        self.handle
    }
    fn poll(&self, max: usize, to: &mut Vec<Wc>) -> Result<usize, Errno> {
        let mut state = lock(&self.state);
        if state.overflown && state.queue.is_empty() {
            return Err(Errno::Overflow);
        }
        let now = max.min(state.queue.len());
        to.extend(state.queue.drain(..now));
        Ok(now)
    }
    fn req_notify(&self, solicited_only: bool) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if state.overflown {
            return Err(Errno::Overflow);
        }
        if !solicited_only {
            state.armed = Armed::Any;
        } else if state.armed == Armed::No {
            state.armed = Armed::Solicited;
        }
        Ok(())
    }
    fn wait(&self, timeout: Duration) -> Result<bool, Errno> {
        let until = Instant::now() + timeout;
        loop {
            if self.wake.take() {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            wait(&[(self.wake.as_fd(), PollFlags::IN)], Some(until))?;
        }
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
