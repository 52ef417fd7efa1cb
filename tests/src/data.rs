// SPDX-License-Identifier: MIT OR Apache-2.0
//! One suite for the data path of every device: what a user of the verbs may rely on, whoever frames, places and completes. As in
//! [`crate::conformance`], a device passes if each function of [`SUITE`] returns.
use crate::{
    conformance::{param, Pair, Rig, Scenario, Side, BOUND},
    traffic::{self, Traffic},
};
use ironwarp_verbs::{
    Access, Cq, Errno, Mr, Qp, QpCap, QpInitAttr, QpState, RecvWr, SendFlags, SendOp, SendWr, Terminate, Wc, WcOpcode, WcStatus,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// All rights.
const ALL: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);

/// The suite.
pub const SUITE: &[Scenario] = &[
    ("a Write lands, to the octet", writes),
    ("Sends go to receives in order", sends),
    ("a Read brings what is there", reads),
    ("a connection that is aborted flushes what was posted", flushed),
    ("random traffic is what a model of the memory says", random_traffic),
    ("a full queue takes nothing and loses nothing", full_queues),
    ("a completion queue wakes those who armed it", armed),
    ("a completion queue that overflows says so", overflown),
    ("a fenced Send sends what the Read brought", fenced),
    ("a region that goes while it is written to", target_goes),
    ("a region that goes while it is sent", source_goes),
];

/// Octets that tell their place.
fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(29).wrapping_add((n >> 8) as u8).wrapping_add(seed)).collect()
}

fn region(side: &Side, length: usize) -> Arc<dyn Mr> {
    side.region(length, ALL)
}

fn contents(mr: &Arc<dyn Mr>, offset: usize, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    mr.read(offset, &mut octets).expect("inside");
    octets
}

fn post(qp: &Arc<dyn Qp>, wr_id: u64, op: SendOp, mr: &Arc<dyn Mr>, offset: usize, length: usize) {
    let wr = SendWr { wr_id, op, sg_list: vec![mr.sge(offset, length)], inline: None, flags: SendFlags::SIGNALED };
    qp.post_send(&[wr]).expect("posted");
}

fn expect(side: &Side, wr_id: u64, opcode: WcOpcode) -> Wc {
    let wc = side.completion();
    assert_eq!((wc.wr_id, wc.opcode, wc.status), (wr_id, opcode, WcStatus::Success), "{wc:?}");
    wc
}

/// Lengths around everything that is a boundary: a beat, a page, a segment with both header kinds, several segments.
const LENGTHS: [usize; 16] = [0, 1, 7, 8, 9, 63, 64, 65, 1439, 1440, 1441, 1445, 1446, 4097, 9000, 65_536];

fn writes(rig: &Rig) {
    let pair = rig.pair();
    let (from, to) = (region(&rig.client, 70_000), region(&rig.server, 70_000));
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let (offset, target) = (3 * n, 5 * n + 1);
        let octets = pattern(length, n as u8);
        from.write(offset, &octets).expect("inside");
        to.write(0, &[0xee; 70_000]).expect("inside");
        let op = SendOp::Write { remote_addr: to.addr() + target as u64, rkey: to.rkey() };
        post(&pair.client_qp, n as u64, op, &from, offset, length);
        expect(&rig.client, n as u64, WcOpcode::RdmaWrite);
        // acknowledged is not placed: a Send behind it is
        pair.server_qp.post_recv(&[RecvWr { wr_id: 77, sg_list: vec![] }]).expect("posted");
        let inline = SendWr { wr_id: 78, op: SendOp::Send, sg_list: vec![], inline: Some(vec![]), flags: SendFlags::SIGNALED };
        pair.client_qp.post_send(&[inline]).expect("posted");
        expect(&rig.server, 77, WcOpcode::Recv);
        expect(&rig.client, 78, WcOpcode::Send);
        assert!(contents(&to, target, length) == octets, "{length} octets");
        let rest = contents(&to, 0, 70_000);
        assert!(rest[..target].iter().chain(&rest[target + length..]).all(|o| *o == 0xee), "nothing beside {length} octets");
    }
    pair.end();
}

