// SPDX-License-Identifier: MIT OR Apache-2.0
//! One module a command.
#[cfg(feature = "sim")]
pub mod bench;
pub mod cmtime;
pub mod connect;
#[cfg(feature = "sim")]
pub mod demo;
pub mod devinfo;
pub mod l2;
pub mod listen;
pub mod perf;
pub mod rping;
pub mod selftest;
pub mod set_ups;
pub mod show;
#[cfg(feature = "sim")]
pub mod sim;
pub mod stats;
pub mod ucmatose;
