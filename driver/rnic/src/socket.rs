// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bus over a vfio-user socket: registers are messages, DMA memory goes over as a memfd, interrupts come as eventfds.
use crate::{
    bus::{Bus, BusError},
    dma::DmaMemory,
    pci,
    vectors::Vectors,
};
use ironwarp_abi::{BAR0_OCTETS, VECTORS};
use ironwarp_vfio_user::{irq, region, Client, DmaFlags, Error};
use std::{
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// An adapter behind a vfio-user socket, as `ironwarp sim` makes it.
pub struct SocketBus {
    client: Client,
    vectors: Vectors,
    path: PathBuf,
}

impl SocketBus {
    /// Connects; `timeout` bounds this and every later message. A server with another client does not answer.
    pub fn connect(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, BusError> {
        let path = path.as_ref().to_path_buf();
        let mut client = Client::connect(&path, timeout).map_err(|e| match e {
            Error::Io { what, source } => {
                BusError::Io { what: format!("{what}: start an adapter there with `ironwarp sim --socket {}`", path.display()), source }
            }
            Error::Timeout { .. } => BusError::Refused(format!(
                "{} does not answer within {timeout:?}: another driver may be attached to it (one at a time), or the model is stopped",
                path.display()
            )),
            other => bus_error(other),
        })?;
        let bar = client.region_info(region::BAR0).map_err(bus_error)?;
        if bar.size < u64::from(BAR0_OCTETS) {
            let text = format!(
                "{}: BAR0 has {:#x} octets, an ironwarp adapter has {BAR0_OCTETS:#x}; is it another device?",
                path.display(),
                bar.size
            );
            return Err(BusError::Refused(text));
        }
        let msix = client.irq_info(irq::MSIX).map_err(bus_error)?;
        if (msix.count as usize) < VECTORS {
            let text =
                format!("{}: {} MSI-X vectors, {VECTORS} are needed; use driver and adapter of one release", path.display(), msix.count);
            return Err(BusError::Refused(text));
        }
        let vectors = Vectors::new()?;
        client.set_irq_eventfds(irq::MSIX, 0, &vectors.fds()).map_err(bus_error)?;
        let mut bus = SocketBus { client, vectors, path };
        bus.enable_bus_master()?;
        Ok(bus)
    }

    fn enable_bus_master(&mut self) -> Result<(), BusError> {
        let mut command = [0; 2];
        self.client.region_read(region::CONFIG, pci::COMMAND, &mut command).map_err(bus_error)?;
        let command = u16::from_le_bytes(command) | pci::MEMORY_SPACE | pci::BUS_MASTER;
        self.client.region_write(region::CONFIG, pci::COMMAND, &command.to_le_bytes()).map_err(bus_error)
    }
}

fn bus_error(error: Error) -> BusError {
    match error {
        Error::Disconnected => BusError::Gone("the vfio-user socket was closed".into()),
        Error::Timeout { what, after } => BusError::Timeout { what, after },
        Error::Io { what, source } => BusError::Io { what, source },
        other => BusError::Refused(other.to_string()),
    }
}

impl Bus for SocketBus {
    fn read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let mut value = [0; 4];
        self.client.region_read(region::BAR0, offset.into(), &mut value).map_err(bus_error)?;
        Ok(u32::from_le_bytes(value))
    }
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.client.region_write(region::BAR0, offset.into(), &value.to_le_bytes()).map_err(bus_error)
    }
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError> {
        let file = memory.file().as_fd();
        self.client.dma_map(iova, memory.len() as u64, DmaFlags::READ | DmaFlags::WRITE, Some((file, 0))).map_err(bus_error)
    }
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError> {
        self.client.dma_unmap(iova, len).map_err(bus_error)
    }
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        self.vectors.wait(vectors, timeout)
    }
    fn vector_fd(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        self.vectors.fd(vector)
    }
    fn clocks_per_second(&mut self) -> Result<Option<u32>, BusError> {
        let mut config = [0; pci::CAPABILITIES_END];
        self.client.region_read(region::CONFIG, 0, &mut config).map_err(bus_error)?;
        Ok(ironwarp_abi::pci::clocks_per_second(&config))
    }
    fn reset(&mut self) -> Result<(), BusError> {
        self.client.reset().map_err(bus_error)?;
        self.enable_bus_master()
    }
    fn describe(&self) -> String {
        format!("sim:{}", self.path.display())
    }
}
