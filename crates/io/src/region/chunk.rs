//! One chunk, locked: copying, lending, and the change of frames.

use super::Region;
use super::frames::{CHUNK_BYTES, NO_FRAME};
use super::lending::{Frame, Lender, Lent};
use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};
use std::rc::Rc;

/// A chunk's word while somebody holds its lock.
pub(super) const LOCKED: u32 = u32::MAX;

/// Looks at a taken lock before the thread lets others run: its holder copies at most one chunk,
/// unless it was preempted.
const SPINS: u32 = 200;

/// Views shorter than this are not given out of a chunk that was copied lately because somebody
/// wrote to it.
const COPIED_BYTES: usize = CHUNK_BYTES / 2;

/// A chunk whose lock is held as long as this lives.
pub(super) struct Chunk<'a> {
    region: &'a Region,
    number: usize,
    /// The word to be: the frame plus one, 0 for none.
    word: u32,
}

impl<'a> Chunk<'a> {
    /// Takes the lock.
    #[inline]
    pub(super) fn lock(region: &'a Region, number: usize) -> Self {
        let lock = &region.chunks[number];
        let mut word = try_lock(lock);
        if word == LOCKED {
            word = wait(lock);
        }
        Self { region, number, word }
    }

    /// Returns its number.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    #[inline]
    fn frame(&self) -> Option<u32> {
        self.word.checked_sub(1)
    }

    /// The start of the chunk's bytes, if it has any.
    #[inline]
    fn bytes(&self) -> Option<*mut u8> {
        self.frame().map(|frame| self.region.frames.pointer(frame))
    }

    #[inline]
    fn watch_read(&self) {
        if let Some(frame) = self.frame() {
            self.region.frames.watched(frame).read();
        }
    }

    #[inline]
    fn watch_write(&self) {
        if let Some(frame) = self.frame() {
            self.region.frames.watched(frame).write();
        }
    }

    /// Copies from the chunk; both ends within it.
    #[inline]
    pub(super) fn copy_out(&self, within: usize, into: &mut [u8]) {
        assert!(within + into.len() <= CHUNK_BYTES, "a piece of a chunk");
        match self.bytes() {
            // SAFETY: the source lies within the chunk's frame, which nobody writes to while we
            // hold the lock; `into` is memory of its own, as references into frames are of views,
            // which are never written to, or of spares, which no chunk has.
            Some(bytes) => unsafe {
                self.watch_read();
                core::ptr::copy_nonoverlapping(bytes.add(within), into.as_mut_ptr(), into.len());
            },
            None => into.fill(0),
        }
    }

