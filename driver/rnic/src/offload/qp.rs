// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs of the adapter: their numbers, states, references and work queues.
//!
//! | from | by | to |
//! |---|---|---|
//! | IDLE | connect, accept (reserves it for one connection) | IDLE, reserved |
//! | IDLE, reserved | CONNECT_REPLY (0), ESTABLISHED | RTS |
//! | IDLE, reserved | CONNECT_REPLY (error), refused accept | IDLE |
//! | RTS | the peer's FIN, modify (SQD) | CLOSING |
//! | RTS, CLOSING | modify (ERROR) | ERROR |
//! | RTS, CLOSING | CLOSE | IDLE in order, else ERROR |
//! | ERROR | modify (IDLE), without a connection | IDLE |
use super::{
    cq::{CqNotice, OffloadCq, Side},
    errno, lock, Shared,
};
use crate::{
    connection::Connection,
    queues::{Posted, WorkQueue},
};
use ironwarp_abi::{
    reg,
    work::{qp_flag, INLINE_OCTETS, SGES},
    Command,
};
use ironwarp_iwcm::{Errno, QpHandle};
use ironwarp_verbs::{Qp, QpAttr, QpCap, QpState, RecvWr, SendFlags, SendOp, SendWr, Terminate};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

/// log2 of the work requests of a queue at most.
pub(super) const QUEUE_LOG2_MAX: u32 = 12;
/// Bound of the wait for references in destroy.
const DESTROY_BOUND: Duration = Duration::from_secs(60);

struct State {
    state: QpState,
    /// None on an adapter without a data path.
    queues: Option<Queues>,
    terminate_in: Option<Terminate>,
    terminate_out: Option<Terminate>,
    /// Taken by connect or accept.
    reserved: bool,
    connection: Option<Connection>,
    ird: u16,
    ord: u16,
    refs: u32,
}

/// Both work queues, and where they complete.
struct Queues {
    send: WorkQueue,
    recv: WorkQueue,
    /// The adapter has worked on them: their indices do not begin at 0.
    used: bool,
    flags: u8,
    pd: u16,
    send_cq: Arc<OffloadCq>,
    recv_cq: Arc<OffloadCq>,
    cap: QpCap,
}

impl Queues {
    fn create(&self, qpn: u32) -> Command {
        let send = (self.send.iova, self.send.log2, self.send_cq.cqn());
        Command::create_qp(0, qpn, self.flags, self.pd, send, (self.recv.iova, self.recv.log2, self.recv_cq.cqn()))
    }
}

/// A queue pair as the provider keeps it.
pub(super) struct QpEntry {
    qpn: u32,
    /// Held from an entry's way into the ring to its doorbell: doorbells go up.
    doorbell: Mutex<()>,
    state: Mutex<State>,
    /// `refs` fell.
    unreferenced: Condvar,
}

