// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions: what may be touched in host memory, by whom, and where it stands.
//!
//! **Interface.** Askers 0 `rdma::rx`, 1 `mpa::tx`, 2 `rdma::sq`: each asks on `ask[i]` and hears on `answer[i]`, one question at a time. `cmd` offers REGISTER_MR and DEREGISTER_MR
//! (bit 0 of the opcode tells which) and keeps the command until it is taken together with its CMD_REPLY on `evt`. Nothing but later commands waits for the host to make
//! room for that (CM-44).
//!
//! **Questions.** A check fails by the first of: index, key or state wrong (`Invalid`); other protection domain, or bound to another queue pair (`Association`); a right
//! is missing (`Right`); `to` + `len` passes 2^64 (`Wrap`); not inside base..=last (`Bounds`). `Invalidate`, of asker 0 alone: `Invalid` and `Association` as above, `Right` if the
//! region is bound to no queue pair or may not be invalidated from afar.
//!
//! **Entries.** The low M bits of the index of an STag choose the entry, all 32 bits are compared. Index 0 is never given out (DDP-11). An entry is free, valid, or invalidated by
//! the peer; the last is left for the host to deregister, so that its number is not used anew before the host knows. A command is checked as a whole before anything changes.
//!
//! **Revoking** (DDP-12). The end of a region is told, to the host by CMD_REPLY or to asker 0 by the answer to `Invalidate`, when all that was allowed before has ended. The
//! entry is written first, in a clock in which no question reads it. Then each asker must be seen with no answer underway and with `quiet[i]` high: in this clock it has no DMA under way that
//! an answer allowed; low from the clock after it has taken such an answer. Until it was seen so, it gets no further answer, so an asker that always asks for the next piece in
//! time comes to an end as well. An asker must therefore end the DMA that it has begun without another answer. Asker 0, while its
//! `Invalidate` is under way, must be quiet of all before.
//!
//! **Bounds.** An answer is taken by its asker in a time that does not depend on another asker, on the host making room for events, or on a further question. Askers do not wait for each other's takers. `Invalidate` waits for at
//! most one command, a command for as many `Invalidate`s as there are connections (one that fails ends its connection).
//!
//! **States.** See [`RegionsState`]: one job at a time, beside the checks; they go through a pipeline, of which a job uses one place to look at its entry.
//!
//! **Timing.** A question is taken in its first clock if another asker is not before it (the lower number goes first; nobody waits for more than two), except in the clock before an entry is written. From there to its
//! answer 5 clocks, a question of one asker each 6 clocks, one of all askers together each clock. `Invalidate`, REGISTER_MR and DEREGISTER_MR 11 clocks if all are quiet. `ready` 2^M clocks after `reset`; then the table is empty.
//!
//! **Memory.** 2^M entries of 264 bits: 8 DP16KD up to M = 9. Size with them: 1397 LUT4.
use super::plain_event::PlainEvent;
use super::types::*;
use crate::cm::messages::{errno, kind, CommandIn, EventOut};
use crate::stream::{BlockRam, ChanSink, ChanSrc};
use ironwarp_abi::{work::access, EventKind, Status};
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum RegionsState {
    /// After reset: entries are cleared.
    Clear,
    /// No job.
    Idle,
    /// REGISTER_MR: ends of the region, overflows.
    Sum,
    /// Offer the question for the entry to the pipeline.
    Ask,
    /// Wait for it to come through, decide.
    Wait,
    /// No question is taken, so that none reads in the next clock.
    Hold,
    /// The entry is written.
    Write,
    /// Each asker is to be seen quiet.
    Quiet,
}

/// Word of the table.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RegionEntry {
    /// The host has it registered.
    pub live: Bit,
    /// It may be used: live, and not invalidated by the peer.
    pub valid: Bit,
    pub bound: Bit,
    pub rights: Bits<4>,
    pub stag: Bits<32>,
    pub pd: Bits<16>,
    pub qpn: Bits<16>,
    /// First and last TO.
    pub base: Bits<64>,
    pub last: Bits<64>,
    /// From TO to IOVA, modulo 2^64.
    pub offset: Bits<64>,
}

