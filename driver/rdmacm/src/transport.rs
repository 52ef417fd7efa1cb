// SPDX-License-Identifier: MIT OR Apache-2.0
//! What rdma_cm needs of a connection manager below it. [`crate::IwTransport`] is the one for iWARP; a transport whose set-up takes three
//! messages (a request, a response, a ready-to-use) says so by [`TransportEvent::Response`] and implements [`TransportId::establish`].
//!
//! Rules:
//! - Calls return at once; what the network does comes by [`Upcall::event`], in order for each id, perhaps before the call has returned. Only
//!   `listen`, `disconnect` and `destroy` may wait: the first for the device, the others for a reply that is under way. All three
//!   waits end by a timer of the transport.
//! - A connect or accept that fails tells nothing more. One that does not tells exactly once how it ended. `Disconnected` comes once, after
//!   `Established`, and nothing but `TimewaitExit` after it.
//! - No lock that a call takes is held during an upcall, and no lock of rdma_cm is held during a call.
//! - After `destroy` has returned there is no upcall any more.
use crate::{Errno, Notify, Options, Prepared, PrivateData, Received, Upcalled};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// What a transport is and can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportAttr {
    /// Name of the device.
    pub name: String,
    /// EUI-64, unique among devices.
    pub node_guid: u64,
    /// Own addresses; empty = any that the host has.
    pub addresses: Vec<IpAddr>,
    /// Largest IRD.
    pub max_responder_resources: u16,
    /// Largest ORD.
    pub max_initiator_depth: u16,
    /// Octets of private data.
    pub max_private_data: usize,
    /// accept without parameters is EINVAL.
    pub accept_needs_param: bool,
}

/// The answer to a question that may take a while: given once. If it is dropped the answer is ETIMEDOUT.
#[must_use]
pub struct Resolver<T>(Option<Then<T>>);

type Then<T> = Box<dyn FnOnce(Result<T, Errno>) + Send>;

impl<T> Resolver<T> {
    pub(crate) fn new(then: impl FnOnce(Result<T, Errno>) + Send + 'static) -> Self {
        Resolver(Some(Box::new(then)))
    }
    /// Answers.
    pub fn answer(mut self, answer: Result<T, Errno>) {
        if let Some(then) = self.0.take() {
            then(answer);
        }
    }
}

impl<T> Drop for Resolver<T> {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(Errno::TimedOut));
        }
    }
}

impl<T> fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// A connection manager of one device.
pub trait Transport: Send + Sync {
    /// Names and limits.
    fn query(&self) -> TransportAttr;
    /// Asks for the way to `destination`, from `source` if that is settled, and for the own address on it. Answered within `timeout`; an
    /// unspecified own address stands for one that shows when the connection is there.
    fn resolve_addr(&self, source: Option<IpAddr>, destination: IpAddr, _timeout: Duration, answer: Resolver<IpAddr>) {
        answer.answer(Ok(source.unwrap_or(unspecified(destination))));
    }
    /// Asks for the route. Answered within `timeout`.
    fn resolve_route(&self, _source: SocketAddr, _destination: SocketAddr, _timeout: Duration, answer: Resolver<()>) {
        answer.answer(Ok(()));
    }
    /// An id that tells `upcall` what happens to it.
    fn create_id(&self, upcall: Arc<dyn Upcall>) -> Result<Arc<dyn TransportId>, Errno>;
    /// The device is going away: what its ids still have is ended. They have been told already.
    fn removed(&self) {}
}

/// An id of a transport: listens, or is one connection.
pub trait TransportId: Send + Sync {
    /// From now on `upcall` is told (for the new id of a [`TransportEvent::Request`], before its upcall returns).
    fn set_upcall(&self, upcall: Arc<dyn Upcall>);
    /// Listens at `local`; port 0 = the transport chooses. `backlog` peers may be half-way through their set-up at once; it is never 0.
    fn listen(&self, local: SocketAddr, backlog: u32, options: &Options) -> Result<(), Errno>;
    /// Connects.
    fn connect(&self, local: SocketAddr, remote: SocketAddr, param: &Prepared, options: &Options) -> Result<(), Errno>;
    /// Accepts. None only if the transport does without ([`TransportAttr::accept_needs_param`]).
    fn accept(&self, param: Option<&Prepared>, options: &Options) -> Result<(), Errno>;
    /// Refuses, in the name of the application.
    fn reject(&self, private_data: &PrivateData) -> Result<(), Errno>;
    /// Sends the third message.
    fn establish(&self) -> Result<(), Errno> {
        Err(Errno::Invalid)
    }
    /// Closes in order; waits for the reply of a connect or accept under way. Harmless if there is no connection.
    fn disconnect(&self) -> Result<(), Errno>;
    /// What [`crate::Id::notify`] was told.
    fn notify(&self, _what: Notify) -> Result<(), Errno> {
        Ok(())
    }
    /// Own end, with the port that was chosen.
    fn local_addr(&self) -> SocketAddr;
    /// Ends everything: a listener stops, a connection is reset, a request that was not answered is rejected, a reply under way is awaited.
    fn destroy(&self);
}

/// Who is told.
pub trait Upcall: Send + Sync {
    /// Takes the event and returns soon. An error is possible for [`TransportEvent::Request`] only: the transport then answers with a reject
    /// that says nothing of the application (on iWARP, one without private data), and destroys the new id itself.
    fn event(&self, event: TransportEvent) -> Result<(), Errno>;
}

/// A peer asks.
pub struct Request {
    /// Its new id.
    pub id: Arc<dyn TransportId>,
    /// Own end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// What it sent.
    pub received: Received,
}

/// What a transport tells.
pub enum TransportEvent {
    /// On a listener.
    Request(Request),
    /// The peer has accepted; it waits for [`TransportId::establish`].
    Response(Received),
    /// Connected.
    Established {
        /// Both ends as they are, own first; none = as asked for.
        ends: Option<(SocketAddr, SocketAddr)>,
        /// What came from the peer, and the depths that were negotiated.
        received: Received,
    },
    /// Refused.
    Rejected {
        /// Why.
        status: Errno,
        /// Of the peer.
        private_data: PrivateData,
        /// It is known that the peer's application did it.
        consumer: bool,
    },
    /// No answer in time.
    Unreachable(Errno),
    /// Another failure.
    ConnectError(Errno),
    /// The connection is gone.
    Disconnected(Result<(), Errno>),
    /// The addresses may be used again.
    TimewaitExit,
}

impl TransportEvent {
    /// Without its payload.
    pub const fn kind(&self) -> Upcalled {
        match self {
            TransportEvent::Request(_) => Upcalled::Request,
            TransportEvent::Response(_) => Upcalled::Response,
            TransportEvent::Established { .. } => Upcalled::Established,
            TransportEvent::Rejected { .. } => Upcalled::Rejected,
            TransportEvent::Unreachable(_) => Upcalled::Unreachable,
            TransportEvent::ConnectError(_) => Upcalled::ConnectError,
            TransportEvent::Disconnected(_) => Upcalled::Disconnected,
            TransportEvent::TimewaitExit => Upcalled::TimewaitExit,
        }
    }
}

/// The address that says nothing, in the family of `like`.
pub(crate) const fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