impl QpEntry {
    pub(super) fn add_ref(&self) {
        lock(&self.state).refs += 1;
    }
    pub(super) fn rem_ref(&self) {
        let mut state = lock(&self.state);
        state.refs = state.refs.saturating_sub(1);
        drop(state);
        self.unreferenced.notify_all();
    }
    /// For one connection that is about to be asked for. EISCONN if it has or had one that is not over.
    pub(super) fn reserve(&self) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if state.reserved || state.state != QpState::Init {
            return Err(Errno::IsConnected);
        }
        state.reserved = true;
        (state.terminate_in, state.terminate_out) = (None, None);
        Ok(())
    }
    pub(super) fn bind(&self, connection: Connection) {
        lock(&self.state).connection = Some(connection);
    }
    pub(super) fn is_bound(&self, connection: &Connection) -> bool {
        lock(&self.state).connection.is_some_and(|c| c.handle == connection.handle)
    }
    /// Its connection is there, unless its end was asked for meanwhile.
    pub(super) fn connected(&self, ird: u16, ord: u16) {
        let mut state = lock(&self.state);
        if state.state == QpState::Init {
            state.state = QpState::Rts;
        }
        (state.ird, state.ord) = (ird, ord);
    }
    /// From RTS towards the end.
    pub(super) fn leave(&self, to: QpState) {
        let mut state = lock(&self.state);
        if state.state == QpState::Rts || matches!(state.state, QpState::Sqd | QpState::Terminate) && to == QpState::Error {
            state.state = to;
        }
    }
    /// Its connection is over, and what is still posted is flushed. ERROR stays until somebody leaves it.
    pub(super) fn unbind(self: &Arc<Self>, to: QpState) {
        let mut state = lock(&self.state);
        if state.state != QpState::Error {
            state.state = if state.state == QpState::Terminate { QpState::Error } else { to };
        }
        let over = state.connection.is_some();
        (state.reserved, state.connection, state.ird, state.ord) = (false, None, 0, 0);
        if over {
            self.flush(&state);
        }
    }
    /// Receives stay posted in IDLE, for the next connection; in ERROR they are flushed as well.
    fn flush(self: &Arc<Self>, state: &State) {
        let Some(queues) = &state.queues else { return };
        queues.send_cq.flush(self, Side::Send);
        if state.state != QpState::Init {
            queues.recv_cq.flush(self, Side::Recv);
        }
    }
    pub(super) fn qpn(&self) -> u32 {
        self.qpn
    }
    /// See [`WorkQueue::complete`].
    pub(super) fn complete(&self, side: Side, wqe: u16) -> Option<Posted> {
        let mut state = lock(&self.state);
        let queues = state.queues.as_mut()?;
        match side {
            Side::Send => queues.send.complete(wqe),
            Side::Recv => queues.recv.complete(wqe),
        }
    }
    /// What is left when the connection is over.
    pub(super) fn flushed(&self, side: Side) -> Vec<Posted> {
        let mut state = lock(&self.state);
        let idle = state.state == QpState::Init;
        match (&mut state.queues, side) {
            (Some(queues), Side::Send) => queues.send.flush(),
            (Some(queues), Side::Recv) if !idle => queues.recv.flush(),
            _ => Vec::new(),
        }
    }
    /// A Terminate came, or was sent; in place of an RTR before the connection was told to be there.
    pub(super) fn terminated(&self, came: Option<Terminate>, sent: Option<Terminate>) {
        let mut state = lock(&self.state);
        state.terminate_in = came.or(state.terminate_in);
        state.terminate_out = sent.or(state.terminate_out);
        if matches!(state.state, QpState::Rts | QpState::Sqd) || state.state == QpState::Init && state.reserved {
            state.state = QpState::Terminate;
        }
    }
}

/// All queue pairs of the adapter.
pub(super) struct QpTable {
    max: u32,
    table: Mutex<(BTreeMap<u32, Arc<QpEntry>>, u32)>,
}

impl QpTable {
    pub(super) fn new(max: u32) -> Self {
        QpTable { max, table: Mutex::new((BTreeMap::new(), 0)) }
    }
    pub(super) fn get(&self, qpn: u32) -> Option<Arc<QpEntry>> {
        lock(&self.table).0.get(&qpn).cloned()
    }
    pub(super) fn of(&self, handle: QpHandle) -> Option<Arc<QpEntry>> {
        self.get(u32::try_from(handle.0).ok()?)
    }
    pub(super) fn create(&self) -> Result<Arc<QpEntry>, Errno> {
        let mut table = lock(&self.table);
        let (map, last) = &mut *table;
        if map.len() as u32 >= self.max {
            return Err(Errno::NoMemory);
        }
        // a number is used again as late as can be
        loop {
            *last = if *last >= self.max { 1 } else { *last + 1 };
            if !map.contains_key(last) {
                break;
            }
        }
        let state = State {
            state: QpState::Init,
            queues: None,
            terminate_in: None,
            terminate_out: None,
            reserved: false,
            connection: None,
            ird: 0,
            ord: 0,
            refs: 0,
        };
        let entry = Arc::new(QpEntry { qpn: *last, doorbell: Mutex::default(), state: Mutex::new(state), unreferenced: Condvar::new() });
        map.insert(*last, entry.clone());
        Ok(entry)
    }
    fn remove(&self, qpn: u32) {
        lock(&self.table).0.remove(&qpn);
    }
}

