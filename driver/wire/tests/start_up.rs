// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opens a connection: TCP options and the start-up frames of MPA.
use etherparse::{TcpOptionElement, TcpOptionsIterator};
use ironwarp_wire::{mpa, tcp, Error};
use proptest::prelude::*;

/// Kind, octets behind the key; what they mean: flags, enhanced words, private data.
type Captured = (mpa::Kind, &'static [u8], u8, Option<(u16, u16)>, &'static [u8]);

fn captured() -> Vec<Captured> {
    use mpa::Kind::{Reply, Request};
    vec![
        (Request, &[0x40, 1, 0, 5, b'h', b'e', b'l', b'l', b'o'], 0x40, None, b"hello"),
        (Request, &[0xc0, 1, 0, 0], 0xc0, None, b""),
        (Reply, &[0x40, 1, 0, 0], 0x40, None, b""),
        (Reply, &[0x60, 1, 0, 2, b'n', b'o'], 0x60, None, b"no"),
        (Request, &[0x50, 2, 0, 8, 0x80, 4, 0xc0, 4, b'p', b'i', b'n', b'g'], 0x50, Some((0x8004, 0xc004)), b"ping"),
        (Reply, &[0x50, 2, 0, 4, 0x80, 4, 0x80, 4], 0x50, Some((0x8004, 0x8004)), b""),
        (Request, &[0x50, 2, 0, 4, 0x3f, 0xff, 0x3f, 0xff], 0x50, Some((0x3fff, 0x3fff)), b""),
        (Reply, &[0x70, 2, 0, 4, 0, 4, 0, 32], 0x70, Some((4, 32)), b""),
    ]
}

#[test]
fn captured_start_up_frames_are_read_and_written() {
    for (kind, rest, flags, words, data) in captured() {
        let octets = [&kind.key()[..], rest].concat();
        let (frame, after) = mpa::Frame::parse(&octets).expect("well-formed");
        assert!(after.is_empty());
        assert_eq!((frame.kind, frame.private_data), (kind, data));
        assert_eq!(frame.enhanced.map(|e| (e.ird_word, e.ord_word)), words);
        assert_eq!((frame.markers, frame.crc, frame.reject), (flags & 0x80 != 0, flags & 0x40 != 0, flags & 0x20 != 0));
        let mut out = [0; 64];
        assert_eq!(frame.emit(&mut out), Ok(octets.len()));
        assert_eq!(out[..octets.len()], octets);
        for cut in 0..octets.len() {
            assert_eq!(mpa::Frame::parse(&octets[..cut]), Err(Error::Truncated), "more may come");
        }
        for at in 0..16 {
            let mut wrong = octets.clone();
            wrong[at] ^= 0x80;
            for cut in at + 1..octets.len() {
                assert_eq!(mpa::Frame::parse(&wrong[..cut]), Err(Error::Malformed), "the key is wrong as soon as it is seen");
            }
        }
    }
}

#[test]
fn every_flag_octet_revision_and_length() {
    let mut octets = [7; 20 + 600];
    octets[..16].copy_from_slice(&mpa::REPLY_KEY);
    for flags in 0..=255u8 {
        for revision in 0..=255u8 {
            for len in [0u16, 1, 3, 4, 5, 508, 511, 512, 513, 0x0401, 0xffff] {
                octets[16..20].copy_from_slice(&[flags, revision, (len >> 8) as u8, len as u8]);
                let enhanced = flags & 0x10 != 0 && revision == 2;
                let good = matches!(revision, 1 | 2) && len <= 512 && (!enhanced || len >= 4);
                let parsed = mpa::Frame::parse(&octets);
                assert_eq!(parsed.is_ok(), good, "flags {flags:#x} revision {revision} length {len}");
                let Ok((frame, after)) = parsed else { continue };
                assert_eq!(after.len(), 600 - usize::from(len));
                assert_eq!(frame.enhanced.is_some(), enhanced);
                // no reserved bit is ever written
                let mut out = [0; 532];
                assert_eq!(frame.emit(&mut out), Ok(20 + usize::from(len)));
                assert_eq!(out[16], flags & if enhanced { 0xf0 } else { 0xe0 });
            }
        }
    }
}

