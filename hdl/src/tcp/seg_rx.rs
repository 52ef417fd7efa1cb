// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frame to segment: walks the options of a segment and hands its payload on, as far as it is wanted.
//!
//! **Interface.** `inp` are the frames of the router's `tcp`, verified, with `meta`, `listening` and `listener`. For each frame `segment` tells what
//! came, `verdict` says what becomes of its payload: with `keep`, one `payload_meta` and then, on `out`, `take` octets from octet `skip` on, from
//! lane 0 (`skip` + `take` is at most the `len` of the segment, `take` is not 0). Whatever else the frame has is drained. `segment.data` stays as it
//! was until the verdict was taken. A `payload_meta` comes after the last beat of the payload before it was taken.
//!
//! **Rules.** The header's length is the data offset's; the payload ends where the datagram ends, what follows in the frame is padding (ETH-3).
//! Options are walked in any segment (TCP-2): 0 ends them, 1 is one octet, each other kind has a length in its second octet. Kind 2 of length 4
//! is the MSS, of which the last one counts; a value of 0 is told as 1, for 0 means that there was none. A length of 0 or 1, one beyond the
//! header, or none because the header ends before it, makes `bad_options`. Reserved bits, urgent flag and urgent pointer have no effect.
//!
//! **Two halves.** The first takes frames, the second gives payloads, and a queue of 512 beats is between them: so a segment is told, and its verdict found, while the payload
//! before it passes. One segment is told at a time; the header of the next is walked meanwhile and waits.
//!
//! **States.** First half: `Head`: takes the beats before the one in which the payload starts, and keeps the last eight; `Kind`, `Length`, `MssHigh`, `MssLow`: one octet of the
//! options a clock; `Tell` the segment, when the verdict for the one before was taken; `Fill` the queue to the frame's end. Second half: `Judge`: await the verdict; `Announce` the
//! payload; `Seek`: drop the beats before its first octet; `Pass`: a beat out for a beat in; `Drain` the rest of the frame.
//!
//! **Waiting.** `inp` waits for the queue, this for `verdict`, `payload_meta` and `out`. The engine behind must give its verdict without another segment, and
//! the receiver of the payload must take it, or drop it, whatever happens to the connection: then each wait ends.
//!
//! **Timing.** A frame without options costs a clock more than it has beats; `segment` is offered 8 clocks after its first. Every other 4 octets of options are a beat more to take, and
//! the walk costs a clock an octet of padding, 2 an option, 4 an MSS, 1 for the end: 14 clocks with an MSS alone, 23 with the five options of a common SYN,
//! at most 54. `verdict` is taken at once if no payload is under way, the payload leaves at one beat a clock, the first one 3 clocks after `payload_meta` was taken; draining takes a
//! beat a clock. A payload whose verdict waits for it follows 3 clocks behind the one before.
//! **Memory:** 8 words of 64 bits; 512 of 65 (2 block RAMs).
use super::types::{PayloadIn, SegmentIn, Verdict};
use crate::net::types::RxMeta;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SegRxState {
    Head,
    Kind,
    Length,
    MssHigh,
    MssLow,
    Tell,
    Fill,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum SegRxPayloadState {
    Judge,
    Announce,
    Seek,
    Pass,
    Drain,
}

/// A beat from the one on in which the payload starts.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SegRxBeat {
    pub data: Bits<64>,
    pub last: Bit,
}

