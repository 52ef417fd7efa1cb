// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the connection manager calls: connect, accept, reject, listen. The port space is the host's.
use crate::{
    connection::{spawn, Conn, Side},
    device::{Shared, Soft},
    listener::{set_tos, socket_for, Listener, Pending},
    qp::Core,
    receive,
    startup::{answer, judge, request, Agreed, Owned},
    sync::lock,
    transmit,
};
use ironwarp_iwcm::{ConnParam, EventKind, IdRef, MpaOptions, PrivateData, Provider, ProviderAttr, QpHandle};
use ironwarp_verbs::{Errno, QpState};
use ironwarp_wire::mpa::Kind;
use rustix::event::PollFlags;
use socket2::Socket;
use std::{
    io::{ErrorKind, Read},
    mem::MaybeUninit,
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

impl Soft {
    fn core(&self, qpn: u32) -> Option<Arc<Core>> {
        lock(&self.shared.qps).get(&qpn).cloned()
    }
    /// The queue pair is this connection's from now on. EINVAL if it has one or is not idle.
    fn claim(&self, qpn: u32) -> Result<Arc<Core>, Errno> {
        let qp = self.core(qpn).ok_or(Errno::Invalid)?;
        let mut body = qp.body();
        if body.state != QpState::Init || std::mem::replace(&mut body.busy, true) {
            return Err(Errno::Invalid);
        }
        drop(body);
        Ok(qp)
    }
}

/// Gives a queue pair back that got no connection.
fn release(qp: &Core) {
    let mut body = qp.body();
    body.busy = false;
    body.conn = None;
    drop(body);
    qp.released();
}

/// Runs both threads of a connection whose queue pair is in RTS; this thread becomes the receiver.
fn run(conn: Arc<Conn>, socket: Arc<Socket>, agreed: Agreed, initiator: bool, early: Vec<u8>) {
    let (its_conn, its_socket) = (conn.clone(), socket.clone());
    if spawn("soft-send", move || transmit::run(its_conn, its_socket, agreed, initiator)).is_err() {
        conn.abort();
        conn.clone().leave(&agreed, None);
    }
    receive::run(conn, socket, agreed, initiator, early);
}

/// Why an attempt failed, and what the peer said to it.
struct Failed {
    status: Errno,
    private_data: PrivateData,
    depths: Option<(u16, u16)>,
    /// The peer may be one that knows revision 1 only.
    retry: bool,
}

impl From<Errno> for Failed {
    fn from(status: Errno) -> Self {
        Failed { status, private_data: PrivateData::default(), depths: None, retry: false }
    }
}

fn of_connect(error: std::io::Error) -> Errno {
    match Errno::from(error) {
        // RST to the SYN
        Errno::ConnectionReset => Errno::ConnectionRefused,
        Errno::NetworkUnreachable => Errno::HostUnreachable,
        other => other,
    }
}

/// One attempt of an initiator, up to the agreement; with what came behind the Reply.
fn attempt(
    conn: &Conn,
    socket: &Socket,
    param: &ConnParam,
    mpa: MpaOptions,
    until: Instant,
) -> Result<(Agreed, Vec<u8>, PrivateData), Failed> {
    let counters = &conn.shared.counters;
    let (ours, ird, ord) = request(param, mpa, &conn.shared.config)?;
    loop {
        match socket.connect(&conn.remote.into()) {
            Ok(()) => break,
            Err(error) if error.raw_os_error() == Some(libc::EISCONN) => break,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) || error.raw_os_error() == Some(libc::EALREADY) => {}
            Err(error) => return Err(of_connect(error).into()),
        }
        if Instant::now() >= until {
            return Err(Errno::TimedOut.into());
        }
        if !conn.wait(Side::Receive, socket, PollFlags::OUT, Some(until)) {
            return Err(Errno::ConnectionReset.into());
        }
        if let Ok(Some(error)) = socket.take_error() {
            return Err(of_connect(error).into());
        }
    }
    let reset = |retry| Failed { retry, ..Errno::ConnectionReset.into() };
    conn.send(Side::Receive, socket, &ours.octets(Kind::Request)?, Some(until)).map_err(|_| reset(true))?;
    let mut octets = Vec::new();
    let mut part = [0; 2048];
    let (reply, n) = loop {
        match (&mut { socket }).read(&mut part) {
            Ok(0) => return Err(reset(octets.is_empty())),
            Ok(n) => octets.extend(&part[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() >= until {
                    counters.request_timeouts.add();
                    return Err(Errno::TimedOut.into());
                }
                if !conn.wait(Side::Receive, socket, PollFlags::IN, Some(until)) {
                    return Err(reset(false));
                }
                continue;
            }
            Err(_) => return Err(reset(octets.is_empty())),
        }
        match Owned::parse(&octets, Kind::Reply) {
            Ok(None) => {}
            Ok(Some(found)) => break found,
            Err(status) => {
                counters.malformed.add();
                return Err(status.into());
            }
        }
    };
    counters.replies_in.add();
    let early = octets.split_off(n);
    if reply.reject {
        counters.rejects_in.add();
        let depths = Some(reply.peer(&conn.shared.config));
        return Err(Failed { status: Errno::ConnectionRefused, private_data: reply.private_data, depths, retry: false });
    }
    match judge(&ours, (ird, ord), &reply, &conn.shared.config) {
        Ok(agreed) => Ok((agreed, early, reply.private_data)),
        Err(refusal) => {
            if let Some(code) = refusal.code {
                let octets = transmit::last_words(code, ours.crc || reply.crc, reply.markers);
                if conn.send(Side::Receive, socket, &octets, Some(until)).is_ok() {
                    counters.terminates_out.add();
                }
            }
            Err(Failed { depths: Some(reply.peer(&conn.shared.config)), ..refusal.status.into() })
        }
    }
}

/// The thread of an initiator: connects, then receives.
fn initiate(conn: Arc<Conn>, mut socket: Arc<Socket>, param: ConnParam, mpa: MpaOptions, until: Instant) {
    let mut result = attempt(&conn, &socket, &param, mpa, until);
    if matches!(&result, Err(failed) if failed.retry) && mpa.enhanced && mpa.retry && !mpa.peer_to_peer && !conn.stopped() {
        // once, and as if the first had never been (ENH-2, CM-41)
        conn.shared.counters.retries.add();
        let plain = MpaOptions { enhanced: false, ..mpa };
        match open(conn.local, conn.remote) {
            Ok(second) => {
                socket = Arc::new(second);
                conn.replace(&socket);
                result = attempt(&conn, &socket, &param, plain, until);
            }
            Err(status) => result = Err(status.into()),
        }
    }
    let local = socket.local_addr().ok().and_then(|address| address.as_socket()).unwrap_or(conn.local);
    if let Some(id) = conn.id() {
        id.set_local_addr(local);
    }
    let result = result.and_then(|agreed| if conn.begin(&agreed.0, true) { Ok(agreed) } else { Err(Errno::ConnectionReset.into()) });
    match result {
        Ok((agreed, early, private_data)) => {
            conn.shared.counters.connects.add();
            lock(&conn.flow).told = true;
            conn.tell(EventKind::ConnectReply, |event| {
                event.local_addr = local;
                event.private_data = private_data;
                event.depths = agreed.depths;
            });
            run(conn, socket, agreed, true, early);
        }
        Err(failed) => {
            conn.shared.counters.connect_errors.add();
            drop(socket);
            conn.close();
            conn.free();
            conn.tell(EventKind::ConnectReply, |event| {
                event.local_addr = local;
                event.status = Err(failed.status);
                event.private_data = failed.private_data;
                if let Some((peer_ird, peer_ord)) = failed.depths {
                    event.depths.peer_ird = peer_ird;
                    event.depths.peer_ord = peer_ord;
                }
            });
            conn.forget();
        }
    }
}

/// A socket that is bound and does not wait.
fn open(local: SocketAddr, remote: SocketAddr) -> Result<Socket, Errno> {
    let socket = socket_for(remote)?;
    socket.set_nonblocking(true)?;
    let _ = socket.set_tcp_nodelay(true);
    if local.is_ipv4() == remote.is_ipv4() && (!local.ip().is_unspecified() || local.port() != 0) {
        socket.set_reuse_address(local.port() != 0)?;
        socket.bind(&local.into())?;
    }
    Ok(socket)
}

/// Nothing may have come behind the Request, and the peer must be there still (CM-27, MPA-10).
fn still_there(pending: &Pending) -> Result<(), Errno> {
    match pending.socket.peek(&mut [MaybeUninit::uninit(); 1]) {
        Ok(0) => Err(Errno::ConnectionReset),
        Ok(_) => Err(Errno::Protocol),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(_) => Err(Errno::ConnectionReset),
    }
}

fn accept(shared: &Arc<Shared>, qp: &Arc<Core>, pending: Pending, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
    let (reply, agreed) = match answer(&pending.request, param, &shared.config) {
        Ok(answer) => answer,
        Err(status) => {
            let _ = pending.refuse(&PrivateData::default());
            return Err(status);
        }
    };
    let fail = |pending: Pending, status| {
        pending.reset();
        Err(status)
    };
    let octets = match reply.octets(Kind::Reply).and_then(|octets| still_there(&pending).map(|()| octets)) {
        Ok(octets) => octets,
        Err(status) => return fail(pending, status),
    };
    let socket = match pending.socket.try_clone() {
        Ok(socket) => Arc::new(socket),
        Err(error) => return fail(pending, error.into()),
    };
    let conn = match Conn::new(shared, qp, id, &socket, pending.local, pending.remote) {
        Ok(conn) => conn,
        Err(status) => return fail(pending, status),
    };
    set_tos(&socket, &conn);
    qp.body().conn = Some(conn.clone());
    if !conn.begin(&agreed, false) {
        return fail(pending, Errno::Invalid);
    }
    let back = |status| {
        shared.counters.connections_live.sub();
        let mut body = qp.body();
        body.state = QpState::Init;
        body.conn = None;
        Err(status)
    };
    // so few octets fit always
    match pending.socket.send_with_flags(&octets, libc::MSG_NOSIGNAL) {
        Ok(n) if n == octets.len() => {}
        _ => {
            pending.reset();
            return back(Errno::ConnectionReset);
        }
    }
    let receiver = conn.clone();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    if let Err(status) = spawn("soft-conn", move || {
        // not before ESTABLISHED is told, which the receiver may have to follow with DISCONNECT
        let _ = wait.recv();
        run(receiver, socket, agreed, false, Vec::new());
    }) {
        pending.reset();
        return back(status);
    }
    drop(pending);
    shared.counters.accepts.add();
    if agreed.rtr.is_none() {
        conn.established(&agreed);
    }
    drop(go);
    Ok(())
}

impl Provider for Soft {
    fn query(&self) -> ProviderAttr {
        let config = &self.shared.config;
        ProviderAttr {
            name: config.name.clone(),
            node_guid: self.shared.guid,
            addresses: Vec::new(),
            max_ird: config.max_depth,
            max_ord: config.max_depth,
        }
    }
    fn get_qp(&self, qpn: u32) -> Option<QpHandle> {
        let qp = self.core(qpn)?;
        qp.body().refs += 1;
        Some(QpHandle(qpn.into()))
    }
    fn add_ref(&self, qp: QpHandle) {
        if let Some(qp) = self.core(qp.0 as u32) {
            qp.body().refs += 1;
        }
    }
    fn rem_ref(&self, qp: QpHandle) {
        if let Some(qp) = self.core(qp.0 as u32) {
            let mut body = qp.body();
            body.refs = body.refs.saturating_sub(1);
            drop(body);
            qp.released();
        }
    }
    fn modify_qp(&self, qp: QpHandle, to: QpState) -> Result<(), Errno> {
        self.core(qp.0 as u32).ok_or(Errno::Invalid)?.modify(to)
    }
    fn connect(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let mpa = param.mpa.unwrap_or(self.shared.config.mpa);
        // what may not be is refused before anything is done
        request(param, mpa, &self.shared.config)?;
        let (local, remote) = (id.local_addr(), id.remote_addr());
        let until = Instant::now() + param.timeout.unwrap_or(self.shared.config.connect_timeout);
        let qp = self.claim(param.qpn)?;
        let begin = || {
            let socket = Arc::new(open(local, remote)?);
            let conn = Conn::new(&self.shared, &qp, id, &socket, local, remote)?;
            set_tos(&socket, &conn);
            qp.body().conn = Some(conn.clone());
            let param = param.clone();
            spawn("soft-conn", move || initiate(conn, socket, param, mpa, until))
        };
        begin().inspect_err(|_| release(&qp))
    }
    fn accept(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        let number = id.provider_data();
        let pending = lock(&self.shared.pending).remove(&number).ok_or(Errno::Invalid)?;
        let qp = match self.claim(param.qpn) {
            Ok(qp) => qp,
            Err(status) => {
                pending.reset();
                self.shared.counters.accept_errors.add();
                return Err(status);
            }
        };
        accept(&self.shared, &qp, pending, id, param).inspect_err(|_| {
            self.shared.counters.accept_errors.add();
            release(&qp);
        })
    }
    fn reject(&self, id: IdRef, private_data: &PrivateData) -> Result<(), Errno> {
        let number = id.provider_data();
        let pending = lock(&self.shared.pending).remove(&number).ok_or(Errno::Invalid)?;
        self.shared.counters.rejects_out.add();
        if pending.request.enhanced.is_some() && private_data.len() > PrivateData::MAX_ENHANCED {
            pending.reset();
            return Err(Errno::Invalid);
        }
        // a peer that is gone is rejected all the same (CM-27)
        let _ = pending.refuse(private_data);
        Ok(())
    }
    fn create_listen(&self, id: IdRef, backlog: u32) -> Result<(), Errno> {
        let local = id.local_addr();
        let socket = socket_for(local)?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&local.into())?;
        socket.listen(backlog.clamp(16, 4096) as i32)?;
        let bound = socket.local_addr()?.as_socket().ok_or(Errno::Invalid)?;
        id.set_local_addr(bound);
        let number = self.shared.number();
        id.set_provider_data(number);
        let listener = Listener::start(&self.shared, id, socket, backlog)?;
        lock(&self.shared.listeners).insert(number, listener);
        Ok(())
    }
    fn destroy_listen(&self, id: IdRef) -> Result<(), Errno> {
        let listener = lock(&self.shared.listeners).remove(&id.provider_data()).ok_or(Errno::Invalid)?;
        drop(listener);
        Ok(())
    }
}
