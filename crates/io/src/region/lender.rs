//! Lends views and spares of a region on one loop.

use super::views::Frame;
use super::{CHUNK_BYTES, Region};
use crate::segment::{Segment, Segments};
use core::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Views and spares that a lender asks the region for at a time, so that loops rarely meet at that
/// count.
const BATCH: u32 = 16;

/// Those that it keeps for itself when none is out.
const KEPT: u32 = 4;

/// Lends a region on one loop. Views and spares belong to the loop that requested them.
pub struct Lender {
    region: Arc<Region>,
    /// Views and spares that may still be given out without asking the region.
    credits: Cell<u32>,
    out: Cell<u32>,
}

impl Lender {
    /// Lends this region.
    pub fn new(region: Arc<Region>) -> Rc<Self> {
        Rc::new(Self { region, credits: Cell::new(0), out: Cell::new(0) })
    }

    /// Returns the region whose memory it lends.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Appends views of the present content of the range, one per chunk. Returns `false` and
    /// appends nothing if too many views exist, or if the range is short and frequently written.
    ///
    /// # Panics
    /// If the range ends beyond the region.
    #[inline]
    pub fn lend(self: &Rc<Self>, offset: usize, len: usize, into: &mut Segments) -> bool {
        let before = into.len();
        let mut all = true;
        self.region.each_chunk(offset, len, |chunk, _, within, len| {
            all = all
                && chunk
                    .lend(self, within, len)
                    .map(|view| into.push(Segment::Lent(view)))
                    .is_some();
        });
        if !all {
            into.truncate(before);
        }
        all
    }

    /// Appends frames to receive data for the range, as [`Region::adopt`] needs it: one frame per
    /// chunk. Returns `false` and appends nothing if too many exist. The content is unspecified.
    ///
    /// # Panics
    /// If the range ends beyond the region.
    pub fn spare(self: &Rc<Self>, offset: usize, len: usize, into: &mut Segments) -> bool {
        let end = self.region.end_of(offset, len);
        let before = into.len();
        let mut at = offset;
        while at < end {
            let next = ((at / CHUNK_BYTES + 1) * CHUNK_BYTES).min(end);
            let Some(frame) = Frame::take(self, next - at) else {
                into.truncate(before);
                return false;
            };
            into.push(Segment::Frame(frame));
            at = next;
        }
        true
    }

    /// Counts one more view or spare, unless there are too many.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        if self.credits.get() == 0 {
            self.credits.set(self.region.frames.reserve(BATCH));
        }
        let may = self.credits.get() > 0;
        if may {
            self.credits.set(self.credits.get() - 1);
            self.out.set(self.out.get() + 1);
        }
        may
    }

    /// Undoes [`Lender::enter`].
    #[inline]
    pub(super) fn leave(&self) {
        self.out.set(self.out.get() - 1);
        self.credits.set(self.credits.get() + 1);
        let keep = if self.out.get() == 0 { KEPT } else { 2 * BATCH };
        if self.credits.get() > keep {
            self.region.frames.give_back(self.credits.get() - keep.min(BATCH));
            self.credits.set(keep.min(BATCH));
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.region.frames.give_back(self.credits.get());
    }
}
