// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random lives of many connections at once between two adapters over a bad wire: opened, accepted, rejected, forgotten, aborted and closed
//! from either side or both, while listeners come and go. Whatever happens, each CONNECT has one reply, events come in order and once,
//! private data arrives as it was given, and nothing is left.
//!
//! LIFECYCLES=10000 makes the run long, SEED=n another one.
use ironwarp_abi::{reg, Counter, Opcode};
use ironwarp_rnic::{AcceptParam, Backlog, Config, ConnectParam, Connection, Error, Event, Listener, Oddities, Refusal, Rnic, TcpSettings};
use ironwarp_sim::{
    bus::lock,
    wire::{Fault, FaultHandle, FaultRates},
    InProcessBus, SharedWorld,
};
use ironwarp_tests::{address, assert_clean, config, count, counter, counters, faulty_pair, seed, Attached, ANY};
use rand::{rngs::StdRng, Rng, RngCore, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddrV4,
    time::Duration,
};

/// Clocks a microsecond.
const CLOCKS: u64 = 64;
/// Retransmission starts after this, about ten round trips.
const RTO_US: u32 = 60;
const TWO_MSL_US: u32 = 500;
const CONNECT_TIMEOUT_US: u32 = 3000;
/// Bound of everything that must come: above the sum of the time-outs of one close, and far above what frames need.
const BOUND: u64 = 12_000 * CLOCKS;
/// Ports that listeners come and go on; nobody ever listens on the last.
const PORTS: [u16; 5] = [4791, 4792, 4793, 4794, 9];
/// Own ports that some CONNECTs ask for, so that the same addresses meet again while they still wait.
const OWN_PORTS: [u16; 4] = [4791, 4792, 7001, 7002];
/// Slots of an adapter.
const SLOTS: usize = 32;

/// A hundredth of all frames is lost, as many are doubled, late and damaged.
const BAD: FaultRates = FaultRates {
    loss: 0.01,
    duplication: 0.01,
    reorder: 0.01,
    corruption: 0.01,
    // of datagrams only, see `Pair::new`: nothing protects ARP
    unseen_corruption: 0.0,
    delay: 0.005,
    delay_cycles: (1000, 10_000),
    hold_bound: 10_000,
};

fn settings(n: u8, seed: u64) -> Config {
    let tcp = TcpSettings {
        rto_init_us: Some(RTO_US),
        rto_min_us: Some(RTO_US),
        rto_max_us: Some(8 * RTO_US),
        r2_us: Some(3000),
        r2_syn_us: Some(3000),
        two_msl_us: Some(TWO_MSL_US),
        mpa_timeout_us: Some(1500),
        connect_timeout_us: Some(CONNECT_TIMEOUT_US),
        close_timeout_us: Some(2000),
        refusal_timeout_us: Some(300),
        spare_slots: Some(0),
        ..TcpSettings::default()
    };
    Config { tcp, share: false, arp_retry_us: Some(200), ..config(n, seed) }
}

/// What was told of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Request,
    Reply(Result<(), Refusal>),
    Established,
    Disconnect,
    Close,
}

/// What the user of one end does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Accept,
    Reject,
    Disconnect,
    Abort,
}

/// One end of a connection.
struct End {
    connection: Connection,
    /// Which CONNECT it belongs to; none of a passive end whose private data is too short to tell.
    attempt: Option<usize>,
    enhanced: bool,
    told: Vec<Told>,
    /// ACCEPT was answered with status 0.
    accepted: bool,
    plan: Option<(u64, Act)>,
    /// Cycle by which something must have come.
    due: Option<u64>,
}

/// One CONNECT.
#[derive(Default)]
struct Attempt {
    private_data: Vec<u8>,
    retry: bool,
    requests: u32,
    /// What the other side answered: accepted or rejected, with what.
    answers: Vec<(bool, Vec<u8>)>,
}

/// How lives went.
#[derive(Debug, Default)]
struct Outcomes {
    refused_here: u64,
    connected: u64,
    failed: BTreeMap<String, u64>,
    accepted: u64,
    accept_refused: u64,
    never_accepted: u64,
    most_at_once: usize,
}

