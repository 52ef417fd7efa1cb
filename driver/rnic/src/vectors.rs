// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt vectors as eventfds: what the kernel's vfio and a vfio-user socket have in common.
use crate::bus::BusError;
use ironwarp_abi::VECTORS;
use rustix::{
    event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// One eventfd a vector.
pub(crate) struct Vectors(Vec<OwnedFd>);

impl Vectors {
    pub(crate) fn new() -> Result<Self, BusError> {
        let fds = (0..VECTORS).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)).collect::<Result<Vec<_>, _>>();
        fds.map(Vectors).map_err(|e| BusError::Io { what: "eventfd".into(), source: e.into() })
    }
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd).collect()
    }
    pub(crate) fn fd(&self, vector: u32) -> Option<BorrowedFd<'_>> {
        self.0.get(vector as usize).map(AsFd::as_fd)
    }
    /// As [`crate::Bus::wait`].
    pub(crate) fn wait(&self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        let chosen: Vec<(u32, &OwnedFd)> = (0u32..).zip(&self.0).filter(|(n, _)| vectors >> n & 1 == 1).collect();
        let deadline = Instant::now() + timeout;
        let mut fds: Vec<_> = chosen.iter().map(|(_, fd)| PollFd::new(*fd, PollFlags::IN)).collect();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut fds, Some(&left)) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(e) => return Err(BusError::Io { what: "poll of interrupt eventfds".into(), source: e.into() }),
            }
        }
        let mut raised = 0;
        for ((vector, fd), polled) in chosen.iter().zip(&fds) {
            // reading clears it; nothing to read means that somebody else did
            if polled.revents().contains(PollFlags::IN) && rustix::io::read(fd, &mut [0u8; 8]).is_ok() {
                raised |= 1 << vector;
            }
        }
        Ok(raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raised_vector_is_seen_once_and_only_by_those_who_asked() {
        let vectors = Vectors::new().unwrap();
        let raise = |n: usize| rustix::io::write(&vectors.0[n], &1u64.to_ne_bytes()).unwrap();
        raise(1);
        raise(1);
        raise(3);
        assert_eq!(vectors.wait(0b0101, Duration::ZERO).unwrap(), 0);
        assert_eq!(vectors.wait(0b0011, Duration::from_secs(5)).unwrap(), 0b0010);
        assert_eq!(vectors.wait(0b1111, Duration::ZERO).unwrap(), 0b1000);
        assert_eq!(vectors.wait(0b1111, Duration::from_millis(1)).unwrap(), 0);
    }

    #[test]
    fn a_wait_without_vectors_is_a_pause() {
        let start = Instant::now();
        assert_eq!(Vectors::new().unwrap().wait(0, Duration::from_millis(20)).unwrap(), 0);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
