// SPDX-License-Identifier: MIT OR Apache-2.0
//! `demo`: two Verilated adapters, back to back, each driven by the driver of this workspace in one thread. Every figure is measured in
//! the model, in cycles between what passed its ports; the whole run is made twice, with a host that needs 0 and 1000 cycles for each
//! thing that it learns. Then rping and perf run between the two adapters, as processes. tshark, where it is installed, must see in the capture what the steps and these
//! did, and nothing else.
mod capture;
mod connections;
mod tools;

use super::stats;
use crate::{output::line, Failure, Outcome};
use capture::Found;
use connections::Expected;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ironwarp_abi::{reg, Command, Counter, Opcode, ENTRY_OCTETS};
use ironwarp_rnic::{Config, Connection, Error, Event, Listener, Refusal, Rnic};
use ironwarp_sim::{
    bus::lock,
    wire::{Captured, Link, Timestamps, View, Wire},
    AdapterConfig, InProcessBus, Record, SharedWorld, World,
};
use ironwarp_wire::{ethernet, icmp, ipv4, MacAddr};
use serde::Serialize;
use serde_json::json;
use std::{
    fs,
    io::IsTerminal,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tools::Used;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of demo.pcapng and report/demo.json.
    #[arg(long, default_value = "build")]
    out: PathBuf,
    /// Content of memories at power-up and the adapters' random choices; equal seeds make equal runs.
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

/// Host turnarounds of the two runs, cycles.
const TURNAROUNDS: [u32; 2] = [0, 1000];
/// The core clock that figures in time refer to: 62.5 MHz.
const CYCLE_PICOSECONDS: u64 = 16_000;
/// `TIMEBASE` for it.
const TIMEBASE: u32 = 0x418;
/// Range that port 0 chooses from at B: few ports, so that they run out.
const PORTS: (u16, u16) = (50_000, 50_007);
/// Ports that B's host keeps.
const RESERVED: (u16, u16) = (8080, 8089);
/// Between two ARP requests for one address, microseconds; a second on a real net.
const ARP_RETRY_US: u32 = 500;
/// Longer than the port database needs to take a new range in.
const RANGE_SWEEP: Duration = Duration::from_micros(150);
const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PREFIX: u8 = 24;
/// Octets of data in an echo request, as ping sends.
const PING_OCTETS: usize = 56;
/// Records kept of one step.
const RECORDS: usize = 1 << 16;
/// Bound of every wait, in adapter time.
const BOUND: Duration = Duration::from_millis(20);

/// One measured step of one run.
#[derive(Clone, Serialize)]
struct Step {
    name: &'static str,
    detail: String,
    /// From the doorbell's arrival at the core to the last beat of what it brings to host memory.
    hardware_cycles: u64,
    /// From the driver's call to its return.
    host_cycles: u64,
    /// Parts of `hardware_cycles`, where there are some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(&'static str, u64)>,
}

struct Run {
    steps: Vec<Step>,
    expected: Expected,
    cycles: u64,
    digest: u64,
    world: World,
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let report = args.out.join("report");
    fs::create_dir_all(&report).map_err(|e| format!("{}: {e}; choose another directory with --out", report.display()))?;
    let capture = args.out.join("demo.pcapng");
    let start = Instant::now();
    let progress = progress(json);
    let run = |turnaround, capture| Scenario::new(turnaround, args.seed, capture)?.play(&progress);
    // one capture is enough: the frames of the second run differ only in their times
    let runs = [run(TURNAROUNDS[0], Some(capture.as_path()))?, run(TURNAROUNDS[1], None)?];
    let [quick, slow] = runs;
    // on the wire of the first run, which is captured
    let steps_end = quick.cycles * CYCLE_PICOSECONDS;
    let (world, used) = tools::play(quick.world, |name| {
        progress.set_message(name);
        progress.inc(1);
    })?;
    let cycles = world.cycle() + slow.cycles;
    unbroken(&world)?;
    // the capture is complete
    drop(world);
    progress.finish_and_clear();
    let found = capture::check(&capture, &quick.expected, steps_end)?;
    let took = start.elapsed();
    let runs = [quick.steps, slow.steps];
    let figures = figures(&runs, &used, found.as_ref(), took, cycles, args.seed, quick.digest);
    let file = report.join("demo.json");
    fs::write(&file, format!("{figures:#}\n")).map_err(|e| format!("{}: {e}", file.display()))?;
    if json {
        line(figures.to_string());
    } else {
        print(&runs, &used);
        line(match &found {
            Some(found) => format!("\ntshark: {}", json!(found)),
            None => "\ntshark is not installed: the capture was not looked at".into(),
        });
        line(format!(
            "frames in {}, figures in {}\nPASS: {:.1} s, {cycles} model cycles, {:.0} a second",
            capture.display(),
            file.display(),
            took.as_secs_f64(),
            cycles as f64 / took.as_secs_f64()
        ));
    }
    Ok(true)
}

fn progress(json: bool) -> ProgressBar {
    let target = if json || !std::io::stderr().is_terminal() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, target).with_style(style)
}

