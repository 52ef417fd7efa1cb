// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ucmatose`: many connections at once, messages both ways on each, then every end; as librdmacm's ucmatose, with its lines.
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

/// A listener looks for signals so often.
const LOOK: Duration = Duration::from_millis(200);

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// The server's address; without it this is the server.
    #[arg(short = 's', long)]
    server: Option<IpAddr>,
    /// Address to listen on.
    #[arg(short = 'b', long, default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    bind: IpAddr,
    /// Port.
    #[arg(short = 'p', long, default_value_t = 7471)]
    port: u16,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Messages in each direction of each connection.
    #[arg(short = 'C', long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=256))]
    count: u16,
    /// Octets of a message.
    #[arg(short = 'S', long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=(1 << 20)))]
    size: u32,
}

struct Node {
    end: Endpoint,
    memory: Arc<dyn Mr>,
    received: u16,
    sent: u16,
}

fn queues(args: &Args, opened: &Opened, pending: &Pending) -> Result<(Queues, Arc<dyn Mr>), Failure> {
    let wrs = u32::from(args.count).max(1);
    let queues = opened.queues(pending, QpCap { max_send_wr: wrs, max_recv_wr: wrs, ..QpCap::default() })?;
    if args.count == 0 {
        // connections alone: nothing is registered
        return Ok((queues, Arc::new(Nothing)));
    }
    let memory = opened.pd().alloc_mr(args.size as usize * (usize::from(args.count) + 1), Access::LOCAL_WRITE)?;
    let size = args.size as usize;
    let list: Vec<_> =
        (1..=args.count).map(|n| RecvWr { wr_id: n.into(), sg_list: vec![memory.sge(usize::from(n) * size, size)] }).collect();
    queues.qp.post_recv(&list).map_err(|(n, e)| format!("post_recv {n}: {e}"))?;
    Ok((queues, memory))
}

/// Memory of connections that carry no messages.
#[derive(Debug)]
struct Nothing;

impl Mr for Nothing {
    fn addr(&self) -> u64 {
        0
    }
    fn length(&self) -> usize {
        0
    }
    fn lkey(&self) -> u32 {
        0
    }
    fn rkey(&self) -> u32 {
        0
    }
    fn read(&self, _offset: usize, _to: &mut [u8]) -> Result<(), ironwarp_rdmacm::Errno> {
        Err(ironwarp_rdmacm::Errno::Fault)
    }
    fn write(&self, _offset: usize, _from: &[u8]) -> Result<(), ironwarp_rdmacm::Errno> {
        Err(ironwarp_rdmacm::Errno::Fault)
    }
    fn rekey(&self, _access: Access) -> Result<(u32, u32), ironwarp_rdmacm::Errno> {
        Err(ironwarp_rdmacm::Errno::Invalid)
    }
    fn dereg(&self) -> Result<(), ironwarp_rdmacm::Errno> {
        Ok(())
    }
}

impl Node {
    fn send_all(&self, args: &Args) -> Result<(), Failure> {
        let wr = SendWr {
            wr_id: 0,
            op: SendOp::Send,
            sg_list: vec![self.memory.sge(0, args.size as usize)],
            inline: None,
            flags: SendFlags::SIGNALED,
        };
        let list = vec![wr; args.count.into()];
        self.end.queues.qp.post_send(&list).map_err(|(n, e)| format!("post_send {n}: {e}").into())
    }
    fn wait(&mut self, sent: u16, received: u16) -> Result<(), Failure> {
        while self.sent < sent || self.received < received {
            match self.end.success(false)?.opcode {
                WcOpcode::Recv => self.received += 1,
                _ => self.sent += 1,
            }
        }
        Ok(())
    }
}

fn connect(args: &Args, opened: &Opened, server: IpAddr) -> Result<Vec<Node>, Failure> {
    let mut nodes = Vec::new();
    for _ in 0..args.connections {
        let pending = opened.resolve(SocketAddr::new(server, args.port), None)?;
        let (queues, memory) = queues(args, opened, &pending)?;
        nodes.push(Node { end: pending.connect(queues, 1)?, memory, received: 0, sent: 0 });
    }
    Ok(nodes)
}

fn accept(args: &Args, opened: &Opened) -> Result<Option<Vec<Node>>, Failure> {
    let stop = crate::stop::Stop::on_signals()?;
    let listener = opened.listen(SocketAddr::new(args.bind, args.port), args.connections.into())?;
    let mut nodes = Vec::new();
    while nodes.len() < args.connections.into() {
        let Some(request) = listener.next(LOOK)? else {
            if stop.requested() {
                return Ok(None);
            }
            continue;
        };
        let (queues, memory) = queues(args, opened, &request)?;
        nodes.push(Node { end: request.accept(queues, 1)?, memory, received: 0, sent: 0 });
    }
    Ok(Some(nodes))
}

fn test(args: &Args) -> Result<bool, Failure> {
    let opened = args.endpoint.open()?;
    let mut nodes = match args.server {
        Some(server) => {
            line("cmatose: starting client\ncmatose: connecting");
            connect(args, &opened, server)?
        }
        None => {
            line("cmatose: starting server");
            let Some(nodes) = accept(args, &opened)? else { return Ok(false) };
            nodes
        }
    };
    for node in &nodes {
        node.end.connected()?;
    }
    if args.count > 0 {
        // an iWARP responder must not speak before the initiator (RFC 5044 s7.1.2)
        let first = args.server.is_some();
        if first {
            line("initiating data transfers");
            for node in &nodes {
                node.send_all(args)?;
            }
        }
        line("receiving data transfers");
        for node in &mut nodes {
            node.wait(0, args.count)?;
        }
        if !first {
            line("sending replies");
            for node in &nodes {
                node.send_all(args)?;
            }
        }
        for node in &mut nodes {
            node.wait(args.count, args.count)?;
        }
        line("data transfers complete");
    }
    line("cmatose: disconnecting");
    for node in &nodes {
        node.end.disconnect()?;
    }
    for node in nodes {
        // a reset by a peer that was faster is an end as well
        let _ = node.end.wait_closed();
        line("disconnected");
        node.end.destroy()?;
    }
    Ok(true)
}

pub fn run(args: &Args, _json: bool) -> Outcome {
    let good = test(args);
    line("test complete");
    line(format!("return status {}", if good.is_ok() { 0 } else { -1 }));
    good
}