/// A question that was compared with its entry.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RegionVerdict {
    pub live: Bit,
    pub valid: Bit,
    pub same: Bit,
    pub associated: Bit,
    pub right: Bit,
    pub wrap: Bit,
    pub below: Bit,
    pub above: Bit,
    /// It may be invalidated from afar.
    pub invalidatable: Bit,
    pub addr: Bits<64>,
}

/// `M`: log2 of the entries.
#[derive(LogicBlock)]
pub struct Regions<const M: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub ask: [ChanSink<RegionAsk>; 3],
    pub answer: [ChanSrc<RegionAnswer>; 3],
    pub quiet: [Signal<In, Bit>; 3],
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    entries: BlockRam<RegionEntry, M>,
    // askers
    /// A question was taken, its answer was not.
    busy: [DFF<Bit>; 3],
    answered: [DFF<Bit>; 3],
    answers: [DFF<RegionAnswer>; 3],
    seen: [DFF<Bit>; 3],
    // pipeline: 0 reads the entry, 1 has it at the RAM's output, 2 in registers, 3 is compared
    s0: DFF<RegionAsk>,
    s1: DFF<RegionAsk>,
    s2: DFF<RegionAsk>,
    s2_entry: DFF<RegionEntry>,
    s2_end: DFF<Bits<65>>,
    s3: DFF<RegionVerdict>,
    /// Whose question it is; `nobody`, or 3 for the job.
    who: [DFF<Bits<3>>; 4],
    // job
    state: DFF<RegionsState>,
    sweep: DFF<Bits<M>>,
    /// `Invalidate`; else the command.
    invalidating: DFF<Bit>,
    stag: DFF<Bits<32>>,
    pd: DFF<Bits<16>>,
    qpn: DFF<Bits<16>>,
    summed: DFF<Bit>,
    less: DFF<Bits<48>>,
    last: DFF<Bits<65>>,
    iova_last: DFF<Bits<65>>,
    offset: DFF<Bits<64>>,
    bad: DFF<Bit>,
    /// A CMD_REPLY is on offer.
    owed: DFF<Bit>,
    status: DFF<Bits<32>>,
    reply: PlainEvent,
    // combinational
    give: [Signal<Local, Bit>; 3],
    passed: [Signal<Local, Bit>; 3],
    still: [Signal<Local, Bit>; 3],
    invalidate: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    open: Signal<Local, Bit>,
    revoking: Signal<Local, Bit>,
    none: Signal<Local, Bit>,
    picked: Signal<Local, RegionAsk>,
    picked_who: Signal<Local, Bits<3>>,
    asked: Signal<Local, RegionAsk>,
    own: Signal<Local, RegionAsk>,
    stag0: Signal<Local, Bits<32>>,
    less_len: Signal<Local, Bits<32>>,
    in1: Signal<Local, RegionAsk>,
    in2: Signal<Local, RegionAsk>,
    entry: Signal<Local, RegionEntry>,
    entry2: Signal<Local, RegionEntry>,
    reach: Signal<Local, Bits<65>>,
    end_low: Signal<Local, Bits<64>>,
    missing: Signal<Local, Bits<4>>,
    verdict: Signal<Local, RegionVerdict>,
    judged: Signal<Local, RegionVerdict>,
    result: Signal<Local, RegionAnswer>,
    good: Signal<Local, RegionAnswer>,
    hit: Signal<Local, Bit>,
    mine: Signal<Local, Bit>,
    command: Signal<Local, CommandIn>,
    opcode: Signal<Local, Bits<8>>,
    deregister: Signal<Local, Bit>,
    length: Signal<Local, Bits<48>>,
    base: Signal<Local, Bits<64>>,
    flags: Signal<Local, Bits<8>>,
    qpn24: Signal<Local, Bits<24>>,
    all_quiet: Signal<Local, Bit>,
    ok: Signal<Local, Bit>,
    new_entry: Signal<Local, RegionEntry>,
    job_stag: Signal<Local, Bits<32>>,
    number: [Constant<Bits<3>>; 3],
    job: Constant<Bits<3>>,
    nobody: Constant<Bits<3>>,
    cmd_reply: Constant<Bits<8>>,
    remote_invalidate: Constant<Bits<4>>,
    invalid: Constant<Bits<32>>,
    exists: Constant<Bits<32>>,
    no_entry: Constant<Bits<32>>,
}

