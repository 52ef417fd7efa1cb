// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which id has which port, by rdma_cm's rule: a port is one id's, unless all who have it said [`crate::Opt::ReuseAddr`] and none of them listens.
//! Those then connect from one port to different peers; a listener is always alone. Ids of requests have their listener's port and are not
//! counted. What other programs have, the device knows: it refuses when an id listens or connects.
use crate::{core::lock, Errno};
use std::{collections::BTreeMap, net::SocketAddr, sync::Mutex};

/// What an id is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) address: SocketAddr,
    pub(crate) af_only: bool,
    pub(crate) reuse: bool,
    pub(crate) listening: bool,
}

impl Bound {
    /// Every address of its family, or of both.
    fn takes(&self, other: &Bound) -> bool {
        let own = self.address.ip();
        own == other.address.ip() || own.is_unspecified() && (own.is_ipv4() == other.address.is_ipv4() || own.is_ipv6() && !self.af_only)
    }
    fn excludes(&self, other: &Bound) -> bool {
        let share = self.reuse && other.reuse && !self.listening && !other.listening;
        self.address.port() == other.address.port() && !share && (self.takes(other) || other.takes(self))
    }
}

/// By number of the id.
#[derive(Default)]
pub(crate) struct Ports(Mutex<BTreeMap<u64, Bound>>);

impl Ports {
    /// The id has that port now, instead of what it had; EADDRINUSE, and nothing changes, if others exclude it. Port 0 is no port.
    pub(crate) fn bind(&self, number: u64, bound: Bound) -> Result<(), Errno> {
        if bound.address.port() == 0 {
            return Ok(());
        }
        let mut ports = lock(&self.0);
        if ports.iter().any(|(other, theirs)| *other != number && theirs.excludes(&bound)) {
            return Err(Errno::AddressInUse);
        }
        ports.insert(number, bound);
        Ok(())
    }
    /// The same for a listener whose port the device has just chosen: it has asked everybody.
    pub(crate) fn chosen(&self, number: u64, bound: Bound) {
        lock(&self.0).insert(number, bound);
    }
    /// It shares from now on.
    pub(crate) fn share(&self, number: u64) {
        if let Some(bound) = lock(&self.0).get_mut(&number) {
            bound.reuse = true;
        }
    }
    /// It listens no more, but is bound.
    pub(crate) fn listens_not(&self, number: u64) {
        if let Some(bound) = lock(&self.0).get_mut(&number) {
            bound.listening = false;
        }
    }
    /// The port is free.
    pub(crate) fn release(&self, number: u64) {
        lock(&self.0).remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_share_and_who_may_not() {
        let bound = |address: &str| Bound { address: address.parse().expect("address"), af_only: false, reuse: false, listening: false };
        let with = |first: Bound, second: Bound| {
            let ports = Ports::default();
            ports.bind(1, first).expect("nobody there");
            let [forth, back] = [ports.bind(2, second), {
                let ports = Ports::default();
                ports.bind(2, second).expect("nobody there");
                ports.bind(1, first)
            }];
            assert_eq!(forth, back, "the order does not matter");
            forth.is_ok()
        };
        let (a, b, any, v6, any6) =
            (bound("192.0.2.1:7"), bound("192.0.2.2:7"), bound("0.0.0.0:7"), bound("[2001:db8::1]:7"), bound("[::]:7"));
        assert!(with(a, b) && with(a, bound("192.0.2.1:8")) && with(a, v6) && with(v6, any));
        for (first, second) in [(a, a), (a, any), (any, any), (v6, any6), (a, any6), (any, any6)] {
            assert!(!with(first, second), "{first:?} {second:?}");
            let share = |bound| Bound { reuse: true, ..bound };
            assert!(with(share(first), share(second)), "both said so");
            assert!(!with(share(first), second) && !with(first, share(second)), "one is not enough");
            let listens = |bound| Bound { listening: true, ..share(bound) };
            assert!(!with(share(first), listens(second)) && !with(listens(first), listens(second)), "a listener is alone");
        }
        let only = Bound { af_only: true, ..any6 };
        assert!(with(a, only) && with(any, only) && !with(v6, only));
    }
}
