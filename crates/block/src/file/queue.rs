//! A queue of a file: which operations can start, what the disk is to do, and how they end.

use super::durability::{Before, Ticket, is_durable};
use super::room::ReservedRoom;
use super::scratch::{self, Use};
use super::shared::SharedFile;
use crate::check;
use crate::device::{BlockQueue, DeviceChange};
use crate::limits::{DISK_LOOK_MS, FILE_LOOK_MS, FILE_QUEUE_OPS};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::status::{Status, StatusKind};
use crate::queue::interlock::{LockMode, Span};
use crate::queue::slots::Slots;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use weft_io::disk::{DiskDone, DiskFile, DiskKind, DiskOp};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Time};

/// A queue. If it is dropped with operations in flight, these continue; a driver waits for them
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

/// Operations of a queue in flight.
struct Core {
    shared: Arc<SharedFile>,
    disk: DiskFile,
    /// For discards on a disk.
    trim: Option<DiskFile>,
    /// The last reported number of blocks.
    told_blocks: u64,
    told_gone: bool,
    /// When to look after the disk or file.
    look_at: Time,
    /// The turn of the loop in which this last looked at the end of a file before a write.
    looked: Option<Time>,
    timer: TimerSlot,
    on: Handle,
    remote: RemoteLoop,
    owner: DriverId,
    flying: Slots<Flying>,
    /// Operations that cannot start yet, because of an overlap or because there is no memory or no
    /// room at the disk.
    aside: VecDeque<Op>,
    /// The second half of a compare-and-write for which the disk had no room.
    stalled: Option<DiskOp>,
    ready: Vec<Completion>,
    /// Successful operations that can be reported when others have ended.
    held: Vec<(Before, Op)>,
    reaped: Vec<DiskDone>,
    /// Held by the one operation of this queue that uses the file's own memory.
    room: Option<ReservedRoom>,
    /// `submit` left operations with the caller.
    refused: bool,
}

/// An operation in progress at the disk.
struct Flying {
    op: Op,
    span: Option<Span>,
    scratch: Option<Use>,
    durable: Option<Ticket>,
}

/// Execution of an operation.
struct Plan {
    kind: DiskKind,
    mode: Option<LockMode>,
    /// It uses the queue's buffer instead of its own memory.
    scratch: Option<Use>,
    /// Bytes at the end of its blocks that the file does not have; they are not read.
    padding: u32,
}

impl Core {
    fn in_flight(&self) -> usize {
        self.flying.len() + self.aside.len() + self.ready.len() + self.held.len()
    }

    fn take(&mut self, op: Op) {
        if let Some(status) = check::refusal(&op, &self.shared.geometry(), &self.shared.features) {
            self.ready.push(op.done(Outcome::Done(status)));
        } else if self.is_needless(&op) {
            self.ready.push(op.done(Outcome::SUCCESS));
        } else if let Err(op) = self.start(op, false) {
            self.aside.push_back(op);
        }
    }

    /// A discard that the file does not support, or a flush of a file that is never written.
    fn is_needless(&self, op: &Op) -> bool {
        match op.kind {
            OpKind::Discard => !self.shared.features.discard && !self.shared.has_lost(op),
            OpKind::Flush => !self.shared.features.write,
            _ => false,
        }
    }

    fn plan(&self, op: &Op) -> Plan {
        let direct = self
            .shared
            .direct
            .is_some_and(|direct| !scratch::suits(op, direct, self.shared.geometry.block_bytes));
        let padding = match op.kind {
            OpKind::Read | OpKind::Compare => self.shared.geometry().padding_of(op.lba, op.blocks),
            _ => 0,
        };
        let reads_part = direct || padding > 0;
        let (kind, mode, scratch) = match op.kind {
            OpKind::Read => {
                (DiskKind::Read, Some(LockMode::Shared), reads_part.then_some(Use::Read))
            }
            OpKind::Write { fua } => (
                DiskKind::Write { dsync: fua },
                Some(LockMode::Exclusive),
                direct.then_some(Use::Write),
            ),
            OpKind::Flush => (DiskKind::Sync, None, None),
            OpKind::Discard => (DiskKind::Discard, Some(LockMode::Exclusive), None),
            OpKind::WriteZeroes { deallocate, fua } => {
                let free = deallocate && self.shared.features.discard;
                (DiskKind::WriteZeroes { free, dsync: fua }, Some(LockMode::Exclusive), None)
            }
            OpKind::Compare => (DiskKind::Read, Some(LockMode::Shared), Some(Use::Compare)),
            OpKind::CompareAndWrite { fua } => {
                (DiskKind::Read, Some(LockMode::Exclusive), Some(Use::CompareAndWrite { fua }))
            }
            OpKind::Reserve(_) | OpKind::ReservationReport => {
                unreachable!("a file refuses them before it plans")
            }
        };
        Plan { kind, mode, scratch, padding }
    }

