// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cm::conn::Conn` among neighbours that answer as the test decides: TCP's two halves, the start-up parser and sender, the port database,
//! the deadlines and the host. Every run is watched by [`World::watch`], which knows what may follow what.
use ironwarp_abi::command::flag;
use ironwarp_abi::{Command, EventKind, Handle, HandleKind, Opcode, Status};
use ironwarp_models::{bench::seed, conn::Model, Dut};
use rand::{rngs::StdRng, seq::IndexedRandom, Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const CONNECTIONS: u16 = 32;
/// Largest IRD and ORD of this size of the block.
const DEPTH: u16 = 8;
const HOST: u32 = 0x0a00_0001;
const PEER: u32 = 0x0a00_0063;
const MPA_TIMEOUT: u32 = 10_000;
const CONNECT_TIMEOUT: u32 = 60_000;
const CLOSE_TIMEOUT: u32 = 5_000;
const REFUSAL_TIMEOUT: u32 = 300;

/// Enumerations of `tcp::types`, `mpa::types` and `cm::port_types`, as they are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RxOp {
    Open,
    Free,
    HalfDone,
    Full,
    Limit,
    Reopen,
    Discard,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RxNote {
    Opened,
    Exists,
    NoSlot,
    Reopened,
    Passive,
    Synced,
    Fin,
    Reset,
    Closed,
    WaitEnd,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxOp {
    Send,
    Close,
    Abort,
    Free,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TxNote {
    Freed,
    TimedOut,
    Unreachable,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Frame,
    Malformed,
    WrongRevision,
    Excess,
    Delivered,
    Failed,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QpOp {
    Bind,
    Close,
    Stop,
    Unbind,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QpNote {
    Unbound,
    Torn,
    Drained,
    Cut,
    Heard,
    Terminated,
    Failed,
}
/// What `Bind` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Binding {
    qpn: u32,
    crc: bool,
    markers: bool,
    responder: bool,
    depth: (u16, u16),
    rtr: (bool, bool),
    terminate: u8,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Db {
    Ok,
    InUse,
    Reserved,
    NoPorts,
    NoSlot,
    Invalid,
}
const OPEN: u64 = 2;
const JOIN: u64 = 3;
const CLOSE: u64 = 4;
const WAIT: u64 = 5;
const WAIT_END: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Tuple {
    local_ip: u32,
    remote_ip: u32,
    local_port: u16,
    remote_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Frame {
    reply: bool,
    flags: u8,
    rev: u8,
    data_len: u16,
    ird_word: u16,
    ord_word: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct RxMessage {
    note: u64,
    index: u16,
    tuple: Tuple,
    listener: u16,
    refused: bool,
    waiting: bool,
    wait: u16,
}

/// What the block said to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Rx { op: RxOp, index: u16, limit: u16 },
    Tx { op: TxOp, index: u16, len: u16, tos: u8 },
    Frame { index: u16, frame: Frame, addr: u64 },
    Deliver(u16),
    Deadline { index: u16, on: bool },
    Port { op: u64, slot: u16 },
    Qp { op: QpOp, index: u16, binding: Binding },
    ListenerDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    kind: EventKind,
    flags: u8,
    status: i32,
    context: u32,
    detail: u32,
    handle: Handle,
    local: (u32, u16),
    remote: (u32, u16),
    own: (u16, u16),
    peer: (u16, u16),
    data_len: u16,
    listener: Handle,
}

/// What is told of a listener.
#[derive(Clone, Copy, Debug, Default)]
struct Listener {
    slot: u16,
    live: bool,
    generation: u32,
    context: u32,
    half_open: u16,
    accept: u16,
}

/// What the checker knows of a handle.
#[derive(Default, Debug)]
struct Life {
    active: bool,
    answered: bool,
    established: bool,
    disconnected: bool,
    closed: bool,
}

#[derive(Default, Debug, Clone, Copy, PartialEq)]
struct Counts {
    done: u32,
    errors: u32,
    unknown: u32,
    stale: u32,
    created: u32,
    freed: u32,
    established: u32,
    timeouts: u32,
    rejects_in: u32,
    rejects_out: u32,
    non_peer: u32,
    retries: u32,
    denied: u32,
}

/// A peer and TCP, as far as the random test must know them.
#[derive(Default, Debug, Clone, Copy)]
struct Peer {
    active: bool,
    synced: bool,
    framed: bool,
    sent: bool,
    fin: bool,
    closing: bool,
    over: bool,
}

struct World {
    m: Model,
    rng: StdRng,
    now: u32,
    // to the block
    commands: VecDeque<Command>,
    from_rx: VecDeque<RxMessage>,
    from_tx: VecDeque<(TxNote, u16)>,
    results: VecDeque<(Start, u16, Frame)>,
    faults: VecDeque<u16>,
    expired: VecDeque<u16>,
    listeners: VecDeque<Listener>,
    port_replies: VecDeque<(Db, u16, u16)>,
    news: VecDeque<(QpNote, u16)>,
    // from the block
    told: Vec<Told>,
    events: Vec<Event>,
    /// Not taken yet.
    offered: Option<Event>,
    // neighbours
    /// Addresses that CONNECT may use.
    own: Vec<u32>,
    free: VecDeque<u16>,
    used: BTreeMap<u16, Tuple>,
    ended: BTreeSet<u16>,
    deadlines: BTreeMap<u16, u32>,
    users: BTreeMap<u16, (u16, bool)>,
    listening: BTreeMap<u16, u16>,
    open_note: RxNote,
    db_status: Db,
    port_delay: u32,
    hold_freed: bool,
    held: Vec<u16>,
    hold_delivery: bool,
    held_deliveries: Vec<u16>,
    fail_delivery: bool,
    /// Indices whose FREED the host has read, and those whose FREED it has not.
    read: VecDeque<u16>,
    unread: VecDeque<u16>,
    hold_read: bool,
    busy: f64,
    ring_room: bool,
    lives: BTreeMap<u64, Life>,
    over: BTreeSet<u64>,
    dead_listeners: BTreeSet<u64>,
    counts: Counts,
    quiet: u32,
    /// Microseconds a clock.
    pace: u32,
    /// `tcp::tx` has not heard of a retry yet: it ignores Abort.
    /// `Reopen` is answered by `refused` / not answered yet.
    refuse_reopen: bool,
    /// The set-up rules deny what they are asked; a question waits for its answer; all questions.
    denied: bool,
    rule_asked: bool,
    rule_queries: Vec<(u32, u16)>,
    hold_reopen: bool,
    held_reopen: Option<u16>,
    peers: BTreeMap<u16, Peer>,
    /// Indices that have a queue pair. Its answers wait; to `Stop` it has work left.
    bound: BTreeMap<u16, Binding>,
    hold_qp: bool,
    held_qp: Vec<(QpNote, u16)>,
    cut: bool,
    /// Unbound in the middle of an FPDU.
    torn: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut w = World {
            m: Model::new(seed),
            rng: StdRng::seed_from_u64(seed),
            now: 0xffff_f000,
            commands: VecDeque::new(),
            from_rx: VecDeque::new(),
            from_tx: VecDeque::new(),
            results: VecDeque::new(),
            faults: VecDeque::new(),
            expired: VecDeque::new(),
            listeners: VecDeque::new(),
            port_replies: VecDeque::new(),
            news: VecDeque::new(),
            bound: BTreeMap::new(),
            hold_qp: false,
            held_qp: vec![],
            cut: false,
            torn: false,
            told: vec![],
            events: vec![],
            offered: None,
            own: vec![HOST, 0xc000_0201],
            free: (0..CONNECTIONS).collect(),
            used: BTreeMap::new(),
            ended: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            users: BTreeMap::new(),
            listening: BTreeMap::new(),
            open_note: RxNote::Opened,
            db_status: Db::Ok,
            port_delay: 0,
            hold_freed: false,
            held: vec![],
            hold_delivery: false,
            held_deliveries: vec![],
            fail_delivery: false,
            read: VecDeque::new(),
            unread: VecDeque::new(),
            hold_read: false,
            busy: 0.0,
            ring_room: true,
            lives: BTreeMap::new(),
            over: BTreeSet::new(),
            dead_listeners: BTreeSet::new(),
            counts: Counts::default(),
            quiet: 0,
            pace: 0,
            refuse_reopen: false,
            denied: false,
            rule_asked: false,
            rule_queries: vec![],
            hold_reopen: false,
            held_reopen: None,
            peers: BTreeMap::new(),
        };
        let m = &mut w.m;
        m.mpa_timeout.set(MPA_TIMEOUT);
        m.connect_timeout.set(CONNECT_TIMEOUT);
        m.close_timeout.set(CLOSE_TIMEOUT);
        m.addresses_1_valid.set(1);
        m.addresses_1_ip.set(HOST.into());
        m.addresses_1_mask.set(0xffff_ff00);
        m.addresses_2_valid.set(1);
        m.addresses_2_ip.set(0xc000_0201);
        m.addresses_2_mask.set(0xffff_fff0);
        m.addresses_2_gateway.set(0xc000_020e);
        w.reset();
        w
    }

    /// Everything is reset together: neighbours, rings, handles.
    fn reset(&mut self) {
        self.m.cmd_valid.set(false);
        self.m.from_rx_valid.set(false);
        self.m.from_tx_valid.set(false);
        self.m.result_valid.set(false);
        self.m.fault_valid.set(false);
        self.m.expired_valid.set(false);
        self.m.freed_read_valid.set(false);
        self.m.listener_valid.set(false);
        self.m.port_rsp_valid.set(false);
        self.m.from_qp_valid.set(false);
        self.news.clear();
        self.bound.clear();
        self.held_qp.clear();
        self.m.rule_answer_valid.set(false);
        self.m.shutdown.set(false);
        self.rule_asked = false;
        self.m.reset.set(true);
        for _ in 0..3 {
            self.m.tick();
        }
        self.m.reset.set(false);
        self.commands.clear();
        self.from_rx.clear();
        self.from_tx.clear();
        self.results.clear();
        self.faults.clear();
        self.expired.clear();
        self.read.clear();
        self.unread.clear();
        self.listeners.clear();
        self.port_replies.clear();
        self.told.clear();
        self.events.clear();
        self.offered = None;
        self.free = (0..CONNECTIONS).collect();
        self.used.clear();
        self.peers.clear();
        self.ended.clear();
        self.deadlines.clear();
        self.users.clear();
        self.listening.clear();
        self.held.clear();
        self.held_deliveries.clear();
        let old = std::mem::take(&mut self.lives);
        self.over.extend(old.into_keys());
        self.m.eval();
        let mut clocks = 0;
        while !self.m.ready.get() {
            self.m.tick();
            clocks += 1;
            assert!(clocks <= 4 * u32::from(CONNECTIONS), "ready in 4 x 2^C clocks");
        }
    }

    fn go(&mut self) -> bool {
        self.busy == 0.0 || !self.rng.random_bool(self.busy)
    }

    /// One clock.
    fn tick(&mut self) {
        let gates: Vec<bool> = (0..16).map(|_| self.go()).collect();
        let m = &mut self.m;
        m.time_us.set(self.now);
        m.cmd_valid.set(!self.commands.is_empty());
        if let Some(c) = self.commands.front() {
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
            m.cmd_data_qpn.set(c.qpn.into());
            m.cmd_data_data_addr.set(c.data_addr);
            m.cmd_data_data_len.set(c.data_len.into());
            m.cmd_data_ird.set(c.ird.into());
            m.cmd_data_ord.set(c.ord.into());
            m.cmd_data_tos.set(c.tos.into());
            m.cmd_data_timeout_us.set(c.timeout_us.into());
        }
        m.from_rx_valid.set(!self.from_rx.is_empty());
        if let Some(r) = self.from_rx.front() {
            m.from_rx_data_note.set(r.note);
            m.from_rx_data_index.set(r.index.into());
            m.from_rx_data_tuple_local_ip.set(r.tuple.local_ip.into());
            m.from_rx_data_tuple_remote_ip.set(r.tuple.remote_ip.into());
            m.from_rx_data_tuple_local_port.set(r.tuple.local_port.into());
            m.from_rx_data_tuple_remote_port.set(r.tuple.remote_port.into());
            m.from_rx_data_listener.set(r.listener.into());
            m.from_rx_data_refused.set(r.refused.into());
            m.from_rx_data_waiting.set(r.waiting.into());
            m.from_rx_data_wait.set(r.wait.into());
        }
        m.from_tx_valid.set(!self.from_tx.is_empty());
        if let Some((note, index)) = self.from_tx.front() {
            m.from_tx_data_note.set(*note as u64);
            m.from_tx_data_index.set((*index).into());
        }
        m.result_valid.set(!self.results.is_empty());
        if let Some((note, index, f)) = self.results.front() {
            m.result_data_note.set(*note as u64);
            m.result_data_index.set((*index).into());
            m.result_data_frame_reply.set(f.reply.into());
            m.result_data_frame_flags.set(f.flags.into());
            m.result_data_frame_rev.set(f.rev.into());
            m.result_data_frame_data_len.set(f.data_len.into());
            m.result_data_frame_ird_word.set(f.ird_word.into());
            m.result_data_frame_ord_word.set(f.ord_word.into());
        }
        m.fault_valid.set(!self.faults.is_empty());
        m.fault_data.set(self.faults.front().copied().unwrap_or(0));
        m.expired_valid.set(!self.expired.is_empty());
        m.expired_data.set(self.expired.front().copied().unwrap_or(0));
        m.freed_read_valid.set(!self.read.is_empty());
        m.freed_read_data.set(self.read.front().copied().unwrap_or(0));
        m.listener_valid.set(!self.listeners.is_empty());
        if let Some(l) = self.listeners.front() {
            m.listener_data_slot.set(l.slot.into());
            m.listener_data_live.set(l.live.into());
            m.listener_data_generation.set(l.generation.into());
            m.listener_data_context.set(l.context.into());
            m.listener_data_backlog_half_open.set(l.half_open.into());
            m.listener_data_backlog_accept.set(l.accept.into());
        }
        let answer = self.port_replies.front().filter(|_| self.port_delay == 0);
        m.port_rsp_valid.set(answer.is_some());
        if let Some((status, port, user)) = answer {
            m.port_rsp_data_status.set(*status as u64);
            m.port_rsp_data_port.set((*port).into());
            m.port_rsp_data_user.set((*user).into());
        }
        m.from_qp_valid.set(!self.news.is_empty());
        if let Some((note, index)) = self.news.front() {
            m.from_qp_data_note.set(*note as u64);
            m.from_qp_data_index.set((*index).into());
        }
        m.to_qp_ready.set(gates[7]);
        m.evt_ready.set(self.ring_room && gates[0]);
        m.to_rx_ready.set(gates[1]);
        m.to_tx_ready.set(gates[2]);
        m.deliver_ready.set(gates[3]);
        m.frame_ready.set(gates[4]);
        m.port_req_ready.set(gates[5] && self.port_replies.is_empty());
        m.deadline_ready.set(gates[6]);
        m.rule_query_ready.set(gates[5] && !self.rule_asked);
        m.rule_answer_valid.set(self.rule_asked && gates[6]);
        m.rule_answer_data.set(self.denied);
        m.eval();

        let m = &self.m;
        for (count, pulse) in [
            (&mut self.counts.done, &m.cnt_cmd_done),
            (&mut self.counts.errors, &m.cnt_cmd_errors),
            (&mut self.counts.unknown, &m.cnt_cmd_unknown),
            (&mut self.counts.stale, &m.cnt_stale_handles),
            (&mut self.counts.created, &m.cnt_conn_created),
            (&mut self.counts.freed, &m.cnt_conn_freed),
            (&mut self.counts.established, &m.cnt_conn_established),
            (&mut self.counts.timeouts, &m.cnt_mpa_timeouts),
            (&mut self.counts.rejects_in, &m.cnt_mpa_rejects_in),
            (&mut self.counts.rejects_out, &m.cnt_mpa_rejects_out),
            (&mut self.counts.non_peer, &m.cnt_mpa_non_peer_rejects),
            (&mut self.counts.retries, &m.cnt_mpa_retries),
            (&mut self.counts.denied, &m.cnt_conn_denied),
        ] {
            *count += u32::from(pulse.get());
        }
        let mut moved = false;
        if m.rule_answer_valid.get() && m.rule_answer_ready.get() {
            self.rule_asked = false;
            moved = true;
        }
        if m.rule_query_valid.get() && m.rule_query_ready.get() {
            assert!(m.rule_query_data_outbound.bit());
            self.rule_queries.push((m.rule_query_data_peer.get() as u32, m.rule_query_data_port.get() as u16));
            self.rule_asked = true;
            moved = true;
        }
        let (mut said, mut raised) = (vec![], None);
        macro_rules! take {
            ($queue:ident, $valid:ident, $ready:ident) => {
                if m.$valid.get() && m.$ready.get() {
                    self.$queue.pop_front();
                    moved = true;
                }
            };
        }
        take!(commands, cmd_valid, cmd_ready);
        take!(from_rx, from_rx_valid, from_rx_ready);
        take!(from_tx, from_tx_valid, from_tx_ready);
        take!(results, result_valid, result_ready);
        take!(faults, fault_valid, fault_ready);
        take!(expired, expired_valid, expired_ready);
        take!(read, freed_read_valid, freed_read_ready);
        take!(port_replies, port_rsp_valid, port_rsp_ready);
        take!(news, from_qp_valid, from_qp_ready);
        if m.listener_valid.get() && m.listener_ready.get() {
            self.listeners.pop_front();
            moved = true;
        }
        if m.evt_valid.get() {
            let handle =
                |g: &ironwarp_models::port::Slice, k: u64, i: &ironwarp_models::port::Slice| Handle(g.get() << 32 | k << 16 | i.get());
            let event = Event {
                kind: EventKind::from_raw(m.evt_data_kind.get() as u8).expect("a kind"),
                flags: m.evt_data_flags.get() as u8,
                status: m.evt_data_status.get() as u32 as i32,
                context: m.evt_data_context.get() as u32,
                detail: m.evt_data_detail.get() as u32,
                handle: handle(&m.evt_data_generation, m.evt_data_handle_kind.get(), &m.evt_data_index),
                local: (m.evt_data_local_addr.get() as u32, m.evt_data_local_port.get() as u16),
                remote: (m.evt_data_remote_addr.get() as u32, m.evt_data_remote_port.get() as u16),
                own: (m.evt_data_own_ird.get() as u16, m.evt_data_own_ord.get() as u16),
                peer: (m.evt_data_peer_ird.get() as u16, m.evt_data_peer_ord.get() as u16),
                data_len: m.evt_data_data_len.get() as u16,
                listener: handle(
                    &m.evt_data_listener_generation,
                    u64::from(m.evt_data_listener_generation.get() != 0),
                    &m.evt_data_listener_index,
                ),
            };
            assert!(self.offered.is_none_or(|before| before == event), "what is offered stays");
            self.offered = Some(event);
            if m.evt_ready.get() {
                raised = self.offered.take();
                moved = true;
            }
        } else {
            assert_eq!(self.offered, None, "an event is not withdrawn");
        }
        if m.to_rx_valid.get() && m.to_rx_ready.get() {
            use RxOp::*;
            let op = [Open, Free, HalfDone, Full, Limit, Reopen, Discard][m.to_rx_data_op.get() as usize];
            let tuple = Tuple {
                local_ip: m.opens_local_ip.get() as u32,
                remote_ip: m.opens_remote_ip.get() as u32,
                local_port: m.opens_local_port.get() as u16,
                remote_port: m.opens_remote_port.get() as u16,
            };
            // the limit counts with `Limit` alone
            let limit = if op == Limit { m.to_rx_data_limit.get() as u16 } else { 0 };
            said.push((Told::Rx { op, index: m.to_rx_data_index.get() as u16, limit }, tuple, 0, 0));
        }
        if m.to_tx_valid.get() && m.to_tx_ready.get() {
            use TxOp::*;
            let op = [Send, Close, Abort, Free][m.to_tx_data_op.get() as usize];
            let told = Told::Tx {
                op,
                index: m.to_tx_data_index.get() as u16,
                len: m.to_tx_data_len.get() as u16,
                tos: m.to_tx_data_tos.get() as u8,
            };
            said.push((told, Tuple::default(), 0, 0));
        }
        if m.frame_valid.get() && m.frame_ready.get() {
            let frame = Frame {
                reply: m.frame_data_frame_reply.bit(),
                flags: m.frame_data_frame_flags.get() as u8,
                rev: m.frame_data_frame_rev.get() as u8,
                data_len: m.frame_data_frame_data_len.get() as u16,
                ird_word: m.frame_data_frame_ird_word.get() as u16,
                ord_word: m.frame_data_frame_ord_word.get() as u16,
            };
            said.push((
                Told::Frame { index: m.frame_data_index.get() as u16, frame, addr: m.frame_data_data_addr.get() },
                Tuple::default(),
                0,
                0,
            ));
        }
        if m.deliver_valid.get() && m.deliver_ready.get() {
            said.push((Told::Deliver(m.deliver_data.get()), Tuple::default(), 0, 0));
        }
        if m.deadline_valid.get() && m.deadline_ready.get() {
            let (index, on) = (m.deadline_data_index.get() as u16, m.deadline_data_on.bit());
            said.push((Told::Deadline { index, on }, Tuple::default(), m.deadline_data_at.get() as u32, 0));
        }
        if m.port_req_valid.get() && m.port_req_ready.get() {
            let (op, slot) = (m.port_req_data_op.get(), m.port_req_data_slot.get() as u16);
            let tuple = Tuple { local_ip: m.port_req_data_addr.get() as u32, ..Tuple::default() };
            said.push((Told::Port { op, slot }, tuple, 0, m.port_req_data_port.get() as u16));
        }
        if m.to_qp_valid.get() && m.to_qp_ready.get() {
            use QpOp::*;
            let op = [Bind, Close, Stop, Unbind][m.to_qp_data_op.get() as usize];
            let binding = Binding {
                qpn: m.to_qp_data_qpn.get() as u32,
                crc: m.to_qp_data_crc.bit(),
                markers: m.to_qp_data_markers.bit(),
                responder: m.to_qp_data_responder.bit(),
                depth: (m.to_qp_data_ird.get() as u16, m.to_qp_data_ord.get() as u16),
                rtr: (m.to_qp_data_rtr_write.bit(), m.to_qp_data_rtr_read.bit()),
                terminate: m.to_qp_data_terminate.get() as u8,
            };
            let binding = if op == Bind { binding } else { Binding { qpn: binding.qpn, ..Binding::default() } };
            said.push((Told::Qp { op, index: m.to_qp_data_index.get() as u16, binding }, Tuple::default(), 0, 0));
        }
        if m.listener_done.get() {
            said.push((Told::ListenerDone, Tuple::default(), 0, 0));
        }
        self.m.tick();
        self.now = self.now.wrapping_add(self.pace);
        self.port_delay = self.port_delay.saturating_sub(1);
        moved |= !said.is_empty();
        for (told, tuple, at, port) in said {
            self.told.push(told);
            self.neighbours(told, tuple, at, port);
        }
        if let Some(event) = raised {
            self.events.push(event);
            self.watch(event);
        }
        if !self.hold_read && self.go() {
            self.read.extend(self.unread.drain(..));
        }
        self.quiet = if moved { 0 } else { self.quiet + 1 };
        let due: Vec<u16> = self.deadlines.iter().filter(|(_, at)| at.wrapping_sub(self.now) as i32 <= 0).map(|(i, _)| *i).collect();
        for index in due {
            self.deadlines.remove(&index);
            self.expired.push_back(index);
        }
    }

    /// `tcp::rx` answers `Reopen`.
    fn reopened(&mut self, index: u16) {
        let refused = self.refuse_reopen || (self.busy > 0.0 && self.rng.random_ratio(1, 4));
        if !refused {
            self.ended.remove(&index);
            self.peers.insert(index, Peer { active: true, ..Peer::default() });
        }
        self.from_rx.push_back(RxMessage { note: RxNote::Reopened as u64, index, refused, ..RxMessage::default() });
    }

    /// What the neighbours do with what they are told.
    fn neighbours(&mut self, told: Told, tuple: Tuple, at: u32, port: u16) {
        match told {
            Told::Rx { op: RxOp::Open, .. } => {
                let index = if self.open_note == RxNote::Opened { self.free.pop_front() } else { None };
                let note = match (self.open_note, index) {
                    (RxNote::Opened, None) => RxNote::NoSlot,
                    (note, _) => note,
                };
                if let Some(index) = index {
                    self.used.insert(index, tuple);
                    self.peers.insert(index, Peer { active: true, ..Peer::default() });
                }
                self.from_rx.push_back(RxMessage { note: note as u64, index: index.unwrap_or(0), ..RxMessage::default() });
            }
            Told::Rx { op: RxOp::Free, index, .. } => {
                assert!(self.used.remove(&index).is_some(), "index {index} is given back once");
                assert!(self.ended.remove(&index), "after tcp::tx has forgotten it");
                assert!(!self.lives.keys().any(|h| Handle(*h).index() == index), "after FREED");
                assert!(!self.unread.contains(&index) && !self.read.contains(&index), "after the host has read FREED");
                assert!(!self.deadlines.contains_key(&index), "no deadline outlives a connection (MPA-42)");
                assert!(!self.held_deliveries.contains(&index), "private data is still on its way");
                assert!(!self.bound.contains_key(&index), "the queue pair still has it");
                // at times used again at once
                if self.busy > 0.0 && self.rng.random() {
                    self.free.push_front(index);
                } else {
                    self.free.push_back(index);
                }
                self.peers.remove(&index);
            }
            Told::Rx { op: RxOp::Reopen, index, .. } => {
                assert!(self.ended.contains(&index), "only after Freed");
                self.held_reopen = Some(index).filter(|_| self.hold_reopen);
                if !self.hold_reopen {
                    self.reopened(index);
                }
            }
            Told::Rx { .. } => {}
            Told::Tx { op: TxOp::Abort | TxOp::Free, index, .. } => {
                assert!(self.used.contains_key(&index) && !self.ended.contains(&index), "an end for {index} that has none");
                if let Some(peer) = self.peers.get_mut(&index) {
                    peer.over = true;
                }
                if self.hold_freed {
                    self.held.push(index);
                } else {
                    self.freed(index);
                }
            }
            Told::Tx { op, index, .. } => {
                assert!(!self.ended.contains(&index) && !self.held.contains(&index), "{told:?} after its end");
                let peer = self.peers.get_mut(&index).expect("in use");
                let before = std::mem::replace(if op == TxOp::Send { &mut peer.sent } else { &mut peer.closing }, true);
                assert!(!before, "{told:?} twice");
            }
            Told::Frame { .. } | Told::ListenerDone => {}
            Told::Qp { op: QpOp::Bind, index, binding } => {
                assert!(self.used.contains_key(&index) && !self.ended.contains(&index));
                assert!(self.bound.insert(index, binding).is_none(), "bound twice");
                if binding.responder && binding.rtr != (false, false) {
                    self.qp(QpNote::Heard, index);
                }
                if binding.terminate != 0 {
                    self.qp(if self.cut { QpNote::Failed } else { QpNote::Terminated }, index);
                }
            }
            Told::Qp { op, index, binding } => {
                let bound = self.bound.get(&index).map(|bound| bound.qpn);
                assert_eq!(bound, Some(binding.qpn), "{told:?} of what is not bound");
                let note = match op {
                    QpOp::Unbind if self.torn => QpNote::Torn,
                    QpOp::Unbind => QpNote::Unbound,
                    QpOp::Stop if self.cut || (self.busy > 0.0 && self.rng.random_ratio(1, 4)) => QpNote::Cut,
                    _ => QpNote::Drained,
                };
                self.qp(note, index);
            }
            Told::Deliver(index) => {
                if self.hold_delivery {
                    self.held_deliveries.push(index);
                } else {
                    self.delivered(index);
                }
            }
            Told::Deadline { index, on } => {
                self.expired.retain(|i| *i != index);
                self.deadlines.remove(&index);
                if on {
                    self.deadlines.insert(index, at);
                }
            }
            Told::Port { op, slot } => {
                let reply = match op {
                    OPEN | JOIN => {
                        let user = (100..).find(|u| !self.users.contains_key(u)).expect("a free one");
                        let granted = if op == OPEN {
                            assert!(self.own.contains(&tuple.local_ip));
                            Some(if port == 0 { 50_000 + user } else { port })
                        } else {
                            self.listening.get(&slot).copied()
                        };
                        match (self.db_status, granted) {
                            (Db::Ok, Some(port)) => {
                                self.users.insert(user, (port, false));
                                (Db::Ok, port, user)
                            }
                            (Db::Ok, None) => (Db::Invalid, 0, 0),
                            // what else it says means nothing
                            (status, granted) => (status, granted.unwrap_or(0), 0),
                        }
                    }
                    CLOSE => {
                        assert_eq!(self.users.remove(&slot).map(|u| u.1), Some(false), "use {slot} is closed once");
                        (Db::Ok, 0, 0)
                    }
                    WAIT => {
                        let user = self.users.get_mut(&slot).expect("in use");
                        assert!(!std::mem::replace(&mut user.1, true));
                        (Db::Ok, 0, 0)
                    }
                    WAIT_END => {
                        assert_eq!(self.users.remove(&slot).map(|u| u.1), Some(true), "TIME-WAIT of use {slot} ends once");
                        (Db::Ok, 0, 0)
                    }
                    other => panic!("request {other}"),
                };
                if self.busy > 0.0 {
                    self.port_delay = if self.rng.random_ratio(1, 200) { 1000 } else { self.rng.random_range(0..20) };
                }
                self.port_replies.push_back(reply);
            }
        }
    }

    /// The data path says something; the last is `Unbound` or `Torn`.
    fn qp(&mut self, note: QpNote, index: u16) {
        if self.hold_qp {
            self.held_qp.push((note, index));
        } else {
            if matches!(note, QpNote::Unbound | QpNote::Torn) {
                self.bound.remove(&index);
            }
            self.news.push_back((note, index));
        }
    }
    fn release_qp(&mut self) {
        self.hold_qp = false;
        for (note, index) in std::mem::take(&mut self.held_qp) {
            self.qp(note, index);
        }
    }

    fn freed(&mut self, index: u16) {
        assert!(self.ended.insert(index));
        self.from_tx.push_back((TxNote::Freed, index));
    }

    fn delivered(&mut self, index: u16) {
        let note = if self.fail_delivery { Start::Failed } else { Start::Delivered };
        self.results.push_back((note, index, Frame::default()));
    }

    /// CM-3, 5, 8, 10, 12, 13, 43: what may follow what, for each handle.
    fn watch(&mut self, event: Event) {
        if event.handle == Handle::NONE {
            assert_eq!(event.kind, EventKind::CmdReply, "{event:?}");
            return;
        }
        assert_eq!(event.handle.kind(), Some(HandleKind::Connection));
        assert!(!self.over.contains(&event.handle.0), "{event:?} after FREED");
        match event.kind {
            EventKind::CmdReply => {
                assert_eq!(event.status, 0);
                assert!(self.lives.insert(event.handle.0, Life { active: true, ..Life::default() }).is_none());
            }
            EventKind::ConnectRequest => {
                assert_eq!(event.status, 0, "CM-8");
                assert!(!self.dead_listeners.contains(&event.listener.0), "{event:?} of a listener that has ended");
                assert!(self.lives.insert(event.handle.0, Life::default()).is_none());
            }
            kind => {
                // of a CONNECT with QUIET, the first event tells the handle
                let life = self.lives.entry(event.handle.0).or_insert(Life { active: true, ..Life::default() });
                match kind {
                    EventKind::ConnectReply | EventKind::Established => {
                        assert_eq!(life.active, kind == EventKind::ConnectReply);
                        assert!(!std::mem::replace(&mut life.answered, true), "second answer: {event:?}");
                        life.established = event.status == 0;
                        assert!(life.active || life.established);
                    }
                    EventKind::Disconnect => {
                        assert!(life.established && !life.closed);
                        assert!(!std::mem::replace(&mut life.disconnected, true));
                    }
                    EventKind::Close => {
                        assert!(life.established, "CLOSE of what was not established");
                        assert!(!std::mem::replace(&mut life.closed, true), "second CLOSE");
                        assert!(!self.bound.contains_key(&event.handle.index()), "CLOSE before the end of all DMA (CM-14)");
                    }
                    EventKind::Freed => {
                        assert!(life.answered || !life.active, "a CONNECT without CONNECT_REPLY");
                        assert_eq!(life.established, life.closed, "CLOSE for all that was established");
                        self.lives.remove(&event.handle.0);
                        self.unread.push_back(event.handle.index());
                        self.over.insert(event.handle.0);
                    }
                    other => panic!("{other:?} of a connection"),
                }
            }
        }
    }
}

impl World {
    fn settle(&mut self) {
        self.quiet = 0;
        for _ in 0..60_000 {
            self.tick();
            if self.quiet > 400 && self.port_replies.is_empty() {
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn take(&mut self) -> Vec<Event> {
        self.settle();
        std::mem::take(&mut self.events)
    }

    fn brief(&mut self) -> Vec<(EventKind, i32)> {
        self.take().iter().map(|e| (e.kind, e.status)).collect()
    }

    fn command(&mut self, c: &Command) -> Vec<Event> {
        self.commands.push_back(*c);
        self.take()
    }

    fn one(&mut self, c: &Command) -> Event {
        let events = self.command(c);
        assert_eq!(events.len(), 1, "{c:?}: {events:?}");
        events[0]
    }

    fn told(&mut self) -> Vec<Told> {
        self.settle();
        std::mem::take(&mut self.told)
    }

    fn listen(&mut self, slot: u16, generation: u32, port: u16, (half_open, accept): (u16, u16)) {
        self.listening.insert(slot, port);
        self.listeners.push_back(Listener { slot, live: true, generation, context: 0x1157_0000 + generation, half_open, accept });
        self.settle();
    }

    fn unlisten(&mut self, slot: u16, generation: u32) {
        self.listening.remove(&slot);
        self.listeners.push_back(Listener { slot, generation, ..Listener::default() });
    }

    fn note(&mut self, note: RxNote, index: u16) {
        self.from_rx.push_back(RxMessage { note: note as u64, index, ..RxMessage::default() });
    }

    /// A SYN for the listener in `slot`.
    fn syn(&mut self, slot: u16, remote_port: u16) -> u16 {
        let index = self.free.pop_front().expect("a free index");
        let local_port = self.listening.get(&slot).copied().unwrap_or(1);
        let tuple = Tuple { local_ip: HOST, remote_ip: PEER, local_port, remote_port };
        self.used.insert(index, tuple);
        self.peers.insert(index, Peer::default());
        self.from_rx.push_back(RxMessage { note: RxNote::Passive as u64, index, tuple, listener: slot, ..RxMessage::default() });
        index
    }

    fn frame(&mut self, index: u16, frame: Frame) {
        self.results.push_back((Start::Frame, index, frame));
    }

    /// A connection that CONNECT has opened: its handle and index. Nothing but the answer has happened.
    fn connect(&mut self, c: &Command) -> (Handle, u16) {
        let reply = self.one(c);
        assert_eq!((reply.kind, reply.status), (EventKind::CmdReply, 0));
        (reply.handle, reply.handle.index())
    }

    /// A connection that waits for the Reply.
    fn requested(&mut self, c: &Command) -> (Handle, u16) {
        let (handle, index) = self.connect(c);
        self.note(RxNote::Synced, index);
        assert_eq!(self.take(), []);
        (handle, index)
    }

    /// A connection that the host is to decide on.
    fn announced(&mut self, slot: u16, frame: Frame) -> (Handle, Event) {
        let index = self.syn(slot, 4000);
        self.note(RxNote::Synced, index);
        self.frame(index, frame);
        let events = self.take();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!((events[0].kind, events[0].handle.index()), (EventKind::ConnectRequest, index));
        (events[0].handle, events[0])
    }

    fn pass(&mut self, us: u32) {
        self.now = self.now.wrapping_add(us);
        self.settle();
    }

    /// The last start-up frame given to `mpa::start_tx`, and the length told to TCP.
    fn last_frame(&mut self) -> (Frame, u16) {
        let told = self.told();
        let at = told.iter().rposition(|t| matches!(t, Told::Frame { .. })).expect("a frame");
        let Told::Frame { frame, .. } = told[at] else { unreachable!() };
        let len = told[at..].iter().find_map(|t| match t {
            Told::Tx { op: TxOp::Send, len, .. } => Some(*len),
            _ => None,
        });
        (frame, len.expect("sent after it was given"))
    }

    /// Ends everything in order of need, and looks whether all came back.
    fn finish(&mut self) {
        self.ring_room = true;
        self.hold_freed = false;
        self.hold_delivery = false;
        self.hold_reopen = false;
        if let Some(index) = self.held_reopen.take() {
            self.reopened(index);
        }
        self.hold_read = false;
        self.release_qp();
        for index in std::mem::take(&mut self.held) {
            self.freed(index);
        }
        for index in std::mem::take(&mut self.held_deliveries) {
            self.delivered(index);
        }
        self.settle();
        for _ in 0..3 {
            for handle in self.lives.keys().copied().collect::<Vec<_>>() {
                self.commands.push_back(Command { handle: Handle(handle), ..command(Opcode::Abort) });
            }
            self.settle();
        }
        // what was never announced ends by its deadline
        for _ in 0..2 {
            self.pass(CONNECT_TIMEOUT + MPA_TIMEOUT + CLOSE_TIMEOUT);
        }
        assert!(self.commands.is_empty(), "{:?}", self.commands);
        assert!(self.lives.is_empty(), "{:?}", self.lives);
        assert!(self.used.is_empty(), "{:?}", self.used);
        assert!(self.deadlines.is_empty());
        assert_eq!(self.m.connections_live.get(), 0);
        self.events.clear();
        self.told.clear();
    }
}

fn command(opcode: Opcode) -> Command {
    Command { opcode: opcode as u8, context: 0x77, ..Command::default() }
}

fn connect(flags: u8) -> Command {
    Command {
        flags,
        context: 0xc0,
        remote_addr: PEER,
        remote_port: 4711,
        data_addr: 0x1234_5678_9abc_def0,
        data_len: 5,
        ird: 4,
        ord: 6,
        tos: 0xab,
        ..command(Opcode::Connect)
    }
}

fn reply(flags: u8, rev: u8) -> Frame {
    Frame { reply: true, flags, rev, ..Frame::default() }
}

const REQUEST: Frame = Frame { reply: false, flags: 0x40, rev: 1, data_len: 0, ird_word: 0, ord_word: 0 };
/// Client and server, IRD 3, ORD 5.
const ENHANCED: Frame = Frame { reply: false, flags: 0x50, rev: 2, data_len: 0, ird_word: 3, ord_word: 5 };

fn code(status: Status) -> i32 {
    status as i32
}

/// From CONNECT to CONNECT_REPLY in revision 1: the Request as the command has it, the addresses chosen, C = 1, what the peer said.
///
/// Covers: CM-3, CM-13, CM-38, MPA-1, MPA-14, MPA-41, ENH-12
#[test]
fn connect_in_revision_1() {
    let mut w = World::new(1);
    let event = w.one(&connect(0));
    assert_eq!((event.kind, event.status, event.context), (EventKind::CmdReply, 0, 0xc0));
    let index = event.handle.index();
    assert_eq!((event.local.0, event.remote), (HOST, (PEER, 4711)));
    assert!(event.local.1 > 50_000);
    assert_eq!(w.used[&index], Tuple { local_ip: HOST, remote_ip: PEER, local_port: event.local.1, remote_port: 4711 });
    w.told.clear();
    w.note(RxNote::Synced, index);
    w.settle();
    let frame = Frame { flags: 0x40, rev: 1, data_len: 5, ..Frame::default() };
    assert_eq!(
        w.told(),
        [Told::Frame { index, frame, addr: 0x1234_5678_9abc_def0 }, Told::Tx { op: TxOp::Send, index, len: 25, tos: 0xa8 }]
    );
    w.frame(index, Frame { data_len: 7, ..reply(0x40, 1) });
    let events = w.take();
    assert_eq!(events.len(), 1);
    let answer = events[0];
    assert_eq!((answer.kind, answer.status, answer.context, answer.detail, answer.flags), (EventKind::ConnectReply, 0, 0xc0, 1, 0x40));
    assert_eq!((answer.handle, answer.data_len, answer.own, answer.peer), (event.handle, 7, (4, 6), (0, 0)));
    assert_eq!((answer.local, answer.remote), (event.local, event.remote));
    let told = w.told();
    assert!(told.contains(&Told::Deliver(index)) && told.contains(&Told::Rx { op: RxOp::Full, index, limit: 0 }), "{told:?}");
    w.note(RxNote::Fin, index);
    assert_eq!(w.brief(), [(EventKind::Disconnect, 0)]);
    assert!(w.told().contains(&Told::Tx { op: TxOp::Close, index, len: 25, tos: 0xa8 }), "no half-closed streams (CH-20)");
    w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, ..RxMessage::default() });
    assert_eq!(w.brief(), [(EventKind::Close, 0), (EventKind::Freed, 0)]);
    assert!(w.users.is_empty());
    w.finish();
    assert_eq!((w.counts.created, w.counts.freed, w.counts.established), (1, 1, 1));
}

/// One row of table 7.1 each: what the peer, TCP, or a timer does, and the one CONNECT_REPLY.
///
/// Covers: CM-3, CM-15, CM-43, MPA-5, MPA-8, ENH-19, DEF-2
#[test]
fn each_status_of_connect_reply() {
    type Act = fn(&mut World, u16);
    let enhanced = flag::ENHANCED;
    let rows: [(&str, u8, bool, Act, Status); 19] = [
        (
            "RST to our SYN",
            0,
            false,
            |w, i| w.from_rx.push_back(RxMessage { note: RxNote::Reset as u64, index: i, refused: true, ..RxMessage::default() }),
            Status::Refused,
        ),
        ("RST after the handshake", 0, true, |w, i| w.note(RxNote::Reset, i), Status::Reset),
        ("FIN after the handshake", 0, true, |w, i| w.note(RxNote::Fin, i), Status::Reset),
        ("SYN time-out", 0, false, |w, _| w.pass(CONNECT_TIMEOUT), Status::TimedOut),
        ("MPA time-out", 0, true, |w, _| w.pass(CONNECT_TIMEOUT), Status::TimedOut),
        ("TCP gave up", 0, true, |w, i| w.from_tx.push_back((TxNote::TimedOut, i)), Status::TimedOut),
        ("no next hop", 0, false, |w, i| w.from_tx.push_back((TxNote::Unreachable, i)), Status::HostUnreachable),
        ("R = 1", 0, true, |w, i| w.frame(i, reply(0x60, 1)), Status::Refused),
        ("R = 1, enhanced, with data", enhanced, true, |w, i| w.frame(i, Frame { data_len: 9, ..reply(0x70, 2) }), Status::Refused),
        ("malformed", 0, true, |w, i| w.results.push_back((Start::Malformed, i, Frame::default())), Status::Protocol),
        ("revision 3", 0, true, |w, i| w.results.push_back((Start::WrongRevision, i, Frame::default())), Status::Protocol),
        ("revision 1 to an enhanced Request", enhanced, true, |w, i| w.frame(i, reply(0x40, 1)), Status::Protocol),
        ("S = 0 to an enhanced Request", enhanced, true, |w, i| w.frame(i, reply(0x40, 2)), Status::Protocol),
        ("S in revision 1", enhanced, true, |w, i| w.frame(i, reply(0x50, 1)), Status::Protocol),
        ("S = 1 to a plain Request", 0, true, |w, i| w.frame(i, reply(0x50, 2)), Status::Protocol),
        ("private data unreadable", 0, true, |w, i| w.faults.push_back(i), Status::Fault),
        (
            "private data not writable",
            0,
            true,
            |w, i| {
                w.fail_delivery = true;
                w.frame(i, Frame { data_len: 1, ..reply(0x40, 1) });
            },
            Status::Fault,
        ),
        (
            "R = 1, then RST",
            0,
            true,
            |w, i| {
                w.frame(i, Frame { data_len: 9, ..reply(0x60, 1) });
                w.tick();
                w.note(RxNote::Reset, i);
            },
            Status::Refused,
        ),
        (
            "R = 1, then FIN",
            0,
            true,
            |w, i| {
                w.frame(i, Frame { data_len: 9, ..reply(0x60, 1) });
                w.tick();
                w.note(RxNote::Fin, i);
            },
            Status::Refused,
        ),
    ];
    let mut w = World::new(2);
    for (name, flags, synced, act, status) in rows {
        println!("{name}");
        w.told.clear();
        let (_, index) = if synced { w.requested(&connect(flags)) } else { w.connect(&connect(flags)) };
        act(&mut w, index);
        let events = w.take();
        let first = events[0];
        assert_eq!((first.kind, first.status), (EventKind::ConnectReply, code(status)), "{name}: {events:?}");
        assert_eq!(first.data_len, if name.contains("data") && status == Status::Refused || name.contains("then") { 9 } else { 0 });
        if w.lives.is_empty() {
            assert_eq!(events.len(), 2, "{events:?}");
        } else {
            // rejected: closed in order (MPA-5)
            assert_eq!((events.len(), status), (1, Status::Refused));
            assert!(w.told().iter().any(|t| matches!(t, Told::Tx { op: TxOp::Close, .. })));
            w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, ..RxMessage::default() });
            assert_eq!(w.brief(), [(EventKind::Freed, 0)], "{name}");
        }
        w.fail_delivery = false;
        assert!(w.users.is_empty() && w.used.is_empty(), "{name}");
        assert!(!w.told().contains(&Told::Rx { op: RxOp::Full, index, limit: 0 }), "{name}");
    }
    assert_eq!((w.counts.timeouts, w.counts.rejects_in), (1, 4));
}

/// A Reply that asks too much, chooses no RTR, or whose private data cannot be had: the one FPDU is a Terminate, the answer comes when all is over.
///
/// Covers: ENH-4, ENH-13, ENH-17
#[test]
fn what_fails_behind_an_enhanced_reply_ends_in_a_terminate() {
    let (enhanced, p2p) = (flag::ENHANCED, flag::ENHANCED | flag::PEER_TO_PEER);
    let of = |ird_word, ord_word| Frame { ird_word, ord_word, ..reply(0x50, 2) };
    let rows = [
        ("IRD not possible", enhanced, of(1, DEPTH + 1), 6, Status::NoMemory),
        ("A = 0 to peer-to-peer", p2p, of(4, 0xc004), 7, Status::Protocol),
        ("no RTR", p2p, of(0xc004, 4), 7, Status::Protocol),
        ("private data not writable", enhanced, Frame { data_len: 1, ..of(4, 4) }, 5, Status::Fault),
    ];
    for (name, flags, frame, terminate, status) in rows {
        for end in ["acknowledged", "no such queue pair", "FIN", "RST", "deadline", "ABORT"] {
            println!("{name}: {end}");
            let mut w = World::new(34);
            let (handle, index) = w.requested(&Command { qpn: 0xabcdef, ..connect(flags) });
            w.told.clear();
            w.fail_delivery = true;
            w.hold_qp = true;
            w.cut = end == "no such queue pair";
            w.frame(index, frame);
            assert_eq!(w.take(), [], "the queue pair is needed");
            let Binding { qpn, crc, responder, rtr, .. } = w.bound[&index];
            assert_eq!((qpn, crc, responder, rtr), (0xabcdef, true, false, (false, false)));
            assert_eq!(w.bound[&index].terminate, terminate);
            let ends = |w: &mut World| {
                w.told().iter().filter_map(|t| if let Told::Tx { op, .. } = t { Some(*op) } else { None }).collect::<Vec<_>>()
            };
            assert_eq!(ends(&mut w), []);
            let last = match end {
                "RST" => {
                    w.note(RxNote::Reset, index);
                    w.settle();
                    TxOp::Free
                }
                "deadline" => {
                    w.pass(CONNECT_TIMEOUT);
                    TxOp::Abort
                }
                "ABORT" => {
                    assert_eq!(w.one(&Command { handle, ..command(Opcode::Abort) }).status, 0);
                    TxOp::Abort
                }
                "no such queue pair" => {
                    w.release_qp();
                    TxOp::Abort
                }
                _ => {
                    if end == "FIN" {
                        w.note(RxNote::Fin, index);
                        assert_eq!((w.take(), ends(&mut w)), (vec![], vec![]));
                    }
                    w.release_qp();
                    assert_eq!((w.take(), ends(&mut w)), (vec![], vec![TxOp::Close]));
                    w.note(RxNote::Closed, index);
                    TxOp::Free
                }
            };
            w.release_qp();
            assert_eq!(w.brief(), [(EventKind::ConnectReply, code(status)), (EventKind::Freed, 0)]);
            assert_eq!(ends(&mut w), [last]);
            w.finish();
            assert_eq!(w.counts.established, 0);
        }
    }
}

/// What is known at once: no handle, no event but the answer, and the port is given back.
///
/// Covers: CM-3, CM-33, TCP-48, DEF-2
#[test]
fn a_connect_that_fails_at_once_has_one_answer() {
    let mut w = World::new(3);
    for (db, status) in [
        (Db::InUse, Status::AddressInUse),
        (Db::Reserved, Status::Reserved),
        (Db::NoPorts, Status::NoPorts),
        (Db::NoSlot, Status::NoMemory),
        (Db::Invalid, Status::Invalid),
    ] {
        w.db_status = db;
        let e = w.one(&connect(0));
        assert_eq!((e.kind, e.status, e.handle), (EventKind::CmdReply, code(status), Handle::NONE));
    }
    w.db_status = Db::Ok;
    for (note, status) in [(RxNote::Exists, Status::AddressInUse), (RxNote::NoSlot, Status::NoMemory)] {
        w.open_note = note;
        let e = w.one(&connect(0));
        assert_eq!((e.kind, e.status, e.handle), (EventKind::CmdReply, code(status), Handle::NONE));
    }
    w.open_note = RxNote::Opened;
    let local = |c: Command, addr| Command { local_addr: addr, ..c };
    for (c, status) in [
        (local(connect(0), 0xc000_0202), Status::AddressNotAvailable),
        (Command { remote_port: 0, ..connect(0) }, Status::Invalid),
        (Command { remote_addr: 0, ..connect(0) }, Status::Invalid),
        (Command { remote_addr: 0x7f00_0001, ..connect(0) }, Status::Invalid),
        (Command { remote_addr: 0xe000_0001, ..connect(0) }, Status::Invalid),
        (Command { remote_addr: 0xffff_ffff, ..connect(0) }, Status::Invalid),
        (Command { remote_addr: HOST, local_port: 4711, ..connect(0) }, Status::Invalid),
        (Command { data_len: 513, ..connect(0) }, Status::Invalid),
        (Command { data_len: 509, ..connect(flag::ENHANCED) }, Status::Invalid),
        (Command { timeout_us: 1 << 31, ..connect(0) }, Status::Invalid),
        (connect(flag::PEER_TO_PEER), Status::Invalid),
        (connect(flag::RETRY), Status::Invalid),
        (connect(flag::ENHANCED | flag::RETRY | flag::PEER_TO_PEER), Status::Invalid),
        (connect(flag::STRICT), Status::Invalid),
        (connect(1 << 5), Status::Invalid),
        (connect(1 << 6 | flag::QUIET), Status::Invalid),
        (Command { opcode: 13, ..connect(0) }, Status::UnknownOpcode),
        (Command { opcode: 255, ..connect(0) }, Status::UnknownOpcode),
    ] {
        let e = w.one(&c);
        assert_eq!((e.kind, e.status, e.context, e.handle), (EventKind::CmdReply, code(status), c.context, Handle::NONE), "{c:?}");
        assert_eq!((e.local, e.remote), ((c.local_addr, c.local_port), (c.remote_addr, c.remote_port)), "as asked");
    }
    assert!(w.users.is_empty() && w.used.is_empty());
    assert_eq!((w.counts.done, w.counts.errors, w.counts.unknown, w.counts.created), (0, 25, 2, 0));
    // the largest private data goes through
    for (flags, len) in [(0, 512), (flag::ENHANCED, 508)] {
        w.requested(&Command { data_len: len, ..connect(flags) });
        assert_eq!(w.last_frame().1, 532);
    }
    w.finish();
}

/// The local address: the command's, else the one on the peer's link, else the one with a gateway.
///
/// Covers: CM-38
#[test]
fn the_local_address_is_chosen_for_the_peer() {
    let mut w = World::new(4);
    for (remote, asked, chosen) in [
        (PEER, 0, HOST),
        (0xc000_0205, 0, 0xc000_0201),
        (0x0808_0808, 0, 0xc000_0201),
        (0x0808_0808, HOST, HOST),
        (PEER, 0xc000_0201, 0xc000_0201),
    ] {
        let e = w.one(&Command { remote_addr: remote, local_addr: asked, ..connect(0) });
        assert_eq!((e.status, e.local.0), (0, chosen), "{remote:x}");
    }
    w.m.addresses_2_gateway.set(0);
    assert_eq!(w.one(&Command { remote_addr: 0x0808_0808, ..connect(0) }).local.0, HOST, "the first");
    w.m.addresses_1_valid.set(0);
    w.m.addresses_2_valid.set(0);
    assert_eq!(w.one(&connect(0)).status, code(Status::AddressNotAvailable));
    w.finish();
}

/// Any four addresses.
///
/// Covers: CM-38
#[test]
fn the_best_of_four_local_addresses_is_chosen() {
    let mut w = World::new(24);
    for _ in 0..300 {
        // address, mask, gateway of those that are there
        let table: [Option<(u32, u32, u32)>; 4] = std::array::from_fn(|_| {
            let mask = u32::MAX << w.rng.random_range(1..32);
            let gateway = if w.rng.random() { 1 << w.rng.random_range(0..32) } else { 0 };
            w.rng.random_bool(0.8).then(|| (w.rng.random(), mask, gateway))
        });
        let m = &mut w.m;
        let ports = [
            (&mut m.addresses_0_valid, &mut m.addresses_0_ip, &mut m.addresses_0_mask, &mut m.addresses_0_gateway),
            (&mut m.addresses_1_valid, &mut m.addresses_1_ip, &mut m.addresses_1_mask, &mut m.addresses_1_gateway),
            (&mut m.addresses_2_valid, &mut m.addresses_2_ip, &mut m.addresses_2_mask, &mut m.addresses_2_gateway),
            (&mut m.addresses_3_valid, &mut m.addresses_3_ip, &mut m.addresses_3_mask, &mut m.addresses_3_gateway),
        ];
        for ((valid, ip, mask, gateway), of) in ports.into_iter().zip(table) {
            valid.set(of.is_some().into());
            let of = of.unwrap_or_else(|| w.rng.random());
            ip.set(of.0.into());
            mask.set(of.1.into());
            gateway.set(of.2.into());
        }
        let there: Vec<_> = table.into_iter().flatten().collect();
        w.own = there.iter().map(|a| a.0).collect();
        // on the link of one of them, but for a bit at times
        let (ip, mask, _) = there.choose(&mut w.rng).copied().unwrap_or((5, 0, 0));
        let remote_addr = ip & mask | w.rng.random::<u32>() & !mask;
        let remote_addr = if w.rng.random() { remote_addr ^ 1 << w.rng.random_range(0..32) } else { remote_addr };
        let local_addr = [0, 0, ip, ip ^ 1 << w.rng.random_range(0..32)][w.rng.random_range(0..4)];
        let on_link = there.iter().find(|(ip, mask, _)| (remote_addr ^ ip) & mask == 0);
        let best = on_link.or(there.iter().find(|a| a.2 != 0)).or(there.first()).map(|a| a.0);
        let chosen = if local_addr == 0 { best } else { Some(local_addr).filter(|a| w.own.contains(a)) };
        if !matches!(remote_addr >> 24, 1..=126 | 128..=223) || chosen == Some(remote_addr) {
            continue;
        }
        let e = w.one(&Command { remote_addr, local_addr, ..connect(0) });
        match chosen {
            Some(chosen) => {
                assert_eq!((e.status, e.local.0), (0, chosen), "{remote_addr:x} from {there:x?}");
                w.finish();
            }
            None => assert_eq!(e.status, code(Status::AddressNotAvailable), "{local_addr:x} of {there:x?}"),
        }
    }
}

/// Each bit of a context and of a generation comes back, and counts.
///
/// Covers: CM-32
#[test]
fn contexts_and_generations_are_numbers_of_32_bits() {
    let mut w = World::new(25);
    for n in [0x5555_5555u32, 0xaaaa_aaaa] {
        w.listen(3, n, 7000, (0, 0));
        let (handle, event) = w.announced(3, REQUEST);
        assert_eq!((event.listener, event.context), (Handle::new(HandleKind::Listener, 3, n), 0x1157_0000u32.wrapping_add(n)));
        let events = w.command(&Command { handle, context: n, flags: flag::QUIET, ..command(Opcode::Accept) });
        assert_eq!((events.len(), events[0].kind, events[0].context), (1, EventKind::Established, n));
        // not announced: ends with its listener
        let index = w.syn(3, 9);
        w.settle();
        w.told.clear();
        w.unlisten(3, n);
        assert!(w.told().iter().any(|t| matches!(t, Told::Tx { op: TxOp::Abort, index: i, .. } if *i == index)), "generation {n:x}");
        let (handle, index) = w.requested(&Command { context: !n, ..connect(0) });
        w.frame(index, reply(0x40, 1));
        let answer = w.take()[0];
        assert_eq!((answer.handle, answer.context), (handle, !n));
        let ends = w.command(&Command { handle, flags: flag::QUIET, ..command(Opcode::Abort) });
        assert_eq!(ends.iter().map(|e| (e.kind, e.context)).collect::<Vec<_>>(), [(EventKind::Close, !n), (EventKind::Freed, !n)]);
        w.finish();
    }
    // of an index, one after the other
    let mut last = BTreeMap::new();
    for _ in 0..3 * CONNECTIONS {
        let (handle, index) = w.connect(&connect(0));
        if let Some(before) = last.insert(index, handle.generation()) {
            assert_eq!(handle.generation(), before.wrapping_add(1));
        }
        w.finish();
    }
    assert_eq!(last.len(), usize::from(CONNECTIONS));
}

/// Each bit of what CONNECT and ACCEPT say goes where it belongs.
///
/// Covers: CM-13, MPA-41
#[test]
fn each_bit_of_a_command_arrives() {
    let mut w = World::new(36);
    w.listen(3, 1, 7000, (0, 0));
    for n in [0x5555_5555_5555_5555u64, 0xaaaa_aaaa_aaaa_aaaa] {
        let (addr, port, qpn, data_len, tos) = (n as u32, n as u16, n as u32 & 0xff_ffff, n as u16 & 0x1ff, n as u8);
        let asked = Command { remote_addr: addr, remote_port: port, local_port: !port, data_addr: n, data_len, tos, qpn, ..connect(0) };
        let (_, index) = w.connect(&asked);
        let tuple = Tuple { local_ip: 0xc000_0201, remote_ip: addr, local_port: !port, remote_port: port };
        assert_eq!(w.used[&index], tuple, "the address with a gateway");
        w.told.clear();
        w.note(RxNote::Synced, index);
        let frame = Frame { flags: 0x40, rev: 1, data_len, ..Frame::default() };
        let len = data_len + 20;
        assert_eq!(w.told(), [Told::Frame { index, frame, addr: n }, Told::Tx { op: TxOp::Send, index, len, tos: tos & 0xfc }]);
        w.frame(index, reply(0x40, 1));
        let event = w.take()[0];
        assert_eq!((event.local, event.remote), ((tuple.local_ip, !port), (addr, port)));
        assert_eq!(w.bound[&index].qpn, qpn);
        let (handle, _) = w.announced(3, REQUEST);
        w.told.clear();
        let accept = Command { handle, data_addr: n, data_len, tos, qpn, ..command(Opcode::Accept) };
        assert_eq!(w.command(&accept)[1].kind, EventKind::Established);
        let (told, index) = (w.told(), handle.index());
        let frame = Frame { reply: true, ..frame };
        assert!(told.contains(&Told::Frame { index, frame, addr: n }), "{told:?}");
        assert!(told.contains(&Told::Tx { op: TxOp::Send, index, len, tos: tos & 0xfc }), "{told:?}");
        assert_eq!(w.bound[&index].qpn, qpn);
        w.finish();
    }
}

/// With QUIET a command that goes well has no answer of its own; one that does not has.
#[test]
fn quiet_leaves_out_the_answer_that_says_nothing() {
    let mut w = World::new(26);
    assert_eq!(w.command(&connect(flag::QUIET)), []);
    let index = *w.used.keys().next().expect("opened");
    w.note(RxNote::Synced, index);
    w.frame(index, reply(0x40, 1));
    let handle = w.take()[0].handle;
    assert_eq!(w.command(&Command { handle, flags: flag::QUIET, ..command(Opcode::Disconnect) }), []);
    let e = w.one(&Command { handle: Handle(5), flags: flag::QUIET, ..command(Opcode::Disconnect) });
    assert_eq!((e.kind, e.status), (EventKind::CmdReply, code(Status::NoEntry)));
    w.finish();
}

/// The use of a port ends with the TIME-WAIT entry that keeps it, whichever that is; the end of an entry that keeps none is nothing.
#[test]
fn each_time_wait_entry_keeps_its_port() {
    let mut w = World::new(27);
    for round in 0..2 {
        for wait in 0..32 {
            let (_, index) = w.requested(&connect(0));
            w.frame(index, reply(0x40, 1));
            w.settle();
            w.note(RxNote::Fin, index);
            w.settle();
            w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, waiting: true, wait, ..RxMessage::default() });
            w.take();
            assert_eq!(w.users.len(), usize::from(wait) + 1);
        }
        if round == 1 {
            // what has to do with none of them changes none
            w.one(&command(Opcode::Abort));
        }
        for wait in 0..32 {
            let left: Vec<_> = w.users.keys().copied().collect();
            // twice, in clocks of both kinds: one of them keeps nothing
            for _ in 0..3 {
                w.from_rx.push_back(RxMessage { note: RxNote::WaitEnd as u64, wait, ..RxMessage::default() });
                w.settle();
                assert_eq!(w.users.len(), left.len() - 1, "entry {wait}");
                if (w.rng.random_range(0..2) + round + wait) % 2 == 0 {
                    w.tick();
                }
            }
        }
    }
    w.finish();
}

/// The time-out of the command counts instead of the register's; the deadline of a connection that is open is withdrawn, once.
///
/// Covers: CM-34, MPA-42, DEF-16
#[test]
fn one_deadline_bounds_connect() {
    let mut w = World::new(5);
    let (_, index) = w.connect(&Command { timeout_us: 700, ..connect(0) });
    w.pass(699);
    assert_eq!(w.take(), []);
    // an expiry that is not due is none
    w.expired.push_back(index);
    assert_eq!(w.take(), []);
    w.pass(1);
    assert_eq!(w.brief(), [(EventKind::ConnectReply, code(Status::TimedOut)), (EventKind::Freed, 0)]);
    let (_, index) = w.requested(&connect(0));
    w.told.clear();
    w.frame(index, reply(0x40, 1));
    assert_eq!(w.brief(), [(EventKind::ConnectReply, 0)]);
    let cleared = w.told().iter().filter(|t| **t == Told::Deadline { index, on: false }).count();
    assert_eq!(cleared, 1);
    w.expired.push_back(index);
    w.pass(CONNECT_TIMEOUT);
    assert_eq!(w.take(), []);
    w.finish();
    // so is that of one that ends, before TCP has forgotten it
    let (_, index) = w.requested(&connect(0));
    w.hold_freed = true;
    w.note(RxNote::Reset, index);
    assert_eq!(w.brief(), [(EventKind::ConnectReply, code(Status::Reset))]);
    assert!(w.deadlines.is_empty());
    w.finish();
}

/// Each deadline is its time-out from now, to the microsecond, over the whole range.
///
/// Covers: CM-34, MPA-42
#[test]
fn each_bit_of_a_time_out_counts() {
    let mut w = World::new(37);
    for n in [0x2aaa_aaaau32, 0x5555_5555] {
        let (mpa, to_connect, close) = (n, !n >> 1, n >> 1);
        w.m.mpa_timeout.set(mpa);
        w.m.connect_timeout.set(to_connect);
        w.m.close_timeout.set(close);
        w.now = w.now.wrapping_add(n);
        w.listen(0, n, 7000, (0, 0));
        let index = w.syn(0, 1);
        w.settle();
        assert_eq!(w.deadlines.remove(&index), Some(w.now.wrapping_add(mpa)));
        w.note(RxNote::Reset, index);
        let (handle, index) = w.requested(&connect(0));
        assert_eq!(w.deadlines[&index], w.now.wrapping_add(to_connect));
        w.frame(index, reply(0x40, 1));
        w.settle();
        w.command(&Command { handle, ..command(Opcode::Disconnect) });
        assert_eq!(w.deadlines[&index], w.now.wrapping_add(close));
        let (_, index) = w.connect(&Command { timeout_us: n, ..connect(0) });
        assert_eq!(w.deadlines[&index], w.now.wrapping_add(n));
        w.finish();
    }
}

/// A CONNECT that the set-up rules deny is answered by -EPERM; no port was taken for it and TCP never hears of it.
#[test]
fn the_rules_are_asked_before_each_connect() {
    let mut w = World::new(23);
    w.denied = true;
    w.commands.push_back(connect(0));
    assert_eq!(w.brief(), [(EventKind::CmdReply, code(Status::Denied))]);
    assert_eq!((w.rule_queries.as_slice(), w.counts.denied, w.counts.errors), ([(PEER, 4711)].as_slice(), 1, 1));
    assert!(w.users.is_empty() && w.used.is_empty());
    assert!(!w.told().iter().any(|t| matches!(t, Told::Port { .. } | Told::Rx { op: RxOp::Open, .. })), "{:?}", w.told());
    // what is wrong anyway is not asked about
    w.commands.push_back(Command { remote_port: 0, ..connect(0) });
    assert_eq!(w.brief(), [(EventKind::CmdReply, code(Status::Invalid))]);
    assert_eq!(w.rule_queries.len(), 1);
    w.denied = false;
    w.connect(&connect(0));
    assert_eq!((w.rule_queries.len(), w.counts.denied), (2, 1));
    w.finish();
}

/// FIN or RST on an enhanced Request, with RETRY: once more in revision 1 under the same handle, then no more.
///
/// Covers: ENH-2, CM-41, DEF-60
#[test]
fn one_retry_in_revision_1() {
    for end in [RxNote::Fin, RxNote::Reset] {
        for second in [0, 1, 2] {
            let mut w = World::new(6);
            let (handle, index) = w.requested(&connect(flag::ENHANCED | flag::RETRY));
            let (frame, len) = w.last_frame();
            assert_eq!((frame.flags, frame.rev, len), (0x50, 2, 29));
            w.hold_freed = second == 2;
            w.note(end, index);
            assert_eq!(w.take(), [], "invisible");
            if second == 2 {
                // the time-out does not wait for TCP
                w.pass(CONNECT_TIMEOUT);
                assert_eq!(w.brief(), [(EventKind::ConnectReply, code(Status::TimedOut))]);
                w.finish();
                continue;
            }
            assert!(w.told().contains(&Told::Rx { op: RxOp::Reopen, index, limit: 0 }));
            w.note(RxNote::Synced, index);
            assert_eq!(w.take(), []);
            let (frame, len) = w.last_frame();
            assert_eq!((frame.flags, frame.rev, frame.ird_word, len), (0x40, 1, 0, 25));
            if second == 1 {
                w.note(end, index);
                assert_eq!(w.brief(), [(EventKind::ConnectReply, code(Status::Reset)), (EventKind::Freed, 0)]);
            } else {
                w.frame(index, reply(0x40, 1));
                let events = w.take();
                assert_eq!((events[0].kind, events[0].status, events[0].handle), (EventKind::ConnectReply, 0, handle));
            }
            assert_eq!(w.counts.retries, 1);
            w.finish();
        }
    }
}

/// What ends a retry before `tcp::rx` has opened it again is told to the host at once and to TCP when it knows the connection; and a retry
/// whose tuple is somebody else's by then ends without a word to TCP. Nothing of the index stays behind.
///
/// Covers: ENH-2, CM-43
#[test]
fn a_retry_that_ends_before_it_began() {
    for refused in [false, true] {
        for end in [None, Some(false), Some(true)] {
            let mut w = World::new(18);
            let (handle, index) = w.requested(&connect(flag::ENHANCED | flag::RETRY));
            w.hold_reopen = true;
            w.refuse_reopen = refused;
            w.note(RxNote::Fin, index);
            w.settle();
            w.told.clear();
            match end {
                None => {}
                Some(true) => {
                    let events = w.command(&Command { handle, ..command(Opcode::Abort) });
                    let brief: Vec<_> = events.iter().map(|e| (e.kind, e.status)).collect();
                    assert_eq!(brief, [(EventKind::CmdReply, 0), (EventKind::ConnectReply, code(Status::Reset))]);
                    // again: once is enough
                    let events = w.command(&Command { handle, ..command(Opcode::Abort) });
                    assert_eq!(events.iter().map(|e| (e.kind, e.status)).collect::<Vec<_>>(), [(EventKind::CmdReply, 0)]);
                }
                Some(false) => {
                    w.pass(CONNECT_TIMEOUT);
                    assert_eq!(w.brief(), [(EventKind::ConnectReply, code(Status::TimedOut))]);
                }
            }
            assert!(!w.told().iter().any(|t| matches!(t, Told::Tx { .. })), "tcp::tx may not know it");
            w.told.clear();
            w.held_reopen = None;
            w.reopened(index);
            w.settle();
            let aborted = w.told().iter().any(|t| matches!(t, Told::Tx { op: TxOp::Abort, .. }));
            assert_eq!(aborted, !refused && end.is_some());
            let events = w.brief();
            if end.is_some() {
                assert_eq!(events, [(EventKind::Freed, 0)], "refused: {refused}");
            } else if refused {
                assert_eq!(events, [(EventKind::ConnectReply, code(Status::Reset)), (EventKind::Freed, 0)]);
            } else {
                assert_eq!(events, []);
                w.note(RxNote::Synced, index);
                w.settle();
                assert_eq!(w.last_frame().0.rev, 1);
            }
            w.finish();
            assert!(w.used.is_empty() && w.users.is_empty() && w.deadlines.is_empty());
        }
    }
}

/// A passive connection: announced with what the peer said, accepted, established at once, closed by the host, TIME-WAIT.
///
/// Covers: CM-5, CM-8, CM-12, CM-16, ENH-1, MPA-2, MPA-17, MPA-20, CH-15
#[test]
fn accept_and_close_in_order() {
    let mut w = World::new(7);
    w.listen(3, 9, 7000, (5, 0));
    assert_eq!(w.told(), [Told::Rx { op: RxOp::Limit, index: 3, limit: 5 }]);
    for (request, rev, flags) in [
        (Frame { data_len: 11, ..REQUEST }, 1, 0x40),
        (Frame { rev: 2, flags: 0x00, ..REQUEST }, 2, 0x40),
        (Frame { data_len: 1, ..ENHANCED }, 2, 0x50),
    ] {
        let index = w.syn(3, 4000);
        w.note(RxNote::Synced, index);
        assert_eq!(w.take(), []);
        assert!(w.told().contains(&Told::Port { op: JOIN, slot: 3 }));
        w.frame(index, request);
        let events = w.take();
        assert_eq!(events.len(), 1);
        let e = events[0];
        assert_eq!((e.kind, e.status, e.context, e.flags, e.detail), (EventKind::ConnectRequest, 0, 0x1157_0009, request.flags, rev));
        assert_eq!((e.local, e.remote, e.data_len), ((HOST, 7000), (PEER, 4000), request.data_len));
        assert_eq!(e.listener, Handle::new(HandleKind::Listener, 3, 9));
        assert_eq!((e.own, e.peer), ((DEPTH, DEPTH), (request.ird_word, request.ord_word)));
        assert!(w.told().contains(&Told::Rx { op: RxOp::HalfDone, index, limit: 0 }));
        assert!(w.deadlines.is_empty(), "the host has all the time");
        let accept =
            Command { handle: e.handle, context: 5, data_len: 2, data_addr: 0x100, tos: 8, ird: 7, ord: 2, ..command(Opcode::Accept) };
        let events = w.command(&accept);
        assert_eq!(
            events.iter().map(|e| (e.kind, e.status, e.context)).collect::<Vec<_>>(),
            [(EventKind::CmdReply, 0, 5), (EventKind::Established, 0, 5)]
        );
        assert_eq!((events[1].own, events[1].peer, events[1].flags), ((7, 2), (request.ird_word, request.ord_word), request.flags));
        let told = w.told();
        let s = u16::from(request.flags & 0x10 != 0);
        let frame = Frame { reply: true, flags, rev: rev as u8, data_len: 2, ird_word: 7 * s, ord_word: 2 * s };
        assert!(told.contains(&Told::Frame { index, frame, addr: 0x100 }), "{told:?}");
        assert!(
            told.contains(&Told::Tx { op: TxOp::Send, index, len: 22 + 4 * s, tos: 8 })
                && told.contains(&Told::Rx { op: RxOp::Full, index, limit: 0 })
        );
        let at = |f: fn(&Told) -> bool| told.iter().position(f).expect("told");
        let bound = at(|t| matches!(t, Told::Qp { op: QpOp::Bind, .. }));
        assert!(bound < at(|t| matches!(t, Told::Rx { op: RxOp::Full, .. })), "before payload is let through");
        assert!(bound < at(|t| matches!(t, Told::Tx { op: TxOp::Send, .. })), "before the Reply");
        // twice, and crossing: no effect
        let disconnect = Command { handle: e.handle, ..command(Opcode::Disconnect) };
        for _ in 0..2 {
            assert_eq!(w.command(&disconnect).iter().map(|e| (e.kind, e.status)).collect::<Vec<_>>(), [(EventKind::CmdReply, 0)]);
        }
        w.note(RxNote::Fin, index);
        assert_eq!(w.take(), []);
        w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, waiting: true, wait: 6, ..RxMessage::default() });
        assert_eq!(w.brief(), [(EventKind::Close, 0), (EventKind::Freed, 0)]);
        assert_eq!(w.users.values().collect::<Vec<_>>(), [&(7000, true)], "the port is in TIME-WAIT");
        assert_eq!(w.one(&disconnect).status, code(Status::NoEntry));
        w.from_rx.push_back(RxMessage { note: RxNote::WaitEnd as u64, index: CONNECTIONS + 6, wait: 6, ..RxMessage::default() });
        w.settle();
        assert!(w.users.is_empty());
        w.told.clear();
    }
    // no CRC: only if neither side asks for it
    for (asked, flags) in [(0x40, 0x40), (0, 0)] {
        let (handle, _) = w.announced(3, Frame { flags: asked, ..REQUEST });
        w.command(&Command { handle, flags: flag::NO_CRC, ..command(Opcode::Accept) });
        assert_eq!(w.last_frame().0.flags, flags);
    }
    w.finish();
    assert_eq!((w.counts.established, w.counts.created, w.counts.freed, w.counts.stale), (5, 5, 5, 3));
}

