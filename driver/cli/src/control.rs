// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver in one process tells `show` and `stats` in another: a Unix socket on which every client is given the driver's tables as one
//! JSON value. A host-integrated device has a process as its only place, so its socket is made in [`run_directory`] unasked.
use crate::Failure;
use ironwarp_rdmacm::{Cm, State};
use ironwarp_rnic::{Bus, Rnic};
use ironwarp_verbs::{Device, PortState};
use serde_json::{json, Value};
use std::{
    fs,
    io::{self, Read, Write},
    net::SocketAddr,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    thread::JoinHandle,
    time::Duration,
};

/// Bound of the wait for a driver that does not answer.
const BOUND: Duration = Duration::from_secs(5);
/// Clients that are answered in one turn.
const CLIENTS: usize = 8;

/// `--control`.
#[derive(clap::Args, Clone, Debug)]
pub struct ControlArgs {
    /// Unix socket for `ironwarp show`.
    #[arg(long, env = "IRONWARP_CONTROL")]
    pub control: Option<PathBuf>,
}

/// The driver's side. The socket's file goes with it.
pub struct Control(Option<(UnixListener, PathBuf)>);

impl ControlArgs {
    /// Makes the socket, if one is asked for. A file that a driver of the past left there is replaced, one that answers is not.
    pub fn open(&self) -> Result<Control, Failure> {
        self.control.as_deref().map_or(Ok(Control(None)), Control::at)
    }
}

impl Control {
    fn at(path: &Path) -> Result<Control, Failure> {
        if UnixStream::connect(path).is_ok() {
            return Err(format!("{}: another driver answers there; choose another --control", path.display()).into());
        }
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?,
            Ok(_) => return Err(format!("{}: is there and is no socket; choose another --control", path.display()).into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {e}", path.display()).into()),
        }
        let listener = UnixListener::bind(path).map_err(|e| format!("{}: {e}; choose another --control", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Control(Some((listener, path.to_owned()))))
    }
    /// Answers those who asked since the last time; a client that does not read what fits no socket buffer is left.
    pub fn answer<B: Bus>(&self, rnic: &Rnic<B>) {
        let Some((listener, _)) = &self.0 else { return };
        for _ in 0..CLIENTS {
            let Ok((mut client, _)) = listener.accept() else { return };
            tell(&mut client, &tables(rnic));
        }
    }
    /// Answers whoever asks, from a thread of its own, until the answer is dropped.
    pub fn serve(self, tables: impl Fn() -> Value + Send + 'static) -> Result<Option<Serving>, Failure> {
        let Some((listener, path)) = &self.0 else { return Ok(None) };
        let (listener, path) = (listener.try_clone()?, path.clone());
        listener.set_nonblocking(false)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                match client {
                    Ok(mut client) => tell(&mut client, &tables()),
                    Err(e) => {
                        tracing::warn!("show: {e}");
                        return;
                    }
                }
            }
        })?;
        Ok(Some(Serving { stop, path, thread: Some(thread), _control: self }))
    }
}

fn tell(client: &mut UnixStream, tables: &Value) {
    let text = tables.to_string();
    // a client that goes away before it is told is its own affair
    let told = client.set_nonblocking(true).and_then(|()| client.write_all(text.as_bytes()));
    if let Err(e) = told {
        tracing::debug!("show: {e}");
    }
}

/// A thread that answers. Ends when it is dropped.
pub struct Serving {
    stop: Arc<AtomicBool>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    _control: Control,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // wakes it
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Where the processes of this user put the sockets of host-integrated devices.
fn run_directory() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let uid = rustix::process::getuid().as_raw();
    of("IRONWARP_RUN_DIR")
        .or_else(|| of("XDG_RUNTIME_DIR").map(|path| path.join("ironwarp")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("ironwarp-{uid}")))
}

/// The socket of this process's host-integrated device, as `control` says or in [`run_directory`]. A process that cannot have one there goes on without.
pub fn of_soft(control: &ControlArgs) -> Result<Control, Failure> {
    if control.control.is_some() {
        return control.open();
    }
    let make = || -> Result<Control, Failure> {
        let directory = run_directory();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let found = fs::symlink_metadata(&directory)?;
        if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
            return Err(format!("{} is not this user's", directory.display()).into());
        }
        Control::at(&directory.join(format!("{}.sock", std::process::id())))
    };
    Ok(make().unwrap_or_else(|e| {
        tracing::warn!("`ironwarp show --device soft` will not see this process: {e}");
        Control(None)
    }))
}

