// SPDX-License-Identifier: MIT OR Apache-2.0
//! `connect`: the adapter opens a connection; its events are shown until it is freed.
use super::stats;
use crate::{
    control::ControlArgs,
    device::{AttachArgs, Network},
    events,
    output::line,
    stop::Stop,
    Outcome,
};
use ironwarp_rnic::{ConnectParam, Event};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    control: ControlArgs,
    /// The adapter's address, as 192.0.2.1/24.
    #[arg(long)]
    address: Network,
    /// Next hop for destinations beyond the network.
    #[arg(long)]
    gateway: Option<Ipv4Addr>,
    /// Whom to connect to, as 192.0.2.2:4791.
    remote: SocketAddrV4,
    /// Own port; 0 = the adapter chooses.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Goes to the peer in the MPA Request.
    #[arg(long, default_value = "")]
    private_data: String,
    /// MPA revision 2, with IRD and ORD.
    #[arg(long)]
    enhanced: bool,
    /// Own IRD.
    #[arg(long, default_value_t = 0)]
    ird: u16,
    /// Own ORD.
    #[arg(long, default_value_t = 0)]
    ord: u16,
    /// Do not ask for CRC.
    #[arg(long)]
    no_crc: bool,
    /// Bound of the set-up in seconds; without it the adapter's own.
    #[arg(long)]
    connect_timeout: Option<f64>,
    /// Seconds that the connection stays open once it is.
    #[arg(long, default_value_t = 0.0)]
    hold: f64,
    /// End it with a reset instead of in order.
    #[arg(long)]
    abort: bool,
    /// Leave its end to the peer.
    #[arg(long, conflicts_with_all = ["abort", "hold"])]
    passive: bool,
}

/// Longest silence between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
    let control = args.control.open()?;
    let mut rnic = args.attach.attach(args.attach.config())?;
    rnic.address_add(args.address.address, args.address.prefix, args.gateway)?;
    let seconds = |s: f64| Duration::try_from_secs_f64(s).map_err(|e| format!("{s} seconds: {e}"));
    let hold = seconds(args.hold)?;
    let param = ConnectParam {
        local: SocketAddrV4::new(args.address.address, args.port),
        private_data: args.private_data.clone().into_bytes(),
        enhanced: args.enhanced,
        ird: args.ird,
        ord: args.ord,
        no_crc: args.no_crc,
        timeout: args.connect_timeout.map(seconds).transpose()?,
        ..ConnectParam::new(args.remote)
    };
    let connection = rnic.connect(&param)?;
    let mut connected = false;
    let mut close_at: Option<Instant> = None;
    let mut stopped = false;
    loop {
        control.answer(&rnic);
        if let Some(event) = rnic.wait_event(LOOK)? {
            line(if json { events::json(&event).to_string() } else { events::text(&event) });
            match event {
                Event::ConnectReply { result, .. } => {
                    connected = result.is_ok();
                    close_at = (connected && !args.passive).then(|| Instant::now() + hold);
                }
                Event::ConnectionFreed { .. } => break,
                _ => {}
            }
        }
        if stop.requested() && !stopped {
            stopped = true;
            rnic.abort(&connection)?;
        }
        if close_at.is_some_and(|at| Instant::now() >= at) {
            close_at = None;
            if args.abort {
                rnic.abort(&connection)?;
            } else {
                rnic.disconnect(&connection)?;
            }
        }
    }
    stats::show_moved(&mut rnic, json)?;
    Ok(connected)
}
