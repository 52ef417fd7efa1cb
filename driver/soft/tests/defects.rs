// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defects that others had, where they can be had in software: each test fails when the defect is put in.
mod common;
use common::{config, frame, pair, Raw, Side, BOUND};
use ironwarp_iwcm::{ConnParam, EventKind, MpaOptions};
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;
use ironwarp_wire::{ddp, mpa, rdmap};
use std::{
    io::Write,
    net::TcpStream,
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Arc,
    },
    time::{Duration, Instant},
};

fn empty(wr_id: u64) -> RecvWr {
    RecvWr { wr_id, sg_list: vec![] }
}

fn send(wr_id: u64, flags: SendFlags) -> SendWr {
    SendWr { wr_id, op: SendOp::Send, sg_list: vec![], inline: None, flags }
}

/// Of a Read Request, by its ULPDU.
fn asked(ulpdu: &[u8]) -> rdmap::ReadRequest {
    assert_eq!(ulpdu[1] & 15, 1, "a Read Request: {ulpdu:02x?}");
    rdmap::ReadRequest::parse(&ulpdu[18..]).expect("Read Request")
}

fn response(to: &rdmap::ReadRequest) -> ddp::Header {
    ddp::Header::Tagged { last: true, rdmap: 0x42, stag: to.sink_stag, to: to.sink_to }
}

/// Receives are posted by one thread while another takes the queue pair to ERROR, and afterwards: each is completed, once, in order.
///
/// Covers: DEF-4
#[test]
fn def_4_receives_are_posted_while_the_queue_pair_fails() {
    for round in 0..20u32 {
        let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
        let (qp, closed) = (a.qp.clone(), Arc::new(AtomicBool::new(false)));
        let over = closed.clone();
        let poster = std::thread::spawn(move || {
            let (mut posted, mut after) = (0, 0);
            while after < 20 {
                after += u64::from(over.load(SeqCst));
                match qp.post_recv(&[empty(posted)]) {
                    Ok(()) => posted += 1,
                    Err((0, Errno::NoMemory)) => std::thread::yield_now(),
                    Err(other) => panic!("{other:?}"),
                }
                (0..500).for_each(|_| std::hint::spin_loop());
            }
            posted
        });
        // at another moment each time
        (0..round * 1000).for_each(|_| std::hint::spin_loop());
        a.qp.modify(QpState::Error).expect("ERROR");
        a.event(EventKind::Close);
        b.event(EventKind::Close);
        closed.store(true, SeqCst);
        let posted = poster.join().expect("posted");
        for wr_id in 0..posted {
            let wc = Side::wc(&a.recv_cq);
            assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr), "round {round}");
        }
        assert_eq!(a.recv_cq.poll(9, &mut Vec::new()), Ok(0), "round {round}: one more");
    }
}

/// A fenced Send waits for both Reads before it, not for the first alone.
///
/// Covers: DEF-17
#[test]
fn def_17_a_fenced_send_waits_for_all_reads_before_it() {
    let mut a = Side::new(config());
    let param = a.param(2);
    let mut raw = Raw::responder(&mut a, &param, &[0x50, 2, 0, 4, 0, 2, 0, 2]);
    a.event(EventKind::ConnectReply);
    for wr_id in 1..=2 {
        a.send(wr_id, SendOp::Read { remote_addr: 0, rkey: 7 }, wr_id as usize * 100, 8);
    }
    a.qp.post_send(&[send(3, SendFlags::SIGNALED | SendFlags::FENCE)]).expect("post");
    let requests = [0, 1].map(|_| asked(&raw.ulpdu().expect("Read Request")));
    raw.stream.set_read_timeout(Some(Duration::from_millis(150))).expect("timeout");
    for request in &requests {
        assert!(raw.stream.peek(&mut [0]).is_err(), "the Send does not wait");
        raw.send(response(request), &[0x5a; 8]);
    }
    raw.stream.set_read_timeout(Some(BOUND)).expect("timeout");
    assert_eq!(raw.ulpdu().expect("Send")[1] & 15, 3);
    for wr_id in 1..=3 {
        a.sent(wr_id);
    }
}

