// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of one connection: its socket, its two threads ([`crate::receive`], [`crate::transmit`]), and how it ends.
//!
//! | end | what happens | CLOSE |
//! |---|---|---|
//! | own close | what is posted is sent, FIN, FIN of the peer awaited | success |
//! | FIN of the peer, nothing left to do | DISCONNECT, own FIN | success |
//! | FIN of the peer in the middle of work | closed | ECONNRESET |
//! | Terminate of either side | FIN, FIN of the peer awaited for a short time, else RST | ECONNRESET |
//! | abort, RST of the peer | RST, or nothing | ECONNRESET |
//!
//! The thread that leaves last closes the socket, flushes the queue pair and raises CLOSE. Each wait ends at the latest at a deadline, or when the
//! connection is stopped.
use crate::{
    device::Shared,
    qp::{Core, Report},
    startup::Agreed,
    sync::{lock, wait, Wake},
};
use ironwarp_iwcm::{Event, EventKind, IdRef};
use ironwarp_verbs::{Errno, QpState, WcStatus};
use rustix::event::PollFlags;
use socket2::Socket;
use std::{
    io,
    net::{Shutdown, SocketAddr},
    os::fd::AsFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Where a connection is on its way to the end.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Threads leave at once.
    pub(crate) stop: bool,
    /// Our FIN is out.
    pub(crate) own_fin: bool,
    pub(crate) peer_fin: bool,
    /// It did not end in order.
    pub(crate) failed: bool,
    /// Then it is reset.
    pub(crate) deadline: Option<Instant>,
    /// ESTABLISHED or CONNECT_REPLY was raised.
    pub(crate) told: bool,
    threads: u8,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) shared: Arc<Shared>,
    pub(crate) qp: Arc<Core>,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) flow: Mutex<Flow>,
    id: Mutex<Option<IdRef>>,
    socket: Mutex<Option<Arc<Socket>>>,
    receiver: Wake,
    transmitter: Wake,
}

/// Which thread waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    Receive,
    Transmit,
}

