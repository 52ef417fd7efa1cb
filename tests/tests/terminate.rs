// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of peers, Terminates, and the end of work requests and of keys, on a simulated adapter by the driver's verbs.
use ironwarp_iwcm::{Errno, EventKind};
use ironwarp_rnic::TcpSettings;
use ironwarp_sim::{DmaConfig, Latency};
use ironwarp_tests::{
    ends::{self, How, Work},
    stage::{framed, next_ulpdu, segment, until, AdapterStage, Ear, End, Options, Stage, Watched},
    wrong::{self, parse_terminate, read, tagged, untagged, Manners, Row, ALL},
};
use ironwarp_verbs::{Access, QpState, SendFlags, SendOp, Terminate, WcStatus};
use ironwarp_wire::{ddp, rdmap};

/// The adapter leaves statuses but those of own errors to the driver, which flushes.
const MANNERS: Manners = Manners {
    close: Err(Errno::Protocol),
    bad_response: WcStatus::WrFlushErr,
    places_short: false,
    tells_why: false,
    wants_headers: false,
    bounds_work: true,
    keeps_receives: true,
};

/// A host whose memory is slow and often busy, so that much is under way at once.
fn slow_host() -> DmaConfig {
    DmaConfig { read_latency: Latency::Fixed(150), write_latency: Latency::Fixed(300), stall_percent: 20, ..DmaConfig::default() }
}

/// Plays rows on an adapter of their own.
fn play(rows: &[Row]) {
    let mut stage = AdapterStage::new(Options::default());
    let count = wrong::play_all(&mut stage, MANNERS, rows);
    assert_eq!((stage.counter("rdmaTerminatesOut"), stage.counter("rdmaTerminatesIn")), (count as u64, 0));
    stage.assert_over();
}

/// Covers: MPA-26, MPA-28, MPA-37, MPA-38, RDM-10, RDM-31, CH-1, CH-2, CH-6, CH-7
#[test]
fn what_is_no_fpdu() {
    play(&wrong::mpa());
}

/// Covers: DDP-1, RDM-1, RDM-10
#[test]
fn other_versions() {
    play(&wrong::versions());
}

/// Covers: RDM-1, RDM-40, CH-8, CH-9
#[test]
fn opcodes_on_each_queue() {
    play(&wrong::opcodes());
}

/// Covers: DDP-2, DDP-10, DDP-26, DDP-27, RDM-9, RDM-18, RDM-19, CH-3, CH-10
#[test]
fn memory_that_is_not_the_peers() {
    play(&wrong::protection());
}

/// Covers: DDP-3, DDP-22, RDM-6, RDM-21, DDP-21, DDP-23
#[test]
fn numbers_offsets_and_lengths() {
    play(&wrong::queues());
}

/// Covers: RDM-3
#[test]
fn what_nobody_asked_for() {
    play(&wrong::unsolicited());
}

/// Covers: RDM-5, RDM-37
#[test]
fn keys_that_a_peer_may_not_invalidate() {
    play(&wrong::invalidation());
}

/// Covers: RDM-3, RDM-30
#[test]
fn a_response_must_be_the_one_asked_for() {
    let mut stage = AdapterStage::new(Options::default());
    let count = ends::wrong_responses(&mut stage, MANNERS);
    assert_eq!((stage.counter("rdmaTerminatesOut"), stage.counter("rdmaTerminatesIn")), (count as u64, 0));
    stage.assert_over();
}

/// Covers: RDM-8, RDM-30, RDM-32, RDM-33, CH-6, CH-11
#[test]
fn a_terminate_of_the_peer_is_told_and_not_answered() {
    let mut stage = AdapterStage::new(Options::default());
    let count = ends::terminates_of_the_peer(&mut stage, MANNERS);
    assert_eq!((stage.counter("rdmaTerminatesOut"), stage.counter("rdmaTerminatesIn")), (0, count as u64));
    stage.assert_over();
}

/// Covers: RDM-27
#[test]
fn an_own_request_for_foreign_memory_ends_the_stream() {
    let mut stage = AdapterStage::new(Options::default());
    ends::own_errors(&mut stage, MANNERS);
    stage.assert_over();
}