/// REJECT: a Reply with R = 1 and the private data, in the form of the Request, then FIN; no event but FREED.
///
/// Covers: CM-7, MPA-4, ENH-16
#[test]
fn reject_sends_its_data_and_closes() {
    let mut w = World::new(8);
    w.listen(0, 1, 7000, (0, 0));
    for (request, flags, words) in [(REQUEST, 0x60, (0, 0)), (ENHANCED, 0x70, (5, 7))] {
        let (handle, _) = w.announced(0, request);
        w.told.clear();
        let reject = Command { handle, context: 6, data_len: 500, data_addr: 8, ord: 7, ..command(Opcode::Reject) };
        assert_eq!(w.command(&Command { data_len: 513, ..reject })[0].status, code(Status::Invalid));
        assert_eq!(w.one(&reject).status, 0);
        let told = w.told();
        let index = handle.index();
        let frame = Frame { reply: true, flags, rev: request.rev, data_len: 500, ird_word: words.0, ord_word: words.1 };
        assert_eq!(told[0], Told::Frame { index, frame, addr: 8 });
        let ops: Vec<TxOp> = told.iter().filter_map(|t| if let Told::Tx { op, .. } = t { Some(*op) } else { None }).collect();
        assert_eq!(ops, [TxOp::Send, TxOp::Close]);
        w.pass(CLOSE_TIMEOUT - 1);
        assert_eq!(w.take(), []);
        w.pass(1);
        let events = w.take();
        assert_eq!((events.len(), events[0].kind, events[0].context), (1, EventKind::Freed, 6), "close_timeout bounds it");
        assert!(w.told().contains(&Told::Tx { op: TxOp::Abort, index, len: 520 + 4 * u16::from(flags == 0x70), tos: 0 }));
    }
    w.finish();
    assert_eq!(w.counts.rejects_out, 2);
}

