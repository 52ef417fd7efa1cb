// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two soft devices over the host's loopback: every operation, every way to start up.
mod common;
use common::{config, pair, Side};
use ironwarp_iwcm::{ConnParam, EventKind, MpaOptions, PrivateData};
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;

/// Every operation once, with `n` octets.
fn every_operation(a: &Side, b: &Side, n: usize) {
    a.fill(3);
    b.fill(0x55);
    b.recv(1, 0, n);
    a.send(2, SendOp::Send, 100, n);
    a.sent(2);
    b.received(1, n);
    assert_eq!(b.octets(0, n), a.octets(100, n), "Send of {n}");
    a.send(3, SendOp::Write { remote_addr: b.mr.addr() + 7, rkey: b.mr.rkey() }, 33, n);
    a.send(4, SendOp::Read { remote_addr: b.mr.addr() + 7, rkey: b.mr.rkey() }, 300_000, n);
    a.sent(3);
    assert_eq!(a.sent(4).byte_len as usize, n);
    assert_eq!(a.octets(300_000, n), a.octets(33, n), "Write and Read of {n}");
    // and the other way
    a.recv(5, 500_000, n);
    b.send(6, SendOp::Send, 50, n);
    b.sent(6);
    a.received(5, n);
    assert_eq!(a.octets(500_000, n), b.octets(50, n));
    b.send(7, SendOp::Read { remote_addr: a.mr.addr(), rkey: a.mr.rkey() }, 600_000, n);
    b.sent(7);
    assert_eq!(b.octets(600_000, n), a.octets(0, n));
}

fn close(a: &Side, b: &Side) {
    a.id.as_ref().expect("id").disconnect(false).expect("disconnect");
    for side in [a, b] {
        let (_, event) = side.event(EventKind::Close);
        assert_eq!(event.status, Ok(()), "in order");
        assert_eq!(side.qp.query().state, QpState::Init);
        assert_eq!(side.stat("connectionsLive"), 0);
    }
}

/// Covers: MPA-11, MPA-12, MPA-13, MPA-27, DDP-5, DDP-6, DDP-16, DDP-17, RDM-14, RDM-16, RDM-17, SEG-1, TD-1
#[test]
fn every_operation_in_every_mode() {
    for (crc, markers_a, markers_b) in
        [(true, false, false), (false, false, false), (true, true, false), (true, false, true), (true, true, true)]
    {
        for mulpdu in [128, 1442, 65535] {
            let with = |markers| SoftConfig { max_mulpdu: mulpdu, mpa: MpaOptions { crc, markers, ..MpaOptions::default() }, ..config() };
            let (a, b, _listener) = pair(Side::new(with(markers_a)), Side::new(with(markers_b)), 4);
            for n in [0, 1, 2, 3, 4, 13, 109, 110, 111, 113, 114, 115, 1423, 1424, 1428, 1429, 5000, 70_001] {
                every_operation(&a, &b, n);
            }
            close(&a, &b);
            for side in [&a, &b] {
                assert_eq!(side.stat("crcErrors") + side.stat("markerErrors") + side.stat("terminatesIn"), 0);
            }
        }
    }
}

/// Covers: ENH-3, ENH-5, ENH-11, CM-10
#[test]
fn peer_to_peer_with_each_rtr() {
    for (write, read) in [(true, true), (true, false), (false, true)] {
        let with = || SoftConfig { rtr_write: write, rtr_read: read, ..config() };
        let (mut a, mut b) = (Side::new(with()), Side::new(with()));
        let listener = b.listen(1);
        let mpa = MpaOptions { peer_to_peer: true, ..MpaOptions::default() };
        a.connect(listener.local_addr(), &ConnParam { mpa: Some(mpa), ..a.param(0) });
        b.accept(&b.param(0));
        b.event(EventKind::Established);
        a.event(EventKind::ConnectReply);
        // the responder may be the first to speak
        a.recv(1, 0, 100);
        b.send(2, SendOp::Send, 0, 100);
        b.sent(2);
        a.received(1, 100);
        close(&a, &b);
        let mut none = Vec::new();
        assert_eq!(a.cq.poll(9, &mut none), Ok(0), "the RTR makes no completion");
        assert_eq!(b.recv_cq.poll(9, &mut none), Ok(0));
    }
}

