//! A gate in Markdown, for the summary of a CI job.

use super::outcome::GateOutcome;
use crate::report::escaped;
use core::fmt::Write;

/// The outcome in Markdown: the sentences, and a table of everything that was compared.
pub fn markdown(outcome: &GateOutcome) -> String {
    let mut out = format!("### weft study gate: {}\n\n", escaped(&outcome.suite));
    for sentence in outcome.sentences() {
        let _ = writeln!(out, "- {}", escaped(&sentence));
    }
    out += "\n| lane | workload | compared | baseline | now | change | |\n\
            |---|---|---|---:|---:|---:|---|\n";
    for check in &outcome.checks {
        let name = check.name();
        let cells = [
            check.lane.as_str(),
            &check.workload,
            &name,
            &check.before,
            &check.after,
            &check.change,
            check.verdict.words(),
        ];
        let _ = writeln!(out, "| {} |", cells.map(escaped).join(" | "));
    }
    out.push('\n');
    out
}
