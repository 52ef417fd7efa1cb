// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wire that writes what it carries into a pcapng file.
use super::{Frame, SentFrame, Wire};
use pcap_file::{
    pcapng::{
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
        PcapNgWriter,
    },
    DataLink, PcapError,
};
use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufWriter, Write},
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Which frames a capture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What the adapter at this end sends and receives: one interface.
    End(usize),
    /// What each adapter sends: an interface for every end, and every frame of a [`super::Link`] once.
    Sent,
}

/// What the time of a captured frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// Model time: cycles of this many picoseconds, from 1970 on. 16000 is 62.5 MHz, 6400 is 156.25 MHz. A frame that was sent has
    /// the time of its first beat.
    Cycles {
        /// Picoseconds of a cycle.
        picoseconds: u64,
    },
    /// Wall time of this machine, for a live peer.
    Wall,
}

/// pcapng: time stamps are nanoseconds (10 ^ -9 s), the finest that Wireshark 4.0 converts without overflow.
const RESOLUTION: u8 = 9;
/// pcapng `epb_flags`: direction, and CRC error.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
const CRC_ERROR: u32 = 1 << 24;

/// A buffered file that is written out when dropped, too.
type Sink = PcapNgWriter<BufWriter<File>>;

/// Wraps a wire and captures it. Frames have no FCS; damaged ones carry the CRC error flag.
pub struct Captured {
    inner: Box<dyn Wire>,
    view: View,
    stamps: Timestamps,
    path: PathBuf,
    /// Gone after a write that failed: the wire goes on.
    sink: Option<Sink>,
}

fn as_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(e) => e,
        other => io::Error::other(other.to_string()),
    }
}

impl Captured {
    /// Captures `inner` into a new file. `names` are those of the interfaces, end by end.
    pub fn new(inner: Box<dyn Wire>, path: &Path, names: &[&str], view: View, stamps: Timestamps) -> io::Result<Self> {
        let mut sink = PcapNgWriter::new(BufWriter::new(File::create(path)?)).map_err(as_io)?;
        let ends = match view {
            View::End(end) => end..end + 1,
            View::Sent => 0..inner.ends(),
        };
        for end in ends {
            let name = names.get(end).map_or_else(|| format!("end{end}"), ToString::to_string);
            sink.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned(name)),
                    InterfaceDescriptionOption::IfTsResol(RESOLUTION),
                    InterfaceDescriptionOption::IfFcsLen(0),
                ],
            })
            .map_err(as_io)?;
        }
        Ok(Captured { inner, view, stamps, path: path.to_owned(), sink: Some(sink) })
    }
    fn write(&mut self, end: usize, flags: u32, frame: &Frame, cycle: u64) {
        let interface_id = match self.view {
            View::End(shown) if shown != end => return,
            View::Sent if flags & INBOUND != 0 => return,
            View::End(_) => 0,
            View::Sent => end as u32,
        };
        let Some(sink) = &mut self.sink else { return };
        let timestamp = match self.stamps {
            Timestamps::Cycles { picoseconds } => Duration::from_nanos(cycle.saturating_mul(picoseconds) / 1000),
            Timestamps::Wall => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        };
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp,
            original_len: frame.octets.len() as u32,
            data: Cow::Borrowed(&frame.octets),
            options: vec![EnhancedPacketOption::Flags(flags | if frame.error { CRC_ERROR } else { 0 })],
        };
        if let Err(error) = sink.write_pcapng_block(block) {
            tracing::error!(file = %self.path.display(), %error, "capture ends here");
            self.sink = None;
        }
    }
    /// Writes out what is buffered.
    pub fn flush(&mut self) {
        if let Some(Err(error)) = self.sink.as_mut().map(|s| s.get_mut().flush()) {
            tracing::error!(file = %self.path.display(), %error, "capture ends here");
            self.sink = None;
        }
    }
}

impl Wire for Captured {
    fn ends(&self) -> usize {
        self.inner.ends()
    }
    fn send(&mut self, end: usize, sent: SentFrame) {
        self.write(end, OUTBOUND, &sent.frame, sent.first);
        self.inner.send(end, sent);
    }
    fn receive(&mut self, end: usize, now: u64) -> Option<Frame> {
        let frame = self.inner.receive(end, now)?;
        self.write(end, INBOUND, &frame, now);
        Some(frame)
    }
    fn idle(&self) -> bool {
        self.inner.idle()
    }
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake()
    }
    fn rest(&mut self) {
        self.flush();
        self.inner.rest();
    }
}
