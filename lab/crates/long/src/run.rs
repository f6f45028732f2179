//! Running a proof: what it prints is shown as it comes, and kept.

use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use lab_host::earlier;
use xtask::sh;

use super::proofs::Proof;

/// Lines that are kept of a proof that succeeds...
const KEPT_LINES: usize = 80;
/// ...and of what one that fails says on standard error.
const ERROR_LINES: usize = 40;

/// Outcome of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// This machine cannot run it.
    Skipped,
}

impl Outcome {
    /// As in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// Report of a proof.
pub struct Report {
    pub outcome: Outcome,
    pub elapsed: Duration,
    /// Its figures.
    pub lines: Vec<String>,
}

/// Runs a proof to its end.
pub fn run(proof: &mut Proof) -> Result<Report> {
    if proof.needs_earlier {
        match earlier::program() {
            Ok(program) => _ = proof.command.env(earlier::VARIABLE, program),
            Err(e) => return Ok(report(None, Duration::ZERO, &[], &[format!("{e:#}")])),
        }
    }
    let start = Instant::now();
    let mut child = proof
        .command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {:?}", proof.command))?;
    let (out, err) =
        (child.stdout.take().context("no output")?, child.stderr.take().context("no errors")?);
    let errors = thread::spawn(move || shown(err));
    let said = shown(out);
    let errors = errors.join().unwrap_or_default();
    let status = child.wait()?;
    Ok(report(status.code(), start.elapsed(), &said, &errors))
}

/// Prints lines as they come, and gives them.
fn shown(from: impl Read) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        println!("  {line}");
        lines.push(line);
    }
    lines
}

fn report(status: Option<i32>, elapsed: Duration, said: &[String], errors: &[String]) -> Report {
    let mut lines: Vec<String> =
        said.iter().filter(|line| !is_of_the_harness(line)).cloned().collect();
    let is_skipped = lines.iter().any(|line| line.starts_with("skipped: "));
    let outcome = match status {
        Some(0) if !is_skipped => Outcome::Passed,
        Some(0) => Outcome::Skipped,
        Some(code) if code == i32::from(sh::SKIPPED) => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    lines.drain(..lines.len().saturating_sub(KEPT_LINES));
    if outcome == Outcome::Failed {
        lines.extend_from_slice(&errors[errors.len().saturating_sub(ERROR_LINES)..]);
    }
    Report { outcome, elapsed, lines }
}

/// Returns whether cargo's harness wrote the line, or nobody anything.
fn is_of_the_harness(line: &str) -> bool {
    let line = line.trim();
    ["running ", "test ", "test result"].iter().any(|start| line.starts_with(start))
        || matches!(line, "" | "." | "failures:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_kept_and_the_harness_is_not() {
        let said =
            ["", "running 1 test", "2,016 connections", ".", "test result: ok. 1 passed; 0 failed"]
                .map(str::to_owned);
        let errors = ["why".to_owned()];
        let of = |status| report(status, Duration::ZERO, &said, &errors);
        assert_eq!(
            (of(Some(0)).outcome, of(Some(0)).lines),
            (Outcome::Passed, vec!["2,016 connections".to_owned()])
        );
        assert_eq!((of(Some(101)).outcome, of(Some(101)).lines.len()), (Outcome::Failed, 2));
        assert_eq!((of(Some(77)).outcome, of(None).outcome), (Outcome::Skipped, Outcome::Failed));
        let skipped =
            report(Some(0), Duration::ZERO, &["skipped: too few descriptors".to_owned()], &[]);
        assert_eq!(skipped.outcome, Outcome::Skipped);
    }
}
