//! Operations of the caller on an event loop: cut into operations of the device, submitted, and
//! reported.
//!
//! Data is copied between the caller's memory and memory of the loop, except for regions on devices
//! that always complete an operation together with its memory: those use the region itself.

use crate::failure::{Code, Completion, MAY_HAVE_EXECUTED, MAY_STILL_EXECUTE};
use crate::limits::PART_BYTES;
use crate::memory::{CallerBytes, RegionBytes, RegionsInUse};
use crate::order;
use crate::outbox::Outbox;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_block::slots::Slots;
use weft_block::{BlockDevice, BlockQueue, Error, Geometry, Op, OpKind};
use weft_io::segment::pieces;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// Operations of the device that wait for room in its queue; more are cut when it has taken some.
const CUT_AHEAD: usize = 64;

/// The data of a request.
pub enum Data {
    /// It has none.
    None,
    /// The caller's bytes, which are copied.
    Bytes(CallerBytes),
    /// Bytes to compare with, and as many to write.
    Pair(CallerBytes, CallerBytes),
    /// A part of a region.
    Region(RegionBytes),
}

/// An operation of the caller, which has been checked: it is within the device, and its data has
/// the right length.
pub struct CheckedOp {
    /// The kind of operation.
    pub kind: OpKind,
    /// First block.
    pub lba: u64,
    /// Number of blocks; 0 for a flush.
    pub blocks: u64,
    /// Its data.
    pub data: Data,
    /// The caller's number for it.
    pub user: u64,
    /// The outbox of its completion.
    pub outbox: Arc<Outbox>,
}

/// An order of the caller to a worker.
enum Order {
    Start(CheckedOp),
    Cancel { user: u64, outbox: Arc<Outbox> },
}

/// Orders on their way to a worker; `None` if it has ended.
pub struct Inbox(Lock<Option<Vec<Order>>>);

impl Default for Inbox {
    fn default() -> Self {
        Self(Lock::new(Some(Vec::new())))
    }
}

impl Inbox {
    /// Hands requests over: whether the worker has to be woken for that; `None` if it has ended.
    pub fn start(&self, requests: impl IntoIterator<Item = CheckedOp>) -> Option<bool> {
        let mut orders = self.0.lock();
        let orders = orders.as_mut()?;
        let was_empty = orders.is_empty();
        orders.extend(requests.into_iter().map(Order::Start));
        order::precedes(self);
        Some(was_empty && !orders.is_empty())
    }

    /// Asks for an early end of the operations with this number. As [`Inbox::start`].
    pub fn cancel(&self, user: u64, outbox: &Arc<Outbox>) -> Option<bool> {
        let mut orders = self.0.lock();
        let orders = orders.as_mut()?;
        let was_empty = orders.is_empty();
        orders.push(Order::Cancel { user, outbox: Arc::clone(outbox) });
        Some(was_empty)
    }

