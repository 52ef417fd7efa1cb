// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two-phase reset, ENABLE, and register STATUS.
//!
//! Interface: `reset` is the power-up pin, `flr` the pulse of a function level reset, `control` with `control_value` the strobe of CONTROL. `shutdown` asks for RST on every
//! connection, `shut` says that they have left. `quiesce` goes to the DMA arbiters and the transmit multiplexer, `clear` is the
//! synchronous reset of every other block (registers, rings, engines, counters), `blocks_ready` the AND of their `ready` outputs. `status`
//! is register STATUS, put together here. `finished` pulses when a reset is done (cause ERROR).
//!
//! States: shutdown -> quiesce -> clear -> ready.
//! * *Shutdown*: every connection is reset on the wire (CM-42); the rings are off already and nothing is received. For at most 2^14 clocks: a model that is slower
//!   than a card by far may use more than 100 ms of adapter time for them.
//! * *Quiesce*: no DMA request is taken and no frame begun any more; wait until nothing is outstanding and the frame on the wire is whole, for at most 2^16 clocks or 2^16 microseconds of adapter
//!   time, whichever is first. If the bound is hit, go on: the arbiters throw late answers away (`cnt_reset_timeouts` pulses once the
//!   counters count again).
//! * *Clear*: `clear` is high for 16 clocks; then wait until `blocks_ready`, because a block clears its memories once its reset has ended,
//!   for at most 2^16 clocks in all (`TIMEBASE` has its reset value of 1/64 us here). These two phases together stay under 100 ms of adapter time.
//! * *Ready*: READY is set; a write of ENABLE sets ENABLED, which stays until the next reset. A write of RESET, or `flr`, starts again; anything else in
//!   that write is ignored. Writes of CONTROL and `flr` during a reset are ignored.
//!
//! Power-up and the pin start at *quiesce* (held there while the pin is high, with `clear` high too: the arbiters are reset by the pin itself).
//!
//! Timing: RESETTING is set in the second clock after the strobe. Memory: flip-flops.
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ResetState {
    /// The state of power-up comes first.
    Quiesce,
    Clear,
    Ready,
    Shutdown,
}

/// Register STATUS.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct StatusWord {
    pub ready: Bit,
    pub enabled: Bit,
    pub resetting: Bit,
    pub dma_read_error: Bit,
    pub dma_write_error: Bit,
    pub cmd_stopped: Bit,
    pub zero: Bits<26>,
}

#[derive(LogicBlock, Default)]
pub struct ResetSeq {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub flr: Signal<In, Bit>,
    pub shut: Signal<In, Bit>,
    pub control: Signal<In, Bit>,
    pub control_value: Signal<In, Bits<32>>,
    pub tick_us: Signal<In, Bits<10>>,
    pub read_idle: Signal<In, Bit>,
    pub write_idle: Signal<In, Bit>,
    pub tx_idle: Signal<In, Bit>,
    pub blocks_ready: Signal<In, Bit>,
    pub dma_read_error: Signal<In, Bit>,
    pub dma_write_error: Signal<In, Bit>,
    pub cmd_stopped: Signal<In, Bit>,
    pub shutdown: Signal<Out, Bit>,
    pub quiesce: Signal<Out, Bit>,
    pub clear: Signal<Out, Bit>,
    pub enabled: Signal<Out, Bit>,
    pub finished: Signal<Out, Bit>,
    pub ready: Signal<Out, Bit>,
    pub status: Signal<Out, Bits<32>>,
    pub cnt_reset_timeouts: Signal<Out, Bit>,
    state: DFF<ResetState>,
    clocks: DFF<Bits<17>>,
    microseconds: DFF<Bits<17>>,
    run: DFF<Bit>,
    done: DFF<Bit>,
    late: DFF<Bit>,
    timed_out: DFF<Bit>,
    word: Signal<Local, StatusWord>,
}

impl Logic for ResetSeq {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, clocks, microseconds, run, done, late, timed_out);
        self.done.d.next = false;
        self.timed_out.d.next = false;
        self.clocks.d.next = self.clocks.q.val() + 1;
        self.microseconds.d.next = self.microseconds.q.val() + bit_cast::<17, 10>(self.tick_us.val());
        match self.state.q.val() {
            ResetState::Quiesce => {
                self.run.d.next = false;
                // what was granted in the clock before quiesce shows in `idle` one clock later
                if (self.clocks.q.val() > 3) & self.read_idle.val() & self.write_idle.val() & self.tx_idle.val() {
                    self.state.d.next = ResetState::Clear;
                    self.clocks.d.next = 0.into();
                } else if self.clocks.q.val().get_bit(16) | self.microseconds.q.val().get_bit(16) {
                    self.state.d.next = ResetState::Clear;
                    self.clocks.d.next = 0.into();
                    self.late.d.next = true;
                }
            }
            ResetState::Clear => {
                if (self.clocks.q.val() > 15) & self.blocks_ready.val() {
                    self.state.d.next = ResetState::Ready;
                } else if self.clocks.q.val().get_bit(16) {
                    self.state.d.next = ResetState::Ready;
                    self.late.d.next = true;
                }
                self.done.d.next = self.state.d.val() == ResetState::Ready;
            }
            ResetState::Ready => {
                self.late.d.next = false;
                self.timed_out.d.next = self.late.q.val();
                self.clocks.d.next = 0.into();
                self.microseconds.d.next = 0.into();
                if self.flr.val() | (self.control.val() & self.control_value.val().get_bit(1)) {
                    self.state.d.next = ResetState::Shutdown;
                    self.run.d.next = false;
                } else if self.control.val() & self.control_value.val().get_bit(0) {
                    self.run.d.next = true;
                }
            }
            ResetState::Shutdown => {
                self.microseconds.d.next = 0.into();
                if self.shut.val() | self.clocks.q.val().get_bit(14) {
                    self.state.d.next = ResetState::Quiesce;
                    self.clocks.d.next = 0.into();
                    self.late.d.next = !self.shut.val();
                }
            }
            _ => {
                self.state.d.next = ResetState::Quiesce;
            }
        }
        if self.reset.val() {
            self.state.d.next = ResetState::Quiesce;
            self.clocks.d.next = 0.into();
            self.microseconds.d.next = 0.into();
            self.run.d.next = false;
            self.late.d.next = false;
            self.done.d.next = false;
            self.timed_out.d.next = false;
        }
        self.shutdown.next = self.state.q.val() == ResetState::Shutdown;
        self.quiesce.next = (self.state.q.val() == ResetState::Quiesce) | (self.state.q.val() == ResetState::Clear);
        self.clear.next = ((self.state.q.val() == ResetState::Clear) & (self.clocks.q.val() < 16)) | self.reset.val();
        self.enabled.next = self.run.q.val();
        self.finished.next = self.done.q.val();
        self.cnt_reset_timeouts.next = self.timed_out.q.val();
        self.ready.next = self.state.q.val() == ResetState::Ready;
        self.word.next.ready = self.state.q.val() == ResetState::Ready;
        self.word.next.enabled = self.run.q.val();
        self.word.next.resetting = self.state.q.val() != ResetState::Ready;
        self.word.next.dma_read_error = self.dma_read_error.val();
        self.word.next.dma_write_error = self.dma_write_error.val();
        self.word.next.cmd_stopped = self.cmd_stopped.val();
        self.word.next.zero = 0.into();
        self.status.next = bit_cast::<32, 32>(self.word.val().into());
    }
}
