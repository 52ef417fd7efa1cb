// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transport and a device that do what the test says, and remember what they were asked.
#![allow(dead_code)]
pub mod provider;
pub mod verbs;

use ironwarp_rdmacm::{
    Cm, CmDevice, ConnParam, DeviceKey, Errno, Event, EventChannel, EventKind, Id, Notify, Options, Prepared, PrivateData, Received,
    Request, Resolver, Transport, TransportAttr, TransportEvent, TransportId, Upcall,
};
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst},
        Arc, Mutex,
    },
    time::Duration,
};

pub const WAIT: Duration = Duration::from_secs(10);
pub const OWN: [u8; 4] = [192, 0, 2, 1];
pub const PEER: [u8; 4] = [192, 0, 2, 2];

pub fn own(port: u16) -> SocketAddr {
    (OWN, port).into()
}
pub fn peer(port: u16) -> SocketAddr {
    (PEER, port).into()
}

/// A connection manager whose every move is scripted.
pub struct Scripted {
    pub attr: Mutex<TransportAttr>,
    /// Set-up takes three messages.
    pub three_way: bool,
    calls: Mutex<Vec<String>>,
    fail: Mutex<HashMap<&'static str, Errno>>,
    pub ids: Mutex<Vec<Arc<ScriptId>>>,
    pub live: AtomicUsize,
    /// Questions are kept until [`Scripted::answer_addr`] and [`Scripted::answer_route`].
    pub hold: AtomicBool,
    addr: Mutex<Vec<Resolver<IpAddr>>>,
    route: Mutex<Vec<Resolver<()>>>,
    pub busy_rejects: AtomicUsize,
    next_port: AtomicU32,
}

impl Scripted {
    pub fn new(guid: u64, addresses: &[[u8; 4]]) -> Arc<Self> {
        Self::make(guid, addresses, false)
    }
    pub fn three_way(guid: u64, addresses: &[[u8; 4]]) -> Arc<Self> {
        Self::make(guid, addresses, true)
    }
    fn make(guid: u64, addresses: &[[u8; 4]], three_way: bool) -> Arc<Self> {
        Arc::new(Scripted {
            attr: Mutex::new(TransportAttr {
                name: format!("script{guid}"),
                node_guid: guid,
                addresses: addresses.iter().map(|&a| IpAddr::from(a)).collect(),
                max_responder_resources: 32,
                max_initiator_depth: 16,
                max_private_data: if three_way { 56 } else { 512 },
                accept_needs_param: !three_way,
            }),
            three_way,
            calls: Mutex::default(),
            fail: Mutex::default(),
            ids: Mutex::default(),
            live: AtomicUsize::new(0),
            hold: AtomicBool::new(false),
            addr: Mutex::default(),
            route: Mutex::default(),
            busy_rejects: AtomicUsize::new(0),
            next_port: AtomicU32::new(40000),
        })
    }
    /// The next calls of that name fail.
    pub fn fail(&self, call: &'static str, errno: Errno) {
        self.fail.lock().unwrap().insert(call, errno);
    }
    pub fn mend(&self, call: &'static str) {
        self.fail.lock().unwrap().remove(call);
    }
    /// What was called since the last time.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
    fn call(&self, name: &'static str, detail: impl std::fmt::Display) -> Result<(), Errno> {
        self.calls.lock().unwrap().push(format!("{name} {detail}").trim_end().into());
        self.fail.lock().unwrap().get(name).map_or(Ok(()), |&errno| Err(errno))
    }
    /// The id that was made last, of those that live.
    pub fn last(&self) -> Arc<ScriptId> {
        let ids = self.ids.lock().unwrap();
        ids.iter().rev().find(|id| !id.destroyed.load(SeqCst)).expect("no id").clone()
    }
    pub fn listener(&self) -> Arc<ScriptId> {
        let ids = self.ids.lock().unwrap();
        ids.iter().rev().find(|id| id.listens.load(SeqCst) && !id.destroyed.load(SeqCst)).expect("nobody listens").clone()
    }
    pub fn answer_addr(&self, answer: Result<IpAddr, Errno>) {
        let resolver = self.addr.lock().unwrap().pop().expect("a question");
        resolver.answer(answer);
    }
    pub fn drop_addr(&self) {
        let resolver = self.addr.lock().unwrap().pop().expect("a question");
        drop(resolver);
    }
    pub fn answer_route(&self, answer: Result<(), Errno>) {
        let resolver = self.route.lock().unwrap().pop().expect("a question");
        resolver.answer(answer);
    }
    fn id(self: &Arc<Self>, upcall: Option<Arc<dyn Upcall>>) -> Arc<ScriptId> {
        self.live.fetch_add(1, SeqCst);
        let id = Arc::new(ScriptId {
            transport: self.clone(),
            upcall: Mutex::new(upcall),
            local: Mutex::new(own(0)),
            listens: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
        });
        let mut ids = self.ids.lock().unwrap();
        ids.retain(|id| !id.destroyed.load(SeqCst));
        ids.push(id.clone());
        id
    }
    /// An id that no one has been told of.
    pub fn child(self: &Arc<Self>) -> Arc<ScriptId> {
        self.id(None)
    }
    /// A peer asks at the listener that was made last.
    pub fn request(self: &Arc<Self>, received: Received) -> Result<Arc<ScriptId>, Errno> {
        self.request_at(&self.listener(), received)
    }
    pub fn request_at(self: &Arc<Self>, listener: &ScriptId, received: Received) -> Result<Arc<ScriptId>, Errno> {
        let child = self.id(None);
        let request = Request { id: child.clone(), local: own(7), remote: peer(5000), received };
        match listener.raise(TransportEvent::Request(request)) {
            Ok(()) => Ok(child),
            Err(errno) => {
                self.busy_rejects.fetch_add(1, SeqCst);
                child.destroy();
                Err(errno)
            }
        }
    }
}

