// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offloaded provider: an attached adapter as the connection manager and applications see it. Handshake and port space are the adapter's.
//!
//! ```text
//!  iwcm::Provider verbs --lock--> Rnic (commands, replies)      verbs wait for the adapter's reply to their command, not for the network
//!                                  ^ |
//!  dispatcher thread ------lock----+ +--> events --no lock--> IdRef::event, in the adapter's order
//! ```
//!
//! One lock, around the [`Rnic`] and the table of who is told what of which handle. A verb holds it from its command to the adapter's
//! reply, so that an event which follows the reply finds the id already in the table. The dispatcher takes events under the lock and raises
//! them without it (CM-31). It sleeps on the adapter's event interrupt and on an eventfd by which verbs hand it events that came together with
//! their replies; every [`HEALTH_INTERVAL`] it looks whether the adapter still runs. An adapter that failed or was reset ends every id
//! with the one event it is owed (CM-35), and every later verb with ENODEV.
//!
//! Work requests and completions need neither lock nor thread but for the doorbell. On an adapter without a data path queue pairs exist, change their state and are counted, but
//! take no work requests (EOPNOTSUPP).
//!
//! **Order of locks**: a completion queue's, a queue pair's doorbell, the one lock, a queue pair's state. Who holds one takes only later ones.
mod cq;
mod device;
mod dispatch;
mod qp;
mod region;

use crate::{
    connection::{AcceptParam, ConnectParam, Connection},
    device::DeviceInfo,
    error::{Error, Refusal},
    pending::Listener,
    rnic::Rnic,
    Backlog,
};
use cq::{CqNotice, OffloadCq};
use device::Counts;
use dispatch::Wake;
use ironwarp_abi::Handle;
use ironwarp_iwcm::{ConnParam, Errno, IdRef, MpaOptions, PrivateData, Provider, ProviderAttr, QpHandle};
use ironwarp_verbs::QpState;
use qp::QpTable;
use region::StagTable;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, SocketAddrV4},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

/// The adapter is looked after in at least this interval.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);

/// From taking events to having raised them: far more than it takes.
const RAISE_BOUND: Duration = Duration::from_secs(5);

/// What an application chooses when it opens an adapter.
#[derive(Clone, Debug)]
pub struct OffloadConfig {
    /// Name of the device in tables.
    pub name: String,
    /// How a connection is started whose user does not say.
    pub mpa: MpaOptions,
    /// Largest IRD that is offered.
    pub max_ird: u16,
    /// Largest ORD that is asked for.
    pub max_ord: u16,
}

impl Default for OffloadConfig {
    fn default() -> Self {
        // the depths of the profile `ecp5`
        OffloadConfig { name: "ironwarp0".into(), mpa: MpaOptions::default(), max_ird: 8, max_ord: 8 }
    }
}

/// An attached adapter with its dispatcher. Dropping it resets the adapter; ids that still live hear of their end first.
pub struct Offload {
    shared: Arc<Shared>,
    dispatcher: Option<JoinHandle<()>>,
}

/// Who is told of a connection.
struct End {
    connection: Connection,
    /// None until it is accepted.
    id: Option<IdRef>,
    qpn: u32,
}

/// What the one lock guards.
struct Inner {
    /// None once the adapter failed.
    rnic: Option<Rnic>,
    listeners: HashMap<Handle, (Listener, IdRef)>,
    connections: HashMap<Handle, End>,
    /// Batches of events that the dispatcher took, and those that it has raised.
    taken: u64,
    raised: u64,
    stop: bool,
}

struct Shared {
    config: OffloadConfig,
    inner: Mutex<Inner>,
    /// `raised` moved.
    progress: Condvar,
    wake: Wake,
    qps: QpTable,
    /// None: the adapter moves no data.
    data_path: Option<DataPath>,
    stags: Mutex<StagTable>,
    /// What is told to a queue, and it. Events are told without owning it: its end needs the one lock.
    cqs: Mutex<HashMap<u16, CqEnds>>,
    counts: Counts,
}

/// A completion queue: what is told to it, and what its user has.
type CqEnds = (Arc<CqNotice>, Weak<OffloadCq>);

