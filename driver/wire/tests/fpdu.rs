// SPDX-License-Identifier: MIT OR Apache-2.0
//! FPDUs, headers of DDP and messages of RDMAP.
use ironwarp_wire::{ddp, fpdu, rdmap, Error};
use proptest::prelude::*;

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("hex")).collect()
}

/// Name, position, octets.
fn examples() -> Vec<(&'static str, Option<usize>, Vec<u8>)> {
    include_str!("../../../tests/golden/fpdu.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let row: Vec<_> = line.split('\t').collect();
            (row[0], row[1].parse().ok(), octets(row[2]))
        })
        .collect()
}

fn written(ulpdu: &[u8], position: Option<usize>, crc: bool, piece: usize) -> Vec<u8> {
    let mut out = vec![0xee; fpdu::wire_len(ulpdu.len(), position)];
    let mut writer = fpdu::Writer::new(&mut out, ulpdu.len(), position).expect("room");
    for piece in ulpdu.chunks(piece) {
        writer.put(piece).expect("as announced");
    }
    assert_eq!(writer.finish(crc), Ok(out.len()));
    out
}

/// Covers: MPA-21
#[test]
fn crc32c_of_known_octets() {
    for (input, value) in [
        (b"123456789".to_vec(), 0xe306_9283),
        (vec![0; 32], 0x8a91_36aa),
        (vec![0xff; 32], 0x62a8_ab43),
        ((0..32).collect(), 0x46dd_794e),
        ((0..32).rev().collect(), 0x113f_db5c),
        (vec![], 0),
    ] {
        assert_eq!(fpdu::crc32c(&input), value, "{input:x?}");
    }
}

/// Covers: MPA-22, MPA-25, MPA-27, MRK-1, MRK-2, MRK-3, MRK-5, MRK-7
#[test]
fn worked_fpdus_are_read_and_written() {
    let mut seen = 0;
    for (name, position, whole) in examples() {
        let mut at = 0;
        while at < whole.len() {
            let position = position.map(|position| position + at);
            let n = fpdu::len(&whole[at..], position).expect("length field");
            let mut copy = whole[at..at + n].to_vec();
            let ulpdu = fpdu::open(&mut copy, position, true).unwrap_or_else(|e| panic!("{name}: {e}")).to_vec();
            let (header, payload) = ddp::Header::parse(&ulpdu).expect("header");
            let mut again = [0; 18];
            assert_eq!(header.emit(&mut again), Ok(header.len()));
            assert_eq!(again[..header.len()], ulpdu[..header.len()], "{name}");
            assert_eq!(payload.len() + header.len(), ulpdu.len());
            for piece in [1, 3, 14, 4096] {
                assert_eq!(written(&ulpdu, position, true, piece), whole[at..at + n], "{name} in pieces of {piece}");
            }
            at += n;
            seen += 1;
        }
        assert_eq!(at, whole.len(), "{name}");
    }
    assert_eq!(seen, 35);
}

/// Covers: RDM-9, RDM-11
#[test]
fn worked_messages_are_read_and_written() {
    for (name, position, mut whole) in examples() {
        if name.starts_with("stream") {
            continue;
        }
        let ulpdu = fpdu::open(&mut whole, position, true).expect("good");
        let (header, payload) = ddp::Header::parse(ulpdu).expect("header");
        let (ddp::Header::Tagged { rdmap, .. } | ddp::Header::Untagged { rdmap, .. }) = header;
        assert_eq!(rdmap::version(rdmap), rdmap::VERSION);
        match rdmap::Opcode::of(rdmap) {
            Some(rdmap::Opcode::ReadRequest) => {
                let request = rdmap::ReadRequest::parse(payload).expect("request");
                let mut out = [0; 28];
                assert_eq!(request.emit(&mut out), Ok(28));
                assert_eq!(out, payload);
            }
            Some(rdmap::Opcode::Terminate) => {
                let terminate = rdmap::Terminate::parse(payload).expect("terminate");
                let mut out = [0; rdmap::Terminate::MAX_OCTETS];
                assert_eq!(terminate.emit(&mut out), Ok(payload.len()), "{name}");
                assert_eq!(out[..payload.len()], *payload, "{name}");
                let expected = match name {
                    "term-send-nobuf" => (1, 2, 2, Some(30), false),
                    "term-write-badstag" => (1, 1, 0, Some(30), false),
                    "term-read-access" => (0, 1, 2, Some(46), true),
                    "term-crc" => (2, 0, 2, None, false),
                    "term-ird" => (2, 0, 6, None, false),
                    "term-nortr" => (2, 0, 7, None, false),
                    "term-opcode" => (0, 2, 6, Some(30), false),
                    _ => panic!("{name}"),
                };
                let t = terminate;
                assert_eq!((t.layer, t.etype, t.code, t.segment.map(|s| s.0), t.read.is_some()), expected, "{name}");
            }
            _ => assert!(name.starts_with("fpdu-"), "{name}"),
        }
    }
}

