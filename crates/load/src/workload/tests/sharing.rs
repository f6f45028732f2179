//! Jobs on a device that grants fewer queues than there are jobs.

use super::*;

/// A disk that grants so many queues and refuses more.
struct Few {
    disk: Tricky,
    queues: usize,
    opened: AtomicU64,
}

impl Few {
    fn new(queues: usize, trick: Trick) -> Arc<Self> {
        Arc::new(Self { disk: Tricky::new(32 << 10, trick), queues, opened: AtomicU64::new(0) })
    }
}

impl BlockDevice for Few {
    fn url(&self) -> &str {
        "few:"
    }

    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn renew_size(&self) -> Result<weft_block::SizeAnswer, weft_block::Error> {
        self.disk.renew_size()
    }

    fn features(&self) -> Features {
        self.disk.features()
    }

    fn max_queues(&self) -> usize {
        self.queues
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let before = self.opened.fetch_add(1, Ordering::Relaxed);
        assert!(before < self.queues as u64, "a queue more than was granted");
        self.disk.open_queue(on, owner)
    }
}

fn jobs(numjobs: u32, threads: u32) -> JobSpec {
    let verify = Verify::Crc32c;
    JobSpec {
        rw: Rw::RandRw,
        rwmixread: 30,
        bs_bytes: 512,
        numjobs,
        threads,
        verify,
        number_ios: Some(100),
        ..JobSpec::default()
    }
}

#[test]
fn each_job_gets_its_own_completions_back() {
    // Completions come in another order than the operations went, and there is room for few at
    // once.
    for (queues, room) in [(1, 1), (2, 3), (3, 1000), (128, 2)] {
        let few = Few::new(queues, Trick::Small(room));
        let report = go(few.clone(), jobs(256, 2));
        assert!(report.is_clean(), "{queues} {room}: {:?}", report.verify());
        assert!(
            report.jobs.iter().all(|job| job.directions.iter().map(|d| d.ios).sum::<u64>() == 100),
            "{queues} {room}"
        );
        assert_eq!(report.loops.len(), queues.min(2));
        assert_eq!(few.opened.load(Ordering::Relaxed), queues as u64);
    }
}

#[test]
fn deep_jobs_share_a_queue_too() {
    let report = go(Few::new(1, Trick::Small(5)), JobSpec { iodepth: 16, ..jobs(7, 1) });
    assert!(report.is_clean(), "{:?}", report.verify());
    assert_eq!(report.ios(), 700);
}

#[test]
fn jobs_that_have_a_queue_each_share_nothing() {
    let few = Few::new(5, Trick::None);
    assert!(go(few.clone(), jobs(4, 2)).is_clean());
    assert_eq!(few.opened.load(Ordering::Relaxed), 4);
}

#[test]
fn an_error_ends_the_job_that_it_belongs_to() {
    let report = go(Few::new(1, Trick::Fail(0)), JobSpec { rw: Rw::Write, ..jobs(8, 1) });
    assert!(report.jobs[0].failed() == 1 && report.jobs[1..].iter().all(|job| job.failed() == 0));
    assert!(report.jobs[1..].iter().all(|job| job.directions[Direction::Write.index()].ios == 100));
}

#[test]
fn what_hangs_holds_up_nobody_else() {
    let stop = AtomicBool::new(false);
    let spec = JobSpec {
        rw: Rw::Write,
        verify: Verify::None,
        offset_increment: 512 * 100,
        size: Some(51_200),
        ..jobs(4, 1)
    };
    let few = Few::new(1, Trick::Hang(0));
    // The three others are done.
    let report = run_until(few, &spec, &stop, &mut |progress| {
        stop.store(progress.fraction >= 0.75, Ordering::Relaxed)
    })
    .unwrap();
    assert_eq!(report.jobs.iter().map(|job| job.unfinished).collect::<Vec<_>>(), [1, 0, 0, 0]);
    assert_eq!(report.ios(), 300);
}
