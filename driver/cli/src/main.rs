// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ironwarp`: look at, try and use an adapter, simulated or real.
#![deny(unsafe_code)]

mod commands;
mod control;
mod device;
mod endpoint;
mod events;
mod output;
#[cfg(feature = "sim")]
mod scratch;
mod stop;
mod tap;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Any error that reaches the user; its text says what to do.
type Failure = Box<dyn std::error::Error + Send + Sync>;
/// Of a command: did it end well?
type Outcome = Result<bool, Failure>;

/// The open iWARP adapter: look at it, try it, simulate it.
#[derive(Parser)]
#[command(name = "ironwarp", version, about, after_help = "RUST_LOG=debug shows what the driver does.")]
struct Cli {
    /// One JSON value on standard output instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What the adapter is, in the manner of ibv_devinfo -v.
    Devinfo(commands::devinfo::Args),
    /// The adapter's counters, in the manner of ethtool -S.
    Stats(commands::stats::Args),
    /// Listen on ports and wait; accept or reject who comes.
    Listen(commands::listen::Args),
    /// Open a connection and show what becomes of it.
    Connect(commands::connect::Args),
    /// Connections, listeners or ports of a driver that runs with --control.
    Show(commands::show::Args),
    /// Connect the host's own network stack to the adapter's L2 queue through a TAP interface.
    L2(commands::l2::Args),
    /// Try every command of the adapter, its refusals and interrupts; prints PASS or FAIL.
    Selftest(commands::selftest::Args),
    /// Ping-pong by Send, RDMA Read and RDMA Write; talks to librdmacm's rping.
    Rping(commands::rping::Args),
    /// What each step of a connection costs, beside plain sockets.
    Cmtime(commands::cmtime::Args),
    /// Bandwidth and latency of Send, RDMA Write and RDMA Read.
    Perf(commands::perf::Args),
    /// Many connections at once, messages on each.
    Ucmatose(commands::ucmatose::Args),
    /// One end of the set-ups whose instructions `bench` counts.
    #[command(hide = true)]
    SetUps(commands::set_ups::Args),
    /// Serve Verilated adapters behind vfio-user sockets.
    #[cfg(feature = "sim")]
    Sim(commands::sim::Args),
    /// Two Verilated adapters in this process: LISTEN, ping over ARP, connections and every way they end, rping and perf, with cycles.
    #[cfg(feature = "sim")]
    Demo(commands::demo::Args),
    /// What connections and data cost: set-up, close and messages stage by stage in cycles, set-ups and messages a second, goodput.
    #[cfg(feature = "sim")]
    Bench(commands::bench::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into()))
        .with_writer(std::io::stderr)
        .init();
    let json = cli.json;
    let outcome = match cli.command {
        Command::Devinfo(args) => commands::devinfo::run(&args, json),
        Command::Stats(args) => commands::stats::run(&args, json),
        Command::Listen(args) => commands::listen::run(&args, json),
        Command::Connect(args) => commands::connect::run(&args, json),
        Command::Show(args) => commands::show::run(&args, json),
        Command::L2(args) => commands::l2::run(&args, json),
        Command::Selftest(args) => commands::selftest::run(&args, json),
        Command::Rping(args) => commands::rping::run(&args, json),
        Command::Cmtime(args) => commands::cmtime::run(&args, json),
        Command::Perf(args) => commands::perf::run(&args, json),
        Command::Ucmatose(args) => commands::ucmatose::run(&args, json),
        Command::SetUps(args) => commands::set_ups::run(&args, json),
        #[cfg(feature = "sim")]
        Command::Sim(args) => commands::sim::run(&args, json),
        #[cfg(feature = "sim")]
        Command::Demo(args) => commands::demo::run(&args, json),
        #[cfg(feature = "sim")]
        Command::Bench(args) => commands::bench::run(&args, json),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            if json {
                println!("{}", serde_json::json!({ "error": error.to_string() }));
            }
            eprintln!("ironwarp: {error}");
            ExitCode::FAILURE
        }
    }
}
