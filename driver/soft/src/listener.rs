// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listening: one thread a listener takes connections from the kernel and reads their Requests.
//!
//! Two limits (CM-19): of connections whose Request is not complete ([`crate::SoftConfig::half_open`]), above which none is taken from the
//! kernel; and of Requests that were announced and not answered (the backlog), above which MPA refuses without private data.
//!
//! The thread also closes what was refused, when the peer has closed or after [`crate::SoftConfig::refusal_timeout`]: an initiator that finds the FIN
//! together with the Reply may not look at the Reply (Linux siw).
use crate::{
    connection::Conn,
    device::Shared,
    startup::{refusal, Owned},
    sync::{lock, wait, Wake},
};
use ironwarp_iwcm::{Depths, Event, EventKind, IdRef, PrivateData};
use ironwarp_verbs::Errno;
use ironwarp_wire::mpa::Kind;
use rustix::event::PollFlags;
use socket2::Socket;
use std::{
    io::{ErrorKind, Read},
    net::SocketAddr,
    os::fd::AsFd,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        Arc, Mutex,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A Request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) socket: Socket,
    pub(crate) request: Owned,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    waiting: Arc<AtomicUsize>,
    desk: Arc<Desk>,
    shared: Arc<Shared>,
}

impl Pending {
    /// RST.
    pub(crate) fn reset(self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }
    /// Refuses with a Reply and FIN.
    pub(crate) fn refuse(self, private_data: &PrivateData) -> Result<(), Errno> {
        let reply = refusal(&self.request, private_data, &self.shared.config).octets(Kind::Reply)?;
        // so few octets fit always
        self.socket.send_with_flags(&reply, libc::MSG_NOSIGNAL)?;
        self.desk.close_later(self.socket.try_clone()?);
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.shared.counters.pending_live.sub();
    }
}

/// What others tell the thread.
#[derive(Debug)]
struct Desk {
    wake: Wake,
    stop: AtomicBool,
    /// To be closed; none once the thread has ended.
    refused: Mutex<Option<Vec<Socket>>>,
}

impl Desk {
    fn close_later(&self, socket: Socket) {
        if let Some(list) = &mut *lock(&self.refused) {
            list.push(socket);
            self.wake.set();
        }
    }
}

