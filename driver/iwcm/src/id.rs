// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection identifier.
use crate::Event;
use ironwarp_verbs::Errno;
use std::{net::SocketAddr, sync::Arc};

/// A counted reference of a provider to an id (`add_ref`, `rem_ref` of `iw_cm_id`): cloning takes one more, dropping gives it back.
/// Destroying an id waits for all of them.
#[derive(Debug)]
pub struct IdRef(Arc<()>);

impl Clone for IdRef {
    fn clone(&self) -> Self {
        todo!()
    }
}

impl IdRef {
    /// Own end as it goes on the wire.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }
    /// The peer's end as it goes on the wire.
    pub fn remote_addr(&self) -> SocketAddr {
        todo!()
    }
    /// Told by the provider when the real own end is known: a chosen port, the address of the way.
    pub fn set_local_addr(&self, _address: SocketAddr) {
        todo!()
    }
    /// DSCP and ECN octet for the connection's packets, if the client set one.
    pub fn tos(&self) -> Option<u8> {
        todo!()
    }
    /// The provider's own number for what this id is.
    pub fn provider_data(&self) -> u64 {
        todo!()
    }
    /// Sets it. For a child it is that of the CONNECT_REQUEST.
    pub fn set_provider_data(&self, _data: u64) {
        todo!()
    }
    /// Tells the connection manager (`event_handler`). Does not wait and calls nobody: the event is queued. An error means it was not taken: ENOMEM, no room in
    /// the queue of a listener; EINVAL, the listener is going away. Then the provider refuses the connection itself.
    pub fn event(&self, _event: Event) -> Result<(), Errno> {
        todo!()
    }
}
