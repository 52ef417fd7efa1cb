// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's connections: set-up with its parts, every way in which one can fail, both ends, and all slots at once.
use super::{Scenario, Step, B, BOUND, ID_A, ID_B};
use crate::Failure;
use ironwarp_abi::{reg, Counter, ENTRY_OCTETS};
use ironwarp_rnic::{AcceptParam, ConnectParam, Connection, Event, Refusal, Rnic, TcpSettings};
use ironwarp_sim::{bus::lock, InProcessBus, Record};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

/// Port of B's listener.
const PORT: u16 = 4791;
/// An address of the network that nobody has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);
/// Private data of Request and Reply.
const ASK: &[u8] = b"who are you?";
const ANSWER: &[u8] = b"an adapter of gates";
const REFUSAL: &[u8] = b"not today";
/// Longest frame of TCP without payload: Ethernet, IPv4, TCP with its MSS option.
const BARE: u32 = 60;
/// Bound of the connection whose SYN nobody answers.
const SYN_BOUND: Duration = Duration::from_millis(3);
/// TIME-WAIT in the demo, microseconds.
const TWO_MSL_US: u32 = 1000;
/// Times of the demo: a thousandth of those of a real net.
pub(super) fn tcp() -> TcpSettings {
    TcpSettings {
        rto_init_us: Some(1000),
        rto_min_us: Some(1000),
        two_msl_us: Some(TWO_MSL_US),
        connect_timeout_us: Some(15_000),
        spare_slots: Some(0),
        ..TcpSettings::default()
    }
}

/// What the capture must show, by the steps of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) requests: u64,
    pub(super) replies: u64,
    pub(super) rejects: u64,
    pub(super) resets: u64,
}

type Adapter = Rnic<InProcessBus>;

fn next(rnic: &mut Adapter, of: &str) -> Result<Event, Failure> {
    rnic.wait_event(BOUND)?.ok_or_else(|| format!("no event at {of} within {BOUND:?}").into())
}

fn unexpected<T>(of: &str, event: &Event) -> Result<T, Failure> {
    Err(format!("{of}: {event:?}").into())
}

impl Scenario {
    fn to_b(data: &[u8]) -> ConnectParam {
        ConnectParam { private_data: data.to_vec(), ..ConnectParam::new(SocketAddrV4::new(B, PORT)) }
    }
    fn requested(&mut self) -> Result<(Connection, Vec<u8>), Failure> {
        match next(&mut self.b, "B")? {
            Event::ConnectRequest { connection, start, .. } => Ok((connection, start.private_data)),
            other => unexpected("B", &other),
        }
    }
    fn replied(&mut self, of: Connection) -> Result<(Result<(), Refusal>, Vec<u8>), Failure> {
        match next(&mut self.a, "A")? {
            Event::ConnectReply { connection, result, start } if connection == of => Ok((result, start.private_data)),
            other => unexpected("A", &other),
        }
    }
    fn freed(rnic: &mut Adapter, of: &str, which: Connection) -> Result<(), Failure> {
        match next(rnic, of)? {
            Event::ConnectionFreed { connection } if connection == which => Ok(()),
            other => unexpected(of, &other),
        }
    }
    /// CLOSE and FREED, perhaps after DISCONNECT.
    fn closed(rnic: &mut Adapter, of: &str, which: Connection) -> Result<Result<(), Refusal>, Failure> {
        let mut event = next(rnic, of)?;
        if (event == Event::Disconnect { connection: which }) {
            event = next(rnic, of)?;
        }
        let Event::Close { connection, result } = event else { return unexpected(of, &event) };
        if connection != which {
            return unexpected(of, &event);
        }
        Self::freed(rnic, of, which)?;
        Ok(result)
    }
    /// A CONNECT that must fail with `expected`.
    fn fails(&mut self, name: &'static str, param: &ConnectParam, expected: Refusal) -> Result<(), Failure> {
        let (result, records, host_cycles) = self.record_both(|s| {
            let connection = s.a.connect(param)?;
            let (result, _) = s.replied(connection)?;
            Self::freed(&mut s.a, "A", connection)?;
            Ok(result)
        })?;
        if result != Err(expected) {
            return Err(format!("{expected:?} expected, came {result:?}").into());
        }
        self.step(name, format!("CONNECT_REPLY, status {}", expected.status()), &records, host_cycles)
    }
    fn step(&mut self, name: &'static str, detail: String, records: &[Vec<Record>; 2], host_cycles: u64) -> Result<(), Failure> {
        let hardware_cycles = span(records).ok_or("the doorbell or the last event is not among the records")?;
        self.done(Step { name, detail, hardware_cycles, host_cycles, parts: Vec::new() });
        Ok(())
    }

