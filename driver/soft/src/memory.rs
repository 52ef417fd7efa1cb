// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions: own memory, read and written by copies under the region's lock, so that taking a key away is complete on return
//! (DDP-12) and no access needs more trust than a key.
//!
//! A key is 24 bits of index, chosen at random among the free ones, and 8 random bits (RDM-35, DDP-11). Addresses are the device's own:
//! regions never touch, so one octet too far is always outside.
use crate::counters::Counters;
use ironwarp_verbs::{Access, Errno, Mr, Pd};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    },
};

/// Why octets may not be touched (DDP-2, RDM-18, RDM-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No such key now.
    Key,
    /// Of another domain or stream.
    Association,
    /// Right missing.
    Right,
    /// Beyond 2^64.
    Wrap,
    /// Outside.
    Bounds,
}

/// Who wants to touch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) pd: u32,
    pub(crate) qp: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Valid,
    /// Its memory is there, its key is not.
    Invalid,
    Gone,
}

#[derive(Debug)]
struct State {
    key: u8,
    life: Life,
    access: Access,
    /// The one queue pair that may use it.
    stream: Option<u32>,
    data: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Region {
    index: u32,
    base: u64,
    length: usize,
    pd: u32,
    state: RwLock<State>,
}

impl Region {
    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn stag(&self, state: &State) -> u32 {
        self.index << 8 | u32::from(state.key)
    }
    /// Where in `data` the octets lie.
    fn check(&self, state: &State, stag: u32, who: Who, right: Access, at: u64, length: usize) -> Result<usize, Fault> {
        if state.life != Life::Valid || stag != self.stag(state) {
            return Err(Fault::Key);
        }
        if self.pd != who.pd || state.stream.is_some_and(|qp| qp != who.qp) {
            return Err(Fault::Association);
        }
        if !state.access.contains(right) {
            return Err(Fault::Right);
        }
        if length > 0 && at.checked_add(length as u64 - 1).is_none() {
            return Err(Fault::Wrap);
        }
        let offset = at.checked_sub(self.base).and_then(|n| usize::try_from(n).ok()).ok_or(Fault::Bounds)?;
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(offset),
            _ => Err(Fault::Bounds),
        }
    }
}

/// All regions of a device.
#[derive(Debug)]
pub(crate) struct Regions {
    table: RwLock<HashMap<u32, Arc<Region>>>,
    next: Mutex<u64>,
    max: usize,
    max_size: u64,
    counters: Arc<Counters>,
}

impl Regions {
    pub(crate) fn new(max: u32, max_size: u64, counters: Arc<Counters>) -> Self {
        let first = 0x1000_0000_0000 + (u64::from(rand::random::<u32>()) << 12);
        Regions { table: RwLock::default(), next: Mutex::new(first), max: max as usize, max_size, counters }
    }
    fn find(&self, stag: u32) -> Result<Arc<Region>, Fault> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(&(stag >> 8)).cloned().ok_or(Fault::Key)
    }
    /// May these octets be touched now?
    pub(crate) fn check(&self, stag: u32, who: Who, right: Access, at: u64, length: usize) -> Result<(), Fault> {
        let region = self.find(stag)?;
        let state = region.read();
        region.check(&state, stag, who, right, at, length).map(drop)
    }
    /// Copies octets in.
    pub(crate) fn place(&self, stag: u32, who: Who, right: Access, at: u64, octets: &[u8]) -> Result<(), Fault> {
        let region = self.find(stag)?;
        let mut state = region.write();
        let offset = region.check(&state, stag, who, right, at, octets.len())?;
        state.data[offset..offset + octets.len()].copy_from_slice(octets);
        Ok(())
    }
    /// Shows octets to `take`.
    pub(crate) fn fetch<R>(
        &self,
        stag: u32,
        who: Who,
        right: Access,
        at: u64,
        length: usize,
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let region = self.find(stag)?;
        let state = region.read();
        let offset = region.check(&state, stag, who, right, at, length)?;
        Ok(take(&state.data[offset..offset + length]))
    }
    /// Takes a key away: by its owner, or by the peer of the only stream that may use it.
    pub(crate) fn invalidate(&self, stag: u32, who: Who, by_peer: bool, streams: usize) -> Result<(), Fault> {
        let region = self.find(stag)?;
        let mut state = region.write();
        let right = if by_peer { Access::REMOTE_INVALIDATE } else { Access::empty() };
        region.check(&state, stag, who, right, region.base, 0)?;
        if by_peer && state.stream.is_none() && streams > 1 {
            return Err(Fault::Right);
        }
        state.life = Life::Invalid;
        self.counters.invalidates.add();
        Ok(())
    }
    fn alloc(&self, pd: u32, length: usize, access: Access) -> Result<Arc<Region>, Errno> {
        if length == 0 || access.bits() & !Access::all().bits() != 0 {
            return Err(Errno::Invalid);
        }
        if length as u64 > self.max_size {
            return Err(Errno::NoMemory);
        }
        let mut data = Vec::new();
        data.try_reserve_exact(length).map_err(|_| Errno::NoMemory)?;
        data.resize(length, 0);
        let base = {
            let mut next = crate::sync::lock(&self.next);
            let base = *next;
            // a page that belongs to nobody lies between any two
            *next += (length as u64).next_multiple_of(4096) + 4096;
            base
        };
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= self.max {
            return Err(Errno::NoMemory);
        }
        let index = loop {
            let index = rand::random::<u32>() >> 8;
            if index != 0 && !table.contains_key(&index) {
                break index;
            }
        };
        let state = RwLock::new(State { key: rand::random(), life: Life::Valid, access, stream: None, data });
        let region = Arc::new(Region { index, base, length, pd, state });
        table.insert(index, region.clone());
        self.counters.mrs_live.add();
        Ok(region)
    }
    fn free(&self, region: &Region) -> Result<(), Errno> {
        let mut state = region.write();
        if state.life == Life::Gone {
            return Err(Errno::Invalid);
        }
        state.life = Life::Gone;
        drop(state);
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(&region.index);
        self.counters.mrs_live.sub();
        Ok(())
    }
}