/// So that an `Arc` of it is a transport.
pub struct Handle(pub Arc<Scripted>);

impl Transport for Handle {
    fn query(&self) -> TransportAttr {
        self.0.attr.lock().unwrap().clone()
    }
    fn resolve_addr(&self, source: Option<IpAddr>, destination: IpAddr, _timeout: Duration, answer: Resolver<IpAddr>) {
        let done = self.0.call("resolve_addr", destination);
        if self.0.hold.load(SeqCst) {
            self.0.addr.lock().unwrap().push(answer);
        } else {
            answer.answer(done.map(|()| source.unwrap_or(IpAddr::from(OWN))));
        }
    }
    fn resolve_route(&self, _source: SocketAddr, destination: SocketAddr, _timeout: Duration, answer: Resolver<()>) {
        let done = self.0.call("resolve_route", destination);
        if self.0.hold.load(SeqCst) {
            self.0.route.lock().unwrap().push(answer);
        } else {
            answer.answer(done);
        }
    }
    fn create_id(&self, upcall: Arc<dyn Upcall>) -> Result<Arc<dyn TransportId>, Errno> {
        self.0.fail.lock().unwrap().get("create_id").map_or(Ok(()), |&errno| Err(errno))?;
        Ok(self.0.id(Some(upcall)))
    }
}

/// An id of it.
pub struct ScriptId {
    transport: Arc<Scripted>,
    upcall: Mutex<Option<Arc<dyn Upcall>>>,
    local: Mutex<SocketAddr>,
    listens: AtomicBool,
    pub destroyed: AtomicBool,
}

impl ScriptId {
    pub fn raise(&self, event: TransportEvent) -> Result<(), Errno> {
        let upcall = self.upcall.lock().unwrap().clone();
        upcall.ok_or(Errno::Invalid)?.event(event)
    }
    pub fn established(&self) {
        self.raise(TransportEvent::Established { ends: Some((own(41000), peer(7))), received: received(b"hello") }).unwrap();
    }
    pub fn disconnected(&self) {
        self.raise(TransportEvent::Disconnected(Ok(()))).unwrap();
    }
}

