// SPDX-License-Identifier: MIT OR Apache-2.0
//! One suite for every provider of the connection manager: what a client of `iwcm` may rely on, whoever does the handshake. A provider passes
//! if each function of [`SUITE`] returns; each starts from an empty rig and leaves it empty.
use ironwarp_abi::reg;
use ironwarp_iwcm::{CmId, ConnParam, DeviceId, Errno, Event, EventKind, Handler, IwCm, PrivateData, Provider, State, Verdict};
use ironwarp_rnic::Offload;
use ironwarp_verbs::{Access, Cq, Device, Mr, Pd, Qp, QpCap, QpInitAttr, QpState, Wc};
use rand::Rng;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        mpsc::{self, Receiver, RecvTimeoutError},
        Arc,
    },
    time::{Duration, Instant},
};

/// Longest wait for an event; a simulated adapter on a busy machine is slow.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// Watched for what must not come.
const SILENCE: Duration = Duration::from_millis(100);

/// A device with its connection manager and its address.
pub struct Side {
    /// Connection manager.
    pub cm: Arc<IwCm>,
    /// The device in it.
    pub device: DeviceId,
    /// Its verbs.
    pub verbs: Arc<dyn Device>,
    /// Its provider.
    pub provider: Arc<dyn Provider>,
    /// Own address.
    pub address: IpAddr,
    /// A protection domain.
    pub(crate) pd: Arc<dyn Pd>,
    /// A completion queue.
    pub(crate) cq: Arc<dyn Cq>,
    /// Reads a register. A doorbell is a posted write, which such a read does not overtake, but a frame of the peer may: without it the peer's Send may be there before the receive that was
    /// posted for it.
    pub(crate) read: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Side {
    /// Adds a device, which is both verbs and provider, to a connection manager of its own.
    pub fn new<D: Device + Provider + 'static>(device: &Arc<D>, address: IpAddr) -> Self {
        let (verbs, provider): (Arc<dyn Device>, Arc<dyn Provider>) = (device.clone(), device.clone());
        let cm = IwCm::new();
        let device = cm.add_device(provider.clone());
        let pd = verbs.alloc_pd().expect("a protection domain");
        let cq = verbs.create_cq(64).expect("a completion queue");
        Side { cm, device, verbs, provider, address, pd, cq, read: None }
    }
    /// That of an adapter, which has the first of its addresses.
    pub fn adapter(adapter: &Arc<Offload>) -> Self {
        let reader = adapter.clone();
        let read = move || drop(reader.with_rnic(|rnic| rnic.device().read(reg::STATUS)));
        Side { read: Some(Arc::new(read)), ..Side::new(adapter, Provider::query(&**adapter).addresses[0]) }
    }
    /// A queue pair.
    pub fn qp(&self) -> Arc<dyn Qp> {
        let init = QpInitAttr { send_cq: self.cq.clone(), recv_cq: self.cq.clone(), cap: QpCap::default(), sq_sig_all: false };
        self.verbs.create_qp(&self.pd, &init).expect("a queue pair")
    }
    /// A memory region.
    pub fn region(&self, length: usize, access: Access) -> Arc<dyn Mr> {
        self.pd.alloc_mr(length, access).expect("a region")
    }
    /// The next completion.
    pub fn completion(&self) -> Wc {
        let start = Instant::now();
        let mut got = Vec::new();
        loop {
            self.cq.poll(1, &mut got).expect("polled");
            if let Some(wc) = got.pop() {
                return wc;
            }
            assert!(start.elapsed() < BOUND, "a completion within the bound");
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    /// A counter of the connection manager, which must have one of that name.
    fn counter(&self, name: &str) -> u64 {
        let rows = self.cm.counters().rows();
        rows.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
    fn id(&self, watch: &Watch) -> CmId {
        self.cm.create_id(self.device, watch.handler.clone()).expect("an id")
    }
    fn listen(&self, watch: &Watch, port: u16, backlog: u32) -> Result<CmId, Errno> {
        let id = self.id(watch);
        id.bind(SocketAddr::new(self.address, port)).expect("idle");
        id.listen(backlog).map(|()| id)
    }
}

/// Two devices that reach each other.
pub struct Rig {
    /// Who connects.
    pub client: Side,
    /// Who listens.
    pub server: Side,
}

/// Events of some ids, in order.
struct Watch {
    handler: Handler,
    events: Receiver<(CmId, Event)>,
}

impl Watch {
    fn new() -> Self {
        Self::judging(|_| Verdict::Keep)
    }
    fn judging(verdict: impl Fn(&Event) -> Verdict + Send + Sync + 'static) -> Self {
        let (sender, events) = mpsc::channel();
        let handler: Handler = Arc::new(move |id: &CmId, event: &Event| {
            // a test that is over does not listen
            let _ = sender.send((id.clone(), event.clone()));
            verdict(event)
        });
        Watch { handler, events }
    }
    fn next(&self) -> (CmId, Event) {
        self.events.recv_timeout(BOUND).expect("an event within the bound")
    }
    fn expect(&self, kind: EventKind) -> (CmId, Event) {
        let (id, event) = self.next();
        assert_eq!(event.kind, kind, "{event:?}");
        (id, event)
    }
    fn silent(&self) {
        match self.events.recv_timeout(SILENCE) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("an event that must not come: {other:?}"),
        }
    }
}

fn data(octets: &[u8]) -> PrivateData {
    PrivateData::new(octets).expect("not too long")
}

pub(crate) fn param(qp: &Arc<dyn Qp>, private_data: &[u8]) -> ConnParam {
    ConnParam { qpn: qp.qp_num(), private_data: data(private_data), ird: 4, ord: 4, ..ConnParam::default() }
}

/// Both ends of a connection.
pub(crate) struct Pair {
    pub(crate) client: CmId,
    server: CmId,
    pub(crate) client_qp: Arc<dyn Qp>,
    pub(crate) server_qp: Arc<dyn Qp>,
    at_client: Watch,
    at_server: Watch,
    listener: Option<CmId>,
}

impl Rig {
    fn dial(&self, watch: &Watch, to: SocketAddr, param: &ConnParam) -> Result<CmId, Errno> {
        let id = self.client.id(watch);
        id.set_remote(to).expect("idle");
        id.connect(param).map(|()| id)
    }
    /// Listens, connects, accepts.
    pub(crate) fn pair(&self) -> Pair {
        let (client_qp, server_qp) = (self.client.qp(), self.server.qp());
        let (ask, answer) = (param(&client_qp, b"request"), param(&server_qp, b"reply"));
        self.pair_of(client_qp, server_qp, &ask, &answer)
    }
    /// The same with queue pairs and parameters of the caller.
    pub(crate) fn pair_of(&self, client_qp: Arc<dyn Qp>, server_qp: Arc<dyn Qp>, ask: &ConnParam, answer: &ConnParam) -> Pair {
        let (at_client, at_server) = (Watch::new(), Watch::new());
        let listener = self.server.listen(&at_server, 0, 4).expect("listen");
        let client = self.dial(&at_client, listener.local_addr(), ask).expect("connect");
        let (server, request) = at_server.expect(EventKind::ConnectRequest);
        assert_eq!(request.private_data, ask.private_data);
        server.accept(answer).expect("accept");
        assert_eq!(at_server.expect(EventKind::Established).1.status, Ok(()));
        let (_, reply) = at_client.expect(EventKind::ConnectReply);
        assert_eq!((reply.status, reply.private_data), (Ok(()), answer.private_data.clone()));
        Pair { client, server, client_qp, server_qp, at_client, at_server, listener: Some(listener) }
    }
    /// Nothing is left of anything, and nothing odd has happened.
    pub fn assert_empty(&self) {
        for side in [&self.client, &self.server] {
            let start = Instant::now();
            while ["cmIds", "cmIdRefs", "cmQpRefs"].iter().any(|name| side.counter(name) != 0) {
                assert!(start.elapsed() < BOUND, "{:?}", side.cm.counters());
                std::thread::sleep(Duration::from_millis(5));
            }
            for name in ["cmEventsOdd", "cmDuplicateReplies", "cmWaitsBounded", "cmHandlerPanics"] {
                assert_eq!(side.counter(name), 0, "{name}: {:?}", side.cm.counters());
            }
        }
    }
}

impl Pair {
    /// Nobody else is to come.
    pub(crate) fn stop_listening(&mut self) {
        self.listener.take().expect("listens").destroy().expect("destroyed");
    }
    /// One of both closes, and both hear of it.
    pub(crate) fn close(&self, who: usize) {
        [&self.client, &self.server][who].disconnect(false).expect("closes");
        for watch in [&self.at_client, &self.at_server] {
            assert_eq!(watch.expect(EventKind::Close).1.status, Ok(()));
        }
    }
    /// The connection has failed, and both hear of it.
    pub(crate) fn failed(&self) {
        for watch in [&self.at_client, &self.at_server] {
            let (_, close) = watch.expect(EventKind::Close);
            assert!(close.status.is_err(), "{close:?}");
        }
    }
    pub(crate) fn end(self) {
        let Pair { client, server, client_qp, server_qp, listener, .. } = self;
        for id in [client, server].into_iter().chain(listener) {
            id.destroy().expect("destroyed");
        }
        for qp in [client_qp, server_qp] {
            qp.destroy().expect("nobody refers to it");
        }
    }
}

/// A scenario: its name, and what it does.
pub type Scenario = (&'static str, fn(&Rig));

/// The suite.
pub const SUITE: &[Scenario] = &[
    ("private data goes both ways, and the queue pairs are in RTS", established),
    ("what is rejected is refused with private data", rejected),
    ("where nobody listens it is refused", nobody),
    ("an orderly end by the client is told to both, once", orderly_by_client),
    ("an orderly end by the server is told to both, once", orderly_by_server),
    ("an abrupt end is a reset for the peer", abrupt),
    ("the queue pair may end the connection", by_queue_pair),
    ("ids may be destroyed in every state", destroyed),
    ("port 0 is chosen, and a port is given once", ports),
    ("wrong calls are refused and change nothing", refused_calls),
    ("private data has every length", lengths),
    ("IRD and ORD of both sides come up", depths),
    ("a handler may refuse a request", handler_refuses),
    ("a listener goes before its requests are answered", listener_first),
    ("a client that goes before it is accepted", client_first),
    ("many connections at once", many),
    ("a wildcard listener hears as well", wildcard),
];

fn established(rig: &Rig) {
    let pair = rig.pair();
    for (id, qp) in [(&pair.client, &pair.client_qp), (&pair.server, &pair.server_qp)] {
        assert_eq!((id.state(), qp.query().state), (State::Established, QpState::Rts));
    }
    // the real ends, seen from both sides (CM-38)
    assert_eq!((pair.client.local_addr(), pair.client.remote_addr()), (pair.server.remote_addr(), pair.server.local_addr()));
    assert_ne!(pair.client.local_addr().port(), 0);
    pair.end();
}

fn rejected(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let qp = rig.client.qp();
    let client = rig.dial(&at_client, listener.local_addr(), &param(&qp, b"")).expect("connect");
    let (server, _) = at_server.expect(EventKind::ConnectRequest);
    server.reject(&data(b"not today")).expect("rejected");
    assert_eq!(server.reject(&data(b"twice")), Err(Errno::Invalid));
    let (_, reply) = at_client.expect(EventKind::ConnectReply);
    assert_eq!((reply.status, &*reply.private_data), (Err(Errno::ConnectionRefused), &b"not today"[..]));
    assert_eq!((client.state(), qp.query().state), (State::Idle, QpState::Init));
    at_client.silent();
    at_server.silent();
    for id in [client, server, listener] {
        id.destroy().expect("destroyed");
    }
    qp.destroy().expect("destroyed");
}

fn nobody(rig: &Rig) {
    let watch = Watch::new();
    // a port that was free a moment ago
    let listener = rig.server.listen(&watch, 0, 4).expect("listen");
    let address = listener.local_addr();
    listener.destroy().expect("destroyed");
    let qp = rig.client.qp();
    let client = rig.dial(&watch, address, &param(&qp, b"")).expect("connect");
    assert_eq!(watch.expect(EventKind::ConnectReply).1.status, Err(Errno::ConnectionRefused));
    watch.silent();
    client.destroy().expect("destroyed");
    qp.destroy().expect("destroyed");
}

fn closed(pair: &Pair) {
    for (watch, qp) in [(&pair.at_client, &pair.client_qp), (&pair.at_server, &pair.server_qp)] {
        let (id, _) = watch.expect(EventKind::Close);
        assert_ne!(qp.query().state, QpState::Rts, "CM-14");
        assert_eq!(id.state(), State::Idle);
        watch.silent();
    }
}

fn orderly_by_client(rig: &Rig) {
    let pair = rig.pair();
    pair.client.disconnect(false).expect("closes");
    pair.client.disconnect(false).expect("closes already");
    closed(&pair);
    pair.client.disconnect(false).expect("is closed");
    pair.end();
}

fn orderly_by_server(rig: &Rig) {
    let pair = rig.pair();
    pair.server.disconnect(false).expect("closes");
    closed(&pair);
    pair.end();
}

fn abrupt(rig: &Rig) {
    let pair = rig.pair();
    pair.client.disconnect(true).expect("resets");
    let (_, close) = pair.at_server.expect(EventKind::Close);
    assert_eq!(close.status, Err(Errno::ConnectionReset));
    pair.at_client.expect(EventKind::Close);
    pair.at_client.silent();
    pair.end();
}

fn by_queue_pair(rig: &Rig) {
    let pair = rig.pair();
    pair.server_qp.modify(QpState::Rts).expect_err("only a connection does");
    pair.server_qp.modify(QpState::Error).expect("resets");
    pair.server_qp.modify(QpState::Error).expect("is there already");
    pair.at_client.expect(EventKind::Close);
    pair.at_server.expect(EventKind::Close);
    pair.end();
}

fn destroyed(rig: &Rig) {
    // connected: reset, and swallowed here
    let pair = rig.pair();
    pair.client.destroy().expect("destroyed");
    assert_eq!(pair.client.destroy(), Err(Errno::Invalid));
    assert_eq!(pair.client.provider_refs(), 0);
    pair.at_client.silent();
    pair.at_server.expect(EventKind::Close);
    for id in [Some(pair.server), pair.listener].into_iter().flatten() {
        id.destroy().expect("destroyed");
    }
    for qp in [pair.client_qp, pair.server_qp] {
        qp.destroy().expect("destroyed");
    }
    // announced: rejected
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let qp = rig.client.qp();
    let client = rig.dial(&at_client, listener.local_addr(), &param(&qp, b"")).expect("connect");
    let (server, _) = at_server.expect(EventKind::ConnectRequest);
    server.destroy().expect("destroyed");
    assert_eq!(at_client.expect(EventKind::ConnectReply).1.status, Err(Errno::ConnectionRefused));
    // the queue pair first, then the id, and the other way round
    qp.destroy().expect("destroyed");
    client.destroy().expect("destroyed");
    listener.destroy().expect("destroyed");
}

fn ports(rig: &Rig) {
    let watch = Watch::new();
    let first = rig.server.listen(&watch, 0, 0).expect("listen");
    assert_ne!(first.local_addr().port(), 0);
    let again = rig.server.id(&watch);
    again.bind(first.local_addr()).expect("idle");
    assert_eq!(again.listen(1), Err(Errno::AddressInUse));
    assert_eq!((again.state(), again.provider_refs()), (State::Idle, 0));
    first.destroy().expect("destroyed");
    again.listen(1).expect("free again");
    again.destroy().expect("destroyed");
    let elsewhere = rig.server.id(&watch);
    elsewhere.bind(SocketAddr::from((Ipv4Addr::new(203, 0, 113, 77), 7000))).expect("idle");
    assert_eq!(elsewhere.listen(1), Err(Errno::AddressNotAvailable));
    elsewhere.destroy().expect("destroyed");
}

fn refused_calls(rig: &Rig) {
    let pair = rig.pair();
    let listener = pair.listener.as_ref().expect("listens");
    for id in [&pair.client, &pair.server, listener] {
        let before = (id.state(), id.local_addr(), id.remote_addr());
        assert_eq!(id.listen(1), Err(Errno::Invalid));
        assert_eq!(id.connect(&ConnParam::default()), Err(Errno::Invalid));
        assert_eq!(id.accept(&ConnParam::default()), Err(Errno::Invalid));
        assert_eq!(id.reject(&PrivateData::default()), Err(Errno::Invalid));
        assert_eq!((id.state(), id.local_addr(), id.remote_addr()), before);
    }
    assert_eq!(listener.disconnect(false), Err(Errno::Invalid));
    // no such queue pair; one that is connected already
    let watch = Watch::new();
    let fresh = rig.client.id(&watch);
    fresh.set_remote(listener.local_addr()).expect("idle");
    assert_eq!(fresh.connect(&ConnParam { qpn: 0x00ff_fffe, ..ConnParam::default() }), Err(Errno::Invalid));
    assert!(fresh.connect(&param(&pair.client_qp, b"")).is_err());
    assert_eq!((fresh.state(), fresh.provider_refs()), (State::Idle, 0));
    watch.silent();
    fresh.destroy().expect("destroyed");
    pair.end();
}

fn lengths(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    for len in [0, 1, 3, 4, 251, 252, 255, 256, 257, PrivateData::MAX_ENHANCED] {
        let octets: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
        let qp = rig.client.qp();
        let client = rig.dial(&at_client, listener.local_addr(), &param(&qp, &octets)).expect("connect");
        let (server, request) = at_server.expect(EventKind::ConnectRequest);
        assert_eq!(&*request.private_data, &octets[..], "request of {len}");
        server.reject(&data(&octets)).expect("rejected");
        let (_, reply) = at_client.expect(EventKind::ConnectReply);
        assert_eq!(&*reply.private_data, &octets[..], "reply of {len}");
        for id in [client, server] {
            id.destroy().expect("destroyed");
        }
        qp.destroy().expect("destroyed");
    }
    let qp = rig.client.qp();
    let long = vec![0; PrivateData::MAX_ENHANCED + 1];
    assert_eq!(rig.dial(&at_client, listener.local_addr(), &param(&qp, &long)).err(), Some(Errno::Invalid));
    at_client.silent();
    qp.destroy().expect("destroyed");
    listener.destroy().expect("destroyed");
}

fn depths(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    for ((client_ird, client_ord), (server_ird, server_ord)) in [((3, 5), (7, 2)), ((1, 1), (1, 1)), ((0, 0), (0, 0))] {
        let (client_qp, server_qp) = (rig.client.qp(), rig.server.qp());
        let ask = ConnParam { ird: client_ird, ord: client_ord, ..param(&client_qp, b"") };
        let client = rig.dial(&at_client, listener.local_addr(), &ask).expect("connect");
        let (server, request) = at_server.expect(EventKind::ConnectRequest);
        assert_eq!((request.depths.peer_ird, request.depths.peer_ord), (client_ird, client_ord));
        assert_eq!((u16::from(request.iw_ird()), u16::from(request.iw_ord())), (client_ird, client_ord), "CM-26");
        server.accept(&ConnParam { ird: server_ird, ord: server_ord, ..param(&server_qp, b"") }).expect("accept");
        at_server.expect(EventKind::Established);
        let (_, reply) = at_client.expect(EventKind::ConnectReply);
        // nobody may ask more of the other than it serves
        let (c, s) = (client_qp.query(), server_qp.query());
        assert!(c.ord <= s.ird && s.ord <= c.ird, "{c:?} {s:?}");
        assert_eq!((u16::from(reply.iw_ird()), u16::from(reply.iw_ord())), (c.ord, c.ird), "CM-26");
        for id in [client, server] {
            id.destroy().expect("destroyed");
        }
        for qp in [client_qp, server_qp] {
            qp.destroy().expect("destroyed");
        }
        // the end of the one whose peer was destroyed first may have been told
        while at_server.events.try_recv().is_ok() {}
    }
    listener.destroy().expect("destroyed");
}

fn handler_refuses(rig: &Rig) {
    let at_client = Watch::new();
    let at_server = Watch::judging(|event| if event.kind == EventKind::ConnectRequest { Verdict::Destroy } else { Verdict::Keep });
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let qp = rig.client.qp();
    let client = rig.dial(&at_client, listener.local_addr(), &param(&qp, b"")).expect("connect");
    assert_eq!(at_client.expect(EventKind::ConnectReply).1.status, Err(Errno::ConnectionRefused));
    let (server, _) = at_server.expect(EventKind::ConnectRequest);
    assert_eq!(server.destroy(), Err(Errno::Invalid), "destroyed by its handler");
    drop(server);
    client.destroy().expect("destroyed");
    listener.destroy().expect("destroyed");
    qp.destroy().expect("destroyed");
}

fn listener_first(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let (client_qp, server_qp) = (rig.client.qp(), rig.server.qp());
    let client = rig.dial(&at_client, listener.local_addr(), &param(&client_qp, b"")).expect("connect");
    let (server, _) = at_server.expect(EventKind::ConnectRequest);
    listener.destroy().expect("destroyed");
    // CM-22: what was announced lives on
    server.accept(&param(&server_qp, b"")).expect("accept");
    at_server.expect(EventKind::Established);
    assert_eq!(at_client.expect(EventKind::ConnectReply).1.status, Ok(()));
    for id in [client, server] {
        id.destroy().expect("destroyed");
    }
    for qp in [client_qp, server_qp] {
        qp.destroy().expect("destroyed");
    }
}

fn client_first(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let (client_qp, server_qp) = (rig.client.qp(), rig.server.qp());
    let client = rig.dial(&at_client, listener.local_addr(), &param(&client_qp, b"")).expect("connect");
    let (server, _) = at_server.expect(EventKind::ConnectRequest);
    client_qp.modify(QpState::Error).expect("gives up");
    let (_, reply) = at_client.expect(EventKind::ConnectReply);
    assert!(reply.status.is_err(), "{reply:?}");
    std::thread::sleep(SILENCE);
    // CM-27: refused, or established and over at once
    if server.accept(&param(&server_qp, b"")).is_ok() {
        at_server.expect(EventKind::Established);
        at_server.expect(EventKind::Close);
    } else {
        assert_eq!(server.state(), State::Idle);
    }
    at_server.silent();
    for id in [client, server, listener] {
        id.destroy().expect("destroyed");
    }
    for qp in [client_qp, server_qp] {
        qp.destroy().expect("destroyed");
    }
}

fn many(rig: &Rig) {
    const CONNECTIONS: usize = 12;
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 16).expect("listen");
    let mut qps = Vec::new();
    let mut ids = Vec::new();
    for n in 0..CONNECTIONS {
        let qp = rig.client.qp();
        ids.push(rig.dial(&at_client, listener.local_addr(), &param(&qp, &[n as u8])).expect("connect"));
        qps.push(qp);
    }
    let mut seen = [false; CONNECTIONS];
    let mut established = 0;
    while established < CONNECTIONS {
        let (id, event) = at_server.next();
        match event.kind {
            EventKind::ConnectRequest => {
                let n = usize::from(event.private_data[0]);
                assert!(!std::mem::replace(&mut seen[n], true), "announced twice");
                let qp = rig.server.qp();
                id.accept(&param(&qp, &[n as u8])).expect("accept");
                qps.push(qp);
                ids.push(id);
            }
            EventKind::Established => established += 1,
            other => panic!("{other:?}"),
        }
    }
    for _ in 0..CONNECTIONS {
        let (id, reply) = at_client.expect(EventKind::ConnectReply);
        assert_eq!(reply.status, Ok(()));
        assert_eq!(ids.iter().position(|other| *other == id), Some(usize::from(reply.private_data[0])), "its own reply");
    }
    for id in &ids[..CONNECTIONS] {
        id.disconnect(false).expect("closes");
    }
    for _ in 0..CONNECTIONS {
        at_client.expect(EventKind::Close);
        at_server.expect(EventKind::Close);
    }
    ids.push(listener);
    for id in ids {
        id.destroy().expect("destroyed");
    }
    for qp in qps {
        qp.destroy().unwrap_or_else(|e| panic!("destroyed: {e:?} {qp:?}"));
    }
}

fn wildcard(rig: &Rig) {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listener = rig.server.cm.listen_any(any, 4, at_server.handler.clone()).expect("listen");
    let qp = rig.client.qp();
    let to = SocketAddr::new(rig.server.address, listener.local_addr().port());
    let client = rig.dial(&at_client, to, &param(&qp, b"")).expect("connect");
    let (server, request) = at_server.expect(EventKind::ConnectRequest);
    assert_eq!(request.local_addr, to, "CM-38");
    server.reject(&data(b"")).expect("rejected");
    at_client.expect(EventKind::ConnectReply);
    drop(listener);
    for id in [client, server] {
        id.destroy().expect("destroyed");
    }
    qp.destroy().expect("destroyed");
}

/// How a life may go.
#[derive(Clone, Copy, Debug)]
enum Life {
    Rejected,
    /// The client's queue pair leaves before anybody answers.
    GivenUp,
    /// Nobody answers: the child's id is dropped.
    Dropped,
    Orderly(Who),
    Abrupt(Who),
    ById(Who),
    ByQueuePair(Who),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Client,
    Server,
    Both,
}

impl Life {
    const ALL: [Life; 15] = [
        Life::Rejected,
        Life::GivenUp,
        Life::Dropped,
        Life::Orderly(Who::Client),
        Life::Orderly(Who::Server),
        Life::Orderly(Who::Both),
        Life::Abrupt(Who::Client),
        Life::Abrupt(Who::Server),
        Life::Abrupt(Who::Both),
        Life::ById(Who::Client),
        Life::ById(Who::Server),
        Life::ById(Who::Both),
        Life::ByQueuePair(Who::Client),
        Life::ByQueuePair(Who::Server),
        Life::ByQueuePair(Who::Both),
    ];
}

/// `count` connections, one after the other, each with a random life and random private data; returns how many were established. The rig is empty after each.
pub fn lives(rig: &Rig, count: usize, rng: &mut impl Rng) -> usize {
    let (at_client, at_server) = (Watch::new(), Watch::new());
    let listener = rig.server.listen(&at_server, 0, 4).expect("listen");
    let mut established = 0;
    for n in 0..count {
        let life = Life::ALL[rng.random_range(0..Life::ALL.len())];
        let mut octets = vec![0; rng.random_range(0..64)];
        rng.fill(&mut octets[..]);
        let (client_qp, server_qp) = (rig.client.qp(), rig.server.qp());
        let client = rig.dial(&at_client, listener.local_addr(), &param(&client_qp, &octets)).unwrap_or_else(|e| panic!("life {n}: {e}"));
        let (server, request) = at_server.expect(EventKind::ConnectRequest);
        assert_eq!(&*request.private_data, &octets[..], "life {n}, {life:?}");
        // dropped handles are kept in events: take them out of the way
        let take_all = || {
            while at_client.events.try_recv().is_ok() {}
            while at_server.events.try_recv().is_ok() {}
        };
        let accepted = match life {
            Life::Rejected => {
                server.reject(&data(&octets)).expect("rejected");
                let (_, reply) = at_client.expect(EventKind::ConnectReply);
                assert_eq!((reply.status, &*reply.private_data), (Err(Errno::ConnectionRefused), &octets[..]), "life {n}");
                false
            }
            Life::Dropped => {
                server.destroy().expect("destroyed");
                assert_eq!(at_client.expect(EventKind::ConnectReply).1.status, Err(Errno::ConnectionRefused), "life {n}");
                false
            }
            Life::GivenUp => {
                client_qp.modify(QpState::Error).expect("gives up");
                assert!(at_client.expect(EventKind::ConnectReply).1.status.is_err(), "life {n}");
                // CM-27: an accept now fails, or is over at once
                if server.accept(&param(&server_qp, b"")).is_ok() {
                    at_server.expect(EventKind::Established);
                    at_server.expect(EventKind::Close);
                }
                false
            }
            _ => {
                server.accept(&param(&server_qp, &octets)).unwrap_or_else(|e| panic!("life {n}: {e}"));
                at_server.expect(EventKind::Established);
                let (_, reply) = at_client.expect(EventKind::ConnectReply);
                assert_eq!((reply.status, &*reply.private_data), (Ok(()), &octets[..]), "life {n}, {life:?}");
                true
            }
        };
        established += usize::from(accepted);
        let ids =
            |who: Who| [(Who::Server, &client), (Who::Client, &server)].into_iter().filter(move |(not, _)| who != *not).map(|(_, id)| id);
        let swallowed = |not: Who| matches!(life, Life::ById(who) if who != not);
        match life {
            Life::Orderly(who) => ids(who).for_each(|id| id.disconnect(false).expect("closes")),
            Life::Abrupt(who) => ids(who).for_each(|id| id.disconnect(true).expect("resets")),
            Life::ById(who) => ids(who).for_each(|id| id.destroy().expect("destroyed")),
            Life::ByQueuePair(who) => {
                for (not, qp) in [(Who::Server, &client_qp), (Who::Client, &server_qp)] {
                    if who != not {
                        qp.destroy().expect("destroyed");
                    }
                }
            }
            _ => {}
        }
        if accepted {
            for (not, watch) in [(Who::Server, &at_client), (Who::Client, &at_server)] {
                if !swallowed(not) {
                    watch.expect(EventKind::Close);
                }
            }
        }
        for id in [client, server] {
            // destroyed already in some lives
            match id.destroy() {
                Ok(()) | Err(Errno::Invalid) => {}
                Err(e) => panic!("life {n}, {life:?}: {e}"),
            }
        }
        for qp in [client_qp, server_qp] {
            qp.destroy().unwrap_or_else(|e| panic!("life {n}, {life:?}: {e}"));
        }
        take_all();
        for (side, ids) in [(&rig.client, 0), (&rig.server, 1)] {
            let start = Instant::now();
            while side.counter("cmIds") > ids {
                assert!(start.elapsed() < BOUND, "life {n}, {life:?}: {:?}", side.cm.counters());
                std::thread::yield_now();
            }
        }
    }
    listener.destroy().expect("destroyed");
    drop((at_client, at_server, listener));
    rig.assert_empty();
    established
}
