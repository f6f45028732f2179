//! One report of several machines.

use super::MeasuredRun;
use crate::workload::{Direction, JobSpec, RunReport};
use std::time::SystemTime;
use weft_block::Geometry;
use weft_io::cpu_usage::Usage;

/// Returns the results of several agents that measured at the same time as one report: each is a
/// job, whose index is the number that stands with it, and a loop, whose thread is its process.
/// Operations and processor time are sums, histograms are merged, and the longest time counts.
pub fn merged(
    url: &str,
    geometry: Geometry,
    spec: &JobSpec,
    all: &[(u32, MeasuredRun)],
) -> RunReport {
    let loops: Vec<_> = all.iter().map(|(_, measured)| measured.process()).collect();
    RunReport {
        url: url.to_owned(),
        geometry,
        spec: spec.clone(),
        started: SystemTime::now(),
        jobs: all.iter().map(|(index, measured)| measured.job(*index)).collect(),
        process: loops.iter().fold(Usage::default(), |sum, one| sum.plus(&one.thread)),
        loops,
        watched: None,
        stopped: all.iter().any(|(_, measured)| measured.stopped),
    }
}

/// Returns the result of the agent that wrote the fewest bytes, for agents that wrote to devices of
/// their own: that much was written to each device.
pub fn least(all: Vec<(u32, MeasuredRun)>) -> Vec<(u32, MeasuredRun)> {
    let written = |measured: &MeasuredRun| measured.directions[Direction::Write.index()].bytes;
    // A failure must not vanish behind an agent that wrote less.
    let worst = |(_, measured): &(u32, MeasuredRun)| (measured.failed == 0, written(measured));
    all.into_iter().min_by_key(worst).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::measured::MeasuredDirection;
    use super::*;
    use core::time::Duration;

    fn measured(ios: u64, ns: u64) -> MeasuredRun {
        let reads = MeasuredDirection {
            ios,
            bytes: ios * 4096,
            runtime: Duration::from_secs(2),
            latencies: vec![(ns, ios)],
        };
        MeasuredRun {
            directions: [reads, MeasuredDirection::default()],
            cpu_ns: [ios * 1000, ios * 500],
            ..MeasuredRun::default()
        }
    }

    #[test]
    fn operations_are_summed_and_histograms_merged() {
        let geometry = Geometry {
            block_bytes: 512,
            blocks: 8,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 4096,
            atomic: weft_block::Atomicity::ONE_BLOCK,
        };
        let all = [(0, measured(3000, 100_000)), (2, measured(1000, 900_000))];
        let report = merged("u", geometry, &JobSpec::default(), &all);
        let total = report.all();
        assert_eq!((total.ios, total.iops_mean(), total.total.count()), (4000, 2000.0, 4000));
        let near = |percent: f64, ns: f64| {
            (total.total.percentile_ns(percent) as f64 - ns).abs() < ns * 0.02
        };
        assert!(
            near(50.0, 100_000.0) && near(80.0, 900_000.0),
            "{:?}",
            total.total.recorded().collect::<Vec<_>>()
        );
        assert_eq!(
            (report.process.user, report.process.system),
            (Duration::from_millis(4), Duration::from_millis(2))
        );
        assert_eq!(report.jobs.iter().map(|job| job.index).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn of_several_devices_the_least_that_was_written_counts_and_a_failure_before_it() {
        let wrote = |bytes, failed| {
            let part = MeasuredDirection { bytes, ..MeasuredDirection::default() };
            MeasuredRun {
                directions: [MeasuredDirection::default(), part],
                failed,
                ..MeasuredRun::default()
            }
        };
        assert_eq!(least(vec![(0, wrote(9, 0)), (1, wrote(4, 0))])[0].0, 1);
        assert_eq!(least(vec![(0, wrote(9, 2)), (1, wrote(4, 0))])[0].0, 0);
        assert!(least(Vec::new()).is_empty());
    }
}
