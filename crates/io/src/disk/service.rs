//! The disk service of a loop, and files as its backends and as its drivers see them.

use super::mode::DiskMode;
use super::op::{DiskDone, DiskOp};
use crate::event_loop::{DriverId, Handle};
use crate::limits::DISK_OPS_PER_FILE;
use core::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Does the work of one loop's [`DiskService`].
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

/// A file that a driver has opened on a loop, as seen by backends.
pub struct OpenFile {
    file: Arc<File>,
    owner: Cell<DriverId>,
    done: RefCell<Vec<DiskDone>>,
    /// Accepted and not yet reaped.
    in_flight: Cell<usize>,
    /// An operation was returned because there was no room.
    wants_room: Cell<bool>,
    closed: Cell<bool>,
}

impl OpenFile {
    pub(super) fn new(file: Arc<File>, owner: DriverId) -> Self {
        Self {
            file,
            owner: Cell::new(owner),
            done: RefCell::default(),
            in_flight: Cell::new(0),
            wants_room: Cell::new(false),
            closed: Cell::new(false),
        }
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The driver to wake.
    pub fn owner(&self) -> DriverId {
        self.owner.get()
    }

    /// Returns whether nothing waits for completions.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Completes an operation: wakes the owner, or frees the memory if nothing waits.
    pub fn complete(&self, on: &Handle, op: DiskOp, result: io::Result<()>) {
        on.counters().disk_completions.add(1);
        if self.closed.get() {
            return;
        }
        self.done.borrow_mut().push(DiskDone { op, result });
        on.wake(self.owner.get());
    }

    pub(super) fn set_owner(&self, owner: DriverId) {
        self.owner.set(owner);
    }

    pub(super) fn taken(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    pub(super) fn want_room(&self) {
        self.wants_room.set(true);
    }

    /// Returns completed operations, and whether the owner waits for room.
    pub(super) fn reap(&self, done: &mut Vec<DiskDone>) -> bool {
        let mut completed = self.done.borrow_mut();
        let made_room = !completed.is_empty();
        self.in_flight.set(self.in_flight.get() - completed.len());
        done.append(&mut completed);
        made_room && self.wants_room.take()
    }

    pub(super) fn close(&self) {
        self.closed.set(true);
        let unclaimed = self.done.take();
        drop(unclaimed);
    }
}

/// Start functions of the backends of a service.
#[derive(Clone, Copy)]
pub(crate) struct Starters {
    /// The one that the mode asks for.
    pub(super) chosen: fn(DiskMode, &Handle) -> io::Result<Rc<dyn DiskBackend>>,
    /// One for calls that block.
    pub(super) blocking: fn(&Handle) -> Rc<dyn DiskBackend>,
}

/// The disk service of one loop.
pub struct DiskService {
    mode: DiskMode,
    start: Starters,
    backend: RefCell<Option<Rc<dyn DiskBackend>>>,
    /// For calls that the other backend does not have.
    blocking: RefCell<Option<Rc<dyn DiskBackend>>>,
}

impl DiskService {
    /// A service that starts a backend when the first file is opened.
    pub(crate) fn starting(mode: DiskMode, start: Starters) -> Self {
        Self { mode, start, backend: RefCell::default(), blocking: RefCell::default() }
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
                let backend = (self.start.chosen)(self.mode, on)?;
                Rc::clone(self.backend.borrow_mut().insert(backend))
            }
        };
        Ok(DiskFile { backend, file: Rc::new(OpenFile::new(file, owner)), on: on.clone() })
    }

    /// As [`DiskService::open`], for operations that go to threads, whatever the mode: discards of
    /// a disk's blocks, for which systems have only a call that waits.
    pub fn open_blocking(&self, on: &Handle, file: Arc<File>, owner: DriverId) -> DiskFile {
        let backend =
            Rc::clone(self.blocking.borrow_mut().get_or_insert_with(|| (self.start.blocking)(on)));
        DiskFile { backend, file: Rc::new(OpenFile::new(file, owner)), on: on.clone() }
    }
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
