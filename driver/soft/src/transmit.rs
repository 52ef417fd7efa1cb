// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmitting thread of a connection: work requests and Read Responses become messages, segments, FPDUs. One FPDU is one call of the
//! kernel, marked as the end of a record, so that a TCP segment begins with it and holds it whole as far as TCP can (SEG-3, SEG-11).
//!
//! Messages are never interleaved; between two messages Read Responses and work requests take turns. An error is told at the next message
//! boundary (RDM-28).
use crate::{
    connection::{Conn, Side},
    memory::Fault,
    qp::{Entry, Progress, Report},
    startup::{Agreed, Rtr},
};
use ironwarp_verbs::{Access, QpState, SendFlags, SendOp, SendWr, Sge, WcStatus};
use ironwarp_wire::{
    ddp::{Header, TAGGED_OCTETS, UNTAGGED_OCTETS},
    fpdu,
    rdmap::{self, Opcode, ReadRequest},
};
use socket2::Socket;
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// What is next.
enum Job {
    Send(SendWr, bool),
    Response(ReadRequest, u32),
    Report(Option<Report>),
    Fin,
    Leave,
}

/// Why a message was not sent.
enum Broken {
    /// The stream is lost or stopped.
    Stream,
    /// An own work request names memory that may not be touched.
    Own,
    /// A Read Request does, as far as it was answered.
    Request(Report),
    /// The source went away in the middle of a message.
    Half,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Broken::Stream
    }
}

struct Transmitter {
    conn: Arc<Conn>,
    socket: Arc<Socket>,
    agreed: Agreed,
    position: Option<usize>,
    buffer: Vec<u8>,
    /// Next MSN of QN 0 and of QN 1.
    msn: [u32; 2],
    mulpdu: usize,
    response_turn: bool,
}

/// Code and layer of a refused Read Request (RDM-18).
pub(crate) fn read_fault(fault: Fault) -> Report {
    let code = match fault {
        Fault::Key => 0,
        Fault::Bounds => 1,
        Fault::Right => 2,
        Fault::Association => 3,
        Fault::Wrap => 4,
    };
    Report::new(0, 1, code)
}

/// DDP header of a Read Request that a Terminate returns.
fn read_header(msn: u32) -> Vec<u8> {
    let mut header = vec![0; UNTAGGED_OCTETS];
    let _ =
        Header::Untagged { last: true, rdmap: Opcode::ReadRequest.control(), stag: 0, qn: rdmap::QN_READ, msn, mo: 0 }.emit(&mut header);
    header
}

/// A connection that is held back looks so often whether it still lives.
const HOLD_STEP: Duration = Duration::from_millis(5);

/// Runs until the connection ends.
pub(crate) fn run(conn: Arc<Conn>, socket: Arc<Socket>, agreed: Agreed, initiator: bool) {
    let mut transmitter = Transmitter {
        conn,
        socket,
        agreed,
        position: agreed.markers_out.then_some(0),
        buffer: Vec::new(),
        msn: [1; 2],
        mulpdu: 0,
        response_turn: true,
    };
    if initiator {
        if let Some(rtr) = agreed.rtr {
            let op = match rtr {
                Rtr::Write => SendOp::Write { remote_addr: 0, rkey: 1 },
                Rtr::Read => SendOp::Read { remote_addr: 0, rkey: 1 },
            };
            let wr = SendWr { wr_id: 0, op, sg_list: Vec::new(), inline: None, flags: SendFlags::empty() };
            transmitter.conn.qp.body().sq.push_front(Entry { wr, progress: Progress::Posted, internal: true });
        }
        transmitter.hold_back();
    }
    transmitter.work();
    let Transmitter { conn, socket, agreed, .. } = transmitter;
    drop(socket);
    conn.leave(&agreed, None);
}

