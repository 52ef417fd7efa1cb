// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that can be wrong in what a peer sends ends in exactly the Terminate of the table, and every work request completes once.
mod common;
use common::{config, Raw, Side, ALL};
use ironwarp_iwcm::{ConnParam, EventKind};
use ironwarp_verbs::*;
use ironwarp_wire::{ddp, rdmap};

/// Revision 2, CRC, IRD and ORD 2.
const REQUEST: [u8; 8] = [0x50, 2, 0, 4, 0, 2, 0, 2];

fn untagged(opcode: u8, qn: u32, msn: u32, mo: u32) -> ddp::Header {
    ddp::Header::Untagged { last: true, rdmap: 0x40 | opcode, stag: 0, qn, msn, mo }
}

fn tagged(opcode: u8, stag: u32, to: u64) -> ddp::Header {
    ddp::Header::Tagged { last: true, rdmap: 0x40 | opcode, stag, to }
}

fn octets(header: ddp::Header, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = vec![0; header.len()];
    header.emit(&mut ulpdu).expect("room");
    [ulpdu, payload.to_vec()].concat()
}

fn read(b: &Side, size: u32, stag: u32, to: u64) -> Vec<u8> {
    let request = rdmap::ReadRequest { sink_stag: 0x1234, sink_to: 5, size, source_stag: stag, source_to: to };
    let mut payload = [0; 28];
    request.emit(&mut payload).expect("room");
    assert!(b.mr.length() > 0);
    octets(untagged(1, 1, 1, 0), &payload)
}

/// What is expected back: layer, type, code; D; R.
type Expected = (u8, u8, u8, bool, bool);

/// One receive of 64 octets is posted; `make` says what the peer sends, and what must come back.
fn refused(name: &str, make: impl Fn(&Side) -> (Vec<Vec<u8>>, Expected)) {
    let mut b = Side::new(config());
    b.fill(7);
    b.recv(1, 0, 64);
    b.recv(2, 64, 64);
    let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
    b.event(EventKind::Established);
    // the first is good, so that the adapter's peer may speak
    raw.send(untagged(3, 0, 1, 0), b"hello");
    b.received(1, 5);
    let before = b.octets(0, 1 << 20);
    b.send(10, SendOp::Send, 0, 20);
    let first = raw.ulpdu().expect("Send");
    assert_eq!(first[1] & 15, 3);
    b.sent(10);
    let (list, (layer, etype, code, d, r)) = make(&b);
    for ulpdu in &list {
        let fpdu = Raw::fpdu(ulpdu, true);
        raw.write(&fpdu);
    }
    // what comes behind it leaves no trace
    let good = octets(tagged(0, b.mr.rkey(), b.mr.addr() + 5000), &[0xee; 50]);
    let _ = std::io::Write::write(&mut raw.stream, &Raw::fpdu(&good, true));
    let mut answer = raw.ulpdu().unwrap_or_else(|| panic!("{name}: FIN instead of a Terminate"));
    while answer[1] & 15 == 2 {
        answer = raw.ulpdu().unwrap_or_else(|| panic!("{name}: FIN instead of a Terminate"));
    }
    assert_eq!(answer[..18], [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0], "{name}");
    let t = rdmap::Terminate::parse(&answer[18..]).expect("Terminate");
    assert_eq!((t.layer, t.etype, t.code, t.segment.is_some(), t.read.is_some()), (layer, etype, code, d, r), "{name}: {answer:02x?}");
    assert_eq!(answer.len(), 18 + t.len(), "{name}");
    if let (Some((length, header)), Some(bad)) = (t.segment, list.last()) {
        assert_eq!((usize::from(length), header), (bad.len(), &bad[..header.len()]), "{name}");
    }
    assert!(raw.ulpdu().is_none(), "{name}: FIN follows");
    drop(raw);
    b.event(EventKind::Close);
    assert_eq!(b.qp.query().state, QpState::Error);
    assert_eq!(b.octets(64 + 64, 1 << 19), before[128..128 + (1 << 19)], "{name}: nothing was placed");
    // the second receive completes once, in error
    let wc = Side::wc(&b.recv_cq);
    assert_eq!(wc.wr_id, 2, "{name}");
    assert_ne!(wc.status, WcStatus::Success, "{name}");
    let mut none = Vec::new();
    assert_eq!((b.recv_cq.poll(9, &mut none), b.cq.poll(9, &mut none)), (Ok(0), Ok(0)), "{name}");
    assert_eq!((b.stat("terminatesOut"), b.stat("connectionsLive")), (1, 0), "{name}");
}