/// FIN is not at once behind a Reply that refuses: the peer's comes first, or REFUSAL_TIMEOUT passes.
///
/// Covers: MPA-4
#[test]
fn behind_a_refusal_the_peer_closes_first() {
    let closes = |w: &mut World| w.told().iter().filter(|t| matches!(t, Told::Tx { op: TxOp::Close, .. })).count();
    for by_host in [true, false] {
        for end in ["FIN", "time-out", "RST", "ABORT", "no listener"] {
            if !by_host && end == "ABORT" {
                continue;
            }
            let mut w = World::new(35);
            w.m.refusal_timeout.set(REFUSAL_TIMEOUT);
            w.listen(0, 1, 7000, (0, 1));
            let (handle, _) = w.announced(0, REQUEST);
            let mut index = handle.index();
            if by_host {
                assert_eq!(w.one(&Command { handle, ..command(Opcode::Reject) }).status, 0);
            } else {
                index = w.syn(0, 9);
                w.note(RxNote::Synced, index);
                w.frame(index, REQUEST);
                w.settle();
            }
            assert_eq!(w.last_frame().0.flags, 0x60);
            w.told.clear();
            w.pass(REFUSAL_TIMEOUT - 1);
            assert_eq!(closes(&mut w), 0, "{end}");
            let expected = match end {
                "FIN" => {
                    w.note(RxNote::Fin, index);
                    assert_eq!(closes(&mut w), 1);
                    w.note(RxNote::Closed, index);
                    TxOp::Free
                }
                "RST" => {
                    w.note(RxNote::Reset, index);
                    TxOp::Free
                }
                "ABORT" => {
                    w.commands.push_back(Command { handle, flags: flag::QUIET, ..command(Opcode::Abort) });
                    TxOp::Abort
                }
                _ => {
                    if end == "no listener" {
                        w.unlisten(0, 1);
                        assert_eq!(closes(&mut w), 0);
                    }
                    w.pass(1);
                    assert_eq!(closes(&mut w), 1);
                    w.pass(CLOSE_TIMEOUT - 1);
                    assert!(w.told().is_empty());
                    w.pass(1);
                    TxOp::Abort
                }
            };
            let ended = w.told().iter().any(|t| matches!(t, Told::Tx { op, index: i, .. } if *op == expected && *i == index));
            assert!(ended, "{end}");
            let freed = w.take().iter().filter(|e| e.handle == handle && e.kind == EventKind::Freed).count();
            assert_eq!(freed, usize::from(by_host), "{end}");
            w.finish();
        }
    }
}

