// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of an id, and the two tables that say what each call and each event of the transport does in each of them.
//!
//! The states are those of the Linux connection manager, but its one state for "a connection is being made, there, or over" is told
//! apart here, so that a call at the wrong moment is refused by the table and not by luck.
//!
//! ```text
//!  active:  IDLE [-> ADDR_BOUND] -> ADDR_QUERY -> ADDR_RESOLVED -> ROUTE_QUERY -> ROUTE_RESOLVED -> CONNECTING [-> RESPONDED] -> CONNECTED
//!  passive: IDLE [-> ADDR_BOUND] -> LISTEN;  each peer: REQUEST -> ACCEPTING -> CONNECTED
//!  end:     CONNECTED [-> DISCONNECTING] -> DISCONNECTED;  refused, failed or rejected: FAILED;  any -> DEVICE_REMOVAL;  any -> DESTROYING
//! ```
use crate::Errno;

/// What an id is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// New.
    Idle,
    /// Has an own address.
    AddrBound,
    /// The way to the peer's address is asked for.
    AddrQuery,
    /// Has a device and both addresses.
    AddrResolved,
    /// The route is asked for.
    RouteQuery,
    /// May connect.
    RouteResolved,
    /// Listens.
    Listen,
    /// connect was called, nothing came yet.
    Connecting,
    /// The peer has accepted and waits to be told that this was seen (three-way transports).
    Responded,
    /// A peer asks; neither accepted nor rejected yet.
    Request,
    /// accept was called, not connected yet.
    Accepting,
    /// Connected.
    Connected,
    /// disconnect was called.
    Disconnecting,
    /// Was connected.
    Disconnected,
    /// Refused, rejected, unreachable or broken before it was connected.
    Failed,
    /// The device went away.
    DeviceRemoval,
    /// Destroyed, or about to be.
    Destroying,
}

impl State {
    /// All.
    pub const ALL: [State; 17] = [
        State::Idle,
        State::AddrBound,
        State::AddrQuery,
        State::AddrResolved,
        State::RouteQuery,
        State::RouteResolved,
        State::Listen,
        State::Connecting,
        State::Responded,
        State::Request,
        State::Accepting,
        State::Connected,
        State::Disconnecting,
        State::Disconnected,
        State::Failed,
        State::DeviceRemoval,
        State::Destroying,
    ];

