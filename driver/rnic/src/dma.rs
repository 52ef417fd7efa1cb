// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that host and adapter share: a memfd, so that the same allocator serves the kernel's vfio, a vfio-user socket (which
//! passes the descriptor) and the in-process model.
#![allow(unsafe_code)] // raw access to memory that the adapter changes at any time
use std::{
    fs::File,
    io,
    sync::atomic::{fence, Ordering},
};

/// Page size that lengths are rounded up to.
pub const PAGE: usize = 4096;

/// Shared memory. Accessors are bounds-checked and volatile; they take `&self`, as the adapter writes whenever it likes.
#[derive(Debug)]
pub struct DmaMemory {
    map: memmap2::MmapRaw,
    file: File,
}

impl DmaMemory {
    /// `len` octets rounded up to whole pages, zeroed.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE);
        let file = File::from(rustix::fs::memfd_create("ironwarp-dma", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.set_len(len as u64)?;
        let map = memmap2::MmapOptions::new().len(len).map_raw(&file)?;
        Ok(DmaMemory { map, file })
    }
    /// Octets.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// The memfd behind it.
    pub fn file(&self) -> &File {
        &self.file
    }
    /// Address in this process.
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.len()),
            "DMA memory access {offset:#x}+{len:#x} outside {:#x}",
            self.len()
        );
        // SAFETY: inside the mapping (checked).
        unsafe { self.map.as_mut_ptr().add(offset) }
    }
    /// Reads a dword, then keeps later reads after it (the phase bit is read with this).
    pub fn read_u32(&self, offset: usize) -> u32 {
        assert_eq!(offset % 4, 0, "alignment");
        // SAFETY: inside the mapping and aligned (the mapping is page-aligned).
        let value = unsafe { self.at(offset, 4).cast::<u32>().read_volatile() };
        fence(Ordering::Acquire);
        u32::from_le(value)
    }
    /// Writes a dword after all earlier writes.
    pub fn write_u32(&self, offset: usize, value: u32) {
        assert_eq!(offset % 4, 0, "alignment");
        fence(Ordering::Release);
        // SAFETY: as in `read_u32`.
        unsafe { self.at(offset, 4).cast::<u32>().write_volatile(value.to_le()) }
    }
    /// Copies out.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let source = self.at(offset, out.len());
        // SAFETY: source is inside the mapping, out is ours; the adapter may write meanwhile, and then the octets are whatever came.
        unsafe { std::ptr::copy_nonoverlapping(source, out.as_mut_ptr(), out.len()) }
        fence(Ordering::Acquire);
    }
    /// Copies in.
    pub fn write(&self, offset: usize, data: &[u8]) {
        let target = self.at(offset, data.len());
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) }
        fence(Ordering::Release);
    }
}

// SAFETY: plain shared memory; all access is through raw pointers with the adapter as a concurrent writer in any case.
unsafe impl Send for DmaMemory {}
// SAFETY: as above.
unsafe impl Sync for DmaMemory {}
