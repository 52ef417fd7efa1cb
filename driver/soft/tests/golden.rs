// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captured conversations of Linux siw, played against a soft device in the place of either side. Keys and addresses are those of the
//! test; everything else is as captured: what the device sends must be what siw sent, segment for segment.
mod common;
use common::{config, Raw, Side};
use ironwarp_iwcm::{ConnParam, EventKind, MpaOptions, PrivateData};
use ironwarp_soft::SoftConfig;
use ironwarp_verbs::*;
use ironwarp_wire::{ddp, fpdu, mpa, rdmap};

struct Capture {
    name: &'static str,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// ULPDUs of the opener and of the other.
    opener: Vec<Vec<u8>>,
    other: Vec<Vec<u8>>,
    crc: bool,
}

/// Hex with runs, segments with "+" between them; `tools/golden/extract.py` says in which form.
fn octets(text: &str) -> Vec<u8> {
    let number = |text: &str| u8::from_str_radix(text, 16).expect("hex");
    let mut octets = Vec::new();
    for segment in text.split('+') {
        let mut left = match segment.split_at_checked(4) {
            Some(("req:", rest)) => {
                octets.extend(mpa::REQUEST_KEY);
                rest
            }
            Some(("rep:", rest)) => {
                octets.extend(mpa::REPLY_KEY);
                rest
            }
            _ => segment,
        };
        while !left.is_empty() {
            if let Some((run, rest)) = left.strip_prefix('(').and_then(|left| left.split_once(')')) {
                let (step, count) = run[3..].split_once('*').expect("a count");
                let count: usize = count.parse().expect("a number");
                octets.extend((0..count).map(|n| number(&run[..2]).wrapping_add(number(step).wrapping_mul(n as u8))));
                left = rest;
            } else {
                octets.push(number(&left[..2]));
                left = &left[2..];
            }
        }
    }
    octets
}

/// Name, what the opener sent, and what the other did.
fn rows() -> impl Iterator<Item = (&'static str, Vec<u8>, Vec<u8>)> {
    let table = include_str!("../../../tests/golden/siw-streams.tsv");
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let row: Vec<_> = line.split('\t').collect();
        (row[0], octets(row[1]), octets(row[2]))
    })
}

/// Conversations in which siw does what it must not, or that need what this test has not; `tests/tests/golden_data_soft.rs` plays all.
const APART: [&str; 7] = [
    "mpa0-connect-send",
    "mtu9000-write-60001",
    "read-no-permission-siw-answers-anyway",
    "responder-sends-first",
    "send-invalidate-then-write-terminate",
    "siw-race-responder-first-fpdu-breaks-initiator",
    "write-burst-8x4096",
];

fn captures() -> Vec<Capture> {
    let list = rows().filter(|row| !row.0.contains("probe-") && !APART.contains(&row.0)).map(|(name, opener, other)| {
        let (reply, after_reply) = mpa::Frame::parse(&other).expect("Reply");
        let (_, after_request) = mpa::Frame::parse(&opener).expect("Request");
        let crc = reply.crc;
        let cut = |mut rest: &[u8]| {
            let mut list = Vec::new();
            while !rest.is_empty() {
                let n = fpdu::len(rest, None).expect("length");
                let mut one = rest[..n].to_vec();
                list.push(fpdu::open(&mut one, None, crc).expect("good").to_vec());
                rest = &rest[n..];
            }
            list
        };
        Capture {
            name,
            request: opener[..opener.len() - after_request.len()].to_vec(),
            reply: other[..other.len() - after_reply.len()].to_vec(),
            opener: cut(after_request),
            other: cut(after_reply),
            crc,
        }
    });
    list.collect()
}

fn opcode(ulpdu: &[u8]) -> rdmap::Opcode {
    rdmap::Opcode::of(ulpdu[1]).expect("opcode")
}

fn is_last(ulpdu: &[u8]) -> bool {
    ddp::View::new(ulpdu).expect("header").is_last()
}

fn payload(ulpdu: &[u8]) -> &[u8] {
    ddp::View::new(ulpdu).expect("header").payload()
}

