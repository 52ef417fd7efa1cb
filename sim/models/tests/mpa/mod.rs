// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPA start-up frames for tests: what they look like on the wire, in plain Rust, and examples octet by octet.
#![allow(dead_code)] // each test uses its part

/// Fields of a start-up frame, as `StartFrame` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub reply: bool,
    pub flags: u8,
    pub rev: u8,
    pub data_len: u16,
    pub ird_word: u16,
    pub ord_word: u16,
}

pub const S: u8 = 0x10;

pub fn key(reply: bool) -> &'static [u8; 16] {
    if reply {
        b"MPA ID Rep Frame"
    } else {
        b"MPA ID Req Frame"
    }
}

impl Frame {
    /// With the enhanced words of RFC 6581.
    pub fn enhanced(&self) -> bool {
        self.rev == 2 && self.flags & S != 0
    }
    /// On the wire, with this private data.
    pub fn octets(&self, data: &[u8]) -> Vec<u8> {
        assert_eq!(data.len(), usize::from(self.data_len));
        let words = [self.ird_word.to_be_bytes(), self.ord_word.to_be_bytes()].concat();
        let words = if self.enhanced() { words } else { vec![] };
        let pd_length = (words.len() + data.len()) as u16;
        [&key(self.reply)[..], &[self.flags, self.rev], &pd_length.to_be_bytes(), &words, data].concat()
    }
}

/// A frame, its private data, and its octets from 16 on (before them there is the key).
pub struct Example {
    pub frame: Frame,
    pub data: Vec<u8>,
    pub octets: Vec<u8>,
}

/// Written down from the layout in RFC 5044 section 7.1.1 and RFC 6581 section 6.
pub fn examples() -> Vec<Example> {
    let largest: Vec<u8> = (0..508).map(|i| i as u8).collect();
    let example = |reply, flags, rev, (ird_word, ord_word), data: &[u8], front: &[u8]| Example {
        frame: Frame { reply, flags, rev, data_len: data.len() as u16, ird_word, ord_word },
        data: data.to_vec(),
        octets: [&key(reply)[..], front, data].concat(),
    };
    vec![
        // C
        example(false, 0x40, 1, (0, 0), b"hello", &[0x40, 1, 0, 5]),
        // M and C: wants markers
        example(false, 0xc0, 1, (0, 0), b"", &[0xc0, 1, 0, 0]),
        example(true, 0x40, 1, (0, 0), b"", &[0x40, 1, 0, 0]),
        example(true, 0xc0, 1, (0, 0), b"", &[0xc0, 1, 0, 0]),
        // R
        example(true, 0x60, 1, (0, 0), b"no", &[0x60, 1, 0, 2]),
        // peer-to-peer, IRD 4, ORD 4; the Request offers two kinds of RTR
        example(false, 0x50, 2, (0x8004, 0xc004), b"ping", &[0x50, 2, 0, 8, 0x80, 4, 0xc0, 4]),
        example(true, 0x50, 2, (0x8004, 0x8004), b"", &[0x50, 2, 0, 4, 0x80, 4, 0x80, 4]),
        // client-server
        example(false, 0x50, 2, (4, 4), b"", &[0x50, 2, 0, 4, 0, 4, 0, 4]),
        // do not negotiate
        example(false, 0x50, 2, (0x3fff, 0x3fff), b"", &[0x50, 2, 0, 4, 0x3f, 0xff, 0x3f, 0xff]),
        // R with the ORD that is needed
        example(true, 0x70, 2, (4, 32), b"", &[0x70, 2, 0, 4, 0, 4, 0, 32]),
        // the largest
        example(false, 0x50, 2, (4, 4), &largest, &[0x50, 2, 2, 0, 0, 4, 0, 4]),
    ]
}
