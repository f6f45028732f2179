//! The host's end of a queue pair.
//!
//! The life of a command, identified by the [`Tag`] that [`submit`](HostQueuePair::submit) returns:
//!
//! 1. `submit` puts it into the queue of commands to be sent. Its data, in either direction, is in
//!    the memory of the tag, which belongs to this queue pair until the command's response.
//! 2. When the controller has a receive for it, and this end one for its response, its memory is
//!    made accessible to the controller ([`Work::Expose`]), or its data goes into the capsule; then
//!    it is sent.
//! 3. [`RdmaHostEvent::Response`] is reported when the controller has answered, its access to the
//!    memory has ended, and the capsule was sent. The access is ended by the response itself (SEND
//!    with invalidate) or else by this end.
//! 4. [`release`](HostQueuePair::release) returns the tag when the layer above has finished with
//!    the memory.
//!
//! When the queue pair ends then commands that were not answered stay as they are. Their memory is
//! not touched any more once [`has_ended`](QueuePairEngine::has_ended).

mod receive;
mod slot;
mod transmit;

use core::time::Duration;
use std::collections::VecDeque;

use self::slot::{CommandSlot, CommandState, Direction};
use super::cm::CmRequest;
use super::engine::QueuePairEngine;
use super::keyed::{KEYED_BYTES_MAX, Keyed};
use super::link::{QueuePairLimits, QueuePairState};
use super::work::Exposure;
use crate::limits::{HANDSHAKE_S, QUEUE_ENTRIES_MAX};
use crate::nvme::cqe::Cqe;
pub use crate::nvme::host::{HostData, SubmitError};
use crate::nvme::sqe::{Sgl, Sqe};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Cntlid, Qid};
use crate::nvme_rdma::cm::CmAccept;
use crate::nvme_rdma::engine::LinkEnd;
use crate::nvme_rdma::link::Phase;
use crate::nvme_rdma::violation::Violation;
use crate::nvme_rdma::work::{Received, Work, WorkId, WorkKind, WorkOutcome};
use crate::slab::Slab;
use crate::stream::Tag;

/// Configuration of a [`HostQueuePair`]. Values out of range are brought into it.
#[derive(Clone, Copy, Debug)]
pub struct RdmaHostConfig {
    /// The queue; 0 is the admin queue.
    pub qid: Qid,
    /// Of an I/O queue: its controller.
    pub cntlid: Cntlid,
    /// Commands outstanding, and receives posted for their responses: 2 to [`QUEUE_ENTRIES_MAX`].
    pub queue_entries: u16,
    /// Data that goes into the capsule, in bytes, until [`HostQueuePair::set_in_capsule_bytes`]:
    /// for an admin queue 0, for an I/O queue what its controller's IOCCSZ says.
    pub in_capsule_bytes: u32,
    /// Access of the controller to memory.
    pub exposure: Exposure,
    /// Of the queue pair and its device.
    pub limits: QueuePairLimits,
    /// Time limits of sending before an orderly end, and of flushing.
    pub close_limit: Duration,
}

impl Default for RdmaHostConfig {
    fn default() -> Self {
        Self {
            qid: Qid(0),
            cntlid: Cntlid(0),
            queue_entries: 128,
            in_capsule_bytes: 0,
            exposure: Exposure::Window,
            limits: QueuePairLimits::default(),
            close_limit: Duration::from_secs(HANDSHAKE_S),
        }
    }
}

/// Events for the layer above a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaHostEvent {
    /// A command is answered, and its memory is free.
    Response {
        /// Names the command until [`HostQueuePair::release`].
        tag: Tag,
        /// The answer.
        cqe: Cqe,
        /// Bytes of data received: all of it if the command succeeded.
        received_bytes: u32,
    },
}

/// The host's end of a queue pair.
pub struct HostQueuePair {
    config: RdmaHostConfig,
    link: QueuePairState,
    slots: Slab<CommandSlot>,
    /// Commands to be sent.
    queue: VecDeque<Tag>,
    /// The command whose memory was made accessible, and which is sent next.
    exposed: Option<Tag>,
    /// Commands whose access this end must end.
    conceal: VecDeque<Tag>,
    /// Answers that the layer above has not taken.
    events: VecDeque<Tag>,
    /// Commands that the controller has and did not answer.
    unanswered: u16,
    /// Receives that it keeps for them.
    credits: u16,
}

