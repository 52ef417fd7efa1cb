// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command as a user calls it: an adapter served by one process, driven by others.
#![cfg(feature = "sim")]
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

fn ironwarp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ironwarp"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("IRONWARP_DEVICE");
    command
}

fn run(arguments: &[&str]) -> Output {
    ironwarp(arguments).stdin(Stdio::null()).output().expect("ironwarp starts")
}

/// Standard output of a command that must end well.
fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Standard error of a command that must fail.
fn bad(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// `ironwarp sim` in a process of its own.
struct Served {
    child: Child,
    directory: tempfile::TempDir,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let socket = directory.path().join("a.sock");
        let child = ironwarp(&["sim", "--socket"]).arg(&socket).args(arguments).stdout(Stdio::piped()).spawn().expect("ironwarp starts");
        let served = Served { child, directory };
        let start = Instant::now();
        while !socket.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "no socket");
            std::thread::sleep(Duration::from_millis(20));
        }
        served
    }
    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
    fn device(&self) -> String {
        format!("sim:{}", self.path("a.sock").display())
    }
    /// Ends it as a user does; its output.
    fn interrupt(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("is running");
        let start = Instant::now();
        while self.child.try_wait().expect("is our child").is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut text = String::new();
        let mut output = self.child.stdout.take().expect("piped");
        std::io::Read::read_to_string(&mut output, &mut text).expect("UTF-8");
        assert!(self.child.wait().expect("is our child").success(), "{text}");
        text
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // ended already, if the test went well
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn values(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{l}: {e}"))).collect()
}

/// A driver in a process of its own, whose lines are read as they come.
struct Driver {
    child: Child,
    lines: std::sync::mpsc::Receiver<serde_json::Value>,
}

impl Driver {
    fn start(arguments: &[&str]) -> Self {
        let mut child = ironwarp(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("ironwarp starts");
        let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(output).map_while(Result::ok) {
                if sender.send(values(&line).remove(0)).is_err() {
                    break;
                }
            }
        });
        Driver { child, lines }
    }
    /// The next event with this name, within 60 seconds; what comes before it is skipped.
    fn event(&self, name: &str) -> serde_json::Value {
        let last = Instant::now() + Duration::from_secs(60);
        loop {
            let left = last.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|e| panic!("no {name}: {e}"));
            if line["event"] == name {
                return line;
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // killed already, perhaps
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process of one end is killed: the adapter resets what it had open, the other end hears so at once, and the next process finds an
/// adapter as new.
///
/// Covers: CM-42
#[test]
fn the_peer_of_a_process_that_is_killed_is_reset() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let second = directory.path().join("b.sock");
    let served = Served::start(&["--socket", &second.display().to_string()]);
    let (a, b) = (served.device(), format!("sim:{}", second.display()));
    let listener =
        Driver::start(&["--json", "listen", "7000", "--accept", "--mac", "02:1b:ad:00:00:02", "--device", &b, "--address", "192.0.2.2/24"]);
    listener.event("listening");
    let connect = |hold: &str| {
        let device = a.as_str();
        Driver::start(&["--json", "connect", "192.0.2.2:7000", "--hold", hold, "--device", device, "--address", "192.0.2.1/24"])
    };
    for _ in 0..2 {
        let mut victim = connect("600");
        assert_eq!(victim.event("connect_reply")["status"], 0);
        listener.event("established");
        victim.child.kill().expect("is running");
        assert_eq!(listener.event("close")["status"], -104);
        listener.event("freed");
    }
    let next = connect("0");
    assert_eq!(next.event("connect_reply")["status"], 0);
    assert_eq!(next.event("close")["status"], 0);
    assert_eq!(listener.event("close")["status"], 0);
}

/// Covers: CM-21, CM-32, CM-43
#[test]
fn a_served_adapter_passes_the_self_test_by_interrupt_and_by_looking() {
    let served = Served::start(&[]);
    let device = served.device();
    let text = good(&["selftest", "--device", &device]);
    assert!(text.lines().last().is_some_and(|l| l.starts_with("PASS: 14 steps")), "{text}");
    let steps = values(&good(&["selftest", "--poll", "--json", "--device", &device]));
    assert_eq!(steps.len(), 15);
    assert!(steps[..14].iter().all(|s| s["ok"] == true), "{steps:?}");
    assert_eq!(steps[14]["result"], "PASS");

    let events = values(&good(&["listen", "0", "7000", "--once", "--json", "--address", "192.0.2.1/24", "--device", &device]));
    assert_eq!((&events[0]["event"], &events[1]["port"]), (&"listening".into(), &7000.into()));
    assert_eq!(events[4]["counters"]["listen_destroyed"], 2);
    let text = bad(&["listen", "7000", "7000", "--once", "--device", &device]);
    assert!(text.contains("port 7000 is in use (EADDRINUSE): take another"), "{text}");

    let info = &values(&good(&["devinfo", "--json", "--device", &device]))[0];
    assert_eq!((&info["transport"], &info["link_layer"]), (&"iWARP".into(), &"Ethernet".into()));
    let limits = ["max_qp_wr", "max_sge", "max_inline_data", "max_cqe", "max_qp_rd_atom"].map(|name| info[name].as_u64());
    assert_eq!(limits, [4096, 4, 64, 4096, 8].map(Some), "{info}");
    assert!(["max_qp", "max_cq", "max_mr"].iter().all(|name| info[name].as_u64() >= Some(31)), "{info}");
    let text = good(&["devinfo", "--device", &device]);
    assert!(text.contains("transport:") && text.contains("iWARP (1)"), "{text}");
    let stats = &values(&good(&["stats", "--json", "--device", &device]))[0];
    assert_eq!(
        (stats.as_object().map(|s| s.len()), &stats["cmdDone"]),
        (Some(ironwarp_abi::Counter::ALL.len()), &0.into()),
        "a driver that detaches resets"
    );
    let text = good(&["stats", "--device", &device]);
    assert!(text.contains("     ip4InPkts: 0\n"), "{text}");

    let text = served.interrupt();
    assert!(text.contains(" 0 rules of the ports broken"), "{text}");
}

#[test]
fn show_tells_what_the_driver_of_another_process_has() {
    let served = Served::start(&[]);
    let control = served.path("control");
    let control = control.to_str().expect("UTF-8");
    let child = ironwarp(&["listen", "7000", "0", "--device", &served.device(), "--control", control]).stdout(Stdio::piped()).spawn();
    let driver = Served { child: child.expect("ironwarp starts"), directory: tempfile::tempdir().expect("temporary directory") };
    let start = Instant::now();
    while !Path::new(control).exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    // answered as soon as the driver is up
    let table = |name: &str| values(&good(&["show", name, "--json", "--control", control])).remove(0);
    let start = Instant::now();
    while !run(&["show", "listen", "--control", control]).status.success() {
        assert!(start.elapsed() < Duration::from_secs(60), "no answer");
    }
    let listeners = table("listen");
    assert_eq!((listeners.as_array().map(Vec::len), &listeners[0]["port"]), (Some(2), &7000.into()), "{listeners}");
    let ports = table("port");
    assert_eq!((&ports[0]["first"], &ports[0]["use"], &ports[0]["users"]), (&7000.into(), &"listener".into(), &1.into()), "{ports}");
    assert_eq!(table("conn"), serde_json::json!([]));
    let text = good(&["show", "port", "--control", control]);
    assert!(text.starts_with("first  last   use       users\n7000   7000   listener  1\n"), "{text}");
    let text = bad(&["listen", "1", "--device", &served.device(), "--control", control]);
    assert!(text.contains("another driver answers there"), "{text}");
    let text = driver.interrupt();
    assert!(text.contains("freed 0.0.0.0:7000"), "{text}");
    assert!(bad(&["show", "conn", "--control", control]).contains("is a driver running with --control"));
    served.interrupt();
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let text = bad(&["devinfo", "--device", "sim:/nonexistent/a.sock"]);
    assert!(text.contains("start an adapter there with `ironwarp sim --socket /nonexistent/a.sock`"), "{text}");
    let text = bad(&["devinfo", "--device", "vfio:ffff:ff:1f.7"]);
    assert!(text.contains("no PCI device ffff:ff:1f.7; `lspci -D -d 1bad:1c0a` lists adapters"), "{text}");
    assert!(bad(&["devinfo", "--device", "eth0"]).contains("write sim:PATH"));
    assert!(bad(&["sim", "--socket", "a", "--socket", "b", "--socket", "c"]).contains("at most two sockets"));
    assert!(bad(&["sim", "--socket", "a", "--socket", "b", "--tap", "t"]).contains("give --tap with one --socket only"));
    assert!(bad(&["l2", "--device", "sim:x", "--address", "192.0.2.1"]).contains("write 192.0.2.1/24"));
    let output = run(&["devinfo", "--json", "--device", "sim:/nonexistent/a.sock"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(error["error"].as_str().is_some_and(|e| e.contains("ironwarp sim")), "{error}");
    assert!(Path::new("a").metadata().is_err(), "nothing was made");
}

/// A server and a client of the same command on two adapters; what the client printed.
fn both(served: &Served, command: &[&str], server: &[&str], client: &[&str]) -> String {
    let device = |n: &str| format!("sim:{}", served.path(&format!("{n}.sock")).display());
    let mut server = ironwarp(command)
        .args(["--device", &device("b"), "--address", "192.0.2.2/24", "--mac", "02:1b:ad:00:00:02"])
        .args(server)
        .stdout(Stdio::piped())
        .spawn()
        .expect("ironwarp starts");
    // the client's first SYN may be too early: then it is refused, and asks again
    let start = Instant::now();
    let text = loop {
        let output = run(&[command, &["--device", &device("a"), "--address", "192.0.2.1/24"], client].concat());
        if output.status.success() {
            break String::from_utf8(output.stdout).expect("UTF-8");
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(300));
    };
    let start = Instant::now();
    let ended = loop {
        if let Some(ended) = server.try_wait().expect("is our child") {
            break ended;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.success(), "{ended:?}");
    text
}

fn pair_of_adapters() -> Served {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (a, b) = (directory.path().join("a.sock"), directory.path().join("b.sock"));
    let child = ironwarp(&["sim", "--socket"]).arg(&a).arg("--socket").arg(&b).stdout(Stdio::piped()).spawn().expect("ironwarp starts");
    let served = Served { child, directory };
    let start = Instant::now();
    while !(a.exists() && b.exists()) {
        assert!(start.elapsed() < Duration::from_secs(60), "no sockets");
        std::thread::sleep(Duration::from_millis(20));
    }
    served
}

#[test]
fn cmtime_prints_a_row_for_each_step_and_one_for_plain_sockets() {
    let served = pair_of_adapters();
    let text = both(&served, &["cmtime", "-c", "6"], &[], &["-s", "192.0.2.2"]);
    let steps: Vec<_> = text.lines().skip(1).map(|row| row[..14].trim_end().to_owned()).collect();
    assert_eq!(
        steps,
        ["create id", "resolve addr", "resolve route", "create qp", "connect call", "connected", "disconnect", "destroy", "plain sockets"],
        "{text}"
    );
    for row in text.lines().skip(1) {
        let numbers: Vec<f64> = row[14..].split_whitespace().map(|n| n.parse().expect("a number")).collect();
        assert!(numbers.len() == 4 && numbers.iter().all(|n| n.is_finite()), "{row}");
    }
}

#[test]
fn ucmatose_opens_and_closes_twenty_connections_at_once() {
    let served = pair_of_adapters();
    let text = both(&served, &["ucmatose", "-c", "20", "-C", "0"], &[], &["-s", "192.0.2.2"]);
    assert_eq!(text.lines().filter(|line| *line == "disconnected").count(), 20, "{text}");
    assert!(text.ends_with("return status 0\n"), "{text}");
}

#[test]
fn ucmatose_sends_messages_on_every_connection() {
    let served = pair_of_adapters();
    let text = both(&served, &["ucmatose", "-c", "5", "-C", "3"], &[], &["-s", "192.0.2.2"]);
    assert!(text.contains("data transfers complete") && text.ends_with("return status 0\n"), "{text}");
}

#[test]
fn rping_finds_on_two_adapters_what_it_sent() {
    let served = pair_of_adapters();
    for (size, rounds) in [("16", "3"), ("1441", "2"), ("70000", "1")] {
        let text = both(&served, &["rping", "-S", size, "-V"], &["-s"], &["-c", "-a", "192.0.2.2", "-C", rounds]);
        assert_eq!(text, format!("client DISCONNECT EVENT... {rounds} rounds of {size} octets\n"));
    }
}

#[test]
fn perf_measures_every_verb_on_two_adapters() {
    let served = pair_of_adapters();
    for verb in ["send", "write", "read"] {
        // more messages than either queue holds
        for (measure, size, figure) in [("bw", 3000, "bw_average_mib_s"), ("lat", 64, "t_typical_us")] {
            let octets = size.to_string();
            let test = ["--json", "perf", verb, measure, "-s", &octets, "-n", "9", "-t", "4", "-r", "6", "-e"];
            let report = &values(&both(&served, &test, &[], &["192.0.2.2"]))[0];
            assert_eq!((&report["bytes"], &report["iterations"]), (&size.into(), &9.into()), "{verb} {measure}: {report}");
            assert!(report[figure].as_f64() > Some(0.0), "{verb} {measure}: {report}");
        }
    }
}
