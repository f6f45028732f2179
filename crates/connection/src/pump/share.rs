//! The share of the received data that one turn takes in before it answers.
//!
//! An end that receives everything available and then answers all of it leaves the other end idle
//! in the meantime, and is idle itself while the other end does the same: they alternate instead of
//! overlapping. With small portions both always have work, but each turn costs some system calls.
//! The right portion is a time, not a number of bytes: a turn should take a few times as long as
//! its system calls, and less than the time for which the other end polls before it sleeps. So the
//! share follows from the duration of recent turns.

use crate::limits::{
    ANSWER_US_MAX, ANSWER_US_MIN, SHARE_BYTES_FIRST, SHARE_BYTES_MIN, SHARE_BYTES_MIN_BARE,
    STAGING_BYTES,
};
use std::time::Duration;
use weft_io::Handle;

/// The share of a connection.
#[derive(Debug)]
pub(super) struct Share {
    bytes: usize,
    /// Of this turn: bytes that were received, ...
    received: usize,
    /// ... payload was among them, ...
    payload: bool,
    /// ... and there was more.
    used_up: bool,
}

impl Default for Share {
    fn default() -> Self {
        Self { bytes: SHARE_BYTES_FIRST, received: 0, payload: false, used_up: false }
    }
}

impl Share {
    /// Bytes that a turn receives before it answers.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes were received.
    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        self.received += bytes;
    }

    /// Payload comes.
    #[inline]
    pub(super) fn payload(&mut self) {
        self.payload = true;
    }

    /// All of it was received, and maybe there is more.
    pub(super) fn used_up(&mut self) {
        self.used_up = true;
    }

    /// The turn begins to send. If it received enough to take long, its time tells how much the
    /// next ones may receive. Other connections of the loop had their part of that time, and are to
    /// be answered soon too.
    #[inline]
    pub(super) fn answered(&mut self, on: &Handle) {
        if self.received >= SHARE_BYTES_MIN_BARE || self.used_up {
            self.adapt(on.clock() - on.now());
        }
        *self = Self { bytes: self.bytes, ..Self::default() };
    }

    fn adapt(&mut self, took: Duration) {
        let least = if self.payload { SHARE_BYTES_MIN } else { SHARE_BYTES_MIN_BARE };
        if took > Duration::from_micros(ANSWER_US_MAX) {
            let less = self.bytes.min(self.received) / 4 * 3;
            self.bytes = less.max(least);
        } else if self.used_up && took < Duration::from_micros(ANSWER_US_MIN) {
            self.bytes = (self.bytes + self.bytes / 4).min(STAGING_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of a connection on which `waiting` bytes always wait to be received, of which a KiB
    /// takes so long.
    fn settle(waiting: usize, payload: bool, ns_per_kib: u64) -> (usize, u64) {
        let mut share = Share::default();
        let took = |bytes: usize| (bytes as u64 * ns_per_kib) >> 10;
        for _ in 0..60 {
            let received = share.bytes.min(waiting);
            share = Share { received, payload, used_up: received == share.bytes, ..share };
            share.adapt(Duration::from_nanos(took(received)));
        }
        (share.bytes, took(share.bytes.min(waiting)) / 1000)
    }

    #[test]
    fn a_share_settles_where_turns_take_as_long_as_they_should() {
        for ns_per_kib in [40, 250, 400, 1000, 4000] {
            let (bytes, took) = settle(1 << 20, true, ns_per_kib);
            let bound = bytes == SHARE_BYTES_MIN || bytes == STAGING_BYTES;
            assert!(
                bound || (ANSWER_US_MIN..=ANSWER_US_MAX).contains(&took),
                "{ns_per_kib} ns: {bytes} bytes in {took} µs"
            );
        }
    }

    #[test]
    fn many_commands_without_payload_are_answered_in_parts() {
        // 128 of 72 bytes, half a microsecond each.
        let (bytes, took) = settle(128 * 72, false, 7100);
        assert!(
            (SHARE_BYTES_MIN_BARE..128 * 72).contains(&bytes) && took <= ANSWER_US_MAX,
            "{bytes} bytes in {took} µs"
        );
        // A few are not worth it.
        assert_eq!(settle(8 * 72, false, 7100).0, SHARE_BYTES_FIRST);
    }
}
