// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's capture in the eyes of tshark, an implementation that shares nothing with this one.
use super::{connections::Expected, tools};
use crate::Failure;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

/// What tshark found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    frames: usize,
    mpa_requests: u64,
    mpa_replies: u64,
    mpa_rejects: u64,
    resets: u64,
    data: Data,
}

/// In the connections of the tools.
#[derive(Clone, Debug, Default, Serialize)]
struct Data {
    connections: u64,
    /// Segments with octets behind the start-up, each one FPDU whose CRC is right.
    fpdus: u64,
    good_crcs: u64,
    sends: u64,
    writes: u64,
    read_requests: u64,
    read_responses: u64,
    /// Segments that TCP repeated: tshark does not look into these.
    repeated: u64,
    /// SYNs of a client that was earlier than its server, answered by RST.
    refused: u64,
    /// RSTs behind both FINs: a process ended before the last ACK came, and its adapter resets what is not over.
    resets_behind_fins: u64,
}

/// Columns that are asked for, in this order.
#[derive(Clone, Copy)]
enum Column {
    Request,
    Reply,
    Rejected,
    Reset,
    Malformed,
    IpChecksum,
    TcpChecksum,
    IcmpChecksum,
    Frame,
    Stream,
    Reused,
    Time,
    Octets,
    Syn,
    Ack,
    Fin,
    Source,
    Opcode,
    Repeated,
    Late,
}

const FIELDS: [&str; 20] = [
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
    "frame.time_epoch",
    "tcp.len",
    "tcp.flags.syn",
    "tcp.flags.ack",
    "tcp.flags.fin",
    "ip.src",
    "iwarp_rdma.opcode",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
];

/// tshark takes the octets of any Send for these, without having seen that they were agreed on, and finds them malformed.
const NOT_THERE: [&str; 2] = ["rpcordma", "smb_direct"];

/// A frame.
struct Row(Vec<String>);

impl Row {
    fn cell(&self, column: Column) -> &str {
        self.0.get(column as usize).map_or("", String::as_str)
    }
    fn has(&self, column: Column) -> bool {
        !self.cell(column).is_empty()
    }
    fn on(&self, column: Column) -> bool {
        matches!(self.cell(column), "1" | "True")
    }
    fn error(&self, file: &Path, what: &str) -> Failure {
        format!("tshark: frame {} of {} {what}: {}", self.cell(Column::Frame), file.display(), self.0.join(" ")).into()
    }
    /// Before the tools: in picoseconds of the model.
    fn is_before(&self, picoseconds: u64) -> bool {
        let seconds: f64 = self.cell(Column::Time).parse().unwrap_or(f64::MAX);
        seconds * 1e12 < picoseconds as f64
    }
}

fn tshark(file: &Path) -> Command {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    NOT_THERE.iter().for_each(|protocol| {
        command.args(["--disable-protocol", protocol]);
    });
    command
}

