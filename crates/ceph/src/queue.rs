//! A queue of an image. librbd begins operations without waiting, so there is no thread between the
//! loop and it; what has ended comes back through the loop's [`Arrivals`].

use crate::limits::{RBD_CLEARED_OBJECTS, RBD_COMPARES, RBD_QUEUE_OPS};
use crate::native::{Arrivals, ImageRequest, Landed, RefusedRequest};
use crate::reason;
use crate::shared_image::{BLOCK_BYTES, SharedImage};
use core::cell::RefCell;
use mio::unix::SourceFd;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use weft_block::{
    BlockQueue, Completion, DeviceChange, Op, OpKind, Outcome, Status, StatusKind, check,
};
use weft_io::segment::{pieces, pieces_mut, total_len};
use weft_io::{Activity, Driver, DriverId, Handle, Segment, Segments};

/// The queue. If it is dropped with operations in flight, these keep their memory until the library
/// has done with them.
pub(crate) struct RbdQueue(Rc<Core>);

struct Core {
    shared: Arc<SharedImage>,
    arrivals: Rc<Arrivals<Rest>>,
    on: Handle,
    owner: DriverId,
    state: RefCell<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// Accepted and not yet reaped.
    in_flight: usize,
    ready: Vec<Completion>,
    /// Comparisons that wait for others to end.
    aside: VecDeque<Op>,
    /// Comparisons under way.
    comparing: usize,
    /// `submit` left operations with the caller.
    refused: bool,
    /// The queue was dropped.
    closed: bool,
    told_blocks: u64,
    told_gone: bool,
}

/// What stays here of an operation that the library has.
struct Rest {
    queue: Rc<Core>,
    /// Without its memory, if the library has that.
    op: Op,
    step: Step,
}

/// A part of an operation.
#[derive(Clone, Copy)]
enum Step {
    /// All of it.
    Whole,
    /// Discards or zeroes up to this offset.
    Cleared(u64),
    /// Everything was written; now it is made durable.
    Flushed,
}

/// The arrivals of a loop.
#[derive(Default)]
struct OnLoop(RefCell<Option<Rc<Arrivals<Rest>>>>);

/// Takes in what has ended.
struct Landing(Rc<Arrivals<Rest>>);

