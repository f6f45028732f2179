//! The open loop: operations are due at a fixed rate, the same for all lanes, however fast they
//! answer.
//!
//! The rate is a part of what the slowest lane does in the closed loop, in the rounds before the
//! first with this rate; then it stays.

use super::rounds::Rounds;
use super::running::{Load, rw_of};
use super::sample;
use crate::results::Workload;
use crate::workload::Direction;
use core::time::Duration;

/// Before an operation is due, its job stops sleeping: otherwise the latency would be that of the
/// scheduler, not of the lane.
pub(super) const SPIN: Duration = Duration::from_micros(200);

impl Rounds<'_> {
    /// How a workload is run; none while it is not known what the lanes can do.
    pub(super) fn load_of(&mut self, at: usize) -> Option<Load> {
        let load = Load::of(&self.workloads[at]);
        let Some(open) = &self.workloads[at].open else { return Some(load) };
        if self.rates[at].is_none() {
            let of = self.workloads.iter().position(|other| other.name == open.of)?;
            let measured = self.samples[of][..self.spec.stage.lanes.len()]
                .iter()
                .filter(|samples| !samples.is_empty());
            let slowest = measured.map(|samples| sample::iops(samples)).reduce(f64::min)?;
            self.rates[at] = Some(((slowest * f64::from(open.percent) / 100.0) as u32).max(1));
        }
        Some(Load { rate: self.rates[at], ..load })
    }
}

/// The bytes per second that each job begins with so many operations of all jobs, by
/// [`Direction::index`].
pub(super) fn bytes_per_job(workload: &Workload, rate: u32) -> [Option<u64>; 3] {
    let of = |direction: Direction| {
        let percent = match direction {
            Direction::Read => workload.read_percent,
            _ => 100 - workload.read_percent,
        };
        let bytes = u64::from(rate) * u64::from(workload.bs_bytes) * u64::from(percent)
            / 100
            / u64::from(workload.jobs.max(1));
        rw_of(workload).has(direction).then_some(bytes.max(1))
    };
    [of(Direction::Read), of(Direction::Write), None]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Suite;

    #[test]
    fn a_rate_is_divided_by_jobs_and_directions() {
        let mut workload = Suite::named("patterns").unwrap().workloads[0].clone();
        (workload.rw, workload.bs_bytes, workload.read_percent, workload.jobs) =
            ("randrw".into(), 4096, 75, 2);
        assert_eq!(
            bytes_per_job(&workload, 1000),
            [Some(500 * 4096 * 75 / 100), Some(500 * 4096 / 4), None]
        );
        (workload.rw, workload.read_percent) = ("randread".into(), 100);
        assert_eq!(bytes_per_job(&workload, 1000), [Some(500 * 4096), None, None]);
    }
}
