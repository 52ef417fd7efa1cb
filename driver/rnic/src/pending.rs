// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exactly one reply for each command: which contexts are out, what their reply may be, and what to make of anything else.
//!
//! Nothing that the adapter writes is believed: an unknown kind, a context that is not out, a second reply, a handle that cannot be
//! right are counted and logged, and change nothing.
use crate::{
    connection::{Connection, ConnectionState, StartUp},
    error::Refusal,
    live::{Connections, Odd},
    ports::Ports,
    private_data::Slot,
};
use ironwarp_abi::{Command, Event as RawEvent, EventKind, Handle, HandleKind, Opcode};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    net::Ipv4Addr,
};

/// Names a command from its posting to its one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context(pub u32);

/// Opcode of a command, in messages by its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Op(pub u8);

impl From<Opcode> for Op {
    fn from(opcode: Opcode) -> Self {
        Op(opcode as u8)
    }
}

impl PartialEq<Opcode> for Op {
    fn eq(&self, opcode: &Opcode) -> bool {
        self.0 == *opcode as u8
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Opcode, &str); 19] = [
            (Opcode::Nop, "NOP"),
            (Opcode::Listen, "LISTEN"),
            (Opcode::Unlisten, "UNLISTEN"),
            (Opcode::Reserve, "RESERVE"),
            (Opcode::Unreserve, "UNRESERVE"),
            (Opcode::AddressAdd, "ADDRESS_ADD"),
            (Opcode::AddressDelete, "ADDRESS_DELETE"),
            (Opcode::Rule, "RULE"),
            (Opcode::Connect, "CONNECT"),
            (Opcode::Accept, "ACCEPT"),
            (Opcode::Reject, "REJECT"),
            (Opcode::Disconnect, "DISCONNECT"),
            (Opcode::Abort, "ABORT"),
            (Opcode::RegisterMr, "REGISTER_MR"),
            (Opcode::DeregisterMr, "DEREGISTER_MR"),
            (Opcode::CreateCq, "CREATE_CQ"),
            (Opcode::DestroyCq, "DESTROY_CQ"),
            (Opcode::CreateQp, "CREATE_QP"),
            (Opcode::DestroyQp, "DESTROY_QP"),
        ];
        match NAMES.iter().find(|(opcode, _)| *self == *opcode) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "opcode {}", self.0),
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A listener in the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Its handle.
    pub handle: Handle,
    /// Local address; 0.0.0.0 is any.
    pub address: Ipv4Addr,
    /// Local port, never 0.
    pub port: u16,
}

/// What the adapter tells the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The command was carried out.
    Done {
        /// Of the command.
        context: Context,
        /// What was asked.
        opcode: Op,
    },
    /// LISTEN_REPLY: the listener lives.
    Listening {
        /// Of the command.
        context: Context,
        /// It.
        listener: Listener,
    },
    /// Last event of a listener's handle.
    Freed {
        /// Of the UNLISTEN.
        context: Context,
        /// The handle, dead from now on.
        handle: Handle,
    },
    /// The adapter said no.
    Refused {
        /// Of the command.
        context: Context,
        /// What was asked.
        opcode: Op,
        /// Why not.
        refusal: Refusal,
    },
    /// The reply contradicts the command; what the adapter did is unknown.
    BadReply {
        /// Of the command.
        context: Context,
        /// What was asked.
        opcode: Op,
        /// What is wrong.
        what: &'static str,
    },
    /// No command asked for this.
    Async {
        /// What happened, and to whom ([`ironwarp_abi::event::asynchronous`]).
        code: u32,
        /// Octets 0 and 1 of the Terminate that it is about.
        terminate: u16,
        /// To whom.
        handle: Handle,
    },
    /// An armed completion queue has something.
    Completion {
        /// Its number.
        cqn: u16,
    },
    /// CONNECT was taken: [`Event::ConnectReply`] follows, once, whatever happens (CM-3).
    Connecting {
        /// Of the command.
        context: Context,
        /// It, with the port chosen.
        connection: Connection,
    },
    /// CONNECT_REQUEST: a peer asks for a connection; answer with accept, reject or abort.
    ConnectRequest {
        /// Whom it asks.
        listener: Listener,
        /// The new connection, with the real addresses (CM-38).
        connection: Connection,
        /// What its Request says.
        start: StartUp,
    },
    /// CONNECT_REPLY: what became of CONNECT.
    ConnectReply {
        /// Which.
        connection: Connection,
        /// Connected, or why not.
        result: Result<(), Refusal>,
        /// What the peer's Reply says, if one came.
        start: StartUp,
    },
    /// ESTABLISHED: what was accepted is connected.
    Established {
        /// Which.
        connection: Connection,
        /// IRD and ORD as they are now.
        start: StartUp,
    },
    /// DISCONNECT: the peer has sent FIN. CLOSE follows.
    Disconnect {
        /// Which.
        connection: Connection,
    },
    /// CLOSE: the connection was established and is gone; once (CM-12).
    Close {
        /// Which.
        connection: Connection,
        /// In order, or why not.
        result: Result<(), Refusal>,
    },
    /// FREED: the last event of a connection; its handle is dead.
    ConnectionFreed {
        /// Which.
        connection: Connection,
    },
}