/// Covers: DDP-1, DDP-2, DDP-3, DDP-10, DDP-22, DDP-27, MPA-26, MPA-37, RDM-1, RDM-8, RDM-9, RDM-10, RDM-18, RDM-19, RDM-21, RDM-27, RDM-31, RDM-40, TD-4, TD-5
#[test]
fn each_error_has_its_terminate() {
    let write = |b: &Side, to: u64, n: usize| octets(tagged(0, b.mr.rkey(), to), &vec![0xdd; n]);
    let one = |ulpdu: Vec<u8>, expected: Expected| (vec![ulpdu], expected);
    for n in 0..18 {
        refused(&format!("untagged of {n} octets"), |_| one(octets(untagged(3, 0, 2, 0), &[])[..n].to_vec(), (2, 0, 3, false, false)));
    }
    for n in 1..14 {
        refused(&format!("tagged of {n} octets"), |b| one(write(b, b.mr.addr(), 0)[..n].to_vec(), (2, 0, 3, false, false)));
    }
    for version in [0, 2, 3] {
        let with = |mut ulpdu: Vec<u8>| {
            ulpdu[0] = ulpdu[0] & 0xfc | version;
            ulpdu
        };
        refused("DV, tagged", |b| one(with(write(b, b.mr.addr(), 4)), (1, 1, 4, false, false)));
        refused("DV, untagged", |_| one(with(octets(untagged(3, 0, 2, 0), b"x")), (1, 2, 6, false, false)));
        let with = |mut ulpdu: Vec<u8>| {
            ulpdu[1] = ulpdu[1] & 0x3f | version << 6;
            ulpdu
        };
        refused("RV", |b| one(with(write(b, b.mr.addr(), 4)), (0, 2, 5, false, false)));
    }
    for opcode in 0..16 {
        for qn in 0..4 {
            let right = match opcode {
                3..=6 => qn == 0,
                1 => qn == 1,
                7 => qn == 2,
                _ => false,
            };
            if !right {
                let expected = if qn > 2 { (1, 2, 1, true, false) } else { (0, 2, 6, true, false) };
                refused(&format!("opcode {opcode} on queue {qn}"), |_| one(octets(untagged(opcode, qn, 2, 0), &[0; 28]), expected));
            }
        }
        if !matches!(opcode, 0 | 2) {
            refused(&format!("tagged opcode {opcode}"), |_| one(octets(tagged(opcode, 1, 0), b"x"), (0, 2, 6, true, false)));
        }
    }
    type Key = fn(&Side) -> u32;
    let keys: [(&str, Key, i64, usize, u8); 6] = [
        ("no such key", |_: &Side| 0x00ff_ff00, 0, 4, 0),
        ("STag 0", |_: &Side| 0, 0, 4, 0),
        ("stale key", |b: &Side| b.mr.rkey() ^ 0x80, 0, 4, 0),
        ("before the region", |b: &Side| b.mr.rkey(), -1, 4, 1),
        ("last octet outside", |b: &Side| b.mr.rkey(), (1 << 20) - 3, 4, 1),
        ("behind the region", |b: &Side| b.mr.rkey(), 1 << 20, 1, 1),
    ];
    for (name, stag, to, n, code) in keys {
        let to = |b: &Side| b.mr.addr().wrapping_add_signed(to);
        refused(name, |b| one(octets(tagged(0, stag(b), to(b)), &vec![9; n]), (1, 1, code, true, false)));
        refused(name, |b| one(read(b, n as u32, stag(b), to(b)), (0, 1, code, true, true)));
    }
    refused("wrap", |b| one(write(b, u64::MAX - 2, 4), (1, 1, 3, true, false)));
    refused("wrap, Read", |b| one(read(b, 4, b.mr.rkey(), u64::MAX - 2), (0, 1, 4, true, true)));
    let region = |b: &Side, access: Access| std::mem::ManuallyDrop::new(b.pd.alloc_mr(100, access).expect("memory"));
    refused("no right to write", |b| {
        let mr = region(b, ALL.difference(Access::REMOTE_WRITE));
        one(octets(tagged(0, mr.rkey(), mr.addr()), b"x"), (1, 1, 0, true, false))
    });
    refused("no right to read", |b| {
        let mr = region(b, ALL.difference(Access::REMOTE_READ));
        one(read(b, 1, mr.rkey(), mr.addr()), (0, 1, 2, true, true))
    });
    let elsewhere = |b: &Side| std::mem::ManuallyDrop::new(b.soft.alloc_pd().expect("domain").alloc_mr(100, ALL).expect("memory"));
    refused("other domain", |b| {
        let mr = elsewhere(b);
        one(octets(tagged(0, mr.rkey(), mr.addr()), b"x"), (1, 1, 2, true, false))
    });
    refused("other domain, Read", |b| {
        let mr = elsewhere(b);
        one(read(b, 1, mr.rkey(), mr.addr()), (0, 1, 3, true, true))
    });
    refused("other stream", |b| {
        let mr = region(b, ALL);
        mr.restrict(Some(0xffff)).expect("can");
        one(octets(tagged(0, mr.rkey(), mr.addr()), b"x"), (1, 1, 2, true, false))
    });
    for msn in [0, 1, 3, u32::MAX] {
        refused("MSN of a Send", |_| one(octets(untagged(3, 0, msn, 0), b"x"), (1, 2, 3, true, false)));
    }
    refused("MO", |_| one(octets(untagged(3, 0, 2, 8), b"x"), (1, 2, 4, true, false)));
    refused("too long", |_| one(octets(untagged(3, 0, 2, 0), &[1; 65]), (1, 2, 5, true, false)));
    refused("Read MSN", |b| {
        let mut ulpdu = read(b, 1, b.mr.rkey(), b.mr.addr());
        ulpdu[13] = 2;
        one(ulpdu, (1, 2, 3, true, false))
    });
    refused("Read MO", |b| {
        let mut ulpdu = read(b, 1, b.mr.rkey(), b.mr.addr());
        ulpdu[17] = 1;
        one(ulpdu, (1, 2, 4, true, false))
    });
    refused("Read too short", |b| one(read(b, 1, 0, 0)[..45].to_vec(), (2, 0, 3, false, false)));
    refused("Read too long", |b| one([read(b, 1, 0, 0), vec![0]].concat(), (1, 2, 5, true, false)));
    refused("response to nothing", |_| one(octets(tagged(2, 1, 0), b"x"), (0, 2, 6, true, false)));
}

