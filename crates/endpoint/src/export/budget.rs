//! The share of its loop's payload memory that one connection takes: one client's commands, however many and however slowly it takes
//! their data, leave room for another's.

use weft_io::{Buf, Handle, Segment, Segments};

/// Bytes of the loop's pool that a connection holds.
#[derive(Default)]
pub(crate) struct Budget {
    held_bytes: usize,
}

impl Budget {
    /// Memory from the pool, unless this connection would then hold more than is left for the others. The first buffer is had by
    /// everybody.
    #[inline]
    pub(crate) fn take(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        if !self.affords(on, bytes) {
            return None;
        }
        let buf = on.pool().take(bytes)?;
        self.held_bytes += buf.capacity();
        Some(buf)
    }

    /// Whether enough is left for the others if this connection takes so much more.
    #[inline]
    pub(crate) fn affords(&self, on: &Handle, bytes: usize) -> bool {
        let pool = on.pool();
        self.held_bytes == 0 || self.held_bytes + 2 * bytes <= pool.cap_bytes().saturating_sub(pool.taken_bytes())
    }

    /// Memory from beyond the pool's cap, for the one command without which nothing would ever go on.
    pub(crate) fn take_reserve(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        let buf = on.pool().take_reserve(bytes)?;
        self.held_bytes += buf.capacity();
        Some(buf)
    }

    /// Gives memory back to the pool; the list is empty then.
    #[inline]
    pub(crate) fn give(&mut self, segments: &mut Segments) {
        for segment in segments.drain(..) {
            if let Segment::Pool(buf) = segment {
                self.held_bytes -= buf.capacity();
            }
        }
    }
}
