//! The operations that the device has, and which of them are overdue.

use super::memory::OwnMemory;
use crate::op::{Op, OpKind, Outcome};
use crate::slots::Slots;
use core::time::Duration;
use weft_io::{Segments, Time};

/// The operations under way. The inner queue knows an operation by its index here.
pub(super) struct UnderWay {
    begun: Slots<Begun>,
    limit: Duration,
    /// Those that are overdue.
    pub(super) overdue: usize,
    /// The earliest time at which one can be overdue.
    pub(super) due: Option<Time>,
}

/// An operation, without its memory.
pub(super) struct Begun {
    /// The submitter's name of it.
    user: u64,
    kind: OpKind,
    lba: u64,
    blocks: u32,
    since: Time,
    /// It was completed at the limit.
    pub(super) overdue: bool,
    /// The user's memory, where the device has other.
    memory: Option<Segments>,
}

impl Begun {
    /// Makes the operation that the inner queue has given back that of the user again.
    #[inline]
    pub(super) fn restore(self, op: &mut Op, is_success: bool) {
        op.user = self.user;
        if let Some(memory) = self.memory {
            OwnMemory::take_out(op, memory, is_success);
        }
    }
}

impl UnderWay {
    pub(super) fn new(limit: Duration) -> Self {
        Self { begun: Slots::default(), limit, overdue: 0, due: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.begun.len()
    }

    /// Gives an operation that begins now the name by which the inner queue knows it.
    #[inline]
    pub(super) fn begin(&mut self, op: &mut Op, memory: Option<Segments>, since: Time) {
        let &mut Op { user, kind, lba, blocks, .. } = op;
        op.user =
            self.begun.insert(Begun { user, kind, lba, blocks, since, overdue: false, memory });
    }

    #[inline]
    pub(super) fn end(&mut self, name: u64) -> Option<Begun> {
        self.begun.remove(name)
    }

    /// The operation that its submitter knows by this name, if it is not overdue.
    pub(super) fn find(&self, user: u64) -> Option<u64> {
        self.begun.find(|begun| begun.user == user && !begun.overdue)
    }

    /// Returns whether the limit of an operation is over.
    pub(super) fn is_over(&self, name: u64, now: Time) -> bool {
        self.begun.get(name).is_some_and(|begun| begun.since + self.limit <= now)
    }

    /// The time of all begins again.
    pub(super) fn restart(&mut self, now: Time) {
        self.begun.values_mut().for_each(|begun| begun.since = now);
    }

    /// Marks those whose limit is over, and gives their names and their ends with `outcome`.
    #[cold]
    pub(super) fn sweep(
        &mut self,
        now: Time,
        outcome: Outcome,
    ) -> Vec<(u64, crate::op::Completion)> {
        let (mut swept, mut next) = (Vec::new(), None::<Time>);
        for (name, begun) in self.begun.iter_mut().filter(|(_, begun)| !begun.overdue) {
            let due = begun.since + self.limit;
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            begun.overdue = true;
            let mut op = Op::bare(begun.kind, begun.lba, begun.blocks, begun.user);
            op.data = begun.memory.take().unwrap_or_default();
            swept.push((name, op.done(outcome)));
        }
        self.overdue += swept.len();
        self.due = next;
        swept
    }
}
