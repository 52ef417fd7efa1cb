// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status of commands and events: 0 or a negative errno of Linux (the numbers are part of this ABI on every host).

/// What an event's status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// -EPERM: a set-up rule denies it.
    Denied = -1,
    /// -ENOENT: the handle or entry does not exist (stale, of another kind, out of range).
    NoEntry = -2,
    /// -ENOMEM: no slot left in the adapter.
    NoMemory = -12,
    /// -EACCES: the port is reserved by the host.
    Reserved = -13,
    /// -EEXIST: the address or number is there already.
    Exists = -17,
    /// -EBUSY: in use.
    Busy = -16,
    /// -EINVAL: a field has a value that it may not have.
    Invalid = -22,
    /// -ENOSYS: unknown opcode.
    UnknownOpcode = -38,
    /// -EADDRINUSE: port or 4-tuple in use.
    AddressInUse = -98,
    /// -EADDRNOTAVAIL: the local address is not one of the adapter's.
    AddressNotAvailable = -99,
    /// -ENOBUFS ("no ports"): the range that port 0 chooses from is exhausted.
    NoPorts = -105,
    /// -ECONNRESET: the peer or the adapter was reset.
    Reset = -104,
    /// -EPROTO: what the peer sent is not MPA as the RFCs have it.
    Protocol = -71,
    /// -ETIMEDOUT: no answer in time.
    TimedOut = -110,
    /// -ECONNREFUSED: nobody listens, or the peer rejects.
    Refused = -111,
    /// -EFAULT: a DMA access to a buffer that the command named failed.
    Fault = -14,
    /// -EHOSTUNREACH: the next hop does not answer.
    HostUnreachable = -113,
}

impl Status {
    /// Every status.
    pub const ALL: &'static [Status] = &[
        Status::Ok,
        Status::NoEntry,
        Status::NoMemory,
        Status::Reserved,
        Status::Denied,
        Status::Exists,
        Status::Busy,
        Status::Invalid,
        Status::UnknownOpcode,
        Status::AddressInUse,
        Status::AddressNotAvailable,
        Status::NoPorts,
        Status::Reset,
        Status::Protocol,
        Status::TimedOut,
        Status::Refused,
        Status::Fault,
        Status::HostUnreachable,
    ];
    /// The status with this number, if there is one.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|s| *s as i32 == raw)
    }
}
