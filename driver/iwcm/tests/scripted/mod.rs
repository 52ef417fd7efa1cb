// SPDX-License-Identifier: MIT OR Apache-2.0
//! A provider that does what a test tells it, and a client that remembers what it is told.
//!
//! A verb succeeds at once and keeps the reference it was given, unless the test has planned something else for its next call ([`Scripted::plan`]).
//! Network events are calls of the test, from any thread: [`Scripted::request`], [`Scripted::raise`], [`Scripted::end`]. A connection is named by its number,
//! which stands in the id's `provider_data`. What the rules of [`Provider`] forbid can be done too: that is what it is for.
#![allow(dead_code)]
use ironwarp_iwcm::{
    CmId, ConnParam, Errno, Event, EventKind, Handler, IdRef, IwCm, PrivateData, Provider, ProviderAttr, QpHandle, State, Verdict,
};
use ironwarp_verbs::QpState;
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard,
    },
};

/// A verb of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Connect,
    Accept,
    Reject,
    CreateListen,
    DestroyListen,
    ModifyQp,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Connect(u64),
    Accept(u64),
    Reject(u64, Vec<u8>),
    CreateListen(SocketAddr, u32),
    DestroyListen(SocketAddr),
    ModifyQp(u32, QpState),
}

/// What a verb does instead of succeeding; it is given its reference and answers for the verb. Kept is the reference only after Ok.
pub type Step = Box<dyn FnOnce(&IdRef) -> Result<(), Errno> + Send>;

/// The event that a connection is owed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Reply,
    Established,
    Close,
}

struct Connection {
    id: Arc<IdRef>,
    qpn: u32,
    owed: Owed,
}

#[derive(Default)]
struct Script {
    /// Queue pairs by number: references taken, connection, state.
    qps: BTreeMap<u32, (i64, Option<u64>, QpState)>,
    connections: BTreeMap<u64, Connection>,
    /// Requests that are announced and not answered.
    requests: Vec<u64>,
    /// By port. References are shared here, so that none is counted up or down, which takes its id's lock, under the lock of this.
    listeners: BTreeMap<u16, Arc<IdRef>>,
    plans: BTreeMap<Verb, VecDeque<Step>>,
    calls: Vec<Call>,
    next: u64,
}

/// The provider.
pub struct Scripted {
    script: Mutex<Script>,
    /// Modifying a queue pair to ERROR or CLOSING raises CLOSE, or the reply that is owed, at once.
    obliging: AtomicBool,
    /// First port that it chooses.
    first_port: u16,
}

pub const LOCAL: &str = "10.0.0.1:4791";
pub const REMOTE: &str = "10.0.0.2:7471";

pub fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

pub fn param(qpn: u32) -> ConnParam {
    ConnParam { qpn, ..ConnParam::default() }
}

