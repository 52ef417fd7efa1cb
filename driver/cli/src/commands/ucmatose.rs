// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ucmatose`: many connections at once, messages both ways on each, then every end; as librdmacm's ucmatose, with its lines.
use crate::{
    endpoint::{Endpoint, EndpointArgs, Opened, PeerArgs, Pending, Queues},
    output::line,
    Failure, Outcome,
};
use ironwarp_verbs::{Access, Mr, QpCap, RecvWr, SendFlags, SendOp, SendWr, WcOpcode};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
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
    /// None on connections without messages.
    memory: Option<Arc<dyn Mr>>,
    received: u16,
    sent: u16,
}

fn queues(args: &Args, opened: &Opened, pending: &Pending) -> Result<(Queues, Option<Arc<dyn Mr>>), Failure> {
    let wrs = u32::from(args.count).max(1);
    let queues = opened.queues(pending, QpCap { max_send_wr: wrs, max_recv_wr: wrs, ..QpCap::default() })?;
    if args.count == 0 {
        return Ok((queues, None));
    }
    let memory = opened.pd().alloc_mr(args.size as usize * (usize::from(args.count) + 1), Access::LOCAL_WRITE)?;
    let size = args.size as usize;
    let list: Vec<_> =
        (1..=args.count).map(|n| RecvWr { wr_id: n.into(), sg_list: vec![memory.sge(usize::from(n) * size, size)] }).collect();
    queues.qp.post_recv(&list).map_err(|(n, e)| format!("post_recv {n}: {e}"))?;
    Ok((queues, Some(memory)))
}

impl Node {
    fn send_all(&self, args: &Args) -> Result<(), Failure> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let sg_list = vec![memory.sge(0, args.size as usize)];
        let wr = SendWr { wr_id: 0, op: SendOp::Send, sg_list, inline: None, flags: SendFlags::SIGNALED };
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
        let pending = opened.resolve(SocketAddr::new(server, args.peer.port), None)?;
        let (queues, memory) = queues(args, opened, &pending)?;
        nodes.push(Node { end: pending.connect(queues, 1)?, memory, received: 0, sent: 0 });
    }
    Ok(nodes)
}

fn accept(args: &Args, opened: &Opened) -> Result<Option<Vec<Node>>, Failure> {
    let stop = crate::stop::Stop::on_signals()?;
    let listener = opened.listen(SocketAddr::new(args.peer.bind, args.peer.port), args.connections.into())?;
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
    let mut nodes = match args.peer.server {
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
        let first = args.peer.server.is_some();
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
