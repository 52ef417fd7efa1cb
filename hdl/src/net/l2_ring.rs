// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ring of L2 descriptors (`ironwarp_abi::l2`): fetches them in order, one ahead of the user, and completes them in order.
//!
//! **Interface.** `doorbell` with `doorbell_valid` is the producer index; one that lies behind the last one or further than the ring is
//! long in front of `head` is ignored and counted. `desc` offers the next descriptor; with `error` it could not be read and only the
//! flag counts. `finish` completes the oldest one that is not completed: its dwords 2 and 3 are written, then `head` advances and
//! `completed` pulses (interrupt cause). `posted` = descriptors not completed yet. `ring_log2` is 2..=12, base 16-octet aligned; neither
//! changes while the ring is in use.
//!
//! **States.** Fetch: idle, address, request, data. Completion: idle, address, request, data, wait for the end of the write. Both share
//! the adder for the address. A write that fails completes the descriptor all the same: the write arbiter counts the failure.
//!
//! **Memory:** none.
use crate::host::dma::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// A descriptor as the host posted it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct L2Posted {
    pub addr: Bits<64>,
    pub len: Bits<16>,
    pub flags: Bits<16>,
    pub error: Bit,
}

/// What dwords 2 and 3 become; DONE is added.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct L2Completion {
    pub len: Bits<16>,
    pub flags: Bits<16>,
    pub done_flags: Bits<15>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum L2FetchState {
    Idle,
    Address,
    Request,
    First,
    Second,
    Offer,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum L2FinishState {
    Idle,
    Address,
    Request,
    Data,
    Wait,
}

#[derive(LogicBlock)]
pub struct L2Ring {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ring_base: Signal<In, Bits<64>>,
    pub ring_log2: Signal<In, Bits<4>>,
    pub doorbell: Signal<In, Bits<16>>,
    pub doorbell_valid: Signal<In, Bit>,
    pub head: Signal<Out, Bits<16>>,
    pub posted: Signal<Out, Bits<16>>,
    pub completed: Signal<Out, Bit>,
    pub desc: ChanSrc<L2Posted>,
    pub finish: ChanSink<L2Completion>,
    pub rd_req: ChanSrc<DmaRequest>,
    pub rd_data: ChanSink<DmaBeat>,
    pub wr_req: ChanSrc<DmaRequest>,
    pub wr_data: ChanSrc<DmaBeat>,
    pub wr_done: DmaDoneSink,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    fetch: DFF<L2FetchState>,
    finishing: DFF<L2FinishState>,
    /// The end of a completion was told in the last clock.
    ended: DFF<Bit>,
    /// Free-running indices: posted up to / next to fetch / next to complete.
    tail: DFF<Bits<16>>,
    fetched: DFF<Bits<16>>,
    done: DFF<Bits<16>>,
    read_at: DFF<Bits<64>>,
    write_at: DFF<Bits<64>>,
    held: DFF<L2Posted>,
    word: DFF<L2Completion>,
    size: Signal<Local, Bits<16>>,
    mask: Signal<Local, Bits<16>>,
    ahead: Signal<Local, Bits<16>>,
    room: Signal<Local, Bits<16>>,
    outstanding: Signal<Local, Bits<16>>,
    position: Signal<Local, Bits<16>>,
    address: Signal<Local, Bits<64>>,
    beat: Signal<Local, Bits<64>>,
    fresh: Signal<Local, L2Posted>,
    one: Constant<Bits<16>>,
}

impl Default for L2Ring {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ring_base: Default::default(),
            ring_log2: Default::default(),
            doorbell: Default::default(),
            doorbell_valid: Default::default(),
            head: Default::default(),
            posted: Default::default(),
            completed: Default::default(),
            desc: Default::default(),
            finish: Default::default(),
            rd_req: Default::default(),
            rd_data: Default::default(),
            wr_req: Default::default(),
            wr_data: Default::default(),
            wr_done: Default::default(),
            cnt_doorbell_errors: Default::default(),
            fetch: Default::default(),
            finishing: Default::default(),
            ended: Default::default(),
            tail: Default::default(),
            fetched: Default::default(),
            done: Default::default(),
            read_at: Default::default(),
            write_at: Default::default(),
            held: Default::default(),
            word: Default::default(),
            size: Default::default(),
            mask: Default::default(),
            ahead: Default::default(),
            room: Default::default(),
            outstanding: Default::default(),
            position: Default::default(),
            address: Default::default(),
            beat: Default::default(),
            fresh: Default::default(),
            one: Constant::new(1_u64.to_bits()),
        }
    }
}

