//! Counting what a program asks of the allocator.
//!
//! A test program counts with `#[global_allocator] static COUNTING: Counting = Counting;`.

#![allow(unsafe_code, reason = "an allocator is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Windows that [`in_a_quiet_window`] tries.
const WINDOWS: usize = 40;

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

static OF_PROCESS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator; counts what is asked of it, by thread and in all.
pub struct Counting;

fn count() {
    OF_PROCESS.fetch_add(1, Ordering::Relaxed);
    // A thread that is ending has no counter any more; nobody asks for it.
    let _ = OF_THREAD.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches an atomic and a
// thread-local without a destructor, and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`; `ptr` came from `System`, as all of ours do.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Allocations of this thread so far.
pub fn of_thread() -> u64 {
    OF_THREAD.get()
}

/// Allocations of all threads so far.
pub fn of_process() -> u64 {
    OF_PROCESS.load(Ordering::Relaxed)
}

/// Does something whose allocations are not this thread's: asking for the count, say.
pub fn uncounted<R>(something: impl FnOnce() -> R) -> R {
    let before = of_thread();
    let result = something();
    OF_THREAD.set(before);
    result
}

/// Calls `window`, which works for a while and counts allocations, until it has counted at most
/// `limit`; then, or after the last try, gives what it counted.
///
/// Lists and buffers grow, once, to the most that they ever held, and a busy machine brings more
/// together now and then than ever before. There is an end to that, so work whose operations
/// allocate nothing has a quiet window before long; work that allocates for its operations, be it
/// for few of them, never has. No number of operations to warm up can tell the two apart as surely.
/// Prints how many windows it took.
pub fn in_a_quiet_window(limit: u64, mut window: impl FnMut() -> u64) -> u64 {
    let (mut windows, mut counted) = (1, window());
    while counted > limit && windows < WINDOWS {
        (windows, counted) = (windows + 1, window());
    }
    println!("window {windows} of {WINDOWS} at most: {counted} allocations, {limit} allowed");
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn each_thread_has_its_count() {
        let (mine, all) = (of_thread(), of_process());
        let of_other = std::thread::spawn(|| {
            let before = of_thread();
            drop(std::hint::black_box(Box::new(1)));
            of_thread() - before
        });
        assert_eq!(of_other.join().unwrap(), 1);
        let started = of_thread() - mine;
        uncounted(|| drop(std::hint::black_box(vec![0; 100])));
        assert_eq!(of_thread() - mine, started);
        assert!(of_process() - all > started);
    }

    #[test]
    fn growth_ends_and_waste_does_not() {
        let mut list = Vec::new();
        let mut sizes = [3, 5, 4, 9, 30, 7, 30, 12].into_iter().cycle();
        let growing = in_a_quiet_window(0, || {
            let before = of_thread();
            list.clear();
            list.extend(0..sizes.next().unwrap());
            of_thread() - before
        });
        assert_eq!(growing, 0);
        let wasting = in_a_quiet_window(0, || {
            let before = of_thread();
            drop(std::hint::black_box(Box::new(1)));
            of_thread() - before
        });
        assert_eq!(wasting, 1);
    }
}
