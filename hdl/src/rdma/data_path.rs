// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data path, wired together: wiring only; `docs/data-path.md` has the picture, `rdma::types` says what the wires mean.
//!
//! **No deadlock.** Who waits for whom:
//! * `rdma::rx` waits for `regions` (which need nobody), the host's memory, `completions` (which lose what a full queue has no room for and never wait for the host's
//!   indices) and `rdma::sq`, which takes `from_rx` whatever else it has.
//! * `rdma::sq` waits for `regions`, the host's memory, `completions`, and for `tcp::tx` to take an FPDU, which it does between any two of its jobs; `tcp::tx` never waits for it, because
//!   what it owes is a count in its connection.
//! * `mpa::tx` waits for the wire. Its faults have a queue of 8, and one more waits in it without holding up what is already under way.
//! * `mpa::rx` waits for slots, which `rdma::rx` gives back without its help.
//! * `qps` waits for the engines' answers to `Unbind` while they go on; `qp_link` takes their news meanwhile.
//! * The host's event ring holds up nothing but commands: `completions` and `qp_link` have queues with room for all that they can owe.
//!
//! **Memory** (`ecp5`, DP16KD): `mpa::rx` 14, `mpa::tx` 2, `rdma::rx` 9, `rdma::sq` 34, `regions` 8, `completions` 2, `qps` 2, `qp_link` 2.
use super::ack_spread::AckSpread;
use super::completions::Completions;
use super::qps::Qps;
use super::regions::Regions;
use super::rx::RdmaRx;
use super::sq::SendQueue;
use super::types::*;
use crate::cm::messages::{CommandIn, EventOut};
use crate::cm::qp_link::QpLink;
use crate::host::{dma::*, pulse_merge::PulseMerge};
use crate::mpa::{rx::MpaRx, tx::MpaTx};
use crate::stream::*;
use crate::tcp::types::PayloadIn;
use rust_hdl::prelude::*;

/// 2^C connections (`Cn` = C + n, `CN` = 2^C), 2^Q queue pairs and as many completion queues (`Qn` = Q + n, `QN` = 2^Q, `BELLS` = 2^Q1), 2^M regions, IRD and ORD at most 2^I (`CI1` = C + I + 1),
/// 2^P slots of 2^(S-1) + 2^(ST+3) octets (`W` = P + S - 3, `SB` = S - 3), 2^B beats of payload on their way from the host (`B1` = B + 1).
#[derive(LogicBlock, Default)]
pub struct DataPath<
    const C: usize,
    const C1: usize,
    const C2: usize,
    const C3: usize,
    const C4: usize,
    const C5: usize,
    const C7: usize,
    const C8: usize,
    const CN: usize,
    const Q: usize,
    const Q1: usize,
    const Q2: usize,
    const Q3: usize,
    const QN: usize,
    const BELLS: usize,
    const M: usize,
    const I: usize,
    const CI1: usize,
    const P: usize,
    const S: usize,
    const W: usize,
    const SB: usize,
    const ST: usize,
    const B: usize,
    const B1: usize,
> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    // host
    pub cmd: ChanSink<CommandIn>,
    pub evt: ChanSrc<EventOut>,
    pub sq_tail: Signal<In, Bit>,
    pub rq_tail: Signal<In, Bit>,
    pub cq_head: Signal<In, Bit>,
    pub strobe_value: Signal<In, Bits<32>>,
    pub rd_req: [ChanSrc<DmaRequest>; 3],
    pub rd_beat: [ChanSink<DmaBeat>; 3],
    pub wr_req: [ChanSrc<DmaRequest>; 2],
    pub wr_beat: [ChanSrc<DmaBeat>; 2],
    pub wr_done: [DmaDoneSink; 2],
    // connections
    pub order: ChanSink<QpOrder>,
    pub news: ChanSrc<QpNews>,
    pub from_tx: ChanSink<TxToSq>,
    pub to_tx: ChanSrc<FpduQueued>,
    pub payload_meta: ChanSink<PayloadIn>,
    pub inp: StreamSink,
    pub consumed: ChanSrc<Bits<16>>,
    pub fpdu: ChanSink<FpduOut>,
    pub out: StreamSrc,
    pub busy: Signal<Out, Bit>,
    pub cnt_mpa_in_fpdus: Signal<Out, Bit>,
    pub cnt_mpa_crc_errors: Signal<Out, Bit>,
    pub cnt_mpa_bad_length: Signal<Out, Bit>,
    pub cnt_mpa_no_slot: Signal<Out, Bit>,
    pub cnt_rdma_in_writes: Signal<Out, Bit>,
    pub cnt_rdma_in_sends: Signal<Out, Bit>,
    pub cnt_rdma_in_reads: Signal<Out, Bit>,
    pub cnt_rdma_in_responses: Signal<Out, Bit>,
    pub cnt_rdma_terminates_in: Signal<Out, Bit>,
    pub cnt_rdma_terminates_out: Signal<Out, Bit>,
    pub cnt_completions: Signal<Out, Bit>,
    pub cnt_completions_lost: Signal<Out, Bit>,
    pub cnt_doorbell_errors: Signal<Out, Bit>,
    pub cnt_cmd_done: Signal<Out, Bit>,
    pub cnt_cmd_errors: Signal<Out, Bit>,
    qp_link: QpLink<C, C2, C3, C4, CN>,
    qps: Qps<Q, Q1, Q2, BELLS>,
    regions: Regions<M>,
    completions: Completions<Q, Q1, QN, Q2, Q3>,
    rx: RdmaRx<C, S, W, I, CI1, C2, C5>,
    sq: SendQueue<C, C1, C4, C5, C7, C8, I, CI1>,
    mpa_rx: MpaRx<C, P, S, W, SB, ST>,
    mpa_tx: MpaTx<C, C8, B, B1>,
    acks: ChanFifo<TxToSq, 4, 5>,
    spread: AckSpread,
    faults: ChanFifo<Bits<16>, 3, 4>,
    evt_a: ChanMerge2<EventOut>,
    evt_b: ChanMerge2<EventOut>,
    evt_c: ChanMerge2<EventOut>,
    doorbell_errors: PulseMerge<2>,
    cmd_done: PulseMerge<3>,
    cmd_errors: PulseMerge<3>,
    opcode: Signal<Local, Bits<8>>,
    which: Signal<Local, Bits<2>>,
    told: Signal<Local, RxToSq>,
}

