//! Running steps: a row for each when it ends, a log for each, one verdict at the end.
//!
//! Tests mostly wait, and builds never do. So steps of the two kinds run beside each other, and the
//! builds give way.

pub mod plan;
mod process;
mod step;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    count::{Count, Tally},
    excerpt, sh,
    times::{self, Timed},
};
use plan::Known;
use process::Ended;
pub use process::run as run_program;
pub use step::{Step, Turn};

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// What the tests of all steps have given so far.
#[derive(Default)]
struct SoFar {
    count: Count,
    tests: Vec<Timed>,
    /// Names of tests, and of steps that failed without one.
    failed: Vec<String>,
}

/// What all steps have given so far.
struct Results {
    logs: PathBuf,
    strict: bool,
    /// Held while a step's rows are printed.
    so_far: Mutex<SoFar>,
    /// What the steps took, and where that is kept.
    known: Mutex<(Known, PathBuf)>,
}

/// Runs all steps, whether or not one fails, prints what it will do, what each and the slowest
/// tests took, and returns the counts of all. `less` says how to run fewer of them.
///
/// Where the environment has `CI` set, what was skipped is counted as failed.
pub fn run(steps: Vec<Step>, less: &str) -> Result<Count> {
    let logs = sh::target_dir().join("xtask/logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    ctrlc::set_handler(interrupted).context("cannot handle Ctrl-C")?;
    let (stretches, took) = (stretches(steps), sh::target_dir().join("xtask/took"));
    let known = Known::read(&took);
    println!("{}{less}\nlogs: {}\n", plan::announcement(&stretches, &known), logs.display());
    println!("{:<22} {:<8} {:>9} {:>9}  tests", "step", "result", "seconds", "processor");
    let strict = env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    let (start, cpu) = (Instant::now(), times::cpu_of_children());
    let (so_far, known) = (Mutex::default(), Mutex::new((known, took)));
    let results = Results { logs, strict, so_far, known };
    for stretch in stretches {
        run_stretch(stretch, &results)?;
    }
    row("all", "", start.elapsed(), times::cpu_of_children() - cpu, "");
    let SoFar { count, tests, failed } =
        results.so_far.into_inner().context("a step's thread panicked")?;
    times::print_slowest(tests);
    // Once more at the end: the rest is long, and is often cut.
    failed.iter().for_each(|name| println!("failed: {name}"));
    Ok(count)
}

/// The steps in their order, those together that may run at the same time.
fn stretches(steps: Vec<Step>) -> Vec<Vec<Step>> {
    let mut stretches: Vec<Vec<Step>> = Vec::new();
    for step in steps {
        match stretches.last_mut() {
            Some(last) if step.turn != Turn::Alone && last[0].turn != Turn::Alone => {
                last.push(step)
            }
            _ => stretches.push(vec![step]),
        }
    }
    stretches
}

/// Runs the builds of a stretch beside the rest of it.
fn run_stretch(stretch: Vec<Step>, results: &Results) -> Result<()> {
    let (builds, others): (Vec<_>, Vec<_>) =
        stretch.into_iter().partition(|step| step.turn == Turn::Builds);
    let beside = !others.is_empty();
    thread::scope(|scope| {
        let builds = scope.spawn(move || {
            // How long what gives way takes is up to the others.
            let later = |step: Step| Step {
                command: process::giving_way(step.command),
                limit: step.limit * 2,
                ..step
            };
            let lowered = |step: Step| if beside { later(step) } else { step };
            builds.into_iter().try_for_each(|step| run_one(lowered(step), results))
        });
        let others = others.into_iter().try_for_each(|step| run_one(step, results));
        builds.join().expect("it does not panic").and(others)
    })
}

/// Runs one step and prints its row.
fn run_one(step: Step, results: &Results) -> Result<()> {
    let path = results.logs.join(format!("{}.log", step.name));
    let ended = process::run(step.name, step.command, step.limit, &path)?;
    let log = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let tally = Tally::of(&log);
    let verdict = verdict(ended.status, tally.count);
    let mut so_far = results.so_far.lock().expect("no one panics with it");
    so_far.count += counted(verdict, tally.count, results.strict);
    let tests = times::of(step.name, &log);
    let mut failed = times::failed(&tests);
    if verdict == Verdict::Failed && failed.is_empty() {
        failed.push(step.name.into());
    }
    so_far.tests.extend(tests);
    so_far.failed.extend(failed);
    if verdict == Verdict::Passed {
        let (known, path) = &mut *results.known.lock().expect("no one panics with it");
        known.remember(step.name, ended.elapsed, path);
    }
    report(step.name, verdict, &ended, tally.count);
    explain(verdict, &tally, &log, &path, results.strict);
    Ok(())
}

/// What the exit status and the counted tests say together.
fn verdict(status: Option<ExitStatus>, tests: Count) -> Verdict {
    match status.and_then(|status| status.code()) {
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
        Verdict::Failed if tests.failed == 0 => count.failed = 1,
        Verdict::Skipped if tests.skipped == 0 => count.skipped = 1,
        _ => {}
    }
    if strict {
        count.failed += std::mem::take(&mut count.skipped);
    }
    count
}

/// Prints a step's row of the table.
fn report(name: &str, verdict: Verdict, ended: &Ended, tests: Count) {
    let word = match verdict {
        Verdict::Passed => "ok",
        Verdict::Failed => "FAILED",
        Verdict::Skipped => "skipped",
    };
    let tests = if tests.total() == 0 { String::new() } else { tests.to_string() };
    row(name, word, ended.elapsed, ended.cpu, &tests);
}

fn row(name: &str, word: &str, elapsed: Duration, cpu: Duration, tests: &str) {
    println!(
        "{name:<22} {word:<8} {:>9.1} {:>9.1}  {tests}",
        elapsed.as_secs_f64(),
        cpu.as_secs_f64()
    );
}

/// Prints why a step failed, or what it missed.
fn explain(verdict: Verdict, tally: &Tally, log: &str, path: &Path, strict: bool) {
    let consequence = if strict { " (a failure, since CI is set)" } else { "" };
    for reason in &tally.reasons {
        println!("  skipped{consequence}: {reason}");
    }
    if verdict == Verdict::Failed {
        println!("  --- from {} ---", path.display());
        for line in excerpt::of(log) {
            println!("  | {line}");
        }
    }
}

/// Ends the running steps together with this process.
fn interrupted() {
    process::end_all();
    eprintln!("interrupted");
    std::process::exit(130);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn step(name: &'static str, turn: Turn) -> Step {
        Step { name, command: Command::new("true"), limit: Duration::from_secs(60), turn }
    }

    #[test]
    fn only_steps_between_lone_ones_run_together() {
        let steps = [
            ("a", Turn::Alone),
            ("b", Turn::Alone),
            ("c", Turn::Tests),
            ("d", Turn::Builds),
            ("e", Turn::Tests),
            ("f", Turn::Alone),
        ];
        let stretches = stretches(steps.into_iter().map(|(name, turn)| step(name, turn)).collect());
        let names: Vec<Vec<_>> =
            stretches.iter().map(|steps| steps.iter().map(|step| step.name).collect()).collect();
        assert_eq!(names, [vec!["a"], vec!["b"], vec!["c", "d", "e"], vec!["f"]]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn builds_run_beside_tests_and_give_way() {
        let directory = tempfile::tempdir().unwrap();
        let known = Mutex::new((Known::read(directory.path()), directory.path().join("took")));
        let results = Results {
            logs: directory.path().into(),
            strict: true,
            so_far: Mutex::default(),
            known,
        };
        // Each waits until the other one has begun.
        let meet = |own: &str, other: &str| {
            let mut command = Command::new("sh");
            command
                .args(["-c", &format!("cut -d' ' -f 41 /proc/$$/stat; touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo test $MARK ... ok")]);
            command.env("MARK", own).current_dir(directory.path());
            command
        };
        let tests = Step { command: meet("one", "two"), ..step("tests", Turn::Tests) };
        let builds = Step { command: meet("two", "one"), ..step("builds", Turn::Builds) };
        run_stretch(vec![tests, builds], &results).unwrap();
        let said =
            |name: &str| fs::read_to_string(directory.path().join(format!("{name}.log"))).unwrap();
        // The policy: SCHED_OTHER is 0, SCHED_IDLE is 5.
        let policy = |name: &str| said(name).lines().next().unwrap().parse::<i32>().unwrap();
        assert_eq!((policy("tests"), policy("builds")), (0, 5));
        assert!(said("builds").ends_with("test two ... ok\n"), "{}", said("builds"));
        let count = results.so_far.into_inner().unwrap().count;
        assert_eq!((count.passed, count.failed), (2, 0));
    }

    #[test]
    fn what_passes_its_limit_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("600");
        let ended = process::run("long", command, Duration::ZERO, &directory.path().join("log"));
        assert!(ended.unwrap().status.is_none());
    }
}
