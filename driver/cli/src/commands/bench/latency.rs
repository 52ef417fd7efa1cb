// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thing at a time, from doorbell to event, stage by stage.
use super::{
    pair::{data, expect, to, Pair, A, B, PORT},
    session::{Batch, Session, Verb},
    stamps::{Chain, Kind, Mark, Owner, Stage, What},
};
use crate::Failure;
use ironwarp_abi::EventKind;
use ironwarp_rnic::{Event, Refusal};
use serde::Serialize;
use std::net::Ipv4Addr;

/// Budget in cycles, as first set and as aimed at.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Budget {
    pub(super) first: u64,
    pub(super) goal: u64,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// All stages but the host's, those on the wire included.
    pub(super) hardware_cycles: u64,
    /// Of them, cycles in which frames pass: first beat out to last beat in.
    pub(super) wire_cycles: u64,
    /// Of them, DMA reads from request to last beat, of a host without latency.
    pub(super) dma_read_cycles: u64,
    pub(super) host_cycles: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<Budget>,
    pub(super) stages: Vec<Stage>,
    /// From the same begin, beside the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) aside: Vec<(&'static str, u64)>,
}

const COMMAND: &str = "command read by DMA";
const DATA: &str = "private data read by DMA";
const WORK: &str = "work request read by DMA";
const PAYLOAD: &str = "payload read by DMA";

impl Row {
    fn new(name: &'static str, chain: Chain<'_>, aside: Vec<(&'static str, u64)>, budget: Option<Budget>) -> Self {
        let stages = chain.stages();
        let sum = |which: &dyn Fn(&Stage) -> bool| stages.iter().filter(|s| which(s)).map(|s| s.cycles).sum();
        Row {
            name,
            hardware_cycles: sum(&|s| s.of != Owner::Host),
            wire_cycles: sum(&|s| s.of == Owner::Wire),
            dma_read_cycles: sum(&|s| [COMMAND, DATA, WORK, PAYLOAD].contains(&s.name)),
            host_cycles: sum(&|s| s.of == Owner::Host),
            budget,
            stages,
            aside,
        }
    }
}

/// Doorbell, and the read of its command.
fn command<'a>(marks: &'a [Mark], end: usize, of: Owner) -> Result<Chain<'a>, Failure> {
    fetch(Chain::from(marks, end, What::Doorbell)?, end, of)
}

