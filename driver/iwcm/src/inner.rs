// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an id is made of, and how it ends.
//!
//! One lock an id, held for a few instructions and never around a call to a provider or a client. Beside the state it guards what is under way:
//! - `verb`: a call of the provider has not returned (listen, connect, accept, reject);
//! - `owed`: the event of a connect or accept has not been told; with `verb` it is the CONNECT_WAIT of `iw_cm`, which destroy and disconnect wait for;
//! - `drop_events`: the id is being destroyed (DROP_EVENTS);
//! - `removed`: its device is gone.
//!
//! The queue pair is kept as a counted object, so that it is given back outside the lock, by whoever is the last to use it.
use crate::{
    cm::{Cm, DeviceId, Items, Worker},
    counters::Counters,
    id::{CmId, Handler, IdRef, Verdict},
    queue::Work,
    sync::{current, lock, wait, Condvar, Mutex, MutexGuard, ThreadId},
    table::{transition, Outcome, State, Stimulus},
    PrivateData, Provider, QpHandle,
};
use ironwarp_verbs::{Errno, QpState};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Instant,
};

/// A reference to a queue pair; its last owner gives it back to the provider.
pub(crate) struct QpRef {
    cm: Arc<Cm>,
    provider: Arc<dyn Provider>,
    pub(crate) handle: QpHandle,
}

impl Drop for QpRef {
    fn drop(&mut self) {
        Counters::sub(&self.cm.counters.qp_refs);
        self.provider.rem_ref(self.handle);
    }
}

pub(crate) struct Body {
    pub(crate) state: State,
    pub(crate) verb: bool,
    pub(crate) owed: bool,
    pub(crate) drop_events: bool,
    pub(crate) removed: bool,
    pub(crate) qp: Option<Arc<QpRef>>,
    /// As the client bound it; `local` is what became of it.
    pub(crate) bound: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) tos: Option<u8>,
    pub(crate) provider_data: u64,
    pub(crate) handler: Handler,
    /// Counts listens and connects: an event that was raised for an earlier one is nobody's.
    pub(crate) life: u32,
    /// Work items, and how many of them are in the queue.
    pub(crate) items: Option<Items>,
    pub(crate) used: u32,
    /// References of the provider.
    pub(crate) refs: u32,
    /// Handles of the user.
    pub(crate) handles: u32,
    /// Events in the queue or being told.
    pub(crate) queued: u32,
    /// Who is in the handler.
    pub(crate) telling: Option<ThreadId>,
}

impl Body {
    /// Is a call under way, or its event owed?
    pub(crate) const fn connect_wait(&self) -> bool {
        self.verb || self.owed
    }
    /// Work items that are free.
    pub(crate) fn free_items(&self) -> u32 {
        self.items.as_ref().map_or(0, |items| items.number().saturating_sub(self.used))
    }
}

pub(crate) struct Inner {
    pub(crate) cm: Arc<Cm>,
    pub(crate) device: DeviceId,
    pub(crate) provider: Arc<dyn Provider>,
    body: Mutex<Body>,
    /// Something that somebody may wait for has ended.
    pub(crate) changed: Condvar,
    /// Events are told as long as there are ids. The last field: its end may wait for the thread that tells.
    worker: Arc<Worker>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        Counters::sub(&self.cm.counters.ids);
    }
}

