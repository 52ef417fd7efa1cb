// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues: entries in host memory in the order of completions, and events for those who wait.
//!
//! **Interface.** `from_rx`, `from_sq`: completions, one after the other into the queue that each names. `cmd`: CREATE_CQ and DESTROY_CQ (bit 0 of the opcode tells which), kept there until it is taken with its
//! CMD_REPLY on `evt`. `cq_head` with `cq_head_value`: strobe of the doorbell CQ_HEAD, at any time. `req`, `beat`, `done`: a client of the DMA write arbiter. `evt`: CMD_REPLY,
//! COMPLETION, ASYNC. What the formats are stands in `ironwarp_abi::{work, command, event}`.
//!
//! **Rules.**
//! - An entry is one DMA write of 32 octets in ascending order, phase bit in its last dword. Writes are not waited for before the next one.
//! - A queue that is full loses the completion and all later ones, and its user hears of it once (ASYNC); a queue of which a write failed as well. Nobody else notices (RDM-36). A
//!   completion for a queue that does not live is lost. So `from_*` never waits for the host to make room.
//! - An armed queue raises COMPLETION once, after the entry is in host memory. Arming finds the queue not empty (or, for solicited only: a solicited or failed completion at or after the
//!   consumer index): raised at once, after all entries that were written before. No order of doorbell and completion loses a wake-up. Wake-ups of one queue that the host has no room for are one.
//! - Doorbells of one queue that come faster than they are looked at are one: the last index, and whatever arming there was among them.
//! - What is told of a queue is told in order, with its writes: CMD_REPLY to DESTROY_CQ is behind its last write and event.
//!
//! **States.** One engine, one job at a time ([`CqState`]): doorbells, then the command, then completions. Behind it: the write under way, and a queue of what is to be said when the writes before have ended.
//! Events wait in a queue that has room for all that can be owed: one wake-up and one error of each queue, and a CMD_REPLY.
//!
//! **Timing.** Completion to DMA request 4 clocks if the queue is that of the job before, else 8; one each 6 (8) clocks beside the DMA; up to 16 writes outstanding here. End of the write to `evt` 4 clocks. `ready` 4 x 2^Q + 1
//! clocks after `reset`. **Memory.** 2^Q x 120 bits in words of 30 (1 DP16KD), events 2^E x 18, doorbells 2^Q x 22; 5 flip-flops a queue. Size with Q = 6: 2363 LUT4.
use super::doorbells::Doorbells;
use super::plain_event::PlainEvent;
use super::types::CompletionOut;
use crate::cm::messages::{errno, kind, CommandIn, EventOut};
use crate::host::dma::{DmaBeat, DmaDoneSink, DmaRequest};
use crate::host::pulse_merge::PulseMerge;
use crate::stream::{ChanFifo, ChanMerge2, ChanSink, ChanSrc, RowStore};
use ironwarp_abi::event::asynchronous;
use ironwarp_abi::work::COMPLETION_OCTETS;
use ironwarp_abi::{EventKind, Status};
use rust_hdl::prelude::*;

