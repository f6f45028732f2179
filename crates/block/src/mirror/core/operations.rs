//! The operations of users: taken, given to the engine, and ended.

use super::port::Port;
use super::{Core, Mode};
use crate::check;
use crate::device::DeviceChange;
use crate::limits::MIRROR_QUEUE_OPS;
use crate::mirror::user_op::UserOp;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use std::collections::VecDeque;
use weft_io::DriverId;

impl Core {
    /// Sets the owner of these operations.
    pub(super) fn attach(&mut self, owner: Option<DriverId>) {
        self.owner = owner;
    }

    pub(super) fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let Some((geometry, features)) = self.geometry else { return };
        while let Some(op) = ops.pop_front() {
            if let Some(status) = check::refusal(&op, &geometry, &features) {
                self.ready.push(op.done(Outcome::Done(status)));
                continue;
            }
            if op.kind == OpKind::Discard && !features.discard {
                self.ready.push(op.done(Outcome::SUCCESS));
                continue;
            }
            if matches!(self.mode, Mode::Leaving | Mode::Ended) {
                self.ready.push(op.done(Outcome::NotSent(Status::new(self.gone))));
                continue;
            }
            let is_full = self.held.len() >= MIRROR_QUEUE_OPS;
            match if is_full { Err(op) } else { UserOp::new(op, &self.pool, self.on.counters()) } {
                Ok(mut held) => {
                    held.covers = self.unflushed.acknowledged() + self.loops.acknowledged();
                    let held = self.held.insert(held);
                    if self.take_locks(held) {
                        self.give(held);
                    } else {
                        self.loops.locking.push(held);
                    }
                }
                Err(op) => {
                    ops.push_front(op);
                    self.refused = true;
                    break;
                }
            }
        }
        self.on.wake(self.id);
    }

    /// Gives an operation to the engine.
    pub(super) fn give(&mut self, name: u64) {
        let (Some(engine), Some(held)) = (&mut self.engine, self.held.get_mut(name)) else {
            return;
        };
        let (kind, lba, blocks) = (held.op.kind, held.op.lba, held.op.blocks);
        let failed_on = (self.loops.direct.as_ref())
            .filter(|_| kind == OpKind::Read)
            .and_then(|direct| direct.failed_reads.take(lba, blocks));
        let of_leg = |number| self.legs.iter().position(|leg| leg.last_number == Some(number));
        failed_on.and_then(of_leg).into_iter().for_each(|place| held.failed_on(place));
        let op = match failed_on {
            Some(leg) => engine.read_again(lba, blocks, leg),
            None => engine.submit(kind, lba, blocks),
        };
        held.name = Some(op);
        self.by_name.insert(op, name);
    }

    pub(super) fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.held.len() + self.ready.len()
    }

    /// Returns whether a leg waits for a rate that the user has limited.
    pub(super) fn holds_back(&self) -> bool {
        self.legs.iter().filter_map(|leg| leg.port.as_ref()).any(Port::holds_back)
    }

    pub(super) fn change(&mut self) -> Option<DeviceChange> {
        self.changes.take()
    }

    /// Only what waits for legs is cancelled; anything else ends soon.
    pub(super) fn cancel(&mut self, user: u64) {
        if self.engine.is_none()
            && let Some(name) = self.held.find(|held| held.op.user == user && !held.is_lent)
        {
            self.end_held(name, StatusKind::Aborted);
        }
    }

    /// Ends an operation that no engine has.
    pub(super) fn end_held(&mut self, name: u64, kind: StatusKind) {
        let Some(held) = self.held.remove(name) else { return };
        self.free_locks(&held);
        self.loops.locking.retain(|waits| *waits != name);
        if let Some(of) = held.name.filter(|of| self.by_name.get(of) == Some(&name)) {
            self.by_name.remove(&of);
        }
        let status = Status::new(kind);
        let outcome =
            if held.is_sent { Outcome::settled(status) } else { Outcome::NotSent(status) };
        self.complete(held.op.done(outcome));
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        self.ready.push(completion);
        self.tell();
    }

    pub(super) fn tell(&self) {
        self.owner.iter().for_each(|owner| self.on.wake(*owner));
    }

    /// Operations that an engine had before are given to the new one.
    pub(super) fn give_all(&mut self) {
        self.by_name.clear();
        let names: Vec<u64> = self.held.names().collect();
        for name in names {
            let is_doubtful = |held: &UserOp| {
                matches!(held.op.kind, OpKind::CompareAndWrite { .. }) && held.is_sent
            };
            let Some(held) = self.held.get(name) else { continue };
            if is_doubtful(held) {
                // It would now compare with its own data.
                self.end_held(name, StatusKind::Path);
            } else if held.has_locks {
                self.give(name);
            }
        }
    }

    /// Returns whether a leg still has memory of an operation.
    pub(super) fn lends(&self) -> bool {
        self.held.names().any(|name| self.held.get(name).is_some_and(|held| held.is_lent))
    }
}

impl Drop for Core {
    /// The loop ends.
    fn drop(&mut self) {
        self.held.drain().for_each(|held| held.op.give_up());
    }
}
