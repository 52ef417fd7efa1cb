// SPDX-License-Identifier: MIT OR Apache-2.0
//! The invariants of the ports, checked in every clock.
//!
//! | rule | source |
//! |---|---|
//! | what is offered stays until it is taken, unless reset is asserted | `stream/mod.rs` |
//! | a DMA write has ceil(len / 8) beats, `last` on the final one only; lengths are 1..=65535 | `host/dma.rs` |
//! | `tx_keep` is all ones but in the last beat, and contiguous from bit 0 there | `stream/mod.rs` |
//! | once a frame has begun, the MAC gets a beat whenever it is ready for one | the wire cannot pause |
//! | a frame has 60 octets or more without FCS, and an end | IEEE 802.3 |
//! | a register answer comes only for a read | `core.rs` |
//! | vectors exist | `ironwarp_abi::VECTORS` |
use crate::pins::{Inputs, Outputs};

/// A rule that the core broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `valid` went away, or the value beside it changed, without `ready`.
    Withdrawn {
        /// Name of the channel: `rd_req`, `wr_req`, `wr_data`, `irq`, `tx`.
        channel: &'static str,
    },
    /// A DMA request of length 0.
    EmptyDma,
    /// `wr_data_last` before the final beat.
    WriteLastEarly,
    /// No `wr_data_last` in the final beat.
    WriteLastMissing,
    /// `tx_keep` with holes, empty, or partial before the last beat.
    Keep(u8),
    /// The MAC was ready in the middle of a frame and got nothing.
    TxGap,
    /// A frame of fewer than 60 octets (its number of octets).
    TxRunt(u32),
    /// A frame that went on beyond [`MAX_FRAME`] octets.
    TxEndless,
    /// `mmio_rvalid` without a read.
    StrayAnswer,
    /// A vector that does not exist.
    BadVector(u8),
}

/// A broken rule and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Cycle of the adapter.
    pub cycle: u64,
    /// Rule.
    pub rule: Rule,
}

/// Longest frame that the MAC takes, in octets without FCS.
pub const MAX_FRAME: usize = 16 << 10;
/// Shortest frame that the MAC takes, in octets without FCS.
pub const MIN_FRAME: usize = 60;
/// Violations kept; further ones are counted.
const KEPT: usize = 64;

/// Remembers what was offered in the clock before.
#[derive(Default)]
pub struct Monitor {
    last_in: Inputs,
    last_out: Outputs,
    in_frame: bool,
    in_gap: bool,
    violations: Vec<Violation>,
    total: u64,
}

impl Monitor {
    /// Rules broken so far, the first 64 of them.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
    /// Number of rules broken so far.
    pub fn total(&self) -> u64 {
        self.total
    }
    /// Forgets what was found, for a test that breaks rules on purpose.
    pub fn take(&mut self) -> Vec<Violation> {
        self.total = 0;
        std::mem::take(&mut self.violations)
    }
    pub(crate) fn report(&mut self, cycle: u64, rule: Rule) {
        self.total += 1;
        if self.violations.len() < KEPT {
            self.violations.push(Violation { cycle, rule });
        }
        tracing::warn!(cycle, ?rule, "the core broke a rule of its ports");
    }
    /// Looks at one clock: `i` and `o` as the rising edge sees them.
    pub fn check(&mut self, cycle: u64, i: &Inputs, o: &Outputs) {
        let (pi, po) = (self.last_in, self.last_out);
        if !i.reset && !pi.reset {
            let held = [
                (
                    "rd_req",
                    po.rd_req_valid && !pi.rd_req_ready,
                    (o.rd_req_valid, o.rd_req_addr, o.rd_req_len) == (true, po.rd_req_addr, po.rd_req_len),
                ),
                (
                    "wr_req",
                    po.wr_req_valid && !pi.wr_req_ready,
                    (o.wr_req_valid, o.wr_req_addr, o.wr_req_len) == (true, po.wr_req_addr, po.wr_req_len),
                ),
                (
                    "wr_data",
                    po.wr_data_valid && !pi.wr_data_ready,
                    (o.wr_data_valid, o.wr_data, o.wr_data_last) == (true, po.wr_data, po.wr_data_last),
                ),
                ("irq", po.irq_valid && !pi.irq_ready, (o.irq_valid, o.irq_vector) == (true, po.irq_vector)),
                (
                    "tx",
                    po.tx_valid && !pi.tx_ready,
                    (o.tx_valid, o.tx_data, o.tx_keep, o.tx_last) == (true, po.tx_data, po.tx_keep, po.tx_last),
                ),
            ];
            for (channel, offered, kept) in held {
                if offered && !kept {
                    self.report(cycle, Rule::Withdrawn { channel });
                }
            }
        }
        if i.reset {
            self.in_frame = false;
            self.in_gap = false;
        } else if i.tx_ready {
            if o.tx_valid {
                let contiguous = o.tx_keep != 0 && o.tx_keep & o.tx_keep.wrapping_add(1) == 0;
                if !contiguous || (!o.tx_last && o.tx_keep != 0xff) {
                    self.report(cycle, Rule::Keep(o.tx_keep));
                }
                self.in_frame = !o.tx_last;
                self.in_gap = false;
            } else if self.in_frame && !self.in_gap {
                self.in_gap = true;
                self.report(cycle, Rule::TxGap);
            }
        }
        if o.irq_valid && !i.reset && usize::from(o.irq_vector) >= ironwarp_abi::VECTORS {
            self.report(cycle, Rule::BadVector(o.irq_vector));
        }
        self.last_in = *i;
        self.last_out = *o;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(clocks: &[(Inputs, Outputs)]) -> Vec<Rule> {
        let mut m = Monitor::default();
        for (cycle, (i, o)) in clocks.iter().enumerate() {
            m.check(cycle as u64, i, o);
        }
        m.violations().iter().map(|v| v.rule).collect()
    }

    #[test]
    fn an_offer_withdrawn_or_changed_is_seen() {
        let idle = (Inputs::default(), Outputs::default());
        let offer = |addr| (Inputs::default(), Outputs { rd_req_valid: true, rd_req_addr: addr, rd_req_len: 8, ..Default::default() });
        let gone = Rule::Withdrawn { channel: "rd_req" };
        assert_eq!(run(&[offer(8), offer(8), idle]), [gone]);
        assert_eq!(run(&[offer(8), offer(16)]), [gone]);
        let mut taken = offer(8);
        taken.0.rd_req_ready = true;
        assert_eq!(run(&[offer(8), taken, idle, offer(16)]), []);
        let mut reset = idle;
        reset.0.reset = true;
        assert_eq!(run(&[offer(8), reset, idle]), [], "reset ends every offer");
    }

    #[test]
    fn a_gap_in_a_frame_and_a_bad_keep_are_seen() {
        let ready = Inputs { tx_ready: true, ..Default::default() };
        let beat = |keep, last| (ready, Outputs { tx_valid: true, tx_keep: keep, tx_last: last, ..Default::default() });
        let none = (ready, Outputs::default());
        assert_eq!(run(&[none, beat(0xff, false), beat(0x0f, true), none, none]), []);
        assert_eq!(run(&[beat(0xff, false), none, none, beat(0xff, true)]), [Rule::TxGap]);
        assert_eq!(run(&[beat(0x0f, false), beat(0x05, true), beat(0, true)]), [Rule::Keep(0x0f), Rule::Keep(5), Rule::Keep(0)]);
        let busy = (Inputs::default(), Outputs::default());
        assert_eq!(run(&[beat(0xff, false), busy, beat(0xff, true)]), [], "the MAC was not ready");
    }
}
