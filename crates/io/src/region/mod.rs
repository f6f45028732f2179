//! Memory that several loops read and write concurrently, and that senders and receivers may use in
//! place: the memory of a RAM disk.
//!
//! The region is divided into chunks of [`CHUNK_BYTES`]. A chunk has its bytes in a *frame*, or has
//! no frame while it contains only zeroes. A table with one word per chunk stores the frame; one
//! bit of the word is the chunk's lock. Copying into or out of a chunk requires its lock, so there
//! is no data race, and a block within one chunk is read and written atomically.
//!
//! Long transfers are not copied:
//!
//! * [`Lender::lend`] returns views ([`Lent`]) of the present content of a range. They never
//!   change: a writer to such a chunk first moves it to another frame, and the old frame is freed
//!   with its last view.
//! * [`Lender::spare`] returns empty frames ([`Frame`]) to receive into. [`Region::adopt`]
//!   exchanges a chunk's frame for one that fills the chunk.
//!
//! There are [`REGION_SPARE_FRAMES`] more frames than chunks, and at most that many views and
//! spares exist at once; beyond that none are returned, and the caller copies. So a writer always
//! finds a free frame.

use crate::limits::REGION_SPARE_FRAMES;
use crate::segment::{Segment, Segments, pieces, pieces_mut};
use crate::sync::{AtomicU32, Ordering};
use smallvec::SmallVec;
use std::io;

pub(crate) mod addresses;
mod chunk;
mod frames;
pub(crate) mod lending;
mod memory;
mod pages;

use chunk::Chunk;
pub use frames::CHUNK_BYTES;
use frames::{Frames, NO_FRAME};
pub use lending::{Frame, Lender, Lent};
pub use pages::Pages;

/// Shared memory, initially zero. Offsets and lengths are in bytes.
///
/// # Panics
/// All its operations panic if their range ends beyond the region.
pub struct Region {
    len: usize,
    /// For each chunk: its frame plus one, 0 for none, or [`chunk::LOCKED`].
    chunks: Box<[AtomicU32]>,
    frames: Frames,
}

impl Region {
    /// Allocates `len` bytes; they use memory as they are written.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the system does not have that much.
    pub fn new(len: usize) -> io::Result<Self> {
        Self::with_spares(len, REGION_SPARE_FRAMES)
    }

