//! Separates overlapping operations, on devices whose backing store would interleave them.
//!
//! A file system may let a read see half of a write of the same block, and has no atomic
//! compare-and-write. A device on a file system therefore locks the range of each operation: shared
//! for reads, exclusive for all others. The range is divided into units, which are
//! [scattered](crate::scatter) over [`FILE_LOCK_STRIPES`] locks. A lock is one atomic number, so
//! queues on several loops contend only where their operations do. Nothing blocks here: the queue
//! sets aside an operation that cannot start yet, and its owner is woken when a conflicting
//! operation has ended. While an operation waits, new ones wait too.

use core::sync::atomic::{AtomicU32, Ordering};

use weft_base::lock::Lock;
use weft_io::{DriverId, RemoteLoop};

use crate::limits::FILE_LOCK_STRIPES;
use crate::queue::scatter;

/// The bytes that one lock covers.
const UNIT_BYTES: u64 = 4096;

/// Held by a writer.
const EXCLUSIVE: u32 = 1 << 31;

/// An operation waits for the lock. The lower bits count the readers.
const AWAITED: u32 = 1 << 30;

/// Use of its range by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// It reads; other readers are allowed.
    Shared,
    /// It writes.
    Exclusive,
}

/// A range that is locked, or to be locked. A long one has all locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    first: u64,
    units: u64,
    mode: LockMode,
}

impl Span {
    /// The bytes `offset..offset + len`.
    pub(crate) fn new(offset: u64, len: u64, mode: LockMode) -> Self {
        let first = offset / UNIT_BYTES;
        let units = (offset + len).div_ceil(UNIT_BYTES) - first;
        if units <= scatter::run(FILE_LOCK_STRIPES) as u64 {
            Self { first, units, mode }
        } else {
            Self { first: 0, units: FILE_LOCK_STRIPES as u64, mode }
        }
    }

    fn stripes(self) -> impl Iterator<Item = usize> {
        let has_all = self.units == FILE_LOCK_STRIPES as u64;
        let stripe = move |unit| match has_all {
            true => unit as usize,
            false => scatter::place(unit, FILE_LOCK_STRIPES),
        };
        (self.first..self.first + self.units).map(stripe)
    }
}

/// The locks of one device.
pub(crate) struct Interlock {
    stripes: Box<[AtomicU32]>,
    waiters: Lock<Vec<(RemoteLoop, DriverId)>>,
}

impl Interlock {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..FILE_LOCK_STRIPES).map(|_| AtomicU32::new(0)).collect(),
            waiters: Lock::default(),
        }
    }

    /// Locks the whole range or nothing. On failure `waiter` is woken when a retry may succeed; the
    /// retry sets `again`, which gives it precedence over operations that have not waited.
    pub(crate) fn try_lock(
        &self,
        span: Span,
        again: bool,
        waiter: impl FnOnce() -> (RemoteLoop, DriverId),
    ) -> bool {
        let Err(taken) = self.take_all(span, again, false) else { return true };
        self.release(span, taken);
        let (remote, driver) = waiter();
        let mut waiters = self.waiters.lock();
        if !waiters.iter().any(|(r, d)| *d == driver && r.is_same_loop(&remote)) {
            waiters.push((remote, driver));
        }
        drop(waiters);
        // The waiter is now registered: try again, or keep the registration.
        match self.take_all(span, again, true) {
            Ok(()) => true,
            Err(taken) => {
                self.release(span, taken);
                false
            }
        }
    }

    /// Undoes [`Interlock::try_lock`].
    pub(crate) fn unlock(&self, span: Span) {
        self.release(span, span.units as usize);
    }

    /// Takes the locks in order. At the first failure, returns the number of locks taken so far.
    fn take_all(&self, span: Span, again: bool, announce: bool) -> Result<(), usize> {
        match span
            .stripes()
            .position(|stripe| !take(&self.stripes[stripe], span.mode, again, announce))
        {
            None => Ok(()),
            Some(taken) => Err(taken),
        }
    }

    /// Releases the first `count` locks of a range.
    fn release(&self, span: Span, count: usize) {
        let mut awaited = false;
        for stripe in span.stripes().take(count) {
            awaited |= give_back(&self.stripes[stripe], span.mode);
        }
        if awaited {
            let waiters = core::mem::take(&mut *self.waiters.lock());
            for (remote, driver) in waiters {
                remote.wake(driver);
            }
        }
    }
}

/// Takes one lock. On failure with `announce`, marks the lock as awaited.
fn take(lock: &AtomicU32, mode: LockMode, again: bool, announce: bool) -> bool {
    let mut now = lock.load(Ordering::Relaxed);
    loop {
        let held = now & !AWAITED;
        let free = match mode {
            LockMode::Shared => held & EXCLUSIVE == 0,
            LockMode::Exclusive => held == 0,
        };
        let mine = free && (again || now & AWAITED == 0);
        let next = match mode {
            _ if !mine => now | AWAITED,
            LockMode::Shared => now + 1,
            LockMode::Exclusive => now | EXCLUSIVE,
        };
        if !mine && (!announce || now == next) {
            return false;
        }
        match lock.compare_exchange_weak(now, next, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return mine,
            Err(other) => now = other,
        }
    }
}

