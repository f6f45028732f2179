//! Loops that wait until the home has marked regions, or has withdrawn the permit.
//!
//! A loop says that it waits, notes how often the home has published anything, and looks then. The
//! home changes what it publishes, counts, and wakes those that wait. With a fence between the two
//! steps on each side, either the loop sees the change or the home sees that it waits.

use super::marks::Marks;
use crate::mirror::bitmap::Bitmap;
use crate::sync::{AtomicU64, Ordering, fence};
use core::ops::RangeInclusive;

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
    pub(super) fn add(&self, regions: RangeInclusive<usize>) {
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

/// Whether a loop waits.
pub(super) struct Waiter(AtomicU64);

impl Waiter {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether it waits; if so, it has to be woken, and is told once.
    pub(super) fn take(&self) -> bool {
        self.0.load(Ordering::SeqCst) != 0 && self.0.swap(0, Ordering::SeqCst) != 0
    }
}

/// Counts what the home has published.
pub(super) struct Published(AtomicU64);

impl Published {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The count of what was published so far.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A loop is about to look, and waits if it does not find what it looks for; the count for
    /// [`Published::is_news`].
    pub(super) fn wait(&self, waiter: &Waiter) -> u64 {
        waiter.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.count()
    }

    /// Whether anything was published since.
    pub(super) fn is_news(&self, count: u64) -> bool {
        self.count() != count
    }

    /// Something has changed. Whoever waits has to be woken after this.
    pub(super) fn publish(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}
