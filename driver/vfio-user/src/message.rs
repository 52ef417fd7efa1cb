// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of the protocol as plain values, and their octets.
//!
//! A message is a header of 16 octets (id 2, command 2, size of the whole message 4, flags 4, error 4) and a body. A reply repeats id
//! and command. An error reply is a header alone, with the error bit and an errno. [`Request`] is decoded by the server and
//! encoded by the client; the reply bodies are [`Version`], [`DeviceInfo`], [`RegionInfo`], [`IrqInfo`], [`Access`] (with data after a
//! read) and, for DMA_UNMAP, the request itself. Nothing here looks past the slice it is given: a decoder returns `EINVAL` for a
//! short or contradictory body. Source: "vfio-user Protocol Specification", chapter "Protocol Specification".
use crate::{Errno, MAX_DATA_XFER};
use serde::{Deserialize, Serialize};

/// Octets of the header.
pub const HEADER: usize = 16;
/// Octets of offset, region and count in front of the data of a region access.
pub const ACCESS: usize = 16;
/// Longest body that is ever stored: a region write of the largest size.
pub const MAX_BODY: usize = ACCESS + MAX_DATA_XFER;
/// Protocol version that we speak: major, highest minor.
pub const VERSION: (u16, u16) = (0, 1);

/// Command numbers.
pub mod command {
    /// Version and capabilities; first message of a session.
    pub const VERSION: u16 = 1;
    /// Opens a DMA window.
    pub const DMA_MAP: u16 = 2;
    /// Closes DMA windows.
    pub const DMA_UNMAP: u16 = 3;
    /// What the device is.
    pub const DEVICE_GET_INFO: u16 = 4;
    /// What a region is.
    pub const DEVICE_GET_REGION_INFO: u16 = 5;
    /// What an interrupt kind is.
    pub const DEVICE_GET_IRQ_INFO: u16 = 7;
    /// Connects, masks or raises interrupts.
    pub const DEVICE_SET_IRQS: u16 = 8;
    /// Reads registers.
    pub const REGION_READ: u16 = 9;
    /// Writes registers.
    pub const REGION_WRITE: u16 = 10;
    /// Resets the device.
    pub const DEVICE_RESET: u16 = 13;
}

const TYPE_MASK: u32 = 0xf;
const TYPE_REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

bitflags::bitflags! {
    /// What a DMA window may be used for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DmaFlags: u32 {
        /// The device may read.
        const READ = 1;
        /// The device may write.
        const WRITE = 2;
    }
    /// What the device can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceFlags: u32 {
        /// It can be reset.
        const RESET = 1;
        /// It is a PCI device.
        const PCI = 2;
    }
    /// What a region allows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RegionFlags: u32 {
        /// Reading.
        const READ = 1;
        /// Writing.
        const WRITE = 2;
    }
    /// What an interrupt kind allows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IrqFlags: u32 {
        /// It can be connected to an eventfd.
        const EVENTFD = 1;
        /// It can be masked.
        const MASKABLE = 2;
        /// It masks itself when raised.
        const AUTOMASKED = 4;
        /// Vectors are set up as a set.
        const NORESIZE = 8;
    }
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of the request, repeated in the reply.
    pub id: u16,
    /// See [`command`].
    pub command: u16,
    /// Octets of header and body.
    pub size: u32,
    /// Kind of message, no-reply, error.
    pub flags: u32,
    /// errno of an error reply.
    pub error: u32,
}