    /// Returns whether the worker has ended.
    pub fn is_closed(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// A request that has not been reported.
struct Flight {
    request: CheckedOp,
    /// Blocks that were cut off it.
    cut: u64,
    /// All of it was cut, or the rest never will be.
    is_cut: bool,
    /// Operations of the device that have not ended.
    parts: u32,
    /// The first of its operations that failed.
    failed: Option<Completion>,
}

/// An operation of the device.
struct Part {
    flight: u64,
    /// Offset of its data in that of its request, bytes.
    at: usize,
}

/// The driver.
pub struct Worker {
    id: DriverId,
    queue: Box<dyn BlockQueue>,
    inbox: Arc<Inbox>,
    flights: Slots<Flight>,
    parts: Slots<Part>,
    /// Requests that are not cut to the end, in order of arrival.
    cutting: VecDeque<u64>,
    /// Waiting for room in the queue.
    ops: VecDeque<Op>,
    done: Vec<weft_block::Completion>,
    ended: Vec<(Arc<Outbox>, Completion)>,
    orders: Vec<Order>,
    /// `None` if the device may complete an operation and still use its memory.
    lender: Option<Rc<RegionsInUse>>,
    given_back: Vec<Segments>,
    block_bytes: u64,
    /// Maximum blocks of an operation with data.
    part_blocks: u64,
}

impl Worker {
    /// A worker for `device` on the loop of `on`; `lends` says whether the device completes each
    /// operation together with its memory.
    ///
    /// # Errors
    /// The device grants no further queue.
    pub fn new(
        on: &Handle,
        id: DriverId,
        (device, lends): (&dyn BlockDevice, bool),
        inbox: Arc<Inbox>,
    ) -> Result<Self, Error> {
        let Geometry { block_bytes, max_transfer_bytes, .. } = device.geometry();
        let block_bytes = u64::from(block_bytes);
        let part_bytes = PART_BYTES.min(max_transfer_bytes.into());
        Ok(Self {
            id,
            queue: device.open_queue(on, id)?,
            inbox,
            flights: Slots::default(),
            parts: Slots::default(),
            cutting: VecDeque::new(),
            ops: VecDeque::new(),
            done: Vec::new(),
            ended: Vec::new(),
            orders: Vec::new(),
            lender: lends.then(Rc::default),
            given_back: Vec::new(),
            block_bytes,
            part_blocks: (part_bytes / block_bytes).max(1),
        })
    }

    fn take_orders(&mut self) {
        let mut orders = core::mem::take(&mut self.orders);
        if let Some(waiting) = self.inbox.0.lock().as_mut() {
            core::mem::swap(waiting, &mut orders);
            order::follows(&*self.inbox);
        }
        for order in orders.drain(..) {
            match order {
                Order::Start(request) => {
                    let flight = Flight { request, cut: 0, is_cut: false, parts: 0, failed: None };
                    let name = self.flights.insert(flight);
                    self.cutting.push_back(name);
                }
                Order::Cancel { user, outbox } => self.cancel(user, &outbox),
            }
        }
        self.orders = orders;
    }

    fn cancel(&mut self, user: u64, outbox: &Arc<Outbox>) {
        let is_it = |flight: &Flight| {
            flight.request.user == user && Arc::ptr_eq(&flight.request.outbox, outbox)
        };
        let found = self.flights.iter_mut().filter(|(_, flight)| is_it(flight));
        let names: Vec<u64> = found.map(|(name, _)| name).collect();
        for name in names {
            let parts = self.parts.iter_mut().filter(|(_, part)| part.flight == name);
            let parts: Vec<u64> = parts.map(|(part, _)| part).collect();
            for part in parts {
                match self.ops.iter().position(|op| op.user == part) {
                    Some(at) => {
                        self.ops.remove(at).into_iter().for_each(Op::give_up);
                        self.parts.remove(part);
                        self.end_part(name, Some(Completion::failed(user, Code::Cancelled, 0)));
                    }
                    None => self.queue.cancel(part),
                }
            }
            let is_waiting = self.flights.get(name).is_some_and(|flight| !flight.is_cut);
            if is_waiting {
                self.fail(name, Completion::failed(user, Code::Cancelled, 0));
                self.report_if_ended(name);
            }
        }
    }

    /// Notes that a request has failed: nothing more of it is begun.
    fn fail(&mut self, name: u64, why: Completion) {
        let Some(flight) = self.flights.get_mut(name) else { return };
        flight.failed.get_or_insert(why);
        if !core::mem::replace(&mut flight.is_cut, true) {
            self.cutting.retain(|other| *other != name);
        }
    }

    fn end_part(&mut self, name: u64, failed: Option<Completion>) {
        if let Some(flight) = self.flights.get_mut(name) {
            flight.parts -= 1;
        }
        if let Some(why) = failed {
            self.fail(name, why);
        }
        self.report_if_ended(name);
    }

    fn report_if_ended(&mut self, name: u64) {
        if self.flights.get(name).is_some_and(|flight| flight.is_cut && flight.parts == 0)
            && let Some(Flight { request, failed, .. }) = self.flights.remove(name)
        {
            let ended = Completion { user: request.user, ..failed.unwrap_or_default() };
            self.ended.push((request.outbox, ended));
        }
    }

    /// Cuts requests into operations while there is memory.
    fn cut(&mut self, on: &Handle) {
        while self.ops.len() < CUT_AHEAD
            && let Some(&name) = self.cutting.front()
            && let Some(op) = self.next_part(on, name)
        {
            self.ops.push_back(op);
        }
    }

    /// The next operation of a request; `None` if there is no memory for it.
    fn next_part(&mut self, on: &Handle, name: u64) -> Option<Op> {
        let flight = self.flights.get_mut(name)?;
        let CheckedOp { kind, lba, blocks, ref data, .. } = flight.request;
        let most = if matches!(data, Data::None) { u32::MAX.into() } else { self.part_blocks };
        let count = (blocks - flight.cut).min(most);
        let at = (flight.cut * self.block_bytes) as usize;
        let bytes = (count * self.block_bytes) as usize * kind.data_factor();
        // Whoever has nothing else may exceed the cap, so that there is progress.
        let is_first = self.parts.is_empty();
        let memory = memory(on, (data, kind), (at, bytes), (self.lender.as_ref(), is_first))?;
        let part = self.parts.insert(Part { flight: name, at });
        let op = Op::new(kind, lba + flight.cut, count as u32, part, memory);
        flight.cut += count;
        flight.parts += 1;
        if flight.cut == blocks {
            flight.is_cut = true;
            self.cutting.pop_front();
        }
        Some(op)
    }

    fn finish(&mut self, completion: weft_block::Completion) {
        let weft_block::Completion { op, outcome } = completion;
        let Some(Part { flight: name, at }) = self.parts.remove(op.user) else { return };
        let Some(flight) = self.flights.get(name) else { return };
        if outcome.is_success() && op.kind.fills() {
            copy_out(&flight.request.data, at, &op.data);
        }
        let user = flight.request.user;
        // The memory goes back before the caller learns of the end.
        drop(op);
        let failed = (!outcome.is_success()).then(|| Completion::of(user, &outcome));
        self.end_part(name, failed);
    }

    /// Reports what has ended: all of one outbox at once.
    fn report(&mut self) {
        for same in self.ended.chunk_by(|(a, _), (b, _)| Arc::ptr_eq(a, b)) {
            if let Some((outbox, _)) = same.first() {
                outbox.put(same.iter().map(|(_, completion)| *completion));
            }
        }
        self.ended.clear();
    }
}

/// Memory for a part of a request, filled if it is written.
fn memory(
    on: &Handle,
    (data, kind): (&Data, OpKind),
    (at, bytes): (usize, usize),
    (lender, is_first): (Option<&Rc<RegionsInUse>>, bool),
) -> Option<Segments> {
    if let (Data::Region(region), Some(lender)) = (data, lender) {
        return Some(Segments::from_iter([region.segment(at, bytes as u32, kind.fills(), lender)]));
    }
    if matches!(data, Data::None) {
        return Some(Segments::new());
    }
    let pool = on.pool();
    let mut buf = if is_first { pool.take_reserve(bytes)? } else { pool.take(bytes)? };
    match data {
        _ if kind.fills() => {}
        Data::None => {}
        Data::Bytes(from) => from.read(at, &mut buf),
        Data::Region(from) => from.to_copy(false).read(at, &mut buf),
        Data::Pair(expected, new) => {
            let (first, second) = buf.split_at_mut(bytes / 2);
            expected.read(at, first);
            new.read(at, second);
        }
    }
    Some(Segments::from_iter([buf.into()]))
}

/// Copies what was read to the caller, unless it is there already.
fn copy_out(data: &Data, at: usize, read: &Segments) {
    let to = match data {
        Data::Bytes(to) => *to,
        Data::Region(region) if read.iter().all(|part| !is_of_caller(part)) => region.to_copy(true),
        _ => return,
    };
    let mut at = at;
    for piece in pieces(read, 0, weft_io::segment::total_len(read)) {
        to.write(at, piece);
        at += piece.len();
    }
}

fn is_of_caller(part: &weft_io::Segment) -> bool {
    matches!(part, weft_io::Segment::Foreign(_))
}

impl Driver for Worker {
    fn work(&mut self, on: &Handle) -> Activity {
        self.take_orders();
        self.cut(on);
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        let mut done = core::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        let is_busy = !done.is_empty();
        done.drain(..).for_each(|completion| self.finish(completion));
        self.done = done;
        self.report();
        if is_busy && !self.cutting.is_empty() {
            // There is memory again, and no completion may be to come that wakes it.
            on.wake(self.id);
        }
        if self.lender.is_none() {
            self.queue.overdue(&mut self.given_back);
            self.given_back.clear();
        }
        while self.queue.change().is_some() {}
        Activity::busy_if(is_busy)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
        let orders = self.inbox.0.lock().take().unwrap_or_default();
        let begun = self.flights.drain().map(|flight| {
            let flags = if flight.parts > 0 { MAY_HAVE_EXECUTED | MAY_STILL_EXECUTE } else { 0 };
            (flight.request, flags)
        });
        let waiting = orders.into_iter().filter_map(|order| match order {
            Order::Start(request) => Some((request, 0)),
            Order::Cancel { .. } => None,
        });
        for (request, flags) in begun.chain(waiting) {
            let ended = Completion::failed(request.user, Code::Cancelled, flags);
            request.outbox.put([ended].into_iter());
        }
    }
}
