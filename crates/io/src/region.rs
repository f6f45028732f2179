//! Memory that several loops read and write at once: what a RAM disk stands on.
//!
//! The region is cut into units of [`UNIT_BYTES`], and a table of spin locks guards them, one lock for every so many units
//! (`unit % stripes`). Whoever touches a unit holds its lock, so that there is no data race, and a block that does not
//! straddle units (a power of two up to the unit, aligned to its size) is read and written whole. Operations on a single
//! piece of memory hold one lock at a time; those that must see their whole range at once (fused compare-and-write, scattered
//! memory) take all its locks, in ascending order, so that no two of them wait for each other.

use crate::limits::REGION_STRIPES;
use crate::segment::{Segment, pieces};
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, Ordering};
use std::io;

mod memory;
mod pages;
use memory::Memory;
pub use pages::Pages;

/// What one lock covers, and the largest block that is never torn, in bytes.
pub const UNIT_BYTES: usize = 4096;

/// Memory is given back to the system in pieces of this size: one huge page.
const RELEASE_BYTES: usize = memory::HUGE_PAGE_BYTES;

/// Looks at a taken lock before the thread lets others run: its holder copies at most one unit, unless it was preempted.
const SPINS: u32 = 200;

const _: () = assert!(REGION_STRIPES.is_power_of_two() && REGION_STRIPES >= RELEASE_BYTES / UNIT_BYTES);

/// Shared memory, zeroed at first. Offsets and lengths are in bytes.
pub struct Region {
    memory: Memory,
    stripes: Box<[AtomicBool]>,
}

impl Region {
    /// Asks the system for `len` bytes; they take up memory as they are written.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] when the system does not have that much.
    pub fn new(len: usize) -> io::Result<Self> {
        Ok(Self { memory: Memory::new(len)?, stripes: (0..REGION_STRIPES).map(|_| AtomicBool::new(false)).collect() })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `into`, in order, from `offset` on.
    ///
    /// # Panics
    /// If the range ends beyond the region.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [Segment]) {
        if let [one] = into {
            return self.read_slice(offset, one);
        }
        let all = self.lock(offset, crate::segment::total_len(into));
        let mut at = offset;
        for segment in into {
            all.copy_out(at, segment);
            at += segment.len();
        }
    }

    /// Stores `from`, in order, from `offset` on.
    ///
    /// # Panics
    /// As [`Region::read`].
    #[inline]
    pub fn write(&self, offset: usize, from: &[Segment]) {
        if let [one] = from {
            return self.write_slice(offset, one);
        }
        let all = self.lock(offset, crate::segment::total_len(from));
        let mut at = offset;
        for segment in from {
            all.copy_in(at, segment);
            at += segment.len();
        }
    }

    /// As [`Region::read`], for one piece of memory.
    #[inline]
    pub fn read_slice(&self, offset: usize, into: &mut [u8]) {
        self.each_unit(offset, into.len(), |unit, at, len| unit.copy_out(at, &mut into[at - offset..][..len]));
    }

    /// As [`Region::write`], for one piece of memory.
    #[inline]
    pub fn write_slice(&self, offset: usize, from: &[u8]) {
        self.each_unit(offset, from.len(), |unit, at, len| unit.copy_in(at, &from[at - offset..][..len]));
    }

    /// Whether the region holds the bytes of `with` from `offset` on. Each unit is compared at a moment of its own.
    ///
    /// # Panics
    /// As [`Region::read`].
    pub fn compare(&self, offset: usize, with: &[Segment]) -> bool {
        self.lock(offset, crate::segment::total_len(with)).equals(offset, with.iter().map(|s| &s[..]))
    }

    /// `data` is expected bytes followed by as many new ones, however it is cut. When the region holds the expected ones from
    /// `offset` on it stores the new ones there; nobody sees or changes the range in between.
    ///
    /// # Panics
    /// As [`Region::read`]; or if `data` has an odd number of bytes.
    pub fn compare_and_write(&self, offset: usize, data: &[Segment]) -> bool {
        let total = crate::segment::total_len(data);
        assert!(total.is_multiple_of(2), "expected and new bytes are equally many");
        let len = total / 2;
        let all = self.lock(offset, len);
        if !all.equals(offset, pieces(data, 0, len)) {
            return false;
        }
        let mut at = offset;
        for piece in pieces(data, len, len) {
            all.copy_in(at, piece);
            at += piece.len();
        }
        true
    }

    /// Zeroes a range.
    ///
    /// # Panics
    /// As [`Region::read`].
    pub fn zero(&self, offset: usize, len: usize) {
        self.each_unit(offset, len, |unit, at, len| unit.zero(at, len));
    }

    /// Zeroes a range and gives what it can of its memory back to the system.
    ///
    /// # Panics
    /// As [`Region::read`].
    pub fn release(&self, offset: usize, len: usize) {
        let end = self.end_of(offset, len);
        let mut at = offset;
        while at < end {
            let next = ((at / RELEASE_BYTES + 1) * RELEASE_BYTES).min(end);
            let released = next - at == RELEASE_BYTES && self.lock(at, RELEASE_BYTES).release(at, RELEASE_BYTES);
            if !released {
                self.zero(at, next - at);
            }
            at = next;
        }
    }

