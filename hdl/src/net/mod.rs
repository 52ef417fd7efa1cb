// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet, ARP, IPv4, ICMP echo and the L2 queue to and from the host.
pub mod arp;
pub mod hold;
pub mod icmp;
pub mod l2_ring;
pub mod l2_rx;
pub mod l2_tx;
pub mod loopback;
pub mod neighbor_share;
pub mod neighbor_types;
pub mod next_hop;
pub mod rx_buffer;
pub mod rx_chain;
pub mod rx_parser;
pub mod rx_router;
pub mod tx_mux;
pub mod types;
