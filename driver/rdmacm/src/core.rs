// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands behind an [`Id`]: its state and what it holds, how calls begin and end, and how it is destroyed.
//!
//! Locks: the registry's `topology`, then an id's `inner`, then a channel's, then what counts acknowledgements. A child's `inner` may be
//! taken under its listener's. No transport, device or queue pair is called with any of them but `topology`, which no upcall takes.
//!
//! A call that talks to a transport is an [`Op`]: it is begun under the lock, with its state change, and goes on without the
//! lock. Destroying waits for all of them, so that nothing is taken from below a call.
use crate::{
    channel::{Entry, Queue, What},
    cm::{Gauge, Gauges, Shared},
    device::Registered,
    id::Handle,
    listen::{Backlog, Listening, Place},
    ports::Bound,
    upcall::Sink,
    Call, Errno, Id, Options, Payload, Stat, State, TransportId,
};
use ironwarp_verbs::{Qp, QpState};
use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

/// Longest wait of destroy for calls of other threads on the same id. Each of them ends by a timer of the transport before.
const CALLS_LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Core {
    pub(crate) number: u64,
    pub(crate) shared: Arc<Shared>,
    me: Weak<Core>,
    handle: OnceLock<Weak<Handle>>,
    inner: Mutex<Inner>,
    changed: Condvar,
    acks: Acks,
    _gauge: Gauge,
}

pub(crate) struct Inner {
    pub(crate) state: State,
    pub(crate) channel: Arc<Queue>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    /// `bind_addr` was called: an address query that fails leads back to ADDR_BOUND.
    pub(crate) bound: bool,
    pub(crate) options: Options,
    pub(crate) device: Option<Arc<Registered>>,
    pub(crate) transport: Option<Below>,
    pub(crate) qp: QpSlot,
    pub(crate) listening: Vec<Listening>,
    pub(crate) backlog: Arc<Backlog>,
    /// Its place among the requests that wait for accept.
    pub(crate) place: Option<Place>,
    calls: u32,
    ended: bool,
}

/// An id of the transport, counted.
pub(crate) struct Below {
    pub(crate) id: Arc<dyn TransportId>,
    _gauge: Gauge,
}

impl Below {
    pub(crate) fn new(shared: &Arc<Shared>, id: Arc<dyn TransportId>) -> Self {
        Below { id, _gauge: Gauge::new(shared, Gauges::transport_ids) }
    }
}

/// The queue pair of an id.
#[derive(Default)]
pub(crate) enum QpSlot {
    #[default]
    None,
    Making,
    Some(Arc<dyn Qp>),
}

impl Inner {
    pub(crate) fn transport_id(&self) -> Result<Arc<dyn TransportId>, Errno> {
        self.transport.as_ref().map(|below| below.id.clone()).ok_or(Errno::Invalid)
    }
    /// What it is to be bound to, for [`crate::ports::Ports`].
    pub(crate) const fn bound_to(&self, address: SocketAddr, listening: bool) -> Bound {
        Bound { address, af_only: self.options.af_only, reuse: self.options.reuse_addr, listening }
    }
    pub(crate) fn device(&self) -> Result<Arc<Registered>, Errno> {
        self.device.clone().ok_or(Errno::Invalid)
    }
    /// The own queue pair, else the number that the client names.
    pub(crate) fn qp_num(&self, named: Option<u32>) -> Result<u32, Errno> {
        match &self.qp {
            QpSlot::Some(qp) => Ok(qp.qp_num()),
            QpSlot::Making => Err(Errno::Invalid),
            QpSlot::None => named.ok_or(Errno::Invalid),
        }
    }
}

/// A call under way on an id.
pub(crate) struct Op<'a>(&'a Core);

impl Drop for Op<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.calls -= 1;
        self.0.changed.notify_all();
    }
}

