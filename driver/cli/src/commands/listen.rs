// SPDX-License-Identifier: MIT OR Apache-2.0
//! `listen`: the adapter listens on the ports given; with `--once` the listeners are ended again at once, else when the user has enough.
use super::stats;
use crate::{
    device::{AttachArgs, Network},
    output::line,
    stop::Stop,
    Outcome,
};
use ironwarp_rnic::Event;
use serde_json::json;
use std::{net::Ipv4Addr, time::Duration};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    attach: AttachArgs,
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
}

/// Longest silence between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(200);

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
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
        if let Some(event) = rnic.wait_event(LOOK)? {
            match event {
                Event::Async { code, handle } if json => {
                    line(json!({ "event": "async", "code": code, "handle": handle.0 }).to_string());
                }
                event if json => line(json!({ "event": format!("{event:?}") }).to_string()),
                event => line(format!("event: {event:?}")),
            }
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
    let moved = stats::moved(&mut rnic)?;
    if json {
        let map: serde_json::Map<_, _> = moved.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        line(json!({ "event": "stats", "counters": map }).to_string());
    } else {
        moved.iter().for_each(|(name, value)| line(format!("     {name}: {value}")));
    }
    Ok(true)
}
