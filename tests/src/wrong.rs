// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be wrong in what a peer sends, and what must come of it: one table for every device.
//!
//! Of each row a connection is made, used, and then hears what is wrong, with good FPDUs before and behind it and beside it on another connection. The peer hears exactly the Terminate that
//! the row says and FIN; the device's user hears of the end once, and each work request completes once, in order; no octet changes but those that may.
use crate::stage::{framed, next_ulpdu, segment, until, Ear, End, Stage, Watched};
use ironwarp_iwcm::{Errno, EventKind};
use ironwarp_verbs::{Access, Mr, QpState, SendFlags, SendOp, Terminate, Wc, WcStatus};
use ironwarp_wire::{ddp, rdmap};
use std::sync::Arc;

/// All rights but the one to invalidate.
pub const ALL: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);
/// Octets of a receive.
pub const RECEIVE: usize = 64;
/// IRD and ORD.
const DEPTH: u16 = 2;
/// Octets of the region that the peer may use.
pub const TARGET: usize = 1001;
/// Where receives begin, and from one to the next.
const RECEIVES: usize = 100;
const STRIDE: usize = 2 * RECEIVE;

/// Untagged header of a message of one segment.
pub fn untagged(opcode: u8, qn: u32, msn: u32, mo: u32) -> ddp::Header {
    ddp::Header::Untagged { last: true, rdmap: 0x40 | opcode, stag: 0, qn, msn, mo }
}

/// Tagged header of a message of one segment.
pub fn tagged(opcode: u8, stag: u32, to: u64) -> ddp::Header {
    ddp::Header::Tagged { last: true, rdmap: 0x40 | opcode, stag, to }
}

/// A header with L = 0.
fn first(header: ddp::Header) -> ddp::Header {
    match header {
        ddp::Header::Tagged { rdmap, stag, to, .. } => ddp::Header::Tagged { last: false, rdmap, stag, to },
        ddp::Header::Untagged { rdmap, stag, qn, msn, mo, .. } => ddp::Header::Untagged { last: false, rdmap, stag, qn, msn, mo },
    }
}

/// A Read Request.
pub fn read(msn: u32, size: u32, stag: u32, to: u64) -> Vec<u8> {
    let request = rdmap::ReadRequest { sink_stag: 0x1234, sink_to: 5, size, source_stag: stag, source_to: to };
    let mut payload = [0; rdmap::ReadRequest::OCTETS];
    request.emit(&mut payload).expect("room");
    segment(untagged(1, 1, msn, 0), &payload)
}

/// The connection that hears what is wrong.
pub struct Victim<'a> {
    /// Its device.
    pub stage: &'a mut dyn Stage,
    /// Its end. Two receives of [`RECEIVE`] octets are posted, the next Send has MSN 2, the next Read Request 1.
    pub end: End,
    /// What the peer may use, [`TARGET`] octets.
    pub target: Watched,
    /// Where receives go to.
    pub receives: Watched,
    /// Other regions.
    pub others: Vec<Watched>,
}

impl Victim<'_> {
    /// Another region of its domain.
    fn region(&mut self, rights: Access) -> Arc<dyn Mr> {
        self.others.push(Watched::new(&self.end.pd, 100, rights, 0x3c));
        self.others.last().expect("pushed").mr.clone()
    }
    /// One of another domain.
    fn foreign(&mut self) -> Arc<dyn Mr> {
        let pd = self.stage.side().verbs.alloc_pd().expect("domain");
        self.others.push(Watched::new(&pd, 100, Access::all(), 0x3d));
        self.others.last().expect("pushed").mr.clone()
    }
    /// One of its domain that is good for another queue pair alone.
    fn other_stream(&mut self) -> Arc<dyn Mr> {
        let mr = self.region(Access::all());
        mr.restrict(Some(self.end.qp.qp_num() ^ 1)).expect("restricted");
        mr
    }
    /// A good Write to the region that the peer may use.
    fn write(&self, at: i64, n: usize) -> Vec<u8> {
        segment(tagged(0, self.target.mr.rkey(), self.target.mr.addr().wrapping_add_signed(at)), &vec![0xdd; n])
    }
    fn read(&self, msn: u32, at: i64, n: usize) -> Vec<u8> {
        read(msn, n as u32, self.target.mr.rkey(), self.target.mr.addr().wrapping_add_signed(at))
    }
}