/// The peer goes while the host thinks: nothing is said; ACCEPT answers -ECONNRESET, REJECT and ABORT succeed; FREED.
///
/// Covers: CM-27, CM-5
#[test]
fn a_peer_that_does_not_wait_for_the_decision() {
    for held in [false, true] {
        for end in [RxNote::Fin, RxNote::Reset] {
            for (opcode, status) in [(Opcode::Accept, Status::Reset), (Opcode::Reject, Status::Ok), (Opcode::Abort, Status::Ok)] {
                let mut w = World::new(9);
                w.listen(0, 1, 7000, (0, 1));
                let (handle, _) = w.announced(0, REQUEST);
                w.hold_freed = held;
                w.note(end, handle.index());
                assert_eq!(w.take(), []);
                let mut events: Vec<_> = w.command(&Command { handle, ..command(opcode) }).iter().map(|e| (e.kind, e.status)).collect();
                if held {
                    assert_eq!(events.len(), 1);
                    w.hold_freed = false;
                    let index = w.held.pop().expect("one");
                    w.freed(index);
                    events.extend(w.brief());
                }
                assert_eq!(events, [(EventKind::CmdReply, code(status)), (EventKind::Freed, 0)]);
                // it no longer counts against the backlog
                w.announced(0, REQUEST);
                w.finish();
                assert_eq!(w.counts.non_peer, 0);
            }
        }
    }
}

