//! Observers of the memory that a pool takes from the system.

#[cfg(doc)]
use crate::limits::{BUF_ALIGN, BUF_BYTES_MIN};
use core::ptr::NonNull;
use std::io;

/// Observes the memory of a pool: a transport that registers memory with its device once, and not
/// for each transfer. It must not use the pool from within these calls.
pub trait PoolObserver {
    /// The pool has new memory: a multiple of [`BUF_BYTES_MIN`] bytes, aligned to [`BUF_ALIGN`].
    /// Every buffer lies within one such piece.
    ///
    /// # Errors
    /// The memory cannot be registered: the pool then returns it to the system and has no buffer
    /// for the caller.
    fn made(&self, memory: NonNull<[u8]>) -> io::Result<()>;

    /// The pool is about to release this memory, or the observer is being removed. The memory is
    /// still valid.
    fn freed(&self, memory: NonNull<[u8]>);
}
