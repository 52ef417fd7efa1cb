// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nonsense at both sides of one adapter: frames that are nearly right, at every moment of many connections, and commands that are not.
//! A model of what may be told judges every event; the adapter must answer each command within a bound, reach for no memory but what the
//! commands name, and have nothing left when its time-outs have run.
//!
//! FUZZ_FRAMES=1000000 and FUZZ_COMMANDS=100000 make the runs long, SEED=n other ones.
use ironwarp_abi::{
    command::flag, reg, Command, Counter, Event, EventKind, Handle, HandleKind, Opcode, Status, ENTRY_DWORDS, ENTRY_OCTETS,
};
use ironwarp_rnic::{Bus, Device, DmaMemory};
use ironwarp_sim::{
    bus::lock,
    wire::{Frame, Queue, QueueHandle},
    AdapterConfig, InProcessBus, SharedWorld, World,
};
use ironwarp_tests::{address, count, mac, seed};
use rand::{rngs::StdRng, Rng, RngCore, SeedableRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

const CMD_LOG2: u32 = 6;
const EVT_LOG2: u32 = 8;
const CONNECTIONS: usize = 32;
/// Windows of the adapter.
const CMD: u64 = 0x1_0000_0000;
const EVT: u64 = 0x2_0000_0000;
const INBOUND: u64 = 0x3_0000_0000;
const OUTBOUND: u64 = 0x4_0000_0000;
const OUTBOUND_OCTETS: usize = 1 << 16;
/// Cycles within which every command is answered.
const ANSWER: u64 = 200_000;
/// Cycles within which all time-outs have run.
const TIME_OUTS: u64 = 2_000_000;
/// Longest time-out that a command may ask for here, so that a run has an end.
const LONGEST_US: u32 = 2000;

// ---- what may be told

/// A connection that the host knows of.
#[derive(Debug, Default)]
struct Known {
    told: Vec<EventKind>,
    /// Status of CONNECT_REPLY.
    connected: bool,
    /// ACCEPT was answered with status 0.
    accepted: bool,
    /// ACCEPT that is answered only if it fails.
    quietly: bool,
    /// REJECT or ABORT was answered with status 0.
    ending: bool,
}

/// Judges events.
#[derive(Default)]
struct Rules {
    /// Commands whose answer must come.
    out: BTreeMap<u32, Command>,
    /// Commands whose answer comes if it is a refusal.
    quiet: BTreeMap<u32, Command>,
    listeners: BTreeMap<u64, u32>,
    connections: BTreeMap<u64, Known>,
    seen: BTreeSet<u64>,
    addresses: BTreeSet<u32>,
    statuses: BTreeMap<(u8, i32), u64>,
    kinds: BTreeMap<u8, u64>,
}

impl Rules {
    fn posted(&mut self, command: Command) {
        let quiet = command.opcode >= Opcode::Connect as u8 && command.flags & flag::QUIET != 0;
        if quiet && command.opcode == Opcode::Accept as u8 {
            if let Some(known) = self.connections.get_mut(&command.handle.0) {
                known.quietly = true;
            }
        }
        if quiet { &mut self.quiet } else { &mut self.out }.insert(command.context, command);
    }
    fn born(&mut self, handle: Handle, kind: HandleKind) {
        assert_eq!(handle.kind(), Some(kind), "{handle:?}");
        assert!(self.seen.insert(handle.0), "handle given twice: {handle:?}");
        if kind == HandleKind::Connection {
            self.connections.insert(handle.0, Known::default());
        }
    }
    fn judge(&mut self, e: &Event) {
        let kind = EventKind::from_raw(e.kind).unwrap_or_else(|| panic!("no such kind: {e:?}"));
        assert!(Status::from_raw(e.status).is_some(), "no such status: {e:?}");
        *self.kinds.entry(e.kind).or_default() += 1;
        match kind {
            EventKind::CmdReply | EventKind::ListenReply => self.answer(kind, e),
            EventKind::Freed if e.handle.kind() == Some(HandleKind::Listener) => {
                let command = self.out.remove(&e.context).unwrap_or_else(|| panic!("nobody asked: {e:?}"));
                assert_eq!((command.opcode, command.handle), (Opcode::Unlisten as u8, e.handle), "{e:?}");
                assert!(self.listeners.remove(&e.handle.0).is_some(), "FREED twice: {e:?}");
            }
            EventKind::Freed => {
                let known = self.connections.remove(&e.handle.0).unwrap_or_else(|| panic!("FREED twice or never made: {e:?}"));
                use EventKind::{Close, ConnectReply, ConnectRequest, Disconnect, Established};
                let right = match known.told.as_slice() {
                    [ConnectReply] => !known.connected,
                    [ConnectReply, Close] | [ConnectReply, Disconnect, Close] => known.connected,
                    [ConnectRequest] => !known.accepted,
                    [ConnectRequest, Established, Close] | [ConnectRequest, Established, Disconnect, Close] => {
                        known.accepted || known.quietly
                    }
                    _ => false,
                };
                assert!(right, "FREED after {known:?}: {e:?}");
            }
            EventKind::ConnectRequest => {
                assert_eq!(self.listeners.get(&e.listener.0), Some(&e.context), "for a listener that is gone: {e:?}");
                assert_eq!(e.status, 0, "{e:?}");
                assert!(e.data_len <= 512, "{e:?}");
                self.born(e.handle, HandleKind::Connection);
                self.tell(kind, e);
            }
            EventKind::ConnectReply => {
                // the handle of a CONNECT without answer is heard of first here
                if !self.connections.contains_key(&e.handle.0) {
                    let command = self.quiet.remove(&e.context).unwrap_or_else(|| panic!("nobody asked: {e:?}"));
                    assert_eq!(command.opcode, Opcode::Connect as u8, "{e:?}");
                    self.born(e.handle, HandleKind::Connection);
                }
                assert!(e.data_len <= 512, "{e:?}");
                self.tell(kind, e).connected = e.status == 0;
            }
            EventKind::Established | EventKind::Disconnect | EventKind::Close => {
                self.tell(kind, e);
            }
            EventKind::Async | EventKind::Completion => panic!("{e:?}"),
        }
    }
    fn tell(&mut self, kind: EventKind, e: &Event) -> &mut Known {
        let known = self.connections.get_mut(&e.handle.0).unwrap_or_else(|| panic!("not alive: {e:?}"));
        known.told.push(kind);
        known
    }
    fn answer(&mut self, kind: EventKind, e: &Event) {
        let command = match self.out.remove(&e.context) {
            Some(command) => command,
            None => {
                let command = self.quiet.remove(&e.context).unwrap_or_else(|| panic!("nobody asked: {e:?}"));
                assert_ne!(e.status, 0, "an answer that nobody wants: {e:?}");
                command
            }
        };
        *self.statuses.entry((command.opcode, e.status)).or_default() += 1;
        assert!(kind == EventKind::CmdReply || command.opcode == Opcode::Listen as u8, "{command:?} {e:?}");
        let opcode = Opcode::ALL.iter().find(|o| **o as u8 == command.opcode);
        let done = e.status == 0;
        match opcode {
            // flags are looked at before the opcode
            None => assert!([Status::UnknownOpcode as i32, Status::Invalid as i32].contains(&e.status), "{command:?} {e:?}"),
            Some(Opcode::Listen) if done => {
                assert_eq!(kind, EventKind::ListenReply, "{e:?}");
                self.born(e.handle, HandleKind::Listener);
                self.listeners.insert(e.handle.0, e.context);
            }
            Some(Opcode::Unlisten) => assert!(!done, "an UNLISTEN that is carried out has FREED for an answer: {e:?}"),
            Some(Opcode::Connect) if done => self.born(e.handle, HandleKind::Connection),
            Some(Opcode::AddressAdd) if done => assert!(self.addresses.insert(command.local_addr), "{e:?}"),
            Some(Opcode::AddressDelete) if done => assert!(self.addresses.remove(&command.local_addr), "{e:?}"),
            Some(o @ (Opcode::Accept | Opcode::Reject | Opcode::Disconnect | Opcode::Abort)) if done => {
                match self.connections.get_mut(&command.handle.0) {
                    Some(known) if *o == Opcode::Accept => known.accepted = true,
                    Some(known) => known.ending |= *o != Opcode::Disconnect,
                    // guessed: of a CONNECT without answer that was not heard of yet
                    None => assert!(
                        *o == Opcode::Abort && self.quiet.values().any(|c| c.opcode == Opcode::Connect as u8),
                        "carried out for what does not live: {command:?} {e:?}"
                    ),
                }
            }
            Some(_) => {}
        }
    }
}

// ---- the host

struct Host {
    world: SharedWorld,
    device: Device<InProcessBus>,
    cmd: Arc<DmaMemory>,
    evt: Arc<DmaMemory>,
    cmd_tail: u16,
    evt_head: u16,
    context: u32,
    rules: Rules,
    /// First and last address of private data that some command named.
    named: Vec<(u64, u64)>,
    dma_errors: u64,
}

impl Host {
    fn new(seed: u64) -> (Self, QueueHandle) {
        let (wire, peer) = Queue::new();
        let mut world = World::new(0);
        let id = world.add(&AdapterConfig::new("a", seed));
        world.connect(Box::new(wire), &[id]);
        let world = Arc::new(Mutex::new(world));
        let mut device = Device::open(InProcessBus::new(&world, id)).expect("an adapter");
        device.reset(Duration::from_secs(1)).expect("READY");
        let mut memory = |iova, octets| {
            let memory = Arc::new(DmaMemory::new(octets).expect("memory"));
            device.bus().map(iova, &memory).expect("a free window");
            memory
        };
        let cmd = memory(CMD, ENTRY_OCTETS << CMD_LOG2);
        let evt = memory(EVT, ENTRY_OCTETS << EVT_LOG2);
        memory(INBOUND, CONNECTIONS * 512);
        let outbound = memory(OUTBOUND, OUTBOUND_OCTETS);
        let mut octets = vec![0; OUTBOUND_OCTETS];
        StdRng::seed_from_u64(seed).fill_bytes(&mut octets);
        outbound.write(0, &octets);
        let own = mac(1);
        for (base, iova) in [(reg::CMD_BASE_LO, CMD), (reg::EVT_BASE_LO, EVT), (reg::PDATA_BASE_LO, INBOUND)] {
            device.bus().write32(base, iova as u32).expect("adapter");
            device.bus().write32(base + 4, (iova >> 32) as u32).expect("adapter");
        }
        for (register, value) in [
            (reg::CMD_LOG2, CMD_LOG2),
            (reg::EVT_LOG2, EVT_LOG2),
            (reg::MAC_LO, u32::from_le_bytes([own[0], own[1], own[2], own[3]])),
            (reg::MAC_HI, u32::from(own[4]) | u32::from(own[5]) << 8),
            (reg::RANDOM, seed as u32),
            (reg::ISN_KEY0, seed as u32),
            (reg::ARP_RETRY, 100),
            (reg::TCP_RTO_INIT, 60),
            (reg::TCP_RTO_MIN, 60),
            (reg::TCP_RTO_MAX, 400),
            (reg::TCP_R2, 1500),
            (reg::TCP_R2_SYN, 1500),
            (reg::TCP_2MSL, 300),
            (reg::TCP_CHALLENGES, 255),
            (reg::MPA_TIMEOUT, 1500),
            (reg::CONNECT_TIMEOUT, LONGEST_US),
            (reg::CLOSE_TIMEOUT, 1500),
            (reg::REFUSAL_TIMEOUT, 300),
            (reg::SPARE_SLOTS, 4),
            (reg::CONTROL, reg::control::ENABLE),
        ] {
            device.bus().write32(register, value).expect("adapter");
        }
        let mut host = Host {
            world,
            device,
            cmd,
            evt,
            cmd_tail: 0,
            evt_head: 0,
            context: 0,
            rules: Rules::default(),
            named: Vec::new(),
            dma_errors: 0,
        };
        host.add_address();
        host.settle();
        (host, peer)
    }
    /// The one address and all ports, whatever nonsense made of them.
    fn repair(&mut self) {
        for address in self.rules.addresses.clone() {
            self.post(Command { opcode: Opcode::AddressDelete as u8, local_addr: address, ..Command::default() });
        }
        self.add_address();
        self.post(Command { opcode: Opcode::Unreserve as u8, local_port: 1, remote_port: 65535, ..Command::default() });
    }
    fn add_address(&mut self) {
        let mask = u32::MAX << 8;
        self.post(Command { opcode: Opcode::AddressAdd as u8, local_addr: address(1).into(), remote_addr: mask, ..Command::default() });
    }
    fn read(&mut self, register: u32) -> u32 {
        self.device.read(register).expect("adapter")
    }
    /// Waits for room; its context is set here.
    fn post(&mut self, mut command: Command) {
        let mut left = ANSWER;
        while self.cmd_tail.wrapping_sub(self.read(reg::CMD_HEAD) as u16) >= 1 << CMD_LOG2 {
            assert!(left > 0, "the command ring stands still: {:?}", self.rules.out);
            left -= 100;
            self.run(100);
        }
        self.context += 1;
        command.context = self.context;
        if (Opcode::Connect as u8..=Opcode::Reject as u8).contains(&command.opcode) {
            self.named.push((command.data_addr, command.data_addr.saturating_add(command.data_len.into())));
        }
        self.rules.posted(command);
        let at = usize::from(self.cmd_tail % (1 << CMD_LOG2)) * ENTRY_OCTETS;
        for (i, dword) in command.encode().into_iter().enumerate() {
            self.cmd.write_u32(at + 4 * i, dword);
        }
        self.cmd_tail = self.cmd_tail.wrapping_add(1);
        self.device.bus().write32(reg::CMD_TAIL, self.cmd_tail.into()).expect("adapter");
    }
    fn run(&mut self, cycles: u64) {
        lock(&self.world).run(cycles);
        let mut heard = false;
        loop {
            let at = usize::from(self.evt_head % (1 << EVT_LOG2)) * ENTRY_OCTETS;
            let words: [u32; ENTRY_DWORDS] = std::array::from_fn(|i| self.evt.read_u32(at + 4 * i));
            let event = Event::decode(&words);
            if event.phase != (self.evt_head >> EVT_LOG2 & 1 == 0) {
                break;
            }
            self.rules.judge(&event);
            self.evt_head = self.evt_head.wrapping_add(1);
            heard = true;
        }
        if heard {
            self.device.bus().write32(reg::EVT_HEAD, self.evt_head.into()).expect("adapter");
        }
        let mut world = lock(&self.world);
        let adapter = world.adapter_mut(0);
        for fault in adapter.take_dma_faults() {
            let last = fault.iova.saturating_add(fault.len.into());
            let asked = self.named.iter().any(|(from, to)| fault.iova < *to && last > *from);
            assert!(!fault.write && asked, "DMA outside of what was named: {fault:?}");
            self.dma_errors += 1;
        }
    }
    /// Until every command is answered, NOP included.
    fn settle(&mut self) {
        self.post(Command { opcode: Opcode::Nop as u8, ..Command::default() });
        let mut left = ANSWER;
        while !self.rules.out.is_empty() {
            assert!(left > 0, "no answer to {:?}", self.rules.out);
            left -= 200;
            self.run(200);
        }
    }
    /// Everything ends; nothing is left.
    fn finish(&mut self, peer: &QueueHandle) {
        for handle in self.rules.listeners.keys().copied().collect::<Vec<_>>() {
            self.post(Command { opcode: Opcode::Unlisten as u8, handle: Handle(handle), ..Command::default() });
        }
        self.settle();
        let mut left = TIME_OUTS;
        while !self.rules.connections.is_empty() || self.read(reg::CONNECTIONS_LIVE) > 0 {
            assert!(left > 0, "{} connections live on, of them known {:x?}", self.read(reg::CONNECTIONS_LIVE), self.rules.connections);
            left -= 10_000;
            for handle in self.rules.connections.keys().copied().collect::<Vec<_>>() {
                self.post(Command { opcode: Opcode::Abort as u8, handle: Handle(handle), ..Command::default() });
            }
            self.run(10_000);
            peer.drain();
        }
        self.settle();
        // TIME-WAIT
        self.run(2 * 64 * 300);
        assert_eq!(self.read(reg::LISTENERS_LIVE), 0);
        for opcode in [Opcode::Unreserve, Opcode::Reserve, Opcode::Unreserve] {
            self.post(Command { opcode: opcode as u8, local_port: 1, remote_port: 65535, ..Command::default() });
            let context = self.context;
            self.rules.statuses.clear();
            self.settle();
            assert_eq!(self.rules.statuses.get(&(opcode as u8, 0)), Some(&1), "{opcode:?} of {context}: {:?}", self.rules.statuses);
        }
        for (made, ended) in [(Counter::ConnCreated, Counter::ConnFreed), (Counter::ListenCreated, Counter::ListenDestroyed)] {
            let [made, ended] = [made, ended].map(|c| self.device.counter(c).expect("adapter"));
            assert_eq!(made, ended);
        }
        let stopped = reg::status_bits::CMD_STOPPED | reg::status_bits::DMA_WRITE_ERROR;
        assert_eq!(self.read(reg::STATUS) & stopped, 0);
        lock(&self.world).assert_clean();
    }
    fn print(&mut self) {
        let counters: BTreeMap<_, _> =
            self.device.stats().expect("adapter").into_iter().filter(|(_, v)| *v != 0).map(|(c, v)| (c.name(), v)).collect();
        println!("{} cycles, {} DMA errors, events {:?}, {counters:?}", lock(&self.world).cycle(), self.dma_errors, self.rules.kinds);
    }
}

// ---- the peers

mod tcp {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
}

fn sum(octets: &[u8], start: u32) -> u16 {
    let mut sum = start;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Makes the checksums of an IPv4 datagram and the TCP segment in it right, as far as they can be found.
fn fix(frame: &mut [u8]) {
    let Some(ip) = frame.get_mut(14..).filter(|ip| ip.len() >= 20) else { return };
    let header = (usize::from(ip[0] & 15) * 4).clamp(20, ip.len());
    ip[10..12].fill(0);
    let right = sum(&ip[..header], 0);
    ip[10..12].copy_from_slice(&right.to_be_bytes());
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]])).clamp(header, ip.len());
    let len = total - header;
    if len < 18 {
        return;
    }
    let mut pseudo = ip[12..20].to_vec();
    pseudo.extend([0, ip[9]]);
    pseudo.extend((len as u16).to_be_bytes());
    ip[header + 16..header + 18].fill(0);
    let right = sum(&ip[header..total], u32::from(!sum(&pseudo, 0)));
    ip[header + 16..header + 18].copy_from_slice(&right.to_be_bytes());
}

