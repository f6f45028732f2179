//! A run that a study orders: what of a [`JobSpec`] goes to an agent. The agent itself chooses its
//! processors.

use crate::error::Error;
use crate::limits::{AGENT_PAYLOAD_BYTES_MAX, AGENT_RUN_MAX};
use crate::workload::{Direction, JobSpec};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Name, only reported.
    pub name: String,
    /// fio's `rw`.
    pub rw: String,
    /// Bytes of each operation.
    pub bs_bytes: u32,
    /// Operations that each job keeps in flight.
    pub iodepth: u32,
    /// Jobs.
    pub jobs: u32,
    /// Percentage of reads, of a mix.
    pub read_percent: u8,
    /// Bytes of the region; none: the whole device.
    pub size: Option<u64>,
    /// Distance between the regions of successive jobs, bytes.
    pub offset_increment: u64,
    /// Operations after which each job ends.
    pub number_ios: Option<u64>,
    /// Warm-up.
    pub ramp: Duration,
    /// Time to measure.
    pub run: Option<Duration>,
    /// The region is repeated until the time is over.
    pub time_based: bool,
    /// Bytes per second that each job begins with, reads and writes; none: as fast as possible.
    #[serde(default)]
    pub rate: [Option<u64>; 2],
    /// Time before an operation is due at which its job stops sleeping.
    #[serde(default)]
    pub rate_spin: Duration,
    /// Seed of the random order.
    pub seed: Option<u64>,
}

impl RunOrder {
    /// Orders a run as `spec` has it, on the agent's processors.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            name: spec.name.clone(),
            rw: spec.rw.to_string(),
            bs_bytes: spec.bs_bytes,
            iodepth: spec.iodepth,
            jobs: spec.numjobs,
            read_percent: spec.rwmixread,
            size: spec.size,
            offset_increment: spec.offset_increment,
            number_ios: spec.number_ios,
            ramp: spec.ramp_time,
            run: spec.runtime,
            time_based: spec.time_based,
            rate: [spec.rate[Direction::Read.index()], spec.rate[Direction::Write.index()]],
            rate_spin: spec.rate_spin,
            seed: spec.randseed,
        }
    }

    /// Returns the job that the agent runs, a loop on each of `cpus`.
    ///
    /// # Errors
    /// A pattern that does not exist, or more memory or time than an agent gives. What depends on
    /// the device is checked by the run.
    pub fn job(&self, cpus: &[usize]) -> Result<JobSpec, Error> {
        let payload = u64::from(self.jobs)
            .saturating_mul(u64::from(self.iodepth))
            .saturating_mul(u64::from(self.bs_bytes));
        if payload > AGENT_PAYLOAD_BYTES_MAX {
            return Err(Error::option(
                "iodepth",
                format!("an agent gives a run {AGENT_PAYLOAD_BYTES_MAX} bytes of memory"),
            ));
        }
        let time = self.ramp.saturating_add(self.run.unwrap_or_default());
        if time > AGENT_RUN_MAX || self.time_based && self.run.is_none() {
            let hours = AGENT_RUN_MAX.as_secs() / 3600;
            return Err(Error::option(
                "runtime",
                format!("a run of an agent ends after {hours} hours at the latest"),
            ));
        }
        // Without its own limit a run ends with its data, and a slow device would make that take
        // for ever.
        let runtime = self.run.or(Some(AGENT_RUN_MAX.saturating_sub(self.ramp)));
        Ok(JobSpec {
            name: self.name.chars().take(100).collect(),
            rw: self.rw.parse().map_err(|problem: String| Error::option("rw", problem))?,
            bs_bytes: self.bs_bytes,
            iodepth: self.iodepth,
            numjobs: self.jobs,
            threads: self.jobs.min(cpus.len() as u32).max(1),
            rwmixread: self.read_percent,
            size: self.size,
            offset_increment: self.offset_increment,
            number_ios: self.number_ios,
            ramp_time: self.ramp,
            runtime,
            time_based: self.time_based,
            rate: [self.rate[0], self.rate[1], None],
            rate_spin: self.rate_spin,
            randseed: self.seed,
            cpus_allowed: cpus.to_vec(),
            ..JobSpec::default()
        })
    }

    /// Returns whether it changes the data on the device.
    pub fn writes(job: &JobSpec) -> bool {
        job.rw.has(Direction::Write) || job.rw.has(Direction::Trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Rw;

    fn spec() -> JobSpec {
        let runtime = Some(Duration::from_millis(1500));
        let (rate, rate_spin) = ([Some(1 << 20), Some(4096), None], Duration::from_micros(9));
        let job = JobSpec {
            rw: Rw::RandRw,
            numjobs: 4,
            iodepth: 8,
            runtime,
            time_based: true,
            ..JobSpec::default()
        };
        JobSpec { rate, rate_spin, randseed: Some(7), ..job }
    }

    #[test]
    fn an_order_is_what_the_study_would_run_itself() {
        let expected = JobSpec { threads: 2, cpus_allowed: vec![3, 5], ..spec() };
        assert_eq!(RunOrder::of(&spec()).job(&[3, 5]).unwrap(), expected);
        assert!(RunOrder::writes(&expected) && !RunOrder::writes(&JobSpec::default()));
    }

    #[test]
    fn an_agent_gives_memory_and_time_up_to_its_limits() {
        let refused = |change: fn(&mut RunOrder)| {
            let mut order = RunOrder::of(&spec());
            change(&mut order);
            order.job(&[]).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|o| (o.jobs, o.iodepth, o.bs_bytes) = (u32::MAX, u32::MAX, u32::MAX)));
        assert!(
            refused(|o| o.ramp = Duration::MAX)
                && refused(|o| o.run = None)
                && refused(|o| o.rw = "format".into())
        );
        let endless = RunOrder { run: None, time_based: false, ..RunOrder::of(&spec()) };
        assert_eq!(
            endless.job(&[]).unwrap().runtime,
            Some(AGENT_RUN_MAX),
            "a run without a time has one"
        );
    }
}
