// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of the adapter core as plain values, and the [`Core`] trait: the Verilated model, or a scripted stand-in for tests of
//! this crate.
use ironwarp_models::{ironwarp_core::Model, Dut};
use std::ffi::CStr;

/// What the surroundings drive in one clock. Names are those of the ports in `hdl/src/core.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Inputs {
    pub reset: bool,
    pub flr: bool,
    pub mmio_addr: u16,
    pub mmio_wdata: u32,
    pub mmio_write: bool,
    pub mmio_read: bool,
    pub rd_req_ready: bool,
    pub rd_data: u64,
    pub rd_data_last: bool,
    pub rd_data_error: bool,
    pub rd_data_valid: bool,
    pub wr_req_ready: bool,
    pub wr_data_ready: bool,
    pub wr_done_valid: bool,
    pub wr_done_error: bool,
    pub irq_ready: bool,
    pub rx_data: u64,
    pub rx_keep: u8,
    pub rx_last: bool,
    pub rx_error: bool,
    pub rx_valid: bool,
    pub tx_ready: bool,
}

/// What the core drives in one clock, settled for the inputs of that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Outputs {
    pub ready: bool,
    pub mmio_ready: bool,
    pub mmio_rvalid: bool,
    pub mmio_rdata: u32,
    pub rd_req_addr: u64,
    pub rd_req_len: u16,
    pub rd_req_valid: bool,
    pub rd_data_ready: bool,
    pub wr_req_addr: u64,
    pub wr_req_len: u16,
    pub wr_req_valid: bool,
    pub wr_data: u64,
    pub wr_data_last: bool,
    pub wr_data_valid: bool,
    pub irq_vector: u8,
    pub irq_valid: bool,
    pub tx_data: u64,
    pub tx_keep: u8,
    pub tx_last: bool,
    pub tx_valid: bool,
}

/// A core that can be clocked: [`settle`](Core::settle) and [`edge`](Core::edge) in turn make one clock.
pub trait Core: Send {
    /// Applies the inputs of this clock and lets combinational logic settle: the outputs are what the coming edge will see.
    fn settle(&mut self, inputs: &Inputs) -> Outputs;
    /// The rising edge.
    fn edge(&mut self);
    /// Starts to record waves into `file` (does nothing unless the models were built with `WAVES=1`).
    fn waves(&mut self, _file: &CStr) {}
}

/// The Verilated core.
///
/// A clock costs two evaluations: the falling edge, at which nothing in the core moves, is evaluated together with the new inputs.
pub struct Verilated {
    model: Model,
    driven: Inputs,
    half_clocks: u64,
    tracing: bool,
}

impl Verilated {
    /// `seed` gives memories and unset registers their content at power-up.
    pub fn new(seed: u64) -> Self {
        let mut core = Verilated { model: Model::new(seed), driven: Inputs::default(), half_clocks: 0, tracing: false };
        core.drive_all(&Inputs::default());
        core
    }
    fn drive_all(&mut self, i: &Inputs) {
        let m = &mut self.model;
        m.reset.set(i.reset);
        m.flr.set(i.flr);
        m.mmio_addr.set(i.mmio_addr);
        m.mmio_wdata.set(i.mmio_wdata);
        m.mmio_write.set(i.mmio_write);
        m.mmio_read.set(i.mmio_read);
        m.rd_req_ready.set(i.rd_req_ready);
        m.rd_data.set(i.rd_data);
        m.rd_data_last.set(i.rd_data_last);
        m.rd_data_error.set(i.rd_data_error);
        m.rd_data_valid.set(i.rd_data_valid);
        m.wr_req_ready.set(i.wr_req_ready);
        m.wr_data_ready.set(i.wr_data_ready);
        m.wr_done_valid.set(i.wr_done_valid);
        m.wr_done_error.set(i.wr_done_error);
        m.irq_ready.set(i.irq_ready);
        m.rx_data.set(i.rx_data);
        m.rx_keep.set(i.rx_keep);
        m.rx_last.set(i.rx_last);
        m.rx_error.set(i.rx_error);
        m.rx_valid.set(i.rx_valid);
        m.tx_ready.set(i.tx_ready);
        self.driven = *i;
    }
    fn dump(&mut self) {
        if self.tracing {
            self.model.trace_dump(self.half_clocks);
        }
        self.half_clocks += 1;
    }
}

impl Core for Verilated {
    fn settle(&mut self, inputs: &Inputs) -> Outputs {
        if *inputs != self.driven {
            self.drive_all(inputs);
        }
        self.model.set_clock(false);
        self.model.eval();
        self.dump();
        let m = &self.model;
        Outputs {
            ready: m.ready.get(),
            mmio_ready: m.mmio_ready.get(),
            mmio_rvalid: m.mmio_rvalid.get(),
            mmio_rdata: m.mmio_rdata.get(),
            rd_req_addr: m.rd_req_addr.get(),
            rd_req_len: m.rd_req_len.get(),
            rd_req_valid: m.rd_req_valid.get(),
            rd_data_ready: m.rd_data_ready.get(),
            wr_req_addr: m.wr_req_addr.get(),
            wr_req_len: m.wr_req_len.get(),
            wr_req_valid: m.wr_req_valid.get(),
            wr_data: m.wr_data.get(),
            wr_data_last: m.wr_data_last.get(),
            wr_data_valid: m.wr_data_valid.get(),
            irq_vector: m.irq_vector.get(),
            irq_valid: m.irq_valid.get(),
            tx_data: m.tx_data.get(),
            tx_keep: m.tx_keep.get(),
            tx_last: m.tx_last.get(),
            tx_valid: m.tx_valid.get(),
        }
    }
    fn edge(&mut self) {
        self.model.set_clock(true);
        self.model.eval();
        self.dump();
    }
    fn waves(&mut self, file: &CStr) {
        self.model.trace_open(file);
        self.tracing = true;
    }
}