/// The Reply to a Request with A has A, and names a kind of RTR that the Request offered.
///
/// Covers: DEF-19
#[test]
fn def_19_the_responder_echoes_the_a_flag() {
    for (offered, chosen) in [(0x80, 0x80), (0x40, 0x40), (0xc0, 0x80)] {
        let mut b = Side::new(config());
        let listener = b.listen(1);
        let stream = TcpStream::connect(listener.local_addr()).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("timeout");
        let mut raw = Raw { stream, crc: true };
        raw.write(&frame(mpa::Kind::Request, &[0x50, 2, 0, 4, 0x80, 2, offered, 2]));
        let param = b.param(2);
        b.accept(&param);
        let reply = raw.start_up();
        assert_eq!((reply[20] & 0xc0, reply[22] & 0xc0), (0x80, chosen), "{offered:#04x}: {reply:02x?}");
    }
    // without A there is none in the Reply, nor an RTR
    let mut b = Side::new(config());
    let listener = b.listen(1);
    let stream = TcpStream::connect(listener.local_addr()).expect("connect");
    stream.set_read_timeout(Some(BOUND)).expect("timeout");
    let mut raw = Raw { stream, crc: true };
    raw.write(&frame(mpa::Kind::Request, &[0x50, 2, 0, 4, 0, 2, 0, 2]));
    let param = b.param(2);
    b.accept(&param);
    let reply = raw.start_up();
    assert_eq!((reply[20] & 0xc0, reply[22] & 0xc0), (0, 0), "{reply:02x?}");
}

/// Some adapters refuse STag 0 even in an RTR that writes nothing.
///
/// Covers: DEF-20
#[test]
fn def_20_the_rtr_has_a_key() {
    for (chosen, opcode) in [(0x80, 0), (0x40, 1)] {
        let mut a = Side::new(config());
        let mpa = MpaOptions { peer_to_peer: true, ..MpaOptions::default() };
        let param = ConnParam { mpa: Some(mpa), ..a.param(2) };
        let mut raw = Raw::responder(&mut a, &param, &[0x50, 2, 0, 4, 0x80, 2, chosen, 2]);
        a.event(EventKind::ConnectReply);
        let rtr = raw.ulpdu().expect("RTR");
        assert_eq!(rtr[1] & 15, opcode, "{rtr:02x?}");
        let keys = match opcode {
            0 => vec![u32::from_be_bytes([rtr[2], rtr[3], rtr[4], rtr[5]])],
            _ => vec![asked(&rtr).source_stag],
        };
        assert!(keys.iter().all(|key| *key != 0), "{rtr:02x?}");
    }
}

/// The buffers of both sides are full for a while; every FPDU leaves whole.
#[test]
fn def_32_a_peer_that_reads_slowly_gets_every_octet() {
    const OCTETS: usize = 300_001;
    let mut a = Side::new(config());
    a.fill(5);
    let param = a.param(1);
    let mut raw = Raw::responder(&mut a, &param, &[0x50, 2, 0, 4, 0, 1, 0, 1]);
    a.event(EventKind::ConnectReply);
    // more at once than the buffers of both sides hold
    for n in 0..20 {
        a.send(n, SendOp::Write { remote_addr: n << 32, rkey: 7 }, 3, OCTETS);
    }
    std::thread::sleep(Duration::from_millis(200));
    let sent = a.octets(3, OCTETS);
    for n in 0..20u64 {
        let mut at = 0;
        while at < OCTETS {
            let ulpdu = raw.ulpdu().expect("an FPDU with a good CRC");
            let (header, payload) = ddp::Header::parse(&ulpdu).expect("DDP");
            let last = at + payload.len() == OCTETS;
            assert_eq!(header, ddp::Header::Tagged { last, rdmap: 0x40, stag: 7, to: (n << 32) + at as u64 });
            assert_eq!(payload, &sent[at..at + payload.len()]);
            at += payload.len();
        }
        a.sent(n);
    }
}

