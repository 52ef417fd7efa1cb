// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::engine::Engine` against a plain model, with a port database that answers as the test decides.
use ironwarp_abi::{Command, EventKind, Handle, HandleKind, Opcode, Status};
use ironwarp_models::{engine::Model, Dut};
use rand::{
    rngs::StdRng,
    seq::{IndexedRandom, IteratorRandom},
    Rng, SeedableRng,
};
use std::collections::BTreeMap;

const SLOTS: u16 = 16;

/// Replies of the port database, in the order of `cm::port_types::PortStatus`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Port {
    Ok,
    InUse,
    Reserved,
    NoPorts,
    NoSlot,
    Invalid,
}

impl Port {
    const ALL: [Port; 6] = [Port::Ok, Port::InUse, Port::Reserved, Port::NoPorts, Port::NoSlot, Port::Invalid];
    fn status(self) -> Status {
        match self {
            Port::Ok => Status::Ok,
            Port::InUse => Status::AddressInUse,
            Port::Reserved => Status::Reserved,
            Port::NoPorts => Status::NoPorts,
            Port::NoSlot => Status::NoMemory,
            Port::Invalid => Status::Invalid,
        }
    }
}

/// Operations of the port database, in the order of `cm::port_types::PortOp`.
const LISTEN: u64 = 0;
const UNLISTEN: u64 = 1;
const RESERVE: u64 = 7;
const UNRESERVE: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
struct PortRequest {
    op: u64,
    addr: u32,
    port: u16,
    last: u16,
    slot: u16,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    kind: u8,
    status: i32,
    context: u32,
    detail: u32,
    handle: Handle,
    addr: u32,
    port: u16,
}

#[derive(Debug, Default, PartialEq, Clone, Copy)]
struct Counts {
    done: u32,
    errors: u32,
    unknown: u32,
    stale: u32,
    created: u32,
    destroyed: u32,
    exhausted: u32,
}

/// What the connection manager heard of a listener.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Update {
    slot: u16,
    live: bool,
    generation: u32,
    context: u32,
    backlog: (u16, u16),
}

/// What the set-up rules were told: number, live, [deny, inbound, outbound], network, mask, ports.
type Rule = (u8, bool, [bool; 3], u32, u32, (u16, u16));

