// SPDX-License-Identifier: MIT OR Apache-2.0
//! How connections end beside the errors of [`crate::wrong`]: responses that are not those asked for, Terminates of the peer, FIN and RST of either side while work requests
//! are at each stage. Every work request completes once, in order: successes first, then what was flushed.
use crate::{
    stage::{framed, next_ulpdu, segment, Ear, End, Stage, Watched},
    wrong::{parse_terminate, read, tagged, untagged, Good, Manners},
};
use ironwarp_iwcm::{Errno, EventKind};
use ironwarp_verbs::{Access, Mr, QpState, SendFlags, SendOp, Terminate, Wc, WcStatus};
use ironwarp_wire::{ddp, rdmap};
use std::sync::Arc;

/// IRD and ORD.
const DEPTH: u16 = 2;
/// The peer's region, of which a device knows nothing.
const THERE: SendOp = SendOp::Read { remote_addr: 64, rkey: 0x99 };
/// Octets of a Read.
const SIZE: usize = 100;
/// Where a Read goes to.
const SINK: usize = 333;

/// Goes through the completions that must come.
fn completions(stage: &mut dyn Stage, end: &End, name: &str, expected: &[(u64, WcStatus)]) {
    for (wr_id, status) in expected {
        let wc: Wc = End::completion(stage, &end.cq);
        assert_eq!((wc.wr_id, wc.status), (*wr_id, *status), "{name}: {wc:?}");
    }
}

/// The receives from `from` on are flushed.
fn receives_flushed(stage: &mut dyn Stage, end: &End, name: &str, wr_ids: std::ops::Range<u64>) {
    for wr_id in wr_ids {
        let wc = End::completion(stage, &end.recv_cq);
        assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr), "{name}: {wc:?}");
    }
}

/// What was posted completes so, once, the receive 7 is flushed, and nothing was written but what `here` expects.
fn over(stage: &mut dyn Stage, end: End, here: &Watched, name: &str, open: &[(u64, WcStatus)]) {
    completions(stage, &end, name, open);
    receives_flushed(stage, &end, name, 7..8);
    end.assert_silent();
    here.check(stage, name);
    end.end();
}

/// The device says that and FIN, and closes.
fn terminated(stage: &mut dyn Stage, end: &End, name: &str, manners: Manners, says: (u8, u8, u8), culprit: Option<&[u8]>) {
    let answer = next_ulpdu(stage, end.peer).unwrap_or_else(|| panic!("{name}: no Terminate"));
    let terminate = parse_terminate(name, &answer);
    assert_eq!((terminate.layer, terminate.etype, terminate.code), says, "{name}: {answer:02x?}");
    let header = culprit.map(|ulpdu| (ulpdu.len() as u16, ddp::View::new(ulpdu).expect("whole").header()));
    assert_eq!((terminate.segment, terminate.read), (header, None), "{name}");
    assert_eq!(next_ulpdu(stage, end.peer), None, "{name}: FIN behind the Terminate");
    assert!(!stage.heard(end.peer).reset, "{name}: the end is graceful");
    stage.finish(end.peer);
    assert_eq!(end.event(stage, EventKind::Close).status, manners.close, "{name}");
    let attr = end.qp.query();
    let (layer, etype, code) = says;
    assert_eq!((attr.state, attr.terminate_out), (QpState::Error, Some(Terminate { layer, etype, code })), "{name}");
}

