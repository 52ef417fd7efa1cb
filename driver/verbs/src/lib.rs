// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs of an iWARP device, in the names of libibverbs. A provider (`ironwarp-soft`, `ironwarp-rnic`) implements the traits; an
//! application that is written to them runs on every provider.
//!
//! | libibverbs | here |
//! |---|---|
//! | `ibv_context` | [`Device`] |
//! | `ibv_alloc_pd`, `ibv_reg_mr` | [`Device::alloc_pd`], [`Pd::alloc_mr`] |
//! | `ibv_create_cq`, `ibv_poll_cq`, `ibv_req_notify_cq`, `ibv_get_cq_event` | [`Device::create_cq`], [`Cq::poll`], [`Cq::req_notify`], [`Cq::wait`] |
//! | `ibv_create_qp`, `ibv_modify_qp`, `ibv_query_qp`, `ibv_post_send`, `ibv_post_recv` | [`Device::create_qp`], [`Qp`] |
//!
//! Two things differ from C. A memory region brings its memory along ([`Pd::alloc_mr`]), since a peer may write to it at any moment: it is
//! read and written by copies ([`Mr::read`], [`Mr::write`]), never borrowed. And objects are reference counted: a queue pair keeps its
//! completion queues and its protection domain; the last owner of a queue pair that goes away destroys it.
#![deny(unsafe_code)]

mod attr;
mod errno;
mod work;

pub use attr::{Access, DeviceAttr, PortAttr, PortState, QpAttr, QpCap, QpInitAttr, QpState, Terminate};
pub use errno::Errno;
pub use work::{RecvWr, SendFlags, SendOp, SendWr, Sge, Wc, WcOpcode, WcStatus};

use std::{fmt, os::fd::BorrowedFd, sync::Arc, time::Duration};

/// An opened device (`ibv_context`).
pub trait Device: Send + Sync + fmt::Debug {
    /// Limits and names (`ibv_query_device`).
    fn query(&self) -> DeviceAttr;
    /// Its one port (`ibv_query_port`).
    fn query_port(&self) -> PortAttr;
    /// A protection domain (`ibv_alloc_pd`). ENOMEM when all are in use.
    fn alloc_pd(&self) -> Result<Arc<dyn Pd>, Errno>;
    /// A completion queue of at least `cqe` entries (`ibv_create_cq`). EINVAL for 0 or more than [`DeviceAttr::max_cqe`].
    fn create_cq(&self, cqe: u32) -> Result<Arc<dyn Cq>, Errno>;
    /// A queue pair in [`QpState::Init`] (`ibv_create_qp`): connect and accept bring it to RTS. EINVAL if `pd` or a queue belongs to
    /// another device or a limit is exceeded.
    fn create_qp(&self, pd: &Arc<dyn Pd>, init: &QpInitAttr) -> Result<Arc<dyn Qp>, Errno>;
    /// Counters and their values, in a fixed order, with the names that RDMA tools use.
    fn stats(&self) -> Vec<(&'static str, u64)>;
}

/// A protection domain: what its queue pairs may touch (`ibv_pd`).
pub trait Pd: Send + Sync + fmt::Debug {
    /// Number, unique among those of the device that live.
    fn handle(&self) -> u32;
    /// A region of `length` octets of zeros, with the rights `access` (`ibv_reg_mr`). ENOMEM; EINVAL for length 0 or an unknown right.
    fn alloc_mr(&self, length: usize, access: Access) -> Result<Arc<dyn Mr>, Errno>;
}

/// A memory region (`ibv_mr`). It lives, for the peer too, until [`Mr::dereg`] or its last owner is gone.
pub trait Mr: Send + Sync + fmt::Debug {
    /// Address of its first octet, for scatter-gather entries and for the peer. Only the device knows what it means.
    fn addr(&self) -> u64;
    /// Octets.
    fn length(&self) -> usize;
    /// Key for own work requests.
    fn lkey(&self) -> u32;
    /// Key (STag) for the peer.
    fn rkey(&self) -> u32;
    /// Copies octets out, from `offset`. EFAULT if they are not all inside.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Errno>;
    /// Copies octets in, to `offset`. EFAULT if they do not all fit.
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), Errno>;
    /// New key, same memory; makes a region valid again that was invalidated. Answers lkey and rkey.
    fn rekey(&self, access: Access) -> Result<(u32, u32), Errno>;
    /// Good for the stream of that queue pair alone, or again for all of its domain (DDP-26). EOPNOTSUPP where the device cannot.
    fn restrict(&self, _qp_num: Option<u32>) -> Result<(), Errno> {
        Err(Errno::NotSupported)
    }
    /// Takes the rights away, now (`ibv_dereg_mr`): on return nothing is placed or read any more. The memory can still be read here.
    /// EINVAL the second time.
    fn dereg(&self) -> Result<(), Errno>;
    /// A scatter-gather entry of `length` octets from `offset`. Bounds are checked when it is used.
    fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { addr: self.addr() + offset as u64, length: length as u32, lkey: self.lkey() }
    }
}

/// A completion queue (`ibv_cq`).
pub trait Cq: Send + Sync + fmt::Debug {
    /// Number, unique among those of the device that live.
    fn handle(&self) -> u32;
    /// Moves up to `max` completions to `to`, answers how many. EOVERFLOW once more came than the queue holds: it is of no use then.
    fn poll(&self, max: usize, to: &mut Vec<Wc>) -> Result<usize, Errno>;
    /// The next completion (or the next solicited one or error) makes [`Cq::fd`] readable and ends [`Cq::wait`]. Poll again after arming.
    fn req_notify(&self, solicited_only: bool) -> Result<(), Errno>;
    /// Waits for what [`Cq::req_notify`] asked for, and takes it back; false after `timeout`.
    fn wait(&self, timeout: Duration) -> Result<bool, Errno>;
    /// Readable while a notification is there that [`Cq::wait`] has not taken.
    fn fd(&self) -> BorrowedFd<'_>;
}

/// A queue pair (`ibv_qp`).
pub trait Qp: Send + Sync + fmt::Debug {
    /// Its number, 24 bits; what connect and accept name.
    fn qp_num(&self) -> u32;
    /// State, depths, and the last Terminate.
    fn query(&self) -> QpAttr;
    /// Posts in order; if one is refused, those before it are posted: its index and why. ENOMEM: the queue is full. EINVAL: not in this state,
    /// or too many entries. In ERROR state all is taken and completes as flushed.
    fn post_send(&self, list: &[SendWr]) -> Result<(), (usize, Errno)>;
    /// Posts in order, as [`Qp::post_send`]; also before the connection is there.
    fn post_recv(&self, list: &[RecvWr]) -> Result<(), (usize, Errno)>;
    /// To [`QpState::Sqd`] (closes in order), [`QpState::Error`] or, from there, [`QpState::Init`]; harmless if it is already there. To RTS
    /// only a connection brings it: EINVAL.
    fn modify(&self, to: QpState) -> Result<(), Errno>;
    /// Ends the connection, flushes, and waits until nobody refers to the queue pair (`ibv_destroy_qp`): also the connection manager.
    /// ETIMEDOUT if that takes longer than the provider's bound. Harmless the second time.
    fn destroy(&self) -> Result<(), Errno>;
}
