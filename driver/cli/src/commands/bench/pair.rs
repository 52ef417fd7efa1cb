// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two adapters back to back over a watched wire without length, their neighbour known to each.
use super::stamps::{self, DataAreas, Mark, SharedWatch, Watched};
use crate::Failure;
use ironwarp_abi::{reg, ENTRY_OCTETS};
use ironwarp_rnic::{AcceptParam, Config, ConnectParam, Connection, Event, Rnic, TcpSettings};
use ironwarp_sim::{bus::lock, AdapterConfig, DmaConfig, InProcessBus, Latency, SharedWorld, World};
use ironwarp_wire::MacAddr;
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Which adapter.
pub(super) type End = usize;
pub(super) const A: End = 0;
pub(super) const B: End = 1;
/// Port of B's listener.
pub(super) const PORT: u16 = 4791;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// `TIMEBASE` of 62.5 MHz. No timer runs out in a measurement, so that no figure depends on it.
const TIMEBASE: u32 = 0x418;
/// TIME-WAIT, microseconds: short, so that a closed connection is soon gone.
const TWO_MSL_US: u32 = 100;
/// Least retransmission time-out of data, microseconds.
const RTO_US: u32 = 1000;
/// log2 of ring entries: nothing that is measured waits for a ring.
const RING_LOG2: u32 = 10;
/// Bound of every wait, in adapter time.
const BOUND: Duration = Duration::from_millis(20);
/// Longer than an interrupt needs that comes again after its acknowledgement.
const AFTER_ACK: Duration = Duration::from_micros(2);
/// Cycles of silence at the ports after which the adapters are at rest: longer than it takes to work off 32 ACKs, to which nothing is answered.
const SILENCE: u64 = 2048;
/// Cycles until the silence must have come.
const REST_BOUND: u64 = 1_000_000;

pub(super) type Adapter = Rnic<InProcessBus>;

/// Where the rings of an adapter are.
pub(super) struct Areas {
    pub(super) commands: Range<u64>,
    pub(super) events: Range<u64>,
    pub(super) data: DataAreas,
}

pub(super) struct Pair {
    pub(super) world: SharedWorld,
    pub(super) watch: SharedWatch,
    areas: [Areas; 2],
    pub(super) a: Adapter,
    pub(super) b: Adapter,
}

