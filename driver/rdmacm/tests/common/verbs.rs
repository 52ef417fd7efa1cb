// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device whose queue pairs only know their state.
use ironwarp_verbs::*;
use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        atomic::{AtomicU32, Ordering::SeqCst},
        Arc, Mutex,
    },
    time::Duration,
};

#[derive(Debug)]
pub struct FakeDevice {
    pub qps: Arc<AtomicU32>,
    next: AtomicU32,
}

impl FakeDevice {
    pub fn new() -> Arc<Self> {
        Arc::new(FakeDevice { qps: Arc::default(), next: AtomicU32::new(100) })
    }
    pub fn pd(&self) -> Arc<dyn Pd> {
        Arc::new(FakePd)
    }
    pub fn init(&self) -> QpInitAttr {
        let cq = self.create_cq(1).unwrap();
        QpInitAttr { send_cq: cq.clone(), recv_cq: cq, cap: QpCap::default(), sq_sig_all: false }
    }
}

impl Device for FakeDevice {
    fn query(&self) -> DeviceAttr {
        DeviceAttr::default()
    }
    fn query_port(&self) -> PortAttr {
        PortAttr::default()
    }
    fn alloc_pd(&self) -> Result<Arc<dyn Pd>, Errno> {
        Ok(self.pd())
    }
    fn create_cq(&self, _cqe: u32) -> Result<Arc<dyn Cq>, Errno> {
        Ok(Arc::new(FakeCq(File::open("/dev/null").unwrap())))
    }
    fn create_qp(&self, _pd: &Arc<dyn Pd>, init: &QpInitAttr) -> Result<Arc<dyn Qp>, Errno> {
        if init.cap.max_send_wr == 0 {
            return Err(Errno::Invalid);
        }
        self.qps.fetch_add(1, SeqCst);
        Ok(Arc::new(FakeQp { number: self.next.fetch_add(1, SeqCst), state: Mutex::new(QpState::Init), qps: self.qps.clone() }))
    }
    fn stats(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[derive(Debug)]
struct FakePd;
impl Pd for FakePd {
    fn handle(&self) -> u32 {
        1
    }
    fn alloc_mr(&self, _length: usize, _access: Access) -> Result<Arc<dyn Mr>, Errno> {
        Err(Errno::NotSupported)
    }
}

#[derive(Debug)]
struct FakeCq(File);
impl Cq for FakeCq {
    fn handle(&self) -> u32 {
        1
    }
    fn poll(&self, _max: usize, _to: &mut Vec<Wc>) -> Result<usize, Errno> {
        Ok(0)
    }
    fn req_notify(&self, _solicited_only: bool) -> Result<(), Errno> {
        Ok(())
    }
    fn wait(&self, _timeout: Duration) -> Result<bool, Errno> {
        Ok(false)
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug)]
struct FakeQp {
    number: u32,
    state: Mutex<QpState>,
    qps: Arc<AtomicU32>,
}
impl Qp for FakeQp {
    fn qp_num(&self) -> u32 {
        self.number
    }
    fn query(&self) -> QpAttr {
        QpAttr { state: *self.state.lock().unwrap(), ird: 0, ord: 0, terminate_in: None, terminate_out: None }
    }
    fn post_send(&self, _list: &[SendWr]) -> Result<(), (usize, Errno)> {
        Ok(())
    }
    fn post_recv(&self, _list: &[RecvWr]) -> Result<(), (usize, Errno)> {
        Ok(())
    }
    fn modify(&self, to: QpState) -> Result<(), Errno> {
        *self.state.lock().unwrap() = to;
        Ok(())
    }
    fn destroy(&self) -> Result<(), Errno> {
        *self.state.lock().unwrap() = QpState::Error;
        Ok(())
    }
}
impl Drop for FakeQp {
    fn drop(&mut self) {
        self.qps.fetch_sub(1, SeqCst);
    }
}
