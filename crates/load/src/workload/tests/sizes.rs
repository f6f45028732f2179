//! Operations of several sizes, parts of a device, rates.

use super::*;

fn split(text: &str) -> JobSpec {
    JobSpec { bssplit: Some(text.parse().unwrap()), iodepth: 8, ..JobSpec::default() }
}

#[test]
fn several_sizes_move_the_whole_region_and_no_more() {
    for rw in [Rw::Read, Rw::Write, Rw::RandRead, Rw::RandRw, Rw::Trim] {
        let report = go(ram("8MiB"), JobSpec { rw, ..split("4k/50:16k/30:64k/20") });
        let all = report.all();
        assert!(report.is_clean(), "{rw}: {:?}", report.jobs[0].errors);
        assert_eq!(all.bytes, 8 << 20, "{rw}");
        assert!((100..2048).contains(&all.ios), "{rw}: {}", all.ios);
    }
}

#[test]
fn each_direction_has_its_sizes() {
    let report =
        go(ram("8MiB"), JobSpec { rw: Rw::RandRw, number_ios: Some(400), ..split("4k,64k/100") });
    for (direction, bytes) in [(Direction::Read, 4096), (Direction::Write, 65_536)] {
        let total = report.total(direction);
        assert!(total.ios > 20, "{direction:?}: {}", total.ios);
        assert_eq!(total.bytes, total.ios * bytes);
    }
}

#[test]
fn what_is_written_in_several_sizes_stays_in_its_region() {
    let disk = Tricky::new(2048, Trick::None);
    let writes = disk.writes.clone();
    let spec = JobSpec {
        rw: Rw::RandWrite,
        offset: 512 * 512,
        size: Some(512 * 1024),
        ..split("512/40:2k/30:4k/30")
    };
    let report = go(Arc::new(disk), spec);
    assert_eq!((report.all().bytes, report.is_clean()), (512 * 1024, true));
    let writes = writes.lock().unwrap();
    assert!(writes[..512].iter().chain(&writes[1536..]).all(|&n| n == 0));
    assert_eq!(writes.iter().sum::<u32>(), 1024);
}

#[test]
fn a_part_of_the_device_is_moved() {
    assert_eq!(
        go(ram("8MiB"), JobSpec { size_percent: Some(25), ..JobSpec::default() }).all().bytes,
        2 << 20
    );
}

/// So much is due in the time that it takes; a machine that is busy does less, never more.
#[test]
fn a_rate_limits_its_direction_only() {
    // What is due before the end, the first at once.
    let check = |report: &RunReport, direction, rate, runtime: Duration| {
        let bytes = report.total(direction).bytes;
        let most = rate * runtime.as_millis() as u64 / 1000 + 4096;
        assert!(bytes <= most, "{direction:?} in {runtime:?}: {bytes} of {most}");
    };
    let limited = |rate, runtime| {
        let spec = JobSpec {
            rw: Rw::RandRw,
            rate,
            iodepth: 4,
            time_based: true,
            runtime: Some(runtime),
            ..JobSpec::default()
        };
        go(ram("8MiB"), spec)
    };
    let first = Duration::from_millis(300);
    let both = |runtime| {
        let report = limited([Some(1 << 20), Some(512 << 10), None], runtime);
        check(&report, Direction::Read, 1 << 20, runtime);
        check(&report, Direction::Write, 512 << 10, runtime);
        report
    };
    let moves = |report: &RunReport, direction| report.total(direction).bytes > 0;
    let is_enough = |report: &RunReport| {
        [Direction::Read, Direction::Write].iter().all(|it| moves(report, *it))
    };
    longer_until(first, both, is_enough);
    let writes = |runtime| {
        let report = limited([None, Some(40_960), None], runtime);
        check(&report, Direction::Write, 40_960, runtime);
        report
    };
    longer_until(first, writes, |report| report.total(Direction::Read).ios > 100);
}
