//! Lent parts of a region: views of its contents, and spare frames.

use super::lender::Lender;
use super::{CHUNK_BYTES, Region};
use crate::zeroes::{ZEROES, ZEROES_BYTES};
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::rc::Rc;

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