impl Shared {
    pub(super) fn cq(&self, cqn: u16) -> Option<Arc<CqNotice>> {
        Some(lock(&self.cqs).get(&cqn)?.0.clone())
    }
    /// The queue of this adapter that `cq` is.
    fn own_cq(&self, cq: &Arc<dyn ironwarp_verbs::Cq>) -> Result<Arc<OffloadCq>, Errno> {
        let cqn = u16::try_from(cq.handle()).map_err(|_| Errno::Invalid)?;
        let own = lock(&self.cqs).get(&cqn).and_then(|(_, own)| own.upgrade()).ok_or(Errno::Invalid)?;
        let same = std::ptr::addr_eq(Arc::as_ptr(&own), Arc::as_ptr(cq));
        same.then_some(own).ok_or(Errno::Invalid)
    }
    /// A queue pair that had a connection begins anew in the adapter: its queues at index 0, with the receives that are posted.
    pub(super) fn renew(&self, qp: &QpEntry) -> Result<(), Errno> {
        let _doorbell = lock(&qp.doorbell);
        let (create, tail) = {
            let mut state = lock(&qp.state);
            let Some(queues) = state.queues.as_mut() else { return Ok(()) };
            if !std::mem::replace(&mut queues.used, true) {
                return Ok(());
            }
            // sends that were flushed and not polled yet are the old connection's
            queues.send.restart();
            queues.recv.restart();
            (queues.create(qp.qpn), queues.recv.tail())
        };
        self.with_rnic(|rnic, _| {
            rnic.object(Command::destroy_qp(0, qp.qpn))?;
            rnic.object(create)?;
            rnic.ring(reg::RQ_TAIL, qp.qpn << 16 | u32::from(tail))
        })?
        .map_err(super::explained("renew"))
    }
    /// See [`ironwarp_verbs::Qp::modify`].
    pub(super) fn modify(&self, qp: &Arc<QpEntry>, to: QpState) -> Result<(), Errno> {
        let (was, connection) = {
            let mut state = lock(&qp.state);
            let was = state.state;
            match to {
                QpState::Rts | QpState::Terminate => return Err(Errno::Invalid),
                QpState::Init if state.reserved => return Err(Errno::Busy),
                QpState::Init => state.state = QpState::Init,
                QpState::Error if state.connection.is_none() => {
                    state.state = to;
                    qp.flush(&state);
                }
                QpState::Sqd if was == QpState::Rts => state.state = to,
                QpState::Error => state.state = to,
                QpState::Sqd => {}
            }
            (was, state.connection)
        };
        let Some(connection) = connection else { return Ok(()) };
        let ended = match to {
            QpState::Sqd if was == QpState::Rts => self.with_rnic(|rnic, _| rnic.disconnect(&connection)),
            QpState::Error if was != QpState::Error => self.with_rnic(|rnic, _| rnic.abort(&connection)),
            _ => return Ok(()),
        };
        match ended {
            // the adapter is gone, and the connection with it
            Err(_) | Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(errno(&e)),
        }
    }
}

/// A queue pair as its user has it. The last owner that goes away destroys it without waiting.
pub(super) struct OffloadQp {
    shared: Weak<Shared>,
    entry: Arc<QpEntry>,
    // kept alive as long as the queue pair, as in libibverbs
    _keeps: (Arc<dyn ironwarp_verbs::Cq>, Arc<dyn ironwarp_verbs::Cq>, Arc<dyn ironwarp_verbs::Pd>),
}

