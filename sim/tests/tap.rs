// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TAP wire against this machine's network stack. Needs the right to make interfaces, so `make tap` runs these tests.
use ironwarp_sim::wire::{Frame, SentFrame, TapDevice, TapError, Wire};
use std::{
    process::Command,
    time::{Duration, Instant},
};

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip runs (package iproute2)");
    assert!(status.success(), "ip {arguments}");
}

fn tap(name: &str) -> TapDevice {
    TapDevice::open(name, true).unwrap_or_else(|e| panic!("{e}"))
}

fn receive(tap: &mut TapDevice, wanted: impl Fn(&Frame) -> bool) -> Frame {
    let end = Instant::now() + Duration::from_secs(5);
    for now in 0.. {
        if let Some(frame) = tap.receive(0, now).filter(&wanted) {
            return frame;
        }
        assert!(Instant::now() < end, "the stack did not answer");
    }
    unreachable!()
}

/// Covers: ETH-4
#[test]
#[ignore = "needs the right to make interfaces: `make tap` runs it"]
fn frames_of_the_stack_are_padded_to_60_octets() {
    let name = format!("iwt{}", std::process::id() % 100_000);
    let mut tap = tap(&name);
    ip(&format!("addr add 198.51.100.1/24 dev {name}"));
    ip(&format!("link set {name} up"));
    // who has 198.51.100.1? 42 octets in the stack's answer
    let us = [2, 0, 0, 0, 0, 7];
    let mut request =
        [[0xff; 6].as_slice(), &us, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &us, &[198, 51, 100, 7], &[0; 6], &[198, 51, 100, 1]].concat();
    request.resize(60, 0);
    tap.send(0, SentFrame { frame: Frame::good(request), first: 0, last: 7, end: 10 });
    let answer = receive(&mut tap, |f| f.octets[12..14] == [8, 6] && f.octets[20..22] == [0, 2]);
    assert_eq!(answer.octets.len(), 60);
    assert_eq!(answer.octets[28..32], [198, 51, 100, 1]);
    assert_eq!(answer.octets[42..], [0; 18]);
    assert_eq!(tap.lost(), 0);
    assert!(!answer.error);
}

#[test]
fn a_name_that_no_interface_can_have_is_refused() {
    assert!(matches!(TapDevice::open("a name that is too long", true), Err(TapError::Name(_))));
    assert!(matches!(TapDevice::open("a/b", true), Err(TapError::Name(_))));
}

#[test]
#[ignore = "needs the right to make interfaces: `make tap` runs it"]
fn an_interface_is_not_made_unasked_and_errors_say_what_to_do() {
    assert!(matches!(TapDevice::open("iwnotthere", false), Err(TapError::Missing(_))));
    let name = format!("iwu{}", std::process::id() % 100_000);
    let first = tap(&name);
    let second = TapDevice::open(&name, false).map(|_| ()).expect_err("one user only");
    assert!(matches!(second, TapError::Busy(_)), "{second}");
    drop(first);
    // a program that another test starts may hold the descriptor until its exec
    let end = Instant::now() + Duration::from_secs(5);
    while !matches!(TapDevice::open(&name, false), Err(TapError::Missing(_))) {
        assert!(Instant::now() < end, "gone with its user");
    }
    let down = TapDevice::open(&name, true).map(|mut tap| {
        tap.send(0, SentFrame { frame: Frame::good(vec![0; 60]), first: 0, last: 7, end: 10 });
        tap.lost()
    });
    assert!(matches!(down, Ok(1)), "the interface is down: {down:?}");
}

/// The driver of this adapter is not there: nothing answers, but frames reach the core, and the pace is kept.
#[test]
#[ignore = "needs the right to make interfaces: `make tap` runs it"]
fn a_served_adapter_wakes_for_frames_and_keeps_its_rate() {
    use ironwarp_sim::{server::Pace, AdapterConfig, SimServer, World};
    let name = format!("iwv{}", std::process::id() % 100_000);
    let tap = tap(&name);
    ip(&format!("addr add 198.51.101.1/24 dev {name}"));
    ip(&format!("link set {name} up"));
    let mut world = World::new(0);
    let id = world.add(&AdapterConfig::new("a", 1));
    world.adapter_mut(id).recorder_mut().keep(1000);
    world.connect(Box::new(tap), &[id]);
    let directory = tempfile::tempdir().expect("directory");
    let server = SimServer::start(world, &[&directory.path().join("a.sock")], Pace::Wall { rate: 20_000 }).expect("served");
    let before = server.cycles();
    let start = Instant::now();
    // nobody answers: the stack asks three times for the address, a second apart
    let ping = Command::new("ping").args(["-c", "1", "-W", "2", "198.51.101.2"]).output().expect("ping runs (package iputils-ping)");
    assert!(!ping.status.success());
    let rate = (server.cycles() - before) as f64 / start.elapsed().as_secs_f64();
    assert!(rate < 25_000.0, "{rate} cycles a second");
    let world = server.stop();
    let asked = world.adapter(id).recorder().iter().filter(|r| matches!(r, ironwarp_sim::Record::FrameIn { len: 60, error: false, .. }));
    assert!(asked.count() >= 1, "ARP requests reached the core");
}