impl HostQueuePair {
    /// A queue pair whose first work is posting receives, which precedes the connection request.
    pub fn new(config: RdmaHostConfig) -> Self {
        let mut slots = Slab::new(config.queue_entries.clamp(2, QUEUE_ENTRIES_MAX));
        slots.reserve();
        let entries = slots.capacity();
        Self {
            link: QueuePairState::new(entries as u16, config.limits.send_queue, config.close_limit),
            queue: VecDeque::with_capacity(entries),
            exposed: None,
            conceal: VecDeque::with_capacity(entries),
            events: VecDeque::with_capacity(entries),
            unanswered: 0,
            credits: 0,
            slots,
            config,
        }
    }

    /// The private data of the connection request.
    pub fn request(&self) -> CmRequest {
        let entries = self.slots.capacity() as u16;
        CmRequest {
            qid: self.config.qid,
            receives: self.link.receives.count(),
            hsqsize: entries - 1,
            cntlid: self.config.cntlid,
        }
    }

    /// Changes how much data goes into the capsule of later commands, in bytes (16 × IOCCSZ − 64 of
    /// Identify Controller).
    pub fn set_in_capsule_bytes(&mut self, bytes: u32) {
        self.config.in_capsule_bytes = bytes;
    }

    /// Submits a command; its CID and SGL1 are filled in. Commands are sent in the order in which
    /// they were submitted.
    ///
    /// # Panics
    /// If there are more than [`KEYED_BYTES_MAX`] bytes of data, which no command can describe.
    #[inline]
    pub fn submit(&mut self, sqe: Sqe, data: HostData) -> Result<Tag, SubmitError> {
        if self.is_closed() {
            return Err(SubmitError::Closed);
        }
        let (direction, bytes) = match data {
            HostData::None | HostData::In(0) | HostData::Out(0) => (Direction::None, 0),
            HostData::In(bytes) => (Direction::In, bytes),
            HostData::Out(bytes) if bytes <= self.capsule_limit() => (Direction::Capsule, bytes),
            HostData::Out(bytes) => (Direction::Out, bytes),
        };
        assert!(bytes <= KEYED_BYTES_MAX, "{bytes} bytes do not fit a descriptor");
        let (tag, slot) = self.slots.take().ok_or(SubmitError::Full)?;
        slot.direction = direction;
        slot.bytes = bytes;
        slot.sqe = sqe;
        slot.sqe.set_cid(slot.cid);
        match direction {
            Direction::Capsule => slot.sqe.set_sgl(Sgl::in_capsule(bytes)),
            // With data it is written once the memory has a key.
            _ => Keyed::NONE.put(&mut slot.sqe),
        }
        self.queue.push_back(tag);
        Ok(tag)
    }

    /// Data that may go into a capsule.
    #[inline]
    fn capsule_limit(&self) -> u32 {
        self.config.in_capsule_bytes.min(self.config.limits.capsule_data_bytes())
    }

    /// The command in the capsule of a tag, for [`Work::Send`].
    ///
    /// # Panics
    /// If there never was such a command.
    pub fn capsule(&self, tag: Tag) -> &Sqe {
        &self.slots.peek(tag).expect("a capsule that is sent has a command").sqe
    }

    /// The layer above has handled the response of `tag`: its memory is free, and the tag may name
    /// another command.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == CommandState::Done) {
            self.slots.give_back(tag);
        }
    }

    /// Commands that were submitted and not released.
    pub fn outstanding(&self) -> usize {
        self.slots.in_use()
    }

    /// Returns whether the controller has accepted, and commands are sent.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// The identifier under which the controller knows a command, for Abort.
    pub fn cid(&self, tag: Tag) -> Option<Cid> {
        self.slots.peek(tag).filter(|slot| slot.state != CommandState::Free).map(|slot| slot.cid)
    }

    /// Returns whether nothing of a command can have reached the controller, as it was never asked
    /// to be sent.
    pub fn never_sent(&self, tag: Tag) -> bool {
        self.slots.peek(tag).is_some_and(|slot| {
            matches!(slot.state, CommandState::Submitted | CommandState::Exposing)
        })
    }

    /// Returns whether nothing is on its way in either direction, so that the queue pair may move
    /// to another loop.
    pub fn is_quiet(&self) -> bool {
        self.link.is_open() && self.slots.in_use() == 0 && !self.link.is_urgent()
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<RdmaHostEvent> {
        let tag = self.events.pop_front()?;
        let slot = self.slots.peek(tag)?;
        let moved = slot.direction == Direction::In && slot.cqe.status.is_success();
        Some(RdmaHostEvent::Response {
            tag,
            cqe: slot.cqe,
            received_bytes: if moved { slot.bytes } else { 0 },
        })
    }

    /// Reports the answer of a command, if there is one and its memory is free.
    #[inline]
    fn finish(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        if slot.state == CommandState::Answered
            && !slot.sending
            && !slot.exposed
            && !slot.invalidating
        {
            slot.state = CommandState::Done;
            self.events.push_back(tag);
        }
    }

    /// Answers a command that never was sent, as this end cannot.
    fn refuse(&mut self, tag: Tag, status: Status) {
        let Some(slot) = self.slots.at(tag) else { return };
        slot.cqe = Cqe::new(slot.cid, status);
        slot.state = CommandState::Answered;
        self.finish(tag);
    }

    fn is_sending(&self) -> bool {
        self.slots.tags().any(|tag| self.slots.peek(tag).is_some_and(|slot| slot.sending))
    }
}

