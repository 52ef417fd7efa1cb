// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers at the other end of an adapter's cable: a TCP without opinions, which sends the octets that a test chooses, in order, and keeps what comes.
//!
//! The wire loses nothing, but an adapter may take only a part of a segment: what is not acknowledged in time is sent again. Everything is acknowledged at once, unless
//! the peer is told to be silent ([`Peer::silent`]) or to offer less room ([`Peer::offer`]).
use crate::{address, mac};
use ironwarp_sim::wire::QueueHandle;
use smoltcp::{
    phy::ChecksumCapabilities,
    wire::{
        ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress, IpProtocol,
        Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
    },
};
use std::collections::VecDeque;

/// Octets of payload in a segment, where a test does not choose.
const MSS: u16 = 1460;
/// Clocks without progress after which all is sent again.
const PATIENCE: u64 = 40_000;
/// First sequence number: its upper half wraps soon.
const START: TcpSeqNumber = TcpSeqNumber(0x7fff_fff0_u32 as i32);

/// One connection of the host behind the cable.
pub struct Peer {
    port: u16,
    adapter_port: u16,
    mss: u16,
    /// Oldest octet that is not acknowledged, and all from it on; the first `sent` of them are on their way.
    oldest: TcpSeqNumber,
    out: VecDeque<u8>,
    sent: usize,
    fin_wanted: bool,
    fin_sent: bool,
    window: usize,
    progress: u64,
    expected: Option<TcpSeqNumber>,
    /// As the adapter was told.
    told: Option<TcpSeqNumber>,
    /// Octets that came.
    pub received: Vec<u8>,
    /// The adapter's FIN came.
    pub fin: bool,
    /// The adapter's RST came.
    pub reset: bool,
    /// Acknowledges nothing.
    pub silent: bool,
    /// Window that the adapter is told.
    pub offer: u16,
}

impl Peer {
    fn new(port: u16, adapter_port: u16, mss: u16) -> Self {
        Peer {
            port,
            adapter_port,
            mss,
            oldest: START + 1,
            out: VecDeque::new(),
            sent: 0,
            fin_wanted: false,
            fin_sent: false,
            window: 0,
            progress: 0,
            expected: None,
            told: None,
            received: Vec::new(),
            fin: false,
            reset: false,
            silent: false,
            offer: 0xffff,
        }
    }
    /// Sends octets behind those before.
    pub fn send(&mut self, octets: &[u8]) {
        self.out.extend(octets);
    }
    /// FIN behind all octets.
    pub fn finish(&mut self) {
        self.fin_wanted = true;
    }
    /// Nothing that was sent waits for its acknowledgement.
    pub fn is_acknowledged(&self) -> bool {
        self.out.is_empty() && self.fin_wanted == self.fin_sent
    }
    fn repr<'a>(&self, control: TcpControl, seq_number: TcpSeqNumber, payload: &'a [u8]) -> TcpRepr<'a> {
        TcpRepr {
            src_port: self.port,
            dst_port: self.adapter_port,
            control,
            seq_number,
            ack_number: self.told,
            window_len: self.offer,
            window_scale: None,
            max_seg_size: (control == TcpControl::Syn).then_some(self.mss),
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        }
    }
    fn next(&self) -> TcpSeqNumber {
        self.oldest + self.sent + usize::from(self.fin_sent)
    }
    /// Takes a segment; whether an ACK is due.
    fn take(&mut self, now: u64, tcp: &TcpRepr<'_>) -> bool {
        if tcp.control == TcpControl::Rst {
            self.reset = true;
            return false;
        }
        self.window = tcp.window_len.into();
        if let Some(ack) = tcp.ack_number.filter(|ack| *ack > self.oldest) {
            let octets = (ack - self.oldest).min(self.out.len());
            self.out.drain(..octets);
            self.oldest += octets;
            self.sent = self.sent.saturating_sub(octets);
            self.progress = now;
        }
        if tcp.control == TcpControl::Syn {
            self.expected = Some(tcp.seq_number + 1);
            self.told = self.expected;
            return true;
        }
        if tcp.segment_len() == 0 {
            return false;
        }
        if self.expected == Some(tcp.seq_number) && tcp.payload.len() <= self.offer.into() {
            self.received.extend_from_slice(tcp.payload);
            self.fin |= tcp.control == TcpControl::Fin;
            self.expected = Some(tcp.seq_number + tcp.segment_len());
        }
        true
    }
}

/// The host at the other end of the cable: 192.0.2.2.
pub struct Peers {
    wire: QueueHandle,
    ports: u16,
    /// Octets of payload in a segment of the connections to come, both ways.
    pub mss: u16,
    /// Its connections.
    pub list: Vec<Peer>,
}