fn sends(rig: &Rig) {
    let pair = rig.pair();
    let (from, to) = (region(&rig.client, 70_000), region(&rig.server, 150_000));
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let octets = pattern(length, n as u8);
        from.write(0, &octets).expect("inside");
        // in three pieces
        let (a, b) = (length / 3, length / 2);
        let pieces = vec![to.sge(100, a), to.sge(40_000, b - a), to.sge(80_000, length - b)];
        pair.server_qp.post_recv(&[RecvWr { wr_id: n as u64, sg_list: pieces }]).expect("posted");
        post(&pair.client_qp, n as u64, SendOp::Send, &from, 0, length);
        expect(&rig.client, n as u64, WcOpcode::Send);
        let wc = expect(&rig.server, n as u64, WcOpcode::Recv);
        assert_eq!(wc.byte_len as usize, length);
        let got = [contents(&to, 100, a), contents(&to, 40_000, b - a), contents(&to, 80_000, length - b)].concat();
        assert!(got == octets, "{length} octets");
    }
    pair.end();
}

fn reads(rig: &Rig) {
    let pair = rig.pair();
    let (here, there) = (region(&rig.client, 70_000), region(&rig.server, 70_000));
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let octets = pattern(length, n as u8);
        there.write(2 * n, &octets).expect("inside");
        let op = SendOp::Read { remote_addr: there.addr() + 2 * n as u64, rkey: there.rkey() };
        post(&pair.client_qp, n as u64, op, &here, 7 * n, length);
        let wc = expect(&rig.client, n as u64, WcOpcode::RdmaRead);
        assert_eq!(wc.byte_len as usize, length);
        assert!(contents(&here, 7 * n, length) == octets, "{length} octets");
    }
    pair.end();
}

fn random_traffic(rig: &Rig) {
    let seed = crate::seed("suite_of_the_data_path", 1);
    for (connections, operations) in [(1, 60), (3, 150)] {
        traffic::run(rig, &Traffic { seed, connections, operations, longest: 20_000, ..Traffic::default() });
    }
}

fn flushed(rig: &Rig) {
    let pair: Pair = rig.pair();
    let to = region(&rig.server, 100);
    for n in 0..3 {
        pair.server_qp.post_recv(&[RecvWr { wr_id: n, sg_list: vec![to.sge(0, 10)] }]).expect("posted");
    }
    pair.client.disconnect(true).expect("aborts");
    for n in 0..3 {
        let wc = rig.server.completion();
        assert_eq!((wc.wr_id, wc.status), (n, WcStatus::WrFlushErr));
    }
    pair.end();
}

/// Watched for a wake-up that must not come.
const SILENCE: Duration = Duration::from_millis(50);

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < BOUND, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A pair of which the server has queues of its own: these depths, and a completion queue for its receives.
fn pair_with(rig: &Rig, cap: QpCap, cqe: u32) -> (Pair, Arc<dyn Cq>) {
    let cq = rig.server.verbs.create_cq(cqe).expect("a completion queue");
    let init = QpInitAttr { send_cq: rig.server.cq.clone(), recv_cq: cq.clone(), cap, sq_sig_all: false };
    let server = rig.server.verbs.create_qp(&rig.server.pd, &init).expect("a queue pair");
    let client = rig.client.qp();
    let (ask, answer) = (param(&client, b""), param(&server, b""));
    (rig.pair_of(client, server, &ask, &answer), cq)
}

fn nothing(wr_id: u64, flags: SendFlags) -> SendWr {
    SendWr { wr_id, op: SendOp::Send, sg_list: vec![], inline: Some(vec![]), flags: flags | SendFlags::SIGNALED }
}

fn receives(qp: &Arc<dyn Qp>, count: u64) {
    let list: Vec<_> = (0..count).map(|wr_id| RecvWr { wr_id, sg_list: vec![] }).collect();
    qp.post_recv(&list).expect("posted");
}

