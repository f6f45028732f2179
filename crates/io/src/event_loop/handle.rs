//! The interface of a loop for its drivers and queues, and for other threads.

use super::backend::Backend;
use super::driver::{Activity, DriverId};
use super::registrar::{Ready, Registrar};
use super::timers::Timers;
use crate::buf::Pool;
use crate::counters::Counters;
use crate::limits::{EVENTS_PER_POLL, LOOK_AGAIN_MS};
use crate::rdma::{QueuePair, QueuePairListener};
use crate::stream::{Listener, Stream};
use crate::sync::{AtomicBool, Lock, Ordering, fence};
use crate::time::Time;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use smallvec::SmallVec;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A loop, as seen by its drivers. Clones are cheap and refer to the same loop; a handle never
/// leaves the loop's thread.
#[derive(Clone)]
pub struct Handle(pub(super) Rc<Core>);

pub(super) struct Core {
    pub(super) backend: RefCell<Box<dyn Backend>>,
    pub(super) drivers: RefCell<Vec<DriverSlot>>,
    pub(super) free: RefCell<Vec<u32>>,
    /// Drivers to run in this turn, in order of waking; may grow while the turn runs.
    pub(super) active: RefCell<Vec<u32>>,
    pub(super) timers: RefCell<Timers>,
    pub(super) now: Cell<Time>,
    /// Until then, by the coarse clock, the poller has reported every socket that was closed.
    pub(super) looked: Cell<Time>,
    pub(super) stopping: Cell<bool>,
    pub(super) live: Cell<usize>,
    pub(super) pool: Pool,
    pub(super) counters: Counters,
    pub(super) remote: RemoteLoop,
    pub(super) disk: crate::disk::DiskService,
    /// One value of a type: see [`Handle::local`].
    pub(super) locals: RefCell<Vec<Rc<dyn Any>>>,
}

impl Core {
    /// Distinguishes a driver from earlier ones in the same slot.
    pub(super) fn alive(&self) -> impl Fn(DriverId) -> bool {
        let drivers = self.drivers.borrow();
        move |id| {
            drivers
                .get(id.index as usize)
                .is_some_and(|slot| slot.generation == id.generation && !slot.removed)
        }
    }
}

/// Something that a loop drives. Phases must not block, and must bound the work of one call.
///
/// Readiness is edge-triggered: before a driver with a socket returns [`Activity::Idle`], it must
/// have seen `WouldBlock`, or must remember to continue by itself. [`crate::Stream::tells_rest`]
/// says when it may return [`Activity::Settled`] without.
pub trait Driver {
    /// Receives from sockets.
    fn receive(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }

    /// Reaps devices, runs engines, submits. Runs again in the same turn if another driver wakes
    /// this one.
    fn work(&mut self, on: &Handle) -> Activity;

    /// Sends pending data.
    fn send(&mut self, on: &Handle) -> Activity {
        let _ = on;
        Activity::Idle
    }
}

pub(super) struct DriverSlot {
    pub(super) generation: u32,
    /// `None` while the driver runs.
    pub(super) driver: Option<Box<dyn Driver>>,
    /// In `active`.
    pub(super) active: bool,
    /// It was woken since its last `receive` began...
    pub(super) due_receive: bool,
    /// ...and since its last `work` began.
    pub(super) due_work: bool,
    pub(super) removed: bool,
    /// The poller knows, or has known, something of it.
    pub(super) has_source: bool,
    /// The peer has closed its socket, but the driver has not read the end of the stream yet.
    pub(super) closed: bool,
    /// It reported in this turn that more may follow soon.
    pub(super) unsettled: bool,
    pub(super) last_busy: Time,
}

/// Remembers a driver's deadlines, so that a timer is set once and not in every turn.
#[derive(Debug, Default)]
pub struct TimerSlot {
    /// Timers set and not yet due; each is earlier than the one before it.
    pending: RefCell<SmallVec<[Time; 2]>>,
}

