// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's capture in the eyes of tshark, an implementation that shares nothing with this one.
use super::connections::Expected;
use crate::Failure;
use serde::Serialize;
use std::{collections::BTreeSet, path::Path, process::Command};

/// What tshark found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    frames: usize,
    mpa_requests: u64,
    mpa_replies: u64,
    mpa_rejects: u64,
    resets: u64,
}

const FIELDS: [&str; 11] = [
    "iwarp_mpa.key.req",
    "iwarp_mpa.key.rep",
    "iwarp_mpa.rej_flag",
    "tcp.flags.reset",
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "frame.number",
    "tcp.stream",
    "tcp.analysis.reused_ports",
];

/// The fields of every frame; none where there is no tshark.
fn rows(file: &Path) -> Result<Option<Vec<Vec<String>>>, Failure> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-T", "fields"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let Some(text) = run(&mut command)? else { return Ok(None) };
    Ok(Some(text.lines().map(|row| row.split('\t').map(String::from).collect()).collect()))
}

fn run(command: &mut Command) -> Result<Option<String>, Failure> {
    let output = match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    if !output.status.success() {
        return Err(format!("tshark: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Compares the capture with what the steps did; none where there is no tshark.
///
/// tshark's MPA dissector goes on with what it knew of the ports when a connection uses those of one before, and takes the second start-up for FPDUs. Such
/// a connection is judged from a capture of its own.
pub(super) fn check(file: &Path, expected: &Expected) -> Result<Option<Found>, Failure> {
    let Some(all) = rows(file)? else { return Ok(None) };
    let again: BTreeSet<String> = all.iter().filter(|row| !cell(row, 10).is_empty()).map(|row| cell(row, 9).to_owned()).collect();
    let mut found = Found { frames: all.len(), mpa_requests: 0, mpa_replies: 0, mpa_rejects: 0, resets: 0 };
    for row in all.iter().filter(|row| !again.contains(cell(row, 9))) {
        judge(row, file, &mut found)?;
    }
    for stream in again {
        let own = file.with_extension(format!("stream{stream}.pcapng"));
        run(Command::new("tshark").arg("-r").arg(file).args(["-Y", &format!("tcp.stream=={stream}"), "-w"]).arg(&own))?;
        for row in rows(&own)?.unwrap_or_default() {
            judge(&row, &own, &mut found)?;
        }
        std::fs::remove_file(&own)?;
    }
    let seen = Expected { requests: found.mpa_requests, replies: found.mpa_replies, rejects: found.mpa_rejects, resets: found.resets };
    if seen != *expected {
        return Err(format!("tshark sees {seen:?} in {}, the steps made {expected:?}", file.display()).into());
    }
    Ok(Some(found))
}

fn cell(row: &[String], i: usize) -> &str {
    row.get(i).map_or("", String::as_str)
}

/// Counts one frame, which must be well-formed.
fn judge(row: &[String], file: &Path, found: &mut Found) -> Result<(), Failure> {
    let on = |i: usize| matches!(cell(row, i), "1" | "True");
    found.mpa_requests += u64::from(!cell(row, 0).is_empty());
    found.mpa_replies += u64::from(!cell(row, 1).is_empty());
    found.mpa_rejects += u64::from(!cell(row, 1).is_empty() && on(2));
    found.resets += u64::from(on(3));
    let bad_checksum = (5..8).any(|i| matches!(cell(row, i), "0" | "Bad"));
    if !cell(row, 4).is_empty() || bad_checksum {
        let frame = cell(row, 8);
        return Err(format!("tshark: frame {frame} of {} is malformed or has a wrong checksum: {}", file.display(), row.join(" ")).into());
    }
    Ok(())
}
