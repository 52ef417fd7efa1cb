// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected queue pairs on any device, for the commands that talk to a peer: rping, perf, cmtime, ucmatose.
use crate::{
    control::{self, ControlArgs, Serving},
    device::{AttachArgs, Device, Network},
    output::line,
    Failure,
};
use ironwarp_rdmacm::{Cm, CmDevice, ConnParam, Errno, EventChannel, Id, MpaOptions, Opt, Payload, PrivateData};
use ironwarp_rnic::{Offload, OffloadConfig};
use ironwarp_verbs::{Cq, Pd, Qp, QpCap, QpInitAttr, QpState, Wc, WcStatus};
use std::{
    cell::Cell,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

/// Entries of a completion queue.
const CQE: u32 = 1024;
/// Longest that a wait for completions or events goes on without a look at the connection.
const LOOK: Duration = Duration::from_millis(50);

/// From the end of a connection to the last of its completions.
const FLUSH: Duration = Duration::from_millis(200);
/// From flushed work requests to the end of the connection.
const CLOSING: Duration = Duration::from_secs(2);

/// The device and how connections are made on it.
#[derive(clap::Args, Clone, Debug)]
pub struct EndpointArgs {
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    control: ControlArgs,
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
    /// Seconds between the peer's Reply and the first message: Linux siw loses what comes in the first 0.1.
    #[arg(long, default_value_t = 0.0, value_parser = crate::device::pause)]
    first_fpdu_delay: f64,
    /// As a server, speak first if asked to (--device soft): against RFC 5044, but ib_write_lat without --p2p waits for it.
    #[arg(long)]
    eager_responder: bool,
    /// Goes to the peer with connect or accept.
    #[arg(long, default_value = "", value_parser = words)]
    private_data: PrivateData,
    /// As a server, turn every client away with these words (may be none).
    #[arg(long, value_parser = words)]
    reject: Option<PrivateData>,
    /// Largest wait for an answer of the peer, in seconds.
    #[arg(long, default_value_t = 30.0, value_parser = crate::device::seconds)]
    patience: f64,
}

fn words(text: &str) -> Result<PrivateData, String> {
    PrivateData::new(text.as_bytes()).map_err(|_| format!("at most {} octets", PrivateData::MAX))
}

/// Whom to talk to, in the manner of librdmacm's own programs.
#[derive(clap::Args, Clone, Debug)]
pub struct PeerArgs {
    /// The server's address; without it this is the server.
    #[arg(short = 's', long)]
    pub server: Option<IpAddr>,
    /// Address to listen on.
    #[arg(short = 'b', long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind: IpAddr,
    /// Port.
    #[arg(short = 'p', long, default_value_t = 7471)]
    pub port: u16,
}

/// An opened device.
pub struct Opened {
    /// Ends before what it tells of.
    _serving: Option<Serving>,
    verbs: Arc<dyn ironwarp_verbs::Device>,
    cm: Cm,
    pd: Arc<dyn Pd>,
    mpa: MpaOptions,
    private_data: PrivateData,
    reject: Option<PrivateData>,
    patience: Duration,
    /// Between the peer's Reply and the first message, where the device does not see to it.
    first_fpdu_delay: Duration,
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
                    eager_responder: self.eager_responder,
                    ..ironwarp_soft::SoftConfig::default()
                });
                self.opened(soft.clone(), soft, mpa, control::of_soft(&self.control)?, Duration::ZERO)
            }
            Device::Sim(_) | Device::Vfio(_) => {
                let address = self.address.ok_or("an adapter needs an address: --address 192.0.2.1/24")?;
                let mut rnic = self.attach.attach(self.attach.config())?;
                rnic.address_add(address.address, address.prefix, self.gateway)?;
                let offload = Offload::start(rnic, OffloadConfig::default())?;
                self.opened(offload.clone(), offload, mpa, self.control.open()?, Duration::from_secs_f64(self.first_fpdu_delay))
            }
        }
    }
    fn opened(
        &self,
        verbs: Arc<dyn ironwarp_verbs::Device>,
        provider: Arc<dyn ironwarp_iwcm::Provider>,
        mpa: MpaOptions,
        control: control::Control,
        first_fpdu_delay: Duration,
    ) -> Result<Opened, Failure> {
        let cm = Cm::new();
        cm.add_device(CmDevice::iwarp(verbs.clone(), provider))?;
        let pd = verbs.alloc_pd()?;
        let (told, its_cm) = (verbs.clone(), cm.clone());
        let serving = control.serve(move || control::tables_of_verbs(&*told, &its_cm))?;
        let (private_data, reject) = (self.private_data.clone(), self.reject.clone());
        let patience = Duration::from_secs_f64(self.patience);
        Ok(Opened { _serving: serving, verbs, cm, pd, mpa, private_data, reject, patience, first_fpdu_delay })
    }
}

