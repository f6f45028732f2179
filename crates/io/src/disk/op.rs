//! Operations on files.

use crate::segment::{Segments, total_len};
use std::io;

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
