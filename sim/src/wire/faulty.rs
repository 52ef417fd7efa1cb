// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wire that loses, doubles, reorders, delays and damages what another carries: at random out of a seed, and frame by frame as a test
//! asks for. Equal seeds and equal frames make equal faults.
//!
//! Faults happen where a frame enters the wire. Direction `n` is what the adapter at end `n` sends; on a wire with one end, direction 1 is
//! what comes from outside. A capture around it ([`super::Captured`]) shows with [`super::View::Sent`] what went in, and with
//! [`super::View::End`] what an adapter really got; two of them, one around the other, show both ends.
//!
//! What a rule of the test says of a frame comes before chance; a frame has one fault at most.
use super::{Frame, SentFrame, Wire};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard},
};

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never arrives.
    Drop,
    /// It arrives twice, one copy after the other.
    Duplicate,
    /// It arrives after the next frame of its direction, or alone after [`FaultRates::hold_bound`].
    HoldPastNext,
    /// It arrives so many cycles later; others overtake it.
    Delay(u64),
    /// This bit (8 times octet + bit, counted around its length) arrives flipped, and the receiving MAC finds a wrong FCS.
    Flip(usize),
    /// This bit arrives flipped under a good FCS, as after a fault inside of a switch: only checksums can find it.
    FlipUnseen(usize),
    /// Two neighbouring 16-bit words change places under a good FCS, the first pair from this even octet on that differs: no checksum of IP or TCP finds it.
    Swap(usize),
}

/// How often faults happen by chance, each as a part of all frames (0.01 = one in a hundred), and their extent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultRates {
    /// [`Fault::Drop`].
    pub loss: f64,
    /// [`Fault::Duplicate`].
    pub duplication: f64,
    /// [`Fault::HoldPastNext`].
    pub reorder: f64,
    /// [`Fault::Flip`] of a random bit.
    pub corruption: f64,
    /// [`Fault::FlipUnseen`] of a random bit behind the Ethernet header.
    pub unseen_corruption: f64,
    /// [`Fault::Delay`].
    pub delay: f64,
    /// Least and largest such delay, cycles.
    pub delay_cycles: (u64, u64),
    /// Longest time that a frame waits for the next, cycles.
    pub hold_bound: u64,
}

impl Default for FaultRates {
    /// No faults by chance; a frame waits at most 3.2 ms at 62.5 MHz for the next.
    fn default() -> Self {
        FaultRates {
            loss: 0.0,
            duplication: 0.0,
            reorder: 0.0,
            corruption: 0.0,
            unseen_corruption: 0.0,
            delay: 0.0,
            delay_cycles: (1000, 10_000),
            hold_bound: 200_000,
        }
    }
}

impl std::str::FromStr for FaultRates {
    type Err = String;
    /// `loss=0.02,reorder=0.01`; what is not named does not happen.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut rates = FaultRates::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let parsed = part.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            let Some((name, value)) = parsed.filter(|(_, v)| (0.0..=1.0).contains(v)) else {
                return Err(format!("{part:?}: write name=part, as loss=0.02 for two frames in a hundred"));
            };
            *match name {
                "loss" => &mut rates.loss,
                "duplication" => &mut rates.duplication,
                "reorder" => &mut rates.reorder,
                "corruption" => &mut rates.corruption,
                "unseen_corruption" => &mut rates.unseen_corruption,
                "delay" => &mut rates.delay,
                _ => return Err(format!("{name:?} is no fault: loss, duplication, reorder, corruption, unseen_corruption and delay are")),
            } = value;
        }
        Ok(rates)
    }
}

/// What happened in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames that entered.
    pub frames: u64,
    /// Dropped.
    pub dropped: u64,
    /// Doubled.
    pub duplicated: u64,
    /// Held past the next, or delayed.
    pub late: u64,
    /// Damaged.
    pub damaged: u64,
}

/// Octets of an Ethernet header: damage that no FCS finds stays behind it, as nothing else protects it.
const ETHERNET: usize = 14;