impl Header {
    /// Of a request with `body` octets behind it.
    pub fn request(id: u16, command: u16, body: usize, no_reply: bool) -> Self {
        Header { id, command, size: (HEADER + body) as u32, flags: if no_reply { NO_REPLY } else { 0 }, error: 0 }
    }
    /// Of the answer to `self`, with `body` octets.
    pub fn reply(&self, body: usize) -> Self {
        Header { size: (HEADER + body) as u32, flags: TYPE_REPLY, error: 0, ..*self }
    }
    /// Of the answer to `self` that says that it failed.
    pub fn error_reply(&self, errno: Errno) -> Self {
        Header { flags: TYPE_REPLY | ERROR, error: errno.raw_os_error() as u32, ..self.reply(0) }
    }
    /// Is it a request?
    pub fn is_request(&self) -> bool {
        self.flags & TYPE_MASK == 0
    }
    /// Is it an answer?
    pub fn is_reply(&self) -> bool {
        self.flags & TYPE_MASK == TYPE_REPLY
    }
    /// Does the sender want no answer?
    pub fn no_reply(&self) -> bool {
        self.flags & NO_REPLY != 0
    }
    /// The errno of an error reply, `EIO` if the sender gave none.
    pub fn failure(&self) -> Option<Errno> {
        (self.flags & ERROR != 0).then(|| match self.error {
            1..=4095 => Errno::from_raw_os_error(self.error as i32),
            _ => Errno::IO,
        })
    }
    /// Octets that follow; `None` if the size is smaller than the header itself: the stream cannot be followed any further.
    pub fn body(&self) -> Option<usize> {
        (self.size as usize).checked_sub(HEADER)
    }
    /// The octets.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0..2].copy_from_slice(&self.id.to_ne_bytes());
        out[2..4].copy_from_slice(&self.command.to_ne_bytes());
        out[4..8].copy_from_slice(&self.size.to_ne_bytes());
        out[8..12].copy_from_slice(&self.flags.to_ne_bytes());
        out[12..16].copy_from_slice(&self.error.to_ne_bytes());
        out
    }
    /// From octets.
    pub fn decode(octets: &[u8; HEADER]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        Header { id: half(0), command: half(2), size: word(4), flags: word(8), error: word(12) }
    }
}

/// Takes fields off the front of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.0 = tail;
        Ok(*head)
    }
    fn u16(&mut self) -> Result<u16, Errno> {
        self.take().map(u16::from_ne_bytes)
    }
    fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_ne_bytes)
    }
    fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_ne_bytes)
    }
    fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Puts a body together.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
    fn octets(mut self, value: &[u8]) -> Self {
        self.0.extend(value);
        self
    }
}

/// What the two sides tell each other about themselves. Absent fields mean the protocol's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Most descriptors that the sender takes in one message; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_msg_fds: Option<u64>,
    /// Most octets of one region access that the sender takes; 1 MiB if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_data_xfer_size: Option<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct VersionData {
    #[serde(default)]
    capabilities: Capabilities,
}

/// Body of VERSION, request and reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Must be the same on both sides.
    pub major: u16,
    /// The smaller one counts.
    pub minor: u16,
    /// Capabilities, as JSON in the message.
    pub capabilities: Capabilities,
}

impl Version {
    /// The octets, with the NUL that ends the JSON.
    pub fn encode(&self) -> Vec<u8> {
        let data = VersionData { capabilities: self.capabilities };
        let json = serde_json::to_vec(&data).unwrap_or_default(); // two integers: cannot fail
        Body::default().u16(self.major).u16(self.minor).octets(&json).octets(&[0]).0
    }
    /// From octets. The JSON may be absent, and so may any of its members; its NUL is not insisted on.
    pub fn decode(body: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        let (major, minor) = (fields.u16()?, fields.u16()?);
        let json = fields.rest();
        let json = &json[..json.iter().position(|&octet| octet == 0).unwrap_or(json.len())];
        let data = if json.is_empty() { VersionData::default() } else { serde_json::from_slice(json).map_err(|_| Errno::INVAL)? };
        Ok(Version { major, minor, capabilities: data.capabilities })
    }
}

/// A DMA window that the client opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaMap {
    /// What the device may do.
    pub flags: DmaFlags,
    /// Where in the file that comes with the message the window begins.
    pub offset: u64,
    /// Its DMA address.
    pub address: u64,
    /// Octets, at least 1; neither `address + size` nor `offset + size` passes 2^63.
    pub size: u64,
}