/// What every process of this user with a host-integrated device tells. Sockets of processes that are gone are removed.
pub fn ask_soft() -> Result<Vec<Value>, Failure> {
    let directory = run_directory();
    let entries = match fs::read_dir(&directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|e| format!("{}: {e}", directory.display()))?,
    };
    let mut paths: Vec<_> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "sock")).collect();
    paths.sort();
    let mut told = Vec::new();
    for path in paths {
        match UnixStream::connect(&path) {
            // one that ends in this moment tells nothing
            Ok(stream) => told.extend(read(stream)),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => drop(fs::remove_file(&path)),
            Err(e) => tracing::debug!("{}: {e}", path.display()),
        }
    }
    Ok(told)
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// What the driver at `path` tells.
pub fn ask(path: &Path) -> Result<Value, Failure> {
    let told = UnixStream::connect(path).map_err(Failure::from).and_then(read);
    told.map_err(|e| format!("{}: {e}; is a driver running with --control {0}?", path.display()).into())
}

fn read(mut stream: UnixStream) -> Result<Value, Failure> {
    stream.set_read_timeout(Some(BOUND))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

/// Listeners, connections and ports as the driver knows them.
pub fn tables<B: Bus>(rnic: &Rnic<B>) -> Value {
    let listeners = rnic.listener_rows();
    let connections = rnic.connection_rows();
    let listen: Vec<_> =
        listeners.iter().map(|l| json!({ "handle": l.handle.0, "address": l.address.to_string(), "port": l.port })).collect();
    let conn: Vec<_> = connections
        .iter()
        .map(|row| {
            json!({
                "handle": row.connection.handle.0, "state": row.state.name(), "local": row.connection.local.to_string(),
                "remote": row.connection.remote.to_string(), "listener": row.listener.map(|h| h.0), "qpn": row.qpn,
            })
        })
        .collect();
    let mut ports: Vec<(u16, u16, &str)> = rnic.reserved_ports().into_iter().map(|(first, last)| (first, last, "reserved")).collect();
    ports.extend(listeners.iter().map(|l| (l.port, l.port, "listener")));
    ports.extend(connections.iter().map(|row| row.connection.local.port()).map(|port| (port, port, "connection")));
    json!({ "listen": listen, "conn": conn, "port": port_rows(ports) })
}

/// Users of one port in one row.
fn port_rows(mut ports: Vec<(u16, u16, &str)>) -> Vec<Value> {
    ports.sort_unstable();
    let mut rows: Vec<Value> = Vec::new();
    for at in 0..ports.len() {
        let (first, last, usage) = ports[at];
        if at > 0 && ports[at - 1] == ports[at] {
            continue;
        }
        let users = ports.iter().filter(|p| **p == ports[at]).count();
        rows.push(json!({ "first": first, "last": last, "use": usage, "users": users }));
    }
    rows
}

/// The device of a process that uses the verbs, its objects, and the ids of its connection manager. Fields as `rdma link`, `rdma resource` and `rdma
/// statistic` name them.
pub fn tables_of_verbs(device: &dyn Device, cm: &Cm) -> Value {
    let ids = cm.ids();
    let text = |address: Option<SocketAddr>| address.map(|a| a.to_string());
    let is_connection = |state| {
        matches!(state, State::Connecting | State::Responded | State::Request | State::Accepting | State::Connected | State::Disconnecting)
    };
    let mut listen = Vec::new();
    let mut conn = Vec::new();
    let mut cm_id = Vec::new();
    let mut ports = Vec::new();
    for id in &ids {
        let port = id.local.map_or(0, |a| a.port());
        if id.state == State::Listen {
            listen.push(json!({ "handle": id.number, "address": id.local.map(|a| a.ip().to_string()), "port": port }));
            ports.push((port, port, "listener"));
        } else if is_connection(id.state) {
            let row = json!({
                "handle": id.number, "state": id.state.name(), "local": text(id.local), "remote": text(id.peer),
                "listener": null, "qpn": id.qp_num,
            });
            conn.push(row);
            ports.push((port, port, "connection"));
        }
        cm_id.push(json!({
            "cm-idn": id.number, "lqpn": id.qp_num, "state": id.state.name(), "src-addr": text(id.local), "dst-addr": text(id.peer),
        }));
    }
    let port = device.query_port();
    let active = port.state == PortState::Active;
    let stats: serde_json::Map<_, _> = device.stats().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let live = |name: &str| stats.get(name).cloned();
    let res = json!({ "pd": live("pdsLive"), "cq": live("cqsLive"), "qp": live("qpsLive"), "cm_id": ids.len(), "mr": live("mrsLive") });
    json!({
        "device": device.query().name, "pid": std::process::id(), "comm": command_name(),
        "link": { "state": if active { "ACTIVE" } else { "DOWN" }, "physical_state": if active { "LINK_UP" } else { "DISABLED" }, "mtu": port.active_mtu },
        "res": res, "stats": stats, "listen": listen, "conn": conn, "port": port_rows(ports), "cm_id": cm_id,
    })
}

/// As the kernel shows this process.
fn command_name() -> String {
    fs::read_to_string("/proc/self/comm").map_or_else(|_| "ironwarp".into(), |name| name.trim_end().to_owned())
}
