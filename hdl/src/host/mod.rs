// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host side: BAR0 registers and doorbells, command and event rings, DMA arbitration, interrupts, counters, reset.
pub mod dma;
pub mod pulses;
