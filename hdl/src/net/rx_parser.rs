// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive parser: looks at the MAC's beats as they pass and says at the end of each frame what it is, or that nobody wants it.
//!
//! Interface: `beat`/`valid` from the MAC, one a clock, no ready; `out`/`out_valid` are the same beats 7 clocks later. With a frame's last
//! beat on `out` comes the verdict: `out.error` = drop it, else `meta` describes it. Well-formed ARP packets leave through `arp` only;
//! `arp.valid` lasts one clock, its `ready` is not looked at: the ARP engine always takes.
//! Frames whose first beat comes while `enable` is low, or of which a reset took a part, do not exist.
//!
//! What is checked, in this order; each dropped frame moves the one counter named, every frame without link error also ethInFrames:
//! * MAC error (ethInFcsErrors), under 60 octets (ethInRunts), over MTU + 14, with a tag + 18 (ethInOversize);
//! * group address that is not broadcast: for the host if `multicast` (else ethInMulticast); other unicast address: for the host if
//!   `promiscuous` (else ethInOtherMac). These frames are not looked into;
//! * tagged (802.1Q, 802.1ad): for the host. ARP: every fixed field (arpInIgnored). Other EtherTypes, SNAP among them: for the host;
//! * IPv4 version 4, IHL >= 5, 4 * IHL <= Total Length <= octets received - 14 (ip4InHdrErrors), header sum with options
//!   (ip4InCsumErrors), destination ours, or limited or subnet broadcast, or multicast if `multicast` (ip4InAddrErrors), source not
//!   224/3, 127/8 nor a subnet broadcast of ours, nor 0/8 for TCP and ICMP (ip4InSrcErrors);
//! * fragments, then options: for the host, which also verifies what is inside;
//! * TCP: header within the datagram and sum with pseudo header (tcpInCsumErrors). ICMP: 8 octets and sum (icmpInCsumErrors); echo
//!   request, code 0: only if sent to one of our addresses and between unicast MAC addresses (icmpInBroadcast); types 0, 3, 5, 11, 12, 14, 16,
//!   18 for the host; all others icmpInUnknown. TCP not between such addresses, and all other protocols: for the host.
//!
//! Timing: stages of one clock: 1 fields and masks, 2 sum of a beat's words and length, 3 accumulate and compare, 4 fold and decide, 5 fold
//! again, 6 verdict, 7 out. Fields of a frame of 60 octets or more are copied to `h` in stage 2 and stay there for 8 clocks, which is
//! longer than the stages need; shorter frames are dropped without them. Memory: 16 beats of distributed RAM.
use super::neighbor_types::ArpPacket;
use super::types::{LocalAddress, RxMeta};
use crate::stream::*;
use rust_hdl::prelude::*;

/// What is read out of the beats, in numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxFields {
    pub own: Bit,
    pub broadcast: Bit,
    pub group: Bit,
    /// The source MAC is a group address: nothing is to be sent there.
    pub source_group: Bit,
    pub ip: Bit,
    pub arp: Bit,
    pub vlan: Bit,
    pub version: Bits<4>,
    pub ihl: Bits<4>,
    pub ip_len: Bits<16>,
    pub fragment: Bit,
    pub tcp: Bit,
    pub icmp: Bit,
    /// The ARP fields before the opcode are right.
    pub arp_ok: Bit,
    pub arp_op: Bits<16>,
    pub sender_mac: Bits<48>,
    /// Of the IPv4 header, or sender and target of the ARP packet.
    pub src: Bits<32>,
    pub dst: Bits<32>,
    /// ICMP: type and code.
    pub src_port: Bits<16>,
    pub dst_port: Bits<16>,
    pub seq: Bits<32>,
    pub ack: Bits<32>,
    pub data_offset: Bits<4>,
    pub tcp_flags: Bits<8>,
    pub window: Bits<16>,
}

/// Which of our addresses those of the frame match.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxMatch {
    pub dst_own: Bit,
    pub dst_subnet: Bit,
    pub src_own: Bit,
    pub src_subnet: Bit,
}

/// Comparisons of stage 3.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxCompare {
    pub header_bad: Bit,
    pub tcp_short: Bit,
    pub icmp_short: Bit,
    pub unicast: Bit,
    pub dst_known: Bit,
    pub src_bad: Bit,
    pub options: Bit,
    pub echo: Bit,
    pub icmp_host: Bit,
    pub arp_ok: Bit,
}

/// What to do with a frame, provided that the sums it needs are right: one of the bits up to `foreign` lets it pass or hands it to ARP,
/// one of those from `multicast` on counts it.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxDecision {
    pub need_header: Bit,
    pub need_tcp: Bit,
    pub need_icmp: Bit,
    pub pass: Bit,
    pub arp: Bit,
    pub ip: Bit,
    pub echo: Bit,
    pub tcp: Bit,
    pub icmp: Bit,
    pub options: Bit,
    pub fragment: Bit,
    pub other_proto: Bit,
    pub vlan: Bit,
    pub other_type: Bit,
    pub foreign: Bit,
    pub multicast: Bit,
    pub other_mac: Bit,
    pub arp_ignored: Bit,
    pub header_bad: Bit,
    pub addr_bad: Bit,
    pub src_bad: Bit,
    pub tcp_short: Bit,
    pub icmp_short: Bit,
    pub icmp_broadcast: Bit,
    pub icmp_unknown: Bit,
}

