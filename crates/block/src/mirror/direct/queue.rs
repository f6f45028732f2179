//! The queue of a loop: what needs no decision goes to its own queues of the legs, the rest to the
//! home.

use super::flight::{Name, Read, Write};
use super::locks::LockRange;
use super::permit::{Seen, Writers};
use super::waiting::Waiter;
use super::{Begun, Direct, HomeVerdict, Legs, OneLoop, Undecided};
use crate::check;
use crate::device::{BlockQueue, Device, DeviceChange, Features, Geometry};
use crate::limits::{MIRROR_QUEUE_OPS, MIRROR_READ_RUN_BYTES};
use crate::mirror::engine::{FailureMeaning, RETRIES_MAX, fault};
use crate::mirror::user_op::copied;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use crate::queue::slots::Slots;
use crate::sync::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::segment::{Divided, total_len};
use weft_io::{DriverId, Handle, Segments};

/// See the module.
pub(super) struct DirectQueue {
    pub(super) direct: Arc<Direct>,
    geometry: Geometry,
    features: Features,
    pub(super) one: Arc<OneLoop>,
    home: Box<dyn BlockQueue>,
    pub(super) for_home: VecDeque<Op>,
    pub(super) legs: Legs,
    pub(super) parked: Parked,
    reads: Slots<Read>,
    writes: Slots<Write>,
    /// Numbers of writes.
    next: u32,
    /// Operations that the home has after they were sent to legs.
    again: BTreeSet<u64>,
    ready: Vec<Completion>,
    returned: Vec<Completion>,
    /// For the data of later writes.
    spare: Vec<Divided>,
    /// Writes that the home judges.
    asked: usize,
    /// `submit` left operations with the caller.
    refused: bool,
    on: Handle,
    owner: DriverId,
}

impl DirectQueue {
    /// A queue next to one of the home's device, `inner`.
    ///
    /// # Errors
    /// That one's.
    pub(super) fn open(
        (inner, direct): (&Device, &Arc<Direct>),
        on: &Handle,
        owner: DriverId,
    ) -> Result<Self, Error> {
        let home = inner.open_queue(on, owner)?;
        let one = Arc::new(OneLoop {
            writers: Writers::new(),
            waiter: Waiter::new(),
            answers: Lock::default(),
            remote: on.remote(),
            driver: owner,
        });
        direct.enter(&one);
        Ok(Self {
            direct: Arc::clone(direct),
            geometry: inner.geometry(),
            features: inner.features(),
            one,
            home,
            for_home: VecDeque::new(),
            legs: Legs::default(),
            parked: Parked::default(),
            reads: Slots::default(),
            writes: Slots::default(),
            next: 0,
            again: BTreeSet::new(),
            ready: Vec::new(),
            returned: Vec::new(),
            spare: Vec::new(),
            asked: 0,
            refused: false,
            on: on.clone(),
            owner,
        })
    }

    /// Lets go of legs that are no longer in sync, and opens queues of others.
    pub(super) fn follow_legs(&mut self) {
        let gone = self.legs.follow(&self.direct, &self.on, self.owner);
        self.lost(&gone);
    }

    /// Writes to these legs have failed, and may still be executed.
    fn lost(&mut self, numbers: &[usize]) {
        for number in numbers {
            let names: Vec<u64> = self.writes.names().collect();
            for name in names {
                let Some(write) = self.writes.get(name) else { continue };
                if write.pending >> number & 1 != 0 {
                    let gone = Outcome::unsettled(Status::new(StatusKind::Gone));
                    self.wrote(name, *number, gone);
                }
            }
        }
    }

    fn turn_legs(&mut self) {
        let mut returned = core::mem::take(&mut self.returned);
        let now = self.on.now();
        for place in 0..self.legs.used.len() {
            self.legs.reap(place, &mut returned, now);
            let number = self.legs.used[place].of.number;
            returned.drain(..).for_each(|completion| self.ended(number, Some(place), completion));
        }
        self.returned = returned;
        let gone = self.legs.let_lost_go(&self.on);
        self.lost(&gone);
        for (number, completion) in self.legs.reap_leaving(&self.direct, now) {
            self.ended(number, None, completion);
        }
    }

    /// Begins an operation on the legs, or gives it back for the home.
    fn begin(&mut self, op: Op, seen: Seen, reader: usize) -> Result<(), Op> {
        let is_write =
            matches!(op.kind, OpKind::Write { .. } | OpKind::WriteZeroes { .. } | OpKind::Discard);
        let is_for_home = !is_write && op.kind != OpKind::Read
            || op.kind == OpKind::Discard && !self.features.discard
            || op.blocks == 0
            || check::refusal(&op, &self.geometry, &self.features).is_some();
        if is_for_home {
            return Err(op);
        }
        if is_write { self.begin_write(op, seen) } else { self.begin_read(op, seen, reader) }
    }

