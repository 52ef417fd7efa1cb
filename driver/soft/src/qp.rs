// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs: their state, their two queues, and the completions in order.
//!
//! | from | to | when |
//! |---|---|---|
//! | Init | RTS | start-up of MPA is done |
//! | RTS | SQD | own close, or FIN of the peer with nothing left to do |
//! | RTS, SQD | TERMINATE | error of the stream: a Terminate goes out or came in |
//! | SQD | Init | both FINs were seen |
//! | any | ERROR | abort, RST, FIN in the middle of work, end of TERMINATE |
//! | ERROR | Init | modify |
//!
//! A send work request stays in its queue until it and all before it are complete; so its slot is the completion's place. The flush
//! comes when both threads of the connection are gone: nothing touches memory after it (TD-5, TD-8).
use crate::{connection::Conn, cq::SoftCq, device::Shared, memory::SoftPd, memory::Who, sync::lock};
use ironwarp_verbs::{Errno, Qp, QpAttr, QpCap, QpState, RecvWr, SendFlags, SendOp, SendWr, Terminate, Wc, WcOpcode, WcStatus};
use ironwarp_wire::rdmap::ReadRequest;
use std::{
    collections::VecDeque,
    sync::{atomic::Ordering, Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How far a send work request is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Progress {
    Posted,
    /// Its octets are the kernel's; a Read waits for its response, of which so many octets are here.
    Sent(u32),
    Done,
    Failed(WcStatus),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) wr: SendWr,
    pub(crate) progress: Progress,
    /// The RTR: no completion.
    pub(crate) internal: bool,
}

impl Entry {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.wr.op, SendOp::Read { .. })
    }
}

/// A message that tells the peer of an error: layer, type, code, and the headers at fault.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) what: Terminate,
    pub(crate) segment: Option<(u16, Vec<u8>)>,
    pub(crate) read: Option<ReadRequest>,
}

impl Report {
    pub(crate) fn new(layer: u8, etype: u8, code: u8) -> Self {
        Report { what: Terminate { layer, etype, code }, segment: None, read: None }
    }
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) state: QpState,
    pub(crate) ird: u16,
    pub(crate) ord: u16,
    pub(crate) terminate_in: Option<Terminate>,
    pub(crate) terminate_out: Option<Terminate>,
    pub(crate) sq: VecDeque<Entry>,
    /// The first of `sq` that is not sent.
    pub(crate) next: usize,
    pub(crate) rq: VecDeque<RecvWr>,
    /// Read Requests of the peer that are not answered, with their MSN.
    pub(crate) responses: VecDeque<(ReadRequest, u32)>,
    /// A responder is silent until the peer's first FPDU (MPA-6).
    pub(crate) may_send: bool,
    pub(crate) report: Option<Report>,
    pub(crate) conn: Option<Arc<Conn>>,
    /// A connection begins, ends, or lives.
    pub(crate) busy: bool,
    pub(crate) refs: usize,
    destroyed: bool,
    /// Its user is gone: it goes as soon as nobody else refers to it.
    orphan: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) num: u32,
    pub(crate) pd: Arc<SoftPd>,
    pub(crate) send_cq: Arc<SoftCq>,
    pub(crate) recv_cq: Arc<SoftCq>,
    cap: QpCap,
    sig_all: bool,
    pub(crate) body: Mutex<Body>,
    /// Something to send, or something changed.
    pub(crate) changed: Condvar,
    shared: Arc<Shared>,
}

