// SPDX-License-Identifier: MIT OR Apache-2.0
//! An attached adapter: rings in shared memory, verbs over them.
//!
//! Every verb has two forms. `post_*` writes the command, rings the doorbell and returns its [`Context`]; the reply comes from
//! [`Rnic::poll_event`] or [`Rnic::wait_event`]. The plain form posts, waits for its own reply and leaves other events for later.
use crate::{
    bus::{Bus, BusError},
    config::Config,
    device::{Device, DeviceInfo},
    dma::DmaMemory,
    error::Error,
    iova::IovaAllocator,
    l2::{buffer_octets, L2Counts, Queue, Received, RxRing, TxRing},
    pending::{Context, Event, Listener, Oddities, Op, Tracker},
    ring::{ring_octets, CommandRing, EventRing},
};
use ironwarp_abi::{irq, l2::DESCRIPTOR_OCTETS, reg, Command, Counter, Handle, Opcode, VECTORS};
use rand::TryRngCore;
use std::{net::Ipv4Addr, os::fd::BorrowedFd, sync::Arc, time::Duration};

/// Longest sleep before the adapter's STATUS is looked at again.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);
/// Pause between two looks at a ring when interrupts are off.
const POLL_PAUSE: Duration = Duration::from_micros(20);
/// Looks at a ring between two looks at STATUS when interrupts are off.
const POLLS_PER_HEALTH_CHECK: u32 = 1024;
/// Bound of the reset at detach.
const DETACH_TIMEOUT: Duration = Duration::from_secs(2);

/// Device and what is mapped for it; dropping it stops the adapter first, then takes its memory away.
struct Attachment<B: Bus> {
    device: Device<B>,
    iova: IovaAllocator,
    mapped: Vec<(u64, Arc<DmaMemory>)>,
}

impl<B: Bus> Attachment<B> {
    /// New zeroed memory that the adapter reaches at the address returned.
    fn memory(&mut self, octets: usize) -> Result<(u64, Arc<DmaMemory>), Error> {
        let memory = Arc::new(DmaMemory::new(octets)?);
        let iova = self
            .iova
            .allocate(memory.len() as u64)
            .ok_or_else(|| Error::Config("no room left in the adapter's address space; use smaller rings".into()))?;
        if let Err(e) = self.device.bus.map(iova, &memory) {
            self.iova.free(iova);
            return Err(e.into());
        }
        self.mapped.push((iova, memory.clone()));
        Ok((iova, memory))
    }
}

impl<B: Bus> Drop for Attachment<B> {
    fn drop(&mut self) {
        if let Err(e) = self.device.reset(DETACH_TIMEOUT) {
            tracing::debug!("reset at detach: {e}");
            if let Err(e) = self.device.bus.reset() {
                tracing::debug!("function level reset at detach: {e}");
            }
        }
        for (iova, memory) in self.mapped.drain(..) {
            if let Err(e) = self.device.bus.unmap(iova, memory.len() as u64) {
                tracing::debug!("unmap at detach: {e}");
            }
        }
    }
}

/// An attached adapter. Dropping it resets the adapter and unmaps its memory.
pub struct Rnic<B: Bus = Box<dyn Bus>> {
    attachment: Attachment<B>,
    config: Config,
    max_listeners: u16,
    commands: CommandRing,
    events: EventRing,
    rx: RxRing,
    tx: TxRing,
    l2: L2Counts,
    tracker: Tracker,
}

