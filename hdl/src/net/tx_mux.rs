// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit multiplexer: the frames of `N` sources onto the one stream to the MAC, whole frames in turn.
//!
//! Interface: `inp[i]` from source i, `out` to the MAC. `error` of the sources is not looked at: a source offers only frames that it
//! means. In a last beat the octets outside `keep` may have any value; here they become zero, and a frame under 60 octets is
//! filled up with zero octets to 60 (ETH-2). `to_own` says with each beat whether its frame goes to `own_mac`: `net::loopback` takes it then.
//! `cnt_eth_out_frames` pulses when the MAC takes a frame's last beat, `cnt_eth_out_underrun` when that frame had a gap: the MAC was ready inside
//! it and no beat was there.
//!
//! States: `busy` = a source has the turn (`idle`, `stop`: so that a reset cuts no frame); `pad` = its frame has ended but has not reached 60 octets. The next source is the first one
//! with `valid`, counted upwards from the one after the last served.
//!
//! Timing: `out` is a register; one beat a clock within a frame, one idle clock between frames (the wire's own gap is 3 beats),
//! 2 clocks from a source's first `valid` to `out.valid` when idle. Memory: none; 87 flip-flops.
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(LogicBlock)]
pub struct TxMux<const N: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    /// No frame begins any more; the one that has begun goes out whole.
    pub stop: Signal<In, Bit>,
    /// Nothing of a frame is here: a reset now cuts none.
    pub idle: Signal<Out, Bit>,
    pub own_mac: Signal<In, Bits<48>>,
    pub to_own: Signal<Out, Bit>,
    pub inp: [StreamSink; N],
    pub out: StreamSrc,
    pub cnt_eth_out_frames: Signal<Out, Bit>,
    pub cnt_eth_out_underrun: Signal<Out, Bit>,
    busy: DFF<Bit>,
    pad: DFF<Bit>,
    /// One bit a source: who has, or had, the turn.
    turn: DFF<Bits<N>>,
    /// Beats of this frame already put into `held`, saturating at 8.
    index: DFF<Bits<4>>,
    held: DFF<Beat>,
    full: DFF<Bit>,
    /// The frame of `held` goes to the own MAC address.
    own: DFF<Bit>,
    /// There was a gap in this frame / in the frame whose last beat is in `held`.
    gap: DFF<Bit>,
    late: DFF<Bit>,
    offer: Signal<Local, Bits<N>>,
    after: Signal<Local, Bit>,
    found: Signal<Local, Bit>,
    choice: Signal<Local, Bits<N>>,
    room: Signal<Local, Bit>,
    beat: Signal<Local, Beat>,
    valid: Signal<Local, Bit>,
    keep: Signal<Local, Bits<8>>,
    data: Signal<Local, Bits<64>>,
    clean: Signal<Local, Bits<64>>,
    put: Signal<Local, Beat>,
    put_valid: Signal<Local, Bit>,
    lane: [Constant<Bits<64>>; 8],
    one: [Constant<Bits<N>>; N],
}

impl<const N: usize> Default for TxMux<N> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            stop: Default::default(),
            idle: Default::default(),
            own_mac: Default::default(),
            to_own: Default::default(),
            inp: std::array::from_fn(|_| Default::default()),
            out: Default::default(),
            cnt_eth_out_frames: Default::default(),
            cnt_eth_out_underrun: Default::default(),
            busy: Default::default(),
            pad: Default::default(),
            turn: Default::default(),
            index: Default::default(),
            held: Default::default(),
            full: Default::default(),
            own: Default::default(),
            gap: Default::default(),
            late: Default::default(),
            offer: Default::default(),
            after: Default::default(),
            found: Default::default(),
            choice: Default::default(),
            room: Default::default(),
            beat: Default::default(),
            valid: Default::default(),
            keep: Default::default(),
            data: Default::default(),
            clean: Default::default(),
            put: Default::default(),
            put_valid: Default::default(),
            lane: std::array::from_fn(|i| Constant::new((0xffu64 << (8 * i)).to_bits())),
            one: std::array::from_fn(|i| Constant::new((1u64 << i).to_bits())),
        }
    }
}