impl<const M: usize> Default for Regions<M> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            ask: Default::default(),
            answer: Default::default(),
            quiet: Default::default(),
            cmd: Default::default(),
            evt: Default::default(),
            cnt_cmd_done: Default::default(),
            cnt_cmd_errors: Default::default(),
            entries: Default::default(),
            busy: Default::default(),
            answered: Default::default(),
            answers: Default::default(),
            seen: Default::default(),
            s0: Default::default(),
            s1: Default::default(),
            s2: Default::default(),
            s2_entry: Default::default(),
            s2_end: Default::default(),
            s3: Default::default(),
            who: Default::default(),
            state: Default::default(),
            sweep: Default::default(),
            invalidating: Default::default(),
            stag: Default::default(),
            pd: Default::default(),
            qpn: Default::default(),
            summed: Default::default(),
            less: Default::default(),
            last: Default::default(),
            iova_last: Default::default(),
            offset: Default::default(),
            bad: Default::default(),
            owed: Default::default(),
            status: Default::default(),
            reply: Default::default(),
            give: Default::default(),
            passed: Default::default(),
            still: Default::default(),
            invalidate: Default::default(),
            taken: Default::default(),
            open: Default::default(),
            revoking: Default::default(),
            none: Default::default(),
            picked: Default::default(),
            picked_who: Default::default(),
            asked: Default::default(),
            own: Default::default(),
            stag0: Default::default(),
            less_len: Default::default(),
            in1: Default::default(),
            in2: Default::default(),
            entry: Default::default(),
            entry2: Default::default(),
            reach: Default::default(),
            end_low: Default::default(),
            missing: Default::default(),
            verdict: Default::default(),
            judged: Default::default(),
            result: Default::default(),
            good: Default::default(),
            hit: Default::default(),
            mine: Default::default(),
            command: Default::default(),
            opcode: Default::default(),
            deregister: Default::default(),
            length: Default::default(),
            base: Default::default(),
            flags: Default::default(),
            qpn24: Default::default(),
            all_quiet: Default::default(),
            ok: Default::default(),
            new_entry: Default::default(),
            job_stag: Default::default(),
            number: std::array::from_fn(|i| Constant::new((i as u64).to_bits())),
            job: Constant::new(3u64.to_bits()),
            nobody: Constant::new(7u64.to_bits()),
            cmd_reply: kind(EventKind::CmdReply),
            remote_invalidate: Constant::new(u64::from(access::REMOTE_INVALIDATE).to_bits()),
            invalid: errno(Status::Invalid),
            exists: errno(Status::Exists),
            no_entry: errno(Status::NoEntry),
        }
    }
}

