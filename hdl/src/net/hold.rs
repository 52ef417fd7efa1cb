// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole frames from the host on their way to the wire: eight places of 2^A words, of which W may wait for their next hop (ARP-6).
//!
//! **Interface.** The user writes a frame to place `free_place` with `write_*` (address = place, word), then hands it over with `put`:
//! * `wait` false: it is sent at once, with both MAC addresses written over if `rewrite`; taken when the frame before it is out.
//! * `wait` true: it waits for `notice` about `ip`; `refused`, in the clock in which it is taken, says that W other next hops have a
//!   frame waiting. A frame that already waits for `ip` is dropped for it (`cnt_l2_out_replaced`).
//!
//! `notice` with `notice_valid` needs no ready; `settle` is the same from the user, in clocks without a notice. "ok" sends the waiting
//! frame with that MAC address, before any frame put later; else it is dropped (`cnt_l2_out_no_neighbor`). A notice for an address that
//! nobody waits for does nothing: the user asks the neighbour service once more after it has put a frame to wait.
//! `free_place` changes only in the clock after a `put`; a place is always free, because at most W + 2 <= 8 are in use.
//! `out` are frames of the length given, at least 14 octets; the transmit multiplexer fills them up to 60.
//!
//! **States.** A place: free (or being written), waiting, released, being sent. The sender: idle, looking up a released frame, sending.
//!
//! **Timing.** 3 clocks from `put` to the first beat, one beat a clock. **Memory:** frames 2^(A + 3) x 64 bits (A = 8: 8 block RAMs),
//! lengths and MAC addresses 8 x 64 bits distributed; next hops in registers (a CAM of W). `AS` = A + 3.
use super::neighbor_types::NeighborNotice;
use crate::stream::*;
use rust_hdl::prelude::*;

/// A complete frame, handed over.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct HoldPut {
    pub place: Bits<3>,
    pub len: Bits<16>,
    pub wait: Bit,
    pub rewrite: Bit,
    pub ip: Bits<32>,
    pub mac: Bits<48>,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum HoldState {
    Idle,
    Look,
    Load,
    Start,
    Send,
}

#[derive(LogicBlock)]
pub struct Hold<const A: usize, const AS: usize, const W: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub own_mac: Signal<In, Bits<48>>,
    pub free_place: Signal<Out, Bits<3>>,
    pub write_place: Signal<In, Bits<3>>,
    pub write_word: Signal<In, Bits<A>>,
    pub write_data: Signal<In, Bits<64>>,
    pub write_enable: Signal<In, Bit>,
    pub put: ChanSink<HoldPut>,
    pub refused: Signal<Out, Bit>,
    pub notice: Signal<In, NeighborNotice>,
    pub notice_valid: Signal<In, Bit>,
    pub settle: ChanSink<NeighborNotice>,
    pub out: StreamSrc,
    pub cnt_l2_out_frames: Signal<Out, Bit>,
    pub cnt_l2_out_no_neighbor: Signal<Out, Bit>,
    pub cnt_l2_out_replaced: Signal<Out, Bit>,
    frames: BlockRam<Bits<64>, AS>,
    lens: RAM<Bits<16>, 3>,
    macs: RAM<Bits<48>, 3>,
    reader: FrameReader<AS>,
    state: DFF<HoldState>,
    used: [DFF<Bit>; 8],
    // the waiting list
    waiting: [DFF<Bit>; W],
    released: [DFF<Bit>; W],
    hop: [DFF<Bits<32>>; W],
    place: [DFF<Bits<3>>; W],
    // the frame being sent
    sending: DFF<Bits<3>>,
    len: DFF<Bits<16>>,
    mac: DFF<Bits<48>>,
    rewrite: DFF<Bit>,
    key: Signal<Local, Bits<32>>,
    hit: [Signal<Local, Bit>; W],
    any_hit: Signal<Local, Bit>,
    hit_place: Signal<Local, Bits<3>>,
    room: Signal<Local, Bit>,
    known: Signal<Local, NeighborNotice>,
    known_valid: Signal<Local, Bit>,
    enqueue: Signal<Local, Bit>,
    enter: Signal<Local, Bit>,
    vacant: Signal<Local, Bits<3>>,
    word: Signal<Local, Bits<64>>,
    start_direct: Signal<Local, Bit>,
    any_released: Signal<Local, Bit>,
    look_place: Signal<Local, Bits<3>>,
    drop_hit: Signal<Local, Bit>,
    finished: Signal<Local, Bit>,
    taken: Signal<Local, Bit>,
    number: [Constant<Bits<3>>; 8],
    place_shift: Constant<Bits<4>>,
}

