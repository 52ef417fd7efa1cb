// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start-up against a peer of plain octets: cut anywhere, malformed, late, refused; and how connections end.
mod common;
use common::{config, frame, pair, Raw, Side, BOUND};
use ironwarp_iwcm::{ConnParam, EventKind, MpaOptions, PrivateData};
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;
use ironwarp_wire::{ddp, mpa::Kind};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

const FRAME: [u8; 10] = [0x50, 2, 0, 6, 0, 4, 0, 4, b'h', b'i'];

fn raw(to: std::net::SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("connect");
    stream.set_read_timeout(Some(BOUND)).expect("option");
    stream.set_nodelay(true).expect("option");
    stream
}

fn hello() -> Vec<u8> {
    let header = ddp::Header::Untagged { last: true, rdmap: 0x43, stag: 0, qn: 0, msn: 1, mo: 0 };
    let mut ulpdu = vec![0; 18];
    header.emit(&mut ulpdu).expect("room");
    ulpdu.extend(b"hello");
    Raw::fpdu(&ulpdu, true)
}

/// Covers: MPA-2, MPA-10, MPA-31, MPA-32
#[test]
fn a_request_cut_anywhere() {
    let mut b = Side::new(config());
    let listener = b.listen(40);
    let request = frame(Kind::Request, &FRAME);
    for cut in 1..request.len() {
        let mut stream = raw(listener.local_addr());
        stream.write_all(&request[..cut]).expect("write");
        std::thread::sleep(Duration::from_millis(3));
        stream.write_all(&request[cut..]).expect("write");
        let (child, event) = b.event(EventKind::ConnectRequest);
        assert_eq!(&*event.private_data, b"hi");
        child.reject(&PrivateData::default()).expect("reject");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("Reply and FIN");
        assert_eq!(reply[16] & 0x20, 0x20);
        child.destroy().expect("destroy");
    }
    // octet by octet, and the first FPDU too
    let mut stream = raw(listener.local_addr());
    for octet in &request {
        stream.write_all(&[*octet]).expect("write");
    }
    b.recv(1, 0, 10);
    b.accept(&b.param(4));
    let mut reply = [0; 24];
    stream.read_exact(&mut reply).expect("Reply");
    for octet in hello() {
        stream.write_all(&[octet]).expect("write");
    }
    b.received(1, 5);
}

/// Covers: CM-3, MPA-10
#[test]
fn a_reply_cut_anywhere_and_with_an_fpdu_behind_it() {
    let all = [frame(Kind::Reply, &FRAME), hello()].concat();
    for cut in 1..all.len() {
        let mut a = Side::new(config());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        a.recv(1, 0, 10);
        a.connect(listener.local_addr().expect("address"), &a.param(4));
        let (mut stream, _) = listener.accept().expect("accept");
        stream.set_nodelay(true).expect("option");
        stream.read_exact(&mut [0; 24]).expect("Request");
        stream.write_all(&all[..cut]).expect("write");
        std::thread::sleep(Duration::from_millis(2));
        stream.write_all(&all[cut..]).expect("write");
        let (_, event) = a.event(EventKind::ConnectReply);
        assert_eq!((event.status, &*event.private_data), (Ok(()), &b"hi"[..]));
        a.received(1, 5);
        assert!(a.told.try_recv().is_err(), "one reply");
    }
}

/// Covers: MPA-3, MPA-9, MPA-17, MPA-18, ENH-18, MPA-7
#[test]
fn malformed_requests_are_no_requests() {
    let b = Side::new(config());
    let listener = b.listen(4);
    let bad: Vec<Vec<u8>> = vec![
        frame(Kind::Reply, &FRAME),
        frame(Kind::Request, &[0x40, 0, 0, 0]),
        frame(Kind::Request, &[0x40, 3, 0, 0]),
        frame(Kind::Request, &[0x40, 1, 2, 1]),
        frame(Kind::Request, &[0x40, 1, 0xff, 0xff]),
        frame(Kind::Request, &[0x50, 2, 0, 3, 0, 0, 0]),
        b"GET / HTTP/1.1\r\n\r\n....................".to_vec(),
        [frame(Kind::Request, &FRAME), vec![0]].concat(),
    ];
    for request in bad {
        let mut stream = raw(listener.local_addr());
        stream.write_all(&request).expect("write");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "no Reply to {request:02x?}");
    }
    assert!(b.told.try_recv().is_err(), "no event");
    assert_eq!(b.stat("mpaMalformed") + b.stat("mpaEarlyOctets"), 8);
    assert_eq!(b.stat("halfOpenLive"), 0);
}

