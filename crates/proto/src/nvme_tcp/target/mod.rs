//! The controller's end of an NVMe/TCP connection (NVMe TCP 1.1 §3.3).
//!
//! The life of a command, identified by its [`Tag`] from [`TcpTargetEvent::Command`] on:
//!
//! 1. The layer above checks it, and calls [`fetch`](TcpTargetConnection::fetch) if it needs data
//!    from the host. For data in the capsule it must do so before the next
//!    [`receive`](StreamEngine::receive), which otherwise discards the data. For data requested by
//!    R2T it may do so at any later time. A pump without memory therefore waits: it does not yet
//!    fetch data by R2T, and does not receive data in a capsule.
//! 2. The data arrives as [`Rx::Payload`] for the tag's memory, followed by
//!    [`TcpTargetEvent::DataArrived`] or, after a wrong data digest,
//!    [`TcpTargetEvent::DataFailed`].
//! 3. The layer above calls [`complete`](TcpTargetConnection::complete) with a completion and a
//!    number of bytes for the host. If this is not zero, the bytes must stay in the tag's memory
//!    until [`Part::Release`](crate::stream::Part::Release) was sent and
//!    [`sent`](TcpTargetConnection::sent) was called. If it is zero, the memory is free at once,
//!    there is no `Release`, and the tag may be reused for another command after the next
//!    `transmit`.
//!
//! Commands that end without a response, for example at a controller reset, are ended by
//! [`abandon`](TcpTargetConnection::abandon) or
//! [`drop_pending`](TcpTargetConnection::drop_pending).

mod receive;
mod receive_stage;
mod slot;
mod transmit;

use crate::capture::{End, Protocol, Role};
use core::time::Duration;
use std::collections::VecDeque;

use self::receive_stage::{Arriving, ReceiveStage};
use self::slot::{CommandSlot, CommandState, Window};
use super::digest::{self, Digests};
use super::link::{Link, Negotiated, PDU_DATA_BYTES_MAX, Phase, Receiver};
use super::pdu::{ALIGNMENT_MAX, FABRICS_CAPSULE_DATA_BYTES, MAX_H2C_DATA_BYTES_MIN, PduType};
use super::term::Termination;
use super::violation::Violation;
use crate::limits::{
    C2H_DATA_MAX_BYTES, H2C_DATA_MAX_BYTES, HANDSHAKE_S, QUEUE_ENTRIES_MAX, R2T_MAX_BYTES,
    R2T_OUTSTANDING_MAX, TRANSFER_MAX_BYTES,
};
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviations;
use crate::nvme::sqe::{Sgl, Sqe};
use crate::nvme::status::Status;
use crate::slab::{Entries, Slab};
use crate::stream::{Rx, StartLimit, StreamEngine, Tag, Transmit};

/// Configuration of a [`TcpTargetConnection`]. Values out of range are brought into it.
#[derive(Clone, Copy, Debug)]
pub struct TcpTargetConfig {
    /// Digests that a host may have.
    pub digests: Digests,
    /// Data that I/O commands may carry in their capsule, in bytes: 16 × IOCCSZ − 64. Fabrics and
    /// Admin commands may always carry [`FABRICS_CAPSULE_DATA_BYTES`]; more than the larger of the
    /// two ends the connection.
    pub in_capsule_bytes: u32,
    /// MAXH2CDATA, a multiple of 4 from [`MAX_H2C_DATA_BYTES_MIN`] on.
    pub max_h2c_data_bytes: u32,
    /// Data bytes in one C2HData PDU, at most; a multiple of 4.
    pub max_c2h_data_bytes: u32,
    /// Bytes asked for with one R2T, at most; a multiple of 4.
    pub max_r2t_bytes: u32,
    /// R2Ts outstanding per command, at most [`R2T_OUTSTANDING_MAX`] and what the host allows.
    pub r2t_outstanding: u8,
    /// CPDA, 0 to [`ALIGNMENT_MAX`]; Linux hosts insist on 0.
    pub cpda: u8,
    /// Data of one command, in bytes (MDTS).
    pub max_data_bytes: u32,
    /// Commands outstanding before [`TcpTargetConnection::set_queue_entries`]; 1 suffices for
    /// Connect.
    pub queue_entries: u16,
    /// From the first tick until the layer above accepts a Connect, which it says by
    /// [`TcpTargetConnection::set_queue_entries`]. Slower hosts lose their connection.
    pub connect_limit: Duration,
}

