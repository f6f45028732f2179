//! Code of both ends: how far a queue pair is, its receives, the room in its send queue, and its
//! end.

use core::time::Duration;
use std::collections::VecDeque;

use super::violation::Violation;
use super::work::{ReceiveBuffer, Received, Work, WorkError, WorkOutcome};
use crate::limits::QUEUE_ENTRIES_MAX;
use crate::stream::StartLimit;

/// Capabilities of the queue pair and its device. Values out of range are brought into it.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairLimits {
    /// Work requests that the send queue holds, at least 2.
    pub send_queue: u16,
    /// RDMA READs outstanding, at least 1: the smaller of this end's ORD and the other end's IRD.
    pub reads: u16,
    /// Bytes of a message, at least 1.
    pub message_bytes: u32,
    /// Scatter or gather entries of a work request, at least 1.
    pub sges: u16,
    /// The pieces of a tag's memory, in bytes, at least 1: such an entry describes the bytes
    /// between two multiples of this length.
    pub sge_bytes: u32,
}

impl Default for QueuePairLimits {
    fn default() -> Self {
        Self { send_queue: 256, reads: 16, message_bytes: 1 << 30, sges: 1, sge_bytes: u32::MAX }
    }
}

impl QueuePairLimits {
    /// The longest message made from `sges` pieces of memory, of which the first one begins where a
    /// piece does.
    fn gathered_bytes(&self, sges: u16) -> u32 {
        u32::from(sges).saturating_mul(self.sge_bytes).min(self.message_bytes)
    }

    /// Data of one RDMA READ or WRITE. Where it can, the next one begins where a piece does.
    pub(super) fn transfer_bytes(&self) -> u32 {
        let bytes = self.gathered_bytes(self.sges.max(1)).max(1);
        let rest = bytes % self.sge_bytes.max(1);
        if rest < bytes { bytes - rest } else { bytes }
    }

    /// Data that one SEND can carry behind a command, which takes an entry and 64 bytes.
    pub(super) fn capsule_data_bytes(&self) -> u32 {
        self.gathered_bytes(self.sges.saturating_sub(1)).min(self.message_bytes.saturating_sub(64))
    }
}

/// Progress of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not connected. Receives are posted, and nothing else.
    Connecting,
    Open,
    /// Queued work is still sent; nothing new is taken.
    Closing,
    /// Nothing more is sent. What was posted is flushed.
    Closed,
}

/// State of a queue pair that does not depend on the end.
pub struct QueuePairState {
    pub(super) phase: Phase,
    pub(super) receives: Receives,
    /// Free entries of the send queue, and all of them.
    room: u16,
    depth: u16,
    /// A disconnect must be requested.
    disconnect: bool,
    /// The same for the queue pair's destruction.
    destroy: bool,
    is_destroyed: bool,
    violation: Option<Violation>,
    close_limit: Duration,
    /// Runs while closing, and again while what was posted is flushed.
    ending: Option<StartLimit>,
}

impl QueuePairState {
    pub fn new(receives: u16, send_queue: u16, close_limit: Duration) -> Self {
        // At most two entries belong together.
        let depth = send_queue.max(2);
        Self {
            phase: Phase::Connecting,
            receives: Receives::new(receives.clamp(1, QUEUE_ENTRIES_MAX)),
            room: depth,
            depth,
            disconnect: false,
            destroy: false,
            is_destroyed: false,
            violation: None,
            close_limit,
            ending: None,
        }
    }

    /// Returns whether `entries` entries of the send queue are free.
    #[inline]
    pub fn has_room(&self, entries: u16) -> bool {
        self.room >= entries
    }

    /// Uses entries up that are free.
    #[inline]
    pub fn post(&mut self, entries: u16) {
        debug_assert!(self.room >= entries, "the send queue overflows");
        self.room = self.room.saturating_sub(entries);
    }

    /// They are free again.
    #[inline]
    pub fn retire(&mut self, entries: u16) {
        self.room = (self.room + entries).min(self.depth);
    }

