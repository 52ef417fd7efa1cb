// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device of either kind by its verbs, and peers that send it any octets: the ground for tests of what a wrong peer causes.
use crate::{address, config, conformance::Side, peer::Peers};
use ironwarp_abi::{work::access, Command};
use ironwarp_iwcm::{CmId, ConnParam, Event, EventKind, Handler, Provider, Verdict};
use ironwarp_rnic::{Config, DmaMemory, Offload, OffloadConfig, Rnic, TcpSettings};
use ironwarp_sim::{
    bus::lock,
    wire::{Captured, Queue, QueueHandle, Timestamps, View, Wire},
    AdapterConfig, DmaConfig, InProcessBus, SharedWorld, World,
};
use ironwarp_soft::{Soft, SoftConfig};
use ironwarp_verbs::{Access, Cq, Errno, Mr, Pd, Qp, QpCap, QpInitAttr, RecvWr, SendFlags, SendOp, SendWr, Wc};
use ironwarp_wire::{ddp, fpdu, mpa};
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        mpsc::{self, Receiver},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

/// Clocks between two looks at the wire.
const STEP: u64 = 64;
/// Clocks within which what must come comes.
const CLOCKS: u64 = 400_000;
/// Longest wait of a device that lives in wall time.
const BOUND: Duration = Duration::from_secs(20);
/// Memory of a page of the host.
const PAGE: u64 = 4096;

/// A device and the peers of its connections, which are numbered.
pub trait Stage {
    /// The device.
    fn side(&self) -> &Side;
    /// A peer connects.
    fn dial(&mut self, to: SocketAddr) -> usize;
    /// A peer that the device can connect to once.
    fn await_dial(&mut self) -> (SocketAddr, usize);
    /// The peer sends octets.
    fn send(&mut self, peer: usize, octets: &[u8]);
    /// The peer sends FIN.
    fn finish(&mut self, peer: usize);
    /// The peer resets.
    fn reset(&mut self, peer: usize);
    /// What came to the peer.
    fn heard(&mut self, peer: usize) -> &mut Heard;
    /// The peer acknowledges what comes, or not, and offers that much room from now on. False where nobody can tell a TCP so.
    fn restrain(&mut self, _peer: usize, _silent: bool, _offer: u16) -> bool {
        false
    }
    /// Peers to come take no more than that in a segment, as far as anyone can tell the device.
    fn limit(&mut self, _mss: u16) {}
    /// A region with that STag and that TO, where the device can give it such; else one with those of its own. `bound`: for that queue pair alone.
    fn region(&mut self, pd: &Arc<dyn Pd>, _stag: u32, _to: u64, length: usize, rights: Access, bound: Option<u32>) -> Arc<dyn Mr> {
        let mr = pd.alloc_mr(length, rights).expect("memory");
        if bound.is_some() {
            mr.restrict(bound).expect("restricted");
        }
        mr
    }
    /// Lets some time pass.
    fn pass(&mut self);
    /// A point of time that is far away.
    fn bound(&self) -> Bound;
    /// Is it over?
    fn is_over(&self, bound: Bound) -> bool;
    /// Octets of host memory beside a region that the device could reach.
    fn behind(&self, mr: &dyn Mr) -> Vec<u8>;
    /// Time so far, in whatever unit.
    fn now(&self) -> u64;
    /// Everything of all connections, for a message.
    fn explain(&self) -> String;
}

/// A bound of a wait, in the time of the stage.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Clocks.
    Clocks(u64),
    /// Wall time.
    Wall(Instant),
}

/// What came to a peer.
#[derive(Debug, Default)]
pub struct Heard {
    /// Octets that were not looked at yet.
    pub octets: Vec<u8>,
    /// The device's FIN.
    pub fin: bool,
    /// The device's RST.
    pub reset: bool,
}

impl Heard {
    /// The FPDU at the front, if it is whole, and its ULPDU. With markers its place in the stream says where they stand.
    pub fn fpdu(&mut self, position: Option<usize>, crc: bool) -> Option<(Vec<u8>, Vec<u8>)> {
        let whole = fpdu::len(&self.octets, position).ok().filter(|n| self.octets.len() >= *n)?;
        let one: Vec<u8> = self.octets.drain(..whole).collect();
        let ulpdu = fpdu::open(&mut one.clone(), position, crc).expect("a good FPDU").to_vec();
        Some((one, ulpdu))
    }
}

