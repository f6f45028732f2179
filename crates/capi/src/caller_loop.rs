//! An event loop in a thread of the caller: it runs while the caller calls it, so that no operation
//! crosses threads.
#![allow(unsafe_code, reason = "a value that one thread uses is held by a handle that others have")]

use crate::failure::{CallFailure, Code};
use core::cell::RefCell;
use core::mem::ManuallyDrop;
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use weft_io::event_loop::Loop;
use weft_io::{Handle, LoopConfig};

thread_local! {
    /// This thread. To ask the system library costs more.
    static HERE: ThreadId = thread::current().id();
}

/// A value that only the thread uses which has made it.
struct Mine<T> {
    thread: ThreadId,
    /// Leaked where another thread drops it.
    value: ManuallyDrop<T>,
}

// SAFETY: `get` and `drop` let no thread but the one that made the value at it.
unsafe impl<T> Send for Mine<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mine<T> {}

impl<T> Mine<T> {
    fn new(value: T) -> Self {
        Self { thread: HERE.with(|here| *here), value: ManuallyDrop::new(value) }
    }

    /// The value, if this is its thread.
    #[inline]
    fn get(&self) -> Option<&T> {
        // A thread whose thread-local values are gone is ending, and runs no loop.
        let is_here = HERE.try_with(|here| *here == self.thread);
        is_here.unwrap_or(false).then_some(&self.value)
    }
}

impl<T> Drop for Mine<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: made by this thread, and not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

struct Inside {
    handle: Handle,
    /// `None` while it runs, and after a panic in it.
    of_system: RefCell<Option<Box<Loop>>>,
}

/// A loop in a thread of the caller. Other threads can hold it, and do nothing with it.
pub struct CallerLoop {
    inside: Mine<Inside>,
}

impl CallerLoop {
    /// A loop of this thread, with `pool_bytes` of payload memory.
    ///
    /// # Errors
    /// The process has no descriptors or no memory left.
    pub fn new(pool_bytes: usize) -> Result<Self, CallFailure> {
        let config = LoopConfig { pool_bytes, ..LoopConfig::default() };
        let made = Loop::new(config).map_err(|e| {
            CallFailure::new(Code::NoResources, format!("an event loop cannot be made: {e}"))
        })?;
        let handle = made.handle().clone();
        let inside = Inside { handle, of_system: RefCell::new(Some(Box::new(made))) };
        Ok(Self { inside: Mine::new(inside) })
    }

    fn inside(&self) -> Result<&Inside, CallFailure> {
        self.inside.get().ok_or_else(elsewhere)
    }

    /// Returns whether this is the loop's thread.
    pub fn is_here(&self) -> bool {
        self.inside.get().is_some()
    }

    /// The handle that drivers of the loop get.
    ///
    /// # Errors
    /// It belongs to another thread.
    #[inline]
    pub fn handle(&self) -> Result<&Handle, CallFailure> {
        Ok(&self.inside()?.handle)
    }

    /// Returns the number of queues that use the loop of this handle: each has a reference in
    /// addition to the handle's own.
    pub fn queues(handle: &Arc<Self>) -> usize {
        Arc::strong_count(handle) - 1
    }

    /// Runs one turn, which waits for something to do, but for `most` at most; `None`: no limit.
    ///
    /// # Errors
    /// It belongs to another thread, or has failed.
    pub fn turn(&self, most: Option<Duration>) -> Result<(), CallFailure> {
        self.with_loop(|of_system| of_system.turn_within(most).map(drop))
    }

    /// Prepares for a wait of the caller for the descriptor; how long it may wait.
    ///
    /// # Errors
    /// As [`CallerLoop::turn`].
    pub fn prepare_wait(&self) -> Result<Option<Duration>, CallFailure> {
        self.with_loop(|of_system| Ok(of_system.prepare_wait()))
    }

    /// A descriptor that is readable when there is something to do.
    ///
    /// # Errors
    /// As [`CallerLoop::turn`].
    pub fn descriptor(&self) -> Result<i32, CallFailure> {
        let found = self.with_loop(|of_system| Ok(of_system.descriptor()))?;
        found.ok_or_else(|| CallFailure::new(Code::Unsupported, "the event loop has no descriptor"))
    }

    /// Takes the loop out while it runs: one in which a driver has panicked is dropped, and its
    /// operations are reported as cancelled.
    fn with_loop<T>(
        &self,
        run: impl FnOnce(&mut Loop) -> std::io::Result<T>,
    ) -> Result<T, CallFailure> {
        let place = &self.inside()?.of_system;
        let taken = place.borrow_mut().take();
        let mut of_system = taken.ok_or_else(|| {
            CallFailure::new(
                Code::Internal,
                "the event loop has ended by a defect; please report it",
            )
        })?;
        let result = run(&mut of_system);
        *place.borrow_mut() = Some(of_system);
        result.map_err(|e| CallFailure::new(Code::Io, format!("the event loop: {e}")))
    }
}

#[cold]
fn elsewhere() -> CallFailure {
    CallFailure::usage("this event loop belongs to another thread: use it, and its queues, there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_threads_can_only_hold_it() {
        let made = Arc::new(CallerLoop::new(1 << 20).unwrap());
        made.turn(Some(Duration::ZERO)).unwrap();
        let held = Arc::clone(&made);
        let there = thread::spawn(move || (held.is_here(), held.turn(None).is_err()));
        assert_eq!(there.join().unwrap(), (false, true));
        assert!(made.is_here());
        // A thread that ends leaves its loop behind; what other threads drop is leaked.
        let left = thread::spawn(|| CallerLoop::new(1 << 20).unwrap()).join().unwrap();
        assert!(left.handle().is_err() && left.turn(None).is_err());
    }

    #[test]
    fn a_wait_of_the_caller_ends_by_what_other_threads_post() {
        let made = CallerLoop::new(1 << 20).unwrap();
        let remote = made.handle().unwrap().remote();
        while made.prepare_wait().unwrap() == Some(Duration::ZERO) {
            made.turn(Some(Duration::ZERO)).unwrap();
        }
        let descriptor = made.descriptor().unwrap();
        let waiter = thread::spawn(move || remote.post(|on| on.stop()));
        // SAFETY: it is the loop's, which lives longer.
        let waited = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
        let polled = rustix::event::PollFd::new(&waited, rustix::event::PollFlags::IN);
        assert_eq!(rustix::event::poll(&mut [polled], None).unwrap(), 1);
        waiter.join().unwrap();
        made.turn(Some(Duration::ZERO)).unwrap();
        assert!(made.handle().unwrap().is_stopping());
    }
}
