// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segment to frame: headers, checksums, and the payload in its place.
//!
//! **Interface.** `segment` describes a segment; if its `len` is not 0, `payload` then brings exactly so many octets from lane 0 on, `last` with the
//! end. `out` are the frames, for the transmit multiplexer, which fills up to 60 octets. A segment whose payload ends with `error`, or whose frame
//! has more than a slot's octets, is dropped: `dropped` says so for one clock. `own_mac` and the `mac` of a segment have their first octet in bits 7:0.
//!
//! **The frame.** Ethernet II; IPv4 without options, with the `tos` of the segment, an identification that counts the datagrams, DF, TTL from
//! `ip_ttl` (64 if that is 0), protocol 6, header checksum; TCP with a header of 20 octets, or 24 with the MSS option if `mss` is not 0, reserved
//! bits and urgent pointer 0, checksum over pseudo-header, header and payload. The frame ends where the datagram ends.
//!
//! **States** of the building side: `Idle`; `Fill`: payload goes to the slot, shifted to octet 54 or 58 of the frame, and into the sum; `Flush`: what is
//! left of its last beat. Meanwhile, or, without so much payload, in `Sum`, the headers' words go into the two sums, a beat (with 4: two parts of one) a clock, the last step being the words
//! that stand nowhere (length and protocol of the pseudo-header) and the MSS option; `Head`: the header's beats go to the slot, and the sums
//! are folded and put in. The sending side is a [`FrameReader`] that starts behind the first of them.
//!
//! **Waiting.** `segment` waits for a free slot, that is for `out`; inside a segment only for its payload.
//!
//! **Timing.** First beat 12 clocks after a segment without payload was taken; with payload, 5 after its last beat, and not before the 13th. A frame leaves at one beat a clock
//! without gaps; meanwhile the next one is built, in its beats of payload, or 7 if that is more, and 9 clocks (10 with MSS). **Memory:** two slots of 2^S beats
//! (S = 8: 2048 octets each, 2 block RAMs), output registered; a beat is read only after it was written. `SP1` = S + 1.
use super::types::{SegmentOut, Tuple};
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SegTxState {
    Idle,
    Fill,
    Flush,
    Sum,
    Head,
}

