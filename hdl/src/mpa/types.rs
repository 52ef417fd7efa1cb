// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPA start-up as the connection manager sees it (RFC 5044 section 7.1, RFC 6581 section 6).
use rust_hdl::prelude::*;

/// What a start-up frame says beside its private data. Flags as they stand on the wire.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartFrame {
    /// Reply key; else Request key.
    pub reply: Bit,
    /// Octet 16: M 0x80, C 0x40, R 0x20, S 0x10. Bits without a meaning (S in revision 1 is one) are 0 in what was received and are sent as 0.
    pub flags: Bits<8>,
    pub rev: Bits<8>,
    /// Octets of private data without the enhanced words.
    pub data_len: Bits<16>,
    /// Enhanced words, if S is set in a frame of revision 2: A 0x8000, B 0x4000, IRD; C 0x8000, D 0x4000, ORD.
    pub ird_word: Bits<16>,
    pub ord_word: Bits<16>,
}

/// What `mpa::start_rx` tells `cm::conn`.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum StartRxNote {
    /// The frame is complete and well-formed; `frame` describes it.
    Frame,
    /// It can be no valid frame (MPA-3): wrong key, length over 512, or S without the words. Told once.
    Malformed,
    /// Revision 0 or above 2; `frame.rev` tells it. Told once.
    WrongRevision,
    /// Octets came after a complete Request (MPA-10). Told once.
    Excess,
    /// Asked to deliver: the private data of `index` is in its place in host memory.
    Delivered,
    /// Asked to deliver: the DMA write failed.
    Failed,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartRxResult {
    pub note: StartRxNote,
    pub index: Bits<16>,
    pub frame: StartFrame,
}

/// The start-up frame that `mpa::start_tx` is to hold for `index`: built from `frame` and `frame.data_len` octets of host memory.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StartTxFrame {
    pub index: Bits<16>,
    pub frame: StartFrame,
    pub data_addr: Bits<64>,
}
