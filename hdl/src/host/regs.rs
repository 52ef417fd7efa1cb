// SPDX-License-Identifier: MIT OR Apache-2.0
//! BAR0: the registers, made from the lists in `ironwarp_abi`.
//!
//! Interface: `mmio_*` takes one 32-bit access a handshake (`mmio_read` or `mmio_write` with `mmio_ready`); a read is answered by one
//! clock of `mmio_rvalid`, and nothing is taken between a read and its answer. For each row of the lists there is one port with the
//! row's name: a *configuration* register is an output of 32 bits, a *strobe* register is an output bit that is high for one clock a
//! write, with the written word in `strobe_value`, a *status* register is an input of 32 bits. Counter reads go out by `counter_*`
//! and may take any time. What is not in the lists, and what is not aligned, reads 0 and writes nothing.
//!
//! States: idle -> (read) decode -> select -> answer; a counter read waits between decode and answer for `counter_done`. Writes are
//! pipelined, one a clock. `reset` brings configuration to its reset values and does not touch the handshake, so that STATUS can be
//! read during a reset; a counter read that waits when `reset` comes is answered with 0.
//!
//! Timing: strobe and new configuration value 1 and 2 clocks after the write was taken; read answer 3 clocks after it was taken. Both
//! sides of the read multiplexer are registers. Memory: flip-flops only, 32 a configuration register.
use rust_hdl::prelude::*;

