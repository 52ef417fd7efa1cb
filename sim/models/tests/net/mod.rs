// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames for the tests of the receive path: built with `etherparse`, damaged by hand, judged by [`judge`], a plain model of the parser.
#![allow(dead_code)] // each test uses its part
use etherparse::{IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv4Options, PacketBuilder};
use rand::{Rng, RngCore};

pub const MAC: [u8; 6] = [0x02, 0, 0, 0xaa, 0xbb, 0x01];
pub const PEER: [u8; 6] = [0x02, 0, 0, 0xcc, 0xdd, 0x02];
pub const BROADCAST: [u8; 6] = [0xff; 6];
pub const OWN: [u8; 4] = [192, 0, 2, 1];
pub const REMOTE: [u8; 4] = [192, 0, 2, 77];
/// Address and prefix length of each of the four slots; the last one is not valid.
pub const ADDRESSES: [([u8; 4], u32); 4] = [(OWN, 24), ([198, 51, 100, 9], 31), ([10, 1, 2, 3], 8), ([203, 0, 113, 5], 24)];
pub const VALID: usize = 3;

/// One beat of 8 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets {
    pub data: u64,
    pub keep: u64,
    pub last: bool,
}

pub fn beats(frame: &[u8]) -> Vec<Octets> {
    let count = frame.len().div_ceil(8);
    let beat = |(i, c): (usize, &[u8])| {
        let mut word = [0; 8];
        word[..c.len()].copy_from_slice(c);
        Octets { data: u64::from_le_bytes(word), keep: (1 << c.len()) - 1, last: i + 1 == count }
    };
    frame.chunks(8).enumerate().map(beat).collect()
}

/// Adds the octets of a beat to `frame`.
pub fn push(frame: &mut Vec<u8>, data: u64, keep: u64) {
    assert!(keep != 0 && keep & (keep + 1) == 0, "keep {keep:#x} is not contiguous");
    frame.extend_from_slice(&data.to_le_bytes()[..keep.count_ones() as usize]);
}

pub fn number(ip: [u8; 4]) -> u64 {
    u64::from(u32::from_be_bytes(ip))
}
pub fn mask(prefix: u32) -> u64 {
    u64::from(u32::MAX << (32 - prefix))
}
pub fn mac_number(mac: [u8; 6]) -> u64 {
    mac.iter().rev().fold(0, |n, &o| n << 8 | u64::from(o))
}

/// Fills up with zero octets to the smallest frame.
pub fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}
pub fn octets(rng: &mut impl RngCore, n: usize) -> Vec<u8> {
    let mut v = vec![0; n];
    rng.fill_bytes(&mut v);
    v
}