/// Over the limit of those that wait for the host: a Reply with R = 1 and no data, no event, counted apart. An answer makes room.
///
/// Covers: CM-19, CM-20
#[test]
fn over_the_backlog_the_adapter_rejects() {
    let mut w = World::new(10);
    w.listen(2, 7, 7000, (0, 2));
    assert!(w.told().contains(&Told::Rx { op: RxOp::Limit, index: 2, limit: 256 }));
    let (first, _) = w.announced(2, REQUEST);
    w.announced(2, REQUEST);
    // what is refused does not count as an answer
    for (opcode, data_len) in [(Opcode::Accept, 513), (Opcode::Reject, 513), (Opcode::Disconnect, 0)] {
        assert_eq!(w.one(&Command { handle: first, data_len, ..command(opcode) }).status, code(Status::Invalid));
    }
    for request in [REQUEST, ENHANCED] {
        let index = w.syn(2, 9);
        w.note(RxNote::Synced, index);
        w.frame(index, Frame { data_len: 3, ..request });
        assert_eq!(w.take(), []);
        let (frame, len) = w.last_frame();
        assert_eq!((frame.reply, frame.flags, frame.rev, frame.data_len), (true, request.flags | 0x20, request.rev, 0));
        assert_eq!(len, if request.rev == 2 { 24 } else { 20 });
        assert!(w.peers[&index].closing);
        w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, ..RxMessage::default() });
        assert_eq!(w.take(), [], "no handle, no FREED");
        assert!(!w.used.contains_key(&index));
    }
    assert_eq!(w.counts.non_peer, 2);
    w.command(&Command { handle: first, ..command(Opcode::Accept) });
    w.announced(2, REQUEST);
    w.finish();
    assert_eq!((w.counts.non_peer, w.counts.rejects_out), (2, 0));
    // 0 is 256: more than there are connections
    w.listen(2, 8, 7000, (0, 0));
    for _ in 0..CONNECTIONS {
        w.announced(2, REQUEST);
    }
    w.finish();
    assert_eq!(w.counts.non_peer, 2);
}