    fn with_spares(len: usize, spares: u32) -> io::Result<Self> {
        let chunks = len.div_ceil(CHUNK_BYTES);
        if chunks > frames::CHUNKS_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let frames = Frames::new(chunks, spares)?;
        Ok(Self { len, chunks: (0..chunks).map(|_| AtomicU32::new(0)).collect(), frames })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into`, in order, from `offset`.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [Segment]) {
        if let [one] = into {
            return self.read_slice(offset, one);
        }
        self.each_chunk(offset, crate::segment::total_len(into), |chunk, at, within, len| {
            let mut from = within;
            for piece in pieces_mut(into, at - offset, len) {
                chunk.copy_out(from, piece);
                from += piece.len();
            }
        });
    }

    /// Stores `from`, in order, from `offset`.
    #[inline]
    pub fn write(&self, offset: usize, from: &[Segment]) {
        if let [one] = from {
            return self.write_slice(offset, one);
        }
        self.each_chunk(offset, crate::segment::total_len(from), |chunk, at, within, len| {
            chunk.copy_in(within, len, pieces(from, at - offset, len));
        });
    }

    /// Like [`Region::read`], for one piece of memory.
    #[inline]
    pub fn read_slice(&self, offset: usize, into: &mut [u8]) {
        self.each_chunk(offset, into.len(), |chunk, at, within, len| {
            chunk.copy_out(within, &mut into[at - offset..][..len]);
        });
    }

    /// Like [`Region::write`], for one piece of memory.
    #[inline]
    pub fn write_slice(&self, offset: usize, from: &[u8]) {
        self.each_chunk(offset, from.len(), |chunk, at, within, len| {
            chunk.copy_in(within, len, core::iter::once(&from[at - offset..][..len]));
        });
    }

    /// Prefetches the first bytes of a range into the CPU's caches, for a read that follows soon.
    /// Changes nothing.
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        let word =
            self.chunks.get(offset / CHUNK_BYTES).map_or(0, |chunk| chunk.load(Ordering::Relaxed));
        if word != NO_FRAME && word != chunk::LOCKED {
            let start = self.frames.pointer(word - 1).wrapping_add(offset % CHUNK_BYTES);
            prefetch_lines(start, len.min(PREFETCH_BYTES).min(CHUNK_BYTES - offset % CHUNK_BYTES));
        }
    }

    /// Like [`Region::write`], but frames of this region that fill a whole chunk replace its frame
    /// and are not copied. Consumes the segments.
    pub fn adopt(&self, offset: usize, data: &mut Segments) {
        let mut at = offset;
        for segment in data.drain(..) {
            let len = segment.len();
            match segment {
                Segment::Frame(frame)
                    if at.is_multiple_of(CHUNK_BYTES)
                        && len == CHUNK_BYTES
                        && frame.is_of(self) =>
                {
                    // Whole chunks end within the region: its last one may be shorter than its
                    // frame, and then `len` is too.
                    self.end_of(at, len);
                    Chunk::lock(self, at / CHUNK_BYTES).put(frame);
                }
                other => self.write_slice(at, &other),
            }
            at += len;
        }
    }

    /// Returns whether the region contains the bytes of `with` from `offset`. Each chunk is
    /// compared atomically, but not all chunks together.
    pub fn compare(&self, offset: usize, with: &[Segment]) -> bool {
        let mut equal = true;
        self.each_chunk(offset, crate::segment::total_len(with), |chunk, at, within, len| {
            equal = equal && chunk.equals(within, pieces(with, at - offset, len));
        });
        equal
    }

    /// `data` contains expected bytes followed by as many new ones, in any segments. If the region
    /// contains the expected bytes from `offset`, stores the new ones there; no other thread sees
    /// or changes the range in between.
    ///
    /// # Panics
    /// If `data` has an odd number of bytes.
    pub fn compare_and_write(&self, offset: usize, data: &[Segment]) -> bool {
        let total = crate::segment::total_len(data);
        assert!(total.is_multiple_of(2), "expected and new bytes are equally many");
        let len = total / 2;
        let end = self.end_of(offset, len);
        if len == 0 {
            return true;
        }
        // In ascending order, to avoid deadlocks.
        let numbers = offset / CHUNK_BYTES..=(end - 1) / CHUNK_BYTES;
        let mut chunks: SmallVec<[Chunk<'_>; 4]> = numbers.map(|n| Chunk::lock(self, n)).collect();
        let within = |chunk: &Chunk<'_>| {
            let start = chunk.number() * CHUNK_BYTES;
            (offset.max(start), (start + CHUNK_BYTES).min(end), start)
        };
        let equal = chunks.iter().all(|chunk| {
            let (from, to, start) = within(chunk);
            chunk.equals(from - start, pieces(data, from - offset, to - from))
        });
        if equal {
            for chunk in &mut chunks {
                let (from, to, start) = within(chunk);
                chunk.copy_in(
                    from - start,
                    to - from,
                    pieces(data, len + from - offset, to - from),
                );
            }
        }
        equal
    }

    /// Zeroes a range.
    pub fn zero(&self, offset: usize, len: usize) {
        self.each_chunk(offset, len, |chunk, _, within, len| chunk.zero(within, len));
    }

    /// Zeroes a range, and returns as much of its memory as possible to the system.
    pub fn release(&self, offset: usize, len: usize) {
        self.each_chunk(offset, len, |chunk, _, within, len| {
            if len == CHUNK_BYTES { chunk.unmap() } else { chunk.zero(within, len) }
        });
    }

    fn end_of(&self, offset: usize, len: usize) -> usize {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        end.expect("a range of a region ends within it")
    }

    /// Runs `work(chunk, offset, offset within the chunk, len)` on each chunk of the range, with
    /// its lock held.
    #[inline]
    fn each_chunk(
        &self,
        offset: usize,
        len: usize,
        mut work: impl FnMut(&mut Chunk<'_>, usize, usize, usize),
    ) {
        let end = self.end_of(offset, len);
        let mut at = offset;
        while at < end {
            let next = ((at / CHUNK_BYTES + 1) * CHUNK_BYTES).min(end);
            work(&mut Chunk::lock(self, at / CHUNK_BYTES), at, at % CHUNK_BYTES, next - at);
            at = next;
        }
    }
}

/// More than this in one piece the processor's own look-ahead does better.
const PREFETCH_BYTES: usize = 4096;

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_lines(start: *const u8, len: usize) {
    use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for at in (0..len).step_by(64) {
        // SAFETY: a hint, which reads nothing and faults on nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(at).cast()) };
    }
}

/// No hint is known for this processor.
#[cfg(not(target_arch = "x86_64"))]
fn prefetch_lines(_: *const u8, _: usize) {}

#[cfg(all(test, feature = "loom"))]
mod model;
#[cfg(test)]
mod tests;
