//! fio's options that decide where, how much and how often a job writes, and those that change what
//! is measured: the operations that reach the device.

use super::tricky::{BLOCK, Log};
use super::*;
use std::time::Instant;
use weft_block::OpKind;

const WRITE: OpKind = OpKind::Write { fua: false };

/// Runs a job on a disk of 1 MiB, and returns its operations without the read that connects.
fn logged(change: impl FnOnce(&mut JobSpec)) -> (RunReport, Vec<(OpKind, u64, u32)>) {
    on(Tricky::new(2048, Trick::None), change)
}

fn on(disk: Tricky, change: impl FnOnce(&mut JobSpec)) -> (RunReport, Vec<(OpKind, u64, u32)>) {
    let log: Log = disk.log.clone();
    let mut spec = JobSpec { rw: Rw::Write, ..JobSpec::default() };
    change(&mut spec);
    let report = go(Arc::new(disk), spec);
    let ops = log.lock().unwrap()[1..].to_vec();
    (report, ops)
}

fn count(ops: &[(OpKind, u64, u32)], kind: OpKind) -> usize {
    ops.iter().filter(|op| op.0 == kind).count()
}

/// First blocks of the writes, in units of 4 KiB.
fn places(ops: &[(OpKind, u64, u32)]) -> Vec<u64> {
    ops.iter().filter(|op| op.0 == WRITE).map(|op| op.1 * BLOCK as u64 / 4096).collect()
}

#[test]
fn flushes_follow_writes_as_in_fio() {
    for (fsync, fdatasync, flushes) in [(1, 0, 255), (0, 1, 255), (4, 0, 63), (3, 0, 85), (0, 0, 0)]
    {
        let syncs = Syncs { fsync, fdatasync, ..Syncs::default() };
        let (report, ops) = logged(|s| s.syncs = syncs);
        let job = &report.jobs[0];
        assert_eq!((count(&ops, WRITE), count(&ops, OpKind::Flush)), (256, flushes), "{syncs:?}");
        assert_eq!((job.syncs.count(), report.ios()), (flushes as u64, 256), "{syncs:?}");
        assert!(report.is_clean());
    }
    let (_, ops) = logged(|s| s.syncs.fsync = 2);
    let kinds: Vec<_> = ops[..6].iter().map(|op| op.0).collect();
    assert_eq!(kinds, [WRITE, WRITE, OpKind::Flush, WRITE, WRITE, OpKind::Flush]);
}

#[test]
fn writes_are_durable_one_by_one_or_at_the_end() {
    let (_, ops) = logged(|s| s.syncs.each_write = true);
    assert_eq!(count(&ops, OpKind::Write { fua: true }), 256);
    let (report, ops) = logged(|s| (s.syncs.at_end, s.iodepth) = (true, 16));
    assert_eq!((count(&ops, OpKind::Flush), ops.last().unwrap().0), (1, OpKind::Flush));
    assert_eq!(report.jobs[0].syncs.count(), 0);
    let (_, ops) = logged(|s| (s.syncs.at_end, s.rw) = (true, Rw::Read));
    assert_eq!(count(&ops, OpKind::Flush), 0);
}

#[test]
fn a_flush_that_fails_is_told_as_one() {
    let device = open("error:rate=1,ops=flush,ram:1MiB", &OpenOptions::default()).unwrap();
    let syncs = Syncs { fdatasync: 4, ..Syncs::default() };
    let report = go(device, JobSpec { rw: Rw::Write, syncs, ..JobSpec::default() });
    let error = report.jobs[0].errors[0];
    assert_eq!((error.name(), error.count, report.ios()), ("sync", 1, 4));
}

#[test]
fn blocks_of_an_odd_size_cover_all_that_they_touch() {
    let (report, ops) = logged(|s| {
        (s.bs_bytes, s.whole_blocks, s.syncs.fdatasync) = (2300, true, 1);
        s.size = Some(64 << 10);
    });
    // 28 blocks of 2300 bytes fit into 64 KiB. As some bytes are left, a flush follows the last.
    assert_eq!((count(&ops, WRITE), count(&ops, OpKind::Flush)), (28, 28));
    assert_eq!(report.all().bytes, 28 * 2300);
    let left_out = &report.spec.left_out;
    assert!(left_out.len() == 1 && left_out[0].starts_with("bs=2300 ("), "{left_out:?}");
    let writes: Vec<_> = ops.iter().filter(|op| op.0 == WRITE).map(|op| (op.1, op.2)).collect();
    assert_eq!(writes[..4], [(0, 5), (4, 5), (8, 6), (13, 5)]);
    assert!(writes.iter().all(|(lba, blocks)| lba + u64::from(*blocks) <= 128), "{writes:?}");
}