fn figures(
    [quick, slow]: &[Vec<Step>; 2],
    used: &[Used],
    found: Option<&Found>,
    took: Duration,
    cycles: u64,
    seed: u32,
    digest: u64,
) -> serde_json::Value {
    let steps: Vec<_> = quick
        .iter()
        .zip(slow)
        .map(|(a, b)| {
            let parts: serde_json::Map<_, _> = a.parts.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
            json!({
                "name": a.name, "detail": a.detail, "hardware_cycles": a.hardware_cycles, "parts": parts,
                "host_cycles": { "turnaround_0": a.host_cycles, "turnaround_1000": b.host_cycles },
            })
        })
        .collect();
    json!({
        "clock_hz": 1_000_000_000_000 / CYCLE_PICOSECONDS,
        "budget_listen_cycles": { "first": 200, "goal": 64 },
        "budget_connect_cycles": { "first": 2000, "goal": 400 },
        "steps": steps,
        "tools": used,
        "tshark": found,
        "model": {
            "cycles": cycles, "seconds": took.as_secs_f64(), "cycles_per_second": (cycles as f64 / took.as_secs_f64()) as u64,
            "seed": seed, "digest": format!("{digest:016x}"),
        },
        "result": "PASS",
    })
}

fn print([quick, slow]: &[Vec<Step>; 2], used: &[Used]) {
    line("Two adapters back to back, Verilated from the emitted Verilog. Cycles of the core clock (16 ns at 62.5 MHz);");
    line("hardware: doorbell to last beat in host memory; host: call to return, when it takes 0 or 1000 cycles to react.\n");
    line(format!("{:<62} {:>8} {:>8} {:>9}", "", "hardware", "host 0", "host 1000"));
    for (a, b) in quick.iter().zip(slow) {
        line(format!("{:<62} {:>8} {:>8} {:>9}", format!("{}: {}", a.name, a.detail), a.hardware_cycles, a.host_cycles, b.host_cycles));
        for (name, cycles) in &a.parts {
            line(format!("    {name:<58} {cycles:>8}"));
        }
    }
    line("\nThis command at both ends, as processes. Hardware: doorbell of a send queue to last beat in host memory before the next doorbell.\n");
    line(format!("{:<62} {:>8} {:>8}", "", "hardware", "all"));
    for Used { name, hardware_cycles, cycles, .. } in used {
        line(format!("{name:<62} {hardware_cycles:>8} {cycles:>8}"));
    }
}

/// The two adapters and their drivers.
struct Scenario {
    world: SharedWorld,
    a: Rnic<InProcessBus>,
    b: Rnic<InProcessBus>,
    /// The listener of the first step.
    listener: Option<Listener>,
    /// That of the connections, and the one that is open: A's end, B's end.
    peer_listener: Option<Listener>,
    open: Option<(Connection, Connection)>,
    expected: Expected,
    steps: Vec<Step>,
}

