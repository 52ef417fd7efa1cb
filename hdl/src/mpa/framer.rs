// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts an FPDU together: length, DDP and RDMAP header, payload, markers (RFC 5044 sections 4.1 to 4.3), and the place of the CRC.
//!
//! **Interface.** `job` describes the FPDU, `payload` brings the beats of its payload, none if `len` is 0. `out` is the FPDU in beats of two words (a
//! word has 4 octets), from lane 0; the beat with `last` has the CRC in its last word, which is the first one if `full` is not set; what stands there is
//! not to be looked at. `cut` belongs to the FPDU of the beat that is offered.
//!
//! **The words.** ULPDU_Length and the control octets; STag; a TO, or QN, MSN and MO; payload with PAD; CRC. Everything in an FPDU is made of whole
//! words, so a marker only moves what is behind it by one word: `odd` says that the word in `carry` comes before what the sources bring. An untagged
//! header has an odd number of words and begins with its first one there. Before each word whose place in the stream is a multiple of 512 stands a marker
//! (MRK-1), also before the first and before the CRC, not after it. FPDUPTR is what was sent since ULPDU_Length (MRK-2).
//!
//! **States.** `step`: 0 idle, 1 and 2 the beats of the header, 3 payload, 4 nothing more than the CRC. **Timing.** First beat 2 clocks after the job was
//! taken; one a clock; the next job is taken in the clock in which the last beat is. **Memory:** registers.
use super::gather::GatherBeat;
use crate::stream::*;
use rust_hdl::prelude::*;

/// Which octets of the FPDU are wanted, and of whom it is.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduCut {
    pub index: Bits<16>,
    /// Beats before the first wanted octet; octets that are wanted.
    pub skip: Bits<13>,
    pub take: Bits<16>,
    /// The CRC is to be made, else it is 0.
    pub crc: Bit,
}

/// Numbers are plain.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FpduJob {
    pub cut: FpduCut,
    pub tagged: Bit,
    pub last: Bit,
    pub opcode: Bits<4>,
    pub stag: Bits<32>,
    /// Upper and lower half of TO; or QN and MSN.
    pub second: Bits<32>,
    pub third: Bits<32>,
    pub mo: Bits<32>,
    /// Octets of payload.
    pub len: Bits<16>,
    pub markers: Bit,
    /// Place of the first word modulo 128 words.
    pub place: Bits<7>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct FramerBeat {
    pub data: Bits<64>,
    pub full: Bit,
    pub last: Bit,
    /// With `last`: something of the payload could not be read.
    pub failed: Bit,
}

#[derive(LogicBlock, Default)]
pub struct Framer {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub job: ChanSink<FpduJob>,
    pub payload: ChanSink<GatherBeat>,
    pub out: ChanSrc<FramerBeat>,
    pub cut: Signal<Out, FpduCut>,
    step: DFF<Bits<3>>,
    cut_now: DFF<FpduCut>,
    /// Beats of the header.
    first: DFF<Bits<64>>,
    second: DFF<Bits<64>>,
    with_payload: DFF<Bit>,
    markers: DFF<Bit>,
    place: DFF<Bits<7>>,
    /// Words that are not out yet, CRC included, markers not.
    left: DFF<Bits<15>>,
    /// Words since ULPDU_Length, markers included; nothing of this FPDU is out.
    since: DFF<Bits<14>>,
    fresh: DFF<Bit>,
    odd: DFF<Bit>,
    carry: DFF<Bits<32>>,
    failed: DFF<Bit>,
    beat: DFF<FramerBeat>,
    offered: DFF<Bit>,
    asked: Signal<Local, FpduJob>,
    ulpdu: Signal<Local, Bits<16>>,
    octets: Signal<Local, Bits<17>>,
    words: Signal<Local, Bits<15>>,
    ddp: Signal<Local, Bits<8>>,
    rdmap: Signal<Local, Bits<8>>,
    number: [Signal<Local, Bits<32>>; 5],
    one: Signal<Local, Bits<32>>,
    on_wire: [Signal<Local, Bits<32>>; 5],
    ahead: Signal<Local, Bit>,
    between: Signal<Local, Bit>,
    marker: Signal<Local, Bit>,
    only: Signal<Local, Bit>,
    ending: Signal<Local, Bit>,
    feed: Signal<Local, Bit>,
    there: Signal<Local, Bit>,
    free: Signal<Local, Bit>,
    go: Signal<Local, Bit>,
    source: Signal<Local, Bits<64>>,
    low: Signal<Local, Bits<32>>,
    high: Signal<Local, Bits<32>>,
    this_word: Signal<Local, Bits<32>>,
    next_word: Signal<Local, Bits<32>>,
    pointer: Signal<Local, Bits<14>>,
    pointer_octets: Signal<Local, Bits<16>>,
    mark: Signal<Local, Bits<32>>,
    out_low: Signal<Local, Bits<32>>,
    out_high: Signal<Local, Bits<32>>,
}