    fn begin_read(&mut self, mut op: Op, seen: Seen, reader: usize) -> Result<(), Op> {
        let locks = self
            .direct
            .locks_of(op.lba, op.blocks)
            .and_then(|range| Some((range, self.direct.locks.look(range)?)));
        let Some((range, locks)) = locks else { return Err(op) };
        let read = Read { user: op.user, range, permit: seen, locks };
        op.user = Name { slot: self.reads.insert(read), is_read: true, number: 0 }.user();
        let leg = &mut self.legs.used[reader];
        leg.reads += 1;
        leg.todo.push_back(op);
        Ok(())
    }

    /// Begins a write on the legs; one without marks waits, and any other is given back for the
    /// home.
    fn begin_write(&mut self, op: Op, seen: Seen) -> Result<(), Op> {
        match self.direct.begin_write(&self.one, seen, op.lba, op.blocks) {
            Begun::Yes(range, seen) => self.send_all(op, range, seen),
            Begun::Unmarked => {
                self.parked.add(op);
                Ok(())
            }
            Begun::No => Err(op),
        }
    }

    /// Sends a write, which has its locks, to the legs.
    pub(super) fn send_all(&mut self, op: Op, range: LockRange, seen: Seen) -> Result<(), Op> {
        let mut copy = None;
        if op.kind.data_factor() > 0 {
            let spare = self.spare.pop().unwrap_or_default();
            copy = copied(&op.data, 0, (self.on.pool(), self.on.counters()), spare);
            if copy.is_none() {
                self.end_write(range, seen);
                return Err(op);
            }
        }
        self.next = self.next.wrapping_add(1);
        let write = Write::new(op, (range, seen), copy, self.next);
        let name = self.writes.insert(write);
        (0..self.legs.used.len()).for_each(|leg| self.send(name, leg));
        Ok(())
    }

    /// Sends a write to a leg.
    fn send(&mut self, name: u64, leg: usize) {
        let (Some(write), leg) = (self.writes.get_mut(name), &mut self.legs.used[leg]) else {
            return;
        };
        let user = Name { slot: name, is_read: false, number: write.number }.user();
        write.pending |= 1 << leg.of.number;
        let mut data = Segments::new();
        let op = &write.op;
        if let Some(copy) = &mut write.copy {
            copy.share_all(&mut data);
        }
        leg.todo.push_back(Op::new(op.kind, op.lba, op.blocks, user, data));
    }

    /// The locks of a write are given back, and it no longer counts.
    fn end_write(&self, range: LockRange, seen: Seen) {
        self.direct.free(range);
        self.direct.end_write(&self.one, seen);
    }

    /// Returns whether anything was passed to a leg.
    fn submit_all(&mut self) -> bool {
        let some = self.legs.submit(self.on.now());
        if !self.for_home.is_empty() {
            self.home.submit(&mut self.for_home);
        }
        some
    }

    /// An operation of a leg has ended; `place`: where the leg is, unless it is being let go of.
    fn ended(&mut self, number: usize, place: Option<usize>, completion: Completion) {
        let Name { slot: name, is_read, number: serial } = Name::of(completion.op.user);
        if is_read {
            if let Some(place) = place {
                self.legs.used[place].reads -= 1;
            }
            return self.end_read(name, number, completion);
        }
        // Others are of a write that had failed there already.
        let Some(write) = self.writes.get_mut(name).filter(|write| write.number == serial) else {
            return;
        };
        let is_passing = !completion.outcome.is_success()
            && fault(&completion.outcome) == FailureMeaning::Passing
            && write.retries < RETRIES_MAX;
        if let Some(place) = place.filter(|_| is_passing) {
            write.retries += 1;
            self.legs.used[place].counts.retried();
            return self.send(name, place);
        }
        if write.pending >> number & 1 != 0 {
            let outcome = completion.outcome;
            drop(completion);
            self.wrote(name, number, outcome);
        }
    }

