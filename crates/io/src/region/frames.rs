//! The frames of a region: which are free, which are in use by a chunk, and which have views.
//!
//! With C chunks and S spares there are C + S frames. `out` counts views and spares that are out,
//! at most S. A frame that is not free is a chunk's, is out as a spare, or has lost its chunk and
//! still has views; so a chunk that has no frame, or one with views, finds a free one.

use super::addresses::HUGE_PAGE_BYTES;
use super::memory::{self, Memory};
use crate::sync::{AtomicU8, AtomicU32, Lock, Ordering, Watched};
use std::io;

/// The bytes that one lock covers, and the largest block that is never torn.
pub const CHUNK_BYTES: usize = 64 << 10;

/// A chunk's word when it has no frame.
pub(super) const NO_FRAME: u32 = 0;

/// Chunks of a region, at most: 64 TiB.
pub(super) const CHUNKS_MAX: usize = 1 << 30;

/// In a frame's state: it belongs to no chunk. The rest of the number counts views.
const RETIRED: u32 = 1 << 31;

/// Frames that share one huge page; memory goes back to the system in these.
const GROUP: u32 = (HUGE_PAGE_BYTES / CHUNK_BYTES) as u32;

/// Short reads of a chunk that are copied after a write had to move it away from a view: so that
/// such a move, which copies the chunk, costs no more than about a kilobyte a read.
const SHY: u8 = 64;

/// The frames of one region, and their states.
pub(super) struct Frames {
    memory: Memory,
    /// State of each frame, or of all of them if nobody watches.
    watched: Box<[Watched]>,
    states: Box<[AtomicU32]>,
    /// Of each frame: how many short reads are still to be copied rather than lent.
    shy: Box<[AtomicU8]>,
    free: Lock<Free>,
    out: AtomicU32,
    spares: u32,
}

struct Free {
    /// Frames from this one on were never used.
    fresh: u32,
    /// Used before, last in, first out.
    list: Vec<u32>,
    /// Of each group: how many of its frames are on the list.
    groups: Box<[u8]>,
    /// Of each group: whether one of its frames holds something else than zeroes.
    dirty: Box<[bool]>,
}

impl Frames {
    /// Frames for `chunks` chunks, and spares in addition.
    pub(super) fn new(chunks: usize, spares: u32) -> io::Result<Self> {
        let count = chunks + spares as usize;
        let groups = count.div_ceil(GROUP as usize);
        let bytes = count.checked_mul(CHUNK_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let free = Free {
            fresh: 0,
            list: Vec::new(),
            groups: vec![0; groups].into(),
            dirty: vec![false; groups].into(),
        };
        Ok(Self {
            memory: Memory::new(bytes)?,
            watched: (0..if cfg!(feature = "loom") { count } else { 1 })
                .map(|_| Watched::new())
                .collect(),
            states: (0..count).map(|_| AtomicU32::new(0)).collect(),
            shy: (0..count).map(|_| AtomicU8::new(0)).collect(),
            free: Lock::new(free),
            out: AtomicU32::new(0),
            spares,
        })
    }

    /// The start of a frame, [`CHUNK_BYTES`] long.
    #[inline]
    pub(super) fn pointer(&self, frame: u32) -> *mut u8 {
        assert!((frame as usize) < self.states.len(), "a frame of this region");
        // SAFETY: there is memory for each frame.
        unsafe { self.memory.start().add(frame as usize * CHUNK_BYTES) }
    }

    /// The frame's memory as a model sees it.
    #[inline]
    pub(super) fn watched(&self, frame: u32) -> &Watched {
        &self.watched[if cfg!(feature = "loom") { frame as usize } else { 0 }]
    }

    /// Returns whether somebody may read the frame without its chunk's lock. New views come only
    /// from those who hold that lock.
    #[inline]
    pub(super) fn has_views(&self, frame: u32) -> bool {
        self.states[frame as usize].load(Ordering::Acquire) != 0
    }

    /// Allows `count` more views and spares; returns how many of them there may be.
    pub(super) fn reserve(&self, count: u32) -> u32 {
        let before = self.out.fetch_add(count, Ordering::Relaxed);
        let may = self.spares.saturating_sub(before).min(count);
        self.give_back(count - may);
        may
    }

    /// Undoes [`Frames::reserve`].
    pub(super) fn give_back(&self, count: u32) {
        if count > 0 {
            self.out.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Notes that a chunk got this frame because somebody wrote to it while it had views; the
    /// caller holds its lock.
    pub(super) fn make_shy(&self, frame: u32) {
        self.shy[frame as usize].store(SHY, Ordering::Relaxed);
    }

    /// Returns whether that was only a few such questions ago; the caller holds the chunk's lock.
    #[inline]
    pub(super) fn is_shy(&self, frame: u32) -> bool {
        let left = self.shy[frame as usize].load(Ordering::Relaxed);
        if left > 0 {
            self.shy[frame as usize].store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Counts a view; the caller holds the chunk's lock.
    pub(super) fn add_view(&self, frame: u32) {
        self.states[frame as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A view has gone; frees a frame without an owner.
    pub(super) fn drop_view(&self, frame: u32) {
        if self.states[frame as usize].fetch_sub(1, Ordering::AcqRel) == RETIRED | 1 {
            self.states[frame as usize].store(0, Ordering::Relaxed);
            self.push(frame, false);
        }
    }

    /// A chunk lets go of its frame, which is free as soon as it has no views. With `release` its
    /// memory may go back to the system.
    pub(super) fn retire(&self, frame: u32, release: bool) {
        if self.states[frame as usize].fetch_or(RETIRED, Ordering::AcqRel) == 0 {
            self.states[frame as usize].store(0, Ordering::Relaxed);
            self.push(frame, release);
        }
    }

    /// A free frame, and whether it holds zeroes only.
    pub(super) fn pop(&self) -> Option<(u32, bool)> {
        let mut free = self.free.lock();
        if let Some(frame) = free.list.pop() {
            let group = (frame / GROUP) as usize;
            free.groups[group] -= 1;
            let clean = !free.dirty[group];
            free.dirty[group] = true;
            return Some((frame, clean));
        }
        let frame = free.fresh;
        ((frame as usize) < self.states.len()).then(|| {
            free.fresh += 1;
            free.dirty[(frame / GROUP) as usize] = true;
            (frame, true)
        })
    }

    /// Frees a frame.
    pub(super) fn push(&self, frame: u32, release: bool) {
        let mut free = self.free.lock();
        let group = (frame / GROUP) as usize;
        free.list.push(frame);
        free.groups[group] += 1;
        if release && u32::from(free.groups[group]) == GROUP && free.dirty[group] {
            let start = self.pointer(frame / GROUP * GROUP);
            (frame / GROUP * GROUP..)
                .take(self.watched.len().min(GROUP as usize))
                .for_each(|frame| self.watched(frame).write());
            // SAFETY: whole pages, as a group is as long as and aligned to a huge page. All its
            // frames are free, and stay so as long as we hold the list.
            let clean = unsafe { memory::discard(start, HUGE_PAGE_BYTES) };
            free.dirty[group] = !clean;
        }
    }
}
