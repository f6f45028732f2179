//! Turns, and waiting between them; and a loop on a thread of its own.

use super::backend::Backend;
use super::config::LoopConfig;
use super::driver::Activity;
use super::handle::{Core, Driver, Handle, RemoteLoop};
use super::registrar::Ready;
use super::system::System;
use super::waiting::Waiting;
use crate::buf::Pool;
use crate::limits::{SPIN_US_DEFAULT, TURNS_PER_POLL};
use crate::time::Time;
use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Times that `work` may run for woken drivers within one turn before sending.
const WORK_PASSES: usize = 4;

/// Pauses of the processor between two empty turns while spinning: long enough to spare the sibling
/// and the socket's lock, short against a round trip.
const PAUSES: u32 = 8;

/// The part of a turn.
#[derive(Clone, Copy)]
enum Phase {
    Receive,
    Work,
    Send,
}

/// An event loop.
pub struct Loop {
    handle: Handle,
    waiting: Waiting,
    /// Time for which an idle driver is still tried in every turn of a busy loop.
    hot: Duration,
    ready: Vec<Ready>,
    /// When the last turn began that did something.
    last_busy: Time,
    turns_until_poll: u32,
    /// Turns between the last poll and the next.
    poll_gap: u32,
    /// The caller waits for the loop, as [`Loop::prepare_wait`] told it.
    is_prepared: bool,
}

impl Loop {
    /// A loop on the system's poller, pinned to the configured core (if any) together with the
    /// calling thread.
    pub fn new(config: LoopConfig) -> io::Result<Self> {
        if let Some(cpu) = config.cpu {
            crate::cpu::pin_thread(cpu)?;
        }
        Ok(Self::with_backend(&config, Box::new(System::new(config.listening.clone())?)))
    }

    /// A loop on any backend.
    pub fn with_backend(config: &LoopConfig, backend: Box<dyn Backend>) -> Self {
        let remote = RemoteLoop::new(backend.waker());
        let core = Core {
            backend: RefCell::new(backend),
            drivers: RefCell::default(),
            free: RefCell::default(),
            active: RefCell::default(),
            timers: RefCell::default(),
            now: Cell::default(),
            looked: Cell::default(),
            stopping: Cell::new(false),
            live: Cell::new(0),
            pool: Pool::new(config.pool_bytes),
            counters: crate::counters::Counters::default(),
            remote,
            disk: crate::disk::DiskService::new(config.disk),
            locals: RefCell::default(),
        };
        let handle = Handle(Rc::new(core));
        handle.0.now.set(handle.clock());
        Self {
            handle,
            waiting: Waiting::new(config.spin),
            hot: config.spin.min(Duration::from_micros(SPIN_US_DEFAULT)),
            ready: Vec::new(),
            last_busy: Time::ZERO,
            turns_until_poll: 0,
            poll_gap: 0,
            is_prepared: false,
        }
    }

