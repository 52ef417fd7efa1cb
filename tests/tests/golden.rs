// SPDX-License-Identifier: MIT OR Apache-2.0
//! The start-up of every captured connection of Linux siw, and of the worked examples, played against the adapter in either role. The peer is a
//! plain TCP that sends the captured octets as they were cut into segments, octet by octet, and in one segment; some of them in segments that come in
//! any order.
//!
//! `tests/golden/siw.tsv` and `examples.tsv` hold the octets (`tools/golden/extract.py` says in which form), `expected.tsv` what must come of them by
//! the requirements. Its columns: conversation; the adapter's role; what its host asks for, as `accept IRD/ORD data`, `strict` the same, `reject data`,
//! `connect rev1|rev2|p2p IRD/ORD data`; what it tells its host, as `revision flags IRD/ORD octets` of a Request or `status revision flags IRD/ORD
//! own IRD/own ORD octets` of a Reply, whose private data are the last octets of the frame; the start-up frame that it sends, or how
//! the connection ends without one; and where and why that is not what siw did.
use ironwarp_abi::Counter;
use ironwarp_rnic::{AcceptParam, Backlog, Config, ConnectParam, Connection, Event, Refusal, Rnic, StartUp, TcpSettings};
use ironwarp_sim::{
    bus::lock,
    wire::{Queue, QueueHandle},
    AdapterConfig, InProcessBus, SharedWorld, World,
};
use ironwarp_tests::{address, assert_clean, config, counter, counters, mac, Attached, ANY};
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{
        ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpProtocol,
        Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddrV4,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

const PORT: u16 = 7471;
/// Clocks between two looks at the wire and the events.
const STEP: u64 = 50;
/// Clocks within which what must come comes.
const BOUND: u64 = 100_000;
/// Clocks after which nothing comes any more.
const SILENCE: u64 = 1500;
const MPA_TIMEOUT_US: u32 = 700;
const CONNECT_TIMEOUT: Duration = Duration::from_micros(700);
/// Octets of a start-up frame before its private data.
const HEADER: usize = 20;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
/// "Do not negotiate".
const OPEN: u16 = 0x3fff;

// ---- tables

/// A conversation as it was captured: segments of the side with the SYN, and of the other.
struct Captured {
    opener: Vec<String>,
    other: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Responder,
    Initiator,
}

struct Row {
    name: String,
    role: Role,
    asked: String,
    tells: String,
    sends: String,
    why: String,
}

fn columns<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let rows = text.lines().filter(|l| !l.starts_with('#'));
    rows.map(|l| l.split('\t').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("not {N} columns: {l}")))
}

fn captured() -> BTreeMap<&'static str, Captured> {
    let cut = |text: &str| text.split('+').filter(|s| *s != "-").map(str::to_owned).collect();
    let tables = [include_str!("../golden/siw.tsv"), include_str!("../golden/examples.tsv")];
    tables
        .into_iter()
        .flat_map(columns::<3>)
        .map(|[name, opener, other]| (name, Captured { opener: cut(opener), other: cut(other) }))
        .collect()
}

fn rows() -> Vec<Row> {
    columns::<6>(include_str!("../golden/expected.tsv"))
        .map(|[name, role, asked, tells, sends, why]| Row {
            name: name.into(),
            role: match role {
                "responder" => Role::Responder,
                "initiator" => Role::Initiator,
                _ => panic!("{name}: {role}"),
            },
            asked: asked.into(),
            tells: tells.into(),
            sends: sends.into(),
            why: why.into(),
        })
        .collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap_or_else(|_| panic!("{text}"))).collect()
}

/// Octets of a segment, with the keys of RFC 5044.
fn octets(segment: &str) -> Vec<u8> {
    match segment.split_at_checked(4) {
        Some(("req:", rest)) => [b"MPA ID Req Frame".to_vec(), hex(rest)].concat(),
        Some(("rep:", rest)) => [b"MPA ID Rep Frame".to_vec(), hex(rest)].concat(),
        _ => hex(segment),
    }
}

fn numbers(text: &str) -> (u16, u16) {
    let (ird, ord) = text.split_once('/').unwrap_or_else(|| panic!("{text}"));
    (ird.parse().expect(text), ord.parse().expect(text))
}

/// Octets of the frame at the front of `octets`, as its PD_Length says.
fn frame_len(octets: &[u8]) -> usize {
    HEADER + usize::from(u16::from_be_bytes([octets[18], octets[19]]))
}

/// What a frame must be that is `frame`, but with `crc` for its C bit.
fn with_crc(frame: &[u8], crc: bool) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[16] = frame[16] & !CRC | if crc { CRC } else { 0 };
    frame
}

// ---- a peer

/// One side of a TCP connection over a wire that loses nothing: takes what comes in order, acknowledges it, and sends what it is told to.
struct Peer {
    wire: QueueHandle,
    port: u16,
    adapter_port: u16,
    next: TcpSeqNumber,
    /// Acknowledged by the adapter.
    acked: TcpSeqNumber,
    /// What each segment of the adapter has acknowledged that was an ACK and nothing else.
    acks: Vec<TcpSeqNumber>,
    expected: Option<TcpSeqNumber>,
    received: Vec<u8>,
    fin: bool,
    reset: bool,
}

