// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exactly one reply for each command: which contexts are out, what their reply may be, and what to make of anything else.
//!
//! Nothing that the adapter writes is believed: an unknown kind, a context that is not out, a second reply, a handle that cannot be
//! right are counted and logged, and change nothing.
use crate::error::Refusal;
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
        match Opcode::ALL.iter().find(|o| *self == **o) {
            Some(Opcode::AddressAdd) => f.write_str("ADDRESS_ADD"),
            Some(Opcode::AddressDelete) => f.write_str("ADDRESS_DELETE"),
            Some(opcode) => f.write_str(&format!("{opcode:?}").to_uppercase()),
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
    /// Last event of a handle.
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
        /// What happened.
        code: u32,
        /// To whom.
        handle: Handle,
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
            | Event::BadReply { context, .. } => Some(*context),
            Event::Async { .. } => None,
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
}

impl Oddities {
    /// Names and values, for `stats`.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        [
            ("drvUnknownKind", self.unknown_kind),
            ("drvUnknownStatus", self.unknown_status),
            ("drvUnknownContext", self.unknown_context),
            ("drvDuplicateReply", self.duplicate_reply),
            ("drvBadReply", self.bad_reply),
            ("drvLateReply", self.late_reply),
            ("drvAsyncDropped", self.async_dropped),
        ]
    }
}

struct Pending {
    command: Command,
    /// Nobody waits for the reply any more.
    abandoned: bool,
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
    /// Live listeners; the value is true once UNLISTEN is under way.
    listeners: HashMap<Handle, bool>,
    ready: VecDeque<Event>,
    asyncs: usize,
    /// Listeners that came after their bound, to be destroyed.
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
    pub(crate) fn posted(&mut self, command: Command) {
        self.out.insert(command.context, Pending { command, abandoned: false });
    }
    /// The doorbell failed: the command never was.
    pub(crate) fn withdraw(&mut self, context: Context) {
        self.out.remove(&context.0);
    }
    /// The reply will be thrown away.
    pub(crate) fn abandon(&mut self, context: Context) {
        if let Some(pending) = self.out.get_mut(&context.0) {
            pending.abandoned = true;
        }
    }
    pub(crate) fn outstanding(&self) -> usize {
        self.out.len()
    }
    /// Marks a live listener as being destroyed; false if it is not alive or UNLISTEN is under way.
    pub(crate) fn close(&mut self, handle: Handle) -> bool {
        matches!(self.listeners.get_mut(&handle).map(|closing| std::mem::replace(closing, true)), Some(false))
    }
    /// UNLISTEN could not be posted.
    pub(crate) fn reopen(&mut self, handle: Handle) {
        if let Some(closing) = self.listeners.get_mut(&handle) {
            *closing = false;
        }
    }
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.len()
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
                self.ready.push_back(Event::Async { code: raw.detail, handle: raw.handle });
                self.asyncs += 1;
            }
            Some(kind @ (EventKind::CmdReply | EventKind::ListenReply | EventKind::Freed)) => self.reply(kind, raw, max_listeners),
            _ => {
                self.oddities.unknown_kind += 1;
                self.odd("unknown kind", raw);
            }
        }
    }

    fn reply(&mut self, kind: EventKind, raw: &RawEvent, max_listeners: u16) {
        let Some(pending) = self.out.remove(&raw.context) else {
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
        let event = self.judge(kind, raw, &pending, max_listeners);
        if let Event::BadReply { what, .. } = event {
            self.oddities.bad_reply += 1;
            self.odd(what, raw);
        }
        if pending.abandoned {
            self.oddities.late_reply += 1;
            if let Event::Listening { listener, .. } = event {
                self.orphans.push(listener.handle);
            }
        } else {
            self.ready.push_back(event);
        }
    }

    fn judge(&mut self, kind: EventKind, raw: &RawEvent, pending: &Pending, max_listeners: u16) -> Event {
        let context = Context(raw.context);
        let command = &pending.command;
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
                    self.listeners.remove(&command.handle);
                } else {
                    self.reopen(command.handle);
                }
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
                self.listeners.insert(handle, false);
                // the address is the one asked for: the adapter chooses only ports
                let listener = Listener { handle, address: Ipv4Addr::from(command.local_addr), port: raw.local_port };
                Event::Listening { context, listener }
            }
            EventKind::Freed if opcode == Opcode::Unlisten => {
                if raw.handle != command.handle {
                    return bad("FREED for another handle");
                }
                self.listeners.remove(&raw.handle);
                Event::Freed { context, handle: raw.handle }
            }
            EventKind::CmdReply if opcode != Opcode::Listen && opcode != Opcode::Unlisten => Event::Done { context, opcode },
            _ => bad("another kind of event than the command has"),
        }
    }
}