impl Transmitter {
    /// See [`crate::SoftConfig::first_fpdu_delay`]; ends early with the connection.
    fn hold_back(&self) {
        let until = Instant::now() + self.conn.shared.config.first_fpdu_delay;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.conn.stopped() {
                return;
            }
            std::thread::sleep(left.min(HOLD_STEP));
        }
    }
    fn work(&mut self) {
        loop {
            let job = self.job();
            let result = match &job {
                Job::Leave => return,
                Job::Fin => {
                    let within = self.conn.shared.config.close_timeout;
                    return self.conn.fin(&self.socket, within);
                }
                Job::Report(report) => {
                    if let Some(report) = report {
                        let _ = self.report(report);
                    }
                    let within = self.conn.shared.config.terminate_timeout;
                    return self.conn.fin(&self.socket, within);
                }
                Job::Response(request, msn) => self.response(request, *msn),
                Job::Send(wr, internal) => self.request(wr, *internal),
            };
            match result {
                Ok(()) => {}
                Err(Broken::Stream) => {
                    // what the peer said last may still be there to be read
                    self.conn.fail(None);
                    return;
                }
                Err(Broken::Own) => {
                    self.conn.shared.counters.local_protection.add();
                    let mut body = self.conn.qp.body();
                    let next = body.next;
                    if let Some(entry) = body.sq.get_mut(next) {
                        entry.progress = Progress::Failed(WcStatus::LocProtErr);
                    }
                    drop(body);
                    self.conn.fail(Some(Report::new(0, 2, 7)));
                }
                Err(Broken::Request(report)) => self.conn.fail(Some(report)),
                Err(Broken::Half) => self.conn.abort(),
            }
        }
    }
    /// Waits for the next thing to do.
    fn job(&mut self) -> Job {
        let qp = self.conn.qp.clone();
        let mut body = qp.body();
        loop {
            if self.conn.stopped() {
                return Job::Leave;
            }
            match body.state {
                QpState::Terminate => return Job::Report(body.report.take()),
                QpState::Error | QpState::Init => return Job::Leave,
                QpState::Rts | QpState::Sqd => {}
            }
            let response = !body.responses.is_empty();
            let entry = body.sq.get(body.next).filter(|_| body.may_send);
            let reads = body.sq.iter().take(body.next).filter(|e| e.is_read() && e.progress != Progress::Done).count();
            let ready = entry.is_some_and(|entry| {
                let fenced = entry.wr.flags.contains(SendFlags::FENCE) && reads > 0;
                let beyond = entry.is_read() && reads >= usize::from(body.ord);
                !(fenced || beyond)
            });
            if response && (self.response_turn || !ready) {
                self.response_turn = false;
                if let Some(&(request, msn)) = body.responses.front() {
                    return Job::Response(request, msn);
                }
            }
            if ready {
                self.response_turn = true;
                if let Some(entry) = body.sq.get(body.next) {
                    return Job::Send(entry.wr.clone(), entry.internal);
                }
            }
            if body.state == QpState::Sqd && body.sq.is_empty() && !response {
                return Job::Fin;
            }
            body = qp.changed.wait_timeout(body, crate::sync::LONGEST).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
    /// One segment whose payload `fill` brings.
    fn segment(
        &mut self,
        header: Header,
        payload: usize,
        fill: impl FnOnce(&mut fpdu::Writer<'_>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let ulpdu = header.len() + payload;
        self.buffer.resize(fpdu::wire_len(ulpdu, self.position), 0);
        let mut octets = [0; UNTAGGED_OCTETS];
        let wrong = |_| Broken::Stream;
        let n = header.emit(&mut octets).map_err(wrong)?;
        let mut writer = fpdu::Writer::new(&mut self.buffer, ulpdu, self.position).map_err(wrong)?;
        writer.put(&octets[..n]).map_err(wrong)?;
        fill(&mut writer)?;
        let n = writer.finish(self.agreed.crc).map_err(wrong)?;
        self.position = self.position.map(|position| position + n);
        self.conn.shared.counters.out_fpdus.add();
        Ok(self.conn.send(Side::Transmit, &self.socket, &self.buffer[..n], None)?)
    }
    /// What fits now: TCP's segment may have changed (SEG-6: only for what is not yet cut).
    fn room(&mut self) {
        let emss = self.socket.tcp_mss().unwrap_or(536) as usize;
        self.mulpdu = fpdu::mulpdu(emss, self.agreed.markers_out).min(self.conn.shared.config.max_mulpdu).max(fpdu::MIN_MULPDU);
    }
    /// A message of `length` octets from own memory.
    fn message(&mut self, wr: &SendWr, length: usize, header: impl Fn(usize, bool) -> Header, own: bool) -> Result<(), Broken> {
        let (regions, who) = (self.conn.qp.pd.regions.clone(), self.conn.qp.who());
        let room = self.mulpdu - header(0, true).len();
        let (mut sge, mut inside, mut done) = (0, 0, 0);
        loop {
            let now = room.min(length - done);
            let last = done + now == length;
            let fill = |writer: &mut fpdu::Writer<'_>| {
                let wrong = |_| Broken::Stream;
                if let Some(inline) = &wr.inline {
                    return writer.put(inline.get(done..done + now).unwrap_or_default()).map_err(wrong);
                }
                let mut left = now;
                while left > 0 {
                    let Some(&Sge { addr, length, lkey }) = wr.sg_list.get(sge) else { return Err(Broken::Half) };
                    let piece = left.min(length as usize - inside);
                    if piece > 0 {
                        let at = addr + inside as u64;
                        regions
                            .fetch(lkey, who, Access::empty(), at, piece, |octets| writer.put(octets))
                            .map_err(|_| if own && done == 0 { Broken::Own } else { Broken::Half })?
                            .map_err(wrong)?;
                    }
                    left -= piece;
                    inside += piece;
                    if inside == length as usize {
                        sge += 1;
                        inside = 0;
                    }
                }
                Ok(())
            };
            self.segment(header(done, last), now, fill)?;
            done += now;
            if last {
                return Ok(());
            }
        }
    }
    fn request(&mut self, wr: &SendWr, internal: bool) -> Result<(), Broken> {
        let qp = self.conn.qp.clone();
        let (regions, who, counters) = (&qp.pd.regions, qp.who(), self.conn.shared.counters.clone());
        let read = matches!(wr.op, SendOp::Read { .. });
        if wr.inline.is_none() {
            let right = if read { Access::LOCAL_WRITE } else { Access::empty() };
            for sge in wr.sg_list.iter().filter(|sge| sge.length > 0) {
                regions.check(sge.lkey, who, right, sge.addr, sge.length as usize).map_err(|_| Broken::Own)?;
            }
        }
        self.room();
        let length = match &wr.inline {
            Some(inline) => inline.len(),
            None => wr.sg_list.iter().map(|sge| sge.length as usize).sum(),
        };
        let mut sent = Progress::Done;
        match wr.op {
            SendOp::Send | SendOp::SendWithInvalidate(_) => {
                let solicited = wr.flags.contains(SendFlags::SOLICITED);
                let (opcode, stag) = match (wr.op, solicited) {
                    (SendOp::SendWithInvalidate(stag), false) => (Opcode::SendInvalidate, stag),
                    (SendOp::SendWithInvalidate(stag), true) => (Opcode::SendSolicitedInvalidate, stag),
                    (_, false) => (Opcode::Send, 0),
                    (_, true) => (Opcode::SendSolicited, 0),
                };
                let (msn, rdmap) = (self.msn[0], opcode.control());
                self.message(wr, length, |at, last| Header::Untagged { last, rdmap, stag, qn: rdmap::QN_SEND, msn, mo: at as u32 }, true)?;
                self.msn[0] = msn.wrapping_add(1);
                counters.out_sends.add();
            }
            SendOp::Write { remote_addr, rkey } => {
                let rdmap = Opcode::Write.control();
                self.message(
                    wr,
                    length,
                    |at, last| Header::Tagged { last, rdmap, stag: rkey, to: remote_addr.wrapping_add(at as u64) },
                    true,
                )?;
                counters.out_writes.add();
            }
            SendOp::Read { remote_addr, rkey } => {
                let sink = wr.sg_list.first().copied().unwrap_or(Sge { addr: 0, length: 0, lkey: 1 });
                let request =
                    ReadRequest { sink_stag: sink.lkey, sink_to: sink.addr, size: sink.length, source_stag: rkey, source_to: remote_addr };
                let mut octets = [0; ReadRequest::OCTETS];
                request.emit(&mut octets).map_err(|_| Broken::Stream)?;
                let msn = self.msn[1];
                // the response may be here before the call returns
                let mut body = qp.body();
                let next = body.next;
                if let Some(entry) = body.sq.get_mut(next) {
                    entry.progress = Progress::Sent(0);
                }
                body.next += 1;
                drop(body);
                let header = Header::Untagged { last: true, rdmap: Opcode::ReadRequest.control(), stag: 0, qn: rdmap::QN_READ, msn, mo: 0 };
                self.segment(header, octets.len(), |writer| writer.put(&octets).map_err(|_| Broken::Stream))?;
                self.msn[1] = msn.wrapping_add(1);
                if !internal {
                    counters.out_reads.add();
                }
                return Ok(());
            }
            SendOp::LocalInvalidate(stag) => {
                if regions.invalidate(stag, who, false, 0).is_err() {
                    sent = Progress::Failed(WcStatus::LocQpOpErr);
                }
            }
        }
        let mut body = qp.body();
        let next = body.next;
        if let Some(entry) = body.sq.get_mut(next) {
            entry.progress = sent;
        }
        if sent != Progress::Done {
            drop(body);
            self.conn.fail(Some(Report::new(0, 2, 7)));
            return Ok(());
        }
        body.next += 1;
        let room = qp.complete(&mut body);
        drop(body);
        if !room {
            self.conn.abort();
        }
        Ok(())
    }
    fn response(&mut self, request: &ReadRequest, msn: u32) -> Result<(), Broken> {
        self.room();
        let qp = self.conn.qp.clone();
        let (regions, who) = (&qp.pd.regions, qp.who());
        let room = self.mulpdu - TAGGED_OCTETS;
        let (length, rdmap) = (request.size as usize, Opcode::ReadResponse.control());
        let mut done = 0;
        loop {
            let now = room.min(length - done);
            let last = done + now == length;
            if last {
                // its slot is free before the peer can know that it is (ENH-22)
                qp.body().responses.pop_front();
            }
            let header = Header::Tagged { last, rdmap, stag: request.sink_stag, to: request.sink_to.wrapping_add(done as u64) };
            self.segment(header, now, |writer| {
                if now == 0 {
                    return Ok(());
                }
                let at = request.source_to.wrapping_add(done as u64);
                match regions.fetch(request.source_stag, who, Access::REMOTE_READ, at, now, |octets| writer.put(octets)) {
                    Ok(result) => result.map_err(|_| Broken::Stream),
                    Err(fault) => {
                        let mut report = read_fault(fault);
                        report.segment = Some(((UNTAGGED_OCTETS + ReadRequest::OCTETS) as u16, read_header(msn)));
                        report.read = Some(ReadRequest { source_to: at, size: (length - done) as u32, ..*request });
                        Err(Broken::Request(report))
                    }
                }
            })?;
            done += now;
            if last {
                return Ok(());
            }
        }
    }
    fn report(&mut self, report: &Report) -> Result<(), Broken> {
        let what = report.what;
        let terminate = rdmap::Terminate {
            layer: what.layer,
            etype: what.etype,
            code: what.code,
            segment: report.segment.as_ref().map(|(length, header)| (*length, &header[..])),
            read: report.read,
        };
        let mut octets = [0; rdmap::Terminate::MAX_OCTETS];
        let n = terminate.emit(&mut octets).map_err(|_| Broken::Stream)?;
        let header = Header::Untagged { last: true, rdmap: Opcode::Terminate.control(), stag: 0, qn: rdmap::QN_TERMINATE, msn: 1, mo: 0 };
        // the peer may see it before the call returns
        self.conn.qp.body().terminate_out = Some(what);
        self.conn.shared.counters.terminates_out.add();
        self.segment(header, n, |writer| writer.put(&octets[..n]).map_err(|_| Broken::Stream))?;
        Ok(())
    }
}

/// A Terminate on a stream whose start-up failed after the Reply (ENH-4, ENH-13): the first FPDU, and the last.
pub(crate) fn last_words(code: u8, crc: bool, markers: bool) -> Vec<u8> {
    let position = markers.then_some(0);
    let mut ulpdu = [0; UNTAGGED_OCTETS + rdmap::Terminate::MIN_OCTETS];
    let header = Header::Untagged { last: true, rdmap: Opcode::Terminate.control(), stag: 0, qn: rdmap::QN_TERMINATE, msn: 1, mo: 0 };
    let _ = header.emit(&mut ulpdu);
    let _ = rdmap::Terminate { layer: 2, etype: 0, code, segment: None, read: None }.emit(&mut ulpdu[UNTAGGED_OCTETS..]);
    let mut octets = vec![0; fpdu::wire_len(ulpdu.len(), position)];
    if let Ok(mut writer) = fpdu::Writer::new(&mut octets, ulpdu.len(), position) {
        if writer.put(&ulpdu).is_ok() {
            let _ = writer.finish(crc);
        }
    }
    octets
}
