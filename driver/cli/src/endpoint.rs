// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected queue pairs on any device, for the commands that talk to a peer: rping, perf, cmtime, ucmatose.
use crate::{
    device::{AttachArgs, Device, Network},
    Failure,
};
use ironwarp_iwcm::{CmId, ConnParam, DeviceId, Errno, Event, EventKind, Handler, IwCm, MpaOptions, PrivateData, Provider, Verdict};
use ironwarp_rnic::{Offload, OffloadConfig};
use ironwarp_verbs::{Cq, Pd, Qp, QpCap, QpInitAttr, Wc, WcStatus};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        mpsc::{self, Receiver},
        Arc,
    },
    time::{Duration, Instant},
};

/// Entries of a completion queue.
const CQE: u32 = 1024;
/// Longest that a wait for completions or events goes on without a look at the connection.
const LOOK: Duration = Duration::from_millis(50);

/// From flushed work requests to the end of the connection.
const CLOSING: Duration = Duration::from_secs(2);

/// The device and how connections are made on it.
#[derive(clap::Args, Clone, Debug)]
pub struct EndpointArgs {
    #[command(flatten)]
    attach: AttachArgs,
    /// The adapter's address, as 192.0.2.1/24; the host's own TCP (--device soft) has its own.
    #[arg(long)]
    address: Option<Network>,
    /// Next hop for destinations beyond the network.
    #[arg(long)]
    gateway: Option<Ipv4Addr>,
    /// MPA revision 1, without IRD and ORD.
    #[arg(long)]
    mpa1: bool,
    /// Peer-to-peer: the first message is a ready-to-receive of this side.
    #[arg(long, conflicts_with = "mpa1")]
    p2p: bool,
    /// Do not ask for CRC; it is used if the peer asks.
    #[arg(long)]
    no_crc: bool,
    /// Ask the peer for markers.
    #[arg(long)]
    markers: bool,
    /// Seconds between the peer's Reply and the first message (--device soft): Linux siw loses what comes in the first 0.1.
    #[arg(long, default_value_t = 0.0, value_parser = crate::device::pause)]
    first_fpdu_delay: f64,
    /// Largest wait for an answer of the peer, in seconds.
    #[arg(long, default_value_t = 30.0, value_parser = crate::device::seconds)]
    patience: f64,
}

/// An opened device.
pub struct Opened {
    /// Its verbs.
    pub verbs: Arc<dyn ironwarp_verbs::Device>,
    cm: Arc<IwCm>,
    device: DeviceId,
    pd: Arc<dyn Pd>,
    mpa: MpaOptions,
    /// Longest wait for the peer.
    pub patience: Duration,
}

impl EndpointArgs {
    /// Opens the device.
    pub fn open(&self) -> Result<Opened, Failure> {
        let mpa = MpaOptions {
            enhanced: !self.mpa1,
            peer_to_peer: self.p2p,
            retry: !self.mpa1 && !self.p2p,
            crc: !self.no_crc,
            markers: self.markers,
        };
        match &self.attach.device.device {
            Device::Soft => {
                let soft = ironwarp_soft::Soft::new(ironwarp_soft::SoftConfig {
                    first_fpdu_delay: Duration::from_secs_f64(self.first_fpdu_delay),
                    ..ironwarp_soft::SoftConfig::default()
                });
                self.opened(soft.clone(), soft, mpa)
            }
            Device::Sim(_) | Device::Vfio(_) => {
                let address = self.address.ok_or("an adapter needs an address: --address 192.0.2.1/24")?;
                let mut rnic = self.attach.attach(self.attach.config())?;
                rnic.address_add(address.address, address.prefix, self.gateway)?;
                let offload = Offload::start(rnic, OffloadConfig::default())?;
                self.opened(offload.clone(), offload, mpa)
            }
        }
    }
    fn opened(&self, verbs: Arc<dyn ironwarp_verbs::Device>, provider: Arc<dyn Provider>, mpa: MpaOptions) -> Result<Opened, Failure> {
        let cm = IwCm::new();
        let device = cm.add_device(provider);
        let pd = verbs.alloc_pd()?;
        Ok(Opened { verbs, cm, device, pd, mpa, patience: Duration::from_secs_f64(self.patience) })
    }
}