impl Inner {
    pub(crate) fn new(worker: &Arc<Worker>, device: DeviceId, provider: Arc<dyn Provider>, handler: Handler) -> Arc<Self> {
        let cm = &worker.cm;
        Counters::add(&cm.counters.ids);
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let body = Body {
            state: State::Idle,
            verb: false,
            owed: false,
            drop_events: false,
            removed: false,
            qp: None,
            bound: any,
            local: any,
            remote: any,
            tos: None,
            provider_data: 0,
            handler,
            life: 0,
            items: None,
            used: 0,
            refs: 0,
            handles: 0,
            queued: 0,
            telling: None,
        };
        let body = Mutex::new(body);
        let inner = Arc::new(Inner { cm: cm.clone(), device, provider, body, changed: Condvar::new(), worker: worker.clone() });
        cm.remember(&inner);
        // whoever removes the device looks at the list of ids after it is gone: one of the two sees the other
        if cm.provider(device).is_none() {
            inner.body().removed = true;
        }
        inner
    }
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }
    pub(crate) fn body(&self) -> MutexGuard<'_, Body> {
        lock(&self.body)
    }
    pub(crate) fn reference(self: &Arc<Self>) -> IdRef {
        IdRef::new(self)
    }
    pub(crate) fn handle(self: &Arc<Self>) -> CmId {
        self.body().handles += 1;
        CmId(self.clone())
    }
    /// Waits, within the bound, until `done`; false if the bound came first.
    pub(crate) fn wait_until<'a>(
        &'a self,
        mut body: MutexGuard<'a, Body>,
        what: &str,
        done: impl Fn(&Body) -> bool,
    ) -> (MutexGuard<'a, Body>, bool) {
        let bound = self.cm.bound();
        let start = Instant::now();
        while !done(&body) {
            let (next, noticed) = wait(&self.changed, body, bound.saturating_sub(start.elapsed()));
            body = next;
            if !noticed && !done(&body) {
                Counters::add(&self.cm.counters.bounded);
                tracing::error!(local = %body.local, remote = %body.remote, state = body.state.name(),
                    "{what} did not come within {bound:?}: the provider owes it");
                return (body, false);
            }
        }
        (body, true)
    }
    /// Until no call is under way and no event of one is owed; false if the bound came first. EDEADLK where the end cannot come.
    pub(crate) fn wait_connected(&self) -> Result<(MutexGuard<'_, Body>, bool), Errno> {
        let worker = self.cm.is_worker(current().id());
        let body = self.body();
        if body.owed && worker {
            return Err(Errno::Deadlock);
        }
        Ok(self.wait_until(body, "the event of connect or accept", |body| !body.connect_wait()))
    }
    /// Gets the queue pair, keeps it in the id, and does `verb`; after an error, whether the verb was tried.
    pub(crate) fn with_qp(&self, qpn: u32, verb: impl FnOnce() -> Result<(), Errno>) -> Result<(), (Errno, bool)> {
        let handle = self.provider.get_qp(qpn).ok_or((Errno::Invalid, false))?;
        Counters::add(&self.cm.counters.qp_refs);
        let qp = Arc::new(QpRef { cm: self.cm.clone(), provider: self.provider.clone(), handle });
        let mut body = self.body();
        if body.state == State::Destroying {
            drop(body);
            return Err((Errno::Invalid, false));
        }
        body.qp = Some(qp);
        drop(body);
        verb().map_err(|why| (why, true))
    }
    /// The verb of a connect or accept has returned. After an error no event follows, and what the provider may have raised nevertheless is undone.
    pub(crate) fn verb_done(self: &Arc<Self>, back_to: State, error: Option<Errno>) {
        let mut body = self.body();
        body.verb = false;
        let (mut qp, mut items, mut gone) = (None, None, false);
        if let Some(why) = error {
            body.owed = false;
            // of another life: what is in the queue means nothing any more
            body.life = body.life.wrapping_add(1);
            if matches!(body.state, State::Established | State::Closing) {
                Counters::add(&self.cm.counters.odd);
                tracing::error!("the provider raised an event for a call that failed: {why}");
            }
            if body.state != State::Destroying {
                body.state = back_to;
                qp = body.qp.take();
                if back_to == State::Idle {
                    body.local = body.bound;
                    items = body.items.take();
                }
            }
        } else {
            gone = body.removed;
        }
        drop(body);
        self.changed.notify_all();
        drop((qp, items));
        if gone {
            self.device_removed();
        }
    }
    /// Everything of destroy that does not wait. EINVAL the second time. Answers the queue pair of a connection that is closing in order.
    pub(crate) fn begin_destroy(self: &Arc<Self>) -> Result<Option<Arc<QpRef>>, Errno> {
        let mut body = self.body();
        if let Outcome::Refused(why) = transition(body.state, Stimulus::Destroy) {
            return Err(why);
        }
        let was = std::mem::replace(&mut body.state, State::Destroying);
        body.drop_events = true;
        body.owed = false;
        let qp = body.qp.take();
        // it may own handles of this very id
        let handler = std::mem::replace(&mut body.handler, Arc::new(|_, _| Verdict::Keep));
        // until the provider knows of it, destroy does not return
        body.queued += 1;
        drop(body);
        self.changed.notify_all();
        drop(handler);
        let done = match (was, &qp) {
            (State::Listen, _) => self.provider.destroy_listen(self.reference()),
            // connected, or on the way to it: CONN_SENT and an accept under way only if their event did not come within the bound, or nobody waits for it
            (State::Established | State::ConnSent | State::ConnRecv, Some(qp)) => self.provider.modify_qp(qp.handle, QpState::Error),
            (State::ConnRecv, None) => self.provider.reject(self.reference(), &PrivateData::default()),
            _ => Ok(()),
        };
        if let Err(why) = done {
            tracing::warn!(state = was.name(), "destroying an id: {why}");
        }
        self.body().queued -= 1;
        self.changed.notify_all();
        Ok(qp.filter(|_| was == State::Closing))
    }
    /// Its device is removed: a listener stops, a request is rejected, a connection is reset; then it is told what it is owed, by the provider or, failing
    /// that, in its place.
    pub(crate) fn device_removed(self: &Arc<Self>) {
        let mut body = self.body();
        body.removed = true;
        // its end looks again
        if body.verb {
            return;
        }
        let was = body.state;
        let qp = body.qp.clone();
        if matches!(was, State::Listen) || (was == State::ConnRecv && qp.is_none()) {
            body.state = State::Idle;
        }
        drop(body);
        let ended = match (was, &qp) {
            (State::Listen, _) => self.provider.destroy_listen(self.reference()),
            (State::ConnRecv, None) => self.provider.reject(self.reference(), &PrivateData::default()),
            (_, Some(qp)) => self.provider.modify_qp(qp.handle, QpState::Error),
            _ => Ok(()),
        };
        if let Err(why) = ended {
            tracing::warn!(state = was.name(), "removal of the device: {why}");
        }
        if qp.is_some() {
            self.body().queued += 1;
            self.cm.queue(Work::removed(self.clone()));
        }
    }
}
