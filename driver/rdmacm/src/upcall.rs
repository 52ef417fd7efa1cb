// SPDX-License-Identifier: MIT OR Apache-2.0
//! What transports tell: state changes and the events that follow from them. Runs on a thread of the transport, so it waits for nobody and
//! never holds a client's handle of an id: the last handle destroys, and a transport must not destroy from its own upcall.
use crate::{
    channel::{Entry, What},
    core::{Below, Core},
    device::Registered,
    transport::{Request, TransportEvent, Upcall},
    Errno, Payload, Stat, State,
};
use std::sync::{Arc, Weak};

/// Leads from an id of a transport to the id of the client.
pub(crate) struct Sink {
    core: Weak<Core>,
    device: Arc<Registered>,
}

impl Sink {
    pub(crate) const fn new(core: Weak<Core>, device: Arc<Registered>) -> Self {
        Sink { core, device }
    }
}

impl Upcall for Sink {
    fn event(&self, event: TransportEvent) -> Result<(), Errno> {
        let core = self.core.upgrade().ok_or(Errno::Invalid)?;
        match event {
            TransportEvent::Request(request) => core.request(&self.device, request),
            event => {
                core.happened(event);
                Ok(())
            }
        }
    }
}

impl Core {
    fn happened(&self, event: TransportEvent) {
        let mut inner = self.lock();
        let Some(next) = inner.state.event(event.kind()) else {
            // what is still said to an id that is being destroyed, or whose device is gone, is as it should be
            if !matches!(inner.state, State::Destroying | State::DeviceRemoval) {
                tracing::warn!(id = self.number, state = inner.state.name(), event = ?event.kind(), "event does not fit");
                self.shared.count(Stat::EventsUnexpected);
            }
            return;
        };
        inner.state = next;
        let payload = match event {
            TransportEvent::Request(_) => return,
            TransportEvent::Response(received) => Payload::ConnectResponse(received),
            TransportEvent::Established { ends, received } => {
                if let Some((local, peer)) = ends {
                    inner.local = Some(local);
                    inner.peer = Some(peer);
                }
                self.shared.count(Stat::Established);
                Payload::Established(received)
            }
            TransportEvent::Rejected { status, private_data, consumer } => Payload::Rejected { status, private_data, consumer },
            TransportEvent::Unreachable(errno) => Payload::Unreachable(errno),
            TransportEvent::ConnectError(errno) => Payload::ConnectError(errno),
            TransportEvent::Disconnected(status) => {
                self.shared.count(Stat::Disconnected);
                Payload::Disconnected(status)
            }
            TransportEvent::TimewaitExit => Payload::TimewaitExit,
        };
        if next == State::Failed {
            self.shared.count(Stat::ConnectErrs);
        }
        self.push(&inner, payload);
    }

    /// An error: the transport refuses, and destroys the request's id.
    fn request(&self, device: &Arc<Registered>, request: Request) -> Result<(), Errno> {
        self.shared.count(Stat::Requests);
        let (place, channel, options) = {
            let inner = self.lock();
            if inner.state != State::Listen {
                self.shared.count(Stat::RequestsRefused);
                return Err(Errno::Invalid);
            }
            let Some(place) = inner.backlog.enter(self) else {
                self.shared.count(Stat::BacklogDrops);
                return Err(Errno::NoMemory);
            };
            (place, inner.channel.clone(), inner.options)
        };
        let transport_id = request.id.clone();
        let below = Below::new(&self.shared, request.id);
        let child = Core::create(&self.shared, &channel, |inner| {
            inner.state = State::Request;
            inner.local = Some(request.local);
            inner.peer = Some(request.remote);
            inner.options = options;
            inner.device = Some(device.clone());
            inner.transport = Some(below);
            inner.place = Some(place);
        });
        let core = child.core().clone();
        transport_id.set_upcall(core.sink(device));
        let Some(me) = self.me().upgrade() else {
            core.disown();
            return Err(Errno::Invalid);
        };
        let refused = {
            let inner = self.lock();
            let entry = Entry::new(me, What::Request { child, received: request.received });
            if inner.state == State::Listen {
                core.lock().channel = inner.channel.clone();
                inner.channel.push(entry).err()
            } else {
                Some(entry)
            }
        };
        if let Some(entry) = refused {
            self.shared.count(Stat::RequestsRefused);
            // the transport ends the request's id itself; dropping the entry must not
            core.disown();
            drop(entry);
            return Err(Errno::Invalid);
        }
        // the device may have gone before the new id was seen
        if device.is_removed() {
            let mut inner = core.lock();
            let place = core.lose_device(&mut inner);
            drop(inner);
            drop(place);
        }
        Ok(())
    }
}
