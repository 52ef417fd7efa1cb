// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver chooses at attach.
use crate::{device::DeviceInfo, error::Error};
use ironwarp_abi::{
    reg::{self, l2_control},
    RING_LOG2_RANGE,
};
use ironwarp_wire::MacAddr;
use std::time::Duration;

/// Registers of TCP and the MPA start-up; what is none stays as the adapter has it after its reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpSettings {
    /// Receive window in octets, 1..=65535.
    pub window: Option<u32>,
    /// First retransmission time-out, microseconds.
    pub rto_init_us: Option<u32>,
    /// Least retransmission time-out, microseconds.
    pub rto_min_us: Option<u32>,
    /// Largest retransmission time-out, microseconds, below 2^30.
    pub rto_max_us: Option<u32>,
    /// Retransmissions of a segment before its next hop is asked for again, 1..=255.
    pub r1: Option<u32>,
    /// From the first transmission of a segment to giving up, microseconds, below 2^31.
    pub r2_us: Option<u32>,
    /// The same for SYN.
    pub r2_syn_us: Option<u32>,
    /// Length of TIME-WAIT, microseconds, below 2^31.
    pub two_msl_us: Option<u32>,
    /// Challenge ACKs in 5 seconds, 0..=255.
    pub challenges: Option<u32>,
    /// For the whole MPA Request of a peer that opened a connection, microseconds.
    pub mpa_timeout_us: Option<u32>,
    /// From CONNECT to CONNECT_REPLY, microseconds.
    pub connect_timeout_us: Option<u32>,
    /// A close in order becomes a reset after this, microseconds.
    pub close_timeout_us: Option<u32>,
    /// Longest wait for the peer's FIN behind a Reply that refuses, microseconds; 0 = none.
    pub refusal_timeout_us: Option<u32>,
    /// Connection slots that only CONNECT may take.
    pub spare_slots: Option<u32>,
}

impl TcpSettings {
    /// Name, register, value, least and largest value.
    fn rows(&self) -> [(&'static str, u32, Option<u32>, u32, u32); 14] {
        const BELOW_2_31: u32 = (1 << 31) - 1;
        const BELOW_2_30: u32 = (1 << 30) - 1;
        [
            ("window", reg::TCP_WINDOW, self.window, 1, 65535),
            ("rto_init_us", reg::TCP_RTO_INIT, self.rto_init_us, 1, BELOW_2_30),
            ("rto_min_us", reg::TCP_RTO_MIN, self.rto_min_us, 1, BELOW_2_30),
            ("rto_max_us", reg::TCP_RTO_MAX, self.rto_max_us, 1, BELOW_2_30),
            ("r1", reg::TCP_R1, self.r1, 1, 255),
            ("r2_us", reg::TCP_R2, self.r2_us, 1, BELOW_2_31),
            ("r2_syn_us", reg::TCP_R2_SYN, self.r2_syn_us, 1, BELOW_2_31),
            ("two_msl_us", reg::TCP_2MSL, self.two_msl_us, 0, BELOW_2_31),
            ("challenges", reg::TCP_CHALLENGES, self.challenges, 0, 255),
            ("mpa_timeout_us", reg::MPA_TIMEOUT, self.mpa_timeout_us, 1, BELOW_2_31),
            ("connect_timeout_us", reg::CONNECT_TIMEOUT, self.connect_timeout_us, 1, BELOW_2_31),
            ("close_timeout_us", reg::CLOSE_TIMEOUT, self.close_timeout_us, 1, BELOW_2_31),
            ("refusal_timeout_us", reg::REFUSAL_TIMEOUT, self.refusal_timeout_us, 0, BELOW_2_31),
            ("spare_slots", reg::SPARE_SLOTS, self.spare_slots, 0, 65535),
        ]
    }
    /// Sets a field by its name, as `two_msl_us`.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), Error> {
        let field = match name {
            "window" => &mut self.window,
            "rto_init_us" => &mut self.rto_init_us,
            "rto_min_us" => &mut self.rto_min_us,
            "rto_max_us" => &mut self.rto_max_us,
            "r1" => &mut self.r1,
            "r2_us" => &mut self.r2_us,
            "r2_syn_us" => &mut self.r2_syn_us,
            "two_msl_us" => &mut self.two_msl_us,
            "challenges" => &mut self.challenges,
            "mpa_timeout_us" => &mut self.mpa_timeout_us,
            "connect_timeout_us" => &mut self.connect_timeout_us,
            "close_timeout_us" => &mut self.close_timeout_us,
            "refusal_timeout_us" => &mut self.refusal_timeout_us,
            "spare_slots" => &mut self.spare_slots,
            _ => {
                let names: Vec<_> = self.rows().iter().map(|row| row.0).collect();
                return Err(Error::Config(format!("{name:?} is no setting of TCP: {} are", names.join(", "))));
            }
        };
        *field = Some(value);
        self.check()
    }
    fn check(&self) -> Result<(), Error> {
        for (name, _, value, least, most) in self.rows() {
            if let Some(value) = value.filter(|v| !(least..=most).contains(v)) {
                return Err(Error::Config(format!("tcp.{name} {value} is outside {least}..={most}")));
            }
        }
        Ok(())
    }
    /// Registers and values that are given.
    pub(crate) fn registers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.rows().into_iter().filter_map(|(_, offset, value, ..)| value.map(|v| (offset, v)))
    }
}