/// Lets time pass until `done` has something. Panics at the bound.
pub fn until<T>(stage: &mut dyn Stage, what: &str, mut done: impl FnMut(&mut dyn Stage) -> Option<T>) -> T {
    let bound = stage.bound();
    loop {
        if let Some(it) = done(stage) {
            return it;
        }
        assert!(!stage.is_over(bound), "{what} does not come: {}", stage.explain());
        stage.pass();
    }
}

/// An FPDU.
pub fn framed(ulpdu: &[u8]) -> Vec<u8> {
    framed_at(ulpdu, None)
}

/// An FPDU with the markers of that place in a stream.
pub fn framed_at(ulpdu: &[u8], position: Option<usize>) -> Vec<u8> {
    let mut out = vec![0; fpdu::wire_len(ulpdu.len(), position)];
    let mut writer = fpdu::Writer::new(&mut out, ulpdu.len(), position).expect("room");
    writer.put(ulpdu).expect("room");
    writer.finish(true).expect("whole");
    out
}

/// A ULPDU.
pub fn segment(header: ddp::Header, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = vec![0; header.len()];
    header.emit(&mut ulpdu).expect("room");
    ulpdu.extend(payload);
    ulpdu
}

/// The next ULPDU that came to a peer; none if FIN or RST came instead.
pub fn next_ulpdu(stage: &mut dyn Stage, peer: usize) -> Option<Vec<u8>> {
    until(stage, "an FPDU or FIN", |stage| {
        let heard = stage.heard(peer);
        let one = heard.fpdu(None, true);
        if one.is_some() {
            return Some(one.map(|(_, ulpdu)| ulpdu));
        }
        (heard.fin || heard.reset).then(|| {
            assert!(heard.octets.is_empty() || heard.reset, "FIN in the middle of an FPDU: {:02x?}", heard.octets);
            None
        })
    })
}

/// A start-up frame that came to a peer.
fn start_up(stage: &mut dyn Stage, peer: usize) -> Vec<u8> {
    until(stage, "a start-up frame", |stage| {
        let octets = &mut stage.heard(peer).octets;
        let whole = octets.get(18..20).map(|n| 20 + usize::from(u16::from_be_bytes([n[0], n[1]])));
        whole.filter(|n| octets.len() >= *n).map(|n| octets.drain(..n).collect())
    })
}

/// A start-up frame of revision 2 with CRC, and IRD and ORD of the peer.
fn frame(kind: mpa::Kind, ird: u16, ord: u16) -> Vec<u8> {
    let [[i, j], [o, p]] = [ird, ord].map(u16::to_be_bytes);
    [&kind.key()[..], &[0x50, 2, 0, 4, i, j, o, p]].concat()
}

/// What a test has at the device of one connection.
pub struct End {
    /// Protection domain.
    pub pd: Arc<dyn Pd>,
    /// Where sends complete.
    pub cq: Arc<dyn Cq>,
    /// Where receives complete.
    pub recv_cq: Arc<dyn Cq>,
    /// Queue pair.
    pub qp: Arc<dyn Qp>,
    /// Its peer.
    pub peer: usize,
    id: Option<CmId>,
    told: Receiver<Event>,
    handler: Handler,
}

