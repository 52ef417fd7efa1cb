// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench`: what connections and data cost. Two Verilated adapters over a wire without length, each with a host whose DMA has no latency, driven by
//! the driver of this workspace in one thread. Every figure is a difference of cycles in which something passed the ports of a model, so
//! equal seeds give equal figures on any machine. Latencies are measured with hosts that need 0 and 1000 cycles for each thing that they learn.
mod goodput;
mod host;
mod latency;
mod pair;
mod rate;
mod session;
mod stamps;

use crate::{output::line, Failure, Outcome};
use goodput::{Flow, Half, CASES, HALVES, LARGE_BUDGET, SMALL_BUDGET};
use host::{Cost, Host};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ironwarp_sim::bus::lock;
use latency::{Row, ALL};
use pair::Pair;
use rate::{Passed, Phase, Rate};
use serde_json::json;
use std::{fs, io::IsTerminal, path::PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// Directory of report/bench.json.
    #[arg(long, default_value = "build")]
    out: PathBuf,
    /// Content of memories at power-up and the adapters' random choices; equal seeds give equal figures.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Set-ups in each sustained run.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    set_ups: u64,
    /// Set-ups whose instructions are counted on the host, on each provider; 0 = leave that out, and valgrind is not needed. An adapter has 32 connections.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(..=31))]
    host_set_ups: u16,
    /// Large messages in each run of the data path, at least 4; of small ones there are 16 times as many, at most 512. 0 = leave that out.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(..=256))]
    messages: u16,
}

/// Host turnarounds of the latencies, cycles.
const TURNAROUNDS: [u32; 2] = [0, 1000];
/// Sustained runs: set-ups under way at any time, and the host's DMA latency in cycles.
const RATES: [(u64, u32); 5] = [(1, 0), (8, 0), (32, 0), (1, 100), (32, 100)];
/// Connections of one part of the way.
const TOGETHER: usize = 32;
/// Budget of set-ups a second at 156.25 MHz.
const RATE_BUDGET: (u64, u64) = (200_000, 1_000_000);

#[derive(Default)]
struct Figures {
    /// By turnaround.
    latency: [Vec<Row>; 2],
    rates: Vec<Rate>,
    phases: Vec<Phase>,
    flows: Vec<Flow>,
    halves: Vec<Half>,
    cycles: u64,
    digest: u64,
    host: Option<Host>,
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let report = args.out.join("report");
    fs::create_dir_all(&report).map_err(|e| format!("{}: {e}; choose another directory with --out", report.display()))?;
    let progress = progress(json, args.set_ups);
    let figures = measure(args, &progress)?;
    progress.finish_and_clear();
    let text = figures.json(args.seed);
    let file = report.join("bench.json");
    fs::write(&file, format!("{text:#}\n")).map_err(|e| format!("{}: {e}", file.display()))?;
    if json {
        line(text.to_string());
    } else {
        figures.print();
        line(format!("\nfigures in {}", file.display()));
    }
    Ok(true)
}

