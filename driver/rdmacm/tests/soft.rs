// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole way on the host-integrated provider, over the host's loopback.
use ironwarp_rdmacm::{Cm, CmDevice, ConnParam, Endpoint, Errno, EventChannel, EventKind, Id, Opt, Payload, PrivateData, State};
use ironwarp_soft::{Soft, SoftConfig};
use ironwarp_verbs::*;
use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::{Duration, Instant},
};

const WAIT: Duration = Duration::from_secs(10);

fn cm() -> Cm {
    let (cm, soft) = (Cm::new(), Soft::new(SoftConfig::default()));
    cm.add_device(CmDevice::iwarp(soft.clone(), soft)).unwrap();
    cm
}

/// One of everything for an id that has a device.
struct Side {
    cq: Arc<dyn Cq>,
    qp: Arc<dyn Qp>,
    mr: Arc<dyn Mr>,
}

impl Side {
    fn new(id: &Id) -> Self {
        let verbs = id.verbs().expect("a device");
        let (pd, cq) = (verbs.alloc_pd().unwrap(), verbs.create_cq(16).unwrap());
        let init = QpInitAttr { send_cq: cq.clone(), recv_cq: cq.clone(), cap: QpCap::default(), sq_sig_all: true };
        let qp = id.create_qp(&pd, &init).unwrap();
        let mr = pd.alloc_mr(4096, Access::LOCAL_WRITE).unwrap();
        qp.post_recv(&[RecvWr { wr_id: 1, sg_list: vec![mr.sge(2048, 2048)] }]).unwrap();
        Side { cq, qp, mr }
    }
    fn send(&self, octets: &[u8]) {
        self.mr.write(0, octets).unwrap();
        let wr =
            SendWr { wr_id: 2, op: SendOp::Send, sg_list: vec![self.mr.sge(0, octets.len())], inline: None, flags: SendFlags::SIGNALED };
        self.qp.post_send(&[wr]).unwrap();
    }
    fn received(&self) -> Vec<u8> {
        let (end, mut done) = (Instant::now() + WAIT, Vec::new());
        while Instant::now() < end {
            self.cq.poll(1, &mut done).unwrap();
            match done.pop() {
                Some(wc) if wc.opcode == WcOpcode::Recv => {
                    assert_eq!(wc.status, WcStatus::Success);
                    let mut octets = vec![0; wc.byte_len as usize];
                    self.mr.read(2048, &mut octets).unwrap();
                    return octets;
                }
                Some(wc) => assert_eq!(wc.status, WcStatus::Success),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("nothing came");
    }
}

fn next(channel: &EventChannel, kind: EventKind) -> (Id, Payload) {
    let event = channel.get_event(WAIT).expect("an event");
    assert_eq!(event.kind(), kind);
    event.ack()
}

fn resolved(cm: &Cm, channel: &EventChannel, to: SocketAddr) -> Id {
    let id = cm.create_id(channel);
    id.resolve_addr(None, to, WAIT).unwrap();
    next(channel, EventKind::AddrResolved);
    id.resolve_route(WAIT).unwrap();
    next(channel, EventKind::RouteResolved);
    id
}

fn listening(cm: &Cm, channel: &EventChannel) -> (Id, SocketAddr) {
    let listener = cm.create_id(channel);
    listener.bind_addr("127.0.0.1:0".parse().unwrap()).unwrap();
    listener.listen(8).unwrap();
    let at = listener.get_local_addr().unwrap();
    assert_ne!(at.port(), 0);
    (listener, at)
}

#[test]
fn connect_accept_send_both_ways_disconnect() {
    let cm = cm();
    let (passive, active) = (EventChannel::new().unwrap(), EventChannel::new().unwrap());
    let (listener, at) = listening(&cm, &passive);
    let client = resolved(&cm, &active, at);
    let a = Side::new(&client);
    client.connect(&ConnParam::default().with_private_data(b"who is there").unwrap()).unwrap();
    let (server, payload) = next(&passive, EventKind::ConnectRequest);
    assert_eq!(&payload.private_data().unwrap()[..], b"who is there");
    drop(payload);
    let b = Side::new(&server);
    server.accept(Some(&ConnParam::default().with_private_data(b"me").unwrap())).unwrap();
    let (_, payload) = next(&active, EventKind::Established);
    assert_eq!(&payload.private_data().unwrap()[..], b"me");
    next(&passive, EventKind::Established);
    assert_eq!(client.get_local_addr(), server.get_peer_addr(), "the real ends");
    a.send(b"ping");
    assert_eq!(b.received(), b"ping");
    b.send(b"pong");
    assert_eq!(a.received(), b"pong");
    client.disconnect().unwrap();
    next(&active, EventKind::Disconnected);
    next(&passive, EventKind::Disconnected);
    client.disconnect().unwrap();
    for id in [&client, &server] {
        id.destroy_qp().unwrap();
        id.destroy_id().unwrap();
    }
    listener.destroy_id().unwrap();
    drop((client, server, listener));
    assert_eq!(cm.counts(), Default::default());
}

#[test]
fn rejected_with_private_data() {
    let cm = cm();
    let (passive, active) = (EventChannel::new().unwrap(), EventChannel::new().unwrap());
    let (_listener, at) = listening(&cm, &passive);
    let client = resolved(&cm, &active, at);
    let a = Side::new(&client);
    client.connect(&ConnParam::default()).unwrap();
    let (server, payload) = next(&passive, EventKind::ConnectRequest);
    drop(payload);
    server.reject(&PrivateData::new(b"not today").unwrap()).unwrap();
    match next(&active, EventKind::Rejected).1 {
        Payload::Rejected { private_data, consumer, status } => {
            assert_eq!((&private_data[..], consumer, status), (&b"not today"[..], true, Errno::ConnectionRefused));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(a.qp.query().state, QpState::Error);
    drop((client, server));
}

#[test]
fn refused_where_nobody_listens_and_given_up_where_nobody_answers() {
    let cm = cm();
    let channel = EventChannel::new().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = resolved(&cm, &channel, closed);
    let _a = Side::new(&client);
    client.connect(&ConnParam::default()).unwrap();
    assert_eq!(next(&channel, EventKind::Rejected).1.status(), Err(Errno::ConnectionRefused));
    let client = resolved(&cm, &channel, silent.local_addr().unwrap());
    let _a = Side::new(&client);
    client.set_option(Opt::ConnectTimeout(Duration::from_millis(200))).unwrap();
    client.connect(&ConnParam::default()).unwrap();
    assert_eq!(next(&channel, EventKind::Unreachable).1.status(), Err(Errno::TimedOut));
    assert_eq!(client.state(), State::Failed);
}

/// From one own port to two peers.
#[test]
fn ids_that_share_their_port_connect_from_it() {
    let cm = cm();
    let (passive, active) = (EventChannel::new().unwrap(), EventChannel::new().unwrap());
    let listeners = [listening(&cm, &passive), listening(&cm, &passive)];
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut kept = Vec::new();
    for (_, at) in &listeners {
        let client = cm.create_id(&active);
        client.set_option(Opt::ReuseAddr(true)).unwrap();
        client.bind_addr(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        client.resolve_addr(None, *at, WAIT).unwrap();
        next(&active, EventKind::AddrResolved);
        client.resolve_route(WAIT).unwrap();
        next(&active, EventKind::RouteResolved);
        let a = Side::new(&client);
        client.connect(&ConnParam::default()).unwrap();
        let (server, payload) = next(&passive, EventKind::ConnectRequest);
        drop(payload);
        let b = Side::new(&server);
        server.accept(Some(&ConnParam::default())).unwrap();
        next(&active, EventKind::Established);
        next(&passive, EventKind::Established);
        assert_eq!((client.get_src_port(), server.get_dst_port()), (port, port));
        a.send(b"from the one port");
        assert_eq!(b.received(), b"from the one port");
        kept.push((client, server, a, b));
    }
    let alone = cm.create_id(&active);
    assert_eq!(alone.bind_addr(SocketAddr::from(([127, 0, 0, 1], port))), Err(Errno::AddressInUse));
}

/// The device goes while an id listens, one waits, and two are connected: each is told once, and the peers see the end.
#[test]
fn the_device_goes_away() {
    let (cm, soft) = (Cm::new(), Soft::new(SoftConfig::default()));
    let key = cm.add_device(CmDevice::iwarp(soft.clone(), soft.clone())).unwrap();
    let (passive, active) = (EventChannel::new().unwrap(), EventChannel::new().unwrap());
    let (listener, at) = listening(&cm, &passive);
    let client = resolved(&cm, &active, at);
    let _a = Side::new(&client);
    client.connect(&ConnParam::default()).unwrap();
    let (server, payload) = next(&passive, EventKind::ConnectRequest);
    drop(payload);
    let _b = Side::new(&server);
    server.accept(Some(&ConnParam::default())).unwrap();
    next(&active, EventKind::Established);
    next(&passive, EventKind::Established);
    let waiting = resolved(&cm, &active, at);
    let _c = Side::new(&waiting);
    waiting.connect(&ConnParam::default()).unwrap();
    let (asked, payload) = next(&passive, EventKind::ConnectRequest);
    drop(payload);
    assert_eq!(cm.remove_device(key), Ok(5));
    for (channel, ids) in [(&passive, [&listener, &server, &asked].as_slice()), (&active, &[&client, &waiting])] {
        let mut told: Vec<_> = ids.iter().map(|_| next(channel, EventKind::DeviceRemoval).0.number()).collect();
        told.sort_unstable();
        let mut all: Vec<_> = ids.iter().map(|id| id.number()).collect();
        all.sort_unstable();
        assert_eq!(told, all, "each once");
        assert_eq!(channel.get_event(Duration::from_millis(100)).err(), Some(Errno::TimedOut), "nothing after it");
    }
    assert_eq!(client.connect(&ConnParam::default()), Err(Errno::Invalid));
    for id in [&client, &server, &waiting, &asked, &listener] {
        id.destroy_qp().unwrap();
        id.destroy_id().unwrap();
    }
    drop((client, server, waiting, asked, listener));
    assert_eq!(cm.counts(), Default::default());
    let live = |name: &str| soft.stats().into_iter().find(|(n, _)| *n == name).expect("counter").1;
    let end = Instant::now() + WAIT;
    while ["listensLive", "halfOpenLive", "pendingLive", "connectionsLive"].iter().any(|name| live(name) != 0) {
        assert!(Instant::now() < end, "{:?}", soft.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A peer that finds the backlog full is told at once, by a reject that no application made. Who of rdma_cm and the device sees it first does
/// not matter: this device counts the requests that wait, too.
#[test]
fn busy() {
    let cm = cm();
    let (passive, active) = (EventChannel::new().unwrap(), EventChannel::new().unwrap());
    let listener = cm.create_id(&passive);
    listener.bind_addr("127.0.0.1:0".parse().unwrap()).unwrap();
    listener.listen(1).unwrap();
    let at = listener.get_local_addr().unwrap();
    let first = resolved(&cm, &active, at);
    let _a = Side::new(&first);
    first.connect(&ConnParam::default()).unwrap();
    let (waiting, payload) = next(&passive, EventKind::ConnectRequest);
    drop(payload);
    let second = resolved(&cm, &active, at);
    let _b = Side::new(&second);
    second.connect(&ConnParam::default()).unwrap();
    let (id, payload) = next(&active, EventKind::Rejected);
    assert!(id == second);
    assert!(matches!(payload, Payload::Rejected { consumer: false, .. }), "{payload:?}");
    waiting.reject(&PrivateData::default()).unwrap();
    next(&active, EventKind::Rejected);
}

/// RDMACM_LIVES sets the number.
#[test]
fn lives_of_all_kinds_leave_nothing() {
    let lives: usize = std::env::var("RDMACM_LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(120);
    let cm = cm();
    let listener = Endpoint::listen(&cm, "127.0.0.1:0".parse().unwrap(), 8, WAIT).unwrap();
    let at = listener.id().get_local_addr().unwrap();
    for life in 0..lives {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let client = Endpoint::resolve(&cm, None, at, WAIT).unwrap();
                let _side = Side::new(client.id());
                let connected = client.connect(&ConnParam::default());
                assert_eq!(connected.is_ok(), life % 4 != 0, "{connected:?}");
                if life % 4 == 1 {
                    client.disconnect().unwrap();
                } else if life % 4 == 2 {
                    client.wait_disconnected().unwrap();
                }
                client.id().destroy_qp().unwrap();
            });
            let (server, _) = listener.get_request().unwrap();
            if life % 4 == 0 {
                server.reject(&PrivateData::default()).unwrap();
            } else {
                let _side = Side::new(server.id());
                server.accept(&ConnParam::default()).unwrap();
                if life % 4 == 2 {
                    server.disconnect().unwrap();
                } else {
                    // in order or reset: gone
                    let _ = server.wait_disconnected();
                }
                server.id().destroy_qp().unwrap();
            }
            client.join().unwrap();
        });
        let left = cm.counts();
        assert_eq!((left.ids, left.transport_ids, left.waiting), (1, 1, 0), "life {life}");
    }
    drop(listener);
    assert_eq!(cm.counts(), Default::default());
}