    pub(super) fn connect(&mut self, name: &'static str) -> Result<(), Failure> {
        self.peer_listener = Some(self.b.create_listen(Ipv4Addr::UNSPECIFIED, PORT, 32)?);
        let ((at_a, at_b), records, host_cycles) = self.record_both(|s| {
            let at_a = s.a.connect(&Self::to_b(ASK))?;
            let (at_b, data) = s.requested()?;
            if data != ASK {
                return Err(format!("B was asked {data:?}").into());
            }
            s.b.accept(&at_b, &AcceptParam { private_data: ANSWER.to_vec(), ..AcceptParam::default() })?;
            let (result, data) = s.replied(at_a)?;
            if result.is_err() || data != ANSWER {
                return Err(format!("A was told {result:?} with {data:?}").into());
            }
            match next(&mut s.b, "B")? {
                Event::Established { connection, .. } if connection == at_b => Ok((at_a, at_b)),
                other => unexpected("B", &other),
            }
        })?;
        let parts = set_up_parts(&records).ok_or("frames or events are not among the records")?;
        let hardware_cycles = parts.iter().map(|part| part.1).sum();
        let detail = format!("{} and {} octets of private data", ASK.len(), ANSWER.len());
        self.done(Step { name, detail, hardware_cycles, host_cycles, parts });
        self.open = Some((at_a, at_b));
        self.expected.requests += 1;
        self.expected.replies += 1;
        Ok(())
    }
    fn open(&mut self) -> Result<(Connection, Connection), Failure> {
        self.open.take().ok_or_else(|| "no connection".into())
    }
    pub(super) fn close(&mut self, name: &'static str) -> Result<(), Failure> {
        let (at_a, at_b) = self.open()?;
        let (ends, records, host_cycles) = self.record_both(|s| {
            s.a.disconnect(&at_a)?;
            Ok((Self::closed(&mut s.b, "B", at_b)?, Self::closed(&mut s.a, "A", at_a)?))
        })?;
        if ends != (Ok(()), Ok(())) {
            return Err(format!("{ends:?}").into());
        }
        self.step(name, "FIN both ways, CLOSE and FREED on both sides".into(), &records, host_cycles)
    }
    pub(super) fn reject(&mut self, name: &'static str) -> Result<(), Failure> {
        let ((result, data), records, host_cycles) = self.record_both(|s| {
            let at_a = s.a.connect(&Self::to_b(ASK))?;
            let (at_b, _) = s.requested()?;
            s.b.reject(&at_b, REFUSAL)?;
            let told = s.replied(at_a)?;
            Self::freed(&mut s.a, "A", at_a)?;
            Self::freed(&mut s.b, "B", at_b)?;
            Ok(told)
        })?;
        if result != Err(Refusal::Refused) || data != REFUSAL {
            return Err(format!("A was told {result:?} with {data:?}").into());
        }
        self.expected.requests += 1;
        self.expected.replies += 1;
        self.expected.rejects += 1;
        let detail = format!("status {} with {} octets of private data", Refusal::Refused.status(), data.len());
        self.step(name, detail, &records, host_cycles)
    }
    pub(super) fn abort(&mut self, name: &'static str) -> Result<(), Failure> {
        let at_a = self.a.connect(&Self::to_b(b""))?;
        let (at_b, _) = self.requested()?;
        self.b.accept(&at_b, &AcceptParam::default())?;
        let (result, _) = self.replied(at_a)?;
        result.map_err(|why| format!("A was told {why}"))?;
        next(&mut self.b, "B")?;
        let (ends, records, host_cycles) = self.record_both(|s| {
            s.a.abort(&at_a)?;
            let at_a = Self::closed(&mut s.a, "A", at_a)?;
            Ok((at_a, Self::closed(&mut s.b, "B", at_b)?))
        })?;
        if ends.1 != Err(Refusal::Reset) {
            return Err(format!("{ends:?}").into());
        }
        self.expected.requests += 1;
        self.expected.replies += 1;
        self.expected.resets += 1;
        self.step(name, format!("RST; B's CLOSE has status {}", Refusal::Reset.status()), &records, host_cycles)
    }
    /// B does not share its port with a host: what is nobody's is answered by RST.
    pub(super) fn nobody_listens(&mut self, name: &'static str) -> Result<(), Failure> {
        let control = lock(&self.world).read32(ID_B, reg::L2_CONTROL as u16)?;
        lock(&self.world).write32(ID_B, reg::L2_CONTROL as u16, 0)?;
        let param = ConnectParam::new(SocketAddrV4::new(B, PORT + 1));
        self.fails(name, &param, Refusal::Refused)?;
        lock(&self.world).write32(ID_B, reg::L2_CONTROL as u16, control)?;
        self.expected.resets += 1;
        Ok(())
    }
    pub(super) fn no_arp_answer(&mut self, name: &'static str) -> Result<(), Failure> {
        self.fails(name, &ConnectParam::new(SocketAddrV4::new(NOBODY, PORT)), Refusal::HostUnreachable)
    }
    /// B shares its port: the SYN goes to its host, which says nothing.
    pub(super) fn syn_unanswered(&mut self, name: &'static str) -> Result<(), Failure> {
        let param = ConnectParam { timeout: Some(SYN_BOUND), ..ConnectParam::new(SocketAddrV4::new(B, PORT + 1)) };
        self.fails(name, &param, Refusal::TimedOut)?;
        // a peer that saw the SYN without answering yet is told that it is void
        self.expected.resets += 1;
        Ok(())
    }
    /// Every slot of both adapters, twice: the second time shows that the first left nothing.
    pub(super) fn all_slots(&mut self, name: &'static str) -> Result<(), Failure> {
        let slots = usize::from(self.a.devinfo()?.max_connections);
        let mut figures = Vec::new();
        for _ in 0..2 {
            let (pairs, records, host_cycles) = self.record_both(|s| {
                let opened = (0..slots).map(|_| s.a.connect(&Self::to_b(b""))).collect::<Result<Vec<_>, _>>()?;
                match s.a.connect(&Self::to_b(b"")).map_err(|e| e.refusal()) {
                    Err(Some(Refusal::NoMemory)) => {}
                    other => return Err(format!("one more than there are: {other:?}").into()),
                }
                let mut accepted = Vec::new();
                let mut established = 0;
                while established < slots {
                    match next(&mut s.b, "B")? {
                        Event::ConnectRequest { connection, .. } => {
                            s.b.accept(&connection, &AcceptParam::default())?;
                            accepted.push(connection);
                        }
                        Event::Established { .. } => established += 1,
                        other => return unexpected("B", &other),
                    }
                }
                for _ in 0..slots {
                    match next(&mut s.a, "A")? {
                        Event::ConnectReply { result: Ok(()), .. } => {}
                        other => return unexpected("A", &other),
                    }
                }
                Ok((opened, accepted))
            })?;
            figures.push((span(&records).ok_or("no events among the records")?, host_cycles));
            for connection in &pairs.0 {
                self.a.disconnect(connection)?;
            }
            for (of, rnic) in [("A", &mut self.a), ("B", &mut self.b)] {
                let (mut closed, mut freed) = (0, 0);
                while freed < slots {
                    match next(rnic, of)? {
                        Event::Close { result: Ok(()), .. } => closed += 1,
                        Event::ConnectionFreed { .. } => freed += 1,
                        Event::Disconnect { .. } => {}
                        other => return unexpected(of, &other),
                    }
                }
                if closed != slots {
                    return Err(format!("{closed} of {slots} closed at {of}").into());
                }
            }
            self.expected.requests += slots as u64;
            self.expected.replies += slots as u64;
            // TIME-WAIT of each
            self.a.wait_causes(0, Duration::from_micros(u64::from(2 * TWO_MSL_US)))?;
        }
        let (hardware_cycles, host_cycles) = figures[0];
        let each = [("a connection", hardware_cycles / slots as u64), ("the second time, all", figures[1].0)].to_vec();
        self.done(Step { name, detail: format!("{slots} connected, closed, and again"), hardware_cycles, host_cycles, parts: each });
        Ok(())
    }
    /// Whatever was made is freed, on both sides, and the listener goes.
    pub(super) fn nothing_open(&mut self) -> Result<(), Failure> {
        if let Some(listener) = self.peer_listener.take() {
            self.b.destroy_listen(listener)?;
        }
        for (of, rnic) in [("A", &mut self.a), ("B", &mut self.b)] {
            let (made, freed) = (rnic.device().counter(Counter::ConnCreated)?, rnic.device().counter(Counter::ConnFreed)?);
            if made != freed || made == 0 || rnic.connections() != 0 {
                return Err(format!("{of}: {made} connections made, {freed} freed, {} live", rnic.connections()).into());
            }
        }
        Ok(())
    }
    /// As [`Scenario::record`], at both adapters.
    fn record_both<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<(T, [Vec<Record>; 2], u64), Failure> {
        let ids = [ID_A, ID_B];
        ids.iter().for_each(|id| lock(&self.world).adapter_mut(*id).recorder_mut().keep(super::RECORDS));
        let before = lock(&self.world).cycle();
        let result = call(self);
        let mut world = lock(&self.world);
        let cycles = world.cycle() - before;
        let records = ids.map(|id| world.adapter_mut(id).recorder_mut().take());
        drop(world);
        Ok((result?, records, cycles))
    }
}

