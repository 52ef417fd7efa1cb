// SPDX-License-Identifier: MIT OR Apache-2.0
//! parse and emit undo each other; etherparse agrees on what was written; no octets make a parser panic.
use etherparse::{Icmpv4Type, PacketBuilder, SlicedPacket, TransportSlice};
use ironwarp_wire::{arp, checksum::checksum, ethernet, icmp, ipv4, tcp, Error, MacAddr};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn data(max: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..=max)
}

fn ip_header() -> impl Strategy<Value = ipv4::Header> {
    (any::<[u8; 3]>(), any::<[bool; 2]>(), any::<u16>(), 0..=0x1fffu16, address(), address(), 0..=1480u16).prop_map(
        |([traffic_class, ttl, protocol], [dont_fragment, more_fragments], identification, fragment_offset, source, destination, len)| {
            ipv4::Header {
                traffic_class,
                identification,
                dont_fragment,
                more_fragments,
                fragment_offset,
                ttl,
                protocol,
                source,
                destination,
                payload_len: len,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ethernet_round_trip(destination in mac(), source in mac(), tag in any::<Option<u16>>(), ethertype: u16, payload in data(100)) {
        prop_assume!(ethertype != ethernet::TYPE_VLAN);
        let header = ethernet::Header { destination, source, tag, ethertype };
        let mut frame = vec![0; header.len()];
        prop_assert_eq!(header.emit(&mut frame), Ok(header.len()));
        frame.extend(&payload);
        prop_assert_eq!(ethernet::Header::parse(&frame), Ok((header, &payload[..])));
        let other = etherparse::Ethernet2Slice::from_slice_without_fcs(&frame).unwrap();
        prop_assert_eq!((other.destination(), other.source()), (destination.0, source.0));
    }

    #[test]
    fn arp_round_trip(request: bool, sender_mac in mac(), sender_ip in address(), target_mac in mac(), target_ip in address()) {
        let operation = if request { arp::Operation::Request } else { arp::Operation::Reply };
        let packet = arp::Packet { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut frame = [0xaa; 100];
        prop_assert_eq!(packet.emit_frame(MacAddr::BROADCAST, &mut frame), Ok(60));
        let (header, payload) = ethernet::Header::parse(&frame[..60]).unwrap();
        prop_assert_eq!((header.ethertype, header.source), (ethernet::TYPE_ARP, sender_mac));
        prop_assert_eq!(arp::Packet::parse(payload), Ok(packet));
        prop_assert!(payload[28..].iter().all(|o| *o == 0));
    }

    #[test]
    fn ipv4_round_trip(header in ip_header(), pad in data(10)) {
        let mut datagram = vec![0x5a; 20 + usize::from(header.payload_len)];
        prop_assert_eq!(header.emit(&mut datagram), Ok(20));
        let payload = datagram[20..].to_vec();
        datagram.extend(pad);
        prop_assert_eq!(ipv4::Header::parse(&datagram), Ok((header, &payload[..])));
        let (other, _) = etherparse::Ipv4Header::from_slice(&datagram).unwrap();
        prop_assert_eq!(other.header_checksum, other.calc_header_checksum());
        prop_assert_eq!((other.source, other.destination), (header.source.octets(), header.destination.octets()));
        prop_assert_eq!((other.dont_fragment, other.more_fragments), (header.dont_fragment, header.more_fragments));
        prop_assert_eq!((other.fragment_offset.value(), other.identification), (header.fragment_offset, header.identification));
        prop_assert_eq!((other.time_to_live, other.protocol.0, other.total_len), (header.ttl, header.protocol, header.payload_len + 20));
    }

    #[test]
    fn icmp_round_trip(kind: u8, code: u8, rest: [u8; 4], text in data(1472)) {
        let (identifier, sequence) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        let data = &text[..];
        let message = match (kind, code) {
            (0, 0) => icmp::Message::EchoReply { identifier, sequence, data },
            (8, 0) => icmp::Message::EchoRequest { identifier, sequence, data },
            _ => icmp::Message::Other { kind, code, rest, data },
        };
        for message in [message, icmp::Message::EchoRequest { identifier, sequence, data }] {
            let mut out = vec![0; message.len()];
            prop_assert_eq!(message.emit(&mut out), Ok(message.len()));
            prop_assert_eq!(icmp::Message::parse(&out), Ok(message));
            if matches!(message, icmp::Message::EchoRequest { .. }) {
                let other = etherparse::Icmpv4Slice::from_slice(&out).unwrap();
                prop_assert_eq!(other.icmp_type().calc_checksum(other.payload()), other.checksum());
            }
        }
    }

    #[test]
    fn tcp_round_trip(
        ports: [u16; 2], sequence: u32, acknowledgment: u32, flags: u8, window: u16, urgent_pointer: u16,
        options in (0..=10usize).prop_flat_map(|n| proptest::collection::vec(any::<u8>(), 4 * n)),
        source in address(), destination in address(), text in data(1460),
    ) {
        let header = tcp::Header {
            source_port: ports[0], destination_port: ports[1], sequence, acknowledgment, flags, window, urgent_pointer, options: &options,
        };
        let mut segment = vec![0; header.len() + text.len()];
        prop_assert_eq!(header.emit(source, destination, &text, &mut segment), Ok(segment.len()));
        prop_assert_eq!(tcp::Header::parse(&segment, source, destination), Ok((header, &text[..])));
        let other = etherparse::TcpSlice::from_slice(&segment).unwrap();
        prop_assert_eq!(other.calc_checksum_ipv4(source.octets(), destination.octets()), Ok(other.checksum()));
        prop_assert_eq!((other.sequence_number(), other.acknowledgment_number()), (sequence, acknowledgment));
        prop_assert_eq!((other.syn(), other.cwr(), other.options()), (flags & tcp::flag::SYN != 0, flags & tcp::flag::CWR != 0, &options[..]));
    }

    /// What another implementation builds is read the same here.
    #[test]
    fn reads_what_etherparse_builds(a in mac(), b in mac(), s in address(), d in address(), id: u16, seq: u16, text in data(1400)) {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(a.0, b.0).ipv4(s.octets(), d.octets(), 7).icmpv4_echo_request(id, seq).write(&mut frame, &text).unwrap();
        let (header, datagram) = ethernet::Header::parse(&frame).unwrap();
        prop_assert_eq!((header.source, header.destination), (a, b));
        let (ip, message) = ipv4::Header::parse(datagram).unwrap();
        prop_assert_eq!((ip.source, ip.destination, ip.ttl), (s, d, 7));
        prop_assert_eq!(icmp::Message::parse(message), Ok(icmp::Message::EchoRequest { identifier: id, sequence: seq, data: &text }));

        frame.clear();
        PacketBuilder::ethernet2(a.0, b.0).ipv4(s.octets(), d.octets(), 7).tcp(id, seq, 1, 2).syn().write(&mut frame, &text).unwrap();
        let (ip, segment) = ipv4::Header::parse(&frame[14..]).unwrap();
        let (header, payload) = tcp::Header::parse(segment, ip.source, ip.destination).unwrap();
        prop_assert_eq!((header.source_port, header.destination_port, header.flags, payload), (id, seq, tcp::flag::SYN, &text[..]));
    }

    /// Whatever comes, a parser answers; and a view never shows octets that were not there.
    #[test]
    fn nothing_panics_on_garbage(octets in data(120), source in address()) {
        let _ = ethernet::Header::parse(&octets);
        let _ = arp::Packet::parse(&octets);
        let _ = ipv4::Header::parse(&octets);
        let _ = icmp::Message::parse(&octets);
        let _ = tcp::Header::parse(&octets, source, source);
        if let Ok(view) = ipv4::View::new(&octets) {
            prop_assert!(view.header_len() + view.payload().len() == usize::from(view.total_len()));
            prop_assert!(usize::from(view.total_len()) <= octets.len());
            let _ = (view.options(), view.checksum_ok(), view.is_fragment());
        }
        if let Ok(view) = tcp::View::new(&octets) {
            prop_assert_eq!(view.header_len() + view.payload().len(), octets.len());
        }
    }

    /// One flipped bit is seen: in the 20 octets of an IPv4 header, in any octet of an ICMP message or TCP segment.
    #[test]
    fn single_bit_errors_are_seen(header in ip_header(), bit in 0..160usize, text in data(64), at: prop::sample::Index) {
        let mut datagram = vec![0; 20 + usize::from(header.payload_len)];
        header.emit(&mut datagram).unwrap();
        datagram[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(ipv4::Header::parse(&datagram).is_err());

        let message = icmp::Message::EchoRequest { identifier: 1, sequence: 2, data: &text };
        let mut out = vec![0; message.len()];
        message.emit(&mut out).unwrap();
        let place = at.index(out.len() * 8);
        out[place / 8] ^= 1 << (place % 8);
        prop_assert_eq!(icmp::Message::parse(&out), Err(Error::Checksum));
    }

    #[test]
    fn mac_text_round_trip(address in mac()) {
        prop_assert_eq!(address.to_string().parse(), Ok(address));
        prop_assert_eq!(MacAddr::from_bits(address.to_bits() | 0xffff << 48), address);
    }
}

#[test]
fn an_arp_request_has_the_octets_of_rfc_826() {
    let packet = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: Ipv4Addr::new(192, 0, 2, 1),
        target_mac: MacAddr::default(),
        target_ip: Ipv4Addr::new(192, 0, 2, 2),
    };
    let mut frame = [0; 60];
    packet.emit_frame(MacAddr::BROADCAST, &mut frame).unwrap();
    let expected: &[u8] = &[
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x06, // Ethernet
        0, 1, 0x08, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 2,
    ];
    assert_eq!(&frame[..42], expected);
    assert_eq!(frame[42..], [0; 18]);
    for (at, wrong) in [(15, 2), (16, 9), (18, 7), (19, 5), (21, 3), (21, 0)] {
        let mut bad = frame;
        bad[at] = wrong;
        assert_eq!(arp::Packet::parse(&bad[14..]), Err(Error::Malformed), "octet {at}");
    }
}

#[test]
fn a_tag_is_recognised_and_never_taken_for_a_type() {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .single_vlan(42.try_into().unwrap())
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(1, 2, 3, 4)
        .write(&mut frame, &[])
        .unwrap();
    let (header, payload) = ethernet::Header::parse(&frame).unwrap();
    assert_eq!((header.tag, header.ethertype), (Some(42), ethernet::TYPE_IPV4));
    assert!(ipv4::Header::parse(payload).is_ok());
    assert_eq!(ethernet::Header::parse(&frame[..17]), Err(Error::Truncated));
}

#[test]
fn options_are_skipped_and_shown() {
    let mut header = etherparse::Ipv4Header::new(8, 64, 6.into(), [192, 0, 2, 1], [192, 0, 2, 2]).unwrap();
    header.options = [1u8; 8].into();
    header.set_payload_len(8).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut datagram = header.to_bytes().to_vec();
    datagram.extend([7; 8]);
    let (_, payload) = ipv4::Header::parse(&datagram).unwrap();
    assert_eq!(payload, [7; 8]);
    assert_eq!(ipv4::View::new(&datagram).unwrap().options(), [1; 8]);
}

#[test]
fn a_buffer_that_is_too_small_is_refused_whole() {
    let message = icmp::Message::EchoReply { identifier: 0, sequence: 0, data: &[1, 2, 3] };
    assert_eq!(message.emit(&mut [0; 10]), Err(Error::NoSpace));
    let header = tcp::Header {
        source_port: 1,
        destination_port: 2,
        sequence: 0,
        acknowledgment: 0,
        flags: 0,
        window: 0,
        urgent_pointer: 0,
        options: &[0; 3],
    };
    assert_eq!(header.emit(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, &[], &mut [0; 60]), Err(Error::Malformed));
}

#[test]
fn sums_that_are_0_and_ffff() {
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(checksum(&[0xff, 0xff]), 0);
    assert_eq!(checksum(&[0xff, 0xff, 0, 1]), 0xfffe);
    assert_eq!(checksum(&[0x12]), !0x1200);
    // RFC 1071 section 3
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
}

#[test]
fn what_is_written_is_what_a_stack_expects() {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
    let message = icmp::Message::EchoRequest { identifier: 0x1234, sequence: 1, data: b"ironwarp" };
    let mut frame = [0; 128];
    let header = ethernet::Header { destination: MacAddr([2; 6]), source: MacAddr([4; 6]), tag: None, ethertype: ethernet::TYPE_IPV4 };
    let mut at = header.emit(&mut frame).unwrap();
    at += ipv4::Header::new(source, destination, ipv4::PROTOCOL_ICMP, message.len() as u16).emit(&mut frame[at..]).unwrap();
    at += message.emit(&mut frame[at..]).unwrap();
    let packet = SlicedPacket::from_ethernet(&frame[..at]).unwrap();
    let Some(TransportSlice::Icmpv4(echo)) = packet.transport else { panic!("ICMP expected") };
    assert!(matches!(echo.icmp_type(), Icmpv4Type::EchoRequest(h) if h.id == 0x1234 && h.seq == 1));
    assert_eq!(echo.payload(), b"ironwarp");
}