/// An IPv4 datagram of any protocol in a frame.
pub fn datagram(destination: [u8; 6], header: Ipv4Header, payload: &[u8]) -> Vec<u8> {
    let protocol = header.protocol;
    let mut frame = vec![];
    PacketBuilder::ethernet2(PEER, destination)
        .ip(IpHeaders::Ipv4(header, Default::default()))
        .write(&mut frame, protocol, payload)
        .expect("fits");
    padded(frame)
}
pub fn ip(src: [u8; 4], dst: [u8; 4], protocol: u8) -> Ipv4Header {
    Ipv4Header { protocol: IpNumber(protocol), source: src, destination: dst, time_to_live: 64, ..Default::default() }
}
pub fn with_options(mut header: Ipv4Header, words: usize) -> Ipv4Header {
    header.options = Ipv4Options::try_from(vec![1; 4 * words].as_slice()).expect("at most 40 octets");
    header
}
pub fn fragment(mut header: Ipv4Header, more: bool, offset: u16) -> Ipv4Header {
    header.more_fragments = more;
    header.fragment_offset = IpFragOffset::try_new(offset).expect("13 bits");
    header
}
pub fn tcp(src: [u8; 4], dst: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(PEER, MAC)
        .ipv4(src, dst, 64)
        .tcp(40000, port, 0x1122_3344, 0x5566)
        .ack(0x99aa_bbcc)
        .write(&mut frame, payload)
        .expect("fits");
    padded(frame)
}
pub fn syn(src: [u8; 4], dst: [u8; 4], port: u16) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(PEER, MAC).ipv4(src, dst, 64).tcp(40000, port, 7, 1000).syn().write(&mut frame, &[]).expect("fits");
    padded(frame)
}
pub fn echo(dst: [u8; 4], id: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(PEER, MAC).ipv4(REMOTE, dst, 64).icmpv4_echo_request(id, seq).write(&mut frame, payload).expect("fits");
    padded(frame)
}
/// An ICMP message whose checksum is right, of 4 octets or more.
pub fn icmp(dst: [u8; 4], kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(rest);
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    datagram(MAC, ip(REMOTE, dst, 1), &message)
}
pub fn udp(src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![];
    PacketBuilder::ethernet2(PEER, MAC).ipv4(src, dst, 64).udp(53, 5353).write(&mut frame, payload).expect("fits");
    padded(frame)
}
pub fn arp(operation: u16, sender_ip: [u8; 4], target_ip: [u8; 4]) -> Vec<u8> {
    let mut f = BROADCAST.to_vec();
    f.extend(PEER);
    f.extend([8, 6, 0, 1, 8, 0, 6, 4]);
    f.extend(operation.to_be_bytes());
    f.extend(PEER);
    f.extend(sender_ip);
    f.extend([0; 6]);
    f.extend(target_ip);
    padded(f)
}
pub fn ethertype(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = MAC.to_vec();
    f.extend(PEER);
    f.extend(kind.to_be_bytes());
    f.extend(payload);
    padded(f)
}
/// The frame with a tag behind its MAC addresses.
pub fn tagged(frame: &[u8], kind: u16) -> Vec<u8> {
    let mut f = frame[..12].to_vec();
    f.extend(kind.to_be_bytes());
    f.extend([0x60, 5]);
    f.extend(&frame[12..]);
    f
}
/// The same frame to another MAC address.
pub fn to_mac(mut frame: Vec<u8>, mac: [u8; 6]) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac);
    frame
}
/// Makes the header checksum right again after a field was changed by hand.
pub fn fix_ip(mut frame: Vec<u8>) -> Vec<u8> {
    let end = 14 + 4 * usize::from(frame[14] & 15);
    frame[24..26].fill(0);
    let sum = checksum(&[&frame[14..end.clamp(34, frame.len())]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Internet checksum of the parts one after the other, each but the last of even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&o| u64::from(o));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What the adapter is told.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub mtu: u16,
    pub multicast: bool,
    pub promiscuous: bool,
}
impl Default for Setup {
    fn default() -> Self {
        Setup { mtu: 1500, multicast: false, promiscuous: false }
    }
}

/// What is to become of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Dropped, this counter moves.
    Drop(&'static str),
    /// Handed to ARP.
    Arp,
    /// Passes, with this class bit.
    Pass(&'static str),
}
use Verdict::{Arp, Drop, Pass};

/// The rules in the order of the parser's header, on whole frames.
pub fn judge(setup: &Setup, f: &[u8], damaged: bool) -> Verdict {
    let tag = f.len() > 13 && ([f[12], f[13]] == [0x81, 0] || [f[12], f[13]] == [0x88, 0xa8]);
    if damaged {
        return Drop("eth_in_fcs_errors");
    }
    if f.len() < 60 {
        return Drop("eth_in_runts");
    }
    if f.len() > usize::from(setup.mtu) + if tag { 18 } else { 14 } {
        return Drop("eth_in_oversize");
    }
    let broadcast = f[..6] == BROADCAST;
    if f[0] & 1 == 1 && !broadcast {
        return if setup.multicast { Pass("foreign") } else { Drop("eth_in_multicast") };
    }
    if f[..6] != MAC && !broadcast {
        return if setup.promiscuous { Pass("foreign") } else { Drop("eth_in_other_mac") };
    }
    if tag {
        return Pass("vlan");
    }
    match [f[12], f[13]] {
        [8, 6] => {
            let good = f[14..20] == [0, 1, 8, 0, 6, 4] && f[20] == 0 && (f[21] == 1 || f[21] == 2);
            if good {
                Arp
            } else {
                Drop("arp_in_ignored")
            }
        }
        [8, 0] => judge_ip(setup, f, broadcast),
        _ => Pass("other_type"),
    }
}

fn judge_ip(setup: &Setup, f: &[u8], broadcast: bool) -> Verdict {
    let p = &f[14..];
    let header = 4 * usize::from(p[0] & 15);
    let total = usize::from(p[2]) << 8 | usize::from(p[3]);
    if p[0] >> 4 != 4 || header < 20 || total < header || total > p.len() {
        return Drop("ip4_in_hdr_errors");
    }
    if checksum(&[&p[..header]]) != 0 {
        return Drop("ip4_in_csum_errors");
    }
    let (src, dst): ([u8; 4], [u8; 4]) = (p[12..16].try_into().unwrap(), p[16..20].try_into().unwrap());
    let own = ADDRESSES[..VALID].iter().any(|a| a.0 == dst);
    let subnet = |ip| ADDRESSES[..VALID].iter().any(|a| a.1 < 31 && number(ip) == number(a.0) | !mask(a.1) & 0xffff_ffff);
    if !(own || subnet(dst) || dst == [255; 4] || setup.multicast && dst[0] >> 4 == 14) {
        return Drop("ip4_in_addr_errors");
    }
    let (is_tcp, is_icmp) = (p[9] == 6, p[9] == 1);
    if src[0] >= 224 || src[0] == 127 || subnet(src) || src[0] == 0 && (is_tcp || is_icmp) {
        return Drop("ip4_in_src_errors");
    }
    if p[6] & 0x3f != 0 || p[7] != 0 {
        return Pass("fragment");
    }
    if header > 20 {
        return Pass("options");
    }
    let unicast = own && !broadcast && f[6] & 1 == 0;
    let body = &p[20..total];
    if is_tcp {
        let pseudo = [&p[12..20], &[0, 6], &(body.len() as u16).to_be_bytes()].concat();
        let short = body.len() < 20 || body[12] >> 4 < 5 || 4 * usize::from(body[12] >> 4) > body.len();
        return match short || checksum(&[&pseudo, body]) != 0 {
            true => Drop("tcp_in_csum_errors"),
            false => Pass(if unicast { "tcp" } else { "other_proto" }),
        };
    }
    if is_icmp {
        if body.len() < 8 || checksum(&[body]) != 0 {
            return Drop("icmp_in_csum_errors");
        }
        return match (body[0], body[1]) {
            (8, 0) if unicast => Pass("echo"),
            (8, 0) => Drop("icmp_in_broadcast"),
            (0 | 3 | 5 | 11 | 12 | 14 | 16 | 18, _) => Pass("icmp"),
            _ => Drop("icmp_in_unknown"),
        };
    }
    Pass("other_proto")
}

/// A frame of a kind drawn at random, sometimes with a few octets changed.
pub fn any_frame(rng: &mut impl Rng, mtu: usize) -> Vec<u8> {
    let n = match rng.random_range(0..4) {
        0 => rng.random_range(0..4),
        1 => rng.random_range(0..60),
        2 => rng.random_range(0..mtu - 60),
        _ => rng.random_range(0..200),
    };
    let data = octets(rng, n);
    let own = ADDRESSES[rng.random_range(0..4)].0;
    let dst = match rng.random_range(0..12) {
        0 => [255; 4],
        1 => [192, 0, 2, 255],
        2 => [224, 0, 0, 1],
        3 => rng.random(),
        _ => own,
    };
    let src = match rng.random_range(0..16) {
        0 => [0; 4],
        1 => [127, 0, 0, 1],
        2 => [239, 1, 2, 3],
        3 => [10, 255, 255, 255],
        4 => rng.random(),
        _ => REMOTE,
    };
    let mut f = match rng.random_range(0..16) {
        0 => arp(rng.random_range(0..4), src, dst),
        1 => ethertype(rng.random(), &data),
        2 => datagram(MAC, fragment(ip(src, dst, 6), rng.random(), rng.random_range(0..2)), &data),
        3 => datagram(MAC, with_options(ip(src, dst, [1, 6, 17][rng.random_range(0..3)]), rng.random_range(0..=10)), &data),
        4 => udp(src, dst, &data),
        5..=7 => echo(own, rng.random(), rng.random(), &data),
        8 => icmp(dst, rng.random(), rng.random_range(0..2), &octets(rng, 4 + n)),
        9 => datagram(MAC, ip(src, dst, rng.random()), &data),
        10 => syn(src, dst, rng.random()),
        _ => tcp(src, dst, rng.random(), &data),
    };
    match rng.random_range(0..12) {
        0 => f = to_mac(f, BROADCAST),
        1 => f = to_mac(f, rng.random()),
        2 => f = tagged(&f, [0x8100, 0x88a8, 0x8101][rng.random_range(0..3)]),
        3 => f.truncate(rng.random_range(1..=f.len())),
        4 => f.extend(octets(rng, 9)),
        _ => {}
    }
    if rng.random_bool(0.15) {
        let end = f.len().min(60);
        f[rng.random_range(0..end)] ^= 1 << rng.random_range(0..8);
    }
    if f.len() > 34 && rng.random_bool(0.1) {
        f[rng.random_range(14..34)] = rng.random();
        f = if f[12..14] == [8, 0] { fix_ip(f) } else { f };
    }
    f
}

/// A value of `bits` bits that depends on a frame's number and on the field.
pub fn field(number: u64, field: u64, bits: u32) -> u64 {
    let mixed = (number << 8 | field).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - bits)
}