impl Peers {
    /// On a wire to adapter 192.0.2.1.
    pub fn new(wire: QueueHandle) -> Self {
        let peers = Peers { wire, ports: 40_000, mss: MSS, list: Vec::new() };
        peers.send_arp(ArpOperation::Request, EthernetAddress([0; 6]));
        peers
    }
    /// Opens a connection; its place in the list.
    pub fn dial(&mut self, adapter_port: u16) -> usize {
        let peer = Peer::new(self.ports, adapter_port, self.mss);
        self.ports += 1;
        self.send_segment(&peer.repr(TcpControl::Syn, START, &[]));
        self.list.push(peer);
        self.list.len() - 1
    }
    /// Waits for a connection of the adapter: its port, and its place in the list.
    pub fn await_dial(&mut self) -> (u16, usize) {
        self.list.push(Peer::new(self.ports, 0, self.mss));
        self.ports += 1;
        (self.ports - 1, self.list.len() - 1)
    }
    /// Resets a connection.
    pub fn reset(&mut self, n: usize) {
        let peer = &self.list[n];
        self.send_segment(&peer.repr(TcpControl::Rst, peer.next(), &[]));
    }
    /// Takes what came until `now`, and sends what is due.
    pub fn poll(&mut self, now: u64) {
        for sent in self.wire.drain() {
            let frame = EthernetFrame::new_checked(&sent.frame.octets[..]).expect("Ethernet");
            match frame.ethertype() {
                EthernetProtocol::Arp => self.arp(frame.payload()),
                EthernetProtocol::Ipv4 => self.segment(now, frame.payload()),
                other => panic!("{other:?}"),
            }
        }
        for n in 0..self.list.len() {
            self.pump(n, now);
        }
    }
    fn pump(&mut self, n: usize, now: u64) {
        let peer = &mut self.list[n];
        if peer.reset || peer.expected.is_none() {
            return;
        }
        if (peer.sent > 0 || peer.fin_sent) && !peer.out.is_empty() && now - peer.progress > PATIENCE {
            (peer.sent, peer.fin_sent, peer.progress) = (0, false, now);
        }
        let mut segments = Vec::new();
        while peer.sent < peer.out.len().min(peer.window) {
            let take = usize::from(peer.mss).min(peer.out.len().min(peer.window) - peer.sent);
            segments.push((peer.next(), peer.out.range(peer.sent..peer.sent + take).copied().collect::<Vec<_>>()));
            peer.sent += take;
            peer.progress = now;
        }
        if !peer.silent {
            peer.told = peer.expected;
        }
        let fin = peer.fin_wanted && !peer.fin_sent && peer.sent == peer.out.len();
        let at = peer.next();
        peer.fin_sent |= fin;
        let peer = &self.list[n];
        for (seq, octets) in &segments {
            self.send_segment(&peer.repr(TcpControl::Psh, *seq, octets));
        }
        if fin {
            self.send_segment(&peer.repr(TcpControl::Fin, at, &[]));
        }
    }
    /// Tells the adapter what came and how much room there is, though nothing is due.
    pub fn acknowledge(&mut self, n: usize) {
        let peer = &mut self.list[n];
        if !peer.silent {
            peer.told = peer.expected;
        }
        let peer = &self.list[n];
        self.send_segment(&peer.repr(TcpControl::None, peer.next(), &[]));
    }
    fn segment(&mut self, now: u64, packet: &[u8]) {
        let sums = ChecksumCapabilities::default();
        let packet = Ipv4Packet::new_checked(packet).expect("IPv4");
        let ip = Ipv4Repr::parse(&packet, &sums).expect("IPv4");
        let tcp = TcpPacket::new_checked(packet.payload()).expect("TCP");
        let tcp = TcpRepr::parse(&tcp, &ip.src_addr.into(), &ip.dst_addr.into(), &sums).expect("TCP");
        assert_eq!((ip.src_addr, ip.dst_addr), (address(1), address(2)));
        let Some(n) = self.list.iter().position(|p| p.port == tcp.dst_port && [0, tcp.src_port].contains(&p.adapter_port)) else {
            return;
        };
        let peer = &mut self.list[n];
        let dialled = peer.adapter_port == 0;
        peer.adapter_port = tcp.src_port;
        if peer.take(now, &tcp) {
            if dialled {
                let answer = self.list[n].repr(TcpControl::Syn, START, &[]);
                self.send_segment(&answer);
            } else if !self.list[n].silent {
                self.acknowledge(n);
            }
        }
    }
    fn send_segment(&self, tcp: &TcpRepr<'_>) {
        let (src_addr, dst_addr) = (address(2), address(1));
        let ip = Ipv4Repr { src_addr, dst_addr, next_header: IpProtocol::Tcp, payload_len: tcp.buffer_len(), hop_limit: 64 };
        let sums = ChecksumCapabilities::default();
        let mut packet = vec![0; ip.buffer_len() + tcp.buffer_len()];
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &sums);
        let mut segment = TcpPacket::new_unchecked(&mut packet[ip.buffer_len()..]);
        tcp.emit(&mut segment, &IpAddress::Ipv4(src_addr), &IpAddress::Ipv4(dst_addr), &sums);
        self.send_frame(EthernetProtocol::Ipv4, &packet);
    }
    fn arp(&self, packet: &[u8]) {
        let arp = ArpRepr::parse(&ArpPacket::new_checked(packet).expect("ARP")).expect("ARP");
        let ArpRepr::EthernetIpv4 { operation, source_hardware_addr, target_protocol_addr, .. } = arp else { panic!("{arp:?}") };
        if operation == ArpOperation::Request && target_protocol_addr == address(2) {
            self.send_arp(ArpOperation::Reply, source_hardware_addr);
        }
    }
    fn send_arp(&self, operation: ArpOperation, target_hardware_addr: EthernetAddress) {
        let (source_hardware_addr, source_protocol_addr, target_protocol_addr) = (EthernetAddress(mac(2)), address(2), address(1));
        let arp =
            ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, target_hardware_addr, target_protocol_addr };
        let mut packet = vec![0; arp.buffer_len()];
        arp.emit(&mut ArpPacket::new_unchecked(&mut packet[..]));
        self.send_frame(EthernetProtocol::Arp, &packet);
    }
    fn send_frame(&self, ethertype: EthernetProtocol, payload: &[u8]) {
        let header = EthernetRepr { src_addr: EthernetAddress(mac(2)), dst_addr: EthernetAddress(mac(1)), ethertype };
        let mut frame = vec![0; (header.buffer_len() + payload.len()).max(60)];
        header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        frame[header.buffer_len()..][..payload.len()].copy_from_slice(payload);
        self.wire.send(frame);
    }
}
