//! Memory that the system shares with this process or has mapped for it, of which nobody gets a
//! reference.

use core::ffi::c_void;
use core::ptr::NonNull;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;

/// Mapped memory. The kernel writes to it, so nobody gets a reference to it: bytes are copied.
pub(crate) struct KernelMapping {
    start: NonNull<c_void>,
    len: usize,
}

impl KernelMapping {
    /// A part of a file that is only read.
    pub fn of_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the address is the system's choice, so no memory in use is replaced.
        let start =
            unsafe { mmap(core::ptr::null_mut(), len, ProtFlags::READ, flags, file, offset) }?;
        Self::at(start, len)
    }

    /// Memory that takes space when it is used first.
    pub fn new(len: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(core::ptr::null_mut(), len, access, flags) }?;
        Self::at(start, len)
    }

    fn at(start: *mut c_void, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The address of a byte in it.
    pub fn address(&self, at: usize) -> u64 {
        self.start.as_ptr() as u64 + at as u64
    }

    /// Copies bytes of it.
    ///
    /// # Panics
    /// If it has not that many.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        assert!(
            at.checked_add(into.len()).is_some_and(|end| end <= self.len),
            "within the mapping"
        );
        // SAFETY: the mapping has these bytes, and `into` is other memory. The kernel may write to
        // them meanwhile only if it breaks its word; then bytes are mixed, and nothing else.
        unsafe {
            let from = self.start.as_ptr().cast::<u8>().add(at);
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
    }

    /// Replaces bytes of it; it must be one of [`KernelMapping::new`].
    ///
    /// # Panics
    /// If it has not that many.
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(
            at.checked_add(from.len()).is_some_and(|end| end <= self.len),
            "within the mapping"
        );
        // SAFETY: as in `read`; nobody has a reference to this memory.
        unsafe {
            let into = self.start.as_ptr().cast::<u8>().add(at);
            core::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len());
        }
    }
}

impl Drop for KernelMapping {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference to this memory, and the system's own uses of it end with
        // the ring, which its owner drops first.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}