#[derive(Clone, Debug)]
struct Segment {
    from: u8,
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl Segment {
    fn frame(&self) -> Vec<u8> {
        let mut f = mac(1).to_vec();
        f.extend(mac(self.from));
        f.extend([8, 0]);
        let header = 20 + self.options.len().min(40) / 4 * 4;
        f.extend([0x45, 0]);
        f.extend(((20 + header + self.payload.len()) as u16).to_be_bytes());
        f.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        f.extend(address(self.from).octets());
        f.extend(address(1).octets());
        f.extend(self.ports.0.to_be_bytes());
        f.extend(self.ports.1.to_be_bytes());
        f.extend(self.seq.to_be_bytes());
        f.extend(self.ack.to_be_bytes());
        f.extend([(header as u8 / 4) << 4, self.flags]);
        f.extend(self.window.to_be_bytes());
        f.extend([0; 4]);
        f.extend(&self.options[..header - 20]);
        f.extend(&self.payload);
        fix(&mut f);
        f
    }
}

/// An MPA start-up frame.
fn start_up(reply: bool, flags: u8, revision: u8, data: &[u8]) -> Vec<u8> {
    let mut f = if reply { b"MPA ID Rep Frame".to_vec() } else { b"MPA ID Req Frame".to_vec() };
    f.extend([flags, revision]);
    f.extend((data.len() as u16).to_be_bytes());
    f.extend(data);
    f
}

/// One connection as the peers see it.
struct Flow {
    from: u8,
    /// The peer's, the adapter's.
    ports: (u16, u16),
    iss: u32,
    /// What the adapter expects next.
    snd_nxt: u32,
    /// What it sends next.
    rcv_nxt: u32,
    /// It has sent SYN.
    heard: bool,
    /// What this side says before it closes.
    says: Vec<u8>,
}

struct Peers {
    wire: QueueHandle,
    rng: StdRng,
    flows: Vec<Flow>,
    /// Frames sent.
    sent: u64,
    last: Vec<u8>,
}

/// Connections that peers have in mind at a time.
const FLOWS: usize = 40;

impl Peers {
    fn new(wire: QueueHandle, seed: u64) -> Self {
        Peers { wire, rng: StdRng::seed_from_u64(!seed), flows: Vec::new(), sent: 0, last: vec![0; 60] }
    }
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut data = vec![0; self.rng.random_range(0..=most)];
        self.rng.fill_bytes(&mut data);
        data
    }
    /// What a peer says: mostly a good frame.
    fn speech(&mut self, reply: bool) -> Vec<u8> {
        let rng = &mut self.rng;
        let flags = if rng.random_ratio(4, 5) { rng.random_range(0..4u8) << 5 & 0x60 } else { rng.random() };
        let revision = if rng.random_ratio(9, 10) { rng.random_range(1..=2) } else { rng.random() };
        let flags = if revision == 2 && rng.random() { flags | 0x10 } else { flags };
        let most = [0, 4, 16, 100, 512, 520][rng.random_range(0..6)];
        let data = self.bytes(most);
        let mut says = start_up(reply, flags, revision, &data);
        match self.rng.random_range(0..10) {
            0 => {
                let at = self.rng.random_range(0..says.len());
                says[at] ^= 1 << self.rng.random_range(0..8);
            }
            1 => says.extend(self.bytes(40)),
            2 => {
                let len = self.rng.random_range(0..says.len());
                says.truncate(len);
            }
            _ => {}
        }
        says
    }
    fn begin(&mut self, from: u8, ports: (u16, u16), rcv_nxt: u32, heard: bool) {
        if self.flows.len() == FLOWS {
            let at = self.rng.random_range(0..FLOWS);
            self.flows.swap_remove(at);
        }
        let iss = self.rng.random();
        let says = self.speech(heard);
        self.flows.push(Flow { from, ports, iss, snd_nxt: iss, rcv_nxt, heard, says });
    }
    /// Learns from what the adapter sent; answers ARP.
    fn listen(&mut self) {
        for sent in self.wire.drain() {
            let f = sent.frame.octets;
            if f.get(12..14) == Some(&[8, 6]) && f.get(21) == Some(&1) && f[41] != 99 {
                let mut reply = f[6..12].to_vec();
                reply.extend(mac(f[41]));
                reply.extend(&f[12..20]);
                reply.extend([0, 2]);
                reply.extend(mac(f[41]));
                reply.extend(&f[38..42]);
                reply.extend(&f[22..32]);
                reply.resize(60, 0);
                self.wire.send(reply);
                continue;
            }
            if f.get(12..14) != Some(&[8, 0]) || f[23] != 6 {
                continue;
            }
            let word = |at| u32::from_be_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]]);
            let port = |at| u16::from_be_bytes([f[at], f[at + 1]]);
            let (from, ports, flags) = (f[33], (port(36), port(34)), f[47]);
            let len = u32::from(port(16)) - 20 - u32::from(f[46] >> 4) * 4;
            let end = word(38).wrapping_add(len + u32::from(flags & tcp::SYN != 0) + u32::from(flags & tcp::FIN != 0));
            if let Some(flow) = self.flows.iter_mut().find(|flow| (flow.from, flow.ports) == (from, ports)) {
                if flags & tcp::RST == 0 {
                    flow.heard |= flags & tcp::SYN != 0;
                    flow.rcv_nxt = end;
                    if flags & tcp::ACK != 0 {
                        flow.snd_nxt = word(42);
                    }
                }
            } else if flags & (tcp::SYN | tcp::ACK | tcp::RST) == tcp::SYN {
                self.begin(from, ports, end, true);
            }
        }
    }
    /// The next segment that is right, or nearly.
    fn segment(&mut self) -> Segment {
        if self.flows.is_empty() || self.rng.random_ratio(1, 6) {
            let (from, ports) = (self.rng.random_range(2..9), (self.rng.random_range(1000..1100), self.rng.random_range(4790..4800)));
            if !self.flows.iter().any(|flow| (flow.from, flow.ports) == (from, ports)) {
                self.begin(from, ports, 0, false);
            }
        }
        let at = if self.rng.random() { self.flows.len() - 1 } else { self.rng.random_range(0..self.flows.len()) };
        let kind = self.rng.random_range(0..20);
        let flow = &self.flows[at];
        let spoken = flow.snd_nxt.wrapping_sub(flow.iss).wrapping_sub(1) as usize;
        let mut s = Segment {
            from: flow.from,
            ports: flow.ports,
            seq: flow.snd_nxt,
            ack: flow.rcv_nxt,
            flags: tcp::ACK,
            window: 0x7fff,
            options: vec![],
            payload: vec![],
        };
        if flow.snd_nxt == flow.iss {
            s.flags = tcp::SYN | if flow.heard { tcp::ACK } else { 0 };
            s.options = vec![2, 4, 5, 0xb4];
            return s;
        }
        match kind {
            0 => s.flags |= tcp::FIN,
            1 => s.flags = tcp::RST,
            2 => s.flags = tcp::RST | tcp::ACK,
            3 => s.flags = tcp::SYN,
            4 => s.flags = tcp::SYN | tcp::ACK,
            5..8 => {}
            _ => {
                s.flags |= tcp::PSH;
                let rest = flow.says.get(spoken..).unwrap_or(&[]);
                let piece = if kind < 12 { self.rng.random_range(0..=rest.len()) } else { rest.len() };
                s.payload = rest[..piece].to_vec();
                if piece == rest.len() && kind < 10 {
                    s.flags |= tcp::FIN;
                }
            }
        }
        s
    }
    fn near(&mut self, n: u32) -> u32 {
        match self.rng.random_range(0..5) {
            0 => n.wrapping_add(1),
            1 => n.wrapping_sub(1),
            2 => n.wrapping_add(self.rng.random_range(0..70_000)),
            3 => n.wrapping_sub(self.rng.random_range(0..70_000)),
            _ => self.rng.random(),
        }
    }
    fn spoil(&mut self, s: &mut Segment) {
        match self.rng.random_range(0..8) {
            0 => s.flags = self.rng.random(),
            1 => s.flags ^= 1 << self.rng.random_range(0..6),
            2 => s.seq = self.near(s.seq),
            3 => s.ack = self.near(s.ack),
            4 => s.window = if self.rng.random() { self.rng.random() } else { self.rng.random_range(0..4) },
            5 => {
                s.options = self.bytes(40);
                // kinds that are walked
                for at in 0..s.options.len() {
                    if self.rng.random() {
                        s.options[at] = self.rng.random_range(0..6);
                    }
                }
            }
            6 => {
                let most = if self.rng.random_ratio(1, 8) { 1460 } else { 60 };
                s.payload = self.bytes(most);
            }
            _ => {
                let extra = self.bytes(30);
                s.payload.extend(extra);
            }
        }
    }
    /// One frame, more or less right.
    fn send(&mut self) {
        self.sent += 1;
        let how = self.rng.random_range(0..100);
        if how == 0 {
            let noise = self.bytes(200);
            return self.wire.send(noise);
        }
        if how == 1 {
            // ARP, right in its head
            let mut f = mac(1).to_vec();
            f.extend(mac(self.rng.random_range(2..9)));
            f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, self.rng.random_range(0..4)]);
            f.extend(mac(self.rng.random_range(2..9)));
            f.extend(address(self.rng.random_range(2..9)).octets());
            f.extend(mac(1));
            f.extend(address(self.rng.random_range(0..3)).octets());
            f.resize(60, 0);
            return self.wire.send(f);
        }
        if how < 6 {
            // what was sent before comes again
            return self.wire.send(self.last.clone());
        }
        let mut s = self.segment();
        if how >= 50 {
            for _ in 0..self.rng.random_range(0..3) {
                self.spoil(&mut s);
            }
        }
        let mut frame = s.frame();
        if how >= 80 {
            let at = self.rng.random_range(14..frame.len());
            match self.rng.random_range(0..4) {
                0 => frame.truncate(at),
                1 => frame[at] = self.rng.random(),
                _ => frame[at] ^= 1 << self.rng.random_range(0..8),
            }
            if self.rng.random_ratio(4, 5) {
                fix(&mut frame);
            }
        }
        if self.rng.random_ratio(9, 10) && frame.len() < 60 {
            frame.resize(60, 0);
        }
        if self.rng.random_ratio(1, 10) {
            self.last.clone_from(&frame);
        }
        if how == 99 {
            self.wire.send_at(0, Frame { octets: frame, error: true });
        } else {
            self.wire.send(frame);
        }
    }
}

