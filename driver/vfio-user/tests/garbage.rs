// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever octets a client sends: the server neither panics nor hangs, and no descriptor stays open.
//! In a process of its own, as it counts this process's descriptors.
mod common;
use common::{event, Recorder};
use ironwarp_vfio_user::{
    irq,
    message::{Header, IrqPayload, Request, SetIrqs, Version, HEADER},
    Client, DmaFlags, DmaMap, Errno, IrqAction, Server, Step,
};
use proptest::prelude::*;
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::{
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

/// Open descriptors of this process.
fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

fn send_with_fds(socket: &UnixStream, octets: &[u8], fds: usize) {
    let events: Vec<_> = (0..fds).map(|_| event()).collect();
    let borrowed: Vec<_> = events.iter().map(|e| e.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if fds > 0 {
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    // A server that has given up is not this side's concern.
    let _ = sendmsg(socket, &[IoSlice::new(octets)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

fn hello() -> Vec<u8> {
    let version = Request::Version(Version { major: 0, minor: 0, capabilities: Default::default() });
    let body = version.encode();
    [&Header::request(0, version.command(), body.len(), false).encode()[..], &body].concat()
}

/// Sends the pieces, hangs up, and lets the server work until it notices.
fn survive(pieces: &[(Vec<u8>, usize)]) {
    let before = open_fds();
    {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        for (octets, fds) in pieces {
            send_with_fds(&ours, octets, *fds);
        }
        ours.shutdown(Shutdown::Write).expect("shutdown");
        let mut server = Server::from_stream(theirs).expect("server");
        server.set_message_timeout(Duration::from_millis(50));
        let mut device = Recorder::default();
        let start = Instant::now();
        loop {
            let step = server.step(&mut device, Duration::from_secs(5)).expect("no error of the server's own");
            assert!(start.elapsed() < Duration::from_secs(5), "hangs");
            if step == Step::Disconnected {
                break;
            }
            assert_eq!(step, Step::Served);
        }
        assert_eq!(device.disconnects, 1);
    }
    assert_eq!(open_fds(), before, "descriptors stayed open");
}

/// How the request is answered when so many descriptors come with it.
fn answers(request: &Request, fds: &[usize]) -> Vec<Option<Errno>> {
    let (mut ours, theirs) = UnixStream::pair().expect("pair");
    let mut server = Server::from_stream(theirs).expect("server");
    let mut device = Recorder::default();
    let body = request.encode();
    let message = [&Header::request(1, request.command(), body.len(), false).encode()[..], &body].concat();
    let mut results = Vec::new();
    for (octets, fds) in std::iter::once((hello(), 0)).chain(fds.iter().map(|&fds| (message.clone(), fds))) {
        send_with_fds(&ours, &octets, fds);
        assert_eq!(server.step(&mut device, Duration::ZERO).expect("step"), Step::Served);
        let mut header = [0; HEADER];
        ours.read_exact(&mut header).expect("answer");
        let header = Header::decode(&header);
        ours.read_exact(&mut vec![0; header.body().expect("size")]).expect("body");
        results.push(header.failure());
    }
    results.split_off(1)
}

/// A message with a header that is right about its size more often than not.
fn message() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let small = prop_oneof![0u32..8, 0x1000u32..0x1010, any::<u32>()].prop_map(|word| word.to_ne_bytes());
    let body = prop::collection::vec(small, 0..12).prop_map(|words| words.concat());
    let lie = prop_oneof![8 => Just(0i64), 1 => -20i64..20, 1 => 0i64..1 << 32];
    let fds = prop_oneof![6 => Just(0usize), 3 => 1usize..4, 1 => 14usize..20];
    (any::<u16>(), 0u16..20, body, 0usize..4, lie, 0u32..64, fds).prop_map(|(id, command, body, cut, lie, flags, fds)| {
        let body = &body[..body.len().saturating_sub(cut)];
        let mut header = Header::request(id, command, body.len(), false);
        header.size = (i64::from(header.size) + lie) as u32;
        header.flags = flags & 0x30;
        ([&header.encode()[..], body].concat(), fds)
    })
}

/// One test function only: others in this process would disturb the count of descriptors.
#[test]
fn no_octets_and_no_descriptors_make_the_server_panic_hang_or_leak() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config.clone(), |(octets in prop::collection::vec(any::<u8>(), 0..400))| {
        survive(&[(octets, 0)]);
    });
    proptest!(config, |(messages in prop::collection::vec(message(), 0..20))| {
        let pieces: Vec<_> = std::iter::once((hello(), 0)).chain(messages).collect();
        survive(&pieces);
    });
    // Descriptors where none belong, and as many as the kernel passes.
    let reset = Header::request(1, 13, 0, false).encode().to_vec();
    survive(&[(hello(), 3), (reset.clone(), 253), (reset, 1)]);

    // Descriptors that do not match the request.
    let set = SetIrqs { index: irq::MSIX, start: 0, count: 2, action: IrqAction::Trigger, payload: IrqPayload::EventFd };
    let map = DmaMap { flags: DmaFlags::READ, offset: 0, address: 0x1000, size: 0x1000 };
    assert_eq!(answers(&Request::SetIrqs(set), &[0, 1, 2, 3]), [None, Some(Errno::INVAL), None, Some(Errno::INVAL)]);
    assert_eq!(answers(&Request::DmaMap(map), &[2, 1]), [Some(Errno::INVAL), None]);

    // The same for a client that reads garbage.
    proptest!(|(octets in prop::collection::vec(any::<u8>(), 0..200))| {
        let before = open_fds();
        {
            let (ours, mut theirs) = UnixStream::pair().expect("pair");
            theirs.write_all(&octets).expect("send");
            theirs.shutdown(Shutdown::Write).expect("shutdown");
            prop_assert!(Client::from_stream(ours, Duration::from_millis(100)).is_err());
        }
        prop_assert_eq!(open_fds(), before);
    });
}
