//! Loops that wait until the home has marked regions, or has withdrawn the permit.
//!
//! A loop says that it waits, and looks then. The home changes what it publishes, and takes the word
//! of each loop that waits before it wakes it. With a fence between the two steps on each side,
//! either the loop sees the change or the home sees that it waits. A loop whose word was taken looks
//! again.

use super::marks::Marks;
use crate::mirror::bitmap::Bitmap;
use crate::sync::{AtomicU64, Ordering, fence};
use core::ops::Range;

/// Regions whose marks loops wait for.
pub(super) struct Wanted {
    regions: Marks,
    len: usize,
    /// There are some that the home has not taken.
    is_any: AtomicU64,
}

impl Wanted {
    pub(super) fn new(len: usize) -> Self {
        Self { regions: Marks::new(len), len, is_any: AtomicU64::new(0) }
    }

    /// A loop waits for these regions. The home has to be woken after this.
    pub(super) fn add(&self, regions: Range<usize>) {
        self.regions.add(regions);
        self.is_any.store(1, Ordering::SeqCst);
    }

    /// Those that were added since the last call, for the home.
    pub(super) fn take(&self) -> Option<Bitmap> {
        let is_any =
            self.is_any.load(Ordering::SeqCst) != 0 && self.is_any.swap(0, Ordering::SeqCst) != 0;
        is_any.then(|| {
            let mut regions = Bitmap::new(self.len);
            self.regions.move_to(&mut regions);
            regions
        })
    }
}

/// The word by which a loop says that it waits.
pub(super) struct Waiter(AtomicU64);

impl Waiter {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The loop is about to look, and waits if it does not find what it looks for.
    pub(super) fn wait(&self) {
        self.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Returns false if the home has published something since. The loop is then woken and looks
    /// again: what was published may be something else, and nobody wakes it again before it waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0
    }

    /// The home has published something. Whether the loop waits; if so, it has to be woken after
    /// this.
    pub(super) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) != 0 && self.0.swap(0, Ordering::SeqCst) != 0
    }
}