macro_rules! with_config { ($($config:tt)*) => { ironwarp_abi::for_each_strobe_register! { with_strobes { $($config)* } } } }
macro_rules! with_strobes { ({ $($config:tt)* } $($strobes:tt)*) => {
    ironwarp_abi::for_each_status_register! { define { $($config)* } { $($strobes)* } }
} }
macro_rules! define { (
    { $($config_name:ident $config:ident $config_offset:tt $config_reset:tt $config_doc:tt;)* }
    { $($strobe_name:ident $strobe:ident $strobe_offset:tt $strobe_reset:tt $strobe_doc:tt;)* }
    $($status_name:ident $status:ident $status_offset:tt $status_reset:tt $status_doc:tt;)*
) => {
    /// The value of every configuration register.
    #[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
    pub struct Settings { $(#[doc = $config_doc] pub $config: Bits<32>),* }

    /// Which register the access is to, one bit each.
    #[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
    pub struct Selected { $(pub $config: Bit,)* $(pub $strobe: Bit,)* $(pub $status: Bit),* }

    #[derive(LogicBlock)]
    pub struct Regs {
        pub clock: Signal<In, Clock>,
        pub reset: Signal<In, Bit>,
        pub mmio_addr: Signal<In, Bits<16>>,
        pub mmio_wdata: Signal<In, Bits<32>>,
        pub mmio_write: Signal<In, Bit>,
        pub mmio_read: Signal<In, Bit>,
        pub mmio_ready: Signal<Out, Bit>,
        pub mmio_rvalid: Signal<Out, Bit>,
        pub mmio_rdata: Signal<Out, Bits<32>>,
        $(#[doc = $config_doc] pub $config: Signal<Out, Bits<32>>,)*
        $(#[doc = $strobe_doc] pub $strobe: Signal<Out, Bit>,)*
        /// What was written, while a strobe is high.
        pub strobe_value: Signal<Out, Bits<32>>,
        $(#[doc = $status_doc] pub $status: Signal<In, Bits<32>>,)*
        /// Read half `counter_high` of counter `counter_index`: high until `counter_done`.
        pub counter_read: Signal<Out, Bit>,
        pub counter_index: Signal<Out, Bits<7>>,
        pub counter_high: Signal<Out, Bit>,
        pub counter_done: Signal<In, Bit>,
        pub counter_data: Signal<In, Bits<32>>,
        settings: DFF<Settings>,
        reset_values: Constant<Settings>,
        // the access as it was taken
        addr: DFF<Bits<16>>,
        hit: DFF<Selected>,
        of_counter: DFF<Bit>,
        word: DFF<Bits<32>>,
        writing: DFF<Bit>,
        reading: DFF<Bit>,
        // its second clock
        counting: DFF<Bit>,
        config_word: DFF<Bits<32>>,
        status_word: DFF<Bits<32>>,
        selected: DFF<Bit>,
        // the answer
        answer: DFF<Bits<32>>,
        answered: DFF<Bit>,
        ready: Signal<Local, Bit>,
        /// AND-OR of all registers behind one-hot flip-flops: far fewer LUTs than a chain of multiplexers.
        config_pick: Signal<Local, Bits<32>>,
        status_pick: Signal<Local, Bits<32>>,
        counters_page: Constant<Bits<6>>,
    }

    impl Default for Regs {
        fn default() -> Self {
            Self {
                clock: Default::default(),
                reset: Default::default(),
                mmio_addr: Default::default(),
                mmio_wdata: Default::default(),
                mmio_write: Default::default(),
                mmio_read: Default::default(),
                mmio_ready: Default::default(),
                mmio_rvalid: Default::default(),
                mmio_rdata: Default::default(),
                $($config: Default::default(),)*
                $($strobe: Default::default(),)*
                strobe_value: Default::default(),
                $($status: Default::default(),)*
                counter_read: Default::default(),
                counter_index: Default::default(),
                counter_high: Default::default(),
                counter_done: Default::default(),
                counter_data: Default::default(),
                settings: Default::default(),
                reset_values: Constant::new(Settings { $($config: ($config_reset as u64).to_bits()),* }),
                addr: Default::default(),
                hit: Default::default(),
                of_counter: Default::default(),
                word: Default::default(),
                writing: Default::default(),
                reading: Default::default(),
                counting: Default::default(),
                config_word: Default::default(),
                status_word: Default::default(),
                selected: Default::default(),
                answer: Default::default(),
                answered: Default::default(),
                ready: Default::default(),
                config_pick: Default::default(),
                status_pick: Default::default(),
                counters_page: Constant::new(u64::from(ironwarp_abi::reg::COUNTERS >> 10).to_bits()),
            }
        }
    }

    impl Logic for Regs {
        #[hdl_gen]
        fn update(&mut self) {
            dff_setup!(self, clock, settings, addr, hit, of_counter, word, writing, reading, counting, config_word, status_word, selected, answer, answered);
            self.ready.next = !(self.reading.q.val() | self.counting.q.val() | self.selected.q.val() | self.answered.q.val());
            self.mmio_ready.next = self.ready.val();
            self.addr.d.next = self.addr.q.val();
            self.word.d.next = self.word.q.val();
            self.writing.d.next = false;
            self.reading.d.next = false;
            if self.ready.val() & (self.mmio_read.val() | self.mmio_write.val()) {
                self.addr.d.next = self.mmio_addr.val();
                self.word.d.next = self.mmio_wdata.val();
                self.writing.d.next = self.mmio_write.val();
                self.reading.d.next = self.mmio_read.val() & !self.mmio_write.val();
                $(self.hit.d.next.$config = self.mmio_addr.val() == bits::<16>($config_offset);)*
                $(self.hit.d.next.$strobe = self.mmio_addr.val() == bits::<16>($strobe_offset);)*
                $(self.hit.d.next.$status = self.mmio_addr.val() == bits::<16>($status_offset);)*
                // counter n lies at COUNTERS + 8 * n; a window of 1024 octets
                self.of_counter.d.next = (self.mmio_addr.val().get_bits::<6>(10) == self.counters_page.val()) & !self.mmio_addr.val().get_bit(1) & !self.mmio_addr.val().get_bit(0);
            }

            self.strobe_value.next = self.word.q.val();
            $(self.$strobe.next = self.writing.q.val() & self.hit.q.val().$strobe;)*
            self.config_pick.next = 0.into();
            $(
                self.$config.next = self.settings.q.val().$config;
                if self.hit.q.val().$config {
                    self.config_pick.next = self.config_pick.val() | self.settings.q.val().$config;
                    if self.writing.q.val() {
                        self.settings.d.next.$config = self.word.q.val();
                    }
                }
            )*
            self.config_word.d.next = self.config_pick.val();
            self.status_pick.next = 0.into();
            $(
                if self.hit.q.val().$status {
                    self.status_pick.next = self.status_pick.val() | self.$status.val();
                }
            )*
            self.status_word.d.next = self.status_pick.val();

            self.counter_index.next = self.addr.q.val().get_bits::<7>(3);
            self.counter_high.next = self.addr.q.val().get_bit(2);
            self.counter_read.next = self.counting.q.val();
            self.selected.d.next = self.reading.q.val() & !self.of_counter.q.val();
            if self.reading.q.val() & self.of_counter.q.val() {
                self.counting.d.next = true;
            }
            self.answer.d.next = self.config_word.q.val() | self.status_word.q.val();
            self.answered.d.next = self.selected.q.val();
            if self.counting.q.val() {
                self.answer.d.next = self.counter_data.val();
                if self.counter_done.val() | self.reset.val() {
                    self.counting.d.next = false;
                    self.answered.d.next = true;
                }
                if self.reset.val() {
                    self.answer.d.next = 0.into();
                }
            }
            self.mmio_rvalid.next = self.answered.q.val();
            self.mmio_rdata.next = self.answer.q.val();
            if self.reset.val() {
                self.settings.d.next = self.reset_values.val();
            }
        }
    }
} }
ironwarp_abi::for_each_config_register!(with_config);
