// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MAC between the core's beats and the frames of a wire, with the pace of the line.
//!
//! A frame occupies the line for its octets and 24 more (preamble 8, FCS 4, gap 12). Sending, the MAC is ready for a beat when the
//! line has room for it, so the core cannot send faster than the line; receiving, beats come at the pace of the line.
use crate::{
    monitor::{Monitor, Rule, MAX_FRAME, MIN_FRAME},
    pins::{Inputs, Outputs},
    record::{Record, Recorder},
    wire::{Frame, SentFrame},
};
use std::collections::VecDeque;

/// Speed of a line: `octets` in `cycles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRate {
    /// Octets, at least 1.
    pub octets: u32,
    /// Cycles, at least 1.
    pub cycles: u32,
}

impl LineRate {
    /// A beat in every cycle: 10 Gbit/s at 156.25 MHz, or 4 Gbit/s at 62.5 MHz.
    pub const FULL: LineRate = LineRate { octets: 8, cycles: 1 };
    /// 1 Gbit/s at 62.5 MHz: a beat in every fourth cycle.
    pub const GIGABIT_AT_62_5_MHZ: LineRate = LineRate { octets: 2, cycles: 1 };
}

/// Octets of line time that a frame costs beside its own.
pub const FRAME_OVERHEAD: u64 = 24;
/// Octets of the overhead that come before the frame: preamble and start delimiter.
const PREAMBLE: u64 = 8;

/// Line time in parts of a cycle: one cycle is `rate.octets` of them, one octet `rate.cycles`.
#[derive(Clone, Copy)]
struct LineTime {
    per_cycle: u64,
    per_octet: u64,
}

impl LineTime {
    fn new(rate: LineRate) -> Self {
        LineTime { per_cycle: rate.octets.max(1).into(), per_octet: rate.cycles.max(1).into() }
    }
    fn at(self, cycle: u64) -> u64 {
        cycle * self.per_cycle
    }
    /// First cycle at or after `time`.
    fn cycle(self, time: u64) -> u64 {
        time.div_ceil(self.per_cycle)
    }
}

/// See the module.
pub struct Mac {
    time: LineTime,
    // receive
    waiting: VecDeque<Frame>,
    receiving: Option<Frame>,
    rx_at: usize,
    rx_first: u64,
    /// Line time at which the next beat is complete.
    rx_due: u64,
    rx_free: u64,
    // send
    sending: Vec<u8>,
    tx_first: u64,
    tx_start: u64,
    tx_due: u64,
    dropping: bool,
    sent: VecDeque<SentFrame>,
}

