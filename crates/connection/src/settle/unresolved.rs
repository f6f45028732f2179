//! Writes whose path was lost and that are not completed: they may have been executed, may be
//! executed late, and will be sent again.
//!
//! Until such a write is completed, no later operation on its blocks is sent: a later write would
//! be undone by the repetition, and a read could show first the new data and then the old. Writes
//! that were lost together do not wait for each other; they were in flight together.
//!
//! After a restart of the target, such a write *hides* what was acknowledged and not flushed on its
//! blocks, if they hold something else: either the write has been executed, or that is lost, which
//! does not matter when the write succeeds. Until then no flush is sent, as it would vouch for what
//! may be lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use weft_base::lock::Lock;

/// The queue of a write, and its name there.
pub type WriteKey = (u64, u64);

/// The unresolved writes of a device, of all its queues.
#[derive(Default)]
pub struct UnresolvedWrites {
    count: AtomicUsize,
    writes: Lock<Vec<Write>>,
}

struct Write {
    key: WriteKey,
    lba: u64,
    end: u64,
    /// See the module.
    hides: bool,
}

impl UnresolvedWrites {
    /// Returns whether there are any. Callers ask nothing else while there are none.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Adds a write.
    pub fn add(&self, key: WriteKey, lba: u64, blocks: u32) {
        let mut writes = self.writes.lock();
        writes.push(Write { key, lba, end: lba + u64::from(blocks), hides: false });
        self.count.store(writes.len(), Ordering::Release);
    }

    /// Removes a write. Returns whether it hid something.
    pub fn remove(&self, key: WriteKey) -> bool {
        self.retain(|write| write.key != key)
    }

    /// Removes a write unless it hides something. Returns whether it was removed.
    pub fn remove_if_open(&self, key: WriteKey) -> bool {
        self.retain(|write| write.key != key || write.hides);
        !self.writes.lock().iter().any(|write| write.key == key)
    }

    /// Removes all writes of a queue, whose loop ends. Returns whether one of them hid something.
    pub fn forget(&self, queue: u64) -> bool {
        self.any() && self.retain(|write| write.key.0 != queue)
    }

    fn retain(&self, keep: impl Fn(&Write) -> bool) -> bool {
        let mut writes = self.writes.lock();
        let mut hid = false;
        writes.retain(|write| {
            let stays = keep(write);
            hid |= !stays && write.hides;
            stays
        });
        self.count.store(writes.len(), Ordering::Release);
        hid
    }

    /// Their blocks: the first, and the one behind the last.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.writes.lock().iter().map(|write| (write.lba, write.end)).collect()
    }

    /// The target has restarted, and these blocks (the first, and the one behind the last) do not
    /// hold what they should. Returns whether writes are on all of them, which hide that from now
    /// on.
    pub fn hide(&self, first: u64, end: u64) -> bool {
        let mut writes = self.writes.lock();
        let mut over: Vec<&mut Write> =
            writes.iter_mut().filter(|write| write.lba < end && first < write.end).collect();
        over.sort_unstable_by_key(|write| write.lba);
        let covered = over
            .iter()
            .fold(first, |at, write| if write.lba <= at { at.max(write.end) } else { at });
        if covered < end {
            return false;
        }
        over.into_iter().for_each(|write| write.hides = true);
        true
    }

    /// Returns whether a write hides something.
    pub fn does_hide(&self, key: WriteKey) -> bool {
        self.any() && self.writes.lock().iter().any(|write| write.hides && write.key == key)
    }

    /// Returns whether one of the writes hides something.
    pub fn hide_any(&self) -> bool {
        self.any() && self.writes.lock().iter().any(|write| write.hides)
    }

    /// Returns whether an operation on these blocks has to wait.
    pub fn overlaps(&self, lba: u64, blocks: u32) -> bool {
        let end = lba + u64::from(blocks);
        blocks > 0 && self.writes.lock().iter().any(|write| lba < write.end && write.lba < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_the_same_blocks_wait_and_others_do_not() {
        let unresolved = UnresolvedWrites::default();
        assert!(!unresolved.any());
        unresolved.add((1, 1), 10, 4);
        unresolved.add((2, 1), 20, 1);
        assert!(
            [(9, 2), (13, 1), (0, 100), (20, 1)]
                .iter()
                .all(|&(lba, blocks)| unresolved.overlaps(lba, blocks))
        );
        assert!(
            [(9, 1), (14, 6), (21, 1), (11, 0)]
                .iter()
                .all(|&(lba, blocks)| !unresolved.overlaps(lba, blocks))
        );
        unresolved.remove((1, 1));
        assert!(!unresolved.overlaps(10, 4));
        unresolved.forget(2);
        assert!(!unresolved.any());
    }

    #[test]
    fn what_hides_something_does_so_until_it_is_resolved() {
        let unresolved = UnresolvedWrites::default();
        unresolved.add((1, 1), 10, 4);
        unresolved.add((2, 1), 20, 1);
        assert!(!unresolved.hide(13, 15) && !unresolved.hide(9, 11) && !unresolved.hide_any());
        assert!(unresolved.hide(11, 14));
        assert!(unresolved.remove_if_open((2, 1)) && !unresolved.remove_if_open((1, 1)));
        assert!(unresolved.hide_any() && unresolved.overlaps(10, 1));
        assert!(unresolved.remove((1, 1)) && !unresolved.hide_any());
    }
}
