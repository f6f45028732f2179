//! The queue of one process and loop.

use super::{Pending, State};
use std::collections::VecDeque;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::{BlockQueue, Completion, DeviceChange, Op, OpKind, Outcome, Status, StatusKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Time};

/// Operations that a queue holds until they are reaped; it accepts no more until then.
const DEPTH: usize = 64;

pub(super) struct StoreQueue {
    state: Arc<Lock<State>>,
    client: u64,
    block_bytes: usize,
    on: Handle,
    owner: DriverId,
    held: Vec<Held>,
    timer: TimerSlot,
    sizes_seen: u64,
    /// `submit` left operations with the caller.
    refused: bool,
}

struct Held {
    /// When it is executed.
    due: Time,
    /// When that is told.
    told: Time,
    number: u64,
    op: Op,
    fails: bool,
    /// Ended before its time.
    early: Option<Outcome>,
}

impl StoreQueue {
    pub(super) fn new(
        state: Arc<Lock<State>>,
        client: u64,
        block_bytes: usize,
        on: Handle,
        owner: DriverId,
        sizes_seen: u64,
    ) -> Self {
        Self {
            state,
            client,
            block_bytes,
            on,
            owner,
            held: Vec::new(),
            timer: TimerSlot::default(),
            sizes_seen,
            refused: false,
        }
    }

    /// Takes an operation, whose effect is scheduled.
    fn take(&mut self, state: &mut State, op: Op) {
        state.next += 1;
        let (number, fails) = (state.next, state.rng.one_in(state.behaviour.error_one_in));
        let due = self.on.now() + state.draw_delay();
        let early = state.refusal(op.lba, op.blocks).map(|kind| Outcome::Done(Status::new(kind)));
        if early.is_none() && op.kind != OpKind::Read {
            let data = op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
            let (lba, blocks, kind, mark) = (op.lba, op.blocks, op.kind, state.content.mark());
            state.pending.insert(
                (due, number),
                Pending { lba, blocks, kind, data, mark, fails, client: self.client },
            );
            state.ended.insert(number, Status::SUCCESS);
        }
        let told = if op.kind.is_write() { due + state.lag(number) } else { due };
        self.held.push(Held { due, told, number, op, fails, early });
    }

    /// How an operation ended whose time has come.
    fn end(&self, state: &mut State, held: &mut Held) -> Outcome {
        if let Some(early) = held.early {
            return early;
        }
        if held.op.kind != OpKind::Read {
            return Outcome::Done(state.ended.remove(&held.number).unwrap_or(Status::SUCCESS));
        }
        if held.fails
            || state
                .bad
                .range(held.op.lba..held.op.lba + u64::from(held.op.blocks))
                .next()
                .is_some()
        {
            return Outcome::Done(Status::new(StatusKind::Media));
        }
        let mut bytes = vec![0; held.op.blocks as usize * self.block_bytes];
        for (block, lba) in bytes.chunks_mut(self.block_bytes).zip(held.op.lba..) {
            state.content.read(lba, block);
        }
        let mut at = 0;
        for segment in held.op.data.iter_mut() {
            let len = segment.len();
            segment.copy_from_slice(&bytes[at..at + len]);
            at += len;
        }
        Outcome::SUCCESS
    }
}

impl BlockQueue for StoreQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock();
        state.advance(self.on.now());
        while self.held.len() < DEPTH
            && let Some(op) = ops.pop_front()
        {
            self.take(&mut state, op);
        }
        self.refused = !ops.is_empty();
        if let Some(first) = self.held.iter().map(|held| held.told).min() {
            self.timer.arm(&self.on, self.owner, first);
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let now = self.on.now();
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock();
        state.advance(now);
        let is_due = |held: &Held| held.told <= now || held.early.is_some();
        let (mut due, later): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.held).into_iter().partition(is_due);
        self.held = later;
        due.sort_by_key(|held| (held.told, held.number));
        for mut held in due {
            let outcome = self.end(&mut state, &mut held);
            done.push(held.op.done(outcome));
        }
        if let Some(first) = self.held.iter().map(|held| held.told).min() {
            self.timer.arm(&self.on, self.owner, first);
        }
        if core::mem::take(&mut self.refused) {
            self.on.wake(self.owner);
        }
    }

    /// Heeded or not; what is heeded has had no effect.
    fn cancel(&mut self, user: u64) {
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock();
        let one_in = state.behaviour.cancel_one_in;
        let found = self.held.iter_mut().find(|held| held.op.user == user && held.early.is_none());
        let Some(held) = found.filter(|_| state.rng.one_in(one_in)) else { return };
        let undone = held.op.kind == OpKind::Read
            || state.pending.remove(&(held.due, held.number)).is_some();
        if undone {
            state.ended.remove(&held.number);
            held.early = Some(Outcome::settled(Status::new(StatusKind::Aborted)));
            self.on.wake(self.owner);
        }
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let state = self.state.lock();
        (state.sizes != self.sizes_seen).then(|| {
            self.sizes_seen = state.sizes;
            DeviceChange::Resized { blocks: state.blocks }
        })
    }
}

impl Drop for StoreQueue {
    /// Its process has died, or nobody waits any more. What it has is executed when its time comes.
    fn drop(&mut self) {
        let mut state = self.state.lock();
        for held in self.held.drain(..) {
            state.ended.remove(&held.number);
            held.op.give_up();
        }
        let (remote, owner) = (self.on.remote(), self.owner);
        state.owners.retain(|(at, id)| !(at.is_same_loop(&remote) && *id == owner));
    }
}
