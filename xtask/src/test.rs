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
    steps::{self, Step},
    times,
};

/// Limits are for what hangs; the usual durations are in docs/contributing/testing.md.
const LIMIT: Duration = Duration::from_secs(30 * 60);

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
    let mut selected = check::steps()?;
    selected.extend(tests()?);
    if !args.quick {
        selected.extend(dear_tests()?);
    }
    if let Some(filter) = &args.filter {
        selected.retain(|step| step.name.contains(filter.as_str()));
        ensure!(!selected.is_empty(), "no step's name contains {filter:?}");
    }
    finish(selected)
}

/// Runs the steps of `cargo xtask check`.
pub fn check() -> Result<ExitCode> {
    let mut steps = check::steps()?;
    steps.push(check::structure());
    finish(steps)
}

fn finish(selected: Vec<Step>) -> Result<ExitCode> {
    let count = steps::run(selected)?;
    println!("\n{count}");
    Ok(if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Becomes a test program that tells what each test took.
pub fn run_program(program: &Path, args: &[OsString]) -> Result<ExitCode> {
    let mut command = Command::new(program);
    times::timed(program, command.args(args));
    sh::replace(&mut command)
}

/// The tests of all crates and of this program, the rules of the house among them. One command for all, so that what they depend on is
/// built once, with the features that they need together.
fn tests() -> Result<Vec<Step>> {
    let mut workspace = of_workspace()?;
    workspace.args(["--no-fail-fast", "--", "--show-output"]);
    let mut models = sh::cargo("test");
    models.args(["-p", "weft-io", "--lib", "--locked", "model::"]);
    models.env("RUSTFLAGS", "--cfg loom -D warnings").env("CARGO_TARGET_DIR", sh::target_dir().join("loom"));
    Ok(vec![
        Step { name: "setup", command: sh::chore(&["setup"])?, limit: LIMIT },
        Step { name: "workspace", command: workspace, limit: LIMIT * 3 / 2 },
        Step { name: "models", command: models, limit: LIMIT },
        Step { name: "sim", command: sh::chore(&["sim", "--keep-going", "--count", sim::TEST_SEEDS])?, limit: LIMIT },
    ])
}

/// `cargo test` with the features that all crates need together, and with the time of each test.
fn of_workspace() -> Result<Command> {
    let mut command = sh::cargo("test");
    command.args(["--workspace", "--locked"]);
    let runner = env::current_exe().context("cannot find this program")?;
    command.args(["--config", &format!("target.'cfg(all())'.runner = ['{}', 'run-test']", runner.display())]);
    Ok(command)
}

/// What needs more than Rust: a C++ compiler, a virtual machine, a release build, a cross-compiler and Wine.
fn dear_tests() -> Result<Vec<Step>> {
    let chore = |name, args: &[&str]| Ok::<_, anyhow::Error>(Step { name, command: sh::chore(args)?, limit: LIMIT });
    // The lab's machine as the host of a test's own processes.
    let mut gateways = of_workspace()?;
    gateways.args(["--test", "gateways", "--", "--show-output", "--ignored", "kernel::"]);
    Ok(vec![
        chore("fuzz", &["fuzz", "smoke"])?,
        chore("lab-setup", &["lab", "setup"])?,
        chore("lab", &["lab", "test"])?,
        Step { name: "lab-gateways", command: gateways, limit: LIMIT },
        chore("race", &["race", "--small"])?,
        chore("gates", &["race", "--gates", "--small"])?,
        chore("windows-setup", &["windows", "setup"])?,
        chore("windows", &["windows", "test"])?,
    ])
}
