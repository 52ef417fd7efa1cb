// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole messages, with their file descriptors, over a UNIX stream socket. No call waits longer than it was told to.
//!
//! The kernel delivers the descriptors of a message with its first octet and never reads past them in one `recvmsg`; as a message is
//! read by its own length and no further, the descriptors that arrive while it is read are its own.
use crate::{
    message::{Header, HEADER, MAX_BODY},
    Errno, Error,
};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    net::{
        recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags,
    },
};
use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

/// Most descriptors that the kernel passes in one message (its `SCM_MAX_FD`): with room for all, none is lost unseen.
const KERNEL_MAX_FDS: usize = 253;

/// A message as it came.
pub(crate) struct Message {
    pub header: Header,
    /// Empty if the message was longer than any that we take; `trouble` says so.
    pub body: Vec<u8>,
    pub fds: Vec<OwnedFd>,
    /// Why the message cannot be served although the stream can be followed further.
    pub trouble: Option<Errno>,
}

/// One side of a connection.
pub(crate) struct Stream(UnixStream);

impl Stream {
    pub fn new(socket: UnixStream) -> Self {
        Stream(socket)
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// A whole message, or `None` if none has begun. One that has begun must be complete within `bound`.
    pub fn receive(&self, bound: Duration) -> Result<Option<Message>, Error> {
        let mut octets = [0; HEADER];
        let mut arrived = Arrived::default();
        let have = match self.read_some(&mut octets, &mut arrived) {
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(broken(errno)),
            Ok(0) => return Err(Error::Disconnected),
            Ok(n) => n,
        };
        let deadline = Deadline::after("the rest of a message", bound);
        self.read_all(&mut octets[have..], &mut arrived, &deadline)?;
        let header = Header::decode(&octets);
        let length =
            header.body().ok_or_else(|| Error::Protocol(format!("a message of {} octets is shorter than its header", header.size)))?;
        let mut body = vec![0; length.min(MAX_BODY)];
        let mut left = length;
        while left > 0 {
            let part = left.min(MAX_BODY);
            self.read_all(&mut body[..part], &mut arrived, &deadline)?;
            left -= part;
        }
        let mut trouble = arrived.lost.then_some(Errno::MFILE);
        if length > MAX_BODY {
            body.clear();
            trouble = Some(Errno::TOOBIG);
        }
        Ok(Some(Message { header, body, fds: arrived.fds, trouble }))
    }

    /// Sends a whole message within `bound`.
    pub fn send(&self, header: Header, body: &[u8], fds: &[BorrowedFd<'_>], bound: Duration) -> Result<(), Error> {
        let deadline = Deadline::after("sending a message", bound);
        // One buffer, one call: QEMU insists on a header in one piece.
        let octets = [&header.encode(), body].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KERNEL_MAX_FDS))];
        let mut fds = Some(fds).filter(|fds| !fds.is_empty());
        let mut sent = 0;
        while sent < octets.len() {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if let Some(fds) = fds {
                if !control.push(SendAncillaryMessage::ScmRights(fds)) {
                    return Err(Error::Invalid("too many descriptors for one message"));
                }
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.0, &[IoSlice::new(&octets[sent..])], &mut control, flags) {
                Ok(n) => {
                    sent += n;
                    fds = None;
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, &deadline)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(broken(errno)),
            }
        }
        Ok(())
    }

    /// Waits until something can be read.
    pub fn wait_readable(&self, deadline: &Deadline) -> Result<(), Error> {
        self.wait(PollFlags::IN, deadline)
    }

    fn wait(&self, events: PollFlags, deadline: &Deadline) -> Result<(), Error> {
        loop {
            let left = deadline.left()?;
            let mut fds = [PollFd::new(&self.0, events)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(Error::io("poll", errno)),
            }
        }
    }

    fn read_all(&self, mut out: &mut [u8], arrived: &mut Arrived, deadline: &Deadline) -> Result<(), Error> {
        while !out.is_empty() {
            match self.read_some(out, arrived) {
                Ok(0) => return Err(Error::Disconnected),
                Ok(n) => out = &mut out[n..],
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, deadline)?,
                Err(errno) => return Err(broken(errno)),
            }
            deadline.left()?; // also against a sender that never stops
        }
        Ok(())
    }

    fn read_some(&self, out: &mut [u8], arrived: &mut Arrived) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KERNEL_MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = rustix::io::retry_on_intr(|| recvmsg(&self.0, &mut [IoSliceMut::new(out)], &mut control, flags))?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                arrived.fds.extend(fds);
            }
        }
        arrived.lost |= got.flags.contains(ReturnFlags::CTRUNC);
        Ok(got.bytes)
    }
}

/// Descriptors that came while a message was read.
#[derive(Default)]
struct Arrived {
    fds: Vec<OwnedFd>,
    /// Some were dropped by the kernel (this process has too many open files).
    lost: bool,
}

/// End of a wait.
pub(crate) struct Deadline {
    what: &'static str,
    bound: Duration,
    end: Option<Instant>,
}

impl Deadline {
    /// From now; a bound beyond the clock's range is none.
    pub fn after(what: &'static str, bound: Duration) -> Self {
        Deadline { what, bound, end: Instant::now().checked_add(bound) }
    }
    /// Time left, or the error that it has run out.
    pub fn left(&self) -> Result<Duration, Error> {
        let Some(end) = self.end else { return Ok(Duration::MAX) };
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(Error::Timeout { what: self.what, after: self.bound }),
            left => Ok(left),
        }
    }
}

/// For `poll`; longer than a day is a day (the callers ask again).
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let duration = duration.min(Duration::from_secs(86_400));
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}

fn broken(errno: Errno) -> Error {
    match errno {
        Errno::PIPE | Errno::CONNRESET => Error::Disconnected,
        errno => Error::io("vfio-user socket", errno),
    }
}