/// Covers: RDM-5, RDM-37
#[test]
fn what_a_peer_may_not_invalidate() {
    let keep = |mr: std::sync::Arc<dyn Mr>| std::mem::ManuallyDrop::new(mr);
    let send = |stag| {
        let header = ddp::Header::Untagged { last: true, rdmap: 0x44, stag, qn: 0, msn: 2, mo: 0 };
        vec![octets(header, &[])]
    };
    refused("no such key", |_| (send(77), (0, 2, 9, true, false)));
    refused("other domain", |b| {
        let mr = keep(b.soft.alloc_pd().expect("domain").alloc_mr(100, ALL).expect("memory"));
        (send(mr.rkey()), (0, 1, 9, true, false))
    });
    refused("no right", |b| {
        let mr = keep(b.pd.alloc_mr(100, ALL.difference(Access::REMOTE_INVALIDATE)).expect("memory"));
        (send(mr.rkey()), (0, 2, 9, true, false))
    });
    refused("key of several streams", |b| {
        let init = QpInitAttr { send_cq: b.cq.clone(), recv_cq: b.recv_cq.clone(), cap: QpCap::default(), sq_sig_all: true };
        let _other = std::mem::ManuallyDrop::new(b.soft.create_qp(&b.pd, &init).expect("queue pair"));
        (send(b.mr.rkey()), (0, 2, 9, true, false))
    });
}

/// Covers: MPA-28, MPA-38
#[test]
fn a_wrong_crc_places_nothing() {
    let mut b = Side::new(config());
    let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
    raw.send(untagged(1, 1, 1, 0), &read(&b, 0, 0, 0)[18..]);
    assert_eq!(raw.ulpdu().map(|u| u[1] & 15), Some(2), "response of no octets");
    let mut fpdu = Raw::fpdu(&octets(tagged(0, b.mr.rkey(), b.mr.addr()), &[1; 40]), true);
    *fpdu.last_mut().expect("CRC") ^= 1;
    raw.write(&fpdu);
    let answer = raw.ulpdu().expect("Terminate");
    assert_eq!(answer[18..], [0x20, 2, 0, 0]);
    assert!(raw.ulpdu().is_none());
    assert_eq!((b.octets(0, 40), b.stat("crcErrors")), (vec![0; 40], 1));
}

