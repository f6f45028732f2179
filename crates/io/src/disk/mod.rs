//! Asynchronous file I/O: io_uring if available, otherwise a thread pool.
//!
//! Each loop has one [`Service`], accessible through [`Handle::disk`]. A [`DiskFile`] belongs to
//! one driver of the loop, its owner. It accepts operations that own their memory, and wakes the
//! owner when some have completed. The memory of an operation is untouched until the system has
//! finished with it, even if the `DiskFile` is dropped.
//!
//! An operation completes entirely or with an error: short reads and writes are continued
//! internally. A read that reaches the end of the file fails with [`io::ErrorKind::UnexpectedEof`]
//! (the file was truncated).
//!
//! A simulation provides its own [`DiskBackend`] ([`Service::set_backend`]).

mod op;
mod slab;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

pub use op::{DiskDone, DiskKind, DiskOp, OpenFile};
pub use threads::{can_discard, make_sparse};

use crate::event_loop::{DriverId, Handle};
use crate::limits::DISK_OPS_PER_FILE;
use core::cell::RefCell;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// I/O method for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// io_uring if available, otherwise threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A thread pool.
    Threads,
}

/// Does the work of one loop's [`Service`].
pub trait DiskBackend {
    /// Accepts an operation on `file`, or returns it if there is no room and wakes the file's owner
    /// when there is. An accepted operation ends with one call of [`OpenFile::complete`], never
    /// within this call.
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp>;

    /// The loop was woken from sleep by something other than a driver's source: completions may
    /// have left work to this thread.
    fn awake(&self, on: &Handle) {
        let _ = on;
    }

    /// The name, for logs: `io_uring`.
    fn name(&self) -> &'static str;
}

/// The disk service of one loop.
pub struct Service {
    mode: DiskMode,
    backend: RefCell<Option<Rc<dyn DiskBackend>>>,
    /// For calls that the other backend does not have.
    blocking: RefCell<Option<Rc<dyn DiskBackend>>>,
}

impl Service {
    /// A service that chooses its backend when the first file is opened.
    pub fn new(mode: DiskMode) -> Self {
        Self { mode, backend: RefCell::default(), blocking: RefCell::default() }
    }

    /// The requested method.
    pub fn mode(&self) -> DiskMode {
        self.mode
    }

    /// The name of the active backend; `None` before the first file is opened.
    pub fn backend_name(&self) -> Option<&'static str> {
        self.backend.borrow().as_ref().map(|backend| backend.name())
    }

    /// See [`DiskBackend::awake`].
    pub(crate) fn awake(&self, on: &Handle) {
        if let Some(backend) = &*self.backend.borrow() {
            backend.awake(on);
        }
    }

    /// Uses another backend, for example a simulated one, for files opened from now on.
    pub fn set_backend(&self, backend: Rc<dyn DiskBackend>) {
        *self.backend.borrow_mut() = Some(Rc::clone(&backend));
        *self.blocking.borrow_mut() = Some(backend);
    }

    /// Opens `file` for a driver of the loop `on`, to which this service belongs.
    ///
    /// # Errors
    /// With [`DiskMode::Uring`], if io_uring is not available. Otherwise, if the system lacks
    /// descriptors or memory.
    pub fn open(&self, on: &Handle, file: Arc<File>, owner: DriverId) -> io::Result<DiskFile> {
        let existing = self.backend.borrow().clone();
        let backend = match existing {
            Some(backend) => backend,
            None => {
                let backend = start(self.mode, on)?;
                Rc::clone(self.backend.borrow_mut().insert(backend))
            }
        };
        Ok(DiskFile { backend, file: Rc::new(OpenFile::new(file, owner)), on: on.clone() })
    }

    /// As [`Service::open`], for operations that go to threads, whatever the mode: discards of a
    /// disk's blocks, for which systems have only a call that waits.
    pub fn open_blocking(&self, on: &Handle, file: Arc<File>, owner: DriverId) -> DiskFile {
        let backend = Rc::clone(
            self.blocking.borrow_mut().get_or_insert_with(|| threads::Threads::start(on)),
        );
        DiskFile { backend, file: Rc::new(OpenFile::new(file, owner)), on: on.clone() }
    }
}

fn start(mode: DiskMode, on: &Handle) -> io::Result<Rc<dyn DiskBackend>> {
    if mode == DiskMode::Threads {
        return Ok(threads::Threads::start(on));
    }
    choose(mode, ring(on), || threads::Threads::start(on))
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

/// A file as used by one driver. Dropping it gives up operations in flight.
pub struct DiskFile {
    backend: Rc<dyn DiskBackend>,
    file: Rc<OpenFile>,
    on: Handle,
}

impl DiskFile {
    /// Accepts an operation. If too many are in flight, returns it and wakes the owner when there
    /// is room again.
    pub fn submit(&mut self, op: DiskOp) -> Result<(), DiskOp> {
        if self.file.in_flight() >= DISK_OPS_PER_FILE {
            self.file.want_room();
            return Err(op);
        }
        if let Some(result) = op.foregone() {
            self.file.taken();
            self.file.complete(&self.on, op, result);
            return Ok(());
        }
        self.backend.submit(&self.on, &self.file, op)?;
        self.file.taken();
        Ok(())
    }

    /// Appends completed operations to `done`.
    pub fn reap(&mut self, done: &mut Vec<DiskDone>) {
        if self.file.reap(done) {
            self.on.wake(self.file.owner());
        }
    }

    /// Wakes another driver of the loop from now on.
    pub fn set_owner(&mut self, owner: DriverId) {
        self.file.set_owner(owner);
    }

    /// Operations accepted and not yet reaped.
    pub fn in_flight(&self) -> usize {
        self.file.in_flight()
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.file.close();
    }
}

#[cfg(test)]
mod tests;