type Filter = Box<dyn FnMut(&[u8]) -> bool + Send>;

struct Matching {
    direction: usize,
    filter: Filter,
    /// Matching frames to let pass first.
    skip: u64,
    /// Stays after its first frame.
    stays: bool,
    fault: Fault,
}

struct State {
    rng: ChaCha8Rng,
    rates: FaultRates,
    /// By direction and number of the frame.
    numbered: BTreeMap<(usize, u64), Fault>,
    matching: Vec<Matching>,
    /// Number of the next frame, by direction.
    next: [u64; 2],
    counts: [FaultCounts; 2],
}

impl State {
    fn fault(&mut self, direction: usize, octets: &[u8]) -> Option<Fault> {
        let number = self.next[direction];
        self.next[direction] += 1;
        self.counts[direction].frames += 1;
        let mut scripted = self.numbered.remove(&(direction, number));
        let mut used = None;
        for (i, rule) in self.matching.iter_mut().enumerate().filter(|(_, r)| r.direction == direction) {
            if (rule.filter)(octets) {
                if rule.skip > 0 {
                    rule.skip -= 1;
                } else if scripted.is_none() {
                    scripted = Some(rule.fault);
                    used = (!rule.stays).then_some(i);
                }
            }
        }
        if let Some(i) = used {
            self.matching.remove(i);
        }
        // chance is asked for every frame, so that a rule does not change the luck of the frames after it
        let drawn = self.draw(octets.len());
        let fault = scripted.or(drawn)?;
        let counts = &mut self.counts[direction];
        match fault {
            Fault::Drop => counts.dropped += 1,
            Fault::Duplicate => counts.duplicated += 1,
            Fault::HoldPastNext | Fault::Delay(_) => counts.late += 1,
            Fault::Flip(_) | Fault::FlipUnseen(_) | Fault::Swap(_) => counts.damaged += 1,
        }
        Some(fault)
    }
    fn draw(&mut self, octets: usize) -> Option<Fault> {
        let (luck, bit, delay): (f64, u32, u64) = (self.rng.random(), self.rng.random(), self.rng.random());
        let rates = &self.rates;
        let bits = octets * 8;
        let behind = bits.saturating_sub(ETHERNET * 8).max(1);
        let (least, most) = rates.delay_cycles;
        let mut below = 0.0;
        [
            (rates.loss, Fault::Drop),
            (rates.duplication, Fault::Duplicate),
            (rates.reorder, Fault::HoldPastNext),
            (rates.corruption, Fault::Flip(bit as usize % bits.max(1))),
            (rates.unseen_corruption, Fault::FlipUnseen(ETHERNET * 8 + bit as usize % behind)),
            (rates.delay, Fault::Delay(least + delay % (most.saturating_sub(least) + 1))),
        ]
        .into_iter()
        .find(|(rate, _)| {
            below += rate;
            luck < below
        })
        .map(|(_, fault)| fault)
    }
}

/// The test's hand on a [`Faulty`] wire.
#[derive(Clone)]
pub struct FaultHandle(Arc<Mutex<State>>);

impl FaultHandle {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The `number`th frame from now (or from the last [`FaultHandle::restart`]), counted from 0, of a direction.
    pub fn on(&self, direction: usize, number: u64, fault: Fault) {
        self.state().numbered.insert((direction, number), fault);
    }
    /// The first frame of a direction that `filter` knows, after `skip` others that it knew; once.
    pub fn on_match(&self, direction: usize, skip: u64, fault: Fault, filter: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.state().matching.push(Matching { direction, filter: Box::new(filter), skip, stays: false, fault });
    }
    /// Every frame of a direction that `filter` knows, until [`FaultHandle::restart`].
    pub fn on_every(&self, direction: usize, fault: Fault, filter: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.state().matching.push(Matching { direction, filter: Box::new(filter), skip: 0, stays: true, fault });
    }
    /// Changes what happens by chance.
    pub fn set_rates(&self, rates: FaultRates) {
        self.state().rates = rates;
    }
    /// Forgets every rule, and numbers frames from 0 again.
    pub fn restart(&self) {
        let mut state = self.state();
        state.numbered.clear();
        state.matching.clear();
        state.next = [0; 2];
    }
    /// Number of the next frame of a direction.
    pub fn next(&self, direction: usize) -> u64 {
        self.state().next[direction]
    }
    /// Rules that no frame has met yet.
    pub fn rules_left(&self) -> usize {
        let state = self.state();
        state.numbered.len() + state.matching.len()
    }
    /// What happened in a direction since the wire was made.
    pub fn counts(&self, direction: usize) -> FaultCounts {
        self.state().counts[direction]
    }
}