/// Covers: RDM-34
#[test]
fn a_responder_that_may_not_speak_resets() {
    let mut b = Side::new(config());
    let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
    let mut fpdu = Raw::fpdu(&octets(untagged(3, 0, 1, 0), b"x"), true);
    *fpdu.last_mut().expect("CRC") ^= 1;
    raw.write(&fpdu);
    assert!(raw.gone(), "RST");
    b.event(EventKind::Established);
    b.event(EventKind::Close);
    assert_eq!(b.stat("terminatesOut"), 0);
}

/// Covers: RDM-6, DDP-22
#[test]
fn no_receive_is_no_buffer() {
    for payload in [&b"x"[..], b""] {
        let mut b = Side::new(config());
        let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
        raw.send(untagged(3, 0, 1, 0), payload);
        let answer = raw.ulpdu().expect("Terminate");
        assert_eq!(answer[18..22], [0x12, 2, 0xc0, 0]);
    }
}

/// Covers: RDM-3, DDP-9
#[test]
fn a_response_must_be_the_one_asked_for() {
    for (name, dstag, dto, n, code) in
        [("key", 1, 0, 100, 0), ("offset", 0, 1, 100, 1), ("long", 0, 0, 101, 1), ("short", 0, 0, 99, 1), ("empty", 0, 0, 0, 1)]
    {
        let mut a = Side::new(config());
        let param = ConnParam { ird: 2, ord: 2, ..a.param(2) };
        let mut raw = Raw::responder(&mut a, &param, &REQUEST);
        a.event(EventKind::ConnectReply);
        a.send(1, SendOp::Read { remote_addr: 64, rkey: 99 }, 1000, 100);
        a.send(2, SendOp::Send, 0, 10);
        let request = rdmap::ReadRequest::parse(&raw.ulpdu().expect("request")[18..]).expect("28 octets");
        assert_eq!((request.size, request.source_stag, request.source_to), (100, 99, 64));
        raw.ulpdu().expect("Send");
        raw.send(tagged(2, request.sink_stag + dstag, request.sink_to + dto), &vec![5; n]);
        let answer = raw.ulpdu().expect("Terminate");
        assert_eq!(answer[18..20], [0x11, code], "{name}");
        assert!(raw.ulpdu().is_none());
        drop(raw);
        let (first, second) = (Side::wc(&a.cq), Side::wc(&a.cq));
        assert_eq!((first.wr_id, first.status), (1, WcStatus::BadRespErr), "{name}");
        assert_eq!((second.wr_id, second.status), (2, WcStatus::WrFlushErr), "{name}");
        a.event(EventKind::Close);
    }
}

/// Covers: RDM-8, RDM-29, RDM-30, RDM-32, RDM-33
#[test]
fn a_terminate_is_not_answered() {
    let good = [0x01, 2, 0, 0];
    let siw = [0x10, 2, 7, 0];
    for (name, header, payload, status) in [
        ("access", untagged(7, 2, 1, 0), &good[..], WcStatus::RemAccessErr),
        ("as siw writes it", untagged(7, 2, 1, 0), &siw[..], WcStatus::RemOpErr),
        ("unknown", untagged(7, 2, 1, 0), &[0xff, 0xff, 0, 0], WcStatus::RemOpErr),
        ("too short", untagged(7, 2, 1, 0), &[1], WcStatus::WrFlushErr),
        ("wrong MSN", untagged(7, 2, 9, 0), &good[..], WcStatus::WrFlushErr),
        ("headers cut", untagged(7, 2, 1, 0), &[0x11, 0, 0xc0, 0, 0, 30], WcStatus::WrFlushErr),
    ] {
        let mut a = Side::new(config());
        let param = a.param(2);
        let mut raw = Raw::responder(&mut a, &param, &REQUEST);
        a.event(EventKind::ConnectReply);
        a.recv(3, 0, 10);
        a.send(1, SendOp::Read { remote_addr: 64, rkey: 99 }, 1000, 100);
        a.send(2, SendOp::Read { remote_addr: 64, rkey: 99 }, 1000, 100);
        raw.ulpdu().expect("request");
        raw.ulpdu().expect("request");
        raw.send(header, payload);
        assert!(raw.ulpdu().is_none(), "{name}: FIN and no Terminate");
        drop(raw);
        let (first, second, third) = (Side::wc(&a.cq), Side::wc(&a.cq), Side::wc(&a.recv_cq));
        assert_eq!((first.wr_id, first.status), (1, status), "{name}");
        assert_eq!((second.wr_id, second.status), (2, WcStatus::WrFlushErr), "{name}");
        assert_eq!((third.wr_id, third.status), (3, WcStatus::WrFlushErr), "{name}");
        a.event(EventKind::Close);
        assert_eq!(a.stat("terminatesOut"), 0);
    }
}

