//! Synchronisation of the lock-free parts of this crate: the standard library's own, or `loom`'s
//! when it tries out every schedule of threads (feature `loom`;
//! docs/contributing/writing-tests.md).

#[cfg(not(feature = "loom"))]
pub(crate) use real::*;
#[cfg(not(feature = "loom"))]
mod real {
    pub(crate) use core::hint::spin_loop;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
    pub(crate) use std::thread::yield_now;
    pub(crate) use weft_base::lock::Lock;
}

#[cfg(feature = "loom")]
pub(crate) use model::*;
#[cfg(feature = "loom")]
mod model {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    /// As [`weft_base::lock::Lock`]: a model ends with the first panic.
    #[derive(Default)]
    pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("no thread of the model has panicked")
        }
    }
}

/// Represents memory behind a raw pointer, whose accesses `loom` cannot see. Accesses are reported
/// to `loom` here, and it fails if two of them race. Without `loom` it does nothing.
pub(crate) struct Watched {
    #[cfg(feature = "loom")]
    cell: loom::cell::UnsafeCell<()>,
}

// SAFETY: there is nothing in the cell; `loom` itself sees to it that accesses of threads are noted
// one at a time.
#[cfg(feature = "loom")]
unsafe impl Sync for Watched {}

impl Watched {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(feature = "loom")]
            cell: loom::cell::UnsafeCell::new(()),
        }
    }

    /// The memory is read now.
    #[inline(always)]
    pub(crate) fn read(&self) {
        #[cfg(feature = "loom")]
        self.cell.with(|_| ());
    }

    /// The memory is written to now.
    #[inline(always)]
    pub(crate) fn write(&self) {
        #[cfg(feature = "loom")]
        self.cell.with_mut(|_| ());
    }
}