/// What a row sends.
pub struct Wrong {
    /// Octets of the stream: FPDUs, of which the last is at fault.
    pub octets: Vec<u8>,
    /// The ULPDU at fault.
    pub culprit: Vec<u8>,
}

impl Wrong {
    fn one(ulpdu: Vec<u8>) -> Self {
        Wrong { octets: framed(&ulpdu), culprit: ulpdu }
    }
    fn list(list: Vec<Vec<u8>>) -> Self {
        let octets = list.iter().flat_map(|u| framed(u)).collect();
        Wrong { octets, culprit: list.last().cloned().unwrap_or_default() }
    }
}

/// A row.
pub struct Row {
    /// What is wrong.
    pub name: String,
    make: Box<dyn Fn(&mut Victim<'_>) -> Wrong>,
    /// Layer, type, code.
    pub says: (u8, u8, u8),
    /// Which headers come back: the DDP header, that of the Read Request.
    pub headers: (bool, bool),
    /// How the receive at hand completes.
    pub receive: WcStatus,
    /// Work requests that the peer does not answer are open.
    pub pending: bool,
}

impl Row {
    fn new(name: impl Into<String>, says: (u8, u8, u8), headers: (bool, bool), make: impl Fn(&mut Victim<'_>) -> Wrong + 'static) -> Self {
        Row { name: name.into(), make: Box::new(make), says, headers, receive: WcStatus::WrFlushErr, pending: true }
    }
    fn receive(self, receive: WcStatus) -> Self {
        Row { receive, ..self }
    }
    fn alone(self) -> Self {
        Row { pending: false, ..self }
    }
}

const NONE: (bool, bool) = (false, false);
const D: (bool, bool) = (true, false);
const DR: (bool, bool) = (true, true);

/// MPA: CRC and length.
pub fn mpa() -> Vec<Row> {
    let mut rows = vec![
        Row::new("a wrong CRC", (2, 0, 2), NONE, |v| {
            let mut wrong = Wrong::one(v.write(0, 40));
            *wrong.octets.last_mut().expect("CRC") ^= 1;
            wrong
        }),
        Row::new("a bit of payload that the CRC does not have", (2, 0, 2), NONE, |v| {
            let mut wrong = Wrong::one(v.write(0, 40));
            wrong.octets[30] ^= 4;
            wrong
        }),
        Row::new("a wrong CRC in the last segment of a Write", (2, 0, 2), NONE, |v| {
            let (stag, to) = (v.target.mr.rkey(), v.target.mr.addr());
            v.target.expect(0, &[7; 100]);
            let list = vec![segment(first(tagged(0, stag, to)), &[7; 100]), segment(tagged(0, stag, to + 100), &[8; 50])];
            let mut wrong = Wrong::list(list);
            *wrong.octets.last_mut().expect("CRC") ^= 0x80;
            wrong
        }),
        Row::new("a wrong CRC of a Send", (2, 0, 2), NONE, |_| {
            let mut wrong = Wrong::one(segment(untagged(3, 0, 2, 0), &[5; 20]));
            *wrong.octets.last_mut().expect("CRC") ^= 1;
            wrong
        }),
        Row::new("Read Request that is too short", (2, 0, 3), NONE, |v| Wrong::one(v.read(1, 0, 1)[..45].to_vec())),
        Row::new("Terminate that is too short for its length", (2, 0, 3), NONE, |_| {
            Wrong::one(segment(untagged(7, 2, 1, 0), &[])[..17].to_vec())
        }),
    ];
    for n in 0..ddp::UNTAGGED_OCTETS {
        rows.push(Row::new(format!("untagged, {n} octets"), (2, 0, 3), NONE, move |_| {
            Wrong::one(segment(untagged(3, 0, 2, 0), &[])[..n].to_vec())
        }));
    }
    for n in 1..ddp::TAGGED_OCTETS {
        rows.push(Row::new(format!("tagged, {n} octets"), (2, 0, 3), NONE, move |v| Wrong::one(v.write(0, 0)[..n].to_vec())));
    }
    rows
}

/// Versions of DDP and RDMAP.
pub fn versions() -> Vec<Row> {
    let mut rows = Vec::new();
    for version in [0, 2, 3] {
        let dv = move |mut ulpdu: Vec<u8>| {
            ulpdu[0] = ulpdu[0] & 0xfc | version;
            Wrong::one(ulpdu)
        };
        let rv = move |mut ulpdu: Vec<u8>| {
            ulpdu[1] = ulpdu[1] & 0x3f | version << 6;
            Wrong::one(ulpdu)
        };
        rows.push(Row::new(format!("DV {version}, tagged"), (1, 1, 4), NONE, move |v| dv(v.write(0, 4))));
        rows.push(Row::new(format!("DV {version}, untagged"), (1, 2, 6), NONE, move |_| dv(segment(untagged(3, 0, 2, 0), b"x"))));
        rows.push(Row::new(format!("RV {version}, tagged"), (0, 2, 5), NONE, move |v| rv(v.write(0, 4))));
        rows.push(Row::new(format!("RV {version}, untagged"), (0, 2, 5), NONE, move |_| rv(segment(untagged(3, 0, 2, 0), b"x"))));
    }
    rows
}

/// Opcodes, and the queues on which they may not be.
pub fn opcodes() -> Vec<Row> {
    let mut rows = Vec::new();
    for opcode in 0..16 {
        for qn in 0..4 {
            let right = match opcode {
                3..=6 => qn == 0,
                1 => qn == 1,
                7 => qn == 2,
                _ => false,
            };
            if !right {
                let says = if qn > 2 { (1, 2, 1) } else { (0, 2, 6) };
                rows.push(Row::new(format!("opcode {opcode} on queue {qn}"), says, D, move |_| {
                    Wrong::one(segment(untagged(opcode, qn, 2, 0), &[0; 28]))
                }));
            }
        }
        if !matches!(opcode, 0 | 2) {
            rows.push(Row::new(format!("opcode {opcode}, tagged"), (0, 2, 6), D, move |_| Wrong::one(segment(tagged(opcode, 1, 0), b"x"))));
        }
    }
    rows.push(Row::new("another opcode in the second segment of a Send", (0, 2, 6), D, |v| {
        v.receives.expect(RECEIVES + STRIDE, &[4; 20]);
        Wrong::list(vec![segment(first(untagged(3, 0, 2, 0)), &[4; 20]), segment(untagged(5, 0, 2, 20), &[5; 20])])
    }));
    for qn in [4, 0x100, 0x1_0000, u32::MAX] {
        rows.push(Row::new(format!("queue {qn}"), (1, 2, 1), D, move |_| Wrong::one(segment(untagged(3, qn, 2, 0), b"x"))));
    }
    rows
}

/// Where a Write may not go to, and a Read may not come from.
pub fn protection() -> Vec<Row> {
    type Find = fn(&mut Victim<'_>) -> (u32, u64);
    // what the peer names, and the codes for a Write (layer 1) and a Read (layer 0)
    let cases: [(&str, Find, usize, u8, u8); 16] = [
        ("no such STag", |v| (v.target.mr.rkey() ^ 0x0010_0000, v.target.mr.addr()), 4, 0, 0),
        ("STag 0", |_| (0, 0), 4, 0, 0),
        ("a wrong key", |v| (v.target.mr.rkey() ^ 0x80, v.target.mr.addr()), 4, 0, 0),
        (
            "a key of before",
            |v| {
                let mr = v.region(ALL);
                let stag = mr.rkey();
                mr.rekey(ALL).expect("a new key");
                (stag, mr.addr())
            },
            4,
            0,
            0,
        ),
        (
            "a region that was deregistered",
            |v| {
                let mr = v.region(ALL);
                let stag = mr.rkey();
                mr.dereg().expect("deregistered");
                (stag, mr.addr())
            },
            4,
            0,
            0,
        ),
        (
            "another domain",
            |v| {
                let mr = v.foreign();
                (mr.rkey(), mr.addr())
            },
            1,
            2,
            3,
        ),
        (
            "another stream",
            |v| {
                let mr = v.other_stream();
                (mr.rkey(), mr.addr())
            },
            1,
            2,
            3,
        ),
        (
            "no right",
            |v| {
                let mr = v.region(Access::LOCAL_WRITE.union(Access::REMOTE_INVALIDATE));
                (mr.rkey(), mr.addr())
            },
            1,
            0,
            2,
        ),
        ("one octet before the region", |v| (v.target.mr.rkey(), v.target.mr.addr() - 1), 4, 1, 1),
        ("its last octet is outside", |v| (v.target.mr.rkey(), v.target.mr.addr() + TARGET as u64 - 3), 4, 1, 1),
        ("behind the region", |v| (v.target.mr.rkey(), v.target.mr.addr() + TARGET as u64), 1, 1, 1),
        ("longer than the region", |v| (v.target.mr.rkey(), v.target.mr.addr()), TARGET + 1, 1, 1),
        ("2^32 above the region", |v| (v.target.mr.rkey(), v.target.mr.addr().wrapping_add(1 << 32)), 4, 1, 1),
        ("2^63 above the region", |v| (v.target.mr.rkey(), v.target.mr.addr() ^ 1 << 63), 4, 1, 1),
        ("wrap", |v| (v.target.mr.rkey(), u64::MAX - 2), 4, 3, 4),
        ("the last octets there are", |v| (v.target.mr.rkey(), u64::MAX - 3), 4, 1, 1),
    ];
    let mut rows = Vec::new();
    for (name, find, n, of_write, of_read) in cases {
        rows.push(Row::new(format!("Write, {name}"), (1, 1, of_write), D, move |v| {
            let (stag, to) = find(v);
            Wrong::one(segment(tagged(0, stag, to), &vec![9; n]))
        }));
        rows.push(Row::new(format!("Read, {name}"), (0, 1, of_read), DR, move |v| {
            let (stag, to) = find(v);
            Wrong::one(read(1, n as u32, stag, to))
        }));
    }
    rows.push(Row::new("Write, a region that may only be read", (1, 1, 0), D, |v| {
        let mr = v.region(ALL.difference(Access::REMOTE_WRITE));
        Wrong::one(segment(tagged(0, mr.rkey(), mr.addr()), b"x"))
    }));
    rows.push(Row::new("Read, a region that may only be written", (0, 1, 2), DR, |v| {
        let mr = v.region(ALL.difference(Access::REMOTE_READ));
        Wrong::one(read(1, 1, mr.rkey(), mr.addr()))
    }));
    rows.push(Row::new("Write, the second segment beyond the region", (1, 1, 1), D, |v| {
        let (stag, to) = (v.target.mr.rkey(), v.target.mr.addr() + TARGET as u64 - 30);
        v.target.expect(TARGET - 30, &[1; 30]);
        Wrong::list(vec![segment(first(tagged(0, stag, to)), &[1; 30]), segment(tagged(0, stag, to + 30), &[2; 8])])
    }));
    rows
}

/// Numbers, offsets and lengths of messages on the three queues.
pub fn queues() -> Vec<Row> {
    let mut rows = Vec::new();
    for msn in [0, 1, 3, 0x1_0002, u32::MAX] {
        rows.push(Row::new(format!("Send with MSN {msn}"), (1, 2, 3), D, move |_| Wrong::one(segment(untagged(3, 0, msn, 0), b"x"))));
        rows.push(Row::new(format!("empty Send with MSN {msn}"), (1, 2, 3), D, move |_| Wrong::one(segment(untagged(3, 0, msn, 0), b""))));
    }
    for msn in [0, 2, u32::MAX] {
        rows.push(Row::new(format!("Read Request with MSN {msn}"), (1, 2, 3), D, move |v| Wrong::one(v.read(msn, 0, 1))));
    }
    for mo in [1, 8, u32::MAX] {
        rows.push(Row::new(format!("Send with MO {mo}"), (1, 2, 4), D, move |_| Wrong::one(segment(untagged(3, 0, 2, mo), b"x"))));
        rows.push(Row::new(format!("Read Request with MO {mo}"), (1, 2, 4), D, move |v| {
            let mut ulpdu = v.read(1, 0, 1);
            ulpdu[14..18].copy_from_slice(&mo.to_be_bytes());
            Wrong::one(ulpdu)
        }));
    }
    for (name, mo) in [("a hole", 21), ("an overlap", 19), ("all again", 0)] {
        rows.push(Row::new(format!("second segment of a Send with {name}"), (1, 2, 4), D, move |v| {
            v.receives.expect(RECEIVES + STRIDE, &[4; 20]);
            Wrong::list(vec![segment(first(untagged(3, 0, 2, 0)), &[4; 20]), segment(untagged(3, 0, 2, mo), &[5; 20])])
        }));
    }
    let too_long = |name: &str, make: fn(&mut Victim<'_>) -> Wrong| Row::new(name, (1, 2, 5), D, make).receive(WcStatus::LocLenErr);
    rows.push(too_long("Send of one octet too many", |_| Wrong::one(segment(untagged(3, 0, 2, 0), &[1; RECEIVE + 1]))));
    rows.push(too_long("Send of a thousand octets too many", |_| Wrong::one(segment(untagged(3, 0, 2, 0), &[1; RECEIVE + 1000]))));
    rows.push(too_long("second segment of a Send one octet too long", |v| {
        v.receives.expect(RECEIVES + STRIDE, &[4; RECEIVE]);
        Wrong::list(vec![segment(first(untagged(3, 0, 2, 0)), &[4; RECEIVE]), segment(untagged(3, 0, 2, RECEIVE as u32), b"x")])
    }));
    rows.push(Row::new("Read Request that is too long", (1, 2, 5), D, |v| Wrong::one([v.read(1, 0, 1), vec![0]].concat())));
    rows.push(
        Row::new("no receive", (1, 2, 2), D, |v| {
            v.receives.expect(RECEIVES + STRIDE, b"second");
            v.receives.expect(RECEIVES + 2 * STRIDE, b"third");
            Wrong::list(vec![
                segment(untagged(3, 0, 2, 0), b"second"),
                segment(untagged(3, 0, 3, 0), b"third"),
                segment(untagged(3, 0, 4, 0), b"fourth"),
            ])
        })
        .receive(WcStatus::Success),
    );
    rows.push(
        Row::new("no receive for an empty Send", (1, 2, 2), D, |_| {
            Wrong::list((2..=4).map(|msn| segment(untagged(3, 0, msn, 0), b"")).collect())
        })
        .receive(WcStatus::Success),
    );
    rows
}

/// Responses that nobody asked for.
pub fn unsolicited() -> Vec<Row> {
    vec![
        Row::new("response to nothing", (0, 2, 6), D, |_| Wrong::one(segment(tagged(2, 1, 0), b"x"))).alone(),
        Row::new("response to nothing, to a good region", (0, 2, 6), D, |v| {
            Wrong::one(segment(tagged(2, v.target.mr.rkey(), v.target.mr.addr()), b"x"))
        })
        .alone(),
        Row::new("empty response to nothing", (0, 2, 6), D, |_| Wrong::one(segment(tagged(2, 0, 0), b""))).alone(),
    ]
}

/// What a peer may not invalidate.
pub fn invalidation() -> Vec<Row> {
    type Find = fn(&mut Victim<'_>) -> u32;
    let cases: [(&str, Find, (u8, u8, u8)); 6] = [
        ("no such STag", |v| v.target.mr.rkey() ^ 0x0010_0000, (0, 2, 9)),
        ("a wrong key", |v| v.target.mr.rkey() ^ 1, (0, 2, 9)),
        ("another domain", |v| v.foreign().rkey(), (0, 1, 9)),
        ("another stream", |v| v.other_stream().rkey(), (0, 1, 9)),
        ("a key of the whole domain", |v| v.region(ALL).rkey(), (0, 2, 9)),
        (
            "no right",
            |v| {
                let mr = v.region(ALL);
                mr.restrict(Some(v.end.qp.qp_num())).expect("restricted");
                mr.rkey()
            },
            (0, 2, 9),
        ),
    ];
    let mut rows = Vec::new();
    for (name, find, says) in cases {
        for opcode in [4, 6] {
            rows.push(Row::new(format!("Send with Invalidate {opcode}, {name}"), says, D, move |v| {
                let stag = find(v);
                let header = ddp::Header::Untagged { last: true, rdmap: 0x40 | opcode, stag, qn: 0, msn: 2, mo: 0 };
                Wrong::one(segment(header, b""))
            }));
        }
    }
    rows
}

/// Every row.
pub fn all() -> Vec<Row> {
    [mpa(), versions(), opcodes(), protection(), queues(), unsolicited(), invalidation()].into_iter().flatten().collect()
}

/// What a device does where the requirements leave it open.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Of CLOSE after a Terminate.
    pub close: Result<(), Errno>,
    /// Status of a Read whose response is wrong.
    pub bad_response: WcStatus,
    /// A segment of a response is placed before it is known that it ends too early.
    pub places_short: bool,
    /// The oldest work request completes with what the peer's Terminate says.
    pub tells_why: bool,
    /// A Terminate whose headers are cut is none.
    pub wants_headers: bool,
    /// An orderly close whose work never ends becomes a reset.
    pub bounds_work: bool,
    /// Receives stay posted when a connection has ended in order.
    pub keeps_receives: bool,
}

/// The message of a Terminate as it must stand on the wire (RDM-9), with what it says.
pub fn parse_terminate<'a>(name: &str, ulpdu: &'a [u8]) -> rdmap::Terminate<'a> {
    assert!(ulpdu.len() >= 22, "{name}: {ulpdu:02x?}");
    assert_eq!(ulpdu[..18], [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0], "{name}");
    let terminate = rdmap::Terminate::parse(&ulpdu[18..]).unwrap_or_else(|e| panic!("{name}: {e}: {ulpdu:02x?}"));
    let mut again = vec![0; terminate.len()];
    terminate.emit(&mut again).expect("room");
    assert_eq!(ulpdu[18..], again, "{name}: the bits and nothing behind");
    terminate
}

/// A connection that must not be disturbed.
pub struct Good {
    end: End,
    target: Watched,
    receive: Watched,
    turn: u32,
}

impl Good {
    /// A peer connects.
    pub fn new(stage: &mut dyn Stage, ear: &Ear) -> Self {
        let end = End::served(stage, ear, DEPTH);
        let (target, receive) = (Watched::new(&end.pd, 3000, ALL, 0x55), Watched::new(&end.pd, 300, Access::LOCAL_WRITE, 0xaa));
        Good { end, target, receive, turn: 0 }
    }
    /// The peer begins: a Write, a Read and a Send are on their way.
    pub fn begin(&mut self, stage: &mut dyn Stage) {
        self.turn += 1;
        let (turn, octets) = (self.turn, [self.turn as u8; 100]);
        let at = self.turn as usize * 97 % 2900;
        self.end.recv(turn.into(), &self.receive.mr, 100, 50);
        let (stag, to) = (self.target.mr.rkey(), self.target.mr.addr());
        let write = segment(tagged(0, stag, to + at as u64), &octets);
        let read = read(turn, 100, stag, to + at as u64);
        let send = segment(untagged(3, 0, turn, 0), &octets[..40]);
        self.target.expect(at, &octets);
        self.receive.expect(100, &octets[..40]);
        stage.send(self.end.peer, &[framed(&write), framed(&read), framed(&send)].concat());
    }
    /// It is received, the Read is answered, and a Send goes back.
    pub fn finish(&mut self, stage: &mut dyn Stage) {
        let octets = [self.turn as u8; 100];
        let wc = End::completion(stage, &self.end.recv_cq);
        assert_eq!((wc.wr_id, wc.status, wc.byte_len), (self.turn.into(), WcStatus::Success, 40));
        assert_eq!(next_ulpdu(stage, self.end.peer), Some(segment(tagged(2, 0x1234, 5), &octets)), "the other connection's Read");
        self.end.post(self.turn.into(), SendOp::Send, SendFlags::empty(), &self.receive.mr, 100, 40);
        assert_eq!(next_ulpdu(stage, self.end.peer), Some(segment(untagged(3, 0, self.turn, 0), &octets[..40])), "the other's Send");
        let wc = End::completion(stage, &self.end.cq);
        assert_eq!((wc.wr_id, wc.status), (self.turn.into(), WcStatus::Success));
        self.target.check(stage, "the other connection");
        self.receive.check(stage, "the other connection");
        self.end.assert_silent();
    }
    /// Closes it in order.
    pub fn end(self, stage: &mut dyn Stage) {
        stage.finish(self.end.peer);
        assert_eq!(next_ulpdu(stage, self.end.peer), None);
        assert!(!stage.heard(self.end.peer).reset);
        assert_eq!(self.end.event(stage, EventKind::Close).status, Ok(()));
        self.end.assert_silent();
        self.end.end();
    }
}

/// Plays one row.
pub fn play(stage: &mut dyn Stage, ear: &Ear, good: &mut Good, manners: Manners, row: &Row) {
    let name = row.name.as_str();
    let end = End::served(stage, ear, DEPTH);
    let peer = end.peer;
    let target = Watched::new(&end.pd, TARGET, ALL, 0x11);
    let receives = Watched::new(&end.pd, 600, ALL, 0x22);
    for n in 0..3 {
        end.recv(n as u64, &receives.mr, RECEIVES + n * STRIDE, RECEIVE);
    }
    let mut victim = Victim { stage, end, target, receives, others: Vec::new() };
    // the peer begins, so that the device may speak
    victim.stage.send(peer, &framed(&segment(untagged(3, 0, 1, 0), b"hello")));
    victim.receives.expect(RECEIVES, b"hello");
    let wc = End::completion(victim.stage, &victim.end.recv_cq);
    assert_eq!((wc.wr_id, wc.status, wc.byte_len), (0, WcStatus::Success, 5), "{name}");
    // a Send that is complete; then a Read that is not answered, and what waits behind it
    victim.end.post(10, SendOp::Send, SendFlags::empty(), &victim.receives.mr, 0, 20);
    let sent = segment(untagged(3, 0, 1, 0), victim.receives.octets(0, 20));
    assert_eq!(next_ulpdu(victim.stage, peer), Some(sent), "{name}");
    let wc = End::completion(victim.stage, &victim.end.cq);
    assert_eq!((wc.wr_id, wc.status), (10, WcStatus::Success), "{name}");
    let wrong = (row.make)(&mut victim);
    let Victim { stage, end, target, receives, others } = victim;
    if row.pending {
        let remote = (0x77, 99);
        end.post(11, SendOp::Read { remote_addr: remote.1, rkey: remote.0 }, SendFlags::empty(), &receives.mr, 500, 80);
        end.post(12, SendOp::Send, SendFlags::empty(), &receives.mr, 0, 30);
        end.post(13, SendOp::Write { remote_addr: 5, rkey: 6 }, SendFlags::FENCE, &receives.mr, 0, 40);
        let request = next_ulpdu(stage, peer).expect("Read Request");
        let asked = rdmap::ReadRequest::parse(&request[18..]).expect("28 octets");
        assert_eq!((asked.size, asked.source_stag, asked.source_to), (80, 0x77, 99), "{name}");
        let sent = segment(untagged(3, 0, 2, 0), receives.octets(0, 30));
        assert_eq!(next_ulpdu(stage, peer), Some(sent), "{name}");
    }
    // what comes behind what is wrong leaves no trace
    let behind = segment(tagged(0, target.mr.rkey(), target.mr.addr() + 200), &[0xee; 50]);
    good.begin(stage);
    stage.send(peer, &[wrong.octets, framed(&behind), framed(&segment(untagged(3, 0, 2, 0), b"good"))].concat());
    let answer = next_ulpdu(stage, peer).unwrap_or_else(|| panic!("{name}: no Terminate"));
    let terminate = parse_terminate(name, &answer);
    assert_eq!((terminate.layer, terminate.etype, terminate.code), row.says, "{name}: {answer:02x?}");
    assert_eq!((terminate.segment.is_some(), terminate.read.is_some()), row.headers, "{name}: {answer:02x?}");
    if let Some((length, header)) = terminate.segment {
        assert_eq!((usize::from(length), header), (wrong.culprit.len(), &wrong.culprit[..header.len()]), "{name}");
    }
    if let Some(request) = terminate.read {
        assert_eq!(Ok(request), rdmap::ReadRequest::parse(&wrong.culprit[18..]), "{name}");
    }
    assert_eq!(next_ulpdu(stage, peer), None, "{name}: FIN behind the Terminate");
    assert!(!stage.heard(peer).reset, "{name}: the end is graceful");
    until(stage, "TERMINATE", |_| [QpState::Terminate, QpState::Error].contains(&end.qp.query().state).then_some(()));
    stage.finish(peer);
    assert_eq!(end.event(stage, EventKind::Close).status, manners.close, "{name}");
    good.finish(stage);
    let attr = end.qp.query();
    let (layer, etype, code) = row.says;
    assert_eq!((attr.state, attr.terminate_in), (QpState::Error, None), "{name}");
    assert_eq!(attr.terminate_out, Some(Terminate { layer, etype, code }), "{name}");
    for (n, status) in [(1, row.receive), (2, if row.receive == WcStatus::Success { WcStatus::Success } else { WcStatus::WrFlushErr })] {
        let wc = End::completion(stage, &end.recv_cq);
        assert_eq!((wc.wr_id, wc.status), (n, status), "{name}: {wc:?}");
    }
    for n in 11..14 {
        if row.pending {
            let wc: Wc = End::completion(stage, &end.cq);
            assert_eq!((wc.wr_id, wc.status), (n, WcStatus::WrFlushErr), "{name}: {wc:?}");
        }
    }
    // what is posted now is flushed as well (TD-5)
    end.recv(20, &receives.mr, 0, 10);
    end.post(21, SendOp::Send, SendFlags::empty(), &receives.mr, 0, 10);
    for (cq, n) in [(&end.recv_cq, 20), (&end.cq, 21)] {
        let wc = End::completion(stage, cq);
        assert_eq!((wc.wr_id, wc.status), (n, WcStatus::WrFlushErr), "{name}");
    }
    end.assert_silent();
    for region in others.iter().chain([&target, &receives]) {
        region.check(stage, name);
    }
    for _ in 0..4 {
        stage.pass();
    }
    end.assert_silent();
    end.end();
}

/// Plays rows; those whose name contains ONLY of the environment, if it is there. How many.
pub fn play_all(stage: &mut dyn Stage, manners: Manners, rows: &[Row]) -> usize {
    let only = std::env::var("ONLY").ok();
    let ear = Ear::new(stage);
    let mut good = Good::new(stage, &ear);
    let mut count = 0;
    for row in rows.iter().filter(|row| only.as_ref().is_none_or(|only| row.name.contains(only.as_str()))) {
        println!("{} at {}", row.name, stage.now());
        play(stage, &ear, &mut good, manners, row);
        count += 1;
    }
    good.end(stage);
    ear.end();
    count
}