#[test]
fn as_much_is_written_as_was_asked_for() {
    let bytes = |change: fn(&mut JobSpec)| {
        let (report, ops) = logged(change);
        (report.all().bytes >> 10, places(&ops).into_iter().max().unwrap_or(0))
    };
    assert_eq!(bytes(|s| s.extent.io_size = Some(Size::Bytes(64 << 10))), (64, 15));
    assert_eq!(bytes(|s| s.extent.io_size = Some(Size::Bytes(3 << 20))), (3072, 255));
    assert_eq!(bytes(|s| s.extent.filesize = Some((64 << 10, 64 << 10))), (64, 15));
    assert_eq!(bytes(|s| (s.extent.loops, s.size) = (3, Some(64 << 10))), (192, 15));
    assert_eq!(bytes(|s| s.create_only = true), (0, 0));
    let (_, ops) = logged(|s| s.extent.offset_percent = Some(75));
    assert_eq!((places(&ops)[0], ops.len()), (192, 64));
}

#[test]
fn sizes_of_a_range_fill_the_region() {
    let (report, ops) = logged(|s| s.bsrange = "4k-64k".parse().ok());
    let sizes: std::collections::BTreeSet<u32> = ops.iter().map(|op| op.2 * 512).collect();
    assert!(sizes.len() > 8 && sizes.iter().all(|size| size % 4096 == 0), "{sizes:?}");
    assert_eq!((report.all().bytes, report.is_clean()), (1 << 20, true));
}

#[test]
fn addresses_leave_holes_repeat_and_keep_to_their_zones() {
    let (_, ops) = logged(|s| (s.steps.skip, s.number_ios) = (4096, Some(4)));
    assert_eq!(places(&ops), [0, 2, 4, 6]);
    let zoned = |s: &mut JobSpec| {
        s.rw = Rw::RandWrite;
        s.distribution = "zoned:100/10:0/90".parse().unwrap();
    };
    let (report, ops) = logged(zoned);
    assert!(places(&ops).into_iter().all(|place| place < 25) && report.ios() == 256);
    let zones = Some(Zones { bytes: 64 << 10, range: 64 << 10, skip: 64 << 10 });
    let (_, ops) = logged(|s| (s.extent.zones, s.size) = (zones, Some(1 << 20)));
    let places = places(&ops);
    assert!(places.iter().all(|place| place / 16 % 2 == 0), "{places:?}");
    assert_eq!((places[15], places[16], places.len()), (15, 32, 256));
}

#[test]
fn a_hot_part_of_the_device_gets_most_operations() {
    let zipf = |text: &str| {
        let distribution = text.parse().unwrap();
        let (_, ops) = logged(|s| (s.rw, s.distribution) = (Rw::RandWrite, distribution));
        let distinct: std::collections::BTreeSet<u64> = places(&ops).into_iter().collect();
        distinct.len()
    };
    // Drawn evenly and independently, 256 operations meet 162 of 256 blocks.
    assert!(zipf("zipf:1.2") < 120 && zipf("pareto:0.1") < 120 && zipf("normal:0") < 150);
}