impl Mac {
    pub(crate) fn new(rate: LineRate) -> Self {
        Mac {
            time: LineTime::new(rate),
            waiting: VecDeque::new(),
            receiving: None,
            rx_at: 0,
            rx_first: 0,
            rx_due: 0,
            rx_free: 0,
            sending: Vec::with_capacity(2048),
            tx_first: 0,
            tx_start: 0,
            tx_due: 0,
            dropping: false,
            sent: VecDeque::new(),
        }
    }
    /// A frame has arrived whole: the core gets it as soon as the line allows. A frame without octets is no frame.
    pub(crate) fn deliver(&mut self, frame: Frame) {
        if !frame.octets.is_empty() {
            self.waiting.push_back(frame);
        }
    }
    pub(crate) fn sent(&mut self) -> Option<SentFrame> {
        self.sent.pop_front()
    }
    pub(crate) fn backlog(&self) -> usize {
        self.waiting.len() + usize::from(self.receiving.is_some())
    }
    pub(crate) fn idle(&self) -> bool {
        self.waiting.is_empty() && self.receiving.is_none() && self.sending.is_empty() && self.sent.is_empty()
    }
    /// Fills in this clock's inputs.
    pub(crate) fn drive(&mut self, now: u64, i: &mut Inputs) {
        i.tx_ready = self.time.at(now) >= self.tx_due;
        if self.receiving.is_none() {
            if let Some(frame) = self.waiting.pop_front() {
                // the frame is here as a whole; its beats come as if the line carried it from now on, its preamble before
                let start = self.rx_free.max(self.time.at(now).saturating_sub((PREAMBLE + 8) * self.time.per_octet));
                self.rx_at = 0;
                self.rx_due = start + (PREAMBLE + frame.octets.len().min(8) as u64) * self.time.per_octet;
                self.rx_free = start + (frame.octets.len() as u64 + FRAME_OVERHEAD) * self.time.per_octet;
                self.receiving = Some(frame);
            }
        }
        if let Some(frame) = self.receiving.as_ref().filter(|_| self.time.cycle(self.rx_due) <= now) {
            let octets = &frame.octets[self.rx_at..frame.octets.len().min(self.rx_at + 8)];
            let mut beat = [0; 8];
            beat[..octets.len()].copy_from_slice(octets);
            i.rx_data = u64::from_le_bytes(beat);
            i.rx_keep = (0xff_u16 >> (8 - octets.len())) as u8;
            i.rx_last = self.rx_at + 8 >= frame.octets.len();
            i.rx_error = i.rx_last && frame.error;
            i.rx_valid = true;
        }
    }
    /// Takes what passed at this clock's edge.
    pub(crate) fn edge(&mut self, now: u64, i: &Inputs, o: &Outputs, monitor: &mut Monitor, recorder: &mut Recorder) {
        if i.rx_valid {
            recorder.mix(now ^ i.rx_data.rotate_left(13) ^ u64::from(i.rx_keep) << 56);
            if self.rx_at == 0 {
                self.rx_first = now;
            }
            self.rx_at += 8;
            if i.rx_last {
                if let Some(frame) = self.receiving.take() {
                    let len = frame.octets.len() as u32;
                    recorder.add(Record::FrameIn { first: self.rx_first, last: now, len, error: frame.error });
                }
            } else if let Some(frame) = &self.receiving {
                self.rx_due += (frame.octets.len() - self.rx_at).min(8) as u64 * self.time.per_octet;
            }
        }
        if i.tx_ready && o.tx_valid {
            recorder.mix(now ^ o.tx_data.rotate_left(19) ^ u64::from(o.tx_keep) << 56);
            self.take_beat(now, o, monitor, recorder);
        }
    }
    fn take_beat(&mut self, now: u64, o: &Outputs, monitor: &mut Monitor, recorder: &mut Recorder) {
        if self.sending.is_empty() && !self.dropping {
            self.tx_first = now;
            self.tx_start = self.tx_due.max(self.time.at(now));
        }
        let octets = 8 - o.tx_keep.leading_zeros() as usize;
        if self.dropping {
            self.dropping = !o.tx_last;
        } else {
            self.sending.extend_from_slice(&o.tx_data.to_le_bytes()[..octets]);
            if self.sending.len() > MAX_FRAME {
                monitor.report(now, Rule::TxEndless);
                self.sending.clear();
                self.dropping = !o.tx_last;
                return;
            }
        }
        let len = self.sending.len() as u64;
        if !o.tx_last {
            self.tx_due = self.tx_start + len * self.time.per_octet;
            return;
        }
        self.tx_due = self.tx_start + (len + FRAME_OVERHEAD) * self.time.per_octet;
        if self.sending.is_empty() {
            return;
        }
        if self.sending.len() < MIN_FRAME {
            monitor.report(now, Rule::TxRunt(len as u32));
        }
        let end = self.time.cycle(self.tx_start + (len + PREAMBLE + 4) * self.time.per_octet).max(now + 1);
        recorder.add(Record::FrameOut { first: self.tx_first, last: now, len: len as u32 });
        let octets = self.sending.clone();
        self.sending.clear();
        self.sent.push_back(SentFrame { frame: Frame { octets, error: false }, first: self.tx_first, last: now, end });
    }
    /// The core was reset: a frame cut short is not sent; the wire goes on.
    pub(crate) fn reset(&mut self) {
        self.sending.clear();
        self.dropping = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> Frame {
        Frame::good((0..len).map(|k| k as u8).collect())
    }

    /// Cycles at which beats of `frames` reach the core.
    fn arrivals(rate: LineRate, frames: &[usize], cycles: u64) -> Vec<u64> {
        let (mut mac, mut m, mut r) = (Mac::new(rate), Monitor::default(), Recorder::default());
        frames.iter().for_each(|len| mac.deliver(frame(*len)));
        let mut seen = Vec::new();
        for now in 0..cycles {
            let mut i = Inputs::default();
            mac.drive(now, &mut i);
            if i.rx_valid {
                seen.push(now);
            }
            mac.edge(now, &i, &Outputs::default(), &mut m, &mut r);
        }
        seen
    }

    #[test]
    fn a_frame_costs_24_octets_more_than_it_has() {
        // 64 octets at 8 a cycle: 8 beats and 3 cycles of nothing
        let seen = arrivals(LineRate::FULL, &[64, 64, 64], 100);
        assert_eq!(seen.len(), 24);
        assert_eq!(seen[8] - seen[0], 11);
        assert_eq!(seen[16] - seen[8], 11);
        // 1 Gbit/s at 62.5 MHz: a beat in 4 cycles, 84 octets on the line = 42 cycles from frame to frame
        let seen = arrivals(LineRate::GIGABIT_AT_62_5_MHZ, &[60, 60], 200);
        assert_eq!(seen.len(), 16);
        assert!(seen[..7].windows(2).all(|w| w[1] - w[0] == 4), "{seen:?}");
        assert_eq!(seen[8] - seen[0], 42);
    }

    #[test]
    fn the_core_cannot_send_faster_than_the_line() {
        for (rate, spacing) in [(LineRate::FULL, 11), (LineRate::GIGABIT_AT_62_5_MHZ, 44), (LineRate { octets: 16, cycles: 8 }, 44)] {
            let (mut mac, mut m, mut r) = (Mac::new(rate), Monitor::default(), Recorder::default());
            r.keep(100);
            let mut beat = 0;
            for now in 0..1000 {
                let mut i = Inputs::default();
                mac.drive(now, &mut i);
                let o = Outputs { tx_valid: true, tx_data: beat, tx_keep: 0xff, tx_last: beat % 8 == 7, ..Default::default() };
                m.check(now, &i, &o);
                mac.edge(now, &i, &o, &mut m, &mut r);
                beat += u64::from(i.tx_ready);
            }
            let firsts: Vec<u64> =
                r.iter().filter_map(|r| if let Record::FrameOut { first, .. } = r { Some(*first) } else { None }).collect();
            assert!(firsts.len() >= 20, "{rate:?}: {firsts:?}");
            assert!(firsts.windows(2).all(|w| w[1] - w[0] == spacing), "{rate:?}: {firsts:?}");
            assert_eq!(m.total(), 0, "{:?}", m.violations());
            let sent = mac.sent().expect("a frame");
            assert_eq!(sent.frame.octets.len(), 64);
            assert_eq!(sent.frame.octets[8..16], 1_u64.to_le_bytes());
        }
    }

    #[test]
    fn damage_is_marked_in_the_last_beat_and_a_runt_is_reported() {
        let (mut mac, mut m, mut r) = (Mac::new(LineRate::FULL), Monitor::default(), Recorder::default());
        mac.deliver(Frame { octets: vec![1; 13], error: true });
        let mut marks = Vec::new();
        for now in 0..10 {
            let mut i = Inputs::default();
            mac.drive(now, &mut i);
            if i.rx_valid {
                marks.push((i.rx_keep, i.rx_last, i.rx_error));
            }
            let o = Outputs { tx_valid: now == 5, tx_keep: 0x1f, tx_last: true, ..Default::default() };
            mac.edge(now, &i, &o, &mut m, &mut r);
        }
        assert_eq!(marks, [(0xff, false, false), (0x1f, true, true)]);
        assert_eq!(m.violations().iter().map(|v| v.rule).collect::<Vec<_>>(), [Rule::TxRunt(5)]);
    }
}