/// Covers: TD-1, TD-3, TD-5, TD-7, CH-20, MPA-35, MPA-39, DDP-32
#[test]
fn each_work_request_completes_once_however_the_connection_ends() {
    let tcp = TcpSettings { close_timeout_us: Some(300), ..TcpSettings::default() };
    let mut stage = AdapterStage::new(Options { tcp, ..Options::default() });
    let works = [Work::Complete, Work::Posted, Work::Sent, Work::Reading, Work::Fenced];
    ends::teardowns(&mut stage, MANNERS, &works, &[How::Disconnect, How::Abort, How::ToError, How::PeerFin, How::PeerReset]);
    stage.assert_over();
}

/// Covers: TD-2
#[test]
fn fin_in_the_middle_of_an_fpdu_is_no_orderly_end() {
    let mut stage = AdapterStage::new(Options::default());
    ends::fin_at_every_octet(&mut stage);
    stage.assert_over();
}

/// Covers: ENH-22, RDM-2, CH-4
#[test]
fn a_read_request_beyond_ird() {
    let mut stage = AdapterStage::new(Options::default());
    assert!(ends::reads_beyond_ird(&mut stage, MANNERS));
    stage.assert_over();
}

/// A small message does not wait for the acknowledgement of the one before it.
///
/// Covers: SEG-10, TCP-13
#[test]
fn small_messages_leave_at_once() {
    let mut stage = AdapterStage::new(Options::default());
    let stage_ref: &mut dyn Stage = &mut stage;
    let end = End::connected(stage_ref, 2);
    let region = Watched::new(&end.pd, 500, ALL, 0x13);
    assert!(stage_ref.restrain(end.peer, true, 0xffff));
    for msn in 1..=8 {
        end.post(u64::from(msn), SendOp::Send, SendFlags::empty(), &region.mr, msn as usize, 1);
        let came = next_ulpdu(stage_ref, end.peer);
        assert_eq!(came, Some(segment(untagged(3, 0, msn, 0), region.octets(msn as usize, 1))));
    }
    stage_ref.restrain(end.peer, false, 0xffff);
    for wr_id in 1..=8 {
        let wc = End::completion(stage_ref, &end.cq);
        assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::Success));
    }
    stage_ref.finish(end.peer);
    assert_eq!(end.event(stage_ref, EventKind::Close).status, Ok(()));
    end.assert_silent();
    end.end();
    stage.assert_over();
}

/// Closes a connection that hears a Terminate with that culprit.
fn refused(stage: &mut dyn Stage, end: &End, says: (u8, u8, u8), culprit: Option<&[u8]>, name: &str) {
    let answer = next_ulpdu(stage, end.peer).unwrap_or_else(|| panic!("{name}: no Terminate"));
    let terminate = parse_terminate(name, &answer);
    assert_eq!((terminate.layer, terminate.etype, terminate.code), says, "{name}: {answer:02x?}");
    let header = culprit.map(|ulpdu| (ulpdu.len() as u16, ddp::View::new(ulpdu).expect("whole").header()));
    assert_eq!(terminate.segment, header, "{name}");
    assert_eq!(next_ulpdu(stage, end.peer), None, "{name}");
    stage.finish(end.peer);
    assert_eq!(end.event(stage, EventKind::Close).status, MANNERS.close, "{name}");
    let (layer, etype, code) = says;
    assert_eq!(end.qp.query().terminate_out, Some(Terminate { layer, etype, code }), "{name}");
}

