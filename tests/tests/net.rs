// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two adapters back to back: ARP, echo and the L2 queue on the whole core.
use etherparse::{Icmpv4Type, SlicedPacket, TransportSlice};
use ironwarp_abi::Counter;
use ironwarp_tests::{assert_clean, counter, echo_request, mac, pair};
use std::{net::Ipv4Addr, time::Duration};

/// The first ping resolves B in A's hardware and is not lost; B's hardware answers; the reply reaches A's host.
///
/// Covers: ARP-2, ARP-3, ARP-6, ICMP-1
#[test]
fn ping_resolves_in_hardware() {
    let (world, mut a, mut b) = pair(1);
    for (seq, len) in [(1, 0), (2, 1), (3, 56), (4, 1472)] {
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        a.send(&echo_request(1, Ipv4Addr::new(192, 0, 2, 2), 7, seq, &data), true).expect("send");
        let mut frame = vec![];
        let reply = a.recv_wait(&mut frame, Duration::from_millis(50)).expect("recv");
        assert!(
            reply.is_some(),
            "echo {seq} of {len} octets was not answered: {:?} {:?}",
            ironwarp_tests::counters(&mut a),
            ironwarp_tests::counters(&mut b)
        );
        let packet = SlicedPacket::from_ethernet(&frame).expect("well-formed");
        let Some(TransportSlice::Icmpv4(icmp)) = packet.transport else { panic!("{packet:?}") };
        let Icmpv4Type::EchoReply(echo) = icmp.icmp_type() else { panic!("{icmp:?}") };
        assert_eq!((echo.id, echo.seq), (7, seq));
        assert_eq!(&icmp.payload()[..len], &data);
        assert_eq!((&frame[..6], &frame[6..12]), (&mac(1)[..], &mac(2)[..]));
    }
    assert_eq!(counter(&mut a, Counter::ArpOutRequests), 1, "one request for four packets");
    assert_eq!(counter(&mut b, Counter::ArpOutReplies), 1);
    assert_eq!(counter(&mut b, Counter::IcmpOutEchoReps), 4);
    assert_clean(&world);
}
