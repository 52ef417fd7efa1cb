// SPDX-License-Identifier: MIT OR Apache-2.0
//! A provider of the iWARP connection manager that raises what the test says.
use super::{own, peer};
use ironwarp_iwcm::{ConnParam, Depths, Errno, Event, EventKind, IdRef, PrivateData, Provider, ProviderAttr, QpHandle};
use ironwarp_verbs::QpState;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Connect,
    Accept,
    Listen,
}

#[derive(Default)]
struct Body {
    listener: Option<IdRef>,
    live: Vec<IdRef>,
    param: Option<ConnParam>,
    connects: usize,
    rejects: usize,
    fail: Option<(Step, Errno)>,
    close_on_error: bool,
    at_once: bool,
}

pub struct TestProvider {
    guid: u64,
    body: Mutex<Body>,
}

impl TestProvider {
    pub fn new(guid: u64) -> Arc<Self> {
        Arc::new(TestProvider { guid, body: Mutex::default() })
    }
    fn body(&self) -> std::sync::MutexGuard<'_, Body> {
        self.body.lock().unwrap()
    }
    pub fn fail(&self, step: Step, errno: Errno) {
        self.body().fail = Some((step, errno));
    }
    fn failure(&self, step: Step) -> Result<(), Errno> {
        match self.body().fail {
            Some((s, errno)) if s == step => Err(errno),
            _ => Ok(()),
        }
    }
    /// A queue pair that leaves RTS closes its connection.
    pub fn close_on_error(&self) {
        self.body().close_on_error = true;
    }
    /// connect and accept succeed by themselves.
    pub fn answer_at_once(&self, on: bool) {
        self.body().at_once = on;
    }
    pub fn rejects(&self) -> usize {
        self.body().rejects
    }
    pub fn last_param(&self) -> ConnParam {
        self.body().param.clone().expect("a connect or accept")
    }
    pub fn last_tos(&self) -> Option<u8> {
        self.body().live.last().expect("a connection").tos()
    }
    pub fn wait_connects(&self, connects: usize) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.body().connects < connects {
            assert!(Instant::now() < end, "no connect");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    pub fn request(&self, octets: &[u8], depths: Depths) -> Result<(), Errno> {
        let listener = self.body().listener.clone().expect("a listener");
        let mut event = Event::new(EventKind::ConnectRequest, own(7), peer(5000));
        event.private_data = PrivateData::new(octets).unwrap();
        event.depths = depths;
        event.provider_data = 77;
        listener.event(event)
    }
    pub fn raise_last(&self, kind: EventKind, status: Result<(), Errno>, octets: &[u8]) {
        self.raise(kind, status, octets, Depths::default());
    }
    pub fn raise_last_with(&self, kind: EventKind, status: Result<(), Errno>, depths: Depths) {
        self.raise(kind, status, b"", depths);
    }
    fn raise(&self, kind: EventKind, status: Result<(), Errno>, octets: &[u8], depths: Depths) {
        let id = {
            let mut body = self.body();
            let over = kind == EventKind::Close || (kind == EventKind::ConnectReply && status.is_err());
            if over {
                body.live.pop()
            } else {
                body.live.last().cloned()
            }
        };
        let mut event = Event::new(kind, own(41000), peer(7));
        event.status = status;
        event.private_data = PrivateData::new(octets).unwrap();
        event.depths = depths;
        id.expect("a connection").event(event).unwrap();
    }
    fn begin(&self, step: Step, id: IdRef, param: &ConnParam, kind: EventKind) -> Result<(), Errno> {
        self.failure(step)?;
        let at_once = {
            let mut body = self.body();
            body.param = Some(param.clone());
            body.live.push(id);
            body.connects += usize::from(step == Step::Connect);
            body.at_once
        };
        if at_once {
            self.raise_last(kind, Ok(()), b"");
        }
        Ok(())
    }
}

impl Provider for TestProvider {
    fn query(&self) -> ProviderAttr {
        ProviderAttr { name: "test".into(), node_guid: self.guid, addresses: vec![super::OWN.into()], max_ird: 32, max_ord: 16 }
    }
    fn get_qp(&self, qpn: u32) -> Option<QpHandle> {
        Some(QpHandle(qpn.into()))
    }
    fn add_ref(&self, _qp: QpHandle) {}
    fn rem_ref(&self, _qp: QpHandle) {}
    fn modify_qp(&self, _qp: QpHandle, _to: QpState) -> Result<(), Errno> {
        let close = self.body().close_on_error && !self.body().live.is_empty();
        if close {
            self.raise_last(EventKind::Close, Ok(()), b"");
        }
        Ok(())
    }
    fn connect(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        self.begin(Step::Connect, id, param, EventKind::ConnectReply)
    }
    fn accept(&self, id: IdRef, param: &ConnParam) -> Result<(), Errno> {
        self.begin(Step::Accept, id, param, EventKind::Established)
    }
    fn reject(&self, _id: IdRef, _private_data: &PrivateData) -> Result<(), Errno> {
        self.body().rejects += 1;
        Ok(())
    }
    fn create_listen(&self, id: IdRef, _backlog: u32) -> Result<(), Errno> {
        self.failure(Step::Listen)?;
        self.body().listener = Some(id);
        Ok(())
    }
    fn destroy_listen(&self, _id: IdRef) -> Result<(), Errno> {
        self.body().listener = None;
        Ok(())
    }
}

impl Drop for TestProvider {
    fn drop(&mut self) {
        let body = std::mem::take(&mut *self.body());
        drop(body);
    }
}