impl Driver for Landing {
    fn receive(&mut self, _: &Handle) -> Activity {
        let landed = self.0.take(|Landed { result, memory, rest }| {
            let queue = Rc::clone(&rest.queue);
            queue.landed(rest, result, memory);
        });
        Activity::busy_if(landed > 0)
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

fn arrivals(on: &Handle) -> io::Result<Rc<Arrivals<Rest>>> {
    let here = on.local::<OnLoop>();
    if let Some(arrivals) = &*here.0.borrow() {
        return Ok(Rc::clone(arrivals));
    }
    let arrivals = Rc::new(Arrivals::new()?);
    on.try_spawn(|id| {
        on.registrar(id, |registrar| registrar.register_mio(&mut SourceFd(&arrivals.fd())))?;
        Ok::<_, io::Error>(Landing(Rc::clone(&arrivals)))
    })?;
    *here.0.borrow_mut() = Some(Rc::clone(&arrivals));
    Ok(arrivals)
}

impl RbdQueue {
    pub(crate) fn open(
        shared: &Arc<SharedImage>,
        on: &Handle,
        owner: DriverId,
    ) -> io::Result<Self> {
        let arrivals = arrivals(on)?;
        shared.owners.enter(on.remote(), owner);
        let state = RefCell::new(QueueState {
            told_blocks: shared.geometry().blocks,
            ..QueueState::default()
        });
        Ok(Self(Rc::new(Core {
            shared: Arc::clone(shared),
            arrivals,
            on: on.clone(),
            owner,
            state,
        })))
    }
}

impl BlockQueue for RbdQueue {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        loop {
            let mut state = self.0.state.borrow_mut();
            if state.in_flight >= RBD_QUEUE_OPS {
                state.refused = !ops.is_empty();
                return;
            }
            let Some(op) = ops.pop_front() else { return };
            state.in_flight += 1;
            drop(state);
            self.0.accept(op);
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let mut state = self.0.state.borrow_mut();
        let count = state.ready.len();
        state.in_flight -= count;
        done.append(&mut state.ready);
        if count > 0 && core::mem::take(&mut state.refused) {
            self.0.on.wake(self.0.owner);
        }
    }

    /// Ends a comparison that has not begun. The library does not give back what it has.
    fn cancel(&mut self, user: u64) {
        let mut state = self.0.state.borrow_mut();
        let at = state.aside.iter().position(|op| op.user == user);
        if let Some(op) = at.and_then(|at| state.aside.remove(at)) {
            state.ready.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            self.0.on.wake(self.0.owner);
        }
    }

    fn in_flight(&self) -> usize {
        self.0.state.borrow().in_flight
    }

    fn change(&mut self) -> Option<DeviceChange> {
        let mut state = self.0.state.borrow_mut();
        if self.0.shared.is_shut_out() {
            return (!core::mem::replace(&mut state.told_gone, true)).then_some(DeviceChange::Gone);
        }
        let blocks = self.0.shared.geometry().blocks;
        (core::mem::replace(&mut state.told_blocks, blocks) != blocks)
            .then_some(DeviceChange::Resized { blocks })
    }
}

impl Drop for RbdQueue {
    fn drop(&mut self) {
        self.0.shared.owners.leave(&self.0.on.remote(), self.0.owner);
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        state.ready.clear();
        state.aside.drain(..).for_each(Op::give_up);
    }
}

impl Core {
    /// First byte and number of bytes.
    fn extent(op: &Op) -> (u64, u64) {
        (op.lba * u64::from(BLOCK_BYTES), u64::from(op.blocks) * u64::from(BLOCK_BYTES))
    }

    fn accept(self: &Rc<Self>, op: Op) {
        let features = self.shared.features();
        if let Some(status) = check::refusal(&op, &self.shared.geometry(), features) {
            return self.end(op, Outcome::Done(status));
        }
        if self.shared.is_shut_out() {
            return self.end(op, Outcome::NotSent(reason::shut_out()));
        }
        match op.kind {
            // What has ended is stored already.
            OpKind::Flush if !features.volatile_cache => self.end(op, Outcome::SUCCESS),
            OpKind::Flush => self.start(op, ImageRequest::Flush, Segments::new(), Step::Whole),
            _ if op.blocks == 0 => self.end(op, Outcome::SUCCESS),
            OpKind::Discard | OpKind::WriteZeroes { .. } => {
                let (offset, _) = Self::extent(&op);
                self.clear(op, offset);
            }
            OpKind::Compare => self.compare(op),
            OpKind::Reserve(_) | OpKind::ReservationReport => {
                unreachable!("an image has no reservations, so they were refused")
            }
            OpKind::Read | OpKind::Write { .. } | OpKind::CompareAndWrite { .. } => {
                self.transfer(op)
            }
        }
    }

    fn transfer(self: &Rc<Self>, mut op: Op) {
        let (offset, _) = Self::extent(&op);
        let memory = core::mem::take(&mut op.data);
        let request = match op.kind {
            OpKind::Read => ImageRequest::Read { offset },
            OpKind::Write { .. } => ImageRequest::Write { offset },
            _ => ImageRequest::CompareAndWrite { offset },
        };
        self.start(op, request, memory, Step::Whole);
    }

    /// Discards or zeroes from `offset` on, as much as one step may.
    fn clear(self: &Rc<Self>, op: Op, offset: u64) {
        let (first, len) = Self::extent(&op);
        let step = RBD_CLEARED_OBJECTS * self.shared.object_bytes();
        let end = (offset - offset % step + step).min(first + len);
        let len = end - offset;
        let request = match op.kind {
            OpKind::WriteZeroes { deallocate, .. } => {
                ImageRequest::WriteZeroes { offset, len, thick: !deallocate }
            }
            _ => ImageRequest::Discard { offset, len },
        };
        self.start(op, request, Segments::new(), Step::Cleared(end));
    }

    /// Reads what is stored, to compare it here.
    fn compare(self: &Rc<Self>, op: Op) {
        let mut state = self.state.borrow_mut();
        if state.comparing == RBD_COMPARES {
            return state.aside.push_back(op);
        }
        let (offset, len) = Self::extent(&op);
        // It may exceed the cap: an operation must not wait here for memory that others hold.
        let Some(buf) = self.on.pool().take_reserve(len as usize) else {
            drop(state);
            return self.end(op, Outcome::NotSent(Status::new(StatusKind::Busy)));
        };
        state.comparing += 1;
        drop(state);
        self.start(
            op,
            ImageRequest::Read { offset },
            Segments::from_iter([buf.into()]),
            Step::Whole,
        );
    }

    fn start(self: &Rc<Self>, op: Op, request: ImageRequest, memory: Segments, step: Step) {
        let rest = Rest { queue: Rc::clone(self), op, step };
        if let Err(RefusedRequest { error, memory, rest }) =
            self.arrivals.start(self.shared.image(), request, memory, rest)
        {
            self.landed(rest, -i64::from(error), memory);
        }
    }

    /// A part of an operation has ended.
    fn landed(self: &Rc<Self>, rest: Rest, result: i64, mut memory: Segments) {
        let Rest { mut op, step, .. } = rest;
        let compared = op.kind == OpKind::Compare;
        let result = self.with_padding(&op, result, &mut memory);
        let outcome = self.outcome(&op, step, result, &memory);
        if !compared && !memory.is_empty() {
            op.data = memory;
        }
        match (outcome, step) {
            (Outcome::SUCCESS, Step::Cleared(to))
                if to < Self::extent(&op).0 + Self::extent(&op).1 =>
            {
                self.go_on(op, to)
            }
            (Outcome::SUCCESS, Step::Whole | Step::Cleared(_))
                if self.is_to_be_flushed(op.kind) =>
            {
                self.start(op, ImageRequest::Flush, Segments::new(), Step::Flushed);
            }
            _ => self.end(op, outcome),
        }
        if compared {
            self.compare_next();
        }
    }

    fn go_on(self: &Rc<Self>, op: Op, from: u64) {
        if self.state.borrow().closed { op.give_up() } else { self.clear(op, from) }
    }

    fn compare_next(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.comparing -= 1;
        let next = state.aside.pop_front();
        drop(state);
        if let Some(op) = next {
            self.compare(op);
        }
    }

    /// Returns whether what was written may be in a cache, and must not stay there.
    fn is_to_be_flushed(&self, kind: OpKind) -> bool {
        kind.fua() && self.shared.features().volatile_cache
    }

    /// The result of a read, counting the padding of the last block, which becomes zeroes: the
    /// library reads what the image has.
    fn with_padding(&self, op: &Op, result: i64, memory: &mut Segments) -> i64 {
        let (read, all) = (usize::try_from(result), total_len(memory));
        let (true, Ok(read)) = (matches!(op.kind, OpKind::Read | OpKind::Compare), read) else {
            return result;
        };
        let missing = all.saturating_sub(read);
        let padding = self.shared.geometry().padding_of(op.lba, op.blocks) as usize;
        if missing == 0 || missing > padding {
            return result;
        }
        pieces_mut(memory, read, missing).for_each(|piece| piece.fill(0));
        result + missing as i64
    }

    fn outcome(&self, op: &Op, step: Step, result: i64, memory: &[Segment]) -> Outcome {
        let (offset, len) = Self::extent(op);
        // An image that was made shorter meanwhile: the library leaves out what lies behind its
        // end.
        let beyond = offset + len > self.shared.geometry().bytes();
        if result < 0 {
            let error = i32::try_from(-result).unwrap_or(i32::MAX);
            if reason::is_blocklisted(error) {
                self.shared.shut_out();
            }
            return if beyond {
                Outcome::Done(Status::new(StatusKind::OutOfRange))
            } else {
                reason::outcome(op.kind, error)
            };
        }
        let reads =
            matches!(op.kind, OpKind::Read | OpKind::Compare) && matches!(step, Step::Whole);
        if beyond || reads && result as u64 != len {
            return Outcome::Done(Status::new(StatusKind::OutOfRange));
        }
        if op.kind == OpKind::Compare && !equal(memory, &op.data) {
            return Outcome::Done(Status::new(StatusKind::CompareFailed));
        }
        Outcome::SUCCESS
    }

    fn end(&self, op: Op, outcome: Outcome) {
        let mut state = self.state.borrow_mut();
        if state.closed {
            return op.give_up();
        }
        state.ready.push(op.done(outcome));
        self.on.wake(self.owner);
    }
}

/// Returns whether the bytes are the same, whatever pieces they are in.
fn equal(stored: &[Segment], wanted: &[Segment]) -> bool {
    let mut at = 0;
    wanted.iter().all(|piece| {
        let found = pieces(stored, at, piece.len()).flatten();
        at += piece.len();
        found.eq(piece.iter())
    })
}