impl Core {
    pub(crate) fn create(shared: &Arc<Shared>, channel: &Arc<Queue>, first: impl FnOnce(&mut Inner)) -> Id {
        let mut inner = Inner {
            state: State::Idle,
            channel: channel.clone(),
            local: None,
            peer: None,
            bound: false,
            options: Options::default(),
            device: None,
            transport: None,
            qp: QpSlot::None,
            listening: Vec::new(),
            backlog: Arc::default(),
            place: None,
            calls: 0,
            ended: false,
        };
        first(&mut inner);
        shared.count(Stat::IdsCreated);
        let core = Arc::new_cyclic(|me| Core {
            number: shared.next_number(),
            shared: shared.clone(),
            me: me.clone(),
            handle: OnceLock::new(),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            acks: Acks::default(),
            _gauge: Gauge::new(shared, Gauges::ids),
        });
        shared.enter(&core);
        let handle = Arc::new(Handle(core.clone()));
        let _ = core.handle.set(Arc::downgrade(&handle));
        Id::from_handle(handle)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn me(&self) -> Weak<Core> {
        self.me.clone()
    }

    /// The client's handle; none once the client has given up its last.
    pub(crate) fn handle(&self) -> Option<Id> {
        Some(Id::from_handle(self.handle.get()?.upgrade()?))
    }

    /// Who is told of events on `device`.
    pub(crate) fn sink(&self, device: &Arc<Registered>) -> Arc<Sink> {
        Arc::new(Sink::new(self.me(), device.clone()))
    }

    /// Begins a call: EINVAL if the state does not allow it; nothing changes if `prepare` refuses.
    pub(crate) fn begin<R>(&self, call: Call, prepare: impl FnOnce(&mut Inner) -> Result<R, Errno>) -> Result<(R, Op<'_>), Errno> {
        let mut inner = self.lock();
        let next = inner.state.call(call)?;
        let prepared = prepare(&mut inner)?;
        inner.state = next;
        inner.calls += 1;
        Ok((prepared, Op(self)))
    }

    /// From `from` to `to`, unless something else has happened to the id.
    pub(crate) fn step(&self, from: State, to: State) -> bool {
        let mut inner = self.lock();
        let still = inner.state == from;
        if still {
            inner.state = to;
        }
        still
    }

    /// Queues an event of this id. The id's lock is held, so events are queued in the order in which states change.
    pub(crate) fn push(&self, inner: &Inner, payload: Payload) {
        let Some(me) = self.me.upgrade() else { return };
        tracing::debug!(id = self.number, event = payload.kind().name(), status = ?payload.status(), "event");
        if inner.channel.push(Entry::new(me, What::Own(payload))).is_err() {
            self.shared.count(Stat::EventsDiscarded);
        }
    }

    /// What the connection manager does for the client when it gets an event, if the queue pair is the id's own.
    pub(crate) fn delivering(&self, payload: Payload) -> Payload {
        match payload {
            Payload::Rejected { .. } | Payload::Unreachable(_) | Payload::ConnectError(_) => {
                self.qp_to_error();
                payload
            }
            Payload::ConnectResponse(received) if matches!(self.lock().qp, QpSlot::Some(_)) => match self.establish() {
                Ok(()) => Payload::Established(received),
                Err(errno) => {
                    self.qp_to_error();
                    Payload::ConnectError(errno)
                }
            },
            payload => payload,
        }
    }

    pub(crate) fn qp_to_error(&self) {
        let qp = match &self.lock().qp {
            QpSlot::Some(qp) => qp.clone(),
            _ => return,
        };
        if let Err(errno) = qp.modify(QpState::Error) {
            tracing::warn!(id = self.number, %errno, "queue pair not brought to ERROR");
        }
    }

    /// The channel where a child's events go follows the one where its request was read.
    pub(crate) fn move_to(&self, channel: &Arc<Queue>) {
        let mut inner = self.lock();
        if !Arc::ptr_eq(&inner.channel, channel) {
            self.move_entries(&mut inner, channel);
        }
    }

    fn move_entries(&self, inner: &mut Inner, channel: &Arc<Queue>) {
        let unread = inner.channel.take_of(self);
        inner.channel = channel.clone();
        for entry in unread {
            if let Some(child) = entry.child() {
                child.core().move_to(channel);
            }
            // cannot fail: the caller holds the channel
            if channel.push(entry).is_err() {
                self.shared.count(Stat::EventsDiscarded);
            }
        }
    }

    /// `migrate_id`: unread events move along; waits until those that were read are acknowledged.
    pub(crate) fn migrate(&self, channel: &Arc<Queue>, limit: Duration) -> Result<(), Errno> {
        {
            let mut inner = self.lock();
            inner.state.call(Call::MigrateId)?;
            self.move_entries(&mut inner, channel);
        }
        self.acks.wait(limit, |counts| counts.delivered == 0)
    }

    /// Ends all that the id is and has; harmless the second time. Does not wait for acknowledgements.
    pub(crate) fn shut_down(&self) {
        let deadline = Instant::now() + CALLS_LIMIT;
        let mut inner = self.lock();
        let first = inner.state != State::Destroying;
        inner.state = State::Destroying;
        let place = inner.place.take();
        let unread = inner.channel.take_of(self);
        while inner.calls > 0 || (!first && !inner.ended) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::error!(id = self.number, calls = inner.calls, "destroyed below calls that do not end");
                break;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let below = inner.transport.take();
        let listening = std::mem::take(&mut inner.listening);
        let qp = std::mem::take(&mut inner.qp);
        drop(inner);
        drop(place);
        // requests that nobody read: their peers are rejected
        drop(unread);
        for listening in listening {
            listening.destroy();
        }
        if let Some(below) = below {
            below.id.destroy();
        }
        self.shared.ports.release(self.number);
        drop(qp);
        if first {
            self.shared.count(Stat::IdsDestroyed);
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// The transport has been told to end this id itself, which nobody has seen yet.
    pub(crate) fn disown(&self) {
        let mut inner = self.lock();
        inner.state = State::Destroying;
        inner.transport = None;
        inner.place = None;
        inner.ended = true;
    }

    /// Waits until all events are acknowledged.
    pub(crate) fn wait_acked(&self, limit: Duration) -> Result<(), Errno> {
        self.acks.wait(limit, |counts| counts.all == 0)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.shared.leave(self.number);
    }
}

/// Events that are not acknowledged yet.
#[derive(Default)]
struct Acks {
    counts: Mutex<AckCounts>,
    acked: Condvar,
}

#[derive(Default)]
struct AckCounts {
    /// With those that nobody has read.
    all: u32,
    delivered: u32,
}

impl Acks {
    fn wait(&self, limit: Duration, over: impl Fn(&AckCounts) -> bool) -> Result<(), Errno> {
        let deadline = Instant::now() + limit;
        let mut counts = lock(&self.counts);
        while !over(&counts) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TimedOut);
            }
            counts = self.acked.wait_timeout(counts, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// One event's hold on one id, given back when it is dropped.
pub(crate) struct Token {
    core: Arc<Core>,
    delivered: bool,
    _gauge: Gauge,
}

impl Token {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        lock(&core.acks.counts).all += 1;
        Token { delivered: false, _gauge: Gauge::new(&core.shared, Gauges::unacked), core }
    }
    pub(crate) fn delivered(&mut self) {
        lock(&self.core.acks.counts).delivered += 1;
        self.delivered = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut counts = lock(&self.core.acks.counts);
        counts.all -= 1;
        counts.delivered -= u32::from(self.delivered);
        self.core.acks.acked.notify_all();
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.core.number)
    }
}
