// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command engine: carries out the host's commands, owns the listener handles and the adapter's addresses, answers with events.
//!
//! **Interface.** `cmd` offers the oldest command of the ring and keeps it there until the engine takes it, which it does
//! together with the answer: the ring's output is the engine's working register. `evt` takes exactly one event a command; while the
//! event ring has no room the engine waits there, and nothing but later commands waits with it (CM-44). `port_req`/`port_rsp` is the
//! port database. `rule` are the set-up rules. `addresses` are the four local addresses, for the receive path, ARP and the checks here. `listener` tells `cm::conn` of
//! each listener that was made, before the LISTEN_REPLY, and of each that ends; FREED waits until `listener_done` says that nothing of it can follow
//! (CM-22). `cm::conn` takes an update within a bounded time, whatever the host does, and answers when the events that it has raised are taken.
//!
//! **States.** See [`EngineState`]; every command ends in `Answer`, whatever it was.
//!
//! | command | path |
//! |---|---|
//! | NOP, unknown, ADDRESS_ADD, ADDRESS_DELETE | Idle, Read, Check, Answer |
//! | RULE | Idle, Read, Check, Rule, Answer |
//! | LISTEN | Idle, Read, Check, Port, PortWait, (granted: Entry, Number, Tell,) Answer |
//! | UNLISTEN | Idle, Read, Check, (live and same generation: Port, PortWait, Tell, TellWait,) Answer |
//! | RESERVE, UNRESERVE | Idle, Read, Check, Port, PortWait, Answer |
//!
//! **Timing.** From `cmd.valid` to `evt.valid`: 4 clocks for NOP, 9 and the port database's time for LISTEN.
//!
//! **Memory.** Listener RAM, one word {generation, port, address} a slot. It is not cleared: a generation outlives a reset, so that a
//! handle from before it stays stale (CM-32). `live` is a flip-flop a slot, because a reset ends all handles at once.
use super::messages::{errno, kind, opcode, CommandIn, EventOut, ListenerUpdate};
use super::port_types::*;
use super::rules::{RuleSet, SetupRule};
use crate::net::types::LocalAddress;
use crate::stream::{ChanSink, ChanSrc};
use ironwarp_abi::{EventKind, HandleKind, Opcode, Status};
use rust_hdl::prelude::*;

/// Where a command is.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum EngineState {
    /// No command.
    Idle,
    /// The listener RAM is read with the command's handle; address comparisons are registered.
    Read,
    /// Everything about the command is known: decide.
    Check,
    /// Offer a request to the port database.
    Port,
    /// Wait for its reply.
    PortWait,
    /// LISTEN granted: read the slot's last generation.
    Entry,
    /// LISTEN granted: the generation is at the RAM's output; write the next one.
    Number,
    /// Offer a set-up rule.
    Rule,
    /// The connection manager hears of the listener.
    Tell,
    /// UNLISTEN: its connections are being reset.
    TellWait,
    /// Offer the event; the command leaves the ring when it is taken.
    Answer,
}

/// Word of the listener RAM.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ListenerEntry {
    pub generation: Bits<32>,
    pub addr: Bits<32>,
    pub port: Bits<16>,
}

