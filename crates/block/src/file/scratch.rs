//! Operations that use a buffer of the queue: comparisons, which first read the stored data,
//! operations whose memory is not aligned as the disk requires, and reads of a block that the file
//! has only in part. The buffer is as long as the data that is moved; zeroes follow it.

use super::system::Direct;
use crate::op::Op;
use crate::outcome::status::{Status, StatusKind};
use weft_io::segment::{pieces, total_len};
use weft_io::{Buf, Segment, Segments};

/// The use of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Data is read into it and then copied out.
    Read,
    /// It contains the data to write.
    Write,
    /// Data is read into it and then compared.
    Compare,
    /// Data is read into it and compared; then it contains the data to write.
    CompareAndWrite {
        /// The write is durable.
        fua: bool,
    },
}

/// Returns whether the disk accepts the memory of the operation.
pub(super) fn suits(op: &Op, direct: Direct, block_bytes: u32) -> bool {
    let fits = |s: &Segment| {
        s.as_ptr().addr().is_multiple_of(direct.memory_align)
            && s.len().is_multiple_of(block_bytes as usize)
    };
    op.data.iter().all(fits)
}

/// The data of the disk operation.
pub(super) fn begin(usage: Use, mut buf: Buf, op: &Op) -> Segments {
    if usage == Use::Write {
        gather(&mut buf, op, 0);
    }
    Segments::from_iter([buf.into()])
}

/// The status of the operation after the disk succeeded.
pub(super) fn end(usage: Use, memory: &[Segment], op: &mut Op) -> Status {
    match usage {
        Use::Write => {}
        Use::Read => {
            let bytes = memory.iter().flat_map(|s| s.iter()).chain(core::iter::repeat(&0));
            op.data
                .iter_mut()
                .flat_map(|s| s.iter_mut())
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
        }
        Use::Compare => {
            let (read, all) = (total_len(memory), total_len(&op.data));
            let is_zero_behind =
                || pieces(&op.data, read, all - read).flatten().all(|byte| *byte == 0);
            if !equal(memory, op) || !is_zero_behind() {
                return Status::new(StatusKind::CompareFailed);
            }
        }
        Use::CompareAndWrite { .. } => {
            if !equal(memory, op) {
                return Status::new(StatusKind::CompareFailed);
            }
        }
    }
    Status::SUCCESS
}

/// Returns whether the data read equals the first bytes of the operation's data.
pub(super) fn equal(memory: &[Segment], op: &Op) -> bool {
    let mut at = 0;
    pieces(&op.data, 0, total_len(memory)).all(|piece| {
        let stored = pieces(memory, at, piece.len()).flatten();
        at += piece.len();
        stored.eq(piece)
    })
}

/// Copies the second half of the operation's data into the buffer.
pub(super) fn fill_new(memory: &mut [Segment], op: &Op) {
    if let [only] = memory {
        let half = only.len();
        gather(only, op, half);
    }
}

fn gather(into: &mut [u8], op: &Op, skip: usize) {
    let mut at = 0;
    for piece in pieces(&op.data, skip, into.len()) {
        into[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
}
