//! The driver of one queue of a file: requests of the kernel become operations of a queue of the
//! namespace, or are answered from what is known of the file.

use super::disk::{Disk, Job};
use super::names;
use super::order::Ticket;
use super::request::{Origin, Request, Requests, Work};
use crate::export::local::hosts::{LocalHosts, Opened};
use crate::export::local::queue::LocalQueue;
use core::iter::once;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use weft_block::{BlockQueue, Completion, DeviceChange, Error, Op, Outcome};
use weft_connection::limits::{
    FUSE_REQUESTS_PER_TURN, FUSE_RETRY_MS, LOCAL_COMMANDS_MAX, WORK_PASSES_PER_TURN,
};
use weft_connection::status::fuse::to_fuse;
use weft_io::event_loop::TimerSlot;
use weft_io::fuse::{FuseChannel, FuseEvent, FuseRequestKind, FuseRing, LEAD_BYTES, written};
use weft_io::{Activity, Buf, Driver, DriverId, Handle, Time};

const EIO: i32 = 5;

/// The driver.
pub(super) struct Server {
    on: Handle,
    id: DriverId,
    disk: Arc<Disk>,
    requests: Rc<Requests>,
    namespace: LocalQueue,
    lead: [u8; LEAD_BYTES],
    /// Room for the data of the next write.
    room: Option<Buf>,
    /// Requests that wait for an earlier write.
    waiting: VecDeque<u64>,
    /// Requests that wait for memory, or for the namespace to be reached, and when they are tried
    /// again.
    later: (VecDeque<u64>, Option<Time>),
    retry: TimerSlot,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    /// The file system is no longer mounted.
    is_over: bool,
    /// The file is ending: no request is begun.
    is_leaving: Arc<AtomicBool>,
    /// Requests that have come by the ring.
    taken: Vec<FuseEvent>,
}

/// The slots of a ring: `depth` of them for each of these queues of the kernel.
pub(super) struct Slots {
    pub queues: Vec<u16>,
    pub depth: u16,
}

impl Server {
    pub(super) fn start(
        on: &Handle,
        disk: &Arc<Disk>,
        (hosts, opened): (&Arc<LocalHosts>, &Arc<Opened>),
        (channel, slots): (FuseChannel, Option<Slots>),
    ) -> Result<DriverId, Error> {
        let failed = |e: std::io::Error| {
            Error::io(format!("cannot serve {}: {e}", disk.path().display()), e)
        };
        on.try_spawn(|id| {
            let ring = slots.map(|Slots { queues, depth }| {
                FuseRing::open(&channel, (&queues, depth), disk.request_bytes(), (on, id))
            });
            let ring = ring.transpose().map_err(failed)?;
            let requests = Rc::new(Requests::new(channel, ring, disk.block_bytes()));
            let exchange = Some(Rc::clone(&requests) as _);
            let namespace = LocalQueue::open_for(hosts, opened, on, id, exchange)?;
            requests.channel.register(on, id).map_err(failed)?;
            Ok(Self {
                on: on.clone(),
                id,
                disk: Arc::clone(disk),
                requests,
                namespace,
                lead: [0; LEAD_BYTES],
                room: None,
                waiting: VecDeque::new(),
                later: (VecDeque::new(), None),
                retry: TimerSlot::default(),
                ops: VecDeque::new(),
                done: Vec::new(),
                is_over: false,
                is_leaving: disk.leaving(),
                taken: Vec::new(),
            })
        })
    }

    /// Takes a request of the kernel. `None`: there is none at present, or no room for it.
    fn take(&mut self) -> Option<()> {
        if self.is_over || self.is_leaving.load(Relaxed) {
            return None;
        }
        // The end of a request makes room.
        if self.requests.len() >= LOCAL_COMMANDS_MAX {
            return None;
        }
        let bytes = self.disk.request_bytes() as usize;
        let Some(mut room) = self.room.take().or_else(|| self.on.pool().take(bytes)) else {
            self.try_later();
            return None;
        };
        let taken = self.requests.channel.take(&mut self.lead, &mut room);
        self.room = Some(room);
        match taken {
            Ok(request) => {
                let weft_io::fuse::FuseRequest { unique, node, kind } = request?;
                self.serve(Origin { unique, slot: None }, node, kind);
                Some(())
            }
            Err(_) => {
                self.unmounted();
                None
            }
        }
    }