impl TimerSlot {
    /// Wakes `driver` at `at`, unless this or an earlier wake-up is already set.
    pub fn arm(&self, on: &Handle, driver: DriverId, at: Time) {
        let mut pending = self.pending.borrow_mut();
        while pending.last().is_some_and(|earliest| *earliest <= on.now()) {
            pending.pop();
        }
        if pending.last().is_none_or(|earliest| at < *earliest) {
            pending.push(at);
            on.wake_at(driver, at);
        }
    }
}

impl Handle {
    /// The time at the start of this turn.
    #[inline]
    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    /// The current time by the clock.
    #[inline]
    pub fn clock(&self) -> Time {
        self.0.backend.borrow_mut().now()
    }

    /// The loop's payload memory.
    #[inline]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The loop's counters.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// The loop's disks.
    pub fn disk(&self) -> &crate::disk::DiskService {
        &self.0.disk
    }

    /// The loop's own value of a type, created on first use, so that objects on a loop can find
    /// each other. Do not call it for each operation: it searches a list.
    pub fn local<T: Default + 'static>(&self) -> Rc<T> {
        let found =
            self.0.locals.borrow().iter().find_map(|value| Rc::clone(value).downcast().ok());
        found.unwrap_or_else(|| {
            let made = Rc::<T>::default();
            self.0.locals.borrow_mut().push(Rc::<T>::clone(&made));
            made
        })
    }

    /// The loop, for use by other threads.
    pub fn remote(&self) -> RemoteLoop {
        self.0.remote.clone()
    }

    /// Adds a driver, which `make` creates from its ID; it first runs in the next turn.
    pub fn spawn<D: Driver + 'static>(&self, make: impl FnOnce(DriverId) -> D) -> DriverId {
        self.try_spawn(|id| Ok::<_, core::convert::Infallible>(make(id)))
            .unwrap_or_else(|never| match never {})
    }

    /// Like [`Handle::spawn`], for a `make` that can fail.
    pub fn try_spawn<D: Driver + 'static, E>(
        &self,
        make: impl FnOnce(DriverId) -> Result<D, E>,
    ) -> Result<DriverId, E> {
        let id = self.reserve();
        let driver = make(id);
        let mut drivers = self.0.drivers.borrow_mut();
        let slot = &mut drivers[id.index as usize];
        match driver {
            Ok(driver) if !slot.removed => {
                slot.driver = Some(Box::new(driver));
                drop(drivers);
                self.wake(id);
                Ok(id)
            }
            other => {
                let live = self.0.live.get() - usize::from(!slot.removed);
                self.0.live.set(live);
                drop(drivers);
                self.release(id.index);
                other.map(|_| id)
            }
        }
    }

    fn reserve(&self) -> DriverId {
        self.0.live.set(self.0.live.get() + 1);
        let mut drivers = self.0.drivers.borrow_mut();
        let index = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            drivers.push(DriverSlot::default());
            (drivers.len() - 1) as u32
        });
        DriverId { index, generation: drivers[index as usize].generation }
    }

    /// Frees the slot of a removed driver.
    pub(super) fn release(&self, index: u32) {
        let mut drivers = self.0.drivers.borrow_mut();
        let slot = &mut drivers[index as usize];
        // 31 bits, so that no token of the poller equals the waker's.
        *slot = DriverSlot {
            generation: (slot.generation + 1) & 0x7fff_ffff,
            active: slot.active,
            ..DriverSlot::default()
        };
        self.0.free.borrow_mut().push(index);
    }

    /// Runs all phases of a driver once more: those of this turn that are still to come, and the
    /// others in the next turn. Unknown IDs are ignored.
    #[inline]
    pub fn wake(&self, driver: DriverId) {
        let mut drivers = self.0.drivers.borrow_mut();
        let Some(slot) = drivers.get_mut(driver.index as usize) else { return };
        if slot.generation != driver.generation {
            return;
        }
        (slot.due_receive, slot.due_work) = (true, true);
        if !slot.active {
            slot.active = true;
            self.0.active.borrow_mut().push(driver.index);
        }
    }

    /// Like [`Handle::wake`], for a driver whose peer has closed the socket.
    pub(super) fn wake_closed(&self, driver: DriverId) {
        let mut drivers = self.0.drivers.borrow_mut();
        if let Some(slot) = drivers
            .get_mut(driver.index as usize)
            .filter(|slot| slot.generation == driver.generation)
        {
            slot.closed = true;
        }
        drop(drivers);
        self.wake(driver);
    }

    /// Wakes a driver at a time.
    pub fn wake_at(&self, driver: DriverId, at: Time) {
        self.0.timers.borrow_mut().set(driver, at, self.0.alive());
    }

    /// Removes a driver: it is dropped at once, or at the end of the phase that it runs. Dropping
    /// it deregisters its sources from the poller.
    pub fn remove(&self, driver: DriverId) {
        let mut drivers = self.0.drivers.borrow_mut();
        let Some(slot) = drivers
            .get_mut(driver.index as usize)
            .filter(|s| s.generation == driver.generation && !s.removed)
        else {
            return;
        };
        slot.removed = true;
        self.0.live.set(self.0.live.get() - 1);
        let idle = slot.driver.take();
        drop(drivers);
        if let Some(driver_box) = idle {
            self.release(driver.index);
            drop(driver_box);
        }
    }

    /// Number of drivers on this loop.
    pub fn live_drivers(&self) -> usize {
        self.0.live.get()
    }

    /// Ends the loop after this turn.
    pub fn stop(&self) {
        self.0.stopping.set(true);
    }

    /// Returns whether [`Handle::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.get()
    }

    /// Starts to connect. Register the stream, then call [`Stream::connected`] whenever the driver
    /// runs.
    pub fn connect(&self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        self.0.backend.borrow_mut().connect(to)
    }

    /// Starts to listen; port 0 picks a free port.
    pub fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        self.0.backend.borrow_mut().listen(at)
    }

    /// Starts to connect a queue pair (see [`crate::rdma`]).
    pub fn connect_rdma(&self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        self.0.backend.borrow_mut().connect_rdma(to)
    }

    /// Starts to listen for queue pairs; port 0 picks a free port.
    pub fn listen_rdma(&self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        self.0.backend.borrow_mut().listen_rdma(at)
    }

    /// Calls `use_it` with the registrar for streams and listeners of `driver`.
    pub fn registrar<R>(&self, driver: DriverId, use_it: impl FnOnce(&Registrar<'_>) -> R) -> R {
        let index = driver.index as usize;
        if let Some(slot) = self.0.drivers.borrow_mut().get_mut(index) {
            slot.has_source |= slot.generation == driver.generation;
        }
        let backend = self.0.backend.borrow();
        use_it(&Registrar { registry: backend.registry(), driver })
    }
}