/// Covers: RDM-2
#[test]
fn more_reads_than_agreed() {
    let mut b = Side::sized(config(), 32 << 20, ALL);
    let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
    let n = b.mr.length() as u32;
    for msn in 1..=3u8 {
        let mut ulpdu = read(&b, n, b.mr.rkey(), b.mr.addr());
        ulpdu[13] = msn;
        raw.write(&Raw::fpdu(&ulpdu, true));
    }
    let answer = loop {
        let ulpdu = raw.ulpdu().expect("Terminate");
        if ulpdu[1] & 15 == 7 {
            break ulpdu;
        }
    };
    assert_eq!(answer[18..21], [0x12, 2, 0xc0]);
}

/// The source of a Read goes away while its response is sent: the Terminate names the request, advanced to where the response stopped.
///
/// Covers: RDM-20
#[test]
fn a_source_revoked_in_the_middle_of_its_response() {
    // more than the sockets hold while nobody reads
    let mut b = Side::sized(config(), 32 << 20, ALL);
    let (mut raw, _listener) = Raw::initiator(&mut b, 2, &REQUEST);
    let (n, to) = (b.mr.length() as u32, b.mr.addr());
    for (msn, size) in [(1, 16), (2, n)] {
        let mut ulpdu = read(&b, size, b.mr.rkey(), to);
        ulpdu[13] = msn;
        raw.write(&Raw::fpdu(&ulpdu, true));
    }
    let first = raw.ulpdu().expect("the first response");
    assert_eq!(first.len(), 14 + 16);
    let mut done = raw.ulpdu().expect("begin of the second").len() as u64 - 14;
    b.mr.dereg().expect("revoked");
    let answer = loop {
        let ulpdu = raw.ulpdu().expect("Terminate");
        if ulpdu[1] & 15 == 7 {
            break ulpdu;
        }
        done += ulpdu.len() as u64 - 14;
    };
    assert!(done < u64::from(n), "revoked too late to be seen");
    let terminate = rdmap::Terminate::parse(&answer[18..]).expect("Terminate");
    assert_eq!((terminate.layer, terminate.etype, terminate.code), (0, 1, 0));
    let (_, header) = terminate.segment.expect("header");
    assert_eq!(header[10..14], [0, 0, 0, 2], "MSN of the request");
    let request = terminate.read.expect("request");
    assert_eq!((request.source_to, u64::from(request.size)), (to + done, u64::from(n) - done));
}

/// Covers: TD-5, RDM-28
#[test]
fn an_own_request_for_foreign_memory_ends_the_stream() {
    let mut a = Side::new(config());
    let param = a.param(2);
    let mut raw = Raw::responder(&mut a, &param, &REQUEST);
    a.event(EventKind::ConnectReply);
    let bad = Sge { addr: a.mr.addr(), length: 10, lkey: a.mr.lkey() ^ 1 };
    let wr = SendWr { wr_id: 1, op: SendOp::Send, sg_list: vec![bad], inline: None, flags: SendFlags::empty() };
    a.qp.post_send(&[wr]).expect("post");
    a.send(2, SendOp::Send, 0, 10);
    let answer = raw.ulpdu().expect("Terminate");
    assert_eq!(answer[18..], [0x02, 7, 0, 0]);
    drop(raw);
    let (first, second) = (Side::wc(&a.cq), Side::wc(&a.cq));
    assert_eq!((first.wr_id, first.status), (1, WcStatus::LocProtErr));
    assert_eq!((second.wr_id, second.status), (2, WcStatus::WrFlushErr));
}