/// See the module.
pub struct Faulty {
    inner: Box<dyn Wire>,
    handle: FaultHandle,
    /// By direction: the frame that waits for the next, and until when.
    held: [Option<(u64, SentFrame)>; 2],
    /// Out of their order: cycle from which they go on, direction.
    late: Vec<(u64, usize, SentFrame)>,
    /// Of a wire with one end: from outside, on their way to it.
    arriving: VecDeque<Frame>,
}

impl Faulty {
    /// Around `inner`, which has one or two ends.
    pub fn new(inner: Box<dyn Wire>, rates: FaultRates, seed: u64) -> (Self, FaultHandle) {
        assert!(inner.ends() <= 2, "a direction for each end");
        let state = State {
            rng: ChaCha8Rng::seed_from_u64(seed),
            rates,
            numbered: BTreeMap::new(),
            matching: Vec::new(),
            next: [0; 2],
            counts: Default::default(),
        };
        let handle = FaultHandle(Arc::new(Mutex::new(state)));
        let wire = Faulty { inner, handle: handle.clone(), held: [None, None], late: Vec::new(), arriving: VecDeque::new() };
        (wire, handle)
    }
    fn enter(&mut self, direction: usize, mut sent: SentFrame) {
        let (fault, hold_bound) = {
            let mut state = self.handle.state();
            (state.fault(direction, &sent.frame.octets), state.rates.hold_bound)
        };
        let waiting = self.held[direction].take();
        match fault {
            Some(Fault::Drop) => {}
            Some(Fault::Duplicate) => {
                self.carry(direction, sent.clone());
                self.carry(direction, sent.clone());
            }
            Some(Fault::HoldPastNext) => self.held[direction] = Some((sent.last + hold_bound, sent.clone())),
            Some(Fault::Delay(cycles)) => self.late.push((sent.last + cycles, direction, sent.clone())),
            Some(Fault::Flip(bit) | Fault::FlipUnseen(bit)) => {
                let octets = &mut sent.frame.octets;
                if !octets.is_empty() {
                    let bit = bit % (octets.len() * 8);
                    octets[bit / 8] ^= 1 << (bit % 8);
                }
                sent.frame.error |= matches!(fault, Some(Fault::Flip(_)));
                self.carry(direction, sent.clone());
            }
            Some(Fault::Swap(from)) => {
                let octets = &mut sent.frame.octets;
                let differ = |at: &usize| octets[*at..at + 2] != octets[at + 2..at + 4];
                if let Some(at) = (from..octets.len().saturating_sub(3)).step_by(2).find(differ) {
                    octets[at..at + 4].rotate_left(2);
                }
                self.carry(direction, sent.clone());
            }
            None => self.carry(direction, sent.clone()),
        }
        if let Some((_, mut first)) = waiting {
            // a lost frame is none that it could wait for
            if fault == Some(Fault::Drop) {
                self.held[direction] = Some((first.last + hold_bound, first));
            } else {
                first.last = sent.last;
                self.carry(direction, first);
            }
        }
    }
    fn carry(&mut self, direction: usize, sent: SentFrame) {
        if direction < self.inner.ends() {
            self.inner.send(direction, sent);
        } else {
            self.arriving.push_back(sent.frame);
        }
    }
    /// Lets go what has waited long enough.
    fn release(&mut self, now: u64) {
        for direction in 0..2 {
            if let Some((_, mut sent)) = self.held[direction].take_if(|(due, _)| *due <= now) {
                sent.last = now;
                self.carry(direction, sent);
            }
        }
        while let Some(at) = self.late.iter().position(|(due, ..)| *due <= now) {
            let (due, direction, mut sent) = self.late.remove(at);
            sent.last = due;
            self.carry(direction, sent);
        }
    }
}