/// Protection domain.
#[derive(Debug)]
pub(crate) struct SoftPd {
    pub(crate) handle: u32,
    pub(crate) regions: Arc<Regions>,
    /// Queue pairs in it: a key of all of them cannot be taken away by the peer of one (RDM-37).
    pub(crate) streams: AtomicUsize,
}

impl SoftPd {
    pub(crate) fn new(handle: u32, regions: Arc<Regions>) -> Self {
        regions.counters.pds_live.add();
        SoftPd { handle, regions, streams: AtomicUsize::new(0) }
    }
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }
}

impl Drop for SoftPd {
    fn drop(&mut self) {
        self.regions.counters.pds_live.sub();
    }
}

impl Pd for SoftPd {
    fn handle(&self) -> u32 {
        self.handle
    }
    fn alloc_mr(&self, length: usize, access: Access) -> Result<Arc<dyn Mr>, Errno> {
        let region = self.regions.alloc(self.handle, length, access)?;
        Ok(Arc::new(SoftMr { region, regions: self.regions.clone() }))
    }
}

#[derive(Debug)]
struct SoftMr {
    region: Arc<Region>,
    regions: Arc<Regions>,
}

impl Drop for SoftMr {
    fn drop(&mut self) {
        // an error means that dereg was called
        let _ = self.regions.free(&self.region);
    }
}

impl Mr for SoftMr {
    fn addr(&self) -> u64 {
        self.region.base
    }
    fn length(&self) -> usize {
        self.region.length
    }
    fn lkey(&self) -> u32 {
        self.rkey()
    }
    fn rkey(&self) -> u32 {
        self.region.stag(&self.region.read())
    }
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Errno> {
        let state = self.region.read();
        let end = offset.checked_add(to.len()).ok_or(Errno::Fault)?;
        to.copy_from_slice(state.data.get(offset..end).ok_or(Errno::Fault)?);
        Ok(())
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), Errno> {
        let mut state = self.region.write();
        let end = offset.checked_add(from.len()).ok_or(Errno::Fault)?;
        state.data.get_mut(offset..end).ok_or(Errno::Fault)?.copy_from_slice(from);
        Ok(())
    }
    fn rekey(&self, access: Access) -> Result<(u32, u32), Errno> {
        let mut state = self.region.write();
        if state.life == Life::Gone || access.bits() & !Access::all().bits() != 0 {
            return Err(Errno::Invalid);
        }
        // never the same key twice in a row
        state.key = state.key.wrapping_add(rand::random_range(1..=255));
        state.life = Life::Valid;
        state.access = access;
        let stag = self.region.stag(&state);
        Ok((stag, stag))
    }
    fn restrict(&self, qp_num: Option<u32>) -> Result<(), Errno> {
        self.region.write().stream = qp_num;
        Ok(())
    }
    fn dereg(&self) -> Result<(), Errno> {
        self.regions.free(&self.region)
    }
}
