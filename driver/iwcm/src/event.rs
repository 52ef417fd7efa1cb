// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a connection, and their private data.
use ironwarp_verbs::Errno;
use std::{fmt, net::SocketAddr, ops::Deref};

/// Most octets of private data: MPA's limit (RFC 5044 s7.1). The enhanced start-up takes four of them ([`PrivateData::MAX_ENHANCED`]).
/// One type everywhere, so that no length is ever kept in fewer bits than it needs (CM-24).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PrivateData(Vec<u8>);

impl PrivateData {
    /// Most octets.
    pub const MAX: usize = 512;
    /// Most octets beside IRD and ORD (RFC 6581).
    pub const MAX_ENHANCED: usize = 508;
    /// EINVAL above [`PrivateData::MAX`].
    pub fn new(octets: &[u8]) -> Result<Self, Errno> {
        if octets.len() > Self::MAX {
            return Err(Errno::Invalid);
        }
        Ok(PrivateData(octets.to_vec()))
    }
}

impl Deref for PrivateData {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PrivateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets", self.0.len())
    }
}

/// Kind of an event (`iw_cm_event_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A peer asks for a connection; on the listener's id.
    ConnectRequest = 1,
    /// What became of connect.
    ConnectReply = 2,
    /// What was accepted is connected.
    Established = 3,
    /// The peer has sent FIN; CLOSE follows. Not shown to the client.
    Disconnect = 4,
    /// The connection was established and is gone.
    Close = 5,
}

impl EventKind {
    /// All.
    pub const ALL: [EventKind; 5] =
        [EventKind::ConnectRequest, EventKind::ConnectReply, EventKind::Established, EventKind::Disconnect, EventKind::Close];
    /// As the kernel's header has it.
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::ConnectRequest => "CONNECT_REQUEST",
            EventKind::ConnectReply => "CONNECT_REPLY",
            EventKind::Established => "ESTABLISHED",
            EventKind::Disconnect => "DISCONNECT",
            EventKind::Close => "CLOSE",
        }
    }
}

/// IRD and ORD of both sides (ENH-16).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Depths {
    /// Own IRD as negotiated; before accept the own maximum.
    pub own_ird: u16,
    /// Own ORD as negotiated; before accept the own maximum.
    pub own_ord: u16,
    /// The peer's IRD as it came; own maximum where none came.
    pub peer_ird: u16,
    /// The peer's ORD as it came; own maximum where none came.
    pub peer_ord: u16,
}

/// What happened to a connection (`iw_cm_event`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// Success, or why not. Always success for CONNECT_REQUEST (CM-8).
    pub status: Result<(), Errno>,
    /// Own end, the real one (CM-38).
    pub local_addr: SocketAddr,
    /// The peer's end.
    pub remote_addr: SocketAddr,
    /// The peer's private data, without the words of the enhanced start-up; on a refusal too.
    pub private_data: PrivateData,
    /// IRD and ORD.
    pub depths: Depths,
    /// CONNECT_REQUEST: the provider's number of the new endpoint.
    pub provider_data: u64,
}

impl Event {
    /// With nothing but its kind and ends.
    pub fn new(kind: EventKind, local_addr: SocketAddr, remote_addr: SocketAddr) -> Self {
        Event {
            kind,
            status: Ok(()),
            local_addr,
            remote_addr,
            private_data: PrivateData::default(),
            depths: Depths::default(),
            provider_data: 0,
        }
    }
    /// The field `ird` of the kernel's event, one octet: the peer's IRD in a request, the own **ORD** otherwise (CM-26).
    pub fn iw_ird(&self) -> u8 {
        saturate(if self.kind == EventKind::ConnectRequest { self.depths.peer_ird } else { self.depths.own_ord })
    }
    /// The field `ord` of the kernel's event, one octet: the peer's ORD in a request, the own **IRD** otherwise (CM-26).
    pub fn iw_ord(&self) -> u8 {
        saturate(if self.kind == EventKind::ConnectRequest { self.depths.peer_ord } else { self.depths.own_ird })
    }
}

fn saturate(depth: u16) -> u8 {
    u8::try_from(depth).unwrap_or(u8::MAX)
}