impl Default for TcpTargetConfig {
    fn default() -> Self {
        Self {
            digests: Digests::BOTH,
            in_capsule_bytes: FABRICS_CAPSULE_DATA_BYTES,
            max_h2c_data_bytes: H2C_DATA_MAX_BYTES,
            max_c2h_data_bytes: C2H_DATA_MAX_BYTES,
            max_r2t_bytes: R2T_MAX_BYTES,
            r2t_outstanding: 1,
            cpda: 0,
            max_data_bytes: TRANSFER_MAX_BYTES,
            queue_entries: 1,
            connect_limit: Duration::from_secs(HANDSHAKE_S),
        }
    }
}

/// Events for the layer above a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpTargetEvent {
    /// The host initialized the connection.
    Ready(Negotiated),
    /// A command. Its capsule carries `in_capsule_bytes` of data, which the next `receive` discards
    /// unless [`TcpTargetConnection::fetch`] is called before.
    Command {
        /// Names the command from now on; the command itself is [`TcpTargetConnection::sqe`].
        tag: Tag,
        /// Bytes of data in the capsule.
        in_capsule_bytes: u32,
    },
    /// All data that was fetched is in the tag's memory.
    DataArrived {
        /// Its tag.
        tag: Tag,
    },
    /// A data digest was wrong: the command must fail with Transient Transport Error. No more of
    /// its data will arrive.
    DataFailed {
        /// Its tag.
        tag: Tag,
    },
    /// The memory of a command that was given up while data arrived is no longer written to.
    Dropped {
        /// Its tag, which no longer names a command.
        tag: Tag,
    },
    /// The host ended the connection with H2CTermReq. `Closed` comes next.
    Terminated(Termination),
}

/// The controller's end of a connection.
pub struct TcpTargetConnection {
    config: TcpTargetConfig,
    link: Link,
    slots: Slab<CommandSlot>,
    windows: Entries<Window>,
    /// The command that was received last.
    sqe: Sqe,
    /// Commands with something to send.
    queue: VecDeque<Tag>,
    /// Entries that were taken from it.
    taken: u64,
    stage: ReceiveStage,
    arriving: Arriving,
    /// Commands that are fetching.
    fetching: u16,
    /// R2Ts outstanding per command as both ends allow it.
    max_r2t: u8,
    success_flag: bool,
    /// For the host's Connect, until one is accepted.
    start: Option<StartLimit>,
}

impl TcpTargetConnection {
    /// A connection on which nothing was received yet.
    pub fn new(config: TcpTargetConfig) -> Self {
        let config = TcpTargetConfig {
            max_h2c_data_bytes: (config.max_h2c_data_bytes & !3).max(MAX_H2C_DATA_BYTES_MIN),
            max_c2h_data_bytes: (config.max_c2h_data_bytes & !3).clamp(4, PDU_DATA_BYTES_MAX),
            max_r2t_bytes: (config.max_r2t_bytes & !3).max(4),
            cpda: config.cpda.min(ALIGNMENT_MAX),
            ..config
        };
        let mut target = Self {
            queue: VecDeque::new(),
            taken: 0,
            fetching: 0,
            max_r2t: 1,
            start: Some(StartLimit::new(config.connect_limit)),
            sqe: Sqe([0; 64]),
            slots: Slab::new(1),
            windows: Entries::new(config.r2t_outstanding.min(R2T_OUTSTANDING_MAX)),
            config,
            link: Link::new(PduType::C2H_TERM_REQ),
            stage: ReceiveStage::Header,
            arriving: Arriving::Nothing,
            success_flag: false,
        };
        target.make_room(config.queue_entries);
        target
    }