/// A Write is still being placed when the Send with Invalidate behind it comes: the receive completes when all of it is there, and then nothing more comes through the key.
///
/// Covers: DDP-12, RDM-5
#[test]
fn a_key_dies_when_what_it_allowed_has_ended() {
    let mut stage = AdapterStage::new(Options { dma: slow_host(), ..Options::default() });
    let stage_ref: &mut dyn Stage = &mut stage;
    let ear = Ear::new(stage_ref);
    for (n, pieces) in [1, 2, 7].into_iter().enumerate() {
        let name = format!("{pieces} segments");
        let end = End::served(stage_ref, &ear, 2);
        let mut region = ends::invalidatable(&end, 3001);
        let (mr, stag) = (region.mr.clone(), region.mr.rkey());
        end.recv(1, &mr, 0, 0);
        let each = [900, 400, 120][n];
        let header = ddp::Header::Untagged { last: true, rdmap: 0x44 | n as u8 & 2, stag, qn: 0, msn: 1, mo: 0 };
        let late = segment(tagged(0, stag, mr.addr() + 7), &[8; 300]);
        let octets = [ends::long_write(&mr, stag, 101, pieces, each, 7), framed(&segment(header, b"")), framed(&late)].concat();
        stage_ref.send(end.peer, &octets);
        region.expect(101, &vec![7; pieces * each]);
        let wc = End::completion(stage_ref, &end.recv_cq);
        region.check(stage_ref, &name);
        assert_eq!((wc.wr_id, wc.status, wc.invalidated, wc.byte_len), (1, WcStatus::Success, Some(stag), 0), "{name}");
        refused(stage_ref, &end, (1, 1, 0), Some(&late), &name);
        region.check(stage_ref, &name);
        // an own request cannot use it either, and a new key can
        let (_, fresh) = mr.rekey(Access::all()).expect("valid again");
        assert_ne!(fresh, stag, "{name}");
        end.assert_silent();
        end.end();
    }
    ear.end();
    stage.assert_over();
}

/// The user deregisters while Writes stream in: when it is told that this is done nothing is placed any more, and each Write is there as a whole or not at all.
///
/// Covers: DDP-12
#[test]
fn a_deregistration_ends_when_the_last_write_has_ended() {
    const EACH: usize = 400;
    const WRITES: usize = 60;
    let mut stage = AdapterStage::new(Options { dma: slow_host(), ..Options::default() });
    let stage_ref: &mut dyn Stage = &mut stage;
    let ear = Ear::new(stage_ref);
    let mut seen = Vec::new();
    for steps in 0..ironwarp_tests::count("TERMINATE_STEPS", 8) {
        let name = format!("after {steps} steps");
        let end = End::served(stage_ref, &ear, 2);
        let region = Watched::new(&end.pd, WRITES * EACH + 9, ALL, 0x13);
        let (mr, stag) = (region.mr.clone(), region.mr.rkey());
        let writes: Vec<_> =
            (0..WRITES).map(|n| segment(tagged(0, stag, mr.addr() + (n * EACH) as u64), &[0x80 + n as u8; EACH])).collect();
        let octets: Vec<u8> = writes.iter().flat_map(|u| framed(u)).collect();
        stage_ref.send(end.peer, &octets);
        for _ in 0..3 * steps {
            stage_ref.pass();
        }
        mr.dereg().expect("deregistered");
        let mut then = vec![0; mr.length()];
        mr.read(0, &mut then).expect("inside");
        let placed = (0..WRITES).take_while(|n| then[n * EACH] == 0x80 + *n as u8).count();
        for n in 0..WRITES {
            let octets = &then[n * EACH..][..EACH];
            let whole = if n < placed { octets.iter().all(|o| *o == 0x80 + n as u8) } else { octets == region.octets(n * EACH, EACH) };
            assert!(whole, "{name}: {placed} Writes, and a part of Write {n}");
        }
        mr.write(0, &vec![0xa5; mr.length()]).expect("its owner's again");
        seen.push(placed);
        if placed < WRITES {
            refused(stage_ref, &end, (1, 1, 0), Some(&writes[placed]), &name);
        } else {
            stage_ref.finish(end.peer);
            assert_eq!(end.event(stage_ref, EventKind::Close).status, Ok(()), "{name}");
        }
        mr.read(0, &mut then).expect("inside");
        assert!(then.iter().all(|o| *o == 0xa5), "{name}: placed after the deregistration");
        end.assert_silent();
        end.end();
    }
    println!("Writes placed: {seen:?}");
    assert!(seen.iter().any(|n| (1..WRITES).contains(n)), "{seen:?}: none was deregistered in time");
    ear.end();
    stage.assert_over();
}

