//! Work of a queue pair, for the counters of its loop.

use crate::counters::Counters;
use core::cell::Cell;

/// Work since the last report to the loop.
#[derive(Default)]
pub(super) struct Traffic {
    copied_bytes: Cell<u64>,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Traffic {
    /// Bytes between registered memory and the user's.
    #[inline]
    pub(super) fn copied(&self, bytes: usize) {
        self.copied_bytes.set(self.copied_bytes.get() + bytes as u64);
    }

    /// Bytes that the device sends.
    #[inline]
    pub(super) fn sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
    }

    /// Bytes that it receives.
    #[inline]
    pub(super) fn received(&mut self, bytes: u32) {
        self.received_bytes += u64::from(bytes);
    }

    /// Bytes that the other end reads, or writes to. They count when they are exposed, because the
    /// device does not report how many it moved.
    #[inline]
    pub(super) fn exposed(&mut self, bytes: u32, writable: bool) {
        if writable { self.received(bytes) } else { self.sent(bytes) }
    }

    /// Tells the loop.
    #[inline]
    pub(super) fn tell(&mut self, counters: &Counters) {
        counters.copied_bytes.add(self.copied_bytes.take());
        counters.send_bytes.add(core::mem::take(&mut self.sent_bytes));
        counters.recv_bytes.add(core::mem::take(&mut self.received_bytes));
    }
}