/// What the peer sends first is wrong already: a Terminate, as for anything later.
///
/// Covers: DEF-33
#[test]
fn def_33_the_first_fpdu_is_bad() {
    let untagged = |octet: u8, control: u8, qn: u8| [&[octet, control, 0, 0, 0, 0, 0, 0, 0, qn, 0, 0, 0, 1, 0, 0, 0, 0][..]].concat();
    let tagged = |octet: u8, control: u8| [&[octet, control, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 9][..]].concat();
    for (name, ulpdu, expected) in [
        ("opcode, untagged", untagged(0x41, 0x4f, 0), [0x02, 0x06]),
        ("opcode, tagged", tagged(0xc1, 0x4f), [0x02, 0x06]),
        ("DDP version, untagged", untagged(0x42, 0x43, 0), [0x12, 0x06]),
        ("DDP version, tagged", tagged(0xc0, 0x40), [0x11, 0x04]),
        ("RDMAP version", tagged(0xc1, 0x80), [0x02, 0x05]),
        ("no header", vec![], [0x20, 0x03]),
    ] {
        let mut b = Side::new(config());
        b.recv(1, 0, 64);
        let (mut raw, _listener) = Raw::initiator(&mut b, 2, &[0x50, 2, 0, 4, 0, 2, 0, 2]);
        b.event(EventKind::Established);
        raw.write(&Raw::fpdu(&ulpdu, true));
        let answer = raw.ulpdu().unwrap_or_else(|| panic!("{name}: FIN instead of a Terminate"));
        assert_eq!((answer[1] & 15, &answer[18..20]), (7, &expected[..]), "{name}: {answer:02x?}");
        assert!(raw.ulpdu().is_none(), "{name}: FIN follows");
        drop(raw);
        b.event(EventKind::Close);
        assert_eq!(Side::wc(&b.recv_cq).status, WcStatus::WrFlushErr, "{name}");
    }
}

/// A length below that of the header, whatever the header says of itself: nothing is read behind it.
///
/// Covers: DEF-34
#[test]
fn def_34_no_fpdu_is_shorter_than_its_header() {
    for (bits, header) in [(0x41u8, 18), (0xc1, 14)] {
        for opcode in 0..16u8 {
            for length in [1, 2, 3, 6, 10, 13, 17].into_iter().filter(|n| *n < header) {
                let mut b = Side::new(config());
                b.recv(1, 0, 64);
                let (mut raw, _listener) = Raw::initiator(&mut b, 2, &[0x50, 2, 0, 4, 0, 2, 0, 2]);
                b.event(EventKind::Established);
                let whole = [&[bits, 0x40 | opcode][..], &[0xff; 16]].concat();
                raw.write(&Raw::fpdu(&whole[..length], true));
                // what follows would be inside of a length that wrapped
                let _ = raw.stream.write_all(&[0xee; 4096]);
                let answer = raw.ulpdu().unwrap_or_else(|| panic!("{bits:#x} {opcode} {length}: no Terminate"));
                assert_eq!((answer[1] & 15, &answer[18..20]), (7, &[0x20, 0x03][..]), "{bits:#x} {opcode} {length}: {answer:02x?}");
                assert!(raw.ulpdu().is_none(), "FIN follows");
                drop(raw);
                b.event(EventKind::Close);
                assert!(b.octets(0, 64).iter().all(|octet| *octet == 0), "{bits:#x} {opcode} {length}");
            }
        }
    }
}