struct Side {
    name: &'static str,
    /// None while it is being reset.
    attached: Option<Attached>,
    listeners: BTreeMap<u16, Listener>,
    listening: BTreeMap<u32, u16>,
    unlistening: BTreeSet<u32>,
    connecting: BTreeMap<u32, usize>,
    accepting: BTreeMap<u32, u64>,
    ends: BTreeMap<u64, End>,
    /// Every handle that ever was.
    seen: BTreeSet<u64>,
    freed: usize,
}

impl Side {
    fn rnic(&mut self) -> &mut Attached {
        self.attached.as_mut().expect("attached")
    }
}

struct Pair {
    world: SharedWorld,
    sides: [Side; 2],
    faults: FaultHandle,
    rng: StdRng,
    attempts: Vec<Attempt>,
    outcomes: Outcomes,
}

/// Attempts carry their number in front of their private data.
const NUMBER: usize = 4;

impl Pair {
    fn new(seed: u64) -> Self {
        let (world, a, b, faults) =
            faulty_pair(seed, FaultRates { hold_bound: BAD.hold_bound, ..FaultRates::default() }, |n| settings(n, seed));
        let side = |name, rnic| Side {
            name,
            attached: Some(rnic),
            listeners: BTreeMap::new(),
            listening: BTreeMap::new(),
            unlistening: BTreeSet::new(),
            connecting: BTreeMap::new(),
            accepting: BTreeMap::new(),
            ends: BTreeMap::new(),
            seen: BTreeSet::new(),
            freed: 0,
        };
        let sides = [side("A", a), side("B", b)];
        Pair { world, sides, faults, rng: StdRng::seed_from_u64(seed), attempts: Vec::new(), outcomes: Outcomes::default() }
    }
    fn now(&self) -> u64 {
        lock(&self.world).cycle()
    }
    /// Faults by chance from now on; a hundredth of the datagrams arrives with a wrong bit under a good FCS.
    fn spoil(&mut self, rates: FaultRates) {
        self.faults.set_rates(rates);
        for direction in 0..2 {
            for _ in 0..16 {
                let mut rng = StdRng::seed_from_u64(self.rng.next_u64());
                // in the headers of IPv4 and TCP
                let fault = Fault::FlipUnseen(14 * 8 + self.rng.random_range(0..40 * 8));
                self.faults.on_every(direction, fault, move |frame| frame.get(12..14) == Some(&[8, 0]) && rng.random_ratio(1, 1600));
            }
        }
    }
    fn mend(&mut self) {
        self.faults.restart();
        self.faults.set_rates(FaultRates { hold_bound: BAD.hold_bound, ..FaultRates::default() });
    }
    fn data(&mut self, max: usize) -> Vec<u8> {
        let len = match self.rng.random_range(0..4) {
            0 => 0,
            1 => max - self.rng.random_range(0..4),
            _ => self.rng.random_range(NUMBER..=max),
        };
        let mut data = vec![0; len];
        self.rng.fill_bytes(&mut data);
        data
    }

    // ---- what users do

