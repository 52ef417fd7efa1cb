// SPDX-License-Identifier: MIT OR Apache-2.0
//! rdma_cm over two simulated adapters, by the driver over their sockets: every call that has something to do on an adapter, and what the
//! other end sees of it. The connection manager below has its own suite (`cm_adapter.rs`).
use ironwarp_rdmacm::{Cm, CmDevice, ConnParam, DeviceKey, Errno, EventChannel, EventKind, Id, Opt, Payload, PrivateData, Stat, State};
use ironwarp_rnic::Offload;
use ironwarp_tests::{address, served::Served};
use ironwarp_verbs::{Cq, Device, Qp, QpCap, QpInitAttr, QpState};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Longest wait for an event; a simulated adapter on a busy machine is slow.
const WAIT: Duration = Duration::from_secs(60);
/// Watched for what must not come.
const SILENCE: Duration = Duration::from_millis(100);

/// One end: a connection manager with one adapter, and the channel of its ids.
struct End {
    cm: Cm,
    key: DeviceKey,
    channel: EventChannel,
    verbs: Arc<dyn Device>,
    cq: Arc<dyn Cq>,
    n: u8,
}

impl End {
    fn new(served: &Served, n: u8) -> Self {
        let adapter = served.adapters[usize::from(n) - 1].clone();
        let verbs: Arc<dyn Device> = adapter.clone();
        let cm = Cm::new();
        let key = cm.add_device(CmDevice::iwarp(verbs.clone(), adapter)).expect("the only one");
        let cq = verbs.create_cq(64).expect("a completion queue");
        End { cm, key, channel: EventChannel::new().expect("a channel"), verbs, cq, n }
    }
    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((address(self.n), port))
    }
    fn id(&self) -> Id {
        self.cm.create_id(&self.channel)
    }
    #[track_caller]
    fn next(&self, kind: EventKind) -> (Id, Payload) {
        let event = self.channel.get_event(WAIT).expect("an event");
        assert_eq!(event.kind(), kind, "{:?}", event.payload());
        event.ack()
    }
    fn silent(&self) {
        assert_eq!(self.channel.get_event(SILENCE).err(), Some(Errno::TimedOut));
    }
    fn listening(&self, port: u16, backlog: u32) -> Id {
        let id = self.id();
        id.bind_addr(self.at(port)).expect("own address");
        id.listen(backlog).expect("listen");
        id
    }
    /// Gives an id its queue pair.
    fn qp(&self, id: &Id) -> Arc<dyn Qp> {
        let init = QpInitAttr { send_cq: self.cq.clone(), recv_cq: self.cq.clone(), cap: QpCap::default(), sq_sig_all: false };
        id.create_qp(&self.verbs.alloc_pd().expect("a domain"), &init).expect("a queue pair")
    }
    /// The way to `to` is known.
    fn resolved(&self, id: Id, to: SocketAddr) -> Id {
        id.resolve_addr(None, to, WAIT).expect("idle");
        self.next(EventKind::AddrResolved);
        assert_eq!(id.get_local_addr().map(|a| a.ip()), Some(address(self.n).into()));
        id.resolve_route(WAIT).expect("resolved");
        self.next(EventKind::RouteResolved);
        id
    }
    fn connecting(&self, to: SocketAddr, private_data: &[u8]) -> Id {
        let id = self.resolved(self.id(), to);
        self.qp(&id);
        id.connect(&param(private_data)).expect("taken");
        id
    }
    #[track_caller]
    fn requested(&self) -> (Id, Payload) {
        self.next(EventKind::ConnectRequest)
    }
    fn accept(&self, private_data: &[u8]) -> Id {
        let (id, request) = self.requested();
        drop(request);
        self.qp(&id);
        id.accept(Some(&param(private_data))).expect("taken");
        self.next(EventKind::Established);
        id
    }
}

fn param(private_data: &[u8]) -> ConnParam {
    ConnParam { responder_resources: 3, initiator_depth: 5, ..ConnParam::default() }.with_private_data(private_data).expect("not too long")
}

