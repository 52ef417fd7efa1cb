// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving thread of a connection: octets become FPDUs, segments, messages. Nothing of an FPDU is looked at before all of it is here
//! and its CRC is good (MPA-28); the first error ends all placement (MPA-37), and what the peer sends after it is thrown away until its FIN.
//!
//! Order of the checks: length against the header, versions, opcode and queue, then DDP's (number of the message, buffer, offset, length; or
//! key, association, right, wrap, bounds), then RDMAP's. Each has the code of the table of Terminates.
use crate::{
    connection::{Conn, Side},
    memory::Fault,
    qp::{Progress, Report},
    startup::{Agreed, Rtr},
    sync::lock,
    transmit::read_fault,
};
use ironwarp_iwcm::EventKind;
use ironwarp_verbs::{Access, QpState, RecvWr, SendOp, Terminate, WcStatus};
use ironwarp_wire::{
    ddp::View,
    fpdu,
    rdmap::{self, Opcode, ReadRequest},
    Error,
};
use rustix::event::PollFlags;
use socket2::Socket;
use std::{
    io::{ErrorKind, Read},
    sync::Arc,
    time::Instant,
};

/// Octets that are read at once; more than the longest FPDU.
const BUFFER: usize = 256 << 10;

/// A Send that is coming in.
struct Incoming {
    wr: RecvWr,
    opcode: Opcode,
    stag: u32,
    done: u32,
}

/// What a segment did.
enum Stop {
    /// An error that the peer is told.
    Report(Report),
    /// The peer said Terminate, or one that is none.
    Terminated(Option<Terminate>),
    /// A completion queue is full.
    Overflow,
}

struct Receiver {
    conn: Arc<Conn>,
    agreed: Agreed,
    position: Option<usize>,
    first: bool,
    /// Next MSN of QN 0 and of QN 1.
    msn: [u32; 2],
    send: Option<Incoming>,
    /// Opcode of a tagged message that is not at its end.
    tagged: Option<Opcode>,
    /// How the receive that was being filled ends.
    partial: WcStatus,
}

/// Runs until the connection ends. `early`: octets that came with the Reply.
pub(crate) fn run(conn: Arc<Conn>, socket: Arc<Socket>, agreed: Agreed, initiator: bool, early: Vec<u8>) {
    let mut receiver = Receiver {
        conn,
        agreed,
        position: agreed.markers_in.then_some(0),
        first: !initiator,
        msn: [1; 2],
        send: None,
        tagged: None,
        partial: WcStatus::WrFlushErr,
    };
    receiver.work(&socket, early);
    let Receiver { conn, agreed, send, partial, .. } = receiver;
    drop(socket);
    conn.leave(&agreed, send.map(|send| (send.wr.wr_id, partial)));
}

