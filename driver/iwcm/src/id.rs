// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection identifier: [`CmId`] is its user's, [`IdRef`] its provider's.
//!
//! One lock an id, held for a few instructions and never around a call to a provider or a client. Beside the state it guards
//! two flags: *connect wait*, while listen, connect or accept is under way (destroy and disconnect wait for its end), and *drop events*,
//! once the id is being destroyed. The queue pair is kept as a counted object, so that it is given back outside the lock,
//! by whoever is the last to use it.
use crate::{
    cm::{Cm, DeviceId},
    counters::Counters,
    sync::{current, lock, wait, Condvar, Mutex, MutexGuard, ThreadId},
    table::{transition, Outcome, State, Stimulus},
    ConnParam, Event, EventKind, PrivateData, Provider, QpHandle,
};
use ironwarp_verbs::{Access, Errno, QpState};
use std::{
    fmt,
    net::SocketAddr,
    sync::{atomic::Ordering, Arc},
};

/// Work items of an id that connects: CONNECT_REPLY, DISCONNECT, CLOSE, and one to spare.
pub const CONNECT_ITEMS: u32 = 4;
/// Work items of a child: ESTABLISHED, DISCONNECT, CLOSE.
pub const CHILD_ITEMS: u32 = 3;
/// Backlog of a listener whose user gave 0 (CM-20).
pub const DEFAULT_BACKLOG: u32 = 256;

/// What a handler wants to become of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on.
    Keep,
    /// Destroy it; for a child that is announced: reject it first.
    Destroy,
}

/// A client's upcall. For CONNECT_REQUEST the id is the new child, which inherits the handler of its listener; keep a clone of it to answer later.
/// It runs in the one thread that tells all events: what it waits for must not be an event.
pub type Handler = Arc<dyn Fn(&CmId, &Event) -> Verdict + Send + Sync>;

/// Attributes for a queue pair that its user brings to a state himself (`iw_cm_init_qp_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitQpAttr {
    /// State to set; none: connect and accept do it.
    pub state: Option<QpState>,
    /// Rights that the peer may be given through it.
    pub access: Access,
}

/// A reference to a queue pair; its last owner gives it back to the provider.
struct QpRef {
    provider: Arc<dyn Provider>,
    handle: QpHandle,
}

impl Drop for QpRef {
    fn drop(&mut self) {
        self.provider.rem_ref(self.handle);
    }
}

struct Body {
    state: State,
    connect_wait: bool,
    drop_events: bool,
    qp: Option<Arc<QpRef>>,
    local: SocketAddr,
    remote: SocketAddr,
    tos: Option<u8>,
    provider_data: u64,
    handler: Handler,
    /// Work items that are free.
    items: u32,
    /// References of the provider.
    refs: u32,
    /// Handles of the user.
    handles: u32,
    /// Events in the queue or being told.
    queued: u32,
    /// Who is in the handler.
    telling: Option<ThreadId>,
}

