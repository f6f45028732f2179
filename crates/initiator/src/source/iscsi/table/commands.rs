//! The operations of a session, as its queue drives them.

use super::{Table, TaskSlot, Unit};
use crate::source::iscsi::device_state::DeviceState;
use crate::source::iscsi::session_names::{SessionEnd, pair};
use crate::source::iscsi::step::Running;
use crate::source::queue::{Commands, QueueGate, RemoteQueue};
use std::sync::Arc;
use weft_block::{Completion, DeviceChange, Error, Op, Presence};
use weft_connection::pump::StreamPump;
use weft_connection::settle::lost_writes::{LostWrites, iscsi_bound};
use weft_connection::settle::registry::Unsettled;
use weft_io::{DriverId, Handle, Time};
use weft_proto::iscsi::initiator::Initiator;
use weft_proto::stream::{StreamEngine, Tag};

impl Commands for Table {
    type Link = StreamPump<Initiator>;

    #[inline]
    fn gate(&self) -> QueueGate {
        if self.identification.is_absent() || self.shared.why_ended().is_some() {
            QueueGate::Shut
        } else if self.identification.holds() {
            QueueGate::Held
        } else {
            QueueGate::Open
        }
    }

    #[inline]
    fn offer(&mut self, engine: &mut Initiator, on: &Handle, op: Op) -> Option<Op> {
        self.now = on.now();
        if let Some(outcome) = self.settled(&op) {
            self.done.push(op.done(outcome));
            return None;
        }
        // One command is kept for what the device itself wants to know.
        if engine.outstanding() + self.waiting.len() + 1 >= self.slots.len() {
            return Some(op);
        }
        match self.start(engine, Running::new(op, on.now())) {
            None => {
                self.running += 1;
                None
            }
            Some(running) => Some(running.op),
        }
    }

    fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    fn running(&self) -> usize {
        self.running
    }

    fn cancel(&mut self, engine: &mut Initiator, user: u64) {
        if let Some((_, running)) =
            self.waiting.iter_mut().find(|(_, running)| running.op.user == user)
        {
            running.cancelled = true;
            return;
        }
        let of_user =
            |slot: &TaskSlot| matches!(slot, TaskSlot::Io(running) if running.op.user == user);
        let Some(at) = self.slots.iter().position(of_user) else { return };
        if let TaskSlot::Io(running) = &mut self.slots[at] {
            running.cancelled = true;
        }
        if let Some(event) = engine.abort(Tag(at as u16)) {
            self.handle(engine, event);
        }
    }

    fn connection_ended(&mut self, engine: &Initiator, on: &Handle, lost: &mut LostWrites) {
        let agreed = engine.parameters();
        let at =
            on.now() + iscsi_bound(agreed.time2wait_s, agreed.time2retain_s, self.shared.quiesce);
        for at in 0..self.slots.len() {
            let TaskSlot::Io(running) = core::mem::replace(&mut self.slots[at], TaskSlot::Free)
            else {
                continue;
            };
            self.running -= 1;
            let untouched = running.is_untouched();
            self.done.extend(lost.take(running.op, engine.never_sent(Tag(at as u16)), untouched));
        }
        while let Some((_, running)) = self.waiting.pop_front() {
            self.running -= 1;
            let untouched = running.is_untouched();
            self.done.extend(lost.take(running.op, true, untouched));
        }
        self.session_ended(engine, on, at, lost.count() > 0);
    }

    fn settled_at(&self) -> Time {
        self.end.as_ref().map_or(self.now, |end| end.at())
    }

    fn watch(
        &mut self,
        engine: &mut Initiator,
        on: &Handle,
        driver: DriverId,
    ) -> Result<(), String> {
        self.now = on.now();
        if engine.is_closed() {
            return Err(self.violation(engine).unwrap_or_default());
        }
        if let Some(why) = self.shared.why_ended() {
            return Err(why.to_owned());
        }
        if self
            .identification
            .held_since()
            .is_some_and(|since| self.now >= since + self.shared.limit)
        {
            return Err(
                "the logical unit does not report whether it is still the one that was opened"
                    .into(),
            );
        }
        let again = self.start_waiting(engine);
        self.look_around(engine);
        // A disk that has something to do is not asked; to look again at once would be to look all
        // the time.
        let idle = !self.shared.interval.is_zero() && self.running == 0;
        let look = idle.then(|| self.touched + self.shared.interval);
        // What waits for the names of the disk is not due before they have come.
        let again = again.filter(|_| !self.identification.holds());
        let until = self.identification.held_since().map(|since| since + self.shared.limit);
        let capacity = self.capacity_at.filter(|at| *at > self.now);
        let next = [again, look, self.identification.next(), self.access.next(), capacity, until]
            .into_iter()
            .flatten()
            .min();
        if let Some(next) = next {
            self.timer.arm(on, driver, next);
        }
        Ok(())
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.shared.tell_absent(&mut self.absent, self.identification.is_absent(), &self.url);
        let is_away = self.shared.presence() != Presence::Here;
        if is_away != self.is_away {
            self.is_away = is_away;
            return Some(if is_away { DeviceChange::Away } else { DeviceChange::Back });
        }
        if let Some(change) = self.access.change(self.shared.access()) {
            return Some(change);
        }
        let blocks = self.shared.blocks();
        if blocks == self.blocks {
            return None;
        }
        self.blocks = blocks;
        Some(DeviceChange::Resized { blocks })
    }

    fn violation(&self, engine: &Initiator) -> Option<String> {
        engine.fault().map(ToString::to_string)
    }

    fn give_back(&mut self, session: StreamPump<Initiator>) {
        self.shared.idle.give(session);
    }

    fn lost(&mut self, why: String) {
        self.shared.idle.lost(why);
    }

    fn loop_ended(&mut self) {
        self.shared.idle.ended();
    }
}

impl Table {
    /// Brings a session that waits to this loop, as a queue that wakes `owner`.
    pub(in crate::source::iscsi) fn open(
        on: &Handle,
        owner: DriverId,
        unit: Unit,
        shared: &Arc<DeviceState>,
    ) -> Result<RemoteQueue<Self>, Error> {
        let (session, failover) = (shared.idle.take()?, shared.failover);
        let table =
            |engine: &mut Initiator, id| Self::new(on, id, engine, unit, Arc::clone(shared));
        RemoteQueue::open(on, owner, session, failover, table)
    }

    /// The connection has ended. With another session of the same name the target ends what it has
    /// of this one; otherwise it does so by `at`.
    fn session_ended(&mut self, engine: &Initiator, on: &Handle, at: Time, has_lost: bool) {
        let end = Arc::new(SessionEnd::new(at, self.user.clone()));
        let isids = &self.shared.isids;
        if let (true, Some(nexus)) = (has_lost, engine.nexus()) {
            let unsettled: Arc<dyn Unsettled> = Arc::<SessionEnd>::clone(&end);
            isids.control().unsettled().ended(
                pair(&nexus, isids.epoch()),
                None,
                Arc::downgrade(&unsettled),
                on.now(),
            );
        }
        isids.release(engine.isid());
        self.end = Some(end);
    }
}
