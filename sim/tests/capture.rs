// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures, read back with tshark.
use etherparse::PacketBuilder;
use ironwarp_sim::wire::{Captured, Frame, Link, Queue, SentFrame, Timestamps, View, Wire};
use std::{path::Path, process::Command};

/// The fields of each frame, and nothing on stderr.
fn tshark(file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    fields.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    let output = command.output().expect("tshark runs (`make setup` installs it)");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<_> = stderr.lines().filter(|l| !l.starts_with("Running as user")).collect();
    assert!(output.status.success() && complaints.is_empty(), "tshark: {complaints:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(|l| l.split('\t').map(str::to_owned).collect()).collect()
}

fn ping(from: u8, payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, 9])
        .ipv4([192, 0, 2, from], [192, 0, 2, 9], 64)
        .icmpv4_echo_request(7, payload as u16)
        .write(&mut frame, &vec![0x55; payload])
        .expect("a Vec takes it");
    frame
}

fn sent(octets: Vec<u8>, first: u64) -> SentFrame {
    SentFrame { frame: Frame::good(octets), first, last: first + 10, end: first + 12 }
}

#[test]
fn one_end_shows_both_directions_in_model_time_and_marks_damage() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("end.pcapng");
    let (queue, test) = Queue::new();
    let mut wire = Captured::new(Box::new(queue), &file, &["a"], View::End(0), Timestamps::Cycles { picoseconds: 6400 }).expect("file");
    for payload in [41, 42, 43, 44, 1472] {
        test.send(ping(1, payload));
    }
    test.send_damaged(ping(1, 60));
    while wire.receive(0, 1_000_000_000).is_some() {}
    wire.send(0, sent(ping(2, 41), 1_000_000_001));
    drop(wire);
    let rows = tshark(
        &file,
        &[
            "frame.time_epoch",
            "frame.interface_name",
            "frame.packet_flags_direction",
            "frame.packet_flags_crc_error",
            "ip.src",
            "icmp.seq",
            "frame.len",
        ],
    );
    let payload = |n: usize| (rows[n][5].clone(), rows[n][6].clone());
    assert_eq!(rows.len(), 7);
    for (n, len) in [41, 42, 43, 44, 1472].into_iter().enumerate() {
        assert_eq!(payload(n), (len.to_string(), (len + 42).to_string()));
        assert_eq!(rows[n][..5], ["6.400000000", "a", "0x00000001", "0", "192.0.2.1"].map(String::from));
    }
    assert_eq!(rows[5][3], "1", "damaged");
    assert_eq!(rows[6][..5], ["6.400000006", "a", "0x00000002", "0", "192.0.2.2"].map(String::from));
}

#[test]
fn a_link_shows_each_frame_once_at_the_end_that_sent_it() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("link.pcapng");
    let stamps = Timestamps::Cycles { picoseconds: 16_000 };
    let mut wire = Captured::new(Box::new(Link::new(3)), &file, &["a", "b"], View::Sent, stamps).expect("file");
    wire.send(0, sent(ping(1, 56), 1000));
    wire.send(1, sent(ping(2, 56), 2000));
    assert!(wire.receive(1, 5000).is_some() && wire.receive(0, 5000).is_some());
    assert!(wire.idle());
    wire.rest();
    let rows = tshark(&file, &["frame.time_epoch", "frame.interface_name", "ip.src"]);
    let expected = [["0.000016000", "a", "192.0.2.1"], ["0.000032000", "b", "192.0.2.2"]];
    assert_eq!(rows, expected.map(|r| r.map(String::from).to_vec()));
}

#[test]
fn a_file_that_cannot_be_made_is_an_error() {
    let stamps = Timestamps::Wall;
    assert!(Captured::new(Box::new(Link::new(0)), Path::new("/nowhere/x.pcapng"), &[], View::Sent, stamps).is_err());
}
