//! Whole runs, on a RAM disk and on one that misbehaves on purpose.

mod faults;
mod fio;
mod kept;
mod payload;
mod sharing;
mod sizes;
mod tricky;

use super::verify::{BlockFault, FaultKind};
use super::*;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tricky::{Trick, Tricky};
use weft_block::{
    BlockDevice, BlockQueue, Error, Features, Geometry, OpenOptions, StatusKind, open,
};
use weft_io::{DriverId, Handle};
use weft_testing::wait::PATIENCE;

fn ram(size: &str) -> Arc<dyn BlockDevice> {
    open(&format!("ram:{size}"), &OpenOptions::default()).unwrap()
}

fn go(device: Arc<dyn BlockDevice>, spec: JobSpec) -> RunReport {
    run(device, &spec, &mut |_| ()).unwrap()
}

fn tricky(trick: Trick, change: impl FnOnce(&mut JobSpec)) -> RunReport {
    let mut spec =
        JobSpec { rw: Rw::RandWrite, iodepth: 4, verify: Verify::Crc32c, ..JobSpec::default() };
    change(&mut spec);
    go(Arc::new(Tricky::new(1024, trick)), spec)
}

#[test]
fn a_job_moves_its_size_and_ends() {
    for rw in [
        Rw::Read,
        Rw::Write,
        Rw::RandRead,
        Rw::RandWrite,
        Rw::RandRw,
        Rw::ReadWrite,
        Rw::Trim,
        Rw::RandTrim,
    ] {
        let report = go(ram("8MiB"), JobSpec { rw, iodepth: 16, ..JobSpec::default() });
        assert!(report.is_clean(), "{rw}: {:?}", report.jobs[0].errors);
        assert_eq!((report.ios(), report.all().bytes), (2048, 8 << 20), "{rw}");
        for direction in Direction::ALL {
            let total = report.total(direction);
            assert_eq!(total.ios > 0, rw.has(direction), "{rw} {direction:?}");
            let counts =
                [&total.submission, &total.completion, &total.total].map(|latency| latency.count());
            assert_eq!(counts, [total.ios; 3]);
        }
        assert_eq!(report.jobs[0].depths.0.iter().sum::<u64>(), 2048);
    }
}

#[test]
fn a_mix_is_as_asked_for() {
    let report = go(
        ram("8MiB"),
        JobSpec { rw: Rw::RandRw, rwmixread: 70, iodepth: 8, bs_bytes: 512, ..JobSpec::default() },
    );
    let reads = report.total(Direction::Read).ios as f64 / report.ios() as f64;
    assert!((0.67..0.73).contains(&reads), "{reads}");
}

/// A machine that is busy otherwise may not let a short run do enough: then a longer one.
fn longer_until(
    first: Duration,
    mut run: impl FnMut(Duration) -> RunReport,
    enough: impl Fn(&RunReport) -> bool,
) -> RunReport {
    let mut runtime = first;
    loop {
        let report = run(runtime);
        assert!(runtime < PATIENCE || enough(&report), "{} in {runtime:?}", report.ios());
        if enough(&report) {
            return report;
        }
        runtime *= 2;
    }
}

#[test]
fn a_time_based_job_goes_on_and_ends() {
    let mut phases = Vec::new();
    let time_based = |runtime| {
        let spec = JobSpec {
            rw: Rw::RandRead,
            runtime: Some(runtime),
            ramp_time: Duration::from_millis(50),
            time_based: true,
            ..JobSpec::default()
        };
        let begun = Instant::now();
        let report = run(ram("64KiB"), &spec, &mut |progress| phases.push(progress.phase)).unwrap();
        let took = report.jobs[0].runtime;
        assert!(took <= begun.elapsed(), "{took:?}");
        report
    };
    // More than there are blocks.
    let report = longer_until(Duration::from_millis(300), time_based, |report| report.ios() > 16);
    assert!(report.is_clean() && !phases.is_empty());
    assert!(report.loops[0].counters.turns > 0 && report.process.total() > Duration::ZERO);
}

