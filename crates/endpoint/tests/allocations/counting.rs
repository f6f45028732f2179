//! The system's allocator, counting for each thread what it asks of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weft_endpoint::loops::ask;
use weft_io::Remote;

thread_local! {
    /// What this thread has asked for so far.
    pub static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator; counts what each thread asks of it.
struct Counting;

fn count() {
    // A thread that is ending has no counter any more; nobody asks for it.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a thread-local without a destructor and
// does not allocate.
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

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of a loop's thread so far, those for this answer not included.
pub fn allocations(of: &Remote) -> u64 {
    ask(of, |_| ALLOCATIONS.get()).unwrap()
}
