// SPDX-License-Identifier: MIT OR Apache-2.0
//! IRD, ORD and the kind of RTR: the arithmetic of enhanced MPA start-up (RFC 6581 sections 6 and 9).
//!
//! **Interface.** Inputs held for two clocks give the outputs after the second. `D` is the adapter's largest IRD and ORD.
//!
//! | op | `own_*` | `peer_*` | result |
//! |---|---|---|---|
//! | Request | what the host asks | - | clamped to `D` (ENH-8); the words of our Request; with `peer_to_peer` A, C, D are set and ORD is at least 1 for a Read RTR |
//! | Judge | what our Request said | words of the Reply | IRD raised to the peer's ORD (`no_ird` if above `D`, ENH-13), ORD lowered to its IRD; `no_rtr`: peer to peer, but no RTR that we can send (ENH-4) |
//! | Answer | what the host asks | words of the Request | the same (CM-28), `above`: our ORD had to be lowered (ENH-14); words of our Reply: A as in the Request (ENH-3), C if it was offered or nothing that we know, else D (CH-5), and then IRD at least 1 (ENH-23) |
//!
//! 0x3FFF is no number: whoever reads it leaves its own value and answers 0x3FFF in the other word (ENH-15). A host that asks for 0x3FFF sends it in the
//! Request (`open_*`) and counts on `D`. B is never set (CH-5), and with A = 0 neither B, C nor D are looked at (ENH-10). `reject_ord_word`: as `ord_word`,
//! with the ORD that was asked for instead of the lowered one, for a Reply with R = 1 (CH-24).
//!
//! **States:** none; two stages: clamp and take apart, then compare and choose. **Memory:** none.
use rust_hdl::prelude::*;

/// Who negotiates what.
#[derive(Copy, Clone, Debug, PartialEq, LogicState)]
pub enum NegotiateOp {
    /// We are to send a Request.
    Request,
    /// A Reply to our Request came.
    Judge,
    /// We are to answer a Request.
    Answer,
}

#[derive(LogicBlock)]
pub struct Negotiate<const D: usize> {
    pub clock: Signal<In, Clock>,
    pub op: Signal<In, NegotiateOp>,
    pub peer_to_peer: Signal<In, Bit>,
    pub own_ird: Signal<In, Bits<16>>,
    pub own_ord: Signal<In, Bits<16>>,
    pub peer_ird_word: Signal<In, Bits<16>>,
    pub peer_ord_word: Signal<In, Bits<16>>,
    pub ird: Signal<Out, Bits<16>>,
    pub ord: Signal<Out, Bits<16>>,
    pub ird_word: Signal<Out, Bits<16>>,
    pub ord_word: Signal<Out, Bits<16>>,
    pub reject_ord_word: Signal<Out, Bits<16>>,
    pub open_ird: Signal<Out, Bit>,
    pub open_ord: Signal<Out, Bit>,
    pub no_ird: Signal<Out, Bit>,
    pub above: Signal<Out, Bit>,
    pub no_rtr: Signal<Out, Bit>,
    // after the first stage
    mode: DFF<NegotiateOp>,
    wish: DFF<Bit>,
    have_ird: DFF<Bits<16>>,
    have_ord: DFF<Bits<16>>,
    peer_ird: DFF<Bits<16>>,
    peer_ord: DFF<Bits<16>>,
    ird_is_open: DFF<Bit>,
    ord_is_open: DFF<Bit>,
    a: DFF<Bit>,
    c: DFF<Bit>,
    d: DFF<Bit>,
    // after the second
    out_ird: DFF<Bits<16>>,
    out_ord: DFF<Bits<16>>,
    out_ird_word: DFF<Bits<16>>,
    out_ord_word: DFF<Bits<16>>,
    out_reject_ord_word: DFF<Bits<16>>,
    out_open_ird: DFF<Bit>,
    out_open_ord: DFF<Bit>,
    out_no_ird: DFF<Bit>,
    out_above: DFF<Bit>,
    out_no_rtr: DFF<Bit>,
    new_ird: Signal<Local, Bits<16>>,
    new_ord: Signal<Local, Bits<16>>,
    word_ird: Signal<Local, Bits<16>>,
    word_ord: Signal<Local, Bits<16>>,
    word_reject: Signal<Local, Bits<16>>,
    ird_bits: Signal<Local, Bits<16>>,
    ord_bits: Signal<Local, Bits<16>>,
    most: Constant<Bits<16>>,
    open_value: Constant<Bits<16>>,
    bit_a: Constant<Bits<16>>,
    bit_c: Constant<Bits<16>>,
    bit_d: Constant<Bits<16>>,
}