    /// Own port and the peer's, or any.
    fn connect(&mut self, from: usize, ports: Option<(u16, u16)>) {
        let enhanced = self.rng.random_bool(0.5);
        let mut private_data = self.data(if enhanced { 508 } else { 512 });
        let number = self.attempts.len();
        if private_data.len() >= NUMBER {
            private_data[..NUMBER].copy_from_slice(&(number as u32).to_be_bytes());
        }
        // one of many asks a host that is not there
        let host = if self.rng.random_ratio(1, 40) { 99 } else { 2 - from as u8 };
        let port = PORTS[if self.rng.random_ratio(1, 12) { 4 } else { self.rng.random_range(0..4) }];
        let own = if self.rng.random_ratio(1, 8) { OWN_PORTS[self.rng.random_range(0..4)] } else { 0 };
        let (own, port) = ports.unwrap_or((own, port));
        let param = ConnectParam {
            local: SocketAddrV4::new(ANY, own),
            private_data: private_data.clone(),
            enhanced,
            retry: enhanced && self.rng.random_ratio(1, 4),
            ird: self.rng.random_range(0..20),
            ord: self.rng.random_range(0..20),
            no_crc: self.rng.random(),
            timeout: self.rng.random_ratio(1, 4).then(|| Duration::from_micros(self.rng.random_range(50..3000))),
            ..ConnectParam::new(SocketAddrV4::new(address(host), port))
        };
        match self.sides[from].rnic().post_connect(&param) {
            Ok(context) => {
                self.sides[from].connecting.insert(context.0, number);
                self.attempts.push(Attempt { private_data, retry: param.retry, ..Attempt::default() });
            }
            Err(Error::CommandRingFull | Error::PrivateDataBuffers) => {}
            Err(other) => panic!("{other}"),
        }
    }
    /// A listener that comes back, if one is missing, or else one that goes.
    fn change_listeners(&mut self, n: usize) {
        let missing = PORTS[..4].iter().find(|port| !self.sides[n].listeners.contains_key(port));
        let port = missing.copied().unwrap_or(PORTS[self.rng.random_range(0..4)]);
        let backlog = match self.rng.random_range(0..3) {
            0 => Backlog { half_open: self.rng.random_range(1..4), accept: self.rng.random_range(1..4) },
            _ => Backlog { half_open: 32, accept: 32 },
        };
        let side = &mut self.sides[n];
        let posted = match side.listeners.get(&port).copied() {
            Some(listener) => side.rnic().post_unlisten(&listener).map(|context| {
                side.unlistening.insert(context.0);
            }),
            None if side.listening.values().any(|p| *p == port) => return,
            None => side.rnic().post_listen_with(ANY, port, backlog).map(|context| {
                side.listening.insert(context.0, port);
            }),
        };
        match posted {
            // stale: it is going already
            Ok(()) | Err(Error::CommandRingFull | Error::StaleHandle) => {}
            Err(other) => panic!("{other}"),
        }
    }
    fn act(&mut self, n: usize, handle: u64, act: Act) {
        let (connection, enhanced, attempt) = match self.sides[n].ends.get(&handle) {
            Some(end) => (end.connection, end.enhanced, end.attempt),
            None => return,
        };
        let data = if matches!(act, Act::Accept | Act::Reject) { self.data(if enhanced { 508 } else { 512 }) } else { vec![] };
        let param = AcceptParam { private_data: data.clone(), ird: 20, ord: self.rng.random_range(0..20), ..AcceptParam::default() };
        let side = &mut self.sides[n];
        let posted = match act {
            Act::Accept => side.rnic().post_accept(&connection, &param).map(|context| {
                side.accepting.insert(context.0, handle);
            }),
            Act::Reject => side.rnic().post_reject(&connection, &data, 0).map(drop),
            Act::Disconnect => side.rnic().post_disconnect(&connection).map(drop),
            Act::Abort => side.rnic().post_abort(&connection).map(drop),
        };
        let now = lock(&self.world).cycle();
        let end = side.ends.get_mut(&handle).expect("found above");
        match posted {
            Ok(()) => {
                // an ACCEPT that the peer never hears of ends with its retransmissions
                end.due = Some(now + BOUND);
                end.plan = None;
                if let (Act::Accept | Act::Reject, Some(attempt)) = (act, attempt) {
                    self.attempts[attempt].answers.push((act == Act::Accept, data));
                }
            }
            Err(Error::CommandRingFull | Error::PrivateDataBuffers) => end.plan = Some((now + 500, act)),
            // the other user of this end was quicker
            Err(Error::StaleHandle | Error::WrongState { .. }) => end.plan = None,
            Err(other) => panic!("{other}"),
        }
    }

    // ---- what they hear

