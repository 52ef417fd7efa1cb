// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a connection is to its user: parameters of the verbs, and what the events tell. Names are those of the kernel's iw_cm.
//!
//! ```
//! # fn example<B: ironwarp_rnic::Bus>(rnic: &mut ironwarp_rnic::Rnic<B>) -> Result<(), ironwarp_rnic::Error> {
//! use ironwarp_rnic::{ConnectParam, Event};
//! use std::time::Duration;
//! let param = ConnectParam { private_data: b"hello".to_vec(), ..ConnectParam::new("192.0.2.2:4791".parse().unwrap()) };
//! let connection = rnic.connect(&param)?; // a SYN is on its way; what becomes of it is an event
//! while let Some(event) = rnic.wait_event(Duration::from_secs(60))? {
//!     match event {
//!         Event::ConnectReply { connection, result: Ok(()), start } => {
//!             println!("{} accepts with {:?}", connection.remote, start.private_data);
//!             rnic.disconnect(&connection)?;
//!         }
//!         Event::ConnectReply { result: Err(why), .. } => println!("{why}"),
//!         Event::ConnectionFreed { connection: freed } if freed == connection => break,
//!         _ => {}
//!     }
//! }
//! # Ok(()) }
//! ```
use crate::error::Error;
use ironwarp_abi::{command::flag, Command, Handle, Opcode};
use ironwarp_wire::mpa;
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

/// Most octets of private data without IRD and ORD (revision 1, or revision 2 without the enhanced words).
pub const PRIVATE_DATA_MAX: usize = mpa::MAX_DATA_OCTETS;
/// Most octets of private data beside the enhanced words (ENH-20).
pub const PRIVATE_DATA_MAX_ENHANCED: usize = mpa::MAX_DATA_OCTETS - mpa::ENHANCED_OCTETS;
/// Both limits of a listener whose user gave 0 (CM-20).
pub const DEFAULT_BACKLOG: u16 = 256;
/// Largest IRD and ORD on the wire; as a request it means "do not negotiate" (ENH-15).
pub const NOT_NEGOTIATED: u16 = mpa::word::NO_NEGOTIATION;

/// Bits of octet 16 of an MPA start-up frame, as [`StartUp::flags`] has them.
pub use ironwarp_wire::mpa::flag as start_flag;

/// A connection in the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Its handle.
    pub handle: Handle,
    /// Own end, never with port 0.
    pub local: SocketAddrV4,
    /// The peer's end.
    pub remote: SocketAddrV4,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.remote)
    }
}

/// Limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Connections from SYN to the complete MPA Request; further SYNs are dropped.
    pub half_open: u16,
    /// Connections announced by CONNECT_REQUEST and not yet answered; further Requests are rejected by the adapter.
    pub accept: u16,
}

impl From<u16> for Backlog {
    /// The same for both; 0 is [`DEFAULT_BACKLOG`].
    fn from(backlog: u16) -> Self {
        let limit = if backlog == 0 { DEFAULT_BACKLOG } else { backlog };
        Backlog { half_open: limit, accept: limit }
    }
}

/// What CONNECT asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectParam {
    /// Own end. Address 0.0.0.0: the driver takes that of the way to `remote`. Port 0: the adapter chooses.
    pub local: SocketAddrV4,
    /// The peer's end.
    pub remote: SocketAddrV4,
    /// Queue pair that is bound to the connection, 24 bits.
    pub qpn: u32,
    /// Goes to the peer in the MPA Request: up to 512 octets, 508 if `enhanced`.
    pub private_data: Vec<u8>,
    /// Own IRD, up to 0x3fff (do not negotiate).
    pub ird: u16,
    /// Own ORD, up to 0x3fff (do not negotiate).
    pub ord: u16,
    /// MPA revision 2 with IRD and ORD (RFC 6581); else revision 1.
    pub enhanced: bool,
    /// Peer-to-peer (RFC 6581 A bit); needs `enhanced`.
    pub peer_to_peer: bool,
    /// If the peer does not take the enhanced Request, once again in revision 1 (ENH-2); needs `enhanced` without `peer_to_peer`.
    pub retry: bool,
    /// Do not ask for CRC; it is used if the peer asks.
    pub no_crc: bool,
    /// DSCP in bits 7:2, bits 1:0 are 0.
    pub tos: u8,
    /// From CONNECT to CONNECT_REPLY; none = what `CONNECT_TIMEOUT` says.
    pub timeout: Option<Duration>,
}

