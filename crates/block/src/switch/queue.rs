//! A queue that changes to other filters when they are exchanged.

use super::state::SwitchState;
use crate::device::{BlockQueue, DeviceChange, InPlace};
use crate::error::Error;
use crate::op::{Completion, Op};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Segments};

pub(super) struct SwitchQueue {
    state: Arc<SwitchState>,
    generation: u64,
    /// Under the present filters.
    queue: Box<dyn BlockQueue>,
    /// Under previous filters, with operations that have not completed.
    before: Vec<Box<dyn BlockQueue>>,
    on: Handle,
    owner: DriverId,
}

impl SwitchQueue {
    pub(super) fn open(
        state: &Arc<SwitchState>,
        on: &Handle,
        owner: DriverId,
    ) -> Result<Self, Error> {
        let state = Arc::clone(state);
        // An exchange after this is noticed, also if its filters are in place already.
        let generation = state.generation();
        let queue = state.front().open_queue(on, owner)?;
        state.owners.enter(on.remote(), owner);
        Ok(Self { state, generation, queue, before: Vec::new(), on: on.clone(), owner })
    }

    /// Changes to the present filters.
    fn follow(&mut self) {
        let generation = self.state.generation();
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        match self.state.front().open_queue(&self.on, self.owner) {
            Ok(queue) => self.before.push(core::mem::replace(&mut self.queue, queue)),
            Err(e) => tracing::warn!("other filters are not used on one event loop: {e}"),
        }
    }
}

impl BlockQueue for SwitchQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.follow();
        self.queue.submit(ops);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.follow();
        self.queue.reap(done);
        self.before.iter_mut().for_each(|queue| queue.reap(done));
        self.before.retain_mut(|queue| queue.in_flight() > 0);
    }

    fn cancel(&mut self, user: u64) {
        // Queues that do not have the operation do nothing.
        self.queue.cancel(user);
        self.before.iter_mut().for_each(|queue| queue.cancel(user));
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        // Whether there is access must not change while the queue is open, and filters decline it.
        None
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight() + self.before.iter().map(|queue| queue.in_flight()).sum::<usize>()
    }

    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        let mut overdue = self.queue.overdue(given_back);
        for queue in &mut self.before {
            overdue += queue.overdue(given_back);
        }
        overdue
    }

    fn holds_back(&self) -> bool {
        self.queue.holds_back()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        self.queue.change()
    }
}

impl Drop for SwitchQueue {
    fn drop(&mut self) {
        self.state.owners.leave(&self.on.remote(), self.owner);
    }
}