impl Peer {
    fn new(wire: &QueueHandle, port: u16, adapter_port: u16) -> Self {
        let start = TcpSeqNumber(0x7fff_fff0_u32 as i32);
        Peer {
            wire: wire.clone(),
            port,
            adapter_port,
            next: start,
            acked: start,
            acks: vec![],
            expected: None,
            received: vec![],
            fin: false,
            reset: false,
        }
    }
    fn send(&mut self, control: TcpControl, payload: &[u8]) {
        let tcp = TcpRepr {
            src_port: self.port,
            dst_port: self.adapter_port,
            control,
            seq_number: self.next,
            ack_number: self.expected,
            window_len: 0xffff,
            window_scale: None,
            max_seg_size: (control == TcpControl::Syn).then_some(1460),
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        self.next += tcp.segment_len();
        let (src_addr, dst_addr) = (address(2), address(1));
        let ip = Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Tcp, payload_len: tcp.buffer_len(), hop_limit: 64 };
        let sums = ChecksumCapabilities::default();
        let mut packet = vec![0; ip.buffer_len() + tcp.buffer_len()];
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &sums);
        tcp.emit(
            &mut TcpPacket::new_unchecked(&mut packet[ip.buffer_len()..]),
            &IpAddress::Ipv4(src_addr),
            &IpAddress::Ipv4(dst_addr),
            &sums,
        );
        self.wire.send(ethernet(EthernetProtocol::Ipv4, &packet));
    }
    /// What the adapter has sent.
    fn poll(&mut self) {
        for sent in self.wire.drain() {
            let frame = EthernetFrame::new_checked(&sent.frame.octets[..]).expect("Ethernet");
            match frame.ethertype() {
                EthernetProtocol::Arp => self.arp(frame.payload()),
                EthernetProtocol::Ipv4 => self.segment(frame.payload()),
                other => panic!("{other:?}"),
            }
        }
    }
    /// Asks for the adapter's MAC address, as everybody who wants to send to it does.
    fn ask(&self) {
        self.send_arp(ArpOperation::Request, EthernetAddress([0; 6]));
    }
    fn send_arp(&self, operation: ArpOperation, target_hardware_addr: EthernetAddress) {
        let (source_hardware_addr, source_protocol_addr, target_protocol_addr) = (EthernetAddress(mac(2)), address(2), address(1));
        let arp =
            ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, target_hardware_addr, target_protocol_addr };
        let mut packet = vec![0; arp.buffer_len()];
        arp.emit(&mut ArpPacket::new_unchecked(&mut packet[..]));
        self.wire.send(ethernet(EthernetProtocol::Arp, &packet));
    }
    fn arp(&self, packet: &[u8]) {
        let arp = ArpRepr::parse(&ArpPacket::new_checked(packet).expect("ARP")).expect("ARP");
        let ArpRepr::EthernetIpv4 { operation, source_hardware_addr, target_protocol_addr, .. } = arp else { panic!("{arp:?}") };
        if operation == ArpOperation::Request && target_protocol_addr == address(2) {
            self.send_arp(ArpOperation::Reply, source_hardware_addr);
        }
    }
    fn segment(&mut self, packet: &[u8]) {
        let sums = ChecksumCapabilities::default();
        let packet = Ipv4Packet::new_checked(packet).expect("IPv4");
        let ip = Ipv4Repr::parse(&packet, &sums).expect("IPv4");
        let tcp = TcpPacket::new_checked(packet.payload()).expect("TCP");
        let tcp = TcpRepr::parse(&tcp, &ip.src_addr.into(), &ip.dst_addr.into(), &sums).expect("TCP");
        assert_eq!((ip.src_addr, ip.dst_addr), (address(1), address(2)));
        if self.adapter_port == 0 && tcp.control == TcpControl::Syn {
            self.adapter_port = tcp.src_port;
        }
        if (tcp.src_port, tcp.dst_port) != (self.adapter_port, self.port) {
            // late, of an earlier peer
            return;
        }
        self.acked = tcp.ack_number.unwrap_or(self.acked);
        if tcp.segment_len() == 0 {
            self.acks.push(self.acked);
        }
        match tcp.control {
            TcpControl::Rst => self.reset = true,
            TcpControl::Syn => self.expected = Some(tcp.seq_number + 1),
            _ if self.expected == Some(tcp.seq_number) && tcp.segment_len() != 0 => {
                self.received.extend_from_slice(tcp.payload);
                self.fin |= tcp.control == TcpControl::Fin;
                self.expected = Some(tcp.seq_number + tcp.segment_len());
                self.send(TcpControl::None, &[]);
            }
            _ => {}
        }
    }
}

