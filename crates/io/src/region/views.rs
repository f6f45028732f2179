//! What a region gives out: views of what it holds, and spare frames.

use super::{CHUNK_BYTES, Region};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;

/// What chunks hold that have no frame.
static ZEROES: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// A view of a part of a chunk, as it was when it was lent.
pub struct Lent {
    start: NonNull<u8>,
    len: usize,
    /// `None` for zeroes that no frame holds.
    of: Option<(Arc<Region>, u32)>,
}

// SAFETY: a view gives read access to memory that nobody writes to as long as it lives.
unsafe impl Send for Lent {}

impl Lent {
    /// A view of a part of a frame, whose chunk's lock the caller holds; `None` when too many are out.
    pub(super) fn of(region: &Arc<Region>, frame: u32, within: usize, len: usize) -> Option<Self> {
        assert!(within + len <= CHUNK_BYTES, "a piece of a frame");
        if !region.frames.enter() {
            return None;
        }
        region.frames.add_view(frame);
        // SAFETY: `within` lies in the frame.
        let start = unsafe { region.frames.pointer(frame).add(within) };
        Some(Self { start: NonNull::new(start)?, len, of: Some((Arc::clone(region), frame)) })
    }

    /// A view of zeroes, at most [`CHUNK_BYTES`].
    pub(super) fn zeroes(len: usize) -> Self {
        Self { start: NonNull::from(&ZEROES[..len]).cast(), len, of: None }
    }
}

impl Deref for Lent {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes of a frame, or of a constant. Nobody writes to a frame that has views, and it is not freed.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some((region, frame)) = &self.of {
            region.frames.drop_view(*frame);
            region.frames.leave();
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
    region: Arc<Region>,
    frame: u32,
    len: usize,
}

impl Frame {
    /// A spare with room for `len` bytes, at most [`CHUNK_BYTES`]; `None` when too many are out.
    pub(super) fn take(region: &Arc<Region>, len: usize) -> Option<Self> {
        assert!(len <= CHUNK_BYTES, "no longer than a chunk");
        if !region.frames.enter() {
            return None;
        }
        match region.frames.pop() {
            Some((frame, _)) => Some(Self { region: Arc::clone(region), frame, len }),
            None => {
                region.frames.leave();
                None
            }
        }
    }

    /// Whether it is a spare of that region.
    pub(super) fn is_of(&self, region: &Region) -> bool {
        core::ptr::eq(Arc::as_ptr(&self.region), region)
    }

    /// Hands the frame over to a chunk; gives its number.
    pub(super) fn into_chunk(self) -> u32 {
        let this = core::mem::ManuallyDrop::new(self);
        this.region.frames.leave();
        // SAFETY: taken out once, as the value is never dropped or used again.
        drop(unsafe { core::ptr::read(&this.region) });
        this.frame
    }
}

impl Deref for Frame {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised bytes of a frame that nobody else has.
        unsafe { core::slice::from_raw_parts(self.region.frames.pointer(self.frame), self.len) }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.region.frames.pointer(self.frame), self.len) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.region.frames.push(self.frame, false);
        self.region.frames.leave();
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({} bytes)", self.len)
    }
}