    /// Makes room for the commands of a queue of `entries` (after Connect); at most
    /// [`QUEUE_ENTRIES_MAX`], and never fewer than before.
    pub fn set_queue_entries(&mut self, entries: u16) {
        self.start = None;
        self.make_room(entries);
    }

    fn make_room(&mut self, entries: u16) {
        self.slots.grow(entries.min(QUEUE_ENTRIES_MAX));
        self.windows.reserve(self.slots.capacity());
        self.queue.reserve_exact(self.slots.capacity() - self.queue.len());
    }

    /// Sets whether a command that succeeds without a result ends with its last C2HData PDU instead
    /// of a response capsule (SUCCESS, §3.3.2.1). At first it does not. SUCCESS reports no
    /// submission queue head, so it is only for a host that has disabled submission queue flow
    /// control in Connect: one that counts by SQHD would stall.
    pub fn set_success_flag(&mut self, on: bool) {
        self.success_flag = on;
    }

    /// Asks for the first `bytes` (more than zero) of the host's data of a command that was not
    /// fetched yet. Errors are the status to complete the command with: its SGL describes something
    /// else.
    pub fn fetch(&mut self, tag: Tag, bytes: u32) -> Result<(), Status> {
        let max = self.config.max_data_bytes;
        let Some(slot) = self.slots.at(tag).filter(|slot| slot.state == CommandState::Held) else {
            return Err(Status::INTERNAL_ERROR);
        };
        if bytes == 0 || bytes > max {
            return Err(Status::INVALID_FIELD);
        }
        match slot.sgl.identifier {
            Sgl::IN_CAPSULE => self.stage.fetch(tag, slot.sgl, bytes)?,
            _ if bytes > slot.sgl.length => return Err(Status::DATA_SGL_LENGTH_INVALID),
            _ => {}
        }
        slot.state = CommandState::Fetching;
        self.fetching += 1;
        slot.wanted = bytes;
        slot.asked = 0;
        slot.received = 0;
        if slot.sgl.identifier != Sgl::IN_CAPSULE {
            self.enqueue(tag);
        }
        Ok(())
    }

    /// Throws the data in the capsule of a command away. To be called, if at all, before the next
    /// `receive`.
    pub fn ignore_data(&mut self, tag: Tag) {
        self.stage.ignore(tag);
    }

    /// Answers a command with the first `data_bytes` of its memory and `cqe`. No more is sent than
    /// the command's SGL describes. Not to be called between a fetch and the end of its data.
    #[inline]
    pub fn complete(&mut self, tag: Tag, cqe: Cqe, data_bytes: u32) {
        let Some(slot) = self.slots.at(tag) else { return };
        debug_assert_eq!(
            slot.state,
            CommandState::Held,
            "complete() of a command that the layer above does not hold"
        );
        if slot.state != CommandState::Held {
            return;
        }
        slot.state = CommandState::Completing;
        slot.cqe = cqe;
        slot.data_bytes = data_bytes.min(slot.sgl.length);
        slot.data_sent = 0;
        self.enqueue(tag);
    }

    /// Returns the command of the last [`TcpTargetEvent::Command`]. It stays until the next call of
    /// `receive`; events are small, so that they travel in registers.
    #[inline]
    pub fn sqe(&self) -> &Sqe {
        &self.sqe
    }

    /// Returns whether the data of commands comes with a digest, which must be checked before
    /// anything else happens to the data.
    #[inline]
    pub fn has_data_digest(&self) -> bool {
        self.link.format.has_data_digest()
    }