/// Writes of the peer, and the response to a Read, stream in while the connection is reset: when the last completion and CLOSE are there, nothing is placed any more. The host answers one
/// write after the other, so that placements are still to come when the engine has done its part.
///
/// Covers: RDM-41, TD-8
#[test]
fn after_the_flush_the_memory_is_the_users() {
    const EACH: usize = 400;
    const WRITES: usize = 40;
    let mut stage = AdapterStage::new(Options { dma: DmaConfig { writes: 1, ..slow_host() }, ..Options::default() });
    let stage_ref: &mut dyn Stage = &mut stage;
    let ear = Ear::new(stage_ref);
    let mut seen = Vec::new();
    for steps in 0..ironwarp_tests::count("TERMINATE_STEPS", 8) {
        let name = format!("after {steps} steps");
        let end = End::served(stage_ref, &ear, 2);
        let region = Watched::new(&end.pd, (WRITES + 1) * EACH + 9, ALL, 0x13);
        let (mr, stag) = (region.mr.clone(), region.mr.rkey());
        end.recv(1, &mr, 0, 10);
        // the stream begins, so that the device may send
        stage_ref.send(end.peer, &framed(&segment(tagged(0, stag, mr.addr()), &[0x80; EACH])));
        end.post(2, SendOp::Read { remote_addr: 64, rkey: 0x99 }, SendFlags::empty(), &mr, WRITES * EACH, EACH);
        let request = next_ulpdu(stage_ref, end.peer).expect("Read Request");
        let asked = rdmap::ReadRequest::parse(&request[18..]).expect("28 octets");
        let response = segment(tagged(2, asked.sink_stag, asked.sink_to), &[0x7f; EACH]);
        let writes = (1..WRITES).map(|n| segment(tagged(0, stag, mr.addr() + (n * EACH) as u64), &[0x80 + n as u8; EACH]));
        let octets: Vec<u8> = writes.chain([response]).flat_map(|u| framed(&u)).collect();
        stage_ref.send(end.peer, &octets);
        for _ in 0..2 * steps {
            stage_ref.pass();
        }
        end.qp.modify(QpState::Error).expect("resets");
        for (cq, wr_id) in [(&end.recv_cq, 1), (&end.cq, 2)] {
            let wc = End::completion(stage_ref, cq);
            assert_eq!(wc.wr_id, wr_id, "{name}");
        }
        assert!(end.event(stage_ref, EventKind::Close).status.is_err(), "{name}");
        let mut then = vec![0; mr.length()];
        mr.read(0, &mut then).expect("inside");
        seen.push((0..WRITES).take_while(|n| then[n * EACH] == 0x80 + *n as u8).count());
        mr.write(0, &vec![0xa5; mr.length()]).expect("its owner's again");
        for _ in 0..40 {
            stage_ref.pass();
        }
        mr.read(0, &mut then).expect("inside");
        assert!(then.iter().all(|o| *o == 0xa5), "{name}: placed after the flush");
        end.assert_silent();
        end.end();
    }
    println!("Writes placed: {seen:?}");
    assert!(seen.iter().any(|n| (1..WRITES).contains(n)), "{seen:?}: none was reset amid the Writes");
    ear.end();
    stage.assert_over();
}