/// What stages 2 to 6 know of the beat that was last; all 0 when it was not.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct RxEnd {
    pub end: Bit,
    pub damaged: Bit,
    pub runt: Bit,
    pub oversize: Bit,
}

/// Octets of a beat, octet 0 on the wire in the most significant place.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct WireOrder {
    pub b7: Bits<8>,
    pub b6: Bits<8>,
    pub b5: Bits<8>,
    pub b4: Bits<8>,
    pub b3: Bits<8>,
    pub b2: Bits<8>,
    pub b1: Bits<8>,
    pub b0: Bits<8>,
}

/// One of our addresses against those of the frame, one clock.
#[derive(LogicBlock)]
pub struct AddressMatch {
    pub clock: Signal<In, Clock>,
    pub address: Signal<In, LocalAddress>,
    pub src: Signal<In, Bits<32>>,
    pub dst: Signal<In, Bits<32>>,
    pub src_own: Signal<Out, Bit>,
    pub dst_own: Signal<Out, Bit>,
    pub src_subnet: Signal<Out, Bit>,
    pub dst_subnet: Signal<Out, Bit>,
    found: DFF<RxMatch>,
    mask: Signal<Local, Bits<32>>,
    subnet: Signal<Local, Bits<32>>,
    has_subnet: Signal<Local, Bit>,
    ones: Constant<Bits<32>>,
}

impl Default for AddressMatch {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            address: Default::default(),
            src: Default::default(),
            dst: Default::default(),
            src_own: Default::default(),
            dst_own: Default::default(),
            src_subnet: Default::default(),
            dst_subnet: Default::default(),
            found: Default::default(),
            mask: Default::default(),
            subnet: Default::default(),
            has_subnet: Default::default(),
            ones: Constant::new(0xffff_ffffu64.to_bits()),
        }
    }
}

impl Logic for AddressMatch {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, found);
        self.mask.next = self.address.val().mask;
        self.subnet.next = self.address.val().ip | (self.mask.val() ^ self.ones.val());
        // a net of one or two addresses has no broadcast address
        self.has_subnet.next = self.address.val().valid & !self.mask.val().get_bit(1);
        self.found.d.next.src_own = self.address.val().valid & (self.src.val() == self.address.val().ip);
        self.found.d.next.dst_own = self.address.val().valid & (self.dst.val() == self.address.val().ip);
        self.found.d.next.src_subnet = self.has_subnet.val() & (self.src.val() == self.subnet.val());
        self.found.d.next.dst_subnet = self.has_subnet.val() & (self.dst.val() == self.subnet.val());
        self.src_own.next = self.found.q.val().src_own;
        self.dst_own.next = self.found.q.val().dst_own;
        self.src_subnet.next = self.found.q.val().src_subnet;
        self.dst_subnet.next = self.found.q.val().dst_subnet;
    }
}