impl Default for DriverSlot {
    fn default() -> Self {
        Self {
            generation: 0,
            driver: None,
            active: false,
            due_receive: false,
            due_work: false,
            removed: false,
            has_source: false,
            closed: false,
            unsettled: false,
            last_busy: Time::ZERO,
        }
    }
}

// Detection of peers that have closed the other end of a socket.
//
// A process that stood still (stopped, or on a machine that was) finds in its sockets data that
// arrived in the meantime, also from peers that have since closed or reset the connection. Such a
// peer has given up waiting for answers, and may have sent its requests elsewhere: they must not
// be executed. The poller reports the close together with readable data. But a busy loop reads
// without asking the poller first, and the poller's last report may be outdated. So the answer
// here is never older than [`LOOK_AGAIN_MS`].

impl Handle {
    /// Returns whether the peer of the socket that `driver` has registered is known to have closed
    /// or reset the connection.
    #[inline]
    pub fn has_peer_left(&self, driver: DriverId) -> bool {
        let now = self.0.backend.borrow_mut().coarse();
        if now - self.0.looked.get() > Duration::from_millis(LOOK_AGAIN_MS) {
            self.look_again();
        }
        let drivers = self.0.drivers.borrow();
        drivers
            .get(driver.index as usize)
            .is_some_and(|slot| slot.closed && slot.generation == driver.generation)
    }

    /// Asks the poller until it has said everything.
    #[cold]
    fn look_again(&self) {
        let mut ready = Vec::new();
        loop {
            // The loop itself ends with a poller that fails.
            if self.look(Some(Duration::ZERO), &mut ready).is_err() {
                return;
            }
            let is_all = ready.len() < EVENTS_PER_POLL;
            self.wake_ready(&mut ready);
            if is_all {
                return;
            }
        }
    }

