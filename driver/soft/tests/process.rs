// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that die, and traffic that nobody thought of.
mod common;
use common::{config, pair, Side, ALL};
use ironwarp_iwcm::EventKind;
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;
use rand_chacha::{
    rand_core::{RngCore, SeedableRng},
    ChaCha8Rng,
};
use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

/// The child's part: connects, writes for ever.
#[test]
#[ignore = "started by a_killed_process_is_seen_by_its_peer"]
fn child_that_writes_for_ever() {
    let Ok(to) = std::env::var("IRONWARP_SOFT_PEER") else { return };
    let to: SocketAddr = to.parse().expect("address");
    let mut a = Side::new(config());
    let param = a.param(4);
    a.connect(to, &param);
    let (_, reply) = a.event(EventKind::ConnectReply);
    let stag = u32::from_be_bytes(reply.private_data[..4].try_into().expect("key"));
    let addr = u64::from_be_bytes(reply.private_data[4..12].try_into().expect("address"));
    for n in 0.. {
        a.send(n, SendOp::Write { remote_addr: addr, rkey: stag }, 0, 1 << 20);
        a.send(n, SendOp::Read { remote_addr: addr, rkey: stag }, 0, 1 << 18);
        a.sent(n);
        a.sent(n);
    }
}

/// Covers: CM-42
#[test]
fn a_killed_process_is_seen_by_its_peer() {
    let mut b = Side::new(config());
    let listener = b.listen(1);
    let mut child = Command::new(std::env::current_exe().expect("own name"))
        .args(["--ignored", "--exact", "child_that_writes_for_ever"])
        .env("IRONWARP_SOFT_PEER", listener.local_addr().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("child");
    for n in 0..4 {
        b.recv(n, 0, 10);
    }
    let octets = [&b.mr.rkey().to_be_bytes()[..], &b.mr.addr().to_be_bytes()[..]].concat();
    let private_data = ironwarp_iwcm::PrivateData::new(&octets).expect("short");
    let param = ironwarp_iwcm::ConnParam { private_data, ..b.param(4) };
    b.accept(&param);
    b.event(EventKind::Established);
    while b.stat("iwInRdmaReads") < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("kill");
    child.wait().expect("ended");
    while b.told.recv_timeout(common::BOUND).expect("the peer sees it").1.kind != EventKind::Close {}
    for n in 0..4 {
        let wc = Side::wc(&b.recv_cq);
        assert_eq!((wc.wr_id, wc.status), (n, WcStatus::WrFlushErr));
    }
    assert_eq!(b.stat("connectionsLive"), 0);
    // and the next one connects
    let mut a = Side::new(config());
    b.qp.modify(QpState::Init).expect("again");
    let param = a.param(1);
    a.connect(listener.local_addr(), &param);
    let param = b.param(1);
    b.accept(&param);
    assert_eq!(a.event(EventKind::ConnectReply).1.status, Ok(()));
}

/// Covers: RDM-4
#[test]
fn random_traffic() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| std::process::id().into());
    let rounds: u64 = std::env::var("ROUNDS").ok().and_then(|s| s.parse().ok()).unwrap_or(300);
    println!("replay: SEED={seed} ROUNDS={rounds} cargo test -p ironwarp-soft --test process random_traffic");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = move |n: u64| rng.next_u64() % n;
    let set_up = |below: &mut dyn FnMut(u64) -> u64| {
        let mut config = SoftConfig { max_mulpdu: [128, 500, 1442, 9000, 65535][below(5) as usize], ..config() };
        config.mpa.crc = below(2) == 0;
        config.mpa.markers = below(2) == 0;
        config
    };
    const HALF: usize = 1 << 19;
    let (first, second) = (set_up(&mut below), set_up(&mut below));
    let (a, b, _listener) = pair(Side::sized(first, 2 * HALF, ALL), Side::sized(second, 2 * HALF, ALL), 4);
    a.fill(1);
    b.fill(2);
    // what each side's memory must hold: the upper half is the peer's to write
    let mut model = [a.octets(0, 2 * HALF), b.octets(0, 2 * HALF)];
    let sides = [&a, &b];
    // the responder may speak
    b.recv(0, 0, 0);
    a.send(0, SendOp::Send, 0, 0);
    a.sent(0);
    b.received(0, 0);
    for n in 1..=rounds {
        let from = below(2) as usize;
        let (me, peer) = (sides[from], sides[1 - from]);
        let size = [0, 1, below(2000), below(100_000)][below(4) as usize] as usize;
        let at = below((HALF - size) as u64) as usize;
        let there = HALF + below((HALF - size) as u64) as usize;
        let remote = (peer.mr.addr() + there as u64, peer.mr.rkey());
        match below(3) {
            0 => {
                me.send(n, SendOp::Write { remote_addr: remote.0, rkey: remote.1 }, at, size);
                me.sent(n);
                // a Send behind it says that it is there
                peer.recv(n, 0, 0);
                me.send(n, SendOp::Send, 0, 0);
                me.sent(n);
                peer.received(n, 0);
                let octets = model[from][at..at + size].to_vec();
                model[1 - from][there..there + size].copy_from_slice(&octets);
            }
            1 => {
                me.send(n, SendOp::Read { remote_addr: remote.0, rkey: remote.1 }, at, size);
                me.sent(n);
                let octets = model[1 - from][there..there + size].to_vec();
                model[from][at..at + size].copy_from_slice(&octets);
            }
            _ => {
                peer.recv(n, there, size);
                me.send(n, SendOp::Send, at, size);
                me.sent(n);
                peer.received(n, size);
                let octets = model[from][at..at + size].to_vec();
                model[1 - from][there..there + size].copy_from_slice(&octets);
            }
        }
    }
    for (side, model) in sides.iter().zip(&model) {
        assert!(side.octets(0, 2 * HALF) == *model, "SEED={seed}: memory differs");
    }
}

/// Covers: CM-30
#[test]
fn a_queue_pair_that_nobody_holds_goes_with_its_connection() {
    let (a, b, _listener) = pair(Side::new(config()), Side::new(config()), 1);
    let Side { qp, id, soft, told, .. } = a;
    drop(qp);
    while told.recv_timeout(common::BOUND).expect("an end").1.kind != EventKind::Close {}
    b.event(EventKind::Close);
    let live = || soft.stats().into_iter().find(|(n, _)| *n == "qpsLive").expect("counter").1;
    let until = std::time::Instant::now() + common::BOUND;
    while live() > 0 {
        assert!(std::time::Instant::now() < until, "it is still there");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(id);
}
