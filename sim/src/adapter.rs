// SPDX-License-Identifier: MIT OR Apache-2.0
//! One adapter: a core and everything around its ports, one clock at a time.
//!
//! [`Adapter::step`] is one clock: inputs are put up from what the surroundings know, the core settles, the monitor looks, handshakes
//! are taken, the clock rises. As on PCIe, neither an interrupt nor the answer to a register read overtakes DMA writes: both reach the
//! host when the beats that left the core before them have. Nothing here depends on wall time, so equal calls make equal runs ([`Recorder::digest`]).
use crate::{
    dma::{DmaConfig, Fault, HostDma},
    mac::{LineRate, Mac},
    memory::DmaTable,
    monitor::{Monitor, Rule, Violation},
    pins::{Core, Inputs, Verilated},
    record::{Record, Recorder},
    waves,
    wire::{Frame, SentFrame},
};
use ironwarp_abi::reg;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{
    collections::VecDeque,
    sync::{Arc, RwLock},
    time::Duration,
};

/// How an adapter is set up.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// For messages and the file of its waves.
    pub name: String,
    /// Content of memories at power-up, and random latencies.
    pub seed: u64,
    /// The host's DMA.
    pub dma: DmaConfig,
    /// The MAC's line.
    pub line: LineRate,
}

impl AdapterConfig {
    /// A quick host and a line of a beat in every cycle.
    pub fn new(name: &str, seed: u64) -> Self {
        AdapterConfig { name: name.into(), seed, dma: DmaConfig::default(), line: LineRate::FULL }
    }
}

/// Clocks that a function level reset may take: each of its three phases is bounded by 2^16.
pub const FLR_BOUND: u64 = 3 << 16;
/// Cycles for which the reset pin is held at power-up.
pub const RESET_CYCLES: u32 = 8;

/// A register access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mmio {
    /// Read at a byte offset.
    Read(u16),
    /// Write a value at a byte offset.
    Write(u16, u32),
}

/// How far a register access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    None,
    Asked(Mmio),
    /// A read that the core took.
    Taken(u16),
    /// Value read (0 for a write), and the cycle from which the host has it.
    Done(u32, u64),
}

/// TIMEBASE after a reset.
fn reset_timebase() -> u32 {
    reg::CONFIG.iter().find(|r| r.offset == reg::TIMEBASE).map_or(0, |r| r.reset)
}

/// See the module.
pub struct Adapter {
    name: String,
    core: Box<dyn Core>,
    cycle: u64,
    reset_left: u32,
    /// A function level reset began in this cycle and is not over.
    flr: Option<u64>,
    access: Access,
    dma: HostDma,
    mac: Mac,
    monitor: Monitor,
    recorder: Recorder,
    /// Interrupts on their way behind DMA writes: cycle of arrival and vector.
    messages: VecDeque<(u64, u8)>,
    raised: u32,
    /// Register TIMEBASE as last written: microseconds per clock in 16.16 fixed point.
    timebase: u32,
    /// Sum of it, in its unit.
    time: u64,
    last_activity: u64,
}

