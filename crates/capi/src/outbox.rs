//! Completed operations on their way from event loops to the caller.

use crate::failure::{CallFailure, Code, Completion};
use crate::order;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::time::{Duration, Instant};
use weft_base::lock::{Condition, Lock};

/// Completions that are not reaped.
#[derive(Default)]
pub struct Outbox {
    state: Lock<State>,
    /// Notified when there is a completion, or an operation less to wait for.
    ready: Condition,
    /// Operations that have begun and are not reaped. It shrinks under the lock only.
    pending: AtomicU32,
}

#[derive(Default)]
struct State {
    done: VecDeque<Completion>,
    /// Readable while there are completions. Made when it is first asked for.
    descriptor: Option<OwnedFd>,
    /// Threads that wait.
    waiting: usize,
}

impl Outbox {
    /// Counts an operation that begins, unless `most` are pending already.
    pub fn begin(&self, most: u32) -> bool {
        let more = |now: u32| (now < most).then_some(now + 1);
        self.pending.fetch_update(AcqRel, Acquire, more).is_ok()
    }

    /// Takes back an operation that has not begun after all.
    pub fn withdraw(&self) {
        self.end(&self.state.lock(), 1);
    }

    /// Operations that have begun and are not reaped.
    pub fn pending(&self) -> u32 {
        self.pending.load(Acquire)
    }

    fn end(&self, state: &State, count: usize) {
        self.pending.fetch_sub(count as u32, AcqRel);
        if count > 0 && state.waiting > 0 {
            self.ready.notify_all();
        }
    }

    /// Adds completions.
    pub fn put(&self, completions: impl Iterator<Item = Completion>) {
        let mut state = self.state.lock();
        let was_empty = state.done.is_empty();
        state.done.extend(completions);
        if state.done.is_empty() {
            return;
        }
        order::precedes(self);
        if was_empty && let Some(descriptor) = &state.descriptor {
            // It cannot overflow: it is emptied before it is written to again.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
        }
        if state.waiting > 0 {
            self.ready.notify_all();
        }
    }

    /// Takes up to `most` completions out, and gives each away with its number from 0 on; how many
    /// there were.
    pub fn take(&self, most: usize, give: impl FnMut(usize, Completion)) -> usize {
        self.take_from(&mut self.state.lock(), most, give)
    }

    fn take_from(
        &self,
        state: &mut State,
        most: usize,
        mut give: impl FnMut(usize, Completion),
    ) -> usize {
        let count = most.min(state.done.len());
        if count > 0 {
            order::follows(self);
        }
        for (n, completion) in state.done.drain(..count).enumerate() {
            give(n, completion);
        }
        if count > 0
            && state.done.is_empty()
            && let Some(descriptor) = &state.descriptor
        {
            let _ = rustix::io::read(descriptor, &mut [0; 8]);
        }
        self.end(state, count);
        count
    }

    /// The same, after it has waited until there are `least` of them, but for `limit` at most
    /// (`None`: without a limit), only while not `is_ending`, and for no more operations than are
    /// pending: another thread may take some out.
    pub fn wait(
        &self,
        (least, limit): (usize, Option<Duration>),
        is_ending: impl Fn() -> bool,
        most: usize,
        give: impl FnMut(usize, Completion),
    ) -> usize {
        let end = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.state.lock();
        while state.done.len() < least.min(self.pending() as usize) && !is_ending() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            state.waiting += 1;
            let left = left.unwrap_or(Duration::from_secs(3600));
            state = self.ready.wait_for(state, left).0;
            state.waiting -= 1;
        }
        self.take_from(&mut state, most, give)
    }

    /// A descriptor that is readable while there are completions.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn descriptor(&self) -> Result<i32, CallFailure> {
        let mut state = self.state.lock();
        if state.descriptor.is_none() {
            let begins = u32::from(!state.done.is_empty());
            let made = eventfd(begins, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let wrong = |e| {
                CallFailure::new(Code::NoResources, format!("cannot make an event descriptor: {e}"))
            };
            state.descriptor = Some(made.map_err(wrong)?);
        }
        Ok(state.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;

    fn completion(user: u64) -> Completion {
        Completion { user, ..Completion::default() }
    }

    /// With operations that have begun.
    fn with(pending: u32) -> Outbox {
        let outbox = Outbox::default();
        assert!((0..pending).all(|_| outbox.begin(pending)) && !outbox.begin(pending));
        outbox
    }

    fn is_readable(outbox: &Outbox) -> bool {
        let state = outbox.state.lock();
        let descriptor: BorrowedFd<'_> =
            std::os::fd::AsFd::as_fd(state.descriptor.as_ref().unwrap());
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn the_descriptor_is_readable_while_there_are_completions() {
        let outbox = with(3);
        outbox.put((0..2).map(completion));
        outbox.descriptor().unwrap();
        for expected in [true, false] {
            assert!(is_readable(&outbox));
            assert_eq!(outbox.take(1, |_, _| ()), 1);
            assert_eq!(is_readable(&outbox), expected);
        }
        assert_eq!(outbox.take(1, |_, _| ()), 0);
        outbox.put([completion(5)].into_iter());
        assert!(is_readable(&outbox));
        let mut users = Vec::new();
        assert_eq!(outbox.take(9, |n, completion| users.push((n, completion.user))), 1);
        assert_eq!(users, [(0, 5)]);
        assert!(!is_readable(&outbox));
    }

    #[test]
    fn who_waits_is_woken_by_completions_time_and_the_end() {
        let outbox = Arc::new(with(4));
        let other = Arc::clone(&outbox);
        let waiter = std::thread::spawn(move || other.wait((2, None), || false, 4, |_, _| ()));
        outbox.put([completion(1)].into_iter());
        outbox.put([completion(2)].into_iter());
        assert_eq!(waiter.join().unwrap(), 2);
        let short = Some(Duration::from_millis(1));
        assert_eq!(outbox.wait((1, short), || false, 4, |_, _| ()), 0);
        assert_eq!(outbox.wait((1, None), || true, 4, |_, _| ()), 0);
        // Another thread takes out, or withdraws, what is waited for.
        let other = Arc::clone(&outbox);
        let waiter = std::thread::spawn(move || other.wait((2, None), || false, 0, |_, _| ()));
        outbox.put([completion(3)].into_iter());
        outbox.take(1, |_, _| ());
        outbox.withdraw();
        assert_eq!((waiter.join().unwrap(), outbox.pending()), (0, 0));
    }
}