/// Messages of an opcode class: the payload of all segments, with the first.
fn messages(list: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for ulpdu in list {
        let message = open.get_or_insert_with(|| (ulpdu.clone(), Vec::new()));
        message.1.extend(payload(ulpdu));
        if is_last(ulpdu) {
            found.extend(open.take());
        }
    }
    found
}

fn setup(capture: &Capture) -> SoftConfig {
    // siw's segments: 1442 octets at the usual MTU, 514 at 576
    let max_mulpdu = if capture.name.starts_with("mtu576") { 514 } else { 1442 };
    let words = mpa::Frame::parse(&capture.request).expect("Request").0.enhanced;
    let rtr = |bit| words.is_none_or(|w| w.ird_word & mpa::word::PEER_TO_PEER == 0 || w.ord_word & bit != 0);
    SoftConfig {
        max_mulpdu,
        rtr_write: rtr(mpa::word::RTR_WRITE),
        rtr_read: rtr(mpa::word::RTR_READ),
        mpa: MpaOptions { crc: capture.crc, ..MpaOptions::default() },
        ..config()
    }
}

fn post_sends(side: &Side, list: &[(Vec<u8>, Vec<u8>)], at: &mut usize) -> usize {
    let mut n = 0;
    for (first, data) in list {
        let view = ddp::View::new(first).expect("header");
        let (op, flags) = match opcode(first) {
            rdmap::Opcode::Send => (SendOp::Send, SendFlags::empty()),
            rdmap::Opcode::SendSolicited => (SendOp::Send, SendFlags::SOLICITED),
            rdmap::Opcode::SendInvalidate => (SendOp::SendWithInvalidate(view.stag()), SendFlags::empty()),
            rdmap::Opcode::SendSolicitedInvalidate => (SendOp::SendWithInvalidate(view.stag()), SendFlags::SOLICITED),
            rdmap::Opcode::Write => (SendOp::Write { remote_addr: view.to().expect("TO"), rkey: view.stag() }, SendFlags::empty()),
            rdmap::Opcode::ReadRequest => {
                let request = rdmap::ReadRequest::parse(data).expect("request");
                let op = SendOp::Read { remote_addr: request.source_to, rkey: request.source_stag };
                side.send(n as u64, op, 600_000, request.size as usize);
                n += 1;
                continue;
            }
            _ => continue,
        };
        side.mr.write(*at, data).expect("inside");
        let sg_list = if data.is_empty() { vec![] } else { vec![side.mr.sge(*at, data.len())] };
        side.qp.post_send(&[SendWr { wr_id: n as u64, op, sg_list, inline: None, flags }]).expect("post");
        *at += data.len();
        n += 1;
    }
    n
}

