// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stand-in for the way to an adapter: registers are a table, time is a number, and what comes back for a command is what the
//! test's script says. It is no model of the adapter: nothing here knows what a right answer would be.
use ironwarp_abi::{
    irq,
    reg::{self, control, status_bits},
    Command, Event, EventKind, Handle, HandleKind, L2Descriptor, Opcode, ABI_VERSION, ENTRY_DWORDS, MAGIC,
};
use ironwarp_rnic::{Bus, BusError, DmaMemory};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// Connections of the stand-in.
pub const CONNECTIONS: u16 = 32;

/// What the script gives back for a command: events and when they appear.
pub type Script = Box<dyn FnMut(&Command) -> Vec<(Duration, Event)> + Send>;

pub struct State {
    pub regs: HashMap<u32, u32>,
    pub written: Vec<(u32, u32)>,
    pub maps: BTreeMap<u64, Arc<DmaMemory>>,
    /// Maps that succeed before one is refused.
    pub maps_left: usize,
    pub commands: Vec<Command>,
    pub script: Script,
    /// Commands are taken from the ring; else they stay there.
    pub fetching: bool,
    /// Interrupts are raised; else they are lost.
    pub raising: bool,
    /// Every access fails with `Gone`.
    pub gone: bool,
    /// READY after a reset.
    pub resets_finish: bool,
    pub resets: usize,
    pub function_resets: usize,
    pub now: Duration,
    pub clocks_per_second: Option<u32>,
    pub waits: usize,
    cmd_head: u16,
    evt_tail: u16,
    due: VecDeque<(Duration, Event)>,
    raised: u32,
    l2rx_head: u16,
    l2tx_head: u16,
}

/// Handle to the stand-in; the bus and the test share it.
#[derive(Clone)]
pub struct Mock(Arc<Mutex<State>>);

pub struct MockBus(Mock);

impl Mock {
    pub fn new() -> Self {
        let mut regs: HashMap<u32, u32> = reg::CONFIG.iter().chain(reg::STATUSES).map(|r| (r.offset, r.reset)).collect();
        regs.insert(reg::MAGIC, MAGIC);
        regs.insert(reg::VERSION, ABI_VERSION);
        regs.insert(reg::CAPS, 16 | u32::from(CONNECTIONS) << 16);
        regs.insert(reg::CAPS2, 11 << 24 | 64 << 8 | 4);
        regs.insert(reg::STATUS, status_bits::READY);
        Mock(Arc::new(Mutex::new(State {
            regs,
            written: Vec::new(),
            maps: BTreeMap::new(),
            maps_left: usize::MAX,
            commands: Vec::new(),
            script: Box::new(yes),
            fetching: true,
            raising: true,
            gone: false,
            resets_finish: true,
            resets: 0,
            function_resets: 0,
            now: Duration::ZERO,
            clocks_per_second: None,
            waits: 0,
            cmd_head: 0,
            evt_tail: 0,
            due: VecDeque::new(),
            raised: 0,
            l2rx_head: 0,
            l2tx_head: 0,
        })))
    }
    pub fn bus(&self) -> MockBus {
        MockBus(self.clone())
    }
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
    pub fn script(&self, script: impl FnMut(&Command) -> Vec<(Duration, Event)> + Send + 'static) {
        self.state().script = Box::new(script);
    }
}

/// Reply with status 0 to any command, at once: the shortest script with which the driver gets on.
pub fn yes(command: &Command) -> Vec<(Duration, Event)> {
    vec![(Duration::ZERO, reply(command, 0))]
}

/// The event that belongs to a command; slot and port of a listener are made from its context.
pub fn reply(command: &Command, status: i32) -> Event {
    let base = Event { status, context: command.context, ..Event::default() };
    let kind = |kind: EventKind| kind as u8;
    match command.opcode {
        o if o == Opcode::Listen as u8 => {
            let port = if command.local_port == 0 { 50_000 + (command.context % 1000) as u16 } else { command.local_port };
            let handle = Handle::new(HandleKind::Listener, (command.context % 16) as u16, command.context);
            Event { kind: kind(EventKind::ListenReply), handle, local_addr: command.local_addr, local_port: port, ..base }
        }
        o if o == Opcode::Connect as u8 && status == 0 => {
            let local_port = if command.local_port == 0 { 60_000 + (command.context % 1000) as u16 } else { command.local_port };
            Event { kind: kind(EventKind::CmdReply), handle: connection(command.context), local_port, ..base }
        }
        o if o == Opcode::Unlisten as u8 && status == 0 => Event { kind: kind(EventKind::Freed), handle: command.handle, ..base },
        _ => Event { kind: kind(EventKind::CmdReply), ..base },
    }
}

