// SPDX-License-Identifier: MIT OR Apache-2.0
//! Initial sequence numbers (TCP-3, RFC 9293 section 3.4.1, RFC 6528): a clock of 4 microseconds plus a keyed function of the 4-tuple.
//!
//! **Interface.** A tuple in `request` is answered by its ISN in `isn`; the next tuple is taken when the last ISN was. The key is 128 bits, `key0` the least
//! significant 32; it must not change while a request is under way. Who does not know the key learns nothing about the ISNs of other tuples.
//!
//! **Function.** Low 32 bits of SipHash-2-4 of the 12 octets local address, remote address, local port, remote port, each as a number with its
//! least significant octet first. The octets of the key are those of `key0`, `key1`, `key2`, `key3`, in the same order.
//!
//! **Clock.** `time_us` / 4 would jump back when `time_us` wraps (every 71 minutes). So the differences of `time_us` from clock to clock, which are less than
//! 2^32, are added up in 34 bits, whose upper 32 are the clock: it wraps where sequence numbers do. No reset touches it, nor the adapter
//! time, so that a connection after a reset does not get sequence numbers of one before it.
//!
//! **States.** See [`IsnState`]. **Timing.** A half of a SipHash round a clock, so that no path has two additions: 16 for the 8 rounds, one to fold, one to add;
//! from taking a tuple to offering its ISN 19 clocks. The clock in it is that of 3 clocks before. **Memory:** flip-flops only.
use super::types::*;
use crate::stream::*;
use rust_hdl::prelude::*;

#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum IsnState {
    Idle,
    /// 16 half rounds.
    Mix,
    /// The four words become one.
    Fold,
    /// The clock is added.
    Sum,
    Offer,
}

#[derive(LogicBlock)]
pub struct Isn {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, Bit>,
    pub key0: Signal<In, Bits<32>>,
    pub key1: Signal<In, Bits<32>>,
    pub key2: Signal<In, Bits<32>>,
    pub key3: Signal<In, Bits<32>>,
    pub time_us: Signal<In, Bits<32>>,
    pub request: ChanSink<Tuple>,
    pub isn: ChanSrc<Bits<32>>,
    // the clock
    last_us: DFF<Bits<32>>,
    passed: DFF<Bits<32>>,
    running: DFF<Bits<34>>,
    // the function
    state: DFF<IsnState>,
    /// Half rounds done: 2 rounds for each of the two words of the message, 4 at the end.
    half: DFF<Bits<4>>,
    tuple: DFF<Tuple>,
    v0: DFF<Bits<64>>,
    v1: DFF<Bits<64>>,
    v2: DFF<Bits<64>>,
    v3: DFF<Bits<64>>,
    folded: DFF<Bits<32>>,
    result: DFF<Bits<32>>,
    low_key: Signal<Local, Bits<64>>,
    high_key: Signal<Local, Bits<64>>,
    addresses: Signal<Local, Bits<64>>,
    offered_addresses: Signal<Local, Bits<64>>,
    /// Ports, and the length of the message in the top octet.
    ports: Signal<Local, Bits<64>>,
    a0: Signal<Local, Bits<64>>,
    a2: Signal<Local, Bits<64>>,
    turned1: Signal<Local, Bits<64>>,
    turned3: Signal<Local, Bits<64>>,
    new0: Signal<Local, Bits<64>>,
    new1: Signal<Local, Bits<64>>,
    new2: Signal<Local, Bits<64>>,
    new3: Signal<Local, Bits<64>>,
    mixed: Signal<Local, Bits<64>>,
    start0: Constant<Bits<64>>,
    start1: Constant<Bits<64>>,
    start2: Constant<Bits<64>>,
    start3: Constant<Bits<64>>,
}

impl Default for Isn {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            reset: Default::default(),
            key0: Default::default(),
            key1: Default::default(),
            key2: Default::default(),
            key3: Default::default(),
            time_us: Default::default(),
            request: Default::default(),
            isn: Default::default(),
            last_us: Default::default(),
            passed: Default::default(),
            running: Default::default(),
            state: Default::default(),
            half: Default::default(),
            tuple: Default::default(),
            v0: Default::default(),
            v1: Default::default(),
            v2: Default::default(),
            v3: Default::default(),
            folded: Default::default(),
            result: Default::default(),
            low_key: Default::default(),
            high_key: Default::default(),
            addresses: Default::default(),
            offered_addresses: Default::default(),
            ports: Default::default(),
            a0: Default::default(),
            a2: Default::default(),
            turned1: Default::default(),
            turned3: Default::default(),
            new0: Default::default(),
            new1: Default::default(),
            new2: Default::default(),
            new3: Default::default(),
            mixed: Default::default(),
            // the constants of SipHash
            start0: Constant::new(0x736f_6d65_7073_6575_u64.to_bits()),
            start1: Constant::new(0x646f_7261_6e64_6f6d_u64.to_bits()),
            start2: Constant::new(0x6c79_6765_6e65_7261_u64.to_bits()),
            start3: Constant::new(0x7465_6462_7974_6573_u64.to_bits()),
        }
    }
}

