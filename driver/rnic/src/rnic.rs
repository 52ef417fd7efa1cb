// SPDX-License-Identifier: MIT OR Apache-2.0
//! An attached adapter: rings in shared memory, verbs over them.
//!
//! Every verb has two forms. `post_*` writes the command, rings the doorbell and returns its [`Context`]; the reply comes from
//! [`Rnic::poll_event`] or [`Rnic::wait_event`]. The plain form posts, waits for its own reply and leaves other events for later.
use crate::{
    bus::{Bus, BusError},
    config::Config,
    connection::{check_private_data, check_tos, AcceptParam, Backlog, ConnectParam, Connection, ConnectionState, PRIVATE_DATA_MAX},
    device::{Device, DeviceInfo},
    dma::DmaMemory,
    error::{Error, Refusal},
    iova::IovaAllocator,
    l2::{buffer_octets, L2Counts, Queue, Received, RxRing, TxRing},
    live::ConnectionRow,
    pending::{Context, Event, Listener, Oddities, Op, Tracker},
    private_data::{PrivateData, Slot},
    ring::{ring_octets, CommandRing, EventRing},
    rule::Rule,
};
use ironwarp_abi::{irq, l2::DESCRIPTOR_OCTETS, reg, Command, Counter, Handle, HandleKind, Opcode, VECTORS};
use rand::{rngs::StdRng, RngCore, SeedableRng, TryRngCore};
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
    fn release(&mut self, iova: u64) -> Result<(), Error> {
        let at = self.mapped.iter().position(|(mapped, _)| *mapped == iova);
        let (_, memory) =
            at.map(|at| self.mapped.swap_remove(at)).ok_or_else(|| Error::Config(format!("nothing is shared at {iova:#x}")))?;
        self.device.bus.unmap(iova, memory.len() as u64)?;
        self.iova.free(iova);
        Ok(())
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
        let mut tracker = Tracker::default();
        tracker.connections.max = info.max_connections;
        let inbound_iova = match info.max_connections {
            0 => None,
            connections => {
                let (inbound_iova, inbound) = attachment.memory(usize::from(connections) * PRIVATE_DATA_MAX)?;
                // one for each connection, and as many commands that are not answered yet
                let slots = connections.saturating_add(1 << config.cmd_log2);
                let (iova, outbound) = attachment.memory(usize::from(slots) * PRIVATE_DATA_MAX)?;
                tracker.connections.memory = Some(PrivateData::new(inbound, outbound, iova, slots));
                Some(inbound_iova)
            }
        };
        let (random, isn_key) = secrets(config.random)?;
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
        for (offset, word) in [reg::ISN_KEY0, reg::ISN_KEY1, reg::ISN_KEY2, reg::ISN_KEY3].into_iter().zip(isn_key) {
            device.write(offset, word)?;
        }
        if let Some(iova) = inbound_iova {
            device.write64(reg::PDATA_BASE_LO, iova)?;
        }
        for (offset, value) in config.tcp.registers() {
            device.write(offset, value)?;
        }
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
            tracker,
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
    /// The live listeners.
    pub fn listener_rows(&self) -> Vec<Listener> {
        self.tracker.listener_rows()
    }
    /// Connections whose handles are not yet freed.
    pub fn connections(&self) -> usize {
        self.tracker.connections.len()
    }
    /// The connections whose handles are not yet freed.
    pub fn connection_rows(&self) -> Vec<ConnectionRow> {
        self.tracker.connections.rows()
    }
    /// Own addresses.
    pub fn addresses(&self) -> Vec<Ipv4Addr> {
        self.tracker.addresses()
    }
    /// Ports that the host keeps: first and last of each range.
    pub fn reserved_ports(&self) -> Vec<(u16, u16)> {
        self.tracker.ports.ranges()
    }
    /// Buffers of private data that no connection uses.
    pub fn private_data_buffers_free(&self) -> usize {
        self.tracker.connections.memory.as_ref().map_or(0, PrivateData::free)
    }

    /// New zeroed memory of at least `octets` that the adapter reaches at the address returned, until [`Rnic::unshare`] or the end.
    pub fn share(&mut self, octets: usize) -> Result<(u64, Arc<DmaMemory>), Error> {
        self.attachment.memory(octets)
    }
    /// Takes the memory at `iova` back: the adapter reaches it no more. What uses it must be destroyed before.
    pub fn unshare(&mut self, iova: u64) -> Result<(), Error> {
        self.attachment.release(iova)
    }
    /// Rings a doorbell of the data path (`reg::SQ_TAIL`, `RQ_TAIL`, `CQ_HEAD`).
    pub fn ring(&mut self, doorbell: u32, value: u32) -> Result<(), Error> {
        Ok(self.attachment.device.write(doorbell, value)?)
    }
    /// Carries out a command on an object of the data path, and waits for its reply.
    pub fn object(&mut self, command: Command) -> Result<(), Error> {
        let opcode = Opcode::ALL.iter().find(|o| **o as u8 == command.opcode).copied().unwrap_or(Opcode::Nop);
        self.call(opcode, |rnic| rnic.post_raw(command)).map(drop)
    }

    // ---- posting

    /// Posts any command; its context is set here. For self tests: the other verbs check more.
    pub fn post_raw(&mut self, command: Command) -> Result<Context, Error> {
        self.post(command, None)
    }
    /// `slot`: where the command's private data is.
    fn post(&mut self, mut command: Command, slot: Option<Slot>) -> Result<Context, Error> {
        let room = self.commands.has_room(&mut self.attachment.device);
        if !matches!(room, Ok(true)) {
            self.tracker.connections.give_back(slot);
            return Err(room.err().unwrap_or(Error::CommandRingFull));
        }
        let context = self.tracker.allocate();
        command.context = context.0;
        self.tracker.posted(command, slot);
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
        self.post_listen_with(address, port, backlog.into())
    }
    /// Posts LISTEN with both limits as they are.
    pub fn post_listen_with(&mut self, address: Ipv4Addr, port: u16, backlog: Backlog) -> Result<Context, Error> {
        self.post_raw(Command {
            local_addr: address.into(),
            local_port: port,
            backlog_half_open: backlog.half_open,
            backlog_accept: backlog.accept,
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

    /// Posts RULE, which sets rule `number`, 0..=15.
    pub fn post_rule_set(&mut self, number: u16, rule: &Rule) -> Result<Context, Error> {
        self.post_raw(rule.command(number)?)
    }
    /// Posts RULE, which takes rule `number` out.
    pub fn post_rule_clear(&mut self, number: u16) -> Result<Context, Error> {
        self.post_raw(Rule::removal(number)?)
    }

    // ---- posting, connections

    /// Posts a command with its private data in a buffer that the adapter can read.
    fn post_with_data(&mut self, mut command: Command, data: &[u8]) -> Result<Context, Error> {
        if data.is_empty() {
            return self.post(command, None);
        }
        let memory = self.tracker.connections.memory.as_mut();
        let (slot, address) = memory.and_then(|m| m.place(data)).ok_or(Error::PrivateDataBuffers)?;
        command.data_addr = address;
        command.data_len = data.len() as u16;
        self.post(command, Some(slot))
    }
    /// Posts CONNECT; see [`Rnic::connect`].
    pub fn post_connect(&mut self, param: &ConnectParam) -> Result<Context, Error> {
        let refused = |refusal| Err(Error::Refused { opcode: Opcode::Connect.into(), refusal });
        if self.tracker.connections.max == 0 {
            return refused(Refusal::UnknownOpcode);
        }
        // before a way is looked for: there is none to what cannot be
        param.check_remote()?;
        let local = match *param.local.ip() {
            Ipv4Addr::UNSPECIFIED => self.tracker.route(*param.remote.ip()),
            address => Some(address),
        };
        let Some(local) = local else { return refused(Refusal::HostUnreachable) };
        self.post_with_data(param.command(local)?, &param.private_data)
    }
    /// State of a connection that lives, and whether the peer's Request was enhanced.
    fn state(&self, connection: &Connection) -> Result<(ConnectionState, bool), Error> {
        self.tracker.connections.state(connection.handle).ok_or(Error::StaleHandle)
    }
    /// Posts an answer to CONNECT_REQUEST.
    fn post_answer(&mut self, command: Command, data: &[u8], next: ConnectionState) -> Result<Context, Error> {
        let posted = self.post_with_data(command, data);
        if posted.is_ok() {
            self.tracker.connections.set_state(command.handle, next);
        }
        posted
    }
    fn requested(&self, connection: &Connection, what: &'static str) -> Result<bool, Error> {
        match self.state(connection)? {
            (ConnectionState::Requested, enhanced) => Ok(enhanced),
            (state, _) => Err(Error::WrongState { what, state }),
        }
    }
    /// Posts ACCEPT; see [`Rnic::accept`].
    pub fn post_accept(&mut self, connection: &Connection, param: &AcceptParam) -> Result<Context, Error> {
        let enhanced = self.requested(connection, "accepted")?;
        let command = param.command(connection.handle, enhanced)?;
        self.post_answer(command, &param.private_data, ConnectionState::Accepting)
    }
    /// Posts REJECT; see [`Rnic::reject`]. `tos`: DSCP in bits 7:2.
    pub fn post_reject(&mut self, connection: &Connection, private_data: &[u8], tos: u8) -> Result<Context, Error> {
        let enhanced = self.requested(connection, "rejected")?;
        check_private_data(private_data, enhanced)?;
        let command = Command { handle: connection.handle, tos: check_tos(tos)?, ..command(Opcode::Reject) };
        self.post_answer(command, private_data, ConnectionState::Leaving)
    }
    /// Posts DISCONNECT; none if the connection is already gone or going (CM-16).
    pub fn post_disconnect(&mut self, connection: &Connection) -> Result<Option<Context>, Error> {
        match self.state(connection) {
            Err(_) | Ok((ConnectionState::Leaving | ConnectionState::Ending, _)) => Ok(None),
            Ok((state @ (ConnectionState::Connecting | ConnectionState::Requested), _)) => {
                Err(Error::WrongState { what: "closed in order; abort it", state })
            }
            Ok(_) => self.post_end(connection, Opcode::Disconnect).map(Some),
        }
    }
    /// Posts ABORT; none if the connection is already gone.
    pub fn post_abort(&mut self, connection: &Connection) -> Result<Option<Context>, Error> {
        match self.state(connection) {
            Err(_) | Ok((ConnectionState::Ending, _)) => Ok(None),
            Ok(_) => self.post_end(connection, Opcode::Abort).map(Some),
        }
    }
    fn post_end(&mut self, connection: &Connection, opcode: Opcode) -> Result<Context, Error> {
        let context = self.post_raw(Command { handle: connection.handle, ..command(opcode) })?;
        let next = match self.state(connection)?.0 {
            ConnectionState::Established => ConnectionState::Closing,
            // nothing but FREED is owed to what nobody accepted, or what is rejected
            ConnectionState::Requested | ConnectionState::Leaving => ConnectionState::Ending,
            state => state,
        };
        self.tracker.connections.set_state(connection.handle, next);
        Ok(context)
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
            let opcode = if handle.kind() == Some(HandleKind::Connection) { Opcode::Abort } else { Opcode::Unlisten };
            match self.post_raw(Command { handle, ..command(opcode) }) {
                Ok(context) => {
                    self.tracker.close(handle);
                    self.tracker.own(context);
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
            Err(Error::CommandRingFull | Error::PrivateDataBuffers) => Ok(None),
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
    /// those that wait for accept; 0 is [`crate::DEFAULT_BACKLOG`]. The result is final: it is the adapter's LISTEN_REPLY, and an error
    /// leaves nothing behind.
    pub fn create_listen(&mut self, address: Ipv4Addr, port: u16, backlog: u16) -> Result<Listener, Error> {
        self.create_listen_with(address, port, backlog.into())
    }
    /// As [`Rnic::create_listen`], with both limits.
    pub fn create_listen_with(&mut self, address: Ipv4Addr, port: u16, backlog: Backlog) -> Result<Listener, Error> {
        match self.call(Opcode::Listen, |rnic| rnic.post_listen_with(address, port, backlog))? {
            Event::Listening { listener, .. } => Ok(listener),
            _ => Err(Error::BadReply { opcode: Opcode::Listen.into(), what: "no listener in it" }),
        }
    }
    /// Ends a listener; on return its handle is FREED and its port given back.
    pub fn destroy_listen(&mut self, listener: Listener) -> Result<(), Error> {
        self.call(Opcode::Unlisten, |rnic| rnic.post_unlisten(&listener)).map(drop)
    }
    /// Opens a connection. Returns as soon as the adapter has taken the command: what becomes of it on the network is
    /// [`Event::ConnectReply`], exactly once; an error here means that no event follows (CM-3).
    pub fn connect(&mut self, param: &ConnectParam) -> Result<Connection, Error> {
        match self.call(Opcode::Connect, |rnic| rnic.post_connect(param))? {
            Event::Connecting { connection, .. } => Ok(connection),
            _ => Err(Error::BadReply { opcode: Opcode::Connect.into(), what: "no connection in it" }),
        }
    }
    /// Accepts what CONNECT_REQUEST announced. [`Event::Established`] follows, once; after an error no event does, and the connection is
    /// reset (CM-5).
    pub fn accept(&mut self, connection: &Connection, param: &AcceptParam) -> Result<(), Error> {
        self.call(Opcode::Accept, |rnic| rnic.post_accept(connection, param)).map(drop)
    }
    /// Rejects what CONNECT_REQUEST announced; only FREED follows (CM-7).
    pub fn reject(&mut self, connection: &Connection, private_data: &[u8]) -> Result<(), Error> {
        self.call(Opcode::Reject, |rnic| rnic.post_reject(connection, private_data, 0)).map(drop)
    }
    /// Closes an established connection in order: CLOSE and FREED follow. Repeated, or when the end is under way, it does nothing (CM-16).
    pub fn disconnect(&mut self, connection: &Connection) -> Result<(), Error> {
        self.end(connection, Opcode::Disconnect, Self::post_disconnect)
    }
    /// Resets a connection in any state: what it still owes follows, and FREED. For one that is gone it does nothing.
    pub fn abort(&mut self, connection: &Connection) -> Result<(), Error> {
        self.end(connection, Opcode::Abort, Self::post_abort)
    }
    fn end(
        &mut self,
        connection: &Connection,
        opcode: Opcode,
        post: fn(&mut Self, &Connection) -> Result<Option<Context>, Error>,
    ) -> Result<(), Error> {
        let ended = self.call(opcode, |rnic| post(rnic, connection)?.ok_or(Error::StaleHandle));
        match ended {
            // it ended while the command was under way
            Err(Error::StaleHandle | Error::Refused { refusal: Refusal::NoEntry, .. }) => Ok(()),
            other => other.map(drop),
        }
    }
    /// Resets the adapter and tells the end of every connection that its user still waits for, once each (CM-35).
    pub fn detach(mut self) -> Vec<Event> {
        // also what came before
        let drained = self.drain();
        let mut events: Vec<_> = std::iter::from_fn(|| self.tracker.take_next()).collect();
        if let Err(e) = drained {
            tracing::debug!("last look at the event ring: {e}");
        }
        let Rnic { attachment, mut tracker, .. } = self;
        drop(attachment);
        events.extend(tracker.connections.end_all());
        events
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
    /// Sets set-up rule `number`, 0..=15: it counts for every set-up from now on, and changes nothing in connections that exist.
    pub fn rule_set(&mut self, number: u16, rule: &Rule) -> Result<(), Error> {
        self.call(Opcode::Rule, |rnic| rnic.post_rule_set(number, rule)).map(drop)
    }
    /// Takes set-up rule `number` out; there need not be one.
    pub fn rule_clear(&mut self, number: u16) -> Result<(), Error> {
        self.call(Opcode::Rule, |rnic| rnic.post_rule_clear(number)).map(drop)
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

pub(crate) fn command(opcode: Opcode) -> Command {
    Command { opcode: opcode as u8, handle: Handle::NONE, ..Command::default() }
}

/// `RANDOM` and the 128 bits of `ISN_KEY`: from the operating system, or all from one seed.
fn secrets(seed: Option<u32>) -> Result<(u32, [u32; 4]), Error> {
    let mut words = [0; 5];
    match seed {
        Some(seed) => {
            let mut rng = StdRng::seed_from_u64(seed.into());
            words.fill_with(|| rng.next_u32());
            words[0] = seed;
        }
        None => {
            for word in &mut words {
                *word = rand::rngs::OsRng.try_next_u32().map_err(|e| Error::Memory(std::io::Error::other(e)))?;
            }
        }
    }
    let [random, isn_key @ ..] = words;
    Ok((random, isn_key))
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
