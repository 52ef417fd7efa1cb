// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections between their handle's first event and FREED: which events each may still have, exactly once.
//!
//! | state | then | next |
//! |---|---|---|
//! | CONNECTING (CMD_REPLY to CONNECT) | CONNECT_REPLY | ESTABLISHED if its status is 0, else ENDING |
//! | REQUESTED (CONNECT_REQUEST) | ACCEPT, REJECT or ABORT posted | ACCEPTING, ENDING, ENDING |
//! | ACCEPTING | ESTABLISHED | ESTABLISHED |
//! | ESTABLISHED | DISCONNECT (once), or DISCONNECT or ABORT posted | CLOSING |
//! | ESTABLISHED, CLOSING | CLOSE | ENDING |
//! | any | FREED | gone, and its buffer back in the pool |
//!
//! An event that its state does not allow changes nothing. FREED is believed in every state; a final event that is still owed then is
//! told in the adapter's place, with -ECONNRESET, so that nobody waits for ever (CM-3, CM-12).
use crate::{
    connection::{Connection, ConnectionState, StartUp},
    error::Refusal,
    pending::{Event, Listener},
    private_data::{PrivateData, Slot},
};
use ironwarp_abi::{Command, Event as RawEvent, EventKind, Handle, HandleKind};
use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddrV4},
};

/// Why an event is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// No connection lives with this handle.
    UnknownHandle,
    /// Not in this state, not twice, or with fields that cannot be.
    Unexpected(&'static str),
}

struct Live {
    connection: Connection,
    listener: Option<Handle>,
    state: ConnectionState,
    /// ACCEPT was answered with status 0.
    accepted: bool,
    /// DISCONNECT came.
    disconnected: bool,
    /// The peer's Request was enhanced.
    enhanced: bool,
    qpn: u32,
    /// Outbound private data that the adapter may still read.
    slot: Option<Slot>,
    /// Nobody knows this connection any more: its events are not told.
    muted: bool,
}

impl Live {
    /// What the user is still owed if the connection ends now.
    fn final_events(&self) -> Vec<Event> {
        let connection = self.connection;
        let close = || Event::Close { connection, result: Err(Refusal::Reset) };
        match self.state {
            _ if self.muted => vec![],
            ConnectionState::Connecting => {
                vec![Event::ConnectReply { connection, result: Err(Refusal::Reset), start: StartUp::default() }]
            }
            ConnectionState::Accepting if self.accepted => vec![Event::Established { connection, start: StartUp::default() }, close()],
            ConnectionState::Established | ConnectionState::Closing => vec![close()],
            ConnectionState::Accepting | ConnectionState::Requested | ConnectionState::Leaving | ConnectionState::Ending => vec![],
        }
    }
}

/// A row of [`crate::Rnic::connections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRow {
    /// It.
    pub connection: Connection,
    /// How far it is.
    pub state: ConnectionState,
    /// Handle of the listener that announced it; none if it was opened by CONNECT.
    pub listener: Option<Handle>,
    /// Queue pair; 0 until there is one.
    pub qpn: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Connections {
    live: HashMap<Handle, Live>,
    /// None if the adapter makes no connections.
    pub(crate) memory: Option<PrivateData>,
    /// Most connections of the adapter.
    pub(crate) max: u16,
}