/// Cycle of the first doorbell of the command ring from `from` on.
fn doorbell(records: &[Record], from: u64) -> Option<u64> {
    records.iter().find_map(|r| match r {
        Record::MmioWrite { cycle, offset, .. } if u32::from(*offset) == reg::CMD_TAIL && *cycle >= from => Some(*cycle),
        _ => None,
    })
}

/// Cycles of the last beats of events.
fn events(records: &[Record]) -> Vec<u64> {
    let mut open = None;
    let mut ends = Vec::new();
    for record in records {
        match record {
            Record::WriteRequest { iova, len, .. } => open = (usize::from(*len) == ENTRY_OCTETS).then_some(*iova),
            Record::WriteBeat { cycle, iova, last: true } if open.is_some_and(|e| (e..e + ENTRY_OCTETS as u64).contains(iova)) => {
                ends.push(*cycle);
            }
            _ => {}
        }
    }
    ends
}

/// From the first doorbell at either adapter to the last event at either.
fn span(records: &[Vec<Record>; 2]) -> Option<u64> {
    let first = records.iter().filter_map(|r| doorbell(r, 0)).min()?;
    let last = records.iter().filter_map(|r| events(r).last().copied()).max()?;
    last.checked_sub(first)
}

/// A frame that left or arrived from cycle `from` on: first and last beat.
fn frame(records: &[Record], from: u64, out: bool, payload: bool) -> Option<(u64, u64)> {
    records.iter().find_map(|r| match r {
        Record::FrameOut { first, last, len, .. } if out && *first >= from && (*len > BARE) == payload => Some((*first, *last)),
        Record::FrameIn { first, last, len, .. } if !out && *first >= from && (*len > BARE) == payload => Some((*first, *last)),
        _ => None,
    })
}