/// What the adapter has for moving data.
#[derive(Clone, Copy, Debug)]
struct DataPath {
    max_qps: u16,
    max_cqs: u16,
    regions_log2: u32,
}

impl DataPath {
    fn of(info: &DeviceInfo) -> Option<Self> {
        let DeviceInfo { max_qps, max_cqs, regions_log2, .. } = *info;
        (max_qps > 0 && max_cqs > 0).then_some(DataPath { max_qps, max_cqs, regions_log2: regions_log2.into() })
    }
}

/// A poisoned lock guards tables that are valid between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Offload {
    /// Takes over an attached adapter, whose addresses are set, and starts the dispatcher. Fails if the adapter makes no connections, or
    /// on a bus without interrupts that a thread can sleep on (the in-process model).
    pub fn start(mut rnic: Rnic, config: OffloadConfig) -> Result<Arc<Self>, Error> {
        let info = rnic.devinfo()?;
        if info.max_connections == 0 {
            return Err(Error::Config("this adapter makes no connections; use one that was built with them".into()));
        }
        let wake = Wake::new(&rnic)?;
        let data_path = DataPath::of(&info);
        let counts = Counts::new(&info, &config);
        let shared = Arc::new(Shared {
            config,
            inner: Mutex::new(Inner {
                rnic: Some(rnic),
                listeners: HashMap::new(),
                connections: HashMap::new(),
                taken: 0,
                raised: 0,
                stop: false,
            }),
            progress: Condvar::new(),
            wake,
            qps: QpTable::new(counts.attr.max_qp),
            data_path,
            stags: Mutex::default(),
            cqs: Mutex::default(),
            counts,
        });
        let runs = shared.clone();
        let dispatcher = std::thread::Builder::new().name("rnic-events".into()).spawn(move || dispatch::run(&runs))?;
        Ok(Arc::new(Offload { shared, dispatcher: Some(dispatcher) }))
    }
    /// Does something with the adapter itself: its counters, addresses, rules, tables. ENODEV once it has failed. Events are the
    /// dispatcher's: `f` must not take them.
    pub fn with_rnic<T>(&self, f: impl FnOnce(&mut Rnic) -> T) -> Result<T, Errno> {
        self.shared.with_rnic(|rnic, _| f(rnic))
    }
    /// Ids that the adapter may still raise events on: listeners and connections.
    pub fn ids(&self) -> (usize, usize) {
        let inner = lock(&self.shared.inner);
        (inner.listeners.len(), inner.connections.len())
    }
}

impl Drop for Offload {
    fn drop(&mut self) {
        lock(&self.shared.inner).stop = true;
        self.shared.wake.kick();
        if let Some(dispatcher) = self.dispatcher.take() {
            if dispatcher.thread().id() != std::thread::current().id() && dispatcher.join().is_err() {
                tracing::error!("the dispatcher of {} had panicked", self.shared.config.name);
            }
        }
    }
}

impl Shared {
    /// With the lock held; then the dispatcher looks for what came along.
    fn with_rnic<T>(&self, f: impl FnOnce(&mut Rnic, &mut Tables) -> T) -> Result<T, Errno> {
        let mut inner = lock(&self.inner);
        let Inner { rnic, listeners, connections, .. } = &mut *inner;
        let rnic = rnic.as_mut().ok_or(Errno::NoDevice)?;
        let result = f(rnic, &mut Tables { listeners, connections });
        drop(inner);
        self.wake.kick();
        Ok(result)
    }
    /// Rings a doorbell; nobody is woken for that.
    fn ring(&self, doorbell: u32, value: u32) -> Result<(), Errno> {
        let mut inner = lock(&self.inner);
        let rnic = inner.rnic.as_mut().ok_or(Errno::NoDevice)?;
        rnic.ring(doorbell, value).map_err(explained("doorbell"))
    }
    fn mpa(&self, param: &ConnParam) -> Result<MpaOptions, Errno> {
        let mpa = param.mpa.unwrap_or(self.config.mpa);
        // the adapter inserts markers where a peer asks, but never asks
        if mpa.markers {
            return Err(Errno::NotSupported);
        }
        Ok(mpa)
    }
    /// Waits until every event that the dispatcher has taken so far is raised. Raising waits for nobody, so this takes microseconds; a dispatcher that died
    /// is noticed by the bound.
    fn wait_raised(&self) {
        let inner = lock(&self.inner);
        let taken = inner.taken;
        let waited = self.progress.wait_timeout_while(inner, RAISE_BOUND, |inner| inner.raised < taken);
        if waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            tracing::error!("{}: the dispatcher does not raise what it has taken", self.config.name);
        }
    }
}

