// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two soft devices, or one and a peer of plain octets, and what a test asks of them.
#![allow(dead_code, unreachable_pub)]
use ironwarp_iwcm::{CmId, ConnParam, DeviceId, Event, EventKind, IwCm, Verdict};
use ironwarp_soft::{Soft, SoftConfig};
use ironwarp_verbs::*;
use ironwarp_wire::{ddp, fpdu, mpa};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{mpsc, Arc},
    time::{Duration, Instant},
};

pub const BOUND: Duration = Duration::from_secs(10);

/// A device with a connection manager, and one of everything.
pub struct Side {
    pub soft: Arc<Soft>,
    pub cm: Arc<IwCm>,
    pub device: DeviceId,
    pub pd: Arc<dyn Pd>,
    pub cq: Arc<dyn Cq>,
    pub recv_cq: Arc<dyn Cq>,
    pub qp: Arc<dyn Qp>,
    pub mr: Arc<dyn Mr>,
    pub id: Option<CmId>,
    pub told: mpsc::Receiver<(CmId, Event)>,
    tell: mpsc::Sender<(CmId, Event)>,
}

pub const ALL: Access = Access::all();

impl Side {
    pub fn new(config: SoftConfig) -> Self {
        Self::sized(config, 1 << 20, ALL)
    }
    pub fn sized(config: SoftConfig, memory: usize, access: Access) -> Self {
        Self::over(Soft::new(config), memory, access)
    }
    /// Another of everything, on a device that is there.
    pub fn on(soft: &Arc<Soft>) -> Self {
        Self::over(soft.clone(), 1 << 20, ALL)
    }
    fn over(soft: Arc<Soft>, memory: usize, access: Access) -> Self {
        let cm = IwCm::new();
        let device = cm.add_device(soft.clone());
        let pd = soft.alloc_pd().expect("domain");
        let (cq, recv_cq) = (soft.create_cq(1000).expect("queue"), soft.create_cq(1000).expect("queue"));
        let cap = QpCap { max_send_wr: 256, max_recv_wr: 256, max_send_sge: 8, max_recv_sge: 8, max_inline_data: 256 };
        let init = QpInitAttr { send_cq: cq.clone(), recv_cq: recv_cq.clone(), cap, sq_sig_all: true };
        let qp = soft.create_qp(&pd, &init).expect("queue pair");
        let mr = pd.alloc_mr(memory, access).expect("memory");
        let (tell, told) = mpsc::channel();
        Side { soft, cm, device, pd, cq, recv_cq, qp, mr, id: None, told, tell }
    }
    pub fn id(&self) -> CmId {
        let tell = self.tell.clone();
        let handler = Arc::new(move |id: &CmId, event: &Event| {
            let _ = tell.send((id.clone(), event.clone()));
            Verdict::Keep
        });
        self.cm.create_id(self.device, handler).expect("id")
    }
    pub fn listen(&self, backlog: u32) -> CmId {
        let id = self.id();
        id.bind("127.0.0.1:0".parse().expect("address")).expect("bind");
        id.listen(backlog).expect("listen");
        id
    }
    pub fn param(&self, depth: u16) -> ConnParam {
        ConnParam { qpn: self.qp.qp_num(), ird: depth, ord: depth, ..ConnParam::default() }
    }
    pub fn connect(&mut self, to: SocketAddr, param: &ConnParam) {
        let id = self.id();
        id.set_remote(to).expect("remote");
        id.connect(param).expect("connect");
        self.id = Some(id);
    }
    pub fn event(&self, kind: EventKind) -> (CmId, Event) {
        let (id, event) = self.told.recv_timeout(BOUND).unwrap_or_else(|_| panic!("{} does not come", kind.name()));
        assert_eq!(event.kind, kind, "{event:?}");
        (id, event)
    }
    pub fn accept(&mut self, param: &ConnParam) -> Event {
        let (child, event) = self.event(EventKind::ConnectRequest);
        child.accept(param).expect("accept");
        self.id = Some(child);
        event
    }
    pub fn stat(&self, name: &str) -> u64 {
        self.soft.stats().into_iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
    pub fn fill(&self, seed: u8) {
        let octets: Vec<u8> = (0..self.mr.length()).map(|n| (n as u8).wrapping_mul(31).wrapping_add((n >> 8) as u8) ^ seed).collect();
        self.mr.write(0, &octets).expect("inside");
    }
    pub fn octets(&self, at: usize, n: usize) -> Vec<u8> {
        let mut octets = vec![0; n];
        self.mr.read(at, &mut octets).expect("inside");
        octets
    }
    pub fn recv(&self, wr_id: u64, at: usize, n: usize) {
        let sg_list = if n > 0 { vec![self.mr.sge(at, n)] } else { vec![] };
        self.qp.post_recv(&[RecvWr { wr_id, sg_list }]).expect("post");
    }
    pub fn send(&self, wr_id: u64, op: SendOp, at: usize, n: usize) {
        let sg_list = if n > 0 { vec![self.mr.sge(at, n)] } else { vec![] };
        self.qp.post_send(&[SendWr { wr_id, op, sg_list, inline: None, flags: SendFlags::empty() }]).expect("post");
    }
    /// The next completion.
    pub fn wc(cq: &Arc<dyn Cq>) -> Wc {
        let until = Instant::now() + BOUND;
        let mut found = Vec::new();
        loop {
            if cq.poll(1, &mut found).expect("queue") > 0 {
                return found[0];
            }
            assert!(Instant::now() < until, "no completion");
            cq.req_notify(false).expect("arm");
            if cq.poll(1, &mut found).expect("queue") > 0 {
                return found[0];
            }
            cq.wait(Duration::from_millis(200)).expect("wait");
        }
    }
    pub fn sent(&self, wr_id: u64) -> Wc {
        let wc = Self::wc(&self.cq);
        assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::Success), "{wc:?}, terminate {:?}", self.qp.query());
        wc
    }
    pub fn received(&self, wr_id: u64, n: usize) -> Wc {
        let wc = Self::wc(&self.recv_cq);
        assert_eq!((wc.wr_id, wc.status, wc.byte_len as usize), (wr_id, WcStatus::Success, n), "{wc:?} {:?}", self.qp.query());
        wc
    }
    pub fn state(&self, state: QpState) {
        let until = Instant::now() + BOUND;
        while self.qp.query().state != state {
            assert!(Instant::now() < until, "{:?}, not {state:?}", self.qp.query());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Short timers.
pub fn config() -> SoftConfig {
    SoftConfig {
        connect_timeout: Duration::from_secs(5),
        close_timeout: Duration::from_secs(2),
        terminate_timeout: Duration::from_millis(500),
        ..SoftConfig::default()
    }
}

/// Two sides that are connected: initiator, responder, and the listener.
pub fn pair(mut a: Side, mut b: Side, depth: u16) -> (Side, Side, CmId) {
    let listener = b.listen(4);
    let param = a.param(depth);
    a.connect(listener.local_addr(), &param);
    let param = b.param(depth);
    b.accept(&param);
    let (_, reply) = a.event(EventKind::ConnectReply);
    assert_eq!(reply.status, Ok(()));
    b.event(EventKind::Established);
    (a, b, listener)
}

/// A peer of plain octets.
pub struct Raw {
    pub stream: TcpStream,
    pub crc: bool,
}

pub fn frame(kind: mpa::Kind, rest: &[u8]) -> Vec<u8> {
    [&kind.key()[..], rest].concat()
}

impl Raw {
    /// Initiator of octets against a listener; `b` accepts.
    pub fn initiator(b: &mut Side, depth: u16, request: &[u8]) -> (Self, CmId) {
        let listener = b.listen(4);
        let mut stream = TcpStream::connect(listener.local_addr()).expect("connect");
        stream.set_read_timeout(Some(BOUND)).expect("timeout");
        stream.set_nodelay(true).expect("option");
        stream.write_all(&frame(mpa::Kind::Request, request)).expect("request");
        let param = b.param(depth);
        b.accept(&param);
        let mut raw = Raw { stream, crc: true };
        raw.start_up();
        (raw, listener)
    }
    /// Responder of octets.
    pub fn responder(a: &mut Side, param: &ConnParam, reply: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        a.connect(listener.local_addr().expect("address"), param);
        let (stream, _) = listener.accept().expect("accept");
        stream.set_read_timeout(Some(BOUND)).expect("timeout");
        stream.set_nodelay(true).expect("option");
        let mut raw = Raw { stream, crc: true };
        raw.start_up();
        raw.write(&frame(mpa::Kind::Reply, reply));
        raw
    }
    pub fn start_up(&mut self) -> Vec<u8> {
        let mut octets = vec![0; 20];
        self.stream.read_exact(&mut octets).expect("start-up frame");
        let n = usize::from(u16::from_be_bytes([octets[18], octets[19]]));
        octets.resize(20 + n, 0);
        self.stream.read_exact(&mut octets[20..]).expect("private data");
        octets
    }
    pub fn write(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).expect("write");
    }
    pub fn fpdu(ulpdu: &[u8], crc: bool) -> Vec<u8> {
        let mut out = vec![0; fpdu::wire_len(ulpdu.len(), None)];
        let mut writer = fpdu::Writer::new(&mut out, ulpdu.len(), None).expect("room");
        writer.put(ulpdu).expect("room");
        writer.finish(crc).expect("whole");
        out
    }
    pub fn send(&mut self, header: ddp::Header, payload: &[u8]) {
        let mut ulpdu = vec![0; header.len()];
        header.emit(&mut ulpdu).expect("room");
        ulpdu.extend(payload);
        let octets = Self::fpdu(&ulpdu, self.crc);
        self.write(&octets);
    }
    /// The next ULPDU; none at FIN.
    pub fn ulpdu(&mut self) -> Option<Vec<u8>> {
        let mut octets = vec![0; 2];
        match self.stream.read(&mut octets[..1]) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => panic!("no FPDU: {error}"),
        }
        self.stream.read_exact(&mut octets[1..]).expect("length");
        let n = fpdu::len(&octets, None).expect("length");
        octets.resize(n, 0);
        self.stream.read_exact(&mut octets[2..]).expect("FPDU");
        Some(fpdu::open(&mut octets, None, self.crc).expect("good").to_vec())
    }
    /// RST, or FIN where either may come.
    pub fn gone(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_err()
    }
}