    fn end_of(&self, offset: usize, len: usize) -> usize {
        let end = offset.checked_add(len).filter(|&end| end <= self.memory.len());
        end.expect("a range of a region ends within it")
    }

    /// Runs `work` on each unit of the range, with its lock held: `work(unit, offset, len)`.
    #[inline]
    fn each_unit(&self, offset: usize, len: usize, mut work: impl FnMut(&Access<'_>, usize, usize)) {
        let end = self.end_of(offset, len);
        let mut at = offset;
        while at < end {
            let stripe = (at / UNIT_BYTES) % REGION_STRIPES;
            let next = ((at / UNIT_BYTES + 1) * UNIT_BYTES).min(end);
            self.take(stripe);
            let _lock = Lock(&self.stripes[stripe]);
            work(&Access { region: self, first: at, end: next }, at, next - at);
            at = next;
        }
    }

    /// Takes all locks of a range, in ascending order.
    fn lock(&self, offset: usize, len: usize) -> LockedRange<'_> {
        let end = self.end_of(offset, len);
        let stripes = if len == 0 { [EMPTY, EMPTY] } else { stripes_of(offset / UNIT_BYTES, (end - 1) / UNIT_BYTES) };
        for range in &stripes {
            range.clone().for_each(|stripe| self.take(stripe));
        }
        LockedRange { access: Access { region: self, first: offset, end }, stripes }
    }

    #[inline]
    fn take(&self, stripe: usize) {
        if self.stripes[stripe].swap(true, Ordering::Acquire) {
            self.take_contended(stripe);
        }
    }

    #[cold]
    fn take_contended(&self, stripe: usize) {
        let lock = &self.stripes[stripe];
        let mut looks = 0u32;
        loop {
            looks += 1;
            if looks.is_multiple_of(SPINS) {
                std::thread::yield_now()
            } else {
                core::hint::spin_loop()
            }
            if !lock.load(Ordering::Relaxed) && !lock.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

const EMPTY: Range<usize> = 0..0;

/// The stripes of units `first..=last`, as ascending ranges.
fn stripes_of(first: usize, last: usize) -> [Range<usize>; 2] {
    let (low, high) = (first % REGION_STRIPES, last % REGION_STRIPES);
    if last - first + 1 >= REGION_STRIPES {
        [0..REGION_STRIPES, EMPTY]
    } else if low <= high {
        [low..high + 1, EMPTY]
    } else {
        [0..high + 1, low..REGION_STRIPES]
    }
}

/// A lock that is held.
struct Lock<'a>(&'a AtomicBool);

impl Drop for Lock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// All locks of a range, held.
struct LockedRange<'a> {
    access: Access<'a>,
    stripes: [Range<usize>; 2],
}

impl<'a> Deref for LockedRange<'a> {
    type Target = Access<'a>;
    fn deref(&self) -> &Access<'a> {
        &self.access
    }
}

impl Drop for LockedRange<'_> {
    fn drop(&mut self) {
        for stripe in self.stripes.iter().cloned().flatten() {
            drop(Lock(&self.access.region.stripes[stripe]));
        }
    }
}

/// Access to the bytes `first..end`, whose locks are held as long as this lives.
struct Access<'a> {
    region: &'a Region,
    first: usize,
    end: usize,
}

impl Access<'_> {
    #[inline]
    fn pointer(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at >= self.first && len <= self.end - at, "access stays within the locked range");
        // SAFETY: the locked range lies within the region, and `at` within the range.
        unsafe { self.region.memory.start().add(at) }
    }

    #[inline]
    fn copy_out(&self, at: usize, into: &mut [u8]) {
        // SAFETY: the source is `into.len()` initialised bytes of the region, whose locks we hold; `into` is memory of its own,
        // as references never point into a region.
        unsafe { core::ptr::copy_nonoverlapping(self.pointer(at, into.len()), into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn copy_in(&self, at: usize, from: &[u8]) {
        // SAFETY: as in `copy_out`, the other way round.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.pointer(at, from.len()), from.len()) }
    }

    fn zero(&self, at: usize, len: usize) {
        // SAFETY: `len` bytes of the region, whose locks we hold.
        unsafe { self.pointer(at, len).write_bytes(0, len) }
    }

    fn equals<'b>(&self, offset: usize, with: impl Iterator<Item = &'b [u8]>) -> bool {
        let mut at = offset;
        for piece in with {
            // SAFETY: initialised bytes of the region, whose locks we hold while the slice lives.
            let stored = unsafe { core::slice::from_raw_parts(self.pointer(at, piece.len()), piece.len()) };
            if stored != piece {
                return false;
            }
            at += piece.len();
        }
        true
    }

    /// Gives the pages back; they read as zeroes. `false` if the system cannot.
    fn release(&self, at: usize, len: usize) -> bool {
        let pages = self.pointer(at, len);
        // SAFETY: whole pages of the region (the pieces are aligned to and as long as a huge page), whose locks we hold.
        unsafe { memory::discard(pages, len) }
    }
}

#[cfg(test)]
mod tests;
