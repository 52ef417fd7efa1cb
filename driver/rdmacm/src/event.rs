// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events as a client gets them.
use crate::{core::Token, Errno, Id, PrivateData, Received};
use std::fmt;

macro_rules! kinds {
    ($($kind:ident = $name:literal, $text:literal;)*) => {
        /// Kind of an event, in the names of librdmacm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $(#[doc = concat!("`RDMA_CM_EVENT_", $name, "`: ", $text, ".")] $kind,)*
        }
        impl EventKind {
            /// All.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind),*];
            /// As `rdma_event_str` has it, without its prefix.
            pub const fn name(self) -> &'static str {
                match self { $(EventKind::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    AddrResolved = "ADDR_RESOLVED", "resolve_addr found a device and an own address";
    AddrError = "ADDR_ERROR", "resolve_addr found none";
    RouteResolved = "ROUTE_RESOLVED", "resolve_route is done; connect may be called";
    RouteError = "ROUTE_ERROR", "resolve_route found no route";
    ConnectRequest = "CONNECT_REQUEST", "a peer asks for a connection; the event's id is new";
    ConnectResponse = "CONNECT_RESPONSE", "the peer has accepted and waits for establish; never on iWARP";
    ConnectError = "CONNECT_ERROR", "no connection, for any other reason";
    Unreachable = "UNREACHABLE", "the peer does not answer";
    Rejected = "REJECTED", "the peer, or its host, refused";
    Established = "ESTABLISHED", "connected";
    Disconnected = "DISCONNECTED", "the connection is gone";
    DeviceRemoval = "DEVICE_REMOVAL", "the device went away; destroy the id";
    AddrChange = "ADDR_CHANGE", "the id's address is no longer one of its device";
    TimewaitExit = "TIMEWAIT_EXIT", "the queue pair may be used again; never on iWARP";
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happened, with all that belongs to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Payload {
    /// See [`EventKind::AddrResolved`].
    AddrResolved,
    /// See [`EventKind::AddrError`].
    AddrError(Errno),
    /// See [`EventKind::RouteResolved`].
    RouteResolved,
    /// See [`EventKind::RouteError`].
    RouteError(Errno),
    /// See [`EventKind::ConnectRequest`].
    ConnectRequest {
        /// The listener. The event's own id is the new one.
        listen_id: Id,
        /// What the peer sent.
        param: Received,
    },
    /// See [`EventKind::ConnectResponse`].
    ConnectResponse(Received),
    /// See [`EventKind::ConnectError`].
    ConnectError(Errno),
    /// See [`EventKind::Unreachable`].
    Unreachable(Errno),
    /// See [`EventKind::Rejected`].
    Rejected {
        /// ECONNREFUSED or ECONNRESET.
        status: Errno,
        /// What the peer's application gave to reject.
        private_data: PrivateData,
        /// The peer's application itself is known to have rejected (`rdma_is_consumer_reject`). On iWARP that shows in its private data only: a
        /// reject without any may also be the answer of a peer that has no room in its backlog.
        consumer: bool,
    },
    /// See [`EventKind::Established`].
    Established(Received),
    /// See [`EventKind::Disconnected`]; with the reason if it was not closed in order.
    Disconnected(Result<(), Errno>),
    /// See [`EventKind::DeviceRemoval`].
    DeviceRemoval,
    /// See [`EventKind::AddrChange`].
    AddrChange,
    /// See [`EventKind::TimewaitExit`].
    TimewaitExit,
}

impl Payload {
    /// Which event it is.
    pub const fn kind(&self) -> EventKind {
        match self {
            Payload::AddrResolved => EventKind::AddrResolved,
            Payload::AddrError(_) => EventKind::AddrError,
            Payload::RouteResolved => EventKind::RouteResolved,
            Payload::RouteError(_) => EventKind::RouteError,
            Payload::ConnectRequest { .. } => EventKind::ConnectRequest,
            Payload::ConnectResponse(_) => EventKind::ConnectResponse,
            Payload::ConnectError(_) => EventKind::ConnectError,
            Payload::Unreachable(_) => EventKind::Unreachable,
            Payload::Rejected { .. } => EventKind::Rejected,
            Payload::Established(_) => EventKind::Established,
            Payload::Disconnected(_) => EventKind::Disconnected,
            Payload::DeviceRemoval => EventKind::DeviceRemoval,
            Payload::AddrChange => EventKind::AddrChange,
            Payload::TimewaitExit => EventKind::TimewaitExit,
        }
    }
    /// The event's status, as in C.
    pub const fn status(&self) -> Result<(), Errno> {
        match self {
            Payload::AddrError(errno)
            | Payload::RouteError(errno)
            | Payload::ConnectError(errno)
            | Payload::Unreachable(errno)
            | Payload::Rejected { status: errno, .. }
            | Payload::Disconnected(Err(errno)) => Err(*errno),
            _ => Ok(()),
        }
    }
    /// The peer's private data, if the event can bring any.
    pub fn private_data(&self) -> Option<&PrivateData> {
        match self {
            Payload::ConnectRequest { param, .. } | Payload::ConnectResponse(param) | Payload::Established(param) => {
                Some(&param.private_data)
            }
            Payload::Rejected { private_data, .. } => Some(private_data),
            _ => None,
        }
    }
}

/// An event. It is acknowledged when it is dropped, or by [`Event::ack`]: until then destroying its id waits.
#[derive(Debug)]
#[must_use = "an event is acknowledged by dropping it; a CONNECT_REQUEST that is dropped unread rejects its peer"]
pub struct Event {
    // dropped first: whoever destroys the id below must not find its own event unacknowledged
    _tokens: Vec<Token>,
    id: Id,
    payload: Payload,
}

impl Event {
    pub(crate) fn new(tokens: Vec<Token>, id: Id, payload: Payload) -> Self {
        Event { _tokens: tokens, id, payload }
    }
    /// Whose event. For CONNECT_REQUEST the new id, whose context and listener are in the payload.
    pub const fn id(&self) -> &Id {
        &self.id
    }
    /// What happened.
    pub const fn payload(&self) -> &Payload {
        &self.payload
    }
    /// Which event it is.
    pub const fn kind(&self) -> EventKind {
        self.payload.kind()
    }
    /// The event's status.
    pub const fn status(&self) -> Result<(), Errno> {
        self.payload.status()
    }
    /// Acknowledges; what it held remains. Do this before destroying the id of the event.
    pub fn ack(self) -> (Id, Payload) {
        (self.id, self.payload)
    }
}
