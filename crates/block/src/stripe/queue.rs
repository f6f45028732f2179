//! A queue of a stripe: one queue of each member.

use super::members::Members;
use crate::check;
use crate::device::{BlockQueue, DeviceChange, Presence};
use crate::limits::STRIPE_QUEUE_OPS;
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Raw, RawScsi, Status, StatusKind};
use crate::queue::slots::Slots;
use crate::queue::split::merge;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::segment::Divided;
use weft_io::{DriverId, Handle, Segments};

pub(super) struct StripeQueue {
    shared: Arc<Members>,
    members: Vec<Member>,
    /// Operations in flight; the members know an operation by its index here.
    begun: Slots<Begun>,
    /// For the memory of later operations.
    spare: Vec<Divided>,
    /// The parts of the operation that is being cut; empty between calls.
    cut: Vec<Segments>,
    ready: Vec<Completion>,
    returned: Vec<Completion>,
    /// The last reported size, or that with which the queue was opened.
    blocks: u64,
    /// True if it has reported that the stripe is away.
    told_away: bool,
    /// `submit` left operations with the caller.
    refused: bool,
    on: Handle,
    owner: DriverId,
}

struct Member {
    queue: Box<dyn BlockQueue>,
    /// Operations that the queue has not accepted yet.
    passing: VecDeque<Op>,
    away: bool,
}

/// An operation that is under way on some members.
struct Begun {
    /// As it came, without its memory.
    op: Op,
    /// The memory, if it was cut.
    memory: Option<Divided>,
    /// Parts that are still to come back.
    pending: usize,
    outcome: Option<Outcome>,
}

impl StripeQueue {
    pub(super) fn open(shared: Arc<Members>, on: &Handle, owner: DriverId) -> Result<Self, Error> {
        let open = |device: &crate::Device| -> Result<Member, Error> {
            let queue = device.open_queue(on, owner)?;
            Ok(Member {
                queue,
                passing: VecDeque::new(),
                away: device.presence() == Presence::Away,
            })
        };
        let members: Vec<_> = shared.members.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self {
            cut: members.iter().map(|_| Segments::new()).collect(),
            members,
            begun: Slots::default(),
            spare: Vec::new(),
            ready: Vec::new(),
            returned: Vec::new(),
            blocks: shared.blocks(),
            shared,
            told_away: false,
            refused: false,
            on: on.clone(),
            owner,
        })
    }

    /// Gives an operation to the members that have its blocks.
    fn take(&mut self, mut op: Op) {
        if op.kind == OpKind::Flush {
            let name = self.begin(op, None, self.members.len());
            return self
                .members
                .iter_mut()
                .for_each(|m| m.passing.push_back(Op::bare(OpKind::Flush, 0, 0, name)));
        }
        let place = self.shared.layout.place(op.lba);
        if u64::from(op.blocks) <= place.run {
            let (kind, blocks, data) = (op.kind, op.blocks, core::mem::take(&mut op.data));
            let name = self.begin(op, None, 1);
            return self.members[place.member]
                .passing
                .push_back(Op::new(kind, place.lba, blocks, name, data));
        }
        match op.kind {
            OpKind::CompareAndWrite { .. } => {
                self.ready.push(op.done(Outcome::Done(Status::new(StatusKind::Invalid))))
            }
            _ => self.spread(op),
        }
    }

    /// Gives an operation of several chunks to their members.
    fn spread(&mut self, mut op: Op) {
        let (kind, lba, blocks) = (op.kind, op.lba, op.blocks);
        let memory = (kind.data_factor() > 0).then(|| {
            let mut memory = self.spare.pop().unwrap_or_default();
            memory.fill(core::mem::take(&mut op.data));
            self.cut_at_chunks(&mut memory, lba, blocks.into());
            memory
        });
        let layout = self.shared.layout;
        let extent = |member| layout.extent(member, lba, blocks.into());
        let parts = (0..self.members.len()).filter(|&member| extent(member).1 > 0).count();
        let name = self.begin(op, memory, parts);
        for (nth, member) in self.members.iter_mut().enumerate() {
            let (lba, blocks) = extent(nth);
            if blocks > 0 {
                let data = core::mem::take(&mut self.cut[nth]);
                member.passing.push_back(Op::new(kind, lba, blocks as u32, name, data));
            }
        }
    }

    fn cut_at_chunks(&mut self, memory: &mut Divided, mut lba: u64, mut blocks: u64) {
        let block_bytes = self.shared.block_bytes as usize;
        let mut at = 0;
        while blocks > 0 {
            let place = self.shared.layout.place(lba);
            let run = place.run.min(blocks);
            let len = run as usize * block_bytes;
            memory.cut(at, len, &mut self.cut[place.member]);
            (at, lba, blocks) = (at + len, lba + run, blocks - run);
        }
    }

    fn begin(&mut self, op: Op, memory: Option<Divided>, pending: usize) -> u64 {
        self.begun.insert(Begun { op, memory, pending, outcome: None })
    }

    /// Takes in a part that has come back from a member; the last of its operation completes that.
    fn come_back(&mut self, member: usize, completion: Completion) {
        let Completion { op: mut part, outcome } = completion;
        let Some(begun) = self.begun.get_mut(part.user) else { return };
        let outcome = of_the_whole(&self.shared, member, outcome, begun.memory.is_some());
        begun.pending -= 1;
        begun.outcome = Some(begun.outcome.map_or(outcome, |before| merge(before, outcome)));
        let data = core::mem::take(&mut part.data);
        match begun.memory {
            Some(_) => drop(data),
            None => begun.op.data = data,
        }
        if begun.pending > 0 {
            return;
        }
        let Some(Begun { mut op, memory, outcome, .. }) = self.begun.remove(part.user) else {
            return;
        };
        if let Some(mut memory) = memory
            && let Some(data) = memory.take_back()
        {
            op.data = data;
            self.spare.push(memory);
        }
        self.ready.push(op.done(outcome.unwrap_or(Outcome::SUCCESS)));
    }

    fn pass(&mut self) {
        for member in &mut self.members {
            if !member.passing.is_empty() {
                member.queue.submit(&mut member.passing);
            }
        }
    }

    /// Returns the meaning of a member's change for the stripe.
    fn changed(&mut self, member: usize, change: DeviceChange) -> Option<DeviceChange> {
        match change {
            DeviceChange::Resized { .. } => self.resized(),
            DeviceChange::Away => {
                self.members[member].away = true;
                (!core::mem::replace(&mut self.told_away, true)).then_some(DeviceChange::Away)
            }
            DeviceChange::Back => {
                self.members[member].away = false;
                if self.members.iter().any(|member| member.away) {
                    return None;
                }
                self.told_away = false;
                Some(DeviceChange::Back)
            }
            DeviceChange::Access(_) => Some(DeviceChange::Access(self.shared.access_state())),
            DeviceChange::Gone => Some(DeviceChange::Gone),
        }
    }

    fn resized(&mut self) -> Option<DeviceChange> {
        let blocks = self.shared.blocks();
        (core::mem::replace(&mut self.blocks, blocks) != blocks)
            .then_some(DeviceChange::Resized { blocks })
    }
}