    fn unmounted(&mut self) {
        self.is_over = true;
        self.disk.work_on(Job::Unmounted);
    }

    /// Takes what has come by the ring; returns how many requests that were.
    fn take_from_ring(&mut self) -> usize {
        if self.is_over || self.is_leaving.load(Relaxed) {
            return 0;
        }
        let mut taken = core::mem::take(&mut self.taken);
        let came =
            self.requests.ring().is_none_or(|mut ring| ring.take(&self.on, &mut taken).is_ok());
        if !came {
            self.try_later();
        }
        let count = taken.len();
        for taken in taken.drain(..) {
            match taken {
                FuseEvent::Request(slot, request) => {
                    let weft_io::fuse::FuseRequest { unique, node, kind } = request;
                    self.serve(Origin { unique, slot: Some(slot) }, node, kind);
                }
                FuseEvent::Over if self.is_over => {}
                FuseEvent::Over => self.unmounted(),
            }
        }
        self.taken = taken;
        count
    }

    fn serve(&mut self, origin: Origin, node: u64, kind: FuseRequestKind) {
        let prepared = match names::answer(&self.disk, node, kind) {
            names::Answer::Now(bytes) => return self.give(origin, &bytes),
            names::Answer::Error(number) => return self.refuse(origin, number),
            names::Answer::None => return,
            names::Answer::Of(work, offset, len) => (work, offset, len),
        };
        let (work, offset, len) = prepared;
        let data = match work {
            Work::Write | Work::Merge { .. } if origin.slot.is_none() => {
                let Some(data) = self.received(len as usize) else {
                    return self.refuse(origin, EIO);
                };
                Some(data)
            }
            _ => None,
        };
        let ticket = self.enter(work, offset, len);
        let request = Request { origin, work, offset, len, data, ticket, is_answered: false };
        let name = self.requests.open.borrow_mut().insert(request);
        self.begin(name);
    }

    /// Enters a write among those of all queues.
    fn enter(&self, work: Work, offset: u64, len: u64) -> Option<Ticket> {
        let is_partial = matches!(work, Work::Merge { .. });
        if !is_partial && !matches!(work, Work::Write | Work::Zero { .. }) {
            return None;
        }
        let bytes = u64::from(self.disk.block_bytes());
        let first = offset / bytes;
        let end = offset.saturating_add(len).div_ceil(bytes);
        Some(self.disk.order().enter(first..end, is_partial))
    }

    /// The first bytes of what was received. Large data stays in its buffer; small data is copied,
    /// so that the buffer is free again.
    fn received(&mut self, len: usize) -> Option<Buf> {
        let mut room = self.room.take()?;
        if len >= room.capacity() / 2 {
            room.set_len(len);
            return Some(room);
        }
        // No memory for a small buffer: give the large one away.
        let Some(mut data) = self.on.pool().take(len) else {
            room.set_len(len);
            return Some(room);
        };
        data.copy_from_slice(&room[..len]);
        self.room = Some(room);
        Some(data)
    }

    /// Makes the next operation of a request, or has it wait.
    fn begin(&mut self, name: u64) {
        let bytes = u64::from(self.disk.block_bytes());
        let mut open = self.requests.open.borrow_mut();
        let Some(request) = open.get_mut(name) else { return };
        if let Some(ticket) = request.ticket
            && !self.disk.order().may_begin(ticket, || (self.on.remote(), self.id))
        {
            return self.waiting.push_back(name);
        }
        if matches!(request.work, Work::Merge { is_read: false })
            && !self.requests.widen(request, |bytes| self.on.pool().take(bytes))
        {
            drop(open);
            return self.wait(name);
        }
        let (kind, lba, blocks) = request.operation(bytes);
        drop(open);
        self.ops.push_back(Op::bare(kind, lba, blocks, name));
    }

    fn wait(&mut self, name: u64) {
        self.later.0.push_back(name);
        self.try_later();
    }

    fn try_later(&mut self) {
        let at = self.on.now() + Duration::from_millis(FUSE_RETRY_MS);
        let at = *self.later.1.get_or_insert(at);
        self.retry.arm(&self.on, self.id, at);
    }