impl QueuePairEngine for HostQueuePair {
    fn established(&mut self, private_data: &[u8]) {
        if self.link.phase != Phase::Connecting {
            return;
        }
        match CmAccept::decode(private_data) {
            Ok(accept) => {
                self.credits = accept.receives;
                self.link.phase = Phase::Open;
            }
            Err(error) => self.link.fail(error.into()),
        }
    }

    #[inline]
    fn received(&mut self, received: &Received<'_>) {
        if !self.link.take(received) {
            return self.settle();
        }
        self.link.receives.repost(received.buffer);
        if let Err(violation) = self.response(received) {
            self.link.fail(violation);
            self.settle();
        }
    }

    #[inline]
    fn completed(&mut self, id: WorkId, ended: WorkOutcome) {
        let Some(entries) = self.slots.at(id.tag).and_then(|slot| slot.take_posted(id.kind, ended))
        else {
            self.link.fail(Violation::UnknownCompletion);
            return self.settle();
        };
        let failed = match id.kind {
            WorkKind::Invalidate => Violation::Invalidate,
            WorkKind::Bind => Violation::Bind,
            WorkKind::Send | WorkKind::Read | WorkKind::Write => Violation::Send,
        };
        self.link.retire(entries);
        self.link.work_ended(ended, failed);
        self.finish(id.tag);
        self.settle();
    }

    #[inline]
    fn next_work(&mut self) -> Option<Work> {
        if self.link.is_urgent() || !self.link.is_live() {
            return self.link.urgent_work().or_else(|| self.conceal_closed());
        }
        if let Some(work) = self.conceal_next() {
            return Some(work);
        }
        let work = match self.exposed {
            Some(tag) => self.send_exposed(tag),
            None => self.send_next(),
        };
        if work.is_none() && self.link.phase == Phase::Closing {
            return self.last_work();
        }
        work
    }

    #[inline]
    fn has_unsent(&self) -> bool {
        self.link.is_urgent()
            || (self.link.is_live()
                && !(self.queue.is_empty() && self.conceal.is_empty() && self.exposed.is_none()))
    }

    #[cold]
    fn give_up(&mut self, held: Work) {
        match (held, held.id()) {
            (Work::Expose { tag, .. }, _) => self.not_exposed(tag),
            (_, Some(id)) => self.completed(id, WorkOutcome::Flushed),
            (_, None) => {}
        }
    }

    fn destroyed(&mut self) {
        self.link.destroyed();
        for tag in self.slots.tags() {
            let Some(slot) = self.slots.at(tag) else { continue };
            (slot.sending, slot.binding, slot.invalidating, slot.exposed) =
                (false, false, false, false);
            self.finish(tag);
        }
        self.settle();
    }
}

impl LinkEnd for HostQueuePair {
    #[inline]
    fn link(&self) -> &QueuePairState {
        &self.link
    }

    #[inline]
    fn link_mut(&mut self) -> &mut QueuePairState {
        &mut self.link
    }

    #[inline]
    fn settle(&mut self) {
        match self.link.phase {
            Phase::Connecting | Phase::Open => return,
            Phase::Closing => {
                if !self.queue.is_empty() || self.exposed.is_some() || self.is_sending() {
                    return;
                }
                self.link.end();
            }
            Phase::Closed => {}
        }
        if let Some(slot) = self.exposed.take().and_then(|tag| self.slots.at(tag)) {
            // For the SEND that was to follow.
            slot.entries -= 1;
            self.link.retire(1);
        }
    }
}