/// A listener that lives; dropping it stops it.
#[derive(Debug)]
pub(crate) struct Listener {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.desk.stop.store(true, Ordering::SeqCst);
        self.desk.wake.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct HalfOpen {
    socket: Socket,
    local: SocketAddr,
    remote: SocketAddr,
    octets: Vec<u8>,
    until: Instant,
}

/// What became of it.
enum Step {
    Wait,
    Gone,
    Complete(Owned),
}

struct Loop {
    shared: Arc<Shared>,
    id: IdRef,
    socket: Socket,
    backlog: usize,
    waiting: Arc<AtomicUsize>,
    desk: Arc<Desk>,
}

impl Listener {
    pub(crate) fn start(shared: &Arc<Shared>, id: IdRef, socket: Socket, backlog: u32) -> Result<Self, Errno> {
        let desk = Arc::new(Desk { wake: Wake::new()?, stop: AtomicBool::new(false), refused: Mutex::new(Some(Vec::new())) });
        let run = Loop { shared: shared.clone(), id, socket, backlog: backlog as usize, waiting: Arc::default(), desk: desk.clone() };
        let thread = std::thread::Builder::new().name("soft-listen".into()).stack_size(256 << 10).spawn(move || run.run())?;
        Ok(Listener { desk, thread: Some(thread) })
    }
}

impl Loop {
    fn run(self) {
        self.shared.counters.listens_live.add();
        let mut open: Vec<HalfOpen> = Vec::new();
        let mut refused: Vec<(Socket, Instant)> = Vec::new();
        loop {
            let room = open.len() < self.shared.config.half_open;
            let mut files = vec![(self.desk.wake.as_fd(), PollFlags::IN)];
            files.extend(open.iter().map(|one| (one.socket.as_fd(), PollFlags::IN)));
            files.extend(refused.iter().map(|(socket, _)| (socket.as_fd(), PollFlags::IN)));
            if room {
                files.push((self.socket.as_fd(), PollFlags::IN));
            }
            let until = open.iter().map(|one| one.until).chain(refused.iter().map(|(_, until)| *until)).min();
            let Ok(ready) = wait(&files, until) else { break };
            if self.desk.stop.load(Ordering::SeqCst) {
                break;
            }
            let now = Instant::now();
            // the peer has closed, or it will not
            let mut closed = ready[1 + open.len()..].iter();
            refused.retain(|(_, until)| closed.next() == Some(&false) && now < *until);
            if ready[0] {
                self.desk.wake.take();
                let until = now + self.shared.config.refusal_timeout;
                let told = lock(&self.desk.refused).as_mut().map(std::mem::take).unwrap_or_default();
                refused.extend(told.into_iter().map(|socket| (socket, until)));
                // no more than there may be of those that are half open: the oldest go
                refused.drain(..refused.len().saturating_sub(self.shared.config.half_open));
            }
            let mut left = Vec::with_capacity(open.len());
            for (mut one, ready) in std::mem::take(&mut open).into_iter().zip(&ready[1..]) {
                let step = if *ready { self.step(&mut one) } else { Step::Wait };
                match step {
                    Step::Wait if now >= one.until => {
                        // FIN, as MPA's other implementations do
                        self.shared.counters.request_timeouts.add();
                        self.shared.counters.half_open_live.sub();
                    }
                    Step::Wait => left.push(one),
                    Step::Gone => self.shared.counters.half_open_live.sub(),
                    Step::Complete(request) => {
                        self.shared.counters.half_open_live.sub();
                        self.announce(one, request);
                    }
                }
            }
            open = left;
            if room && ready.last() == Some(&true) {
                self.take(&mut open);
            }
        }
        lock(&self.desk.refused).take();
        for one in &open {
            let _ = one.socket.set_linger(Some(Duration::ZERO));
            self.shared.counters.half_open_live.sub();
        }
        self.shared.counters.listens_live.sub();
    }
    fn take(&self, open: &mut Vec<HalfOpen>) {
        while open.len() < self.shared.config.half_open {
            let (socket, remote) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // no file descriptor left: the kernel keeps it; do not look again at once
                Err(error) if error.kind() != ErrorKind::WouldBlock && error.kind() != ErrorKind::ConnectionAborted => {
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
                Err(_) => return,
            };
            let _ = socket.set_tcp_nodelay(true);
            let local = socket.local_addr().ok().and_then(|address| address.as_socket());
            let (Ok(()), Some(local), Some(remote)) = (socket.set_nonblocking(true), local, remote.as_socket()) else { continue };
            let until = Instant::now() + self.shared.config.request_timeout;
            self.shared.counters.half_open_live.add();
            open.push(HalfOpen { socket, local, remote, octets: Vec::new(), until });
        }
    }
    fn step(&self, one: &mut HalfOpen) -> Step {
        let mut octets = [0; 600];
        loop {
            match (&one.socket).read(&mut octets) {
                Ok(0) => return Step::Gone,
                Ok(n) => one.octets.extend(&octets[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(_) => return Step::Gone,
            }
            match Owned::parse(&one.octets, Kind::Request) {
                Ok(None) => {}
                Ok(Some((request, n))) if n == one.octets.len() => return Step::Complete(request),
                Ok(Some(_)) => {
                    self.shared.counters.early_octets.add();
                    let _ = one.socket.set_linger(Some(Duration::ZERO));
                    return Step::Gone;
                }
                Err(_) => {
                    self.shared.counters.malformed.add();
                    return Step::Gone;
                }
            }
        }
    }
    fn announce(&self, one: HalfOpen, request: Owned) {
        let counters = &self.shared.counters;
        counters.requests_in.add();
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        counters.pending_live.add();
        let (peer_ird, peer_ord) = request.peer(&self.shared.config);
        let max = self.shared.config.max_depth;
        let mut event = Event::new(EventKind::ConnectRequest, one.local, one.remote);
        event.private_data = request.private_data.clone();
        event.depths = Depths { own_ird: max, own_ord: max, peer_ird, peer_ord };
        event.provider_data = self.shared.number();
        let HalfOpen { socket, local, remote, .. } = one;
        let pending =
            Pending { socket, request, local, remote, waiting: self.waiting.clone(), desk: self.desk.clone(), shared: self.shared.clone() };
        if before >= self.backlog {
            counters.backlog_rejects.add();
            let _ = pending.refuse(&PrivateData::default());
            return;
        }
        let number = event.provider_data;
        lock(&self.shared.pending).insert(number, pending);
        if self.id.event(event).is_err() {
            counters.backlog_rejects.add();
            let pending = lock(&self.shared.pending).remove(&number);
            if let Some(pending) = pending {
                let _ = pending.refuse(&PrivateData::default());
            }
        }
    }
}

/// An address that names a socket of its own family.
pub(crate) fn socket_for(address: SocketAddr) -> Result<Socket, Errno> {
    let socket = Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Type of service, where the family has one.
pub(crate) fn set_tos(socket: &Socket, conn: &Conn) {
    if let (Some(tos), true) = (conn.id().and_then(|id| id.tos()), conn.remote.is_ipv4()) {
        let _ = socket.set_tos_v4(tos.into());
    }
}
