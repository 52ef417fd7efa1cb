// SPDX-License-Identifier: MIT OR Apache-2.0
//! `show`: the tables of a driver that runs in another process: of one with `--control`, or with `--device soft` of every process of this user that
//! has a host-integrated device. `link`, `res` and `cm_id` look as `rdma link`, `rdma resource` and `rdma resource show cm_id`.
use crate::{control, device::Device, output::line, Failure, Outcome};
use ironwarp_soft::{Soft, SoftConfig};
use serde_json::{json, Value};
use std::path::PathBuf;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Table {
    /// Connections.
    Conn,
    /// Listeners.
    Listen,
    /// Ports in use or kept for the host.
    Port,
    /// Devices and their ports.
    Link,
    /// How many objects of each kind a device has.
    Res,
    /// Ids of the connection manager.
    #[value(name = "cm_id")]
    CmId,
}

#[derive(clap::Args)]
pub struct Args {
    /// Which table.
    table: Table,
    #[command(flatten)]
    from: Whose,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// Socket of the driver.
    #[arg(long, env = "IRONWARP_CONTROL")]
    control: Option<PathBuf>,
    /// soft: all host-integrated devices of this user.
    #[arg(long, short, value_parser = soft)]
    device: Option<Device>,
}

fn soft(text: &str) -> Result<Device, String> {
    match text.parse()? {
        Device::Soft => Ok(Device::Soft),
        _ => Err("what an adapter has is known by its driver: give the driver --control SOCKET, and that socket here".into()),
    }
}

impl Table {
    const fn key(self) -> &'static str {
        match self {
            Table::Conn => "conn",
            Table::Listen => "listen",
            Table::Port => "port",
            Table::Link => "link",
            Table::Res => "res",
            Table::CmId => "cm_id",
        }
    }
    /// Headings; none for those in the look of `rdma`.
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Conn => &["handle", "state", "local", "remote", "listener", "qpn"],
            Table::Listen => &["handle", "address", "port"],
            Table::Port => &["first", "last", "use", "users"],
            Table::Link | Table::Res | Table::CmId => &[],
        }
    }
}

/// What there is of a device that no process has opened: its name and link, and nothing else.
pub fn idle_soft() -> Value {
    control::tables_of_verbs(&*Soft::new(SoftConfig::default()), &ironwarp_rdmacm::Cm::new())
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let Args { table, from } = args;
    let told = match &from.control {
        Some(path) => vec![control::ask(path)?],
        None => control::ask_soft()?,
    };
    let many = from.control.is_none();
    let processes = if told.is_empty() && matches!(table, Table::Link | Table::Res) { vec![idle_soft()] } else { told };
    let mut rows = Vec::new();
    for (index, mut process) in processes.into_iter().enumerate() {
        let found = match process[table.key()].take() {
            Value::Array(found) => found,
            Value::Null => return Err(format!("this driver does not tell of {}", table.key()).into()),
            one => vec![one],
        };
        rows.extend(found.into_iter().map(|row| with_process(row, *table, many, index, &process)));
    }
    if json {
        line(Value::Array(rows).to_string());
    } else if table.columns().is_empty() {
        rows.iter().try_for_each(|row| rdma(*table, row).map(line))?;
    } else {
        let columns = [table.columns(), if many { &["pid"] } else { &[] }].concat();
        lines(&columns, &rows).iter().for_each(line);
    }
    Ok(true)
}

/// A row with whose it is.
fn with_process(mut row: Value, table: Table, many: bool, index: usize, process: &Value) -> Value {
    if many {
        row["pid"] = process["pid"].clone();
    }
    if table.columns().is_empty() {
        for key in ["device", "pid", "comm"] {
            row[key] = process[key].clone();
        }
        row["index"] = json!(index);
    }
    row
}

/// A line in the look of `rdma`: names and values.
fn rdma(table: Table, row: &Value) -> Result<String, Failure> {
    let fields = |names: &[&str]| {
        let known = names.iter().filter(|name| !row[**name].is_null());
        known.map(|name| format!("{name} {}", cell(name, &row[*name]))).collect::<Vec<_>>().join(" ")
    };
    let device = row["device"].as_str().ok_or("a driver without a name")?;
    Ok(match table {
        Table::Link => format!("link {device}/1 {}", fields(&["state", "physical_state", "mtu", "pid", "comm"])),
        Table::Res => format!("{}: {device}: {}", row["index"], fields(&["pd", "cq", "qp", "cm_id", "mr", "pid", "comm"])),
        _ => {
            format!("link {device}/1 {} ps TCP {}", fields(&["cm-idn", "lqpn", "state"]), fields(&["pid", "comm", "src-addr", "dst-addr"]))
        }
    })
}

fn cell(column: &str, value: &Value) -> String {
    match (column, value) {
        ("handle" | "listener", Value::Number(n)) => n.as_u64().map_or_else(String::new, |n| format!("{n:#x}")),
        (_, Value::Null) => "-".into(),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// A heading and the rows, in columns.
fn lines(columns: &[&str], rows: &[Value]) -> Vec<String> {
    let mut cells = vec![columns.iter().map(|c| c.to_string()).collect::<Vec<_>>()];
    cells.extend(rows.iter().map(|row| columns.iter().map(|c| cell(c, &row[*c])).collect()));
    let widths: Vec<_> = (0..columns.len()).map(|c| cells.iter().map(|row| row[c].len()).max().unwrap_or(0)).collect();
    let join = |row: &Vec<String>| row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect::<Vec<_>>().join("  ");
    cells.iter().map(|row| join(row).trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_have_a_heading_and_a_row_each() {
        let rows = [
            json!({ "handle": 0x1_0002_0003u64, "state": "ESTABLISHED", "local": "192.0.2.1:4791", "remote": "192.0.2.2:1", "listener": null, "qpn": 7 }),
        ];
        assert_eq!(
            lines(Table::Conn.columns(), &rows),
            [
                "handle       state        local           remote       listener  qpn",
                "0x100020003  ESTABLISHED  192.0.2.1:4791  192.0.2.2:1  -         7",
            ]
        );
        assert_eq!(lines(Table::Listen.columns(), &[]), ["handle  address  port"]);
    }
}