/// Covers: CM-15, CM-41, ENH-2, ENH-4, ENH-13, ENH-19
#[test]
fn each_reply_has_its_status() {
    let plain = MpaOptions { retry: false, ..MpaOptions::default() };
    let p2p = MpaOptions { peer_to_peer: true, ..plain };
    for (name, mpa, reply, status, terminate) in [
        ("wrong key", plain, frame(Kind::Request, &FRAME), Errno::Protocol, None),
        ("revision", plain, frame(Kind::Reply, &[0x50, 3, 0, 4, 0, 4, 0, 4]), Errno::Protocol, None),
        ("not enhanced", plain, frame(Kind::Reply, &[0x40, 2, 0, 0]), Errno::Protocol, None),
        ("revision 1", plain, frame(Kind::Reply, &[0x40, 1, 0, 0]), Errno::Protocol, None),
        ("IRD", plain, frame(Kind::Reply, &[0x50, 2, 0, 4, 0, 4, 0, 200]), Errno::NoMemory, Some(6)),
        ("RTR", p2p, frame(Kind::Reply, &[0x50, 2, 0, 4, 0x80, 4, 0, 4]), Errno::Protocol, Some(7)),
        ("RTR by Send", p2p, frame(Kind::Reply, &[0x50, 2, 0, 4, 0xc0, 4, 0, 4]), Errno::Protocol, Some(7)),
        ("refused", plain, frame(Kind::Reply, &[0x70, 2, 0, 4, 0, 4, 0, 4]), Errno::ConnectionRefused, None),
        ("closed", plain, vec![], Errno::ConnectionReset, None),
    ] {
        let mut a = Side::new(config());
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        a.connect(listener.local_addr().expect("address"), &ConnParam { mpa: Some(mpa), ..a.param(4) });
        let (stream, _) = listener.accept().expect("accept");
        let mut raw = Raw { stream, crc: true };
        raw.start_up();
        raw.write(&reply);
        if reply.is_empty() {
            drop(raw);
        } else if let Some(code) = terminate {
            assert_eq!(raw.ulpdu().expect("Terminate")[18..], [0x20, code, 0, 0], "{name}");
        } else {
            raw.gone();
        }
        let (_, event) = a.event(EventKind::ConnectReply);
        assert_eq!(event.status, Err(status), "{name}");
        assert_eq!(a.qp.query().state, QpState::Init, "{name}: it may connect again");
        assert!(a.told.try_recv().is_err(), "{name}: nothing follows");
    }
    // nobody there
    let mut a = Side::new(config());
    let closed = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address");
    a.connect(closed, &a.param(4));
    assert_eq!(a.event(EventKind::ConnectReply).1.status, Err(Errno::ConnectionRefused));
    // once more in revision 1, and only once
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let id = a.id();
    id.set_remote(listener.local_addr().expect("address")).expect("remote");
    id.connect(&a.param(4)).expect("connect");
    for revision in [2, 1] {
        let (stream, _) = listener.accept().expect("accept");
        let mut raw = Raw { stream, crc: true };
        assert_eq!(raw.start_up()[17], revision);
    }
    assert_eq!(a.event(EventKind::ConnectReply).1.status, Err(Errno::ConnectionReset));
    assert_eq!(a.stat("mpaRetries"), 1);
}

/// Covers: MPA-8, CM-34
#[test]
fn silence_ends() {
    let timers = || SoftConfig { request_timeout: Duration::from_millis(200), connect_timeout: Duration::from_millis(300), ..config() };
    let b = Side::new(timers());
    let listener = b.listen(1);
    let mut stream = raw(listener.local_addr());
    stream.write_all(b"MPA ID").expect("write");
    let start = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("FIN");
    assert!(rest.is_empty() && start.elapsed() >= Duration::from_millis(100));
    let mut a = Side::new(timers());
    let silent = TcpListener::bind("127.0.0.1:0").expect("bind");
    a.connect(silent.local_addr().expect("address"), &a.param(1));
    assert_eq!(a.event(EventKind::ConnectReply).1.status, Err(Errno::TimedOut));
}

#[test]
fn two_limits() {
    let b = Side::new(SoftConfig { half_open: 3, ..config() });
    let listener = b.listen(2);
    let streams: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = raw(listener.local_addr());
            stream.write_all(&frame(Kind::Request, &FRAME)).expect("write");
            stream
        })
        .collect();
    let _children = [b.event(EventKind::ConnectRequest), b.event(EventKind::ConnectRequest)];
    let mut refused = 0;
    for mut stream in streams {
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("option");
        let mut reply = [0; 24];
        if stream.read_exact(&mut reply).is_ok() {
            assert_eq!((reply[16] & 0x20, reply[19]), (0x20, 4), "R, and no private data");
            refused += 1;
        }
    }
    assert_eq!((refused, b.stat("mpaNonPeerRejects")), (1, 1));
}

