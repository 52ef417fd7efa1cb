// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listeners: one of the transport for each device, and the two counters of the backlog.
//!
//! Peers that are half-way through their set-up are counted by the device, which leaves further ones unanswered. Requests that were
//! announced and are neither accepted nor rejected yet are counted here ([`Backlog`]): the next one is refused by the transport in
//! its own name, at once, so that the peer knows and its slot is free again.
use crate::{
    cm::{Gauge, Gauges},
    core::{lock, Below, Core},
    device::{wildcard, Registered},
    Call, Errno, Stat, State,
};
use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicU32, Ordering::SeqCst},
        Arc,
    },
};

/// The backlog of a listener that asks for 0.
pub const DEFAULT_BACKLOG: u32 = 256;
/// How often a port that one device chose, and another has in use, is chosen anew.
const PORT_ATTEMPTS: u32 = 16;

/// Requests that wait for accept or reject.
#[derive(Default)]
pub(crate) struct Backlog {
    limit: u32,
    waiting: AtomicU32,
}

impl Backlog {
    /// None if it is full.
    pub(crate) fn enter(self: &Arc<Self>, core: &Core) -> Option<Place> {
        self.waiting.fetch_update(SeqCst, SeqCst, |n| (n < self.limit).then_some(n + 1)).ok()?;
        Some(Place(self.clone(), Gauge::new(&core.shared, Gauges::waiting)))
    }
}

/// A place in the backlog, free again when it is dropped.
pub(crate) struct Place(Arc<Backlog>, #[allow(dead_code)] Gauge);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// A listener's part on one device.
pub(crate) struct Listening {
    device: Arc<Registered>,
    below: Below,
    port: u16,
    core: std::sync::Weak<Core>,
}

impl Listening {
    pub(crate) fn destroy(self) {
        self.below.id.destroy();
        if let Some(core) = self.core.upgrade() {
            core.shared.count(Stat::ListenDestroyed);
        }
    }
}

impl Core {
    pub(crate) fn listen(&self, backlog: u32) -> Result<(), Errno> {
        let topology = lock(&self.shared.topology);
        let limit = if backlog == 0 { DEFAULT_BACKLOG } else { backlog };
        let ((before, local, device), _op) = self.begin(Call::Listen, |inner| {
            let local = inner.local.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
            self.shared.ports.bind(self.number, inner.bound_to(local, true))?;
            inner.backlog = Arc::new(Backlog { limit, waiting: AtomicU32::new(0) });
            Ok((inner.state, local, inner.device.clone()))
        })?;
        let listening = match device {
            Some(device) => self.listen_on(&device, local, limit).map(|l| vec![l]),
            None => self.listen_everywhere(local, limit),
        };
        let mut inner = self.lock();
        match listening {
            Ok(listening) => {
                let port = listening.first().map_or(local.port(), |l| l.port);
                let local = SocketAddr::new(local.ip(), port);
                inner.local = Some(local);
                inner.listening = listening;
                if inner.state == State::Listen {
                    self.shared.ports.chosen(self.number, inner.bound_to(local, true));
                }
                drop(inner);
                drop(topology);
                Ok(())
            }
            Err(errno) => {
                if inner.state == State::Listen {
                    inner.state = before;
                    self.shared.ports.listens_not(self.number);
                }
                let unread = inner.channel.take_of(self);
                drop(inner);
                drop(topology);
                // peers that came before a later device refused
                drop(unread);
                Err(errno)
            }
        }
    }

    fn listen_on(&self, device: &Arc<Registered>, address: SocketAddr, backlog: u32) -> Result<Listening, Errno> {
        let options = self.lock().options;
        let id = device.transport.create_id(self.sink(device))?;
        let below = Below::new(&self.shared, id);
        if let Err(errno) = below.id.listen(address, backlog, &options) {
            self.shared.count(Stat::ListenErrs);
            below.id.destroy();
            return Err(errno);
        }
        self.shared.count(Stat::ListenCreated);
        let port = below.id.local_addr().port();
        Ok(Listening { device: device.clone(), below, port, core: self.me() })
    }

    /// On every device, or on none.
    fn listen_everywhere(&self, local: SocketAddr, backlog: u32) -> Result<Vec<Listening>, Errno> {
        let af_only = self.lock().options.af_only;
        let mut places = Vec::new();
        for device in self.shared.devices() {
            if let Some(ip) = wildcard(&device.transport.query(), local.ip(), af_only) {
                places.push((device, ip));
            }
        }
        if places.is_empty() && local.port() == 0 {
            // nobody is there to choose a port
            return Err(Errno::NoDevice);
        }
        'choose: for _ in 0..PORT_ATTEMPTS {
            let mut port = local.port();
            let mut listening: Vec<Listening> = Vec::new();
            for (device, ip) in &places {
                match self.listen_on(device, SocketAddr::new(*ip, port), backlog) {
                    Ok(part) => {
                        port = part.port;
                        listening.push(part);
                    }
                    Err(errno) => {
                        let chosen = local.port() == 0 && !listening.is_empty();
                        listening.into_iter().rev().for_each(Listening::destroy);
                        if chosen && errno == Errno::AddressInUse {
                            continue 'choose;
                        }
                        return Err(errno);
                    }
                }
            }
            return Ok(listening);
        }
        Err(Errno::AddressInUse)
    }

    /// A device came: a wildcard listener listens there too. If the device refuses, that is counted and logged. `topology` is held.
    pub(crate) fn join(&self, device: &Arc<Registered>) {
        let attr = device.transport.query();
        let Ok(((local, backlog), _op)) = self.begin_join() else { return };
        let Some(ip) = wildcard(&attr, local.ip(), self.lock().options.af_only) else { return };
        match self.listen_on(device, SocketAddr::new(ip, local.port()), backlog) {
            Ok(part) => self.lock().listening.push(part),
            Err(errno) => tracing::warn!(id = self.number, device = attr.name, %errno, "a device that came does not listen"),
        }
    }

    fn begin_join(&self) -> Result<((SocketAddr, u32), crate::core::Op<'_>), Errno> {
        self.begin(Call::MigrateId, |inner| match (inner.state, &inner.device, inner.local) {
            (State::Listen, None, Some(local)) => Ok((local, inner.backlog.limit)),
            _ => Err(Errno::Invalid),
        })
    }

    /// A device went. True if the id is bound to it. `topology` is held.
    pub(crate) fn device_removed(&self, device: &Arc<Registered>) -> bool {
        let mut inner = self.lock();
        if inner.state == State::Destroying {
            return false;
        }
        let (gone, kept) = std::mem::take(&mut inner.listening).into_iter().partition(|part| Arc::ptr_eq(&part.device, device));
        inner.listening = kept;
        let bound = inner.device.as_ref().is_some_and(|d| Arc::ptr_eq(d, device));
        let place = if bound { self.lose_device(&mut inner) } else { None };
        drop(inner);
        drop(place);
        let gone: Vec<Listening> = gone;
        gone.into_iter().for_each(Listening::destroy);
        bound
    }

    /// Tells that its device is gone, once.
    pub(crate) fn lose_device(&self, inner: &mut crate::core::Inner) -> Option<Place> {
        if matches!(inner.state, State::DeviceRemoval | State::Destroying) {
            return None;
        }
        inner.state = State::DeviceRemoval;
        self.shared.count(Stat::DeviceRemovals);
        self.push(inner, crate::Payload::DeviceRemoval);
        inner.place.take()
    }
}
