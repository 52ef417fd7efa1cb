// SPDX-License-Identifier: MIT OR Apache-2.0
//! The neighbour cache: ARP for IPv4 over Ethernet (RFC 826, RFC 1122 section 2.3.2), 2^A entries.
//!
//! **Interface.** `packet` brings received, well-formed ARP packets and always takes (a queue of 16; what overflows is counted in
//! `cnt_rx_meta_dropped`). Each `query` gets exactly one `answer`, in order; the answer must be taken, the engine waits for it. A
//! second client comes through an arbiter in front of `query`, which holds its choice until the answer is out. `notice_valid` shows for
//! one clock that the resolution of a missed address has ended; it has no ready, every user listens always. After an answer "not found,
//! not busy" one notice for that address follows. Users keep the IP address and ask again for each packet, so that a changed MAC
//! address takes effect with the next one (ARP-9), or watch `changed`, which is high in each clock in which an entry changes. `recheck` in a query makes a resolved entry unresolved and polls it (ARP-11).
//! `out` are whole frames of 60 octets. Wanted: `arp_timeout` and `arp_retry` below 2^31 microseconds.
//!
//! **Rules.** A packet first updates the entry of its sender, whatever the opcode, then adds the sender if the target is ours, then is
//! answered if it is a request for us (the order of RFC 826). Never learnt: 0.0.0.0, our own addresses, group MAC addresses, our own MAC
//! address. An unresolved entry is asked for at most once in `arp_retry`; after `arp_tries` requests and one more `arp_retry` it is
//! removed with a notice "not ok". Room is made by the resolved entry that is closest to its time-out, never by an unresolved one.
//!
//! **States.** One engine, one job at a time: a packet and a query alternate, and every 16 clocks one step of the sweep that visits all
//! entries in turn (time-outs and requests). A search starts at a hash of the address and looks at one entry a clock, so that an address
//! in its own place takes 6 clocks from query to answer and a miss 2^A + 5. On a miss the sweep goes on at the new entry: its
//! request starts 8 clocks later.
//!
//! **Memory.** One RAM of 2^A x 123 bits, cleared after reset: `ready` is low for 2^A clocks, in which nothing is taken but packets.
use crate::net::neighbor_types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

/// An entry. While `resolved` is false, `mac` holds the own address that requests name as their sender.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct ArpEntry {
    pub ip: Bits<32>,
    pub mac: Bits<48>,
    /// Resolved: end of life; else: when the next request is due.
    pub deadline: Bits<32>,
    /// Requests sent in this resolution.
    pub sent: Bits<8>,
    pub used: Bit,
    pub resolved: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum ArpState {
    Clear,
    Idle,
    Begin,
    Scan,
    Found,
    Missing,
    Reply,
    Answer,
    SweepRead,
    SweepLatch,
    SweepAct,
}