/// The outcome on a member, with the blocks of the stripe. `in_parts`: the operation has other
/// parts.
fn of_the_whole(shared: &Members, member: usize, outcome: Outcome, in_parts: bool) -> Outcome {
    let translate = |status: Status| match status.raw {
        Some(Raw::Scsi(raw)) => {
            let information = match status.kind {
                // The place of the difference, in bytes from the start of the data.
                StatusKind::CompareFailed => raw.information.filter(|_| !in_parts),
                _ => raw.information.and_then(|lba| shared.layout.whole(member, lba)),
            };
            Status { raw: Some(Raw::Scsi(RawScsi { information, ..raw })), ..status }
        }
        _ => status,
    };
    match outcome {
        Outcome::Done(status) => Outcome::Done(translate(status)),
        Outcome::NotSent(status) => Outcome::NotSent(translate(status)),
        Outcome::MayHaveExecuted { status, settled } => {
            Outcome::MayHaveExecuted { status: translate(status), settled }
        }
    }
}

impl BlockQueue for StripeQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if !ops.is_empty() {
            let (geometry, features) = (self.shared.geometry(), self.shared.features());
            while self.in_flight() < STRIPE_QUEUE_OPS
                && let Some(op) = ops.pop_front()
            {
                match check::refusal(&op, &geometry, &features) {
                    Some(status) => self.ready.push(op.done(Outcome::Done(status))),
                    None => self.take(op),
                }
            }
        }
        self.pass();
        self.refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.pass();
        let mut returned = core::mem::take(&mut self.returned);
        for member in 0..self.members.len() {
            self.members[member].queue.reap(&mut returned);
            returned.drain(..).for_each(|completion| self.come_back(member, completion));
        }
        self.returned = returned;
        self.pass();
        done.append(&mut self.ready);
        if self.refused && self.in_flight() < STRIPE_QUEUE_OPS {
            self.refused = false;
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, user: u64) {
        let Some(name) = self.begun.find(|begun| begun.op.user == user) else { return };
        for member in 0..self.members.len() {
            let at = self.members[member].passing.iter().position(|part| part.user == name);
            match at.and_then(|at| self.members[member].passing.remove(at)) {
                Some(part) => {
                    self.come_back(
                        member,
                        part.done(Outcome::NotSent(Status::new(StatusKind::Aborted))),
                    );
                    self.on.wake(self.owner);
                }
                None => self.members[member].queue.cancel(name),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.begun.len() + self.ready.len()
    }

    fn holds_back(&self) -> bool {
        self.members.iter().any(|member| member.queue.holds_back())
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.members.iter_mut().map(|member| member.queue.overdue(given_back)).sum()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        for member in 0..self.members.len() {
            while let Some(change) = self.members[member].queue.change() {
                if let Some(told) = self.changed(member, change) {
                    return Some(told);
                }
            }
        }
        None
    }
}

impl Drop for StripeQueue {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| member.passing.drain(..).for_each(Op::give_up));
        self.begun.drain().for_each(|begun| begun.op.give_up());
    }
}
