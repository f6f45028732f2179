//! Memory from the system for a region: zeroed, taken up as it is touched, in huge pages where
//! there are some.

use super::addresses::{self, HUGE_PAGE_BYTES};
use core::ops::Range;
use std::io;

/// Memory that lives as long as this value. Users of the pointer must prevent data races.
pub(super) struct Memory {
    start: *mut u8,
    len: usize,
    held: Mapping,
}

// SAFETY: the value only owns the memory; accesses go through raw pointers, and whoever makes them
// answers for them.
unsafe impl Send for Memory {}
// SAFETY: as above: a shared reference gives away a pointer and two numbers.
unsafe impl Sync for Memory {}

impl Memory {
    fn begin(start: *mut u8, len: usize, held: Mapping) -> Self {
        let this = Self { start, len, held };
        addresses::begins(this.addresses());
        this
    }

    fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.len
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// The mapping, for its release.
#[cfg(unix)]
struct Mapping {
    base: *mut core::ffi::c_void,
    bytes: usize,
}

#[cfg(unix)]
impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let bytes = len.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the system chooses the place, so that no other memory is touched.
        let base = unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = base.cast::<u8>().map_addr(|a| a.next_multiple_of(HUGE_PAGE_BYTES));
        advise_huge(base, bytes);
        Ok(Self::begin(start, len, Mapping { base, bytes }))
    }
}

#[cfg(unix)]
impl Drop for Memory {
    fn drop(&mut self) {
        addresses::ends(self.addresses());
        // SAFETY: the mapping is ours, and nobody has a pointer into it any more.
        let _ = unsafe { rustix::mm::munmap(self.held.base, self.held.bytes) };
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(base: *mut core::ffi::c_void, bytes: usize) {
    // SAFETY: our own mapping; the advice changes nothing that can be seen. It may fail where huge
    // pages are switched off.
    let _ = unsafe { rustix::mm::madvise(base, bytes, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(all(unix, not(target_os = "linux")))]
fn advise_huge(_: *mut core::ffi::c_void, _: usize) {}

/// Drops the content of whole pages: zeroes from now on, and no memory taken up. `false` if the
/// system does not do it.
///
/// # Safety
/// The pages belong to one [`Memory`], and nothing else accesses them during the call.
#[cfg(target_os = "linux")]
pub(super) unsafe fn discard(pages: *mut u8, len: usize) -> bool {
    addresses::parts_end(pages.addr()..pages.addr() + len);
    // SAFETY: private anonymous pages, so that they read as zeroes afterwards; the caller answers
    // for the rest.
    unsafe { rustix::mm::madvise(pages.cast(), len, rustix::mm::Advice::LinuxDontNeed) }.is_ok()
}

/// This system's advice does not promise zeroes.
///
/// # Safety
/// None needed.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn discard(_: *mut u8, _: usize) -> bool {
    false
}

/// The allocation, for its release.
#[cfg(not(unix))]
struct Mapping(core::alloc::Layout);

#[cfg(not(unix))]
impl Memory {
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let layout = core::alloc::Layout::from_size_align(len.max(1), HUGE_PAGE_BYTES)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        if start.is_null() {
            Err(io::ErrorKind::OutOfMemory.into())
        } else {
            Ok(Self::begin(start, len, Mapping(layout)))
        }
    }
}

#[cfg(not(unix))]
impl Drop for Memory {
    fn drop(&mut self) {
        addresses::ends(self.addresses());
        // SAFETY: allocated with this layout, and nobody has a pointer into it any more.
        unsafe { std::alloc::dealloc(self.start, self.held.0) }
    }
}
