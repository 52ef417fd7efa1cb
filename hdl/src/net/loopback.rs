// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loop: what the adapter sends to its own MAC address comes back on its receive side, as if the wire had brought it; all else passes.
//!
//! **Interface.** `tx` from the transmit multiplexer; `to_own` says with each beat whether its frame goes to the own MAC address; `out` to the MAC.
//! `from_mac`, `from_mac_valid`, one beat a clock, no ready; `rx`/`rx_valid` to the receive parser, likewise.
//!
//! **Rules.**
//! * The transmitter never waits for the receive side, so there is no circle: a looped frame is taken at a beat a clock. If it has more than
//!   2^N - 8 beats, or finds less room than it needs, it is dropped as a whole (`cnt_eth_loop_dropped`); TCP sends it again.
//! * The wire loses nothing: a looped frame starts between two frames of the wire and with nothing of the wire held up; what comes from the wire while
//!   it passes (`cnt_eth_loop_frames` with its last beat) stands in a queue of 2^N beats, which the frame is too short to fill.
//! * What is held up comes before the next looped frame. Each gap between the frames of the wire makes the queue shorter by as much; when it is
//!   empty and 3 clocks are left of a gap, it is the loop's turn. A wire without such gaps leaves the loop none, and then its frames are dropped.
//! * A frame of the wire that a reset has cut does not exist; neither does a looped one. In reset `rx` shows the end of a frame, so that the
//!   parser knows that the next beat begins one.
//!
//! **States.** `Wire`: the wire's beats pass. `Loop`: a looped frame does. `Behind`: the wire's beats pass through the queue.
//!
//! **Timing.** To `out` and, in `Wire`, to `rx` no clock is added. A looped frame is stored whole first: with a wire that is silent its first beat
//! comes 4 clocks after its last was taken, then one a clock. Through the queue 2 clocks.
//! **Memory.** Two times 2^N x 69 bits (N = 8: 4 block RAMs). `NP1` = N + 1.
use crate::stream::*;
use rust_hdl::prelude::*;

/// A beat as it is stored: in a last beat the number of octets, 0 meaning 8, and whether the frame is damaged.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct LoopBeat {
    pub data: Bits<64>,
    pub octets: Bits<3>,
    pub last: Bit,
    pub error: Bit,
}

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum LoopState {
    Wire,
    Loop,
    Behind,
}

#[derive(LogicBlock)]
pub struct Loopback<const N: usize, const NP1: usize> {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub to_own: Signal<In, Bit>,
    pub tx: StreamSink,
    pub out: StreamSrc,
    pub from_mac: Signal<In, Beat>,
    pub from_mac_valid: Signal<In, Bit>,
    pub rx: Signal<Out, Beat>,
    pub rx_valid: Signal<Out, Bit>,
    pub cnt_eth_loop_frames: Signal<Out, Bit>,
    pub cnt_eth_loop_dropped: Signal<Out, Bit>,
    state: DFF<LoopState>,
    // looped frames
    ram: BlockRam<LoopBeat, N>,
    /// Next place to write, end of the whole frames, next beat to pass, next place to read; free-running modulo 2^NP1.
    wr: DFF<Bits<NP1>>,
    committed: DFF<Bits<NP1>>,
    rd: DFF<Bits<NP1>>,
    ask: DFF<Bits<NP1>>,
    spill: DFF<Bit>,
    /// A read of `ram` is at its output / in `word`.
    read1: DFF<Bit>,
    read2: DFF<Bit>,
    word: DFF<LoopBeat>,
    // the wire
    /// It is inside a frame (also tracked during reset) / the rest of that frame does not exist.
    in_frame: DFF<Bit>,
    skip: DFF<Bit>,
    queue: ChanFifo<LoopBeat, N, NP1>,
    /// Beats in `queue`.
    behind: DFF<Bits<NP1>>,
    fill: Signal<Local, Bits<NP1>>,
    len: Signal<Local, Bits<NP1>>,
    fits: Signal<Local, Bit>,
    put: Signal<Local, Bit>,
    wr_next: Signal<Local, Bits<NP1>>,
    rd_next: Signal<Local, Bits<NP1>>,
    arrives: Signal<Local, Bit>,
    push: Signal<Local, Bit>,
    pop: Signal<Local, Bit>,
    gap: Signal<Local, Bit>,
    tx_keep: Signal<Local, Bits<8>>,
    mac_keep: Signal<Local, Bits<8>>,
    chosen: Signal<Local, LoopBeat>,
    depth: Constant<Bits<NP1>>,
    longest: Constant<Bits<NP1>>,
    keeps: [Constant<Bits<8>>; 8],
    counts: [Constant<Bits<3>>; 8],
}

