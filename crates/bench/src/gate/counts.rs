//! Counts of rows that both studies have. They have no noise, and so no interval.

use super::check::{Check, CheckVerdict, percent};
use crate::report::units::count;
use crate::results::{MeasuredCounts, Results, Row};

/// A counted quantity, per operation.
type Counted = (&'static str, fn(&MeasuredCounts) -> Option<f64>);

/// All that is counted. The number of system calls comes behind.
const COUNTED: [Counted; 5] = [
    ("bytes on the wire", |counts| Some(counts.wire_bytes)),
    ("bytes copied, initiator", |counts| Some(counts.initiator.copied_bytes)),
    ("bytes copied, target", |counts| Some(counts.target?.copied_bytes)),
    ("system calls, initiator", |counts| Some(counts.initiator.system_calls)),
    ("system calls, target", |counts| Some(counts.target?.system_calls)),
];

/// Number of the first entries of [`COUNTED`] that do not depend on what arrives together.
const STEADY: usize = 3;

/// Checks of a row.
pub(super) fn checks(before: &Row, after: &Row, results: &Results, lose: f64) -> Vec<Check> {
    let in_flight = results.workloads.iter().find(|it| it.name == after.workload);
    let is_alone = in_flight.is_some_and(|it| it.in_flight() == 1);
    let check = |what, then: f64, now: f64, verdict| Check {
        lane: after.lane.clone(),
        workload: after.workload.clone(),
        what,
        to: None,
        before: count(then),
        after: count(now),
        change: change(then, now),
        half: None,
        verdict,
    };
    let mut checks = Vec::new();
    if after.failed > 0 {
        let worse = after.failed > before.failed;
        let verdict = if worse { CheckVerdict::Worse } else { CheckVerdict::Kept };
        checks.push(check(FAILED, before.failed as f64, after.failed as f64, verdict));
    }
    let Some((then, now)) = before.counts.as_ref().zip(after.counts.as_ref()) else {
        return checks;
    };
    for (at, (what, of)) in COUNTED.into_iter().enumerate() {
        let Some((then, now)) = of(then).zip(of(now)) else { continue };
        // Where several operations are in flight, a call takes as many as there are.
        let is_judged = at < STEADY || is_alone;
        let verdict = if is_judged { judged(then, now, lose) } else { CheckVerdict::Shown };
        checks.push(check(what, then, now, verdict));
    }
    checks
}

const FAILED: &str = "failed operations";

/// Names of the entries of [`COUNTED`] that a row has.
pub(super) fn names(row: &Row) -> impl Iterator<Item = &'static str> {
    let counts = row.counts;
    COUNTED.into_iter().filter_map(move |(what, of)| of(counts.as_ref()?).map(|_| what))
}

fn judged(before: f64, after: f64, lose: f64) -> CheckVerdict {
    match () {
        () if after > before * (1.0 + lose) => CheckVerdict::Worse,
        () if after < before * (1.0 - lose) => CheckVerdict::Better,
        () => CheckVerdict::Kept,
    }
}

fn change(before: f64, after: f64) -> String {
    match before {
        _ if before == after => "none".to_owned(),
        _ if before > 0.0 => percent(after / before - 1.0),
        _ => format!("from {} to {}", count(before), count(after)),
    }
}
