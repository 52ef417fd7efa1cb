// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager itself: its devices, and the one queue and thread by which all events are told in order (CM-13).
use crate::{
    counters::Counters,
    id::{CmId, Handler, Inner, Work},
    sync::{current, lock, wait, Condvar, Mutex, ThreadId},
    Provider,
};
use ironwarp_verbs::Errno;
use std::{
    collections::{BTreeMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Weak},
    time::Duration,
};

/// Names a device of a connection manager; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(u32);

/// What happened to the list of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// A device is there.
    Added(DeviceId),
    /// It is gone for new ids; those it had have been ended.
    Removed(DeviceId),
}

/// Who wants to know of devices.
pub type Observer = Arc<dyn Fn(DeviceChange) + Send + Sync>;

/// Observes until it is dropped.
pub struct Observing {
    cm: Arc<Cm>,
    number: u32,
}

impl Drop for Observing {
    fn drop(&mut self) {
        let observer = lock(&self.cm.devices).observers.remove(&self.number);
        // not under the lock
        drop(observer);
    }
}

impl std::fmt::Debug for Observing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observing").field(&self.number).finish()
    }
}

#[derive(Default)]
struct Devices {
    providers: BTreeMap<DeviceId, Arc<dyn Provider>>,
    observers: BTreeMap<u32, Observer>,
    next: u32,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    stop: bool,
    worker: Option<ThreadId>,
}

/// Longest that a call waits for what a provider owes; more than any time-out of a set-up.
const BOUND: Duration = Duration::from_secs(180);
/// Pause between two looks of a worker that nobody wakes.
const LOOK: Duration = Duration::from_secs(60);

pub(crate) struct Cm {
    pub(crate) counters: Counters,
    queue: Mutex<Queue>,
    /// There is work, or no more will come.
    filled: Condvar,
    devices: Mutex<Devices>,
    ids: Mutex<Vec<Weak<Inner>>>,
    bound: Mutex<Duration>,
}

impl Cm {
    pub(crate) fn bound(&self) -> Duration {
        *lock(&self.bound)
    }
    pub(crate) fn queue(&self, work: Work) {
        lock(&self.queue).work.push_back(work);
        self.filled.notify_one();
    }
    pub(crate) fn is_worker(&self, thread: ThreadId) -> bool {
        lock(&self.queue).worker == Some(thread)
    }
    pub(crate) fn remember(&self, id: &Arc<Inner>) {
        let mut ids = lock(&self.ids);
        // forget the dead now and then: amortised constant
        if ids.len() == ids.capacity() {
            ids.retain(|id| id.strong_count() > 0);
        }
        ids.push(Arc::downgrade(id));
    }
    fn work(&self) {
        lock(&self.queue).worker = Some(current().id());
        loop {
            let mut queue = lock(&self.queue);
            let work = loop {
                if let Some(work) = queue.work.pop_front() {
                    break work;
                }
                if queue.stop {
                    return;
                }
                queue = wait(&self.filled, queue, LOOK).0;
            };
            drop(queue);
            work.run();
        }
    }
    fn notify(&self, change: DeviceChange) {
        let observers: Vec<_> = lock(&self.devices).observers.values().cloned().collect();
        for observer in observers {
            observer(change);
        }
    }
}

/// The connection manager. Events are told by a thread of its own, or by [`IwCm::progress`].
pub struct IwCm {
    cm: Arc<Cm>,
    #[cfg(not(loom))]
    worker: Option<std::thread::JoinHandle<()>>,
}

