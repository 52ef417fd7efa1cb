// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offloaded provider: the driver of the ironwarp adapter. One code over every [`Bus`].
//!
//! ```
//! # fn example(bus: impl ironwarp_rnic::Bus) -> Result<(), ironwarp_rnic::Error> {
//! use ironwarp_rnic::{Config, Rnic};
//! use std::net::Ipv4Addr;
//! let mut rnic = Rnic::attach(bus, Config::default())?;
//! rnic.address_add(Ipv4Addr::new(192, 0, 2, 1), 24, None)?;
//! let listener = rnic.create_listen(Ipv4Addr::UNSPECIFIED, 0, 8)?; // the adapter chooses the port
//! println!("listening on port {}", listener.port);
//! rnic.destroy_listen(listener)?;
//! # Ok(()) }
//! ```
#![deny(unsafe_code)]

pub mod bus;
mod config;
mod connection;
mod device;
pub mod dma;
mod error;
pub mod iova;
mod l2;
mod live;
mod offload;
mod pci;
mod pending;
mod ports;
mod private_data;
pub mod queues;
mod ring;
mod rnic;
mod rule;
mod socket;
mod vectors;
mod vfio;

pub use bus::{Bus, BusError};
pub use config::{Config, TcpSettings};
pub use connection::{
    start_flag, AcceptParam, Backlog, ConnectParam, Connection, ConnectionState, StartUp, DEFAULT_BACKLOG, NOT_NEGOTIATED,
    PRIVATE_DATA_MAX, PRIVATE_DATA_MAX_ENHANCED,
};
pub use device::{Device, DeviceInfo};
pub use dma::DmaMemory;
pub use error::{Error, Refusal};
pub use l2::{L2Counts, Received};
pub use live::ConnectionRow;
pub use offload::{Offload, OffloadConfig};
pub use pending::{Context, Event, Listener, Oddities, Op};
pub use rnic::Rnic;
pub use rule::Rule;
pub use socket::SocketBus;
pub use vfio::VfioBus;
