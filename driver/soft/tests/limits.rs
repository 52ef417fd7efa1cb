// SPDX-License-Identifier: MIT OR Apache-2.0
//! What ends when there is no more room, and what does not: completion queues, listeners, the device itself.
mod common;
use common::{config, frame, pair, Side, BOUND};
use ironwarp_iwcm::{EventKind, PrivateData};
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;
use ironwarp_wire::mpa::Kind;
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

const REQUEST: [u8; 8] = [0x50, 2, 0, 4, 0, 4, 0, 4];
/// Within this comes what comes at once.
const SOON: Duration = Duration::from_millis(300);

fn raw(to: SocketAddr, request: bool) -> TcpStream {
    let mut stream = TcpStream::connect(to).expect("connect");
    stream.set_read_timeout(Some(BOUND)).expect("option");
    if request {
        stream.write_all(&frame(Kind::Request, &REQUEST)).expect("write");
    }
    stream
}

/// A queue pair of `side` with small completion queues of its own becomes that of `side`.
fn shrink(side: &mut Side, send_cqe: u32, recv_cqe: u32) {
    side.cq = side.soft.create_cq(send_cqe).expect("queue");
    side.recv_cq = side.soft.create_cq(recv_cqe).expect("queue");
    let cap = QpCap { max_send_wr: 16, max_recv_wr: 16, ..QpCap::default() };
    let init = QpInitAttr { send_cq: side.cq.clone(), recv_cq: side.recv_cq.clone(), cap, sq_sig_all: true };
    side.qp = side.soft.create_qp(&side.pd, &init).expect("queue pair");
}

/// What was there comes out, then nothing but the error.
fn lost(cq: &Arc<dyn Cq>, whole: usize) {
    let mut found = Vec::new();
    assert_eq!(cq.poll(100, &mut found), Ok(whole));
    assert!(found.iter().all(|wc| wc.status == WcStatus::Success), "{found:?}");
    assert_eq!(cq.poll(100, &mut found), Err(Errno::Overflow));
    assert_eq!(cq.req_notify(false), Err(Errno::Overflow));
}

/// Covers: RDM-36
#[test]
fn a_completion_queue_that_overflows_takes_its_own_streams_along_and_no_others() {
    for receives in [true, false] {
        let mut b = Side::new(config());
        shrink(&mut b, if receives { 16 } else { 2 }, if receives { 2 } else { 16 });
        let soft = b.soft.clone();
        let (a, b, _listener) = pair(Side::new(config()), b, 1);
        // another stream of the same device
        let (c, d, _other) = pair(Side::new(config()), Side::on(&soft), 1);
        for n in 0..4 {
            a.recv(n, 0, 10);
            b.recv(n, 0, 10);
        }
        let (small, large) = if receives { (&b.recv_cq, &b.cq) } else { (&b.cq, &b.recv_cq) };
        // who waits is woken by what he will not get
        small.req_notify(true).expect("arm");
        a.send(0, SendOp::Send, 0, 10);
        if receives {
            for n in 1..4 {
                a.send(n, SendOp::Send, 0, 10);
            }
        } else {
            b.received(0, 10);
            for n in 0..4 {
                b.send(n, SendOp::Send, 0, 10);
            }
        }
        assert_eq!(b.event(EventKind::Close).1.status, Err(Errno::ConnectionReset), "receives {receives}");
        assert_eq!(small.wait(SOON), Ok(true));
        lost(small, 2);
        let mut flushed = Vec::new();
        large.poll(100, &mut flushed).expect("no harm");
        assert!(flushed.iter().all(|wc| wc.status == WcStatus::WrFlushErr), "{flushed:?}");
        assert_eq!(a.event(EventKind::Close).1.status, Err(Errno::ConnectionReset));
        assert_eq!(b.stat("cqOverflows"), 1);
        c.recv(1, 0, 10);
        d.recv(2, 0, 10);
        c.send(3, SendOp::Send, 0, 10);
        d.received(2, 10);
        d.send(4, SendOp::Send, 0, 10);
        c.received(1, 10);
    }
}

/// Both limits of a listener are of those that wait, not of those that came.
///
/// Covers: CM-19
#[test]
fn an_answer_makes_room_for_the_next() {
    let mut b = Side::new(SoftConfig { half_open: 2, ..config() });
    let listener = b.listen(1);
    // accepted, rejected, gone: each was one that waited
    let mut accepted = raw(listener.local_addr(), true);
    let param = b.param(1);
    b.accept(&param);
    accepted.read_exact(&mut [0; 24]).expect("Reply");
    b.event(EventKind::Established);
    let mut rejected = raw(listener.local_addr(), true);
    let (child, _) = b.event(EventKind::ConnectRequest);
    let mut busy = raw(listener.local_addr(), true);
    let mut reply = [0; 24];
    busy.read_exact(&mut reply).expect("Reply");
    assert_eq!((reply[16] & 0x20, b.stat("mpaNonPeerRejects")), (0x20, 1), "there is room for one");
    child.reject(&PrivateData::default()).expect("reject");
    rejected.read_exact(&mut reply).expect("Reply");
    drop(child);
    let gone = raw(listener.local_addr(), true);
    let (child, _) = b.event(EventKind::ConnectRequest);
    drop(gone);
    drop(child);
    let _last = raw(listener.local_addr(), true);
    let _child = b.event(EventKind::ConnectRequest);
    assert_eq!((b.stat("mpaNonPeerRejects"), b.stat("pendingLive")), (1, 1));
}

#[test]
fn who_says_nothing_holds_up_others_only_until_it_is_let_go() {
    let b = Side::new(SoftConfig { half_open: 2, request_timeout: SOON * 2, ..config() });
    let listener = b.listen(4);
    let _silent = [raw(listener.local_addr(), false), raw(listener.local_addr(), false)];
    // both places are taken before the third comes
    while b.stat("halfOpenLive") < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _third = raw(listener.local_addr(), true);
    assert!(b.told.recv_timeout(SOON).is_err(), "it waits in the kernel");
    b.event(EventKind::ConnectRequest);
    assert_eq!((b.stat("halfOpenLive"), b.stat("mpaTimeouts")), (0, 2));
}

#[test]
fn nothing_outlives_its_device() {
    let (a, b, listener) = pair(Side::new(config()), Side::new(config()), 1);
    let to = listener.local_addr();
    let silent = raw(to, false);
    let asks = raw(to, true);
    let (child, _) = b.event(EventKind::ConnectRequest);
    a.recv(1, 0, 10);
    drop((child, listener, b));
    assert_eq!(a.event(EventKind::Close).1.status, Err(Errno::ConnectionReset));
    assert_eq!(Side::wc(&a.recv_cq).status, WcStatus::WrFlushErr);
    for mut stream in [silent, asks] {
        // RST, or a refusal and FIN
        let _ = stream.read_to_end(&mut Vec::new()).map_err(|e| assert_ne!(e.kind(), ErrorKind::WouldBlock));
    }
    assert_eq!(TcpStream::connect(to).map_err(|e| e.kind()).err(), Some(ErrorKind::ConnectionRefused));
}