/// Releases one lock. Returns whether it is free now and awaited.
fn give_back(lock: &AtomicU32, mode: LockMode) -> bool {
    let mut now = lock.load(Ordering::Relaxed);
    loop {
        let left = match mode {
            LockMode::Shared => now - 1,
            LockMode::Exclusive => now & !EXCLUSIVE,
        };
        let free = left & !AWAITED == 0;
        let next = if free { 0 } else { left };
        match lock.compare_exchange_weak(now, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return free && left & AWAITED != 0,
            Err(other) => now = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_io::{Activity, Driver, Handle, Loop, LoopConfig};

    use super::*;

    struct Waiter(std::rc::Rc<core::cell::Cell<u32>>);

    impl Driver for Waiter {
        fn work(&mut self, _: &Handle) -> Activity {
            self.0.set(self.0.get() + 1);
            Activity::Idle
        }
    }

    fn span(offset: u64, len: u64, mode: LockMode) -> Span {
        Span::new(offset, len, mode)
    }

    #[test]
    fn those_that_overlap_wait_and_are_told() {
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle().clone();
        let runs = std::rc::Rc::default();
        let id = on.spawn(|_| Waiter(std::rc::Rc::clone(&runs)));
        let _ = event_loop.turn(false).unwrap();
        let locks = Interlock::new();
        let waiter = || (on.remote(), id);
        let (read, write) = (span(0, 8192, LockMode::Shared), span(4096, 1, LockMode::Exclusive));
        assert!(locks.try_lock(read, false, waiter) && locks.try_lock(read, false, waiter));
        assert!(!locks.try_lock(write, false, waiter));
        assert!(!locks.try_lock(read, false, waiter), "a newcomer waits behind the writer");
        assert!(locks.try_lock(span(8192, 4096, LockMode::Exclusive), false, waiter));
        locks.unlock(read);
        let before = runs.get();
        let _ = event_loop.turn(false).unwrap();
        assert_eq!(locks.waiters.lock().len(), 1, "one reader is left");
        locks.unlock(read);
        assert!(locks.waiters.lock().is_empty());
        let _ = event_loop.turn(false).unwrap();
        assert!(runs.get() > before);
        assert!(locks.try_lock(write, true, waiter));
        locks.unlock(write);
        locks.unlock(span(8192, 4096, LockMode::Exclusive));
        assert!(locks.stripes.iter().all(|lock| lock.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_range_longer_than_the_table_takes_each_lock_once() {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle();
        let id = on.spawn(|_| Waiter(Default::default()));
        let locks = Interlock::new();
        let all = span(5 << 20, 1 << 40, LockMode::Exclusive);
        assert!(locks.try_lock(all, false, || (on.remote(), id)));
        assert!(!locks.try_lock(span(0, 1, LockMode::Shared), false, || (on.remote(), id)));
        locks.unlock(all);
        assert!(locks.try_lock(span(0, 1, LockMode::Shared), false, || (on.remote(), id)));
    }

    #[test]
    fn threads_exclude_each_other() {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle();
        let id = on.spawn(|_| Waiter(Default::default()));
        let (remote, locks, writers) = (on.remote(), Interlock::new(), AtomicU32::new(0));
        let work = |mode: LockMode| {
            for round in 0..20_000u64 {
                let span = span(4096 - round % 2 * 4096, 8192, mode);
                while !locks.try_lock(span, true, || (remote.clone(), id)) {
                    std::thread::yield_now();
                }
                let add = u32::from(mode == LockMode::Exclusive);
                assert_eq!(
                    writers.fetch_add(add, Ordering::SeqCst),
                    0,
                    "the spans overlap, so there is at most one writer"
                );
                writers.fetch_sub(add, Ordering::SeqCst);
                locks.unlock(span);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(LockMode::Exclusive));
            scope.spawn(|| work(LockMode::Exclusive));
            scope.spawn(|| work(LockMode::Shared));
        });
    }

    /// It would meet itself if its units had their own locks.
    #[test]
    fn a_long_range_has_all_locks() {
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let on = event_loop.handle().clone();
        let id = on.spawn(|_| Waiter(std::rc::Rc::default()));
        let _ = event_loop.turn(false).unwrap();
        let (locks, waiter) = (Interlock::new(), || (on.remote(), id));
        let short = span(1 << 40, 1, LockMode::Exclusive);
        for units in [512, 513, FILE_LOCK_STRIPES as u64 + 1] {
            let long = span(4096, units * UNIT_BYTES, LockMode::Exclusive);
            assert!(locks.try_lock(long, true, waiter), "{units}");
            assert!(!locks.try_lock(span(8192, 1, LockMode::Shared), true, waiter), "{units}");
            let is_alone = units > 512;
            assert!(is_alone != locks.try_lock(short, true, waiter), "{units}");
            if !is_alone {
                locks.unlock(short);
            }
            locks.unlock(long);
        }
    }
}
