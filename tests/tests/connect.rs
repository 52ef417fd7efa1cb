// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections between two adapters, each driven by the production driver: set-up, refusal, close, reset, and every segment of them
//! lost, doubled, late and damaged.
use ironwarp_abi::Counter;
use ironwarp_rnic::{
    AcceptParam, Backlog, Config, ConnectParam, Connection, ConnectionState, Error, Event, Listener, Refusal, Rule, StartUp, TcpSettings,
};
use ironwarp_sim::{
    bus::lock,
    wire::{Fault, FaultHandle, FaultRates},
    SharedWorld,
};
use ironwarp_tests::{address, assert_clean, config, count, counter, counters, faulty_pair, seed, Attached, ANY};
use rand::{rngs::StdRng, Rng, SeedableRng};
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

const PORT: u16 = 4791;
const US: Duration = Duration::from_micros(1);
/// Bound of every wait for what must come, adapter time.
const BOUND: Duration = Duration::from_millis(40);
/// Of the connections: TCP's and MPA's times, shrunk a thousand times.
const RTO_US: u32 = 500;
const CONNECT_TIMEOUT_US: u32 = 20_000;
const TWO_MSL_US: u32 = 1_000;
/// Random lives.
const LIVES: usize = 60;
/// No faults by chance; a frame that waits for the next goes alone after three retransmission time-outs at most.
const HOLD: FaultRates = FaultRates {
    loss: 0.0,
    duplication: 0.0,
    reorder: 0.0,
    corruption: 0.0,
    unseen_corruption: 0.0,
    delay: 0.0,
    delay_cycles: (1000, 10_000),
    hold_bound: 64 * 3 * RTO_US as u64,
};

fn settings(n: u8, seed: u64) -> Config {
    let tcp = TcpSettings {
        rto_init_us: Some(RTO_US),
        rto_min_us: Some(RTO_US),
        rto_max_us: Some(8 * RTO_US),
        r2_us: Some(30_000),
        r2_syn_us: Some(30_000),
        two_msl_us: Some(TWO_MSL_US),
        mpa_timeout_us: Some(10_000),
        connect_timeout_us: Some(CONNECT_TIMEOUT_US),
        close_timeout_us: Some(20_000),
        refusal_timeout_us: Some(2000),
        spare_slots: Some(0),
        ..TcpSettings::default()
    };
    // no sharing: nobody's segments are answered by RST (PDB-4)
    Config { tcp, share: false, arp_retry_us: Some(300), ..config(n, seed) }
}

/// Two adapters and what is between them.
struct Pair {
    world: SharedWorld,
    a: Attached,
    b: Attached,
    faults: FaultHandle,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self::with(seed, settings)
    }
    fn with(seed: u64, settings: impl Fn(u8, u64) -> Config) -> Self {
        let (world, a, b, faults) = faulty_pair(seed, HOLD, |n| settings(n, seed));
        Pair { world, a, b, faults }
    }
    fn listen(&mut self) -> Listener {
        self.b.create_listen(ANY, PORT, 32).expect("LISTEN_REPLY")
    }
    /// A connection in full operation: A's end, B's end.
    fn established(&mut self) -> (Connection, Connection) {
        let at_a = self.a.connect(&to_b()).expect("taken");
        let (at_b, _) = requested(&mut self.b);
        self.b.accept(&at_b, &AcceptParam::default()).expect("taken");
        assert_eq!(reply(&mut self.a, at_a).0, Ok(()));
        expect_established(&mut self.b, at_b);
        (at_a, at_b)
    }
    /// Nothing lives, nothing is owed, what was made is freed, no rule was broken.
    fn assert_over(&mut self) {
        lock(&self.world).run(64 * u64::from(TWO_MSL_US) * 2);
        for (name, rnic) in [("A", &mut self.a), ("B", &mut self.b)] {
            assert_eq!(rnic.poll_event().expect("adapter"), None, "{name}");
            let odd: u64 = rnic.oddities().rows().iter().map(|row| row.1).sum();
            assert_eq!((rnic.connections(), odd), (0, 0), "{name}: {:?}", rnic.oddities());
            assert_eq!(counter(rnic, Counter::ConnCreated), counter(rnic, Counter::ConnFreed), "{name}");
        }
        assert_clean(&self.world);
    }
}

fn to_b() -> ConnectParam {
    ConnectParam::new(SocketAddrV4::new(address(2), PORT))
}

/// An Ethernet frame with IPv4 and TCP in it.
fn is_tcp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&6)
}

/// Until no connection lives; what is told meanwhile is thrown away.
fn let_all_end(rnic: &mut Attached) {
    for _ in 0..400 {
        while rnic.poll_event().expect("adapter").is_some() {}
        if rnic.connections() == 0 {
            return;
        }
        rnic.wait_event(BOUND / 400).expect("adapter");
    }
    panic!("{:?} live on", rnic.connection_rows());
}

fn next(rnic: &mut Attached) -> Event {
    match rnic.wait_event(BOUND).expect("adapter") {
        Some(event) => event,
        None => panic!("no event within {BOUND:?}: {:?} {:?}", rnic.connection_rows(), counters(rnic)),
    }
}

fn requested(rnic: &mut Attached) -> (Connection, StartUp) {
    match next(rnic) {
        Event::ConnectRequest { connection, start, .. } => (connection, start),
        other => panic!("{other:?}"),
    }
}

fn reply(rnic: &mut Attached, of: Connection) -> (Result<(), Refusal>, StartUp) {
    match next(rnic) {
        Event::ConnectReply { connection, result, start } if connection == of => (result, start),
        other => panic!("{other:?}"),
    }
}

fn expect_established(rnic: &mut Attached, of: Connection) -> StartUp {
    match next(rnic) {
        Event::Established { connection, start } if connection == of => start,
        other => panic!("{other:?}"),
    }
}

