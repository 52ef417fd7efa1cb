// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices, and which of them leads to an address.
//!
//! | the device | is worth |
//! |---|---|
//! | has the destination, or the wanted source, as its own address | most |
//! | has a network that the destination is in | the more, the longer its prefix |
//! | takes any address (host integrated) | less |
//! | has addresses of the family, but no network that fits | least: its gateway may know the way |
//!
//! Of equals the one that was added first is taken.
use crate::{transport::unspecified, Errno, IwTransport, Transport, TransportAttr};
use ironwarp_iwcm::Provider;
use ironwarp_verbs::Device;
use std::{
    fmt,
    net::IpAddr,
    sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        Arc,
    },
};

/// Addresses that a device reaches without a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address in it.
    pub address: IpAddr,
    /// How many of its bits all have.
    pub prefix: u8,
}

impl Network {
    fn has(&self, address: IpAddr) -> bool {
        common_bits(self.address, address).is_some_and(|bits| bits >= u32::from(self.prefix))
    }
}

/// What makes a device for [`crate::Cm::add_device`].
#[derive(Clone)]
pub struct CmDevice {
    /// Its verbs.
    pub verbs: Arc<dyn Device>,
    /// Its connection manager.
    pub transport: Arc<dyn Transport>,
    /// What it reaches without a gateway; helps to choose between devices.
    pub networks: Vec<Network>,
}

impl CmDevice {
    /// An iWARP device: its verbs and its provider of connections.
    #[must_use]
    pub fn iwarp(verbs: Arc<dyn Device>, provider: Arc<dyn Provider>) -> Self {
        CmDevice { verbs, transport: Arc::new(IwTransport::new(provider)), networks: Vec::new() }
    }
}

impl fmt::Debug for CmDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmDevice({:?}, {:?})", self.verbs, self.networks)
    }
}

/// Names a device that was added: its GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey(pub u64);

/// A device in the registry.
pub(crate) struct Registered {
    pub(crate) key: DeviceKey,
    pub(crate) verbs: Arc<dyn Device>,
    pub(crate) transport: Arc<dyn Transport>,
    networks: Vec<Network>,
    removed: AtomicBool,
}

impl Registered {
    pub(crate) fn new(key: DeviceKey, device: CmDevice) -> Self {
        Registered { key, verbs: device.verbs, transport: device.transport, networks: device.networks, removed: AtomicBool::new(false) }
    }
    pub(crate) fn remove(&self) {
        self.removed.store(true, SeqCst);
    }
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(SeqCst)
    }

    /// How good it is for that way, and the own address there; none = shows later.
    fn way(&self, source: Option<IpAddr>, destination: IpAddr) -> Option<(i32, Option<IpAddr>)> {
        const OWN: i32 = 1000;
        let own = self.transport.query().addresses;
        if own.is_empty() {
            return Some((0, source));
        }
        if let Some(source) = source {
            return own.contains(&source).then_some((OWN, Some(source)));
        }
        if own.contains(&destination) {
            return Some((OWN, Some(destination)));
        }
        let near = own.iter().copied().filter_map(|a| Some((common_bits(a, destination)?, a))).max_by_key(|(bits, _)| *bits)?.1;
        let network = self.networks.iter().filter(|n| n.has(destination)).map(|n| i32::from(n.prefix) + 1).max();
        Some((network.unwrap_or(-1), Some(near)))
    }
}

/// The device for a way, and the own address on it if that is known already. ENODEV if no device leads there, EADDRNOTAVAIL if none has the source.
pub(crate) fn way(
    devices: &[Arc<Registered>],
    source: Option<IpAddr>,
    destination: IpAddr,
) -> Result<(Arc<Registered>, Option<IpAddr>), Errno> {
    let mut best: Option<(i32, &Arc<Registered>, Option<IpAddr>)> = None;
    for device in devices {
        if let Some((worth, address)) = device.way(source, destination) {
            if best.as_ref().is_none_or(|(most, ..)| worth > *most) {
                best = Some((worth, device, address));
            }
        }
    }
    match best {
        Some((_, device, address)) => Ok((device.clone(), address)),
        None if source.is_some() && !devices.is_empty() => Err(Errno::AddressNotAvailable),
        None => Err(Errno::NoDevice),
    }
}

/// The device that has an own address, or would take it.
pub(crate) fn owner(devices: &[Arc<Registered>], address: IpAddr) -> Result<Arc<Registered>, Errno> {
    Ok(way(devices, Some(address), address)?.0)
}

/// Where a device listens for a listener at an unspecified address; none = nowhere.
pub(crate) fn wildcard(attr: &TransportAttr, address: IpAddr, af_only: bool) -> Option<IpAddr> {
    let has = |like: IpAddr| attr.addresses.is_empty() || attr.addresses.iter().any(|a| a.is_ipv4() == like.is_ipv4());
    let v4 = unspecified(IpAddr::from([0, 0, 0, 0]));
    if has(address) {
        Some(unspecified(address))
    } else {
        (address.is_ipv6() && !af_only && has(v4)).then_some(v4)
    }
}

fn common_bits(a: IpAddr, b: IpAddr) -> Option<u32> {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        _ => None,
    }
}