fn ethernet(ethertype: EthernetProtocol, payload: &[u8]) -> Vec<u8> {
    let header = EthernetRepr { src_addr: EthernetAddress(mac(2)), dst_addr: EthernetAddress(mac(1)), ethertype };
    let mut frame = vec![0; (header.buffer_len() + payload.len()).max(60)];
    header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    frame[header.buffer_len()..][..payload.len()].copy_from_slice(payload);
    frame
}

// ---- a play

/// How the captured octets are cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    AsCaptured,
    Octets,
    Whole,
}

/// The adapter, and how many ports its peers have used.
struct Stage {
    world: SharedWorld,
    rnic: Attached,
    wire: QueueHandle,
    ports: u16,
}

impl Stage {
    fn new(seed: u64) -> Self {
        let mut world = World::new(0);
        let id = world.add(&AdapterConfig::new("a", seed));
        let (queue, wire) = Queue::new();
        world.connect(Box::new(queue), &[id]);
        let world = Arc::new(Mutex::new(world));
        let tcp = TcpSettings {
            two_msl_us: Some(10),
            mpa_timeout_us: Some(MPA_TIMEOUT_US),
            close_timeout_us: Some(1000),
            // those that are refused here do not close
            refusal_timeout_us: Some(0),
            ..TcpSettings::default()
        };
        let settings = Config { tcp, share: false, ..config(1, seed) };
        let mut rnic = Rnic::attach(InProcessBus::new(&world, id), settings).expect("attach");
        rnic.address_add(address(1), 24, None).expect("ADDRESS_ADD");
        let mut stage = Stage { world, rnic, wire, ports: 40_000 };
        let mut peer = stage.peer(0);
        peer.ask();
        stage.expect_silence(&mut peer);
        stage
    }
    fn listen(&mut self, accept: u16) {
        self.rnic.create_listen_with(ANY, PORT, Backlog { half_open: 8, accept }).expect("LISTEN_REPLY");
    }
    /// Nothing lives, nothing odd was told, no rule was broken.
    fn assert_over(&mut self) {
        lock(&self.world).run(SILENCE);
        assert_eq!(self.rnic.poll_event().expect("adapter"), None);
        let odd: u64 = self.rnic.oddities().rows().iter().map(|row| row.1).sum();
        assert_eq!((self.rnic.connections(), odd), (0, 0), "{:?}", self.rnic.oddities());
        assert_eq!(counter(&mut self.rnic, Counter::ConnCreated), counter(&mut self.rnic, Counter::ConnFreed));
        assert_clean(&self.world);
    }
    fn peer(&mut self, adapter_port: u16) -> Peer {
        self.ports += 1;
        Peer::new(&self.wire, self.ports, adapter_port)
    }
    /// Lets time pass until `done`, or for `bound` clocks; was it done?
    fn until(&mut self, bound: u64, peer: &mut Peer, mut done: impl FnMut(&Peer) -> bool) -> bool {
        let end = lock(&self.world).cycle() + bound;
        loop {
            peer.poll();
            if done(peer) {
                return true;
            }
            if lock(&self.world).cycle() >= end {
                return false;
            }
            lock(&self.world).run(STEP);
        }
    }
    fn expect(&mut self, what: &str, peer: &mut Peer, done: impl FnMut(&Peer) -> bool) {
        if !self.until(BOUND, peer, done) {
            panic!("no {what}: {:02x?}, {:?} {:?}", peer.received, self.rnic.connection_rows(), counters(&mut self.rnic));
        }
    }
    /// The next event, if one comes.
    fn event(&mut self, bound: u64, peer: &mut Peer) -> Option<Event> {
        let end = lock(&self.world).cycle() + bound;
        loop {
            peer.poll();
            let event = self.rnic.poll_event().expect("adapter");
            if event.is_some() || lock(&self.world).cycle() >= end {
                return event;
            }
            lock(&self.world).run(STEP);
        }
    }
    fn next(&mut self, peer: &mut Peer) -> Event {
        let event = self.event(BOUND, peer);
        event.unwrap_or_else(|| panic!("no event: {:?} {:?}", self.rnic.connection_rows(), counters(&mut self.rnic)))
    }
    fn expect_silence(&mut self, peer: &mut Peer) {
        let event = self.event(SILENCE, peer);
        assert_eq!(event, None, "FIN {}, RST {}, received {:02x?}", peer.fin, peer.reset, peer.received);
    }
    /// The peer opens a connection.
    fn open(&mut self, peer: &mut Peer) {
        peer.send(TcpControl::Syn, &[]);
        self.expect("answer to SYN", peer, |p| p.expected.is_some() || p.reset);
        if !peer.reset {
            peer.send(TcpControl::None, &[]);
        }
    }
    /// The peer sends what was captured.
    fn play(&mut self, segments: &[String], cut: Cut, peer: &mut Peer) {
        let mut pieces: Vec<Vec<u8>> = segments.iter().filter(|s| !is_end(s)).map(|s| octets(s)).collect();
        let all = pieces.concat();
        match cut {
            Cut::AsCaptured => {}
            Cut::Octets => pieces = all.chunks(1).map(<[u8]>::to_vec).collect(),
            Cut::Whole => pieces = vec![all],
        }
        for (n, piece) in pieces.iter().enumerate() {
            peer.send(TcpControl::Psh, piece);
            // not more than the adapter's buffer for segments takes
            if n % 8 == 7 {
                let sent = peer.next;
                self.until(SILENCE, peer, |p| p.acked == sent || p.reset);
            }
        }
        match segments.last().map(String::as_str) {
            Some("fin") => peer.send(TcpControl::Fin, &[]),
            Some("rst") => peer.send(TcpControl::Rst, &[]),
            _ => {}
        }
    }
    /// The peer sends `segments` of the `len` octets that follow, each at its place, in this order; `None` is its FIN. Those with the last octet push.
    /// Returns what must be acknowledged: at once what comes out of order or ends with PSH or FIN; with something held, what fills a hole, once with
    /// all behind it. Of one connection `held` segments are held at most.
    fn shuffle(&mut self, peer: &mut Peer, octets: &[u8], segments: &[Option<Range<usize>>], held: usize) -> Vec<TcpSeqNumber> {
        let start = peer.next;
        let end = octets.len();
        let mut expected = vec![];
        let mut waits: Vec<Range<usize>> = vec![];
        let mut next = 0;
        for segment in segments {
            // FIN as one more octet
            let place = segment.clone().unwrap_or(end..end + 1);
            let control = match segment {
                None => TcpControl::Fin,
                Some(part) if part.end == end => TcpControl::Psh,
                Some(_) => TcpControl::None,
            };
            peer.next = start + place.start;
            peer.send(control, &octets[segment.clone().unwrap_or(0..0)]);
            peer.next = start + end + usize::from(segments.contains(&None));
            // nothing is on its way any more when the next one comes
            self.until(SILENCE, peer, |_| false);
            if place.start > next {
                expected.push(start + next);
                if waits.len() < held {
                    waits.push(place);
                }
            } else if place.end > next {
                let filled = !waits.is_empty();
                next = place.end;
                while let Some(n) = waits.iter().position(|w| w.start <= next) {
                    next = next.max(waits.remove(n).end);
                }
                if filled || control != TcpControl::None {
                    expected.push(start + next);
                }
            }
        }
        expected
    }
    /// Peer and adapter close, whoever is first; FREED comes last.
    fn close(&mut self, connection: Connection, established: bool, peer: &mut Peer) {
        peer.send(TcpControl::Fin, &[]);
        self.expect("FIN", peer, |p| p.fin);
        if established {
            let mut event = self.next(peer);
            if (event == Event::Disconnect { connection }) {
                event = self.next(peer);
            }
            assert_eq!(event, Event::Close { connection, result: Ok(()) });
        }
        assert_eq!(self.next(peer), Event::ConnectionFreed { connection });
        assert!(!peer.reset, "an orderly end");
    }
}

