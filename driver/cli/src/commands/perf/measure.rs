// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection that is measured.
use super::{
    conversation::{Place, Report},
    report, Measure, Test, Verb,
};
use crate::{
    endpoint::{Endpoint, Opened, Pending},
    Failure,
};
use ironwarp_verbs::{Access, Mr, QpCap, RecvWr, SendFlags, SendOp, SendWr, WcOpcode};
use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::{Duration, Instant},
};

/// Octets of a credit.
const CREDIT: usize = 4;
/// So long at most one waits for the other's close: first the client's patience ends, then the server's.
const CLOSE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// What came of it.
pub enum Measured {
    /// Bandwidth.
    Bandwidth(Report),
    /// Each round.
    Latency(Vec<Duration>),
    /// The peer measures.
    Nothing,
}

/// wr_id of what is measured, of a credit, and of what opens the connection.
const MESSAGE: u64 = 0;
const CREDITS: u64 = 1;
const OPENING: u64 = 2;

/// A connection and its memory.
pub struct Run {
    test: Test,
    end: Endpoint,
    /// One half goes out, the other is where the peer writes.
    data: Arc<dyn Mr>,
    half: usize,
    /// iWARP has no "receiver not ready": a Send without a receive ends the connection. So the receiver writes to the sender, from time to time, how many it has
    /// taken: from the first to the second place of this.
    credit: Arc<dyn Mr>,
    /// Where the peer is told.
    peer: Cell<Place>,
    posted: RefCell<Vec<Instant>>,
    completed: RefCell<Vec<Instant>>,
    /// Receives that completed, and that were posted.
    received: Cell<u32>,
    receives: Cell<u32>,
    /// When the first completed.
    began: Cell<Option<Instant>>,
    /// A credit must be sent; one is on its way.
    owed: Cell<bool>,
    telling: Cell<bool>,
}

