// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport of iWARP: `ironwarp-iwcm` over any provider.
//!
//! | event below | status | told above |
//! |---|---|---|
//! | CONNECT_REQUEST | | CONNECT_REQUEST, with a new id |
//! | CONNECT_REPLY | 0 | ESTABLISHED, never CONNECT_RESPONSE |
//! | CONNECT_REPLY | ECONNREFUSED, ECONNRESET | REJECTED |
//! | CONNECT_REPLY | ETIMEDOUT | UNREACHABLE |
//! | CONNECT_REPLY | any other | CONNECT_ERROR |
//! | ESTABLISHED | any | ESTABLISHED |
//! | DISCONNECT | | nothing |
//! | CLOSE | any | DISCONNECTED |
use crate::{
    core::lock,
    transport::{unspecified, Request, Resolver, Transport, TransportAttr, TransportEvent, TransportId, Upcall},
    Errno, Options, Prepared, PrivateData, Received,
};
use ironwarp_iwcm::{CmId, ConnParam, DeviceId, Event, EventKind, Handler, IwCm, Provider, Verdict};
use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

/// A device of the iWARP connection manager.
pub struct IwTransport {
    cm: Arc<IwCm>,
    device: DeviceId,
    provider: Arc<dyn Provider>,
}

impl IwTransport {
    /// With a connection manager of its own.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self::with(IwCm::new(), provider)
    }
    /// As one more device of `cm`.
    #[must_use]
    pub fn with(cm: Arc<IwCm>, provider: Arc<dyn Provider>) -> Self {
        let device = cm.add_device(provider.clone());
        IwTransport { cm, device, provider }
    }
}

impl Transport for IwTransport {
    fn query(&self) -> TransportAttr {
        let attr = self.provider.query();
        TransportAttr {
            name: attr.name,
            node_guid: attr.node_guid,
            addresses: attr.addresses,
            max_responder_resources: attr.max_ird,
            max_initiator_depth: attr.max_ord,
            max_private_data: PrivateData::MAX,
            accept_needs_param: true,
        }
    }

    fn resolve_addr(&self, source: Option<IpAddr>, destination: IpAddr, _timeout: Duration, answer: Resolver<IpAddr>) {
        // a provider that takes any address uses the host's routes
        answer.answer(source.map_or_else(|| host_source(destination), Ok));
    }

    fn create_id(&self, upcall: Arc<dyn Upcall>) -> Result<Arc<dyn TransportId>, Errno> {
        let told = Arc::new(Told(Mutex::new(Some(upcall))));
        let id = self.cm.create_id(self.device, told.handler())?;
        Ok(Arc::new(IwId { id, told }))
    }

    fn removed(&self) {
        // ENODEV: somebody else has removed it already
        let _ = self.cm.remove_device(self.device);
    }
}

/// The address that the host would use to send to `destination`. Nothing is sent.
fn host_source(destination: IpAddr) -> Result<IpAddr, Errno> {
    /// Any port does: discard.
    const PORT: u16 = 9;
    let socket = UdpSocket::bind(SocketAddr::new(unspecified(destination), 0))?;
    socket.connect(SocketAddr::new(destination, PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// Who is told of an id's events; nobody once it is destroyed.
struct Told(Mutex<Option<Arc<dyn Upcall>>>);

impl Told {
    fn handler(self: &Arc<Self>) -> Handler {
        let told = self.clone();
        Arc::new(move |id, event| told.tell(id, event))
    }

    fn tell(&self, id: &CmId, event: &Event) -> Verdict {
        let Some(upcall) = lock(&self.0).clone() else { return Verdict::Destroy };
        let event = if event.kind == EventKind::ConnectRequest {
            let told = Arc::new(Told(Mutex::new(None)));
            id.set_handler(told.handler());
            TransportEvent::Request(Request {
                id: Arc::new(IwId { id: id.clone(), told }),
                local: event.local_addr,
                remote: event.remote_addr,
                received: received(event),
            })
        } else {
            match translate(event) {
                Some(event) => event,
                None => return Verdict::Keep,
            }
        };
        match upcall.event(event) {
            Ok(()) => Verdict::Keep,
            Err(_) => Verdict::Destroy,
        }
    }
}

fn translate(event: &Event) -> Option<TransportEvent> {
    let established = || TransportEvent::Established { ends: Some((event.local_addr, event.remote_addr)), received: received(event) };
    Some(match (event.kind, event.status) {
        (EventKind::ConnectReply, Ok(())) | (EventKind::Established, _) => established(),
        (EventKind::ConnectReply, Err(status @ (Errno::ConnectionRefused | Errno::ConnectionReset))) => {
            let private_data = event.private_data.clone();
            TransportEvent::Rejected { status, consumer: !private_data.is_empty(), private_data }
        }
        (EventKind::ConnectReply, Err(Errno::TimedOut)) => TransportEvent::Unreachable(Errno::TimedOut),
        (EventKind::ConnectReply, Err(errno)) => TransportEvent::ConnectError(errno),
        (EventKind::Close, status) => TransportEvent::Disconnected(status),
        (EventKind::Disconnect | EventKind::ConnectRequest, _) => return None,
    })
}

/// The depths as CM-26 has them.
fn received(event: &Event) -> Received {
    Received { private_data: event.private_data.clone(), responder_resources: event.iw_ord(), initiator_depth: event.iw_ird() }
}

struct IwId {
    id: CmId,
    told: Arc<Told>,
}

fn iw_param(param: &Prepared, options: &Options) -> ConnParam {
    ConnParam {
        qpn: param.qp_num,
        ird: param.responder_resources,
        ord: param.initiator_depth,
        private_data: param.private_data.clone(),
        mpa: options.mpa,
        timeout: options.connect_timeout,
    }
}

impl IwId {
    fn prepare(&self, options: &Options) {
        if let Some(tos) = options.tos {
            self.id.set_tos(tos);
        }
    }
}

impl TransportId for IwId {
    fn set_upcall(&self, upcall: Arc<dyn Upcall>) {
        *lock(&self.told.0) = Some(upcall);
    }
    fn listen(&self, local: SocketAddr, backlog: u32, options: &Options) -> Result<(), Errno> {
        self.prepare(options);
        self.id.bind(local)?;
        self.id.listen(backlog)
    }
    fn connect(&self, local: SocketAddr, remote: SocketAddr, param: &Prepared, options: &Options) -> Result<(), Errno> {
        self.prepare(options);
        self.id.bind(local)?;
        self.id.set_remote(remote)?;
        self.id.connect(&iw_param(param, options))
    }
    fn accept(&self, param: Option<&Prepared>, options: &Options) -> Result<(), Errno> {
        self.prepare(options);
        self.id.accept(&iw_param(param.ok_or(Errno::Invalid)?, options))
    }
    fn reject(&self, private_data: &PrivateData) -> Result<(), Errno> {
        self.id.reject(private_data)
    }
    fn disconnect(&self) -> Result<(), Errno> {
        self.id.disconnect(false)
    }
    fn local_addr(&self) -> SocketAddr {
        self.id.local_addr()
    }
    fn destroy(&self) {
        if let Err(errno) = self.id.destroy() {
            tracing::warn!(id = ?self.id, %errno, "the provider does not let go of an id");
        }
        // not under the lock: perhaps the last owner of a device
        let upcall = lock(&self.told.0).take();
        drop(upcall);
    }
}