/// DMA windows that the client closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaUnmap {
    /// All of them; address and size are 0.
    pub all: bool,
    /// First DMA address.
    pub address: u64,
    /// Octets; in the message up to the end of the 64-bit space, but cut at 2^63, where windows end, before a device sees it.
    pub size: u64,
}

impl DmaUnmap {
    /// The part of the range in which windows can be.
    pub fn clamped(self) -> Self {
        let address = self.address.min(MAX_ADDRESS);
        let size = self.size.min(MAX_ADDRESS - address);
        DmaUnmap { address, size, ..self }
    }
}

/// Windows end here at the latest, so that sums of 64-bit numbers and file offsets hold their ends.
const MAX_ADDRESS: u64 = 1 << 63;

const UNMAP_ALL: u32 = 1 << 1;

/// What the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind and abilities.
    pub flags: DeviceFlags,
    /// Number of regions.
    pub regions: u32,
    /// Number of interrupt kinds.
    pub irqs: u32,
}

impl DeviceInfo {
    const SIZE: u32 = 16;
    /// The octets of the reply.
    pub fn encode(&self) -> Vec<u8> {
        let body = Body::default().u32(Self::SIZE).u32(self.flags.bits());
        body.u32(self.regions).u32(self.irqs).0
    }
    /// From octets of a reply.
    pub fn decode(body: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        fields.u32()?;
        Ok(DeviceInfo { flags: DeviceFlags::from_bits_retain(fields.u32()?), regions: fields.u32()?, irqs: fields.u32()? })
    }
}

/// What a region is. A region that does not exist has size 0 and no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// Number of the region.
    pub index: u32,
    /// What it allows.
    pub flags: RegionFlags,
    /// Octets.
    pub size: u64,
}

impl RegionInfo {
    const SIZE: u32 = 32;
    /// The octets of the reply.
    pub fn encode(&self) -> Vec<u8> {
        let body = Body::default().u32(Self::SIZE).u32(self.flags.bits());
        body.u32(self.index).u32(0).u64(self.size).u64(0).0
    }
    /// From octets of a reply. Capabilities behind it (mmap areas) are not looked at.
    pub fn decode(body: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        fields.u32()?;
        let (flags, index) = (RegionFlags::from_bits_retain(fields.u32()?), fields.u32()?);
        fields.u32()?;
        let size = fields.u64()?;
        fields.u64()?;
        Ok(RegionInfo { index, flags, size })
    }
}

/// What an interrupt kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IrqInfo {
    /// Number of the kind.
    pub index: u32,
    /// What it allows.
    pub flags: IrqFlags,
    /// Number of vectors.
    pub count: u32,
}

impl IrqInfo {
    const SIZE: u32 = 16;
    /// The octets of the reply.
    pub fn encode(&self) -> Vec<u8> {
        let body = Body::default().u32(Self::SIZE).u32(self.flags.bits());
        body.u32(self.index).u32(self.count).0
    }
    /// From octets of a reply.
    pub fn decode(body: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        fields.u32()?;
        Ok(IrqInfo { flags: IrqFlags::from_bits_retain(fields.u32()?), index: fields.u32()?, count: fields.u32()? })
    }
}

/// What SET_IRQS does to the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IrqAction {
    /// Masks them, or connects an eventfd that tells of masking.
    Mask,
    /// Unmasks them, or connects an eventfd that tells of unmasking.
    Unmask,
    /// Raises them, or connects the eventfds that they raise.
    Trigger,
}

/// On which vectors SET_IRQS acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IrqPayload {
    /// All of the range; an empty range with [`IrqAction::Trigger`] disconnects all vectors.
    None,
    /// Those of the range that are true.
    Bool(Vec<bool>),
    /// The eventfds that came with the message, one for each vector of the range, or none: disconnect the range.
    EventFd,
}

/// Body of SET_IRQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetIrqs {
    /// Interrupt kind.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Number of vectors.
    pub count: u32,
    /// What to do.
    pub action: IrqAction,
    /// On which.
    pub payload: IrqPayload,
}

