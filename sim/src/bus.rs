// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's way to an adapter of a [`World`] in this process.
use crate::{
    adapter::Adapter,
    memory::{DmaTable, MapError},
    world::{AdapterId, NoAnswer, World},
};
use ironwarp_rnic::{Bus, BusError, DmaMemory};
use std::{
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard, RwLock},
    time::Duration,
};

/// Cycles that one [`Bus::wait`] may take at most, whatever its time-out in adapter time is.
pub const WAIT_BOUND: u64 = 200_000_000;
/// Cycles after which a waiting user lets others at the world.
const SHARE_EVERY: u64 = 4096;

/// A world that several buses share.
pub type SharedWorld = Arc<Mutex<World>>;

/// The world, also after a user of it panicked.
pub fn lock(world: &SharedWorld) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(|e| e.into_inner())
}

/// [`Bus`] onto one adapter. Clocks pass only in its calls (and those of other users of the world), so one thread that drives all
/// adapters of a world makes a run that its seed repeats exactly.
pub struct InProcessBus {
    world: SharedWorld,
    id: AdapterId,
    wait_bound: u64,
}

impl InProcessBus {
    /// A way to adapter `id` of `world`.
    pub fn new(world: &SharedWorld, id: AdapterId) -> Self {
        InProcessBus { world: world.clone(), id, wait_bound: WAIT_BOUND }
    }
    /// Changes the bound of a wait, cycles.
    pub fn with_wait_bound(mut self, cycles: u64) -> Self {
        self.wait_bound = cycles;
        self
    }
    /// The world, to look at its records.
    pub fn world(&self) -> &SharedWorld {
        &self.world
    }
    fn table<T>(&self, change: impl FnOnce(&mut DmaTable) -> Result<T, MapError>) -> Result<T, BusError> {
        let table: Arc<RwLock<DmaTable>> = lock(&self.world).adapter(self.id).dma_table().clone();
        let mut table = table.write().unwrap_or_else(|e| e.into_inner());
        change(&mut table).map_err(|e| BusError::Refused(e.to_string()))
    }
}

fn offset16(offset: u32) -> Result<u16, BusError> {
    u16::try_from(offset)
        .ok()
        .filter(|o| o % 4 == 0)
        .ok_or_else(|| BusError::Refused(format!("register offset {offset:#x} is not in BAR0 or not a multiple of 4")))
}

fn gone(error: NoAnswer) -> BusError {
    BusError::Gone(error.to_string())
}

impl Bus for InProcessBus {
    fn read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let offset = offset16(offset)?;
        lock(&self.world).read32(self.id, offset).map_err(gone)
    }
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        let offset = offset16(offset)?;
        lock(&self.world).write32(self.id, offset, value).map_err(gone)
    }
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError> {
        self.table(|t| t.map(iova, memory))
    }
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError> {
        self.table(|t| t.unmap(iova, len)).map(|_| ())
    }
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        let mut waited = 0;
        let mut end = None;
        loop {
            let mut world = lock(&self.world);
            let end = *end.get_or_insert_with(|| world.adapter(self.id).time().saturating_add(timeout));
            for _ in 0..SHARE_EVERY {
                let adapter = world.adapter_mut(self.id);
                let raised = adapter.take_raised(vectors);
                if raised != 0 {
                    world.turn_around();
                    return Ok(raised);
                }
                if adapter.time() >= end {
                    return Ok(0);
                }
                if waited >= self.wait_bound {
                    return Err(BusError::Timeout {
                        what: "an interrupt of the in-process model, within its bound of cycles",
                        after: timeout,
                    });
                }
                waited += 1;
                world.step();
            }
        }
    }
    fn now(&self) -> Duration {
        lock(&self.world).adapter(self.id).time()
    }
    fn vector_fd(&self, _vector: u32) -> Option<BorrowedFd<'_>> {
        None
    }
    fn reset(&mut self) -> Result<(), BusError> {
        let mut world = lock(&self.world);
        world.adapter_mut(self.id).reset();
        world.run(crate::adapter::RESET_CYCLES.into());
        Ok(())
    }
    fn describe(&self) -> String {
        format!("model {} ({})", self.id, Adapter::name(lock(&self.world).adapter(self.id)))
    }
}
