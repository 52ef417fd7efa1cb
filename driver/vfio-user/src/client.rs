// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's side: one request at a time, each with its answer or an error within the time-out.
use crate::{
    message::{Access, Capabilities, Header, IrqPayload, Request, SetIrqs, Version, ACCESS, VERSION},
    stream::{Deadline, Message, Stream},
    DeviceInfo, DmaFlags, DmaMap, DmaUnmap, Errno, Error, IrqAction, IrqInfo, RegionInfo, MAX_DATA_XFER, MAX_MSG_FDS,
};
use std::{
    collections::HashSet,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

/// A connection to a device.
pub struct Client {
    stream: Stream,
    timeout: Duration,
    next_id: u16,
    /// Requests that were given up; their answers are thrown away when they come.
    abandoned: HashSet<u16>,
    /// An answer broke off or made no sense: nothing that follows can be trusted.
    broken: bool,
    info: DeviceInfo,
    max_fds: usize,
    max_data: usize,
}

impl Client {
    /// Connects to a server's socket and agrees on the version. `timeout` bounds this and every later wait. A server that is busy with
    /// another client looks like one that does not answer.
    pub fn connect(path: impl AsRef<Path>, timeout: Duration) -> Result<Self, Error> {
        let path = path.as_ref();
        let socket = UnixStream::connect(path).map_err(|error| Error::io(format!("connect to {}", path.display()), error))?;
        Self::from_stream(socket, timeout)
    }

    /// The same over a socket that is connected already.
    pub fn from_stream(socket: UnixStream, timeout: Duration) -> Result<Self, Error> {
        let mut client = Client {
            stream: Stream::new(socket),
            timeout,
            next_id: 0,
            abandoned: HashSet::new(),
            broken: false,
            info: DeviceInfo { flags: crate::DeviceFlags::empty(), regions: 0, irqs: 0 },
            max_fds: 1,
            max_data: MAX_DATA_XFER,
        };
        let ours = Version {
            major: VERSION.0,
            minor: VERSION.1,
            capabilities: Capabilities { max_msg_fds: Some(MAX_MSG_FDS as u64), max_data_xfer_size: Some(MAX_DATA_XFER as u64) },
        };
        let theirs = client.ask(&Request::Version(ours), &[], Version::decode)?;
        if theirs.major != VERSION.0 || theirs.minor > VERSION.1 {
            let text = format!("the device speaks version {}.{}", theirs.major, theirs.minor);
            return Err(Error::Protocol(text));
        }
        let agreed = |theirs: Option<u64>, default: usize, limit: usize| theirs.map_or(default, |n| n.min(limit as u64) as usize);
        client.max_fds = agreed(theirs.capabilities.max_msg_fds, 1, MAX_MSG_FDS);
        client.max_data = agreed(theirs.capabilities.max_data_xfer_size, MAX_DATA_XFER, MAX_DATA_XFER);
        client.info = client.ask(&Request::DeviceInfo, &[], DeviceInfo::decode)?;
        Ok(client)
    }

    /// Bounds every later wait.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The bound of every wait.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What the device said of itself.
    pub fn info(&self) -> DeviceInfo {
        self.info
    }

    /// Asks what region `index` is.
    pub fn region_info(&mut self, index: u32) -> Result<RegionInfo, Error> {
        self.ask(&Request::RegionInfo { index }, &[], RegionInfo::decode)
    }

    /// Asks what interrupt kind `index` is.
    pub fn irq_info(&mut self, index: u32) -> Result<IrqInfo, Error> {
        self.ask(&Request::IrqInfo { index }, &[], IrqInfo::decode)
    }

    /// Reads `data.len()` octets at `offset` of `region`; at most 1 MiB.
    pub fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        let access = self.access(region, offset, data.len())?;
        self.ask(&Request::RegionRead(access), &[], |body| {
            // A shorter read than asked for would leave the caller with octets that are not the device's.
            let read = body.get(ACCESS..ACCESS + data.len()).ok_or(Errno::INVAL)?;
            data.copy_from_slice(read);
            Ok(())
        })
    }

    /// Writes `data` at `offset` of `region`, at most 1 MiB, and waits until the device has it.
    pub fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Error> {
        let access = self.access(region, offset, data.len())?;
        self.ask(&Request::RegionWrite(access, data), &[], |_| Ok(()))
    }

    /// Writes as [`Client::region_write`] but does not wait: the device carries it out before any later request, and nobody
    /// learns of an error.
    pub fn region_write_posted(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Error> {
        let access = self.access(region, offset, data.len())?;
        self.post(&Request::RegionWrite(access, data), &[], true).map(|_| ())
    }

    /// Opens the DMA window `address..address + size`. `memory` is a file and where in it the window begins; without it the device
    /// knows of the window but cannot reach it.
    pub fn dma_map(&mut self, address: u64, size: u64, flags: DmaFlags, memory: Option<(BorrowedFd<'_>, u64)>) -> Result<(), Error> {
        let map = DmaMap { flags, offset: memory.map_or(0, |(_, offset)| offset), address, size };
        let fds: Vec<_> = memory.map(|(fd, _)| fd).into_iter().collect();
        self.ask(&Request::DmaMap(map), &fds, |_| Ok(()))
    }

    /// Closes the DMA windows in `address..address + size`. On return the device no longer reaches them.
    pub fn dma_unmap(&mut self, address: u64, size: u64) -> Result<(), Error> {
        let unmap = DmaUnmap { all: false, address, size };
        self.ask(&Request::DmaUnmap(unmap), &[], |_| Ok(()))
    }

    /// Connects vectors `start..` of interrupt kind `index` to eventfds, one each, in as many messages as the device needs.
    pub fn set_irq_eventfds(&mut self, index: u32, start: u32, eventfds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut next = start;
        for fds in eventfds.chunks(self.max_fds.max(1)) {
            let set = SetIrqs { index, start: next, count: fds.len() as u32, action: IrqAction::Trigger, payload: IrqPayload::EventFd };
            self.ask(&Request::SetIrqs(set), fds, |_| Ok(()))?;
            next = next.saturating_add(fds.len() as u32);
        }
        Ok(())
    }

    /// Disconnects all vectors of interrupt kind `index`.
    pub fn disable_irqs(&mut self, index: u32) -> Result<(), Error> {
        let set = SetIrqs { index, start: 0, count: 0, action: IrqAction::Trigger, payload: IrqPayload::None };
        self.ask(&Request::SetIrqs(set), &[], |_| Ok(()))
    }

    /// Resets the device.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.ask(&Request::Reset, &[], |_| Ok(()))
    }

    fn access(&self, region: u32, offset: u64, len: usize) -> Result<Access, Error> {
        if len > self.max_data {
            return Err(Error::Invalid("more octets in one region access than the device takes"));
        }
        Ok(Access { offset, region, count: len as u32 })
    }

    /// Sends a request; returns its id.
    fn post(&mut self, request: &Request<'_>, fds: &[BorrowedFd<'_>], no_reply: bool) -> Result<u16, Error> {
        if self.broken {
            return Err(Error::Disconnected);
        }
        // With 2^16 ids and every answer taken or abandoned, an id comes back only if 65536 requests were given up.
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let body = request.encode();
        let header = Header::request(id, request.command(), body.len(), no_reply);
        let sent = self.stream.send(header, &body, fds, self.timeout);
        self.broken = sent.is_err(); // part of it may be on its way
        sent.map(|()| id)
    }

    /// Sends a request and waits for its answer.
    fn ask<T>(&mut self, request: &Request<'_>, fds: &[BorrowedFd<'_>], read: impl FnOnce(&[u8]) -> Result<T, Errno>) -> Result<T, Error> {
        let what = request.name();
        let id = self.post(request, fds, false)?;
        let deadline = Deadline::after(what, self.timeout);
        loop {
            let Some(message) = self.receive()? else {
                match self.stream.wait_readable(&deadline) {
                    Ok(()) => continue,
                    Err(error) => {
                        self.abandoned.insert(id);
                        return Err(error);
                    }
                }
            };
            let header = message.header;
            if header.is_request() {
                // DMA_READ and the like: never needed, as every window comes with its memory.
                if !header.no_reply() {
                    self.stream.send(header.error_reply(Errno::NOTSUP), &[], &[], self.timeout)?;
                }
            } else if self.abandoned.remove(&header.id) {
                tracing::debug!("late answer to request {} thrown away", header.id);
            } else if header.id != id || header.command != request.command() || !header.is_reply() {
                self.broken = true;
                return Err(Error::Protocol(format!("{what} was answered with {header:?}")));
            } else if let Some(errno) = header.failure() {
                return Err(Error::Refused { what, errno });
            } else {
                let answer = match message.trouble {
                    None => read(&message.body),
                    Some(errno) => Err(errno),
                };
                return answer.map_err(|_| Error::Protocol(format!("the answer to {what} cannot be read")));
            }
            deadline.left().inspect_err(|_| {
                self.abandoned.insert(id);
            })?;
        }
    }

    fn receive(&mut self) -> Result<Option<Message>, Error> {
        let received = self.stream.receive(self.timeout);
        self.broken |= received.is_err();
        received
    }
}