impl<B: Bus> Rnic<B> {
    /// Checks that an adapter is there, resets it, gives it rings and settings, and starts it.
    pub fn attach(bus: B, config: Config) -> Result<Self, Error> {
        let mut attachment = Attachment { device: Device::open(bus)?, iova: IovaAllocator::default(), mapped: Vec::new() };
        attachment.device.reset(config.reset_timeout)?;
        let info = attachment.device.info()?;
        config.check(&info)?;
        check_register_path(&mut attachment.device)?;

        let (cmd_iova, cmd) = attachment.memory(ring_octets(config.cmd_log2))?;
        let (evt_iova, evt) = attachment.memory(ring_octets(config.evt_log2))?;
        let (rx_iova, rx) = l2_queue(&mut attachment, config.l2rx_log2, config.mtu)?;
        let (tx_iova, tx) = l2_queue(&mut attachment, config.l2tx_log2, config.mtu)?;
        let random = match config.random {
            Some(seed) => seed,
            None => rand::rngs::OsRng.try_next_u32().map_err(|e| Error::Memory(std::io::Error::other(e)))?,
        };
        let device = &mut attachment.device;
        let timebase = match config.timebase {
            Some(timebase) => Some(timebase),
            None => device.bus.clocks_per_second()?.map(ironwarp_abi::pci::timebase),
        };
        for (base, log2, iova, entries_log2) in [
            (reg::CMD_BASE_LO, reg::CMD_LOG2, cmd_iova, config.cmd_log2),
            (reg::EVT_BASE_LO, reg::EVT_LOG2, evt_iova, config.evt_log2),
            (reg::L2RX_BASE_LO, reg::L2RX_LOG2, rx_iova, config.l2rx_log2),
            (reg::L2TX_BASE_LO, reg::L2TX_LOG2, tx_iova, config.l2tx_log2),
        ] {
            device.write64(base, iova)?;
            device.write(log2, entries_log2)?;
        }
        device.write64(reg::MAC_LO, config.mac.to_bits())?;
        device.write(reg::MTU, config.mtu)?;
        device.write(reg::PORT_RANGE, u32::from(config.port_range.0) | u32::from(config.port_range.1) << 16)?;
        device.write(reg::RANDOM, random)?;
        device.write(reg::L2_CONTROL, config.l2_control())?;
        for (offset, value) in [
            (reg::TIMEBASE, timebase),
            (reg::ARP_TIMEOUT, config.arp_timeout_us),
            (reg::ARP_RETRY, config.arp_retry_us),
            (reg::ICMP_RATE, config.icmp_rate_us),
            (reg::IP_TTL, config.ip_ttl.map(u32::from)),
        ] {
            if let Some(value) = value {
                device.write(offset, value)?;
            }
        }
        device.write(reg::IRQ_ACK, u32::MAX)?;
        device.write(reg::IRQ_MASK, if config.interrupts { (1 << VECTORS) - 1 } else { 0 })?;
        device.write(reg::CONTROL, reg::control::ENABLE)?;
        device.check_health(false)?;
        let mut rnic = Rnic {
            commands: CommandRing::new(cmd, config.cmd_log2),
            events: EventRing::new(evt, config.evt_log2),
            rx: RxRing::new(rx),
            tx: TxRing::new(tx, config.mtu),
            l2: L2Counts::default(),
            tracker: Tracker::default(),
            max_listeners: info.max_listeners,
            attachment,
            config,
        };
        rnic.rx.fill(&mut rnic.attachment.device)?;
        tracing::debug!(location = %info.location, mac = %rnic.config.mac, "attached");
        Ok(rnic)
    }

    /// The adapter's registers: who it is, what it counts.
    pub fn device(&mut self) -> &mut Device<B> {
        &mut self.attachment.device
    }
    /// What the adapter is and how it is set up.
    pub fn devinfo(&mut self) -> Result<DeviceInfo, BusError> {
        self.attachment.device.info()
    }
    /// The adapter's counters.
    pub fn stats(&mut self) -> Result<Vec<(Counter, u64)>, BusError> {
        self.attachment.device.stats()
    }
    /// What the driver saw that should not have come.
    pub fn oddities(&self) -> Oddities {
        self.tracker.oddities
    }
    /// What became of L2 frames.
    pub fn l2_counts(&mut self) -> L2Counts {
        self.tx.reclaim(&mut self.l2);
        self.l2
    }
    /// Settings of this attach.
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Commands without reply.
    pub fn outstanding(&self) -> usize {
        self.tracker.outstanding()
    }
    /// Live listeners.
    pub fn listeners(&self) -> usize {
        self.tracker.listeners()
    }

    // ---- posting

