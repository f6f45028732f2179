//! Locking what is consistent between any two statements, so that a panic elsewhere spoils nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, also after a panic of whoever had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
