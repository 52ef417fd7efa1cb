// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter seen through its registers alone: who it is, what it counts, its reset. Opening it changes nothing in it.
use crate::{
    bus::{Bus, BusError},
    error::Error,
};
use ironwarp_abi::{
    reg::{self, control, status_bits},
    Counter, ABI_VERSION, MAGIC,
};
use ironwarp_wire::MacAddr;
use std::time::Duration;

/// What a read from a device that is gone gives on PCI Express.
pub(crate) const ALL_ONES: u32 = u32::MAX;
/// Pause between two looks at STATUS.
const STATUS_PAUSE: Duration = Duration::from_micros(100);

/// What the adapter is and how it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Where it is, as the bus describes it.
    pub location: String,
    /// ABI version, major and minor.
    pub version: (u16, u16),
    /// Most listeners.
    pub max_listeners: u16,
    /// Most connections; 0 as long as the adapter makes none.
    pub max_connections: u16,
    /// Queue pairs, and completion queues; 0 as long as the adapter moves no data.
    pub max_qps: u16,
    /// Completion queues.
    pub max_cqs: u16,
    /// log2 of the number of memory regions.
    pub regions_log2: u8,
    /// Most local IPv4 addresses.
    pub max_addresses: u8,
    /// Entries of the neighbour (ARP) table.
    pub max_neighbors: u16,
    /// Largest MTU in octets.
    pub max_mtu: u32,
    /// Own MAC address.
    pub mac: MacAddr,
    /// Largest IP datagram in octets.
    pub mtu: u32,
    /// First and last port that port 0 chooses from.
    pub port_range: (u16, u16),
    /// Bits of `ironwarp_abi::reg::status_bits`.
    pub status: u32,
    /// Adapter time in microseconds.
    pub time_us: u32,
    /// Clocks since power-up.
    pub cycles: u32,
    /// Listeners not yet freed.
    pub listeners_live: u32,
    /// Connection slots in use, half-open ones among them.
    pub connections_live: u32,
}

/// An adapter whose MAGIC and VERSION are right.
pub struct Device<B: Bus> {
    pub(crate) bus: B,
}

impl<B: Bus> Device<B> {
    /// Checks MAGIC and VERSION.
    pub fn open(mut bus: B) -> Result<Self, Error> {
        let found = bus.read32(reg::MAGIC)?;
        if found != MAGIC {
            return Err(Error::NotIronwarp { at: bus.describe(), found });
        }
        let found = bus.read32(reg::VERSION)?;
        if found >> 16 != ABI_VERSION >> 16 {
            return Err(Error::Version { found });
        }
        Ok(Device { bus })
    }
    /// The bus, for what only this kind of bus can do.
    pub fn bus(&mut self) -> &mut B {
        &mut self.bus
    }
    /// Reads a register.
    pub fn read(&mut self, offset: u32) -> Result<u32, BusError> {
        self.bus.read32(offset)
    }
    pub(crate) fn write(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.bus.write32(offset, value)
    }
    pub(crate) fn write64(&mut self, offset_lo: u32, value: u64) -> Result<(), BusError> {
        self.write(offset_lo, value as u32)?;
        self.write(offset_lo + 4, (value >> 32) as u32)
    }
    /// What the adapter is.
    pub fn info(&mut self) -> Result<DeviceInfo, BusError> {
        let version = self.read(reg::VERSION)?;
        let caps = self.read(reg::CAPS)?;
        let caps2 = self.read(reg::CAPS2)?;
        let caps3 = self.read(reg::CAPS3)?;
        let ports = self.read(reg::PORT_RANGE)?;
        Ok(DeviceInfo {
            location: self.bus.describe(),
            version: ((version >> 16) as u16, version as u16),
            max_listeners: caps as u16,
            max_connections: (caps >> 16) as u16,
            max_qps: 1 << (caps3 & 0xf) & !1,
            max_cqs: 1 << (caps3 >> 4 & 0xf) & !1,
            regions_log2: (caps3 >> 8) as u8,
            max_addresses: caps2 as u8,
            max_neighbors: (caps2 >> 8) as u16,
            max_mtu: max_mtu(caps2),
            mac: MacAddr::from_bits(u64::from(self.read(reg::MAC_LO)?) | u64::from(self.read(reg::MAC_HI)?) << 32),
            mtu: self.read(reg::MTU)?,
            port_range: (ports as u16, (ports >> 16) as u16),
            status: self.read(reg::STATUS)?,
            time_us: self.read(reg::TIME_LO)?,
            cycles: self.read(reg::CYCLES_LO)?,
            listeners_live: self.read(reg::LISTENERS_LIVE)?,
            connections_live: self.read(reg::CONNECTIONS_LIVE)?,
        })
    }
    /// One counter, 48 bits.
    pub fn counter(&mut self, counter: Counter) -> Result<u64, BusError> {
        // reading the low dword freezes the high one, so the order matters
        let low = self.read(counter.offset())?;
        let high = self.read(counter.offset() + 4)?;
        Ok(u64::from(low) | u64::from(high) << 32)
    }
    /// Every counter that has a meaning, in the order of their numbers.
    pub fn stats(&mut self) -> Result<Vec<(Counter, u64)>, BusError> {
        Counter::ALL.iter().map(|&c| Ok((c, self.counter(c)?))).collect()
    }
    /// Two-phase reset of the adapter; returns when it is READY.
    pub fn reset(&mut self, timeout: Duration) -> Result<(), Error> {
        self.write(reg::CONTROL, control::RESET)?;
        self.wait_ready(timeout)
    }
    pub(crate) fn wait_ready(&mut self, timeout: Duration) -> Result<(), Error> {
        let deadline = self.bus.now() + timeout;
        loop {
            let status = self.read(reg::STATUS)?;
            if status == ALL_ONES {
                return Err(gone().into());
            }
            if status & (status_bits::READY | status_bits::RESETTING) == status_bits::READY {
                return Ok(());
            }
            if self.bus.now() >= deadline {
                return Err(Error::ResetTimeout { after: timeout, status });
            }
            self.bus.wait(0, STATUS_PAUSE)?;
        }
    }
    /// Errors if the adapter is gone, stopped or was reset by somebody else. A failed DMA write alone does not stop it (the frame
    /// that was to be written is lost), but it explains a reply that did not come in time.
    pub(crate) fn check_health(&mut self, reply_missing: bool) -> Result<(), Error> {
        let status = self.read(reg::STATUS)?;
        if status == ALL_ONES {
            return Err(gone().into());
        }
        if status & status_bits::CMD_STOPPED != 0 {
            return Err(Error::Stopped("a command could not be fetched by DMA"));
        }
        if reply_missing && status & status_bits::DMA_WRITE_ERROR != 0 {
            return Err(Error::Stopped("no reply, and a DMA write failed: the event may be lost"));
        }
        if status & status_bits::ENABLED == 0 {
            return Err(Error::Reset);
        }
        Ok(())
    }
}

pub(crate) fn gone() -> BusError {
    BusError::Gone("registers read as all ones".into())
}

/// From CAPS2: the largest buffer holds the datagram and 18 octets of Ethernet header and tag; jumbo frames end at 9000.
fn max_mtu(caps2: u32) -> u32 {
    1u32.checked_shl(caps2 >> 24).map_or(9000, |buffer| buffer.saturating_sub(18).min(9000))
}