impl<const D: usize> Default for Negotiate<D> {
    fn default() -> Self {
        assert!((1..0x3fff).contains(&D), "0x3fff is no number");
        Self {
            clock: Default::default(),
            op: Default::default(),
            peer_to_peer: Default::default(),
            own_ird: Default::default(),
            own_ord: Default::default(),
            peer_ird_word: Default::default(),
            peer_ord_word: Default::default(),
            ird: Default::default(),
            ord: Default::default(),
            ird_word: Default::default(),
            ord_word: Default::default(),
            reject_ord_word: Default::default(),
            open_ird: Default::default(),
            open_ord: Default::default(),
            no_ird: Default::default(),
            above: Default::default(),
            no_rtr: Default::default(),
            mode: Default::default(),
            wish: Default::default(),
            have_ird: Default::default(),
            have_ord: Default::default(),
            peer_ird: Default::default(),
            peer_ord: Default::default(),
            ird_is_open: Default::default(),
            ord_is_open: Default::default(),
            a: Default::default(),
            c: Default::default(),
            d: Default::default(),
            out_ird: Default::default(),
            out_ord: Default::default(),
            out_ird_word: Default::default(),
            out_ord_word: Default::default(),
            out_reject_ord_word: Default::default(),
            out_open_ird: Default::default(),
            out_open_ord: Default::default(),
            out_no_ird: Default::default(),
            out_above: Default::default(),
            out_no_rtr: Default::default(),
            new_ird: Default::default(),
            new_ord: Default::default(),
            word_ird: Default::default(),
            word_ord: Default::default(),
            word_reject: Default::default(),
            ird_bits: Default::default(),
            ord_bits: Default::default(),
            most: Constant::new((D as u64).to_bits()),
            open_value: Constant::new(0x3fff_u64.to_bits()),
            bit_a: Constant::new(0x8000_u64.to_bits()),
            bit_c: Constant::new(0x8000_u64.to_bits()),
            bit_d: Constant::new(0x4000_u64.to_bits()),
        }
    }
}

