// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rping`: what librdmacm's rping does, with its messages on the wire: it talks to the original.
//!
//! A round, as the client sees it: Send "my buffer is here" - the server reads it, Send "go on" - Send "write it there" - the server writes it back, Send "done". A message is
//! 16 octets: address (8), key (4), length (4), big endian.
use crate::{
    endpoint::{Endpoint, EndpointArgs, Opened, Pending, Queues},
    output::line,
    Failure, Outcome,
};
use ironwarp_verbs::{Access, Mr, QpCap, RecvWr, SendFlags, SendOp, SendWr, WcOpcode};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

const MESSAGE: usize = 16;
/// Receives that are posted ahead.
const RECEIVES: usize = 2;
/// A listener looks for signals so often.
const LOOK: Duration = Duration::from_millis(200);

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// Be the server.
    #[arg(short = 's', long, conflicts_with = "client", required_unless_present = "client")]
    server: bool,
    /// Be the client.
    #[arg(short = 'c', long)]
    client: bool,
    /// Address to listen on, or of the server.
    #[arg(short = 'a', long = "addr", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    addr: IpAddr,
    /// Port.
    #[arg(short = 'p', long, default_value_t = 7174)]
    port: u16,
    /// Own address, for the client.
    #[arg(short = 'I', long)]
    source: Option<IpAddr>,
    /// Show the data.
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Compare what comes back with what went out.
    #[arg(short = 'V', long)]
    validate: bool,
    /// Rounds; the server serves as many as the client wants.
    #[arg(short = 'C', long)]
    count: Option<u32>,
    /// Octets a round.
    #[arg(short = 'S', long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(16..=(1 << 20)))]
    size: u32,
    /// Serve one client after the other, several at once.
    #[arg(short = 'P', long)]
    persistent: bool,
}

struct Ping {
    end: Endpoint,
    receive: Arc<dyn Mr>,
    send: Arc<dyn Mr>,
    data: Arc<dyn Mr>,
    back: Arc<dyn Mr>,
    /// Receives that completed while something else was waited for.
    early: Vec<u64>,
}

impl Ping {
    fn buffers(opened: &Opened, size: u32) -> Result<[Arc<dyn Mr>; 4], Failure> {
        let pd = opened.pd();
        let local = Access::LOCAL_WRITE;
        Ok([
            pd.alloc_mr(MESSAGE * RECEIVES, local)?,
            pd.alloc_mr(MESSAGE, Access::empty())?,
            pd.alloc_mr(size as usize, local | Access::REMOTE_READ)?,
            pd.alloc_mr(size as usize, local | Access::REMOTE_WRITE | Access::REMOTE_READ)?,
        ])
    }
    fn post_receive(qp: &Arc<dyn ironwarp_verbs::Qp>, receive: &Arc<dyn Mr>, n: u64) -> Result<(), Failure> {
        let wr = RecvWr { wr_id: n, sg_list: vec![receive.sge(n as usize * MESSAGE, MESSAGE)] };
        qp.post_recv(&[wr]).map_err(|(_, e)| format!("post_recv: {e}").into())
    }
    fn post(&self, op: SendOp, sge: ironwarp_verbs::Sge) -> Result<(), Failure> {
        let wr = SendWr { wr_id: 100, op, sg_list: vec![sge], inline: None, flags: SendFlags::SIGNALED };
        self.end.queues.qp.post_send(&[wr]).map_err(|(_, e)| Failure::from(format!("post_send: {e}")))
    }
    fn done(&mut self, opcode: WcOpcode) -> Result<(), Failure> {
        loop {
            let wc = self.end.success(false)?;
            match wc.opcode {
                WcOpcode::Recv => self.early.push(wc.wr_id),
                other if other == opcode => return Ok(()),
                other => return Err(format!("{other:?} completed where {opcode:?} was awaited").into()),
            }
        }
    }
    fn tell(&mut self, buffer: Option<&Arc<dyn Mr>>) -> Result<(), Failure> {
        let mut message = [0; MESSAGE];
        if let Some(mr) = buffer {
            message[..8].copy_from_slice(&mr.addr().to_be_bytes());
            message[8..12].copy_from_slice(&mr.rkey().to_be_bytes());
            message[12..].copy_from_slice(&(mr.length() as u32).to_be_bytes());
        }
        self.send.write(0, &message)?;
        self.post(SendOp::Send, self.send.sge(0, MESSAGE))?;
        self.done(WcOpcode::Send)
    }
    /// The peer's next message: address, key, length.
    fn told(&mut self) -> Result<(u64, u32, u32), Failure> {
        let n = match self.early.is_empty() {
            false => self.early.remove(0),
            true => {
                let wc = self.end.success(false)?;
                if wc.opcode != WcOpcode::Recv || wc.byte_len as usize != MESSAGE {
                    return Err(format!("{:?} of {} octets where a message of {MESSAGE} was awaited", wc.opcode, wc.byte_len).into());
                }
                wc.wr_id
            }
        };
        let mut message = [0; MESSAGE];
        self.receive.read(n as usize * MESSAGE, &mut message)?;
        Self::post_receive(&self.end.queues.qp, &self.receive, n)?;
        let word = |at: usize| u32::from_be_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        Ok((u64::from(word(0)) << 32 | u64::from(word(4)), word(8), word(12)))
    }
}

