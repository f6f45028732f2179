//! The memory of a region for a single owner, without locks, as plain slices.

use super::PREFETCH_BYTES;
use super::memory::Memory;
use core::ops::{Deref, DerefMut};
use std::io;

/// Memory like that of a [`super::Region`] (zeroed, allocated as it is written, in huge pages if
/// available), for one owner.
pub struct Pages(Memory);

impl Pages {
    /// Allocates `len` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the system does not have that much.
    pub fn new(len: usize) -> io::Result<Self> {
        Memory::new(len).map(Self)
    }
}

impl Pages {
    /// Prefetches the first bytes of a range into the CPU's caches, for a read that follows soon.
    /// Changes nothing.
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        let len = len.min(PREFETCH_BYTES).min(self.len().saturating_sub(offset));
        super::prefetch_lines(self.0.start().wrapping_add(offset), len);
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as many initialised bytes as the memory has; they are this value's alone, so they
        // change only through `&mut`.
        unsafe { core::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the exclusive reference to this value is the only way to the
        // memory.
        unsafe { core::slice::from_raw_parts_mut(self.0.start(), self.0.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zero_and_keep_what_is_written() {
        let mut pages = Pages::new((4 << 20) + 5).unwrap();
        assert!(pages.iter().all(|&byte| byte == 0));
        assert_eq!(pages.as_ptr() as usize % super::super::addresses::HUGE_PAGE_BYTES, 0);
        pages.prefetch(pages.len() - 1, 4096);
        let last = pages.len() - 1;
        pages[last] = 7;
        assert_eq!((pages.len(), pages[last]), ((4 << 20) + 5, 7));
    }
}