/// The application lets go of its completion queue while messages come: it lives as long as the queue pair, and not longer.
///
/// Covers: DEF-38
#[test]
fn def_38_a_completion_queue_is_let_go_while_messages_come() {
    for round in 0..10 {
        let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
        (0..200).for_each(|n| b.recv(n, 0, 8));
        let before = b.stat("cqsLive");
        let Side { soft, recv_cq, cq, qp, id, cm, .. } = b;
        let feeder = std::thread::spawn(move || {
            for n in 0..200 {
                // the end may come in the middle
                let wr = SendWr { wr_id: n, op: SendOp::Send, sg_list: vec![a.mr.sge(0, 8)], inline: None, flags: SendFlags::empty() };
                if a.qp.post_send(&[wr]).is_err() {
                    break;
                }
            }
            a
        });
        std::thread::sleep(Duration::from_micros(100 * round));
        drop((recv_cq, cq));
        let live = || soft.stats().into_iter().find(|(name, _)| *name == "cqsLive").expect("counter").1;
        assert_eq!(live(), before, "its queue pair has it");
        let a = feeder.join().expect("sent");
        drop(id);
        qp.destroy().expect("destroyed");
        drop((qp, cm));
        let until = Instant::now() + BOUND;
        while live() != before - 2 {
            assert!(Instant::now() < until, "{} completion queues", live());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(a);
    }
}

/// A completion names a queue pair that posted it: no number comes back while completions of it may be there.
///
/// Covers: DEF-44
#[test]
fn def_44_a_completion_is_of_no_other_queue_pair() {
    let a = Side::new(config());
    let init = QpInitAttr { send_cq: a.cq.clone(), recv_cq: a.recv_cq.clone(), cap: QpCap::default(), sq_sig_all: true };
    let mut numbers = std::collections::HashSet::new();
    for n in 0..300 {
        let qp = a.soft.create_qp(&a.pd, &init).expect("queue pair");
        assert!(numbers.insert(qp.qp_num()), "a number again");
        qp.post_recv(&[empty(n)]).expect("post");
        qp.modify(QpState::Error).expect("flushes");
        qp.destroy().expect("destroyed");
        let next = a.soft.create_qp(&a.pd, &init).expect("queue pair");
        assert!(numbers.insert(next.qp_num()), "a number again");
        let wc = Side::wc(&a.recv_cq);
        assert_eq!((wc.qp_num, wc.wr_id, wc.status), (qp.qp_num(), n, WcStatus::WrFlushErr));
        assert_eq!(a.recv_cq.poll(9, &mut Vec::new()), Ok(0));
        next.destroy().expect("destroyed");
    }
}

/// Each queue is drained by a work request that is posted to it in ERROR, whatever the other one completes to.
///
/// Covers: DEF-46
#[test]
fn def_46_both_queues_drain_into_queues_of_their_own() {
    let (a, _b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
    (0..7).for_each(|n| a.qp.post_recv(&[empty(n)]).expect("post"));
    a.qp.modify(QpState::Error).expect("ERROR");
    a.qp.post_send(&[send(100, SendFlags::SIGNALED)]).expect("marker");
    a.qp.post_recv(&[empty(100)]).expect("marker");
    for (cq, before) in [(&a.cq, 0), (&a.recv_cq, 7)] {
        for wr_id in (0..before).chain([100]) {
            let wc = Side::wc(cq);
            assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr));
        }
        assert_eq!(cq.poll(9, &mut Vec::new()), Ok(0));
    }
}

/// Nothing on the way to a connection waits for more octets than there are: no delayed acknowledgement, no gathering of small messages.
///
/// Covers: DEF-59
#[test]
fn def_59_a_set_up_waits_for_no_timer() {
    let quickest = (0..20).map(|_| {
        let (a, b) = (Side::new(config()), Side::new(config()));
        let start = Instant::now();
        drop(pair(a, b, 1));
        start.elapsed()
    });
    // the host's own timers begin at 40 ms
    let quickest = quickest.min().expect("some");
    assert!(quickest < Duration::from_millis(20), "{quickest:?}");
}

