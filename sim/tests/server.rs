// SPDX-License-Identifier: MIT OR Apache-2.0
//! The vfio-user server: the Verilated core's registers, and a scripted core for DMA and interrupts, through real sockets.
mod common;
use common::{Copier, DONE, GO, LENGTH, SOURCE, TARGET};
use ironwarp_abi::{pci, reg, MAGIC, MSIX_PBA, MSIX_TABLE, PCI_DEVICE, PCI_VENDOR};
use ironwarp_rnic::DmaMemory;
use ironwarp_sim::{
    server::{Pace, ServerError},
    Adapter, AdapterConfig, DmaConfig, Latency, SimServer, World,
};
use ironwarp_vfio_user::{irq, region, Client, DmaFlags, Errno, Error};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

const BOUND: Duration = Duration::from_secs(20);
const IOVA: u32 = 0x1000_0000;

struct Served {
    server: SimServer,
    sockets: Vec<PathBuf>,
    _directory: tempfile::TempDir,
}

fn serve(world: World, pace: Pace) -> Served {
    let directory = tempfile::tempdir().expect("directory");
    let sockets: Vec<_> = (0..world.adapters().len()).map(|n| directory.path().join(format!("{n}.sock"))).collect();
    let paths: Vec<_> = sockets.iter().map(PathBuf::as_path).collect();
    let server = SimServer::start(world, &paths, pace).expect("served");
    Served { server, sockets, _directory: directory }
}

fn copier(dma: DmaConfig) -> World {
    let mut world = World::new(0);
    world.insert(Adapter::with_core(&AdapterConfig { dma, ..AdapterConfig::new("copier", 1) }, Box::<Copier>::default()));
    world
}

impl Served {
    /// A client that has turned bus mastering on.
    fn client(&self, n: usize) -> Client {
        let mut client = Client::connect(&self.sockets[n], BOUND).expect("connected");
        bus_master(&mut client, true);
        client
    }
}

fn read32(client: &mut Client, offset: u32) -> u32 {
    let mut word = [0; 4];
    client.region_read(region::BAR0, offset.into(), &mut word).expect("read");
    u32::from_le_bytes(word)
}

fn write32(client: &mut Client, offset: u32, value: u32) {
    client.region_write(region::BAR0, offset.into(), &value.to_le_bytes()).expect("written");
}

fn bus_master(client: &mut Client, on: bool) {
    client.region_write(region::CONFIG, 4, &[2 | u8::from(on) << 2, 0]).expect("command register");
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK).expect("eventfd")
}