    /// The pump has sent everything before the [`Part::Release`](crate::stream::Part::Release) of
    /// `tag`: its memory is free, and the tag may name another command.
    #[inline]
    pub fn sent(&mut self, tag: Tag) {
        if self.slots.at(tag).is_some_and(|slot| slot.state == CommandState::Sending) {
            self.slots.give_back(tag);
        }
    }

    /// Abandons a command without a response, whether it waits for data or not. Returns whether its
    /// memory is free at once; otherwise data is just arriving in it, and
    /// [`TcpTargetEvent::Dropped`] reports the end of that. Data that arrives later is discarded.
    /// Completed commands are not affected.
    pub fn abandon(&mut self, tag: Tag) -> bool {
        let arriving = self.arriving.is_for(tag);
        let Some(slot) = self.slots.at(tag) else { return true };
        self.fetching -= u16::from(slot.state == CommandState::Fetching);
        match slot.state {
            CommandState::Held => self.slots.give_back(tag),
            CommandState::Fetching if arriving => {
                slot.state = CommandState::Draining;
                slot.owes_event = true;
                return false;
            }
            CommandState::Fetching if slot.windows_open > 0 => {
                slot.state = CommandState::Draining;
                slot.owes_event = false;
            }
            CommandState::Fetching => self.slots.give_back(tag),
            _ => return true,
        }
        self.stage.ignore(tag);
        true
    }

    /// Gives up all commands whose data is awaited, for a controller that is reset or disabled.
    /// `dropped` learns of those whose memory is free at once; see [`Self::abandon`].
    pub fn drop_pending(&mut self, mut dropped: impl FnMut(Tag)) {
        for tag in self.slots.tags() {
            if self.slots.at(tag).is_some_and(|slot| slot.state == CommandState::Fetching)
                && self.abandon(tag)
            {
                dropped(tag);
            }
        }
    }

    /// Returns the value of [`StreamEngine::taken`] once everything that is queued now has been
    /// taken.
    pub fn queued(&self) -> u64 {
        self.taken + self.queue.len() as u64
    }

    /// Returns the host's tolerated deviations since the last call.
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

impl StreamEngine for TcpTargetConnection {
    type Event = TcpTargetEvent;

    const ROLE: Option<Role> = Some(Role { protocol: Protocol::NvmeTcp, end: End::Target });

    fn receive(&mut self, bytes: &[u8]) -> (usize, Rx<TcpTargetEvent>) {
        self.receive_steps(bytes)
    }

    fn payload_checked(&mut self, matches: bool) -> Option<TcpTargetEvent> {
        self.settle(matches)
    }

    fn payload_received(&mut self) -> Option<TcpTargetEvent> {
        if self.stage == ReceiveStage::Digest { None } else { self.settle(true) }
    }

    fn transmit(&mut self, out: &mut Transmit) {
        if self.link.transmit_urgent(out) {
            self.transmit_queue(out);
        }
    }

    fn wants_transmit(&self) -> bool {
        self.link.is_urgent() || (self.link.phase == Phase::Open && !self.queue.is_empty())
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    #[inline]
    fn tick(&mut self, now: Duration) {
        if let Some(start) = &mut self.start
            && self.link.phase != Phase::Closed
            && start.has_passed(now)
        {
            self.link.give_up(Violation::ConnectLate(start.limit()));
        }
    }

    #[inline]
    fn deadline(&self) -> Option<Duration> {
        self.start.filter(|_| !self.is_closed()).map(|start| start.deadline())
    }

    #[inline]
    fn awaits_data(&self) -> bool {
        self.fetching > 0
    }

    fn behind_payload(&self) -> Option<usize> {
        match self.stage {
            ReceiveStage::Header => Some(0),
            ReceiveStage::Digest => Some(digest::BYTES),
            ReceiveStage::Capsule { .. } => None,
        }
    }

    #[inline]
    fn is_closed(&self) -> bool {
        self.link.phase == Phase::Closed
    }
}
