// SPDX-License-Identifier: MIT OR Apache-2.0
//! One suite for the data path of every device: what a user of the verbs may rely on, whoever frames, places and completes. As in
//! [`crate::conformance`], a device passes if each function of [`SUITE`] returns.
use crate::{
    conformance::{Pair, Rig, Scenario, Side},
    traffic::{self, Traffic},
};
use ironwarp_verbs::{Access, Mr, Qp, RecvWr, SendFlags, SendOp, SendWr, Wc, WcOpcode, WcStatus};
use std::sync::Arc;

/// All rights.
const ALL: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);

/// The suite.
pub const SUITE: &[Scenario] = &[
    ("a Write lands, to the octet", writes),
    ("Sends go to receives in order", sends),
    ("a Read brings what is there", reads),
    ("a connection that is aborted flushes what was posted", flushed),
    ("random traffic is what a model of the memory says", random_traffic),
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
