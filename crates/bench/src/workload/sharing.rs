//! One queue of a device, shared by jobs of one loop: for devices that grant fewer queues than there are jobs.
//!
//! A *carrier* is the driver that the queue wakes. It hands what completed back to the job that it came from, and wakes that. The
//! jobs submit to the queue themselves; what it has no room for waits in one line, first come, first served. An operation carries
//! the seat of its job in the upper half of its name while the queue has it, so nothing is allocated or looked up for an operation.

use crate::error::Error;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weft_block::{BlockDevice, BlockQueue, Completion, Op, Outcome, Status, StatusKind};
use weft_io::{Activity, Driver, DriverId, Handle};

/// Where the seat is in the name of an operation: below it are the names that jobs give, which count from 0 to their depth.
const SEAT_SHIFT: u32 = 32;

/// The queues of a loop, which its jobs are dealt to.
pub(super) struct Queues<'a> {
    device: &'a dyn BlockDevice,
    /// Queues that this loop may open.
    granted: usize,
    /// Jobs that it has.
    jobs: usize,
    lines: Vec<(DriverId, Rc<RefCell<Line>>)>,
    opened: usize,
}

impl<'a> Queues<'a> {
    /// For `jobs` jobs, on a loop that may open at most `granted` queues of the device, at least one.
    pub fn new(device: &'a dyn BlockDevice, granted: usize, jobs: usize) -> Self {
        Self { device, granted: granted.max(1), jobs, lines: Vec::new(), opened: 0 }
    }

    /// A queue for the next job, whose driver is `owner`: one of its own where there are enough, else a share of one.
    ///
    /// # Errors
    /// Those of [`BlockDevice::open_queue`].
    pub fn open(&mut self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let job = self.opened;
        self.opened += 1;
        if self.jobs <= self.granted {
            return Ok(self.device.open_queue(on, owner)?);
        }
        if job < self.granted {
            let line = Carrier::start(self.device, on)?;
            self.lines.push(line);
        }
        let (carrier, line) = &self.lines[job % self.granted];
        let seat = line.borrow_mut().sit_down(owner);
        Ok(Box::new(Share { line: Rc::clone(line), seat, carrier: *carrier, on: on.clone() }))
    }
}

/// A queue and those who share it.
struct Line {
    /// Closed when the last share is dropped.
    queue: Option<Box<dyn BlockQueue>>,
    /// Operations that the queue had no room for.
    waiting: VecDeque<Op>,
    seats: Vec<Seat>,
    /// Seats whose share is still held.
    taken: usize,
    done: Vec<Completion>,
}

/// What is kept for one job.
struct Seat {
    owner: DriverId,
    done: Vec<Completion>,
    /// Operations submitted and not reaped.
    in_flight: usize,
    left: bool,
}

impl Line {
    fn sit_down(&mut self, owner: DriverId) -> u64 {
        self.seats.push(Seat { owner, done: Vec::new(), in_flight: 0, left: false });
        self.taken += 1;
        self.seats.len() as u64 - 1
    }

    /// Offers the queue what waits.
    #[inline]
    fn offer(&mut self) {
        if let Some(queue) = self.queue.as_mut().filter(|_| !self.waiting.is_empty()) {
            queue.submit(&mut self.waiting);
        }
    }

    /// Puts a completion where its job finds it, unless that has gone.
    #[inline]
    fn deliver(&mut self, mut completion: Completion, on: &Handle) {
        let seat = &mut self.seats[(completion.op.user >> SEAT_SHIFT) as usize];
        if seat.left {
            return;
        }
        completion.op.user &= (1 << SEAT_SHIFT) - 1;
        seat.done.push(completion);
        on.wake(seat.owner);
    }
}

/// The driver that the queue wakes.
struct Carrier(Rc<RefCell<Line>>);

impl Carrier {
    fn start(device: &dyn BlockDevice, on: &Handle) -> Result<(DriverId, Rc<RefCell<Line>>), Error> {
        let mut line = None;
        let id = on.try_spawn(|id| {
            let queue = Some(device.open_queue(on, id)?);
            let (waiting, seats, done) = (VecDeque::new(), Vec::new(), Vec::new());
            let shared = Rc::new(RefCell::new(Line { queue, waiting, seats, taken: 0, done }));
            line = Some(Rc::clone(&shared));
            Ok::<_, Error>(Self(shared))
        })?;
        Ok((id, line.expect("made together with the carrier")))
    }
}

impl Driver for Carrier {
    fn work(&mut self, on: &Handle) -> Activity {
        let line = &mut *self.0.borrow_mut();
        let Some(queue) = &mut line.queue else { return Activity::Idle };
        let mut done = core::mem::take(&mut line.done);
        queue.reap(&mut done);
        let busy = !done.is_empty();
        done.drain(..).for_each(|completion| line.deliver(completion, on));
        line.done = done;
        line.offer();
        // A busy driver gets another turn, in which it finds what such a device has done of what waited.
        Activity::busy_if(busy)
    }
}

/// A job's share of a queue.
struct Share {
    line: Rc<RefCell<Line>>,
    seat: u64,
    carrier: DriverId,
    on: Handle,
}

impl BlockQueue for Share {
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let line = &mut *self.line.borrow_mut();
        line.seats[self.seat as usize].in_flight += ops.len();
        let seat = self.seat << SEAT_SHIFT;
        line.waiting.extend(ops.drain(..).map(|op| Op { user: op.user | seat, ..op }));
        line.offer();
        // Some devices are done with an operation when they have taken it, and wake nobody.
        self.on.wake(self.carrier);
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let seat = &mut self.line.borrow_mut().seats[self.seat as usize];
        seat.in_flight -= seat.done.len();
        done.append(&mut seat.done);
    }

    fn cancel(&mut self, user: u64) {
        let line = &mut *self.line.borrow_mut();
        let name = user | self.seat << SEAT_SHIFT;
        match line.waiting.iter().position(|op| op.user == name).and_then(|at| line.waiting.remove(at)) {
            Some(op) => line.deliver(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))), &self.on),
            None => line.queue.iter_mut().for_each(|queue| queue.cancel(name)),
        }
    }

    fn in_flight(&self) -> usize {
        self.line.borrow().seats[self.seat as usize].in_flight
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let queue = {
            let line = &mut *self.line.borrow_mut();
            let seat = &mut line.seats[self.seat as usize];
            (seat.left, seat.done) = (true, Vec::new());
            line.waiting.retain(|op| op.user >> SEAT_SHIFT != self.seat);
            line.taken -= 1;
            if line.taken > 0 {
                return;
            }
            line.queue.take()
        };
        // As when a job drops a queue of its own: its connection is free from now on, in this turn of the loop.
        drop(queue);
        self.on.remove(self.carrier);
    }
}