fn is_end(segment: &str) -> bool {
    ["fin", "rst", "refused"].contains(&segment)
}

fn data(frame: &[u8], octets: &str) -> Vec<u8> {
    let frame = &frame[..frame_len(frame)];
    frame[frame.len() - octets.parse::<usize>().expect(octets)..].to_vec()
}

/// Plays a Request to the adapter; the frame that it sent.
fn as_responder(stage: &mut Stage, row: &Row, request: &[String], cut: Cut, no_crc: bool) -> Option<Vec<u8>> {
    let refused = row.sends == "refused";
    let mut peer = stage.peer(if refused { PORT + 1 } else { PORT });
    let peer = &mut peer;
    stage.open(peer);
    assert_eq!(peer.reset, refused);
    if refused {
        stage.expect_silence(peer);
        return None;
    }
    stage.play(request, cut, peer);
    let asked: Vec<_> = row.asked.split(' ').collect();
    let excess = row.sends == "excess";
    let event = if asked[0] == "-" {
        None
    } else if excess {
        // no event is as good
        stage.event(SILENCE, peer)
    } else {
        Some(stage.next(peer))
    };
    let Some(event) = event else {
        stage.expect("RST", peer, |p| p.reset);
        assert_eq!((peer.received.as_slice(), peer.fin), (&[][..], false), "closed without an answer");
        stage.expect_silence(peer);
        return None;
    };
    let frame = request.iter().filter(|s| !is_end(s)).flat_map(|s| octets(s)).collect::<Vec<_>>();
    let told: Vec<_> = row.tells.split(' ').collect();
    let [revision, flags, depths, octets_told] = told[..] else { panic!("{told:?}") };
    let (peer_ird, peer_ord) = numbers(depths);
    let Event::ConnectRequest { connection, start, .. } = event else { panic!("{event:?}") };
    let heard = StartUp { own_ird: 0, own_ord: 0, ..start };
    assert_eq!(
        heard,
        StartUp {
            revision: revision.parse().expect("number"),
            flags: hex(flags)[0],
            peer_ird,
            peer_ord,
            private_data: data(&frame, octets_told),
            ..StartUp::default()
        }
    );
    if ["gone", "excess"].contains(&row.sends.as_str()) {
        // the peer has gone, or was sent away, before the host's answer (CM-27)
        stage.expect("RST", peer, |p| p.reset);
        stage.expect_silence(peer);
        let late = stage.rnic.accept(&connection, &AcceptParam::default()).unwrap_err().refusal();
        assert_eq!(late, Some(Refusal::Reset));
        assert_eq!(stage.next(peer), Event::ConnectionFreed { connection });
        assert!(peer.received.is_empty());
        return None;
    }
    let sends = octets(&row.sends);
    let mut established = false;
    if asked[0] == "reject" {
        stage.rnic.reject(&connection, &hex(asked[1])).expect("taken");
    } else {
        let (ird, ord) = numbers(asked[1]);
        let answer = AcceptParam { private_data: hex(asked[2]), ird, ord, no_crc, strict: asked[0] == "strict", ..AcceptParam::default() };
        let accepted = stage.rnic.accept(&connection, &answer);
        if sends[16] & REJECT != 0 {
            assert_eq!(accepted.unwrap_err().refusal(), Some(Refusal::NoMemory));
        } else {
            accepted.expect("taken");
            let event = stage.next(peer);
            let Event::Established { connection: which, start } = event else { panic!("{event:?}") };
            assert_eq!(which, connection);
            established = true;
            if heard.enhanced() {
                let word = |at: usize| u16::from_be_bytes([sends[at], sends[at + 1]]) & OPEN;
                let expected = [(word(20), start.own_ird), (word(22), start.own_ord)];
                assert!(expected.iter().all(|(sent, own)| *sent == OPEN || sent == own), "{start:?}");
            }
        }
    }
    stage.expect("Reply", peer, |p| p.received.len() >= sends.len());
    // FIN after a refusal (MPA-4), and nothing else before the peer's first FPDU (MPA-6)
    stage.expect_silence(peer);
    assert_eq!(peer.fin, !established, "FIN follows a refusal");
    let reply = peer.received.clone();
    let crc = !no_crc || asked[0] == "reject" || frame[16] & CRC != 0;
    assert_eq!(reply, with_crc(&sends, crc), "sent and expected");
    assert_eq!(peer.acked, peer.next, "all was taken");
    stage.close(connection, established, peer);
    Some(reply)
}