#[derive(LogicBlock)]
pub struct SegRx {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub meta: Signal<In, RxMeta>,
    pub listening: Signal<In, Bit>,
    pub listener: Signal<In, Bits<16>>,
    pub inp: StreamSink,
    pub segment: ChanSrc<SegmentIn>,
    pub verdict: ChanSink<Verdict>,
    pub payload_meta: ChanSrc<PayloadIn>,
    pub out: StreamSrc,
    state: DFF<SegRxState>,
    /// Number of the beat at `inp`.
    beat: DFF<Bits<5>>,
    /// Octets of the frame before the payload.
    payload_at: DFF<Bits<7>>,
    len: DFF<Bits<16>>,
    /// The last beats taken, by the lower bits of their number.
    words: RAM<Bits<64>, 3>,
    /// Octet of the frame that `words` shows.
    at: DFF<Bits<7>>,
    kind: DFF<Bits<8>>,
    mss: DFF<Bits<16>>,
    bad: DFF<Bit>,
    /// The segment that is told or judged, and where in a beat its payload starts.
    told: DFF<SegmentIn>,
    told_lane: DFF<Bits<3>>,
    there: DFF<Bit>,
    /// It was taken.
    asked: DFF<Bit>,
    // second half
    queue: ChanFifo<SegRxBeat, 9, 10>,
    payload_state: DFF<SegRxPayloadState>,
    /// Number of the beat at the queue's end, among those of its frame.
    place: DFF<Bits<13>>,
    announce: DFF<PayloadIn>,
    /// Octet of the frame, from the beat on in which the payload starts, that is the first to be handed on.
    start: DFF<Bits<16>>,
    /// Octets still to be handed on.
    left: DFF<Bits<16>>,
    /// The beat before that at the queue's end.
    held: DFF<Bits<64>>,
    /// The frame's last beat was taken.
    ended: DFF<Bit>,
    put: DFF<Beat>,
    full: DFF<Bit>,
    tuple: Signal<Local, super::types::Tuple>,
    header: Signal<Local, Bits<7>>,
    first_beat: Signal<Local, Bits<4>>,
    at_next: Signal<Local, Bits<7>>,
    word: Signal<Local, Bits<64>>,
    lane: Signal<Local, Bits<3>>,
    octet: Signal<Local, Bits<8>>,
    target: Signal<Local, Bits<9>>,
    payload_wide: Signal<Local, Bits<9>>,
    room: Signal<Local, Bit>,
    shift: Signal<Local, Bits<3>>,
    held_octets: Signal<Local, Bits<16>>,
    alone: Signal<Local, Bit>,
    done: Signal<Local, Bit>,
    go: Signal<Local, Bit>,
    takes: Signal<Local, Bit>,
    fill: Signal<Local, Bit>,
    pulls: Signal<Local, Bit>,
    came: Signal<Local, Bit>,
    judged: Signal<Local, Bit>,
    now: Signal<Local, Bits<64>>,
    both: Signal<Local, Bits<64>>,
    low: [Constant<Bits<64>>; 8],
    high: [Constant<Bits<64>>; 8],
    keeps: [Constant<Bits<8>>; 8],
}

impl Default for SegRx {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            meta: Default::default(),
            listening: Default::default(),
            listener: Default::default(),
            inp: Default::default(),
            segment: Default::default(),
            verdict: Default::default(),
            payload_meta: Default::default(),
            out: Default::default(),
            state: Default::default(),
            beat: Default::default(),
            payload_at: Default::default(),
            len: Default::default(),
            words: Default::default(),
            at: Default::default(),
            kind: Default::default(),
            mss: Default::default(),
            bad: Default::default(),
            told: Default::default(),
            told_lane: Default::default(),
            there: Default::default(),
            asked: Default::default(),
            queue: Default::default(),
            payload_state: Default::default(),
            place: Default::default(),
            announce: Default::default(),
            start: Default::default(),
            left: Default::default(),
            held: Default::default(),
            ended: Default::default(),
            put: Default::default(),
            full: Default::default(),
            tuple: Default::default(),
            header: Default::default(),
            first_beat: Default::default(),
            at_next: Default::default(),
            word: Default::default(),
            lane: Default::default(),
            octet: Default::default(),
            target: Default::default(),
            payload_wide: Default::default(),
            room: Default::default(),
            shift: Default::default(),
            held_octets: Default::default(),
            alone: Default::default(),
            done: Default::default(),
            go: Default::default(),
            takes: Default::default(),
            fill: Default::default(),
            pulls: Default::default(),
            came: Default::default(),
            judged: Default::default(),
            now: Default::default(),
            both: Default::default(),
            // how far down the held beat goes, and how far up the one after it
            low: std::array::from_fn(|n| Constant::new((8 * n as u64).to_bits())),
            high: std::array::from_fn(|n| Constant::new((64 - 8 * n as u64).to_bits())),
            // octets of the last beat as a function of their number modulo 8
            keeps: std::array::from_fn(|n| Constant::new(if n == 0 { 0xff } else { (1u64 << n) - 1 }.to_bits())),
        }
    }
}