impl<const N: usize, const NP1: usize> Default for Loopback<N, NP1> {
    fn default() -> Self {
        assert!(N > 3 && N + 1 == NP1);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            to_own: Default::default(),
            tx: Default::default(),
            out: Default::default(),
            from_mac: Default::default(),
            from_mac_valid: Default::default(),
            rx: Default::default(),
            rx_valid: Default::default(),
            cnt_eth_loop_frames: Default::default(),
            cnt_eth_loop_dropped: Default::default(),
            state: Default::default(),
            ram: Default::default(),
            wr: Default::default(),
            committed: Default::default(),
            rd: Default::default(),
            ask: Default::default(),
            spill: Default::default(),
            read1: Default::default(),
            read2: Default::default(),
            word: Default::default(),
            in_frame: Default::default(),
            skip: Default::default(),
            queue: Default::default(),
            behind: Default::default(),
            fill: Default::default(),
            len: Default::default(),
            fits: Default::default(),
            put: Default::default(),
            wr_next: Default::default(),
            rd_next: Default::default(),
            arrives: Default::default(),
            push: Default::default(),
            pop: Default::default(),
            gap: Default::default(),
            tx_keep: Default::default(),
            mac_keep: Default::default(),
            chosen: Default::default(),
            depth: Constant::new((1u64 << N).to_bits()),
            longest: Constant::new(((1u64 << N) - 8).to_bits()),
            keeps: std::array::from_fn(|n| Constant::new(if n == 0 { 0xffu64 } else { (1 << n) - 1 }.to_bits())),
            counts: std::array::from_fn(|n| Constant::new((n as u64).to_bits())),
        }
    }
}