fn fetch(chain: Chain<'_>, end: usize, of: Owner) -> Result<Chain<'_>, Failure> {
    chain.to("doorbell to DMA read of the command", of, end, What::CommandAsked)?.to(COMMAND, of, end, What::CommandRead)
}

/// A frame from one core to the other.
fn frame<'a>(chain: Chain<'a>, name: [&'static str; 2], from: usize, kind: Kind) -> Result<Chain<'a>, Failure> {
    let of = if from == A { Owner::A } else { Owner::B };
    chain.to(name[0], of, from, What::OutFirst(kind))?.to(name[1], Owner::Wire, 1 - from, What::InLast(kind))
}

/// CONNECT up to the doorbell of B's answer and the read of that command.
fn up_to_answer(marks: &[Mark]) -> Result<Chain<'_>, Failure> {
    let mut chain = command(marks, A, Owner::A)?;
    chain = frame(chain, ["command to first beat of SYN", "SYN passes"], A, Kind::Syn)?;
    chain = frame(chain, ["SYN to first beat of SYN, ACK", "SYN, ACK passes"], B, Kind::SynAck)?;
    let request = What::OutFirst(Kind::Payload);
    chain = chain.through("SYN, ACK to DMA read of private data", Owner::A, A, What::DataAsked, request)?;
    chain = chain.through(DATA, Owner::A, A, What::DataRead, request)?;
    chain = frame(chain, ["up to first beat of the MPA Request", "MPA Request passes"], A, Kind::Payload)?;
    let announced = What::Event(EventKind::ConnectRequest);
    chain = chain.through("MPA Request to private data in host memory", Owner::B, B, What::DataWritten, announced)?;
    chain = chain.to("up to CONNECT_REQUEST in host memory", Owner::B, B, announced)?;
    fetch(chain.to("the host answers", Owner::Host, B, What::Doorbell)?, B, Owner::B)
}

/// The MPA Reply and what comes of it.
fn reply(mut chain: Chain<'_>) -> Result<Chain<'_>, Failure> {
    let reply = What::OutFirst(Kind::Payload);
    chain = chain.through("command to DMA read of private data", Owner::B, B, What::DataAsked, reply)?;
    chain = chain.through(DATA, Owner::B, B, What::DataRead, reply)?;
    chain = frame(chain, ["up to first beat of the MPA Reply", "MPA Reply passes"], B, Kind::Payload)?;
    let replied = What::Event(EventKind::ConnectReply);
    chain = chain.through("MPA Reply to private data in host memory", Owner::A, A, What::DataWritten, replied)?;
    chain.to("up to CONNECT_REPLY in host memory", Owner::A, A, replied)
}

const SET_UP_BUDGET: Budget = Budget { first: 2000, goal: 400 };
const LISTEN_BUDGET: Budget = Budget { first: 200, goal: 64 };

fn listen(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let (listener, marks) = pair.seen(|p| Ok(p.b.create_listen(Ipv4Addr::UNSPECIFIED, 0, 8)?))?;
    pair.b.destroy_listen(listener)?;
    let chain =
        command(&marks, B, Owner::B)?.to("command to LISTEN_REPLY in host memory", Owner::B, B, What::Event(EventKind::ListenReply))?;
    Ok(Row::new(name, chain, Vec::new(), Some(LISTEN_BUDGET)))
}

/// A set-up, then its end by ABORT.
fn set_up(pair: &mut Pair, name: &'static str, octets: usize) -> Result<Row, Failure> {
    let (ends, marks) = pair.seen(|p| p.open(octets))?;
    pair.abort(ends)?;
    let chain = reply(up_to_answer(&marks)?)?;
    let aside = vec![
        ("CONNECT doorbell to its CMD_REPLY", chain.aside(A, What::Event(EventKind::CmdReply))?),
        ("CONNECT doorbell to CONNECT_REPLY, the host included", chain.aside(A, What::Event(EventKind::ConnectReply))?),
        ("CONNECT doorbell to B's ESTABLISHED, the host included", chain.aside(B, What::Event(EventKind::Established))?),
    ];
    Ok(Row::new(name, chain, aside, Some(SET_UP_BUDGET)))
}

fn bare(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    set_up(pair, name, 0)
}
fn some(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    set_up(pair, name, 64)
}
fn most(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    set_up(pair, name, 512)
}

/// Waits for a CONNECT_REPLY that refuses, with its private data.
fn refused_at_a(pair: &mut Pair, octets: usize) -> Result<(), Failure> {
    expect(&mut pair.a, |event| match event {
        Event::ConnectReply { result: Err(Refusal::Refused), start, .. } if start.private_data == data(octets) => Some(()),
        _ => None,
    })
}

fn reject(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let ((), marks) = pair.seen(|p| {
        p.a.post_connect(&to(PORT, 64))?;
        let (at_b, _) = p.requested()?;
        p.b.post_reject(&at_b, &data(64), 0)?;
        refused_at_a(p, 64)?;
        p.freed()
    })?;
    Ok(Row::new(name, reply(up_to_answer(&marks)?)?, Vec::new(), None))
}

fn refused(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let ((), marks) = pair.seen(|p| {
        p.a.post_connect(&to(PORT + 1, 0))?;
        refused_at_a(p, 0)?;
        expect(&mut p.a, |event| matches!(event, Event::ConnectionFreed { .. }).then_some(()))
    })?;
    let mut chain = command(&marks, A, Owner::A)?;
    chain = frame(chain, ["command to first beat of SYN", "SYN passes"], A, Kind::Syn)?;
    chain = frame(chain, ["SYN to first beat of RST", "RST passes"], B, Kind::Reset)?;
    chain = chain.to("RST to CONNECT_REPLY in host memory", Owner::A, A, What::Event(EventKind::ConnectReply))?;
    Ok(Row::new(name, chain, Vec::new(), None))
}

fn close(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let ends = pair.open(0)?;
    let ((), marks) = pair.seen(|p| {
        p.a.post_disconnect(&ends.0)?;
        p.freed()
    })?;
    let mut chain = command(&marks, A, Owner::A)?;
    chain = frame(chain, ["command to first beat of FIN", "FIN passes"], A, Kind::Fin)?;
    chain = frame(chain, ["FIN to first beat of the other FIN", "the other FIN passes"], B, Kind::Fin)?;
    chain = chain.to("the other FIN to CLOSE in host memory", Owner::A, A, What::Event(EventKind::Close))?;
    let aside = vec![
        ("DISCONNECT doorbell to A's FREED", chain.aside(A, What::Event(EventKind::Freed))?),
        ("DISCONNECT doorbell to B's CLOSE", chain.aside(B, What::Event(EventKind::Close))?),
        ("DISCONNECT doorbell to B's FREED", chain.aside(B, What::Event(EventKind::Freed))?),
    ];
    Ok(Row::new(name, chain, aside, None))
}

fn abort(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let ends = pair.open(0)?;
    let ((), marks) = pair.seen(|p| p.abort(ends))?;
    let chain = command(&marks, A, Owner::A)?.to("command to FREED in host memory", Owner::A, A, What::Event(EventKind::Freed))?;
    let aside = vec![
        ("ABORT doorbell to first beat of RST", chain.aside(A, What::OutFirst(Kind::Reset))?),
        ("ABORT doorbell to B's CLOSE", chain.aside(B, What::Event(EventKind::Close))?),
        ("ABORT doorbell to B's FREED", chain.aside(B, What::Event(EventKind::Freed))?),
    ];
    Ok(Row::new(name, chain, aside, None))
}

/// For 64 octets, without the wire: doorbell to first beat, last beat to completion.
const MESSAGE_BUDGET: Budget = Budget { first: 128, goal: 64 };

/// One message of A on a connection at rest; what was seen.
fn message(pair: &mut Pair, verb: Verb, octets: usize, inline: bool) -> Result<Vec<Mark>, Failure> {
    let mut session = Session::open(pair)?;
    let batch = Batch { verb, octets, count: 1, signalled: 1, inline };
    let ((), marks) = pair.seen(|p| {
        session.post(p, A, batch)?;
        session.complete(p, [1, 0])
    })?;
    session.close(pair)?;
    Ok(marks)
}

/// From the doorbell of a work request to its frame at the other end.
fn up_to_frame(marks: &[Mark]) -> Result<Chain<'_>, Failure> {
    let first = What::OutFirst(Kind::Payload);
    let mut chain = Chain::from(marks, A, What::Posted)?.to("doorbell to DMA read of the work request", Owner::A, A, What::WorkAsked)?;
    chain = chain.to(WORK, Owner::A, A, What::WorkRead)?;
    chain = chain.through("work request to DMA read of the payload", Owner::A, A, What::DataAsked, first)?;
    chain = chain.through(PAYLOAD, Owner::A, A, What::DataRead, first)?;
    frame(chain, ["up to first beat of the frame", "frame passes"], A, Kind::Payload)
}

fn send(pair: &mut Pair, name: &'static str, inline: bool) -> Result<Row, Failure> {
    let marks = message(pair, Verb::Send, 64, inline)?;
    let mut chain = up_to_frame(&marks)?;
    chain = chain.through("frame to payload in host memory", Owner::B, B, What::DataWritten, What::Received)?;
    chain = chain.to("up to the completion of the receive in host memory", Owner::B, B, What::Received)?;
    let aside = vec![("doorbell to the completion of the Send", chain.aside(A, What::Completed)?)];
    Ok(Row::new(name, chain, aside, Some(MESSAGE_BUDGET)))
}

fn send_inline(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    send(pair, name, true)
}
fn send_by_dma(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    send(pair, name, false)
}

fn write(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let marks = message(pair, Verb::Write, 8, true)?;
    let chain = up_to_frame(&marks)?.to("frame to payload in host memory", Owner::B, B, What::DataWritten)?;
    let aside = vec![("doorbell to the completion of the Write", chain.aside(A, What::Completed)?)];
    Ok(Row::new(name, chain, aside, None))
}

fn read(pair: &mut Pair, name: &'static str) -> Result<Row, Failure> {
    let marks = message(pair, Verb::Read, 64, false)?;
    let mut chain = up_to_frame(&marks)?;
    let response = What::OutFirst(Kind::Payload);
    chain = chain.through("Read Request to DMA read of the payload", Owner::B, B, What::DataAsked, response)?;
    chain = chain.through(PAYLOAD, Owner::B, B, What::DataRead, response)?;
    chain = frame(chain, ["up to first beat of the Read Response", "Read Response passes"], B, Kind::Payload)?;
    chain = chain.to("Read Response to payload in host memory", Owner::A, A, What::DataWritten)?;
    chain = chain.to("up to the completion of the Read in host memory", Owner::A, A, What::Completed)?;
    Ok(Row::new(name, chain, Vec::new(), None))
}

/// A measurement under its name.
type Measure = fn(&mut Pair, &'static str) -> Result<Row, Failure>;

pub(super) const ALL: [(&str, Measure); 12] = [
    ("LISTEN doorbell to LISTEN_REPLY", listen),
    ("CONNECT doorbell to CONNECT_REPLY, no private data", bare),
    ("CONNECT doorbell to CONNECT_REPLY, 64 octets of private data both ways", some),
    ("CONNECT doorbell to CONNECT_REPLY, 512 octets of private data both ways", most),
    ("CONNECT doorbell to CONNECT_REPLY, rejected with 64 octets", reject),
    ("CONNECT doorbell to CONNECT_REPLY, nobody listens", refused),
    ("DISCONNECT doorbell to CLOSE", close),
    ("ABORT doorbell to FREED", abort),
    ("Send doorbell to completion of the receive, 64 octets inline", send_inline),
    ("Send doorbell to completion of the receive, 64 octets by DMA", send_by_dma),
    ("Write doorbell to host memory, 8 octets inline", write),
    ("Read doorbell to completion, 64 octets", read),
];