#[derive(LogicBlock)]
pub struct Arp<const A: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub ready: Signal<Out, Bit>,
    pub own_mac: Signal<In, Bits<48>>,
    pub time_us: Signal<In, Bits<32>>,
    pub arp_timeout: Signal<In, Bits<32>>,
    pub arp_retry: Signal<In, Bits<32>>,
    pub arp_tries: Signal<In, Bits<8>>,
    pub packet: ChanSink<ArpPacket>,
    pub query: ChanSink<NeighborQuery>,
    pub answer: ChanSrc<NeighborAnswer>,
    pub notice: Signal<Out, NeighborNotice>,
    pub notice_valid: Signal<Out, Bit>,
    pub changed: Signal<Out, Bit>,
    pub out: StreamSrc,
    pub cnt_arp_in_requests: Signal<Out, Bit>,
    pub cnt_arp_in_replies: Signal<Out, Bit>,
    pub cnt_arp_in_ignored: Signal<Out, Bit>,
    pub cnt_arp_conflicts: Signal<Out, Bit>,
    pub cnt_arp_out_requests: Signal<Out, Bit>,
    pub cnt_arp_out_replies: Signal<Out, Bit>,
    pub cnt_arp_timeouts: Signal<Out, Bit>,
    pub cnt_arp_expired: Signal<Out, Bit>,
    pub cnt_arp_evictions: Signal<Out, Bit>,
    pub cnt_rx_meta_dropped: Signal<Out, Bit>,
    fifo: ChanFifo<ArpPacket, 4, 5>,
    ram: BlockRam<ArpEntry, A>,
    state: DFF<ArpState>,
    // the job
    is_packet: DFF<Bit>,
    packet_next: DFF<Bit>,
    key: DFF<Bits<32>>,
    reply: DFF<Bit>,
    found: DFF<Bit>,
    busy: DFF<Bit>,
    // the search: address at the RAM, entry at its output (1), entry in `row` (2)
    ptr: DFF<Bits<A>>,
    ptr1: DFF<Bits<A>>,
    ptr2: DFF<Bits<A>>,
    valid1: DFF<Bit>,
    valid2: DFF<Bit>,
    row: DFF<ArpEntry>,
    left: DFF<Bits<A>>,
    slot: DFF<Bits<A>>,
    slot_valid: DFF<Bit>,
    slot_used: DFF<Bit>,
    oldest: DFF<Bits<32>>,
    // the sweep
    sweep: DFF<Bits<A>>,
    pace: DFF<Bits<4>>,
    due: DFF<Bit>,
    // the frame being sent; IP addresses as they stand on the wire
    tx_busy: DFF<Bit>,
    tx_beat: DFF<Bits<3>>,
    tx_request: DFF<Bit>,
    tx_peer: DFF<Bits<48>>,
    tx_sender: DFF<Bits<32>>,
    tx_target: DFF<Bits<32>>,
    // combinational
    pkt: Signal<Local, ArpPacket>,
    sender_mac: Signal<Local, Bits<48>>,
    own_frame: Signal<Local, Bit>,
    group: Signal<Local, Bit>,
    unnamed: Signal<Local, Bit>,
    learn: Signal<Local, Bit>,
    wants_reply: Signal<Local, Bit>,
    take_packet: Signal<Local, Bit>,
    take_query: Signal<Local, Bit>,
    hash: Signal<Local, Bits<A>>,
    hit: Signal<Local, Bit>,
    load_row: Signal<Local, Bit>,
    age: Signal<Local, Bits<32>>,
    late: Signal<Local, Bits<32>>,
    is_due: Signal<Local, Bit>,
    life: Signal<Local, Bits<32>>,
    write: Signal<Local, Bit>,
    entry: Signal<Local, ArpEntry>,
    send: Signal<Local, Bit>,
    send_reply: Signal<Local, Bit>,
    sender_ip: Signal<Local, Bits<32>>,
    target_ip: Signal<Local, Bits<32>>,
    row_mac: Signal<Local, Bits<48>>,
    last_left: Constant<Bits<A>>,
}

impl<const A: usize> Default for Arp<A> {
    fn default() -> Self {
        assert!((2..=8).contains(&A), "the hash takes two groups of A bits of an address");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            ready: Default::default(),
            own_mac: Default::default(),
            time_us: Default::default(),
            arp_timeout: Default::default(),
            arp_retry: Default::default(),
            arp_tries: Default::default(),
            packet: Default::default(),
            query: Default::default(),
            answer: Default::default(),
            notice: Default::default(),
            notice_valid: Default::default(),
            changed: Default::default(),
            out: Default::default(),
            cnt_arp_in_requests: Default::default(),
            cnt_arp_in_replies: Default::default(),
            cnt_arp_in_ignored: Default::default(),
            cnt_arp_conflicts: Default::default(),
            cnt_arp_out_requests: Default::default(),
            cnt_arp_out_replies: Default::default(),
            cnt_arp_timeouts: Default::default(),
            cnt_arp_expired: Default::default(),
            cnt_arp_evictions: Default::default(),
            cnt_rx_meta_dropped: Default::default(),
            fifo: Default::default(),
            ram: Default::default(),
            state: Default::default(),
            is_packet: Default::default(),
            packet_next: Default::default(),
            key: Default::default(),
            reply: Default::default(),
            found: Default::default(),
            busy: Default::default(),
            ptr: Default::default(),
            ptr1: Default::default(),
            ptr2: Default::default(),
            valid1: Default::default(),
            valid2: Default::default(),
            row: Default::default(),
            left: Default::default(),
            slot: Default::default(),
            slot_valid: Default::default(),
            slot_used: Default::default(),
            oldest: Default::default(),
            sweep: Default::default(),
            pace: Default::default(),
            due: Default::default(),
            tx_busy: Default::default(),
            tx_beat: Default::default(),
            tx_request: Default::default(),
            tx_peer: Default::default(),
            tx_sender: Default::default(),
            tx_target: Default::default(),
            pkt: Default::default(),
            sender_mac: Default::default(),
            own_frame: Default::default(),
            group: Default::default(),
            unnamed: Default::default(),
            learn: Default::default(),
            wants_reply: Default::default(),
            take_packet: Default::default(),
            take_query: Default::default(),
            hash: Default::default(),
            hit: Default::default(),
            load_row: Default::default(),
            age: Default::default(),
            late: Default::default(),
            is_due: Default::default(),
            life: Default::default(),
            write: Default::default(),
            entry: Default::default(),
            send: Default::default(),
            send_reply: Default::default(),
            sender_ip: Default::default(),
            target_ip: Default::default(),
            row_mac: Default::default(),
            last_left: Constant::new(((1u64 << A) - 1).to_bits()),
        }
    }
}