/// Covers: MPA-6
#[test]
fn a_responder_is_silent_until_it_is_spoken_to() {
    let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
    a.recv(1, 0, 10);
    b.recv(2, 0, 10);
    b.send(3, SendOp::Send, 0, 10);
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut none = Vec::new();
    assert_eq!((b.cq.poll(1, &mut none), a.stat("inFpdus")), (Ok(0), 0));
    a.send(4, SendOp::Send, 0, 10);
    a.sent(4);
    b.received(2, 10);
    b.sent(3);
    a.received(1, 10);
}

#[test]
fn a_responder_may_be_told_to_speak_first() {
    let eager = SoftConfig { eager_responder: true, ..config() };
    let (a, b, _listener) = pair(Side::new(config()), Side::new(eager), 1);
    a.recv(1, 0, 10);
    b.send(2, SendOp::Send, 0, 10);
    b.sent(2);
    a.received(1, 10);
}

/// Covers: CM-3, CM-7, CM-26, ENH-16, MPA-4, MPA-5
#[test]
fn a_rejection_brings_its_private_data() {
    for enhanced in [true, false] {
        let (mut a, b) = (Side::new(config()), Side::new(config()));
        let listener = b.listen(1);
        let mpa = MpaOptions { enhanced, ..MpaOptions::default() };
        let private_data = PrivateData::new(b"please").expect("short");
        a.connect(listener.local_addr(), &ConnParam { mpa: Some(mpa), private_data, ird: 3, ord: 5, ..a.param(0) });
        let (child, request) = b.event(EventKind::ConnectRequest);
        assert_eq!(&*request.private_data, b"please");
        let peer = (request.depths.peer_ird, request.depths.peer_ord);
        assert_eq!(peer, if enhanced { (3, 5) } else { (128, 128) });
        child.reject(&PrivateData::new(b"no thanks").expect("short")).expect("reject");
        let (_, reply) = a.event(EventKind::ConnectReply);
        assert_eq!((reply.status, &*reply.private_data), (Err(Errno::ConnectionRefused), &b"no thanks"[..]));
        assert_eq!(a.qp.query().state, QpState::Init);
        child.destroy().expect("destroy");
        assert_eq!(b.stat("pendingLive"), 0);
    }
}

/// Covers: ENH-7, ENH-8, RDM-2, RDM-26
#[test]
fn depths_are_negotiated_and_kept() {
    for (ird_a, ord_a, ird_b, ord_b) in [(0, 0, 0, 0), (1, 1, 1, 1), (3, 5, 7, 9), (128, 128, 2, 2), (0x3ffe, 1, 1, 0x3ffe)] {
        let (mut a, mut b) = (Side::new(config()), Side::new(config()));
        let listener = b.listen(1);
        a.connect(listener.local_addr(), &ConnParam { ird: ird_a, ord: ord_a, ..a.param(0) });
        b.accept(&ConnParam { ird: ird_b, ord: ord_b, ..b.param(0) });
        a.event(EventKind::ConnectReply);
        b.event(EventKind::Established);
        let (qa, qb) = (a.qp.query(), b.qp.query());
        assert!(qa.ord <= qb.ird && qb.ord <= qa.ird, "{qa:?} {qb:?}");
        assert_eq!(qb.ord, ord_b.min(ird_a.min(128)), "{qb:?}");
        if qa.ord > 0 {
            for n in 0..40 {
                a.send(n, SendOp::Read { remote_addr: b.mr.addr(), rkey: b.mr.rkey() }, n as usize * 1000, 1000);
            }
            for n in 0..40 {
                a.sent(n);
            }
        } else {
            let wr =
                SendWr { wr_id: 0, op: SendOp::Read { remote_addr: 0, rkey: 0 }, sg_list: vec![], inline: None, flags: SendFlags::empty() };
            assert_eq!(a.qp.post_send(&[wr]), Err((0, Errno::Invalid)), "it could never be sent");
        }
    }
}

