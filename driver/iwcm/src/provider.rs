// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device must do to be used by the connection manager.
use crate::{IdRef, PrivateData};
use ironwarp_verbs::{Errno, QpState};
use std::{net::IpAddr, time::Duration};

/// Parameters of connect and accept (`iw_cm_conn_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnParam {
    /// Queue pair that is bound to the connection, 24 bits.
    pub qpn: u32,
    /// Own IRD, up to 0x3fff.
    pub ird: u16,
    /// Own ORD, up to 0x3fff.
    pub ord: u16,
    /// Goes to the peer.
    pub private_data: PrivateData,
    /// How MPA starts; none = as the provider is set up.
    pub mpa: Option<MpaOptions>,
    /// From connect to CONNECT_REPLY; none = the provider's.
    pub timeout: Option<Duration>,
}

impl Default for ConnParam {
    fn default() -> Self {
        ConnParam { qpn: 0, ird: 1, ord: 1, private_data: PrivateData::default(), mpa: None, timeout: None }
    }
}

impl ConnParam {
    /// EINVAL if a number is larger than its field on the wire or in the queue pair.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let fits = self.qpn < 1 << 24 && self.ird <= 0x3fff && self.ord <= 0x3fff;
        fits.then_some(()).ok_or(Errno::Invalid)
    }
}

/// Choices of the MPA start-up that an initiator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpaOptions {
    /// Revision 2 with IRD and ORD (RFC 6581); else revision 1.
    pub enhanced: bool,
    /// Peer-to-peer: the first message is an RTR of the initiator; needs `enhanced`.
    pub peer_to_peer: bool,
    /// If the peer does not take the enhanced Request, once again in revision 1; needs `enhanced` without `peer_to_peer`.
    pub retry: bool,
    /// Ask for CRC; without it CRC is used only if the peer asks.
    pub crc: bool,
    /// Ask the peer for markers.
    pub markers: bool,
}

impl Default for MpaOptions {
    fn default() -> Self {
        MpaOptions { enhanced: true, peer_to_peer: false, retry: true, crc: true, markers: false }
    }
}

/// What a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAttr {
    /// Name of the device.
    pub name: String,
    /// EUI-64, unique among devices.
    pub node_guid: u64,
    /// Own addresses. A device without a fixed list (host integrated) leaves it empty and takes any.
    pub addresses: Vec<IpAddr>,
    /// Largest IRD.
    pub max_ird: u16,
    /// Largest ORD.
    pub max_ord: u16,
}

/// Names a queue pair between the connection manager and its provider. A handle that was made by [`Provider::get_qp`] is good until
/// [`Provider::rem_ref`] has been called as often as `get_qp` and [`Provider::add_ref`] for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpHandle(pub u64);

/// A device, as the connection manager sees it (`iw_cm_verbs`).
///
/// Rules for the provider (requirements CM-1 to CM-45):
/// - A verb returns at once; what the network does comes as an event through the [`IdRef`] that was given ([`IdRef::event`]), in order. Events
///   may come before the verb has returned. The only verb that waits is `create_listen`, for the device's own listen reply, which
///   must not need the thread that raises events (CM-21).
/// - connect that returns Ok raises exactly one CONNECT_REPLY, whatever happens; with an error it raises none (CM-3). accept that returns Ok
///   raises exactly one ESTABLISHED, before CLOSE even if the peer is gone; with an error it raises none, and the provider itself has
///   reset the stream (CM-5). After reject nothing is raised (CM-7). CLOSE is raised once for what was established, and last (CM-12).
/// - No lock that a verb takes is held while an event is raised (CM-31).
/// - The `IdRef` is kept until the last event was raised, then dropped (CM-30). A pending request is no `IdRef`: CONNECT_REQUEST is raised on
///   the listener's, with a number for the new endpoint that accept and reject find in [`IdRef::provider_data`]. If raising it fails, the provider rejects
///   the connection and frees it (CM-9).
/// - The QP is in RTS before ESTABLISHED or CONNECT_REPLY (0) is raised, and has left RTS, with all placement stopped, before CLOSE (CM-14).
///
/// No method is called with a lock of the connection manager held.
pub trait Provider: Send + Sync {
    /// Names and limits.
    fn query(&self) -> ProviderAttr;
    /// The queue pair of that number, with one reference more.
    fn get_qp(&self, qpn: u32) -> Option<QpHandle>;
    /// One reference more.
    fn add_ref(&self, qp: QpHandle);
    /// One reference less: destroying a queue pair waits for the last.
    fn rem_ref(&self, qp: QpHandle);
    /// `Sqd` closes the connection in order, `Error` resets it; harmless if the queue pair is there already (CM-16, CM-17).
    fn modify_qp(&self, qp: QpHandle, to: QpState) -> Result<(), Errno>;
    /// Opens a connection from the id's local to its remote address. The chosen local address is put into the id before CONNECT_REPLY.
    fn connect(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno>;
    /// Takes the connection that the id's [`IdRef::provider_data`] names.
    fn accept(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno>;
    /// Refuses it. The private data is the caller's again on return.
    fn reject(&self, id: IdRef, private_data: &PrivateData) -> Result<(), Errno>;
    /// Listens at the id's local address; port 0 lets the provider choose, and the chosen one is put into the id before this returns. `backlog`
    /// is never 0.
    fn create_listen(&self, id: IdRef, backlog: u32) -> Result<(), Errno>;
    /// Stops. On return no CONNECT_REQUEST is raised for that id any more, and its `IdRef` is dropped; connections whose request was
    /// announced live on, the others are reset (CM-22).
    fn destroy_listen(&self, id: IdRef) -> Result<(), Errno>;
}
