// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection domains and memory regions. A region is memory that host and adapter share; its TOs are its IOVAs.
//!
//! An STag is (index, key): the low bits of the index choose the adapter's entry, the rest of the index and the key are random, so that a peer can neither guess nor reuse one (RDM-35).
use super::{explained, lock, Shared};
use crate::dma::DmaMemory;
use ironwarp_abi::{work::access, Command};
use ironwarp_verbs::{Access, Errno, Mr, Pd};
use rand::TryRngCore;
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, Weak},
};

/// Which entries of the adapter's table are in use.
#[derive(Debug, Default)]
pub(super) struct StagTable {
    used: HashSet<u32>,
}

impl StagTable {
    /// An STag whose entry, of 2^`log2`, is free; index 0 is none.
    fn allocate(&mut self, log2: u32) -> Result<u32, Errno> {
        let mask = (1u32 << log2) - 1;
        if self.used.len() >= mask as usize {
            return Err(Errno::NoMemory);
        }
        let random = |what: u32| -> Result<u32, Errno> { Ok(rand::rngs::OsRng.try_next_u32().map_err(std::io::Error::other)? & what) };
        let mut entry = random(mask)?;
        while entry == 0 || self.used.contains(&entry) {
            entry = (entry + 1) & mask;
        }
        self.used.insert(entry);
        Ok((random(u32::MAX)? & !(mask << 8)) | entry << 8)
    }
    fn free(&mut self, stag: u32, log2: u32) {
        self.used.remove(&(stag >> 8 & ((1 << log2) - 1)));
    }
}

/// A protection domain: a number that regions and queue pairs share.
pub(super) struct OffloadPd {
    pub(super) shared: Weak<Shared>,
    pub(super) handle: u16,
}

impl Pd for OffloadPd {
    fn handle(&self) -> u32 {
        self.handle.into()
    }
    fn alloc_mr(&self, length: usize, rights: Access) -> Result<Arc<dyn Mr>, Errno> {
        if length == 0 {
            return Err(Errno::Invalid);
        }
        let shared = self.shared.upgrade().ok_or(Errno::NoDevice)?;
        let Some(limits) = shared.data_path else { return Err(Errno::NotSupported) };
        let (iova, memory) = shared.with_rnic(|rnic, _| rnic.share(length))?.map_err(explained("alloc_mr"))?;
        let mr = OffloadMr {
            shared: self.shared.clone(),
            pd: self.handle,
            log2: limits.regions_log2,
            length,
            iova,
            memory,
            state: Mutex::new(State { stag: None, rights, qpn: None }),
        };
        mr.register(&mut lock(&mr.state), rights, None)?;
        Ok(Arc::new(mr))
    }
}

impl fmt::Debug for OffloadPd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffloadPd").field("handle", &self.handle).finish_non_exhaustive()
    }
}

struct State {
    /// None once it is deregistered.
    stag: Option<u32>,
    rights: Access,
    qpn: Option<u16>,
}

struct OffloadMr {
    shared: Weak<Shared>,
    pd: u16,
    log2: u32,
    length: usize,
    iova: u64,
    memory: Arc<DmaMemory>,
    state: Mutex<State>,
}

