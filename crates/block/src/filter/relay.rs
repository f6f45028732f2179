//! The way of operations through a filter that does not pass them on in the same call.

use crate::device::BlockQueue;
use crate::op::{Completion, Op, Outcome};
use crate::outcome::status::{Status, StatusKind};
use std::collections::VecDeque;
use weft_io::{DriverId, Handle};

/// The queue behind a filter, with what the filter has taken and that queue has not accepted, and
/// with what has ended and the filter's user has not reaped.
pub(crate) struct Relay {
    pub(crate) inner: Box<dyn BlockQueue>,
    /// Operations that the inner queue has not accepted yet.
    pub(crate) passing: VecDeque<Op>,
    /// Completions for the next reaping.
    pub(crate) ready: Vec<Completion>,
    /// Room for the completions of the inner queue; empty between calls.
    returned: Vec<Completion>,
    /// The last submission left operations with the user.
    refused: bool,
    pub(crate) on: Handle,
    pub(crate) owner: DriverId,
}

impl Relay {
    /// A relay to `inner`, whose owner is `owner` on the loop of `on`.
    pub(crate) fn new(inner: Box<dyn BlockQueue>, on: &Handle, owner: DriverId) -> Self {
        Self {
            inner,
            passing: VecDeque::new(),
            ready: Vec::new(),
            returned: Vec::new(),
            refused: false,
            on: on.clone(),
            owner,
        }
    }

    /// Operations that are neither the inner queue's nor reaped, and those that the inner queue
    /// has.
    pub(crate) fn in_flight(&self) -> usize {
        self.passing.len() + self.inner.in_flight() + self.ready.len()
    }

    /// Offers the inner queue what it has not accepted.
    #[inline]
    pub(crate) fn pass(&mut self) {
        if !self.passing.is_empty() {
            self.inner.submit(&mut self.passing);
        }
    }

    /// The end of a submission that leaves `left` with the user.
    #[inline]
    pub(crate) fn leave(&mut self, left: &VecDeque<Op>) {
        self.refused = !left.is_empty();
    }

    /// Returns the completions of the inner queue. [`Self::keep`] takes the empty list back.
    #[inline]
    pub(crate) fn returned(&mut self) -> Vec<Completion> {
        let mut returned = core::mem::take(&mut self.returned);
        self.inner.reap(&mut returned);
        returned
    }

    /// Keeps the memory of a list for the next time.
    #[inline]
    pub(crate) fn keep(&mut self, returned: Vec<Completion>) {
        debug_assert!(returned.is_empty(), "completions are lost");
        self.returned = returned;
    }

    /// The end of a reaping: appends what has ended, and wakes the user if it had to wait and there
    /// is room again.
    #[inline]
    pub(crate) fn finish(&mut self, done: &mut Vec<Completion>, has_room: bool) {
        done.append(&mut self.ready);
        if self.refused && has_room {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    /// Takes the operation of this name back, if the inner queue has not accepted it.
    pub(crate) fn recall(&mut self, name: u64) -> Option<Op> {
        let at = self.passing.iter().position(|op| op.user == name)?;
        self.passing.remove(at)
    }

    /// Ends an operation that never reached the inner queue, as its user asked for.
    pub(crate) fn abort(&mut self, op: Op) {
        self.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
        self.wake();
    }

    /// Has the user reap.
    pub(crate) fn wake(&self) {
        self.on.wake(self.owner);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.passing.drain(..).for_each(Op::give_up);
    }
}
