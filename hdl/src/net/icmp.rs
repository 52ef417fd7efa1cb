// SPDX-License-Identifier: MIT OR Apache-2.0
//! ICMP echo: answers each request with a reply (RFC 792, RFC 1122 section 3.2.2.6).
//!
//! Interface: `inp` brings verified echo requests to one of our addresses, without IP options, described by `meta`; it always takes. `out` are
//! the replies; the octets after `keep` are zero, the multiplexer fills up to 60. A request that finds both slots used, does not fit in one
//! or comes sooner than `icmp_rate` microseconds after the last accepted one is dropped whole (`cnt_icmp_in_rate_limited`).
//!
//! The reply: to the MAC address and the IP address that asked, from the address that was asked; same id, sequence and data; same DSCP,
//! ECN 00; DF set, an identification of its own, TTL from `ip_ttl` (64 if that is 0); the frame ends where the datagram ends. The ICMP checksum
//! is that of the request plus 0x0800 in ones' complement: the only difference is the type, 8 becoming 0. As the sum of a request is
//! never zero, this gives 0xffff and not zero where both mean the same, which is right also for a message of zeros.
//!
//! States (read side): `Idle`; `Load`: the first five beats of the slot, from which the header fields are kept; `Sum`: one word of the
//! new IP header a clock, then the folds; `Send`: five beats made from the fields, the others from the slot.
//!
//! Timing: 22 clocks from the request's last beat to the first beat of the reply, then one beat a clock. Memory: two slots of 2^S
//! beats (S = 8: 2048 octets, 2 block RAMs), output registered; a slot is read only after it was written. `SP1` = S + 1.
use super::types::RxMeta;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum EchoState {
    Idle,
    Load,
    Sum,
    Send,
}

#[derive(LogicBlock)]
pub struct Icmp<const S: usize, const SP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub mac: Signal<In, Bits<48>>,
    pub ip_ttl: Signal<In, Bits<8>>,
    pub icmp_rate: Signal<In, Bits<32>>,
    pub tick_us: Signal<In, Bits<10>>,
    pub meta: Signal<In, RxMeta>,
    pub inp: StreamSink,
    pub out: StreamSrc,
    pub cnt_icmp_out_echo_reps: Signal<Out, Bit>,
    pub cnt_icmp_in_rate_limited: Signal<Out, Bit>,
    pub cnt_ip4_out_pkts: Signal<Out, Bit>,
    ram: BlockRam<Bits<64>, SP1>,
    // write side
    in_frame: DFF<Bit>,
    dropping: DFF<Bit>,
    write_at: DFF<Bits<S>>,
    /// Slots filled and sent, modulo 4; bit 0 is the slot.
    filled: DFF<Bits<2>>,
    sent: DFF<Bits<2>>,
    /// Microseconds until the next request may be accepted.
    pause: DFF<Bits<32>>,
    // read side
    state: DFF<EchoState>,
    step: DFF<Bits<4>>,
    /// Which beat is at the RAM's output.
    at: DFF<Bits<S>>,
    word: DFF<Bits<64>>,
    peer_mac: DFF<Bits<48>>,
    // header fields as they stand on the wire, first octet in bits 7:0
    tos: DFF<Bits<8>>,
    total: DFF<Bits<16>>,
    peer_ip: DFF<Bits<32>>,
    our_ip: DFF<Bits<32>>,
    icmp_sum: DFF<Bits<16>>,
    icmp_id: DFF<Bits<16>>,
    ident: DFF<Bits<16>>,
    sum: DFF<Bits<20>>,
    /// Number of the beat that is sent next / of the last one.
    index: DFF<Bits<14>>,
    final_index: DFF<Bits<14>>,
    final_keep: DFF<Bits<8>>,
    held: DFF<Beat>,
    full: DFF<Bit>,
    slots: Signal<Local, Bits<2>>,
    accept: Signal<Local, Bit>,
    write_beat: Signal<Local, Bit>,
    write_address: Signal<Local, Bits<SP1>>,
    read_address: Signal<Local, Bits<SP1>>,
    at_next: Signal<Local, Bits<S>>,
    advance: Signal<Local, Bit>,
    left: Signal<Local, Bits<33>>,
    ident_wire: Signal<Local, Bits<16>>,
    ttl: Signal<Local, Bits<8>>,
    term: Signal<Local, Bits<16>>,
    header_sum: Signal<Local, Bits<16>>,
    icmp_add: Signal<Local, Bits<17>>,
    icmp_new: Signal<Local, Bits<16>>,
    room: Signal<Local, Bit>,
    length: Signal<Local, Bits<17>>,
    length_less: Signal<Local, Bits<17>>,
    data: Signal<Local, Bits<64>>,
    clean: Signal<Local, Bits<64>>,
    put: Signal<Local, Beat>,
    upper: Constant<Bits<SP1>>,
    capacity: Constant<Bits<16>>,
    keeps: [Constant<Bits<8>>; 8],
    lane: [Constant<Bits<64>>; 8],
    ones: Constant<Bits<16>>,
}

