// SPDX-License-Identifier: MIT OR Apache-2.0
//! What perftest's programs say to each other with `-R`: over a connection of its own, beside the one that is measured. Both are made to the same port, this one first.
//!
//! They talk by Sends, strictly in turn, the client first: it says something, the server says the same thing of itself. Each side has exactly one receive posted.
//!
//! | what | octets |
//! |---|---|
//! | version, text with octets 0 behind it | 16 |
//! | size of the buffer that messages go round in | 4 |
//! | size of a cache line | 4 |
//! | MTU, a digit and an octet 0; nothing comes of it on iWARP | 2 |
//! | a [`Place`]: once before and once after the second connection is made, when nothing is in it yet; then as often as the test has it | 56 |
//! | a [`Report`] of bandwidth: messages' size, their number, then three binary64: peak, average, messages | 5 times 8 |
//!
//! All numbers are big endian.
use crate::{
    endpoint::{Endpoint, Opened, Pending, Queues},
    Failure,
};
use ironwarp_verbs::{Access, Mr, QpCap, RecvWr, SendFlags, SendOp, SendWr, WcOpcode, WcStatus};
use std::{cell::Cell, sync::Arc, time::Duration};

/// The version of perftest that this is like: Debian 12's. Newer ones talk to it as to an older one of themselves.
const VERSION: &str = "6.06";
/// Older ones say less.
const OLDEST: f64 = 5.70;
const LONGEST: usize = Place::OCTETS;
/// What is exchanged of the own machine: only the larger of the two counts.
const PAGE: u32 = 4096;
const CACHE_LINE: u32 = 64;
/// Largest such buffer that is believed.
const LARGEST_PAGE: u32 = 1 << 22;
const MTU: [u8; 2] = *b"3\0";

/// Where the peer may write or read, and what a queue pair is to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Reads that may be outstanding.
    pub out_reads: u32,
    /// Queue pair.
    pub qpn: u32,
    /// Key.
    pub rkey: u32,
    /// Address.
    pub vaddr: u64,
}

impl Place {
    const OCTETS: usize = 56;
    /// LID, out_reads, QPN, PSN, key, nothing, address, GID (16), SRQN, index of the GID.
    fn octets(&self) -> [u8; Self::OCTETS] {
        let mut o = [0; Self::OCTETS];
        o[4..8].copy_from_slice(&self.out_reads.to_be_bytes());
        o[8..12].copy_from_slice(&self.qpn.to_be_bytes());
        o[16..20].copy_from_slice(&self.rkey.to_be_bytes());
        o[24..32].copy_from_slice(&self.vaddr.to_be_bytes());
        o
    }
    fn parse(o: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes([o[at], o[at + 1], o[at + 2], o[at + 3]]);
        Place { out_reads: word(4), qpn: word(8), rkey: word(16), vaddr: u64::from(word(24)) << 32 | u64::from(word(28)) }
    }
}

/// What came of a test of bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
    /// Octets of a message.
    pub size: u64,
    /// Messages.
    pub iters: u64,
    /// Fastest stretch, in 2^20 octets a second; 0 if not measured.
    pub peak: f64,
    /// All of it, in 2^20 octets a second.
    pub average: f64,
    /// Millions of messages a second.
    pub rate: f64,
}

/// The connection they talk over.
pub struct Conversation {
    end: Endpoint,
    note: Arc<dyn Mr>,
    first: bool,
    /// Octets of a message that came while the own one's completion was waited for.
    early: Cell<Option<usize>>,
}