impl<const M: usize> Logic for Regions<M> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, s0, s1, s2, s2_entry, s2_end, s3, state, sweep, invalidating, stag, pd, qpn);
        dff_setup!(self, clock, summed, less, last, iova_last, offset, bad, owed, status);
        self.entries.read_clock.next = self.clock.val();
        self.entries.write_clock.next = self.clock.val();
        for i in 0..3 {
            self.busy[i].clock.next = self.clock.val();
            self.busy[i].d.next = self.busy[i].q.val();
            self.answered[i].clock.next = self.clock.val();
            self.answered[i].d.next = self.answered[i].q.val();
            self.answers[i].clock.next = self.clock.val();
            self.answers[i].d.next = self.answers[i].q.val();
            self.seen[i].clock.next = self.clock.val();
            self.seen[i].d.next = false;
        }
        for i in 0..4 {
            self.who[i].clock.next = self.clock.val();
        }
        self.ready.next = self.state.q.val() != RegionsState::Clear;
        self.revoking.next = (self.state.q.val() == RegionsState::Write) | (self.state.q.val() == RegionsState::Quiet);
        self.open.next = (self.state.q.val() != RegionsState::Clear) & (self.state.q.val() != RegionsState::Hold);

        // one question a clock into the pipeline
        self.asked.next = self.ask[0].data.val();
        self.invalidate.next = self.ask[0].valid.val() & (self.asked.val().op == RegionOp::Invalidate);
        self.none.next = true;
        self.own.next.op = RegionOp::Check;
        self.own.next.stag = self.stag.q.val();
        self.own.next.to = 0.into();
        self.own.next.len = 0.into();
        self.own.next.pd = self.pd.q.val();
        self.own.next.qpn = self.qpn.q.val();
        self.own.next.need = 0.into();
        self.picked.next = self.own.val();
        self.picked_who.next = self.nobody.val();
        if (self.state.q.val() == RegionsState::Ask) & !self.bad.q.val() {
            self.picked_who.next = self.job.val();
        }
        for i in 0..3 {
            self.passed[i].next = !self.revoking.val() | self.seen[i].q.val();
            self.give[i].next = self.ask[i].valid.val() & !self.busy[i].q.val() & self.passed[i].val() & self.open.val() & self.none.val();
            if self.invalidate.val() {
                self.give[0].next = false;
            }
            self.ask[i].ready.next = self.give[i].val();
            if self.give[i].val() {
                self.none.next = false;
                self.picked.next = self.ask[i].data.val();
                self.picked_who.next = self.number[i].val();
                self.busy[i].d.next = true;
            }
        }
        self.s0.d.next = self.picked.val();
        self.who[0].d.next = self.picked_who.val();
        self.stag0.next = self.s0.q.val().stag;
        self.entries.read_address.next = self.stag0.val().get_bits::<M>(8);
        self.less_len.next = self.s0.q.val().len - 1;
        self.s1.d.next = self.s0.q.val();
        self.s1.d.next.len = self.less_len.val();
        self.who[1].d.next = self.who[0].q.val();

        self.in1.next = self.s1.q.val();
        self.entry.next = self.entries.read_data.val();
        self.reach.next = bit_cast::<65, 64>(self.in1.val().to) + bit_cast::<65, 32>(self.in1.val().len);
        self.s2.d.next = self.in1.val();
        self.s2_entry.d.next = self.entry.val();
        self.s2_end.d.next = self.reach.val();
        self.who[2].d.next = self.who[1].q.val();

        self.in2.next = self.s2.q.val();
        self.entry2.next = self.s2_entry.q.val();
        self.end_low.next = self.s2_end.q.val().get_bits::<64>(0);
        self.missing.next = self.in2.val().need & !self.entry2.val().rights;
        self.verdict.next.live = self.entry2.val().live;
        self.verdict.next.valid = self.entry2.val().valid;
        self.verdict.next.same = self.entry2.val().stag == self.in2.val().stag;
        self.verdict.next.associated =
            (self.entry2.val().pd == self.in2.val().pd) & (!self.entry2.val().bound | (self.entry2.val().qpn == self.in2.val().qpn));
        self.verdict.next.right = !self.missing.val().any();
        self.verdict.next.wrap = self.s2_end.q.val().get_bit(64);
        self.verdict.next.below = self.in2.val().to < self.entry2.val().base;
        self.verdict.next.above = self.end_low.val() > self.entry2.val().last;
        self.verdict.next.invalidatable = self.entry2.val().bound & ((self.entry2.val().rights & self.remote_invalidate.val()) != 0);
        self.verdict.next.addr = self.in2.val().to + self.entry2.val().offset;
        self.s3.d.next = self.verdict.val();
        self.who[3].d.next = self.who[2].q.val();

        self.judged.next = self.s3.q.val();
        self.hit.next = self.judged.val().valid & self.judged.val().same;
        self.result.next.addr = self.judged.val().addr;
        self.result.next.status = RegionStatus::Ok;
        if !self.hit.val() {
            self.result.next.status = RegionStatus::Invalid;
        } else if !self.judged.val().associated {
            self.result.next.status = RegionStatus::Association;
        } else if !self.judged.val().right {
            self.result.next.status = RegionStatus::Right;
        } else if self.judged.val().wrap {
            self.result.next.status = RegionStatus::Wrap;
        } else if self.judged.val().below | self.judged.val().above {
            self.result.next.status = RegionStatus::Bounds;
        }
        self.mine.next = self.who[3].q.val() == self.job.val();
        for i in 0..3 {
            if self.answered[i].q.val() & self.answer[i].ready.val() {
                self.answered[i].d.next = false;
                self.busy[i].d.next = false;
            }
            if self.who[3].q.val() == self.number[i].val() {
                self.answered[i].d.next = true;
                self.answers[i].d.next = self.result.val();
            }
            self.answer[i].valid.next = self.answered[i].q.val();
            self.answer[i].data.next = self.answers[i].q.val();
        }
        self.good.next.status = RegionStatus::Ok;
        self.good.next.addr = 0.into();

        // the command
        self.command.next = self.cmd.data.val();
        self.job_stag.next = self.command.val().local_addr;
        self.opcode.next = self.command.val().opcode;
        self.deregister.next = self.opcode.val().get_bit(0);
        self.flags.next = self.command.val().flags;
        self.qpn24.next = self.command.val().qpn;
        self.length.next = (bit_cast::<48, 16>(self.command.val().data_len) << 32) | bit_cast::<48, 32>(self.command.val().timeout_us);
        self.base.next = (bit_cast::<64, 32>(self.command.val().gateway) << 32) | bit_cast::<64, 32>(self.command.val().remote_addr);
        self.less.d.next = self.length.val() - 1;
        self.last.d.next = bit_cast::<65, 64>(self.base.val()) + bit_cast::<65, 48>(self.less.q.val());
        self.iova_last.d.next = bit_cast::<65, 64>(self.command.val().data_addr) + bit_cast::<65, 48>(self.less.q.val());
        self.offset.d.next = self.command.val().data_addr - self.base.val();
        self.taken.next = self.owed.q.val() & self.evt.ready.val();
        self.ok.next = self.status.q.val() == 0;
        self.cmd.ready.next = self.taken.val();
        self.evt.valid.next = self.owed.q.val();
        self.reply.kind.next = self.cmd_reply.val();
        self.reply.status.next = self.status.q.val();
        self.reply.echo.next = self.command.val().context;
        self.reply.detail.next = 0.into();
        self.evt.data.next = self.reply.out.val();
        self.cnt_cmd_done.next = self.taken.val() & self.ok.val();
        self.cnt_cmd_errors.next = self.taken.val() & !self.ok.val();
        if self.taken.val() {
            self.owed.d.next = false;
        }

        self.new_entry.next.live = self.state.q.val() == RegionsState::Write;
        self.new_entry.next.valid = self.state.q.val() == RegionsState::Write;
        self.new_entry.next.bound = self.flags.val().get_bit(4);
        self.new_entry.next.rights = self.flags.val().get_bits::<4>(0);
        self.new_entry.next.stag = self.stag.q.val();
        self.new_entry.next.pd = self.command.val().local_port;
        self.new_entry.next.qpn = self.qpn24.val().get_bits::<16>(0);
        self.new_entry.next.base = self.base.val();
        self.new_entry.next.last = self.last.q.val().get_bits::<64>(0);
        self.new_entry.next.offset = self.offset.q.val();
        if self.invalidating.q.val() {
            self.new_entry.next.valid = false;
        } else if self.deregister.val() {
            self.new_entry.next.valid = false;
            self.new_entry.next.live = false;
        }
        self.entries.write_data.next = self.new_entry.val();
        self.entries.write_address.next = self.stag.q.val().get_bits::<M>(8);
        self.entries.write_enable.next = false;

        for i in 0..3 {
            self.still[i].next = self.quiet[i].val() & !self.busy[i].q.val();
        }
        if self.invalidating.q.val() {
            self.still[0].next = self.quiet[0].val();
        }
        self.all_quiet.next = self.seen[0].q.val() & self.seen[1].q.val() & self.seen[2].q.val();

        match self.state.q.val() {
            RegionsState::Clear => {
                self.entries.write_enable.next = true;
                self.entries.write_address.next = self.sweep.q.val();
                self.sweep.d.next = self.sweep.q.val() + 1;
                if self.sweep.q.val().all() {
                    self.state.d.next = RegionsState::Idle;
                }
            }
            RegionsState::Idle => {
                self.summed.d.next = false;
                self.stag.d.next = self.job_stag.val();
                self.invalidating.d.next = false;
                if self.invalidate.val() & !self.busy[0].q.val() {
                    self.ask[0].ready.next = true;
                    self.busy[0].d.next = true;
                    self.invalidating.d.next = true;
                    self.stag.d.next = self.asked.val().stag;
                    self.pd.d.next = self.asked.val().pd;
                    self.qpn.d.next = self.asked.val().qpn;
                    self.bad.d.next = false;
                    self.state.d.next = RegionsState::Ask;
                } else if self.cmd.valid.val() & !self.owed.q.val() {
                    self.bad.d.next = (self.flags.val().get_bits::<3>(5) != 0)
                        | (self.job_stag.val().get_bits::<24>(8) == 0)
                        | (self.length.val() == 0)
                        | (self.flags.val().get_bit(4) & (self.qpn24.val().get_bits::<8>(16) != 0));
                    self.state.d.next = RegionsState::Sum;
                    if self.deregister.val() {
                        self.bad.d.next = self.flags.val() != 0;
                        self.state.d.next = RegionsState::Ask;
                    }
                }
            }
            RegionsState::Sum => {
                // `less` is there in the first clock, what is made of it in the second
                self.summed.d.next = true;
                if self.summed.q.val() {
                    self.bad.d.next = self.bad.q.val() | self.last.q.val().get_bit(64) | self.iova_last.q.val().get_bit(64);
                    self.state.d.next = RegionsState::Ask;
                }
            }
            RegionsState::Ask => {
                if self.bad.q.val() {
                    self.owed.d.next = true;
                    self.status.d.next = self.invalid.val();
                    self.state.d.next = RegionsState::Idle;
                } else if self.none.val() {
                    self.state.d.next = RegionsState::Wait;
                }
            }
            RegionsState::Wait => {
                if self.mine.val() {
                    self.state.d.next = RegionsState::Hold;
                    if self.invalidating.q.val() {
                        if !self.hit.val() | !self.judged.val().associated | !self.judged.val().invalidatable {
                            self.answered[0].d.next = true;
                            self.answers[0].d.next = self.result.val();
                            if self.hit.val() & self.judged.val().associated {
                                self.answers[0].d.next.status = RegionStatus::Right;
                            }
                            self.state.d.next = RegionsState::Idle;
                        }
                    } else if self.deregister.val() {
                        if !self.judged.val().live | !self.judged.val().same {
                            self.owed.d.next = true;
                            self.status.d.next = self.no_entry.val();
                            self.state.d.next = RegionsState::Idle;
                        }
                    } else if self.judged.val().live {
                        self.owed.d.next = true;
                        self.status.d.next = self.exists.val();
                        self.state.d.next = RegionsState::Idle;
                    }
                }
            }
            RegionsState::Hold => {
                self.state.d.next = RegionsState::Write;
            }
            RegionsState::Write => {
                self.entries.write_enable.next = true;
                self.state.d.next = RegionsState::Quiet;
                if !self.invalidating.q.val() & !self.deregister.val() {
                    self.owed.d.next = true;
                    self.status.d.next = 0.into();
                    self.state.d.next = RegionsState::Idle;
                }
            }
            RegionsState::Quiet => {
                for i in 0..3 {
                    self.seen[i].d.next = self.seen[i].q.val() | self.still[i].val();
                }
                if self.all_quiet.val() {
                    self.state.d.next = RegionsState::Idle;
                    if self.invalidating.q.val() {
                        self.answered[0].d.next = true;
                        self.answers[0].d.next = self.good.val();
                    } else {
                        self.owed.d.next = true;
                        self.status.d.next = 0.into();
                    }
                }
            }
            _ => {
                self.state.d.next = RegionsState::Idle;
            }
        }
        if self.reset.val() {
            self.state.d.next = RegionsState::Clear;
            self.sweep.d.next = 0.into();
            self.owed.d.next = false;
            for i in 0..3 {
                self.busy[i].d.next = false;
                self.answered[i].d.next = false;
            }
            for i in 0..4 {
                self.who[i].d.next = self.nobody.val();
            }
        }
    }
}