/// A Request offers the kinds of RTR that this device makes, and a Reply chooses among those that it takes.
///
/// Covers: DEF-61
#[test]
fn def_61_only_what_can_be_processed_is_offered_and_chosen() {
    for (rtr_write, rtr_read, bits) in [(true, true, 0xc0), (true, false, 0x80), (false, true, 0x40)] {
        let with = || SoftConfig { rtr_write, rtr_read, ..config() };
        let mut a = Side::new(with());
        let mpa = MpaOptions { peer_to_peer: true, ..MpaOptions::default() };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        let param = ConnParam { mpa: Some(mpa), ..a.param(1) };
        a.connect(listener.local_addr().expect("address"), &param);
        let (stream, _) = listener.accept().expect("accept");
        stream.set_read_timeout(Some(BOUND)).expect("timeout");
        let request = Raw { stream, crc: true }.start_up();
        assert_eq!((request[20] & 0x80, request[22] & 0xc0), (0x80, bits), "{request:02x?}");
        a.event(EventKind::ConnectReply);
        let mut b = Side::new(with());
        let listener = b.listen(1);
        let stream = TcpStream::connect(listener.local_addr()).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("timeout");
        let mut raw = Raw { stream, crc: true };
        raw.write(&frame(mpa::Kind::Request, &[0x50, 2, 0, 4, 0xc0, 1, 0xc0, 1]));
        let param = b.param(1);
        b.accept(&param);
        let reply = raw.start_up();
        assert_eq!(reply[20] & 0x40, 0, "RTR by Send is not taken: {reply:02x?}");
        assert!(reply[22] & 0xc0 & !bits == 0 && reply[22] & 0xc0 != 0, "{reply:02x?}");
    }
    let mut none = Side::new(SoftConfig { rtr_write: false, rtr_read: false, ..config() });
    let id = none.id();
    id.set_remote("127.0.0.1:9".parse().expect("address")).expect("remote");
    let mpa = MpaOptions { peer_to_peer: true, ..MpaOptions::default() };
    assert_eq!(id.connect(&ConnParam { mpa: Some(mpa), ..none.param(1) }), Err(Errno::Invalid), "nothing to offer");
    none.id = Some(id);
}

/// Half of a Request, then silence or the end: what was taken for it is given back. A listener is destroyed meanwhile.
///
/// Covers: DEF-42
#[test]
fn def_42_a_set_up_that_breaks_off_anywhere_leaves_nothing() {
    let b = Side::new(SoftConfig { request_timeout: Duration::from_millis(100), ..config() });
    let whole = frame(mpa::Kind::Request, &[0x50, 2, 0, 4, 0, 2, 0, 2]);
    let waits = |name: &str, wanted: u64| {
        let until = Instant::now() + BOUND;
        while b.stat(name) != wanted {
            assert!(Instant::now() < until, "{name} is {}, not {wanted}", b.stat(name));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for kept in 0..=whole.len() {
        let begun = if kept < whole.len() { "halfOpenLive" } else { "pendingLive" };
        for how in 0..3 {
            // silence takes its time: not for every length
            if how == 1 && kept % 8 != 0 {
                continue;
            }
            let listener = b.listen(2);
            let mut stream = TcpStream::connect(listener.local_addr()).expect("connect");
            stream.write_all(&whole[..kept]).expect("write");
            waits(begun, 1);
            match how {
                // the peer leaves, or is silent, or the listener goes
                0 => drop(stream),
                1 => waits("halfOpenLive", 0),
                _ => listener.destroy().expect("destroyed"),
            }
            waits("halfOpenLive", 0);
            if how != 2 {
                listener.destroy().expect("destroyed");
            }
            // one that was whole may have been announced before its listener went, not after (CM-22): nobody keeps it
            if kept == whole.len() {
                if let Ok((id, event)) = b.told.try_recv() {
                    assert_eq!(event.kind, EventKind::ConnectRequest, "{event:?}");
                    id.destroy().expect("destroyed");
                }
            }
            assert!(b.told.try_recv().is_err());
            for live in ["halfOpenLive", "pendingLive", "listensLive", "connectionsLive"] {
                assert_eq!(b.stat(live), 0, "{live}, {kept} octets, {how}");
            }
        }
    }
    assert_eq!((b.stat("qpsLive"), b.stat("cqsLive"), b.stat("mrsLive")), (1, 2, 1));
    let rows = b.cm.counters().rows();
    for name in ["cmIds", "cmIdRefs", "cmQpRefs"] {
        assert_eq!(rows.iter().find(|(n, _)| *n == name).expect("counter").1, 0, "{name}");
    }
}
