//! Files by io_uring: one ring per loop, made when its first file is opened.
//!
//! A driver of the loop's own takes in completions when it receives. One system call submits eight
//! operations, and at the end of a turn the rest of those that were submitted in it. The ring is
//! registered with the poller, so that a sleeping loop is woken by a completion.

mod transfer;

use super::op::DiskOp;
use super::service::DiskBackend;
use super::service::OpenFile;
use super::slab::Slab;
use crate::event_loop::{Activity, Driver, DriverId, Handle};
use crate::limits::{DISK_CLOSE_WAIT_MS, DISK_OPS_PER_LOOP, DISK_SUBMISSIONS};
use core::cell::RefCell;
use core::time::Duration;
use io_uring::{IoUring, cqueue, squeue};
use mio::unix::SourceFd;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Instant;
use transfer::{Next, Transfer};

/// Operations that one system call submits. The device gets them when the call ends, so a large
/// number would leave it idle until the last one is prepared.
const AT_ONCE: usize = 8;

/// Turns that take in what has completed if all of it completes at once, as disks often report it.
/// What one turn takes in is answered at its end, so that what follows from the answers keeps the
/// disk busy while the rest is worked on.
const SHARES: usize = 4;

/// `IORING_ENTER_GETEVENTS`: also do the work that completions left to this thread.
const GET_EVENTS: u32 = 1;

/// Wait before a system call that failed for want of memory is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// The backend.
pub(super) struct Uring {
    ring: RefCell<Ring>,
    driver: DriverId,
}

impl Uring {
    /// Makes the ring and the driver.
    pub(super) fn start(on: &Handle) -> io::Result<Rc<Self>> {
        let ring = build()?;
        let fd = ring.as_raw_fd();
        let mut this = None;
        on.try_spawn(|id| {
            on.registrar(id, |r| r.register_mio(&mut SourceFd(&fd)))?;
            let uring = Rc::new(Self { ring: RefCell::new(Ring::new(ring)), driver: id });
            this = Some(Rc::clone(&uring));
            Ok::<_, io::Error>(RingDriver(uring))
        })?;
        Ok(this.expect("set when the driver was made"))
    }
}

