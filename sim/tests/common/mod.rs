// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scripted core for tests of what is around it.
#![allow(dead_code)] // each test file uses a part
use ironwarp_sim::pins::{Core, Inputs, Outputs};
use std::collections::VecDeque;

/// Registers of [`Copier`].
pub const SOURCE: u32 = 0x100;
pub const TARGET: u32 = 0x104;
pub const LENGTH: u32 = 0x108;
/// Starts a copy; raises vector 2 when it is done.
pub const GO: u32 = 0x10c;
/// Copies done, failed ones in bits 31:16.
pub const DONE: u32 = 0x110;

/// A core that reads `LENGTH` octets at `SOURCE`, writes them to `TARGET` and echoes frames that arrive undamaged.
#[derive(Default)]
pub struct Copier {
    inputs: Inputs,
    outputs: Outputs,
    registers: [u32; 5],
    answer: Option<u32>,
    read: Option<(u64, u16)>,
    write: Option<(u64, u16)>,
    data: VecDeque<u64>,
    awaiting: bool,
    irq: bool,
    rx: Vec<(u64, u8, bool)>,
    tx: VecDeque<(u64, u8, bool)>,
    forget_last: bool,
    hasty: bool,
}

impl Copier {
    /// Offers write data without its `last`.
    pub fn forgetting_last() -> Self {
        Copier { forget_last: true, ..Self::default() }
    }
    /// Raises its interrupt with the last beat, not when the write was acknowledged.
    pub fn hasty() -> Self {
        Copier { hasty: true, ..Self::default() }
    }
}

impl Core for Copier {
    fn settle(&mut self, inputs: &Inputs) -> Outputs {
        self.inputs = *inputs;
        let (read, write) = (self.read.unwrap_or_default(), self.write.unwrap_or_default());
        let tx = self.tx.front().copied().unwrap_or_default();
        self.outputs = Outputs {
            ready: true,
            mmio_ready: true,
            mmio_rvalid: self.answer.is_some(),
            mmio_rdata: self.answer.unwrap_or(0),
            rd_req_addr: read.0,
            rd_req_len: read.1,
            rd_req_valid: self.read.is_some(),
            rd_data_ready: true,
            wr_req_addr: write.0,
            wr_req_len: write.1,
            wr_req_valid: self.write.is_some(),
            wr_data: self.data.front().copied().unwrap_or(0),
            wr_data_last: self.data.len() == 1 && !self.forget_last,
            wr_data_valid: self.awaiting && self.write.is_none() && !self.data.is_empty(),
            irq_vector: 2,
            irq_valid: self.irq,
            tx_data: tx.0,
            tx_keep: tx.1,
            tx_last: tx.2,
            tx_valid: !self.tx.is_empty(),
        };
        self.outputs
    }
    fn edge(&mut self) {
        let (i, o) = (self.inputs, self.outputs);
        if i.reset || i.flr {
            *self = Copier { forget_last: self.forget_last, hasty: self.hasty, ..Copier::default() };
            return;
        }
        let register = usize::from(i.mmio_addr & 0xff) / 4;
        self.answer = i.mmio_read.then(|| self.registers.get(register).copied().unwrap_or(0));
        if i.mmio_write && register < self.registers.len() {
            self.registers[register] = i.mmio_wdata;
            if u32::from(i.mmio_addr) == GO {
                self.read = Some((self.registers[0].into(), self.registers[2] as u16));
            }
        }
        if o.rd_req_valid && i.rd_req_ready {
            self.read = None;
        }
        if i.rd_data_valid {
            self.data.push_back(i.rd_data);
            if i.rd_data_last {
                if i.rd_data_error {
                    self.registers[4] += 0x1_0000;
                }
                self.write = Some((self.registers[1].into(), self.registers[2] as u16));
                self.awaiting = true;
            }
        }
        if o.wr_req_valid && i.wr_req_ready {
            self.write = None;
        }
        if o.wr_data_valid && i.wr_data_ready {
            self.data.pop_front();
        }
        if self.hasty && o.wr_data_valid && i.wr_data_ready && o.wr_data_last {
            self.irq = true;
        } else if i.wr_done_valid {
            self.awaiting = false;
            self.registers[4] += if i.wr_done_error { 0x1_0001 } else { 1 };
            self.irq = !self.hasty;
        } else if i.irq_ready {
            self.irq = false;
        }
        if i.rx_valid {
            self.rx.push((i.rx_data, i.rx_keep, i.rx_last));
            if i.rx_last {
                let frame = std::mem::take(&mut self.rx);
                if !i.rx_error {
                    self.tx.extend(frame);
                }
            }
        }
        if o.tx_valid && i.tx_ready {
            self.tx.pop_front();
        }
    }
}