fn progress(json: bool, set_ups: u64) -> ProgressBar {
    let target = if json || !std::io::stderr().is_terminal() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let latencies = ALL.len() * TURNAROUNDS.len();
    let flows = (CASES.len() + HALVES.len()) as u64;
    let length = latencies as u64 + RATES.len() as u64 * set_ups + u64::from(TOGETHER as u32) + flows;
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

fn measure(args: &Args, progress: &ProgressBar) -> Result<Figures, Failure> {
    let mut figures = Figures::default();
    for (turnaround, rows) in TURNAROUNDS.into_iter().zip(&mut figures.latency) {
        let mut pair = Pair::new(args.seed, turnaround, true)?;
        for (name, measure) in ALL {
            progress.set_message(name);
            rows.push(measure(&mut pair, name).map_err(|e| format!("{name}: {e}"))?);
            progress.inc(1);
        }
        figures.cycles += lock(&pair.world).cycle();
        figures.digest = figures.digest.rotate_left(1) ^ pair.end()?;
    }
    let mut pair = Pair::new(args.seed, 0, false)?;
    for (in_flight, latency) in RATES {
        let name = format!("set-ups, {in_flight} in flight, DMA latency {latency}");
        progress.set_message(name.clone());
        figures.rates.push(rate::sustained(&mut pair, in_flight, args.set_ups, latency).map_err(|e| format!("{name}: {e}"))?);
        progress.inc(args.set_ups);
    }
    progress.set_message("parts of the way");
    figures.phases = rate::phases(&mut pair, TOGETHER)?;
    progress.inc(TOGETHER as u64);
    figures.cycles += lock(&pair.world).cycle();
    figures.digest = figures.digest.rotate_left(1) ^ pair.end()?;
    if args.messages > 0 {
        data(args, progress, &mut figures)?;
    }
    if args.host_set_ups > 0 {
        progress.set_message("instructions of the host");
        figures.host = Some(host::measure(args.host_set_ups)?);
    }
    Ok(figures)
}

/// The data path.
fn data(args: &Args, progress: &ProgressBar, figures: &mut Figures) -> Result<(), Failure> {
    let mut window = CASES[0].window;
    let mut pair = Pair::for_data(args.seed, window)?;
    for (name, verb, octets) in HALVES {
        progress.set_message(name);
        figures.halves.push(goodput::half(&mut pair, name, verb, octets).map_err(|e| format!("{name}, each half alone: {e}"))?);
        progress.inc(1);
    }
    for case in &CASES {
        if case.window != window {
            figures.cycles += lock(&pair.world).cycle();
            figures.digest = figures.digest.rotate_left(1) ^ pair.end()?;
            window = case.window;
            pair = Pair::for_data(args.seed, window)?;
        }
        progress.set_message(case.name());
        figures.flows.push(goodput::flow(&mut pair, case, args.messages).map_err(|e| format!("{}: {e}", case.name()))?);
        progress.inc(1);
    }
    figures.cycles += lock(&pair.world).cycle();
    figures.digest = figures.digest.rotate_left(1) ^ pair.end()?;
    Ok(())
}

impl Figures {
    fn json(&self, seed: u32) -> serde_json::Value {
        let [quick, slow] = &self.latency;
        let latency: Vec<_> = quick
            .iter()
            .zip(slow)
            .map(|(quick, slow)| json!({ "name": quick.name, "budget": quick.budget, "turnaround_0": quick, "turnaround_1000": slow }))
            .collect();
        json!({
            "wire": "no length, a beat a cycle",
            "dma_latency_cycles": 0,
            "latency": latency,
            "set_ups": {
                "budget_per_second_at_156_25_mhz": { "first": RATE_BUDGET.0, "goal": RATE_BUDGET.1 },
                "sustained": self.rates,
                "parts": self.phases,
            },
            "data": {
                "budget_percent_of_the_line": {
                    "large": { "first": LARGE_BUDGET.0, "goal": LARGE_BUDGET.1 },
                    "small": { "first": SMALL_BUDGET.0, "goal": SMALL_BUDGET.1 },
                },
                "flows": self.flows,
                "halves": self.halves,
            },
            "host_per_set_up": self.host,
            "model": { "cycles": self.cycles, "seed": seed, "digest": format!("{:016x}", self.digest) },
        })
    }
    fn print(&self) {
        line("Cycles from doorbell to event; the host's own are not counted. Wire and DMA reads are parts of the sum.\n");
        let [quick, slow] = &self.latency;
        for (row, slow) in quick.iter().zip(slow) {
            let budget = row.budget.map(|b| format!(", budget {}, goal {}", b.first, b.goal)).unwrap_or_default();
            line(format!("{}: {} cycles{budget}", row.name, row.hardware_cycles));
            for stage in &row.stages {
                line(format!("  {:>6}  {:<5} {}", stage.cycles, format!("{:?}", stage.of), stage.name));
            }
            for (name, cycles) in &row.aside {
                line(format!("  {cycles:>6}  beside: {name}"));
            }
            line(format!(
                "          wire {}, DMA reads {}; with turnaround 1000: hardware {}, hosts {}\n",
                row.wire_cycles, row.dma_read_cycles, slow.hardware_cycles, slow.host_cycles
            ));
        }
        line(format!("Set-ups, each aborted when connected; budget {} a second at 156.25 MHz, goal {}\n", RATE_BUDGET.0, RATE_BUDGET.1));
        line("  in flight  DMA latency  cycles each  a second at 62.5 MHz  at 156.25 MHz");
        for rate in &self.rates {
            line(format!(
                "  {:>9}  {:>11}  {:>11.1}  {:>20}  {:>13}",
                rate.in_flight, rate.dma_latency, rate.cycles_per_set_up, rate.per_second_at_62_5_mhz, rate.per_second_at_156_25_mhz
            ));
        }
        line("\n  passed for each set-up: in flight, adapter, MMIO writes, commands, events, frames out, beats out and their part of the line");
        for rate in self.rates.iter().filter(|r| r.dma_latency == 0) {
            for (of, passed) in [("A", &rate.a), ("B", &rate.b)] {
                let Passed { mmio_writes, commands, events, frames_out, wire_beats_out, .. } = passed;
                let line_part = 100.0 * wire_beats_out / rate.cycles_per_set_up;
                let counts = format!("{mmio_writes:>5.1} {commands:>5.1} {events:>5.1} {frames_out:>5.1} {wire_beats_out:>6.1}");
                line(format!("  {:>9}  {of} {counts} {line_part:>4.0} %", rate.in_flight));
            }
        }
        line(format!("\nOne part of the way for {TOGETHER} connections at once: cycles for each\n"));
        for phase in &self.phases {
            line(format!("  {}  {:>6.1}  {}", phase.of, phase.cycles_each, phase.name));
        }
        self.print_data();
        if let Some(host) = &self.host {
            print_host(host);
        }
        line(format!("\n{} model cycles, digest {:016x}", self.cycles, self.digest));
    }
    fn print_data(&self) {
        line(
            "\nData of one connection, cycles for each message; the line alone would take so many, and that is the share of the ceiling\n",
        );
        line(format!("  {:<45} {:>7}  {:>17}  {:>15}  budget, goal", "", "line", "cycles", "share"));
        for flow in &self.flows {
            let each = |of: &dyn Fn(&goodput::Direction) -> f64| -> String {
                flow.directions.iter().map(|d| format!("{:.1}", of(d))).collect::<Vec<_>>().join(" ")
            };
            let trouble = match (flow.retransmissions, flow.dropped) {
                (0, 0) => String::new(),
                (again, dropped) => format!("; {again} segments again, {dropped} frames without room"),
            };
            line(format!(
                "  {:<45} {:>7.1}  {:>17}  {:>13} %  {}, {}{trouble}",
                flow.name,
                flow.line_cycles_per_message,
                each(&|d| d.cycles_per_message),
                each(&|d| d.share),
                flow.budget.0,
                flow.budget.1
            ));
        }
        line("\nEach half alone, cycles for each frame: the sender while nothing arrives, the receiver when all is there\n");
        for half in &self.halves {
            let Half { name, frames, line_cycles_per_frame, sender_cycles_per_frame, receiver_cycles_per_frame } = half;
            line(format!(
                "  {name:<20} line {line_cycles_per_frame:>6.1}, sender {sender_cycles_per_frame:>6.1}, receiver {receiver_cycles_per_frame:>6.1} ({frames} frames)"
            ));
        }
    }
}

fn print_host(host: &Host) {
    line(format!("\nThe host's part of a set-up, mean of {} one after the other ({})\n", host.set_ups, host.counted_by));
    line("  provider         end     instructions (user)  register reads, writes  system calls");
    for (provider, ends) in [("adapter", &host.offloaded), ("host's own TCP", &host.host_integrated)] {
        for (end, cost) in [("client", &ends.client), ("server", &ends.server)] {
            let Cost { user_instructions, register_reads, register_writes, system_calls, by_name, .. } = cost;
            let names: Vec<_> = by_name.iter().map(|(name, n)| format!("{name} {n}")).collect();
            line(format!(
                "  {provider:<15}  {end}  {user_instructions:>19.0}  {:>22}  {system_calls:>4.1}: {}",
                format!("{register_reads:.1}, {register_writes:.1}"),
                names.join(", ")
            ));
        }
    }
    line(format!(
        "\n  adapter by host's own TCP, both ends: instructions {:.3}, system calls {:.3}; budget {}, goal {}",
        host.user_ratio, host.system_call_ratio, host.budget.first, host.budget.goal
    ));
}
