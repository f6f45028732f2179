//! The queue of a device with paths: each operation is given to the queue of one path, and waits if
//! there is none.

mod follow;
mod gate;
mod order;
mod waiting;

use super::choose::Chooser;
use super::flights::{Flight, Flights, WAITING};
use super::path_group::PathGroup;
use super::route::{Open, Route};
use super::unflushed::Unflushed;
use super::verdict::{Verdict, doubt, is_repeat, verdict};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_block::{
    BlockQueue, Completion, DeviceChange, DeviceChanges, Error, ErrorKind, Op, OpKind, Presence,
    Status, StatusKind,
};
use weft_connection::limits::{PATH_BATCH_OPS, PATH_WAITING_OPS};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle};

/// The queue of a path that was lost.
struct Leaving {
    open: Open,
    /// The replays of unflushed writes that the queue knew of when it was lost; `None`: one was
    /// due, or under way.
    replays: Option<u64>,
}

pub(super) struct PathsQueue {
    group: Arc<PathGroup>,
    name: u64,
    on: Handle,
    owner: DriverId,
    /// The version of the group that was last looked at.
    seen: u64,
    routes: Vec<Route>,
    /// Queues of paths that were lost, which still have operations.
    leaving: Vec<Leaving>,
    flights: Flights,
    /// Operations that no path has, in order.
    waiting: VecDeque<Op>,
    /// Those of them that stay, while the others are given to paths.
    staying: VecDeque<Op>,
    returned: Vec<Completion>,
    /// Operations that ended here.
    ready: Vec<Completion>,
    changes: DeviceChanges,
    /// What the owner was told.
    blocks: u64,
    presence: Presence,
    /// Operations were left with the owner.
    refused: bool,
    /// Nothing is sent at present: unflushed writes are written again.
    is_gated: bool,
    /// Replays of unflushed writes at the last look.
    replays: u64,
    /// Losses of completed writes that a flush has told of.
    losses: u64,
    log: Option<Arc<Unflushed>>,
    chooser: Chooser,
    timer: TimerSlot,
}

impl PathsQueue {
    /// # Errors
    /// That all queues which the device grants are in use.
    pub(super) fn open(
        group: &Arc<PathGroup>,
        on: &Handle,
        owner: DriverId,
    ) -> Result<Self, Error> {
        let mut queue = Self {
            name: group.enter(on.remote(), owner),
            on: on.clone(),
            owner,
            // The first look is at everything: operations may fail already.
            seen: group.version().wrapping_sub(1),
            routes: Vec::new(),
            leaving: Vec::new(),
            flights: Flights::default(),
            waiting: VecDeque::new(),
            staying: VecDeque::new(),
            returned: Vec::new(),
            ready: Vec::new(),
            changes: DeviceChanges::default(),
            blocks: group.blocks(),
            presence: Presence::Here,
            refused: false,
            replays: group.replays(),
            is_gated: group.is_gated(),
            losses: group.losses(),
            log: group.log.clone(),
            chooser: Chooser::new(group.options.io_policy),
            timer: TimerSlot::default(),
            group: Arc::clone(group),
        };
        let problem = queue.look_at_paths();
        let is_open = queue.routes.iter().any(|route| route.open.is_some());
        match problem.filter(|e| !is_open && e.kind() == ErrorKind::NoResources) {
            Some(e) => Err(e),
            None => Ok(queue),
        }
    }

    /// The only path, if there is no choice and nothing waits.
    #[inline]
    fn only_route(&self) -> Option<usize> {
        let plain = self.routes.len() == 1
            && self.waiting.is_empty()
            && !self.group.unresolved.any()
            && !self.is_gated;
        let plain = plain && self.group.losses() == self.losses;
        (plain && self.routes[0].usable(self.on.now()).is_some()).then_some(0)
    }

    /// Gives operations to a path; those for which it has no room stay. Returns whether the first
    /// of those that stay has to wait for another.
    fn pass(&mut self, path: usize, ops: &mut VecDeque<Op>) -> bool {
        let now = self.on.now();
        let mut waits = false;
        while !ops.is_empty() && !waits {
            let mut count = 0;
            while count < PATH_BATCH_OPS
                && let Some(mut op) = ops.pop_front()
            {
                let (goes, went_out) = self.begin(&op);
                if !goes {
                    ops.push_front(op);
                    waits = true;
                    break;
                }
                count += 1;
                let mut flight =
                    Flight { losses: self.losses, went_out, ..Flight::of(&op, path as u16, now) };
                if let (Some(log), OpKind::Flush) = (&self.log, op.kind) {
                    flight.mark = log.mark();
                }
                op.user = self.flights.insert(flight);
                self.routes[path].offered.push_back(op);
            }
            if self.offer(path, count, ops) {
                return false;
            }
        }
        waits
    }

