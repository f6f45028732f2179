//! Memory of a pool, from the system: zeroed, and page-aligned at least.
//!
//! Slabs are mapped next to each other. An allocator would map each with a header before it, which
//! takes a page more, and keeps the system from joining the mappings.

use super::SLAB_BYTES;
use crate::limits::BUF_ALIGN;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Returns whether memory of this size is mapped: it consists of whole slabs.
const fn is_mapped(bytes: usize) -> bool {
    cfg!(unix) && bytes.is_multiple_of(SLAB_BYTES)
}

/// Alignment of memory of this size. Only slabs are looked up by addresses.
const fn align(bytes: usize) -> usize {
    if bytes == SLAB_BYTES { SLAB_BYTES } else { BUF_ALIGN }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, align(bytes))
        .expect("sizes of classes and slabs are multiples of the alignment")
}

/// Takes memory; `None` if there is none.
pub(super) fn take(bytes: usize) -> Option<NonNull<u8>> {
    if is_mapped(bytes) {
        return mapping::map(bytes, align(bytes));
    }
    assert!(bytes > 0, "memory has a size");
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout(bytes)) })
}

/// Gives memory back.
///
/// # Safety
/// It came from [`take`] with this size, and no pointer into it is left.
pub(super) unsafe fn give(start: NonNull<u8>, bytes: usize) {
    if is_mapped(bytes) {
        // SAFETY: mapped by `take`, and the caller answers for the rest.
        return unsafe { mapping::unmap(start, bytes) };
    }
    // SAFETY: allocated by `take` with this layout, and the caller answers for the rest.
    unsafe { dealloc(start.as_ptr(), layout(bytes)) };
}

#[cfg(unix)]
mod mapping {
    use super::NonNull;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    fn new(bytes: usize) -> Option<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the place, so that no other memory is touched.
        let start =
            unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        start.ok().and_then(|start| NonNull::new(start.cast()))
    }

    /// Maps memory that starts at a multiple of `align`.
    pub(super) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        // The system puts a mapping beside the one before, so this one is mostly right.
        let start = new(bytes)?;
        if start.addr().get().is_multiple_of(align) {
            return Some(start);
        }
        // SAFETY: mapped above, and not used.
        unsafe { unmap(start, bytes) };
        let whole = new(bytes.checked_add(align)?)?;
        let before = whole.addr().get().next_multiple_of(align) - whole.addr().get();
        // SAFETY: within what was mapped, as `before` is less than `align`.
        let start = unsafe { whole.add(before) };
        // SAFETY: parts of what was mapped, and not used.
        unsafe {
            unmap(whole, before);
            unmap(start.add(bytes), align - before);
        }
        Some(start)
    }

    /// # Safety
    /// It is mapped by [`map`], and nobody has a pointer into it.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller answers for it. It fails for lack of memory alone, and then the
            // mapping stays.
            let _ = unsafe { munmap(start.as_ptr().cast(), bytes) };
        }
    }
}

#[cfg(not(unix))]
mod mapping {
    use super::NonNull;

    pub(super) fn map(_: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_starts_where_its_users_look_for_it() {
        for bytes in [BUF_ALIGN, 2 * BUF_ALIGN, SLAB_BYTES, 2 * SLAB_BYTES, 16 * SLAB_BYTES] {
            let all: Vec<_> = (0..9).map(|_| take(bytes).unwrap()).collect();
            for &start in &all {
                assert_eq!(start.addr().get() % align(bytes), 0, "{bytes} bytes");
                // SAFETY: this memory is ours, and initialised.
                let memory = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
                assert!(memory.iter().all(|&byte| byte == 0));
                memory.fill(1);
            }
            // SAFETY: taken above with this size, and not used any more.
            all.into_iter().for_each(|start| unsafe { give(start, bytes) });
        }
    }
}
