// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bus over the kernel's vfio: BAR0 is mapped memory, DMA memory is mapped by the IOMMU, MSI-X vectors come as eventfds.
//!
//! The group and container interface is used (`/dev/vfio/GROUP`). A device without IOMMU is refused: the adapter could then reach
//! all of memory, and contiguous addresses for DMA would not exist.
#![allow(unsafe_code)] // BAR0 is raw memory; two ioctls that no crate wraps with their error
use crate::{
    bus::{Bus, BusError},
    dma::DmaMemory,
    pci,
    vectors::Vectors,
};
use ironwarp_abi::{BAR0_OCTETS, PCI_DEVICE, PCI_VENDOR, VECTORS};
use memmap2::{MmapOptions, MmapRaw};
use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd},
    path::Path,
    sync::Arc,
    time::Duration,
};
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
};
use vfio_ioctls::{VfioContainer, VfioDevice, VfioError};
use vmm_sys_util::eventfd::EventFd;
use volatile_register::RW;

/// Where the kernel shows PCI devices.
const SYSFS: &str = "/sys/bus/pci/devices";
/// `VFIO_DEVICE_RESET`, `_IO(';', 111)`.
const DEVICE_RESET: libc::c_ulong = 0x3b6f;

/// An adapter bound to vfio-pci.
pub struct VfioBus {
    // dropped in this order: registers, interrupts, device, container
    bar: MmapRaw,
    vectors: Vectors,
    device: VfioDevice,
    container: Arc<VfioContainer>,
    /// Memory stays as long as the IOMMU maps it.
    maps: BTreeMap<u64, Arc<DmaMemory>>,
    address: String,
}

impl VfioBus {
    /// Opens the device at PCI address `address` (`0000:00:03.0`), which vfio-pci must have.
    pub fn open(address: &str) -> Result<Self, BusError> {
        let sysfs = Path::new(SYSFS).join(address);
        check_sysfs(&sysfs, address)?;
        let container = Arc::new(VfioContainer::new(None).map_err(|e| refused(address, e))?);
        let device = VfioDevice::new(&sysfs, container.clone(), true).map_err(|e| refused(address, e))?;
        let size = device.get_region_size(VFIO_PCI_BAR0_REGION_INDEX);
        if size < u64::from(BAR0_OCTETS) || device.get_region_flags(VFIO_PCI_BAR0_REGION_INDEX) & VFIO_REGION_INFO_FLAG_MMAP == 0 {
            let text = format!("{address}: BAR0 of {size:#x} octets cannot be mapped; an ironwarp adapter has {BAR0_OCTETS:#x}");
            return Err(BusError::Refused(text));
        }
        let msix = device.get_irq_info(VFIO_PCI_MSIX_IRQ_INDEX).map_or(0, |i| i.count);
        if (msix as usize) < VECTORS {
            return Err(BusError::Refused(format!("{address}: {msix} MSI-X vectors, {VECTORS} are needed")));
        }
        // registers answer only when the function decodes memory, so this comes before the first look at BAR0
        command_bits(&device)?;
        let bar = MmapOptions::new()
            .offset(device.get_region_offset(VFIO_PCI_BAR0_REGION_INDEX))
            .len(BAR0_OCTETS as usize)
            .map_raw(&device)
            .map_err(|source| BusError::Io { what: format!("map BAR0 of {address}"), source })?;
        let vectors = Vectors::new()?;
        enable_msix(&device, &vectors, address)?;
        Ok(VfioBus { bar, vectors, device, container, maps: BTreeMap::new(), address: address.into() })
    }

    fn register(&self, offset: u32) -> Result<&RW<u32>, BusError> {
        if offset & 3 != 0 || offset >= BAR0_OCTETS {
            return Err(BusError::Refused(format!("register offset {offset:#x} is not in BAR0 or not a multiple of 4")));
        }
        // SAFETY: inside the mapping of BAR0_OCTETS (checked) and aligned (checked; the mapping is page-aligned); RW<u32> is a
        // volatile cell of four octets, and the mapping lives as long as `self`.
        Ok(unsafe { &*self.bar.as_mut_ptr().add(offset as usize).cast::<RW<u32>>() })
    }
}

/// Says what is missing before the kernel only says "no".
fn check_sysfs(sysfs: &Path, address: &str) -> Result<(), BusError> {
    let text = |file: &str| fs::read_to_string(sysfs.join(file)).map(|s| s.trim().to_owned()).unwrap_or_default();
    if !sysfs.exists() {
        return Err(BusError::Refused(format!(
            "no PCI device {address}; `lspci -D -d {PCI_VENDOR:04x}:{PCI_DEVICE:04x}` lists adapters, addresses look like 0000:00:03.0"
        )));
    }
    let (vendor, device) = (text("vendor"), text("device"));
    if vendor != format!("{PCI_VENDOR:#06x}") || device != format!("{PCI_DEVICE:#06x}") {
        return Err(BusError::Refused(format!("{address} is {vendor}:{device}, not an ironwarp adapter")));
    }
    let driver = fs::read_link(sysfs.join("driver")).ok().and_then(|d| d.file_name().map(|n| n.to_string_lossy().into_owned()));
    if driver.as_deref() != Some("vfio-pci") {
        return Err(BusError::Refused(format!(
            "{address} is bound to {}, not to vfio-pci; as root: modprobe vfio-pci; echo vfio-pci > {sysfs}/driver_override; \
             echo {address} > /sys/bus/pci/drivers_probe",
            driver.as_deref().unwrap_or("no driver"),
            sysfs = sysfs.display(),
        )));
    }
    let group = sysfs.join("iommu_group");
    let name = fs::read_to_string(group.join("name")).unwrap_or_default();
    if !group.exists() || name.trim() == "vfio-noiommu" {
        return Err(BusError::Refused(format!(
            "{address} has no IOMMU, and this driver does not work without one; turn it on in the firmware and with intel_iommu=on \
             or amd_iommu=on on the kernel's command line"
        )));
    }
    Ok(())
}