/// A step under its name.
type Action = fn(&mut Scenario, &'static str) -> Result<(), Failure>;

const ID_A: usize = 0;
const ID_B: usize = 1;

impl Scenario {
    fn new(turnaround: u32, seed: u32, capture: Option<&Path>) -> Result<Self, Failure> {
        let mut world = World::new(turnaround);
        let names = ["a", "b"];
        let ids: Vec<_> = (u64::from(seed)..).zip(names).map(|(seed, name)| world.add(&AdapterConfig::new(name, seed))).collect();
        let mut wire: Box<dyn Wire> = Box::new(Link::new(0));
        if let Some(path) = capture {
            let stamps = Timestamps::Cycles { picoseconds: CYCLE_PICOSECONDS };
            let captured = Captured::new(wire, path, &names, View::Sent, stamps);
            wire = Box::new(captured.map_err(|e| format!("{}: {e}; choose another directory with --out", path.display()))?);
        }
        world.connect(wire, &ids);
        let world: SharedWorld = Arc::new(Mutex::new(world));
        let attach = |id: usize, last_octet: u8, port_range| {
            let config = Config {
                mac: MacAddr([0x02, 0x1b, 0xad, 0, 0, last_octet]),
                timebase: Some(TIMEBASE),
                random: Some(seed.wrapping_mul(0x9e37_79b9).wrapping_add(id as u32)),
                port_range,
                share: true,
                tcp: connections::tcp(),
                arp_retry_us: Some(ARP_RETRY_US),
                l2rx_log2: 4,
                l2tx_log2: 4,
                command_timeout: BOUND,
                reset_timeout: Duration::from_millis(100),
                ..Config::default()
            };
            Rnic::attach(InProcessBus::new(&world, id), config)
        };
        let (a, b) = (attach(ID_A, 1, Config::default().port_range)?, attach(ID_B, 2, PORTS)?);
        Ok(Scenario { world, a, b, listener: None, peer_listener: None, open: None, expected: Expected::default(), steps: Vec::new() })
    }

    /// Every step in order; the last checks that nothing is left.
    fn play(mut self, progress: &ProgressBar) -> Result<Run, Failure> {
        let steps: &[(&str, Action)] = &[
            ("B LISTEN port 0", Self::listen_any),
            ("B LISTEN, port taken", Self::listen_taken),
            ("B LISTEN, port reserved", Self::listen_reserved),
            ("B UNLISTEN", Self::unlisten),
            ("B LISTEN, range exhausted", Self::exhausted),
            ("A pings B, next hop unknown", Self::ping),
            ("A pings B, next hop known", Self::ping),
            ("A connects, B accepts", Self::connect),
            ("A closes in order", Self::close),
            ("A connects, B rejects", Self::reject),
            ("A aborts", Self::abort),
            ("A connects, nobody listens", Self::nobody_listens),
            ("A connects, no ARP answer", Self::no_arp_answer),
            ("A connects, SYN unanswered", Self::syn_unanswered),
            ("A connects with every slot", Self::all_slots),
            ("B UNLISTEN, stale handle", Self::nothing_left),
        ];
        progress.set_length((steps.len() * TURNAROUNDS.len()) as u64 + tools::COUNT);
        self.a.address_add(A, PREFIX, None)?;
        self.b.address_add(B, PREFIX, None)?;
        // the port database takes B's range in (5 clocks for each of its 1024 words); requests would wait for that
        self.b.wait_causes(0, RANGE_SWEEP)?;
        for (name, step) in steps {
            progress.set_message(*name);
            step(&mut self, name).map_err(|e| format!("{name}: {e}"))?;
            progress.inc(1);
        }
        let Scenario { world, a, b, expected, steps, .. } = self;
        drop((a, b));
        let world = Arc::into_inner(world).ok_or("somebody still uses the adapters")?;
        let mut world = world.into_inner().unwrap_or_else(PoisonError::into_inner);
        world.rest();
        unbroken(&world)?;
        Ok(Run { steps, expected, cycles: world.cycle(), digest: world.digest(), world })
    }

    /// Carries `call` out at adapter `id`; what passed its ports meanwhile, and the cycles from call to return.
    fn record<T>(&mut self, id: usize, call: impl FnOnce(&mut Self) -> Result<T, Error>) -> (Result<T, Error>, Vec<Record>, u64) {
        lock(&self.world).adapter_mut(id).recorder_mut().keep(RECORDS);
        let before = lock(&self.world).cycle();
        let result = call(self);
        let mut world = lock(&self.world);
        let cycles = world.cycle() - before;
        let records = world.adapter_mut(id).recorder_mut().take();
        (result, records, cycles)
    }
    /// One command at B, and its figures as a step; `judge` says what the result must be, and what to show of it.
    fn command<T, U>(
        &mut self,
        name: &'static str,
        call: impl FnOnce(&mut Rnic<InProcessBus>) -> Result<T, Error>,
        judge: impl FnOnce(Result<T, Error>) -> Result<(U, String), Failure>,
    ) -> Result<U, Failure> {
        let (result, records, host_cycles) = self.record(ID_B, |s| call(&mut s.b));
        let (value, detail) = judge(result)?;
        let hardware_cycles = command_cycles(&records).ok_or("the doorbell or the event is not among the records")?;
        self.done(Step { name, detail, hardware_cycles, host_cycles, parts: Vec::new() });
        Ok(value)
    }
    fn done(&mut self, step: Step) {
        tracing::info!(step.name, step.detail, step.hardware_cycles, step.host_cycles);
        self.steps.push(step);
    }
    /// A LISTEN that must be refused.
    fn refused(&mut self, name: &'static str, port: u16, expected: Refusal) -> Result<(), Failure> {
        self.command(
            name,
            |b| b.create_listen(Ipv4Addr::UNSPECIFIED, port, 8),
            |result| match result {
                Err(Error::Refused { refusal, .. }) if refusal == expected => Ok(((), format!("{port} -> status {}", refusal.status()))),
                other => Err(format!("{expected:?} expected, came {other:?}").into()),
            },
        )
    }
    fn listener(&self) -> Result<Listener, Failure> {
        self.listener.ok_or_else(|| "no listener".into())
    }

    fn listen_any(&mut self, name: &'static str) -> Result<(), Failure> {
        let listener = self.command(
            name,
            |b| b.create_listen(Ipv4Addr::UNSPECIFIED, 0, 8),
            |result| {
                let listener = result?;
                if !(PORTS.0..=PORTS.1).contains(&listener.port) {
                    return Err(format!("port {} is outside {PORTS:?}", listener.port).into());
                }
                Ok((listener, format!("LISTEN_REPLY, port {}", listener.port)))
            },
        )?;
        self.listener = Some(listener);
        Ok(())
    }
    fn listen_taken(&mut self, name: &'static str) -> Result<(), Failure> {
        let port = self.listener()?.port;
        self.refused(name, port, Refusal::AddressInUse { port })
    }
    fn listen_reserved(&mut self, name: &'static str) -> Result<(), Failure> {
        self.b.reserve_ports(RESERVED.0, RESERVED.1)?;
        let port = RESERVED.0 + 1;
        self.refused(name, port, Refusal::Reserved { port })?;
        Ok(self.b.unreserve_ports(RESERVED.0, RESERVED.1)?)
    }
    fn unlisten(&mut self, name: &'static str) -> Result<(), Failure> {
        let listener = self.listener()?;
        self.command(
            name,
            |b| b.destroy_listen(listener),
            |result| {
                result?;
                Ok(((), format!("FREED, port {}", listener.port)))
            },
        )
    }
    fn exhausted(&mut self, name: &'static str) -> Result<(), Failure> {
        let listeners = PORTS.0..=PORTS.1;
        let listeners: Vec<_> = listeners.map(|_| self.b.create_listen(Ipv4Addr::UNSPECIFIED, 0, 8)).collect::<Result<_, _>>()?;
        let mut ports: Vec<_> = listeners.iter().map(|l| l.port).collect();
        ports.sort_unstable();
        if !ports.iter().copied().eq(PORTS.0..=PORTS.1) {
            return Err(format!("every port of {PORTS:?} once expected, came {ports:?}").into());
        }
        self.refused(name, 0, Refusal::NoPorts)?;
        for listener in listeners {
            self.b.destroy_listen(listener)?;
        }
        Ok(())
    }

    fn ping(&mut self, name: &'static str) -> Result<(), Failure> {
        let asked_before = self.a.device().counter(Counter::ArpOutRequests)?;
        let sequence = self.steps.len() as u16;
        let frame = echo_request(sequence)?;
        let mut reply = Vec::new();
        let (result, records, host_cycles) = self.record(ID_A, |s| {
            s.a.send(&frame, true)?;
            s.a.recv_wait(&mut reply, BOUND)
        });
        if result?.is_none() {
            return Err(format!(
                "no echo reply within {BOUND:?}; A: {:?} {:?}; B: {:?}",
                stats::moved(&mut self.a)?,
                self.a.l2_counts(),
                stats::moved(&mut self.b)?
            )
            .into());
        }
        check_reply(&reply, sequence)?;
        let asked = self.a.device().counter(Counter::ArpOutRequests)? - asked_before;
        let first = name.ends_with("unknown");
        if asked != u64::from(first) {
            return Err(format!("{asked} ARP requests").into());
        }
        let parts = ping_parts(&records, first).ok_or("frames or descriptors are not among the records")?;
        let detail = if first { "ARP resolved in hardware".into() } else { "from the neighbour cache".into() };
        let hardware_cycles = parts.iter().map(|part| part.1).sum();
        self.done(Step { name, detail, hardware_cycles, host_cycles, parts });
        Ok(())
    }

    /// A handle of the past is refused, and the adapter is as it was at the start.
    fn nothing_left(&mut self, name: &'static str) -> Result<(), Failure> {
        let handle = self.listener()?.handle;
        self.command(
            name,
            |b| b.call_raw(Command { opcode: Opcode::Unlisten as u8, handle, ..Command::default() }),
            |result| match result? {
                Event::Refused { refusal: Refusal::NoEntry, .. } => Ok(((), format!("status {}", Refusal::NoEntry.status()))),
                other => Err(format!("{other:?}").into()),
            },
        )?;
        self.nothing_open()?;
        let live = self.b.devinfo()?.listeners_live;
        let (made, freed) = (self.b.device().counter(Counter::ListenCreated)?, self.b.device().counter(Counter::ListenDestroyed)?);
        let odd: u64 = self.a.oddities().rows().iter().chain(&self.b.oddities().rows()).map(|row| row.1).sum();
        if live != 0 || made != freed || odd != 0 {
            return Err(format!("{live} listeners live, {made} made, {freed} freed, {odd} odd events").into());
        }
        Ok(())
    }
}

/// The adapters kept the rules of their ports.
fn unbroken(world: &World) -> Result<(), Failure> {
    let broken: Vec<_> = world.adapters().iter().flat_map(|adapter| adapter.violations().iter().map(|v| format!("{v:?}"))).collect();
    match broken.is_empty() {
        true => Ok(()),
        false => Err(format!("rules of the core's ports were broken: {}", broken.join(", ")).into()),
    }
}

/// From the doorbell's arrival to the last beat of the next event.
fn command_cycles(records: &[Record]) -> Option<u64> {
    let mut records = records.iter();
    let doorbell = records.find_map(|r| match r {
        Record::MmioWrite { cycle, offset, .. } if u32::from(*offset) == reg::CMD_TAIL => Some(*cycle),
        _ => None,
    })?;
    let event = records.find_map(|r| match r {
        Record::WriteRequest { iova, len, .. } if usize::from(*len) == ENTRY_OCTETS => Some(*iova),
        _ => None,
    })?;
    let end = records.find_map(|r| match r {
        Record::WriteBeat { cycle, iova, last: true } if (event..event + ENTRY_OCTETS as u64).contains(iova) => Some(*cycle),
        _ => None,
    })?;
    Some(end - doorbell)
}

/// Times between the doorbell, the frames, and the descriptor that tells the host of the reply.
fn ping_parts(records: &[Record], resolve: bool) -> Option<Vec<(&'static str, u64)>> {
    let mut records = records.iter();
    let mut at = records.find_map(|r| match r {
        Record::MmioWrite { cycle, offset, .. } if u32::from(*offset) == reg::L2TX_TAIL => Some(*cycle),
        _ => None,
    })?;
    let mut parts = Vec::new();
    let mut part = |name, cycle: u64| {
        parts.push((name, cycle.checked_sub(at)?));
        at = cycle;
        Some(())
    };
    let frame = |records: &mut std::slice::Iter<'_, Record>, out: bool| {
        records.find_map(|r| match r {
            Record::FrameOut { first, last, .. } if out => Some((*first, *last)),
            Record::FrameIn { first, last, .. } if !out => Some((*first, *last)),
            _ => None,
        })
    };
    if resolve {
        let (first, last) = frame(&mut records, true)?;
        part("doorbell to first beat of the ARP request", first)?;
        let (_, reply) = frame(&mut records, false)?;
        part("ARP request on the wire", last)?;
        part("ARP reply back", reply)?;
    }
    let (first, last) = frame(&mut records, true)?;
    part(if resolve { "ARP reply in to first beat of the echo request" } else { "doorbell to first beat of the echo request" }, first)?;
    part("echo request on the wire", last)?;
    let (_, reply) = frame(&mut records, false)?;
    part("echo reply back from B's hardware", reply)?;
    // the descriptor comes after the frame: the last beat before the interrupt
    let told = records
        .take_while(|r| !matches!(r, Record::Interrupt { vector, .. } if u32::from(*vector) == ironwarp_abi::irq::L2_RX))
        .filter_map(|r| match r {
            Record::WriteBeat { cycle, last: true, .. } => Some(*cycle),
            _ => None,
        })
        .last()?;
    part("echo reply in host memory, descriptor written", told)?;
    Some(parts)
}

