//! One sharer's end of a queue.

use super::queue::Core;
use crate::device::{BlockQueue, DeviceChange, InPlace};
use crate::op::{Completion, Op, Outcome};
use crate::status::{Status, StatusKind};
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_io::Segments;

/// One sharer's end of a queue; the shared queue does the work.
pub(super) struct Sharer {
    core: Rc<RefCell<Core>>,
    name: u64,
    in_place: bool,
}

impl Sharer {
    /// `name` is that of the sharer in the queue, which is borrowed at present.
    pub(super) fn new(core: Rc<RefCell<Core>>, name: u64, in_place: bool) -> Self {
        Self { core, name, in_place }
    }

    fn with_in_place<R>(&self, refused: R, use_it: impl FnOnce(&mut dyn InPlace) -> R) -> R {
        let core = &mut *self.core.borrow_mut();
        match core.queue.as_mut().and_then(|queue| queue.in_place()) {
            Some(own) => use_it(own),
            None => refused,
        }
    }
}

impl BlockQueue for Sharer {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.core.borrow_mut().submit(self.name, ops);
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.core.borrow_mut().reap(self.name, done);
    }

    fn cancel(&mut self, user: u64) {
        self.core.borrow_mut().cancel(self.name, user);
    }

    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        if self.in_place { Some(self) } else { None }
    }

    fn in_flight(&self) -> usize {
        self.core.borrow().in_flight(self.name)
    }

    /// That of all sharers: the device holds each other's operations back, too.
    fn holds_back(&self) -> bool {
        self.core.borrow().queue.as_ref().is_some_and(|queue| queue.holds_back())
    }

    /// Those of all sharers. Their memory has been given back
    /// ([`crate::time_limit::limited_with_own_memory`]).
    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.core.borrow_mut().queue.as_mut().map_or(0, |queue| queue.overdue(given_back))
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.core.borrow_mut().change(self.name)
    }
}

impl InPlace for Sharer {
    #[inline]
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.with_in_place(false, |own| own.lend(lba, blocks, into))
    }

    #[inline]
    fn spare(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.with_in_place(false, |own| own.spare(lba, blocks, into))
    }

    #[inline]
    fn stores(&mut self) -> bool {
        self.with_in_place(false, |own| own.stores())
    }

    #[inline]
    fn store(&mut self, lba: u64, blocks: u32, data: &[u8]) -> Outcome {
        self.with_in_place(Outcome::NotSent(Status::new(StatusKind::Gone)), |own| {
            own.store(lba, blocks, data)
        })
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        let closed = self.core.borrow_mut().leave(self.name);
        // In this turn of the loop, so that everything the queue holds of its device is released
        // afterwards.
        drop(closed);
    }
}