impl<const A: usize> Logic for Arp<A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, is_packet, packet_next, key, reply, found, busy);
        dff_setup!(self, clock, ptr, ptr1, ptr2, valid1, valid2, row, left, slot, slot_valid, slot_used, oldest);
        dff_setup!(self, clock, sweep, pace, due, tx_busy, tx_beat, tx_request, tx_peer, tx_sender, tx_target);
        clock!(self, clock, fifo);
        self.fifo.reset.next = self.reset.val();
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();

        // received packets: always taken, the queue decides
        self.fifo.inp.data.next = self.packet.data.val();
        self.fifo.inp.valid.next = self.packet.valid.val();
        self.packet.ready.next = true;
        self.cnt_rx_meta_dropped.next = self.packet.valid.val() & !self.fifo.inp.ready.val();
        self.pkt.next = self.fifo.out.data.val();
        self.sender_mac.next = self.pkt.val().sender_mac;
        self.group.next = self.sender_mac.val().get_bit(0);
        self.own_frame.next = self.sender_mac.val() == self.own_mac.val();
        self.unnamed.next = self.pkt.val().sender_ip == 0;
        self.learn.next = !self.group.val() & !self.own_frame.val() & !self.unnamed.val() & !self.pkt.val().sender_is_ours;
        self.wants_reply.next = self.pkt.val().request & self.pkt.val().target_is_ours & !self.group.val() & !self.own_frame.val();

        // defaults
        self.ready.next = self.state.q.val() != ArpState::Clear;
        self.fifo.out.ready.next = false;
        self.query.ready.next = false;
        self.answer.valid.next = false;
        self.answer.data.next.found = self.found.q.val();
        self.answer.data.next.busy = self.busy.q.val();
        self.answer.data.next.mac = self.row.q.val().mac;
        self.notice_valid.next = false;
        self.notice.next.ip = self.row.q.val().ip;
        self.notice.next.ok = self.is_packet.q.val();
        self.notice.next.mac = self.sender_mac.val();
        self.cnt_arp_in_requests.next = false;
        self.cnt_arp_in_replies.next = false;
        self.cnt_arp_in_ignored.next = false;
        self.cnt_arp_conflicts.next = false;
        self.cnt_arp_out_requests.next = false;
        self.cnt_arp_out_replies.next = false;
        self.cnt_arp_timeouts.next = false;
        self.cnt_arp_expired.next = false;
        self.cnt_arp_evictions.next = false;
        self.send.next = false;
        self.send_reply.next = false;

        // what is written: the key, resolved by the packet at hand or unresolved and due at once
        self.load_row.next = false;
        self.write.next = false;
        self.life.next = 0.into();
        self.entry.next.ip = self.key.q.val();
        self.entry.next.mac = bit_cast::<48, 32>(self.query.data.val().source);
        self.entry.next.sent = 0.into();
        self.entry.next.used = true;
        self.entry.next.resolved = self.is_packet.q.val();
        if self.is_packet.q.val() {
            self.entry.next.mac = self.sender_mac.val();
            self.life.next = self.arp_timeout.val();
        }

        // entry at hand
        self.hit.next = self.valid2.q.val() & self.row.q.val().used & (self.row.q.val().ip == self.key.q.val());
        self.age.next = self.row.q.val().deadline - self.oldest.q.val();
        self.late.next = self.time_us.val() - self.row.q.val().deadline;
        self.is_due.next = !self.late.val().get_bit(31);
        self.row_mac.next = self.row.q.val().mac;
        self.hash.next = self.key.q.val().get_bits::<A>(0) ^ self.key.q.val().get_bits::<A>(8);

        self.pace.d.next = self.pace.q.val() + 1;
        if self.pace.q.val() == 15 {
            self.due.d.next = true;
        }
        self.take_packet.next = self.fifo.out.valid.val() & (self.packet_next.q.val() | !self.query.valid.val());
        self.take_query.next = self.query.valid.val() & !self.take_packet.val();

        match self.state.q.val() {
            ArpState::Clear => {
                self.write.next = true;
                self.entry.next.used = false;
                self.slot.d.next = self.slot.q.val() + 1;
                if self.slot.q.val() == self.last_left.val() {
                    self.state.d.next = ArpState::Idle;
                }
            }
            ArpState::Idle => {
                self.is_packet.d.next = self.take_packet.val();
                self.found.d.next = false;
                self.busy.d.next = false;
                self.reply.d.next = self.wants_reply.val();
                self.key.d.next = self.query.data.val().ip;
                if self.take_packet.val() {
                    self.key.d.next = self.pkt.val().sender_ip;
                }
                if self.due.q.val() {
                    self.due.d.next = false;
                    self.is_packet.d.next = false;
                    self.ptr.d.next = self.sweep.q.val();
                    self.state.d.next = ArpState::SweepRead;
                } else if self.take_packet.val() {
                    self.packet_next.d.next = false;
                    self.cnt_arp_in_requests.next = self.pkt.val().request;
                    self.cnt_arp_in_replies.next = !self.pkt.val().request;
                    self.cnt_arp_conflicts.next = self.pkt.val().sender_is_ours & !self.own_frame.val() & !self.group.val();
                    self.cnt_arp_in_ignored.next = self.group.val() | self.own_frame.val() | (self.unnamed.val() & !self.wants_reply.val());
                    self.state.d.next = ArpState::Reply;
                    if self.learn.val() {
                        self.state.d.next = ArpState::Begin;
                    }
                } else if self.take_query.val() {
                    self.packet_next.d.next = true;
                    self.state.d.next = ArpState::Begin;
                }
            }
            ArpState::Begin => {
                self.ptr.d.next = self.hash.val();
                self.valid1.d.next = false;
                self.valid2.d.next = false;
                self.slot_valid.d.next = false;
                self.slot_used.d.next = false;
                self.left.d.next = self.last_left.val();
                self.state.d.next = ArpState::Scan;
            }
            ArpState::Scan => {
                self.ptr.d.next = self.ptr.q.val() + 1;
                self.ptr1.d.next = self.ptr.q.val();
                self.ptr2.d.next = self.ptr1.q.val();
                self.valid1.d.next = true;
                self.valid2.d.next = self.valid1.q.val();
                if self.hit.val() {
                    self.slot.d.next = self.ptr2.q.val();
                    self.state.d.next = ArpState::Found;
                } else {
                    self.load_row.next = true;
                    if self.valid2.q.val() {
                        self.left.d.next = self.left.q.val() - 1;
                        if self.left.q.val() == 0 {
                            self.state.d.next = ArpState::Missing;
                        }
                        // the first free place, else the resolved entry closest to its time-out
                        if !self.row.q.val().used {
                            if !self.slot_valid.q.val() | self.slot_used.q.val() {
                                self.slot.d.next = self.ptr2.q.val();
                            }
                            self.slot_valid.d.next = true;
                            self.slot_used.d.next = false;
                        } else if self.row.q.val().resolved
                            & (!self.slot_valid.q.val() | (self.slot_used.q.val() & self.age.val().get_bit(31)))
                        {
                            self.slot.d.next = self.ptr2.q.val();
                            self.slot_valid.d.next = true;
                            self.slot_used.d.next = true;
                            self.oldest.d.next = self.row.q.val().deadline;
                        }
                    }
                }
            }
            ArpState::Found => {
                if self.is_packet.q.val() {
                    self.write.next = true;
                    self.notice_valid.next = !self.row.q.val().resolved;
                    self.state.d.next = ArpState::Reply;
                } else {
                    self.found.d.next = self.row.q.val().resolved & !self.query.data.val().recheck;
                    self.write.next = self.row.q.val().resolved & self.query.data.val().recheck;
                    self.query.ready.next = true;
                    self.state.d.next = ArpState::Answer;
                }
            }
            ArpState::Missing => {
                if self.is_packet.q.val() {
                    self.write.next = self.pkt.val().target_is_ours & self.slot_valid.q.val();
                    self.state.d.next = ArpState::Reply;
                } else {
                    self.write.next = self.slot_valid.q.val();
                    self.busy.d.next = !self.slot_valid.q.val();
                    if self.slot_valid.q.val() {
                        self.sweep.d.next = self.slot.q.val();
                        self.due.d.next = true;
                    }
                    self.query.ready.next = true;
                    self.state.d.next = ArpState::Answer;
                }
                self.cnt_arp_evictions.next = self.write.val() & self.slot_used.q.val();
            }
            ArpState::Reply => {
                if !self.reply.q.val() | !self.tx_busy.q.val() {
                    self.send.next = self.reply.q.val();
                    self.send_reply.next = self.reply.q.val();
                    self.cnt_arp_out_replies.next = self.reply.q.val();
                    self.fifo.out.ready.next = true;
                    self.state.d.next = ArpState::Idle;
                }
            }
            ArpState::Answer => {
                self.answer.valid.next = true;
                if self.answer.ready.val() {
                    self.state.d.next = ArpState::Idle;
                }
            }
            ArpState::SweepRead => {
                self.state.d.next = ArpState::SweepLatch;
            }
            ArpState::SweepLatch => {
                self.load_row.next = true;
                self.slot.d.next = self.sweep.q.val();
                self.state.d.next = ArpState::SweepAct;
            }
            ArpState::SweepAct => {
                self.sweep.d.next = self.sweep.q.val() + 1;
                self.entry.next.ip = self.row.q.val().ip;
                self.entry.next.mac = self.row.q.val().mac;
                self.entry.next.sent = self.row.q.val().sent + 1;
                self.life.next = self.arp_retry.val();
                self.state.d.next = ArpState::Idle;
                if self.row.q.val().used & self.is_due.val() {
                    if self.row.q.val().resolved {
                        self.write.next = true;
                        self.entry.next.used = false;
                        self.cnt_arp_expired.next = true;
                    } else if (self.row.q.val().sent >= self.arp_tries.val()) & (self.row.q.val().sent != 0) {
                        self.write.next = true;
                        self.entry.next.used = false;
                        self.notice_valid.next = true;
                        self.cnt_arp_timeouts.next = true;
                    } else if !self.tx_busy.q.val() {
                        self.write.next = true;
                        self.send.next = true;
                        self.cnt_arp_out_requests.next = true;
                    }
                }
            }
            _ => {
                self.state.d.next = ArpState::Clear;
            }
        }
        if self.load_row.val() {
            self.row.d.next = self.ram.read_data.val();
        }
        self.entry.next.deadline = self.time_us.val() + self.life.val();
        self.ram.read_address.next = self.ptr.q.val();
        self.ram.write_address.next = self.slot.q.val();
        self.ram.write_data.next = self.entry.val();
        self.ram.write_enable.next = self.write.val();
        self.changed.next = self.write.val();

        // the frame
        self.sender_ip.next = self.row_mac.val().get_bits::<32>(0);
        self.target_ip.next = self.row.q.val().ip;
        if self.send_reply.val() {
            self.sender_ip.next = self.pkt.val().target_ip;
            self.target_ip.next = self.pkt.val().sender_ip;
        }
        if self.send.val() {
            self.tx_busy.d.next = true;
            self.tx_beat.d.next = 0.into();
            self.tx_request.d.next = !self.send_reply.val();
            self.tx_peer.d.next = self.sender_mac.val();
            self.tx_sender.d.next = (bit_cast::<32, 8>(self.sender_ip.val().get_bits::<8>(0)) << 24)
                | (bit_cast::<32, 8>(self.sender_ip.val().get_bits::<8>(8)) << 16)
                | (bit_cast::<32, 8>(self.sender_ip.val().get_bits::<8>(16)) << 8)
                | bit_cast::<32, 8>(self.sender_ip.val().get_bits::<8>(24));
            self.tx_target.d.next = (bit_cast::<32, 8>(self.target_ip.val().get_bits::<8>(0)) << 24)
                | (bit_cast::<32, 8>(self.target_ip.val().get_bits::<8>(8)) << 16)
                | (bit_cast::<32, 8>(self.target_ip.val().get_bits::<8>(16)) << 8)
                | bit_cast::<32, 8>(self.target_ip.val().get_bits::<8>(24));
        } else if self.tx_busy.q.val() & self.out.ready.val() {
            self.tx_beat.d.next = self.tx_beat.q.val() + 1;
            if self.tx_beat.q.val() == 7 {
                self.tx_busy.d.next = false;
            }
        }
        self.out.valid.next = self.tx_busy.q.val();
        self.out.beat.next.data = 0.into();
        self.out.beat.next.keep = 0xff.into();
        self.out.beat.next.last = false;
        self.out.beat.next.error = false;
        if self.tx_beat.q.val() == 0 {
            self.out.beat.next.data =
                bit_cast::<64, 48>(self.tx_peer.q.val()) | (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48);
            if self.tx_request.q.val() {
                self.out.beat.next.data =
                    bits::<64>(0xFFFF_FFFF_FFFF_u64) | (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48);
            }
        } else if self.tx_beat.q.val() == 1 {
            // type 0x0806, hardware type 1
            self.out.beat.next.data = bit_cast::<64, 32>(self.own_mac.val().get_bits::<32>(16)) | bits::<64>(0x0100_0608_0000_0000_u64);
        } else if self.tx_beat.q.val() == 2 {
            // protocol type 0x0800, lengths 6 and 4, opcode
            self.out.beat.next.data = (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48) | bits::<64>(0x0200_0406_0008_u64);
            if self.tx_request.q.val() {
                self.out.beat.next.data =
                    (bit_cast::<64, 16>(self.own_mac.val().get_bits::<16>(0)) << 48) | bits::<64>(0x0100_0406_0008_u64);
            }
        } else if self.tx_beat.q.val() == 3 {
            self.out.beat.next.data =
                bit_cast::<64, 32>(self.own_mac.val().get_bits::<32>(16)) | (bit_cast::<64, 32>(self.tx_sender.q.val()) << 32);
        } else if self.tx_beat.q.val() == 4 {
            self.out.beat.next.data =
                bit_cast::<64, 48>(self.tx_peer.q.val()) | (bit_cast::<64, 16>(self.tx_target.q.val().get_bits::<16>(0)) << 48);
            if self.tx_request.q.val() {
                self.out.beat.next.data = bit_cast::<64, 16>(self.tx_target.q.val().get_bits::<16>(0)) << 48;
            }
        } else if self.tx_beat.q.val() == 5 {
            self.out.beat.next.data = bit_cast::<64, 16>(self.tx_target.q.val().get_bits::<16>(16));
        } else if self.tx_beat.q.val() == 7 {
            self.out.beat.next.keep = 0x0f.into();
            self.out.beat.next.last = true;
        }

        if self.reset.val() {
            self.state.d.next = ArpState::Clear;
            self.slot.d.next = 0.into();
            self.sweep.d.next = 0.into();
            self.due.d.next = false;
            self.tx_busy.d.next = false;
        }
    }
}