impl Logic for SegRx {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, beat, payload_at, len, at, kind, mss, bad, told, told_lane, there, asked);
        dff_setup!(self, clock, payload_state, place, announce, start, left, held, ended, put, full);
        clock!(self, clock, queue);
        self.queue.reset.next = self.reset.val();
        self.words.read_clock.next = self.clock.val();
        self.words.write_clock.next = self.clock.val();

        self.segment.data.next = self.told.q.val();
        self.segment.valid.next = self.there.q.val() & !self.asked.q.val();
        if self.there.q.val() & self.segment.ready.val() {
            self.asked.d.next = true;
        }

        // options
        self.header.next = (bit_cast::<7, 4>(self.meta.val().data_offset) << 2) + 20;
        self.first_beat.next = self.payload_at.q.val().get_bits::<4>(3);
        self.words.write_enable.next = false;
        self.words.write_address.next = self.beat.q.val().get_bits::<3>(0);
        self.words.write_data.next = self.inp.beat.val().data;
        self.word.next = self.words.read_data.val();
        self.lane.next = self.at.q.val().get_bits::<3>(0);
        self.octet.next = self.word.val().get_bits::<8>(self.lane.val().index() * 8);
        self.payload_wide.next = bit_cast::<9, 7>(self.payload_at.q.val());
        self.target.next = bit_cast::<9, 7>(self.at.q.val()) + bit_cast::<9, 8>(self.octet.val()) - 1;
        self.at_next.next = self.at.q.val();
        // `meta` holds until the last beat is taken, which no state before `Fill` does
        self.tuple.next.local_ip = self.meta.val().dst_ip;
        self.tuple.next.remote_ip = self.meta.val().src_ip;
        self.tuple.next.local_port = self.meta.val().dst_port;
        self.tuple.next.remote_port = self.meta.val().src_port;
        self.queue.inp.data.next.data = self.inp.beat.val().data;
        self.queue.inp.data.next.last = self.inp.beat.val().last;
        self.judged.next = false;
        self.takes.next = false;
        self.fill.next = false;

        match self.state.q.val() {
            SegRxState::Head => {
                self.payload_at.d.next = self.header.val() + 14;
                self.len.d.next = self.meta.val().ip_len - bit_cast::<16, 7>(self.header.val());
                self.at_next.next = 54.into();
                self.mss.d.next = 0.into();
                self.bad.d.next = false;
                // the beat in which the options end and the payload starts is looked at but stays
                self.words.write_enable.next = self.inp.valid.val();
                if self.inp.valid.val() {
                    if (self.beat.q.val().any()) & (self.beat.q.val() == bit_cast::<5, 4>(self.first_beat.val())) {
                        self.state.d.next = SegRxState::Kind;
                        if self.payload_at.q.val() == 54 {
                            self.state.d.next = SegRxState::Tell;
                        }
                    } else {
                        self.takes.next = true;
                    }
                }
            }
            SegRxState::Kind => {
                self.kind.d.next = self.octet.val();
                self.at_next.next = self.at.q.val() + 1;
                if (self.at.q.val() == self.payload_at.q.val()) | (self.octet.val() == 0) {
                    self.state.d.next = SegRxState::Tell;
                } else if self.octet.val() != 1 {
                    self.state.d.next = SegRxState::Length;
                }
            }
            SegRxState::Length => {
                // `at` is one beyond the start of the option
                self.at_next.next = self.target.val().get_bits::<7>(0);
                self.state.d.next = SegRxState::Kind;
                if (self.kind.q.val() == 2) & (self.octet.val() == 4) {
                    self.at_next.next = self.at.q.val() + 1;
                    self.state.d.next = SegRxState::MssHigh;
                }
                if (self.at.q.val() == self.payload_at.q.val()) | (self.octet.val() < 2) | (self.target.val() > self.payload_wide.val()) {
                    self.bad.d.next = true;
                    self.state.d.next = SegRxState::Tell;
                }
            }
            SegRxState::MssHigh => {
                self.mss.d.next = bit_cast::<16, 8>(self.octet.val()) << 8;
                self.at_next.next = self.at.q.val() + 1;
                self.state.d.next = SegRxState::MssLow;
            }
            SegRxState::MssLow => {
                self.mss.d.next = self.mss.q.val() | bit_cast::<16, 8>(self.octet.val());
                if (self.mss.q.val() == 0) & (self.octet.val() == 0) {
                    self.mss.d.next = 1.into();
                }
                self.at_next.next = self.at.q.val() + 1;
                self.state.d.next = SegRxState::Kind;
            }
            SegRxState::Tell => {
                if !self.there.q.val() {
                    self.there.d.next = true;
                    self.asked.d.next = false;
                    self.told_lane.d.next = self.payload_at.q.val().get_bits::<3>(0);
                    self.told.d.next.tuple = self.tuple.val();
                    self.told.d.next.seq = self.meta.val().seq;
                    self.told.d.next.ack = self.meta.val().ack;
                    self.told.d.next.flags = self.meta.val().tcp_flags;
                    self.told.d.next.window = self.meta.val().window;
                    self.told.d.next.len = self.len.q.val();
                    self.told.d.next.mss = self.mss.q.val();
                    self.told.d.next.bad_options = self.bad.q.val();
                    self.told.d.next.link_broadcast = self.meta.val().link_broadcast;
                    self.told.d.next.listening = self.listening.val();
                    self.told.d.next.listener = self.listener.val();
                    self.told.d.next.replay = false;
                    self.told.d.next.index = 0.into();
                    self.told.d.next.more = false;
                    self.state.d.next = SegRxState::Fill;
                }
            }
            SegRxState::Fill => {
                self.fill.next = true;
                if self.inp.valid.val() & self.queue.inp.ready.val() & self.inp.beat.val().last {
                    self.state.d.next = SegRxState::Head;
                }
            }
            _ => {
                self.state.d.next = SegRxState::Head;
            }
        }
        self.queue.inp.valid.next = self.fill.val() & self.inp.valid.val();
        self.inp.ready.next = self.takes.val() | (self.fill.val() & self.queue.inp.ready.val());
        if self.takes.val() {
            self.beat.d.next = self.beat.q.val() + 1;
        }
        if self.fill.val() {
            self.beat.d.next = 0.into();
        }
        self.at.d.next = self.at_next.val();
        self.words.read_address.next = self.at_next.val().get_bits::<3>(3);

        // payload: the upper part of one beat and the lower part of the next
        self.came.next = self.queue.out.valid.val();
        self.now.next = self.queue.out.data.val().data;
        self.verdict.ready.next = false;
        self.payload_meta.valid.next = false;
        self.payload_meta.data.next = self.announce.q.val();
        self.shift.next = self.start.q.val().get_bits::<3>(0);
        self.held_octets.next = bits::<16>(8) - bit_cast::<16, 3>(self.shift.val());
        self.alone.next = self.left.q.val() <= self.held_octets.val();
        self.done.next = self.left.q.val() <= 8;
        self.room.next = !self.full.q.val() | self.out.ready.val();
        self.go.next = self.room.val() & (self.alone.val() | self.came.val());
        self.pulls.next = false;
        self.both.next = self.held.q.val();
        for i in 1..8 {
            if self.shift.val().index() == i {
                self.both.next = (self.held.q.val() >> self.low[i].val()) | (self.now.val() << self.high[i].val());
            }
        }
        self.out.beat.next = self.put.q.val();
        self.out.valid.next = self.full.q.val();
        if self.room.val() {
            self.full.d.next = false;
        }

        match self.payload_state.q.val() {
            SegRxPayloadState::Judge => {
                self.verdict.ready.next = true;
                self.place.d.next = 0.into();
                self.ended.d.next = false;
                self.announce.d.next.index = self.verdict.data.val().index;
                self.announce.d.next.len = self.verdict.data.val().take;
                self.announce.d.next.first = self.verdict.data.val().first;
                self.announce.d.next.passive = self.verdict.data.val().passive;
                self.announce.d.next.full = self.verdict.data.val().full;
                self.start.d.next = self.verdict.data.val().skip + bit_cast::<16, 3>(self.told_lane.q.val());
                self.left.d.next = self.verdict.data.val().take;
                if self.verdict.valid.val() {
                    self.judged.next = true;
                    self.payload_state.d.next = SegRxPayloadState::Drain;
                    if self.verdict.data.val().keep {
                        self.payload_state.d.next = SegRxPayloadState::Announce;
                    }
                }
            }
            SegRxPayloadState::Announce => {
                // the receiver of the payload before may be another
                self.payload_meta.valid.next = !self.full.q.val();
                if self.payload_meta.ready.val() & !self.full.q.val() {
                    self.payload_state.d.next = SegRxPayloadState::Seek;
                }
            }
            SegRxPayloadState::Seek => {
                self.pulls.next = true;
                if self.came.val() & (self.place.q.val() == self.start.q.val().get_bits::<13>(3)) {
                    self.payload_state.d.next = SegRxPayloadState::Pass;
                }
            }
            SegRxPayloadState::Pass => {
                self.pulls.next = self.room.val() & !self.alone.val();
                if self.go.val() {
                    self.full.d.next = true;
                    self.left.d.next = self.left.q.val() - 8;
                    if self.done.val() {
                        self.payload_state.d.next = SegRxPayloadState::Drain;
                        if self.ended.q.val() | (!self.alone.val() & self.queue.out.data.val().last) {
                            self.payload_state.d.next = SegRxPayloadState::Judge;
                        }
                    }
                }
            }
            SegRxPayloadState::Drain => {
                self.pulls.next = true;
                if self.came.val() & self.queue.out.data.val().last {
                    self.payload_state.d.next = SegRxPayloadState::Judge;
                }
            }
            _ => {
                self.payload_state.d.next = SegRxPayloadState::Judge;
            }
        }
        if self.judged.val() {
            self.there.d.next = false;
        }

        self.queue.out.ready.next = self.pulls.val();
        if self.pulls.val() & self.came.val() {
            self.place.d.next = self.place.q.val() + 1;
            self.held.d.next = self.now.val();
            if self.queue.out.data.val().last {
                self.ended.d.next = true;
            }
        }
        if self.room.val() {
            self.put.d.next.data = self.both.val();
            self.put.d.next.last = self.done.val();
            self.put.d.next.error = false;
            self.put.d.next.keep = 0xff.into();
            if self.done.val() {
                for i in 0..8 {
                    if self.left.q.val().get_bits::<3>(0).index() == i {
                        self.put.d.next.keep = self.keeps[i].val();
                    }
                }
            }
        }

        if self.reset.val() {
            self.state.d.next = SegRxState::Head;
            self.beat.d.next = 0.into();
            self.there.d.next = false;
            self.payload_state.d.next = SegRxPayloadState::Judge;
            self.full.d.next = false;
        }
    }
}
