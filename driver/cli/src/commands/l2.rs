// SPDX-License-Identifier: MIT OR Apache-2.0
//! `l2`: the host's own stack behind the adapter. A TAP interface with the adapter's MAC and IPv4 address carries its frames to and from
//! the L2 queue; the adapter answers ARP and ping itself, resolves next hops, and keeps the ports that it listens on.
use super::stats;
use crate::{
    control::ControlArgs,
    device::{AttachArgs, Network},
    output::line,
    stop::Stop,
    tap::Tap,
    Failure, Outcome,
};
use ironwarp_abi::irq;
use ironwarp_rnic::{Bus, Config, Error, Event, Rnic};
use ironwarp_wire::{ethernet, ipv4};
use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    io::Errno,
};
use serde_json::json;
use std::{net::Ipv4Addr, os::fd::AsFd};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// The adapter's and the interface's address, as 192.0.2.1/24.
    #[arg(long)]
    address: Network,
    /// Next hop for destinations beyond the network.
    #[arg(long)]
    gateway: Option<Ipv4Addr>,
    /// Name of the TAP interface that is made.
    #[arg(long, default_value = "ironwarp0")]
    interface: String,
    /// Ports that the adapter listens on meanwhile; the host's stack sees nothing of them.
    #[arg(long, value_delimiter = ',')]
    listen: Vec<u16>,
    /// Ports of the host's stack that the adapter may never give out.
    #[arg(long, value_delimiter = ',')]
    reserve: Vec<u16>,
}

/// Longest sleep between two looks at the stop flag, nanoseconds.
const LOOK_NS: i64 = 200_000_000;
/// Frames in one direction before the other has its turn.
const BURST: usize = 64;

/// Frames by their fate in this program.
#[derive(Default)]
struct Counts {
    to_host: u64,
    to_host_lost: u64,
    to_wire: u64,
    not_ipv4: u64,
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
    let control = args.control.open()?;
    let config = Config { share: true, ..args.attach.config() };
    let mut rnic = args.attach.attach(config)?;
    rnic.address_add(args.address.address, args.address.prefix, args.gateway)?;
    for port in &args.reserve {
        rnic.reserve_ports(*port, *port)?;
    }
    let mut listeners = Vec::new();
    for port in &args.listen {
        listeners.push(rnic.create_listen(args.address.address, *port, 128)?);
    }
    let mut tap = Tap::create(&args.interface, args.attach.mac, args.address, args.attach.mtu)?;
    let ports: Vec<u16> = listeners.iter().map(|l| l.port).collect();
    if json {
        let text = json!({ "event": "up", "interface": args.interface, "address": args.address.address, "listening": ports });
        line(text.to_string());
    } else {
        line(format!("{} is up with {}/{}; the adapter listens on {ports:?}", args.interface, args.address.address, args.address.prefix));
    }
    let mut counts = Counts::default();
    while !stop.requested() {
        control.answer(&rnic);
        pump(&mut rnic, &mut tap, &mut counts)?;
    }
    report(&mut rnic, &counts, json)?;
    for listener in listeners {
        rnic.destroy_listen(listener)?;
    }
    Ok(true)
}

/// Carries what there is in both directions, then sleeps until there is more.
fn pump<B: Bus>(rnic: &mut Rnic<B>, tap: &mut Tap, counts: &mut Counts) -> Result<(), Failure> {
    let mut frame = Vec::new();
    let mut more = false;
    for burst in 0.. {
        if rnic.recv(&mut frame)?.is_none() {
            break;
        }
        counts.to_host += 1;
        counts.to_host_lost += u64::from(!tap.write(&frame));
        if burst == BURST {
            more = true;
            break;
        }
    }
    let mut blocked = false;
    let mut buffer = [0; 1 << 16];
    for burst in 0.. {
        if rnic.sends_outstanding() >= 1 << rnic.config().l2tx_log2 {
            blocked = true;
            break;
        }
        let Some(len) = tap.read(&mut buffer)? else { break };
        send(rnic, &buffer[..len], counts)?;
        if burst == BURST {
            more = true;
            break;
        }
    }
    // whom the host's stack serves is not the adapter's to accept
    while let Some(event) = rnic.poll_event()? {
        if let Event::ConnectRequest { connection, .. } = event {
            match rnic.reject(&connection, &[]) {
                // the peer has gone meanwhile
                Ok(()) | Err(Error::Refused { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    if !more {
        sleep(rnic, tap, blocked)?;
    }
    Ok(())
}

fn send<B: Bus>(rnic: &mut Rnic<B>, frame: &[u8], counts: &mut Counts) -> Result<(), Failure> {
    let destination = match ethernet::View::new(frame) {
        Ok(view) if view.ethertype() == ethernet::TYPE_IPV4 && !view.tagged() => {
            ipv4::View::new(view.payload()).map(|ip| (view, ip.destination()))
        }
        Ok(_) | Err(_) => Err(ironwarp_wire::Error::Malformed),
    };
    let Ok((view, address)) = destination else {
        // ARP is the adapter's; IPv6 is not known to it
        counts.not_ipv4 += 1;
        return Ok(());
    };
    // the interface has no ARP, so the kernel puts its own address where the next hop's belongs; group addresses are right already
    let resolve = !view.destination().is_multicast() && !address.is_multicast();
    match rnic.send(frame, resolve) {
        Ok(()) => counts.to_wire += 1,
        Err(e @ Error::FrameLength { .. }) => tracing::warn!("frame of the host's stack dropped: {e}"),
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

fn sleep<B: Bus>(rnic: &mut Rnic<B>, tap: &Tap, blocked: bool) -> Result<(), Failure> {
    let causes: &[u32] = if blocked { &[irq::EVENT, irq::L2_RX, irq::L2_TX] } else { &[irq::EVENT, irq::L2_RX] };
    {
        let mut fds: Vec<PollFd> =
            causes.iter().filter_map(|c| rnic.cause_fd(*c)).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if !blocked {
            fds.push(PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: LOOK_NS })) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    rnic.clear(causes.iter().fold(0, |bits, c| bits | 1 << c))?;
    Ok(())
}

fn report<B: Bus>(rnic: &mut Rnic<B>, counts: &Counts, json: bool) -> Result<(), Failure> {
    let l2 = rnic.l2_counts();
    let mut rows = vec![
        ("framesToHost", counts.to_host),
        ("framesToHostLost", counts.to_host_lost),
        ("framesToWire", counts.to_wire),
        ("framesNotIpv4", counts.not_ipv4),
        ("drvL2ReceiveErrors", l2.receive_errors),
        ("drvL2SendErrors", l2.send_errors),
        ("drvL2Pending", l2.pending),
        ("drvL2NoRoom", l2.no_room),
    ];
    rows.extend(stats::moved(rnic)?);
    if json {
        let map: serde_json::Map<_, _> = rows.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        line(json!({ "event": "down", "counters": map }).to_string());
    } else {
        rows.iter().for_each(|(name, value)| line(format!("     {name}: {value}")));
    }
    Ok(())
}