/// The best ring that this kernel has.
fn build() -> io::Result<IoUring> {
    let mut refused = None;
    for setup in SETUPS {
        let mut builder = IoUring::builder();
        setup(&mut builder);
        match builder.setup_cqsize(DISK_OPS_PER_LOOP as u32).build(DISK_SUBMISSIONS) {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => refused = Some(e),
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

/// Completions do not interrupt this thread: they are worked off when it enters the system next, be
/// it to sleep in the poller. (With `DEFER_TASKRUN` they would wait for a call on the ring itself,
/// and the ring does not tell the poller about that.)
const SETUPS: [fn(&mut io_uring::Builder); 3] = [
    // Linux 6.0
    |b| _ = b.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag(),
    // Linux 5.19
    |b| _ = b.setup_coop_taskrun().setup_taskrun_flag(),
    |_| {},
];

impl DiskBackend for Uring {
    fn submit(&self, on: &Handle, file: &Rc<OpenFile>, op: DiskOp) -> Result<(), DiskOp> {
        let mut ring = self.ring.borrow_mut();
        if ring.transfers.len() >= DISK_OPS_PER_LOOP {
            ring.starved.push(file.owner());
            return Err(op);
        }
        let transfer = ring.spare.pop().unwrap_or_default().begin(file, op);
        let key = ring.transfers.insert(transfer);
        ring.push(on, key);
        on.wake(self.driver);
        Ok(())
    }

    fn awake(&self, on: &Handle) {
        if self.ring.borrow().transfers.len() > 0 {
            on.wake(self.driver);
        }
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }
}

struct Ring {
    /// Declared before the ring: leaked by `drop` when the system may still use its memory.
    transfers: Slab<Transfer>,
    ring: IoUring,
    /// Pushed to the ring and not yet submitted to the system.
    queued: usize,
    /// Keys that found the ring full.
    overflow: Vec<u64>,
    /// QueueOwners whose operation was given back.
    starved: Vec<DriverId>,
    /// Ended transfers, for the memory they hold.
    spare: Vec<Transfer>,
    completed: Vec<(u64, i32)>,
}

impl Ring {
    fn new(ring: IoUring) -> Self {
        Self {
            transfers: Slab::default(),
            ring,
            queued: 0,
            overflow: Vec::new(),
            starved: Vec::new(),
            spare: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// Queues the next step of a transfer.
    fn push(&mut self, on: &Handle, key: u64) {
        if self.ring.submission().is_full() {
            let _ = self.enter(on);
        }
        let Some(transfer) = self.transfers.value_mut(key) else { return };
        let entry: squeue::Entry = transfer.entry().user_data(key);
        // SAFETY: what the entry points to (the operation's memory, its vector list, its file) is
        // owned by the transfer, which stays in the slab until the system has completed it.
        match unsafe { self.ring.submission().push(&entry) } {
            Ok(()) => self.queued += 1,
            Err(_) => self.overflow.push(key),
        }
        if self.queued >= AT_ONCE {
            // What it refuses is submitted at the end of the turn.
            let _ = self.enter(on);
        }
    }

    /// Submits what is queued and has the system do what it left to this thread.
    fn enter(&mut self, on: &Handle) -> io::Result<()> {
        on.counters().disk_enters.add(1);
        let submitted = self.enter_uncounted(self.queued.min(AT_ONCE))?;
        self.queued -= submitted.min(self.queued);
        Ok(())
    }

    fn enter_uncounted(&self, to_submit: usize) -> io::Result<usize> {
        loop {
            // SAFETY: the call takes no argument (`None`); see `push` for what the entries point
            // to.
            match unsafe {
                self.ring.submitter().enter::<()>(to_submit as u32, 0, GET_EVENTS, None)
            } {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Takes in completions; returns how many there were.
    fn reap(&mut self, on: &Handle) -> usize {
        if self.ring.completion().is_empty()
            && self.transfers.len() > 0
            && self.ring.submission().taskrun()
        {
            let _ = self.enter(on);
        }
        let most = (self.transfers.len() / SHARES).max(AT_ONCE);
        let mut completed = core::mem::take(&mut self.completed);
        completed.extend(
            self.ring
                .completion()
                .take(most)
                .map(|entry: cqueue::Entry| (entry.user_data(), entry.result())),
        );
        let count = completed.len();
        for (key, result) in completed.drain(..) {
            self.advance(on, key, result);
        }
        self.completed = completed;
        if count > 0 {
            self.starved.drain(..).for_each(|owner| on.wake(owner));
        }
        count
    }

    fn advance(&mut self, on: &Handle, key: u64, result: i32) {
        let Some(transfer) = self.transfers.value_mut(key) else { return };
        match transfer.advance(result) {
            Next::Again => self.push(on, key),
            Next::Done(result) => {
                if let Some(transfer) = self.transfers.remove(key) {
                    self.spare.push(transfer.finish(on, result));
                }
            }
        }
    }

    /// Submits; returns whether there was something.
    fn submit(&mut self, on: &Handle) -> io::Result<bool> {
        let overflow = core::mem::take(&mut self.overflow);
        overflow.into_iter().for_each(|key| self.push(on, key));
        if self.queued == 0 {
            return Ok(false);
        }
        while self.queued > 0 {
            let before = self.queued;
            self.enter(on)?;
            if self.queued == before {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        Ok(true)
    }
}

impl Drop for Ring {
    /// Waits for what the system still does with our memory; after a while it leaks that memory
    /// rather than wait on.
    fn drop(&mut self) {
        let give_up = Instant::now() + Duration::from_millis(DISK_CLOSE_WAIT_MS);
        while self.transfers.len() > 0 {
            let queued = core::mem::take(&mut self.queued);
            let _ = self.enter_uncounted(queued);
            let ended: Vec<u64> =
                self.ring.completion().map(|entry: cqueue::Entry| entry.user_data()).collect();
            ended.into_iter().for_each(|key| drop(self.transfers.remove(key)));
            self.overflow.drain(..).for_each(|key| drop(self.transfers.remove(key)));
            if self.transfers.len() == 0 {
                return;
            }
            if Instant::now() > give_up {
                return core::mem::forget(core::mem::take(&mut self.transfers));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

struct RingDriver(Rc<Uring>);

impl Driver for RingDriver {
    fn receive(&mut self, on: &Handle) -> Activity {
        Activity::busy_if(self.0.ring.borrow_mut().reap(on) > 0)
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }

    fn send(&mut self, on: &Handle) -> Activity {
        match self.0.ring.borrow_mut().submit(on) {
            Ok(some) => Activity::busy_if(some),
            Err(_) => {
                on.wake_at(self.0.driver, on.now() + RETRY);
                Activity::Idle
            }
        }
    }
}
