//! Asynchronous file I/O: io_uring if available, otherwise a thread pool.
//!
//! Each loop has one [`DiskService`], accessible through [`Handle::disk`]. A [`DiskFile`] belongs
//! to one driver of the loop, its owner. It accepts operations that own their memory, and wakes the
//! owner when some have completed. The memory of an operation is untouched until the system has
//! finished with it, even if the `DiskFile` is dropped.
//!
//! An operation completes entirely or with an error: short reads and writes are continued
//! internally. A read that reaches the end of the file fails with [`io::ErrorKind::UnexpectedEof`]
//! (the file was truncated).
//!
//! A simulation provides its own [`DiskBackend`] ([`DiskService::set_backend`]).

mod mode;
mod op;
mod service;
#[cfg(unix)]
mod short;
mod slab;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

pub use mode::DiskMode;
pub use op::{DiskDone, DiskKind, DiskOp};
pub use service::{DiskBackend, DiskFile, DiskService, OpenFile};
pub use threads::{can_discard, make_sparse};

use crate::event_loop::Handle;
use service::Starters;
use std::io;
use std::rc::Rc;

impl DiskService {
    /// A service that chooses its backend when the first file is opened.
    pub fn new(mode: DiskMode) -> Self {
        Self::starting(mode, Starters { chosen: start, blocking: start_threads })
    }
}

fn start_threads(on: &Handle) -> Rc<dyn DiskBackend> {
    threads::Threads::start(on)
}

fn start(mode: DiskMode, on: &Handle) -> io::Result<Rc<dyn DiskBackend>> {
    if mode == DiskMode::Threads {
        return Ok(start_threads(on));
    }
    choose(mode, ring(on), || start_threads(on))
}

/// io_uring if available; otherwise threads, if the mode allows them.
fn choose(
    mode: DiskMode,
    ring: io::Result<Rc<dyn DiskBackend>>,
    threads: impl FnOnce() -> Rc<dyn DiskBackend>,
) -> io::Result<Rc<dyn DiskBackend>> {
    ring.or_else(|e| match mode {
        DiskMode::Uring => {
            let why = format!(
                "this system does not allow io_uring ({e}); use --disk-io auto or --disk-io threads"
            );
            Err(io::Error::new(e.kind(), why))
        }
        DiskMode::Auto | DiskMode::Threads => Ok(threads()),
    })
}

#[cfg(target_os = "linux")]
fn ring(on: &Handle) -> io::Result<Rc<dyn DiskBackend>> {
    Ok(uring::Uring::start(on)?)
}

#[cfg(not(target_os = "linux"))]
fn ring(_: &Handle) -> io::Result<Rc<dyn DiskBackend>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Linux has it"))
}

#[cfg(test)]
mod tests;
