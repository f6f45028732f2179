//! The size of a device over paths. A path that has grown alone does not decide it once all paths
//! were asked: the others would refuse operations behind their ends.

use std::sync::atomic::{AtomicU64, Ordering};
use weft_base::lock::Lock;

/// See the module.
pub(super) struct Size {
    blocks: AtomicU64,
    /// The most that it becomes until all paths are asked again.
    limit: Lock<u64>,
}

impl Size {
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks: AtomicU64::new(blocks), limit: Lock::new(u64::MAX) }
    }

    /// Blocks.
    pub(super) fn get(&self) -> u64 {
        self.blocks.load(Ordering::Acquire)
    }

    /// A path has `blocks` now. Returns whether the size changes with that.
    pub(super) fn set(&self, blocks: u64) -> bool {
        let limit = self.limit.lock();
        let blocks = blocks.min(*limit);
        self.blocks.swap(blocks, Ordering::AcqRel) != blocks
    }

    /// Paths are asked one after the other: the size does not grow until [`Self::settle`].
    pub(super) fn hold(&self) {
        *self.limit.lock() = self.get();
    }

    /// All open paths were asked, and have these sizes: the smallest is used, and is the limit if
    /// they differ. Returns whether the size changes with that.
    pub(super) fn settle(&self, sizes: &[u64]) -> bool {
        let mut limit = self.limit.lock();
        let smallest = sizes.iter().copied().min();
        let differ = smallest.filter(|smallest| sizes.iter().any(|size| size != smallest));
        *limit = differ.unwrap_or(u64::MAX);
        let blocks = smallest.unwrap_or_else(|| self.get());
        self.blocks.swap(blocks, Ordering::AcqRel) != blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_path_decides_once_all_were_asked() {
        let size = Size::new(10);
        assert!(size.set(20), "a path tells by itself");
        size.hold();
        assert!(!size.set(30), "the others were not asked yet");
        assert!(size.set(15), "a shorter one counts at once");
        assert!(size.settle(&[30, 20]));
        assert_eq!((size.get(), size.set(30)), (20, false), "it differs");
        size.hold();
        assert!(size.settle(&[30, 30]));
        assert!(size.set(40), "they are equal, and one tells by itself again");
        size.hold();
        assert_eq!((size.settle(&[]), size.get()), (false, 40), "no path was left");
    }
}