/// A segment of a response to a request, with L: STag and TO from the sink's, and payload.
type Piece = (bool, u32, u64, usize);
/// What is wrong; segments, the last at fault; octets that land; what the Terminate says.
type Response = (&'static str, &'static [Piece], usize, (u8, u8, u8));
/// What the peer says: header, payload; what is told of it, and the status of the oldest work request.
type Said = (&'static str, ddp::Header, Vec<u8>, Option<Terminate>, WcStatus);

/// Responses that are not what was asked for. How many.
///
/// The device has asked for two Reads of [`SIZE`] octets, to be at [`SINK`] and behind it.
pub fn wrong_responses(stage: &mut dyn Stage, manners: Manners) -> usize {
    const KEY: (u8, u8, u8) = (1, 1, 0);
    const PLACE: (u8, u8, u8) = (1, 1, 1);
    let cases: [Response; 15] = [
        ("another key", &[(true, 1, 0, SIZE)], 0, KEY),
        ("another index", &[(true, 0x0010_0000, 0, SIZE)], 0, KEY),
        ("one octet higher", &[(true, 0, 1, SIZE)], 0, PLACE),
        ("one octet lower", &[(true, 0, u64::MAX, SIZE)], 0, PLACE),
        ("2^32 higher", &[(true, 0, 1 << 32, SIZE)], 0, PLACE),
        ("one octet too long", &[(true, 0, 0, SIZE + 1)], 0, PLACE),
        ("too long and not at its end", &[(false, 0, 0, SIZE + 1)], 0, PLACE),
        ("one octet too short", &[(true, 0, 0, SIZE - 1)], 0, PLACE),
        ("empty", &[(true, 0, 0, 0)], 0, PLACE),
        ("that of the second Read", &[(true, 0, SIZE as u64, SIZE)], 0, PLACE),
        ("a hole", &[(false, 0, 0, 60), (true, 0, 61, 40)], 60, PLACE),
        ("an overlap", &[(false, 0, 0, 60), (true, 0, 59, 40)], 60, PLACE),
        ("second segment too long", &[(false, 0, 0, 60), (true, 0, 60, 41)], 60, PLACE),
        ("second segment too short", &[(false, 0, 0, 60), (true, 0, 60, 39)], 60, PLACE),
        ("another key in the second segment", &[(false, 0, 0, 60), (true, 1, 60, 40)], 60, KEY),
    ];
    let ear = Ear::new(stage);
    let mut good = Good::new(stage, &ear);
    for (name, pieces, lands, says) in &cases {
        println!("response, {name} at {}", stage.now());
        let (end, mut here, requests) = two_reads(stage, name);
        let segments: Vec<_> = pieces
            .iter()
            .map(|(last, stag, to, n)| {
                let header = ddp::Header::Tagged {
                    last: *last,
                    rdmap: 0x42,
                    stag: requests[0].sink_stag ^ stag,
                    to: requests[0].sink_to.wrapping_add(*to),
                };
                segment(header, &vec![5; *n])
            })
            .collect();
        let lands = if manners.places_short && name.ends_with("too short") { SIZE - 1 } else { *lands };
        here.expect(SINK, &vec![5; lands]);
        good.begin(stage);
        // the good response behind it comes too late
        let late = segment(tagged(2, requests[0].sink_stag, requests[0].sink_to), &[6; SIZE]);
        let octets: Vec<u8> = segments.iter().chain([&late]).flat_map(|u| framed(u)).collect();
        stage.send(end.peer, &octets);
        terminated(stage, &end, name, manners, *says, segments.last().map(Vec::as_slice));
        good.finish(stage);
        let flushed = WcStatus::WrFlushErr;
        over(stage, end, &here, name, &[(1, manners.bad_response), (2, flushed), (3, flushed), (4, flushed)]);
    }
    good.end(stage);
    ear.end();
    cases.len()
}

/// A connection that the device has opened, with two Reads that wait for their responses, a Send that is sent, a Write that waits for the Reads (work requests 1 to 4), and receive 7.
fn two_reads(stage: &mut dyn Stage, name: &str) -> (End, Watched, Vec<rdmap::ReadRequest>) {
    let end = End::connected(stage, DEPTH);
    let here = Watched::new(&end.pd, 1000, Access::LOCAL_WRITE.union(Access::REMOTE_WRITE), 0x44);
    end.recv(7, &here.mr, 700, 50);
    end.post(1, THERE, SendFlags::empty(), &here.mr, SINK, SIZE);
    end.post(2, THERE, SendFlags::empty(), &here.mr, SINK + SIZE, SIZE);
    end.post(3, SendOp::Send, SendFlags::empty(), &here.mr, 0, 10);
    end.post(4, SendOp::Write { remote_addr: 7, rkey: 8 }, SendFlags::FENCE, &here.mr, 0, 10);
    let requests: Vec<_> = (1..=2)
        .map(|msn| {
            let ulpdu = next_ulpdu(stage, end.peer).expect("Read Request");
            assert_eq!(ulpdu[..18], segment(untagged(1, 1, msn, 0), &[]), "{name}");
            rdmap::ReadRequest::parse(&ulpdu[18..]).expect("28 octets")
        })
        .collect();
    assert_eq!(requests.iter().map(|r| (r.size as usize, r.source_stag, r.source_to)).collect::<Vec<_>>(), [(SIZE, 0x99, 64); 2]);
    assert_eq!(next_ulpdu(stage, end.peer), Some(segment(untagged(3, 0, 1, 0), here.octets(0, 10))), "{name}");
    (end, here, requests)
}

/// Terminates of the peer, and what has their place and is none. How many.
pub fn terminates_of_the_peer(stage: &mut dyn Stage, manners: Manners) -> usize {
    let good_header = untagged(7, 2, 1, 0);
    let told = |layer, etype, code| Some(Terminate { layer, etype, code });
    let (access, operation, flush) = (WcStatus::RemAccessErr, WcStatus::RemOpErr, WcStatus::WrFlushErr);
    let with_headers = |first: [u8; 4], culprit: &[u8], read: bool| {
        let header = ddp::View::new(culprit).expect("whole").header().len();
        let rest = if read { culprit.len() } else { header };
        [&first[..], &(culprit.len() as u16).to_be_bytes(), &culprit[..rest]].concat()
    };
    let write = segment(tagged(0, 0x99, 64), b"x");
    let request = read(1, 100, 0x99, 64);
    let cases: Vec<Said> = vec![
        ("RDMAP, access", good_header, with_headers([0x01, 2, 0xe0, 0], &request, true), told(0, 1, 2), access),
        ("RDMAP, no headers", good_header, vec![0x01, 0, 0, 0], told(0, 1, 0), access),
        ("RDMAP, opcode", good_header, with_headers([0x02, 6, 0xc0, 0], &write, false), told(0, 2, 6), operation),
        ("RDMAP, local", good_header, vec![0x00, 0, 0, 0], told(0, 0, 0), operation),
        ("DDP, tagged", good_header, with_headers([0x11, 1, 0xc0, 0], &write, false), told(1, 1, 1), operation),
        (
            "DDP, no buffer",
            good_header,
            with_headers([0x12, 2, 0xc0, 0], &segment(untagged(3, 0, 1, 0), b""), false),
            told(1, 2, 2),
            operation,
        ),
        ("MPA, CRC", good_header, vec![0x20, 2, 0, 0], told(2, 0, 2), operation),
        ("MPA, as others number it", good_header, vec![0x23, 2, 0, 0], told(2, 3, 2), operation),
        ("nibbles turned round", good_header, vec![0x10, 2, 7, 0], told(1, 0, 2), operation),
        ("unknown", good_header, vec![0xff, 0xff, 0, 0], told(15, 15, 0xff), operation),
        ("length and nothing else", good_header, vec![0x20, 2, 0x80, 0, 0, 0], told(2, 0, 2), operation),
        ("one octet", good_header, vec![1], None, flush),
        ("three octets", good_header, vec![1, 2, 3], None, flush),
        ("MSN 9", untagged(7, 2, 9, 0), vec![0x01, 2, 0, 0], None, flush),
        ("MO 4", untagged(7, 2, 1, 4), vec![0x01, 2, 0, 0], None, flush),
        ("headers cut", good_header, vec![0x11, 0, 0xc0, 0, 0, 30], if manners.wants_headers { None } else { told(1, 1, 0) }, flush),
    ];
    let ear = Ear::new(stage);
    let mut good = Good::new(stage, &ear);
    let count = cases.len();
    for (name, header, payload, told, oldest) in cases {
        println!("the peer's Terminate, {name} at {}", stage.now());
        let (end, here, _) = two_reads(stage, name);
        good.begin(stage);
        // what comes behind it has no effect, not even that of an error
        let behind = segment(tagged(0, here.mr.rkey(), here.mr.addr()), &[0xee; 50]);
        let wrong = segment(untagged(12, 0, 1, 0), b"");
        stage.send(end.peer, &[framed(&segment(header, &payload)), framed(&behind), framed(&wrong)].concat());
        assert_eq!(next_ulpdu(stage, end.peer), None, "{name}: FIN, and no answer");
        assert!(!stage.heard(end.peer).reset, "{name}");
        stage.finish(end.peer);
        assert_eq!(end.event(stage, EventKind::Close).status, manners.close, "{name}");
        good.finish(stage);
        let attr = end.qp.query();
        assert_eq!((attr.state, attr.terminate_out, attr.terminate_in), (QpState::Error, None, told), "{name}");
        let oldest = if manners.tells_why { oldest } else { flush };
        over(stage, end, &here, name, &[(1, oldest), (2, flush), (3, flush), (4, flush)]);
    }
    good.end(stage);
    ear.end();
    count
}

/// An own work request that names what is not its own: 0/2/0x07 without headers, behind what was before it.
pub fn own_errors(stage: &mut dyn Stage, manners: Manners) -> usize {
    type Spoil = fn(&mut ironwarp_verbs::Sge);
    let cases: [(&str, Spoil, Option<SendOp>, WcStatus); 6] = [
        ("a key that is none", |s| s.lkey ^= 1, None, WcStatus::LocProtErr),
        ("before the region", |s| s.addr -= 501, None, WcStatus::LocProtErr),
        ("beyond the region", |s| s.length = 1000, None, WcStatus::LocProtErr),
        ("a Read to a key that is none", |s| s.lkey ^= 1, Some(THERE), WcStatus::LocProtErr),
        ("a Read to what may only be read", |s| s.length = 10, Some(THERE), WcStatus::LocProtErr),
        ("a Write from beyond the region", |s| s.addr += 1000, Some(SendOp::Write { remote_addr: 1, rkey: 2 }), WcStatus::LocProtErr),
    ];
    let ear = Ear::new(stage);
    let mut good = Good::new(stage, &ear);
    for (name, spoil, op, status) in &cases {
        println!("own error, {name} at {}", stage.now());
        let end = End::connected(stage, DEPTH);
        let here = Watched::new(&end.pd, 900, Access::REMOTE_READ, 0x44);
        end.recv(7, &here.mr, 0, 0);
        good.begin(stage);
        let mut sge = here.mr.sge(500, 20);
        spoil(&mut sge);
        let wr = |wr_id, op, sge| ironwarp_verbs::SendWr { wr_id, op, sg_list: vec![sge], inline: None, flags: SendFlags::empty() };
        let list =
            [wr(1, SendOp::Send, here.mr.sge(0, 30)), wr(2, op.unwrap_or(SendOp::Send), sge), wr(3, SendOp::Send, here.mr.sge(0, 10))];
        end.qp.post_send(&list).expect("posted");
        assert_eq!(next_ulpdu(stage, end.peer), Some(segment(untagged(3, 0, 1, 0), here.octets(0, 30))), "{name}");
        terminated(stage, &end, name, manners, (0, 2, 7), None);
        good.finish(stage);
        over(stage, end, &here, name, &[(1, WcStatus::Success), (2, *status), (3, WcStatus::WrFlushErr)]);
    }
    good.end(stage);
    ear.end();
    cases.len()
}

/// How far work requests are when a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// None is open.
    Complete,
    /// The peer offers no room.
    Posted,
    /// The peer does not acknowledge.
    Sent,
    /// A Read is acknowledged and not answered; a Send behind it is acknowledged.
    Reading,
    /// A Write waits for a Read.
    Fenced,
}

