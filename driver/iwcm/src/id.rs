// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection identifier: [`CmId`] is its user's, [`IdRef`] its provider's.
use crate::{
    cm::{DeviceId, Items},
    counters::Counters,
    inner::{Body, Inner},
    queue::Work,
    sync::current,
    table::{transition, Outcome, State, Stimulus},
    ConnParam, Event, EventKind, PrivateData,
};
use ironwarp_verbs::{Access, Errno, QpState};
use std::{fmt, net::SocketAddr, sync::Arc};

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
/// It runs in the one thread that tells all events: what it waits for must not be an event. If it panics, its id is destroyed.
pub type Handler = Arc<dyn Fn(&CmId, &Event) -> Verdict + Send + Sync>;

/// Attributes for a queue pair that its user brings to a state himself (`iw_cm_init_qp_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitQpAttr {
    /// State to set; none: connect and accept do it.
    pub state: Option<QpState>,
    /// Rights that the peer may be given through it.
    pub access: Access,
}

/// A counted reference of a provider to an id (`add_ref`, `rem_ref` of `iw_cm_id`): cloning takes one more, dropping gives it back.
/// Destroying an id waits for all of them. It belongs to the listen, connect or accept that it was made for: what is raised through it later, when the
/// id does something else, is ignored.
pub struct IdRef {
    id: Arc<Inner>,
    life: u32,
}

impl Clone for IdRef {
    fn clone(&self) -> Self {
        self.id.body().refs += 1;
        Counters::add(&self.id.cm.counters.id_refs);
        IdRef { id: self.id.clone(), life: self.life }
    }
}

impl Drop for IdRef {
    fn drop(&mut self) {
        Counters::sub(&self.id.cm.counters.id_refs);
        self.id.body().refs -= 1;
        self.id.changed.notify_all();
    }
}

impl fmt::Debug for IdRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug(&self.id, "IdRef", f)
    }
}

impl IdRef {
    pub(crate) fn new(id: &Arc<Inner>) -> Self {
        let mut body = id.body();
        body.refs += 1;
        let life = body.life;
        drop(body);
        Counters::add(&id.cm.counters.id_refs);
        IdRef { id: id.clone(), life }
    }
    /// Own end as it goes on the wire.
    pub fn local_addr(&self) -> SocketAddr {
        self.id.body().local
    }
    /// The peer's end as it goes on the wire.
    pub fn remote_addr(&self) -> SocketAddr {
        self.id.body().remote
    }
    /// Told by the provider when the real own end is known: a chosen port, the address of the way.
    pub fn set_local_addr(&self, address: SocketAddr) {
        self.id.body().local = address;
    }
    /// DSCP and ECN octet for the connection's packets, if the client set one.
    pub fn tos(&self) -> Option<u8> {
        self.id.body().tos
    }
    /// The provider's own number for what this id is.
    pub fn provider_data(&self) -> u64 {
        self.id.body().provider_data
    }
    /// Sets it. For a child it is that of the CONNECT_REQUEST.
    pub fn set_provider_data(&self, data: u64) {
        self.id.body().provider_data = data;
    }
    /// Tells the connection manager (`event_handler`). Does not wait and calls nobody: the event is queued. An error means it was not taken: ENOMEM, no room in
    /// the queue of a listener; EINVAL, the listener is going away. Then the provider refuses the connection itself.
    pub fn event(&self, event: Event) -> Result<(), Errno> {
        let counters = &self.id.cm.counters;
        let mut body = self.id.body();
        let stale = self.life != body.life;
        if event.kind == EventKind::ConnectRequest
            && (stale || event.status.is_err() || transition(body.state, Stimulus::Event(event.kind, true)) != Outcome::To(State::Listen))
        {
            Counters::add(&counters.refused);
            return Err(Errno::Invalid);
        }
        if stale {
            Counters::add(&counters.odd);
            return Ok(());
        }
        if body.free_items() == 0 {
            Counters::add(&counters.no_item);
            return Err(Errno::NoMemory);
        }
        body.used += 1;
        body.queued += 1;
        drop(body);
        self.id.cm.queue(Work::event(self.id.clone(), event, self.life));
        Ok(())
    }
}