impl End {
    /// Without a connection.
    pub fn new(stage: &dyn Stage) -> Self {
        let verbs = &stage.side().verbs;
        let pd = verbs.alloc_pd().expect("domain");
        Self::of(stage, pd, verbs.create_cq(64).expect("queue"), verbs.create_cq(64).expect("queue"))
    }
    /// With a domain and queues that others may use before and after it.
    pub fn of(stage: &dyn Stage, pd: Arc<dyn Pd>, cq: Arc<dyn Cq>, recv_cq: Arc<dyn Cq>) -> Self {
        let verbs = &stage.side().verbs;
        let init = QpInitAttr { send_cq: cq.clone(), recv_cq: recv_cq.clone(), cap: QpCap::default(), sq_sig_all: true };
        let qp = verbs.create_qp(&pd, &init).expect("queue pair");
        let (tell, told) = mpsc::channel();
        let handler: Handler = Arc::new(move |_: &CmId, event: &Event| {
            // a test that is over does not listen
            let _ = tell.send(event.clone());
            Verdict::Keep
        });
        End { pd, cq, recv_cq, qp, peer: usize::MAX, id: None, told, handler }
    }
    fn param(&self, depth: u16) -> ConnParam {
        ConnParam { qpn: self.qp.qp_num(), ird: depth, ord: depth, ..ConnParam::default() }
    }
    /// A peer connects to it; IRD and ORD are `depth` on both sides.
    pub fn served(stage: &mut dyn Stage, listener: &Ear, depth: u16) -> Self {
        let mut end = End::new(stage);
        let param = end.param(depth);
        end.accept(stage, listener, &frame(mpa::Kind::Request, depth, depth), &param);
        end.event(stage, EventKind::Established);
        end
    }
    /// A peer connects to it with a Request; the Reply.
    pub fn accept(&mut self, stage: &mut dyn Stage, listener: &Ear, request: &[u8], param: &ConnParam) -> Vec<u8> {
        self.peer = stage.dial(listener.address());
        stage.send(self.peer, request);
        let id = until(stage, "CONNECT_REQUEST", |_| listener.requests.try_recv().ok());
        id.set_handler(self.handler.clone());
        id.accept(param).expect("accepted");
        self.id = Some(id);
        start_up(stage, self.peer)
    }
    /// It connects to a peer.
    pub fn connected(stage: &mut dyn Stage, depth: u16) -> Self {
        let mut end = End::new(stage);
        let param = end.param(depth);
        end.connect(stage, &param);
        stage.send(end.peer, &frame(mpa::Kind::Reply, depth, depth));
        assert_eq!(end.event(stage, EventKind::ConnectReply).status, Ok(()));
        end
    }
    /// It connects to a peer, which does not answer yet; the Request.
    pub fn connect(&mut self, stage: &mut dyn Stage, param: &ConnParam) -> Vec<u8> {
        let (address, peer) = stage.await_dial();
        self.peer = peer;
        let id = stage.side().cm.create_id(stage.side().device, self.handler.clone()).expect("id");
        id.set_remote(address).expect("idle");
        id.connect(param).expect("connect");
        self.id = Some(id);
        start_up(stage, peer)
    }
    /// The next event, which is of that kind. The peer's FIN is told by DISCONNECT where the device does: it is passed over.
    pub fn event(&self, stage: &mut dyn Stage, kind: EventKind) -> Event {
        let event = until(stage, kind.name(), |_| self.told.try_recv().ok().filter(|e| e.kind != EventKind::Disconnect));
        assert_eq!(event.kind, kind, "{event:?}");
        event
    }
    /// Nothing more was told.
    pub fn assert_silent(&self) {
        let more: Vec<_> = self.told.try_iter().filter(|e| e.kind != EventKind::Disconnect).collect();
        assert!(more.is_empty(), "{more:?}");
        for cq in [&self.cq, &self.recv_cq] {
            let mut more = Vec::new();
            cq.poll(16, &mut more).expect("polled");
            assert!(more.is_empty(), "{more:?}");
        }
    }
    /// Its connection.
    pub fn id(&self) -> &CmId {
        self.id.as_ref().expect("connected")
    }
    /// Posts a receive into `n` octets from `at` on.
    pub fn recv(&self, wr_id: u64, mr: &Arc<dyn Mr>, at: usize, n: usize) {
        let sg_list = if n > 0 { vec![mr.sge(at, n)] } else { vec![] };
        self.qp.post_recv(&[RecvWr { wr_id, sg_list }]).expect("posted");
    }
    /// Posts a send of `n` octets from `at` on.
    pub fn post(&self, wr_id: u64, op: SendOp, flags: SendFlags, mr: &Arc<dyn Mr>, at: usize, n: usize) {
        let sg_list = if n > 0 { vec![mr.sge(at, n)] } else { vec![] };
        self.qp.post_send(&[SendWr { wr_id, op, sg_list, inline: None, flags }]).expect("posted");
    }
    /// The next completion of a queue.
    pub fn completion(stage: &mut dyn Stage, cq: &Arc<dyn Cq>) -> Wc {
        until(stage, "a completion", |_| {
            let mut one = Vec::new();
            cq.poll(1, &mut one).expect("polled");
            one.pop()
        })
    }
    /// Gives all back.
    pub fn end(mut self) {
        if let Some(id) = self.id.take() {
            id.destroy().expect("destroyed");
        }
        self.qp.destroy().expect("nobody refers to it");
    }
}