#[derive(LogicBlock)]
pub struct RxParser {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub enable: Signal<In, Bit>,
    pub mac: Signal<In, Bits<48>>,
    pub mtu: Signal<In, Bits<16>>,
    pub multicast: Signal<In, Bit>,
    pub promiscuous: Signal<In, Bit>,
    pub addresses: [Signal<In, LocalAddress>; 4],
    pub beat: Signal<In, Beat>,
    pub valid: Signal<In, Bit>,
    pub out: Signal<Out, Beat>,
    pub out_valid: Signal<Out, Bit>,
    pub meta: Signal<Out, RxMeta>,
    pub arp: ChanSrc<ArpPacket>,
    pub cnt_eth_in_frames: Signal<Out, Bit>,
    pub cnt_eth_in_fcs_errors: Signal<Out, Bit>,
    pub cnt_eth_in_runts: Signal<Out, Bit>,
    pub cnt_eth_in_oversize: Signal<Out, Bit>,
    pub cnt_eth_in_other_mac: Signal<Out, Bit>,
    pub cnt_eth_in_multicast: Signal<Out, Bit>,
    pub cnt_arp_in_ignored: Signal<Out, Bit>,
    pub cnt_ip4_in_hdr_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_csum_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_addr_errors: Signal<Out, Bit>,
    pub cnt_ip4_in_src_errors: Signal<Out, Bit>,
    pub cnt_icmp_in_csum_errors: Signal<Out, Bit>,
    pub cnt_icmp_in_broadcast: Signal<Out, Bit>,
    pub cnt_icmp_in_unknown: Signal<Out, Bit>,
    pub cnt_tcp_in_csum_errors: Signal<Out, Bit>,
    // stage 0 -> 1
    /// The wire is inside a frame (also tracked during reset) / that frame is not for us to see.
    in_frame: DFF<Bit>,
    skip: DFF<Bit>,
    b: DFF<Beat>,
    v: [DFF<Bit>; 7],
    /// Number of the beat in `b`, saturating.
    n: DFF<Bits<13>>,
    f: DFF<RxFields>,
    matches: [AddressMatch; 4],
    max_plain: DFF<Bits<16>>,
    max_tagged: DFF<Bits<16>>,
    /// 16-bit words of the header and octets of the payload that are still to be summed.
    header_left: DFF<Bits<5>>,
    payload_left: DFF<Bits<16>>,
    // stage 1 -> 2
    header_words: DFF<Bits<64>>,
    payload_words: DFF<Bits<64>>,
    first: [DFF<Bit>; 2],
    end: [DFF<RxEnd>; 5],
    len: DFF<Bits<16>>,
    // stage 2 -> 3
    header_sum: DFF<Bits<18>>,
    payload_sum: DFF<Bits<18>>,
    h: DFF<RxFields>,
    hm: DFF<RxMatch>,
    hlen: DFF<Bits<16>>,
    // stage 3 -> 4
    header_acc: DFF<Bits<21>>,
    payload_acc: DFF<Bits<32>>,
    pseudo: DFF<Bits<16>>,
    k: DFF<RxCompare>,
    // stage 4 -> 5
    header_fold1: DFF<Bits<18>>,
    payload_fold1: DFF<Bits<18>>,
    p: DFF<RxDecision>,
    // stage 5 -> 6
    header_fold2: DFF<Bits<17>>,
    payload_fold2: DFF<Bits<17>>,
    // stage 6 -> 7
    r: DFF<RxDecision>,
    r_end: DFF<RxEnd>,
    r_good: DFF<Bit>,
    r_header_sum: DFF<Bit>,
    r_tcp_sum: DFF<Bit>,
    r_icmp_sum: DFF<Bit>,
    delay: RAM<Beat, 4>,
    delay_at: DFF<Bits<4>>,
    d: Signal<Local, Bits<64>>,
    order: Signal<Local, WireOrder>,
    be: Signal<Local, Bits<64>>,
    header_part: Signal<Local, Bits<64>>,
    payload_part: Signal<Local, Bits<64>>,
    found: Signal<Local, RxMatch>,
    decide: Signal<Local, RxDecision>,
    header_take: Signal<Local, Bits<5>>,
    header_mask: Signal<Local, Bits<4>>,
    payload_take: Signal<Local, Bits<16>>,
    payload_room: Signal<Local, Bits<16>>,
    payload_octets: Signal<Local, Bits<8>>,
    payload_mask: Signal<Local, Bits<8>>,
    keep: Signal<Local, Bits<8>>,
    octets: Signal<Local, Bits<16>>,
    max: Signal<Local, Bits<16>>,
    ihl_octets: Signal<Local, Bits<16>>,
    frame_need: Signal<Local, Bits<17>>,
    frame_has: Signal<Local, Bits<17>>,
    tcp_need: Signal<Local, Bits<16>>,
    src: Signal<Local, Bits<32>>,
    dst: Signal<Local, Bits<32>>,
    subject: Signal<Local, Bits<16>>,
    icmp_type: Signal<Local, Bits<8>>,
    header_ok: Signal<Local, Bit>,
    payload_ok: Signal<Local, Bit>,
    good: Signal<Local, Bit>,
    none: Constant<RxDecision>,
    no_end: Constant<RxEnd>,
    word_lane: [Constant<Bits<64>>; 4],
    octet_lane: [Constant<Bits<64>>; 8],
    count: [Constant<Bits<16>>; 9],
    keeps: [Constant<Bits<8>>; 9],
}

impl Default for RxParser {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            enable: Default::default(),
            mac: Default::default(),
            mtu: Default::default(),
            multicast: Default::default(),
            promiscuous: Default::default(),
            addresses: Default::default(),
            beat: Default::default(),
            valid: Default::default(),
            out: Default::default(),
            out_valid: Default::default(),
            meta: Default::default(),
            arp: Default::default(),
            cnt_eth_in_frames: Default::default(),
            cnt_eth_in_fcs_errors: Default::default(),
            cnt_eth_in_runts: Default::default(),
            cnt_eth_in_oversize: Default::default(),
            cnt_eth_in_other_mac: Default::default(),
            cnt_eth_in_multicast: Default::default(),
            cnt_arp_in_ignored: Default::default(),
            cnt_ip4_in_hdr_errors: Default::default(),
            cnt_ip4_in_csum_errors: Default::default(),
            cnt_ip4_in_addr_errors: Default::default(),
            cnt_ip4_in_src_errors: Default::default(),
            cnt_icmp_in_csum_errors: Default::default(),
            cnt_icmp_in_broadcast: Default::default(),
            cnt_icmp_in_unknown: Default::default(),
            cnt_tcp_in_csum_errors: Default::default(),
            in_frame: Default::default(),
            skip: Default::default(),
            b: Default::default(),
            v: Default::default(),
            n: Default::default(),
            f: Default::default(),
            matches: Default::default(),
            max_plain: Default::default(),
            max_tagged: Default::default(),
            header_left: Default::default(),
            payload_left: Default::default(),
            header_words: Default::default(),
            payload_words: Default::default(),
            first: Default::default(),
            end: Default::default(),
            len: Default::default(),
            header_sum: Default::default(),
            payload_sum: Default::default(),
            h: Default::default(),
            hm: Default::default(),
            hlen: Default::default(),
            header_acc: Default::default(),
            payload_acc: Default::default(),
            pseudo: Default::default(),
            k: Default::default(),
            header_fold1: Default::default(),
            payload_fold1: Default::default(),
            p: Default::default(),
            header_fold2: Default::default(),
            payload_fold2: Default::default(),
            r: Default::default(),
            r_end: Default::default(),
            r_good: Default::default(),
            r_header_sum: Default::default(),
            r_tcp_sum: Default::default(),
            r_icmp_sum: Default::default(),
            delay: Default::default(),
            delay_at: Default::default(),
            d: Default::default(),
            order: Default::default(),
            be: Default::default(),
            header_part: Default::default(),
            payload_part: Default::default(),
            found: Default::default(),
            decide: Default::default(),
            header_take: Default::default(),
            header_mask: Default::default(),
            payload_take: Default::default(),
            payload_room: Default::default(),
            payload_octets: Default::default(),
            payload_mask: Default::default(),
            keep: Default::default(),
            octets: Default::default(),
            max: Default::default(),
            ihl_octets: Default::default(),
            frame_need: Default::default(),
            frame_has: Default::default(),
            tcp_need: Default::default(),
            src: Default::default(),
            dst: Default::default(),
            subject: Default::default(),
            icmp_type: Default::default(),
            header_ok: Default::default(),
            payload_ok: Default::default(),
            good: Default::default(),
            none: Constant::new(Default::default()),
            no_end: Constant::new(Default::default()),
            word_lane: std::array::from_fn(|i| Constant::new((0xffffu64 << (48 - 16 * i)).to_bits())),
            octet_lane: std::array::from_fn(|i| Constant::new((0xffu64 << (56 - 8 * i)).to_bits())),
            count: std::array::from_fn(|i| Constant::new((i as u64).to_bits())),
            keeps: std::array::from_fn(|i| Constant::new(((1u64 << i) - 1).to_bits())),
        }
    }
}

