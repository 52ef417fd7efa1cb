// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands that talk to a peer, on the host's own TCP over loopback.
use std::{
    net::TcpListener,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(60);

fn ironwarp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ironwarp"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("IRONWARP_DEVICE").stdin(Stdio::null());
    command
}

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // ended already, if the test went well
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does a socket of this machine listen on the port? Asked of the kernel's table: a trial connection would be one of the server's.
fn listens(port: &str) -> bool {
    let local = format!(":{:04X} ", port.parse::<u16>().expect("a port"));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
    table.lines().any(|row| row.contains(&local) && row.split_whitespace().nth(3) == Some("0A"))
}

fn wait_for(port: &str) {
    let start = Instant::now();
    while !listens(port) {
        assert!(start.elapsed() < BOUND, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a server on a free port, then the client against it as soon as it listens; both must end well. What they print.
fn both(command: &[&str], server: &[&str], client: &[&str]) -> (String, String) {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port().to_string();
    let common = [command, &["--device", "soft", "-p", &port]].concat();
    let mut serving =
        Server(ironwarp(&[&common[..], server].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts"));
    let start = Instant::now();
    wait_for(&port);
    let output: Output = ironwarp(&[&common[..], client].concat()).output().expect("starts");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    while serving.0.try_wait().expect("is our child").is_none() {
        assert!(start.elapsed() < BOUND, "the server does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut served = [String::new(), String::new()];
    std::io::Read::read_to_string(&mut serving.0.stdout.take().expect("piped"), &mut served[0]).expect("UTF-8");
    std::io::Read::read_to_string(&mut serving.0.stderr.take().expect("piped"), &mut served[1]).expect("UTF-8");
    assert!(serving.0.wait().expect("is our child").success(), "{served:?}");
    (text, std::mem::take(&mut served[0]))
}

#[test]
fn rping_brings_back_what_it_sent() {
    let (client, server) = both(&["rping", "-v"], &["-s"], &["-c", "-a", "127.0.0.1", "-C", "3", "-V"]);
    assert!(client.starts_with("ping data: rdma-ping-0: ABC"), "{client}");
    assert!(server.starts_with("server ping data: rdma-ping-0: ABC"), "{server}");
    assert!(client.contains("3 rounds") && server.contains("3 rounds"), "{client}{server}");
    both(&["rping", "-S", "1000000", "--mpa1", "--markers"], &["-s"], &["-c", "-a", "127.0.0.1", "-C", "2", "-V"]);
    both(&["rping", "--p2p", "--no-crc"], &["-s"], &["-c", "-a", "127.0.0.1", "-C", "2", "-V"]);
}

#[test]
fn perf_measures_every_verb_in_perftests_columns() {
    for verb in ["send", "write", "read"] {
        for (measure, column) in [("bw", "BW average"), ("lat", "t_typical")] {
            // more messages than either queue holds
            let (client, server) = both(&["perf", verb, measure, "-s", "5000", "-n", "301", "-t", "50", "-r", "60"], &[], &["127.0.0.1"]);
            // who only lends his memory to Reads, one after the other, measures nothing
            let silent = (verb, measure) == ("read", "lat");
            assert_eq!(server.is_empty(), silent, "{verb} {measure}: {server}");
            for text in [client, server].iter().filter(|text| !text.is_empty()) {
                let rows: Vec<_> = text.lines().collect();
                assert!(rows.len() == 2 && rows[0].contains(column), "{verb} {measure}: {text}");
                let numbers: Vec<f64> = rows[1].split_whitespace().map(|n| n.parse().expect("a number")).collect();
                assert!(numbers[..2] == [5000.0, 301.0], "{verb} {measure}: {text}");
                // a server that receives does not look for the peak
                assert!(numbers.iter().filter(|n| **n <= 0.0).count() <= 1, "{verb} {measure}: {text}");
            }
        }
    }
    // with a ready-to-receive of the client the server may speak first; the least there is
    both(&["perf", "write", "lat", "-n", "1", "--p2p"], &[], &["127.0.0.1"]);
    both(&["perf", "send", "bw", "-s", "1", "-n", "1", "--mpa1", "-e"], &[], &["127.0.0.1"]);
}

#[test]
fn who_is_turned_away_hears_why() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port().to_string();
    let common = ["rping", "--device", "soft", "-p", &port];
    let server = ironwarp(&[&common[..], &["-s", "--reject", "not you"]].concat()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut server = Server(server);
    wait_for(&port);
    let client = [&common[..], &["-c", "-a", "127.0.0.1", "--private-data", "it is me"]].concat();
    let output = ironwarp(&client).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("REJECTED") && text.contains("it says: not you"), "{text}");
    let mut row = String::new();
    let mut out = std::io::BufReader::new(server.0.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut row).expect("UTF-8");
    assert!(row.starts_with("rejected 127.0.0.1:") && row.ends_with("which says: it is me\n"), "{row}");
}

#[test]
fn ucmatose_and_cmtime_use_many_connections() {
    let (text, served) = both(&["ucmatose", "-c", "20", "-C", "4"], &[], &["-s", "127.0.0.1"]);
    assert_eq!(text.lines().filter(|line| *line == "disconnected").count(), 20, "{text}");
    assert!(text.contains("data transfers complete") && served.contains("sending replies"), "{text}{served}");
    let (text, _) = both(&["cmtime", "-c", "20"], &[], &["-s", "127.0.0.1"]);
    let steps: Vec<_> = text.lines().skip(1).map(|row| row[..14].trim_end().to_owned()).collect();
    assert_eq!(
        steps,
        ["create id", "resolve addr", "resolve route", "create qp", "connect call", "connected", "disconnect", "destroy", "plain sockets"],
        "{text}"
    );
    for row in text.lines().skip(1) {
        let numbers: Vec<f64> = row[14..].split_whitespace().map(|n| n.parse().expect("a number")).collect();
        // total and largest; least and mean of those that overlap are no more than that
        assert!(numbers.len() == 4 && numbers[0] >= numbers[1] && numbers.iter().all(|n| n.is_finite()), "{row}");
    }
}

/// One end of set-ups that stay; ends with its standard input.
fn end_of_set_ups(run: &std::path::Path, port: &str, arguments: &[&str]) -> (Server, std::io::BufReader<std::process::ChildStdout>) {
    let common = ["set-ups", "--device", "soft", "--count", "2", "-p", port];
    let mut child = ironwarp(&[&common[..], arguments].concat())
        .env("IRONWARP_RUN_DIR", run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    (Server(child), output)
}

fn up_to(output: &mut std::io::BufReader<std::process::ChildStdout>, text: &str) {
    let found = std::io::BufRead::lines(output).map_while(Result::ok).any(|line| line.starts_with(text));
    assert!(found, "the process ended before {text:?}");
}

#[test]
fn devinfo_show_and_stats_tell_of_the_host_integrated_devices_of_all_processes() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let run = directory.path().join("run");
    let told = |arguments: &[&str]| {
        let output = ironwarp(arguments).env("IRONWARP_RUN_DIR", &run).output().expect("starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let shown = |table: &str| told(&["show", table, "--device", "soft"]);
    let rows = |table: &str| -> Vec<serde_json::Value> {
        serde_json::from_str(&told(&["show", table, "--device", "soft", "--json"])).expect("a list")
    };
    let stats = || -> serde_json::Value { serde_json::from_str(&told(&["stats", "--device", "soft", "--json"])).expect("JSON") };

    let info = told(&["devinfo", "--device", "soft"]);
    for line in ["hca_id:                 soft0", "\ttransport:              iWARP (1)", "\tmax_qp_wr:              16384"] {
        assert!(info.lines().any(|l| l == line), "{line}: {info}");
    }
    for line in
        ["\tvendor_id:              0x0000", "\t\t\tstate:                  PORT_ACTIVE (4)", "\t\t\tactive_mtu:             1024 (3)"]
    {
        assert!(info.lines().any(|l| l == line), "{line}: {info}");
    }
    // nobody has one open
    assert!(shown("link").starts_with("link soft0/1 state ACTIVE physical_state LINK_UP mtu 1500"), "{}", shown("link"));
    assert!(shown("res").starts_with("0: soft0: pd 0 cq 0 qp 0 cm_id 0 mr 0"), "{}", shown("res"));
    assert_eq!(shown("conn"), "handle  state  local  remote  listener  qpn  pid\n");
    assert_eq!(told(&["stats", "--device", "soft", "--nonzero"]), "link soft0/1\n");
    assert_eq!((&stats()["iwOutRdmaSends"], &stats()["connects"]), (&0.into(), &0.into()));

    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port().to_string();
    let (server, mut served) = end_of_set_ups(&run, &port, &[]);
    up_to(&mut served, "listening");
    let (client, mut called) = end_of_set_ups(&run, &port, &["-s", "127.0.0.1"]);
    up_to(&mut called, "over");
    up_to(&mut served, "over");
    let (server_pid, client_pid) = (server.0.id(), client.0.id());

    let conn = rows("conn");
    assert_eq!(conn.len(), 6, "{conn:?}");
    let remote = format!("127.0.0.1:{port}");
    for row in &conn {
        let of_client = row["pid"] == client_pid;
        assert!(of_client || row["pid"] == server_pid, "{row}");
        assert_eq!(
            (&row["state"], &row[if of_client { "remote" } else { "local" }]),
            (&"CONNECTED".into(), &remote.as_str().into()),
            "{row}"
        );
    }
    let listen = rows("listen");
    assert_eq!(
        (listen.len(), &listen[0]["pid"], &listen[0]["port"]),
        (1, &server_pid.into(), &port.parse::<u16>().expect("a port").into()),
        "{listen:?}"
    );
    assert!(shown("listen").starts_with("handle  address  port"), "{}", shown("listen"));
    let number: u16 = port.parse().expect("a port");
    let of_port: Vec<_> = rows("port").into_iter().filter(|row| row["first"] == number).collect();
    let users: Vec<_> = of_port.iter().map(|row| (row["use"].clone(), row["users"].clone())).collect();
    assert_eq!(users, [("connection".into(), 3.into()), ("listener".into(), 1.into())]);
    let res = rows("res");
    let of = |pid: u32| res.iter().find(|r| r["pid"] == pid).unwrap_or_else(|| panic!("{res:?}"));
    assert_eq!((&of(client_pid)["qp"], &of(client_pid)["cm_id"]), (&3.into(), &3.into()));
    assert_eq!((&of(server_pid)["qp"], &of(server_pid)["cm_id"], &of(server_pid)["pd"]), (&3.into(), &4.into(), &1.into()));
    let ids = shown("cm_id");
    let line = format!("state LISTEN ps TCP pid {server_pid} comm ironwarp src-addr 0.0.0.0:{port}");
    assert!(ids.lines().count() == 7 && ids.contains(&line), "{line}: {ids}");
    assert_eq!((&stats()["connects"], &stats()["accepts"], &stats()["connectionsLive"]), (&3.into(), &3.into(), &6.into()));
    let text = told(&["stats", "--device", "soft", "--nonzero"]);
    assert!(text.starts_with("link soft0/1\n    ") && text.contains("\n    accepts 3\n"), "{text}");

    // one is killed: its socket is found to be nobody's; the other lives on
    drop(client);
    let until = Instant::now() + BOUND;
    while rows("conn").iter().any(|row| row["state"] == "CONNECTED") {
        assert!(Instant::now() < until, "{:?}", rows("conn"));
    }
    assert_eq!(std::fs::read_dir(&run).expect("directory").count(), 1);
    drop(server);
    assert_eq!(rows("listen").len(), 0);
    assert_eq!(std::fs::read_dir(&run).expect("directory").count(), 0);
}

#[test]
fn show_tells_of_one_process_by_its_control_socket() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let control = directory.path().join("control").display().to_string();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback").port().to_string();
    let (server, mut output) = end_of_set_ups(directory.path(), &port, &["--control", &control]);
    up_to(&mut output, "listening");
    let show = |arguments: &[&str]| ironwarp(&[&["show"], arguments].concat()).output().expect("starts");
    let text = String::from_utf8(show(&["res", "--control", &control]).stdout).expect("UTF-8");
    assert!(text.starts_with("0: soft0: pd 1 cq 3 qp 3 cm_id 1 mr 0"), "{text}");
    let text = String::from_utf8(show(&["listen", "--control", &control]).stdout).expect("UTF-8");
    assert!(text.starts_with("handle  address  port\n") && text.contains(&port), "{text}");
    for (arguments, why) in [
        (&["link"][..], "required"),
        (&["link", "--device", "soft", "--control", &control], "cannot be used with"),
        (&["link", "--device", "sim:a"], "give the driver --control SOCKET"),
    ] {
        let output = show(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(why), "{arguments:?}: {text}");
    }
    drop(server);
}
