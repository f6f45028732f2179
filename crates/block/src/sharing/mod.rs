//! Shared queues of a device: by all users on a loop, and by loops if the device grants fewer
//! queues than there are loops.
//!
//! [`share`] wraps a device with a limited number of queues ([`BlockDevice::max_queues`]). Then
//!
//! * all users on a loop share the one queue of that loop ([`SharedQueue`]). It is opened for the
//!   first user and closed after the last. Operations are passed on within the loop, without a lock
//!   or an allocation.
//! * as many loops as the device grants queues have a queue of the device. Each other loop sends
//!   its operations to one of these by mailbox, assigned in turn.
//!
//! Each user gets reports of losses ([`crate::losses`]).
//!
//! A device without such a limit shares nothing between queues, so each user opens a queue.

mod mailbox;
#[cfg(test)]
mod tests;

use crate::device::{BlockDevice, BlockQueue, Device, DeviceChange, DeviceChanges, InPlace};
use crate::filter::Filter;
use crate::limits::SHARER_OPS;
use crate::op::{Completion, Op, Outcome};
use crate::outcome::error::Error;
use crate::outcome::losses::report_losses;
use crate::outcome::status::{Status, StatusKind};
use crate::queue::slots::Slots;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use weft_io::{Activity, Driver, DriverId, Handle, RemoteLoop, Segments};

/// Wraps the device for any number of users on any loops. `loops` are the loops that get a queue of
/// the device, as far as it grants that many, in this order. A device without a limit of queues is
/// returned unchanged.
pub fn share(device: Device, loops: &[RemoteLoop]) -> Device {
    if device.max_queues() == usize::MAX || loops.is_empty() {
        return device;
    }
    report_losses(shared(device, loops))
}

/// Like [`share`], without a word of losses.
pub(crate) fn shared(device: Device, loops: &[RemoteLoop]) -> Device {
    let homes = loops.iter().take(device.max_queues().max(1)).cloned().collect();
    Arc::new(SharedDevice::new(device, Some(homes), loops))
}

/// Wraps the device for any number of users on any loops, with a queue of the device on each loop
/// that has users.
pub(crate) fn share_on_each_loop(device: Device) -> Device {
    report_losses(Arc::new(SharedDevice::new(device, None, &[])))
}

/// See [`share`].
#[derive(Clone)]
struct SharedDevice {
    device: Device,
    inside: Arc<QueueHomes>,
}

struct QueueHomes {
    /// Unique per device.
    name: u64,
    /// The loops with a queue of the device; `None`: each.
    homes: Option<Vec<RemoteLoop>>,
    loops: Vec<RemoteLoop>,
    /// Number of queues that were opened on other loops than `loops`.
    strangers: AtomicUsize,
}

/// The shared queues of one loop, by device ID.
#[derive(Default)]
struct OnLoop(RefCell<Vec<(u64, Weak<RefCell<Core>>)>>);

impl SharedDevice {
    fn new(device: Device, homes: Option<Vec<RemoteLoop>>, loops: &[RemoteLoop]) -> Self {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        let name = NAMES.fetch_add(1, Ordering::Relaxed);
        let (strangers, loops) = (AtomicUsize::new(0), loops.into());
        Self { device, inside: Arc::new(QueueHomes { name, homes, strangers, loops }) }
    }

    /// The loop whose queue serves the loop of `on`; `None` if it has its own.
    fn home(&self, on: &Handle) -> Option<&RemoteLoop> {
        let QueueHomes { homes, loops, strangers, .. } = &*self.inside;
        let homes = homes.as_ref()?;
        let here = on.remote();
        if homes.iter().any(|home| home.is_same_loop(&here)) {
            return None;
        }
        let number = loops.iter().position(|one| one.is_same_loop(&here));
        let number = number.unwrap_or_else(|| strangers.fetch_add(1, Ordering::Relaxed));
        Some(&homes[number % homes.len()])
    }

    fn open_shared(&self, on: &Handle) -> Result<SharedQueue, Error> {
        match self.home(on) {
            None => SharedQueue::open(self.device.as_ref(), on),
            Some(home) => SharedQueue::open_with(on, |owner| {
                Ok(mailbox::open(Arc::new(self.clone()), home, on, owner))
            }),
        }
    }
}

