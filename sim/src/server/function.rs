// SPDX-License-Identifier: MIT OR Apache-2.0
//! One adapter as a PCI function behind a vfio-user socket. Runs in the socket's thread.
use super::{
    engine::{Job, Message},
    pci::{self, ConfigSpace, Effect},
    vectors::Vectors,
};
use crate::{
    adapter::Mmio,
    memory::{DmaTable, MapError, Rights},
    world::AdapterId,
};
use ironwarp_abi::{BAR0_OCTETS, MSIX_PBA, MSIX_TABLE, VECTORS};
use ironwarp_vfio_user::{irq, region, Device, DmaFlags, DmaMap, DmaUnmap, Errno, IrqFlags, IrqInfo, IrqSet, RegionFlags, RegionInfo};
use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{
        mpsc::{sync_channel, SyncSender},
        Arc, Mutex, PoisonError, RwLock,
    },
    time::Duration,
};

/// How long the model may take for an answer. Its own bound in cycles comes first unless the machine is very slow.
const ANSWER: Duration = Duration::from_secs(30);
/// Octets of the MSI-X table.
const TABLE_OCTETS: usize = 16 * VECTORS;

/// Sends jobs to the engine and wakes it.
#[derive(Clone)]
pub struct Line {
    /// To the engine.
    pub messages: SyncSender<Message>,
    /// What it sleeps on.
    pub wake: Arc<OwnedFd>,
}

impl Line {
    /// Blocks while the engine has very many messages to take.
    pub fn send(&self, message: Message) -> Result<(), Errno> {
        self.messages.send(message).map_err(|_| Errno::NODEV)?;
        // an eventfd that is full wakes as well
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        Ok(())
    }
}

/// See the module.
pub struct Function {
    id: AdapterId,
    line: Line,
    config: ConfigSpace,
    /// The client's kernel owns masking; here it is memory.
    table: [u8; TABLE_OCTETS],
    vectors: Arc<Mutex<Vectors>>,
    windows: Arc<RwLock<DmaTable>>,
}

