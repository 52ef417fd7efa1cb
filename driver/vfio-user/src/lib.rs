// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vfio-user protocol: a PCI device in one process, its user in another, a UNIX socket between them. QEMU's `vfio-user-pci`
//! speaks it, and so do the driver's socket bus (client) and the simulated adapter (server).
//!
//! # Client
//! ```
//! # fn example(memory: std::fs::File, event: std::fs::File) -> Result<(), ironwarp_vfio_user::Error> {
//! use ironwarp_vfio_user::{irq, region, Client, DmaFlags};
//! use std::{os::fd::AsFd, time::Duration};
//! let mut device = Client::connect("/run/adapter.sock", Duration::from_secs(10))?; // the bound of every later wait, too
//! let mut id = [0; 4];
//! device.region_read(region::CONFIG, 0, &mut id)?;
//! device.region_write(region::BAR0, 0x40, &1u32.to_le_bytes())?;
//! device.dma_map(0x1_0000_0000, 4096, DmaFlags::READ | DmaFlags::WRITE, Some((memory.as_fd(), 0)))?;
//! device.set_irq_eventfds(irq::MSIX, 0, &[event.as_fd()])?; // vector 0 raises `event`
//! device.disable_irqs(irq::MSIX)?;
//! device.dma_unmap(0x1_0000_0000, 4096)?;
//! device.reset()?;
//! # Ok(()) }
//! ```
//! Every call sends one request and waits for its answer, at most for the time-out. An error reply is [`Error::Refused`] with the
//! server's errno, a closed socket [`Error::Disconnected`], silence [`Error::Timeout`]. After a time-out the client stays usable
//! (the late answer is thrown away) unless the answer broke off in its middle.
//!
//! # Server
//! Implement [`Device`] (registers, DMA windows, interrupts, reset, disconnect) and drive it in one of two ways:
//! ```
//! # fn example(mut device: Box<dyn ironwarp_vfio_user::Device>) -> Result<(), ironwarp_vfio_user::Error> {
//! use ironwarp_vfio_user::{Server, Step};
//! use std::time::Duration;
//! let mut server = Server::bind("/run/adapter.sock")?; // mode 0600; removed when dropped
//! let stopper = server.stopper(); // Clone + Send; stopper.stop() ends run() from any thread
//! // (1) own thread: until stopped
//! server.run(&mut *device)?;
//! // (2) inside the caller's loop: at most one message, waiting at most so long for it to begin
//! while server.step(&mut *device, Duration::ZERO)? != Step::Stopped { /* let the device make progress */ }
//! # Ok(()) }
//! ```
//! Before a callback is called, lengths, offsets, indices and descriptor counts have been checked against what the device said in
//! [`Device::info`], [`Device::region_info`] and [`Device::irq_info`]. What a callback returns as [`Errno`] goes to the client.
//! One client at a time: the next one is accepted (it waits in the listen queue) after [`Device::disconnected`].
//!
//! # Why an own implementation
//! The crate `vfio_user` 0.1.7 would be the one to use. Measured against it: a VERSION message without JSON or with a short size
//! panics its server; an unknown command leaves its body in the stream, so that all that follows is garbage; lengths are taken
//! unchecked (4 GiB of `count` is allocated); there is no disconnect hook. Its client waits for ever for the data of a read that was
//! answered with an error, takes other error replies for success, and gives no way to bound a wait.
//!
//! # Limits
//! Registers and memory of the device are reached by messages only (no mmap areas, no ioeventfds), DMA goes through the descriptor
//! that came with the DMA_MAP (the server never sends DMA_READ / DMA_WRITE), no migration. Byte order is the machine's, as the
//! protocol says.
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod message;
mod server;
mod stream;

pub use client::Client;
pub use error::Error;
pub use message::{DeviceFlags, DeviceInfo, DmaFlags, DmaMap, DmaUnmap, IrqAction, IrqFlags, IrqInfo, RegionFlags, RegionInfo};
pub use rustix::io::Errno;
pub use server::{Device, IrqData, IrqSet, Server, Step, Stopper};

/// Region indices of a PCI device.
pub mod region {
    /// BAR 0.
    pub const BAR0: u32 = 0;
    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// Number of regions: six BARs, ROM, configuration space, VGA.
    pub const COUNT: u32 = 9;
}

/// Interrupt indices of a PCI device.
pub mod irq {
    /// MSI-X.
    pub const MSIX: u32 = 2;
    /// Number of interrupt kinds: INTx, MSI, MSI-X, error, request.
    pub const COUNT: u32 = 5;
}

/// Most descriptors that both sides take in one message. QEMU refuses a server that says more.
pub const MAX_MSG_FDS: usize = 16;
/// Most octets that both sides take in one region access.
pub const MAX_DATA_XFER: usize = 1 << 20;
