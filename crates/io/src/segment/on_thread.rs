//! Values that may be moved to another thread, but are of use on their own only.

use core::cell::Cell;
use core::fmt;
use core::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The number of this thread; 0: it has none yet.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

fn this_thread() -> u64 {
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// A value that only the thread that made it can use. One that is dropped elsewhere is leaked.
pub(crate) struct OnThread<T> {
    value: ManuallyDrop<T>,
    thread: u64,
}

// SAFETY: only the thread that made it uses the value or drops it. Threads have different numbers,
// also one after the other.
unsafe impl<T> Send for OnThread<T> {}

impl<T> OnThread<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), thread: this_thread() }
    }

    fn is_here(&self) -> bool {
        self.thread == this_thread()
    }

    /// The value, on its thread.
    #[cfg(any(feature = "sim", test))]
    pub(crate) fn get(&self) -> Option<&T> {
        self.is_here().then_some(&self.value)
    }

    /// The value.
    ///
    /// # Panics
    /// On another thread.
    pub(crate) fn into_inner(self) -> T {
        assert!(self.is_here(), "a value is used on its own thread");
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken out once, as `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.value) }
    }
}

impl<T> Drop for OnThread<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

impl<T> fmt::Debug for OnThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_value_is_used_and_dropped_on_its_thread_only() {
        let value = Rc::new(5);
        let (first, second) = (OnThread::new(Rc::clone(&value)), OnThread::new(Rc::clone(&value)));
        let second = std::thread::spawn(move || {
            assert!(first.get().is_none() && second.get().is_none());
            drop(first);
            second
        })
        .join()
        .unwrap();
        assert_eq!(Rc::strong_count(&value), 3, "one is leaked");
        assert_eq!(second.get().map(|value| **value), Some(5));
        drop(second.into_inner());
        drop(OnThread::new(Rc::clone(&value)));
        assert_eq!(Rc::strong_count(&value), 2);
    }
}