// ---- the commands

fn private_data(rng: &mut StdRng) -> (u64, u16) {
    let len = [0, 1, 4, 20, 508, 512][rng.random_range(0..6)];
    (OUTBOUND + rng.random_range(0..OUTBOUND_OCTETS as u64 - 512), len)
}

/// A command that makes sense now.
fn sense(rng: &mut StdRng, rules: &Rules) -> Command {
    use EventKind::{ConnectReply, ConnectRequest, Established};
    let (data_addr, data_len) = private_data(rng);
    let command = Command { data_addr, data_len, ird: rng.random_range(0..40), ord: rng.random_range(0..40), ..Command::default() };
    let choose = |rng: &mut StdRng, want: &dyn Fn(&Known) -> bool| {
        let of: Vec<_> = rules.connections.iter().filter(|(_, known)| want(known)).map(|(h, _)| Handle(*h)).collect();
        (!of.is_empty()).then(|| of[rng.random_range(0..of.len())])
    };
    let asked = choose(rng, &|k| k.told == [ConnectRequest] && !k.accepted && !k.ending);
    let open = choose(rng, &|k| matches!(k.told.last(), Some(ConnectReply | Established)) && (k.accepted || k.connected));
    let with = |opcode: Opcode, handle| Command { opcode: opcode as u8, handle, ..command };
    match (rng.random_range(0..10), asked, open) {
        (0..5, Some(handle), _) => with(if rng.random_ratio(2, 3) { Opcode::Accept } else { Opcode::Reject }, handle),
        (5..7, _, Some(handle)) => with(if rng.random_ratio(2, 3) { Opcode::Disconnect } else { Opcode::Abort }, handle),
        (7, ..) if rules.listeners.len() < 8 => Command {
            local_port: rng.random_range(4790..4800),
            backlog_half_open: 16,
            backlog_accept: 8,
            ..with(Opcode::Listen, Handle::NONE)
        },
        (8, ..) if rules.listeners.len() > 6 => {
            let at = rng.random_range(0..rules.listeners.len());
            with(Opcode::Unlisten, rules.listeners.keys().nth(at).copied().map_or(Handle::NONE, Handle))
        }
        // most slots are for peers
        _ if rules.connections.len() > CONNECTIONS / 3 => with(Opcode::Nop, Handle::NONE),
        _ => Command {
            local_addr: address(1).into(),
            remote_addr: address(if rng.random_ratio(1, 20) { 99 } else { rng.random_range(2..9) }).into(),
            remote_port: rng.random_range(1000..1100),
            flags: [0, flag::ENHANCED, flag::ENHANCED | flag::RETRY, flag::ENHANCED | flag::PEER_TO_PEER][rng.random_range(0..4)],
            data_len: data_len.min(508),
            ..with(Opcode::Connect, Handle::NONE)
        },
    }
}

