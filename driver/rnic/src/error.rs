// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong, and what to do next.
use crate::{bus::BusError, connection::ConnectionState, pending::Op};
use ironwarp_abi::{Status, ABI_VERSION, MAGIC};
use std::time::Duration;

/// Why the adapter refused a command; the numbers are those of `ironwarp_abi::Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// -ENOENT.
    #[error("no such handle or entry (ENOENT): it is freed already, or was never made")]
    NoEntry,
    /// -ENOMEM.
    #[error("no slot left in the adapter (ENOMEM): destroy a listener or address first; `ironwarp devinfo` shows how many there are")]
    NoMemory,
    /// -EACCES.
    #[error("port {port} is reserved by the host (EACCES): take another, or give it back with unreserve_ports")]
    Reserved {
        /// The port.
        port: u16,
    },
    /// -EPERM.
    #[error("a set-up rule of the adapter denies the connection (EPERM): see the rules that were set with rule_set or --rule")]
    Denied,
    /// -EEXIST.
    #[error("the address is there already (EEXIST): delete it first to change its mask or gateway")]
    Exists,
    /// -EBUSY.
    #[error("the object is in use (EBUSY): end what uses it first")]
    Busy,
    /// -EINVAL.
    #[error("a field has a value that it may not have (EINVAL): check ports, ranges and addresses of the request")]
    Invalid,
    /// -ENOSYS.
    #[error("the adapter does not know the command (ENOSYS): use driver and adapter of one release")]
    UnknownOpcode,
    /// -EADDRINUSE.
    #[error("port {port} is in use (EADDRINUSE): take another, or port 0 and the adapter chooses")]
    AddressInUse {
        /// The port.
        port: u16,
    },
    /// -EADDRNOTAVAIL.
    #[error("the local address is not one of the adapter's (EADDRNOTAVAIL): add it first, or listen on 0.0.0.0")]
    AddressNotAvailable,
    /// -ENOBUFS.
    #[error("no free port in the range that port 0 chooses from (ENOBUFS): destroy a listener, or widen the range at attach")]
    NoPorts,
    /// -ECONNRESET.
    #[error("the adapter or the peer was reset (ECONNRESET): after a reset of the adapter attach anew")]
    Reset,
    /// -EPROTO.
    #[error("the peer's MPA start-up frame is not as the RFCs have it (EPROTO): does an iWARP endpoint listen on that port?")]
    Protocol,
    /// -ETIMEDOUT.
    #[error("the peer does not answer in time (ETIMEDOUT): check that it runs and that no filter is on the path")]
    TimedOut,
    /// -ECONNREFUSED.
    #[error("the peer refuses the connection (ECONNREFUSED): nobody listens on that port, or the listener rejects")]
    Refused,
    /// -EFAULT.
    #[error("the adapter cannot reach a buffer of the command (EFAULT): is it mapped for DMA?")]
    Fault,
    /// -EHOSTUNREACH.
    #[error("the next hop does not answer (EHOSTUNREACH): check address, mask, gateway and cable")]
    HostUnreachable,
    /// A number that this driver does not know.
    #[error("status {0}, which this driver does not know: use driver and adapter of one release")]
    Unknown(i32),
}

impl Refusal {
    /// None for status 0. `port` is what the message names: the port asked for, or the one that the adapter told.
    pub fn from_status(raw: i32, port: u16) -> Option<Self> {
        Some(match Status::from_raw(raw) {
            Some(Status::Ok) => return None,
            Some(Status::NoEntry) => Refusal::NoEntry,
            Some(Status::NoMemory) => Refusal::NoMemory,
            Some(Status::Reserved) => Refusal::Reserved { port },
            Some(Status::Denied) => Refusal::Denied,
            Some(Status::Exists) => Refusal::Exists,
            Some(Status::Busy) => Refusal::Busy,
            Some(Status::Invalid) => Refusal::Invalid,
            Some(Status::UnknownOpcode) => Refusal::UnknownOpcode,
            Some(Status::AddressInUse) => Refusal::AddressInUse { port },
            Some(Status::AddressNotAvailable) => Refusal::AddressNotAvailable,
            Some(Status::NoPorts) => Refusal::NoPorts,
            Some(Status::Reset) => Refusal::Reset,
            Some(Status::Protocol) => Refusal::Protocol,
            Some(Status::TimedOut) => Refusal::TimedOut,
            Some(Status::Refused) => Refusal::Refused,
            Some(Status::Fault) => Refusal::Fault,
            Some(Status::HostUnreachable) => Refusal::HostUnreachable,
            None => Refusal::Unknown(raw),
        })
    }
    /// Number as in the event, negative.
    pub const fn status(self) -> i32 {
        match self {
            Refusal::NoEntry => Status::NoEntry as i32,
            Refusal::NoMemory => Status::NoMemory as i32,
            Refusal::Reserved { .. } => Status::Reserved as i32,
            Refusal::Denied => Status::Denied as i32,
            Refusal::Exists => Status::Exists as i32,
            Refusal::Busy => Status::Busy as i32,
            Refusal::Invalid => Status::Invalid as i32,
            Refusal::UnknownOpcode => Status::UnknownOpcode as i32,
            Refusal::AddressInUse { .. } => Status::AddressInUse as i32,
            Refusal::AddressNotAvailable => Status::AddressNotAvailable as i32,
            Refusal::NoPorts => Status::NoPorts as i32,
            Refusal::Reset => Status::Reset as i32,
            Refusal::Protocol => Status::Protocol as i32,
            Refusal::TimedOut => Status::TimedOut as i32,
            Refusal::Refused => Status::Refused as i32,
            Refusal::Fault => Status::Fault as i32,
            Refusal::HostUnreachable => Status::HostUnreachable as i32,
            Refusal::Unknown(raw) => raw,
        }
    }
}

