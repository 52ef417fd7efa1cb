// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test at the other end of the cable.
use super::{Frame, SentFrame, Wire};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

#[derive(Default)]
struct Shared {
    to_adapter: VecDeque<(u64, Frame)>,
    from_adapter: VecDeque<SentFrame>,
}

/// The wire's side; attach it to an adapter.
pub struct Queue(Arc<Mutex<Shared>>);

/// The test's side.
#[derive(Clone)]
pub struct QueueHandle(Arc<Mutex<Shared>>);

impl Queue {
    /// A new wire and the handle to it.
    pub fn new() -> (Queue, QueueHandle) {
        let shared = Arc::<Mutex<Shared>>::default();
        (Queue(shared.clone()), QueueHandle(shared))
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(|e| e.into_inner())
}

impl QueueHandle {
    /// Sends a good frame to the adapter, as it is: nothing is padded.
    pub fn send(&self, octets: impl Into<Vec<u8>>) {
        self.send_at(0, Frame::good(octets.into()));
    }
    /// Sends a frame that arrives damaged.
    pub fn send_damaged(&self, octets: impl Into<Vec<u8>>) {
        self.send_at(0, Frame { octets: octets.into(), error: true });
    }
    /// Sends a frame not before `cycle`. Frames stay in order.
    pub fn send_at(&self, cycle: u64, frame: Frame) {
        lock(&self.0).to_adapter.push_back((cycle, frame));
    }
    /// The oldest frame that the adapter sent, with its cycles.
    pub fn receive(&self) -> Option<SentFrame> {
        lock(&self.0).from_adapter.pop_front()
    }
    /// All frames that the adapter sent.
    pub fn drain(&self) -> Vec<SentFrame> {
        lock(&self.0).from_adapter.drain(..).collect()
    }
    /// Frames not yet given to the adapter.
    pub fn pending(&self) -> usize {
        lock(&self.0).to_adapter.len()
    }
}

impl Wire for Queue {
    fn ends(&self) -> usize {
        1
    }
    fn send(&mut self, _end: usize, sent: SentFrame) {
        lock(&self.0).from_adapter.push_back(sent);
    }
    fn receive(&mut self, _end: usize, now: u64) -> Option<Frame> {
        let mut shared = lock(&self.0);
        let due = shared.to_adapter.front().is_some_and(|(due, _)| *due <= now);
        due.then(|| shared.to_adapter.pop_front()).flatten().map(|(_, frame)| frame)
    }
    fn idle(&self) -> bool {
        lock(&self.0).to_adapter.is_empty()
    }
}
