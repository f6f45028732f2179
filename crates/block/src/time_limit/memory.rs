//! Memory that a device gets in the place of its users', so that an operation which is overdue
//! completes with the memory with which it came.

use crate::limits::TIME_LIMIT_POOL_BYTES;
use crate::op::Op;
use weft_io::segment::{pieces, pieces_mut, total_len};
use weft_io::{Pool, Segment, Segments};

/// The memory of one queue.
pub(super) struct OwnMemory(Pool);

impl OwnMemory {
    pub(super) fn new() -> Self {
        Self(Pool::new(TIME_LIMIT_POOL_BYTES))
    }

    /// Puts memory of the queue, with the data of the operation, in the place of that of the user,
    /// which is returned. `None`: there is none left. The only operation under way (`is_only`) gets
    /// some in any case.
    pub(super) fn put_in(&self, op: &mut Op, is_only: bool) -> Option<Segments> {
        let len = total_len(&op.data);
        if len == 0 {
            return Some(Segments::new());
        }
        let mut buf = if is_only { self.0.take_reserve(len) } else { self.0.take(len) }?;
        if !op.kind.fills() {
            let mut at = 0;
            for piece in pieces(&op.data, 0, len) {
                buf[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
        }
        Some(core::mem::replace(&mut op.data, Segments::from_iter([Segment::from(buf)])))
    }

    /// Gives an operation the user's memory again, with what was read if that succeeded.
    pub(super) fn take_out(op: &mut Op, mut memory: Segments, is_success: bool) {
        if is_success && op.kind.fills() {
            let len = total_len(&memory);
            let mut read = op.data.iter().flat_map(|segment| segment.iter().copied());
            for piece in pieces_mut(&mut memory, 0, len) {
                piece.iter_mut().zip(&mut read).for_each(|(to, from)| *to = from);
            }
        }
        op.data = memory;
    }
}