impl OffloadMr {
    /// Gives it an STag. The old one must be gone.
    fn register(&self, state: &mut State, rights: Access, qpn: Option<u16>) -> Result<(), Errno> {
        let shared = self.shared.upgrade().ok_or(Errno::NoDevice)?;
        let stag = lock(&shared.stags).allocate(self.log2)?;
        let bits = [
            (Access::LOCAL_WRITE, access::LOCAL_WRITE),
            (Access::REMOTE_WRITE, access::REMOTE_WRITE),
            (Access::REMOTE_READ, access::REMOTE_READ),
            (Access::REMOTE_INVALIDATE, access::REMOTE_INVALIDATE),
        ];
        let bits = bits.iter().filter(|(right, _)| rights.contains(*right)).fold(0, |all, (_, bit)| all | bit);
        let command = Command::register_mr(0, stag, self.pd, bits, self.iova, self.iova, self.length as u64, qpn);
        let done = shared.with_rnic(|rnic, _| rnic.object(command)).and_then(|done| done.map_err(explained("register")));
        if done.is_err() {
            lock(&shared.stags).free(stag, self.log2);
            return done;
        }
        *state = State { stag: Some(stag), rights, qpn };
        Ok(())
    }
    /// When this returns the adapter has ended every access (DDP-12).
    fn deregister(&self, state: &mut State) -> Result<(), Errno> {
        let Some(stag) = state.stag else { return Ok(()) };
        let Some(shared) = self.shared.upgrade() else {
            // the adapter was reset: nothing touches it any more
            state.stag = None;
            return Ok(());
        };
        match shared.with_rnic(|rnic, _| rnic.object(Command::deregister_mr(0, stag))) {
            Ok(Ok(())) | Err(Errno::NoDevice) => {}
            Ok(Err(e)) => return Err(explained("deregister")(e)),
            Err(e) => return Err(e),
        }
        lock(&shared.stags).free(stag, self.log2);
        state.stag = None;
        Ok(())
    }
    fn again(&self, rights: Access, qpn: Option<u16>) -> Result<u32, Errno> {
        let mut state = lock(&self.state);
        if state.stag.is_none() {
            return Err(Errno::Invalid);
        }
        self.deregister(&mut state)?;
        self.register(&mut state, rights, qpn)?;
        state.stag.ok_or(Errno::Invalid)
    }
    fn check(&self, offset: usize, length: usize) -> Result<(), Errno> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        inside.then_some(()).ok_or(Errno::Fault)
    }
}

impl Mr for OffloadMr {
    fn addr(&self) -> u64 {
        self.iova
    }
    fn length(&self) -> usize {
        self.length
    }
    fn lkey(&self) -> u32 {
        lock(&self.state).stag.unwrap_or(0)
    }
    fn rkey(&self) -> u32 {
        self.lkey()
    }
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Errno> {
        self.check(offset, to.len())?;
        self.memory.read(offset, to);
        Ok(())
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), Errno> {
        self.check(offset, from.len())?;
        self.memory.write(offset, from);
        Ok(())
    }
    fn rekey(&self, rights: Access) -> Result<(u32, u32), Errno> {
        let qpn = lock(&self.state).qpn;
        let stag = self.again(rights, qpn)?;
        Ok((stag, stag))
    }
    fn restrict(&self, qp_num: Option<u32>) -> Result<(), Errno> {
        let qpn = qp_num.map(u16::try_from).transpose().map_err(|_| Errno::Invalid)?;
        let rights = lock(&self.state).rights;
        self.again(rights, qpn).map(drop)
    }
    fn dereg(&self) -> Result<(), Errno> {
        self.deregister(&mut lock(&self.state))
    }
}

impl Drop for OffloadMr {
    fn drop(&mut self) {
        let ended = self.deregister(&mut lock(&self.state));
        match (ended, self.shared.upgrade()) {
            (Ok(()), Some(shared)) => {
                // an adapter that is gone has no mapping either
                if let Ok(Err(e)) = shared.with_rnic(|rnic, _| rnic.unshare(self.iova)) {
                    tracing::warn!("memory of a region: {e}");
                }
            }
            // it stays mapped until the adapter is let go
            (Err(e), _) => tracing::warn!("a region that could not be deregistered: {e}"),
            (Ok(()), None) => {}
        }
    }
}

impl fmt::Debug for OffloadMr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffloadMr").field("addr", &format_args!("{:#x}", self.iova)).field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stags_fill_the_table_and_come_back() {
        let mut table = StagTable::default();
        let all: Vec<u32> = (0..7).map(|_| table.allocate(3).unwrap()).collect();
        let entries: HashSet<u32> = all.iter().map(|stag| stag >> 8 & 7).collect();
        assert_eq!(entries, (1..8).collect());
        assert_eq!(table.allocate(3), Err(Errno::NoMemory));
        table.free(all[3], 3);
        assert_eq!(table.allocate(3).unwrap() >> 8 & 7, all[3] >> 8 & 7);
    }

    /// Covers: RDM-35
    #[test]
    fn no_bit_of_an_stag_is_always_the_same() {
        let mut table = StagTable::default();
        let (mut ones, mut zeros) = (0u32, 0u32);
        for _ in 0..400 {
            let stag = table.allocate(9).unwrap();
            ones |= stag;
            zeros |= !stag;
        }
        assert_eq!((ones, zeros), (u32::MAX, u32::MAX));
    }
}
