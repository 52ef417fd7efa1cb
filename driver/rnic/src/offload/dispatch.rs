// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the adapter's events to those of the connection manager: one thread, in order.
use super::{lock, Inner, Shared, HEALTH_INTERVAL};
use crate::{
    connection::{Connection, StartUp},
    error::{Error, Refusal},
    pending::Event as RnicEvent,
    rnic::Rnic,
};
use ironwarp_abi::{event::asynchronous, irq};
use ironwarp_iwcm::{Depths, Errno, Event, EventKind, IdRef, PrivateData};
use ironwarp_verbs::{QpState, Terminate};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

/// Events taken under the lock at once.
const BATCH: usize = 64;
/// Between two looks at the ring when the adapter is attached without interrupts.
const POLL_PAUSE: Duration = Duration::from_micros(200);

/// What the dispatcher sleeps on.
pub(super) struct Wake {
    /// The adapter's event vector; none without interrupts.
    event: Option<OwnedFd>,
    /// Written by verbs.
    kick: OwnedFd,
}

impl Wake {
    pub(super) fn new(rnic: &Rnic) -> Result<Self, Error> {
        let event = match rnic.cause_fd(irq::EVENT) {
            Some(fd) if rnic.config().interrupts => Some(fd.try_clone_to_owned()?),
            None if rnic.config().interrupts => {
                return Err(Error::Config(
                    "this way to the adapter has no interrupt that a thread can wait for; use a socket or a card".into(),
                ))
            }
            _ => None,
        };
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        Ok(Wake { event, kick })
    }
    pub(super) fn kick(&self) {
        // full means that it is readable anyhow
        let _ = rustix::io::write(&self.kick, &1u64.to_ne_bytes());
    }
    /// Until an interrupt, a kick or the interval; true for the last.
    fn sleep(&self) -> bool {
        let mut fds = vec![PollFd::new(&self.kick, PollFlags::IN)];
        fds.extend(self.event.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let bound = if self.event.is_some() { HEALTH_INTERVAL } else { POLL_PAUSE };
        let bound = Timespec { tv_sec: 0, tv_nsec: bound.subsec_nanos().into() };
        let woken = poll(&mut fds, Some(&bound)).unwrap_or(1);
        let _ = rustix::io::read(&self.kick, &mut [0u8; 8]);
        woken == 0
    }
}

/// What is raised, without the lock.
struct Upcall {
    id: IdRef,
    event: Event,
    /// Whom to reject if nobody takes it.
    request: Option<Connection>,
}

pub(super) fn run(shared: &Shared) {
    let mut idle = false;
    loop {
        let (batch, stop) = take(shared, idle);
        let found = !batch.is_empty();
        for upcall in batch {
            raise(shared, upcall);
        }
        let mut inner = lock(&shared.inner);
        inner.raised = inner.taken;
        drop(inner);
        shared.progress.notify_all();
        if stop {
            return;
        }
        // a full batch may have left events that no interrupt tells of
        idle = !found && shared.wake.sleep();
    }
}

/// Events that wait, translated; the ends of all ids if the adapter failed or the provider is dropped.
fn take(shared: &Shared, look_after: bool) -> (Vec<Upcall>, bool) {
    let mut inner = lock(&shared.inner);
    let mut batch = Vec::new();
    let mut failed = None;
    if let Some(rnic) = inner.rnic.as_mut() {
        match next_events(rnic, look_after) {
            Ok(events) => {
                for event in events {
                    batch.extend(translate(shared, &mut inner, event));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    let stop = inner.stop;
    if let Some(error) = &failed {
        tracing::error!("{}: {error}", shared.config.name);
    }
    if stop || failed.is_some() {
        if let Some(rnic) = inner.rnic.take() {
            for event in rnic.detach() {
                batch.extend(translate(shared, &mut inner, event));
            }
            inner.listeners.clear();
            inner.connections.clear();
        }
    }
    inner.taken += 1;
    (batch, stop)
}

fn next_events(rnic: &mut Rnic, look_after: bool) -> Result<Vec<RnicEvent>, Error> {
    if rnic.config().interrupts {
        rnic.clear(1 << irq::EVENT)?;
    }
    let mut events = Vec::new();
    while events.len() < BATCH {
        match rnic.poll_event()? {
            Some(event) => events.push(event),
            None => break,
        }
    }
    if events.is_empty() && look_after {
        // also asks whether the adapter is well
        events.extend(rnic.wait_event(Duration::ZERO)?);
    }
    Ok(events)
}

fn raise(shared: &Shared, upcall: Upcall) {
    let Upcall { id, event, request } = upcall;
    let kind = event.kind;
    let Err(why) = id.event(event) else { return };
    let Some(connection) = request else {
        tracing::warn!("{}: {} was not taken: {why}", shared.config.name, kind.name());
        return;
    };
    // CM-9: nobody will answer it
    tracing::debug!("{connection}: CONNECT_REQUEST was not taken ({why}): rejected");
    shared.counts.refused_request();
    let rejected = shared.with_rnic(|rnic, _| rnic.reject(&connection, &[]));
    if let Ok(Err(e)) = rejected {
        tracing::debug!("{connection}: {e}");
    }
}

fn event(kind: EventKind, connection: &Connection, result: Result<(), Refusal>) -> Event {
    let mut event = Event::new(kind, SocketAddr::V4(connection.local), SocketAddr::V4(connection.remote));
    event.status = result.map_err(|refusal| Errno::from_raw(refusal.status()));
    event
}

/// Adds what the peer's start-up frame said.
fn with_start(shared: &Shared, mut event: Event, start: StartUp) -> Event {
    let max = (shared.config.max_ird, shared.config.max_ord);
    let own = if event.kind == EventKind::ConnectRequest { max } else { (start.own_ird, start.own_ord) };
    // a frame without IRD and ORD (revision 1) says nothing of the peer's
    let silent = start.revision != 0 && !start.enhanced();
    let peer = if silent { max } else { (start.peer_ird, start.peer_ord) };
    event.depths = Depths { own_ird: own.0, own_ord: own.1, peer_ird: peer.0, peer_ord: peer.1 };
    // never longer: the driver has checked it
    event.private_data = PrivateData::new(&start.private_data).unwrap_or_default();
    event
}

fn translate(shared: &Shared, inner: &mut Inner, happened: RnicEvent) -> Option<Upcall> {
    let to = |inner: &Inner, connection: &Connection, event: Event| {
        let id = inner.connections.get(&connection.handle).and_then(|end| end.id.clone());
        id.map(|id| Upcall { id, event, request: None })
    };
    let qp = |inner: &Inner, connection: &Connection| {
        inner.connections.get(&connection.handle).and_then(|end| shared.qps.get(end.qpn)).filter(|qp| qp.is_bound(connection))
    };
    match happened {
        RnicEvent::ConnectRequest { listener, connection, start } => {
            let Some((_, id)) = inner.listeners.get(&listener.handle) else {
                // its listener was destroyed a moment ago: nobody has heard of this connection (CM-22)
                if let Some(Err(e)) = inner.rnic.as_mut().map(|rnic| rnic.abort(&connection)) {
                    tracing::debug!("{connection}: {e}");
                }
                return None;
            };
            let mut request = with_start(shared, event(EventKind::ConnectRequest, &connection, Ok(())), start);
            request.provider_data = connection.handle.0;
            let upcall = Upcall { id: id.clone(), event: request, request: Some(connection) };
            inner.connections.insert(connection.handle, super::End { connection, id: None, qpn: 0 });
            Some(upcall)
        }
        RnicEvent::ConnectReply { connection, result, start } => {
            if let Some(qp) = qp(inner, &connection) {
                match result {
                    Ok(()) => qp.connected(start.own_ird, start.own_ord),
                    Err(_) => qp.unbind(QpState::Init),
                }
            }
            to(inner, &connection, with_start(shared, event(EventKind::ConnectReply, &connection, result), start))
        }
        RnicEvent::Established { connection, start } => {
            if let Some(qp) = qp(inner, &connection) {
                qp.connected(start.own_ird, start.own_ord);
            }
            to(inner, &connection, with_start(shared, event(EventKind::Established, &connection, Ok(())), start))
        }
        RnicEvent::Disconnect { connection } => {
            if let Some(qp) = qp(inner, &connection) {
                qp.leave(QpState::Sqd);
            }
            to(inner, &connection, event(EventKind::Disconnect, &connection, Ok(())))
        }
        RnicEvent::Close { connection, result } => {
            if let Some(qp) = qp(inner, &connection) {
                qp.unbind(if result.is_ok() { QpState::Init } else { QpState::Error });
            }
            to(inner, &connection, event(EventKind::Close, &connection, result))
        }
        RnicEvent::ConnectionFreed { connection } => {
            if let Some(qp) = qp(inner, &connection) {
                qp.unbind(QpState::Error);
            }
            inner.connections.remove(&connection.handle);
            None
        }
        RnicEvent::Completion { cqn } => {
            if let Some(cq) = shared.cq(cqn) {
                cq.wake();
            }
            None
        }
        RnicEvent::Async { code, terminate, handle } => {
            let number = code & 0xffff;
            let said = Terminate { layer: (terminate >> 12) as u8, etype: (terminate >> 8 & 15) as u8, code: terminate as u8 };
            tracing::debug!("{}: asynchronous event {code:#x} ({said}) of {:#x}", shared.config.name, handle.0);
            match code & 0xffff_0000 {
                asynchronous::CQ_ERROR => {
                    if let Some(cq) = shared.cq(number as u16) {
                        cq.lost();
                    }
                }
                asynchronous::TERMINATE_RECEIVED => shared.qps.get(number)?.terminated(Some(said), None),
                asynchronous::TERMINATE_SENT => shared.qps.get(number)?.terminated(None, Some(said)),
                // RDM-27: catastrophic, of this stream
                asynchronous::LOCAL_ERROR => {
                    shared.qps.get(number)?.terminated(None, Some(Terminate { layer: 0, etype: 2, code: 7 }));
                }
                asynchronous::TERMINATE_MALFORMED => shared.qps.get(number)?.terminated(None, None),
                _ => tracing::warn!("{}: asynchronous event {code:#x}", shared.config.name),
            }
            None
        }
        other => {
            tracing::debug!("nobody waits for {other:?}");
            None
        }
    }
}