impl Scripted {
    /// With queue pairs 1 to 8.
    pub fn new() -> Arc<Self> {
        Self::choosing(40_000)
    }
    pub fn choosing(first_port: u16) -> Arc<Self> {
        let qps = (1..=8).map(|n| (n, (0, None, QpState::Init))).collect();
        let script = Script { qps, next: 100, ..Script::default() };
        Arc::new(Scripted { script: Mutex::new(script), obliging: AtomicBool::new(true), first_port })
    }
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub fn set_obliging(&self, obliging: bool) {
        self.obliging.store(obliging, Ordering::SeqCst);
    }
    /// What the next call of `verb` does.
    pub fn plan(&self, verb: Verb, step: impl FnOnce(&IdRef) -> Result<(), Errno> + Send + 'static) {
        self.script().plans.entry(verb).or_default().push_back(Box::new(step));
    }
    /// The next call of `verb` fails.
    pub fn fail(&self, verb: Verb, why: Errno) {
        self.plan(verb, move |_| Err(why));
    }
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.script().calls)
    }
    pub fn add_qp(&self, qpn: u32) {
        self.script().qps.insert(qpn, (0, None, QpState::Init));
    }
    pub fn remove_qp(&self, qpn: u32) {
        self.script().qps.remove(&qpn);
    }
    pub fn qp_refs(&self, qpn: u32) -> i64 {
        self.script().qps[&qpn].0
    }
    pub fn qp_state(&self, qpn: u32) -> QpState {
        self.script().qps[&qpn].2
    }
    /// Nothing is left: no reference, no connection, no request, no listener.
    pub fn assert_clean(&self) {
        let script = self.script();
        assert!(script.qps.values().all(|qp| qp.0 == 0), "references to queue pairs: {:?}", script.qps);
        assert!(script.connections.is_empty(), "connections: {:?}", script.connections.keys());
        assert!(script.requests.is_empty(), "requests: {:?}", script.requests);
        assert!(script.listeners.is_empty(), "listeners: {:?}", script.listeners.keys());
    }
    /// References to ids that are held.
    pub fn held(&self) -> usize {
        let script = self.script();
        script.connections.len() + script.listeners.len()
    }
    pub fn listener(&self, port: u16) -> Arc<IdRef> {
        self.script().listeners[&port].clone()
    }
    /// The connection of a queue pair.
    pub fn connection_of(&self, qpn: u32) -> u64 {
        self.find_connection(qpn).expect("a connection")
    }
    pub fn find_connection(&self, qpn: u32) -> Option<u64> {
        self.script().qps[&qpn].1
    }
    pub fn id_of(&self, connection: u64) -> Arc<IdRef> {
        self.script().connections[&connection].id.clone()
    }
    /// A peer asks at the listener of `port`. A request that is not taken is forgotten, as the rules have it.
    pub fn request(&self, port: u16, private_data: &[u8]) -> Result<u64, Errno> {
        let listener = self.listener(port);
        let mut script = self.script();
        script.next += 1;
        let connection = script.next;
        script.requests.push(connection);
        drop(script);
        let event = Event {
            private_data: PrivateData::new(private_data).expect("not too long"),
            provider_data: connection,
            ..Event::new(EventKind::ConnectRequest, address(LOCAL), address(REMOTE))
        };
        let taken = listener.event(event);
        if taken.is_err() {
            self.script().requests.retain(|&c| c != connection);
        }
        taken.map(|()| connection)
    }
    /// An event of a connection, which goes on.
    pub fn raise(&self, connection: u64, kind: EventKind, status: Result<(), Errno>) -> Result<(), Errno> {
        let id = self.id_of(connection);
        if let Some(connection) = self.script().connections.get_mut(&connection) {
            connection.owed = Owed::Close;
        }
        id.event(Event { status, ..Event::new(kind, address(LOCAL), address(REMOTE)) })
    }
    /// The last event of a connection: its reference is given back.
    pub fn end(&self, connection: u64, kind: EventKind, status: Result<(), Errno>) -> Result<(), Errno> {
        let raised = self.raise(connection, kind, status);
        self.forget(connection);
        raised
    }
    /// Gives back the reference of a connection.
    pub fn forget(&self, connection: u64) {
        let mut script = self.script();
        let gone = script.connections.remove(&connection);
        if let Some(Connection { qpn, .. }) = &gone {
            if let Some(qp) = script.qps.get_mut(qpn) {
                qp.1 = None;
            }
        }
        drop(script);
        drop(gone);
    }
    pub fn release_listener(&self, port: u16) {
        let gone = self.script().listeners.remove(&port);
        drop(gone);
    }
    fn step(&self, verb: Verb) -> Option<Step> {
        self.script().plans.get_mut(&verb).and_then(VecDeque::pop_front)
    }
    fn perform(&self, verb: Verb, id: &IdRef) -> Result<(), Errno> {
        // whoever calls a provider holds no lock that its own calls take: else this does not return
        let _ = (id.local_addr(), id.provider_data());
        self.step(verb).map_or(Ok(()), |step| step(id))
    }
    fn keep(&self, id: &IdRef, connection: u64, qpn: u32, owed: Owed) {
        let id = Arc::new(id.clone());
        let mut script = self.script();
        script.connections.insert(connection, Connection { id, qpn, owed });
        if let Some(qp) = script.qps.get_mut(&qpn) {
            qp.1 = Some(connection);
            qp.2 = QpState::Rts;
        }
    }
}

