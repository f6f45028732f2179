//! Where what waits for a disk or a cluster runs, and what takes long to compute.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Threads that may wait. The system's, unless whoever has the store has others: then all that
/// waits can be run one step after the other.
pub trait Threads: Send + Sync {
    /// Starts a thread of this name, which nobody waits for.
    ///
    /// # Errors
    /// None can be had now.
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;

    /// Lets the calling thread, which is one of these, wait for so long.
    fn pause(&self, time: Duration);
}

/// Those of the operating system.
struct System;

impl Threads for System {
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// Those of the operating system.
pub(crate) fn system() -> Arc<dyn Threads> {
    Arc::new(System)
}