fn refused(address: &str, error: VfioError) -> BusError {
    match error {
        VfioError::OpenContainer(source) => BusError::Io { what: "/dev/vfio/vfio (as root: modprobe vfio-pci)".into(), source },
        VfioError::OpenGroup(source, group) => {
            BusError::Io { what: format!("/dev/vfio/{group} (give this user access to it; another driver may hold {address})"), source }
        }
        VfioError::GroupViable => BusError::Refused(format!(
            "the IOMMU group of {address} has other devices with kernel drivers; bind them to vfio-pci too, or use another slot"
        )),
        other => BusError::Refused(format!("{address}: {other}")),
    }
}

fn io_error(what: &str, source: impl Into<io::Error>) -> BusError {
    BusError::Io { what: what.into(), source: source.into() }
}

/// Memory space and bus master on. The crate's own access to configuration space hides errors, so this reads and writes the file.
fn command_bits(device: &VfioDevice) -> Result<(), BusError> {
    // SAFETY: the descriptor is open as long as `device` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(device.as_raw_fd()) };
    let at = device.get_region_offset(VFIO_PCI_CONFIG_REGION_INDEX) + pci::COMMAND;
    let mut command = [0; 2];
    rustix::io::pread(fd, &mut command, at).map_err(|e| io_error("read of the PCI command register", e))?;
    let command = u16::from_le_bytes(command) | pci::MEMORY_SPACE | pci::BUS_MASTER;
    rustix::io::pwrite(fd, &command.to_le_bytes(), at).map_err(|e| io_error("write of the PCI command register", e))?;
    Ok(())
}

fn enable_msix(device: &VfioDevice, vectors: &Vectors, address: &str) -> Result<(), BusError> {
    let mut events = Vec::new();
    for fd in vectors.fds() {
        let fd = fd.try_clone_to_owned().map_err(|e| io_error("duplicate of an eventfd", e))?;
        // SAFETY: a descriptor of our own, given away here. The kernel keeps the eventfd behind it, not the descriptor.
        events.push(unsafe { EventFd::from_raw_fd(fd.into_raw_fd()) });
    }
    device.enable_msix(events.iter().collect()).map_err(|e| refused(address, e))
}

impl Bus for VfioBus {
    fn read32(&mut self, offset: u32) -> Result<u32, BusError> {
        Ok(u32::from_le(self.register(offset)?.read()))
    }
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        let register = self.register(offset)?;
        // SAFETY: a register of the adapter; what it starts reaches only memory that `map` gave to the IOMMU.
        unsafe { register.write(value.to_le()) };
        Ok(())
    }
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError> {
        // SAFETY: the range is a mapping that `memory` owns, kept in `maps` until it is unmapped or the device is closed; all
        // access to it goes through DmaMemory, which takes no references to its content.
        unsafe { self.container.vfio_dma_map(iova, memory.len(), memory.as_ptr()) }
            .map_err(|e| BusError::Refused(format!("{}: {e}; is the locked-memory limit (`ulimit -l`) large enough?", self.address)))?;
        self.maps.insert(iova, memory.clone());
        Ok(())
    }
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError> {
        let len = usize::try_from(len).map_err(|_| BusError::Refused("unmap longer than the address space".into()))?;
        self.container.vfio_dma_unmap(iova, len).map_err(|e| refused(&self.address, e))?;
        self.maps.remove(&iova);
        Ok(())
    }
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        self.vectors.wait(vectors, timeout)
    }
    fn vector_fd(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        self.vectors.fd(vector)
    }
    fn clocks_per_second(&mut self) -> Result<Option<u32>, BusError> {
        let mut config = [0; pci::CAPABILITIES_END];
        // SAFETY: the descriptor is open as long as `self` is borrowed.
        let fd = unsafe { BorrowedFd::borrow_raw(self.device.as_raw_fd()) };
        let at = self.device.get_region_offset(VFIO_PCI_CONFIG_REGION_INDEX);
        let read = rustix::io::pread(fd, &mut config, at).map_err(|e| io_error("read of PCI configuration space", e))?;
        Ok(ironwarp_abi::pci::clocks_per_second(&config[..read]))
    }
    fn reset(&mut self) -> Result<(), BusError> {
        // SAFETY: an ioctl without argument on a descriptor that is open.
        if unsafe { libc::ioctl(self.device.as_raw_fd(), DEVICE_RESET as _) } != 0 {
            return Err(io_error("VFIO_DEVICE_RESET", io::Error::last_os_error()));
        }
        command_bits(&self.device)
    }
    fn describe(&self) -> String {
        format!("vfio:{}", self.address)
    }
}
