// SPDX-License-Identifier: MIT OR Apache-2.0
//! `set-ups`: one end of connections that are made one after the other and then left alone. `bench` runs it under a tool that counts the
//! instructions of the whole process from [`begin`] to [`end`].
//!
//! It also prints the processor's time that the process used in between, for a machine on which that is the number of instructions (a QEMU guest whose
//! clock counts them: `tools/host-cost`).
//!
//! Ids, addresses, routes and queue pairs are prepared before. The first connection is not counted: with it the neighbour becomes known, and code and
//! tables are touched for the first time. So what is counted is, per connection: connect to ESTABLISHED at the client, CONNECT_REQUEST to ESTABLISHED at the server.
use crate::{
    endpoint::{EndpointArgs, Opened, PeerArgs, Queues},
    output::line,
    Failure, Outcome,
};
use ironwarp_rdmacm::{ConnParam, EventChannel, Id, Payload};
use ironwarp_verbs::QpCap;
use rustix::time::{clock_gettime, ClockId};
use std::{io::Read, net::SocketAddr, time::Duration};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    peer: PeerArgs,
    /// Connections that are counted.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..))]
    count: u16,
    /// Print the processor's time of the process for the set-ups, and then for so many seconds without any.
    #[arg(long)]
    clock: Option<u64>,
}

/// Processor's time of the process, kernel included, and the clock. Valgrind does not survive a look at the former.
#[derive(Clone, Copy)]
struct Times {
    process: Duration,
    clock: Duration,
}

impl Times {
    fn now() -> Self {
        let read = |clock| {
            let time = clock_gettime(clock);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        Times { process: read(ClockId::ProcessCPUTime), clock: read(ClockId::Monotonic) }
    }
}

/// Counting begins where this is called. The line shows the same place among the system calls.
#[inline(never)]
fn begin(args: &Args) -> Option<Times> {
    line("begin");
    args.clock.map(|_| Times::now())
}

/// Counting ends where this is called.
#[inline(never)]
fn end(args: &Args, begun: Option<Times>) {
    let now = args.clock.map(|_| Times::now());
    line("end");
    if let (Some(begun), Some(end), Some(seconds)) = (begun, now, args.clock) {
        // what goes on when nothing is set up, which a slow simulation lets go on for long
        std::thread::sleep(Duration::from_secs(seconds));
        let idle = Times::now();
        let passed = |from: Times, to: Times| (to.process - from.process, to.clock - from.clock);
        let (process, clock) = passed(begun, end);
        let (idle_process, idle_clock) = passed(end, idle);
        let [process, clock, idle_process, idle_clock] = [process, clock, idle_process, idle_clock].map(|time| time.as_nanos());
        line(format!("process_ns {process} clock_ns {clock} idle_process_ns {idle_process} idle_clock_ns {idle_clock}"));
    }
    line("over");
}

pub fn run(args: &Args, _json: bool) -> Outcome {
    let opened = args.endpoint.open()?;
    let count = usize::from(args.count) + 1;
    let queues = (0..count).map(|_| opened.spare_queues(QpCap::default())).collect::<Result<Vec<_>, _>>()?;
    let channel = EventChannel::new()?;
    // kept to the end: nothing is to be closed while the other end still counts
    let _ids = match args.peer.server {
        Some(server) => client(args, &opened, &channel, queues, SocketAddr::new(server, args.peer.port))?,
        None => server(args, &opened, &channel, queues, SocketAddr::new(args.peer.bind, args.peer.port))?,
    };
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // as a process that dies: what it had open is reset
    std::process::exit(0)
}

fn param(queues: &Queues) -> ConnParam {
    ConnParam { qp_num: Some(queues.qp.qp_num()), ..ConnParam::default() }
}

fn next(channel: &EventChannel, patience: Duration) -> Result<(Id, Payload), Failure> {
    let event = channel.get_event(patience).map_err(|e| format!("no event: {e}"))?;
    event.status().map_err(|e| format!("{}: {e}", event.kind()))?;
    Ok(event.ack())
}

fn established(channel: &EventChannel, patience: Duration) -> Result<(), Failure> {
    match next(channel, patience)? {
        (_, Payload::Established(_)) => Ok(()),
        (_, other) => Err(format!("{} where ESTABLISHED was awaited", other.kind()).into()),
    }
}

fn client(
    args: &Args,
    opened: &Opened,
    channel: &EventChannel,
    queues: Vec<Queues>,
    server: SocketAddr,
) -> Result<Vec<(Id, Queues)>, Failure> {
    let patience = opened.patience();
    let mut ids = Vec::new();
    for queues in queues {
        let id = opened.id(channel)?;
        id.resolve_addr(None, server, patience)?;
        next(channel, patience)?;
        id.resolve_route(patience)?;
        next(channel, patience)?;
        ids.push((id, queues));
    }
    let mut begun = None;
    for (n, (id, queues)) in ids.iter().enumerate() {
        id.connect(&param(queues))?;
        established(channel, patience)?;
        if n == 0 {
            begun = begin(args);
        }
    }
    end(args, begun);
    Ok(ids)
}

fn server(
    args: &Args,
    opened: &Opened,
    channel: &EventChannel,
    queues: Vec<Queues>,
    address: SocketAddr,
) -> Result<Vec<(Id, Queues)>, Failure> {
    let patience = opened.patience();
    let listener = opened.id(channel)?;
    listener.bind_addr(address)?;
    listener.listen(queues.len() as u32)?;
    line("listening");
    let count = queues.len();
    let mut queues = queues.into_iter();
    let mut ids = Vec::with_capacity(count);
    let mut established = 0;
    let mut begun = None;
    while established < count {
        // the peer may be connected, and ask again, before this end hears of it
        match next(channel, patience)? {
            (id, Payload::ConnectRequest { .. }) => {
                let queues = queues.next().ok_or("more requests than there should be")?;
                id.accept(Some(&param(&queues)))?;
                ids.push((id, queues));
            }
            (_, Payload::Established(_)) => {
                established += 1;
                if established == 1 {
                    begun = begin(args);
                }
            }
            (_, other) => return Err(format!("{} where nothing is to end", other.kind()).into()),
        }
    }
    end(args, begun);
    // it goes with the process
    std::mem::forget(listener);
    Ok(ids)
}
