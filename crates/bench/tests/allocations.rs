//! Jobs that share a queue allocate nothing for an operation: counted by an allocator of this program's own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_bench::{JobSpec, Rw, run};
use weft_block::{BlockDevice, BlockQueue, Error, Features, Geometry, OpenOptions, open};
use weft_io::{DriverId, Handle};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator; counts what all threads ask of it.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came; counting is an atomic addition and does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System`, as all of ours do.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A device that grants two queues.
struct Two(Arc<dyn BlockDevice>);

impl BlockDevice for Two {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn features(&self) -> Features {
        self.0.features()
    }

    fn max_queues(&self) -> usize {
        2
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        self.0.open_queue(on, owner)
    }
}

const JOBS: u32 = 64;

/// Allocations of a run of so many operations for each job.
fn allocations(number_ios: u64) -> u64 {
    let device = Arc::new(Two(open("null:1GiB", &OpenOptions::default()).unwrap()));
    let spec =
        JobSpec { rw: Rw::RandRw, rwmixread: 70, numjobs: JOBS, threads: 1, number_ios: Some(number_ios), ..JobSpec::default() };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let report = run(device, &spec, &mut |_| ()).unwrap();
    assert_eq!((report.ios(), report.failed()), (u64::from(JOBS) * number_ios, 0));
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn an_operation_over_a_shared_queue_allocates_nothing() {
    let (few, many) = (allocations(1000), allocations(5000));
    let more = 4000 * u64::from(JOBS);
    // What a run allocates in all, and progress now and then, differs by little between the two.
    assert!(many < few + more / 100, "{few} and {many} allocations for {more} operations more");
}