pub(crate) struct Inner {
    cm: Arc<Cm>,
    device: DeviceId,
    provider: Arc<dyn Provider>,
    body: Mutex<Body>,
    /// Connect wait ended, a reference was given back, or an event was told.
    changed: Condvar,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cm.counters.ids.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An event on its way to its client.
pub(crate) struct Work {
    id: Arc<Inner>,
    event: Event,
}

impl Inner {
    pub(crate) fn new(
        cm: &Arc<Cm>,
        device: DeviceId,
        provider: Arc<dyn Provider>,
        handler: Handler,
        ends: (SocketAddr, SocketAddr),
    ) -> Arc<Self> {
        cm.counters.ids.fetch_add(1, Ordering::Relaxed);
        let body = Body {
            state: State::Idle,
            connect_wait: false,
            drop_events: false,
            qp: None,
            local: ends.0,
            remote: ends.1,
            tos: None,
            provider_data: 0,
            handler,
            items: 0,
            refs: 0,
            handles: 0,
            queued: 0,
            telling: None,
        };
        let inner = Arc::new(Inner { cm: cm.clone(), device, provider, body: Mutex::new(body), changed: Condvar::new() });
        cm.remember(&inner);
        inner
    }
    pub(crate) const fn device(&self) -> DeviceId {
        self.device
    }
    fn body(&self) -> MutexGuard<'_, Body> {
        lock(&self.body)
    }
    fn reference(self: &Arc<Self>) -> IdRef {
        self.body().refs += 1;
        IdRef(self.clone())
    }
    pub(crate) fn handle(self: &Arc<Self>) -> CmId {
        self.body().handles += 1;
        CmId(self.clone())
    }
    /// Ends connect wait and wakes those who wait for it.
    fn end_wait(&self, mut body: MutexGuard<'_, Body>) {
        body.connect_wait = false;
        drop(body);
        self.changed.notify_all();
    }
    /// Waits, within the bound, until `done`; false if the bound came first.
    fn wait_until<'a>(&'a self, mut body: MutexGuard<'a, Body>, what: &str, done: impl Fn(&Body) -> bool) -> (MutexGuard<'a, Body>, bool) {
        let bound = self.cm.bound();
        let deadline = std::time::Instant::now() + bound;
        while !done(&body) {
            let (next, noticed) = wait(&self.changed, body, deadline.saturating_duration_since(std::time::Instant::now()));
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
    /// Everything of destroy that does not wait. EINVAL the second time.
    fn begin_destroy(self: &Arc<Self>) -> Result<(), Errno> {
        let mut body = self.body();
        if let Outcome::Refused(why) = transition(body.state, Stimulus::Destroy) {
            return Err(why);
        }
        let was = std::mem::replace(&mut body.state, State::Destroying);
        body.drop_events = true;
        let qp = body.qp.take();
        self.end_wait(body);
        let done = match (was, &qp) {
            (State::Listen, _) => self.provider.destroy_listen(self.reference()),
            // connected, or on the way to it: CONN_SENT and an accept under way only if their event did not come within the bound
            (State::Established | State::ConnSent | State::ConnRecv, Some(qp)) => self.provider.modify_qp(qp.handle, QpState::Error),
            (State::ConnRecv, None) => self.provider.reject(self.reference(), &PrivateData::default()),
            _ => Ok(()),
        };
        if let Err(why) = done {
            tracing::warn!(state = was.name(), "destroying an id: {why}");
        }
        Ok(())
    }
    /// What its device's removal means for it: see [`crate::IwCm::remove_device`].
    pub(crate) fn device_removed(self: &Arc<Self>) {
        let mut body = self.body();
        let was = body.state;
        let qp = body.qp.clone();
        if matches!(was, State::Listen | State::ConnRecv) && qp.is_none() && !body.connect_wait {
            body.state = State::Idle;
        }
        drop(body);
        let ended = match (was, &qp) {
            (State::Listen, _) => self.provider.destroy_listen(self.reference()),
            (State::ConnRecv, None) => self.provider.reject(self.reference(), &PrivateData::default()),
            // CONNECT_REPLY, ESTABLISHED and CLOSE, as owed, are the provider's
            (_, Some(qp)) => self.provider.modify_qp(qp.handle, QpState::Error),
            _ => Ok(()),
        };
        if let Err(why) = ended {
            tracing::warn!(state = was.name(), "removal of the device: {why}");
        }
    }
    /// Calls the client. None: nobody has a handle any more.
    fn tell(self: &Arc<Self>, event: &Event) -> Option<Verdict> {
        let mut body = self.body();
        if body.handles == 0 {
            return None;
        }
        body.handles += 1;
        body.telling = Some(current().id());
        let handler = body.handler.clone();
        drop(body);
        Counters::add(&self.cm.counters.delivered);
        let id = CmId(self.clone());
        let verdict = handler(&id, event);
        self.body().telling = None;
        drop(id);
        Some(verdict)
    }
}

impl Work {
    /// Tells one event, in the thread that tells all.
    pub(crate) fn run(self) {
        let Work { id, event } = self;
        let mut body = id.body();
        // the item is free again before the client hears of it
        body.items += 1;
        if body.drop_events {
            drop(body);
            Counters::add(&id.cm.counters.swallowed);
            if event.kind == EventKind::ConnectRequest {
                reject_unseen(&id, event);
            }
        } else {
            drop(body);
            process(&id, event);
        }
        id.body().queued -= 1;
        id.changed.notify_all();
    }
}

/// A request whose listener is gone: nobody has seen its id.
fn reject_unseen(listener: &Arc<Inner>, event: Event) {
    let child = child(listener, &event);
    Counters::add(&child.cm.counters.rejected);
    // never told: nothing to wait for
    let _ = child.begin_destroy();
}

fn child(listener: &Arc<Inner>, event: &Event) -> Arc<Inner> {
    let handler = listener.body().handler.clone();
    let child = Inner::new(&listener.cm, listener.device, listener.provider.clone(), handler, (event.local_addr, event.remote_addr));
    let mut body = child.body();
    body.state = State::ConnRecv;
    body.provider_data = event.provider_data;
    body.items = CHILD_ITEMS;
    drop(body);
    child
}

fn process(id: &Arc<Inner>, event: Event) {
    if event.kind == EventKind::ConnectRequest {
        return process_request(id, event);
    }
    let mut body = id.body();
    let outcome = transition(body.state, Stimulus::Event(event.kind, event.status.is_ok()));
    let (next, told) = match outcome {
        Outcome::To(next) => (next, true),
        Outcome::Quiet(next) => (next, false),
        Outcome::Ignored | Outcome::Nothing => return,
        Outcome::Odd | Outcome::Refused(_) => {
            Counters::add(&id.cm.counters.odd);
            tracing::warn!(state = body.state.name(), "the provider raised {}, which cannot be now: ignored", event.kind.name());
            return;
        }
    };
    body.state = next;
    // T8, T10: the connection is over, and the queue pair free
    let qp = if next == State::Idle { body.qp.take() } else { None };
    match event.kind {
        EventKind::ConnectReply => {
            body.local = event.local_addr;
            body.remote = event.remote_addr;
            id.end_wait(body);
        }
        EventKind::Established => id.end_wait(body),
        _ => drop(body),
    }
    drop(qp);
    if told && id.tell(&event) == Some(Verdict::Destroy) {
        // destroyed already by somebody else, perhaps
        let _ = id.begin_destroy();
    }
}

fn process_request(listener: &Arc<Inner>, event: Event) {
    if transition(listener.body().state, Stimulus::Event(event.kind, true)) != Outcome::To(State::Listen) {
        return reject_unseen(listener, event);
    }
    let child = child(listener, &event);
    // the listener's own flag, so that its destruction in this handler is seen as what it is
    listener.body().telling = Some(current().id());
    let id = child.handle();
    let verdict = child.tell(&event);
    listener.body().telling = None;
    if verdict != Some(Verdict::Keep) {
        Counters::add(&child.cm.counters.rejected);
        let _ = child.begin_destroy();
    }
    // if the client kept no clone, this is the last handle, and the child is rejected
    drop(id);
}

/// A counted reference of a provider to an id (`add_ref`, `rem_ref` of `iw_cm_id`): cloning takes one more, dropping gives it back.
/// Destroying an id waits for all of them.
pub struct IdRef(Arc<Inner>);

impl Clone for IdRef {
    fn clone(&self) -> Self {
        self.0.reference()
    }
}

impl Drop for IdRef {
    fn drop(&mut self) {
        self.0.body().refs -= 1;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for IdRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(&self.0, "IdRef", f)
    }
}

impl IdRef {
    /// Own end as it goes on the wire.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.body().local
    }
    /// The peer's end as it goes on the wire.
    pub fn remote_addr(&self) -> SocketAddr {
        self.0.body().remote
    }
    /// Told by the provider when the real own end is known: a chosen port, the address of the way.
    pub fn set_local_addr(&self, address: SocketAddr) {
        self.0.body().local = address;
    }
    /// DSCP and ECN octet for the connection's packets, if the client set one.
    pub fn tos(&self) -> Option<u8> {
        self.0.body().tos
    }
    /// The provider's own number for what this id is.
    pub fn provider_data(&self) -> u64 {
        self.0.body().provider_data
    }
    /// Sets it. For a child it is that of the CONNECT_REQUEST.
    pub fn set_provider_data(&self, data: u64) {
        self.0.body().provider_data = data;
    }
    /// Tells the connection manager (`event_handler`). Does not wait and calls nobody: the event is queued. An error means it was not taken: ENOMEM, no room in
    /// the queue of a listener; EINVAL, the listener is going away. Then the provider refuses the connection itself.
    pub fn event(&self, event: Event) -> Result<(), Errno> {
        let mut body = self.0.body();
        if event.kind == EventKind::ConnectRequest && body.state != State::Listen {
            return Err(Errno::Invalid);
        }
        if body.items == 0 {
            drop(body);
            Counters::add(&self.0.cm.counters.no_item);
            return Err(Errno::NoMemory);
        }
        body.items -= 1;
        body.queued += 1;
        drop(body);
        self.0.cm.queue(Work { id: self.0.clone(), event });
        Ok(())
    }
}

