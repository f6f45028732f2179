//! The host's end of an NVMe/TCP connection (NVMe TCP 1.1 §3.3).
//!
//! The life of a command, identified by the [`Tag`] that [`submit`](HostConnection::submit)
//! returns:
//!
//! 1. `submit` puts it into the transmit queue. Its data, in either direction, is in the memory of
//!    the tag, which belongs to this connection until the command's response. The engine answers
//!    R2Ts by itself.
//! 2. After each [`Part::Release`](crate::stream::Part::Release) that was sent, the pump calls
//!    [`sent`](HostConnection::sent) and handles the event that it may return. The memory stays in
//!    use; only the response frees it.
//! 3. [`TcpHostEvent::Response`] (or [`TcpHostEvent::DataFailed`]) is reported when the controller
//!    has answered *and* no gather list refers to the memory: a controller may fail a write before
//!    it has received all data. The remaining data is then not sent.
//! 4. [`release`](HostConnection::release) returns the tag when the layer above has finished with
//!    the memory.

mod receive;
mod receive_stage;
mod slot;
mod transmit;

use crate::capture::{End, Protocol, Role};
use core::time::Duration;
use std::collections::VecDeque;

use self::receive_stage::{Arriving, ReceiveStage};
use self::slot::{CommandSlot, CommandState, Direction, R2t};
use super::digest::{self, Digests};
use super::link::{Link, Negotiated, PDU_DATA_BYTES_MAX, Phase, Receiver};
use super::pdu::{
    ALIGNMENT_MAX, FABRICS_CAPSULE_DATA_BYTES, IcReq, MAX_H2C_DATA_BYTES_MIN, PduType,
};
use super::term::Termination;
use super::violation::Violation;
use crate::limits::{QUEUE_ENTRIES_MAX, R2T_OUTSTANDING_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviations;
pub use crate::nvme::host::{HostData, SubmitError};
use crate::nvme::sqe::{OPCODE_FABRICS, Sgl, Sqe};
use crate::nvme::types::Cid;
use crate::slab::{Entries, Slab};
use crate::stream::{Rx, StreamEngine, Tag, Transmit};

/// Configuration of a [`HostConnection`]. Values out of range are brought into it.
#[derive(Clone, Copy, Debug)]
pub struct TcpHostConfig {
    /// Digests wanted. Which of them the controller grants is in [`TcpHostEvent::Ready`].
    pub digests: Digests,
    /// Commands outstanding, at most [`QUEUE_ENTRIES_MAX`].
    pub queue_entries: u16,
    /// R2Ts that the controller may have outstanding per command (MAXR2T + 1), at most
    /// [`R2T_OUTSTANDING_MAX`].
    pub r2t_outstanding: u8,
    /// HPDA, 0 to [`ALIGNMENT_MAX`]; Linux targets insist on 0.
    pub hpda: u8,
    /// Data that goes into the capsule, in bytes, until [`HostConnection::set_in_capsule_bytes`]:
    /// for an admin queue [`FABRICS_CAPSULE_DATA_BYTES`], for an I/O queue what its controller's
    /// IOCCSZ says. Fabrics commands may always carry the former.
    pub in_capsule_bytes: u32,
}

impl Default for TcpHostConfig {
    fn default() -> Self {
        Self {
            digests: Digests::NONE,
            queue_entries: 128,
            r2t_outstanding: 4,
            hpda: 0,
            in_capsule_bytes: 0,
        }
    }
}

/// Events for the layer above a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpHostEvent {
    /// The controller accepted the connection. Commands may be submitted before, and are sent now.
    Ready(Negotiated),
    /// A command is answered. If it succeeded then all its data has moved.
    Response {
        /// Names the command until [`HostConnection::release`].
        tag: Tag,
        /// The answer.
        cqe: Cqe,
        /// Bytes of data received.
        received_bytes: u32,
    },
    /// A command is answered, but a data digest was wrong: the received data must not be used. If
    /// the controller reports success then the command must be failed with Transient Transport
    /// Error (§3.5.2).
    DataFailed {
        /// As above.
        tag: Tag,
        /// The answer.
        cqe: Cqe,
    },
    /// The controller ended the connection with C2HTermReq. `Closed` comes next.
    Terminated(Termination),
}

/// The host's end of a connection.
pub struct HostConnection {
    link: Link,
    slots: Slab<CommandSlot>,
    r2ts: Entries<R2t>,
    /// Commands with something to send.
    queue: VecDeque<Tag>,
    stage: ReceiveStage,
    arriving: Arriving,
    config: TcpHostConfig,
    max_h2c_data_bytes: u32,
}

impl HostConnection {
    /// A connection whose first transmit is ICReq.
    pub fn new(config: TcpHostConfig) -> Self {
        let config = TcpHostConfig { hpda: config.hpda.min(ALIGNMENT_MAX), ..config };
        let mut slots = Slab::new(config.queue_entries.min(QUEUE_ENTRIES_MAX));
        slots.reserve();
        let mut r2ts = Entries::new(config.r2t_outstanding.min(R2T_OUTSTANDING_MAX));
        r2ts.reserve(slots.capacity());
        let mut link = Link::new(PduType::H2C_TERM_REQ);
        let maxr2t = u32::from(r2ts.per_slot()) - 1;
        link.greet(&IcReq { pfv: 0, hpda: config.hpda, digests: config.digests, maxr2t }.encode());
        Self {
            queue: VecDeque::with_capacity(slots.capacity()),
            r2ts,
            link,
            slots,
            config,
            stage: ReceiveStage::Header,
            arriving: Arriving::Nothing,
            max_h2c_data_bytes: MAX_H2C_DATA_BYTES_MIN,
        }
    }