/// Handle of a connection that is made from a number.
pub fn connection(n: u32) -> Handle {
    Handle::new(HandleKind::Connection, (n % u32::from(CONNECTIONS)) as u16, n)
}

impl State {
    /// Octets of host memory, as the adapter reads them.
    pub fn read_memory(&self, iova: u64, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        let (memory, offset) = self.dma(iova).expect("mapped");
        memory.read(offset, &mut octets);
        octets
    }
    /// Puts private data where the event of `handle` says that it is.
    pub fn inbound(&mut self, handle: Handle, data: &[u8]) {
        let (memory, offset) = self.dma(self.base(reg::PDATA_BASE_LO) + 512 * u64::from(handle.index())).expect("mapped");
        memory.write(offset, data);
    }
    fn dma(&self, iova: u64) -> Option<(&DmaMemory, usize)> {
        let (start, memory) = self.maps.range(..=iova).next_back()?;
        let offset = (iova - start) as usize;
        (offset < memory.len()).then_some((memory, offset))
    }
    fn reg(&self, offset: u32) -> u32 {
        self.regs.get(&offset).copied().unwrap_or(0)
    }
    fn base(&self, lo: u32) -> u64 {
        u64::from(self.reg(lo)) | u64::from(self.reg(lo + 4)) << 32
    }
    /// Puts an event into the ring when there is room and its time has come.
    pub fn deliver(&mut self, at: Duration, event: Event) {
        self.due.push_back((at, event));
        self.progress();
    }
    fn progress(&mut self) {
        let log2 = self.reg(reg::EVT_LOG2);
        while let Some(&(at, mut event)) = self.due.front() {
            let used = self.evt_tail.wrapping_sub(self.reg(reg::EVT_HEAD) as u16);
            if at > self.now || used >= 1 << log2 {
                return;
            }
            self.due.pop_front();
            event.phase = self.evt_tail >> log2 & 1 == 0;
            let iova = self.base(reg::EVT_BASE_LO) + 64 * u64::from(self.evt_tail & ((1 << log2) - 1));
            let (memory, offset) = self.dma(iova).expect("event ring is mapped");
            for (i, dword) in event.encode().into_iter().enumerate() {
                memory.write_u32(offset + 4 * i, dword);
            }
            self.evt_tail = self.evt_tail.wrapping_add(1);
            self.raise(irq::EVENT);
        }
    }
    fn raise(&mut self, cause: u32) {
        if self.raising && self.reg(reg::IRQ_MASK) & 1 << cause != 0 {
            self.raised |= 1 << cause;
        }
    }
    /// Takes commands from the ring and lets the script answer.
    pub fn fetch(&mut self) {
        while self.fetching && self.cmd_head != self.reg(reg::CMD_TAIL) as u16 {
            let mask = (1u16 << self.reg(reg::CMD_LOG2)) - 1;
            let iova = self.base(reg::CMD_BASE_LO) + 64 * u64::from(self.cmd_head & mask);
            let mut dwords = [0; ENTRY_DWORDS];
            let (memory, offset) = self.dma(iova).expect("command ring is mapped");
            for (i, dword) in dwords.iter_mut().enumerate() {
                *dword = memory.read_u32(offset + 4 * i);
            }
            self.cmd_head = self.cmd_head.wrapping_add(1);
            self.regs.insert(reg::CMD_HEAD, self.cmd_head.into());
            let command = Command::decode(&dwords);
            self.commands.push(command);
            for (delay, event) in (self.script)(&command) {
                self.due.push_back((self.now + delay, event));
            }
        }
        self.progress();
    }
    fn descriptor(&self, base: u32, log2: u32, index: u16) -> (L2Descriptor, u64) {
        let iova = self.base(base) + 16 * u64::from(index & ((1 << self.reg(log2)) - 1));
        let (memory, offset) = self.dma(iova).expect("descriptor ring is mapped");
        let dwords = std::array::from_fn(|i| memory.read_u32(offset + 4 * i));
        (L2Descriptor::decode(&dwords), iova)
    }
    fn complete(&mut self, iova: u64, mut descriptor: L2Descriptor, len: u16, flags: u16) {
        descriptor.len = len;
        descriptor.done_flags = flags;
        descriptor.done = true;
        let (memory, offset) = self.dma(iova).expect("descriptor ring is mapped");
        for (i, dword) in descriptor.encode().into_iter().enumerate().skip(2) {
            memory.write_u32(offset + 4 * i, dword);
        }
    }
    /// Writes a frame for the host and completes its descriptor with `len` and `flags`; false if none is posted.
    pub fn l2_receive(&mut self, frame: &[u8], len: u16, flags: u16) -> bool {
        if self.l2rx_head == self.reg(reg::L2RX_TAIL) as u16 {
            return false;
        }
        let (descriptor, iova) = self.descriptor(reg::L2RX_BASE_LO, reg::L2RX_LOG2, self.l2rx_head);
        assert!(!descriptor.done && descriptor.done_flags == 0, "a posted descriptor is clean");
        let (memory, offset) = self.dma(descriptor.addr).expect("buffer is mapped");
        memory.write(offset, frame);
        self.complete(iova, descriptor, len, flags);
        self.l2rx_head = self.l2rx_head.wrapping_add(1);
        self.raise(irq::L2_RX);
        true
    }
    /// Takes a frame of the host and completes its descriptor with `flags`.
    pub fn l2_transmit(&mut self, flags: u16) -> Option<(Vec<u8>, u16)> {
        if self.l2tx_head == self.reg(reg::L2TX_TAIL) as u16 {
            return None;
        }
        let (descriptor, iova) = self.descriptor(reg::L2TX_BASE_LO, reg::L2TX_LOG2, self.l2tx_head);
        let mut frame = vec![0; descriptor.len.into()];
        let (memory, offset) = self.dma(descriptor.addr).expect("buffer is mapped");
        memory.read(offset, &mut frame);
        self.complete(iova, descriptor, descriptor.len, flags);
        self.l2tx_head = self.l2tx_head.wrapping_add(1);
        self.raise(irq::L2_TX);
        Some((frame, descriptor.flags))
    }
}

