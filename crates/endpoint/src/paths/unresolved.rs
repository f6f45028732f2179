//! Writes whose path was lost and that are not completed: they may have been executed, may be executed late, and will be sent again.
//!
//! Until such a write is completed, no later operation on its blocks is sent: a later write would be undone by the repetition, and a read
//! could show first the new data and then the old. Writes that were lost together do not wait for each other; they were in flight together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whose write it is: the queue and the name there.
pub(super) type Key = (u64, u64);

/// The unresolved writes of a device, of all its queues.
#[derive(Default)]
pub(super) struct Unresolved {
    count: AtomicUsize,
    writes: Mutex<Vec<(Key, u64, u32)>>,
}

impl Unresolved {
    fn lock(&self) -> MutexGuard<'_, Vec<(Key, u64, u32)>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are any: nothing else is asked while all is well.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    pub(super) fn add(&self, key: Key, lba: u64, blocks: u32) {
        let mut writes = self.lock();
        writes.push((key, lba, blocks));
        self.count.store(writes.len(), Ordering::Release);
    }

    pub(super) fn remove(&self, key: Key) {
        self.retain(|other| other != key);
    }

    /// Removes all writes of a queue, whose loop ends.
    pub(super) fn forget(&self, queue: u64) {
        if self.any() {
            self.retain(|(of, _)| of != queue);
        }
    }

    fn retain(&self, keep: impl Fn(Key) -> bool) {
        let mut writes = self.lock();
        writes.retain(|(key, ..)| keep(*key));
        self.count.store(writes.len(), Ordering::Release);
    }

    /// Whether an operation on these blocks has to wait.
    pub(super) fn overlaps(&self, lba: u64, blocks: u32) -> bool {
        let end = lba + u64::from(blocks);
        blocks > 0 && self.lock().iter().any(|&(_, first, count)| lba < first + u64::from(count) && first < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_the_same_blocks_wait_and_others_do_not() {
        let unresolved = Unresolved::default();
        assert!(!unresolved.any());
        unresolved.add((1, 1), 10, 4);
        unresolved.add((2, 1), 20, 1);
        assert!([(9, 2), (13, 1), (0, 100), (20, 1)].iter().all(|&(lba, blocks)| unresolved.overlaps(lba, blocks)));
        assert!([(9, 1), (14, 6), (21, 1), (11, 0)].iter().all(|&(lba, blocks)| !unresolved.overlaps(lba, blocks)));
        unresolved.remove((1, 1));
        assert!(!unresolved.overlaps(10, 4));
        unresolved.forget(2);
        assert!(!unresolved.any());
    }
}