impl Logic for Isn {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, last_us, passed, running, state, half, tuple, v0, v1, v2, v3, folded, result);
        self.last_us.d.next = self.time_us.val();
        self.passed.d.next = self.time_us.val() - self.last_us.q.val();
        self.running.d.next = self.running.q.val() + bit_cast::<34, 32>(self.passed.q.val());

        self.low_key.next = bit_cast::<64, 32>(self.key0.val()) | (bit_cast::<64, 32>(self.key1.val()) << 32);
        self.high_key.next = bit_cast::<64, 32>(self.key2.val()) | (bit_cast::<64, 32>(self.key3.val()) << 32);
        self.addresses.next = bit_cast::<64, 32>(self.tuple.q.val().local_ip) | (bit_cast::<64, 32>(self.tuple.q.val().remote_ip) << 32);
        self.offered_addresses.next =
            bit_cast::<64, 32>(self.request.data.val().local_ip) | (bit_cast::<64, 32>(self.request.data.val().remote_ip) << 32);
        self.ports.next = bits::<64>(0x0C00_0000_0000_0000_u64)
            | bit_cast::<64, 16>(self.tuple.q.val().local_port)
            | (bit_cast::<64, 16>(self.tuple.q.val().remote_port) << 16);

        // Half a round. The second half is the first with `v1` and `v3` in each other's places and other distances: so they change places in
        // every half, and the additions are always of the same registers.
        self.a0.next = self.v0.q.val() + self.v1.q.val();
        self.a2.next = self.v2.q.val() + self.v3.q.val();
        self.turned1.next = (self.v1.q.val() << 13) | (self.v1.q.val() >> 51);
        self.turned3.next = (self.v3.q.val() << 16) | (self.v3.q.val() >> 48);
        self.new0.next = (self.a0.val() << 32) | (self.a0.val() >> 32);
        self.new2.next = self.a2.val();
        if self.half.q.val().get_bit(0) {
            self.turned1.next = (self.v1.q.val() << 21) | (self.v1.q.val() >> 43);
            self.turned3.next = (self.v3.q.val() << 17) | (self.v3.q.val() >> 47);
            self.new0.next = self.a0.val();
            self.new2.next = (self.a2.val() << 32) | (self.a2.val() >> 32);
        }
        self.new1.next = self.turned3.val() ^ self.a2.val();
        self.new3.next = self.turned1.val() ^ self.a0.val();
        self.mixed.next = self.v0.q.val() ^ self.v1.q.val() ^ self.v2.q.val() ^ self.v3.q.val();
        self.folded.d.next = self.mixed.val().get_bits::<32>(0);

        self.request.ready.next = false;
        self.isn.valid.next = false;
        self.isn.data.next = self.result.q.val();
        match self.state.q.val() {
            IsnState::Idle => {
                self.request.ready.next = true;
                self.tuple.d.next = self.request.data.val();
                self.half.d.next = 0.into();
                self.v0.d.next = self.low_key.val() ^ self.start0.val();
                self.v1.d.next = self.high_key.val() ^ self.start1.val();
                self.v2.d.next = self.low_key.val() ^ self.start2.val();
                self.v3.d.next = self.high_key.val() ^ self.start3.val() ^ self.offered_addresses.val();
                if self.request.valid.val() {
                    self.state.d.next = IsnState::Mix;
                }
            }
            IsnState::Mix => {
                self.half.d.next = self.half.q.val() + 1;
                self.v0.d.next = self.new0.val();
                self.v1.d.next = self.new1.val();
                self.v2.d.next = self.new2.val();
                self.v3.d.next = self.new3.val();
                if self.half.q.val() == 3 {
                    self.v0.d.next = self.new0.val() ^ self.addresses.val();
                    self.v3.d.next = self.new3.val() ^ self.ports.val();
                }
                if self.half.q.val() == 7 {
                    self.v0.d.next = self.new0.val() ^ self.ports.val();
                    self.v2.d.next = self.new2.val() ^ bits::<64>(0xff);
                }
                if self.half.q.val() == 15 {
                    self.state.d.next = IsnState::Fold;
                }
            }
            IsnState::Fold => {
                self.state.d.next = IsnState::Sum;
            }
            IsnState::Sum => {
                self.result.d.next = self.folded.q.val() + self.running.q.val().get_bits::<32>(2);
                self.state.d.next = IsnState::Offer;
            }
            IsnState::Offer => {
                self.isn.valid.next = true;
                if self.isn.ready.val() {
                    self.state.d.next = IsnState::Idle;
                }
            }
            _ => {
                self.state.d.next = IsnState::Idle;
            }
        }
        if self.reset.val() {
            self.state.d.next = IsnState::Idle;
        }
    }
}