/// Lets the adapter connect and plays a Reply; the Request that it sent.
fn as_initiator(stage: &mut Stage, row: &Row, reply: &[String], cut: Cut, no_crc: bool) -> Option<Vec<u8>> {
    let asked: Vec<_> = row.asked.split(' ').collect();
    let ["connect", form, depths, private_data] = asked[..] else { panic!("{asked:?}") };
    let (ird, ord) = numbers(depths);
    let param = ConnectParam {
        ird,
        ord,
        enhanced: form != "rev1",
        peer_to_peer: form == "p2p",
        private_data: hex(private_data),
        no_crc,
        timeout: Some(CONNECT_TIMEOUT),
        ..ConnectParam::new(SocketAddrV4::new(address(2), PORT))
    };
    let mut peer = Peer::new(&stage.wire, PORT, 0);
    let peer = &mut peer;
    let connection = stage.rnic.connect(&param).expect("taken");
    stage.expect("SYN", peer, |p| p.expected.is_some());
    if reply == ["refused"] {
        peer.send(TcpControl::Rst, &[]);
    } else {
        peer.send(TcpControl::Syn, &[]);
        let sends = octets(&row.sends);
        stage.expect("Request", peer, |p| p.received.len() >= sends.len());
        assert_eq!(peer.received, with_crc(&sends, !no_crc), "sent and expected");
        stage.play(reply, cut, peer);
    }
    let request = peer.received.clone();
    let told: Vec<_> = row.tells.split(' ').collect();
    let event = stage.next(peer);
    let Event::ConnectReply { connection: which, result, start } = event else { panic!("{event:?}") };
    assert_eq!(which, connection);
    let status = match result {
        Ok(()) => "ok",
        Err(Refusal::Refused) => "ECONNREFUSED",
        Err(Refusal::Protocol) => "EPROTO",
        Err(Refusal::TimedOut) => "ETIMEDOUT",
        Err(Refusal::Reset) => "ECONNRESET",
        Err(Refusal::NoMemory) => "ENOMEM",
        Err(other) => panic!("{other:?}"),
    };
    assert_eq!(status, told[0]);
    let [_, revision, flags, depths, own, octets_told] = told[..] else {
        assert_eq!(stage.next(peer), Event::ConnectionFreed { connection });
        if !reply.last().is_some_and(|s| ["rst", "refused"].contains(&s.as_str())) {
            stage.expect("RST", peer, |p| p.reset);
        }
        assert_eq!(peer.received, request, "nothing after the Request");
        stage.expect_silence(peer);
        return Some(request);
    };
    let frame = reply.iter().flat_map(|s| octets(s)).collect::<Vec<_>>();
    let ((peer_ird, peer_ord), (own_ird, own_ord)) = (numbers(depths), numbers(own));
    let expected = StartUp {
        revision: revision.parse().expect("number"),
        flags: hex(flags)[0],
        own_ird,
        own_ord,
        peer_ird,
        peer_ord,
        private_data: data(&frame, octets_told),
    };
    assert_eq!(start, expected);
    stage.expect_silence(peer);
    assert_eq!(peer.received, request, "nothing after the Request");
    // what comes behind the Reply is not taken yet (MPA-10)
    let beyond = frame.len() - frame_len(&frame);
    assert_eq!(peer.acked + beyond, peer.next, "the Reply was taken, and no more");
    if beyond != 0 {
        stage.rnic.abort(&connection).expect("posted");
        stage.expect("RST", peer, |p| p.reset);
        assert!(matches!(stage.next(peer), Event::Close { .. }));
        assert_eq!(stage.next(peer), Event::ConnectionFreed { connection });
        return Some(request);
    }
    if result.is_ok() {
        stage.rnic.disconnect(&connection).expect("posted");
    }
    stage.expect("FIN", peer, |p| p.fin);
    stage.close(connection, result.is_ok(), peer);
    Some(request)
}

