// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager itself: devices that come and go, all ids, and counts.
use crate::{
    core::{lock, Core},
    device::Registered,
    ports::Ports,
    CmDevice, DeviceKey, Errno, EventChannel, Id,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        Arc, Mutex, Weak,
    },
};

macro_rules! stats {
    ($($stat:ident = $name:literal, $text:literal;)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Stat { $(#[doc = concat!("`", $name, "`: ", $text, ".")] $stat,)* }
        impl Stat {
            /// All.
            pub const ALL: &'static [Stat] = &[$(Stat::$stat),*];
            /// As tools show it.
            pub const fn name(self) -> &'static str { match self { $(Stat::$stat => $name,)* } }
        }
        const STATS: usize = Stat::ALL.len();
    };
}

stats! {
    IdsCreated = "cm_ids_created", "ids, those of requests included";
    IdsDestroyed = "cm_ids_destroyed", "ids destroyed";
    ListenCreated = "listen_created", "listeners, one for each device";
    ListenDestroyed = "listen_destroyed", "listeners ended, one for each device";
    ListenErrs = "listen_errs", "listeners that a device refused";
    Requests = "requests_in", "requests of peers";
    BacklogDrops = "backlog_drops", "requests refused because the backlog was full";
    RequestsRefused = "requests_refused", "requests refused because their listener or its channel was going away";
    Connects = "connects", "calls of connect that a transport took";
    ConnectErrs = "connect_errs", "calls of connect that failed, and connections that were not made";
    Accepts = "accepts", "calls of accept that a transport took";
    PassiveErrs = "passive_errs", "calls of accept that failed";
    Rejects = "rejects", "requests rejected by the application";
    Established = "established", "connections made, both sides";
    Disconnected = "disconnected", "connections that were made and are gone";
    EventsUnexpected = "events_unexpected", "events of a transport that the state did not allow";
    EventsDiscarded = "events_discarded", "events whose channel was gone";
    DeviceRemovals = "device_removals", "ids that lost their device";
}

/// How many there are now. All are zero when everything was destroyed and acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ids.
    pub ids: u64,
    /// Ids of transports, listeners' included.
    pub transport_ids: u64,
    /// Acknowledgements that are owed: one for an event, two for a CONNECT_REQUEST.
    pub unacked: u64,
    /// Requests that wait for accept or reject.
    pub waiting: u64,
}

#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) ids: AtomicU64,
    pub(crate) transport_ids: AtomicU64,
    pub(crate) unacked: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

macro_rules! gauges {
    ($($name:ident)*) => { #[allow(non_upper_case_globals)] impl Gauges { $(pub(crate) const $name: GaugeOf = |gauges| &gauges.$name;)* } };
}
pub(crate) type GaugeOf = fn(&Gauges) -> &AtomicU64;
gauges! { ids transport_ids unacked waiting }

/// One of something, for as long as it lives.
pub(crate) struct Gauge(Arc<Shared>, GaugeOf);

impl Gauge {
    pub(crate) fn new(shared: &Arc<Shared>, of: GaugeOf) -> Self {
        of(&shared.gauges).fetch_add(1, Relaxed);
        Gauge(shared.clone(), of)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        (self.1)(&self.0.gauges).fetch_sub(1, Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) devices: Mutex<Vec<Arc<Registered>>>,
    /// Held while devices come or go and while a wildcard listener is made, so that each such listener meets each device once.
    pub(crate) topology: Mutex<()>,
    pub(crate) ports: Ports,
    ids: Mutex<BTreeMap<u64, Weak<Core>>>,
    numbers: AtomicU64,
    stats: [AtomicU64; STATS],
    gauges: Gauges,
}

impl Shared {
    pub(crate) fn count(&self, stat: Stat) {
        self.stats[stat as usize].fetch_add(1, Relaxed);
    }
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed) + 1
    }
    pub(crate) fn enter(&self, core: &Arc<Core>) {
        lock(&self.ids).insert(core.number, Arc::downgrade(core));
    }
    pub(crate) fn leave(&self, number: u64) {
        lock(&self.ids).remove(&number);
    }
    pub(crate) fn devices(&self) -> Vec<Arc<Registered>> {
        lock(&self.devices).clone()
    }
    fn ids(&self) -> Vec<Arc<Core>> {
        lock(&self.ids).values().filter_map(Weak::upgrade).collect()
    }
}

/// A connection manager: some devices and the ids on them. Clones are the same one. A program needs one.
#[derive(Clone, Default)]
pub struct Cm(Arc<Shared>);

impl Cm {
    pub(crate) const fn from_shared(shared: Arc<Shared>) -> Self {
        Cm(shared)
    }
    /// Without devices.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new id whose events go to `channel` (`rdma_create_id`).
    #[must_use = "an id that is dropped is destroyed"]
    pub fn create_id(&self, channel: &EventChannel) -> Id {
        Core::create(&self.0, channel.queue(), |_| {})
    }

    /// Adds a device; wildcard listeners join it. EEXIST if one with its GUID is there.
    pub fn add_device(&self, device: CmDevice) -> Result<DeviceKey, Errno> {
        let _topology = lock(&self.0.topology);
        let guid = device.transport.query().node_guid;
        let registered = Arc::new(Registered::new(DeviceKey(guid), device));
        {
            let mut devices = lock(&self.0.devices);
            if devices.iter().any(|d| d.key == registered.key) {
                return Err(Errno::Exists);
            }
            devices.push(registered.clone());
        }
        for id in self.0.ids() {
            id.join(&registered);
        }
        Ok(registered.key)
    }

    /// Takes a device away: its ids get DEVICE_REMOVAL and nothing after it, wildcard listeners leave it. Answers how many ids
    /// still have to be destroyed. ENODEV if it is not there.
    pub fn remove_device(&self, key: DeviceKey) -> Result<usize, Errno> {
        let _topology = lock(&self.0.topology);
        let registered = {
            let mut devices = lock(&self.0.devices);
            let at = devices.iter().position(|d| d.key == key).ok_or(Errno::NoDevice)?;
            devices.remove(at)
        };
        // before the ids are looked through: whoever takes the device after that sees it
        registered.remove();
        let left = self.0.ids().iter().filter(|id| id.device_removed(&registered)).count();
        registered.transport.removed();
        Ok(left)
    }

    /// The device's addresses have changed: ids whose own address is no longer there get ADDR_CHANGE.
    pub fn addresses_changed(&self, key: DeviceKey) -> Result<(), Errno> {
        let registered = self.device(key)?;
        let addresses = registered.transport.query().addresses;
        for id in self.0.ids() {
            id.addresses_changed(&registered, &addresses);
        }
        Ok(())
    }

    fn device(&self, key: DeviceKey) -> Result<Arc<Registered>, Errno> {
        self.0.devices().into_iter().find(|d| d.key == key).ok_or(Errno::NoDevice)
    }

    /// Names and keys of the devices.
    #[must_use]
    pub fn devices(&self) -> Vec<(String, DeviceKey)> {
        self.0.devices().iter().map(|d| (d.transport.query().name, d.key)).collect()
    }

    /// How many things there are.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let gauges = &self.0.gauges;
        Counts {
            ids: gauges.ids.load(Relaxed),
            transport_ids: gauges.transport_ids.load(Relaxed),
            unacked: gauges.unacked.load(Relaxed),
            waiting: gauges.waiting.load(Relaxed),
        }
    }

    /// How often it happened.
    #[must_use]
    pub fn stat(&self, stat: Stat) -> u64 {
        self.0.stats[stat as usize].load(Relaxed)
    }

    /// All of [`Cm::stat`], with names.
    #[must_use]
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        Stat::ALL.iter().map(|&stat| (stat.name(), self.stat(stat))).collect()
    }

    /// State, own end and peer's end of every id.
    #[must_use]
    pub fn ids(&self) -> Vec<crate::IdRow> {
        self.0.ids().iter().map(|core| core.row()).collect()
    }
}

impl fmt::Debug for Cm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cm({:?})", self.counts())
    }
}
