// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two clients of the port database: the command engine (listeners, reservations) and the connection engine (connections). See [`ChanShare2`].
use super::port_types::{PortReply, PortRequest};
use crate::stream::ChanShare2;

pub type PortShare = ChanShare2<PortRequest, PortReply>;