impl TransportId for ScriptId {
    fn set_upcall(&self, upcall: Arc<dyn Upcall>) {
        *self.upcall.lock().unwrap() = Some(upcall);
    }
    fn listen(&self, local: SocketAddr, backlog: u32, _options: &Options) -> Result<(), Errno> {
        self.transport.call("listen", format!("{local} {backlog}"))?;
        let port = if local.port() == 0 { self.transport.next_port.fetch_add(1, SeqCst) as u16 } else { local.port() };
        *self.local.lock().unwrap() = SocketAddr::new(local.ip(), port);
        self.listens.store(true, SeqCst);
        Ok(())
    }
    fn connect(&self, local: SocketAddr, remote: SocketAddr, param: &Prepared, _options: &Options) -> Result<(), Errno> {
        *self.local.lock().unwrap() = local;
        let (ird, ord) = (param.responder_resources, param.initiator_depth);
        self.transport.call("connect", format!("{remote} qp {} ird {ird} ord {ord}", param.qp_num))
    }
    fn accept(&self, param: Option<&Prepared>, _options: &Options) -> Result<(), Errno> {
        self.transport.call("accept", param.map_or("without".into(), |p| format!("qp {}", p.qp_num)))
    }
    fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        self.transport.call("reject", private_data.len())
    }
    fn establish(&self) -> Result<(), Errno> {
        if self.transport.three_way {
            self.transport.call("establish", "")
        } else {
            Err(Errno::Invalid)
        }
    }
    fn disconnect(&self) -> Result<(), Errno> {
        self.transport.call("disconnect", "")
    }
    fn notify(&self, _what: Notify) -> Result<(), Errno> {
        self.transport.call("notify", "")
    }
    fn local_addr(&self) -> SocketAddr {
        *self.local.lock().unwrap()
    }
    fn destroy(&self) {
        assert!(!self.destroyed.swap(true, SeqCst), "destroyed twice");
        self.transport.live.fetch_sub(1, SeqCst);
        let _ = self.transport.call("destroy", if self.listens.load(SeqCst) { "listener" } else { "" });
        let upcall = self.upcall.lock().unwrap().take();
        drop(upcall);
    }
}

pub fn received(octets: &[u8]) -> Received {
    Received { private_data: PrivateData::new(octets).unwrap(), responder_resources: 3, initiator_depth: 5 }
}

pub fn rejected(octets: &[u8]) -> TransportEvent {
    TransportEvent::Rejected {
        status: Errno::ConnectionRefused,
        private_data: PrivateData::new(octets).unwrap(),
        consumer: !octets.is_empty(),
    }
}

/// One device, one channel.
pub struct Fixture {
    pub cm: Cm,
    pub channel: EventChannel,
    pub transport: Arc<Scripted>,
    pub verbs: Arc<verbs::FakeDevice>,
    pub key: DeviceKey,
}

impl Fixture {
    pub fn new() -> Self {
        Self::over(Scripted::new(1, &[OWN]))
    }
    pub fn three_way() -> Self {
        Self::over(Scripted::three_way(1, &[OWN]))
    }
    pub fn over(transport: Arc<Scripted>) -> Self {
        let cm = Cm::new();
        let verbs = verbs::FakeDevice::new();
        let key = add(&cm, &transport, &verbs);
        Fixture { channel: EventChannel::new().unwrap(), cm, transport, verbs, key }
    }
    pub fn id(&self) -> Id {
        self.cm.create_id(&self.channel)
    }
    #[track_caller]
    pub fn event(&self, kind: EventKind) -> Event {
        let event = self.channel.get_event(WAIT).expect("an event");
        assert_eq!(event.kind(), kind);
        event
    }
    #[track_caller]
    pub fn no_event(&self) {
        assert!(self.channel.try_get_event().is_none());
    }
    /// Ready to connect.
    pub fn resolved(&self) -> Id {
        let id = self.id();
        id.resolve_addr(None, peer(7), WAIT).unwrap();
        drop(self.event(EventKind::AddrResolved));
        id.resolve_route(WAIT).unwrap();
        drop(self.event(EventKind::RouteResolved));
        id
    }
    pub fn connecting(&self) -> Id {
        let id = self.resolved();
        id.connect(&param()).unwrap();
        id
    }
    pub fn connected(&self) -> Id {
        let id = self.connecting();
        self.transport.last().established();
        drop(self.event(EventKind::Established));
        id
    }
    pub fn listening(&self, backlog: u32) -> Id {
        let id = self.id();
        id.bind_addr(own(7)).unwrap();
        id.listen(backlog).unwrap();
        id
    }
    /// A request that waits for accept. The listener is the caller's.
    pub fn requested(&self) -> Id {
        self.transport.request(received(b"please")).unwrap();
        self.event(EventKind::ConnectRequest).ack().0
    }
    /// Everything is given back.
    #[track_caller]
    pub fn at_rest(&self) {
        assert_eq!(self.cm.counts(), Default::default());
        assert_eq!(self.transport.live.load(SeqCst), 0, "ids of the transport");
    }
}

pub fn add(cm: &Cm, transport: &Arc<Scripted>, verbs: &Arc<verbs::FakeDevice>) -> DeviceKey {
    cm.add_device(CmDevice { verbs: verbs.clone(), transport: Arc::new(Handle(transport.clone())), networks: Vec::new() }).unwrap()
}

pub fn param() -> ConnParam {
    ConnParam { qp_num: Some(9), ..Default::default() }
}
