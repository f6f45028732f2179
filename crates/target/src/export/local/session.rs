//! The server's end of a queue. Operations of its caller become commands of a host: they are
//! checked, counted and limited, and get memory of the session's share for the device, as those of
//! a network do; a copy takes the place of the network.

use super::exchange::Exchange;
use super::hosts::{LocalHosts, NamespaceView, Opened, QueueMailbox, QueueMessage};
use super::reserving::{Allowed, action_of, status_of};
use crate::export::budget::Budget;
use crate::export::device_side::{DeviceRange, DeviceSide};
use crate::export::devices::OpenDevices;
use crate::export::dialect::Dialect;
use crate::export::driver::{NO_RETRY, Retry, next_retry};
use crate::export::members::Message;
use crate::reservations::PendingChange;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::slots::Slots;
use weft_block::{
    Completion, DeviceChange, DeviceChanges, Error, Op, OpKind, Outcome, Status, StatusKind, check,
};
use weft_connection::limits::{LOCAL_COMMANDS_MAX, WORK_PASSES_PER_TURN};
use weft_connection::memory::copy;
use weft_connection::statistics::{ConnectionName, OperationKind};
use weft_io::event_loop::TimerSlot;
use weft_io::segment::{pieces_mut, total_len};
use weft_io::{DriverId, Handle, Segment, Segments};
use weft_proto::nvme::controller::reservation_status;
use weft_proto::reservation::{Effect, ReservationRefusal, ReservationRequest};
use weft_proto::stream::Tag;

/// The one device of a queue.
const DEVICE: usize = 0;

/// The server's end of a queue.
pub(super) struct Session {
    on: Handle,
    id: DriverId,
    /// `None`: it has dropped the queue.
    caller: Option<DriverId>,
    hosts: Arc<LocalHosts>,
    opened: Arc<Opened>,
    mailbox: Arc<QueueMailbox>,
    /// `None`: the data that was opened is not there any more.
    view: Option<NamespaceView>,
    side: DeviceSide<Tag>,
    /// Copies their data, if that is not in the operations.
    exchange: Option<Rc<dyn Exchange>>,
    /// The operations of the caller that have not ended, by their tags.
    commands: Slots<Op>,
    allowed: Allowed,
    /// Operations of other hosts that wait until devices have given these commands back.
    preempted: Vec<(Vec<Tag>, Arc<PendingChange>)>,
    retry: (TimerSlot, Retry),
    /// What the caller has not reaped.
    done: Vec<Completion>,
    /// Changes that were not reported to the caller yet.
    pub changes: DeviceChanges,
    /// The last submission left operations with the caller.
    pub is_refused: bool,
}

fn not_sent(kind: StatusKind) -> Outcome {
    Outcome::NotSent(Status::new(kind))
}

impl Session {
    pub(super) fn open(
        (hosts, opened, mailbox): (Arc<LocalHosts>, Arc<Opened>, Arc<QueueMailbox>),
        view: NamespaceView,
        on: &Handle,
        (id, caller): (DriverId, DriverId),
        exchange: Option<Rc<dyn Exchange>>,
    ) -> Result<Self, Error> {
        let (host, protocol) = (opened.host.nqn.to_string(), hosts.protocol.name());
        let rate = hosts.inventory.rate_of(&host);
        let devices = OpenDevices::open(&[view.namespace.served().cloned()], rate, on, id)?;
        let budget = Budget::of_host(on, &host);
        let peer = protocol.to_owned();
        let name = ConnectionName { protocol, host, peer, queue: None, tls: None };
        let mut meter = hosts.inventory.statistics().enter(name, 0);
        meter.follow([Some((opened.subsystem.clone(), view.namespace.nsid))].into_iter());
        Ok(Self {
            on: on.clone(),
            id,
            caller: Some(caller),
            hosts,
            opened,
            mailbox,
            view: Some(view),
            side: DeviceSide::new(devices, LOCAL_COMMANDS_MAX, budget, meter),
            exchange,
            commands: Slots::default(),
            allowed: Allowed::default(),
            preempted: Vec::new(),
            retry: (TimerSlot::default(), NO_RETRY),
            done: Vec::new(),
            changes: DeviceChanges::default(),
            is_refused: false,
        })
    }

    /// Operations that the caller has not reaped, and overdue ones.
    pub(super) fn in_flight(&self) -> usize {
        self.commands.len() + self.done.len() + self.overdue()
    }

    /// Operations that a device still has although their commands have ended.
    pub(super) fn overdue(&self) -> usize {
        self.side.overdue()
    }