/// Covers: SEG-1, SEG-2, SEG-7, SEG-8
#[test]
fn mulpdu_fits_every_emss() {
    for (emss, plain, marked) in [(536, 530, 522), (1460, 1454, 1442), (1448, 1442, 1430), (8960, 8954, 8882), (8948, 8942, 8870)] {
        assert_eq!((fpdu::mulpdu(emss, false), fpdu::mulpdu(emss, true)), (plain, marked), "{emss}");
    }
    assert_eq!((fpdu::mulpdu(100, true), fpdu::mulpdu(0, false)), (128, 128));
    assert_eq!((fpdu::mulpdu(65495, false), fpdu::mulpdu(65495, true)), (64768, 64768));
    for emss in 160..2000 {
        assert!(fpdu::wire_len(fpdu::mulpdu(emss, false), None) <= emss);
        for position in (0..512).step_by(4) {
            assert!(fpdu::wire_len(fpdu::mulpdu(emss, true), Some(position)) <= emss, "{emss} at {position}");
        }
    }
}

/// Covers: MRK-2, MRK-4, MRK-6, MRK-8
#[test]
fn markers_in_every_phase() {
    for position in (0..1024).step_by(4) {
        for len in [14usize, 18, 494, 500, 502, 506, 510, 1442, 9000] {
            let ulpdu: Vec<u8> = (0..len).map(|n| n as u8 ^ 0x5a).collect();
            let good = written(&ulpdu, Some(position), true, 777);
            assert_eq!(fpdu::open(&mut good.clone(), Some(position), true), Ok(&ulpdu[..]), "{len} at {position}");
            let n = good.len();
            assert_eq!(fpdu::open(&mut good[..n - 1].to_vec(), Some(position), true), Err(Error::Truncated));
            let mut bad = good.clone();
            bad[n / 2] ^= 1;
            assert!(fpdu::open(&mut bad, Some(position), true).is_err());
            let first = (512 - position % 512) % 512;
            if first < n - 4 {
                let resum = |mut octets: Vec<u8>| {
                    let sum = fpdu::crc32c(&octets[..n - 4]);
                    octets[n - 4..].copy_from_slice(&sum.to_le_bytes());
                    octets
                };
                let mut reserved = good.clone();
                reserved[first..first + 2].fill(0xff);
                reserved[first + 3] |= 3;
                assert_eq!(fpdu::open(&mut resum(reserved), Some(position), true), Ok(&ulpdu[..]), "only 14 bits count");
                let mut astray = good;
                astray[first + 3] ^= 4;
                assert_eq!(fpdu::open(&mut resum(astray), Some(position), true), Err(Error::Malformed));
            }
        }
    }
}

/// Covers: MPA-23, MPA-27
#[test]
fn without_crc_its_octets_mean_nothing() {
    let mut whole = written(&[7; 15], None, false, 15);
    assert_eq!(whole[whole.len() - 4..], [0; 4]);
    whole[17..].fill(0x99);
    assert_eq!(fpdu::open(&mut whole, None, false), Ok(&[7; 15][..]));
    assert_eq!(fpdu::open(&mut whole, None, true), Err(Error::Checksum));
}

#[test]
fn headers_are_not_read_beyond_their_octets() {
    for first in [0x41u8, 0xc1] {
        let need = if first & 0x80 != 0 { 14 } else { 18 };
        for len in 0..need {
            let octets = [&[first][..], &[0; 17]].concat();
            assert!(ddp::View::new(&octets[..len]).is_err());
        }
    }
    let mut full = vec![0x01, 2, 0xe0, 0, 0, 46, 0x41, 0x41];
    full.extend([0; 16 + 28]);
    assert!(rdmap::Terminate::parse(&full).is_ok());
    for len in 0..full.len() {
        assert_eq!(rdmap::Terminate::parse(&full[..len]), Err(Error::Truncated), "{len}");
    }
    assert_eq!(rdmap::ReadRequest::parse(&[0; 27]), Err(Error::Truncated));
    assert_eq!(rdmap::ReadRequest::parse(&[0; 29]), Err(Error::Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_on_garbage(mut octets in proptest::collection::vec(any::<u8>(), 0..3000), position in 0usize..2048, crc: bool) {
        let _ = ddp::Header::parse(&octets);
        let _ = rdmap::Terminate::parse(&octets);
        let _ = fpdu::open(&mut octets.clone(), None, crc);
        let _ = fpdu::open(&mut octets, Some(position), crc);
    }
}
