// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two adapters back to back.
use super::{Frame, SentFrame, Wire};
use std::collections::VecDeque;

/// A cable between two adapters, both directions independent. A frame arrives as a whole, `delay` cycles after the clock in which
/// its last beat left the sender.
pub struct Link {
    delay: u64,
    /// By receiving end: cycle of arrival and frame.
    flying: [VecDeque<(u64, Frame)>; 2],
}

impl Link {
    /// `delay`: cycles; 0 is a cable without length.
    pub fn new(delay: u64) -> Self {
        Link { delay, flying: Default::default() }
    }
}

impl Wire for Link {
    fn ends(&self) -> usize {
        2
    }
    fn send(&mut self, end: usize, sent: SentFrame) {
        self.flying[1 - end].push_back((sent.last + self.delay, sent.frame));
    }
    fn receive(&mut self, end: usize, now: u64) -> Option<Frame> {
        let due = self.flying[end].front().is_some_and(|(due, _)| *due <= now);
        due.then(|| self.flying[end].pop_front()).flatten().map(|(_, frame)| frame)
    }
    fn idle(&self) -> bool {
        self.flying.iter().all(VecDeque::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_arrives_at_the_other_end_after_the_delay() {
        let mut link = Link::new(5);
        let frame = Frame::good(vec![1, 2, 3]);
        link.send(0, SentFrame { frame: frame.clone(), first: 90, last: 100, end: 103 });
        assert!(!link.idle());
        assert_eq!(link.receive(1, 104), None);
        assert_eq!(link.receive(0, 200), None, "not at the end that sent it");
        assert_eq!(link.receive(1, 105), Some(frame));
        assert!(link.idle());
    }
}