/// `L`: log2 of the listener slots (that of the port database); `SLOTS = 1 << L`.
#[derive(LogicBlock)]
pub struct Engine<const L: usize, const SLOTS: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub port_req: ChanSrc<PortRequest>,
    pub port_rsp: ChanSink<PortReply>,
    pub rule: ChanSrc<RuleSet>,
    pub listener: ChanSrc<ListenerUpdate>,
    pub listener_done: Signal<In, Bit>,
    pub addresses: [Signal<Out, LocalAddress>; 4],
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    pub cnt_cmd_unknown: Signal<Out, Bit>,
    pub cnt_stale_handles: Signal<Out, Bit>,
    pub cnt_listen_created: Signal<Out, Bit>,
    pub cnt_listen_destroyed: Signal<Out, Bit>,
    pub cnt_listeners_exhausted: Signal<Out, Bit>,
    state: DFF<EngineState>,
    listeners: RAM<ListenerEntry, L>,
    entry: Signal<Local, ListenerEntry>,
    new_entry: Signal<Local, ListenerEntry>,
    live: DFF<Bits<SLOTS>>,
    address: [DFF<LocalAddress>; 4],
    // registered in Read
    address_hit: DFF<Bits<4>>,
    address_used: DFF<Bits<4>>,
    address_bad: DFF<Bit>,
    rule_bad: DFF<Bit>,
    handle_shape: DFF<Bit>,
    // the event under construction: what is not simply copied from the command
    kind: DFF<Bits<8>>,
    status: DFF<Bits<32>>,
    detail: DFF<Bits<32>>,
    slot: DFF<Bits<L>>,
    handle_kind: DFF<Bits<8>>,
    generation: DFF<Bits<32>>,
    port: DFF<Bits<16>>,
    addr: DFF<Bits<32>>,
    ok: Signal<Local, Bit>,
    index: Signal<Local, Bits<L>>,
    next_generation: Signal<Local, Bits<32>>,
    command: Signal<Local, CommandIn>,
    rule_set: Signal<Local, RuleSet>,
    setup_rule: Signal<Local, SetupRule>,
    rule_number: Signal<Local, Bits<16>>,
    flags: Signal<Local, Bits<8>>,
    local_addr: Signal<Local, Bits<32>>,
    index_high: Signal<Local, Bits<16>>,
    free_address: Signal<Local, Bits<4>>,
    reply: Signal<Local, PortReply>,
    update: Signal<Local, ListenerUpdate>,
    valid: [Signal<Local, Bit>; 4],
    same: [Signal<Local, Bit>; 4],
    new_address: Signal<Local, LocalAddress>,
    no_address: Signal<Local, LocalAddress>,
    used: Signal<Local, Bits<4>>,
    hit: Signal<Local, Bits<4>>,
    listening: Signal<Local, Bit>,
    same_generation: Signal<Local, Bit>,
    address_bit: [Constant<Bits<4>>; 4],
    rules: Constant<Bits<16>>,
    slots: Constant<Bits<16>>,
    op_nop: Constant<Bits<8>>,
    op_listen: Constant<Bits<8>>,
    op_unlisten: Constant<Bits<8>>,
    op_reserve: Constant<Bits<8>>,
    op_unreserve: Constant<Bits<8>>,
    op_address_add: Constant<Bits<8>>,
    op_address_delete: Constant<Bits<8>>,
    op_rule: Constant<Bits<8>>,
    kind_cmd_reply: Constant<Bits<8>>,
    kind_listen_reply: Constant<Bits<8>>,
    kind_freed: Constant<Bits<8>>,
    handle_listener: Constant<Bits<8>>,
    no_entry: Constant<Bits<32>>,
    no_memory: Constant<Bits<32>>,
    reserved: Constant<Bits<32>>,
    exists: Constant<Bits<32>>,
    invalid: Constant<Bits<32>>,
    unknown_opcode: Constant<Bits<32>>,
    address_in_use: Constant<Bits<32>>,
    address_not_available: Constant<Bits<32>>,
    no_ports: Constant<Bits<32>>,
}