impl<const A: usize, const AS: usize, const W: usize> Default for Hold<A, AS, W> {
    fn default() -> Self {
        assert!(AS == A + 3 && W <= 6, "eight places, one being written and one being sent");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            own_mac: Default::default(),
            free_place: Default::default(),
            write_place: Default::default(),
            write_word: Default::default(),
            write_data: Default::default(),
            write_enable: Default::default(),
            put: Default::default(),
            refused: Default::default(),
            notice: Default::default(),
            notice_valid: Default::default(),
            settle: Default::default(),
            out: Default::default(),
            cnt_l2_out_frames: Default::default(),
            cnt_l2_out_no_neighbor: Default::default(),
            cnt_l2_out_replaced: Default::default(),
            frames: Default::default(),
            lens: Default::default(),
            macs: Default::default(),
            reader: Default::default(),
            state: Default::default(),
            used: Default::default(),
            waiting: std::array::from_fn(|_| Default::default()),
            released: std::array::from_fn(|_| Default::default()),
            hop: std::array::from_fn(|_| Default::default()),
            place: std::array::from_fn(|_| Default::default()),
            sending: Default::default(),
            len: Default::default(),
            mac: Default::default(),
            rewrite: Default::default(),
            key: Default::default(),
            hit: std::array::from_fn(|_| Default::default()),
            any_hit: Default::default(),
            hit_place: Default::default(),
            room: Default::default(),
            known: Default::default(),
            known_valid: Default::default(),
            enqueue: Default::default(),
            enter: Default::default(),
            vacant: Default::default(),
            word: Default::default(),
            start_direct: Default::default(),
            any_released: Default::default(),
            look_place: Default::default(),
            drop_hit: Default::default(),
            finished: Default::default(),
            taken: Default::default(),
            number: std::array::from_fn(|i| Constant::new((i as u64).to_bits())),
            place_shift: Constant::new((A as u64).to_bits()),
        }
    }
}

