//! The command layer of one I/O queue: from a submission queue entry to operations on devices and
//! back to a completion.
//!
//! A queue lives on the loop of its connection and shares nothing with others per command. The pump
//! calls [`IoQueue::start`] for each command, [`IoQueue::data`] when data that was asked for is
//! there, and [`IoQueue::finished`] when the device is done; it does what the returned [`IoNext`]
//! says, and asks for [`IoQueue::orphan`] behind each call.

mod completion;
mod copying;
mod fused;
pub(in crate::nvme::controller) mod reservation;
mod steps;

use std::sync::Arc;

use super::super::fault::Fault;
use super::super::link::Link;
use super::super::namespace::NamespaceMap;
use super::super::revocation::revocation;
use super::super::statistics::IoStatistics;
use super::command::{Command, Context, IoRequest, IoRequestKind};
use super::conflict_check::ConflictCheck;
use super::copy_work::CopyWork;
use super::next::{AbortTarget, DeviceOutcome, Half, IoNext};
use super::slot::{CommandStage, IDLE, IoSlot, Pending, Role};
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviations;
use crate::nvme::sqe::{Fuse, HostMemory, Sqe};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Cntlid, Qid};
use crate::reservation::{Effect, ReservationRequest};
use crate::stream::Tag;

/// One I/O queue of a controller.
#[derive(Debug)]
pub struct IoQueue {
    qid: Qid,
    host_memory: HostMemory,
    link: Arc<Link>,
    namespaces: Arc<NamespaceMap>,
    transfer_bytes_max: u32,
    entries: u32,
    flow_control: bool,
    pub(in crate::nvme::controller) started: u32,
    /// Somebody looks at messages of authentications.
    pub(in crate::nvme::controller) authenticates: bool,
    slots: Vec<IoSlot>,
    pending: Pending,
    orphan: Option<(Tag, Cqe)>,
    /// Copy commands whose ranges have come, by their tags.
    copies: Vec<Option<Box<CopyWork>>>,
    conflicts: ConflictCheck,
    operation: Option<ReservationRequest>,
    pub(in crate::nvme::controller) deviations: Deviations,
    statistics: IoStatistics,
    uncounted: u64,
}

impl IoQueue {
    /// A queue of `entries` entries. Its memory is reserved here; parts that were never used stay
    /// untouched.
    pub(in crate::nvme::controller) fn new(
        qid: Qid,
        link: Arc<Link>,
        namespaces: Arc<NamespaceMap>,
        transfer_bytes_max: u32,
        entries: u32,
        flow_control: bool,
    ) -> Self {
        Self {
            qid,
            host_memory: link.host_memory,
            conflicts: ConflictCheck::new(link.host),
            operation: None,
            link,
            namespaces,
            transfer_bytes_max,
            entries,
            flow_control,
            started: 1,
            authenticates: false,
            slots: Vec::with_capacity(entries as usize),
            pending: Pending::None,
            copies: Vec::new(),
            orphan: None,
            deviations: Deviations::default(),
            statistics: IoStatistics::default(),
            uncounted: 0,
        }
    }

    /// Identifier of the queue.
    pub fn qid(&self) -> Qid {
        self.qid
    }

    /// The controller that the queue belongs to.
    pub fn cntlid(&self) -> Cntlid {
        self.link.cntlid
    }

    /// Entries of the queue: tags go from 0 to one less, and no more commands may be outstanding.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns whether the host learns from completions how far its submission queue has been used
    /// up (Base §6.3, CATTR).
    pub fn has_flow_control(&self) -> bool {
        self.flow_control
    }

    /// Returns the tolerated deviations in the host's Connect since the last call.
    #[inline]
    pub fn take_deviations(&mut self) -> Deviations {
        self.deviations.take()
    }

    /// Takes the host's new table of namespaces. Requests that are with a device already are
    /// finished as they are; commands whose namespace is gone, another one or too small for them
    /// are revoked: see [`Self::revoked`].
    pub fn set_namespaces(&mut self, namespaces: Arc<NamespaceMap>) {
        let before = std::mem::replace(&mut self.namespaces, namespaces);
        self.conflicts.forget();
        let slots = self.slots.iter_mut().enumerate();
        for (tag, slot) in slots.filter(|(_, slot)| slot.stage != CommandStage::Idle) {
            let copy = self.copies.get(tag).and_then(Option::as_deref);
            slot.doom = slot.doom.or_else(|| match copy.filter(|_| slot.role == Role::Copy) {
                Some(copy) => copy.revocation(slot.nsid, &before, &self.namespaces),
                None => {
                    let place = (slot.request.lba, slot.request.blocks);
                    revocation(slot.nsid, place, &before, &self.namespaces)
                }
            });
        }
    }

    /// Returns the status of a command that must no longer reach a device: call [`Self::finished`]
    /// with it for a request that no device has taken yet. A command whose data is awaited ends by
    /// itself when the data has come.
    #[inline]
    pub fn revoked(&self, tag: Tag) -> Option<Status> {
        self.slots.get(tag.index()).filter(|slot| slot.stage != CommandStage::Idle)?.doom
    }