#[test]
fn what_is_only_verified_is_not_written() {
    let disk = Tricky::new(2048, Trick::None);
    let spec = |change: fn(&mut JobSpec)| {
        let mut spec = JobSpec { rw: Rw::RandWrite, verify: Verify::Crc32c, ..JobSpec::default() };
        change(&mut spec);
        spec
    };
    let only = |disk: &Tricky, change: fn(&mut JobSpec)| {
        let again = disk.with(Trick::None);
        let before = again.log.lock().unwrap().len();
        let report = go(Arc::new(again), JobSpec { verify_only: true, ..spec(change) });
        let log = disk.log.lock().unwrap();
        assert!(log[before..].iter().all(|op| op.0 == OpKind::Read));
        report
    };
    assert_eq!(only(&disk, |_| ()).verify().unwrap().bad, [2048, 0, 0]);
    assert!(go(Arc::new(disk.with(Trick::None)), spec(|_| ())).is_clean());
    let report = only(&disk, |_| ());
    assert!(report.is_clean() && report.total(Direction::Write).ios == 0);
    assert_eq!(report.verify().unwrap().blocks, 2048);
    assert_eq!(only(&disk, |s| s.randseed = Some(5)).verify().unwrap().bad, [0, 2048, 0]);
    // Only what the workload writes is read.
    let half = only(&disk, |s| s.number_ios = Some(128));
    assert_eq!((half.is_clean(), half.verify().unwrap().blocks), (true, 1024));
}

/// Reads and writes are those of the run that wrote, whenever these were due.
#[test]
fn schedules_do_not_change_what_is_verified() {
    for (rw, poisson) in [(Rw::RandWrite, true), (Rw::RandRw, true), (Rw::RandRw, false)] {
        let spec = JobSpec {
            rw,
            poisson,
            rate_iops: [Some(20_000), Some(10_000), None],
            verify: Verify::Crc32c,
            norandommap: true,
            number_ios: Some(128),
            ..JobSpec::default()
        };
        let disk = Tricky::new(2048, Trick::None);
        assert!(go(Arc::new(disk.with(Trick::None)), spec.clone()).is_clean());
        let found = go(Arc::new(disk), JobSpec { verify_only: true, ..spec }).verify().unwrap();
        assert!(found.bad == [0; 3] && found.blocks > 0, "{rw} {poisson}: {found:?}");
    }
}

#[test]
fn operations_that_overlap_wait_for_each_other() {
    let overlaps = |serialize_overlap| {
        let disk = Tricky::new(64, Trick::None);
        let overlaps = disk.overlaps.clone();
        let (report, _) = on(disk, |s| {
            (s.rw, s.iodepth, s.norandommap) = (Rw::RandWrite, 16, true);
            (s.extent.io_size, s.serialize_overlap) =
                (Some(Size::Bytes(1 << 20)), serialize_overlap);
        });
        assert_eq!(report.ios(), 256);
        overlaps.load(Ordering::Relaxed)
    };
    assert!(overlaps(false) > 0);
    assert_eq!(overlaps(true), 0);
}

#[test]
fn batches_are_filled_and_awaited() {
    let device = || open("delay:write=50us,spread=uniform,ram:1MiB", &OpenOptions::default());
    let spec = || JobSpec { rw: Rw::Write, iodepth: 8, number_ios: Some(80), ..JobSpec::default() };
    // Batches of 5 to 8 are counted in the third place.
    let low = go(device().unwrap(), JobSpec { iodepth_low: Some(0), ..spec() });
    assert_eq!(low.jobs[0].submitted.0[..4], [0, 0, 10, 0]);
    let awaited = go(device().unwrap(), JobSpec { complete_min: 8, ..spec() });
    assert!(awaited.jobs[0].completed.0[2] >= 9, "{:?}", awaited.jobs[0].completed);
}

#[test]
fn pauses_and_delays_take_their_time() {
    let think = Think { time: Duration::from_millis(4), blocks: Some(4), ..Think::default() };
    let started = Instant::now();
    let (report, _) = logged(|s| (s.think, s.number_ios) = (think, Some(20)));
    assert_eq!(report.ios(), 20);
    // Four pauses at least: after 4, 8, 12 and 16 operations.
    assert!(started.elapsed() >= Duration::from_millis(16));
    let (started, delay) = (Instant::now(), Duration::from_millis(30));
    let (report, _) = logged(|s| (s.start_delay, s.number_ios) = ([delay; 2], Some(1)));
    assert!(started.elapsed() >= delay && report.is_clean());
}

#[test]
fn a_job_ends_at_an_operation_that_takes_too_long() {
    let device = open("delay:write=20ms,ram:1MiB", &OpenOptions::default()).unwrap();
    let most = Some(Duration::from_micros(100));
    let spec = JobSpec { rw: Rw::Write, max_latency: [most; 3], ..JobSpec::default() };
    let report = go(device, spec);
    let job = &report.jobs[0];
    assert!(matches!(job.broken, Some(Broken::Latency { direction: Direction::Write, .. })));
    assert_eq!((report.ios(), job.error_number(), report.is_clean()), (1, 110, false));
}