/// The end of a listener: embryonic connections are reset, no CONNECT_REQUEST follows, announced ones live on; also with a full event ring.
///
/// Covers: CM-22
#[test]
fn unlisten_resets_what_is_not_announced() {
    for full in [false, true] {
        let mut w = World::new(11);
        w.listen(1, 4, 7000, (0, 0));
        w.listen(2, 5, 8000, (0, 0));
        let (announced, _) = w.announced(1, REQUEST);
        let other = w.syn(2, 5);
        w.note(RxNote::Synced, other);
        let sync = w.syn(1, 1);
        let request = w.syn(1, 2);
        w.note(RxNote::Synced, request);
        let data = w.syn(1, 3);
        w.note(RxNote::Synced, data);
        w.settle();
        w.hold_delivery = true;
        w.frame(data, Frame { data_len: 4, ..REQUEST });
        w.settle();
        let raised = w.syn(1, 4);
        w.note(RxNote::Synced, raised);
        w.settle();
        if full {
            // two more: one is offered to the ring already, the other waits
            w.ring_room = false;
            w.frame(raised, REQUEST);
            w.settle();
            let late = w.syn(1, 6);
            w.note(RxNote::Synced, late);
            w.frame(late, REQUEST);
            w.settle();
        }
        w.told.clear();
        w.unlisten(1, 4);
        w.settle();
        let told = w.told();
        assert_eq!(told.contains(&Told::ListenerDone), !full, "not before the ring has what was offered");
        assert!(told.contains(&Told::Rx { op: RxOp::Limit, index: 1, limit: 0 }));
        for index in [sync, request, data] {
            assert!(told.iter().any(|t| matches!(t, Told::Tx { op: TxOp::Abort, index: i, .. } if *i == index)), "{index}");
        }
        w.ring_room = true;
        w.settle();
        if full {
            assert!(w.told().contains(&Told::ListenerDone));
        }
        let before = w.take();
        assert_eq!(before.len(), usize::from(full));
        w.dead_listeners.insert(Handle::new(HandleKind::Listener, 1, 4).0);
        // a SYN that was on its way
        w.syn(1, 7);
        w.listen(1, 6, 9000, (0, 0));
        w.finish_delivery();
        assert_eq!(w.take(), []);
        assert!(w.used.len() == 2 + usize::from(full), "{:?}", w.used);
        assert_eq!(w.command(&Command { handle: announced, ..command(Opcode::Accept) })[1].kind, EventKind::Established);
        w.frame(other, REQUEST);
        assert_eq!(w.brief(), [(EventKind::ConnectRequest, 0)]);
        w.finish();
    }
}

impl World {
    fn finish_delivery(&mut self) {
        self.hold_delivery = false;
        for index in std::mem::take(&mut self.held_deliveries) {
            self.delivered(index);
        }
        self.settle();
    }
}

/// A SYN whose listener slot belongs to another listener by the time it comes here is nobody's.
///
/// Covers: CM-22, CM-32
#[test]
fn a_late_syn_does_not_reach_the_next_listener() {
    let mut w = World::new(12);
    w.listen(1, 1, 7000, (0, 0));
    let index = w.syn(1, 1);
    w.from_rx.clear();
    w.unlisten(1, 1);
    w.listen(1, 2, 8000, (0, 0));
    let tuple = w.used[&index];
    w.from_rx.push_back(RxMessage { note: RxNote::Passive as u64, index, tuple, listener: 1, ..RxMessage::default() });
    assert_eq!(w.take(), []);
    assert!(w.used.is_empty() && w.users.is_empty());
    // neither does one for which the port database has no room
    w.db_status = Db::NoSlot;
    w.syn(1, 2);
    assert_eq!(w.take(), []);
    assert!(w.used.is_empty() && w.users.is_empty() && w.deadlines.is_empty());
}

/// Stale handles are counted and answered -ENOENT: after FREED, of another kind, out of range, of another generation, never announced.
///
/// Covers: CM-32, CM-45, DEF-9
#[test]
fn stale_handles_do_nothing() {
    let mut w = World::new(13);
    w.listen(0, 1, 7000, (0, 0));
    let (old, _) = w.announced(0, REQUEST);
    w.finish();
    let (handle, index) = w.requested(&connect(0));
    let hidden = w.syn(0, 1);
    w.settle();
    let n = handle.generation();
    let wrong = [
        old,
        Handle::NONE,
        Handle::new(HandleKind::Listener, index, n),
        Handle::new(HandleKind::Connection, index + CONNECTIONS, n),
        Handle::new(HandleKind::Connection, index, n.wrapping_add(1)),
        Handle::new(HandleKind::Connection, index, n ^ 1 << 31),
        Handle::new(HandleKind::Connection, hidden, 1),
        Handle::new(HandleKind::Connection, hidden, 2),
    ];
    for handle in wrong {
        for opcode in [Opcode::Accept, Opcode::Reject, Opcode::Disconnect, Opcode::Abort] {
            assert_eq!(w.one(&Command { handle, ..command(opcode) }).status, code(Status::NoEntry));
        }
    }
    assert_eq!(w.counts.stale, 4 * wrong.len() as u32);
    w.finish();
}

/// Negotiation as a whole: what CONNECT asks stands in the Request, what ACCEPT asks is made to fit the Request; and what cannot be made to.
///
/// Covers: CM-28, ENH-3, ENH-4, ENH-8, ENH-10, ENH-11, ENH-14, ENH-15
#[test]
fn ird_and_ord_are_negotiated() {
    let mut w = World::new(14);
    for (flags, ird, ord, words) in [
        (flag::ENHANCED, 4, 6, (4, 6)),
        (flag::ENHANCED, 200, 0x3ffe, (DEPTH, DEPTH)),
        (flag::ENHANCED, 0x3fff, 0, (0x3fff, 0)),
        (flag::ENHANCED, 0, 0x3fff, (0, 0x3fff)),
        (flag::ENHANCED | flag::PEER_TO_PEER, 0, 0, (0x8000, 0xc001)),
    ] {
        w.requested(&Command { ird, ord, ..connect(flags) });
        let (frame, _) = w.last_frame();
        assert_eq!((frame.ird_word, frame.ord_word, frame.flags, frame.rev), (words.0, words.1, 0x50, 2));
    }
    for (flags, of_rtr) in [(flag::ENHANCED, 0), (flag::ENHANCED | flag::PEER_TO_PEER, 0x8000)] {
        let (_, index) = w.requested(&Command { ird: 2, ord: 6, ..connect(flags) });
        w.frame(index, Frame { ird_word: of_rtr | 3, ord_word: of_rtr | 5, ..reply(0x50, 2) });
        let e = w.take()[0];
        assert_eq!((e.kind, e.status, e.own, e.peer), (EventKind::ConnectReply, 0, (5, 3), (3, 5)));
    }
    w.listen(0, 1, 7000, (0, 0));
    // the Request's words, what ACCEPT asks; own values and the words of the Reply, or none
    for (words, flags, asked, result) in [
        ((3, 5), 0, (1, 7), Some(((5, 3), (5, 3)))),
        ((3, 5), 0, (7, 1), Some(((7, 1), (7, 1)))),
        ((3, 5), flag::STRICT, (1, 3), Some(((5, 3), (5, 3)))),
        ((3, 5), flag::STRICT, (1, 4), None),
        ((3, DEPTH + 1), 0, (1, 4), None),
        ((0x3fff, 0x3fff), 0, (1, 4), Some(((1, 4), (0x3fff, 0x3fff)))),
        ((0, 0), 0, (0, 0), Some(((0, 0), (0, 0)))),
        ((0x8000, 0x4000), 0, (0, 0), Some(((1, 0), (0x8001, 0x4000)))),
        ((0x8003, 0x4005), 0, (1, 7), Some(((5, 3), (0x8005, 0x4003)))),
        ((0xc000, 0xc000), 0, (0, 0), Some(((0, 0), (0x8000, 0x8000)))),
        ((0x4002, 0xc002), 0, (2, 2), Some(((2, 2), (2, 2)))),
    ] {
        let (handle, event) = w.announced(0, Frame { ird_word: words.0, ord_word: words.1, ..ENHANCED });
        assert_eq!(event.peer, (words.0 & 0x3fff, words.1 & 0x3fff));
        w.told.clear();
        let events = w.command(&Command { handle, flags, ird: asked.0, ord: asked.1, data_len: 3, ..command(Opcode::Accept) });
        let (frame, len) = w.last_frame();
        match result {
            Some((own, words)) => {
                assert_eq!((events[1].kind, events[1].own, (frame.ird_word, frame.ord_word)), (EventKind::Established, own, words));
                assert_eq!((frame.flags, len), (0x50, 27));
            }
            None => {
                assert_eq!((events.len(), events[0].status), (1, code(Status::NoMemory)));
                assert_eq!((frame.flags, frame.ord_word, len), (0x70, asked.1, 24), "the ORD that was needed");
                assert!(w.peers[&handle.index()].closing);
            }
        }
        w.finish();
    }
}

/// A ring of no room under 32 connections that close: all events come, in order, once there is room; TCP and timers went on.
///
/// Covers: CM-44, CM-43
#[test]
fn a_full_event_ring_delays_events_and_nothing_else() {
    let mut w = World::new(15);
    w.listen(0, 1, 7000, (0, 0));
    let mut handles = vec![];
    for i in 0..CONNECTIONS {
        if i % 2 == 0 {
            let (handle, index) = w.requested(&connect(0));
            handles.push(handle);
            if i % 4 == 0 {
                w.frame(index, reply(0x40, 1));
                w.take();
            }
        } else {
            let (handle, _) = w.announced(0, REQUEST);
            w.command(&Command { handle, ..command(Opcode::Accept) });
            handles.push(handle);
        }
    }
    w.ring_room = false;
    w.events.clear();
    w.told.clear();
    for handle in &handles {
        w.note(RxNote::Fin, handle.index());
        w.note(RxNote::Reset, handle.index());
    }
    w.settle();
    assert_eq!(w.ended.len(), usize::from(CONNECTIONS), "TCP has forgotten all of them");
    assert!(w.users.is_empty(), "and the ports are free");
    assert!(w.used.len() >= usize::from(CONNECTIONS) - 1, "but no index is given back before its last event");
    // one more command waits
    w.commands.push_back(command(Opcode::Abort));
    w.settle();
    assert_eq!(w.commands.len(), 1);
    w.ring_room = true;
    w.busy = 0.8;
    w.settle();
    assert!(w.used.is_empty() && w.lives.is_empty() && w.commands.is_empty());
    let events = std::mem::take(&mut w.events);
    for (i, handle) in handles.iter().enumerate() {
        let kinds: Vec<EventKind> = events.iter().filter(|e| e.handle == *handle).map(|e| e.kind).collect();
        use EventKind::*;
        if i % 4 == 2 {
            assert_eq!(kinds, [ConnectReply, Freed]);
        } else {
            assert_eq!(kinds, [Disconnect, Close, Freed]);
        }
    }
    w.busy = 0.0;
    w.finish();
}

/// There is room again: the owed event of any index is there within 2^C + 8 clocks.
#[test]
fn an_owed_event_waits_for_one_round_at_most() {
    let mut w = World::new(40);
    let all: Vec<_> = (0..CONNECTIONS).map(|_| w.requested(&connect(0)).1).collect();
    for index in all {
        w.ring_room = false;
        // fills the register in front of the ring
        w.commands.push_back(command(Opcode::Abort));
        w.settle();
        w.frame(index, reply(0x40, 1));
        w.settle();
        assert_eq!(w.events, []);
        w.ring_room = true;
        let mut clocks = 0;
        while w.events.len() < 2 {
            w.tick();
            clocks += 1;
            assert!(clocks < 200, "index {index}");
        }
        assert!(clocks <= 2 + u32::from(CONNECTIONS) + 8, "index {index}: {clocks}");
        w.take();
    }
    w.finish();
}

/// The host is late: what has a handle keeps its index, and with it the place for private data, until the host has read FREED; what has none
/// does not wait.
///
/// Covers: CM-43
#[test]
fn an_index_waits_until_the_host_has_read_freed() {
    let mut w = World::new(21);
    w.listen(0, 1, 7000, (0, 0));
    w.hold_read = true;
    let mut told = vec![];
    for _ in 0..2 {
        let (_, index) = w.requested(&connect(0));
        w.frame(index, Frame { data_len: 9, ..reply(0x40, 1) });
        assert_eq!(w.brief(), [(EventKind::ConnectReply, 0)]);
        w.note(RxNote::Reset, index);
        assert_eq!(w.brief(), [(EventKind::Close, code(Status::Reset)), (EventKind::Freed, 0)]);
        told.push(index);
    }
    let nameless = w.syn(0, 1);
    w.note(RxNote::Reset, nameless);
    assert_eq!(w.brief(), []);
    assert_eq!(w.used.keys().copied().collect::<Vec<_>>(), told, "the host has not read, and knows nothing of the third");
    assert_eq!((w.m.connections_live.get(), w.counts.freed), (0, 3));
    w.told.clear();
    w.hold_read = false;
    let back = w.told().into_iter().filter_map(|t| match t {
        Told::Rx { op: RxOp::Free, index, .. } => Some(index),
        _ => None,
    });
    assert_eq!(back.collect::<Vec<_>>(), told);
    w.finish();
}

/// What ends the stream while the private data of the Reply is on its way to the host comes after CONNECT_REPLY.
///
/// Covers: CM-3, CM-43
#[test]
fn the_end_comes_after_the_reply_whose_data_is_under_way() {
    use EventKind::*;
    for (end, then) in [
        (Input::Fin, vec![(Disconnect, 0)]),
        (Input::Reset, vec![(Close, code(Status::Reset)), (Freed, 0)]),
        (Input::TimedOut, vec![(Close, code(Status::TimedOut)), (Freed, 0)]),
        (Input::Unreachable, vec![(Close, code(Status::HostUnreachable)), (Freed, 0)]),
        (Input::Excess, vec![(Close, code(Status::Protocol)), (Freed, 0)]),
    ] {
        let mut w = World::new(38);
        let index = reach(&mut w, At::ReplyData).index();
        w.take();
        w.told.clear();
        match end {
            Input::Fin => w.note(RxNote::Fin, index),
            Input::Reset => w.note(RxNote::Reset, index),
            Input::TimedOut => w.from_tx.push_back((TxNote::TimedOut, index)),
            Input::Unreachable => w.from_tx.push_back((TxNote::Unreachable, index)),
            _ => w.results.push_back((Start::Excess, index, Frame::default())),
        }
        assert_eq!(w.brief(), [], "{end:?}");
        w.finish_delivery();
        let mut events = vec![(ConnectReply, 0)];
        events.extend(then);
        assert_eq!(w.brief(), events, "{end:?}");
        let told = w.told();
        assert!(w.bound.is_empty(), "nothing is bound that ends");
        if end == Input::Fin {
            assert!(told.iter().any(|t| matches!(t, Told::Tx { op: TxOp::Close, .. })), "{told:?}");
            w.note(RxNote::Closed, index);
            assert_eq!(w.brief(), [(Close, 0), (Freed, 0)]);
        }
        w.finish();
    }
}

/// What `tcp::rx` and `mpa::start_rx` say waits for the job that is under way, whatever that is and in whatever clock it comes; if more comes than the
/// queue holds, the rest waits outside.
///
/// Covers: CM-43
#[test]
fn no_message_is_lost_behind_a_job() {
    let mut w = World::new(39);
    w.listen(1, 1, 7000, (0, 0));
    for job in 0..14 {
        for clocks in 0..12 {
            let (other, busy) = w.requested(&connect(0));
            w.frame(busy, reply(0x40, 1));
            w.take();
            let (_, index) = w.requested(&connect(0));
            match job {
                0 => w.faults.push_back(busy),
                1 => w.expired.push_back(busy),
                2 => w.from_tx.push_back((TxNote::TimedOut, busy)),
                // an event, `Freed` and `freed_read` come of it
                3 => w.note(RxNote::Reset, busy),
                4 => w.commands.push_back(Command { handle: other, ..command(Opcode::Abort) }),
                5 => w.commands.push_back(command(Opcode::Abort)),
                6 => w.listeners.push_back(Listener { slot: 2, live: true, generation: 1, ..Listener::default() }),
                7 => w.unlisten(2, 1),
                8 => w.news.push_back((QpNote::Drained, busy)),
                9 => w.news.push_back((QpNote::Cut, busy)),
                10 => w.news.push_back((QpNote::Heard, busy)),
                11 => w.news.push_back((QpNote::Terminated, busy)),
                12 => w.news.push_back((QpNote::Failed, busy)),
                _ => w.note(RxNote::Fin, busy),
            }
            for _ in 0..clocks {
                w.tick();
            }
            w.frame(index, reply(0x40, 1));
            let events = w.take();
            let answers = events.iter().filter(|e| (e.kind, e.status) == (EventKind::ConnectReply, 0)).count();
            assert_eq!(answers, 1, "job {job}, {clocks} clocks: {events:?}");
            w.finish();
        }
    }
    // the port database answers the first late
    w.syn(1, 0);
    w.port_delay = 2000;
    while w.port_replies.is_empty() {
        w.tick();
    }
    let late: Vec<u16> = (1..25).map(|port| w.syn(1, port)).collect();
    for index in &late {
        w.note(RxNote::Synced, *index);
        w.frame(*index, REQUEST);
    }
    for _ in 0..1000 {
        w.tick();
    }
    assert!(w.port_delay > 0);
    let inside = 1 + 3 * late.len() - w.from_rx.len() - w.results.len();
    assert_eq!(inside, 16, "the one that the port database holds up is among them");
    let events = w.take();
    let announced: BTreeSet<u16> = events.iter().map(|e| e.handle.index()).collect();
    assert_eq!((events.len(), announced), (late.len(), late.into_iter().collect()));
    w.finish();
}

