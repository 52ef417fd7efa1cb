// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf`: bandwidth and latency of Send, RDMA Write and RDMA Read, as perftest measures them (ib_send_bw, ib_write_lat, ... with `-R`). Either end may be one of
//! those programs; both must be told the same test, size and number of messages.
mod conversation;
mod measure;
mod report;

use crate::{
    endpoint::{EndpointArgs, Listener, Opened, Pending},
    Failure, Outcome,
};
use conversation::{Conversation, Place, Report};
use measure::Measured;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

/// A listener looks for signals so often.
const LOOK: Duration = Duration::from_millis(200);
/// perftest's server listens for the second connection only after it has said that the client may come: so long and so often it is tried.
const RETRY: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
/// perftest's own defaults.
const WRITES: u32 = 5000;
const MESSAGES: u32 = 1000;
const LARGE: u32 = 65536;
const SMALL: u32 = 2;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Verb {
    /// Send and receive.
    Send,
    /// RDMA Write.
    Write,
    /// RDMA Read.
    Read,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Measure {
    /// Bandwidth: many at once.
    Bw,
    /// Latency: one after the other; half of the round trip for Send and Write.
    Lat,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// What is done.
    verb: Verb,
    /// What is measured.
    measure: Measure,
    /// The server's address; without it this is the server.
    server: Option<IpAddr>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    bind_address: IpAddr,
    /// Port.
    #[arg(short = 'p', long, default_value_t = 18515)]
    port: u16,
    /// Octets of a message [default: 65536, or 2 for lat].
    #[arg(short = 's', long, value_parser = clap::value_parser!(u32).range(1..=(1 << 30)))]
    size: Option<u32>,
    /// Messages [default: 1000, or 5000 for write bw].
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    iters: Option<u32>,
    /// Work requests that wait at once (bw).
    #[arg(short = 't', long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=256))]
    tx_depth: u32,
    /// Receives that wait at once (send).
    #[arg(short = 'r', long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=512))]
    rx_depth: u32,
    /// Reads that may be outstanding [default: as many as the device can].
    #[arg(short = 'o', long, value_parser = clap::value_parser!(u8).range(1..=128))]
    outs: Option<u8>,
    /// Wait for completions instead of looking for them without a pause.
    #[arg(short = 'e', long)]
    events: bool,
}

/// The test, all of it known.
#[derive(Clone, Copy, Debug)]
struct Test {
    verb: Verb,
    measure: Measure,
    size: u32,
    iters: u32,
    tx_depth: u32,
    rx_depth: u32,
    outs: u8,
    events: bool,
    /// The side that connects. It speaks first.
    first: bool,
}

impl Args {
    fn test(&self, opened: &Opened) -> Test {
        let iters = self.iters.unwrap_or(if (self.verb, self.measure) == (Verb::Write, Measure::Bw) { WRITES } else { MESSAGES });
        // as perftest: no more than there are messages, then even
        let rx_depth = self.rx_depth.min(iters).next_multiple_of(2);
        Test {
            verb: self.verb,
            measure: self.measure,
            size: self.size.unwrap_or(if self.measure == Measure::Bw { LARGE } else { SMALL }),
            iters,
            tx_depth: if self.measure == Measure::Bw { self.tx_depth.min(iters) } else { 1 },
            rx_depth,
            outs: if self.verb == Verb::Read { self.outs.unwrap_or(opened.depth()) } else { 0 },
            events: self.events,
            first: self.server.is_some(),
        }
    }
}

/// Where connections come from.
enum Source<'a> {
    Server(SocketAddr),
    Clients(&'a Listener),
}

impl Source<'_> {
    /// The connection to be measured.
    fn connected(&self, opened: &Opened, test: &Test, page: usize, patience: Duration) -> Result<measure::Run, Failure> {
        let start = Instant::now();
        match self {
            Source::Clients(listener) => {
                let pending = listener.next(patience)?.ok_or("the client did not make its second connection")?;
                measure::Run::open(opened, pending, test, page)
            }
            Source::Server(server) => loop {
                match measure::Run::open(opened, opened.resolve(*server, None)?, test, page) {
                    Err(e) if start.elapsed() < RETRY => tracing::debug!("once more: {e}"),
                    done => return done,
                }
                std::thread::sleep(PAUSE);
            },
        }
    }
}

/// Talks and measures, in perftest's order.
fn converse(test: &Test, opened: &Opened, first: Pending, source: &Source<'_>, json: bool) -> Result<(), Failure> {
    let patience = opened.patience();
    let talk = Conversation::open(opened, first, test.first)?;
    let page = talk.greet()?;
    talk.place(&Place::default())?;
    // the client does not come before it has heard this; a listener has been there all the time
    let run = source.connected(opened, test, page, patience)?;
    talk.place(&Place::default())?;
    let own = run.place();
    let latency_of_memory = test.measure == Measure::Lat && test.verb != Verb::Send;
    if latency_of_memory {
        talk.place(&own)?;
    }
    let peer = talk.place(&own)?;
    talk.place(&own)?;
    talk.place(&own)?;
    if test.verb == Verb::Send {
        run.post_receives()?;
        talk.place(&own)?;
    }
    let measured = run.measure(&peer)?;
    match (test.measure, test.verb) {
        (Measure::Bw, Verb::Write | Verb::Read) => {
            talk.await_place(&own)?;
            let mine = if let Measured::Bandwidth(report) = measured { report } else { Report::default() };
            let theirs = talk.report(&mine)?;
            talk.part(&own)?;
            report::show_bandwidth(if test.first { &mine } else { &theirs }, json);
        }
        // the last Write says it
        (Measure::Lat, Verb::Write) => show(test, measured, json),
        _ => {
            talk.part(&own)?;
            show(test, measured, json);
        }
    }
    run.close()?;
    talk.close()
}

fn show(test: &Test, measured: Measured, json: bool) {
    match measured {
        Measured::Bandwidth(report) => report::show_bandwidth(&report, json),
        Measured::Latency(each) => report::show_latency(test.verb, test.size, test.iters, each, json),
        Measured::Nothing => {}
    }
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let opened = args.endpoint.open()?;
    let test = args.test(&opened);
    if let Some(server) = args.server {
        let server = SocketAddr::new(server, args.port);
        converse(&test, &opened, opened.resolve(server, None)?, &Source::Server(server), json)?;
        return Ok(true);
    }
    let stop = crate::stop::Stop::on_signals()?;
    let listener = opened.listen(SocketAddr::new(args.bind_address, args.port), 2)?;
    while !stop.requested() {
        if let Some(request) = listener.next(LOOK)? {
            converse(&test, &opened, request, &Source::Clients(&listener), json)?;
            return Ok(true);
        }
    }
    Ok(false)
}