#[test]
fn what_is_no_start_up_frame_is_not_written() {
    let frame = mpa::Frame {
        kind: mpa::Kind::Request,
        markers: false,
        crc: true,
        reject: false,
        revision: 2,
        enhanced: Some(mpa::Enhanced { ird_word: mpa::word::PEER_TO_PEER | 4, ord_word: mpa::word::RTR_READ | 9 }),
        private_data: &[1; 508],
    };
    let mut out = [0; 600];
    assert_eq!(frame.enhanced.map(|e| (e.ird(), e.ord())), Some((4, 9)));
    assert_eq!(frame.emit(&mut out), Ok(532));
    assert_eq!(frame.emit(&mut out[..531]), Err(Error::NoSpace));
    for bad in [
        mpa::Frame { private_data: &[1; 509], ..frame },
        mpa::Frame { private_data: &[1; 513], enhanced: None, ..frame },
        mpa::Frame { revision: 1, ..frame },
        mpa::Frame { revision: 3, ..frame },
        mpa::Frame { revision: 0, enhanced: None, ..frame },
    ] {
        assert_eq!(bad.emit(&mut out), Err(Error::Malformed));
    }
}

#[test]
fn options_of_every_kind_and_length() {
    for kind in 0..=255u8 {
        for len in 0..=255u8 {
            let mut octets = [1u8; 40];
            octets[3..5].copy_from_slice(&[kind, len]);
            octets[5..7].copy_from_slice(&[0x05, 0xb4]);
            let first = tcp::Options::new(&octets).next();
            match kind {
                0 => assert_eq!(first, None),
                1 => {} // what follows is read as kinds
                _ if (2..=37).contains(&len) => {
                    let data = &octets[5..3 + usize::from(len)];
                    assert_eq!(first, Some(Ok(tcp::TcpOption { kind, data })));
                }
                _ => assert_eq!(first, Some(Err(Error::Malformed))),
            }
        }
    }
    assert_eq!(tcp::Options::new(&[3]).mss(), Err(Error::Malformed), "no length");
    assert_eq!(tcp::Options::new(&[2, 3, 9, 0]).mss(), Ok(None));
    assert_eq!(tcp::Options::new(&[0, 2, 1]).mss(), Ok(None), "nothing is looked at behind the end");
    assert_eq!(tcp::Options::new(&tcp::mss_option(1460)).mss(), Ok(Some(1460)));
    let twice = [tcp::mss_option(1460), tcp::mss_option(0)].concat();
    assert_eq!(tcp::Options::new(&twice).mss(), Ok(Some(0)), "the last one counts");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn start_up_frame_round_trip(
        reply: bool, [markers, crc, reject] in any::<[bool; 3]>(), words in any::<Option<[u16; 2]>>(),
        private_data in proptest::collection::vec(any::<u8>(), 0..=508), after in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let frame = mpa::Frame {
            kind: if reply { mpa::Kind::Reply } else { mpa::Kind::Request },
            markers, crc, reject,
            revision: if words.is_some() { 2 } else { 1 },
            enhanced: words.map(|[ird_word, ord_word]| mpa::Enhanced { ird_word, ord_word }),
            private_data: &private_data,
        };
        let mut octets = vec![0xaa; frame.len()];
        prop_assert_eq!(frame.emit(&mut octets), Ok(frame.len()));
        octets.extend(&after);
        prop_assert_eq!(mpa::Frame::parse(&octets), Ok((frame, &after[..])));
    }

    #[test]
    fn nothing_panics_on_garbage(mut octets in proptest::collection::vec(any::<u8>(), 0..600), keyed: bool) {
        if keyed && octets.len() >= 16 {
            octets[..16].copy_from_slice(&mpa::REQUEST_KEY);
        }
        let _ = mpa::Frame::parse(&octets);
        let walked: Vec<_> = tcp::Options::new(&octets).collect();
        prop_assert!(walked.iter().rev().skip(1).all(Result::is_ok), "an error is the last");
    }

    /// Where another implementation finds an MSS, so does this one.
    #[test]
    fn etherparse_finds_the_same_mss(before in 0..10usize, mss: u16, scale in any::<Option<u8>>()) {
        let mut octets = vec![1; before];
        if let Some(scale) = scale {
            octets.extend([3, 3, scale]);
        }
        octets.extend(tcp::mss_option(mss));
        octets.resize(octets.len().next_multiple_of(4), 0);
        let other = TcpOptionsIterator::from_slice(&octets).find_map(|o| match o {
            Ok(TcpOptionElement::MaximumSegmentSize(value)) => Some(value),
            _ => None,
        });
        prop_assert_eq!(tcp::Options::new(&octets).mss(), Ok(other));
    }
}