/// Where a connection can be, as the test brings it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    SynSent,
    WaitReply,
    ReplyData,
    WaitSync,
    WaitRequest,
    RequestData,
    Requested,
    Gone,
    GoneFreed,
    ActiveOpen,
    PassiveOpen,
    Emptying,
    Closing,
    Freeing,
    Reopening,
    Draining,
    /// TCP has forgotten it, its queue pair is still at work.
    Unbinding,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Synced,
    Fin,
    Reset,
    Closed,
    Frame,
    FrameReject,
    Malformed,
    Excess,
    Fault,
    TimePasses,
    LateTimer,
    TimedOut,
    Unreachable,
    Unlisten,
    Accept,
    Reject,
    Disconnect,
    Abort,
    Drained,
    Cut,
    Terminated,
    Failed,
}

const PHASES: [At; 18] = [
    At::SynSent,
    At::WaitReply,
    At::ReplyData,
    At::WaitSync,
    At::WaitRequest,
    At::RequestData,
    At::Requested,
    At::Gone,
    At::GoneFreed,
    At::ActiveOpen,
    At::PassiveOpen,
    At::Emptying,
    At::Closing,
    At::Unbinding,
    At::Freeing,
    At::Reopening,
    At::Draining,
    At::Done,
];

fn reach(w: &mut World, at: At) -> Handle {
    let passive = |w: &mut World, steps: u32| {
        w.listen(0, 1, 7000, (0, 0));
        let index = w.syn(0, 1);
        if steps > 0 {
            w.note(RxNote::Synced, index);
        }
        if steps > 1 {
            w.frame(index, Frame { data_len: 3, ..REQUEST });
        }
        w.settle();
        Handle::new(HandleKind::Connection, index, w.events.last().map_or(1, |e| e.handle.generation()))
    };
    match at {
        At::SynSent => w.connect(&connect(0)).0,
        At::WaitReply => w.requested(&connect(0)).0,
        At::ReplyData => {
            let (handle, index) = w.requested(&connect(0));
            w.hold_delivery = true;
            w.frame(index, Frame { data_len: 3, ..reply(0x40, 1) });
            w.settle();
            handle
        }
        At::WaitSync => passive(w, 0),
        At::WaitRequest => passive(w, 1),
        At::RequestData => {
            w.hold_delivery = true;
            passive(w, 2)
        }
        At::Requested => passive(w, 2),
        At::Gone | At::GoneFreed => {
            let handle = passive(w, 2);
            w.hold_freed = at == At::Gone;
            w.note(RxNote::Reset, handle.index());
            w.settle();
            handle
        }
        At::ActiveOpen | At::Emptying | At::Closing | At::Freeing | At::Unbinding | At::Done => {
            let (handle, index) = w.requested(&connect(0));
            w.frame(index, reply(0x40, 1));
            w.settle();
            if at != At::ActiveOpen {
                w.hold_freed = at == At::Freeing;
                w.ring_room = at != At::Done;
                w.hold_qp = matches!(at, At::Emptying | At::Unbinding);
                let opcode = if matches!(at, At::Freeing | At::Unbinding) { Opcode::Abort } else { Opcode::Disconnect };
                w.commands.push_back(Command { handle, ..command(opcode) });
                w.settle();
            }
            if at == At::Done {
                w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, ..RxMessage::default() });
                w.settle();
            }
            handle
        }
        At::Reopening => {
            let (handle, index) = w.requested(&connect(flag::ENHANCED | flag::RETRY));
            w.hold_reopen = true;
            w.note(RxNote::Fin, index);
            w.settle();
            handle
        }
        At::Draining => {
            let handle = reach(w, At::ReplyData);
            w.command(&Command { handle, ..command(Opcode::Abort) });
            handle
        }
        At::PassiveOpen => {
            let handle = passive(w, 2);
            w.command(&Command { handle, ..command(Opcode::Accept) });
            handle
        }
    }
}

/// The plain table: events that follow at once.
fn outcome(at: At, input: Input) -> Vec<(EventKind, i32)> {
    use EventKind::*;
    let active_start = matches!(at, At::SynSent | At::WaitReply);
    let open = matches!(at, At::ActiveOpen | At::PassiveOpen);
    let closing = matches!(at, At::Emptying | At::Closing);
    let hidden = matches!(at, At::WaitSync | At::WaitRequest | At::RequestData);
    let end = |status: Status| match at {
        _ if active_start => vec![(ConnectReply, code(status)), (Freed, 0)],
        _ if open || closing => vec![(Close, code(status)), (Freed, 0)],
        _ => vec![],
    };
    let answer = |status: Status, mut more: Vec<(EventKind, i32)>| {
        more.insert(0, (CmdReply, code(status)));
        more
    };
    match input {
        _ if at == At::Done => vec![],
        Input::TimePasses if at == At::Reopening => vec![(ConnectReply, code(Status::TimedOut))],
        Input::Synced | Input::LateTimer | Input::Unlisten => vec![],
        Input::Fin if open => vec![(Disconnect, 0)],
        Input::Fin if closing => vec![],
        Input::Fin | Input::Reset => end(Status::Reset),
        Input::Closed if at == At::Closing => vec![(Close, 0), (Freed, 0)],
        Input::Closed => vec![],
        Input::Frame if at == At::WaitReply => vec![(ConnectReply, 0)],
        Input::FrameReject if at == At::WaitReply => vec![(ConnectReply, code(Status::Refused))],
        // with the ACK of the handshake a Request may be known before the end of the handshake is
        Input::Frame | Input::FrameReject if matches!(at, At::WaitSync | At::WaitRequest) => vec![(ConnectRequest, 0)],
        Input::Frame | Input::FrameReject => vec![],
        // nothing of the peer's or of ours can have come before the handshake
        Input::Malformed | Input::Excess | Input::Fault if at == At::SynSent => vec![],
        Input::Malformed | Input::Excess => end(Status::Protocol),
        Input::Fault => end(Status::Fault),
        Input::TimePasses if active_start || closing => end(Status::TimedOut),
        Input::TimePasses => vec![],
        Input::Cut if at == At::Emptying => end(Status::Reset),
        Input::Failed if open || closing => end(Status::Fault),
        Input::Drained | Input::Cut | Input::Terminated | Input::Failed => vec![],
        Input::TimedOut => end(Status::TimedOut),
        Input::Unreachable => end(Status::HostUnreachable),
        // commands
        _ if hidden => answer(Status::NoEntry, vec![]),
        Input::Accept => match at {
            At::Requested => answer(Status::Ok, vec![(Established, 0)]),
            At::Gone => answer(Status::Reset, vec![]),
            At::GoneFreed => answer(Status::Reset, vec![(Freed, 0)]),
            _ => answer(Status::Invalid, vec![]),
        },
        Input::Reject => match at {
            At::Requested | At::Gone => answer(Status::Ok, vec![]),
            At::GoneFreed => answer(Status::Ok, vec![(Freed, 0)]),
            _ => answer(Status::Invalid, vec![]),
        },
        Input::Disconnect => {
            let was_open = open || closing || matches!(at, At::Freeing | At::Unbinding);
            answer(if was_open { Status::Ok } else { Status::Invalid }, vec![])
        }
        Input::Abort => answer(
            Status::Ok,
            match at {
                At::ReplyData | At::Reopening => vec![(ConnectReply, code(Status::Reset))],
                At::Requested | At::GoneFreed => vec![(Freed, 0)],
                _ => end(Status::Reset),
            },
        ),
    }
}

/// Every input in every phase against a plain table of events; afterwards everything comes back: indices, port uses, deadlines, handles.
///
/// Covers: CM-3, CM-5, CM-12, CM-16, CM-27, CM-43, MPA-3, MPA-10, MPA-42, DEF-13, DEF-36
#[test]
fn every_input_in_every_phase() {
    let inputs = [
        Input::Synced,
        Input::Fin,
        Input::Reset,
        Input::Closed,
        Input::Frame,
        Input::FrameReject,
        Input::Malformed,
        Input::Excess,
        Input::Fault,
        Input::TimePasses,
        Input::LateTimer,
        Input::TimedOut,
        Input::Unreachable,
        Input::Unlisten,
        Input::Accept,
        Input::Reject,
        Input::Disconnect,
        Input::Abort,
        Input::Drained,
        Input::Cut,
        Input::Terminated,
        Input::Failed,
    ];
    for at in PHASES {
        for input in inputs {
            let mut w = World::new(16);
            let handle = reach(&mut w, at);
            let index = handle.index();
            w.take();
            w.told.clear();
            let act = |w: &mut World, opcode| w.commands.push_back(Command { handle, ..command(opcode) });
            let active = w.peers.get(&index).is_some_and(|p| p.active);
            match input {
                Input::Synced => w.note(RxNote::Synced, index),
                Input::Fin => w.note(RxNote::Fin, index),
                Input::Reset => w.note(RxNote::Reset, index),
                Input::Closed => w.note(RxNote::Closed, index),
                Input::Frame if active => w.frame(index, reply(0x40, 1)),
                Input::Frame => w.frame(index, REQUEST),
                Input::FrameReject if active => w.frame(index, reply(0x60, 1)),
                Input::FrameReject => w.frame(index, Frame { flags: 0x60, ..REQUEST }),
                Input::Malformed => w.results.push_back((Start::Malformed, index, Frame::default())),
                Input::Excess => w.results.push_back((Start::Excess, index, Frame::default())),
                Input::Fault => w.faults.push_back(index),
                Input::TimePasses => w.pass(200_000),
                Input::LateTimer => w.expired.push_back(index),
                Input::TimedOut => w.from_tx.push_back((TxNote::TimedOut, index)),
                Input::Unreachable => w.from_tx.push_back((TxNote::Unreachable, index)),
                Input::Unlisten => w.unlisten(0, 1),
                Input::Accept => act(&mut w, Opcode::Accept),
                Input::Reject => act(&mut w, Opcode::Reject),
                Input::Disconnect => act(&mut w, Opcode::Disconnect),
                Input::Abort => act(&mut w, Opcode::Abort),
                // it says nothing of what it does not have
                _ if !w.bound.contains_key(&index) => {}
                Input::Drained => w.news.push_back((QpNote::Drained, index)),
                Input::Cut => w.news.push_back((QpNote::Cut, index)),
                Input::Terminated => w.news.push_back((QpNote::Terminated, index)),
                Input::Failed => w.news.push_back((QpNote::Failed, index)),
            }
            if at == At::Emptying {
                // what it is asked from here on it answers
                w.settle();
                w.held_qp.retain(|(note, _)| *note != QpNote::Drained);
                w.release_qp();
            }
            assert_eq!(w.brief(), outcome(at, input), "{input:?} at {at:?}");
            w.finish();
            assert!(w.users.is_empty(), "{input:?} at {at:?}");
        }
    }
}

/// Before a reset every connection ends in TCP, by RST where the peer may know of it, whatever phase it is in; `shut` comes when TCP has forgotten them all, no
/// command is begun any more, and a SYN that comes yet is reset, too.
///
/// Covers: CM-35, CM-42
#[test]
fn the_end_of_all_leaves_no_stream() {
    let mut w = World::new(24);
    w.m.shutdown.set(true);
    for _ in 0..3 {
        w.tick();
    }
    assert!(w.m.shut.get(), "without connections at once");
    for at in PHASES {
        let mut w = World::new(24);
        let handle = reach(&mut w, at);
        w.settle();
        w.ring_room = false;
        let alive = !w.ended.contains(&handle.index());
        w.m.shutdown.set(true);
        w.commands.push_back(connect(0));
        let waits = w.hold_freed || w.hold_reopen || at == At::Unbinding;
        for _ in 0..1500 {
            w.tick();
            assert!(!(waits && w.m.shut.get()), "{at:?}: TCP still has it");
        }
        w.hold_freed = false;
        w.hold_reopen = false;
        w.release_qp();
        if let Some(index) = w.held_reopen.take() {
            w.reopened(index);
        }
        for index in std::mem::take(&mut w.held) {
            w.freed(index);
        }
        for _ in 0..1500 {
            w.tick();
        }
        assert!(w.m.shut.get(), "{at:?}");
        assert!(w.used.keys().all(|index| w.ended.contains(index)), "{at:?}: {:?}", w.used);
        assert!(
            !alive || at == At::Gone || at == At::Freeing || w.told.iter().any(|t| matches!(t, Told::Tx { op: TxOp::Abort, .. })),
            "{at:?}"
        );
        assert_eq!(w.commands.len(), 1, "no command is begun");
        w.told.clear();
        if w.listening.contains_key(&0) {
            let late = w.syn(0, 9);
            for _ in 0..600 {
                w.tick();
            }
            assert!(!w.used.contains_key(&late), "{at:?}");
        }
        w.m.shutdown.set(false);
        w.reset();
        w.ring_room = true;
        assert!(!w.m.shut.get());
        w.connect(&connect(0));
        w.finish();
    }
}

/// A reset in any clock of a start-up leaves a block that works, and every handle from before is stale.
///
/// Covers: CM-32, CM-35
#[test]
fn reset_in_every_clock() {
    let mut w = World::new(17);
    for clocks in 0..150 {
        w.listen(0, 1, 7000, (0, 0));
        let (old, index) = w.requested(&connect(0));
        w.syn(0, 1);
        w.frame(index, Frame { data_len: 1, ..reply(0x40, 1) });
        w.note(RxNote::Fin, index);
        w.commands.push_back(connect(0));
        for _ in 0..clocks {
            w.tick();
        }
        w.reset();
        assert_eq!(w.m.connections_live.get(), 0);
        assert_eq!(w.one(&Command { handle: old, ..command(Opcode::Abort) }).status, code(Status::NoEntry));
        let (new, index) = w.requested(&connect(0));
        assert_ne!(new, old);
        w.frame(index, reply(0x40, 1));
        assert_eq!(w.brief(), [(EventKind::ConnectReply, 0)]);
        w.finish();
    }
}

