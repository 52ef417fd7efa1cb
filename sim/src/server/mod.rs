// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adapters behind vfio-user sockets, for a driver in another process or for QEMU.
//!
//! ```no_run
//! # fn main() -> Result<(), ironwarp_sim::server::ServerError> {
//! use ironwarp_sim::{server::{Pace, SimServer}, World};
//! // two adapters, back to back, each behind its socket
//! let server = SimServer::start(World::pair(1, 0, 0), &["/run/a.sock".as_ref(), "/run/b.sock".as_ref()], Pace::Auto)?;
//! println!("{} clocks per second", server.clocks_per_second());
//! // ... until the user has enough
//! let world = server.stop();
//! world.assert_clean();
//! # Ok(()) }
//! ```
//!
//! Threads: one a socket (`ironwarp_vfio_user::Server` with a PCI function, `function.rs`), one for the model (`engine.rs`). Register
//! accesses go to the model's thread in order, reads wait for their answer; DMA windows and eventfds are shared tables, so that
//! mapping memory never waits for the model. A client that hangs up loses its windows and eventfds, and the adapter is reset.
//!
//! The driver finds the model's clock rate in configuration space (`ironwarp_abi::pci`) and sets `TIMEBASE` by it.
mod engine;
mod function;
pub mod pace;
mod pci;
mod vectors;

pub use pace::Pace;

use crate::world::World;
use engine::{Engine, Message, Progress};
use function::{Function, Line};
use ironwarp_vfio_user::{Server, Stopper};
use rustix::event::{eventfd, EventfdFlags};
use std::{
    io,
    path::Path,
    sync::{atomic::Ordering, mpsc::sync_channel, Arc, Mutex},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

/// Messages that may wait for the model's thread; a client that posts more register writes is slowed down.
const MESSAGES: usize = 256;
/// How long the model runs to see how fast it is.
const MEASURE: Duration = Duration::from_millis(100);
/// Cycles it runs between two looks at the clock meanwhile.
const MEASURE_BATCH: u64 = 1000;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A socket cannot be made.
    #[error("{0}")]
    Socket(#[from] ironwarp_vfio_user::Error),
    /// More sockets than adapters.
    #[error("{sockets} sockets for {adapters} adapters")]
    Sockets {
        /// Sockets asked for.
        sockets: usize,
        /// Adapters there are.
        adapters: usize,
    },
    /// The system gives no thread or eventfd.
    #[error("the server cannot start: {0}")]
    Io(#[from] io::Error),
}

/// A running server; stops when dropped.
pub struct SimServer {
    line: Line,
    stoppers: Vec<Stopper>,
    sockets: Vec<JoinHandle<()>>,
    engine: Option<JoinHandle<World>>,
    progress: Arc<Progress>,
    clocks_per_second: u32,
}

/// Model cycles per second of wall time, running at full speed for a tenth of a second.
pub fn measure(world: &mut World) -> f64 {
    let (start, first) = (Instant::now(), world.cycle());
    while start.elapsed() < MEASURE {
        world.run(MEASURE_BATCH);
    }
    (world.cycle() - first) as f64 / start.elapsed().as_secs_f64()
}

impl SimServer {
    /// Serves adapter n of `world` at `sockets[n]`. Returns when the sockets can be connected to.
    pub fn start(mut world: World, sockets: &[&Path], pace: Pace) -> Result<Self, ServerError> {
        let adapters = world.adapters().len();
        if sockets.len() > adapters {
            return Err(ServerError::Sockets { sockets: sockets.len(), adapters });
        }
        let speed = measure(&mut world);
        let (rate, clocks_per_second) = match pace {
            Pace::Free => (None, speed.clamp(1.0, 1e9) as u32),
            Pace::Wall { rate } => (Some(rate), rate),
            Pace::Auto => (Some(pace::auto_rate(speed)), pace::auto_rate(speed)),
        };
        let (messages, receiver) = sync_channel(MESSAGES);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?);
        let line = Line { messages, wake: wake.clone() };
        let progress = Arc::<Progress>::default();
        let vectors: Vec<_> = (0..adapters).map(|_| Arc::<Mutex<vectors::Vectors>>::default()).collect();
        let mut server =
            SimServer { line: line.clone(), stoppers: Vec::new(), sockets: Vec::new(), engine: None, progress, clocks_per_second };
        let mut functions = Vec::new();
        for (id, path) in sockets.iter().enumerate() {
            let socket = Server::bind(path)?;
            server.stoppers.push(socket.stopper());
            let windows = world.adapter(id).dma_table().clone();
            functions.push((socket, Function::new(id, line.clone(), vectors[id].clone(), windows, clocks_per_second)));
        }
        let engine = Engine::new(world, receiver, wake, vectors, rate, server.progress.clone());
        server.engine = Some(Builder::new().name("model".into()).spawn(move || engine.run())?);
        for (id, (mut socket, mut function)) in functions.into_iter().enumerate() {
            let serve = move || {
                if let Err(error) = socket.run(&mut function) {
                    tracing::error!(adapter = id, %error, "the socket is no longer served");
                }
            };
            server.sockets.push(Builder::new().name(format!("socket {id}")).spawn(serve)?);
        }
        Ok(server)
    }
    /// What configuration space says: core clocks per second of wall time that the pace keeps ([`Pace::Free`]: the speed measured
    /// at the start).
    pub fn clocks_per_second(&self) -> u32 {
        self.clocks_per_second
    }
    /// Cycles run so far.
    pub fn cycles(&self) -> u64 {
        self.progress.cycles.load(Ordering::Relaxed)
    }
    /// Cycles per second while the model runs (time that it sleeps is not counted): what the machine can do.
    pub fn speed(&self) -> f64 {
        self.cycles() as f64 * 1e9 / self.progress.nanoseconds.load(Ordering::Relaxed).max(1) as f64
    }
    /// Rules of the ports that the cores broke, as of the last moment of rest.
    pub fn violations(&self) -> u64 {
        self.progress.violations.load(Ordering::Relaxed)
    }
    /// Ends all sessions and gives the world back.
    pub fn stop(mut self) -> World {
        match self.halt() {
            Some(Ok(world)) => world,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => unreachable!("the engine runs until here"),
        }
    }
    fn halt(&mut self) -> Option<std::thread::Result<World>> {
        self.stoppers.iter().for_each(Stopper::stop);
        for socket in self.sockets.drain(..) {
            if socket.join().is_err() {
                tracing::error!("a socket's thread panicked");
            }
        }
        // the engine may be gone already
        let _ = self.line.send(Message::Stop);
        self.engine.take().map(JoinHandle::join)
    }
}

impl Drop for SimServer {
    fn drop(&mut self) {
        if let Some(Err(_)) = self.halt() {
            tracing::error!("the model's thread panicked");
        }
    }
}
