// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host memory that an adapter may reach: IOVA windows over [`DmaMemory`] of this process or over files that a client of the
//! vfio-user socket passed.
//!
//! An access may cross windows that lie side by side. What lies in no window, or in one without the right for it, is a
//! [`DmaFault`], never a panic.
#![allow(unsafe_code)] // copies from and to shared memory that a client passed
use ironwarp_rnic::DmaMemory;
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    os::unix::fs::MetadataExt,
    sync::{
        atomic::{fence, Ordering},
        Arc, Weak,
    },
};

/// What the adapter may do in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// DMA reads.
    pub read: bool,
    /// DMA writes.
    pub write: bool,
}

impl Rights {
    /// Both.
    pub const ALL: Rights = Rights { read: true, write: true };
}

/// Why a DMA access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DmaFault {
    /// No window covers the address.
    #[error("no window covers IOVA {0:#x}")]
    Unmapped(u64),
    /// The window has not this right.
    #[error("the window at IOVA {0:#x} does not allow it")]
    Denied(u64),
    /// The window came without a file, so its memory cannot be reached from this process.
    #[error("the window at IOVA {0:#x} has no memory behind it (it was mapped without a file)")]
    NoMemory(u64),
    /// The function may not do DMA: bus mastering is off in its PCI command register.
    #[error("bus mastering is off; the driver sets bit 2 of the PCI command register")]
    MasterOff,
    /// The range passes the end of the address space.
    #[error("a range from IOVA {0:#x} passes the end of the address space")]
    Wraps(u64),
}

/// Why a window cannot be made or taken away.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Length 0, or the range passes the end of the address space, or the file is shorter than the window.
    #[error("window {iova:#x}+{len:#x} is not possible: {why}")]
    Invalid {
        /// First IOVA.
        iova: u64,
        /// Octets.
        len: u64,
        /// Reason.
        why: &'static str,
    },
    /// It meets a window that is there already (for an unmapping: covers one only in part).
    #[error("window {iova:#x}+{len:#x} cuts the one at {other:#x}; unmap that first, as a whole")]
    Overlap {
        /// First IOVA.
        iova: u64,
        /// Octets.
        len: u64,
        /// First IOVA of the window in the way.
        other: u64,
    },
    /// The file cannot be mapped.
    #[error("memory of window {iova:#x} cannot be mapped: {source}")]
    Io {
        /// First IOVA.
        iova: u64,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A client's file, mapped whole and once: a client may pass a fresh descriptor of the same file with every window.
///
/// The client is trusted not to shorten the file while it is mapped.
struct SharedFile {
    map: memmap2::MmapRaw,
    writable: bool,
}

impl SharedFile {
    fn open(file: &File, len: usize) -> std::io::Result<Self> {
        let options = || {
            let mut o = memmap2::MmapOptions::new();
            o.len(len);
            o
        };
        match options().map_raw(file) {
            Ok(map) => Ok(SharedFile { map, writable: true }),
            Err(_) => Ok(SharedFile { map: options().map_raw_read_only(file)?, writable: false }),
        }
    }
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let offset = usize::try_from(offset).expect("window lies in the mapping");
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.map.len()), "window lies in the mapping");
        // SAFETY: inside the mapping (checked).
        unsafe { self.map.as_mut_ptr().add(offset) }
    }
    fn read(&self, offset: u64, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: `from` is inside the mapping, `out` is ours; the client may write meanwhile, and then the octets are whatever came.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
        fence(Ordering::Acquire);
    }
    fn write(&self, offset: u64, data: &[u8]) {
        fence(Ordering::Release);
        let to = self.at(offset, data.len());
        if let (Ok(beat), true) = (<[u8; 8]>::try_from(data), to.addr().is_multiple_of(8)) {
            // SAFETY: inside the mapping, aligned (checked). One store, so that a client that polls never sees half a beat.
            unsafe { to.cast::<u64>().write_volatile(u64::from_ne_bytes(beat)) }
        } else {
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) }
        }
    }
}

// SAFETY: plain shared memory, reached through raw pointers only, with the client as a concurrent party in any case.
unsafe impl Send for SharedFile {}
// SAFETY: as above.
unsafe impl Sync for SharedFile {}

enum Backing {
    Own(Arc<DmaMemory>),
    Client(Arc<SharedFile>),
    Nothing,
}

struct Window {
    len: u64,
    rights: Rights,
    backing: Backing,
    /// Of the window's first octet in its backing.
    offset: u64,
}

/// The windows of one adapter.
#[derive(Default)]
pub struct DmaTable {
    master_off: bool,
    windows: BTreeMap<u64, Window>,
    files: HashMap<(u64, u64), Weak<SharedFile>>,
}

