//! Operations on files, and files as seen by a backend.

use crate::event_loop::{DriverId, Handle};
use crate::segment::{Segments, total_len};
use core::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// Read into the data from the file.
    Read,
    /// Write the data; with `dsync` it is durable on completion.
    Write {
        /// Durable on completion.
        dsync: bool,
    },
    /// Make written data durable (`fdatasync`: the data, and the metadata needed to read it).
    Sync,
    /// Free the range; it reads as zeroes. Fails with [`io::ErrorKind::Unsupported`] if the system
    /// does not support it.
    Discard,
    /// Zero the range, by writing zeroes if necessary.
    WriteZeroes {
        /// The space may be freed.
        free: bool,
        /// Durable on completion.
        dsync: bool,
    },
}

impl DiskKind {
    const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write { .. })
    }
}

/// An operation. It owns its memory; [`DiskDone`] returns all of it.
#[derive(Debug)]
pub struct DiskOp {
    /// Kind of operation.
    pub kind: DiskKind,
    /// Offset of the first byte; ignored by a sync.
    pub offset: u64,
    /// Number of bytes; for reads and writes equal to that of `data`.
    pub len: u64,
    /// Memory of reads and writes; empty for all others.
    pub data: Segments,
    /// The submitter's name for the operation.
    pub user: u64,
}

impl DiskOp {
    /// The outcome of an operation that needs no work: it is invalid, or has no bytes.
    pub(super) fn foregone(&self) -> Option<io::Result<()>> {
        let data = if self.kind.has_data() { self.len } else { 0 };
        let in_range =
            self.offset.checked_add(self.len).is_some_and(|end| i64::try_from(end).is_ok());
        if !in_range || total_len(&self.data) as u64 != data {
            return Some(Err(io::ErrorKind::InvalidInput.into()));
        }
        (self.len == 0 && self.kind != DiskKind::Sync).then_some(Ok(()))
    }
}

/// A completed operation.
#[derive(Debug)]
pub struct DiskDone {
    /// The operation as submitted; a successful read has filled its data.
    pub op: DiskOp,
    /// The outcome.
    pub result: io::Result<()>,
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
