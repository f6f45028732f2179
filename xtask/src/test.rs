//! `cargo xtask test`: everything that the project knows to ask of itself, in one table.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use plan::Run;

use crate::{
    built, check,
    programs::{self, Part},
    sh, sim,
    steps::{self, Step, Turn, Work},
};

/// The tests to run.
#[derive(Args)]
pub struct TestArgs {
    /// Also those that need root, packages, other toolchains, emulated machines, or much time
    #[arg(long, conflicts_with_all = ["rest", "filter"])]
    all: bool,
    /// Those of --all that are not run without it
    #[arg(long, conflicts_with = "filter")]
    rest: bool,
    /// Only the steps whose names contain this
    filter: Option<String>,
}

/// Runs the steps and closes with the count of all tests.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    if let Some(filter) = &args.filter {
        let mut selected = selected(Run::All)?;
        selected.retain(|step| step.name.contains(filter.as_str()));
        ensure!(!selected.is_empty(), "no step's name contains {filter:?}");
        return steps::run(selected, None);
    }
    let run = match (args.all, args.rest) {
        (true, _) => Run::All,
        (_, true) => Run::Rest,
        _ => Run::Product,
    };
    steps::run(selected(run)?, Some(run))
}

/// The steps of a run.
fn selected(run: Run) -> Result<Vec<Step>> {
    let mut steps = every()?;
    steps.retain(|step| plan::named(step.name).is_some_and(|planned| run.has(planned)));
    Ok(steps)
}

/// All steps, in their order.
fn every() -> Result<Vec<Step>> {
    let mut steps = check::forms()?;
    steps.extend([
        chore("lab-setup", Turn::Tests, &["lab", "setup"])?,
        chore("windows-setup", Turn::Builds, &["windows", "setup"])?,
        of_programs("workspace", Turn::Tests, Part::Together),
        simulator("sim", sim::TEST_SEEDS, &[])?,
        examples(),
        of_programs("alone", Turn::Alone, Part::Alone),
        simulator("sim-more", sim::MORE_SEEDS, &["--without-kept"])?,
        of_programs("peers", Turn::Tests, Part::Rest),
        of_programs("lab-tools", Turn::Tests, Part::Tools),
        chore("lab", Turn::Tests, &["lab", "test"])?,
        of_programs("lab-gateways", Turn::Tests, Part::Lab),
        chore("windows-build", Turn::Builds, &["windows", "build-tests"])?,
        // Wine refuses to start programs where others take as much of the processors, and builds give
        // way. Its tests wait most of the time.
        chore("windows", Turn::Tests, &["windows", "test"])?,
        chore("fuzz-build", Turn::Builds, &["fuzz", "build"])?,
        models()?,
    ]);
    steps.extend(check::lints()?);
    steps.extend([
        chore("aarch64", Turn::Builds, &["aarch64", "check"])?,
        chore("python", Turn::Builds, &["package", "python", "--fast", "--test"])?,
        chore("fuzz", Turn::Alone, &["fuzz", "smoke"])?,
        // What they count must not depend on load, and their figures are printed.
        chore("race", Turn::Alone, &["race", "--small"])?,
        chore("gates", Turn::Alone, &["race", "--gates", "--small"])?,
    ]);
    Ok(steps)
}

/// Runs the steps of `cargo xtask check`.
pub fn check() -> Result<ExitCode> {
    let mut steps = check::forms()?;
    steps.push(check::structure());
    steps.extend(check::lints()?);
    steps::run(steps, None)
}

/// Another task of this program, as a step.
fn chore(name: &'static str, turn: Turn, args: &[&str]) -> Result<Step> {
    Ok(Step::command(name, turn, sh::chore(args)?))
}

/// Test programs of the workspace, as a step.
fn of_programs(name: &'static str, turn: Turn, part: Part) -> Step {
    let run = move |results: &steps::Results| programs::run(name, part, results);
    Step { name, work: Work::Own(Box::new(run)), turn }
}

/// The examples in the documentation of the crates.
fn examples() -> Step {
    let mut command = sh::cargo("test");
    command.args(["--workspace", "--doc", "--locked"]);
    Step::command("examples", Turn::Built, command)
}

fn models() -> Result<Step> {
    let mut command = sh::cargo("test");
    command.args(built::without_optimization()?);
    command.args([
        "-p",
        "weft-io",
        "-p",
        "weft-block",
        "--features",
        "weft-io/loom,weft-block/loom",
    ]);
    command.args(["--lib", "--locked", "model::"]);
    Ok(Step::command("models", Turn::Builds, command))
}

fn simulator(name: &'static str, [from, count]: [&str; 2], more: &[&str]) -> Result<Step> {
    let jobs = sh::cores().to_string();
    let mut args = vec!["sim", "--as-tests", "--keep-going"];
    args.extend(["--from", from, "--count", count, "--jobs", &jobs]);
    args.extend(more);
    chore(name, Turn::Built, &args)
}

/// The arguments of a step's command, for tests of the table.
#[cfg(test)]
fn arguments(command: &std::process::Command) -> Vec<String> {
    command.get_args().map(|it| it.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_place_in_the_plan() {
        let steps: Vec<&str> = every().unwrap().iter().map(|step| step.name).collect();
        let mut planned: Vec<&str> = plan::STEPS.iter().map(|step| step.name).collect();
        let mut sorted = steps.clone();
        sorted.sort_unstable();
        planned.sort_unstable();
        assert_eq!(sorted, planned);
    }

    #[test]
    fn the_seeds_are_those_of_the_commit_and_not_of_the_clock() {
        let Work::Command(command) = simulator("sim", sim::TEST_SEEDS, &[]).unwrap().work else {
            panic!("it is a command")
        };
        let arguments = arguments(&command);
        let from =
            arguments.iter().position(|it| it == "--from").map(|at| arguments[at + 1].as_str());
        assert_eq!(from, Some(sim::TEST_SEEDS[0]), "{arguments:?}");
    }
}