impl<const A: usize, const AS: usize, const W: usize> Logic for Hold<A, AS, W> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, sending, len, mac, rewrite);
        clock!(self, clock, reader);
        self.reader.reset.next = self.reset.val();
        self.frames.read_clock.next = self.clock.val();
        self.frames.write_clock.next = self.clock.val();
        self.lens.read_clock.next = self.clock.val();
        self.lens.write_clock.next = self.clock.val();
        self.macs.read_clock.next = self.clock.val();
        self.macs.write_clock.next = self.clock.val();
        for i in 0..8 {
            self.used[i].clock.next = self.clock.val();
            self.used[i].d.next = self.used[i].q.val();
        }
        for i in 0..W {
            self.waiting[i].clock.next = self.clock.val();
            self.released[i].clock.next = self.clock.val();
            self.hop[i].clock.next = self.clock.val();
            self.place[i].clock.next = self.clock.val();
            self.waiting[i].d.next = self.waiting[i].q.val();
            self.released[i].d.next = self.released[i].q.val();
            self.hop[i].d.next = self.hop[i].q.val();
            self.place[i].d.next = self.place[i].q.val();
        }

        // frames come in
        self.frames.write_address.next =
            (bit_cast::<AS, 3>(self.write_place.val()) << self.place_shift.val()) | bit_cast::<AS, A>(self.write_word.val());
        self.frames.write_data.next = self.write_data.val();
        self.frames.write_enable.next = self.write_enable.val();
        self.free_place.next = 0.into();
        for i in 0..8 {
            if !self.used[i].q.val() {
                self.free_place.next = self.number[i].val();
            }
        }

        // one look at the waiting list a clock: a notice, else the user's knowledge, else a frame that is to wait
        self.known.next = self.settle.data.val();
        if self.notice_valid.val() {
            self.known.next = self.notice.val();
        }
        self.known_valid.next = self.notice_valid.val() | self.settle.valid.val();
        self.settle.ready.next = !self.notice_valid.val();
        self.key.next = self.put.data.val().ip;
        if self.known_valid.val() {
            self.key.next = self.known.val().ip;
        }
        self.any_hit.next = false;
        self.hit_place.next = 0.into();
        self.room.next = false;
        self.vacant.next = 0.into();
        self.any_released.next = false;
        self.look_place.next = 0.into();
        for i in 0..W {
            self.hit[i].next = self.waiting[i].q.val() & (self.hop[i].q.val() == self.key.val());
            if self.hit[i].val() {
                self.any_hit.next = true;
                self.hit_place.next = self.place[i].q.val();
            }
            if !self.waiting[i].q.val() & !self.released[i].q.val() {
                self.room.next = true;
                self.vacant.next = self.number[i].val();
            }
            if self.released[i].q.val() {
                self.any_released.next = true;
                self.look_place.next = self.place[i].q.val();
            }
        }
        self.enqueue.next = self.put.valid.val() & self.put.data.val().wait & !self.known_valid.val();
        self.enter.next = self.enqueue.val() & !self.any_hit.val();
        self.refused.next = self.enter.val() & !self.room.val();
        self.cnt_l2_out_replaced.next = self.enqueue.val() & self.any_hit.val();
        self.drop_hit.next = self.known_valid.val() & self.any_hit.val() & !self.known.val().ok;
        self.cnt_l2_out_no_neighbor.next = self.drop_hit.val();
        for i in 0..W {
            if self.hit[i].val() {
                if self.enqueue.val() {
                    self.place[i].d.next = self.put.data.val().place;
                }
                if self.known_valid.val() {
                    self.waiting[i].d.next = false;
                    self.released[i].d.next = self.known.val().ok;
                }
            }
            if self.enter.val() & self.room.val() & (self.vacant.val() == self.number[i].val()) {
                self.waiting[i].d.next = true;
                self.hop[i].d.next = self.put.data.val().ip;
                self.place[i].d.next = self.put.data.val().place;
            }
        }
        self.lens.write_address.next = self.put.data.val().place;
        self.lens.write_data.next = self.put.data.val().len;
        self.lens.write_enable.next = self.enqueue.val();
        self.lens.read_address.next = self.sending.q.val();
        self.macs.write_address.next = self.hit_place.val();
        self.macs.write_data.next = self.known.val().mac;
        self.macs.write_enable.next = self.known_valid.val() & self.any_hit.val();
        self.macs.read_address.next = self.sending.q.val();

        // frames go out
        self.start_direct.next = false;
        self.finished.next = false;
        self.reader.start.next = false;
        self.reader.base.next = bit_cast::<AS, 3>(self.sending.q.val()) << self.place_shift.val();
        self.reader.len.next = self.len.q.val();
        match self.state.q.val() {
            HoldState::Idle => {
                self.sending.d.next = self.put.data.val().place;
                self.len.d.next = self.put.data.val().len;
                self.mac.d.next = self.put.data.val().mac;
                self.rewrite.d.next = self.put.data.val().rewrite;
                if self.any_released.val() {
                    self.sending.d.next = self.look_place.val();
                    self.rewrite.d.next = true;
                    self.state.d.next = HoldState::Look;
                } else if self.put.valid.val() & !self.put.data.val().wait {
                    self.start_direct.next = true;
                    self.state.d.next = HoldState::Start;
                }
            }
            HoldState::Look => {
                for i in 0..W {
                    if self.place[i].q.val() == self.sending.q.val() {
                        self.released[i].d.next = false;
                    }
                }
                self.state.d.next = HoldState::Load;
            }
            HoldState::Load => {
                self.len.d.next = self.lens.read_data.val();
                self.mac.d.next = self.macs.read_data.val();
                self.state.d.next = HoldState::Start;
            }
            HoldState::Start => {
                self.reader.start.next = true;
                self.state.d.next = HoldState::Send;
            }
            HoldState::Send => {
                if !self.reader.busy.val() {
                    self.finished.next = true;
                    self.state.d.next = HoldState::Idle;
                }
            }
            _ => {
                self.state.d.next = HoldState::Idle;
            }
        }
        self.reader.read_data.next = self.frames.read_data.val();
        self.frames.read_address.next = self.reader.read_address.val();
        self.reader.out.ready.next = self.out.ready.val();
        self.word.next = self.reader.out.beat.val().data;
        self.out.valid.next = self.reader.out.valid.val();
        self.out.beat.next.data = self.word.val();
        self.out.beat.next.keep = self.reader.out.beat.val().keep;
        self.out.beat.next.last = self.reader.out.beat.val().last;
        self.out.beat.next.error = false;
        if self.rewrite.q.val() {
            if self.reader.index.val() == 0 {
                self.out.beat.next.data =
                    bit_cast::<64, 48>(self.mac.q.val()) | (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48);
            } else if self.reader.index.val() == 1 {
                self.out.beat.next.data = bit_cast::<64, 32>(self.own_mac.val().get_bits::<32>(16))
                    | (bit_cast::<64, 32>(self.word.val().get_bits::<32>(32)) << 32);
            }
        }
        self.cnt_l2_out_frames.next = self.finished.val();

        self.taken.next = self.start_direct.val() | self.enqueue.val();
        self.put.ready.next = self.taken.val();
        for i in 0..8 {
            if self.taken.val() & !self.refused.val() & (self.put.data.val().place == self.number[i].val()) {
                self.used[i].d.next = true;
            }
            if (self.drop_hit.val() | self.cnt_l2_out_replaced.val()) & (self.hit_place.val() == self.number[i].val()) {
                self.used[i].d.next = false;
            }
            if self.finished.val() & (self.sending.q.val() == self.number[i].val()) {
                self.used[i].d.next = false;
            }
        }
        if self.reset.val() {
            self.state.d.next = HoldState::Idle;
            for i in 0..8 {
                self.used[i].d.next = false;
            }
            for i in 0..W {
                self.waiting[i].d.next = false;
                self.released[i].d.next = false;
            }
        }
    }
}