/// What is known of a completion queue.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CompletionQueue {
    pub live: Bit,
    /// It was full: it gets nothing any more.
    pub lost: Bit,
    pub armed_solicited: Bit,
    pub armed_next: Bit,
    pub log2: Bits<4>,
    /// Address in units of 64 octets.
    pub base: Bits<58>,
    pub producer: Bits<16>,
    pub consumer: Bits<16>,
    /// The entry before index `solicited` is one that a waiter for solicited ones wants, and is not yet consumed.
    pub some_solicited: Bit,
    pub solicited: Bits<16>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CqState {
    /// After reset: all queues are cleared.
    Clear,
    /// Choose the next job.
    Idle,
    /// Until the queue's row is there.
    Open,
    /// Distances are made.
    Measure,
    /// Carry the job out; a completion waits for the write before to be given away.
    Act,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CqJob {
    Doorbell,
    Command,
    Completion,
}

/// What is to be said when all writes before have ended.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CqNote {
    /// This is a write: nothing if it succeeds.
    Write,
    /// This is a write; then COMPLETION.
    WriteWake,
    /// COMPLETION.
    Wake,
    /// ASYNC.
    Lost,
    /// CMD_REPLY.
    Reply,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct CqMark {
    pub note: CqNote,
    pub cqn: Bits<16>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum CqWrite {
    Off,
    Request,
    Beats,
}

/// `Q`: log2 of the queues (`QP1` = Q + 1, `QUEUES` = 2^Q), `E`: log2 of the events that can be owed (Q + 2; `EP1` = E + 1).
#[derive(LogicBlock)]
pub struct Completions<const Q: usize, const QP1: usize, const QUEUES: usize, const E: usize, const EP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub from_rx: ChanSink<CompletionOut>,
    pub from_sq: ChanSink<CompletionOut>,
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub cq_head: Signal<In, Bit>,
    pub cq_head_value: Signal<In, Bits<32>>,
    pub req: ChanSrc<DmaRequest>,
    pub beat: ChanSrc<DmaBeat>,
    pub done: DmaDoneSink,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    /// Completions written.
    pub cnt_completions: Signal<Out, Bit>,
    /// Completions lost.
    pub cnt_completions_lost: Signal<Out, Bit>,
    rows: RowStore<CompletionQueue, Q>,
    merge: ChanMerge2<CompletionOut>,
    bells: Doorbells<Q, QP1, QUEUES>,
    marks: ChanFifo<CqMark, 4, 5>,
    /// Ends of writes: failed or not.
    ends: ChanFifo<Bit, 4, 5>,
    events: ChanFifo<CqMark, E, EP1>,
    reply: PlainEvent,
    errors: PulseMerge<2>,
    // doorbell as it came
    rung: DFF<Bit>,
    word: DFF<Bits<32>>,
    /// Armed by doorbells that were not looked at yet.
    arm_solicited: DFF<Bits<QUEUES>>,
    arm_next: DFF<Bits<QUEUES>>,
    // engine
    state: DFF<CqState>,
    job: DFF<CqJob>,
    number: DFF<Bits<Q>>,
    sweep: DFF<Bits<Q>>,
    /// First clock in `Open`.
    begun: DFF<Bit>,
    want_solicited: DFF<Bit>,
    want_next: DFF<Bit>,
    used: DFF<Bits<16>>,
    ahead: DFF<Bits<16>>,
    left: DFF<Bits<16>>,
    to_solicited: DFF<Bits<16>>,
    slot: DFF<Bits<16>>,
    phase: DFF<Bit>,
    /// The command's reply is on its way.
    replying: DFF<Bit>,
    status: DFF<Bits<32>>,
    // the write under way
    writing: DFF<CqWrite>,
    address: DFF<Bits<64>>,
    word0: DFF<Bits<64>>,
    word1: DFF<Bits<64>>,
    word3: DFF<Bits<64>>,
    count: DFF<Bits<2>>,
    // what was said
    waking: DFF<Bits<QUEUES>>,
    broken: DFF<Bits<QUEUES>>,
    // combinational
    n: Signal<Local, CompletionQueue>,
    row: Signal<Local, CompletionQueue>,
    c: Signal<Local, CompletionOut>,
    c_cqn: Signal<Local, Bits<16>>,
    unknown: Signal<Local, Bit>,
    of_word: Signal<Local, Bits<14>>,
    strange: Signal<Local, Bit>,
    rings: Signal<Local, Bit>,
    rung_number: Signal<Local, Bits<Q>>,
    armed_s: Signal<Local, Bits<QUEUES>>,
    armed_n: Signal<Local, Bits<QUEUES>>,
    log2: Signal<Local, Bits<4>>,
    size: Signal<Local, Bits<16>>,
    mask: Signal<Local, Bits<16>>,
    full: Signal<Local, Bit>,
    wanted: Signal<Local, Bit>,
    wake: Signal<Local, Bit>,
    open_solicited: Signal<Local, Bit>,
    doorbell_ok: Signal<Local, Bit>,
    first: Signal<Local, Bits<32>>,
    third: Signal<Local, Bits<32>>,
    command: Signal<Local, CommandIn>,
    opcode: Signal<Local, Bits<8>>,
    destroy: Signal<Local, Bit>,
    qpn24: Signal<Local, Bits<24>>,
    data_addr: Signal<Local, Bits<64>>,
    entries: Signal<Local, Bits<16>>,
    bad: Signal<Local, Bit>,
    mark: Signal<Local, CqMark>,
    head: Signal<Local, CqMark>,
    of_write: Signal<Local, Bit>,
    moves: Signal<Local, Bit>,
    said: Signal<Local, CqMark>,
    speaks: Signal<Local, Bit>,
    head_number: Signal<Local, Bits<Q>>,
    spoken: Signal<Local, CqMark>,
    event_number: Signal<Local, Bits<Q>>,
    taken: Signal<Local, Bit>,
    ok: Signal<Local, Bit>,
    is_reply: Signal<Local, Bit>,
    broken_now: Signal<Local, Bits<QUEUES>>,
    waking_now: Signal<Local, Bits<QUEUES>>,
    one: Constant<Bits<16>>,
    octets: Constant<Bits<16>>,
    queues: Constant<Bits<24>>,
    cq_error: Constant<Bits<32>>,
    kind_cmd_reply: Constant<Bits<8>>,
    kind_async: Constant<Bits<8>>,
    kind_completion: Constant<Bits<8>>,
    invalid: Constant<Bits<32>>,
    exists: Constant<Bits<32>>,
    no_entry: Constant<Bits<32>>,
}

impl<const Q: usize, const QP1: usize, const QUEUES: usize, const E: usize, const EP1: usize> Default
    for Completions<Q, QP1, QUEUES, E, EP1>
{
    fn default() -> Self {
        assert_eq!((Q + 1, 1 << Q, Q + 2, E + 1), (QP1, QUEUES, E, EP1));
        assert!(Q <= 14, "CQ_HEAD has 14 bits for the CQN");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            from_rx: Default::default(),
            from_sq: Default::default(),
            cmd: Default::default(),
            evt: Default::default(),
            cq_head: Default::default(),
            cq_head_value: Default::default(),
            req: Default::default(),
            beat: Default::default(),
            done: Default::default(),
            cnt_cmd_done: Default::default(),
            cnt_cmd_errors: Default::default(),
            cnt_doorbell_errors: Default::default(),
            cnt_completions: Default::default(),
            cnt_completions_lost: Default::default(),
            rows: Default::default(),
            merge: Default::default(),
            bells: Default::default(),
            marks: Default::default(),
            ends: Default::default(),
            events: Default::default(),
            reply: Default::default(),
            errors: Default::default(),
            rung: Default::default(),
            word: Default::default(),
            arm_solicited: Default::default(),
            arm_next: Default::default(),
            state: Default::default(),
            job: Default::default(),
            number: Default::default(),
            sweep: Default::default(),
            begun: Default::default(),
            want_solicited: Default::default(),
            want_next: Default::default(),
            used: Default::default(),
            ahead: Default::default(),
            left: Default::default(),
            to_solicited: Default::default(),
            slot: Default::default(),
            phase: Default::default(),
            replying: Default::default(),
            status: Default::default(),
            writing: Default::default(),
            address: Default::default(),
            word0: Default::default(),
            word1: Default::default(),
            word3: Default::default(),
            count: Default::default(),
            waking: Default::default(),
            broken: Default::default(),
            n: Default::default(),
            row: Default::default(),
            c: Default::default(),
            c_cqn: Default::default(),
            unknown: Default::default(),
            of_word: Default::default(),
            strange: Default::default(),
            rings: Default::default(),
            rung_number: Default::default(),
            armed_s: Default::default(),
            armed_n: Default::default(),
            log2: Default::default(),
            size: Default::default(),
            mask: Default::default(),
            full: Default::default(),
            wanted: Default::default(),
            wake: Default::default(),
            open_solicited: Default::default(),
            doorbell_ok: Default::default(),
            first: Default::default(),
            third: Default::default(),
            command: Default::default(),
            opcode: Default::default(),
            destroy: Default::default(),
            qpn24: Default::default(),
            data_addr: Default::default(),
            entries: Default::default(),
            bad: Default::default(),
            mark: Default::default(),
            head: Default::default(),
            of_write: Default::default(),
            moves: Default::default(),
            said: Default::default(),
            speaks: Default::default(),
            head_number: Default::default(),
            spoken: Default::default(),
            event_number: Default::default(),
            taken: Default::default(),
            ok: Default::default(),
            is_reply: Default::default(),
            broken_now: Default::default(),
            waking_now: Default::default(),
            one: Constant::new(1u64.to_bits()),
            octets: Constant::new((COMPLETION_OCTETS as u64).to_bits()),
            queues: Constant::new((QUEUES as u64).to_bits()),
            cq_error: Constant::new(u64::from(asynchronous::CQ_ERROR).to_bits()),
            kind_cmd_reply: kind(EventKind::CmdReply),
            kind_async: kind(EventKind::Async),
            kind_completion: kind(EventKind::Completion),
            invalid: errno(Status::Invalid),
            exists: errno(Status::Exists),
            no_entry: errno(Status::NoEntry),
        }
    }
}