    /// Takes operations of the caller.
    pub(super) fn submit(&mut self, ops: impl Iterator<Item = Op>) {
        ops.for_each(|op| self.begin(op));
        self.pass();
        if self.side.is_starved() {
            self.on.wake(self.id);
        }
    }

    fn begin(&mut self, op: Op) {
        let (kind, bytes, refusal) = (op.kind, self.data_bytes(&op) as u64, self.refusal(&op));
        let tag = Tag(self.commands.insert(op) as u16);
        let counted = match kind {
            OpKind::Read => OperationKind::Read,
            OpKind::Write { .. } => OperationKind::Write,
            _ => OperationKind::Other,
        };
        self.side.meter.turn(self.on.now());
        self.side.meter.start(tag, counted);
        self.side.meter.of(tag, counted, DEVICE, bytes);
        match (refusal, kind) {
            (Some(outcome), _) => self.finish(tag, outcome),
            (None, OpKind::Reserve(_) | OpKind::ReservationReport) => self.reserve(tag, kind),
            (None, _) => self.execute(tag),
        }
    }

    /// Bytes of data of an operation.
    fn data_bytes(&self, op: &Op) -> usize {
        match (&self.exchange, &self.view) {
            (None, _) => total_len(&op.data),
            (Some(_), None) => 0,
            (Some(_), Some(view)) => {
                let bytes = (op.blocks as usize).saturating_mul(view.geometry.block_bytes as usize);
                bytes.saturating_mul(op.kind.data_factor())
            }
        }
    }

    /// Gives the caller what was read. How the command ends.
    fn deliver(&mut self, tag: Tag, data: &[Segment]) -> Outcome {
        let Some(op) = self.commands.get_mut(tag.0.into()) else { return Outcome::SUCCESS };
        let is_there = match &self.exchange {
            Some(exchange) => exchange.take(op.user, data),
            None => {
                copy(data, &mut op.data);
                true
            }
        };
        if is_there { Outcome::SUCCESS } else { Outcome::Done(Status::new(StatusKind::Invalid)) }
    }

    /// How an operation ends that reaches no device.
    fn refusal(&self, op: &Op) -> Option<Outcome> {
        match &self.view {
            Some(view) if view.is_accessible() && !self.side.is_draining() => {
                let data = self.data_bytes(op) as u64;
                check::refusal_with_data(op, data, &view.geometry, &view.features)
                    .map(Outcome::Done)
            }
            Some(_) if !self.side.is_draining() => Some(not_sent(StatusKind::Path)),
            _ => Some(not_sent(StatusKind::Gone)),
        }
    }

    /// Has the device do a command: in its own memory if it lends that, otherwise in memory of this
    /// session, for which the command may have to wait.
    fn execute(&mut self, tag: Tag) {
        let name = u64::from(tag.0);
        let Some(view) = &self.view else { return self.finish(tag, not_sent(StatusKind::Gone)) };
        let Some(op) = self.commands.get_mut(name) else { return };
        let reads = matches!(op.kind, OpKind::Read | OpKind::Compare);
        let effect = if reads { Effect::Reads } else { Effect::Writes };
        if !self.allowed.allows(&view.namespace, effect, || self.opened.registrant()) {
            let conflict = Outcome::Done(Status::new(StatusKind::ReservationConflict));
            return self.finish(tag, conflict);
        }
        let place = DeviceRange { device: DEVICE, lba: op.lba, blocks: op.blocks };
        let mut lent = Segments::new();
        if op.kind == OpKind::Read && self.side.lend(place, &mut lent) {
            let outcome = self.deliver(tag, &lent);
            return self.finish(tag, outcome);
        }
        if let (OpKind::Write { fua: false }, [data]) = (op.kind, &op.data[..])
            && self.side.stores(DEVICE)
        {
            let outcome = self.side.store(place, data);
            return self.finish(tag, outcome);
        }
        let (kind, user) = (op.kind, op.user);
        let len = self.commands.get(name).map_or(0, |op| self.data_bytes(op));
        let has_memory = matches!(kind, OpKind::Write { .. }) && self.side.spare_for(tag, place)
            || self.side.memory.provide(&self.on, tag, len)
            || self.side.memory.provide_reserve(&self.on, tag, len);
        if !has_memory {
            return self.side.wait(tag);
        }
        let mut data = self.side.memory.take(tag);
        let is_filled = kind.fills() || self.fill(tag, user, &mut data);
        if !is_filled {
            *self.side.memory.at(tag) = data;
            return self.finish(tag, Outcome::Done(Status::new(StatusKind::Invalid)));
        }
        self.side.push(DEVICE, Op::new(kind, place.lba, place.blocks, name, data));
    }

