//! An operation on a file, and the file as its backend sees it.

use crate::event_loop::{DriverId, Handle};
use crate::segment::{Segments, total_len};
use core::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// Fill the data from the file.
    Read,
    /// Store the data; with `dsync` it is durable when the operation is done.
    Write {
        /// Durable.
        dsync: bool,
    },
    /// Make durable what was written (`fdatasync`: the data, and what it takes to read it back).
    Sync,
    /// Free the range; it reads as zeroes. Fails with [`io::ErrorKind::Unsupported`] where the system cannot.
    Discard,
    /// Zero the range, by writing if it cannot be done otherwise.
    WriteZeroes {
        /// The space may be freed.
        free: bool,
        /// Durable.
        dsync: bool,
    },
}

impl DiskKind {
    const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write { .. })
    }
}

/// An operation. It owns its memory; [`DiskDone`] gives it back whole.
#[derive(Debug)]
pub struct DiskOp {
    /// What.
    pub kind: DiskKind,
    /// First byte; ignored by a sync.
    pub offset: u64,
    /// Bytes: as many as `data` has for reads and writes.
    pub len: u64,
    /// Memory of reads and writes; empty for all others.
    pub data: Segments,
    /// The submitter's own name for the operation.
    pub user: u64,
}

impl DiskOp {
    /// How the operation ends when there is nothing to do for it: it makes no sense, or names no bytes.
    pub(super) fn foregone(&self) -> Option<io::Result<()>> {
        let data = if self.kind.has_data() { self.len } else { 0 };
        let in_range = self.offset.checked_add(self.len).is_some_and(|end| i64::try_from(end).is_ok());
        if !in_range || total_len(&self.data) as u64 != data {
            return Some(Err(io::ErrorKind::InvalidInput.into()));
        }
        (self.len == 0 && self.kind != DiskKind::Sync).then_some(Ok(()))
    }
}

/// An operation that ended.
#[derive(Debug)]
pub struct DiskDone {
    /// The operation as it was submitted; the data of a successful read is filled.
    pub op: DiskOp,
    /// How it ended.
    pub result: io::Result<()>,
}

/// A file that a driver has opened on a loop, as backends see it.
pub struct OpenFile {
    file: Arc<File>,
    owner: Cell<DriverId>,
    done: RefCell<Vec<DiskDone>>,
    /// Taken and not yet reaped.
    in_flight: Cell<usize>,
    /// An operation was given back for want of room.
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

    /// The driver that is woken.
    pub fn owner(&self) -> DriverId {
        self.owner.get()
    }

    /// Whether nobody waits for completions any more.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Ends an operation: wakes the owner, or lets go of the memory if nobody waits.
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

    /// Hands out what has completed; tells whether the owner waits for the room that this makes.
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
