// SPDX-License-Identifier: MIT OR Apache-2.0
//! Client against server, in one process, over a real socket.
mod common;
#[path = "common/running.rs"]
mod running;
use common::{event, DOORBELL, FAILS, SLOW, VECTORS};
use ironwarp_vfio_user::{
    irq,
    message::{command, Access, Header, Request, Version, HEADER},
    region, Client, DeviceFlags, DmaFlags, Errno, Error, Server, Step,
};
use running::{memory, raised, Running, SOON};
use std::{
    io::{Read, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{FileExt, PermissionsExt},
            net::UnixStream,
        },
    },
    time::{Duration, Instant},
};

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Errno {
    match result {
        Err(Error::Refused { errno, .. }) => errno,
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn ask(socket: &mut UnixStream, id: u16, number: u16, body: &[u8]) -> (Header, Vec<u8>) {
    let header = Header::request(id, number, body.len(), false);
    socket.write_all(&[&header.encode(), body].concat()).expect("send");
    answer(socket)
}

fn answer(socket: &mut UnixStream) -> (Header, Vec<u8>) {
    let mut octets = [0; HEADER];
    socket.read_exact(&mut octets).expect("an answer");
    let header = Header::decode(&octets);
    let mut body = vec![0; header.body().expect("size")];
    socket.read_exact(&mut body).expect("its body");
    (header, body)
}

fn hello(socket: &mut UnixStream) {
    let (header, body) = ask(socket, 0, command::VERSION, &[0, 0, 1, 0]);
    assert_eq!(header.failure(), None);
    let version = Version::decode(&body).expect("version");
    assert_eq!((version.major, version.minor), (0, 1));
    assert_eq!(version.capabilities.max_msg_fds, None, "only what the client named is named back");
}

fn ends(socket: &mut UnixStream) {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

#[test]
fn a_client_reads_writes_maps_is_interrupted_and_resets() {
    let server = Running::start();
    let mode = std::fs::metadata(&server.path).expect("socket file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "other users must not reach the device");
    let mut client = server.client();
    assert_eq!(client.info().flags, DeviceFlags::PCI | DeviceFlags::RESET);
    assert_eq!(client.region_info(region::BAR0).expect("region").size, common::BAR0);
    assert_eq!(client.irq_info(irq::MSIX).expect("irq").count, VECTORS);
    client.region_write(region::BAR0, 4, &[1, 2, 3, 4]).expect("write");
    client.region_write_posted(region::BAR0, 8, &[5]).expect("posted write");
    let mut data = [0; 6];
    client.region_read(region::BAR0, 3, &mut data).expect("read");
    assert_eq!(data, [0, 1, 2, 3, 4, 5]);

    let file = memory(0x4000);
    let both = DmaFlags::READ | DmaFlags::WRITE;
    client.dma_map(0x10_0000, 0x2000, both, Some((file.as_fd(), 0x1000))).expect("map");
    file.write_all_at(&[0x0f; 64], 0x1000).expect("source");
    client.region_write(region::BAR0, 0x10, &0x10_0000u64.to_ne_bytes()).expect("source address");
    client.region_write(region::BAR0, 0x18, &0x10_1000u64.to_ne_bytes()).expect("target address");
    // More vectors than one message may bring.
    let events: Vec<_> = (0..VECTORS).map(|_| event()).collect();
    let fds: Vec<_> = events.iter().map(|e| e.as_fd()).collect();
    client.set_irq_eventfds(irq::MSIX, 0, &fds).expect("irqs");
    for vector in [0, 15, 16, 39] {
        client.region_write(region::BAR0, DOORBELL, &[vector as u8]).expect("doorbell");
        let counts: Vec<_> = events.iter().map(raised).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1);
        assert_eq!(counts[vector], 1);
    }
    let mut data = [0; 64];
    file.read_exact_at(&mut data, 0x2000).expect("target");
    assert_eq!(data, [0xf0; 64]);

    client.disable_irqs(irq::MSIX).expect("irqs off");
    assert_eq!(refused(client.region_write(region::BAR0, DOORBELL, &[0])), Errno::NOENT);
    client.dma_unmap(0x10_0000, 0x2000).expect("unmap");
    assert_eq!(refused(client.region_write(region::BAR0, DOORBELL, &[0])), Errno::FAULT);
    client.reset().expect("reset");
    client.region_read(region::BAR0, 4, &mut data[..1]).expect("read");
    assert_eq!(data[0], 0);
    drop(client);
    let device = server.stop();
    assert_eq!((device.resets, device.windows.len()), (1, 0));
}

#[test]
fn what_the_device_or_the_checks_refuse_comes_back_as_errno_and_the_session_goes_on() {
    let server = Running::start();
    let mut client = server.client();
    let mut data = [0; 4];
    assert_eq!(refused(client.region_read(region::BAR0, FAILS, &mut data)), Errno::NXIO);
    assert_eq!(refused(client.region_write(region::BAR0, FAILS, &data)), Errno::NOSPC);
    client.region_write_posted(region::BAR0, FAILS, &data).expect("nobody learns");
    assert_eq!(refused(client.region_read(region::BAR0, common::BAR0 - 3, &mut data)), Errno::INVAL);
    assert_eq!(refused(client.region_read(region::BAR0, u64::MAX, &mut data)), Errno::INVAL);
    assert_eq!(refused(client.region_write(1, 0, &data)), Errno::INVAL);
    assert_eq!(refused(client.region_write(region::COUNT, 0, &data)), Errno::INVAL);
    assert_eq!(refused(client.region_info(region::COUNT)), Errno::INVAL);
    assert_eq!(refused(client.irq_info(irq::COUNT)), Errno::INVAL);
    let e = event();
    assert_eq!(refused(client.set_irq_eventfds(irq::MSIX, VECTORS, &[e.as_fd()])), Errno::INVAL);
    assert_eq!(refused(client.set_irq_eventfds(irq::MSIX, u32::MAX, &[e.as_fd()])), Errno::INVAL);
    assert_eq!(refused(client.set_irq_eventfds(0, 0, &[e.as_fd()])), Errno::INVAL);
    assert_eq!(refused(client.dma_map(u64::MAX, 4096, DmaFlags::READ, None)), Errno::INVAL);
    assert_eq!(refused(client.dma_map(0, 0, DmaFlags::READ, None)), Errno::INVAL);
    client.dma_map(0x1000, 0x1000, DmaFlags::READ, None).expect("a window without memory");
    assert_eq!(refused(client.dma_map(0, 0x2000, DmaFlags::READ, None)), Errno::EXIST);
    client.dma_unmap(0x10_0000, 0x1000).expect("a window that never was");
    client.dma_unmap(1 << 63, 1 << 63).expect("the upper half of the space, as QEMU does");
    assert_eq!(refused(client.dma_unmap(u64::MAX, 2)), Errno::INVAL);
    client.dma_map(0, 0x1000, DmaFlags::READ, None).expect("below the first");
    client.dma_unmap(0, u64::MAX).expect("everything");
    client.dma_map(0, 0x2000, DmaFlags::READ, None).expect("nothing is left in the way");
    let mut big = vec![0; (1 << 20) + 1];
    assert!(matches!(client.region_read(region::BAR0, 0, &mut big), Err(Error::Invalid(_))));
    client.region_read(region::BAR0, 0, &mut data).expect("still there");
    assert_eq!(server.stop().disconnects, 0);
}

#[test]
fn unknown_commands_are_drained_and_refused_and_no_reply_is_never_answered() {
    let server = Running::start();
    let mut socket = server.raw();
    hello(&mut socket);
    for (number, size) in [(6, 16), (11, 16), (14, 0), (15, 3000), (999, 3_000_000)] {
        let (header, body) = ask(&mut socket, number, number, &vec![0xa5; size]);
        assert_eq!((header.id, header.command, header.is_reply()), (number, number, true));
        let expected = if size > 1 << 20 { Errno::TOOBIG } else { Errno::NOTSUP };
        assert_eq!((header.failure(), body.len()), (Some(expected), 0), "command {number}");
    }
    // A second VERSION, a body that is too short, an answer to nothing.
    assert_eq!(ask(&mut socket, 1, command::VERSION, &[0, 0, 0, 0]).0.failure(), Some(Errno::INVAL));
    assert_eq!(ask(&mut socket, 2, command::DMA_MAP, &[0; 31]).0.failure(), Some(Errno::INVAL));
    let reply = Header::request(3, command::DEVICE_RESET, 0, false).reply(0);
    socket.write_all(&reply.encode()).expect("send");
    // Writes that want no answer: good, refused and unknown.
    for (offset, number) in [(0, command::REGION_WRITE), (FAILS, command::REGION_WRITE), (0, 77)] {
        let access = Access { offset, region: region::BAR0, count: 1 };
        let body = access.encode(&[9]);
        let header = Header::request(4, number, body.len(), true);
        socket.write_all(&[&header.encode()[..], &body].concat()).expect("send");
    }
    let read = Request::RegionRead(Access { offset: 0, region: region::BAR0, count: 1 });
    let (header, body) = ask(&mut socket, 5, read.command(), &read.encode());
    assert_eq!((header.id, header.failure(), body.last()), (5, None, Some(&9)));
    drop(socket);
    server.stop();
}

#[test]
fn a_session_without_agreement_on_the_version_ends() {
    let server = Running::start();
    let bad: [(u16, &[u8]); 5] = [
        (command::VERSION, &[]),
        (command::VERSION, &[1, 0, 0, 0]),
        (command::VERSION, b"\0\0\0\0{\"capabilities\":7}\0"),
        (command::DEVICE_GET_INFO, &[16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (500, &[]),
    ];
    for (number, body) in bad {
        let mut socket = server.raw();
        let (header, _) = ask(&mut socket, 0, number, body);
        assert!(header.failure().is_some(), "{number} {body:?}");
        ends(&mut socket);
    }
    let mut socket = server.raw();
    socket.write_all(&[0, 0, 1, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).expect("a size below the header's");
    ends(&mut socket);
    server.client().reset().expect("the next client is served");
    let device = server.stop();
    assert_eq!((device.calls, device.resets), (0, 1));
}

#[test]
fn a_hang_up_in_the_middle_of_a_message_ends_the_session_and_so_does_silence_there() {
    let server = Running::start();
    let whole = Header::request(1, command::DMA_MAP, 32, false).encode();
    for cut in [1, 8, 15, 16] {
        let mut socket = server.raw();
        hello(&mut socket);
        socket.write_all(&whole[..cut]).expect("send");
        drop(socket);
    }
    let mut silent = server.raw();
    hello(&mut silent);
    silent.write_all(&whole).expect("send");
    let start = Instant::now();
    ends(&mut silent);
    assert!(start.elapsed() >= Duration::from_millis(900), "the message time-out of 1 s ends it, not something else");
    // One that announces 4 GiB and keeps sending.
    let mut endless = server.raw();
    hello(&mut endless);
    endless.set_write_timeout(Some(SOON)).expect("time-out");
    let mut header = Header::request(1, 999, 0, false);
    header.size = u32::MAX;
    endless.write_all(&header.encode()).expect("send");
    let zeros = vec![0; 1 << 16];
    let mut sent = 0u64;
    while sent < u64::from(u32::MAX) && endless.write_all(&zeros).is_ok() {
        sent += zeros.len() as u64;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(sent < 1 << 30, "the time-out bounds a message that never pauses, too");
    // One that asks without end and reads nothing.
    let mut deaf = server.raw();
    hello(&mut deaf);
    deaf.set_write_timeout(Some(SOON)).expect("time-out");
    let read = Access { offset: 0, region: region::BAR0, count: common::BAR0 as u32 };
    let body = read.encode(&[]);
    let request = [&Header::request(0, command::REGION_READ, body.len(), false).encode()[..], &body].concat();
    while deaf.write_all(&request).is_ok() {}
    server.client().reset().expect("the next client is served");
    assert!(server.stop().disconnects >= 7);
}

#[test]
fn a_second_client_waits_for_the_first_to_leave() {
    let server = Running::start();
    let first = server.client();
    let start = Instant::now();
    let impatient = server.try_client(Duration::from_millis(100));
    assert!(matches!(impatient, Err(Error::Timeout { .. })));
    assert!(start.elapsed() < Duration::from_secs(5));
    let path = server.path.clone();
    let second = std::thread::spawn(move || Client::connect(path, SOON).and_then(|mut client| client.reset()));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!second.is_finished());
    drop(first);
    second.join().expect("thread").expect("served once the first is gone");
    server.stop();
}

#[test]
fn a_late_answer_is_thrown_away_and_the_client_stays_usable() {
    let server = Running::start();
    let mut client = server.client();
    client.region_write(region::BAR0, 0, &[7]).expect("write");
    client.set_timeout(Duration::from_millis(50));
    let mut data = [0];
    assert!(matches!(client.region_read(region::BAR0, SLOW, &mut data), Err(Error::Timeout { .. })));
    client.set_timeout(SOON);
    client.region_read(region::BAR0, 0, &mut data).expect("the next answer is its own");
    assert_eq!(data, [7]);
    server.stop();
}

/// A server that is played by the test: what the client makes of bad answers and of silence.
fn played(play: impl FnOnce(UnixStream) + Send + 'static) -> Result<Client, Error> {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    theirs.set_read_timeout(Some(SOON)).expect("time-out");
    std::thread::spawn(move || play(theirs));
    Client::from_stream(ours, Duration::from_secs(1))
}

fn request(socket: &mut UnixStream) -> Header {
    answer(socket).0 // same shape
}

fn welcome(socket: &mut UnixStream) {
    let header = request(socket);
    socket.write_all(&[&header.reply(4).encode()[..], &[0, 0, 0, 0]].concat()).expect("send");
    let header = request(socket);
    let mut info = [0; 16];
    (info[0], info[8], info[12]) = (16, 9, 5);
    socket.write_all(&[&header.reply(16).encode()[..], &info].concat()).expect("send");
}

#[test]
fn a_client_never_waits_for_ever() {
    let silent = |socket| {
        std::thread::sleep(Duration::from_secs(3));
        drop(socket);
    };
    assert!(matches!(played(silent), Err(Error::Timeout { .. })));
    assert!(matches!(played(drop), Err(Error::Disconnected)));
    // Half an answer, then silence or the end.
    let half = |wait: Duration| {
        move |mut socket: UnixStream| {
            welcome(&mut socket);
            let header = request(&mut socket);
            socket.write_all(&header.reply(20).encode()).expect("send");
            socket.write_all(&[0; 10]).expect("send");
            std::thread::sleep(wait);
        }
    };
    let mut client = played(half(Duration::from_secs(3))).expect("welcome");
    assert!(matches!(client.region_read(0, 0, &mut [0; 4]), Err(Error::Timeout { .. })));
    assert!(matches!(client.reset(), Err(Error::Disconnected)), "nothing that follows half an answer is trusted");
    let mut client = played(half(Duration::ZERO)).expect("welcome");
    assert!(matches!(client.region_read(0, 0, &mut [0; 4]), Err(Error::Disconnected)));
}

#[test]
fn a_client_takes_no_wrong_answer_for_its_own() {
    type Play = fn(Header) -> Vec<u8>;
    // Right but for one thing, with the data that a read of four octets brings.
    fn with_data(header: Header) -> Vec<u8> {
        [&header.encode()[..], &[0; 20]].concat()
    }
    let wrong: [Play; 5] = [
        |header| with_data(Header { id: header.id + 1, ..header.reply(20) }),
        |header| with_data(Header { command: 99, ..header.reply(20) }),
        |header| with_data(Header { flags: 2, ..header.reply(20) }),
        |header| Header { size: 3, ..header.reply(0) }.encode().to_vec(),
        |header| [&header.reply(18).encode()[..], &[0; 18]].concat(), // two octets where four were asked for
    ];
    for play in wrong {
        let mut client = played(move |mut socket| {
            welcome(&mut socket);
            let header = request(&mut socket);
            socket.write_all(&play(header)).expect("send");
            let _ = socket.read(&mut [0; 1]);
        })
        .expect("welcome");
        let result = client.region_read(0, 0, &mut [0; 4]);
        assert!(matches!(result, Err(Error::Protocol(_))), "{result:?}");
    }
    // A command from the device is refused, and the answer that follows it is taken.
    let mut client = played(|mut socket| {
        welcome(&mut socket);
        let header = request(&mut socket);
        let (refusal, _) = ask(&mut socket, 77, 11, &[0; 16]);
        assert_eq!((refusal.id, refusal.failure()), (77, Some(Errno::NOTSUP)));
        socket.write_all(&header.reply(0).encode()).expect("send");
    })
    .expect("welcome");
    client.reset().expect("reset");
}

#[test]
fn a_stepped_server_never_waits_and_stops() {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    let mut server = Server::from_stream(theirs).expect("server");
    let mut device = common::Recorder::default();
    assert_eq!(server.step(&mut device, Duration::ZERO).expect("step"), Step::Idle);
    let thread = std::thread::spawn(move || Client::from_stream(ours, SOON).and_then(|mut client| client.reset()));
    let mut steps = Vec::new();
    while steps.last() != Some(&Step::Disconnected) {
        steps.push(server.step(&mut device, SOON).expect("step"));
    }
    assert_eq!(steps, [Step::Served, Step::Served, Step::Served, Step::Disconnected]);
    thread.join().expect("thread").expect("client");
    server.stopper().stop();
    assert_eq!(server.step(&mut device, SOON).expect("step"), Step::Stopped);
    server.run(&mut device).expect("ends at once");
}

#[test]
fn a_dead_socket_file_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bind")); // leaves its file behind
    let server = Server::bind(&path).expect("replaced");
    assert!(matches!(Server::bind(&path), Err(Error::Io { .. })));
    assert!(path.exists());
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "not a socket").expect("file");
    assert!(Server::bind(&path).is_err());
    assert!(Server::bind(directory.path().join("x".repeat(200))).is_err());
    assert_eq!(std::fs::read(&path).expect("file"), b"not a socket");
}
