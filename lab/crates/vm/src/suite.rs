//! `cargo xtask lab test`: all cases that are not long, on as many machines as there are CPUs for.

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use xtask::{Known, count::Count, sh, times};

use super::{
    cache::Cache,
    guest::{self, Guest},
    host::host_ready,
    plan::{self, Case, Options, Plan},
    vm::{Machine, Outcome},
};

/// Lines of a failed case's output that the table shows.
const TAIL_LINES: usize = 40;
/// What a case that succeeds is called.
const PASSED: &str = "ok";
/// What a case that cannot run here is called.
const SKIPPED: &str = "skipped";
/// What `lab/init` says before what it finds behind a case.
const LEFT: &str = "left behind: ";

/// Arguments of `cargo xtask lab test`.
#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Cases by name or by path (all of lab/cases that are not long)
    cases: Vec<PathBuf>,
    /// Machines that run at the same time (one for each CPU)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    options: Options,
}

/// What became of one case.
#[derive(Debug)]
struct CaseResult {
    /// The script's file name without `.sh`.
    name: String,
    /// How it ended.
    outcome: Outcome,
    /// Everything that it wrote, standard output and standard error together.
    output: Vec<u8>,
    /// From its start to its end.
    elapsed: Duration,
}

pub(super) fn run(args: &TestArgs) -> Result<ExitCode> {
    let count = test_cases(&args.cases, args.jobs, &args.options)?;
    println!("{count}");
    Ok(if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the cases (all but the long ones if none is named) and prints a line for each, and the end
/// of what it wrote for each that fails.
///
/// # Errors
/// [`sh::Missing`] when this machine cannot run the lab; the cases that had not started by then do not run.
fn test_cases(cases: &[PathBuf], jobs: Option<usize>, options: &Options) -> Result<Count> {
    let cases = match cases {
        [] => usual(scripts_in("cases")?)?,
        named => named.iter().map(|case| find(case.clone())).collect::<Result<_>>()?,
    };
    // Nothing is built for a machine that cannot run it.
    host_ready()?;
    let options = &built(&cases, options)?;
    let jobs = jobs.unwrap_or_else(sh::cores);
    let plans = plan::grouped(&cases)?.into_iter().map(|group| Plan::new(&group, options, &[]));
    let plans = plans.collect::<Result<Vec<_>>>()?;
    let cache = Cache::open()?;
    let guests = plans.iter().map(|plan| guest::build(&cache, plan)).collect::<Result<Vec<_>>>()?;
    drop(cache);
    work_through(&plans, &guests, jobs)
}

/// Runs the cases of all plans, on several machines at the same time. A machine goes from case to
/// case of its plan as long as these pass and leave it as they found it; after any other a new one
/// is booted, so no case meets what another one did.
fn work_through(plans: &[Plan], guests: &[Guest], jobs: usize) -> Result<Count> {
    let known = Mutex::new(Known::read(&sh::target_dir().join("lab")));
    let queue = in_order(plans, |case| known.lock().expect("no one panics with it").of(case));
    let (next, count) = (AtomicUsize::new(0), Mutex::new(Count::default()));
    let work = || -> Result<()> {
        let mut kept: Option<(usize, Machine)> = None;
        while let Some(&(group, case)) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
            let same = kept.take().filter(|(of, _)| *of == group).map(|(_, machine)| machine);
            let mut machine =
                same.map_or_else(|| Machine::boot(&plans[group], &guests[group]), Ok)?;
            let (start, mut output) = (Instant::now(), Vec::new());
            let (outcome, as_before) = machine.run(case, &mut output)?;
            let elapsed = start.elapsed();
            known.lock().expect("no one panics with it").remember(&case.name, elapsed);
            let result = CaseResult { name: case.name.clone(), outcome, output, elapsed };
            report(&result, as_before, &mut count.lock().expect("no one panics with it"));
            kept = as_before.then_some((group, machine));
        }
        Ok(())
    };
    let work = || work().inspect_err(|_| next.store(queue.len(), Ordering::Relaxed));
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..jobs.clamp(1, queue.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    count.into_inner().context("a worker panicked")
}

/// All cases, with the index of each one's plan: the plans with the fewest cases first, so that all
/// workers share the cases of the largest one at the end, and in each the longest first. A case
/// that never ran here counts by its limit.
fn in_order(plans: &[Plan], took: impl Fn(&str) -> Option<f64>) -> Vec<(usize, &Case)> {
    let mut groups: Vec<usize> = (0..plans.len()).collect();
    groups.sort_by_key(|group| plans[*group].cases.len());
    let seconds = |case: &Case| took(&case.name).unwrap_or(case.timeout.as_secs_f64());
    let cases_of = |group: usize| {
        let mut cases: Vec<&Case> = plans[group].cases.iter().collect();
        cases.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
        cases.into_iter().map(move |case| (group, case))
    };
    groups.into_iter().flat_map(cases_of).collect()
}

/// Builds weft once for all cases, if one of them wants it.
fn built(cases: &[PathBuf], options: &Options) -> Result<Options> {
    let mut options = options.clone();
    if options.weft.is_none() {
        options.weft = plan::weft_for(cases)?;
    }
    Ok(options)
}

/// Counts an outcome and returns the word for it.
fn verdict(outcome: &Outcome, count: &mut Count) -> &'static str {
    let (counter, word) = match outcome {
        Outcome::Exited(0) => (&mut count.passed, PASSED),
        Outcome::Exited(sh::SKIPPED) => (&mut count.skipped, SKIPPED),
        Outcome::Exited(_) => (&mut count.failed, "FAILED"),
        Outcome::TimedOut(..) => (&mut count.failed, "TIMED OUT"),
        Outcome::Died(_) => (&mut count.failed, "DIED"),
    };
    *counter += 1;
    word
}

fn report(result: &CaseResult, as_before: bool, count: &mut Count) {
    let word = verdict(&result.outcome, count);
    println!("{}", times::line(&result.name, word, result.elapsed));
    let output = String::from_utf8_lossy(&result.output);
    let lines: Vec<&str> = output.lines().collect();
    let shown = if [PASSED, SKIPPED].contains(&word) { 0 } else { TAIL_LINES };
    for line in &lines[lines.len().saturating_sub(shown)..] {
        println!("  | {line}");
    }
    if word == PASSED && !as_before {
        lines
            .iter()
            .filter(|line| line.starts_with(LEFT))
            .for_each(|line| println!("  a new machine, since this one is not as it was: {line}"));
    }
    if word == SKIPPED {
        println!("skipped: {}: {}", result.name, lines.last().unwrap_or(&"no reason"));
    }
    if let Some(explanation) = result.outcome.explanation() {
        println!("  {explanation}");
    }
}

fn find(case: PathBuf) -> Result<PathBuf> {
    if case.is_file() {
        return Ok(case);
    }
    let named = sh::root().join("lab/cases").join(case.with_extension("sh"));
    named.is_file().then_some(named).with_context(|| format!("there is no case {}", case.display()))
}

/// Those that run without being asked for.
fn usual(mut scripts: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let long = long_of(&scripts)?;
    scripts.retain(|script| !long.contains(script));
    Ok(scripts)
}

/// The long ones among some scripts.
fn long_of(scripts: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let chosen = scripts.iter().map(|script| Ok(plan::is_long(script)?.then(|| script.clone())));
    chosen.filter_map(Result::transpose).collect()
}

/// Prints the names of all long cases, and what each says of itself.
pub(super) fn list_long() -> Result<()> {
    for script in long_of(&scripts_in("cases")?)? {
        println!("{}\t{}", plan::name_of(&script), plan::about(&script)?);
    }
    Ok(())
}

/// All scripts of the lab, in order.
pub(super) fn all_scripts() -> Result<Vec<PathBuf>> {
    Ok([scripts_in("cases")?, scripts_in("measure")?, scripts_in("hosts")?].concat())
}

fn scripts_in(dir: &str) -> Result<Vec<PathBuf>> {
    let dir = sh::root().join("lab").join(dir);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut scripts = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "sh"));
    scripts.sort();
    Ok(scripts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cases_wait_until_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let [short, long] =
            [("short.sh", "smp=2"), ("long.sh", "smp=2 long")].map(|(name, head)| {
                let script = dir.path().join(name);
                fs::write(&script, format!("#!/bin/sh\n# lab: {head}\n")).unwrap();
                script
            });
        let all = vec![long.clone(), short.clone()];
        assert_eq!(long_of(&all).unwrap(), [long]);
        assert_eq!(usual(all).unwrap(), [short]);
    }

    #[test]
    fn small_groups_come_first_and_in_each_the_longest_cases() {
        let dir = tempfile::tempdir().unwrap();
        let plan = |cases: &[(&str, u32)]| {
            let scripts: Vec<PathBuf> = cases
                .iter()
                .map(|(name, limit)| {
                    let script = dir.path().join(name).with_extension("sh");
                    fs::write(&script, format!("#!/bin/sh\n# lab: timeout={limit}\n")).unwrap();
                    script
                })
                .collect();
            Plan::new(&scripts, &Options::default(), &[]).unwrap()
        };
        let plans = [plan(&[("a", 10), ("b", 30), ("c", 20)]), plan(&[("d", 1)])];
        let took = |name: &str| (name == "a").then_some(25.0);
        let order: Vec<(usize, &str)> =
            in_order(&plans, took).iter().map(|(group, case)| (*group, &*case.name)).collect();
        assert_eq!(order, [(1, "d"), (0, "b"), (0, "a"), (0, "c")]);
    }

    #[test]
    fn counts_by_the_exit_status() {
        let mut count = Count::default();
        for (outcome, word) in [
            (Outcome::Exited(0), PASSED),
            (Outcome::Exited(77), SKIPPED),
            (Outcome::Exited(1), "FAILED"),
            (Outcome::Died(String::new()), "DIED"),
        ] {
            assert_eq!(verdict(&outcome, &mut count), word);
        }
        assert_eq!(count, Count { passed: 1, failed: 2, skipped: 1 });
    }
}