/// The tables beside the adapter.
struct Tables<'a> {
    listeners: &'a mut HashMap<Handle, (Listener, IdRef)>,
    connections: &'a mut HashMap<Handle, End>,
}

fn ipv4(address: SocketAddr) -> Result<SocketAddrV4, Errno> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        // the adapter speaks IPv4 only
        SocketAddr::V6(_) => Err(Errno::AddressNotAvailable),
    }
}

/// As the connection manager's users know it.
fn errno(error: &Error) -> Errno {
    match error {
        Error::Refused { refusal, .. } => Errno::from_raw(refusal.status()),
        Error::StaleHandle => Errno::ConnectionReset,
        Error::Timeout { .. } | Error::ResetTimeout { .. } => Errno::TimedOut,
        Error::CommandRingFull | Error::TransmitRingFull | Error::PrivateDataBuffers => Errno::NoBuffers,
        Error::Memory(_) => Errno::NoMemory,
        Error::PrivateDataLength { .. } | Error::WrongState { .. } | Error::Config(_) | Error::FrameLength { .. } => Errno::Invalid,
        Error::Bus(_) | Error::Stopped(_) | Error::Reset => Errno::NoDevice,
        Error::NotIronwarp { .. } | Error::Version { .. } | Error::RegisterPath { .. } | Error::BadReply { .. } => Errno::Io,
    }
}

fn explained(verb: &'static str) -> impl Fn(Error) -> Errno {
    move |error| {
        tracing::debug!("{verb}: {error}");
        errno(&error)
    }
}