/// Queues of one connection.
pub struct Queues {
    /// Queue pair.
    pub qp: Arc<dyn Qp>,
    /// Its completion queue, of both directions.
    pub cq: Arc<dyn Cq>,
}

/// An id with a channel of its own that has no connection yet.
pub struct Pending {
    id: Id,
    channel: EventChannel,
    private_data: PrivateData,
    patience: Duration,
    first_fpdu_delay: Duration,
}

/// Who waits for connections.
pub struct Listener {
    pending: Pending,
    reject: Option<PrivateData>,
}

/// A connection that was asked for, or is.
pub struct Endpoint {
    /// Its queues.
    pub queues: Queues,
    pending: Pending,
    closed: Cell<Option<Result<(), Errno>>>,
}

impl Opened {
    /// Longest wait for a peer.
    pub const fn patience(&self) -> Duration {
        self.patience
    }
    /// Reads that the device can have outstanding in either direction.
    pub fn depth(&self) -> u8 {
        let attr = self.verbs.query();
        attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom).min(u8::MAX.into()) as u8
    }
    /// The protection domain of all connections.
    pub fn pd(&self) -> &Arc<dyn Pd> {
        &self.pd
    }
    /// A new id whose events go to `channel`.
    pub fn id(&self, channel: &EventChannel) -> Result<Id, Failure> {
        let id = self.cm.create_id(channel);
        id.set_option(Opt::Mpa(self.mpa))?;
        Ok(id)
    }
    /// A new id with a channel of its own.
    pub fn create_id(&self) -> Result<Pending, Failure> {
        let channel = EventChannel::new()?;
        let id = self.id(&channel)?;
        let Opened { private_data, patience, first_fpdu_delay, .. } = self;
        Ok(Pending { id, channel, private_data: private_data.clone(), patience: *patience, first_fpdu_delay: *first_fpdu_delay })
    }
    /// A new id with the way to `remote`.
    pub fn resolve(&self, remote: SocketAddr, source: Option<IpAddr>) -> Result<Pending, Failure> {
        let pending = self.create_id()?;
        pending.resolve_addr(remote, source)?;
        pending.resolve_route()?;
        Ok(pending)
    }
    /// Waits for connections at `address`.
    pub fn listen(&self, address: SocketAddr, backlog: u32) -> Result<Listener, Failure> {
        let pending = self.create_id()?;
        pending.id.bind_addr(address)?;
        pending.id.listen(backlog).map_err(|e| format!("listen on {address}: {e}"))?;
        Ok(Listener { pending, reject: self.reject.clone() })
    }
    /// Queues for one connection, which become those of its id. Receives may be posted then.
    pub fn queues(&self, pending: &Pending, cap: QpCap) -> Result<Queues, Failure> {
        self.queues_by(cap, |init| pending.id.create_qp(&self.pd, init))
    }
    /// Queues of no id: connect and accept are told their number.
    pub fn spare_queues(&self, cap: QpCap) -> Result<Queues, Failure> {
        self.queues_by(cap, |init| self.verbs.create_qp(&self.pd, init))
    }
    fn queues_by(&self, cap: QpCap, make: impl FnOnce(&QpInitAttr) -> Result<Arc<dyn Qp>, Errno>) -> Result<Queues, Failure> {
        let cq = self.verbs.create_cq(CQE)?;
        let init = QpInitAttr { send_cq: cq.clone(), recv_cq: cq.clone(), cap, sq_sig_all: false };
        Ok(Queues { qp: make(&init)?, cq })
    }
}