const IRQ_DATA: u32 = 0b000_111;
const IRQ_ACTION: u32 = 0b111_000;
const SET_IRQS: u32 = 20;

impl SetIrqs {
    fn encode(&self) -> Vec<u8> {
        let action = match self.action {
            IrqAction::Mask => 1 << 3,
            IrqAction::Unmask => 1 << 4,
            IrqAction::Trigger => 1 << 5,
        };
        let (data, bools): (u32, &[bool]) = match &self.payload {
            IrqPayload::None => (1 << 0, &[]),
            IrqPayload::Bool(bools) => (1 << 1, bools),
            IrqPayload::EventFd => (1 << 2, &[]),
        };
        let body = Body::default().u32(SET_IRQS + bools.len() as u32).u32(action | data);
        let body = body.u32(self.index).u32(self.start).u32(self.count);
        body.octets(&bools.iter().map(|&b| u8::from(b)).collect::<Vec<_>>()).0
    }
    fn decode(body: &[u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        fields.u32()?;
        let (flags, index, start, count) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let action = match flags & IRQ_ACTION {
            0b001_000 => IrqAction::Mask,
            0b010_000 => IrqAction::Unmask,
            0b100_000 => IrqAction::Trigger,
            _ => return Err(Errno::INVAL),
        };
        let payload = match flags & IRQ_DATA {
            0b001 => IrqPayload::None,
            0b010 => {
                let bools = fields.rest().get(..count as usize).ok_or(Errno::INVAL)?;
                IrqPayload::Bool(bools.iter().map(|&octet| octet != 0).collect())
            }
            0b100 => IrqPayload::EventFd,
            _ => return Err(Errno::INVAL),
        };
        Ok(SetIrqs { index, start, count, action, payload })
    }
}

/// Which octets of which region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First octet in the region.
    pub offset: u64,
    /// Number of the region.
    pub region: u32,
    /// Octets, at most [`MAX_DATA_XFER`].
    pub count: u32,
}

impl Access {
    /// The octets; the data, if any, follows.
    pub fn encode(&self, data: &[u8]) -> Vec<u8> {
        let body = Body::default().u64(self.offset).u32(self.region).u32(self.count);
        body.octets(data).0
    }
    /// From octets, with what follows.
    pub fn decode(body: &[u8]) -> Result<(Self, &[u8]), Errno> {
        let mut fields = Fields(body);
        let access = Access { offset: fields.u64()?, region: fields.u32()?, count: fields.u32()? };
        if access.count as usize > MAX_DATA_XFER {
            return Err(Errno::INVAL);
        }
        Ok((access, fields.rest()))
    }
}

/// A request, without the descriptors that may come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// VERSION.
    Version(Version),
    /// DMA_MAP; a descriptor may come with it.
    DmaMap(DmaMap),
    /// DMA_UNMAP.
    DmaUnmap(DmaUnmap),
    /// DEVICE_GET_INFO.
    DeviceInfo,
    /// DEVICE_GET_REGION_INFO.
    RegionInfo {
        /// Region.
        index: u32,
    },
    /// DEVICE_GET_IRQ_INFO.
    IrqInfo {
        /// Interrupt kind.
        index: u32,
    },
    /// DEVICE_SET_IRQS; eventfds may come with it.
    SetIrqs(SetIrqs),
    /// REGION_READ.
    RegionRead(Access),
    /// REGION_WRITE, as many octets as the access says.
    RegionWrite(Access, &'a [u8]),
    /// DEVICE_RESET.
    Reset,
}