    /// Gives waiting operations to paths, as far as they may be sent and there is room. Returns
    /// whether something was sent.
    fn dispatch(&mut self) -> bool {
        if self.presence != Presence::Here {
            self.fail_waiting();
            return false;
        }
        if self.group.losses() > 0 {
            self.fail_flushes();
        }
        if self.is_gated {
            return false;
        }
        let now = self.on.now();
        if self.routes.iter().all(|route| route.usable(now).is_none()) {
            self.arm();
            return false;
        }
        while let Some(op) = self.waiting.pop_front() {
            let Some(flight) = self.flights.get_mut(op.user) else { continue };
            let is_held = (!flight.unresolved && self.is_held(&op)) || !self.is_turn(&op);
            let Some(flight) = self.flights.get_mut(op.user) else { continue };
            match (!is_held).then(|| self.chooser.choose(&self.routes, now)).flatten() {
                Some(path) => {
                    (flight.place, flight.at) = (path as u16, now);
                    if let (Some(log), OpKind::Flush) = (&self.log, op.kind) {
                        flight.mark = log.mark();
                    }
                    self.routes[path].offered.push_back(op);
                }
                None => self.staying.push_back(op),
            }
        }
        core::mem::swap(&mut self.waiting, &mut self.staying);
        self.send_offered()
    }

    fn send_offered(&mut self) -> bool {
        let mut sent = false;
        for route in &mut self.routes {
            let (Some(open), count @ 1..) = (&mut route.open, route.offered.len()) else {
                continue;
            };
            open.queue.submit(&mut route.offered);
            let taken = count - route.offered.len();
            route.in_flight += taken as u32;
            sent |= taken > 0;
            for op in route.offered.drain(..).rev() {
                if let Some(flight) = self.flights.get_mut(op.user) {
                    flight.place = WAITING;
                }
                self.waiting.push_front(op);
            }
        }
        sent
    }

    /// Wakes the owner when a path that pauses may be asked again.
    fn arm(&self) {
        if let Some(at) = self
            .routes
            .iter()
            .filter_map(|route| route.paused_until)
            .filter(|at| *at > self.on.now())
            .min()
        {
            self.timer.arm(&self.on, self.owner, at);
        }
    }

    fn reap_route(&mut self, path: usize, done: &mut Vec<Completion>) {
        let Some(open) = &mut self.routes[path].open else { return };
        open.queue.reap(&mut self.returned);
        while let Some(change) =
            self.routes[path].open.as_mut().and_then(|open| open.queue.change())
        {
            self.path_changed(path, change);
        }
        self.take_returned(done);
    }

    fn reap_leaving(&mut self, done: &mut Vec<Completion>) {
        let replays = Some(self.group.replays());
        for leaving in &mut self.leaving {
            let before = self.returned.len();
            leaving.open.queue.reap(&mut self.returned);
            if self.log.is_some() && leaving.replays != replays {
                self.returned[before..].iter_mut().for_each(doubt);
            }
        }
        self.leaving.retain(|leaving| leaving.open.queue.in_flight() > 0);
        self.take_returned(done);
    }

    #[inline]
    fn take_returned(&mut self, done: &mut Vec<Completion>) {
        let mut returned = core::mem::take(&mut self.returned);
        for completion in returned.drain(..) {
            if completion.outcome.is_success() {
                self.finish(completion, done);
            } else {
                self.failed(completion, done);
            }
        }
        self.returned = returned;
    }

    /// An operation ends with its outcome.
    #[inline]
    fn finish(&mut self, mut completion: Completion, done: &mut Vec<Completion>) {
        let name = completion.op.user;
        let Some(flight) = self.flights.remove(name) else { return };
        if let Some(route) = self.routes.get_mut(usize::from(flight.place)) {
            route.in_flight -= 1;
            let bytes = u64::from(flight.blocks) * u64::from(self.group.base.geometry.block_bytes);
            route.counters.ended(
                bytes,
                !completion.outcome.is_success(),
                self.on.now() - flight.at,
            );
        }
        if flight.unresolved {
            self.resolve(name, completion.outcome.is_success());
        }
        if let Some(log) = &self.log {
            log.ended(&completion, flight.mark);
        }
        self.end_order(name, flight.lba, flight.went_out);
        completion.op.user = flight.user;
        done.push(completion);
    }