    /// Copies what the caller writes; `false`: it is not there.
    fn fill(&self, tag: Tag, user: u64, data: &mut [Segment]) -> bool {
        let Some(exchange) = &self.exchange else {
            self.commands.get(tag.0.into()).into_iter().for_each(|op| copy(&op.data, data));
            return true;
        };
        data.is_empty() || exchange.fill(user, data)
    }

    /// Has an operation on reservations executed, or the state put in force that it reports. It
    /// counts as one that a device has, until [`QueueMessage::Reserved`].
    fn reserve(&mut self, tag: Tag, kind: OpKind) {
        let of = self.view.as_ref().and_then(|view| view.namespace.reservations.clone());
        let mailbox = Arc::clone(&self.mailbox);
        let answer = move |outcome| {
            mailbox.post(Message::Own(QueueMessage::Reserved(tag, outcome)));
        };
        self.side.hold();
        match (kind, of) {
            (_, None) => answer(Err(ReservationRefusal::Conflict)),
            (OpKind::Reserve(action), Some(of)) => {
                let (by, action) = (self.opened.registrant(), action_of(action));
                let operation = ReservationRequest { by, action, persist: None };
                of.execute_as(operation, Some(self.opened.host.nqn.clone()), Box::new(answer));
            }
            (_, Some(of)) => of.confirm(Box::new(answer)),
        }
    }

    /// What a command on reservations ends with.
    fn reserved(&mut self, tag: Tag) -> Status {
        let of = self.view.as_ref().and_then(|view| view.namespace.reservations.as_ref());
        match self.commands.get_mut(tag.0.into()) {
            Some(op) if op.kind == OpKind::ReservationReport => {
                // Another gateway may have changed the state meanwhile.
                let report = of.and_then(|of| of.shared().look_settled(reservation_status));
                let Some(report) = report else { return Status::new(StatusKind::Busy) };
                let mut rest = report.into_iter();
                let data = pieces_mut(&mut op.data, 0, usize::MAX).flatten();
                data.for_each(|byte| *byte = rest.next().unwrap_or_default());
                Status::SUCCESS
            }
            _ => Status::SUCCESS,
        }
    }

    /// A command ends.
    fn finish(&mut self, tag: Tag, outcome: Outcome) {
        self.side.memory.free(tag);
        self.preempted.iter_mut().for_each(|(tags, _)| tags.retain(|of| *of != tag));
        self.side.meter.end(tag, !outcome.is_success());
        self.done.extend(self.commands.remove(tag.0.into()).map(|op| op.done(outcome)));
    }

    /// Submits to the device and reaps, once; returns whether something happened.
    fn pass(&mut self) -> bool {
        let on = self.on.clone();
        self.work(&on, &mut ())
    }

    /// Gives the caller what has ended.
    pub(super) fn reap(&mut self, done: &mut Vec<Completion>) {
        self.pass();
        done.append(&mut self.done);
        if core::mem::take(&mut self.is_refused) {
            self.caller.into_iter().for_each(|caller| self.on.wake(caller));
        }
    }

    /// One turn of the loop; returns whether something happened.
    pub(super) fn turn(&mut self) -> bool {
        self.mailbox.take().into_iter().for_each(|message| self.hear(message));
        let on = self.on.clone();
        self.feed(&on, &mut ());
        self.arm_retry();
        let busy = (0..WORK_PASSES_PER_TURN).take_while(|_| self.pass()).count() > 0;
        self.side.tell_changes(&self.hosts.inventory);
        match self.caller {
            Some(caller) if !(self.done.is_empty() && self.changes.is_empty()) => {
                self.on.wake(caller);
            }
            Some(_) => {}
            None => self.done.clear(),
        }
        busy
    }

    /// Commands that still wait for memory are served again later.
    fn arm_retry(&mut self) {
        self.retry.1 = match self.side.is_starved() {
            false => return self.retry.1 = NO_RETRY,
            true => next_retry(self.retry.1, self.on.now()),
        };
        self.retry.0.arm(&self.on, self.id, self.retry.1.0);
    }