impl Event {
    /// Context of the command that this answers.
    pub const fn context(&self) -> Option<Context> {
        match self {
            Event::Done { context, .. }
            | Event::Listening { context, .. }
            | Event::Freed { context, .. }
            | Event::Refused { context, .. }
            | Event::BadReply { context, .. }
            | Event::Connecting { context, .. } => Some(*context),
            Event::Async { .. }
            | Event::Completion { .. }
            | Event::ConnectRequest { .. }
            | Event::ConnectReply { .. }
            | Event::Established { .. }
            | Event::Disconnect { .. }
            | Event::Close { .. }
            | Event::ConnectionFreed { .. } => None,
        }
    }
    /// The connection that this is about.
    pub const fn connection(&self) -> Option<Connection> {
        match self {
            Event::Connecting { connection, .. }
            | Event::ConnectRequest { connection, .. }
            | Event::ConnectReply { connection, .. }
            | Event::Established { connection, .. }
            | Event::Disconnect { connection }
            | Event::Close { connection, .. }
            | Event::ConnectionFreed { connection } => Some(*connection),
            _ => None,
        }
    }
}

/// What came that should not have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Events of a kind that does not exist or belongs to no command of this driver.
    pub unknown_kind: u64,
    /// Events with a status that this driver does not know.
    pub unknown_status: u64,
    /// Replies with a context that no command had lately.
    pub unknown_context: u64,
    /// Second replies.
    pub duplicate_reply: u64,
    /// Replies that contradict their command.
    pub bad_reply: u64,
    /// Replies that came after their bound.
    pub late_reply: u64,
    /// ASYNC events that nobody took and that made room for later ones.
    pub async_dropped: u64,
    /// Events of connections that do not live, and CONNECT_REQUESTs of listeners that do not.
    pub unknown_handle: u64,
    /// Events that the connection cannot have in its state, or not again; FREED before the final event.
    pub unexpected_event: u64,
}