/// Who ends it, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// `disconnect`, which finishes what is posted.
    Disconnect,
    /// `disconnect`, abruptly.
    Abort,
    /// The queue pair goes to ERROR.
    ToError,
    /// The peer's FIN.
    PeerFin,
    /// The peer's RST.
    PeerReset,
}

/// Every end at every stage of work. The device's time for an orderly close must be short.
pub fn teardowns(stage: &mut dyn Stage, manners: Manners, works: &[Work], hows: &[How]) {
    let ear = Ear::new(stage);
    let mut good = Good::new(stage, &ear);
    for work in works {
        for how in hows {
            // an orderly close: the peer goes on, or never does
            for goes_on in [true, false] {
                let bounded = goes_on || *how == How::Disconnect && (manners.bounds_work || *work == Work::Complete);
                if bounded {
                    teardown(stage, manners, &mut good, *work, *how, goes_on);
                }
            }
        }
    }
    good.end(stage);
    ear.end();
}

fn teardown(stage: &mut dyn Stage, manners: Manners, good: &mut Good, work: Work, how: How, goes_on: bool) {
    let name = &format!("{how:?} with work {work:?}{}", if goes_on { "" } else { ", for ever" });
    println!("{name} at {}", stage.now());
    let end = End::connected(stage, DEPTH);
    let peer = end.peer;
    let mut here = Watched::new(&end.pd, 5000, Access::LOCAL_WRITE.union(Access::REMOTE_WRITE), 0x66);
    end.recv(100, &here.mr, 4000, 50);
    end.recv(101, &here.mr, 4100, 50);
    let send = |wr_id, n| end.post(wr_id, SendOp::Send, SendFlags::empty(), &here.mr, 0, n);
    send(1, 10);
    assert_eq!(next_ulpdu(stage, peer), Some(segment(untagged(3, 0, 1, 0), here.octets(0, 10))));
    completions(stage, &end, name, &[(1, WcStatus::Success)]);
    let mut asked = None;
    let mut open = 2..2;
    match work {
        Work::Complete => {}
        Work::Posted | Work::Sent => {
            let silent = work == Work::Sent;
            if !stage.restrain(peer, silent, if silent { 0xffff } else { 0 }) {
                return;
            }
            send(2, 20);
            end.post(3, SendOp::Write { remote_addr: 7, rkey: 8 }, SendFlags::empty(), &here.mr, 0, 3000);
            send(4, 30);
            open = 2..5;
            if silent {
                assert_eq!(next_ulpdu(stage, peer), Some(segment(untagged(3, 0, 2, 0), here.octets(0, 20))));
            }
        }
        Work::Reading | Work::Fenced => {
            end.post(2, THERE, SendFlags::empty(), &here.mr, SINK, SIZE);
            let flags = if work == Work::Fenced { SendFlags::FENCE } else { SendFlags::empty() };
            end.post(3, SendOp::Send, flags, &here.mr, 0, 20);
            open = 2..4;
            let request = next_ulpdu(stage, peer).expect("Read Request");
            asked = Some(rdmap::ReadRequest::parse(&request[18..]).expect("28 octets"));
            if work == Work::Reading {
                assert_eq!(next_ulpdu(stage, peer), Some(segment(untagged(3, 0, 2, 0), here.octets(0, 20))));
            }
        }
    }
    for _ in 0..10 {
        stage.pass();
    }
    good.begin(stage);
    match how {
        How::Disconnect => end.id().disconnect(false).expect("closes"),
        How::Abort => end.id().disconnect(true).expect("resets"),
        How::ToError => end.qp.modify(QpState::Error).expect("resets"),
        How::PeerFin => stage.finish(peer),
        How::PeerReset => stage.reset(peer),
    }
    let mut status = WcStatus::WrFlushErr;
    let mut close = Err(Errno::ConnectionReset);
    if how == How::Disconnect && goes_on {
        (status, close) = (WcStatus::Success, Ok(()));
        for _ in 0..10 {
            stage.pass();
        }
        assert!(!stage.heard(peer).fin || work == Work::Complete, "{name}: FIN before the work is done");
        if matches!(work, Work::Posted | Work::Sent) {
            stage.restrain(peer, false, 0xffff);
        }
        if let Some(asked) = asked {
            here.expect(SINK, &[9; SIZE]);
            stage.send(peer, &framed(&segment(tagged(2, asked.sink_stag, asked.sink_to), &[9; SIZE])));
        }
        while next_ulpdu(stage, peer).is_some() {}
        assert!(!stage.heard(peer).reset, "{name}");
        stage.finish(peer);
    } else if how == How::Disconnect && work == Work::Complete {
        // only the peer's FIN is missing
        while next_ulpdu(stage, peer).is_some() {}
    } else if how == How::PeerFin && work == Work::Complete {
        close = Ok(());
    }
    let closed = end.event(stage, EventKind::Close).status;
    // what nobody acknowledges or answers any more ends by a timer
    let by_timer = how == How::Disconnect && !goes_on || how == How::PeerFin && work != Work::Complete;
    if by_timer {
        assert!(closed.is_err(), "{name}");
    } else {
        assert_eq!(closed, close, "{name}");
    }
    good.finish(stage);
    let open: Vec<_> = open.map(|wr_id| (wr_id, status)).collect();
    completions(stage, &end, name, &open);
    if close.is_ok() && !by_timer {
        assert_eq!(end.qp.query().state, QpState::Init, "{name}");
        if manners.keeps_receives {
            end.assert_silent();
            end.qp.modify(QpState::Error).expect("flushes");
        }
    } else {
        assert_eq!(end.qp.query().state, QpState::Error, "{name}");
        if !matches!(how, How::PeerReset) {
            assert!(closes(stage, peer), "{name}: RST");
        }
    }
    receives_flushed(stage, &end, name, 100..102);
    for _ in 0..10 {
        stage.pass();
    }
    end.assert_silent();
    here.check(stage, name);
    end.end();
}