    /// Why this end ended the queue pair.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    /// Returns whether commands are taken and sent.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Returns whether something is sent.
    #[inline]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closing)
    }

    /// Returns whether nothing more is sent.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns whether no memory is in use.
    pub fn has_ended(&self) -> bool {
        self.is_destroyed
            || (self.is_closed()
                && !self.disconnect
                && self.room == self.depth
                && !self.receives.any_posted())
    }

    /// Begins to end the queue pair in order.
    pub fn begin_close(&mut self) {
        match self.phase {
            Phase::Open => {
                self.phase = Phase::Closing;
                self.ending = Some(StartLimit::new(self.close_limit));
            }
            Phase::Connecting => self.end(),
            Phase::Closing | Phase::Closed => {}
        }
    }

    /// Ends it now.
    #[cold]
    pub fn end(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.disconnect = true;
        self.receives.stop();
        self.ending = Some(StartLimit::new(self.close_limit));
    }

    /// The same, for a reason.
    #[cold]
    pub fn fail(&mut self, violation: Violation) {
        if self.phase != Phase::Closed {
            self.violation = Some(violation);
            self.end();
        }
    }

    /// The queue pair is gone, and everything that was posted with it.
    pub fn destroyed(&mut self) {
        self.end();
        self.disconnect = false;
        self.destroy = false;
        self.is_destroyed = true;
        self.ending = None;
        self.room = self.depth;
        self.receives.lose();
    }

    /// Returns work that comes before everything else.
    #[inline]
    pub fn urgent_work(&mut self) -> Option<Work> {
        if self.phase == Phase::Closed {
            return self.last_work();
        }
        self.receives.post().map(Work::PostReceive)
    }

    /// Returns whether there is such work.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.disconnect || self.destroy || (!self.is_closed() && self.receives.any_to_post())
    }

    #[cold]
    fn last_work(&mut self) -> Option<Work> {
        if core::mem::take(&mut self.disconnect) {
            return Some(Work::Disconnect);
        }
        core::mem::take(&mut self.destroy).then_some(Work::Destroy)
    }

    /// A message has come: returns whether it must be processed. Its receive is kept.
    #[inline]
    pub fn take(&mut self, received: &Received<'_>) -> bool {
        if !self.receives.complete(received.buffer) {
            self.fail(Violation::UnknownCompletion);
            return false;
        }
        if self.is_closed() {
            return false;
        }
        if received.immediate.is_some() {
            self.fail(Violation::Immediate);
            return false;
        }
        true
    }

    /// A receive has ended without a message.
    pub fn receive_ended(&mut self, buffer: ReceiveBuffer, error: Option<WorkError>) {
        if !self.receives.complete(buffer) {
            return self.fail(Violation::UnknownCompletion);
        }
        match error {
            Some(error) => self.fail(Violation::Receive(error)),
            None => self.end(),
        }
    }

    /// Work has ended: unless it is done the queue pair is over.
    #[inline]
    pub fn work_ended(&mut self, ended: WorkOutcome, failed: fn(WorkError) -> Violation) {
        match ended {
            WorkOutcome::Done => {}
            WorkOutcome::Failed(error) => self.fail(failed(error)),
            WorkOutcome::Flushed => self.end(),
        }
    }

    /// Keeps the time limits of the end.
    pub fn tick(&mut self, now: Duration) {
        let Some(ending) = &mut self.ending else { return };
        if !ending.has_passed(now) {
            return;
        }
        self.ending = None;
        match self.phase {
            Phase::Closed => self.destroy = !self.has_ended(),
            _ => self.fail(Violation::CloseLate(self.close_limit)),
        }
    }

    /// Time at which they must be checked.
    pub fn deadline(&self) -> Option<Duration> {
        self.ending.filter(|_| !self.has_ended()).map(|ending| ending.deadline())
    }
}

// The receives of a queue pair: posted, to be posted, or still holding a capsule.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveState {
    /// In the queue of those to be posted.
    ToPost,
    Posted,
    /// A capsule's data is still needed.
    Kept,
    /// The queue pair no longer posts it.
    Idle,
}

/// A slab whose memory is reserved once.
pub(super) struct Receives {
    states: Vec<ReceiveState>,
    to_post: VecDeque<ReceiveBuffer>,
    posted: u16,
}

