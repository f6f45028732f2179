//! The threads of a group, and what they share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_block::Error;

/// Locks what no panic leaves half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread of the group, which nobody waits for.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let started = std::thread::Builder::new().name(format!("weft-group-{name}")).spawn(work);
    started.map(drop).map_err(|e| Error::io(format!("no thread can be started: {e}"), e))
}