/// A command that mostly makes none.
fn nonsense(rng: &mut StdRng, rules: &Rules) -> Command {
    let words: [u32; ENTRY_DWORDS] = std::array::from_fn(|_| rng.random());
    let mut c = Command::decode(&words);
    if rng.random_ratio(9, 10) {
        c = sense(rng, rules);
        for _ in 0..rng.random_range(1..4) {
            let pick = |rng: &mut StdRng, of: Vec<u64>| Handle(of.get(rng.random_range(0..of.len().max(1))).copied().unwrap_or(0));
            match rng.random_range(0..14) {
                0 => c.opcode = rng.random_range(0..14),
                1 => c.flags ^= 1 << rng.random_range(0..8),
                2 => c.flags |= flag::QUIET,
                3 => c.handle = pick(rng, rules.connections.keys().copied().collect()),
                4 => c.handle = pick(rng, rules.listeners.keys().copied().collect()),
                5 => c.handle = pick(rng, rules.seen.iter().rev().take(50).copied().collect()),
                6 => c.handle.0 ^= 1 << rng.random_range(0..64),
                7 => c.local_port = [0, 1, 4791, 65535, rng.random()][rng.random_range(0..5)],
                8 => c.remote_port = [0, 1, 4791, 65535, rng.random()][rng.random_range(0..5)],
                9 => c.local_addr = [0, u32::MAX, address(1).into(), address(2).into(), rng.random()][rng.random_range(0..5)],
                10 => c.remote_addr = [0, u32::MAX, address(1).into(), 0xe000_0001, rng.random()][rng.random_range(0..5)],
                11 => c.data_len = [0, 1, 509, 512, 513, 65535, rng.random()][rng.random_range(0..7)],
                12 => {
                    // past the end, across it, nowhere, at the end of all
                    let end = OUTBOUND + OUTBOUND_OCTETS as u64;
                    c.data_addr = [end, end - 8, end - 1, 0, u64::MAX - 3, rng.random::<u64>() | 1 << 63][rng.random_range(0..6)];
                }
                _ => (c.ird, c.ord, c.tos, c.qpn) = (rng.random(), rng.random(), rng.random(), rng.random::<u32>() >> 8),
            }
        }
    }
    // a run has an end
    c.timeout_us = rng.random_range(0..LONGEST_US);
    c
}

