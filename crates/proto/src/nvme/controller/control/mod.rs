//! The control value of one controller: it executes the commands of the admin queue and lives with
//! that queue's connection.
//!
//! The pump calls [`ControllerCore::start`] for each command and does what the returned [`Next`]
//! says. Behind each call, and when [`ControllerCore::deadline`] passes, it takes events from
//! [`ControllerCore::poll`] until there are none.

mod admin;
pub(super) mod cross_reset;
mod host_behavior;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::access::AnaLog;
use super::admin::cross_reset_log::CrossResetLog;
use super::admin::event::{AbortTicket, ControlEvent, Next, ReservationTicket};
use super::admin::events::Events;
use super::admin::features::Features;
use super::admin::keep_alive::{KeepAlive, Watch};
use super::admin::notices::Notices;
use super::admin::registers::Registers;
use super::admin::slot::{AdminSlot, AdminStage};
use super::admin::support::ControllerKind;
use super::admin::{events, features};
use super::discovery::DiscoveryLog;
use super::identity::{HostIdentity, Identity};
use super::io::queue::reservation::feature_status;
use super::link::Link;
use super::namespace::NamespaceMap;
use crate::nvme::controller::admin::event::QueueTicket;
use crate::nvme::controller::admin::features::queue_counts;
use crate::nvme::controller::fault::Fault;
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::Deviations;
use crate::nvme::feature::{AsyncEvent, AsyncEventBits, AsyncEventType, AsyncNotice};
use crate::nvme::log_page::LogPageId;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Cntlid, Nsid};
use crate::reservation::{Action, Notice, Registrant, ReservationRefusal, ReservationRequest};
use crate::stream::Tag;

/// One controller.
#[derive(Debug)]
pub struct ControllerCore {
    link: Arc<Link>,
    identity: Identity,
    namespaces: Arc<NamespaceMap>,
    discovery: Arc<DiscoveryLog>,
    registers: Registers,
    features: Features,
    events: Events,
    pub(super) keep_alive: KeepAlive,
    /// When the subsystem was made: SMART counts its hours.
    since: Duration,
    changed: BTreeSet<Nsid>,
    ana: AnaLog,
    cross_resets: CrossResetLog,
    notices: Notices,
    slots: Vec<AdminSlot>,
    /// The number of the last ticket.
    tickets: u32,
    deviations: Deviations,
    out: VecDeque<ControlEvent>,
    entries: u32,
    flow_control: bool,
    pub(super) started: u32,
    /// See [`ControllerCore::await_tls`].
    pub(super) awaits_tls: bool,
}

/// The subsystem's data for a new controller.
pub(super) struct NewController {
    pub link: Arc<Link>,
    pub identity: Identity,
    pub namespaces: Arc<NamespaceMap>,
    pub discovery: Arc<DiscoveryLog>,
    pub since: Duration,
    pub entries: u32,
    pub flow_control: bool,
    pub keep_alive_ms: u32,
    pub deviations: Deviations,
}

impl ControllerCore {
    pub(super) fn new(now: Duration, new: NewController) -> Self {
        let config = &new.identity.config;
        let mut events = Events::default();
        events.enable(features::event_bits(config.kind));
        Self {
            registers: Registers::new(config.kind, config.queue_entries),
            features: Features::new(new.keep_alive_ms),
            events,
            keep_alive: KeepAlive::new(now),
            link: new.link,
            identity: new.identity,
            discovery: new.discovery,
            since: new.since,
            changed: BTreeSet::new(),
            ana: AnaLog::new(&new.namespaces),
            cross_resets: CrossResetLog::default(),
            namespaces: new.namespaces,
            notices: Notices::default(),
            slots: Vec::with_capacity(new.entries as usize),
            tickets: 0,
            deviations: new.deviations,
            out: VecDeque::new(),
            entries: new.entries,
            flow_control: new.flow_control,
            started: 1,
            awaits_tls: false,
        }
    }

    /// Identifier of the controller.
    pub fn cntlid(&self) -> Cntlid {
        self.identity.cntlid
    }

    /// The host of the association.
    pub fn host(&self) -> &HostIdentity {
        &self.identity.host
    }

    /// Entries of the admin queue: tags go from 0 to one less.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns whether the host has enabled the controller and neither reset nor shut it down
    /// since.
    pub fn operational(&self) -> bool {
        self.registers.operational()
    }

    /// Returns the host's tolerated deviations since the last call.
    #[inline]
    pub fn take_deviations(&mut self) -> Deviations {
        self.deviations.take()
    }

    /// A command without data in its capsule has arrived. `tag` is free and below
    /// [`Self::entries`].
    pub fn start(&mut self, now: Duration, tag: Tag, sqe: &Sqe) -> Next {
        self.start_with(now, tag, sqe, 0)
    }

    /// A command has arrived, with `in_capsule_bytes` of data in its capsule.
    pub fn start_with(&mut self, now: Duration, tag: Tag, sqe: &Sqe, in_capsule: u32) -> Next {
        self.started = self.started.wrapping_add(1);
        self.keep_alive.command(now);
        self.execute(now, tag, sqe, in_capsule)
    }