impl<'a> Request<'a> {
    /// Command number.
    pub fn command(&self) -> u16 {
        match self {
            Request::Version(_) => command::VERSION,
            Request::DmaMap(_) => command::DMA_MAP,
            Request::DmaUnmap(_) => command::DMA_UNMAP,
            Request::DeviceInfo => command::DEVICE_GET_INFO,
            Request::RegionInfo { .. } => command::DEVICE_GET_REGION_INFO,
            Request::IrqInfo { .. } => command::DEVICE_GET_IRQ_INFO,
            Request::SetIrqs(_) => command::DEVICE_SET_IRQS,
            Request::RegionRead(_) => command::REGION_READ,
            Request::RegionWrite(..) => command::REGION_WRITE,
            Request::Reset => command::DEVICE_RESET,
        }
    }
    /// Name for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Version(_) => "VERSION",
            Request::DmaMap(_) => "DMA_MAP",
            Request::DmaUnmap(_) => "DMA_UNMAP",
            Request::DeviceInfo => "DEVICE_GET_INFO",
            Request::RegionInfo { .. } => "DEVICE_GET_REGION_INFO",
            Request::IrqInfo { .. } => "DEVICE_GET_IRQ_INFO",
            Request::SetIrqs(_) => "DEVICE_SET_IRQS",
            Request::RegionRead(_) => "REGION_READ",
            Request::RegionWrite(..) => "REGION_WRITE",
            Request::Reset => "DEVICE_RESET",
        }
    }
    /// The octets of the body.
    pub fn encode(&self) -> Vec<u8> {
        let body = Body::default();
        match self {
            Request::Version(version) => version.encode(),
            Request::DmaMap(map) => {
                let body = body.u32(32).u32(map.flags.bits()).u64(map.offset);
                body.u64(map.address).u64(map.size).0
            }
            Request::DmaUnmap(unmap) => {
                let body = body.u32(24).u32(if unmap.all { UNMAP_ALL } else { 0 });
                body.u64(unmap.address).u64(unmap.size).0
            }
            Request::DeviceInfo => body.u32(DeviceInfo::SIZE).u32(0).u64(0).0,
            Request::RegionInfo { index } => body.u32(RegionInfo::SIZE).u32(0).u32(*index).u32(0).u64(0).u64(0).0,
            Request::IrqInfo { index } => body.u32(IrqInfo::SIZE).u32(0).u32(*index).u32(0).0,
            Request::SetIrqs(set) => set.encode(),
            Request::RegionRead(access) => access.encode(&[]),
            Request::RegionWrite(access, data) => access.encode(data),
            Request::Reset => body.0,
        }
    }
    /// From a command number and the octets of a body. `ENOTSUP` for a command that is not known, `EINVAL` for a body that is
    /// too short or contradicts itself. Octets behind a complete body are ignored.
    pub fn decode(number: u16, body: &'a [u8]) -> Result<Self, Errno> {
        let mut fields = Fields(body);
        Ok(match number {
            command::VERSION => Request::Version(Version::decode(body)?),
            command::DMA_MAP => {
                fields.u32()?;
                let map = DmaMap {
                    flags: DmaFlags::from_bits_truncate(fields.u32()?),
                    offset: fields.u64()?,
                    address: fields.u64()?,
                    size: fields.u64()?,
                };
                in_range(map.offset, map.size)?;
                in_range(map.address, map.size)?;
                if map.size == 0 {
                    return Err(Errno::INVAL);
                }
                Request::DmaMap(map)
            }
            command::DMA_UNMAP => {
                fields.u32()?;
                let flags = fields.u32()?;
                let unmap = DmaUnmap { all: flags == UNMAP_ALL, address: fields.u64()?, size: fields.u64()? };
                if flags & !UNMAP_ALL != 0 {
                    return Err(Errno::NOTSUP); // dirty page tracking
                }
                if unmap.all && (unmap.address, unmap.size) != (0, 0) {
                    return Err(Errno::INVAL);
                }
                // QEMU closes "everything" as 0..2^63 and 2^63..2^64.
                if u128::from(unmap.address) + u128::from(unmap.size) > 1 << 64 {
                    return Err(Errno::INVAL);
                }
                Request::DmaUnmap(unmap)
            }
            command::DEVICE_GET_INFO => {
                fields.room(DeviceInfo::SIZE)?;
                Request::DeviceInfo
            }
            command::DEVICE_GET_REGION_INFO => {
                fields.room(RegionInfo::SIZE)?;
                fields.u32()?;
                Request::RegionInfo { index: fields.u32()? }
            }
            command::DEVICE_GET_IRQ_INFO => {
                fields.room(IrqInfo::SIZE)?;
                fields.u32()?;
                Request::IrqInfo { index: fields.u32()? }
            }
            command::DEVICE_SET_IRQS => Request::SetIrqs(SetIrqs::decode(body)?),
            command::REGION_READ => Request::RegionRead(Access::decode(body)?.0),
            command::REGION_WRITE => {
                let (access, data) = Access::decode(body)?;
                Request::RegionWrite(access, data.get(..access.count as usize).ok_or(Errno::INVAL)?)
            }
            command::DEVICE_RESET => Request::Reset,
            _ => return Err(Errno::NOTSUP),
        })
    }
}