/// The fields of every frame; none where there is no tshark.
fn rows(file: &Path) -> Result<Option<Vec<Row>>, Failure> {
    let mut command = tshark(file);
    command.args(["-T", "fields"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let Some(text) = run(&mut command)? else { return Ok(None) };
    Ok(Some(text.lines().map(|row| Row(row.split('\t').map(String::from).collect())).collect()))
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

/// FPDUs whose CRC is right, of what `filter` lets through; that of no one may be wrong. Only the words say so.
fn good_crcs(file: &Path, filter: &str) -> Result<u64, Failure> {
    let text = run(tshark(file).args(["-O", "iwarp_mpa", "-Y", filter]))?.unwrap_or_default();
    if let Some(wrong) = text.lines().find(|line| line.contains("Bad CRC32")) {
        return Err(format!("tshark: {}: {wrong}", file.display()).into());
    }
    Ok(text.lines().filter(|line| line.contains("(Good CRC32)")).count() as u64)
}

/// Compares the capture with what the steps did and what the tools do behind `steps_end`, in picoseconds; none where there is no tshark.
///
/// tshark's MPA dissector goes on with what it knew of the ports when a connection uses those of one before, and takes the second start-up for FPDUs. Such
/// a connection is judged from a capture of its own.
pub(super) fn check(file: &Path, expected: &Expected, steps_end: u64) -> Result<Option<Found>, Failure> {
    let Some(all) = rows(file)? else { return Ok(None) };
    let again: BTreeSet<String> = all.iter().filter(|row| row.has(Column::Reused)).map(|row| row.cell(Column::Stream).to_owned()).collect();
    let mut judge = Judge::new(steps_end);
    judge.found.frames = all.len();
    for row in all.iter().filter(|row| !again.contains(row.cell(Column::Stream))) {
        judge.frame(row, row.cell(Column::Stream), file)?;
    }
    let mut filter = String::from("iwarp_mpa.fpdu");
    for stream in &again {
        let own = file.with_extension(format!("stream{stream}.pcapng"));
        run(Command::new("tshark").arg("-r").arg(file).args(["-Y", &format!("tcp.stream=={stream}"), "-w"]).arg(&own))?;
        for row in rows(&own)?.unwrap_or_default() {
            judge.frame(&row, stream, &own)?;
        }
        judge.found.data.good_crcs += good_crcs(&own, "iwarp_mpa.fpdu")?;
        std::fs::remove_file(&own)?;
        filter += &format!(" and tcp.stream!={stream}");
    }
    judge.found.data.good_crcs += good_crcs(file, &filter)?;
    judge.end(file, expected).map(Some)
}

/// What is known of a connection.
#[derive(Default)]
struct Stream {
    answered: bool,
    /// Who has sent a FIN.
    fins: BTreeSet<String>,
}

struct Judge {
    steps_end: u64,
    found: Found,
    streams: BTreeMap<String, Stream>,
}

impl Judge {
    fn new(steps_end: u64) -> Self {
        let found = Found { frames: 0, mpa_requests: 0, mpa_replies: 0, mpa_rejects: 0, resets: 0, data: Data::default() };
        Judge { steps_end, found, streams: BTreeMap::new() }
    }
    /// Counts one frame, which must be well-formed.
    fn frame(&mut self, row: &Row, stream: &str, file: &Path) -> Result<(), Failure> {
        let checksums = [Column::IpChecksum, Column::TcpChecksum, Column::IcmpChecksum];
        if row.has(Column::Malformed) || checksums.into_iter().any(|c| matches!(row.cell(c), "0" | "Bad")) {
            return Err(row.error(file, "is malformed or has a wrong checksum"));
        }
        if row.is_before(self.steps_end) {
            let found = &mut self.found;
            found.mpa_requests += u64::from(row.has(Column::Request));
            found.mpa_replies += u64::from(row.has(Column::Reply));
            found.mpa_rejects += u64::from(row.has(Column::Reply) && row.on(Column::Rejected));
            found.resets += u64::from(row.on(Column::Reset));
            return Ok(());
        }
        self.data(row, stream, file)
    }
    /// A frame of the tools.
    fn data(&mut self, row: &Row, stream: &str, file: &Path) -> Result<(), Failure> {
        let data = &mut self.found.data;
        let known = self.streams.entry(stream.to_owned()).or_default();
        known.answered |= row.on(Column::Syn) && row.on(Column::Ack);
        if row.on(Column::Fin) {
            known.fins.insert(row.cell(Column::Source).to_owned());
        }
        if row.on(Column::Reset) {
            match (known.answered, known.fins.len()) {
                (false, _) => data.refused += 1,
                (true, 2) => data.resets_behind_fins += 1,
                (true, _) => return Err(row.error(file, "resets a connection that is not closing")),
            }
        }
        data.connections += u64::from(row.has(Column::Reply));
        let start_up = row.has(Column::Request) || row.has(Column::Reply);
        if matches!(row.cell(Column::Octets), "" | "0") || start_up {
            return Ok(());
        }
        let repeated = row.has(Column::Repeated) || row.has(Column::Late);
        data.repeated += u64::from(repeated);
        if repeated && !row.has(Column::Opcode) {
            return Ok(());
        }
        data.fpdus += 1;
        match row.cell(Column::Opcode) {
            "0x00" => data.writes += 1,
            "0x01" => data.read_requests += 1,
            "0x02" => data.read_responses += 1,
            "0x03" => data.sends += 1,
            _ => return Err(row.error(file, "is not one FPDU with a Write, a Read or a Send")),
        }
        Ok(())
    }
    fn end(self, file: &Path, expected: &Expected) -> Result<Found, Failure> {
        let found = self.found;
        let seen = Expected { requests: found.mpa_requests, replies: found.mpa_replies, rejects: found.mpa_rejects, resets: found.resets };
        if seen != *expected {
            return Err(format!("tshark sees {seen:?} in {}, the steps made {expected:?}", file.display()).into());
        }
        let data = &found.data;
        let all = [data.sends, data.writes, data.read_requests, data.read_responses];
        if data.connections != tools::CONNECTIONS || data.good_crcs != data.fpdus || all.contains(&0) {
            return Err(format!("tshark sees {data:?}; {} connections with all operations were made", tools::CONNECTIONS).into());
        }
        Ok(found)
    }
}