/// The FIN behind a Reply that refuses waits for the peer's, but not for long: siw does not look at the Reply if both are there at once.
#[test]
fn a_refusal_leaves_time_to_read_it() {
    let timeout = Duration::from_millis(400);
    let b = Side::new(SoftConfig { refusal_timeout: timeout, ..config() });
    let listener = b.listen(1);
    let refused = || {
        let mut stream = raw(listener.local_addr());
        stream.write_all(&frame(Kind::Request, &FRAME)).expect("write");
        let (child, _) = b.event(EventKind::ConnectRequest);
        child.reject(&PrivateData::default()).expect("reject");
        let mut reply = [0; 24];
        stream.read_exact(&mut reply).expect("Reply");
        (stream, Instant::now())
    };
    // its close is answered at once
    let (mut stream, start) = refused();
    stream.shutdown(std::net::Shutdown::Write).expect("FIN");
    assert_eq!(stream.read(&mut [0]).expect("FIN"), 0);
    assert!(start.elapsed() < timeout, "{:?}", start.elapsed());
    // without one
    let (mut stream, start) = refused();
    assert_eq!(stream.read(&mut [0]).expect("FIN"), 0);
    assert!(start.elapsed() > timeout / 2, "{:?}", start.elapsed());
    // nor does it outlive its listener
    let (mut stream, _) = refused();
    drop(listener);
    drop(b);
    assert_eq!(stream.read(&mut [0]).expect("FIN"), 0);
}

/// Covers: CM-5, CM-27
#[test]
fn a_peer_that_left_before_the_answer() {
    for accepts in [true, false] {
        let b = Side::new(config());
        let listener = b.listen(1);
        let mut stream = raw(listener.local_addr());
        stream.write_all(&frame(Kind::Request, &FRAME)).expect("write");
        let (child, _) = b.event(EventKind::ConnectRequest);
        drop(stream);
        std::thread::sleep(Duration::from_millis(50));
        assert!(b.told.try_recv().is_err(), "no event meanwhile");
        if accepts {
            assert_eq!(child.accept(&b.param(1)), Err(Errno::ConnectionReset));
        } else {
            assert_eq!(child.reject(&PrivateData::default()), Ok(()));
        }
        assert!(b.told.try_recv().is_err());
        assert_eq!((b.stat("pendingLive"), b.stat("connectionsLive")), (0, 0));
        b.qp.destroy().expect("nobody holds it");
    }
}

/// Covers: CM-12, CM-14, CM-16, CM-17, TD-2, TD-3, TD-5, TD-6, TD-9, DDP-25
#[test]
fn how_connections_end() {
    // abort
    let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
    for n in 0..5 {
        a.recv(n, 0, 10);
        b.recv(n, 0, 10);
    }
    a.id.as_ref().expect("id").disconnect(true).expect("abort");
    for side in [&a, &b] {
        assert_eq!(side.event(EventKind::Close).1.status, Err(Errno::ConnectionReset));
        assert_eq!(side.qp.query().state, QpState::Error);
        for n in 0..5 {
            let wc = Side::wc(&side.recv_cq);
            assert_eq!((wc.wr_id, wc.status), (n, WcStatus::WrFlushErr));
        }
        side.send(9, SendOp::Send, 0, 1);
        assert_eq!(Side::wc(&side.cq).status, WcStatus::WrFlushErr, "and later ones");
        side.id.as_ref().expect("id").disconnect(false).expect("harmless");
        assert_eq!(side.qp.modify(QpState::Error), Ok(()));
        assert!(side.told.try_recv().is_err());
    }
    // FIN in the middle of an FPDU, at every octet
    let fpdu = hello();
    for cut in 0..fpdu.len() {
        let mut b = Side::new(config());
        b.recv(1, 0, 100);
        let (mut raw, _listener) = Raw::initiator(&mut b, 1, &[0x40, 1, 0, 0]);
        b.event(EventKind::Established);
        raw.write(&fpdu[..cut]);
        drop(raw);
        let (_, close) = b.event(EventKind::Close);
        assert_eq!(close.status, if cut == 0 { Ok(()) } else { Err(Errno::ConnectionReset) }, "{cut}");
        assert_eq!(Side::wc(&b.recv_cq).status, WcStatus::WrFlushErr);
    }
}