impl Filter for SharedDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.device.as_ref()
    }

    fn max_queues(&self) -> usize {
        usize::MAX
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let open = on.local::<OnLoop>();
        let name = self.inside.name;
        let known = open
            .0
            .borrow()
            .iter()
            .find(|(of, _)| *of == name)
            .and_then(|(_, core)| core.upgrade())
            .map(SharedQueue);
        if let Some(queue) = known.filter(SharedQueue::is_open) {
            return Ok(queue.join(owner));
        }
        let queue = self.open_shared(on)?;
        let mut open = open.0.borrow_mut();
        open.retain(|(of, core)| *of != name && core.strong_count() > 0);
        open.push((name, queue.downgrade()));
        Ok(queue.join(owner))
    }
}

// A queue that several drivers on one loop share.

/// A queue of a device for any number of drivers on its loop. It is closed when the last of them
/// has dropped its end and the device has released everything.
///
/// Operations for which the queue has no room wait with their sharer. Waiting sharers get room in
/// turn, one operation each.
#[derive(Clone)]
pub struct SharedQueue(Rc<RefCell<Core>>);

impl SharedQueue {
    /// Opens a queue of `device` on the loop of `on`, for sharers to join.
    ///
    /// # Errors
    /// Those of [`BlockDevice::open_queue`].
    pub fn open(device: &dyn BlockDevice, on: &Handle) -> Result<Self, Error> {
        Self::open_with(on, |dispatcher| device.open_queue(on, dispatcher))
    }

    /// Like [`SharedQueue::open`], for a queue that `open` opens for the given owner.
    fn open_with(
        on: &Handle,
        open: impl FnOnce(DriverId) -> Result<Box<dyn BlockQueue>, Error>,
    ) -> Result<Self, Error> {
        let mut shared = None;
        on.try_spawn(|dispatcher| {
            let mut queue = open(dispatcher)?;
            let in_place = queue.in_place().is_some();
            let core = Core {
                queue: Some(queue),
                on: on.clone(),
                dispatcher,
                sharers: Slots::default(),
                joined: 0,
                origins: Slots::default(),
                turns: VecDeque::new(),
                offered: VecDeque::new(),
                done: Vec::new(),
                gone: false,
                in_place,
            };
            let core = Rc::new(RefCell::new(core));
            shared = Some(Self(Rc::clone(&core)));
            Ok::<_, Error>(Dispatcher(core))
        })?;
        Ok(shared.expect("made together with the dispatcher"))
    }

    /// An end of the queue for the driver `owner`, which is woken for its own operations.
    pub fn join(&self, owner: DriverId) -> Box<dyn BlockQueue> {
        let mut core = self.0.borrow_mut();
        core.joined += 1;
        let name = core.sharers.insert(Member {
            owner,
            waiting: VecDeque::new(),
            done: Vec::new(),
            changes: DeviceChanges::default(),
            in_flight: 0,
            in_queue: 0,
            refused: false,
            left: false,
        });
        Box::new(Sharer::new(Rc::clone(&self.0), name, core.in_place))
    }

    /// Returns whether more sharers may join.
    fn is_open(&self) -> bool {
        let core = self.0.borrow();
        core.queue.is_some() && !core.gone
    }

    fn downgrade(&self) -> Weak<RefCell<Core>> {
        Rc::downgrade(&self.0)
    }
}

/// One sharer's end of a queue; the shared queue does the work.
struct Sharer {
    core: Rc<RefCell<Core>>,
    name: u64,
    in_place: bool,
}

