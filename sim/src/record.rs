// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passed the ports of an adapter and in which cycle: the raw material of budgets, and a digest that two equal runs share.
use std::collections::VecDeque;

/// One thing that happened. All times are cycles of the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A register write was taken by the core.
    MmioWrite {
        /// When.
        cycle: u64,
        /// Byte offset in BAR0.
        offset: u16,
        /// Value.
        value: u32,
    },
    /// A register read was answered.
    MmioRead {
        /// When the answer came.
        cycle: u64,
        /// Byte offset in BAR0.
        offset: u16,
        /// Value.
        value: u32,
    },
    /// A DMA read was asked for.
    ReadRequest {
        /// When.
        cycle: u64,
        /// First address.
        iova: u64,
        /// Octets.
        len: u16,
    },
    /// The core took the last beat of the answer to a DMA read.
    ReadDone {
        /// When.
        cycle: u64,
        /// First address of the read.
        iova: u64,
        /// Some part failed.
        error: bool,
    },
    /// A DMA write was asked for.
    WriteRequest {
        /// When.
        cycle: u64,
        /// First address.
        iova: u64,
        /// Octets.
        len: u16,
    },
    /// A beat of a DMA write left the core.
    WriteBeat {
        /// When.
        cycle: u64,
        /// Address of the beat's first octet.
        iova: u64,
        /// Last of its write.
        last: bool,
    },
    /// A DMA write was acknowledged to the core; its data are in host memory.
    WriteDone {
        /// When.
        cycle: u64,
        /// First address of the write.
        iova: u64,
        /// Some part failed.
        error: bool,
    },
    /// An interrupt vector was raised.
    Interrupt {
        /// When.
        cycle: u64,
        /// Vector.
        vector: u8,
    },
    /// A frame from the wire went into the core.
    FrameIn {
        /// First beat.
        first: u64,
        /// Last beat.
        last: u64,
        /// Octets without FCS.
        len: u32,
        /// Marked as damaged.
        error: bool,
    },
    /// A frame left the core for the wire.
    FrameOut {
        /// First beat.
        first: u64,
        /// Last beat.
        last: u64,
        /// Octets without FCS.
        len: u32,
    },
    /// The reset pin went high (function level reset, power-up).
    Reset {
        /// When.
        cycle: u64,
    },
}

/// Keeps the newest records, and a digest of everything that passed the ports.
pub struct Recorder {
    records: VecDeque<Record>,
    capacity: usize,
    forgotten: u64,
    digest: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder { records: VecDeque::new(), capacity: 0, forgotten: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Recorder {
    /// Keeps up to `capacity` records from now on (0, as at first: none) and forgets those there are.
    pub fn keep(&mut self, capacity: usize) {
        self.records = VecDeque::with_capacity(capacity);
        self.capacity = capacity;
        self.forgotten = 0;
    }
    /// Records, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }
    /// Takes all records out.
    pub fn take(&mut self) -> Vec<Record> {
        self.records.drain(..).collect()
    }
    /// Records that made room for newer ones.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
    /// Digest of all handshakes at the ports with their cycles and values. Two runs are the same, cycle for cycle, when it is.
    pub fn digest(&self) -> u64 {
        self.digest
    }
    #[inline]
    pub(crate) fn mix(&mut self, value: u64) {
        // FNV-1a over 64-bit words, with a rotation so that high bits reach low ones
        self.digest = ((self.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3)).rotate_left(23);
    }
    #[inline]
    pub(crate) fn add(&mut self, record: Record) {
        if self.capacity == 0 {
            return;
        }
        if self.records.len() == self.capacity {
            self.records.pop_front();
            self.forgotten += 1;
        }
        self.records.push_back(record);
    }
}