impl OffloadQp {
    pub(super) fn new(shared: &Arc<Shared>, pd: &Arc<dyn ironwarp_verbs::Pd>, init: &ironwarp_verbs::QpInitAttr) -> Result<Self, Errno> {
        let entry = shared.qps.create()?;
        if shared.data_path.is_some() {
            if let Err(e) = Self::make(shared, &entry, pd, init) {
                shared.qps.remove(entry.qpn);
                return Err(e);
            }
        }
        Ok(OffloadQp { shared: Arc::downgrade(shared), entry, _keeps: (init.send_cq.clone(), init.recv_cq.clone(), pd.clone()) })
    }
    /// Gives it queues, and makes it in the adapter.
    fn make(shared: &Shared, entry: &QpEntry, pd: &Arc<dyn ironwarp_verbs::Pd>, init: &ironwarp_verbs::QpInitAttr) -> Result<(), Errno> {
        let cap = init.cap;
        let most = 1 << QUEUE_LOG2_MAX;
        let sges = SGES as u32;
        if cap.max_send_wr > most
            || cap.max_recv_wr > most
            || cap.max_send_sge > sges
            || cap.max_recv_sge > sges
            || cap.max_inline_data > INLINE_OCTETS as u32
        {
            return Err(Errno::Invalid);
        }
        let (send_cq, recv_cq) = (shared.own_cq(&init.send_cq)?, shared.own_cq(&init.recv_cq)?);
        let (send_log2, recv_log2) = (WorkQueue::log2_for(cap.max_send_wr), WorkQueue::log2_for(cap.max_recv_wr));
        let made = shared.with_rnic(|rnic, _| {
            let (send_iova, send) = rnic.share(WorkQueue::send_octets(send_log2))?;
            let (recv_iova, recv) = rnic.share(WorkQueue::recv_octets(recv_log2)).inspect_err(|_| drop(rnic.unshare(send_iova)))?;
            let queues = Queues {
                send: WorkQueue::send(send, send_iova, send_log2),
                recv: WorkQueue::recv(recv, recv_iova, recv_log2),
                used: false,
                flags: if init.sq_sig_all { qp_flag::ALL_SIGNALED } else { 0 },
                pd: pd.handle() as u16,
                send_cq,
                recv_cq,
                cap,
            };
            if let Err(e) = rnic.object(queues.create(entry.qpn)) {
                drop((rnic.unshare(send_iova), rnic.unshare(recv_iova)));
                return Err(e);
            }
            Ok(queues)
        });
        lock(&entry.state).queues = Some(made?.map_err(super::explained("create_qp"))?);
        Ok(())
    }
    /// Posts to one of both queues, and rings once.
    fn post<W>(
        &self,
        list: &[W],
        side: Side,
        doorbell: u32,
        add: impl Fn(&mut Queues, QpState, &W) -> Result<(), Errno>,
    ) -> Result<(), (usize, Errno)> {
        if list.is_empty() {
            return Ok(());
        }
        let shared = self.shared.upgrade().ok_or((0, Errno::NoDevice))?;
        let _doorbell = lock(&self.entry.doorbell);
        let (result, added, tail) = {
            let mut state = lock(&self.entry.state);
            let (now, lonely) = (state.state, state.connection.is_none());
            let queues = state.queues.as_mut().ok_or((0, Errno::NotSupported))?;
            let failed = list.iter().enumerate().find_map(|(n, wr)| add(queues, now, wr).err().map(|e| (n, e)));
            let (queue, cq) = match side {
                Side::Send => (&queues.send, &queues.send_cq),
                Side::Recv => (&queues.recv, &queues.recv_cq),
            };
            let added = failed.map_or(list.len(), |(n, _)| n);
            if added > 0 && now == QpState::Error && lonely {
                // nothing will complete it but we
                cq.flush(&self.entry, side);
            }
            (failed.map_or(Ok(()), Err), added, queue.tail())
        };
        if added > 0 {
            match shared.ring(doorbell, self.entry.qpn << 16 | u32::from(tail)) {
                // an adapter that is gone completes nothing: the end of the connection flushes it
                Ok(()) | Err(Errno::NoDevice) => {}
                Err(e) => return Err((0, e)),
            }
        }
        result
    }
    fn end(&self, bound: Duration) -> Result<(), Errno> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        shared.modify(&self.entry, QpState::Error)?;
        let deadline = Instant::now() + bound;
        let mut state = lock(&self.entry.state);
        while state.refs > 0 || state.connection.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TimedOut);
            }
            // the end of the connection comes without a notice
            let step = left.min(Duration::from_millis(2));
            state = self.entry.unreferenced.wait_timeout(state, step).unwrap_or_else(PoisonError::into_inner).0;
        }
        let queues = state.queues.take();
        drop(state);
        if let Some(queues) = queues {
            let ended = shared.with_rnic(|rnic, _| {
                rnic.object(Command::destroy_qp(0, self.entry.qpn))?;
                rnic.unshare(queues.send.iova)?;
                rnic.unshare(queues.recv.iova)
            });
            match ended {
                Ok(Ok(())) | Err(Errno::NoDevice) => {}
                Ok(Err(e)) => return Err(super::explained("destroy_qp")(e)),
                Err(e) => return Err(e),
            }
        }
        shared.qps.remove(self.entry.qpn);
        Ok(())
    }
}