/// Covers: DDP-14, RDM-11, RDM-15
#[test]
fn soft_in_the_place_of_the_initiator() {
    for capture in captures() {
        let name = capture.name;
        let (request, _) = mpa::Frame::parse(&capture.request).expect("Request");
        let mut a = Side::new(setup(&capture));
        let words = request.enhanced;
        let peer_to_peer = words.is_some_and(|w| w.ird_word & mpa::word::PEER_TO_PEER != 0);
        let param = ConnParam {
            ird: words.map_or(4, |w| w.ird()),
            ord: words.map_or(4, |w| w.ord()),
            private_data: PrivateData::new(request.private_data).expect("short"),
            mpa: Some(MpaOptions { enhanced: words.is_some(), peer_to_peer, crc: request.crc, retry: false, markers: false }),
            ..a.param(0)
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        for n in 0..messages(&capture.other).len() {
            a.recv(n as u64, 0, 70_000);
        }
        a.connect(listener.local_addr().expect("address"), &param);
        let (stream, _) = listener.accept().expect("accept");
        stream.set_read_timeout(Some(common::BOUND)).expect("option");
        let mut raw = Raw { stream, crc: capture.crc };
        assert_eq!(raw.start_up(), capture.request, "{name}: Request");
        raw.write(&capture.reply);
        let (_, event) = a.event(EventKind::ConnectReply);
        assert_eq!(event.status, Ok(()), "{name}");
        let mut messages_out = messages(&capture.opener);
        messages_out.retain(|(first, _)| opcode(first) != rdmap::Opcode::Terminate);
        // the RTR is the device's own
        post_sends(&a, &messages_out[usize::from(peer_to_peer).min(messages_out.len())..], &mut 100_000);
        let mut responses = capture.other.iter().filter(|u| opcode(u) == rdmap::Opcode::ReadResponse);
        for expected in capture.opener.iter().filter(|u| opcode(u) != rdmap::Opcode::Terminate) {
            let ours = raw.ulpdu().unwrap_or_else(|| panic!("{name}: FIN"));
            let (mut ours_plain, mut expected) = (ours.clone(), expected.clone());
            if opcode(&expected) == rdmap::Opcode::ReadRequest {
                // sink of the response
                ours_plain[18..30].fill(0);
                expected[18..30].fill(0);
            }
            assert_eq!(ours_plain, expected, "{name}");
            if opcode(&ours) == rdmap::Opcode::ReadRequest {
                let request = rdmap::ReadRequest::parse(payload(&ours)).expect("28 octets");
                let mut done = 0;
                for response in responses.by_ref() {
                    let header = ddp::Header::Tagged {
                        last: is_last(response),
                        rdmap: response[1],
                        stag: request.sink_stag,
                        to: request.sink_to + done,
                    };
                    raw.send(header, payload(response));
                    done += payload(response).len() as u64;
                    if is_last(response) {
                        break;
                    }
                }
            }
        }
        // what the responder said
        let mut terminated = false;
        for ulpdu in capture.other.iter().filter(|u| opcode(u) != rdmap::Opcode::ReadResponse) {
            raw.write(&Raw::fpdu(ulpdu, capture.crc));
            terminated |= opcode(ulpdu) == rdmap::Opcode::Terminate;
        }
        for (n, (_, data)) in messages(&capture.other).iter().filter(|(f, _)| f[1] & 15 >= 3 && f[1] & 15 < 7).enumerate() {
            a.received(n as u64, data.len());
        }
        if terminated {
            assert!(raw.ulpdu().is_none(), "{name}: no answer to a Terminate");
            drop(raw);
            let (_, event) = a.event(EventKind::Close);
            assert_eq!(event.status, Err(Errno::ConnectionReset), "{name}");
        } else {
            a.id.as_ref().expect("id").disconnect(false).expect("disconnect");
            assert!(raw.ulpdu().is_none(), "{name}");
            drop(raw);
            let (_, event) = a.event(EventKind::Close);
            assert_eq!(event.status, Ok(()), "{name}");
        }
        assert_eq!(a.stat("terminatesOut"), 0, "{name}");
    }
}

/// Covers: MPA-10, MPA-31, RDM-23
#[test]
fn soft_in_the_place_of_the_responder() {
    for capture in captures() {
        let name = capture.name;
        let (reply, _) = mpa::Frame::parse(&capture.reply).expect("Reply");
        let mut b = Side::new(setup(&capture));
        let stale = name.contains("bad-stag") || name.contains("bad-key");
        let out_of_bounds = name.contains("bounds");
        let mr = if name.contains("no-permission") {
            b.pd.alloc_mr(1 << 16, Access::LOCAL_WRITE).expect("memory")
        } else {
            b.pd.alloc_mr(if out_of_bounds { 16 } else { 1 << 17 }, common::ALL).expect("memory")
        };
        if !name.contains("no-receive") {
            let room = if name.contains("too-long") { 4 } else { 20_000 };
            for n in 0..messages(&capture.opener).len() {
                b.recv(n as u64, 0, room);
            }
        }
        let listener = b.listen(1);
        let stream = std::net::TcpStream::connect(listener.local_addr()).expect("connect");
        stream.set_nodelay(true).expect("option");
        stream.set_read_timeout(Some(common::BOUND)).expect("option");
        let mut raw = Raw { stream, crc: capture.crc };
        raw.write(&capture.request);
        let words = reply.enhanced;
        let private_data = PrivateData::new(reply.private_data).expect("short");
        let param = ConnParam { ird: words.map_or(4, |w| w.ird()), ord: words.map_or(4, |w| w.ord()), private_data, ..b.param(0) };
        b.accept(&param);
        assert_eq!(raw.start_up(), capture.reply, "{name}: Reply");
        let first = if stale { mr.rkey() ^ 0x55 } else { mr.rkey() };
        let base = capture
            .opener
            .iter()
            .filter_map(|u| match opcode(u) {
                rdmap::Opcode::Write if !payload(u).is_empty() => ddp::View::new(u).ok()?.to(),
                rdmap::Opcode::ReadRequest => rdmap::ReadRequest::parse(payload(u)).ok().map(|r| r.source_to),
                _ => None,
            })
            .filter(|&to| to > 1)
            .min()
            .unwrap_or(0);
        for ulpdu in capture.opener.iter().filter(|u| opcode(u) != rdmap::Opcode::Terminate) {
            let mut own = ulpdu.clone();
            let to = |at: u64| mr.addr() + at.saturating_sub(base);
            match opcode(ulpdu) {
                rdmap::Opcode::Write if !payload(ulpdu).is_empty() => {
                    let at = ddp::View::new(ulpdu).expect("header").to().expect("TO");
                    own[2..6].copy_from_slice(&first.to_be_bytes());
                    own[6..14].copy_from_slice(&to(at).to_be_bytes());
                }
                rdmap::Opcode::ReadRequest if own[30..34] != [0; 4] => {
                    let request = rdmap::ReadRequest::parse(payload(ulpdu)).expect("request");
                    own[34..38].copy_from_slice(&first.to_be_bytes());
                    own[38..46].copy_from_slice(&to(request.source_to).to_be_bytes());
                }
                rdmap::Opcode::SendInvalidate if !stale => own[2..6].copy_from_slice(&mr.rkey().to_be_bytes()),
                _ => {}
            }
            raw.write(&Raw::fpdu(&own, capture.crc));
        }
        let expects_terminate = capture.other.iter().any(|u| opcode(u) == rdmap::Opcode::Terminate);
        let mut sends = messages(&capture.other);
        sends.retain(|(f, _)| !matches!(opcode(f), rdmap::Opcode::Terminate | rdmap::Opcode::ReadResponse));
        if !expects_terminate {
            post_sends(&b, &sends, &mut 100_000);
        }
        // by kind, since answers to Reads and own messages take turns as they like
        let kind = |u: &Vec<u8>| (opcode(u), is_last(u), payload(u).len());
        let mut expected: Vec<_> = capture.other.iter().filter(|u| opcode(u) != rdmap::Opcode::Terminate).map(kind).collect();
        let mut terminate = None;
        while !expected.is_empty() || expects_terminate && terminate.is_none() {
            let Some(ours) = raw.ulpdu() else { panic!("{name}: FIN") };
            if opcode(&ours) == rdmap::Opcode::Terminate {
                terminate = Some(ours);
                break;
            }
            let at = expected.iter().position(|e| *e == kind(&ours)).unwrap_or_else(|| panic!("{name}: {:?}", kind(&ours)));
            expected.remove(at);
        }
        assert_eq!(terminate.is_some(), expects_terminate, "{name}: {:?}", b.qp.query());
        if expects_terminate {
            let what = b.qp.query().terminate_out.expect("Terminate");
            let code = match name.trim_start_matches("crc-on-") {
                "terminate-read-bad-stag" => (0, 1, 0),
                "terminate-read-bounds" => (0, 1, 1),
                "terminate-send-no-receive" => (1, 2, 2),
                "terminate-send-too-long" => (1, 2, 5),
                "terminate-send-invalidate-bad-stag" => (0, 2, 9),
                "terminate-write-bounds" => (1, 1, 1),
                "terminate-write-bad-key" | "terminate-write-bad-stag" | "terminate-write-no-permission" => (1, 1, 0),
                _ => panic!("{name}: {what}"),
            };
            assert_eq!((what.layer, what.etype, what.code), code, "{name}");
        }
        drop(raw);
    }
}

/// What comes of a probe: octets of the messages that arrive, then the Terminate that is sent.
type Probe = (&'static str, &'static [usize], Option<(u8, u8, u8)>);

const PROBES: &[Probe] = &[
    ("crc-bad", &[10], Some((2, 0, 2))),
    // siw holds a trailer in two pieces for a CRC error
    ("crc-fpdu-1-byte-segments", &[8], None),
    ("crc-fpdu-split-before-crc", &[10], None),
    ("crc-fpdu-split-before-pad", &[10], None),
    ("crc-fpdu-split-in-crc", &[10], None),
    ("crc-fpdu-split-in-header", &[10], None),
    ("crc-fpdu-split-in-length", &[10], None),
    ("crc-fpdu-split-in-payload", &[10], None),
    ("crc-good", &[10], None),
    ("crc-off-fpdu-split-in-crc", &[10, 10], None),
    ("crc-off-garbage-crc-ignored", &[10], None),
    ("ddp-version-2", &[], Some((1, 2, 6))),
    ("mpa-length-too-short", &[], Some((2, 0, 3))),
    ("mpa1-plain-send", &[10], None),
    ("rdmap-opcode-9", &[], Some((0, 2, 6))),
    ("rdmap-version-0", &[], Some((0, 2, 5))),
    // the first of them is judged before the fifth comes: its key is nobody's here
    ("read-requests-beyond-ird4", &[], Some((0, 1, 0))),
    ("request-in-3-pieces", &[10], None),
    ("reserved-ddp-rdmap-bits", &[9], None),
    ("send-2-segments-msn1", &[21], None),
    ("send-msn-5", &[], Some((1, 2, 3))),
    ("send-queue-3", &[], Some((1, 2, 1))),
    ("terminate-rfc5040-encoding", &[], None),
    ("v2-not-enhanced", &[10], None),
    ("v2-p2p-send-rtr-B-bit", &[0], None),
    ("write-zero-length-any-stag", &[10], None),
];

/// Hand-made octets that a plain TCP client sent to siw, sent to a device in its place: at once, and octet by octet, which is every way to cut them.
#[test]
fn soft_in_the_place_of_a_siw_that_is_probed() {
    let mut left: Vec<_> = PROBES.iter().collect();
    for (name, opener, other) in rows() {
        let Some(name) = name.strip_prefix("probe-") else { continue };
        let at = left.iter().position(|probe| probe.0 == name).unwrap_or_else(|| panic!("{name} is new"));
        let (_, messages, terminate) = *left.remove(at);
        let (request, fpdus) = mpa::Frame::parse(&opener).expect("Request");
        let (reply, _) = mpa::Frame::parse(&other).expect("Reply");
        let (words, crc) = (reply.enhanced, reply.crc);
        for bytewise in [false, true] {
            let mut b = Side::new(SoftConfig { mpa: MpaOptions { crc, ..MpaOptions::default() }, ..config() });
            for n in 0..4 {
                b.recv(n, 0, 100);
            }
            let listener = b.listen(1);
            let stream = std::net::TcpStream::connect(listener.local_addr()).expect("connect");
            stream.set_nodelay(true).expect("option");
            stream.set_read_timeout(Some(common::BOUND)).expect("option");
            let mut raw = Raw { stream, crc };
            let mut write = |octets: &[u8]| {
                let n = if bytewise { 1 } else { octets.len().max(1) };
                octets.chunks(n).for_each(|part| raw.write(part));
            };
            write(&opener[..opener.len() - fpdus.len()]);
            let private_data = PrivateData::new(reply.private_data).expect("short");
            let param = ConnParam { ird: words.map_or(4, |w| w.ird()), ord: words.map_or(4, |w| w.ord()), private_data, ..b.param(0) };
            let event = b.accept(&param);
            assert_eq!(*event.private_data, *request.private_data, "{name}");
            write(fpdus);
            assert_eq!(raw.start_up(), other[..20 + reply_len(&other)], "{name}: Reply");
            for (n, len) in messages.iter().enumerate() {
                b.received(n as u64, *len);
            }
            if let Some(code) = terminate {
                let ours = raw.ulpdu().unwrap_or_else(|| panic!("{name}: FIN"));
                assert_eq!(opcode(&ours), rdmap::Opcode::Terminate, "{name}");
                let what = b.qp.query().terminate_out.expect("Terminate");
                assert_eq!((what.layer, what.etype, what.code), code, "{name}: {what}");
            }
            drop(raw);
            b.event(EventKind::Established);
            let (_, event) = b.event(EventKind::Close);
            let good = terminate.is_none() && !name.starts_with("terminate-");
            assert_eq!(event.status.is_ok(), good, "{name}: {:?}", event.status);
        }
    }
    assert!(left.is_empty(), "not captured: {left:?}");
}

/// Octets of private data, IRD and ORD among them.
fn reply_len(frame: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([frame[18], frame[19]]))
}