/// The responder may not send before the initiator has, so its queue fills and stays full.
fn full_queues(rig: &Rig) {
    let cap = QpCap { max_send_wr: 5, max_recv_wr: 3, ..QpCap::default() };
    let (pair, cq) = pair_with(rig, cap, 16);
    receives(&pair.client_qp, 5);
    let list: Vec<_> = (0..4).map(|n| nothing(n, SendFlags::empty())).collect();
    pair.server_qp.post_send(&list).expect("posted");
    let more: Vec<_> = (4..7).map(|n| nothing(n, SendFlags::empty())).collect();
    assert_eq!(pair.server_qp.post_send(&more), Err((1, Errno::NoMemory)), "one of three");
    assert_eq!(pair.server_qp.post_send(&more), Err((0, Errno::NoMemory)));
    let list: Vec<_> = (0..5).map(|wr_id| RecvWr { wr_id, sg_list: vec![] }).collect();
    assert_eq!(pair.server_qp.post_recv(&list), Err((3, Errno::NoMemory)));
    pair.client_qp.post_send(&[nothing(9, SendFlags::empty())]).expect("posted");
    for n in 0..5 {
        expect(&rig.server, n, WcOpcode::Send);
    }
    let at_client: Vec<_> = (0..6).map(|_| rig.client.completion()).map(|wc| (wc.wr_id, wc.opcode, wc.status)).collect();
    let received: Vec<_> = at_client.iter().filter(|(_, opcode, _)| *opcode == WcOpcode::Recv).map(|(wr_id, ..)| *wr_id).collect();
    assert_eq!(received, [0, 1, 2, 3, 4], "{at_client:?}");
    let mut got = Vec::new();
    until("a receive", || cq.poll(9, &mut got).expect("polled") > 0);
    assert_eq!((got.len(), got[0].wr_id), (1, 0));
    // there is room again
    pair.server_qp.post_send(&[nothing(7, SendFlags::empty())]).expect("posted");
    pair.server_qp.post_recv(&[RecvWr { wr_id: 3, sg_list: vec![] }]).expect("posted");
    pair.end();
}

fn armed(rig: &Rig) {
    let (pair, cq) = pair_with(rig, QpCap::default(), 16);
    receives(&pair.server_qp, 6);
    let send = |flags| {
        pair.client_qp.post_send(&[nothing(1, flags)]).expect("posted");
        expect(&rig.client, 1, WcOpcode::Send);
    };
    let mut got = Vec::new();
    let mut take = |count| {
        got.clear();
        until("a receive", || {
            cq.poll(9, &mut got).expect("polled");
            got.len() >= count
        });
        got.iter().map(|wc| (wc.wr_id, wc.solicited)).collect::<Vec<_>>()
    };
    cq.req_notify(false).expect("armed");
    assert_eq!(cq.wait(SILENCE), Ok(false), "nothing has come");
    send(SendFlags::empty());
    assert_eq!(cq.wait(BOUND), Ok(true));
    assert_eq!(take(1), [(0, false)]);
    send(SendFlags::SOLICITED);
    assert_eq!(take(1), [(1, true)]);
    assert_eq!(cq.wait(SILENCE), Ok(false), "once is once");
    cq.req_notify(true).expect("armed");
    send(SendFlags::empty());
    assert_eq!(cq.wait(SILENCE), Ok(false), "not solicited");
    send(SendFlags::SOLICITED);
    assert_eq!(cq.wait(BOUND), Ok(true));
    assert_eq!(take(2), [(2, false), (3, true)]);
    // an error wakes those, too
    cq.req_notify(true).expect("armed");
    pair.client.disconnect(true).expect("resets");
    assert_eq!(cq.wait(BOUND), Ok(true));
    assert_eq!(take(2), [(4, false), (5, false)]);
    pair.end();
}

fn overflown(rig: &Rig) {
    let (pair, cq) = pair_with(rig, QpCap::default(), 4);
    receives(&pair.server_qp, 7);
    for n in 0..7 {
        pair.client_qp.post_send(&[nothing(n, SendFlags::empty())]).expect("posted");
    }
    // a Read is answered when all Sends before it are delivered; a device may also end the connection of a queue that is of no use any more
    let op = SendOp::Read { remote_addr: 0, rkey: 0 };
    let read = SendWr { wr_id: 7, op, sg_list: vec![], inline: None, flags: SendFlags::SIGNALED };
    pair.client_qp.post_send(&[read]).expect("posted");
    for n in 0..8 {
        let wc = rig.client.completion();
        assert!(wc.wr_id == n && matches!(wc.status, WcStatus::Success | WcStatus::WrFlushErr), "{wc:?}");
    }
    let mut got = Vec::new();
    until("an error", || match cq.poll(1, &mut got) {
        Ok(_) => false,
        Err(e) => {
            assert_eq!(e, Errno::Overflow);
            true
        }
    });
    let good: Vec<_> = got.iter().filter(|wc| wc.status == WcStatus::Success).map(|wc| wc.wr_id).collect();
    assert_eq!(good, [0, 1, 2, 3], "those before are good");
    assert_eq!(cq.req_notify(false), Err(Errno::Overflow));
    pair.end();
}

