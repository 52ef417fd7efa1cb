// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of an adapter: names and limits, and how its objects are made.
use super::{
    cq::OffloadCq,
    explained, lock,
    qp::{OffloadQp, QUEUE_LOG2_MAX},
    region::OffloadPd,
    DataPath, Offload, OffloadConfig, Shared,
};
use crate::{device::DeviceInfo, queues::CompletionRing};
use ironwarp_abi::{
    work::{INLINE_OCTETS, SGES},
    Command, PCI_DEVICE, PCI_VENDOR,
};
use ironwarp_iwcm::{Errno, Provider};
use ironwarp_verbs::{Cq, Device, DeviceAttr, Pd, PortAttr, PortState, Qp, QpInitAttr};
use std::sync::{
    atomic::{AtomicU16, AtomicU64, Ordering},
    Arc,
};

/// Entries of a completion queue.
const MAX_CQE: u32 = 4096;

/// What the provider counts beside the adapter, and what does not change.
pub(super) struct Counts {
    refused_requests: AtomicU64,
    stray_completions: AtomicU64,
    next_pd: AtomicU16,
    pub(super) attr: DeviceAttr,
    max_mtu: u32,
    mtu: u32,
}

impl Counts {
    pub(super) fn new(info: &DeviceInfo, config: &OffloadConfig) -> Self {
        Counts {
            refused_requests: AtomicU64::new(0),
            stray_completions: AtomicU64::new(0),
            next_pd: AtomicU16::new(1),
            attr: attr(info, config),
            max_mtu: info.max_mtu,
            mtu: info.mtu,
        }
    }
    pub(super) fn refused_request(&self) {
        self.refused_requests.fetch_add(1, Ordering::Relaxed);
    }
    /// A completion of which no queue pair knows.
    pub(super) fn stray_completion(&self) {
        self.stray_completions.fetch_add(1, Ordering::Relaxed);
    }
}

impl DeviceInfo {
    /// What the verbs of this adapter say of it; none if it moves no data.
    pub fn attr(&self) -> Option<DeviceAttr> {
        DataPath::of(self).map(|_| attr(self, &OffloadConfig::default()))
    }
}

fn attr(info: &DeviceInfo, config: &OffloadConfig) -> DeviceAttr {
    let data_path = DataPath::of(info);
    let work = |most| if data_path.is_some() { most } else { 0 };
    let [a, b, c, d, e, f] = info.mac.0;
    DeviceAttr {
        name: config.name.clone(),
        fw_ver: env!("CARGO_PKG_VERSION").into(),
        node_guid: u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]),
        vendor_id: PCI_VENDOR.into(),
        vendor_part_id: PCI_DEVICE.into(),
        hw_ver: ironwarp_abi::ABI_VERSION >> 16,
        max_qp: data_path.map_or(info.max_connections, |d| d.max_qps - 1).into(),
        max_cq: data_path.map_or(u16::MAX, |d| d.max_cqs - 1).into(),
        max_cqe: MAX_CQE,
        max_qp_wr: work(1 << QUEUE_LOG2_MAX),
        max_sge: work(SGES as u32),
        max_inline_data: work(INLINE_OCTETS as u32),
        max_mr: data_path.map_or(0, |d| (1 << d.regions_log2) - 1),
        max_mr_size: data_path.map_or(0, |_| (1 << 48) - 1),
        max_pd: u32::from(u16::MAX),
        max_qp_rd_atom: config.max_ird,
        max_qp_init_rd_atom: config.max_ord,
    }
}

impl Device for Offload {
    fn query(&self) -> DeviceAttr {
        self.shared.counts.attr.clone()
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
        // numbers come round after 2^16: two domains with one number protect as little as one, and 0 is never given
        let handle = self.shared.counts.next_pd.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.wrapping_add(1).max(1)));
        Ok(Arc::new(OffloadPd { shared: Arc::downgrade(&self.shared), handle: handle.unwrap_or(1) }))
    }
    fn create_cq(&self, cqe: u32) -> Result<Arc<dyn Cq>, Errno> {
        if cqe == 0 || cqe > MAX_CQE {
            return Err(Errno::Invalid);
        }
        Ok(self.shared.new_cq(cqe)?)
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
        rows.push(("drvStrayCompletions", self.shared.counts.stray_completions.load(Ordering::Relaxed)));
        rows
    }
}

impl Shared {
    /// A completion queue of at least `cqe` entries; on an adapter without a data path one in which nothing completes.
    fn new_cq(self: &Arc<Self>, cqe: u32) -> Result<Arc<OffloadCq>, Errno> {
        let log2 = cqe.next_power_of_two().trailing_zeros().max(2) as u16;
        let mut cqs = lock(&self.cqs);
        let max = self.data_path.map_or(u16::MAX, |d| d.max_cqs);
        let cqn = (1..max).find(|cqn| !cqs.contains_key(cqn)).ok_or(Errno::NoMemory)?;
        let (iova, memory) = self
            .with_rnic(|rnic, _| {
                let (iova, memory) = rnic.share(CompletionRing::octets(log2))?;
                if self.data_path.is_some() {
                    if let Err(e) = rnic.object(Command::create_cq(0, cqn.into(), iova, log2)) {
                        drop(rnic.unshare(iova));
                        return Err(e);
                    }
                }
                Ok((iova, memory))
            })?
            .map_err(explained("create_cq"))?;
        let cq = Arc::new(OffloadCq::new(self, cqn, iova, memory, log2)?);
        cqs.insert(cqn, (cq.notice(), Arc::downgrade(&cq)));
        Ok(cq)
    }
    /// Its last owner went away.
    pub(super) fn cq_gone(&self, cqn: u16, iova: u64) {
        let ended = self.with_rnic(|rnic, _| {
            if self.data_path.is_some() {
                rnic.object(Command::destroy_cq(0, cqn.into()))?;
            }
            rnic.unshare(iova)
        });
        match ended {
            Ok(Ok(())) | Err(Errno::NoDevice) => {
                lock(&self.cqs).remove(&cqn);
            }
            // its number and memory stay the adapter's
            Ok(Err(e)) => tracing::warn!("completion queue {cqn}: {e}"),
            Err(e) => tracing::warn!("completion queue {cqn}: {e}"),
        }
    }
}
