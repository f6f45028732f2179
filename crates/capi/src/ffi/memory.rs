//! Memory that operations use without a copy.

use super::{give_handle, handle};
use crate::failure::{CallFailure, Code};
use crate::guard;
use crate::memory::LentRegion;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// Memory that operations of any device use without a copy.
pub struct WeftMemory(pub(super) Arc<LentRegion>);

/// Allocates `bytes` bytes of zeroes, aligned to 4096 bytes. Free them with `weft_memory_free`.
///
/// # Safety
/// `memory` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_memory_new(bytes: usize, memory: *mut *mut WeftMemory) -> c_int {
    guard::done(|| {
        let region = LentRegion::allocate(bytes)?;
        // SAFETY: the caller's promise.
        unsafe { give_handle(memory, WeftMemory(region), "memory") }
    })
}

/// Registers `bytes` bytes at `start`, which stay the caller's: they must be initialised, and stay
/// valid until `weft_memory_free` has succeeded. Memory that is aligned to 4096 bytes avoids copies
/// for files and disks.
///
/// # Safety
/// As above; `memory` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_memory_register(
    start: *mut c_void,
    bytes: usize,
    memory: *mut *mut WeftMemory,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let region = LentRegion::of(start.cast(), bytes)?;
            give_handle(memory, WeftMemory(region), "memory")
        }
    })
}

/// The first byte of the memory; NULL if `memory` is NULL.
///
/// # Safety
/// `memory` is NULL or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_memory_data(memory: *const WeftMemory) -> *mut c_void {
    guard::value(core::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        unsafe { memory.as_ref() }.map_or(core::ptr::null_mut(), |memory| memory.0.start().cast())
    })
}

/// The size of the memory in bytes; 0 if `memory` is NULL.
///
/// # Safety
/// `memory` is NULL or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_memory_size(memory: *const WeftMemory) -> usize {
    guard::value(0, || {
        // SAFETY: the caller's promise.
        unsafe { memory.as_ref() }.map_or(0, |memory| memory.0.size())
    })
}

/// Frees the handle. Memory of `weft_memory_new` is freed as soon as no operation uses it; do not
/// use it afterwards. Registered memory is the caller's again: while an operation uses it, the
/// function fails with `WEFT_ERROR_IN_USE` and changes nothing. NULL is ignored.
///
/// # Safety
/// `memory` is NULL or a handle, which is not used afterwards if the function succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_memory_free(memory: *mut WeftMemory) -> c_int {
    guard::done(|| {
        if memory.is_null() {
            return Ok(());
        }
        // SAFETY: made by a function of this file, and not freed before.
        let region = &unsafe { handle(memory, "memory")? }.0;
        if !region.is_allocated() && Arc::strong_count(region) > 1 {
            let text = "operations use the memory: reap them, or free their queues, first";
            return Err(CallFailure::new(Code::InUse, text));
        }
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(memory) });
        Ok(())
    })
}