/// Queues of one connection.
pub struct Queues {
    /// Queue pair.
    pub qp: Arc<dyn Qp>,
    /// Its completion queue, of both directions.
    pub cq: Arc<dyn Cq>,
}

/// A connection to be, or that is.
pub struct Endpoint {
    /// Its id.
    pub id: CmId,
    /// Its queues.
    pub queues: Queues,
    /// What the peer's private data was.
    pub private_data: PrivateData,
    events: Receiver<(CmId, Event)>,
    patience: Duration,
}

/// Who waits for connections.
pub struct Listener {
    id: CmId,
    events: Receiver<(CmId, Event)>,
}

/// A connection that was asked for.
pub struct Request {
    id: CmId,
    /// What the peer said.
    pub event: Event,
    events: Receiver<(CmId, Event)>,
}

fn watched() -> (Handler, Receiver<(CmId, Event)>) {
    let (sender, events) = mpsc::channel();
    let handler: Handler = Arc::new(move |id: &CmId, event: &Event| {
        // nobody listens to an endpoint that was dropped
        let _ = sender.send((id.clone(), event.clone()));
        Verdict::Keep
    });
    (handler, events)
}

impl Opened {
    /// The protection domain of all connections.
    pub fn pd(&self) -> &Arc<dyn Pd> {
        &self.pd
    }
    /// Queues for one connection.
    pub fn queues(&self, cap: QpCap) -> Result<Queues, Failure> {
        let cq = self.verbs.create_cq(CQE)?;
        let init = QpInitAttr { send_cq: cq.clone(), recv_cq: cq.clone(), cap, sq_sig_all: false };
        Ok(Queues { qp: self.verbs.create_qp(&self.pd, &init)?, cq })
    }
    fn param(&self, queues: &Queues, private_data: &[u8], depth: u16) -> Result<ConnParam, Failure> {
        let private_data = PrivateData::new(private_data)?;
        Ok(ConnParam { qpn: queues.qp.qp_num(), ird: depth, ord: depth, private_data, mpa: Some(self.mpa), timeout: None })
    }
    /// Waits for connections at `address`.
    pub fn listen(&self, address: SocketAddr, backlog: u32) -> Result<Listener, Failure> {
        let (handler, events) = watched();
        let id = self.cm.create_id(self.device, handler)?;
        id.bind(address)?;
        id.listen(backlog).map_err(|e| format!("listen on {address}: {e}"))?;
        Ok(Listener { id, events })
    }
    /// A new id, for [`Opened::start`].
    pub fn create_id(&self, remote: SocketAddr, source: Option<IpAddr>) -> Result<(CmId, Receiver<(CmId, Event)>), Failure> {
        let (handler, events) = watched();
        let id = self.cm.create_id(self.device, handler)?;
        id.set_remote(remote)?;
        if let Some(source) = source {
            id.bind(SocketAddr::new(source, 0))?;
        }
        Ok((id, events))
    }
    /// Asks for a connection; [`Endpoint::connected`] waits for it. Receives may have been posted.
    pub fn start(
        &self,
        (id, events): (CmId, Receiver<(CmId, Event)>),
        queues: Queues,
        private_data: &[u8],
        depth: u16,
    ) -> Result<Endpoint, Failure> {
        let param = self.param(&queues, private_data, depth)?;
        id.connect(&param).map_err(|e| format!("connect to {}: {e}", id.remote_addr()))?;
        Ok(Endpoint { id, queues, private_data: PrivateData::default(), events, patience: self.patience })
    }
    /// Takes a connection; [`Endpoint::connected`] waits for it.
    pub fn accept(&self, request: Request, queues: Queues, private_data: &[u8], depth: u16) -> Result<Endpoint, Failure> {
        let Request { id, event, events } = request;
        let param = self.param(&queues, private_data, depth)?;
        id.accept(&param).map_err(|e| format!("accept of {}: {e}", id.remote_addr()))?;
        Ok(Endpoint { id, queues, private_data: event.private_data, events, patience: self.patience })
    }
}

