// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream and channel types that all blocks share.
//!
//! A *stream* carries frames as 64-bit beats, a *channel* carries one value a handshake. Both move on a clock edge at which
//! `valid` and `ready` are high; `valid` never waits for `ready`, and what is offered stays until it is taken.
use rust_hdl::prelude::*;

/// One beat. The first octet on the wire is in bits 7:0 of `data` and bit 0 of `keep`. `keep` is all ones except in the
/// last beat, where it is contiguous from bit 0. `error` is looked at in the last beat only: the frame is damaged.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Beat {
    pub data: Bits<64>,
    pub keep: Bits<8>,
    pub last: Bit,
    pub error: Bit,
}

#[derive(LogicInterface, Default)]
#[join = "StreamSrc"]
pub struct StreamSink {
    pub beat: Signal<In, Beat>,
    pub valid: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
}

#[derive(LogicInterface, Default)]
#[join = "StreamSink"]
pub struct StreamSrc {
    pub beat: Signal<Out, Beat>,
    pub valid: Signal<Out, Bit>,
    pub ready: Signal<In, Bit>,
}

#[derive(LogicInterface)]
#[join = "ChanSrc"]
pub struct ChanSink<T: Synth> {
    pub data: Signal<In, T>,
    pub valid: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
}

#[derive(LogicInterface)]
#[join = "ChanSink"]
pub struct ChanSrc<T: Synth> {
    pub data: Signal<Out, T>,
    pub valid: Signal<Out, Bit>,
    pub ready: Signal<In, Bit>,
}

impl<T: Synth> Default for ChanSink<T> {
    fn default() -> Self {
        Self { data: Default::default(), valid: Default::default(), ready: Default::default() }
    }
}

impl<T: Synth> Default for ChanSrc<T> {
    fn default() -> Self {
        Self { data: Default::default(), valid: Default::default(), ready: Default::default() }
    }
}

pub mod block_ram;
pub mod chan_merge;
pub mod chan_share;
pub mod fifo;
pub mod frame_reader;
pub mod halved_ram;
pub mod row_store;
pub mod row_swap;
pub mod row_words;
pub mod slot;
pub use block_ram::BlockRam;
pub use chan_merge::ChanMerge2;
pub use chan_share::ChanShare2;
pub use fifo::ChanFifo;
pub use frame_reader::FrameReader;
pub use halved_ram::HalvedRam;
pub use row_store::RowStore;
pub use row_swap::RowSwap;
pub use row_words::RowWords;
pub use slot::ChanSlot;