/// After each batch every command is answered and what is on the wire is taken; at the end nothing is left.
struct Fuzz {
    host: Host,
    peers: Peers,
    rng: StdRng,
}

impl Fuzz {
    fn new(seed: u64) -> Self {
        let (host, wire) = Host::new(seed);
        Fuzz { host, peers: Peers::new(wire, seed), rng: StdRng::seed_from_u64(seed) }
    }
    fn batch(&mut self, frames: u64, sensible: u64, nonsensical: u64) {
        for _ in 0..frames {
            self.peers.send();
            if self.rng.random_ratio(1, 4) {
                self.host.run(60);
                self.peers.listen();
            }
        }
        for n in 0..sensible + nonsensical {
            let command = if n < sensible { sense(&mut self.rng, &self.host.rules) } else { nonsense(&mut self.rng, &self.host.rules) };
            self.host.post(command);
            self.host.run(20);
        }
        let mut left = ANSWER;
        while self.peers.wire.pending() > 0 {
            assert!(left > 0, "frames are not taken");
            left -= 100;
            self.host.run(100);
        }
        if nonsensical > 0 && self.rng.random_ratio(1, 10) {
            self.host.repair();
        }
        self.host.settle();
        self.peers.listen();
        // now and then the time-outs have their turn
        if self.rng.random_ratio(1, 100) {
            let cycles = self.rng.random_range(0..40_000);
            self.host.run(cycles);
            self.peers.listen();
        }
    }
    /// Ends all, and then one good life shows that the adapter is as it was.
    fn finish(mut self) {
        self.host.print();
        self.host.finish(&self.peers.wire);
        self.host.repair();
        self.host.settle();
        let port = 4791;
        self.host.post(Command {
            opcode: Opcode::Listen as u8,
            local_port: port,
            backlog_half_open: 1,
            backlog_accept: 1,
            ..Command::default()
        });
        self.host.settle();
        self.peers.flows.clear();
        self.peers.begin(9, (2000, port), 0, false);
        self.peers.flows[0].says = start_up(false, 0, 1, b"one good life");
        self.peers.rng = StdRng::seed_from_u64(1);
        let right = |flow: &Flow| {
            let spoken = flow.snd_nxt.wrapping_sub(flow.iss) as usize;
            Segment {
                from: flow.from,
                ports: flow.ports,
                seq: flow.snd_nxt,
                ack: flow.rcv_nxt,
                flags: if spoken == 0 { tcp::SYN } else { tcp::ACK },
                window: 0x7fff,
                options: vec![],
                payload: if spoken == 0 { vec![] } else { flow.says[(spoken - 1).min(flow.says.len())..].to_vec() },
            }
        };
        for _ in 0..50 {
            let mut frame = right(&self.peers.flows[0]).frame();
            frame.resize(frame.len().max(60), 0);
            self.peers.wire.send(frame);
            self.host.run(3000);
            self.peers.listen();
            if !self.host.rules.connections.is_empty() {
                break;
            }
        }
        let handle = *self.host.rules.connections.keys().next().expect("CONNECT_REQUEST");
        self.host.post(Command { opcode: Opcode::Accept as u8, handle: Handle(handle), ..Command::default() });
        self.host.settle();
        self.host.run(1000);
        assert_eq!(self.host.rules.connections[&handle].told, [EventKind::ConnectRequest, EventKind::Established]);
        self.host.finish(&self.peers.wire);
    }
}