impl<const D: usize> Logic for Negotiate<D> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, mode, wish, have_ird, have_ord, peer_ird, peer_ord, ird_is_open, ord_is_open, a, c, d);
        dff_setup!(self, clock, out_ird, out_ord, out_ird_word, out_ord_word, out_reject_ord_word);
        dff_setup!(self, clock, out_open_ird, out_open_ord, out_no_ird, out_above, out_no_rtr);

        // first stage
        self.mode.d.next = self.op.val();
        self.wish.d.next = self.peer_to_peer.val();
        self.have_ird.d.next = self.own_ird.val();
        if self.own_ird.val() > self.most.val() {
            self.have_ird.d.next = self.most.val();
        }
        self.have_ord.d.next = self.own_ord.val();
        if self.own_ord.val() > self.most.val() {
            self.have_ord.d.next = self.most.val();
        }
        if (self.op.val() == NegotiateOp::Request) & self.peer_to_peer.val() & (self.own_ord.val() == 0) {
            self.have_ord.d.next = 1.into();
        }
        self.peer_ird.d.next = bit_cast::<16, 14>(self.peer_ird_word.val().get_bits::<14>(0));
        self.peer_ord.d.next = bit_cast::<16, 14>(self.peer_ord_word.val().get_bits::<14>(0));
        self.ird_is_open.d.next = self.peer_ird_word.val().get_bits::<14>(0) == 0x3FFF;
        self.ord_is_open.d.next = self.peer_ord_word.val().get_bits::<14>(0) == 0x3FFF;
        self.a.d.next = self.peer_ird_word.val().get_bit(15);
        self.c.d.next = self.peer_ord_word.val().get_bit(15);
        self.d.d.next = self.peer_ord_word.val().get_bit(14);
        if self.op.val() == NegotiateOp::Request {
            // nobody to compare with; what the host left open goes out as open
            self.a.d.next = self.peer_to_peer.val();
            self.ird_is_open.d.next = self.own_ord.val() == self.open_value.val();
            self.ord_is_open.d.next = self.own_ird.val() == self.open_value.val();
        }

        // second stage
        self.new_ird.next = self.have_ird.q.val();
        self.new_ord.next = self.have_ord.q.val();
        self.out_no_ird.d.next = false;
        self.out_above.d.next = false;
        if self.mode.q.val() != NegotiateOp::Request {
            if !self.ord_is_open.q.val() {
                if self.peer_ord.q.val() > self.most.val() {
                    self.out_no_ird.d.next = true;
                    self.new_ird.next = self.most.val();
                } else if self.peer_ord.q.val() > self.have_ird.q.val() {
                    self.new_ird.next = self.peer_ord.q.val();
                }
            }
            if !self.ird_is_open.q.val() & (self.have_ord.q.val() > self.peer_ird.q.val()) {
                self.out_above.d.next = true;
                self.new_ord.next = self.peer_ird.q.val();
            }
        }
        self.ird_bits.next = 0.into();
        self.ord_bits.next = 0.into();
        if self.a.q.val() {
            self.ird_bits.next = self.bit_a.val();
            if self.mode.q.val() == NegotiateOp::Request {
                self.ord_bits.next = self.bit_c.val() | self.bit_d.val();
            } else if self.c.q.val() | !self.d.q.val() {
                self.ord_bits.next = self.bit_c.val();
            } else {
                self.ord_bits.next = self.bit_d.val();
                if (self.mode.q.val() == NegotiateOp::Answer) & (self.new_ird.val() == 0) {
                    self.new_ird.next = 1.into();
                }
            }
        }
        self.out_no_rtr.d.next = self.wish.q.val() & !(self.a.q.val() & (self.c.q.val() | (self.d.q.val() & (self.new_ord.val() != 0))));
        self.word_ird.next = self.new_ird.val();
        if self.ord_is_open.q.val() {
            self.word_ird.next = self.open_value.val();
        }
        self.word_ord.next = self.new_ord.val();
        self.word_reject.next = self.have_ord.q.val();
        if self.ird_is_open.q.val() {
            self.word_ord.next = self.open_value.val();
            self.word_reject.next = self.open_value.val();
        }
        self.out_ird.d.next = self.new_ird.val();
        self.out_ord.d.next = self.new_ord.val();
        self.out_ird_word.d.next = self.word_ird.val() | self.ird_bits.val();
        self.out_ord_word.d.next = self.word_ord.val() | self.ord_bits.val();
        self.out_reject_ord_word.d.next = self.word_reject.val() | self.ord_bits.val();
        self.out_open_ird.d.next = self.ord_is_open.q.val();
        self.out_open_ord.d.next = self.ird_is_open.q.val();

        self.ird.next = self.out_ird.q.val();
        self.ord.next = self.out_ord.q.val();
        self.ird_word.next = self.out_ird_word.q.val();
        self.ord_word.next = self.out_ord_word.q.val();
        self.reject_ord_word.next = self.out_reject_ord_word.q.val();
        self.open_ird.next = self.out_open_ird.q.val();
        self.open_ord.next = self.out_open_ord.q.val();
        self.no_ird.next = self.out_no_ird.q.val();
        self.above.next = self.out_above.q.val();
        self.no_rtr.next = self.out_no_rtr.q.val();
    }
}