#[derive(LogicBlock)]
pub struct SegTx<const S: usize, const SP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub own_mac: Signal<In, Bits<48>>,
    pub ip_ttl: Signal<In, Bits<8>>,
    pub segment: ChanSink<SegmentOut>,
    pub payload: StreamSink,
    pub out: StreamSrc,
    pub dropped: Signal<Out, Bit>,
    pub cnt_tcp_out_segs: Signal<Out, Bit>,
    pub cnt_tcp_out_rsts: Signal<Out, Bit>,
    pub cnt_ip4_out_pkts: Signal<Out, Bit>,
    ram: BlockRam<Bits<64>, SP1>,
    reader: FrameReader<SP1>,
    state: DFF<SegTxState>,
    step: DFF<Bits<3>>,
    seg: DFF<SegmentOut>,
    has_mss: DFF<Bit>,
    /// As when the segment was taken: it stands in a sum and in the frame.
    ttl: DFF<Bits<8>>,
    /// IP Total Length, and octets of the frame.
    total: DFF<Bits<17>>,
    frame_len: DFF<Bits<16>>,
    ident: DFF<Bits<16>>,
    /// Slots given to the reader and sent, modulo 4; bit 0 is the slot.
    filled: DFF<Bits<2>>,
    sent: DFF<Bits<2>>,
    slot: DFF<Bit>,
    lens: [DFF<Bits<16>>; 2],
    /// Beat of the slot that payload is written to next.
    write_at: DFF<Bits<S>>,
    /// All of the header is in the sums, or on its way there.
    summed: DFF<Bit>,
    /// A beat of this payload has come.
    begun: DFF<Bit>,
    broken: DFF<Bit>,
    /// Payload that shares a beat with the header's end.
    lead: DFF<Bits<48>>,
    prev: DFF<Bits<64>>,
    fresh: DFF<Bit>,
    /// Four lanes of the payload, then the sum of them.
    addend: DFF<Bits<64>>,
    added: DFF<Bit>,
    part: DFF<Bits<18>>,
    parted: DFF<Bit>,
    /// The same of the headers; and which sums it belongs to.
    head_addend: DFF<Bits<64>>,
    for_ip: DFF<Bit>,
    for_tcp: DFF<Bit>,
    head_part: DFF<Bits<18>>,
    part_ip: DFF<Bit>,
    part_tcp: DFF<Bit>,
    ip_sum: DFF<Bits<20>>,
    head_sum: DFF<Bits<22>>,
    tcp_sum: DFF<Bits<28>>,
    tuple: Signal<Local, Tuple>,
    // numbers in the order of the wire, first octet in bits 7:0
    long: [Signal<Local, Bits<32>>; 4],
    long_one: Signal<Local, Bits<32>>,
    long_wire: [Signal<Local, Bits<32>>; 4],
    short: [Signal<Local, Bits<16>>; 7],
    short_one: Signal<Local, Bits<16>>,
    short_wire: [Signal<Local, Bits<16>>; 7],
    src_ip: Signal<Local, Bits<32>>,
    dst_ip: Signal<Local, Bits<32>>,
    seq: Signal<Local, Bits<32>>,
    ack: Signal<Local, Bits<32>>,
    src_port: Signal<Local, Bits<16>>,
    dst_port: Signal<Local, Bits<16>>,
    window: Signal<Local, Bits<16>>,
    mss: Signal<Local, Bits<16>>,
    total_wire: Signal<Local, Bits<16>>,
    tcp_octets: Signal<Local, Bits<16>>,
    tcp_len: Signal<Local, Bits<16>>,
    ident_wire: Signal<Local, Bits<16>>,
    mac: Signal<Local, Bits<48>>,
    tos: Signal<Local, Bits<8>>,
    flags: Signal<Local, Bits<8>>,
    offset: Signal<Local, Bits<8>>,
    beats: [Signal<Local, Bits<64>>; 8],
    beat_at: Signal<Local, Bits<3>>,
    beat: Signal<Local, Bits<64>>,
    pseudo: Signal<Local, Bits<64>>,
    ip_check: Signal<Local, Bits<16>>,
    tcp_check: Signal<Local, Bits<16>>,
    slots: Signal<Local, Bits<2>>,
    clean: Signal<Local, Bits<64>>,
    in_keep: Signal<Local, Bits<8>>,
    in_data: Signal<Local, Bits<64>>,
    taken: Signal<Local, Bit>,
    summing: Signal<Local, Bit>,
    write: Signal<Local, Bit>,
    write_beat: Signal<Local, Bits<S>>,
    write_data: Signal<Local, Bits<64>>,
    write_address: Signal<Local, Bits<SP1>>,
    base: Signal<Local, Bits<SP1>>,
    upper: Constant<Bits<SP1>>,
    capacity: Constant<Bits<17>>,
    lane: [Constant<Bits<64>>; 8],
    masks: [Constant<Bits<64>>; 8],
    ones: Constant<Bits<16>>,
}

impl<const S: usize, const SP1: usize> Default for SegTx<S, SP1> {
    fn default() -> Self {
        assert!(S + 1 == SP1 && (4..=12).contains(&S));
        const ALL: u64 = u64::MAX;
        // which lanes of the beat belong to a sum: the IP header starts in lane 3 of beat 1 and ends with lane 0 of beat 4, the TCP header ends with
        // lane 2 of beat 6
        let masks = [0xffff << 48, ALL, ALL << 16, 0xffff, ALL << 16, ALL, ALL >> 16, 0];
        Self {
            clock: Default::default(),
            reset: Default::default(),
            own_mac: Default::default(),
            ip_ttl: Default::default(),
            segment: Default::default(),
            payload: Default::default(),
            out: Default::default(),
            dropped: Default::default(),
            cnt_tcp_out_segs: Default::default(),
            cnt_tcp_out_rsts: Default::default(),
            cnt_ip4_out_pkts: Default::default(),
            ram: Default::default(),
            reader: Default::default(),
            state: Default::default(),
            step: Default::default(),
            seg: Default::default(),
            has_mss: Default::default(),
            ttl: Default::default(),
            total: Default::default(),
            frame_len: Default::default(),
            ident: Default::default(),
            filled: Default::default(),
            sent: Default::default(),
            slot: Default::default(),
            lens: Default::default(),
            write_at: Default::default(),
            summed: Default::default(),
            begun: Default::default(),
            broken: Default::default(),
            lead: Default::default(),
            prev: Default::default(),
            fresh: Default::default(),
            addend: Default::default(),
            for_ip: Default::default(),
            for_tcp: Default::default(),
            added: Default::default(),
            part: Default::default(),
            parted: Default::default(),
            head_addend: Default::default(),
            head_part: Default::default(),
            head_sum: Default::default(),
            part_ip: Default::default(),
            part_tcp: Default::default(),
            ip_sum: Default::default(),
            tcp_sum: Default::default(),
            tuple: Default::default(),
            long: Default::default(),
            long_one: Default::default(),
            long_wire: Default::default(),
            short: Default::default(),
            short_one: Default::default(),
            short_wire: Default::default(),
            src_ip: Default::default(),
            dst_ip: Default::default(),
            seq: Default::default(),
            ack: Default::default(),
            src_port: Default::default(),
            dst_port: Default::default(),
            window: Default::default(),
            mss: Default::default(),
            total_wire: Default::default(),
            tcp_octets: Default::default(),
            tcp_len: Default::default(),
            ident_wire: Default::default(),
            mac: Default::default(),
            tos: Default::default(),
            flags: Default::default(),
            offset: Default::default(),
            beats: Default::default(),
            beat_at: Default::default(),
            beat: Default::default(),
            pseudo: Default::default(),
            ip_check: Default::default(),
            tcp_check: Default::default(),
            slots: Default::default(),
            clean: Default::default(),
            in_keep: Default::default(),
            in_data: Default::default(),
            taken: Default::default(),
            summing: Default::default(),
            write: Default::default(),
            write_beat: Default::default(),
            write_data: Default::default(),
            write_address: Default::default(),
            base: Default::default(),
            upper: Constant::new((1u64 << S).to_bits()),
            capacity: Constant::new(((8u64 << S) - 14).to_bits()),
            lane: std::array::from_fn(|n| Constant::new((0xffu64 << (8 * n)).to_bits())),
            masks: masks.map(|mask| Constant::new(mask.to_bits())),
            ones: Constant::new(0xffffu64.to_bits()),
        }
    }
}