    /// Changes how much data goes into the capsule of later commands, in bytes (16 × IOCCSZ − 64 of
    /// Identify Controller).
    pub fn set_in_capsule_bytes(&mut self, bytes: u32) {
        self.config.in_capsule_bytes = bytes;
    }

    /// Submits a command; its CID and SGL1 are filled in. Commands are sent in the order in which
    /// they were submitted.
    #[inline]
    pub fn submit(&mut self, sqe: Sqe, data: HostData) -> Result<Tag, SubmitError> {
        if self.link.phase == Phase::Closed {
            return Err(SubmitError::Closed);
        }
        let (direction, bytes) = match data {
            HostData::None | HostData::In(0) | HostData::Out(0) => (Direction::None, 0),
            HostData::In(bytes) => (Direction::In, bytes),
            HostData::Out(bytes) if bytes <= self.capsule_limit(&sqe) => {
                (Direction::Capsule, bytes)
            }
            HostData::Out(bytes) => (Direction::Out, bytes),
        };
        let (tag, slot) = self.slots.take().ok_or(SubmitError::Full)?;
        slot.direction = direction;
        slot.bytes = bytes;
        slot.sqe = sqe;
        slot.sqe.set_cid(slot.cid);
        slot.sqe.set_sgl(if direction == Direction::Capsule {
            Sgl::in_capsule(bytes)
        } else {
            Sgl::transport(bytes)
        });
        self.enqueue(tag);
        Ok(tag)
    }

    /// Data that may go into the capsule of a command.
    #[inline]
    fn capsule_limit(&self, sqe: &Sqe) -> u32 {
        let limit = if sqe.opcode() == OPCODE_FABRICS {
            FABRICS_CAPSULE_DATA_BYTES
        } else {
            self.config.in_capsule_bytes
        };
        limit.min(PDU_DATA_BYTES_MAX)
    }

    /// The identifier under which the controller knows a command, for Abort.
    pub fn cid(&self, tag: Tag) -> Option<Cid> {
        self.slots.peek(tag).filter(|slot| slot.state != CommandState::Free).map(|slot| slot.cid)
    }

    /// Returns whether no byte of a command can have reached the controller, as it was never part
    /// of a gather list.
    pub fn never_sent(&self, tag: Tag) -> bool {
        self.slots.peek(tag).is_some_and(|slot| slot.state == CommandState::Submitted)
    }

    /// Commands that were submitted and not released.
    pub fn outstanding(&self) -> usize {
        self.slots.in_use()
    }

    /// The pump has sent everything before a [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`. Gives the response that waited for this, if any.
    #[inline]
    pub fn sent(&mut self, tag: Tag) -> Option<TcpHostEvent> {
        let slot = self.slots.at(tag)?;
        slot.unsent = slot.unsent.saturating_sub(1);
        if slot.state == CommandState::Answered && slot.unsent == 0 {
            return Some(slot.answer(tag));
        }
        None
    }

    /// The layer above has handled the response of `tag`: its memory is free, and the tag may name
    /// another command.
    #[inline]
    pub fn release(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == CommandState::Done) {
            self.slots.release(tag);
        }
    }

    /// Returns the controller's tolerated deviations since the last call.
    #[inline]
    pub fn take_deviations(&mut self) -> Deviations {
        self.link.deviations.take()
    }

    /// Why this end closed the connection, if it did.
    pub fn violation(&self) -> Option<Violation> {
        self.link.violation()
    }

    /// Puts a command into the transmit queue, in which it is at most once.
    #[inline]
    fn enqueue(&mut self, tag: Tag) {
        let Some(slot) = self.slots.at(tag) else { return };
        if !slot.queued {
            slot.queued = true;
            debug_assert!(self.queue.len() < self.slots.capacity(), "the transmit queue grows");
            self.queue.push_back(tag);
        }
    }
}

impl StreamEngine for HostConnection {
    type Event = TcpHostEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::NvmeTcp, end: End::Host });

    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<TcpHostEvent>) {
        self.receive_steps(bytes)
    }

    fn payload_checked(&mut self, matches: bool) -> Option<TcpHostEvent> {
        self.settle(matches)
    }

    #[inline]
    fn payload_received(&mut self) -> Option<TcpHostEvent> {
        if self.stage == ReceiveStage::Digest { None } else { self.settle(true) }
    }

    #[inline]
    fn transmit(&mut self, out: &mut Transmit) {
        if self.link.transmit_urgent(out) {
            self.transmit_queue(out);
        }
    }

    #[inline]
    fn wants_transmit(&self) -> bool {
        self.link.is_urgent() || (self.link.phase == Phase::Open && !self.queue.is_empty())
    }

    /// The transport has no limits of its own at this end: those of commands, keep alive and the
    /// association are the host's ([`HostControl`](crate::nvme::host::HostControl)).
    fn tick(&mut self, _: Duration) {}

    fn deadline(&self) -> Option<Duration> {
        None
    }

    fn behind_payload(&self) -> Option<usize> {
        match self.stage {
            ReceiveStage::Header => Some(0),
            ReceiveStage::Digest => Some(digest::BYTES),
        }
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.link.phase == Phase::Closed
    }
}