/// Covers: RDM-4, RDM-5, RDM-7, RDM-22
#[test]
fn fences_inline_lists_solicited_and_invalidate() {
    let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 2);
    b.fill(9);
    // a list of pieces into a list of pieces
    let pieces = |side: &Side| vec![side.mr.sge(10, 5), side.mr.sge(0, 0), side.mr.sge(1000, 3000), side.mr.sge(99, 1)];
    b.qp.post_recv(&[RecvWr { wr_id: 1, sg_list: pieces(&b) }]).expect("post");
    a.fill(1);
    let flags = SendFlags::SIGNALED;
    let wr = SendWr { wr_id: 2, op: SendOp::Send, sg_list: pieces(&a), inline: None, flags };
    a.qp.post_send(std::slice::from_ref(&wr)).expect("post");
    a.sent(2);
    b.received(1, 3006);
    assert_eq!((b.octets(10, 5), b.octets(1000, 3000), b.octets(99, 1)), (a.octets(10, 5), a.octets(1000, 3000), a.octets(99, 1)));
    // solicited only
    b.recv(3, 0, 100);
    b.recv(4, 0, 100);
    b.recv_cq.req_notify(true).expect("arm");
    let inline = |wr_id, flags| SendWr { wr_id, inline: Some(b"inline".to_vec()), sg_list: vec![], op: SendOp::Send, flags };
    a.qp.post_send(&[inline(5, flags)]).expect("post");
    a.sent(5);
    assert_eq!(b.recv_cq.wait(std::time::Duration::from_millis(100)), Ok(false), "not solicited");
    a.qp.post_send(&[inline(6, flags | SendFlags::SOLICITED)]).expect("post");
    assert_eq!(b.recv_cq.wait(common::BOUND), Ok(true));
    a.sent(6);
    assert!(!b.received(3, 6).solicited);
    assert!(b.received(4, 6).solicited);
    assert_eq!(b.octets(0, 6), b"inline");
    // a fenced Send sees what the Reads before it brought
    b.recv(7, 700_000, 60_000);
    a.send(8, SendOp::Read { remote_addr: b.mr.addr() + 100_000, rkey: b.mr.rkey() }, 200_000, 60_000);
    let fenced = SendWr { wr_id: 9, sg_list: vec![a.mr.sge(200_000, 60_000)], flags: flags | SendFlags::FENCE, ..wr.clone() };
    a.qp.post_send(&[fenced]).expect("post");
    a.sent(8);
    a.sent(9);
    b.received(7, 60_000);
    assert_eq!(b.octets(700_000, 60_000), b.octets(100_000, 60_000));
    // the peer takes a key away
    let other = b.pd.alloc_mr(4096, common::ALL).expect("memory");
    let old = other.rkey();
    b.recv(10, 0, 100);
    a.send(11, SendOp::SendWithInvalidate(old), 0, 10);
    a.sent(11);
    assert_eq!(b.received(10, 10).invalidated, Some(old));
    let (_, new) = other.rekey(common::ALL).expect("again");
    assert_ne!(old, new);
    a.send(12, SendOp::Write { remote_addr: other.addr(), rkey: new }, 0, 100);
    a.sent(12);
    a.send(13, SendOp::Write { remote_addr: other.addr(), rkey: old }, 0, 100);
    a.state(QpState::Error);
    let why = a.qp.query().terminate_in.expect("terminate");
    assert_eq!((why.layer, why.etype, why.code), (1, 1, 0));
}