/// How a conversation ends, seen from the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Both frames were sent, and neither refuses.
    Connected,
    /// The Reply has R = 1.
    Rejected,
    /// No Reply, or none that counts.
    Failed,
    /// The peer's end came after CONNECT_REQUEST and before its answer.
    Gone,
    /// The adapter cannot be in this place.
    NotPlayed,
}

impl Row {
    fn outcome(&self) -> Outcome {
        let first = |text: &str| text.split(' ').next().expect("a word").to_owned();
        match (self.role, self.sends.as_str()) {
            _ if self.asked == "skip" => Outcome::NotPlayed,
            (Role::Initiator, _) => match first(&self.tells).as_str() {
                "ok" => Outcome::Connected,
                "ECONNREFUSED" => Outcome::Rejected,
                _ => Outcome::Failed,
            },
            (Role::Responder, "gone" | "excess") => Outcome::Gone,
            (Role::Responder, frame) if frame.starts_with("rep:") => {
                if octets(frame)[16] & REJECT != 0 {
                    Outcome::Rejected
                } else {
                    Outcome::Connected
                }
            }
            _ => Outcome::Failed,
        }
    }
}

/// Plays all conversations of one role and outcome. Those that are alike are played once; of those that differ in the octets of private data alone, one
/// is played octet by octet.
fn play(role: Role, outcome: Outcome) {
    let captured = captured();
    let mut stage = Stage::new(1);
    stage.listen(8);
    let (mut played, mut shapes) = (BTreeSet::new(), BTreeSet::new());
    let mut count = 0;
    for row in rows().iter().filter(|r| r.role == role && r.outcome() == outcome) {
        let conversation = &captured[row.name.as_str()];
        let (theirs, ours) = match role {
            Role::Responder => (&conversation.opener, &conversation.other),
            Role::Initiator => (&conversation.other, &conversation.opener),
        };
        count += 1;
        if !played.insert((theirs, ours, row.asked.clone(), row.tells.clone(), row.sends.clone())) {
            continue;
        }
        let siw: Vec<u8> = ours.iter().filter(|s| !is_end(s)).flat_map(|s| octets(s)).collect();
        let siw_asks = siw.get(16).is_some_and(|flags| flags & CRC != 0);
        let shape: Vec<_> = theirs.iter().map(|s| (s.len(), s.chars().take(24).collect::<String>())).collect();
        let cuts: &[_] = match theirs.iter().filter(|s| !is_end(s)).count() {
            _ if !shapes.insert((shape, row.tells.clone())) => &[(Cut::AsCaptured, !siw_asks)],
            0 => &[(Cut::AsCaptured, !siw_asks)],
            1 => &[(Cut::AsCaptured, false), (Cut::Octets, true)],
            _ => &[(Cut::AsCaptured, false), (Cut::Octets, true), (Cut::Whole, false)],
        };
        let mut sent = vec![];
        for &(cut, no_crc) in cuts {
            println!("{} {role:?} {cut:?}, from cycle {} on", row.name, lock(&stage.world).cycle());
            sent.push(match role {
                Role::Responder => as_responder(&mut stage, row, theirs, cut, no_crc),
                Role::Initiator => as_initiator(&mut stage, row, theirs, cut, no_crc),
            });
        }
        // with C or without it as captured, or the table says why not
        let same = sent.iter().any(|frame| frame.as_deref().unwrap_or_default() == siw);
        assert!(same || !row.why.is_empty(), "{} is not as captured, and the table has no reason: {sent:02x?}", row.name);
    }
    println!("{count} conversations, {} of them different", played.len());
    assert!(count > 0);
    stage.assert_over();
}

