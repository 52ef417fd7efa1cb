// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux kernel at both ends: a peer's stack on the wire (TAP of `ironwarp sim`), the host's stack behind the adapter (`ironwarp l2`), each
//! in a network namespace of its own. Needs root and /dev/net/tun, and says so where they are missing.
#![cfg(feature = "sim")]
use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const ADAPTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const MAC: &str = "02:1b:ad:00:00:01";
/// Port that the adapter itself listens on.
const ADAPTER_PORT: u16 = 7000;
const BOUND: Duration = Duration::from_secs(30);

/// A process in a network namespace of its own.
struct Namespace(Child);

impl Namespace {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", env!("CARGO_BIN_EXE_ironwarp")]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        Namespace(command.spawn().expect("unshare starts"))
    }
    /// Runs `work` with the sockets of this namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("is running");
        let thread = || {
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).expect("root");
            work()
        };
        std::thread::scope(|s| s.spawn(thread).join().expect("no panic"))
    }
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let pid = self.0.id().to_string();
        let output = Command::new("nsenter").args(["--net", "--target", &pid, program]).args(arguments).output().expect("nsenter starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
    /// Ends it as a user does; its output.
    fn interrupt(&mut self) -> String {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), rustix::process::Signal::INT).expect("is running");
        wait("the end", || self.0.try_wait().expect("is our child").is_some());
        let mut text = String::new();
        self.0.stdout.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
        text
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < BOUND, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn serve_one(listener: &TcpListener, text: &str) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_read_timeout(Some(BOUND)).expect("socket");
    let mut request = [0; 1024];
    let len = stream.read(&mut request).expect("a request");
    assert!(request[..len].starts_with(b"GET / "), "{:?}", String::from_utf8_lossy(&request[..len]));
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).expect("sent");
}

fn get(address: Ipv4Addr, port: u16) -> String {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, port)), BOUND).expect("connected");
    stream.set_read_timeout(Some(BOUND)).expect("socket");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// Covers: ETH-4, ARP-2, ARP-3, ARP-6, ICMP-1, PDB-4
#[test]
#[ignore = "needs root and /dev/net/tun: `make tap` runs it"]
fn linux_pings_the_hardware_and_reaches_the_host_behind_it() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let socket = directory.path().join("a.sock");
    let path = socket.to_str().expect("UTF-8");
    let mut peer = Namespace::start(&["sim", "--socket", path, "--tap", "peer0"]);
    wait("the socket", || socket.exists());
    peer.run("ip", &["address", "add", &format!("{PEER}/24"), "dev", "peer0"]);
    peer.run("ip", &["link", "set", "peer0", "up"]);
    let device = format!("sim:{path}");
    let network = format!("{ADAPTER}/24");
    let listen = ADAPTER_PORT.to_string();
    let mut host = Namespace::start(&["l2", "--json", "--device", &device, "--address", &network, "--mac", MAC, "--listen", &listen]);
    wait("the interface", || host.inside(|| std::net::UdpSocket::bind((ADAPTER, 0)).is_ok()));

    // the kernel's ping and ARP cache; the first one alone, as what waits for ARP comes as a burst faster than echoes go out (ICMP-12)
    peer.run("ping", &["-n", "-c", "1", "-W", "20", &ADAPTER.to_string()]);
    for octets in ["0", "1", "56", "1472"] {
        let text = peer.run("ping", &["-n", "-c", "3", "-i", "0.2", "-W", "10", "-s", octets, &ADAPTER.to_string()]);
        assert!(text.contains(" 0% packet loss"), "{text}");
    }
    let neighbours = peer.run("ip", &["neighbour", "show", &ADAPTER.to_string()]);
    assert!(neighbours.contains(MAC), "{neighbours}");

    // a service of the host, reached through the adapter
    let listener = host.inside(|| TcpListener::bind((ADAPTER, 80)).expect("the port is the host's"));
    std::thread::scope(|s| {
        s.spawn(|| serve_one(&listener, "behind the adapter"));
        let text = peer.inside(|| get(ADAPTER, 80));
        assert!(text.ends_with("\r\n\r\nbehind the adapter"), "{text}");
    });
    // a service of the peer, reached by the host; its next hop is resolved in hardware
    let listener = peer.inside(|| TcpListener::bind((PEER, 8000)).expect("free"));
    std::thread::scope(|s| {
        s.spawn(|| serve_one(&listener, "on the wire"));
        let text = host.inside(|| get(PEER, 8000));
        assert!(text.ends_with("\r\n\r\non the wire"), "{text}");
    });
    // a port that nobody holds is the host's to refuse; one that the adapter holds it never hears of
    let connect = |port: u16, bound: Duration| peer.inside(|| TcpStream::connect_timeout(&SocketAddr::from((ADAPTER, port)), bound));
    assert_eq!(connect(81, BOUND).expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
    // the adapter takes the connection itself, and resets it because what comes is no MPA Request
    let mut stream = connect(ADAPTER_PORT, BOUND).expect("the adapter listens");
    stream.set_read_timeout(Some(BOUND)).expect("a socket option");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let mut answer = vec![];
    let error = stream.read_to_end(&mut answer).expect_err("no MPA Request");
    assert_eq!((error.kind(), answer.len()), (ErrorKind::ConnectionReset, 0));

    let text = host.interrupt();
    let down: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let counter = |name: &str| down["counters"][name].as_u64().unwrap_or(0);
    assert_eq!((counter("icmpInEchos"), counter("icmpOutEchoReps")), (13, 13), "{down}");
    assert_eq!((counter("tcpPassiveOpens"), counter("mpaMalformed")), (1, 1), "the connection to the adapter's port: {down}");
    assert!(counter("arpOutReplies") >= 1, "{down}");
    assert_eq!(counter("framesToHost"), counter("l2InFrames"), "{down}");
    for lost in
        ["framesToHostLost", "l2InNoBuffer", "l2OutErrors", "drvL2ReceiveErrors", "drvL2SendErrors", "ip4InCsumErrors", "tcpInCsumErrors"]
    {
        assert_eq!(counter(lost), 0, "{lost}: {down}");
    }
    let text = peer.interrupt();
    assert!(text.contains(" 0 rules of the ports broken"), "{text}");
}