/// The hardware's own times of a set-up, without what B's host needs to accept.
fn set_up_parts(records: &[Vec<Record>; 2]) -> Option<Vec<(&'static str, u64)>> {
    let [a, b] = records;
    let connect = doorbell(a, 0)?;
    let syn = frame(a, connect, true, false)?;
    let syn_in = frame(b, syn.0, false, false)?;
    let syn_ack = frame(b, syn_in.1, true, false)?;
    let syn_ack_in = frame(a, syn_ack.0, false, false)?;
    let request = frame(a, syn_ack_in.1, true, true)?;
    let request_in = frame(b, request.0, false, true)?;
    let announced = events(b).into_iter().find(|end| *end > request_in.1)?;
    let accept = doorbell(b, announced)?;
    let reply = frame(b, accept, true, true)?;
    let reply_in = frame(a, reply.0, false, true)?;
    let replied = events(a).into_iter().find(|end| *end > reply_in.1)?;
    let parts = [
        ("A: CONNECT doorbell to first beat of SYN", connect, syn.0),
        ("SYN on the wire", syn.0, syn_in.1),
        ("B: SYN in to first beat of SYN, ACK", syn_in.1, syn_ack.0),
        ("SYN, ACK on the wire", syn_ack.0, syn_ack_in.1),
        ("A: SYN, ACK in to first beat of the MPA Request", syn_ack_in.1, request.0),
        ("MPA Request on the wire", request.0, request_in.1),
        ("B: MPA Request in to CONNECT_REQUEST in host memory", request_in.1, announced),
        ("B: ACCEPT doorbell to first beat of the MPA Reply", accept, reply.0),
        ("MPA Reply on the wire", reply.0, reply_in.1),
        ("A: MPA Reply in to CONNECT_REPLY in host memory", reply_in.1, replied),
    ];
    parts.into_iter().map(|(name, from, to)| Some((name, to.checked_sub(from)?))).collect()
}
