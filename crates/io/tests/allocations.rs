//! An echo allocates nothing per message: counted by an allocator of this program's own.

#![allow(clippy::missing_const_for_thread_local, reason = "it is const; for Windows the lint overlooks that")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use weft_io::event_loop::spawn;
use weft_io::{LoopConfig, Remote};

const MESSAGE_BYTES: usize = 64;
/// Messages that are under way together.
const DEPTH: usize = 16;
const MESSAGES: usize = 100_000;

/// Allocations that all of them may cost together: none, but for the poller's own tables on Windows.
const GROWTH: u64 = if cfg!(windows) { 50 } else { 0 };

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
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

/// Allocations of the loop's thread so far, those for this answer not included.
fn allocations(of: &Remote) -> u64 {
    let (give, take) = mpsc::channel();
    of.post(move |_| {
        let so_far = ALLOCATIONS.get();
        give.send(so_far).expect("somebody waits");
        // What the channel took is not the echo's.
        ALLOCATIONS.set(so_far);
    });
    take.recv().expect("the loop runs")
}

fn exchange(stream: &mut TcpStream, messages: usize) {
    let mut sent = [0; MESSAGE_BYTES * DEPTH];
    let mut back = [0; MESSAGE_BYTES * DEPTH];
    for round in 0..messages / DEPTH {
        sent.fill(round as u8);
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(sent, back);
    }
}

#[test]
fn an_echo_allocates_nothing_per_message() {
    let (address, remote, thread) =
        spawn(LoopConfig::default(), |on| common::serve_echo(on, "127.0.0.1:0", common::no_trouble)).unwrap();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_nodelay(true).unwrap();
    exchange(&mut stream, 100 * DEPTH);
    let before = allocations(&remote);
    assert!(before > 0, "the loop itself was allocated, so allocations are counted");
    exchange(&mut stream, MESSAGES);
    let allocated = allocations(&remote) - before;
    assert!((0..=GROWTH).contains(&allocated), "{allocated} allocations for {MESSAGES} messages");
    remote.post(|on| on.stop());
    thread.join().unwrap().unwrap();
}