/// Error of the driver.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The way to the adapter failed.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Another device, or none.
    #[error(
        "no ironwarp adapter at {at}: MAGIC reads {found:#010x}, not {MAGIC:#010x}; is it the right device, and is its memory space on?"
    )]
    NotIronwarp {
        /// Where.
        at: String,
        /// Value of the register.
        found: u32,
    },
    /// Major numbers differ.
    #[error(
        "the adapter speaks ABI {}.{}, this driver {}.{}; use driver and adapter of one release",
        found >> 16, found & 0xffff, ABI_VERSION >> 16, ABI_VERSION & 0xffff
    )]
    Version {
        /// Value of the register.
        found: u32,
    },
    /// What was written to SCRATCH did not come back.
    #[error("the register path is broken: SCRATCH read {read:#010x} after {written:#010x}; another process may hold the adapter")]
    RegisterPath {
        /// Written.
        written: u32,
        /// Read.
        read: u32,
    },
    /// READY did not come.
    #[error("the adapter did not finish its reset within {after:?} (STATUS {status:#x}); power-cycle it, or give a slow model a longer reset_timeout")]
    ResetTimeout {
        /// The bound.
        after: Duration,
        /// Last value of STATUS.
        status: u32,
    },
    /// A value of [`crate::Config`] or an argument that cannot work.
    #[error("{0}")]
    Config(String),
    /// Memory for rings and buffers.
    #[error("no memory for DMA: {0}; check `ulimit -l` and free memory")]
    Memory(#[from] std::io::Error),
    /// The adapter said no.
    #[error("{opcode} refused: {refusal}")]
    Refused {
        /// What was asked.
        opcode: Op,
        /// Why not.
        refusal: Refusal,
    },
    /// No reply in time. The reply is thrown away when it comes after all, and a listener that it brings is destroyed.
    #[error("no reply to {opcode} within {after:?}; is the model running (`ironwarp stats` shows cmdDone), or is command_timeout too short for it?")]
    Timeout {
        /// What was asked.
        opcode: Op,
        /// The bound.
        after: Duration,
    },
    /// Reply that contradicts its command.
    #[error("the reply to {opcode} makes no sense ({what}); use driver and adapter of one release, else report it with `ironwarp stats`")]
    BadReply {
        /// What was asked.
        opcode: Op,
        /// What is wrong.
        what: &'static str,
    },
    /// All entries are in use.
    #[error("the command ring is full; take events with poll_event or wait_event, then post again")]
    CommandRingFull,
    /// All descriptors are in use.
    #[error("the L2 transmit ring is full; wait for cause L2_TX, then send again")]
    TransmitRingFull,
    /// Bad length of a frame.
    #[error("a frame of {len} octets cannot be sent; 14..={max} can (MTU + 18)")]
    FrameLength {
        /// Octets.
        len: usize,
        /// Most octets.
        max: usize,
    },
    /// A handle that this driver did not get or that is freed.
    #[error("this listener or connection is not alive: it was freed, or belongs to another adapter or an earlier attach")]
    StaleHandle,
    /// Not what can be done with a connection in its state.
    #[error("a connection that is {} cannot be {what}", state.name())]
    WrongState {
        /// What was tried.
        what: &'static str,
        /// Its state.
        state: ConnectionState,
    },
    /// Too long.
    #[error("{len} octets of private data; MPA carries up to 512, the enhanced start-up up to 508, here {max}")]
    PrivateDataLength {
        /// Octets.
        len: usize,
        /// Most octets.
        max: usize,
    },
    /// The adapter still reads every buffer.
    #[error(
        "every buffer of private data is in use until connections are freed; take events with poll_event or wait_event, then post again"
    )]
    PrivateDataBuffers,
    /// The adapter stopped.
    #[error("the adapter stopped: {0}; detach, attach anew (that resets it), and look at its counters")]
    Stopped(&'static str),
    /// Somebody else reset the adapter.
    #[error("the adapter was reset under the driver; attach anew")]
    Reset,
}

impl Error {
    /// The refusal, if that is what it is.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Error::Refused { refusal, .. } => Some(*refusal),
            _ => None,
        }
    }
}
