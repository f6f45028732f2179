//! Files by completion: io_uring where it is allowed, a thread pool elsewhere.
//!
//! Each loop has one [`Service`], reached by [`Handle::disk`]. A [`DiskFile`] belongs to one driver of the loop, its owner: it
//! takes operations that own their memory, and wakes the owner when some have completed. Whatever becomes of the `DiskFile`, the
//! memory of an operation stays untouched until the system is done with it.
//!
//! An operation completes whole or with an error: short reads and writes are continued inside, and a read that meets the end of
//! the file fails with [`io::ErrorKind::UnexpectedEof`] (the file shrank).
//!
//! A simulation brings a [`DiskBackend`] of its own ([`Service::set_backend`]).

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

/// Which way files are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskMode {
    /// io_uring where the system allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A thread pool.
    Threads,
}

/// What does the work of one loop's [`Service`].
pub trait DiskBackend {
    /// Takes an operation on `file`, or gives it back when there is no room and will wake the file's owner when there is some. An
    /// operation that was taken ends in one call of [`OpenFile::complete`], never within this call.
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp>;

    /// The loop slept, and something that is not for a driver ended that: maybe work that completions left to this thread.
    fn awake(&self, on: &Handle) {
        let _ = on;
    }

    /// For people: `io_uring`.
    fn name(&self) -> &'static str;
}

/// The disks of one loop.
pub struct Service {
    mode: DiskMode,
    backend: RefCell<Option<Rc<dyn DiskBackend>>>,
}

impl Service {
    /// A service that finds its backend when the first file is opened.
    pub fn new(mode: DiskMode) -> Self {
        Self { mode, backend: RefCell::default() }
    }

    /// Which way was asked for.
    pub fn mode(&self) -> DiskMode {
        self.mode
    }

    /// The name of the backend at work; `None` before the first file is opened.
    pub fn backend_name(&self) -> Option<&'static str> {
        self.backend.borrow().as_ref().map(|backend| backend.name())
    }

    /// See [`DiskBackend::awake`].
    pub(crate) fn awake(&self, on: &Handle) {
        if let Some(backend) = &*self.backend.borrow() {
            backend.awake(on);
        }
    }

    /// Has files that are opened from now on use another backend, a simulated one say.
    pub fn set_backend(&self, backend: Rc<dyn DiskBackend>) {
        *self.backend.borrow_mut() = Some(backend);
    }

    /// Opens a way to `file` for a driver of the loop `on`, whose service this is.
    ///
    /// # Errors
    /// With [`DiskMode::Uring`], when the system does not allow io_uring. Otherwise when the system lacks descriptors or memory.
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
}

fn start(mode: DiskMode, on: &Handle) -> io::Result<Rc<dyn DiskBackend>> {
    if mode == DiskMode::Threads {
        return Ok(threads::Threads::start(on));
    }
    choose(mode, ring(on), || threads::Threads::start(on))
}

/// The ring, if there is one; else threads, if those will do.
fn choose(
    mode: DiskMode,
    ring: io::Result<Rc<dyn DiskBackend>>,
    threads: impl FnOnce() -> Rc<dyn DiskBackend>,
) -> io::Result<Rc<dyn DiskBackend>> {
    ring.or_else(|e| match mode {
        DiskMode::Uring => {
            let why = format!("this system does not allow io_uring ({e}); use --disk-io auto or --disk-io threads");
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

/// A file as one driver uses it. Dropping it gives up what is in flight.
pub struct DiskFile {
    backend: Rc<dyn DiskBackend>,
    file: Rc<OpenFile>,
    on: Handle,
}

impl DiskFile {
    /// Takes an operation. When too many are in flight it is given back, and the owner is woken when there is room again.
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

    /// Appends what has completed to `done`.
    pub fn reap(&mut self, done: &mut Vec<DiskDone>) {
        if self.file.reap(done) {
            self.on.wake(self.file.owner());
        }
    }

    /// Has another driver of the loop be told from now on.
    pub fn set_owner(&mut self, owner: DriverId) {
        self.file.set_owner(owner);
    }

    /// Operations taken and not yet reaped.
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
