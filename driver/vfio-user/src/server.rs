// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's side: a listening socket, one session at a time, requests checked and handed to a [`Device`].
//!
//! A session begins with VERSION; anything else before it ends the session. A request that cannot be served (unknown command, short
//! body, access outside a region, more descriptors than vectors, an error from the device) is read to its end and answered with
//! an errno, and the session goes on. It ends when the client hangs up, breaks off in the middle of a message, leaves answers unread
//! until the message time-out, or sends a size smaller than a header. NO_REPLY requests are carried out and never answered.
use crate::{
    message::{Access, Header, IrqPayload, Request, SetIrqs, Version, VERSION},
    stream::{timespec, Message, Stream},
    DeviceFlags, DeviceInfo, DmaMap, DmaUnmap, Errno, Error, IrqAction, IrqInfo, RegionFlags, RegionInfo, MAX_DATA_XFER, MAX_MSG_FDS,
};
use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags},
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use std::{
    fs, io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long the rest of a message that has begun, and room for an answer, are waited for.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// What SET_IRQS brings.
#[derive(Debug)]
pub enum IrqData {
    /// Acts on the whole range; with [`IrqAction::Trigger`] and an empty range: disconnect all vectors.
    None,
    /// Acts where true; as many as the range has vectors.
    Bool(Vec<bool>),
    /// Eventfds, one for each vector of the range; empty: disconnect the range.
    EventFd(Vec<OwnedFd>),
}

/// SET_IRQS, checked against [`Device::irq_info`].
#[derive(Debug)]
pub struct IrqSet {
    /// Interrupt kind, see [`crate::irq`].
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Number of vectors.
    pub count: u32,
    /// What to do.
    pub action: IrqAction,
    /// On which, with what.
    pub data: IrqData,
}

/// A PCI device behind the socket. Offsets, lengths and indices are checked before a callback sees them.
pub trait Device {
    /// What the device is. Constant.
    fn info(&self) -> DeviceInfo {
        DeviceInfo { flags: DeviceFlags::PCI | DeviceFlags::RESET, regions: crate::region::COUNT, irqs: crate::irq::COUNT }
    }
    /// What region `index` (below [`DeviceInfo::regions`]) is; size 0 if there is none. Constant.
    fn region_info(&self, index: u32) -> RegionInfo;
    /// What interrupt kind `index` (below [`DeviceInfo::irqs`]) is; count 0 if there is none. Constant.
    fn irq_info(&self, index: u32) -> IrqInfo;
    /// Reads `data.len()` octets at `offset`, all inside the region.
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Errno>;
    /// Writes, all inside the region. The client may not wait for it (posted write).
    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno>;
    /// Opens a DMA window. Without `memory` it exists but cannot be reached. QEMU sends a new descriptor of the same file with
    /// every window, and thousands of windows. `EEXIST` if it overlaps one.
    fn dma_map(&mut self, map: DmaMap, memory: Option<OwnedFd>) -> Result<(), Errno>;
    /// Closes the windows that lie in the range, which may be many or none (QEMU does so). On return no DMA reaches them.
    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno>;
    /// Connects, masks or raises interrupts.
    fn set_irqs(&mut self, set: IrqSet) -> Result<(), Errno>;
    /// Resets the device. (A function level reset comes as a write to configuration space instead.)
    fn reset(&mut self) -> Result<(), Errno>;
    /// The client is gone: close all DMA windows and eventfds. The next client follows.
    fn disconnected(&mut self);
}

/// What a [`Server::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing came.
    Idle,
    /// A client connected.
    Connected,
    /// A message was dealt with.
    Served,
    /// The session ended; [`Device::disconnected`] was called.
    Disconnected,
    /// [`Stopper::stop`] was called. A session that was open stays as it is.
    Stopped,
}

