//! `cargo xtask test`: everything that the project knows to ask of itself, in one table.

use std::{
    env,
    ffi::OsString,
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    check, sh, sim,
    steps::{self, Step, Turn},
    times, tools,
};

/// Limits are for what hangs.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// How to run fewer steps, said where all are run.
const LESS: &str = "\nless: `cargo xtask test --quick` needs no virtual machine, no Windows toolchain and no fuzzer; `cargo xtask test lab` runs the steps with that in their names";

/// Which tests to run.
#[derive(Args)]
pub struct TestArgs {
    /// Only what needs no virtual machine, no Windows toolchain and no fuzzer
    #[arg(long)]
    quick: bool,
    /// Only the steps whose names contain this
    filter: Option<String>,
}

/// Runs the steps and closes with the count of all tests.
pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let mut selected = selected(args.quick)?;
    if let Some(filter) = &args.filter {
        selected.retain(|step| step.name.contains(filter.as_str()));
        ensure!(!selected.is_empty(), "no step's name contains {filter:?}");
    }
    finish(selected, if args.quick || args.filter.is_some() { "" } else { LESS })
}

/// All steps, or those that need nothing special.
fn selected(quick: bool) -> Result<Vec<Step>> {
    let mut selected = check::forms()?;
    selected.push(chore("setup", Turn::Alone, &["setup"])?);
    if !quick {
        // It mostly fetches and unpacks, so the builds begin beside it.
        selected.push(chore("lab-setup", Turn::Tests, &["lab", "setup"])?);
        selected.push(chore("windows-setup", Turn::Builds, &["windows", "setup"])?);
    }
    selected.extend([workspace()?, lab_tools()?]);
    if !quick {
        selected.extend(dear_tests()?);
    }
    selected.extend([models(), simulator()?]);
    selected.extend(check::lints()?);
    if !quick {
        selected.push(chore("fuzz", Turn::Alone, &["fuzz", "smoke"])?);
        selected.push(chore("windows", Turn::Alone, &["windows", "test"])?);
        // What they count must not depend on load, and their figures are printed.
        selected.push(chore("race", Turn::Alone, &["race", "--small"])?);
        selected.push(chore("gates", Turn::Alone, &["race", "--gates", "--small"])?);
    }
    Ok(selected)
}

/// Runs the steps of `cargo xtask check`.
pub fn check() -> Result<ExitCode> {
    let mut steps = check::forms()?;
    steps.push(check::structure());
    steps.extend(check::lints()?);
    finish(steps, "")
}

fn finish(selected: Vec<Step>, less: &str) -> Result<ExitCode> {
    let count = steps::run(selected, less)?;
    println!("\n{count}");
    Ok(if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Becomes a test program that tells what each test took.
pub fn run_program(program: &Path, args: &[OsString]) -> Result<ExitCode> {
    let mut command = Command::new(program);
    times::timed(program, command.args(args));
    sh::replace(&mut command)
}

/// Another task of this program, as a step.
fn chore(name: &'static str, turn: Turn, args: &[&str]) -> Result<Step> {
    Ok(Step { name, command: sh::chore(args)?, limit: LIMIT, turn })
}

/// The tests of all crates and of this program, the rules of the house among them. One command for
/// all, so that what they depend on is built once, with the features that they need together.
fn workspace() -> Result<Step> {
    let mut command = of_workspace()?;
    command.args(["--no-fail-fast", "--", "--show-output"]);
    Ok(Step { name: "workspace", command, limit: LIMIT, turn: Turn::Tests })
}

/// The tests of the lab's tools.
fn lab_tools() -> Result<Step> {
    let mut command = timed(tools::cargo("test"))?;
    command.args(["--workspace", "--no-fail-fast", "--", "--show-output"]);
    Ok(Step { name: "lab-tools", command, limit: LIMIT, turn: Turn::Tests })
}

/// `cargo test` with the features that all crates need together, and with the time of each test.
fn of_workspace() -> Result<Command> {
    let mut command = timed(sh::cargo("test"))?;
    command.args(["--workspace", "--locked"]);
    Ok(command)
}

/// A `cargo test` that tells the time of each test.
fn timed(mut command: Command) -> Result<Command> {
    let runner = env::current_exe().context("cannot find this program")?;
    command.args([
        "--config",
        &format!("target.'cfg(all())'.runner = ['{}', 'run-test']", runner.display()),
    ]);
    Ok(command)
}

fn models() -> Step {
    let mut command = sh::cargo("test");
    command.args(["-p", "weft-io", "-p", "weft-block", "--lib", "--locked", "model::"]);
    command
        .env("RUSTFLAGS", "--cfg loom -D warnings")
        .env("CARGO_TARGET_DIR", sh::target_dir().join("loom"));
    Step { name: "models", command, limit: LIMIT, turn: Turn::Builds }
}

fn simulator() -> Result<Step> {
    let [from, count] = sim::TEST_SEEDS;
    chore(
        "sim",
        Turn::Builds,
        &[
            "sim",
            "--as-tests",
            "--keep-going",
            "--from",
            from,
            "--count",
            count,
            "--jobs",
            &sh::cores().to_string(),
        ],
    )
}

/// What needs more than Rust: a virtual machine, a C++ compiler, a cross-compiler and Wine.
fn dear_tests() -> Result<Vec<Step>> {
    // The lab's machine as the host of a test's own processes.
    let mut gateways = of_workspace()?;
    gateways.args(["--test", "cli", "--", "--show-output", "--ignored", "gateways::kernel::"]);
    Ok(vec![
        chore("lab", Turn::Tests, &["lab", "test"])?,
        Step { name: "lab-gateways", command: gateways, limit: LIMIT, turn: Turn::Tests },
        chore("fuzz-build", Turn::Builds, &["fuzz", "build"])?,
        chore("windows-build", Turn::Builds, &["windows", "build-tests"])?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_what_every_step_usually_takes() {
        for step in selected(false).unwrap().iter().chain(&[check::structure()]) {
            assert!(steps::plan::usual(step.name).is_some(), "{}", step.name);
        }
    }

    #[test]
    fn the_seeds_are_those_of_the_commit_and_not_of_the_clock() {
        let step = simulator().unwrap();
        let arguments: Vec<_> =
            step.command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
        let from =
            arguments.iter().position(|it| it == "--from").map(|at| arguments[at + 1].as_str());
        assert_eq!(from, Some(sim::TEST_SEEDS[0]), "{arguments:?}");
    }
}