impl Pending {
    /// The next event, which must be a success.
    fn happens(&self, what: &str) -> Result<Payload, Failure> {
        let event = self.channel.get_event(self.patience).map_err(|e| format!("{what}: {e}; no event came within --patience"))?;
        let kind = event.kind();
        let (_, payload) = event.ack();
        payload.status().map_err(|e| match payload.private_data() {
            Some(words) if !words.is_empty() => format!("{what}: {kind}: {e}; it says: {}", said(words)),
            _ => format!("{what}: {kind}: {e}"),
        })?;
        Ok(payload)
    }
    /// Finds the device and the own address.
    pub fn resolve_addr(&self, remote: SocketAddr, source: Option<IpAddr>) -> Result<(), Failure> {
        self.id.resolve_addr(source.map(|ip| SocketAddr::new(ip, 0)), remote, self.patience)?;
        self.happens(&format!("way to {remote}")).map(drop)
    }
    /// Finds the route.
    pub fn resolve_route(&self) -> Result<(), Failure> {
        self.id.resolve_route(self.patience)?;
        self.happens("route").map(drop)
    }
    /// Who asks, or is asked.
    pub fn remote_addr(&self) -> String {
        self.id.get_peer_addr().map_or_else(|| "the peer".into(), |address| address.to_string())
    }
    /// Asks for a connection; [`Endpoint::connected`] waits for it.
    pub fn connect(self, queues: Queues, depth: u8) -> Result<Endpoint, Failure> {
        self.id.connect(&self.param(depth)).map_err(|e| format!("connect to {}: {e}", self.remote_addr()))?;
        Ok(Endpoint { queues, pending: self, closed: Cell::new(None) })
    }
    /// Takes a connection; [`Endpoint::connected`] waits for it.
    pub fn accept(self, queues: Queues, depth: u8) -> Result<Endpoint, Failure> {
        self.id.accept(Some(&self.param(depth))).map_err(|e| format!("accept of {}: {e}", self.remote_addr()))?;
        Ok(Endpoint { queues, pending: self, closed: Cell::new(None) })
    }
    /// As many Reads each way.
    fn param(&self, depth: u8) -> ConnParam {
        let private_data = self.private_data.clone();
        ConnParam { responder_resources: depth, initiator_depth: depth, private_data, ..ConnParam::default() }
    }
}

/// Private data for people.
fn said(words: &PrivateData) -> String {
    String::from_utf8_lossy(words).escape_debug().to_string()
}