impl Receives {
    /// `count` receives, none posted yet.
    pub fn new(count: u16) -> Self {
        Self {
            states: vec![ReceiveState::ToPost; count.into()],
            to_post: (0..count).map(ReceiveBuffer).collect(),
            posted: 0,
        }
    }

    /// Number of receives.
    pub fn count(&self) -> u16 {
        self.states.len() as u16
    }

    /// Number that is posted, or will be before anything else.
    pub fn ready(&self) -> u16 {
        self.posted + self.to_post.len() as u16
    }

    /// Returns whether some are posted.
    pub fn any_posted(&self) -> bool {
        self.posted > 0
    }

    /// Returns whether some must be posted.
    pub fn any_to_post(&self) -> bool {
        !self.to_post.is_empty()
    }

    /// Returns the next one to post.
    #[inline]
    pub fn post(&mut self) -> Option<ReceiveBuffer> {
        let buffer = self.to_post.pop_front()?;
        self.states[usize::from(buffer.0)] = ReceiveState::Posted;
        self.posted += 1;
        Some(buffer)
    }

    /// One has completed; `false` if it was not posted. It is kept.
    #[inline]
    pub fn complete(&mut self, buffer: ReceiveBuffer) -> bool {
        match self.states.get_mut(usize::from(buffer.0)) {
            Some(state) if *state == ReceiveState::Posted => {
                *state = ReceiveState::Kept;
                self.posted -= 1;
                true
            }
            _ => false,
        }
    }

    /// One that was kept must be posted again.
    #[inline]
    pub fn repost(&mut self, buffer: ReceiveBuffer) {
        if let Some(state) = self.states.get_mut(usize::from(buffer.0))
            && *state == ReceiveState::Kept
        {
            *state = ReceiveState::ToPost;
            self.to_post.push_back(buffer);
        }
    }

    /// No more are posted.
    pub fn stop(&mut self) {
        for buffer in self.to_post.drain(..) {
            self.states[usize::from(buffer.0)] = ReceiveState::Idle;
        }
    }

    /// None is posted: the queue pair is gone.
    pub fn lose(&mut self) {
        self.stop();
        self.states.fill(ReceiveState::Idle);
        self.posted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_can_be_gathered() {
        let limits = |sges, sge_bytes, message_bytes| QueuePairLimits {
            sges,
            sge_bytes,
            message_bytes,
            ..Default::default()
        };
        let contiguous = limits(1, u32::MAX, 1 << 20);
        assert_eq!((contiguous.transfer_bytes(), contiguous.capsule_data_bytes()), (1 << 20, 0));
        let two = limits(2, u32::MAX, 1 << 20);
        assert_eq!((two.transfer_bytes(), two.capsule_data_bytes()), (1 << 20, (1 << 20) - 64));
        let pieces = limits(4, 4096, 1 << 20);
        assert_eq!((pieces.transfer_bytes(), pieces.capsule_data_bytes()), (4 * 4096, 3 * 4096));
        let none = limits(0, 0, 0);
        assert_eq!((none.transfer_bytes(), none.capsule_data_bytes()), (1, 0));
    }

    #[test]
    fn each_is_posted_once() {
        let mut receives = Receives::new(2);
        assert_eq!(
            (receives.post(), receives.post(), receives.post()),
            (Some(ReceiveBuffer(0)), Some(ReceiveBuffer(1)), None)
        );
        assert!(
            receives.complete(ReceiveBuffer(1))
                && !receives.complete(ReceiveBuffer(1))
                && !receives.complete(ReceiveBuffer(2))
        );
        assert_eq!(receives.ready(), 1);
        receives.repost(ReceiveBuffer(0));
        receives.repost(ReceiveBuffer(1));
        receives.repost(ReceiveBuffer(1));
        assert_eq!(
            (receives.ready(), receives.post(), receives.post()),
            (2, Some(ReceiveBuffer(1)), None)
        );
        receives.complete(ReceiveBuffer(0));
        receives.lose();
        receives.repost(ReceiveBuffer(0));
        assert_eq!(
            (receives.post(), receives.any_posted(), receives.any_to_post()),
            (None, false, false)
        );
    }
}