impl Run {
    /// Connects, or takes the connection.
    pub fn open(opened: &Opened, pending: Pending, test: &Test, page: usize) -> Result<Self, Failure> {
        let cap = QpCap { max_send_wr: test.tx_depth + 4, max_recv_wr: test.rx_depth, ..QpCap::default() };
        let queues = opened.queues(&pending, cap)?;
        let half = page.max(test.size as usize);
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let data = opened.pd().alloc_mr(2 * half, all)?;
        let credit = opened.pd().alloc_mr(2 * CREDIT, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let end = if test.first { pending.connect(queues, test.outs)? } else { pending.accept(queues, test.outs)? };
        end.connected()?;
        Ok(Run {
            test: *test,
            end,
            data,
            half,
            credit,
            peer: Cell::default(),
            posted: RefCell::default(),
            completed: RefCell::default(),
            received: Cell::new(0),
            receives: Cell::new(0),
            began: Cell::new(None),
            owed: Cell::new(false),
            telling: Cell::new(false),
        })
    }
    /// What the peer must know: of memory, or of credits.
    pub fn place(&self) -> Place {
        let by_credits = (self.test.verb, self.test.measure) == (Verb::Send, Measure::Bw);
        let (mr, offset) = if by_credits { (&self.credit, CREDIT) } else { (&self.data, self.half) };
        Place { out_reads: self.test.outs.into(), qpn: self.end.queues.qp.qp_num(), rkey: mr.rkey(), vaddr: mr.addr() + offset as u64 }
    }
    fn post_receive(&self) -> Result<(), Failure> {
        let wr = RecvWr { wr_id: MESSAGE, sg_list: vec![self.data.sge(self.half, self.test.size as usize)] };
        self.receives.set(self.receives.get() + 1);
        self.end.queues.qp.post_recv(&[wr]).map_err(|(_, e)| format!("post_recv: {e}").into())
    }
    /// As many as may wait at once.
    pub fn post_receives(&self) -> Result<(), Failure> {
        (0..self.test.rx_depth).try_for_each(|_| self.post_receive())
    }
    fn send(&self, wr_id: u64, op: SendOp, sge: ironwarp_verbs::Sge) -> Result<(), Failure> {
        let wr = SendWr { wr_id, op, sg_list: vec![sge], inline: None, flags: SendFlags::SIGNALED };
        self.end.queues.qp.post_send(&[wr]).map_err(|(_, e)| format!("post_send: {e}").into())
    }
    fn write(&self, wr_id: u64, sge: ironwarp_verbs::Sge) -> Result<(), Failure> {
        let Place { vaddr: remote_addr, rkey, .. } = self.peer.get();
        self.send(wr_id, SendOp::Write { remote_addr, rkey }, sge)
    }
    fn post(&self) -> Result<(), Failure> {
        let Place { vaddr: remote_addr, rkey, .. } = self.peer.get();
        let sge = |at| self.data.sge(at, self.test.size as usize);
        self.posted.borrow_mut().push(Instant::now());
        match self.test.verb {
            Verb::Send => self.send(MESSAGE, SendOp::Send, sge(0)),
            Verb::Write => self.write(MESSAGE, sge(0)),
            Verb::Read => self.send(MESSAGE, SendOp::Read { remote_addr, rkey }, sge(self.half)),
        }
    }
    fn sent(&self) -> u32 {
        self.completed.borrow().len() as u32
    }
    /// Takes a completion.
    fn step(&self) -> Result<(), Failure> {
        let wc = self.end.success(!self.test.events)?;
        match wc.opcode {
            WcOpcode::Recv => {
                if self.began.get().is_none() {
                    self.began.set(Some(Instant::now()));
                }
                self.received.set(self.received.get() + 1);
                if self.receives.get() < self.test.iters {
                    self.post_receive()?;
                }
                // a third of the receives is told at once
                let third = self.test.rx_depth / 3;
                if self.test.measure == Measure::Bw && third > 0 && (self.received.get() % self.test.rx_depth).is_multiple_of(third) {
                    self.owed.set(true);
                }
            }
            _ if wc.wr_id == CREDITS => self.telling.set(false),
            _ if wc.wr_id == OPENING => {}
            _ => self.completed.borrow_mut().push(Instant::now()),
        }
        if self.owed.get() && !self.telling.replace(true) {
            self.owed.set(false);
            // as the processor has it; all peers so far are little endian
            self.credit.write(0, &self.received.get().to_le_bytes())?;
            self.write(CREDITS, self.credit.sge(0, CREDIT))?;
        }
        Ok(())
    }
    /// Waits until so many have been sent and received.
    fn wait(&self, sent: u32, received: u32) -> Result<(), Failure> {
        while self.sent() < sent || self.received.get() < received {
            self.step()?;
        }
        Ok(())
    }
    /// Waits for what the peer writes to memory.
    fn watch(&self, what: &str, mut seen: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
        let deadline = Instant::now() + self.end.patience();
        let mut looks = 0u32;
        while !seen()? {
            looks += 1;
            if looks.is_multiple_of(1024) {
                if self.end.closed() || Instant::now() > deadline {
                    return Err(format!("{what} did not come").into());
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }
    /// Has the peer taken so many that one more may be sent?
    fn may_send(&self, posted: u32) -> Result<bool, Failure> {
        let mut octets = [0; CREDIT];
        self.credit.read(CREDIT, &mut octets)?;
        Ok(self.test.verb != Verb::Send || posted + 1 - u32::from_le_bytes(octets).min(posted) < self.test.rx_depth)
    }
    /// The test itself.
    pub fn measure(&self, peer: &Place) -> Result<Measured, Failure> {
        self.peer.set(*peer);
        let Test { verb, measure, iters, first, .. } = self.test;
        match (measure, verb) {
            (Measure::Bw, _) if first => self.bandwidth().map(Measured::Bandwidth),
            (Measure::Bw, Verb::Send) => {
                self.wait(0, iters)?;
                let took = self.began.get().map(|began| began.elapsed()).unwrap_or_default();
                Ok(Measured::Bandwidth(report::bandwidth(self.test.size, iters, took, None)))
            }
            (Measure::Lat, Verb::Send) => self.rounds(|round| self.round_of_sends(round)),
            (Measure::Lat, Verb::Write) => {
                if first {
                    // the server begins; but an iWARP responder may not before it has heard something: a Write of no octets
                    self.write(OPENING, self.data.sge(0, 0))?;
                }
                let measured = self.rounds(|round| self.round_of_writes(round))?;
                match self.wait(iters, 0) {
                    // a server that has seen the last Write may be fast
                    Err(e) if !self.end.closed() => Err(e),
                    _ => Ok(measured),
                }
            }
            (Measure::Lat, Verb::Read) if first => self.rounds(|round| {
                self.post()?;
                self.wait(round, 0)
            }),
            (_, Verb::Write | Verb::Read) => Ok(Measured::Nothing),
        }
    }
    fn bandwidth(&self) -> Result<Report, Failure> {
        let Test { size, iters, tx_depth, .. } = self.test;
        let start = Instant::now();
        for posted in 0..iters {
            self.wait((posted + 1).saturating_sub(tx_depth), 0)?;
            while !self.may_send(posted)? {
                if self.sent() < posted {
                    self.step()?;
                } else {
                    self.watch("the receiver's credit", || self.may_send(posted))?;
                }
            }
            self.post()?;
        }
        self.wait(iters, 0)?;
        let took = start.elapsed();
        let peak = report::fastest(&self.posted.borrow(), &self.completed.borrow());
        Ok(report::bandwidth(size, iters, took, peak))
    }
    /// Each round is a message there and, but for Read, one back. It is measured from one post to the next, so the last is not.
    fn rounds(&self, one: impl Fn(u32) -> Result<(), Failure>) -> Result<Measured, Failure> {
        let start = Instant::now();
        (1..=self.test.iters).try_for_each(one)?;
        let posted = self.posted.borrow();
        let each: Vec<_> = posted.windows(2).map(|pair| pair[1] - pair[0]).collect();
        Ok(Measured::Latency(if each.is_empty() { vec![start.elapsed()] } else { each }))
    }
    fn round_of_sends(&self, round: u32) -> Result<(), Failure> {
        if self.test.first {
            self.post()?;
            self.wait(round, round)
        } else {
            self.wait(round - 1, round)?;
            self.post()
        }
    }
    /// A Write is seen in memory: its last octet counts the rounds. In perftest it is the server that begins.
    fn round_of_writes(&self, round: u32) -> Result<(), Failure> {
        let last = self.test.size as usize - 1;
        let mark = round as u8;
        let go = || -> Result<(), Failure> {
            // what was posted a round ago is complete before the next; the octet is read when it is sent
            self.wait(round - 1, 0)?;
            self.data.write(last, &[mark])?;
            self.post()
        };
        let written = || {
            self.watch("the peer's Write", || {
                let mut octet = [0];
                self.data.read(self.half + last, &mut octet)?;
                Ok(octet[0] == mark)
            })
        };
        if self.test.first {
            written()?;
            go()
        } else {
            go()?;
            written()
        }
    }
    /// Closes it. Writes back and forth end without a word: neither knows whether the other has the completion of its last, which a close would take away.
    /// perftest does not wait for the other.
    pub fn close(self) -> Result<(), Failure> {
        let start = Instant::now();
        let patience = CLOSE[usize::from(!self.test.first)];
        if (self.test.verb, self.test.measure) == (Verb::Write, Measure::Lat) {
            while !self.end.closed() && start.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.end.close()
    }
}