impl<const S: usize, const SP1: usize> Default for Icmp<S, SP1> {
    fn default() -> Self {
        assert!(S + 1 == SP1 && S <= 12);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            mac: Default::default(),
            ip_ttl: Default::default(),
            icmp_rate: Default::default(),
            tick_us: Default::default(),
            meta: Default::default(),
            inp: Default::default(),
            out: Default::default(),
            cnt_icmp_out_echo_reps: Default::default(),
            cnt_icmp_in_rate_limited: Default::default(),
            cnt_ip4_out_pkts: Default::default(),
            ram: Default::default(),
            in_frame: Default::default(),
            dropping: Default::default(),
            write_at: Default::default(),
            filled: Default::default(),
            sent: Default::default(),
            pause: Default::default(),
            state: Default::default(),
            step: Default::default(),
            at: Default::default(),
            word: Default::default(),
            peer_mac: Default::default(),
            tos: Default::default(),
            total: Default::default(),
            peer_ip: Default::default(),
            our_ip: Default::default(),
            icmp_sum: Default::default(),
            icmp_id: Default::default(),
            ident: Default::default(),
            sum: Default::default(),
            index: Default::default(),
            final_index: Default::default(),
            final_keep: Default::default(),
            held: Default::default(),
            full: Default::default(),
            slots: Default::default(),
            accept: Default::default(),
            write_beat: Default::default(),
            write_address: Default::default(),
            read_address: Default::default(),
            at_next: Default::default(),
            advance: Default::default(),
            left: Default::default(),
            ident_wire: Default::default(),
            ttl: Default::default(),
            term: Default::default(),
            header_sum: Default::default(),
            icmp_add: Default::default(),
            icmp_new: Default::default(),
            room: Default::default(),
            length: Default::default(),
            length_less: Default::default(),
            data: Default::default(),
            clean: Default::default(),
            put: Default::default(),
            upper: Constant::new((1u64 << S).to_bits()),
            capacity: Constant::new((8u64 << S).to_bits()),
            // octets of the last beat as a function of (length - 1) modulo 8
            keeps: std::array::from_fn(|n| Constant::new(((2u64 << n) - 1).to_bits())),
            lane: std::array::from_fn(|n| Constant::new((0xffu64 << (8 * n)).to_bits())),
            ones: Constant::new(0xffffu64.to_bits()),
        }
    }
}

