// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's data: this command's `rping` and `perf` as anybody would call them. Each end is a process with the driver, the verbs and rdma_cm, its adapter behind a vfio-user
//! socket; the wire, and its capture, are those of the steps before. The processes take the time they take, so the cycles of the whole differ from run to run. The hardware's own
//! do not contain it: from each doorbell of a send queue to the last beat in host memory before the next doorbell.
use crate::{scratch::Directory, Failure};
use ironwarp_abi::reg;
use ironwarp_sim::{
    server::{Pace, SimServer},
    Record, World,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// One call at each end, and what the client must report.
struct Tool {
    name: &'static str,
    server: &'static str,
    client: &'static str,
    says: (&'static str, u64),
}

const TOOLS: [Tool; 9] = [
    Tool {
        name: "rping, 3 rounds of 64 octets, verified",
        server: "rping -s -S 64 -V",
        client: "rping -c -a 192.0.2.2 -S 64 -C 3 -V",
        says: ("rounds", 3),
    },
    Tool {
        name: "rping, 2 rounds of 5000 octets, verified",
        server: "rping -s -S 5000 -V",
        client: "rping -c -a 192.0.2.2 -S 5000 -C 2 -V",
        says: ("rounds", 2),
    },
    Tool {
        name: "rping, 1 round of 100000 octets, verified",
        server: "rping -s -S 100000 -V",
        client: "rping -c -a 192.0.2.2 -S 100000 -C 1 -V",
        says: ("rounds", 1),
    },
    Tool {
        name: "perf send bw, 8 of 65536 octets",
        server: "perf send bw -e -s 65536 -n 8",
        client: "perf send bw -e -s 65536 -n 8 192.0.2.2",
        says: ("iterations", 8),
    },
    Tool {
        name: "perf write bw, 8 of 65536 octets",
        server: "perf write bw -e -s 65536 -n 8",
        client: "perf write bw -e -s 65536 -n 8 192.0.2.2",
        says: ("iterations", 8),
    },
    Tool {
        name: "perf read bw, 8 of 65536 octets",
        server: "perf read bw -e -s 65536 -n 8",
        client: "perf read bw -e -s 65536 -n 8 192.0.2.2",
        says: ("iterations", 8),
    },
    Tool {
        name: "perf send lat, 5 of 64 octets",
        server: "perf send lat -e -s 64 -n 5",
        client: "perf send lat -e -s 64 -n 5 192.0.2.2",
        says: ("iterations", 5),
    },
    Tool {
        name: "perf write lat, 5 of 64 octets",
        server: "perf write lat -e -s 64 -n 5",
        client: "perf write lat -e -s 64 -n 5 192.0.2.2",
        says: ("iterations", 5),
    },
    Tool {
        name: "perf read lat, 5 of 64 octets",
        server: "perf read lat -e -s 64 -n 5",
        client: "perf read lat -e -s 64 -n 5 192.0.2.2",
        says: ("iterations", 5),
    },
];

pub(super) const COUNT: u64 = TOOLS.len() as u64;
/// Connections that they make: rping one, perf two.
pub(super) const CONNECTIONS: u64 = 3 + 6 * 2;
/// Records kept of one tool.
const RECORDS: usize = 1 << 21;
/// Bound of each wait for a process.
const BOUND: Duration = Duration::from_secs(120);
/// Adapter time goes by the speed that the model had at its start; a model that is slower than that must not repeat what is on its way.
const TCP: &str = "rto_init_us=5000000,rto_min_us=5000000";
const PAUSE: Duration = Duration::from_millis(20);

/// What one of them took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Used {
    pub(super) name: &'static str,
    /// See the module.
    pub(super) hardware_cycles: u64,
    /// From the first doorbell of a send queue to the last beat in host memory, the processes included.
    pub(super) cycles: u64,
    /// Work requests' doorbells at both ends.
    pub(super) doorbells: usize,
    /// What the client reports; its times are wall time.
    pub(super) report: Value,
}

/// A process that ends with this.
struct Running(Option<Child>);

impl Running {
    fn start(command: &str, directory: &Path, adapter: &str, address: &str, mac: &str) -> Result<Self, Failure> {
        let socket = directory.join(adapter);
        let child = Command::new(std::env::current_exe()?)
            .arg("--json")
            .args(command.split_whitespace())
            .args(["--address", address, "--mac", mac, "--timeout", "60", "--tcp", TCP, "--device"])
            .arg(format!("sim:{}", socket.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Running(Some(child)))
    }
    fn over(&mut self) -> Result<bool, Failure> {
        Ok(match &mut self.0 {
            Some(child) => child.try_wait()?.is_some(),
            None => true,
        })
    }
    /// Waits for its end; what it printed, however it ended.
    fn output(mut self, what: &str) -> Result<Output, Failure> {
        let start = Instant::now();
        while !self.over()? {
            if start.elapsed() > BOUND {
                return Err(format!("{what} does not end").into());
            }
            std::thread::sleep(PAUSE);
        }
        match self.0.take() {
            Some(child) => Ok(child.wait_with_output()?),
            None => Err(format!("{what} is gone").into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn good(output: Output, what: &str) -> Result<String, Failure> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{what}: {text}{}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// The client's report. A client that is early is refused, and comes again.
fn call(tool: &Tool, directory: &Path) -> Result<Value, Failure> {
    let mut server = Running::start(tool.server, directory, "b", "192.0.2.2/24", "02:1b:ad:00:00:02")?;
    let start = Instant::now();
    let text = loop {
        let client = Running::start(tool.client, directory, "a", "192.0.2.1/24", "02:1b:ad:00:00:01")?.output("the client")?;
        if client.status.success() || server.over()? || start.elapsed() > BOUND {
            break good(client, "the client")?;
        }
        std::thread::sleep(PAUSE);
    };
    good(server.output("the server")?, "the server")?;
    let report: Value = serde_json::from_str(&text).map_err(|e| format!("{text:?}: {e}"))?;
    let (field, expected) = tool.says;
    match report[field].as_u64() == Some(expected) {
        true => Ok(report),
        false => Err(format!("{expected} {field} expected, reported is {report}").into()),
    }
}

/// Each of them on both adapters of `world`.
pub(super) fn play(mut world: World, mut told: impl FnMut(&'static str)) -> Result<(World, Vec<Used>), Failure> {
    let directory = Directory::new("demo")?;
    let sockets = [directory.path().join("a"), directory.path().join("b")];
    let mut all = Vec::new();
    for tool in &TOOLS {
        told(tool.name);
        (0..sockets.len()).for_each(|id| world.adapter_mut(id).recorder_mut().keep(RECORDS));
        let server = SimServer::start(world, &[&sockets[0], &sockets[1]], Pace::Free)?;
        let report = call(tool, directory.path()).map_err(|e| format!("{}: {e}", tool.name));
        world = server.stop();
        let report = report?;
        let used = used(&mut world, tool.name, report).ok_or_else(|| format!("{}: its doorbells are not among the records", tool.name))?;
        all.push(used);
    }
    Ok((world, all))
}

fn used(world: &mut World, name: &'static str, report: Value) -> Option<Used> {
    // (cycle, doorbell of a send queue), of both adapters; the end of a frame in host memory is none
    let mut moments = Vec::new();
    for id in 0..world.adapters().len() {
        if world.adapter(id).recorder().forgotten() > 0 {
            return None;
        }
        moments.extend(world.adapter_mut(id).recorder_mut().take().into_iter().filter_map(|record| match record {
            Record::MmioWrite { cycle, offset, .. } if u32::from(offset) == reg::SQ_TAIL => Some((cycle, Moment::Posted)),
            Record::MmioWrite { cycle, offset, .. } if u32::from(offset) == reg::CMD_TAIL => Some((cycle, Moment::Command)),
            Record::WriteBeat { cycle, last: true, .. } => Some((cycle, Moment::Written)),
            _ => None,
        }));
    }
    moments.sort_by_key(|(cycle, _)| *cycle);
    let (mut hardware_cycles, mut doorbells, mut first, mut end) = (0, 0, None, None);
    let mut open: Option<(u64, u64)> = None;
    for (cycle, moment) in moments {
        match moment {
            Moment::Written => {
                if let Some((_, last)) = &mut open {
                    *last = cycle;
                    end = Some(cycle);
                }
            }
            Moment::Posted | Moment::Command => {
                hardware_cycles += open.take().map_or(0, |(from, to)| to - from);
                if moment == Moment::Posted {
                    open = Some((cycle, cycle));
                    doorbells += 1;
                    first = first.or(Some(cycle));
                }
            }
        }
    }
    hardware_cycles += open.map_or(0, |(from, to)| to - from);
    Some(Used { name, hardware_cycles, cycles: end?.checked_sub(first?)?, doorbells, report })
}

/// What tells how long the hardware took.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Doorbell of a send queue.
    Posted,
    /// Doorbell of the command ring: a connection, a region, the end of one.
    Command,
    /// Last beat of a DMA write.
    Written,
}