    /// A write has ended on a leg.
    fn wrote(&mut self, name: u64, number: usize, outcome: Outcome) {
        let Some(write) = self.writes.get_mut(name) else { return };
        write.outcomes[number] = Some(outcome);
        write.pending &= !(1 << number);
        if write.pending > 0 {
            return;
        }
        if !write.is_success() {
            return self.ask(name);
        }
        if !write.op.kind.fua() {
            self.direct.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        let (range, seen) = (write.range, write.permit);
        self.end_write(range, seen);
        self.finish(name, Outcome::SUCCESS);
    }

    /// A read of a leg is as good as one of the home if nothing was decided or written during it.
    fn end_read(&mut self, name: u64, leg: usize, mut completion: Completion) {
        let Some(read) = self.reads.remove(name) else { return };
        let is_good = completion.outcome.is_success()
            && self.direct.locks.is_as_seen(read.range, &read.locks)
            && self.direct.permit.see().is_same(read.permit);
        completion.op.user = read.user;
        let bytes = completion.op.blocks as usize * self.geometry.block_bytes as usize;
        if is_good || total_len(&completion.op.data) != bytes {
            self.ready.push(completion);
        } else {
            let Op { kind, lba, blocks, user, data, .. } = completion.op;
            if !completion.outcome.is_success() {
                self.direct.failed_reads.add(lba, blocks, leg);
            }
            self.for_home.push_back(Op::new(kind, lba, blocks, user, data));
        }
    }

    /// Has the home judge a write, which keeps its locks.
    fn ask(&mut self, name: u64) {
        let Some(write) = self.writes.get(name) else { return };
        let undecided = Undecided {
            kind: write.op.kind,
            lba: write.op.lba,
            blocks: write.op.blocks,
            outcomes: write.outcomes,
            of: Arc::clone(&self.one),
            name,
            permit: write.permit,
        };
        self.asked += 1;
        self.direct.undecided.lock().push(undecided);
        self.direct.wake_home();
    }

    fn take_answers(&mut self) {
        if self.asked == 0 {
            return;
        }
        let answers = core::mem::take(&mut *self.one.answers.lock());
        self.asked -= answers.len();
        for (name, answer) in answers {
            let Some(write) = self.writes.get(name) else { continue };
            self.direct.free(write.range);
            match answer {
                HomeVerdict::Ends(outcome) => self.finish(name, outcome),
                HomeVerdict::Again => {
                    let Some(write) = self.writes.remove(name) else { continue };
                    self.again.insert(write.op.user);
                    self.for_home.push_back(write.op);
                }
            }
        }
    }

    /// Operations sent to legs before the home had them may have been executed there, whatever the
    /// home did.
    fn was_sent(&mut self, completion: &mut Completion) {
        if self.again.remove(&completion.op.user)
            && let Outcome::NotSent(status) = completion.outcome
        {
            completion.outcome = Outcome::settled(status);
        }
    }

    /// Ends a write.
    fn finish(&mut self, name: u64, outcome: Outcome) {
        let Some(write) = self.writes.remove(name) else { return };
        self.ready.push(write.op.done(outcome));
        if let Some(mut copy) = write.copy
            && copy.take_back().is_some()
        {
            self.spare.push(copy);
        }
    }

    fn under_way(&self) -> usize {
        self.reads.len() + self.writes.len() + self.parked.len()
    }
}

impl BlockQueue for DirectQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let seen = self.direct.permit.see();
        if seen.holds() {
            self.legs.try_again(self.on.now());
            self.follow_legs();
        }
        let may_begin = seen.holds() && self.legs.are_usable();
        // Reads that come together go to one leg, in one message as far as they fit.
        let fewest = |queue: &Self| {
            (0..queue.legs.used.len())
                .min_by_key(|leg| queue.legs.used[*leg].reads)
                .unwrap_or_default()
        };
        let (mut reader, mut run) = (fewest(self), 0);
        while self.for_home.len() < MIRROR_QUEUE_OPS && self.under_way() < MIRROR_QUEUE_OPS {
            let Some(op) = ops.pop_front() else { break };
            if run >= MIRROR_READ_RUN_BYTES {
                (reader, run) = (fewest(self), 0);
            }
            run += u64::from(op.blocks) * u64::from(self.geometry.block_bytes);
            let begun = if may_begin { self.begin(op, seen, reader) } else { Err(op) };
            if let Err(op) = begun {
                self.for_home.push_back(op);
            }
        }
        self.refused |= !ops.is_empty();
        self.ask_for_marks();
        self.submit_all();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.follow_legs();
        self.turn_legs();
        self.take_answers();
        self.unpark();
        if self.submit_all() {
            // What a leg ends at once it tells nobody.
            self.on.wake(self.owner);
        }
        let before = done.len();
        self.home.reap(done);
        if !self.again.is_empty() {
            done[before..].iter_mut().for_each(|completion| self.was_sent(completion));
        }
        done.append(&mut self.ready);
        if done.len() > before && core::mem::take(&mut self.refused) {
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        self.home.cancel(user);
    }

    fn in_flight(&self) -> usize {
        self.under_way() + self.for_home.len() + self.ready.len() + self.home.in_flight()
    }

    fn holds_back(&self) -> bool {
        self.home.holds_back() || self.legs.used.iter().any(|leg| leg.queue.holds_back())
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.home.change()
    }
}

impl Drop for DirectQueue {
    /// Without anything under way, or because the loop ends.
    fn drop(&mut self) {
        if !self.writes.is_empty() {
            self.direct.abandoned.fetch_add(1, Ordering::SeqCst);
        }
        self.for_home.drain(..).for_each(Op::give_up);
        self.parked.give_up();
        self.legs.drain(&self.on);
        // The reads are the legs'.
        self.writes.drain().for_each(|write| write.op.give_up());
        self.direct.leave(&self.one);
    }
}

/// Writes of a loop that wait until the regions of their blocks are marked ([`super::unpark`]).
#[derive(Default)]
pub(super) struct Parked {
    /// With the number of times that the loop has asked for its marks.
    pub(super) ops: VecDeque<(Op, u8)>,
    /// One was added since the loop last looked.
    pub(super) is_new: bool,
}

impl Parked {
    fn add(&mut self, op: Op) {
        self.ops.push_back((op, 0));
        self.is_new = true;
    }

    fn len(&self) -> usize {
        self.ops.len()
    }

    fn give_up(&mut self) {
        self.ops.drain(..).for_each(|(op, _)| op.give_up());
    }
}