/// An id, as its user has it (`iw_cm_id`). Clones name the same id. When the last one goes away without [`CmId::destroy`], the id is destroyed
/// without waiting.
pub struct CmId(pub(crate) Arc<Inner>);

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
    /// The provider's own number for what this id is.
    pub fn provider_data(&self) -> u64 {
        self.0.body().provider_data
    }
    /// Work items that are free: events that the id can still take before its client has heard of earlier ones.
    pub fn free_items(&self) -> u32 {
        self.0.body().free_items()
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
        if body.state != State::Idle || body.connect_wait() {
            return Err(Errno::Invalid);
        }
        change(&mut body);
        Ok(())
    }
    /// Sets the own end, for listen and connect. EINVAL but in IDLE.
    pub fn bind(&self, local: SocketAddr) -> Result<(), Errno> {
        self.idle(|body| {
            body.bound = local;
            body.local = local;
        })
    }
    /// Sets the peer's end, for connect. EINVAL but in IDLE.
    pub fn set_remote(&self, remote: SocketAddr) -> Result<(), Errno> {
        self.idle(|body| body.remote = remote)
    }
    /// DSCP in bits 7:2, for connect and accept.
    pub fn set_tos(&self, tos: u8) {
        self.0.body().tos = Some(tos);
    }
    /// A call that is under way from now on: the state moves, and the id has `items` work items if that is not 0. EINVAL in the wrong state, with nothing
    /// changed; ENOMEM; ENODEV if the device is gone.
    fn start(&self, stimulus: Stimulus, items: u32, owed: bool) -> Result<(), Errno> {
        // not under the lock, and neither in the wrong state nor where an earlier call has left as many
        let mut reserved = match transition(self.state(), stimulus) {
            Outcome::To(_) if items > 0 && self.0.body().items.as_ref().map(Items::number) != Some(items) => {
                Some(Items::reserve(&self.0.cm, items)?)
            }
            _ => None,
        };
        let mut body = self.0.body();
        let Outcome::To(next) = transition(body.state, stimulus) else { return Err(Errno::Invalid) };
        let has = reserved.as_ref().or(body.items.as_ref()).map_or(0, Items::number);
        if body.connect_wait() || (items > 0 && has != items) {
            return Err(Errno::Invalid);
        }
        if body.removed {
            return Err(Errno::NoDevice);
        }
        if items > 0 {
            // a new life; the items of the last are given back after the lock
            if reserved.is_some() {
                std::mem::swap(&mut body.items, &mut reserved);
            }
            body.life = body.life.wrapping_add(1);
            body.local = body.bound;
        }
        body.state = next;
        body.verb = true;
        body.owed = owed;
        drop(body);
        drop(reserved);
        Ok(())
    }
    /// Listens at the bound address; on success its port is the one that was chosen. Final when it returns (CM-21). `backlog` 0 is [`DEFAULT_BACKLOG`]: so
    /// many requests may wait to be told. ENOMEM if there are not so many work items. T1.
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        let id = &self.0;
        let backlog = if backlog == 0 { DEFAULT_BACKLOG } else { backlog };
        self.start(Stimulus::Listen, backlog, false)?;
        let listens = id.provider.create_listen(id.reference(), backlog);
        id.verb_done(State::Idle, listens.err());
        listens
    }
    /// Opens a connection from the bound to the remote address. Ok: exactly one CONNECT_REPLY follows, or came already. EINVAL also if no queue pair has the
    /// number, or the id has no remote address. T2.
    pub fn connect(&self, param: &ConnParam) -> Result<(), Errno> {
        let id = &self.0;
        if self.remote_addr().port() == 0 {
            return Err(Errno::Invalid);
        }
        param.check()?;
        self.start(Stimulus::Connect, CONNECT_ITEMS, true)?;
        let connected = id.with_qp(param.qpn, || id.provider.connect(id.reference(), param)).map_err(|(why, _)| why);
        id.verb_done(State::Idle, connected.err());
        connected
    }
    /// Takes the connection that was announced. Ok: exactly one ESTABLISHED follows, or came already. An error of the provider ends it: IDLE, no
    /// event. EINVAL if no queue pair has the number: then it can still be answered. T4.
    pub fn accept(&self, param: &ConnParam) -> Result<(), Errno> {
        let id = &self.0;
        param.check()?;
        self.start(Stimulus::Accept, 0, true)?;
        let accepted = id.with_qp(param.qpn, || id.provider.accept(id.reference(), param));
        // not asked: it can still be answered
        let back_to = if matches!(accepted, Err((_, false))) { State::ConnRecv } else { State::Idle };
        let accepted = accepted.map_err(|(why, _)| why);
        id.verb_done(back_to, accepted.err());
        accepted
    }
    /// Refuses the connection that was announced; no event follows. EINVAL on the side that connects. T5.
    pub fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        let id = &self.0;
        self.start(Stimulus::Reject, 0, false)?;
        let rejected = id.provider.reject(id.reference(), private_data);
        id.body().verb = false;
        id.changed.notify_all();
        rejected
    }
    /// Ends the connection, in order or `abrupt`; CLOSE follows. Waits for the event of a connect or accept under way; EDEADLK if that
    /// event cannot come meanwhile, since this is called by a handler; ETIMEDOUT, with nothing done, if it does not come within the bound. Repeated, or while the
    /// connection is ending for another reason, it does nothing (CM-16). T11.
    pub fn disconnect(&self, abrupt: bool) -> Result<(), Errno> {
        let id = &self.0;
        let (mut body, came) = id.wait_connected()?;
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
        if let Some(Err(why)) = qp.map(|qp| id.provider.modify_qp(qp.handle, to)) {
            // both sides are ending it: the queue pair is further than that already
            tracing::debug!("disconnect: {why}");
        }
        Ok(())
    }
    /// Ends everything and waits until nobody will raise or tell an event of this id any more. A listener stops, a request is rejected, a connection is
    /// reset; one that is closing goes on to close, and is reset if it has not within the bound. EDEADLK from the id's own handler: return
    /// [`Verdict::Destroy`] instead; also where the event of a connect or accept under way would have to be told meanwhile by the caller's own thread. EINVAL the
    /// second time. ETIMEDOUT if the provider holds the id longer than the bound: it is dead all the same, and hears of nothing. T12.
    pub fn destroy(&self) -> Result<(), Errno> {
        let id = &self.0;
        let me = current().id();
        if id.body().telling == Some(me) {
            return Err(Errno::Deadlock);
        }
        // past the bound what is under way is aborted
        let (body, _) = id.wait_connected()?;
        drop(body);
        let closing = id.begin_destroy()?;
        let worker = id.cm.is_worker(me);
        let done = |body: &Body| body.refs == 0 && (worker || (body.queued == 0 && body.telling.is_none()));
        let ended = |what| id.wait_until(id.body(), what, done).1;
        if let Some(qp) = closing {
            if ended("the end of a connection that closes") {
                return Ok(());
            }
            if let Err(why) = id.provider.modify_qp(qp.handle, QpState::Error) {
                tracing::warn!("resetting a connection that does not close: {why}");
            }
        }
        if ended("the provider's last reference") {
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
            QpState::Init => {
                let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
                Ok(InitQpAttr { state: Some(state), access })
            }
            QpState::Rts => Ok(InitQpAttr { state: None, access: Access::empty() }),
            _ => Err(Errno::Invalid),
        }
    }
}
