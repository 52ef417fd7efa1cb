// SPDX-License-Identifier: MIT OR Apache-2.0
//! FPDUs of MPA (RFC 5044 s4): length, ULPDU, pad, CRC32C, and the markers among them.
//!
//! Where a function takes a `position`, `None` is a stream without markers, `Some` the octets of the stream between its first octet behind the
//! start-up frame and the first octet of the FPDU; only the remainder by [`MARKER_INTERVAL`] matters. A marker directly before the length
//! field belongs to the FPDU, one behind its CRC does not.
use crate::{
    octets::{put, u16_at},
    Error,
};

/// Octets of ULPDU_Length.
pub const LENGTH_OCTETS: usize = 2;
/// Octets of the CRC.
pub const CRC_OCTETS: usize = 4;
/// Octets of a marker.
pub const MARKER_OCTETS: usize = 4;
/// Octets of the stream from marker to marker.
pub const MARKER_INTERVAL: usize = 512;
/// Least MULPDU, whatever TCP can carry.
pub const MIN_MULPDU: usize = 128;
/// Largest MULPDU.
pub const MAX_MULPDU: usize = 64768;

/// CRC32C (RFC 3720) of some octets.
pub fn crc32c(octets: &[u8]) -> u32 {
    #[cfg(feature = "std")]
    return crc32c::crc32c(octets);
    #[cfg(not(feature = "std"))]
    return crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI).checksum(octets);
}

/// Octets of the pad behind a ULPDU (MPA-27).
pub const fn pad(ulpdu: usize) -> usize {
    (LENGTH_OCTETS + ulpdu).wrapping_neg() & 3
}

/// Octets of an FPDU with all its parts.
pub const fn wire_len(ulpdu: usize, position: Option<usize>) -> usize {
    let body = LENGTH_OCTETS + ulpdu + pad(ulpdu) + CRC_OCTETS;
    let Some(position) = position else { return body };
    let before = (MARKER_INTERVAL - position % MARKER_INTERVAL) % MARKER_INTERVAL;
    let markers = if body > before { 1 + (body - before - 1) / (MARKER_INTERVAL - MARKER_OCTETS) } else { 0 };
    body + markers * MARKER_OCTETS
}

/// MULPDU for what TCP carries in a segment (SEG-1, SEG-2).
pub const fn mulpdu(emss: usize, markers: bool) -> usize {
    let frame = LENGTH_OCTETS + CRC_OCTETS + emss % 4 + if markers { MARKER_OCTETS * emss.div_ceil(MARKER_INTERVAL) } else { 0 };
    let room = emss.saturating_sub(frame);
    if room < MIN_MULPDU {
        MIN_MULPDU
    } else if room > MAX_MULPDU {
        MAX_MULPDU
    } else {
        room
    }
}

/// Octets of the FPDU that begins here. `Truncated`: its length field is not yet there.
pub fn len(octets: &[u8], position: Option<usize>) -> Result<usize, Error> {
    let at = if position.is_some_and(|position| position % MARKER_INTERVAL == 0) { MARKER_OCTETS } else { 0 };
    if octets.len() < at + LENGTH_OCTETS {
        return Err(Error::Truncated);
    }
    Ok(wire_len(usize::from(u16_at(octets, at)), position))
}

/// The ULPDU of a whole FPDU ([`len`] octets), which is overwritten if it has markers. `Checksum`: the CRC is wrong. `Malformed`: a marker
/// points elsewhere.
pub fn open(octets: &mut [u8], position: Option<usize>, crc: bool) -> Result<&[u8], Error> {
    let whole = len(octets, position)?;
    let octets = octets.get_mut(..whole).ok_or(Error::Truncated)?;
    let covered = whole - CRC_OCTETS;
    if crc && octets[covered..] != crc32c(&octets[..covered]).to_le_bytes() {
        return Err(Error::Checksum);
    }
    if let Some(position) = position {
        let mut marker = (MARKER_INTERVAL - position % MARKER_INTERVAL) % MARKER_INTERVAL;
        let start = if marker == 0 { MARKER_OCTETS } else { 0 };
        let mut end = marker.min(covered);
        while marker < covered {
            // the two low bits mean nothing (MRK-6)
            if usize::from(u16_at(octets, marker + 2) & !3) != marker.saturating_sub(start) {
                return Err(Error::Malformed);
            }
            let next = (marker + MARKER_INTERVAL).min(covered);
            octets.copy_within(marker + MARKER_OCTETS..next, end);
            end += next - marker - MARKER_OCTETS;
            marker += MARKER_INTERVAL;
        }
    }
    let ulpdu = usize::from(u16_at(octets, 0));
    octets.get(LENGTH_OCTETS..LENGTH_OCTETS + ulpdu).ok_or(Error::Malformed)
}

/// Writes one FPDU, its ULPDU in any number of pieces.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
    /// Octets until the next marker; the length field stands at `start`.
    marker: Option<usize>,
    start: usize,
    left: usize,
    pad: usize,
}

impl<'a> Writer<'a> {
    /// For a ULPDU of that many octets. `NoSpace`: `out` has less than [`wire_len`]. `Malformed`: too long for the length field.
    pub fn new(out: &'a mut [u8], ulpdu: usize, position: Option<usize>) -> Result<Self, Error> {
        let length = u16::try_from(ulpdu).map_err(|_| Error::Malformed)?;
        if out.len() < wire_len(ulpdu, position) {
            return Err(Error::NoSpace);
        }
        let marker = position.map(|position| (MARKER_INTERVAL - position % MARKER_INTERVAL) % MARKER_INTERVAL);
        let start = if marker == Some(0) { MARKER_OCTETS } else { 0 };
        let mut writer = Writer { out, at: 0, marker, start, left: LENGTH_OCTETS + ulpdu, pad: pad(ulpdu) };
        writer.put(&length.to_be_bytes())?;
        Ok(writer)
    }
    fn mark(&mut self) {
        if self.marker == Some(0) {
            let pointer = (self.at.saturating_sub(self.start)) as u16;
            let [high, low] = pointer.to_be_bytes();
            put(self.out, self.at, &[0, 0, high, low]);
            self.at += MARKER_OCTETS;
            self.marker = Some(MARKER_INTERVAL - MARKER_OCTETS);
        }
    }
    fn raw(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            self.mark();
            let now = self.marker.map_or(octets.len(), |left| left.min(octets.len()));
            put(self.out, self.at, &octets[..now]);
            self.at += now;
            self.marker = self.marker.map(|left| left - now);
            octets = &octets[now..];
        }
    }
    /// The next octets of the ULPDU. `NoSpace`: more than was announced.
    pub fn put(&mut self, octets: &[u8]) -> Result<(), Error> {
        self.left = self.left.checked_sub(octets.len()).ok_or(Error::NoSpace)?;
        self.raw(octets);
        Ok(())
    }
    /// Pad and CRC, or four zeros in its place; answers the octets of the FPDU. `Truncated`: less came than was announced.
    pub fn finish(mut self, crc: bool) -> Result<usize, Error> {
        if self.left != 0 {
            return Err(Error::Truncated);
        }
        self.raw(&[0; 3][..self.pad]);
        self.mark();
        let sum = if crc { crc32c(&self.out[..self.at]) } else { 0 };
        put(self.out, self.at, &sum.to_le_bytes());
        Ok(self.at + CRC_OCTETS)
    }
}
