// SPDX-License-Identifier: MIT OR Apache-2.0
//! 2^A timers: one deadline an index, each told once when adapter time has reached it.
//!
//! **Interface.** `set` puts the deadline of an index in the place of the one before, or takes it away (`on` false). `expired` offers an index whose
//! deadline was reached; that deadline is then gone. Rules for the user:
//! * after a `set` of an index was taken, an expiry of that index which is offered and not yet taken is withdrawn: this is the one place where what
//!   is offered does not stay. So no expiry that belongs to an earlier deadline can follow a `set`, and none needs a number to be told from another
//!   (MPA-42). An expiry that is taken in the very clock in which the `set` is taken came before it;
//! * so there must be no queue in front of `set` or behind `expired`;
//! * a deadline is less than 2^31 microseconds ahead; one in the past expires at once. An expiry must be taken within 2^31 microseconds.
//!
//! **States.** See [`DeadlineState`]. A sweep visits one index after the other: Read, Latch, Subtract, Act. Instead of a Read a `set` is taken, but a
//! visit goes between two of them. An index that is due while the expiry of another waits is visited again until that one is taken, and
//! the sweep stands still as long; `set` is taken all the same.
//!
//! **Timing.** `set` is taken within 5 clocks. Never early; an expiry is offered at most 5 x 2^A + 8 clocks after its time has come, plus the clocks in
//! which another one was offered, and 8 for each of them. Ready 2^A clocks after a reset. `time_us` may jump: a deadline that was jumped over expires.
//!
//! **Memory.** 2^A x 33 bits of block RAM, cleared after a reset.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// Where the sweep is.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum DeadlineState {
    /// After reset: all are switched off.
    Clear,
    /// The visited index goes to the RAM, or a `set` is taken.
    Read,
    /// Its deadline is at the RAM's output.
    Latch,
    /// How late is it?
    Subtract,
    /// If it is due, switch it off and offer it.
    Act,
}

/// Word of the RAM.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Deadline {
    pub on: Bit,
    pub at: Bits<32>,
}

/// `A`: log2 of the timers.
#[derive(LogicBlock)]
pub struct Deadlines<const A: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub time_us: Signal<In, Bits<32>>,
    pub set: ChanSink<DeadlineSet>,
    pub expired: ChanSrc<Bits<16>>,
    ram: BlockRam<Deadline, A>,
    state: DFF<DeadlineState>,
    visited: DFF<Bits<A>>,
    row: DFF<Deadline>,
    due: DFF<Bit>,
    /// The last Read was a `set`: now a visit has its turn.
    was_set: DFF<Bit>,
    out_valid: DFF<Bit>,
    out_index: DFF<Bits<A>>,
    late: Signal<Local, Bits<32>>,
    asked: Signal<Local, Bits<16>>,
    index: Signal<Local, Bits<A>>,
    take: Signal<Local, Bit>,
    last: Constant<Bits<A>>,
}

impl<const A: usize> Default for Deadlines<A> {
    fn default() -> Self {
        assert!((1..=16).contains(&A), "an index has 16 bits");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            time_us: Default::default(),
            set: Default::default(),
            expired: Default::default(),
            ram: Default::default(),
            state: Default::default(),
            visited: Default::default(),
            row: Default::default(),
            due: Default::default(),
            was_set: Default::default(),
            out_valid: Default::default(),
            out_index: Default::default(),
            late: Default::default(),
            asked: Default::default(),
            index: Default::default(),
            take: Default::default(),
            last: Constant::new(((1u64 << A) - 1).to_bits()),
        }
    }
}

impl<const A: usize> Logic for Deadlines<A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, visited, row, due, was_set, out_valid, out_index);
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();
        self.asked.next = self.set.data.val().index;
        self.index.next = self.asked.val().get_bits::<A>(0);
        self.take.next = (self.state.q.val() == DeadlineState::Read) & !self.was_set.q.val() & self.set.valid.val();
        self.late.next = self.time_us.val() - self.row.q.val().at;

        self.ready.next = self.state.q.val() != DeadlineState::Clear;
        self.set.ready.next = (self.state.q.val() == DeadlineState::Read) & !self.was_set.q.val();
        self.expired.valid.next = self.out_valid.q.val();
        self.expired.data.next = bit_cast::<16, A>(self.out_index.q.val());
        self.ram.read_address.next = self.visited.q.val();
        self.ram.write_enable.next = false;
        self.ram.write_address.next = self.visited.q.val();
        self.ram.write_data.next.on = false;
        self.ram.write_data.next.at = 0.into();
        if self.expired.ready.val() {
            self.out_valid.d.next = false;
        }

        match self.state.q.val() {
            DeadlineState::Clear => {
                self.ram.write_enable.next = true;
                self.visited.d.next = self.visited.q.val() + 1;
                if self.visited.q.val() == self.last.val() {
                    self.state.d.next = DeadlineState::Read;
                }
            }
            DeadlineState::Read => {
                self.was_set.d.next = self.take.val();
                if self.take.val() {
                    self.ram.write_enable.next = true;
                    self.ram.write_address.next = self.index.val();
                    self.ram.write_data.next.on = self.set.data.val().on;
                    self.ram.write_data.next.at = self.set.data.val().at;
                    if self.out_index.q.val() == self.index.val() {
                        self.out_valid.d.next = false;
                    }
                } else {
                    self.state.d.next = DeadlineState::Latch;
                }
            }
            DeadlineState::Latch => {
                self.row.d.next = self.ram.read_data.val();
                self.state.d.next = DeadlineState::Subtract;
            }
            DeadlineState::Subtract => {
                self.due.d.next = self.row.q.val().on & !self.late.val().get_bit(31);
                self.state.d.next = DeadlineState::Act;
            }
            DeadlineState::Act => {
                self.state.d.next = DeadlineState::Read;
                if !self.due.q.val() {
                    self.visited.d.next = self.visited.q.val() + 1;
                } else if !self.out_valid.q.val() {
                    self.ram.write_enable.next = true;
                    self.out_valid.d.next = true;
                    self.out_index.d.next = self.visited.q.val();
                    self.visited.d.next = self.visited.q.val() + 1;
                }
            }
            _ => {
                self.state.d.next = DeadlineState::Clear;
            }
        }
        if self.reset.val() {
            self.state.d.next = DeadlineState::Clear;
            self.visited.d.next = 0.into();
            self.was_set.d.next = false;
            self.out_valid.d.next = false;
        }
    }
}
