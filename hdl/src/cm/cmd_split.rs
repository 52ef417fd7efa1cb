// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands on connections (opcodes 8 to 15) go to `conn`, those on objects of the data path (16 to 21) to `data`, all others, unknown ones too, to `engine`.
//!
//! Without a clock of delay and without memory: `cmd` keeps a command until the one that it is for takes it, so commands are begun in order
//! (`clock` drives nothing).
use super::messages::CommandIn;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock, Default)]
pub struct CmdSplit {
    pub clock: Signal<In, Clock>,
    pub cmd: ChanSink<CommandIn>,
    pub engine: ChanSrc<CommandIn>,
    pub conn: ChanSrc<CommandIn>,
    pub data: ChanSrc<CommandIn>,
    opcode: Signal<Local, Bits<8>>,
    of_conn: Signal<Local, Bit>,
    of_data: Signal<Local, Bit>,
}

impl Logic for CmdSplit {
    #[hdl_gen]
    fn update(&mut self) {
        self.opcode.next = self.cmd.data.val().opcode;
        self.of_conn.next = self.opcode.val().get_bits::<5>(3) == 1;
        self.of_data.next = (self.opcode.val().get_bits::<5>(3) == 2) & (self.opcode.val() < 22);
        self.data.data.next = self.cmd.data.val();
        self.data.valid.next = self.cmd.valid.val() & self.of_data.val();
        self.engine.data.next = self.cmd.data.val();
        self.conn.data.next = self.cmd.data.val();
        self.engine.valid.next = self.cmd.valid.val() & !self.of_conn.val() & !self.of_data.val();
        self.conn.valid.next = self.cmd.valid.val() & self.of_conn.val();
        self.cmd.ready.next = self.engine.ready.val();
        if self.of_conn.val() {
            self.cmd.ready.next = self.conn.ready.val();
        } else if self.of_data.val() {
            self.cmd.ready.next = self.data.ready.val();
        }
    }
}
