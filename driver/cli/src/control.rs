// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver in one process tells `show` in another: a Unix socket on which every client is given the driver's tables as one JSON value.
use crate::Failure;
use ironwarp_rnic::{Bus, Rnic};
use serde_json::{json, Value};
use std::{
    fs,
    io::{self, Read, Write},
    os::unix::{
        fs::FileTypeExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
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
        let Some(path) = &self.control else { return Ok(Control(None)) };
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
        Ok(Control(Some((listener, path.clone()))))
    }
}

impl Control {
    /// Answers those who asked since the last time; a client that does not read what fits no socket buffer is left.
    pub fn answer<B: Bus>(&self, rnic: &Rnic<B>) {
        let Some((listener, _)) = &self.0 else { return };
        for _ in 0..CLIENTS {
            let Ok((mut client, _)) = listener.accept() else { return };
            let text = tables(rnic).to_string();
            // a client that goes away before it is told is its own affair
            let told = client.set_nonblocking(true).and_then(|()| client.write_all(text.as_bytes()));
            if let Err(e) = told {
                tracing::debug!("show: {e}");
            }
        }
    }
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
    let explain = |e: io::Error| format!("{}: {e}; is a driver running with --control {0}?", path.display());
    let mut stream = UnixStream::connect(path).map_err(explain)?;
    stream.set_read_timeout(Some(BOUND))?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(explain)?;
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
    ports.sort_unstable();
    let mut port: Vec<Value> = Vec::new();
    for at in 0..ports.len() {
        // users of one port in one row
        let (first, last, usage) = ports[at];
        if at > 0 && ports[at - 1] == ports[at] {
            continue;
        }
        let users = ports.iter().filter(|p| **p == ports[at]).count();
        port.push(json!({ "first": first, "last": last, "use": usage, "users": users }));
    }
    json!({ "listen": listen, "conn": conn, "port": port })
}