/// A listener, and the connections that came.
pub struct Ear {
    id: CmId,
    requests: Receiver<CmId>,
}

impl Ear {
    /// Listens at any port.
    pub fn new(stage: &dyn Stage) -> Self {
        let (tell, requests) = mpsc::channel();
        let handler: Handler = Arc::new(move |id: &CmId, event: &Event| {
            if event.kind == EventKind::ConnectRequest {
                // a test that is over does not listen
                let _ = tell.send(id.clone());
            }
            Verdict::Keep
        });
        let side = stage.side();
        let id = side.cm.create_id(side.device, handler).expect("id");
        id.bind(SocketAddr::new(side.address, 0)).expect("idle");
        id.listen(4).expect("listens");
        Ear { id, requests }
    }
    fn address(&self) -> SocketAddr {
        self.id.local_addr()
    }
    /// Listens no more.
    pub fn end(self) {
        self.id.destroy().expect("destroyed");
    }
}

/// A region with what must stand in it, and in the rest of its last page.
pub struct Watched {
    /// The region.
    pub mr: Arc<dyn Mr>,
    expected: Vec<u8>,
}

impl Watched {
    /// A region of `pd`, full of octets that depend on `seed`.
    pub fn new(pd: &Arc<dyn Pd>, length: usize, rights: Access, seed: u8) -> Self {
        let mr = pd.alloc_mr(length, rights).expect("memory");
        let octet = |n: usize| (n as u8).wrapping_mul(31).wrapping_add((n >> 8) as u8) ^ seed;
        let expected: Vec<u8> = (0..length).map(octet).collect();
        mr.write(0, &expected).expect("inside");
        Watched { mr, expected }
    }
    /// From now on that must stand there.
    pub fn expect(&mut self, at: usize, octets: &[u8]) {
        self.expected[at..at + octets.len()].copy_from_slice(octets);
    }
    /// What must stand there.
    pub fn octets(&self, at: usize, n: usize) -> &[u8] {
        &self.expected[at..at + n]
    }
    /// Not one octet is another.
    pub fn check(&self, stage: &dyn Stage, what: &str) {
        let mut is = vec![0; self.expected.len()];
        self.mr.read(0, &mut is).expect("inside");
        let wrong: Vec<_> = (0..is.len()).filter(|n| is[*n] != self.expected[*n]).collect();
        assert!(wrong.is_empty(), "{what}: octets {:?}.. ({} of them) of a region changed", wrong.first(), wrong.len());
        let behind = stage.behind(&*self.mr);
        assert!(behind.iter().all(|o| *o == 0), "{what}: octets behind a region changed");
    }
}

// ---- a simulated adapter

/// How a simulated adapter is set up.
#[derive(Default)]
pub struct Options<'a> {
    /// Of its memories and random choices.
    pub seed: u64,
    /// Timers; TIME-WAIT is always short.
    pub tcp: TcpSettings,
    /// The host's memory.
    pub dma: DmaConfig,
    /// A file for all frames.
    pub capture: Option<&'a Path>,
}

/// An adapter in this process, driven by the driver without interrupts: time passes when the test or the driver lets it.
pub struct AdapterStage {
    world: SharedWorld,
    offload: Arc<Offload>,
    side: Side,
    peers: Peers,
    heard: Vec<Heard>,
    /// Of regions whose TOs are not IOVAs: STag, first IOVA.
    placed: Vec<(u32, u64)>,
}