    fn hear(&mut self, message: Message<QueueMessage>) {
        match message {
            // It has no network.
            Message::Capture(_) => {}
            Message::Drain => self.side.drain(),
            Message::Stop => self.stop(),
            Message::Own(QueueMessage::View(view)) => self.see(view),
            Message::Own(QueueMessage::Preempted(pending)) => self.preempt(pending),
            Message::Own(QueueMessage::Reserved(tag, outcome)) => {
                self.side.release();
                let status = outcome.map_or_else(status_of, |()| self.reserved(tag));
                self.finish(tag, Outcome::Done(status));
            }
        }
        if self.side.is_draining() {
            self.tell(DeviceChange::Gone);
        }
    }

    fn tell(&mut self, change: DeviceChange) {
        self.changes.add(change);
    }

    /// The host sees something else of its namespace, or another device is behind it.
    fn see(&mut self, view: Option<NamespaceView>) {
        let Some(was) = core::mem::replace(&mut self.view, view) else { return };
        let Some(is) = self.view.clone() else {
            self.tell(DeviceChange::Gone);
            self.side.follow(&[None], &self.on, self.id);
            let waiting = self.side.take_waiting();
            return waiting
                .into_iter()
                .for_each(|tag| self.finish(tag, not_sent(StatusKind::Gone)));
        };
        is.changes_since(&was).for_each(|change| self.tell(change));
        self.side.follow(&[is.namespace.served().cloned()], &self.on, self.id);
    }

    /// Another host has preempted this one. What changes or reports reservations does no I/O, and
    /// may itself wait until this is through.
    fn preempt(&mut self, pending: Arc<PendingChange>) {
        let tags = self.commands.iter_mut().filter(|(_, op)| !is_about_reservations(op.kind));
        let mut tags: Vec<Tag> = tags.map(|(name, _)| Tag(name as u16)).collect();
        tags.iter().for_each(|tag| self.abort(*tag));
        tags.retain(|tag| self.commands.get(tag.0.into()).is_some());
        self.preempted.push((tags, pending));
    }

    /// Asks for an early end of a command.
    fn abort(&mut self, tag: Tag) {
        if self.side.waiting().contains(&tag) {
            self.side.forget_waiting(|waiting| *waiting == tag);
            return self.finish(tag, not_sent(StatusKind::Aborted));
        }
        self.side.cancel(tag.0.into());
        // What has not reached the device has ended by that.
        self.on.wake(self.id);
    }

    /// The caller asks for an early end of an operation.
    pub(super) fn cancel(&mut self, user: u64) {
        let found = self.commands.find(|op| op.user == user);
        found.into_iter().for_each(|name| self.abort(Tag(name as u16)));
    }

    /// Takes no more commands; asks the devices to end what they have.
    fn stop(&mut self) {
        if self.side.stop() {
            let tags: Vec<u64> = self.commands.names().collect();
            tags.into_iter().for_each(|name| self.abort(Tag(name as u16)));
        }
    }

    /// The caller has dropped its queue.
    pub(super) fn leave(&mut self) {
        self.caller = None;
        self.stop();
        self.on.wake(self.id);
    }

    /// Returns whether the session is draining, and no command is left, here or at the device.
    pub(super) fn has_ended(&mut self) -> bool {
        self.side.is_draining() && self.commands.is_empty() && self.side.is_quiet()
    }

    /// Gives the device back: the connection has ended, and the caller may keep its queue.
    pub(super) fn release(&mut self) {
        // Whoever would wait for what it is told must not.
        self.mailbox = Arc::default();
        self.side.meter.leave();
        self.side.follow(&[None], &self.on, self.id);
        let _ = self.pass();
    }
}

impl Dialect<()> for Session {
    type Waiting = Tag;

    fn side(&mut self) -> &mut DeviceSide<Tag> {
        &mut self.side
    }

    fn completed(&mut self, _: &Handle, (): &mut (), tag: Tag, done: &mut Completion, _: bool) {
        let data = core::mem::take(&mut done.op.data);
        let outcome = match done.outcome.is_success() && done.op.kind.fills() {
            true => self.deliver(tag, &data),
            false => done.outcome,
        };
        *self.side.memory.at(tag) = data;
        self.finish(tag, outcome);
    }

    fn retry(&mut self, _: &Handle, (): &mut (), tag: Tag) {
        self.execute(tag);
    }

    fn settle(&mut self, (): &mut ()) {
        let held = self.side.holds_overdue();
        self.preempted.retain(|(tags, _)| held || !tags.is_empty());
    }
}

impl Drop for Session {
    /// The loop ends.
    fn drop(&mut self) {
        self.commands.drain().for_each(Op::give_up);
    }
}

fn is_about_reservations(kind: OpKind) -> bool {
    matches!(kind, OpKind::Reserve(_) | OpKind::ReservationReport)
}