impl<const S: usize, const SP1: usize> Logic for SegTx<S, SP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, step, seg, has_mss, ttl, total, frame_len, ident, filled, sent, slot, write_at, summed, begun, broken, lead
        );
        dff_setup!(self, clock, added, parted, head_addend, head_part, head_sum);
        dff_setup!(self, clock, prev, fresh, addend, for_ip, for_tcp, part, part_ip, part_tcp, ip_sum, tcp_sum);
        for i in 0..2 {
            self.lens[i].clock.next = self.clock.val();
            self.lens[i].d.next = self.lens[i].q.val();
        }
        clock!(self, clock, reader);
        self.reader.reset.next = self.reset.val();
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();

        // the fields as the wire has them
        self.tuple.next = self.seg.q.val().tuple;
        self.tcp_octets.next = self.seg.q.val().len + 20;
        if self.has_mss.q.val() {
            self.tcp_octets.next = self.seg.q.val().len + 24;
        }
        self.total.d.next = bit_cast::<17, 16>(self.tcp_octets.val()) + 20;
        self.frame_len.d.next = self.total.q.val().get_bits::<16>(0) + 14;
        self.long[0].next = self.tuple.val().local_ip;
        self.long[1].next = self.tuple.val().remote_ip;
        self.long[2].next = self.seg.q.val().seq;
        self.long[3].next = self.seg.q.val().ack;
        for i in 0..4 {
            self.long_one.next = self.long[i].val();
            self.long_wire[i].next = (bit_cast::<32, 8>(self.long_one.val().get_bits::<8>(0)) << 24)
                | (bit_cast::<32, 8>(self.long_one.val().get_bits::<8>(8)) << 16)
                | (bit_cast::<32, 8>(self.long_one.val().get_bits::<8>(16)) << 8)
                | bit_cast::<32, 8>(self.long_one.val().get_bits::<8>(24));
        }
        self.short[0].next = self.tuple.val().local_port;
        self.short[1].next = self.tuple.val().remote_port;
        self.short[2].next = self.seg.q.val().window;
        self.short[3].next = self.seg.q.val().mss;
        self.short[4].next = self.total.q.val().get_bits::<16>(0);
        self.short[5].next = self.tcp_octets.val();
        self.short[6].next = self.ident.q.val();
        for i in 0..7 {
            self.short_one.next = self.short[i].val();
            self.short_wire[i].next =
                (bit_cast::<16, 8>(self.short_one.val().get_bits::<8>(0)) << 8) | bit_cast::<16, 8>(self.short_one.val().get_bits::<8>(8));
        }
        self.src_ip.next = self.long_wire[0].val();
        self.dst_ip.next = self.long_wire[1].val();
        self.seq.next = self.long_wire[2].val();
        self.ack.next = self.long_wire[3].val();
        self.src_port.next = self.short_wire[0].val();
        self.dst_port.next = self.short_wire[1].val();
        self.window.next = self.short_wire[2].val();
        self.mss.next = self.short_wire[3].val();
        self.total_wire.next = self.short_wire[4].val();
        self.tcp_len.next = self.short_wire[5].val();
        self.ident_wire.next = self.short_wire[6].val();
        self.mac.next = self.seg.q.val().mac;
        self.tos.next = self.seg.q.val().tos;
        self.flags.next = self.seg.q.val().flags;
        self.offset.next = 0x50.into();
        if self.has_mss.q.val() {
            self.offset.next = 0x60.into();
        }

        // the header's beats, checksums left 0
        self.beats[0].next = bit_cast::<64, 48>(self.mac.val()) | (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48);
        self.beats[1].next = bit_cast::<64, 32>(self.own_mac.val().get_bits::<32>(16))
            | (bit_cast::<64, 8>(self.tos.val()) << 56)
            | 0x0045_0008_0000_0000_u64;
        self.beats[2].next = bit_cast::<64, 16>(self.total_wire.val())
            | (bit_cast::<64, 16>(self.ident_wire.val()) << 16)
            | (bit_cast::<64, 8>(self.ttl.q.val()) << 48)
            | 0x0600_0040_0000_0000_u64;
        self.beats[3].next =
            (bit_cast::<64, 32>(self.src_ip.val()) << 16) | (bit_cast::<64, 16>(self.dst_ip.val().get_bits::<16>(0)) << 48);
        self.beats[4].next = bit_cast::<64, 16>(self.dst_ip.val().get_bits::<16>(16))
            | (bit_cast::<64, 16>(self.src_port.val()) << 16)
            | (bit_cast::<64, 16>(self.dst_port.val()) << 32)
            | (bit_cast::<64, 16>(self.seq.val().get_bits::<16>(0)) << 48);
        self.beats[5].next = bit_cast::<64, 16>(self.seq.val().get_bits::<16>(16))
            | (bit_cast::<64, 32>(self.ack.val()) << 16)
            | (bit_cast::<64, 8>(self.offset.val()) << 48)
            | (bit_cast::<64, 8>(self.flags.val()) << 56);
        self.beats[6].next = bit_cast::<64, 16>(self.window.val()) | (bit_cast::<64, 16>(self.lead.q.val().get_bits::<16>(0)) << 48);
        if self.has_mss.q.val() {
            self.beats[6].next = bit_cast::<64, 16>(self.window.val()) | 0x0402_0000_0000_0000_u64;
        }
        self.beats[7].next = bit_cast::<64, 16>(self.mss.val()) | (bit_cast::<64, 48>(self.lead.q.val()) << 16);
        self.pseudo.next = bit_cast::<64, 16>(self.tcp_len.val()) | (bit_cast::<64, 16>(self.mss.val()) << 32) | 0x0600_0000_u64;
        if self.has_mss.q.val() {
            self.pseudo.next = self.pseudo.val() | 0x0402_0000_0000_0000_u64;
        }
        self.beat_at.next = self.step.q.val();
        if (self.state.q.val() != SegTxState::Head) & (self.step.q.val() < 4) {
            self.beat_at.next = self.step.q.val() + 1;
        }
        self.beat.next = self.beats[0].val();
        for i in 1..8 {
            if self.beat_at.val().index() == i {
                self.beat.next = self.beats[i].val();
            }
        }
        self.ip_check.next = self.ip_sum.q.val().get_bits::<16>(0) ^ self.ones.val();
        self.tcp_check.next = self.tcp_sum.q.val().get_bits::<16>(0) ^ self.ones.val();

        // payload without what is beyond `keep`
        self.in_keep.next = self.payload.beat.val().keep;
        self.in_data.next = self.payload.beat.val().data;
        self.clean.next = 0.into();
        for i in 0..8 {
            if self.in_keep.val().get_bit(i) {
                self.clean.next = self.clean.val() | (self.in_data.val() & self.lane[i].val());
            }
        }

        // building side
        self.slots.next = self.filled.q.val() - self.sent.q.val();
        self.segment.ready.next = false;
        self.payload.ready.next = false;
        self.dropped.next = false;
        self.cnt_tcp_out_segs.next = false;
        self.cnt_tcp_out_rsts.next = false;
        self.taken.next = false;
        self.summing.next = false;
        self.write.next = false;
        self.write_beat.next = self.write_at.q.val();
        self.write_data.next = self.prev.q.val() >> 16;
        if self.has_mss.q.val() {
            self.write_data.next = self.prev.q.val() >> 48;
        }
        self.fresh.d.next = false;
        self.addend.d.next = self.prev.q.val();
        self.added.d.next = self.fresh.q.val();
        self.parted.d.next = self.added.q.val();
        if self.parted.q.val() {
            self.tcp_sum.d.next = self.tcp_sum.q.val() + bit_cast::<28, 18>(self.part.q.val());
        }
        self.for_ip.d.next = false;
        self.for_tcp.d.next = false;
        self.part_ip.d.next = self.for_ip.q.val();
        self.part_tcp.d.next = self.for_tcp.q.val();
        if self.part_ip.q.val() {
            self.ip_sum.d.next = self.ip_sum.q.val() + bit_cast::<20, 18>(self.head_part.q.val());
        }
        if self.part_tcp.q.val() {
            self.head_sum.d.next = self.head_sum.q.val() + bit_cast::<22, 18>(self.head_part.q.val());
        }
        match self.state.q.val() {
            SegTxState::Idle => {
                self.segment.ready.next = !self.slots.val().get_bit(1);
                self.seg.d.next = self.segment.data.val();
                self.has_mss.d.next = self.segment.data.val().mss != 0;
                self.slot.d.next = self.filled.q.val().get_bit(0);
                self.write_at.d.next = 7.into();
                if self.segment.data.val().mss != 0 {
                    self.write_at.d.next = 8.into();
                }
                self.ttl.d.next = self.ip_ttl.val();
                if !self.ip_ttl.val().any() {
                    self.ttl.d.next = 64.into();
                }
                self.summed.d.next = false;
                self.begun.d.next = false;
                self.broken.d.next = false;
                self.lead.d.next = 0.into();
                self.step.d.next = 0.into();
                self.ip_sum.d.next = 0.into();
                self.head_sum.d.next = 0.into();
                self.tcp_sum.d.next = 0.into();
                if self.segment.valid.val() & !self.slots.val().get_bit(1) {
                    self.state.d.next = SegTxState::Sum;
                    if self.segment.data.val().len != 0 {
                        self.state.d.next = SegTxState::Fill;
                    }
                }
            }
            SegTxState::Fill => {
                self.payload.ready.next = true;
                self.taken.next = self.payload.valid.val();
                self.summing.next = !self.summed.q.val();
                if self.payload.valid.val() & self.payload.beat.val().last {
                    self.broken.d.next = self.payload.beat.val().error;
                    self.state.d.next = SegTxState::Flush;
                }
            }
            SegTxState::Flush => {
                self.write.next = true;
                self.state.d.next = SegTxState::Sum;
                if self.summed.q.val() {
                    self.state.d.next = SegTxState::Head;
                }
                if self.broken.q.val() | (self.total.q.val() > self.capacity.val()) {
                    self.dropped.next = true;
                    self.added.d.next = false;
                    self.state.d.next = SegTxState::Idle;
                }
            }
            SegTxState::Sum => {
                self.summing.next = true;
                if self.step.q.val() == 7 {
                    self.state.d.next = SegTxState::Head;
                }
            }
            SegTxState::Head => {
                self.step.d.next = self.step.q.val() + 1;
                self.write.next = true;
                self.write_beat.next = bit_cast::<S, 3>(self.step.q.val());
                self.write_data.next = self.beat.val();
                if self.step.q.val() == 0 {
                    self.filled.d.next = self.filled.q.val() + 1;
                    self.cnt_tcp_out_segs.next = true;
                    self.cnt_tcp_out_rsts.next = self.flags.val().get_bit(2);
                    if self.slot.q.val() {
                        self.lens[1].d.next = self.frame_len.q.val();
                    } else {
                        self.lens[0].d.next = self.frame_len.q.val();
                    }
                } else if self.step.q.val() == 3 {
                    self.write_data.next = self.beat.val() | bit_cast::<64, 16>(self.ip_check.val());
                } else if self.step.q.val() == 6 {
                    self.write_data.next = self.beat.val() | (bit_cast::<64, 16>(self.tcp_check.val()) << 16);
                }
                if self.step.q.val() == 2 {
                    self.tcp_sum.d.next = self.tcp_sum.q.val() + bit_cast::<28, 22>(self.head_sum.q.val());
                } else if (self.step.q.val() == 3) | (self.step.q.val() == 4) {
                    self.tcp_sum.d.next = bit_cast::<28, 16>(self.tcp_sum.q.val().get_bits::<16>(0))
                        + bit_cast::<28, 12>(self.tcp_sum.q.val().get_bits::<12>(16));
                }
                if (self.step.q.val() == 7) | ((self.step.q.val() == 6) & !self.has_mss.q.val()) {
                    self.ident.d.next = self.ident.q.val() + 1;
                    self.state.d.next = SegTxState::Idle;
                }
            }
            _ => {
                self.state.d.next = SegTxState::Idle;
            }
        }
        if self.summing.val() {
            self.step.d.next = self.step.q.val() + 1;
            for i in 0..8 {
                if self.step.q.val().index() == i {
                    self.head_addend.d.next = self.beat.val() & self.masks[i].val();
                }
            }
            self.for_ip.d.next = self.step.q.val() < 4;
            self.for_tcp.d.next = self.step.q.val() > 1;
            // a word is in its sum 3 clocks later; twice folded is enough for what the sums can be
            if self.step.q.val() > 5 {
                self.ip_sum.d.next =
                    bit_cast::<20, 16>(self.ip_sum.q.val().get_bits::<16>(0)) + bit_cast::<20, 4>(self.ip_sum.q.val().get_bits::<4>(16));
            }
            if self.step.q.val() == 7 {
                self.head_addend.d.next = self.pseudo.val();
                self.summed.d.next = true;
            }
        }
        self.cnt_ip4_out_pkts.next = self.cnt_tcp_out_segs.val();
        if self.taken.val() {
            self.prev.d.next = self.clean.val();
            self.fresh.d.next = true;
            self.begun.d.next = true;
            self.write.next = self.begun.q.val();
            if self.has_mss.q.val() {
                self.write_data.next = (self.prev.q.val() >> 48) | (self.clean.val() << 16);
            } else {
                self.write_data.next = (self.prev.q.val() >> 16) | (self.clean.val() << 48);
            }
            if self.begun.q.val() {
                self.write_at.d.next = self.write_at.q.val() + 1;
            } else {
                self.lead.d.next = self.clean.val().get_bits::<48>(0);
            }
        }
        self.part.d.next = bit_cast::<18, 16>(self.addend.q.val().get_bits::<16>(0))
            + bit_cast::<18, 16>(self.addend.q.val().get_bits::<16>(16))
            + bit_cast::<18, 16>(self.addend.q.val().get_bits::<16>(32))
            + bit_cast::<18, 16>(self.addend.q.val().get_bits::<16>(48));
        self.head_part.d.next = bit_cast::<18, 16>(self.head_addend.q.val().get_bits::<16>(0))
            + bit_cast::<18, 16>(self.head_addend.q.val().get_bits::<16>(16))
            + bit_cast::<18, 16>(self.head_addend.q.val().get_bits::<16>(32))
            + bit_cast::<18, 16>(self.head_addend.q.val().get_bits::<16>(48));
        self.write_address.next = bit_cast::<SP1, S>(self.write_beat.val());
        if self.slot.q.val() {
            self.write_address.next = self.write_address.val() | self.upper.val();
        }
        self.ram.write_address.next = self.write_address.val();
        self.ram.write_data.next = self.write_data.val();
        self.ram.write_enable.next = self.write.val();

        // sending side
        self.base.next = 0.into();
        self.reader.len.next = self.lens[0].q.val();
        if self.sent.q.val().get_bit(0) {
            self.base.next = self.upper.val();
            self.reader.len.next = self.lens[1].q.val();
        }
        self.reader.base.next = self.base.val();
        self.reader.start.next = (self.filled.q.val() != self.sent.q.val()) & !self.reader.busy.val();
        self.reader.read_data.next = self.ram.read_data.val();
        self.ram.read_address.next = self.reader.read_address.val();
        self.out.beat.next = self.reader.out.beat.val();
        self.out.valid.next = self.reader.out.valid.val();
        self.reader.out.ready.next = self.out.ready.val();
        if self.reader.out.valid.val() & self.out.ready.val() & self.reader.out.beat.val().last {
            self.sent.d.next = self.sent.q.val() + 1;
        }

        if self.reset.val() {
            self.state.d.next = SegTxState::Idle;
            self.fresh.d.next = false;
            self.added.d.next = false;
            self.parted.d.next = false;
            self.for_ip.d.next = false;
            self.for_tcp.d.next = false;
            self.part_ip.d.next = false;
            self.part_tcp.d.next = false;
            self.filled.d.next = 0.into();
            self.sent.d.next = 0.into();
        }
    }
}