    /// As tools show it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "IDLE",
            State::AddrBound => "ADDR_BOUND",
            State::AddrQuery => "ADDR_QUERY",
            State::AddrResolved => "ADDR_RESOLVED",
            State::RouteQuery => "ROUTE_QUERY",
            State::RouteResolved => "ROUTE_RESOLVED",
            State::Listen => "LISTEN",
            State::Connecting => "CONNECTING",
            State::Responded => "RESPONDED",
            State::Request => "REQUEST",
            State::Accepting => "ACCEPTING",
            State::Connected => "CONNECTED",
            State::Disconnecting => "DISCONNECTING",
            State::Disconnected => "DISCONNECTED",
            State::Failed => "FAILED",
            State::DeviceRemoval => "DEVICE_REMOVAL",
            State::Destroying => "DESTROYING",
        }
    }

    /// The state that a call leads to, or EINVAL.
    pub fn call(self, call: Call) -> Result<State, Errno> {
        use State::*;
        Ok(match (call, self) {
            (Call::BindAddr, Idle) => AddrBound,
            (Call::ResolveAddr, Idle | AddrBound) => AddrQuery,
            (Call::ResolveRoute, AddrResolved) => RouteQuery,
            (Call::Listen, Idle | AddrBound) => Listen,
            (Call::CreateQp, AddrBound | AddrResolved | RouteQuery | RouteResolved | Request) => self,
            (Call::InitQpAttr, AddrBound | AddrResolved | RouteQuery | RouteResolved) => self,
            (Call::InitQpAttr, Connecting | Responded | Request | Accepting | Connected | Disconnecting | Disconnected) => self,
            (Call::Connect, RouteResolved) => Connecting,
            (Call::Establish, Responded) => Connected,
            (Call::Accept, Request) => Accepting,
            // of an active side only a response can be rejected: none comes on iWARP
            (Call::Reject, Request | Responded) => Failed,
            (Call::Disconnect, Connected | Responded) => Disconnecting,
            // it waits for the reply that is under way; what it then finds, it closes
            (Call::Disconnect, Connecting | Accepting) => self,
            (Call::Disconnect, Request | Disconnecting | Disconnected | Failed | DeviceRemoval) => self,
            (Call::Notify, Accepting | Connected | Responded) => self,
            (Call::SetOption, Idle | AddrBound | AddrQuery | AddrResolved | RouteQuery | RouteResolved | Request) => self,
            (Call::SetBindOption, Idle | AddrBound) => self,
            (Call::DestroyQp | Call::MigrateId, state) if state != Destroying => self,
            (Call::DestroyId, _) => Destroying,
            _ => return Err(Errno::Invalid),
        })
    }

    /// The state that an event of the transport leads to; none = the event is not for this state, and nobody is told.
    pub fn event(self, kind: Upcalled) -> Option<State> {
        use State::*;
        Some(match (kind, self) {
            (Upcalled::Request, Listen) => Listen,
            (Upcalled::Response, Connecting) => Responded,
            (Upcalled::Established, Connecting | Accepting) => Connected,
            // an accepted connection can still fail where a third message is awaited
            (Upcalled::Rejected | Upcalled::Unreachable | Upcalled::ConnectError, Connecting | Responded | Accepting) => Failed,
            (Upcalled::Disconnected, Connected | Disconnecting | Responded) => Disconnected,
            (Upcalled::TimewaitExit, Disconnected) => Disconnected,
            _ => return None,
        })
    }
}

/// What a client may ask of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `bind_addr`.
    BindAddr,
    /// `resolve_addr`.
    ResolveAddr,
    /// `resolve_route`.
    ResolveRoute,
    /// `create_qp`.
    CreateQp,
    /// `destroy_qp`.
    DestroyQp,
    /// `init_qp_attr`.
    InitQpAttr,
    /// `listen`.
    Listen,
    /// `connect`.
    Connect,
    /// `accept`.
    Accept,
    /// `reject`.
    Reject,
    /// `establish`.
    Establish,
    /// `disconnect`.
    Disconnect,
    /// `notify`.
    Notify,
    /// `migrate_id`.
    MigrateId,
    /// `set_option` with what matters for the connection.
    SetOption,
    /// `set_option` with what matters for the address.
    SetBindOption,
    /// `destroy_id`.
    DestroyId,
}

impl Call {
    /// All.
    pub const ALL: [Call; 17] = [
        Call::BindAddr,
        Call::ResolveAddr,
        Call::ResolveRoute,
        Call::CreateQp,
        Call::DestroyQp,
        Call::InitQpAttr,
        Call::Listen,
        Call::Connect,
        Call::Accept,
        Call::Reject,
        Call::Establish,
        Call::Disconnect,
        Call::Notify,
        Call::MigrateId,
        Call::SetOption,
        Call::SetBindOption,
        Call::DestroyId,
    ];
}

/// What a transport may tell ([`crate::TransportEvent`] without its payload).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upcalled {
    /// A peer asks.
    Request,
    /// The peer has accepted and waits for `establish`.
    Response,
    /// Connected.
    Established,
    /// The peer refused.
    Rejected,
    /// The peer does not answer.
    Unreachable,
    /// Anything else went wrong.
    ConnectError,
    /// The connection is gone.
    Disconnected,
    /// The addresses may be used again.
    TimewaitExit,
}

impl Upcalled {
    /// All.
    pub const ALL: [Upcalled; 8] = [
        Upcalled::Request,
        Upcalled::Response,
        Upcalled::Established,
        Upcalled::Rejected,
        Upcalled::Unreachable,
        Upcalled::ConnectError,
        Upcalled::Disconnected,
        Upcalled::TimewaitExit,
    ];
}