impl ConnectParam {
    /// To `remote`, from any port, revision 1, without private data.
    pub fn new(remote: SocketAddrV4) -> Self {
        ConnectParam {
            local: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
            remote,
            qpn: 0,
            private_data: Vec::new(),
            ird: 0,
            ord: 0,
            enhanced: false,
            peer_to_peer: false,
            retry: false,
            no_crc: false,
            tos: 0,
            timeout: None,
        }
    }
    /// Refuses what no host can be reached at (TCP-48).
    pub(crate) fn check_remote(&self) -> Result<(), Error> {
        let remote = self.remote.ip();
        if self.remote.port() == 0 || remote.is_unspecified() || remote.is_multicast() || remote.is_broadcast() {
            return Err(Error::Config(format!("nobody can be connected to at {}; give the address and port of one host", self.remote)));
        }
        Ok(())
    }
    /// The command, but for the address of the private data; `local` is the own address.
    pub(crate) fn command(&self, local: Ipv4Addr) -> Result<Command, Error> {
        self.check_remote()?;
        let remote = *self.remote.ip();
        if remote == local && self.local.port() == self.remote.port() {
            return Err(Error::Config(format!("{} cannot be both ends of a connection; take another local port", self.remote)));
        }
        if self.peer_to_peer && !self.enhanced {
            return Err(Error::Config("peer-to-peer is a part of the enhanced start-up; set `enhanced` too".into()));
        }
        if self.retry && (!self.enhanced || self.peer_to_peer) {
            return Err(Error::Config("only an enhanced start-up that is not peer-to-peer can be tried again in revision 1".into()));
        }
        check_private_data(&self.private_data, self.enhanced)?;
        let flags = [
            (self.enhanced, flag::ENHANCED),
            (self.peer_to_peer, flag::PEER_TO_PEER),
            (self.retry, flag::RETRY),
            (self.no_crc, flag::NO_CRC),
        ];
        Ok(Command {
            flags: bits(flags),
            local_addr: local.into(),
            local_port: self.local.port(),
            remote_port: self.remote.port(),
            remote_addr: remote.into(),
            qpn: check_qpn(self.qpn)?,
            ird: check_depth("IRD", self.ird)?,
            ord: check_depth("ORD", self.ord)?,
            tos: check_tos(self.tos)?,
            timeout_us: self.timeout.map_or(Ok(0), check_timeout)?,
            ..crate::rnic::command(Opcode::Connect)
        })
    }
}

/// What ACCEPT answers with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptParam {
    /// Queue pair that is bound to the connection, 24 bits.
    pub qpn: u32,
    /// Goes to the peer in the MPA Reply: up to 512 octets, 508 if the Request was enhanced.
    pub private_data: Vec<u8>,
    /// Own IRD, up to 0x3fff (do not negotiate).
    pub ird: u16,
    /// Own ORD, up to 0x3fff (do not negotiate).
    pub ord: u16,
    /// Do not ask for CRC; it is used if the peer asks.
    pub no_crc: bool,
    /// Refuse, instead of lowering, an ORD above the peer's IRD (ENH-14).
    pub strict: bool,
    /// DSCP in bits 7:2, bits 1:0 are 0.
    pub tos: u8,
}