/// CLOSE and FREED, perhaps after DISCONNECT; the status of CLOSE.
fn expect_end(rnic: &mut Attached, of: Connection) -> Result<(), Refusal> {
    let mut event = next(rnic);
    if (event == Event::Disconnect { connection: of }) {
        event = next(rnic);
    }
    let Event::Close { connection, result } = event else { panic!("{event:?}") };
    assert_eq!(connection, of);
    expect_freed(rnic, of);
    result
}

fn expect_freed(rnic: &mut Attached, of: Connection) {
    assert_eq!(next(rnic), Event::ConnectionFreed { connection: of });
}

/// An adapter that is reset leaves no stream behind: each of its peers hears so by RST, at once and not by a time-out; the driver that detaches tells its own
/// user the end of each, once.
///
/// Covers: CM-35, CM-42
#[test]
fn a_reset_resets_every_stream_on_the_wire() {
    let mut pair = Pair::new(37);
    pair.listen();
    let mut open = vec![];
    for _ in 0..5 {
        open.push(pair.established());
    }
    // and one that waits for B's user
    let waiting_a = pair.a.connect(&to_b()).expect("taken");
    let (waiting_b, _) = requested(&mut pair.b);
    let before = counter(&mut pair.b, Counter::TcpTimeouts);
    let mut ends = pair.a.detach();
    for of in open.iter().map(|c| c.0) {
        let at = ends.iter().position(|e| matches!(e, Event::Close { connection, .. } if *connection == of)).expect("CLOSE");
        ends.remove(at);
    }
    assert!(ends.iter().any(|e| matches!(e, Event::ConnectReply { connection, result: Err(_), .. } if *connection == waiting_a)));
    // the order among them is nobody's promise
    let (mut closed, mut freed) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..2 * open.len() {
        let new = match next(&mut pair.b) {
            Event::Close { connection, result: Err(Refusal::Reset) } => closed.insert(connection.handle.0),
            Event::ConnectionFreed { connection } => closed.contains(&connection.handle.0) && freed.insert(connection.handle.0),
            other => panic!("{other:?}"),
        };
        assert!(new, "once");
    }
    assert_eq!(freed, open.iter().map(|c| c.1.handle.0).collect());
    assert_eq!(counter(&mut pair.b, Counter::TcpTimeouts), before, "by RST, not by time-outs");
    assert!(matches!(pair.b.accept(&waiting_b, &AcceptParam::default()), Err(Error::Refused { refusal: Refusal::Reset, .. })));
    assert_clean(&pair.world);
}

// ---- set-up

/// Set-up rules: a SYN that one denies is answered as if nobody listened, a CONNECT by -EPERM before anything leaves; the first that matches decides;
/// what exists goes on; a rule that is taken out is gone. Both sides count.
#[test]
fn set_up_rules_decide_who_may_connect() {
    let mut pair = Pair::new(31);
    pair.listen();
    let rule = |text: &str| text.parse::<Rule>().expect(text);
    let (at_a, at_b) = pair.established();
    // only the port of the listener, only A's network, and only what comes
    for other in [format!("deny in {}", address(3)), format!("deny in any {}", PORT + 1), "deny out any".to_owned()] {
        pair.b.rule_set(0, &rule(&other)).expect("set");
        let (at_a, at_b) = pair.established();
        pair.a.abort(&at_a).expect("taken");
        assert_eq!(expect_end(&mut pair.a, at_a), Err(Refusal::Reset));
        assert_eq!(expect_end(&mut pair.b, at_b), Err(Refusal::Reset), "{other}");
    }
    pair.b.rule_set(1, &rule(&format!("deny in {}/24 {PORT}", address(0)))).expect("set");
    let refused = pair.a.connect(&to_b()).expect("taken");
    assert_eq!(reply(&mut pair.a, refused).0, Err(Refusal::Refused));
    expect_freed(&mut pair.a, refused);
    // an exception before it
    pair.b.rule_set(0, &rule(&format!("allow both {}", address(1)))).expect("set");
    let (second_a, second_b) = pair.established();
    pair.b.rule_clear(0).expect("cleared");
    let refused = pair.a.connect(&to_b()).expect("taken");
    assert_eq!(reply(&mut pair.a, refused).0, Err(Refusal::Refused));
    expect_freed(&mut pair.a, refused);
    // the other direction, at A: nothing leaves
    pair.b.rule_clear(1).expect("cleared");
    pair.a.rule_set(15, &rule(&format!("deny out {} {PORT}", address(2)))).expect("set");
    let sent = counter(&mut pair.a, Counter::TcpOutSegs);
    assert!(matches!(pair.a.connect(&to_b()), Err(Error::Refused { refusal: Refusal::Denied, .. })));
    assert_eq!(counter(&mut pair.a, Counter::TcpOutSegs), sent);
    pair.a.rule_clear(15).expect("cleared");
    let (third_a, third_b) = pair.established();
    assert_eq!([counter(&mut pair.a, Counter::ConnDenied), counter(&mut pair.b, Counter::ConnDenied)], [1, 2]);
    for (a, b) in [(at_a, at_b), (second_a, second_b), (third_a, third_b)] {
        pair.a.disconnect(&a).expect("taken");
        assert_eq!(expect_end(&mut pair.a, a), Ok(()));
        assert_eq!(expect_end(&mut pair.b, b), Ok(()));
    }
    pair.assert_over();
}