    /// The table of namespaces in use.
    pub fn namespaces(&self) -> &NamespaceMap {
        &self.namespaces
    }

    /// A command has arrived. `tag` is free and below [`Self::entries`]; `in_capsule_bytes` is how
    /// much data came with the command.
    #[inline]
    pub fn start(&mut self, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> IoNext {
        self.started = self.started.wrapping_add(1);
        if sqe.fuse() != Fuse::Normal || self.pending != Pending::None {
            return self.start_fused(tag, sqe, in_capsule_bytes);
        }
        self.start_alone(tag, sqe, in_capsule_bytes)
    }

    /// Host data that [`IoNext::Fetch`] asked for is in the memory of `tag`, which `data` shows.
    /// Only Dataset Management, Copy and reservations look at it; for other commands `data` may be
    /// empty.
    #[inline]
    pub fn data(&mut self, tag: Tag, data: &[u8]) -> IoNext {
        let Some(slot) =
            self.slots.get_mut(tag.index()).filter(|slot| slot.stage == CommandStage::Fetching)
        else {
            return IoNext::Hold;
        };
        if let Some(status) = slot.doom {
            self.fail_partner(tag);
            return self.reply(tag, DeviceOutcome::failed(status));
        }
        match slot.role {
            Role::Alone | Role::Everywhere { .. } => {
                if is_kept_out(&self.conflicts, &self.namespaces, &slot.request) {
                    return self.reply(tag, DeviceOutcome::RESERVATION_CONFLICT);
                }
                slot.stage = CommandStage::Device;
                IoNext::Submit(slot.request)
            }
            Role::Reserve(reserve) => self.reserve(tag, reserve, data),
            Role::Copy => self.start_copying(tag, data),
            Role::Report => IoNext::Hold,
            Role::Ranges { count, .. }
                if !is_kept_out(&self.conflicts, &self.namespaces, &slot.request) =>
            {
                self.start_ranges(tag, count, data)
            }
            Role::Ranges { .. } => self.reply(tag, DeviceOutcome::RESERVATION_CONFLICT),
            Role::First { .. } | Role::Second { .. } => self.fused_data(tag),
        }
    }

    /// The request of `tag` if it is a plain Write whose data is being fetched and that has not
    /// been given up: whoever takes memory for the data may choose it by that.
    #[inline]
    pub fn plain_write(&self, tag: Tag) -> Option<&IoRequest> {
        let slot = self
            .slots
            .get(tag.index())
            .filter(|slot| slot.stage == CommandStage::Fetching && slot.role == Role::Alone)?;
        let is_stored = slot.request.kind == IoRequestKind::Write && slot.doom.is_none();
        is_stored.then_some(&slot.request)
    }

    /// Returns the request of `tag` if the device may store its data as it arrives: the command is
    /// a [plain Write](Self::plain_write), and no reservation forbids it now. [`Self::stored`] then
    /// takes the place of [`Self::data`].
    #[inline]
    pub fn destination(&self, tag: Tag) -> Option<&IoRequest> {
        self.plain_write(tag)
            .filter(|request| !is_kept_out(&self.conflicts, &self.namespaces, request))
    }

    /// The device has stored the data of `tag` at its [destination](Self::destination), or failed
    /// to.
    #[inline]
    pub fn stored(&mut self, tag: Tag, outcome: DeviceOutcome) -> IoNext {
        match self.slots.get(tag.index()) {
            Some(slot) if slot.stage == CommandStage::Fetching && slot.role == Role::Alone => {
                self.reply(tag, outcome)
            }
            _ => IoNext::Hold,
        }
    }

    /// The data that [`IoNext::Fetch`] asked for will not come, or is damaged: the command fails
    /// with `status`, for a wrong data digest [`Status::TRANSIENT_TRANSPORT_ERROR`].
    pub fn data_failed(&mut self, tag: Tag, status: Status) -> IoNext {
        match self.slots.get(tag.index()) {
            Some(slot) if slot.stage == CommandStage::Fetching => {
                let status = slot.doom.unwrap_or(status);
                self.fail_partner(tag);
                self.reply(tag, DeviceOutcome::failed(status))
            }
            _ => IoNext::Hold,
        }
    }

    /// The device is done with the request of `tag`. `data` shows the tag's memory again, for
    /// Dataset Management; it may be empty for other commands.
    #[inline]
    pub fn finished(&mut self, tag: Tag, outcome: DeviceOutcome, data: &[u8]) -> IoNext {
        let Some(slot) =
            self.slots.get(tag.index()).filter(|slot| slot.stage == CommandStage::Device)
        else {
            return IoNext::Hold;
        };
        match slot.role {
            Role::Alone => self.reply(tag, outcome),
            Role::Second { first } => self.finish_pair(first, tag, outcome),
            _ if !outcome.status.is_success() => self.reply(tag, outcome),
            Role::Ranges { count, next } => match slot.doom {
                Some(status) => self.reply(tag, DeviceOutcome::failed(status)),
                None if is_kept_out(&self.conflicts, &self.namespaces, &slot.request) => {
                    self.reply(tag, DeviceOutcome::RESERVATION_CONFLICT)
                }
                None => self.next_range(tag, count, next, data),
            },
            Role::Everywhere { next } => self.next_flush(tag, next),
            Role::Copy => self.copied(tag),
            // The request of a pair carries the second command's tag.
            Role::First { .. } | Role::Reserve(_) | Role::Report => IoNext::Hold,
        }
    }

    /// A command that was completed by the last call although that was about another one: the first
    /// of a fused operation whose second did not follow, or an aborted one. At most one per call.
    #[inline]
    pub fn orphan(&mut self) -> Option<(Tag, Cqe)> {
        self.orphan.take()
    }

    /// The host wants the command `cid` aborted. Base §5.1: this is best effort.
    pub fn abort(&mut self, cid: Cid) -> AbortTarget {
        let found =
            self.slots.iter().position(|slot| slot.stage != CommandStage::Idle && slot.cid == cid);
        let Some(tag) = found.map(|index| Tag(index as u16)) else {
            return AbortTarget::Unknown;
        };
        let slot = &mut self.slots[tag.index()];
        match (slot.stage, slot.role) {
            (CommandStage::Device, Role::First { second: Some(second) }) => {
                return AbortTarget::InDevice(second);
            }
            (CommandStage::Device, Role::Copy) => {
                // No further piece of it is copied.
                slot.doom = slot.doom.or(Some(Status::ABORT_REQUESTED));
                return AbortTarget::InDevice(tag);
            }
            (CommandStage::Device, _) => return AbortTarget::InDevice(tag),
            _ => {}
        }
        self.fail_partner(tag);
        self.give_up(tag, Status::ABORT_REQUESTED);
        match self.slots[tag.index()].stage {
            CommandStage::Idle => AbortTarget::Aborted,
            _ => AbortTarget::Doomed(tag),
        }
    }

    /// Which half of a fused operation a command is, if it is one. Either is no longer than what
    /// the device compares and writes at once.
    #[inline]
    pub fn half(&self, tag: Tag) -> Option<Half> {
        match self.slots.get(tag.index())?.role {
            Role::First { .. } => Some(Half::First),
            Role::Second { first } => Some(Half::Second { first }),
            _ => None,
        }
    }

    /// Commands that are not completed yet.
    pub fn outstanding(&self) -> usize {
        self.slots.iter().filter(|slot| slot.stage != CommandStage::Idle).count()
    }

    #[inline]
    pub(super) fn parse(
        &self,
        tag: Tag,
        sqe: &Sqe,
        in_capsule_bytes: u32,
    ) -> Result<Command, Fault> {
        if tag.0 as u32 >= self.entries {
            return Err(Fault::new(Status::INTERNAL_ERROR));
        }
        let context = Context {
            namespaces: &self.namespaces,
            transfer_bytes_max: self.transfer_bytes_max,
            in_capsule_bytes,
            host_memory: self.host_memory,
            conflicts: &self.conflicts,
            link: &self.link,
        };
        context.parse(tag, sqe)
    }

    #[inline]
    pub(super) fn start_alone(&mut self, tag: Tag, sqe: &Sqe, in_capsule_bytes: u32) -> IoNext {
        match self.parse(tag, sqe, in_capsule_bytes) {
            Ok(Command::Submit(request)) => {
                self.occupy(tag, sqe, CommandStage::Device, Role::Alone, request);
                IoNext::Submit(request)
            }
            Ok(Command::Fetch(request)) => {
                self.occupy(tag, sqe, CommandStage::Fetching, Role::Alone, request);
                IoNext::Fetch { bytes: request.bytes }
            }
            rare => self.start_rare(tag, sqe, rare),
        }
    }

    #[inline]
    pub(super) fn occupy(
        &mut self,
        tag: Tag,
        sqe: &Sqe,
        stage: CommandStage,
        role: Role,
        request: IoRequest,
    ) {
        if tag.index() >= self.slots.len() {
            // Within the capacity: parse has checked the tag.
            self.slots.resize(tag.index() + 1, IDLE);
        }
        let slot = &mut self.slots[tag.index()];
        *slot = IoSlot {
            cid: sqe.cid(),
            opcode: sqe.opcode(),
            stage,
            role,
            doom: None,
            nsid: sqe.nsid(),
            request,
        };
    }
}

impl Drop for IoQueue {
    fn drop(&mut self) {
        self.merge_statistics();
    }
}

/// Returns whether a reservation made after the command's arrival keeps the host out: its data is
/// then not stored.
#[inline]
pub(super) fn is_kept_out(
    conflicts: &ConflictCheck,
    namespaces: &NamespaceMap,
    request: &IoRequest,
) -> bool {
    let effect =
        if request.kind == IoRequestKind::Compare { Effect::Reads } else { Effect::Writes };
    let namespace = namespaces.at(request.namespace);
    namespace.is_some_and(|namespace| !conflicts.allows(request.namespace, namespace, effect))
}
