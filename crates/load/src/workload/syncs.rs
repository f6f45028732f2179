//! Flushes of a job: `fsync`, `fdatasync`, `sync`, `end_fsync`, `fsync_on_close`.
//!
//! As in fio, a flush comes before the operation that follows the *n*-th write, also if that is a
//! read, and none comes behind the last operation. It counts as one of the operations in flight.
//! At a depth above 1 it does not wait for those that are in flight.

use super::direction::Direction;

/// Flushes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// `fsync`: number of writes after which the device is flushed; 0: never.
    pub fsync: u32,
    /// `fdatasync`: the same, because a block device has no metadata.
    pub fdatasync: u32,
    /// `sync`: each write is durable when it completes (force unit access).
    pub each_write: bool,
    /// `end_fsync`, `fsync_on_close`: flush the device after the last write. It is not measured.
    pub at_end: bool,
}

/// Decides when a job flushes.
#[derive(Debug)]
pub(super) struct SyncState {
    of: Syncs,
    writes: u64,
    last_was_sync: bool,
}

impl SyncState {
    pub fn new(of: Syncs) -> Self {
        Self { of, writes: 0, last_was_sync: false }
    }

    /// Returns whether the next operation is a flush.
    #[inline]
    pub fn is_due(&self) -> bool {
        let of = |every: u32| every > 0 && self.writes.is_multiple_of(u64::from(every));
        self.writes > 0 && !self.last_was_sync && (of(self.of.fsync) || of(self.of.fdatasync))
    }

    /// An operation begins; `None`: a flush.
    #[inline]
    pub fn began(&mut self, direction: Option<Direction>) {
        self.last_was_sync = direction.is_none();
        self.writes += u64::from(direction == Some(Direction::Write));
    }

    /// Returns whether the job ends with a flush that has not begun.
    pub fn ends_with_sync(&self) -> bool {
        self.of.at_end && self.writes > 0
    }

    /// The flush at the end begins.
    pub fn ended(&mut self) {
        self.of.at_end = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushes(of: Syncs, directions: &[Direction]) -> Vec<usize> {
        let (mut state, mut before) = (SyncState::new(of), Vec::new());
        for (at, direction) in directions.iter().enumerate() {
            if state.is_due() {
                state.began(None);
                assert!(!state.is_due());
                before.push(at);
            }
            state.began(Some(*direction));
        }
        before
    }

    #[test]
    fn a_flush_follows_each_nth_write() {
        let of = |fsync, fdatasync| Syncs { fsync, fdatasync, ..Syncs::default() };
        let writes = [Direction::Write; 7];
        assert_eq!(flushes(of(1, 0), &writes), [1, 2, 3, 4, 5, 6]);
        assert_eq!(flushes(of(0, 3), &writes), [3, 6]);
        assert_eq!(flushes(of(4, 3), &writes), [3, 4, 6]);
        assert_eq!(flushes(of(0, 0), &writes), [0; 0]);
        // As in fio, each read behind the write has a flush before it.
        let mix = [Direction::Write, Direction::Read, Direction::Read, Direction::Write];
        assert_eq!(flushes(of(1, 0), &mix), [1, 2, 3]);
        assert_eq!(flushes(of(2, 0), &mix), [0; 0]);
        assert_eq!(flushes(of(1, 0), &[Direction::Read; 3]), [0; 0]);
    }

    #[test]
    fn only_what_was_written_is_flushed_at_the_end() {
        let mut state = SyncState::new(Syncs { at_end: true, ..Syncs::default() });
        assert!(!state.ends_with_sync());
        state.began(Some(Direction::Write));
        assert!(state.ends_with_sync() && !state.is_due());
        state.ended();
        assert!(!state.ends_with_sync());
    }
}