impl Provider for Scripted {
    fn query(&self) -> ProviderAttr {
        ProviderAttr { name: "scripted".into(), node_guid: 1, addresses: vec![], max_ird: 32, max_ord: 32 }
    }
    fn get_qp(&self, qpn: u32) -> Option<QpHandle> {
        self.script().qps.get_mut(&qpn).map(|qp| {
            qp.0 += 1;
            QpHandle(u64::from(qpn))
        })
    }
    fn add_ref(&self, qp: QpHandle) {
        self.script().qps.get_mut(&(qp.0 as u32)).expect("a queue pair").0 += 1;
    }
    fn rem_ref(&self, qp: QpHandle) {
        let mut script = self.script();
        let refs = &mut script.qps.get_mut(&(qp.0 as u32)).expect("a queue pair that is referred to is there").0;
        *refs -= 1;
        assert!(*refs >= 0, "a reference was given back twice");
    }
    fn modify_qp(&self, qp: QpHandle, to: QpState) -> Result<(), Errno> {
        let qpn = qp.0 as u32;
        let mut script = self.script();
        script.calls.push(Call::ModifyQp(qpn, to));
        let qp = script.qps.get_mut(&qpn).expect("a queue pair that is referred to is there");
        assert!(qp.0 > 0, "modified without a reference");
        qp.2 = to;
        let connection = qp.1;
        let found = connection.and_then(|c| script.connections.get(&c)).map(|c| (c.id.clone(), c.owed));
        drop(script);
        let Some((connection, (id, owed))) = connection.zip(found) else {
            return self.step(Verb::ModifyQp).map_or(Ok(()), |_| Err(Errno::Invalid));
        };
        self.perform(Verb::ModifyQp, &id)?;
        if self.obliging.load(Ordering::SeqCst) {
            let reset = Err(Errno::ConnectionReset);
            let kinds: &[EventKind] = match owed {
                Owed::Reply => &[EventKind::ConnectReply],
                Owed::Established => &[EventKind::Established, EventKind::Close],
                Owed::Close => &[EventKind::Close],
            };
            for &kind in kinds {
                let _ = self.raise(connection, kind, reset);
            }
            self.forget(connection);
        }
        Ok(())
    }
    fn connect(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let mut script = self.script();
        script.next += 1;
        let connection = script.next;
        script.calls.push(Call::Connect(connection));
        drop(script);
        id.set_provider_data(connection);
        self.keep(&id, connection, param.qpn, Owed::Reply);
        let done = self.perform(Verb::Connect, &id);
        if done.is_err() {
            self.forget(connection);
        }
        done
    }
    fn accept(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let connection = id.provider_data();
        let mut script = self.script();
        script.calls.push(Call::Accept(connection));
        script.requests.retain(|&c| c != connection);
        drop(script);
        self.keep(&id, connection, param.qpn, Owed::Established);
        let done = self.perform(Verb::Accept, &id);
        if done.is_err() {
            self.forget(connection);
        }
        done
    }
    fn reject(&self, id: IdRef, private_data: &PrivateData) -> Result<(), Errno> {
        let connection = id.provider_data();
        let mut script = self.script();
        script.calls.push(Call::Reject(connection, private_data.to_vec()));
        let before = script.requests.len();
        script.requests.retain(|&c| c != connection);
        let known = script.requests.len() < before;
        drop(script);
        self.perform(Verb::Reject, &id)?;
        known.then_some(()).ok_or(Errno::NoEntry)
    }
    fn create_listen(&self, id: IdRef, backlog: u32) -> Result<(), Errno> {
        let mut at = id.local_addr();
        self.perform(Verb::CreateListen, &id)?;
        let mut script = self.script();
        if at.port() == 0 {
            at.set_port((self.first_port..).find(|port| !script.listeners.contains_key(port)).ok_or(Errno::NoBuffers)?);
        }
        if script.listeners.contains_key(&at.port()) {
            return Err(Errno::AddressInUse);
        }
        script.calls.push(Call::CreateListen(at, backlog));
        drop(script);
        id.set_local_addr(at);
        self.script().listeners.insert(at.port(), Arc::new(id));
        Ok(())
    }
    fn destroy_listen(&self, id: IdRef) -> Result<(), Errno> {
        let at = id.local_addr();
        let mut script = self.script();
        script.calls.push(Call::DestroyListen(at));
        let gone = script.listeners.remove(&at.port());
        drop(script);
        let known = gone.is_some();
        drop(gone);
        self.perform(Verb::DestroyListen, &id)?;
        known.then_some(()).ok_or(Errno::NoEntry)
    }
}

/// What a client was told: the id's state then, kind, status, private data.
pub type Told = (State, EventKind, Result<(), Errno>, Vec<u8>);

/// What a client does when it is told something, beside remembering it.
type Act = Arc<dyn Fn(&CmId, &Event) -> Verdict + Send + Sync>;

/// A client: remembers what it is told, and keeps the children.
#[derive(Default)]
pub struct Client {
    told: Mutex<Vec<Told>>,
    children: Mutex<Vec<CmId>>,
    act: Mutex<Option<Act>>,
}

