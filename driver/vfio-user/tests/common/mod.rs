// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device that records what it is asked, for the tests of the protocol.
use ironwarp_vfio_user::{irq, region, Device, DmaMap, DmaUnmap, Errno, IrqData, IrqFlags, IrqInfo, IrqSet, RegionFlags, RegionInfo};
use std::{
    collections::BTreeMap,
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    time::Duration,
};

/// Octets of BAR0.
pub const BAR0: u64 = 0x1000;
/// MSI-X vectors.
pub const VECTORS: u32 = 40;
/// A write here is answered with ENOSPC; a read with ENXIO.
pub const FAILS: u64 = 0x800;
/// A read here takes 1 s.
pub const SLOW: u64 = 0x808;
/// A write here copies 64 octets from the DMA address written to 0x10 to the one written to 0x18, each octet inverted, and raises the
/// vector that was written.
pub const DOORBELL: u64 = 0x20;

/// See the module.
#[derive(Default)]
pub struct Recorder {
    pub registers: BTreeMap<u64, u8>,
    pub windows: BTreeMap<u64, (DmaMap, Option<File>)>,
    pub vectors: BTreeMap<u32, File>,
    pub resets: u32,
    pub disconnects: u32,
    pub calls: u64,
}

impl Recorder {
    fn register(&self, at: u64) -> u64 {
        (0..8).fold(0, |v, i| v | u64::from(*self.registers.get(&(at + i)).unwrap_or(&0)) << (8 * i))
    }
    fn window(&self, address: u64) -> Result<(&File, u64), Errno> {
        let (start, (map, file)) = self.windows.range(..=address).next_back().ok_or(Errno::FAULT)?;
        let at = address - start;
        if at + 64 > map.size {
            return Err(Errno::FAULT);
        }
        Ok((file.as_ref().ok_or(Errno::FAULT)?, map.offset + at))
    }
    fn copy(&self) -> Result<(), Errno> {
        let (source, from) = self.window(self.register(0x10))?;
        let (target, to) = self.window(self.register(0x18))?;
        let mut data = [0; 64];
        source.read_exact_at(&mut data, from).map_err(|_| Errno::IO)?;
        target.write_all_at(&data.map(|octet| !octet), to).map_err(|_| Errno::IO)
    }
}

impl Device for Recorder {
    fn region_info(&self, index: u32) -> RegionInfo {
        let size = match index {
            region::BAR0 => BAR0,
            region::CONFIG => 256,
            _ => 0,
        };
        let flags = if size > 0 { RegionFlags::all() } else { RegionFlags::empty() };
        RegionInfo { index, flags, size }
    }
    fn irq_info(&self, index: u32) -> IrqInfo {
        let count = if index == irq::MSIX { VECTORS } else { 0 };
        IrqInfo { index, flags: IrqFlags::EVENTFD, count }
    }
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        assert!(offset + data.len() as u64 <= self.region_info(region).size, "checked before");
        self.calls += 1;
        match offset {
            FAILS => return Err(Errno::NXIO),
            SLOW => std::thread::sleep(Duration::from_secs(1)),
            _ => {}
        }
        for (octet, at) in data.iter_mut().zip(offset..) {
            *octet = *self.registers.get(&at).unwrap_or(&0);
        }
        Ok(())
    }
    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        assert!(offset + data.len() as u64 <= self.region_info(region).size, "checked before");
        self.calls += 1;
        match offset {
            FAILS => return Err(Errno::NOSPC),
            DOORBELL => {
                self.copy()?;
                let vector = self.vectors.get(&data[0].into()).ok_or(Errno::NOENT)?;
                std::io::Write::write_all(&mut &*vector, &1u64.to_ne_bytes()).map_err(|_| Errno::IO)?;
            }
            _ => self.registers.extend((offset..).zip(data.iter().copied())),
        }
        Ok(())
    }
    fn dma_map(&mut self, map: DmaMap, memory: Option<OwnedFd>) -> Result<(), Errno> {
        self.calls += 1;
        let before = self.windows.range(..map.address + map.size).next_back();
        if before.is_some_and(|(start, (other, _))| start + other.size > map.address) {
            return Err(Errno::EXIST);
        }
        self.windows.insert(map.address, (map, memory.map(File::from)));
        Ok(())
    }
    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        self.calls += 1;
        self.windows.retain(|start, _| !unmap.all && !(unmap.address..unmap.address + unmap.size).contains(start));
        Ok(())
    }
    fn set_irqs(&mut self, set: IrqSet) -> Result<(), Errno> {
        self.calls += 1;
        assert!(set.start + set.count <= VECTORS, "checked before");
        match set.data {
            IrqData::None if set.count == 0 => self.vectors.clear(),
            IrqData::None => {}
            IrqData::Bool(bools) => assert_eq!(bools.len(), set.count as usize, "checked before"),
            IrqData::EventFd(fds) if fds.is_empty() => self.vectors.retain(|v, _| !(set.start..set.start + set.count).contains(v)),
            IrqData::EventFd(fds) => {
                assert_eq!(fds.len(), set.count as usize, "checked before");
                self.vectors.extend((set.start..).zip(fds.into_iter().map(File::from)));
            }
        }
        Ok(())
    }
    fn reset(&mut self) -> Result<(), Errno> {
        self.resets += 1;
        self.registers.clear();
        Ok(())
    }
    fn disconnected(&mut self) {
        self.disconnects += 1;
        self.windows.clear();
        self.vectors.clear();
    }
}

/// An eventfd that does not block.
pub fn event() -> OwnedFd {
    let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
    rustix::event::eventfd(0, flags).expect("eventfd")
}