    /// Writes the data that [`Next::Produce`] announced into `out`, which has as many bytes.
    pub fn produce(&mut self, now: Duration, tag: Tag, out: &mut [u8]) -> Next {
        let Some(slot) = self.slots.get_mut(tag.index()) else { return Next::Hold };
        let AdminStage::Produce(production) = slot.stage else { return Next::Hold };
        slot.stage = AdminStage::Idle;
        let cqe = Cqe::new(slot.cid, Status::SUCCESS);
        self.fill(now, production, out);
        Next::Reply { cqe: self.stamp(cqe), data_bytes: out.len() as u32 }
    }

    /// The next thing to do for the owner. The order counts.
    pub fn poll(&mut self, now: Duration) -> Option<ControlEvent> {
        if self.keep_alive.expire(now, self.watch()) {
            self.registers.set_fatal();
            self.link.set_accepts_queues(false);
            self.out.push_back(ControlEvent::KeepAliveExpired);
        }
        self.out.pop_front()
    }

    /// When to call [`Self::poll`] at the latest, if nothing else happens.
    pub fn deadline(&self) -> Option<Duration> {
        self.keep_alive.deadline(self.watch())
    }

    /// The answer to [`ControlEvent::Quiesce`]: only now the host sees the reset or the shutdown
    /// done.
    pub fn quiesced(&mut self, now: Duration) {
        self.keep_alive.command(now);
        self.registers.quiesced();
    }

    /// The answer to [`ControlEvent::Abort`]: whether the command was or will be completed as
    /// aborted.
    pub fn abort_result(&mut self, ticket: AbortTicket, aborted: bool) {
        let found = self.slots.iter().position(|slot| slot.stage == AdminStage::Abort(ticket));
        if let Some(index) = found {
            let mut cqe = Cqe::new(self.slots[index].cid, Status::SUCCESS);
            cqe.result = u64::from(!aborted);
            self.complete(Tag(index as u16), cqe);
        }
    }

    /// The namespaces of the subsystem have changed: notifies the host, if it enabled that event.
    pub fn namespaces_changed(&mut self, namespaces: Arc<NamespaceMap>) {
        let changed = self.namespaces.difference(&namespaces);
        let access_changed = self.ana.follow(&namespaces);
        self.namespaces = namespaces;
        // A host that enables the controller later looks at everything anyway.
        if !self.registers.operational() {
            return;
        }
        if !changed.is_empty() {
            self.changed.extend(changed);
            let notice = AsyncNotice::NAMESPACE_ATTRIBUTE_CHANGED;
            self.raise(AsyncEventBits::NAMESPACE_ATTRIBUTE, notice, LogPageId::CHANGED_NAMESPACES);
        }
        if access_changed {
            self.raise(AsyncEventBits::ANA_CHANGE, AsyncNotice::ANA_CHANGE, LogPageId::ANA);
        }
    }

    /// The discovery log has changed: notifies the host, if it is affected and enabled that event.
    pub fn discovery_changed(&mut self, discovery: Arc<DiscoveryLog>) {
        let concerned = discovery.differs(
            &self.discovery,
            self.identity.host.nqn.as_ref(),
            &self.identity.port,
        );
        self.discovery = discovery;
        if concerned && self.registers.operational() {
            self.raise(
                AsyncEventBits::DISCOVERY_LOG_CHANGE,
                AsyncNotice::DISCOVERY_LOG_CHANGE,
                LogPageId::DISCOVERY,
            );
        }
    }

    /// The reservations of a namespace have changed: notifies the host, unless it has masked that.
    pub fn reservation_changed(&mut self, nsid: Nsid, notice: Notice) {
        let is_seen = self.namespaces.find(nsid).is_some() && self.registers.operational();
        if is_seen && self.notices.add(nsid, notice, self.features.notification_mask(nsid)) {
            let log_page = LogPageId::RESERVATION_NOTIFICATION;
            // Information 0: Reservation Log Page Available.
            self.raise_event(
                events::RESERVATION,
                AsyncEvent { kind: AsyncEventType::COMMAND_SET, information: 0, log_page },
            );
        }
    }

    /// The operation of [`ControlEvent::Persist`].
    pub fn persistence(&self, persist: bool) -> ReservationRequest {
        ReservationRequest {
            by: Registrant::Host(self.identity.host.id),
            action: Action::Persist,
            persist: Some(persist),
        }
    }

    /// The answer to [`ControlEvent::Persist`].
    pub fn persisted(
        &mut self,
        ticket: ReservationTicket,
        outcome: Result<(), ReservationRefusal>,
    ) {
        let is_meant = |stage: AdminStage| matches!(stage, AdminStage::Persist { ticket: of, .. } if of == ticket);
        let Some(index) = self.slots.iter().position(|slot| is_meant(slot.stage)) else { return };
        let AdminSlot { cid, stage: AdminStage::Persist { left, failed, .. } } = self.slots[index]
        else {
            return;
        };
        let failed = if failed.is_success() { feature_status(outcome) } else { failed };
        self.slots[index].stage = AdminStage::Persist { ticket, left: left - 1, failed };
        if left == 1 {
            self.complete(Tag(index as u16), Cqe::new(cid, failed));
        }
    }

