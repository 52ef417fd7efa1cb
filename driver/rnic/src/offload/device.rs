// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of an adapter, as far as it has them: names and limits, protection domains, completion queues and queue pairs without work.
use super::{lock, qp::OffloadQp, Offload};
use ironwarp_abi::{PCI_DEVICE, PCI_VENDOR};
use ironwarp_iwcm::{Errno, Provider};
use ironwarp_verbs::{Access, Cq, Device, DeviceAttr, Mr, Pd, PortAttr, PortState, Qp, QpInitAttr, Wc};
use rustix::event::{eventfd, EventfdFlags};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

/// Entries of a completion queue.
const MAX_CQE: u32 = 4096;

/// What the provider counts beside the adapter, and what does not change.
pub(super) struct Counts {
    refused_requests: AtomicU64,
    next_handle: AtomicU32,
    max_mtu: u32,
    mtu: u32,
}

impl Counts {
    pub(super) fn new(max_mtu: u32, mtu: u32) -> Self {
        Counts { refused_requests: AtomicU64::new(0), next_handle: AtomicU32::new(1), max_mtu, mtu }
    }
    pub(super) fn refused_request(&self) {
        self.refused_requests.fetch_add(1, Ordering::Relaxed);
    }
    fn handle(&self) -> u32 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }
}

impl Device for Offload {
    fn query(&self) -> DeviceAttr {
        let shared = &self.shared;
        DeviceAttr {
            name: shared.config.name.clone(),
            fw_ver: env!("CARGO_PKG_VERSION").into(),
            node_guid: shared.node_guid,
            vendor_id: PCI_VENDOR.into(),
            vendor_part_id: PCI_DEVICE.into(),
            hw_ver: ironwarp_abi::ABI_VERSION >> 16,
            max_qp: shared.qps.max(),
            max_cq: u32::from(u16::MAX),
            max_cqe: MAX_CQE,
            max_pd: u32::from(u16::MAX),
            max_qp_rd_atom: shared.config.max_ird,
            max_qp_init_rd_atom: shared.config.max_ord,
            // no data path: neither work requests nor regions
            ..DeviceAttr::default()
        }
    }
    fn query_port(&self) -> PortAttr {
        let alive = lock(&self.shared.inner).rnic.is_some();
        PortAttr {
            state: if alive { PortState::Active } else { PortState::Down },
            max_mtu: self.shared.counts.max_mtu,
            active_mtu: self.shared.counts.mtu,
            addresses: Provider::query(self).addresses,
        }
    }
    fn alloc_pd(&self) -> Result<Arc<dyn Pd>, Errno> {
        Ok(Arc::new(OffloadPd { handle: self.shared.counts.handle() }))
    }
    fn create_cq(&self, cqe: u32) -> Result<Arc<dyn Cq>, Errno> {
        if cqe == 0 || cqe > MAX_CQE {
            return Err(Errno::Invalid);
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        Ok(Arc::new(OffloadCq { handle: self.shared.counts.handle(), event }))
    }
    fn create_qp(&self, pd: &Arc<dyn Pd>, init: &QpInitAttr) -> Result<Arc<dyn Qp>, Errno> {
        Ok(Arc::new(OffloadQp::new(&self.shared, pd, init)?))
    }
    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counters = self.with_rnic(|rnic| rnic.stats().map(|all| (all, rnic.oddities().rows())));
        let mut rows = Vec::new();
        if let Ok(Ok((counters, oddities))) = counters {
            rows.extend(counters.into_iter().map(|(counter, value)| (counter.name(), value)));
            rows.extend(oddities);
        }
        rows.push(("drvRefusedRequests", self.shared.counts.refused_requests.load(Ordering::Relaxed)));
        rows
    }
}

#[derive(Debug)]
struct OffloadPd {
    handle: u32,
}

impl Pd for OffloadPd {
    fn handle(&self) -> u32 {
        self.handle
    }
    fn alloc_mr(&self, _length: usize, _access: Access) -> Result<Arc<dyn Mr>, Errno> {
        Err(Errno::NotSupported)
    }
}

/// A completion queue in which nothing completes yet.
#[derive(Debug)]
struct OffloadCq {
    handle: u32,
    event: OwnedFd,
}

impl Cq for OffloadCq {
    fn handle(&self) -> u32 {
        self.handle
    }
    fn poll(&self, _max: usize, _to: &mut Vec<Wc>) -> Result<usize, Errno> {
        Ok(0)
    }
    fn req_notify(&self, _solicited_only: bool) -> Result<(), Errno> {
        Ok(())
    }
    fn wait(&self, timeout: Duration) -> Result<bool, Errno> {
        std::thread::sleep(timeout);
        Ok(false)
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
