// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a set-up costs the host: instructions of the processes at both ends, with the adapter as the provider and with the host's own TCP.
//!
//! Each end is a process of this command (`set-ups`) under valgrind's callgrind, which counts every instruction of all its threads between two marks. The
//! adapters are in a third process behind vfio-user sockets, so nothing of the models is counted. An access to a register is one instruction on a card, but a message to
//! that process here: what the messages take is told apart and taken out. Callgrind sees the user's side only. Of the kernel's part the system calls are counted, by the same
//! run; `tools/host-cost` counts its instructions, in a guest.
use crate::{scratch::Directory, Failure};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// Callgrind counts an instruction with a repeat prefix once for each octet that it moves, a processor counts it once. So large blocks are moved by
/// vector instructions here.
const NO_REP: &str = "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff:glibc.cpu.x86_rep_stosb_threshold=0x7fffffff";
/// Bound of each wait for a process.
const BOUND: Duration = Duration::from_secs(120);
/// Functions that stand for one access to a register on a card.
const BUS: [&str; 2] = ["SocketBus as ironwarp_rnic::bus::Bus>::read32", "SocketBus as ironwarp_rnic::bus::Bus>::write32"];
/// Their messages.
const BUS_CALLS: [&str; 2] = ["sys_sendmsg", "sys_recvmsg"];

/// System calls under valgrind only: elsewhere they do not enter the kernel.
const VDSO: [&str; 2] = ["sys_clock_gettime", "sys_gettimeofday"];

/// Instructions with the adapter, as parts of those with the host's own TCP: as first set and as aimed at.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Budget {
    pub(super) first: f64,
    pub(super) goal: f64,
}

const BUDGET: Budget = Budget { first: 0.25, goal: 0.05 };