    /// Posts any command; its context is set here. For self tests: the other verbs check more.
    pub fn post_raw(&mut self, mut command: Command) -> Result<Context, Error> {
        if !self.commands.has_room(&mut self.attachment.device)? {
            return Err(Error::CommandRingFull);
        }
        let context = self.tracker.allocate();
        command.context = context.0;
        self.tracker.posted(command);
        if let Err(e) = self.commands.push(&mut self.attachment.device, &command) {
            self.tracker.withdraw(context);
            return Err(e.into());
        }
        Ok(context)
    }
    /// Posts NOP.
    pub fn post_nop(&mut self) -> Result<Context, Error> {
        self.post_raw(command(Opcode::Nop))
    }
    /// Posts LISTEN; see [`Rnic::create_listen`].
    pub fn post_listen(&mut self, address: Ipv4Addr, port: u16, backlog: u16) -> Result<Context, Error> {
        self.post_raw(Command {
            local_addr: address.into(),
            local_port: port,
            backlog_half_open: backlog,
            backlog_accept: backlog,
            ..command(Opcode::Listen)
        })
    }
    /// Posts UNLISTEN for a live listener, which no verb can use any more.
    pub fn post_unlisten(&mut self, listener: &Listener) -> Result<Context, Error> {
        if !self.tracker.close(listener.handle) {
            return Err(Error::StaleHandle);
        }
        let posted = self.post_raw(Command { handle: listener.handle, ..command(Opcode::Unlisten) });
        if posted.is_err() {
            self.tracker.reopen(listener.handle);
        }
        posted
    }
    fn post_ports(&mut self, opcode: Opcode, first: u16, last: u16) -> Result<Context, Error> {
        if first == 0 || first > last {
            return Err(Error::Config(format!("ports {first}..={last} are no range; give first <= last, and not port 0")));
        }
        self.post_raw(Command { local_port: first, remote_port: last, ..command(opcode) })
    }
    /// Posts RESERVE.
    pub fn post_reserve(&mut self, first: u16, last: u16) -> Result<Context, Error> {
        self.post_ports(Opcode::Reserve, first, last)
    }
    /// Posts UNRESERVE.
    pub fn post_unreserve(&mut self, first: u16, last: u16) -> Result<Context, Error> {
        self.post_ports(Opcode::Unreserve, first, last)
    }
    /// Posts ADDRESS_ADD; `prefix` is the length of the mask, 0..=32.
    pub fn post_address_add(&mut self, address: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> Result<Context, Error> {
        if prefix > 32 {
            return Err(Error::Config(format!("prefix length {prefix} is more than 32")));
        }
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        self.post_raw(Command {
            local_addr: address.into(),
            remote_addr: mask,
            gateway: gateway.map_or(0, u32::from),
            ..command(Opcode::AddressAdd)
        })
    }
    /// Posts ADDRESS_DELETE.
    pub fn post_address_delete(&mut self, address: Ipv4Addr) -> Result<Context, Error> {
        self.post_raw(Command { local_addr: address.into(), ..command(Opcode::AddressDelete) })
    }

    // ---- events

    /// The next event, if there is one; never waits.
    pub fn poll_event(&mut self) -> Result<Option<Event>, Error> {
        self.drain()?;
        Ok(self.tracker.take_next())
    }
    /// The next event; none after `timeout` (wall time on sockets and cards, adapter time in the in-process model).
    pub fn wait_event(&mut self, timeout: Duration) -> Result<Option<Event>, Error> {
        self.wait_until(timeout, |rnic| Ok(rnic.tracker.take_next()))
    }
    /// The reply to one command; other events stay for later. None after `timeout`; the reply may still come.
    pub fn wait_reply(&mut self, context: Context, timeout: Duration) -> Result<Option<Event>, Error> {
        self.wait_until(timeout, |rnic| Ok(rnic.tracker.take(context)))
    }
    /// Gives up waiting: when the reply comes it is thrown away, and a listener that it brings is destroyed.
    pub fn abandon(&mut self, context: Context) {
        self.tracker.abandon(context);
    }
    /// File descriptor that becomes readable when `cause` (of `ironwarp_abi::irq`) is raised; none in the in-process model.
    /// After it was readable: [`Rnic::clear`], then look at the ring.
    pub fn cause_fd(&self, cause: u32) -> Option<BorrowedFd<'_>> {
        self.attachment.device.bus.vector_fd(cause)
    }
    /// Takes back raised causes (bit n = cause n), so that the next one raises again. Look at the rings after it, not before.
    pub fn clear(&mut self, causes: u32) -> Result<(), Error> {
        self.wait_causes(causes, Duration::ZERO).map(drop)
    }
    /// Waits until one of `causes` was raised, and clears it; 0 after `timeout`.
    pub fn wait_causes(&mut self, causes: u32, timeout: Duration) -> Result<u32, Error> {
        let raised = self.attachment.device.bus.wait(causes, timeout)? & causes;
        if raised != 0 {
            self.attachment.device.write(reg::IRQ_ACK, raised)?;
        }
        Ok(raised)
    }

