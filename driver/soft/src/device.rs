// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: its tables and limits.
use crate::{
    config::{SoftConfig, MAX_CQE, MAX_INLINE, MAX_SGE, MAX_WR},
    counters::Counters,
    cq::SoftCq,
    listener::{Listener, Pending},
    memory::{Regions, SoftPd},
    qp::{Core, SoftQp},
    sync::lock,
};
use ironwarp_verbs::{Cq, Device, DeviceAttr, Errno, Pd, PortAttr, PortState, Qp, QpInitAttr, QpState};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering},
        Arc, Mutex, Weak,
    },
};

/// What all parts of a device share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: SoftConfig,
    pub(crate) counters: Arc<Counters>,
    pub(crate) qps: Mutex<HashMap<u32, Arc<Core>>>,
    pub(crate) listeners: Mutex<HashMap<u64, Listener>>,
    pub(crate) pending: Mutex<HashMap<u64, Pending>>,
    pub(crate) guid: u64,
    next: AtomicU64,
}

impl Shared {
    /// A number that was never given out before.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// A host-integrated iWARP device.
#[derive(Debug)]
pub struct Soft {
    pub(crate) shared: Arc<Shared>,
    regions: Arc<Regions>,
    handles: AtomicU32,
    pds: Mutex<HashMap<u32, Weak<SoftPd>>>,
    cqs: Mutex<HashMap<u32, Weak<SoftCq>>>,
}

impl Soft {
    /// A device of its own: it shares nothing with others but the host's TCP.
    pub fn new(config: SoftConfig) -> Arc<Self> {
        let counters = Arc::new(Counters::default());
        let regions = Arc::new(Regions::new(config.max_mr, config.max_mr_size, counters.clone()));
        let shared = Arc::new(Shared {
            config,
            counters,
            qps: Mutex::default(),
            listeners: Mutex::default(),
            pending: Mutex::default(),
            // locally administered
            guid: rand::random::<u64>() | 0x0200_0000_0000_0000,
            next: AtomicU64::new(1),
        });
        Arc::new(Soft { shared, regions, handles: AtomicU32::new(1), pds: Mutex::default(), cqs: Mutex::default() })
    }
    fn cq(&self, cq: &Arc<dyn Cq>) -> Result<Arc<SoftCq>, Errno> {
        let own = lock(&self.cqs).get(&cq.handle()).and_then(Weak::upgrade).ok_or(Errno::Invalid)?;
        if std::ptr::addr_eq(Arc::as_ptr(&own), Arc::as_ptr(cq)) {
            Ok(own)
        } else {
            Err(Errno::Invalid)
        }
    }
}

impl Drop for Soft {
    fn drop(&mut self) {
        let listeners = std::mem::take(&mut *lock(&self.shared.listeners));
        drop(listeners);
        let pending = std::mem::take(&mut *lock(&self.shared.pending));
        for one in pending.into_values() {
            one.reset();
        }
        let qps: Vec<_> = lock(&self.shared.qps).values().cloned().collect();
        for qp in qps {
            let _ = qp.modify(QpState::Error);
        }
    }
}

impl Device for Soft {
    fn query(&self) -> DeviceAttr {
        let config = &self.shared.config;
        DeviceAttr {
            name: config.name.clone(),
            fw_ver: env!("CARGO_PKG_VERSION").into(),
            node_guid: self.shared.guid,
            max_qp: config.max_qp,
            max_qp_wr: MAX_WR,
            max_sge: MAX_SGE,
            max_inline_data: MAX_INLINE,
            max_cq: 1 << 16,
            max_cqe: MAX_CQE,
            max_mr: config.max_mr,
            max_mr_size: config.max_mr_size,
            max_pd: 1 << 16,
            max_qp_rd_atom: config.max_depth,
            max_qp_init_rd_atom: config.max_depth,
            ..DeviceAttr::default()
        }
    }
    fn query_port(&self) -> PortAttr {
        // the host decides by route; its loopback is always there
        PortAttr { state: PortState::Active, max_mtu: 65535, active_mtu: 1500, addresses: Vec::new() }
    }
    fn alloc_pd(&self) -> Result<Arc<dyn Pd>, Errno> {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        let pd = Arc::new(SoftPd::new(handle, self.regions.clone()));
        let mut pds = lock(&self.pds);
        pds.retain(|_, pd| pd.strong_count() > 0);
        pds.insert(handle, Arc::downgrade(&pd));
        Ok(pd)
    }
    fn create_cq(&self, cqe: u32) -> Result<Arc<dyn Cq>, Errno> {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        let cq = Arc::new(SoftCq::new(handle, cqe, self.shared.counters.clone())?);
        let mut cqs = lock(&self.cqs);
        cqs.retain(|_, cq| cq.strong_count() > 0);
        cqs.insert(handle, Arc::downgrade(&cq));
        Ok(cq)
    }
    fn create_qp(&self, pd: &Arc<dyn Pd>, init: &QpInitAttr) -> Result<Arc<dyn Qp>, Errno> {
        let own = lock(&self.pds).get(&pd.handle()).and_then(Weak::upgrade).ok_or(Errno::Invalid)?;
        let cap = init.cap;
        if !std::ptr::addr_eq(Arc::as_ptr(&own), Arc::as_ptr(pd))
            || cap.max_send_wr.max(cap.max_recv_wr) > MAX_WR
            || cap.max_send_sge.max(cap.max_recv_sge) > MAX_SGE
            || cap.max_inline_data > MAX_INLINE
        {
            return Err(Errno::Invalid);
        }
        let (send_cq, recv_cq) = (self.cq(&init.send_cq)?, self.cq(&init.recv_cq)?);
        let mut qps = lock(&self.shared.qps);
        if qps.len() >= self.shared.config.max_qp as usize {
            return Err(Errno::NoMemory);
        }
        let num = loop {
            let num = self.shared.number() as u32 & 0xff_ffff;
            if num > 1 && !qps.contains_key(&num) {
                break num;
            }
        };
        let core = Arc::new(Core::new(num, own, send_cq, recv_cq, cap, init.sq_sig_all, self.shared.clone()));
        qps.insert(num, core.clone());
        Ok(Arc::new(SoftQp(core)))
    }
    fn stats(&self) -> Vec<(&'static str, u64)> {
        self.shared.counters.list()
    }
}