/// Private data of every interesting length both ways, in each revision.
///
/// Covers: CM-1, CM-8, CM-24, CM-38, ENH-1, ENH-20, DEF-63, DEF-64
#[test]
fn private_data_reaches_the_other_side_both_ways() {
    let mut pair = Pair::new(1);
    let listener = pair.listen();
    for len in [0usize, 1, 3, 4, 5, 251, 252, 255, 256, 257, 507, 508, 509, 511, 512] {
        for enhanced in [false, true] {
            if enhanced && len > 508 {
                continue;
            }
            let (there, back) = ((0..len).map(|i| i as u8).collect::<Vec<_>>(), (0..len).map(|i| !i as u8).collect::<Vec<_>>());
            let param = ConnectParam { private_data: there.clone(), enhanced, ird: 3, ord: 5, ..to_b() };
            let at_a = pair.a.connect(&param).expect("taken");
            let (at_b, start) = requested(&mut pair.b);
            assert_eq!(start.private_data, there, "{len} {enhanced}");
            assert_eq!((start.enhanced(), start.revision), (enhanced, 1 + u8::from(enhanced)));
            if enhanced {
                assert_eq!((start.peer_ird, start.peer_ord), (3, 5));
            }
            assert_eq!((at_b.local, at_b.remote), (at_a.remote, at_a.local));
            assert_eq!((*at_a.local.ip(), at_b.local.port()), (address(1), listener.port));
            let answer = AcceptParam { private_data: back.clone(), ird: 9, ord: 7, ..AcceptParam::default() };
            pair.b.accept(&at_b, &answer).expect("taken");
            let (result, start) = reply(&mut pair.a, at_a);
            assert_eq!((result, &start.private_data), (Ok(()), &back), "{len} {enhanced}");
            let at_responder = expect_established(&mut pair.b, at_b);
            if enhanced {
                // both sides agree: no ORD above the other's IRD (ENH-7)
                assert!(start.own_ord <= start.peer_ird && start.peer_ord <= start.own_ird, "{start:?}");
                assert!(at_responder.own_ord <= at_responder.peer_ird, "{at_responder:?}");
            }
            pair.a.abort(&at_a).expect("posted");
            let _ = expect_end(&mut pair.a, at_a);
            assert_eq!(expect_end(&mut pair.b, at_b), Err(Refusal::Reset));
        }
    }
    pair.assert_over();
}

/// What some initiators put in front of the private data of revision 1, IRD and ORD of 32 bits each, is the ULP's.
///
/// Covers: ENH-9
#[test]
fn depths_in_the_private_data_of_revision_1_are_left_to_the_ulp() {
    let mut pair = Pair::new(4);
    pair.listen();
    let prefix = [0, 0, 0, 1, 0, 0, 0, 2, b'u', b'l', b'p'];
    let param = ConnectParam { private_data: prefix.to_vec(), enhanced: false, ird: 3, ord: 5, ..to_b() };
    let at_a = pair.a.connect(&param).expect("taken");
    let (at_b, start) = requested(&mut pair.b);
    assert_eq!((start.enhanced(), start.peer_ird, start.peer_ord, &start.private_data[..]), (false, 0, 0, &prefix[..]));
    pair.b.accept(&at_b, &AcceptParam { private_data: prefix.to_vec(), ird: 7, ord: 6, ..AcceptParam::default() }).expect("taken");
    let (result, start) = reply(&mut pair.a, at_a);
    assert_eq!((result, &start.private_data[..], start.peer_ird, start.peer_ord), (Ok(()), &prefix[..], 0, 0));
    // nobody's depths change by it
    assert_eq!((start.own_ird, start.own_ord), (3, 5));
    let start = expect_established(&mut pair.b, at_b);
    assert_eq!((start.own_ird, start.own_ord), (7, 6));
    pair.a.abort(&at_a).expect("posted");
    let _ = expect_end(&mut pair.a, at_a);
    assert_eq!(expect_end(&mut pair.b, at_b), Err(Refusal::Reset));
    pair.assert_over();
}

/// Covers: CM-7, CM-15, DEF-65
#[test]
fn a_reject_carries_its_private_data_and_nothing_else_follows() {
    let mut pair = Pair::new(2);
    pair.listen();
    for data in [&b""[..], b"no", &[7; 512]] {
        let at_a = pair.a.connect(&to_b()).expect("taken");
        let (at_b, _) = requested(&mut pair.b);
        pair.b.reject(&at_b, data).expect("taken");
        let (result, start) = reply(&mut pair.a, at_a);
        assert_eq!((result, start.private_data.as_slice()), (Err(Refusal::Refused), data));
        expect_freed(&mut pair.a, at_a);
        expect_freed(&mut pair.b, at_b);
    }
    assert_eq!((counter(&mut pair.b, Counter::MpaRejectsOut), counter(&mut pair.a, Counter::MpaRejectsIn)), (3, 3));
    pair.assert_over();
}

/// Covers: CM-15, TCP-28
#[test]
fn nobody_listens_so_the_connection_is_refused() {
    let mut pair = Pair::new(3);
    let at_a = pair.a.connect(&to_b()).expect("taken");
    assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::Refused));
    expect_freed(&mut pair.a, at_a);
    assert_eq!(counter(&mut pair.b, Counter::TcpOutRsts), 1);
    pair.assert_over();
}

/// Covers: ARP-7, CM-15
#[test]
fn no_arp_answer_is_host_unreachable() {
    let mut pair = Pair::new(4);
    let at_a = pair.a.connect(&ConnectParam::new(SocketAddrV4::new(address(77), PORT))).expect("taken");
    assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::HostUnreachable));
    expect_freed(&mut pair.a, at_a);
    assert_eq!(counter(&mut pair.a, Counter::ArpOutRequests), 3);
    pair.assert_over();
}

