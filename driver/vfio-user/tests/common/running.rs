// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with the recording device in a thread of its own, and what its clients share with it.
use crate::common::Recorder;
use ironwarp_vfio_user::{Client, Errno, Error, Server, Stopper};
use std::{
    fs::File,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    thread::JoinHandle,
    time::Duration,
};

/// Bound of waits that should not happen.
pub const SOON: Duration = Duration::from_secs(10);

/// A server in a thread of its own, at a socket in a directory of its own.
pub struct Running {
    pub path: PathBuf,
    stopper: Stopper,
    thread: JoinHandle<Recorder>,
    _directory: tempfile::TempDir,
}

impl Running {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("device.sock");
        let mut server = Server::bind(&path).expect("bind");
        server.set_message_timeout(Duration::from_secs(1));
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || {
            let mut device = Recorder::default();
            server.run(&mut device).expect("the listening socket works");
            device
        });
        Running { path, stopper, thread, _directory: directory }
    }
    pub fn client(&self) -> Client {
        self.try_client(SOON).expect("client")
    }
    pub fn try_client(&self, timeout: Duration) -> Result<Client, Error> {
        Client::connect(&self.path, timeout)
    }
    pub fn raw(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.path).expect("connect");
        socket.set_read_timeout(Some(SOON)).expect("time-out");
        socket
    }
    /// Ends the server; what the device saw.
    pub fn stop(self) -> Recorder {
        self.stopper.stop();
        self.thread.join().expect("the server thread did not panic")
    }
}

/// How often it was raised; takes that away.
pub fn raised(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(errno) => {
            assert_eq!(errno, Errno::AGAIN);
            0
        }
    }
}

/// Shared memory.
pub fn memory(len: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd"));
    file.set_len(len).expect("size");
    file
}