impl Function {
    /// Adapter `id`.
    pub fn new(id: AdapterId, line: Line, vectors: Arc<Mutex<Vectors>>, windows: Arc<RwLock<DmaTable>>, clocks_per_second: u32) -> Self {
        let function = Function { id, line, config: ConfigSpace::new(clocks_per_second), table: [0; TABLE_OCTETS], vectors, windows };
        function.pass_bus_master();
        function
    }
    /// DMA is possible when the command register says so.
    fn pass_bus_master(&self) {
        self.windows.write().unwrap_or_else(PoisonError::into_inner).set_master(self.config.bus_master());
    }
    fn read_core(&self, offset: u16) -> Result<u32, Errno> {
        let (reply, answer) = sync_channel(1);
        self.line.send(Message::Job(self.id, Job::Access(Mmio::Read(offset), Some(reply))))?;
        answer.recv_timeout(ANSWER).map_err(|_| Errno::TIMEDOUT)?.map_err(|_| Errno::IO)
    }
    /// A dword of BAR0.
    fn read_dword(&self, offset: u32) -> Result<u32, Errno> {
        let table = MSIX_TABLE..MSIX_TABLE + TABLE_OCTETS as u32;
        if offset < MSIX_TABLE {
            self.read_core(offset as u16)
        } else if table.contains(&offset) {
            let at = (offset - MSIX_TABLE) as usize;
            Ok(u32::from_le_bytes([self.table[at], self.table[at + 1], self.table[at + 2], self.table[at + 3]]))
        } else if offset == MSIX_PBA {
            Ok(self.vectors.lock().unwrap_or_else(PoisonError::into_inner).pending())
        } else {
            Ok(0)
        }
    }
    fn write_dword(&mut self, offset: u32, value: u32) -> Result<(), Errno> {
        let table = MSIX_TABLE..MSIX_TABLE + TABLE_OCTETS as u32;
        if offset < MSIX_TABLE {
            self.line.send(Message::Job(self.id, Job::Access(Mmio::Write(offset as u16, value), None)))?;
        } else if table.contains(&offset) {
            let at = (offset - MSIX_TABLE) as usize;
            self.table[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }
    fn reset_function(&mut self) -> Result<(), Errno> {
        self.config.reset();
        self.pass_bus_master();
        self.table = [0; TABLE_OCTETS];
        let (reply, answer) = sync_channel(1);
        self.line.send(Message::Job(self.id, Job::Reset(reply)))?;
        answer.recv_timeout(ANSWER).map_err(|_| Errno::TIMEDOUT)
    }
    fn change<T>(&self, change: impl FnOnce(&mut DmaTable) -> Result<T, MapError>) -> Result<T, Errno> {
        change(&mut self.windows.write().unwrap_or_else(PoisonError::into_inner)).map_err(|error| {
            tracing::warn!(%error);
            match error {
                MapError::Invalid { .. } => Errno::INVAL,
                MapError::Overlap { .. } => Errno::EXIST,
                MapError::Io { source, .. } => Errno::from_io_error(&source).unwrap_or(Errno::IO),
            }
        })
    }
}

/// Offset and length of an access that the registers take: whole aligned dwords.
fn dwords(offset: u64, len: usize) -> Option<u32> {
    let offset = u32::try_from(offset).ok().filter(|o| o.is_multiple_of(4) && *o < BAR0_OCTETS)?;
    len.is_multiple_of(4).then_some(offset)
}

impl Device for Function {
    fn region_info(&self, index: u32) -> RegionInfo {
        let size = match index {
            region::BAR0 => BAR0_OCTETS.into(),
            region::CONFIG => pci::OCTETS as u64,
            _ => 0,
        };
        let flags = if size > 0 { RegionFlags::READ | RegionFlags::WRITE } else { RegionFlags::empty() };
        RegionInfo { index, flags, size }
    }
    fn irq_info(&self, index: u32) -> IrqInfo {
        match index {
            irq::MSIX => IrqInfo { index, flags: IrqFlags::EVENTFD | IrqFlags::NORESIZE, count: VECTORS as u32 },
            _ => IrqInfo { index, flags: IrqFlags::empty(), count: 0 },
        }
    }
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        data.fill(0);
        match (region, dwords(offset, data.len())) {
            (region::CONFIG, _) => self.config.read(offset as usize, data),
            (region::BAR0, Some(first)) => {
                for (word, offset) in data.chunks_exact_mut(4).zip((first..).step_by(4)) {
                    word.copy_from_slice(&self.read_dword(offset)?.to_le_bytes());
                }
            }
            _ => {}
        }
        Ok(())
    }
    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        match (region, dwords(offset, data.len())) {
            (region::CONFIG, _) => {
                let effect = self.config.write(offset as usize, data);
                if effect == Effect::Reset {
                    return self.reset_function();
                }
                self.pass_bus_master();
            }
            (region::BAR0, Some(first)) => {
                for (word, offset) in data.chunks_exact(4).zip((first..).step_by(4)) {
                    self.write_dword(offset, u32::from_le_bytes([word[0], word[1], word[2], word[3]]))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    fn dma_map(&mut self, map: DmaMap, memory: Option<OwnedFd>) -> Result<(), Errno> {
        let rights = Rights { read: map.flags.contains(DmaFlags::READ), write: map.flags.contains(DmaFlags::WRITE) };
        let file = memory.map(File::from);
        self.change(|t| t.map_file(map.address, map.size, rights, map.offset, file.as_ref()))
    }
    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        if unmap.all {
            self.windows.write().unwrap_or_else(PoisonError::into_inner).clear();
            return Ok(());
        }
        self.change(|t| t.unmap(unmap.address, unmap.size)).map(|_| ())
    }
    fn set_irqs(&mut self, set: IrqSet) -> Result<(), Errno> {
        match set.index {
            irq::MSIX => self.vectors.lock().unwrap_or_else(PoisonError::into_inner).set(set),
            _ => Ok(()),
        }
    }
    fn reset(&mut self) -> Result<(), Errno> {
        self.reset_function()
    }
    fn disconnected(&mut self) {
        // no DMA into memory of a client that is gone, then a fresh adapter for the next
        self.windows.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.vectors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Err(error) = self.reset_function() {
            tracing::warn!(adapter = self.id, %error, "no reset after the client hung up");
        }
    }
}