/// The source of a response, or of an own Write, is deregistered and filled anew while it is sent: what the user wrote afterwards never leaves, and the connection ends.
///
/// Covers: RDM-28
#[test]
fn a_source_that_is_deregistered_is_not_read_any_more() {
    const SIZE: usize = 30_000;
    let mut stage = AdapterStage::new(Options { dma: slow_host(), ..Options::default() });
    let stage_ref: &mut dyn Stage = &mut stage;
    let ear = Ear::new(stage_ref);
    let mut cut = 0;
    for steps in 0..ironwarp_tests::count("TERMINATE_STEPS", 6) {
        for response in [true, false] {
            let name = format!("response {response}, after {steps} steps");
            let end = if response { End::served(stage_ref, &ear, 2) } else { End::connected(stage_ref, 2) };
            let region = Watched::new(&end.pd, SIZE, ALL, 0x13);
            let mr = region.mr.clone();
            end.recv(5, &mr, 0, 0);
            if response {
                stage_ref.send(end.peer, &framed(&read(1, SIZE as u32, mr.rkey(), mr.addr())));
            } else {
                end.post(1, SendOp::Write { remote_addr: 5, rkey: 0x1234 }, SendFlags::empty(), &mr, 0, SIZE);
                end.post(2, SendOp::Send, SendFlags::empty(), &mr, 0, 0);
            }
            for _ in 0..8 + 10 * steps {
                stage_ref.pass();
            }
            mr.dereg().expect("deregistered");
            mr.write(0, &vec![0xa5; SIZE]).expect("its owner's again");
            let mut done = 0;
            while let Some(ulpdu) = next_ulpdu(stage_ref, end.peer) {
                let (header, payload) = ddp::Header::parse(&ulpdu).expect("whole");
                if matches!(header, ddp::Header::Untagged { .. }) {
                    // the Send behind a Write that was already on its way
                    assert_eq!(done, SIZE, "{name}: {header:?}");
                    break;
                }
                let rdmap = if response { 0x42 } else { 0x40 };
                let expected = ddp::Header::Tagged { last: done + payload.len() == SIZE, rdmap, stag: 0x1234, to: 5 + done as u64 };
                assert_eq!(header, expected, "{name}");
                assert!(payload == region.octets(done, payload.len()), "{name}: octets of after the deregistration");
                done += payload.len();
                if done == SIZE && response {
                    break;
                }
            }
            if done < SIZE {
                cut += 1;
                assert!(stage_ref.heard(end.peer).reset, "{name}: a message that cannot be finished ends in RST (RDM-28)");
                assert_eq!(end.event(stage_ref, EventKind::Close).status, Err(Errno::Fault), "{name}");
                assert_eq!(end.qp.query().state, QpState::Error, "{name}");
                for wr_id in if response { 0..0 } else { 1..3 } {
                    let wc = End::completion(stage_ref, &end.cq);
                    assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr), "{name}");
                }
                let wc = End::completion(stage_ref, &end.recv_cq);
                assert_eq!((wc.wr_id, wc.status), (5, WcStatus::WrFlushErr), "{name}");
            } else {
                for wr_id in if response { 0..0 } else { 1..3 } {
                    let wc = End::completion(stage_ref, &end.cq);
                    assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::Success), "{name}");
                }
                stage_ref.finish(end.peer);
                assert_eq!(end.event(stage_ref, EventKind::Close).status, Ok(()), "{name}");
            }
            end.assert_silent();
            end.end();
        }
    }
    assert!(cut >= 2, "{cut} connections lost their source");
    ear.end();
    stage.assert_over();
}

/// The sink of a Read, and the buffer of a receive, that are deregistered before what they are for comes.
#[test]
fn a_sink_that_is_deregistered_is_not_written() {
    let mut stage = AdapterStage::new(Options::default());
    let stage_ref: &mut dyn Stage = &mut stage;
    let end = End::connected(stage_ref, 2);
    let region = Watched::new(&end.pd, 500, ALL, 0x13);
    end.post(1, SendOp::Read { remote_addr: 64, rkey: 0x99 }, SendFlags::empty(), &region.mr, 100, 50);
    let request = next_ulpdu(stage_ref, end.peer).expect("Read Request");
    let asked = rdmap::ReadRequest::parse(&request[18..]).expect("28 octets");
    region.mr.dereg().expect("deregistered");
    let response = segment(tagged(2, asked.sink_stag, asked.sink_to), &[9; 50]);
    stage_ref.send(end.peer, &framed(&response));
    refused(stage_ref, &end, (1, 1, 0), Some(&response), "sink of a Read");
    let wc = End::completion(stage_ref, &end.cq);
    assert_eq!((wc.wr_id, wc.status), (1, WcStatus::WrFlushErr));
    region.check(stage_ref, "sink of a Read");
    end.assert_silent();
    end.end();

    let ear = Ear::new(stage_ref);
    let end = End::served(stage_ref, &ear, 2);
    let region = Watched::new(&end.pd, 500, ALL, 0x13);
    end.recv(1, &region.mr, 100, 50);
    end.recv(2, &region.mr, 200, 50);
    region.mr.dereg().expect("deregistered");
    stage_ref.send(end.peer, &framed(&segment(untagged(3, 0, 1, 0), &[9; 50])));
    refused(stage_ref, &end, (0, 2, 7), None, "buffer of a receive");
    for (wr_id, status) in [(1, WcStatus::LocProtErr), (2, WcStatus::WrFlushErr)] {
        let wc = End::completion(stage_ref, &end.recv_cq);
        assert_eq!((wc.wr_id, wc.status), (wr_id, status));
    }
    region.check(stage_ref, "buffer of a receive");
    end.assert_silent();
    end.end();
    ear.end();
    stage.assert_over();
}

