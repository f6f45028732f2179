//! The driver of one queue of a disk: requests of the kernel become operations of a queue of the
//! namespace, and their outcomes are returned to the kernel.

use super::disk::{Disk, Job};
use crate::export::local::hosts::{LocalHosts, Opened};
use crate::export::local::queue::LocalQueue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use weft_block::{BlockQueue, Completion, DeviceChange, Error, Op, OpKind, Outcome};
use weft_connection::limits::{UBLK_RETRY_MS, UBLK_TURNS};
use weft_connection::status::ublk::to_ublk;
use weft_io::event_loop::TimerSlot;
use weft_io::ublk::{UblkDevice, UblkEvent, UblkQueue, UblkRequest, UblkRequestKind};
use weft_io::{Activity, Driver, DriverId, Handle, Segment, Segments};

/// Bytes of a sector, in which the kernel counts.
const SECTOR: u32 = 512;

const EIO: i32 = 5;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// The driver.
pub(super) struct Server {
    id: DriverId,
    disk: Arc<Disk>,
    queue: UblkQueue,
    namespace: LocalQueue,
    /// Requests that are not answered, by their numbers.
    requests: Vec<Option<UblkRequest>>,
    /// Those that wait: for memory, or for the namespace to be reached.
    waiting: VecDeque<u16>,
    retry: TimerSlot,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    taken: Vec<UblkEvent>,
    /// Numbers by which no request comes any more.
    over: usize,
    /// Of the queue.
    number: u16,
    /// The disk is left to another process: nothing more is begun, and no failure is said.
    is_leaving: Arc<AtomicBool>,
}

impl Server {
    pub(super) fn start(
        on: &Handle,
        disk: &Arc<Disk>,
        (hosts, opened): (&Arc<LocalHosts>, &Arc<Opened>),
        (device, number): (&Arc<UblkDevice>, u16),
    ) -> Result<DriverId, Error> {
        let failed = |e: std::io::Error| {
            Error::io(format!("cannot serve queue {number} of {}: {e}", disk.path()), e)
        };
        on.try_spawn(|id| {
            let namespace = LocalQueue::open(hosts, opened, on, id)?;
            let queue = UblkQueue::open(device, number, on, id).map_err(failed)?;
            let depth = usize::from(device.info().depth);
            Ok(Self {
                id,
                disk: Arc::clone(disk),
                queue,
                namespace,
                requests: vec![None; depth],
                waiting: VecDeque::with_capacity(depth),
                retry: TimerSlot::default(),
                ops: VecDeque::with_capacity(depth),
                done: Vec::with_capacity(depth),
                taken: Vec::with_capacity(depth),
                over: 0,
                number,
                is_leaving: disk.leaving(),
            })
        })
    }

    /// Makes an operation of a request, or has it wait.
    fn begin(&mut self, on: &Handle, tag: u16) {
        let Some(request) = self.requests[usize::from(tag)] else { return };
        let unit = self.disk.block_bytes() / SECTOR;
        // A flush has no sectors, and its first one is of no meaning.
        let whole = request.kind == UblkRequestKind::Flush
            || request.sector.is_multiple_of(unit.into()) && request.sectors.is_multiple_of(unit);
        let bytes = request.sectors as usize * SECTOR as usize;
        let has_data =
            matches!(request.kind, UblkRequestKind::Read | UblkRequestKind::Write { .. });
        if !whole || (has_data && bytes > self.queue.request_bytes()) {
            return self.answer(tag, -EINVAL);
        }
        let kind = match request.kind {
            UblkRequestKind::Read => OpKind::Read,
            UblkRequestKind::Write { fua } => OpKind::Write { fua },
            UblkRequestKind::Flush if self.disk.fails_flush(self.number) => {
                return self.answer(tag, -EIO);
            }
            UblkRequestKind::Flush => OpKind::Flush,
            UblkRequestKind::Discard => OpKind::Discard,
            UblkRequestKind::WriteZeroes { deallocate, fua } => {
                OpKind::WriteZeroes { deallocate, fua }
            }
            UblkRequestKind::Unknown(_) => return self.answer(tag, -EOPNOTSUPP),
        };
        let mut data = Segments::new();
        if has_data {
            let Some(mut buf) = on.pool().take(bytes) else { return self.wait(on, tag) };
            if kind != OpKind::Read && self.queue.read_data(tag, 0, &mut buf).is_err() {
                return self.answer(tag, -EIO);
            }
            data.push(Segment::from(buf));
        }
        let (lba, blocks) = match kind {
            OpKind::Flush => (0, 0),
            _ => (request.sector / u64::from(unit), request.sectors / unit),
        };
        self.ops.push_back(Op::new(kind, lba, blocks, tag.into(), data));
    }