fn end(ids: impl IntoIterator<Item = Id>) {
    for id in ids {
        id.destroy_qp().expect("nobody refers to it");
        id.destroy_id().expect("everything is acknowledged");
    }
}

/// Both ends.
struct Pair {
    client: End,
    server: End,
    /// The server's.
    adapter: Arc<Offload>,
}

impl Pair {
    fn adapter(&self) -> Arc<Offload> {
        self.adapter.clone()
    }
    fn connected(&self, listener: &Id) -> (Id, Id) {
        let client = self.client.connecting(listener.get_local_addr().expect("listens"), b"please");
        let server = self.server.accept(b"welcome");
        let (_, payload) = self.client.next(EventKind::Established);
        assert_eq!(payload.private_data().map(|data| &data[..]), Some(&b"welcome"[..]));
        (client, server)
    }
}

fn bind(pair: &Pair) {
    let server = &pair.server;
    let foreign = server.id();
    assert_eq!(foreign.bind_addr(pair.client.at(7000)), Err(Errno::AddressNotAvailable));
    assert_eq!(foreign.state(), State::Idle);
    let id = server.id();
    id.bind_addr(server.at(7000)).expect("own");
    assert_eq!((id.device(), id.get_local_addr()), (Some(server.key), Some(server.at(7000))));
    assert_eq!(server.id().bind_addr(server.at(7000)), Err(Errno::AddressInUse), "another id has it");
}

fn resolve(pair: &Pair) {
    let (client, server) = (&pair.client, &pair.server);
    let id = client.resolved(client.id(), server.at(7000));
    assert_eq!((id.state(), id.device(), id.get_peer_addr()), (State::RouteResolved, Some(client.key), Some(server.at(7000))));
    // an address that the adapter does not have
    let other = client.id();
    other.resolve_addr(Some(server.at(0)), server.at(7000), WAIT).expect("asked");
    assert_eq!(client.next(EventKind::AddrError).1.status(), Err(Errno::AddressNotAvailable));
    assert_eq!((other.state(), other.get_peer_addr()), (State::Idle, None));
}

fn listen(pair: &Pair) {
    let server = &pair.server;
    let chosen = server.listening(0, 4);
    assert_ne!(chosen.get_src_port(), 0, "the adapter chooses");
    // another connection manager of the same adapter: the adapter says no
    let other = Cm::new();
    let transport = CmDevice::iwarp(server.verbs.clone(), pair.adapter());
    other.add_device(transport).expect("the only one");
    let taken = other.create_id(&server.channel);
    taken.bind_addr(server.at(chosen.get_src_port())).expect("own address");
    assert_eq!(taken.listen(4), Err(Errno::AddressInUse));
    assert_eq!((taken.state(), other.stat(Stat::ListenErrs)), (State::AddrBound, 1));
    chosen.destroy_id().expect("destroyed");
    taken.listen(4).expect("the port is free again");
    drop(taken);
    // everywhere, and heard at the one address that there is
    let wild = server.id();
    wild.listen(4).expect("listen");
    let client = pair.client.connecting(server.at(wild.get_src_port()), b"");
    let (child, request) = server.requested();
    drop(request);
    assert_eq!(child.get_local_addr(), Some(server.at(wild.get_src_port())));
    child.reject(&PrivateData::default()).expect("waits");
    pair.client.next(EventKind::Rejected);
    end([client, child, wild]);
}

