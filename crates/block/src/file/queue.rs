//! A queue of a file.

use super::execution::Core;
use super::shared::SharedFile;
use crate::device::{BlockQueue, DeviceChange};
use crate::limits::FILE_QUEUE_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::slots::Slots;
use crate::status::{Status, StatusKind};
use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::disk::DiskFile;
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle};

/// The queue. If it is dropped with operations in flight, these continue; a driver waits for them
/// and releases their locks.
pub(super) struct FileQueue(Option<Core>);

impl FileQueue {
    pub(super) fn new(
        shared: Arc<SharedFile>,
        disk: DiskFile,
        trim: Option<DiskFile>,
        on: &Handle,
        owner: DriverId,
    ) -> Self {
        shared.owners.enter(on.remote(), owner);
        let mut core = Core {
            told_blocks: shared.geometry().blocks,
            told_gone: false,
            shared,
            disk,
            trim,
            look_at: on.now(),
            looked: None,
            timer: TimerSlot::default(),
            on: on.clone(),
            remote: on.remote(),
            owner,
            flying: Slots::default(),
            aside: VecDeque::new(),
            stalled: None,
            ready: Vec::new(),
            held: Vec::new(),
            reaped: Vec::new(),
            room: None,
            refused: false,
        };
        // Whoever opens it may have nothing to submit for long.
        core.look();
        Self(Some(core))
    }

    fn core(&mut self) -> &mut Core {
        self.0.as_mut().expect("only `drop` takes it")
    }
}

impl BlockQueue for FileQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let core = self.core();
        while core.in_flight() < FILE_QUEUE_OPS {
            let Some(op) = ops.pop_front() else { return };
            core.take(op);
        }
        core.refused = !ops.is_empty();
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let core = self.core();
        core.look();
        core.advance();
        let made_room = !core.ready.is_empty();
        done.append(&mut core.ready);
        if made_room && core::mem::take(&mut core.refused) {
            core.on.wake(core.owner);
        }
    }

    /// Ends an operation that has not started; the system does not return one that has.
    fn cancel(&mut self, user: u64) {
        let core = self.core();
        if let Some(at) = core.aside.iter().position(|op| op.user == user)
            && let Some(op) = core.aside.remove(at)
        {
            core.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            core.on.wake(core.owner);
        }
    }

    fn in_flight(&self) -> usize {
        self.0.as_ref().map_or(0, Core::in_flight)
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let core = self.core();
        if core.shared.gone.load(Ordering::Acquire) {
            return (!core::mem::replace(&mut core.told_gone, true)).then_some(DeviceChange::Gone);
        }
        let blocks = core.shared.geometry().blocks;
        (core::mem::replace(&mut core.told_blocks, blocks) != blocks)
            .then_some(DeviceChange::Resized { blocks })
    }
}

impl Drop for FileQueue {
    fn drop(&mut self) {
        let Some(mut core) = self.0.take() else { return };
        core.shared.owners.leave(&core.remote, core.owner);
        if core.flying.is_empty() {
            return;
        }
        core.aside.drain(..).for_each(Op::give_up);
        core.ready.clear();
        let on = core.on.clone();
        on.spawn(|id| {
            core.disk.set_owner(id);
            core.trim.iter_mut().for_each(|trim| trim.set_owner(id));
            Rest { core, id }
        });
    }
}

/// The rest of a queue that was dropped with operations in flight.
struct Rest {
    core: Core,
    id: DriverId,
}

impl Driver for Rest {
    fn work(&mut self, on: &Handle) -> Activity {
        self.core.advance();
        let ended = !self.core.ready.is_empty();
        self.core.ready.clear();
        if self.core.flying.is_empty() {
            on.remove(self.id);
        }
        Activity::busy_if(ended)
    }
}
