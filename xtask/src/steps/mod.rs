//! Running steps: a row for each when it ends, a log for each, one verdict at the end.
//!
//! Tests mostly wait, and builds never do. So steps of the two kinds run at the same time, and the
//! builds give way.

mod budget;
mod process;
mod results;
mod step;

use std::{
    fs,
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use anyhow::{Context, Result};
use plan::{Known, Run};

use crate::{sh, steps::budget::Gauge, times};
pub use process::{Ended, Limit, giving_way, interrupted, run_limited, run_lines};
pub use results::Results;
pub use step::{Step, Turn, Work};

/// The exit status of an interrupted run, as shells have it for Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs all steps, whether or not one fails, and prints a row for each, what failed, what was
/// skipped, and the counts of all. `run` is given for a whole run, whose duration is kept.
///
/// Where the environment has `CI` set, what was skipped is counted as failed.
pub fn run(steps: Vec<Step>, run: Option<Run>) -> Result<ExitCode> {
    let logs = sh::target_dir().join("xtask/logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    ctrlc::set_handler(process::interrupt).context("cannot handle Ctrl-C")?;
    println!("logs: {}\n", logs.display());
    results::heading();
    let (start, cpu, gauge) = (Instant::now(), times::cpu_of_children(), Gauge::start());
    let results = Results::new(logs, Known::read(&sh::target_dir()));
    for stretch in stretches(steps) {
        run_stretch(stretch, &results)?;
    }
    let cpu = times::cpu_of_children() - cpu;
    results::row("all", "", start.elapsed(), cpu, "");
    let failed = results.finish(run, start.elapsed(), gauge.cost(cpu))?;
    Ok(match (interrupted(), failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
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
    let mut lanes = [Vec::new(), Vec::new(), Vec::new()];
    let mut builds_programs = false;
    for step in stretch {
        builds_programs |= matches!(step.work, Work::Own(_));
        let lane = match step.turn {
            Turn::Alone | Turn::Tests => 0,
            Turn::Builds => 1,
            Turn::Built => 2,
        };
        lanes[lane].push(step);
    }
    if builds_programs {
        results.expect_build();
    }
    let [tests, builds, built] = lanes;
    let gives_way = !tests.is_empty();
    let lower =
        |steps: Vec<Step>| steps.into_iter().try_for_each(|step| run_one(step, gives_way, results));
    thread::scope(|scope| {
        let builds = scope.spawn(|| lower(builds));
        let built = scope.spawn(|| {
            results.wait_until_built();
            lower(built)
        });
        let tests = tests.into_iter().try_for_each(|step| run_one(step, false, results));
        // Nothing waits for a build that will not come.
        results.set_built();
        let others = [builds, built].map(|lane| lane.join().expect("it does not panic"));
        others.into_iter().fold(tests, Result::and)
    })
}

/// Runs one step and prints its rows.
fn run_one(step: Step, gives_way: bool, results: &Results) -> Result<()> {
    match step.work {
        Work::Own(run) => match run(results) {
            Err(error) => results.fail(step.name, &error),
            Ok(()) => Ok(()),
        },
        Work::Command(command) => {
            let command = if gives_way { giving_way(command) } else { command };
            run_command(step.name, command, results)
        }
    }
}

/// Runs a command as a step or as a part of one, and reports it.
pub fn run_command(name: &str, command: Command, results: &Results) -> Result<()> {
    let log = results.log(name)?;
    let ended = process::run(name, command, &log)?;
    results.report(name, &ended, &log)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn step(name: &'static str, turn: Turn) -> Step {
        Step::command(name, turn, Command::new("true"))
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
        let results = Results::new(directory.path().into(), Known::read(directory.path()));
        // Each waits until the other one has begun.
        let meet = |own: &str, other: &str| {
            let mut command = Command::new("sh");
            command
                .args(["-c", &format!("cut -d' ' -f 19 /proc/$$/stat; touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo test $MARK ... ok; echo 'test result: ok. 1 passed'")]);
            command.env("MARK", own).current_dir(directory.path());
            command
        };
        let tests = Step::command("tests", Turn::Tests, meet("one", "two"));
        let builds = Step::command("builds", Turn::Builds, meet("two", "one"));
        run_stretch(vec![tests, builds], &results).unwrap();
        let log =
            |name: &str| fs::read_to_string(directory.path().join(format!("{name}.log"))).unwrap();
        let niceness = |name: &str| log(name).lines().next().unwrap().parse::<i32>().unwrap();
        assert!(niceness("tests") < niceness("builds"));
        assert_eq!(results.count().passed, 2);
    }
}