/// A responder that has not heard an FPDU may not send, not even a Terminate.
///
/// Covers: RDM-34
#[test]
fn a_responder_that_may_not_speak_resets() {
    let mut stage = AdapterStage::new(Options::default());
    let stage_ref: &mut dyn Stage = &mut stage;
    let ear = Ear::new(stage_ref);
    let end = End::served(stage_ref, &ear, 2);
    let region = Watched::new(&end.pd, 500, ALL, 0x13);
    end.recv(1, &region.mr, 0, 10);
    end.post(2, SendOp::Send, SendFlags::empty(), &region.mr, 0, 10);
    let mut fpdu = framed(&segment(untagged(3, 0, 1, 0), b"x"));
    *fpdu.last_mut().expect("CRC") ^= 1;
    stage_ref.send(end.peer, &fpdu);
    until(stage_ref, "RST", |stage| stage.heard(end.peer).reset.then_some(()));
    assert!(stage_ref.heard(end.peer).octets.is_empty(), "nothing was sent");
    assert!(end.event(stage_ref, EventKind::Close).status.is_err());
    for (cq, wr_id) in [(&end.recv_cq, 1), (&end.cq, 2)] {
        let wc = End::completion(stage_ref, cq);
        assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr));
    }
    region.check(stage_ref, "before the first FPDU");
    end.assert_silent();
    end.end();
    ear.end();
    stage.assert_over();
}

/// A Terminate that is not acknowledged, or not followed by the peer's FIN, or answered by RST: the end is told all the same, by a timer if by nothing else.
///
/// Covers: TD-4, TD-9, CH-13
#[test]
fn the_end_is_told_whatever_a_peer_does_after_a_terminate() {
    let (rto_init_us, rto_min_us, rto_max_us) = (Some(300), Some(300), Some(300));
    let tcp = TcpSettings { close_timeout_us: Some(500), rto_init_us, rto_min_us, rto_max_us, r2_us: Some(1500), ..TcpSettings::default() };
    let mut stage = AdapterStage::new(Options { tcp, ..Options::default() });
    let stage_ref: &mut dyn Stage = &mut stage;
    for name in ["no acknowledgement", "no FIN", "RST", "RST before"] {
        println!("{name} at {}", stage_ref.now());
        let end = End::connected(stage_ref, 2);
        let region = Watched::new(&end.pd, 500, ALL, 0x13);
        end.recv(1, &region.mr, 0, 10);
        end.post(2, SendOp::Read { remote_addr: 64, rkey: 0x99 }, SendFlags::empty(), &region.mr, 100, 50);
        next_ulpdu(stage_ref, end.peer).expect("Read Request");
        for _ in 0..10 {
            stage_ref.pass();
        }
        stage_ref.restrain(end.peer, name.starts_with("no ack"), 0xffff);
        stage_ref.send(end.peer, &framed(&segment(tagged(0, 0, 0), b"x")));
        if name == "RST before" {
            stage_ref.pass();
            stage_ref.reset(end.peer);
        } else {
            let answer = next_ulpdu(stage_ref, end.peer).expect("Terminate");
            assert_eq!(parse_terminate(name, &answer).code, 0);
            if name == "RST" {
                stage_ref.reset(end.peer);
            }
        }
        assert!(end.event(stage_ref, EventKind::Close).status.is_err(), "{name}");
        assert_eq!(end.qp.query().state, QpState::Error, "{name}");
        for (cq, wr_id) in [(&end.recv_cq, 1), (&end.cq, 2)] {
            let wc = End::completion(stage_ref, cq);
            assert_eq!((wc.wr_id, wc.status), (wr_id, WcStatus::WrFlushErr), "{name}");
        }
        if name == "no FIN" {
            until(stage_ref, "RST", |stage| stage.heard(end.peer).reset.then_some(()));
        }
        region.check(stage_ref, name);
        end.assert_silent();
        end.end();
    }
    stage.assert_over();
}