/// Covers: CM-15, CM-34
#[test]
fn a_syn_that_nobody_answers_times_out_when_the_command_says() {
    let mut pair = Pair::new(5);
    pair.listen();
    let (at_a, _) = pair.established();
    pair.a.abort(&at_a).expect("posted");
    let_all_end(&mut pair.a);
    let_all_end(&mut pair.b);
    // ARP still works: the next hop is asked again after R1 retransmissions (ARP-11), and is there
    pair.faults.on_every(0, Fault::Drop, is_tcp);
    for (timeout, expected) in [(None, CONNECT_TIMEOUT_US), (Some(7000 * US), 7000)] {
        let start = lock(&pair.world).adapter(0).time();
        let at_a = pair.a.connect(&ConnectParam { timeout, ..to_b() }).expect("taken");
        assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::TimedOut));
        let took = (lock(&pair.world).adapter(0).time() - start).as_micros() as u32;
        assert!((expected..expected + 1500).contains(&took), "{took} us, {expected} asked for");
        expect_freed(&mut pair.a, at_a);
    }
    assert!(counter(&mut pair.a, Counter::TcpRetransSegs) > 4, "SYN was sent again");
    pair.faults.restart();
    pair.assert_over();
}

/// Covers: CM-33, TCP-49, DEF-67
#[test]
fn the_same_four_addresses_are_in_use_until_time_wait_ends() {
    let mut pair = Pair::new(6);
    pair.listen();
    let param = ConnectParam { local: SocketAddrV4::new(ANY, 1234), ..to_b() };
    let at_a = pair.a.connect(&param).expect("taken");
    let (at_b, _) = requested(&mut pair.b);
    pair.b.accept(&at_b, &AcceptParam::default()).expect("taken");
    assert_eq!(reply(&mut pair.a, at_a).0, Ok(()));
    expect_established(&mut pair.b, at_b);
    let in_use = |a: &mut Attached| match a.connect(&param) {
        Err(Error::Refused { refusal: Refusal::AddressInUse { .. }, .. }) => {}
        other => panic!("{other:?}"),
    };
    in_use(&mut pair.a);
    pair.a.disconnect(&at_a).expect("posted");
    assert_eq!((expect_end(&mut pair.b, at_b), expect_end(&mut pair.a, at_a)), (Ok(()), Ok(())));
    in_use(&mut pair.a);
    lock(&pair.world).run(64 * u64::from(TWO_MSL_US) * 2);
    let again = pair.a.connect(&param).expect("TIME-WAIT is over");
    let (at_b, _) = requested(&mut pair.b);
    pair.b.reject(&at_b, b"").expect("taken");
    assert_eq!(reply(&mut pair.a, again).0, Err(Refusal::Refused));
    expect_freed(&mut pair.a, again);
    expect_freed(&mut pair.b, at_b);
    pair.assert_over();
}

// ---- end

/// Covers: CM-11, CM-12, CM-13, CM-16, DEF-14
#[test]
fn either_side_closes_in_order_and_both_hear_of_it_once() {
    let mut pair = Pair::new(7);
    pair.listen();
    for a_first in [true, false] {
        let (at_a, at_b) = pair.established();
        let (closer, other) = if a_first { ((&mut pair.a, at_a), (&mut pair.b, at_b)) } else { ((&mut pair.b, at_b), (&mut pair.a, at_a)) };
        closer.0.disconnect(&closer.1).expect("posted");
        closer.0.disconnect(&closer.1).expect("twice is once");
        assert_eq!(next(other.0), Event::Disconnect { connection: other.1 });
        assert_eq!(expect_end(other.0, other.1), Ok(()));
        assert_eq!(expect_end(closer.0, closer.1), Ok(()));
    }
    // both at once
    let (at_a, at_b) = pair.established();
    pair.a.post_disconnect(&at_a).expect("posted");
    pair.b.post_disconnect(&at_b).expect("posted");
    for (rnic, connection) in [(&mut pair.a, at_a), (&mut pair.b, at_b)] {
        assert!(matches!(next(rnic), Event::Done { .. }));
        assert_eq!(expect_end(rnic, connection), Ok(()));
    }
    assert_eq!((counter(&mut pair.a, Counter::TcpOutRsts), counter(&mut pair.b, Counter::TcpOutRsts)), (0, 0));
    pair.assert_over();
}

/// Covers: CM-12, CM-15, TCP-38, DEF-3
#[test]
fn abort_resets_in_every_state() {
    let mut pair = Pair::new(8);
    pair.listen();
    // established
    for a_first in [true, false] {
        let (at_a, at_b) = pair.established();
        let (closer, other) = if a_first { ((&mut pair.a, at_a), (&mut pair.b, at_b)) } else { ((&mut pair.b, at_b), (&mut pair.a, at_a)) };
        closer.0.abort(&closer.1).expect("posted");
        let _ = expect_end(closer.0, closer.1);
        assert_eq!(expect_end(other.0, other.1), Err(Refusal::Reset));
    }
    // announced, not answered
    let at_a = pair.a.connect(&to_b()).expect("taken");
    let (at_b, _) = requested(&mut pair.b);
    pair.b.abort(&at_b).expect("posted");
    expect_freed(&mut pair.b, at_b);
    assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::Reset));
    expect_freed(&mut pair.a, at_a);
    // CONNECT, its Request unanswered: the peer's accept fails (CM-27)
    let at_a = pair.a.connect(&to_b()).expect("taken");
    let (at_b, _) = requested(&mut pair.b);
    pair.a.abort(&at_a).expect("posted");
    assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::Reset));
    expect_freed(&mut pair.a, at_a);
    lock(&pair.world).run(2000);
    assert_eq!(pair.b.connection_rows()[0].state, ConnectionState::Requested, "no event in between");
    assert_eq!(pair.b.accept(&at_b, &AcceptParam::default()).unwrap_err().refusal(), Some(Refusal::Reset));
    expect_freed(&mut pair.b, at_b);
    // and its reject succeeds
    let at_a = pair.a.connect(&to_b()).expect("taken");
    let (at_b, _) = requested(&mut pair.b);
    pair.a.abort(&at_a).expect("posted");
    assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::Reset));
    expect_freed(&mut pair.a, at_a);
    lock(&pair.world).run(2000);
    pair.b.reject(&at_b, b"late").expect("answers 0");
    expect_freed(&mut pair.b, at_b);
    // CONNECT at once after ABORT: nothing may ever have been sent
    for cycles in [0, 50, 200, 500, 1000] {
        let at_a = pair.a.connect(&to_b()).expect("taken");
        lock(&pair.world).run(cycles);
        pair.a.abort(&at_a).expect("posted");
        assert_eq!(reply(&mut pair.a, at_a).0, Err(Refusal::Reset), "after {cycles}");
        expect_freed(&mut pair.a, at_a);
        lock(&pair.world).run(5000);
        while let Some(event) = pair.b.poll_event().expect("adapter") {
            if let Event::ConnectRequest { connection, .. } = event {
                pair.b.abort(&connection).expect("posted");
                expect_freed(&mut pair.b, connection);
            }
        }
    }
    pair.assert_over();
}