impl Listener {
    /// Where.
    pub fn local_addr(&self) -> SocketAddr {
        self.id.local_addr()
    }
    /// The next who asks; none after `bound`.
    pub fn next(&self, bound: Duration) -> Option<Request> {
        let deadline = Instant::now() + bound;
        loop {
            let (id, event) = self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()?;
            if event.kind == EventKind::ConnectRequest {
                let (handler, events) = watched();
                id.set_handler(handler);
                return Some(Request { id, event, events });
            }
        }
    }
}

impl Endpoint {
    /// Waits until it is connected.
    pub fn connected(&mut self) -> Result<(), Failure> {
        let (_, event) = self.events.recv_timeout(self.patience).map_err(|_| "no connection came within --patience")?;
        match event.kind {
            EventKind::ConnectReply | EventKind::Established => {
                event.status.map_err(|e| format!("{}: {e}", self.id.remote_addr()))?;
                if event.kind == EventKind::ConnectReply {
                    self.private_data = event.private_data;
                }
                Ok(())
            }
            other => Err(format!("{} where a connection was awaited", other.name()).into()),
        }
    }
    /// Longest wait for the peer.
    pub fn patience(&self) -> Duration {
        self.patience
    }
    /// Has the connection ended?
    pub fn closed(&self) -> bool {
        !matches!(self.id.state(), ironwarp_iwcm::State::Established)
    }
    /// As [`Endpoint::closed`], but what is flushed may be seen a moment before the end is told.
    pub fn closes(&self) -> bool {
        let start = Instant::now();
        while !self.closed() {
            if start.elapsed() > CLOSING {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
    /// Waits for the connection's end.
    pub fn wait_closed(&self) -> Result<(), Errno> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((_, event)) if event.kind == EventKind::Close => return event.status,
                Ok(_) => {}
                Err(_) => return Err(Errno::TimedOut),
            }
        }
    }
    /// The next completion. With `spin` it is looked for without a pause.
    pub fn complete(&self, spin: bool) -> Result<Wc, Failure> {
        let mut found = Vec::with_capacity(1);
        let deadline = Instant::now() + self.patience;
        let cq = &self.queues.cq;
        loop {
            if cq.poll(1, &mut found)? > 0 {
                return Ok(found[0]);
            }
            if spin {
                std::hint::spin_loop();
                if self.closed() && cq.poll(1, &mut found)? == 0 {
                    return Err("the connection has ended".into());
                }
                if Instant::now() < deadline {
                    continue;
                }
            } else {
                cq.req_notify(false)?;
                if cq.poll(1, &mut found)? > 0 {
                    return Ok(found[0]);
                }
                if cq.wait(LOOK)? || Instant::now() < deadline {
                    if self.closed() && cq.poll(1, &mut found)? == 0 {
                        return Err("the connection has ended".into());
                    }
                    if !found.is_empty() {
                        return Ok(found[0]);
                    }
                    continue;
                }
            }
            return Err("no completion came within --patience".into());
        }
    }
    /// The next completion, which must be a success.
    pub fn success(&self, spin: bool) -> Result<Wc, Failure> {
        let wc = self.complete(spin)?;
        if wc.status != WcStatus::Success {
            let attr = self.queues.qp.query();
            let why = attr.terminate_in.or(attr.terminate_out).map(|t| format!("; Terminate {t}")).unwrap_or_default();
            return Err(format!("{:?} of work request {}: {}{why}", wc.opcode, wc.wr_id, wc.status.text()).into());
        }
        Ok(wc)
    }
    /// Closes in order, and waits for the end.
    pub fn close(self) -> Result<(), Failure> {
        self.id.disconnect(false)?;
        match self.wait_closed() {
            // the peer may be faster and harder
            Ok(()) | Err(Errno::ConnectionReset) => {}
            Err(e) => return Err(format!("close: {e}").into()),
        }
        self.destroy()
    }
    /// Gives everything back.
    pub fn destroy(self) -> Result<(), Failure> {
        self.id.destroy()?;
        self.queues.qp.destroy()?;
        Ok(())
    }
}

impl Request {
    /// Who asks.
    pub fn remote_addr(&self) -> SocketAddr {
        self.id.remote_addr()
    }
}