impl DmaTable {
    /// A window over memory of this process, with all rights.
    pub fn map(&mut self, iova: u64, memory: &Arc<DmaMemory>) -> Result<(), MapError> {
        self.insert(iova, memory.len() as u64, Rights::ALL, 0, Backing::Own(memory.clone()))
    }
    /// A window over octets `offset..offset + len` of `file`. Without a file, accesses to the window fail.
    pub fn map_file(&mut self, iova: u64, len: u64, rights: Rights, offset: u64, file: Option<&File>) -> Result<(), MapError> {
        let backing = match file {
            None => Backing::Nothing,
            Some(file) => Backing::Client(self.open(iova, len, offset, file)?),
        };
        if let Backing::Client(shared) = &backing {
            if rights.write && !shared.writable {
                return Err(MapError::Invalid { iova, len, why: "the file is open for reading only" });
            }
        }
        self.insert(iova, len, rights, offset, backing)
    }
    fn open(&mut self, iova: u64, len: u64, offset: u64, file: &File) -> Result<Arc<SharedFile>, MapError> {
        let io = |source| MapError::Io { iova, source };
        let about = file.metadata().map_err(io)?;
        let end = offset.checked_add(len).ok_or(MapError::Invalid { iova, len, why: "it passes the end of the address space" })?;
        if end > about.len() {
            return Err(MapError::Invalid { iova, len, why: "the file is too short" });
        }
        let key = (about.dev(), about.ino());
        if let Some(shared) = self.files.get(&key).and_then(Weak::upgrade).filter(|s| s.map.len() as u64 >= end) {
            return Ok(shared);
        }
        let size = usize::try_from(about.len()).map_err(|_| MapError::Invalid { iova, len, why: "the file is too long" })?;
        let shared = Arc::new(SharedFile::open(file, size).map_err(io)?);
        self.files.retain(|_, known| known.strong_count() > 0);
        self.files.insert(key, Arc::downgrade(&shared));
        Ok(shared)
    }
    fn insert(&mut self, iova: u64, len: u64, rights: Rights, offset: u64, backing: Backing) -> Result<(), MapError> {
        if len == 0 {
            return Err(MapError::Invalid { iova, len, why: "it is empty" });
        }
        let last = iova.checked_add(len - 1).ok_or(MapError::Invalid { iova, len, why: "it passes the end of the address space" })?;
        if let Some((&other, _)) = self.windows.range(..=last).next_back().filter(|(at, w)| *at + (w.len - 1) >= iova) {
            return Err(MapError::Overlap { iova, len, other });
        }
        self.windows.insert(iova, Window { len, rights, backing, offset });
        Ok(())
    }
    /// Takes away every window inside `iova..iova + len`. A range without windows is no error; one that would cut a window is.
    /// Returns how many went.
    pub fn unmap(&mut self, iova: u64, len: u64) -> Result<usize, MapError> {
        if len == 0 {
            return Ok(0);
        }
        let last = iova.saturating_add(len - 1);
        let ends_beyond = |(at, w): &(&u64, &Window)| **at + (w.len - 1) > last;
        let before = self.windows.range(..iova).next_back().filter(|(at, w)| **at + (w.len - 1) >= iova);
        if let Some((&other, _)) = before.or_else(|| self.windows.range(iova..=last).next_back().filter(ends_beyond)) {
            return Err(MapError::Overlap { iova, len, other });
        }
        let doomed: Vec<u64> = self.windows.range(iova..=last).map(|(at, _)| *at).collect();
        for at in &doomed {
            self.windows.remove(at);
        }
        Ok(doomed.len())
    }
    /// Takes every window away.
    pub fn clear(&mut self) {
        self.windows.clear();
        self.files.clear();
    }
    /// PCI's bus master enable; on at first. While it is off every access fails.
    pub fn set_master(&mut self, on: bool) {
        self.master_off = !on;
    }
    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }
    /// Hands each piece of `iova..iova + len` that lies in one window to `each` (window, offset in its backing, range of the access).
    /// All pieces up to the fault have been handed over when it is returned.
    fn walk(
        &self,
        iova: u64,
        len: usize,
        allowed: impl Fn(Rights) -> bool,
        mut each: impl FnMut(&Backing, u64, std::ops::Range<usize>),
    ) -> Result<(), DmaFault> {
        if self.master_off {
            return Err(DmaFault::MasterOff);
        }
        let mut done = 0;
        while done < len {
            let at = iova.checked_add(done as u64).ok_or(DmaFault::Wraps(iova))?;
            let (first, window) =
                self.windows.range(..=at).next_back().filter(|(first, w)| at - **first < w.len).ok_or(DmaFault::Unmapped(at))?;
            if !allowed(window.rights) {
                return Err(DmaFault::Denied(at));
            }
            if matches!(window.backing, Backing::Nothing) {
                return Err(DmaFault::NoMemory(at));
            }
            let into = at - first;
            let piece = usize::try_from(window.len - into).unwrap_or(usize::MAX).min(len - done);
            each(&window.backing, window.offset + into, done..done + piece);
            done += piece;
        }
        Ok(())
    }
    /// DMA read.
    pub fn read(&self, iova: u64, out: &mut [u8]) -> Result<(), DmaFault> {
        self.walk(
            iova,
            out.len(),
            |r| r.read,
            |backing, offset, range| match backing {
                Backing::Own(memory) => memory.read(offset as usize, &mut out[range]),
                Backing::Client(file) => file.read(offset, &mut out[range]),
                Backing::Nothing => {}
            },
        )
    }
    /// DMA write; what lies before a fault is written.
    pub fn write(&self, iova: u64, data: &[u8]) -> Result<(), DmaFault> {
        self.walk(
            iova,
            data.len(),
            |r| r.write,
            |backing, offset, range| match backing {
                Backing::Own(memory) => memory.write(offset as usize, &data[range]),
                Backing::Client(file) => file.write(offset, &data[range]),
                Backing::Nothing => {}
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn memory(len: usize) -> Arc<DmaMemory> {
        Arc::new(DmaMemory::new(len).expect("memfd"))
    }

    #[test]
    fn an_access_crosses_windows_that_lie_side_by_side() {
        let (a, b) = (memory(4096), memory(4096));
        let mut table = DmaTable::default();
        table.map(0x10_0000, &a).unwrap();
        table.map(0x10_1000, &b).unwrap();
        table.write(0x10_0ffd, b"across").unwrap();
        let mut got = [0; 6];
        table.read(0x10_0ffd, &mut got).unwrap();
        assert_eq!(&got, b"across");
        let mut tail = [0; 3];
        b.read(0, &mut tail);
        assert_eq!(&tail, b"oss");
    }

    #[test]
    fn outside_of_the_windows_is_a_fault_with_the_first_bad_address() {
        let a = memory(4096);
        let mut table = DmaTable::default();
        table.map(0x1000, &a).unwrap();
        assert_eq!(table.read(0x1ffe, &mut [0; 4]), Err(DmaFault::Unmapped(0x2000)));
        assert_eq!(table.write(0xfff, &[1]), Err(DmaFault::Unmapped(0xfff)));
        assert_eq!(table.write(0x1ffe, &[7; 4]), Err(DmaFault::Unmapped(0x2000)));
        let mut part = [0; 2];
        a.read(0xffe, &mut part);
        assert_eq!(part, [7, 7], "what lies before the fault is written");
        table.map(u64::MAX - 4095, &a).unwrap();
        assert_eq!(table.read(u64::MAX - 1, &mut [0; 4]), Err(DmaFault::Wraps(u64::MAX - 1)));
    }

    #[test]
    fn files_of_a_client_are_mapped_once_and_keep_their_rights() {
        let client = memory(3 * 4096);
        let mut table = DmaTable::default();
        let again = || File::from(client.file().as_fd().try_clone_to_owned().unwrap());
        let read_only = Rights { read: true, write: false };
        table.map_file(0x8000, 4096, Rights::ALL, 4096, Some(&again())).unwrap();
        table.map_file(0x9000, 4096, read_only, 8192, Some(&again())).unwrap();
        table.map_file(0xa000, 4096, Rights::ALL, 0, None).unwrap();
        assert_eq!(table.files.len(), 1);
        table.write(0x8008, &0x1122_3344_5566_7788_u64.to_le_bytes()).unwrap();
        assert_eq!(client.read_u32(4096 + 8), 0x5566_7788);
        client.write_u32(8192, 5);
        let mut got = [0; 4];
        table.read(0x9000, &mut got).unwrap();
        assert_eq!(got, [5, 0, 0, 0]);
        assert_eq!(table.write(0x9000, &[1]), Err(DmaFault::Denied(0x9000)));
        assert_eq!(table.read(0xa000, &mut got), Err(DmaFault::NoMemory(0xa000)));
        assert!(table.map_file(0xb000, 4096, Rights::ALL, 3 * 4096, Some(&again())).is_err(), "beyond the end of the file");
    }

    #[test]
    fn windows_do_not_overlap_and_unmapping_takes_whole_ones() {
        let a = memory(8192);
        let mut table = DmaTable::default();
        table.map(0x4000, &a).unwrap();
        for iova in [0x3000, 0x4000, 0x5000] {
            assert!(matches!(table.map(iova, &a), Err(MapError::Overlap { other: 0x4000, .. })), "{iova:#x}");
        }
        for (iova, len) in [(0x4000, 0x1000), (0x5000, 0x1000), (0x3000, 0x2000)] {
            assert!(table.unmap(iova, len).is_err(), "{iova:#x}+{len:#x} cuts the window");
        }
        assert_eq!(table.unmap(0x1_0000, 0x1000).unwrap(), 0);
        table.map(0x6000, &a).unwrap();
        assert_eq!(table.unmap(0, u64::MAX).unwrap(), 2);
        assert_eq!(table.read(0x4000, &mut [0]), Err(DmaFault::Unmapped(0x4000)));
    }
}