    /// Returns whether blocks of the operation lie beyond the end of a truncated file. The first
    /// write in each turn of the loop reads the size before, as it would extend a truncated file.
    fn has_lost(&mut self, op: &Op) -> bool {
        if op.kind.is_write() && self.looked != Some(self.on.now()) {
            self.looked = Some(self.on.now());
            self.shared.look_at_end();
        }
        self.shared.has_lost(op)
    }

    /// Passes an operation to the disk, or returns it if it must wait. `again` marks one that has
    /// waited.
    fn start(&mut self, mut op: Op, again: bool) -> Result<(), Op> {
        if self.has_lost(&op) {
            self.ready.push(op.done(Outcome::Done(Status::new(StatusKind::Media))));
            return Ok(());
        }
        let Plan { kind, mode, scratch, padding } = self.plan(&op);
        if scratch.is_some() && self.room.is_some() {
            return Err(op);
        }
        let block_bytes = u64::from(self.shared.geometry.block_bytes);
        let (offset, len) = (op.lba * block_bytes, u64::from(op.blocks) * block_bytes);
        let span = mode.map(|mode| Span::new(offset, len, mode));
        let len = len - u64::from(padding);
        if let Some(span) = span
            && !self.shared.interlock.try_lock(span, again, || (self.remote.clone(), self.owner))
        {
            return Err(op);
        }
        let room = scratch
            .and_then(|_| self.shared.room.take(again, || (self.remote.clone(), self.owner)));
        if scratch.is_some() && room.is_none() {
            self.unlock(span);
            return Err(op);
        }
        let data = match scratch {
            None => core::mem::take(&mut op.data),
            // It may exceed the cap: an operation must not wait here for memory that others hold.
            Some(usage) => match self.on.pool().take_reserve(len as usize) {
                Some(buf) => scratch::begin(usage, buf, &op),
                None => {
                    self.unlock(span);
                    self.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Busy))));
                    return Ok(());
                }
            },
        };
        let durable = match is_durable(op.kind).then(|| self.shared.durability.begin()).transpose()
        {
            Ok(durable) => durable,
            Err(status) => {
                self.unlock(span);
                if scratch.is_none() {
                    op.data = data;
                }
                self.ready.push(op.done(Outcome::Done(status)));
                return Ok(());
            }
        };
        self.room = room.or(self.room.take());
        let user = self.flying.insert(Flying { op, span, scratch, durable });
        let disk =
            self.trim.as_mut().filter(|_| kind == DiskKind::Discard).unwrap_or(&mut self.disk);
        disk.submit(DiskOp { kind, offset, len, data, user })
            .map_err(|refused| self.take_back(refused))
    }

    /// Undoes `start`.
    fn take_back(&mut self, refused: DiskOp) -> Op {
        let Flying { mut op, span, scratch, durable } =
            self.flying.remove(refused.user).expect("it was given this name just now");
        self.unlock(span);
        if let Some(ticket) = durable {
            self.shared.durability.end(ticket);
        }
        match scratch {
            None => op.data = refused.data,
            Some(_) => self.room = None,
        }
        op
    }

    fn unlock(&self, span: Option<Span>) {
        if let Some(span) = span {
            self.shared.interlock.unlock(span);
        }
    }

    /// Reaps the disk's completions, and starts operations that can start now.
    fn advance(&mut self) {
        let mut reaped = core::mem::take(&mut self.reaped);
        self.disk.reap(&mut reaped);
        if let Some(trim) = &mut self.trim {
            trim.reap(&mut reaped);
        }
        reaped.drain(..).for_each(|done| self.finish(done));
        self.reaped = reaped;
        if !self.held.is_empty() {
            self.tell_held();
        }
        if let Some(op) = self.stalled.take() {
            self.stalled = self.disk.submit(op).err();
        }
        while let Some(op) = self.aside.pop_front() {
            if let Err(op) = self.start(op, true) {
                return self.aside.push_front(op);
            }
        }
    }

    fn finish(&mut self, done: DiskDone) {
        let DiskDone { op: disk_op, result } = done;
        let Some(Flying { mut op, span, scratch, durable }) = self.flying.remove(disk_op.user)
        else {
            return;
        };
        let status = match (result, scratch) {
            // A discard is a hint; some disks accept it only for some ranges.
            (Err(error), _) if op.kind == OpKind::Discard && is_refusal(&error) => Status::SUCCESS,
            (Err(error), _) => self.status_of(&error, disk_op.offset),
            (Ok(()), None) => Status::SUCCESS,
            // Cut since the first half: the second one must not make it long again.
            (Ok(()), Some(Use::CompareAndWrite { .. })) if self.has_lost(&op) => {
                Status::new(StatusKind::Media)
            }
            (Ok(()), Some(Use::CompareAndWrite { fua })) if scratch::equal(&disk_op.data, &op) => {
                return self.store(
                    Flying { op, span, scratch: Some(Use::Write), durable },
                    disk_op,
                    fua,
                );
            }
            (Ok(()), Some(usage)) => scratch::end(usage, &disk_op.data, &mut op),
        };
        match scratch {
            None => op.data = disk_op.data,
            Some(_) => self.room = None,
        }
        self.unlock(span);
        match durable {
            Some(ticket) => {
                // The first half of a compare-and-write only reads.
                let lost = !matches!(scratch, Some(Use::CompareAndWrite { .. }))
                    && self.has_lost_data(op.kind, status);
                self.durable_ended(ticket, op, status, lost);
            }
            None => self.ready.push(op.done(Outcome::Done(status))),
        }
    }

    /// An operation that makes something durable has ended; `lost`: cached data may have been lost.
    fn durable_ended(&mut self, ticket: Ticket, op: Op, status: Status, lost: bool) {
        if lost && self.shared.durability.fail(status) {
            self.shared.log_not_durable(status);
        }
        if op.kind == OpKind::Flush {
            // What was cut off is not stored, although the system has made the rest durable.
            self.shared.look_at_end();
            self.ask_after_flush(status);
        }
        let before = self.shared.durability.end(ticket);
        if !status.is_success() {
            // A failed flush has lost written data, whatever error the system reports.
            let full = op.kind == OpKind::Flush && status.kind == StatusKind::NoSpace;
            let status = if full { Status { kind: StatusKind::Media, ..status } } else { status };
            return self.ready.push(op.done(Outcome::Done(status)));
        }
        // A write that bypasses the page cache gets its own error.
        if op.kind != OpKind::Flush && self.shared.direct.is_some() {
            return self.ready.push(op.done(Outcome::SUCCESS));
        }
        self.held.push((before, op));
        self.tell_held();
    }

    /// Asks the server of a file for its length after a flush, which is held back until the answer:
    /// a ticket that is taken before that of the flush ends is among those that it waits for.
    fn ask_after_flush(&self, status: Status) {
        if let Some(server) = &self.shared.server
            && status.is_success()
            && let Ok(ticket) = self.shared.durability.begin()
        {
            server.ask(ticket);
        }
    }

    /// Returns whether a failure may concern cached data, whose error the system reports only once.
    fn has_lost_data(&self, kind: OpKind, status: Status) -> bool {
        match status.kind {
            StatusKind::Success
            | StatusKind::CompareFailed
            | StatusKind::Unsupported
            | StatusKind::Invalid => false,
            // With direct I/O the error means that there is no space for these blocks.
            StatusKind::NoSpace => kind == OpKind::Flush || self.shared.direct.is_none(),
            _ => true,
        }
    }

    /// Reports operations whose success is certain, or that failed after all.
    fn tell_held(&mut self) {
        for (before, op) in core::mem::take(&mut self.held) {
            match self.shared.durability.verdict(before, || (self.remote.clone(), self.owner)) {
                Some(status) => self.ready.push(op.done(Outcome::Done(status))),
                None => self.held.push((before, op)),
            }
        }
    }

    /// The second half of a compare-and-write whose comparison succeeded.
    fn store(&mut self, flying: Flying, mut disk_op: DiskOp, fua: bool) {
        scratch::fill_new(&mut disk_op.data, &flying.op);
        disk_op.kind = DiskKind::Write { dsync: fua };
        disk_op.user = self.flying.insert(flying);
        self.stalled = self.disk.submit(disk_op).err();
    }

    /// Looks after the disk or file from time to time, also while nothing is in flight. All queues
    /// of a loop do so in the same turn.
    fn look(&mut self) {
        let now = self.on.now();
        if now >= self.look_at {
            self.shared.look();
            let every = if self.shared.disk.is_some() { DISK_LOOK_MS } else { FILE_LOOK_MS };
            let every = Duration::from_millis(every).as_nanos() as u64;
            self.look_at = Time::from_nanos((now.as_nanos() / every + 1).saturating_mul(every));
        }
        self.timer.arm(&self.on, self.owner, self.look_at);
    }

    /// The status for an error of an operation that began at this byte.
    fn status_of(&self, error: &io::Error, offset: u64) -> Status {
        if self.shared.disk.is_some() {
            self.shared.look();
            if self.shared.gone.load(Ordering::Acquire) {
                return Status { kind: StatusKind::Gone, ..Status::from(error) };
            }
        } else if error.kind() == io::ErrorKind::UnexpectedEof {
            self.shared.look();
            // It is long again already: nobody knows how short it was.
            if !self.shared.length.is_cut() {
                self.shared.length.cut(offset);
            }
        }
        Status::from(error)
    }
}

/// Returns whether the error means that the system does not support the operation, here or at all.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

impl Drop for Core {
    /// The locks of operations in flight must not outlive this, nor the memory that others wait
    /// for.
    fn drop(&mut self) {
        for Flying { op, span, durable, .. } in self.flying.drain() {
            span.into_iter().for_each(|span| self.shared.interlock.unlock(span));
            if let Some(ticket) = durable {
                self.shared.durability.end(ticket);
            }
            op.give_up();
        }
        self.held.drain(..).for_each(|(_, op)| op.give_up());
        self.aside.drain(..).for_each(Op::give_up);
    }
}
