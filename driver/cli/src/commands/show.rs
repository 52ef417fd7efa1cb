// SPDX-License-Identifier: MIT OR Apache-2.0
//! `show`: connections, listeners or ports of a driver that runs in another process with `--control`.
use crate::{control, output::line, Outcome};
use serde_json::Value;
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
}

#[derive(clap::Args)]
pub struct Args {
    /// Which table.
    table: Table,
    /// Socket of the driver.
    #[arg(long, env = "IRONWARP_CONTROL")]
    control: PathBuf,
}

impl Table {
    const fn key(self) -> &'static str {
        match self {
            Table::Conn => "conn",
            Table::Listen => "listen",
            Table::Port => "port",
        }
    }
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Conn => &["handle", "state", "local", "remote", "listener", "qpn"],
            Table::Listen => &["handle", "address", "port"],
            Table::Port => &["first", "last", "use", "users"],
        }
    }
}

pub fn run(args: &Args, json: bool) -> Outcome {
    let mut tables = control::ask(&args.control)?;
    let rows = tables[args.table.key()].take();
    if json {
        line(rows.to_string());
    } else {
        lines(args.table, rows.as_array().map_or(&[][..], Vec::as_slice)).iter().for_each(line);
    }
    Ok(true)
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
fn lines(table: Table, rows: &[Value]) -> Vec<String> {
    let columns = table.columns();
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
            lines(Table::Conn, &rows),
            [
                "handle       state        local           remote       listener  qpn",
                "0x100020003  ESTABLISHED  192.0.2.1:4791  192.0.2.2:1  -         7",
            ]
        );
        assert_eq!(lines(Table::Listen, &[]), ["handle  address  port"]);
    }
}
