//! A run of a fixed number of operations, of which everything is counted at both ends.

use super::{Lane, Purpose};
use crate::error::Error;
use crate::results::{Counts, EndCounts};
use crate::workload::{self, JobSpec};
use std::sync::atomic::AtomicBool;
use weft_io::counters::Snapshot;

/// Operations of each job: enough for what happens once to vanish, and few enough to take no time.
const IOS_PER_JOB: u64 = 200;

/// Runs `job` on the lane's device; none when it was stopped before its end.
pub(super) fn run(lane: &Lane, job: JobSpec, stop: &AtomicBool) -> Result<Option<Counts>, Error> {
    if lane.generator.as_ref().is_some_and(|generator| generator.is_here()) {
        // Another program does not tell what it counts.
        return Ok(None);
    }
    let spec = JobSpec { number_ios: Some(IOS_PER_JOB), ..job };
    let read = || lane.target_counters.as_ref().and_then(|read| read());
    let before = read();
    let report = lane.run(Purpose::Load, &spec, stop, &mut |_| ())?;
    let ios = report.ios();
    if report.stopped || ios == 0 {
        return Ok(None);
    }
    let counters = report.counters();
    // The target also saw the first read of each job, which is not measured.
    let seen = ios + u64::from(spec.numjobs);
    let target = before.zip(read()).map(|(before, after)| after.since(&before));
    Ok(Some(Counts {
        ios,
        wire_bytes: (counters.send_bytes + counters.recv_bytes) as f64 / ios as f64,
        initiator: per_io(&counters, ios),
        target: target.map(|counters| per_io(&counters, seen)),
    }))
}

fn per_io(counters: &Snapshot, ios: u64) -> EndCounts {
    let ios = ios as f64;
    EndCounts { system_calls: workload::system_calls(counters) as f64 / ios, copied_bytes: counters.copied_bytes as f64 / ios }
}