/// Data of the echo request.
fn ping_data() -> [u8; PING_OCTETS] {
    std::array::from_fn(|n| n as u8)
}

fn echo_request(sequence: u16) -> Result<Vec<u8>, Failure> {
    let data = ping_data();
    let message = icmp::Message::EchoRequest { identifier: 0x1997, sequence, data: &data };
    let mut frame = vec![0; ethernet::HEADER_OCTETS + ipv4::HEADER_OCTETS + message.len()];
    // both MAC addresses are the adapter's to fill in
    let ethernet =
        ethernet::Header { destination: MacAddr::default(), source: MacAddr::default(), tag: None, ethertype: ethernet::TYPE_IPV4 };
    let mut at = ethernet.emit(&mut frame)?;
    at += ipv4::Header::new(A, B, ipv4::PROTOCOL_ICMP, message.len() as u16).emit(&mut frame[at..])?;
    message.emit(&mut frame[at..])?;
    Ok(frame)
}

fn check_reply(frame: &[u8], expected: u16) -> Result<(), Failure> {
    let (_, datagram) = ethernet::Header::parse(frame)?;
    let (header, payload) = ipv4::Header::parse(datagram)?;
    match icmp::Message::parse(payload)? {
        icmp::Message::EchoReply { identifier: 0x1997, sequence, data }
            if sequence == expected && data == ping_data() && (header.source, header.destination) == (B, A) =>
        {
            Ok(())
        }
        other => Err(format!("{} -> {}: {other:?}", header.source, header.destination).into()),
    }
}