    /// Stores `len` bytes, which come in pieces.
    #[inline]
    pub(super) fn copy_in<'b>(
        &mut self,
        within: usize,
        len: usize,
        pieces: impl Iterator<Item = &'b [u8]>,
    ) {
        let bytes = self.own(len == CHUNK_BYTES);
        self.watch_write();
        let mut at = within;
        for piece in pieces {
            assert!(at + piece.len() <= CHUNK_BYTES, "a piece of a chunk");
            // SAFETY: as in `copy_out`, the other way round; `own` saw to it that the frame has no
            // views.
            unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), bytes.add(at), piece.len()) };
            at += piece.len();
        }
    }

    /// Returns whether the chunk holds these bytes.
    pub(super) fn equals<'b>(&self, within: usize, pieces: impl Iterator<Item = &'b [u8]>) -> bool {
        self.watch_read();
        let mut at = within;
        for piece in pieces {
            assert!(at + piece.len() <= CHUNK_BYTES, "a piece of a chunk");
            let equal = match self.bytes() {
                // SAFETY: initialised bytes of the chunk's frame, which nobody writes to while we
                // hold the lock.
                Some(bytes) => unsafe {
                    core::slice::from_raw_parts(bytes.add(at), piece.len()) == piece
                },
                None => piece.iter().all(|&byte| byte == 0),
            };
            if !equal {
                return false;
            }
            at += piece.len();
        }
        true
    }

    /// Zeroes a part.
    pub(super) fn zero(&mut self, within: usize, len: usize) {
        assert!(within + len <= CHUNK_BYTES, "a piece of a chunk");
        if self.word != NO_FRAME {
            let bytes = self.own(len == CHUNK_BYTES);
            self.watch_write();
            // SAFETY: the range lies within the frame, which has no views, and nobody else touches
            // it while we hold the lock.
            unsafe { bytes.add(within).write_bytes(0, len) };
        }
    }

    /// Lets go of the frame: the chunk holds zeroes.
    pub(super) fn unmap(&mut self) {
        if let Some(frame) = self.frame() {
            self.word = NO_FRAME;
            self.region.frames.retire(frame, true);
        }
    }

    /// Puts a spare in the place of the frame.
    pub(super) fn put(&mut self, spare: Frame) {
        let old = self.frame();
        self.word = spare.into_chunk() + 1;
        if let Some(old) = old {
            self.region.frames.retire(old, false);
        }
    }

    /// A view of a part; `None` when too many are out, or a copy is better.
    #[inline]
    pub(super) fn lend(&self, lender: &Rc<Lender>, within: usize, len: usize) -> Option<Lent> {
        assert!(within + len <= CHUNK_BYTES, "a piece of a chunk");
        match self.frame() {
            Some(frame) if len < COPIED_BYTES && self.region.frames.is_shy(frame) => None,
            Some(frame) => Lent::of(lender, frame, within, len),
            None => Some(Lent::zeroes(len)),
        }
    }

    /// The chunk's bytes, to be written to: there is a frame, and no view of it. With `whole` all
    /// of it will be overwritten.
    #[inline]
    fn own(&mut self, whole: bool) -> *mut u8 {
        match self.frame() {
            Some(frame) if !self.region.frames.has_views(frame) => {
                self.region.frames.pointer(frame)
            }
            shared => self.own_another(shared, whole),
        }
    }

    #[cold]
    fn own_another(&mut self, shared: Option<u32>, whole: bool) -> *mut u8 {
        let frames = &self.region.frames;
        let (frame, clean) = loop {
            if let Some(taken) = frames.pop() {
                break taken;
            }
            // Every frame is a chunk's, a spare's or held by views of others: so the views of this
            // one are gone by now.
            if let Some(frame) = shared
                && !frames.has_views(frame)
            {
                return frames.pointer(frame);
            }
            spin_loop();
        };
        let bytes = frames.pointer(frame);
        match shared {
            // SAFETY: two different frames; the source has views, so nobody writes to it, and the
            // other is ours alone.
            Some(shared) if !whole => unsafe {
                frames.watched(shared).read();
                frames.watched(frame).write();
                core::ptr::copy_nonoverlapping(frames.pointer(shared), bytes, CHUNK_BYTES);
            },
            // SAFETY: the frame is ours alone.
            None if !whole && !clean => unsafe { bytes.write_bytes(0, CHUNK_BYTES) },
            _ => {}
        }
        self.word = frame + 1;
        if let Some(shared) = shared {
            frames.make_shy(frame);
            frames.retire(shared, false);
        }
        bytes
    }
}

impl Drop for Chunk<'_> {
    #[inline]
    fn drop(&mut self) {
        self.region.chunks[self.number].store(self.word, Ordering::Release);
    }
}

/// Takes the lock and gives the chunk's word, or gives [`LOCKED`] when somebody holds it.
#[inline]
fn try_lock(lock: &AtomicU32) -> u32 {
    if cfg!(feature = "loom") {
        // `loom` does not know that what a swap wrote cannot come behind the release of the lock
        // that it saw taken.
        let taken = lock.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            (word != LOCKED).then_some(LOCKED)
        });
        return taken.unwrap_or_else(|word| word);
    }
    lock.swap(LOCKED, Ordering::Acquire)
}

/// Takes a lock that somebody holds; gives the chunk's word.
#[cold]
fn wait(lock: &AtomicU32) -> u32 {
    let mut looks = 0u32;
    loop {
        looks += 1;
        if looks.is_multiple_of(SPINS) {
            yield_now()
        } else {
            spin_loop()
        }
        if lock.load(Ordering::Relaxed) != LOCKED {
            let word = try_lock(lock);
            if word != LOCKED {
                return word;
            }
        }
    }
}