    /// Returns the handle of the loop for everything that lives on it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs until [`Handle::stop`]; then drops all drivers.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.handle.0.stopping.get() {
            let _ = self.turn(true)?;
        }
        self.drop_drivers();
        Ok(())
    }

    /// One turn. With `may_wait` it sleeps first when there is nothing to do; otherwise it asks the
    /// poller in any case.
    pub fn turn(&mut self, may_wait: bool) -> io::Result<Activity> {
        if !may_wait {
            self.turns_until_poll = 0;
        }
        self.turn_within(if may_wait { None } else { Some(Duration::ZERO) })
    }

    /// One turn. If there is nothing to do, it first sleeps for at most `most`; `None`: without a
    /// limit.
    pub fn turn_within(&mut self, most: Option<Duration>) -> io::Result<Activity> {
        let core = Rc::clone(&self.handle.0);
        core.now.set(self.handle.clock());
        self.poll(most)?;
        let posted = core.remote.is_pending() && core.remote.run_tasks(&self.handle);
        self.fire_timers();
        let busy = self.phases() || posted;
        core.counters.turns.add(1);
        let now = core.now.get();
        if busy {
            core.counters.turns_busy.add(1);
            self.last_busy = now;
            self.waiting.busy(now);
            if self.waiting.doubts() && self.is_settled() {
                // Nothing is left to try: it may sleep without another turn that finds nothing.
                self.waiting.settled(self.handle.clock());
            }
        } else {
            self.waiting.idle(now);
        }
        self.cool_down();
        Ok(Activity::busy_if(busy))
    }

    /// Prepares for a wait of the caller for [`Loop::descriptor`]: how long it may wait before the
    /// next turn, `None` without a limit, zero if there is something to do. Until that turn the
    /// descriptor becomes readable whenever there is.
    pub fn prepare_wait(&mut self) -> Option<Duration> {
        let core = Rc::clone(&self.handle.0);
        let now = self.handle.clock();
        let wait = self.next_timer().map(|at| at - now);
        let has_work = !core.active.borrow().is_empty();
        if has_work || wait == Some(Duration::ZERO) || !core.remote.going_to_sleep() {
            return Some(Duration::ZERO);
        }
        self.waiting.sleeps();
        self.is_prepared = true;
        wait
    }

    /// The descriptor for which a caller can wait between turns; `None` if the backend has none.
    #[cfg(unix)]
    pub fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        self.handle.0.backend.borrow().descriptor()
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Time> {
        let core = &self.handle.0;
        core.timers.borrow_mut().next(core.alive())
    }

    /// Returns whether a turn now would have something to do: a driver is active or another thread
    /// posted something.
    pub fn has_work(&self) -> bool {
        !self.handle.0.active.borrow().is_empty() || self.handle.0.remote.is_pending()
    }

    /// Asks the poller: without waiting now and then while busy, in every idle turn, and with
    /// waiting when the spin time is over.
    fn poll(&mut self, most: Option<Duration>) -> io::Result<()> {
        let may_wait = most != Some(Duration::ZERO);
        if self.is_prepared {
            self.end_prepared();
        }
        let now = self.handle.now();
        let idle = self.handle.0.active.borrow().is_empty();
        if may_wait && idle && self.waiting.is_over(now) && self.sleep(now, most)? {
            return Ok(());
        }
        if self.turns_until_poll > 0 && !idle {
            self.turns_until_poll -= 1;
            return Ok(());
        }
        self.handle.0.counters.polls.add(1);
        let (found, _) = self.poll_backend(Some(Duration::ZERO))?;
        self.poll_gap = if found { 0 } else { (2 * self.poll_gap + 1).min(TURNS_PER_POLL) };
        self.turns_until_poll = self.poll_gap;
        Ok(())
    }

    /// Sleeps until something happens. `false` when it did not, because there is work to do at
    /// once.
    fn sleep(&mut self, now: Time, most: Option<Duration>) -> io::Result<bool> {
        let core = Rc::clone(&self.handle.0);
        let wait = self.next_timer().map(|at| at - now);
        let wait = most.into_iter().chain(wait).min();
        if wait == Some(Duration::ZERO) || !core.remote.going_to_sleep() {
            return Ok(false);
        }
        self.waiting.sleeps();
        let result = self.poll_backend(wait);
        core.remote.awake();
        let (ready, woken) = result?;
        if !ready {
            core.disk.awake(&self.handle);
        }
        core.now.set(self.handle.clock());
        core.counters.sleeps.add(1);
        let cause = match (ready, woken) {
            (true, _) => &core.counters.wakeups_ready,
            (_, true) => &core.counters.wakeups_remote,
            _ => &core.counters.wakeups_timer,
        };
        cause.add(1);
        self.turns_until_poll = TURNS_PER_POLL;
        Ok(true)
    }

    /// The wait of the caller is over.
    #[cold]
    fn end_prepared(&mut self) {
        let core = Rc::clone(&self.handle.0);
        self.is_prepared = false;
        core.remote.awake();
        core.disk.awake(&self.handle);
        self.turns_until_poll = 0;
    }

    /// Polls and wakes the drivers whose sources became ready; returns whether there were any, and
    /// whether a remote woke us.
    fn poll_backend(&mut self, wait: Option<Duration>) -> io::Result<(bool, bool)> {
        let woken = self.handle.look(wait, &mut self.ready)?;
        let some = !self.ready.is_empty();
        self.handle.wake_ready(&mut self.ready);
        Ok((some, woken))
    }

    fn fire_timers(&self) {
        let now = self.handle.now();
        loop {
            let due = self.handle.0.timers.borrow_mut().pop_due(now);
            let Some(driver) = due else { return };
            self.handle.wake(driver);
        }
    }

    fn phases(&mut self) -> bool {
        let mut busy = self.phase(Phase::Receive, |driver, on| driver.receive(on));
        for pass in 0..WORK_PASSES {
            let (any, again) = self.work(pass > 0);
            busy |= any;
            if !again {
                break;
            }
        }
        busy |= self.phase(Phase::Send, |driver, on| driver.send(on));
        if !busy && !self.waiting.is_over(self.handle.now()) {
            (0..PAUSES).for_each(|_| core::hint::spin_loop());
        }
        busy
    }

    /// Runs one phase of all active drivers, including those that become active during it.
    fn phase(
        &self,
        phase: Phase,
        mut run: impl FnMut(&mut dyn Driver, &Handle) -> Activity,
    ) -> bool {
        let mut busy = false;
        let mut at = 0;
        while let Some(index) = self.active(at) {
            busy |= self.with_driver(index, phase, &mut run);
            at += 1;
        }
        busy
    }

    /// Runs `work` of all active drivers, or of only those that were woken since theirs. Returns
    /// whether something was done and whether a driver was woken after its turn.
    fn work(&self, only_woken: bool) -> (bool, bool) {
        let mut busy = false;
        let mut at = 0;
        while let Some(index) = self.active(at) {
            at += 1;
            if only_woken && !self.handle.0.drivers.borrow()[index as usize].due_work {
                continue;
            }
            busy |= self.with_driver(index, Phase::Work, &mut |driver, on| driver.work(on));
        }
        let drivers = self.handle.0.drivers.borrow();
        let again = self.handle.0.active.borrow().iter().any(|&i| drivers[i as usize].due_work);
        (busy, again)
    }

    /// Returns whether all that did something in this turn have nothing more to do until they are
    /// woken.
    fn is_settled(&self) -> bool {
        let drivers = self.handle.0.drivers.borrow();
        self.handle.0.active.borrow().iter().all(|&index| {
            let slot = &drivers[index as usize];
            !slot.unsettled && !slot.closed && !slot.due_receive && !slot.due_work
        })
    }

    fn active(&self, at: usize) -> Option<u32> {
        self.handle.0.active.borrow().get(at).copied()
    }

    /// Takes the driver out of its slot, runs it, puts it back (or drops it, if it was removed in
    /// the meantime).
    #[inline]
    fn with_driver(
        &self,
        index: u32,
        phase: Phase,
        run: &mut dyn FnMut(&mut dyn Driver, &Handle) -> Activity,
    ) -> bool {
        let core = &self.handle.0;
        let taken = {
            let slot = &mut core.drivers.borrow_mut()[index as usize];
            match phase {
                Phase::Receive => slot.due_receive = false,
                Phase::Work => slot.due_work = false,
                Phase::Send => {}
            }
            slot.driver.take()
        };
        let Some(mut driver) = taken else { return false };
        let activity = run(driver.as_mut(), &self.handle);
        let busy = activity.is_some();
        let mut drivers = core.drivers.borrow_mut();
        let slot = &mut drivers[index as usize];
        if busy {
            slot.last_busy = core.now.get();
            slot.unsettled |= activity == Activity::Busy;
        }
        if slot.removed {
            drop(drivers);
            self.handle.release(index);
            drop(driver);
        } else {
            slot.driver = Some(driver);
        }
        busy
    }

    /// Deactivates drivers that have had nothing to do for a while. Exceptions: drivers that were
    /// woken too late for a phase of this turn, even if only for `receive`, because they may have
    /// stopped receiving until they are woken; and drivers that were busy in the last turn, however
    /// long it took, while the loop spins for them.
    fn cool_down(&mut self) {
        let core = &self.handle.0;
        let now = core.now.get();
        let hot = self.hot.min(self.waiting.spin());
        let spins = !self.waiting.is_over(now);
        let settled = self.waiting.spin() == Duration::ZERO && self.waiting.is_on();
        let mut quiet = false;
        let mut drivers = core.drivers.borrow_mut();
        core.active.borrow_mut().retain(|&index| {
            let slot = &mut drivers[index as usize];
            let due = slot.due_receive || slot.due_work;
            let hot = now - slot.last_busy < hot || (slot.last_busy == self.last_busy && spins);
            let hot = hot || (slot.last_busy == now && !settled);
            let keep = slot.driver.is_some() && (due || hot);
            slot.unsettled = false;
            slot.active = keep;
            quiet |= !keep && slot.has_source;
            keep
        });
        if quiet {
            (self.poll_gap, self.turns_until_poll) = (0, 0);
        }
    }

    fn drop_drivers(&self) {
        loop {
            let slots: Vec<_> = self
                .handle
                .0
                .drivers
                .borrow_mut()
                .iter_mut()
                .filter_map(|s| s.driver.take())
                .collect();
            if slots.is_empty() {
                return;
            }
            drop(slots);
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Drivers and tasks hold handles and remotes, which hold the loop's core: break the
        // circles.
        self.drop_drivers();
        self.handle.0.remote.close();
    }
}

/// Starts a loop on a new thread, runs `setup` on it and returns its result. The loop then runs
/// until [`Handle::stop`] is called. The thread's result is the loop's.
pub fn spawn<T: Send + 'static>(
    config: LoopConfig,
    setup: impl FnOnce(&Handle) -> T + Send + 'static,
) -> io::Result<(T, RemoteLoop, JoinHandle<io::Result<()>>)> {
    let (give, take) = mpsc::channel();
    let thread = std::thread::Builder::new().name(config.name.clone()).spawn(move || {
        let mut event_loop = match Loop::new(config) {
            Ok(event_loop) => event_loop,
            Err(e) => {
                let _ = give.send(Err(e));
                return Ok(());
            }
        };
        let value = setup(event_loop.handle());
        let _ = give.send(Ok((value, event_loop.handle().remote())));
        event_loop.run()
    })?;
    match take.recv() {
        Ok(Ok((value, remote))) => Ok((value, remote, thread)),
        Ok(Err(e)) => Err(e),
        Err(_) => Err(io::Error::other("the loop's thread panicked during set-up")),
    }
}