fn connect(pair: &Pair) {
    let (client, server) = (&pair.client, &pair.server);
    let listener = server.listening(0, 4);
    let to = listener.get_local_addr().expect("listens");
    let active = client.connecting(to, b"please");
    let (passive, request) = server.requested();
    assert_eq!(request.private_data().map(|data| &data[..]), Some(&b"please"[..]));
    match &request {
        // CM-26: what the peer has is what this side may use
        Payload::ConnectRequest { param, .. } => assert_eq!((param.responder_resources, param.initiator_depth), (5, 3)),
        other => panic!("{other:?}"),
    }
    drop(request);
    assert_eq!(passive.accept(None), Err(Errno::Invalid), "iWARP needs parameters");
    let qp = server.qp(&passive);
    passive.accept(Some(&param(b"welcome"))).expect("taken");
    server.next(EventKind::Established);
    let (_, payload) = client.next(EventKind::Established);
    assert_eq!(payload.private_data().map(|data| &data[..]), Some(&b"welcome"[..]));
    for id in [&active, &passive] {
        assert_eq!((id.state(), id.qp().map(|qp| qp.query().state)), (State::Connected, Some(QpState::Rts)));
    }
    assert_eq!((active.get_local_addr(), active.get_peer_addr()), (passive.get_peer_addr(), passive.get_local_addr()), "CM-38");
    assert_ne!(active.get_src_port(), 0);
    // in order, by the one; twice is once
    active.disconnect().expect("closes");
    active.disconnect().expect("closes already");
    for end in [client, server] {
        assert_eq!(end.next(EventKind::Disconnected).1.status(), Ok(()));
        end.silent();
    }
    assert_ne!(qp.query().state, QpState::Rts, "CM-14");
    drop(qp);
    // and by the other
    let (second, child) = pair.connected(&listener);
    child.disconnect().expect("closes");
    for end in [client, server] {
        assert_eq!(end.next(EventKind::Disconnected).1.status(), Ok(()));
    }
    end([active, passive, second, child, listener]);
}

