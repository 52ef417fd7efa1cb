// SPDX-License-Identifier: MIT OR Apache-2.0
//! One wire a counter, in the order of [`ironwarp_abi::Counter`]: bit n of the packed struct adds 1 to counter n.
use rust_hdl::prelude::*;

macro_rules! counter_pulses { ($($variant:ident $field:ident $name:literal $doc:literal;)*) => {
    #[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
    pub struct CounterPulses { $(pub $field: Bit),* }
} }
ironwarp_abi::for_each_counter!(counter_pulses);
