// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listening on every device at one port: one listener a device, all or none (CM-39); devices that come later join.
use crate::{
    cm::{DeviceChange, DeviceId, IwCm, Observing},
    id::{CmId, Handler},
    sync::{lock, Mutex},
};
use ironwarp_verbs::Errno;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Weak},
};

/// Ports that are tried when the first device may choose and another one has that port in use.
const TRIES: usize = 16;

struct Members {
    cm: Weak<IwCm>,
    address: SocketAddr,
    backlog: u32,
    handler: Handler,
    ids: Mutex<BTreeMap<DeviceId, CmId>>,
}

impl Members {
    fn listen(&self, cm: &IwCm, device: DeviceId, address: SocketAddr) -> Result<CmId, Errno> {
        let id = cm.create_id(device, self.handler.clone())?;
        id.bind(address)?;
        id.listen(self.backlog)?;
        Ok(id)
    }
    /// One that came while we listen.
    fn join(&self, device: DeviceId) {
        let Some(cm) = self.cm.upgrade() else { return };
        if lock(&self.ids).contains_key(&device) {
            return;
        }
        match self.listen(&cm, device, self.address) {
            Ok(id) => {
                let twice = lock(&self.ids).insert(device, id);
                drop(twice);
            }
            Err(why) => tracing::warn!("{}: a device that came later does not listen there: {why}", self.address),
        }
    }
}

/// A listener on every device. Dropping it ends all of them.
#[derive(Debug)]
pub struct AnyListener {
    members: Arc<Members>,
    observing: Option<Observing>,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("address", &self.address).field("devices", &lock(&self.ids).len()).finish_non_exhaustive()
    }
}

impl IwCm {
    /// Listens at `address`, whose IP address is unspecified, on every device there is and will be. With port 0 the first device chooses and the others follow; if one
    /// cannot, another port is tried. If one device fails, none listens: its error. ENODEV without devices.
    pub fn listen_any(self: &Arc<Self>, address: SocketAddr, backlog: u32, handler: Handler) -> Result<AnyListener, Errno> {
        // listeners at ports that others could not take are kept until another port is found, so that the first device does not choose them again
        let mut aside = Vec::new();
        let mut last = Err(Errno::NoDevice);
        for _ in 0..if address.port() == 0 { TRIES } else { 1 } {
            last = self.try_listen_any(address, backlog, &handler, &mut aside);
            if !matches!(last, Err(Errno::AddressInUse)) {
                break;
            }
        }
        destroy_all(aside);
        last
    }
    fn try_listen_any(
        self: &Arc<Self>,
        mut address: SocketAddr,
        backlog: u32,
        handler: &Handler,
        aside: &mut Vec<CmId>,
    ) -> Result<AnyListener, Errno> {
        let mut ids = BTreeMap::new();
        let members = |address, ids| Members { cm: Arc::downgrade(self), address, backlog, handler: handler.clone(), ids: Mutex::new(ids) };
        let template = members(address, BTreeMap::new());
        let mut failed = Some(Errno::NoDevice);
        for (device, _) in self.devices() {
            failed = None;
            match template.listen(self, device, address) {
                Ok(id) => {
                    address.set_port(id.local_addr().port());
                    ids.insert(device, id);
                }
                // removed meanwhile
                Err(Errno::NoDevice) => {}
                Err(why) => {
                    failed = Some(why);
                    break;
                }
            }
        }
        if let Some(why) = failed {
            aside.extend(ids.into_values());
            return Err(why);
        }
        let members = Arc::new(members(address, ids));
        let weak = Arc::downgrade(&members);
        let observing = self.observe(Arc::new(move |change| {
            let Some(members) = weak.upgrade() else { return };
            match change {
                DeviceChange::Added(device) => members.join(device),
                DeviceChange::Removed(device) => {
                    let id = lock(&members.ids).remove(&device);
                    destroy_all(id);
                }
            }
        }));
        // those that came between the list and the observer
        for (device, _) in self.devices() {
            members.join(device);
        }
        Ok(AnyListener { members, observing: Some(observing) })
    }
}

fn destroy_all(ids: impl IntoIterator<Item = CmId>) {
    for id in ids {
        match id.destroy() {
            // in a handler of its own: dropping it does what can be done
            Ok(()) | Err(Errno::Deadlock) => {}
            Err(why) => tracing::warn!("{}: {why}", id.local_addr()),
        }
    }
}

impl AnyListener {
    /// Where, with the port that was chosen.
    pub fn local_addr(&self) -> SocketAddr {
        self.members.address
    }
    /// The listeners.
    pub fn ids(&self) -> Vec<CmId> {
        lock(&self.members.ids).values().cloned().collect()
    }
}

impl Drop for AnyListener {
    fn drop(&mut self) {
        // nobody joins any more
        self.observing = None;
        let ids = std::mem::take(&mut *lock(&self.members.ids));
        destroy_all(ids.into_values());
    }
}