fn fenced(rig: &Rig) {
    let pair = rig.pair();
    let length = 30_000;
    let (here, there) = (region(&rig.client, length), region(&rig.server, 2 * length));
    let octets = pattern(length, 7);
    there.write(0, &octets).expect("inside");
    pair.server_qp.post_recv(&[RecvWr { wr_id: 1, sg_list: vec![there.sge(length, length)] }]).expect("posted");
    let op = SendOp::Read { remote_addr: there.addr(), rkey: there.rkey() };
    let read = SendWr { wr_id: 2, op, sg_list: vec![here.sge(0, length)], inline: None, flags: SendFlags::empty() };
    let flags = SendFlags::SIGNALED | SendFlags::FENCE;
    let send = SendWr { wr_id: 3, op: SendOp::Send, sg_list: vec![here.sge(0, length)], inline: None, flags };
    pair.client_qp.post_send(&[read, send]).expect("posted");
    expect(&rig.client, 3, WcOpcode::Send);
    expect(&rig.server, 1, WcOpcode::Recv);
    assert!(contents(&there, length, length) == octets);
    pair.end();
}

/// Long enough to be under way for a while.
const LONG: usize = 200_000;

/// A long Write whose first octets have come.
fn under_way(pair: &Pair, from: &Arc<dyn Mr>, to: &Arc<dyn Mr>, octets: &[u8]) {
    from.write(0, octets).expect("inside");
    post(&pair.client_qp, 1, SendOp::Write { remote_addr: to.addr(), rkey: to.rkey() }, from, 0, octets.len());
    until("the first octets", || contents(to, 0, 8) == octets[..8]);
}

fn target_goes(rig: &Rig) {
    let pair = rig.pair();
    let (from, to) = (region(&rig.client, LONG), region(&rig.server, LONG));
    let octets = pattern(LONG, 1);
    under_way(&pair, &from, &to, &octets);
    to.dereg().expect("deregistered");
    let left = contents(&to, 0, LONG);
    assert!(left.iter().zip(&octets).all(|(now, octet)| *now == *octet || *now == 0));
    assert_eq!(rig.client.completion().wr_id, 1);
    if left != octets {
        let unknown = Terminate { layer: 1, etype: 1, code: 0 };
        until("a Terminate", || pair.server_qp.query().state == QpState::Error && pair.client_qp.query().state == QpState::Error);
        assert_eq!((pair.server_qp.query().terminate_out, pair.client_qp.query().terminate_in), (Some(unknown), Some(unknown)));
    }
    assert!(contents(&to, 0, LONG) == left, "DDP-12");
    pair.end();
}

fn source_goes(rig: &Rig) {
    let pair = rig.pair();
    let (from, to) = (region(&rig.client, LONG), region(&rig.server, LONG));
    let octets = pattern(LONG, 1);
    under_way(&pair, &from, &to, &octets);
    from.dereg().expect("deregistered");
    let secret: Vec<u8> = octets.iter().map(|octet| !octet | 1).collect();
    from.write(0, &secret).expect("inside");
    let wc = rig.client.completion();
    assert_eq!(wc.wr_id, 1);
    if wc.status == WcStatus::Success {
        until("all octets", || contents(&to, 0, LONG) == octets);
    } else {
        until("the end", || pair.server_qp.query().state == QpState::Error);
    }
    let came = contents(&to, 0, LONG);
    assert!(came.iter().zip(&octets).all(|(now, octet)| *now == *octet || *now == 0), "nothing of what was written afterwards");
    pair.end();
}
