// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device is set up to be: limits, MPA, timers.
use ironwarp_iwcm::MpaOptions;
use std::time::Duration;

/// Set-up of a [`crate::Soft`].
#[derive(Clone, Debug)]
pub struct SoftConfig {
    /// As tools show it.
    pub name: String,
    /// How MPA starts where a connection does not say it; `crc` and `markers` for both roles.
    pub mpa: MpaOptions,
    /// RTR by a Write of no octets may be offered and chosen.
    pub rtr_write: bool,
    /// RTR by a Read of no octets may be offered and chosen.
    pub rtr_read: bool,
    /// Largest IRD and ORD of a connection.
    pub max_depth: u16,
    /// Connections of a listener whose Request is not complete; above it the kernel's queue fills, then SYNs are not answered.
    pub half_open: usize,
    /// From connect to CONNECT_REPLY, if the connection does not say it.
    pub connect_timeout: Duration,
    /// From the end of TCP's handshake to a complete Request.
    pub request_timeout: Duration,
    /// From a Reply that refuses to our FIN, if the peer does not close before.
    pub refusal_timeout: Duration,
    /// From our FIN to the peer's; then RST.
    pub close_timeout: Duration,
    /// From an error to the peer's FIN; then RST.
    pub terminate_timeout: Duration,
    /// Longest wait of [`ironwarp_verbs::Qp::destroy`].
    pub destroy_timeout: Duration,
    /// From the peer's Reply to the first FPDU of an initiator, the RTR too. Some responders (Linux siw) lose what comes faster; they need about 0.1 s.
    pub first_fpdu_delay: Duration,
    /// A responder need not wait for the initiator's first FPDU. RFC 5044 s7.1.2 forbids it, and an initiator may fail by it; programs that know no better
    /// (perftest's ib_write_lat) and devices that let them (Linux siw) cannot do without.
    pub eager_responder: bool,
    /// Octets of one message segment at most, below what TCP allows; tests make it small.
    pub max_mulpdu: usize,
    /// Queue pairs.
    pub max_qp: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Octets of a memory region.
    pub max_mr_size: u64,
}

impl Default for SoftConfig {
    fn default() -> Self {
        SoftConfig {
            name: "soft0".into(),
            mpa: MpaOptions::default(),
            rtr_write: true,
            rtr_read: true,
            max_depth: 128,
            half_open: 256,
            connect_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(5),
            refusal_timeout: Duration::from_millis(200),
            close_timeout: Duration::from_secs(5),
            terminate_timeout: Duration::from_secs(1),
            destroy_timeout: Duration::from_secs(90),
            first_fpdu_delay: Duration::ZERO,
            eager_responder: false,
            max_mulpdu: ironwarp_wire::fpdu::MAX_MULPDU,
            max_qp: 16384,
            max_mr: 1 << 20,
            max_mr_size: 1 << 36,
        }
    }
}

/// Work requests of one queue.
pub(crate) const MAX_WR: u32 = 16384;
/// Scatter-gather entries of one work request.
pub(crate) const MAX_SGE: u32 = 16;
/// Octets of inline data.
pub(crate) const MAX_INLINE: u32 = 1024;
/// Entries of a completion queue.
pub(crate) const MAX_CQE: u32 = 1 << 20;
/// Octets of a message: DDP allows less than 2^32, `ibv` tools expect a half.
pub(crate) const MAX_MESSAGE: u64 = 1 << 31;
