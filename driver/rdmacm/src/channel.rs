// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event channels: a queue of events with a descriptor that can be polled.
//!
//! A channel that is dropped takes what nobody read with it: the events count as acknowledged, and peers whose CONNECT_REQUEST was
//! among them are rejected. Ids whose channel is gone live on without telling anything; a listener's refuse all peers.
use crate::{
    core::{lock, Core, Token},
    Errno, Event, Id, Payload, Received,
};
use rustix::{
    event::{eventfd, EventfdFlags},
    io::{read, write},
};
use std::{
    collections::VecDeque,
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

/// Where events arrive (`rdma_event_channel`). Threads that share it share it in an `Arc`.
pub struct EventChannel(Arc<Queue>);

impl EventChannel {
    /// An empty one. Fails when the process has no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| Errno::from_raw(e.raw_os_error()))?;
        Ok(EventChannel(Arc::new(Queue { entries: Mutex::default(), arrived: Condvar::new(), fd })))
    }

    /// The next event (`rdma_get_cm_event`); ETIMEDOUT if none comes in time.
    pub fn get_event(&self, timeout: Duration) -> Result<Event, Errno> {
        let deadline = Instant::now() + timeout;
        loop {
            let entry = self.0.pop(Some(deadline)).ok_or(Errno::TimedOut)?;
            if let Some(event) = entry.deliver(&self.0) {
                return Ok(event);
            }
        }
    }

    /// The next event, if one is there.
    #[must_use]
    pub fn try_get_event(&self) -> Option<Event> {
        loop {
            if let Some(event) = self.0.pop(None)?.deliver(&self.0) {
                return Some(event);
            }
        }
    }

    pub(crate) const fn queue(&self) -> &Arc<Queue> {
        &self.0
    }
}

impl AsFd for EventChannel {
    /// Readable while an event is there. Only to be polled.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        let mut entries = lock(&self.0.entries);
        entries.closed = true;
        let unread = std::mem::take(&mut entries.list);
        drop(entries);
        // outside of the lock: a request that was not read rejects its peer now
        drop(unread);
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventChannel({} events)", lock(&self.0.entries).list.len())
    }
}

/// What a channel and its ids share. Its lock is taken with an id's lock held, never the other way round.
pub(crate) struct Queue {
    entries: Mutex<Entries>,
    arrived: Condvar,
    fd: OwnedFd,
}

#[derive(Default)]
struct Entries {
    list: VecDeque<Entry>,
    closed: bool,
}

/// An event that was not read.
pub(crate) struct Entry {
    tokens: Vec<Token>,
    owner: Arc<Core>,
    what: What,
}

pub(crate) enum What {
    Own(Payload),
    /// The owner is the listener.
    Request {
        child: Id,
        received: Received,
    },
}

impl Entry {
    pub(crate) fn new(owner: Arc<Core>, what: What) -> Self {
        let mut tokens = vec![Token::new(owner.clone())];
        if let What::Request { child, .. } = &what {
            tokens.push(Token::new(child.core().clone()));
        }
        Entry { tokens, owner, what }
    }

    pub(crate) fn child(&self) -> Option<&Id> {
        match &self.what {
            What::Request { child, .. } => Some(child),
            What::Own(_) => None,
        }
    }

    /// None if the id is being destroyed meanwhile: then it is as if the event had not been there.
    fn deliver(self, from: &Arc<Queue>) -> Option<Event> {
        let owner = self.owner.handle()?;
        Some(match self.what {
            What::Own(payload) => {
                let payload = self.owner.delivering(payload);
                Event::new(self.tokens, owner, payload)
            }
            What::Request { child, received } => {
                child.core().move_to(from);
                Event::new(self.tokens, child, Payload::ConnectRequest { listen_id: owner, param: received })
            }
        })
    }
}

impl Queue {
    /// Gives it back if nobody will read it.
    pub(crate) fn push(&self, entry: Entry) -> Result<(), Entry> {
        let mut entries = lock(&self.entries);
        if entries.closed {
            return Err(entry);
        }
        if entries.list.is_empty() {
            // the counter is 0 then, so this cannot fail for lack of room
            let _ = write(&self.fd, &1u64.to_ne_bytes());
        }
        entries.list.push_back(entry);
        self.arrived.notify_one();
        Ok(())
    }

    fn pop(&self, deadline: Option<Instant>) -> Option<Entry> {
        let mut entries = lock(&self.entries);
        loop {
            if let Some(mut entry) = entries.list.pop_front() {
                self.settle(&entries);
                entry.tokens.iter_mut().for_each(Token::delivered);
                return Some(entry);
            }
            let left = deadline?.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            entries = self.arrived.wait_timeout(entries, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Takes out the unread events of an id.
    pub(crate) fn take_of(&self, owner: &Core) -> Vec<Entry> {
        let mut entries = lock(&self.entries);
        let (taken, left) = std::mem::take(&mut entries.list).into_iter().partition(|e| std::ptr::eq(&*e.owner, owner));
        entries.list = left;
        self.settle(&entries);
        let taken: VecDeque<_> = taken;
        taken.into()
    }

    /// An empty channel is not readable.
    fn settle(&self, entries: &Entries) {
        if entries.list.is_empty() {
            let _ = read(&self.fd, &mut [0u8; 8]);
        }
    }
}
