// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf`: bandwidth and latency of Send, RDMA Write and RDMA Read, with the columns of perftest. Both ends are this command; what is measured is agreed on by one Send
//! each way after the connection is there.
use crate::{
    endpoint::{Endpoint, EndpointArgs, Opened, Pending, Queues},
    output::line,
    Failure, Outcome,
};
use ironwarp_verbs::{Access, Mr, QpCap, RecvWr, SendFlags, SendOp, SendWr, Wc, WcOpcode, WcStatus};
use std::{
    cell::Cell,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

/// First octets of the agreement.
const MAGIC: [u8; 8] = *b"iwperf 1";
const AGREEMENT: usize = 40;
/// A listener looks for signals so often.
const LOOK: Duration = Duration::from_millis(200);

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
    /// Octets of a message.
    #[arg(short = 's', long, default_value_t = 65536, value_parser = clap::value_parser!(u32).range(1..=(1 << 30)))]
    size: u32,
    /// Messages.
    #[arg(short = 'n', long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
    /// Work requests that wait at once (bw).
    #[arg(short = 't', long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    tx_depth: u32,
    /// Reads that may be outstanding.
    #[arg(short = 'o', long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=128))]
    outs: u8,
    /// Wait for completions instead of looking for them without a pause.
    #[arg(short = 'e', long)]
    events: bool,
}

/// What both must know of the other.
struct Agreement {
    verb: u8,
    measure: u8,
    size: u32,
    iters: u32,
    addr: u64,
    rkey: u32,
}

impl Agreement {
    fn octets(&self) -> [u8; AGREEMENT] {
        let mut o = [0; AGREEMENT];
        o[..8].copy_from_slice(&MAGIC);
        (o[8], o[9]) = (self.verb, self.measure);
        o[12..16].copy_from_slice(&self.size.to_be_bytes());
        o[16..20].copy_from_slice(&self.iters.to_be_bytes());
        o[24..32].copy_from_slice(&self.addr.to_be_bytes());
        o[32..36].copy_from_slice(&self.rkey.to_be_bytes());
        o
    }
    fn parse(o: &[u8; AGREEMENT]) -> Result<Self, Failure> {
        if o[..8] != MAGIC {
            return Err("the peer is not `ironwarp perf` of this release".into());
        }
        let word = |at: usize| u32::from_be_bytes([o[at], o[at + 1], o[at + 2], o[at + 3]]);
        Ok(Agreement {
            verb: o[8],
            measure: o[9],
            size: word(12),
            iters: word(16),
            addr: u64::from(word(24)) << 32 | u64::from(word(28)),
            rkey: word(32),
        })
    }
}

/// wr_id of the agreement's own work requests.
const AGREE: u64 = u64::MAX;

/// What a connection needs before it is there.
struct Prepared {
    queues: Queues,
    note: Arc<dyn Mr>,
    data: Arc<dyn Mr>,
    depth: u32,
}

struct Run<'a> {
    args: &'a Args,
    end: Endpoint,
    note: Arc<dyn Mr>,
    data: Arc<dyn Mr>,
    depth: u32,
    /// Work requests that completed.
    sent: Cell<u32>,
    received: Cell<u32>,
}