impl<
        const C: usize,
        const C1: usize,
        const C2: usize,
        const C3: usize,
        const C4: usize,
        const C5: usize,
        const C7: usize,
        const C8: usize,
        const CN: usize,
        const Q: usize,
        const Q1: usize,
        const Q2: usize,
        const Q3: usize,
        const QN: usize,
        const BELLS: usize,
        const M: usize,
        const I: usize,
        const CI1: usize,
        const P: usize,
        const S: usize,
        const W: usize,
        const SB: usize,
        const ST: usize,
        const B: usize,
        const B1: usize,
    > Logic for DataPath<C, C1, C2, C3, C4, C5, C7, C8, CN, Q, Q1, Q2, Q3, QN, BELLS, M, I, CI1, P, S, W, SB, ST, B, B1>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, qp_link, qps, regions, completions, rx, sq, mpa_rx, mpa_tx, acks, faults, evt_a, evt_b, evt_c);
        clock!(self, clock, spread, doorbell_errors, cmd_done, cmd_errors);
        self.qp_link.reset.next = self.reset.val();
        self.qps.reset.next = self.reset.val();
        self.regions.reset.next = self.reset.val();
        self.completions.reset.next = self.reset.val();
        self.rx.reset.next = self.reset.val();
        self.sq.reset.next = self.reset.val();
        self.mpa_rx.reset.next = self.reset.val();
        self.mpa_tx.reset.next = self.reset.val();
        self.acks.reset.next = self.reset.val();
        self.spread.reset.next = self.reset.val();
        self.faults.reset.next = self.reset.val();
        self.evt_a.reset.next = self.reset.val();
        self.evt_b.reset.next = self.reset.val();
        self.evt_c.reset.next = self.reset.val();
        self.doorbell_errors.reset.next = self.reset.val();
        self.cmd_done.reset.next = self.reset.val();
        self.cmd_errors.reset.next = self.reset.val();
        self.ready.next = self.qps.ready.val()
            & self.regions.ready.val()
            & self.completions.ready.val()
            & self.rx.ready.val()
            & self.sq.ready.val()
            & self.mpa_rx.ready.val();

        // commands: two opcodes for each kind of object
        self.opcode.next = self.cmd.data.val().opcode;
        self.which.next = self.opcode.val().get_bits::<2>(1);
        self.regions.cmd.data.next = self.cmd.data.val();
        self.completions.cmd.data.next = self.cmd.data.val();
        self.qps.cmd.data.next = self.cmd.data.val();
        self.regions.cmd.valid.next = self.cmd.valid.val() & (self.which.val() == 0);
        self.completions.cmd.valid.next = self.cmd.valid.val() & (self.which.val() == 1);
        self.qps.cmd.valid.next = self.cmd.valid.val() & (self.which.val() == 2);
        self.cmd.ready.next = self.qps.cmd.ready.val();
        if self.which.val() == 0 {
            self.cmd.ready.next = self.regions.cmd.ready.val();
        } else if self.which.val() == 1 {
            self.cmd.ready.next = self.completions.cmd.ready.val();
        }
        ChanSrc::<EventOut>::join(&mut self.qps.evt, &mut self.evt_a.a);
        ChanSrc::<EventOut>::join(&mut self.regions.evt, &mut self.evt_a.b);
        ChanSrc::<EventOut>::join(&mut self.completions.evt, &mut self.evt_b.a);
        ChanSrc::<EventOut>::join(&mut self.qp_link.evt, &mut self.evt_b.b);
        ChanSrc::<EventOut>::join(&mut self.evt_a.out, &mut self.evt_c.a);
        ChanSrc::<EventOut>::join(&mut self.evt_b.out, &mut self.evt_c.b);
        ChanSrc::<EventOut>::link(&mut self.evt, &mut self.evt_c.out);

        // doorbells
        self.qps.sq_tail.next = self.sq_tail.val();
        self.qps.rq_tail.next = self.rq_tail.val();
        self.qps.tail_value.next = self.strobe_value.val();
        self.completions.cq_head.next = self.cq_head.val();
        self.completions.cq_head_value.next = self.strobe_value.val();

        // queue pairs
        ChanSink::<QpOrder>::link(&mut self.order, &mut self.qp_link.order);
        ChanSrc::<QpNews>::link(&mut self.news, &mut self.qp_link.news);
        ChanSrc::<QpBindIn>::join(&mut self.qp_link.bind, &mut self.qps.bind_in);
        ChanSrc::<QpBound>::join(&mut self.qps.bound, &mut self.qp_link.bound);
        ChanSrc::<Bits<16>>::join(&mut self.qp_link.close, &mut self.sq.close);
        ChanSrc::<SqAsync>::join(&mut self.sq.event, &mut self.qp_link.of_sq);
        ChanSrc::<RxAsync>::join(&mut self.rx.event, &mut self.qp_link.of_rx);
        ChanSrc::<Bind>::join(&mut self.qps.to_sq, &mut self.sq.bind);
        ChanSrc::<Bind>::join(&mut self.qps.to_rx, &mut self.rx.bind);
        ChanSrc::<Bind>::join(&mut self.qps.to_mpa_rx, &mut self.mpa_rx.bind);
        ChanSrc::<Bits<16>>::join(&mut self.sq.unbound, &mut self.qps.unbound_sq);
        ChanSrc::<Bits<16>>::join(&mut self.rx.unbound, &mut self.qps.unbound_rx);
        ChanSrc::<MpaUnbound>::join(&mut self.mpa_rx.unbound, &mut self.qps.unbound_mpa_rx);
        ChanSrc::<Posted>::join(&mut self.qps.sq_posted, &mut self.sq.posted);
        ChanSrc::<Posted>::join(&mut self.qps.rq_posted, &mut self.rx.posted);

        // what may be touched
        ChanSrc::<RegionAsk>::join(&mut self.rx.ask, &mut self.regions.ask[0]);
        ChanSrc::<RegionAsk>::join(&mut self.mpa_tx.ask, &mut self.regions.ask[1]);
        ChanSrc::<RegionAsk>::join(&mut self.sq.ask, &mut self.regions.ask[2]);
        ChanSrc::<RegionAnswer>::join(&mut self.regions.answer[0], &mut self.rx.answer);
        ChanSrc::<RegionAnswer>::join(&mut self.regions.answer[1], &mut self.mpa_tx.answer);
        ChanSrc::<RegionAnswer>::join(&mut self.regions.answer[2], &mut self.sq.answer);
        self.regions.quiet[0].next = self.rx.quiet.val();
        self.regions.quiet[1].next = self.mpa_tx.quiet.val();
        self.regions.quiet[2].next = self.sq.quiet.val();

        // receive
        ChanSink::<PayloadIn>::link(&mut self.payload_meta, &mut self.mpa_rx.payload_meta);
        StreamSink::link(&mut self.inp, &mut self.mpa_rx.inp);
        ChanSrc::<Bits<16>>::link(&mut self.consumed, &mut self.mpa_rx.consumed);
        ChanSrc::<FpduIn>::join(&mut self.mpa_rx.fpdu, &mut self.rx.fpdu);
        ChanSrc::<Bits<8>>::join(&mut self.rx.free, &mut self.mpa_rx.free);
        self.mpa_rx.slot_address.next = self.rx.slot_address.val();
        self.rx.slot_data.next = self.mpa_rx.slot_data.val();
        self.told.next = self.rx.to_sq.data.val();
        self.sq.from_rx.data.next = self.rx.to_sq.data.val();
        self.sq.from_rx.valid.next = self.rx.to_sq.valid.val();
        self.rx.to_sq.ready.next = self.sq.from_rx.ready.val();
        self.qp_link.heard.next = self.rx.to_sq.valid.val() & self.sq.from_rx.ready.val() & (self.told.val().note == RxSqNote::Heard);
        self.qp_link.heard_index.next = self.told.val().index;
        ChanSrc::<CompletionOut>::join(&mut self.rx.completion, &mut self.completions.from_rx);
        ChanSrc::<CompletionOut>::join(&mut self.sq.completion, &mut self.completions.from_sq);
        ChanSrc::<ReadIssued>::join(&mut self.sq.issued, &mut self.rx.issued);
        ChanSrc::<Bits<16>>::join(&mut self.sq.responded, &mut self.rx.responded);

        // transmit
        ChanSink::<TxToSq>::link(&mut self.from_tx, &mut self.acks.inp);
        ChanSrc::<TxToSq>::join(&mut self.acks.out, &mut self.spread.inp);
        ChanSrc::<TxToSq>::join(&mut self.spread.out, &mut self.sq.from_tx);
        ChanSrc::<FpduQueued>::link(&mut self.to_tx, &mut self.sq.to_tx);
        ChanSink::<FpduOut>::link(&mut self.fpdu, &mut self.mpa_tx.fpdu);
        StreamSrc::link(&mut self.out, &mut self.mpa_tx.out);
        self.busy.next = self.mpa_tx.busy.val();
        self.sq.item_address.next = self.mpa_tx.item_address.val();
        self.mpa_tx.item_data.next = self.sq.item_data.val();
        ChanSrc::<Bits<16>>::join(&mut self.mpa_tx.fault, &mut self.faults.inp);
        ChanSrc::<Bits<16>>::join(&mut self.faults.out, &mut self.sq.fault);

        // host memory
        ChanSrc::<DmaRequest>::link(&mut self.rd_req[0], &mut self.rx.rd_req);
        ChanSrc::<DmaRequest>::link(&mut self.rd_req[1], &mut self.sq.rd_req);
        ChanSrc::<DmaRequest>::link(&mut self.rd_req[2], &mut self.mpa_tx.rd_req);
        ChanSink::<DmaBeat>::link(&mut self.rd_beat[0], &mut self.rx.rd_beat);
        ChanSink::<DmaBeat>::link(&mut self.rd_beat[1], &mut self.sq.rd_beat);
        ChanSink::<DmaBeat>::link(&mut self.rd_beat[2], &mut self.mpa_tx.rd_beat);
        ChanSrc::<DmaRequest>::link(&mut self.wr_req[0], &mut self.rx.wr_req);
        ChanSrc::<DmaRequest>::link(&mut self.wr_req[1], &mut self.completions.req);
        ChanSrc::<DmaBeat>::link(&mut self.wr_beat[0], &mut self.rx.wr_beat);
        ChanSrc::<DmaBeat>::link(&mut self.wr_beat[1], &mut self.completions.beat);
        DmaDoneSink::link(&mut self.wr_done[0], &mut self.rx.wr_done);
        DmaDoneSink::link(&mut self.wr_done[1], &mut self.completions.done);

        // counters
        self.cnt_mpa_in_fpdus.next = self.mpa_rx.cnt_mpa_fpdus_in.val();
        self.cnt_mpa_crc_errors.next = self.mpa_rx.cnt_mpa_crc_errors.val();
        self.cnt_mpa_bad_length.next = self.mpa_rx.cnt_mpa_bad_length.val();
        self.cnt_mpa_no_slot.next = self.mpa_rx.cnt_mpa_no_slot.val();
        self.cnt_rdma_in_writes.next = self.rx.cnt_rdma_in_writes.val();
        self.cnt_rdma_in_sends.next = self.rx.cnt_rdma_in_sends.val();
        self.cnt_rdma_in_reads.next = self.rx.cnt_rdma_in_reads.val();
        self.cnt_rdma_in_responses.next = self.rx.cnt_rdma_in_responses.val();
        self.cnt_rdma_terminates_in.next = self.rx.cnt_rdma_terminates_in.val();
        self.cnt_rdma_terminates_out.next = self.rx.cnt_rdma_terminates_out.val();
        self.cnt_completions.next = self.completions.cnt_completions.val();
        self.cnt_completions_lost.next = self.completions.cnt_completions_lost.val();
        self.doorbell_errors.inp[0].next = self.qps.cnt_doorbell_errors.val();
        self.doorbell_errors.inp[1].next = self.completions.cnt_doorbell_errors.val();
        self.cnt_doorbell_errors.next = self.doorbell_errors.out.val();
        self.cmd_done.inp[0].next = self.qps.cnt_cmd_done.val();
        self.cmd_done.inp[1].next = self.regions.cnt_cmd_done.val();
        self.cmd_done.inp[2].next = self.completions.cnt_cmd_done.val();
        self.cnt_cmd_done.next = self.cmd_done.out.val();
        self.cmd_errors.inp[0].next = self.qps.cnt_cmd_errors.val();
        self.cmd_errors.inp[1].next = self.regions.cnt_cmd_errors.val();
        self.cmd_errors.inp[2].next = self.completions.cnt_cmd_errors.val();
        self.cnt_cmd_errors.next = self.cmd_errors.out.val();
    }
}