impl Logic for RxParser {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, in_frame, skip, b, n, f, max_plain, max_tagged, header_left, payload_left, header_words, payload_words);
        dff_setup!(self, clock, len, header_sum, payload_sum, h, hm, hlen, header_acc, payload_acc, pseudo, k, header_fold1);
        dff_setup!(self, clock, payload_fold1, p, header_fold2, payload_fold2, r, r_end, r_good, r_header_sum, r_tcp_sum, r_icmp_sum);
        dff_setup!(self, clock, delay_at);
        for i in 0..7 {
            self.v[i].clock.next = self.clock.val();
        }
        for i in 0..6 {
            self.v[i + 1].d.next = self.v[i].q.val();
        }
        for i in 0..2 {
            self.first[i].clock.next = self.clock.val();
        }
        self.first[1].d.next = self.first[0].q.val();
        for i in 0..5 {
            self.end[i].clock.next = self.clock.val();
        }
        for i in 0..4 {
            self.end[i + 1].d.next = self.end[i].q.val();
        }
        for i in 0..4 {
            self.matches[i].clock.next = self.clock.val();
            self.matches[i].address.next = self.addresses[i].val();
            self.matches[i].src.next = self.f.q.val().src;
            self.matches[i].dst.next = self.f.q.val().dst;
        }
        self.delay.read_clock.next = self.clock.val();
        self.delay.write_clock.next = self.clock.val();

        // stage 0: which beats exist for us, and which number they have
        self.b.d.next = self.beat.val();
        self.v[0].d.next = false;
        if self.valid.val() {
            self.in_frame.d.next = !self.beat.val().last;
            if self.in_frame.q.val() {
                self.v[0].d.next = !self.skip.q.val();
                // at most 65528 octets, so that the length never wraps
                if self.n.q.val() != 8190 {
                    self.n.d.next = self.n.q.val() + 1;
                }
            } else {
                self.v[0].d.next = self.enable.val();
                self.skip.d.next = !self.enable.val();
                self.n.d.next = 0.into();
            }
        }
        if self.reset.val() {
            self.v[0].d.next = false;
            self.skip.d.next = true;
        }

        // stage 1: fields
        self.d.next = self.b.q.val().data;
        self.order.next.b0 = self.d.val().get_bits::<8>(0);
        self.order.next.b1 = self.d.val().get_bits::<8>(8);
        self.order.next.b2 = self.d.val().get_bits::<8>(16);
        self.order.next.b3 = self.d.val().get_bits::<8>(24);
        self.order.next.b4 = self.d.val().get_bits::<8>(32);
        self.order.next.b5 = self.d.val().get_bits::<8>(40);
        self.order.next.b6 = self.d.val().get_bits::<8>(48);
        self.order.next.b7 = self.d.val().get_bits::<8>(56);
        self.be.next = self.order.val().into();
        self.header_mask.next = 0.into();
        self.header_take.next = self.header_left.q.val();
        if self.header_left.q.val() > 4 {
            self.header_take.next = 4.into();
        }
        self.payload_room.next = 8.into();
        if self.n.q.val() == 4 {
            self.payload_room.next = 6.into();
        }
        self.payload_take.next = self.payload_left.q.val();
        if self.payload_left.q.val() > self.payload_room.val() {
            self.payload_take.next = self.payload_room.val();
        }
        self.payload_octets.next = 0.into();
        for i in 0..8 {
            if self.payload_take.val() > self.count[i].val() {
                self.payload_octets.next = self.keeps[i + 1].val();
            }
        }
        self.payload_mask.next = 0.into();
        if self.v[0].q.val() {
            if self.n.q.val() == 0 {
                self.f.d.next.own = self.d.val().get_bits::<48>(0) == self.mac.val();
                self.f.d.next.broadcast = self.d.val().get_bits::<48>(0).all();
                self.f.d.next.group = self.d.val().get_bit(0);
                self.f.d.next.source_group = self.d.val().get_bit(48);
            } else if self.n.q.val() == 1 {
                self.f.d.next.ip = self.be.val().get_bits::<16>(16) == 0x0800;
                self.f.d.next.arp = self.be.val().get_bits::<16>(16) == 0x0806;
                self.f.d.next.vlan = (self.be.val().get_bits::<16>(16) == 0x8100) | (self.be.val().get_bits::<16>(16) == 0x88a8);
                self.f.d.next.version = self.be.val().get_bits::<4>(12);
                self.f.d.next.ihl = self.be.val().get_bits::<4>(8);
                self.f.d.next.arp_ok = self.be.val().get_bits::<16>(0) == 1;
                self.header_mask.next = 8.into();
                self.header_left.d.next = (bit_cast::<5, 4>(self.be.val().get_bits::<4>(8)) << 1) - 1;
            } else if self.n.q.val() == 2 {
                self.f.d.next.ip_len = self.be.val().get_bits::<16>(48);
                self.f.d.next.fragment = self.be.val().get_bits::<14>(16).any();
                self.f.d.next.tcp = self.be.val().get_bits::<8>(0) == 6;
                self.f.d.next.icmp = self.be.val().get_bits::<8>(0) == 1;
                self.f.d.next.arp_ok = self.f.q.val().arp_ok & (self.be.val().get_bits::<32>(32) == 0x0800_0604);
                self.f.d.next.arp_op = self.be.val().get_bits::<16>(16);
                self.f.d.next.sender_mac = bit_cast::<48, 16>(self.d.val().get_bits::<16>(48));
            } else if self.n.q.val() == 3 {
                self.f.d.next.sender_mac = (bit_cast::<48, 32>(self.d.val().get_bits::<32>(0)) << 16) | self.f.q.val().sender_mac;
                if self.f.q.val().arp {
                    self.f.d.next.src = self.be.val().get_bits::<32>(0);
                } else {
                    self.f.d.next.src = self.be.val().get_bits::<32>(16);
                }
                self.f.d.next.dst = bit_cast::<32, 16>(self.be.val().get_bits::<16>(0)) << 16;
                self.payload_left.d.next = self.f.q.val().ip_len - 20;
                if self.f.q.val().tcp {
                    self.payload_mask.next = 0xfc.into();
                }
            } else if self.n.q.val() == 4 {
                if self.f.q.val().arp {
                    self.f.d.next.dst = bit_cast::<32, 16>(self.be.val().get_bits::<16>(0)) << 16;
                } else {
                    self.f.d.next.dst = self.f.q.val().dst | bit_cast::<32, 16>(self.be.val().get_bits::<16>(48));
                }
                self.f.d.next.src_port = self.be.val().get_bits::<16>(32);
                self.f.d.next.dst_port = self.be.val().get_bits::<16>(16);
                self.f.d.next.seq = bit_cast::<32, 16>(self.be.val().get_bits::<16>(0)) << 16;
                self.payload_mask.next = self.payload_octets.val() << 2;
                if self.f.q.val().tcp {
                    self.payload_mask.next = (self.payload_octets.val() << 2) | 3;
                }
            } else if self.n.q.val() == 5 {
                if self.f.q.val().arp {
                    self.f.d.next.dst = self.f.q.val().dst | bit_cast::<32, 16>(self.be.val().get_bits::<16>(48));
                }
                self.f.d.next.seq = self.f.q.val().seq | bit_cast::<32, 16>(self.be.val().get_bits::<16>(48));
                self.f.d.next.ack = self.be.val().get_bits::<32>(16);
                self.f.d.next.data_offset = self.be.val().get_bits::<4>(12);
                self.f.d.next.tcp_flags = self.be.val().get_bits::<8>(0);
            } else if self.n.q.val() == 6 {
                self.f.d.next.window = self.be.val().get_bits::<16>(48);
            }
            if self.n.q.val() > 1 {
                for i in 0..4 {
                    if bit_cast::<16, 5>(self.header_take.val()) > self.count[i].val() {
                        self.header_mask.next = self.keeps[i + 1].val().get_bits::<4>(0);
                    }
                }
                self.header_left.d.next = self.header_left.q.val() - self.header_take.val();
            }
            if self.n.q.val() > 3 {
                self.payload_left.d.next = self.payload_left.q.val() - self.payload_take.val();
            }
            if self.n.q.val() > 4 {
                self.payload_mask.next = self.payload_octets.val();
            }
        }
        self.header_part.next = 0.into();
        for i in 0..4 {
            if self.header_mask.val().get_bit(i) {
                self.header_part.next = self.header_part.val() | (self.be.val() & self.word_lane[i].val());
            }
        }
        self.payload_part.next = 0.into();
        for i in 0..8 {
            if self.payload_mask.val().get_bit(i) {
                self.payload_part.next = self.payload_part.val() | (self.be.val() & self.octet_lane[i].val());
            }
        }
        self.header_words.d.next = self.header_part.val();
        self.payload_words.d.next = self.payload_part.val();
        self.first[0].d.next = self.n.q.val() == 0;
        self.keep.next = self.b.q.val().keep;
        self.octets.next = 0.into();
        for i in 0..8 {
            if self.keep.val().get_bit(i) {
                self.octets.next = self.count[i + 1].val();
            }
        }
        self.len.d.next = (bit_cast::<16, 13>(self.n.q.val()) << 3) + self.octets.val();
        self.end[0].d.next = self.no_end.val();
        if self.v[0].q.val() & self.b.q.val().last {
            self.end[0].d.next.end = true;
            self.end[0].d.next.damaged = self.b.q.val().error;
        }

        self.max_plain.d.next = self.mtu.val() + 14;
        self.max_tagged.d.next = self.mtu.val() + 18;

        // stage 2: words of the beat, length; keep the fields
        self.header_sum.d.next = bit_cast::<18, 16>(self.header_words.q.val().get_bits::<16>(0))
            + bit_cast::<18, 16>(self.header_words.q.val().get_bits::<16>(16))
            + bit_cast::<18, 16>(self.header_words.q.val().get_bits::<16>(32))
            + bit_cast::<18, 16>(self.header_words.q.val().get_bits::<16>(48));
        self.payload_sum.d.next = bit_cast::<18, 16>(self.payload_words.q.val().get_bits::<16>(0))
            + bit_cast::<18, 16>(self.payload_words.q.val().get_bits::<16>(16))
            + bit_cast::<18, 16>(self.payload_words.q.val().get_bits::<16>(32))
            + bit_cast::<18, 16>(self.payload_words.q.val().get_bits::<16>(48));
        self.max.next = self.max_plain.q.val();
        if self.f.q.val().vlan {
            self.max.next = self.max_tagged.q.val();
        }
        self.found.next.dst_own = false;
        self.found.next.src_own = false;
        self.found.next.dst_subnet = false;
        self.found.next.src_subnet = false;
        for i in 0..4 {
            if self.matches[i].dst_own.val() {
                self.found.next.dst_own = true;
            }
            if self.matches[i].src_own.val() {
                self.found.next.src_own = true;
            }
            if self.matches[i].dst_subnet.val() {
                self.found.next.dst_subnet = true;
            }
            if self.matches[i].src_subnet.val() {
                self.found.next.src_subnet = true;
            }
        }
        if self.end[0].q.val().end {
            if self.len.q.val() < 60 {
                self.end[1].d.next.runt = true;
            } else {
                self.end[1].d.next.oversize = self.len.q.val() > self.max.val();
                self.h.d.next = self.f.q.val();
                self.hlen.d.next = self.len.q.val();
                self.hm.d.next = self.found.val();
            }
        }

        // stage 3: add up; compare fields
        if self.v[2].q.val() {
            if self.first[1].q.val() {
                self.header_acc.d.next = bit_cast::<21, 18>(self.header_sum.q.val());
                self.payload_acc.d.next = bit_cast::<32, 18>(self.payload_sum.q.val());
            } else {
                self.header_acc.d.next = self.header_acc.q.val() + bit_cast::<21, 18>(self.header_sum.q.val());
                self.payload_acc.d.next = self.payload_acc.q.val() + bit_cast::<32, 18>(self.payload_sum.q.val());
            }
        }
        // protocol 6 + TCP length, which is Total Length - 20
        self.pseudo.d.next = 0.into();
        if self.h.q.val().tcp {
            self.pseudo.d.next = self.h.q.val().ip_len - 14;
        }
        self.ihl_octets.next = bit_cast::<16, 4>(self.h.q.val().ihl) << 2;
        self.frame_need.next = bit_cast::<17, 16>(self.h.q.val().ip_len) + 14;
        self.frame_has.next = bit_cast::<17, 16>(self.hlen.q.val());
        self.k.d.next.header_bad = (self.h.q.val().version != 4)
            | (self.h.q.val().ihl < 5)
            | (self.h.q.val().ip_len < self.ihl_octets.val())
            | (self.frame_need.val() > self.frame_has.val());
        self.tcp_need.next = (bit_cast::<16, 4>(self.h.q.val().data_offset) << 2) + 20;
        self.k.d.next.tcp_short = (self.h.q.val().data_offset < 5) | (self.h.q.val().ip_len < self.tcp_need.val());
        self.k.d.next.icmp_short = self.h.q.val().ip_len < 28;
        self.src.next = self.h.q.val().src;
        self.dst.next = self.h.q.val().dst;
        self.k.d.next.unicast = self.hm.q.val().dst_own & !self.h.q.val().broadcast & !self.h.q.val().source_group;
        self.k.d.next.dst_known = self.hm.q.val().dst_own
            | self.hm.q.val().dst_subnet
            | self.dst.val().all()
            | (self.multicast.val() & (self.dst.val().get_bits::<4>(28) == 14));
        self.k.d.next.src_bad = self.hm.q.val().src_subnet
            | self.src.val().get_bits::<3>(29).all()
            | (self.src.val().get_bits::<8>(24) == 127)
            | ((self.src.val().get_bits::<8>(24) == 0) & (self.h.q.val().tcp | self.h.q.val().icmp));
        self.k.d.next.options = self.h.q.val().ihl != 5;
        self.subject.next = self.h.q.val().src_port;
        self.icmp_type.next = self.subject.val().get_bits::<8>(8);
        self.k.d.next.echo = self.subject.val() == 0x0800;
        self.k.d.next.icmp_host = (self.icmp_type.val() == 0)
            | (self.icmp_type.val() == 3)
            | (self.icmp_type.val() == 5)
            | (self.icmp_type.val() == 11)
            | (self.icmp_type.val() == 12)
            | (self.icmp_type.val() == 14)
            | (self.icmp_type.val() == 16)
            | (self.icmp_type.val() == 18);
        self.k.d.next.arp_ok = self.h.q.val().arp_ok & ((self.h.q.val().arp_op == 1) | (self.h.q.val().arp_op == 2));

        // stage 4: fold; decide as if the sums were right
        self.header_fold1.d.next =
            bit_cast::<18, 5>(self.header_acc.q.val().get_bits::<5>(16)) + bit_cast::<18, 16>(self.header_acc.q.val().get_bits::<16>(0));
        self.payload_fold1.d.next = bit_cast::<18, 16>(self.payload_acc.q.val().get_bits::<16>(16))
            + bit_cast::<18, 16>(self.payload_acc.q.val().get_bits::<16>(0))
            + bit_cast::<18, 16>(self.pseudo.q.val());
        self.decide.next = self.none.val();
        if self.h.q.val().group & !self.h.q.val().broadcast {
            self.decide.next.foreign = self.multicast.val();
            self.decide.next.multicast = !self.multicast.val();
        } else if !self.h.q.val().own & !self.h.q.val().broadcast {
            self.decide.next.foreign = self.promiscuous.val();
            self.decide.next.other_mac = !self.promiscuous.val();
        } else if self.h.q.val().vlan {
            self.decide.next.vlan = true;
        } else if self.h.q.val().arp {
            self.decide.next.arp = self.k.q.val().arp_ok;
            self.decide.next.arp_ignored = !self.k.q.val().arp_ok;
        } else if !self.h.q.val().ip {
            self.decide.next.other_type = true;
        } else if self.k.q.val().header_bad {
            self.decide.next.header_bad = true;
        } else {
            self.decide.next.need_header = true;
            if !self.k.q.val().dst_known {
                self.decide.next.addr_bad = true;
            } else if self.k.q.val().src_bad {
                self.decide.next.src_bad = true;
            } else if self.h.q.val().fragment {
                self.decide.next.fragment = true;
            } else if self.k.q.val().options {
                self.decide.next.options = true;
            } else if self.h.q.val().tcp {
                self.decide.next.tcp_short = self.k.q.val().tcp_short;
                self.decide.next.need_tcp = !self.k.q.val().tcp_short;
                self.decide.next.tcp = self.k.q.val().unicast & !self.k.q.val().tcp_short;
                self.decide.next.other_proto = !self.k.q.val().unicast & !self.k.q.val().tcp_short;
            } else if self.h.q.val().icmp {
                self.decide.next.icmp_short = self.k.q.val().icmp_short;
                if !self.k.q.val().icmp_short {
                    self.decide.next.need_icmp = true;
                    self.decide.next.echo = self.k.q.val().echo & self.k.q.val().unicast;
                    self.decide.next.icmp_broadcast = self.k.q.val().echo & !self.k.q.val().unicast;
                    self.decide.next.icmp = self.k.q.val().icmp_host;
                    self.decide.next.icmp_unknown = !self.k.q.val().icmp_host & !self.k.q.val().echo;
                }
            } else {
                self.decide.next.other_proto = true;
            }
        }
        self.decide.next.ip = self.decide.val().fragment
            | self.decide.val().options
            | self.decide.val().tcp
            | self.decide.val().echo
            | self.decide.val().icmp
            | self.decide.val().other_proto;
        self.decide.next.pass = self.decide.val().ip | self.decide.val().foreign | self.decide.val().vlan | self.decide.val().other_type;
        self.p.d.next = self.decide.val();

        // stage 5: fold again
        self.header_fold2.d.next = bit_cast::<17, 16>(self.header_fold1.q.val().get_bits::<16>(0))
            + bit_cast::<17, 2>(self.header_fold1.q.val().get_bits::<2>(16));
        self.payload_fold2.d.next = bit_cast::<17, 16>(self.payload_fold1.q.val().get_bits::<16>(0))
            + bit_cast::<17, 2>(self.payload_fold1.q.val().get_bits::<2>(16));

        // stage 6: verdict
        self.header_ok.next = (self.header_fold2.q.val() == 0xffff) | !self.p.q.val().need_header;
        self.payload_ok.next = (self.payload_fold2.q.val() == 0xffff) | !(self.p.q.val().need_tcp | self.p.q.val().need_icmp);
        self.good.next = self.end[4].q.val().end & !self.end[4].q.val().damaged & !self.end[4].q.val().runt & !self.end[4].q.val().oversize;
        self.r_end.d.next = self.end[4].q.val();
        self.r_good.d.next = self.good.val();
        self.r.d.next = self.none.val();
        if self.good.val() & self.header_ok.val() & self.payload_ok.val() {
            self.r.d.next = self.p.q.val();
        }
        self.r_header_sum.d.next = self.good.val() & !self.header_ok.val();
        self.r_tcp_sum.d.next = self.good.val() & self.header_ok.val() & !self.payload_ok.val() & self.p.q.val().need_tcp;
        self.r_icmp_sum.d.next = self.good.val() & self.header_ok.val() & !self.payload_ok.val() & self.p.q.val().need_icmp;
        self.delay_at.d.next = self.delay_at.q.val() + 1;
        self.delay.write_address.next = self.delay_at.q.val();
        self.delay.write_data.next = self.b.q.val();
        self.delay.write_enable.next = true;
        self.delay.read_address.next = self.delay_at.q.val() - 5;

        // stage 7: out
        self.out.next.data = self.delay.read_data.val().data;
        self.out.next.keep = self.delay.read_data.val().keep;
        self.out.next.last = self.delay.read_data.val().last;
        self.out.next.error = !self.r.q.val().pass;
        self.out_valid.next = self.v[6].q.val();
        self.meta.next.echo = self.r.q.val().echo;
        self.meta.next.tcp = self.r.q.val().tcp;
        self.meta.next.icmp = self.r.q.val().icmp;
        self.meta.next.options = self.r.q.val().options;
        self.meta.next.fragment = self.r.q.val().fragment;
        self.meta.next.other_proto = self.r.q.val().other_proto;
        self.meta.next.vlan = self.r.q.val().vlan;
        self.meta.next.other_type = self.r.q.val().other_type;
        self.meta.next.foreign = self.r.q.val().foreign;
        self.meta.next.ip = self.r.q.val().ip;
        self.meta.next.link_broadcast = self.h.q.val().group;
        self.meta.next.len = self.hlen.q.val();
        self.meta.next.src_ip = self.h.q.val().src;
        self.meta.next.dst_ip = self.h.q.val().dst;
        self.meta.next.ip_len = self.h.q.val().ip_len;
        self.meta.next.src_port = self.h.q.val().src_port;
        self.meta.next.dst_port = self.h.q.val().dst_port;
        self.meta.next.seq = self.h.q.val().seq;
        self.meta.next.ack = self.h.q.val().ack;
        self.meta.next.tcp_flags = self.h.q.val().tcp_flags;
        self.meta.next.data_offset = self.h.q.val().data_offset;
        self.meta.next.window = self.h.q.val().window;
        self.arp.valid.next = self.r.q.val().arp;
        self.arp.data.next.request = self.h.q.val().arp_op == 1;
        self.arp.data.next.sender_mac = self.h.q.val().sender_mac;
        self.arp.data.next.sender_ip = self.h.q.val().src;
        self.arp.data.next.target_ip = self.h.q.val().dst;
        self.arp.data.next.target_is_ours = self.hm.q.val().dst_own;
        self.arp.data.next.sender_is_ours = self.hm.q.val().src_own;
        self.cnt_eth_in_frames.next = self.r_good.q.val();
        self.cnt_eth_in_fcs_errors.next = self.r_end.q.val().damaged;
        self.cnt_eth_in_runts.next = self.r_end.q.val().runt & !self.r_end.q.val().damaged;
        self.cnt_eth_in_oversize.next = self.r_end.q.val().oversize & !self.r_end.q.val().damaged;
        self.cnt_eth_in_other_mac.next = self.r.q.val().other_mac;
        self.cnt_eth_in_multicast.next = self.r.q.val().multicast;
        self.cnt_arp_in_ignored.next = self.r.q.val().arp_ignored;
        self.cnt_ip4_in_hdr_errors.next = self.r.q.val().header_bad;
        self.cnt_ip4_in_csum_errors.next = self.r_header_sum.q.val();
        self.cnt_ip4_in_addr_errors.next = self.r.q.val().addr_bad;
        self.cnt_ip4_in_src_errors.next = self.r.q.val().src_bad;
        self.cnt_icmp_in_csum_errors.next = self.r_icmp_sum.q.val() | self.r.q.val().icmp_short;
        self.cnt_icmp_in_broadcast.next = self.r.q.val().icmp_broadcast;
        self.cnt_icmp_in_unknown.next = self.r.q.val().icmp_unknown;
        self.cnt_tcp_in_csum_errors.next = self.r_tcp_sum.q.val() | self.r.q.val().tcp_short;

        if self.reset.val() {
            for i in 0..6 {
                self.v[i + 1].d.next = false;
            }
            for i in 0..5 {
                self.end[i].d.next = self.no_end.val();
            }
            self.r.d.next = self.none.val();
            self.r_end.d.next = self.no_end.val();
            self.r_good.d.next = false;
            self.r_header_sum.d.next = false;
            self.r_tcp_sum.d.next = false;
            self.r_icmp_sum.d.next = false;
        }
    }
}
