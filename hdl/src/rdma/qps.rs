// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs: what the driver made of them, which connection each belongs to, and their doorbells.
//!
//! **Interface.** `cmd`: CREATE_QP and DESTROY_QP (bit 0 of the opcode tells which), kept there until it is taken with its CMD_REPLY on `evt`. `sq_tail`, `rq_tail` with `tail_value`: strobes of the
//! doorbells SQ_TAIL and RQ_TAIL, at any time. `bind_in` from `cm::conn`, kept there until it is taken together with its answer on `bound`. `to_sq`, `to_rx`,
//! `to_mpa_rx`: the engines; `unbound_*`: their answers to `Unbind`, taken at once; what that of `mpa::rx` says of the stream is told with the answer. `sq_posted`, `rq_posted`: producer indices of bound queue pairs.
//!
//! **Rules.**
//! - `Bind`: the engines have taken it before the indices of both queues go out, and these before the answer. `Unbind`: nothing of the queue pair goes out any more; the answer is behind
//!   those of the three engines. Meanwhile everything but a further `bind_in` goes on.
//! - A queue pair belongs to one connection at most: `Bind` of another is refused, DESTROY_QP answered -EBUSY, until `Unbind` is answered.
//! - A doorbell of a queue pair that is not bound is kept for `Bind`. Doorbells of one queue that come faster than they go out are one: the last index counts. CREATE_QP makes
//!   both indices 0. Whether an index is further than the ring is long is for the engines, which know how far they are. Of a queue pair that does not live: ignored and counted; so is one that still waits when DESTROY_QP is carried out.
//!
//! **Stalls.** The engines take `Bind` and `Posted` in bounded time, whatever else waits. The manager takes its answer at once. A host without room for events holds up commands only.
//!
//! **States.** One engine, one job at a time ([`QpState`]): end of `Unbind`, `bind_in`, command, doorbell, in this order.
//!
//! **Timing.** Doorbell to `Posted` 6 clocks if the queue pair is that of the job before, else 10; one each 4 (8) clocks. `Bind` to its answer 7 (11) clocks if all is taken at once. `ready` 4 x 2^Q + 1 clocks after
//! `reset`. **Memory.** 2^Q x 220 bits in words of 55 (2 DP16KD), doorbells 2^(Q+1) x (16 + Q + 1) and as many flip-flops. Size with Q = 6: 1193 LUT4.
use super::doorbells::Doorbells;
use super::plain_event::PlainEvent;
use super::types::*;
use crate::cm::messages::{errno, kind, CommandIn, EventOut};
use crate::host::pulse_merge::PulseMerge;
use crate::stream::{ChanSink, ChanSrc, RowStore};
use ironwarp_abi::{EventKind, Status};
use rust_hdl::prelude::*;