struct Bench {
    m: Model,
    rng: StdRng,
    counts: Counts,
    clocks: u64,
    /// Told in the last command.
    updates: Vec<Update>,
    rules: Vec<Rule>,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut b = Bench {
            m: Model::new(seed),
            rng: StdRng::seed_from_u64(seed),
            counts: Counts::default(),
            clocks: 0,
            updates: vec![],
            rules: vec![],
        };
        b.reset();
        b
    }

    fn reset(&mut self) {
        self.m.cmd_valid.set(false);
        self.m.evt_ready.set(false);
        self.m.port_req_ready.set(false);
        self.m.port_rsp_valid.set(false);
        self.m.listener_ready.set(false);
        self.m.rule_ready.set(false);
        self.m.listener_done.set(false);
        self.m.reset.set(true);
        self.m.tick();
        self.m.reset.set(false);
        self.m.eval();
    }

    fn tick(&mut self) {
        self.m.eval();
        let m = &self.m;
        for (count, pulse) in [
            (&mut self.counts.done, &m.cnt_cmd_done),
            (&mut self.counts.errors, &m.cnt_cmd_errors),
            (&mut self.counts.unknown, &m.cnt_cmd_unknown),
            (&mut self.counts.stale, &m.cnt_stale_handles),
            (&mut self.counts.created, &m.cnt_listen_created),
            (&mut self.counts.destroyed, &m.cnt_listen_destroyed),
            (&mut self.counts.exhausted, &m.cnt_listeners_exhausted),
        ] {
            *count += u32::from(pulse.get());
        }
        self.m.tick();
        self.clocks += 1;
    }

    fn offer(&mut self, c: &Command) {
        let m = &mut self.m;
        m.cmd_data_opcode.set(c.opcode.into());
        m.cmd_data_flags.set(c.flags.into());
        m.cmd_data_context.set(c.context.into());
        m.cmd_data_index.set(c.handle.index().into());
        m.cmd_data_kind.set(c.handle.kind_octet().into());
        m.cmd_data_generation.set(c.handle.generation().into());
        m.cmd_data_local_addr.set(c.local_addr.into());
        m.cmd_data_local_port.set(c.local_port.into());
        m.cmd_data_remote_port.set(c.remote_port.into());
        m.cmd_data_remote_addr.set(c.remote_addr.into());
        m.cmd_data_gateway.set(c.gateway.into());
        m.cmd_data_backlog_half_open.set(c.backlog_half_open.into());
        m.cmd_data_backlog_accept.set(c.backlog_accept.into());
        m.cmd_valid.set(true);
    }

    /// Runs one command to its end. `reply` is what the port database says (status, port, listener slot), if it is asked.
    /// Returns the request that the database saw and the one event.
    fn run(&mut self, c: &Command, reply: (Port, u16, u16)) -> (Option<PortRequest>, Event) {
        self.offer(c);
        let (mut request, mut event, mut replied) = (None, None, false);
        let (mut db_wait, mut evt_wait) = (self.rng.random_range(0..4), self.rng.random_range(0..4));
        // clocks until the connection manager takes the update, and has ended the listener's connections
        let (mut told_wait, mut end_wait) = (self.rng.random_range(0..4), None);
        self.updates.clear();
        self.rules.clear();
        let mut rule_wait = self.rng.random_range(0..20);
        for _ in 0..200 {
            self.m.port_req_ready.set(request.is_none() && db_wait == 0);
            self.m.port_rsp_valid.set(request.is_some() && !replied && db_wait == 0);
            self.m.port_rsp_data_status.set(reply.0 as u64);
            self.m.port_rsp_data_port.set(reply.1.into());
            self.m.port_rsp_data_listener.set(reply.2.into());
            self.m.evt_ready.set(evt_wait == 0);
            self.m.listener_ready.set(told_wait == 0);
            self.m.listener_done.set(end_wait == Some(0));
            self.m.rule_ready.set(rule_wait == 0);
            self.m.eval();
            assert!(!self.m.evt_valid.get() || end_wait.is_none(), "FREED before its connections have ended");
            end_wait = end_wait.and_then(|n: u32| n.checked_sub(1));
            if self.m.rule_valid.get() {
                let m = &self.m;
                if rule_wait > 0 {
                    rule_wait -= 1;
                } else {
                    self.rules.push((
                        m.rule_data_number.get() as u8,
                        m.rule_data_live.bit(),
                        [m.rule_data_rule_deny.bit(), m.rule_data_rule_inbound.bit(), m.rule_data_rule_outbound.bit()],
                        m.rule_data_rule_network.get() as u32,
                        m.rule_data_rule_mask.get() as u32,
                        (m.rule_data_rule_first.get() as u16, m.rule_data_rule_last.get() as u16),
                    ));
                }
            }
            if self.m.listener_valid.get() {
                let m = &self.m;
                if told_wait > 0 {
                    told_wait -= 1;
                } else {
                    self.updates.push(Update {
                        slot: m.listener_data_slot.get() as u16,
                        live: m.listener_data_live.bit(),
                        generation: m.listener_data_generation.get() as u32,
                        context: m.listener_data_context.get() as u32,
                        backlog: (m.listener_data_backlog_half_open.get() as u16, m.listener_data_backlog_accept.get() as u16),
                    });
                    if !m.listener_data_live.bit() {
                        end_wait = Some(self.rng.random_range(0..6));
                    }
                }
            }
            if self.m.port_req_valid.get() {
                let m = &self.m;
                let seen = PortRequest {
                    op: m.port_req_data_op.get(),
                    addr: m.port_req_data_addr.get() as u32,
                    port: m.port_req_data_port.get() as u16,
                    last: m.port_req_data_last.get() as u16,
                    slot: m.port_req_data_slot.get() as u16,
                };
                if db_wait > 0 {
                    db_wait -= 1;
                } else {
                    assert!(request.is_none(), "one request a command");
                    request = Some(seen);
                    db_wait = self.rng.random_range(0..4);
                }
            } else if request.is_some() && !replied {
                if db_wait > 0 {
                    db_wait -= 1;
                } else if self.m.port_rsp_ready.get() {
                    replied = true;
                }
            }
            let mut taken = false;
            if self.m.evt_valid.get() {
                let m = &self.m;
                let seen = Event {
                    kind: m.evt_data_kind.get() as u8,
                    status: m.evt_data_status.get() as u32 as i32,
                    context: m.evt_data_context.get() as u32,
                    detail: m.evt_data_detail.get() as u32,
                    handle: Handle(m.evt_data_generation.get() << 32 | m.evt_data_handle_kind.get() << 16 | m.evt_data_index.get()),
                    addr: m.evt_data_local_addr.get() as u32,
                    port: m.evt_data_local_port.get() as u16,
                };
                for rest in [&m.evt_data_flags, &m.evt_data_remote_addr, &m.evt_data_remote_port, &m.evt_data_data_len] {
                    assert_eq!(rest.get(), 0);
                }
                if let Some(before) = event {
                    assert_eq!(before, seen, "an event that waits does not change");
                }
                event = Some(seen);
                if evt_wait > 0 {
                    evt_wait -= 1;
                } else {
                    taken = true;
                }
            }
            assert_eq!(self.m.cmd_ready.get(), taken, "the command is taken with its event");
            self.tick();
            if taken {
                self.m.cmd_valid.set(false);
                self.tick();
                self.m.eval();
                assert!(!self.m.evt_valid.get() && !self.m.port_req_valid.get(), "nothing without a command");
                return (request, event.expect("taken"));
            }
        }
        panic!("{c:?} never answered");
    }

    fn addresses(&self) -> Vec<(u32, u32, u32)> {
        let m = &self.m;
        [
            (&m.addresses_0_valid, &m.addresses_0_ip, &m.addresses_0_mask, &m.addresses_0_gateway),
            (&m.addresses_1_valid, &m.addresses_1_ip, &m.addresses_1_mask, &m.addresses_1_gateway),
            (&m.addresses_2_valid, &m.addresses_2_ip, &m.addresses_2_mask, &m.addresses_2_gateway),
            (&m.addresses_3_valid, &m.addresses_3_ip, &m.addresses_3_mask, &m.addresses_3_gateway),
        ]
        .into_iter()
        .filter(|(valid, ..)| valid.bit())
        .map(|(_, ip, mask, gateway)| (ip.get() as u32, mask.get() as u32, gateway.get() as u32))
        .collect()
    }
}

