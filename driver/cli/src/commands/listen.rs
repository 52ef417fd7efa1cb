// SPDX-License-Identifier: MIT OR Apache-2.0
//! `listen`: the adapter listens on the ports given, and accepts or rejects who comes; with `--once` the listeners are ended again at
//! once, else when the user has enough.
use super::stats;
use crate::{
    control::ControlArgs,
    device::{AttachArgs, Network},
    events,
    output::line,
    stop::Stop,
    Outcome,
};
use ironwarp_rnic::{AcceptParam, Error, Event};
use serde_json::json;
use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

/// Bound of the wait for connections to end after their listener.
const ENDING: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// Ports; 0 = the adapter chooses.
    #[arg(default_value = "0")]
    ports: Vec<u16>,
    /// Give the adapter this address first, as 192.0.2.1/24; it is what the listeners are bound to.
    #[arg(long)]
    address: Option<Network>,
    /// Most half-open connections, and most that wait for accept.
    #[arg(long, default_value_t = 128)]
    backlog: u16,
    /// End as soon as every listener lives.
    #[arg(long)]
    once: bool,
    /// Accept every connection; without it, each is rejected.
    #[arg(long)]
    accept: bool,
    /// Reject those whose private data begins with this, though --accept is given.
    #[arg(long, requires = "accept")]
    reject_prefix: Option<String>,
    /// Goes to the peer in the MPA Reply.
    #[arg(long, default_value = "")]
    private_data: String,
    /// Own IRD of what is accepted.
    #[arg(long, default_value_t = 0)]
    ird: u16,
    /// Own ORD of what is accepted.
    #[arg(long, default_value_t = 0)]
    ord: u16,
    /// End what is accepted at once: in order.
    #[arg(long, requires = "accept")]
    close: bool,
}

/// Longest silence between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(200);

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
    let control = args.control.open()?;
    let mut rnic = args.attach.attach(args.attach.config())?;
    let local = match args.address {
        Some(network) => {
            rnic.address_add(network.address, network.prefix, None)?;
            network.address
        }
        None => Ipv4Addr::UNSPECIFIED,
    };
    let mut listeners = Vec::new();
    for port in &args.ports {
        let listener = rnic.create_listen(local, *port, args.backlog)?;
        listeners.push(listener);
        if json {
            line(json!({ "event": "listening", "address": local, "port": listener.port, "handle": listener.handle.0 }).to_string());
        } else {
            line(format!("listening on {local}:{} (handle {:#x})", listener.port, listener.handle.0));
        }
    }
    while !args.once && !stop.requested() {
        control.answer(&rnic);
        let Some(event) = rnic.wait_event(LOOK)? else { continue };
        events::tell(&event, json);
        let outcome = match event {
            Event::ConnectRequest { connection, start, .. } => {
                let unwanted = args.reject_prefix.as_ref().is_some_and(|p| start.private_data.starts_with(p.as_bytes()));
                let private_data = args.private_data.clone().into_bytes();
                if args.accept && !unwanted {
                    rnic.accept(&connection, &AcceptParam { private_data, ird: args.ird, ord: args.ord, ..AcceptParam::default() })
                } else {
                    rnic.reject(&connection, &private_data)
                }
            }
            Event::Established { connection, .. } if args.close => rnic.disconnect(&connection),
            _ => Ok(()),
        };
        match outcome {
            // the peer has gone meanwhile
            Err(e @ Error::Refused { .. }) => {
                line(if json { json!({ "event": "refused", "text": e.to_string() }).to_string() } else { e.to_string() })
            }
            other => other?,
        }
    }
    for listener in listeners {
        rnic.destroy_listen(listener)?;
        if json {
            line(json!({ "event": "freed", "port": listener.port, "handle": listener.handle.0 }).to_string());
        } else {
            line(format!("freed {local}:{}", listener.port));
        }
    }
    // nobody is left to serve what lives on, a peer that went without a word among it: it is reset, as when the process dies (CM-42)
    for row in rnic.connection_rows() {
        rnic.abort(&row.connection)?;
    }
    // of half-open connections no event tells: they end with their listener, but a little later
    let last = Instant::now() + ENDING;
    while rnic.connections() > 0 || rnic.devinfo()?.connections_live > 0 {
        if Instant::now() > last {
            return Err(
                format!("{} connections are not freed after their end; see `ironwarp stats`", rnic.devinfo()?.connections_live).into()
            );
        }
        if let Some(event) = rnic.wait_event(ENDING / 200)? {
            events::tell(&event, json);
        }
    }
    while let Some(event) = rnic.poll_event()? {
        events::tell(&event, json);
    }
    stats::show_moved(&mut rnic, json)?;
    Ok(true)
}
