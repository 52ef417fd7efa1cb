// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: connect, accept, reject, establish, disconnect.
use crate::{
    core::{Below, Core},
    Call, ConnParam, Errno, PrivateData, Stat, State, TransportId,
};
use std::sync::Arc;

impl Core {
    pub(crate) fn connect(&self, param: &ConnParam) -> Result<(), Errno> {
        // what may take a while is made first, so that the state and what belongs to it change together
        let device = {
            let inner = self.lock();
            inner.state.call(Call::Connect)?;
            inner.device()?
        };
        let attr = device.transport.query();
        let fresh = device.transport.create_id(self.sink(&device))?;
        let begun = self.begin(Call::Connect, |inner| {
            let prepared = param.prepare(&attr, inner.qp_num(param.qp_num)?)?;
            let ends = (inner.local.ok_or(Errno::Invalid)?, inner.peer.ok_or(Errno::Invalid)?);
            inner.transport = Some(Below::new(&self.shared, fresh.clone()));
            Ok((prepared, ends, inner.options))
        });
        let ((prepared, (local, peer), options), _op) = begun.inspect_err(|_| fresh.destroy())?;
        match fresh.connect(local, peer, &prepared, &options) {
            Ok(()) => {
                self.shared.count(Stat::Connects);
                Ok(())
            }
            Err(errno) => {
                self.shared.count(Stat::ConnectErrs);
                let below = self.lock().transport.take();
                fresh.destroy();
                drop(below);
                self.step(State::Connecting, State::RouteResolved);
                Err(errno)
            }
        }
    }

    pub(crate) fn accept(&self, param: Option<&ConnParam>) -> Result<(), Errno> {
        let device = {
            let inner = self.lock();
            inner.state.call(Call::Accept)?;
            inner.device()?
        };
        let attr = device.transport.query();
        let ((transport, prepared, options, _place), _op) = self.begin(Call::Accept, |inner| {
            let prepared = match param {
                Some(param) => Some(param.prepare(&attr, inner.qp_num(param.qp_num)?)?),
                None if attr.accept_needs_param => return Err(Errno::Invalid),
                None => None,
            };
            Ok((inner.transport_id()?, prepared, inner.options, inner.place.take()))
        })?;
        match transport.accept(prepared.as_ref(), &options) {
            Ok(()) => {
                self.shared.count(Stat::Accepts);
                Ok(())
            }
            Err(errno) => {
                self.shared.count(Stat::PassiveErrs);
                self.step(State::Accepting, State::Failed);
                self.qp_to_error();
                // on iWARP the provider has reset the stream already and this is EINVAL (CM-5)
                let _ = transport.reject(&PrivateData::default());
                Err(errno)
            }
        }
    }

    pub(crate) fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        let device = {
            let inner = self.lock();
            inner.state.call(Call::Reject)?;
            inner.device()?
        };
        let most = device.transport.query().max_private_data;
        let ((transport, _place), _op) = self.begin(Call::Reject, |inner| {
            if private_data.len() > most {
                return Err(Errno::Invalid);
            }
            Ok((inner.transport_id()?, inner.place.take()))
        })?;
        self.shared.count(Stat::Rejects);
        transport.reject(private_data)
    }

    pub(crate) fn establish(&self) -> Result<(), Errno> {
        let (transport, _op) = self.begin(Call::Establish, |inner| inner.transport_id())?;
        match transport.establish() {
            Ok(()) => {
                self.shared.count(Stat::Established);
                Ok(())
            }
            Err(errno) => {
                self.shared.count(Stat::ConnectErrs);
                self.step(State::Connected, State::Failed);
                Err(errno)
            }
        }
    }

    pub(crate) fn disconnect(&self) -> Result<(), Errno> {
        let (transport, _op) = self.begin(Call::Disconnect, |inner| -> Result<Option<Arc<dyn TransportId>>, Errno> {
            match inner.state {
                State::Connected | State::Responded | State::Connecting | State::Accepting => Ok(Some(inner.transport_id()?)),
                _ => Ok(None),
            }
        })?;
        let Some(transport) = transport else { return Ok(()) };
        let done = transport.disconnect();
        // connected while it waited: it is being closed now
        self.step(State::Connected, State::Disconnecting);
        done
    }
}