/// Of the places for private data there is one for each index: the next connection with it waits until the host has read all that the
/// last one told.
///
/// Covers: CM-43, DEF-10
#[test]
fn private_data_waits_for_a_host_that_is_late() {
    let mut pair = Pair::new(17);
    pair.listen();
    pair.a.create_listen(ANY, PORT, 32).expect("LISTEN_REPLY");
    let slots = pair.a.devinfo().expect("registers").max_connections;
    let others: Vec<_> = (1..slots).map(|_| pair.established()).collect();
    // the last index: connected, and reset as soon as the Reply has arrived
    let at_a = pair.a.connect(&to_b()).expect("the last slot");
    let (at_b, _) = requested(&mut pair.b);
    pair.b.accept(&at_b, &AcceptParam { private_data: vec![1; 512], ..AcceptParam::default() }).expect("taken");
    expect_established(&mut pair.b, at_b);
    lock(&pair.world).run(10_000);
    pair.b.abort(&at_b).expect("posted");
    let _ = expect_end(&mut pair.b, at_b);
    // another one comes before the host of A has looked
    let second = ConnectParam { private_data: vec![2; 512], ..ConnectParam::new(SocketAddrV4::new(address(1), PORT)) };
    let again = pair.b.connect(&second).expect("taken");
    lock(&pair.world).run(64 * 4 * u64::from(RTO_US));
    let (result, start) = reply(&mut pair.a, at_a);
    assert_eq!((result, start.private_data), (Ok(()), vec![1; 512]));
    assert_eq!(expect_end(&mut pair.a, at_a), Err(Refusal::Reset));
    let (announced, start) = requested(&mut pair.a);
    assert_eq!(announced.handle.index(), at_a.handle.index(), "the only free one");
    assert_eq!(start.private_data, vec![2; 512]);
    pair.a.reject(&announced, b"").expect("taken");
    assert_eq!(reply(&mut pair.b, again).0, Err(Refusal::Refused));
    for (at_a, _) in others {
        pair.a.abort(&at_a).expect("posted");
    }
    let_all_end(&mut pair.a);
    let_all_end(&mut pair.b);
    pair.assert_over();
}