/// Covers: CM-18, CM-22, CM-30
#[test]
fn many_lives_leave_nothing() {
    let lives: u32 = std::env::var("LIVES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let (a, b) = (Side::new(config()), Side::new(config()));
    let listener = b.listen(8);
    for n in 0..lives {
        let cap = QpCap::default();
        let qp = |side: &Side| {
            let init = QpInitAttr { send_cq: side.cq.clone(), recv_cq: side.recv_cq.clone(), cap, sq_sig_all: true };
            side.soft.create_qp(&side.pd, &init).expect("queue pair")
        };
        let (qa, qb) = (qp(&a), qp(&b));
        let id = a.id();
        id.set_remote(listener.local_addr()).expect("remote");
        id.connect(&ConnParam { qpn: qa.qp_num(), ..ConnParam::default() }).expect("connect");
        let (child, _) = b.event(EventKind::ConnectRequest);
        if n % 4 == 3 {
            child.reject(&PrivateData::default()).expect("reject");
            a.event(EventKind::ConnectReply);
        } else {
            child.accept(&ConnParam { qpn: qb.qp_num(), ..ConnParam::default() }).expect("accept");
            a.event(EventKind::ConnectReply);
            b.event(EventKind::Established);
            match n % 4 {
                0 => id.disconnect(false).expect("close"),
                1 => id.disconnect(true).expect("abort"),
                _ => child.disconnect(false).expect("close"),
            }
            a.event(EventKind::Close);
            b.event(EventKind::Close);
        }
        id.destroy().expect("destroy");
        child.destroy().expect("destroy");
        qa.destroy().expect("destroy");
        qb.destroy().expect("destroy");
    }
    listener.destroy().expect("destroy");
    for side in [&a, &b] {
        for live in ["connectionsLive", "pendingLive", "halfOpenLive", "listensLive"] {
            assert_eq!(side.stat(live), 0, "{live}");
        }
        assert_eq!((side.stat("qpsLive"), side.stat("mrsLive")), (1, 1));
    }
    let threads = || std::fs::read_dir("/proc/self/task").expect("proc").count();
    let until = Instant::now() + BOUND;
    while threads() > 60 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(threads() <= 60, "{} threads", threads());
}

/// Covers: ENH-7, ENH-15, MPA-13
#[test]
fn what_a_reply_says_binds_the_initiator() {
    for (words, ird, ord) in [([0u8, 1, 0, 9], 9, 1), ([0, 0, 0, 0], 4, 0), ([0x3f, 0xff, 0x3f, 0xff], 4, 4)] {
        let mut a = Side::new(config());
        let mpa = MpaOptions { crc: false, ..MpaOptions::default() };
        let param = ConnParam { mpa: Some(mpa), ..a.param(4) };
        let mut raw = Raw::responder(&mut a, &param, &[&[0x50, 2, 0, 4][..], &words].concat());
        a.event(EventKind::ConnectReply);
        assert_eq!((a.qp.query().ird, a.qp.query().ord), (ird, ord));
        // C of the Reply alone
        a.send(1, SendOp::Send, 0, 5);
        assert_eq!(raw.ulpdu().expect("with a good CRC").len(), 23);
    }
}

/// Some responders lose what follows their Reply too closely: `first_fpdu_delay` holds it back, the RTR as well, and nothing later.
#[test]
fn the_first_fpdu_waits_as_long_as_it_is_told() {
    const DELAY: std::time::Duration = std::time::Duration::from_millis(300);
    for delay in [std::time::Duration::ZERO, DELAY] {
        let mut a = Side::new(SoftConfig { first_fpdu_delay: delay, ..config() });
        let param = a.param(1);
        let mut raw = Raw::responder(&mut a, &param, &[0x50, 2, 0, 4, 0, 1, 0, 1]);
        let start = std::time::Instant::now();
        a.event(EventKind::ConnectReply);
        for wr_id in 0..3 {
            a.send(wr_id, SendOp::Send, 0, 8);
        }
        raw.ulpdu().expect("first");
        assert!(start.elapsed() + std::time::Duration::from_millis(20) >= delay, "{:?}", start.elapsed());
        raw.ulpdu().expect("second");
        raw.ulpdu().expect("third");
        // an end does not wait for it
        let mut b = Side::new(SoftConfig { first_fpdu_delay: std::time::Duration::from_secs(3600), ..config() });
        let param = b.param(1);
        let mut silent = Raw::responder(&mut b, &param, &[0x50, 2, 0, 4, 0, 1, 0, 1]);
        b.event(EventKind::ConnectReply);
        b.qp.modify(QpState::Error).expect("resets");
        b.event(EventKind::Close);
        assert!(silent.gone(), "RST");
    }
}