impl Conn {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        qp: &Arc<Core>,
        id: IdRef,
        socket: &Arc<Socket>,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Conn {
            shared: shared.clone(),
            qp: qp.clone(),
            local,
            remote,
            flow: Mutex::default(),
            id: Mutex::new(Some(id)),
            socket: Mutex::new(Some(socket.clone())),
            receiver: Wake::new()?,
            transmitter: Wake::new()?,
        }))
    }
    pub(crate) fn stopped(&self) -> bool {
        lock(&self.flow).stop
    }
    fn wake(&self) {
        self.receiver.set();
        self.transmitter.set();
        // under the lock that its waiters hold while they look
        drop(self.qp.body());
        self.qp.changed.notify_all();
    }
    /// Both threads leave now.
    pub(crate) fn stop(&self) {
        lock(&self.flow).stop = true;
        self.wake();
    }
    /// RST.
    pub(crate) fn abort(&self) {
        self.shared.counters.aborts.add();
        if let Some(socket) = &*lock(&self.socket) {
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        lock(&self.flow).failed = true;
        self.stop();
    }
    /// Waits for the socket (`flags`), for `until`, or for a wake-up. False when the connection is stopped.
    pub(crate) fn wait(&self, side: Side, socket: &Socket, flags: PollFlags, until: Option<Instant>) -> bool {
        let wake = if side == Side::Receive { &self.receiver } else { &self.transmitter };
        if self.stopped() {
            return false;
        }
        if wait(&[(socket.as_fd(), flags), (wake.as_fd(), PollFlags::IN)], until).is_err() {
            return false;
        }
        wake.take();
        !self.stopped()
    }
    /// Writes all of it. An error if the connection is stopped or lost.
    pub(crate) fn send(&self, side: Side, socket: &Socket, octets: &[u8], until: Option<Instant>) -> io::Result<()> {
        send_whole(socket, octets, || {
            let limit = until.or(lock(&self.flow).deadline);
            if limit.is_some_and(|limit| Instant::now() >= limit) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !self.wait(side, socket, PollFlags::OUT, limit) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Ok(())
        })
    }
    /// Our FIN; the peer's must follow in time.
    pub(crate) fn fin(&self, socket: &Socket, within: Duration) {
        let _ = socket.shutdown(Shutdown::Write);
        let mut flow = lock(&self.flow);
        flow.own_fin = true;
        flow.deadline = Some(Instant::now() + within);
        drop(flow);
        self.receiver.set();
    }
    /// An error of the stream: a Terminate, then FIN; or RST where nothing may be sent any more (RDM-34).
    pub(crate) fn fail(&self, report: Option<Report>) {
        let mut body = self.qp.body();
        let reset = report.is_some() && !body.may_send || lock(&self.flow).own_fin && report.is_some();
        if matches!(body.state, QpState::Rts | QpState::Sqd) {
            body.state = QpState::Terminate;
            body.report = report;
            let mut flow = lock(&self.flow);
            flow.failed = true;
            flow.deadline = Some(Instant::now() + self.shared.config.terminate_timeout);
        }
        drop(body);
        if reset {
            self.abort();
        } else {
            self.wake();
        }
    }
    /// Raises an event of this connection.
    pub(crate) fn tell(&self, kind: EventKind, fill: impl FnOnce(&mut Event)) {
        let id = lock(&self.id).clone();
        let Some(id) = id else { return };
        let mut event = Event::new(kind, self.local, self.remote);
        fill(&mut event);
        if id.event(event).is_err() {
            self.shared.counters.events_refused.add();
        }
    }
    /// Another attempt, another socket.
    pub(crate) fn replace(&self, socket: &Arc<Socket>) {
        *lock(&self.socket) = Some(socket.clone());
    }
    /// The last owner of the socket but its thread lets go.
    pub(crate) fn close(&self) {
        lock(&self.socket).take();
    }
    pub(crate) fn id(&self) -> Option<IdRef> {
        lock(&self.id).clone()
    }
    /// ESTABLISHED on the responder, once (CM-10).
    pub(crate) fn established(&self, agreed: &Agreed) {
        if !std::mem::replace(&mut lock(&self.flow).told, true) {
            self.tell(EventKind::Established, |event| event.depths = agreed.depths);
        }
    }
    /// The connection is there: the queue pair may be used, and both threads run. False: the queue pair left its state meanwhile.
    pub(crate) fn begin(self: &Arc<Self>, agreed: &Agreed, initiator: bool) -> bool {
        let mut body = self.qp.body();
        if body.state != QpState::Init || self.stopped() {
            return false;
        }
        body.state = QpState::Rts;
        body.ird = agreed.depths.own_ird;
        body.ord = agreed.depths.own_ord;
        body.may_send = initiator || self.shared.config.eager_responder;
        body.terminate_in = None;
        body.terminate_out = None;
        body.report = None;
        lock(&self.flow).threads = 2;
        self.shared.counters.connections_live.add();
        true
    }
    /// Of a thread that has let go of its socket. `partial`: a receive that was not filled.
    pub(crate) fn leave(self: Arc<Self>, agreed: &Agreed, partial: Option<(u64, WcStatus)>) {
        if let Some((wr_id, status)) = partial {
            let _ = self.qp.received(wr_id, status, 0, None, false);
        }
        let mut flow = lock(&self.flow);
        flow.threads -= 1;
        if flow.threads > 0 {
            return;
        }
        let failed = flow.failed || !flow.peer_fin;
        drop(flow);
        // with the last owner goes the socket: FIN or RST
        lock(&self.socket).take();
        let mut body = self.qp.body();
        let orderly = !failed && body.state == QpState::Sqd;
        body.state = if orderly { QpState::Init } else { QpState::Error };
        body.may_send = false;
        self.qp.flush(&mut body);
        drop(body);
        self.shared.counters.connections_live.sub();
        self.free();
        if !lock(&self.flow).told {
            self.established(agreed);
        }
        self.tell(EventKind::Close, |event| event.status = if orderly { Ok(()) } else { Err(Errno::ConnectionReset) });
        self.forget();
    }
    /// The last event was raised.
    pub(crate) fn forget(&self) {
        lock(&self.id).take();
    }
    /// The queue pair may have another connection, or go: before the event that says so is raised.
    pub(crate) fn free(&self) {
        let mut body = self.qp.body();
        body.conn = None;
        body.busy = false;
        if body.state == QpState::Error {
            self.qp.flush(&mut body);
        }
        drop(body);
        self.qp.released();
    }
}

/// All octets, in as many calls as the kernel makes of it; `wait` waits until it takes more.
fn send_whole(socket: &Socket, mut octets: &[u8], mut wait: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    while !octets.is_empty() {
        match socket.send_with_flags(octets, libc::MSG_NOSIGNAL | libc::MSG_EOR | libc::MSG_DONTWAIT) {
            Ok(n) => octets = octets.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Starts a thread of a connection.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), Errno> {
    std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(run).map(drop).map_err(Errno::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A kernel that takes parts: a pair of local sockets with little room does.
    ///
    /// Covers: DEF-32
    #[test]
    fn def_32_what_the_kernel_takes_in_parts_leaves_whole() {
        let (from, mut to) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("sockets");
        from.set_send_buffer_size(1).expect("the least there is");
        let sent: Vec<u8> = (0..300_000u32).map(|n| (n / 3) as u8).collect();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            to.read_to_end(&mut all).map(|_| all)
        });
        let mut waits = 0;
        send_whole(&from, &sent, || {
            waits += 1;
            std::thread::yield_now();
            Ok(())
        })
        .expect("sent");
        drop(from);
        assert!(reader.join().expect("reads").expect("octets") == sent);
        assert!(waits > 0, "the kernel took all at once: nothing was shown");
        // an end of the wait ends it
        let (from, _to) = Socket::pair(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("sockets");
        let refused = send_whole(&from, &vec![0; 10_000_000], || Err(io::ErrorKind::TimedOut.into()));
        assert_eq!(refused.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
    }
}