impl Drop for OffloadQp {
    fn drop(&mut self) {
        if self.end(Duration::ZERO).is_err() {
            // whoever still refers to it keeps its number from being used again
            tracing::debug!("queue pair {} is dropped while it is in use", self.entry.qpn);
        }
    }
}

impl Qp for OffloadQp {
    fn qp_num(&self) -> u32 {
        self.entry.qpn
    }
    fn query(&self) -> QpAttr {
        let state = lock(&self.entry.state);
        let (terminate_in, terminate_out) = (state.terminate_in, state.terminate_out);
        QpAttr { state: state.state, ird: state.ird, ord: state.ord, terminate_in, terminate_out }
    }
    fn post_send(&self, list: &[SendWr]) -> Result<(), (usize, Errno)> {
        self.post(list, Side::Send, reg::SQ_TAIL, |queues, state, wr| {
            let read = matches!(wr.op, SendOp::Read { .. });
            let sends = matches!(wr.op, SendOp::Send | SendOp::SendWithInvalidate(_));
            let inline = wr.inline.as_ref().map_or(0, Vec::len);
            let invalid = wr.sg_list.len() > queues.cap.max_send_sge as usize
                || inline > queues.cap.max_inline_data as usize
                || read && (wr.inline.is_some() || wr.sg_list.len() > 1)
                || wr.flags.contains(SendFlags::SOLICITED) && !sends
                || matches!(state, QpState::Init | QpState::Sqd);
            if invalid {
                return Err(Errno::Invalid);
            }
            if queues.send.len() >= queues.cap.max_send_wr as usize {
                return Err(Errno::NoMemory);
            }
            queues.send.post_send(wr)
        })
    }
    fn post_recv(&self, list: &[RecvWr]) -> Result<(), (usize, Errno)> {
        self.post(list, Side::Recv, reg::RQ_TAIL, |queues, _, wr| {
            if wr.sg_list.len() > queues.cap.max_recv_sge as usize {
                return Err(Errno::Invalid);
            }
            if queues.recv.len() >= queues.cap.max_recv_wr as usize {
                return Err(Errno::NoMemory);
            }
            queues.recv.post_recv(wr)
        })
    }
    fn modify(&self, to: QpState) -> Result<(), Errno> {
        let shared = self.shared.upgrade().ok_or(Errno::NoDevice)?;
        shared.modify(&self.entry, to)
    }
    fn destroy(&self) -> Result<(), Errno> {
        self.end(DESTROY_BOUND)
    }
}

impl std::fmt::Debug for OffloadQp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OffloadQp").field("qpn", &self.entry.qpn).field("attr", &self.query()).finish()
    }
}
