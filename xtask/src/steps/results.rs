//! Results of the steps so far: rows, counts, and the closing lines.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use plan::{Known, Run};

use super::{
    budget::{Cost, Used},
    process::{Ended, interrupted},
};
use crate::{
    count::{Count, Skip, Tally},
    excerpt, sh, skips,
    times::{self, Timed},
};

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
    Interrupted,
}

/// The results of all steps so far. A row is printed when its step ends.
pub struct Results {
    logs: PathBuf,
    strict: bool,
    so_far: Mutex<SoFar>,
    /// Whether no step is to build the workspace's test programs any more.
    built: Mutex<bool>,
    built_changed: Condvar,
}

struct SoFar {
    count: Count,
    tests: Vec<Timed>,
    /// Names of tests, and of steps that failed without one.
    failed: Vec<String>,
    skipped: Vec<Skip>,
    known: Known,
}

impl Results {
    /// None yet, with a directory for logs.
    pub fn new(logs: PathBuf, known: Known) -> Self {
        let strict = env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        let (count, tests) = (Count::default(), Vec::new());
        let so_far = SoFar { count, tests, failed: Vec::new(), skipped: Vec::new(), known };
        let (built, built_changed) = (Mutex::new(true), Condvar::new());
        Self { logs, strict, so_far: Mutex::new(so_far), built, built_changed }
    }

    /// The path of a step's log.
    pub fn log(&self, name: &str) -> Result<PathBuf> {
        let path = self.logs.join(format!("{name}.log"));
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        Ok(path)
    }

    /// Seconds that a step or program took when it last passed here.
    pub fn took(&self, name: &str) -> Option<f64> {
        self.lock().known.of(name)
    }

    /// Counts the tests of a step's log, and prints the step's row, and why it failed.
    pub fn report(&self, name: &str, ended: &Ended, path: &Path) -> Result<()> {
        let log = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        let tally = Tally::of(&log);
        let verdict = verdict(ended.status, tally.count);
        let mut so_far = self.lock();
        so_far.count += counted(verdict, tally.count, self.strict);
        let tests = times::of(name, &log);
        let mut failed = times::failed(&tests);
        if verdict == Verdict::Failed && failed.is_empty() {
            failed.push(name.into());
        }
        if verdict == Verdict::Passed {
            so_far.known.remember(name, ended.elapsed);
        }
        so_far.tests.extend(tests);
        so_far.failed.extend(failed);
        if verdict == Verdict::Skipped && tally.skips.is_empty() {
            so_far.skipped.push(Skip { test: name.into(), reason: "no reason".into() });
        }
        so_far.skipped.extend(tally.skips.into_iter().map(|skip| skip.of(name)));
        let tests = if tally.count.total() == 0 { String::new() } else { tally.count.to_string() };
        row(name, verdict.word(), ended.elapsed, ended.cpu, &tests);
        if verdict == Verdict::Failed {
            println!("  --- from {} ---", path.display());
            excerpt::of(&log).iter().for_each(|line| println!("  | {line}"));
        }
        Ok(())
    }

    /// Declares that a step will build the test programs.
    pub(super) fn expect_build(&self) {
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// Declares that the test programs are built, or will not be.
    pub fn set_built(&self) {
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.built_changed.notify_all();
    }

    /// Waits until the test programs are built.
    pub(super) fn wait_until_built(&self) {
        let built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.built_changed.wait_while(built, |built| !*built));
    }

    /// Prints the row of a build, which counts only if it failed; whether it did not.
    pub fn report_build(&self, name: &str, ended: &Ended, path: &Path) -> Result<bool> {
        if ended.status.is_some_and(|status| status.success()) {
            row(name, "ok", ended.elapsed, ended.cpu, "");
            return Ok(true);
        }
        self.report(name, ended, path)?;
        Ok(false)
    }

    /// Counts a step as failed for a reason that no program printed.
    pub fn fail(&self, name: &str, error: &anyhow::Error) -> Result<()> {
        let mut so_far = self.lock();
        so_far.count.failed += 1;
        so_far.failed.push(name.into());
        row(name, Verdict::Failed.word(), Duration::ZERO, Duration::ZERO, "");
        println!("  | {error:#}");
        Ok(())
    }