    fn completed(&mut self, Completion { op, outcome }: Completion) {
        let name = op.user;
        if outcome.is_success() {
            let goes_on =
                self.requests.open.borrow_mut().get_mut(name).is_some_and(Request::goes_on);
            return if goes_on { self.begin(name) } else { self.finish(name, Ok(())) };
        }
        // The source is out of reach at present: retry until it is back.
        let passes = outcome.status().kind.is_passing();
        if matches!(outcome, Outcome::NotSent(_)) && passes && !self.is_leaving.load(Relaxed) {
            return self.wait(name);
        }
        self.finish(name, Err(to_fuse(&outcome)));
    }

    /// Answers a request.
    fn finish(&mut self, name: u64, outcome: Result<(), i32>) {
        let removed = self.requests.open.borrow_mut().remove(name);
        let Some(request) = removed else { return };
        request.ticket.into_iter().for_each(|ticket| self.disk.order().leave(ticket));
        match (outcome, request.work) {
            _ if request.is_answered => {}
            (Err(number), _) => self.refuse(request.origin, number),
            // It was not given its data.
            (Ok(()), Work::Read) => self.refuse(request.origin, EIO),
            (Ok(()), Work::Write | Work::Merge { .. }) => {
                self.give(request.origin, &written(request.len as u32));
            }
            (Ok(()), Work::Flush | Work::Zero { .. }) => self.give(request.origin, &[]),
        }
    }

    fn give(&self, to: Origin, bytes: &[u8]) {
        self.requests.answer(to, Ok(once(bytes)));
    }

    fn refuse(&self, to: Origin, number: i32) {
        let none = Err::<core::iter::Empty<&[u8]>, i32>(number);
        self.requests.answer(to, none);
    }

    /// Submits and reaps, once; returns whether something ended.
    fn pass(&mut self) -> bool {
        self.namespace.submit(&mut self.ops);
        let mut done = core::mem::take(&mut self.done);
        self.namespace.reap(&mut done);
        let busy = !done.is_empty();
        done.drain(..).for_each(|completion| self.completed(completion));
        self.done = done;
        busy
    }

    fn hear(&mut self) {
        while let Some(change) = self.namespace.change() {
            match change {
                DeviceChange::Resized { blocks } => self.disk.work_on(Job::Resize { blocks }),
                DeviceChange::Gone if !self.is_leaving.load(Relaxed) => {
                    self.disk.work_on(Job::Remove)
                }
                // Waiting requests are retried on a timer.
                DeviceChange::Gone
                | DeviceChange::Away
                | DeviceChange::Back
                | DeviceChange::Access(_) => {}
            }
        }
    }

    /// Returns whether this queue is done: its file is gone, and nothing is under way.
    fn has_ended(&self) -> bool {
        (self.is_over || self.is_leaving.load(Relaxed))
            && self.ops.is_empty()
            && self.namespace.in_flight() == 0
    }
}

impl Driver for Server {
    fn receive(&mut self, _: &Handle) -> Activity {
        // What else comes by the channel, beside a ring, is not urgent.
        let taken = match self.take_from_ring() {
            0 => (0..FUSE_REQUESTS_PER_TURN).map_while(|_| self.take()).count(),
            taken => taken,
        };
        Activity::busy_if(taken > 0)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        if self.later.1.is_some_and(|at| on.now() >= at) {
            self.later.1 = None;
            self.waiting.append(&mut self.later.0);
        }
        for _ in 0..self.waiting.len() {
            let Some(name) = self.waiting.pop_front() else { break };
            self.begin(name);
        }
        let busy = (0..WORK_PASSES_PER_TURN).take_while(|_| self.pass()).count() > 0;
        self.hear();
        if self.has_ended() {
            on.remove(self.id);
        }
        Activity::busy_if(busy)
    }

    fn send(&mut self, on: &Handle) -> Activity {
        let submitted = self.requests.ring().map_or(Ok(false), |mut ring| ring.submit(on));
        Activity::busy_if(submitted.unwrap_or_else(|_| {
            self.try_later();
            false
        }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
        let open = &mut *self.requests.open.borrow_mut();
        let tickets = open.values_mut().filter_map(|request| request.ticket.take());
        tickets.for_each(|ticket| self.disk.order().leave(ticket));
        self.disk.queue_ended();
    }
}
