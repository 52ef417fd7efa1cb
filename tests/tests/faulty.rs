// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two adapters over a wire with faults: what is damaged is dropped and counted, what is lost is asked for again.
use ironwarp_abi::Counter;
use ironwarp_rnic::Config;
use ironwarp_sim::{
    bus::lock,
    wire::{Fault, FaultRates},
};
use ironwarp_tests::{address, assert_clean, config, counter, echo_request, faulty_pair, seed, Attached};
use std::time::Duration;

/// Longer than any frame is under way.
const SILENCE: Duration = Duration::from_micros(50);
/// Octets of the Ethernet and the IPv4 header.
const ETHERNET: usize = 14;
const IPV4: usize = 20;

/// One ping of A to B; was it answered?
fn ping(a: &mut Attached, seq: u16, wait: Duration) -> bool {
    a.send(&echo_request(1, address(2), 7, seq, &[0x5a; 24]), true).expect("send");
    a.recv_wait(&mut vec![], wait).expect("recv").is_some()
}

/// Every bit of an echo request behind its Ethernet header, and one in each octet of the frame with a wrong FCS.
///
/// Covers: ETH-4, IP-2
#[test]
fn damage_is_counted_once_and_answered_by_nobody() {
    let (world, mut a, mut b, faults) = faulty_pair(1, FaultRates::default(), |n| config(n, 1));
    assert!(ping(&mut a, 0, 200 * SILENCE), "the next hop is known from now on");
    let frame = ETHERNET + IPV4 + 8 + 24;
    for octet in (0..frame).step_by(3) {
        let before = counter(&mut b, Counter::EthInFcsErrors);
        faults.restart();
        faults.on(0, 0, Fault::Flip(8 * octet + octet % 8));
        assert!(!ping(&mut a, 1, SILENCE), "octet {octet}");
        assert_eq!(counter(&mut b, Counter::EthInFcsErrors) - before, 1, "octet {octet}");
    }
    let checks = [Counter::Ip4InHdrErrors, Counter::Ip4InCsumErrors, Counter::IcmpInCsumErrors];
    let sum = |b: &mut Attached| checks.iter().map(|c| counter(b, *c)).sum::<u64>();
    for bit in 8 * ETHERNET..8 * frame {
        let before = sum(&mut b);
        faults.restart();
        faults.on(0, 0, Fault::FlipUnseen(bit));
        assert!(!ping(&mut a, 2, SILENCE), "bit {bit}");
        assert_eq!(sum(&mut b) - before, 1, "bit {} of octet {}", bit % 8, bit / 8);
    }
    assert!(ping(&mut a, 3, SILENCE), "B answers what is whole");
    assert_clean(&world);
}

/// Covers: ARP-5, ARP-7
#[test]
fn a_lost_arp_request_is_sent_again_and_its_reply_too() {
    let retry = 2000;
    let (world, mut a, mut b, faults) = faulty_pair(2, FaultRates::default(), |n| Config { arp_retry_us: Some(retry), ..config(n, 2) });
    faults.on(0, 0, Fault::Drop);
    faults.on(1, 0, Fault::Drop);
    assert!(!ping(&mut a, 1, Duration::from_micros(u64::from(2 * retry) - 200)), "both tries failed");
    assert!(a.recv_wait(&mut vec![], Duration::from_micros(400)).expect("recv").is_some(), "the third did not, and the frame waited");
    assert_eq!((counter(&mut a, Counter::ArpOutRequests), counter(&mut b, Counter::ArpInRequests)), (3, 2));
    assert_eq!((counter(&mut b, Counter::ArpOutReplies), counter(&mut a, Counter::ArpInReplies)), (2, 1));
    assert_eq!((faults.counts(0).dropped, faults.counts(1).dropped, faults.rules_left()), (1, 1, 0));
    assert_clean(&world);
}

#[test]
fn doubled_and_late_frames_arrive_as_often_as_they_should() {
    let (world, mut a, mut b, faults) = faulty_pair(3, FaultRates::default(), |n| config(n, 3));
    assert!(ping(&mut a, 0, 200 * SILENCE));
    faults.restart();
    faults.on(0, 0, Fault::Duplicate);
    faults.on(0, 1, Fault::HoldPastNext);
    faults.on(0, 3, Fault::Delay(2000));
    for seq in 1..6 {
        a.send(&echo_request(1, address(2), 7, seq, &[]), true).expect("send");
        // the hardware has two slots for requests: not all at once
        lock(&world).run(300);
    }
    let mut order = Vec::new();
    let mut frame = Vec::new();
    while a.recv_wait(&mut frame, SILENCE).expect("recv").is_some() {
        order.push(frame[ETHERNET + IPV4 + 7]);
    }
    assert_eq!(order, [1, 1, 3, 2, 5, 4]);
    assert_eq!(counter(&mut b, Counter::IcmpInEchos), 7);
    assert_clean(&world);
}

/// The wire's and the adapters' counts agree, and a run repeats from its seed to the last beat.
#[test]
fn a_run_with_faults_adds_up_and_repeats() {
    let seed = seed("--test faulty adds_up", 4);
    let rates = FaultRates { loss: 0.1, duplication: 0.05, reorder: 0.1, corruption: 0.1, delay: 0.1, ..FaultRates::default() };
    let run = || {
        let (world, mut a, mut b, faults) = faulty_pair(seed, rates, |n| Config { arp_retry_us: Some(1000), ..config(n, seed) });
        let answered = (0..150).filter(|seq| ping(&mut a, *seq, SILENCE)).count();
        // until what the wire still holds has come
        while a.recv_wait(&mut vec![], Duration::from_millis(5)).expect("recv").is_some() {}
        for (direction, rnic) in [(0, &mut b), (1, &mut a)] {
            let counts = faults.counts(direction);
            let arrived = counter(rnic, Counter::EthInFrames) + counter(rnic, Counter::EthInFcsErrors);
            assert_eq!(arrived, counts.frames - counts.dropped + counts.duplicated, "direction {direction}: {counts:?}");
            assert_eq!(counter(rnic, Counter::EthInFcsErrors), counts.damaged, "direction {direction}: {counts:?}");
        }
        assert_clean(&world);
        let digest = lock(&world).digest();
        (answered, faults.counts(0), faults.counts(1), digest)
    };
    let first = run();
    assert!(first.0 > 50 && first.1.dropped > 5 && first.1.late > 10 && first.2.damaged > 2, "{first:?}");
    assert_eq!(first, run());
}
