//! The end of what the terminal shows: at most five sentences. The report has the rest.

use super::{against, comparison, findings, matrix};
use crate::results::{Drawing, Results};

/// Most sentences.
const MOST: usize = 5;

/// Begins with dangers to the figures, then has the answers, then other load on the machine.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let first = failures(results).into_iter().chain(not_measured(results));
    first.chain(said(results)).chain(noise(results)).take(MOST).collect()
}

/// The answers of a suite.
fn said(results: &Results) -> Vec<String> {
    if results.draws(Drawing::SideBySide) {
        return comparison::sentences(results);
    }
    if results.draws(Drawing::Matrix) {
        return vec![format!("{}.", matrix::headline(results))];
    }
    let findings = findings::find(results);
    match against::sentences(results, &findings) {
        said if said.is_empty() => {
            findings.iter().map(|finding| format!("{}.", finding.headline())).collect()
        }
        said => said,
    }
}

fn failures(results: &Results) -> Option<String> {
    let failed: u64 = results.rows.iter().map(|row| row.failed).sum();
    let (noun, verb) = if failed == 1 { ("operation", "it") } else { ("operations", "they") };
    (failed > 0).then(|| {
        format!("{failed} {noun} failed: do not trust the figures before you know why {verb} did.")
    })
}

/// Lanes without all rows. A matrix says so beneath its tables.
fn not_measured(results: &Results) -> Option<String> {
    if results.draws(Drawing::Matrix) {
        return None;
    }
    let skipped = results
        .skipped
        .iter()
        .map(|skipped| format!("{} ({})", skipped.lane, skipped.why.trim_end_matches('.')));
    let all = results.workloads.len();
    let incomplete = results.lanes.iter().filter_map(|lane| {
        let rows = results.rows.iter().filter(|row| row.lane == lane.name).count();
        let has_row = |name: &str| results.row(&lane.name, name).is_some();
        let lacks = results.workloads.iter().any(|workload| !has_row(&workload.name));
        lacks.then(|| {
            format!("{} ({rows} of {all} workloads; the report’s notes say why)", lane.name)
        })
    });
    let names: Vec<String> = skipped.chain(incomplete).collect();
    (!names.is_empty()).then(|| format!("Not measured, or not all of it: {}.", names.join(", ")))
}

/// Other load on the machine, where it is enough to matter.
fn noise(results: &Results) -> Option<String> {
    const MUCH: f64 = 0.02;
    let at = &results.conditions;
    let part = |part: Option<f64>, who: &str| {
        part.filter(|part| *part >= MUCH)
            .map(|part| format!("{who} took {}", super::units::share(part)))
    };
    let parts = [part(at.others, "other programs"), part(at.steal, "the host of this machine")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty())
        .then(|| format!("During the study {} of the processors’ time.", parts.join(", and ")))
}