impl AcceptParam {
    /// The command, but for the address of the private data. `enhanced`: the Request was.
    pub(crate) fn command(&self, handle: Handle, enhanced: bool) -> Result<Command, Error> {
        check_private_data(&self.private_data, enhanced)?;
        Ok(Command {
            flags: bits([(self.no_crc, flag::NO_CRC), (self.strict, flag::STRICT)]),
            handle,
            qpn: check_qpn(self.qpn)?,
            ird: check_depth("IRD", self.ird)?,
            ord: check_depth("ORD", self.ord)?,
            tos: check_tos(self.tos)?,
            ..crate::rnic::command(Opcode::Accept)
        })
    }
}

/// What the peer's start-up frame said, and what comes of it for this side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartUp {
    /// MPA revision; 0 in ESTABLISHED and where no frame came.
    pub revision: u8,
    /// Bits of [`start_flag`].
    pub flags: u8,
    /// Own IRD as negotiated.
    pub own_ird: u16,
    /// Own ORD as negotiated.
    pub own_ord: u16,
    /// The peer's IRD as it came.
    pub peer_ird: u16,
    /// The peer's ORD as it came.
    pub peer_ord: u16,
    /// The peer's private data, without the enhanced words.
    pub private_data: Vec<u8>,
}

impl StartUp {
    /// Did the frame carry IRD and ORD (RFC 6581)?
    pub const fn enhanced(&self) -> bool {
        self.revision >= mpa::REVISION_ENHANCED && self.flags & start_flag::ENHANCED != 0
    }
}

/// How far a connection is, as the driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// CONNECT_REPLY is owed.
    Connecting,
    /// Announced by CONNECT_REQUEST and not yet answered.
    Requested,
    /// ACCEPT is under way; ESTABLISHED is owed.
    Accepting,
    /// CLOSE is owed.
    Established,
    /// As before; the peer has sent FIN, or the driver asked for the end.
    Closing,
    /// Rejected, by either side: the adapter closes it in order, which takes up to CLOSE_TIMEOUT unless it is aborted. Only FREED is owed.
    Leaving,
    /// Only FREED is owed, and nothing is waited for.
    Ending,
}

impl ConnectionState {
    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            ConnectionState::Connecting => "CONNECTING",
            ConnectionState::Requested => "REQUESTED",
            ConnectionState::Accepting => "ACCEPTING",
            ConnectionState::Established => "ESTABLISHED",
            ConnectionState::Closing => "CLOSING",
            ConnectionState::Leaving => "LEAVING",
            ConnectionState::Ending => "ENDING",
        }
    }
}

fn bits<const N: usize>(flags: [(bool, u8); N]) -> u8 {
    flags.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit)
}

pub(crate) fn check_private_data(data: &[u8], enhanced: bool) -> Result<(), Error> {
    let max = if enhanced { PRIVATE_DATA_MAX_ENHANCED } else { PRIVATE_DATA_MAX };
    if data.len() > max {
        return Err(Error::PrivateDataLength { len: data.len(), max });
    }
    Ok(())
}

fn check_qpn(qpn: u32) -> Result<u32, Error> {
    if qpn > 0x00ff_ffff {
        return Err(Error::Config(format!("QPN {qpn:#x} has more than 24 bits")));
    }
    Ok(qpn)
}

fn check_depth(name: &str, value: u16) -> Result<u16, Error> {
    if value > NOT_NEGOTIATED {
        return Err(Error::Config(format!("{name} {value} is above {NOT_NEGOTIATED}, the largest that RFC 6581 can carry")));
    }
    Ok(value)
}

pub(crate) fn check_tos(tos: u8) -> Result<u8, Error> {
    if tos & 3 != 0 {
        return Err(Error::Config(format!("TOS {tos:#04x}: bits 1:0 belong to ECN and are 0; the DSCP is in bits 7:2")));
    }
    Ok(tos)
}

fn check_timeout(timeout: Duration) -> Result<u32, Error> {
    match u32::try_from(timeout.as_micros()) {
        // 0 would be the register's
        Ok(us) if us < 1 << 31 => Ok(us.max(1)),
        _ => Err(Error::Config(format!("a time-out of {timeout:?} is more than the adapter can count (2^31 microseconds)"))),
    }
}