/// Whatever happens, in whatever order, against neighbours of any slowness: each handle has the events that it may have and each index, port use
/// and deadline comes back. What is checked in each step is in [`World::watch`] and [`World::neighbours`].
///
/// Covers: CM-3, CM-4, CM-5, CM-8, CM-12, CM-13, CM-22, CM-32, CM-33, CM-43, CM-44, MPA-42, DEF-15, DEF-54
#[test]
fn random_lives() {
    let first = seed("conn");
    let mut total = vec![];
    for seed in first..first + 4 {
        let mut w = World::new(seed);
        let mut rng = StdRng::seed_from_u64(seed ^ 0xc0);
        w.busy = [0.0, 0.2, 0.5, 0.8][(seed % 4) as usize];
        w.pace = 1;
        let mut generation = 0;
        let mut live: BTreeMap<u16, u32> = BTreeMap::new();
        let mut waits: BTreeMap<u16, bool> = BTreeMap::new();
        let mut ends: VecDeque<Handle> = VecDeque::new();
        for _ in 0..4000 {
            for _ in 0..rng.random_range(0..40) {
                w.tick();
                w.open_note = *[RxNote::Opened, RxNote::Opened, RxNote::Opened, RxNote::Opened, RxNote::Exists, RxNote::NoSlot]
                    .choose(&mut rng)
                    .unwrap();
            }
            let done = w.told.iter().filter(|t| **t == Told::ListenerDone).count();
            for handle in ends.drain(..done) {
                w.dead_listeners.insert(handle.0);
            }
            w.told.clear();
            w.db_status = if rng.random_ratio(1, 12) { Db::NoSlot } else { Db::Ok };
            w.fail_delivery = rng.random_ratio(1, 12);
            w.hold_freed = rng.random_ratio(1, 3);
            w.hold_delivery = rng.random_ratio(1, 3);
            w.hold_read = rng.random_ratio(1, 3);
            w.ring_room = !rng.random_ratio(1, 5);
            if rng.random_ratio(1, 3) {
                for index in std::mem::take(&mut w.held) {
                    w.freed(index);
                }
                for index in std::mem::take(&mut w.held_deliveries) {
                    w.delivered(index);
                }
            }
            // one thing of the host, one of the network
            let handle = match rng.random_range(0..8) {
                0 => Handle(w.over.iter().copied().collect::<Vec<_>>().choose(&mut rng).copied().unwrap_or(0)),
                _ => Handle(w.lives.keys().copied().collect::<Vec<_>>().choose(&mut rng).copied().unwrap_or(0)),
            };
            let data_len = if rng.random_ratio(1, 2) { 0 } else { rng.random_range(0..520) };
            let enhanced =
                *[0, flag::ENHANCED, flag::ENHANCED | flag::RETRY, flag::ENHANCED | flag::PEER_TO_PEER].choose(&mut rng).unwrap();
            let quiet = if rng.random_ratio(1, 4) { flag::QUIET } else { 0 };
            let slot = rng.random_range(0..3);
            if w.commands.len() < 3 {
                match rng.random_range(0..14) {
                    0..=2 => w.commands.push_back(Command {
                        flags: enhanced | quiet,
                        data_len,
                        timeout_us: rng.random_range(0..4000),
                        ..connect(0)
                    }),
                    3..=5 => w.commands.push_back(Command { flags: quiet, handle, data_len, ird: 2, ord: 2, ..command(Opcode::Accept) }),
                    6 => w.commands.push_back(Command { flags: quiet, handle, data_len, ..command(Opcode::Reject) }),
                    7 => w.commands.push_back(Command { flags: quiet, handle, ..command(Opcode::Disconnect) }),
                    8 => w.commands.push_back(Command { flags: quiet, handle, ..command(Opcode::Abort) }),
                    9 => w.commands.push_back(Command { handle, opcode: rng.random_range(8..16), ..connect(quiet) }),
                    10 => match live.remove(&slot) {
                        Some(g) => {
                            w.unlisten(slot, g);
                            ends.push_back(Handle::new(HandleKind::Listener, slot, g));
                        }
                        None if ends.is_empty() => {
                            generation += 1;
                            live.insert(slot, generation);
                            w.listening.insert(slot, 7000 + slot);
                            let accept = rng.random_range(0..4);
                            w.listeners.push_back(Listener { slot, live: true, generation, context: generation, half_open: 0, accept });
                        }
                        None => {}
                    },
                    _ => {}
                }
            }
            if rng.random_ratio(1, 4) && w.free.len() > 2 && w.listening.contains_key(&slot) {
                w.syn(slot, rng.random());
            }
            let Some(index) = w.used.keys().copied().collect::<Vec<_>>().choose(&mut rng).copied() else { continue };
            let peer = w.peers[&index];
            if w.ended.contains(&index) || peer.over {
                continue;
            }
            let mut after = peer;
            match rng.random_range(0..16) {
                0..=4 if !peer.synced => {
                    after.synced = true;
                    w.note(RxNote::Synced, index);
                }
                0..=6 if peer.synced && !peer.framed && !peer.fin && (peer.sent || !peer.active) => {
                    after.framed = true;
                    let s = rng.random_bool(0.5);
                    let frame = Frame {
                        reply: peer.active,
                        flags: if s { 0x50 } else { 0x40 } | if rng.random_ratio(1, 4) && peer.active { 0x20 } else { 0 },
                        rev: if s { 2 } else { 1 },
                        data_len: if rng.random_ratio(1, 2) { 0 } else { rng.random_range(0..500) },
                        ird_word: rng.random_range(0..12),
                        ord_word: rng.random_range(0..12),
                    };
                    w.frame(index, frame);
                }
                7 => {
                    after.over = true;
                    w.from_rx.push_back(RxMessage { note: RxNote::Reset as u64, index, refused: !peer.synced, ..RxMessage::default() });
                }
                8..=9 if peer.synced && !peer.fin => {
                    after.fin = true;
                    w.note(RxNote::Fin, index);
                }
                10..=12 if peer.fin && peer.closing => {
                    after.over = true;
                    let wait = (0..32).find(|i| !waits.contains_key(i));
                    if let Some(wait) = wait {
                        waits.insert(wait, true);
                    }
                    let (waiting, wait) = (wait.is_some(), wait.unwrap_or(0));
                    w.from_rx.push_back(RxMessage { note: RxNote::Closed as u64, index, waiting, wait, ..RxMessage::default() });
                }
                13 if rng.random_ratio(1, 3) => {
                    let note = if rng.random() { TxNote::TimedOut } else { TxNote::Unreachable };
                    w.from_tx.push_back((note, index));
                }
                14 if peer.synced && !peer.framed && rng.random_ratio(1, 3) => {
                    after.framed = true;
                    let note = *[Start::Malformed, Start::WrongRevision].choose(&mut rng).unwrap();
                    w.results.push_back((note, index, Frame::default()));
                }
                14 if peer.framed && !peer.active && rng.random_ratio(1, 3) => {
                    w.results.push_back((Start::Excess, index, Frame::default()))
                }
                15 if peer.sent && rng.random_ratio(1, 3) => w.faults.push_back(index),
                _ => {
                    if let Some(wait) = waits.keys().next().copied() {
                        waits.remove(&wait);
                        w.from_rx.push_back(RxMessage {
                            note: RxNote::WaitEnd as u64,
                            index: CONNECTIONS + wait,
                            wait,
                            ..RxMessage::default()
                        });
                    }
                }
            }
            w.peers.insert(index, after);
        }
        w.busy = 0.0;
        w.pace = 0;
        for (slot, g) in live {
            w.unlisten(slot, g);
        }
        w.finish();
        for wait in waits.into_keys() {
            w.from_rx.push_back(RxMessage { note: RxNote::WaitEnd as u64, index: CONNECTIONS + wait, wait, ..RxMessage::default() });
        }
        w.settle();
        assert!(w.users.is_empty(), "{:?}", w.users);
        assert_eq!(w.counts.created, w.counts.freed);
        println!("seed {seed}: {:?}, {} handles", w.counts, w.over.len());
        total.push(w.counts);
    }
    let sum = |of: fn(&Counts) -> u32| total.iter().map(of).sum::<u32>();
    assert!(sum(|c| c.established) > 60 && sum(|c| c.retries) > 0 && sum(|c| c.non_peer) > 20 && sum(|c| c.rejects_in) > 10);
    assert!(sum(|c| c.rejects_out) > 10 && sum(|c| c.timeouts) > 8 && sum(|c| c.stale) > 20);
}

/// What `tcp::rx` and `mpa::start_rx` say is taken in the order in which it came, however long the port database holds the engine up: a frame
/// of an index's last user is not taken for one of its next, and the next one's frame is not taken too early.
///
/// Covers: CM-32, MPA-2
#[test]
fn messages_keep_the_order_in_which_they_came() {
    let mut w = World::new(19);
    w.listen(0, 1, 7000, (0, 0));
    // the parser told of a frame just before the host's ABORT ended its connection
    let index = w.syn(0, 1);
    w.results.push_back((Start::Frame, index, Frame { data_len: 9, ..REQUEST }));
    w.from_rx.clear();
    w.tick();
    let tuple = w.used[&index];
    w.from_rx.push_back(RxMessage { note: RxNote::Passive as u64, index, tuple, listener: 0, ..RxMessage::default() });
    w.note(RxNote::Synced, index);
    assert_eq!(w.take(), []);
    w.frame(index, Frame { data_len: 4, ..REQUEST });
    assert_eq!(w.take()[0].data_len, 4);
    // a SYN, a handshake and a Request while the port database is busy for another
    let first = w.syn(0, 2);
    w.port_delay = 3000;
    while w.port_replies.is_empty() {
        w.tick();
    }
    let second = w.syn(0, 3);
    for _ in 0..50 {
        w.tick();
    }
    w.note(RxNote::Synced, second);
    for _ in 0..50 {
        w.tick();
    }
    w.frame(second, REQUEST);
    assert!(w.port_delay > 0);
    let events = w.take();
    assert_eq!((events.len(), events[0].handle.index()), (1, second));
    assert_ne!(first, second);
    w.finish();
}

/// Clocks of each step with neighbours that answer at once: the module's text and the budget of connection set-up rely on them.
#[test]
fn timing_is_as_documented() {
    fn until(w: &mut World, done: impl Fn(&World) -> bool) -> u32 {
        let mut clocks = 0;
        while !done(w) {
            w.tick();
            clocks += 1;
            assert!(clocks < 400, "too long");
        }
        w.events.clear();
        w.told.clear();
        clocks
    }
    let rx = |op: RxOp| move |w: &World| w.told.iter().any(|t| matches!(t, Told::Rx { op: o, .. } if *o == op));
    let tx = |op: TxOp| move |w: &World| w.told.iter().any(|t| matches!(t, Told::Tx { op: o, .. } if *o == op));
    let event = |kind: EventKind| move |w: &World| w.events.iter().any(|e| e.kind == kind);
    let mut w = World::new(20);
    w.listen(0, 1, 7000, (0, 0));
    w.told.clear();
    w.commands.push_back(connect(0));
    let open = until(&mut w, rx(RxOp::Open));
    let index = *w.used.keys().next().expect("opened");
    let reply_to_connect = until(&mut w, event(EventKind::CmdReply));
    w.settle();
    w.told.clear();
    w.note(RxNote::Synced, index);
    let request = until(&mut w, tx(TxOp::Send));
    w.settle();
    w.frame(index, reply(0x40, 1));
    let connected = until(&mut w, event(EventKind::ConnectReply));
    w.settle();
    let index = w.syn(0, 1);
    w.settle();
    w.note(RxNote::Synced, index);
    w.settle();
    w.frame(index, REQUEST);
    while w.events.is_empty() {
        w.tick();
    }
    let handle = w.events[0].handle;
    w.settle();
    w.told.clear();
    w.commands.push_back(Command { handle, ..command(Opcode::Accept) });
    let answered = until(&mut w, tx(TxOp::Send));
    let established = until(&mut w, event(EventKind::Established));
    w.settle();
    w.told.clear();
    w.unlisten(0, 1);
    let ended = until(&mut w, |w| w.told.contains(&Told::ListenerDone));
    assert_eq!([open, reply_to_connect, request, connected, answered, established, ended], [19, 10, 10, 13, 8, 3, 363]);
    w.finish();
}

/// CRC if one of both asks for it, markers if the peer does, the depths that were negotiated, the RTR of the peer's choice.
///
/// Covers: MPA-24, MRK-9
#[test]
fn the_queue_pair_is_bound_as_both_frames_say() {
    let bound = |w: &World, index: u16| w.bound[&index];
    for (flags, request, peer, crc, markers) in [
        (0, 0x40, 0x40, true, false),
        (flag::NO_CRC, 0, 0x40, true, false),
        (flag::NO_CRC, 0, 0x80, false, true),
        (0, 0x40, 0xc0, true, true),
    ] {
        for data_len in [0, 3] {
            let mut w = World::new(31);
            let (_, index) = w.requested(&Command { qpn: 0xabcdef, ..connect(flags) });
            assert_eq!(w.last_frame().0.flags, request);
            assert!(w.bound.is_empty());
            w.frame(index, Frame { data_len, ..reply(peer, 1) });
            w.settle();
            let depth = (4, 6);
            assert_eq!(
                bound(&w, index),
                Binding { qpn: 0xabcdef, crc, markers, responder: false, depth, rtr: (false, false), terminate: 0 }
            );
            w.finish();
            let mut w = World::new(31);
            w.listen(0, 1, 7000, (0, 0));
            let (handle, _) = w.announced(0, Frame { flags: peer, data_len, ..REQUEST });
            w.command(&Command { handle, flags, qpn: 0x123456, ird: 3, ord: 2, ..command(Opcode::Accept) });
            let depth = (3, 2);
            assert_eq!(
                bound(&w, handle.index()),
                Binding { qpn: 0x123456, crc, markers, responder: true, depth, rtr: (false, false), terminate: 0 }
            );
            w.finish();
        }
    }
    // peer-to-peer: C (Write) goes before D (Read)
    for (word, rtr) in [(0x8000, (true, false)), (0x4000, (false, true)), (0xc000, (true, false))] {
        let mut w = World::new(31);
        let (_, index) = w.requested(&connect(flag::ENHANCED | flag::PEER_TO_PEER));
        w.frame(index, Frame { ird_word: 0x8000 | 8, ord_word: word | 8, ..reply(0x50, 2) });
        assert_eq!(w.brief(), [(EventKind::ConnectReply, 0)]);
        assert_eq!(bound(&w, index).rtr, rtr);
        w.finish();
    }
}

/// Covers: CM-10
#[test]
fn established_waits_for_the_rtr() {
    let peer_to_peer = Frame { ird_word: 0x8000 | 4, ord_word: 0xc000 | 4, ..ENHANCED };
    for end in 0..4 {
        let mut w = World::new(32);
        w.listen(0, 1, 7000, (0, 0));
        let (handle, _) = w.announced(0, peer_to_peer);
        w.hold_qp = true;
        assert_eq!(w.command(&Command { handle, ..command(Opcode::Accept) }).len(), 1, "the answer of the command alone");
        let index = handle.index();
        assert_eq!(bound_rtr(&w, index), (true, true));
        let established = (EventKind::Established, 0);
        match end {
            0 => w.release_qp(),
            1 => w.note(RxNote::Fin, index),
            2 => w.note(RxNote::Reset, index),
            _ => w.commands.push_back(Command { handle, ..command(Opcode::Disconnect) }),
        }
        let events = w.brief();
        assert_eq!(events.iter().filter(|e| **e == established).count(), 1, "end {end}: {events:?}");
        if end > 0 {
            w.held_qp.retain(|(note, _)| *note != QpNote::Heard);
        }
        w.finish();
    }
}
fn bound_rtr(w: &World, index: u16) -> (bool, bool) {
    w.bound[&index].rtr
}

/// FIN follows what was posted; the peer's FIN cuts it off.
///
/// Covers: TD-1, TD-2
#[test]
fn fin_is_behind_all_that_was_posted() {
    let mut w = World::new(33);
    let handle = reach(&mut w, At::Emptying);
    let index = handle.index();
    let close = Told::Tx { op: TxOp::Close, index, len: 0, tos: 0 };
    let closes = |told: &[Told]| told.iter().filter(|t| matches!(t, Told::Tx { op: TxOp::Close, .. })).count();
    assert_eq!(closes(&w.told()), 0, "not {close:?} yet");
    w.release_qp();
    assert_eq!(closes(&w.told()), 1);
    w.finish();
    for cut in [false, true] {
        let mut w = World::new(33);
        let handle = reach(&mut w, At::ActiveOpen);
        w.take();
        w.cut = cut;
        w.note(RxNote::Fin, handle.index());
        let events = w.brief();
        assert_eq!(events[0], (EventKind::Disconnect, 0));
        assert_eq!(events.get(1).copied(), cut.then_some((EventKind::Close, code(Status::Reset))));
        assert_eq!(closes(&w.told()), usize::from(!cut));
        w.finish();
    }
}

/// FIN of the peer in the middle of an FPDU is no orderly end; after a Terminate, and when it is the host that ends the connection, nothing else is said than otherwise.
///
/// Covers: TD-2
#[test]
fn a_stream_that_ends_amid_an_fpdu_was_reset() {
    for torn in [false, true] {
        let mut w = World::new(36);
        let handle = reach(&mut w, At::ActiveOpen);
        w.take();
        w.torn = torn;
        w.note(RxNote::Fin, handle.index());
        assert_eq!(w.brief(), [(EventKind::Disconnect, 0)]);
        w.note(RxNote::Closed, handle.index());
        assert_eq!(w.brief(), [(EventKind::Close, if torn { code(Status::Reset) } else { 0 }), (EventKind::Freed, 0)]);
        w.finish();
        // the next connection of this index
        let handle = reach(&mut w, At::ActiveOpen);
        w.take();
        w.torn = false;
        w.note(RxNote::Fin, handle.index());
        assert_eq!(w.brief(), [(EventKind::Disconnect, 0)]);
        w.note(RxNote::Closed, handle.index());
        assert_eq!(w.brief(), [(EventKind::Close, 0), (EventKind::Freed, 0)]);
        w.finish();
        let mut w = World::new(36);
        let handle = reach(&mut w, At::ActiveOpen);
        w.take();
        w.torn = torn;
        w.news.push_back((QpNote::Terminated, handle.index()));
        w.note(RxNote::Closed, handle.index());
        assert_eq!(w.brief(), [(EventKind::Close, code(Status::Protocol)), (EventKind::Freed, 0)]);
        w.finish();
    }
}

/// Covers: CM-14
#[test]
fn close_waits_for_the_end_of_all_dma() {
    let mut w = World::new(34);
    reach(&mut w, At::Unbinding);
    assert_eq!(w.brief(), [(EventKind::ConnectReply, 0), (EventKind::CmdReply, 0)].map(|(k, s)| (k, s)).as_slice(), "no CLOSE");
    w.release_qp();
    assert_eq!(w.brief(), [(EventKind::Close, code(Status::Reset)), (EventKind::Freed, 0)]);
    w.finish();
}

/// Covers: RDM-31
#[test]
fn after_a_terminate_the_stream_closes_in_order() {
    for emptying in [false, true] {
        let mut w = World::new(35);
        let handle = reach(&mut w, if emptying { At::Emptying } else { At::ActiveOpen });
        w.take();
        w.told.clear();
        w.news.push_back((QpNote::Terminated, handle.index()));
        assert_eq!(w.brief(), []);
        let told = w.told();
        let at = |f: fn(&Told) -> bool| told.iter().position(f).expect("told");
        let discard = at(|t| matches!(t, Told::Rx { op: RxOp::Discard, .. }));
        assert!(discard < at(|t| matches!(t, Told::Tx { op: TxOp::Close, .. })), "before FIN");
        w.held_qp.clear();
        w.hold_qp = false;
        w.note(RxNote::Closed, handle.index());
        assert_eq!(w.brief(), [(EventKind::Close, code(Status::Protocol)), (EventKind::Freed, 0)]);
        w.finish();
    }
}