    fn wait(&mut self, on: &Handle, tag: u16) {
        self.waiting.push_back(tag);
        self.retry.arm(on, self.id, on.now() + Duration::from_millis(UBLK_RETRY_MS));
    }

    fn answer(&mut self, tag: u16, result: i32) {
        self.requests[usize::from(tag)] = None;
        self.queue.answer(tag, result);
    }

    fn completed(&mut self, on: &Handle, Completion { op, outcome }: Completion) {
        let tag = op.user as u16;
        let Some(request) = self.requests[usize::from(tag)] else { return };
        if outcome.is_success() {
            let result = self.result(&request, &op);
            return self.answer(tag, result);
        }
        // What was not done because the data cannot be reached at present waits until it can be.
        let passes = outcome.status().kind.is_passing();
        if self.is_leaving.load(Relaxed) || matches!(outcome, Outcome::NotSent(_)) && passes {
            return self.wait(on, tag);
        }
        self.answer(tag, to_ublk(&outcome));
    }

    /// The result of a request that was done.
    fn result(&self, request: &UblkRequest, op: &Op) -> i32 {
        let mut at = 0;
        if request.kind == UblkRequestKind::Read {
            for piece in &op.data {
                if self.queue.write_data(op.user as u16, at, piece).is_err() {
                    return -EIO;
                }
                at += piece.len();
            }
        }
        match request.kind {
            UblkRequestKind::Read | UblkRequestKind::Write { .. } => {
                (request.sectors * SECTOR) as i32
            }
            _ => 0,
        }
    }

    /// Submits and reaps, once; tells whether something came of it.
    fn pass(&mut self, on: &Handle) -> bool {
        self.namespace.submit(&mut self.ops);
        let mut done = core::mem::take(&mut self.done);
        self.namespace.reap(&mut done);
        let busy = !done.is_empty();
        done.drain(..).for_each(|completion| self.completed(on, completion));
        self.done = done;
        busy
    }

    fn heard(&mut self) {
        while let Some(change) = self.namespace.change() {
            match change {
                DeviceChange::Resized { blocks } => self.disk.work_on(Job::Resize { blocks }),
                DeviceChange::Gone if !self.is_leaving.load(Relaxed) => {
                    self.disk.work_on(Job::Remove)
                }
                // What waits is tried again from time to time.
                DeviceChange::Gone
                | DeviceChange::Away
                | DeviceChange::Back
                | DeviceChange::Access(_) => {}
            }
        }
    }

    /// Whether this queue is through: its disk is gone, or is left to another process.
    fn has_ended(&self) -> bool {
        let is_over = self.over == self.requests.len();
        (is_over || self.is_leaving.load(Relaxed))
            && self.ops.is_empty()
            && self.namespace.in_flight() == 0
    }
}

impl Driver for Server {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut taken = core::mem::take(&mut self.taken);
        if self.queue.take(on, &mut taken).is_err() {
            on.wake_at(self.id, on.now() + Duration::from_millis(UBLK_RETRY_MS));
        }
        let busy = !taken.is_empty();
        for taken in taken.drain(..) {
            match taken {
                UblkEvent::Over(_) => self.over += 1,
                UblkEvent::Request(tag, request) => {
                    self.requests[usize::from(tag)] = Some(request);
                    // What comes while the disk is being left is the next server's.
                    if !self.is_leaving.load(Relaxed) {
                        self.begin(on, tag);
                    }
                }
            }
        }
        self.taken = taken;
        Activity::busy_if(busy)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if !self.is_leaving.load(Relaxed) {
            for _ in 0..self.waiting.len() {
                let Some(tag) = self.waiting.pop_front() else { break };
                self.begin(on, tag);
            }
        }
        let busy = (0..UBLK_TURNS).take_while(|_| self.pass(on)).count() > 0;
        self.heard();
        if self.has_ended() {
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }

    fn send(&mut self, on: &Handle) -> Activity {
        match self.queue.submit(on) {
            Ok(some) => Activity::busy_if(some),
            Err(_) => {
                on.wake_at(self.id, on.now() + Duration::from_millis(UBLK_RETRY_MS));
                Activity::Idle
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
        self.disk.queue_ended();
    }
}
