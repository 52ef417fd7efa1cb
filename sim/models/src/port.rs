// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed access to the ports of a Verilated model, and the clock.
use std::{
    ffi::{c_void, CStr, CString},
    fs,
    path::PathBuf,
};

/// Where the waves of a block go: `build/waves/<block>-<test>.fst`. A later instance in the same test takes the file over, so that
/// the one that failed is the one that is left.
#[allow(dead_code)] // only models built with WAVES=1 call it
pub(crate) fn wave_file(block: &str) -> CString {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map_or_else(PathBuf::new, PathBuf::from);
    let dir = root.join("build/waves");
    if let Err(e) = fs::create_dir_all(&dir) {
        eprintln!("no waves: {}: {e}", dir.display());
    }
    let test = std::thread::current().name().unwrap_or("main").replace("::", "-");
    let file = dir.join(format!("{block}-{test}.fst"));
    CString::new(file.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What every model can do.
pub trait Dut {
    /// Block name.
    fn name(&self) -> &'static str;
    /// Settle combinational logic after inputs changed.
    fn eval(&mut self);
    /// Drive the clock pin.
    fn set_clock(&mut self, high: bool);
    /// Start writing an FST (models built with `WAVES=1`; else nothing happens).
    fn trace_open(&mut self, file: &CStr);
    /// Record the present values at time `at`.
    fn trace_dump(&mut self, at: u64);
    /// Finish the FST.
    fn trace_close(&mut self);
    /// One clock: inputs set before take effect at the rising edge; afterwards outputs show the new state.
    fn tick(&mut self) {
        self.set_clock(true);
        self.eval();
        self.set_clock(false);
        self.eval();
    }
}

/// A port of 2 to 64 bits; `T` is the unsigned type that Verilator keeps it in.
pub struct Port<T: Copy>(*mut T);
impl<T: Copy> Port<T> {
    pub(crate) fn at(p: *mut c_void) -> Self {
        Port(p.cast())
    }
    /// Present value.
    #[inline]
    pub fn get(&self) -> T {
        // SAFETY: points to the port inside the live model that owns this field.
        unsafe { self.0.read() }
    }
    /// Drive; takes effect at the next `eval`.
    #[inline]
    pub fn set(&mut self, value: T) {
        // SAFETY: as in `get`; nothing else accesses the port between two calls of `eval`.
        unsafe { self.0.write(value) }
    }
}

/// A port of one bit.
pub struct Bit(*mut u8);
impl Bit {
    pub(crate) fn at(p: *mut c_void) -> Self {
        Bit(p.cast())
    }
    /// Present value.
    #[inline]
    pub fn get(&self) -> bool {
        // SAFETY: points to the port inside the live model that owns this field.
        unsafe { self.0.read() != 0 }
    }
    /// Drive; takes effect at the next `eval`.
    #[inline]
    pub fn set(&mut self, value: bool) {
        // SAFETY: as in `get`.
        unsafe { self.0.write(u8::from(value)) }
    }
}

/// A port of more than 64 bits, as 32-bit words from the least significant up.
pub struct Wide {
    ptr: *mut u32,
    words: usize,
}
impl Wide {
    pub(crate) fn at(p: *mut c_void, words: usize) -> Self {
        Wide { ptr: p.cast(), words }
    }
    /// Present value.
    pub fn get(&self) -> Vec<u32> {
        // SAFETY: the port has `words` words inside the live model that owns this field.
        unsafe { std::slice::from_raw_parts(self.ptr, self.words) }.to_vec()
    }
    /// Drive; `value` must have as many words as the port.
    pub fn set(&mut self, value: &[u32]) {
        assert_eq!(value.len(), self.words, "words of a wide port");
        // SAFETY: length checked; as in `get`.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), self.ptr, self.words) }
    }
}

/// A field of a port that carries a struct.
pub struct Slice {
    ptr: *mut u8,
    bytes: usize,
    offset: usize,
    width: usize,
}
impl Slice {
    pub(crate) fn at(p: *mut c_void, bytes: usize, offset: usize, width: usize) -> Self {
        assert!(width <= 64, "a field of a port is at most 64 bits wide");
        Slice { ptr: p.cast(), bytes, offset, width }
    }
    fn window(&self) -> (usize, usize, usize, u128) {
        let first = self.offset / 8;
        let count = (self.offset + self.width).div_ceil(8) - first;
        debug_assert!(first + count <= self.bytes);
        (first, count, self.offset % 8, (1u128 << self.width) - 1)
    }
    fn load(&self, first: usize, count: usize) -> u128 {
        let mut raw = [0u8; 16];
        // SAFETY: first + count lies within the port (checked at elaboration: offset + width <= width of the port).
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(first), raw.as_mut_ptr(), count) };
        u128::from_le_bytes(raw)
    }
    /// Present value.
    #[inline]
    pub fn get(&self) -> u64 {
        let (first, count, shift, mask) = self.window();
        (self.load(first, count) >> shift & mask) as u64
    }
    /// As a bit.
    #[inline]
    pub fn bit(&self) -> bool {
        self.get() != 0
    }
    /// Drive; takes effect at the next `eval`. Panics when the value does not fit.
    #[inline]
    pub fn set(&mut self, value: u64) {
        let (first, count, shift, mask) = self.window();
        assert!(u128::from(value) & !mask == 0, "value {value:#x} is wider than {} bits", self.width);
        let raw = (self.load(first, count) & !(mask << shift) | u128::from(value) << shift).to_le_bytes();
        // SAFETY: as in `load`.
        unsafe { std::ptr::copy_nonoverlapping(raw.as_ptr(), self.ptr.add(first), count) };
    }
}
