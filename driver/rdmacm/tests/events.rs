// SPDX-License-Identifier: MIT OR Apache-2.0
//! iWARP: each event and status of the provider, and what rdma_cm makes of it.
mod common;

use common::{
    provider::{Step, TestProvider},
    verbs::FakeDevice,
    WAIT,
};
use ironwarp_iwcm::{Depths, EventKind as Iw, IwCm};
use ironwarp_rdmacm::{
    Cm, CmDevice, ConnParam, ConnectFailure, Endpoint, Errno, EventChannel, EventKind, Id, IwTransport, MpaOptions, Opt, Payload,
    PrivateData, Received, Stat, State, MAX_DEPTH,
};
use std::{sync::Arc, time::Duration};

struct Rig {
    cm: Cm,
    channel: EventChannel,
    provider: Arc<TestProvider>,
}

impl Rig {
    fn new() -> Self {
        let (cm, provider) = (Cm::new(), TestProvider::new(1));
        let iwcm = IwCm::new();
        // what a test leaves open its provider does not close
        iwcm.set_bound(Duration::from_millis(200));
        let transport = Arc::new(IwTransport::with(iwcm, provider.clone()));
        cm.add_device(CmDevice { transport, ..CmDevice::iwarp(FakeDevice::new(), TestProvider::new(2)) }).unwrap();
        Rig { cm, provider, channel: EventChannel::new().unwrap() }
    }
    fn resolved(&self) -> Id {
        let id = self.cm.create_id(&self.channel);
        id.resolve_addr(None, common::peer(7), WAIT).unwrap();
        self.next(EventKind::AddrResolved);
        id.resolve_route(WAIT).unwrap();
        self.next(EventKind::RouteResolved);
        id
    }
    fn connecting(&self) -> Id {
        let id = self.resolved();
        id.connect(&common::param()).unwrap();
        id
    }
    fn listening(&self) -> Id {
        let id = self.cm.create_id(&self.channel);
        id.bind_addr(common::own(7)).unwrap();
        id.listen(4).unwrap();
        id
    }
    fn request(&self, octets: &[u8]) -> (Id, Received) {
        self.provider.request(octets, Depths { own_ird: 32, own_ord: 16, peer_ird: 7, peer_ord: 9 }).unwrap();
        let (id, payload) = self.channel.get_event(WAIT).unwrap().ack();
        match payload {
            Payload::ConnectRequest { param, .. } => (id, param),
            other => panic!("{other:?}"),
        }
    }
    #[track_caller]
    fn next(&self, kind: EventKind) -> Payload {
        let (_, payload) = self.channel.get_event(WAIT).expect("an event").ack();
        assert_eq!(payload.kind(), kind);
        payload
    }
    fn none(&self) {
        assert_eq!(self.channel.get_event(Duration::from_millis(30)).err(), Some(Errno::TimedOut));
    }
}

/// Covers: CM-15
#[test]
fn each_status_of_a_reply_is_shown_as_its_own_event() {
    let rig = Rig::new();
    for (status, kind) in [
        (Errno::ConnectionRefused, EventKind::Rejected),
        (Errno::ConnectionReset, EventKind::Rejected),
        (Errno::TimedOut, EventKind::Unreachable),
        (Errno::HostUnreachable, EventKind::ConnectError),
        (Errno::Protocol, EventKind::ConnectError),
        (Errno::NoMemory, EventKind::ConnectError),
        (Errno::AddressInUse, EventKind::ConnectError),
        (Errno::Invalid, EventKind::ConnectError),
    ] {
        let id = rig.connecting();
        rig.provider.raise_last(Iw::ConnectReply, Err(status), b"");
        let payload = rig.next(kind);
        assert_eq!(payload.status(), Err(status));
        assert_eq!(id.state(), State::Failed);
        id.disconnect().unwrap();
        id.destroy_id().unwrap();
    }
    assert_eq!(rig.cm.counts(), Default::default());
}

#[test]
fn a_reply_without_error_is_established_with_the_real_ends() {
    let rig = Rig::new();
    let id = rig.connecting();
    rig.provider.raise_last(Iw::ConnectReply, Ok(()), b"welcome");
    match rig.next(EventKind::Established) {
        Payload::Established(received) => assert_eq!(&received.private_data[..], b"welcome"),
        other => panic!("{other:?}"),
    }
    assert_eq!(id.get_src_port(), 41000);
    assert_eq!(id.get_peer_addr(), Some(common::peer(7)));
    assert_eq!(id.establish(), Err(Errno::Invalid), "no third message on iWARP");
    // the peer's FIN is not shown
    rig.provider.raise_last(Iw::Disconnect, Ok(()), b"");
    rig.none();
    rig.provider.raise_last(Iw::Close, Err(Errno::ConnectionReset), b"");
    assert_eq!(rig.next(EventKind::Disconnected).status(), Err(Errno::ConnectionReset));
    id.disconnect().unwrap();
    id.destroy_id().unwrap();
}