impl Adapter {
    /// The Verilated core, at power-up: the reset pin is high for the first [`RESET_CYCLES`]. Waves go to `build/waves/<name>.fst`
    /// with `WAVES=1`.
    pub fn new(config: &AdapterConfig) -> Self {
        let mut adapter = Self::with_core(config, Box::new(Verilated::new(config.seed)));
        if let Some(file) = waves::file(&config.name) {
            adapter.core.waves(&file);
        }
        adapter
    }
    /// Around another core.
    pub fn with_core(config: &AdapterConfig, core: Box<dyn Core>) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(config.seed);
        let mut adapter = Adapter {
            name: config.name.clone(),
            core,
            cycle: 0,
            reset_left: 0,
            flr: None,
            access: Access::None,
            dma: HostDma::new(config.dma, Arc::default(), rng),
            mac: Mac::new(config.line),
            monitor: Monitor::default(),
            recorder: Recorder::default(),
            messages: VecDeque::new(),
            raised: 0,
            timebase: 0,
            time: 0,
            last_activity: 0,
        };
        adapter.reset();
        adapter
    }
    /// One clock.
    pub fn step(&mut self) {
        let now = self.cycle;
        let mut i = Inputs { reset: self.reset_left > 0, flr: self.flr == Some(now), irq_ready: true, ..Inputs::default() };
        if !i.reset {
            match self.access {
                Access::Asked(Mmio::Read(offset)) => {
                    i.mmio_read = true;
                    i.mmio_addr = offset;
                }
                Access::Asked(Mmio::Write(offset, value)) => {
                    i.mmio_write = true;
                    i.mmio_addr = offset;
                    i.mmio_wdata = value;
                }
                Access::None | Access::Taken(_) | Access::Done(..) => {}
            }
            self.dma.drive(now, &mut i);
        }
        self.mac.drive(now, &mut i);
        let o = self.core.settle(&i);
        self.monitor.check(now, &i, &o);
        if i.reset {
            self.reset_left -= 1;
            // the wire does not wait for a reset: what it brings now is lost
            self.mac.edge(now, &i, &Default::default(), &mut self.monitor, &mut self.recorder);
        } else {
            self.mmio_edge(&i, &o);
            self.dma.edge(now, &i, &o, &mut self.monitor, &mut self.recorder);
            self.mac.edge(now, &i, &o, &mut self.monitor, &mut self.recorder);
            if o.irq_valid && i.irq_ready {
                self.messages.push_back((self.dma.arrival_of_last_write(), o.irq_vector));
                self.recorder.mix(now ^ u64::from(o.irq_vector) << 40);
                self.recorder.add(Record::Interrupt { cycle: now, vector: o.irq_vector });
            }
        }
        while let Some((_, vector)) = self.messages.front().copied().filter(|(due, _)| *due <= now) {
            self.messages.pop_front();
            self.raised |= 1_u32.checked_shl(vector.into()).unwrap_or(0);
        }
        let busy = o.rd_req_valid || o.wr_req_valid || o.wr_data_valid || o.tx_valid || o.irq_valid || i.rx_valid || i.reset;
        if busy || self.access != Access::None || !self.dma.idle() || !self.mac.idle() {
            self.last_activity = now;
        }
        if let Some(since) = self.flr {
            self.last_activity = now;
            if o.ready && now > since + 1 {
                self.flr = None;
                self.timebase = reset_timebase();
            } else if now - since > FLR_BOUND {
                self.reset();
            }
        }
        self.core.edge();
        self.time = self.time.wrapping_add(self.timebase.into());
        self.cycle += 1;
    }
    fn mmio_edge(&mut self, i: &Inputs, o: &crate::pins::Outputs) {
        let now = self.cycle;
        if let (Access::Asked(mmio), true) = (self.access, o.mmio_ready) {
            self.access = match mmio {
                Mmio::Read(offset) => Access::Taken(offset),
                Mmio::Write(offset, value) => {
                    if u32::from(offset) == reg::TIMEBASE {
                        self.timebase = value;
                    }
                    self.recorder.mix(now ^ u64::from(i.mmio_wdata) << 16 ^ u64::from(offset) << 48);
                    self.recorder.add(Record::MmioWrite { cycle: now, offset, value });
                    Access::Done(0, now)
                }
            };
        }
        if o.mmio_rvalid {
            if let Access::Taken(offset) = self.access {
                self.recorder.mix(now ^ u64::from(o.mmio_rdata) << 16 ^ u64::from(offset) << 47);
                self.recorder.add(Record::MmioRead { cycle: now, offset, value: o.mmio_rdata });
                self.access = Access::Done(o.mmio_rdata, self.dma.arrival_of_last_write());
            } else {
                self.monitor.report(now, Rule::StrayAnswer);
            }
        }
    }
    /// Starts a register access; false if one is under way.
    #[must_use]
    pub fn begin(&mut self, mmio: Mmio) -> bool {
        if self.access != Access::None {
            return false;
        }
        self.access = Access::Asked(mmio);
        true
    }
    /// Ends a register access that is done: the value read, or 0 for a write.
    pub fn finish(&mut self) -> Option<u32> {
        let Access::Done(value, since) = self.access else { return None };
        if self.cycle <= since {
            return None;
        }
        self.access = Access::None;
        Some(value)
    }
    /// Gives an access up that the core does not answer. (A late answer then counts as [`Rule::StrayAnswer`].)
    pub fn abandon(&mut self) {
        self.access = Access::None;
    }
    /// Function level reset, from the next step on: the core resets its connections on the wire, brings its DMA to an end and forgets everything else.
    /// One that is not over after [`FLR_BOUND`] clocks becomes a reset by the pin.
    pub fn flr(&mut self) {
        self.flr = Some(self.cycle);
        self.access = Access::None;
        self.messages.clear();
        self.raised = 0;
    }
    /// A function level reset is not over.
    pub fn in_flr(&self) -> bool {
        self.flr.is_some()
    }
    /// Power-up: holds the reset pin for [`RESET_CYCLES`] clocks. What the core had given away reaches memory, everything
    /// else under way is forgotten; windows stay.
    pub fn reset(&mut self) {
        self.reset_left = RESET_CYCLES;
        self.flr = None;
        self.access = Access::None;
        self.messages.clear();
        self.raised = 0;
        self.timebase = reset_timebase();
        self.dma.reset(self.cycle);
        self.mac.reset();
        self.recorder.add(Record::Reset { cycle: self.cycle });
    }
    /// Name given at set-up.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Clocks since power-up; the next [`step`](Self::step) has this number.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }
    /// Cycles since something last happened at the ports.
    pub fn quiet_for(&self) -> u64 {
        self.cycle.saturating_sub(self.last_activity + 1)
    }
    /// The windows that the adapter's DMA goes through.
    pub fn dma_table(&self) -> &Arc<RwLock<DmaTable>> {
        self.dma.table()
    }
    /// How the host serves DMA.
    pub fn dma_config(&self) -> DmaConfig {
        self.dma.config()
    }
    /// Changes how the host serves DMA from now on.
    pub fn set_dma_config(&mut self, config: DmaConfig) {
        self.dma.set_config(config);
    }
    /// DMA accesses that failed: the first 64, and how many there were.
    pub fn dma_faults(&self) -> (&[Fault], u64) {
        self.dma.faults()
    }
    /// Takes the faults out, for a test that makes them on purpose.
    pub fn take_dma_faults(&mut self) -> Vec<Fault> {
        self.dma.take_faults()
    }
    /// Rules of the ports that the core broke.
    pub fn violations(&self) -> &[Violation] {
        self.monitor.violations()
    }
    /// The monitor of the ports.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }
    /// The monitor, to take what it found.
    pub fn monitor_mut(&mut self) -> &mut Monitor {
        &mut self.monitor
    }
    /// Panics, with a list, if a rule of the ports was broken or a DMA access failed: the last line of most tests.
    pub fn assert_clean(&self) {
        let (faults, count) = self.dma.faults();
        assert!(
            self.monitor.total() == 0 && count == 0,
            "adapter {}: {} rules broken {:?}, {count} DMA faults {faults:?}",
            self.name,
            self.monitor.total(),
            self.monitor.violations()
        );
    }
    /// Vectors raised and not yet taken: bit n = vector n.
    pub fn raised(&self) -> u32 {
        self.raised
    }
    /// Takes those of `vectors` that were raised.
    pub fn take_raised(&mut self, vectors: u32) -> u32 {
        let taken = self.raised & vectors;
        self.raised &= !vectors;
        taken
    }
    /// Adapter time since power-up: the sum of TIMEBASE, as last written, over all clocks. A reset does not set it back.
    pub fn time(&self) -> Duration {
        // 16.16 microseconds to nanoseconds
        Duration::from_nanos(((u128::from(self.time) * 1000) >> 16) as u64)
    }
    /// Records and the digest.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }
    /// To set how many records are kept, and to take them.
    pub fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }
    /// A frame that has arrived on the wire.
    pub fn deliver(&mut self, frame: Frame) {
        self.mac.deliver(frame);
    }
    /// The oldest frame that the core sent.
    pub fn sent(&mut self) -> Option<SentFrame> {
        self.mac.sent()
    }
    /// Frames that have arrived and are not yet in the core.
    pub fn backlog(&self) -> usize {
        self.mac.backlog()
    }
}