#[test]
fn the_depth_follows_latency() {
    let job = |ms| {
        let (most, window) = (Duration::from_millis(ms), Duration::from_millis(20));
        let target = LatencyTarget { most, window, percent: 90.0, runs_on: false };
        let device = open("delay:read=2ms,ram:1MiB", &OpenOptions::default()).unwrap();
        let spec = JobSpec {
            iodepth: 8,
            latency_target: Some(target),
            time_based: true,
            runtime: Some(Duration::from_secs(600)),
            ..JobSpec::default()
        };
        go(device, spec).jobs.remove(0)
    };
    let kept = job(1000);
    assert_eq!((kept.depth, kept.broken, kept.error_number()), (Some(8), None, 0));
    let lost = job(1);
    assert_eq!(
        (lost.depth, lost.broken, lost.error_number()),
        (Some(1), Some(Broken::Target), 110)
    );
    assert_eq!(lost.depths.0[1..], [0; 6]);
}

#[test]
fn jobs_end_when_their_rates_have_settled() {
    let device = open("delay:read=2ms,ram:1MiB", &OpenOptions::default()).unwrap();
    let (window, ramp) = (Duration::from_secs(1), Duration::ZERO);
    let steady = SteadyState { criterion: "iops:1%".parse().unwrap(), window, ramp };
    let spec = JobSpec {
        numjobs: 2,
        steady: Some(steady),
        group_reporting: Some(true),
        time_based: true,
        runtime: Some(Duration::from_secs(600)),
        ..JobSpec::default()
    };
    let report = go(device, spec);
    assert!(report.is_clean() && report.jobs[0].runtime < Duration::from_secs(300));
    let steady = report.group().steady.unwrap();
    assert!(steady.attained && steady.value == 0.0 && steady.iops.len() == 1, "{steady:?}");
    assert!(steady.iops[0] > 0.0 && steady.bytes[0] == steady.iops[0] * 4096.0, "{steady:?}");
}

#[test]
fn all_jobs_end_with_the_first_if_asked() {
    let spec = |exitall_on_error| JobSpec {
        rw: Rw::Write,
        numjobs: 2,
        offset_increment: 512 << 10,
        exitall_on_error,
        time_based: true,
        runtime: Some(Duration::from_millis(if exitall_on_error == ExitAll::No {
            300
        } else {
            600_000
        })),
        ..JobSpec::default()
    };
    for exit in [ExitAll::Group, ExitAll::No] {
        let report = go(Arc::new(Tricky::new(2048, Trick::Fail(8))), spec(exit));
        let [first, second] = &report.jobs[..] else { panic!() };
        assert_eq!((first.failed(), second.failed(), report.stopped), (1, 0, false));
    }
}

#[test]
fn a_total_rate_keeps_the_mix() {
    let (report, _) = logged(|s| {
        (s.rw, s.rwmixread, s.iodepth) = (Rw::RandRw, 80, 8);
        (s.rate_total, s.poisson) = (Some(TotalRate::Iops(1000)), false);
        (s.time_based, s.runtime) = (true, Some(Duration::from_millis(500)));
    });
    assert_eq!(report.ios() + report.jobs[0].missed, 500);
    let reads = report.total(Direction::Read).ios as f64 / report.ios() as f64;
    assert!((0.6..0.95).contains(&reads), "{reads}");
}

#[test]
fn failures_of_one_direction_may_be_ignored() {
    let report = |on: &str| {
        let (report, _) = on_failing(on);
        (report.jobs[0].failed(), report.ios())
    };
    assert_eq!(report("write"), (1, 255));
    let (failed, ios) = report("read");
    assert!(failed == 1 && ios < 16, "{ios}");
}

fn on_failing(goes_on: &str) -> (RunReport, Vec<(OpKind, u64, u32)>) {
    on(Tricky::new(2048, Trick::Fail(8)), |s| s.continue_on_error = goes_on.parse().unwrap())
}