/// The device's RST comes to a peer. Sockets do not tell it behind FIN.
fn closes(stage: &mut dyn Stage, peer: usize) -> bool {
    if !stage.restrain(peer, false, 0xffff) && stage.heard(peer).fin {
        return true;
    }
    for _ in 0..100 {
        if stage.heard(peer).reset {
            return true;
        }
        stage.pass();
    }
    false
}

/// Read Requests beyond IRD (2 of [`End::served`]) of a peer that acknowledges nothing (ENH-22). False where the stage cannot do it.
///
/// Each of the first three follows the response before it: the peer keeps within IRD, and only its acknowledgements are late. The device keeps three responses until they are acknowledged, so
/// the next two wait, and the one after them is one too many.
pub fn reads_beyond_ird(stage: &mut dyn Stage, manners: Manners) -> bool {
    let ear = Ear::new(stage);
    let end = End::served(stage, &ear, DEPTH);
    let there = Watched::new(&end.pd, 500, Access::REMOTE_READ, 0x77);
    if !stage.restrain(end.peer, true, 0xffff) {
        return false;
    }
    let requests: Vec<_> = (1..=6).map(|msn| read(msn, 50, there.mr.rkey(), there.mr.addr() + u64::from(msn))).collect();
    for (at, request) in requests[..3].iter().enumerate() {
        stage.send(end.peer, &framed(request));
        assert_eq!(next_ulpdu(stage, end.peer), Some(segment(tagged(2, 0x1234, 5), there.octets(at + 1, 50))));
    }
    let octets: Vec<u8> = requests[3..].iter().flat_map(|u| framed(u)).collect();
    stage.send(end.peer, &octets);
    let answer = next_ulpdu(stage, end.peer).expect("Terminate");
    let terminate = parse_terminate("IRD", &answer);
    assert_eq!((terminate.layer, terminate.etype, terminate.code, terminate.read), (1, 2, 2, None));
    assert_eq!(terminate.segment, Some((46, &requests[5][..18])));
    stage.restrain(end.peer, false, 0xffff);
    assert_eq!(next_ulpdu(stage, end.peer), None);
    stage.finish(end.peer);
    assert_eq!(end.event(stage, EventKind::Close).status, manners.close);
    end.assert_silent();
    end.end();
    ear.end();
    true
}