impl Client {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }
    /// Its upcall.
    pub fn handler(self: &Arc<Self>) -> Handler {
        let this = self.clone();
        Arc::new(move |id, event| {
            let told = (id.state(), event.kind, event.status, event.private_data.to_vec());
            this.told.lock().expect("no panic").push(told);
            let act = this.act.lock().expect("no panic").clone();
            let verdict = act.map_or(Verdict::Keep, |act| act(id, event));
            if event.kind == EventKind::ConnectRequest && verdict == Verdict::Keep {
                let child = id.clone();
                this.children.lock().expect("no panic").push(child);
            }
            verdict
        })
    }
    /// What it does from now on when it is told something.
    pub fn act(&self, act: impl Fn(&CmId, &Event) -> Verdict + Send + Sync + 'static) {
        *self.act.lock().expect("no panic") = Some(Arc::new(act));
    }
    /// What it was told since this was asked last.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock().expect("no panic"))
    }
    pub fn kinds(&self) -> Vec<EventKind> {
        self.told().into_iter().map(|told| told.1).collect()
    }
    pub fn children(&self) -> Vec<CmId> {
        std::mem::take(&mut *self.children.lock().expect("no panic"))
    }
    /// The child that came last.
    pub fn child(&self) -> CmId {
        self.children().pop().expect("a child")
    }
}

/// Tells all that waits.
pub fn drain(cm: &IwCm) {
    while cm.progress() {}
}

/// Does `call` in a thread of its own while this one tells events.
#[cfg(not(loom))]
pub fn pumped<T: Send>(cm: &IwCm, call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let call = scope.spawn(call);
        while !call.is_finished() {
            cm.progress_within(std::time::Duration::from_millis(1));
        }
        drain(cm);
        call.join().expect("the call did not panic")
    })
}

/// All that a manager counts up and down is down; in a moment at least, since its thread may not yet have let go of what it has just told.
pub fn assert_nothing_left(cm: &IwCm) {
    let left = || {
        let rows = cm.counters().rows().into_iter();
        rows.filter(|row| ["cmIds", "cmIdRefs", "cmQpRefs"].contains(&row.0) && row.1 != 0).collect::<Vec<_>>()
    };
    #[cfg(not(loom))]
    for _ in 0..1_000 {
        if left().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(left(), []);
}

/// A manager without a thread, with one scripted provider and a client.
pub struct Rig {
    pub cm: Arc<IwCm>,
    pub provider: Arc<Scripted>,
    pub device: ironwarp_iwcm::DeviceId,
    pub client: Arc<Client>,
}

impl Rig {
    pub fn new() -> Self {
        let (cm, provider) = (IwCm::without_thread(), Scripted::new());
        let device = cm.add_device(provider.clone());
        // a test that hangs shall say so
        cm.set_bound(std::time::Duration::from_secs(5));
        Rig { cm, provider, device, client: Client::new() }
    }
    pub fn id(&self) -> CmId {
        let id = self.cm.create_id(self.device, self.client.handler()).expect("the device is there");
        id.set_remote(address(REMOTE)).expect("IDLE");
        id
    }
    pub fn listener(&self, port: u16, backlog: u32) -> CmId {
        let id = self.id();
        id.bind(SocketAddr::from(([0, 0, 0, 0], port))).expect("IDLE");
        id.listen(backlog).expect("a free port");
        id
    }
    /// An id that has connected with queue pair `qpn`, and its connection.
    pub fn connected(&self, qpn: u32) -> (CmId, u64) {
        let id = self.id();
        id.connect(&param(qpn)).expect("connects");
        let connection = self.provider.connection_of(qpn);
        self.provider.raise(connection, EventKind::ConnectReply, Ok(())).expect("room");
        drain(&self.cm);
        assert_eq!(id.state(), State::Established);
        (id, connection)
    }
    #[cfg(not(loom))]
    pub fn destroy(&self, id: CmId) -> Result<(), Errno> {
        pumped(&self.cm, || id.destroy())
    }
    /// As `destroy`, but nothing is told before it has begun.
    #[cfg(not(loom))]
    pub fn destroy_untold(&self, id: CmId) -> Result<(), Errno> {
        std::thread::scope(|scope| {
            let destroy = scope.spawn(|| id.destroy());
            while id.state() != State::Destroying {
                std::thread::yield_now();
            }
            pumped(&self.cm, || destroy.join().expect("no panic"))
        })
    }
    /// Nothing is left anywhere. Forgets the children.
    pub fn end(self) {
        drop(self.client.children());
        drain(&self.cm);
        self.provider.assert_clean();
        assert_nothing_left(&self.cm);
    }
}
