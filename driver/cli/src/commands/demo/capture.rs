// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's capture in the eyes of tshark, an implementation that shares nothing with this one.
use super::connections::Expected;
use crate::Failure;
use serde::Serialize;
use std::{path::Path, process::Command};

/// What tshark found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    frames: usize,
    mpa_requests: u64,
    mpa_replies: u64,
    mpa_rejects: u64,
    resets: u64,
}

const FIELDS: [&str; 9] = [
    "iwarp_mpa.key.req",
    "iwarp_mpa.key.rep",
    "iwarp_mpa.rej_flag",
    "tcp.flags.reset",
    "_ws.malformed",
    "ip.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "tcp.analysis.retransmission",
];

/// Compares the capture with what the steps did; none where there is no tshark.
pub(super) fn check(file: &Path, expected: &Expected) -> Result<Option<Found>, Failure> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-T", "fields"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    if !output.status.success() {
        return Err(format!("tshark: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let mut found = Found { frames: 0, mpa_requests: 0, mpa_replies: 0, mpa_rejects: 0, resets: 0 };
    for (n, row) in String::from_utf8_lossy(&output.stdout).lines().enumerate() {
        let cells: Vec<_> = row.split('\t').collect();
        let cell = |i: usize| cells.get(i).copied().unwrap_or_default();
        let on = |i: usize| matches!(cell(i), "1" | "True");
        found.frames += 1;
        found.mpa_requests += u64::from(!cell(0).is_empty());
        found.mpa_replies += u64::from(!cell(1).is_empty());
        found.mpa_rejects += u64::from(!cell(1).is_empty() && on(2));
        found.resets += u64::from(on(3));
        let bad_checksum = (5..8).any(|i| matches!(cell(i), "0" | "Bad"));
        if !cell(4).is_empty() || bad_checksum {
            return Err(format!("tshark: frame {} of {} is malformed or has a wrong checksum: {row}", n + 1, file.display()).into());
        }
    }
    let seen = Expected { requests: found.mpa_requests, replies: found.mpa_replies, rejects: found.mpa_rejects, resets: found.resets };
    if seen != *expected {
        return Err(format!("tshark sees {seen:?} in {}, the steps made {expected:?}", file.display()).into());
    }
    Ok(Some(found))
}