impl Oddities {
    /// Names and values, for `stats`.
    pub fn rows(&self) -> [(&'static str, u64); 9] {
        [
            ("drvUnknownKind", self.unknown_kind),
            ("drvUnknownStatus", self.unknown_status),
            ("drvUnknownContext", self.unknown_context),
            ("drvDuplicateReply", self.duplicate_reply),
            ("drvBadReply", self.bad_reply),
            ("drvLateReply", self.late_reply),
            ("drvAsyncDropped", self.async_dropped),
            ("drvUnknownHandle", self.unknown_handle),
            ("drvUnexpectedEvent", self.unexpected_event),
        ]
    }
}

struct Pending {
    command: Command,
    /// Nobody waits for the reply any more.
    abandoned: bool,
    /// The driver's own: nobody ever waited.
    own: bool,
    /// Outbound private data that the command names.
    slot: Option<Slot>,
}

struct LiveListener {
    listener: Listener,
    /// UNLISTEN is under way.
    closing: bool,
    /// Nobody waited for its LISTEN_REPLY: nobody knows it, and what it announces is told to nobody (CM-21).
    unwanted: bool,
}

/// Replied contexts that are remembered, to tell a second reply from an unknown context.
const REMEMBERED: usize = 256;
/// ASYNC events kept for a host that does not take them.
const MAX_ASYNC: usize = 1024;
/// Odd events logged as warnings; later ones only count.
const MAX_WARNINGS: u64 = 16;

/// The bookkeeping.
#[derive(Default)]
pub(crate) struct Tracker {
    next: u32,
    out: HashMap<u32, Pending>,
    replied: VecDeque<u32>,
    /// Live listeners.
    listeners: HashMap<Handle, LiveListener>,
    pub(crate) connections: Connections,
    pub(crate) ports: Ports,
    /// Local addresses: address, length of the mask, gateway.
    addresses: Vec<(Ipv4Addr, u32, Option<Ipv4Addr>)>,
    ready: VecDeque<Event>,
    asyncs: usize,
    /// Listeners and connections that nobody wants any more, to be ended.
    pub(crate) orphans: Vec<Handle>,
    pub(crate) oddities: Oddities,
    warnings: u64,
}

impl Tracker {
    /// A context that no other command has.
    pub(crate) fn allocate(&mut self) -> Context {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.out.contains_key(&self.next) {
                return Context(self.next);
            }
        }
    }
    pub(crate) fn posted(&mut self, command: Command, slot: Option<Slot>) {
        self.out.insert(command.context, Pending { command, abandoned: false, own: false, slot });
    }
    /// The doorbell failed: the command never was.
    pub(crate) fn withdraw(&mut self, context: Context) {
        if let Some(pending) = self.out.remove(&context.0) {
            self.connections.give_back(pending.slot);
        }
    }
    /// The reply will be thrown away.
    pub(crate) fn abandon(&mut self, context: Context) {
        if let Some(pending) = self.out.get_mut(&context.0) {
            pending.abandoned = true;
            if pending.command.opcode == Opcode::Accept as u8 {
                // its caller was told that it failed (CM-5)
                self.connections.mute(pending.command.handle);
            }
        }
    }
    /// A command of the driver itself, to end what nobody wants.
    pub(crate) fn own(&mut self, context: Context) {
        if let Some(pending) = self.out.get_mut(&context.0) {
            (pending.abandoned, pending.own) = (true, true);
        }
    }
    /// The own address on the way to `remote`: that of its network, else the first that has a gateway.
    pub(crate) fn route(&self, remote: Ipv4Addr) -> Option<Ipv4Addr> {
        let near = self.addresses.iter().filter(|(a, mask, _)| u32::from(*a) & mask == u32::from(remote) & mask);
        near.max_by_key(|(_, mask, _)| *mask).or_else(|| self.addresses.iter().find(|(.., gateway)| gateway.is_some())).map(|(a, ..)| *a)
    }
    /// Own addresses, in the order in which they were added.
    pub(crate) fn addresses(&self) -> Vec<Ipv4Addr> {
        self.addresses.iter().map(|(address, ..)| *address).collect()
    }
    pub(crate) fn outstanding(&self) -> usize {
        self.out.len()
    }
    /// Marks a live listener as being destroyed; false if it is not alive or UNLISTEN is under way.
    pub(crate) fn close(&mut self, handle: Handle) -> bool {
        matches!(self.listeners.get_mut(&handle).map(|live| std::mem::replace(&mut live.closing, true)), Some(false))
    }
    /// UNLISTEN could not be posted, or the adapter keeps the listener.
    pub(crate) fn reopen(&mut self, handle: Handle) {
        if let Some(live) = self.listeners.get_mut(&handle) {
            live.closing = live.unwanted;
        }
    }
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.len()
    }
    pub(crate) fn listener_rows(&self) -> Vec<Listener> {
        let mut rows: Vec<_> = self.listeners.values().map(|live| live.listener).collect();
        rows.sort_by_key(|listener| listener.handle.index());
        rows
    }
    pub(crate) fn take_next(&mut self) -> Option<Event> {
        let event = self.ready.pop_front()?;
        self.asyncs -= usize::from(matches!(event, Event::Async { .. }));
        Some(event)
    }
    pub(crate) fn take(&mut self, context: Context) -> Option<Event> {
        let at = self.ready.iter().position(|e| e.context() == Some(context))?;
        self.ready.remove(at)
    }

    fn odd(&mut self, what: &'static str, raw: &RawEvent) {
        self.warnings += 1;
        if self.warnings <= MAX_WARNINGS {
            tracing::warn!(kind = raw.kind, status = raw.status, context = raw.context, handle = raw.handle.0, "event ignored: {what}");
        }
    }

    /// Judges one event of the ring. `max_listeners` bounds the index of a handle.
    pub(crate) fn accept(&mut self, raw: &RawEvent, max_listeners: u16) {
        match EventKind::from_raw(raw.kind) {
            Some(EventKind::Async) => {
                if self.asyncs == MAX_ASYNC {
                    if let Some(at) = self.ready.iter().position(|e| matches!(e, Event::Async { .. })) {
                        self.ready.remove(at);
                        self.asyncs -= 1;
                        self.oddities.async_dropped += 1;
                    }
                }
                self.ready.push_back(Event::Async { code: raw.detail, terminate: raw.own_ird, handle: raw.handle });
                self.asyncs += 1;
            }
            Some(EventKind::Completion) => self.ready.push_back(Event::Completion { cqn: raw.detail as u16 }),
            Some(EventKind::Freed) if raw.handle.kind() == Some(HandleKind::Connection) => match self.connections.freed(raw.handle) {
                Ok((events, missing)) => {
                    self.ready.extend(events);
                    if missing {
                        self.oddities.unexpected_event += 1;
                        self.odd("FREED before the final event", raw);
                    }
                }
                Err(odd) => self.odd_connection(odd, raw),
            },
            Some(kind @ (EventKind::CmdReply | EventKind::ListenReply | EventKind::Freed)) => self.reply(kind, raw, max_listeners),
            Some(EventKind::ConnectRequest) => {
                let live = self.listeners.get(&raw.listener);
                let unwanted = live.is_some_and(|live| live.unwanted);
                match self.connections.requested(raw, live.map(|live| live.listener), unwanted) {
                    Ok(_) if unwanted => self.orphans.push(raw.handle),
                    Ok(event) => self.ready.push_back(event),
                    Err(odd) => self.odd_connection(odd, raw),
                }
            }
            Some(kind @ (EventKind::ConnectReply | EventKind::Established | EventKind::Disconnect | EventKind::Close)) => {
                match self.connections.happened(kind, raw) {
                    Ok(event) => self.ready.extend(event),
                    Err(odd) => self.odd_connection(odd, raw),
                }
            }
            None => {
                self.oddities.unknown_kind += 1;
                self.odd("unknown kind", raw);
            }
        }
    }

    fn odd_connection(&mut self, odd: Odd, raw: &RawEvent) {
        match odd {
            Odd::UnknownHandle => {
                self.oddities.unknown_handle += 1;
                self.odd("no such handle lives", raw);
            }
            Odd::Unexpected(what) => {
                self.oddities.unexpected_event += 1;
                self.odd(what, raw);
            }
        }
    }

    fn reply(&mut self, kind: EventKind, raw: &RawEvent, max_listeners: u16) {
        let Some(mut pending) = self.out.remove(&raw.context) else {
            if self.replied.contains(&raw.context) {
                self.oddities.duplicate_reply += 1;
                self.odd("second reply", raw);
            } else {
                self.oddities.unknown_context += 1;
                self.odd("no command has this context", raw);
            }
            return;
        };
        if self.replied.len() == REMEMBERED {
            self.replied.pop_front();
        }
        self.replied.push_back(raw.context);
        let event = self.judge(kind, raw, &mut pending, max_listeners);
        // refused, or of a command that no connection came from
        self.connections.give_back(pending.slot.take());
        if let Event::BadReply { what, .. } = event {
            self.oddities.bad_reply += 1;
            self.odd(what, raw);
        }
        if pending.abandoned {
            self.oddities.late_reply += u64::from(!pending.own);
            match event {
                Event::Listening { listener, .. } => self.orphans.push(listener.handle),
                Event::Connecting { connection, .. } => self.orphans.push(connection.handle),
                Event::Done { opcode, .. } if opcode == Opcode::Accept => self.orphans.push(pending.command.handle),
                _ => {}
            }
        } else {
            self.ready.push_back(event);
        }
    }

    /// A listener is gone: what it announced and nobody has seen yet ends too (CM-22).
    fn forget_listener(&mut self, handle: Handle) {
        self.listeners.remove(&handle);
        let (connections, orphans) = (&mut self.connections, &mut self.orphans);
        self.ready.retain(|event| match event {
            Event::ConnectRequest { listener, connection, .. } if listener.handle == handle => {
                connections.mute(connection.handle);
                orphans.push(connection.handle);
                false
            }
            _ => true,
        });
    }

    /// The adapter did not take an answer to a CONNECT_REQUEST: the caller is told, so nobody will answer it any more (CM-5).
    fn answer_refused(&mut self, handle: Handle, refusal: Refusal) {
        if !self.connections.lives(handle) {
            return;
        }
        let rejected = refusal == Refusal::NoMemory;
        self.connections.set_state(handle, if rejected { ConnectionState::Leaving } else { ConnectionState::Ending });
        // FREED comes by itself if the peer has gone (CM-27), or if the adapter has rejected because of IRD or ORD (CM-28): that Reply must arrive
        if !matches!(refusal, Refusal::Reset | Refusal::NoMemory) {
            self.orphans.push(handle);
        }
    }

    fn judge(&mut self, kind: EventKind, raw: &RawEvent, pending: &mut Pending, max_listeners: u16) -> Event {
        let context = Context(raw.context);
        let command = pending.command;
        let opcode = Op(command.opcode);
        let bad = |what| Event::BadReply { context, opcode, what };
        // RESERVE and UNRESERVE name the port they stumbled over, LISTEN was told it
        let port = if opcode == Opcode::Reserve || opcode == Opcode::Unreserve { raw.detail as u16 } else { command.local_port };
        if let Some(refusal) = Refusal::from_status(raw.status, port) {
            if matches!(refusal, Refusal::Unknown(_)) {
                self.oddities.unknown_status += 1;
            }
            if opcode == Opcode::Unlisten {
                // the adapter has no such listener (NoEntry) or keeps it
                if refusal == Refusal::NoEntry {
                    self.forget_listener(command.handle);
                } else {
                    self.reopen(command.handle);
                }
            }
            if opcode == Opcode::Accept || opcode == Opcode::Reject {
                self.answer_refused(command.handle, refusal);
            }
            return Event::Refused { context, opcode, refusal };
        }
        match kind {
            EventKind::ListenReply if opcode == Opcode::Listen => {
                let handle = raw.handle;
                if handle.kind() != Some(HandleKind::Listener) || handle.0 >> 24 & 0xff != 0 || handle.index() >= max_listeners {
                    return bad("not the handle of a listener");
                }
                if raw.local_port == 0 || (command.local_port != 0 && raw.local_port != command.local_port) {
                    return bad("another port than the one asked for");
                }
                if self.listeners.contains_key(&handle) {
                    return bad("the handle of a listener that lives");
                }
                // the address is the one asked for: the adapter chooses only ports
                let listener = Listener { handle, address: Ipv4Addr::from(command.local_addr), port: raw.local_port };
                let unwanted = pending.abandoned;
                self.listeners.insert(handle, LiveListener { listener, closing: unwanted, unwanted });
                Event::Listening { context, listener }
            }
            EventKind::Freed if opcode == Opcode::Unlisten => {
                if raw.handle != command.handle {
                    return bad("FREED for another handle");
                }
                self.forget_listener(raw.handle);
                Event::Freed { context, handle: raw.handle }
            }
            EventKind::CmdReply if opcode == Opcode::Connect => {
                match self.connections.opened(&command, raw, pending.slot.take(), pending.abandoned) {
                    Ok(connection) => Event::Connecting { context, connection },
                    Err(what) => bad(what),
                }
            }
            EventKind::CmdReply if opcode != Opcode::Listen && opcode != Opcode::Unlisten => {
                if opcode == Opcode::Accept || opcode == Opcode::Reject {
                    let lives = self.connections.answered(&command, pending.slot.take());
                    if !lives && opcode == Opcode::Accept {
                        // FREED came first: no ESTABLISHED can follow (CM-5)
                        return Event::Refused { context, opcode, refusal: Refusal::Reset };
                    }
                }
                self.learn(&command);
                Event::Done { context, opcode }
            }
            _ => bad("another kind of event than the command has"),
        }
    }

    /// Keeps what later verbs and tables need of a command that was carried out.
    fn learn(&mut self, command: &Command) {
        let address = Ipv4Addr::from(command.local_addr);
        match Op(command.opcode) {
            o if o == Opcode::Reserve => self.ports.set(command.local_port, command.remote_port, true),
            o if o == Opcode::Unreserve => self.ports.set(command.local_port, command.remote_port, false),
            o if o == Opcode::AddressAdd => {
                let gateway = (command.gateway != 0).then(|| Ipv4Addr::from(command.gateway));
                self.addresses.push((address, command.remote_addr, gateway));
            }
            o if o == Opcode::AddressDelete => self.addresses.retain(|(a, ..)| *a != address),
            _ => {}
        }
    }
}