impl Receiver {
    fn work(&mut self, mut socket: &Socket, early: Vec<u8>) {
        let mut end = early.len();
        let mut buffer = early;
        buffer.resize(BUFFER.max(end), 0);
        let mut start = 0;
        loop {
            // FPDUs that are whole
            while let Ok(n) = fpdu::len(&buffer[start..end], self.position) {
                if n > end - start {
                    break;
                }
                match self.frame(&mut buffer[start..start + n]) {
                    Ok(()) => {}
                    Err(Stop::Report(report)) => {
                        self.conn.fail(Some(report));
                        return self.drain(socket);
                    }
                    Err(Stop::Terminated(what)) => {
                        self.terminated(what);
                        return self.drain(socket);
                    }
                    Err(Stop::Overflow) => return self.conn.abort(),
                }
                self.position = self.position.map(|position| position + n);
                start += n;
            }
            buffer.copy_within(start..end, 0);
            end -= start;
            start = 0;
            if self.conn.stopped() {
                return;
            }
            let deadline = lock(&self.conn.flow).deadline;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.conn.shared.counters.close_timeouts.add();
                return self.conn.abort();
            }
            if self.conn.qp.body().state == QpState::Terminate {
                // an error of the other thread
                return self.drain(socket);
            }
            match socket.read(&mut buffer[end..]) {
                Ok(0) => return self.peer_fin(end > 0),
                Ok(n) => end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.conn.wait(Side::Receive, socket, PollFlags::IN, deadline) {
                        return;
                    }
                }
                Err(_) => return self.reset(),
            }
        }
    }
    fn reset(&self) {
        self.conn.shared.counters.resets_in.add();
        self.conn.qp.body().state = QpState::Error;
        lock(&self.conn.flow).failed = true;
        self.conn.stop();
    }
    /// Throws away what comes until FIN, RST or the deadline.
    fn drain(&self, mut socket: &Socket) {
        let mut octets = [0; 4096];
        loop {
            let deadline = lock(&self.conn.flow).deadline;
            if self.conn.stopped() {
                return;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.conn.shared.counters.close_timeouts.add();
                return self.conn.abort();
            }
            match socket.read(&mut octets) {
                Ok(0) => {
                    lock(&self.conn.flow).peer_fin = true;
                    // the transmitter has its words to say still
                    return;
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.conn.wait(Side::Receive, socket, PollFlags::IN, deadline) {
                        return;
                    }
                }
                Err(_) => return self.reset(),
            }
        }
    }
    /// FIN in full operation (TD-1, TD-2).
    fn peer_fin(&mut self, inside: bool) {
        let mut body = self.conn.qp.body();
        let clean = !inside && self.send.is_none() && self.tagged.is_none() && body.sq.is_empty() && body.responses.is_empty();
        let mut flow = lock(&self.conn.flow);
        flow.peer_fin = true;
        let tell = flow.told;
        if clean {
            drop(flow);
            if body.state == QpState::Rts {
                body.state = QpState::Sqd;
            }
            drop(body);
            self.conn.qp.changed.notify_all();
            if tell {
                self.conn.tell(EventKind::Disconnect, |_| {});
            }
            return;
        }
        flow.failed = true;
        drop(flow);
        body.state = QpState::Error;
        drop(body);
        self.conn.shared.counters.unclean_fins.add();
        self.conn.stop();
    }
    /// The peer's Terminate: everything ends in error, the oldest Read with what it says.
    fn terminated(&self, what: Option<Terminate>) {
        self.conn.shared.counters.terminates_in.add();
        let mut body = self.conn.qp.body();
        body.terminate_in = what;
        if let (Some(what), Some(entry)) =
            (what, body.sq.iter_mut().find(|entry| entry.is_read() && matches!(entry.progress, Progress::Sent(_))))
        {
            let access = what.layer == 0 && what.etype == 1;
            entry.progress = Progress::Failed(if access { WcStatus::RemAccessErr } else { WcStatus::RemOpErr });
        }
        drop(body);
        self.conn.fail(None);
    }
    fn frame(&mut self, octets: &mut [u8]) -> Result<(), Stop> {
        let counters = self.conn.shared.counters.clone();
        counters.in_fpdus.add();
        let ulpdu = match fpdu::open(octets, self.position, self.agreed.crc) {
            Ok(ulpdu) => ulpdu,
            Err(Error::Checksum) => {
                counters.crc_errors.add();
                return Err(Stop::Report(Report::new(2, 0, 2)));
            }
            Err(_) => {
                counters.marker_errors.add();
                return Err(Stop::Report(Report::new(2, 0, 3)));
            }
        };
        if self.first {
            // whole and with a good CRC: we may speak, if only to complain
            self.conn.qp.body().may_send = true;
        }
        let view = match View::new(ulpdu) {
            Ok(view) => view,
            Err(_) => {
                counters.length_errors.add();
                return Err(Stop::Report(Report::new(2, 0, 3)));
            }
        };
        self.segment(view)?;
        if self.first {
            self.first = false;
            self.conn.qp.body().may_send = true;
            self.conn.qp.changed.notify_all();
            // with an RTR only now (CM-10); without one it was told before
            self.conn.established(&self.agreed);
        }
        Ok(())
    }
    fn segment(&mut self, view: View<'_>) -> Result<(), Stop> {
        let at_fault = |layer, etype, code| {
            let mut report = Report::new(layer, etype, code);
            report.segment = Some((view.octets().len() as u16, view.header().to_vec()));
            Stop::Report(report)
        };
        let bare = |layer, etype, code| Stop::Report(Report::new(layer, etype, code));
        let tagged = view.is_tagged();
        if view.version() != ironwarp_wire::ddp::VERSION {
            return Err(if tagged { bare(1, 1, 4) } else { bare(1, 2, 6) });
        }
        if rdmap::version(view.rdmap()) != rdmap::VERSION {
            return Err(bare(0, 2, 5));
        }
        let opcode = Opcode::of(view.rdmap()).filter(|opcode| opcode.is_tagged() == tagged);
        let qn = view.qn();
        if qn.is_some_and(|qn| qn > rdmap::QN_TERMINATE) {
            return Err(at_fault(1, 2, 1));
        }
        let opcode = opcode.filter(|opcode| opcode.qn() == qn).ok_or_else(|| at_fault(0, 2, 6))?;
        match opcode {
            Opcode::Write => self.write(view, &at_fault),
            Opcode::ReadResponse => self.response(view, &at_fault),
            Opcode::ReadRequest => self.request(view, &at_fault),
            Opcode::Terminate => Err(Stop::Terminated(
                rdmap::Terminate::parse(view.payload())
                    .ok()
                    .filter(|_| (view.msn(), view.mo(), view.is_last()) == (Some(1), Some(0), true))
                    .map(|t| Terminate { layer: t.layer, etype: t.etype, code: t.code }),
            )),
            _ => self.incoming(view, opcode, &at_fault),
        }
    }
    /// A tagged message does not change its kind before its end (CH-8).
    fn same(&mut self, view: View<'_>, opcode: Opcode, at_fault: &dyn Fn(u8, u8, u8) -> Stop) -> Result<(), Stop> {
        if self.tagged.is_some_and(|before| before != opcode) {
            return Err(at_fault(0, 2, 6));
        }
        self.tagged = (!view.is_last()).then_some(opcode);
        Ok(())
    }
    fn write(&mut self, view: View<'_>, at_fault: &dyn Fn(u8, u8, u8) -> Stop) -> Result<(), Stop> {
        self.same(view, Opcode::Write, at_fault)?;
        let qp = &self.conn.qp;
        let payload = view.payload();
        if let (false, Some(to)) = (payload.is_empty(), view.to()) {
            qp.pd.regions.place(view.stag(), qp.who(), Access::REMOTE_WRITE, to, payload).map_err(|fault| {
                if fault == Fault::Right {
                    self.conn.shared.counters.write_without_right.add();
                }
                at_fault(1, 1, tagged_code(fault))
            })?;
        }
        if view.is_last() && !(self.first && self.agreed.rtr == Some(Rtr::Write)) {
            self.conn.shared.counters.in_writes.add();
        }
        Ok(())
    }
    fn response(&mut self, view: View<'_>, at_fault: &dyn Fn(u8, u8, u8) -> Stop) -> Result<(), Stop> {
        self.same(view, Opcode::ReadResponse, at_fault)?;
        let qp = &self.conn.qp;
        let mut body = qp.body();
        let found = body.sq.iter_mut().find_map(|entry| match (entry.wr.op, entry.progress) {
            (SendOp::Read { .. }, Progress::Sent(done)) => Some((entry, done)),
            _ => None,
        });
        let Some((entry, done)) = found else { return Err(at_fault(0, 2, 6)) };
        let (sink, size) = entry.wr.sg_list.first().map_or((None, 0), |sge| (Some(*sge), sge.length));
        let payload = view.payload();
        let bad = |entry: &mut crate::qp::Entry, code| {
            entry.progress = Progress::Failed(WcStatus::BadRespErr);
            Err(at_fault(1, 1, code))
        };
        let end = u64::from(done) + payload.len() as u64;
        if let (false, Some(to), Some(sink)) = (payload.is_empty(), view.to(), sink) {
            if view.stag() != sink.lkey {
                return bad(entry, 0);
            }
            if to != sink.addr.wrapping_add(u64::from(done)) || end > u64::from(size) {
                return bad(entry, 1);
            }
            if let Err(fault) = qp.pd.regions.place(sink.lkey, qp.who(), Access::LOCAL_WRITE, to, payload) {
                entry.progress = Progress::Failed(WcStatus::LocProtErr);
                return Err(at_fault(1, 1, tagged_code(fault)));
            }
        }
        if end > u64::from(size) || view.is_last() && end != u64::from(size) {
            return bad(entry, 1);
        }
        entry.progress = if view.is_last() { Progress::Done } else { Progress::Sent(end as u32) };
        if view.is_last() {
            let room = qp.complete(&mut body);
            drop(body);
            qp.changed.notify_all();
            if !room {
                return Err(Stop::Overflow);
            }
        }
        Ok(())
    }
    fn request(&mut self, view: View<'_>, at_fault: &dyn Fn(u8, u8, u8) -> Stop) -> Result<(), Stop> {
        let payload = view.payload();
        if payload.len() < ReadRequest::OCTETS {
            self.conn.shared.counters.length_errors.add();
            return Err(Stop::Report(Report::new(2, 0, 3)));
        }
        if view.msn() != Some(self.msn[1]) {
            return Err(at_fault(1, 2, 3));
        }
        let qp = &self.conn.qp;
        let ird = usize::from(qp.body().ird);
        if qp.body().responses.len() >= ird {
            return Err(at_fault(1, 2, 2));
        }
        if view.mo() != Some(0) {
            return Err(at_fault(1, 2, 4));
        }
        let Ok(request) = ReadRequest::parse(payload) else { return Err(at_fault(1, 2, 5)) };
        if !view.is_last() {
            return Err(at_fault(1, 2, 5));
        }
        if request.size > 0 {
            let (stag, to, size) = (request.source_stag, request.source_to, request.size as usize);
            qp.pd.regions.check(stag, qp.who(), Access::REMOTE_READ, to, size).map_err(|fault| {
                let mut report = read_fault(fault);
                report.segment = Some((view.octets().len() as u16, view.header().to_vec()));
                report.read = Some(request);
                Stop::Report(report)
            })?;
        }
        let msn = self.msn[1];
        self.msn[1] = msn.wrapping_add(1);
        if !(self.first && self.agreed.rtr == Some(Rtr::Read)) {
            self.conn.shared.counters.in_reads.add();
        }
        let mut body = qp.body();
        body.responses.push_back((request, msn));
        let late = lock(&self.conn.flow).own_fin;
        drop(body);
        if late {
            // nothing can be answered behind our FIN
            return Err(Stop::Overflow);
        }
        qp.changed.notify_all();
        Ok(())
    }
    fn incoming(&mut self, view: View<'_>, opcode: Opcode, at_fault: &dyn Fn(u8, u8, u8) -> Stop) -> Result<(), Stop> {
        let qp = self.conn.qp.clone();
        if view.msn() != Some(self.msn[0]) {
            return Err(at_fault(1, 2, 3));
        }
        if self.send.is_none() {
            let wr = qp.body().rq.pop_front().ok_or_else(|| at_fault(1, 2, 2))?;
            self.send = Some(Incoming { wr, opcode, stag: view.stag(), done: 0 });
        }
        let Some(send) = &mut self.send else { return Err(Stop::Overflow) };
        if view.mo() != Some(send.done) {
            return Err(at_fault(1, 2, 4));
        }
        if send.opcode != opcode || opcode.invalidates() && send.stag != view.stag() {
            return Err(at_fault(0, 2, 6));
        }
        let payload = view.payload();
        let room: u64 = send.wr.sg_list.iter().map(|sge| u64::from(sge.length)).sum();
        if u64::from(send.done) + payload.len() as u64 > room {
            self.partial = WcStatus::LocLenErr;
            return Err(at_fault(1, 2, 5));
        }
        let (mut skip, mut rest) = (u64::from(send.done), payload);
        for sge in &send.wr.sg_list {
            let length = u64::from(sge.length);
            if skip >= length {
                skip -= length;
                continue;
            }
            let (now, after) = rest.split_at(rest.len().min((length - skip) as usize));
            if !now.is_empty() {
                let to = sge.addr.wrapping_add(skip);
                if qp.pd.regions.place(sge.lkey, qp.who(), Access::LOCAL_WRITE, to, now).is_err() {
                    self.conn.shared.counters.local_protection.add();
                    self.partial = WcStatus::LocProtErr;
                    return Err(Stop::Report(Report::new(0, 2, 7)));
                }
            }
            skip = 0;
            rest = after;
        }
        send.done += payload.len() as u32;
        if !view.is_last() {
            return Ok(());
        }
        let mut invalidated = None;
        if opcode.invalidates() {
            qp.pd.regions.invalidate(view.stag(), qp.who(), true, qp.pd.streams()).map_err(|fault| match fault {
                Fault::Association => at_fault(0, 1, 9),
                _ => at_fault(0, 2, 9),
            })?;
            invalidated = Some(view.stag());
        }
        let (wr_id, done) = (send.wr.wr_id, send.done);
        self.send = None;
        self.msn[0] = self.msn[0].wrapping_add(1);
        self.conn.shared.counters.in_sends.add();
        if qp.received(wr_id, WcStatus::Success, done, invalidated, opcode.solicits()) {
            Ok(())
        } else {
            Err(Stop::Overflow)
        }
    }
}

/// Code of a refused tagged segment (DDP-2, CH-3).
fn tagged_code(fault: Fault) -> u8 {
    match fault {
        Fault::Key | Fault::Right => 0,
        Fault::Bounds => 1,
        Fault::Association => 2,
        Fault::Wrap => 3,
    }
}