impl Fields<'_> {
    /// `argsz`: the client must take at least the fixed part of the reply.
    fn room(&mut self, needed: u32) -> Result<(), Errno> {
        if self.u32()? < needed {
            return Err(Errno::INVAL);
        }
        Ok(())
    }
}

fn in_range(start: u64, size: u64) -> Result<(), Errno> {
    match start.checked_add(size) {
        Some(end) if end <= MAX_ADDRESS => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capabilities() -> impl Strategy<Value = Capabilities> {
        (any::<Option<u64>>(), any::<Option<u64>>()).prop_map(|(fds, size)| Capabilities { max_msg_fds: fds, max_data_xfer_size: size })
    }

    fn request() -> impl Strategy<Value = (Request<'static>, Vec<u8>)> {
        let version = (any::<u16>(), any::<u16>(), capabilities())
            .prop_map(|(major, minor, capabilities)| Request::Version(Version { major, minor, capabilities }));
        let map = (0u32..4, 0u64..1 << 62, 0u64..1 << 62, 1u64..1 << 62).prop_map(|(flags, offset, address, size)| {
            Request::DmaMap(DmaMap { flags: DmaFlags::from_bits_retain(flags), offset, address, size })
        });
        let unmap = (any::<bool>(), 0u64..1 << 62, 0u64..1 << 62).prop_map(|(all, address, size)| {
            Request::DmaUnmap(DmaUnmap { all, address: if all { 0 } else { address }, size: if all { 0 } else { size } })
        });
        let action = prop_oneof![Just(IrqAction::Mask), Just(IrqAction::Unmask), Just(IrqAction::Trigger)];
        let irqs = (any::<[u32; 3]>(), action, prop::collection::vec(any::<bool>(), 0..40), 0..3).prop_map(
            |([index, start, count], action, bools, kind)| {
                let (payload, count) = match kind {
                    0 => (IrqPayload::None, count),
                    1 => (IrqPayload::EventFd, count),
                    _ => (IrqPayload::Bool(bools.clone()), bools.len() as u32),
                };
                Request::SetIrqs(SetIrqs { index, start, count, action, payload })
            },
        );
        let access = |(offset, region, count)| Access { offset, region, count };
        let read = (any::<u64>(), any::<u32>(), 0..=MAX_DATA_XFER as u32).prop_map(move |a| Request::RegionRead(access(a)));
        let plain = prop_oneof![
            version,
            map,
            unmap,
            irqs,
            read,
            Just(Request::DeviceInfo),
            Just(Request::Reset),
            any::<u32>().prop_map(|index| Request::RegionInfo { index }),
            any::<u32>().prop_map(|index| Request::IrqInfo { index }),
        ];
        (plain, prop::collection::vec(any::<u8>(), 0..64))
    }

    proptest! {
        /// Every request survives encoding and decoding, and every shorter body of it is refused or is another valid request,
        /// never a panic.
        #[test]
        fn requests_round_trip((request, tail) in request()) {
            let mut body = request.encode();
            prop_assert_eq!(&Request::decode(request.command(), &body), &Ok(request.clone()));
            for cut in 0..body.len() {
                let _ = Request::decode(request.command(), &body[..cut]);
            }
            if !matches!(request, Request::Version(_)) {
                body.extend(tail);
                prop_assert_eq!(Request::decode(request.command(), &body), Ok(request));
            }
        }

        #[test]
        fn writes_round_trip(offset: u64, region: u32, data in prop::collection::vec(any::<u8>(), 0..100), more in 1u32..100) {
            let access = Access { offset, region, count: data.len() as u32 };
            let request = Request::RegionWrite(access, &data);
            let body = request.encode();
            prop_assert_eq!(Request::decode(command::REGION_WRITE, &body), Ok(request));
            let lie = Access { count: access.count + more, ..access }.encode(&data);
            prop_assert_eq!(Request::decode(command::REGION_WRITE, &lie), Err(Errno::INVAL));
        }

        #[test]
        fn headers_and_replies_round_trip(id: u16, command: u16, flags: u32, a: u32, b: u32, size: u64) {
            let header = Header { id, command, size: a, flags, error: b };
            prop_assert_eq!(Header::decode(&header.encode()), header);
            let device = DeviceInfo { flags: DeviceFlags::from_bits_retain(flags), regions: a, irqs: b };
            prop_assert_eq!(DeviceInfo::decode(&device.encode()), Ok(device));
            let region = RegionInfo { index: a, flags: RegionFlags::from_bits_retain(flags), size };
            prop_assert_eq!(RegionInfo::decode(&region.encode()), Ok(region));
            let irq = IrqInfo { index: a, flags: IrqFlags::from_bits_retain(flags), count: b };
            prop_assert_eq!(IrqInfo::decode(&irq.encode()), Ok(irq));
        }

        #[test]
        fn random_bodies_never_panic(command in 0u16..20, body in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Request::decode(command, &body);
            let _ = DeviceInfo::decode(&body);
            let _ = RegionInfo::decode(&body);
            let _ = IrqInfo::decode(&body);
            let _ = Access::decode(&body);
        }
    }

    /// Octets as the specification draws them, so that a mistake made on both sides alike shows.
    #[test]
    fn octets_are_those_of_the_specification() {
        let header = Header::request(0x0102, command::DMA_MAP, 32, false);
        assert_eq!(header.encode(), [2, 1, 2, 0, 48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let failed = header.error_reply(Errno::NOMEM);
        assert_eq!(failed.encode(), [2, 1, 2, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 12, 0, 0, 0]);
        let map = Request::DmaMap(DmaMap { flags: DmaFlags::WRITE, offset: 0x1000, address: 0x1_0000_0000, size: 0x2000 });
        let expected = [32, 0, 0, 0, 2, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0];
        assert_eq!(map.encode(), expected);
        let version =
            Version { major: 0, minor: 1, capabilities: Capabilities { max_msg_fds: Some(16), max_data_xfer_size: Some(1 << 20) } };
        let json = b"\0\0\x01\0{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576}}\0";
        assert_eq!(version.encode(), json);
    }

    #[test]
    fn a_version_without_json_or_with_unknown_members_is_taken_and_a_broken_one_refused() {
        let plain = Version::decode(&[0, 0, 1, 0]).expect("no JSON");
        assert_eq!(plain.capabilities, Capabilities::default());
        let more = b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":8,\"migration\":{\"pgsize\":4096}},\"x\":1}";
        assert_eq!(Version::decode(more).expect("members").capabilities.max_msg_fds, Some(8));
        assert_eq!(Version::decode(b"\0\0\0\0{\"capabilities\":{}").unwrap_err(), Errno::INVAL);
        assert_eq!(Version::decode(b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":-1}}").unwrap_err(), Errno::INVAL);
        assert_eq!(Version::decode(b"\0\0\0").unwrap_err(), Errno::INVAL);
    }
}