    /// Asks the poller; returns whether a remote wake-up came in.
    pub(super) fn look(&self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let mut backend = self.0.backend.borrow_mut();
        let before = backend.coarse();
        let woken = backend.poll(wait, ready)?;
        // A full list may not be all, and a wait may have ended without a look.
        if ready.len() < EVENTS_PER_POLL && (wait == Some(Duration::ZERO) || !ready.is_empty()) {
            self.0.looked.set(before);
        }
        Ok(woken)
    }

    /// Wakes the drivers whose sources became ready.
    #[inline]
    pub(super) fn wake_ready(&self, ready: &mut Vec<Ready>) {
        for Ready { driver, closed } in ready.drain(..) {
            if closed {
                self.wake_closed(driver);
            } else {
                self.wake(driver);
            }
        }
    }
}

// The loop as seen by other threads.

/// Requests to a loop. Waking is separate because it happens per operation and must not allocate.
enum Task {
    Run(Box<dyn FnOnce(&Handle) + Send>),
    Wake(DriverId),
}

/// Posts tasks to a loop from any thread.
#[derive(Clone)]
pub struct RemoteLoop(Arc<TaskQueue>);

struct TaskQueue {
    /// `None` if the loop has ended.
    tasks: Lock<Option<Vec<Task>>>,
    /// An empty list, which keeps the memory of tasks that have run. Only the loop uses it.
    spare: Lock<Vec<Task>>,
    pending: AtomicBool,
    sleeping: AtomicBool,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl RemoteLoop {
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self(Arc::new(TaskQueue {
            tasks: Lock::new(Some(Vec::new())),
            spare: Lock::default(),
            pending: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            wake,
        }))
    }

    /// Runs `task` on the loop's thread, in the order of posting. When the loop ends, it drops
    /// tasks that have not run; later ones are dropped at once.
    pub fn post(&self, task: impl FnOnce(&Handle) + Send + 'static) {
        self.put(Task::Run(Box::new(task)));
    }

    /// Wakes a driver of the loop, like [`Handle::wake`], in order with posted tasks.
    pub fn wake(&self, driver: DriverId) {
        self.put(Task::Wake(driver));
    }

    fn put(&self, task: Task) {
        match &mut *self.0.tasks.lock() {
            Some(tasks) => tasks.push(task),
            None => return,
        }
        self.0.pending.store(true, Ordering::Release);
        // The loop announces its sleep before it looks at `pending` for the last time: of two
        // fences one is the first, so one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.0.sleeping.load(Ordering::Relaxed) {
            (self.0.wake)();
        }
    }

    /// Returns whether both refer to the same loop.
    pub fn is_same_loop(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The loop has ended: drops tasks that have not run.
    pub(super) fn close(&self) {
        let unrun = self.0.tasks.lock().take();
        drop(unrun);
    }

    /// Returns whether tasks wait.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// Announces that the loop is about to sleep; `false` if tasks arrived first.
    pub(super) fn going_to_sleep(&self) -> bool {
        self.0.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.0.pending.load(Ordering::Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    pub(super) fn awake(&self) {
        self.0.sleeping.store(false, Ordering::Relaxed);
    }

    /// Runs posted tasks; returns whether there were any.
    pub(super) fn run_tasks(&self, on: &Handle) -> bool {
        // Cleared before the list is taken: a later post sets it again.
        if !self.0.pending.swap(false, Ordering::AcqRel) {
            return false;
        }
        let empty = core::mem::take(&mut *self.0.spare.lock());
        let mut tasks = self
            .0
            .tasks
            .lock()
            .as_mut()
            .map(|tasks| core::mem::replace(tasks, empty))
            .unwrap_or_default();
        let some = !tasks.is_empty();
        for task in tasks.drain(..) {
            match task {
                Task::Run(task) => task(on),
                Task::Wake(driver) => on.wake(driver),
            }
        }
        *self.0.spare.lock() = tasks;
        some
    }
}