#[test]
fn many_jobs_share_few_loops() {
    let spec = JobSpec {
        rw: Rw::RandWrite,
        numjobs: 256,
        threads: 2,
        iodepth: 2,
        number_ios: Some(20),
        ..JobSpec::default()
    };
    let report = go(ram("16MiB"), spec);
    assert_eq!((report.jobs.len(), report.loops.len(), report.ios()), (256, 2, 256 * 20));
    assert!(report.jobs.iter().enumerate().all(|(i, job)| job.index == i as u32));
    assert_eq!(report.loops.iter().map(|l| l.jobs).collect::<Vec<_>>(), [128, 128]);
}

#[test]
fn what_is_written_verifies_in_every_order_and_shape() {
    for (rw, bs_bytes, jobs) in [
        (Rw::Write, 4096, 1),
        (Rw::RandWrite, 512, 3),
        (Rw::RandRw, 8192, 2),
        (Rw::Write, 4 << 20, 1),
    ] {
        let spec = JobSpec {
            rw,
            bs_bytes,
            numjobs: jobs,
            iodepth: 8,
            verify: Verify::Crc32c,
            ..JobSpec::default()
        };
        let report = go(Arc::new(Tricky::new(32 << 10, Trick::None)), spec);
        let verify = report.verify().unwrap();
        assert!(report.is_clean(), "{rw} {bs_bytes}: {:?}", verify.findings);
        let written = report.total(Direction::Write).bytes;
        assert_eq!(verify.phase.bytes, written, "{rw} {bs_bytes}");
        assert!(verify.blocks >= written / 512);
    }
}

#[test]
fn overwriting_verifies_while_it_goes_on() {
    // Few units and a deep queue: reads and writes of one unit meet all the time.
    let overwriting = |runtime| {
        let spec = JobSpec {
            rw: Rw::RandRw,
            iodepth: 32,
            norandommap: true,
            time_based: true,
            runtime: Some(runtime),
            verify: Verify::Crc32c,
            ..JobSpec::default()
        };
        go(ram("128KiB"), spec)
    };
    // Reads while running are checked, too.
    let is_checked = |report: &RunReport| report.verify().unwrap().blocks > 32 * 8;
    let report = longer_until(Duration::from_millis(200), overwriting, is_checked);
    assert!(report.is_clean(), "{:?}", report.verify().unwrap().findings);
}

#[test]
fn a_later_run_checks_what_an_earlier_one_wrote() {
    let device = ram("4MiB");
    let spec = |rw, randseed| JobSpec {
        rw,
        randseed,
        iodepth: 4,
        verify: Verify::Crc32c,
        ..JobSpec::default()
    };
    assert!(go(device.clone(), spec(Rw::Write, Some(5))).is_clean());
    for (rw, seed) in [(Rw::Read, None), (Rw::RandRead, Some(5))] {
        let report = go(device.clone(), spec(rw, seed));
        assert!(report.is_clean());
        assert_eq!(report.verify().unwrap().blocks, 8192);
    }
    let other = go(device, spec(Rw::Read, Some(6)));
    assert_eq!(other.verify().unwrap().count(FaultKind::Stale), 8192);
    let blank = go(ram("1MiB"), spec(Rw::Read, None));
    assert_eq!((blank.verify().unwrap().bad, blank.jobs[0].error_number()), ([2048, 0, 0], 84));
}

#[test]
fn a_flipped_bit_is_wrong() {
    let report = tricky(Trick::Flip(77), |_| ());
    let verify = report.verify().unwrap();
    assert_eq!((verify.bad, verify.findings[0].lba), ([1, 0, 0], 77));
    assert!(matches!(verify.findings[0].fault, BlockFault::Damaged { .. }));
    assert_eq!(report.jobs[0].error_number(), 84);
}

#[test]
fn a_lost_write_is_stale() {
    let report = tricky(Trick::LoseSecondWrite(100), |s| {
        (s.time_based, s.runtime, s.number_ios) = (true, Some(Duration::from_secs(60)), Some(256));
    });
    let verify = report.verify().unwrap();
    assert_eq!((verify.bad, verify.findings[0].lba), ([0, 1, 0], 100), "{:?}", verify.findings);
    assert_eq!(verify.findings[0].fault, BlockFault::OtherGeneration { expected: 2, found: 1 });
}

