//! Lends a region on one loop: views of its contents, and spare frames to receive into.

use super::frames::CHUNK_BYTES;
use super::{Region, addresses};
use crate::segment::{Segment, Segments};
use crate::zeroes::{ZEROES, ZEROES_BYTES};
use core::cell::Cell;
use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

/// The contents of chunks that have no frame.
pub(super) fn zeroes() -> &'static [u8] {
    const { assert!(ZEROES_BYTES >= CHUNK_BYTES) };
    &ZEROES.0[..CHUNK_BYTES]
}

/// A view of a part of a chunk, as it was when it was lent.
pub struct Lent {
    start: NonNull<u8>,
    len: usize,
    /// `None` for zeroes that no frame holds.
    of: Option<(Rc<Lender>, u32)>,
}

impl Lent {
    /// A view of a part of a frame, whose chunk's lock the caller holds; `None` when too many are
    /// out.
    pub(super) fn of(lender: &Rc<Lender>, frame: u32, within: usize, len: usize) -> Option<Self> {
        assert!(within + len <= CHUNK_BYTES, "a piece of a frame");
        if !lender.enter() {
            return None;
        }
        let frames = &lender.region().frames;
        frames.add_view(frame);
        // SAFETY: `within` lies in the frame, and memory of a region is never at address 0.
        let start = unsafe { NonNull::new_unchecked(frames.pointer(frame).add(within)) };
        Some(Self { start, len, of: Some((Rc::clone(lender), frame)) })
    }

    /// A view of zeroes, at most [`CHUNK_BYTES`].
    pub(super) fn zeroes(len: usize) -> Self {
        Self { start: NonNull::from(&zeroes()[..len]).cast(), len, of: None }
    }
}

impl Deref for Lent {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        if let Some((lender, frame)) = self.of.as_ref().filter(|_| cfg!(feature = "loom")) {
            lender.region().frames.watched(*frame).read();
        }
        // SAFETY: `len` initialised bytes of a frame, or of a constant. Nobody writes to a frame
        // that has views, and it is not freed.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some((lender, frame)) = &self.of {
            lender.region().frames.drop_view(*frame);
            lender.leave();
        }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} bytes)", self.len)
    }
}

/// A spare frame, whose holder alone has it.
pub struct Frame {
    lender: Rc<Lender>,
    frame: u32,
    len: usize,
}

impl Frame {
    /// A spare with room for `len` bytes, at most [`CHUNK_BYTES`]; `None` when too many are out.
    pub(super) fn take(lender: &Rc<Lender>, len: usize) -> Option<Self> {
        assert!(len <= CHUNK_BYTES, "no longer than a chunk");
        if !lender.enter() {
            return None;
        }
        match lender.region().frames.pop() {
            Some((frame, _)) => Some(Self { lender: Rc::clone(lender), frame, len }),
            None => {
                lender.leave();
                None
            }
        }
    }

    /// Returns whether it is a spare of that region.
    pub(super) fn is_of(&self, region: &Region) -> bool {
        core::ptr::eq(self.lender.region(), region)
    }

    /// Hands the frame over to a chunk; gives its number.
    pub(super) fn into_chunk(self) -> u32 {
        let this = core::mem::ManuallyDrop::new(self);
        this.lender.leave();
        // SAFETY: taken out once, as the value is never dropped or used again.
        drop(unsafe { core::ptr::read(&this.lender) });
        this.frame
    }
}

impl Deref for Frame {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised bytes of a frame that nobody else has.
        unsafe {
            core::slice::from_raw_parts(self.lender.region().frames.pointer(self.frame), self.len)
        }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.lender.region().frames.watched(self.frame).write();
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe {
            core::slice::from_raw_parts_mut(
                self.lender.region().frames.pointer(self.frame),
                self.len,
            )
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.lender.region().frames.push(self.frame, false);
        self.lender.leave();
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes)", self.len)
    }
}

/// The part ([`addresses`]) in which `view` lies, a view of a region that the caller holds; `None`:
/// it is no such memory.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "only queue pairs ask, which are for Linux")
)]
pub(crate) fn part_of(view: &[u8]) -> Option<Range<usize>> {
    let Range { start, end } = view.as_ptr_range();
    let (start, end) = (start.addr(), end.addr());
    let zeroes = zeroes().as_ptr_range();
    let zeroes = zeroes.start.addr()..zeroes.end.addr();
    let part = if zeroes.contains(&start) { zeroes } else { addresses::part_at(start)? };
    (end <= part.end).then_some(part)
}

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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::addresses::{EndsObserver, HUGE_PAGE_BYTES, observe};
    use super::*;

    #[derive(Default)]
    struct Ends(weft_base::lock::Lock<Vec<Range<usize>>>);

    impl EndsObserver for Ends {
        fn ends(&self, addresses: Range<usize>) {
            self.0.lock().push(addresses);
        }
    }

    impl Ends {
        fn has(&self, part: &Range<usize>) -> bool {
            self.0.lock().iter().any(|ended| ended.start <= part.start && part.end <= ended.end)
        }
    }

    #[test]
    fn views_are_in_parts_whose_end_is_told() {
        let ends: &'static Ends = Box::leak(Box::default());
        observe(ends);
        let len = 2 * HUGE_PAGE_BYTES;
        let region = Arc::new(Region::new(len).unwrap());
        let (lender, filled) = (Lender::new(Arc::clone(&region)), vec![7; len]);
        region.write_slice(0, &filled);
        let part = |at: usize| {
            let mut views = Segments::new();
            assert!(lender.lend(at, 4096, &mut views));
            part_of(&views[0]).unwrap()
        };
        let parts = [part(0), part(HUGE_PAGE_BYTES)];
        assert!(parts[0] != parts[1] && parts.iter().all(|part| part.len() == HUGE_PAGE_BYTES));
        assert_eq!(part(CHUNK_BYTES), parts[0]);
        assert!(!ends.has(&parts[0]));
        region.release(0, len);
        assert!(parts.iter().all(|part| ends.has(part)) || cfg!(not(target_os = "linux")));
        let zeroes = part(0);
        assert_eq!(zeroes.len(), CHUNK_BYTES);
        assert!(!ends.has(&zeroes));
        assert!(part_of(&filled).is_none(), "memory of others");
        let first = parts[0].clone();
        ends.0.lock().clear();
        drop((lender, region));
        assert!(ends.has(&first));
    }
}