fn reject(pair: &Pair) {
    let listener = pair.server.listening(0, 4);
    let active = pair.client.connecting(listener.get_local_addr().expect("listens"), b"");
    let (passive, request) = pair.server.requested();
    drop(request);
    assert_eq!(active.reject(&PrivateData::default()), Err(Errno::Invalid), "the active side cannot");
    passive.reject(&PrivateData::new(b"not today").expect("short")).expect("waits");
    match pair.client.next(EventKind::Rejected).1 {
        Payload::Rejected { private_data, consumer, status } => {
            assert_eq!((&private_data[..], consumer, status), (&b"not today"[..], true, Errno::ConnectionRefused));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(active.qp().map(|qp| qp.query().state), Some(QpState::Error));
    assert_eq!(passive.accept(Some(&param(b""))), Err(Errno::Invalid), "answered already");
    for end in [&pair.client, &pair.server] {
        end.silent();
    }
    end([active, passive, listener]);
}

fn nobody(pair: &Pair) {
    let refused = pair.client.connecting(pair.server.at(7001), b"");
    match pair.client.next(EventKind::Rejected).1 {
        Payload::Rejected { consumer, status, .. } => assert_eq!((consumer, status), (false, Errno::ConnectionRefused)),
        other => panic!("{other:?}"),
    }
    // an address that nobody has
    let unreachable = pair.client.connecting(SocketAddr::from((address(77), 7001)), b"");
    assert_eq!(pair.client.next(EventKind::ConnectError).1.status(), Err(Errno::HostUnreachable));
    assert_eq!((refused.state(), unreachable.state()), (State::Failed, State::Failed));
    end([refused, unreachable]);
}

fn backlog(pair: &Pair) {
    let listener = pair.server.listening(0, 2);
    let to = listener.get_local_addr().expect("listens");
    let mut asking: Vec<_> = (0..2).map(|_| pair.client.connecting(to, b"")).collect();
    let [first, second] = [(); 2].map(|()| pair.server.requested().0);
    // nobody took it, and no application refused it
    asking.push(pair.client.connecting(to, b"third"));
    let (busy, payload) = pair.client.next(EventKind::Rejected);
    assert!(busy == asking[2] && matches!(payload, Payload::Rejected { consumer: false, .. }), "{payload:?}");
    pair.server.qp(&first);
    first.accept(Some(&param(b""))).expect("taken");
    pair.server.next(EventKind::Established);
    pair.client.next(EventKind::Established);
    // one place is free
    asking.push(pair.client.connecting(to, b"fourth"));
    let (fourth, request) = pair.server.requested();
    assert_eq!(request.private_data().map(|data| &data[..]), Some(&b"fourth"[..]));
    drop(request);
    // those that nobody answers are rejected with their ids
    drop((second, fourth));
    for _ in 0..2 {
        pair.client.next(EventKind::Rejected);
    }
    drop(first);
    assert_eq!(pair.client.next(EventKind::Disconnected).1.status(), Err(Errno::ConnectionReset));
    end(asking);
    end([listener]);
}

fn unread(pair: &Pair) {
    let listener = pair.server.listening(0, 4);
    let to = listener.get_local_addr().expect("listens");
    let asking: Vec<_> = (0..3).map(|_| pair.client.connecting(to, b"")).collect();
    let start = Instant::now();
    while pair.server.cm.counts().waiting < 3 {
        assert!(start.elapsed() < WAIT, "{:?}", pair.server.cm.counts());
        std::thread::sleep(Duration::from_millis(2));
    }
    listener.destroy_id().expect("destroyed");
    for _ in &asking {
        pair.client.next(EventKind::Rejected);
    }
    pair.server.silent();
    drop(listener);
    end(asking);
}

fn abrupt(pair: &Pair) {
    let listener = pair.server.listening(0, 4);
    let (active, passive) = pair.connected(&listener);
    end([active]);
    assert_eq!(pair.server.next(EventKind::Disconnected).1.status(), Err(Errno::ConnectionReset));
    pair.client.silent();
    let (second, child) = pair.connected(&listener);
    second.destroy_qp().expect("ends its connection");
    pair.client.next(EventKind::Disconnected);
    pair.server.next(EventKind::Disconnected);
    end([passive, second, child, listener]);
}

/// Two connections from one own port, to two listeners: `RDMA_OPTION_ID_REUSEADDR`.
fn shared_port(pair: &Pair) {
    let (client, server) = (&pair.client, &pair.server);
    let listeners = [server.listening(0, 4), server.listening(0, 4)];
    let mut ids = Vec::new();
    for listener in &listeners {
        let id = client.id();
        id.set_option(Opt::ReuseAddr(true)).expect("idle");
        id.bind_addr(client.at(7100)).expect("shared");
        let id = client.resolved(id, listener.get_local_addr().expect("listens"));
        client.qp(&id);
        id.connect(&param(b"")).expect("taken");
        let child = server.accept(b"");
        client.next(EventKind::Established);
        assert_eq!((id.get_src_port(), child.get_dst_port()), (7100, 7100));
        ids.extend([id, child]);
    }
    let alone = client.id();
    assert_eq!(alone.bind_addr(client.at(7100)), Err(Errno::AddressInUse));
    ids.iter().step_by(2).for_each(|id| id.disconnect().expect("closes"));
    for _ in 0..2 {
        client.next(EventKind::Disconnected);
        server.next(EventKind::Disconnected);
    }
    end(ids);
    end(listeners);
}

fn many(pair: &Pair) {
    const CONNECTIONS: usize = 12;
    let listener = pair.server.listening(0, 16);
    let to = listener.get_local_addr().expect("listens");
    let mut ids: Vec<_> = (0..CONNECTIONS).map(|n| pair.client.connecting(to, &[n as u8])).collect();
    let mut established = 0;
    while established < CONNECTIONS {
        let (id, payload) = pair.server.channel.get_event(WAIT).expect("an event").ack();
        match payload {
            Payload::ConnectRequest { param: asked, .. } => {
                pair.server.qp(&id);
                id.accept(Some(&param(&asked.private_data))).expect("taken");
                ids.push(id);
            }
            Payload::Established(_) => established += 1,
            other => panic!("{other:?}"),
        }
    }
    for _ in 0..CONNECTIONS {
        let (id, payload) = pair.client.next(EventKind::Established);
        let n = payload.private_data().map(|data| usize::from(data[0]));
        assert_eq!(ids.iter().position(|other| *other == id), n, "its own reply");
    }
    ids[..CONNECTIONS].iter().for_each(|id| id.disconnect().expect("closes"));
    for _ in 0..CONNECTIONS {
        pair.client.next(EventKind::Disconnected);
        pair.server.next(EventKind::Disconnected);
    }
    ids.push(listener);
    end(ids);
}

fn lives(pair: &Pair) {
    let mut rng = ChaCha8Rng::seed_from_u64(ironwarp_tests::seed("rdmacm_adapter", 1));
    let listener = pair.server.listening(0, 4);
    for life in 0..ironwarp_tests::count("RDMACM_LIVES", 24) {
        let active = pair.client.connecting(listener.get_local_addr().expect("listens"), &[life as u8]);
        let (passive, request) = pair.server.requested();
        drop(request);
        let kind = rng.random_range(0..5);
        if kind == 0 {
            passive.reject(&PrivateData::default()).expect("waits");
            pair.client.next(EventKind::Rejected);
        } else {
            pair.server.qp(&passive);
            passive.accept(Some(&param(b""))).expect("taken");
            pair.server.next(EventKind::Established);
            pair.client.next(EventKind::Established);
            match kind {
                1 => active.disconnect().expect("closes"),
                2 => passive.disconnect().expect("closes"),
                3 => active.destroy_qp().expect("ends its connection"),
                _ => passive.destroy_qp().expect("ends its connection"),
            }
            pair.client.next(EventKind::Disconnected);
            pair.server.next(EventKind::Disconnected);
        }
        end([active, passive]);
        let left = (pair.client.cm.counts(), pair.server.cm.counts());
        assert_eq!((left.0.ids, left.1.ids, left.1.waiting), (0, 1, 0), "life {life}");
    }
    end([listener]);
}

/// The device of the server goes away: the last of the cases, since it stays away.
fn device_removed(pair: &Pair) {
    let (client, server) = (&pair.client, &pair.server);
    let listener = server.listening(0, 4);
    let to = listener.get_local_addr().expect("listens");
    let (active, passive) = pair.connected(&listener);
    let asking = client.connecting(to, b"");
    let (asked, request) = server.requested();
    drop(request);
    assert_eq!(server.cm.remove_device(server.key), Ok(3));
    for _ in 0..3 {
        server.next(EventKind::DeviceRemoval);
    }
    server.silent();
    // the peers hear of it by what is on the wire
    let mut heard =
        [client.channel.get_event(WAIT).expect("an event"), client.channel.get_event(WAIT).expect("an event")].map(|e| e.kind().name());
    heard.sort_unstable();
    let mut expected = [EventKind::Disconnected, EventKind::Rejected].map(EventKind::name);
    expected.sort_unstable();
    assert_eq!(heard, expected);
    let late = client.connecting(to, b"");
    assert!(matches!(client.next(EventKind::Rejected).1, Payload::Rejected { status: Errno::ConnectionRefused, .. }), "nobody listens");
    let new = server.id();
    assert_eq!(new.bind_addr(server.at(1)), Err(Errno::NoDevice));
    end([active, asking, late, passive, asked, listener]);
}

/// A case: its name, and what it does.
type Case = (&'static str, fn(&Pair));

const CASES: &[Case] = &[
    ("bind_addr knows own addresses", bind),
    ("resolve_addr finds the adapter", resolve),
    ("listen is the adapter's to grant", listen),
    ("connect, accept, disconnect", connect),
    ("reject with private data", reject),
    ("refused where nobody listens, and unreachable", nobody),
    ("a full backlog is busy", backlog),
    ("requests that nobody read are rejected", unread),
    ("an end without warning is a reset", abrupt),
    ("two ids share their port", shared_port),
    ("many at once", many),
    ("lives of all kinds", lives),
    ("the device goes away", device_removed),
];

/// ONLY runs the cases with that in their name.
///
/// Covers: CM-7, CM-14, CM-15, CM-18, CM-19, CM-26, CM-35, CM-38
#[test]
fn rdma_cm_on_the_adapter() {
    let served = Served::start();
    let only = std::env::var("ONLY").ok();
    for (name, case) in CASES {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        println!("{name}");
        let pair = Pair { client: End::new(&served, 1), server: End::new(&served, 2), adapter: served.adapters[1].clone() };
        case(&pair);
        for end in [&pair.client, &pair.server] {
            end.silent();
            assert_eq!(end.cm.counts(), Default::default(), "{name}");
            assert_eq!(end.cm.stat(Stat::EventsUnexpected), 0, "{name}");
        }
        drop(pair);
        served.assert_empty(name);
    }
    served.stop();
}
