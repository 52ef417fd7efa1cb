// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver chooses at attach.
use crate::{device::DeviceInfo, error::Error};
use ironwarp_abi::{reg::l2_control, RING_LOG2_RANGE};
use ironwarp_wire::MacAddr;
use std::time::Duration;

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
    /// Seed of the adapter's random choices; none = from the operating system. Only tests that must repeat give one.
    pub random: Option<u32>,
    /// Life of a neighbour entry in microseconds; none = 60 s.
    pub arp_timeout_us: Option<u32>,
    /// Time between two ARP requests for one address in microseconds; none = 1 s.
    pub arp_retry_us: Option<u32>,
    /// Shortest time between two echo replies in microseconds; none = no limit.
    pub icmp_rate_us: Option<u32>,
    /// TTL of what the adapter sends; none = 64.
    pub ip_ttl: Option<u8>,
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
        Ok(())
    }
    pub(crate) fn l2_control(&self) -> u32 {
        [(self.share, l2_control::SHARE), (self.multicast, l2_control::MULTICAST), (self.promiscuous, l2_control::PROMISCUOUS)]
            .iter()
            .filter(|(on, _)| *on)
            .fold(0, |bits, (_, bit)| bits | bit)
    }
}