impl Pair {
    /// Attached, addressed, B listening at [`PORT`], and one connection made and aborted, so that each knows its neighbour.
    /// With `interrupts` the hosts wait for them, else they look at their rings.
    pub(super) fn new(seed: u32, turnaround: u32, interrupts: bool) -> Result<Self, Failure> {
        Self::with_tcp(seed, turnaround, interrupts, TcpSettings::default())
    }
    /// For data: with `window` octets of receive window, or the adapter's own, and a bound of the retransmission time-out that is far above all that passes here, so that what
    /// is lost in a measurement does not hold it up for long.
    pub(super) fn for_data(seed: u32, window: Option<u32>) -> Result<Self, Failure> {
        Self::with_tcp(seed, 0, false, TcpSettings { window, rto_min_us: Some(RTO_US), ..TcpSettings::default() })
    }
    fn with_tcp(seed: u32, turnaround: u32, interrupts: bool, tcp: TcpSettings) -> Result<Self, Failure> {
        let mut world = World::new(0);
        for (seed, name) in (u64::from(seed)..).zip(["a", "b"]) {
            world.add(&AdapterConfig::new(name, seed));
        }
        let (wire, watch) = Watched::new();
        world.connect(Box::new(wire), &[A, B]);
        let world: SharedWorld = Arc::new(Mutex::new(world));
        let attach = |end: End| {
            let config = Config {
                mac: MacAddr([0x02, 0x1b, 0xad, 0, 0, end as u8 + 1]),
                timebase: Some(TIMEBASE),
                random: Some(seed.wrapping_mul(0x9e37_79b9).wrapping_add(end as u32)),
                tcp: TcpSettings { two_msl_us: Some(TWO_MSL_US), spare_slots: Some(0), ..tcp.clone() },
                cmd_log2: RING_LOG2,
                evt_log2: RING_LOG2,
                interrupts,
                command_timeout: BOUND,
                reset_timeout: Duration::from_millis(100),
                ..Config::default()
            };
            Rnic::attach(InProcessBus::new(&world, end), config)
        };
        let (a, b) = (attach(A)?, attach(B)?);
        let areas = [Areas::of(&world, A)?, Areas::of(&world, B)?];
        let mut pair = Pair { world, watch, areas, a, b };
        pair.a.address_add(ADDRESSES[A], 24, None)?;
        pair.b.address_add(ADDRESSES[B], 24, None)?;
        pair.b.create_listen(Ipv4Addr::UNSPECIFIED, PORT, 0)?;
        let ends = pair.open(0)?;
        pair.abort(ends)?;
        lock(&pair.world).set_host_turnaround(turnaround);
        pair.rest()?;
        Ok(pair)
    }
    pub(super) fn rnic(&mut self, end: End) -> &mut Adapter {
        if end == A {
            &mut self.a
        } else {
            &mut self.b
        }
    }
    /// Says where queues are.
    pub(super) fn set_data_areas(&mut self, end: End, areas: DataAreas) {
        self.areas[end].data = areas;
    }
    /// Cycles from a DMA request to its answer, and from a write to its arrival, at both hosts.
    pub(super) fn set_dma_latency(&mut self, cycles: u32) {
        let latency = Latency::Fixed(cycles);
        let config = DmaConfig { read_latency: latency, write_latency: latency, ..DmaConfig::default() };
        (0..2).for_each(|end| lock(&self.world).adapter_mut(end).set_dma_config(config));
    }
    /// Lets everything come to rest, frames that the wire holds excepted.
    pub(super) fn rest(&mut self) -> Result<(), Failure> {
        let mut world = lock(&self.world);
        // what the wire has just let go is seen in the next clock
        world.step();
        let still = |world: &mut World| world.adapters().iter().all(|a| a.quiet_for() >= SILENCE);
        match world.run_until(REST_BOUND, still) {
            true => Ok(()),
            false => Err(format!("no rest within {REST_BOUND} cycles").into()),
        }
    }
    /// Carries `work` out and lets it come to rest; what it returned, and what was seen at the ports.
    pub(super) fn seen<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<(T, Vec<Mark>), Failure> {
        self.rest()?;
        // neither an event nor an interrupt of what was before wakes a host
        for rnic in [&mut self.a, &mut self.b] {
            while rnic.poll_event()?.is_some() || rnic.wait_causes(u32::MAX, AFTER_ACK)? != 0 {}
        }
        stamps::start(&mut lock(&self.world), &self.watch);
        let result = work(self)?;
        self.rest()?;
        let marks = self.marks()?;
        marks.iter().for_each(|mark| tracing::debug!(?mark));
        Ok((result, marks))
    }
    /// What was seen since the last start.
    pub(super) fn marks(&mut self) -> Result<Vec<Mark>, Failure> {
        stamps::marks(&mut lock(&self.world), &self.watch, &self.areas)
    }
    /// A connection from A to B, accepted, with so many octets of private data both ways.
    pub(super) fn open(&mut self, octets: usize) -> Result<(Connection, Connection), Failure> {
        self.a.post_connect(&to(PORT, octets))?;
        let (at_b, asked) = self.requested()?;
        self.b.post_accept(&at_b, &AcceptParam { private_data: data(octets), ..AcceptParam::default() })?;
        let at_a = expect(&mut self.a, |event| match event {
            Event::ConnectReply { connection, result: Ok(()), start } if start.private_data == data(octets) => Some(connection),
            _ => None,
        })?;
        expect(&mut self.b, |event| matches!(event, Event::Established { .. }).then_some(()))?;
        match asked == data(octets) {
            true => Ok((at_a, at_b)),
            false => Err("B got other private data than A sent".into()),
        }
    }
    /// Waits for B's CONNECT_REQUEST.
    pub(super) fn requested(&mut self) -> Result<(Connection, Vec<u8>), Failure> {
        expect(&mut self.b, |event| match event {
            Event::ConnectRequest { connection, start, .. } => Some((connection, start.private_data)),
            _ => None,
        })
    }
    /// Aborts at A and waits for FREED on both sides.
    pub(super) fn abort(&mut self, ends: (Connection, Connection)) -> Result<(), Failure> {
        self.a.post_abort(&ends.0)?;
        self.freed()
    }
    /// Waits for FREED on both sides.
    pub(super) fn freed(&mut self) -> Result<(), Failure> {
        let freed = |event| matches!(event, Event::ConnectionFreed { .. }).then_some(());
        expect(&mut self.a, freed)?;
        expect(&mut self.b, freed)
    }
    /// Nothing left, and no rule of the ports broken; the digest of the run.
    pub(super) fn end(self) -> Result<u64, Failure> {
        let live = (self.a.connections(), self.b.connections());
        drop((self.a, self.b));
        let world = lock(&self.world);
        let broken: Vec<_> = world.adapters().iter().flat_map(|adapter| adapter.violations()).collect();
        if live != (0, 0) || !broken.is_empty() {
            return Err(format!("connections left: {live:?}; rules of the ports broken: {broken:?}").into());
        }
        Ok(world.digest())
    }
}

impl Areas {
    fn of(world: &SharedWorld, end: End) -> Result<Self, Failure> {
        let base = |register: u32| -> Result<Range<u64>, Failure> {
            let mut world = lock(world);
            let low = u64::from(world.read32(end, register as u16)?);
            let start = low | u64::from(world.read32(end, register as u16 + 4)?) << 32;
            Ok(start..start + ((ENTRY_OCTETS as u64) << RING_LOG2))
        };
        Ok(Areas { commands: base(reg::CMD_BASE_LO)?, events: base(reg::EVT_BASE_LO)?, data: DataAreas::default() })
    }
}

/// Private data of so many octets.
pub(super) fn data(octets: usize) -> Vec<u8> {
    (0..octets).map(|n| n as u8).collect()
}

/// A CONNECT to B.
pub(super) fn to(port: u16, octets: usize) -> ConnectParam {
    ConnectParam { private_data: data(octets), ..ConnectParam::new(SocketAddrV4::new(ADDRESSES[B], port)) }
}

/// Waits for what `pick` wants; a command that is refused meanwhile is an error.
pub(super) fn expect<T>(rnic: &mut Adapter, mut pick: impl FnMut(Event) -> Option<T>) -> Result<T, Failure> {
    loop {
        let event = rnic.wait_event(BOUND)?.ok_or_else(|| format!("no event within {BOUND:?}"))?;
        if let Event::Refused { .. } | Event::BadReply { .. } = event {
            return Err(format!("{event:?}").into());
        }
        if let Some(found) = pick(event) {
            return Ok(found);
        }
    }
}