#[test]
fn what_the_peers_application_gave_to_reject_arrives() {
    let rig = Rig::new();
    for (octets, by_application) in [(&b"full"[..], true), (&b""[..], false)] {
        let id = rig.connecting();
        rig.provider.raise_last(Iw::ConnectReply, Err(Errno::ConnectionRefused), octets);
        match rig.next(EventKind::Rejected) {
            Payload::Rejected { private_data, consumer, .. } => {
                assert_eq!(&private_data[..], octets);
                assert_eq!(consumer, by_application);
            }
            other => panic!("{other:?}"),
        }
        drop(id);
    }
}

/// Covers: CM-26
#[test]
fn depths_are_told_as_rdma_cm_uses_them() {
    let rig = Rig::new();
    let _listener = rig.listening();
    let (id, param) = rig.request(b"");
    assert_eq!((param.initiator_depth, param.responder_resources), (7, 9), "the peer's IRD and ORD");
    // what accept gives below: own ORD = initiator depth, own IRD = responder resources
    let answer = ConnParam { initiator_depth: 5, responder_resources: 6, ..common::param() };
    id.accept(Some(&answer)).unwrap();
    let given = rig.provider.last_param();
    assert_eq!((given.ord, given.ird), (5, 6));
    rig.provider.raise_last_with(Iw::Established, Ok(()), Depths { own_ird: 3, own_ord: 300, peer_ird: 1, peer_ord: 2 });
    match rig.next(EventKind::Established) {
        Payload::Established(got) => {
            assert_eq!((got.initiator_depth, got.responder_resources), (255, 3), "own ORD, saturated, and own IRD")
        }
        other => panic!("{other:?}"),
    }
    let id = rig.resolved();
    id.connect(&ConnParam { initiator_depth: MAX_DEPTH, responder_resources: MAX_DEPTH, ..common::param() }).unwrap();
    let given = rig.provider.last_param();
    assert_eq!((given.ord, given.ird), (16, 32), "the device's most");
    let id = rig.resolved();
    let too_deep = ConnParam { initiator_depth: 17, ..common::param() };
    assert_eq!(id.connect(&too_deep), Err(Errno::Invalid));
    assert_eq!(id.state(), State::RouteResolved);
}

/// Covers: CM-5
#[test]
fn an_accept_that_fails_leaves_the_queue_pair_in_error_and_tells_nothing() {
    let rig = Rig::new();
    let _listener = rig.listening();
    let (id, _) = rig.request(b"");
    let verbs = id.verbs().unwrap();
    let cq = verbs.create_cq(1).unwrap();
    let init = ironwarp_verbs::QpInitAttr { send_cq: cq.clone(), recv_cq: cq, cap: Default::default(), sq_sig_all: false };
    let qp = id.create_qp(&verbs.alloc_pd().unwrap(), &init).unwrap();
    rig.provider.fail(Step::Accept, Errno::ConnectionReset);
    assert_eq!(id.accept(Some(&ConnParam::default())), Err(Errno::ConnectionReset));
    assert_eq!(qp.query().state, ironwarp_verbs::QpState::Error);
    assert_eq!(id.state(), State::Failed);
    assert_eq!(rig.provider.rejects(), 0, "the provider has reset the stream itself; it is not asked once more");
    rig.none();
    assert_eq!(id.reject(&PrivateData::default()), Err(Errno::Invalid));
    id.disconnect().unwrap();
    id.destroy_id().unwrap();
}

#[test]
fn accept_needs_parameters_and_the_request_waits_on() {
    let rig = Rig::new();
    let _listener = rig.listening();
    let (id, param) = rig.request(b"let me in");
    assert_eq!(&param.private_data[..], b"let me in");
    assert_eq!(id.accept(None), Err(Errno::Invalid));
    assert_eq!(id.accept(Some(&ConnParam::default())), Err(Errno::Invalid), "no queue pair");
    assert_eq!(id.state(), State::Request);
    id.accept(Some(&common::param())).unwrap();
    rig.provider.raise_last(Iw::Established, Err(Errno::Protocol), b"");
    rig.next(EventKind::Established);
}

#[test]
fn the_active_side_cannot_reject() {
    let rig = Rig::new();
    let id = rig.connecting();
    assert_eq!(id.reject(&PrivateData::default()), Err(Errno::Invalid));
    rig.provider.raise_last(Iw::ConnectReply, Ok(()), b"");
    rig.next(EventKind::Established);
    assert_eq!(id.reject(&PrivateData::default()), Err(Errno::Invalid));
}

