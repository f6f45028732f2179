//! Peers that stop half-way: that send no more of the data which they announced or were asked for,
//! or take no more of what is sent to them. Memory is held meanwhile, so it may not last.

use super::stream::{End, State, StreamPump};
use crate::limits::{STALL_BYTES_MIN, STALL_S};
use std::io::{Error, ErrorKind};
use std::time::Duration;
use weft_io::{Handle, Time};
use weft_proto::stream::StreamEngine;

/// What a peer moves in one direction, and by when it has to move more.
#[derive(Default)]
pub(super) struct Progress {
    bytes: u64,
    /// What `bytes` was when the time began.
    before: u64,
    by: Option<Time>,
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
    fn has_stalled(&mut self, now: Time, owes: bool) -> bool {
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
    is_watched: bool,
}

impl<E: StreamEngine> StreamPump<E> {
    /// Has the connection end when its peer stops half-way for [`STALL_S`] seconds. For exports: a
    /// source has limits of its own for what it waits for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.stalls.is_watched = true;
        self
    }

    /// When to look next at whether the peer has stalled. The connection ends here if it has.
    #[inline]
    pub(super) fn stall_limit(&mut self, on: &Handle) -> Option<Time> {
        if !self.stalls.is_watched {
            return None;
        }
        // What is not received because of a pause is not the peer's debt.
        let receives = matches!(self.state, State::Open)
            && (self.moving.is_some() || self.engine.awaits_data());
        if self.stalls.received.has_stalled(on.now(), receives) {
            self.end_stalled("sent too little of the data that it announced or was asked for");
        }
        if self.stalls.sent.has_stalled(on.now(), self.sending.is_some()) {
            self.end_stalled("does not receive responses");
        }
        [self.stalls.received.by, self.stalls.sent.by].into_iter().flatten().min()
    }

    #[cold]
    fn end_stalled(&mut self, what: &str) {
        self.finish(End::Error(Error::new(
            ErrorKind::TimedOut,
            format!("the peer {what} for {STALL_S} s"),
        )));
    }
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