    pub(super) fn raise(&mut self, kind: u32, notice: AsyncNotice, log_page: LogPageId) {
        self.raise_event(
            kind,
            AsyncEvent { kind: AsyncEventType::NOTICE, information: notice.0, log_page },
        );
    }

    fn raise_event(&mut self, kind: u32, event: AsyncEvent) {
        if let Some(tag) = self.events.raise(kind, event) {
            let cqe = self.event_cqe(self.slots[tag.index()].cid, event);
            self.complete(tag, cqe);
        }
    }

    pub(super) fn event_cqe(&self, cid: Cid, event: AsyncEvent) -> Cqe {
        Cqe { result: u64::from(event.encode()), ..Cqe::new(cid, Status::SUCCESS) }
    }

    /// Answers a command that was put on hold.
    pub(super) fn complete(&mut self, tag: Tag, cqe: Cqe) {
        self.slots[tag.index()].stage = AdminStage::Idle;
        let cqe = self.stamp(cqe);
        self.out.push_back(ControlEvent::Reply { tag, cqe });
    }

    pub(super) fn emit(&mut self, event: ControlEvent) {
        self.out.push_back(event);
    }

    /// Fills in what the queue knows: the head of the submission queue.
    pub(super) fn stamp(&self, mut cqe: Cqe) -> Cqe {
        cqe.sq_head = if self.flow_control { (self.started % self.entries) as u16 } else { 0 };
        cqe
    }

    /// Puts a command on hold; `false` where the tag is out of range.
    pub(super) fn hold(&mut self, tag: Tag, cid: Cid, stage: AdminStage) -> bool {
        if u32::from(tag.0) >= self.entries {
            return false;
        }
        if tag.index() >= self.slots.len() {
            self.slots.resize(tag.index() + 1, AdminSlot { cid, stage: AdminStage::Idle });
        }
        self.slots[tag.index()] = AdminSlot { cid, stage };
        true
    }

    pub(super) fn next_reservation_ticket(&mut self) -> ReservationTicket {
        ReservationTicket(self.next_number())
    }

    pub(super) fn next_ticket(&mut self) -> AbortTicket {
        AbortTicket(self.next_number())
    }

    /// The number of a ticket.
    pub(super) fn next_number(&mut self) -> u32 {
        self.tickets = self.tickets.wrapping_add(1);
        self.tickets
    }

    /// A controller reset: features and events are as in the beginning, and commands on hold end
    /// (Base §3.7.2). A host that has reset its controller takes no notice of these answers, but
    /// the tags are free again.
    pub(super) fn reset(&mut self) {
        self.features.reset();
        self.link.set_copy_formats(0);
        self.changed.clear();
        self.cross_resets.clear();
        self.notices = Notices::default();
        self.events.reset(features::event_bits(self.identity.config.kind));
        for index in 0..self.slots.len() {
            if self.slots[index].stage.waits() {
                let cqe = Cqe::new(self.slots[index].cid, Status::SQ_DELETION_ABORT);
                self.complete(Tag(index as u16), cqe);
            }
        }
    }

    /// Returns the present measurement. A keep alive timer runs only while the controller works
    /// (Base §3.9.2).
    fn watch(&self) -> Watch {
        match (self.registers.operational(), self.features.keep_alive_ms()) {
            (false, _) => Watch::Commands,
            (true, 0) if self.identity.config.kind == ControllerKind::Discovery => Watch::Commands,
            (true, 0) => Watch::Nothing,
            (true, timeout_ms) => Watch::KeepAlive { timeout_ms },
        }
    }
}

// The feature Number of Queues (Base §5.27.1.5), whose answer depends on what all controllers of
// the target have: the owner gives it.

impl ControllerCore {
    /// Asks the owner for up to `wanted` I/O queues.
    fn ask_for_queues(&mut self, wanted: u16) -> AdminStage {
        let ticket = QueueTicket(self.next_number());
        self.emit(ControlEvent::Queues { ticket, wanted });
        AdminStage::Queues(ticket)
    }

    /// The answer to [`ControlEvent::Queues`]: the I/O queues that are allocated. With none left
    /// (0) the command fails, and the host can try again later.
    pub fn queues_allocated(&mut self, ticket: QueueTicket, queues: u16) {
        let waits = AdminStage::Queues(ticket);
        let Some(index) = self.slots.iter().position(|slot| slot.stage == waits) else { return };
        let cid = self.slots[index].cid;
        let mut cqe = Cqe::new(cid, Status::SUCCESS);
        if queues > 0 {
            self.features.set_queues(queues);
            cqe.result = u64::from(queue_counts(queues));
        } else {
            let fault = Fault::new(Status::INTERNAL_ERROR);
            self.log_set_features(cid, fault, false);
            (cqe.status, cqe.more) = (fault.status, true);
        }
        self.complete(Tag(index as u16), cqe);
    }
}
