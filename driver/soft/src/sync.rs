// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks that a panic of another thread does not take away, and a wake-up that `poll` can wait for.
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Locks.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longest wait for anything; then the reason to wait is looked at again.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// An eventfd.
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Wake(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }
    pub(crate) fn set(&self) {
        // full means that it is set
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
    /// Was it set?
    pub(crate) fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of the files is ready or `until` is there: which are ready.
pub(crate) fn wait(files: &[(BorrowedFd<'_>, PollFlags)], until: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = files.iter().map(|&(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    let time = until.map_or(LONGEST, |until| until.saturating_duration_since(Instant::now()).min(LONGEST));
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|file| !file.revents().is_empty()).collect())
}
