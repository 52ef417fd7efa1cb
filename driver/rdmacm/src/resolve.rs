// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses and routes: bind_addr, resolve_addr, resolve_route, and what happens to ids when a device's addresses change.
use crate::{
    core::Core,
    device::{owner, way, Registered},
    transport::Resolver,
    Call, Errno, Payload, State,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

impl Core {
    pub(crate) fn bind_addr(&self, address: SocketAddr) -> Result<(), Errno> {
        let device = if address.ip().is_unspecified() { None } else { Some(owner(&self.shared.devices(), address.ip())) };
        self.begin(Call::BindAddr, |inner| {
            let device = device.transpose()?;
            if device.as_ref().is_some_and(|d| d.is_removed()) {
                return Err(Errno::AddressNotAvailable);
            }
            self.shared.ports.bind(self.number, inner.bound_to(address, false))?;
            inner.device = device;
            inner.local = Some(address);
            inner.bound = true;
            Ok(())
        })?;
        Ok(())
    }

    pub(crate) fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr, timeout: Duration) -> Result<(), Errno> {
        let (source, _op) = self.begin(Call::ResolveAddr, |inner| {
            let own = match (inner.local, source) {
                (Some(bound), Some(source)) if bound != source => return Err(Errno::Invalid),
                (bound, source) => bound.or(source),
            };
            if own.is_some_and(|own| own.is_ipv4() != destination.is_ipv4()) || destination.ip().is_unspecified() {
                return Err(Errno::Invalid);
            }
            if let (None, Some(source)) = (inner.local, source) {
                self.shared.ports.bind(self.number, inner.bound_to(source, false))?;
                inner.local = Some(source);
            }
            inner.peer = Some(destination);
            Ok(own.map(|own| own.ip()).filter(|ip| !ip.is_unspecified()))
        })?;
        match way(&self.shared.devices(), source, destination.ip()) {
            Err(errno) => self.addr_answer(None, Err(errno)),
            Ok((device, source)) => {
                let (me, transport) = (self.me(), device.transport.clone());
                let answer = Resolver::new(move |answer| {
                    if let Some(core) = me.upgrade() {
                        core.addr_answer(Some(device), answer);
                    }
                });
                transport.resolve_addr(source, destination.ip(), timeout, answer);
            }
        }
        Ok(())
    }

    fn addr_answer(&self, device: Option<Arc<Registered>>, answer: Result<IpAddr, Errno>) {
        let mut inner = self.lock();
        if inner.state != State::AddrQuery {
            return;
        }
        let answer = match device {
            Some(device) if !device.is_removed() => answer.map(|ip| (device, ip)),
            _ => Err(answer.err().unwrap_or(Errno::NoDevice)),
        };
        match answer {
            Ok((device, ip)) => {
                inner.local = Some(SocketAddr::new(ip, inner.local.map_or(0, |a| a.port())));
                inner.device = Some(device);
                inner.state = State::AddrResolved;
                self.push(&inner, Payload::AddrResolved);
            }
            Err(errno) => {
                inner.peer = None;
                if inner.bound {
                    inner.state = State::AddrBound;
                } else {
                    self.shared.ports.release(self.number);
                    inner.local = None;
                    inner.state = State::Idle;
                }
                self.push(&inner, Payload::AddrError(errno));
            }
        }
    }

    pub(crate) fn resolve_route(&self, timeout: Duration) -> Result<(), Errno> {
        let ((device, local, peer), _op) = self.begin(Call::ResolveRoute, |inner| {
            Ok((inner.device()?, inner.local.ok_or(Errno::Invalid)?, inner.peer.ok_or(Errno::Invalid)?))
        })?;
        let me = self.me();
        let answer = Resolver::new(move |answer| {
            if let Some(core) = me.upgrade() {
                core.route_answer(answer);
            }
        });
        device.transport.resolve_route(local, peer, timeout, answer);
        Ok(())
    }

    fn route_answer(&self, answer: Result<(), Errno>) {
        let mut inner = self.lock();
        if inner.state != State::RouteQuery {
            return;
        }
        match answer {
            Ok(()) => {
                inner.state = State::RouteResolved;
                self.push(&inner, Payload::RouteResolved);
            }
            Err(errno) => {
                inner.state = State::AddrResolved;
                self.push(&inner, Payload::RouteError(errno));
            }
        }
    }

    pub(crate) fn addresses_changed(&self, device: &Arc<Registered>, addresses: &[IpAddr]) {
        let inner = self.lock();
        let on_it = inner.device.as_ref().is_some_and(|d| Arc::ptr_eq(d, device));
        let gone = inner.local.is_some_and(|a| !a.ip().is_unspecified() && !addresses.is_empty() && !addresses.contains(&a.ip()));
        if on_it && gone && !matches!(inner.state, State::Destroying | State::DeviceRemoval) {
            self.push(&inner, Payload::AddrChange);
        }
    }
}
