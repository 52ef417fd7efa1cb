// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs of the adapter: their numbers, states and references. Their work queues come with the data path.
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
use super::{errno, lock, Shared};
use crate::connection::Connection;
use ironwarp_iwcm::{Errno, QpHandle};
use ironwarp_verbs::{Qp, QpAttr, QpState, RecvWr, SendWr};
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

/// Bound of the wait for references in destroy.
const DESTROY_BOUND: Duration = Duration::from_secs(60);
/// QP numbers have 24 bits.
const QPN_MAX: u32 = 0x00ff_ffff;

struct State {
    state: QpState,
    /// Taken by connect or accept.
    reserved: bool,
    connection: Option<Connection>,
    ird: u16,
    ord: u16,
    refs: u32,
}

/// A queue pair as the provider keeps it.
pub(super) struct QpEntry {
    qpn: u32,
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
        if state.state == QpState::Rts || state.state == QpState::Sqd && to == QpState::Error {
            state.state = to;
        }
    }
    /// Its connection is over. ERROR stays until somebody leaves it.
    pub(super) fn unbind(&self, to: QpState) {
        let mut state = lock(&self.state);
        if state.state != QpState::Error {
            state.state = to;
        }
        (state.reserved, state.connection, state.ird, state.ord) = (false, None, 0, 0);
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
    pub(super) const fn max(&self) -> u32 {
        self.max
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
            *last = if *last >= QPN_MAX { 1 } else { *last + 1 };
            if !map.contains_key(last) {
                break;
            }
        }
        let state = State { state: QpState::Init, reserved: false, connection: None, ird: 0, ord: 0, refs: 0 };
        let entry = Arc::new(QpEntry { qpn: *last, state: Mutex::new(state), unreferenced: Condvar::new() });
        map.insert(*last, entry.clone());
        Ok(entry)
    }
    fn remove(&self, qpn: u32) {
        lock(&self.table).0.remove(&qpn);
    }
}

impl Shared {
    /// See [`ironwarp_verbs::Qp::modify`].
    pub(super) fn modify(&self, qp: &QpEntry, to: QpState) -> Result<(), Errno> {
        let (was, connection) = {
            let mut state = lock(&qp.state);
            let was = state.state;
            match to {
                QpState::Rts | QpState::Terminate => return Err(Errno::Invalid),
                QpState::Init if state.reserved => return Err(Errno::Busy),
                QpState::Init => state.state = QpState::Init,
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
        Ok(OffloadQp { shared: Arc::downgrade(shared), entry, _keeps: (init.send_cq.clone(), init.recv_cq.clone(), pd.clone()) })
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
        drop(state);
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
        QpAttr { state: state.state, ird: state.ird, ord: state.ord, terminate_in: None, terminate_out: None }
    }
    fn post_send(&self, list: &[SendWr]) -> Result<(), (usize, Errno)> {
        if list.is_empty() {
            Ok(())
        } else {
            Err((0, Errno::NotSupported))
        }
    }
    fn post_recv(&self, list: &[RecvWr]) -> Result<(), (usize, Errno)> {
        if list.is_empty() {
            Ok(())
        } else {
            Err((0, Errno::NotSupported))
        }
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