/// Every captured conversation has a row for each side that an adapter could be in, and one that is not played has a reason.
#[test]
fn every_conversation_has_its_expected_outcome() {
    let rows = rows();
    let keys: BTreeSet<_> = rows.iter().map(|r| (r.name.as_str(), r.role)).collect();
    assert_eq!(keys.len(), rows.len(), "each once");
    for name in captured().keys() {
        // `probe`: the opener was no siw, `iprobe`: the other side
        let expected = (!name.starts_with("iprobe"), !name.starts_with("probe"));
        assert_eq!((keys.contains(&(name, Role::Responder)), keys.contains(&(name, Role::Initiator))), expected, "{name}");
    }
    assert!(rows.iter().all(|r| captured().contains_key(r.name.as_str())));
    assert!(rows.iter().all(|r| r.outcome() != Outcome::NotPlayed || !r.why.is_empty()));
}

/// Covers: CM-8, CM-28, ENH-1, ENH-3, ENH-4, ENH-15, ENH-16, ENH-20, ENH-23, MPA-10, MPA-14, MPA-15, MPA-16, DEF-12, CH-16, CH-17
#[test]
fn requests_are_announced_and_accepted() {
    play(Role::Responder, Outcome::Connected);
}

/// Covers: CM-7, CM-28, ENH-14, MPA-4, CH-24
#[test]
fn requests_are_rejected_and_the_connection_is_closed_in_order() {
    play(Role::Responder, Outcome::Rejected);
}

/// Covers: ENH-18, MPA-3, MPA-7, MPA-8, MPA-17, TCP-28, DEF-23, DEF-35, CH-14
#[test]
fn what_is_no_request_is_reset_without_an_event() {
    play(Role::Responder, Outcome::Failed);
}

/// Covers: CM-27, MPA-10
#[test]
fn an_accept_after_the_peer_has_gone_fails() {
    play(Role::Responder, Outcome::Gone);
}

/// Covers: ENH-1, ENH-4, ENH-7, ENH-8, ENH-11, ENH-12, ENH-15, ENH-16, ENH-20, MPA-1, MPA-10, MPA-14, MPA-15, DEF-30
#[test]
fn requests_are_sent_and_replies_connect() {
    play(Role::Initiator, Outcome::Connected);
}

/// Covers: CM-15, ENH-16, MPA-5
#[test]
fn replies_that_refuse_are_told_with_their_data() {
    play(Role::Initiator, Outcome::Rejected);
}

/// Covers: CM-15, ENH-19, MPA-3, MPA-7, MPA-8, MPA-17
#[test]
fn what_is_no_reply_fails_the_connect_and_is_reset() {
    play(Role::Initiator, Outcome::Failed);
}

/// As in `backlog-overflow`: two of six Requests wait for the host, the adapter itself rejects the others.
///
/// Covers: CM-19
#[test]
fn requests_over_the_backlog_are_rejected() {
    let captured = captured();
    let mut stage = Stage::new(2);
    stage.listen(2);
    let names: Vec<_> = captured.keys().filter(|name| name.starts_with("backlog-overflow")).collect();
    assert_eq!(names.len(), 6);
    let mut waiting = vec![];
    for name in names {
        let Captured { opener, other } = &captured[name];
        let mut peer = stage.peer(PORT);
        stage.open(&mut peer);
        // the FIN of siw's time-out comes later
        stage.play(&opener[..1], Cut::AsCaptured, &mut peer);
        let event = stage.event(SILENCE, &mut peer);
        if let Some(Event::ConnectRequest { connection, .. }) = event {
            assert!(peer.received.is_empty() && other.is_empty(), "{name}");
            waiting.push((connection, peer));
        } else {
            assert_eq!((event, waiting.len(), other[0].as_str()), (None, 2, "rep:3002000400040004"), "{name}");
            // C as in an accept; IRD as the peer's ORD wants it, and no ORD needed
            assert_eq!(peer.received, octets("rep:7002000400040000"), "{name}");
            assert!(peer.fin);
            peer.send(TcpControl::Fin, &[]);
            stage.expect_silence(&mut peer);
            assert!(!peer.reset);
        }
    }
    assert_eq!(counter(&mut stage.rnic, Counter::MpaNonPeerRejects), 4);
    for (connection, mut peer) in waiting {
        stage.rnic.accept(&connection, &AcceptParam { ird: 4, ord: 4, ..AcceptParam::default() }).expect("taken");
        assert!(matches!(stage.next(&mut peer), Event::Established { .. }));
        stage.expect("Reply", &mut peer, |p| !p.received.is_empty());
        stage.close(connection, true, &mut peer);
    }
    stage.assert_over();
}

/// All orders of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let insert = |order: Vec<usize>| {
        (0..n).map(move |at| {
            let mut longer = order.clone();
            longer.insert(at, n - 1);
            longer
        })
    };
    orders(n - 1).into_iter().flat_map(insert).collect()
}

