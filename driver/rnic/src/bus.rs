// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the driver needs of the way to an adapter. Three ways: the Verilated model in this process (`ironwarp-sim`), a vfio-user
//! socket, and the kernel's vfio. The driver above is the same code for all three.
use crate::dma::DmaMemory;
use std::{
    os::fd::BorrowedFd,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Why an access failed. Every variant says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The other side is gone: the socket was closed, the process ended or the device was pulled.
    #[error("the adapter is gone ({0}); start it again and attach anew")]
    Gone(String),
    /// No answer within the bound.
    #[error("no answer from the adapter within {after:?} ({what}); is the model running, or is --timeout too short for it?")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The bound.
        after: Duration,
    },
    /// The request cannot be carried out.
    #[error("{0}")]
    Refused(String),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
}

/// A way to one adapter. Register accesses are 32 bits wide, at byte offsets of `ironwarp_abi::reg`.
pub trait Bus: Send {
    /// Reads a register.
    fn read32(&mut self, offset: u32) -> Result<u32, BusError>;
    /// Writes a register.
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError>;
    /// Lets the adapter reach `memory` at `iova..iova + memory.len()`; both multiples of 4096.
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError>;
    /// Takes a mapping back; afterwards the adapter cannot reach it.
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError>;
    /// Waits until one of `vectors` (bit n = vector n) is raised, and returns (and clears) those that were. 0 after `timeout`:
    /// wall time on sockets and cards, adapter time in the in-process model. With no vectors it is a plain pause.
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError>;
    /// The time that `wait` counts in: adapter time in the in-process model, else a monotonic clock of the host (the default).
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
    /// File descriptor that becomes readable when `vector` is raised, for a caller's own poll loop; none in the in-process model.
    fn vector_fd(&self, vector: u32) -> Option<BorrowedFd<'_>>;
    /// Core clocks per second of wall time, where the way to the adapter knows (`ironwarp_abi::pci`); `TIMEBASE` is made from it.
    fn clocks_per_second(&mut self) -> Result<Option<u32>, BusError> {
        Ok(None)
    }
    /// Function level reset.
    fn reset(&mut self) -> Result<(), BusError>;
    /// For messages: `sim:PATH`, `vfio:0000:00:03.0`, `model 0`.
    fn describe(&self) -> String;
}

impl<B: Bus + ?Sized> Bus for Box<B> {
    fn read32(&mut self, offset: u32) -> Result<u32, BusError> {
        (**self).read32(offset)
    }
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        (**self).write32(offset, value)
    }
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError> {
        (**self).map(iova, memory)
    }
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError> {
        (**self).unmap(iova, len)
    }
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        (**self).wait(vectors, timeout)
    }
    fn now(&self) -> Duration {
        (**self).now()
    }
    fn vector_fd(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        (**self).vector_fd(vector)
    }
    fn clocks_per_second(&mut self) -> Result<Option<u32>, BusError> {
        (**self).clocks_per_second()
    }
    fn reset(&mut self) -> Result<(), BusError> {
        (**self).reset()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
}