/// What is known of a queue pair.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct QueuePair {
    pub live: Bit,
    /// It belongs to connection `index`.
    pub held: Bit,
    /// And its doorbells go there: not after `Unbind`.
    pub bound: Bit,
    pub index: Bits<16>,
    pub context: QpContext,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum QpState {
    /// After reset: all queue pairs are cleared.
    Clear,
    /// Choose the next job.
    Idle,
    /// Until the row is there.
    Open,
    /// Carry the job out.
    Act,
    /// CREATE_QP: the index of the send queue is made 0, then that of the receive queue.
    Forget,
    /// The engines take `Bind` or `Unbind`.
    Send,
    /// `Bind`: the index of a queue is read.
    Look,
    /// It is there.
    Seen,
    /// `Posted` is on offer.
    Tell,
    /// The answer to the manager is on offer.
    Answer,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum QpJob {
    Doorbell,
    Command,
    Bind,
    /// The engines have answered `Unbind`.
    Unbound,
}

/// `Q`: log2 of the queue pairs (`QP1` = Q + 1, `QP2` = Q + 2, `BELLS` = 2^QP1).
#[derive(LogicBlock)]
pub struct Qps<const Q: usize, const QP1: usize, const QP2: usize, const BELLS: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub sq_tail: Signal<In, Bit>,
    pub rq_tail: Signal<In, Bit>,
    pub tail_value: Signal<In, Bits<32>>,
    pub bind_in: ChanSink<QpBindIn>,
    pub bound: ChanSrc<QpBound>,
    pub to_sq: ChanSrc<Bind>,
    pub to_rx: ChanSrc<Bind>,
    pub to_mpa_rx: ChanSrc<Bind>,
    pub unbound_sq: ChanSink<Bits<16>>,
    pub unbound_rx: ChanSink<Bits<16>>,
    pub unbound_mpa_rx: ChanSink<MpaUnbound>,
    pub sq_posted: ChanSrc<Posted>,
    pub rq_posted: ChanSrc<Posted>,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    rows: RowStore<QueuePair, Q>,
    /// Numbers: QPN, with bit Q set for the receive queue.
    bells: Doorbells<QP1, QP2, BELLS>,
    reply: PlainEvent,
    errors: PulseMerge<2>,
    // doorbell as it came
    rung: DFF<Bit>,
    rung_receive: DFF<Bit>,
    word: DFF<Bits<32>>,
    // engine
    state: DFF<QpState>,
    job: DFF<QpJob>,
    number: DFF<Bits<Q>>,
    /// Receive queue, of doorbell, `Forget` and `Look`.
    receive: DFF<Bit>,
    sweep: DFF<Bits<Q>>,
    /// `Unbind` is with the engines; which of them have taken it, or `Bind`, and which have answered.
    unbinding: DFF<Bit>,
    sent: DFF<Bits<3>>,
    heard: DFF<Bits<3>>,
    refused: DFF<Bit>,
    torn: DFF<Bit>,
    posted: DFF<Bits<16>>,
    owed: DFF<Bit>,
    status: DFF<Bits<32>>,
    // combinational
    row: Signal<Local, QueuePair>,
    n: Signal<Local, QueuePair>,
    asked: Signal<Local, QpBindIn>,
    bind_qpn: Signal<Local, Bits<24>>,
    unbind: Signal<Local, Bit>,
    message: Signal<Local, Bind>,
    answer: Signal<Local, QpBound>,
    post: Signal<Local, Posted>,
    rung_qpn: Signal<Local, Bits<16>>,
    strange: Signal<Local, Bit>,
    rung_number: Signal<Local, Bits<QP1>>,
    look: Signal<Local, Bits<QP1>>,
    bell: Signal<Local, Bits<QP1>>,
    took: Signal<Local, Bits<3>>,
    told: Signal<Local, Bits<3>>,
    listened: Signal<Local, Bits<3>>,
    command: Signal<Local, CommandIn>,
    opcode: Signal<Local, Bits<8>>,
    destroy: Signal<Local, Bit>,
    flags: Signal<Local, Bits<8>>,
    qpn24: Signal<Local, Bits<24>>,
    sq_base: Signal<Local, Bits<64>>,
    rq_base: Signal<Local, Bits<64>>,
    sq_entries: Signal<Local, Bits<16>>,
    rq_entries: Signal<Local, Bits<16>>,
    made: Signal<Local, QpContext>,
    bad: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    ok: Signal<Local, Bit>,
    half: Constant<Bits<QP1>>,
    pairs: Constant<Bits<24>>,
    cmd_reply: Constant<Bits<8>>,
    invalid: Constant<Bits<32>>,
    exists: Constant<Bits<32>>,
    busy: Constant<Bits<32>>,
    no_entry: Constant<Bits<32>>,
}