    /// The counts of all steps so far.
    #[cfg(test)]
    pub fn count(&self) -> Count {
        self.lock().count
    }

    /// Prints the closing lines; true if anything failed.
    pub fn finish(self, run: Option<Run>, took: Duration, cost: Cost) -> Result<bool> {
        let strict = self.strict;
        let SoFar { mut count, tests, mut failed, skipped, mut known } =
            self.so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
        times::print_slowest(tests);
        if let Some(run) = run.filter(|_| !interrupted()) {
            if strict && known.of(run.name()).is_none() && !is_within_budget(run, cost)? {
                failed.push("budget of processor time".into());
                count.failed += 1;
            }
            known.remember(run.name(), took);
        }
        // Once more at the end: the rest is long, and is often cut.
        if !failed.is_empty() {
            println!();
        }
        failed.iter().for_each(|name| println!("failed: {name}"));
        skips::print(&skipped, strict);
        if run == Some(Run::Product) {
            println!(
                "\nnot in this command: {} (`cargo xtask test --all`; Debian 12, root)",
                left_out()
            );
        }
        println!("\n{count}");
        Ok(count.failed > 0)
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints the use of a run's budget. The first run in a clone builds everything, so only that one
/// can be compared.
fn is_within_budget(run: Run, cost: Cost) -> Result<bool> {
    let used = Used::of(run, cost)?;
    println!(
        "\nprocessor time: {:.0} units of {:.0} that xtask/budget.txt allows",
        used.units, used.allowed
    );
    Ok(!used.is_over())
}

/// The steps that only `cargo xtask test --all` has.
fn left_out() -> String {
    let names: Vec<&str> =
        plan::STEPS.iter().filter(|step| Run::Rest.has(step)).map(|step| step.name).collect();
    names.join(", ")
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The verdict of the exit status and the counted tests together.
fn verdict(status: Option<ExitStatus>, tests: Count) -> Verdict {
    match status.and_then(|status| status.code()) {
        None if interrupted() => Verdict::Interrupted,
        Some(0) if tests.failed == 0 => Verdict::Passed,
        Some(code) if code == i32::from(sh::SKIPPED) => Verdict::Skipped,
        _ => Verdict::Failed,
    }
}

/// The step's tests, or the step itself where it holds none.
fn counted(verdict: Verdict, tests: Count, strict: bool) -> Count {
    let mut count = tests;
    match verdict {
        Verdict::Passed if tests.total() == 0 => count.passed = 1,
        Verdict::Failed if tests.failed == 0 => count.failed += 1,
        Verdict::Skipped if tests.skipped == 0 => count.skipped = 1,
        _ => {}
    }
    if strict {
        count.failed += std::mem::take(&mut count.skipped);
    }
    count
}

/// Prints the heading of the table.
pub fn heading() {
    println!("{:<28} {:<11} {:>8} {:>9}  tests", "step", "result", "seconds", "processor");
}

/// Prints a row of the table.
pub fn row(name: &str, word: &str, elapsed: Duration, cpu: Duration, tests: &str) {
    println!(
        "{name:<28} {word:<11} {:>8.1} {:>9.1}  {tests}",
        elapsed.as_secs_f64(),
        cpu.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_fails_where_it_must_run() {
        let tests = Count { passed: 3, failed: 0, skipped: 2 };
        let strict = counted(Verdict::Passed, tests, true);
        assert_eq!(strict, Count { passed: 3, failed: 2, skipped: 0 });
        assert_eq!(counted(Verdict::Passed, tests, false), tests);
    }

    #[test]
    fn a_step_without_tests_counts_itself() {
        let one = |verdict| counted(verdict, Count::default(), false);
        assert_eq!(one(Verdict::Passed).passed, 1);
        assert_eq!(one(Verdict::Failed).failed, 1);
        assert_eq!(one(Verdict::Skipped).skipped, 1);
        assert_eq!(one(Verdict::Interrupted).total(), 0);
    }
}
