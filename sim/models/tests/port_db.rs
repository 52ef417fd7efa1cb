// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::port_db` against a plain model of requirements.md 7.0, at full size and at the size that is proven in `formal/`.
//!
//! `PORT_DB_OPS=1000000` makes the long run; a default run is a cut of it. `SEED=n` replays.
use ironwarp_models::{port_db, port_db_small, Dut};
use rand::{seq::IndexedRandom, Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

/// As `cm::port_types::PortOp` numbers them; `GARBAGE` and up are none.
mod op {
    pub const LISTEN: u64 = 0;
    pub const UNLISTEN: u64 = 1;
    pub const OPEN: u64 = 2;
    pub const JOIN: u64 = 3;
    pub const CLOSE: u64 = 4;
    pub const WAIT: u64 = 5;
    pub const WAIT_END: u64 = 6;
    pub const RESERVE: u64 = 7;
    pub const UNRESERVE: u64 = 8;
    pub const GARBAGE: u64 = 9;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok,
    InUse,
    Reserved,
    NoPorts,
    NoSlot,
    Invalid,
}

impl Status {
    fn of(code: u64) -> Status {
        use Status::*;
        [Ok, InUse, Reserved, NoPorts, NoSlot, Invalid][usize::try_from(code).expect("small")]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Request {
    op: u64,
    addr: u32,
    port: u16,
    last: u16,
    slot: u16,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Reply {
    status: Status,
    port: u16,
    listener: u16,
    user: u16,
    shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Answer {
    listener: Option<u16>,
    used: bool,
    reserved: bool,
}

/// The pins of either size, and its dimensions.
trait Pins: Dut {
    const NAME: &'static str;
    const PORTS: u32;
    const LISTENERS: usize;
    const USERS: usize;
    /// Clocks from reset, or a new range, until requests are taken.
    const SWEEP: u64;
    fn set_reset(&mut self, on: bool);
    fn set_range(&mut self, first: u16, last: u16);
    fn set_random(&mut self, seed: u32);
    fn set_request(&mut self, request: Option<Request>);
    fn set_reply_ready(&mut self, on: bool);
    fn set_lookup(&mut self, query: Option<(u32, u16)>);
    fn set_answer_ready(&mut self, on: bool);
    fn is_ready(&self) -> bool;
    fn request_ready(&self) -> bool;
    fn reply(&self) -> Option<Reply>;
    fn lookup_ready(&self) -> bool;
    fn answer(&self) -> Option<Answer>;
    fn live(&self) -> usize;
    /// In use, reserved, exhausted.
    fn counts(&self) -> [bool; 3];
}

macro_rules! pins {
    ($model:ty, $name:literal, $ports:expr, $listeners:expr, $users:expr, $words:expr) => {
        impl Pins for $model {
            const NAME: &'static str = $name;
            const PORTS: u32 = $ports;
            const LISTENERS: usize = $listeners;
            const USERS: usize = $users;
            const SWEEP: u64 = 5 * $words;
            fn set_reset(&mut self, on: bool) {
                self.reset.set(on);
            }
            fn set_range(&mut self, first: u16, last: u16) {
                self.first.set(first);
                self.last.set(last);
            }
            fn set_random(&mut self, seed: u32) {
                self.random.set(seed);
            }
            fn set_request(&mut self, request: Option<Request>) {
                self.request_valid.set(request.is_some());
                let r = request.unwrap_or_default();
                self.request_data_op.set(r.op);
                self.request_data_addr.set(r.addr.into());
                self.request_data_port.set(r.port.into());
                self.request_data_last.set(r.last.into());
                self.request_data_slot.set(r.slot.into());
            }
            fn set_reply_ready(&mut self, on: bool) {
                self.reply_ready.set(on);
            }
            fn set_lookup(&mut self, query: Option<(u32, u16)>) {
                self.lookup_valid.set(query.is_some());
                let (addr, port) = query.unwrap_or_default();
                self.lookup_data_addr.set(addr.into());
                self.lookup_data_port.set(port.into());
            }
            fn set_answer_ready(&mut self, on: bool) {
                self.answer_ready.set(on);
            }
            fn is_ready(&self) -> bool {
                self.ready.get()
            }
            fn request_ready(&self) -> bool {
                self.request_ready.get()
            }
            fn reply(&self) -> Option<Reply> {
                self.reply_valid.get().then(|| Reply {
                    status: Status::of(self.reply_data_status.get()),
                    port: self.reply_data_port.get() as u16,
                    listener: self.reply_data_listener.get() as u16,
                    user: self.reply_data_user.get() as u16,
                    shared: self.reply_data_shared.bit(),
                })
            }
            fn lookup_ready(&self) -> bool {
                self.lookup_ready.get()
            }
            fn answer(&self) -> Option<Answer> {
                self.answer_valid.get().then(|| Answer {
                    listener: self.answer_data_listening.bit().then(|| self.answer_data_listener.get() as u16),
                    used: self.answer_data_used.bit(),
                    reserved: self.answer_data_reserved.bit(),
                })
            }
            fn live(&self) -> usize {
                self.listeners_live.get().into()
            }
            fn counts(&self) -> [bool; 3] {
                [self.cnt_port_in_use.get(), self.cnt_port_reserved.get(), self.cnt_ports_exhausted.get()]
            }
        }
    };
}
pins!(port_db::Model, "port_db", 65536, 16, 64, 1024);
pins!(port_db_small::Model, "port_db_small", 16, 2, 4, 8);

/// Every cell of table 7.0, and what else a run must have met. A suffix says who else had the port, or was in the range.
const CELLS: &[&str] = &[
    "listen p: free -> granted",
    "listen p: same address -> in use",
    "listen p: any over one address -> in use",
    "listen p: one address over any -> in use",
    "listen p: other address -> granted",
    "listen p: active -> granted",
    "listen p: time-wait -> granted",
    "listen p: reserved -> refused",
    "listen p: reserved with time-wait -> refused",
    "listen 0: passed by listener",
    "listen 0: passed by active",
    "listen 0: passed by time-wait",
    "listen 0: passed by reserved",
    "listen 0: exhausted",
    "connect p: free -> granted",
    "connect p: listener -> granted",
    "connect p: active -> granted",
    "connect p: time-wait -> granted",
    "connect p: reserved -> refused",
    "connect 0: free, passed by listener",
    "connect 0: free, passed by active",
    "connect 0: free, passed by time-wait",
    "connect 0: free, passed by reserved",
    "connect 0: shared, active",
    "connect 0: shared, time-wait",
    "connect 0: shared, passed by listener",
    "connect 0: shared, passed by active with listener",
    "connect 0: shared, passed by reserved time-wait",
    "connect 0: exhausted",
    "reserve: listener -> in use",
    "reserve: active -> in use",
    "reserve: time-wait -> granted",
    "reserve: reserved -> granted",
    "reserve: free -> granted",
    "unlisten: last user",
    "unlisten: other listener stays",
    "unlisten: connection stays",
    "unlisten: twice",
    "close: last user",
    "close: listener stays",
    "close: other connection stays",
    "close: time-wait stays",
    "close: twice",
    "close: time-wait -> invalid",
    "wait: granted",
    "wait: twice -> invalid",
    "time-wait ends: last user",
    "time-wait ends: other stays",
    "time-wait ends: reservation stays",
    "time-wait ends: active -> invalid",
    "time-wait ends: twice",
    "unreserve: reserved",
    "unreserve: free",
    "unreserve: time-wait stays",
    "join: granted",
    "join: no such listener",
    "no listener slot",
    "no use slot",
    "join: no use slot",
    "bad range",
    "bad operation",
    "bad slot",
];

/// What the database has to be, in the plainest words.
struct Plain {
    ports: u32,
    listeners: Vec<Option<(u32, u16)>>,
    /// Port, TIME-WAIT.
    users: Vec<Option<(u16, bool)>>,
    reserved: Vec<bool>,
    first: u16,
    last: u16,
    cells: BTreeMap<&'static str, u64>,
}

fn overlap(a: u32, b: u32) -> bool {
    a == 0 || b == 0 || a == b
}

impl Plain {
    fn new<D: Pins>(first: u16, last: u16) -> Self {
        Plain {
            ports: D::PORTS,
            listeners: vec![None; D::LISTENERS],
            users: vec![None; D::USERS],
            reserved: vec![false; D::PORTS as usize],
            first,
            last,
            cells: BTreeMap::new(),
        }
    }
    fn clear(&mut self) {
        self.listeners.fill(None);
        self.users.fill(None);
        self.reserved.fill(false);
    }
    fn cell(&mut self, name: &'static str) {
        assert!(CELLS.contains(&name), "{name} is not in the list");
        *self.cells.entry(name).or_default() += 1;
    }
    fn cell_if(&mut self, condition: bool, name: &'static str) {
        if condition {
            self.cell(name);
        }
    }
    fn listeners_on(&self, p: u16) -> usize {
        self.listeners.iter().flatten().filter(|l| l.1 == p).count()
    }
    fn active_on(&self, p: u16) -> usize {
        self.users.iter().flatten().filter(|u| **u == (p, false)).count()
    }
    fn waiting_on(&self, p: u16) -> usize {
        self.users.iter().flatten().filter(|u| **u == (p, true)).count()
    }
    fn used(&self, p: u16) -> bool {
        self.listeners_on(p) + self.active_on(p) + self.waiting_on(p) > 0
    }
    fn in_range(&self, p: u16) -> bool {
        p != 0 && (self.first..=self.last).contains(&p)
    }
    fn range(&self) -> std::ops::RangeInclusive<u16> {
        self.first.max(1)..=self.last
    }
    fn free(&self, p: u16) -> bool {
        !self.reserved[p as usize] && !self.used(p)
    }
    fn answer(&self, addr: u32, port: u16) -> Answer {
        let mut heard = self.listeners.iter().enumerate().filter(|(_, l)| l.is_some_and(|l| l.1 == port && overlap(l.0, addr)));
        let listener = heard.next().map(|(n, _)| n as u16);
        assert!(addr == 0 || heard.next().is_none(), "the model lets listeners overlap");
        Answer { listener, used: self.used(port), reserved: self.reserved[port as usize] }
    }
    /// A port that was chosen: a right one, and those passed by.
    fn chosen(&mut self, p: u16, cells: [&'static str; 4]) {
        assert!(self.in_range(p) && self.free(p), "port {p} was not to be chosen");
        let inside = |q: u16| (self.first..=self.last).contains(&q);
        let seen = [
            self.listeners.iter().flatten().any(|l| inside(l.1)),
            self.users.iter().flatten().any(|u| inside(u.0) && !u.1),
            self.users.iter().flatten().any(|u| inside(u.0) && u.1),
            // the rest of a reserved neighbourhood is enough to have been passed by
            self.reserved[p as usize - 1] || self.reserved.get(p as usize + 1) == Some(&true),
        ];
        for (cell, seen) in cells.into_iter().zip(seen) {
            self.cell_if(seen, cell);
        }
    }
    fn slot_known<T: Copy>(list: &[Option<T>], slot: u16) -> Option<T> {
        list.get(slot as usize).copied().flatten()
    }

    /// Checks the reply to a request and does what was granted.
    fn apply(&mut self, q: Request, r: Reply) {
        let refused = |status| Reply { status, port: 0, listener: 0, user: 0, shared: false };
        match q.op {
            op::LISTEN | op::OPEN => {
                let listen = q.op == op::LISTEN;
                let full = if listen { self.listeners.iter().all(Option::is_some) } else { self.users.iter().all(Option::is_some) };
                if u32::from(q.port) >= self.ports {
                    assert_eq!(r, refused(Status::Invalid));
                    return;
                }
                if full {
                    assert_eq!(r, refused(Status::NoSlot));
                    self.cell(if listen { "no listener slot" } else { "no use slot" });
                    return;
                }
                if q.port == 0 {
                    self.choose(listen, r);
                } else {
                    self.given(listen, q, r);
                }
                if r.status == Status::Ok {
                    if listen {
                        assert!(self.listeners[r.listener as usize].is_none(), "slot in use");
                        assert_eq!((r.user, r.shared), (0, false));
                        self.listeners[r.listener as usize] = Some((q.addr, r.port));
                    } else {
                        assert!(self.users[r.user as usize].is_none(), "slot in use");
                        assert_eq!(r.listener, 0);
                        self.users[r.user as usize] = Some((r.port, false));
                    }
                } else {
                    assert_eq!(r, refused(r.status));
                }
            }
            op::JOIN => {
                let Some(l) = Self::slot_known(&self.listeners, q.slot) else {
                    assert_eq!(r, refused(Status::Invalid));
                    self.cell("join: no such listener");
                    return;
                };
                if self.users.iter().all(Option::is_some) {
                    assert_eq!(r, refused(Status::NoSlot));
                    self.cell("join: no use slot");
                    return;
                }
                assert!(self.users[r.user as usize].is_none(), "slot in use");
                assert_eq!(r, Reply { port: l.1, user: r.user, ..refused(Status::Ok) });
                self.users[r.user as usize] = Some((l.1, false));
                self.cell("join: granted");
            }
            op::UNLISTEN => {
                let Some(l) = Self::slot_known(&self.listeners, q.slot) else {
                    assert_eq!(r, refused(Status::Invalid));
                    self.cell(if (q.slot as usize) < self.listeners.len() { "unlisten: twice" } else { "bad slot" });
                    return;
                };
                assert_eq!(r, Reply { port: l.1, ..refused(Status::Ok) });
                self.listeners[q.slot as usize] = None;
                self.cell_if(!self.used(l.1), "unlisten: last user");
                self.cell_if(self.listeners_on(l.1) > 0, "unlisten: other listener stays");
                self.cell_if(self.listeners_on(l.1) == 0 && self.used(l.1), "unlisten: connection stays");
            }
            op::CLOSE | op::WAIT | op::WAIT_END => {
                let wants_waiting = q.op == op::WAIT_END;
                let known = Self::slot_known(&self.users, q.slot);
                let Some((port, _)) = known.filter(|u| u.1 == wants_waiting) else {
                    assert_eq!(r, refused(Status::Invalid));
                    let cell = match (q.op, known.is_some()) {
                        _ if q.slot as usize >= self.users.len() => "bad slot",
                        (op::CLOSE, false) => "close: twice",
                        (op::CLOSE, true) => "close: time-wait -> invalid",
                        (op::WAIT, true) => "wait: twice -> invalid",
                        (op::WAIT_END, true) => "time-wait ends: active -> invalid",
                        (op::WAIT_END, false) => "time-wait ends: twice",
                        _ => return,
                    };
                    self.cell(cell);
                    return;
                };
                assert_eq!(r, Reply { port, ..refused(Status::Ok) });
                if q.op == op::WAIT {
                    self.users[q.slot as usize] = Some((port, true));
                    self.cell("wait: granted");
                    return;
                }
                self.users[q.slot as usize] = None;
                if wants_waiting {
                    self.cell(if self.used(port) { "time-wait ends: other stays" } else { "time-wait ends: last user" });
                    self.cell_if(self.reserved[port as usize], "time-wait ends: reservation stays");
                } else {
                    self.cell_if(!self.used(port), "close: last user");
                    self.cell_if(self.listeners_on(port) > 0, "close: listener stays");
                    let listeners = self.listeners_on(port);
                    self.cell_if(listeners == 0 && self.active_on(port) > 0, "close: other connection stays");
                    self.cell_if(listeners == 0 && self.waiting_on(port) > 0, "close: time-wait stays");
                }
            }
            op::RESERVE | op::UNRESERVE => {
                if q.port == 0 || q.port > q.last || u32::from(q.last) >= self.ports {
                    assert_eq!(r, refused(Status::Invalid));
                    self.cell("bad range");
                    return;
                }
                let range = q.port as usize..=q.last as usize;
                if q.op == op::UNRESERVE {
                    assert_eq!(r, refused(Status::Ok));
                    let held = self.reserved[range.clone()].iter().any(|r| *r);
                    self.cell(if held { "unreserve: reserved" } else { "unreserve: free" });
                    let waits = self.users.iter().flatten().any(|u| range.contains(&u.0.into()) && self.reserved[u.0 as usize]);
                    self.cell_if(waits, "unreserve: time-wait stays");
                    self.reserved[range].fill(false);
                    return;
                }
                let inside = |p: u16| (q.port..=q.last).contains(&p);
                let listener = self.listeners.iter().flatten().any(|l| inside(l.1));
                let active = self.users.iter().flatten().any(|u| inside(u.0) && !u.1);
                if listener || active {
                    assert_eq!(r, Reply { port: r.port, ..refused(Status::InUse) });
                    assert!(inside(r.port) && self.listeners_on(r.port) + self.active_on(r.port) > 0, "port {} is told", r.port);
                    self.cell_if(listener && !active, "reserve: listener -> in use");
                    self.cell_if(active && !listener, "reserve: active -> in use");
                    return;
                }
                assert_eq!(r, refused(Status::Ok));
                let waiting = self.users.iter().flatten().any(|u| inside(u.0));
                self.cell_if(waiting, "reserve: time-wait -> granted");
                let held = self.reserved[range.clone()].iter().any(|r| *r);
                self.cell_if(held, "reserve: reserved -> granted");
                self.cell_if(!held && !waiting, "reserve: free -> granted");
                self.reserved[range].fill(true);
            }
            _ => {
                assert_eq!(r, refused(Status::Invalid));
                self.cell("bad operation");
            }
        }
    }

    fn choose(&mut self, listen: bool, r: Reply) {
        let any_free = || self.range().any(|p| self.free(p));
        if r.status == Status::Ok && !r.shared {
            self.chosen(
                r.port,
                if listen {
                    [
                        "listen 0: passed by listener",
                        "listen 0: passed by active",
                        "listen 0: passed by time-wait",
                        "listen 0: passed by reserved",
                    ]
                } else {
                    [
                        "connect 0: free, passed by listener",
                        "connect 0: free, passed by active",
                        "connect 0: free, passed by time-wait",
                        "connect 0: free, passed by reserved",
                    ]
                },
            );
            return;
        }
        assert!(!any_free(), "a free port was not found: {r:?}");
        if listen {
            assert_eq!(r.status, Status::NoPorts);
            self.cell("listen 0: exhausted");
            return;
        }
        let may = |p: u16| self.in_range(p) && !self.reserved[p as usize] && self.listeners_on(p) == 0;
        let user_ports: Vec<u16> = self.users.iter().flatten().map(|u| u.0).filter(|p| self.in_range(*p)).collect();
        let choices = user_ports.iter().filter(|p| may(**p)).count();
        if r.status != Status::Ok {
            assert_eq!((r.status, choices), (Status::NoPorts, 0));
            self.cell("connect 0: exhausted");
            return;
        }
        assert!(may(r.port) && self.used(r.port), "port {} was not to be shared", r.port);
        self.cell_if(self.active_on(r.port) > 0, "connect 0: shared, active");
        self.cell_if(self.waiting_on(r.port) > 0, "connect 0: shared, time-wait");
        let listener = self.listeners.iter().flatten().any(|l| self.in_range(l.1));
        let both = user_ports.iter().any(|p| self.listeners_on(*p) > 0);
        let reserved = user_ports.iter().any(|p| self.reserved[*p as usize]);
        self.cell_if(listener, "connect 0: shared, passed by listener");
        self.cell_if(both, "connect 0: shared, passed by active with listener");
        self.cell_if(reserved, "connect 0: shared, passed by reserved time-wait");
    }

    fn given(&mut self, listen: bool, q: Request, r: Reply) {
        let p = q.port;
        let (listeners, active, waiting) = (self.listeners_on(p), self.active_on(p), self.waiting_on(p));
        if self.reserved[p as usize] {
            assert_eq!(r.status, Status::Reserved);
            self.cell(if listen { "listen p: reserved -> refused" } else { "connect p: reserved -> refused" });
            self.cell_if(listen && waiting > 0, "listen p: reserved with time-wait -> refused");
            return;
        }
        if listen {
            if let Some(l) = self.listeners.iter().flatten().find(|l| l.1 == p && overlap(l.0, q.addr)) {
                assert_eq!(r.status, Status::InUse);
                let cell = match (l.0, q.addr) {
                    (a, b) if a == b => "listen p: same address -> in use",
                    (_, 0) => "listen p: any over one address -> in use",
                    _ => "listen p: one address over any -> in use",
                };
                self.cell(cell);
                return;
            }
            self.cell_if(listeners > 0, "listen p: other address -> granted");
            self.cell_if(active > 0, "listen p: active -> granted");
            self.cell_if(waiting > 0, "listen p: time-wait -> granted");
            self.cell_if(!self.used(p), "listen p: free -> granted");
        } else {
            assert_eq!(r.shared, self.used(p), "shared");
            self.cell_if(listeners > 0, "connect p: listener -> granted");
            self.cell_if(active > 0, "connect p: active -> granted");
            self.cell_if(waiting > 0, "connect p: time-wait -> granted");
            self.cell_if(!self.used(p), "connect p: free -> granted");
        }
        assert_eq!((r.status, r.port), (Status::Ok, p));
    }
}

/// A look-up on its way: what it may answer is what was right at any time since it was taken.
struct Lookup {
    addr: u32,
    port: u16,
    /// Clock in which it was offered.
    offered: u64,
    right: Vec<Answer>,
}

impl Lookup {
    fn check(&self, got: Answer) {
        let right = self.right.iter().any(|r| r.listener == got.listener)
            && self.right.iter().any(|r| r.used == got.used)
            && self.right.iter().any(|r| r.reserved == got.reserved)
            && (got.listener.is_none() || got.used);
        assert!(right, "{:08x}:{} -> {got:?}, not in {:?}", self.addr, self.port, self.right);
    }
}

struct Bench<D: Pins> {
    dut: D,
    rng: ChaCha8Rng,
    plain: Plain,
    cycle: u64,
    /// Taken at that cycle, reply not seen yet.
    in_flight: Option<(Request, u64)>,
    lookups: VecDeque<Lookup>,
    /// Answered while a request was in flight: right if they fit the state before or after it.
    unsure: Vec<(Lookup, Answer)>,
    offered: Option<(u32, u16)>,
    offered_at: u64,
    /// Last clock in which an answer could not go.
    pressed: u64,
    pool: Vec<u16>,
    addrs: [u32; 3],
    lookup_bias: f64,
    answer_bias: f64,
    reply_bias: f64,
    counted: [u64; 3],
    expected: [u64; 3],
    lookups_done: u64,
    longest_lookup: u64,
    longest_choice: u64,
    choices: BTreeMap<u64, u64>,
    longest_request: u64,
    ops: u64,
}

impl<D: Pins> Bench<D> {
    fn new(mut dut: D, seed: u64) -> Self {
        println!(
            "replay: SEED={seed} PORT_DB_OPS={} cargo test -p ironwarp-models --test port_db {}",
            std::env::var("PORT_DB_OPS").unwrap_or_else(|_| "default".into()),
            std::thread::current().name().unwrap_or_default()
        );
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // inputs are random until they are set: the first edge has to be a rising one
        dut.set_clock(false);
        dut.set_request(None);
        dut.set_lookup(None);
        dut.set_reply_ready(false);
        dut.set_answer_ready(false);
        dut.set_random(rng.random());
        dut.set_reset(true);
        dut.eval();
        let mut bench = Bench {
            plain: Plain::new::<D>(1, (D::PORTS - 1) as u16),
            dut,
            rng,
            cycle: 0,
            in_flight: None,
            lookups: VecDeque::new(),
            unsure: vec![],
            offered: None,
            offered_at: 0,
            pressed: 0,
            pool: vec![1],
            addrs: [0, 0xc000_0201, 0xc000_0281],
            lookup_bias: 0.5,
            answer_bias: 1.0,
            reply_bias: 1.0,
            counted: [0; 3],
            expected: [0; 3],
            lookups_done: 0,
            longest_lookup: 0,
            longest_choice: 0,
            choices: BTreeMap::new(),
            longest_request: 0,
            ops: 0,
        };
        bench.dut.set_range(1, (D::PORTS - 1) as u16);
        bench.reset(1);
        bench
    }

    /// One clock with random look-ups. Returns the reply if one was taken in it.
    fn cycle(&mut self) -> Option<Reply> {
        if self.offered.is_none() && self.lookup_bias > 0.0 && self.rng.random_bool(self.lookup_bias) {
            let port = *self.pool.choose(&mut self.rng).expect("pool");
            self.offered = Some((self.addrs[self.rng.random_range(1..3)], port));
            self.offered_at = self.cycle;
        }
        self.dut.set_lookup(self.offered);
        let answer_ready = self.rng.random_bool(self.answer_bias);
        let reply_ready = self.rng.random_bool(self.reply_bias);
        self.dut.set_answer_ready(answer_ready);
        if !answer_ready {
            self.pressed = self.cycle;
        }
        self.dut.set_reply_ready(reply_ready);
        self.dut.eval();
        let reply = self.dut.reply();
        if let (Some(r), Some((q, taken))) = (reply, self.in_flight) {
            self.in_flight = None;
            self.finish(q, r, self.cycle - taken);
        }
        if let Some(got) = self.dut.answer().filter(|_| answer_ready) {
            let lookup = self.lookups.pop_front().expect("an answer without a look-up");
            self.lookups_done += 1;
            if lookup.offered > self.pressed {
                self.longest_lookup = self.longest_lookup.max(self.cycle - lookup.offered);
                assert!(self.cycle - lookup.offered <= 4, "look-up took {} clocks", self.cycle - lookup.offered);
            }
            if self.in_flight.is_some() {
                self.unsure.push((lookup, got));
            } else {
                lookup.check(got);
            }
        }
        assert!(self.dut.is_ready() || !self.dut.lookup_ready(), "a look-up is taken before the memory is clear");
        if self.dut.lookup_ready() {
            if let Some((addr, port)) = self.offered.take() {
                let right = vec![self.plain.answer(addr, port)];
                self.lookups.push_back(Lookup { addr, port, offered: self.offered_at, right });
            }
        }
        for (sum, pulse) in self.counted.iter_mut().zip(self.dut.counts()) {
            *sum += u64::from(pulse);
        }
        self.dut.tick();
        self.cycle += 1;
        reply.filter(|_| reply_ready)
    }

    fn finish(&mut self, q: Request, r: Reply, latency: u64) {
        self.plain.apply(q, r);
        for lookup in &mut self.lookups {
            lookup.right.push(self.plain.answer(lookup.addr, lookup.port));
        }
        for (mut lookup, got) in std::mem::take(&mut self.unsure) {
            lookup.right.push(self.plain.answer(lookup.addr, lookup.port));
            lookup.check(got);
        }
        self.longest_request = self.longest_request.max(latency);
        let chosen = q.port == 0 && (q.op == op::LISTEN || q.op == op::OPEN) && r.status == Status::Ok && !r.shared;
        if chosen {
            self.longest_choice = self.longest_choice.max(latency);
            *self.choices.entry(latency).or_default() += 1;
            assert!(latency <= 20, "a choice took {latency} clocks");
        }
        for (n, status) in [Status::InUse, Status::Reserved, Status::NoPorts].into_iter().enumerate() {
            self.expected[n] += u64::from(r.status == status);
        }
    }

    /// Offers a request until it is taken.
    fn send(&mut self, q: Request) {
        self.dut.set_request(Some(q));
        self.dut.eval();
        let mut waited = 0;
        while !self.dut.request_ready() {
            self.cycle();
            self.dut.eval();
            waited += 1;
            assert!(waited <= D::SWEEP + 10, "a request waits for ever");
        }
        self.in_flight = Some((q, self.cycle));
        self.cycle();
        self.dut.set_request(None);
    }

    /// Sends a request and waits for its reply, which is checked and done in the model.
    fn ask(&mut self, q: Request) -> Reply {
        self.send(q);
        // each user may cost a search of the listeners; a range costs 5 clocks a word
        let bound = 5 * D::SWEEP + (D::USERS * (D::LISTENERS + 3) * 4) as u64 + 100;
        for _ in 0..bound {
            if let Some(reply) = self.cycle() {
                self.ops += 1;
                assert_eq!(self.dut.live(), self.plain.listeners.iter().flatten().count(), "listeners_live");
                assert_eq!(self.counted, self.expected, "cnt_* pulses");
                return reply;
            }
        }
        panic!("no reply to {q:?}");
    }

    fn listen(&mut self, addr: u32, port: u16) -> Reply {
        self.ask(Request { op: op::LISTEN, addr, port, ..Request::default() })
    }
    fn open(&mut self, port: u16) -> Reply {
        self.ask(Request { op: op::OPEN, port, ..Request::default() })
    }
    fn slot(&mut self, op: u64, slot: u16) -> Reply {
        self.ask(Request { op, slot, ..Request::default() })
    }
    fn range_op(&mut self, op: u64, port: u16, last: u16) -> Reply {
        self.ask(Request { op, port, last, ..Request::default() })
    }
    fn set_range(&mut self, first: u16, last: u16) {
        (self.plain.first, self.plain.last) = (first, last);
        self.dut.set_range(first, last);
    }

    /// Resets for some clocks, in the middle of whatever is going on, and waits until the database is ready.
    fn reset(&mut self, clocks: u32) {
        self.dut.set_reset(true);
        self.dut.set_request(None);
        self.dut.set_lookup(None);
        for _ in 0..clocks {
            self.dut.tick();
        }
        self.dut.set_reset(false);
        self.dut.eval();
        self.plain.clear();
        self.lookups.clear();
        self.unsure.clear();
        (self.in_flight, self.offered) = (None, None);
        let bias = std::mem::replace(&mut self.lookup_bias, 0.3);
        let start = self.cycle;
        while !self.dut.is_ready() {
            assert_eq!(self.cycle(), None, "a reply after reset");
            assert!(self.cycle - start <= D::SWEEP, "reset takes {} clocks", self.cycle - start);
        }
        self.offered = None;
        self.lookup_bias = bias;
        self.counted = self.expected;
    }

    fn release_all(&mut self) {
        for slot in 0..D::USERS {
            if let Some((_, waiting)) = self.plain.users[slot] {
                self.slot(if waiting { op::WAIT_END } else { op::CLOSE }, slot as u16);
            }
        }
        for slot in 0..D::LISTENERS {
            if self.plain.listeners[slot].is_some() {
                self.slot(op::UNLISTEN, slot as u16);
            }
        }
        self.range_op(op::UNRESERVE, 1, (D::PORTS - 1) as u16);
    }

    fn pooled(&mut self) -> u16 {
        *self.pool.choose(&mut self.rng).expect("pool")
    }

    fn some_slot(&mut self, live: &[u16], bound: usize) -> u16 {
        match self.rng.random_range(0..16) {
            0 => self.rng.random_range(0..2 * bound as u16),
            1 => self.pooled() << 8 | self.rng.random_range(0..bound as u16),
            _ => live.choose(&mut self.rng).copied().unwrap_or_else(|| self.rng.random_range(0..bound as u16)),
        }
    }

    /// A random request; `filling` prefers those that take.
    fn random_request(&mut self, filling: bool) -> Request {
        let (garbage_port, garbage_last) = (self.rng.random(), self.rng.random());
        let mut q = Request { op: 0, addr: self.rng.random(), port: garbage_port, last: garbage_last, slot: self.rng.random() };
        let live = |list: Vec<(usize, bool)>| list.into_iter().filter(|l| l.1).map(|l| l.0 as u16).collect::<Vec<_>>();
        let listeners = live(self.plain.listeners.iter().map(Option::is_some).enumerate().collect());
        let active = live(self.plain.users.iter().map(|u| u.is_some_and(|u| !u.1)).enumerate().collect());
        let waiting = live(self.plain.users.iter().map(|u| u.is_some_and(|u| u.1)).enumerate().collect());
        let takes = if filling { 70 } else { 25 };
        if self.rng.random_range(0..100) < takes {
            match self.rng.random_range(0..10) {
                0..3 => {
                    q.op = op::LISTEN;
                    q.addr = *self.addrs.choose(&mut self.rng).expect("addresses");
                    q.port = if self.rng.random_bool(0.4) { 0 } else { self.pooled() };
                }
                3..7 => {
                    q.op = op::OPEN;
                    q.port = if self.rng.random_bool(0.6) { 0 } else { self.pooled() };
                }
                7 | 8 => {
                    q.op = op::JOIN;
                    q.slot = self.some_slot(&listeners, D::LISTENERS);
                }
                _ => {
                    q.op = op::RESERVE;
                    self.random_range_of(&mut q);
                }
            }
        } else {
            match self.rng.random_range(0..20) {
                0..4 => (q.op, q.slot) = (op::UNLISTEN, self.some_slot(&listeners, D::LISTENERS)),
                4..8 => (q.op, q.slot) = (op::CLOSE, self.some_slot(&active, D::USERS)),
                8..12 => (q.op, q.slot) = (op::WAIT, self.some_slot(&active, D::USERS)),
                12..16 => (q.op, q.slot) = (op::WAIT_END, self.some_slot(&waiting, D::USERS)),
                16..18 => {
                    q.op = op::UNRESERVE;
                    self.random_range_of(&mut q);
                }
                18 => {
                    // a release of the other kind
                    q.op = *[op::CLOSE, op::WAIT, op::WAIT_END].choose(&mut self.rng).expect("operations");
                    q.slot = self.some_slot(&[active, waiting].concat(), D::USERS);
                }
                _ if self.rng.random_bool(0.2) => q.op = self.rng.random_range(op::GARBAGE..16),
                _ => {
                    q.op = op::LISTEN;
                    q.port = (D::PORTS as u16).wrapping_add(self.pooled());
                }
            }
        }
        q
    }

    fn random_range_of(&mut self, q: &mut Request) {
        q.port = self.pooled();
        q.last = match self.rng.random_range(0..8) {
            0..4 => q.port,
            4 | 5 => q.port.saturating_add(self.rng.random_range(0..4)),
            6 => self.pooled(),
            _ => q.port.saturating_add(self.rng.random_range(0..(D::PORTS / 64 + 2) as u16)),
        };
        if self.rng.random_range(0..40) == 0 {
            q.port = 0;
        }
    }

    /// A range and ports in and around it that requests and look-ups name.
    fn random_place(&mut self) {
        let top = D::PORTS - 1;
        let (first, last) = match self.rng.random_range(0..8) {
            0 => (0, top),
            1 => (D::PORTS / 4 * 3, top),
            2 => {
                let p = self.rng.random_range(0..=top);
                (p, p)
            }
            3 => (self.rng.random_range(1..=top), self.rng.random_range(1..=top)),
            _ => {
                let p = self.rng.random_range(1..=top);
                (p, (p + self.rng.random_range(0..40)).min(top))
            }
        };
        self.set_range(first as u16, last as u16);
        // two addresses that differ in one bit
        let addr = self.rng.random_range(1..=u32::MAX);
        let other = addr ^ 1 << self.rng.random_range(0..32);
        self.addrs = [0, addr, if other == 0 { !0 } else { other }];
        let middle = self.rng.random_range(first.min(last)..=last.max(first));
        self.pool = vec![];
        for _ in 0..8 {
            let p = match self.rng.random_range(0..4) {
                0 => first,
                1 => last,
                _ => middle,
            };
            let p = (p + self.rng.random_range(0..6)).saturating_sub(self.rng.random_range(0..6));
            self.pool.push(p.clamp(1, top) as u16);
        }
    }

    fn random_pressure(&mut self) {
        self.lookup_bias = *[0.0, 0.2, 0.6, 1.0].choose(&mut self.rng).expect("biases");
        self.answer_bias = *[1.0, 1.0, 0.3].choose(&mut self.rng).expect("biases");
        self.reply_bias = *[1.0, 0.3].choose(&mut self.rng).expect("biases");
    }

    /// All but a few ports of the whole range reserved, so that choices go all the way.
    fn nearly_full(&mut self) {
        let top = (D::PORTS - 1) as u16;
        self.release_all();
        self.set_range(1, top);
        self.range_op(op::RESERVE, 1, top);
        for _ in 0..self.rng.random_range(1..4) {
            let p = self.rng.random_range(1..=top);
            self.range_op(op::UNRESERVE, p, p);
            self.pool[0] = p;
        }
        for _ in 0..20 {
            let q = if self.rng.random_bool(0.5) { op::LISTEN } else { op::OPEN };
            self.ask(Request { op: q, ..Request::default() });
            if self.rng.random_bool(0.7) {
                let request = self.random_request(false);
                self.ask(request);
            }
        }
        self.release_all();
    }

    fn random_run(&mut self, ops: u64) {
        let mut episode = 0u32;
        while self.ops < ops {
            self.random_place();
            self.random_pressure();
            let mut filling = true;
            for n in 0..self.rng.random_range(50..400) {
                if n % 60 == 59 {
                    filling = self.rng.random_bool(0.5);
                    self.random_pressure();
                }
                let q = self.random_request(filling);
                self.ask(q);
                for _ in 0..self.rng.random_range(0..3) {
                    self.cycle();
                }
            }
            match episode % 8 {
                1 | 4 | 6 => self.release_all(),
                3 => {
                    let q = self.random_request(true);
                    self.send(q);
                    for _ in 0..self.rng.random_range(0..30) {
                        self.cycle();
                    }
                    let clocks = self.rng.random_range(1..4);
                    self.reset(clocks);
                }
                7 => self.nearly_full(),
                _ => {}
            }
            if episode.is_multiple_of(5) {
                self.dut.set_random(self.rng.random());
            }
            episode += 1;
        }
        self.report();
        for cell in CELLS {
            assert!(self.plain.cells.contains_key(cell), "never met: {cell}");
        }
        assert_eq!(self.choices.keys().copied().collect::<Vec<_>>(), [8, 13, 18], "clocks of a choice by word, group and top");
    }

    fn report(&self) {
        println!("{}: {} operations, {} look-ups in {} clocks", D::NAME, self.ops, self.lookups_done, self.cycle);
        println!("longest look-up {}, choice {}, request {} clocks", self.longest_lookup, self.longest_choice, self.longest_request);
        println!("choices by clocks: {:?}", self.choices);
        for cell in CELLS {
            println!("{:>9}  {cell}", self.plain.cells.get(cell).copied().unwrap_or(0));
        }
    }
}

fn seed() -> u64 {
    std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

fn operations(default: u64) -> u64 {
    std::env::var("PORT_DB_OPS").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// Covers: PDB-1, PDB-2, PDB-3, CM-23, CM-33, TCP-6
#[test]
fn every_cell_of_the_table_holds_in_any_order() {
    let seed = seed();
    Bench::new(port_db::Model::new(seed), seed).random_run(operations(60_000));
}

/// Covers: PDB-1, PDB-2, PDB-3
#[test]
fn the_small_size_keeps_the_same_table() {
    let seed = seed();
    Bench::new(port_db_small::Model::new(seed), seed).random_run(operations(80_000));
}

/// Covers: PDB-1
#[test]
fn a_look_up_never_waits_for_the_longest_choice() {
    let seed = seed();
    let mut bench = Bench::new(port_db::Model::new(seed), seed);
    bench.range_op(op::RESERVE, 1, 65535);
    bench.range_op(op::UNRESERVE, 77, 77);
    // all but the last are look-ups of the word that the choice writes
    bench.pool = vec![64, 77, 127, 65535];
    bench.lookup_bias = 1.0;
    for _ in 0..200 {
        let (taken, done) = (bench.cycle, bench.lookups_done);
        let reply = bench.listen(0, 0);
        assert_eq!((reply.status, reply.port), (Status::Ok, 77));
        let clocks = bench.cycle - taken;
        // one a clock; the clock in which the word is written takes none
        assert!(bench.lookups_done - done + 2 >= clocks, "{} look-ups in {clocks} clocks", bench.lookups_done - done);
        bench.slot(op::UNLISTEN, reply.listener);
    }
    assert_eq!((bench.longest_choice, bench.longest_lookup), (18, 4));
}

/// Covers: PDB-3, DEF-54
#[test]
fn after_all_users_are_gone_it_is_as_at_the_start() {
    let seed = seed();
    let mut bench = Bench::new(port_db_small::Model::new(seed), seed);
    for round in 0..200 {
        bench.random_place();
        for _ in 0..40 {
            let q = bench.random_request(true);
            bench.ask(q);
        }
        bench.release_all();
        bench.set_range(1, 15);
        let mut had = vec![];
        // as many as there are slots; the rest reserved, so that all 15 ports are given out
        for _ in 0..4 {
            had.push(bench.open(0));
        }
        for _ in 0..2 {
            had.push(bench.listen(0, 0));
        }
        assert!(had.iter().all(|r| r.status == Status::Ok && !r.shared), "round {round}: {had:?}");
        for port in (1..16).filter(|p| had.iter().all(|r| r.port != *p)) {
            assert_eq!(bench.range_op(op::RESERVE, port, port).status, Status::Ok);
        }
        assert_eq!(bench.listen(0, 0).status, Status::NoSlot);
        assert_eq!(bench.slot(op::UNLISTEN, had[4].listener).status, Status::Ok);
        assert_eq!(bench.listen(0, 0).port, had[4].port, "the only free port");
        bench.release_all();
    }
}

fn chosen_ports(bench: &mut Bench<port_db::Model>, choices: u32) -> Vec<u16> {
    (0..choices)
        .map(|_| {
            let reply = bench.listen(0, 0);
            bench.slot(op::UNLISTEN, reply.listener);
            reply.port
        })
        .collect()
}

/// RFC 6056: the first port tried is random over the whole range, and so is what the seed changes.
/// Covers: CM-33, TCP-46
#[test]
fn choices_are_spread_over_the_range() {
    let seed = seed();
    let mut bench = Bench::new(port_db::Model::new(seed), seed);
    bench.set_range(20_000, 51_999);
    let mut slices = [0u32; 32];
    for port in chosen_ports(&mut bench, 6400) {
        slices[usize::from(port - 20_000) / 1000] += 1;
    }
    // 200 expected in each, standard deviation 14
    assert!(slices.iter().all(|n| (120..280).contains(n)), "{slices:?}");
    let seeds = [0x1bad_5eed, 0x1bad_5eed, 7, 0].map(|random| {
        let mut bench = Bench::new(port_db::Model::new(seed), seed);
        bench.lookup_bias = 0.0;
        bench.set_range(20_000, 51_999);
        bench.dut.set_random(random);
        chosen_ports(&mut bench, 20)
    });
    assert_eq!(seeds[0], seeds[1], "the same seed at the same time");
    assert!(seeds[0] != seeds[2] && seeds[0] != seeds[3] && seeds[2] != seeds[3], "another seed");
    assert!(seeds[3].iter().any(|p| *p != seeds[3][0]), "seed 0 is as good as another");
    // both ends can come
    bench.set_range(100, 103);
    let ports = chosen_ports(&mut bench, 100);
    assert!((100..104).all(|p| ports.contains(&p)), "{ports:?}");
}

/// From the port that is tried first the next free one is taken, and after the last port of the range the first: a port is
/// chosen as often as its distance to the free one before it says.
/// Covers: PDB-1
#[test]
fn the_next_free_port_is_chosen() {
    let seed = seed();
    let mut bench = Bench::new(port_db::Model::new(seed), seed);
    bench.lookup_bias = 0.0;
    bench.range_op(op::RESERVE, 1, 65535);
    // first and last of the range; two free ports: in one word, in one group of words, in two groups
    for (first, last, low, high) in
        [(0x4000, 0x403f, 0x4010, 0x4030), (0x4000, 0x4fff, 0x4400, 0x4c00), (0x2000, 0xdfff, 0x4400, 0xa400), (1, 65535, 0x4400, 0xc400)]
    {
        bench.set_range(first, last);
        bench.range_op(op::UNRESERVE, low, low);
        bench.range_op(op::UNRESERVE, high, high);
        let lows = chosen_ports(&mut bench, 400).iter().filter(|p| **p == low).count();
        // half of them, standard deviation 10
        assert!((140..260).contains(&lows), "{low:#x} {lows} times of 400, else {high:#x}");
        bench.range_op(op::RESERVE, low, low);
        bench.range_op(op::RESERVE, high, high);
    }
}