/// A Request in four segments that come in any order: each is sent once, each hole is acknowledged once.
///
/// Covers: TCP-19, TCP-51, TCP-52
#[test]
fn a_request_in_any_order_is_taken_without_a_retransmission() {
    let frame = octets(&captured()["example-mpa2-req-max"].opener[0]);
    let mut stage = Stage::new(3);
    stage.listen(8);
    let mut out_of_order = 0;
    for order in orders(4) {
        let mut peer = stage.peer(PORT);
        let peer = &mut peer;
        stage.open(peer);
        stage.until(SILENCE / 2, peer, |_| false);
        peer.acks.clear();
        let cuts = [0, 7, 100, 333, frame.len()];
        let segments: Vec<_> = order.iter().map(|n| Some(cuts[*n]..cuts[n + 1])).collect();
        let expected = stage.shuffle(peer, &frame, &segments, 4);
        assert_eq!(peer.acks, expected, "{order:?}");
        assert_eq!(peer.acked, peer.next);
        out_of_order += order.iter().enumerate().filter(|(at, n)| (0..**n).any(|m| !order[..*at].contains(&m))).count();
        let Event::ConnectRequest { connection, start, .. } = stage.next(peer) else { panic!("{order:?}") };
        assert_eq!(start.private_data, frame[HEADER + 4..]);
        stage.rnic.reject(&connection, &[]).expect("taken");
        stage.expect("FIN", peer, |p| p.fin);
        stage.close(connection, false, peer);
    }
    let counts = [Counter::TcpInOoo, Counter::TcpOooDropped, Counter::TcpRetransSegs].map(|c| counter(&mut stage.rnic, c));
    assert_eq!(counts, [out_of_order as u64, 0, 0]);
    stage.assert_over();
}

/// A Reply that refuses in three segments, and the FIN behind it (MPA-4), in any order.
///
/// Covers: TCP-19, TCP-37
#[test]
fn a_reply_and_its_fin_may_come_in_any_order() {
    let frame = octets("rep:7002000800040004676f6f64");
    let mut stage = Stage::new(4);
    for order in orders(4) {
        let mut peer = Peer::new(&stage.wire, PORT, 0);
        let peer = &mut peer;
        let connection = stage.rnic.connect(&ConnectParam::new(SocketAddrV4::new(address(2), PORT))).expect("taken");
        stage.expect("SYN", peer, |p| p.expected.is_some());
        peer.send(TcpControl::Syn, &[]);
        stage.expect("Request", peer, |p| !p.received.is_empty());
        stage.until(SILENCE / 2, peer, |_| false);
        peer.acks.clear();
        let cuts = [0, 7, 17, frame.len()];
        let segments: Vec<_> = order.iter().map(|n| (*n < 3).then(|| cuts[*n]..cuts[n + 1])).collect();
        let expected = stage.shuffle(peer, &frame, &segments, 4);
        // the last one may ride on our FIN, and come again
        let told = peer.acks.len().min(expected.len());
        assert!(told + 1 >= expected.len(), "{order:?}: {:?}", peer.acks);
        assert_eq!(peer.acks[..told], expected[..told], "{order:?}");
        assert!(peer.acks[told..].iter().all(|ack| *ack == peer.next), "{order:?}");
        let Event::ConnectReply { result, start, .. } = stage.next(peer) else { panic!("{order:?}") };
        assert_eq!((result, &start.private_data[..]), (Err(Refusal::Refused), &b"good"[..]));
        stage.expect("FIN", peer, |p| p.fin);
        assert_eq!(peer.acked, peer.next, "{order:?}");
        assert_eq!(stage.next(peer), Event::ConnectionFreed { connection });
        assert!(!peer.reset);
    }
    assert_eq!(counter(&mut stage.rnic, Counter::TcpRetransSegs), 0);
    stage.assert_over();
}

/// Backwards, in one segment more than are held of one connection: only that one must be sent again.
///
/// Covers: TCP-19, TCP-51
#[test]
fn what_is_not_held_is_not_acknowledged_and_comes_again() {
    let frame = octets(&captured()["example-mpa2-req-max"].opener[0]);
    let mut stage = Stage::new(5);
    stage.listen(8);
    for pieces in 2..=6 {
        let before = counter(&mut stage.rnic, Counter::TcpOooDropped);
        let mut peer = stage.peer(PORT);
        let peer = &mut peer;
        stage.open(peer);
        stage.until(SILENCE / 2, peer, |_| false);
        peer.acks.clear();
        let cut = |n: usize| n * frame.len() / pieces;
        let mut segments: Vec<_> = (0..pieces).rev().map(|n| Some(cut(n)..cut(n + 1))).collect();
        if pieces > 5 {
            segments.push(Some(cut(1)..cut(2)));
        }
        let expected = stage.shuffle(peer, &frame, &segments, 4);
        assert_eq!(peer.acks, expected, "{pieces} pieces");
        assert_eq!(peer.acked, peer.next);
        assert_eq!(counter(&mut stage.rnic, Counter::TcpOooDropped) - before, u64::from(pieces > 5));
        let Event::ConnectRequest { connection, start, .. } = stage.next(peer) else { panic!("{pieces} pieces") };
        assert_eq!(start.private_data, frame[HEADER + 4..]);
        stage.rnic.reject(&connection, &[]).expect("taken");
        stage.expect("FIN", peer, |p| p.fin);
        stage.close(connection, false, peer);
    }
    stage.assert_over();
}