/// Covers: CM-43
#[test]
fn every_slot_is_connected_at_once_and_all_come_back() {
    let mut pair = Pair::new(9);
    pair.listen();
    let slots = usize::from(pair.a.devinfo().expect("registers").max_connections);
    for round in 0..2 {
        let opened: Vec<_> = (0..slots).map(|_| pair.a.connect(&to_b()).expect("a slot")).collect();
        let one_more = pair.a.connect(&to_b()).unwrap_err().refusal();
        assert_eq!(one_more, Some(Refusal::NoMemory), "round {round}");
        let ports: BTreeSet<_> = opened.iter().map(|c| c.local.port()).collect();
        assert_eq!(ports.len(), slots, "a port for each");
        let (mut accepted, mut established) = (Vec::new(), 0);
        while established < slots {
            match next(&mut pair.b) {
                Event::ConnectRequest { connection, .. } => {
                    pair.b.accept(&connection, &AcceptParam::default()).expect("taken");
                    accepted.push(connection);
                }
                Event::Established { .. } => established += 1,
                other => panic!("{other:?}"),
            }
        }
        for _ in 0..slots {
            assert!(matches!(next(&mut pair.a), Event::ConnectReply { result: Ok(()), .. }));
        }
        // one half closes here, the other there
        for (i, connection) in opened.iter().enumerate() {
            if i % 2 == 0 {
                pair.a.disconnect(connection).expect("posted");
            }
        }
        for connection in &accepted {
            let even = opened.iter().position(|o| o.local == connection.remote).expect("its other end") % 2 == 0;
            if !even {
                pair.b.disconnect(connection).expect("posted");
            }
        }
        for rnic in [&mut pair.a, &mut pair.b] {
            let (mut closed, mut freed) = (0, 0);
            while freed < slots {
                match next(rnic) {
                    Event::Close { result, .. } => {
                        assert_eq!(result, Ok(()));
                        closed += 1;
                    }
                    Event::ConnectionFreed { .. } => freed += 1,
                    Event::Disconnect { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(closed, slots);
        }
        lock(&pair.world).run(64 * u64::from(TWO_MSL_US) * 2);
    }
    assert_eq!(counter(&mut pair.a, Counter::ConnEstablished), 2 * slots as u64);
    pair.assert_over();
}

/// Over the first limit SYNs are dropped without an answer, and come again.
///
/// Covers: TCP-30
#[test]
fn over_the_half_open_limit_a_syn_is_dropped_and_comes_again() {
    let mut pair = Pair::new(14);
    let listener = pair.b.create_listen_with(ANY, PORT, Backlog { half_open: 1, accept: 32 }).expect("listener");
    let opened: Vec<_> = (0..6).map(|_| pair.a.connect(&to_b()).expect("a slot")).collect();
    let (mut established, mut connected) = (0, 0);
    while connected < opened.len() || established < opened.len() {
        match pair.b.poll_event().expect("adapter") {
            Some(Event::ConnectRequest { connection, .. }) => pair.b.accept(&connection, &AcceptParam::default()).expect("taken"),
            Some(Event::Established { .. }) => established += 1,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        match pair.a.wait_event(BOUND / 400).expect("adapter") {
            Some(Event::ConnectReply { result: Ok(()), .. }) => connected += 1,
            Some(other) => panic!("{other:?}"),
            None => assert!(lock(&pair.world).cycle() < 64 * 1_000_000, "{connected} of {} connected", opened.len()),
        }
    }
    let dropped = counter(&mut pair.b, Counter::TcpSynDropped);
    assert!(dropped >= 1, "the limit was reached");
    assert_eq!(counter(&mut pair.b, Counter::TcpPassiveOpens), opened.len() as u64);
    assert_eq!((counter(&mut pair.b, Counter::TcpOutRsts), counter(&mut pair.b, Counter::MpaNonPeerRejects)), (0, 0), "no answer");
    pair.b.destroy_listen(listener).expect("freed");
    for connection in opened {
        pair.a.abort(&connection).expect("posted");
    }
    let_all_end(&mut pair.a);
    let_all_end(&mut pair.b);
    pair.assert_over();
}

/// Over the second limit the adapter rejects by itself.
///
/// Covers: CM-19
#[test]
fn a_full_backlog_delays_or_rejects_but_never_forgets() {
    let mut pair = Pair::new(10);
    let listener = pair.b.create_listen_with(ANY, PORT, Backlog { half_open: 8, accept: 2 }).expect("listener");
    let opened: Vec<_> = (0..6).map(|_| pair.a.connect(&to_b()).expect("a slot")).collect();
    lock(&pair.world).run(64 * 3000);
    let mut waiting = Vec::new();
    while let Some(event) = pair.b.poll_event().expect("adapter") {
        match event {
            Event::ConnectRequest { connection, .. } => waiting.push(connection),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(waiting.len(), 2, "as many as may wait");
    for connection in &waiting {
        pair.b.accept(connection, &AcceptParam::default()).expect("taken");
        expect_established(&mut pair.b, *connection);
    }
    let (mut connected, mut rejected) = (0, 0);
    for _ in 0..opened.len() {
        loop {
            match next(&mut pair.a) {
                Event::ConnectReply { result: Ok(()), .. } => connected += 1,
                Event::ConnectReply { result: Err(Refusal::Refused), .. } => rejected += 1,
                Event::ConnectionFreed { .. } => continue,
                other => panic!("{other:?}"),
            }
            break;
        }
    }
    assert_eq!((connected, rejected), (2, 4));
    pair.b.destroy_listen(listener).expect("freed");
    let states: Vec<_> = pair.b.connection_rows().iter().map(|row| row.state).collect();
    assert_eq!(states, [ConnectionState::Established; 2], "the children live on");
    for connection in &waiting {
        pair.b.abort(connection).expect("posted");
        let _ = expect_end(&mut pair.b, *connection);
    }
    let_all_end(&mut pair.a);
    pair.assert_over();
}

/// A listener goes at every moment of a handshake: its embryos are reset, an announced child lives on.
///
/// Covers: CM-22, DEF-18
#[test]
fn unlisten_at_every_moment_of_a_handshake() {
    let mut pair = Pair::new(11);
    let warm = pair.listen();
    let (at_a, at_b) = pair.established();
    pair.a.abort(&at_a).expect("posted");
    let _ = (expect_end(&mut pair.a, at_a), expect_end(&mut pair.b, at_b));
    pair.b.destroy_listen(warm).expect("freed");
    let (mut refused, mut reset, mut connected) = (0, 0, 0);
    for cycles in (0..3000).step_by(100) {
        let listener = pair.listen();
        let at_a = pair.a.connect(&to_b()).expect("taken");
        lock(&pair.world).run(cycles);
        pair.b.destroy_listen(listener).expect("freed");
        let mut answer = None;
        while answer.is_none() {
            while let Some(event) = pair.b.poll_event().expect("adapter") {
                match event {
                    // taken by the driver before FREED of the listener
                    Event::ConnectRequest { connection, .. } => pair.b.reject(&connection, b"").expect("taken"),
                    Event::ConnectionFreed { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            match pair.a.wait_event(100 * US).expect("adapter") {
                Some(Event::ConnectReply { connection, result, .. }) if connection == at_a => answer = Some(result),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
        match answer {
            Some(Err(Refusal::Refused)) => refused += 1,
            Some(Err(Refusal::Reset)) => reset += 1,
            Some(Ok(())) => connected += 1,
            other => panic!("after {cycles}: {other:?}"),
        }
        expect_freed(&mut pair.a, at_a);
        lock(&pair.world).run(3000);
        let_all_end(&mut pair.b);
    }
    println!("refused {refused}, reset {reset}, connected {connected}");
    assert!(refused > 0 && reset > 0 && connected == 0);
    assert_eq!(pair.b.listeners(), 0);
    pair.assert_over();
}

// ---- faults

/// What both sides heard in one life, without DISCONNECT, whose place among faults is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Story {
    a: Vec<&'static str>,
    b: Vec<&'static str>,
}

fn word(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::ConnectRequest { .. } => "request",
        Event::ConnectReply { result: Ok(()), .. } => "connected",
        Event::ConnectReply { result: Err(Refusal::TimedOut), .. } => "timed out",
        Event::ConnectReply { result: Err(_), .. } => "failed",
        Event::Established { .. } => "established",
        Event::Close { result: Ok(()), .. } => "closed",
        Event::Close { result: Err(_), .. } => "reset",
        Event::ConnectionFreed { .. } => "freed",
        _ => return None,
    })
}

/// How one life goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    CloseA,
    CloseB,
    Reject,
}

impl Life {
    fn story(self) -> Story {
        match self {
            Life::Reject => Story { a: vec!["failed", "freed"], b: vec!["request", "freed"] },
            Life::CloseA | Life::CloseB => {
                Story { a: vec!["connected", "closed", "freed"], b: vec!["request", "established", "closed", "freed"] }
            }
        }
    }
}

/// Plays one life to its end on both sides, within bounds; data goes both ways and is checked.
fn live(pair: &mut Pair, life: Life) -> Story {
    let mut story = Story::default();
    let param = ConnectParam { private_data: b"ask".to_vec(), ..to_b() };
    let mut ends = (Some(pair.a.connect(&param).expect("taken")), None);
    let end = lock(&pair.world).adapter(0).time() + 4 * BOUND;
    loop {
        let mut quiet = true;
        while let Some(event) = pair.b.poll_event().expect("adapter") {
            quiet = false;
            story.b.extend(word(&event));
            match event {
                Event::ConnectRequest { connection, start, .. } => {
                    assert_eq!(start.private_data, b"ask");
                    ends.1 = Some(connection);
                    if life == Life::Reject {
                        pair.b.reject(&connection, b"answer").expect("taken");
                    } else {
                        let answer = AcceptParam { private_data: b"answer".to_vec(), ..AcceptParam::default() };
                        pair.b.accept(&connection, &answer).expect("taken");
                    }
                }
                Event::Established { .. } | Event::Disconnect { .. } | Event::Close { .. } => {}
                Event::ConnectionFreed { .. } => ends.1 = None,
                other => panic!("{other:?}"),
            }
        }
        while let Some(event) = pair.a.poll_event().expect("adapter") {
            quiet = false;
            story.a.extend(word(&event));
            match event {
                Event::ConnectReply { connection, result, start } => {
                    if !matches!(result, Err(Refusal::TimedOut | Refusal::Reset)) {
                        assert_eq!(start.private_data, b"answer");
                    }
                    if result.is_ok() && life == Life::CloseA {
                        pair.a.disconnect(&connection).expect("posted");
                    } else if let (Ok(()), Some(at_b)) = (result, ends.1) {
                        pair.b.disconnect(&at_b).expect("posted");
                    }
                }
                Event::Disconnect { .. } | Event::Close { .. } => {}
                Event::ConnectionFreed { .. } => ends.0 = None,
                other => panic!("{other:?}"),
            }
        }
        if ends == (None, None) && quiet {
            return story;
        }
        assert!(
            lock(&pair.world).adapter(0).time() < end,
            "hung: {story:?}; {:?} {:?}",
            pair.a.connection_rows(),
            pair.b.connection_rows()
        );
        if quiet {
            lock(&pair.world).run(200);
        }
    }
}

/// Frames that a life without faults sends in each direction.
fn frames(pair: &mut Pair, life: Life) -> [u64; 2] {
    pair.faults.restart();
    assert_eq!(live(pair, life), life.story());
    [pair.faults.next(0), pair.faults.next(1)]
}

const FAULTS: [Fault; 6] =
    [Fault::Drop, Fault::Duplicate, Fault::HoldPastNext, Fault::Delay(64 * 200), Fault::Flip(8 * 40), Fault::FlipUnseen(8 * 40 + 3)];

/// Covers: CM-3, CM-12, DEF-36, DEF-42
#[test]
fn every_segment_of_a_life_is_lost_doubled_late_and_damaged() {
    let mut pair = Pair::new(13);
    pair.listen();
    for life in [Life::CloseA, Life::CloseB, Life::Reject] {
        // the first one also asks for the next hop
        frames(&mut pair, life);
        let sent = frames(&mut pair, life);
        println!("{life:?}: {sent:?} frames");
        for (direction, sent) in sent.into_iter().enumerate() {
            for n in 0..sent {
                for fault in FAULTS {
                    pair.faults.restart();
                    pair.faults.on(direction, n, fault);
                    let story = live(&mut pair, life);
                    assert_eq!(story, life.story(), "{life:?}, frame {n} of direction {direction}: {fault:?}");
                }
            }
        }
    }
    pair.faults.restart();
    pair.assert_over();
}

/// Every two faults of the handshake's first frames.
#[test]
fn every_two_faults_of_the_handshake() {
    let mut pair = Pair::new(14);
    pair.listen();
    frames(&mut pair, Life::CloseA);
    // SYN, ACK and Request; SYN with ACK, and the ACK of the Request
    let spots = [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1)];
    let faults = [Fault::Drop, Fault::Duplicate, Fault::HoldPastNext];
    for (i, first) in spots.iter().enumerate() {
        for second in &spots[i + 1..] {
            for one in faults {
                for two in faults {
                    pair.faults.restart();
                    pair.faults.on(first.0, first.1, one);
                    pair.faults.on(second.0, second.1, two);
                    let story = live(&mut pair, Life::CloseA);
                    assert_eq!(story, Life::CloseA.story(), "{one:?} of {first:?}, {two:?} of {second:?}");
                }
            }
        }
    }
    pair.faults.restart();
    pair.assert_over();
}

/// Random lives under loss, doubling, reordering and damage: nothing hangs, nothing is told twice, nothing is left over.
///
/// Covers: DEF-15
#[test]
fn random_lives_over_a_bad_wire_leave_nothing() {
    let seed = seed("--test connect random_lives", 15);
    let lives = count("LIVES", LIVES);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut pair = Pair::new(seed);
    pair.listen();
    frames(&mut pair, Life::CloseA);
    let rates = FaultRates { loss: 0.03, duplication: 0.02, reorder: 0.03, corruption: 0.01, delay: 0.02, ..HOLD };
    pair.faults.set_rates(rates);
    let mut others = 0;
    for n in 0..lives {
        let life = [Life::CloseA, Life::CloseB, Life::Reject][rng.random_range(0..3)];
        let story = live(&mut pair, life);
        // more faults than retransmission mends end in a time-out or a reset, once
        others += usize::from(story != life.story());
        for words in [&story.a, &story.b] {
            assert!(words.is_empty() || words.last() == Some(&"freed"), "life {n}: {story:?}");
            let ends = words.iter().filter(|w| ["closed", "reset", "failed", "timed out"].contains(w)).count();
            assert!(ends <= 1, "life {n}: {story:?}");
        }
    }
    println!("{others} of {lives} lives went another way");
    assert!(others * 5 < lives, "{others} of {lives}");
    pair.faults.set_rates(HOLD);
    pair.assert_over();
}

/// The link goes down under a close and under a connect, comes back, and goes down again: what was under way ends once each time, by its
/// timer, and what comes between works.
///
/// Covers: DEF-24
#[test]
fn def_24_the_link_goes_down_twice() {
    let mut pair = Pair::with(24, |n, seed| {
        let config = settings(n, seed);
        let soon = Some(3000);
        let tcp = TcpSettings { r2_us: soon, connect_timeout_us: soon, close_timeout_us: soon, ..config.tcp };
        Config { tcp, ..config }
    });
    pair.listen();
    for _ in 0..2 {
        let (at_a, at_b) = pair.established();
        for direction in 0..2 {
            pair.faults.on_every(direction, Fault::Drop, is_tcp);
        }
        // closed by one end, a connect of the same end beside it; the other end notices nothing
        let connecting = pair.a.connect(&to_b()).expect("taken");
        pair.a.disconnect(&at_a).expect("posted");
        let (mut replied, mut closed, mut freed) = (0, 0, 0);
        while freed < 2 {
            match next(&mut pair.a) {
                Event::ConnectReply { connection, result, .. } => {
                    assert_eq!((connection, result), (connecting, Err(Refusal::TimedOut)));
                    replied += 1;
                }
                Event::Close { connection, result } => {
                    assert_eq!((connection, result.is_err()), (at_a, true), "{result:?}");
                    closed += 1;
                }
                Event::ConnectionFreed { .. } => freed += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((replied, closed), (1, 1));
        assert_eq!(pair.b.poll_event().expect("adapter"), None, "nothing was told to B");
        pair.faults.restart();
        // B's end is found to be nobody's when it is used
        pair.b.disconnect(&at_b).expect("posted");
        assert!(expect_end(&mut pair.b, at_b).is_err(), "RST");
    }
    pair.established();
    for rnic in [&mut pair.a, &mut pair.b] {
        for row in rnic.connection_rows() {
            rnic.abort(&row.connection).expect("posted");
        }
        let_all_end(rnic);
    }
    pair.assert_over();
}

/// Nothing on the way to a connection waits for more octets than there are: from CONNECT to CONNECT_REPLY in far less time than any timer has.
///
/// Covers: DEF-59
#[test]
fn def_59_a_set_up_waits_for_no_timer() {
    let mut pair = Pair::new(59);
    pair.listen();
    pair.established();
    for octets in [0, 1, 7, 64, 512] {
        let start = lock(&pair.world).adapter(0).time();
        let private_data = vec![7; octets];
        let at_a = pair.a.connect(&ConnectParam { private_data: private_data.clone(), ..to_b() }).expect("taken");
        let (at_b, _) = requested(&mut pair.b);
        pair.b.accept(&at_b, &AcceptParam { private_data, ..AcceptParam::default() }).expect("taken");
        assert_eq!(reply(&mut pair.a, at_a).0, Ok(()));
        expect_established(&mut pair.b, at_b);
        let took = lock(&pair.world).adapter(0).time() - start;
        assert!(took < Duration::from_micros(u64::from(RTO_US) / 2), "{octets} octets: {took:?}");
    }
    assert_eq!(counter(&mut pair.a, Counter::TcpRetransSegs) + counter(&mut pair.b, Counter::TcpRetransSegs), 0);
    for rnic in [&mut pair.a, &mut pair.b] {
        for row in rnic.connection_rows() {
            rnic.abort(&row.connection).expect("posted");
        }
        let_all_end(rnic);
    }
    pair.assert_over();
}

/// The address that nobody has, again and again while other connections live: one request a retry time, not one a connection.
///
/// Covers: ARP-5, DEF-5
#[test]
fn many_connects_to_a_dead_address_ask_for_it_together() {
    let mut pair = Pair::new(16);
    let dead = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 99), PORT);
    let opened: Vec<_> = (0..8).map(|_| pair.a.connect(&ConnectParam::new(dead)).expect("a slot")).collect();
    let mut left: BTreeSet<_> = opened.iter().map(|c| c.handle.0).collect();
    while !left.is_empty() {
        match next(&mut pair.a) {
            Event::ConnectReply { connection, result, .. } => {
                assert_eq!(result, Err(Refusal::HostUnreachable));
                assert!(left.remove(&connection.handle.0), "told twice");
            }
            Event::ConnectionFreed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let_all_end(&mut pair.a);
    assert_eq!(counter(&mut pair.a, Counter::ArpOutRequests), 3);
    pair.assert_over();
}
