//! Where what waits for a disk or a cluster runs, and what takes long to compute.

use std::io;
use std::sync::Arc;
use std::thread;

/// Threads that may wait. The system's, unless a test has others: then all that waits can be run one
/// step after the other.
pub trait Threads: Send + Sync {
    /// Starts a thread of this name, which nobody waits for.
    ///
    /// # Errors
    /// None can be had now.
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;
}

/// Those of the operating system.
struct System;

impl Threads for System {
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}

/// Those of the operating system.
pub(crate) fn system() -> Arc<dyn Threads> {
    Arc::new(System)
}
