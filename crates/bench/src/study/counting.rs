//! A run of a fixed number of operations, of which everything is counted at both ends.

use super::study_spec::{Purpose, ReadCounters, StudyLane};
use crate::error::Error;
use crate::results::{EndCounts, MeasuredCounts};
use crate::workload::{self, JobSpec};
use std::sync::atomic::AtomicBool;
use weft_io::counters::Snapshot;

/// Operations of each job: enough for what happens once to vanish, and few enough to take no time.
const IOS_PER_JOB: u64 = 200;

/// Runs `job` on the lane's device; none when it was stopped before its end.
pub(super) fn run(
    lane: &StudyLane,
    job: JobSpec,
    stop: &AtomicBool,
) -> Result<Option<MeasuredCounts>, Error> {
    if lane.generator.as_ref().is_some_and(|generator| generator.is_here()) {
        // Another program does not report its counts.
        return Ok(None);
    }
    let spec = JobSpec { number_ios: Some(IOS_PER_JOB), ..job };
    let read = |counters: &Option<ReadCounters>| counters.as_ref().and_then(|read| read());
    let before = [&lane.target_counters, &lane.home_counters].map(read);
    let report = lane.run(Purpose::Load, &spec, stop, &mut |_| ())?;
    let ios = report.ios();
    if report.stopped || ios == 0 {
        return Ok(None);
    }
    let counters = report.counters();
    // The target also saw the first read of each job, which is not measured.
    let seen = ios + u64::from(spec.numjobs);
    let after = [&lane.target_counters, &lane.home_counters].map(read);
    let [target, home] = core::array::from_fn(|at| {
        before[at].zip(after[at]).map(|(before, after)| after.since(&before))
    });
    let home = home.unwrap_or_default();
    let own = [per_io(&counters, ios), per_io(&home, seen)];
    Ok(Some(MeasuredCounts {
        ios,
        wire_bytes: wire_bytes(&counters, ios) + wire_bytes(&home, seen),
        initiator: EndCounts {
            system_calls: own.iter().map(|counts| counts.system_calls).sum(),
            copied_bytes: own.iter().map(|counts| counts.copied_bytes).sum(),
        },
        target: target.map(|counters| per_io(&counters, seen)),
    }))
}

fn wire_bytes(counters: &Snapshot, ios: u64) -> f64 {
    (counters.send_bytes + counters.recv_bytes) as f64 / ios as f64
}

fn per_io(counters: &Snapshot, ios: u64) -> EndCounts {
    let ios = ios as f64;
    EndCounts {
        system_calls: workload::system_calls(counters) as f64 / ios,
        copied_bytes: counters.copied_bytes as f64 / ios,
    }
}