/// FIN of the peer behind each octet of an FPDU: an orderly end before the first and behind the last, else the connection was reset (TD-2).
pub fn fin_at_every_octet(stage: &mut dyn Stage) {
    let fpdu = framed(&segment(untagged(3, 0, 1, 0), b"hello"));
    let ear = Ear::new(stage);
    for cut in 0..=fpdu.len() {
        let end = End::served(stage, &ear, DEPTH);
        let here = Watched::new(&end.pd, 100, Access::all(), 0x35);
        end.recv(1, &here.mr, 0, 100);
        if cut > 0 {
            stage.send(end.peer, &fpdu[..cut]);
        }
        let torn = (1..fpdu.len()).contains(&cut);
        if cut == fpdu.len() {
            assert_eq!(End::completion(stage, &end.recv_cq).status, WcStatus::Success);
        }
        stage.finish(end.peer);
        assert_eq!(end.event(stage, EventKind::Close).status, if torn { Err(Errno::ConnectionReset) } else { Ok(()) }, "{cut} octets");
        if torn {
            assert_eq!(end.qp.query().state, QpState::Error, "{cut} octets");
            assert_eq!(End::completion(stage, &end.recv_cq).status, WcStatus::WrFlushErr, "{cut} octets");
        }
        end.end();
    }
    ear.end();
}

/// A region of one stream, which its peer may invalidate.
pub fn invalidatable(end: &End, length: usize) -> Watched {
    let watched = Watched::new(&end.pd, length, Access::all(), 0x31);
    watched.mr.restrict(Some(end.qp.qp_num())).expect("restricted");
    watched
}

/// Octets of `n` segments of one Write of `each` octets, whose octets are `fill`, to `at` of a region.
pub fn long_write(mr: &Arc<dyn Mr>, stag: u32, at: usize, n: usize, each: usize, fill: u8) -> Vec<u8> {
    (0..n)
        .flat_map(|k| {
            let header = ddp::Header::Tagged { last: k + 1 == n, rdmap: 0x40, stag, to: mr.addr() + (at + k * each) as u64 };
            framed(&segment(header, &vec![fill; each]))
        })
        .collect()
}