#[test]
fn options_reach_the_provider() {
    let rig = Rig::new();
    let id = rig.resolved();
    let mpa = MpaOptions { markers: true, ..Default::default() };
    id.set_option(Opt::Tos(0x28)).unwrap();
    id.set_option(Opt::ConnectTimeout(Duration::from_secs(3))).unwrap();
    id.set_option(Opt::Mpa(mpa)).unwrap();
    id.connect(&common::param()).unwrap();
    let given = rig.provider.last_param();
    assert_eq!((given.mpa, given.timeout), (Some(mpa), Some(Duration::from_secs(3))));
    assert_eq!(rig.provider.last_tos(), Some(0x28));
    assert_eq!(id.set_option(Opt::Tos(0)), Err(Errno::Invalid), "too late");
    rig.provider.raise_last(Iw::ConnectReply, Err(Errno::TimedOut), b"");
    rig.next(EventKind::Unreachable);
}

/// Covers: CM-18
#[test]
fn an_id_that_is_destroyed_with_a_live_connection_hears_nothing_more() {
    let rig = Rig::new();
    let id = rig.connecting();
    rig.provider.raise_last(Iw::ConnectReply, Ok(()), b"");
    rig.next(EventKind::Established);
    rig.provider.close_on_error();
    id.destroy_id().unwrap();
    rig.none();
    drop(id);
    assert_eq!(rig.cm.counts(), Default::default());
}

/// What the connection manager below still tells of ids whose device is gone is told to nobody.
///
/// Covers: CM-35
#[test]
fn device_removal_is_the_last_that_every_id_of_an_iwarp_device_hears() {
    let rig = Rig::new();
    let listener = rig.listening();
    let (asked, _) = rig.request(b"");
    let connected = rig.connecting();
    rig.provider.raise_last(Iw::ConnectReply, Ok(()), b"");
    rig.next(EventKind::Established);
    let connecting = rig.connecting();
    let idle = rig.cm.create_id(&rig.channel);
    let key = rig.cm.devices()[0].1;
    assert_eq!(rig.cm.remove_device(key), Ok(4));
    let ids = [&listener, &asked, &connected, &connecting];
    let mut told: Vec<_> = ids
        .iter()
        .map(|_| {
            let (id, payload) = rig.channel.get_event(WAIT).expect("an event").ack();
            assert_eq!(payload.kind(), EventKind::DeviceRemoval);
            id.number()
        })
        .collect();
    told.sort_unstable();
    let mut numbers = ids.map(Id::number);
    numbers.sort_unstable();
    assert_eq!(told, numbers, "each once");
    rig.none();
    assert_eq!(idle.state(), State::Idle, "it had no device");
    assert_eq!(idle.resolve_addr(None, common::peer(7), WAIT), Ok(()));
    assert_eq!(rig.next(EventKind::AddrError).status(), Err(Errno::NoDevice));
    for id in ids {
        assert_eq!(id.state(), State::DeviceRemoval);
        assert_eq!((id.listen(1), id.connect(&common::param()), id.disconnect()), (Err(Errno::Invalid), Err(Errno::Invalid), Ok(())));
        id.destroy_id().unwrap();
    }
    assert_eq!(rig.cm.stat(Stat::EventsUnexpected), 0);
    drop((listener, asked, connected, connecting, idle));
    assert_eq!(rig.cm.counts(), Default::default());
}

#[test]
fn endpoints_wait_for_their_events() {
    let rig = Rig::new();
    let listener = Endpoint::listen(&rig.cm, common::own(7), 4, WAIT).unwrap();
    rig.provider.request(b"hi", Depths::default()).unwrap();
    let (served, param) = listener.get_request().unwrap();
    assert_eq!(&param.private_data[..], b"hi");
    rig.provider.answer_at_once(true);
    served.accept(&common::param()).unwrap();
    let client = Endpoint::resolve(&rig.cm, None, common::peer(7), WAIT).unwrap();
    client.connect(&common::param()).unwrap();
    rig.provider.close_on_error();
    client.disconnect().unwrap();
    let refused = Endpoint::resolve(&rig.cm, None, common::peer(8), WAIT).unwrap();
    rig.provider.answer_at_once(false);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| refused.connect(&common::param()));
        rig.provider.wait_connects(2);
        rig.provider.raise_last(Iw::ConnectReply, Err(Errno::ConnectionRefused), b"no");
        let failure = call.join().unwrap().unwrap_err();
        assert_eq!(failure, ConnectFailure { errno: Errno::ConnectionRefused, private_data: PrivateData::new(b"no").unwrap() });
    });
    drop((listener, served, client, refused));
    assert_eq!(rig.cm.counts(), Default::default());
}
