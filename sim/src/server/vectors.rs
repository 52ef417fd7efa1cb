// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSI-X vectors as eventfds. A vector that is raised while it is masked or has no eventfd stays pending and is raised when it can be.
use ironwarp_abi::VECTORS;
use ironwarp_vfio_user::{Errno, IrqAction, IrqData, IrqSet};
use std::os::fd::{AsRawFd, OwnedFd};

/// See the module. Shared by the socket's thread and the model's.
#[derive(Default)]
pub struct Vectors {
    eventfds: [Option<OwnedFd>; VECTORS],
    pending: u32,
    masked: u32,
}

/// Only an eventfd is sure to take a write without blocking the model.
fn is_eventfd(fd: &OwnedFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}

impl Vectors {
    /// Raises `vector`.
    pub fn raise(&mut self, vector: usize) {
        let bit = 1 << vector;
        self.pending |= bit;
        self.replay(bit);
    }
    /// Raises those of `vectors` that are pending and can be.
    fn replay(&mut self, vectors: u32) {
        for (vector, eventfd) in self.eventfds.iter().enumerate() {
            let bit = 1 << vector;
            if let (Some(eventfd), true) = (eventfd, self.pending & vectors & !self.masked & bit != 0) {
                match rustix::io::write(eventfd, &1_u64.to_ne_bytes()) {
                    Ok(_) => self.pending &= !bit,
                    Err(error) => tracing::warn!(vector, %error, "an eventfd took no event"),
                }
            }
        }
    }
    /// Pending bits, as the PBA shows them.
    pub fn pending(&self) -> u32 {
        self.pending
    }
    /// SET_IRQS for MSI-X; its range has been checked.
    pub fn set(&mut self, set: IrqSet) -> Result<(), Errno> {
        let range = set.start as usize..(set.start + set.count) as usize;
        let bits = range.clone().fold(0_u32, |bits, vector| bits | 1 << vector);
        let chosen = match &set.data {
            IrqData::None => bits,
            IrqData::Bool(on) => range.clone().zip(on).filter(|(_, on)| **on).fold(0, |bits, (vector, _)| bits | 1 << vector),
            IrqData::EventFd(_) => 0,
        };
        match (set.action, set.data) {
            (IrqAction::Trigger, IrqData::EventFd(eventfds)) => {
                if !eventfds.iter().all(is_eventfd) {
                    return Err(Errno::INVAL);
                }
                let mut eventfds = eventfds.into_iter();
                for vector in range {
                    self.eventfds[vector] = eventfds.next();
                }
                self.replay(bits);
            }
            (IrqAction::Trigger, IrqData::None) if set.count == 0 => self.disconnect(),
            (IrqAction::Trigger, _) => (0..VECTORS).filter(|vector| chosen >> vector & 1 != 0).for_each(|vector| self.raise(vector)),
            (IrqAction::Mask, IrqData::None | IrqData::Bool(_)) => self.masked |= chosen,
            (IrqAction::Unmask, IrqData::None | IrqData::Bool(_)) => {
                self.masked &= !chosen;
                self.replay(chosen);
            }
            (IrqAction::Mask | IrqAction::Unmask, IrqData::EventFd(_)) => return Err(Errno::NOTSUP),
        }
        Ok(())
    }
    /// Drops every eventfd and mask; what is pending stays so.
    fn disconnect(&mut self) {
        self.eventfds = Default::default();
        self.masked = 0;
    }
    /// A reset of the device: nothing is pending any more. Eventfds belong to the client and stay.
    pub fn reset(&mut self) {
        self.pending = 0;
        self.masked = 0;
    }
    /// The client is gone.
    pub fn clear(&mut self) {
        self.disconnect();
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironwarp_vfio_user::irq;
    use rustix::event::{eventfd, EventfdFlags};

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).expect("eventfd")
    }
    fn count(fd: &OwnedFd) -> u64 {
        let mut value = [0; 8];
        rustix::io::read(fd, &mut value).map_or(0, |_| u64::from_ne_bytes(value))
    }
    fn set(start: u32, count: u32, action: IrqAction, data: IrqData) -> IrqSet {
        IrqSet { index: irq::MSIX, start, count, action, data }
    }
    fn connect(vectors: &mut Vectors, at: u32, fd: &OwnedFd) {
        let eventfds = IrqData::EventFd(vec![fd.try_clone().expect("dup")]);
        vectors.set(set(at, 1, IrqAction::Trigger, eventfds)).expect("connected");
    }

    #[test]
    fn what_was_raised_without_an_eventfd_is_replayed_when_it_comes() {
        let (mut vectors, fd) = (Vectors::default(), event());
        vectors.raise(2);
        vectors.raise(2);
        assert_eq!(vectors.pending(), 0b100);
        connect(&mut vectors, 1, &fd);
        assert_eq!(count(&fd), 0, "another vector");
        connect(&mut vectors, 2, &fd);
        assert_eq!((count(&fd), vectors.pending()), (1, 0));
        vectors.raise(2);
        assert_eq!(count(&fd), 1);
        vectors.set(set(0, 0, IrqAction::Trigger, IrqData::None)).expect("all off");
        vectors.raise(2);
        assert_eq!((count(&fd), vectors.pending()), (0, 0b100));
    }

    #[test]
    fn masking_holds_back_and_a_client_can_raise() {
        let (mut vectors, fd) = (Vectors::default(), event());
        connect(&mut vectors, 0, &fd);
        vectors.set(set(0, 4, IrqAction::Mask, IrqData::Bool(vec![true, false, false, false]))).expect("masked");
        vectors.raise(0);
        assert_eq!(count(&fd), 0);
        vectors.set(set(0, 4, IrqAction::Unmask, IrqData::None)).expect("unmasked");
        assert_eq!(count(&fd), 1);
        vectors.set(set(0, 1, IrqAction::Trigger, IrqData::None)).expect("raised");
        assert_eq!(count(&fd), 1);
    }

    #[test]
    fn only_eventfds_are_taken() {
        let file = tempfile::tempfile().expect("file").into();
        let refused = Vectors::default().set(set(0, 1, IrqAction::Trigger, IrqData::EventFd(vec![file])));
        assert_eq!(refused, Err(Errno::INVAL));
    }
}