/// A region of an adapter with any STag and any TO, at any place of a page.
#[derive(Debug)]
struct Placed {
    offload: Arc<Offload>,
    memory: Arc<DmaMemory>,
    iova: u64,
    stag: u32,
    to: u64,
    length: usize,
}

/// Octets of memory before a [`Placed`].
const BEFORE: usize = 72;

impl Placed {
    fn check(&self, offset: usize, length: usize) -> Result<(), Errno> {
        (offset + length <= self.length).then_some(()).ok_or(Errno::Fault)
    }
    fn object(&self, command: Command) -> Result<(), Errno> {
        self.offload.with_rnic(|rnic| rnic.object(command).map_err(|e| e.refusal().map_or(Errno::Io, |r| Errno::from_raw(r.status()))))?
    }
}

impl Mr for Placed {
    fn addr(&self) -> u64 {
        self.to
    }
    fn length(&self) -> usize {
        self.length
    }
    fn lkey(&self) -> u32 {
        self.stag
    }
    fn rkey(&self) -> u32 {
        self.stag
    }
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Errno> {
        self.check(offset, to.len()).map(|()| self.memory.read(BEFORE + offset, to))
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), Errno> {
        self.check(offset, from.len()).map(|()| self.memory.write(BEFORE + offset, from))
    }
    fn rekey(&self, _: Access) -> Result<(u32, u32), Errno> {
        Err(Errno::NotSupported)
    }
    fn dereg(&self) -> Result<(), Errno> {
        self.object(Command::deregister_mr(0, self.stag))
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // a test that failed has not deregistered it; then nobody looks at the memory any more
        let _ = self.offload.with_rnic(|rnic| rnic.unshare(self.iova));
    }
}

