//! Synchronisation of the lock-free parts of this crate: the standard library's own, or `loom`'s
//! when it tries out every schedule of threads (feature `loom`;
//! docs/contributing/writing-tests.md).

#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