impl IwCm {
    /// With a thread that tells the events.
    #[cfg(not(loom))]
    pub fn new() -> Arc<Self> {
        let mut this = Self::unshared();
        let cm = this.cm.clone();
        match std::thread::Builder::new().name("iw_cm".into()).spawn(move || cm.work()) {
            Ok(worker) => this.worker = Some(worker),
            Err(e) => tracing::error!("no thread for events: {e}; call progress"),
        }
        Arc::new(this)
    }
    /// Without: events are told when somebody calls [`IwCm::progress`].
    pub fn without_thread() -> Arc<Self> {
        Arc::new(Self::unshared())
    }
    fn unshared() -> Self {
        let cm = Cm {
            counters: Counters::default(),
            queue: Mutex::new(Queue::default()),
            filled: Condvar::new(),
            devices: Mutex::new(Devices::default()),
            ids: Mutex::new(Vec::new()),
            bound: Mutex::new(BOUND),
        };
        IwCm {
            cm: Arc::new(cm),
            #[cfg(not(loom))]
            worker: None,
        }
    }
    /// Tells one event, if one waits. The caller counts as the thread that tells events while it runs.
    pub fn progress(&self) -> bool {
        let mut queue = lock(&self.cm.queue);
        let Some(work) = queue.work.pop_front() else { return false };
        let before = queue.worker.replace(current().id());
        drop(queue);
        work.run();
        lock(&self.cm.queue).worker = before;
        true
    }
    /// Longest that destroy and disconnect wait for what a provider owes; 180 seconds if not set.
    pub fn set_bound(&self, bound: Duration) {
        *lock(&self.cm.bound) = bound;
    }
    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.cm.counters
    }
    /// A new device; observers hear of it before this returns.
    pub fn add_device(&self, provider: Arc<dyn Provider>) -> DeviceId {
        let mut devices = lock(&self.cm.devices);
        devices.next += 1;
        let device = DeviceId(devices.next);
        devices.providers.insert(device, provider);
        drop(devices);
        self.cm.notify(DeviceChange::Added(device));
        device
    }
    /// A device goes away. Its listeners stop, its requests are rejected, its connections are reset, and the provider raises the last event that each id is
    /// owed (CM-35); then observers hear of it. ENODEV if it is not there.
    pub fn remove_device(&self, device: DeviceId) -> Result<(), Errno> {
        let provider = lock(&self.cm.devices).providers.remove(&device).ok_or(Errno::NoDevice)?;
        let ids: Vec<_> = lock(&self.cm.ids).iter().filter_map(Weak::upgrade).filter(|id| id.device() == device).collect();
        for id in ids {
            id.device_removed();
        }
        drop(provider);
        self.cm.notify(DeviceChange::Removed(device));
        Ok(())
    }
    /// All devices.
    pub fn devices(&self) -> Vec<(DeviceId, Arc<dyn Provider>)> {
        lock(&self.cm.devices).providers.iter().map(|(device, provider)| (*device, provider.clone())).collect()
    }
    /// The provider of a device.
    pub fn provider(&self, device: DeviceId) -> Option<Arc<dyn Provider>> {
        lock(&self.cm.devices).providers.get(&device).cloned()
    }
    /// Hears of devices that come and go, in the thread that adds or removes them, until the result is dropped.
    pub fn observe(&self, observer: Observer) -> Observing {
        let mut devices = lock(&self.cm.devices);
        devices.next += 1;
        let number = devices.next;
        devices.observers.insert(number, observer);
        Observing { cm: self.cm.clone(), number }
    }
    /// A new id in IDLE on `device`. ENODEV if it is not there.
    pub fn create_id(&self, device: DeviceId, handler: Handler) -> Result<CmId, Errno> {
        let provider = self.provider(device).ok_or(Errno::NoDevice)?;
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok(Inner::new(&self.cm, device, provider, handler, (any, any)).handle())
    }
}

impl Drop for IwCm {
    fn drop(&mut self) {
        lock(&self.cm.queue).stop = true;
        self.cm.filled.notify_all();
        #[cfg(not(loom))]
        if let Some(worker) = self.worker.take() {
            // the last owner may be a handler: then the thread ends by itself
            if worker.thread().id() != std::thread::current().id() && worker.join().is_err() {
                tracing::error!("a handler had panicked");
            }
        }
    }
}

impl std::fmt::Debug for IwCm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IwCm").field("counters", &self.cm.counters).finish_non_exhaustive()
    }
}
