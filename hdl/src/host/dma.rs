// SPDX-License-Identifier: MIT OR Apache-2.0
//! The DMA seam: requests beside a 64-bit data stream. The PCIe transaction layer comes below it.
//!
//! Any octet address and any length of 1..=65535 octets; the data stream is packed from lane 0 whatever the address is. Each read
//! request is answered by ceil(len / 8) beats, `last` on the final one, `error` on that one if any part failed (the data is then
//! not to be used; the number of beats stays the same). A write takes its beats after its request was taken; when all have
//! reached host memory in ascending order, or one part failed, one pulse of `DmaDoneSrc` comes back. Answers come in the order of requests.
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct DmaRequest {
    pub addr: Bits<64>,
    pub len: Bits<16>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct DmaBeat {
    pub data: Bits<64>,
    pub last: Bit,
    pub error: Bit,
}

/// Where a client of the write arbiter hears that its write has ended: `valid` for one clock.
#[derive(LogicInterface, Default)]
#[join = "DmaDoneSrc"]
pub struct DmaDoneSink {
    pub valid: Signal<In, Bit>,
    pub error: Signal<In, Bit>,
}

/// The other end of [`DmaDoneSink`].
#[derive(LogicInterface, Default)]
#[join = "DmaDoneSink"]
pub struct DmaDoneSrc {
    pub valid: Signal<Out, Bit>,
    pub error: Signal<Out, Bit>,
}