/// Covers: CM-3, CM-12, CM-13, CM-43
#[test]
fn frames_that_are_nearly_right_hang_nothing_and_leave_nothing() {
    let seed = seed("--test fuzz frames", 1);
    let frames = count("FUZZ_FRAMES", 5000u64);
    let mut fuzz = Fuzz::new(seed);
    while fuzz.peers.sent < frames {
        fuzz.batch(16, 4, 0);
    }
    let counter = |c| fuzz.host.device.counter(c).expect("adapter");
    assert!([Counter::ConnEstablished, Counter::TcpInUnacceptable, Counter::MpaMalformed, Counter::TcpInErrs]
        .map(counter)
        .iter()
        .all(|n| *n > 0));
    fuzz.finish();
}

/// Covers: CM-3, CM-32, CM-43
#[test]
fn commands_that_make_no_sense_get_one_answer_and_leave_nothing() {
    let seed = seed("--test fuzz commands", 2);
    let commands = count("FUZZ_COMMANDS", 3000u64);
    let mut fuzz = Fuzz::new(seed);
    for _ in 0..commands.div_ceil(8) {
        fuzz.batch(8, 2, 6);
    }
    println!("{:?}", fuzz.host.rules.statuses);
    assert!(fuzz.host.dma_errors > 0);
    fuzz.finish();
}

/// Bits 31:24 are 0 in every handle that was given out: with one of them it names nobody.
///
/// Covers: CM-32
#[test]
fn a_handle_with_stray_bits_is_stale() {
    let (mut host, peer) = Host::new(3);
    host.post(Command { opcode: Opcode::Listen as u8, local_port: 4791, ..Command::default() });
    host.settle();
    let handle = *host.rules.listeners.keys().next().expect("LISTEN_REPLY");
    for bit in 24..32 {
        for opcode in [Opcode::Unlisten, Opcode::Abort] {
            host.post(Command { opcode: opcode as u8, handle: Handle(handle | 1 << bit), ..Command::default() });
            host.settle();
        }
    }
    let stale = |opcode: Opcode| host.rules.statuses.get(&(opcode as u8, Status::NoEntry as i32)).copied();
    assert_eq!((stale(Opcode::Unlisten), stale(Opcode::Abort)), (Some(8), Some(8)));
    assert_eq!(host.device.counter(Counter::StaleHandles).expect("adapter"), 16);
    host.finish(&peer);
}