impl<const Q: usize, const QP1: usize, const QUEUES: usize, const E: usize, const EP1: usize> Logic
    for Completions<Q, QP1, QUEUES, E, EP1>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, rung, word, arm_solicited, arm_next, state, job, number, sweep, begun, want_solicited, want_next);
        dff_setup!(self, clock, used, ahead, left, to_solicited, slot, phase, replying, status);
        dff_setup!(self, clock, writing, address, word0, word1, word3, count, waking, broken);
        clock!(self, clock, rows, merge, bells, marks, ends, events, errors);
        self.rows.reset.next = self.reset.val();
        self.merge.reset.next = self.reset.val();
        self.bells.reset.next = self.reset.val();
        self.marks.reset.next = self.reset.val();
        self.ends.reset.next = self.reset.val();
        self.events.reset.next = self.reset.val();
        self.errors.reset.next = self.reset.val();
        ChanSink::<CompletionOut>::link(&mut self.from_rx, &mut self.merge.a);
        ChanSink::<CompletionOut>::link(&mut self.from_sq, &mut self.merge.b);
        self.ready.next = self.state.q.val() != CqState::Clear;

        // doorbells
        self.rung.d.next = self.cq_head.val();
        self.word.d.next = self.cq_head_value.val();
        self.of_word.next = self.word.q.val().get_bits::<14>(16);
        self.strange.next = bit_cast::<24, 14>(self.of_word.val()) >= self.queues.val();
        self.rings.next = self.rung.q.val() & !self.strange.val();
        self.rung_number.next = self.word.q.val().get_bits::<Q>(16);
        self.bells.ring.next = self.rings.val();
        self.bells.number.next = self.rung_number.val();
        self.bells.value.next = self.word.q.val().get_bits::<16>(0);
        self.bells.look.next = self.number.q.val();
        self.bells.forget.next = false;
        self.bells.out.ready.next = false;
        self.errors.inp[0].next = self.rung.q.val() & self.strange.val();
        self.errors.inp[1].next = false;
        self.cnt_doorbell_errors.next = self.errors.out.val();

        self.armed_s.next = self.arm_solicited.q.val();
        self.armed_n.next = self.arm_next.q.val();
        if (self.state.q.val() == CqState::Open) & (self.job.q.val() == CqJob::Doorbell) & self.begun.q.val() {
            self.want_solicited.d.next = self.arm_solicited.q.val().get_bit(self.number.q.val().index());
            self.want_next.d.next = self.arm_next.q.val().get_bit(self.number.q.val().index());
            self.armed_s.next = self.armed_s.val().replace_bit(self.number.q.val().index(), false);
            self.armed_n.next = self.armed_n.val().replace_bit(self.number.q.val().index(), false);
        }
        if self.rings.val() & self.word.q.val().get_bit(30) {
            self.armed_s.next = self.armed_s.val().replace_bit(self.rung_number.val().index(), true);
        }
        if self.rings.val() & self.word.q.val().get_bit(31) {
            self.armed_n.next = self.armed_n.val().replace_bit(self.rung_number.val().index(), true);
        }
        self.arm_solicited.d.next = self.armed_s.val();
        self.arm_next.d.next = self.armed_n.val();

        // the job's queue
        self.rows.index.next = self.number.q.val();
        self.rows.open.next = false;
        self.rows.set.next = false;
        self.rows.erase.next = false;
        self.rows.clear.next = false;
        self.row.next = self.rows.row.val();
        self.n.next = self.row.val();
        self.log2.next = self.row.val().log2;
        self.size.next = self.one.val() << bit_cast::<16, 4>(self.log2.val());
        self.mask.next = self.size.val() - 1;
        self.used.d.next = self.row.val().producer - self.row.val().consumer;
        self.ahead.d.next = self.bells.seen.val() - self.row.val().consumer;
        self.left.d.next = self.row.val().producer - self.bells.seen.val();
        self.to_solicited.d.next = self.row.val().solicited - self.bells.seen.val();
        self.slot.d.next = self.row.val().producer & self.mask.val();
        self.phase.d.next = (self.row.val().producer & self.size.val()) == 0;
        self.full.next = (self.used.q.val() & self.size.val()) != 0;

        // a completion
        self.c.next = self.merge.out.data.val();
        self.c_cqn.next = self.c.val().cqn;
        self.unknown.next = bit_cast::<24, 16>(self.c_cqn.val()) >= self.queues.val();
        self.merge.out.ready.next = false;
        self.wanted.next = self.c.val().solicited | (self.c.val().status != 0);
        self.first.next = (bit_cast::<32, 8>(self.c.val().status) << 24)
            | (bit_cast::<32, 8>(self.c.val().opcode) << 16)
            | bit_cast::<32, 16>(self.c.val().wqe);
        self.third.next = bit_cast::<32, 16>(self.c.val().qpn);
        if self.c.val().invalidated {
            self.third.next = self.third.val() | 0x1_0000_u64;
        }
        if self.c.val().solicited {
            self.third.next = self.third.val() | 0x2_0000_u64;
        }
        self.cnt_completions.next = false;
        self.cnt_completions_lost.next = false;

        // a doorbell
        self.doorbell_ok.next = self.row.val().live & (self.ahead.q.val() <= self.used.q.val());
        self.open_solicited.next =
            self.row.val().some_solicited & (self.to_solicited.q.val() != 0) & (self.to_solicited.q.val() <= self.left.q.val());
        self.wake.next = ((self.row.val().armed_next | self.want_next.q.val()) & (self.left.q.val() != 0))
            | ((self.row.val().armed_solicited | self.want_solicited.q.val()) & self.open_solicited.val());

        // a command
        self.command.next = self.cmd.data.val();
        self.opcode.next = self.command.val().opcode;
        self.destroy.next = self.opcode.val().get_bit(0);
        self.qpn24.next = self.command.val().qpn;
        self.data_addr.next = self.command.val().data_addr;
        self.entries.next = self.command.val().backlog_half_open;
        self.bad.next = (self.qpn24.val() >= self.queues.val()) | (self.command.val().flags != 0);
        if !self.destroy.val() & ((self.data_addr.val().get_bits::<6>(0) != 0) | (self.entries.val().get_bits::<12>(4) != 0)) {
            self.bad.next = true;
        }

        // the write under way
        self.req.valid.next = self.writing.q.val() == CqWrite::Request;
        self.req.data.next.addr = self.address.q.val();
        self.req.data.next.len = self.octets.val();
        self.beat.valid.next = self.writing.q.val() == CqWrite::Beats;
        self.beat.data.next.data = self.word0.q.val();
        self.beat.data.next.last = false;
        self.beat.data.next.error = false;
        if self.count.q.val() == 1 {
            self.beat.data.next.data = self.word1.q.val();
        } else if self.count.q.val() == 2 {
            self.beat.data.next.data = 0.into();
        } else if self.count.q.val() == 3 {
            self.beat.data.next.data = self.word3.q.val();
            self.beat.data.next.last = true;
        }
        if self.writing.q.val() == CqWrite::Request {
            self.count.d.next = 0.into();
            if self.req.ready.val() {
                self.writing.d.next = CqWrite::Beats;
            }
        } else if (self.writing.q.val() == CqWrite::Beats) & self.beat.ready.val() {
            self.count.d.next = self.count.q.val() + 1;
            if self.count.q.val() == 3 {
                self.writing.d.next = CqWrite::Off;
            }
        }

        // what is to be said when its turn has come
        self.mark.next.note = CqNote::Reply;
        self.mark.next.cqn = bit_cast::<16, Q>(self.number.q.val());
        self.marks.inp.valid.next = false;
        self.ends.inp.valid.next = self.done.valid.val();
        self.ends.inp.data.next = self.done.error.val();
        self.head.next = self.marks.out.data.val();
        self.head_number.next = bit_cast::<Q, 16>(self.head.val().cqn);
        self.of_write.next = (self.head.val().note == CqNote::Write) | (self.head.val().note == CqNote::WriteWake);
        self.moves.next = self.marks.out.valid.val() & (!self.of_write.val() | self.ends.out.valid.val());
        self.marks.out.ready.next = self.moves.val();
        self.ends.out.ready.next = self.moves.val() & self.of_write.val();
        self.said.next = self.head.val();
        if self.of_write.val() & self.ends.out.data.val() {
            self.said.next.note = CqNote::Lost;
        } else if self.head.val().note == CqNote::WriteWake {
            self.said.next.note = CqNote::Wake;
        }
        self.speaks.next = self.moves.val();
        self.waking_now.next = self.waking.q.val();
        self.broken_now.next = self.broken.q.val();
        if self.said.val().note == CqNote::Wake {
            if self.waking.q.val().get_bit(self.head_number.val().index()) {
                self.speaks.next = false;
            }
            if self.moves.val() {
                self.waking_now.next = self.waking_now.val().replace_bit(self.head_number.val().index(), true);
            }
        } else if self.said.val().note == CqNote::Lost {
            if self.broken.q.val().get_bit(self.head_number.val().index()) {
                self.speaks.next = false;
            }
            if self.moves.val() {
                self.broken_now.next = self.broken_now.val().replace_bit(self.head_number.val().index(), true);
            }
        } else if self.said.val().note == CqNote::Write {
            self.speaks.next = false;
        }
        self.events.inp.valid.next = self.speaks.val();
        self.events.inp.data.next = self.said.val();

        // events
        self.spoken.next = self.events.out.data.val();
        self.event_number.next = bit_cast::<Q, 16>(self.spoken.val().cqn);
        self.evt.valid.next = self.events.out.valid.val();
        self.events.out.ready.next = self.evt.ready.val();
        self.taken.next = self.events.out.valid.val() & self.evt.ready.val();
        self.is_reply.next = self.spoken.val().note == CqNote::Reply;
        self.reply.kind.next = self.kind_completion.val();
        self.reply.status.next = 0.into();
        self.reply.echo.next = 0.into();
        self.reply.detail.next = bit_cast::<32, 16>(self.spoken.val().cqn);
        if self.is_reply.val() {
            self.reply.kind.next = self.kind_cmd_reply.val();
            self.reply.status.next = self.status.q.val();
            self.reply.echo.next = self.command.val().context;
            self.reply.detail.next = 0.into();
        } else if self.spoken.val().note == CqNote::Lost {
            self.reply.kind.next = self.kind_async.val();
            self.reply.detail.next = self.cq_error.val() | bit_cast::<32, 16>(self.spoken.val().cqn);
        }
        self.evt.data.next = self.reply.out.val();
        self.ok.next = self.status.q.val() == 0;
        self.cmd.ready.next = self.taken.val() & self.is_reply.val();
        self.cnt_cmd_done.next = self.taken.val() & self.is_reply.val() & self.ok.val();
        self.cnt_cmd_errors.next = self.taken.val() & self.is_reply.val() & !self.ok.val();
        if self.taken.val() {
            if self.is_reply.val() {
                self.replying.d.next = false;
            } else if self.spoken.val().note == CqNote::Wake {
                self.waking_now.next = self.waking_now.val().replace_bit(self.event_number.val().index(), false);
            }
        }

        match self.state.q.val() {
            CqState::Clear => {
                self.rows.clear.next = true;
                if self.rows.row_cleared.val() {
                    self.sweep.d.next = self.sweep.q.val() + 1;
                    if self.sweep.q.val().all() {
                        self.state.d.next = CqState::Idle;
                    }
                }
            }
            CqState::Idle => {
                // each job has at most one thing to say
                self.begun.d.next = true;
                if self.marks.inp.ready.val() {
                    if self.bells.out.valid.val() {
                        self.bells.out.ready.next = true;
                        self.number.d.next = self.bells.out.data.val();
                        self.job.d.next = CqJob::Doorbell;
                        self.state.d.next = CqState::Open;
                    } else if self.cmd.valid.val() & !self.replying.q.val() {
                        self.number.d.next = bit_cast::<Q, 24>(self.qpn24.val());
                        self.job.d.next = CqJob::Command;
                        self.state.d.next = CqState::Open;
                    } else if self.merge.out.valid.val() {
                        self.number.d.next = bit_cast::<Q, 16>(self.c_cqn.val());
                        self.job.d.next = CqJob::Completion;
                        self.state.d.next = CqState::Open;
                    }
                }
            }
            CqState::Open => {
                self.rows.open.next = true;
                self.begun.d.next = false;
                if self.rows.there.val() {
                    self.state.d.next = CqState::Measure;
                }
            }
            CqState::Measure => {
                self.state.d.next = CqState::Act;
            }
            CqState::Act => {
                self.state.d.next = CqState::Idle;
                if self.job.q.val() == CqJob::Doorbell {
                    if self.doorbell_ok.val() {
                        self.n.next.consumer = self.row.val().producer - self.left.q.val();
                        self.n.next.some_solicited = self.open_solicited.val();
                        self.n.next.armed_next = self.row.val().armed_next | self.want_next.q.val();
                        self.n.next.armed_solicited = self.row.val().armed_solicited | self.want_solicited.q.val();
                        if self.wake.val() {
                            self.n.next.armed_next = false;
                            self.n.next.armed_solicited = false;
                            self.mark.next.note = CqNote::Wake;
                            self.marks.inp.valid.next = true;
                        }
                        self.rows.set.next = true;
                    } else {
                        self.errors.inp[1].next = true;
                    }
                } else if self.job.q.val() == CqJob::Command {
                    self.marks.inp.valid.next = true;
                    self.replying.d.next = true;
                    self.status.d.next = 0.into();
                    if self.bad.val() {
                        self.status.d.next = self.invalid.val();
                    } else if self.destroy.val() {
                        if self.row.val().live {
                            self.rows.erase.next = true;
                        } else {
                            self.status.d.next = self.no_entry.val();
                        }
                    } else if self.row.val().live {
                        self.status.d.next = self.exists.val();
                    } else {
                        self.n.next.live = true;
                        self.n.next.log2 = self.entries.val().get_bits::<4>(0);
                        self.n.next.base = self.data_addr.val().get_bits::<58>(6);
                        self.rows.set.next = true;
                        self.broken_now.next = self.broken_now.val().replace_bit(self.number.q.val().index(), false);
                    }
                } else if self.unknown.val() | !self.row.val().live | self.row.val().lost {
                    self.merge.out.ready.next = true;
                    self.cnt_completions_lost.next = true;
                } else if self.full.val() {
                    self.merge.out.ready.next = true;
                    self.cnt_completions_lost.next = true;
                    self.n.next.lost = true;
                    self.rows.set.next = true;
                    self.mark.next.note = CqNote::Lost;
                    self.marks.inp.valid.next = true;
                } else if self.writing.q.val() == CqWrite::Off {
                    self.merge.out.ready.next = true;
                    self.cnt_completions.next = true;
                    self.writing.d.next = CqWrite::Request;
                    self.address.d.next = (bit_cast::<64, 58>(self.row.val().base) << 6) + (bit_cast::<64, 16>(self.slot.q.val()) << 5);
                    self.word0.d.next = (bit_cast::<64, 32>(self.c.val().len) << 32) | bit_cast::<64, 32>(self.first.val());
                    self.word1.d.next = (bit_cast::<64, 32>(self.c.val().stag) << 32) | bit_cast::<64, 32>(self.third.val());
                    self.word3.d.next = 0.into();
                    if self.phase.q.val() {
                        self.word3.d.next = 0x1_0000_0000_u64.into();
                    }
                    self.n.next.producer = self.row.val().producer + 1;
                    if self.wanted.val() {
                        self.n.next.some_solicited = true;
                        self.n.next.solicited = self.row.val().producer + 1;
                    }
                    self.mark.next.note = CqNote::Write;
                    if self.row.val().armed_next | (self.row.val().armed_solicited & self.wanted.val()) {
                        self.mark.next.note = CqNote::WriteWake;
                        self.n.next.armed_next = false;
                        self.n.next.armed_solicited = false;
                    }
                    self.rows.set.next = true;
                    self.marks.inp.valid.next = true;
                } else {
                    self.state.d.next = CqState::Act;
                }
            }
            _ => {
                self.state.d.next = CqState::Idle;
            }
        }
        self.rows.value.next = self.n.val();
        self.marks.inp.data.next = self.mark.val();
        self.waking.d.next = self.waking_now.val();
        self.broken.d.next = self.broken_now.val();
        if self.reset.val() {
            self.state.d.next = CqState::Clear;
            self.sweep.d.next = 0.into();
            self.rung.d.next = false;
            self.arm_solicited.d.next = 0.into();
            self.arm_next.d.next = 0.into();
            self.replying.d.next = false;
            self.writing.d.next = CqWrite::Off;
            self.waking.d.next = 0.into();
            self.broken.d.next = 0.into();
        }
    }
}