impl Core {
    pub(crate) fn new(
        num: u32,
        pd: Arc<SoftPd>,
        send_cq: Arc<SoftCq>,
        recv_cq: Arc<SoftCq>,
        cap: QpCap,
        sig_all: bool,
        shared: Arc<Shared>,
    ) -> Self {
        let body = Body {
            state: QpState::Init,
            ird: 0,
            ord: 0,
            terminate_in: None,
            terminate_out: None,
            sq: VecDeque::new(),
            next: 0,
            rq: VecDeque::new(),
            responses: VecDeque::new(),
            may_send: false,
            report: None,
            conn: None,
            busy: false,
            refs: 0,
            destroyed: false,
            orphan: false,
        };
        pd.streams.fetch_add(1, Ordering::SeqCst);
        shared.counters.qps_live.add();
        Core { num, pd, send_cq, recv_cq, cap, sig_all, body: Mutex::new(body), changed: Condvar::new(), shared }
    }
    pub(crate) fn body(&self) -> MutexGuard<'_, Body> {
        lock(&self.body)
    }
    pub(crate) fn who(&self) -> Who {
        Who { pd: self.pd.handle, qp: self.num }
    }
    fn wc(&self, wr_id: u64, status: WcStatus, opcode: WcOpcode) -> Wc {
        Wc { wr_id, status, opcode, byte_len: 0, qp_num: self.num, invalidated: None, solicited: false }
    }
    fn send_wc(&self, entry: &Entry, status: WcStatus) -> Wc {
        let opcode = match entry.wr.op {
            SendOp::Send | SendOp::SendWithInvalidate(_) => WcOpcode::Send,
            SendOp::Write { .. } => WcOpcode::RdmaWrite,
            SendOp::Read { .. } => WcOpcode::RdmaRead,
            SendOp::LocalInvalidate(_) => WcOpcode::LocalInv,
        };
        let mut wc = self.wc(entry.wr.wr_id, status, opcode);
        if entry.is_read() && status == WcStatus::Success {
            wc.byte_len = entry.wr.sg_list.iter().map(|sge| sge.length).sum();
        }
        wc
    }
    /// Takes what is complete from the front of the send queue. False: a completion queue is full.
    #[must_use]
    pub(crate) fn complete(&self, body: &mut Body) -> bool {
        let mut room = true;
        while let Some(Entry { progress: Progress::Done, .. }) = body.sq.front() {
            let Some(entry) = body.sq.pop_front() else { break };
            body.next = body.next.saturating_sub(1);
            if !entry.internal && (self.sig_all || entry.wr.flags.contains(SendFlags::SIGNALED)) {
                room &= self.send_cq.push(self.send_wc(&entry, WcStatus::Success));
            }
        }
        room
    }
    /// A receive is done. False: no room for its completion.
    #[must_use]
    pub(crate) fn received(&self, wr_id: u64, status: WcStatus, byte_len: u32, invalidated: Option<u32>, solicited: bool) -> bool {
        let wc = Wc { byte_len, invalidated, solicited, ..self.wc(wr_id, status, WcOpcode::Recv) };
        self.recv_cq.push(wc)
    }
    /// Everything that is posted completes in error, in order, once.
    pub(crate) fn flush(&self, body: &mut Body) {
        let _ = self.complete(body);
        for entry in std::mem::take(&mut body.sq) {
            let status = if let Progress::Failed(status) = entry.progress { status } else { WcStatus::WrFlushErr };
            if !entry.internal {
                self.send_cq.push(self.send_wc(&entry, status));
            }
        }
        body.next = 0;
        for wr in std::mem::take(&mut body.rq) {
            self.recv_cq.push(self.wc(wr.wr_id, WcStatus::WrFlushErr, WcOpcode::Recv));
        }
        body.responses.clear();
    }
    fn check_send(&self, body: &Body, wr: &SendWr) -> Result<(), Errno> {
        let read = matches!(wr.op, SendOp::Read { .. });
        let length: u64 = wr.sg_list.iter().map(|sge| u64::from(sge.length)).sum();
        let inline = wr.inline.as_ref().map_or(0, Vec::len);
        let sends = matches!(wr.op, SendOp::Send | SendOp::SendWithInvalidate(_));
        let invalid = wr.sg_list.len() > self.cap.max_send_sge as usize
            || length > crate::config::MAX_MESSAGE
            || inline > self.cap.max_inline_data as usize
            || read && (wr.inline.is_some() || wr.sg_list.len() > 1 || body.state == QpState::Rts && body.ord == 0)
            || wr.flags.contains(SendFlags::SOLICITED) && !sends
            || matches!(wr.op, SendOp::LocalInvalidate(_)) && (inline > 0 || length > 0);
        match body.state {
            _ if invalid || body.destroyed => Err(Errno::Invalid),
            QpState::Init | QpState::Sqd => Err(Errno::Invalid),
            _ if body.sq.len() >= self.cap.max_send_wr as usize + usize::from(body.sq.front().is_some_and(|e| e.internal)) => {
                Err(Errno::NoMemory)
            }
            _ => Ok(()),
        }
    }
    pub(crate) fn modify(&self, to: QpState) -> Result<(), Errno> {
        let mut body = self.body();
        match (body.state, to) {
            (QpState::Rts, QpState::Sqd) => {
                body.state = QpState::Sqd;
                self.changed.notify_all();
            }
            // already closing or closed (CM-17)
            (_, QpState::Sqd) => {}
            (QpState::Error, QpState::Error) => {}
            (_, QpState::Error) => {
                body.state = QpState::Error;
                if let Some(conn) = body.conn.clone() {
                    drop(body);
                    conn.abort();
                } else if !body.busy {
                    self.flush(&mut body);
                }
                self.changed.notify_all();
            }
            (QpState::Error, QpState::Init) if !body.busy => {
                body.state = QpState::Init;
                body.report = None;
            }
            (QpState::Init, QpState::Init) => {}
            _ => return Err(Errno::Invalid),
        }
        Ok(())
    }
    fn destroy(&self) -> Result<(), Errno> {
        self.modify(QpState::Error)?;
        let until = Instant::now() + self.shared.config.destroy_timeout;
        let mut body = self.body();
        if body.destroyed {
            return Ok(());
        }
        while body.refs > 0 || body.busy {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TimedOut);
            }
            body = self.changed.wait_timeout(body, left.min(Duration::from_secs(1))).unwrap_or_else(|e| e.into_inner()).0;
        }
        self.remove(body);
        Ok(())
    }
    /// Nobody refers to it any more, or will.
    fn remove(&self, mut body: MutexGuard<'_, Body>) {
        if std::mem::replace(&mut body.destroyed, true) {
            return;
        }
        self.flush(&mut body);
        drop(body);
        self.pd.streams.fetch_sub(1, Ordering::SeqCst);
        self.shared.counters.qps_live.sub();
        lock(&self.shared.qps).remove(&self.num);
    }
    /// After a reference or a connection has gone.
    pub(crate) fn released(&self) {
        self.changed.notify_all();
        let body = self.body();
        if body.orphan && body.refs == 0 && !body.busy {
            self.remove(body);
        }
    }
}