impl Logic for L2Ring {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, fetch, finishing, ended, tail, fetched, done, read_at, write_at, held, word);
        self.size.next = self.one.val() << self.ring_log2.val();
        self.mask.next = self.size.val() - 1;
        self.outstanding.next = self.tail.q.val() - self.done.q.val();
        self.posted.next = self.outstanding.val();
        self.head.next = self.done.q.val();
        self.ended.d.next = false;
        self.completed.next = self.ended.q.val();

        self.ahead.next = self.doorbell.val() - self.done.q.val();
        // the host may see a completion, and post again, before its end is told here
        self.room.next = self.size.val();
        if (self.finishing.q.val() == L2FinishState::Data) | (self.finishing.q.val() == L2FinishState::Wait) {
            self.room.next = self.size.val() + 1;
        }
        self.cnt_doorbell_errors.next = false;
        if self.doorbell_valid.val() {
            if (self.ahead.val() >= self.outstanding.val()) & (self.ahead.val() <= self.room.val()) {
                self.tail.d.next = self.doorbell.val();
            } else {
                self.cnt_doorbell_errors.next = true;
            }
        }

        // the shared adder: completion first
        self.position.next = self.fetched.q.val() & self.mask.val();
        if self.finishing.q.val() == L2FinishState::Address {
            self.position.next = self.done.q.val() & self.mask.val();
        }
        self.address.next = self.ring_base.val() + (bit_cast::<64, 16>(self.position.val()) << 4);

        self.rd_req.valid.next = false;
        self.rd_req.data.next.addr = self.read_at.q.val();
        self.rd_req.data.next.len = 16.into();
        self.rd_data.ready.next = true;
        self.beat.next = self.rd_data.data.val().data;
        self.desc.valid.next = false;
        self.desc.data.next = self.held.q.val();
        self.fresh.next = self.held.q.val();
        match self.fetch.q.val() {
            L2FetchState::Idle => {
                if self.fetched.q.val() != self.tail.q.val() {
                    self.fetch.d.next = L2FetchState::Address;
                }
            }
            L2FetchState::Address => {
                self.read_at.d.next = self.address.val();
                if self.finishing.q.val() != L2FinishState::Address {
                    self.fetch.d.next = L2FetchState::Request;
                }
            }
            L2FetchState::Request => {
                self.rd_req.valid.next = true;
                if self.rd_req.ready.val() {
                    self.fetch.d.next = L2FetchState::First;
                }
            }
            L2FetchState::First => {
                self.fresh.next.addr = self.beat.val();
                if self.rd_data.valid.val() {
                    self.fetch.d.next = L2FetchState::Second;
                }
            }
            L2FetchState::Second => {
                self.fresh.next.len = self.beat.val().get_bits::<16>(0);
                self.fresh.next.flags = self.beat.val().get_bits::<16>(16);
                self.fresh.next.error = self.rd_data.data.val().error;
                if self.rd_data.valid.val() {
                    self.fetched.d.next = self.fetched.q.val() + 1;
                    self.fetch.d.next = L2FetchState::Offer;
                }
            }
            L2FetchState::Offer => {
                self.desc.valid.next = true;
                if self.desc.ready.val() {
                    self.fetch.d.next = L2FetchState::Idle;
                }
            }
            _ => {
                self.fetch.d.next = L2FetchState::Idle;
            }
        }

        self.held.d.next = self.fresh.val();

        self.finish.ready.next = false;
        self.wr_req.valid.next = false;
        self.wr_req.data.next.addr = self.write_at.q.val();
        self.wr_req.data.next.len = 8.into();
        self.wr_data.valid.next = false;
        self.wr_data.data.next.data = bit_cast::<64, 16>(self.word.q.val().len)
            | (bit_cast::<64, 16>(self.word.q.val().flags) << 16)
            | (bit_cast::<64, 15>(self.word.q.val().done_flags) << 32)
            | bits::<64>(0x8000_0000_0000_0000_u64);
        self.wr_data.data.next.last = true;
        self.wr_data.data.next.error = false;
        match self.finishing.q.val() {
            L2FinishState::Idle => {
                self.finish.ready.next = true;
                self.word.d.next = self.finish.data.val();
                if self.finish.valid.val() {
                    self.finishing.d.next = L2FinishState::Address;
                }
            }
            L2FinishState::Address => {
                self.write_at.d.next = self.address.val() | bits::<64>(8);
                self.finishing.d.next = L2FinishState::Request;
            }
            L2FinishState::Request => {
                self.wr_req.valid.next = true;
                if self.wr_req.ready.val() {
                    self.finishing.d.next = L2FinishState::Data;
                }
            }
            L2FinishState::Data => {
                self.wr_data.valid.next = true;
                if self.wr_data.ready.val() {
                    self.finishing.d.next = L2FinishState::Wait;
                }
            }
            L2FinishState::Wait => {
                if self.wr_done.valid.val() {
                    self.done.d.next = self.done.q.val() + 1;
                    self.ended.d.next = true;
                    self.finishing.d.next = L2FinishState::Idle;
                }
            }
            _ => {
                self.finishing.d.next = L2FinishState::Idle;
            }
        }

        if self.reset.val() {
            self.fetch.d.next = L2FetchState::Idle;
            self.finishing.d.next = L2FinishState::Idle;
            self.ended.d.next = false;
            self.tail.d.next = 0.into();
            self.fetched.d.next = 0.into();
            self.done.d.next = 0.into();
        }
    }
}