    #[cold]
    fn failed(&mut self, completion: Completion, done: &mut Vec<Completion>) {
        let Completion { op, outcome } = completion;
        let name = op.user;
        let Some(flight) = self.flights.get_mut(name) else { return };
        let verdict = verdict(flight, &outcome, self.group.options.failover);
        if verdict == Verdict::Deliver {
            return self.finish(Completion { op, outcome }, done);
        }
        let route =
            self.routes.get_mut(usize::from(core::mem::replace(&mut flight.place, WAITING)));
        if let Some(route) = route {
            route.in_flight -= 1;
            route.counters.retried();
            if verdict == Verdict::AgainAfterPause {
                route.pause(&self.on);
            }
        }
        flight.repeats = flight.repeats.saturating_add(u8::from(is_repeat(&outcome)));
        // Also one that was aborted, or damaged on its way: some of it may have been.
        let executed = verdict == Verdict::Again && flight.kind.is_write();
        flight.may_have_executed |= executed;
        if executed && !flight.unresolved {
            flight.unresolved = true;
            self.group.unresolved.add((self.name, name), flight.lba, flight.blocks);
        } else if !flight.may_have_executed
            && flight.unresolved
            && self.group.unresolved.remove_if_open((self.name, name))
        {
            flight.unresolved = false;
            self.group.tell_queues();
        }
        self.waiting.push_back(Op::new(op.kind, op.lba, op.blocks, name, op.data));
    }
}

impl BlockQueue for PathsQueue {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.look();
        if let Some(path) = self.only_route()
            && !self.pass(path, ops)
        {
            return;
        }
        let count = PATH_WAITING_OPS.saturating_sub(self.waiting.len()).min(ops.len());
        let now = self.on.now();
        for mut op in ops.drain(..count) {
            op.user = self
                .flights
                .insert(Flight { losses: self.losses, ..Flight::of(&op, WAITING, now) });
            self.waiting.push_back(op);
        }
        self.refused |= !ops.is_empty();
        self.dispatch();
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.look();
        for path in 0..self.routes.len() {
            self.reap_route(path, done);
        }
        if !self.leaving.is_empty() {
            self.reap_leaving(done);
        }
        if self.routes.iter().any(|route| {
            route.wants_queue && route.paused_until.is_some_and(|at| at <= self.on.now())
        }) {
            self.look_at_paths();
        }
        if !self.waiting.is_empty() && self.dispatch() {
            // Some of them may have ended at once.
            self.on.wake(self.owner);
        }
        if self.is_gated {
            self.report_quiet();
        }
        done.append(&mut self.ready);
        if self.refused && self.waiting.len() < PATH_WAITING_OPS {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let Some(name) = self.flights.find(|flight| flight.user == user) else { return };
        if let Some(at) = self.waiting.iter().position(|op| op.user == name) {
            // Its success is what makes others certain; it is sent again as soon as it can be.
            if self.group.unresolved.does_hide((self.name, name)) {
                return;
            }
            if let Some(op) = self.waiting.remove(at) {
                self.end_waiting(op, Status::new(StatusKind::Aborted));
            }
            return;
        }
        let Some(flight) = self.flights.get_mut(name) else { return };
        flight.cancelled = true;
        if let Some(open) =
            self.routes.get_mut(usize::from(flight.place)).and_then(|route| route.open.as_mut())
        {
            open.queue.cancel(name);
        } else {
            self.leaving.iter_mut().for_each(|leaving| leaving.open.queue.cancel(name));
        }
    }

    fn in_flight(&self) -> usize {
        self.flights.len() + self.ready.len()
    }

    fn holds_back(&self) -> bool {
        self.routes
            .iter()
            .filter_map(|route| route.open.as_ref())
            .any(|open| open.queue.holds_back())
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.look();
        if self.changes.is_empty() && self.flights.is_empty() {
            // An owner that only waits for changes.
            for path in 0..self.routes.len() {
                while let Some(change) =
                    self.routes[path].open.as_mut().and_then(|open| open.queue.change())
                {
                    self.path_changed(path, change);
                }
            }
            self.look();
        }
        self.changes.take()
    }
}

impl Drop for PathsQueue {
    fn drop(&mut self) {
        self.group.leave(self.name);
        self.waiting.drain(..).for_each(Op::give_up);
        self.lose_hidden(self.group.unresolved.forget(self.name));
        self.leave_order();
        for (path, route) in self.routes.iter().enumerate() {
            self.group.return_counters(path, &route.counters);
        }
    }
}