impl Run<'_> {
    fn prepare(args: &Args, opened: &Opened, pending: &Pending) -> Result<Prepared, Failure> {
        let depth = if args.measure == Measure::Lat { 1 } else { args.tx_depth.min(args.iters) };
        let cap = QpCap { max_send_wr: depth + 2, max_recv_wr: 2 * depth + 2, ..QpCap::default() };
        let queues = opened.queues(pending, cap)?;
        let note = opened.pd().alloc_mr(2 * AGREEMENT, Access::LOCAL_WRITE)?;
        // one half goes out, the other is where the peer writes
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let data = opened.pd().alloc_mr(2 * args.size as usize, all)?;
        let receive = RecvWr { wr_id: AGREE, sg_list: vec![note.sge(AGREEMENT, AGREEMENT)] };
        queues.qp.post_recv(&[receive]).map_err(|(_, e)| format!("post_recv: {e}"))?;
        Ok(Prepared { queues, note, data, depth })
    }
    fn done(&self) -> Result<Wc, Failure> {
        self.end.success(!self.args.events)
    }
    fn post_receive(&self) -> Result<(), Failure> {
        let size = self.args.size as usize;
        let wr = RecvWr { wr_id: 1, sg_list: vec![self.data.sge(size, size)] };
        self.end.queues.qp.post_recv(&[wr]).map_err(|(_, e)| format!("post_recv: {e}").into())
    }
    fn post(&self, op: SendOp) -> Result<(), Failure> {
        let size = self.args.size as usize;
        let at = if matches!(op, SendOp::Read { .. }) { size } else { 0 };
        let wr = SendWr { wr_id: 2, op, sg_list: vec![self.data.sge(at, size)], inline: None, flags: SendFlags::SIGNALED };
        self.end.queues.qp.post_send(&[wr]).map_err(|(_, e)| format!("post_send: {e}").into())
    }
    /// Tells the peer what is measured and where the data is; the initiator speaks first.
    fn agree(&self, first: bool) -> Result<Agreement, Failure> {
        let size = self.args.size as usize;
        let own = Agreement {
            verb: self.args.verb as u8,
            measure: self.args.measure as u8,
            size: self.args.size,
            iters: self.args.iters,
            addr: self.data.addr() + size as u64,
            rkey: self.data.rkey(),
        };
        self.note.write(0, &own.octets())?;
        let (mut sent, mut came) = (false, false);
        let send = || {
            let sg_list = vec![self.note.sge(0, AGREEMENT)];
            let wr = SendWr { wr_id: AGREE, op: SendOp::Send, sg_list, inline: None, flags: SendFlags::SIGNALED };
            self.end.queues.qp.post_send(&[wr]).map_err(|(_, e)| Failure::from(format!("post_send: {e}")))
        };
        if first {
            send()?;
        }
        while !(sent && came) {
            match self.end.success(false)?.opcode {
                WcOpcode::Recv => {
                    came = true;
                    if !first {
                        send()?;
                    }
                }
                _ => sent = true,
            }
        }
        let mut octets = [0; AGREEMENT];
        self.note.read(AGREEMENT, &mut octets)?;
        let peer = Agreement::parse(&octets)?;
        if (peer.verb, peer.measure, peer.size, peer.iters) != (own.verb, own.measure, own.size, own.iters) {
            return Err(format!("both ends must measure the same: the peer has size {} and {} iterations", peer.size, peer.iters).into());
        }
        Ok(peer)
    }
    fn op(&self, peer: &Agreement) -> SendOp {
        let (remote_addr, rkey) = (peer.addr, peer.rkey);
        match self.args.verb {
            Verb::Send => SendOp::Send,
            Verb::Write => SendOp::Write { remote_addr, rkey },
            Verb::Read => SendOp::Read { remote_addr, rkey },
        }
    }
    /// Waits until so many sends and receives of the measurement have completed; each receive is posted anew.
    fn wait(&self, sent: u32, received: u32) -> Result<(), Failure> {
        while self.sent.get() < sent || self.received.get() < received {
            if self.done()?.opcode == WcOpcode::Recv {
                self.received.set(self.received.get() + 1);
                self.post_receive()?;
            } else {
                self.sent.set(self.sent.get() + 1);
            }
        }
        Ok(())
    }
    /// The time from the first post to the last completion. iWARP has no "receiver not ready": a Send without a receive ends the connection. So a receiver, with room
    /// for two times `depth` messages, sends a credit for each `depth` of them.
    fn bandwidth(&self, peer: &Agreement) -> Result<Duration, Failure> {
        let start = Instant::now();
        let (iters, depth) = (self.args.iters, self.depth);
        for posted in 0..iters {
            // a place in the queue, and a receive at the peer
            let credits = if self.args.verb == Verb::Send { (posted / depth).saturating_sub(1) } else { 0 };
            self.wait((posted + 1).saturating_sub(depth), credits)?;
            self.post(self.op(peer))?;
        }
        self.wait(iters, 0)?;
        let took = start.elapsed();
        // the peer must not find the connection closed when it sends its last credit
        self.wait(iters, if self.args.verb == Verb::Send { iters / depth } else { 0 })?;
        Ok(took)
    }
    /// Each round: a message there and, but for Read, one back. Write is seen in memory: its last octet counts the rounds.
    fn latency(&self, peer: &Agreement, first: bool) -> Result<Vec<Duration>, Failure> {
        let size = self.args.size as usize;
        let mut each = Vec::with_capacity(self.args.iters as usize);
        for round in 0..self.args.iters {
            let mark = (round % 255 + 1) as u8;
            let start = Instant::now();
            match self.args.verb {
                Verb::Read => {
                    self.post(self.op(peer))?;
                    self.done()?;
                }
                Verb::Write => {
                    let go = || -> Result<(), Failure> {
                        self.data.write(size - 1, &[mark])?;
                        self.post(self.op(peer))
                    };
                    // what was written a round ago is complete before the next is posted; the last need not be
                    if first {
                        self.wait(round, 0)?;
                        go()?;
                    }
                    self.written(2 * size - 1, mark)?;
                    if !first {
                        self.wait(round, 0)?;
                        go()?;
                    }
                }
                Verb::Send => {
                    if first {
                        self.post(SendOp::Send)?;
                        self.wait(round + 1, round + 1)?;
                    } else {
                        self.wait(round, round + 1)?;
                        self.post(SendOp::Send)?;
                    }
                }
            }
            each.push(start.elapsed());
        }
        Ok(each)
    }
    fn written(&self, at: usize, mark: u8) -> Result<(), Failure> {
        let deadline = Instant::now() + self.end_patience();
        let mut octet = [0];
        let mut looks = 0u32;
        loop {
            self.data.read(at, &mut octet)?;
            if octet[0] == mark {
                return Ok(());
            }
            looks += 1;
            if looks.is_multiple_of(1024) {
                if self.end.closed() || Instant::now() > deadline {
                    return Err("the peer's Write did not come".into());
                }
                std::thread::yield_now();
            }
        }
    }
    fn end_patience(&self) -> Duration {
        self.end.patience()
    }
    /// The passive side of a bandwidth run.
    fn serve(&self) -> Result<(), Failure> {
        if self.args.verb == Verb::Send {
            for credit in 1..=self.args.iters / self.depth {
                self.wait(0, credit * self.depth)?;
                self.post(SendOp::Send)?;
            }
            // the completion of the last credit may be overtaken by the client's close
            self.wait(0, self.args.iters)?;
        }
        Ok(())
    }
}

