// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of devices and queue pairs.
use crate::Cq;
use std::{fmt, net::IpAddr, sync::Arc};

bitflags::bitflags! {
    /// Rights of a memory region (`ibv_access_flags`). Its owner may always read it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Receives and Read responses of the owner may be written to it.
        const LOCAL_WRITE = 1;
        /// The peer's RDMA Write may.
        const REMOTE_WRITE = 2;
        /// The peer's RDMA Read may read it.
        const REMOTE_READ = 4;
        /// The peer's Send with Invalidate may take all rights away, if the key is good for its stream alone (RDM-5, RDM-37).
        const REMOTE_INVALIDATE = 8;
    }
}

/// What a device is and has (`ibv_device_attr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAttr {
    /// As tools show it (hca_id).
    pub name: String,
    /// Version of what runs in it (fw_ver).
    pub fw_ver: String,
    /// EUI-64.
    pub node_guid: u64,
    /// PCI vendor, 0 for software.
    pub vendor_id: u32,
    /// PCI device, 0 for software.
    pub vendor_part_id: u32,
    /// Revision of the hardware.
    pub hw_ver: u32,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of one queue.
    pub max_qp_wr: u32,
    /// Scatter-gather entries of a work request.
    pub max_sge: u32,
    /// Octets of inline data.
    pub max_inline_data: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Octets of a memory region.
    pub max_mr_size: u64,
    /// Protection domains.
    pub max_pd: u32,
    /// Largest IRD of a queue pair.
    pub max_qp_rd_atom: u16,
    /// Largest ORD of a queue pair.
    pub max_qp_init_rd_atom: u16,
}

/// Is there a link?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// PORT_DOWN.
    #[default]
    Down,
    /// PORT_ACTIVE.
    Active,
}

/// A port (`ibv_port_attr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortAttr {
    /// Is there a link?
    pub state: PortState,
    /// Octets of an IP packet at most.
    pub max_mtu: u32,
    /// Octets of an IP packet now.
    pub active_mtu: u32,
    /// Own addresses.
    pub addresses: Vec<IpAddr>,
}

/// Capacities of a queue pair (`ibv_qp_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpCap {
    /// Send work requests at once.
    pub max_send_wr: u32,
    /// Receive work requests at once.
    pub max_recv_wr: u32,
    /// Scatter-gather entries of a send.
    pub max_send_sge: u32,
    /// Scatter-gather entries of a receive.
    pub max_recv_sge: u32,
    /// Octets of inline data.
    pub max_inline_data: u32,
}

impl Default for QpCap {
    fn default() -> Self {
        QpCap { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_data: 64 }
    }
}

/// What a queue pair is made of (`ibv_qp_init_attr`).
#[derive(Clone, Debug)]
pub struct QpInitAttr {
    /// Where sends complete.
    pub send_cq: Arc<dyn Cq>,
    /// Where receives complete.
    pub recv_cq: Arc<dyn Cq>,
    /// Capacities; a provider may give more.
    pub cap: QpCap,
    /// Every send completes visibly, not only those with SIGNALED.
    pub sq_sig_all: bool,
}

/// State of a queue pair. iWARP's own names (RFC 5040, RDMAC verbs) stand behind those of libibverbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpState {
    /// IDLE: receives may be posted; no connection.
    Init,
    /// Connection.
    Rts,
    /// CLOSING: what is posted is finished, then FIN.
    Sqd,
    /// TERMINATE: a Terminate message is on its way.
    Terminate,
    /// ERROR: everything is flushed.
    Error,
}

impl QpState {
    /// All.
    pub const ALL: [QpState; 5] = [QpState::Init, QpState::Rts, QpState::Sqd, QpState::Terminate, QpState::Error];
    /// As tools show it.
    pub const fn name(self) -> &'static str {
        match self {
            QpState::Init => "IDLE",
            QpState::Rts => "RTS",
            QpState::Sqd => "CLOSING",
            QpState::Terminate => "TERMINATE",
            QpState::Error => "ERROR",
        }
    }
}

/// What a Terminate message says (RFC 5040 s4.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terminate {
    /// 0 RDMAP, 1 DDP, 2 LLP (MPA).
    pub layer: u8,
    /// Error type, 4 bits.
    pub etype: u8,
    /// Error code.
    pub code: u8,
}

impl Terminate {
    /// The code in words (RFC 5040 s4.8, RFC 5041 s7.2, RFC 5044 s8, RFC 6581 s8). MPA errors are of type 0; some adapters send type 3 (CH-6).
    pub const fn text(&self) -> &'static str {
        match (self.layer, self.etype, self.code) {
            (0, 0, _) => "RDMAP local catastrophic error",
            (0, 1, 0x00) => "remote protection: invalid STag",
            (0, 1, 0x01) => "remote protection: base or bounds violation",
            (0, 1, 0x02) => "remote protection: access rights violation",
            (0, 1, 0x03) => "remote protection: STag not associated with the stream",
            (0, 1, 0x04) => "remote protection: TO wrap",
            (0, 1, 0x09) => "remote protection: STag cannot be invalidated",
            (0, 1, 0xff) => "remote protection: unspecified",
            (0, 2, 0x05) => "remote operation: invalid RDMAP version",
            (0, 2, 0x06) => "remote operation: unexpected opcode",
            (0, 2, 0x07) => "remote operation: catastrophic error, localised to the stream",
            (0, 2, 0x08) => "remote operation: catastrophic error, global",
            (0, 2, 0x09) => "remote operation: STag cannot be invalidated",
            (0, 2, 0xff) => "remote operation: unspecified",
            (1, 0, _) => "DDP local catastrophic error",
            (1, 1, 0x00) => "tagged buffer: invalid STag",
            (1, 1, 0x01) => "tagged buffer: base or bounds violation",
            (1, 1, 0x02) => "tagged buffer: STag not associated with the stream",
            (1, 1, 0x03) => "tagged buffer: TO wrap",
            (1, 1, 0x04) => "tagged buffer: invalid DDP version",
            (1, 2, 0x01) => "untagged buffer: invalid QN",
            (1, 2, 0x02) => "untagged buffer: no buffer available",
            (1, 2, 0x03) => "untagged buffer: MSN out of range",
            (1, 2, 0x04) => "untagged buffer: invalid MO",
            (1, 2, 0x05) => "untagged buffer: message too long",
            (1, 2, 0x06) => "untagged buffer: invalid DDP version",
            (2, 0 | 3, 0x01) => "MPA: TCP connection closed, terminated or lost",
            (2, 0 | 3, 0x02) => "MPA: CRC error",
            (2, 0 | 3, 0x03) => "MPA: marker and ULPDU length disagree",
            (2, 0 | 3, 0x04) => "MPA: invalid start-up frame",
            (2, 0 | 3, 0x05) => "MPA: local catastrophic error",
            (2, 0 | 3, 0x06) => "MPA: insufficient IRD resources",
            (2, 0 | 3, 0x07) => "MPA: no matching RTR option",
            _ => "unknown code",
        }
    }
}

impl fmt::Debug for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{:#04x} ({})", self.layer, self.etype, self.code, self.text())
    }
}

impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a queue pair is now (`ibv_qp_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttr {
    /// State.
    pub state: QpState,
    /// Own IRD as negotiated; 0 without a connection.
    pub ird: u16,
    /// Own ORD as negotiated; 0 without a connection.
    pub ord: u16,
    /// The Terminate that came last.
    pub terminate_in: Option<Terminate>,
    /// The Terminate that was sent last.
    pub terminate_out: Option<Terminate>,
}
