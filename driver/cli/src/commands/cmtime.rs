// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cmtime`: what each step of a connection costs, in the manner of librdmacm's cmtime, beside a row of the host's plain sockets.
use crate::{
    endpoint::{Endpoint, EndpointArgs, Opened, PeerArgs},
    output::line,
    Failure, Outcome,
};
use ironwarp_verbs::QpCap;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

/// A listener looks for signals so often.
const LOOK: Duration = Duration::from_millis(200);

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(flatten)]
    peer: PeerArgs,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 100)]
    connections: usize,
    /// Connections that are being set up at once.
    #[arg(short = 'n', long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    at_once: u16,
    /// Leave out the row of plain sockets over loopback.
    #[arg(long)]
    no_sockets: bool,
}

/// A row: name, total and largest in milliseconds, least and mean in microseconds.
type Row = (String, f64, f64, f64, f64);

/// Times of one step.
#[derive(Default)]
struct Step {
    each: Vec<Duration>,
    total: Duration,
}

impl Step {
    fn run<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = f();
        let took = start.elapsed();
        self.each.push(took);
        self.total += took;
        result
    }
    fn row(&self, name: &str) -> Row {
        let us = |d: Duration| d.as_secs_f64() * 1e6;
        let max = self.each.iter().max().copied().unwrap_or_default();
        let min = self.each.iter().min().copied().unwrap_or_default();
        (name.to_owned(), us(self.total) / 1e3, us(max) / 1e3, us(min), us(self.total) / self.each.len().max(1) as f64)
    }
}

fn client(args: &Args, opened: &Opened, server: SocketAddr) -> Result<Vec<Row>, Failure> {
    let [mut create_id, mut resolve_addr, mut resolve_route, mut create_qp, mut connect, mut disconnect, mut destroy] =
        [(); 7].map(|()| Step::default());
    let mut established = Step::default();
    let mut ends: Vec<Endpoint> = Vec::new();
    let began = Instant::now();
    let mut left = args.connections;
    while left > 0 {
        let batch = left.min(args.at_once.into());
        left -= batch;
        let mut open = Vec::new();
        for _ in 0..batch {
            let pending = create_id.run(|| opened.create_id())?;
            resolve_addr.run(|| pending.resolve_addr(server, None))?;
            resolve_route.run(|| pending.resolve_route())?;
            let queues = create_qp.run(|| opened.queues(&pending, QpCap::default()))?;
            let asked = Instant::now();
            let end = connect.run(|| pending.connect(queues, 1))?;
            open.push((asked, end));
        }
        for (asked, end) in open {
            end.connected()?;
            // those of a batch overlap: each is timed from its own connect call
            established.each.push(asked.elapsed());
            ends.push(end);
        }
    }
    established.total = began.elapsed();
    for end in &ends {
        disconnect.run(|| end.disconnect())?;
    }
    for end in ends {
        // the peer may have been harder
        let _ = disconnect.run(|| end.wait_closed());
        destroy.run(|| end.destroy())?;
    }
    disconnect.each = disconnect.each.chunks(2).map(|two| two.iter().sum()).collect();
    Ok(vec![
        create_id.row("create id"),
        resolve_addr.row("resolve addr"),
        resolve_route.row("resolve route"),
        create_qp.row("create qp"),
        connect.row("connect call"),
        established.row("connected"),
        disconnect.row("disconnect"),
        destroy.row("destroy"),
    ])
}

/// The same of plain TCP over loopback: connect, 20 octets each way as MPA does, close.
fn sockets(connections: usize) -> Result<Row, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (sender, over) = mpsc::channel();
    let server = std::thread::spawn(move || -> std::io::Result<()> {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept()?;
            let mut frame = [0; 20];
            stream.read_exact(&mut frame)?;
            stream.write_all(&frame)?;
            stream.read_to_end(&mut Vec::new())?;
        }
        let _ = sender.send(());
        Ok(())
    });
    let mut step = Step::default();
    for _ in 0..connections {
        step.run(|| -> std::io::Result<()> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.write_all(&[0; 20])?;
            stream.read_exact(&mut [0; 20])
        })?;
    }
    over.recv_timeout(Duration::from_secs(10)).map_err(|_| "the server of plain sockets does not end")?;
    server.join().map_err(|_| "the server of plain sockets has panicked")??;
    Ok(step.row("plain sockets"))
}

fn serve(args: &Args, opened: &Opened) -> Outcome {
    let stop = crate::stop::Stop::on_signals()?;
    let listener = opened.listen(SocketAddr::new(args.peer.bind, args.peer.port), args.connections as u32)?;
    let mut ends: Vec<Endpoint> = Vec::new();
    let mut served = 0;
    while !stop.requested() && (served < args.connections || !ends.is_empty()) {
        if let Some(request) = listener.next(if ends.is_empty() { LOOK } else { Duration::from_millis(1) })? {
            let queues = opened.queues(&request, QpCap::default())?;
            ends.push(request.accept(queues, 1)?);
            served += 1;
        }
        let (over, live) = ends.into_iter().partition(Endpoint::disconnected);
        ends = live;
        let over: Vec<Endpoint> = over;
        for end in over {
            end.destroy()?;
        }
    }
    Ok(true)
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let opened = args.endpoint.open()?;
    let Some(server) = args.peer.server else { return serve(args, &opened) };
    let mut rows = client(args, &opened, SocketAddr::new(server, args.peer.port))?;
    if !args.no_sockets {
        rows.push(sockets(args.connections)?);
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(step, total, max, min, each)| {
                serde_json::json!({ "step": step, "total_ms": total, "max_ms": max, "min_us": min, "us_per_conn": each })
            })
            .collect();
        line(serde_json::json!({ "connections": args.connections, "steps": rows }).to_string());
    } else {
        line(format!("{:<14} {:>12} {:>12} {:>12} {:>12}", "step", "total ms", "max ms", "min us", "us / conn"));
        for (step, total, max, min, each) in rows {
            line(format!("{step:<14} {total:>12.2} {max:>12.2} {min:>12.2} {each:>12.2}"));
        }
    }
    Ok(true)
}