impl Bus for MockBus {
    fn read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let state = self.0.state();
        if state.gone {
            return Err(BusError::Gone("test".into()));
        }
        Ok(state.reg(offset))
    }
    fn write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        let mut state = self.0.state();
        if state.gone {
            return Err(BusError::Gone("test".into()));
        }
        state.written.push((offset, value));
        match offset {
            reg::CONTROL if value & control::RESET != 0 => {
                state.resets += 1;
                let status = if state.resets_finish { status_bits::READY } else { status_bits::RESETTING };
                state.regs.insert(reg::STATUS, status);
            }
            reg::CONTROL => {
                let status = state.reg(reg::STATUS) | status_bits::ENABLED;
                state.regs.insert(reg::STATUS, status);
            }
            reg::CMD_TAIL => {
                state.regs.insert(offset, value);
                state.fetch();
            }
            reg::EVT_HEAD => {
                state.regs.insert(offset, value);
                state.progress();
            }
            reg::STATUS | reg::MAGIC | reg::VERSION => {}
            _ => {
                state.regs.insert(offset, value);
            }
        }
        Ok(())
    }
    fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), BusError> {
        let mut state = self.0.state();
        if state.maps_left == 0 {
            return Err(BusError::Refused("no more maps".into()));
        }
        state.maps_left -= 1;
        let len = memory.len() as u64;
        assert_eq!((iova & 4095, len & 4095), (0, 0), "whole pages");
        let clash = state.maps.iter().any(|(start, m)| iova < start + m.len() as u64 && *start < iova + len);
        assert!(!clash, "mapped twice");
        state.maps.insert(iova, memory.clone());
        Ok(())
    }
    fn unmap(&mut self, iova: u64, len: u64) -> Result<(), BusError> {
        let mut state = self.0.state();
        assert_eq!(state.maps.remove(&iova).expect("was mapped").len() as u64, len);
        Ok(())
    }
    fn wait(&mut self, vectors: u32, timeout: Duration) -> Result<u32, BusError> {
        let mut state = self.0.state();
        state.waits += 1;
        if state.gone {
            return Err(BusError::Gone("test".into()));
        }
        let end = state.now + timeout;
        loop {
            state.progress();
            let raised = state.raised & vectors;
            if raised != 0 {
                state.raised &= !raised;
                return Ok(raised);
            }
            match state.due.front().map(|d| d.0).filter(|at| *at > state.now && *at <= end) {
                Some(at) => state.now = at,
                None => {
                    state.now = end;
                    state.progress();
                    return Ok(0);
                }
            }
        }
    }
    fn now(&self) -> Duration {
        self.0.state().now
    }
    fn vector_fd(&self, _vector: u32) -> Option<BorrowedFd<'_>> {
        None
    }
    fn clocks_per_second(&mut self) -> Result<Option<u32>, BusError> {
        Ok(self.0.state().clocks_per_second)
    }
    fn reset(&mut self) -> Result<(), BusError> {
        self.0.state().function_resets += 1;
        Ok(())
    }
    fn describe(&self) -> String {
        "mock".into()
    }
}