impl AdapterStage {
    /// An adapter alone on its wire.
    pub fn new(options: Options<'_>) -> Self {
        let Options { seed, tcp, dma, capture } = options;
        let mut world = World::new(0);
        let id = world.add(&AdapterConfig { dma, ..AdapterConfig::new("a", seed) });
        let (queue, handle): (Queue, QueueHandle) = Queue::new();
        let queue: Box<dyn Wire> = match capture {
            None => Box::new(queue),
            Some(file) => {
                let stamps = Timestamps::Cycles { picoseconds: 16_000 };
                Box::new(Captured::new(Box::new(queue), file, &["a"], View::End(0), stamps).expect("a file"))
            }
        };
        world.connect(queue, &[id]);
        let world = Arc::new(Mutex::new(world));
        let tcp = TcpSettings { two_msl_us: Some(10), ..tcp };
        let settings = Config { tcp, share: false, interrupts: false, ..config(1, seed) };
        let bus: Box<dyn ironwarp_rnic::Bus> = Box::new(InProcessBus::new(&world, id));
        let mut rnic = Rnic::attach(bus, settings).expect("attach");
        rnic.address_add(address(1), 24, None).expect("ADDRESS_ADD");
        let offload = Offload::start(rnic, OffloadConfig::default()).expect("started");
        let side = Side::new(&offload, Provider::query(&*offload).addresses[0]);
        let mut stage = AdapterStage { world, offload, side, peers: Peers::new(handle), heard: Vec::new(), placed: Vec::new() };
        for _ in 0..20 {
            stage.pass();
        }
        stage
    }
    /// A counter by its name.
    pub fn counter(&self, name: &str) -> u64 {
        let rows = self.side.verbs.stats();
        rows.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
    /// Connections that are not given back.
    pub fn connections(&self) -> usize {
        self.offload.with_rnic(|rnic| rnic.connections()).expect("alive")
    }
    /// Nothing lives, nothing odd was told, no rule of a port was broken, nothing was reached that was not given.
    pub fn assert_over(mut self) {
        let stage: &mut dyn Stage = &mut self;
        until(stage, "the end of all connections", |s| (s.explain().starts_with("0 connections")).then_some(()));
        assert_eq!(self.offload.ids(), (0, 0));
        for name in ["drvStrayCompletions", "drvRefusedRequests", "dmaReadErrors", "dmaWriteErrors", "doorbellErrors", "cqOverflows"] {
            assert_eq!(self.counter(name), 0, "{name}");
        }
        assert_eq!(self.counter("connCreated"), self.counter("connFreed"));
        lock(&self.world).assert_clean();
    }
}

impl Stage for AdapterStage {
    fn side(&self) -> &Side {
        &self.side
    }
    fn dial(&mut self, to: SocketAddr) -> usize {
        self.peers.dial(to.port())
    }
    fn await_dial(&mut self) -> (SocketAddr, usize) {
        let (port, peer) = self.peers.await_dial();
        (SocketAddr::new(IpAddr::V4(address(2)), port), peer)
    }
    fn send(&mut self, peer: usize, octets: &[u8]) {
        self.peers.list[peer].send(octets);
    }
    fn finish(&mut self, peer: usize) {
        self.peers.list[peer].finish();
    }
    fn reset(&mut self, peer: usize) {
        self.peers.reset(peer);
    }
    fn heard(&mut self, peer: usize) -> &mut Heard {
        while self.heard.len() <= peer {
            self.heard.push(Heard::default());
        }
        let (heard, peer) = (&mut self.heard[peer], &mut self.peers.list[peer]);
        heard.octets.append(&mut peer.received);
        (heard.fin, heard.reset) = (peer.fin, peer.reset);
        heard
    }
    fn restrain(&mut self, peer: usize, silent: bool, offer: u16) -> bool {
        let one = &mut self.peers.list[peer];
        (one.silent, one.offer) = (silent, offer);
        self.peers.acknowledge(peer);
        true
    }
    fn limit(&mut self, mss: u16) {
        self.peers.mss = mss;
    }
    fn region(&mut self, pd: &Arc<dyn Pd>, stag: u32, to: u64, length: usize, rights: Access, bound: Option<u32>) -> Arc<dyn Mr> {
        let bits = [
            (Access::LOCAL_WRITE, access::LOCAL_WRITE),
            (Access::REMOTE_WRITE, access::REMOTE_WRITE),
            (Access::REMOTE_READ, access::REMOTE_READ),
            (Access::REMOTE_INVALIDATE, access::REMOTE_INVALIDATE),
        ];
        let bits = bits.iter().filter(|(right, _)| rights.contains(*right)).fold(0, |all, (_, bit)| all | bit);
        let shared = self.offload.with_rnic(|rnic| rnic.share(BEFORE + length)).expect("alive");
        let (iova, memory) = shared.expect("memory");
        let region = Placed { offload: self.offload.clone(), memory, iova, stag, to, length };
        let (pd, bound) = (pd.handle() as u16, bound.map(|qpn| qpn as u16));
        let at = iova + BEFORE as u64;
        region.object(Command::register_mr(0, stag, pd, bits, to, at, length as u64, bound)).expect("registered");
        self.placed.retain(|(other, _)| *other != stag);
        self.placed.push((stag, at));
        Arc::new(region)
    }
    fn pass(&mut self) {
        let now = {
            let mut world = lock(&self.world);
            world.run(STEP);
            world.cycle()
        };
        self.peers.poll(now);
        // the dispatcher's turn: it sleeps longer than that between two looks at the ring
        std::thread::sleep(Duration::from_micros(20));
    }
    fn bound(&self) -> Bound {
        Bound::Clocks(lock(&self.world).cycle() + CLOCKS)
    }
    fn is_over(&self, bound: Bound) -> bool {
        matches!(bound, Bound::Clocks(end) if lock(&self.world).cycle() >= end)
    }
    fn behind(&self, mr: &dyn Mr) -> Vec<u8> {
        let placed = self.placed.iter().find(|(stag, _)| *stag == mr.rkey());
        let (start, before) = placed.map_or((mr.addr(), 0), |(_, iova)| (*iova, BEFORE));
        let end = start + mr.length() as u64;
        let mut octets = vec![0; before + (end.next_multiple_of(PAGE) - end) as usize];
        let world = lock(&self.world);
        let table = world.adapter(0).dma_table().read().unwrap_or_else(|e| e.into_inner());
        table.read(start - before as u64, &mut octets[..before]).expect("mapped");
        table.read(end, &mut octets[before..]).expect("mapped");
        octets
    }
    fn now(&self) -> u64 {
        lock(&self.world).cycle()
    }
    fn explain(&self) -> String {
        let rows = self.offload.with_rnic(|rnic| rnic.connection_rows());
        let counts: Vec<_> = self.side.verbs.stats().into_iter().filter(|(_, n)| *n != 0).collect();
        format!("{} connections: {rows:?} {counts:?}", rows.as_ref().map_or(0, Vec::len))
    }
}

// ---- the host-integrated device

enum Socket {
    Waits(TcpListener),
    Open(TcpStream),
    Closed,
}

/// A soft device and peers over the sockets of this machine.
pub struct SoftStage {
    soft: Arc<Soft>,
    side: Side,
    sockets: Vec<(Socket, Heard)>,
    start: Instant,
}

impl SoftStage {
    /// A device of its own.
    pub fn new(config: SoftConfig) -> Self {
        let soft = Soft::new(config);
        let side = Side::new(&soft, IpAddr::V4(Ipv4Addr::LOCALHOST));
        SoftStage { soft, side, sockets: Vec::new(), start: Instant::now() }
    }
    fn open(&mut self, socket: Socket) -> usize {
        self.sockets.push((socket, Heard::default()));
        self.sockets.len() - 1
    }
    /// A counter by its name.
    pub fn counter(&self, name: &str) -> u64 {
        let rows = ironwarp_verbs::Device::stats(&*self.soft);
        rows.into_iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

fn open(stream: TcpStream) -> Socket {
    stream.set_nodelay(true).expect("option");
    stream.set_nonblocking(true).expect("option");
    Socket::Open(stream)
}

impl Stage for SoftStage {
    fn side(&self) -> &Side {
        &self.side
    }
    fn dial(&mut self, to: SocketAddr) -> usize {
        let stream = TcpStream::connect(to).expect("connected");
        self.open(open(stream))
    }
    fn await_dial(&mut self) -> (SocketAddr, usize) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        listener.set_nonblocking(true).expect("option");
        (listener.local_addr().expect("bound"), self.open(Socket::Waits(listener)))
    }
    fn send(&mut self, peer: usize, octets: &[u8]) {
        let Socket::Open(stream) = &mut self.sockets[peer].0 else { return };
        let mut left = octets;
        let end = Instant::now() + BOUND;
        while !left.is_empty() {
            match stream.write(left) {
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                // reset meanwhile
                Err(_) => return,
            }
            assert!(Instant::now() < end, "{} octets are not taken", left.len());
        }
    }
    fn finish(&mut self, peer: usize) {
        if let Socket::Open(stream) = &self.sockets[peer].0 {
            // gone meanwhile is as good
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
    }
    fn reset(&mut self, peer: usize) {
        if let Socket::Open(stream) = &self.sockets[peer].0 {
            // RST instead of FIN
            let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
        self.sockets[peer].0 = Socket::Closed;
    }
    fn heard(&mut self, peer: usize) -> &mut Heard {
        &mut self.sockets[peer].1
    }
    fn pass(&mut self) {
        let mut idle = true;
        for (socket, heard) in &mut self.sockets {
            if let Socket::Waits(listener) = socket {
                if let Ok((stream, _)) = listener.accept() {
                    *socket = open(stream);
                }
            }
            let Socket::Open(stream) = socket else { continue };
            let mut some = [0; 4096];
            match stream.read(&mut some) {
                Ok(0) => heard.fin = true,
                Ok(n) => {
                    heard.octets.extend(&some[..n]);
                    idle = false;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => heard.reset = true,
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
    fn bound(&self) -> Bound {
        Bound::Wall(Instant::now() + BOUND)
    }
    fn is_over(&self, bound: Bound) -> bool {
        matches!(bound, Bound::Wall(end) if Instant::now() >= end)
    }
    fn behind(&self, _mr: &dyn Mr) -> Vec<u8> {
        Vec::new()
    }
    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
    fn explain(&self) -> String {
        format!("{:?}", ironwarp_verbs::Device::stats(&*self.soft))
    }
}