fn report(args: &Args, took: Duration, json: bool) {
    let octets = u64::from(args.size) * u64::from(args.iters);
    let seconds = took.as_secs_f64().max(1e-9);
    let (mb, rate) = (octets as f64 / seconds / (1 << 20) as f64, f64::from(args.iters) / seconds / 1e6);
    if json {
        line(
            serde_json::json!({ "bytes": args.size, "iterations": args.iters, "bw_average_mib_s": mb, "msg_rate_mpps": rate }).to_string(),
        );
    } else {
        line(" #bytes     #iterations    BW average[MB/sec]   MsgRate[Mpps]");
        line(format!(" {:<10} {:<14} {mb:<20.2} {rate:.6}", args.size, args.iters));
    }
}

fn report_latency(args: &Args, mut each: Vec<Duration>, json: bool) {
    // perftest: half of a round trip, but the whole of a Read
    let half = if args.verb == Verb::Read { 1.0 } else { 2.0 };
    each.sort_unstable();
    let us = |d: Duration| d.as_secs_f64() * 1e6 / half;
    let at = |share: f64| us(each[((each.len() - 1) as f64 * share) as usize]);
    let (min, max, typical, p99, p999) = (at(0.0), at(1.0), at(0.5), at(0.99), at(0.999));
    let average = us(each.iter().sum::<Duration>()) / each.len() as f64;
    if json {
        line(
            serde_json::json!({ "bytes": args.size, "iterations": args.iters, "t_min_us": min, "t_max_us": max, "t_typical_us": typical,
                "t_avg_us": average, "p99_us": p99, "p999_us": p999 })
            .to_string(),
        );
    } else {
        line(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   99% percentile[usec]   99.9% percentile[usec]");
        line(format!(" {:<6} {:<14} {min:<14.2} {max:<12.2} {typical:<16.2} {average:<13.2} {p99:<22.2} {p999:.2}", args.size, args.iters));
    }
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let opened = args.endpoint.open()?;
    let first = args.server.is_some();
    let pending = match args.server {
        Some(server) => opened.resolve(SocketAddr::new(server, args.port), None)?,
        None => {
            let stop = crate::stop::Stop::on_signals()?;
            let listener = opened.listen(SocketAddr::new(args.bind_address, args.port), 1)?;
            loop {
                match listener.next(LOOK)? {
                    Some(request) => break request,
                    None if stop.requested() => return Ok(false),
                    None => {}
                }
            }
        }
    };
    let Prepared { queues, note, data, depth } = Run::prepare(args, &opened, &pending)?;
    let end = if first { pending.connect(queues, args.outs)? } else { pending.accept(queues, args.outs)? };
    let run = Run { args, end, note, data, depth, sent: Cell::new(0), received: Cell::new(0) };
    run.end.connected()?;
    if args.verb == Verb::Send {
        for _ in 0..2 * depth {
            run.post_receive()?;
        }
    }
    let peer = run.agree(first)?;
    match args.measure {
        Measure::Lat if first || args.verb != Verb::Read => {
            let each = run.latency(&peer, first)?;
            if first {
                report_latency(args, each, json);
            }
        }
        Measure::Bw if first => report(args, run.bandwidth(&peer)?, json),
        Measure::Bw => run.serve()?,
        Measure::Lat => {}
    }
    if first {
        return run.end.close().map(|()| true);
    }
    // until the client has what it wants; its Writes and Reads need nothing of us
    loop {
        match run.end.complete(false) {
            Ok(wc) if wc.status == WcStatus::Success || wc.status == WcStatus::WrFlushErr => {}
            Ok(wc) => return Err(format!("{:?}: {}", wc.opcode, wc.status.text()).into()),
            Err(_) if run.end.closes() => break,
            // long silence of a client that reads or writes
            Err(_) => {}
        }
    }
    run.end.destroy().map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agreement_is_read_as_it_was_written() {
        let said = Agreement { verb: 1, measure: 0, size: 4096, iters: 7, addr: 0x0123_4567_89ab_cdef, rkey: 0xfeed };
        let read = Agreement::parse(&said.octets()).unwrap();
        assert_eq!((read.verb, read.measure, read.size, read.iters, read.addr, read.rkey), (1, 0, 4096, 7, 0x0123_4567_89ab_cdef, 0xfeed));
        assert!(Agreement::parse(&[0; AGREEMENT]).is_err());
    }
}
