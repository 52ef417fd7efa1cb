// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ids without a channel: each call waits for its event (`rdma_create_ep`, `rdma_get_request`). For programs with one connection at a time, and tests.
use crate::{Cm, ConnParam, Errno, Event, EventChannel, Id, Payload, PrivateData, Received};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// An id with a channel of its own.
#[derive(Debug)]
pub struct Endpoint {
    // before the channel: the id is destroyed while its events can still be discarded in one place
    id: Id,
    channel: EventChannel,
    timeout: Duration,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{errno}")]
pub struct ConnectFailure {
    /// Status of the event, or what the call answered.
    pub errno: Errno,
    /// What the peer's application gave to reject.
    pub private_data: PrivateData,
}

impl From<Errno> for ConnectFailure {
    fn from(errno: Errno) -> Self {
        ConnectFailure { errno, private_data: PrivateData::default() }
    }
}

impl Endpoint {
    fn new(cm: &Cm, timeout: Duration) -> Result<Self, Errno> {
        let channel = EventChannel::new()?;
        Ok(Endpoint { id: cm.create_id(&channel), channel, timeout })
    }

    /// With the way to `destination`, ready for `create_qp` and connect. No call waits longer than `timeout`.
    pub fn resolve(cm: &Cm, source: Option<SocketAddr>, destination: SocketAddr, timeout: Duration) -> Result<Self, Errno> {
        let this = Self::new(cm, timeout)?;
        this.id.resolve_addr(source, destination, timeout)?;
        this.next()?.status()?;
        this.id.resolve_route(timeout)?;
        this.next()?.status()?;
        Ok(this)
    }

    /// Listening.
    pub fn listen(cm: &Cm, address: SocketAddr, backlog: u32, timeout: Duration) -> Result<Self, Errno> {
        let this = Self::new(cm, timeout)?;
        this.id.bind_addr(address)?;
        this.id.listen(backlog)?;
        Ok(this)
    }

    /// The id, for all calls that do not wait for an event.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    fn next(&self) -> Result<Event, Errno> {
        self.channel.get_event(self.timeout)
    }

    /// The next request of a peer, as an endpoint of its own.
    pub fn get_request(&self) -> Result<(Endpoint, Received), Errno> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let (id, payload) = self.channel.get_event(deadline.saturating_duration_since(Instant::now()))?.ack();
            match payload {
                Payload::ConnectRequest { param, .. } => {
                    let channel = EventChannel::new()?;
                    id.migrate_id(&channel)?;
                    return Ok((Endpoint { id, channel, timeout: self.timeout }, param));
                }
                Payload::DeviceRemoval => return Err(Errno::NoDevice),
                _ => {}
            }
        }
    }

    /// Connects.
    pub fn connect(&self, param: &ConnParam) -> Result<Received, ConnectFailure> {
        self.id.connect(param)?;
        self.settled()
    }

    /// Accepts.
    pub fn accept(&self, param: &ConnParam) -> Result<Received, ConnectFailure> {
        self.id.accept(Some(param))?;
        self.settled()
    }

    fn settled(&self) -> Result<Received, ConnectFailure> {
        let (_, payload) = self.next()?.ack();
        match payload {
            Payload::Established(received) => Ok(received),
            Payload::ConnectResponse(received) => {
                self.id.establish()?;
                Ok(received)
            }
            Payload::Rejected { status, private_data, .. } => Err(ConnectFailure { errno: status, private_data }),
            other => Err(other.status().err().unwrap_or(Errno::ConnectionAborted).into()),
        }
    }

    /// Rejects.
    pub fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        self.id.reject(private_data)
    }

    /// Closes in order and waits for the end.
    pub fn disconnect(&self) -> Result<(), Errno> {
        self.id.disconnect()?;
        self.wait_disconnected()
    }

    /// Waits until the peer has closed.
    pub fn wait_disconnected(&self) -> Result<(), Errno> {
        let (_, payload) = self.next()?.ack();
        match payload {
            Payload::Disconnected(status) => status,
            Payload::DeviceRemoval => Err(Errno::NoDevice),
            other => Err(other.status().err().unwrap_or(Errno::Protocol)),
        }
    }
}