impl<const L: usize, const SLOTS: usize> Default for Engine<L, SLOTS> {
    fn default() -> Self {
        assert_eq!(1 << L, SLOTS);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            cmd: Default::default(),
            evt: Default::default(),
            port_req: Default::default(),
            port_rsp: Default::default(),
            rule: Default::default(),
            listener: Default::default(),
            listener_done: Default::default(),
            addresses: Default::default(),
            cnt_cmd_done: Default::default(),
            cnt_cmd_errors: Default::default(),
            cnt_cmd_unknown: Default::default(),
            cnt_stale_handles: Default::default(),
            cnt_listen_created: Default::default(),
            cnt_listen_destroyed: Default::default(),
            cnt_listeners_exhausted: Default::default(),
            state: Default::default(),
            listeners: Default::default(),
            entry: Default::default(),
            new_entry: Default::default(),
            live: Default::default(),
            address: Default::default(),
            address_hit: Default::default(),
            address_used: Default::default(),
            address_bad: Default::default(),
            rule_bad: Default::default(),
            handle_shape: Default::default(),
            kind: Default::default(),
            status: Default::default(),
            detail: Default::default(),
            slot: Default::default(),
            handle_kind: Default::default(),
            generation: Default::default(),
            port: Default::default(),
            addr: Default::default(),
            ok: Default::default(),
            index: Default::default(),
            next_generation: Default::default(),
            command: Default::default(),
            rule_set: Default::default(),
            setup_rule: Default::default(),
            rule_number: Default::default(),
            flags: Default::default(),
            local_addr: Default::default(),
            index_high: Default::default(),
            free_address: Default::default(),
            reply: Default::default(),
            update: Default::default(),
            valid: Default::default(),
            same: Default::default(),
            new_address: Default::default(),
            no_address: Default::default(),
            used: Default::default(),
            hit: Default::default(),
            listening: Default::default(),
            same_generation: Default::default(),
            address_bit: std::array::from_fn(|i| Constant::new((1u64 << i).to_bits())),
            rules: Constant::new(u64::from(ironwarp_abi::RULES).to_bits()),
            slots: Constant::new((SLOTS as u64).to_bits()),
            op_nop: opcode(Opcode::Nop),
            op_listen: opcode(Opcode::Listen),
            op_unlisten: opcode(Opcode::Unlisten),
            op_reserve: opcode(Opcode::Reserve),
            op_unreserve: opcode(Opcode::Unreserve),
            op_address_add: opcode(Opcode::AddressAdd),
            op_address_delete: opcode(Opcode::AddressDelete),
            op_rule: opcode(Opcode::Rule),
            kind_cmd_reply: kind(EventKind::CmdReply),
            kind_listen_reply: kind(EventKind::ListenReply),
            kind_freed: kind(EventKind::Freed),
            handle_listener: Constant::new((HandleKind::Listener as u64).to_bits()),
            no_entry: errno(Status::NoEntry),
            no_memory: errno(Status::NoMemory),
            reserved: errno(Status::Reserved),
            exists: errno(Status::Exists),
            invalid: errno(Status::Invalid),
            unknown_opcode: errno(Status::UnknownOpcode),
            address_in_use: errno(Status::AddressInUse),
            address_not_available: errno(Status::AddressNotAvailable),
            no_ports: errno(Status::NoPorts),
        }
    }
}