/// An id, as its user has it (`iw_cm_id`). Clones name the same id. When the last one goes away without [`CmId::destroy`], the id is destroyed
/// without waiting.
pub struct CmId(Arc<Inner>);

impl Clone for CmId {
    fn clone(&self) -> Self {
        self.0.handle()
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        let mut body = self.0.body();
        body.handles -= 1;
        let last = body.handles == 0;
        drop(body);
        if last {
            // destroyed already, mostly
            let _ = self.0.begin_destroy();
        }
    }
}

impl PartialEq for CmId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CmId {}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(&self.0, "CmId", f)
    }
}

fn debug(inner: &Inner, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let body = inner.body();
    f.debug_struct(name).field("state", &body.state).field("local", &body.local).field("remote", &body.remote).finish_non_exhaustive()
}

impl CmId {
    /// Its device.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }
    /// State now.
    pub fn state(&self) -> State {
        self.0.body().state
    }
    /// Own end.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.body().local
    }
    /// The peer's end.
    pub fn remote_addr(&self) -> SocketAddr {
        self.0.body().remote
    }
    /// Work items that are free: events that the id can still take before its client has heard of earlier ones.
    pub fn free_items(&self) -> u32 {
        self.0.body().items
    }
    /// References that the provider holds.
    pub fn provider_refs(&self) -> u32 {
        self.0.body().refs
    }
    /// Another upcall from now on.
    pub fn set_handler(&self, handler: Handler) {
        let old = std::mem::replace(&mut self.0.body().handler, handler);
        // perhaps the last owner of things of the client: not under the lock
        drop(old);
    }
    fn idle(&self, change: impl FnOnce(&mut Body)) -> Result<(), Errno> {
        let mut body = self.0.body();
        if body.state != State::Idle || body.connect_wait {
            return Err(Errno::Invalid);
        }
        change(&mut body);
        Ok(())
    }
    /// Sets the own end, for listen and connect. EINVAL but in IDLE.
    pub fn bind(&self, local: SocketAddr) -> Result<(), Errno> {
        self.idle(|body| body.local = local)
    }
    /// Sets the peer's end, for connect. EINVAL but in IDLE.
    pub fn set_remote(&self, remote: SocketAddr) -> Result<(), Errno> {
        self.idle(|body| body.remote = remote)
    }
    /// DSCP in bits 7:2, for connect and accept.
    pub fn set_tos(&self, tos: u8) {
        self.0.body().tos = Some(tos);
    }
    /// Listens at the bound address; on success its port is the one that was chosen. Final when it returns (CM-21). `backlog` 0 is [`DEFAULT_BACKLOG`]: so
    /// many requests may wait to be told. T1.
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        let id = &self.0;
        let backlog = if backlog == 0 { DEFAULT_BACKLOG } else { backlog };
        let mut body = id.body();
        let bound = body.local;
        start(&mut body, Stimulus::Listen)?;
        body.items = backlog;
        drop(body);
        let listens = id.provider.create_listen(id.reference(), backlog);
        let mut body = id.body();
        if listens.is_err() && body.state == State::Listen {
            body.state = State::Idle;
            body.local = bound;
        }
        id.end_wait(body);
        listens
    }
    /// Opens a connection from the bound to the remote address. Ok: exactly one CONNECT_REPLY follows, or came already. EINVAL also if no queue pair has the number. T2.
    pub fn connect(&self, param: &ConnParam) -> Result<(), Errno> {
        let id = &self.0;
        let mut body = id.body();
        let bound = body.local;
        start(&mut body, Stimulus::Connect)?;
        body.items = CONNECT_ITEMS;
        drop(body);
        let connected = id.with_qp(param.qpn, || id.provider.connect(id.reference(), param));
        if let Err((why, _)) = connected {
            let mut body = id.body();
            let mut qp = None;
            if body.state == State::ConnSent {
                body.state = State::Idle;
                body.local = bound;
                qp = body.qp.take();
            }
            id.end_wait(body);
            drop(qp);
            return Err(why);
        }
        Ok(())
    }
    /// Takes the connection that was announced. Ok: exactly one ESTABLISHED follows, or came already. An error of the provider ends it: IDLE, no
    /// event. EINVAL if no queue pair has the number: then it can still be answered. T4.
    pub fn accept(&self, param: &ConnParam) -> Result<(), Errno> {
        let id = &self.0;
        start(&mut id.body(), Stimulus::Accept)?;
        let accepted = id.with_qp(param.qpn, || id.provider.accept(id.reference(), param));
        if let Err((why, asked)) = accepted {
            let mut body = id.body();
            let mut qp = None;
            if asked && body.state == State::ConnRecv {
                body.state = State::Idle;
                qp = body.qp.take();
            }
            id.end_wait(body);
            drop(qp);
            return Err(why);
        }
        Ok(())
    }
    /// Refuses the connection that was announced; no event follows. EINVAL on the side that connects. T5.
    pub fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        let id = &self.0;
        let mut body = id.body();
        if body.connect_wait {
            return Err(Errno::Invalid);
        }
        match transition(body.state, Stimulus::Reject) {
            Outcome::To(next) => body.state = next,
            _ => return Err(Errno::Invalid),
        }
        drop(body);
        id.provider.reject(id.reference(), private_data)
    }
    /// Ends the connection, in order or `abrupt`; CLOSE follows. Waits for the event of a connect or accept under way; EDEADLK if that
    /// event cannot come meanwhile, since this is called by a handler. Repeated it does nothing. T11.
    pub fn disconnect(&self, abrupt: bool) -> Result<(), Errno> {
        let id = &self.0;
        let body = id.wait_connected()?;
        let (mut body, came) = body;
        if !came {
            return Err(Errno::TimedOut);
        }
        match transition(body.state, Stimulus::Disconnect) {
            Outcome::To(next) => body.state = next,
            Outcome::Refused(why) => return Err(why),
            _ => return Ok(()),
        }
        let qp = body.qp.clone();
        drop(body);
        let to = if abrupt { QpState::Error } else { QpState::Sqd };
        qp.map_or(Ok(()), |qp| id.provider.modify_qp(qp.handle, to))
    }
    /// Ends everything and waits until nobody will raise or tell an event of this id any more. A listener stops, a request is rejected, a connection is
    /// reset; one that is closing goes on to close, and is waited for. EDEADLK from the id's own handler: return [`Verdict::Destroy`]
    /// instead. EINVAL the second time. ETIMEDOUT if the provider holds the id longer than the bound: it is dead all the same, and hears of nothing. T12.
    pub fn destroy(&self) -> Result<(), Errno> {
        let id = &self.0;
        let me = current().id();
        if id.body().telling == Some(me) {
            return Err(Errno::Deadlock);
        }
        // past the bound what is under way is aborted
        let (body, _) = id.wait_connected()?;
        drop(body);
        id.begin_destroy()?;
        let worker = id.cm.is_worker(me);
        let done = |body: &Body| body.refs == 0 && (worker || body.queued == 0);
        let (body, came) = id.wait_until(id.body(), "the provider's last reference", done);
        drop(body);
        if came {
            Ok(())
        } else {
            Err(Errno::TimedOut)
        }
    }
    /// Attributes for a queue pair in `state`: INIT takes the rights that iWARP needs, RTS needs none (CM-29). T13.
    pub fn init_qp_attr(&self, state: QpState) -> Result<InitQpAttr, Errno> {
        if let Outcome::Refused(why) = transition(self.state(), Stimulus::InitQpAttr) {
            return Err(why);
        }
        match state {
            QpState::Init => Ok(InitQpAttr { state: Some(state), access: Access::all() }),
            QpState::Rts => Ok(InitQpAttr { state: None, access: Access::empty() }),
            _ => Err(Errno::Invalid),
        }
    }
}

