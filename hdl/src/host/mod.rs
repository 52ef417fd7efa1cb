// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host side: BAR0 registers and doorbells, command and event rings, DMA arbitration, interrupts, counters, reset.
pub mod cmd_ring;
pub mod counters;
pub mod dma;
pub mod dma_read;
pub mod dma_write;
pub mod evt_ring;
pub mod irq;
pub mod pulse_merge;
pub mod pulses;
pub mod regs;
pub mod reset_seq;
pub mod time;