impl<const L: usize, const SLOTS: usize> Logic for Engine<L, SLOTS> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, live, address_hit, address_used, address_bad, rule_bad, handle_shape);
        dff_setup!(self, clock, kind, status, detail, slot, handle_kind, generation, port, addr);
        self.listeners.read_clock.next = self.clock.val();
        self.listeners.write_clock.next = self.clock.val();
        for i in 0..4 {
            self.address[i].clock.next = self.clock.val();
            self.address[i].d.next = self.address[i].q.val();
            self.addresses[i].next = self.address[i].q.val();
        }
        self.command.next = self.cmd.data.val();
        self.local_addr.next = self.command.val().local_addr;
        self.index_high.next = self.command.val().index;
        self.index.next = bit_cast::<L, 16>(self.index_high.val());
        self.entry.next = self.listeners.read_data.val();
        self.next_generation.next = self.entry.val().generation + 1;
        self.ok.next = self.status.q.val() == 0;
        self.reply.next = self.port_rsp.data.val();

        self.listeners.read_address.next = self.index.val();
        self.listeners.write_address.next = self.slot.q.val();
        self.listeners.write_enable.next = false;
        self.new_entry.next.generation = self.next_generation.val();
        self.new_entry.next.addr = self.addr.q.val();
        self.new_entry.next.port = self.port.q.val();
        self.listeners.write_data.next = self.new_entry.val();

        self.cmd.ready.next = false;
        self.port_req.valid.next = false;
        self.port_rsp.ready.next = true;
        self.evt.valid.next = false;
        self.cnt_cmd_done.next = false;
        self.cnt_cmd_errors.next = false;
        self.cnt_cmd_unknown.next = false;
        self.cnt_stale_handles.next = false;
        self.cnt_listen_created.next = false;
        self.cnt_listen_destroyed.next = false;
        self.cnt_listeners_exhausted.next = false;

        // lowest free address slot, one-hot
        self.free_address.next = 0.into();
        for i in 0..4 {
            if !self.address_used.q.val().get_bit(i) & !self.free_address.val().any() {
                self.free_address.next = self.address_bit[i].val();
            }
        }
        // which addresses are set, and which is the command's (a field of an array element takes a literal index)
        self.used.next = 0.into();
        self.hit.next = 0.into();
        self.valid[0].next = self.address[0].q.val().valid;
        self.same[0].next = self.address[0].q.val().ip == self.local_addr.val();
        self.valid[1].next = self.address[1].q.val().valid;
        self.same[1].next = self.address[1].q.val().ip == self.local_addr.val();
        self.valid[2].next = self.address[2].q.val().valid;
        self.same[2].next = self.address[2].q.val().ip == self.local_addr.val();
        self.valid[3].next = self.address[3].q.val().valid;
        self.same[3].next = self.address[3].q.val().ip == self.local_addr.val();
        for i in 0..4 {
            if self.valid[i].val() {
                self.used.next = self.used.val() | self.address_bit[i].val();
            }
            if self.valid[i].val() & self.same[i].val() {
                self.hit.next = self.hit.val() | self.address_bit[i].val();
            }
        }
        self.new_address.next.valid = true;
        self.new_address.next.ip = self.local_addr.val();
        self.new_address.next.mask = self.command.val().remote_addr;
        self.new_address.next.gateway = self.command.val().gateway;
        self.no_address.next.valid = false;
        self.no_address.next.ip = 0.into();
        self.no_address.next.mask = 0.into();
        self.no_address.next.gateway = 0.into();
        self.listening.next = self.live.q.val().get_bit(self.index.val().index());
        self.same_generation.next = self.entry.val().generation == self.command.val().generation;

        // what the connection manager hears: the limits and the context are the command's, the slot and the generation the listener's
        self.listener.valid.next = false;
        self.update.next.slot = bit_cast::<16, L>(self.slot.q.val());
        self.update.next.live = self.command.val().opcode == self.op_listen.val();
        self.update.next.generation = self.generation.q.val();
        self.update.next.context = self.command.val().context;
        self.update.next.backlog_half_open = self.command.val().backlog_half_open;
        self.update.next.backlog_accept = self.command.val().backlog_accept;
        self.listener.data.next = self.update.val();

        // a set-up rule: a copy of the command's fields
        self.flags.next = self.command.val().flags;
        self.rule_number.next = self.command.val().backlog_half_open;
        self.setup_rule.next.deny = self.flags.val().get_bit(0);
        self.setup_rule.next.inbound = self.flags.val().get_bit(1);
        self.setup_rule.next.outbound = self.flags.val().get_bit(2);
        self.setup_rule.next.network = self.local_addr.val();
        self.setup_rule.next.mask = self.command.val().remote_addr;
        self.setup_rule.next.first = self.command.val().local_port;
        self.setup_rule.next.last = self.command.val().remote_port;
        self.rule_set.next.number = self.rule_number.val().get_bits::<8>(0);
        self.rule_set.next.live = self.flags.val().get_bit(1) | self.flags.val().get_bit(2);
        self.rule_set.next.rule = self.setup_rule.val();
        self.rule.data.next = self.rule_set.val();
        self.rule.valid.next = false;

        // request to the port database: a copy of the command's fields
        self.port_req.data.next.op = PortOp::Listen;
        self.port_req.data.next.addr = self.local_addr.val();
        self.port_req.data.next.port = self.command.val().local_port;
        self.port_req.data.next.last = self.command.val().remote_port;
        self.port_req.data.next.slot = 0.into();
        if self.command.val().opcode == self.op_unlisten.val() {
            self.port_req.data.next.op = PortOp::Unlisten;
            self.port_req.data.next.slot = self.command.val().index;
        } else if self.command.val().opcode == self.op_reserve.val() {
            self.port_req.data.next.op = PortOp::Reserve;
        } else if self.command.val().opcode == self.op_unreserve.val() {
            self.port_req.data.next.op = PortOp::Unreserve;
        }

        // event: copied from the command, or built on the way
        self.evt.data.next.kind = self.kind.q.val();
        self.evt.data.next.flags = 0.into();
        self.evt.data.next.status = self.status.q.val();
        self.evt.data.next.context = self.command.val().context;
        self.evt.data.next.detail = self.detail.q.val();
        self.evt.data.next.index = 0.into();
        self.evt.data.next.handle_kind = self.handle_kind.q.val();
        self.evt.data.next.generation = self.generation.q.val();
        self.evt.data.next.local_addr = self.addr.q.val();
        self.evt.data.next.local_port = self.port.q.val();
        self.evt.data.next.remote_port = 0.into();
        self.evt.data.next.remote_addr = 0.into();
        self.evt.data.next.own_ird = 0.into();
        self.evt.data.next.own_ord = 0.into();
        self.evt.data.next.peer_ird = 0.into();
        self.evt.data.next.peer_ord = 0.into();
        self.evt.data.next.data_len = 0.into();
        self.evt.data.next.listener_index = 0.into();
        self.evt.data.next.listener_generation = 0.into();
        if self.handle_kind.q.val() == self.handle_listener.val() {
            self.evt.data.next.index = bit_cast::<16, L>(self.slot.q.val());
        }

        match self.state.q.val() {
            EngineState::Idle => {
                self.kind.d.next = self.kind_cmd_reply.val();
                self.status.d.next = 0.into();
                self.detail.d.next = 0.into();
                self.slot.d.next = 0.into();
                self.handle_kind.d.next = 0.into();
                self.generation.d.next = 0.into();
                if self.cmd.valid.val() {
                    self.state.d.next = EngineState::Read;
                }
            }
            EngineState::Read => {
                self.addr.d.next = self.local_addr.val();
                self.port.d.next = self.command.val().local_port;
                self.slot.d.next = self.index.val();
                self.address_hit.d.next = self.hit.val();
                self.address_used.d.next = self.used.val();
                // no host may have 0.0.0.0/8, 127/8 or 224.0.0.0 and above
                self.address_bad.d.next = (self.local_addr.val().get_bits::<8>(24) == 0)
                    | (self.local_addr.val().get_bits::<8>(24) == 127)
                    | (self.local_addr.val().get_bits::<8>(24) >= 224);
                self.rule_bad.d.next = (self.flags.val().get_bits::<5>(3) != 0)
                    | (self.rule_number.val() >= self.rules.val())
                    | ((self.local_addr.val() & self.command.val().remote_addr) != self.local_addr.val())
                    | (self.command.val().local_port > self.command.val().remote_port);
                self.handle_shape.d.next =
                    (self.command.val().kind == self.handle_listener.val()) & (self.index_high.val() < self.slots.val());
                self.state.d.next = EngineState::Check;
            }
            EngineState::Check => {
                self.state.d.next = EngineState::Answer;
                if self.command.val().opcode == self.op_rule.val() {
                    self.status.d.next = self.invalid.val();
                    if !self.rule_bad.q.val() {
                        self.status.d.next = 0.into();
                        self.state.d.next = EngineState::Rule;
                    }
                } else if self.command.val().flags != 0 {
                    self.status.d.next = self.invalid.val();
                } else if self.command.val().opcode == self.op_nop.val() {
                    self.status.d.next = 0.into();
                } else if self.command.val().opcode == self.op_listen.val() {
                    self.kind.d.next = self.kind_listen_reply.val();
                    if (self.local_addr.val() == 0) | self.address_hit.q.val().any() {
                        self.state.d.next = EngineState::Port;
                    } else {
                        self.status.d.next = self.address_not_available.val();
                    }
                } else if self.command.val().opcode == self.op_unlisten.val() {
                    if self.handle_shape.q.val() & self.listening.val() & self.same_generation.val() {
                        self.addr.d.next = self.entry.val().addr;
                        self.port.d.next = self.entry.val().port;
                        self.state.d.next = EngineState::Port;
                    } else {
                        self.status.d.next = self.no_entry.val();
                        self.cnt_stale_handles.next = true;
                    }
                } else if (self.command.val().opcode == self.op_reserve.val()) | (self.command.val().opcode == self.op_unreserve.val()) {
                    self.state.d.next = EngineState::Port;
                } else if self.command.val().opcode == self.op_address_add.val() {
                    if self.address_bad.q.val() {
                        self.status.d.next = self.invalid.val();
                    } else if self.address_hit.q.val().any() {
                        self.status.d.next = self.exists.val();
                    } else if self.address_used.q.val().all() {
                        self.status.d.next = self.no_memory.val();
                    } else {
                        for i in 0..4 {
                            if self.free_address.val().get_bit(i) {
                                self.address[i].d.next = self.new_address.val();
                            }
                        }
                    }
                } else if self.command.val().opcode == self.op_address_delete.val() {
                    if !self.address_hit.q.val().any() {
                        self.status.d.next = self.no_entry.val();
                    }
                    for i in 0..4 {
                        if self.address_hit.q.val().get_bit(i) {
                            self.address[i].d.next = self.no_address.val();
                        }
                    }
                } else {
                    self.status.d.next = self.unknown_opcode.val();
                    self.cnt_cmd_unknown.next = true;
                }
            }
            EngineState::Port => {
                self.port_req.valid.next = true;
                if self.port_req.ready.val() {
                    self.state.d.next = EngineState::PortWait;
                }
            }
            EngineState::PortWait => {
                self.detail.d.next = bit_cast::<32, 16>(self.reply.val().port);
                if self.port_rsp.valid.val() {
                    self.state.d.next = EngineState::Answer;
                    if self.reply.val().status == PortStatus::InUse {
                        self.status.d.next = self.address_in_use.val();
                    } else if self.reply.val().status == PortStatus::Reserved {
                        self.status.d.next = self.reserved.val();
                    } else if self.reply.val().status == PortStatus::NoPorts {
                        self.status.d.next = self.no_ports.val();
                    } else if self.reply.val().status == PortStatus::NoSlot {
                        self.status.d.next = self.no_memory.val();
                        self.cnt_listeners_exhausted.next = true;
                    } else if self.reply.val().status == PortStatus::Invalid {
                        self.status.d.next = self.invalid.val();
                    } else if self.command.val().opcode == self.op_listen.val() {
                        self.port.d.next = self.reply.val().port;
                        self.slot.d.next = bit_cast::<L, 16>(self.reply.val().listener);
                        self.state.d.next = EngineState::Entry;
                    } else if self.command.val().opcode == self.op_unlisten.val() {
                        self.kind.d.next = self.kind_freed.val();
                        self.handle_kind.d.next = self.handle_listener.val();
                        self.generation.d.next = self.command.val().generation;
                        self.live.d.next = self.live.q.val().replace_bit(self.slot.q.val().index(), false);
                        self.cnt_listen_destroyed.next = true;
                        self.state.d.next = EngineState::Tell;
                    }
                }
            }
            EngineState::Entry => {
                self.listeners.read_address.next = self.slot.q.val();
                self.state.d.next = EngineState::Number;
            }
            EngineState::Number => {
                self.listeners.write_enable.next = true;
                self.generation.d.next = self.next_generation.val();
                self.handle_kind.d.next = self.handle_listener.val();
                self.live.d.next = self.live.q.val().replace_bit(self.slot.q.val().index(), true);
                self.cnt_listen_created.next = true;
                self.state.d.next = EngineState::Tell;
            }
            EngineState::Rule => {
                self.rule.valid.next = true;
                if self.rule.ready.val() {
                    self.state.d.next = EngineState::Answer;
                }
            }
            EngineState::Tell => {
                self.listener.valid.next = true;
                if self.listener.ready.val() {
                    self.state.d.next = EngineState::TellWait;
                    if self.update.val().live {
                        self.state.d.next = EngineState::Answer;
                    }
                }
            }
            EngineState::TellWait => {
                if self.listener_done.val() {
                    self.state.d.next = EngineState::Answer;
                }
            }
            EngineState::Answer => {
                self.evt.valid.next = true;
                if self.evt.ready.val() {
                    self.cmd.ready.next = true;
                    self.cnt_cmd_done.next = self.ok.val();
                    self.cnt_cmd_errors.next = !self.ok.val();
                    self.state.d.next = EngineState::Idle;
                }
            }
            _ => {
                self.state.d.next = EngineState::Idle;
            }
        }
        if self.reset.val() {
            self.state.d.next = EngineState::Idle;
            self.live.d.next = 0.into();
            for i in 0..4 {
                self.address[i].d.next = self.no_address.val();
            }
        }
    }
}