impl<const N: usize> Logic for TxMux<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, busy, pad, turn, index, held, full, own, gap, late);
        self.out.beat.next = self.held.q.val();
        self.out.valid.next = self.full.q.val();
        self.to_own.next = self.own.q.val();
        self.room.next = !self.full.q.val() | self.out.ready.val();
        self.cnt_eth_out_frames.next = self.full.q.val() & self.out.ready.val() & self.held.q.val().last & !self.own.q.val();
        self.cnt_eth_out_underrun.next =
            self.full.q.val() & self.out.ready.val() & self.held.q.val().last & self.late.q.val() & !self.own.q.val();

        // the first offer after the turn, else the first of all
        self.offer.next = 0.into();
        self.choice.next = 0.into();
        self.found.next = false;
        self.after.next = false;
        for i in 0..N {
            if self.inp[i].valid.val() {
                self.offer.next = self.offer.val() | self.one[i].val();
            }
            if self.after.val() & self.inp[i].valid.val() & !self.found.val() {
                self.choice.next = self.one[i].val();
                self.found.next = true;
            }
            if self.turn.q.val().get_bit(i) {
                self.after.next = true;
            }
        }
        for i in 0..N {
            if self.inp[i].valid.val() & !self.found.val() {
                self.choice.next = self.one[i].val();
                self.found.next = true;
            }
        }

        // the beat of the source whose turn it is
        self.beat.next.data = 0.into();
        self.beat.next.keep = 0.into();
        self.beat.next.last = false;
        self.beat.next.error = false;
        self.valid.next = false;
        for i in 0..N {
            self.inp[i].ready.next = self.busy.q.val() & self.turn.q.val().get_bit(i) & self.room.val();
            if self.turn.q.val().get_bit(i) {
                self.beat.next = self.inp[i].beat.val();
                self.valid.next = self.busy.q.val() & self.inp[i].valid.val();
            }
        }
        self.keep.next = self.beat.val().keep;
        self.data.next = self.beat.val().data;
        if self.pad.q.val() {
            self.keep.next = 0.into();
        }
        self.clean.next = 0.into();
        for i in 0..8 {
            if self.keep.val().get_bit(i) {
                self.clean.next = self.clean.val() | (self.data.val() & self.lane[i].val());
            }
        }
        self.put.next.data = self.clean.val();
        self.put.next.keep = self.keep.val();
        self.put.next.last = self.beat.val().last;
        self.put.next.error = false;
        self.put_valid.next = self.valid.val() | self.pad.q.val();
        if self.pad.q.val() | self.beat.val().last {
            if self.index.q.val() < 7 {
                self.put.next.keep = 0xff.into();
                self.put.next.last = false;
            } else if (self.index.q.val() == 7) & !self.keep.val().get_bit(3) {
                // beat 7 of a frame that ends before octet 60
                self.put.next.keep = 0x0f.into();
                self.put.next.last = true;
            }
        }

        if self.room.val() {
            self.full.d.next = self.put_valid.val();
            if self.put_valid.val() {
                self.held.d.next = self.put.val();
                self.late.d.next = self.gap.q.val();
                if self.index.q.val() == 0 {
                    self.own.d.next = self.data.val().get_bits::<48>(0) == self.own_mac.val();
                }
                if self.index.q.val() != 8 {
                    self.index.d.next = self.index.q.val() + 1;
                }
                if self.put.val().last {
                    self.busy.d.next = false;
                    self.pad.d.next = false;
                } else if self.beat.val().last & self.busy.q.val() {
                    self.busy.d.next = false;
                    self.pad.d.next = true;
                }
            }
        }
        if self.out.ready.val() & !self.full.q.val() & self.busy.q.val() & (self.index.q.val() != 0) {
            self.gap.d.next = true;
        }
        if !self.busy.q.val() & !self.pad.q.val() & self.offer.val().any() & !self.stop.val() {
            self.turn.d.next = self.choice.val();
            self.busy.d.next = true;
            self.index.d.next = 0.into();
            self.gap.d.next = false;
        }
        self.idle.next = !self.busy.q.val() & !self.pad.q.val() & !self.full.q.val();
        if self.reset.val() {
            self.busy.d.next = false;
            self.pad.d.next = false;
            self.full.d.next = false;
            self.turn.d.next = 0.into();
        }
    }
}