    fn plan(&mut self, told: Told) -> Option<(u64, Act)> {
        let rng = &mut self.rng;
        let (soon, late) = (rng.random_range(0..6000), rng.random_range(20_000..120_000));
        let (after, act) = match (told, rng.random_range(0..100)) {
            (Told::Request, 0..60) => (soon, Act::Accept),
            (Told::Request, 60..75) => (soon, Act::Reject),
            (Told::Request, 75..85) => (soon, Act::Abort),
            // forgotten for so long that the peer may have given up
            (Told::Request, 85..95) => (late, Act::Accept),
            (Told::Request, 95..98) => (late, Act::Reject),
            (Told::Request, _) => (late, Act::Abort),
            (Told::Established | Told::Reply(Ok(())), 0..50) => (soon, Act::Disconnect),
            (Told::Established | Told::Reply(Ok(())), 50..65) => (soon, Act::Abort),
            (Told::Established | Told::Reply(Ok(())), _) => (late, Act::Disconnect),
            (Told::Disconnect, 0..20) => (soon, Act::Disconnect),
            (Told::Disconnect, 20..30) => (soon, Act::Abort),
            _ => return None,
        };
        Some((lock(&self.world).cycle() + after, act))
    }
    fn hear(&mut self, n: usize, event: Event) {
        let name = self.sides[n].name;
        let now = self.now();
        match event {
            Event::Connecting { context, connection } => {
                let attempt = self.sides[n].connecting.remove(&context.0).expect("answered once");
                let abort = self.rng.random_ratio(1, 10).then(|| (now + self.rng.random_range(0..6000), Act::Abort));
                self.open(n, connection, Some(attempt), false, now + BOUND, abort);
            }
            Event::Refused { context, opcode, refusal } => {
                let side = &mut self.sides[n];
                let allowed: &[Refusal] = match opcode {
                    o if o == Opcode::Connect => {
                        side.connecting.remove(&context.0).expect("answered once");
                        self.outcomes.refused_here += 1;
                        let port = match refusal {
                            Refusal::AddressInUse { port } => port,
                            _ => 0,
                        };
                        &[Refusal::NoMemory, Refusal::AddressInUse { port }]
                    }
                    o if o == Opcode::Accept => {
                        side.accepting.remove(&context.0).expect("answered once");
                        self.outcomes.accept_refused += 1;
                        &[Refusal::Reset]
                    }
                    o if o == Opcode::Listen => {
                        let port = side.listening.remove(&context.0).expect("answered once");
                        &[Refusal::AddressInUse { port }]
                    }
                    // it ended while the command was under way
                    _ => &[Refusal::NoEntry],
                };
                assert!(allowed.contains(&refusal), "{name}: {opcode} {refusal:?}");
            }
            Event::Done { context, opcode } => {
                if opcode == Opcode::Accept {
                    let side = &mut self.sides[n];
                    let handle = side.accepting.remove(&context.0).expect("answered once");
                    side.ends.get_mut(&handle).expect("FREED is the last").accepted = true;
                }
            }
            Event::Listening { context, listener } => {
                let side = &mut self.sides[n];
                assert_eq!(side.listening.remove(&context.0), Some(listener.port));
                assert!(side.listeners.insert(listener.port, listener).is_none(), "{name}: two listeners on {}", listener.port);
            }
            Event::Freed { context, handle } => {
                let side = &mut self.sides[n];
                assert!(side.unlistening.remove(&context.0), "{name}: answered once");
                side.listeners.retain(|_, l| l.handle != handle);
            }
            Event::ConnectRequest { listener, connection, start } => {
                // CM-22
                assert_eq!(self.sides[n].listeners.get(&listener.port), Some(&listener), "{name}: announced for one that is gone");
                let attempt = start.private_data.get(..NUMBER).map(|octets| {
                    let number = u32::from_be_bytes(octets.try_into().expect("four")) as usize;
                    let attempt = self.attempts.get_mut(number).unwrap_or_else(|| panic!("{name}: no CONNECT has number {number}"));
                    assert_eq!(start.private_data, attempt.private_data, "{name}");
                    attempt.requests += 1;
                    assert!(attempt.requests == 1 || attempt.retry, "{name}: announced twice");
                    number
                });
                assert_eq!((connection.local.port(), *connection.remote.ip()), (listener.port, address(2 - n as u8)));
                self.open(n, connection, attempt, start.enhanced(), u64::MAX, None);
                self.tell(n, connection, Told::Request);
            }
            Event::ConnectReply { connection, result, start } => {
                let attempt = self.tell(n, connection, Told::Reply(result)).expect("of a CONNECT");
                let attempt = &self.attempts[attempt];
                // without number nobody knows whose answer it is
                if attempt.private_data.len() >= NUMBER && (result.is_ok() || !start.private_data.is_empty()) {
                    let answer = (result.is_ok(), start.private_data);
                    assert!(attempt.answers.contains(&answer), "{name}: nobody answered {result:?} with {:?}", answer.1);
                }
                match result {
                    Ok(()) => self.outcomes.connected += 1,
                    Err(why) => *self.outcomes.failed.entry(format!("{why:?}")).or_default() += 1,
                }
            }
            Event::Established { connection, .. } => {
                self.outcomes.accepted += 1;
                self.tell(n, connection, Told::Established);
            }
            Event::Disconnect { connection } => {
                self.tell(n, connection, Told::Disconnect);
            }
            Event::Close { connection, .. } => {
                self.tell(n, connection, Told::Close);
            }
            Event::ConnectionFreed { connection } => {
                let side = &mut self.sides[n];
                let end =
                    side.ends.remove(&connection.handle.0).unwrap_or_else(|| panic!("{name}: FREED twice or never made: {connection}"));
                side.freed += 1;
                self.outcomes.never_accepted += u64::from(end.told == [Told::Request]);
                let (told, last) = match end.told.as_slice() {
                    [told @ .., Told::Disconnect, Told::Close] | [told @ .., Told::Close] => (told, true),
                    told => (told, false),
                };
                // CM-3, CM-5, CM-12, CM-13
                let right = match told {
                    [Told::Reply(result)] => last == result.is_ok(),
                    [Told::Request] => !last && !end.accepted,
                    [Told::Request, Told::Established] => last && end.accepted,
                    _ => false,
                };
                assert!(right, "{name}: {connection} was told {:?} (accepted: {})", end.told, end.accepted);
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    fn open(&mut self, n: usize, connection: Connection, attempt: Option<usize>, enhanced: bool, due: u64, plan: Option<(u64, Act)>) {
        let side = &mut self.sides[n];
        let name = side.name;
        assert!(side.seen.insert(connection.handle.0), "{name}: handle given twice");
        let due = (due != u64::MAX).then_some(due);
        side.ends.insert(connection.handle.0, End { connection, attempt, enhanced, told: vec![], accepted: false, plan, due });
        let at_once = self.sides[n].ends.len();
        self.outcomes.most_at_once = self.outcomes.most_at_once.max(at_once);
    }
    /// The attempt that the end belongs to.
    fn tell(&mut self, n: usize, connection: Connection, told: Told) -> Option<usize> {
        let (now, plan) = (self.now(), self.plan(told));
        let side = &mut self.sides[n];
        let end =
            side.ends.get_mut(&connection.handle.0).unwrap_or_else(|| panic!("{}: {told:?} for a handle that is not alive", side.name));
        assert_eq!(end.connection, connection);
        end.told.push(told);
        if matches!(told, Told::Request | Told::Reply(Ok(())) | Told::Established) {
            // from now on it lives as long as both users like
            end.due = None;
            end.plan = plan;
        } else {
            end.due = Some(now + BOUND);
            end.plan = end.plan.or(plan);
        }
        end.attempt
    }

    // ---- time

    fn listen_everywhere(&mut self) {
        for side in &mut self.sides {
            for port in PORTS[..4].iter().filter(|port| !side.listeners.contains_key(port)).copied().collect::<Vec<_>>() {
                let listener = side.rnic().create_listen(ANY, port, 32).expect("LISTEN_REPLY");
                side.listeners.insert(port, listener);
            }
        }
    }
    /// Hears what has come, does what is due, lets some clocks pass.
    fn step(&mut self, clocks: u64) {
        for n in 0..2 {
            while let Some(event) = self.sides[n].rnic().poll_event().expect("adapter") {
                self.hear(n, event);
            }
            let now = self.now();
            let side = &self.sides[n];
            let due: Vec<_> = side.ends.iter().filter_map(|(h, e)| e.plan.filter(|(at, _)| *at <= now).map(|(_, act)| (*h, act))).collect();
            for (handle, act) in due {
                self.act(n, handle, act);
            }
            let side = &mut self.sides[n];
            if let Some(end) = side.ends.values().find(|end| end.due.is_some_and(|due| now >= due)) {
                let hangs = format!("{}: {} hangs after {:?} (accepted: {})", side.name, end.connection, end.told, end.accepted);
                panic!("{hangs}: {:?}", counters(side.rnic()));
            }
        }
        lock(&self.world).run(clocks);
    }
    /// One adapter is reset under all that lives, and attached anew.
    fn reset(&mut self, n: usize, seed: u64) {
        let rnic = self.sides[n].attached.take().expect("attached");
        // CM-35: everybody who waits is told
        for event in rnic.detach() {
            self.hear(n, event);
        }
        let side = &mut self.sides[n];
        assert!(side.ends.is_empty(), "{}: nobody is told what became of {:?}", side.name, side.ends.keys());
        side.listeners.clear();
        side.listening.clear();
        side.unlistening.clear();
        side.connecting.clear();
        side.accepting.clear();
        let number = n as u8 + 1;
        let mut rnic = Rnic::attach(InProcessBus::new(&self.world, n), settings(number, seed)).expect("attach");
        rnic.address_add(address(number), 24, None).expect("a fresh adapter takes its address");
        side.attached = Some(rnic);
        // the frame that was being sent is whole, and what comes after has no memory to go to
        assert_clean(&self.world);
    }
    fn live(&self) -> usize {
        self.sides.iter().map(|s| s.ends.len() + s.connecting.len()).sum()
    }
    /// So many CONNECTs, at most `at_once` ends alive on a side when another begins.
    fn lives(&mut self, count: usize, at_once: usize) {
        let end = self.attempts.len() + count;
        while self.attempts.len() < end {
            let from = self.rng.random_range(0..2);
            if self.sides.iter().all(|s| s.ends.len() + s.connecting.len() < at_once) {
                if self.rng.random_ratio(1, 30) {
                    // both at once, to each other (TCP's simultaneous open)
                    self.connect(0, Some((OWN_PORTS[0], OWN_PORTS[2])));
                    self.connect(1, Some((OWN_PORTS[2], OWN_PORTS[0])));
                } else {
                    self.connect(from, None);
                }
            }
            if self.rng.random_ratio(1, 40) {
                let n = self.rng.random_range(0..2);
                self.change_listeners(n);
            }
            let clocks = self.rng.random_range(20..800);
            self.step(clocks);
        }
    }
    /// Everybody closes; nothing is left.
    fn finish(&mut self) {
        self.mend();
        let end = self.now() + 4 * BOUND;
        while self.live() > 0 || self.sides.iter().any(|s| !s.listening.is_empty() || !s.unlistening.is_empty()) {
            let now = self.now();
            assert!(now < end, "{} ends live on", self.live());
            for side in &mut self.sides {
                for e in side.ends.values_mut().filter(|e| e.due.is_none() || e.plan.is_some()) {
                    let act = if matches!(e.told.last(), Some(Told::Request)) && !e.accepted { Act::Reject } else { Act::Disconnect };
                    e.plan = e.plan.map_or(Some((now, act)), |(at, act)| Some((at.min(now), act)));
                }
            }
            self.step(500);
        }
        for side in &mut self.sides {
            for listener in std::mem::take(&mut side.listeners).into_values() {
                side.rnic().destroy_listen(listener).expect("FREED");
            }
        }
        // TIME-WAIT may begin anew with a FIN that comes again
        lock(&self.world).run(2 * u64::from(TWO_MSL_US) * CLOCKS);
        for side in &mut self.sides {
            let (name, rnic) = (side.name, side.attached.as_mut().expect("attached"));
            assert_eq!(rnic.poll_event().expect("adapter"), None, "{name}");
            assert_eq!(rnic.oddities(), Oddities::default(), "{name}");
            assert_eq!((rnic.connections(), rnic.listeners(), rnic.outstanding()), (0, 0, 0), "{name}");
            assert_eq!(side.freed, side.seen.len(), "{name}: FREED for each handle");
            for register in [reg::CONNECTIONS_LIVE, reg::LISTENERS_LIVE] {
                assert_eq!(rnic.device().read(register).expect("adapter"), 0, "{name}: {register:#x}");
            }
            assert_eq!(counter(rnic, Counter::ConnCreated), counter(rnic, Counter::ConnFreed), "{name}");
            assert_eq!(counter(rnic, Counter::ListenCreated), counter(rnic, Counter::ListenDestroyed), "{name}");
            // nobody holds a port
            rnic.reserve_ports(1, 65535).expect("every port is free");
            rnic.unreserve_ports(1, 65535).expect("reserved above");
        }
        assert_clean(&self.world);
    }
}

/// Covers: CM-3, CM-4, CM-5, CM-8, CM-12, CM-13, CM-22, CM-43, DEF-57
#[test]
fn random_lives_of_many_connections_leave_nothing() {
    let seed = seed("--test lifecycle random_lives", 1);
    let count = count("LIFECYCLES", 100);
    let started = std::time::Instant::now();
    let mut pair = Pair::new(seed);
    let free: Vec<_> = pair.sides.iter_mut().map(|s| s.rnic().private_data_buffers_free()).collect();
    pair.listen_everywhere();
    // both learn the other's MAC address
    pair.lives(4, 2);
    pair.spoil(BAD);
    while pair.attempts.len() < count {
        let at_once = [3, 8, 16, SLOTS, SLOTS + 8][pair.rng.random_range(0..5)];
        pair.lives(16, at_once);
    }
    pair.finish();
    for (side, free) in pair.sides.iter_mut().zip(free) {
        let name = side.name;
        assert_eq!(side.rnic().private_data_buffers_free(), free, "{name}");
        println!("{}: {:?}", name, counters(side.rnic()));
    }
    let (cycles, seconds) = (pair.now(), started.elapsed().as_secs_f64());
    println!(
        "{} lives, {cycles} cycles, {seconds:.1} s, {:.1} lives/s: {:?}",
        pair.attempts.len(),
        pair.attempts.len() as f64 / seconds,
        pair.outcomes
    );
    for direction in 0..2 {
        println!("{:?}", pair.faults.counts(direction));
    }
    let outcomes = &pair.outcomes;
    assert!(outcomes.connected as usize * 4 > count && outcomes.accepted > 0 && outcomes.never_accepted > 0, "{outcomes:?}");
    assert!(outcomes.failed.contains_key("Refused") && outcomes.failed.contains_key("Reset"), "{outcomes:?}");
}

/// Either adapter is reset again and again while everything lives: its own users are told the end at once, the other's by resets and
/// time-outs, no DMA comes after the reset, no handle is given again, and both work on.
///
/// Covers: CM-4, CM-32, CM-35, CM-43
#[test]
fn resets_under_everything_leave_nothing() {
    let seed = seed("--test lifecycle resets", 2);
    let mut pair = Pair::new(seed);
    for _ in 0..count("RESETS", 8) {
        pair.listen_everywhere();
        pair.lives(8, SLOTS);
        for _ in 0..pair.rng.random_range(0..100) {
            let clocks = pair.rng.random_range(1..200);
            pair.step(clocks);
        }
        let n = pair.rng.random_range(0..2);
        pair.reset(n, seed);
    }
    let connected = pair.outcomes.connected;
    pair.listen_everywhere();
    pair.lives(8, 4);
    pair.finish();
    println!("{:?}", pair.outcomes);
    assert!(pair.outcomes.connected > connected, "{:?}", pair.outcomes);
}
