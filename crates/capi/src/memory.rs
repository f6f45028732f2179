//! Memory of the caller: bytes that are copied while an operation runs, and regions that devices
//! use directly.
#![allow(unsafe_code, reason = "the caller's memory comes as a pointer and a length")]

use crate::failure::{CallFailure, Code};
use crate::limits::MEMORY_BYTES_MAX;
use core::cell::RefCell;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::rc::Rc;
use std::sync::Arc;
use weft_block::slots::Slots;
use weft_io::Segment;
use weft_io::limits::BUF_ALIGN;
use weft_io::segment::{ForeignMemory, Owner};

/// Bytes of the caller, which stay where they are and are left alone by the caller until the
/// operation that has them has completed, or its queue is freed.
#[derive(Clone, Copy, Debug)]
pub struct CallerBytes {
    start: NonNull<u8>,
    bytes: usize,
    is_writable: bool,
}

// SAFETY: the caller has promised to leave the bytes alone, so whichever thread has the value is
// the only one that uses them.
unsafe impl Send for CallerBytes {}

impl CallerBytes {
    /// The bytes at `start`.
    ///
    /// # Errors
    /// `start` is null although there are bytes.
    ///
    /// # Safety
    /// As described at the type; with `is_writable` they may be written to.
    pub unsafe fn new(
        start: *mut u8,
        bytes: usize,
        is_writable: bool,
    ) -> Result<Self, CallFailure> {
        let start = match NonNull::new(start) {
            Some(start) => start,
            None if bytes == 0 => NonNull::dangling(),
            None => return Err(CallFailure::usage("the buffer is NULL")),
        };
        if bytes > MEMORY_BYTES_MAX {
            return Err(CallFailure::usage(format!(
                "{bytes} bytes are more than a process can have"
            )));
        }
        Ok(Self { start, bytes, is_writable })
    }

    /// Their number.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Copies the bytes from `at` on to `to`.
    ///
    /// # Panics
    /// There are fewer.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        assert!(at <= self.bytes && to.len() <= self.bytes - at, "beyond the caller's bytes");
        // SAFETY: within the bytes, which the caller leaves alone; `to` is memory of this library.
        unsafe {
            core::ptr::copy_nonoverlapping(self.start.as_ptr().add(at), to.as_mut_ptr(), to.len());
        }
    }

    /// Copies `from` to the bytes from `at` on.
    ///
    /// # Panics
    /// There are fewer, or they are only read.
    pub fn write(&self, at: usize, from: &[u8]) {
        assert!(self.is_writable, "these bytes of the caller are only read");
        assert!(at <= self.bytes && from.len() <= self.bytes - at, "beyond the caller's bytes");
        // SAFETY: as in `read`, and the bytes may be written to.
        unsafe {
            let to = self.start.as_ptr().add(at);
            core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }
}

/// A region of memory that operations use without a copy.
#[derive(Debug)]
pub struct LentRegion {
    start: NonNull<u8>,
    bytes: usize,
    /// It is freed with the region.
    layout: Option<Layout>,
}

// SAFETY: the region only gives out its address; who may use which bytes is agreed on between the
// caller and the operations that it submits.
unsafe impl Send for LentRegion {}
// SAFETY: as above.
unsafe impl Sync for LentRegion {}

impl LentRegion {
    /// A new region of zeroes, aligned for every disk.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn allocate(bytes: usize) -> Result<Arc<Self>, CallFailure> {
        let none =
            || CallFailure::new(Code::NoResources, format!("{bytes} bytes cannot be allocated"));
        if bytes == 0 || bytes > MEMORY_BYTES_MAX {
            return Err(CallFailure::usage(
                "a region has at least one byte, and fits into the process",
            ));
        }
        let layout = Layout::from_size_align(bytes, BUF_ALIGN).map_err(|_| none())?;
        // SAFETY: the layout is not of zero bytes.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Arc::new(Self { start, bytes, layout: Some(layout) }))
    }

    /// The caller's memory as a region.
    ///
    /// # Errors
    /// It is null or empty.
    ///
    /// # Safety
    /// The memory is initialised and stays valid until the region is dropped.
    pub unsafe fn of(start: *mut u8, bytes: usize) -> Result<Arc<Self>, CallFailure> {
        match NonNull::new(start) {
            Some(start) if bytes > 0 && bytes <= MEMORY_BYTES_MAX => {
                Ok(Arc::new(Self { start, bytes, layout: None }))
            }
            _ => Err(CallFailure::usage("memory to be registered is NULL, or has no bytes")),
        }
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Returns whether it is freed with the region.
    pub fn is_allocated(&self) -> bool {
        self.layout.is_some()
    }
}