    fn drain(&mut self) -> Result<(), Error> {
        for _ in 0..self.events.entries() {
            let Some(raw) = self.events.pop() else { break };
            self.tracker.accept(&raw, self.max_listeners);
        }
        self.events.release(&mut self.attachment.device)?;
        while let Some(handle) = self.tracker.orphans.pop() {
            match self.post_raw(Command { handle, ..command(Opcode::Unlisten) }) {
                Ok(context) => {
                    self.tracker.close(handle);
                    self.tracker.abandon(context);
                }
                Err(e) => {
                    // the next drain tries again
                    self.tracker.orphans.push(handle);
                    return if matches!(e, Error::CommandRingFull) { Ok(()) } else { Err(e) };
                }
            }
        }
        Ok(())
    }

    /// Looks, sleeps, looks again, until `ready` has something or `timeout` has passed.
    fn wait_until<T>(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let deadline = self.attachment.device.bus.now() + timeout;
        let mut polls = 0u32;
        loop {
            self.drain()?;
            if let Some(found) = ready(self)? {
                return Ok(Some(found));
            }
            let now = self.attachment.device.bus.now();
            if now >= deadline {
                self.attachment.device.check_health(true)?;
                return Ok(None);
            }
            if self.config.interrupts {
                if self.wait_causes(1 << irq::EVENT, HEALTH_INTERVAL.min(deadline - now))? == 0 {
                    self.attachment.device.check_health(false)?;
                }
            } else {
                self.attachment.device.bus.wait(0, POLL_PAUSE.min(deadline - now))?;
                polls += 1;
                if polls & (POLLS_PER_HEALTH_CHECK - 1) == 0 {
                    self.attachment.device.check_health(false)?;
                }
            }
        }
    }

    // ---- verbs that wait