impl Logic for Framer {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            step,
            cut_now,
            first,
            second,
            with_payload,
            markers,
            place,
            left,
            since,
            fresh,
            odd,
            carry,
            failed,
            beat,
            offered
        );

        self.cut.next = self.cut_now.q.val();
        self.out.data.next = self.beat.q.val();
        self.out.valid.next = self.offered.q.val();
        self.free.next = !self.offered.q.val() | self.out.ready.val();
        if self.out.ready.val() {
            self.offered.d.next = false;
        }

        // the header of the next job
        self.asked.next = self.job.data.val();
        self.ulpdu.next = self.asked.val().len + 18;
        self.octets.next = bit_cast::<17, 16>(self.asked.val().len) + 27;
        self.ddp.next = 0x01.into();
        if self.asked.val().last {
            self.ddp.next = 0x41.into();
        }
        if self.asked.val().tagged {
            self.ulpdu.next = self.asked.val().len + 14;
            self.octets.next = bit_cast::<17, 16>(self.asked.val().len) + 23;
            self.ddp.next = self.ddp.val() | 0x80;
        }
        self.words.next = self.octets.val().get_bits::<15>(2);
        self.rdmap.next = bit_cast::<8, 4>(self.asked.val().opcode) | 0x40;
        self.number[0].next =
            (bit_cast::<32, 16>(self.ulpdu.val()) << 16) | (bit_cast::<32, 8>(self.ddp.val()) << 8) | bit_cast::<32, 8>(self.rdmap.val());
        self.number[1].next = self.asked.val().stag;
        self.number[2].next = self.asked.val().second;
        self.number[3].next = self.asked.val().third;
        self.number[4].next = self.asked.val().mo;
        for i in 0..5 {
            self.one.next = self.number[i].val();
            self.on_wire[i].next = (bit_cast::<32, 8>(self.one.val().get_bits::<8>(0)) << 24)
                | (bit_cast::<32, 8>(self.one.val().get_bits::<8>(8)) << 16)
                | (bit_cast::<32, 8>(self.one.val().get_bits::<8>(16)) << 8)
                | bit_cast::<32, 8>(self.one.val().get_bits::<8>(24));
        }

        // what stands in the next beat
        self.ahead.next = self.markers.q.val() & (self.place.q.val() == 0);
        self.only.next = self.left.q.val() == 1;
        self.between.next = self.markers.q.val() & (self.place.q.val() == 127) & !self.only.val();
        self.marker.next = self.ahead.val() | self.between.val();
        self.ending.next = self.only.val() | ((self.left.q.val() == 2) & !self.marker.val());
        self.feed.next = !self.odd.q.val() | (!self.marker.val() & !self.only.val());
        self.there.next = true;
        self.source.next = self.first.q.val();
        if self.step.q.val() == 2 {
            self.source.next = self.second.q.val();
        }
        if self.step.q.val() == 3 {
            self.source.next = self.payload.data.val().data;
            self.there.next = self.payload.valid.val();
        }
        self.go.next = (self.step.q.val() != 0) & self.free.val() & (!self.feed.val() | self.there.val());
        self.low.next = self.source.val().get_bits::<32>(0);
        self.high.next = self.source.val().get_bits::<32>(32);
        self.this_word.next = self.low.val();
        self.next_word.next = self.high.val();
        if self.odd.q.val() {
            self.this_word.next = self.carry.q.val();
            self.next_word.next = self.low.val();
        }
        self.pointer.next = self.since.q.val();
        if self.between.val() {
            self.pointer.next = self.since.q.val() + 1;
        }
        self.pointer_octets.next = bit_cast::<16, 14>(self.pointer.val()) << 2;
        self.mark.next = (bit_cast::<32, 8>(self.pointer_octets.val().get_bits::<8>(8)) << 16)
            | (bit_cast::<32, 8>(self.pointer_octets.val().get_bits::<8>(0)) << 24);
        self.out_low.next = self.this_word.val();
        self.out_high.next = self.next_word.val();
        if self.between.val() {
            self.out_high.next = self.mark.val();
        }
        if self.ahead.val() {
            self.out_low.next = self.mark.val();
            self.out_high.next = self.this_word.val();
        }

        self.payload.ready.next = false;
        if self.go.val() {
            self.beat.d.next.data = (bit_cast::<64, 32>(self.out_high.val()) << 32) | bit_cast::<64, 32>(self.out_low.val());
            self.beat.d.next.full = self.ahead.val() | !self.only.val();
            self.beat.d.next.last = self.ending.val();
            self.beat.d.next.failed = self.failed.q.val();
            self.offered.d.next = true;
            self.place.d.next = self.place.q.val() + 2;
            self.fresh.d.next = false;
            self.since.d.next = self.since.q.val() + 2;
            if self.ahead.val() & self.fresh.q.val() {
                self.since.d.next = 1.into();
            }
            self.left.d.next = self.left.q.val() - 2;
            if self.marker.val() {
                self.left.d.next = self.left.q.val() - 1;
            }
            self.odd.d.next = self.odd.q.val() ^ self.marker.val();
            if self.feed.val() {
                self.carry.d.next = self.high.val();
                if self.step.q.val() == 1 {
                    self.step.d.next = 2.into();
                }
                if self.step.q.val() == 2 {
                    self.step.d.next = 4.into();
                    if self.with_payload.q.val() {
                        self.step.d.next = 3.into();
                    }
                }
                if self.step.q.val() == 3 {
                    self.payload.ready.next = true;
                    if self.payload.data.val().last {
                        self.step.d.next = 4.into();
                        self.failed.d.next = self.payload.data.val().failed;
                        self.beat.d.next.failed = self.payload.data.val().failed;
                    }
                }
            }
            if self.ending.val() {
                self.step.d.next = 0.into();
            }
        }

        self.job.ready.next = false;
        if (self.step.q.val() == 0) & self.free.val() {
            self.job.ready.next = true;
            self.cut_now.d.next = self.asked.val().cut;
            self.first.d.next = (bit_cast::<64, 32>(self.on_wire[2].val()) << 32) | bit_cast::<64, 32>(self.on_wire[1].val());
            self.second.d.next = (bit_cast::<64, 32>(self.on_wire[4].val()) << 32) | bit_cast::<64, 32>(self.on_wire[3].val());
            if self.asked.val().tagged {
                self.first.d.next = (bit_cast::<64, 32>(self.on_wire[1].val()) << 32) | bit_cast::<64, 32>(self.on_wire[0].val());
                self.second.d.next = (bit_cast::<64, 32>(self.on_wire[3].val()) << 32) | bit_cast::<64, 32>(self.on_wire[2].val());
            }
            self.odd.d.next = !self.asked.val().tagged;
            self.carry.d.next = self.on_wire[0].val();
            self.with_payload.d.next = self.asked.val().len != 0;
            self.markers.d.next = self.asked.val().markers;
            self.place.d.next = self.asked.val().place;
            self.left.d.next = self.words.val();
            self.since.d.next = 0.into();
            self.fresh.d.next = true;
            self.failed.d.next = false;
            if self.job.valid.val() {
                self.step.d.next = 1.into();
            }
        }

        if self.reset.val() {
            self.step.d.next = 0.into();
            self.offered.d.next = false;
        }
    }
}
