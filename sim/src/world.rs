// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapters and wires in lock-step: one clock for all, one thread, nothing random but the seeds. Equal calls make equal runs.
use crate::{
    adapter::{Adapter, AdapterConfig, Mmio},
    wire::Wire,
};
use std::os::fd::BorrowedFd;

/// Frames that may wait in front of a core before its wire has to keep them.
const BACKLOG: usize = 4;
/// Cycles after which a register access that the core does not take or answer is given up.
pub const MMIO_BOUND: u64 = 10_000;

/// A core did not take or answer a register access within [`MMIO_BOUND`] cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the core did not answer a register access at {0:?} within {MMIO_BOUND} cycles")]
pub struct NoAnswer(pub Mmio);

/// Number of an adapter in its world.
pub type AdapterId = usize;

struct Cable {
    wire: Box<dyn Wire>,
    /// Adapter at each end.
    at: Vec<AdapterId>,
}

/// See the module.
#[derive(Default)]
pub struct World {
    adapters: Vec<Adapter>,
    cables: Vec<Cable>,
    /// Adapters without a cable.
    unplugged: Vec<AdapterId>,
    turnaround: u64,
    cycle: u64,
}

impl World {
    /// An empty world. `host_turnaround`: cycles that pass whenever a host learns something (an interrupt, the answer to a register
    /// read) before it does the next thing.
    pub fn new(host_turnaround: u32) -> Self {
        World { turnaround: host_turnaround.into(), ..World::default() }
    }
    /// Two adapters `a` (0) and `b` (1) with a link of `delay` cycles between them, out of one seed.
    pub fn pair(seed: u64, delay: u64, host_turnaround: u32) -> Self {
        let mut world = World::new(host_turnaround);
        let a = world.add(&AdapterConfig::new("a", seed));
        let b = world.add(&AdapterConfig::new("b", seed.wrapping_add(1)));
        world.connect(Box::new(crate::wire::Link::new(delay)), &[a, b]);
        world
    }
    /// Adds an adapter, at power-up.
    pub fn add(&mut self, config: &AdapterConfig) -> AdapterId {
        self.insert(Adapter::new(config))
    }
    /// Adds an adapter that was made elsewhere.
    pub fn insert(&mut self, adapter: Adapter) -> AdapterId {
        self.adapters.push(adapter);
        self.unplugged.push(self.adapters.len() - 1);
        self.adapters.len() - 1
    }
    /// Attaches `wire` to `adapters`, end by end; what an adapter without a wire sends is lost. Panics unless there is an adapter for each end, not yet attached.
    pub fn connect(&mut self, wire: Box<dyn Wire>, adapters: &[AdapterId]) {
        assert_eq!(wire.ends(), adapters.len(), "an adapter for each end of the wire");
        for id in adapters {
            assert!(*id < self.adapters.len(), "adapter {id} exists");
            let free = self.unplugged.iter().position(|u| u == id);
            self.unplugged.swap_remove(free.unwrap_or_else(|| panic!("adapter {id} has a wire already")));
        }
        self.cables.push(Cable { wire, at: adapters.to_vec() });
    }
    /// One clock of everything.
    pub fn step(&mut self) {
        let now = self.cycle;
        for cable in &mut self.cables {
            for (end, id) in cable.at.iter().enumerate() {
                let adapter = &mut self.adapters[*id];
                if adapter.backlog() < BACKLOG {
                    if let Some(frame) = cable.wire.receive(end, now) {
                        adapter.deliver(frame);
                    }
                }
            }
        }
        for adapter in &mut self.adapters {
            adapter.step();
        }
        for cable in &mut self.cables {
            for (end, id) in cable.at.iter().enumerate() {
                while let Some(sent) = self.adapters[*id].sent() {
                    cable.wire.send(end, sent);
                }
            }
        }
        for id in &self.unplugged {
            while self.adapters[*id].sent().is_some() {}
        }
        self.cycle += 1;
    }
    /// So many clocks.
    pub fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.step();
        }
    }
    /// Steps until `done`, at most `bound` clocks; whether it came to be.
    pub fn run_until(&mut self, bound: u64, mut done: impl FnMut(&mut World) -> bool) -> bool {
        for _ in 0..bound {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }
    /// Lets the host's turnaround pass.
    pub fn turn_around(&mut self) {
        self.run(self.turnaround);
    }
    /// Carries out a register access; clocks pass until the core has taken (write) or answered (read) it.
    pub fn access(&mut self, id: AdapterId, mmio: Mmio) -> Result<u32, NoAnswer> {
        let mut left = MMIO_BOUND;
        while !self.adapters[id].begin(mmio) {
            // an access of another user of this world
            if left == 0 {
                return Err(NoAnswer(mmio));
            }
            left -= 1;
            self.step();
        }
        loop {
            self.step();
            if let Some(value) = self.adapters[id].finish() {
                return Ok(value);
            }
            if left == 0 {
                self.adapters[id].abandon();
                return Err(NoAnswer(mmio));
            }
            left -= 1;
        }
    }
    /// Register read.
    pub fn read32(&mut self, id: AdapterId, offset: u16) -> Result<u32, NoAnswer> {
        let value = self.access(id, Mmio::Read(offset))?;
        self.turn_around();
        Ok(value)
    }
    /// Register write.
    pub fn write32(&mut self, id: AdapterId, offset: u16, value: u32) -> Result<(), NoAnswer> {
        self.access(id, Mmio::Write(offset, value)).map(|_| ())
    }
    /// Clocks so far.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }
    /// An adapter.
    pub fn adapter(&self, id: AdapterId) -> &Adapter {
        &self.adapters[id]
    }
    /// An adapter, to change.
    pub fn adapter_mut(&mut self, id: AdapterId) -> &mut Adapter {
        &mut self.adapters[id]
    }
    /// All adapters.
    pub fn adapters(&self) -> &[Adapter] {
        &self.adapters
    }
    /// Changes the host's turnaround, cycles.
    pub fn set_host_turnaround(&mut self, cycles: u32) {
        self.turnaround = cycles.into();
    }
    /// Digest of everything that passed any port; see [`crate::record::Recorder::digest`].
    pub fn digest(&self) -> u64 {
        self.adapters.iter().fold(0, |d: u64, a| d.rotate_left(1) ^ a.recorder().digest())
    }
    /// Nothing has happened at any port for `cycles`, and nothing is on a wire.
    pub fn quiet(&self, cycles: u64) -> bool {
        self.adapters.iter().all(|a| a.quiet_for() >= cycles) && self.cables.iter().all(|c| c.wire.idle())
    }
    /// Tells the wires that nothing happens for a while (captures are written out).
    pub fn rest(&mut self) {
        self.cables.iter_mut().for_each(|c| c.wire.rest());
    }
    /// Descriptors that become readable when frames come from outside.
    pub fn wakes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.cables.iter().filter_map(|c| c.wire.wake())
    }
    /// [`Adapter::assert_clean`] for all.
    pub fn assert_clean(&self) {
        self.adapters.iter().for_each(Adapter::assert_clean);
    }
}