    /// Posts as soon as there is room, and waits for the reply, both bounded by `command_timeout`.
    fn call(&mut self, opcode: Opcode, mut post: impl FnMut(&mut Self) -> Result<Context, Error>) -> Result<Event, Error> {
        let timeout = self.config.command_timeout;
        let op = Op::from(opcode);
        let posted = self.wait_until(timeout, |rnic| match post(rnic) {
            Ok(context) => Ok(Some(context)),
            Err(Error::CommandRingFull) => Ok(None),
            Err(e) => Err(e),
        })?;
        let context = posted.ok_or(Error::Timeout { opcode: op, after: timeout })?;
        match self.wait_reply(context, timeout) {
            Ok(Some(Event::Refused { opcode, refusal, .. })) => Err(Error::Refused { opcode, refusal }),
            Ok(Some(Event::BadReply { opcode, what, .. })) => Err(Error::BadReply { opcode, what }),
            Ok(Some(event)) => Ok(event),
            Ok(None) => {
                self.abandon(context);
                Err(Error::Timeout { opcode: op, after: timeout })
            }
            Err(e) => {
                self.abandon(context);
                Err(e)
            }
        }
    }
    /// Asks the adapter to do nothing and answer.
    pub fn nop(&mut self) -> Result<(), Error> {
        self.call(Opcode::Nop, Self::post_nop).map(drop)
    }
    /// Listens at `address` (0.0.0.0 = any) and `port` (0 = the adapter chooses). `backlog` bounds both half-open connections and
    /// those that wait for accept. The result is final: it is the adapter's LISTEN_REPLY, and an error leaves nothing behind.
    pub fn create_listen(&mut self, address: Ipv4Addr, port: u16, backlog: u16) -> Result<Listener, Error> {
        match self.call(Opcode::Listen, |rnic| rnic.post_listen(address, port, backlog))? {
            Event::Listening { listener, .. } => Ok(listener),
            _ => Err(Error::BadReply { opcode: Opcode::Listen.into(), what: "no listener in it" }),
        }
    }
    /// Ends a listener; on return its handle is FREED and its port given back.
    pub fn destroy_listen(&mut self, listener: Listener) -> Result<(), Error> {
        self.call(Opcode::Unlisten, |rnic| rnic.post_unlisten(&listener)).map(drop)
    }
    /// Keeps the ports `first..=last` for the host's own stack; all or none. Ports reserved already are no error.
    pub fn reserve_ports(&mut self, first: u16, last: u16) -> Result<(), Error> {
        self.call(Opcode::Reserve, |rnic| rnic.post_reserve(first, last)).map(drop)
    }
    /// Gives reserved ports back.
    pub fn unreserve_ports(&mut self, first: u16, last: u16) -> Result<(), Error> {
        self.call(Opcode::Unreserve, |rnic| rnic.post_unreserve(first, last)).map(drop)
    }
    /// Gives the adapter an address, the length of its mask, and the next hop for destinations beyond it.
    pub fn address_add(&mut self, address: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> Result<(), Error> {
        self.call(Opcode::AddressAdd, |rnic| rnic.post_address_add(address, prefix, gateway)).map(drop)
    }
    /// Takes an address away. Listeners on it stay, but hear nothing.
    pub fn address_delete(&mut self, address: Ipv4Addr) -> Result<(), Error> {
        self.call(Opcode::AddressDelete, |rnic| rnic.post_address_delete(address)).map(drop)
    }
    /// Posts any command and waits for its event, refusals included. For self tests.
    pub fn call_raw(&mut self, command: Command) -> Result<Event, Error> {
        let timeout = self.config.command_timeout;
        let context = self.post_raw(command)?;
        self.wait_reply(context, timeout)?.ok_or_else(|| {
            self.tracker.abandon(context);
            Error::Timeout { opcode: Op(command.opcode), after: timeout }
        })
    }

    // ---- L2 queue

    /// Sends a frame without FCS. With `resolve` the adapter fills in both MAC addresses, asking for the next hop's by ARP.
    pub fn send(&mut self, frame: &[u8], resolve: bool) -> Result<(), Error> {
        self.tx.push(&mut self.attachment.device, &mut self.l2, frame, resolve)
    }
    /// Sends as [`Rnic::send`], waiting up to `timeout` for a free descriptor.
    pub fn send_wait(&mut self, frame: &[u8], resolve: bool, timeout: Duration) -> Result<(), Error> {
        let deadline = self.attachment.device.bus.now() + timeout;
        loop {
            match self.send(frame, resolve) {
                Err(Error::TransmitRingFull) if self.attachment.device.bus.now() < deadline => {
                    self.attachment.device.bus.wait(0, POLL_PAUSE)?;
                }
                result => return result,
            }
        }
    }
    /// Frames given to the adapter and not yet completed.
    pub fn sends_outstanding(&mut self) -> u16 {
        self.tx.reclaim(&mut self.l2);
        self.tx.outstanding()
    }
    /// Takes the next frame for the host into `frame`, replacing what is there; never waits.
    pub fn recv(&mut self, frame: &mut Vec<u8>) -> Result<Option<Received>, Error> {
        Ok(self.rx.pop(&mut self.attachment.device, &mut self.l2, frame)?)
    }
    /// Takes the next frame for the host; none after `timeout`.
    pub fn recv_wait(&mut self, frame: &mut Vec<u8>, timeout: Duration) -> Result<Option<Received>, Error> {
        let deadline = self.attachment.device.bus.now() + timeout;
        loop {
            if let Some(received) = self.recv(frame)? {
                return Ok(Some(received));
            }
            let now = self.attachment.device.bus.now();
            if now >= deadline {
                return Ok(None);
            }
            if !self.config.interrupts {
                self.attachment.device.bus.wait(0, POLL_PAUSE.min(deadline - now))?;
            } else if self.wait_causes(1 << irq::L2_RX, HEALTH_INTERVAL.min(deadline - now))? == 0 {
                self.attachment.device.check_health(false)?;
            }
        }
    }
}

fn command(opcode: Opcode) -> Command {
    Command { opcode: opcode as u8, handle: Handle::NONE, ..Command::default() }
}

fn check_register_path<B: Bus>(device: &mut Device<B>) -> Result<(), Error> {
    for written in [0x5aa5_0ff0, 0xa55a_f00f, 0] {
        device.write(reg::SCRATCH, written)?;
        let read = device.read(reg::SCRATCH)?;
        if read != written {
            return Err(Error::RegisterPath { written, read });
        }
    }
    Ok(())
}

fn l2_queue<B: Bus>(attachment: &mut Attachment<B>, log2: u32, mtu: u32) -> Result<(u64, Queue), Error> {
    let entries = 1u16 << log2;
    let buffer_octets = buffer_octets(mtu);
    let (iova, descriptors) = attachment.memory(DESCRIPTOR_OCTETS << log2)?;
    let (buffers_iova, buffers) = attachment.memory(usize::from(entries) * buffer_octets)?;
    Ok((iova, Queue { descriptors, buffers, buffers_iova, buffer_octets, entries }))
}

impl<B: Bus> std::fmt::Debug for Rnic<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rnic").field("at", &self.attachment.device.bus.describe()).field("outstanding", &self.outstanding()).finish()
    }
}
