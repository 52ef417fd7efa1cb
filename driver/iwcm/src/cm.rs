// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection manager itself: its devices, and the one queue and thread by which all events are told in order (CM-13).
use crate::{
    counters::Counters,
    id::{CmId, Handler},
    inner::Inner,
    queue::Work,
    sync::{current, lock, wait, Condvar, Mutex, MutexGuard, ThreadId},
    Provider,
};
use ironwarp_verbs::Errno;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Weak,
    },
    time::{Duration, Instant},
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
    /// Work items that are set aside: the queue has room for so many.
    items: usize,
    stop: bool,
    worker: Option<ThreadId>,
}

/// Longest that a call waits for what a provider owes; more than any time-out of a set-up.
const BOUND: Duration = Duration::from_secs(180);
/// Work items of all ids together: more than any program needs, less than what takes the memory of the others.
const MOST_ITEMS: usize = 1 << 20;
/// Pause between two looks of a worker that nobody wakes.
#[cfg(not(loom))]
const LOOK: Duration = Duration::from_secs(60);

pub(crate) struct Cm {
    pub(crate) counters: Counters,
    queue: Mutex<Queue>,
    /// There is work, or no more will come.
    filled: Condvar,
    devices: Mutex<Devices>,
    ids: Mutex<Vec<Weak<Inner>>>,
    bound: Mutex<Duration>,
    most_items: AtomicUsize,
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
    pub(crate) fn provider(&self, device: DeviceId) -> Option<Arc<dyn Provider>> {
        lock(&self.devices).providers.get(&device).cloned()
    }
    #[cfg(not(loom))]
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

/// Work items that are set aside, until this is dropped: raising an event needs no memory that may not be there.
pub(crate) struct Items {
    cm: Arc<Cm>,
    number: u32,
}

impl Items {
    /// ENOMEM if there are not so many.
    pub(crate) fn reserve(cm: &Arc<Cm>, number: u32) -> Result<Self, Errno> {
        let mut queue = lock(&cm.queue);
        let items = queue.items + number as usize;
        let room = items.saturating_sub(queue.work.len());
        if items > cm.most_items.load(Ordering::Relaxed) || queue.work.try_reserve(room).is_err() {
            return Err(Errno::NoMemory);
        }
        queue.items = items;
        Ok(Items { cm: cm.clone(), number })
    }
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        lock(&self.cm.queue).items -= self.number as usize;
    }
}

/// The thread that tells events. It ends when the manager and all its ids are gone.
pub(crate) struct Worker {
    pub(crate) cm: Arc<Cm>,
    #[cfg(not(loom))]
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    /// Without a thread somebody else must tell them.
    fn new(_thread: bool) -> Arc<Self> {
        let cm = Arc::new(Cm {
            counters: Counters::default(),
            queue: Mutex::new(Queue::default()),
            filled: Condvar::new(),
            devices: Mutex::new(Devices::default()),
            ids: Mutex::new(Vec::new()),
            bound: Mutex::new(BOUND),
            most_items: AtomicUsize::new(MOST_ITEMS),
        });
        #[cfg(not(loom))]
        let thread = _thread.then(|| {
            let cm = cm.clone();
            std::thread::Builder::new().name("iw_cm".into()).spawn(move || cm.work())
        });
        #[cfg(not(loom))]
        let thread = thread.and_then(|spawned| spawned.map_err(|e| tracing::error!("no thread for events: {e}; call progress")).ok());
        Arc::new(Worker {
            cm,
            #[cfg(not(loom))]
            thread,
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        lock(&self.cm.queue).stop = true;
        self.cm.filled.notify_all();
        #[cfg(not(loom))]
        if let Some(thread) = self.thread.take() {
            // the last owner may be the thread itself: then it ends by itself
            if thread.thread().id() != current().id() && thread.join().is_err() {
                tracing::error!("the thread that tells events had panicked");
            }
        }
    }
}

/// The connection manager. Events are told by a thread of its own, or by [`IwCm::progress`]. Ids keep that thread when the manager itself is dropped.
pub struct IwCm {
    cm: Arc<Cm>,
    worker: Arc<Worker>,
}

impl IwCm {
    /// With a thread that tells the events.
    #[cfg(not(loom))]
    pub fn new() -> Arc<Self> {
        Self::over(Worker::new(true))
    }
    /// Without: events are told when somebody calls [`IwCm::progress`]; while a call waits, that must be another thread.
    pub fn without_thread() -> Arc<Self> {
        Self::over(Worker::new(false))
    }
    fn over(worker: Arc<Worker>) -> Arc<Self> {
        Arc::new(IwCm { cm: worker.cm.clone(), worker })
    }
    /// Tells one event, if one waits and nobody else tells one. The caller counts as the thread that tells events while it runs.
    pub fn progress(&self) -> bool {
        self.tell_one(|queue| queue)
    }
    /// As [`IwCm::progress`], but waits up to `bound` for an event.
    pub fn progress_within(&self, bound: Duration) -> bool {
        let start = Instant::now();
        self.tell_one(|mut queue| {
            while queue.work.is_empty() {
                let left = bound.saturating_sub(start.elapsed());
                let noticed;
                (queue, noticed) = wait(&self.cm.filled, queue, left);
                if !noticed {
                    break;
                }
            }
            queue
        })
    }
    fn tell_one<'a>(&'a self, ready: impl FnOnce(MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue>) -> bool {
        let queue = lock(&self.cm.queue);
        if queue.worker.is_some() {
            return false;
        }
        let mut queue = ready(queue);
        if queue.worker.is_some() {
            return false;
        }
        let Some(work) = queue.work.pop_front() else { return false };
        queue.worker = Some(current().id());
        drop(queue);
        work.run();
        lock(&self.cm.queue).worker = None;
        true
    }
    /// Most work items of all ids together; 2^20 if not set.
    pub fn set_most_items(&self, items: usize) {
        self.cm.most_items.store(items, Ordering::Relaxed);
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
    /// A device goes away. Its listeners stop, its requests are rejected, its connections are reset, and each id is told the last event that it is owed, once
    /// (CM-35): the provider's, or ECONNRESET in its place; then observers hear of it. Ids that are left can only be destroyed. ENODEV if it is not there.
    pub fn remove_device(&self, device: DeviceId) -> Result<(), Errno> {
        let provider = lock(&self.cm.devices).providers.remove(&device).ok_or(Errno::NoDevice)?;
        // what is the last owner of an id drops it without the lock
        let ids: Vec<_> = lock(&self.cm.ids).iter().filter_map(Weak::upgrade).collect();
        for id in ids {
            if id.device == device {
                id.device_removed();
            }
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
        self.cm.provider(device)
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
        Ok(Inner::new(&self.worker, device, provider, handler).handle())
    }
}

impl std::fmt::Debug for IwCm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IwCm").field("counters", &self.cm.counters).finish_non_exhaustive()
    }
}