impl Drop for LentRegion {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated with this layout, and no operation has the region.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// A part of a region that belongs to an operation.
#[derive(Clone, Debug)]
pub struct RegionBytes {
    region: Arc<LentRegion>,
    at: usize,
    bytes: usize,
}

impl RegionBytes {
    /// The bytes from `at` on, which belong to the operation from now until it has completed.
    ///
    /// # Errors
    /// The region does not have them.
    pub fn new(region: &Arc<LentRegion>, at: usize, bytes: usize) -> Result<Self, CallFailure> {
        if at > region.size() || bytes > region.size() - at {
            let text =
                format!("{bytes} bytes at {at} are beyond the memory, which has {}", region.size());
            return Err(CallFailure::usage(text));
        }
        Ok(Self { region: Arc::clone(region), at, bytes })
    }

    /// The same bytes, to be copied.
    pub fn to_copy(&self, is_writable: bool) -> CallerBytes {
        // SAFETY: within the region.
        let start = unsafe { self.region.start.add(self.at) };
        CallerBytes { start, bytes: self.bytes, is_writable }
    }

    /// `bytes` of them from `at` on as memory of an operation, which keeps the region alive.
    ///
    /// # Panics
    /// There are fewer.
    pub fn segment(
        &self,
        at: usize,
        bytes: u32,
        writable: bool,
        lender: &Rc<RegionsInUse>,
    ) -> Segment {
        assert!(at <= self.bytes && bytes as usize <= self.bytes - at, "beyond the caller's bytes");
        let name = lender.0.borrow_mut().insert(Arc::clone(&self.region)) as u32;
        let owner = Rc::clone(lender) as Rc<dyn Owner>;
        // SAFETY: the bytes are part of the region, which is initialised and lives until `free` is
        // called with the name. The caller has promised that nobody else uses them until the
        // operation has completed, and they are given out for operations only that complete with
        // their memory (`Worker`).
        unsafe {
            let start = self.region.start.add(self.at + at);
            Segment::Foreign(ForeignMemory::new(start, bytes, writable, owner, name))
        }
    }
}

/// The regions that are in use by operations of one event loop.
#[derive(Default)]
pub struct RegionsInUse(RefCell<Slots<Arc<LentRegion>>>);

impl Owner for RegionsInUse {
    fn free(&self, name: u32) {
        let region = self.0.borrow_mut().remove(name.into());
        drop(region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_outlives_its_handle_while_an_operation_has_it() {
        let region = LentRegion::allocate(8192).unwrap();
        assert!(region.start().addr().is_multiple_of(BUF_ALIGN) && region.is_allocated());
        let bytes = RegionBytes::new(&region, 4096, 4096).unwrap();
        assert!(RegionBytes::new(&region, 4096, 4097).is_err());
        assert!(RegionBytes::new(&region, usize::MAX, 2).is_err());
        let lender = Rc::<RegionsInUse>::default();
        let mut segment = bytes.segment(512, 1024, true, &lender);
        segment.fill(7);
        let mut copy = [0; 1536];
        bytes.to_copy(false).read(0, &mut copy);
        assert!(copy[..512].iter().all(|&byte| byte == 0) && copy[512..] == [7; 1024]);
        drop(bytes);
        let weak = Arc::downgrade(&region);
        drop(region);
        assert!(weak.upgrade().is_some());
        drop(segment);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn bytes_are_copied_both_ways() {
        let mut memory = vec![1; 16];
        // SAFETY: the vector is not touched until the bytes were used for the last time.
        let bytes = unsafe { CallerBytes::new(memory.as_mut_ptr(), 16, true) }.unwrap();
        bytes.write(4, &[2; 4]);
        let mut all = [0; 16];
        bytes.read(0, &mut all);
        assert_eq!(all[..9], [1, 1, 1, 1, 2, 2, 2, 2, 1]);
        // SAFETY: no bytes are used.
        let none = unsafe {
            (
                CallerBytes::new(core::ptr::null_mut(), 0, true),
                CallerBytes::new(core::ptr::null_mut(), 1, true),
            )
        };
        assert!(none.0.is_ok() && none.1.is_err());
    }
}