fn command(opcode: Opcode, context: u32) -> Command {
    Command { opcode: opcode as u8, context, ..Command::default() }
}

/// These go to `cm::conn`; the engine does not know them.
fn of_connections(opcode: Opcode) -> bool {
    opcode as u8 >= Opcode::Connect as u8
}

fn expect(kind: EventKind, status: Status, c: &Command) -> Event {
    Event {
        kind: kind as u8,
        status: status as i32,
        context: c.context,
        detail: 0,
        handle: Handle::NONE,
        addr: c.local_addr,
        port: c.local_port,
    }
}

/// Every command and every reply of the database, from the plain model's table; unknown opcodes, flags and stale handles
/// included. Handles never repeat.
///
/// Covers: CM-21, CM-22, CM-32, CM-43
#[test]
fn every_command_has_exactly_one_answer() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let commands: u32 = std::env::var("ENGINE_OPS").ok().and_then(|s| s.parse().ok()).unwrap_or(30_000);
    println!("replay: SEED={seed} ENGINE_OPS={commands} cargo test -p ironwarp-models --test engine");
    let mut b = Bench::new(seed);
    let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
    let mut expected = Counts::default();
    let mut live: BTreeMap<u16, (Handle, u32, u16)> = BTreeMap::new();
    let mut old: Vec<Handle> = vec![];
    let mut known: BTreeMap<u64, ()> = BTreeMap::new();
    let mut ours: Vec<(u32, u32, u32)> = vec![];
    let pool = [0xc000_0201u32, 0xc000_0202, 0xc633_6401, 0xcb00_7101, 0x0a00_0001, 0x0a00_0002];
    for context in 0..commands {
        let c = Command {
            flags: if rng.random_ratio(1, 50) { rng.random() } else { 0 },
            local_addr: if rng.random_ratio(1, 4) { 0 } else { *pool.choose(&mut rng).unwrap() },
            local_port: if rng.random_ratio(1, 3) { 0 } else { rng.random() },
            remote_port: rng.random(),
            remote_addr: 0xffff_ff00,
            gateway: rng.random(),
            backlog_half_open: rng.random(),
            backlog_accept: rng.random(),
            ..command(*Opcode::ALL.iter().filter(|o| !of_connections(**o)).choose(&mut rng).unwrap(), context)
        };
        let reply = (*Port::ALL.choose(&mut rng).unwrap(), rng.random::<u16>() | 1);
        let mut c = c;
        if rng.random_ratio(1, 40) {
            c.opcode = rng.random();
        }
        if c.opcode == Opcode::AddressAdd as u8 && rng.random_ratio(1, 4) {
            c.local_addr = *[0, 0x7f00_0001, 0xe000_0001, 0xffff_ffff, 0x0000_0005].choose(&mut rng).unwrap();
        }
        if c.opcode == Opcode::Rule as u8 {
            c.flags = if rng.random_ratio(1, 20) { rng.random() } else { rng.random_range(0..8) };
            c.backlog_half_open = if rng.random_ratio(1, 20) { rng.random() } else { rng.random_range(0..20) };
            c.remote_addr = (u64::from(u32::MAX) << rng.random_range(0..33)) as u32;
            c.local_addr = if rng.random_ratio(1, 20) { rng.random() } else { rng.random::<u32>() & c.remote_addr };
            c.remote_port = if rng.random_ratio(1, 20) { rng.random() } else { rng.random_range(c.local_port..=u16::MAX) };
        }
        let slot = (0..SLOTS).find(|s| !live.contains_key(s)).unwrap_or(0);
        let reply = if live.len() == usize::from(SLOTS) && c.opcode == Opcode::Listen as u8 { (Port::NoSlot, reply.1) } else { reply };
        if c.opcode == Opcode::Unlisten as u8 {
            c.handle = match rng.random_range(0..6) {
                0 => old.choose(&mut rng).copied().unwrap_or(Handle::NONE),
                1 => Handle(rng.random()),
                2 => live.values().next().map_or(Handle::NONE, |(h, ..)| Handle::new(HandleKind::Connection, h.index(), h.generation())),
                3 => live.values().next().map_or(Handle::NONE, |(h, ..)| Handle::new(HandleKind::Listener, h.index() | 16, h.generation())),
                _ => live.values().map(|v| v.0).collect::<Vec<_>>().choose(&mut rng).copied().unwrap_or(Handle::NONE),
            };
        }
        let mine = c.local_addr == 0 || ours.iter().any(|a| a.0 == c.local_addr);
        let asks = |op, slot| Some(PortRequest { op, addr: c.local_addr, port: c.local_port, last: c.remote_port, slot });
        let mut want_request = None;
        let mut want_rules: Vec<Rule> = vec![];
        let mut want = expect(EventKind::CmdReply, Status::Ok, &c);
        match Opcode::ALL.iter().find(|o| **o as u8 == c.opcode && !of_connections(**o)) {
            Some(Opcode::Rule) => {
                let good = c.flags < 8
                    && c.backlog_half_open < ironwarp_abi::RULES
                    && c.local_addr & !c.remote_addr == 0
                    && c.local_port <= c.remote_port;
                if good {
                    let which = [c.flags & 1 != 0, c.flags & 2 != 0, c.flags & 4 != 0];
                    let ports = (c.local_port, c.remote_port);
                    want_rules.push((c.backlog_half_open as u8, which[1] | which[2], which, c.local_addr, c.remote_addr, ports));
                } else {
                    want.status = Status::Invalid as i32;
                }
            }
            _ if c.flags != 0 => want.status = Status::Invalid as i32,
            None => {
                want.status = Status::UnknownOpcode as i32;
                expected.unknown += 1;
            }
            Some(Opcode::Nop) => {}
            Some(Opcode::Listen) => {
                want.kind = EventKind::ListenReply as u8;
                if mine {
                    want_request = asks(LISTEN, 0);
                    want.status = reply.0.status() as i32;
                    want.detail = reply.1.into();
                    if reply.0 == Port::Ok {
                        want.port = reply.1;
                        expected.created += 1;
                    }
                    expected.exhausted += u32::from(reply.0 == Port::NoSlot);
                } else {
                    want.status = Status::AddressNotAvailable as i32;
                }
            }
            Some(Opcode::Unlisten) => match live.get(&c.handle.index()) {
                Some((handle, addr, port)) if *handle == c.handle => {
                    want_request = asks(UNLISTEN, c.handle.index());
                    (want.addr, want.port) = (*addr, *port);
                    want.detail = reply.1.into();
                    if reply.0 == Port::Ok {
                        want.kind = EventKind::Freed as u8;
                        want.handle = c.handle;
                        expected.destroyed += 1;
                    }
                    want.status = reply.0.status() as i32;
                    expected.exhausted += u32::from(reply.0 == Port::NoSlot);
                }
                _ => {
                    want.status = Status::NoEntry as i32;
                    expected.stale += 1;
                }
            },
            Some(op @ (Opcode::Reserve | Opcode::Unreserve)) => {
                want_request = asks(if *op == Opcode::Reserve { RESERVE } else { UNRESERVE }, 0);
                want.status = reply.0.status() as i32;
                want.detail = reply.1.into();
                expected.exhausted += u32::from(reply.0 == Port::NoSlot);
            }
            Some(Opcode::AddressAdd) => {
                let top = c.local_addr >> 24;
                want.status = if top == 0 || top == 127 || top >= 224 {
                    Status::Invalid
                } else if ours.iter().any(|a| a.0 == c.local_addr) {
                    Status::Exists
                } else if ours.len() == 4 {
                    Status::NoMemory
                } else {
                    ours.push((c.local_addr, c.remote_addr, c.gateway));
                    Status::Ok
                } as i32;
            }
            Some(Opcode::AddressDelete) => match ours.iter().position(|a| a.0 == c.local_addr) {
                Some(at) => {
                    ours.remove(at);
                }
                None => want.status = Status::NoEntry as i32,
            },
            Some(other) => panic!("{other:?} has no row in this model"),
        }
        if want.status == 0 {
            expected.done += 1;
        } else {
            expected.errors += 1;
        }
        let (request, event) = b.run(&c, (reply.0, reply.1, slot));
        assert_eq!(request, want_request, "{c:?}");
        assert_eq!(b.rules, want_rules, "{c:?}");
        // the connection manager hears of each listener that is made and of each that ends, and of nothing else
        let changes = event.status == 0 && (c.opcode == Opcode::Listen as u8 || c.opcode == Opcode::Unlisten as u8);
        let update = Update {
            slot: event.handle.index(),
            live: c.opcode == Opcode::Listen as u8,
            generation: event.handle.generation(),
            context: c.context,
            backlog: (c.backlog_half_open, c.backlog_accept),
        };
        assert_eq!(b.updates, if changes { vec![update] } else { vec![] }, "{c:?}");
        if event.kind == EventKind::ListenReply as u8 && event.status == 0 {
            assert_eq!((event.handle.kind(), event.handle.index()), (Some(HandleKind::Listener), slot));
            assert!(known.insert(event.handle.0, ()).is_none(), "handle given twice");
            live.insert(slot, (event.handle, c.local_addr, event.port));
            want.handle = event.handle;
        }
        if event.kind == EventKind::Freed as u8 {
            live.remove(&c.handle.index());
            old.push(c.handle);
        }
        assert_eq!(event, want, "{c:?} with {reply:?}");
        // only what UNLISTEN answers may differ from the addresses' order of slots
        let (mut have, mut should) = (b.addresses(), ours.clone());
        have.sort_unstable();
        should.sort_unstable();
        assert_eq!(have, should);
        if rng.random_ratio(1, 2000) {
            // a reset ends every handle; their numbers stay used
            b.reset();
            old.extend(live.values().map(|v| v.0));
            live.clear();
            ours.clear();
            assert!(b.addresses().is_empty());
        }
    }
    assert_eq!(b.counts, expected);
    assert!(known.len() > commands as usize / 100, "{} handles", known.len());
}