impl<const Q: usize, const QP1: usize, const QP2: usize, const BELLS: usize> Default for Qps<Q, QP1, QP2, BELLS> {
    fn default() -> Self {
        assert_eq!((Q + 1, Q + 2, 2 << Q), (QP1, QP2, BELLS));
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            cmd: Default::default(),
            evt: Default::default(),
            sq_tail: Default::default(),
            rq_tail: Default::default(),
            tail_value: Default::default(),
            bind_in: Default::default(),
            bound: Default::default(),
            to_sq: Default::default(),
            to_rx: Default::default(),
            to_mpa_rx: Default::default(),
            unbound_sq: Default::default(),
            unbound_rx: Default::default(),
            unbound_mpa_rx: Default::default(),
            sq_posted: Default::default(),
            rq_posted: Default::default(),
            cnt_cmd_done: Default::default(),
            cnt_cmd_errors: Default::default(),
            cnt_doorbell_errors: Default::default(),
            rows: Default::default(),
            bells: Default::default(),
            reply: Default::default(),
            errors: Default::default(),
            rung: Default::default(),
            rung_receive: Default::default(),
            word: Default::default(),
            state: Default::default(),
            job: Default::default(),
            number: Default::default(),
            receive: Default::default(),
            sweep: Default::default(),
            unbinding: Default::default(),
            sent: Default::default(),
            heard: Default::default(),
            refused: Default::default(),
            torn: Default::default(),
            posted: Default::default(),
            owed: Default::default(),
            status: Default::default(),
            row: Default::default(),
            n: Default::default(),
            asked: Default::default(),
            bind_qpn: Default::default(),
            unbind: Default::default(),
            message: Default::default(),
            answer: Default::default(),
            post: Default::default(),
            rung_qpn: Default::default(),
            strange: Default::default(),
            rung_number: Default::default(),
            look: Default::default(),
            bell: Default::default(),
            took: Default::default(),
            told: Default::default(),
            listened: Default::default(),
            command: Default::default(),
            opcode: Default::default(),
            destroy: Default::default(),
            flags: Default::default(),
            qpn24: Default::default(),
            sq_base: Default::default(),
            rq_base: Default::default(),
            sq_entries: Default::default(),
            rq_entries: Default::default(),
            made: Default::default(),
            bad: Default::default(),
            taken: Default::default(),
            ok: Default::default(),
            half: Constant::new((1u64 << Q).to_bits()),
            pairs: Constant::new((1u64 << Q).to_bits()),
            cmd_reply: kind(EventKind::CmdReply),
            invalid: errno(Status::Invalid),
            exists: errno(Status::Exists),
            busy: errno(Status::Busy),
            no_entry: errno(Status::NoEntry),
        }
    }
}