impl Provider for Offload {
    fn query(&self) -> ProviderAttr {
        let addresses = self.with_rnic(|rnic| rnic.addresses()).unwrap_or_default();
        ProviderAttr {
            name: self.shared.config.name.clone(),
            node_guid: self.shared.counts.attr.node_guid,
            addresses: addresses.into_iter().map(IpAddr::V4).collect(),
            max_ird: self.shared.config.max_ird,
            max_ord: self.shared.config.max_ord,
        }
    }
    fn get_qp(&self, qpn: u32) -> Option<QpHandle> {
        self.shared.qps.get(qpn)?.add_ref();
        Some(QpHandle(qpn.into()))
    }
    fn add_ref(&self, qp: QpHandle) {
        if let Some(qp) = self.shared.qps.of(qp) {
            qp.add_ref();
        }
    }
    fn rem_ref(&self, qp: QpHandle) {
        if let Some(qp) = self.shared.qps.of(qp) {
            qp.rem_ref();
        }
    }
    fn modify_qp(&self, qp: QpHandle, to: QpState) -> Result<(), Errno> {
        let qp = self.shared.qps.of(qp).ok_or(Errno::Invalid)?;
        self.shared.modify(&qp, to)
    }
    fn connect(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let mpa = self.shared.mpa(param)?;
        let wanted = ConnectParam {
            local: ipv4(id.local_addr())?,
            qpn: param.qpn,
            private_data: param.private_data.to_vec(),
            ird: param.ird.min(self.shared.config.max_ird),
            ord: param.ord.min(self.shared.config.max_ord),
            enhanced: mpa.enhanced,
            peer_to_peer: mpa.peer_to_peer,
            retry: mpa.retry && mpa.enhanced && !mpa.peer_to_peer,
            no_crc: !mpa.crc,
            tos: id.tos().unwrap_or(0),
            timeout: param.timeout,
            ..ConnectParam::new(ipv4(id.remote_addr())?)
        };
        let qp = self.shared.qps.get(param.qpn).ok_or(Errno::Invalid)?;
        qp.reserve()?;
        if let Err(e) = self.shared.renew(&qp) {
            qp.unbind(QpState::Init);
            return Err(e);
        }
        let opened = self.shared.with_rnic(|rnic, tables| {
            let connection = rnic.connect(&wanted).map_err(explained("connect"))?;
            qp.bind(connection);
            id.set_local_addr(connection.local.into());
            id.set_provider_data(connection.handle.0);
            tables.connections.insert(connection.handle, End { connection, id: Some(id), qpn: param.qpn });
            Ok(())
        });
        let opened = opened.and_then(|opened| opened);
        if opened.is_err() {
            qp.unbind(QpState::Init);
        }
        opened
    }
    fn accept(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let handle = Handle(id.provider_data());
        let qp = self.shared.qps.get(param.qpn).ok_or(Errno::Invalid).and_then(|qp| {
            qp.reserve()?;
            self.shared.renew(&qp).map(|()| qp.clone()).inspect_err(|_| qp.unbind(QpState::Init))
        });
        let accepted = self.shared.with_rnic(|rnic, tables| {
            let end = tables.connections.get_mut(&handle).ok_or(Errno::ConnectionReset)?;
            let connection = end.connection;
            let accept = |rnic: &mut Rnic| {
                let mpa = self.shared.mpa(param)?;
                let answer = AcceptParam {
                    qpn: param.qpn,
                    private_data: param.private_data.to_vec(),
                    ird: param.ird.min(self.shared.config.max_ird),
                    ord: param.ord.min(self.shared.config.max_ord),
                    no_crc: !mpa.crc,
                    strict: false,
                    tos: id.tos().unwrap_or(0),
                };
                qp.as_ref().map_err(|e| *e)?.bind(connection);
                rnic.accept(&connection, &answer).map_err(explained("accept"))
            };
            if let Err(why) = accept(rnic) {
                // CM-5: nobody else will end it
                if let Err(e) = rnic.abort(&connection) {
                    tracing::warn!("{connection}: abort after a failed accept: {e}");
                }
                return Err(why);
            }
            end.id = Some(id);
            end.qpn = param.qpn;
            Ok(())
        });
        let accepted = accepted.and_then(|accepted| accepted);
        if let (Err(_), Ok(qp)) = (&accepted, &qp) {
            qp.unbind(QpState::Init);
        }
        accepted
    }
    fn reject(&self, id: IdRef, private_data: &PrivateData) -> Result<(), Errno> {
        let handle = Handle(id.provider_data());
        self.shared.with_rnic(|rnic, tables| {
            // gone already: rejected, as far as anyone can tell (CM-27)
            let Some(end) = tables.connections.get(&handle) else { return Ok(()) };
            match rnic.reject(&end.connection, private_data) {
                Ok(()) | Err(Error::StaleHandle | Error::Refused { refusal: Refusal::NoEntry, .. }) => Ok(()),
                Err(e) => Err(explained("reject")(e)),
            }
        })?
    }
    fn create_listen(&self, id: IdRef, backlog: u32) -> Result<(), Errno> {
        let local = ipv4(id.local_addr())?;
        let backlog = Backlog::from(u16::try_from(backlog).unwrap_or(u16::MAX));
        self.shared.with_rnic(|rnic, tables| {
            let listener = rnic.create_listen_with(*local.ip(), local.port(), backlog).map_err(explained("listen"))?;
            id.set_local_addr(SocketAddrV4::new(listener.address, listener.port).into());
            id.set_provider_data(listener.handle.0);
            tables.listeners.insert(listener.handle, (listener, id));
            Ok(())
        })?
    }
    fn destroy_listen(&self, id: IdRef) -> Result<(), Errno> {
        let handle = Handle(id.provider_data());
        let ended = self.shared.with_rnic(|rnic, tables| {
            let (listener, _) = tables.listeners.remove(&handle).ok_or(Errno::Invalid)?;
            rnic.destroy_listen(listener).map_err(explained("destroy_listen"))
        });
        // a request that the dispatcher had taken before is raised before this returns (CM-22); those in the queue find no listener
        self.shared.wait_raised();
        match ended {
            // the adapter failed, and the listener with it
            Err(Errno::NoDevice) => Ok(()),
            other => other.and_then(|ended| ended),
        }
    }
}

impl std::fmt::Debug for Offload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offload").field("name", &self.shared.config.name).finish_non_exhaustive()
    }
}
