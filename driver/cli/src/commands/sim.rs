// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sim`: Verilated adapters behind vfio-user sockets, with a wire that is a cable between two, or a TAP interface.
use crate::{output::line, stop::Stop, Failure, Outcome};
use ironwarp_sim::{
    server::{Pace, SimServer},
    wire::{Captured, FaultRates, Faulty, Frame, Link, SentFrame, TapDevice, Timestamps, View, Wire},
    AdapterConfig, LineRate, World,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

#[derive(clap::Args)]
pub struct Args {
    /// Socket to serve an adapter at; given twice: two adapters, back to back.
    #[arg(long, required = true)]
    socket: Vec<PathBuf>,
    /// Connect the adapter to this TAP interface; it is made if it is not there.
    #[arg(long)]
    tap: Option<String>,
    /// Faults of the wire in both directions, each as a part of all frames: loss=0.02,reorder=0.01 (duplication, corruption, delay too).
    #[arg(long)]
    faults: Option<FaultRates>,
    /// Write what the wire carries into this pcapng file.
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// auto, free, or model cycles per second of wall time.
    #[arg(long, default_value = "auto")]
    pace: PaceArg,
    /// Content of memories at power-up.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Delay of the cable between two adapters, in cycles.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// Rate of the line: full (a beat in every clock) or gigabit (1 Gbit/s at a clock of 62.5 MHz).
    #[arg(long, value_enum, default_value_t = Line::Full)]
    line: Line,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Line {
    Full,
    Gigabit,
}

impl From<Line> for LineRate {
    fn from(line: Line) -> Self {
        match line {
            Line::Full => LineRate::FULL,
            Line::Gigabit => LineRate::GIGABIT_AT_62_5_MHZ,
        }
    }
}

#[derive(Clone, Copy)]
struct PaceArg(Pace);

impl FromStr for PaceArg {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Ok(PaceArg(match s {
            "auto" => Pace::Auto,
            "free" => Pace::Free,
            rate => match rate.parse() {
                Ok(rate) if rate > 0 => Pace::Wall { rate },
                _ => return Err("write auto, free, or a number of cycles per second".into()),
            },
        }))
    }
}

/// Names of adapters in captures and messages.
const NAMES: [&str; 2] = ["a", "b"];

/// A port with nothing plugged in: what is sent is lost.
struct Unplugged;

impl Wire for Unplugged {
    fn ends(&self) -> usize {
        1
    }
    fn send(&mut self, _end: usize, _sent: SentFrame) {}
    fn receive(&mut self, _end: usize, _now: u64) -> Option<Frame> {
        None
    }
    fn idle(&self) -> bool {
        true
    }
}

fn world(args: &Args) -> Result<World, Failure> {
    if args.socket.len() > NAMES.len() {
        return Err("at most two sockets: one adapter alone, or two back to back".into());
    }
    if args.socket.len() == 2 && args.tap.is_some() {
        return Err("two adapters are connected to each other; give --tap with one --socket only".into());
    }
    let mut world = World::new(0);
    let names = &NAMES[..args.socket.len()];
    let config = |(seed, name): (u64, &&str)| AdapterConfig { line: args.line.into(), ..AdapterConfig::new(name, seed) };
    let ids: Vec<_> = (args.seed..).zip(names).map(|adapter| world.add(&config(adapter))).collect();
    let wire: Box<dyn Wire> = match &args.tap {
        Some(name) => Box::new(TapDevice::open(name, true)?),
        None if ids.len() == 2 => Box::new(Link::new(args.delay)),
        None => Box::new(Unplugged),
    };
    let wire = match args.faults {
        Some(rates) => Box::new(Faulty::new(wire, rates, args.seed).0),
        None => wire,
    };
    let wire = match &args.pcap {
        Some(path) => {
            let (view, stamps) = match args.tap {
                Some(_) => (View::End(0), Timestamps::Wall),
                None => (View::Sent, Timestamps::Wall),
            };
            let captured = Captured::new(wire, path, names, view, stamps).map_err(|e| format!("{}: {e}", path.display()))?;
            Box::new(captured)
        }
        None => wire,
    };
    world.connect(wire, &ids);
    Ok(world)
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let stop = Stop::on_signals()?;
    let world = world(args)?;
    let sockets: Vec<&Path> = args.socket.iter().map(PathBuf::as_path).collect();
    let server = SimServer::start(world, &sockets, args.pace.0)?;
    if json {
        line(json!({ "event": "serving", "sockets": sockets, "clocks_per_second": server.clocks_per_second() }).to_string());
    } else {
        for socket in &sockets {
            line(format!("adapter at sim:{}", socket.display()));
        }
        line(format!("{} model cycles per second of wall time; Ctrl-C ends", server.clocks_per_second()));
    }
    while !stop.sleep(Duration::from_secs(1)) {}
    let (cycles, speed, violations) = (server.cycles(), server.speed(), server.violations());
    drop(server.stop());
    if json {
        line(json!({ "event": "stopped", "cycles": cycles, "cycles_per_second": speed as u64, "violations": violations }).to_string());
    } else {
        line(format!("{cycles} cycles, {:.0} a second while running, {violations} rules of the ports broken", speed));
    }
    Ok(violations == 0)
}