impl Connections {
    pub(crate) fn rows(&self) -> Vec<ConnectionRow> {
        let mut rows: Vec<_> = self
            .live
            .values()
            .map(|l| ConnectionRow { connection: l.connection, state: l.state, listener: l.listener, qpn: l.qpn })
            .collect();
        rows.sort_by_key(|row| row.connection.handle.index());
        rows
    }
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }
    /// State, and whether the peer's Request was enhanced.
    pub(crate) fn state(&self, handle: Handle) -> Option<(ConnectionState, bool)> {
        self.live.get(&handle).filter(|l| !l.muted).map(|l| (l.state, l.enhanced))
    }
    pub(crate) fn lives(&self, handle: Handle) -> bool {
        self.live.contains_key(&handle)
    }
    pub(crate) fn set_state(&mut self, handle: Handle, state: ConnectionState) {
        if let Some(live) = self.live.get_mut(&handle) {
            live.state = state;
        }
    }
    /// Nobody is told of it any more.
    pub(crate) fn mute(&mut self, handle: Handle) {
        if let Some(live) = self.live.get_mut(&handle) {
            live.muted = true;
        }
    }
    pub(crate) fn give_back(&mut self, slot: Option<Slot>) {
        if let (Some(slot), Some(memory)) = (slot, &mut self.memory) {
            memory.give_back(slot);
        }
    }
    /// ACCEPT or REJECT was answered with status 0: its buffer is the adapter's until FREED; false if that came first.
    pub(crate) fn answered(&mut self, command: &Command, slot: Option<Slot>) -> bool {
        let Some(live) = self.live.get_mut(&command.handle) else {
            self.give_back(slot);
            return false;
        };
        live.accepted = true;
        live.qpn = command.qpn;
        live.slot = slot;
        true
    }
    fn check(&self, handle: Handle) -> Result<(), &'static str> {
        if handle.kind() != Some(HandleKind::Connection) || handle.0 >> 24 & 0xff != 0 || handle.index() >= self.max {
            return Err("not the handle of a connection");
        }
        if self.live.contains_key(&handle) {
            return Err("the handle of a connection that lives");
        }
        Ok(())
    }
    /// CONNECT was answered with status 0. The buffer returns at once if that answer makes no sense.
    pub(crate) fn opened(
        &mut self,
        command: &Command,
        raw: &RawEvent,
        slot: Option<Slot>,
        muted: bool,
    ) -> Result<Connection, &'static str> {
        let port_right = raw.local_port != 0 && (command.local_port == 0 || raw.local_port == command.local_port);
        let checked = self.check(raw.handle).and(if port_right { Ok(()) } else { Err("another port than the one asked for") });
        if let Err(what) = checked {
            self.give_back(slot);
            return Err(what);
        }
        let connection = Connection {
            handle: raw.handle,
            // the addresses are those asked for: the adapter chooses only ports
            local: SocketAddrV4::new(Ipv4Addr::from(command.local_addr), raw.local_port),
            remote: SocketAddrV4::new(Ipv4Addr::from(command.remote_addr), command.remote_port),
        };
        let live = Live {
            connection,
            listener: None,
            state: ConnectionState::Connecting,
            accepted: false,
            disconnected: false,
            enhanced: false,
            qpn: command.qpn,
            slot,
            muted,
        };
        self.live.insert(raw.handle, live);
        Ok(connection)
    }
    fn start_up(&self, raw: &RawEvent) -> Result<StartUp, Odd> {
        let private_data = match (raw.data_len, &self.memory) {
            (0, _) | (_, None) => Some(Vec::new()),
            (len, Some(memory)) => memory.copy_out(raw.handle.index(), len),
        };
        Ok(StartUp {
            revision: raw.detail as u8,
            flags: raw.flags,
            own_ird: raw.own_ird,
            own_ord: raw.own_ord,
            peer_ird: raw.peer_ird,
            peer_ord: raw.peer_ord,
            private_data: private_data.ok_or(Odd::Unexpected("more private data than there can be"))?,
        })
    }
    /// CONNECT_REQUEST for `listener`, if that lives. `muted`: nobody is to hear of it.
    pub(crate) fn requested(&mut self, raw: &RawEvent, listener: Option<Listener>, muted: bool) -> Result<Event, Odd> {
        let listener = listener.ok_or(Odd::UnknownHandle)?;
        self.check(raw.handle).map_err(Odd::Unexpected)?;
        if raw.status != 0 {
            return Err(Odd::Unexpected("a CONNECT_REQUEST has status 0"));
        }
        let start = self.start_up(raw)?;
        let connection = Connection {
            handle: raw.handle,
            local: SocketAddrV4::new(Ipv4Addr::from(raw.local_addr), raw.local_port),
            remote: SocketAddrV4::new(Ipv4Addr::from(raw.remote_addr), raw.remote_port),
        };
        let live = Live {
            connection,
            listener: Some(listener.handle),
            state: ConnectionState::Requested,
            accepted: false,
            disconnected: false,
            enhanced: start.enhanced(),
            qpn: 0,
            slot: None,
            muted,
        };
        self.live.insert(raw.handle, live);
        Ok(Event::ConnectRequest { listener, connection, start })
    }
    /// CONNECT_REPLY, ESTABLISHED, DISCONNECT or CLOSE; none if nobody is to be told.
    pub(crate) fn happened(&mut self, kind: EventKind, raw: &RawEvent) -> Result<Option<Event>, Odd> {
        let live = self.live.get(&raw.handle).ok_or(Odd::UnknownHandle)?;
        let connection = live.connection;
        let result = Refusal::from_status(raw.status, connection.local.port()).map_or(Ok(()), Err);
        let established = matches!(live.state, ConnectionState::Established | ConnectionState::Closing);
        let (state, event) = match kind {
            EventKind::ConnectReply if live.state == ConnectionState::Connecting => {
                let state = match result {
                    Ok(()) => ConnectionState::Established,
                    // by an MPA Reply, or by an RST: then there is nothing to close any more
                    Err(Refusal::Refused) => ConnectionState::Leaving,
                    Err(_) => ConnectionState::Ending,
                };
                (state, Event::ConnectReply { connection, result, start: self.start_up(raw)? })
            }
            EventKind::Established if live.state == ConnectionState::Accepting => {
                (ConnectionState::Established, Event::Established { connection, start: self.start_up(raw)? })
            }
            EventKind::Disconnect if established && !live.disconnected => (ConnectionState::Closing, Event::Disconnect { connection }),
            EventKind::Close if established => (ConnectionState::Ending, Event::Close { connection, result }),
            _ => return Err(Odd::Unexpected("not in this state of the connection, or not twice")),
        };
        let muted = live.muted;
        if let Some(live) = self.live.get_mut(&raw.handle) {
            live.state = state;
            live.disconnected |= kind == EventKind::Disconnect;
        }
        Ok((!muted).then_some(event))
    }
    /// FREED: what is to be told, the last of it that the connection is gone; and whether a final event was missing.
    pub(crate) fn freed(&mut self, handle: Handle) -> Result<(Vec<Event>, bool), Odd> {
        let live = self.live.remove(&handle).ok_or(Odd::UnknownHandle)?;
        let mut events = live.final_events();
        let missing = !events.is_empty();
        if !live.muted {
            events.push(Event::ConnectionFreed { connection: live.connection });
        }
        self.give_back(live.slot);
        Ok((events, missing))
    }
    /// The adapter is gone: every connection ends now.
    pub(crate) fn end_all(&mut self) -> Vec<Event> {
        let mut handles: Vec<_> = self.live.keys().copied().collect();
        handles.sort_by_key(|h| h.index());
        handles.into_iter().filter_map(|h| self.freed(h).ok()).flat_map(|(events, _)| events).collect()
    }
}