impl Inner {
    /// Gets the queue pair, keeps it in the id, and does `verb`; after an error, whether the verb was tried.
    fn with_qp(&self, qpn: u32, verb: impl FnOnce() -> Result<(), Errno>) -> Result<(), (Errno, bool)> {
        let handle = self.provider.get_qp(qpn).ok_or((Errno::Invalid, false))?;
        let qp = Arc::new(QpRef { provider: self.provider.clone(), handle });
        let mut body = self.body();
        if body.state == State::Destroying {
            drop(body);
            return Err((Errno::Invalid, false));
        }
        body.qp = Some(qp);
        drop(body);
        verb().map_err(|why| (why, true))
    }
    /// Until no listen, connect or accept is under way. EDEADLK where its end cannot come.
    fn wait_connected(&self) -> Result<(MutexGuard<'_, Body>, bool), Errno> {
        let me = current().id();
        let worker = self.cm.is_worker(me);
        let body = self.body();
        if body.connect_wait && worker {
            return Err(Errno::Deadlock);
        }
        Ok(self.wait_until(body, "the event of connect or accept", |body| !body.connect_wait))
    }
}

/// A call that is under way from now on, until [`Inner::end_wait`].
fn start(body: &mut Body, stimulus: Stimulus) -> Result<(), Errno> {
    if body.connect_wait {
        return Err(Errno::Invalid);
    }
    match transition(body.state, stimulus) {
        Outcome::To(next) => {
            body.state = next;
            body.connect_wait = true;
            Ok(())
        }
        Outcome::Refused(why) => Err(why),
        _ => Err(Errno::Invalid),
    }
}