impl<const Q: usize, const QP1: usize, const QP2: usize, const BELLS: usize> Logic for Qps<Q, QP1, QP2, BELLS> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, rung, rung_receive, word, state, job, number, receive, sweep, unbinding, sent, heard, refused, torn);
        dff_setup!(self, clock, posted, owed, status);
        clock!(self, clock, rows, bells, errors);
        self.rows.reset.next = self.reset.val();
        self.bells.reset.next = self.reset.val();
        self.errors.reset.next = self.reset.val();
        self.ready.next = self.state.q.val() != QpState::Clear;

        // doorbells
        self.rung.d.next = self.sq_tail.val() | self.rq_tail.val();
        self.rung_receive.d.next = self.rq_tail.val();
        self.word.d.next = self.tail_value.val();
        self.rung_qpn.next = self.word.q.val().get_bits::<16>(16);
        self.strange.next = bit_cast::<24, 16>(self.rung_qpn.val()) >= self.pairs.val();
        self.rung_number.next = bit_cast::<QP1, Q>(self.word.q.val().get_bits::<Q>(16));
        if self.rung_receive.q.val() {
            self.rung_number.next = self.rung_number.val() | self.half.val();
        }
        self.bells.ring.next = self.rung.q.val() & !self.strange.val();
        self.bells.number.next = self.rung_number.val();
        self.bells.value.next = self.word.q.val().get_bits::<16>(0);
        self.look.next = bit_cast::<QP1, Q>(self.number.q.val());
        if self.receive.q.val() {
            self.look.next = self.look.val() | self.half.val();
        }
        self.bells.look.next = self.look.val();
        self.bells.forget.next = false;
        self.bells.out.ready.next = false;
        self.bell.next = self.bells.out.data.val();
        self.errors.inp[0].next = self.rung.q.val() & self.strange.val();
        self.errors.inp[1].next = false;
        self.cnt_doorbell_errors.next = self.errors.out.val();

        // the job's queue pair
        self.rows.index.next = self.number.q.val();
        self.rows.open.next = false;
        self.rows.set.next = false;
        self.rows.erase.next = false;
        self.rows.clear.next = false;
        self.row.next = self.rows.row.val();
        self.n.next = self.row.val();

        // manager and engines
        self.asked.next = self.bind_in.data.val();
        self.bind_qpn.next = self.asked.val().qpn;
        self.unbind.next = self.asked.val().op == BindOp::Unbind;
        self.bind_in.ready.next = false;
        self.answer.next.index = self.asked.val().index;
        self.answer.next.refused = self.refused.q.val();
        self.answer.next.torn = self.torn.q.val();
        self.bound.data.next = self.answer.val();
        self.bound.valid.next = false;
        self.message.next.op = self.asked.val().op;
        self.message.next.index = self.asked.val().index;
        self.message.next.qp = self.row.val().context;
        self.message.next.crc = self.asked.val().crc;
        self.message.next.markers = self.asked.val().markers;
        self.message.next.responder = self.asked.val().responder;
        self.message.next.ird = self.asked.val().ird;
        self.message.next.ord = self.asked.val().ord;
        self.message.next.rtr_write = self.asked.val().rtr_write;
        self.message.next.rtr_read = self.asked.val().rtr_read;
        self.message.next.terminate = self.asked.val().terminate;
        self.to_sq.data.next = self.message.val();
        self.to_rx.data.next = self.message.val();
        self.to_mpa_rx.data.next = self.message.val();
        self.to_sq.valid.next = (self.state.q.val() == QpState::Send) & !self.sent.q.val().get_bit(0);
        self.to_rx.valid.next = (self.state.q.val() == QpState::Send) & !self.sent.q.val().get_bit(1);
        self.to_mpa_rx.valid.next = (self.state.q.val() == QpState::Send) & !self.sent.q.val().get_bit(2);
        self.took.next = 0.into();
        if self.to_sq.ready.val() {
            self.took.next = self.took.val() | 1;
        }
        if self.to_rx.ready.val() {
            self.took.next = self.took.val() | 2;
        }
        if self.to_mpa_rx.ready.val() {
            self.took.next = self.took.val() | 4;
        }
        self.told.next = self.sent.q.val() | self.took.val();
        self.unbound_sq.ready.next = true;
        self.unbound_rx.ready.next = true;
        self.unbound_mpa_rx.ready.next = true;
        self.listened.next = self.heard.q.val();
        if self.unbound_sq.valid.val() {
            self.listened.next = self.listened.val() | 1;
        }
        if self.unbound_rx.valid.val() {
            self.listened.next = self.listened.val() | 2;
        }
        if self.unbound_mpa_rx.valid.val() {
            self.listened.next = self.listened.val() | 4;
            self.torn.d.next = self.unbound_mpa_rx.data.val().torn;
        }
        self.heard.d.next = self.listened.val();
        self.post.next.index = self.row.val().index;
        self.post.next.posted = self.posted.q.val();
        self.sq_posted.data.next = self.post.val();
        self.rq_posted.data.next = self.post.val();
        self.sq_posted.valid.next = (self.state.q.val() == QpState::Tell) & !self.receive.q.val();
        self.rq_posted.valid.next = (self.state.q.val() == QpState::Tell) & self.receive.q.val();

        // the command
        self.command.next = self.cmd.data.val();
        self.opcode.next = self.command.val().opcode;
        self.destroy.next = self.opcode.val().get_bit(0);
        self.flags.next = self.command.val().flags;
        self.qpn24.next = self.command.val().qpn;
        self.sq_base.next = self.command.val().data_addr;
        self.rq_base.next = (bit_cast::<64, 32>(self.command.val().gateway) << 32) | bit_cast::<64, 32>(self.command.val().remote_addr);
        self.sq_entries.next = self.command.val().backlog_half_open;
        self.rq_entries.next = self.command.val().backlog_accept;
        self.made.next.qpn = self.qpn24.val().get_bits::<16>(0);
        self.made.next.pd = self.command.val().local_port;
        self.made.next.send_cqn = self.command.val().ird;
        self.made.next.recv_cqn = self.command.val().ord;
        self.made.next.sq_base = self.sq_base.val();
        self.made.next.rq_base = self.rq_base.val();
        self.made.next.sq_log2 = self.sq_entries.val().get_bits::<4>(0);
        self.made.next.rq_log2 = self.rq_entries.val().get_bits::<4>(0);
        self.made.next.all_signaled = self.flags.val().get_bit(0);
        self.bad.next = self.qpn24.val() >= self.pairs.val();
        if self.destroy.val() {
            if self.flags.val() != 0 {
                self.bad.next = true;
            }
        } else if (self.flags.val().get_bits::<7>(1) != 0)
            | (self.sq_base.val().get_bits::<6>(0) != 0)
            | (self.rq_base.val().get_bits::<6>(0) != 0)
            | (self.sq_entries.val().get_bits::<12>(4) != 0)
            | (self.rq_entries.val().get_bits::<12>(4) != 0)
        {
            self.bad.next = true;
        }
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

        match self.state.q.val() {
            QpState::Clear => {
                self.rows.clear.next = true;
                if self.rows.row_cleared.val() {
                    self.sweep.d.next = self.sweep.q.val() + 1;
                    if self.sweep.q.val().all() {
                        self.state.d.next = QpState::Idle;
                    }
                }
            }
            QpState::Idle => {
                self.sent.d.next = 0.into();
                self.receive.d.next = false;
                if self.unbinding.q.val() & self.heard.q.val().all() {
                    self.number.d.next = bit_cast::<Q, 24>(self.bind_qpn.val());
                    self.job.d.next = QpJob::Unbound;
                    self.state.d.next = QpState::Open;
                } else if self.bind_in.valid.val() & !self.unbinding.q.val() {
                    self.number.d.next = bit_cast::<Q, 24>(self.bind_qpn.val());
                    self.job.d.next = QpJob::Bind;
                    self.state.d.next = QpState::Open;
                } else if self.cmd.valid.val() & !self.owed.q.val() {
                    self.number.d.next = bit_cast::<Q, 24>(self.qpn24.val());
                    self.job.d.next = QpJob::Command;
                    self.state.d.next = QpState::Open;
                } else if self.bells.out.valid.val() {
                    self.bells.out.ready.next = true;
                    self.number.d.next = bit_cast::<Q, QP1>(self.bell.val());
                    self.receive.d.next = (self.bell.val() & self.half.val()) != 0;
                    self.job.d.next = QpJob::Doorbell;
                    self.state.d.next = QpState::Open;
                }
            }
            QpState::Open => {
                self.rows.open.next = true;
                if self.rows.there.val() {
                    self.state.d.next = QpState::Act;
                }
            }
            QpState::Act => {
                self.state.d.next = QpState::Idle;
                self.refused.d.next = false;
                self.posted.d.next = self.bells.seen.val();
                match self.job.q.val() {
                    QpJob::Doorbell => {
                        if self.row.val().bound {
                            self.state.d.next = QpState::Tell;
                        }
                        self.errors.inp[1].next = !self.row.val().live;
                    }
                    QpJob::Command => {
                        self.status.d.next = 0.into();
                        self.owed.d.next = true;
                        if self.bad.val() {
                            self.status.d.next = self.invalid.val();
                        } else if self.destroy.val() {
                            if !self.row.val().live {
                                self.status.d.next = self.no_entry.val();
                            } else if self.row.val().held {
                                self.status.d.next = self.busy.val();
                            } else {
                                self.rows.erase.next = true;
                            }
                        } else if self.row.val().live {
                            self.status.d.next = self.exists.val();
                        } else {
                            self.n.next.live = true;
                            self.n.next.context = self.made.val();
                            self.rows.set.next = true;
                            self.owed.d.next = false;
                            self.state.d.next = QpState::Forget;
                        }
                    }
                    QpJob::Bind => {
                        self.heard.d.next = 0.into();
                        self.torn.d.next = false;
                        self.rows.set.next = true;
                        self.state.d.next = QpState::Send;
                        if self.unbind.val() {
                            self.n.next.bound = false;
                            if (self.bind_qpn.val() >= self.pairs.val())
                                | !self.row.val().held
                                | (self.row.val().index != self.asked.val().index)
                            {
                                self.rows.set.next = false;
                                self.refused.d.next = true;
                                self.state.d.next = QpState::Answer;
                            }
                        } else {
                            self.n.next.held = true;
                            self.n.next.bound = true;
                            self.n.next.index = self.asked.val().index;
                            if (self.bind_qpn.val() >= self.pairs.val()) | !self.row.val().live | self.row.val().held {
                                self.rows.set.next = false;
                                self.refused.d.next = true;
                                self.state.d.next = QpState::Answer;
                            }
                        }
                    }
                    QpJob::Unbound => {
                        self.n.next.held = false;
                        self.rows.set.next = true;
                        self.unbinding.d.next = false;
                        self.state.d.next = QpState::Answer;
                    }
                    _ => {
                        self.state.d.next = QpState::Idle;
                    }
                }
            }
            QpState::Forget => {
                self.bells.forget.next = true;
                if self.bells.forgotten.val() {
                    self.receive.d.next = true;
                    if self.receive.q.val() {
                        self.owed.d.next = true;
                        self.state.d.next = QpState::Idle;
                    }
                }
            }
            QpState::Send => {
                self.sent.d.next = self.told.val();
                if self.told.val().all() {
                    self.state.d.next = QpState::Look;
                    if self.unbind.val() {
                        self.unbinding.d.next = true;
                        self.state.d.next = QpState::Idle;
                    }
                }
            }
            QpState::Look => {
                self.state.d.next = QpState::Seen;
            }
            QpState::Seen => {
                self.posted.d.next = self.bells.seen.val();
                self.state.d.next = QpState::Tell;
            }
            QpState::Tell => {
                if (self.sq_posted.ready.val() & !self.receive.q.val()) | (self.rq_posted.ready.val() & self.receive.q.val()) {
                    self.state.d.next = QpState::Idle;
                    if self.job.q.val() == QpJob::Bind {
                        self.receive.d.next = true;
                        self.state.d.next = QpState::Look;
                        if self.receive.q.val() {
                            self.state.d.next = QpState::Answer;
                        }
                    }
                }
            }
            QpState::Answer => {
                self.bound.valid.next = true;
                if self.bound.ready.val() {
                    self.bind_in.ready.next = true;
                    self.state.d.next = QpState::Idle;
                }
            }
            _ => {
                self.state.d.next = QpState::Idle;
            }
        }
        self.rows.value.next = self.n.val();
        if self.reset.val() {
            self.state.d.next = QpState::Clear;
            self.sweep.d.next = 0.into();
            self.rung.d.next = false;
            self.unbinding.d.next = false;
            self.owed.d.next = false;
        }
    }
}
