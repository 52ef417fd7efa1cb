// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that runs the model: takes register accesses and resets from the sockets' threads, hands out interrupts, keeps the pace.
use super::{
    pace::{timed, Next, Pacer},
    vectors::Vectors,
};
use crate::{
    adapter::Mmio,
    world::{AdapterId, NoAnswer, World, MMIO_BOUND},
};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};

/// Cycles without anything at the ports after which there is no work.
const QUIET: u64 = 1000;

/// Where the answer to a read goes.
pub type Reply = SyncSender<Result<u32, NoAnswer>>;

/// What a socket's thread asks for.
pub enum Job {
    /// A register access; a read is answered.
    Access(Mmio, Option<Reply>),
    /// Reset of the adapter.
    Reset(SyncSender<()>),
}

/// To the engine.
pub enum Message {
    /// For an adapter.
    Job(AdapterId, Job),
    /// End.
    Stop,
}

/// What the engine says of itself.
#[derive(Default)]
pub struct Progress {
    /// Cycles run.
    pub cycles: AtomicU64,
    /// Nanoseconds it took to run them.
    pub nanoseconds: AtomicU64,
    /// Rules of the ports that a core broke.
    pub violations: AtomicU64,
}

struct Client {
    jobs: VecDeque<Job>,
    /// The access that the adapter carries out, and since which cycle.
    active: Option<(Mmio, Option<Reply>, u64)>,
    /// Who waits for the end of a reset.
    resetting: Option<SyncSender<()>>,
    vectors: Arc<Mutex<Vectors>>,
}

/// See the module.
pub struct Engine {
    world: World,
    messages: Receiver<Message>,
    wake: Arc<OwnedFd>,
    clients: Vec<Client>,
    pacer: Pacer,
    progress: Arc<Progress>,
    /// A frame from outside waits at a wire.
    knocked: bool,
}

impl Engine {
    /// `vectors`: by adapter. `wake` becomes readable when there is a message.
    pub fn new(
        world: World,
        messages: Receiver<Message>,
        wake: Arc<OwnedFd>,
        vectors: Vec<Arc<Mutex<Vectors>>>,
        rate: Option<u32>,
        progress: Arc<Progress>,
    ) -> Self {
        let pacer = Pacer::new(rate, world.cycle());
        let clients = vectors.into_iter().map(|vectors| Client { jobs: VecDeque::new(), active: None, resetting: None, vectors }).collect();
        Engine { world, messages, wake, clients, pacer, progress, knocked: false }
    }
    /// Until it is told to stop; gives the world back.
    pub fn run(mut self) -> World {
        let start = Instant::now();
        while self.take_messages() {
            let jobs = self.clients.iter().any(|c| c.active.is_some() || c.resetting.is_some() || !c.jobs.is_empty());
            let work = std::mem::take(&mut self.knocked) || jobs || !self.world.quiet(QUIET);
            match self.pacer.next(start.elapsed(), self.world.cycle(), work) {
                Next::Run(cycles) => {
                    let ((), time) = timed(|| (0..cycles).for_each(|_| self.clock()));
                    self.progress.cycles.fetch_add(cycles, Ordering::Relaxed);
                    self.progress.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
                }
                Next::Sleep(time) => self.sleep(time, work),
            }
        }
        self.world.rest();
        self.world
    }
    /// False when it is time to stop.
    fn take_messages(&mut self) -> bool {
        loop {
            match self.messages.try_recv() {
                Ok(Message::Job(id, job)) => {
                    if let Some(client) = self.clients.get_mut(id) {
                        client.jobs.push_back(job);
                    }
                }
                Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }
    fn clock(&mut self) {
        for (id, client) in self.clients.iter_mut().enumerate() {
            if client.active.is_none() && client.resetting.is_none() && !client.jobs.is_empty() {
                client.start(id, &mut self.world);
            }
        }
        self.world.step();
        for (id, client) in self.clients.iter_mut().enumerate() {
            client.finish(id, &mut self.world);
        }
    }
    /// With `work` it sleeps because it is ahead of the wall: then a frame from outside is no reason to wake.
    fn sleep(&mut self, time: Duration, work: bool) {
        self.world.rest();
        let violations = self.world.adapters().iter().map(|a| a.monitor().total()).sum();
        self.progress.violations.store(violations, Ordering::Relaxed);
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if !work {
            fds.extend(self.world.wakes().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "poll"),
        }
        self.knocked = fds[1..].iter().any(|fd| !fd.revents().is_empty());
        // not blocking: takes the count back to 0, if there is one
        let _ = rustix::io::read(&*self.wake, &mut [0_u8; 8]);
    }
}

impl Client {
    fn start(&mut self, id: AdapterId, world: &mut World) {
        match self.jobs.pop_front() {
            Some(Job::Access(mmio, reply)) => {
                if world.adapter_mut(id).begin(mmio) {
                    self.active = Some((mmio, reply, world.cycle()));
                } else {
                    self.jobs.push_front(Job::Access(mmio, reply));
                }
            }
            Some(Job::Reset(reply)) => {
                world.adapter_mut(id).flr();
                self.vectors.lock().unwrap_or_else(PoisonError::into_inner).reset();
                self.resetting = Some(reply);
            }
            None => {}
        }
    }
    fn finish(&mut self, id: AdapterId, world: &mut World) {
        let adapter = world.adapter_mut(id);
        let raised = adapter.take_raised(!0);
        if raised != 0 {
            let mut vectors = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
            (0..ironwarp_abi::VECTORS).filter(|v| raised >> v & 1 != 0).for_each(|v| vectors.raise(v));
        }
        if let Some(reply) = self.resetting.take_if(|_| !adapter.in_flr()) {
            // a socket that gave up waiting is no trouble
            let _ = reply.try_send(());
        }
        let Some((mmio, _, since)) = &self.active else { return };
        let answer = match adapter.finish() {
            Some(value) => Ok(value),
            None if adapter.cycle() - since < MMIO_BOUND => return,
            None => {
                adapter.abandon();
                let answer = NoAnswer(*mmio);
                tracing::error!(adapter = adapter.name(), error = %answer);
                Err(answer)
            }
        };
        if let Some((_, Some(reply), _)) = self.active.take() {
            let _ = reply.try_send(answer);
        }
    }
}