/// As the original: text, then letters that move on with each round, then an octet 0.
fn pattern(round: u32, size: usize) -> Vec<u8> {
    let mut data = format!("rdma-ping-{round}: ").into_bytes();
    let letters = b'A'..=b'z';
    data.extend(letters.clone().cycle().skip(round as usize % letters.count()).take(size.saturating_sub(data.len())));
    data.truncate(size);
    if let Some(last) = data.last_mut() {
        *last = 0;
    }
    data
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}

fn queues(opened: &Opened, pending: &Pending, buffers: &[Arc<dyn Mr>; 4]) -> Result<Queues, Failure> {
    let queues = opened.queues(pending, QpCap { max_send_wr: 16, max_recv_wr: RECEIVES as u32, ..QpCap::default() })?;
    for n in 0..RECEIVES as u64 {
        Ping::post_receive(&queues.qp, &buffers[0], n)?;
    }
    Ok(queues)
}

fn client(args: &Args, opened: &Opened) -> Result<u32, Failure> {
    let buffers = Ping::buffers(opened, args.size)?;
    let pending = opened.resolve(SocketAddr::new(args.addr, args.port), args.source)?;
    let queues = queues(opened, &pending, &buffers)?;
    let end = pending.connect(queues, 1)?;
    end.connected()?;
    let [receive, send, data, back] = buffers;
    let mut ping = Ping { end, receive, send, data, back, early: Vec::new() };
    let mut rounds = 0;
    while args.count.is_none_or(|count| rounds < count) {
        let pattern = pattern(rounds, args.size as usize);
        ping.data.write(0, &pattern)?;
        let (data, back) = (ping.data.clone(), ping.back.clone());
        ping.tell(Some(&data))?;
        ping.told()?;
        ping.tell(Some(&back))?;
        ping.told()?;
        let mut came = vec![0; pattern.len()];
        back.read(0, &mut came)?;
        if args.validate && came != pattern {
            let at = came.iter().zip(&pattern).position(|(a, b)| a != b).unwrap_or_default();
            return Err(format!("round {rounds}: what came back differs from octet {at} on").into());
        }
        if args.verbose {
            line(format!("ping data: {}", text(&came)));
        }
        rounds += 1;
    }
    ping.end.close()?;
    Ok(rounds)
}

fn serve(args: &Args, opened: &Opened, request: Pending) -> Result<u32, Failure> {
    let buffers = Ping::buffers(opened, args.size)?;
    let queues = queues(opened, &request, &buffers)?;
    let end = request.accept(queues, 1)?;
    end.connected()?;
    let [receive, send, data, back] = buffers;
    let mut ping = Ping { end, receive, send, data, back, early: Vec::new() };
    let mut rounds = 0;
    loop {
        let (remote_addr, rkey, len) = match ping.told() {
            Ok(told) => told,
            // the client has what it wants
            Err(_) if ping.end.closes() => break,
            Err(e) => return Err(e),
        };
        if len > args.size {
            return Err(format!("the client wants {len} octets a round; start the server with -S {len}").into());
        }
        let sink = ping.back.sge(0, len as usize);
        ping.post(SendOp::Read { remote_addr, rkey }, sink)?;
        ping.done(WcOpcode::RdmaRead)?;
        if args.verbose {
            let mut came = vec![0; len as usize];
            ping.back.read(0, &mut came)?;
            line(format!("server ping data: {}", text(&came)));
        }
        ping.tell(None)?;
        let (remote_addr, rkey, room) = ping.told()?;
        ping.post(SendOp::Write { remote_addr, rkey }, ping.back.sge(0, len.min(room) as usize))?;
        ping.done(WcOpcode::RdmaWrite)?;
        ping.tell(None)?;
        rounds += 1;
    }
    ping.end.destroy()?;
    Ok(rounds)
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = crate::stop::Stop::on_signals()?;
    let opened = args.endpoint.open()?;
    let ended = |rounds: u32, who: &str| {
        if json {
            line(serde_json::json!({ "role": who, "rounds": rounds, "octets": args.size }).to_string());
        } else {
            line(format!("{who} DISCONNECT EVENT... {rounds} rounds of {} octets", args.size));
        }
    };
    if args.client {
        ended(client(args, &opened)?, "client");
        return Ok(true);
    }
    let listener = opened.listen(SocketAddr::new(args.addr, args.port), 0)?;
    let mut good = true;
    std::thread::scope(|scope| {
        while !stop.requested() {
            let Some(request) = listener.next(LOOK)? else { continue };
            let peer = request.remote_addr();
            if !args.persistent {
                return serve(args, &opened, request).map(|rounds| ended(rounds, "server"));
            }
            scope.spawn({
                let opened = &opened;
                move || match serve(args, opened, request) {
                    Ok(rounds) => tracing::info!("{peer}: {rounds} rounds"),
                    Err(e) => eprintln!("ironwarp: {peer}: {e}"),
                }
            });
        }
        good = args.persistent;
        Ok(())
    })?;
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_moves_on_and_ends_in_zero() {
        assert_eq!(&pattern(0, 20)[..], b"rdma-ping-0: ABCDEF\0");
        assert_eq!(&pattern(2, 20)[..], b"rdma-ping-2: CDEFGH\0");
        assert_eq!(pattern(58, 16)[14], b'A', "58 letters, from A to z");
        assert_eq!(text(&pattern(0, 20)), "rdma-ping-0: ABCDEF");
    }
}