impl Conversation {
    /// Connects, or takes the connection.
    pub fn open(opened: &Opened, pending: Pending, first: bool) -> Result<Self, Failure> {
        let queues = opened.queues(&pending, QpCap { max_send_wr: 2, max_recv_wr: 2, ..QpCap::default() })?;
        let note = opened.pd().alloc_mr(2 * LONGEST, Access::LOCAL_WRITE)?;
        post_receive(&queues, &note)?;
        let end = if first { pending.connect(queues, 0)? } else { pending.accept(queues, 0)? };
        end.connected()?;
        Ok(Conversation { end, note, first, early: Cell::new(None) })
    }
    /// Posts a message.
    fn post(&self, octets: &[u8]) -> Result<(), Failure> {
        self.note.write(0, octets)?;
        let sg_list = vec![self.note.sge(0, octets.len())];
        let wr = SendWr { wr_id: 0, op: SendOp::Send, sg_list, inline: None, flags: SendFlags::SIGNALED };
        self.end.queues.qp.post_send(&[wr]).map_err(|(_, e)| format!("post_send: {e}").into())
    }
    fn say(&self, octets: &[u8]) -> Result<(), Failure> {
        self.post(octets)?;
        loop {
            let wc = self.end.success(false)?;
            if wc.opcode != WcOpcode::Recv {
                return Ok(());
            }
            self.early.set(Some(wc.byte_len as usize));
        }
    }
    fn hear(&self, octets: &mut [u8], bound: Option<Duration>) -> Result<(), Failure> {
        let came = match self.early.take() {
            Some(len) => len,
            None => {
                let wc = self.end.completion(false, bound)?;
                if wc.status != WcStatus::Success {
                    return Err(format!("the peer has closed the conversation: {}", wc.status.text()).into());
                }
                wc.byte_len as usize
            }
        };
        if came != octets.len() {
            return Err(format!("a message of {came} octets where perftest says {}: does the peer run the same test?", octets.len()).into());
        }
        self.note.read(LONGEST, octets)?;
        // there before the peer may say more
        post_receive(&self.end.queues, &self.note)
    }
    /// Both say something of the same size.
    fn exchange<const N: usize>(&self, own: [u8; N], bound: Option<Duration>) -> Result<[u8; N], Failure> {
        let mut peer = [0; N];
        if self.first {
            self.say(&own)?;
            self.hear(&mut peer, bound)?;
        } else {
            self.hear(&mut peer, bound)?;
            self.say(&own)?;
        }
        Ok(peer)
    }
    fn soon<const N: usize>(&self, own: [u8; N]) -> Result<[u8; N], Failure> {
        self.exchange(own, Some(self.end.patience()))
    }
    /// Who they are. The size of the buffer that messages go round in.
    pub fn greet(&self) -> Result<usize, Failure> {
        let mut version = [0; 16];
        version[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
        let version = self.soon(version)?;
        let text = String::from_utf8_lossy(version.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
        if text.parse::<f64>().is_ok_and(|version| version < OLDEST) {
            return Err(format!("the peer is perftest {text}; {OLDEST:.2} is the oldest that this can talk to").into());
        }
        tracing::debug!("the peer is perftest {text}");
        let page = u32::from_be_bytes(self.soon(PAGE.to_be_bytes())?).max(PAGE);
        if page > LARGEST_PAGE {
            return Err(format!("the peer wants a buffer of {page} octets").into());
        }
        self.soon(CACHE_LINE.to_be_bytes())?;
        self.soon(MTU)?;
        Ok(page as usize)
    }
    /// Places, or just: both are as far as this.
    pub fn place(&self, own: &Place) -> Result<Place, Failure> {
        self.soon(own.octets()).map(|octets| Place::parse(&octets))
    }
    /// As [`Conversation::place`], after a time that only the peer knows.
    pub fn await_place(&self, own: &Place) -> Result<(), Failure> {
        self.exchange(own.octets(), if self.first { Some(self.end.patience()) } else { None }).map(drop)
    }
    /// Reports; the peer's.
    pub fn report(&self, own: &Report) -> Result<Report, Failure> {
        let long = |own: u64| self.soon(own.to_be_bytes()).map(u64::from_be_bytes);
        let double = |own: f64| self.soon(own.to_be_bytes()).map(f64::from_be_bytes);
        Ok(Report {
            size: long(own.size)?,
            iters: long(own.iters)?,
            peak: double(own.peak)?,
            average: double(own.average)?,
            rate: double(own.rate)?,
        })
    }
    /// The last word. The client closes as soon as it has heard it.
    pub fn part(&self, own: &Place) -> Result<(), Failure> {
        if self.first {
            return self.place(own).map(drop);
        }
        self.hear(&mut [0; Place::OCTETS], None)?;
        self.post(&own.octets())?;
        // flushed, if the client is fast
        self.end.completion(false, Some(self.end.patience())).map(drop)
    }
    /// Closes it.
    pub fn close(self) -> Result<(), Failure> {
        self.end.close()
    }
}

fn post_receive(queues: &Queues, note: &Arc<dyn Mr>) -> Result<(), Failure> {
    let wr = RecvWr { wr_id: 0, sg_list: vec![note.sge(LONGEST, LONGEST)] };
    queues.qp.post_recv(&[wr]).map_err(|(_, e)| format!("post_recv: {e}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = Place { out_reads: 8, qpn: 0x12_3456, rkey: 0xfeed_beef, vaddr: 0x0123_4567_89ab_cdef };
        let octets = place.octets();
        assert_eq!(octets[4..12], [0, 0, 0, 8, 0, 0x12, 0x34, 0x56]);
        assert_eq!(octets[16..32], [0xfe, 0xed, 0xbe, 0xef, 0, 0, 0, 0, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(Place::parse(&octets), place);
    }
}