impl Listener {
    /// The next who asks; none after `bound`, or if it was turned away.
    pub fn next(&self, bound: Duration) -> Result<Option<Pending>, Failure> {
        let event = match self.pending.channel.get_event(bound) {
            Ok(event) => event,
            Err(Errno::TimedOut | Errno::Again) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        match event.ack() {
            (id, Payload::ConnectRequest { param, .. }) => {
                if let Some(words) = &self.reject {
                    let peer = id.get_peer_addr().map_or_else(|| "a peer".into(), |address| address.to_string());
                    line(format!("rejected {peer}, which says: {}", said(&param.private_data)));
                    // it may be gone already
                    let _ = id.reject(words);
                    return Ok(None);
                }
                let channel = EventChannel::new()?;
                id.migrate_id(&channel)?;
                let Pending { private_data, patience, .. } = &self.pending;
                // the first message is the peer's
                let first_fpdu_delay = Duration::ZERO;
                Ok(Some(Pending { id, channel, private_data: private_data.clone(), patience: *patience, first_fpdu_delay }))
            }
            (_, other) => Err(format!("{} where a request was awaited", other.kind()).into()),
        }
    }
}

impl Endpoint {
    /// Waits until it is connected, and the peer ready for the first message.
    pub fn connected(&self) -> Result<(), Failure> {
        match self.pending.happens(&self.pending.remote_addr())? {
            Payload::Established(_) => {
                std::thread::sleep(self.pending.first_fpdu_delay);
                Ok(())
            }
            other => Err(format!("{} where a connection was awaited", other.kind()).into()),
        }
    }
    /// Longest wait for the peer.
    pub const fn patience(&self) -> Duration {
        self.pending.patience
    }
    /// Has the connection left RTS?
    pub fn closed(&self) -> bool {
        self.queues.qp.query().state != QpState::Rts
    }
    /// Was its end told?
    pub fn disconnected(&self) -> bool {
        while let Some(event) = self.pending.channel.try_get_event() {
            if let (_, Payload::Disconnected(status)) = event.ack() {
                self.closed.set(Some(status));
            }
        }
        self.closed.get().is_some()
    }
    /// As [`Endpoint::closed`], but what is flushed may be seen a moment before the state.
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
    /// Closes in order; the end is told later.
    pub fn disconnect(&self) -> Result<(), Errno> {
        self.pending.id.disconnect()
    }
    /// Waits for the connection's end.
    pub fn wait_closed(&self) -> Result<(), Errno> {
        let deadline = Instant::now() + self.patience();
        loop {
            if let Some(status) = self.closed.get() {
                return status;
            }
            let event = self.pending.channel.get_event(deadline.saturating_duration_since(Instant::now()))?;
            if let (_, Payload::Disconnected(status)) = event.ack() {
                self.closed.set(Some(status));
            }
        }
    }
    /// The next completion. With `spin` it is looked for without a pause.
    pub fn complete(&self, spin: bool) -> Result<Wc, Failure> {
        self.completion(spin, Some(self.patience()))
    }
    /// As [`Endpoint::complete`], but within `bound`; without one, as long as there is a connection.
    pub fn completion(&self, spin: bool, bound: Option<Duration>) -> Result<Wc, Failure> {
        let mut found = Vec::with_capacity(1);
        let mut deadline = bound.map(|bound| Instant::now() + bound);
        let mut ending = false;
        let cq = &self.queues.cq;
        while cq.poll(1, &mut found)? == 0 {
            if !ending && self.closed() {
                // what is flushed comes a moment after the state
                ending = true;
                let flushed = Instant::now() + FLUSH;
                deadline = Some(deadline.map_or(flushed, |deadline| deadline.min(flushed)));
            } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(if ending { "the connection has ended" } else { "no completion came within --patience" }.into());
            }
            if spin {
                std::hint::spin_loop();
                continue;
            }
            cq.req_notify(false)?;
            if cq.poll(1, &mut found)? > 0 {
                break;
            }
            cq.wait(deadline.map_or(LOOK, |deadline| LOOK.min(deadline.saturating_duration_since(Instant::now()))))?;
        }
        Ok(found[0])
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
        self.disconnect()?;
        match self.wait_closed() {
            // the peer may be faster and harder
            Ok(()) | Err(Errno::ConnectionReset) => {}
            Err(e) => return Err(format!("close: {e}").into()),
        }
        self.destroy()
    }
    /// Gives everything back.
    pub fn destroy(self) -> Result<(), Failure> {
        // no event may be left unacknowledged
        self.disconnected();
        self.pending.id.destroy_qp()?;
        self.disconnected();
        self.pending.id.destroy_id()?;
        Ok(())
    }
}