/// Events counted within `bound`.
fn wait(event: &OwnedFd, bound: Duration) -> u64 {
    let mut fds = [PollFd::new(event, PollFlags::IN)];
    let bound = Timespec { tv_sec: bound.as_secs() as i64, tv_nsec: i64::from(bound.subsec_nanos()) };
    poll(&mut fds, Some(&bound)).expect("poll");
    let mut count = [0; 8];
    rustix::io::read(event, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}

/// Has the copier copy, and waits for vector 2.
fn copy(client: &mut Client, event: &OwnedFd, source: u32, target: u32, len: u32) -> u32 {
    for (offset, value) in [(SOURCE, source), (TARGET, target), (LENGTH, len), (GO, 1)] {
        write32(client, offset, value);
    }
    assert_eq!(wait(event, BOUND), 1, "interrupt");
    read32(client, DONE)
}

#[test]
fn two_verilated_adapters_are_reached_through_their_sockets() {
    let served = serve(World::pair(1, 0, 0), Pace::Free);
    let (mut a, mut b) = (served.client(0), served.client(1));
    for client in [&mut a, &mut b] {
        assert_eq!(read32(client, reg::MAGIC), MAGIC);
        let mut config = [0; 256];
        client.region_read(region::CONFIG, 0, &mut config).expect("config");
        assert_eq!(config[..4], [PCI_VENDOR.to_le_bytes(), PCI_DEVICE.to_le_bytes()].concat());
        assert_eq!(pci::clocks_per_second(&config), Some(served.server.clocks_per_second()));
        assert_eq!(client.region_info(region::BAR0).expect("info").size, 0x1_0000);
        assert_eq!(client.irq_info(irq::MSIX).expect("info").count, 4);
    }
    drop((a, b));
    served.server.stop().assert_clean();
}

#[test]
fn dma_and_interrupts_go_through_the_clients_memory_and_eventfds() {
    for latency in [0, 300] {
        let dma = DmaConfig { read_latency: Latency::Fixed(latency), write_latency: Latency::Fixed(latency), ..Default::default() };
        let served = serve(copier(dma), Pace::Free);
        let (mut client, vector) = (served.client(0), event());
        let memory = DmaMemory::new(1 << 16).expect("memfd");
        let all = DmaFlags::READ | DmaFlags::WRITE;
        client.dma_map(IOVA.into(), 1 << 16, all, Some((memory.file().as_fd(), 0))).expect("mapped");
        client.set_irq_eventfds(irq::MSIX, 2, &[vector.as_fd()]).expect("connected");
        memory.write(3, b"through the socket");
        assert_eq!(copy(&mut client, &vector, IOVA + 3, IOVA + 0x8005, 18), 1);
        let mut copied = [0; 18];
        memory.read(0x8005, &mut copied);
        assert_eq!(&copied, b"through the socket");
        // no bus mastering, read-only memory, then none
        bus_master(&mut client, false);
        assert_eq!(copy(&mut client, &vector, IOVA, IOVA, 8) >> 16, 2);
        bus_master(&mut client, true);
        client.dma_unmap(IOVA.into(), 1 << 16).expect("unmapped");
        client.dma_map(IOVA.into(), 1 << 16, DmaFlags::READ, Some((memory.file().as_fd(), 0))).expect("mapped");
        assert_eq!(copy(&mut client, &vector, IOVA, IOVA, 8) >> 16, 3);
        client.dma_unmap(IOVA.into(), 1 << 16).expect("unmapped");
        assert_eq!(copy(&mut client, &vector, IOVA, IOVA, 8) >> 16, 5);
        drop(client);
        let mut world = served.server.stop();
        assert_eq!(world.adapter_mut(0).take_dma_faults().len(), 5);
        world.assert_clean();
    }
}

#[test]
fn windows_are_checked_and_the_session_goes_on() {
    let served = serve(copier(DmaConfig::default()), Pace::Free);
    let mut client = served.client(0);
    let memory = DmaMemory::new(8192).expect("memfd");
    let all = DmaFlags::READ | DmaFlags::WRITE;
    let refused = |result: Result<(), Error>, errno: Errno| {
        assert!(matches!(&result, Err(Error::Refused { errno: e, .. }) if *e == errno), "{result:?}")
    };
    client.dma_map(0x1000, 8192, all, Some((memory.file().as_fd(), 0))).expect("mapped");
    refused(client.dma_map(0x2000, 4096, all, Some((memory.file().as_fd(), 0))), Errno::EXIST);
    refused(client.dma_map(0x8000, 4096, all, Some((memory.file().as_fd(), 8192))), Errno::INVAL);
    client.dma_map(0x10_0000, 4096, all, None).expect("a window without a file");
    client.dma_unmap(0x4000_0000, 4096).expect("nothing there");
    client.dma_unmap(0, 0x1000_0000).expect("many at once");
    client.dma_map(0x2000, 4096, all, Some((memory.file().as_fd(), 0))).expect("free again");
    // odd accesses read 0, and the MSI-X table is memory
    let mut octets = [0xaa; 3];
    client.region_read(region::BAR0, 1, &mut octets).expect("read");
    assert_eq!(octets, [0; 3]);
    client.region_write(region::BAR0, 2, &[1, 2]).expect("ignored");
    write32(&mut client, MSIX_TABLE + 12, 1);
    assert_eq!(read32(&mut client, MSIX_TABLE + 12), 1);
    assert_eq!(read32(&mut client, 0xfffc), 0);
}

#[test]
fn an_interrupt_without_an_eventfd_is_pending_and_comes_when_there_is_one() {
    let served = serve(copier(DmaConfig::default()), Pace::Free);
    let (mut client, vector) = (served.client(0), event());
    write32(&mut client, GO, 1);
    let end = Instant::now() + BOUND;
    while read32(&mut client, MSIX_PBA) != 0b100 {
        assert!(Instant::now() < end, "pending bit");
    }
    client.set_irq_eventfds(irq::MSIX, 2, &[vector.as_fd()]).expect("connected");
    assert_eq!(wait(&vector, BOUND), 1);
    assert_eq!(read32(&mut client, MSIX_PBA), 0);
    client.disable_irqs(irq::MSIX).expect("off");
    write32(&mut client, GO, 1);
    assert_eq!(wait(&vector, Duration::from_millis(50)), 0);
}

#[test]
fn both_resets_reach_the_core_and_a_new_client_finds_it_fresh() {
    let served = serve(copier(DmaConfig::default()), Pace::Free);
    let mut client = served.client(0);
    write32(&mut client, SOURCE, 7);
    client.reset().expect("device reset");
    assert_eq!(read32(&mut client, SOURCE), 0);
    write32(&mut client, SOURCE, 7);
    client.region_write(region::CONFIG, 0x68, &0x8000_u16.to_le_bytes()).expect("function level reset");
    assert_eq!(read32(&mut client, SOURCE), 0);
    let memory = DmaMemory::new(4096).expect("memfd");
    client.dma_map(0x1000, 4096, DmaFlags::READ, Some((memory.file().as_fd(), 0))).expect("mapped");
    write32(&mut client, SOURCE, 7);
    drop(client);
    let mut client = served.client(0);
    assert_eq!(read32(&mut client, SOURCE), 0);
    client.dma_map(0x1000, 4096, DmaFlags::READ, Some((memory.file().as_fd(), 0))).expect("the window of the last client is gone");
    served.server.stop();
}

#[test]
fn posted_writes_are_carried_out_in_order_before_a_read() {
    let served = serve(copier(DmaConfig::default()), Pace::Free);
    let mut client = served.client(0);
    for value in 0..2000_u32 {
        client.region_write_posted(region::BAR0, SOURCE.into(), &value.to_le_bytes()).expect("posted");
    }
    assert_eq!(read32(&mut client, SOURCE), 1999);
}

#[test]
fn the_wall_pace_is_kept_and_little_of_the_machine_is_used_without_work() {
    let served = serve(copier(DmaConfig::default()), Pace::Wall { rate: 50_000 });
    let mut client = served.client(0);
    read32(&mut client, SOURCE);
    let (start, first, ran) = (Instant::now(), served.server.cycles(), served.server.speed());
    std::thread::sleep(Duration::from_secs(1));
    let rate = (served.server.cycles() - first) as f64 / start.elapsed().as_secs_f64();
    assert!((30_000.0..60_000.0).contains(&rate), "{rate} cycles a second");
    println!("full speed {ran:.0} cycles a second");
    assert_eq!(read32(&mut client, SOURCE), 0);
}

#[test]
fn an_interface_that_cannot_be_served_is_an_error() {
    let started = SimServer::start(copier(DmaConfig::default()), &["/nowhere/x.sock".as_ref()], Pace::Free);
    assert!(matches!(started, Err(ServerError::Socket(_))));
    let started = SimServer::start(World::new(0), &["/nowhere/x.sock".as_ref()], Pace::Free);
    assert!(matches!(started, Err(ServerError::Sockets { .. })));
}