/// What its user holds: the last one that goes away destroys the queue pair. It does not wait, for it may be gone in a handler of the connection manager:
/// what still refers to the queue pair takes it along.
#[derive(Debug)]
pub(crate) struct SoftQp(pub(crate) Arc<Core>);

impl Drop for SoftQp {
    fn drop(&mut self) {
        // no other state refuses to become an error
        let _ = self.0.modify(QpState::Error);
        self.0.body().orphan = true;
        self.0.released();
    }
}

impl Qp for SoftQp {
    fn qp_num(&self) -> u32 {
        self.0.num
    }
    fn query(&self) -> QpAttr {
        let body = self.0.body();
        QpAttr { state: body.state, ird: body.ird, ord: body.ord, terminate_in: body.terminate_in, terminate_out: body.terminate_out }
    }
    fn post_send(&self, list: &[SendWr]) -> Result<(), (usize, Errno)> {
        let mut body = self.0.body();
        let mut result = Ok(());
        for (n, wr) in list.iter().enumerate() {
            if let Err(error) = self.0.check_send(&body, wr) {
                result = Err((n, error));
                break;
            }
            body.sq.push_back(Entry { wr: wr.clone(), progress: Progress::Posted, internal: false });
        }
        if body.state == QpState::Error && !body.busy {
            self.0.flush(&mut body);
        }
        drop(body);
        self.0.changed.notify_all();
        result
    }
    fn post_recv(&self, list: &[RecvWr]) -> Result<(), (usize, Errno)> {
        let mut body = self.0.body();
        for (n, wr) in list.iter().enumerate() {
            let error = if body.destroyed || wr.sg_list.len() > self.0.cap.max_recv_sge as usize {
                Errno::Invalid
            } else if body.rq.len() >= self.0.cap.max_recv_wr as usize {
                Errno::NoMemory
            } else {
                body.rq.push_back(wr.clone());
                continue;
            };
            return Err((n, error));
        }
        if body.state == QpState::Error && !body.busy {
            self.0.flush(&mut body);
        }
        Ok(())
    }
    fn modify(&self, to: QpState) -> Result<(), Errno> {
        self.0.modify(to)
    }
    fn destroy(&self) -> Result<(), Errno> {
        self.0.destroy()
    }
}