impl Wire for Faulty {
    fn ends(&self) -> usize {
        self.inner.ends()
    }
    fn send(&mut self, end: usize, sent: SentFrame) {
        self.enter(end, sent);
    }
    fn receive(&mut self, end: usize, now: u64) -> Option<Frame> {
        self.release(now);
        if self.inner.ends() == 2 {
            return self.inner.receive(end, now);
        }
        while let Some(frame) = self.inner.receive(end, now) {
            self.enter(1, SentFrame { frame, first: now, last: now, end: now });
        }
        self.arriving.pop_front()
    }
    fn idle(&self) -> bool {
        self.held.iter().all(Option::is_none) && self.late.is_empty() && self.arriving.is_empty() && self.inner.idle()
    }
    fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake()
    }
    fn rest(&mut self) {
        self.inner.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Link, Queue};

    fn sent(n: u8, last: u64) -> SentFrame {
        SentFrame { frame: Frame::good(vec![n; 64]), first: last - 8, last, end: last + 3 }
    }
    fn link(rates: FaultRates, seed: u64) -> (Faulty, FaultHandle) {
        Faulty::new(Box::new(Link::new(5)), rates, seed)
    }
    /// First octets of what arrives at an end up to a cycle.
    fn arrived(wire: &mut Faulty, end: usize, until: u64) -> Vec<u8> {
        (0..=until).flat_map(|now| std::iter::from_fn(|| wire.receive(end, now)).collect::<Vec<_>>()).map(|f| f.octets[0]).collect()
    }

    #[test]
    fn each_fault_meets_the_frame_that_it_was_asked_for() {
        for (fault, expected) in [
            (Fault::Drop, vec![0, 2, 3]),
            (Fault::Duplicate, vec![0, 1, 1, 2, 3]),
            (Fault::HoldPastNext, vec![0, 2, 1, 3]),
            (Fault::Delay(25), vec![0, 2, 3, 1]),
            (Fault::Flip(0), vec![0, 0, 2, 3]),
            (Fault::FlipUnseen(64 * 8), vec![0, 0, 2, 3]),
        ] {
            let (mut wire, handle) = link(FaultRates::default(), 1);
            handle.on(0, 1, fault);
            for n in 0..4 {
                wire.send(0, sent(n, 100 + 10 * u64::from(n)));
                wire.send(1, sent(n, 100 + 10 * u64::from(n)));
            }
            assert_eq!(arrived(&mut wire, 1, 200), expected, "{fault:?}");
            assert_eq!(arrived(&mut wire, 0, 200), [0, 1, 2, 3], "the other direction has no fault");
            assert!(wire.idle() && handle.rules_left() == 0);
            let counts = handle.counts(0);
            assert_eq!((counts.frames, counts.dropped + counts.duplicated + counts.late + counts.damaged), (4, 1), "{fault:?}");
        }
    }

    #[test]
    fn damage_is_seen_by_the_mac_or_by_nobody() {
        for (fault, error) in [(Fault::Flip(8 * 20 + 3), true), (Fault::FlipUnseen(8 * 20 + 3), false)] {
            let (mut wire, handle) = link(FaultRates::default(), 1);
            handle.on(1, 0, fault);
            wire.send(1, sent(0, 100));
            let frame = wire.receive(0, 200).expect("it arrives");
            assert_eq!((frame.error, frame.octets[20], frame.octets.iter().map(|o| u32::from(*o)).sum::<u32>()), (error, 8, 8));
        }
    }

    #[test]
    fn a_held_frame_goes_alone_when_no_other_comes_and_waits_for_one_that_arrives() {
        let rates = FaultRates { hold_bound: 50, ..FaultRates::default() };
        let (mut wire, handle) = link(rates, 1);
        handle.on(0, 0, Fault::HoldPastNext);
        wire.send(0, sent(1, 100));
        assert_eq!(arrived(&mut wire, 1, 149), [] as [u8; 0]);
        assert!(!wire.idle());
        assert_eq!(arrived(&mut wire, 1, 155), [1]);
        // the next is lost: the one after it is the next
        handle.restart();
        handle.on(0, 0, Fault::HoldPastNext);
        handle.on(0, 1, Fault::Drop);
        for n in 2..5 {
            wire.send(0, sent(n, 200 + u64::from(n)));
        }
        assert_eq!(arrived(&mut wire, 1, 300), [4, 2]);
    }

    #[test]
    fn a_rule_can_look_for_its_frame() {
        let (mut wire, handle) = link(FaultRates::default(), 1);
        handle.on_match(0, 1, Fault::Drop, |octets| octets[0] % 2 == 1);
        for n in 0..6 {
            wire.send(0, sent(n, 100));
        }
        assert_eq!(arrived(&mut wire, 1, 200), [0, 1, 2, 4, 5], "the second odd one, once");
        handle.on_every(0, Fault::Drop, |octets| octets[0] % 2 == 1);
        for n in 0..6 {
            wire.send(0, sent(n, 100));
        }
        assert_eq!(arrived(&mut wire, 1, 200), [0, 2, 4]);
        handle.restart();
        wire.send(0, sent(1, 100));
        assert_eq!(arrived(&mut wire, 1, 200), [1]);
    }

    #[test]
    fn chance_keeps_its_rates_and_repeats_with_its_seed() {
        let rates = FaultRates {
            loss: 0.1,
            duplication: 0.05,
            reorder: 0.05,
            corruption: 0.02,
            unseen_corruption: 0.02,
            delay: 0.05,
            delay_cycles: (10, 90),
            ..FaultRates::default()
        };
        let run = |seed| {
            let (mut wire, handle) = link(rates, seed);
            let mut all = Vec::new();
            for n in 0..20_000u64 {
                wire.send(0, sent(n as u8, 100 + 10 * n));
                while let Some(frame) = wire.receive(1, 100 + 10 * n) {
                    all.push(frame);
                }
            }
            (all, handle.counts(0))
        };
        let (first, counts) = run(7);
        assert!((first.clone(), counts) == run(7), "equal seeds, equal runs");
        assert!(first != run(8).0);
        for (name, n, rate) in [
            ("loss", counts.dropped, 0.1),
            ("duplication", counts.duplicated, 0.05),
            ("late", counts.late, 0.1),
            ("damage", counts.damaged, 0.04),
        ] {
            let part = n as f64 / 20_000.0;
            assert!((part - rate).abs() < rate / 5.0, "{name}: {part}, asked for {rate}");
        }
        assert_eq!(counts.frames, 20_000);
    }

    #[test]
    fn rates_are_read_and_mistakes_explained() {
        assert_eq!("".parse(), Ok(FaultRates::default()));
        assert_eq!("loss=0.5,delay=1".parse(), Ok(FaultRates { loss: 0.5, delay: 1.0, ..FaultRates::default() }));
        for bad in ["loss", "loss=2", "loss=-1", "loss=x", "luck=0.1"] {
            assert!(bad.parse::<FaultRates>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wire_with_one_end_has_two_directions_too() {
        let (queue, test) = Queue::new();
        let (mut wire, handle) = Faulty::new(Box::new(queue), FaultRates::default(), 1);
        handle.on(1, 0, Fault::HoldPastNext);
        handle.on(0, 0, Fault::Drop);
        for n in 0..3 {
            test.send(vec![n; 60]);
            wire.send(0, sent(n, 100));
        }
        assert_eq!(arrived(&mut wire, 0, 50), [1, 0, 2]);
        assert_eq!(std::iter::from_fn(|| test.receive()).map(|f| f.frame.octets[0]).collect::<Vec<_>>(), [1, 2]);
    }
}