/// A reset in any clock of any command leaves an engine that works, and handles from before are stale.
///
/// Covers: CM-32, CM-35
#[test]
fn reset_in_every_state() {
    let mut b = Bench::new(7);
    for clocks in 0..24 {
        b.run(&command(Opcode::Listen, 1), (Port::Ok, 7000, 3));
        let (_, first) = b.run(&command(Opcode::Listen, 2), (Port::Ok, 7001, 4));
        b.offer(&command(Opcode::Listen, 3));
        b.m.evt_ready.set(false);
        for _ in 0..clocks {
            b.m.port_req_ready.set(true);
            b.m.port_rsp_valid.set(b.m.port_rsp_ready.get());
            b.m.port_rsp_data_status.set(0);
            b.m.listener_ready.set(true);
            b.tick();
        }
        b.reset();
        let (request, event) = b.run(&Command { handle: first.handle, ..command(Opcode::Unlisten, 4) }, (Port::Ok, 1, 0));
        assert_eq!((request, event.status, event.kind), (None, Status::NoEntry as i32, EventKind::CmdReply as u8), "after {clocks} clocks");
        let (_, again) = b.run(&command(Opcode::Listen, 5), (Port::Ok, 7001, 4));
        // the interrupted LISTEN may have taken a generation of the same slot
        let newer = again.handle.generation().wrapping_sub(first.handle.generation());
        assert!((1..=2).contains(&newer), "generation moved by {newer}");
        b.reset();
    }
}

/// Clocks from command to event, port database excluded: a budget of architecture.md is built on these.
#[test]
fn timing_is_as_documented() {
    let mut b = Bench::new(3);
    for (opcode, clocks) in [(Opcode::Nop, 3), (Opcode::AddressAdd, 3), (Opcode::Reserve, 5), (Opcode::Listen, 8)] {
        b.offer(&Command { local_addr: 0x0a00_0001 * u32::from(opcode == Opcode::AddressAdd), ..command(opcode, 1) });
        b.m.port_req_ready.set(true);
        b.m.port_rsp_valid.set(true);
        b.m.port_rsp_data_status.set(0);
        b.m.listener_ready.set(true);
        b.m.evt_ready.set(true);
        b.m.eval();
        let mut n = 0;
        while !b.m.evt_valid.get() {
            b.tick();
            b.m.eval();
            n += 1;
            assert!(n < 20, "{opcode:?}");
        }
        assert_eq!(n, clocks, "{opcode:?}");
        b.tick();
        b.m.cmd_valid.set(false);
        b.tick();
    }
}
