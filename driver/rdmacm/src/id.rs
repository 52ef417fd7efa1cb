// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client's handle of an id: the rdma_cm calls.
use crate::{
    core::{Core, QpSlot},
    Call, Cm, ConnParam, DeviceKey, Errno, EventChannel, InitQpAttr, Notify, Opt, PrivateData, State,
};
use ironwarp_verbs::{Access, Device, Pd, Qp, QpInitAttr, QpState};
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

/// How long [`Id::destroy_id`] and [`Id::migrate_id`] wait for acknowledgements.
const ACK_LIMIT: Duration = Duration::from_secs(60);

/// An id (`rdma_cm_id`): a connection, or a listener. Clones are the same id; when the last one goes away the id is destroyed. Events keep
/// one, so that an id is not lost while something is known of it.
///
/// Which call is allowed when is in [`State`]: all others answer EINVAL and change nothing.
#[derive(Clone)]
pub struct Id(Arc<Handle>);

/// Shared by all handles of the client.
pub(crate) struct Handle(pub(crate) Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

impl Id {
    pub(crate) const fn from_handle(handle: Arc<Handle>) -> Self {
        Id(handle)
    }
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0 .0
    }

    /// Own address (`rdma_bind_addr`). Unspecified = any, port 0 = chosen by the device when listening or connecting. EADDRNOTAVAIL if no device
    /// has it. EADDRINUSE if another id of this connection manager has the port, see [`Opt::ReuseAddr`]; that another program has it shows when
    /// listening or connecting, since devices own their ports.
    pub fn bind_addr(&self, address: SocketAddr) -> Result<(), Errno> {
        self.core().bind_addr(address)
    }

    /// Finds the device and the own address for the way to `destination` (`rdma_resolve_addr`). Ends in ADDR_RESOLVED or ADDR_ERROR.
    pub fn resolve_addr(&self, source: Option<SocketAddr>, destination: SocketAddr, timeout: Duration) -> Result<(), Errno> {
        self.core().resolve_addr(source, destination, timeout)
    }

    /// Finds the route (`rdma_resolve_route`). Ends in ROUTE_RESOLVED or ROUTE_ERROR; at once on iWARP.
    pub fn resolve_route(&self, timeout: Duration) -> Result<(), Errno> {
        self.core().resolve_route(timeout)
    }

    /// Makes the id's queue pair (`rdma_create_qp`), once it has a device. connect and accept use it and bring it to RTS; a failure brings it to ERROR.
    pub fn create_qp(&self, pd: &Arc<dyn Pd>, init: &QpInitAttr) -> Result<Arc<dyn Qp>, Errno> {
        let (device, _op) = self.core().begin(Call::CreateQp, |inner| {
            let device = inner.device()?;
            if !matches!(inner.qp, QpSlot::None) {
                return Err(Errno::Invalid);
            }
            inner.qp = QpSlot::Making;
            Ok(device)
        })?;
        let made = device.verbs.create_qp(pd, init);
        self.core().lock().qp = match &made {
            Ok(qp) => QpSlot::Some(qp.clone()),
            Err(_) => QpSlot::None,
        };
        made
    }

    /// Destroys it (`rdma_destroy_qp`): ends its connection and waits until nobody refers to it. Harmless without one.
    pub fn destroy_qp(&self) -> Result<(), Errno> {
        let (slot, _op) = self.core().begin(Call::DestroyQp, |inner| match inner.qp {
            QpSlot::Making => Err(Errno::Invalid),
            _ => Ok(std::mem::take(&mut inner.qp)),
        })?;
        match slot {
            QpSlot::Some(qp) => qp.destroy(),
            _ => Ok(()),
        }
    }

    /// The id's queue pair.
    #[must_use]
    pub fn qp(&self) -> Option<Arc<dyn Qp>> {
        match &self.core().lock().qp {
            QpSlot::Some(qp) => Some(qp.clone()),
            _ => None,
        }
    }

    /// What to set in a queue pair that the client drives itself (`rdma_init_qp_attr`). EINVAL for a state that no client sets.
    pub fn init_qp_attr(&self, state: QpState) -> Result<InitQpAttr, Errno> {
        let inner = self.core().lock();
        inner.state.call(Call::InitQpAttr)?;
        inner.device()?;
        match state {
            QpState::Init => Ok(InitQpAttr { state, access: Some(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ) }),
            QpState::Rts => Ok(InitQpAttr { state, access: None }),
            _ => Err(Errno::Invalid),
        }
    }

    /// Listens (`rdma_listen`). A listener at an unspecified address listens on every device, also on those that come later; if one
    /// refuses, none listens. `backlog` counts twice: as many peers may be half-way through their set-up at each device, and as many
    /// requests may wait for accept or reject; the next ones are refused as busy. 0 = 256.
    pub fn listen(&self, backlog: u32) -> Result<(), Errno> {
        self.core().listen(backlog)
    }

    /// Connects (`rdma_connect`). Ends in ESTABLISHED (CONNECT_RESPONSE on a three-way transport), REJECTED, UNREACHABLE or CONNECT_ERROR. EINVAL without
    /// a queue pair. After an error it may be called again.
    pub fn connect(&self, param: &ConnParam) -> Result<(), Errno> {
        self.core().connect(param)
    }

    /// Accepts the peer's request (`rdma_accept`). Ends in ESTABLISHED. EINVAL without parameters, on iWARP, or without a queue pair: then the request still
    /// waits. After any other error it is rejected and the queue pair is in ERROR.
    pub fn accept(&self, param: Option<&ConnParam>) -> Result<(), Errno> {
        self.core().accept(param)
    }

    /// Rejects it (`rdma_reject`). EINVAL on the active side.
    pub fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        self.core().reject(private_data)
    }

    /// Completes the connection after CONNECT_RESPONSE (`rdma_establish`). Done already if the queue pair is the id's own. EINVAL on iWARP.
    pub fn establish(&self) -> Result<(), Errno> {
        self.core().establish()
    }

    /// Closes in order (`rdma_disconnect`). Ends in DISCONNECTED if it was connected. Harmless the second time, or when the connection
    /// is gone or was refused; waits for a reply that is under way.
    pub fn disconnect(&self) -> Result<(), Errno> {
        self.core().disconnect()
    }

    /// Tells of an event of the queue pair (`rdma_notify`). Of no effect on iWARP.
    pub fn notify(&self, what: Notify) -> Result<(), Errno> {
        let (transport, _op) = self.core().begin(Call::Notify, |inner| inner.transport_id())?;
        transport.notify(what)
    }

    /// From now on events go to `channel` (`rdma_migrate_id`), also those that were not read. Waits until those that were read are
    /// acknowledged: ETIMEDOUT after a minute, with the id moved.
    pub fn migrate_id(&self, channel: &EventChannel) -> Result<(), Errno> {
        self.core().migrate(channel.queue(), ACK_LIMIT)
    }

    /// Sets an option (`rdma_set_option`).
    pub fn set_option(&self, opt: Opt) -> Result<(), Errno> {
        let call = match opt {
            Opt::ReuseAddr(_) | Opt::AfOnly(_) => Call::SetBindOption,
            _ => Call::SetOption,
        };
        let core = self.core();
        let mut inner = core.lock();
        inner.state.call(call)?;
        match (opt, inner.state) {
            (Opt::ReuseAddr(true), State::AddrBound) => core.shared.ports.share(core.number),
            // others may share its port by now
            (Opt::ReuseAddr(false), State::AddrBound) => return Err(Errno::Invalid),
            _ => {}
        }
        inner.options.set(opt);
        Ok(())
    }

    /// Own end (`rdma_get_local_addr`), as far as it is known: the port that was chosen shows when it listens or is connected.
    #[must_use]
    pub fn get_local_addr(&self) -> Option<SocketAddr> {
        self.core().lock().local
    }

    /// The peer's end (`rdma_get_peer_addr`).
    #[must_use]
    pub fn get_peer_addr(&self) -> Option<SocketAddr> {
        self.core().lock().peer
    }

    /// Own port (`rdma_get_src_port`), 0 if none is known.
    #[must_use]
    pub fn get_src_port(&self) -> u16 {
        self.get_local_addr().map_or(0, |a| a.port())
    }

    /// The peer's port (`rdma_get_dst_port`), 0 if none is known.
    #[must_use]
    pub fn get_dst_port(&self) -> u16 {
        self.get_peer_addr().map_or(0, |a| a.port())
    }

    /// The device's verbs (`id->verbs`), once the id has a device.
    #[must_use]
    pub fn verbs(&self) -> Option<Arc<dyn Device>> {
        self.core().lock().device.as_ref().map(|d| d.verbs.clone())
    }

    /// The device, once the id has one.
    #[must_use]
    pub fn device(&self) -> Option<DeviceKey> {
        self.core().lock().device.as_ref().map(|d| d.key)
    }

    /// What the id is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.core().lock().state
    }

    /// Number of the id in its [`Cm`], never used twice.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.core().number
    }

    /// The connection manager that it belongs to.
    #[must_use]
    pub fn cm(&self) -> Cm {
        Cm::from_shared(self.core().shared.clone())
    }

    /// Destroys the id (`rdma_destroy_id`): a connection is reset, a listener stops, requests that nobody read are rejected, and unread
    /// events are gone. Then waits until the events that were read are acknowledged: do that first. ETIMEDOUT if that takes more
    /// than a minute: the id is destroyed nevertheless. Harmless the second time.
    ///
    /// Its queue pair is not destroyed, only let go of: [`Id::destroy_qp`] comes before.
    pub fn destroy_id(&self) -> Result<(), Errno> {
        self.destroy_id_within(ACK_LIMIT)
    }

    /// [`Id::destroy_id`] with another bound of the wait for acknowledgements.
    pub fn destroy_id_within(&self, limit: Duration) -> Result<(), Errno> {
        self.core().shut_down();
        self.core().wait_acked(limit)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Id {}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.core().row(), f)
    }
}

/// An id as tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRow {
    /// See [`Id::number`].
    pub number: u64,
    /// See [`Id::state`].
    pub state: State,
    /// See [`Id::get_local_addr`].
    pub local: Option<SocketAddr>,
    /// See [`Id::get_peer_addr`].
    pub peer: Option<SocketAddr>,
    /// See [`Id::device`].
    pub device: Option<DeviceKey>,
    /// Number of the id's queue pair, see [`Id::qp`].
    pub qp_num: Option<u32>,
}

impl Core {
    pub(crate) fn row(&self) -> IdRow {
        let inner = self.lock();
        IdRow {
            number: self.number,
            state: inner.state,
            local: inner.local,
            peer: inner.peer,
            device: inner.device.as_ref().map(|d| d.key),
            qp_num: match &inner.qp {
                QpSlot::Some(qp) => Some(qp.qp_num()),
                _ => None,
            },
        }
    }
}