#[test]
fn a_stray_write_is_misplaced() {
    let report = tricky(Trick::Stray(10, 20), |_| ());
    let verify = report.verify().unwrap();
    assert_eq!(verify.bad, [1, 0, 1], "{:?}", verify.findings);
    let mut faults: Vec<_> = verify.findings.iter().map(|f| (f.lba, f.fault)).collect();
    faults.sort_by_key(|f| f.0);
    assert_eq!(faults, [(10, BlockFault::Blank), (20, BlockFault::Misplaced { lba: 10 })]);
}

#[test]
fn failed_writes_are_told_and_not_checked() {
    let report = tricky(Trick::Fail(8), |s| s.continue_on_error = OnError::all());
    let (job, verify) = (&report.jobs[0], report.verify().unwrap());
    assert_eq!(job.errors.len(), 1);
    let error = job.errors[0];
    assert_eq!(
        (error.direction, error.known, error.status.kind),
        (Direction::Write, Execution::MayHaveExecuted, StatusKind::Media)
    );
    assert_eq!((error.count, error.first_lba, job.error_number()), (1, 8, 5));
    assert_eq!((verify.bad_blocks(), verify.unknown_units, verify.blocks), (0, 1, 1024 - 8));
    assert_eq!(report.ios(), 127);
}

#[test]
fn the_first_error_ends_a_job_unless_told_otherwise() {
    let report = tricky(Trick::Fail(8), |s| s.rw = Rw::Write);
    assert_eq!((report.jobs[0].failed(), report.jobs[0].error_number()), (1, 5));
    assert!(report.ios() < 16);
    assert_eq!(report.verify().unwrap().phase.ios, 0);
    let report = tricky(Trick::Flip(77), |s| (s.rw, s.verify_fatal) = (Rw::Write, true));
    assert!(report.verify().unwrap().blocks < 1024);
}

#[test]
fn a_small_queue_pushes_back_and_nothing_is_lost() {
    let report = tricky(Trick::Small(3), |s| s.iodepth = 16);
    assert!(report.is_clean());
    assert_eq!((report.ios(), report.verify().unwrap().blocks), (128, 1024));
}

#[test]
fn nothing_hangs_with_the_device() {
    let stop = AtomicBool::new(false);
    let spec = JobSpec { rw: Rw::Write, iodepth: 4, ..JobSpec::default() };
    let mut reports = 0;
    let report = run_until(Arc::new(Tricky::new(1024, Trick::Hang(40))), &spec, &stop, &mut |_| {
        reports += 1;
        stop.store(reports > 1, Ordering::Relaxed);
    })
    .unwrap();
    assert!(report.stopped);
    assert_eq!((report.jobs[0].unfinished, report.jobs[0].error_number()), (1, 110));
}

#[test]
fn open_loop_latency_counts_from_when_it_was_due() {
    let spec = |rate| JobSpec {
        rw: Rw::RandRead,
        rate_iops: [Some(rate); 3],
        time_based: true,
        runtime: Some(Duration::from_millis(400)),
        ..JobSpec::default()
    };
    let report = go(ram("1MiB"), spec(1000));
    let done = report.ios() + report.jobs[0].missed;
    assert_eq!(done, 400);
    // One at a time and faster than any machine: what could not begin in time is late, and the
    // lateness is latency.
    let flooded = go(ram("1MiB"), spec(1_000_000_000));
    assert!(flooded.jobs[0].missed > 0);
    let read = flooded.total(Direction::Read);
    assert!(
        read.total.percentile_ns(50.0) > 100 * read.completion.percentile_ns(50.0),
        "{:?}",
        read.total
    );
    assert!(read.submission.mean_ns() + read.completion.mean_ns() >= read.total.mean_ns() * 0.99);
}

#[test]
fn each_job_reads_once_before_the_clock_starts() {
    let device = Tricky::new(1024, Trick::None);
    let submitted = device.submitted.clone();
    let report = go(
        Arc::new(device),
        JobSpec { rw: Rw::Write, numjobs: 3, number_ios: Some(5), ..JobSpec::default() },
    );
    assert_eq!((report.ios(), submitted.load(Ordering::Relaxed)), (15, 18));
}

#[test]
fn what_cannot_start_says_why() {
    let wrong = JobSpec { bs_bytes: 100, ..JobSpec::default() };
    let error = run(ram("1MiB"), &wrong, &mut |_| ()).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().starts_with("bs: 100")),
        (weft_block::ErrorKind::Usage, true)
    );
}