/// What tshark reads of the frames that a filter lets through; none where there is no tshark.
fn tshark(file: &std::path::Path, filter: &str, how: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new("tshark");
    let output = match command.arg("-r").arg(file).args(["-n", "-o", "tcp.check_checksum:TRUE", "-Y", filter]).args(how).output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.expect("tshark runs"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A row of each kind, in the eyes of tshark, which shares nothing with this project.
///
/// Covers: RDM-9
#[test]
fn tshark_reads_the_same_terminates() {
    const NAMES: [&str; 12] = [
        "a wrong CRC",
        "Read Request that is too short",
        "DV 2, tagged",
        "DV 3, untagged",
        "RV 2, tagged",
        "opcode 12 on queue 0",
        "queue 4",
        "Write, one octet before the region",
        "Read, a region that may only be written",
        "Send with MSN 3",
        "Send with MO 8",
        "Send with Invalidate 4, another domain",
    ];
    let rows: Vec<_> = wrong::all().into_iter().filter(|row| NAMES.contains(&row.name.as_str())).collect();
    assert_eq!(rows.len(), NAMES.len());
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("terminates.pcapng");
    let mut stage = AdapterStage::new(Options { capture: Some(&file), ..Options::default() });
    wrong::play_all(&mut stage, MANNERS, &rows);
    stage.assert_over();
    let number =
        |text: &str| u8::from_str_radix(text.trim_start_matches("0x"), if text.starts_with("0x") { 16 } else { 10 }).expect("number");
    let on = |text: &str| matches!(text, "1" | "True");
    let of_adapter = "ip.src == 192.0.2.1 && iwarp_rdma.opcode == 7";
    let fields = [
        "iwarp_rdma.term_layer",
        "iwarp_rdma.term_etype_rdma",
        "iwarp_rdma.term_etype_ddp",
        "iwarp_rdma.term_etype_llp",
        "iwarp_rdma.term_errcode_rdma",
        "iwarp_rdma.term_errcode_ddp_tagged",
        "iwarp_rdma.term_errcode_ddp_untagged",
        "iwarp_rdma.term_errcode_llp",
        "iwarp_rdma.hdrct_d",
        "iwarp_rdma.hdrct_r",
        "iwarp_rdma.term_hdrct_m",
    ];
    let how: Vec<_> = ["-T", "fields"].into_iter().chain(fields.iter().flat_map(|field| ["-e", field])).collect();
    let Some(seen) = tshark(&file, of_adapter, &how) else {
        println!("there is no tshark");
        return;
    };
    let seen: Vec<Vec<_>> = seen.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(seen.len(), rows.len(), "{seen:?}");
    for (row, seen) in rows.iter().zip(&seen) {
        let one = |cells: &[&str]| cells.iter().find(|c| !c.is_empty()).map_or(0xee, |c| number(c));
        let says = (number(seen[0]), one(&seen[1..4]), one(&seen[4..8]));
        assert_eq!(says, row.says, "{}: {seen:?}", row.name);
        assert_eq!((on(seen[8]), on(seen[9]), on(seen[10])), (row.headers.0, row.headers.1, row.headers.0), "{}", row.name);
    }
    // nothing that the adapter sent is malformed, and each FPDU has a good CRC
    let bad = tshark(&file, "ip.src == 192.0.2.1 && (_ws.malformed || tcp.checksum.status == 0)", &[]).expect("is there");
    assert!(bad.is_empty(), "{bad}");
    let text = tshark(&file, "ip.src == 192.0.2.1 && iwarp_ddp", &["-V", "-O", "iwarp_mpa"]).expect("is there");
    let crcs = |is: &str| text.matches(is).count();
    assert!(crcs("(Good CRC32)") > rows.len() && crcs("Bad CRC32") == 0, "{} good, {} bad", crcs("(Good CRC32)"), crcs("Bad CRC32"));
}