/// Settings of an attach. `Default` suits a real net; only the MAC address should always be chosen.
#[derive(Clone, Debug)]
pub struct Config {
    /// Own MAC address.
    pub mac: MacAddr,
    /// Largest IP datagram in octets, 576 up to what the adapter can.
    pub mtu: u32,
    /// Microseconds a clock in 16.16 fixed point; none = from the clock rate that the bus knows, else as the adapter has it (1/64 us).
    pub timebase: Option<u32>,
    /// First and last port that port 0 chooses from (RFC 6056).
    pub port_range: (u16, u16),
    /// Seed of the adapter's random choices and of the secret of its initial sequence numbers; none = both from the operating system.
    /// Only tests that must repeat give one.
    pub random: Option<u32>,
    /// Life of a neighbour entry in microseconds; none = 60 s.
    pub arp_timeout_us: Option<u32>,
    /// Time between two ARP requests for one address in microseconds; none = 1 s.
    pub arp_retry_us: Option<u32>,
    /// Shortest time between two echo replies in microseconds; none = no limit.
    pub icmp_rate_us: Option<u32>,
    /// TTL of what the adapter sends; none = 64.
    pub ip_ttl: Option<u8>,
    /// Time-outs and limits of TCP and the MPA start-up.
    pub tcp: TcpSettings,
    /// log2 of command ring entries, 2..=12.
    pub cmd_log2: u32,
    /// log2 of event ring entries, 2..=12.
    pub evt_log2: u32,
    /// log2 of L2 receive descriptors, 2..=12.
    pub l2rx_log2: u32,
    /// log2 of L2 transmit descriptors, 2..=12.
    pub l2tx_log2: u32,
    /// Give frames that the adapter does not use to the host.
    pub share: bool,
    /// Multicast frames too.
    pub multicast: bool,
    /// Frames to other unicast addresses too.
    pub promiscuous: bool,
    /// Wait by interrupt; else by looking at the rings.
    pub interrupts: bool,
    /// Bound for the reply to a command.
    pub command_timeout: Duration,
    /// Bound for a reset; the adapter needs at most 100 ms of its own time.
    pub reset_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            // locally administered
            mac: MacAddr([0x02, 0x1b, 0xad, 0, 0, 1]),
            mtu: 1500,
            timebase: None,
            port_range: (49152, 65535),
            random: None,
            arp_timeout_us: None,
            arp_retry_us: None,
            icmp_rate_us: None,
            ip_ttl: None,
            tcp: TcpSettings::default(),
            cmd_log2: 6,
            evt_log2: 8,
            l2rx_log2: 7,
            l2tx_log2: 6,
            share: false,
            multicast: false,
            promiscuous: false,
            interrupts: true,
            command_timeout: Duration::from_secs(10),
            reset_timeout: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Refuses what cannot work, before anything is written.
    pub(crate) fn check(&self, info: &DeviceInfo) -> Result<(), Error> {
        let bad = |why: String| Err(Error::Config(why));
        if self.mac.is_multicast() || self.mac == MacAddr::default() {
            return bad(format!("{} cannot be the adapter's own MAC address: take a unicast one, as 02:00:00:00:00:01", self.mac));
        }
        if !(576..=info.max_mtu).contains(&self.mtu) {
            return bad(format!("MTU {} is outside 576..={}, which this adapter can", self.mtu, info.max_mtu));
        }
        if self.port_range.0 == 0 || self.port_range.0 > self.port_range.1 {
            return bad(format!("port range {}..={} is empty or contains port 0", self.port_range.0, self.port_range.1));
        }
        for (name, log2) in
            [("cmd_log2", self.cmd_log2), ("evt_log2", self.evt_log2), ("l2rx_log2", self.l2rx_log2), ("l2tx_log2", self.l2tx_log2)]
        {
            if !RING_LOG2_RANGE.contains(&log2) {
                return bad(format!("{name} {log2} is outside {}..={}", RING_LOG2_RANGE.start(), RING_LOG2_RANGE.end()));
            }
        }
        if self.ip_ttl == Some(0) {
            return bad("TTL 0 may not be sent; take 1..=255".into());
        }
        self.tcp.check()
    }
    pub(crate) fn l2_control(&self) -> u32 {
        [(self.share, l2_control::SHARE), (self.multicast, l2_control::MULTICAST), (self.promiscuous, l2_control::PROMISCUOUS)]
            .iter()
            .filter(|(on, _)| *on)
            .fold(0, |bits, (_, bit)| bits | bit)
    }
}