/// Ends a [`Server::run`] from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Ends the server's present and every later wait.
    pub fn stop(&self) {
        // Fails only if it was called 2^64 - 2 times already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// A listening socket, and the session with the client that is connected.
pub struct Server {
    listener: Option<Listener>,
    session: Option<Session>,
    stop: Arc<OwnedFd>,
    message_timeout: Duration,
}

struct Session {
    stream: Stream,
    /// VERSION was exchanged.
    agreed: bool,
}

struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode number of the socket file, so that only our own is removed.
    file: (u64, u64),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Server {
    /// Listens at `path` (at most 107 octets), readable and writable by the owner only. A socket file that no process listens at
    /// any more is replaced; one in use, or a file of another kind, is an error.
    pub fn bind(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |error: io::Error| Error::io(format!("listen at {}", path.display()), error);
        if let Ok(meta) = fs::symlink_metadata(path) {
            if meta.file_type().is_socket() && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
                fs::remove_file(path).map_err(failed)?;
            }
        }
        let listen = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            // Before `bind`, which gives the file the socket's mode: at no time can another user connect.
            rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
            rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
            rustix::net::listen(&socket, 16)?;
            Ok(socket)
        };
        let socket = UnixListener::from(listen().map_err(|errno| failed(errno.into()))?);
        let meta = fs::symlink_metadata(path).map_err(failed)?;
        let listener = Listener { socket, path: path.to_owned(), file: (meta.dev(), meta.ino()) };
        Self::new(Some(listener), None)
    }

    /// Serves one client over a socket that is connected already.
    pub fn from_stream(socket: UnixStream) -> Result<Self, Error> {
        Self::new(None, Some(Session::new(socket)))
    }

    fn new(listener: Option<Listener>, session: Option<Session>) -> Result<Self, Error> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Server {
            listener,
            session,
            stop: Arc::new(eventfd(0, flags).map_err(|errno| Error::io("eventfd", errno))?),
            message_timeout: MESSAGE_TIMEOUT,
        })
    }

    /// Bounds the wait for the rest of a message that has begun, and for room for an answer. 10 s at first.
    pub fn set_message_timeout(&mut self, timeout: Duration) {
        self.message_timeout = timeout;
    }

    /// Something to stop this server with.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Is a client connected?
    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// Serves clients, one after the other, until [`Stopper::stop`]. With [`Server::from_stream`]: until the client hangs up.
    pub fn run(&mut self, device: &mut dyn Device) -> Result<(), Error> {
        loop {
            match self.step(device, Duration::MAX)? {
                Step::Stopped => return Ok(()),
                Step::Disconnected if self.listener.is_none() => return Ok(()),
                _ => {}
            }
        }
    }

    /// Accepts a client or deals with at most one message, waiting at most `wait` for it to begin. Errors are those of the listening
    /// socket; what a client does wrong ends its session at most.
    pub fn step(&mut self, device: &mut dyn Device, wait: Duration) -> Result<Step, Error> {
        if let Some(step) = self.attempt(device)? {
            return Ok(step);
        }
        if wait.is_zero() {
            return Ok(if self.wait(wait)? == Woken::Stopped { Step::Stopped } else { Step::Idle });
        }
        match self.wait(wait)? {
            Woken::Stopped => Ok(Step::Stopped),
            Woken::Not => Ok(Step::Idle),
            Woken::Readable => Ok(self.attempt(device)?.unwrap_or(Step::Idle)),
        }
    }

    /// What can be done without waiting.
    fn attempt(&mut self, device: &mut dyn Device) -> Result<Option<Step>, Error> {
        let Some(session) = &mut self.session else {
            return self.accept();
        };
        match session.serve(device, self.message_timeout) {
            Ok(served) => return Ok(served.then_some(Step::Served)),
            Err(Error::Disconnected) => tracing::debug!("the client hung up"),
            Err(error) => tracing::warn!("session ended: {error}"),
        }
        self.session = None;
        device.disconnected();
        Ok(Some(Step::Disconnected))
    }

    fn accept(&mut self) -> Result<Option<Step>, Error> {
        let Some(listener) = &self.listener else { return Ok(None) };
        match listener.socket.accept() {
            Ok((socket, _)) => {
                self.session = Some(Session::new(socket));
                Ok(Some(Step::Connected))
            }
            Err(error) => match error.kind() {
                // A client that left the queue again is none.
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(Error::io("accept", error)),
            },
        }
    }

    fn wait(&self, wait: Duration) -> Result<Woken, Error> {
        use std::os::fd::AsFd;
        let active: Option<BorrowedFd<'_>> = match (&self.session, &self.listener) {
            (Some(session), _) => Some(session.stream.as_fd()),
            (None, Some(listener)) => Some(listener.socket.as_fd()),
            (None, None) => None,
        };
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        fds.extend(active.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&timespec(wait))) {
            Ok(_) if !fds[0].revents().is_empty() => Ok(Woken::Stopped),
            Ok(0) | Err(Errno::INTR) => Ok(Woken::Not),
            Ok(_) => Ok(Woken::Readable),
            Err(errno) => Err(Error::io("poll", errno)),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Woken {
    Stopped,
    Readable,
    Not,
}

impl Session {
    fn new(socket: UnixStream) -> Self {
        Session { stream: Stream::new(socket), agreed: false }
    }

    /// Deals with one message, if one has begun. An error ends the session.
    fn serve(&mut self, device: &mut dyn Device, bound: Duration) -> Result<bool, Error> {
        let Some(message) = self.stream.receive(bound)? else {
            return Ok(false);
        };
        let header = message.header;
        if !header.is_request() {
            tracing::warn!("an answer to nothing: {header:?}");
            return Ok(true);
        }
        let before = self.agreed;
        let answer = self.answer(device, message);
        if let Err(errno) = answer {
            tracing::debug!("command {} refused: {errno}", header.command);
        }
        if !header.no_reply() {
            match &answer {
                Ok(body) => self.stream.send(header.reply(body.len()), body, &[], bound)?,
                Err(errno) => self.stream.send(header.error_reply(*errno), &[], &[], bound)?,
            }
        }
        if !before && !self.agreed {
            return Err(Error::Protocol(format!("no agreement on the version: {header:?}")));
        }
        Ok(true)
    }

    /// The body of the answer.
    fn answer(&mut self, device: &mut dyn Device, message: Message) -> Result<Vec<u8>, Errno> {
        if let Some(errno) = message.trouble {
            return Err(errno);
        }
        let request = Request::decode(message.header.command, &message.body)?;
        if let Request::Version(theirs) = request {
            return self.agree(&message.header, theirs);
        }
        if !self.agreed {
            return Err(Errno::PROTO);
        }
        match request {
            Request::Version(_) => unreachable!("answered above"),
            Request::DmaMap(map) => {
                let mut fds = message.fds.into_iter();
                let memory = fds.next();
                if fds.next().is_some() {
                    return Err(Errno::INVAL);
                }
                device.dma_map(map, memory)?;
                Ok(Vec::new())
            }
            Request::DmaUnmap(unmap) => {
                device.dma_unmap(unmap.clamped())?;
                Ok(request.encode())
            }
            Request::DeviceInfo => Ok(device.info().encode()),
            Request::RegionInfo { index } => Ok(region(device, index)?.encode()),
            Request::IrqInfo { index } => Ok(irq(device, index)?.encode()),
            Request::SetIrqs(set) => {
                device.set_irqs(irq_set(device, set, message.fds)?)?;
                Ok(Vec::new())
            }
            Request::RegionRead(access) => {
                check(device, &access, RegionFlags::READ)?;
                let mut data = vec![0; access.count as usize];
                device.region_read(access.region, access.offset, &mut data)?;
                Ok(access.encode(&data))
            }
            Request::RegionWrite(access, data) => {
                check(device, &access, RegionFlags::WRITE)?;
                device.region_write(access.region, access.offset, data)?;
                Ok(access.encode(&[]))
            }
            Request::Reset => {
                if !device.info().flags.contains(DeviceFlags::RESET) {
                    return Err(Errno::NOTSUP);
                }
                device.reset()?;
                Ok(Vec::new())
            }
        }
    }

    /// Major version must be ours, the smaller minor one counts, and only what the client named is named back.
    fn agree(&mut self, header: &Header, theirs: Version) -> Result<Vec<u8>, Errno> {
        if self.agreed || header.no_reply() {
            return Err(Errno::INVAL);
        }
        if theirs.major != VERSION.0 {
            return Err(Errno::PROTONOSUPPORT);
        }
        let mut ours = theirs;
        ours.minor = theirs.minor.min(VERSION.1);
        ours.capabilities.max_msg_fds = theirs.capabilities.max_msg_fds.map(|_| MAX_MSG_FDS as u64);
        ours.capabilities.max_data_xfer_size = theirs.capabilities.max_data_xfer_size.map(|_| MAX_DATA_XFER as u64);
        self.agreed = true;
        Ok(ours.encode())
    }
}

fn region(device: &dyn Device, index: u32) -> Result<RegionInfo, Errno> {
    if index >= device.info().regions {
        return Err(Errno::INVAL);
    }
    Ok(device.region_info(index))
}

fn irq(device: &dyn Device, index: u32) -> Result<IrqInfo, Errno> {
    if index >= device.info().irqs {
        return Err(Errno::INVAL);
    }
    Ok(device.irq_info(index))
}

fn check(device: &dyn Device, access: &Access, needed: RegionFlags) -> Result<(), Errno> {
    let info = region(device, access.region)?;
    match access.offset.checked_add(access.count.into()) {
        Some(end) if end <= info.size && info.flags.contains(needed) => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

fn irq_set(device: &dyn Device, set: SetIrqs, fds: Vec<OwnedFd>) -> Result<IrqSet, Errno> {
    let info = irq(device, set.index)?;
    if set.start.checked_add(set.count).is_none_or(|end| end > info.count) {
        return Err(Errno::INVAL);
    }
    let data = match set.payload {
        IrqPayload::None => IrqData::None,
        IrqPayload::Bool(bools) => IrqData::Bool(bools),
        IrqPayload::EventFd if fds.is_empty() || (fds.len() == set.count as usize && fds.len() <= MAX_MSG_FDS) => IrqData::EventFd(fds),
        IrqPayload::EventFd => return Err(Errno::INVAL),
    };
    Ok(IrqSet { index: set.index, start: set.start, count: set.count, action: set.action, data })
}
