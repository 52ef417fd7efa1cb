// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parameters and options of a connection.
use crate::{Errno, PrivateData, TransportAttr};
use ironwarp_iwcm::MpaOptions;
use ironwarp_verbs::{Access, QpState};
use std::time::Duration;

/// A depth that means: as much as the device can (`RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`).
pub const MAX_DEPTH: u8 = 0xff;

/// What connect and accept are told (`rdma_conn_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnParam {
    /// Goes to the peer with the request, or with the answer.
    pub private_data: PrivateData,
    /// RDMA Reads of the peer that are served at once: the own IRD. [`MAX_DEPTH`] = the device's.
    pub responder_resources: u8,
    /// Own RDMA Reads at once: the own ORD. [`MAX_DEPTH`] = the device's.
    pub initiator_depth: u8,
    /// Of no effect on iWARP.
    pub flow_control: bool,
    /// Of no effect on iWARP: TCP retransmits.
    pub retry_count: u8,
    /// Of no effect on iWARP.
    pub rnr_retry_count: u8,
    /// Number of the queue pair, if it was not made by [`crate::Id::create_qp`].
    pub qp_num: Option<u32>,
}

impl Default for ConnParam {
    fn default() -> Self {
        ConnParam {
            private_data: PrivateData::default(),
            responder_resources: 1,
            initiator_depth: 1,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            qp_num: None,
        }
    }
}

impl ConnParam {
    /// With the deepest queues that the device has.
    pub fn deepest() -> Self {
        ConnParam { responder_resources: MAX_DEPTH, initiator_depth: MAX_DEPTH, ..Default::default() }
    }
    /// With private data. EINVAL if there is too much of it.
    pub fn with_private_data(mut self, octets: &[u8]) -> Result<Self, Errno> {
        self.private_data = PrivateData::new(octets)?;
        Ok(self)
    }
    /// As the transport takes it. EINVAL if it is more than the transport can.
    pub(crate) fn prepare(&self, attr: &TransportAttr, qp_num: u32) -> Result<Prepared, Errno> {
        let depth = |asked: u8, most: u16| match asked {
            MAX_DEPTH => Ok(most),
            asked if u16::from(asked) <= most => Ok(u16::from(asked)),
            _ => Err(Errno::Invalid),
        };
        if self.private_data.len() > attr.max_private_data {
            return Err(Errno::Invalid);
        }
        Ok(Prepared {
            private_data: self.private_data.clone(),
            responder_resources: depth(self.responder_resources, attr.max_responder_resources)?,
            initiator_depth: depth(self.initiator_depth, attr.max_initiator_depth)?,
            flow_control: self.flow_control,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            qp_num,
        })
    }
}

/// [`ConnParam`] as a transport gets it: complete, and within what it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Goes to the peer.
    pub private_data: PrivateData,
    /// Own IRD.
    pub responder_resources: u16,
    /// Own ORD.
    pub initiator_depth: u16,
    /// As asked.
    pub flow_control: bool,
    /// As asked.
    pub retry_count: u8,
    /// As asked.
    pub rnr_retry_count: u8,
    /// The queue pair.
    pub qp_num: u32,
}

/// What came from the peer, or was negotiated with it (`rdma_conn_param` of an event).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The peer's private data.
    pub private_data: PrivateData,
    /// Request: the peer's ORD, so what to give accept as own IRD. Else the own IRD as negotiated. Saturates at 255.
    pub responder_resources: u8,
    /// Request: the peer's IRD, so what to give accept as own ORD. Else the own ORD as negotiated. Saturates at 255.
    pub initiator_depth: u8,
}

/// What can be set ([`crate::Id::set_option`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt {
    /// DSCP and ECN octet of the connection's packets (`RDMA_OPTION_ID_TOS`).
    Tos(u8),
    /// Bind to a port that other ids have which said so, too, and do not listen (`RDMA_OPTION_ID_REUSEADDR`): all may connect from it, to different
    /// peers. Can be set once bound, but not taken back (EINVAL).
    ReuseAddr(bool),
    /// A listener at `::` does not listen on IPv4 (`RDMA_OPTION_ID_AFONLY`).
    AfOnly(bool),
    /// From connect to its event; unset = the transport's.
    ConnectTimeout(Duration),
    /// How MPA starts: iWARP only.
    Mpa(MpaOptions),
}

/// What has been set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// See [`Opt::Tos`].
    pub tos: Option<u8>,
    /// See [`Opt::ReuseAddr`].
    pub reuse_addr: bool,
    /// See [`Opt::AfOnly`].
    pub af_only: bool,
    /// See [`Opt::ConnectTimeout`].
    pub connect_timeout: Option<Duration>,
    /// See [`Opt::Mpa`].
    pub mpa: Option<MpaOptions>,
}

impl Options {
    pub(crate) fn set(&mut self, opt: Opt) {
        match opt {
            Opt::Tos(tos) => self.tos = Some(tos),
            Opt::ReuseAddr(on) => self.reuse_addr = on,
            Opt::AfOnly(on) => self.af_only = on,
            Opt::ConnectTimeout(timeout) => self.connect_timeout = Some(timeout),
            Opt::Mpa(mpa) => self.mpa = Some(mpa),
        }
    }
}

/// What a client that drives its queue pair itself is to set for a state ([`crate::Id::init_qp_attr`], CM-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitQpAttr {
    /// The state that was asked about.
    pub state: QpState,
    /// Rights to set; none = nothing is to be set.
    pub access: Option<Access>,
}

/// What [`crate::Id::notify`] tells the connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// A message came before the connection was known to be there (`IBV_EVENT_COMM_EST`).
    CommEst,
}