/// One end, for each set-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Cost {
    /// Of the process, without the messages that stand for accesses to registers.
    pub(super) user_instructions: f64,
    pub(super) register_reads: f64,
    pub(super) register_writes: f64,
    /// Without those of the messages.
    pub(super) system_calls: f64,
    pub(super) by_name: BTreeMap<String, f64>,
    /// What was taken out: instructions of the messages.
    pub(super) simulated_bus_instructions: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Ends {
    pub(super) client: Cost,
    pub(super) server: Cost,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Host {
    pub(super) set_ups: u16,
    pub(super) counted_by: String,
    pub(super) offloaded: Ends,
    pub(super) host_integrated: Ends,
    /// Offloaded by host integrated, user instructions of both ends.
    pub(super) user_ratio: f64,
    pub(super) system_call_ratio: f64,
    pub(super) budget: Budget,
}

impl Ends {
    pub(super) fn user(&self) -> f64 {
        self.client.user_instructions + self.server.user_instructions
    }
    pub(super) fn calls(&self) -> f64 {
        self.client.system_calls + self.server.system_calls
    }
}

/// Both providers, one after the other.
pub(super) fn measure(set_ups: u16) -> Result<Host, Failure> {
    let version = Command::new("valgrind").arg("--version").output().map_err(|e| format!("valgrind: {e}; `make setup` installs it"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let directory = Directory::new("bench")?;
    let offloaded = offloaded(directory.path(), set_ups).map_err(|e| format!("set-ups on the adapter: {e}"))?;
    let host_integrated = host_integrated(directory.path(), set_ups).map_err(|e| format!("set-ups on the host's TCP: {e}"))?;
    Ok(Host {
        set_ups,
        counted_by: format!("{version}, callgrind"),
        user_ratio: thousandths(offloaded.user() / host_integrated.user()),
        system_call_ratio: thousandths(offloaded.calls() / host_integrated.calls()),
        offloaded,
        host_integrated,
        budget: BUDGET,
    })
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn offloaded(directory: &Path, set_ups: u16) -> Result<Ends, Failure> {
    let sockets = ["a", "b"].map(|name| directory.join(name).display().to_string());
    let mut sim = Process::start(own()?.args(["sim", "--pace", "free", "--socket", &sockets[0], "--socket", &sockets[1]]))?;
    sim.line_with("Ctrl-C")?;
    let end = |n: usize| {
        let device = format!("sim:{}", sockets[n]);
        let (mac, address) = (format!("02:1b:ad:00:00:0{}", n + 1), format!("192.0.2.{}/24", n + 1));
        ["--device", &device, "--mac", &mac, "--address", &address, "--timeout", "60"].map(str::to_owned)
    };
    ends(directory, set_ups, &end(1), &end(0), "192.0.2.2", "7471")
}

fn host_integrated(directory: &Path, set_ups: u16) -> Result<Ends, Failure> {
    let device = ["--device", "soft"].map(str::to_owned);
    // free a moment ago
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    ends(directory, set_ups, &device, &device, "127.0.0.1", &port)
}

fn ends(directory: &Path, set_ups: u16, server: &[String], client: &[String], address: &str, port: &str) -> Result<Ends, Failure> {
    let (served, called) = (Counted::new(directory, "server"), Counted::new(directory, "client"));
    let mut server = Process::start(served.command(set_ups, port)?.args(server))?;
    server.line_with("listening")?;
    let mut client = Process::start(called.command(set_ups, port)?.args(client).args(["-s", address]))?;
    client.line_with("over")?;
    server.line_with("over")?;
    client.finish()?;
    server.finish()?;
    Ok(Ends { client: called.cost(set_ups)?, server: served.cost(set_ups)? })
}

/// This command again.
fn own() -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env_remove("RUST_LOG");
    Ok(command)
}

/// A process of this command that ends with its standard input.
struct Process {
    child: Child,
    _input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        Ok(Process { _input: child.stdin.take(), child, output: BufReader::new(output) })
    }
    /// Reads up to a line with `text`. The process bounds its own waits, and a process that ends has no more lines.
    fn line_with(&mut self, text: &str) -> Result<(), Failure> {
        let mut line = String::new();
        while self.output.read_line(&mut line)? > 0 {
            if line.contains(text) {
                return Ok(());
            }
            line.clear();
        }
        Err(format!("a process ended before {text:?}: {:?}", self.child.wait()?).into())
    }
    fn finish(mut self) -> Result<(), Failure> {
        self._input = None;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > BOUND {
                return Err("a process does not end".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // ended already, if all went well
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One end, with the files that its counts go to.
struct Counted {
    counts: PathBuf,
    calls: PathBuf,
}

impl Counted {
    fn new(directory: &Path, name: &str) -> Self {
        Counted { counts: directory.join(format!("{name}.counts")), calls: directory.join(format!("{name}.calls")) }
    }
    fn command(&self, set_ups: u16, port: &str) -> Result<Command, Failure> {
        let mut command = Command::new("valgrind");
        let marks = "*::set_ups::";
        command
            .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--trace-syscalls=yes"])
            .arg(format!("--dump-before={marks}begin*"))
            .arg(format!("--dump-before={marks}end*"))
            .arg(format!("--callgrind-out-file={}", self.counts.display()))
            .arg(format!("--log-file={}", self.calls.display()))
            .arg(std::env::current_exe()?)
            .env_remove("RUST_LOG")
            .env("GLIBC_TUNABLES", NO_REP)
            .args(["set-ups", "--count", &set_ups.to_string(), "-p", port, "--patience", "60"]);
        Ok(command)
    }
    fn cost(&self, set_ups: u16) -> Result<Cost, Failure> {
        // the first dump: up to begin; the second: from there to end
        let file = PathBuf::from(format!("{}.2", self.counts.display()));
        let read = |file: &Path| fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()));
        let counts = counts(&read(&file)?)?;
        let calls = calls(&read(&self.calls)?)?;
        fs::remove_file(file)?;
        let each = |n: u64| (n as f64 * 10.0 / f64::from(set_ups)).round() / 10.0;
        let by_name: BTreeMap<_, _> = calls.into_iter().map(|(name, n)| (name, each(n))).collect();
        Ok(Cost {
            user_instructions: each(counts.total - counts.bus),
            register_reads: each(counts.reads),
            register_writes: each(counts.writes),
            system_calls: by_name.values().sum(),
            by_name,
            simulated_bus_instructions: each(counts.bus),
        })
    }
}

#[derive(Debug, Default, PartialEq)]
struct Counts {
    total: u64,
    bus: u64,
    reads: u64,
    writes: u64,
}

/// Reads callgrind's format: after `cfn=` and `calls=` comes a line with what the call took.
fn counts(text: &str) -> Result<Counts, Failure> {
    let number = |text: &str| -> Result<u64, Failure> { text.parse().map_err(|e| format!("{text:?}: {e}").into()) };
    let mut counts = Counts::default();
    let mut called = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(total) = line.strip_prefix("totals: ") {
            counts.total = number(total.trim())?;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = name;
        } else if let Some(times) = line.strip_prefix("calls=") {
            let times = number(times.split(' ').next().unwrap_or_default())?;
            let took = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or("callgrind: no cost behind a call")?;
            if BUS.iter().any(|bus| called.contains(bus)) {
                counts.bus += number(took)?;
                *(if called.contains(BUS[0]) { &mut counts.reads } else { &mut counts.writes }) += times;
            }
        }
    }
    if counts.total == 0 {
        return Err("callgrind counted nothing between the marks".into());
    }
    Ok(counts)
}

/// System calls by name between the lines that the marks write, those of the bus left out: its messages, and the poll of a thread whose last
/// call was a message that had not come.
fn calls(log: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let mut names = BTreeMap::new();
    // by thread: its last call was a message that had not come
    let mut empty = BTreeMap::new();
    let mut between = false;
    let mut whole = false;
    for line in log.lines() {
        let Some(rest) = line.strip_prefix("SYSCALL[") else { continue };
        let (thread, rest) = rest.split_once(']').ok_or("valgrind: no thread")?;
        let name = rest.split_whitespace().find(|word| word.starts_with("sys_")).map(|word| word.trim_end_matches('('));
        let Some(name) = name else { continue };
        if name == "sys_write" && rest.contains("( 1, ") {
            // known by the lengths of their lines
            between |= rest.contains(", 6 )");
            whole = between && rest.contains(", 4 )");
            if whole {
                break;
            }
            continue;
        }
        let bus = BUS_CALLS.contains(&name) || VDSO.contains(&name);
        let waits = matches!(name, "sys_poll" | "sys_ppoll") && empty.get(thread) == Some(&true);
        empty.insert(thread.to_owned(), name == "sys_recvmsg" && rest.contains("Failure(0xb)"));
        if between && !bus && !waits {
            *names.entry(name.trim_start_matches("sys_").to_owned()).or_insert(0) += 1;
        }
    }
    if whole {
        Ok(names)
    } else {
        Err("valgrind: the marks are not among the system calls".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callgrind_writes_is_read() {
        let text = "summary: 99\n\nfn=main\n3 10\ncfn=<ironwarp_rnic::socket::SocketBus as ironwarp_rnic::bus::Bus>::write32\ncalls=4 7\n3 2000\n\
                    cfn=<ironwarp_rnic::socket::SocketBus as ironwarp_rnic::bus::Bus>::read32\ncalls=1 7\n3 300\ncfn=other\ncalls=9 7\n3 50\n\
                    totals: 2360\n";
        assert_eq!(counts(text).expect("read"), Counts { total: 2360, bus: 2300, reads: 1, writes: 4 });
        assert!(counts("fn=main\n").is_err(), "nothing was counted");
        assert!(counts("cfn=f\ncalls=1 7\n").is_err());
    }

    #[test]
    fn system_calls_between_the_marks_are_counted_but_not_the_simulated_bus() {
        let log = [
            "SYSCALL[9,1](1) sys_write ( 1, 0x1, 10 ) --> [async] ...",
            "SYSCALL[9,1](202) sys_futex ( 1 ) --> [async] ...",
            "SYSCALL[9,1](1) sys_write ( 1, 0x1, 6 ) --> [async] ...",
            "SYSCALL[9,2](46) sys_sendmsg ( 3, 0x1, 5 )[sync] --> Success(0x1)",
            "SYSCALL[9,2](47) sys_recvmsg ( 3, 0x1, 5 )[sync] --> Failure(0xb)",
            "SYSCALL[9,1](271) sys_ppoll ( 1 ) --> [async] ...",
            "SYSCALL[9,2](271) sys_ppoll ( 1 ) --> [async] ...",
            "SYSCALL[9,2](47) sys_recvmsg ( 3, 0x1, 5 )[sync] --> Success(0x10)",
            "SYSCALL[9,2](228) sys_clock_gettime( 1, 0x1 )[sync] --> Success(0x0)",
            "SYSCALL[9,2](1) sys_write ( 11, 0x1, 8 ) --> [async] ...",
            "==9== a word of the tool",
            "SYSCALL[9,1](1) sys_write ( 1, 0x1, 4 ) --> [async] ...",
            "SYSCALL[9,1](202) sys_futex ( 1 ) --> [async] ...",
        ];
        let counted = calls(&log.join("\n")).expect("read");
        assert_eq!(counted, BTreeMap::from([("ppoll".to_owned(), 1), ("write".to_owned(), 1)]));
        assert!(calls(&log[..10].join("\n")).is_err(), "no end");
    }
}