impl<const N: usize, const NP1: usize> Logic for Loopback<N, NP1> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, wr, committed, rd, ask, spill, read1, read2, word, in_frame, skip, behind);
        clock!(self, clock, queue);
        self.queue.reset.next = self.reset.val();
        self.ram.read_clock.next = self.clock.val();
        self.ram.write_clock.next = self.clock.val();

        // transmit: to the MAC, or into the store
        self.out.beat.next = self.tx.beat.val();
        self.out.valid.next = self.tx.valid.val() & !self.to_own.val();
        self.tx.ready.next = self.out.ready.val() | self.to_own.val();
        self.fill.next = self.wr.q.val() - self.rd.q.val();
        self.len.next = self.wr.q.val() - self.committed.q.val();
        self.fits.next = (self.fill.val() != self.depth.val()) & (self.len.val() != self.longest.val()) & !self.spill.q.val();
        self.put.next = self.tx.valid.val() & self.to_own.val();
        self.wr_next.next = self.wr.q.val() + 1;
        self.ram.write_address.next = self.wr.q.val().get_bits::<N>(0);
        self.ram.write_enable.next = self.put.val() & self.fits.val();
        self.ram.write_data.next.data = self.tx.beat.val().data;
        self.ram.write_data.next.last = self.tx.beat.val().last;
        self.ram.write_data.next.error = false;
        self.ram.write_data.next.octets = 0.into();
        self.tx_keep.next = self.tx.beat.val().keep;
        for i in 1..8 {
            if self.tx_keep.val() == self.keeps[i].val() {
                self.ram.write_data.next.octets = self.counts[i].val();
            }
        }
        self.cnt_eth_loop_dropped.next = false;
        if self.put.val() {
            if self.fits.val() {
                self.wr.d.next = self.wr_next.val();
            } else {
                self.spill.d.next = true;
            }
            if self.tx.beat.val().last {
                self.spill.d.next = false;
                if self.fits.val() {
                    self.committed.d.next = self.wr_next.val();
                } else {
                    self.wr.d.next = self.committed.q.val();
                    self.cnt_eth_loop_dropped.next = true;
                }
            }
        }

        // the wire: past the queue or into it
        if self.from_mac_valid.val() {
            self.in_frame.d.next = !self.from_mac.val().last;
            if self.from_mac.val().last {
                self.skip.d.next = false;
            }
        }
        self.arrives.next = self.from_mac_valid.val() & !self.skip.q.val();
        self.gap.next = !self.from_mac_valid.val() & !self.in_frame.q.val() & (self.behind.q.val() == 0);
        self.push.next = self.arrives.val() & (self.state.q.val() != LoopState::Wire);
        self.pop.next = self.queue.out.valid.val() & (self.state.q.val() == LoopState::Behind);
        self.queue.inp.valid.next = self.push.val();
        self.queue.inp.data.next.data = self.from_mac.val().data;
        self.queue.inp.data.next.last = self.from_mac.val().last;
        self.queue.inp.data.next.error = self.from_mac.val().error;
        self.queue.inp.data.next.octets = 0.into();
        self.mac_keep.next = self.from_mac.val().keep;
        for i in 1..8 {
            if self.mac_keep.val() == self.keeps[i].val() {
                self.queue.inp.data.next.octets = self.counts[i].val();
            }
        }
        self.queue.out.ready.next = self.state.q.val() == LoopState::Behind;
        if self.push.val() & !self.pop.val() {
            self.behind.d.next = self.behind.q.val() + 1;
        }
        if !self.push.val() & self.pop.val() {
            self.behind.d.next = self.behind.q.val() - 1;
        }

        // what the parser sees
        self.ram.read_address.next = self.ask.q.val().get_bits::<N>(0);
        self.word.d.next = self.ram.read_data.val();
        self.rd_next.next = self.rd.q.val() + 1;
        self.read1.d.next = false;
        self.read2.d.next = self.read1.q.val();
        self.chosen.next = self.word.q.val();
        if self.state.q.val() == LoopState::Behind {
            self.chosen.next = self.queue.out.data.val();
        }
        self.rx.next.data = self.chosen.val().data;
        self.rx.next.last = self.chosen.val().last;
        self.rx.next.error = self.chosen.val().error;
        self.rx.next.keep = 0xff.into();
        for i in 1..8 {
            if self.chosen.val().octets.index() == i {
                self.rx.next.keep = self.keeps[i].val();
            }
        }
        self.rx_valid.next = false;
        self.cnt_eth_loop_frames.next = false;
        match self.state.q.val() {
            LoopState::Wire => {
                self.rx.next = self.from_mac.val();
                self.rx_valid.next = self.arrives.val();
                if self.gap.val() & (self.committed.q.val() != self.rd.q.val()) {
                    self.state.d.next = LoopState::Loop;
                }
            }
            LoopState::Loop => {
                self.ask.d.next = self.ask.q.val() + 1;
                self.read1.d.next = true;
                self.rx_valid.next = self.read2.q.val();
                if self.read2.q.val() {
                    self.rd.d.next = self.rd_next.val();
                    if self.word.q.val().last {
                        // what was read beyond it is forgotten
                        self.ask.d.next = self.rd_next.val();
                        self.read1.d.next = false;
                        self.read2.d.next = false;
                        self.cnt_eth_loop_frames.next = true;
                        self.state.d.next = LoopState::Behind;
                    }
                }
            }
            LoopState::Behind => {
                self.rx_valid.next = self.pop.val();
                if (self.behind.q.val() == 0) & !self.from_mac_valid.val() {
                    self.state.d.next = LoopState::Wire;
                }
                if self.gap.val() & (self.committed.q.val() != self.rd.q.val()) {
                    self.state.d.next = LoopState::Loop;
                }
            }
            _ => {
                self.state.d.next = LoopState::Wire;
            }
        }

        if self.reset.val() {
            self.rx.next.last = true;
            self.rx_valid.next = true;
            self.skip.d.next = self.in_frame.q.val();
            if self.from_mac_valid.val() {
                self.skip.d.next = !self.from_mac.val().last;
            }
            self.state.d.next = LoopState::Wire;
            self.wr.d.next = 0.into();
            self.committed.d.next = 0.into();
            self.rd.d.next = 0.into();
            self.ask.d.next = 0.into();
            self.spill.d.next = false;
            self.read1.d.next = false;
            self.read2.d.next = false;
            self.behind.d.next = 0.into();
        }
    }
}