impl<const S: usize, const SP1: usize> Logic for Icmp<S, SP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, in_frame, dropping, write_at, filled, sent, pause, state, step, at, word, peer_mac, tos, total);
        dff_setup!(self, clock, peer_ip, our_ip, icmp_sum, icmp_id, ident, sum, index, final_index, final_keep, held, full);
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();

        // time: count down by the microseconds of this clock, not below zero
        self.left.next = bit_cast::<33, 32>(self.pause.q.val()) - bit_cast::<33, 10>(self.tick_us.val());
        self.pause.d.next = self.left.val().get_bits::<32>(0);
        if self.left.val().get_bit(32) {
            self.pause.d.next = 0.into();
        }
        if self.pause.q.val() > self.icmp_rate.val() {
            // the register was lowered
            self.pause.d.next = self.icmp_rate.val();
        }

        // write side
        self.slots.next = self.filled.q.val() - self.sent.q.val();
        self.accept.next = !self.slots.val().get_bit(1) & !self.pause.q.val().any() & (self.meta.val().len <= self.capacity.val());
        self.inp.ready.next = true;
        self.cnt_icmp_in_rate_limited.next = false;
        self.write_beat.next = false;
        if self.inp.valid.val() {
            if !self.in_frame.q.val() {
                self.dropping.d.next = !self.accept.val();
                self.cnt_icmp_in_rate_limited.next = !self.accept.val();
                self.write_beat.next = self.accept.val();
                if self.accept.val() {
                    self.pause.d.next = self.icmp_rate.val();
                }
            } else {
                self.write_beat.next = !self.dropping.q.val();
            }
            self.in_frame.d.next = !self.inp.beat.val().last;
        }
        self.write_address.next = bit_cast::<SP1, S>(self.write_at.q.val());
        if self.filled.q.val().get_bit(0) {
            self.write_address.next = self.write_address.val() | self.upper.val();
        }
        self.ram.write_address.next = self.write_address.val();
        self.ram.write_data.next = self.inp.beat.val().data;
        self.ram.write_enable.next = self.write_beat.val();
        if self.write_beat.val() {
            self.write_at.d.next = self.write_at.q.val() + 1;
            if self.inp.beat.val().last {
                self.write_at.d.next = 0.into();
                self.filled.d.next = self.filled.q.val() + 1;
            }
        }

        // the new headers
        self.ttl.next = self.ip_ttl.val();
        if !self.ip_ttl.val().any() {
            self.ttl.next = 64.into();
        }
        self.ident_wire.next =
            (bit_cast::<16, 8>(self.ident.q.val().get_bits::<8>(0)) << 8) | bit_cast::<16, 8>(self.ident.q.val().get_bits::<8>(8));
        self.header_sum.next = self.sum.q.val().get_bits::<16>(0) ^ self.ones.val();
        self.icmp_add.next = bit_cast::<17, 16>(self.icmp_sum.q.val()) + 8;
        self.icmp_new.next = self.icmp_add.val().get_bits::<16>(0) + bit_cast::<16, 1>(self.icmp_add.val().get_bits::<1>(16));
        self.length.next =
            (bit_cast::<17, 8>(self.total.q.val().get_bits::<8>(0)) << 8) + bit_cast::<17, 8>(self.total.q.val().get_bits::<8>(8)) + 14;
        self.length_less.next = self.length.val() - 1;

        // read side
        self.room.next = !self.full.q.val() | self.out.ready.val();
        self.out.valid.next = self.full.q.val();
        self.out.beat.next = self.held.q.val();
        self.cnt_icmp_out_echo_reps.next = self.full.q.val() & self.out.ready.val() & self.held.q.val().last;
        self.cnt_ip4_out_pkts.next = self.full.q.val() & self.out.ready.val() & self.held.q.val().last;
        self.advance.next = false;
        self.at_next.next = self.at.q.val();
        self.term.next = 0.into();
        self.data.next = self.word.q.val();
        self.put.next.last = self.index.q.val() == self.final_index.q.val();
        self.put.next.error = false;
        self.put.next.keep = 0xff.into();
        if self.put.val().last {
            self.put.next.keep = self.final_keep.q.val();
        }
        self.put.next.data = 0.into();
        if self.room.val() {
            self.full.d.next = false;
        }
        match self.state.q.val() {
            EchoState::Idle => {
                self.at_next.next = 0.into();
                self.step.d.next = 0.into();
                self.index.d.next = 0.into();
                self.sum.d.next = 0.into();
                if self.filled.q.val() != self.sent.q.val() {
                    self.state.d.next = EchoState::Load;
                }
            }
            EchoState::Load => {
                self.step.d.next = self.step.q.val() + 1;
                self.advance.next = true;
                if self.step.q.val() == 1 {
                    self.peer_mac.d.next = bit_cast::<48, 16>(self.word.q.val().get_bits::<16>(48));
                } else if self.step.q.val() == 2 {
                    self.peer_mac.d.next = (bit_cast::<48, 32>(self.word.q.val().get_bits::<32>(0)) << 16) | self.peer_mac.q.val();
                    self.tos.d.next = self.word.q.val().get_bits::<8>(56) & 0xfc;
                } else if self.step.q.val() == 3 {
                    self.total.d.next = self.word.q.val().get_bits::<16>(0);
                } else if self.step.q.val() == 4 {
                    self.peer_ip.d.next = self.word.q.val().get_bits::<32>(16);
                    self.our_ip.d.next = bit_cast::<32, 16>(self.word.q.val().get_bits::<16>(48));
                } else if self.step.q.val() == 5 {
                    self.our_ip.d.next = (bit_cast::<32, 16>(self.word.q.val().get_bits::<16>(0)) << 16) | self.our_ip.q.val();
                    self.icmp_sum.d.next = self.word.q.val().get_bits::<16>(32);
                    self.icmp_id.d.next = self.word.q.val().get_bits::<16>(48);
                    // `word` keeps beat 4 and the RAM's output beat 5 until both are sent
                    self.advance.next = false;
                    self.step.d.next = 0.into();
                    self.state.d.next = EchoState::Sum;
                }
            }
            EchoState::Sum => {
                self.step.d.next = self.step.q.val() + 1;
                if self.step.q.val() == 0 {
                    self.term.next = (bit_cast::<16, 8>(self.tos.q.val()) << 8) | 0x45;
                } else if self.step.q.val() == 1 {
                    self.term.next = self.total.q.val();
                } else if self.step.q.val() == 2 {
                    self.term.next = self.ident_wire.val();
                } else if self.step.q.val() == 3 {
                    self.term.next = 0x0040.into();
                } else if self.step.q.val() == 4 {
                    self.term.next = bit_cast::<16, 8>(self.ttl.val()) | 0x0100;
                } else if self.step.q.val() == 5 {
                    self.term.next = self.peer_ip.q.val().get_bits::<16>(0);
                } else if self.step.q.val() == 6 {
                    self.term.next = self.peer_ip.q.val().get_bits::<16>(16);
                } else if self.step.q.val() == 7 {
                    self.term.next = self.our_ip.q.val().get_bits::<16>(0);
                } else if self.step.q.val() == 8 {
                    self.term.next = self.our_ip.q.val().get_bits::<16>(16);
                }
                self.sum.d.next = self.sum.q.val() + bit_cast::<20, 16>(self.term.val());
                if self.step.q.val() > 8 {
                    self.sum.d.next =
                        bit_cast::<20, 16>(self.sum.q.val().get_bits::<16>(0)) + bit_cast::<20, 4>(self.sum.q.val().get_bits::<4>(16));
                }
                self.final_index.d.next = self.length_less.val().get_bits::<14>(3);
                for i in 0..8 {
                    if self.length_less.val().get_bits::<3>(0).index() == i {
                        self.final_keep.d.next = self.keeps[i].val();
                    }
                }
                if self.step.q.val() == 10 {
                    self.state.d.next = EchoState::Send;
                }
            }
            EchoState::Send => {
                if self.index.q.val() == 0 {
                    self.data.next =
                        (bit_cast::<64, 16>(self.mac.val().get_bits::<16>(0)) << 48) | bit_cast::<64, 48>(self.peer_mac.q.val());
                } else if self.index.q.val() == 1 {
                    self.data.next = (bit_cast::<64, 8>(self.tos.q.val()) << 56)
                        | bit_cast::<64, 32>(self.mac.val().get_bits::<32>(16))
                        | 0x0045_0008_0000_0000_u64;
                } else if self.index.q.val() == 2 {
                    self.data.next = bit_cast::<64, 16>(self.total.q.val())
                        | (bit_cast::<64, 16>(self.ident_wire.val()) << 16)
                        | (bit_cast::<64, 8>(self.ttl.val()) << 48)
                        | 0x0100_0040_0000_0000_u64;
                } else if self.index.q.val() == 3 {
                    self.data.next = bit_cast::<64, 16>(self.header_sum.val())
                        | (bit_cast::<64, 32>(self.our_ip.q.val()) << 16)
                        | (bit_cast::<64, 16>(self.peer_ip.q.val().get_bits::<16>(0)) << 48);
                } else if self.index.q.val() == 4 {
                    self.data.next = bit_cast::<64, 16>(self.peer_ip.q.val().get_bits::<16>(16))
                        | (bit_cast::<64, 16>(self.icmp_new.val()) << 32)
                        | (bit_cast::<64, 16>(self.icmp_id.q.val()) << 48);
                }
                if self.room.val() {
                    self.full.d.next = true;
                    self.index.d.next = self.index.q.val() + 1;
                    self.advance.next = self.index.q.val() > 3;
                    if self.put.val().last {
                        self.sent.d.next = self.sent.q.val() + 1;
                        self.ident.d.next = self.ident.q.val() + 1;
                        self.state.d.next = EchoState::Idle;
                    }
                }
            }
            _ => {
                self.state.d.next = EchoState::Idle;
            }
        }
        self.clean.next = self.data.val();
        if self.put.val().last {
            self.clean.next = 0.into();
            for i in 0..8 {
                if self.final_keep.q.val().get_bit(i) {
                    self.clean.next = self.clean.val() | (self.data.val() & self.lane[i].val());
                }
            }
        }
        self.put.next.data = self.clean.val();
        if self.room.val() {
            self.held.d.next = self.put.val();
        }

        // the address that is held brings the same beat again
        if self.advance.val() {
            self.at_next.next = self.at.q.val() + 1;
            self.word.d.next = self.ram.read_data.val();
        }
        self.at.d.next = self.at_next.val();
        self.read_address.next = bit_cast::<SP1, S>(self.at_next.val());
        if self.sent.q.val().get_bit(0) {
            self.read_address.next = self.read_address.val() | self.upper.val();
        }
        self.ram.read_address.next = self.read_address.val();

        if self.reset.val() {
            self.in_frame.d.next = false;
            self.write_at.d.next = 0.into();
            self.filled.d.next = 0.into();
            self.sent.d.next = 0.into();
            self.pause.d.next = 0.into();
            self.state.d.next = EchoState::Idle;
            self.full.d.next = false;
        }
    }
}
