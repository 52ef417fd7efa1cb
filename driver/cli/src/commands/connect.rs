// SPDX-License-Identifier: MIT OR Apache-2.0
//! `connect`: the adapter opens a connection; its events are shown until it is freed.
use super::stats;
use crate::{
    control::ControlArgs,
    device::{pause, seconds, AttachArgs, Network},
    events,
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
    #[arg(long, value_parser = seconds)]
    connect_timeout: Option<f64>,
    /// Seconds that the connection stays open once it is.
    #[arg(long, default_value_t = 0.0, value_parser = pause)]
    hold: f64,
    /// End it with a reset instead of in order.
    #[arg(long)]
    abort: bool,
    /// Leave its end to the peer.
    #[arg(long, conflicts_with_all = ["abort", "hold"])]
    passive: bool,
}

/// Bound of the wait for the end after the user's.
const ENDING: Duration = Duration::from_secs(2);
/// Longest silence between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
    let control = args.control.open()?;
    let mut rnic = args.attach.attach(args.attach.config())?;
    rnic.address_add(args.address.address, args.address.prefix, args.gateway)?;
    let hold = Duration::from_secs_f64(args.hold);
    let param = ConnectParam {
        local: SocketAddrV4::new(args.address.address, args.port),
        private_data: args.private_data.clone().into_bytes(),
        enhanced: args.enhanced,
        ird: args.ird,
        ord: args.ord,
        no_crc: args.no_crc,
        timeout: args.connect_timeout.map(Duration::from_secs_f64),
        ..ConnectParam::new(args.remote)
    };
    let connection = rnic.connect(&param)?;
    let mut connected = false;
    let mut close_at: Option<Instant> = None;
    let mut stopped: Option<Instant> = None;
    loop {
        control.answer(&rnic);
        if let Some(event) = rnic.wait_event(LOOK)? {
            events::tell(&event, json);
            match event {
                Event::ConnectReply { result, .. } => {
                    connected = result.is_ok();
                    close_at = (connected && !args.passive).then(|| Instant::now() + hold);
                }
                Event::ConnectionFreed { .. } => break,
                _ => {}
            }
        }
        if stop.requested() && stopped.is_none() {
            stopped = Some(Instant::now());
            rnic.abort(&connection)?;
        }
        if stopped.is_some_and(|at| at.elapsed() > ENDING) {
            return Err("the adapter does not free the connection after ABORT; see `ironwarp stats`".into());
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
