//! Progress of a peer in each direction, and the time by which it has to make more.

use crate::limits::{STALL_BYTES_MIN, STALL_S};
use std::time::Duration;
use weft_io::Time;

/// What a peer moves in one direction, and by when it has to move more.
#[derive(Default)]
pub(super) struct Progress {
    bytes: u64,
    /// What `bytes` was when the time began.
    before: u64,
    pub(super) by: Option<Time>,
}

impl Progress {
    /// So many bytes have moved.
    #[inline]
    pub(super) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Whether the peer, which `owes` something or does not, has moved too little. The time counts
    /// while it owes something all along.
    #[inline]
    pub(super) fn has_stalled(&mut self, now: Time, owes: bool) -> bool {
        if !owes {
            self.by = None;
            return false;
        }
        match self.by {
            Some(by) if now < by => return false,
            Some(_) if self.bytes - self.before < STALL_BYTES_MIN => return true,
            _ => {}
        }
        (self.before, self.by) = (self.bytes, Some(now + Duration::from_secs(STALL_S)));
        false
    }
}

/// Both directions of a connection whose peer is watched.
#[derive(Default)]
pub(super) struct Stalls {
    pub(super) received: Progress,
    pub(super) sent: Progress,
    pub(super) is_watched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(STALL_S);
    const MOMENT: Duration = Duration::from_millis(1);

    fn at(after: Duration) -> Time {
        Time::from_epoch(after)
    }

    #[test]
    fn who_moves_enough_has_not_stalled() {
        let mut progress = Progress::default();
        assert!(!progress.has_stalled(at(LIMIT), true));
        assert!(!progress.has_stalled(at(LIMIT * 2 - MOMENT), true));
        progress.moved(STALL_BYTES_MIN as usize);
        assert!(!progress.has_stalled(at(LIMIT * 2), true));
        progress.moved(STALL_BYTES_MIN as usize - 1);
        assert!(!progress.has_stalled(at(LIMIT * 3 - MOMENT), true));
        assert!(progress.has_stalled(at(LIMIT * 3), true), "a trickle");
    }

    #[test]
    fn who_owes_nothing_has_not_stalled() {
        let mut progress = Progress::default();
        assert!(!progress.has_stalled(at(LIMIT), true));
        assert!(!progress.has_stalled(at(LIMIT + MOMENT), false));
        // A new debt has its own time.
        assert!(!progress.has_stalled(at(LIMIT * 5), true));
        assert!(!progress.has_stalled(at(LIMIT * 6 - MOMENT), true));
        assert!(progress.has_stalled(at(LIMIT * 6), true));
    }
}