impl Sharer {
    /// `name` is that of the sharer in the queue, which is borrowed at present.
    fn new(core: Rc<RefCell<Core>>, name: u64, in_place: bool) -> Self {
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

// State shared by several drivers on one loop: the queue, and the operations of each.

/// Operations that are offered to a queue at a time: it handles each one that it has no room for.
const OFFERED_OPS: usize = 8;

/// See [`SharedQueue`](super::SharedQueue).
struct Core {
    /// `None` if it is closed.
    queue: Option<Box<dyn BlockQueue>>,
    on: Handle,
    /// The driver that the queue wakes.
    dispatcher: DriverId,
    sharers: Slots<Member>,
    /// Sharers whose end exists.
    joined: usize,
    /// The sharer of each operation and its name there, by the name that the queue knows.
    origins: Slots<(u64, u64)>,
    /// Sharers with waiting operations, each once; the first is served next.
    turns: VecDeque<u64>,
    /// Operations to be passed to the queue. Between calls: those for which it had no room, at most
    /// one per sharer.
    offered: VecDeque<Op>,
    done: Vec<Completion>,
    /// The device is gone: no new sharers.
    gone: bool,
    /// True if the queue works in place.
    in_place: bool,
}

/// The state of one sharer.
struct Member {
    owner: DriverId,
    waiting: VecDeque<Op>,
    done: Vec<Completion>,
    changes: DeviceChanges,
    /// Operations accepted and not reaped.
    in_flight: usize,
    /// Those of them that the queue has, or was offered.
    in_queue: usize,
    /// `submit` left operations with the sharer.
    refused: bool,
    left: bool,
}

impl Core {
    /// Accepts operations of a sharer from the front of `ops`.
    #[inline]
    fn submit(&mut self, sharer: u64, ops: &mut VecDeque<Op>) {
        let nobody_waits = self.turns.is_empty() && self.offered.is_empty();
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let count = SHARER_OPS.saturating_sub(member.in_flight).min(ops.len());
        member.in_flight += count;
        member.refused = count < ops.len();
        if !nobody_waits {
            if member.waiting.is_empty() && count > 0 {
                self.turns.push_back(sharer);
            }
            member.waiting.extend(ops.drain(..count));
            // It offers them once in a turn of the loop, however many sharers submit.
            return self.on.wake(self.dispatcher);
        }
        member.in_queue += count;
        for mut op in ops.drain(..count) {
            op.user = self.origins.insert((sharer, op.user));
            self.offered.push_back(op);
        }
        let Some(queue) = &mut self.queue else { return };
        queue.submit(&mut self.offered);
        if !self.offered.is_empty() {
            self.take_back(sharer);
        }
    }

    /// Operations that the queue left wait with their sharer.
    fn take_back(&mut self, sharer: u64) {
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        member.in_queue -= self.offered.len();
        for mut op in self.offered.drain(..) {
            if let Some((_, user)) = self.origins.remove(op.user) {
                op.user = user;
                member.waiting.push_back(op);
            }
        }
        self.turns.push_back(sharer);
    }

    /// Offers waiting operations to the queue, one per sharer in turn, while there is room. Returns
    /// whether there was room.
    fn serve(&mut self) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let mut some = false;
        loop {
            if self.offered.is_empty() {
                for _ in 0..self.turns.len().min(OFFERED_OPS) {
                    let Some(sharer) = self.turns.pop_front() else { break };
                    let Some(member) = self.sharers.get_mut(sharer) else { continue };
                    let Some(mut op) = member.waiting.pop_front() else { continue };
                    op.user = self.origins.insert((sharer, op.user));
                    member.in_queue += 1;
                    self.offered.push_back(op);
                    if !member.waiting.is_empty() {
                        self.turns.push_back(sharer);
                    }
                }
            }
            let offered = self.offered.len();
            if offered == 0 {
                return some;
            }
            queue.submit(&mut self.offered);
            some |= self.offered.len() < offered;
            if !self.offered.is_empty() {
                return some;
            }
        }
    }

    /// Reaps the queue, reads changes of the device, and passes on waiting operations: a sharer
    /// only where completions have made room. Wakes the sharers concerned, except the caller.
    /// Returns whether something completed, and whether something was passed on.
    #[inline]
    fn advance(&mut self, asks: Option<u64>) -> (bool, bool) {
        let Some(queue) = &mut self.queue else { return (false, false) };
        queue.reap(&mut self.done);
        let out = !self.done.is_empty();
        let mut done = core::mem::take(&mut self.done);
        done.drain(..).for_each(|completion| self.deliver(completion, asks));
        self.done = done;
        self.tell_changes();
        let waits = !self.turns.is_empty() || !self.offered.is_empty();
        (out, waits && (out || asks.is_none()) && self.serve())
    }

    /// Puts a completion into the list of its sharer, unless that has left.
    #[inline]
    fn deliver(&mut self, mut completion: Completion, asks: Option<u64>) {
        let Some((sharer, user)) = self.origins.remove(completion.op.user) else { return };
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        member.in_queue -= 1;
        if member.left {
            if member.in_queue == 0 {
                self.sharers.remove(sharer);
            }
            return;
        }
        completion.op.user = user;
        member.done.push(completion);
        if asks != Some(sharer) {
            self.on.wake(member.owner);
        }
    }

    #[inline]
    fn tell_changes(&mut self) {
        while let Some(change) = self.queue.as_mut().and_then(|queue| queue.change()) {
            self.gone |= change == DeviceChange::Gone;
            for member in self.sharers.values_mut().filter(|member| !member.left) {
                member.changes.add(change);
                self.on.wake(member.owner);
            }
        }
    }

    /// Appends a sharer's completions.
    #[inline]
    fn reap(&mut self, sharer: u64, done: &mut Vec<Completion>) {
        if let (_, true) = self.advance(Some(sharer)) {
            // The queue may have completed operations of others at once.
            self.on.wake(self.dispatcher);
        }
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let count = member.done.len();
        member.in_flight -= count;
        done.append(&mut member.done);
        if count > 0 && core::mem::take(&mut member.refused) {
            self.on.wake(member.owner);
        }
    }

    fn cancel(&mut self, sharer: u64, user: u64) {
        let name = self.origins.find(|origin| *origin == (sharer, user));
        let Some(member) = self.sharers.get_mut(sharer) else { return };
        let at = member.waiting.iter().position(|op| op.user == user);
        let waited = match at.and_then(|at| member.waiting.remove(at)) {
            Some(op) => Some(op),
            None => {
                let Some(name) = name else { return };
                let Some(at) = self.offered.iter().position(|op| op.user == name) else {
                    return self.queue.iter_mut().for_each(|queue| queue.cancel(name));
                };
                self.origins.remove(name);
                member.in_queue -= 1;
                self.offered.remove(at).map(|mut op| {
                    op.user = user;
                    op
                })
            }
        };
        if let Some(op) = waited {
            member.done.push(op.done(Outcome::NotSent(Status::new(StatusKind::Aborted))));
            self.on.wake(member.owner);
        }
    }

    fn in_flight(&self, sharer: u64) -> usize {
        self.sharers.get(sharer).map_or(0, |member| member.in_flight)
    }

    fn change(&mut self, sharer: u64) -> Option<DeviceChange> {
        self.sharers.get_mut(sharer)?.changes.take()
    }

    /// A sharer drops its end: its waiting operations are given up, and its operations in the queue
    /// are cancelled. Returns the queue if it has no other user.
    fn leave(&mut self, sharer: u64) -> Option<Box<dyn BlockQueue>> {
        self.joined -= 1;
        let names: Vec<u64> = self
            .origins
            .names()
            .filter(|name| self.origins.get(*name).is_some_and(|of| of.0 == sharer))
            .collect();
        let (queue, offered) = (&mut self.queue, &mut self.offered);
        let mut withdrawn = 0;
        for name in names {
            if let Some(at) = offered.iter().position(|op| op.user == name) {
                offered.remove(at).into_iter().for_each(Op::give_up);
                self.origins.remove(name);
                withdrawn += 1;
            } else {
                queue.iter_mut().for_each(|queue| queue.cancel(name));
            }
        }
        self.turns.retain(|waits| *waits != sharer);
        if let Some(member) = self.sharers.get_mut(sharer) {
            member.left = true;
            member.waiting.drain(..).for_each(Op::give_up);
            member.done.clear();
            member.in_queue -= withdrawn;
            if member.in_queue == 0 {
                self.sharers.remove(sharer);
            }
        }
        self.on.wake(self.dispatcher);
        self.close()
    }

    /// The queue and its dispatcher, if it has no sharers and nothing is in flight.
    fn close(&mut self) -> Option<Box<dyn BlockQueue>> {
        if self.joined > 0 || !self.origins.is_empty() {
            return None;
        }
        let queue = self.queue.take();
        if queue.is_some() {
            self.on.remove(self.dispatcher);
        }
        queue
    }
}

impl Drop for Core {
    /// The loop ends.
    fn drop(&mut self) {
        let waiting = self.sharers.values_mut().flat_map(|member| member.waiting.drain(..));
        waiting.chain(self.offered.drain(..)).for_each(Op::give_up);
    }
}

/// The driver that the queue wakes.
struct Dispatcher(pub(super) Rc<RefCell<Core>>);

impl Driver for Dispatcher {
    fn work(&mut self, _: &Handle) -> Activity {
        let ((out, within), closed) = {
            let core = &mut *self.0.borrow_mut();
            (core.advance(None), core.close())
        };
        drop(closed);
        // A busy driver gets another turn, in which it reaps what a device completed at once.
        Activity::busy_if(out || within)
    }
}
