//! What the lock-free parts of this crate synchronise with: the standard library's own, or `loom`'s
//! when it tries out all that threads may do (feature `loom`; docs/contributing/writing-tests.md).

#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
