//! Jobs that share a queue allocate nothing for an operation: counted by an allocator of this
//! program's own.

use std::sync::Arc;
use weft_bench::workload::BlockSplit;
use weft_bench::{JobSpec, Rw, run};
use weft_block::{BlockDevice, BlockQueue, Error, Features, Geometry, OpenOptions, open};
use weft_io::{DriverId, Handle};
use weft_testing::allocations::{Counting, of_process};

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

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.0.renew_size()
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
fn allocations(ios: u64, bssplit: Option<BlockSplit>) -> u64 {
    let device = Arc::new(Two(open("null:1GiB", &OpenOptions::default()).unwrap()));
    let number_ios = Some(ios);
    let spec = JobSpec {
        rw: Rw::RandRw,
        rwmixread: 70,
        bssplit,
        numjobs: JOBS,
        threads: 1,
        number_ios,
        ..JobSpec::default()
    };
    let before = of_process();
    let report = run(device, &spec, &mut |_| ()).unwrap();
    assert_eq!((report.ios(), report.failed()), (u64::from(JOBS) * ios, 0));
    of_process() - before
}

#[test]
fn an_operation_over_a_shared_queue_allocates_nothing() {
    for split in [None, Some("4k/50:8k/50".parse::<BlockSplit>().unwrap())] {
        let (few, many) = (allocations(1000, split.clone()), allocations(5000, split));
        let more = 4000 * u64::from(JOBS);
        // What a run allocates in all, and progress now and then, differs by little between the
        // two.
        assert!(many < few + more / 100, "{few} and {many} allocations for {more} operations more");
    }
}
