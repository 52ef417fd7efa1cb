// SPDX-License-Identifier: MIT OR Apache-2.0
//! One step of CRC32C (MPA-21; polynomial 0x1EDC6F41, reflected) over 8 octets, or over the first 4 of them.
//!
//! **Interface.** Combinational: `out` is `crc` after the 8 octets of `data`, with `half` after the 4 in `data[31:0]`; the first octet is in bits 7:0, as in a stream.
//! Neither initial value nor final XOR are in it: a calculation starts with all ones. It ends in one of two ways: the inverse of `out` is the CRC, its octet 0 in bits
//! 7:0, as it stands in the FPDU. A checker that has gone over the CRC octets as well ends with [`GOOD`] before the final XOR, whatever came before.
//!
//! **How.** Each bit of `out` is the parity of some bits of `crc ^ data[31:0]` and `data[63:32]`; `step` tells which. The step is linear:
//! `out(crc, data) = out(crc, 0) ^ out(0, data)`, so a block that needs it faster can do the two parts in two clocks. About 17 inputs a bit and word: 3 to 4 LUTs deep.
//! **States, memory:** none. [`Crc32cStage`] puts a register behind it, for tests and for the clock it reaches.
use rust_hdl::prelude::*;

const POLYNOMIAL: u32 = 0x82f6_3b78;
/// What a checker ends with, before the final XOR, when it has gone over a right CRC.
pub const GOOD: u32 = !0x4867_4bc7;

/// `crc` after 32 bits of zero.
const fn step(mut crc: u32) -> u32 {
    let mut i = 0;
    while i < 32 {
        crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        i += 1;
    }
    crc
}

/// Which bits of the input make bit `bit` of `f`, a linear function.
fn inputs(f: fn(u32) -> u32, bit: usize) -> u32 {
    (0..32).filter(|i| (f(1 << i) >> bit) & 1 == 1).fold(0, |mask, i| mask | (1 << i))
}

#[derive(LogicBlock, Default)]
pub struct Crc32c {
    pub crc: Signal<In, Bits<32>>,
    pub data: Signal<In, Bits<64>>,
    pub half: Signal<In, Bit>,
    pub out: Signal<Out, Bits<32>>,
}

impl Logic for Crc32c {
    fn update(&mut self) {
        let data = self.data.val().to_u64();
        let first = step(self.crc.val().to_u64() as u32 ^ data as u32);
        let both = step(first ^ (data >> 32) as u32);
        self.out.next = u64::from(if self.half.val() { first } else { both }).to_bits();
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut code = String::from("wire [31:0] low = crc ^ data[31:0];\nwire [31:0] high = data[63:32];\nalways @(*) begin\n");
        for i in 0..32 {
            let once = inputs(step, i);
            let twice = inputs(|x| step(step(x)), i);
            code += &format!("out[{i}] = half ? ^(low & 32'h{once:08x}) : ^(low & 32'h{twice:08x}) ^ ^(high & 32'h{once:08x});\n");
        }
        Verilog::Custom(code + "end\n")
    }
}

/// [`Crc32c`] with a register: `crc` is all ones after `start`, and goes one step with `go`. `good`: the octets so far end with their CRC.
#[derive(LogicBlock)]
pub struct Crc32cStage {
    pub clock: Signal<In, Clock>,
    pub start: Signal<In, Bit>,
    pub go: Signal<In, Bit>,
    pub data: Signal<In, Bits<64>>,
    pub half: Signal<In, Bit>,
    pub crc: Signal<Out, Bits<32>>,
    pub good: Signal<Out, Bit>,
    crc32c: Crc32c,
    state: DFF<Bits<32>>,
    ones: Constant<Bits<32>>,
    right: Constant<Bits<32>>,
}

impl Default for Crc32cStage {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            start: Default::default(),
            go: Default::default(),
            data: Default::default(),
            half: Default::default(),
            crc: Default::default(),
            good: Default::default(),
            crc32c: Default::default(),
            state: Default::default(),
            ones: Constant::new(u64::from(u32::MAX).to_bits()),
            right: Constant::new(u64::from(GOOD).to_bits()),
        }
    }
}

impl Logic for Crc32cStage {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state);
        self.crc32c.crc.next = self.state.q.val();
        self.crc32c.data.next = self.data.val();
        self.crc32c.half.next = self.half.val();
        self.crc.next = self.state.q.val();
        self.good.next = self.state.q.val() == self.right.val();
        if self.go.val() {
            self.state.d.next = self.crc32c.out.val();
        }
        if self.start.val() {
            self.state.d.next = self.ones.val();
        }
    }
}
